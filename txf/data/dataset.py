"""A config's data group to a dataset: a tokenizer, and for each split arrays and a pure `take`."""

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
from ml_collections import ConfigDict

from txf.data import batches, sources
from txf.data.batches import Arrays, Batch
from txf.data.tokenizers import Tokenizer, check_ids, load_tokenizer, train_tokenizer
from txf.errors import UserError

STREAM_TASKS = ("language_model", "masked_language_model")


@dataclasses.dataclass(frozen=True)
class Split:
    """One split, ready to be put on a device or read in place.

    Attributes:
        name: train, valid or test.
        arrays: what `take` reads; compact integers.
        num_rows: rows an epoch.
        take: (arrays, rows int32 [batch], draws uint32 [batch]) -> batch. Pure, for numpy and jax
            arrays alike, so that it may be a part of a compiled program.
        tokens: how many predictions an epoch makes.
        text_bytes: UTF-8 bytes of the text that is predicted.
        documents: documents, sentences or pairs.
        floor_nats: the exact surprise of the text in nats, or None where it is unknown.
        kinds: names of the kinds of span that the batches' `kinds` number, or ().
    """

    name: str
    arrays: Arrays
    num_rows: int
    take: Callable[[Arrays, np.ndarray, np.ndarray], Batch]
    tokens: int
    text_bytes: int
    documents: int
    floor_nats: float | None = None
    kinds: tuple[str, ...] = ()


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
    notes: tuple[str, ...] = ()


def load_dataset(config: ConfigDict, tokenizer: Tokenizer | None = None) -> Dataset:
    """Read or make the data that `config` asks for.

    Args:
        config: the complete config.
        tokenizer: the one a run was trained with; without it `data.tokenizer_path` is loaded, or
            `data.tokenizer` is made from the training split.

    Raises:
        UserError: the data is missing or unusable; the message says what, where and what to do.
    """
    return stream_dataset(config, sources.TEXT_SOURCES[config.data.source](config.data), tokenizer)


def get_tokenizer(
    config: ConfigDict, given: Tokenizer | None, texts: list[str]
) -> tuple[Tokenizer, list[str]]:
    """Return the given tokenizer, the one at `data.tokenizer_path`, or one trained on `texts`."""
    data = config.data
    mask = config.task == "masked_language_model"
    if given is not None:
        return given, []
    if data.tokenizer_path:
        return load_tokenizer(data.tokenizer_path, mask), []
    return train_tokenizer(data.tokenizer, texts, data.vocab_size, mask), []


def stream_dataset(
    config: ConfigDict, source: sources.Source, tokenizer: Tokenizer | None
) -> Dataset:
    """Make the dataset of a (masked) language model from documents."""
    tokenizer, notes = get_tokenizer(config, tokenizer, list(source.splits["train"].texts))
    splits = {}
    for name, corpus in source.splits.items():
        splits[name], more = _stream_split(config, name, corpus, source.kinds, tokenizer)
        notes += more
    return Dataset(
        tokenizer, tokenizer.vocab_size, splits, notes=(*source.notes, *notes)
    )


def encode_stream(corpus: sources.Corpus, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray | None]:
    """Return EOT document EOT document ... EOT as ids, and the kind of each of these tokens."""
    end = np.zeros(1, tokenizer.dtype)
    if corpus.kinds is None:
        ids = tokenizer.encode_many(corpus.texts)
        return np.concatenate([end, *(part for one in ids for part in (one, end))]), None
    parts, marks = [end], [np.zeros(1, np.uint8)]
    for text, kinds in zip(corpus.texts, corpus.kinds, strict=True):
        ids, starts = tokenizer.encode_with_starts(text)
        parts += [ids, end]
        marks += [token_kinds(text, kinds, starts), marks[0]]
    return np.concatenate(parts), np.concatenate(marks)


def token_kinds(text: str, kinds: bytes, starts: np.ndarray) -> np.ndarray:
    """Return the kind of each token: that of its first character that is no white space.

    A token " red" is about the word, though the space before it is of another kind. A token of
    white space alone takes the kind of its first character.
    """
    solid = np.frombuffer(text.encode("utf-32-le"), np.uint32) > 0x20
    nearest = np.minimum.accumulate(
        np.where(solid, np.arange(len(text)), len(text))[::-1]
    )[::-1]
    stops = np.append(starts[1:], len(text))
    first = np.where(nearest[starts] < stops, nearest[starts], starts)
    return np.frombuffer(kinds, np.uint8)[first]


def _stream_split(config, name, corpus, kinds, tokenizer) -> tuple[Split, list[str]]:
    data = config.data
    length = data.context_length
    stream, marks = encode_stream(corpus, tokenizer)
    check_ids(stream, tokenizer.vocab_size, f"the {name} split")
    if stream.size - 1 < length:
        raise UserError(
            f"the {name} split has {stream.size - 1} tokens, fewer than one window of"
            f" data.context_length={length}; give more text or lower it"
        )
    arrays = {"tokens": stream} | ({} if marks is None else {"kinds": marks})
    stride = (data.stride or length) if name == "train" else length
    rows = batches.num_windows(stream.size, length, stride)
    take = partial(batches.take_windows, context_length=length, stride=stride)
    return Split(
        name=name,
        arrays=arrays,
        num_rows=rows,
        take=take,
        tokens=stream.size - 1,
        text_bytes=sum(len(text.encode()) for text in corpus.texts),
        documents=len(corpus.texts),
        floor_nats=corpus.floor_nats,
        kinds=kinds,
    ), []
