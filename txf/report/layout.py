"""How a sweep is laid out on paper: its factors, which arms share a panel, and each arm's colour.

Two shapes of sweep are common.  In a grid every combination of levels is an arm: one factor gives
the colour, the combinations of the others give the panels.  In a chain one factor moves at a time
around a base: every factor gets a panel and a hue, its levels run from light to dark, and the base
is black.
An arm has one colour throughout a report.
"""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence

from txf.sweeps.grid import format_value, short_keys
from txf.sweeps.reading import SweepRecord, hashable

# Okabe and Ito 2008, told apart with any kind of colour vision; without yellow, faint on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5C9E", "#8C564B")
BASE_COLOUR = "#222222"
MANY = 8  # more lines than this in one panel cannot be told apart

Level = tuple[Hashable, ...]


@dataclasses.dataclass(frozen=True)
class Factor:
    """One thing that was varied: a key, or keys that moved together.

    Attributes:
        keys: the config keys.
        name: for reading.
        levels: its values in order, one value a key each.
        labels: a level for reading.
    """

    keys: tuple[str, ...]
    name: str
    levels: tuple[Level, ...]
    labels: Mapping[Level, str]

    @property
    def numeric(self) -> bool:
        """Whether its (first) values are numbers."""
        return all(
            isinstance(level[0], int | float) and not isinstance(level[0], bool)
            for level in self.levels
        )


@dataclasses.dataclass(frozen=True)
class Stratum:
    """Arms that differ in one factor alone, by its level, and what they have in common.

    Attributes:
        name: the levels of the other factors: `depth = 2, num_heads = 4`.
        short: the same without the factors' names: `2, 4`.
        rest: the same as levels, in the order of the factors.
        arms: arms by level.
    """

    name: str
    short: str
    rest: tuple[Level, ...]
    arms: Mapping[Level, str]


@dataclasses.dataclass(frozen=True)
class Panel:
    """Arms that share a panel, with a label each."""

    title: str
    labels: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a sweep; see the module's docstring.

    Attributes:
        factors: what was varied.
        strata: for each factor (by position) the sets of arms that differ in it alone.
        panels: arms by panel.
        colours: each arm's colour.
        legend: label and colour of the levels that colours stand for; empty where every arm has
            its own.
        coloured: the factor that gives the colour; empty where none does.
    """

    factors: tuple[Factor, ...]
    strata: tuple[tuple[Stratum, ...], ...]
    panels: tuple[Panel, ...]
    colours: Mapping[str, str]
    legend: Mapping[str, str]
    coloured: str = ""


def level_of(sweep: SweepRecord, arm: str, keys: Sequence[str]) -> Level:
    """An arm's values of some keys."""
    config = sweep.arms[arm][0].config
    return tuple(hashable(config[key]) for key in keys)


