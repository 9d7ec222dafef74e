"""Axes and how they combine: from `product({"model.depth": [1, 2]})` to named, validated members.

A sweep file combines axes over config keys with four functions and gets a plain, immutable `Sweep`:

    product({"model.depth": [1, 2], "seed": range(3)})          every combination: 6 points
    zipped({"model.depth": [1, 2], "model.width": [128, 90]})   side by side: 2 points
    chain(a, b)                                                 the points of a, then those of b
    tune("optimizer.learning_rate", [1e-3, 4e-3])               of which every arm takes its best

Each takes sweeps wherever it takes a dict, so they nest:
`product(chain({"model.depth": [1, 2, 4]}, {"model.num_heads": [1, 4]}), {"seed": range(3)})` moves
one factor at a time around the base config, over three paired seeds.
"""

import copy
import dataclasses
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from txf.config import ConfigError, fingerprint, flatten, set_key, validate
from txf.errors import UserError

SEED = "seed"
LONGEST_NAME = 120  # file systems take 255 bytes a name; members' files need some of it
_SAYS_LITTLE = frozenset({SEED, "name"})  # last parts of keys that mean nothing without their group


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Points in the space of configs, in order, and the keys that every arm tunes for itself.

    A point is what it changes in the base config: pairs of dotted key and value.
    """

    points: tuple[tuple[tuple[str, Any], ...], ...]
    tuned: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of points; `expand` merges those that come to the same config."""
        return len(self.points)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each point as a dict from key to value."""
        return (dict(point) for point in self.points)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that any point sets: in order of first appearance, then the tuned, then seed."""
        keys = dict.fromkeys(key for point in self.points for key, _ in point)
        return tuple(sorted(keys, key=lambda key: (key == SEED, key in self.tuned)))


@dataclasses.dataclass(frozen=True)
class Member:
    """One run of a sweep: a complete config, and what sets it apart from the others.

    `overrides` has the value of every key that the sweep sets anywhere, so that members from
    different parts of a chain compare key by key. `arm` is `name` without the seed and the tuned
    keys.
    """

    name: str
    arm: str
    overrides: Mapping[str, Any]
    config: ConfigDict

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the member's config: equal for members that compute the same."""
        return fingerprint(self.config)


def product(*parts: Sweep | Mapping[str, Any]) -> Sweep:
    """Combine every point of each part with every point of the others; the last varies fastest.

    Raises:
        UserError: an axis is empty or lists a value twice, or two parts set the same key.
    """
    sweeps = [_as_sweep(part, "product") for part in parts]
    _refuse_none_of(sweeps, "product")
    _refuse_shared_keys(sweeps, "product")
    points = tuple(
        tuple(itertools.chain.from_iterable(combination))
        for combination in itertools.product(*(sweep.points for sweep in sweeps))
    )
    return Sweep(points, _tuned(sweeps))


def zipped(*parts: Sweep | Mapping[str, Any]) -> Sweep:
    """Combine the first point of each part, then the second of each, and so on.

    The axes of one dict are zipped with each other: `zipped({"model.depth": [1, 2],
    "model.width": [128, 90]})`.

    Raises:
        UserError: the lengths differ, an axis is empty, or two parts set the same key.
    """
    sweeps = []
    for part in parts:
        if isinstance(part, Sweep):
            sweeps.append(part)
        else:
            sweeps += [_axis(key, values, "zipped", True) for key, values in part.items()]
    _refuse_none_of(sweeps, "zipped")
    _refuse_shared_keys(sweeps, "zipped")
    if len({len(sweep) for sweep in sweeps}) > 1:
        lengths = ", ".join(f"{' and '.join(sweep.keys)} has {len(sweep)}" for sweep in sweeps)
        raise UserError(f"zipped needs axes of one length: {lengths}")
    points = zip(*(sweep.points for sweep in sweeps), strict=True)
    return Sweep(tuple(tuple(itertools.chain.from_iterable(p)) for p in points), _tuned(sweeps))


