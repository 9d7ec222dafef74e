import dataclasses
import json
import math

import pytest

from tests.report import synthetic
from txf.errors import UserError
from txf.sweeps.hypotheses import (
    Difference,
    Equivalence,
    Level,
    Trend,
    check_hypotheses,
    evaluate_sweep,
    hypothesis_from_dict,
    write_verdicts,
)
from txf.sweeps.reading import make_record, read_sweep
from txf.sweeps.statistics import Estimate, mean_interval
from txf.sweeps.verdicts import judge, lower_is_better

PLACE, DEPTH, RATE = "model.norm_placement", "model.depth", "optimizer.learning_rate"
KINDS = [
    Difference("d", {PLACE: "pre"}, {PLACE: "post"}, margin=0.1, direction="greater"),
    Equivalence("e", {PLACE: "pre"}, {PLACE: "post"}, margin=0.2),
    Trend("t", DEPTH, where={PLACE: "pre"}, x_scale="log"),
    Level("l", {DEPTH: 1}, direction="near", value=0.5),
]


def sweep_of(tmp_path, losses, outcomes=None, metric="loss", seeds=None):
    """A sweep of arms (placement) with the given test metric a seed."""
    names = list(losses)
    seeds = seeds or {name: range(len(losses[name])) for name in names}
    points = [{PLACE: name, "seed": seed} for name in names for seed in seeds[name]]
    folder = synthetic.write_sweep(tmp_path, points, (), outcomes)
    values = [value for name in names for value in losses[name]]
    for point, value in zip(points, values, strict=True):
        name = synthetic.member(point, ())["name"]
        path = folder / "runs" / name / "result.json"
        if path.exists():
            result = json.loads(path.read_text())
            if result["status"] == "done":
                result["test"] = {metric: value}
            path.write_text(json.dumps(result))
    return read_sweep(folder)


PRE_POST = {"left": {PLACE: "pre"}, "right": {PLACE: "post"}}


@pytest.mark.parametrize("hypothesis", KINDS, ids=lambda h: h.kind)
def test_json_round_trip(hypothesis):
    text = json.dumps(hypothesis.to_dict())
    assert hypothesis_from_dict(json.loads(text)) == hypothesis
    assert hypothesis_from_dict(dataclasses.asdict(hypothesis)) == hypothesis


def test_unknown_words_are_refused_by_name():
    with pytest.raises(UserError, match="known: difference, equivalence, trend, level"):
        hypothesis_from_dict({"kind": "hunch", "name": "x"})
    with pytest.raises(UserError, match="colour"):
        hypothesis_from_dict(KINDS[0].to_dict() | {"colour": "red"})
    with pytest.raises(UserError, match=r"direction='down'.*less, greater"):
        Difference("d", {}, {}, direction="down")
    with pytest.raises(UserError, match="margin"):
        Equivalence("e", {}, {}, margin=-1.0)
    with pytest.raises(UserError, match="x_scale"):
        Trend("t", DEPTH, x_scale="cubic")


@pytest.mark.parametrize(
    ("losses", "margin", "verdict"),
    [
        ({"pre": [1.0, 1.1, 1.2], "post": [1.3, 1.41, 1.52]}, 0.0, "supported"),
        ({"pre": [1.0, 1.1, 1.2], "post": [1.3, 1.41, 1.52]}, 0.5, "refuted"),
        ({"pre": [1.3, 1.41, 1.52], "post": [1.0, 1.1, 1.2]}, 0.0, "refuted"),
        ({"pre": [1.0, 1.1, 1.2], "post": [1.3, 1.0, 1.25]}, 0.0, "undecided"),
        ({"pre": [1.0], "post": [2.0]}, 0.0, "undecided"),
        ({"pre": [1.5, 1.5], "post": [1.5, 1.5]}, 0.0, "refuted"),
    ],
)
def test_difference(tmp_path, losses, margin, verdict):
    sweep = sweep_of(tmp_path, losses)
    less = Difference("claim", **PRE_POST, margin=margin).evaluate(sweep)
    assert less.verdict == verdict
    mirrored = {"left": {PLACE: "post"}, "right": {PLACE: "pre"}}
    greater = Difference("claim", **mirrored, margin=margin, direction="greater").evaluate(sweep)
    assert greater.verdict == verdict
    assert greater.estimate.value == pytest.approx(-less.estimate.value)


def test_only_seeds_both_have_are_paired(tmp_path):
    losses = {"pre": [1.0, 1.1, 5.0], "post": [1.3, 1.41, 9.0]}
    sweep = sweep_of(tmp_path, losses, seeds={"pre": [0, 1, 2], "post": [0, 1, 7]})
    verdict = Difference("claim", **PRE_POST).evaluate(sweep)
    assert verdict.estimate.n == 2
    assert verdict.estimate.value == pytest.approx(-0.305)


