"""The sentence shapes of the storyworld, in the order in which a story comes to them.

Each list holds (weight, template, value); the value tells world.py what happened.  The actors are
a (the hero), b (the other child), g (the grown-up at home), who (a passer-by); x and y stand for
a and b in the order of their roles (finder and owner, seeker and hidden, winner and loser).
"""

from __future__ import annotations

from txf.data.storyworld.grammar import Choice, Option
from txf.data.storyworld.lexicon import define


def shapes(name: str, *options: tuple[int, str] | tuple[int, str, str]) -> Choice:
    """Make a list of sentence shapes that templates and world.py know by this name."""
    return define(name, [Option(o[1], o[0], o[2] if len(o) == 3 else None) for o in options])


def merged(name: str, *parts: tuple[int, Choice]) -> Choice:
    """Make one list of several, the weights of each multiplied by its factor."""
    options = [
        Option(o.template, o.weight * factor, o.value)
        for factor, part in parts
        for o in part.options
    ]
    return define(name, options)


def roles(weight: int, template: str, value: str) -> list[tuple[int, str, str]]:
    """Return a shape twice, with a and b in the roles X and Y, and with b and a."""
    return [
        (weight, template.replace("{X", "{a").replace("{Y", "{b"), value + "_a"),
        (weight, template.replace("{X", "{b").replace("{Y", "{a"), value + "_b"),
    ]


# Words for a single slot, by the shapes that use them.
define("SPEAKERS", "{a} | {b}")
define("PLEASANT", "lovely:2 | quiet | peaceful | warm | nice | pleasant | cool | busy")
define("CRIED", "cried:3 | called:2 | shouted:2 | gasped")
define("TEAR", "big tear:2 | tear | salty tear")
define("FACE", "cheek:3 | nose | face:2")
define("CAME", "came:3 | walked:2 | rode | passed | hurried | strolled")
define(
    "SHOOK",
    "shook the tree:2 | pulled at a branch | threw a stick | climbed a little | tried to reach it",
)
define("MOVE", "move:2 | come down:2 | fall")
define("GOT", "got:3 | brought | pulled | fished")
define("IN_TWO", "in two:2 | into three pieces | with a crack | at once")
define("VERY", "Very:2 | A little | Yes, I am:2 | Oh yes")
define("CUT", "cut:2 | broke:2 | tore | split")
define("BIGGER", "bigger:2 | larger | smaller | better | other:2")
define("GONE", "it was all gone:2 | not a crumb was left:2 | they were full | nothing was left")
define("SIDE", "it side by side | it in the shade:2 | it slowly | every crumb")
define("SNATCHED", "snatched:2 | stole:2 | grabbed | took")
define("NOISE", "noise:2 | soft cry | squeak | rustle | sigh | small voice")
define("LITTLE", "little:3 | tiny:2 | small:2 | young | shy | frightened | funny | lonely")
define("CRUMBS", "crumbs:2 | bread:2 | berries | seeds | oats | cheese | cabbage | milk")
define("WRAPS", "a warm coat:2 | a soft towel | a woolly sock | dry leaves:2 | a shawl")
define("CUPS", "leaf:2 | shell:2 | cup | hat | spoon | boot")
define("LIMB", "leg:3 | foot:2 | nose | ear")
define("BANDAGE", "a bandage:2 | a handkerchief:2 | a clean rag")
define("CARRIED", "{a} carried | {b} carried | {a} led | {b} led")
define("LAUGHED", "laughed:3 | giggled:2 | smiled | blushed")
define("READY", "Ready, steady, go:2 | One, two, three | Off we go | On your marks")
define("THE_WIND", "the wind:3 | a rabbit | a horse | lightning | a hare")
define("FAST", "so fast:2 | very quick | faster than the wind | a good runner")
define("WRAPPING", "paper:2 | silk | wool | an old sock | newspaper | moss")
define(
    "WAITING",
    "waiting at the door:2 | in the kitchen:2 | baking bread | reading a book "
    "| sitting by the fire | peeling carrots | feeding the hens | washing up",
)
define("SUPPERTIME", "supper:2 | bedtime:2 | teatime | sunset")
define("GLADDENED", "smiled:2 | laughed:2 | nodded | clapped | hugged them both:2")
define(
    "TREAT",
    "hot milk:2 | a big kiss:2 | a slice of bread | warm cocoa:2 | some nuts "
    "| a cup of tea | raisins",
)
define(
    "BESIDE",
    "on the shelf:2 | under the pillow:2 | by the window | next to the lamp "
    "| at the foot of the bed",
)
define(
    "SLEPT",
    "slept well:2 | slept soundly | dreamed happy dreams | fell asleep at once "
    "| dreamed of the {place}",
)
define("GREAT", "great:2 | lovely:2 | exciting | long | wonderful:2 | unusual")
define(
    "TOMORROW",
    "do it all again:2 | go back to the {place}:2 | stay at home | sleep until noon "
    "| have another adventure",
)

