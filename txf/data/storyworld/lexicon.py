"""The words of the storyworld: names with their sex, things, places, foods, animals, feelings.

A list is written as words between bars, "red:4 | blue" giving red four times the weight of blue.
"""

from __future__ import annotations

from collections.abc import Mapping

from txf.data.storyworld.grammar import Choice, Option, article

LISTS: dict[str, Choice] = {}

SHE = {".he": "she", ".He": "She", ".him": "her", ".his": "her", ".His": "Her", ".girl": "girl"}
HE = {".he": "he", ".He": "He", ".him": "him", ".his": "his", ".His": "His", ".girl": "boy"}


def entries(words: str, forms: Mapping[str, str] | None = None) -> list[Option]:
    """Return the options of a bar-separated list, each with its article as form ".a"."""
    options = []
    for entry in words.split("|"):
        word, _, weight = entry.strip().partition(":")
        agreeing = {".a": article(word), **(forms or {})}
        options.append(Option(word, int(weight or 1), forms=agreeing))
    return options


def define(name: str, *groups: list[Option] | str) -> Choice:
    """Make the list that templates call by this name."""
    options = [o for g in groups for o in (entries(g) if isinstance(g, str) else g)]
    LISTS[name] = Choice(name, options, LISTS)
    return LISTS[name]


def _with_form(suffix: str, words: str) -> list[Option]:
    """Read "in: woods, valley | on: hill": what stands before the colon is the words' form."""
    options = []
    for group in words.split("|"):
        form, _, members = group.partition(":")
        for word in members.split(","):
            forms = {".a": article(word.strip()), suffix: form.strip()}
            options.append(Option(word.strip(), forms=forms))
    return options


def _spots(words: str) -> list[Option]:
    """Read "under, behind: bench | ...": every preposition with every noun."""
    return [
        Option(f"{preposition.strip()} the {noun.strip()}")
        for group in words.split("|")
        for preposition in group.partition(":")[0].split(",")
        for noun in group.partition(":")[2].split(",")
    ]


