import itertools
import os

import numpy as np
import pytest

from txf.config import default_config
from txf.data import reading, sources
from txf.data.dataset import load_dataset
from txf.data.sources import assign_splits, deal_by_position, item_keys, split_documents
from txf.errors import UserError

STORIES = [f"Story {i} of the {i * 7919 % 101} hens.\nThey were {i} in all." for i in range(50)]


@pytest.fixture
def config():
    config = default_config()
    config.data.source = "text"
    config.data.context_length = 16
    return config


def write(config, path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    config.data.path = str(path)
    return config


def refused(config, message):
    with pytest.raises(UserError, match=message) as caught:
        load_dataset(config)
    assert "\n" not in str(caught.value)


def texts(dataset, split):
    """The documents of a split, decoded from its stream."""
    tokens = dataset.splits[split].arrays["tokens"]
    ends = np.flatnonzero(tokens == 0)
    assert ends[0] == 0 and ends[-1] == tokens.size - 1
    pairs = itertools.pairwise(ends)
    return [dataset.tokenizer.decode(tokens[begin + 1 : end]) for begin, end in pairs]


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_documents_go_through_unchanged(config, tmp_path, tokenizer):
    write(config, tmp_path / "a.txt", "\n<|endoftext|>\n".join(STORIES) + "\n")
    config.data.tokenizer = tokenizer
    dataset = load_dataset(config)
    read = [text for split in sources.SPLITS for text in texts(dataset, split)]
    assert sorted(read) == sorted(STORIES)
    train = dataset.splits["train"]
    assert train.documents == 40
    assert train.text_bytes == sum(len(text) for text in texts(dataset, "train"))
    assert train.tokens == train.arrays["tokens"].size - 1
    assert train.arrays["tokens"].dtype == np.uint16
    assert dataset.notes == ["data.path: 1 file(s), 50 document(s), cut by endoftext"]


def test_several_files_are_read_in_order_of_their_names(config, tmp_path):
    for i in (2, 0, 1):
        (tmp_path / f"{i}.txt").write_text("\n\n".join(STORIES[10 * i : 10 * i + 10]))
    (tmp_path / "folder.txt").mkdir()
    config.data.path = str(tmp_path / "*.txt")
    config.data.split = "position"
    dataset = load_dataset(config)
    assert texts(dataset, "train")[:23] == STORIES[:23]
    read = [text for split in sources.SPLITS for text in texts(dataset, split)]
    assert "".join(read) == "".join(STORIES[:30])
    assert "3 file(s), 30 document(s), cut by blank_line" in dataset.notes[-1]


def test_a_file_may_be_named_like_a_pattern(config, tmp_path):
    write(config, tmp_path / "a[1].txt", "\n\n".join(STORIES))
    assert load_dataset(config).splits["train"].documents == 40


# Files that cannot be used.


def test_missing_file(config, tmp_path):
    config.data.path = str(tmp_path / "none.txt")
    refused(config, "data.path: .*none.txt does not exist")


def test_missing_validation_file(config, tmp_path):
    write(config, tmp_path / "a.txt", "\n\n".join(STORIES))
    config.data.valid_path = str(tmp_path / "none.txt")
    refused(config, "data.valid_path: .*none.txt does not exist")


def test_pattern_that_matches_nothing(config, tmp_path):
    config.data.path = str(tmp_path / "*.txt")
    refused(config, "matches no file")


def test_folder(config, tmp_path):
    config.data.path = str(tmp_path)
    refused(config, r"is a folder; name a file, or a pattern like .*/\*.txt")


def test_pipe_does_not_hang(config, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    config.data.path = str(tmp_path / "pipe")
    refused(config, "is not a regular file")


def test_unreadable_file(config, tmp_path, monkeypatch):
    write(config, tmp_path / "a.txt", "text")
    if os.geteuid():
        (tmp_path / "a.txt").chmod(0)
    else:  # permissions do not bind root

        def denied(self, mode):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(type(reading.files.absolute(".")), "open", denied)
    refused(config, "a.txt cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b" \n\n\t\n", "is blank"),
        ("Grüße".encode("utf-16"), "is UTF-16, not UTF-8; convert it: iconv -f UTF-16"),
        ("Grüße".encode("utf-32"), "is UTF-32, not UTF-8"),
        ("plain words ".encode("utf-16-le") * 20, "UTF-16 without a byte order mark"),
        ("Grüße".encode("latin-1"), "is not UTF-8: byte 0xfc at offset 2; if it is Latin-1"),
        (b"\xef\xbb\xbfGr\xfc", "byte 0xfc at offset 5"),
        (b"ok " * 99 + b"\xf0\x9f\x98", "byte 0xf0 at offset 297"),
        (b"some text and \x00 more", "has a NUL byte at offset 14; it is not a text file"),
    ],
)
def test_content_that_is_no_text(config, tmp_path, content, message):
    refused(write(config, tmp_path / "a.txt", content), message)


@pytest.mark.parametrize("content", ["one line", "one line\n"])
def test_one_line_cannot_be_split_by_document(config, tmp_path, content):
    refused(
        write(config, tmp_path / "a.txt", content),
        "has 1 different document.*data.split='position'",
    )


def test_one_document_thrice_is_one(config, tmp_path):
    refused(write(config, tmp_path / "a.txt", "same\n\nsame\n\nsame"), "has 1 different document")


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_split_shorter_than_a_window(config, tmp_path, split):
    write(config, tmp_path / "train.txt", "\n\n".join(STORIES))
    (tmp_path / "other.txt").write_text("fifteen letters")
    config.data[{"train": "path"}.get(split, f"{split}_path")] = str(tmp_path / "other.txt")
    if split == "train":
        config.data.valid_path = config.data.test_path = str(tmp_path / "train.txt")
    load_dataset(config)  # fifteen letters and the end are one window of 16
    config.data.context_length = 17
    refused(config, f"the {split} split has 16 tokens, fewer than one window of .*=17")
    config.data.packing = "documents"
    assert load_dataset(config).splits[split].num_rows == 1


# Files that can be used, after a change that is told.


def test_no_newline_at_the_end_changes_nothing(config, tmp_path):
    first = load_dataset(write(config, tmp_path / "a.txt", "\n\n".join(STORIES)))
    second = load_dataset(write(config, tmp_path / "b.txt", "\n\n".join(STORIES) + "\n"))
    for split in sources.SPLITS:
        assert texts(first, split) == texts(second, split)


def test_crlf_becomes_lf_and_is_told(config, tmp_path):
    plain = load_dataset(write(config, tmp_path / "a.txt", "\n\n".join(STORIES)))
    windows = "\n\n".join(STORIES).replace("\n", "\r\n")
    dataset = load_dataset(write(config, tmp_path / "b.txt", windows))
    assert f"{windows.count(chr(10))} line ends CRLF are read as LF" in dataset.notes[0]
    assert texts(dataset, "train") == texts(plain, "train")


def test_byte_order_mark_is_dropped_and_told(config, tmp_path):
    content = b"\xef\xbb\xbf" + "\n\n".join(STORIES).encode()
    dataset = load_dataset(write(config, tmp_path / "a.txt", content))
    assert "dropped the byte order mark" in dataset.notes[0]
    assert "\ufeff" not in dataset.tokenizer.characters


def test_every_script_passes(config, tmp_path):
    scripts = [
        "\U0001f600\U0001f468\u200d\U0001f680 smiles",
        "שלום עולם",
        "مرحبا بالعالم",
        "日本語の話",
    ]
    documents = [f"{script} {i}" for i in range(10) for script in scripts]
    write(config, tmp_path / "a.txt", "\n\n".join(documents))
    for tokenizer in ("char", "byte", "bpe"):
        config.data.tokenizer, config.data.vocab_size = tokenizer, 270
        dataset = load_dataset(config)
        read = [text for split in sources.SPLITS for text in texts(dataset, split)]
        assert sorted(read) == sorted(documents)


def test_a_document_may_say_endoftext(config, tmp_path):
    documents = [f"{text} It says <|endoftext|> here." for text in STORIES]
    write(config, tmp_path / "a.txt", "\n\n".join(documents))
    config.data.documents = "blank_line"
    for tokenizer in ("char", "byte", "bpe"):
        config.data.tokenizer, config.data.vocab_size = tokenizer, 270
        dataset = load_dataset(config)
        read = [text for split in sources.SPLITS for text in texts(dataset, split)]
        assert sorted(read) == sorted(documents)


def test_characters_that_training_never_saw_are_counted(config, tmp_path):
    write(config, tmp_path / "a.txt", "\n\n".join(STORIES))
    (tmp_path / "v.txt").write_text("Étory hë were in the hens \U0001f600\U0001f600")
    config.data.valid_path = str(tmp_path / "v.txt")
    dataset = load_dataset(config)
    (note,) = [note for note in dataset.notes if "<|unknown|>" in note]
    assert note.startswith("valid: 4 of 30 tokens (13.33%)")
    assert note.endswith(r": '\xc9' '\xeb' '\U0001f600'")
    assert (dataset.splits["valid"].arrays["tokens"] == 1).sum() == 4


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_a_quote_that_is_never_closed_and_right_to_left_marks_are_text(config, tmp_path, tokenizer):
    documents = [f'"\u202e\u05e9\u05dc\u05d5\u05dd\u200f {i}, he said' for i in range(20)]
    write(config, tmp_path / "a.txt", "\n\n".join(documents))
    config.data.tokenizer, config.data.vocab_size = tokenizer, 262
    dataset = load_dataset(config)
    read = [text for split in sources.SPLITS for text in texts(dataset, split)]
    assert sorted(read) == sorted(documents)


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_a_huge_line_without_spaces(config, tmp_path, tokenizer):
    line = "abcdefghijklmnop" * (1 << (16 if tokenizer == "bpe" else 18))
    write(config, tmp_path / "a.txt", line)
    config.data.split, config.data.tokenizer, config.data.vocab_size = "position", tokenizer, 260
    dataset = load_dataset(config)
    assert sum(split.text_bytes for split in dataset.splits.values()) == len(line)


# Cutting into documents and splits.


@pytest.mark.parametrize(
    ("text", "how", "documents", "way"),
    [
        ("a\n<|endoftext|>\nb\n\nc\n<|endoftext|>\n", "auto", ["a", "b\n\nc"], "endoftext"),
        ("a\n\nb\n \t\n\n\nc\nd\n", "auto", ["a", "b", "c\nd"], "blank_line"),
        ("a\nb\n\n", "auto", ["a\nb\n\n"], "one"),
        ("\na<|endoftext|>b\n\nc\n", "one", ["\na<|endoftext|>b\n\nc\n"], "one"),
        ("a<|endoftext|>b\n\nc", "blank_line", ["a<|endoftext|>b", "c"], "blank_line"),
        ("a<|endoftext|> \n<|endoftext|>b", "endoftext", ["a", "b"], "endoftext"),
        (
            "\n\n a  \n<|endof\n|endoftext|> b \n",
            "endoftext",
            [" a  \n<|endof\n|endoftext|> b "],
            "endoftext",
        ),
        (
            "it is a long way to the hens\n\nand back ",
            "auto",
            ["it is a long way to the hens", "and back "],
            "blank_line",
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("part", [0, 2, 100])
def test_split_documents(monkeypatch, text, how, documents, way, size, part):
    monkeypatch.setattr(sources, "PART", part)
    chunks = [text[i : i + size] for i in range(0, len(text), size)]
    parts, name = split_documents(lambda: chunks, how)
    assert name == way
    assert joined(parts) == documents


def test_a_long_document_is_never_held_whole(monkeypatch):
    monkeypatch.setattr(sources, "PART", 50)

    def chunks():
        for _ in range(200):
            yield "no end is near, "

    for how in ("blank_line", "endoftext", "one", "auto"):
        parts = [part for part, _ in split_documents(chunks, how)[0]]
        assert "".join(parts) == "".join(chunks())
        assert max(map(len, parts)) < 100


def joined(parts):
    """The documents of (part, ends) pairs."""
    read = [""]
    for part, ends in parts:
        read[-1] += part
        if ends:
            read.append("")
    assert read[-1] == ""
    return read[:-1]


def test_split_documents_names_the_ways():
    with pytest.raises(UserError, match="'line' is unknown; choose auto, endoftext, blank_line"):
        split_documents(lambda: ["a"], "line")


@pytest.mark.parametrize("chunk", [5, 7, 8, 1 << 22])
def test_chunks_change_nothing(config, tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(reading, "CHUNK", chunk)
    text = "\r\n\r\n".join(f"{i}: Grüße \U0001f600\r\n\r mehr" for i in range(20))
    write(config, tmp_path / "a.txt", b"\xef\xbb\xbf" + text.encode())
    dataset = load_dataset(config)
    read = [text for split in sources.SPLITS for text in texts(dataset, split)]
    assert sorted(read) == sorted(f"{i}: Grüße \U0001f600\n\r mehr" for i in range(20))
    assert "dropped the byte order mark" in dataset.notes[0]
    assert "58 line ends CRLF are read as LF" in dataset.notes[1]
    assert "20 document(s), cut by blank_line" in dataset.notes[2]
    raw = ("ok Grüße " * 3).encode()
    for wrong in (b"\xfc", b"\xf0\x9f"):
        write(config, tmp_path / "a.txt", raw + wrong)
        refused(config, f"byte 0x{wrong[0]:02x} at offset {len(raw)}")
    write(config, tmp_path / "a.txt", raw + b"\0")
    refused(config, f"NUL byte at offset {len(raw)}")


def test_splits_keep_documents_apart_and_together():
    keys = item_keys([(text, True) for text in STORIES * 2], 0)
    dealt = assign_splits(keys, 0.1, 0.2)
    assert {split: len(numbers) for split, numbers in dealt.items()} == {
        "train": 70,
        "valid": 10,
        "test": 20,
    }
    chosen = {split: {keys[i] for i in numbers} for split, numbers in dealt.items()}
    assert not chosen["train"] & chosen["valid"] and not chosen["valid"] & chosen["test"]
    # Neither the order of documents nor the other documents' number decides alone.
    reverse = assign_splits(keys[::-1], 0.1, 0.2)
    assert {keys[::-1][i] for i in reverse["valid"]} == chosen["valid"]
    other = item_keys([(text, True) for text in STORIES], 1)
    assert {STORIES[i] for i in assign_splits(other, 0.1, 0.2)["valid"]} != {
        STORIES[i % 50] for i in dealt["valid"]
    }


@pytest.mark.parametrize("size", [1, 64, 10_000])
def test_position_is_nanogpts_split(size):
    text = "".join(STORIES)
    n = len(text)
    parts = [(text[i : i + size], False) for i in range(0, n, size)] + [("", True)]
    data = default_config().data
    dealt = list(deal_by_position(parts, data, (0.1, 0.0)))
    for split, expected in (("train", text[: int(n * 0.9)]), ("valid", text[int(n * 0.9) :])):
        assert joined((part, ends) for name, part, ends in dealt if name == split) == [expected]


def test_position_cuts_documents_and_loses_none():
    data = default_config().data
    dealt = list(deal_by_position([(text, True) for text in STORIES], data, (0.15, 0.3)))
    assert "".join(part for _, part, _ in dealt) == "".join(STORIES)
    splits = [
        joined((part, ends) for name, part, ends in dealt if name == split)
        for split in sources.SPLITS
    ]
    assert sum(map(len, splits)) == len(STORIES) + 2
    assert splits[0][:-1] == STORIES[: len(splits[0]) - 1]
    n = len("".join(STORIES))
    borders = [0, int((1 - 0.15 - 0.3) * n), int((1 - 0.3) * n), n]
    assert [len("".join(split)) for split in splits] == np.diff(borders).tolist()


class Changing:
    """Documents that are others when they are read for the second time."""

    def __init__(self, *readings):
        self.readings = list(readings)

    def __iter__(self):
        return ((text, True) for text in self.readings.pop(0))


@pytest.mark.parametrize("second", [[*STORIES, "one more"], STORIES[:-1]])
@pytest.mark.parametrize("how", ["document", "position"])
def test_documents_that_come_or_go_between_two_readings_are_refused(config, how, second):
    config.data.path = "a.txt"
    documents = Changing(STORIES, second)
    with pytest.raises(UserError, match=r"data.path=a.txt changed while it was read; start again"):
        if how == "document":
            list(sources.deal_by_document(documents, config.data, (0.1, 0.1)))
        else:
            list(deal_by_position(documents, config.data, (0.1, 0.1)))


@pytest.mark.parametrize("change", ["grow", "shrink", "rewrite", "remove"])
@pytest.mark.parametrize("how", ["document", "position"])
def test_a_file_that_changes_between_two_readings_is_refused(
    config, tmp_path, monkeypatch, how, change
):
    path = tmp_path / "a.txt"
    write(config, path, "\n\n".join(STORIES))
    config.data.split = how
    config.data.tokenizer = "byte"
    read, readings = sources.read_chunks, itertools.count()

    def reading(*arguments):
        yield from read(*arguments)
        if next(readings) == 1:  # of one to see how to cut, one to deal, and one to take
            match change:
                case "grow":
                    path.write_text(path.read_text() + "\n\none more")
                case "shrink":
                    path.write_text("\n\n".join(STORIES[:-1]))
                case "rewrite":
                    path.write_text(path.read_text()[::-1])
                case "remove":
                    path.unlink()

    monkeypatch.setattr(sources, "read_chunks", reading)
    words = "a.txt: No such file" if change == "remove" else "changed while it was read; start"
    refused(config, words)


def test_tiny_shakespeare_as_nanogpt_reads_it(config, shared_data):
    path = shared_data("tinyshakespeare") / "input.txt"
    data = path.read_text()
    config.data.path = str(path)
    config.data.documents, config.data.split = "one", "position"
    config.data.test_fraction, config.data.stride = 0.0, 1
    config.data.context_length = 256
    dataset = load_dataset(config)
    n = len(data)
    assert list(dataset.splits) == ["train", "valid"]
    assert texts(dataset, "train") == [data[: int(n * 0.9)]]
    assert texts(dataset, "valid") == [data[int(n * 0.9) :]]
    assert dataset.tokenizer.characters == "".join(sorted(set(data)))
    # Every offset is a window; the one more starts with the end-of-text before the first character.
    assert dataset.splits["train"].num_rows == int(n * 0.9) - 256 + 2
    assert dataset.splits["valid"].num_rows == -(-(n - int(n * 0.9) + 1) // 256)


def test_separate_files(config, shared_data):
    folder = shared_data("tinystories")
    config.data.path = str(folder / "train.txt")
    config.data.valid_path = str(folder / "valid.txt")
    config.data.test_path = str(folder / "test.txt")
    dataset = load_dataset(config)
    for split in sources.SPLITS:
        text = (folder / f"{split}.txt").read_text()
        whole = [part.strip("\n") for part in text.split("<|endoftext|>") if part.strip()]
        assert texts(dataset, split) == whole


def test_only_a_validation_file(config, tmp_path):
    write(config, tmp_path / "a.txt", "\n\n".join(STORIES))
    (tmp_path / "v.txt").write_text("they were 3 hens of the Story")
    config.data.valid_path = str(tmp_path / "v.txt")
    dataset = load_dataset(config)
    assert texts(dataset, "valid") == ["they were 3 hens of the Story"]
    assert [dataset.splits[split].documents for split in ("train", "test")] == [45, 5]


def test_a_position_that_leaves_a_split_empty(config, tmp_path):
    write(config, tmp_path / "a.txt", "ab")
    config.data.split = "position"
    config.data.valid_fraction, config.data.test_fraction = 0.4, 0.0
    refused(config, "the train split has 2 tokens")
    config.data.valid_fraction = 0.6
    refused(config, "the train split is empty; give more text")