def test_equivalence(tmp_path):
    losses = {"pre": [1.0, 1.1, 1.2, 1.05], "post": [1.01, 1.09, 1.2, 1.06]}
    sweep = sweep_of(tmp_path / "a", losses)
    verdict = Equivalence("same", **PRE_POST, margin=0.05).evaluate(sweep)
    assert (verdict.verdict, verdict.confidence) == ("supported", 0.9)
    assert Equivalence("same", **PRE_POST, margin=1e-4).evaluate(sweep).verdict == "undecided"
    derived = Equivalence("same", **PRE_POST, sigmas=2.0).evaluate(sweep)
    noise = [mean_interval(values).deviation for values in losses.values()]
    margin = 2 * math.sqrt(sum(d * d for d in noise) / 2)
    assert derived.verdict == "supported"
    assert any(f"{margin:.4g}" in note for note in derived.notes)
    apart = sweep_of(tmp_path / "b", {"pre": [1.0, 1.1, 1.2], "post": [2.0, 2.11, 2.21]})
    assert Equivalence("same", **PRE_POST, margin=0.1).evaluate(apart).verdict == "refuted"


def test_a_survivors_advantage_decides_nothing(tmp_path):
    losses = {"pre": [1.0, 1.1, 1.2, 1.1], "post": [1.3, 1.4, 1.51, 1.42]}
    survivors = sweep_of(tmp_path / "a", losses, {3: "diverged"})  # a run of pre
    verdict = Difference("claim", **PRE_POST).evaluate(survivors)
    assert verdict.verdict == "undecided"
    assert any("1 diverged" in note for note in verdict.notes)
    losers = sweep_of(tmp_path / "b", losses, {7: "diverged"})  # a run of post
    verdict = Difference("claim", **PRE_POST).evaluate(losers)
    assert (verdict.verdict, verdict.estimate.n) == ("supported", 3)


@pytest.mark.parametrize(
    ("diverged", "verdict"), [([3, 4, 5], "supported"), ([0, 1, 2], "refuted"), ([], "undecided")]
)
def test_where_one_side_always_diverges_the_counts_decide(tmp_path, diverged, verdict):
    outcomes = dict.fromkeys(diverged, "diverged") or dict.fromkeys(range(6), "diverged")
    sweep = sweep_of(tmp_path, {"pre": [1.0] * 3, "post": [1.1] * 3}, outcomes)
    found = Difference("claim", **PRE_POST).evaluate(sweep)
    assert found.verdict == verdict
    assert found.estimate.n == 0
    opposite = Difference("claim", {PLACE: "post"}, {PLACE: "pre"}, direction="greater")
    assert opposite.evaluate(sweep).verdict == verdict


def test_a_diverged_run_is_the_worst_in_a_score_too(tmp_path):
    outcomes = dict.fromkeys([3, 4, 5], "diverged")
    sweep = sweep_of(tmp_path, {"pre": [0.9] * 3, "post": [0.8] * 3}, outcomes, metric="accuracy")
    claim = Difference("claim", **PRE_POST, metric="test.accuracy", direction="greater")
    assert claim.evaluate(sweep).verdict == "supported"
    assert lower_is_better("valid.loss_recall") is True
    assert lower_is_better("test.accuracy_far") is False
    assert lower_is_better("init.spread") is None


def test_selectors_are_matched_on_what_they_leave_open(tmp_path):
    sweep = read_sweep(synthetic.one_at_a_time(tmp_path / "chain"))
    verdict = Difference("claim", **PRE_POST).evaluate(sweep)
    assert verdict.estimate.n == 3
    assert any("depth=2" in note for note in verdict.notes)  # the base, not every depth
    axes = {DEPTH: [1, 2, 4], PLACE: ["pre", "post"], "seed": [0, 1, 2]}
    grid = read_sweep(synthetic.write_sweep(tmp_path / "grid", synthetic.points(axes)))
    whole = Difference("claim", **PRE_POST).evaluate(grid)
    parts = [
        Difference("c", {PLACE: "pre", DEPTH: d}, {PLACE: "post", DEPTH: d}).evaluate(grid)
        for d in (1, 2, 4)
    ]
    mean = sum(part.estimate.value for part in parts) / 3
    assert whole.estimate.n == 3
    assert whole.estimate.value == pytest.approx(mean)


