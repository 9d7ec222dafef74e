"""The embedded corpus: an authored generator of children's stories with an exactly known entropy.

`stories(split, seed, num_bytes)` makes a split; `generate(seed, index, split)` one story of it;
`parse(text)` finds the choices that made a story, and `surprises(text)` what each character costs.
See generator.py for why the mean surprise is a floor, and grammar.py for why the text tells all.
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
