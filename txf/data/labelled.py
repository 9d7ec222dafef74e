"""Classification, tagging and translation: rows of files to padded arrays and batches."""

import collections
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from jax import Array
from jax import numpy as jnp
from jaxtyping import Integer, UInt32
from ml_collections import ConfigDict

from txf.data import tables
from txf.data.batches import Arrays, Batch
from txf.data.splits import Dataset, Split
from txf.data.streams import unknown_note
from txf.data.tokenizers import Tokenizer, WordTokenizer, check_ids
from txf.errors import UserError

NO_LABEL = -1  # of a token that is not the first of its word, or padding


def pad_rows(
    rows: Sequence[np.ndarray], width: int, dtype: Any, filler: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows as one [rows, width] array, `filler` behind their ends, and their lengths.

    Rows longer than `width` are cut.
    """
    padded = np.full((len(rows), width), filler, dtype)
    for padded_row, row in zip(padded, rows, strict=True):
        padded_row[: len(row)] = row[:width]
    return padded, np.array([min(len(row), width) for row in rows], np.int32)


def cut_note(name: str, what: str, rows: Sequence[np.ndarray], width: int) -> list[str]:
    """Return the line that says how many rows `pad_rows` cuts, if any."""
    cut = [len(row) - width for row in rows if len(row) > width]
    if not cut:
        return []
    return [
        f"{name}: {len(cut)} of {len(rows)} {what} are longer than data.context_length={width} and"
        f" were cut ({sum(cut)} tokens dropped)"
    ]


def number_labels(
    splits: dict[str, list[tuple[str, Any]]], labels_of: Any, first: str | None = None
) -> tuple[str, ...]:
    """Return the labels of the training split, sorted, `first` before the others.

    Raises:
        UserError: there is only one label, or another split has one that training lacks.
    """
    seen = {label for _, row in splits["train"] for label in labels_of(row)}
    if len(seen) < 2:
        raise UserError(
            f"the train split has only the label {min(seen)!r}; there is nothing to tell apart"
        )
    for name, rows in splits.items():
        for where, row in rows:
            if new := [label for label in labels_of(row) if label not in seen]:
                raise UserError(
                    f"{where}: the {name} split has the label {new[0]!r}, which training never"
                    f" has; the labels are {', '.join(sorted(seen))}"
                )
    return tuple(sorted(seen, key=lambda label: (label != first, label)))


def balance_note(name: str, labels: Sequence[str]) -> str:
    """Return the line that says how often each label occurs."""
    counts = sorted(collections.Counter(labels).items(), key=lambda pair: (-pair[1], pair[0]))
    shares = [f"{label} {count} ({count / len(labels):.1%})" for label, count in counts[:20]]
    more = f", and {len(counts) - 20} rarer ones" if len(counts) > 20 else ""
    return f"{name}: {len(labels)} labels: {', '.join(shares)}{more}"


def _unknown_note(name: str, rows: Sequence[np.ndarray], tokenizer: Tokenizer) -> list[str]:
    if tokenizer.unknown is None:
        return []
    count = sum(int((row == tokenizer.unknown).sum()) for row in rows)
    return unknown_note(name, count, sum(map(len, rows)))


def take_labelled(
    arrays: Arrays,
    rows: Integer[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
) -> Batch:
    """Take padded rows of text with a label a text or a label a token.

    Returns:
        inputs, segments int32 [batch, tokens]; targets int32 and weights float32, [batch] for
        `labels` [rows] and [batch, tokens] for `labels` [rows, tokens]. A label below 0 is none:
        its weight is 0.
    """
    del draws
    inputs, segments = _padded(arrays, "tokens", rows)
    targets = arrays["labels"][rows].astype(np.int32)
    return {
        "inputs": inputs,
        "segments": segments,
        "targets": targets * (targets >= 0),
        "weights": (targets >= 0).astype(np.float32),
    }


def take_pairs(
    arrays: Arrays,
    rows: Integer[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
) -> Batch:
    """Take padded pairs: the decoder reads EOT and the target, and predicts the target and EOT.

    Returns:
        source, source_segments, inputs, targets, segments int32 and weights float32:
        [batch, tokens].
    """
    del draws
    source, source_segments = _padded(arrays, "source", rows)
    targets, segments = _padded(arrays, "target", rows)
    xp = np if isinstance(targets, np.ndarray) else jnp
    begin = xp.zeros_like(targets[:, :1])
    return {
        "source": source,
        "source_segments": source_segments,
        "inputs": xp.concatenate([begin, targets[:, :-1]], axis=1) * segments,
        "targets": targets,
        "weights": segments.astype(np.float32),
        "segments": segments,
    }


def _padded(arrays: Arrays, name: str, rows: Any) -> tuple[Any, Any]:
    tokens = arrays[name][rows].astype(np.int32)
    lengths = arrays[f"{name}_lengths"][rows]
    position = np.arange(tokens.shape[1], dtype=np.int32)
    return tokens, (position < lengths[:, None]).astype(np.int32)


def sentiment_dataset(config: ConfigDict, get_tokenizer: Any) -> Dataset:
    """Read texts with a label each: the columns `text` and `label` of TSV or CSV files.

    A row is EOT and the tokens of the text, cut at `data.context_length`.
    """
    data = config.data
    read = partial(tables.read_columns, columns=("text", "label"))
    splits, notes = tables.split_tables(data, read, lambda row: row[0])
    labels = number_labels(splits, lambda row: row[1:])
    number = {label: i for i, label in enumerate(labels)}
    tokenizer = get_tokenizer([text for _, (text, _) in splits["train"]])
    made = {}
    for name, rows in splits.items():
        texts = [text for _, (text, _) in rows]
        encoded = tokenizer.encode_many(texts)
        begun = [np.append(np.zeros(1, ids.dtype), ids) for ids in encoded]
        tokens, lengths = pad_rows(begun, data.context_length, tokenizer.dtype)
        check_ids(tokens, tokenizer.vocab_size, f"the {name} split")
        notes += cut_note(name, "texts", begun, data.context_length)
        notes += _unknown_note(name, encoded, tokenizer)
        notes.append(balance_note(name, [label for _, (_, label) in rows]))
        arrays = {
            "tokens": tokens,
            "tokens_lengths": lengths,
            "labels": np.array([number[label] for _, (_, label) in rows], np.int32),
        }
        made[name] = Split(name, arrays, len(rows), partial(take_labelled), len(rows), 0, len(rows))
    return Dataset(tokenizer, tokenizer.vocab_size, made, len(labels), labels, notes)


def conll_dataset(config: ConfigDict, get_tokenizer: Any) -> Dataset:
    """Read sentences with a tag a word from CoNLL files; a word's label is at its first token.

    Where the training tags are BIO (some are B-... or I-...), every tag must be, and an I that
    continues nothing is made a B, with a line that counts them. Other tags are taken as they are.
    """
    data = config.data
    splits, notes = tables.split_tables(data, tables.read_conll, lambda row: "\n".join(row[0]))
    if any(tag[:2] in ("B-", "I-") for _, (_, tags) in splits["train"] for tag in tags):
        for name, rows in splits.items():
            splits[name], more = _bio(name, rows)
            notes += more
    labels = number_labels(splits, lambda row: row[1], first="O")
    number = {label: i for i, label in enumerate(labels)}
    tokenizer = get_tokenizer([" ".join(words) for _, (words, _) in splits["train"]])
    made = {}
    for name, rows in splits.items():
        spelled = [spell(tokenizer, words) for _, (words, _) in rows]
        encoded = [ids for ids, _ in spelled]
        tagged = []
        for (ids, firsts), (_, (_, tags)) in zip(spelled, rows, strict=True):
            tagged.append(np.full(len(ids), NO_LABEL))
            tagged[-1][firsts] = [number[tag] for tag in tags]
        tokens, lengths = pad_rows(encoded, data.context_length, tokenizer.dtype)
        check_ids(tokens, tokenizer.vocab_size, f"the {name} split")
        notes += cut_note(name, "sentences", encoded, data.context_length)
        notes += _unknown_note(name, encoded, tokenizer)
        notes.append(balance_note(name, [tag for _, (_, tags) in rows for tag in tags]))
        arrays = {
            "tokens": tokens,
            "tokens_lengths": lengths,
            "labels": pad_rows(tagged, data.context_length, np.int32, NO_LABEL)[0],
        }
        total = int((arrays["labels"] >= 0).sum())
        made[name] = Split(name, arrays, len(rows), partial(take_labelled), total, 0, len(rows))
    return Dataset(tokenizer, tokenizer.vocab_size, made, len(labels), labels, notes)


def spell(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return a sentence's tokens, and where among them each word begins.

    A word tokenizer gives one token a word. The others spell the words out, each with the space
    before it, as they would stand in a text.
    """
    if isinstance(tokenizer, WordTokenizer):
        return tokenizer.encode_words(words), np.arange(len(words))
    pieces = tokenizer.encode_many(" " + word for word in words)
    lengths = [len(piece) for piece in pieces]
    return np.concatenate(pieces), np.cumsum([0, *lengths[:-1]])


def _bio(
    name: str, rows: list[tuple[str, tables.Tagged]]
) -> tuple[list[tuple[str, tables.Tagged]], list[str]]:
    """Check and repair the BIO tags of a split; return the rows and the line about repairs."""
    repaired, changes, first = [], 0, ""
    for where, (words, tags) in rows:
        if wrong := [tag for tag in tags if not tables.TAG.fullmatch(tag)]:
            raise UserError(
                f"{where}: the sentence that starts here has the tag {wrong[0]!r}, which is not O,"
                " B-TYPE or I-TYPE as the others are"
            )
        tags, count = tables.repair_bio(tags)
        changes, first = changes + count, first or (where if count else "")
        repaired.append((where, (words, tags)))
    if not changes:
        return repaired, []
    return repaired, [
        f"{name}: {changes} I- tags that continued no span were made B- (first at {first})"
    ]


def parallel_dataset(config: ConfigDict, get_tokenizer: Any) -> Dataset:
    """Read sentence pairs: the columns `data.source_language` and `data.target_language`.

    The encoder reads the source and EOT, the decoder EOT and the target; each is cut at
    `data.context_length`. Both languages share the tokenizer.
    """
    data, width = config.data, config.data.context_length
    columns = (data.source_language, data.target_language)
    read = partial(tables.read_columns, columns=columns)
    splits, notes = tables.split_tables(data, read, "\t".join)
    tokenizer = get_tokenizer([text for _, pair in splits["train"] for text in pair])
    made = {}
    for name, rows in splits.items():
        arrays = {}
        for side, texts in zip(
            ("source", "target"), zip(*(pair for _, pair in rows), strict=True), strict=True
        ):
            encoded = tokenizer.encode_many(texts)
            ended = [np.append(ids, np.zeros(1, ids.dtype)) for ids in encoded]
            arrays[side], arrays[f"{side}_lengths"] = pad_rows(ended, width, tokenizer.dtype)
            check_ids(arrays[side], tokenizer.vocab_size, f"the {name} split")
            notes += cut_note(name, f"{side} sentences", ended, width)
            notes += _unknown_note(name, encoded, tokenizer)
        size = int(tokenizer.token_bytes[arrays["target"]].sum())
        total = int(arrays["target_lengths"].sum())
        made[name] = Split(name, arrays, len(rows), partial(take_pairs), total, size, len(rows))
    return Dataset(tokenizer, tokenizer.vocab_size, made, notes=notes)


DATASETS = {
    "sentiment": sentiment_dataset,
    "conll": conll_dataset,
    "parallel": parallel_dataset,
}
