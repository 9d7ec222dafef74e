"""The runs behind a claim: which arms it means, and each arm's value of a metric by seed.

Where a selector fits several arms, arms are matched on what it leaves open; each arm stands at its
own best setting of the tuned keys; a diverged or unfinished run has no value and is counted.
"""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from txf.config import unknown_key
from txf.errors import UserError
from txf.sweeps.grid import format_value, short_keys
from txf.sweeps.reading import Run, SweepRecord, hashable
from txf.sweeps.selection import best_setting
from txf.sweeps.statistics import common_differences, mean_interval

REDUCTIONS = ("best", "mean", "sensitivity")

Selector = Mapping[str, Any]
Values = dict[Hashable, float]


@dataclasses.dataclass(frozen=True)
class Side:
    """One arm's values of a metric by seed, and the seeds that have none because they diverged."""

    values: Values
    diverged: frozenset[Hashable]
    absent: int

    @property
    def runs(self) -> int:
        """Seeds that came to an end, one way or the other."""
        return len(self.values) + len(self.diverged)


def say(selector: Selector) -> str:
    """A selector for reading: `depth=2, norm_placement=pre`."""
    short = short_keys(list(selector))
    return ", ".join(f"{short[k]}={format_value(v)}" for k, v in selector.items()) or "every arm"


def matching(sweep: SweepRecord, selector: Selector) -> list[str]:
    """The arms whose config has the selector's values, in order.

    Raises:
        UserError: a key of the selector is no config key, or is one that does not tell arms apart.
    """
    for key in selector:
        if key not in sweep.base:
            raise UserError(unknown_key(key, sweep.base))
        if key in sweep.tuned or key in sweep.seeds:
            raise UserError(f"{key} does not tell arms apart: it is tuned or a seed")
    return [
        arm
        for arm, runs in sweep.arms.items()
        if all(hashable(runs[0].config[key]) == hashable(v) for key, v in selector.items())
    ]


def available(sweep: SweepRecord, metric: str) -> tuple[str, list[str]]:
    """The metric, or the same on valid where no run has it on test."""
    if not metric.startswith("test."):
        return metric, []
    done = [run for run in sweep.members if run.status == "done"]
    if not done or any(run.value(metric) is not None for run in done):
        return metric, []
    fallback = "valid." + metric.removeprefix("test.")
    return fallback, [
        f"no run has {metric}; judged on {fallback}, which also chose tuned settings"
        if sweep.tuned
        else f"no run has {metric}; judged on {fallback}"
    ]


