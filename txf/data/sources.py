"""Sources of running text: a config's data group to documents, split into train, valid and test.

Labelled and parallel files are read in labelled.py.
"""

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from etils import epath
from ml_collections import ConfigDict

from txf.data.reading import find_files, read_chunks, stamp_of
from txf.data.tokenizers import END_OF_TEXT
from txf.errors import UserError

SPLITS = ("train", "valid", "test")
DELIMITERS = {
    "endoftext": re.compile(re.escape(END_OF_TEXT)),
    "blank_line": re.compile(r"\n(?:[ \t]*\n)+"),
}
# A document of more characters than this is handed on in parts.
PART = 1 << 22


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The documents of one split.

    Attributes:
        texts: the documents, in order.
        kinds: for each document, a byte a character that numbers the kind of its span, or None.
        floor_nats: the exact surprise of all the documents, in nats, or None where it is unknown.
    """

    texts: Sequence[str]
    kinds: Sequence[bytes] | None = None
    floor_nats: float | None = None


@dataclasses.dataclass(frozen=True)
class Source:
    """What a source gave: a corpus a split, names of kinds of span, lines for the person."""

    splits: dict[str, Corpus]
    kinds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def split_documents(
    read: Callable[[], Iterable[str]], how: str
) -> tuple[Iterator[tuple[str, bool]], str]:
    """Cut a text into documents, and say how it was cut.

    Args:
        read: gives the text from its beginning, in chunks of any size; called once or more.
        how: `endoftext` (at `<|endoftext|>`), `blank_line` (at blank lines), `one` (not at all,
            nothing is stripped), or `auto`: the first of them that cuts the text at all.

    Returns:
        The documents in parts (text, whether it ends a document), newlines around documents and
        blank documents dropped; and the name of the way.
    """
    match how:
        case "endoftext" | "blank_line":
            return _cut(read(), DELIMITERS[how]), how
        case "one":
            return _whole(read()), how
        case "auto":
            # A second delimiter or document need not be looked for.
            if any(END_OF_TEXT in pair for pair in _overlapping(read(), len(END_OF_TEXT))):
                return split_documents(read, "endoftext")
            ended = (ends for _, ends in _cut(read(), DELIMITERS["blank_line"]) if ends)
            several = len(list(itertools.islice(ended, 2))) > 1
            return split_documents(read, "blank_line" if several else "one")
    raise UserError(f"data.documents={how!r} is unknown; choose auto, endoftext, blank_line or one")


def _overlapping(chunks: Iterable[str], overlap: int) -> Iterator[str]:
    """Yield each chunk with the end of the one before."""
    tail = ""
    for chunk in chunks:
        yield tail + chunk
        tail = (tail + chunk)[-overlap:]


def _whole(chunks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for chunk in chunks:
        yield chunk, False
    yield "", True


def _cut(chunks: Iterable[str], delimiter: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Yield the text between delimiters, stripped of newlines, where it is not blank.

    In parts, as `split_documents` returns them: a long document is never held whole.
    """
    buffer = ""
    opened = False  # whether a part of the document was yielded
    for chunk in chunks:
        buffer += chunk
        # White space at the end may belong to a delimiter that goes on in the next chunk.
        solid = len(buffer.rstrip())
        start = 0
        for match in delimiter.finditer(buffer):
            if match.end() > solid:
                break
            yield from _last_part(buffer[start : match.start()], opened)
            start, opened = match.end(), False
        buffer = buffer[start:]
        if len(buffer) > PART:
            # What may be the beginning of a delimiter, or newlines to strip, waits.
            stop = len(buffer[: 1 - len(END_OF_TEXT)].rstrip())
            if stop:
                yield buffer[:stop] if opened else buffer[:stop].lstrip("\n"), False
                buffer, opened = buffer[stop:], True
    *parts, last = delimiter.split(buffer)
    for part in parts:
        yield from _last_part(part, opened)
        opened = False
    yield from _last_part(last, opened)


def _last_part(text: str, opened: bool) -> Iterator[tuple[str, bool]]:
    """Yield the end of a document, or all of it where no part came before."""
    if opened:
        yield text.rstrip("\n"), True
    elif text.strip():
        yield text.strip("\n"), True


