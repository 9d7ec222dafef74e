"""Any number of stories from a seed, in three splits that share none, with exact surprise.

**Exact surprise.**  The text determines the choices, so p(text) = product of p(choice), and
surprise = -log p(text) = sum of -log p(choice), in nats.

**Splits.**  A hash of the text alone says which split a story belongs to, so no story is in two
splits, whatever the seeds.  A split's story number i is the first of the candidates
(seed, split, i, attempt 0, 1, ...) that belongs to it.  Its distribution is p(text | split) =
p(text) / share, with share the split's share of the hash (SHARES).

**Why the mean surprise stays an honest floor.**  For a predictor q that does not compute the hash,
the hash is a coin thrown for every text independently of q: over such coins a split's stories are
distributed as p, and the expected loss is E_p[-log q] = E_p[-log p] + KL(p || q), at least the mean
surprise.  A predictor that did compute it could gain log(1 / share) nats a story and no more
(0.4 on train, 1.8 on valid and test, of hundreds): below that no model can go, and no language
model comes near using it.  So the surprise is stated for p, without the correction.
Stories are drawn with replacement, none is dropped for having been seen in its own split: dropping
would change p.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt64

from txf.data.storyworld.teller import Reader, Teller, runs
from txf.data.storyworld.world import tell
from txf.errors import UserError

SPLITS = ("train", "valid", "test")
SHARES = {"train": 4 / 6, "valid": 1 / 6, "test": 1 / 6}
_SPLIT_OF_REMAINDER = ("valid", "test", "train", "train", "train", "train")

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_DRAWS = 128  # made at once for each story; a longer story draws on, from the same sequence
_BLOCK = 256  # stories whose draws are made together


@dataclass(frozen=True, slots=True)
class Story:
    """One story.

    Attributes:
      text: ASCII, so that characters are bytes; no blank line, no newline at either end.
      surprise: -log p(text), in nats.
      kinds: for every character, an index into KINDS, one byte each.
    """

    text: str
    surprise: float
    kinds: bytes

    @property
    def spans(self) -> tuple[tuple[int, int, str], ...]:
        """(start, end, kind) of each run of one kind; together they cover the text exactly."""
        return tuple(runs(self.kinds))


@dataclass(frozen=True, slots=True)
class Pick:
    """One choice: the list's name, the option's place in the whole list, and -log p in nats."""

    source: str
    index: int
    nats: float


def stories(split: str, seed: int, num_bytes: int) -> list[Story]:
    """Return stories 0, 1, 2 ... of a split, as many as it takes to reach num_bytes of text.

    A smaller num_bytes gives a prefix of what a larger one gives.

    Args:
      split: train, valid or test.
      seed: any integer.
      num_bytes: at least 1; the last story is whole, so the total is a little more.

    Raises:
      UserError: an unknown split, or num_bytes below 1.
    """
    _check_split(split)
    if num_bytes < 1:
        raise UserError(f"storyworld: {num_bytes} bytes of stories; ask for at least 1")
    found: list[Story] = []
    size = 0
    for start in itertools.count(0, _BLOCK):
        for story in _block(split, seed, start, start + _BLOCK):
            found.append(story)
            size += len(story.text)
            if size >= num_bytes:
                return found
    raise AssertionError("itertools.count ended")


def generate(seed: int, index: int, split: str = "train") -> Story:
    """Return story number index of a split: a pure function of its arguments.

    Raises:
      UserError: an unknown split, or a negative index.
    """
    _check_split(split)
    if index < 0:
        raise UserError(f"storyworld: story number {index}; numbers start at 0")
    return _block(split, seed, index, index + 1)[0]


def split_of(text: str) -> str:
    """Return the split that a story belongs to, by a hash of its text."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return _SPLIT_OF_REMAINDER[int.from_bytes(digest, "little") % 6]


def parse(text: str) -> tuple[Pick, ...]:
    """Return the choices that made a story.

    Raises:
      UserError: the text is no story of this grammar; says where it leaves it.
    """
    return picks(_read(text))


def surprises(text: str) -> Float[np.ndarray, "characters"]:
    """Return -log p(character | characters before it) of a story, in nats.

    They sum to the story's surprise.  A character is charged where the choice shows: of red and
    rose the first two letters cost what both weigh together, the third tells them apart.

    Raises:
      UserError: the text is no story of this grammar.
    """
    return np.asarray(_read(text).surprises)


def _read(text: str) -> Reader:
    reader = Reader(text)
    tell(reader)
    reader.finish()
    return reader


def picks(told: Teller) -> tuple[Pick, ...]:
    """Return the choices a teller has made."""
    taken = zip(told.picks, told.nats, strict=True)
    return tuple(Pick(option.source, option.index, nats) for option, nats in taken)


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise UserError(f"storyworld: unknown split {split!r}; known: {', '.join(SPLITS)}")


def _block(split: str, seed: int, start: int, stop: int) -> list[Story]:
    found: list[Story | None] = [None] * (stop - start)
    missing = list(range(stop - start))
    for attempt in itertools.count():
        numbers = np.array(missing, np.uint64) + np.uint64(start)
        keys = _keys(split, seed, numbers, attempt)
        rejected = []
        for place, key, row in zip(missing, keys.tolist(), _rows(keys), strict=True):
            told = Teller(_sequence(key, row))
            tell(told)
            text = told.text()
            if split_of(text) == split:
                found[place] = Story(text, told.surprise(), told.kinds())
            else:
                rejected.append(place)
        if not rejected:
            break
        missing = rejected
    return [story for story in found if story is not None]


def _mix(x: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """Scramble 64 bits: the finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _keys(
    split: str, seed: int, numbers: UInt64[np.ndarray, "stories"], attempt: int
) -> UInt64[np.ndarray, "stories"]:
    """Return the key of each candidate's sequence of draws."""
    key = np.array([seed & _MASK], np.uint64)
    for number in (SPLITS.index(split), numbers, attempt):
        key = _mix(key + np.uint64(_GOLDEN) * np.atleast_1d(np.asarray(number, np.uint64)))
    return key


def _rows(keys: UInt64[np.ndarray, "stories"], start: int = 0) -> list[list[float]]:
    """Return draws start ... start + _DRAWS - 1 of each sequence: 53 random bits over 2**53."""
    steps = np.arange(start + 1, start + _DRAWS + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    bits = _mix(keys[:, None] + steps) >> np.uint64(11)
    return (bits.astype(np.float64) * 2.0**-53).tolist()


def _sequence(key: int, row: list[float]) -> Callable[[], float]:
    return itertools.chain(row, _further(key)).__next__


def _further(key: int) -> Iterator[float]:
    for start in itertools.count(_DRAWS, _DRAWS):
        yield from _rows(np.array([key], np.uint64), start)[0]
