"""How a story opens: who there is, whose is what, where they go and what they do first.

The actors: a is the hero, b the other child, giver a grown-up who gave a the thing.
"""

from __future__ import annotations

from txf.data.storyworld import lexicon  # noqa: F401 (templates use its lists)
from txf.data.storyworld.lists import define, merged, shapes

define(
    "HOUSES",
    "little house:2 | small cottage | tall house | wooden hut | stone house | old tower "
    "| wide villa | round house | houseboat | farmhouse",
)
define(
    "HOMES",
    "by the sea:2 | near the mountains | at the end of a long road | above a shop "
    "| behind a church | on a busy street | at the edge of a village:2 | next to a windmill "
    "| across a railway line | not far from here | between two canals | under a cliff",
)
shapes(
    "NAMED",
    """
    2 | girl named {a=GIRLS}
    2 | boy named {a=BOYS}
    1 | girl called {a=GIRLS}
    1 | boy called {a=BOYS}
    """,
    before="",
)
OPENING = shapes(
    "OPENING",
    """
    4 | Once upon a time there was {a trait=TRAITS} {=NAMED}.
    2 | There once was {a trait=TRAITS} {=NAMED} who lived {=HOMES}.
    2 | This is the story of {a=CHILDREN}, {a trait=TRAITS} {a.girl}.
    3 | In {a =HOUSES} {=HOMES} lived {a trait=TRAITS} {=NAMED}.
    1 | Long ago, {=HOMES}, there lived {a trait=TRAITS} {=NAMED}.
    2 | Everybody knew {a=CHILDREN}, {a trait=TRAITS} {a.girl} who lived {=HOMES}.
    1 | Let me tell you about {a=CHILDREN}, {a trait=TRAITS} {a.girl} from {a =HOUSES} {=HOMES}.
    """,
    before="",
)
shapes(
    "THAT",
    """
    2 | that {a.he} loved very much
    1 | and took it everywhere
    1 | and was very proud of it
    1 | that was a present from {giver=GROWNUPS}
    1 | which had come in the post from {giver=GROWNUPS}
    1 | and would not sleep without it
    """,
    before="",
)
define("MORE", "very much | more than anything | best of all | more than {a.he} could say")
POSSESSION = shapes(
    "POSSESSION",
    """
    4 | {a.He} had {a =ADJECTIVES} {ac=COLOURS} {at=THINGS} {=THAT}.
    2 | {a.He} loved {a.his} {=ADJECTIVES} {ac=COLOURS} {at=THINGS} {=MORE}.
    2 | Wherever {a.he} went, {a.he} took {a.his} {=ADJECTIVES} {ac=COLOURS} {at=THINGS} along.
    2 | For {a.his} birthday, {giver=GROWNUPS} gave {a.him} {a =ADJECTIVES} {ac=COLOURS}
        {at=THINGS}.
    """,
)
shapes(
    "SIBLINGS",
    """
    2 | brother {b=BOYS/a}
    2 | sister {b=GIRLS/a}
    1 | big brother {b=BOYS/a}
    1 | big sister {b=GIRLS/a}
    1 | cousin {b=CHILDREN/a}
    """,
    before="",
)
define("FRIENDS", "friend:3 | best friend:2 | neighbour")
FRIEND = shapes(
    "FRIEND",
    """
    3 | {a.His} {=FRIENDS} {b=CHILDREN/a} had {a =ADJECTIVES} {bc=COLOURS/ac} {bt=THINGS/at}.
    2 | {a.He} often played with {a.his} {=SIBLINGS}, who had {a =ADJECTIVES} {bc=COLOURS/ac}
        {bt=THINGS/at}.
    2 | Next door lived {b=CHILDREN/a}. {b.He} had {a =ADJECTIVES} {bc=COLOURS/ac} {bt=THINGS/at}.
    1 | Every day {a.he} met {b=CHILDREN/a}, who owned {a =ADJECTIVES} {bc=COLOURS/ac}
        {bt=THINGS/at}.
    """,
)
_LIKES = shapes(
    "LIKES",
    """
    3 likes | {a} liked to eat {fav=SUPPERS} best of all.
    2 likes | {a.His} favourite food was {fav=SUPPERS}.
    1 likes | Nothing made {a} as happy as {fav=SUPPERS}.
    """,
)

