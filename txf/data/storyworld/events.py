"""What may happen on the way: a thing is lost, stuck, broken or traded, an animal is found ...

The actors: a, b, who (a passer-by), and x and y, who stand for a and b in the order of their roles:
x has the food, seeks, wins, or knows which box; y has none, hides, comes second, or opens it.
"""

from __future__ import annotations

from txf.data.storyworld.ending import HOME
from txf.data.storyworld.lists import define, merged, shapes

define("LOOKED", "looked:4 | searched:2 | peeped | poked about | felt about")
define(
    "JUNK", "boot:2 | nail | wet sock | snail | pine cone | empty tin | toad | worm | bone | spring"
)
define(
    "BURDENS",
    "sack:2 | suitcase | milk can | turkey | parrot | wheel | pot | sponge | newspaper | flute",
)

# Lost: something is gone, is looked for, and is found.
LOST = shapes(
    "LOST",
    """
    3 lost | After a while {a} looked around, and {a.his} {at} was gone.
    2 lost | Suddenly {a} stopped. "Where is my {at}?" {a.he} {=CRIED}.
    2 lost | When they sat down to rest, {a} could not find {a.his} {at}.
    1 lost | But somewhere on the way {a} had lost {a.his} {at}.
    """,
)
define("FACE", "cheek:3 | nose | chin | face:2")
SORROW = shapes(
    "SORROW",
    """
    3 | {a.He} felt very {=SAD}.
    2 | {a.He} began to cry.
    1 | A tear ran down {a.his} {=FACE}.
    1 | {a.He} turned {a.his} pockets inside out, but they were empty.
    """,
)
HELP = shapes(
    "HELP",
    """
    2 friend | "Do not worry, {a!}," said {b!} {=HOW}. "I will help you."
    1 friend | "We will find it, {a!}," {b!} promised {=HOW}.
    3 stranger | Then {a who=STRANGERS} with {a =ADJECTIVES} {=BURDENS} came by. "What have you
        lost?" asked the {who}. "My {at}," said {a!}. "It is {ac}."
    2 stranger | Just then they met {a who=STRANGERS}. "What colour is it?" asked the {who} {=HOW}.
        "It is {ac}," said {a!}.
    """,
)
SEARCH = shapes(
    "SEARCH",
    """
    1 again | {b} {=LOOKED} {spot=SPOTS/spot/seen}, but it was not there.
    1 again | They {=LOOKED} {spot=SPOTS/spot/seen}, but found only {a =ADJECTIVES} {=JUNK}.
    1 again | {a} {=LOOKED} {spot=SPOTS/spot/seen}, but there was only {a =ADJECTIVES} {=JUNK}.
    3 b | Then {b} {=LOOKED} {nook=SPOTS/spot/seen}, and there was the {ac} {at}!
    1 b | "Look!" {b} {=CRIED}. There lay the {ac} {at}, {nook=SPOTS/spot/seen}.
    1 a | At last {a} {=LOOKED} {nook=SPOTS/spot/seen} and saw {a.his} {ac} {at}.
    2 who | In the end the {who} found the {ac} {at} {nook=SPOTS/spot/seen}.
    """,
)
THANKS_B = shapes(
    "THANKS_B",
    """
    3 | "Here you are, {a!}," said {b!} {=HOW}. "Thank you, {b!}," said {a!}.
    2 | {a} hugged {b!} and was {=HAPPY} again.
    1 | "You are a true friend, {b!}," said {a!} {=HOW}.
    1 | "Thank you, {b!}!" {=CRIED} {a!}, and {a.he} felt {=HAPPY}.
    """,
)
THANKS_WHO = shapes(
    "THANKS_WHO",
    """
    3 | "Thank you so much," {a} said to the {who!} {=HOW}.
    2 | {a} thanked the {who!} and was {=HAPPY} again.
    1 | {a} was so {=HAPPY} that {a.he} {=GAVE} the {who!} {a =ADJECTIVES} flower.
    """,
)
RELIEF = shapes(
    "RELIEF",
    """
    2 | {a.He} held it tight and was {=HAPPY} again.
    1 | "I will never lose it again," {a.he} said {=HOW}.
    1 | {a.He} jumped for joy, and {b} felt {=HAPPY} too.
    """,
)