# The opening: who there is, and whose is what.
define(
    "HOUSES", "little house:2 | small cottage | tall house | wooden hut | stone house | old tower"
)
define(
    "HOMES",
    "by the sea:2 | near the mountains | at the end of a long road | above a shop | on a busy street "
    "| at the edge of a village:2 | next to a windmill | behind a church | across a railway line",
)
shapes(
    "NAMED",
    (2, "girl named {a=GIRLS}"),
    (2, "boy named {a=BOYS}"),
    (1, "girl called {a=GIRLS}"),
    (1, "boy called {a=BOYS}"),
)
OPENING = shapes(
    "OPENING",
    (4, "Once upon a time there was {a trait=TRAITS} {=NAMED}."),
    (2, "There once was {a trait=TRAITS} {=NAMED}."),
    (2, "This is the story of {a=CHILDREN}, {a trait=TRAITS} {a.girl}."),
    (3, "In {a =HOUSES} {=HOMES} lived {a trait=TRAITS} {=NAMED}."),
    (1, "Long ago, {=HOMES}, there lived {a trait=TRAITS} {=NAMED}."),
    (2, "Everybody knew {a=CHILDREN}, {a trait=TRAITS} {a.girl} who lived {=HOMES}."),
)
shapes(
    "THAT",
    (2, "that {a.he} loved very much"),
    (1, "and took it everywhere"),
    (1, "and was very proud of it"),
    (1, "that was a present from {giver=GROWNUPS}"),
    (1, "which had come in the post from {giver=GROWNUPS}"),
)
define("MORE", "very much | more than anything | best of all | more than {a.he} could say")
POSSESSION = shapes(
    "POSSESSION",
    (4, " {a.He} had {a =ADJECTIVES} {ac=COLOURS} {at=THINGS} {=THAT}."),
    (2, " {a.He} loved {a.his} {=ADJECTIVES} {ac=COLOURS} {at=THINGS} {=MORE}."),
    (2, " Wherever {a.he} went, {a.he} took {a.his} {=ADJECTIVES} {ac=COLOURS} {at=THINGS} along."),
    (
        2,
        " For {a.his} birthday, {giver=GROWNUPS} gave {a.him} {a =ADJECTIVES} {ac=COLOURS} {at=THINGS}.",
    ),
)
_OWNED = "{a =ADJECTIVES} {bc=COLOURS/ac} {bt=THINGS/at}"
shapes(
    "SIBLINGS",
    (2, "brother {b=BOYS/a}"),
    (2, "sister {b=GIRLS/a}"),
    (1, "big brother {b=BOYS/a}"),
    (1, "big sister {b=GIRLS/a}"),
    (1, "cousin {b=CHILDREN/a}"),
)
define("FRIENDS", "friend:3 | best friend:2 | neighbour")
FRIEND = shapes(
    "FRIEND",
    (3, " {a.His} {=FRIENDS} {b=CHILDREN/a} had " + _OWNED + "."),
    (2, " {a.He} often played with {a.his} {=SIBLINGS}, who had " + _OWNED + "."),
    (2, " Next door lived {b=CHILDREN/a}. {b.He} had " + _OWNED + "."),
    (1, " Every day {a.he} met {b=CHILDREN/a}, who owned " + _OWNED + "."),
)
LIKES = shapes(
    "LIKES",
    (3, " {a} liked to eat {fav=SUPPERS} best of all.", "likes"),
    (2, " {a.His} favourite food was {fav=SUPPERS}.", "likes"),
    (1, " Nothing made {a} as happy as {fav=SUPPERS}.", "likes"),
)

