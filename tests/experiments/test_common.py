"""Command lines from outside: what is asked for is set, and what is wrong ends in a line."""

import json

import pytest

CONFIG = """
from txf.config import default_config

def get_config():
    config = default_config()
    config.data.bytes = 3_000
    config.data.context_length = 11
    config.model.depth = 1
    config.model.width = 8
    config.model.num_heads = 2
    config.training.steps = 0
    config.training.batch_size = 6
    return config
"""

# Each: the words after `train --workdir=... --config=...`, and what the config must then say.
ASKED = {
    "equals": (["--config.model.depth=2"], {"model.depth": 2}),
    "space": (["--config.model.depth", "2"], {"model.depth": 2}),
    "false with equals": (["--config.model.residual=False"], {"model.residual": False}),
    "false with a space": (["--config.model.residual", "False"], {"model.residual": False}),
    "false small": (["--config.model.residual=false"], {"model.residual": False}),
    "no": (["--noconfig.model.residual"], {"model.residual": False}),
    "no, then a flag": (
        ["--noconfig.model.bias", "--config.seed=3"],
        {"model.bias": False, "seed": 3},
    ),
    "true alone": (["--config.model.qk_norm"], {"model.qk_norm": True}),
    "a whole number for a number": (
        ["--config.optimizer.clip_norm=2"],
        {"optimizer.clip_norm": 2.0},
    ),
    "exponent": (["--config.optimizer.learning_rate=1e-2"], {"optimizer.learning_rate": 0.01}),
    "negative after a space": (
        ["--config.data.masked_fraction", "-0.5"],
        {"data.masked_fraction": -0.5},
    ),
    "placeholder": (["--config.model.key_dim=3"], {"model.key_dim": 3}),
    "None": (["--config.model.key_dim=3", "--config.model.key_dim=None"], {"model.key_dim": None}),
    "placeholder truth": (["--config.model.causal", "False"], {"model.causal": False}),
    "text with equals": (["--config.data.source_language=a=b"], {"data.source_language": "a=b"}),
    "the last one counts": (["--config.seed=1", "--config.seed=2"], {"seed": 2}),
    "one dash": (["-config.seed=4"], {"seed": 4}),
    "flagfile": (["--flagfile={flags}"], {"model.residual": False, "seed": 9}),
}
FLAGS = "# a comment\n--config.model.residual=False\n--config.seed=9\n"

