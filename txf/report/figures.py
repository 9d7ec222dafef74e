"""The figures of a report.  Each takes the content and gives a figure, or None: nothing to show.

All draw with explicit Figure objects: no pyplot, no state that one figure could leave to the next.
"""

import math
from collections.abc import Callable, Hashable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from txf.report.content import Content
from txf.report.layout import BASE_COLOUR, MANY, PALETTE, Factor, Level, Stratum, level_colours
from txf.report.style import FAINT, RULE, WIDTH, end_labels
from txf.sweeps.statistics import Estimate, mean_interval, paired_difference
from txf.sweeps.table import compact

MOST_PANELS = 24


def _unit(content: Content, column: str) -> str:
    metric = column.removeprefix(f"{content.split}_").replace("_", " ")
    return f"{content.split} {metric}" + (" (nats/token)" if metric == "loss" else "")


def _interval(
    axes: Axes,
    x: float,
    estimate: Estimate,
    colour: str,
    *,
    size: float = 5.5,
    upright: bool = True,
) -> None:
    """A mean as a dot with its 95 % interval as a bar; without an interval the dot is hollow."""
    known = estimate.low is not None and estimate.high is not None
    if known:
        ends = [estimate.low, estimate.high]
        axes.plot(*(([x, x], ends) if upright else (ends, [x, x])), color=colour, lw=1.5, zorder=3)
    point = (x, estimate.value) if upright else (estimate.value, x)
    axes.plot(
        *([p] for p in point),
        "o",
        color=colour,
        ms=size,
        mfc=colour if known else "white",
        mec="white" if known else colour,
        mew=0.8 if known else 1.3,
        zorder=4,
    )


def _floor(axes: Axes, content: Content, upright: bool = True) -> None:
    """The corpus's floor as a dotted line, where the axis reaches it; named at the edge elsewhere."""
    floor = content.floor
    if floor is None:
        return
    low, high = axes.get_ylim() if upright else axes.get_xlim()
    text = f"floor {floor:.3f}"
    if floor < low - 0.6 * (high - low):
        where = (0.01, 0.02) if upright else (0.005, 0.0)
        label = f"↓ {text}" if upright else f"← {text}"
        axes.annotate(
            label, where, xycoords="axes fraction", color=FAINT, fontsize=7.5, va="bottom"
        )
        return
    line = {"color": FAINT, "lw": 1.0, "ls": (0, (1, 1.5)), "zorder": 1}
    if upright:
        axes.set_ylim(min(low, floor - 0.04 * (high - low)), high)
        axes.axhline(floor, **line)
        where, coordinates, va = (0.01, floor), ("axes fraction", "data"), "bottom"
    else:
        axes.set_xlim(min(low, floor - 0.04 * (high - low)), high)
        axes.axvline(floor, **line)
        where, coordinates, va = (floor, 0.0), ("data", "axes fraction"), "bottom"
        text = f" {text}"
    axes.annotate(text, where, xycoords=coordinates, color=FAINT, fontsize=7.5, va=va)


