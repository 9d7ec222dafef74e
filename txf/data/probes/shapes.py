"""Probes of what each shape of model is for: infilling and tagging from both sides, translation."""

import dataclasses

import numpy as np

from txf.data.probes.base import FIRST, Pairs, Probe, Rows, asked, numbered
from txf.data.probes.draws import Draws


@dataclasses.dataclass(frozen=True)
class MaskedInfilling(Probe):
    """A hidden token that both sides determine: `l3 <|mask|> r5` hides `l3r5`.

    A row is such triples; every middle is hidden. The left side alone leaves `vocab` choices.
    """

    vocab: int = 8

    tasks = ("masked_language_model",)
    summary = "the token between two that determine it together"
    guess = "reads one side"
    origin = "claim C17: bidirectional attention is for infilling; Taylor 1953"

    def needs(self, task: str) -> int:
        """Return room for one triple."""
        return 4

    def words(self) -> list[str]:
        """Return left sides, right sides and middles."""
        numbers = range(self.vocab)
        middles = [f"l{left}r{right}" for left in numbers for right in numbers]
        return numbered("l", self.vocab) + numbered("r", self.vocab) + middles

    def chance(self, length: int) -> float:
        """Return 1 / vocab."""
        return 1 / self.vocab

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of triples with their middles hidden."""
        vocab, count = self.vocab, (length - 1) // 3
        left, right = (draws.integers(side, count, vocab) for side in ("left", "right"))
        hidden = np.full_like(left, FIRST + vocab * (2 + vocab))  # <|mask|> is the last id
        triples = np.stack([FIRST + left, hidden, FIRST + vocab + right], axis=2)
        inputs = np.concatenate([np.zeros_like(left[:, :1]), triples.reshape(len(left), -1)], 1)
        middles = FIRST + 2 * vocab + left * vocab + right
        return asked(inputs, middles, 2 + 3 * np.arange(count)[None])


@dataclasses.dataclass(frozen=True)
class LookaheadTagging(Probe):
    """Each word's tag is the class of the word behind it: `w0.3 w2.1 w1.0` is tagged `c2 c1`.

    The last word has none behind it and asks nothing.
    """

    classes: int = 4
    vocab: int = 32

    tasks = ("tagging",)
    summary = "the class of the next word"
    guess = "reads the words up to the one that is tagged"
    origin = "claim C17: bidirectional attention is for labelling"

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""
        return tuple(numbered("c", self.classes))

    def problems(self) -> list[str]:
        """Return a line for classes that do not divide the words, or for a single one."""
        if self.classes < 2 or self.vocab % self.classes:
            return [
                f"data.probe.classes={self.classes} takes 2 or more, and a divisor of"
                f" data.probe.vocab={self.vocab}"
            ]
        return []

    def needs(self, task: str) -> int:
        """Return room for two words."""
        return 3

    def words(self) -> list[str]:
        """Return the words, class by class."""
        size = self.vocab // self.classes
        return [f"w{kind}.{number}" for kind in range(self.classes) for number in range(size)]

    def chance(self, length: int) -> float:
        """Return 1 / classes."""
        return 1 / self.classes

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of words and the tags of all but the last."""
        words = draws.integers("words", length - 1, self.vocab)
        inputs = np.concatenate([np.zeros_like(words[:, :1]), FIRST + words], axis=1)
        tags = words[:, 1:] // (self.vocab // self.classes)
        return asked(inputs, tags, 1 + np.arange(length - 2)[None])


@dataclasses.dataclass(frozen=True)
class TranslationByRule(Probe):
    """Words have translations, and each two change places: `s4 s1 s7 s0` is `t1 t4 t0 t7`.

    A sentence is 1 to `pairs` pairs of words. As a translation the encoder reads it and the decoder
    writes its translation; as a language model's, `=` stands between them in one row, whose end is
    asked for too.
    """

    pairs: int = 6
    vocab: int = 16

    tasks = ("translation", "language_model")
    summary = "word for word, each two words in the other order"
    guess = "translates the word of any place, or ends"
    origin = "claim C17: an encoder-decoder maps one sequence to another"

    def needs(self, task: str) -> int:
        """Return room for the longest sentence and its end, or for both sentences."""
        return 2 * self.pairs + 1 if task == "translation" else 4 * self.pairs + 2

    def words(self) -> list[str]:
        """Return the words, their translations and the sign between them."""
        return [*numbered("s", self.vocab), *numbered("t", self.vocab), "="]

    def chance(self, length: int) -> float:
        """Return how often a random place of the source, its end included, gives the next token.

        A row of m pairs has 2 m words and an end; a word is right at its own place, and at others
        by luck: (2 m (1 + (2 m - 1) / vocab) + 1) / (2 m + 1) tokens. Summed over the equally
        likely m, and divided by all the tokens.
        """
        words = [2 * m for m in range(1, self.pairs + 1)]
        right = sum((n * (1 + (n - 1) / self.vocab) + 1) / (n + 1) for n in words)
        return right / sum(n + 1 for n in words)

    def make(self, draws: Draws, length: int, task: str) -> Rows | Pairs:
        """Return sentences and their translations."""
        most = 2 * self.pairs
        words = draws.integers("words", most, self.vocab)
        count = 2 * (1 + draws.integers("length", 1, self.pairs))
        swapped = words.reshape(-1, self.pairs, 2)[:, :, ::-1].reshape(words.shape)
        place = np.arange(most + 1)[None]
        source, target = (
            np.pad(first + side, ((0, 0), (0, 1))) * (place < count)
            for first, side in ((FIRST, words), (FIRST + self.vocab, swapped))
        )
        lengths = count[:, 0] + 1
        if task == "translation":
            return Pairs(source, target, lengths, lengths)
        return self._in_one_row(source, target, count)

    def _in_one_row(self, source: np.ndarray, target: np.ndarray, count: np.ndarray) -> Rows:
        """Return `<|endoftext|>`, source, `=` and target, which is asked for, in one row."""
        width = 2 * source.shape[1]
        place = np.arange(width)[None]
        shift = place - 2 - count  # the place in the target that a token behind `=` is of
        reading = np.take_along_axis(np.pad(source, ((0, 0), (1, width))), place, axis=1)
        written = np.take_along_axis(target, shift.clip(0, count), axis=1)
        inputs = np.where(shift >= 0, written, reading * (place <= count))
        inputs = np.where(shift == -1, FIRST + 2 * self.vocab, inputs) * (shift < count)
        answers = np.take_along_axis(target, (shift + 1).clip(0, count), axis=1)
        marks = (shift >= -1) & (shift < count)
        return Rows(inputs, answers * marks, marks.astype(np.uint8), 2 * count[:, 0] + 2)
