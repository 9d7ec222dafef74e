"""Large text corpora: tokenized once, in bounded memory, and kept as memory-mapped integers.

A corpus is a folder in the user's cache, `$XDG_CACHE_HOME/txf` (or `~/.cache/txf`), named after a
fingerprint of its source and its tokenizer. It is written beside its place and renamed, so that a
folder is whole or not there, whoever is killed and however many processes write it at once.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import os
import pathlib
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from ml_collections import ConfigDict

from txf import files
from txf.data.bpe import PIECE, pieces
from txf.data.reading import find_files, stamp_of
from txf.data.sources import SPLITS, being_written, document_parts
from txf.data.tokenizers import Tokenizer, from_json
from txf.data.workers import Group, encode_in_order, num_workers
from txf.errors import RunError, UserError

# Text files of more bytes than this, together, go through the cache: what would take seconds to
# tokenize at each start.
LARGE = 1 << 23
# Texts are tokenized so many characters at a time.
GROUP = 1 << 18
# A bpe tokenizer learns from about so many bytes of files of text.
SAMPLE = 20_000_000
VERSION = 1
# Seconds from one line about progress to the next.
PATIENCE = 5.0
KEYS = ("path", "valid_path", "test_path")
logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Counts:
    """What is known about a split: tokens with all ends, bytes of text, documents, unknowns."""

    tokens: int = 0
    text_bytes: int = 0
    documents: int = 0
    unknown: int = 0


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A corpus in the cache: for each split its stream, memory-mapped, and its counts."""

    streams: dict[str, np.ndarray]
    counts: dict[str, Counts]
    notes: tuple[str, ...]


def is_large(data: ConfigDict) -> bool:
    """Tell whether the files that hold the text are local and larger than `LARGE`."""
    stamps = _stamps(data)
    return "://" not in json.dumps(stamps) and sum(size for _, size, _ in stamps) > LARGE


def _stamps(data: ConfigDict) -> list[tuple[str, int, int]]:
    """Return name, size and time of change of each file: what tells that a file was changed."""
    if data.source == "tfds":
        from txf.data.tfds import prepared_files  # TFDS takes seconds to import

        found = [(path, "data.tfds_name") for path in prepared_files(data)]
    else:
        keys = {f"data.{key}": data[key] for key in KEYS if data[key]}
        found = [(path, key) for key, given in keys.items() for path in find_files(given, key)]
    return [(os.fspath(path), *stamp_of(path, key)) for path, key in found]