def side_of(sweep: SweepRecord, arm: str, metric: str, reduce: str) -> Side:
    """One arm's value by seed."""
    runs = sweep.arms[arm]
    if reduce == "best":
        best = best_setting((sweep.setting(r), r.status, r.value("valid.loss")) for r in runs)
        runs = [run for run in runs if sweep.setting(run) == best]
    by_seed: dict[Hashable, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(sweep.seed(run), []).append(run)
    values: Values = {}
    diverged: set[Hashable] = set()
    for seed, group in by_seed.items():
        if reduce == "sensitivity":
            found = _sensitivity(group, metric)
        else:
            allowed = ("done", "diverged") if metric == "diverged" else ("done",)
            numbers = [run.value(metric) if run.status in allowed else None for run in group]
            found = None if None in numbers else math.fsum(numbers) / len(numbers)
        if found is not None:
            values[seed] = found
        elif any(run.status == "diverged" for run in group):
            diverged.add(seed)
    return Side(values, frozenset(diverged), len(by_seed) - len(values) - len(diverged))


def _sensitivity(runs: Sequence[Run], metric: str) -> float | None:
    """Mean over settings of min(loss, loss at init), minus the best loss: 0 is indifferent."""
    key = metric.partition(".")[2]
    capped, reached = [], []
    for run in runs:
        steps, values = run.curve("valid", key)
        if run.status not in ("done", "diverged") or 0 not in steps:
            return None
        start = values[steps.index(0)]
        final = run.value(metric) if run.status == "done" else None
        capped.append(start if final is None else min(final, start))
        reached += [] if final is None else [final]
    return math.fsum(capped) / len(capped) - min(reached) if reached else None


def matched_pairs(
    sweep: SweepRecord,
    left_selector: Selector,
    right_selector: Selector,
    metric: str,
    reduce: str,
    notes: list[str],
) -> tuple[list[tuple[Side, Side]], list[str]]:
    """Pairs of arms, left and right, that agree in every factor the selectors leave open."""
    left, right = matching(sweep, left_selector), matching(sweep, right_selector)
    missing = [
        say(s)
        for s, arms in zip((left_selector, right_selector), (left, right), strict=True)
        if not arms
    ]
    if missing:
        return [], [*notes, f"the sweep has no arm with {' nor '.join(missing)}"]
    if len(left) == len(right) == 1:
        arms = [(left[0], right[0])]
    else:
        named = {*left_selector, *right_selector}
        open_keys = [key for key in sweep.factors if key not in named]

        def rest(arm: str) -> tuple[Hashable, ...]:
            return tuple(hashable(sweep.arms[arm][0].config[key]) for key in open_keys)

        partners = {rest(arm): arm for arm in right}
        arms = [(arm, partners[rest(arm)]) for arm in left if rest(arm) in partners]
        short = short_keys(open_keys)
        over = ", ".join(short[key] for key in open_keys)
        if len(arms) > 1:
            notes = [*notes, f"a seed's mean over {len(arms)} pairs of arms, equal in {over}"]
        elif arms:
            common = dict(zip(open_keys, rest(arms[0][0]), strict=True))
            notes = [*notes, f"compared at {say(common)}"]
        else:
            notes = [*notes, f"no two arms are equal in {over}"]
    sides = [
        (side_of(sweep, a, metric, reduce), side_of(sweep, b, metric, reduce)) for a, b in arms
    ]
    return sides, notes


def common_seeds(sides: Sequence[Side]) -> list[Hashable]:
    """The seeds that have a value on every side, in the order of the first."""
    if not sides:
        return []
    return [seed for seed in sides[0].values if all(seed in side.values for side in sides[1:])]


def seed_differences(pairs: Sequence[tuple[Side, Side]]) -> Values:
    """Differences left - right by seed, averaged over the matched pairs.

    Only seeds that every pair has: a mean over fewer pairs would be another quantity.
    """
    differences = [common_differences(a.values, b.values) for a, b in pairs]
    seeds = common_seeds([side for pair in pairs for side in pair])
    return {seed: math.fsum(d[seed] for d in differences) / len(differences) for seed in seeds}


def seed_noise(pairs: Sequence[tuple[Side, Side]]) -> float:
    """Standard deviation of seed noise, pooled within the arms compared; 0 where unknown."""
    deviations = [mean_interval(side.values.values()).deviation for pair in pairs for side in pair]
    known = [deviation for deviation in deviations if deviation is not None]
    return math.sqrt(math.fsum(d * d for d in known) / len(known)) if known else 0.0


def side_notes(sides: Sequence[Side], seeds: int) -> list[str]:
    """What a reader has to know about runs that are in no mean."""
    diverged, absent = sum(len(s.diverged) for s in sides), sum(s.absent for s in sides)
    notes = [f"{diverged} diverged, in no mean"] if diverged else []
    notes += [f"{absent} not finished or without the metric, in no mean"] if absent else []
    return notes + ([f"{seeds} seed{'s' * (seeds != 1)}: no interval"] if seeds < 2 else [])


def pair_notes(pairs: Sequence[tuple[Side, Side]]) -> list[str]:
    """What a reader has to know about runs that are in no difference, by side."""
    notes = []
    for name, sides in (("left", [a for a, _ in pairs]), ("right", [b for _, b in pairs])):
        notes += [f"{name}: {note}" for note in side_notes(sides, 2)]
    seeds = len(seed_differences(pairs))
    return notes + (
        [f"{seeds} complete pair{'s' * (seeds != 1)}: no interval"] if seeds < 2 else []
    )


def check_factor(sweep: SweepRecord, where: Selector, factor: str) -> None:
    """Refuse a factor that no slope can be fitted over.

    Args:
        sweep: the sweep.
        where: selects the arms.
        factor: a config key, or else a path into result.json, which is known only after a run.

    Raises:
        UserError: a config key that does not exist, holds no numbers, or does not vary there.
    """
    if factor not in sweep.base:
        if factor.partition(".")[0] in {key.partition(".")[0] for key in sweep.base}:
            raise UserError(unknown_key(factor, sweep.base))
        return
    if factor in sweep.tuned or factor in sweep.seeds:
        raise UserError(f"{factor} does not tell arms apart: it is tuned or a seed")
    values = {hashable(sweep.arms[arm][0].config[factor]) for arm in matching(sweep, where)}
    texts = [v for v in values if isinstance(v, bool) or not isinstance(v, int | float)]
    if texts:
        raise UserError(f"a trend needs a factor of numbers; {factor} is {texts[0]!r}")
    if len(values) < 2:
        raise UserError(f"{factor} does not vary among the arms with {say(where)}")


def level_sets(sweep: SweepRecord, where: Selector, factor: str) -> list[list[tuple[float, str]]]:
    """Sets of (factor's value, arm) to fit a slope to, at least two different values each.

    A config key where several arms share a value: a set for each combination of the other factors.
    A config key where every arm has its own value (others may move along, as in a zipped sweep), or
    a number of result.json, such as the parameters: one set.
    """
    points = []
    for arm in matching(sweep, where):
        runs = sweep.arms[arm]
        known = factor in sweep.base
        numbers = [runs[0].config[factor]] if known else [run.value(factor) for run in runs]
        number = next((n for n in numbers if n is not None), None)
        if number is not None:
            points.append((float(number), arm))
    if factor not in sweep.base or len({x for x, _ in points}) == len(points):
        sets = [points]
    else:
        open_keys = [key for key in sweep.factors if key not in where and key != factor]
        grouped: dict[Hashable, list[tuple[float, str]]] = {}
        for x, arm in points:
            config = sweep.arms[arm][0].config
            rest = tuple(hashable(config[key]) for key in open_keys)
            grouped.setdefault(rest, []).append((x, arm))
        sets = list(grouped.values())
    return [levels for levels in sets if len({x for x, _ in levels}) > 1]
