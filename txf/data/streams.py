"""Documents to the splits of a language model or masked language model."""

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from jax import Array
from jaxtyping import Integer, UInt8, UInt32
from ml_collections import ConfigDict

from txf.data import batches
from txf.data.batches import Arrays, Batch
from txf.data.masking import mask_tokens
from txf.data.sources import Corpus
from txf.data.splits import Split
from txf.data.tokenizers import CharTokenizer, Tokenizer, check_ids
from txf.errors import UserError

TASKS = ("language_model", "masked_language_model")
# Positions in a stream are 32-bit integers on a device.
LONGEST = 2**31 - 1


def encode_stream(
    corpus: Corpus, tokenizer: Tokenizer
) -> tuple[Integer[np.ndarray, "stream"], UInt8[np.ndarray, "stream"] | None]:
    """Return EOT document EOT document ... EOT as ids, and the kind of each of these tokens."""
    end = np.zeros(1, tokenizer.dtype)
    if corpus.kinds is None:
        encoded = tokenizer.encode_many(corpus.texts)
        return np.concatenate([end, *(part for ids in encoded for part in (ids, end))]), None
    parts, marks = [end], [np.zeros(1, np.uint8)]
    for text, kinds in zip(corpus.texts, corpus.kinds, strict=True):
        ids, starts = tokenizer.encode_with_starts(text)
        parts += [ids, end]
        marks += [token_kinds(text, kinds, starts), marks[0]]
    return np.concatenate(parts), np.concatenate(marks)


def token_kinds(
    text: str, kinds: bytes, starts: Integer[np.ndarray, "tokens"]
) -> UInt8[np.ndarray, "tokens"]:
    """Return the kind of each token: that of its first character that is no white space.

    The token " red" is about the word, though the space before it is of another kind. A token of
    white space alone takes the kind of its first character.

    Args:
        text: the document.
        kinds: the kind of each of its characters, a byte each.
        starts: the first character of each token.
    """
    solid = np.frombuffer(text.encode("utf-32-le"), np.uint32) > 0x20
    # For each character, the first one from there on that is not white space.
    nearest = np.where(solid, np.arange(len(text)), len(text))
    nearest = np.minimum.accumulate(nearest[::-1])[::-1]
    stops = np.append(starts[1:], len(text))
    first = np.where(nearest[starts] < stops, nearest[starts], starts)
    return np.frombuffer(kinds, np.uint8)[first]


def unknown_note(name: str, count: int, total: int, examples: Iterable[str] = ()) -> list[str]:
    """Return the line that says how much of a split is outside the vocabulary, if any is.

    `examples` are characters that are.
    """
    if not count:
        return []
    line = (
        f"{name}: {count} of {total} tokens ({count / total:.2%}) are not in the vocabulary"
        " of the training split and are read as <|unknown|>"
    )
    new = sorted(examples)
    shown = ": " + " ".join(map(ascii, new[:8])) if new else ""
    return [line + shown + (" ..." if len(new) > 8 else "")]


def _unknown_characters(texts: Iterable[str], tokenizer: Tokenizer) -> set[str]:
    if not isinstance(tokenizer, CharTokenizer):
        return set()
    return set().union(*map(set, texts)) - set(tokenizer.characters)


def stream_split(
    config: ConfigDict, name: str, corpus: Corpus, kinds: tuple[str, ...], tokenizer: Tokenizer
) -> tuple[Split, list[str]]:
    """Return one split of a (masked) language model, and the lines for the person.

    Raises:
        UserError: the split is shorter than one window.
    """
    stream, marks = encode_stream(corpus, tokenizer)
    check_ids(stream, tokenizer.vocab_size, f"the {name} split")
    arrays: Arrays = {"tokens": stream} | ({} if marks is None else {"kinds": marks})
    text_bytes = sum(len(text.encode()) for text in corpus.texts)
    split, notes = array_split(config, name, arrays, tokenizer, text_bytes, len(corpus.texts))
    if tokenizer.unknown is not None:
        count = int((stream == tokenizer.unknown).sum())
        new = _unknown_characters(corpus.texts, tokenizer) if count else ()
        notes = unknown_note(name, count, stream.size, new) + notes
    # The surprise of a text says nothing about tokens guessed from both sides.
    floor = corpus.floor_nats if config.task == "language_model" else None
    return dataclasses.replace(split, floor_nats=floor, kinds=kinds), notes


