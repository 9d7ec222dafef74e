"""Text and tokens for a terminal: nothing invisible, nothing that commands the terminal."""

import unicodedata
from collections.abc import Sequence

import numpy as np

from txf.data.splits import Dataset
from txf.data.tokenizers import END_OF_TEXT, MASK, UNKNOWN, Tokenizer

# What stands for what cannot be seen.
MARKS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
END, HIDDEN, STRANGE, PADDING, NOT_ASKED = "⟂", "▢", "⍰", "░", "·"
LEGEND = (
    f"{END} {END_OF_TEXT}   {MARKS[chr(10)]} new line   {MARKS[chr(9)]} tab   {STRANGE} {UNKNOWN}"
    f"   {HIDDEN} {MASK}   {PADDING} padding   {NOT_ASKED} not predicted"
)
# Unicode's categories of what has no shape of its own or moves what has.
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
TOKENS_SHOWN = 256
LONGEST = 32  # columns of a token; a link can be one word


def visible(text: str) -> str:
    r"""Return `text` with every character seen: new lines as ⏎, control characters as \x1b.

    Also what changes the direction of writing, and white space that looks like a space.
    """
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character in MARKS:
        return MARKS[character]
    category = unicodedata.category(character)
    if category in UNSEEN or (category == "Zs" and character != " "):
        return character.encode("unicode_escape", "surrogatepass").decode()
    return character


def width(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """Return a token as a person can read it; special ones as one sign."""
    special = {tokenizer.end_of_text: END, tokenizer.unknown: STRANGE, tokenizer.mask: HIDDEN}
    if token in special:
        return special[token]
    if tokenizer.kind == "byte":
        return (
            visible(bytes([token - 1]).decode("latin-1")) if token <= 128 else f"\\x{token - 1:x}"
        )
    text = short(visible(tokenizer.decode([token])))
    # A sign that sits on the one before would change another token.
    return f"◌{text}" if text and unicodedata.combining(text[0]) else text


def short(text: str, columns: int = LONGEST) -> str:
    """Return `text`, cut to `columns` with an ellipsis."""
    if width(text) <= columns:
        return text
    while width(text) >= columns:
        text = text[:-1]
    return f"{text}…"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [" " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)]
        texts = [row[0] + cells[0]] + [
            gap + cell for gap, cell in zip(cells[1:], row[1:], strict=True)
        ]
        lines.append("  ".join(texts).rstrip())
    return lines


def wrap(words: Sequence[str], columns: int) -> list[str]:
    """Return words as lines of at most `columns`, two spaces between words."""
    lines, line = [], ""
    for word in words:
        if line and width(line) + 2 + width(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line}  {word}" if line else word
    return [*lines, line] if line else lines


def aligned(rows: Sequence[tuple[str, Sequence[str]]], separator: str, columns: int) -> list[str]:
    """Return rows of cells under each other, each position as wide as its widest cell.

    Where `columns` are full, all rows go on below.

    Args:
        rows: (label, cells) each, all of the same length.
        separator: stands between cells.
        columns: of the terminal.
    """
    margin = 2 + max(len(label) for label, _ in rows)
    widths = [max(map(width, cells)) for cells in zip(*(cells for _, cells in rows), strict=True)]
    lines: list[str] = []
    start = 0
    while start < len(widths):
        stop, used = start + 1, margin + widths[start]
        while stop < len(widths) and used + len(separator) + widths[stop] <= columns:
            used += len(separator) + widths[stop]
            stop += 1
        for label, cells in rows:
            padded = [cells[i] + " " * (widths[i] - width(cells[i])) for i in range(start, stop)]
            lines.append(f"{label:<{margin}}" + separator.join(padded))
        if len(rows) > 1 and stop < len(widths):
            lines.append("")
        start = stop
    return [line.rstrip() for line in lines]


def show_row(dataset: Dataset, batch: dict[str, np.ndarray], row: int, columns: int) -> list[str]:
    """Return one row of a batch as lines: what is read, and under it what has to be said.

    A language model reads `read` and says `next`; a masked one says `hidden`; a tagger says `tag`.
    `part` numbers the documents of a packed row.
    """
    tokenizer = dataset.tokenizer
    separator = "" if tokenizer.kind in ("char", "byte") else "│"
    lines = []
    if "source" in batch:
        pair = (_said(tokenizer, batch[side][row]) for side in ("source", "targets"))
        lines.append(short("pair    " + " ⇒ ".join(pair), columns))
        real = batch["source_segments"][row] > 0
        cells = [("source", _cells(tokenizer, batch["source"][row], real))]
        lines += _cut(cells, real, separator, columns)
    inputs, targets, weights = batch["inputs"][row], batch["targets"][row], batch["weights"][row]
    real = batch["segments"][row] > 0 if "segments" in batch else np.ones(inputs.shape, bool)
    rows = [("read", _cells(tokenizer, inputs, real))]
    if "segments" in batch and batch["segments"][row].max() > 1:
        parts = batch["segments"][row]
        first = np.diff(parts, prepend=0) > 0
        numbers = [str(part) if begins else "" for part, begins in zip(parts, first, strict=True)]
        rows.append(("part", numbers))
    if targets.ndim and dataset.labels is not None:
        tags = [dataset.labels[max(0, target)] for target in targets]
        rows.append(("tag", _asked(tags, weights, real)))
    elif targets.ndim:
        name = "hidden" if tokenizer.mask is not None else "next"
        said = [token_text(tokenizer, int(target)) for target in targets]
        if name == "hidden":  # a space by itself would look like nothing
            said = [text.replace(" ", "␣") for text in said]
        rows.append((name, _asked(said, weights, real)))
    lines += _cut(rows, real, separator, columns)
    if not targets.ndim and dataset.labels is not None:
        lines.append(f"label {visible(dataset.labels[int(targets)])}")
    return lines


def _said(tokenizer: Tokenizer, ids: np.ndarray) -> str:
    return visible(tokenizer.decode(ids[ids != tokenizer.end_of_text]))


def _cells(tokenizer: Tokenizer, ids: np.ndarray, real: np.ndarray) -> list[str]:
    return [
        token_text(tokenizer, int(token)) if is_real else PADDING
        for token, is_real in zip(ids, real, strict=True)
    ]


def _asked(texts: list[str], weights: np.ndarray, real: np.ndarray) -> list[str]:
    return [
        (short(visible(text)) if weight > 0 else NOT_ASKED) if is_real else PADDING
        for text, weight, is_real in zip(texts, weights, real, strict=True)
    ]


def _cut(
    rows: list[tuple[str, list[str]]], real: np.ndarray, separator: str, columns: int
) -> list[str]:
    """Align rows, their padding at the end folded to one sign and a count."""
    size, used = real.size, 1 + int(np.flatnonzero(real)[-1])
    stop = min(used, TOKENS_SHOWN)
    lines = aligned([(label, cells[:stop]) for label, cells in rows], separator, columns)
    if used > stop:
        lines.append(f"... {used - stop} more tokens")
    if size > used:
        lines.append(f"{PADDING} x {size - used}")
    return lines