class DocumentFiles:
    """The documents of the file or files at `path`; each iteration reads them again.

    Raises:
        UserError: a file is unusable, or changed since it was first looked at.
    """

    def __init__(self, path: str, key: str, how: str):
        self._files = find_files(path, key)
        self._stamps = [stamp_of(file, key) for file in self._files]
        self._key, self._how = key, how
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        self.notes = []
        ways, count = set(), 0
        for file, stamp in zip(self._files, self._stamps, strict=True):
            changes: list[str] = []
            parts, way = split_documents(partial(_read_anew, file, self._key, changes), self._how)
            ways.add(way)
            for part, ends in parts:
                count += ends
                yield part, ends
            if stamp_of(file, self._key) != stamp:
                raise being_written(f"{self._key}: {file}")
            self.notes += changes
        cut = f"{len(self._files)} file(s), {count} document(s), cut by {', '.join(sorted(ways))}"
        self.notes.append(f"{self._key}: {cut}")


def being_written(what: str) -> UserError:
    """Return the error that says that what takes several readings is being written to."""
    return UserError(f"{what} changed while it was read; start again when nothing writes to it")


def _read_anew(file: epath.Path, key: str, notes: list[str]) -> Iterator[str]:
    notes.clear()  # an earlier reading, to find out how to cut, told the same
    yield from read_chunks(file, key, notes)


def assign_splits(
    keys: Sequence[bytes], valid_fraction: float, test_fraction: float
) -> dict[str, list[int]]:
    """Deal items to splits by their keys: the same keys always, whatever their order.

    Equal keys go to one split, so that a repeated document is never both trained on and evaluated
    on. The distinct keys, of 8 bytes each, in order: the first round(valid_fraction * n) to valid,
    at least one where the fraction is not 0; the next to test, likewise; the others to train.

    Returns:
        split -> the numbers of its items, increasing.
    """
    distinct, rank = np.unique(np.array(keys, "S8").view(">u8"), return_inverse=True)
    valid, test = (
        max(1, round(fraction * distinct.size)) if fraction else 0
        for fraction in (valid_fraction, test_fraction)
    )
    return {
        "train": np.flatnonzero(rank >= valid + test).tolist(),
        "valid": np.flatnonzero(rank < valid).tolist(),
        "test": np.flatnonzero((rank >= valid) & (rank < valid + test)).tolist(),
    }


def item_keys(parts: Iterable[tuple[str, bool]], seed: int) -> list[bytes]:
    """Return for each document 8 bytes that look random: a hash of its text and `data.seed`."""
    keys = []
    start = hashlib.blake2b(digest_size=8, salt=seed.to_bytes(8, "big"))
    state = start.copy()
    for part, ends in parts:
        state.update(part.encode())
        if ends:
            keys.append(state.digest())
            state = start.copy()
    return keys


def deal_by_document(
    documents: Iterable[tuple[str, bool]], data: ConfigDict, fractions: tuple[float, float]
) -> Iterator[tuple[str, str, bool]]:
    """Yield (split, part, whether it ends a document), as `assign_splits` deals the documents.

    Raises:
        UserError: there are fewer different documents than splits, or another number of documents
            when they are read again.
    """
    keys = item_keys(documents, data.seed)
    what = _named(data)
    wanted, different = 1 + sum(fraction > 0 for fraction in fractions), len(set(keys))
    if different < wanted:
        raise UserError(
            f"{what} has {different} different document(s), too few to split in {wanted}; set"
            " data.split='position' to cut by position, or data.test_fraction=0 for no test split"
            + (", or give data.valid_path and data.test_path" if data.path else "")
        )
    dealt = assign_splits(keys, *fractions)
    if not dealt["train"]:
        raise UserError(
            f"data.valid_fraction={fractions[0]} and data.test_fraction={fractions[1]} leave"
            f" no training document of {len(keys)}; lower them"
        )
    splits = np.zeros(len(keys), np.uint8)
    for code, split in enumerate(SPLITS):
        splits[dealt[split]] = code
    number = 0
    for part, ends in documents:
        if number == len(keys):
            raise being_written(what)
        yield SPLITS[splits[number]], part, ends
        number += ends
    if number < len(keys):
        raise being_written(what)


