"""The folder of a run: what is in it, whether it may be continued, how it is opened again."""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
from etils import epath
from ml_collections import ConfigDict

from txf import files, hosts, subprocesses
from txf.config import HARMLESS, diff, fingerprint, from_json, to_json, validate
from txf.data.dataset import Dataset
from txf.data.tokenizers import Tokenizer, load_tokenizer
from txf.errors import RunError, UserError

# More steps continue a run; they are no other experiment. All else that is not harmless is.
MAY_CHANGE = HARMLESS | {"training.steps"}
# A network file system may show a new file late.
SECONDS_TO_APPEAR = 5.0


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The paths below a run's folder, and what can be read there."""

    path: epath.Path

    @classmethod
    def at(cls, workdir: str | os.PathLike[str]) -> "RunFolder":
        """Return the folder at `workdir`, wherever the current folder may move to."""
        return cls(files.absolute(workdir))

    @property
    def checkpoints(self) -> epath.Path:
        """The folder that Orbax keeps."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> epath.Path:
        """The file with a line for each (step, split)."""
        return self.path / "metrics.jsonl"

    @property
    def events(self) -> epath.Path:
        """The folder of TensorBoard's event files, where they are asked for."""
        return self.path / "tensorboard"

    def exists(self) -> bool:
        """Tell whether a run was begun here."""
        return (self.path / "config.json").exists()

    @cached_property
    def config(self) -> ConfigDict:
        """The config the run was begun or last continued with.

        Raises:
            UserError: there is no run here, or its config cannot be read.
        """
        if not self.exists():
            raise UserError(f"there is no run at {self.path} (no config.json)")
        try:
            return from_json((self.path / "config.json").read_text())
        except ValueError as error:
            raise UserError(f"{self.path / 'config.json'} is not a config: {error}") from error

    def tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer that was saved with the run, if it got that far."""
        path = self.path / "tokenizer.json"
        return load_tokenizer(path) if path.exists() else None

    def labels(self) -> tuple[str, ...] | None:
        """Return the names of the classes that were saved with the run, if it has classes."""
        path = self.path / "labels.json"
        return tuple(files.read_json(path)["labels"]) if path.exists() else None

    def num_classes(self) -> int | None:
        """Return the number of classes of a classifier or tagger, or None."""
        labels = self.labels()
        return None if labels is None else len(labels)

    def keep_reading(self, dataset: Dataset) -> None:
        """Keep what it takes to read this run's outputs, and what its data was.

        tokenizer.json; labels.json where there are classes; data.json with a digest of each split.

        Raises:
            UserError: the run was begun with other data.
        """
        described = describe(dataset)
        if differing := _differing(hosts.first(described), described):
            raise UserError(
                f"process {hosts.index()} reads other data than process 0 "
                f"({', '.join(differing)}); all hosts must have the same"
            )
        if changed := self._changed(described):
            raise UserError(
                f"the data of the run at {self.path} has changed since it was begun "
                f"({', '.join(changed)}); bring the old data back, or choose another --workdir"
            )
        hosts.gather()  # all have read what was there
        if hosts.is_first():
            dataset.tokenizer.save(self.path / "tokenizer.json")
            if dataset.labels is not None:
                files.write_json(self.path / "labels.json", {"labels": list(dataset.labels)})
            if not (self.path / "data.json").exists():
                files.write_json(self.path / "data.json", described)

    def changed_splits(self, dataset: Dataset) -> list[str]:
        """Return the splits of `dataset` that are not those the run was begun with."""
        return self._changed(describe(dataset))

    def _changed(self, described: dict[str, Any]) -> list[str]:
        path = self.path / "data.json"
        return _differing(files.read_json(path), described) if path.exists() else []

    def steps_trained(self) -> int:
        """Return the number of the newest checkpoint, or 0."""
        if not self.checkpoints.exists():
            return 0
        names = (path.name for path in self.checkpoints.iterdir())
        return max((int(name) for name in names if name.isdigit()), default=0)

    def result(self) -> dict[str, Any] | None:
        """Return what result.json holds, or None."""
        path = self.path / "result.json"
        return files.read_json(path) if path.exists() else None

    def was_made_here(self) -> bool:
        """Tell whether this process computes as the one did that trained the run, to the bit."""
        path = self.path / "environment.json"
        return path.exists() and files.read_json(path)["computes_as"] == computes_as()

    def write_result(self, result: dict[str, Any]) -> None:
        """Write result.json, whole or not at all."""
        files.write_json(self.path / "result.json", result)


def threads_of(workdir: str | os.PathLike[str]) -> int | None:
    """Return how many threads the run at `workdir`, or those of the sweep there, compute with.

    None where nothing has been run, or threads do not matter: on an accelerator.
    """
    folder, runs = files.absolute(workdir), files.absolute(workdir) / "runs"
    for place in (folder, *(sorted(runs.iterdir()) if runs.is_dir() else ())):
        path = place / "environment.json"
        if path.exists() and (count := files.read_json(path).get("computes_as", {}).get("threads")):
            return count
    return None


def check(config: ConfigDict, workdir: str | os.PathLike[str]) -> RunFolder:
    """Return the folder at `workdir`, which may be trained in with `config`; change nothing there.

    Raises:
        UserError: the config is wrong, the folder cannot be written to, or it holds a run of
            another config; every key that differs is named.
    """
    validate(config)
    folder = RunFolder.at(workdir)
    if changed := diff(config, from_json(hosts.first(to_json(config)))):
        raise UserError(
            f"process {hosts.index()} was started with another config than process 0 "
            f"({', '.join(changed)}); give all of them the same command"
        )
    if hosts.is_first():
        _try_to_write(folder, workdir)
    hosts.gather()
    if not folder.exists():
        return folder
    changed = diff(config, folder.config)
    if barred := {key: pair for key, pair in changed.items() if key not in MAY_CHANGE}:
        lines = "; ".join(f"{key} was {old!r}, now {new!r}" for key, (old, new) in barred.items())
        raise UserError(
            f"{folder.path} holds a run of another config ({lines}); "
            "choose another --workdir, or ask for the same again"
        )
    steps, trained = config.training.steps, folder.steps_trained()
    if steps < trained:
        raise UserError(
            f"training.steps={steps} is less than the {trained} steps that the run at "
            f"{folder.path} has taken; ask for as many or more, or choose another --workdir"
        )
    return folder


def begin(folder: RunFolder, config: ConfigDict) -> None:
    """Write down that training begins or goes on in `folder` with `config`, which `check` passed.

    Raises:
        RunError: the folder cannot be written to.
        UserError: the folder is not the same on all hosts.
    """
    _check_shared(folder.path)
    if hosts.is_first():
        changed = diff(config, folder.config) if folder.exists() else {}
        if not folder.exists() or changed:
            files.write_text(folder.path / "config.json", to_json(config))
        _record_start(folder, changed)


def _check_shared(path: epath.Path) -> None:
    """See to it that every process finds what the first one writes.

    Raises:
        UserError: one does not.
    """
    if hosts.count() == 1:
        return
    token = path / hosts.first(f".seen-by-all-{os.getpid()}-{time.time_ns()}")
    files.write_text(token, "")
    hosts.gather()
    deadline = time.monotonic() + SECONDS_TO_APPEAR
    while not (found := token.exists()) and time.monotonic() < deadline:
        time.sleep(0.2)
    blind = [str(place) for place, sees in enumerate(hosts.gather(found)) if not sees]
    if hosts.is_first():
        token.unlink()
    if blind:
        raise UserError(
            f"process {', '.join(blind)} does not see what process 0 writes to {path}; --workdir "
            "must be on storage that all hosts share: a network file system, or gs://BUCKET/..."
        )


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _try_to_write(folder: RunFolder, workdir: str | os.PathLike[str]) -> None:
    """Write something into the folder, and take it away again with all folders made for it."""
    path = folder.path
    made = [place for place in (path, *path.parents) if not place.exists()]
    try:
        files.write_text(path / "config.json.probe", "")
        (path / "config.json.probe").unlink()
    except (OSError, RunError) as error:
        cause = error.__cause__ if isinstance(error, RunError) else error
        raise UserError(f"cannot write to --workdir={workdir}: {cause.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            for place in made if "://" not in os.fspath(path) else []:
                os.rmdir(place)


def is_finished(result: dict[str, Any] | None, config: ConfigDict) -> bool:
    """Tell whether `result` is that of `config`, trained to its end (or until it diverged)."""
    if result is None or result["status"] not in ("done", "diverged"):
        return False
    return result["fingerprint"] == fingerprint(config)


def describe(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Return for each split how much it is, and a digest of its arrays."""
    described = {}
    for name, split in dataset.splits.items():
        digest = hashlib.sha256()
        for key in sorted(split.arrays):
            digest.update(key.encode())
            digest.update(np.ascontiguousarray(split.arrays[key]).data)
        described[name] = {
            "documents": split.documents,
            "rows": split.num_rows,
            "tokens": split.tokens,
            "text_bytes": split.text_bytes,
            "sha256": digest.hexdigest(),
        }
    return described


