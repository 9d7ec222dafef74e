"""What all tokenizers share: the special tokens, the interface, and the check of ids."""

import abc
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Integer

from txf import files
from txf.errors import UserError

END_OF_TEXT = "<|endoftext|>"
UNKNOWN = "<|unknown|>"
MASK = "<|mask|>"


def id_dtype(vocab_size: int) -> type:
    """Return the smallest integer type that holds every id: uint16 up to 65,536, then int32."""
    return np.uint16 if vocab_size <= 1 << 16 else np.int32


def check_ids(ids: Integer[np.ndarray, "*shape"], vocab_size: int, where: str) -> None:
    """Check that every id is in [0, vocab_size): on a device a wrong one would pass silently.

    Raises:
        UserError: naming `where`, the id and the vocabulary.
    """
    if ids.size == 0:
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        raise UserError(
            f"{where} has token id {wrong}, outside the vocabulary 0 to {vocab_size - 1}; "
            "it was made with another tokenizer"
        )


class Tokenizer(abc.ABC):
    """What every tokenizer offers.

    Attributes:
        kind: its name in `data.tokenizer`.
        vocab_size: the number of ids, special ones included.
        end_of_text: always 0.
        unknown: the id of text outside the vocabulary, or None where there is no such text.
        mask: the id of `<|mask|>`, or None without one.
    """

    kind: ClassVar[str]
    end_of_text = 0
    unknown: int | None = None
    mask: int | None = None
    vocab_size: int

    @abc.abstractmethod
    def encode_with_starts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of `text` and, for each, the index of its first character."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of `ids`, special ids written out."""

    @abc.abstractmethod
    def to_json(self) -> str:
        """Return the whole tokenizer as JSON; `from_json` gives an equal one back."""

    @cached_property
    @abc.abstractmethod
    def token_bytes(self) -> np.ndarray:
        """UTF-8 bytes of text that each id stands for: int32 [vocab], 0 for special ids."""

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of `text`: [tokens], in the `id_dtype` of the vocabulary."""
        return self.encode_with_starts(text)[0]

    def encode_many(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Return the ids of each text."""
        return [self.encode(text) for text in texts]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer to the file `path`, whole or not at all."""
        files.write_text(path, self.to_json(), each_host=True)

    @property
    def dtype(self) -> type:
        """The type of the ids."""
        return id_dtype(self.vocab_size)

    def _checked(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        ids = np.asarray(ids, np.int64).reshape(-1)
        check_ids(ids, self.vocab_size, "the sequence to decode")
        return ids


def code_points(text: str) -> np.ndarray:
    """Return the Unicode code points of `text`: uint32 [characters]."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def utf8_lengths(codes: np.ndarray) -> np.ndarray:
    """Return how many bytes of UTF-8 each code point takes."""
    return 1 + (codes >= 0x80).astype(np.int32) + (codes >= 0x800) + (codes >= 0x10000)


def utf8(text: str) -> bytes:
    """Return `text` as UTF-8.

    Raises:
        UserError: the text has half a surrogate pair, which no encoding can hold.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"character {error.start} of the text is half of a surrogate pair, not a character; "
            "the text was read with the wrong encoding"
        ) from error