# Each: the words after `train`, and words that the one line on stderr must have.
REFUSED = {
    "key": (["--config.model.dept=2"], ["model.dept", "did you mean model.depth?"]),
    "flag": (["--wrokdir=x"], ["wrokdir"]),
    "group": (["--config.model=2"], ["model"]),
    "leftover": (["train"], ["'train'"]),
    "leftover after an override": (["--config.seed=1", "2"], ["'2'"]),
    "not whole": (["--config.model.depth=2.5"], ["model.depth='2.5'", "a whole number"]),
    "not a number": (
        ["--config.optimizer.learning_rate=fast"],
        ["learning_rate='fast'", "a number"],
    ),
    "nan": (["--config.optimizer.learning_rate=nan"], ["learning_rate=nan"]),
    "not a truth": (["--config.model.residual=2"], ["model.residual='2'", "True or False"]),
    "no value": (["--config.model.depth"], ["model.depth=''", "a whole number"]),
    "None where it is none": (["--config.model.depth=None"], ["model.depth=None"]),
    "no with a value": (["--noconfig.model.depth"], ["model.depth"]),
    "several": (
        ["--config.model.depth=x", "--config.modle.width=3", "--config.seed=y"],
        ["model.depth='x'", "modle.width", "seed='y'", "; "],
    ),
    "option": (["--config.model.norm=batchnorm"], ["model.norm='batchnorm'", "layernorm"]),
    "heads": (["--config.model.num_heads=3"], ["model.num_heads=3", "model.width=8"]),
    "warm-up": (
        ["--config.training.steps=3", "--config.optimizer.warmup_steps=3"],
        ["warmup_steps=3"],
    ),
    "flagfile": (["--flagfile={tmp}/none"], ["none"]),
    "data": (["--config.data.source=text", "--config.data.path={tmp}/none"], ["none"]),
    "no config": (["--config={tmp}/none.py"], ["none.py is not a file"]),
    "syntax": (["--config={tmp}/syntax.py"], ["syntax.py", "SyntaxError", "line 2"]),
    "no get_config": (["--config={tmp}/empty.py"], ["defines no get_config()"]),
    "get_config fails": (["--config={tmp}/fails.py"], ["fails.py", "ZeroDivisionError"]),
    "get_config misspells": (["--config={tmp}/misspells.py"], ["misspells.py", "dept"]),
    "get_config gives nothing": (["--config={tmp}/nothing.py"], ["returns no ConfigDict"]),
    "get_config wants an argument": (["--config={tmp}/argument.py"], ["argument.py", "TypeError"]),
    "below a file": (["--workdir={tmp}/empty.py/run"], ["cannot write to --workdir="]),
}
FILES = {
    "good.py": CONFIG,
    "flags": FLAGS,
    "syntax.py": "\ndef get_config(:\n",
    "empty.py": "",
    "fails.py": "def get_config():\n    return 1 / 0\n",
    "misspells.py": CONFIG.replace("model.depth", "model.dept"),
    "nothing.py": "def get_config():\n    pass\n",
    "argument.py": "def get_config(size):\n    pass\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def outcomes(folder, run_python):
    """What every command line of this file came to, by kind and name."""
    commands = {}
    for kind, module, cases in (("asked", "config", ASKED), ("refused", "train", REFUSED)):
        for name, (words, _) in cases.items():
            words = [word.format(tmp=folder, flags=folder / "flags") for word in words]
            workdir = folder / kind / name.replace(" ", "_")
            given = [f"--workdir={workdir}", f"--config={folder / 'good.py'}"]
            commands[kind, name] = [module, *given, *words]
    for module in ("train", "sweep", "evaluate", "reproduce"):
        commands["help", module] = [module, "--help"]
        commands["no workdir", module] = [module]
    commands["evaluate", "no run"] = ["evaluate", f"--workdir={folder}/none"]
    commands["evaluate", "override"] = ["evaluate", f"--workdir={folder}", "--config.seed=1"]
    commands["evaluate", "step"] = ["evaluate", f"--workdir={folder}/none", "--step=x"]
    commands["reproduce", "no sweep"] = ["reproduce", f"--workdir={folder}/none"]
    commands["reproduce", "override"] = ["reproduce", f"--workdir={folder}", "--config.seed=1"]
    done = run_python(
        ["-m", "tests.experiments.commands"], input=json.dumps(list(commands.values()))
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(commands, json.loads(done.stdout), strict=True))


def assert_refused(outcome, words=()):
    code, _, err = outcome
    assert code == 2, err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert [word for word in words if word not in err] == [], err


@pytest.mark.parametrize("name", ASKED)
def test_overrides_set_what_they_ask_for(outcomes, name):
    code, out, err = outcomes["asked", name]
    assert (code, err) == (0, ""), err
    config = json.loads(out)
    for key, value in ASKED[name][1].items():
        found = config
        for part in key.split("."):
            found = found[part]
        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_requests_end_in_one_line_and_leave_nothing(outcomes, folder, name):
    assert_refused(outcomes["refused", name], REFUSED[name][1])
    assert not (folder / "refused" / name.replace(" ", "_")).exists()


@pytest.mark.parametrize("module", ["train", "sweep", "evaluate", "reproduce"])
def test_help_says_what_a_command_does(outcomes, module):
    code, out, err = outcomes["help", module]
    assert (code, err) == (0, "")
    assert f"python -m experiments.{module}" in out
    assert "--workdir" in out


@pytest.mark.parametrize("module", ["train", "evaluate", "reproduce"])
def test_a_missing_workdir_is_asked_for(outcomes, module):
    assert_refused(outcomes["no workdir", module], ["workdir"])


@pytest.mark.parametrize(
    ("module", "name", "word"),
    [
        ("evaluate", "no run", "there is no run at"),
        ("evaluate", "override", "--config.seed=1"),
        ("evaluate", "step", "step"),
        ("reproduce", "no sweep", "none"),
        ("reproduce", "override", "--config.seed=1"),
    ],
)
def test_wrong_requests_of_other_commands(outcomes, module, name, word):
    assert_refused(outcomes[module, name], [word])
