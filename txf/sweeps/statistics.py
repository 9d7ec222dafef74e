"""What the numbers of a sweep can say: means, differences, equivalence, slopes, with intervals.

Pure functions of numbers.  Two conventions hold throughout:

- What cannot be known is None, never a guess: no value has no mean, one value has a mean and no
  interval, values that do not vary have no standardized effect size.
- Only finite numbers are averaged.  A diverged run is no number; whoever calls counts it separately
  and says so next to the mean.  A non-finite value is refused with a ValueError.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
from scipy import special

SCALES = ("linear", "log")

Number = float | int


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number with what is known of its uncertainty.

    Attributes:
        value: the estimate, None where there is no data.
        low: lower end of the interval, None where one cannot be given (n < 2).
        high: upper end of the interval, None where one cannot be given.
        n: how many independent values went in.
        deviation: sample standard deviation (n - 1) of those values, None for n < 2.
        effect: value minus the null over the deviation (Cohen's d_z for paired differences), None
            for n < 2 or values that do not vary.
        p_value: two-sided p of the null, None for n < 2.
    """

    value: Number | None
    low: Number | None
    high: Number | None
    n: int
    deviation: Number | None = None
    effect: Number | None = None
    p_value: Number | None = None


def _finite(values: Iterable[Number]) -> np.ndarray:
    """The values as a float64 vector; a non-finite one is an error of the caller."""
    array = np.asarray(list(values), dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError("only finite values can be averaged; count diverged runs separately")
    return array


def t_quantile(probability: float, freedom: Number) -> float:
    """The quantile of Student's t with `freedom` degrees of freedom."""
    return float(special.stdtrit(freedom, probability))


def _two_sided(t: float, freedom: Number) -> float:
    return float(2.0 * special.stdtr(freedom, -abs(t)))


def mean_interval(
    values: Iterable[Number], *, confidence: float = 0.95, null: Number = 0.0
) -> Estimate:
    """Mean and its t-interval: m ± t_{(1+c)/2, n-1} · s / √n.

    Args:
        values: independent finite values, one a seed.
        confidence: coverage of the interval, between 0 and 1.
        null: the value that `p_value` and `effect` are measured from.

    Returns:
        The estimate.  n = 0: all None.  n = 1: the value alone.  Values that do not vary (exact
        quantities, such as a parameter count) have an interval of width zero, no effect size, and a
        p-value of 1 on the null and 0 off it.
    """
    array = _finite(values)
    n = array.size
    if n == 0:
        return Estimate(None, None, None, 0)
    if n == 1:
        return Estimate(float(array[0]), None, None, 1)
    value, deviation = float(np.mean(array)), float(np.std(array, ddof=1))
    if np.all(array == array[0]) or deviation == 0.0:  # rounding hides either from the other
        value = float(array[0])
        return Estimate(value, value, value, n, 0.0, None, 1.0 if value == null else 0.0)
    error = deviation / math.sqrt(n)
    half = t_quantile((1.0 + confidence) / 2.0, n - 1) * error
    return Estimate(
        value,
        value - half,
        value + half,
        n,
        deviation,
        (value - null) / deviation,
        _two_sided((value - null) / error, n - 1),
    )


def common_differences(
    left: Mapping[Hashable, Number], right: Mapping[Hashable, Number]
) -> dict[Hashable, Number]:
    """Differences left - right for the seeds that both have, in the order of `left`."""
    return {seed: left[seed] - right[seed] for seed in left if seed in right}


def paired_difference(
    left: Mapping[Hashable, Number],
    right: Mapping[Hashable, Number],
    *,
    confidence: float = 0.95,
    null: Number = 0.0,
) -> Estimate:
    """Mean of left - right over the seeds that both have, with the t-interval of the differences.

    The same seed gives both arms the same batches, so that what the seed does to both cancels.
    `effect` is Cohen's d_z = mean / deviation of the differences.

    Args:
        left: value by seed.
        right: value by seed; seeds only one side has are left out.
        confidence: coverage of the interval.
        null: the difference that `p_value` and `effect` are measured from.
    """
    differences = common_differences(left, right)
    return mean_interval(differences.values(), confidence=confidence, null=null)


def bootstrap_interval(
    values: Iterable[Number],
    statistic: Callable[[np.ndarray], Number] = np.median,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """A percentile bootstrap of any statistic, where a t-interval is not right (medians, shares).

    Args:
        values: independent finite values.
        statistic: a function of a vector.
        confidence: coverage of the interval.
        resamples: number of resamples drawn.
        seed: the same seed gives the same interval.

    Returns:
        The statistic with its interval; None as in `mean_interval` for n < 2.
    """
    array = _finite(values)
    n = array.size
    if n == 0:
        return Estimate(None, None, None, 0)
    value = float(statistic(array))
    if n == 1:
        return Estimate(value, None, None, 1)
    generator = np.random.Generator(np.random.Philox(key=seed))
    rows = generator.integers(0, n, size=(resamples, n))
    drawn = np.asarray([float(statistic(array[row])) for row in rows])
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return Estimate(value, float(low), float(high), n, float(np.std(array, ddof=1)))


def equivalence(
    differences: Iterable[Number], margin: Number, *, significance: float = 0.05
) -> Estimate:
    """Two one-sided t-tests (TOST) that a mean difference lies inside (-margin, margin).

    The difference is equivalent to zero at `significance` when `p_value` (the larger of the two
    one-sided) is below it, which is when the 1 - 2 · significance interval, the one returned, lies
    inside the margins.  Schuirmann 1987.

    Args:
        differences: one finite difference a seed.
        margin: the largest difference that does not matter, > 0, in the metric's unit.
        significance: the level of each one-sided test.
    """
    if not margin > 0:
        raise ValueError(f"an equivalence test needs a margin > 0, not {margin}")
    estimate = mean_interval(differences, confidence=1.0 - 2.0 * significance)
    if estimate.n < 2:
        return estimate
    if estimate.deviation == 0.0:
        return dataclasses.replace(estimate, p_value=float(abs(estimate.value) >= margin))
    error = estimate.deviation / math.sqrt(estimate.n)
    freedom = estimate.n - 1
    above = float(special.stdtr(freedom, -(estimate.value + margin) / error))
    below = float(special.stdtr(freedom, (estimate.value - margin) / error))
    return dataclasses.replace(estimate, p_value=max(above, below))


def scaled(values: Iterable[Number], scale: str) -> np.ndarray:
    """The values on a scale: `linear` as they are, `log` the natural logarithm of values > 0."""
    array = _finite(values)
    match scale:
        case "linear":
            return array
        case "log":
            if not np.all(array > 0):
                raise ValueError("a logarithmic scale needs values > 0")
            return np.log(array)
        case _:
            raise ValueError(f"unknown scale {scale!r}; known: {', '.join(SCALES)}")


def slope(
    x: Iterable[Number],
    y: Iterable[Number],
    *,
    x_scale: str = "linear",
    y_scale: str = "linear",
    confidence: float = 0.95,
) -> Estimate:
    """Least-squares slope of y on x, with the t-interval of the fit (n - 2 degrees of freedom).

    With both scales `log` it is the exponent b of y = a · x^b.

    Args:
        x: at least two different values.
        y: as many values.
        x_scale: linear or log.
        y_scale: linear or log.
        confidence: coverage of the interval.

    Returns:
        The slope; None where x does not vary, no interval for fewer than three points.
        `deviation` is the standard error of the slope.
    """
    xs, ys = scaled(x, x_scale), scaled(y, y_scale)
    if xs.size != ys.size:
        raise ValueError(f"a slope needs as many x as y, not {xs.size} and {ys.size}")
    n = xs.size
    spread = float(np.sum((xs - np.mean(xs)) ** 2)) if n else 0.0
    if n < 2 or spread == 0.0:
        return Estimate(None, None, None, n)
    value = float(np.sum((xs - np.mean(xs)) * (ys - np.mean(ys))) / spread)
    if n == 2:
        return Estimate(value, None, None, n)
    rest = ys - np.mean(ys) - value * (xs - np.mean(xs))
    error = math.sqrt(float(np.sum(rest**2)) / (n - 2) / spread)
    if error == 0.0:
        return Estimate(value, value, value, n, 0.0, None, 1.0 if value == 0.0 else 0.0)
    half = t_quantile((1.0 + confidence) / 2.0, n - 2) * error
    p_value = _two_sided(value / error, n - 2)
    return Estimate(value, value - half, value + half, n, error, None, p_value)


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """y = floor + coefficient · x^exponent, the exponent with its interval."""

    exponent: Estimate
    coefficient: float | None
    floor: Number


def power_law(
    x: Iterable[Number], y: Iterable[Number], *, floor: Number = 0.0, confidence: float = 0.95
) -> PowerLaw:
    """Fit y = floor + a · x^b with a known floor, by least squares on log-log.

    Args:
        x: scale (parameters, characters), > 0.
        y: loss, > floor.
        floor: the loss no model can beat; storyworld's is known exactly.
        confidence: coverage of the exponent's interval.
    """
    xs, excess = _finite(x), _finite(y) - floor
    if not np.all(excess > 0):
        raise ValueError("a power law needs values above the floor")
    exponent = slope(xs, excess, x_scale="log", y_scale="log", confidence=confidence)
    coefficient = None
    if exponent.value is not None:
        coefficient = math.exp(
            float(np.mean(np.log(excess)) - exponent.value * np.mean(np.log(xs)))
        )
    return PowerLaw(exponent, coefficient, floor)


def more_events(events: int, trials: int, other_events: int, other_trials: int) -> float:
    """Fisher's exact one-sided p that the first group has more events than the second by chance.

    Used for diverged runs, which can be counted but not averaged: 3 of 3 against 0 of 3 gives 0.05.
    """
    total, drawn = trials + other_trials, events + other_events
    ways = math.comb(total, drawn)
    most = min(trials, drawn)
    return (
        sum(
            math.comb(trials, k) * math.comb(other_trials, drawn - k)
            for k in range(events, most + 1)
            if drawn - k <= other_trials
        )
        / ways
    )


def holm(p_values: Sequence[Number | None]) -> list[float | None]:
    """Holm's step-down correction of p-values for testing several hypotheses at once.

    Sorted ascending, the i-th of m is multiplied by m - i (i from 0), kept monotone and at most 1.
    None (no test was possible) stays None and does not count.  Holm 1979.
    """
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, index) in enumerate(order):
        running = max(running, min(1.0, p * (len(order) - rank)))
        adjusted[index] = running
    return adjusted
