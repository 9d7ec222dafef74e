"""Probes of what words do to each other: partners, who did it, what "it" is, what it is like."""

import dataclasses
from types import MappingProxyType

import numpy as np

from txf.data.probes.base import FIRST, Probe, Rows, ask_at_the_end, asked, numbered
from txf.data.probes.draws import Draws


@dataclasses.dataclass(frozen=True)
class PairShift(Probe):
    """A word and its partner, learned in the first half of the window, asked for in the second.

    Somewhere among fillers stands a word a3, and the `?` that ends the row asks for its partner b3.
    In training the word stands in the first half of the row, in valid and test in the second: only
    a model that uses at every position what it has learned at one can answer. The question ends the
    row so that a window that slides with the answer sees the word in other places too.
    """

    pairs: int = 16
    vocab: int = 16

    summary = "a word's partner, where the word was never seen so far along in training"
    guess = "takes any partner"
    origin = "claim C01: attention shares over positions what it learned"

    def needs(self, task: str) -> int:
        """Return room for a word in each half, and the question."""
        return 4

    def words(self) -> list[str]:
        """Return words, their partners, `vocab` fillers and the question."""
        pairs = numbered("a", self.pairs) + numbered("b", self.pairs)
        return [*pairs, *numbered("f", self.vocab), "?"]

    def chance(self, length: int) -> float:
        """Return 1 / pairs."""
        return 1 / self.pairs

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of fillers with one word, and the question."""
        half = length // 2
        first, stop = (1, half) if draws.split == "train" else (half, length - 1)
        word = draws.integers("word", 1, self.pairs)
        place = first + draws.integers("place", 1, stop - first)
        inputs = FIRST + 2 * self.pairs + draws.integers("fillers", length, self.vocab)
        inputs[:, 0] = 0
        np.put_along_axis(inputs, place, FIRST + word, axis=1)
        inputs[:, -1] = FIRST + 2 * self.pairs + self.vocab
        return asked(inputs, FIRST + self.pairs + word, np.array([[length - 1]]))


@dataclasses.dataclass(frozen=True)
class Order(Probe):
    """Who did it: `n3 sees n7 ? n3` is `does`, `n7 sees n3 ? n3` is `suffers`.

    The same bag of words has both labels, equally often, so nothing but order tells them apart. Two
    nouns meet in one split only, in both orders: by their numbers' sum modulo 10, training has
    eight pairs of ten, valid and test one each.
    """

    vocab: int = 16

    tasks = ("classification",)
    summary = "whether the noun asked about does or suffers it"
    guess = "reads the words and not their order"
    origin = "claim C02: attention without positions cannot tell the order of words"

    VERBS = ("sees", "eats", "calls", "follows")
    SUMS = MappingProxyType({"train": range(8), "valid": (8,), "test": (9,)})

    @property
    def labels(self) -> tuple[str, ...]:
        """The two roles."""
        return ("does", "suffers")

    def problems(self) -> list[str]:
        """Return a line if there are too few nouns to have some meet in every split."""
        if self.vocab < 6:
            return [f"data.probe.vocab={self.vocab} nouns are too few to hold pairs out; try 16"]
        return []

    def needs(self, task: str) -> int:
        """Return the length of a sentence."""
        return 6

    def words(self) -> list[str]:
        """Return nouns, verbs and the question mark."""
        return [*numbered("n", self.vocab), *self.VERBS, "?"]

    def chance(self, length: int) -> float:
        """Return one half."""
        return 0.5

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return a sentence a row, and its label."""
        one, other = np.indices((self.vocab, self.vocab)).reshape(2, -1)
        meet = (one != other) & np.isin((one + other) % 10, list(self.SUMS[draws.split]))
        met = np.stack([one[meet], other[meet]], axis=1)
        nouns = FIRST + met[draws.integers("nouns", 1, len(met))[:, 0]]
        verb = FIRST + self.vocab + draws.integers("verb", 1, len(self.VERBS))
        label = draws.integers("label", 1, 2)
        asked_about = np.take_along_axis(nouns, label, axis=1)
        begin = np.zeros_like(label)
        mark = begin + FIRST + self.vocab + len(self.VERBS)
        parts = [begin, nouns[:, :1], verb, nouns[:, 1:], mark, asked_about]
        return Rows(np.concatenate(parts, axis=1), label[:, 0], np.ones(draws.rows, np.uint8))


