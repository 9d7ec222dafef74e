import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from txf.config import default_config
from txf.data import bpe, cache, reading
from txf.data.dataset import load_dataset
from txf.data.tokenizers import train_tokenizer
from txf.errors import RunError, UserError

STORIES = [f"Story {i} of the {i * 7919 % 101} hens.\nThey were {i} in all." for i in range(60)]


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "LARGE", 100)
    (tmp_path / "a.txt").write_text("\n\n".join(STORIES))
    config = default_config()
    config.data.source, config.data.path = "text", str(tmp_path / "a.txt")
    config.data.context_length = 16
    config.data.vocab_size = 270
    return config


def corpora():
    return sorted(path.name for path in (cache.folder() / "corpora").iterdir())


def assert_same(one, two):
    assert one.splits.keys() == two.splits.keys()
    assert one.tokenizer.to_json() == two.tokenizer.to_json()
    for name, split in one.splits.items():
        other = two.splits[name]
        for key in ("num_rows", "tokens", "text_bytes", "documents"):
            assert getattr(split, key) == getattr(other, key)
        np.testing.assert_array_equal(split.arrays["tokens"], other.arrays["tokens"])


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
@pytest.mark.parametrize(
    ("documents", "split"),
    [("blank_line", "document"), ("blank_line", "position"), ("one", "position")],
)
def test_cached_is_what_memory_holds(config, monkeypatch, tokenizer, documents, split):
    data = config.data
    data.tokenizer, data.documents, data.split = tokenizer, documents, split
    monkeypatch.setattr(reading, "CHUNK", 50)
    monkeypatch.setattr(bpe.pieces, "__defaults__", (40,))
    monkeypatch.setattr(cache, "PIECE", 40)
    monkeypatch.setattr(cache, "GROUP", 200)
    cached = load_dataset(config)
    assert isinstance(cached.splits["train"].arrays["tokens"], np.memmap)
    assert any(note.startswith("wrote tokens to") for note in cached.notes)
    again = load_dataset(config)
    assert any(note.startswith("read tokens from") for note in again.notes)
    monkeypatch.setattr(cache, "LARGE", 1 << 30)
    plain = load_dataset(config)
    assert not isinstance(plain.splits["train"].arrays["tokens"], np.memmap)
    assert set(plain.notes) <= set(cached.notes)
    assert_same(cached, plain)
    assert_same(again, plain)


def test_a_run_that_is_reopened_finds_its_tokens(config):
    config.data.tokenizer = "bpe"
    first = load_dataset(config)
    second = load_dataset(config, first.tokenizer)
    assert any(note.startswith("read tokens from") for note in second.notes)
    assert len(corpora()) == 1


def test_other_sources_and_tokenizers_have_their_own(config):
    load_dataset(config)
    config.data.seed = 1
    load_dataset(config)
    config.data.tokenizer = "byte"
    load_dataset(config)
    assert len(corpora()) == 3


def test_a_file_that_changed_is_tokenized_again(config, tmp_path):
    config.data.tokenizer = "byte"
    load_dataset(config)
    (tmp_path / "a.txt").write_text("\n\n".join(STORIES[::-1] + ["A new one."] * 3))
    dataset = load_dataset(config)
    assert any("a.txt changed since it was cached" in note for note in dataset.notes)
    assert sum(split.documents for split in dataset.splits.values()) == 63
    assert len(corpora()) == 1
    assert any(note.startswith("read tokens from") for note in load_dataset(config).notes)


@pytest.mark.parametrize("damage", ["cut", "no meta", "no tokens", "bad meta", "wrong ids"])
def test_a_damaged_cache_is_made_again(config, damage):
    good = load_dataset(config)
    (place,) = (cache.folder() / "corpora").iterdir()
    tokens = place / "train.tokens"
    match damage:
        case "cut":
            tokens.write_bytes(tokens.read_bytes()[:-2])
        case "no meta":
            (place / "meta.json").unlink()
        case "no tokens":
            tokens.unlink()
        case "wrong ids":
            content = tokens.read_bytes()
            tokens.unlink()  # the good one is still read
            tokens.write_bytes(content[:-2] + b"\xff\xff")
        case "bad meta":
            (place / "meta.json").write_text('{"stamps": [')
    dataset = load_dataset(config)
    assert any("is tokenized again" in note for note in dataset.notes)
    assert len(corpora()) == 1
    assert_same(load_dataset(config), good)