# Stuck: a light thing hangs in a tree.
define("TREES", "tall tree:3 | oak tree | fir tree | pine tree | willow | chestnut tree | birch")
define("FLEW", "blew:3 | swept | carried | drove")
STUCK = shapes(
    "STUCK",
    """
    2 stuck | Then a strong wind {=FLEW} the {at} into {a tree=TREES}.
    2 stuck | Then {b} threw the {at} too high, and it got stuck in {a tree=TREES}.
    1 stuck | But a cheeky monkey stole the {ac} {at} and left it in {a tree=TREES}.
    1 stuck | All at once the {ac} {at} flew up and got caught in {a tree=TREES}.
    """,
)
define(
    "SHOOK",
    "shook the trunk:2 | pulled at a branch | threw a stone | climbed a little | shouted at it",
)
define("MOVE", "move:2 | come down:2 | fall | budge")
define("GOT", "got:3 | brought | pulled | fished | knocked")
define("REACHES", "ladder:3 | long stick:2 | fishing rod | rake | broom | pole | walking stick")
REACH = shapes(
    "REACH",
    """
    2 again | {a} jumped as high as {a.he} could, but the {tree} was too high.
    2 again | {b} {=SHOOK}, but the {at} did not {=MOVE}.
    1 again | They both {=SHOOK}, but it did not {=MOVE}.
    3 who | Then {a who=STRANGERS} came along with {a tool=REACHES}. With the {tool} the {who}
        {=GOT} the {at} down.
    2 shoulders | So {b} climbed on {a!}'s shoulders and {=GOT} the {at} down.
    1 b | At last {b} fetched {a tool=REACHES}. With the {tool} {b.he} {=GOT} the {at} down.
    """,
)

# Broken: a fragile thing breaks, and is mended.
define("IN_TWO", "in two:2 | into three pieces | with a crack | at once")
define("GLUES", "glue:3 | tape:2 | string:2 | wire | wool | clay | wax")
BREAK = shapes(
    "BREAK",
    """
    2 break | But then {b} tripped and fell on {a!}'s {at}, and it broke {=IN_TWO}.
    2 break | {b} wanted to hold the {ac} {at}, but {b.he} dropped it, and it broke {=IN_TWO}.
    1 break | Then {b} ran so fast that {b.he} bumped into {a!}. The {ac} {at} fell and broke
        {=IN_TWO}.
    """,
)
BLAME = shapes(
    "BLAME",
    """
    2 | "Oh no, my {at}!" {=CRIED} {a!}. "I am so sorry, {a!}," said {b!} {=HOW}.
    2 | {a} was {=SAD}, and {b} was {=SAD} too.
    1 | "You broke my {at}, {b!}!" said {a!}. "I did not mean to," said {b!} {=HOW}.
    """,
)
MEND = shapes(
    "MEND",
    """
    2 | Then {b} had an idea. {b.He} ran home and came back with some {tool=GLUES}.
    1 | "We can mend it," said {b!} {=HOW}, and {b.he} took some {tool=GLUES} out of {b.his} pocket.
    1 | "Do not be {=SAD}," {b} said {=HOW}. "I have some {tool=GLUES} here."
    """,
)
MENDED = shapes(
    "MENDED",
    """
    2 | They worked hard with the {tool}, and soon the {at} was as good as new.
    1 | {b} held the {ac} {at}, and {a} used the {tool}. Soon it was as good as new.
    1 | It took a lot of {tool}, but in the end they mended the {ac} {at}.
    """,
)

