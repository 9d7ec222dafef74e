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

import abc
import collections
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
import tokenizers as hf
from etils import epath
from jaxtyping import Int

from txf import files
from txf.errors import UserError

END_OF_TEXT = "<|endoftext|>"
UNKNOWN = "<|unknown|>"
MASK = "<|mask|>"

# A byte-pair word longer than this is cut: merging is quadratic in the length of a word, and a
# text without spaces would otherwise be one word.
LONGEST_WORD = 64
# Texts are handed to the library in pieces of about this many characters.
PIECE = 1 << 16
# ... and so many characters at a time.
GROUP = 1 << 22
# A word of the training split must occur this often to get an id: the others are read as
# `<|unknown|>`, which would otherwise never be trained.
WORD_COUNT = 2


def id_dtype(vocab_size: int) -> type:
    """Return the smallest integer type that holds every id: uint16 up to 65,536, then int32."""
    return np.uint16 if vocab_size <= 1 << 16 else np.int32


def check_ids(ids: Int[np.ndarray, "*shape"], vocab_size: int, where: str) -> None:
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
        files.write_text(path, self.to_json())

    @property
    def dtype(self) -> type:
        """The type of the ids."""
        return id_dtype(self.vocab_size)

    def _checked(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        ids = np.asarray(ids, np.int64).reshape(-1)
        check_ids(ids, self.vocab_size, "the sequence to decode")
        return ids


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _utf8_lengths(codes: np.ndarray) -> np.ndarray:
    """Return how many bytes of UTF-8 each code point takes."""
    return 1 + (codes >= 0x80).astype(np.int32) + (codes >= 0x800) + (codes >= 0x10000)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"character {error.start} of the text is half of a surrogate pair, not a character; "
            "the text was read with the wrong encoding"
        ) from error


