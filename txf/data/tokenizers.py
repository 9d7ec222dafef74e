"""Tokenizers: text to token ids and back, made from the training split and kept with the run.

Id 0 is always `<|endoftext|>`: it stands before, between and after documents and fills padding. It
never comes out of `encode`, whatever the text says: a document that holds the words
`<|endoftext|>` is text like any other. Vocabularies are laid out so:

| kind | ids                                                                             |
|------|---------------------------------------------------------------------------------|
| char | 0 end of text, 1 `<|unknown|>`, then the training characters by code point      |
| byte | 0 end of text, then 1 + byte                                                    |
| bpe  | 0 end of text, then the 256 bytes, then merges in the order they were learned   |
| word | 0 end of text, 1 `<|unknown|>`, then the training words, the frequent first     |

With `mask=True` one more id, the last, is `<|mask|>`.
"""

import collections
import json
import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import tokenizers as hf

from txf import files
from txf.data.bpe import BpeTokenizer
from txf.data.vocabulary import (
    END_OF_TEXT,
    MASK,
    UNKNOWN,
    Tokenizer,
    check_ids,
    code_points,
    id_dtype,
    utf8,
    utf8_lengths,
)
from txf.errors import UserError

__all__ = [
    "END_OF_TEXT",
    "MASK",
    "UNKNOWN",
    "BpeTokenizer",
    "ByteTokenizer",
    "CharTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "check_ids",
    "from_json",
    "id_dtype",
    "load_tokenizer",
    "train_tokenizer",
]

# A word of the training split must occur this often to get an id: the others are read as
# `<|unknown|>`, which would otherwise never be trained.
WORD_COUNT = 2


class CharTokenizer(Tokenizer):
    """One id a character (Unicode code point); a character unseen in training is unknown."""

    kind = "char"
    unknown = 1

    def __init__(self, characters: str, mask: bool = False):
        self.characters = "".join(sorted(set(characters)))
        self.vocab_size = 2 + len(self.characters) + mask
        self.mask = self.vocab_size - 1 if mask else None
        self._table = np.full(0x110000, self.unknown, self.dtype)
        self._table[code_points(self.characters)] = np.arange(2, 2 + len(self.characters))

    @classmethod
    def train(cls, texts: Iterable[str], mask: bool = False) -> "CharTokenizer":
        """Make one from the characters of `texts`."""
        characters: set[str] = set()
        for text in texts:
            characters.update(text)
        return cls("".join(characters), mask)

    def encode(self, text: str) -> np.ndarray:
        """Return an id a character: [characters]."""
        return self._table[code_points(text)]

    def encode_with_starts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return an id a character, and 0, 1, 2 ..."""
        return self.encode(text), np.arange(len(text))

    @cached_property
    def _texts(self) -> list[str]:
        specials = [MASK] if self.mask is not None else []
        return [END_OF_TEXT, UNKNOWN, *self.characters, *specials]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the characters of `ids`."""
        return "".join(self._texts[i] for i in self._checked(ids))

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """UTF-8 bytes a character."""
        lengths = np.zeros(self.vocab_size, np.int32)
        lengths[2 : 2 + len(self.characters)] = utf8_lengths(code_points(self.characters))
        return lengths

    def to_json(self) -> str:
        """Return the characters as JSON."""
        state = {"kind": "char", "mask": self.mask is not None, "characters": self.characters}
        return json.dumps(state, indent=1) + "\n"