def find_factors(sweep: SweepRecord) -> tuple[Factor, ...]:
    """The factors of a sweep; keys that split its arms in the same way are one factor."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for key in sweep.factors:
        seen: dict[Level, int] = {}
        split = tuple(seen.setdefault(level_of(sweep, arm, [key]), len(seen)) for arm in sweep.arms)
        groups.setdefault(split, []).append(key)
    short = short_keys(sweep.factors)
    factors = []
    for keys in groups.values():
        levels = list(dict.fromkeys(level_of(sweep, arm, keys) for arm in sweep.arms))
        if all(isinstance(level[0], int | float) for level in levels):
            levels.sort()
        labels = {level: ", ".join(_value(value) for value in level) for level in levels}
        name = ", ".join(short[key] for key in keys)
        factors.append(Factor(tuple(keys), name, tuple(levels), labels))
    return tuple(factors)


def _value(value: Hashable) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else format_value(value)


def find_strata(
    sweep: SweepRecord, factors: Sequence[Factor], factor: Factor
) -> tuple[Stratum, ...]:
    """The sets of at least two arms that differ in one factor alone, levels in order."""
    others = [other for other in factors if other is not factor]
    grouped: dict[tuple[Level, ...], dict[Level, str]] = {}
    for arm in sweep.arms:
        rest = tuple(level_of(sweep, arm, other.keys) for other in others)
        grouped.setdefault(rest, {})[level_of(sweep, arm, factor.keys)] = arm
    strata = []
    for rest, arms in grouped.items():
        if len(arms) > 1:
            named = [(o.name, o.labels[level]) for o, level in zip(others, rest, strict=True)]
            name = ", ".join(f"{key} = {label}" for key, label in named)
            short = ", ".join(label for _, label in named)
            in_order = {level: arms[level] for level in factor.levels if level in arms}
            strata.append(Stratum(name, short, rest, in_order))
    return tuple(strata)


def shade(colour: str, amount: float | int) -> str:
    """A colour made lighter (amount > 0, up to 1 = white) or darker (amount < 0, -1 = black)."""
    end = 255 if amount > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (end - part) * abs(amount)):02x}" for part in parts)


def level_colours(factor: Factor, hue: str | None = None) -> dict[Level, str]:
    """A colour for each level: one hue from light to dark for numbers, different hues for names."""
    count = len(factor.levels)
    if hue is None and not factor.numeric and count <= len(PALETTE):
        return dict(zip(factor.levels, PALETTE, strict=False))
    steps = [0.4 - 0.9 * i / max(1, count - 1) for i in range(count)]
    return {
        level: shade(hue or PALETTE[0], step)
        for level, step in zip(factor.levels, steps, strict=True)
    }


def lay_out(sweep: SweepRecord) -> Layout:
    """The layout of a sweep."""
    factors = find_factors(sweep)
    strata = tuple(find_strata(sweep, factors, factor) for factor in factors)
    arms = list(sweep.arms)
    grid = len(arms) > 1 and math.prod(len(factor.levels) for factor in factors) == len(arms)
    if grid and factors:
        return _grid(sweep, factors, strata)
    if any(strata):
        return _chain(sweep, factors, strata)
    if len(arms) <= len(PALETTE):
        colours = dict(zip(arms, PALETTE, strict=False))
    else:
        colours = dict.fromkeys(arms, PALETTE[0])
    panel = Panel("", {arm: arm for arm in arms})
    return Layout(factors, strata, (panel,), colours, {})


def _grid(
    sweep: SweepRecord, factors: tuple[Factor, ...], strata: tuple[tuple[Stratum, ...], ...]
) -> Layout:
    """Colour by the factor that needs it most: names before numbers, then the most levels."""
    chosen = max(
        range(len(factors)),
        key=lambda i: (
            len(factors[i].levels) <= MANY,
            not factors[i].numeric,
            len(factors[i].levels),
            -i,
        ),
    )
    factor = factors[chosen]
    by_level = level_colours(factor)
    colours = {arm: by_level[level_of(sweep, arm, factor.keys)] for arm in sweep.arms}
    panels = tuple(
        Panel(stratum.name, {arm: factor.labels[lv] for lv, arm in stratum.arms.items()})
        for stratum in strata[chosen]
    )
    legend = {
        f"{factor.name} = {factor.labels[level]}": colour for level, colour in by_level.items()
    }
    return Layout(factors, strata, panels, colours, legend, factor.name)


def _chain(
    sweep: SweepRecord, factors: tuple[Factor, ...], strata: tuple[tuple[Stratum, ...], ...]
) -> Layout:
    """A panel for each set of arms that differ in one factor; arms in several panels are black."""
    panels, colours = [], {}
    count: dict[str, int] = {}
    for position, (factor, sets) in enumerate(zip(factors, strata, strict=True)):
        ramp = level_colours(factor, PALETTE[position % len(PALETTE)])
        for stratum in sets:
            panels.append(
                Panel(factor.name, {arm: factor.labels[lv] for lv, arm in stratum.arms.items()})
            )
            for level, arm in stratum.arms.items():
                count[arm] = count.get(arm, 0) + 1
                colours[arm] = ramp[level]
    colours |= {arm: BASE_COLOUR for arm, times in count.items() if times > 1}
    rest = [arm for arm in sweep.arms if arm not in count]
    if rest:
        panels.append(Panel("other arms", {arm: arm for arm in rest}))
        colours |= {arm: "#888888" for arm in rest}
    return Layout(factors, strata, tuple(panels), colours, {})
