"""Arms of equal size: the width, or the feed-forward ratio, at which two models cost the same.

    match(config, reference, quantity="parameters", by="model.width").value
    matched(base, {"model.depth": [1, 2, 4, 8]}, quantity="parameters", by="model.width")

The second is an axis for a sweep file: each value of `model.depth` with the width at which the
model has the parameters that `base` has.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from txf.config import ConfigError, validate
from txf.errors import UserError
from txf.nn.cost import parameter_count, training_flops_per_token
from txf.sweeps.estimate import data_size
from txf.sweeps.grid import Sweep, apply_overrides, zipped

QUANTITIES = {"parameters": parameter_count, "flops": training_flops_per_token}
KNOBS = ("model.width", "model.mlp_ratio")
WIDEST = 1 << 16  # and the widest hidden layer: beyond this a sweep means something else


@dataclasses.dataclass(frozen=True)
class Match:
    """The value found, and how much of the quantity the model then has, as a share of the wish."""

    value: int | float
    ratio: float


def match(
    config: ConfigDict,
    reference: ConfigDict,
    quantity: str = "parameters",
    by: str = "model.width",
    tolerance: float = 0.05,
) -> Match:
    """Return the value of `by` at which `config` has as much of `quantity` as `reference`.

    Widths are whole multiples of what the config asks for (`model.num_heads`, say); ratios are such
    that the hidden layer is a whole number wide. Of those the one whose quantity is nearest.

    Args:
        config: what is to be sized; its own value of `by` does not matter.
        reference: what it is to be as large as.
        quantity: `parameters`, or `flops` (of training, per token).
        by: `model.width` or `model.mlp_ratio`.
        tolerance: how far the ratio may be from 1.

    Raises:
        UserError: no value comes within the tolerance; the message says what the nearest reaches.
    """
    if quantity not in QUANTITIES:
        raise UserError(f"quantity={quantity!r} is unknown; choose {' or '.join(QUANTITIES)}")
    if by not in KNOBS:
        raise UserError(f"by={by!r} is unknown; choose {' or '.join(KNOBS)}")
    target = _amount(reference, quantity)
    found: dict[int, float] = {}

    def value(k: int) -> int | float:
        return k * _unit(config) if by == "model.width" else k / config.model.width

    def amount(k: int) -> float:
        if k not in found:
            found[k] = _amount(apply_overrides(config, {by: value(k)}), quantity)
        return found[k]

    above = _first_at_least(target, amount, WIDEST // _unit(config))
    near = [k for k in range(above - 2, above + 3) if k >= 1]
    best = min(near, key=lambda k: abs(amount(k) / target - 1))
    reached = Match(value(best), amount(best) / target)
    if abs(reached.ratio - 1) > tolerance:
        other = KNOBS[by == KNOBS[0]]
        raise UserError(
            f"no {by} gives within {tolerance:.1%} of the reference's {target:.6g} {quantity}; the "
            f"nearest, {by}={reached.value:g}, has {reached.ratio:.1%} of it; match by {other}, or "
            "allow a larger tolerance"
        )
    try:
        validate(apply_overrides(config, {by: reached.value}))
    except ConfigError as error:
        raise UserError(f"matching by {by} gives a model that cannot be run: {error}") from error
    return reached


def matched(
    base: ConfigDict,
    axes: Mapping[str, Any],
    quantity: str = "parameters",
    by: str = "model.width",
    tolerance: float = 0.05,
    reference: ConfigDict | None = None,
) -> Sweep:
    """Return `zipped(axes)` with `by` added, each point as large as `reference` (None: `base`).

    Raises:
        UserError: `axes` is no axis, or a point cannot be matched; the message names it.
    """
    points = list(zipped(axes))
    values = []
    for point in points:
        try:
            config = apply_overrides(base, point)
            found = match(config, base if reference is None else reference, quantity, by, tolerance)
        except UserError as error:
            listed = ", ".join(f"{key}={value}" for key, value in point.items())
            raise UserError(f"{listed}: {error}") from error
        values.append(found.value)
    columns = {key: [point[key] for point in points] for key in points[0]}
    return zipped({**columns, by: values})


def _amount(config: ConfigDict, quantity: str) -> float:
    size = data_size(config)
    return float(
        QUANTITIES[quantity](
            config.model,
            size.vocab_size,
            config.data.context_length,
            task=config.task,
            num_classes=size.num_classes,
        )
    )


def _unit(config: ConfigDict) -> int:
    """Return what a width has to be a multiple of: the heads, and pairs of features for RoPE."""
    model = config.model
    if model.family != "transformer":
        return 1
    return model.num_heads * (2 if model.positions == "rope" else 1)


def _first_at_least(target: float, amount: Callable[[int], float], most: int) -> int:
    """Return the smallest k with amount(k) >= target, by doubling and bisection; at most `most`."""
    high = 1
    while high < most and amount(high) < target:
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if amount(middle) >= target else (middle, high)
    return high