def _grid(count: int, columns: int, width: float, height: float, **options) -> tuple[Figure, list]:
    """A figure of `count` panels, `columns` a row, and the axes in order."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width, 0.55 + rows * height))
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    axes = list(grid.flat)
    for extra in axes[count:]:
        extra.remove()
    figure.subplots_adjust(
        hspace=0.42, wspace=0.42 if columns > 1 else 0.2, left=0.08, right=0.87, top=0.93
    )
    return figure, axes[:count]


def _legend(figure: Figure, content: Content) -> None:
    """What colours stand for, above the panels."""
    if not content.layout.legend:
        return
    handles = [
        figure.axes[0].plot([], [], "o-", color=colour, ms=4, label=label)[0]
        for label, colour in content.layout.legend.items()
    ]
    top = max(axes.get_position().y1 for axes in figure.axes)
    height = figure.get_figheight()
    titled = any(axes.get_title(loc="left") for axes in figure.axes)
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.06, top + (0.26 if titled else 0.06) / height),
        ncols=min(4, len(handles)),
        handlelength=1.2,
        columnspacing=1.4,
        borderpad=0,
    )


def loss_by_arm(content: Content) -> Figure | None:
    """Every arm's loss, best first: seeds faint, mean and 95 % interval, the floor dotted."""
    shown = [arm for arm in content.ranking if content.values(arm, content.loss)]
    if not shown:
        return None
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
        _interval(axes, row, content.estimate(arm, content.loss), colour, upright=False)
    axes.set_yticks(range(len(shown)), [arm.replace(",", ", ") for arm in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.06)
    axes.set_xlabel(_unit(content, content.loss))
    axes.spines["left"].set_visible(False)
    _floor(axes, content, upright=False)
    return figure


def _offsets(count: int) -> list[float]:
    """Sideways shifts that keep several series at one position apart."""
    step = min(0.12, 0.5 / max(1, count))
    return [step * (i - (count - 1) / 2) for i in range(count)]


def _reference(content: Content, factor: Factor, strata: Sequence[Stratum]) -> Level:
    """The level that differences are taken from: the base config's, or the first."""
    base = tuple(content.sweep.base[key] for key in factor.keys)
    common = [lv for lv in factor.levels if any(lv in s.arms for s in strata)]
    return base if base in common else common[0]


def _stratum_lines(
    content: Content, column: str, factor: Factor, strata: Sequence[Stratum]
) -> list[tuple[str, str, dict[Level, dict[Hashable, float]]]]:
    """(label, colour, values by level and seed) of each line of a factor's panel.

    More strata than can be told apart become one line: each seed's mean over the strata in which
    every level has that seed.
    """
    lines = []
    for stratum in strata:
        by_level = {lv: content.values(arm, column) for lv, arm in stratum.arms.items()}
        lines.append([stratum.short, stratum, by_level])
    if len(lines) <= MANY:
        colours = _line_colours(content, factor, strata)
        return [(name, c, v) for (name, _, v), c in zip(lines, colours, strict=True)]
    levels = [lv for lv in factor.levels if all(lv in v for _, _, v in lines)]
    if not levels:
        return []
    sums: dict[Level, dict[Hashable, list[float]]] = {lv: {} for lv in levels}
    for _, _, by_level in lines:
        for seed in by_level[levels[0]]:
            if all(seed in by_level[lv] for lv in levels):
                for lv in levels:
                    sums[lv].setdefault(seed, []).append(by_level[lv][seed])
    most = max((len(v) for found in sums.values() for v in found.values()), default=0)
    means = {
        lv: {s: math.fsum(v) / len(v) for s, v in found.items() if len(v) == most}
        for lv, found in sums.items()
    }
    return [(f"mean over {most} settings of the other factors", BASE_COLOUR, means)]


def _line_colours(content: Content, factor: Factor, strata: Sequence[Stratum]) -> list[str]:
    """A colour for each stratum: that which its arms share; else light to dark greys, or by position."""
    shared = [{content.layout.colours[arm] for arm in s.arms.values()} for s in strata]
    if all(len(colours) == 1 for colours in shared):
        return [colours.pop() for colours in shared]
    if len(strata) == 1:
        return [BASE_COLOUR]
    others = [other for other in content.layout.factors if other is not factor]
    if len(others) == 1:
        greys = level_colours(others[0], "#6a6a6a")
        return [greys[stratum.rest[0]] for stratum in strata]
    return [PALETTE[i % len(PALETTE)] for i in range(len(strata))]


def by_factor(content: Content, column: str) -> Figure | None:
    """One row a factor: the metric at each level, and its paired difference from a reference level.

    Left: mean and 95 % t-interval over seeds of arms that differ in this factor alone, seeds faint.
    Right: mean difference from the reference over the seeds both have, with the interval of the
    differences, which is what tells levels apart.
    """
    drawn = []
    for factor, strata in zip(content.layout.factors, content.layout.strata, strict=True):
        lines = _stratum_lines(content, column, factor, strata) if strata else []
        lines = [line for line in lines if sum(bool(v) for v in line[2].values()) > 1]
        if lines:
            drawn.append((factor, lines, _reference(content, factor, strata)))
    if not drawn:
        return None
    figure = Figure(figsize=(WIDTH, 0.3 + 2.35 * len(drawn)))
    grid = figure.subplots(len(drawn), 2, squeeze=False)
    figure.subplots_adjust(
        hspace=0.5, wspace=0.6, left=0.08, right=0.9, top=1 - 0.3 / figure.get_figheight()
    )
    for (left, right), (factor, lines, reference) in zip(grid, drawn, strict=True):
        _draw_levels(left, content, column, factor, lines)
        _draw_differences(right, content, column, factor, lines, reference)
    return figure


def _level_axis(axes: Axes, factor: Factor) -> None:
    axes.set_xticks(range(len(factor.levels)), [factor.labels[lv] for lv in factor.levels])
    axes.set_xlim(-0.5, len(factor.levels) - 0.5)
    axes.set_xlabel(factor.name)


def _draw_levels(axes: Axes, content: Content, column: str, factor: Factor, lines) -> None:
    ends = []
    for shift, (name, colour, by_level) in zip(_offsets(len(lines)), lines, strict=True):
        xs, ys = [], []
        for i, level in enumerate(factor.levels):
            values = by_level[level] if level in by_level else {}
            if not values:
                continue
            estimate = mean_interval(values.values())
            xs.append(i + shift)
            ys.append(estimate.value)
            axes.plot(
                [i + shift] * len(values), list(values.values()), "_", color=colour, ms=6, alpha=0.5
            )
            _interval(axes, i + shift, estimate, colour)
        if factor.numeric:
            axes.plot(xs, ys, color=colour, lw=1.1, alpha=0.8, zorder=2)
        ends.append((name, colour, ys[-1]))
    _level_axis(axes, factor)
    axes.set_ylabel(_unit(content, column))
    axes.margins(y=0.08)
    if column == content.loss:
        _floor(axes, content)
    if len(ends) > 1:
        points = [(len(factor.levels) - 1, y) for _, _, y in ends]
        end_labels(axes, points, [name for name, _, _ in ends], [c for _, c, _ in ends])
        others = [other.name for other in content.layout.factors if other is not factor]
        axes.annotate(
            ",\n".join(others),
            (1.015, 1.0),
            xycoords="axes fraction",
            color=FAINT,
            fontsize=7.5,
            va="bottom",
        )
    elif lines[0][0].startswith("mean over"):
        axes.set_title(lines[0][0], fontsize=8, fontweight="normal", color=FAINT)


def _draw_differences(
    axes: Axes, content: Content, column: str, factor: Factor, lines, reference: Level
) -> None:
    axes.axhline(0, color=FAINT, lw=0.9, zorder=1)
    for shift, (_, colour, by_level) in zip(_offsets(len(lines)), lines, strict=True):
        for i, level in enumerate(factor.levels):
            if level == reference or level not in by_level or reference not in by_level:
                continue
            estimate = paired_difference(by_level[level], by_level[reference])
            if estimate.n:
                _interval(axes, i + shift, estimate, colour)
    _level_axis(axes, factor)
    axes.plot(factor.levels.index(reference), 0, "D", color="white", mec=FAINT, ms=4.5, zorder=4)
    axes.margins(y=0.12)
    metric = column.removeprefix(f"{content.split}_").replace("_", " ")
    axes.set_ylabel(f"{metric} − that at {factor.labels[reference]}")


def _panels(content: Content) -> list:
    """The layout's panels that have anything to show, no more than fit."""
    return list(content.layout.panels)[:MOST_PANELS]


def _mean_curve(
    curves: Sequence[tuple[list[int], list[float]]],
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Steps that all seeds have, with mean, lowest and highest over the seeds."""
    if not curves:
        return [], [], [], []
    steps = sorted(set.intersection(*(set(steps) for steps, _ in curves)))
    tables = [dict(zip(*curve, strict=True)) for curve in curves]
    columns = [[table[step] for table in tables] for step in steps]
    means = [math.fsum(column) / len(column) for column in columns]
    return steps, means, [min(c) for c in columns], [max(c) for c in columns]


def learning_curves(content: Content) -> Figure | None:
    """Validation loss over training: mean over seeds, the band their range; diverged runs dashed."""
    panels = _panels(content)
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
    top = max(finals) + 0.35 * max(max(starts) - best, 1e-9)
    pad = 0.05 * (top - best)
    columns = min(3, len(panels))
    figure, grid = _grid(len(panels), columns, WIDTH if len(panels) > 1 else 5.4, 2.15, sharey=True)
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
    for axes, ends in labelled:  # when all panels are drawn: they share their limits
        _floor(axes, content)
        if 0 < len(ends) <= 2 * MANY:
            end_labels(axes, *zip(*ends, strict=True))
    _bottom_label(figure, grid, columns, "step")
    _legend(figure, content)
    return figure


def _bottom_label(figure: Figure, grid: Sequence[Axes], columns: int, text: str) -> None:
    for axes in grid[-columns:]:
        axes.set_xlabel(text)


def loss_by_cost(content: Content) -> Figure | None:
    """Loss against parameters and against FLOPs a token, with the front no arm is better than."""
    costs = (("parameters", "parameters"), ("flops_per_token", "training FLOPs a token"))
    rows = {row["arm"]: row for row in content.arms.to_dict("records")}
    drawn = []
    for column, label in costs:
        points = {
            arm: (float(row[column]), content.estimate(arm, content.loss))
            for arm, row in rows.items()
            if isinstance(row[column], int | float) and content.values(arm, content.loss)
        }
        if len({x for x, _ in points.values()}) > 1:
            drawn.append((label, points))
    if not drawn:
        return None
    figure, grid = _grid(len(drawn), 2, WIDTH, 2.9, sharey=True)
    for axes, (label, points) in zip(grid, drawn, strict=True):
        front, lowest = [], math.inf
        for x, y in sorted((x, e.value) for x, e in points.values()):
            if y < lowest:
                front.append((x, y))
                lowest = y
        axes.plot(*zip(*front, strict=True), color=RULE, lw=2.4, zorder=1)
        reach = math.log(max(x for x, _ in points.values()) / min(x for x, _ in points.values()))
        for x in {x: None for x, _ in points.values()}:
            here = [arm for arm in content.ranking if arm in points and points[arm][0] == x]
            for shift, arm in zip(_offsets(len(here)), here, strict=True):  # side by side
                beside = x * math.exp(0.16 * shift * reach)
                _interval(axes, beside, points[arm][1], content.layout.colours[arm])
        _log_axis(axes, [x for x, _ in points.values()])
        axes.margins(x=0.08, y=0.08)
        axes.set_xlabel(label)
        if axes is grid[0]:
            axes.set_ylabel(_unit(content, content.loss))
        _floor(axes, content)
    if not content.layout.legend:
        _name_points(grid[-1], drawn[-1][1], content)
    _legend(figure, content)
    return figure


def _name_points(axes: Axes, points: dict[str, tuple[float, Estimate]], content: Content) -> None:
    """Name arms at the right, in the order of their loss, where colours do not say which they are."""
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


def _log_axis(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic x axis with few, readable ticks at values that occur."""
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    distinct = sorted(set(values))
    ticks = [distinct[0]]
    reach = math.log(distinct[-1] / distinct[0]) or 1.0
    for value in distinct[1:]:
        if math.log(value / ticks[-1]) > 0.16 * reach:
            ticks.append(value)
    axes.set_xticks(ticks, [compact(tick) for tick in ticks])


def tuning(content: Content) -> Figure | None:
    """Validation loss by the tuned value: mean and range over seeds, each arm's choice filled."""
    keys = [
        key
        for key in content.sweep.tuned
        if len({run.config[key] for run in content.sweep.members}) > 1
    ]
    if len(keys) != 1:
        return None
    key = keys[0]
    settings = sorted({run.config[key] for run in content.sweep.members})
    if not all(isinstance(value, int | float) and value > 0 for value in settings):
        return None
    panels = _panels(content)
    losses: dict[str, dict[float, list[float]]] = {}
    diverged: dict[str, dict[float, int]] = {}
    for arm, runs in content.sweep.arms.items():
        losses[arm], diverged[arm] = {}, {}
        for run in runs:
            value = run.value("valid.loss")
            if run.status == "done" and value is not None:
                losses[arm].setdefault(run.config[key], []).append(value)
            elif run.status == "diverged":
                diverged[arm][run.config[key]] = diverged[arm].get(run.config[key], 0) + 1
    if not any(losses.values()):
        return None
    columns = min(3, len(panels))
    figure, grid = _grid(len(panels), columns, WIDTH if len(panels) > 1 else 5.4, 2.15, sharey=True)
    labelled = []
    for axes, panel in zip(grid, panels, strict=True):
        _log_axis(axes, settings)
        axes.margins(x=0.1, y=0.12)
        axes.set_title(panel.title)
        ends = []
        for arm, label in panel.labels.items():
            colour = content.layout.colours[arm]
            xs = [x for x in settings if x in losses[arm]]
            ys = [math.fsum(losses[arm][x]) / len(losses[arm][x]) for x in xs]
            best = content.chosen[arm][0][key]
            for x in xs:
                axes.plot(
                    [x, x], [min(losses[arm][x]), max(losses[arm][x])], color=colour, alpha=0.35
                )
            axes.plot(xs, ys, color=colour, lw=1.1)
            for x, y in zip(xs, ys, strict=True):
                axes.plot(
                    x, y, "o", ms=5.5, mec=colour, mew=1.2, mfc=colour if x == best else "white"
                )
            if xs:
                ends.append(((xs[-1], ys[-1]), label, colour))
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("valid loss (nats/token)")
        labelled.append((axes, ends))
        _mark_diverged(axes, panel.labels, diverged, content)
    for axes, ends in labelled:  # when all panels are drawn: they share their limits
        if 0 < len(ends) <= 2 * MANY:
            end_labels(axes, *zip(*ends, strict=True))
    _bottom_label(
        figure, grid, columns, content.sweep.tuned[0].rsplit(".", 1)[-1].replace("_", " ")
    )
    _legend(figure, content)
    return figure


def _mark_diverged(axes: Axes, arms, diverged, content: Content) -> None:
    """Crosses above a value at which runs diverged, one an arm."""
    stacked: dict[float, int] = {}
    for arm in arms:
        for x in diverged[arm]:
            height = 0.96 - 0.07 * stacked.get(x, 0)
            stacked[x] = stacked.get(x, 0) + 1
            axes.plot(
                x,
                height,
                "x",
                color=content.layout.colours[arm],
                ms=6,
                mew=1.6,
                transform=axes.get_xaxis_transform(),
            )


FIGURES: dict[str, Callable[[Content], Figure | None]] = {
    "loss_by_arm": loss_by_arm,
    "loss_by_factor": lambda content: by_factor(content, content.loss),
    "accuracy_by_factor": lambda content: by_factor(content, f"{content.split}_accuracy"),
    "learning_curves": learning_curves,
    "loss_by_cost": loss_by_cost,
    "tuning": tuning,
}
