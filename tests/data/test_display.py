import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txf.data import display
from txf.data.splits import Dataset
from txf.data.tokenizers import ByteTokenizer, CharTokenizer, WordTokenizer


@given(st.text(st.characters()))
def test_visible_text_has_nothing_that_a_terminal_obeys(text):
    for character in display.visible(text):
        assert unicodedata.category(character) not in display.UNSEEN
        assert character == " " or not character.isspace()


def test_text_that_can_be_seen_is_left_alone():
    assert display.visible("Größe 日本語 – “é”") == "Größe 日本語 – “é”"
    assert display.visible("a\n\tb\r\x1b[2J\u202e\xa0") == "a⏎⇥b␍\\x1b[2J\\u202e\\xa0"


@given(st.integers(0, 257))
def test_every_byte_can_be_shown(token):
    assert display.token_text(ByteTokenizer(mask=True), token).isprintable()


def test_special_tokens_are_one_sign():
    tokenizer = CharTokenizer("ab", mask=True)
    shown = [display.token_text(tokenizer, token) for token in range(tokenizer.vocab_size)]
    assert shown == ["⟂", "⍰", "a", "b", "▢"]


@given(
    st.lists(st.text("ab日", min_size=1, max_size=9), min_size=1, max_size=31),
    st.integers(24, 53),
)
def test_aligned_cells_stay_under_each_other_and_fit(cells, columns):
    numbers = [str(number) for number in range(len(cells))]
    lines = display.aligned([("read", cells), ("number", numbers)], "│", columns)
    assert all(display.width(line) <= columns for line in lines)
    reads = [line for line in lines if line.startswith("read")]
    below = [line for line in lines if line.startswith("number")]
    found = [cell.strip() for line in reads for cell in line[8:].split("│")]
    assert found == cells
    found = [cell.strip() for line in below for cell in line[8:].split("│")]
    assert found == numbers
    for upper, lower in zip(reads, below, strict=True):
        borders = [
            [display.width(line[:i]) for i, sign in enumerate(line) if sign == "│"]
            for line in (upper, lower)
        ]
        assert borders[0] == borders[1]


def test_tables_line_up_numbers_to_the_right():
    assert display.table([("a", "12"), ("日本", "3")]) == ["a     12", "日本   3"]


def test_what_is_too_long_is_cut():
    assert display.short("x" * 50, 7) == "xxxxxx…"
    assert display.short("日本語", 5) == "日本…"
    assert display.short("x" * 7, 7) == "x" * 7


def batch(**arrays):
    return {name: np.array([values]) for name, values in arrays.items()}


@pytest.fixture
def letters():
    tokenizer = CharTokenizer("abc\n")  # 2 is the new line, 3 is a
    return Dataset(tokenizer, tokenizer.vocab_size, {})


def test_a_row_of_a_language_model(letters):
    row = batch(inputs=[0, 3, 4, 2, 0], targets=[3, 4, 2, 0, 5], weights=[0, 1, 1, 1, 1])
    assert display.show_row(letters, row, 0, 80) == ["read  ⟂ab⏎⟂", "next  ·b⏎⟂c"]


def test_a_packed_and_padded_row(letters):
    row = batch(
        inputs=[0, 3, 0, 4, 0, 0],
        targets=[3, 0, 4, 0, 0, 0],
        weights=[1, 1, 1, 1, 0, 0],
        segments=[1, 1, 2, 2, 0, 0],
    )
    expected = ["read  ⟂a⟂b", "part  1 2", "next  a⟂b⟂", "░ x 2"]
    assert display.show_row(letters, row, 0, 80) == expected


def test_a_masked_row():
    tokenizer = CharTokenizer(" abc", mask=True)
    dataset = Dataset(tokenizer, tokenizer.vocab_size, {})
    row = batch(inputs=[0, 3, 6, 5, 6], targets=[0, 3, 4, 5, 2], weights=[0, 0, 1, 0, 1])
    assert display.show_row(dataset, row, 0, 80) == ["read    ⟂a▢c▢", "hidden  ··b·␣"]


def test_a_tagged_row_and_a_classified_one():
    tokenizer = WordTokenizer(["hens", "run"])
    dataset = Dataset(tokenizer, tokenizer.vocab_size, {}, labels=("O", "B-bird"))
    row = batch(inputs=[2, 3, 0], targets=[1, 0, 0], weights=[1, 0, 0], segments=[1, 1, 0])
    assert display.show_row(dataset, row, 0, 80) == [
        "read  hens  │run",
        "tag   B-bird│·",
        "░ x 1",
    ]
    row = {**batch(inputs=[0, 2], segments=[1, 1]), "targets": np.array([1])}
    row["weights"] = np.array([1.0])
    assert display.show_row(dataset, row, 0, 80) == ["read  ⟂│hens", "label B-bird"]


def test_a_pair(letters):
    row = batch(
        source=[3, 4, 0, 0],
        source_segments=[1, 1, 1, 0],
        inputs=[0, 5, 0, 0],
        targets=[5, 0, 0, 0],
        segments=[1, 1, 0, 0],
        weights=[1, 1, 0, 0],
    )
    assert display.show_row(letters, row, 0, 80) == [
        "pair    ab ⇒ c",
        "source  ab⟂",
        "░ x 1",
        "read  ⟂c",
        "next  c⟂",
        "░ x 2",
    ]
