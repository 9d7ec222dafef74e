"""How a story ends: what happened is asked for and told at home, until the story closes.

The actors: a, b, x, y as in the event, and g, the grown-up at home.
"""

from __future__ import annotations

from txf.data.storyworld import lexicon  # noqa: F401 (templates use its lists)
from txf.data.storyworld.lists import define, shapes

define(
    "WAITING",
    "waiting at the door:2 | in the kitchen:2 | baking bread | reading the paper "
    "| sitting by the fire | peeling carrots | feeding the hens | washing up "
    "| playing the piano | mending socks | sweeping the stairs | watering the flowers",
)
define("SUPPERTIME", "supper:2 | bedtime:2 | teatime | sunset")
HOME = shapes(
    "HOME",
    """
    2 home | When they came home, {g=GROWNUPS/giver} was {=WAITING}.
    2 home | At {=SUPPERTIME}, {g=GROWNUPS/giver} wanted to hear all about it.
    1 home | {a} and {b} {=WENT} home, where {g=GROWNUPS/giver} was {=WAITING}.
    """,
    before="\n",
)

define("GLADDENED", "smiled:2 | laughed:2 | nodded | clapped | hugged them both:2 | was {=HAPPY}:2")
define(
    "TREATS",
    "hot milk:2 | a big kiss:2 | a slice of bread | warm cocoa:2 | some nuts | a cup of tea "
    "| raisins | a bowl of cherries | clean socks | lemonade | a piece of chocolate",
)
define(
    "BESIDE",
    "on the shelf:2 | under the pillow:2 | by the window | next to the lamp "
    "| at the foot of the bed | in the cupboard | on a chair",
)
TALK = shapes(
    "TALK",
    """
    3 place | "Where did you go?" asked {g}. "To the {place}," said {=SPEAKERS} {=HOW}.
    1 place | "What was the best place today?" asked {g}. "The {place}," said {=SPEAKERS} {=HOW}.
    3 act | "What did you do all day?" asked {g}. "We {act}," {=SPEAKERS} told {g.him} {=HOW}.
    2 found_b | "Did you lose anything?" asked {g}. "Yes, but {b!} found my {at} {nook}," said {a!}.
    2 found_b | "Who found your {at}, {a!}?" asked {g}. "{b!} did. It was {nook}," said {a!}.
    3 found_who | "Who found your {at}, {a!}?" asked {g}. "The {who!}," said {a!}. "It was {nook}."
    3 tool | "How did you get the {at} down?" asked {g}. "With a {tool}," said {=SPEAKERS} {=HOW}.
    3 mended | "Why is there {tool} on your {at}, {a!}?" asked {g}. "{b} helped me mend it," said
        {a!}.
    2 swapped | "Where is your {at}, {a!}?" asked {g}. "I gave it to {b!}," said {a!} {=HOW}.
    2 swapped | "Whose {bt} is that, {a!}?" asked {g}. "It was {b!}'s, but now it is mine," said
        {a!}.
    2 swapped | "What colour is the {at}, {b!}?" asked {g}. "It is {ac}," said {b!} {=HOW}.
    3 eaten | "Did you eat your {food}, {x!}?" asked {g}. "Yes, and {y!} had half of it," said {x!}.
    3 stolen | "Did you eat your {food}, {x!}?" asked {g}. "No, a {thief} did," said {x!} {=HOW}.
    3 stays | "What is the name of your {animal}?" asked {g}. "{pet}," said {=SPEAKERS} {=HOW}.
    3 leaves | "Where did you see the {animal}?" asked {g}. "It was {den}," {=SPEAKERS} said.
    3 hide | "Where did you hide, {y!}?" asked {g}. "I was {hidden}," said {y!} {=HOW}.
    3 won | "Who won the race to the {goal}?" asked {g}. "{x!} did," said {y!} {=HOW}.
    2 box | "Which box had the {treasure} in it?" asked {g}. "The {right} one," said {y!} {=HOW}.
    1 box | "Who told you where to look, {y!}?" asked {g}. "{x!} did," said {y!} {=HOW}.
    2 bt | "What colour is your {bt}, {b!}?" asked {g}. "My {bt} is {bc}," {b} told {g.him}.
    2 at | "Do you still have your {at}, {a!}?" asked {g}. {a} held up the {ac} {at}.
    12 close | {g} {=GLADDENED} and gave them {=TREATS}.
    8 close | "What {trait.a} {trait} {a.girl} you are, {a!}," said {g}, and {g.he} {=GLADDENED}.
    16 fav | For supper they had {fav}, because {a} liked it so much.
    12 bed | Then it was time for bed, and {a} put the {ac} {at} {=BESIDE}.
    8 giver | In bed {a} thought of {giver}, who had given {a.him} the {at}.
    """,
)

define("SLEPT", "slept well:2 | slept soundly | dreamed happy dreams | fell asleep at once")
define("GREAT", "great:2 | lovely:2 | exciting | long | wonderful:2 | unusual")
define(
    "TOMORROW",
    "do it all again:2 | go back to the {place}:2 | stay at home | sleep until noon "
    "| have another adventure",
)
FINAL = shapes(
    "FINAL",
    """
    2 | From that day on, {a} and {b} were the best of friends.
    2 | {a} {=SLEPT} that night.
    5 | That night {a} dreamed of {a =ADJECTIVES} {=SIGHTS} with {=COUNTS} {=MANNERS} {=CROWDS}.
    3 | They all dreamed of {=COUNTS} {=MANNERS} {=CROWDS} that night.
    2 | It had been {a =GREAT} day for {a} and {b}.
    1 | And {a} never forgot that day {place.in} the {place}.
    1 | The end.
    2 | "Tomorrow we will {=TOMORROW}," {=SPEAKERS} said {=HOW}, and everybody was {=HAPPY}.
    """,
)