def _record_start(folder: RunFolder, changed: dict[str, tuple[Any, Any]]) -> None:
    """Write environment.json: what this run runs on, and each time it was begun or continued."""
    path = folder.path / "environment.json"
    starts = files.read_json(path)["starts"] if path.exists() else []
    start = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "changed": {key: list(pair) for key, pair in changed.items()},
    }
    files.write_json(
        path,
        {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "computes_as": computes_as(),
            "process_count": jax.process_count(),
            "versions": {name: _version(name) for name in _LIBRARIES},
            "git_commit": _git_commit(),
            "starts": [*starts, start],
        },
    )


def computes_as() -> dict[str, Any]:
    """Return what two processes must have in common to round alike."""
    devices = jax.devices()
    # Sums are taken in another order over threads, over devices of one process, over processes.
    several = {"process_count": jax.process_count()} if jax.process_count() > 1 else {}
    on_cpu = devices[0].platform == "cpu"
    return {
        **several,
        **({"threads": subprocesses.threads()} if on_cpu else {}),
        "backend": devices[0].platform,
        "device": _processor() if on_cpu else devices[0].device_kind,
        "device_count": len(devices),
        "jaxlib": _version("jaxlib"),
    }


def _processor() -> str:
    """Return the processor's name: which instructions it has decides how sums are rounded."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


_LIBRARIES = ("txf", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """Return the commit of the source tree that txf is imported from, if it is one."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