def chain(*parts: Sweep | Mapping[str, Any]) -> Sweep:
    """Take the points of the first part, then those of the second, and so on.

    A key that a part does not set keeps its value in the base config there. Points that come to
    the same config, such as the base config in each of several one-factor axes, become one member.

    Raises:
        UserError: a part is empty, or tunes a key that another part sets without tuning it.
    """
    sweeps = [_as_sweep(part, "chain") for part in parts]
    _refuse_none_of(sweeps, "chain")
    tuned = _tuned(sweeps)
    for sweep in sweeps:
        if mixed := sorted(set(tuned) & set(sweep.keys) - set(sweep.tuned)):
            raise UserError(
                f"{mixed[0]} is tuned in one part of chain and an ordinary axis in another; an arm "
                "cannot both choose its value and be told apart by it: tune it everywhere"
            )
    return Sweep(tuple(point for sweep in sweeps for point in sweep.points), tuned)


def tune(key: str, values: Any) -> Sweep:
    """An axis that tells no arms apart: every arm is judged at its own best of `values`.

    The best is chosen on the validation split; see `txf.sweeps.table`.

    Raises:
        UserError: `values` is empty or lists a value twice, or `key` is the seed.
    """
    if key == SEED:
        raise UserError("tune: the seed cannot be tuned; it pairs runs across arms")
    return dataclasses.replace(_axis(key, values, "tune"), tuned=(key,))


def apply_overrides(base: ConfigDict, overrides: Mapping[str, Any]) -> ConfigDict:
    """Return a locked copy of `base` with the values of `overrides` (dotted keys) set.

    Raises:
        ConfigError: with a line for each key that does not exist or value of the wrong type.
    """
    config = copy.deepcopy(base)
    problems: list[str] = []
    for key, value in overrides.items():
        try:
            set_key(config, key, value)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return config.lock()


def expand(base: ConfigDict, sweep: Sweep) -> tuple[Member, ...]:
    """Return the members of `sweep` over `base`, in order, named, each config validated.

    Points that come to the same values are one member, in the place of the first.

    Raises:
        UserError: with every problem of every member, a line each, and the members that have it.
    """
    keys = sweep.keys
    _refuse_wrong_values(base, sweep)
    known = flatten(base)
    resolved: dict[tuple[Any, ...], dict[str, Any]] = {}
    for point in sweep:
        set_here = {key: point.get(key, known[key]) for key in keys}
        flat = flatten(apply_overrides(base, set_here))  # with whole numbers made floats, say
        values = {key: flat[key] for key in keys}
        resolved.setdefault(tuple(values.values()), values)
    names = _names(list(resolved.values()), keys)
    arm_keys = [key for key in keys if key != SEED and key not in sweep.tuned]
    arms = _names([{k: v[k] for k in arm_keys} for v in resolved.values()], arm_keys)
    members = tuple(
        Member(name, arm, values, apply_overrides(base, values))
        for name, arm, values in zip(names, arms, resolved.values(), strict=True)
    )
    validate_members(members)
    return members


def validate_members(members: Sequence[Member]) -> None:
    """Validate every member's config.

    Raises:
        UserError: with a line for each problem, and the names of the members that have it.
    """
    sufferers: dict[str, list[str]] = {}
    for member in members:
        try:
            validate(member.config)
        except ConfigError as error:
            for problem in error.problems:
                sufferers.setdefault(problem, []).append(member.name)
    refuse_members(sufferers)