# The outing: where they go, what they take, what they do first.
define("WENT", "went:4 | walked:3 | ran:2 | hurried | skipped | set off | strolled | wandered")
define("MEALS", "breakfast:3 | lunch:3 | school:2 | a nap | church")
define("YES", "Yes | What a good idea | Oh yes | I would love to | Hurray | Of course")
define("SAID", "said:4 | cried:2 | called | shouted | answered | laughed")
define("GLADLY", "nodded | clapped | smiled | jumped up | was ready in no time")
shapes("AGREED", (2, ' "{=YES}!" {=SAID} {a!}.'), (1, " {a} {=GLADLY}."))
OUTING = shapes(
    "OUTING",
    (4, "\nOne {=WEATHER} {=DAYPARTS}, {a} and {b} {=WENT} to the {place=PLACES}.", "out"),
    (
        2,
        "\nOn {a =WEATHER} {=DAYPARTS} in {=MONTHS}, the two {=WENT} to the {place=PLACES}.",
        "out",
    ),
    (2, '\nAfter {=MEALS}, {b} said, "Let us go to the {place=PLACES}!"{=AGREED}', "out"),
    (1, '\n"Shall we go to the {place=PLACES}?" {b} asked one {=DAYPARTS}.{=AGREED}', "out"),
)
BRING = shapes(
    "BRING",
    (2, " {a} took {a.his} {at}, and {b} brought {b.his} {bt}.", "bring"),
    (2, " {b} brought the {bc} {bt}, and {a} brought the {ac} {at}.", "bring"),
    (2, " They took the {ac} {at} and the {bc} {bt} with them.", "bring"),
    (1, " Of course {a.his} {ac} {at} came too, and so did {b!}'s {bt}.", "bring"),
)
define(
    "LONG", "for a long time | for an hour | all morning long | until noon | until they were tired"
)
ACTIVITY = shapes(
    "ACTIVITY",
    (3, " First they {act=ACTIVITIES}, and then they {=ACTIVITIES/act}.", "act"),
    (2, " Here they {act=ACTIVITIES} {=LONG}.", "act"),
    (2, " There {a} and {b} {act=ACTIVITIES} together.", "act"),
    (1, " The sun was high, and the children {act=ACTIVITIES}.", "act"),
    (1, " It was {=PLEASANT} {place.in} the {place}, and they {act=ACTIVITIES}.", "act"),
)

PROLOGUE = merged("PROLOGUE", (1, LIKES), (1, OUTING))
ARRIVAL = merged("ARRIVAL", (1, BRING), (1, ACTIVITY))

# Lost: something is gone, is looked for, and is found.
LOST = shapes(
    "LOST",
    (3, " After a while {a} looked around, and {a.his} {at} was gone.", "lost"),
    (2, ' Suddenly {a} stopped. "Where is my {at}?" {a.he} {=CRIED}.', "lost"),
    (2, " When they sat down to rest, {a} could not find {a.his} {at}.", "lost"),
    (1, " But somewhere on the way {a} had lost {a.his} {at}.", "lost"),
)
SORROW = shapes(
    "SORROW",
    (3, " {a.He} felt very {=SAD}."),
    (2, " {a.He} began to cry."),
    (1, " A {=TEAR} ran down {a.his} {=FACE}."),
    (1, " {a.He} turned {a.his} pockets inside out."),
)
HELP = shapes(
    "HELP",
    (2, ' "Do not worry, {a!}," said {b!}. "I will help you."', "friend"),
    (1, ' "We will find it, {a!}," {b!} promised.', "friend"),
    (
        3,
        ' Then {a who=STRANGERS} {=CAME} by. "What have you lost?" asked the {who}.'
        ' "My {at}," said {a!}. "It is {ac}."',
        "stranger",
    ),
    (
        2,
        ' Just then they met {a who=STRANGERS}. "What colour is it?" asked the {who}.'
        ' "It is {ac}," said {a!}.',
        "stranger",
    ),
)
SEARCH = shapes(
    "SEARCH",
    (2, " {b} looked {spot=SPOTS/spot/seen}, but it was not there.", "again"),
    (2, " They looked {spot=SPOTS/spot/seen}, but found only {a =JUNK}.", "again"),
    (1, " {a} searched {spot=SPOTS/spot/seen}, but there was nothing but {a =JUNK}.", "again"),
    (2, " Then {b} looked {nook=SPOTS/spot/seen}, and there was the {ac} {at}!", "b"),
    (1, ' "Look!" {b} {=CRIED}. There lay the {ac} {at}, {nook=SPOTS/spot/seen}.', "b"),
    (1, " At last {a} looked {nook=SPOTS/spot/seen} and saw {a.his} {ac} {at}.", "a"),
    (2, " In the end the {who} found the {ac} {at} {nook=SPOTS/spot/seen}.", "who"),
)
THANKS_B = shapes(
    "THANKS_B",
    (3, ' "Here you are, {a!}," said {b!}. "Thank you, {b!}," said {a!}.'),
    (2, " {a} hugged {b!} and was {=HAPPY} again."),
    (1, ' "You are a true friend, {b!}," said {a!}.'),
)
THANKS_WHO = shapes(
    "THANKS_WHO",
    (3, ' "Thank you so much," {a} said to the {who!}.'),
    (2, " {a} thanked the {who!} and was {=HAPPY} again."),
    (1, " {a} was so {=HAPPY} that {a.he} danced around the {who!}."),
)
RELIEF = shapes(
    "RELIEF",
    (2, " {a.He} held it tight and was {=HAPPY} again."),
    (1, ' "I will never lose it again," {a.he} said.'),
    (1, " {a.He} jumped for joy."),
)

