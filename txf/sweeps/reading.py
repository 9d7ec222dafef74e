"""A sweep's folder read back: its members, what varied between them, and what each run left.

Everything that looks at a finished sweep (results.csv, verdicts, the report) starts from
`read_sweep`.  Nothing here needs a model, a device or a run that is complete.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Hashable, Mapping
from typing import Any

from etils import epath

from txf.config import flatten
from txf.errors import UserError
from txf.files import read_json

STATUSES = ("done", "diverged", "failed", "unfinished", "missing")


def hashable(value: Any) -> Hashable:
    """The value, or its JSON text where it is a list or mapping."""
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict | tuple) else value


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a sweep, as it stands in the folder.

    Attributes:
        name: the run's folder under SWEEP/runs.
        arm: the name all members share that differ only in seed and tuned keys.
        config: the complete config, dotted keys.
        status: done, diverged, failed, unfinished (begun, no result yet) or missing (not begun).
        result: result.json, empty where there is none.
        folder: the run's folder.
    """

    name: str
    arm: str
    config: Mapping[str, Any]
    status: str
    result: Mapping[str, Any]
    folder: epath.Path

    def value(self, path: str) -> float | None:
        """A number of result.json by its dotted path (`test.loss`), None where it is absent.

        `diverged` is 1 for a diverged run and 0 for one that is done.
        """
        if path == "diverged":
            return {"diverged": 1.0, "done": 0.0}.get(self.status)
        found = flatten(self.result).get(path)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return None
        return float(found) if math.isfinite(found) else None

    @functools.cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; a last line that a kill cut short is left out."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        lines = []
        for line in path.read_text().splitlines():
            try:
                lines.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return lines

    def curve(self, split: str, key: str) -> tuple[list[int], list[float]]:
        """Steps and finite values of one metric over training."""
        pairs = [
            (line["step"], float(line[key]))
            for line in self.metrics
            if line["split"] == split and line.get(key) is not None and math.isfinite(line[key])
        ]
        return [step for step, _ in pairs], [value for _, value in pairs]


@dataclasses.dataclass(frozen=True)
class SweepRecord:
    """A sweep's folder: the question, its members in order, and which keys vary in which role.

    Attributes:
        question: the docstring of the sweep file.
        members: in the order of sweep.json.
        tuned: keys of which each arm is judged at its own best value.
        hypotheses: as sweep.json has them.
        base: the base config, dotted keys.
        overridden: all keys any member overrides, in order of first appearance.
        seeds: keys that vary between members of one arm and are not tuned; members with equal
            values of them are pairs.
        factors: keys that vary between arms.
    """

    question: str
    members: tuple[Run, ...]
    tuned: tuple[str, ...]
    hypotheses: tuple[Mapping[str, Any], ...]
    base: Mapping[str, Any]
    overridden: tuple[str, ...]
    seeds: tuple[str, ...]
    factors: tuple[str, ...]

    @functools.cached_property
    def arms(self) -> dict[str, list[Run]]:
        """Members by arm, in order of first appearance."""
        arms: dict[str, list[Run]] = {}
        for member in self.members:
            arms.setdefault(member.arm, []).append(member)
        return arms

    def seed(self, member: Run) -> Hashable:
        """What identifies a member's pair in another arm."""
        return tuple(hashable(member.config[key]) for key in self.seeds)

    def setting(self, member: Run) -> tuple[Hashable, ...]:
        """The member's values of the tuned keys."""
        return tuple(hashable(member.config[key]) for key in self.tuned)


def _roles(
    arms: Mapping[str, list[Mapping[str, Any]]], keys: tuple[str, ...], tuned: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the keys that vary: those within an arm (seeds), those between arms (factors)."""
    within, between = [], []
    for key in keys:
        if key in tuned:
            continue
        values = [{hashable(config[key]) for config in configs} for configs in arms.values()]
        if key == "seed" or any(len(found) > 1 for found in values):
            within.append(key)
        elif len(set().union(*values)) > 1:
            between.append(key)
    if "seed" not in within:
        within.insert(0, "seed")
    return tuple(within), tuple(between)


def make_record(
    *,
    question: str,
    members: list[Mapping[str, Any]],
    tuned: list[str] | tuple[str, ...],
    base: Mapping[str, Any],
    hypotheses: list[Mapping[str, Any]] | tuple[Mapping[str, Any], ...] = (),
    sweep_dir: epath.PathLike | None = None,
) -> SweepRecord:
    """A sweep from the content of sweep.json, with what its runs have left so far.

    Args:
        question: the sweep's question.
        members: {'name', 'overrides', 'arm'} each.
        tuned: keys tuned within an arm.
        base: the base config, nested.
        hypotheses: as `txf.sweeps.hypotheses` writes them.
        sweep_dir: the folder with runs/; None before there is one (every member is missing).
    """
    flat = {"seed": 0, **flatten(base)}
    overridden: dict[str, None] = {}
    for member in members:
        overridden.update(dict.fromkeys(member["overrides"]))
    read = []
    for member in members:
        folder = epath.Path(sweep_dir or ".") / "runs" / member["name"]
        status, result = ("missing", {}) if sweep_dir is None else _outcome(folder)
        config = {**flat, **member["overrides"]}
        read.append(Run(member["name"], member["arm"], config, status, result, folder))
    arms: dict[str, list[Mapping[str, Any]]] = {}
    for member in read:
        missing = [key for key in overridden if key not in member.config]
        if missing:
            raise UserError(
                f"sweep.json: the base config has no {missing[0]}, which a member overrides"
            )
        arms.setdefault(member.arm, []).append(member.config)
    seeds, factors = _roles(arms, tuple(overridden), tuple(tuned))
    return SweepRecord(
        question=question,
        members=tuple(read),
        tuned=tuple(tuned),
        hypotheses=tuple(hypotheses),
        base=flat,
        overridden=tuple(overridden),
        seeds=seeds,
        factors=factors,
    )


def _outcome(folder: epath.Path) -> tuple[str, dict[str, Any]]:
    """Status and result of one run's folder."""
    if not folder.exists():
        return "missing", {}
    path = folder / "result.json"
    if not path.exists():
        return "unfinished", {}
    result = read_json(path)
    status = result.get("status")
    if status not in STATUSES:
        raise UserError(f"{path}: unknown status {status!r}; known: {', '.join(STATUSES)}")
    return status, result


def read_sweep(sweep_dir: epath.PathLike) -> SweepRecord:
    """Read a sweep's folder, complete or not.

    Raises:
        UserError: the folder holds no readable sweep.json.
    """
    path = epath.Path(sweep_dir) / "sweep.json"
    if not path.exists():
        raise UserError(f"{path} does not exist; give the folder of a sweep as --workdir")
    content = read_json(path)
    try:
        base = content["base"]
        return make_record(
            question=content["question"],
            members=content["members"],
            tuned=content["tuned"],
            base=json.loads(base) if isinstance(base, str) else base,
            hypotheses=content["hypotheses"],
            sweep_dir=sweep_dir,
        )
    except KeyError as error:
        raise UserError(f"{path} is not a sweep's description: it lacks {error}") from error
