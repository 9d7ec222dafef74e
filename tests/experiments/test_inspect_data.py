"""The inspect_data command: what it prints for each kind of data, and how it refuses."""

import json
import unicodedata

import pytest

from txf.data.display import width

# One process for many command lines.
DRIVER = """
import contextlib, io, json, sys
from absl.testing import flagsaver
from experiments import common, inspect_data

answers = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["inspect_data.py", *words]
    raw, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(raw, encoding="ascii" if "--rows=3" in words else "utf-8")
    with flagsaver.flagsaver(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            common.run(inspect_data.main)
        except SystemExit as exit:
            out.flush()
            answers.append([exit.code, raw.getvalue().decode(), err.getvalue()])
sys.stdout.write(json.dumps(answers))
"""

STORYWORLD = "--config=configs/storyworld.py"
WORDS = "--config.data.tokenizer=word"
EVIL = "\x1b[31mred\x07 {} \u202eabc\u200b\xa0x 日本語 \x85 e\u0301\t" + "long" * 50
FILES = {
    "evil.txt": "\n\n".join(EVIL.format(number * 7) for number in range(40)),
    "leak/train.txt": "\n\n".join(f"A hen called {i} lives here and is fine." for i in range(40)),
    "leak/valid.txt": "\n\n".join(
        f"A hen called {i} lives here and is fine." for i in range(38, 45)
    ),
    "sentiment/train.tsv": "text\tlabel\n"
    + "\n".join(f"a {'good' if i % 3 else 'bad'} hen {i}\t{i % 3 > 0}" for i in range(60)),
    "ner/train.conll": "\n\n".join(f"hen\tO\nBerta{i % 9}\tB-bird" for i in range(60)),
    "pairs/train.tsv": "en\tde\n" + "\n".join(f"hen {i}\tHuhn {i}" for i in range(60)),
    "tfds/train.txt": "\n<|endoftext|>\n".join(f"Tale {i}.\nThe end." for i in range(40)),
    "tfds/valid.txt": "\n<|endoftext|>\n".join(f"Tale {i}.\nThe end." for i in range(40, 60)),
}
TEXT = [STORYWORLD, "--config.data.source=text", "--config.data.context_length=24"]
SMALL = [STORYWORLD, "--config.data.bytes=9000"]
COMMANDS = {
    "storyworld": SMALL,
    "ascii": [*SMALL, "--rows=3"],
    "masked": [*SMALL, "--config.task=masked_language_model", "--config.model.structure=encoder"],
    "packed": [*SMALL, "--config.data.packing=packed", "--config.data.context_length=900"],
    "evil": [*TEXT, "--config.data.path={}/evil.txt", "--config.data.context_length=48"],
    "leak": [
        *TEXT,
        "--config.data.path={}/leak/train.txt",
        "--config.data.valid_path={}/leak/valid.txt",
    ],
    "sentiment": ["--config=configs/sentiment.py", "--config.data.path={}/sentiment", WORDS],
    "ner": ["--config=configs/ner.py", "--config.data.path={}/ner", WORDS],
    "translation": [
        "--config=configs/translation.py",
        "--config.data.path={}/pairs",
        "--config.data.tokenizer=char",
    ],
    "tfds": [
        "--config=configs/tinystories.py",
        "--config.data.manual_dir={}/tfds",
        "--config.data.data_dir={}/prepared",
        "--config.data.tokenizer=byte",
        "--config.data.context_length=24",
    ],
    "probe": [STORYWORLD, "--config.data.source=recall", "--config.data.examples=100"],
    "no_rows": [STORYWORLD, "--rows=0"],
    "bad_config": [STORYWORLD, "--config.data.source=nothing"],
    "no_file": [*TEXT, "--config.data.path={}/none.txt"],
    "misspelt": [STORYWORLD, "--config.data.sed=1"],
    "no_config": [],
}
WRONG = {
    "no_rows": "--rows=0",
    "bad_config": "data.source='nothing'",
    "no_file": "none.txt does not exist",
    "misspelt": "did you mean data.seed",
    "no_config": "config",
}
RIGHT = [name for name in COMMANDS if name not in WRONG]