def test_bpe_learns_from_a_sample_of_a_large_text(config, tmp_path, monkeypatch):
    config.data.tokenizer, config.data.valid_path = "bpe", str(tmp_path / "v.txt")
    config.data.valid_fraction = config.data.test_fraction = 0.0
    (tmp_path / "v.txt").write_text("\n\n".join(STORIES[:20]))
    monkeypatch.setattr(cache, "SAMPLE", 1 + cache._stamps(config.data)[0][1] // 2)
    assert cache.sample_step(config.data) == 3
    sample = list(cache.train_documents(config.data))
    assert sample == STORIES[::3]
    dataset = load_dataset(config)
    assert dataset.tokenizer.to_json() == train_tokenizer("bpe", sample, 270).to_json()
    assert "the tokenizer was learned from one in 3 pieces of the text" in dataset.notes
    with monkeypatch.context() as patch:  # a text that is held in memory makes the same one
        patch.setattr(cache, "LARGE", 1 << 30)
        assert_same(load_dataset(config), dataset)
    config.data.tokenizer = "char"  # needs every character
    assert list(cache.train_documents(config.data)) == STORIES


@pytest.mark.parametrize("content", ["", '{"kind": "char"', "\udcff"])
def test_a_damaged_tokenizer_is_made_again(config, content):
    good = load_dataset(config)
    (path,) = (cache.folder() / "tokenizers").iterdir()
    path.write_text(content, errors="surrogateescape")
    assert_same(load_dataset(config), good)
    assert path.read_text() == good.tokenizer.to_json()


def test_a_file_that_changes_while_it_is_read_is_refused(config, monkeypatch):
    config.data.tokenizer = "byte"
    write = cache._write

    def slow(scratch, data, tokenizer, stamps):
        write(scratch, data, tokenizer, stamps)
        with open(config.data.path, "a") as file:
            file.write("more")

    with monkeypatch.context() as patch:
        patch.setattr(cache, "_write", slow)
        with pytest.raises(UserError, match=r"a.txt changed while it was read; start again"):
            load_dataset(config)
    assert corpora() == []
    assert load_dataset(config).splits


def test_progress_is_told(config, monkeypatch, caplog):
    monkeypatch.setattr(cache, "PATIENCE", -1.0)
    with caplog.at_level("INFO", "txf"):
        load_dataset(config)
    lines = [record.getMessage() for record in caplog.records]
    for doing in ("learning a tokenizer from the training text", "tokenizing the text"):
        told = [line for line in lines if line.startswith(f"{doing} of {config.data.path}: ")]
        assert told[0].endswith("0 MB in files")
        assert len(told) > 50 and told[-1].endswith("0 million characters so far")


def test_a_full_disk_leaves_nothing_behind(config, monkeypatch):
    config.data.tokenizer = "byte"

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache.os, "fsync", full)
        with pytest.raises(RunError, match=r"No space left on device; free some space"):
            load_dataset(config)
    assert corpora() == []
    assert load_dataset(config).splits


def test_bad_text_leaves_nothing_behind(config, tmp_path):
    config.data.tokenizer = "byte"
    with open(tmp_path / "a.txt", "ab") as file:
        file.write(b"\xff")
    with pytest.raises(UserError, match="byte 0xff at offset"):
        load_dataset(config)
    assert corpora() == []


def test_what_a_killed_process_left_is_removed(config):
    home = cache.folder() / "corpora"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    host = cache.socket.gethostname()
    left, alive = (home / f"abc.{host}.{pid}.tmp" for pid in (gone.pid, os.getppid()))
    for path in (left, alive):
        path.mkdir(parents=True)
        (path / "train.tokens").write_bytes(b"half")
    load_dataset(config)
    assert not left.exists() and alive.exists()


PROGRAM = """
import sys
from txf.config import default_config
from txf.data import cache
from txf.data.dataset import load_dataset
cache.LARGE = 100
config = default_config()
config.data.source, config.data.path = "text", sys.argv[1]
config.data.context_length = 16
print(load_dataset(config).splits["train"].arrays["tokens"].sum())
"""


def test_two_processes_at_once_do_not_collide(config, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", PROGRAM, config.data.path]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    sums = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert (
        int(sums[0]) == int(sums[1]) == load_dataset(config).splits["train"].arrays["tokens"].sum()
    )
    assert len(corpora()) == 1


def test_another_process_that_was_first_is_believed(config, monkeypatch):
    write = cache._write

    def slow(scratch, data, tokenizer, stamps):
        write(scratch, data, tokenizer, stamps)
        monkeypatch.setattr(cache, "_write", write)
        cache.prepare(data, tokenizer)

    monkeypatch.setattr(cache, "_write", slow)
    monkeypatch.setattr(cache.os, "getpid", iter(range(1, 9)).__next__)
    monkeypatch.setattr(cache, "_sweep", lambda home, host: None)
    assert load_dataset(config).splits
    assert len(corpora()) == 1