class CharTokenizer(Tokenizer):
    """One id a character (Unicode code point); a character unseen in training is unknown."""

    kind = "char"
    unknown = 1

    def __init__(self, characters: str, mask: bool = False):
        self.characters = "".join(sorted(set(characters)))
        self.vocab_size = 2 + len(self.characters) + mask
        self.mask = self.vocab_size - 1 if mask else None
        self._table = np.full(0x110000, self.unknown, self.dtype)
        self._table[_code_points(self.characters)] = np.arange(2, 2 + len(self.characters))

    @classmethod
    def train(cls, texts: Iterable[str], mask: bool = False) -> "CharTokenizer":
        """Make one from the characters of `texts`."""
        return cls("".join(set().union(*map(set, texts))), mask)

    def encode(self, text: str) -> np.ndarray:
        """Return an id a character: [characters]."""
        return self._table[_code_points(text)]

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
        lengths[2 : 2 + len(self.characters)] = _utf8_lengths(_code_points(self.characters))
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
        return np.frombuffer(_utf8(text), np.uint8).astype(np.uint16) + np.uint16(1)

    def encode_with_starts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return an id a byte, and the character that each byte is part of."""
        ids = self.encode(text)
        return ids, np.repeat(np.arange(len(text)), _utf8_lengths(_code_points(text)))

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


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """Cut `text` into pieces of at most `size` characters that tokenize as the whole does.

    A cut is made before a single space between two words, where byte-level BPE cuts as well; only
    a piece without one is cut at `size`.
    """
    start = 0
    while len(text) - start > size:
        stop = start + size
        space = text.rfind(" ", start + 1, stop)
        while space > start and (text[space - 1].isspace() or text[space + 1].isspace()):
            space = text.rfind(" ", start + 1, space)
        stop = space if space > start else stop
        yield text[start:stop]
        start = stop
    yield text[start:]


class BpeTokenizer(Tokenizer):
    """Byte-pair encoding through the `tokenizers` library (Sennrich et al. 2016).

    Made by `train` it works on bytes, so that it knows every text and gives it back unchanged. It
    may also wrap any `tokenizer.json` of that library: the id of its `<|endoftext|>` then changes
    places with id 0, and the token is added where the file has none.
    """

    kind = "bpe"

    def __init__(self, tokenizer: hf.Tokenizer, mask: bool = False):
        missing = [
            token for token in [END_OF_TEXT] + [MASK] * mask if tokenizer.token_to_id(token) is None
        ]
        tokenizer.add_special_tokens(missing)
        # Otherwise the words <|endoftext|> inside a document would turn into the special token.
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._hf = tokenizer
        self.vocab_size = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())
        self._end = tokenizer.token_to_id(END_OF_TEXT)
        self.mask = self._swap(tokenizer.token_to_id(MASK)) if mask else None

    def _swap(self, token: int) -> int:
        """Return our id for the library's, and the other way round: 0 and its end of text swap."""
        return {0: self._end, self._end: 0}.get(token, token)

    def _swapped(self, ids: np.ndarray) -> np.ndarray:
        if self._end == 0:
            return ids
        return np.where(ids == 0, self._end, np.where(ids == self._end, 0, ids))

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, mask: bool = False) -> "BpeTokenizer":
        """Learn merges from `texts` until there are `vocab_size` ids, `<|mask|>` not counted.

        Raises:
            UserError: `vocab_size` is less than 257 (bytes and end of text), or more than the text
                has pairs for.
        """
        alphabet = sorted(hf.pre_tokenizers.ByteLevel.alphabet())
        least = len(alphabet) + 1
        if vocab_size < least:
            raise UserError(
                f"data.vocab_size={vocab_size} is too small for bpe; it needs {least} or more: "
                f"{len(alphabet)} bytes and {END_OF_TEXT}"
            )
        tokenizer = hf.Tokenizer(hf.models.BPE())
        tokenizer.pre_tokenizer = hf.pre_tokenizers.Sequence(
            [
                hf.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
                hf.pre_tokenizers.Split(hf.Regex(rf"[\s\S]{{1,{LONGEST_WORD}}}"), "isolated"),
            ]
        )
        tokenizer.decoder = hf.decoders.ByteLevel()
        trainer = hf.trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=alphabet,
            show_progress=False,
        )
        tokenizer.train_from_iterator((piece for text in texts for piece in pieces(text)), trainer)
        reached = tokenizer.get_vocab_size()
        if reached < vocab_size:
            raise UserError(
                f"data.vocab_size={vocab_size} is more than the training text allows; "
                f"choose {least} to {reached}"
            )
        return cls(tokenizer, mask)

    def encode_many(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Return the ids of each text, all cores at work."""
        cut = [[piece for piece in pieces(text) if _utf8(piece)] for text in texts]
        ids = iter(self._encode_pieces(piece for text in cut for piece in text))
        empty = np.zeros(0, self.dtype)
        return [np.concatenate([empty, *(next(ids) for _ in text)]) for text in cut]

    def _encode_pieces(self, texts: Iterable[str]) -> Iterator[np.ndarray]:
        # The library's results are a hundred times the size of the ids: some megabytes at a time.
        group: list[str] = []
        size = 0
        for text in texts:
            group.append(text)
            size += len(text)
            if size >= GROUP:
                yield from self._encode_group(group)
                group, size = [], 0
        yield from self._encode_group(group)

    def _encode_group(self, texts: list[str]) -> Iterator[np.ndarray]:
        for encoded in self._hf.encode_batch_fast(texts, add_special_tokens=False):
            yield self._swapped(np.array(encoded.ids, np.int64)).astype(self.dtype)

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of `text`: [tokens]."""
        return self.encode_many([text])[0]

    def encode_with_starts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of `text`, and the first character of each."""
        _utf8(text)
        cut = list(pieces(text))
        encoded = self._hf.encode_batch(cut, add_special_tokens=False)
        ids = np.concatenate([np.array(e.ids, np.int64) for e in encoded])
        offsets = np.cumsum([0, *map(len, cut)])
        starts = [
            np.array([start for start, _ in e.offsets], np.int64) + offset
            for e, offset in zip(encoded, offsets, strict=False)
        ]
        return self._swapped(ids).astype(self.dtype), np.concatenate(starts)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        ids = self._swapped(self._checked(ids))
        return self._hf.decode(ids.tolist(), skip_special_tokens=False)

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """UTF-8 bytes a token stands for."""
        lengths = np.zeros(self.vocab_size, np.int32)
        specials = set(self._hf.get_added_tokens_decoder())
        by_byte = isinstance(self._hf.decoder, hf.decoders.ByteLevel)
        for token, number in self._hf.get_vocab(with_added_tokens=True).items():
            if number not in specials:
                # Byte-level token names have one character a byte.
                text = token if by_byte else self._hf.decode([number])
                lengths[self._swap(number)] = len(text) if by_byte else len(text.encode())
        return lengths

    def to_json(self) -> str:
        """Return the `tokenizer.json` of the `tokenizers` library."""
        return self._hf.to_str(pretty=True)


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
        text = epath.Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read tokenizer {path}: {error}") from error
    return from_json(text, str(path), mask)
