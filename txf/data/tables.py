"""Labelled and parallel files, line by line: TSV, CSV and CoNLL to rows, bad rows set apart."""

import csv
import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from etils import epath
from ml_collections import ConfigDict

from txf import files
from txf.data.reading import find_files, read_text
from txf.data.sources import SPLITS, assign_splits, item_keys
from txf.errors import UserError

Row = TypeVar("Row")

EXTENSIONS = ("tsv", "csv", "conll", "txt")
TAG = re.compile(r"O|[BI]-.+")


@dataclasses.dataclass(frozen=True)
class Table(Generic[Row]):
    """What a file holds.

    Attributes:
        rows: (number of its first line, row) of each good row.
        bad: a line for each bad row: its number and what is wrong with it.
        notes: what was changed in the file, a line each.
    """

    rows: list[tuple[int, Row]]
    bad: list[str]
    notes: list[str]


def records(text: str, separator: str, where: str) -> Iterator[tuple[int, list[str]]]:
    r"""Yield (line number, fields) of each record.

    TSV (`\t`) is read without quoting: a `"` is a character like any other. CSV (`,`) is quoted as
    in RFC 4180, so that a field may hold commas and line ends.

    Raises:
        UserError: a quote in CSV is never closed; it names the line where it opens.
    """
    if separator == "\t":
        lines = text.split("\n")
        for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
            yield number, line.split("\t")
        return
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{where} line {number}: {error}; the record that starts here is not valid CSV, "
                "perhaps a quote is never closed"
            ) from error


def read_columns(path: epath.Path, key: str, columns: tuple[str, ...]) -> Table[tuple[str, ...]]:
    """Return the named columns of a TSV or CSV file whose first line names its columns.

    A row is bad where it has another number of fields than the header, or one of the columns is
    blank.

    Raises:
        UserError: the file is unusable, or lacks a column.
    """
    text, notes = read_text(path, key)
    where = f"{key}: {path}"
    separator = "," if path.suffix == ".csv" else "\t"
    found = records(text, separator, where)
    header = [name.strip() for name in next(found)[1]]
    if missing := [name for name in columns if name not in header]:
        raise UserError(
            f"{where} has no column {' or '.join(missing)}; its first line must name the columns,"
            f" and reads {separator.join(header)[:80]!r}"
        )
    places = [header.index(name) for name in columns]
    rows, bad, quoted = [], [], 0
    for number, fields in found:
        if len(fields) != len(header):
            bad.append(f"line {number}: {len(fields)} fields instead of {len(header)}")
            continue
        values = tuple(fields[place].strip() for place in places)
        blank = [name for name, value in zip(columns, values, strict=True) if not value]
        quoted += any(value.startswith('"') for value in values)
        if blank:
            bad.append(f"line {number}: {' and '.join(blank)} blank")
        else:
            rows.append((number, values))
    if quoted and separator == "\t":
        notes.append(f'{where}: {quoted} rows start with "; TSV has no quoting, so it is kept')
    return Table(rows, bad, notes)


Tagged = tuple[tuple[str, ...], tuple[str, ...]]


def read_conll(path: epath.Path, key: str) -> Table[Tagged]:
    """Return the sentences of a CoNLL file: (words, tags) each.

    A line is a token and, last, its tag, with tabs or spaces between; a blank line ends a
    sentence; `-DOCSTART-` lines are skipped. A line of one column is bad and left out.
    """
    text, notes = read_text(path, key)
    rows: list[tuple[int, Tagged]] = []
    bad: list[str] = []
    words: list[str] = []
    tags: list[str] = []
    first = 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or fields[0] == "-DOCSTART-":
            if words:
                rows.append((first, (tuple(words), tuple(tags))))
            words, tags, first = [], [], number + 1
        elif len(fields) < 2 or not fields[0].strip() or not fields[-1].strip():
            bad.append(f"line {number}: {len(fields)} column(s), a token or its tag is missing")
        else:
            words.append(fields[0].strip())
            tags.append(fields[-1].strip())
    return Table(rows, bad, notes)


