"""What a sweep claims before it runs, and what its results say to that.

A sweep file's `get_hypotheses()` returns a list of these.  Each names a metric (a dotted path into
result.json, such as `test.loss`), selects arms by config values, and states a direction:

    Difference("pre beats post", left={"model.norm_placement": "pre"},
               right={"model.norm_placement": "post"})
    Equivalence("learned = sinusoidal", left={...}, right={...}, sigmas=2.0)
    Trend("loss falls with depth", factor="model.depth", x_scale="log")
    Level("one block cannot", where={"model.depth": 1}, metric="test.accuracy", value=0.5)

A verdict is `supported`, `refuted` or `undecided`, from a 95 % interval over seeds:

- The unit is the seed.  Where a selector fits several arms (every depth, say), the two sides are
  matched arm by arm on what the selectors leave open, and a seed's value is its mean over them.
- Each arm is judged at its own best setting of the tuned keys (`txf.sweeps.selection`), chosen on
  valid and reported on test; `test.…` falls back to `valid.…` where the sweep has no test split.
- A diverged run is in no mean.  It is counted, and it weighs: it counts as worse than any finished
  run.  An interval that holds only because diverged runs are missing from it decides nothing; where
  no pair is left, Fisher's exact test on the numbers of diverged runs decides.
- `refuted` needs an interval that excludes the claim.  A refuted claim is a result.
"""

import dataclasses
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from etils import epath

from txf.errors import UserError
from txf.files import write_text
from txf.sweeps.evidence import (
    REDUCTIONS,
    Selector,
    Side,
    available,
    check_factor,
    common_seeds,
    level_sets,
    matched_pairs,
    matching,
    pair_notes,
    say,
    seed_differences,
    seed_noise,
    side_notes,
    side_of,
)
from txf.sweeps.grid import short_keys
from txf.sweeps.reading import SweepRecord, read_sweep
from txf.sweeps.statistics import Estimate, Number, equivalence, holm, mean_interval, slope
from txf.sweeps.verdicts import DIRECTIONS, SIGNIFICANCE, Verdict, judge, weigh_divergence


class Hypothesis:
    """What all kinds of hypothesis share; see the module's docstring."""

    kind: str
    name: str
    metric: str

    def to_dict(self) -> dict[str, Any]:
        """The hypothesis as plain JSON values, for sweep.json."""
        return dataclasses.asdict(self)

    def selectors(self) -> list[Selector]:
        """The selectors of arms that the hypothesis needs at least one arm for each."""
        raise NotImplementedError

    def claim(self) -> str:
        """The claim in one line."""
        raise NotImplementedError

    def evaluate(self, sweep: SweepRecord) -> Verdict:
        """Judge the hypothesis by what the sweep's runs have left."""
        raise NotImplementedError


