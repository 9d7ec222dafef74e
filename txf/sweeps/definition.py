"""What a sweep is before it runs: the sweep file, and its record in SWEEP/sweep.json."""

import dataclasses
import importlib.util
import inspect
import json
import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from txf import files
from txf.config import HARMLESS, diff, flatten, from_json, to_json
from txf.errors import UserError
from txf.sweeps.grid import Member, Sweep, apply_overrides, expand, product
from txf.sweeps.hypotheses import Hypothesis, check_hypotheses
from txf.sweeps.reading import make_record

RECORD = "sweep.json"
RUNS = "runs"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A sweep file, read: its question, base config, members and hypotheses.

    `keys` are all keys the sweep sets, `tuned` those whose best value every arm finds for itself,
    `source` is the text of the file.
    """

    path: str
    question: str
    source: str
    base: ConfigDict
    keys: tuple[str, ...]
    tuned: tuple[str, ...]
    members: tuple[Member, ...]
    hypotheses: tuple[Hypothesis, ...]


def load_experiment(
    path: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None
) -> Experiment:
    """Read the sweep file at `path`, with `overrides` set in the base config of every member.

    `get_sweep` and `get_hypotheses` may take one argument, the base config with the overrides set;
    axes computed from the base (see `txf.sweeps.matching`) then follow the overrides.

    Raises:
        UserError: the file cannot be read or run, lacks one of its functions, describes members
            that cannot be run, or varies a key that `overrides` sets.
    """
    overrides = dict(overrides or {})
    path = os.fspath(path)
    source, module = _load_module(path)
    get_config, get_sweep, get_hypotheses = (
        _function(path, module, name) for name in ("get_config", "get_sweep", "get_hypotheses")
    )
    base = _call(path, get_config)
    if not isinstance(base, ConfigDict):
        raise UserError(f"{path}: get_config returns {type(base).__name__}; return a ConfigDict")
    base = apply_overrides(base, overrides)
    sweep = _call_with_base(path, get_sweep, base)
    if isinstance(sweep, Mapping):
        sweep = product(sweep)
    if not isinstance(sweep, Sweep):
        raise UserError(
            f"{path}: get_sweep returns {type(sweep).__name__}; return what product, zipped, chain "
            "or tune gives"
        )
    if clashes := [key for key in overrides if key in sweep.keys]:
        flags = ", ".join(f"--config.{key}" for key in clashes)
        raise UserError(
            f"{flags}: the sweep itself sets {', '.join(clashes)}; change that axis in {path}"
        )
    hypotheses = _call_with_base(path, get_hypotheses, base)
    if not isinstance(hypotheses, Iterable) or any(
        not isinstance(hypothesis, Hypothesis) for hypothesis in hypotheses
    ):
        raise UserError(f"{path}: get_hypotheses returns a list from txf.sweeps.hypotheses, or []")
    try:
        members = expand(base, sweep)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    experiment = Experiment(
        path=path,
        question=inspect.cleandoc(module.__doc__ or os.path.basename(path)),
        source=source,
        base=base,
        keys=sweep.keys,
        tuned=sweep.tuned,
        members=members,
        hypotheses=tuple(hypotheses),
    )
    content = _content(experiment)
    parts = ("question", "members", "tuned", "base")
    description = make_record(**{part: content[part] for part in parts})
    if problems := check_hypotheses(experiment.hypotheses, description):
        raise UserError("\n".join(f"{path}: {problem}" for problem in problems))
    return experiment


def run_folder(sweep_dir: str | os.PathLike[str], member: str) -> epath.Path:
    """Return the folder of the run of the member of that name: SWEEP/runs/NAME."""
    return files.absolute(sweep_dir) / RUNS / member


def settle(experiment: Experiment, sweep_dir: str | os.PathLike[str]) -> Experiment:
    """Return `experiment` as it continues what `sweep_dir` already holds.

    A sweep may grow: members recorded earlier keep the names, and so the folders, they have, even
    where a new axis would name them otherwise. It may lose members that were not begun. Nothing is
    written.

    Raises:
        UserError: the folder holds something else, the base config has changed, a member that has
            been begun is gone, or a run in the folder has another config than its member.
    """
    folder = files.absolute(sweep_dir)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--workdir={sweep_dir} is a file; name a folder for the sweep")
    if (folder / "config.json").exists():
        raise UserError(f"--workdir={sweep_dir} holds a single run; name another folder")
    if (folder / RECORD).exists():
        recorded = read_record(folder)
        _refuse_changed_base(experiment, recorded, folder)
        experiment = _keep_names(experiment, recorded)
        _refuse_lost_members(experiment, recorded, folder)
    for member in experiment.members:
        refuse_changed_run(member, run_folder(folder, member.name))
    return experiment


def record(experiment: Experiment, sweep_dir: str | os.PathLike[str]) -> None:
    """Write SWEEP/sweep.json, whole or not at all: all that later reading of the sweep needs."""
    files.write_json(files.absolute(sweep_dir) / RECORD, _content(experiment))


def read_record(sweep_dir: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of SWEEP/sweep.json.

    Raises:
        UserError: there is no such file, or it is not a sweep's record.
    """
    path = files.absolute(sweep_dir) / RECORD
    content = files.read_json(path)
    wanted = ("question", "keys", "tuned", "members", "hypotheses", "base")
    if not isinstance(content, dict) or any(part not in content for part in wanted):
        raise UserError(f"{path} is not the record of a sweep; it needs {', '.join(wanted)}")
    return content


