import http.server
import importlib.util
import itertools
import json
import shutil
import socket
import sys
import threading
import time
import types

import numpy as np
import pytest

from tests.data import tfds_sets
from txf.config import ConfigError, default_config, validate
from txf.data import cache, preparing
from txf.data import tfds as source
from txf.data.dataset import load_dataset
from txf.errors import UserError

SPLITS = {"train": 41, "valid": 13, "test": 11}


def stories(split, count):
    return [tfds_sets.story(split, number) for number in range(count)]


@pytest.fixture(scope="session")
def hens(tmp_path_factory):
    """A folder with the data set `hens`, each split in three files."""
    folder = tmp_path_factory.mktemp("hens")
    tfds_sets.prepare(folder, shards=3)
    return folder


@pytest.fixture
def config(hens):
    config = default_config()
    config.data.source = "tfds"
    config.data.tfds_name = "hens"
    config.data.data_dir = str(hens)
    config.data.context_length = 16
    config.data.tokenizer = "byte"
    return config


@pytest.fixture
def no_network(monkeypatch):
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)


def texts(dataset, split):
    """The documents of a split, decoded from its stream."""
    tokens = np.asarray(dataset.splits[split].arrays["tokens"])
    pairs = itertools.pairwise(np.flatnonzero(tokens == 0))
    return [dataset.tokenizer.decode(tokens[begin + 1 : end]) for begin, end in pairs]


def refused(config, *messages, seconds=60.0):
    start = time.monotonic()
    with pytest.raises(UserError) as caught:
        load_dataset(config)
    assert time.monotonic() - start < seconds
    assert all(message in str(caught.value) for message in messages), str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_example_of_every_file_is_a_document_unchanged_and_in_order(config, hens):
    assert len(list(hens.glob("hens/1.0.0/hens-train*"))) == 3
    validate(config)
    dataset = load_dataset(config)
    theirs = {"train": "train", "valid": "validation", "test": "test"}
    for split, count in SPLITS.items():
        assert texts(dataset, split) == stories(theirs[split], count)
        assert dataset.splits[split].documents == count
    assert dataset.notes == [
        f"hens/1.0.0: {theirs[split]} has {count} document(s) (feature text)"
        for split, count in SPLITS.items()
    ]


def test_the_folder_of_a_version_is_a_data_dir_too(config, hens):
    by_name = load_dataset(config)
    config.data.data_dir = str(hens / "hens" / "1.0.0")
    by_folder = load_dataset(config)
    for split in SPLITS:
        np.testing.assert_array_equal(
            by_name.splits[split].arrays["tokens"], by_folder.splits[split].arrays["tokens"]
        )


@pytest.mark.parametrize("how", ["document", "position"])
def test_missing_splits_are_cut_from_train_as_from_a_text_file(config, tmp_path, how):
    tfds_sets.prepare(tmp_path, splits={"train": 41, "test": 11})
    config.data.data_dir = str(tmp_path)
    config.data.split = how
    config.data.valid_fraction = 0.2
    dataset = load_dataset(config)
    written = [story.strip("\n") for story in stories("train", 41)]
    (tmp_path / "hens.txt").write_text("\n<|endoftext|>\n".join(written))
    text = config.copy_and_resolve_references()
    text.data.update(source="text", path=str(tmp_path / "hens.txt"), test_fraction=0.0)
    expected = load_dataset(text)
    assert texts(dataset, "test") == stories("test", 11)
    for split in ("train", "valid"):
        assert texts(dataset, split) == texts(expected, split)


def test_masked_language_models_read_tfds_too(config):
    config.task = "masked_language_model"
    config.model.structure = "encoder"
    validate(config)
    dataset = load_dataset(config)
    assert dataset.tokenizer.mask is not None
    assert dataset.splits["train"].documents == SPLITS["train"]


