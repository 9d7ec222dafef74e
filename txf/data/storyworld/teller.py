"""Telling a story: the one place where choices become text, for writing and for reading alike."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator
from math import fsum, log
from typing import no_type_check

from txf.data.storyworld.grammar import (
    CHOOSE,
    KINDS,
    RECALL,
    RECALL_FAR,
    RECALL_NEAR,
    TEXT,
    Choice,
    Option,
)
from txf.errors import UserError

NEAR = 64  # characters from the start of one mention to the start of the next

_ROWS = [[bytes([kind]) * length for length in range(64)] for kind in range(len(KINDS))]


@no_type_check  # called a million times a second
class Teller:
    """Makes choices, and writes down their text, the kind of each character, and the state.

    Attributes:
      state: what is known: values and their agreeing forms, by key.
      parts, marks: the text so far, and the kinds of its characters, in pieces.
      picks, nats: the options taken, in order, and -log p of each.
      position: the number of characters so far.
    """

    def __init__(self, draw: Callable[[], float]):
        """Tell a story whose choices follow draws, uniform in [0, 1)."""
        self._draw = draw
        self.state: dict[str, str] = {}
        self.parts: list[str] = []
        self.marks: list[bytes] = []
        self.picks: list[Option] = []
        self.nats: list[float] = []
        self.position = 0
        self._last: dict[str, int] = {}

    def decide(self, choice: Choice) -> Option:
        """Return the option whose share of [0, 1) the next draw falls in."""
        return choice.options[bisect_right(choice.cumulative, self._draw() * choice.total)]

    def choose(self, choice: Choice) -> str:
        """Take an option, tell it, and return its value."""
        option = self._take(choice)
        self._perform(option.ops)
        return option.value

    def _take(self, choice: Choice) -> Option:
        option = self.decide(choice)
        self.picks.append(option)
        self.nats.append(log(choice.total / option.weight))
        return option

    def _perform(self, ops: tuple) -> None:
        for op in ops:
            code = op[0]
            if code == TEXT:
                _, text, marks = op
                self.parts.append(text)
                self.marks.append(marks)
                self.position += len(text)
            elif code == CHOOSE:
                _, key, choice, excluded = op
                if excluded:
                    choice = choice.without(tuple([self.state[other] for other in excluded]))
                option = self._take(choice)
                if key:
                    self.state.update(option.bindings(key))
                    self._last[option.value] = self.position + option.offset
                self._perform(option.ops)
            else:
                _, key, kind = op
                text = self.state[key]
                position = self.position
                if kind == RECALL:
                    near = position - self._last[text] <= NEAR
                    kind = RECALL_NEAR if near else RECALL_FAR
                self._last[text] = position
                self.parts.append(text)
                self.marks.append(_ROWS[kind][len(text)])
                self.position = position + len(text)

    def text(self) -> str:
        """Return what has been told."""
        return "".join(self.parts)

    def kinds(self) -> bytes:
        """Return the kind of every character, as indices into KINDS."""
        return b"".join(self.marks)

    def surprise(self) -> float:
        """Return the sum of -log p over the choices, in nats."""
        return fsum(self.nats)


@no_type_check  # called a million times a second
class Reader(Teller):
    """Tells the story that a text tells, finding each choice in the text.

    Attributes:
      surprises: -log p(character | characters before it), in nats, for every character read.
    """

    def __init__(self, text: str):
        """Read text from its first character."""
        super().__init__(lambda: 0.0)
        self._source = text
        self._checked = 0
        self.surprises = [0.0] * len(text)

    def decide(self, choice: Choice) -> Option:
        """Return the one option with which the text goes on.

        Raises:
          UserError: the text goes on with none of them: it is not a story.
          AssertionError: with more than one: the grammar is ambiguous.
        """
        self.check()
        heads = [
            self._render(pieces) if isinstance(pieces, tuple) else pieces
            for pieces in [option.head for option in choice.options]
        ]
        source, position = self._source, self.position
        found = [n for n, head in enumerate(heads) if source.startswith(head, position)]
        if not found:
            self._fail(f"none of the {len(heads)} ways to go on here ({choice.name})")
        if len(found) > 1:
            raise AssertionError(f"{choice.name} is ambiguous: {[heads[n] for n in found]}")
        taken = choice.options[found[0]]
        live = [(head, option.weight) for head, option in zip(heads, choice.options, strict=True)]
        mass = choice.total
        for place, letter in enumerate(heads[found[0]]):
            if len(live) == 1:
                break
            live = [entry for entry in live if entry[0][place : place + 1] == letter]
            left = sum([weight for _, weight in live])
            if left != mass:
                self.surprises[position + place] = log(mass / left)
            mass = left
        return taken

    def _render(self, pieces: tuple) -> str:
        return "".join([op[1] if op[0] == TEXT else self.state[op[1]] for op in pieces])

    def check(self) -> None:
        """Compare what has been told with the text.

        Raises:
          UserError: they differ.
        """
        told = "".join(self.parts[self._checked :])
        self._checked = len(self.parts)
        start = self.position - len(told)
        if not self._source.startswith(told, start):
            self.position = start
            self._fail(repr(told))

    def finish(self) -> None:
        """Check the rest of the text.

        Raises:
          UserError: it differs from what was told, or goes on after the ending.
        """
        self.check()
        if self.position != len(self._source):
            self._fail("the end of the story")

    def _fail(self, expected: str) -> None:
        shown = self._source[self.position : self.position + 30]
        raise UserError(
            f"storyworld: not a story of this grammar: at character {self.position} "
            f"expected {expected}, found {shown!r}"
        )


def runs(kinds: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, kind) for each run of characters of one kind."""
    start = 0
    for kind, group in itertools.groupby(kinds):
        end = start + sum(1 for _ in group)
        yield start, end, KINDS[kind]
        start = end
