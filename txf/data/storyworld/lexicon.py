"""The words of the storyworld: names with their sex, things, places, foods, animals, feelings."""

from __future__ import annotations

from txf.data.storyworld.lists import LISTS, define, entries, spots, with_form

SHE = {".he": "she", ".He": "She", ".him": "her", ".his": "her", ".His": "Her", ".girl": "girl"}
HE = {".he": "he", ".He": "He", ".him": "him", ".his": "his", ".His": "His", ".girl": "boy"}

_GIRLS = (
    "Lily:3 | Mia:3 | Anna:3 | Sara:2 | Emma:2 | Lucy:2 | Zoe:2 | Nora:2 | Ella:2 | Clara:2 "
    "| Ivy | Maya | Tess | Jane | Kate | Amy | Beth | Dora | Olga | Wendy | Paula | Ruth | Greta "
    "| Heidi | Ida | Fay | Bella | Vera | Nina | Susan"
)
_BOYS = (
    "Ben:3 | Tom:3 | Max:3 | Sam:2 | Leo:2 | Jack:2 | Finn:2 | Tim:2 | Noah:2 | Dan:2 "
    "| Hugo | Pete | Luke | Oscar | Theo | Adam | Jim | Eric | Ned | Karl | Ivan | Ralph | Bill "
    "| George | Felix | Otto | Anton | Gus | Walter | Victor"
)
define("GIRLS", entries(_GIRLS, SHE))
define("BOYS", entries(_BOYS, HE))
define("CHILDREN", entries(_GIRLS, SHE), entries(_BOYS, HE))
define(
    "GROWNUPS",
    entries("Mum:4 | Grandma:3 | Aunt Jo:1 | Aunt May:1", SHE),
    entries("Dad:4 | Grandpa:3 | Uncle Bob:1 | Uncle Fred:1", HE),
)
define(
    "STRANGERS",
    entries("old woman:2 | fine lady:2 | milkmaid | young woman | washerwoman | queen", SHE),
    entries("old man:2 | tall man:2 | postman | fisherman | shepherd boy | huntsman", HE),
)
define(
    "TRAITS",
    "kind:3 | brave:3 | clever:2 | cheerful:2 | gentle:2 | patient | helpful | polite "
    "| curious:2 | thoughtful | friendly | lively | quiet | sensible | generous",
)
define(
    "COLOURS",
    "red:4 | blue:4 | green:3 | yellow:3 | orange:2 | purple:2 | pink:2 | brown | white:2 "
    "| black:2 | grey | silver",
)
LIGHT = "hat:2 | kite:2 | ball:2 | paper boat | bonnet | scarf | ribbon | cap | paper plane"
FRAGILE = "toy boat | toy car | toy train | drum | doll | lantern | cup | wooden horse | whistle"
STURDY = (
    "book | bell | bucket | basket | blanket | umbrella | teddy bear | spade | bag | purse "
    "| pencil case | coat | jumper | cushion | raincoat | trumpet | mitten"
)
define("THINGS", LIGHT, FRAGILE, STURDY)
define(
    "ADJECTIVES",
    "new:2 | old:2 | little:2 | big:2 | small:2 | lovely | pretty | fine | bright | special | tiny "
    "| beautiful | nice | odd | splendid | funny | strange | huge | plain | heavy | round | dusty "
    "| crooked | wonderful | simple | shiny | handsome | striped | spotted | smooth",
)
define(
    "MANNERS",
    "noisy:2 | sleepy:2 | hungry:2 | fat:2 | happy:2 | lazy:2 | tired | silent | wet | muddy "
    "| proud | angry | busy | barefoot | giggling | dancing | singing | nervous | bored "
    "| clumsy | thirsty | jolly | grumpy | hairy | elegant",
)
define(
    "PLACES",
    with_form(
        ".in",
        "in: park, woods, meadow, orchard, valley, forest | on: beach, farm, hill, island "
        "| by: river, lake, pond, stream, old mill, waterfall | at: playground, harbour, market, "
        "old castle, village square, lighthouse",
    ),
)
define(
    "SPOTS",
    spots(
        "under, behind, beside: old bench, wooden cart, tall hedge, cherry tree, stone bridge, "
        "rose bush, picnic table "
        "| behind, beside: big rock, broken wall, garden shed, wooden gate, old well, haystack, "
        "woodpile | in, under, behind: hollow log, rowing boat, wheelbarrow "
        "| in, behind: long grass, thick bush, empty barrel, tall reeds"
    ),
)
define(
    "FOODS",
    "sandwich:2 | apple:2 | bun | cake:2 | pear | cookie:2 | banana | muffin | pie | peach "
    "| pancake | waffle | biscuit | plum | cherry tart | honey cake | cheese roll | egg sandwich "
    "| sausage",
)
define(
    "SUPPERS",
    "tomato soup:2 | pancakes:2 | noodles | fish pie | rice pudding | porridge | carrot stew "
    "| pea soup | roast potatoes | cheese on toast | berry crumble | jam rolls | mushroom omelette "
    "| baked beans | chicken soup | plum dumplings",
)
define(
    "ANIMALS",
    with_form(
        ".ran",
        "ran: kitten, puppy, squirrel, mouse, lamb, fox, goat, piglet | hopped: rabbit, frog "
        "| flew: bird, owl, robin | crept: hedgehog, turtle | waddled: duckling, gosling",
    ),
)
define("THIEVES", "goose | dog:2 | goat:2 | crow | seagull | donkey | pig | raven")
define(
    "PETS",
    "Pip:2 | Dot | Fluffy | Button | Pepper | Bubbles | Sunny | Patch | Nibbles | Snowball "
    "| Whiskers | Bean | Hazel | Pebble | Clover | Ziggy | Thimble | Waffles | Acorn | Biscuit",
)
define(
    "ACTIVITIES",
    "sang songs:2 | told jokes | played tag:2 | picked flowers:2 | watched the clouds "
    "| chased butterflies | danced in the sun | looked for beetles | drew pictures in the dirt "
    "| hopped like frogs | rolled down a slope | threw pebbles | collected acorns "
    "| ran about like chickens | made daisy chains | counted ants | climbed over logs "
    "| built a den:2 | dug a deep hole | splashed in puddles | played at pirates | blew bubbles "
    "| whistled a tune | skipped over a rope | listened to the birds | played leapfrog "
    "| gathered sticks | pretended to be lions",
)
define(
    "TREASURES",
    "key:2 | gold coin:2 | sea shell | feather | marble | map | crown | pearl | magic lamp "
    "| ruby ring | pocket watch | tin soldier | music box | compass | whale tooth | love letter",
)
define("SAD", "sad:3 | worried:2 | upset:2 | unhappy | gloomy | miserable | cross | downcast")
define(
    "HAPPY",
    "happy:3 | glad:2 | proud | pleased | delighted | merry | thankful | joyful | content",
)
define(
    "HOW",
    "happily | softly | loudly | quickly | quietly | kindly | gladly | proudly | politely | calmly "
    "| warmly | at once | with a smile:2 | with a grin | in a low voice | shyly | bravely "
    "| eagerly | gently | cheerfully | firmly | brightly | slowly | wisely | in a whisper "
    "| with a wink | from far away | hopefully | in a deep voice | with a yawn | solemnly "
    "| without a pause",
)
define(
    "COUNTS", "two:2 | three:2 | four:2 | five:2 | six | seven | eight | nine | a dozen | twenty"
)
define(
    "SIGHTS",
    "windmill | tower | horse | cow | tractor | wagon | rainbow | church | snake | swan | beehive "
    "| statue | dragonfly | sailing ship | balloon | scarecrow | barge | peacock | signpost "
    "| circus tent | hare | woodpecker | camel | fire engine | caterpillar | heron | elephant "
    "| steam engine | palace | chimney | cannon | giraffe | volcano | lorry | cactus | mushroom",
)
define(
    "CROWDS",
    "sheep | ducks | geese | cows | butterflies | horses | soldiers | farmers | snails | sailors "
    "| donkeys | sparrows | bees | hens | deer | beetles | acrobats | musicians | rabbits "
    "| policemen | puppies | monkeys | cooks | painters | pigeons | lizards | kings | dentists "
    "| penguins | teachers | worms | dancers",
)
define(
    "WISHES",
    "sleep | sing | eat cherries | swim | tell stories | ride on trains | chase my tail "
    "| drink cocoa | climb trees | look at the moon | play the drums | bake bread "
    "| roll in the mud | read newspapers | count my toes | blow bubbles | sit in the sun "
    "| paint pictures | wear boots | throw snowballs",
)
define(
    "RELATIVES",
    "uncle | aunt | teacher | grandfather | grandmother | neighbour | doctor | cousin | dentist",
)
define(
    "PACKED",
    "comb | bottle | candle | pencil | notebook | spoon | towel | magnet | torch | needle | jar "
    "| tennis racket | mirror | flute | paintbrush | hammer | pair of socks | bar of soap "
    "| shoelace | postcard | bandage | toothbrush | fork | calendar | puzzle | telescope",
)
define(
    "SNACKS",
    "nuts | grapes | cherries | carrots | raisins | dates | radishes | olives | sweets | crackers "
    "| lemons | tomatoes | strawberries | figs | sugar lumps",
)
define(
    "WEATHER",
    "sunny:2 | warm:2 | windy | cloudy | cool | misty | bright | fine | chilly | dry | mild "
    "| foggy | frosty | clear",
)
define("DAYPARTS", "morning:3 | afternoon:2 | day:3")
define("MONTHS", "spring:2 | summer:2 | autumn:2 | March | April | May | June | July | October")

define("SPEAKERS", "{a} | {b}")
define("CRIED", "cried:3 | called:2 | shouted:2 | gasped | exclaimed")
define("GAVE", "gave:3 | handed:2 | passed")
define(
    "WENT", "went:4 | walked:3 | ran:2 | hurried | skipped | set off | strolled | wandered | cycled"
)

_CLASSES = {
    "girls": ("GIRLS",),
    "boys": ("BOYS",),
    "colours": ("COLOURS",),
    "things": ("THINGS",),
    "places": ("PLACES",),
    "foods": ("FOODS",),
    "animals": ("ANIMALS",),
    "pets": ("PETS",),
    "traits": ("TRAITS",),
    "feelings": ("SAD", "HAPPY"),
}
WORD_CLASSES: dict[str, tuple[str, ...]] = {
    label: tuple(o.value for name in names for o in LISTS[name].options if " " not in o.value)
    for label, names in _CLASSES.items()
}