# Stuck: a light thing hangs in a tree.
STUCK = shapes(
    "STUCK",
    (2, " Then a strong wind blew the {at} into {a tree=TREES}.", "stuck"),
    (2, " Then {b} threw the {at} too high, and it got stuck in {a tree=TREES}.", "stuck"),
    (1, " But a cheeky monkey grabbed the {ac} {at} and left it in {a tree=TREES}.", "stuck"),
    (1, " All at once the {ac} {at} flew up and got caught in {a tree=TREES}.", "stuck"),
)
REACH = shapes(
    "REACH",
    (2, " {a} jumped as high as {a.he} could, but the {tree} was too high.", "again"),
    (2, " {b} {=SHOOK}, but the {at} did not {=MOVE}.", "again"),
    (1, " They both {=SHOOK}, but it was no use.", "again"),
    (
        3,
        " Then {a who=STRANGERS} came along with {a tool=REACHES}."
        " With the {tool} the {who} {=GOT} the {at} down.",
        "who",
    ),
    (2, " So {b} climbed on {a!}'s shoulders and {=GOT} the {at} down.", "shoulders"),
    (1, " At last {b} fetched {a tool=REACHES}. With the {tool} {b.he} {=GOT} the {at} down.", "b"),
)

# Broken: a fragile thing breaks, and is mended.
BREAK = shapes(
    "BREAK",
    (2, " But then {b} tripped and fell on {a!}'s {at}, and it broke.", "break"),
    (
        2,
        " {b} wanted to hold the {ac} {at}, but {b.he} dropped it, and it broke {=IN_TWO}.",
        "break",
    ),
    (
        1,
        " Then {b} ran so fast that {b.he} bumped into {a!}. The {ac} {at} fell down and broke.",
        "break",
    ),
)
BLAME = shapes(
    "BLAME",
    (2, ' "Oh no, my {at}!" {=CRIED} {a!}. "I am so sorry, {a!}," said {b!}.'),
    (2, " {a} was {=SAD}, and {b} was {=SAD} too."),
    (1, ' "You broke my {at}, {b!}!" said {a!}. "I did not mean to," said {b!}.'),
)
MEND = shapes(
    "MEND",
    (2, " Then {b} had an idea. {b.He} ran home and came back with some {tool=GLUES}."),
    (1, ' "We can mend it," said {b!}, and {b.he} took some {tool=GLUES} out of {b.his} pocket.'),
    (1, ' "Do not be {=SAD}," {b} said. "I have some {tool=GLUES} at home."'),
)
MENDED = shapes(
    "MENDED",
    (2, " They worked hard with the {tool}, and soon the {at} was as good as new."),
    (1, " {b} held the {ac} {at}, and {a} used the {tool}. Soon it was as good as new."),
    (1, " It took a lot of {tool}, but in the end they mended the {ac} {at}."),
)

