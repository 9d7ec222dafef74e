"""Each task trains from its files to its scores, and learns what there is to learn."""

import itertools
import random

import pytest

from tests.training import small
from txf.training.run import RunFolder

WORDS = ["hen", "cow", "dog", "owl"]
NAMES = {"hen": "Huhn", "cow": "Kuh", "dog": "Hund", "owl": "Eule"}


def write_texts(rng):
    texts = [[*rng.sample(WORDS, 2), word] for word in ("good", "bad") * 40]
    return "tsv", "text\tlabel\n" + "".join(
        f"{' '.join(rng.sample(words, 3))}\t{words[2]}\n" for words in texts
    )


def write_tags(rng):
    tag = {"hen": "B-bird", "owl": "B-bird"}
    sentences = [rng.choices(WORDS, k=3) for _ in range(80)]
    lines = ["".join(f"{word}\t{tag.get(word, 'O')}\n" for word in words) for words in sentences]
    return "conll", "\n".join(lines)


def write_pairs(rng):
    sources = [rng.sample(WORDS, rng.randint(1, 3)) for _ in range(120)]
    pairs = [f"{' '.join(s)}\t{' '.join(NAMES[word] for word in s)}\n" for s in sources]
    return "tsv", "en\tde\n" + "".join(pairs)


LEARNS = {
    "model.structure": "encoder",
    "model.width": 24,
    "model.dropout": 0.0,
    "data.tokenizer": "word",
    "data.context_length": 6,
    "training.batch_size": 24,
    "training.accumulate": 1,
    "training.steps": 120,
    "training.eval_every": 120,
    "training.checkpoint_every": 120,
    "training.log_every": 120,
    "training.steps_per_dispatch": 60,
}
TASKS = {
    "classification": (write_texts, {"data.source": "sentiment"}, "macro_f1"),
    "tagging": (write_tags, {"data.source": "conll"}, "entity_f1"),
    "translation": (
        write_pairs,
        {
            "data.source": "parallel",
            "model.structure": "encoder_decoder",
            "evaluation.max_new_tokens": 6,
            "evaluation.beams": 2,
        },
        "exact_match",
    ),
}


@pytest.mark.parametrize("task", list(TASKS))
def test_a_task_on_labelled_files_is_learned(task, tmp_path):
    write, options, score = TASKS[task]
    for number, split in enumerate(("train", "valid", "test")):
        end, content = write(random.Random(number))
        (tmp_path / f"{split}.{end}").write_text(content)
    config = small.config({**LEARNS, "task": task, "data.path": str(tmp_path), **options})
    small.train(config, tmp_path / "run")
    result = RunFolder.at(tmp_path / "run").result()
    for split in ("valid", "test"):
        assert result[split][score] > 0.9, result
        assert result[split]["accuracy"] > 0.9
    if task == "translation":
        assert result["test"]["chrf"] > 80
        assert "bleu" in result["test"]  # 0 for sentences that are too short for four words in turn
        leaves = small.params(tmp_path / "run")
        assert [path for path in leaves if "embed" in path or "head" in path] == [
            "['embed']['embedding']"  # the tied head is this leaf, once in the checkpoint
        ]


def test_masked_tokens_are_learned_from_both_sides(tmp_path):
    """Two letters in turn: a masked one stands before and behind, at its distance of two."""
    pairs = itertools.permutations("abcdefghijklmnop", 2)
    (tmp_path / "lines.txt").write_text("\n\n".join("".join(pair) * 7 for pair in pairs))
    options = {
        "task": "masked_language_model",
        "data.source": "text",
        "data.path": str(tmp_path / "lines.txt"),
        "data.packing": "documents",
        "data.tokenizer": "char",
        "data.context_length": 15,
        "data.masked_fraction": 0.3,
    }
    small.train(small.config({**LEARNS, **options}), tmp_path / "run")
    lines = small.lines(tmp_path / "run")
    assert lines[120, "valid"]["accuracy"] > 0.75
    assert lines[120, "valid"]["loss"] < 0.5 * lines[0, "valid"]["loss"]
