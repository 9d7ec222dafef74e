import pytest

from txf.config import default_config
from txf.data.dataset import check_data


def config_with(**changes):
    config = default_config()
    config.task = changes.pop("task", config.task)
    for key, value in changes.items():
        config.data[key] = value
    return config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source": "text", "path": "a.txt"},
        {"source": "text", "path": "a.txt", "valid_path": "b.txt", "valid_fraction": 0.0},
        {"stride": 1},
        {"packing": "packed", "tokenizer": "bpe"},
        {"task": "masked_language_model"},
        {"task": "classification", "source": "sentiment", "path": "a.tsv"},
        {"task": "tagging", "source": "conll", "path": "a.conll", "tokenizer": "word"},
        {"task": "translation", "source": "parallel", "path": "a.tsv", "tokenizer": "bpe"},
    ],
)
def test_good_configs_pass(changes):
    assert check_data(config_with(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"source": "books", "path": "a"},
            "data.source='books' is unknown; choose storyworld",
        ),
        ({"source": "sentiment", "path": "a"}, "data.source='sentiment' cannot serve task="),
        ({"source": "text"}, "data.path=None is missing"),
        ({"valid_fraction": 0.0}, "data.valid_fraction=0.0 leaves nothing to validate on"),
        (
            {"source": "text", "path": "a", "valid_fraction": 0.5, "test_fraction": 0.5},
            "data.test_fraction=0.5 and data.valid_fraction=0.5 leave nothing to train on",
        ),
        ({"tokenizer": "word"}, "data.tokenizer='word' loses white space"),
        ({"stride": 65}, "data.stride=65 would skip tokens; it takes 1 to .*=64"),
        ({"stride": 1, "packing": "packed"}, "data.stride=1 is for data.packing='windows'"),
        ({"tokenizer": "bpe", "vocab_size": 256}, "data.vocab_size=256 is too small for bpe"),
        (
            {"task": "classification", "source": "sentiment", "path": "a", "packing": "packed"},
            "data.packing='packed' is for language models",
        ),
    ],
)
def test_bad_configs_are_told_in_one_line(changes, problem):
    import re

    (line,) = check_data(config_with(**changes))
    assert re.match(problem, line)
    assert "\n" not in line


def test_all_problems_are_told_at_once():
    changes = {"source": "text", "valid_fraction": 0.0, "stride": 99, "tokenizer": "word"}
    assert len(check_data(config_with(**changes))) == 4
