"""Runs the members of a sweep, each in SWEEP/runs/NAME, alone or in packs; can be cut short."""

import contextlib
import dataclasses
import os
import socket
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from etils import epath

from txf import files, hosts
from txf.errors import RunError, Stopped, UserError
from txf.sweeps.crew import Crew, Ending, Job, Run
from txf.sweeps.definition import Experiment, record, run_folder, settle
from txf.sweeps.grid import Member
from txf.sweeps.packing import packs
from txf.sweeps.progress import Silent, SweepProgress
from txf.training.program import program_key
from txf.training.run import RunFolder

LOCK = ".lock"
RESULT = "result.json"
FINAL = ("done", "diverged")  # a diverged run is a result: it is not run again


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How every member of a sweep stands: from its name to `done`, `diverged`, `failed`, `refused`.

    `failed` members went wrong at run time and are on record as such; `refused` ones asked for what
    cannot be had (a file that is not there), are not on record, and are tried again next time.
    `errors` says in a line each what went wrong.
    """

    statuses: Mapping[str, str]
    errors: Mapping[str, str]

    def raise_errors(self, sweep_dir: str | os.PathLike[str]) -> None:
        """Raise what the members' errors amount to, naming them, if there are any.

        Raises:
            RunError: a member failed.
            UserError: none failed, but some were refused.
        """
        failed = [name for name, status in self.statuses.items() if status == "failed"]
        if not self.errors:
            return
        lines = [f"{name}: {error}" for name, error in self.errors.items()]
        if not failed:
            raise UserError("\n".join(lines))
        advice = "the same command with --retry_failed runs failed members again"
        runs = files.absolute(sweep_dir) / "runs"
        total = len(self.statuses)
        head = (
            f"{len(failed)} of {total} members failed (details in {runs}/NAME/error.txt; {advice})"
        )
        raise RunError("\n".join([head, *lines]))


def run_sweep(
    experiment: Experiment,
    sweep_dir: str | os.PathLike[str],
    *,
    train: Callable[..., Any],
    train_pack: Callable[..., Any] | None = None,
    pack: int = 1,
    crew: Crew | None = None,
    work: Mapping[str, float] | None = None,
    retry_failed: bool = False,
    progress: SweepProgress | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run, or continue, every member of the sweep that has no result yet.

    A member with a result is not run again, a failed one only if `retry_failed`. A member that
    fails leaves a result that says so and does not stop the others. At any kill or interrupt what
    is on disk can be continued by the same call, and comes to the same results. Members of one arm
    run one after another, as they share compiled programs, or `pack` of them side by side. A pack
    that fails is taken apart, and its members go on alone.

    Args:
        experiment: what to run.
        sweep_dir: the sweep's folder, new or from an earlier call.
        train: `train(config, workdir, progress=..., should_stop=...)` trains or continues one run
            to its end and leaves its result.json; see `txf.training.loop`.
        train_pack: `train_pack([(config, workdir)], places=[...], size=..., progress=[...],
            should_stop=...)` does so with several that share a compiled program.
        pack: the most members that go in one pack.
        crew: the processes that run the members; None: this one.
        work: how much there is to do in each member, by its name, in any one unit; None: equal.
        retry_failed: run failed members again, from their last checkpoint.
        progress: told of everything that happens.
        should_stop: asked again and again; once it says so the running member saves itself.

    Raises:
        UserError: the folder holds another sweep or is in use by another process. Nothing was run.
        Stopped: `should_stop` said so; the same call continues.
    """
    progress = progress or Silent()
    with locked(sweep_dir):
        experiment = settle(experiment, sweep_dir)
        before = {m.name: recorded_status(m, sweep_dir) for m in experiment.members}
        before = hosts.first(before)  # and all have read what the first one writes now
        if retry_failed:
            before = {name: "" if s == "failed" else s for name, s in before.items()}
        record(experiment, sweep_dir)
        statuses = dict(before)
        errors = {
            name: _result(run_folder(sweep_dir, name))["error"]
            for name, status in before.items()
            if status == "failed"
        }
        jobs = _jobs(packs(experiment.members, pack if train_pack else 1), before, work)
        run = partial(_run_job, sweep_dir, train, train_pack)
        progress.begin(before)
        try:
            if crew:
                endings = crew.run(jobs, run, partial(_abandon, sweep_dir), progress, should_stop)
            else:
                endings = _run_in_turn(jobs, run, progress, should_stop)
            with contextlib.closing(endings):  # what runs ends before the folder is let go
                for name, status, note in endings:
                    statuses[name] = status
                    if status not in FINAL:
                        errors[name] = note
                    progress.finished(name, status, note)
        finally:
            progress.end()
    return Outcome(statuses, errors)