def repair_bio(tags: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Return the tags with every I that continues nothing made a B, and how many there were.

    I-x is right only after B-x or I-x. (In IOB1 files a span starts with I; they are repaired to
    the same spans.)
    """
    repaired = list(tags)
    for i, tag in enumerate(tags):
        before = repaired[i - 1] if i else "O"
        if tag.startswith("I-") and before[2:] != tag[2:]:
            repaired[i] = "B-" + tag[2:]
    changes = sum(old != new for old, new in zip(tags, repaired, strict=True))
    return tuple(repaired), changes


def split_tables(
    data: ConfigDict, read: Callable[[epath.Path, str], Table[Row]], text_of: Callable[[Row], str]
) -> tuple[dict[str, list[tuple[str, Row]]], list[str]]:
    """Return for each split (where it was read, row), and the lines for the person.

    `data.path` is a folder with `train`, `valid` and `test` files (.tsv, .csv, .conll or .txt), or
    one file. Splits without a file of their own, nor `data.valid_path` and `data.test_path`, are
    dealt from the training rows by a hash of their text.

    Raises:
        UserError: files are missing or unusable, more than `data.bad_rows` of a file's rows are
            bad, or a split has no row.
    """
    notes: list[str] = []
    splits: dict[str, list[tuple[str, Row]]] = {}
    for split, (path, key) in _split_files(data).items():
        table = read(path, key)
        notes += table.notes
        _judge(table, f"{key}: {path}", data.bad_rows, notes)
        splits[split] = [(f"{path} line {number}", row) for number, row in table.rows]
    valid_fraction = 0.0 if "valid" in splits else data.valid_fraction
    test_fraction = 0.0 if "test" in splits else data.test_fraction
    rows = splits["train"]
    keys = item_keys(((text_of(row), True) for _, row in rows), data.seed)
    dealt = assign_splits(keys, valid_fraction, test_fraction)
    for split in SPLITS:
        if split == "train" or dealt[split]:
            splits[split] = [rows[i] for i in dealt[split]]
    for split in ("train", "valid"):
        if not splits.get(split):
            raise UserError(
                f"data.path={data.path} leaves no row for the {split} split; give it more rows, or"
                " other fractions in data.valid_fraction and data.test_fraction"
            )
    return {split: splits[split] for split in SPLITS if split in splits}, notes


def _split_files(data: ConfigDict) -> dict[str, tuple[epath.Path, str]]:
    """Return the file of each split that has one, and the config key it comes from."""
    root = files.absolute(data.path)
    found: dict[str, tuple[epath.Path, str]] = {}
    if root.is_dir():
        for split in SPLITS:
            there = [root / f"{split}.{end}" for end in EXTENSIONS]
            there = [path for path in there if path.exists()]
            if len(there) > 1:
                raise UserError(
                    f"data.path={data.path} has {' and '.join(path.name for path in there)};"
                    f" keep one, or name the file in data.path"
                )
            if there:
                found[split] = (there[0], "data.path")
        if "train" not in found:
            ends = ", ".join(f".{end}" for end in EXTENSIONS)
            raise UserError(f"data.path={data.path} is a folder without a train file ({ends})")
    else:
        found["train"] = (_one_file(data.path, "data.path"), "data.path")
    for split in ("valid", "test"):
        if path := data[f"{split}_path"]:
            found[split] = (_one_file(path, f"data.{split}_path"), f"data.{split}_path")
    return found


def _one_file(path: str, key: str) -> epath.Path:
    found = find_files(path, key)
    if len(found) > 1:
        names = ", ".join(os.path.basename(file) for file in found[:3])
        raise UserError(f"{key}={path} matches {len(found)} files ({names} ...); name one")
    return found[0]


def _judge(table: Table[Row], where: str, tolerated: float, notes: list[str]) -> None:
    """Refuse a table with too many bad rows or no good one; note the bad rows otherwise."""
    total = len(table.rows) + len(table.bad)
    examples = "; ".join(table.bad[:3]) + (" ..." if len(table.bad) > 3 else "")
    if not table.rows:
        raise UserError(f"{where} has no usable row" + (f" ({examples})" if examples else ""))
    if len(table.bad) > tolerated * total:
        raise UserError(
            f"{where}: {len(table.bad)} of {total} rows are bad ({examples}); mend them, or raise"
            f" data.bad_rows={tolerated}"
        )
    if table.bad:
        notes.append(f"{where}: left out {len(table.bad)} bad rows of {total} ({examples})")
