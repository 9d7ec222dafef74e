"""From an interval, and from who diverged, to a verdict on a claim."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from txf.sweeps.evidence import Side
from txf.sweeps.statistics import Estimate, Number, more_events

DIRECTIONS = ("less", "greater", "near")
SIGNIFICANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the results say to one hypothesis.

    Attributes:
        name: the hypothesis's name.
        claim: the claim in one line.
        verdict: supported, refuted or undecided.
        metric: what was measured, after any fallback from test to valid.
        estimate: the estimate with its interval, its number of seeds, effect size and p-value.
        confidence: coverage of the interval (0.95; 0.90 for an equivalence test, as TOST has it).
        notes: what a reader has to know: diverged runs, seeds left out, fallbacks.
        adjusted_p: p-value after Holm's correction over the sweep's hypotheses.
    """

    name: str
    claim: str
    verdict: str
    metric: str
    estimate: Estimate
    confidence: float
    notes: tuple[str, ...] = ()
    adjusted_p: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        return dataclasses.asdict(self) | {"notes": list(self.notes)}


def judge(estimate: Estimate, direction: str, value: Number, margin: Number = 0.0) -> str:
    """Compare an interval with a claim.

    `less` claims x < value - margin, `greater` x > value + margin, `near` |x - value| < margin or,
    with margin 0, that the interval includes the value.

    Returns:
        supported when the whole interval agrees, refuted when the whole interval disagrees,
        undecided in between or without an interval.  With `near` and margin 0: supported when the
        interval includes the value, else refuted.
    """
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return "undecided"
    match direction:
        case "less":
            agree, against = high < value - margin, low >= value - margin
        case "greater":
            agree, against = low > value + margin, high <= value + margin
        case "near" if margin == 0:
            agree = low <= value <= high
            against = not agree
        case "near":
            agree = value - margin < low and high < value + margin
            against = low >= value + margin or high <= value - margin
        case _:
            raise ValueError(f"unknown direction {direction!r}; known: {', '.join(DIRECTIONS)}")
    return "supported" if agree else "refuted" if against else "undecided"


def lower_is_better(metric: str) -> bool | None:
    """Whether a metric is a loss (True) or a score (False); None where that is not known."""
    leaf = metric.rsplit(".", 1)[-1]
    if leaf.startswith(("loss", "perplexity", "bits_per_byte", "excess")):
        return True
    return False if leaf.startswith(("accuracy", "f1", "bleu", "exact")) else None


def weigh_divergence(
    pairs: Sequence[tuple[Side, Side]],
    metric: str,
    direction: str,
    estimate: Estimate,
    verdict: str,
    notes: list[str],
) -> tuple[str, Estimate, list[str]]:
    """Let diverged runs count as worse than any finished one; see the module's docstring."""
    # Left is claimed to be better: diverged runs on the right speak for the claim.
    for_claim, against = [b for _, b in pairs], [a for a, _ in pairs]
    lower = lower_is_better(metric)
    if not any(side.diverged for side in (*for_claim, *against)):
        return verdict, estimate, notes
    if lower is None:
        note = f"whether a diverged run is better or worse in {metric} is unknown"
        return "undecided", estimate, [*notes, note]
    if lower != (direction == "less"):
        for_claim, against = against, for_claim

    def count(sides: Sequence[Side]) -> tuple[int, int]:
        return sum(len(side.diverged) for side in sides), sum(side.runs for side in sides)

    pro, con = count(for_claim), count(against)
    if estimate.n == 0 and pro[1] and con[1]:
        agree, disagree = more_events(*pro, *con), more_events(*con, *pro)
        p_value = min(agree, disagree)
        estimate = dataclasses.replace(estimate, p_value=p_value)
        if p_value > SIGNIFICANCE + 1e-12:
            return "undecided", estimate, notes
        note = "decided by the numbers of diverged runs (Fisher's exact test)"
        return ("supported" if agree < disagree else "refuted"), estimate, [*notes, note]
    if (verdict == "supported" and con[0] > 0) or (verdict == "refuted" and pro[0] > 0):
        word = "favours" if verdict == "supported" else "contradicts"
        note = f"the interval {word} the claim, but only among runs that did not diverge"
        return "undecided", estimate, [*notes, note]
    return verdict, estimate, notes