def refuse_changed_run(member: Member, folder: epath.Path) -> None:
    """Raise a UserError if `folder` holds a run that computes something else than `member`."""
    path = folder / "config.json"
    if not path.exists():
        return
    theirs = from_json(json.dumps(files.read_json(path)))
    changes = {k: v for k, v in diff(member.config, theirs).items() if k not in HARMLESS}
    if changes:
        listed = ", ".join(f"{key} was {was!r}, is {now!r}" for key, (was, now) in changes.items())
        raise UserError(
            f"member {member.name} has been run with another config: {listed}; undo the change, "
            f"use another --workdir, or delete {folder}"
        )


def _load_module(path: str) -> tuple[str, ModuleType]:
    file = epath.Path(path)
    if not path.endswith(".py") or not file.exists() or file.is_dir():
        raise UserError(f"--sweep={path}: there is no such Python file; see configs/sweeps/")
    try:
        source = file.read_text()
        code = compile(source, path, "exec")
    except SyntaxError as error:
        raise UserError(f"{path}:{error.lineno}: {error.msg}") from None
    except (UnicodeDecodeError, ValueError, OSError) as error:
        raise UserError(f"--sweep={path} cannot be read: {error}") from None
    name = os.path.basename(path).removesuffix(".py")
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(f"sweep_{name}", loader=None, origin=path)
    )
    module.__file__ = path
    _call(path, lambda: exec(code, module.__dict__))
    return source, module


def _function(path: str, module: ModuleType, name: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(
            f"{path} has no function {name}; a sweep file defines get_config, get_sweep and "
            "get_hypotheses"
        )
    return function


def _call(path: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what a person wrote in the sweep file; its mistakes become one line with their place."""
    try:
        return function(*arguments)
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        place = f"{path}:{lines[-1]}" if lines else path
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        raise UserError(f"{place}: {kind}{error}") from error


def _call_with_base(path: str, function: Callable[..., Any], base: ConfigDict) -> Any:
    takes_base = len(inspect.signature(function).parameters) > 0
    return _call(path, function, *([base] if takes_base else []))


def _refuse_changed_base(
    experiment: Experiment, recorded: Mapping[str, Any], folder: epath.Path
) -> None:
    swept = {*experiment.keys, *recorded["keys"], *HARMLESS}
    was = from_json(json.dumps(recorded["base"]))
    changes = {k: v for k, v in diff(experiment.base, was).items() if k not in swept}
    if changes:
        listed = ", ".join(f"{key} was {old!r}, is {new!r}" for key, (old, new) in changes.items())
        raise UserError(
            f"{folder} holds a sweep over another base config: {listed}; undo the change or use "
            "another --workdir"
        )


def _keep_names(experiment: Experiment, recorded: Mapping[str, Any]) -> Experiment:
    """Give members that are on record the name they have there."""
    by_fingerprint: dict[str, list[Mapping[str, Any]]] = {}
    for entry in recorded["members"]:
        by_fingerprint.setdefault(entry["fingerprint"], []).append(entry)
    members = []
    for member in experiment.members:
        flat = flatten(member.config)
        names = [
            entry["name"]
            for entry in by_fingerprint.get(member.fingerprint, [])
            if all(flat[key] == value for key, value in entry["overrides"].items())
        ]
        members.append(dataclasses.replace(member, name=names[0]) if names else member)
    return dataclasses.replace(experiment, members=tuple(members))


def _refuse_lost_members(
    experiment: Experiment, recorded: Mapping[str, Any], folder: epath.Path
) -> None:
    names = {member.name for member in experiment.members}
    lost: Sequence[str] = [
        entry["name"]
        for entry in recorded["members"]
        if entry["name"] not in names and run_folder(folder, entry["name"]).exists()
    ]
    if lost:
        raise UserError(
            f"{folder} has runs that are no longer in the sweep: {', '.join(lost)}; put them back, "
            f"use another --workdir, or delete their folders in {folder / RUNS}"
        )


def _content(experiment: Experiment) -> dict[str, Any]:
    members = [
        {
            "name": member.name,
            "arm": member.arm,
            "overrides": dict(member.overrides),
            "fingerprint": member.fingerprint,
        }
        for member in experiment.members
    ]
    return {
        "question": experiment.question,
        "file": os.path.basename(experiment.path),
        "source": experiment.source,
        "keys": list(experiment.keys),
        "tuned": list(experiment.tuned),
        "members": members,
        "hypotheses": [hypothesis.to_dict() for hypothesis in experiment.hypotheses],
        "base": json.loads(to_json(experiment.base)),
    }
