"""The embedded corpus: an authored generator of children's stories with an exactly known entropy.

`stories(split, seed, num_bytes)` makes a split; `generate(seed, index, split)` one story of it;
`parse(text)` finds the choices that made a story, and `surprises(text)` what each character costs.

A story is about 180 words (120 to 300) in three paragraphs; its floor is 0.20 bits per byte, about
130 nats a story, all of it in spans of kind "choice".  What a story says early (whose, what colour,
where) it needs later: spans of the kinds "recall_near" and "recall_far" (a word mentioned at most,
or more than, NEAR characters before), "pronoun" (agreement) and "order" (who did what to whom) are
determined by what stands before them, as is "other", the filler: their floor is exactly 0.

generator.py says why the mean surprise is a floor, and grammar.py why the text tells its choices.
The words are in lexicon.py, the sentence shapes in opening.py, events.py and ending.py, and what
may happen when in world.py.
"""

from txf.data.storyworld.generator import (
    SHARES,
    SPLITS,
    Pick,
    Story,
    generate,
    parse,
    split_of,
    stories,
    surprises,
)
from txf.data.storyworld.grammar import KINDS
from txf.data.storyworld.lexicon import WORD_CLASSES
from txf.data.storyworld.teller import NEAR

__all__ = [
    "KINDS",
    "NEAR",
    "SHARES",
    "SPLITS",
    "WORD_CLASSES",
    "Pick",
    "Story",
    "generate",
    "parse",
    "split_of",
    "stories",
    "surprises",
]