def test_each_arm_is_judged_at_its_own_best_chosen_on_valid(tmp_path):
    axes = {PLACE: ["pre", "post"], RATE: [1e-3, 4e-3], "seed": [0, 1, 2]}
    folder = synthetic.write_sweep(tmp_path, synthetic.points(axes), [RATE])
    losses = {("pre", 1e-3): (1.0, 2.0), ("pre", 4e-3): (1.1, 1.0)}
    losses |= {("post", 1e-3): (1.4, 1.0), ("post", 4e-3): (1.3, 3.0)}
    for point in synthetic.points(axes):
        path = folder / "runs" / synthetic.member(point, [RATE])["name"] / "result.json"
        result = json.loads(path.read_text())
        valid, test = losses[point[PLACE], point[RATE]]
        result |= {"valid": {"loss": valid}, "test": {"loss": test + 0.01 * point["seed"]}}
        path.write_text(json.dumps(result))
    verdict = Difference("claim", **PRE_POST).evaluate(read_sweep(folder))
    assert verdict.estimate.value == pytest.approx(2.0 - 3.0)


def test_valid_stands_in_where_there_is_no_test(tmp_path):
    points = synthetic.points({PLACE: ["pre", "post"], "seed": [0, 1, 2]})
    sweep = read_sweep(synthetic.write_sweep(tmp_path, points, test=False))
    verdict = Difference("claim", **PRE_POST).evaluate(sweep)
    assert verdict.metric == "valid.loss"
    assert any("no run has test.loss" in note for note in verdict.notes)


def test_trend_finds_the_exponent_it_was_made_with(tmp_path):
    points = synthetic.points({DEPTH: [1, 2, 4, 8], "seed": [0, 1, 2]})
    folder = synthetic.write_sweep(tmp_path, points)
    for point in points:
        path = folder / "runs" / synthetic.member(point, ())["name"] / "result.json"
        result = json.loads(path.read_text())
        result["parameters"] = 100 * point[DEPTH] ** 2
        result["test"]["excess"] = (2 + 0.01 * point["seed"]) * point[DEPTH] ** -0.5
        path.write_text(json.dumps(result))
    sweep = read_sweep(folder)
    log = {"metric": "test.excess", "x_scale": "log", "y_scale": "log"}
    near = Trend("exponent", DEPTH, direction="near", value=-0.5, margin=0.05, **log)
    verdict = near.evaluate(sweep)
    assert (verdict.verdict, verdict.estimate.n) == ("supported", 3)
    assert verdict.estimate.value == pytest.approx(-0.5)
    by_size = Trend("exponent", "parameters", direction="near", value=-0.25, margin=0.01, **log)
    assert by_size.evaluate(sweep).verdict == "supported"
    assert Trend("rises", DEPTH, direction="greater", **log).evaluate(sweep).verdict == "refuted"
    assert Trend("steep", DEPTH, margin=0.6, **log).evaluate(sweep).verdict == "refuted"