define("MEALS", "breakfast:3 | lunch:3 | school:2 | a nap | church | the rain")
define("YES", "Yes | What a good idea | Oh yes | I would love to | Hurray | Of course | Gladly")
define(
    "GLADLY", "nodded | clapped | smiled | jumped up | was ready in no time | put on {a.his} shoes"
)
shapes("AGREED", '2 | "{=YES}!" said {a!} {=HOW}.\n1 | {a} {=GLADLY}.')
OUTING = shapes(
    "OUTING",
    """
    4 out | One {=WEATHER} {=DAYPARTS}, {a} and {b} {=WENT} to the {place=PLACES}.
    2 out | On {a =WEATHER} {=DAYPARTS} in {=MONTHS}, the two {=WENT} to the {place=PLACES}.
    2 out | After {=MEALS}, {b} said, "Let us go to the {place=PLACES}!"{=AGREED}
    1 out | "Shall we go to the {place=PLACES}?" {b} asked one {=WEATHER} {=DAYPARTS}.{=AGREED}
    """,
    before="\n",
)
_BRING = shapes(
    "BRING",
    """
    2 bring | {a} took {a.his} {at}, and {b} brought {b.his} {bt}.
    2 bring | {b} brought the {bc} {bt}, and {a} brought the {ac} {at}.
    2 bring | They took the {ac} {at} and the {bc} {bt} with them.
    1 bring | Of course {a.his} {ac} {at} came too, and so did {b!}'s {bt}.
    """,
)
_SIGHTSEEING = shapes(
    "SIGHTSEEING",
    """
    3 see | On the way they saw {=COUNTS} {=MANNERS} {=CROWDS} and {a =ADJECTIVES} {=SIGHTS}.
    2 see | They passed {a =ADJECTIVES} {=SIGHTS}, {a =ADJECTIVES} {=SIGHTS} and {=COUNTS}
        {=MANNERS} {=CROWDS}.
    1 see | Soon {b} pointed at {a =ADJECTIVES} {=SIGHTS} with {=COUNTS} {=MANNERS} {=CROWDS} in
        front of it.
    1 see | At the first corner stood {a =ADJECTIVES} {=SIGHTS}. Around it were {=COUNTS} {=MANNERS}
        {=CROWDS}.
    """,
)
_PACKING = shapes(
    "PACKING",
    """
    2 pack | {b} had packed {a =ADJECTIVES} {=PACKED}, {a =ADJECTIVES} {=PACKED} and {=COUNTS}
        {=SNACKS}.
    1 pack | In a bag they had {=COUNTS} {=SNACKS} and {a =ADJECTIVES} {=PACKED}.
    1 pack | {a}'s pockets were full: {a =ADJECTIVES} {=PACKED}, {=COUNTS} {=SNACKS} and {a
        =ADJECTIVES} {=PACKED}.
    """,
)
define(
    "LONG",
    "for a long time | for two hours | for half the day | until they were out of breath "
    "| until they were tired | without a break | as never before | until the clock struck "
    "| side by side | for fun | like champions | until their feet hurt",
)
define("PLEASANT", "lovely:2 | calm | peaceful | warm | nice | pleasant | cool | damp | shady")
ACTIVITY = shapes(
    "ACTIVITY",
    """
    3 act | First they {act=ACTIVITIES}, and then they {=ACTIVITIES/act}.
    2 act | Here they {act=ACTIVITIES} {=LONG}.
    2 act | There {a} and {b} {act=ACTIVITIES} {=LONG}.
    1 act | The air was fresh, and the children {act=ACTIVITIES}.
    1 act | It was {=PLEASANT} {place.in} the {place}, and they {act=ACTIVITIES}.
    """,
)
PROLOGUE = merged("PROLOGUE", (1, _LIKES), (1, OUTING))
ARRIVAL = merged("ARRIVAL", (4, _BRING), (6, _SIGHTSEEING), (10, _PACKING), (2, ACTIVITY))