# Trade: what was the one's becomes the other's.
OFFER = shapes(
    "OFFER",
    (2, ' "I like your {bt}, {b!}," said {a!}. "I like your {at}, {a!}," said {b!}.', "offer"),
    (1, ' "May I have your {bt} for my {at}?" {a} asked {b!}. "Yes," said {b!}.', "offer"),
    (
        1,
        " {b} looked at the {ac} {at}, and {a} looked at the {bc} {bt}."
        ' "Let us swap," said {=SPEAKERS}.',
        "offer",
    ),
)
SWAP = shapes(
    "SWAP",
    (2, " So {a} gave {b!} the {ac} {at}, and {b!} gave {a!} the {bc} {bt}."),
    (1, " So they swapped. Now {a} had the {bc} {bt}, and {b!} had the {ac} {at}."),
)
AFTER_SWAP = shapes(
    "AFTER_SWAP",
    (2, " {a} played with the {bt!}, and {b} played with the {at!}.", "kept"),
    (2, " They liked it so much that they did not swap back.", "kept"),
    (2, " Later {a} missed {a.his} {at}, so {b} gave it back and took {b.his} {bt} again.", "back"),
    (1, " Before they went home they swapped back.", "back"),
)

# Food: one has something to eat, the other has not; X has it, Y has not.
LUNCH = shapes(
    "LUNCH",
    *roles(
        2, " Soon they were hungry. {X} had {a food=FOODS}, but {Y} had nothing to eat.", "food"
    ),
    *roles(
        1,
        " At noon {X} took {a food=FOODS} out of {X.his} bag. {Y} had forgotten {Y.his} lunch.",
        "food",
    ),
)
HUNGRY = shapes(
    "HUNGRY",
    (2, ' "Are you hungry, {y!}?" asked {x!}. "{=VERY}," said {y!}.'),
    (1, ' "Would you like some, {y!}?" {x} asked. "Yes, please," said {y!}.'),
    (1, " {y}'s tummy rumbled loudly."),
)
SHARE = shapes(
    "SHARE",
    (
        3,
        " So {x} {=CUT} the {food} in two and gave {y!} the {=BIGGER} half."
        " They ate until {=GONE}.",
        "eaten",
    ),
    (1, " {x} gave {y!} half of the {food}, and they ate {=SIDE}.", "eaten"),
    (
        2,
        " But before {x} could take a bite, {a thief=THIEVES} {=SNATCHED} the {food} and ran off"
        " with it.",
        "stolen",
    ),
)
STOLEN = shapes(
    "STOLEN",
    (2, ' "Bad {thief}!" {=CRIED} {x!}, but the {food} was gone. They had to laugh.'),
    (1, " {x} ran after the {thief}, but the {thief} was faster, and the {food} was gone."),
    (1, ' "Poor {thief}, it was even hungrier than you," {x} said to {y!}.'),
)

# Animal: a small creature is in need, and gets what it needs.
FIND = shapes(
    "FIND",
    (
        2,
        " Then {a} heard a {=NOISE}. It came from {a =LITTLE} {animal=ANIMALS} {den=SPOTS}.",
        "find",
    ),
    (2, " {b} saw {a =LITTLE} {animal=ANIMALS} {den=SPOTS}.", "find"),
    (1, " All of a sudden they found {a =LITTLE} {animal=ANIMALS} {den=SPOTS}.", "find"),
)
NEED = shapes(
    "NEED",
    (2, " The {animal} was hungry, so {=SPEAKERS} gave it some {=CRUMBS}."),
    (2, " The {animal} was cold, so {=SPEAKERS} wrapped it in {=WRAPS}."),
    (1, " The {animal} was thirsty, so {=SPEAKERS} brought it water in {a =CUPS}."),
    (
        2,
        " The {animal} had hurt its {=LIMB}, so {=SPEAKERS} washed it and tied {=BANDAGE} round it.",
    ),
    (1, " The {animal} had lost its mother. {=SPEAKERS} {=CARRIED} it back to her.", "mother"),
)
NAMING = shapes(
    "NAMING",
    (2, ' "Let us call it {pet=PETS}," said {=SPEAKERS}. {pet} looked {=HAPPY}.'),
    (1, " They named the {animal} {pet=PETS}. The name suited it well."),
    (1, ' "What shall we call it?" asked {a!}. "{pet=PETS}," said {b!}.'),
)
PARTING = shapes(
    "PARTING",
    (2, " {pet} {animal.ran} around them and did not want to leave.", "stays"),
    (1, " From then on {pet} never left {a!}'s side.", "stays"),
    (2, " Then {pet} {animal.ran} off, and the children waved.", "leaves"),
    (1, ' "Goodbye, {pet}!" they called, and the {animal} {animal.ran} away.', "leaves"),
)

