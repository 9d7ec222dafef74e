from functools import partial

import numpy as np
import pytest

from txf.config import default_config
from txf.data import batches, overlap
from txf.data.dataset import load_dataset
from txf.data.overlap import read_content, repeated, shared
from txf.data.splits import Split
from txf.data.tokenizers import ByteTokenizer

TOKENIZER = ByteTokenizer()
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]


def stream(*texts):
    parts = [[0]] + [part for text in texts for part in (TOKENIZER.encode(text), [0])]
    tokens = np.concatenate(parts).astype(np.uint16)
    take = partial(batches.take_windows, context_length=5, stride=5)
    return Split("train", {"tokens": tokens}, 1, take, tokens.size - 1, 0, len(texts))


def contents(*splits):
    numbers = {}
    return [read_content(split, TOKENIZER, numbers) for split in splits]


def test_documents_in_common_are_counted_and_so_are_repeats():
    train, valid = contents(stream("a hen", "a fox", "a hen", "a cow"), stream("a hen", "an ox"))
    assert shared(valid, train) == (1, 0)
    assert shared(train, valid) == (2, 0)
    assert (repeated(train), repeated(valid)) == (1, 0)


def test_sequences_of_words_are_found_wherever_they_stand():
    long, later = " ".join(WORDS), "Then\n" + "  ".join(WORDS[1:])
    train, valid = contents(stream(long), stream(later))
    # Eleven words have four sequences of eight; the later text shares those without `one`.
    assert (train.sequences.size, valid.sequences.size) == (4, 4)
    assert shared(valid, train) == (0, 3)


def test_sequences_do_not_reach_over_the_end_of_a_document():
    together, apart = contents(
        stream(" ".join(WORDS[:8])), stream(" ".join(WORDS[:5]), " ".join(WORDS[5:8]))
    )
    assert together.sequences.size == 1
    assert apart.sequences.size == 0


def test_order_matters_in_sequences():
    forward, backward = contents(stream(" ".join(WORDS)), stream(" ".join(WORDS[::-1])))
    assert shared(backward, forward) == (0, 0)


def test_only_so_many_tokens_are_looked_at(monkeypatch):
    monkeypatch.setattr(overlap, "LIMIT", 10)
    (content,) = contents(stream("123456", "123456", "123456"))
    assert not content.whole
    assert content.documents.size == 2


def test_rows_of_pairs_are_both_sides(tmp_path):
    pairs = [f"hen {number}\tHuhn {number}" for number in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join(["en\tde", *pairs, *pairs[:3]]) + "\n")
    # The same sources with other targets: no pair in common.
    other = [pair.replace("Huhn", "Henne") for pair in pairs[:7]]
    (tmp_path / "valid.tsv").write_text("\n".join(["en\tde", *other, pairs[5]]) + "\n")
    config = default_config()
    config.task = "translation"
    config.data.source = "parallel"
    config.data.path = str(tmp_path)
    config.data.test_fraction = 0.0
    dataset = load_dataset(config)
    numbers = {}
    train, valid = (
        read_content(dataset.splits[name], dataset.tokenizer, numbers)
        for name in ("train", "valid")
    )
    assert shared(valid, train)[0] == 1
    assert repeated(train) == 3


@pytest.mark.parametrize("name", ["train", "valid"])
def test_labels_are_counted(tmp_path, name):
    for split, count in (("train", 30), ("valid", 9)):
        rows = [f"text {i}\t{'good' if i % 3 else 'bad'}" for i in range(count)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    config = default_config()
    config.task = "classification"
    config.data.source = "sentiment"
    config.data.path = str(tmp_path)
    config.data.test_fraction = 0.0
    dataset = load_dataset(config)
    counts = overlap.count_labels(dataset.splits[name], 2)
    assert dict(zip(dataset.labels, counts.tolist(), strict=True)) == (
        {"bad": 10, "good": 20} if name == "train" else {"bad": 3, "good": 6}
    )