class ByteTokenizer(Tokenizer):
    """One id a byte of UTF-8: 1 + byte. Needs no training and knows every text."""

    kind = "byte"

    def __init__(self, mask: bool = False):
        self.vocab_size = 257 + mask
        self.mask = 257 if mask else None

    def encode(self, text: str) -> np.ndarray:
        """Return an id a byte: [bytes]."""
        return np.frombuffer(utf8(text), np.uint8).astype(np.uint16) + np.uint16(1)

    def encode_with_starts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return an id a byte, and the character that each byte is part of."""
        ids = self.encode(text)
        return ids, np.repeat(np.arange(len(text)), utf8_lengths(code_points(text)))

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        special = {0: END_OF_TEXT.encode(), 257: MASK.encode()}
        parts = (special.get(i) or bytes([i - 1]) for i in self._checked(ids).tolist())
        return b"".join(parts).decode(errors="replace")

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """One, but for special ids."""
        lengths = np.ones(self.vocab_size, np.int32)
        lengths[[0, *([self.mask] if self.mask is not None else [])]] = 0
        return lengths

    def to_json(self) -> str:
        """Return the kind as JSON: there is nothing else to keep."""
        return json.dumps({"kind": "byte", "mask": self.mask is not None}, indent=1) + "\n"


class WordTokenizer(Tokenizer):
    """One id a word between white space. Labelled data only: the white space itself is lost."""

    kind = "word"
    unknown = 1

    def __init__(self, words: Sequence[str], mask: bool = False):
        self.words = tuple(words)
        self.vocab_size = 2 + len(self.words) + mask
        self.mask = self.vocab_size - 1 if mask else None
        self._ids = {word: 2 + number for number, word in enumerate(self.words)}

    @classmethod
    def train(cls, texts: Iterable[str], mask: bool = False) -> "WordTokenizer":
        """Make one from the words that occur at least `WORD_COUNT` times in `texts`."""
        counts = collections.Counter(word for text in texts for word in text.split())
        known = [(word, count) for word, count in counts.items() if count >= WORD_COUNT]
        return cls([word for word, _ in sorted(known, key=lambda pair: (-pair[1], pair[0]))], mask)

    def encode_words(self, words: Iterable[str]) -> np.ndarray:
        """Return an id a word: [words]."""
        return np.array([self._ids.get(word, self.unknown) for word in words], self.dtype)

    def encode_with_starts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return an id a word, and where each word starts."""
        found = list(re.finditer(r"\S+", text))
        starts = np.array([match.start() for match in found], np.int64)
        return self.encode_words(match.group() for match in found), starts

    @cached_property
    def _texts(self) -> list[str]:
        specials = [MASK] if self.mask is not None else []
        return [END_OF_TEXT, UNKNOWN, *self.words, *specials]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the words of `ids`, a space between them."""
        return " ".join(self._texts[i] for i in self._checked(ids))

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """UTF-8 bytes a word, spaces not counted."""
        lengths = [0, 0, *(len(word.encode()) for word in self.words)]
        return np.array(lengths + [0] * (self.mask is not None), np.int32)

    def to_json(self) -> str:
        """Return the words as JSON."""
        state = {"kind": "word", "mask": self.mask is not None, "words": self.words}
        return json.dumps(state, indent=1) + "\n"


def train_tokenizer(
    kind: str, texts: Iterable[str], vocab_size: int, mask: bool = False
) -> Tokenizer:
    """Make the tokenizer `kind` from the training `texts`; `vocab_size` is what bpe aims for.

    Raises:
        UserError: the kind is unknown, or `vocab_size` cannot be had.
    """
    match kind:
        case "char":
            return CharTokenizer.train(texts, mask)
        case "byte":
            return ByteTokenizer(mask)
        case "bpe":
            return BpeTokenizer.train(texts, vocab_size, mask)
        case "word":
            return WordTokenizer.train(texts, mask)
    raise UserError(f"data.tokenizer={kind!r} is unknown; choose char, byte, bpe or word")


def from_json(text: str, where: str, mask: bool = False) -> Tokenizer:
    """Return the tokenizer that `to_json` wrote, or that a `tokenizer.json` of the library holds.

    `mask` adds `<|mask|>` where the tokenizer has none.

    Raises:
        UserError: naming `where` the text came from, and what is wrong with it.
    """
    try:
        state = json.loads(text)
        if isinstance(state, dict) and "model" in state:
            has_mask = any(t["content"] == MASK for t in state.get("added_tokens") or ())
            return BpeTokenizer(hf.Tokenizer.from_str(text), mask or has_mask)
        mask = mask or state["mask"]
        match state["kind"]:
            case "char":
                return CharTokenizer(state["characters"], mask)
            case "byte":
                return ByteTokenizer(mask)
            case "word":
                return WordTokenizer(state["words"], mask)
        raise KeyError(state["kind"])
    # The library raises plain Exception for anything it does not like.
    except Exception as error:
        raise UserError(f"{where} is not a tokenizer that can be read: {error!r}") from error


def load_tokenizer(path: str | os.PathLike[str], mask: bool = False) -> Tokenizer:
    """Return the tokenizer saved in the file `path` (see `from_json`).

    Raises:
        UserError: there is no such file, or it holds no tokenizer.
    """
    path = files.absolute(path)
    if not path.exists():
        raise UserError(f"tokenizer {path} does not exist")
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read tokenizer {path}: {error}") from error
    return from_json(text, str(path), mask)