# Hide and seek: X counts, Y hides; from then on x seeks y.
HIDE = shapes(
    "HIDE",
    *roles(
        2,
        ' "Let us play hide and seek," said {X!}. {X} counted to {=NUMBERS}, and {Y} hid'
        " {hidden=SPOTS}.",
        "hide",
    ),
    *roles(
        1,
        " Then they played hide and seek. {X} shut {X.his} eyes, and {Y} crept away and hid"
        " {hidden=SPOTS}.",
        "hide",
    ),
)
SEEK = shapes(
    "SEEK",
    (3, " {x.He} looked {spot=SPOTS/hidden/spot/seen}, but {y!} was not there.", "again"),
    (2, " {x.He} ran to look {spot=SPOTS/hidden/spot/seen} and found only {a =JUNK}.", "again"),
    (3, ' Then {x} saw the {yc} {yt}. "You are {hidden}, {y!}!" {x.he} {=CRIED}.', "found"),
    (2, ' Then there was a giggle {hidden}. "Found you, {y!}!" {=CRIED} {x!}.', "found"),
)
CAUGHT = shapes(
    "CAUGHT",
    (2, " {y} {=LAUGHED} and came out."),
    (1, ' "You are good at this, {x!}," said {y!}.'),
    (1, ' "Now it is my turn to look for you, {x!}," said {y!}.'),
)

# A race: X wins, Y comes second.
RACE = shapes(
    "RACE",
    (2, ' "Let us race to the {goal=GOALS}," said {=SPEAKERS}. "{=READY}!"', "race"),
    (1, " They ran a race to the {goal=GOALS}.", "race"),
    (1, ' "I bet I can run faster than you, {b!}," said {a!}. "To the {goal=GOALS}!"', "race"),
)
RESULT = shapes(
    "RESULT",
    *roles(2, " {X} ran like {=THE_WIND} and got to the {goal} first. {Y!} came second.", "won"),
    *roles(1, " {Y} slipped on the way, so {X!} won.", "won"),
)
PRAISE = shapes(
    "PRAISE",
    (2, ' "Well done, {x!}," said {y!}. "You are {=FAST}."'),
    (1, ' "You nearly beat me, {y!}," said {x!}.'),
    (1, " {y} shook {x!}'s hand, for {y.he} was not {=SAD} about it."),
)

# Boxes: one of three holds a treasure; X knows which, Y opens it.
BOXES = shapes(
    "BOXES",
    (
        2,
        " Then they found three boxes {=SPOTS}: {a c1=COLOURS/ac/bc} one, "
        "{a c2=COLOURS/ac/bc/c1} one and {a c3=COLOURS/ac/bc/c1/c2} one.",
        "boxes",
    ),
    (
        1,
        " There {place.in} the {place} stood {a c1=COLOURS/ac/bc} box, "
        "{a c2=COLOURS/ac/bc/c1} box and {a c3=COLOURS/ac/bc/c1/c2} box.",
        "boxes",
    ),
)
TIP = shapes(
    "TIP",
    *roles(1, " {X} put {X.his} ear to each box.", "tip"),
    *roles(1, " {X} found a note and read it aloud.", "tip"),
)
CLUE = shapes(
    "CLUE",
    (2, ' "Open the {c1} box, {y!}," {x.he} said.', "c1"),
    (2, ' "Open the {c2} box, {y!}," {x.he} said.', "c2"),
    (2, ' "Open the {c3} box, {y!}," {x.he} said.', "c3"),
    (1, ' "It is the {c1} one," {x.he} told {y!}.', "c1"),
    (1, ' "It is the {c2} one," {x.he} told {y!}.', "c2"),
    (1, ' "It is the {c3} one," {x.he} told {y!}.', "c3"),
)
OPENED = shapes(
    "OPENED",
    (2, " {y} opened the {right} box. Inside lay {a treasure=TREASURES}."),
    (1, " So {y} lifted the lid of the {right} box and saw {a treasure=TREASURES}."),
    (1, " In the {right} box {y} found {a treasure=TREASURES}, wrapped in {=WRAPPING}."),
)

