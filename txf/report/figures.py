"""The figures of a report.  Each takes the content and gives a figure, or None: nothing to show.

All draw with explicit Figure objects: no pyplot, no state that one figure could leave to the next.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from txf.report.content import Content
from txf.report.curves import learning_curves, tuning
from txf.report.drawing import (
    axis_title,
    draw_floor,
    draw_interval,
    draw_legend,
    end_labels,
    log_axis,
    panel_grid,
    side_by_side,
)
from txf.report.factors import by_factor
from txf.report.layout import MANY
from txf.report.style import RULE, WIDTH
from txf.sweeps.statistics import Estimate, Number


def loss_by_arm(content: Content) -> Figure | None:
    """Every arm's loss, best first: seeds faint, mean and 95 % interval, the floor dotted."""
    finished = [arm for arm in content.ranking if content.values(arm, content.loss)]
    if not finished:
        return None
    shown = finished + [a for a in content.ranking if a not in finished and content.diverged(a)[0]]
    figure = Figure(figsize=(WIDTH, 0.75 + 0.24 * len(shown)))
    axes = figure.subplots()
    for row, arm in enumerate(shown):
        colour = content.layout.colours[arm]
        values = content.values(arm, content.loss)
        axes.plot(
            list(values.values()),
            [row] * len(values),
            "|",
            color=colour,
            ms=7,
            alpha=0.55,
            zorder=2,
        )
        if values:
            draw_interval(axes, row, content.estimate(arm, content.loss), colour, upright=False)
        diverged, runs = content.diverged(arm)
        if diverged:
            axes.annotate(
                f"× {diverged} of {runs} diverged",
                (1.0, row),
                xycoords=("axes fraction", "data"),
                color=colour,
                fontsize=8,
                ha="right",
                va="center",
            )
    axes.set_yticks(range(len(shown)), [arm.replace(",", ", ") for arm in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.06)
    axes.set_xlabel(axis_title(content, content.loss))
    axes.spines["left"].set_visible(False)
    draw_floor(axes, content, upright=False)
    return figure


def loss_by_cost(content: Content) -> Figure | None:
    """Loss against parameters and against FLOPs a token, with the front no arm is better than.

    An arm that takes no products, a bigram table, has no place on the logarithmic axis of FLOPs.
    """
    costs = (("parameters", "parameters"), ("flops_per_token", "training FLOPs a token"))
    rows = {row["arm"]: row for row in content.arms.to_dict("records")}
    drawn = []
    for column, label in costs:
        points = {
            arm: (float(row[column]), content.estimate(arm, content.loss))
            for arm, row in rows.items()
            if not pd.isna(row[column]) and row[column] > 0 and content.values(arm, content.loss)
        }
        if len({x for x, _ in points.values()}) > 1:
            drawn.append((label, points))
    if not drawn:
        return None
    figure, grid = panel_grid(len(drawn), 2, WIDTH, 2.9, sharey=True)
    for axes, (label, points) in zip(grid, drawn, strict=True):
        placed = _apart({arm: points[arm][0] for arm in content.ranking if arm in points})
        axes.plot(*_front(points, placed), color=RULE, lw=2.4, zorder=1)
        for arm, x in placed.items():
            size = 5.5 if len(points) <= 2 * MANY else 4.0
            draw_interval(axes, x, points[arm][1], content.layout.colours[arm], size=size)
        log_axis(axes, [x for x, _ in points.values()])
        axes.margins(x=0.08, y=0.08)
        axes.set_xlabel(label)
        if axes is grid[0]:
            axes.set_ylabel(axis_title(content, content.loss))
        draw_floor(axes, content)
    if not content.layout.legend:
        _name_points(grid[-1], drawn[-1][1], content)
    draw_legend(figure, content)
    return figure


def _apart(costs: Mapping[str, Number]) -> dict[str, Number]:
    """Costs for a logarithmic axis, with arms of nearly equal cost moved side by side, in order."""
    reach = math.log(max(costs.values()) / min(costs.values()))
    clusters: list[list[str]] = []
    for arm in sorted(costs, key=lambda arm: costs[arm]):  # a stable sort: ties keep their order
        if clusters and math.log(costs[arm] / costs[clusters[-1][0]]) < 0.03 * reach:
            clusters[-1].append(arm)
        else:
            clusters.append([arm])
    logs = [math.log(costs[cluster[0]]) for cluster in clusters]
    gap = min((b - a for a, b in itertools.pairwise(logs)), default=reach)
    placed = {}
    for cluster in clusters:
        for shift, arm in zip(side_by_side(len(cluster)), cluster, strict=True):
            placed[arm] = costs[arm] * math.exp(0.7 * shift * min(gap, 0.5 * reach))
    return placed


def _front(
    points: Mapping[str, tuple[Number, Estimate]], placed: Mapping[str, Number]
) -> tuple[list[Number], list[Number]]:
    """Where the arms stand that are better than every arm that costs no more."""
    front, lowest = [], math.inf
    for arm in sorted(points, key=lambda arm: (points[arm][0], points[arm][1].value)):
        if points[arm][1].value < lowest:
            front.append(arm)
            lowest = points[arm][1].value
    return [placed[arm] for arm in front], [points[arm][1].value for arm in front]


def _name_points(axes: Axes, points: dict[str, tuple[Number, Estimate]], content: Content) -> None:
    """Name arms at the right by their loss, where colours do not say which they are."""
    names: dict[str, str] = {}
    for panel in content.layout.panels:
        for arm, label in panel.labels.items():
            text = f"{panel.title} {label}".strip()
            names[arm] = f"{names[arm]}, {text}" if arm in names else text
    names = {arm: "base" if "," in name and len(name) > 24 else name for arm, name in names.items()}
    shown = [arm for arm in content.ranking if arm in points][: 2 * MANY]
    end_labels(
        axes,
        [(points[arm][0], points[arm][1].value) for arm in shown],
        [names[arm] for arm in shown],
        [content.layout.colours[arm] for arm in shown],
    )


def measured(content: Content) -> list[str]:
    """The metrics besides the loss that the sweep is about: those its hypotheses name, or accuracy.

    Accuracy counts as one where the task is to classify or to tag.
    """
    on_a_split = [v.metric for v in content.verdicts if v.metric.startswith(("test.", "valid."))]
    named = [metric.partition(".")[2] for metric in on_a_split]
    named += ["accuracy"] * (content.sweep.base["task"] in ("classification", "tagging"))
    columns = [(name, f"{content.split}_{name.replace('.', '_')}") for name in dict.fromkeys(named)]
    return [column for name, column in columns if name != "loss" and content.has(column)]


def figures_of(content: Content) -> dict[str, Callable[[Content], Figure | None]]:
    """How to draw each figure of a report, by name, in the order of the report."""
    factors = {
        f"{column.removeprefix(content.split + '_')}_by_factor": functools.partial(
            by_factor, column=column
        )
        for column in [content.loss, *measured(content)]
    }
    return {
        "loss_by_arm": loss_by_arm,
        **factors,
        "learning_curves": learning_curves,
        "loss_by_cost": loss_by_cost,
        "tuning": tuning,
    }
