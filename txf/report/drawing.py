"""What the figures share: intervals, the floor, panels, axes, legends and labels at lines' ends."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from txf.report.content import Content
from txf.report.layout import Panel
from txf.report.style import FAINT
from txf.sweeps.statistics import Estimate, Number
from txf.sweeps.table import compact

MOST_PANELS = 24


def axis_title(content: Content, column: str) -> str:
    """A metric's column for reading, with its unit."""
    metric = column.removeprefix(f"{content.split}_").replace("_", " ")
    return f"{content.split} {metric}" + (" (nats/token)" if metric == "loss" else "")


def draw_interval(
    axes: Axes,
    x: Number,
    estimate: Estimate,
    colour: str,
    *,
    size: Number = 5.5,
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


def draw_floor(
    axes: Axes, content: Content, upright: bool = True, however_far: bool = False
) -> None:
    """The corpus's floor as a dotted line, or named at the edge where the axis is far from it.

    `however_far` stretches the axis to where the floor is.
    """
    floor = content.floor
    if floor is None:
        return
    low, high = axes.get_ylim() if upright else axes.get_xlim()
    text = f"floor {floor:.3f}"
    if floor < low - 0.6 * (high - low) and not however_far:
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


def panel_grid(
    count: int, columns: int, width: Number, height: Number, **options
) -> tuple[Figure, list]:
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


def draw_legend(figure: Figure, content: Content) -> None:
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


def side_by_side(count: int) -> list[Number]:
    """Sideways shifts that keep several series at one position apart."""
    step = min(0.12, 0.5 / max(1, count))
    return [step * (i - (count - 1) / 2) for i in range(count)]


def shown_panels(content: Content) -> list[Panel]:
    """The layout's panels, no more than fit."""
    return list(content.layout.panels)[:MOST_PANELS]


def bottom_label(grid: Sequence[Axes], columns: int, text: str) -> None:
    """Name the x axis under the lowest panel of each column."""
    for axes in grid[-columns:]:
        axes.set_xlabel(text)


def log_axis(axes: Axes, values: Sequence[Number]) -> None:
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


def spread(positions: Sequence[Number], gap: Number) -> list[Number]:
    """Move positions apart to at least `gap`, each as little as possible; keeps their order.

    Labels at the ends of lines use it.  Runs of labels that touch are centred on the mean of where
    they want to be (isotonic regression on positions less their rank times gap).
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    blocks: list[list[Number]] = []  # mean of wish, number of members
    for rank, index in enumerate(order):
        blocks.append([positions[index] - rank * gap, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            wish, count = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + wish * count) / (last[1] + count)
            last[1] += count
    placed = [wish for wish, count in blocks for _ in range(int(count))]
    result = [0.0] * len(positions)
    for rank, index in enumerate(order):
        result[index] = placed[rank] + rank * gap
    return result


def end_labels(
    axes: Axes,
    ends: Sequence[tuple[Number, Number]],
    labels: Sequence[str],
    colours: Sequence[str],
    heading: str = "",
) -> None:
    """Name lines at their right ends, in their colours, moved apart where they would touch.

    Call after the axes' limits are final.

    Args:
        axes: linear in y.
        ends: x and y of each line's end.
        labels: one a line.
        colours: one a line.
        heading: what the labels are levels of, written above them.
    """
    low, high = axes.get_ylim()
    height = axes.get_position().height * axes.figure.get_figheight() * 72
    gap = (high - low) * 9.5 / max(height, 1.0)
    tall = [min(max(y, low), high) for _, y in ends]
    placed = spread(tall, gap)
    rows = list(zip(ends, tall, placed, labels, colours, strict=True))
    if heading:
        top = max(range(len(ends)), key=lambda i: placed[i])
        rows.append((ends[top], tall[top], placed[top] + 1.25 * gap, heading, FAINT))
    for (x, _), want, y, label, colour in rows:
        axes.annotate(
            label,
            (x, want),
            xytext=(1.015, (y - low) / (high - low)),
            textcoords="axes fraction",
            color=colour,
            fontsize=8,
            va="center",
            annotation_clip=False,
        )


def mark_diverged(
    axes: Axes, x: Number, colour: str, text: str = "", height: Number = 0.96
) -> None:
    """A cross near the top of a panel for runs that diverged and so have no place on its y axis."""
    across = axes.get_xaxis_transform()
    axes.plot(x, height, "x", color=colour, ms=6, mew=1.6, transform=across, clip_on=False)
    if text:
        axes.annotate(
            text,
            (x, height),
            xycoords=across,
            xytext=(5, 0),
            textcoords="offset points",
            color=colour,
            fontsize=7.5,
            va="center",
        )
