import itertools
import os
import signal
import subprocess
import sys
import time
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from tests.processes import is_alive, needs_proc
from txf import subprocesses
from txf.config import default_config
from txf.data import cache, workers
from txf.data.dataset import load_dataset
from txf.data.tokenizers import load_tokenizer, train_tokenizer
from txf.data.workers import encode_group, encode_in_order, num_workers
from txf.errors import RunError, UserError

TEXTS = [f"Story {i} of the {i * 7919 % 101} hens, \U0001f413 héns.\n" for i in range(41)]
GROUPS = [
    ("abc"[i % 3], [None, *TEXTS[i : i + 5], "", None, "<|endoftext|>"]) for i in range(0, 41, 3)
]


def make(kind, folder):
    if kind != "tokenizer.json":
        return train_tokenizer(kind, TEXTS[:7], 270, mask=kind == "char")
    train_tokenizer("bpe", TEXTS, 280).save(folder / "tokenizer.json")
    return load_tokenizer(folder / "tokenizer.json")


@pytest.mark.parametrize("kind", ["char", "byte", "bpe", "word", "tokenizer.json"])
def test_any_number_of_workers_gives_the_same_in_the_same_order(kind, tmp_path):
    tokenizer = make(kind, tmp_path)
    alone = list(encode_in_order(tokenizer, GROUPS, 1))
    jnp.ones(3).block_until_ready()  # JAX has threads, and warns where it is forked
    with warnings.catch_warnings(action="error"):
        together = list(encode_in_order(tokenizer, GROUPS, 2))
    assert [name for name, _ in alone] == [name for name, _ in GROUPS]
    for (name, one), (other_name, other) in zip(alone, together, strict=True):
        assert name == other_name and one[1:] == other[1:]
        assert one.ids.dtype == other.ids.dtype == tokenizer.dtype
        np.testing.assert_array_equal(one.ids, other.ids)


def test_a_group_is_counted_as_it_is_tokenized():
    tokenizer = train_tokenizer("char", ["abc"], 0)
    encoded = encode_group(tokenizer, [None, "ab", "", "cé", None])
    assert encoded.ids.tolist() == [0, 2, 3, 4, 1, 0]
    assert encoded[1:] == (len("abcé".encode()), 2, 1)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("corpora/*/*")}


def test_the_cache_is_the_same_to_the_byte(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("\n\n".join(TEXTS))
    config = default_config()
    config.data.source, config.data.path = "text", str(tmp_path / "a.txt")
    config.data.context_length = 16
    monkeypatch.setattr(cache, "LARGE", 100)
    monkeypatch.setattr(cache, "GROUP", 64)
    made = []
    for count in (1, 3):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(count)))
        monkeypatch.setattr(cache, "num_workers", lambda size, count=count: count)
        load_dataset(config)
        made.append(files_of(tmp_path / str(count) / "txf"))
    assert set(made[0]) == {"train.tokens", "valid.tokens", "test.tokens", "meta.json"}
    assert made[0] == made[1]


def test_groups_are_asked_for_as_they_are_needed():
    asked = itertools.count()
    groups = (("a", [str(next(asked))]) for _ in range(1000))
    results = encode_in_order(train_tokenizer("byte", [], 0), groups, 2)
    for done in range(1, 10):
        next(results)
        assert next(asked) <= 2 * done + 2  # this asks as well
    results.close()


@pytest.mark.parametrize("count", [1, 2])
def test_bad_text_is_refused_as_without_processes(count):
    groups = [("a", ["fine"]), ("a", ["half \ud83d"]), ("a", ["fine"])]
    with pytest.raises(UserError, match="character 5 of the text is half of a surrogate pair"):
        list(encode_in_order(train_tokenizer("byte", [], 0), groups, count))


@pytest.fixture
def started(monkeypatch):
    """The processes that are started."""
    found = []

    class Noted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            found.append(self)

    monkeypatch.setattr(subprocesses.subprocess, "Popen", Noted)
    return found


@pytest.mark.parametrize("first", [0, 1])
def test_a_process_that_is_killed_is_told(started, first):
    results = encode_in_order(train_tokenizer("byte", [], 0), itertools.cycle(GROUPS), 2)
    next(results)
    started[first].kill()
    with pytest.raises(RunError, match="a process started for this ended early, with status -9"):
        list(results)
    assert [process.returncode for process in started] == [-9, -9]


def test_no_process_is_left_when_nobody_asks_for_more(started):
    results = encode_in_order(train_tokenizer("byte", [], 0), itertools.cycle(GROUPS), 2)
    next(results)
    assert [process.poll() for process in started] == [None, None]
    results.close()
    assert [process.returncode for process in started] == [-9, -9]


ENDLESS = """
import itertools, subprocess
from txf.data import workers
from txf.data.tokenizers import train_tokenizer

class Noted(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        print(self.pid, flush=True)

subprocess.Popen = Noted
groups = itertools.repeat(("a", ["text " * 1000]))
for _ in workers.encode_in_order(train_tokenizer("byte", [], 0), groups, 2):
    print("at work", flush=True)
"""


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_one_that_started_it(number):
    environment = {**os.environ, "PYTHONPATH": str(subprocesses.ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        assert parent.stdout.readline() == "at work\n"
        assert all(map(is_alive, pids))
        parent.send_signal(number)
        told = parent.communicate(timeout=60)[1]
    until = time.monotonic() + 20
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(is_alive, pids))
    # Only the parent has something to say, and only of an interruption.
    assert told.count("Traceback") == (number == signal.SIGINT), told


@pytest.mark.parametrize(
    ("cores", "megabytes", "count"),
    [(1, 1000, 1), (2, 1, 1), (2, 30, 1), (2, 40, 2), (64, 100, 5), (64, 1000, workers.MOST)],
)
def test_processes_are_worth_their_start_and_no_more_than_cores(
    monkeypatch, cores, megabytes, count
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert num_workers(megabytes * 1_000_000) == count