def _check_word(owner: str, field: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UserError(
            f"hypothesis {owner!r}: {field}={value!r} is unknown; known: {', '.join(known)}"
        )


@dataclasses.dataclass(frozen=True)
class Difference(Hypothesis):
    """left - right < -margin (`less`) or > margin (`greater`), paired by seed.

    Attributes:
        name: what the claim is called.
        left: config values that select the left arm or arms.
        right: config values that select the right arm or arms.
        metric: dotted path into result.json, or `diverged` (1 for a diverged run, 0 for one done).
        direction: less or greater.
        margin: by how much, >= 0, in the metric's unit.
        reduce: over the tuned keys: `best` (each arm's best setting), `mean` (mean over settings)
            or `sensitivity` (mean over settings of min(loss, loss at init), minus the best loss).
    """

    name: str
    left: Selector
    right: Selector
    metric: str = "test.loss"
    direction: str = "less"
    margin: Number = 0.0
    reduce: str = "best"
    kind: str = dataclasses.field(default="difference", init=False)

    def __post_init__(self):
        _check_word(self.name, "direction", self.direction, DIRECTIONS[:2])
        _check_word(self.name, "reduce", self.reduce, REDUCTIONS)
        if not self.margin >= 0:
            raise UserError(f"hypothesis {self.name!r}: margin={self.margin} must be >= 0")

    def selectors(self) -> list[Selector]:
        """Both sides."""
        return [self.left, self.right]

    def claim(self) -> str:
        """Such as `test.loss: norm_placement=pre < norm_placement=post`."""
        sign = "<" if self.direction == "less" else ">"
        by = f" by more than {self.margin:g}" if self.margin else ""
        of = "" if self.reduce == "best" else f" ({self.reduce} over tuned settings)"
        return f"{self.metric}{of}: {say(self.left)} {sign} {say(self.right)}{by}"

    def evaluate(self, sweep: SweepRecord) -> Verdict:
        """Judge by the interval of the paired differences, then by who diverged."""
        metric, notes = available(sweep, self.metric)
        pairs, notes = matched_pairs(sweep, self.left, self.right, metric, self.reduce, notes)
        threshold = -self.margin if self.direction == "less" else self.margin
        estimate = mean_interval(seed_differences(pairs).values(), null=threshold)
        verdict = judge(estimate, self.direction, threshold)
        notes = notes + pair_notes(pairs)
        if metric != "diverged" and self.reduce == "best":
            verdict, estimate, notes = weigh_divergence(
                pairs, metric, self.direction, estimate, verdict, notes
            )
        return _verdict(self, verdict, metric, estimate, 0.95, notes)


@dataclasses.dataclass(frozen=True)
class Equivalence(Hypothesis):
    """|left - right| < margin, by two one-sided tests, paired by seed.

    Attributes:
        name: what the claim is called.
        left: config values that select the left arm or arms.
        right: config values that select the right arm or arms.
        metric: dotted path into result.json.
        margin: the largest difference that does not matter, > 0; None to derive it from `sigmas`.
        sigmas: the margin in standard deviations of seed noise (pooled within the arms compared).
        reduce: as in `Difference`.
    """

    name: str
    left: Selector
    right: Selector
    metric: str = "test.loss"
    margin: Number | None = None
    sigmas: Number = 2.0
    reduce: str = "best"
    kind: str = dataclasses.field(default="equivalence", init=False)

    def __post_init__(self):
        _check_word(self.name, "reduce", self.reduce, REDUCTIONS)
        if self.margin is not None and not self.margin > 0:
            raise UserError(f"hypothesis {self.name!r}: margin={self.margin} must be > 0 or None")
        if not self.sigmas > 0:
            raise UserError(f"hypothesis {self.name!r}: sigmas={self.sigmas} must be > 0")

    def selectors(self) -> list[Selector]:
        """Both sides."""
        return [self.left, self.right]

    def claim(self) -> str:
        """Such as `test.loss: positions=learned = positions=sinusoidal within 2σ of seed noise`."""
        margin = f"{self.sigmas:g}σ of seed noise" if self.margin is None else f"{self.margin:g}"
        return f"{self.metric}: {say(self.left)} equals {say(self.right)} within {margin}"

    def evaluate(self, sweep: SweepRecord) -> Verdict:
        """Supported by TOST; refuted when the 95 % interval lies outside the margins."""
        metric, notes = available(sweep, self.metric)
        pairs, notes = matched_pairs(sweep, self.left, self.right, metric, self.reduce, notes)
        notes = notes + pair_notes(pairs)
        differences = list(seed_differences(pairs).values())
        margin = seed_noise(pairs) * self.sigmas if self.margin is None else self.margin
        wide = mean_interval(differences)
        if wide.n < 2 or not margin > 0:
            return _verdict(self, "undecided", metric, wide, 0.95, notes)
        if self.margin is None:
            notes = [*notes, f"the margin is {self.sigmas:g}σ = {margin:.4g}"]
        narrow = equivalence(differences, margin, significance=SIGNIFICANCE)
        lopsided = sum(len(a.diverged ^ b.diverged) for a, b in pairs)
        if lopsided:
            notes = [*notes, f"in {lopsided} pairs one side diverged and the other did not"]
        if narrow.p_value < SIGNIFICANCE and not lopsided:
            return _verdict(self, "supported", metric, narrow, 0.90, notes)
        if wide.low >= margin or wide.high <= -margin:
            return _verdict(
                self,
                "refuted",
                metric,
                dataclasses.replace(wide, p_value=narrow.p_value),
                0.95,
                notes,
            )
        return _verdict(self, "undecided", metric, narrow, 0.90, notes)


@dataclasses.dataclass(frozen=True)
class Trend(Hypothesis):
    """The slope of a metric over a factor is below, above or near a value; one slope a seed.

    With `x_scale` and `y_scale` both `log` the slope is the exponent of a power law.

    Attributes:
        name: what the claim is called.
        factor: a numeric config key (`model.depth`) or a number of result.json (`parameters`); see
            `txf.sweeps.evidence.level_sets` for what else may vary along with it.
        metric: dotted path into result.json; `test.excess` is the loss above the known floor.
        where: config values that the arms must have.
        direction: less, greater or near.
        value: what the slope is compared with.
        margin: slope < value - margin (less), > value + margin (greater), within ± margin (near).
        x_scale: linear or log.
        y_scale: linear or log.
        reduce: as in `Difference`.
    """

    name: str
    factor: str
    metric: str = "test.loss"
    where: Selector = dataclasses.field(default_factory=dict)
    direction: str = "less"
    value: Number = 0.0
    margin: Number = 0.0
    x_scale: str = "linear"
    y_scale: str = "linear"
    reduce: str = "best"
    kind: str = dataclasses.field(default="trend", init=False)

    def __post_init__(self):
        _check_threshold(self.name, self.direction, self.margin)
        _check_word(self.name, "reduce", self.reduce, REDUCTIONS)
        _check_word(self.name, "x_scale", self.x_scale, ("linear", "log"))
        _check_word(self.name, "y_scale", self.y_scale, ("linear", "log"))

    def selectors(self) -> list[Selector]:
        """The arms the slope is over."""
        return [self.where]

    def claim(self) -> str:
        """Such as `slope of test.loss over log depth (every arm) < 0`."""
        y = f"log {self.metric}" if self.y_scale == "log" else self.metric
        x = short_keys([self.factor])[self.factor]
        x = f"log {x}" if self.x_scale == "log" else x
        where = f" where {say(self.where)}" if self.where else ""
        return f"slope of {y} over {x}{where} {_threshold(self.direction, self.value, self.margin)}"

    def evaluate(self, sweep: SweepRecord) -> Verdict:
        """Judge by the interval of the seeds' slopes."""
        metric, notes = available(sweep, self.metric)
        sets = level_sets(sweep, self.where, self.factor)
        sides = [
            [(x, side_of(sweep, arm, metric, self.reduce)) for x, arm in levels] for levels in sets
        ]
        seeds = common_seeds([side for levels in sides for _, side in levels])
        slopes = [self._slope(sides, seed) for seed in seeds]
        known = [found for found in slopes if found is not None]
        notes = notes + side_notes([side for levels in sides for _, side in levels], len(known))
        if len(known) < len(slopes):
            notes = [*notes, f"{len(slopes) - len(known)} seeds have a value without a logarithm"]
        if not sets:
            notes = [*notes, f"no arms differ in {self.factor} alone"]
        null = _null(self.direction, self.value, self.margin)
        estimate = mean_interval(known, null=null)
        verdict = judge(estimate, self.direction, self.value, self.margin)
        return _verdict(self, verdict, metric, estimate, 0.95, notes)

    def _slope(self, sides: Sequence[Sequence[tuple[float, Side]]], seed: Hashable) -> float | None:
        """One seed's slope, its mean over the sets; None where a value has no logarithm."""
        fits = []
        for levels in sides:
            xs, ys = [x for x, _ in levels], [side.values[seed] for _, side in levels]
            if (self.x_scale == "log" and min(xs) <= 0) or (self.y_scale == "log" and min(ys) <= 0):
                return None
            fits.append(slope(xs, ys, x_scale=self.x_scale, y_scale=self.y_scale).value)
        return math.fsum(fits) / len(fits)


@dataclasses.dataclass(frozen=True)
class Level(Hypothesis):
    """A metric of the selected arms is below, above or near a value: above chance, say.

    Attributes:
        name: what the claim is called.
        where: config values that select the arm or arms; a seed's value is its mean over them.
        metric: dotted path into result.json, or `diverged`.
        direction: less, greater or near.
        value: what the metric is compared with.
        margin: metric < value - margin (less), > value + margin (greater), within ± margin (near).
        reduce: as in `Difference`.
    """

    name: str
    where: Selector
    metric: str = "test.accuracy"
    direction: str = "greater"
    value: Number = 0.0
    margin: Number = 0.0
    reduce: str = "best"
    kind: str = dataclasses.field(default="level", init=False)

    def __post_init__(self):
        _check_threshold(self.name, self.direction, self.margin)
        _check_word(self.name, "reduce", self.reduce, REDUCTIONS)

    def selectors(self) -> list[Selector]:
        """The one selector."""
        return [self.where]

    def claim(self) -> str:
        """Such as `test.accuracy of depth=1 < 0.5`."""
        threshold = _threshold(self.direction, self.value, self.margin)
        return f"{self.metric} of {say(self.where)} {threshold}"

    def evaluate(self, sweep: SweepRecord) -> Verdict:
        """Judge by the interval of the seeds' values."""
        metric, notes = available(sweep, self.metric)
        sides = [side_of(sweep, arm, metric, self.reduce) for arm in matching(sweep, self.where)]
        seeds = common_seeds(sides)
        means = [math.fsum(side.values[seed] for side in sides) / len(sides) for seed in seeds]
        estimate = mean_interval(means, null=_null(self.direction, self.value, self.margin))
        notes = notes + side_notes(sides, len(seeds))
        verdict = judge(estimate, self.direction, self.value, self.margin)
        return _verdict(self, verdict, metric, estimate, 0.95, notes)


KINDS: dict[str, type[Hypothesis]] = {
    "difference": Difference,
    "equivalence": Equivalence,
    "trend": Trend,
    "level": Level,
}


def hypothesis_from_dict(content: Mapping[str, Any]) -> Hypothesis:
    """The hypothesis that `to_dict` wrote.

    Raises:
        UserError: an unknown kind or field.
    """
    fields = dict(content)
    kind = fields.pop("kind", None)
    if kind not in KINDS:
        raise UserError(f"unknown kind of hypothesis {kind!r}; known: {', '.join(KINDS)}")
    try:
        return KINDS[kind](**fields)
    except TypeError as error:
        raise UserError(f"hypothesis {fields.get('name')!r} of kind {kind}: {error}") from error


def check_hypotheses(hypotheses: Sequence[Hypothesis], sweep: SweepRecord) -> list[str]:
    """Every problem of a sweep's hypotheses before anything runs, a line each.

    Args:
        hypotheses: what get_hypotheses() returned.
        sweep: the sweep they are about; `make_record` makes it from the members alone.
    """
    problems = []
    names = [hypothesis.name for hypothesis in hypotheses]
    problems += [
        f"two hypotheses are called {n!r}" for n in dict.fromkeys(names) if names.count(n) > 1
    ]
    for hypothesis in hypotheses:
        for selector in hypothesis.selectors():
            try:
                if not matching(sweep, selector):
                    problems.append(f"hypothesis {hypothesis.name!r}: no arm has {say(selector)}")
            except UserError as error:
                problems.append(f"hypothesis {hypothesis.name!r}: {error}")
        if isinstance(hypothesis, Trend):
            try:
                check_factor(sweep, hypothesis.where, hypothesis.factor)
            except UserError as error:
                problems.append(f"hypothesis {hypothesis.name!r}: {error}")
    return list(dict.fromkeys(problems))


def evaluate_sweep(sweep: SweepRecord) -> list[Verdict]:
    """The verdict on each of the sweep's hypotheses, in their order.

    Each verdict stands on its own 95 % interval, as the hypotheses were stated beforehand;
    `adjusted_p` is Holm's correction over all of them, for a reader who wants one error rate for
    the whole sweep.
    """
    verdicts = [hypothesis_from_dict(content).evaluate(sweep) for content in sweep.hypotheses]
    adjusted = holm([verdict.estimate.p_value for verdict in verdicts])
    return [
        dataclasses.replace(verdict, adjusted_p=p)
        for verdict, p in zip(verdicts, adjusted, strict=True)
    ]


def write_verdicts(sweep_dir: epath.PathLike) -> list[Verdict]:
    """Write SWEEP/verdicts.json from what the runs have left, and return the verdicts."""
    verdicts = evaluate_sweep(read_sweep(sweep_dir))
    text = json.dumps([verdict.to_dict() for verdict in verdicts], indent=2)
    write_text(epath.Path(sweep_dir) / "verdicts.json", text + "\n")
    return verdicts


def _check_threshold(name: str, direction: str, margin: Number) -> None:
    _check_word(name, "direction", direction, DIRECTIONS)
    if not margin >= 0:
        raise UserError(f"hypothesis {name!r}: margin={margin} must be >= 0")


def _threshold(direction: str, value: Number, margin: Number) -> str:
    match direction:
        case "less":
            return f"< {value - margin:g}"
        case "greater":
            return f"> {value + margin:g}"
        case _:
            return (
                f"is {value:g} ± {margin:g}" if margin else f"is {value:g} (interval includes it)"
            )


def _null(direction: str, value: Number, margin: Number) -> float:
    return {"less": value - margin, "greater": value + margin, "near": value}[direction]


def _verdict(
    hypothesis: Hypothesis,
    verdict: str,
    metric: str,
    estimate: Estimate,
    confidence: float,
    notes: Sequence[str],
) -> Verdict:
    return Verdict(
        hypothesis.name, hypothesis.claim(), verdict, metric, estimate, confidence, tuple(notes)
    )