def refuse_members(sufferers: Mapping[str, Sequence[str]]) -> None:
    """Raise a UserError of all problems, a line each, if there are any.

    Args:
        sufferers: from each problem to the names of the members that have it.
    """
    if sufferers:
        lines = [f"{_some(names)}: {problem}" for problem, names in sufferers.items()]
        raise UserError("\n".join(lines))


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Return for each dotted key its last part, or the whole key where that would be ambiguous."""
    last = {key: key.rsplit(".", 1)[-1] for key in keys}
    count = Counter(last.values())
    return {
        key: key if count[part] > 1 or (part in _SAYS_LITTLE and key != SEED) else part
        for key, part in last.items()
    }


def format_value(value: Any) -> str:
    """Return `value` as text that is safe inside a folder name on any file system.

    Floats in their shortest exact form (0.001, 1e-05; 4.0 as 4), tuples with x between the items;
    in texts, every run of characters other than letters, digits and ._+- becomes one `-`.
    """
    if isinstance(value, tuple):
        return "x".join(format_value(item) for item in value) or "empty"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, str):
        return re.sub(r"[^\w.+-]+", "-", value, flags=re.ASCII).strip("-.") or "empty"
    return str(value)


def _as_sweep(part: Sweep | Mapping[str, Any], where: str) -> Sweep:
    if isinstance(part, Sweep):
        return part
    axes = [_axis(key, values, where) for key, values in part.items()]
    if not axes:
        raise UserError(f"{where} was given an empty dict; name a config key and its values")
    return product(*axes) if len(axes) > 1 else axes[0]


def _axis(key: str, values: Any, where: str, repeats_allowed: bool = False) -> Sweep:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise UserError(f"{where}: {key} needs a list of values, not {values!r}; try [{values!r}]")
    plain = [_plain(value) for value in values]
    if not plain:
        raise UserError(f"{where}: {key} has no values")
    for value in plain:
        if not isinstance(value, (str, bool, int, float, tuple, type(None))):
            raise UserError(f"{where}: {key} has the value {value!r}, which no config key takes")
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{where}: {key} has the value {value!r}; it takes finite numbers")
    repeated = [v for v, n in Counter((type(v), v) for v in plain).items() if n > 1]
    if repeated and not repeats_allowed:
        raise UserError(f"{where}: {key} lists {repeated[0][1]!r} twice")
    return Sweep(tuple(((key, value),) for value in plain))


def _plain(value: Any) -> Any:
    """Return NumPy's scalars as Python's, and lists as tuples, so that a sweep is immutable."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    return value.item() if hasattr(value, "item") else value


def _tuned(sweeps: Sequence[Sweep]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for sweep in sweeps for key in sweep.tuned))


def _refuse_none_of(sweeps: Sequence[Sweep], where: str) -> None:
    if not sweeps or not all(len(sweep) for sweep in sweeps):
        raise UserError(f"{where} has nothing to combine; give it axes that have values")


def _refuse_shared_keys(sweeps: Sequence[Sweep], where: str) -> None:
    count = Counter(key for sweep in sweeps for key in sweep.keys)
    if shared := [key for key, times in count.items() if times > 1]:
        raise UserError(f"{where}: {', '.join(shared)} is set by more than one of its parts")


def _refuse_wrong_values(base: ConfigDict, sweep: Sweep) -> None:
    """Refuse keys that do not exist and values of the wrong type, each problem once."""
    problems: dict[str, None] = {}
    for key, value in dict.fromkeys(pair for point in sweep.points for pair in point):
        try:
            apply_overrides(base, {key: value})
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise UserError("\n".join(f"the sweep: {problem}" for problem in problems))


def _names(members: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[str]:
    """Return a name for each member: what it sets, safe and unique even where case is ignored."""
    short = short_keys(keys)
    names = [
        ",".join(f"{short[key]}={format_value(member[key])}" for key in keys) or "base"
        for member in members
    ]
    exact = [repr([(key, member[key]) for key in keys]) for member in members]
    alike: dict[str, set[str]] = {}
    for name, values in zip(names, exact, strict=True):
        alike.setdefault(_shortened(name).casefold(), set()).add(values)
    return [
        _shortened(name)
        if len(name) <= LONGEST_NAME and len(alike[name.casefold()]) == 1
        else f"{_shortened(name)}-{hashlib.sha256(values.encode()).hexdigest()[:8]}"
        for name, values in zip(names, exact, strict=True)
    ]


def _shortened(name: str) -> str:
    return name[:LONGEST_NAME].rstrip(" .,=")


def _some(names: Sequence[str], shown: int = 2) -> str:
    more = len(names) - shown
    return (
        " and ".join(names[:shown]) if more <= 0 else f"{', '.join(names[:shown])} and {more} more"
    )