@pytest.mark.parametrize(
    ("features", "wanted", "found"),
    [
        (("words",), None, "words"),
        (("title", "story"), None, "story"),
        (("story", "text"), None, "text"),
        (("text", "title"), "title", "title"),
        (("title", "body"), None, ["title, body", "label", "data.text_feature"]),
        (("text", "title"), "label", ["data.text_feature=label", "text, title", "label"]),
        (("text", "title"), "tale", ["data.text_feature=tale", "text, title", "label"]),
    ],
)
def test_the_text_is_found_or_named_or_refused(config, tmp_path, features, wanted, found):
    tfds_sets.prepare(tmp_path, texts=features)
    config.data.data_dir = str(tmp_path)
    config.data.text_feature = wanted
    if isinstance(found, list):
        # Features are stored in no particular order.
        found[1:2] = found[1].split(", ") if len(found) > 1 else []
        return refused(config, *[word for line in found for word in line.split(", ")])
    train = texts(load_dataset(config), "train")
    if found == features[0]:
        assert train == stories("train", 41)
    else:
        assert train == [f"{found} of {number}" for number in range(41)]


def test_a_data_set_without_a_train_split_is_refused(config, tmp_path):
    tfds_sets.prepare(tmp_path, splits={"wild": 13, "test": 11})
    config.data.data_dir = str(tmp_path)
    refused(config, "no split called train", "wild, test")


def test_blank_examples_are_left_out_and_counted(config, tmp_path):
    class Shy(tfds_sets.Hens, skip_registration=True):
        name = "hens"

        def text(self, split, number):
            return " \n" if number % 5 == 0 else super().text(split, number)

    tfds_sets.prepare(tmp_path, kind=Shy)
    config.data.data_dir = str(tmp_path)
    dataset = load_dataset(config)
    expected = [text for number, text in enumerate(stories("train", 41)) if number % 5]
    assert texts(dataset, "train") == expected
    assert "train has 32 document(s), 9 blank ones left out" in dataset.notes[0]


def test_text_that_is_not_utf8_is_refused(config, tmp_path):
    class Latin(tfds_sets.Hens, skip_registration=True):
        name = "hens"

        def text(self, split, number):
            return b"h\xe9ns"

    tfds_sets.prepare(tmp_path, kind=Latin)
    config.data.data_dir = str(tmp_path)
    refused(config, "example 0 is not UTF-8 at byte 1")


@pytest.mark.parametrize("change", ["lost", "format"])
def test_prepared_data_that_cannot_be_read_whole_is_refused(config, hens, tmp_path, change):
    folder = tmp_path / "1.0.0"
    shutil.copytree(hens / "hens" / "1.0.0", folder)
    info = json.loads((folder / "dataset_info.json").read_text())
    if change == "format":
        info["fileFormat"] = "tfrecord"
        message = "prepared as tfrecord"
    else:
        train = next(split for split in info["splits"] if split["name"] == "train")
        lengths = train["shardLengths"]
        lengths[-1] = str(int(lengths[-1]) + 1)
        message = "42 examples"
    (folder / "dataset_info.json").write_text(json.dumps(info))
    config.data.data_dir = str(folder)
    refused(config, message)


def test_large_data_sets_go_through_the_cache(config, monkeypatch, tmp_path):
    whole = load_dataset(config)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "LARGE", 0)
    for note in ("wrote tokens", "read tokens"):
        cached = load_dataset(config)
        assert note in cached.notes[-1]
        for split in SPLITS:
            assert isinstance(cached.splits[split].arrays["tokens"], np.memmap)
            np.testing.assert_array_equal(
                whole.splits[split].arrays["tokens"], cached.splits[split].arrays["tokens"]
            )
    config.data.text_feature = "label"
    refused(config, "label")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tfds_name": None}, "data.tfds_name=None is missing"),
        ({"path": "a.txt"}, "data.path=a.txt is for files"),
        ({"valid_path": "a.txt"}, "data.valid_path=a.txt is for files"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_reading(config, changes, message):
    config.data.update(changes)
    with pytest.raises(ConfigError, match=message):
        validate(config)


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("tiny_shakespeare", ["input.txt", "data.manual_dir", "cannot reach https://"]),
        ("tinystories", ["TinyStoriesV2-GPT4-train.txt", "data.manual_dir", "cannot reach"]),
        ("mnist", ["cannot reach https://", "data.data_dir"]),
        ("no_such_thing", ["no data set of TFDS", "tiny_shakespeare, tinystories"]),
        ("tinystories/big", ["tinystories/big is unknown", "choose tinystories"]),
        ("tiny_shakespeare/big", ["choose tiny_shakespeare/tfds or tiny_shakespeare/nanogpt"]),
    ],
)
def test_without_a_network_it_says_at_once_what_is_missing(
    config, tmp_path, no_network, name, messages
):
    config.data.data_dir = str(tmp_path)
    config.data.tfds_name = name
    refused(config, name, *messages, seconds=2.0)


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="has TensorFlow")
@pytest.mark.parametrize("name", ["lm1b", "wmt16_translate/de-en"])
def test_what_takes_tensorflow_to_prepare_says_so_before_it_downloads(config, tmp_path, name):
    config.data.data_dir = str(tmp_path)
    config.data.tfds_name = name
    refused(config, "needs tensorflow", "array_record", f"tfds.builder('{name}'", seconds=2.0)


