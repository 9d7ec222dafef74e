"""What a probe is: symbols, rows, the answers that count, and the scores to compare with."""

import abc
import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Integer, UInt8

from txf.data.probes.draws import Draws

FIRST = 2  # the id of a probe's first word: 0 is <|endoftext|>, 1 <|unknown|>


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a probe, as wide as the probe makes them; what is not an answer has mark 0.

    Attributes:
        inputs: what the model reads. Of a classification too.
        targets: the answers, at the positions that `marks` names; elsewhere 0. One a row of a
            classification.
        marks: 0 for a position that asks nothing, else 1 + the kind of the answer.
        lengths: tokens before the padding of each row, or None where no row has any.
    """

    inputs: Integer[np.ndarray, "rows tokens"]
    targets: Integer[np.ndarray, "rows tokens"] | Integer[np.ndarray, "rows"]
    marks: UInt8[np.ndarray, "rows tokens"] | UInt8[np.ndarray, "rows"]
    lengths: Integer[np.ndarray, "rows"] | None = None


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Sources and targets of a translation, `<|endoftext|>` behind each, padded with it.

    Attributes:
        source, target: [rows, tokens].
        source_lengths, target_lengths: tokens of each, `<|endoftext|>` counted.
    """

    source: Integer[np.ndarray, "rows source_tokens"]
    target: Integer[np.ndarray, "rows target_tokens"]
    source_lengths: Integer[np.ndarray, "rows"]
    target_lengths: Integer[np.ndarray, "rows"]


@dataclasses.dataclass(frozen=True)
class Probe(abc.ABC):
    """A synthetic task that isolates one mechanism.

    The fields of a probe are its parameters, the keys of `data.probe`, with its own defaults.

    Attributes:
        tasks: what it can be; the first is its own.
        summary: what it asks, in a line.
        guess: how a reader without the mechanism scores `chance`, in words.
        origin: where it is from.
        ceiling: the accuracy of a reader that has the mechanism: all answers follow from the row.
        labels: classes of a classification or tagging, or None.
    """

    tasks: ClassVar[tuple[str, ...]] = ("language_model",)
    summary: ClassVar[str]
    guess: ClassVar[str]
    origin: ClassVar[str]
    ceiling: ClassVar[float] = 1.0

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the classes, or None."""
        return None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of answer, or () where all are of one kind."""
        return ()

    def problems(self) -> list[str]:
        """Return what is wrong with the parameters, a line each."""
        return []

    @abc.abstractmethod
    def needs(self, task: str) -> int:
        """Return the shortest `data.context_length` that a row fits into."""

    def longest(self) -> int | None:
        """Return the longest `data.context_length` that a row can be made for, or None."""
        return None

    @abc.abstractmethod
    def words(self) -> list[str]:
        """Return the symbols, of which number i has the id `FIRST` + i."""

    @abc.abstractmethod
    def chance(self, length: int) -> float:
        """Return the accuracy of the reader that `guess` describes, rows being `length` long."""

    @abc.abstractmethod
    def make(self, draws: Draws, length: int, task: str) -> Rows | Pairs:
        """Return `draws.rows` rows, each at most `length` tokens."""


def numbered(prefix: str, count: int) -> list[str]:
    """Return prefix0, prefix1 ..."""
    return [f"{prefix}{number}" for number in range(count)]


def asked(
    inputs: Integer[np.ndarray, "rows tokens"],
    answers: Integer[np.ndarray, "rows answers"],
    places: Integer[np.ndarray, "#rows answers"],
    kinds: Integer[np.ndarray, "#rows answers"] | None = None,
) -> Rows:
    """Return rows that are asked for `answers` at `places`, of these kinds if there are several."""
    targets, marks = np.zeros_like(inputs), np.zeros(inputs.shape, np.uint8)
    places = np.broadcast_to(places, answers.shape)
    np.put_along_axis(targets, places, answers, axis=1)
    number = np.uint8(1) if kinds is None else np.broadcast_to(kinds + 1, answers.shape)
    np.put_along_axis(marks, places, np.asarray(number, np.uint8), axis=1)
    return Rows(inputs, targets, marks)


def ask_at_the_end(
    context: Integer[np.ndarray, "rows context"],
    questions: Integer[np.ndarray, "rows questions"],
    answers: Integer[np.ndarray, "rows questions"],
) -> Rows:
    """Return rows of `<|endoftext|>`, the context, and a question in each place that is left."""
    begin = np.zeros_like(context[:, :1])
    inputs = np.concatenate([begin, context, questions], axis=1)
    first = 1 + context.shape[1]
    places = first + np.arange(questions.shape[1])[None]
    return asked(inputs, answers, places)