@pytest.fixture(scope="module")
def answers(tmp_path_factory, run_python):
    folder = tmp_path_factory.mktemp("data")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    lines = [[word.replace("{}", str(folder)) for word in words] for words in COMMANDS.values()]
    done = run_python(["-c", DRIVER, json.dumps(lines)])
    assert done.returncode == 0, done.stderr
    return dict(zip(COMMANDS, json.loads(done.stdout), strict=True))


def output(answers, name):
    code, out, err = answers[name]
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("name", RIGHT)
def test_lines_fit_a_terminal_and_do_not_command_it(answers, name):
    lines = output(answers, name).split("\n")
    if name != "ascii":  # what is escaped for a poor terminal takes more room
        assert max(map(width, lines)) <= 100
    bad = {c for line in lines for c in line if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
    assert not bad


def test_storyworld(answers):
    out = output(answers, "storyworld")
    for part in ("An epoch is ", "char vocabulary of ", "floor", "0 ⟂  1 ⍰  2 ⏎  3 ␣"):
        assert part in out
    sizes = [line.split() for line in out.splitlines() if line.startswith(("train ", "valid "))]
    assert {row[0] for row in sizes[:2]} == {"train", "valid"}
    assert float(sizes[0][3]) == pytest.approx(1, abs=0.01)  # bytes a token
    assert [line for line in out.splitlines() if line.startswith("batch ")][2].startswith(
        "batch 2:"
    )
    assert "valid in train" in out and "0.0%" in out


def test_what_is_read_stands_over_what_has_to_be_said(answers):
    lines = output(answers, "storyworld").splitlines()
    reads = [line.removeprefix("  read  ") for line in lines if line.startswith("  read")]
    nexts = [line.removeprefix("  next  ") for line in lines if line.startswith("  next")]
    assert len(reads) == len(nexts) == 6
    assert all(read[1:] in said for read, said in zip(reads, nexts, strict=True))


def test_masks_documents_and_padding_are_marked(answers):
    masked = output(answers, "masked")
    reads = [line for line in masked.splitlines() if line.startswith("  read")]
    asked = [line for line in masked.splitlines() if line.startswith("  hidden")]
    above, below = ("".join(line.ljust(100) for line in lines) for lines in (reads, asked))
    both = zip(above, below, strict=True)
    assert [said for read, said in both if read == "▢" and said == "·"] == []
    assert "▢" in "".join(reads)
    packed = output(answers, "packed")
    assert "  part  1" in packed and "░ x" in packed and "⟂" in packed


def test_control_characters_are_escaped(answers):
    out = output(answers, "evil")
    # Signs that stand above each other are as wide as the widest, so there may be room between.
    for sign in ("\\x1b", "\\x07", "\\u202e", "\\u200b", "\\xa0", "\\x85", "⇥", "日"):
        assert sign in out


def test_leaks_are_found(answers):
    rows = {line[:16].strip(): line for line in output(answers, "leak").splitlines()}
    assert "2 of 7" in rows["valid in train"] and "28.6%" in rows["valid in train"]


def test_labels_are_counted_in_each_split(answers):
    lines = [line.split() for line in output(answers, "sentiment").splitlines()]
    start = next(i for i, line in enumerate(lines) if line[:2] == ["label", "train"]) + 1
    counts = label_counts(lines[start : start + 2])
    assert counts["False"] + counts["True"] == 60
    assert counts["False"] == 20
    out = output(answers, "ner")
    assert "B-bird" in out and "  tag " in out


def label_counts(table):
    """label -> its count in all splits."""
    return {line[0]: sum(int(cell) for cell in line[1::2]) for line in table}


def test_pairs_are_shown_whole(answers):
    out = output(answers, "translation")
    assert "  pair    hen " in out and " ⇒ Huhn " in out and "  source " in out


def test_tfds_and_probes_are_sources_like_others(answers):
    assert "tinystories/2.0.0: train has 40 document(s)" in output(answers, "tfds")
    assert "recall" in output(answers, "probe")


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_requests_are_refused_in_one_line(answers, name):
    code, out, err = answers[name]
    assert (code, out) == (2, "")
    assert err.startswith("inspect_data: ") and WRONG[name] in err
    assert err.count("\n") == 1
