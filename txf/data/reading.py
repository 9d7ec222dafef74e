"""Text files: finding them, and reading them in bounded memory as checked UTF-8."""

import codecs
import glob
import os
import re
import stat
from collections.abc import Iterator

from etils import epath

from txf import files
from txf.errors import UserError

WILDCARDS = re.compile(r"[*?\[]")
# Bytes that are read at a time.
CHUNK = 1 << 22
UTF8_MARK = b"\xef\xbb\xbf"
# What a file starts with that is not UTF-8; the longer marks first, as they start like the shorter.
BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


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


# Size in bytes, and time of change in nanoseconds.
Stamp = tuple[int, int]


def stamp_of(path: epath.Path, key: str) -> Stamp:
    """Return what tells that a local file was changed; (0, 0) for a URL, where nothing does.

    Raises:
        UserError: the file is not there.
    """
    if "://" in os.fspath(path):
        return 0, 0
    try:
        status = os.stat(path)
    except OSError as error:
        raise UserError(f"{key}: cannot read {path}: {error.strerror or error}") from error
    return status.st_size, status.st_mtime_ns


def read_chunks(path: epath.Path, key: str, notes: list[str]) -> Iterator[str]:
    """Yield the text of a UTF-8 file, some megabytes at a time.

    A byte order mark is dropped and CRLF becomes LF; `notes` gets a line for each.

    Raises:
        UserError: the file cannot be read, is empty or blank, or is not UTF-8 text; the message
            has the offset of the first wrong byte.
    """
    where = f"{key}: {path}"
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = line_ends = 0
    blank = True
    held = ""  # a CR whose LF may be in the next chunk
    for raw in _read_bytes(path, where):
        if not offset:
            _check_encoding(raw, where)
            if raw.startswith(UTF8_MARK):
                notes.append(f"{where}: dropped the byte order mark")
        if (zero := raw.find(b"\x00")) >= 0:
            raise UserError(
                f"{where} has a NUL byte at offset {offset + zero}; it is not a text file"
            )
        text = held + _decode(decoder, raw, offset, where)
        if not offset:
            text = text.removeprefix("\ufeff")
        offset += len(raw)
        held = "\r" if text.endswith("\r") and raw else ""
        text = text.removesuffix(held) if held else text
        line_ends += text.count("\r\n")
        text = text.replace("\r\n", "\n")
        blank = blank and not text.strip()
        if text:
            yield text
    if blank:
        state = "blank" if offset > len(UTF8_MARK) else "empty"
        raise UserError(f"{where} is {state}; it has no text to learn from")
    if line_ends:
        notes.append(f"{where}: {line_ends} line ends CRLF are read as LF")


def _read_bytes(path: epath.Path, where: str) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks, and an empty one at its end."""
    try:
        with path.open("rb") as file:
            while raw := file.read(CHUNK):
                yield raw
        yield b""
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror or error}") from error


def _decode(decoder: codecs.IncrementalDecoder, raw: bytes, offset: int, where: str) -> str:
    pending = len(decoder.getstate()[0])
    try:
        return decoder.decode(raw, final=not raw)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserError(
            f"{where} is not UTF-8: byte 0x{byte:02x} at offset {offset - pending + error.start};"
            " if it is Latin-1, convert it: iconv -f LATIN1 -t UTF-8 FILE > NEW"
        ) from error


def _check_encoding(start: bytes, where: str) -> None:
    """Refuse UTF-16 and UTF-32 by their marks, or UTF-16 by its zeros."""
    name = next((name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), "")
    head = start[:1024]
    # Latin letters in UTF-16 are every other byte zero.
    if not name and max(head[::2].count(0), head[1::2].count(0)) > len(head) // 4:
        name = "UTF-16 without a byte order mark"
    if name:
        raise UserError(
            f"{where} is {name}, not UTF-8; convert it: iconv -f {name.split()[0]} -t UTF-8 FILE >"
            " NEW"
        )


def read_text(path: epath.Path, key: str) -> tuple[str, list[str]]:
    """Return the text of a file, and a line for each thing that was changed (see `read_chunks`)."""
    notes: list[str] = []
    return "".join(read_chunks(path, key, notes)), notes
