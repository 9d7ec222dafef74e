"""The config: complete, locked, checked as a whole, the same on disk, and wired to something."""

import ast
import json
from pathlib import Path

import pytest

from txf.config import (
    CHOICES,
    HARMLESS,
    RANGES,
    ConfigError,
    default_config,
    diff,
    fingerprint,
    flatten,
    from_json,
    key_type,
    set_key,
    to_json,
    validate,
)
from txf.errors import UserError

KEYS = flatten(default_config())
TXF = Path(__file__).resolve().parent.parent / "txf"


def changed(**overrides):
    config = default_config()
    for key, value in overrides.items():
        set_key(config, key.replace("__", "."), value)
    return config


def problems(config):
    with pytest.raises(ConfigError) as caught:
        validate(config)
    assert isinstance(caught.value, UserError)
    assert str(caught.value) == "; ".join(caught.value.problems)
    assert "\n" not in str(caught.value)
    return list(caught.value.problems)


def other_value(key):
    """Another value of the key's type."""
    value = KEYS[key]
    return {
        bool: lambda: not value,
        int: lambda: (value or 0) + 1,
        float: lambda: (value or 0.0) + 0.25,
        str: lambda: f"{value}x",
    }[key_type(key)]()


def test_the_default_is_valid_complete_and_locked():
    config = default_config()
    validate(config)
    assert config.is_locked
    assert all(config[group].is_locked for group in config if group not in ("seed", "task"))
    with pytest.raises(AttributeError):
        config.model.dept = 3
    with pytest.raises(AttributeError):
        config.modle = 3


def test_two_defaults_share_nothing():
    config = default_config()
    config.model.depth = 9
    assert default_config().model.depth == KEYS["model.depth"]


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("model.depth", True, "a whole number"),
        ("model.depth", 2.0, "a whole number"),
        ("model.depth", "2", "a whole number"),
        ("model.depth", None, "a whole number"),
        ("model.residual", 1, "True or False"),
        ("model.residual", "True", "True or False"),
        ("model.causal", 0, "True or False or None"),
        ("optimizer.learning_rate", "0.1", "a number"),
        ("optimizer.learning_rate", True, "a number"),
        ("model.norm", 3, "a text"),
        ("data.path", 3, "a text or None"),
        ("model.key_dim", 2.5, "a whole number or None"),
        ("model.key_dim", False, "a whole number or None"),
    ],
)
def test_values_of_another_type_are_refused(key, value, wanted):
    with pytest.raises(ConfigError) as caught:
        set_key(default_config(), key, value)
    assert str(caught.value) == f"{key}={value!r} is not allowed; it takes {wanted}"


def test_values_of_another_type_do_not_slip_in_through_a_config_file():
    config = default_config()
    with config.ignore_type():
        config.model.depth = "2"
        config.model.residual = 1
    assert problems(config) == [
        "model.depth='2' is not allowed; it takes a whole number",
        "model.residual=1 is not allowed; it takes True or False",
    ]


def test_a_whole_number_serves_where_a_number_is_wanted():
    config = changed(optimizer__learning_rate=1)
    assert type(config.optimizer.learning_rate) is float
    assert type(changed(model__key_dim=3).model.key_dim) is int
    assert changed(model__key_dim=None).model.key_dim is None


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("model.dept", "did you mean model.depth?"),
        ("model.nom_placement", "did you mean model.norm_placement?"),
        ("learning_rate", "did you mean optimizer.learning_rate?"),
        ("training.learning_rate", "did you mean optimizer.learning_rate?"),
        ("xyzzy", "the groups are"),
    ],
)
def test_a_misspelt_key_is_told_its_neighbour(key, meant):
    with pytest.raises(ConfigError, match="there is no config key") as caught:
        set_key(default_config(), key, 1)
    assert key in str(caught.value)
    assert meant in str(caught.value)


def test_a_group_is_no_key():
    with pytest.raises(ConfigError, match=r"checkpoint is a group; set one of checkpoint\.keep"):
        set_key(default_config(), "checkpoint", 1)


def test_all_problems_are_told_at_once_in_the_config_s_order():
    config = changed(
        model__num_heads=5,
        optimizer__learning_rate=-1.0,
        training__accumulate=5,
        data__documents="pages",
        checkpoint__keep=0,
    )
    found = problems(config)
    keys = [line.split("=")[0] for line in found]
    assert keys == sorted(keys)
    assert len(keys) == 5
    for words in (
        "data.documents='pages' is unknown; choose auto, endoftext, blank_line or one",
        "model.num_heads=5 does not divide model.width=64",
        "optimizer.learning_rate=-1.0 is out of range; it takes 0 or more",
        "training.accumulate=5 does not divide training.batch_size=32; try 4",
        "checkpoint.keep=0 is out of range; it takes 1 or more",
    ):
        assert any(line.startswith(words) for line in found), words


def test_missing_and_unknown_keys_are_problems():
    config = default_config()
    with config.unlocked():
        del config.model.depth
        config.model.deptj = 2
    found = problems(config)
    assert "config key model.depth is missing" in found
    assert "there is no config key model.deptj; did you mean model.depth?" in found


@pytest.mark.parametrize("key", sorted(CHOICES))
def test_an_unknown_word_is_told_the_known_ones(key):
    config = default_config()
    set_key(config, key, "nonsense")
    line = next(line for line in problems(config) if line.startswith(f"{key}="))
    assert "'nonsense'" in line
    assert all(choice in line for choice in CHOICES[key])