_GIRLS = (
    "Lily:3 | Mia:3 | Anna:3 | Sara:2 | Emma:2 | Lucy:2 | Zoe:2 | Nora:2 | Ella | Clara | Ivy "
    "| Maya | Tess | Jane | Kate | Amy | Beth | Dora | Olga | Wendy"
)
_BOYS = (
    "Ben:3 | Tom:3 | Max:3 | Sam:2 | Leo:2 | Jack:2 | Finn:2 | Tim:2 | Noah | Dan | Hugo | Paul "
    "| Luke | Oscar | Theo | Adam | Jim | Peter | Eric | Ned"
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
    entries("old woman:2 | kind lady:2 | milkmaid | young woman | washerwoman", SHE),
    entries("old man:2 | tall man:2 | postman | fisherman | shepherd boy", HE),
)
define(
    "TRAITS",
    "kind:3 | brave:3 | clever:2 | cheerful:2 | gentle:2 | patient | helpful | polite "
    "| curious:2 | thoughtful | friendly | lively | quiet",
)
define(
    "COLOURS",
    "red:4 | blue:4 | green:3 | yellow:3 | orange:2 | purple:2 | pink:2 | brown | white:2 "
    "| black:2 | grey | silver",
)
LIGHT = "hat:2 | kite:2 | ball:2 | sun hat | scarf | ribbon | cap | paper plane"
FRAGILE = "toy boat | toy car | toy train | drum | doll | lantern | cup | wooden horse"
STURDY = "book | bell | bucket | basket | whistle | blanket | umbrella | teddy bear | spade | bag"
define("THINGS", LIGHT, FRAGILE, STURDY)
define(
    "ADJECTIVES",
    "new:3 | old:3 | little:3 | big:3 | small:2 | lovely:2 | pretty:2 | fine | bright:2 | special "
    "| tiny | beautiful | nice | odd | splendid",
)
define(
    "PLACES",
    _with_form(
        ".in",
        "in: park, woods, meadow, orchard, valley, forest | on: beach, farm, hill, island "
        "| by: river, lake, pond, stream, old mill | at: playground, harbour, market, old castle, "
        "village green",
    ),
)
define(
    "SPOTS",
    _spots(
        "under, behind, beside: old bench, wooden cart, tall hedge, apple tree, stone bridge "
        "| behind, beside: big rock, broken wall, garden shed, wooden gate, old well, haystack "
        "| in, under, behind: hollow log, rowing boat, wheelbarrow "
        "| in, behind: long grass, thick bush, empty barrel"
    ),
)
define("TREES", "tall tree:3 | oak tree | pear tree | pine tree | willow | chestnut tree")
define(
    "FOODS",
    "sandwich:2 | apple:2 | bun | cake:2 | pear | cookie:2 | banana | muffin | pie | peach "
    "| pancake | waffle | biscuit | plum | cherry tart | honey cake | cheese roll | egg sandwich",
)
define(
    "SUPPERS",
    "tomato soup:2 | pancakes:2 | noodles | fish pie | rice pudding | porridge | carrot stew "
    "| pea soup | roast potatoes | cheese on toast | apple pie | jam rolls | mushroom omelette",
)
define(
    "ANIMALS",
    _with_form(
        ".ran",
        "ran: kitten, puppy, squirrel, mouse, lamb, fox, goat | hopped: rabbit, frog "
        "| flew: bird, owl, robin | crept: hedgehog, turtle | waddled: duckling, goose",
    ),
)
define("THIEVES", "goose | dog:2 | goat:2 | crow | seagull | donkey | pig")
define(
    "PETS",
    "Pip:2 | Dot | Fluffy | Button | Pepper | Bubbles | Sunny | Patch | Nibbles | Snowball "
    "| Whiskers | Bean | Hazel | Pebble | Clover | Ziggy",
)
define(
    "ACTIVITIES",
    "sang songs:2 | told jokes | played tag:2 | picked flowers:2 | watched the clouds "
    "| chased butterflies | danced in the sun | looked for beetles | drew pictures in the dirt "
    "| hopped like frogs | rolled down a slope | threw pebbles | collected acorns | flew like birds "
    "| made daisy chains | counted ants | climbed over logs | built a den:2 | dug a deep hole "
    "| splashed in puddles",
)
define(
    "TREASURES",
    "key:2 | gold coin:2 | sea shell | feather | marble | map | crown | pearl | magic lamp "
    "| ruby ring | pocket watch | tin soldier | music box",
)
define("GOALS", "old gate | big oak | bridge | fountain | far wall | last fence | white post")
define("GLUES", "glue:3 | tape:2 | string:2 | wire | wool | clay | rope")
define("REACHES", "ladder:3 | long stick:2 | fishing rod | rake | broom | pole | walking stick")
define(
    "JUNK", "old boot | rusty nail | wet sock | snail | broken cup | pine cone | empty tin | toad"
)
define("SAD", "sad:3 | worried:2 | upset:2 | unhappy | gloomy | sorry | miserable")
define("HAPPY", "happy:3 | glad:2 | proud | pleased | delighted | merry | thankful | cheerful")
define("NUMBERS", "ten:3 | twenty:2 | thirty | fifty | one hundred | seven")
define(
    "WEATHER", "sunny:3 | warm:2 | windy:2 | cloudy | cool | misty | bright | fine | quiet | chilly"
)
define("DAYPARTS", "morning:3 | afternoon:2 | day:3")
define("MONTHS", "spring:2 | summer:2 | autumn:2 | March | April | May | June | July | October")

WORD_CLASSES: dict[str, tuple[str, ...]] = {
    label: tuple(o.value for name in names for o in LISTS[name].options if " " not in o.value)
    for label, names in {
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
    }.items()
}
