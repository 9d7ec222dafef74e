import hashlib
import http.server
import threading

import numpy as np
import pytest

from txf.config import default_config, validate
from txf.data.builders import builder_class
from txf.data.builders.text_builder import Origin
from txf.data.dataset import load_dataset
from txf.errors import UserError

TEXT = "First Citizen:\nBefore we proceed any further, hear me speak.\n\n" * 30


@pytest.fixture
def config(tmp_path):
    config = default_config()
    config.data.source = "tfds"
    config.data.context_length = 16
    config.data.data_dir = str(tmp_path / "prepared")
    config.data.manual_dir = str(tmp_path / "manual")
    (tmp_path / "manual").mkdir()
    return config


def same_tokens(ours, theirs):
    validate(ours)
    first, second = load_dataset(ours), load_dataset(theirs)
    assert list(first.splits) == list(second.splits)
    for name, split in first.splits.items():
        np.testing.assert_array_equal(split.arrays["tokens"], second.splits[name].arrays["tokens"])
        assert split.documents == second.splits[name].documents
        assert split.text_bytes == second.splits[name].text_bytes
    return first


def read_as_text(config, **changes):
    config = config.copy_and_resolve_references()
    config.data.update({"source": "text", "tfds_name": None, **changes})
    return config


@pytest.mark.parametrize(
    ("name", "fractions", "sizes"),
    [
        ("tiny_shakespeare", (0.05, 0.05), (1003854, 55770, 55770)),
        ("tiny_shakespeare/nanogpt", (0.1, 0.0), (1003854, 111540)),
    ],
)
def test_tiny_shakespeare_is_the_text_file(config, shared_data, name, fractions, sizes):
    folder = shared_data("tinyshakespeare")
    config.data.tfds_name = name
    config.data.manual_dir = str(folder)
    config.data.test_fraction = fractions[1]
    as_text = read_as_text(
        config,
        path=str(folder / "input.txt"),
        documents="one",
        split="position",
        valid_fraction=fractions[0],
        test_fraction=fractions[1],
    )
    dataset = same_tokens(config, as_text)
    assert tuple(split.text_bytes for split in dataset.splits.values()) == sizes
    assert dataset.vocab_size == 65 + 2


def test_tinystories_is_the_text_files(config, shared_data):
    folder = shared_data("tinystories")
    config.data.tfds_name = "tinystories"
    config.data.manual_dir = str(folder)
    paths = {"path": "train", "valid_path": "valid", "test_path": "test"}
    as_text = read_as_text(
        config, **{key: str(folder / f"{name}.txt") for key, name in paths.items()}
    )
    dataset = same_tokens(config, as_text)
    assert dataset.splits["train"].documents > 1000


def write_stories(folder, **files):
    for name, numbers in files.items():
        text = "\n<|endoftext|>\n".join(f"Story {number}.\n\nThe end." for number in numbers)
        (folder / f"{name}.txt").write_text(text + "\n<|endoftext|>\n")


def test_published_validation_stories_are_halved_where_there_is_no_test_file(config, tmp_path):
    config.data.tfds_name = "tinystories"
    config.data.tokenizer = "byte"
    names = {"TinyStoriesV2-GPT4-train": range(60), "TinyStoriesV2-GPT4-valid": range(60, 73)}
    write_stories(tmp_path / "manual", **names)
    dataset = load_dataset(config)
    assert [split.documents for split in dataset.splits.values()] == [60, 7, 6]
    decoded = dataset.tokenizer.decode(dataset.splits["test"].arrays["tokens"])
    assert decoded.split("<|endoftext|>")[1:-1] == [
        f"Story {number}.\n\nThe end." for number in range(67, 73)
    ]


def test_prepared_data_is_read_again_but_not_for_other_files(config, tmp_path):
    config.data.tfds_name = "tinystories"
    config.data.tokenizer = "byte"
    manual = tmp_path / "manual"
    write_stories(manual, train=range(60), valid=range(60, 73), test=range(73, 80))
    first = load_dataset(config)
    config.data.manual_dir = None
    for manual_dir in (None, str(manual)):
        config.data.manual_dir = manual_dir
        again = load_dataset(config)
        np.testing.assert_array_equal(
            first.splits["train"].arrays["tokens"], again.splits["train"].arrays["tokens"]
        )
    write_stories(manual, train=range(61))
    with pytest.raises(UserError, match=r"prepared from other files .*train.txt differ"):
        load_dataset(config)


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        ("tiny_shakespeare", {}, "has no input.txt, which tiny_shakespeare is made of; download"),
        ("tiny_shakespeare", {"input.txt": TEXT}, "sha256 starts .* not 86c4e6aa9db7c042"),
        ("tinystories", {"valid.txt": TEXT}, "no TinyStoriesV2-GPT4-train.txt or train.txt"),
        ("tinystories", {"train.txt": TEXT, "valid.txt": ""}, "is empty"),
    ],
)
def test_wrong_files_are_refused_and_nothing_is_prepared(config, tmp_path, name, written, message):
    config.data.tfds_name = name
    for file, text in written.items():
        (tmp_path / "manual" / file).write_text(text)
    with pytest.raises(UserError, match=message):
        load_dataset(config)
    assert not list((tmp_path / "prepared").glob("**/dataset_info.json"))


@pytest.fixture
def server(monkeypatch):
    """A URL that serves TEXT."""
    monkeypatch.setenv("no_proxy", "*")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(TEXT)))
            self.end_headers()

        def do_GET(self):
            self.do_HEAD()
            self.wfile.write(TEXT.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/input.txt"
        server.shutdown()


@pytest.mark.parametrize("intact", [True, False])
def test_files_are_downloaded_and_checked(config, monkeypatch, server, intact):
    right = hashlib.sha256(TEXT.encode()).hexdigest()
    origin = Origin(("input.txt",), server, right if intact else "0" * 64)
    monkeypatch.setattr(builder_class("tiny_shakespeare"), "ORIGINS", {"input": origin})
    config.data.tfds_name = "tiny_shakespeare"
    config.data.tokenizer = "byte"
    config.data.manual_dir = None
    if not intact:
        with pytest.raises(UserError, match="is not the file that tiny_shakespeare is made of"):
            load_dataset(config)
        return
    dataset = load_dataset(config)
    streams = [split.arrays["tokens"] for split in dataset.splits.values()]
    joined = "".join(dataset.tokenizer.decode(stream[1:-1]) for stream in streams)
    assert joined == TEXT
