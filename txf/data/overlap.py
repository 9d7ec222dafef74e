"""What splits have in common: whole documents, and sequences of words."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Integer, UInt64

from txf.data.splits import Split
from txf.data.tokenizers import Tokenizer

# Words a sequence. Storytellers share shorter ones without having copied anything.
WORDS = 8
# Tokens of a split that are looked at.
LIMIT = 20_000_000
ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Content:
    """What a split says, as numbers that can be compared.

    Attributes:
        documents: a hash a document.
        sequences: the different sequences of `WORDS` words within documents, a hash each, sorted.
        tokens: how many tokens these are.
        text_bytes: how many bytes of text they stand for.
        whole: False where the split has more than `LIMIT` tokens.
    """

    documents: UInt64[np.ndarray, "documents"]
    sequences: UInt64[np.ndarray, "sequences"]
    tokens: int
    text_bytes: int
    whole: bool


def documents(split: Split) -> Iterator[Integer[np.ndarray, "tokens"]]:
    """Yield the tokens of each document of a stream, or of each row of other data.

    The end of text that stands between documents is no part of them; a pair is its source, an end
    of text, and its target.
    """
    stream = split.arrays.get("tokens")
    if stream is not None and stream.ndim == 1:
        ends = np.flatnonzero(np.asarray(stream) == 0)
        for start, stop in itertools.pairwise(ends):
            yield np.asarray(stream[start + 1 : stop])
        return
    for start in range(0, split.num_rows, ROWS):
        rows = np.arange(start, min(start + ROWS, split.num_rows), dtype=np.int32)
        batch = split.take(split.arrays, rows, rows.astype(np.uint32))
        sides = [("source", "source_segments")] if "source" in batch else []
        sides.append(("inputs", "segments"))
        for row in range(len(rows)):
            parts = []
            for name, segments in sides:
                real = batch[segments][row] > 0 if segments in batch else slice(None)
                ids = batch[name][row][real]
                parts += [ids[ids != 0], np.zeros(1, ids.dtype)]
            yield np.concatenate(parts[:-1])


def read_content(split: Split, tokenizer: Tokenizer, numbers: dict[str, int]) -> Content:
    """Return what a split says.

    Args:
        split: the split.
        tokenizer: turns its tokens into text, which is cut into words at white space.
        numbers: word -> number; gets the words it lacks. Contents can be compared where it was the
            same.
    """
    hashes, sequences = [], [np.zeros(0, np.uint64)]
    tokens = text_bytes = 0
    whole = True
    for ids in documents(split):
        if tokens >= LIMIT:
            whole = False
            break
        tokens += ids.size
        text_bytes += int(tokenizer.token_bytes[ids].sum())
        digest = hashlib.blake2b(ids.astype(np.int32).tobytes(), digest_size=8).digest()
        hashes.append(np.frombuffer(digest, np.uint64))
        words = [numbers.setdefault(w, len(numbers)) for w in tokenizer.decode(ids).split()]
        if len(words) >= WORDS:
            sequences.append(hash_sequences(np.array(words, np.uint64)))
    return Content(
        np.concatenate([np.zeros(0, np.uint64), *hashes]),
        np.unique(np.concatenate(sequences)),
        tokens,
        text_bytes,
        whole,
    )


def hash_sequences(words: UInt64[np.ndarray, "words"]) -> UInt64[np.ndarray, "sequences"]:
    """Return a hash of each `WORDS` words that follow each other.

    h = (h xor word) * p, word by word, modulo 2**64, the bits of a word's number mixed before
    (FNV-1a with wide symbols).
    """
    words = (words + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(29)
    count = words.size - WORDS + 1
    state = np.full(count, 0xCBF29CE484222325, np.uint64)
    for offset in range(WORDS):
        state = (state ^ words[offset : offset + count]) * np.uint64(0x100000001B3)
        state ^= state >> np.uint64(32)
    return state


def shared(a: Content, b: Content) -> tuple[int, int]:
    """Return how many documents of `a` are in `b`, and how many of its sequences of words."""
    return (
        int(np.isin(a.documents, b.documents).sum()),
        int(np.isin(a.sequences, b.sequences, assume_unique=True).sum()),
    )


def repeated(a: Content) -> int:
    """Return how many documents of `a` have come before in `a`."""
    return a.documents.size - np.unique(a.documents).size


def count_labels(split: Split, labels: int) -> Integer[np.ndarray, "{labels}"]:
    """Return how often each label is asked for in a split."""
    counts = np.zeros(labels, np.int64)
    for start in range(0, split.num_rows, ROWS):
        rows = np.arange(start, min(start + ROWS, split.num_rows), dtype=np.int32)
        batch = split.take(split.arrays, rows, rows.astype(np.uint32))
        counts += np.bincount(batch["targets"][batch["weights"] > 0], minlength=labels)
    return counts