def _fingerprint(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _source(data: ConfigDict) -> list[Any]:
    """Return what decides which text each split gets, but for the content of the files."""
    paths = [data[key] and os.fspath(files.absolute(data[key])) for key in KEYS]
    fractions = [data.valid_fraction, data.test_fraction]
    source = [VERSION, *paths, *fractions, data.documents, data.split, data.seed]
    if data.source != "tfds":
        return source
    folders = sorted({os.path.dirname(path) for path, _, _ in _stamps(data)})
    return [*source, data.tfds_name, data.text_feature, *folders]


def folder() -> pathlib.Path:
    """Return the folder of the cache."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(root) / "txf"


def sample_step(data: ConfigDict) -> int:
    """Return n where a bpe tokenizer learns from every n-th piece of the training text.

    So that it learns from about `SAMPLE` bytes, spread over the whole text: more text takes minutes
    and gigabytes, and changes few merges. A piece is a document, or 65,536 characters of a longer
    one. 1 for other tokenizers, and for text that is generated.
    """
    if data.tokenizer != "bpe" or data.source not in ("text", "tfds"):
        return 1
    return max(1, -(-sum(size for _, size, _ in _stamps(data)) // SAMPLE))


def sample_note(data: ConfigDict) -> list[str]:
    """Return the line that says what a bpe tokenizer was learned from, if not from all."""
    step = sample_step(data)
    return [f"the tokenizer was learned from one in {step} pieces of the text"] * (step > 1)


def train_documents(data: ConfigDict) -> Iterator[str]:
    """Yield the training text in pieces of bounded size, each `sample_step`-th of them."""
    yield from itertools.islice(_train_pieces(data), 0, None, sample_step(data))


def _train_pieces(data: ConfigDict) -> Iterator[str]:
    buffer = ""
    for split, part, ends in _told("learning a tokenizer from the training text", data, []):
        if split == "train":
            *whole, buffer = pieces(buffer + part)
            yield from whole
            if ends:
                yield buffer
                buffer = ""


def _told(doing: str, data: ConfigDict, notes: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield `document_parts`, and log now and then how far that is."""
    size = sum(size for _, size, _ in _stamps(data))
    what = f"{doing} of {data.path or data.tfds_name}"
    logger.info("%s: %s MB in files", what, f"{size / 1e6:,.0f}")
    done, since = 0, time.monotonic()
    for split, part, ends in document_parts(data, notes):
        yield split, part, ends
        done += len(part)
        if time.monotonic() - since > PATIENCE:
            since = time.monotonic()
            logger.info("%s: %s million characters so far", what, f"{done / 1e6:,.0f}")


def cached_tokenizer(
    data: ConfigDict, spec: tuple[Any, ...], train: Callable[[Iterator[str]], Tokenizer]
) -> Tokenizer:
    """Return the tokenizer that `train` makes of the training text, or made before.

    Args:
        data: the data group of the config.
        spec: what else decides what `train` makes.
        train: makes a tokenizer from texts.
    """
    path = folder() / "tokenizers" / f"{_fingerprint(_source(data), _stamps(data), spec)}.json"
    # What cannot be read is made again.
    with contextlib.suppress(OSError, ValueError, UserError):
        return from_json(path.read_text(), str(path))
    tokenizer = train(train_documents(data))
    tokenizer.save(path)
    return tokenizer


def prepare(data: ConfigDict, tokenizer: Tokenizer) -> Prepared:
    """Return the tokenized corpus from the cache; tokenize it first where it is not there.

    A corpus whose files changed since, or whose cached files are damaged, is made again, with a
    line that says so.

    Raises:
        UserError: the text is unusable.
        RunError: the cache cannot be written; nothing of the corpus is left in it.
    """
    home = folder() / "corpora"
    place = home / _fingerprint(_source(data), tokenizer.to_json())
    stamps = [list(stamp) for stamp in _stamps(data)]
    notes: list[str] = []
    if place.exists():
        problem = _problem(place, stamps, tokenizer.vocab_size)
        if problem is None:
            return _open(place, tokenizer, [f"read tokens from {place}"])
        notes.append(f"{problem}; {data.path or data.tfds_name} is tokenized again")
    host = socket.gethostname()
    try:
        home.mkdir(parents=True, exist_ok=True)
        _sweep(home, host)
        scratch = home / f"{place.name}.{host}.{os.getpid()}.tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            _write(scratch, data, tokenizer, stamps)
            if [list(stamp) for stamp in _stamps(data)] != stamps:
                raise being_written(data.path or data.tfds_name)
            _publish(scratch, place, stamps, tokenizer.vocab_size)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise RunError(
            f"cannot keep tokens in {home}: {error.strerror or error}; free some space, or set"
            " XDG_CACHE_HOME to another folder"
        ) from error
    return _open(place, tokenizer, [*notes, f"wrote tokens to {place}"])


def _problem(place: pathlib.Path, stamps: list[list[Any]], vocab_size: int) -> str | None:
    """Return what is wrong with a cached corpus, or None."""
    try:
        meta = json.loads((place / "meta.json").read_text())
        sizes = {name: (place / f"{name}.tokens").stat().st_size for name in meta["splits"]}
    except (OSError, ValueError, KeyError):
        return f"the cached tokens in {place} are incomplete"
    if meta["stamps"] != stamps:
        changed = [stamp[0] for stamp in stamps if stamp not in meta["stamps"]]
        return f"{', '.join(changed) or 'the list of files'} changed since it was cached"
    width = np.dtype(meta["dtype"]).itemsize
    short = [
        name for name, split in meta["splits"].items() if sizes[name] != split["tokens"] * width
    ]
    if short:
        return f"the cached tokens of {', '.join(short)} in {place} are cut short"
    wrong = [name for name in sizes if _highest(place, name, meta["dtype"]) >= vocab_size]
    if wrong:
        return f"the cached tokens of {', '.join(wrong)} in {place} are not of the vocabulary"
    return None


def _highest(place: pathlib.Path, name: str, dtype: str) -> int:
    """Return the highest id of a stream; a negative one, as unsigned, is higher than any."""
    highest = 0
    with open(place / f"{name}.tokens", "rb") as file:
        while raw := file.read(1 << 22):
            highest = max(highest, int(np.frombuffer(raw, dtype.replace("int32", "uint32")).max()))
    return highest


def _open(place: pathlib.Path, tokenizer: Tokenizer, notes: list[str]) -> Prepared:
    meta = json.loads((place / "meta.json").read_text())
    counts = {name: Counts(**split) for name, split in meta["splits"].items()}
    streams = {
        name: np.memmap(place / f"{name}.tokens", tokenizer.dtype, "r", shape=(count.tokens,))
        for name, count in counts.items()
    }
    return Prepared(streams, counts, (*meta["notes"], *notes))


def _publish(
    scratch: pathlib.Path, place: pathlib.Path, stamps: list[list[Any]], vocab_size: int
) -> None:
    """Move a finished corpus to its place. Another process may do the same at the same time."""
    for _ in range(10):
        try:
            scratch.rename(place)
            return
        except OSError:
            if not place.exists():
                raise
        if _problem(place, stamps, vocab_size) is None:
            return  # another process was first, with the same tokens
        # What is damaged or out of date is moved away first: a folder is never half replaced.
        old = scratch.with_suffix(".old.tmp")
        with contextlib.suppress(FileNotFoundError):
            place.rename(old)
        shutil.rmtree(old, ignore_errors=True)
    raise RunError(f"cannot replace {place}; other processes keep writing it")


def _sweep(home: pathlib.Path, host: str) -> None:
    """Remove what processes of this machine that are gone left unfinished."""
    for path in home.glob(f"*.{host}.*.tmp"):
        pid = path.name.removeprefix(f"{path.name.split('.')[0]}.{host}.").split(".")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except (ValueError, PermissionError):
            continue


def _write(
    scratch: pathlib.Path, data: ConfigDict, tokenizer: Tokenizer, stamps: list[list[Any]]
) -> None:
    notes: list[str] = []
    counts: dict[str, Counts] = {}
    workers = num_workers(sum(size for _, size, _ in stamps))
    groups = _groups(_told("tokenizing the text", data, notes))
    with contextlib.ExitStack() as stack:
        encoded = stack.enter_context(
            contextlib.closing(encode_in_order(tokenizer, groups, workers))
        )
        streams: dict[str, BinaryIO] = {}
        for split, part in encoded:
            if split not in streams:
                streams[split] = stack.enter_context(open(scratch / f"{split}.tokens", "wb"))
                counts[split] = Counts(documents=-1)  # the first end is before the first document
            streams[split].write(part.ids.tobytes())
            counts[split].tokens += part.ids.size
            counts[split].text_bytes += part.text_bytes
            counts[split].documents += part.ends
            counts[split].unknown += part.unknown
    meta = {
        "stamps": stamps,
        "dtype": np.dtype(tokenizer.dtype).name,
        "splits": {split: dataclasses.asdict(counts[split]) for split in SPLITS if split in counts},
        "notes": notes,
    }
    (scratch / "meta.json").write_text(json.dumps(meta, indent=1))
    for path in scratch.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())


@dataclasses.dataclass
class _Gathered:
    """What is not yet handed on of a split: a group, and the end of a document not whole."""

    group: Group
    size: int = 0
    opened: str = ""


def _groups(parts: Iterable[tuple[str, str, bool]]) -> Iterator[tuple[str, Group]]:
    """Gather each split's stream, EOT document EOT document ... EOT, in groups of pieces.

    Documents are cut as if they were whole: what a group is made of depends on no part's size.
    """
    splits: dict[str, _Gathered] = {}
    for split, part, ends in parts:
        if split not in splits:
            splits[split] = _Gathered([None])
        gathered = splits[split]
        gathered.opened += part
        if not ends and len(gathered.opened) <= PIECE:
            continue
        *whole, gathered.opened = pieces(gathered.opened)
        if ends:
            whole.append(gathered.opened)
            gathered.opened = ""
        gathered.size += sum(map(len, whole))
        gathered.group += [*whole, None] if ends else whole
        if gathered.size >= GROUP:
            yield split, gathered.group
            gathered.group, gathered.size = [], 0
    for split, gathered in splits.items():
        yield split, gathered.group
