import pytest

from txf.config import default_config
from txf.errors import UserError
from txf.sweeps.estimate import run_cost
from txf.sweeps.grid import apply_overrides, expand
from txf.sweeps.matching import match, matched

BASE = default_config()
BASE.data.bytes = 20_000
BASE.data.tokenizer = "byte"


@pytest.mark.parametrize(("by", "tolerance"), [("model.width", 0.15), ("model.mlp_ratio", 0.01)])
@pytest.mark.parametrize("quantity", ["parameters", "flops"])
def test_the_arm_found_is_as_large_as_the_reference(quantity, by, tolerance):
    other = apply_overrides(BASE, {"model.depth": 3, "model.positions": "rope"})
    found = match(other, BASE, quantity=quantity, by=by, tolerance=tolerance)
    cost, wish = run_cost(apply_overrides(other, {by: found.value})), run_cost(BASE)
    name = {"parameters": "parameters", "flops": "flops_per_token"}[quantity]
    assert found.ratio == pytest.approx(getattr(cost, name) / getattr(wish, name))
    assert abs(found.ratio - 1) < tolerance


def test_no_neighbour_is_nearer():
    other = apply_overrides(BASE, {"model.depth": 5})
    found = match(other, BASE, tolerance=0.2)
    wish = run_cost(BASE).parameters
    for width in (found.value - 4, found.value + 4):
        near = run_cost(apply_overrides(other, {"model.width": width})).parameters
        assert abs(near / wish - 1) >= abs(found.ratio - 1)


def test_a_model_matches_itself():
    for by in ("model.width", "model.mlp_ratio"):
        found = match(BASE, BASE, by=by)
        assert (found.value, found.ratio) == (BASE.model[by.split(".")[1]], 1.0)


def test_widths_are_divisible_by_the_heads():
    other = apply_overrides(BASE, {"model.num_heads": 7, "model.width": 7})
    assert match(other, BASE, tolerance=0.2).value % 7 == 0


@pytest.mark.parametrize("family", ["rnn", "lstm", "window_mlp"])
def test_other_families_match_too(family):
    other = apply_overrides(BASE, {"model.family": family, "model.depth": 1})
    assert abs(match(other, BASE).ratio - 1) < 0.05


def test_an_axis_carries_its_matched_widths():
    sweep = matched(BASE, {"model.depth": [1, 2, 4]}, tolerance=0.1)
    widths = [point["model.width"] for point in sweep]
    assert widths[0] > widths[1] == BASE.model.width > widths[2]
    assert len(expand(BASE, sweep)) == 3


def test_what_cannot_be_matched_is_refused_in_words():
    large = apply_overrides(BASE, {"model.depth": 40})
    with pytest.raises(
        UserError, match=r"no model.mlp_ratio gives within 5.0%.*match by model.width"
    ):
        match(large, BASE, by="model.mlp_ratio")
    with pytest.raises(UserError, match=r"model.depth=40: no model.mlp_ratio"):
        matched(BASE, {"model.depth": [2, 40]}, by="model.mlp_ratio")
    with pytest.raises(UserError, match="choose parameters or flops"):
        match(BASE, BASE, quantity="size")
    with pytest.raises(UserError, match=r"choose model.width or model.mlp_ratio"):
        match(BASE, BASE, by="model.depth")