def test_trend_is_within_strata_of_a_grid_but_not_of_a_zip(tmp_path):
    grid = synthetic.points({DEPTH: [1, 2], PLACE: ["pre", "post"], "seed": [0, 1, 2]})
    sweep = read_sweep(synthetic.write_sweep(tmp_path / "a", grid))
    assert Trend("t", DEPTH).evaluate(sweep).estimate.n == 3
    zipped = [{DEPTH: d, "model.width": 64 // d, "seed": s} for d in (1, 2, 4) for s in range(3)]
    sweep = read_sweep(synthetic.write_sweep(tmp_path / "b", zipped))
    assert Trend("t", DEPTH, x_scale="log").evaluate(sweep).verdict == "supported"


def test_level_and_chance(tmp_path):
    sweep = sweep_of(
        tmp_path, {"pre": [0.49, 0.52, 0.5], "post": [0.96, 0.95, 0.97]}, None, "accuracy"
    )
    high = Level("solves", {PLACE: "post"}, value=0.9)
    assert high.evaluate(sweep).verdict == "supported"
    assert dataclasses.replace(high, where={PLACE: "pre"}).evaluate(sweep).verdict == "refuted"
    chance = Level("chance", {PLACE: "pre"}, direction="near", value=0.5)
    assert chance.evaluate(sweep).verdict == "supported"
    assert dataclasses.replace(chance, where={PLACE: "post"}).evaluate(sweep).verdict == "refuted"


def test_shares_of_diverged_runs_and_sensitivity_go_over_all_settings(tmp_path):
    axes = {PLACE: ["pre", "post"], RATE: [1e-3, 4e-3], "seed": [0, 1, 2]}
    outcomes = dict.fromkeys([9, 10, 11], "diverged")  # post at the larger rate
    folder = synthetic.write_sweep(tmp_path, synthetic.points(axes), [RATE], outcomes)
    sweep = read_sweep(folder)
    post_pre = {"left": {PLACE: "post"}, "right": {PLACE: "pre"}, "direction": "greater"}
    share = Difference("share", **post_pre, metric="diverged", reduce="mean").evaluate(sweep)
    assert share.estimate.value == 0.5
    assert share.verdict == "supported"
    sensitive = Difference("sensitive", **post_pre, reduce="sensitivity").evaluate(sweep)
    assert sensitive.verdict == "supported"
    start = sweep.members[9].curve("valid", "loss")[1][0]
    best = sweep.members[6].value("test.loss")
    pre = [sweep.members[i].value("test.loss") for i in (0, 3)]
    first = (best + start) / 2 - best - (sum(pre) / 2 - min(pre))
    assert sensitive.estimate.value == pytest.approx(first, abs=0.05)


def test_judge_on_the_edge():
    def estimate(low, high):
        return Estimate((low + high) / 2, low, high, 3)

    assert judge(estimate(-2, -1), "less", -1.0) == "undecided"
    assert judge(estimate(-1, 0), "less", -1.0) == "refuted"
    assert judge(estimate(1, 2), "greater", 1.0) == "undecided"
    assert judge(estimate(0, 1), "greater", 1.0) == "refuted"
    assert judge(estimate(0.4, 0.6), "near", 0.5) == "supported"
    assert judge(estimate(0.4, 0.6), "near", 0.5, 0.2) == "supported"
    assert judge(estimate(0.4, 0.8), "near", 0.5, 0.2) == "undecided"
    assert judge(estimate(0.7, 0.8), "near", 0.5, 0.2) == "refuted"
    assert judge(Estimate(0.1, None, None, 1), "less", 0.0) == "undecided"


def test_problems_are_found_before_anything_runs():
    points = synthetic.points({PLACE: ["pre", "post"], RATE: [1e-3, 2e-3], "seed": [0]})
    members = [synthetic.member(point, [RATE]) for point in points]
    sweep = make_record(question="q", members=members, tuned=[RATE], base=synthetic.BASE)
    assert check_hypotheses([Difference("ok", **PRE_POST)], sweep) == []
    problems = check_hypotheses(
        [
            Difference("a", {"model.norm_placment": "pre"}, {PLACE: "post"}),
            Difference("a", {PLACE: "sandwich"}, {PLACE: "post"}),
            Level("c", {RATE: 1e-3}),
            Trend("d", PLACE),
            Trend("e", DEPTH),
            Trend("f", "model.dpeth"),
            Trend("g", RATE),
            Trend("h", "parameters"),
        ],
        sweep,
    )
    assert len(problems) == 8
    assert "two hypotheses" in problems[0]
    assert "did you mean model.norm_placement" in problems[1]
    assert "no arm has norm_placement=sandwich" in problems[2]
    assert "tuned" in problems[3]
    assert "numbers" in problems[4]
    assert "does not vary" in problems[5]
    assert "did you mean model.depth" in problems[6]
    assert "tuned" in problems[7]


def test_a_value_without_a_logarithm_takes_its_seed_out(tmp_path):
    points = synthetic.points({DEPTH: [1, 2, 4], "seed": [0, 1, 2]})
    folder = synthetic.write_sweep(tmp_path, points)
    path = folder / "runs" / synthetic.member(points[4], ())["name"] / "result.json"
    result = json.loads(path.read_text())
    result["test"]["excess"] = -0.01
    path.write_text(json.dumps(result))
    claim = Trend("t", DEPTH, "test.excess", x_scale="log", y_scale="log")
    verdict = claim.evaluate(read_sweep(folder))
    assert verdict.estimate.n == 2
    assert any("without a logarithm" in note for note in verdict.notes)


def test_arms_of_one_size_count_in_a_trend_over_parameters(tmp_path):
    points = synthetic.points({DEPTH: [1, 2, 4], PLACE: ["pre", "post"], "seed": [0, 1, 2]})
    sweep = read_sweep(synthetic.write_sweep(tmp_path, points))
    assert Trend("t", "parameters", x_scale="log").evaluate(sweep).verdict == "supported"


def test_verdicts_are_written_with_holms_correction(tmp_path):
    claims = [Difference("a", **PRE_POST), Trend("b", DEPTH), Level("c", {DEPTH: 99})]
    axes = {DEPTH: [1, 2], PLACE: ["pre", "post"], "seed": [0, 1, 2]}
    folder = synthetic.write_sweep(tmp_path, synthetic.points(axes), hypotheses=claims)
    verdicts = write_verdicts(folder)
    written = json.loads((folder / "verdicts.json").read_text())
    assert [v["name"] for v in written] == ["a", "b", "c"]
    assert written == [json.loads(json.dumps(v.to_dict())) for v in verdicts]
    assert verdicts[0].adjusted_p >= verdicts[0].estimate.p_value
    assert verdicts[2].verdict == "undecided"
    assert evaluate_sweep(read_sweep(folder)) == verdicts