# Trade: what was the one's becomes the other's.
OFFER = shapes(
    "OFFER",
    """
    2 offer | "I like your {bt}, {b!}," said {a!} {=HOW}. "I like your {at}, {a!}," said {b!}.
    1 offer | "May I have your {bt} for my {at}?" {a} asked {b!} {=HOW}. "Yes," said {b!}.
    1 offer | {b} looked at the {ac} {at}, and {a} looked at the {bc} {bt}. "Let us swap," said
        {=SPEAKERS} {=HOW}.
    """,
)
SWAP = shapes(
    "SWAP",
    """
    2 | So {a} {=GAVE} {b!} the {ac} {at}, and {b!} {=GAVE} {a!} the {bc} {bt}.
    1 | So they swapped. Now {a} had the {bc} {bt}, and {b!} had the {ac} {at}.
    """,
)
AFTER_SWAP = shapes(
    "AFTER_SWAP",
    """
    2 kept | {a} was {=HAPPY} with the {bt!}, and {b} was {=HAPPY} with the {at!}.
    2 kept | They liked it so much that they did not swap back.
    2 back | Later {a} missed {a.his} {at}, so {b} {=GAVE} it back and took {b.his} {bt} again.
    1 back | Before they went home they swapped back.
    """,
)

# Food: x has something to eat, y has not.
LUNCH = shapes(
    "LUNCH",
    """
    2 food_x | Soon they were hungry. {X} had {a =ADJECTIVES} {food=FOODS}, but {Y} had nothing.
    1 food_x | Later {X} took {a food=FOODS} out of {X.his} bag. {Y} had forgotten {Y.his} lunch.
    """,
)
define("VERY", "Very:2 | A little | Yes, I am:2 | Oh yes | Like a wolf")
define("CUT", "cut:2 | broke:2 | tore | split")
define("BIGGER", "bigger:2 | larger | smaller | better | other:2")
define("GONE", "it was all gone:2 | not a crumb was left:2 | they were full | nothing was left")
define("SIDE", "it side by side | it in the shade:2 | it slowly | every crumb | it with both hands")
define("SNATCHED", "snatched:2 | stole:2 | grabbed | took | swallowed")
define("THUNDER", "thunder:2 | a drum | an engine | a bear | a volcano")
HUNGRY = shapes(
    "HUNGRY",
    """
    2 | "Are you hungry, {y!}?" asked {x!}. "{=VERY}," said {y!} {=HOW}.
    1 | "Would you like some, {y!}?" {x} asked {=HOW}. "Yes, please," said {y!}.
    1 | {y}'s tummy rumbled like {=THUNDER}.
    """,
)
SHARE = shapes(
    "SHARE",
    """
    3 eaten | So {x} {=CUT} the {food} in two and {=GAVE} {y!} the {=BIGGER} half. They ate until
        {=GONE}.
    1 eaten | {x} {=GAVE} {y!} half of the {food}, and they ate {=SIDE}.
    2 stolen | But before {x} could take a bite, {a thief=THIEVES} {=SNATCHED} the {food} and ran
        off.
    """,
)
STOLEN = shapes(
    "STOLEN",
    """
    2 | "Bad {thief}!" {=CRIED} {x!}, but the {food} was gone. They had to laugh.
    1 | {x} ran after the {thief}, but the {thief} was faster, and the {food} was gone.
    1 | "Poor {thief}, it was even hungrier than you," {x} said to {y!} {=HOW}.
    """,
)

