"""Sources of running text: a config's data group to documents, split into train, valid and test.

Labelled and parallel files are read in labelled.py.
"""

import dataclasses
import glob
import hashlib
import os
import re
import stat
from collections.abc import Sequence

from etils import epath
from ml_collections import ConfigDict

from txf import files
from txf.data.tokenizers import END_OF_TEXT
from txf.errors import UserError

SPLITS = ("train", "valid", "test")
WILDCARDS = re.compile(r"[*?\[]")
BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
# What a file starts with that is not UTF-8; the longer marks first, as they start like the shorter.
BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


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


def find_files(path: str, key: str) -> list[epath.Path]:
    """Return the file `path`, or the files that the pattern `path` matches, sorted by name.

    Args:
        path: a local path or URL; `*`, `?`, `[...]` and `**` match as in a shell.
        key: the config key the path comes from, for the message.

    Raises:
        UserError: nothing is there, or what is there is a folder or no regular file.
    """
    whole = files.absolute(path)
    if not WILDCARDS.search(path) or whole.exists():
        found = [whole]
    elif "://" in path:
        # The folder up to the first wildcard, and the pattern from there.
        head = path[: WILDCARDS.search(path).start()].rpartition("/")[0]
        found = sorted(p for p in epath.Path(head).glob(path[len(head) + 1 :]) if not p.is_dir())
    else:
        names = sorted(glob.glob(os.fspath(whole), recursive=True))
        found = [epath.Path(name) for name in names if not os.path.isdir(name)]
    if not found:
        raise UserError(f"{key}={path} matches no file; check the pattern and the folder")
    for file in found:
        _check_regular(file, key)
    return found


def _check_regular(path: epath.Path, key: str) -> None:
    """Refuse what cannot be read from start to end: nothing, folders, pipes, devices."""
    name = os.fspath(path)
    try:
        if not path.exists():
            raise UserError(f"{key}: {name} does not exist")
        if path.is_dir():
            raise UserError(
                f"{key}: {name} is a folder; name a file, or a pattern like {name}/*.txt"
            )
        if "://" not in name and not stat.S_ISREG(os.stat(name).st_mode):
            raise UserError(f"{key}: {name} is not a regular file; write its text to one first")
    except OSError as error:
        raise UserError(f"{key}: cannot read {name}: {error.strerror or error}") from error


