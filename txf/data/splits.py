"""What a data set is to the rest of txf: a tokenizer, and for each split arrays and a `take`."""

import dataclasses
from functools import partial

from txf.data.batches import Arrays, Batch
from txf.data.tokenizers import Tokenizer


@dataclasses.dataclass(frozen=True)
class Split:
    """One split, ready to be put on a device or read in place.

    Attributes:
        name: train, valid or test.
        arrays: what `take` reads; compact integers.
        num_rows: rows an epoch.
        take: (arrays, rows int32 [batch], draws uint32 [batch]) -> batch. Pure, for numpy and jax
            arrays alike, so that it may be a part of a compiled program: a module's function and
            hashable keywords, by which compiled programs can be kept.
        tokens: how many predictions an epoch makes (for overlapping windows: how many of them
            are different).
        text_bytes: UTF-8 bytes of the text that is predicted, the separators not counted; 0 where
            labels are predicted.
        documents: documents, sentences or pairs.
        floor_nats: the exact surprise of the text in nats, or None where it is unknown.
        kinds: names of the kinds of span that the batches' `kinds` number, or ().
        chance: the accuracy of a reader without the mechanism that a probe is about, or None.
        ceiling: the best accuracy that can be had, or None where it is unknown.
    """

    name: str
    arrays: Arrays
    num_rows: int
    take: partial[Batch]
    tokens: int
    text_bytes: int
    documents: int
    floor_nats: float | None = None
    kinds: tuple[str, ...] = ()
    chance: float | None = None
    ceiling: float | None = None


@dataclasses.dataclass(frozen=True)
class Dataset:
    """All splits, and what it takes to read them.

    Attributes:
        tokenizer: made from the training split, loaded, or given.
        vocab_size: the number of token ids.
        splits: train, valid and, unless the config wants none, test.
        num_classes: of classification and tagging, or None.
        labels: names of the classes, or None.
        notes: what a person should know about how the data was read, a line each.
    """

    tokenizer: Tokenizer
    vocab_size: int
    splits: dict[str, Split]
    num_classes: int | None = None
    labels: tuple[str, ...] | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
