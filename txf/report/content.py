"""The numbers a report shows: those of results.csv, each arm at its own best setting."""

import dataclasses
import functools
import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from txf.report.layout import Layout, lay_out
from txf.sweeps.hypotheses import evaluate_sweep
from txf.sweeps.reading import Run, SweepRecord
from txf.sweeps.statistics import Estimate, mean_interval
from txf.sweeps.table import arms_table, best_rows, reported_split, results_frame
from txf.sweeps.verdicts import Verdict


@dataclasses.dataclass(frozen=True)
class Content:
    """A sweep and everything derived from it that tables and figures share.

    Attributes:
        sweep: the sweep as read from its folder.
        frame: the content of results.csv.
        arms: one row an arm.
        chosen: rows of each arm's members at its best setting.
        split: test, or valid where there is no test.
        layout: panels and colours.
        verdicts: one a hypothesis.
    """

    sweep: SweepRecord
    frame: pd.DataFrame
    arms: pd.DataFrame
    chosen: Mapping[str, list[dict[str, Any]]]
    split: str
    layout: Layout
    verdicts: tuple[Verdict, ...]

    @functools.cached_property
    def runs(self) -> dict[str, Run]:
        """Runs by name."""
        return {run.name: run for run in self.sweep.members}

    @functools.cached_property
    def loss(self) -> str:
        """The column of the headline loss."""
        return f"{self.split}_loss"

    def values(self, arm: str, column: str) -> dict[Hashable, float]:
        """An arm's values of a column by seed, finished runs only."""
        found = {}
        for row in self.chosen[arm]:
            value = row.get(column)
            if row["status"] == "done" and not pd.isna(value) and math.isfinite(value):
                found[self.sweep.seed(self.runs[row["member"]])] = float(value)
        return found

    def estimate(self, arm: str, column: str) -> Estimate:
        """Mean and 95 % interval of an arm's values of a column."""
        return mean_interval(self.values(arm, column).values())

    def diverged(self, arm: str) -> tuple[int, int]:
        """How many of an arm's runs at its best setting diverged, and how many it has."""
        rows = self.chosen[arm]
        return sum(row["status"] == "diverged" for row in rows), len(rows)

    def has(self, column: str) -> bool:
        """Whether any chosen, finished run has a value in the column."""
        return any(self.values(arm, column) for arm in self.chosen)

    @functools.cached_property
    def floor(self) -> float | None:
        """The corpus's exact entropy, nats a token, where it is known and the same for all arms."""
        name = f"{self.split}_floor"
        floors = [v for arm in self.chosen for v in self.values(arm, name).values()]
        if not floors or max(floors) - min(floors) > 1e-6 * max(1.0, abs(max(floors))):
            return None
        return floors[0]

    @functools.cached_property
    def kinds(self) -> list[str]:
        """Names of the kinds of span that losses are reported for."""
        prefix = f"{self.split}_loss_"
        return [c.removeprefix(prefix) for c in self.frame.columns if c.startswith(prefix)]

    @functools.cached_property
    def ranking(self) -> list[str]:
        """Arms from the lowest loss to the highest; those without a loss last, in their order."""
        means = {arm: self.estimate(arm, self.loss).value for arm in self.chosen}
        order = list(means)
        return sorted(
            order,
            key=lambda arm: (
                means[arm] is None,
                0.0 if means[arm] is None else means[arm],
                order.index(arm),
            ),
        )

    def count(self, status: str) -> int:
        """How many members have a status."""
        return sum(run.status == status for run in self.sweep.members)


def gather(sweep: SweepRecord) -> Content:
    """Everything a report shows of a sweep."""
    frame = results_frame(sweep)
    return Content(
        sweep=sweep,
        frame=frame,
        arms=arms_table(frame, sweep.tuned),
        chosen=best_rows(frame, sweep.tuned),
        split=reported_split(frame),
        layout=lay_out(sweep),
        verdicts=tuple(evaluate_sweep(sweep)),
    )