# Animal: a small creature is in need, and gets what it needs.
define("NOISE", "noise:2 | soft cry | squeak | rustle | sigh | small voice")
define("LITTLE", "little:3 | tiny:2 | small:2 | young | shy | frightened | funny | lonely | dirty")
define("CRUMBS", "crumbs:2 | bread:2 | berries | seeds | oats | cheese | cabbage | milk | porridge")
define("WRAPS", "a warm cape:2 | a soft towel | a woolly sock | dry leaves:2 | a shawl | moss")
define("CUPS", "leaf:2 | shell:2 | spoon | shoe | tin | nutshell")
define("LIMB", "leg:3 | foot:2 | nose | ear")
define("BANDAGE", "a bandage:2 | a handkerchief:2 | a clean rag | a leaf")
define("CARRIED", "carried:2 | led | took | brought | followed")
FIND = shapes(
    "FIND",
    """
    2 find | Then {a} heard a {=NOISE}. It came from {a =LITTLE} {animal=ANIMALS} {den=SPOTS}.
    2 find | {b} saw {a =LITTLE} {animal=ANIMALS} {den=SPOTS}.
    1 find | All of a sudden they found {a =LITTLE} {animal=ANIMALS} {den=SPOTS}.
    """,
)
NEED = shapes(
    "NEED",
    """
    2 | The {animal} was hungry, so {=SPEAKERS} {=GAVE} it some {=CRUMBS}.
    2 | The {animal} was cold, so {=SPEAKERS} wrapped it in {=WRAPS}.
    1 | The {animal} was thirsty, so {=SPEAKERS} brought it water in {a =CUPS}.
    2 | The {animal} had hurt its {=LIMB}, so {=SPEAKERS} washed it and tied {=BANDAGE} round it.
    1 mother | The {animal} had lost its mother, so {=SPEAKERS} {=CARRIED} it back to her {=HOW}.
    """,
)
NAMING = shapes(
    "NAMING",
    """
    2 | "Let us call it {pet=PETS}," said {=SPEAKERS} {=HOW}. {pet} looked {=HAPPY}.
    1 | They named the {animal} {pet=PETS}. The name suited it well.
    1 | "What shall we call it?" asked {a!} {=HOW}. "{pet=PETS}," said {b!}.
    """,
)
PARTING = shapes(
    "PARTING",
    """
    2 stays | {pet} {animal.ran} around them and did not want to leave.
    1 stays | From then on {pet} never left {a!}'s side.
    2 leaves | Then {pet} {animal.ran} off, and the children waved {=HOW}.
    1 leaves | "Goodbye, {pet}!" they called {=HOW}, and the {animal} {animal.ran} away.
    """,
)

# Hide and seek: x counts, y hides.
define("NUMBERS", "ten:3 | twenty:2 | thirty | fifty | one hundred | seven")
define("LAUGHED", "laughed:3 | giggled:2 | smiled | blushed")
HIDE = shapes(
    "HIDE",
    """
    2 hide_x | "Let us play hide and seek," said {X!} {=HOW}. {X} counted to {=NUMBERS}, and {Y} hid
        {hidden=SPOTS}.
    1 hide_x | Then they played hide and seek. {X} shut {X.his} eyes, and {Y} crept away and hid
        {hidden=SPOTS}.
    """,
)
SEEK = shapes(
    "SEEK",
    """
    2 again | {x.He} {=LOOKED} {spot=SPOTS/hidden/spot/seen}, but {y!} was not there.
    1 again | In vain {x.he} {=LOOKED} {spot=SPOTS/hidden/spot/seen} and found {a
        =ADJECTIVES} {=JUNK}.
    3 found | Then {x} saw the {yc} {yt}. "You are {hidden}, {y!}!" {x.he} said {=HOW}.
    2 found | Then there was a giggle {hidden}. "Found you, {y!}!" {=CRIED} {x!}.
    """,
)
CAUGHT = shapes(
    "CAUGHT",
    """
    2 | {y} {=LAUGHED} and came out.
    1 | "You are good at this, {x!}," said {y!} {=HOW}.
    1 | "Now it is my turn to look for you, {x!}," said {y!} {=HOW}.
    """,
)