@pytest.mark.parametrize("key", sorted(RANGES))
def test_numbers_out_of_range_are_told_the_range(key):
    outside = [RANGES[key].low - 1, RANGES[key].high + 1]
    if key_type(key) is float:
        outside += [float("nan"), float("inf"), float("-inf")]
    for value in outside:
        if key_type(key) is int and abs(value) == float("inf"):
            continue
        config = default_config()
        set_key(config, key, key_type(key)(value))
        line = next((line for line in problems(config) if line.startswith(f"{key}=")), None)
        assert line is not None, value
        assert str(RANGES[key]) in line


NUMBERS = {key for key in KEYS if key_type(key) in (int, float)}


@pytest.mark.parametrize("key", sorted(NUMBERS - set(RANGES)))
def test_sizes_of_a_model_are_one_or_more(key):
    for value in (0, -1):
        config = default_config()
        set_key(config, key, value)
        assert any(line.startswith(f"{key}={value}") for line in problems(config))


def test_every_range_is_of_a_number():
    assert set(RANGES) <= NUMBERS


@pytest.mark.parametrize("key", ["model.norm", "model.positions", "model.similarity"])
def test_an_unknown_word_of_the_model_is_refused_too(key):
    config = default_config()
    set_key(config, key, "nonsense")
    (line,) = problems(config)
    assert line.startswith(f"{key}='nonsense'")


def test_rules_of_the_data_are_asked():
    (line,) = problems(changed(data__stride=100))
    assert line.startswith("data.stride=100")
    (line,) = problems(changed(data__source="text"))
    assert line.startswith("data.path=None")
    (line, *_) = problems(changed(data__source="nonsense", data__path="x"))
    assert line.startswith("data.source='nonsense'")


def test_warm_up_must_end_before_training_does():
    for steps in (5, 4):
        (line,) = problems(changed(training__steps=steps, optimizer__warmup_steps=5))
        assert line.startswith(f"optimizer.warmup_steps=5 is not less than training.steps={steps}")
    validate(changed(training__steps=6, optimizer__warmup_steps=5))
    validate(changed(training__steps=0))


@pytest.mark.parametrize("causal", [None, True, False])
def test_an_encoder_predicts_what_it_sees_only_if_told_to(causal):
    config = default_config()
    config.model.structure = "encoder"
    config.model.causal = causal
    if causal is None:
        with pytest.raises(ConfigError, match="sees the very tokens"):
            validate(config)
    else:
        validate(config)


def test_json_gives_an_equal_config_back():
    config = changed(
        model__key_dim=3, data__path="a/ü.txt", model__causal=False, optimizer__learning_rate=0.1
    )
    for one in (default_config(), config):
        again = from_json(to_json(one))
        assert flatten(again) == flatten(one)
        assert again.is_locked
        assert to_json(again) == to_json(one)
        assert fingerprint(again) == fingerprint(one)
        again.model.num_kv_heads = 2  # a placeholder stays one
        with pytest.raises(TypeError):
            again.data.path = 3


def test_json_written_before_a_key_existed_gets_its_default():
    written = json.loads(to_json(changed(model__width=128)))
    del written["model"]["scan_layers"], written["evaluation"]
    again = from_json(json.dumps(written))
    assert diff(again, default_config()) == {"model.width": (64, 128)}


def test_json_with_unknown_keys_or_wrong_types_is_refused_whole():
    written = json.loads(to_json(default_config()))
    written["model"]["depht"] = 3
    written["seed"] = "zero"
    with pytest.raises(ConfigError) as caught:
        from_json(json.dumps(written))
    assert len(caught.value.problems) == 2


def test_diff_names_what_differs():
    base = default_config()
    assert diff(base, base) == {}
    config = changed(model__depth=5, data__stride=3)
    assert diff(config, base) == {"model.depth": (2, 5), "data.stride": (None, 3)}


@pytest.mark.parametrize("key", KEYS)
def test_the_fingerprint_is_blind_to_harmless_keys_alone(key):
    config = default_config()
    set_key(config, key, other_value(key))
    same = fingerprint(config) == fingerprint(default_config())
    assert same == (key in HARMLESS)


def test_the_fingerprint_is_the_same_in_every_process_and_any_order_of_keys(run_python):
    code = "from txf.config import *; print(fingerprint(default_config()))"
    done = run_python(["-c", code], env={"PYTHONHASHSEED": "7"})
    assert done.stdout.strip() == fingerprint(default_config())
    backwards = default_config()
    with backwards.unlocked():
        backwards.model = type(backwards)(dict(reversed(backwards.model.items())))
    assert fingerprint(backwards) == fingerprint(default_config())


def test_importing_the_config_is_light(run_python):
    code = "import sys, txf.config; print({'jax', 'flax', 'optax', 'orbax'} & set(sys.modules))"
    assert run_python(["-c", code]).stdout.strip() == "set()"


def reads():
    """What txf reads of configs: (name of the object, name of the attribute), and other names."""
    pairs, fields = set(), set()
    aliases = {"wanted": "evaluation", "spec": "model"}
    for path in TXF.rglob("*.py"):
        if path.name == "config.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                base = node.value
                name = getattr(base, "attr", getattr(base, "id", None))
                pairs.add((aliases.get(name, name), node.attr))
            elif isinstance(node, ast.AnnAssign) and path.name == "optimizers.py":
                fields.add(node.target.id)  # read by name in hyper_from_config
    return pairs, fields


def test_no_key_is_wired_to_nothing():
    pairs, fields = reads()
    unread = []
    for key in KEYS:
        *group, leaf = key.split(".")
        names = {*group, "config", f"config_{''.join(group)}"}
        direct = any((name, leaf) in pairs for name in names)
        if group == ["data", "probe"]:  # read by name: tests/data/test_probes.py tries each
            continue
        if not direct and not (group == ["optimizer"] and leaf in fields):
            unread.append(key)
    assert not unread