def recorded_status(member: Member, sweep_dir: str | os.PathLike[str]) -> str:
    """Return `done`, `diverged` or `failed` as the member's result.json has it, or '' without one.

    Raises:
        UserError: the result is of another config.
    """
    folder = run_folder(sweep_dir, member.name)
    if not (folder / RESULT).exists():
        return ""
    result = _result(folder)
    if result["fingerprint"] != member.fingerprint:
        raise UserError(
            f"member {member.name} has a result of another config in {folder}; delete that folder, "
            "or use another --workdir"
        )
    return result["status"]


@contextlib.contextmanager
def locked(sweep_dir: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the sweep's folder for this process; the hold ends with the process, however it ends.

    Folders in object stores, and on systems without file locks, are not held. Of processes that
    train together the first holds it for all.

    Raises:
        UserError: another process holds the folder, or it cannot be made.
    """
    folder = files.absolute(sweep_dir)
    try:
        import fcntl
    except ImportError:
        fcntl = None
    if fcntl is None or "://" in os.fspath(folder) or not hosts.is_first():
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "a+", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"--workdir={sweep_dir} cannot be used: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise UserError(
                f"{folder} is being run by {holder}; wait until it ends, or stop it"
            ) from None
        except OSError:
            pass  # some network file systems have no locks
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def _jobs(
    groups: Sequence[Sequence[Member]],
    before: Mapping[str, str],
    work: Mapping[str, float] | None,
) -> list[Job]:
    """Return what is left to do of each group, where there is anything."""
    jobs = []
    for group in groups:
        left = tuple(member for member in group if not before[member.name])
        amount = sum(work[member.name] if work else 1.0 for member in left)
        if left:
            jobs.append(Job(tuple(group), left, program_key(group[0].config), amount))
    return jobs


def _run_in_turn(
    jobs: Sequence[Job], run: Run, progress: SweepProgress, should_stop: Callable[[], bool]
) -> Iterator[Ending]:
    """Run jobs one after another in this process."""
    for job in jobs:
        if any(hosts.gather(should_stop())):
            raise Stopped("stopped between two members; the same command continues")
        yield from run(job, progress, should_stop)


def _run_job(
    sweep_dir: str | os.PathLike[str],
    train: Callable[..., Any],
    train_pack: Callable[..., Any] | None,
    job: Job,
    progress: SweepProgress,
    should_stop: Callable[[], bool],
) -> Iterator[Ending]:
    """Run the members of a job, as the pack that its group is where it is one."""
    run = partial(_run_pack, train_pack, job.group) if len(job.group) > 1 else _run_members
    return run(job.members, sweep_dir, train, progress, should_stop)


def _abandon(sweep_dir: str | os.PathLike[str], job: Job, error: RunError) -> Iterator[Ending]:
    """Put on record that the process of a job has ended before it; yield how its members end."""
    for member in job.members:
        folder = run_folder(sweep_dir, member.name)
        if (folder / RESULT).exists() and _result(folder)["status"] in FINAL:  # it had ended
            yield member.name, *_ending(folder)
            continue
        files.write_text(folder / "error.txt", f"{error}\n")
        _record_failure(member, folder, RunFolder(folder).steps_trained(), error)
        yield member.name, "failed", _line(error)


def _run_members(
    members: Sequence[Member],
    sweep_dir: str | os.PathLike[str],
    train: Callable[..., Any],
    progress: SweepProgress,
    should_stop: Callable[[], bool],
) -> Iterator[Ending]:
    """Run members one after another."""
    for member in members:
        progress.started(member.name)
        yield member.name, *_run_member(member, sweep_dir, train, progress, should_stop)


def _run_pack(
    train_pack: Callable[..., Any],
    group: Sequence[Member],
    members: Sequence[Member],
    sweep_dir: str | os.PathLike[str],
    train: Callable[..., Any],
    progress: SweepProgress,
    should_stop: Callable[[], bool],
) -> Iterator[Ending]:
    """Run members of a group side by side, each in its place; one by one, if that fails, the rest.

    The others of the group have ended.
    """
    pairs = [(member.config, run_folder(sweep_dir, member.name)) for member in members]
    for _, folder in pairs:
        _clear(folder)
    progress.started(*(member.name for member in members))
    listeners = [partial(progress.event, member.name) for member in members]
    try:
        train_pack(
            pairs,
            places=[group.index(member) for member in members],
            size=len(group),
            progress=listeners,
            should_stop=should_stop,
        )
    except Stopped:
        raise
    except hosts.Lost:
        raise
    except Exception as error:  # whose fault it is shows when each runs alone
        text = f"a pack of {len(members)} failed, its members go on alone: {_line(error)}"
        progress.event(members[0].name, {"phase": "note", "text": text})
    ended = hosts.first([(folder / RESULT).exists() for _, folder in pairs])
    left = [member for member, has_result in zip(members, ended, strict=True) if not has_result]
    for member, (_, folder) in zip(members, pairs, strict=True):
        if member not in left:
            yield member.name, *_ending(folder)
    yield from _run_members(left, sweep_dir, train, progress, should_stop)


def _run_member(
    member: Member,
    sweep_dir: str | os.PathLike[str],
    train: Callable[..., Any],
    progress: SweepProgress,
    should_stop: Callable[[], bool],
) -> tuple[str, str]:
    """Run one member to its end; return its status and a few words about it."""
    folder = run_folder(sweep_dir, member.name)
    step = 0

    def follow(event: Mapping[str, Any]) -> None:
        nonlocal step
        step = event.get("step") or step
        progress.event(member.name, event)

    _clear(folder)
    try:
        train(member.config, folder, progress=follow, should_stop=should_stop)
    except (Stopped, hosts.Lost):
        raise
    except UserError as error:
        return "refused", _line(error)
    except Exception as error:
        files.write_text(folder / "error.txt", traceback.format_exc())
        if not (folder / RESULT).exists():
            _record_failure(member, folder, step, error)
        return "failed", _line(error)
    return _ending(folder)


def _clear(folder: epath.Path) -> None:
    """Remove what an earlier failure left: it would say of a run in progress that it has failed."""
    for name in (RESULT, "error.txt") if hosts.is_first() else ():
        (folder / name).unlink(missing_ok=True)


def _ending(folder: epath.Path) -> tuple[str, str]:
    """Return a run's status and a few words about it, by its result."""
    result = hosts.first(_result(folder) if hosts.is_first() else None)
    if result["status"] == "failed":
        return "failed", str(result["error"])
    return result["status"], _loss(result)


def _record_failure(member: Member, folder: epath.Path, step: int, error: Exception) -> None:
    failure = {
        "status": "failed",
        "fingerprint": member.fingerprint,
        "steps": step,
        "error": _line(error),
    }
    files.write_json(folder / RESULT, failure)


def _result(folder: epath.Path) -> dict[str, Any]:
    path = folder / RESULT
    result = files.read_json(path)
    if not isinstance(result, dict) or not {"status", "fingerprint"} <= result.keys():
        raise UserError(f"{path} is not a run's result; delete {folder} and run it again")
    return result


def _loss(result: Mapping[str, Any]) -> str:
    """Say a result's loss, as the sweep's table has it: of the test split where there is one."""
    for split in ("test", "valid"):
        if split in result and "loss" in result[split]:
            return f"{split} loss {result[split]['loss']:.4f}"
    return f"{result['steps']} steps" if "steps" in result else "no loss"


def _line(error: Exception) -> str:
    """Return the error as one line; a stranger's error with its type, which often says more."""
    text = " ".join(str(error).split())
    if isinstance(error, (UserError, RunError)):
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")