def test_hugging_face_data_sets_need_their_package_and_a_network(
    config, tmp_path, no_network, monkeypatch
):
    config.data.data_dir = str(tmp_path)
    config.data.tfds_name = "huggingface:hens"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(config, "pip install datasets")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    refused(config, "cannot reach https://huggingface.co", seconds=2.0)


class HubHens(tfds_sets.Hens, skip_registration=True):
    """Hens as a data set of the hub is called once it is prepared."""

    name = "farm__little_hens"


@pytest.mark.parametrize("name", ["farm__little_hens", "Farm__Little-Hens"])
def test_a_prepared_data_set_of_hugging_face_needs_neither(
    config, tmp_path, no_network, monkeypatch, name
):
    tfds_sets.prepare(tmp_path, kind=HubHens)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    config.data.data_dir = str(tmp_path)
    config.data.tfds_name = f"huggingface:{name}"
    assert texts(load_dataset(config), "train") == stories("train", SPLITS["train"])


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("Farm__Little-Hens", {"hf_repo_id": "Farm/Little-Hens", "hf_config": None}),
        ("Farm__Little-Hens/red", {"hf_repo_id": "Farm/Little-Hens", "hf_config": "red"}),
        ("farm__little_hens", {}),  # no such name at the hub: TFDS looks for one that is so called
    ],
)
def test_hugging_face_is_asked_for_the_name_itself_first(
    config, tmp_path, monkeypatch, name, asked
):
    told = []

    def builder(*names, data_dir, file_format, **options):
        told.append((*names, options))
        assert file_format == "array_record"
        return HubHens(data_dir=data_dir)

    hub = types.SimpleNamespace(repo_exists=lambda name, repo_type: name == "Farm/Little-Hens")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(source.huggingface_dataset_builder, "HuggingfaceDatasetBuilder", builder)
    monkeypatch.setattr(source.tfds, "builder", builder)
    reached = []
    monkeypatch.setattr(source, "check_reachable", reached.append)
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror")
    config.data.data_dir = str(tmp_path)
    config.data.tfds_name = f"huggingface:{name}"
    assert source.open_builder(config.data).info.splits["train"].num_examples == SPLITS["train"]
    assert told == [(asked,) if asked else (config.data.tfds_name, {})]
    assert reached == ["http://mirror"]


def test_a_server_that_is_silent_is_not_waited_for(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("no_proxy", "*")
        start = time.monotonic()
        with pytest.raises(preparing.Unreachable, match=r"no answer|timed out"):
            preparing.check_reachable(f"http://127.0.0.1:{silent.getsockname()[1]}/a.txt")
        assert time.monotonic() - start < 2.0


def test_a_server_that_says_no_is_reached(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_error(404)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        preparing.check_reachable(f"http://127.0.0.1:{server.server_port}/a.txt")


def test_tfds_is_imported_only_when_it_is_used(run_python):
    code = (
        "import sys; import txf.data.dataset as d, txf.config as c; c.validate(c.default_config());"
        "print('tensorflow_datasets' in sys.modules)"
    )
    assert run_python(["-c", code]).stdout == "False\n"
