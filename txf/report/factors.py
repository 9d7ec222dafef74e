"""The figure of what each factor does: levels, and paired differences between them."""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from txf.report.content import Content
from txf.report.drawing import (
    axis_title,
    draw_floor,
    draw_interval,
    end_labels,
    mark_diverged,
    side_by_side,
)
from txf.report.layout import BASE_COLOUR, MANY, PALETTE, Factor, Level, Stratum, level_colours
from txf.report.style import FAINT, WIDTH
from txf.sweeps.statistics import Number, mean_interval, paired_difference


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a factor's panel.

    Attributes:
        name: what its arms have in common.
        colour: the line's.
        colours: each level's point's.
        values: by level and seed.
        diverged: number of diverged runs by level, and of runs.
    """

    name: str
    colour: str
    colours: Mapping[Level, str]
    values: Mapping[Level, Mapping[Hashable, Number]]
    diverged: Mapping[Level, tuple[int, int]]

    @property
    def known(self) -> list[Level]:
        """The levels that have a finished run."""
        return [level for level, values in self.values.items() if values]


def _reference(content: Content, factor: Factor, strata: Sequence[Stratum]) -> Level:
    """The level that differences are taken from: the base config's, or the first."""
    base = tuple(content.sweep.base[key] for key in factor.keys)
    common = [lv for lv in factor.levels if any(lv in s.arms for s in strata)]
    return base if base in common else common[0]


def _lines(content: Content, column: str, factor: Factor, strata: Sequence[Stratum]) -> list[Line]:
    """The lines of a factor's panel, one a stratum; too many to tell apart become their mean."""
    if len(strata) > MANY:
        return _mean_line(content, column, factor, strata)
    lines = []
    for stratum, colour in zip(strata, _line_colours(content, factor, strata), strict=True):
        own = {lv: content.layout.colours[arm] for lv, arm in stratum.arms.items()}
        lines.append(
            Line(
                stratum.short,
                colour,
                own if len(strata) == 1 else dict.fromkeys(own, colour),
                {lv: content.values(arm, column) for lv, arm in stratum.arms.items()},
                {lv: content.diverged(arm) for lv, arm in stratum.arms.items()},
            )
        )
    return lines


def _mean_line(
    content: Content, column: str, factor: Factor, strata: Sequence[Stratum]
) -> list[Line]:
    """Each seed's mean over the strata that have all seeds at every level; the name says how many.

    A run that diverged or failed takes its stratum out of the mean, and not its seed.
    """
    levels = [lv for lv in factor.levels if any(lv in s.arms for s in strata)]
    tables = [
        {lv: content.values(stratum.arms[lv], column) for lv in levels}
        for stratum in strata
        if all(lv in stratum.arms for lv in levels)
    ]
    seeds = list(dict.fromkeys(s for table in tables for found in table.values() for s in found))
    tables = [table for table in tables if all(s in table[lv] for lv in levels for s in seeds)]
    if not tables:
        return []
    values = {
        lv: {s: math.fsum(table[lv][s] for table in tables) / len(tables) for s in seeds}
        for lv in levels
    }
    name = f"mean over {len(tables)} of {len(strata)} settings of the other factors"
    return [Line(name, BASE_COLOUR, dict.fromkeys(levels, BASE_COLOUR), values, {})]


def _line_colours(content: Content, factor: Factor, strata: Sequence[Stratum]) -> list[str]:
    """A stratum's colour: that which its arms share, or light to dark greys, or by position."""
    shared = [{content.layout.colours[arm] for arm in s.arms.values()} for s in strata]
    if all(len(colours) == 1 for colours in shared):
        return [colours.pop() for colours in shared]
    if len(strata) == 1:
        return [FAINT]
    others = [other for other in content.layout.factors if other is not factor]
    if len(others) == 1:
        greys = level_colours(others[0], "#6a6a6a")
        return [greys[stratum.rest[0]] for stratum in strata]
    return list(PALETTE[: len(strata)])


def by_factor(content: Content, column: str) -> Figure | None:
    """One row a factor: the metric at each level, and its paired difference from a reference level.

    Left: mean and 95 % t-interval over seeds of arms that differ in this factor alone, seeds faint.
    Right: mean difference from the reference over the seeds both have, with the interval of the
    differences, which is what tells levels apart.
    """
    drawn = []
    for factor, strata in zip(content.layout.factors, content.layout.strata, strict=True):
        lines = _lines(content, column, factor, strata) if strata else []
        lines = [line for line in lines if len(line.known) > 1]
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


def _draw_levels(
    axes: Axes, content: Content, column: str, factor: Factor, lines: Sequence[Line]
) -> None:
    ends, crosses = [], []
    for shift, line in zip(side_by_side(len(lines)), lines, strict=True):
        xs, ys = [], []
        for i, level in enumerate(factor.levels):
            if level in line.diverged and line.diverged[level][0]:
                crosses.append((i + shift, line.colours[level], line.diverged[level]))
            if level not in line.known:
                continue
            values, colour = list(line.values[level].values()), line.colours[level]
            estimate = mean_interval(values)
            xs.append(i + shift)
            ys.append(estimate.value)
            axes.plot([i + shift] * len(values), values, "_", color=colour, ms=6, alpha=0.5)
            draw_interval(axes, i + shift, estimate, colour)
        if factor.numeric:
            axes.plot(xs, ys, color=line.colour, lw=1.1, alpha=0.8, zorder=2)
        ends.append(((len(factor.levels) - 1, ys[-1]), line.name, line.colour))
    _level_axis(axes, factor)
    axes.set_ylabel(axis_title(content, column))
    axes.margins(y=0.08)
    if column == content.loss:
        draw_floor(axes, content)
    for x, colour, (diverged, runs) in crosses:
        mark_diverged(axes, x, colour, f"{diverged}/{runs}")
    others = [other.name for other in content.layout.factors if other is not factor]
    if len(ends) > 1:
        end_labels(axes, *zip(*ends, strict=True), heading=", ".join(others))
    elif others and lines[0].name.startswith("mean over"):
        axes.set_title(lines[0].name, fontsize=8, fontweight="normal", color=FAINT)


def _draw_differences(
    axes: Axes,
    content: Content,
    column: str,
    factor: Factor,
    lines: Sequence[Line],
    reference: Level,
) -> None:
    axes.axhline(0, color=FAINT, lw=0.9, zorder=1)
    for shift, line in zip(side_by_side(len(lines)), lines, strict=True):
        for i, level in enumerate(factor.levels):
            if level == reference or level not in line.known or reference not in line.known:
                continue
            estimate = paired_difference(line.values[level], line.values[reference])
            if estimate.n:
                draw_interval(axes, i + shift, estimate, line.colours[level])
    _level_axis(axes, factor)
    axes.plot(factor.levels.index(reference), 0, "D", color="white", mec=FAINT, ms=4.5, zorder=4)
    axes.margins(y=0.12)
    metric = column.removeprefix(f"{content.split}_").replace("_", " ")
    axes.set_ylabel(f"{metric} − that at {factor.labels[reference]}")
