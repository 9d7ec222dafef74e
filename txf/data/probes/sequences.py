"""Probes of going on with a sequence: induction, copy, reverse."""

import dataclasses

import numpy as np

from txf.data.probes.base import FIRST, Probe, Rows, ask_at_the_end, asked, numbered
from txf.data.probes.draws import Draws


@dataclasses.dataclass(frozen=True)
class Induction(Probe):
    """After `... A B ...`, A asks for B.

    The first half of a row is different symbols in random order; each symbol of the second half
    is one of those, no two alike, and asks for the one that followed it. A symbol is followed by
    every other equally often over the rows, so a table of bigrams says nothing. One block cannot
    do it: that B follows A must be noted at B before A can look for it.
    """

    vocab: int = 64

    summary = "a symbol asks for the one that followed it before"
    guess = "takes another symbol of the first half"
    origin = "induction heads, Elhage et al. 2021 and Olsson et al. 2022"

    def needs(self, task: str) -> int:
        """Return room for A B A."""
        return 4

    def longest(self) -> int:
        """Return the length whose first half takes the whole vocabulary."""
        return 2 * self.vocab

    def words(self) -> list[str]:
        """Return the symbols."""
        return numbered("s", self.vocab)

    def chance(self, length: int) -> float:
        """Return 1 / (symbols of the first half - 1)."""
        return 1 / (_first_half(length) - 1)

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of different symbols, then queries."""
        half = _first_half(length)
        symbols = FIRST + draws.distinct("symbols", half, self.vocab)
        place = draws.distinct("queries", length - 1 - half, half - 1)
        queries, answers = (np.take_along_axis(symbols, place + step, axis=1) for step in (0, 1))
        return ask_at_the_end(symbols, queries, answers)


def _first_half(length: int) -> int:
    return (length + 1) // 2


@dataclasses.dataclass(frozen=True)
class Copy(Probe):
    """`s4 s1 s1 s7 =` asks for s4 s1 s1 s7: what stands a fixed way back."""

    vocab: int = 16

    summary = "a sequence again"
    guess = "takes the symbol of any place in the sequence"
    origin = "Graves et al. 2014, section 4.1"

    def needs(self, task: str) -> int:
        """Return room for one symbol, the separator and nothing to copy yet."""
        return 3

    def words(self) -> list[str]:
        """Return the symbols and the separator."""
        return [*numbered("s", self.vocab), "="]

    def chance(self, length: int) -> float:
        """Return (1 + (n - 1) / vocab) / n: the right place, or a place of the same symbol."""
        count = (length - 1) // 2
        return (1 + (count - 1) / self.vocab) / count

    def make(self, draws: Draws, length: int, task: str) -> Rows:
        """Return rows of a sequence, the separator, and the answers but for the last."""
        count = (length - 1) // 2
        symbols = FIRST + draws.integers("symbols", count, self.vocab)
        answers = self.answers(symbols)
        begin = np.zeros_like(symbols[:, :1])
        inputs = np.concatenate([begin, symbols, begin + FIRST + self.vocab, answers], axis=1)
        return asked(inputs[:, :-1], answers, 1 + count + np.arange(count)[None])

    def answers(self, symbols: np.ndarray) -> np.ndarray:
        """Return what is asked for after `symbols`."""
        return symbols


@dataclasses.dataclass(frozen=True)
class Reverse(Copy):
    """`s4 s1 s1 s7 =` asks for s7 s1 s1 s4: what stands another way back each time."""

    summary = "a sequence backwards"
    origin = "Grefenstette et al. 2015"

    def answers(self, symbols: np.ndarray) -> np.ndarray:
        """Return the symbols from the last to the first."""
        return symbols[:, ::-1]