# A race: x wins, y comes second.
define(
    "GOALS",
    "old gate | big oak | iron bridge | fountain | far wall | last fence | white post | barn",
)
define("READY", "Ready, steady, go:2 | One, two, three | Off we go | On your marks | Hurry up")
define("THE_WIND", "the wind:3 | a leopard | a horse | lightning | a hare | a rocket | an arrow")
define("FAST", "so fast:2 | very quick | faster than the wind | a good runner | a real champion")
RACE = shapes(
    "RACE",
    """
    2 race | "Let us race to the {goal=GOALS}," said {=SPEAKERS} {=HOW}. "{=READY}!"
    1 race | They ran a race to the {goal=GOALS}.
    1 race | "I bet I can run faster than you, {b!}," said {a!} {=HOW}. "To the {goal=GOALS}!"
    """,
)
RESULT = shapes(
    "RESULT",
    """
    2 won_x | {X} ran like {=THE_WIND} and got to the {goal} first. {Y!} came second.
    1 won_x | {Y} fell over {a =ADJECTIVES} stone, so {X!} won.
    """,
)
PRAISE = shapes(
    "PRAISE",
    """
    2 | "Well done, {x!}," said {y!} {=HOW}. "You are {=FAST}."
    1 | "You nearly beat me, {y!}," said {x!} {=HOW}.
    1 | {y} shook {x!}'s hand, for {y.he} was not {=SAD} about it.
    """,
)

# Boxes: one of three holds a treasure; x knows which, y opens it.
define("WRAPPING", "paper:2 | silk | straw | an old sock | newspaper | moss | velvet")
BOXES = shapes(
    "BOXES",
    """
    2 boxes | Then they found three boxes {=SPOTS}: {a c1=COLOURS/ac/bc} one, {a
        c2=COLOURS/ac/bc/c1} one and {a c3=COLOURS/ac/bc/c1/c2} one.
    1 boxes | There {place.in} the {place} stood {a c1=COLOURS/ac/bc} box, {a c2=COLOURS/ac/bc/c1}
        box and {a c3=COLOURS/ac/bc/c1/c2} box.
    """,
)
TIP = shapes(
    "TIP",
    """
    1 tip_x | {X} put {X.his} ear to each of them.
    1 tip_x | {X} found {a =ADJECTIVES} note and read it {=HOW}.
    """,
)
CLUE = shapes(
    "CLUE",
    """
    2 c1 | "Open the {c1} box, {y!}," {x.he} said {=HOW}.
    2 c2 | "Open the {c2} box, {y!}," {x.he} said {=HOW}.
    2 c3 | "Open the {c3} box, {y!}," {x.he} said {=HOW}.
    1 c1 | "It is the {c1} one," {x.he} told {y!} {=HOW}.
    1 c2 | "It is the {c2} one," {x.he} told {y!} {=HOW}.
    1 c3 | "It is the {c3} one," {x.he} told {y!} {=HOW}.
    """,
)
OPENED = shapes(
    "OPENED",
    """
    2 | {y} opened the {right} box. Inside lay {a =ADJECTIVES} {treasure=TREASURES}.
    1 | So {y} lifted the lid of the {right} box and saw {a =ADJECTIVES} {treasure=TREASURES}.
    1 | In the {right} box {y} found {a treasure=TREASURES}, wrapped in {=WRAPPING}.
    """,
)

# Talk: a remark on the way, which changes nothing.
shapes(
    "REMARKS",
    """
    3 | If I were {a =MANNERS} {=SIGHTS}, I would {=WISHES} all day
    2 | My {=RELATIVES} knows {=COUNTS} {=MANNERS} {=CROWDS}
    2 | I would like to {=WISHES} with {=COUNTS} {=MANNERS} {=CROWDS}
    1 | Over there is {a =ADJECTIVES} {=SIGHTS}
    1 | In {=MONTHS} my {=RELATIVES} likes to {=WISHES}
    """,
    before="",
)
_CHAT = shapes(
    "CHAT",
    """
    1 chat | "Guess what," said {=SPEAKERS} {=HOW}. "{=REMARKS}."
    1 chat | "Do you know what?" {=SPEAKERS} asked {=HOW}. "{=REMARKS}."
    """,
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
    (25, _CHAT),
    (120, HOME),
)
