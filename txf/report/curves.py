"""The figures over training and over tuned values, a panel for each set of arms."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from txf.report.content import Content
from txf.report.drawing import (
    bottom_label,
    draw_floor,
    end_labels,
    log_axis,
    mark_diverged,
    panel_grid,
    shown_panels,
)
from txf.report.layout import MANY
from txf.report.style import NARROW, WIDTH
from txf.sweeps.grid import short_keys
from txf.sweeps.statistics import Number
from txf.sweeps.table import compact


def _mean_curve(
    curves: Sequence[tuple[list[int], list[Number]]],
) -> tuple[list[int], list[Number], list[Number], list[Number]]:
    """Steps that all seeds have, with mean, lowest and highest over the seeds."""
    if not curves:
        return [], [], [], []
    steps = sorted(set.intersection(*(set(steps) for steps, _ in curves)))
    tables = [dict(zip(*curve, strict=True)) for curve in curves]
    columns = [[table[step] for table in tables] for step in steps]
    means = [math.fsum(column) / len(column) for column in columns]
    return steps, means, [min(c) for c in columns], [max(c) for c in columns]


def learning_curves(content: Content) -> Figure | None:
    """Validation loss over training: mean and range over seeds; diverged runs dashed."""
    panels = shown_panels(content)
    found, stopped = {}, {}
    for arm, rows in content.chosen.items():
        runs = [content.runs[row["member"]] for row in rows]
        found[arm] = _mean_curve(
            [r.curve("valid", "loss") for r in runs if r.status == "done" and r.metrics]
        )
        stopped[arm] = [r.curve("valid", "loss") for r in runs if r.status == "diverged"]
    finals = [means[-1] for _, means, _, _ in found.values() if means]
    if not finals:
        return None
    starts = [means[0] for _, means, _, _ in found.values() if means]
    best = min(low for _, _, lows, _ in found.values() for low in lows)
    top = max(finals) + 0.3 * max(max(starts) - best, 1e-9)
    pad = 0.05 * (top - best)
    columns = min(3, len(panels))
    figure, grid = panel_grid(
        len(panels), columns, WIDTH if len(panels) > 1 else NARROW, 2.15, sharey=True
    )
    labelled = []
    for axes, panel in zip(grid, panels, strict=True):
        ends = []
        for arm, label in panel.labels.items():
            colour = content.layout.colours[arm]
            steps, means, lows, highs = found[arm]
            if steps:
                axes.fill_between(steps, lows, highs, color=colour, alpha=0.18, lw=0)
                axes.plot(steps, means, color=colour)
                ends.append(((steps[-1], means[-1]), label, colour))
            for xs, ys in stopped[arm]:
                axes.plot(xs, ys, color=colour, lw=0.9, ls=(0, (3, 1.5)))
                axes.plot(xs[-1:], ys[-1:], "x", color=colour, ms=6, mew=1.6, zorder=5)
        axes.set_ylim(best - pad, top)
        axes.set_title(panel.title)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: compact(x)))
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("valid loss (nats/token)")
        labelled.append((axes, ends))
    for axes in grid:
        draw_floor(axes, content, however_far=True)
    _label_lines(content, labelled, columns)
    bottom_label(grid, columns, "step")
    return figure


def _label_lines(
    content: Content,
    labelled: Sequence[tuple[Axes, list[tuple[tuple[Number, Number], str, str]]]],
    columns: int,
) -> None:
    """Name the lines of all panels at their ends, once the limits they share are final.

    What the names are levels of stands above those of the panel at the top right, where there is
    room.
    """
    for i, (axes, ends) in enumerate(labelled):
        if 0 < len(ends) <= 2 * MANY:
            heading = content.layout.coloured if i == min(columns, len(labelled)) - 1 else ""
            end_labels(axes, *zip(*ends, strict=True), heading=heading)


def _tuned_values(content: Content) -> tuple[str, list[Number]] | None:
    """The one tuned key that has several values, all positive numbers, and those values."""
    found = {key: {run.config[key] for run in content.sweep.members} for key in content.sweep.tuned}
    found = {key: values for key, values in found.items() if len(values) > 1}
    if len(found) != 1:
        return None
    (key, values), *_ = found.items()
    numeric = all(isinstance(v, int | Number) and not isinstance(v, bool) for v in values)
    return (key, sorted(values)) if numeric and min(values) > 0 else None


def tuning(content: Content) -> Figure | None:
    """Validation loss by the tuned value: mean and range over seeds, each arm's choice filled."""
    tuned = _tuned_values(content)
    if tuned is None:
        return None
    key, settings = tuned
    losses: dict[str, dict[Number, list[Number]]] = {arm: {} for arm in content.sweep.arms}
    diverged: dict[str, set[Number]] = {arm: set() for arm in content.sweep.arms}
    for run in content.sweep.members:
        value = run.value("valid.loss")
        if run.status == "done" and value is not None:
            losses[run.arm].setdefault(run.config[key], []).append(value)
        elif run.status == "diverged":
            diverged[run.arm].add(run.config[key])
    if not any(losses.values()):
        return None
    panels = shown_panels(content)
    columns = min(3, len(panels))
    width = WIDTH if len(panels) > 1 else NARROW
    _, grid = panel_grid(len(panels), columns, width, 2.15, sharey=True)
    labelled = []
    for axes, panel in zip(grid, panels, strict=True):
        log_axis(axes, settings)
        axes.margins(x=0.1, y=0.12)
        axes.set_title(panel.title)
        ends = []
        for arm, label in panel.labels.items():
            colour = content.layout.colours[arm]
            best = content.chosen[arm][0][key]
            _draw_tuned(axes, losses[arm], best, colour)
            if losses[arm]:
                last = max(losses[arm])
                ends.append(((last, _mean(losses[arm][last])), label, colour))
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("valid loss (nats/token)")
        labelled.append((axes, ends))
        crosses = [(x, arm) for x in settings for arm in panel.labels if x in diverged[arm]]
        for i, (x, arm) in enumerate(crosses):
            height = 0.96 - 0.07 * sum(earlier == x for earlier, _ in crosses[:i])
            mark_diverged(axes, x, content.layout.colours[arm], height=height)
    _label_lines(content, labelled, columns)
    bottom_label(grid, columns, short_keys(content.sweep.tuned)[key])
    return grid[0].figure


def _mean(values: Sequence[Number]) -> Number:
    return math.fsum(values) / len(values)


def _draw_tuned(
    axes: Axes, losses: Mapping[Number, Sequence[Number]], best: Number, colour: str
) -> None:
    """One arm's loss by tuned value."""
    xs = sorted(losses)
    axes.plot(xs, [_mean(losses[x]) for x in xs], color=colour, lw=1.1)
    for x in xs:
        axes.plot([x, x], [min(losses[x]), max(losses[x])], color=colour, alpha=0.35)
        fill = colour if x == best else "white"
        axes.plot(x, _mean(losses[x]), "o", ms=5.5, mec=colour, mew=1.2, mfc=fill)
