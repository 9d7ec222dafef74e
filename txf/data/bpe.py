"""Byte-pair encoding through the `tokenizers` library, trained here or wrapped."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import tokenizers as hf

from txf.data.vocabulary import END_OF_TEXT, MASK, Tokenizer, utf8
from txf.errors import UserError

# A byte-pair word longer than this is cut: merging is quadratic in the length of a word, and a
# text without spaces would otherwise be one word.
LONGEST_WORD = 64
# Texts are handed to the library in pieces of about this many characters.
PIECE = 1 << 16
# ... and so many characters at a time.
GROUP = 1 << 22


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
        # Also where the file has them, as what may be no special token there.
        tokenizer.add_special_tokens([END_OF_TEXT] + [MASK] * mask)
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
        cut = [[piece for piece in pieces(text) if utf8(piece)] for text in texts]
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
        utf8(text)
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