def _named(data: ConfigDict) -> str:
    return f"data.path={data.path}" if data.path else f"data.tfds_name={data.tfds_name}"


def deal_by_position(
    documents: Iterable[tuple[str, bool]], data: ConfigDict, fractions: tuple[float, float]
) -> Iterator[tuple[str, str, bool]]:
    """Yield (split, part, whether it ends a document): train first, then valid, then test.

    Of the n characters of all documents, train ends at int((1 - valid_fraction - test_fraction)
    * n) and valid at int((1 - test_fraction) * n). A document across a border is cut there. One
    document with fractions 0.1 and 0 is nanoGPT's `data[:int(n * 0.9)]`, `data[int(n * 0.9):]`.

    Raises:
        UserError: there is another number of characters when they are read again.
    """
    valid_fraction, test_fraction = fractions
    total = sum(len(part) for part, _ in documents)
    borders = [
        0,
        int((1 - valid_fraction - test_fraction) * total),
        int((1 - test_fraction) * total),
        total,
    ]
    start, split, opened = 0, "train", False
    for part, ends in documents:
        for name, low, high in zip(SPLITS, borders[:-1], borders[1:], strict=True):
            piece = part[max(0, low - start) : max(0, high - start)]
            if piece:
                if opened and name != split:
                    yield split, "", True  # the border cuts a document
                split, opened = name, True
                yield split, piece, False
        if ends and opened:
            yield split, "", True
            opened = False
        start += len(part)
    if start != total:
        raise being_written(_named(data))


def text_parts(data: ConfigDict, notes: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Read `data.path`, and `data.valid_path` and `data.test_path` where they are given.

    What is not given is cut from `data.path`: `data.valid_fraction` and `data.test_fraction` of
    the documents (`data.split='document'`) or of the characters (`position`). Nothing larger than
    some megabytes is held, however long a document or a line is.

    Yields:
        (split, part of a document, whether the document ends with it).

    Raises:
        UserError: a file is missing, unusable or being written to, or there are too few documents
            to split.
    """
    documents = DocumentFiles(data.path, "data.path", data.documents)
    fractions = (
        0.0 if data.valid_path else data.valid_fraction,
        0.0 if data.test_path else data.test_fraction,
    )
    if data.split == "position":
        yield from deal_by_position(documents, data, fractions)
    else:
        yield from deal_by_document(documents, data, fractions)
    notes += documents.notes
    for split, path in (("valid", data.valid_path), ("test", data.test_path)):
        if path:
            documents = DocumentFiles(path, f"data.{split}_path", data.documents)
            yield from ((split, part, ends) for part, ends in documents)
            notes += documents.notes


def document_parts(data: ConfigDict, notes: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Read text files (see `text_parts`) or a TFDS data set (see `tfds.tfds_parts`)."""
    if data.source == "tfds":
        from txf.data.tfds import tfds_parts  # TFDS takes seconds to import

        return tfds_parts(data, notes)
    return text_parts(data, notes)


def text_source(data: ConfigDict) -> Source:
    """Read all of `document_parts` into memory."""
    notes: list[str] = []
    texts: dict[str, list[str]] = {split: [] for split in SPLITS}
    opened: list[str] = []
    for split, part, ends in document_parts(data, notes):
        opened.append(part)
        if ends:
            texts[split].append("".join(opened))
            opened = []
    splits = {split: Corpus(texts[split]) for split in SPLITS if texts[split]}
    return Source(splits, notes=tuple(notes))


def storyworld_source(data: ConfigDict) -> Source:
    """Write stories: `data.bytes` of training text, and fractions of that for valid and test."""
    from txf.data import storyworld

    sizes = {
        "train": data.bytes,
        "valid": round(data.bytes * data.valid_fraction),
        "test": round(data.bytes * data.test_fraction),
    }
    splits = {}
    for split, size in sizes.items():
        if size:
            told = storyworld.stories(split, data.seed, size)
            splits[split] = Corpus(
                texts=[story.text for story in told],
                kinds=[story.kinds for story in told],
                floor_nats=sum(story.surprise for story in told),
            )
    return Source(splits, storyworld.KINDS)


TEXT_SOURCES = {"storyworld": storyworld_source, "text": text_source, "tfds": text_source}