# Home again: what happened is asked for and told, until the story closes.
HOME = shapes(
    "HOME",
    (2, "\nWhen they came home, {g=GROWNUPS/giver} was {=WAITING}.", "home"),
    (2, "\nAt {=SUPPERTIME}, {g=GROWNUPS/giver} wanted to hear all about it.", "home"),
    (1, "\n{a} and {b} {=WENT} home, where {g=GROWNUPS/giver} was {=WAITING}.", "home"),
)
TALK = shapes(
    "TALK",
    (3, ' "Where did you go?" asked {g}. "To the {place}," said {=SPEAKERS}.', "place"),
    (
        1,
        ' "What was the best place today?" {g.he} asked. "The {place}," said {=SPEAKERS}.',
        "place",
    ),
    (
        2,
        ' "Did you lose anything?" asked {g}. "Yes, but {b!} found my {at} {nook}," said {a!}.',
        "found_b",
    ),
    (
        2,
        ' "Who found your {at}, {a!}?" asked {g}. "{b!} did. It was {nook}," said {a!}.',
        "found_b",
    ),
    (
        3,
        ' "Who found your {at}, {a!}?" asked {g}. "The {who!}," said {a!}. "It was {nook}."',
        "found_who",
    ),
    (3, ' "How did you get the {at} down?" asked {g}. "With a {tool}," {b} said.', "tool"),
    (
        3,
        ' "Why is there {tool} on your {at}, {a!}?" asked {g}. "{b} helped me mend it," said {a!}.',
        "mended",
    ),
    (3, ' "Where is your {at}, {a!}?" {g.he} asked. "I gave it to {b!}," said {a!}.', "swapped"),
    (
        2,
        ' "Whose {bt} is that, {a!}?" asked {g}. "It was {b!}\'s, but now it is mine," said {a!}.',
        "swapped",
    ),
    (2, ' "What colour is the {at}, {b!}?" {g} asked. "It is {ac}," said {b!}.', "swapped"),
    (
        3,
        ' "Did you eat your {food}, {x!}?" asked {g}. "Yes, and {y!} had half of it," said {x!}.',
        "eaten",
    ),
    (3, ' "What is the name of your {animal}?" asked {g}. "{pet}," said {=SPEAKERS}.', "stays"),
    (
        3,
        ' "Where did you see the {animal}?" asked {g}. "It was {den}," {=SPEAKERS} said.',
        "leaves",
    ),
    (3, ' "Where did you hide, {y!}?" asked {g}. "I was {hidden}," said {y!}.', "hide"),
    (3, ' "Who won the race to the {goal}?" asked {g}. "{x!} did," said {y!}.', "won"),
    (2, ' "Which box had the {treasure} in it?" asked {g}. "The {right} one," said {y!}.', "box"),
    (1, ' "Who told you where to look, {y!}?" asked {g}. "{x!} did," said {y!}.', "box"),
    (2, ' "What colour is your {bt}, {b!}?" asked {g}. "My {bt} is {bc}," {b} told {g.him}.', "bt"),
    (2, ' "Do you still have your {at}, {a!}?" asked {g}. {a} held up the {ac} {at}.', "at"),
    (5, " {g} {=GLADDENED} and gave them {=TREAT}.", "close"),
    (
        4,
        ' "What {trait.a} {trait} {a.girl} you are, {a!}," said {g}, and {g.he} {=GLADDENED}.',
        "close",
    ),
    (4, " For supper there was {fav}, because {a} liked it so much.", "fav"),
    (4, " Then it was time for bed, and {a} put the {ac} {at} {=BESIDE}.", "bed"),
    (2, " In bed {a} thought of {giver}, who had given {a.him} the {at}.", "giver"),
)
FINAL = shapes(
    "FINAL",
    (3, " From that day on, {a} and {b} were the best of friends."),
    (2, " {a} {=SLEPT} that night."),
    (2, " It had been {a =GREAT} day for {a} and {b}."),
    (1, " And {a} never forgot that day at the {place}."),
    (1, " The end."),
    (1, ' "Tomorrow we will {=TOMORROW}," {=SPEAKERS} said, and everybody was {=HAPPY}.'),
)

EVENTS = merged(
    "EVENTS",
    (2, LOST),
    (3, STUCK),
    (3, BREAK),
    (2, OFFER),
    (2, LUNCH),
    (2, FIND),
    (2, HIDE),
    (2, RACE),
    (3, BOXES),
    (10, HOME),
)
