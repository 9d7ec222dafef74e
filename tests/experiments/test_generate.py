"""The generate command: what it prints, and how it refuses."""

import json

import pytest

# One process for a run and many command lines: (arguments, whether stdout is a terminal) each.
DRIVER = """
import contextlib, io, json, sys
from absl.testing import flagsaver
from experiments import common, generate
from txf.config import default_config
from txf.training.loop import train

class Terminal(io.StringIO):
    def isatty(self):
        return True

config = default_config()
config.data.bytes = 20_000
config.data.context_length = 16
config.model.depth, config.model.width, config.model.num_heads = 1, 16, 2
config.training.steps = 2
config.training.batch_size = config.training.eval_batch_size = 4
train(config, sys.argv[2])

answers = []
for words, terminal in json.loads(sys.argv[1]):
    sys.argv = ["generate.py", *words]
    out, err = Terminal() if terminal else io.StringIO(), io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            common.run(generate.main)
        except SystemExit as exit:
            answers.append([exit.code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""

PROMPT = "Once upon"
COMMANDS = {
    "plain": ["--max_new_tokens=40", "--seed=3"],
    "again": ["--max_new_tokens=40", "--seed=3"],
    "terminal": ["--max_new_tokens=40", "--seed=3"],
    "greedy": ["--max_new_tokens=5", "--temperature=0", "--step=0"],
    "samples": ["--max_new_tokens=9", "--num_samples=3", "--top_k=5", "--top_p=0.9"],
    "long": ["--max_new_tokens=3", "--temperature=0", f"--prompt={PROMPT * 3}"],
    "empty": ["--max_new_tokens=6", "--prompt="],
    "character": [f"--prompt={PROMPT} €→"],
    "temperature": ["--temperature=-1"],
    "top_k": ["--top_k=0"],
    "top_p": ["--top_p=1.5"],
    "max_new_tokens": ["--max_new_tokens=0"],
    "num_samples": ["--num_samples=0"],
    "seed": ["--seed=-1"],
    "step": ["--step=3"],
    "unknown_flag": ["--top=3"],
    "not_a_number": ["--top_k=many"],
    "leftover": ["word"],
    "override": ["--config.model.depth=2"],
    "missing": ["--workdir=nowhere/to/be/found"],
}
WRONG = {
    "character": "'€', '→'",
    "temperature": "temperature=-1",
    "top_k": "top_k=0",
    "top_p": "top_p=1.5",
    "max_new_tokens": "max_new_tokens=0",
    "num_samples": "num_samples=0",
    "seed": "seed=-1",
    "step": "step 3",
    "unknown_flag": "top",
    "not_a_number": "top_k",
    "leftover": "'word'",
    "override": "--config.model.depth=2",
    "missing": "no run",
}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def answers(workdir, run_python):
    lines = [
        ([f"--workdir={workdir}", f"--prompt={PROMPT}", *words], name == "terminal")
        for name, words in COMMANDS.items()
    ]
    done = run_python(["-c", DRIVER, json.dumps(lines), workdir])
    assert done.returncode == 0, done.stderr
    return dict(zip(COMMANDS, json.loads(done.stdout), strict=True))


def test_the_prompt_goes_on(answers):
    code, out, err = answers["plain"]
    assert (code, err) == (0, "")
    assert out.startswith(PROMPT)
    assert len(PROMPT) < len(out.removesuffix("\n")) <= len(PROMPT) + 40
    assert answers["again"] == answers["plain"]
    assert answers["terminal"] == answers["plain"]


def test_samples_differ_and_are_told_apart(answers):
    code, out, _ = answers["samples"]
    assert code == 0
    parts = out.split("--- ")[1:]
    assert [part.splitlines()[0] for part in parts] == [f"{n} of 3 ---" for n in (1, 2, 3)]
    texts = {part.split("\n", 1)[1] for part in parts}
    assert len(texts) == 3 and all(text.startswith(PROMPT) for text in texts)


def test_a_long_prompt_is_printed_whole_and_read_in_part(answers):
    code, out, err = answers["long"]
    assert code == 0
    assert out.startswith(PROMPT * 3)
    assert err.count("\n") == 1 and "27 tokens" in err and "last 16" in err


def test_an_empty_prompt_begins_a_text(answers):
    code, out, _ = answers["empty"]
    assert code == 0 and out.endswith("\n")


def test_the_step_chooses_the_checkpoint(answers, workdir):
    code, out, err = answers["greedy"]
    if (workdir / "checkpoints" / "0").exists():
        assert code == 0 and out.startswith(PROMPT)
    else:
        assert code == 2 and "step 0" in err


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_line(answers, name):
    code, out, err = answers[name]
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert WRONG[name] in err


DECODE = """
import json, sys
from experiments.generate import Printer

class Pieces:
    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace")

shown = []
printer = Printer(Pieces(), list("é".encode()))
printer._show = lambda text, show=printer._show: shown.append(text)
for byte in "a€b".encode():
    printer.add(0, byte)
print(json.dumps(shown))
"""


def test_a_character_is_shown_when_it_is_whole(run_python):
    done = run_python(["-c", DECODE])
    assert json.loads(done.stdout) == ["éa", "éa", "éa", "éa€", "éa€b"], done.stderr


def test_the_command_itself_exits_with_its_code(run_python, tmp_path):
    done = run_python(["-m", "experiments.generate", f"--workdir={tmp_path}", "--prompt=x"])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
