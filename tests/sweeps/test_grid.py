import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txf.config import default_config
from txf.errors import UserError
from txf.sweeps.grid import (
    LONGEST_NAME,
    Sweep,
    apply_overrides,
    chain,
    expand,
    format_value,
    product,
    short_keys,
    tune,
    zipped,
)

BASE = default_config()
DEPTHS = {"model.depth": [1, 2, 3]}
SEEDS = {"seed": range(2)}


def names(sweep):
    return [member.name for member in expand(BASE, sweep)]


# How axes combine ----------------------------------------------------------------------------


def test_product_is_every_combination_the_last_axis_fastest():
    points = list(product(DEPTHS, {"model.width": [8, 16], "seed": range(2)}))
    assert len(points) == 3 * 2 * 2
    assert len({tuple(point.items()) for point in points}) == len(points)
    assert points[:3] == [
        {"model.depth": 1, "model.width": 8, "seed": 0},
        {"model.depth": 1, "model.width": 8, "seed": 1},
        {"model.depth": 1, "model.width": 16, "seed": 0},
    ]


def test_zipped_goes_side_by_side():
    side_by_side = [
        {"model.depth": 1, "model.width": 32},
        {"model.depth": 2, "model.width": 16},
        {"model.depth": 3, "model.width": 8},
    ]
    widths = {"model.width": [32, 16, 8]}
    assert list(zipped({**DEPTHS, **widths})) == side_by_side
    assert list(zipped(product(DEPTHS), widths)) == side_by_side


def test_chain_is_one_after_the_other_and_parts_nest():
    sweep = product(chain(DEPTHS, zipped({"model.width": [8, 16]})), SEEDS)
    assert len(sweep) == (3 + 2) * 2
    assert next(iter(sweep)) == {"model.depth": 1, "seed": 0}
    assert list(sweep)[-1] == {"model.width": 16, "seed": 1}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True), min_size=3, max_size=3
    )
)
def test_product_is_associative(axes):
    a, b, c = (
        {key: axis} for key, axis in zip(["model.depth", "model.width", "seed"], axes, strict=True)
    )
    assert product(product(a, b), c) == product(a, product(b, c)) == product(a, b, c)


def test_a_sweep_is_a_plain_immutable_value():
    sweep = product(DEPTHS, SEEDS)
    assert hash(sweep) == hash(product(DEPTHS, SEEDS))
    with pytest.raises(AttributeError):
        sweep.tuned = ("seed",)
    next(iter(sweep))["model.depth"] = 99
    assert sweep == product(DEPTHS, SEEDS)


def test_numpy_numbers_and_generators_are_axes_like_lists():
    rates = [float(rate) for rate in np.logspace(-3, -2, 3)]
    assert tune("optimizer.learning_rate", np.logspace(-3, -2, 3)) == tune(
        "optimizer.learning_rate", rates
    )
    assert product({"seed": np.arange(3)}) == product({"seed": (n for n in range(3))})
    assert all(type(point["seed"]) is int for point in product({"seed": np.arange(3)}))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: product({"seed": []}), "seed has no values"),
        (lambda: product({}), "empty dict"),
        (lambda: product(), "nothing to combine"),
        (lambda: chain(), "nothing to combine"),
        (lambda: product({"seed": [1, 1]}), "lists 1 twice"),
        (lambda: product({"model.norm_placement": "pre"}), r"try \['pre'\]"),
        (lambda: product({"model.depth": 3}), r"try \[3\]"),
        (lambda: product(DEPTHS, {"model.depth": [4]}), "model.depth is set by more than one"),
        (
            lambda: zipped({"model.depth": [1], "model.width": [8, 16]}),
            "depth has 1, .*width has 2",
        ),
        (lambda: product({"optimizer.learning_rate": [float("nan")]}), "finite"),
        (lambda: product({"model.depth": [{"a": 1}]}), "which no config key takes"),
        (lambda: tune("seed", [0, 1]), "cannot be tuned"),
        (lambda: chain(tune("model.width", [8]), {"model.width": [16]}), "tune it everywhere"),
    ],
)
def test_mistakes_are_refused_in_words(make, says):
    with pytest.raises(UserError, match=says):
        make()


# What becomes of them ------------------------------------------------------------------------


def test_names_say_what_varies():
    sweep = product({"model.depth": [4], "model.norm_placement": ["pre", "post"]}, SEEDS)
    assert names(sweep) == [
        "depth=4,norm_placement=pre,seed=0",
        "depth=4,norm_placement=pre,seed=1",
        "depth=4,norm_placement=post,seed=0",
        "depth=4,norm_placement=post,seed=1",
    ]