def read_text(path: epath.Path, key: str) -> tuple[str, list[str]]:
    """Return the text of a UTF-8 file, and a line for each thing that was changed in it.

    A byte order mark is dropped and CRLF becomes LF, each with a line that says so.

    Raises:
        UserError: the file cannot be read, is empty or blank, or is not UTF-8 text; the message
            has the offset of the first wrong byte.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{key}: cannot read {path}: {error.strerror or error}") from error
    return decode_text(raw, f"{key}: {path}")


def decode_text(raw: bytes, where: str) -> tuple[str, list[str]]:
    """Return what `read_text` does, of bytes that were read already."""
    notes = []
    for mark, name in BYTE_ORDER_MARKS.items():
        if raw.startswith(mark):
            raise UserError(_wrong_encoding(where, name))
    head = 0
    if raw.startswith(b"\xef\xbb\xbf"):
        raw, head = raw[3:], 3
        notes.append(f"{where}: dropped the byte order mark")
    if not raw.strip():
        raise UserError(f"{where} is {'blank' if raw else 'empty'}; it has no text to learn from")
    if (zero := raw.find(b"\x00")) >= 0:
        start = raw[:1024]
        # Latin letters in UTF-16 are every other byte zero.
        if max(start[::2].count(0), start[1::2].count(0)) > len(start) // 4:
            raise UserError(_wrong_encoding(where, "UTF-16 without a byte order mark"))
        raise UserError(f"{where} has a NUL byte at offset {head + zero}; it is not a text file")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where} is not UTF-8: byte 0x{raw[error.start]:02x} at offset {head + error.start};"
            " if it is Latin-1, convert it: iconv -f LATIN1 -t UTF-8 FILE > NEW"
        ) from error
    if "\r\n" in text:
        notes.append(f"{where}: {text.count(chr(13) + chr(10))} line ends CRLF are read as LF")
        text = text.replace("\r\n", "\n")
    return text, notes


def _wrong_encoding(where: str, name: str) -> str:
    source = name.split()[0]
    return f"{where} is {name}, not UTF-8; convert it: iconv -f {source} -t UTF-8 FILE > NEW"


def split_documents(text: str, how: str) -> tuple[list[str], str]:
    """Cut a text into documents, and say how it was cut.

    Args:
        text: what a file holds.
        how: `endoftext` (at `<|endoftext|>`), `blank_line` (at blank lines), `one` (not at all,
            nothing is stripped), or `auto`: the first of them that cuts the text at all.

    Returns:
        The documents, newlines around them and blank documents dropped, and the name of the way.
    """
    match how:
        case "endoftext":
            parts = text.split(END_OF_TEXT)
        case "blank_line":
            parts = BLANK_LINES.split(text)
        case "one":
            return [text], "one"
        case "auto":
            if END_OF_TEXT in text:
                return split_documents(text, "endoftext")
            if BLANK_LINES.search(text.strip("\n")):
                return split_documents(text, "blank_line")
            return [text], "one"
        case _:
            raise UserError(
                f"data.documents={how!r} is unknown; choose auto, endoftext, blank_line or one"
            )
    return [part.strip("\n") for part in parts if part.strip()], how


def read_documents(path: str, key: str, how: str) -> tuple[list[str], list[str]]:
    """Return the documents of the file or files at `path`, and the lines for the person."""
    documents: list[str] = []
    notes: list[str] = []
    ways = set()
    found = find_files(path, key)
    for file in found:
        text, changes = read_text(file, key)
        parts, way = split_documents(text, how)
        documents += parts
        notes += changes
        ways.add(way)
    cut = f"{len(found)} file(s), {len(documents)} document(s), cut by {', '.join(sorted(ways))}"
    notes.append(f"{key}: {cut}")
    return documents, notes


def assign_splits(
    keys: Sequence[bytes], valid_fraction: float, test_fraction: float
) -> dict[str, list[int]]:
    """Deal items to splits by their keys: the same keys always, whatever their order.

    Equal keys go to one split, so that a repeated document is never both trained on and evaluated
    on. The distinct keys in order: the first round(valid_fraction * n) to valid, at least one
    where the fraction is not 0; the next to test, likewise; the others to train.

    Returns:
        split -> the numbers of its items, increasing.
    """
    distinct = sorted(set(keys))
    sizes = [
        max(1, round(fraction * len(distinct))) if fraction else 0
        for fraction in (valid_fraction, test_fraction)
    ]
    rank = {key: number for number, key in enumerate(distinct)}
    dealt: dict[str, list[int]] = {split: [] for split in SPLITS}
    for number, key in enumerate(keys):
        if rank[key] < sizes[0]:
            dealt["valid"].append(number)
        elif rank[key] < sum(sizes):
            dealt["test"].append(number)
        else:
            dealt["train"].append(number)
    return dealt


def item_key(text: str, seed: int) -> bytes:
    """Return 8 bytes that look random and depend only on the text and `data.seed`."""
    return hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(8, "big")).digest()


def split_by_position(
    documents: Sequence[str], valid_fraction: float, test_fraction: float
) -> dict[str, list[str]]:
    """Cut the n characters of all documents in three: train first, then valid, then test.

    Train ends at character int((1 - valid_fraction - test_fraction) * n), valid at
    int((1 - test_fraction) * n). A document across a border is cut there. One document with
    fractions 0.1 and 0 is nanoGPT's `data[:int(n * 0.9)]` and `data[int(n * 0.9):]`.
    """
    total = sum(map(len, documents))
    borders = [
        0,
        int((1 - valid_fraction - test_fraction) * total),
        int((1 - test_fraction) * total),
        total,
    ]
    parts: dict[str, list[str]] = {split: [] for split in SPLITS}
    start = 0
    for document in documents:
        for split, low, high in zip(SPLITS, borders[:-1], borders[1:], strict=True):
            part = document[max(0, low - start) : max(0, high - start)]
            if part:
                parts[split].append(part)
        start += len(document)
    return parts


def text_source(data: ConfigDict) -> Source:
    """Read `data.path`, and `data.valid_path` and `data.test_path` where they are given.

    What is not given is cut from `data.path`: `data.valid_fraction` and `data.test_fraction` of
    the documents (`data.split='document'`) or of the characters (`position`).

    Raises:
        UserError: a file is missing or unusable, or there are too few documents to split.
    """
    documents, notes = read_documents(data.path, "data.path", data.documents)
    apart = {"valid": data.valid_path, "test": data.test_path}
    valid_fraction = 0.0 if data.valid_path else data.valid_fraction
    test_fraction = 0.0 if data.test_path else data.test_fraction
    wanted = 1 + (valid_fraction > 0) + (test_fraction > 0)
    if data.split == "position":
        texts = split_by_position(documents, valid_fraction, test_fraction)
    else:
        keys = [item_key(document, data.seed) for document in documents]
        if len(set(keys)) < wanted:
            raise UserError(
                f"data.path={data.path} has {len(set(keys))} different document(s), too few to"
                f" split in {wanted}; set data.split='position' to cut by position, or give"
                " data.valid_path and data.test_path"
            )
        dealt = assign_splits(keys, valid_fraction, test_fraction)
        texts = {split: [documents[i] for i in numbers] for split, numbers in dealt.items()}
        if not texts["train"]:
            raise UserError(
                f"data.valid_fraction={valid_fraction} and data.test_fraction={test_fraction} leave"
                f" no training document of {len(documents)}; lower them"
            )
    for split, path in apart.items():
        if path:
            texts[split], more = read_documents(path, f"data.{split}_path", data.documents)
            notes += more
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


TEXT_SOURCES = {"storyworld": storyworld_source, "text": text_source}