def array_split(
    config: ConfigDict,
    name: str,
    arrays: Arrays,
    tokenizer: Tokenizer,
    text_bytes: int,
    documents: int,
) -> tuple[Split, list[str]]:
    """Return the split of a stream that is encoded already: `tokens` and perhaps `kinds`."""
    data, length = config.data, config.data.context_length
    masked = config.task == "masked_language_model"
    shift = 0 if masked else 1
    size = arrays["tokens"].size
    notes: list[str] = []
    if size > LONGEST:
        raise UserError(
            f"the {name} split has {size} tokens, more than the {LONGEST} that a device can number;"
            " give less text, or a tokenizer that makes fewer tokens of it"
        )
    if data.packing == "windows":
        if size - shift < length:
            raise UserError(
                f"the {name} split has {size - shift} tokens, fewer than one window of"
                f" data.context_length={length}; give it more text, lower data.context_length, or"
                " set data.packing='documents'"
            )
        # Only training windows may overlap: evaluation sees every token once.
        stride = (data.stride or length) if name == "train" else length
        num_rows = batches.num_windows(size, length, stride, shift)
        take = partial(batches.take_windows, context_length=length, stride=stride, shift=shift)
    else:
        boundaries = np.flatnonzero(arrays["tokens"] == tokenizer.end_of_text)
        packed = data.packing == "packed"
        starts, lengths = batches.document_rows(boundaries, length, packed)
        arrays = arrays | {"starts": starts.astype(np.int32), "lengths": lengths}
        num_rows = len(starts)
        take = partial(batches.take_documents, context_length=length, shift=shift)
        share = 1 - (size - 1) / (num_rows * length)
        notes.append(f"{name}: {num_rows} rows, {share:.1%} of them padding")
    tokens = size - 1
    if masked:
        if tokenizer.mask is None:
            raise UserError("the tokenizer has no <|mask|>; it was made for another task")
        take = partial(
            take_masked,
            take=take.func,
            options=tuple(take.keywords.items()),
            data_seed=data.seed,
            fraction=data.masked_fraction,
            mask=tokenizer.mask,
            vocab_size=tokenizer.vocab_size,
        )
        tokens, text_bytes = _count_predictions(take, arrays, num_rows, tokenizer)
    return Split(name, arrays, num_rows, take, tokens, text_bytes, documents), notes


def take_masked(
    arrays: Arrays,
    rows: Integer[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
    *,
    take: Callable[..., Batch],
    options: tuple[tuple[str, Any], ...],
    **masking: Any,
) -> Batch:
    """Take rows with `take(..., **options)` and corrupt them with `mask_tokens(**masking)`."""
    batch = take(arrays, rows, draws, **dict(options))
    return mask_tokens(batch, draws, **masking)


def _count_predictions(
    take: Callable[..., Batch], arrays: Arrays, num_rows: int, tokenizer: Tokenizer
) -> tuple[int, int]:
    """Return how many tokens are predicted when each row is drawn as evaluation draws it.

    And how many bytes of text they stand for.
    """
    tokens = text_bytes = 0
    for start in range(0, num_rows, 4096):
        rows = np.arange(start, min(start + 4096, num_rows), dtype=np.int32)
        batch = take(arrays, rows, rows.astype(np.uint32))
        chosen = batch["targets"][batch["weights"] > 0]
        tokens += chosen.size
        text_bytes += int(tokenizer.token_bytes[chosen].sum())
    return tokens, text_bytes