def test_an_arm_is_all_seeds_and_all_tuned_values():
    sweep = product(SEEDS, tune("optimizer.learning_rate", [1e-3, 4e-3]), DEPTHS)
    members = expand(BASE, sweep)
    assert sweep.tuned == ("optimizer.learning_rate",)
    assert {member.arm for member in members} == {"depth=1", "depth=2", "depth=3"}
    assert (
        members[0].name == "depth=1,learning_rate=0.001,seed=0"
    )  # the seed last, whatever its place
    assert all(member.name.startswith(member.arm + ",") for member in members)
    assert {m.arm for m in expand(BASE, product(SEEDS))} == {"base"}


def test_members_that_come_to_the_same_are_one():
    one_at_a_time = chain(DEPTHS, {"model.num_heads": [1, 2, BASE.model.num_heads]})
    members = expand(BASE, product(one_at_a_time, SEEDS))
    assert len(members) == (3 + 3 - 1) * 2
    assert len({member.fingerprint for member in members}) == len(members)
    assert len(expand(BASE, chain({"model.mlp_ratio": [2]}, {"model.mlp_ratio": [2.0]}))) == 1


def test_members_of_a_chain_compare_key_by_key():
    members = expand(BASE, chain({"model.depth": [3]}, {"model.num_heads": [1]}))
    assert [dict(member.overrides) for member in members] == [
        {"model.depth": 3, "model.num_heads": BASE.model.num_heads},
        {"model.depth": BASE.model.depth, "model.num_heads": 1},
    ]


def test_a_member_is_a_complete_config_that_anyone_can_run():
    member = expand(BASE, product({"model.depth": [3], "model.mlp_ratio": [2]}))[0]
    assert member.config == apply_overrides(BASE, {"model.depth": 3, "model.mlp_ratio": 2.0})
    assert member.config.is_locked
    assert default_config() == BASE


def test_placeholders_keep_their_types_and_members_do_not_share_them():
    none, eight = expand(BASE, product({"model.key_dim": [None, 8]}))
    assert (none.config.model.key_dim, eight.config.model.key_dim) == (None, 8)
    assert (none.name, eight.name) == ("key_dim=None", "key_dim=8")
    with pytest.raises(UserError, match="key_dim='x' is not allowed"):
        expand(BASE, product({"model.key_dim": ["x"]}))


def test_every_problem_is_listed_with_its_members():
    rates = tune("optimizer.learning_rate", [-1.0, 0.1, 0.2, 0.3])
    with pytest.raises(UserError) as caught:
        expand(BASE, product({"model.norm_placement": ["pre", "prre"]}, rates))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert any(
        "norm_placement=pre,learning_rate=-1" in line and "0 or more" in line for line in lines
    )
    assert any("and 2 more" in line and "'prre' is unknown" in line for line in lines)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model.dept", 1, "did you mean model.depth"),
        ("norm_placment", "pre", "did you mean model.norm_placement"),
        ("model", 1, "model is a group"),
        ("model.depth", "4", "takes a whole number"),
        ("model.depth", True, "takes a whole number"),
        ("model.depth", None, "takes a whole number"),
        ("model.residual", 1, "takes True or False"),
    ],
)
def test_wrong_keys_and_types_are_refused(key, value, says):
    with pytest.raises(UserError, match=says):
        expand(BASE, product({key: [value]}))


# Names are folders ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (1e-3, "0.001"),
        (1e-5, "1e-05"),
        (4.0, "4"),
        (0.1 + 0.2, "0.30000000000000004"),
        (-1, "-1"),
        (True, "True"),
        (None, "None"),
        ((2, 3), "2x3"),
        ((), "empty"),
        ("pre", "pre"),
        ("a b/c:d*e", "a-b-c-d-e"),
        ("../..", "empty"),
        ("école", "cole"),
        ("", "empty"),
    ],
)
def test_values_are_written_safely(value, text):
    assert format_value(value) == text


def test_short_keys_are_unambiguous():
    assert short_keys(["model.depth", "data.seed", "seed", "optimizer.name"]) == {
        "model.depth": "depth",
        "data.seed": "data.seed",
        "seed": "seed",
        "optimizer.name": "optimizer.name",
    }


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=200), min_size=1, max_size=5, unique=True))
def test_names_are_safe_and_unique_on_any_file_system(paths):
    sweep = product({"data.path": paths, "data.text_feature": ["none", "None", None]})
    found = names(sweep)
    assert len({name.casefold() for name in found}) == len(paths) * 3
    for name in found:
        assert re.fullmatch(r"[A-Za-z0-9_.+\-=,]+", name)
        assert len(name) <= LONGEST_NAME + 10
        assert name[-1] not in ". "
    assert names(sweep) == found


def test_an_empty_sweep_value_cannot_be_expanded_by_accident():
    assert len(Sweep(())) == 0
    assert expand(BASE, Sweep(())) == ()
