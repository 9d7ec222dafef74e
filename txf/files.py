"""Small files, written whole or not at all, on a local disk or in a bucket."""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from etils import epath

from txf import hosts
from txf.errors import RunError, UserError


def absolute(path: str | os.PathLike[str]) -> epath.Path:
    """Return `path` free of the current folder: `~` and relative parts resolved, URLs untouched.

    Raises:
        UserError: it is a URL of a kind that cannot be reached.
    """
    try:
        path = epath.Path(path).expanduser()
    except KeyError as error:  # what epath says of a scheme it does not know
        raise UserError(
            f"{path} cannot be reached; give a local path, or one of gs://, s3://, az://"
        ) from error
    if "://" in os.fspath(path):
        return path
    return epath.Path(os.path.abspath(path))


def write_text(path: str | os.PathLike[str], text: str, *, each_host: bool = False) -> None:
    """Write `text` to `path` so that a reader, or a kill, never sees half of it.

    A local file is written beside its place, flushed to disk and renamed; object stores replace
    whole objects by themselves. Of several processes that train together the first alone writes,
    unless `each_host`: for what every host keeps for itself.

    Raises:
        RunError: the folder cannot be written to, or the disk is full.
    """
    if not (each_host or hosts.is_first()):
        return
    path = absolute(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if "://" in os.fspath(path):
            path.write_text(text)
            return
        temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


def write_json(path: str | os.PathLike[str], value: Mapping[str, Any]) -> None:
    """Write `value` as indented JSON, whole or not at all (see `write_text`)."""
    write_text(path, json.dumps(value, indent=2, allow_nan=True) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return what the JSON file at `path` holds.

    Raises:
        UserError: there is no such file, or it is not JSON.
    """
    try:
        return json.loads(absolute(path).read_text())
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is not JSON (line {error.lineno}): {error.msg}") from error