@dataclasses.dataclass(frozen=True)
class Reference(Probe):
    """A pronoun must find the noun that fits: `n3.1 n0.5 n6.2 ... it0` asks for n0.5.

    Noun n0.5 is number 5 of class 0; the pronoun of a class is another word than its nouns, and
    must look for what is unlike itself. A row has `pairs` nouns, of different classes.
    """

    pairs: int = 4
    classes: int = 8
    vocab: int = 64

    summary = "a pronoun asks for the noun of its class"
    guess = "takes one of the row's nouns"
    origin = "claim C03: queries and keys let a token look for what it is not"

    def problems(self) -> list[str]:
        """Return a line for classes that do not divide the nouns, one for too few classes."""
        found = []
        if self.vocab % self.classes:
            found.append(
                f"data.probe.classes={self.classes} does not divide data.probe.vocab={self.vocab};"
                f" try {self.classes * -(-self.vocab // self.classes)} nouns"
            )
        if self.pairs > self.classes:
            found.append(
                f"data.probe.pairs={self.pairs} nouns of a row are of different classes, and"
                f" data.probe.classes={self.classes}; raise the one or lower the other"
            )
        return found

    def needs(self, task: str) -> int:
        """Return room for the nouns and one pronoun."""
        return 2 + self.pairs

    def words(self) -> list[str]:
        """Return the nouns, class by class, and the pronouns."""
        nouns = [self.noun(kind, n) for kind in range(self.classes) for n in range(self.size)]
        return nouns + numbered("it", self.classes)

    @property
    def size(self) -> int:
        """Nouns a class."""
        return self.vocab // self.classes

    def noun(self, kind: int, number: int) -> str:
        """Return noun `number` of class `kind`."""
        return f"n{kind}.{number}"

    def chance(self, length: int) -> float:
        """Return 1 / pairs."""
        return 1 / self.pairs

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of nouns, then pronouns."""
        kinds = draws.distinct("classes", self.pairs, self.classes)
        nouns = kinds * self.size + draws.integers("nouns", self.pairs, self.size)
        which = draws.integers("pronouns", length - 1 - self.pairs, self.pairs)
        pronouns = self.vocab + np.take_along_axis(kinds, which, axis=1)
        answers = self.answers(np.take_along_axis(nouns, which, axis=1))
        return ask_at_the_end(FIRST + nouns, FIRST + pronouns, FIRST + answers)

    def answers(self, nouns: np.ndarray) -> np.ndarray:
        """Return the number of the word that is asked for where `nouns` are found."""
        return nouns


@dataclasses.dataclass(frozen=True)
class Attribute(Reference):
    """A pronoun asks for a property of the noun that fits: `n0.5:p1 ... it0` asks for p1.

    The word n0.5:p1 is one token, as apple is one; that it is p1, as an apple is red, is to be
    learned. Every class has nouns of every property, so a pronoun alone tells nothing.
    """

    attributes: int = 4

    summary = "a pronoun asks for a property of the noun of its class"
    guess = "takes the property of one of the row's nouns"
    origin = "claim C04: values let a token give something other than itself"

    def problems(self) -> list[str]:
        """Return a line more for properties that do not divide the nouns of a class."""
        found = super().problems()
        if not found and self.size % self.attributes:
            found.append(
                f"data.probe.attributes={self.attributes} does not divide the {self.size} nouns of"
                " a class, data.probe.vocab / data.probe.classes; change one of the three"
            )
        return found

    def words(self) -> list[str]:
        """Return the nouns, the pronouns and the properties."""
        return super().words() + numbered("p", self.attributes)

    def noun(self, kind: int, number: int) -> str:
        """Return noun `number` of class `kind`, with its property."""
        return f"n{kind}.{number}:p{number % self.attributes}"

    def chance(self, length: int) -> float:
        """Return (1 + (pairs - 1) / attributes) / pairs: the right noun, or one that is alike."""
        return (1 + (self.pairs - 1) / self.attributes) / self.pairs

    def answers(self, nouns: np.ndarray) -> np.ndarray:
        """Return the properties of `nouns`."""
        return self.vocab + self.classes + nouns % self.size % self.attributes
