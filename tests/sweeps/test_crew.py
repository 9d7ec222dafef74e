"""Members side by side in processes of their own, with a training that takes no time."""

import math
import os
import signal
import time

import jax
import pytest

from tests.sweeps.test_runner import NAMES, Training, make  # noqa: F401
from txf import files, subprocesses
from txf.errors import Stopped, UserError
from txf.sweeps.crew import Crew, Job, make_crew, next_job
from txf.sweeps.definition import run_folder
from txf.sweeps.estimate import Cost
from txf.sweeps.progress import Silent
from txf.sweeps.runner import run_sweep
from txf.sweeps.table import write_results


def set_up():
    """Do nothing; a name that another process can import."""


class Traced(Training):
    """Also leaves word of the process it ran in; can kill that, or wait until it is to stop."""

    def __call__(self, config, workdir, *, progress, should_stop):
        about = {"pid": os.getpid(), "threads": subprocesses.threads()}
        files.write_json(workdir / "about.json", about)
        if self.misbehave.get("kill") == workdir.name:
            os.kill(os.getpid(), signal.SIGKILL)
        while "wait" in self.misbehave and workdir.name != NAMES[0]:
            if should_stop():
                if self.misbehave["wait"] == workdir.name:  # as if a signal had come to all
                    os.kill(os.getpid(), signal.SIGKILL)
                raise Stopped("saved")
            time.sleep(0.01)
        super().__call__(config, workdir, progress=progress, should_stop=should_stop)


class Heard(Silent):
    """Notes which members were told of."""

    def __init__(self):
        self.names = {"started": [], "event": [], "finished": []}

    def started(self, *members):
        self.names["started"] += members

    def event(self, member, event):
        assert (event["step"], event["loss"]) == (3, 2.5)
        self.names["event"].append(member)

    def finished(self, member, status, note):
        self.names["finished"].append(member)


def about(folder):
    return [files.read_json(run_folder(folder, name) / "about.json") for name in NAMES]


def test_members_run_side_by_side_and_come_to_the_same(make, tmp_path):  # noqa: F811
    misbehave = {"depth1_seed1": ValueError("no\nluck"), "depth2_seed1": UserError("no file x")}
    alone = run_sweep(make(), tmp_path / "alone", train=Training(**misbehave))
    heard = Heard()
    together = run_sweep(
        make(),
        tmp_path / "crew",
        train=Traced(**misbehave),
        crew=Crew(2, 3, set_up),
        progress=heard,
    )
    assert (together.statuses, together.errors) == (alone.statuses, alone.errors)
    assert write_results(tmp_path / "crew").equals(write_results(tmp_path / "alone"))
    assert all(sorted(names) == NAMES for names in heard.names.values())
    found = about(tmp_path / "crew")
    assert found[0]["pid"] != found[2]["pid"]  # each begins with a program of its own
    assert os.getpid() not in {entry["pid"] for entry in found}
    assert {entry["threads"] for entry in found} == {3}


def test_a_member_whose_process_is_killed_has_failed_and_no_other(make, tmp_path):  # noqa: F811
    run = {"sweep_dir": tmp_path / "s", "crew": Crew(1, 1, set_up)}
    outcome = run_sweep(make(), train=Traced(kill=NAMES[1]), **run)
    assert outcome.statuses == dict.fromkeys(NAMES, "done") | {NAMES[1]: "failed"}
    assert "ended early, with status -9" in outcome.errors[NAMES[1]]
    assert "status -9" in (run_folder(tmp_path / "s", NAMES[1]) / "error.txt").read_text()
    again = run_sweep(make(), train=Traced(), retry_failed=True, **run)
    assert again.statuses == dict.fromkeys(NAMES, "done")


@pytest.mark.parametrize("dies", ["nobody", NAMES[2]])
def test_all_that_run_are_stopped_and_the_same_call_continues(make, tmp_path, dies):  # noqa: F811
    heard = Heard()
    run = {"sweep_dir": tmp_path / "s", "crew": Crew(2, 1, set_up), "progress": heard}
    with pytest.raises(Stopped, match="same command continues"):
        run_sweep(
            make(),
            train=Traced(wait=dies),
            should_stop=lambda: (
                heard.names["finished"] == NAMES[:1] and len(heard.names["started"]) == 3
            ),
            **run,
        )
    assert [(run_folder(tmp_path / "s", name) / "result.json").exists() for name in NAMES] == [
        True,
        False,
        False,
        False,
    ]
    outcome = run_sweep(make(), train=Traced(), **run)
    assert outcome.statuses == dict.fromkeys(NAMES, "done")


def jobs_of(**work):
    """Jobs named by program and number: a1=3.0 is one of program a with work 3."""
    return [Job((), (), name[0], amount) for name, amount in work.items()]


@pytest.mark.parametrize(
    ("own", "others", "chosen"),
    [
        ("", "", "b"),  # of a program with the most to do
        ("", "b", "c"),  # of one that nobody has begun
        ("a", "b", "a"),  # of one it has compiled
        ("", "abc", "b"),  # else it helps where the most is left
        ("d", "ac", "b"),
    ],
)
def test_which_job_is_next(own, others, chosen):
    jobs = jobs_of(a1=1.0, b1=2.0, c1=4.0, b2=3.0)
    assert next_job(jobs, set(own), set(others)) is jobs["abc".index(chosen)]


COSTS = {"a": Cost(1, 1.0, 1.0, 1e8), "b": Cost(1, 1.0, 1.0, 4e8)}


@pytest.mark.parametrize(
    ("request_", "jobs", "recorded", "size", "threads"),
    [
        ("auto", 21, None, 8, 1),
        ("auto", 3, None, 3, 2),
        ("auto", 1, None, None, None),  # this process
        ("1", 21, None, None, None),
        ("4", 21, None, 4, 2),
        ("20", 21, None, 20, 1),
        ("auto", 21, 2, 4, 2),  # what runs were begun with they go on with
        ("auto", 1, 8, None, None),
        ("1", 21, 1, 1, 1),
        ("auto", 21, 16, 1, 16),
    ],
)
def test_how_many_processes_share_eight_cores(monkeypatch, request_, jobs, recorded, size, threads):
    monkeypatch.setattr(subprocesses, "threads", lambda: 8)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    monkeypatch.setattr(subprocesses, "memory", lambda: 64e9)
    monkeypatch.setattr(subprocesses, "core_limit", lambda: math.inf)
    made = make_crew(request_, jobs, 1, COSTS, recorded, set_up)
    assert made == (None if size is None else Crew(size, threads, set_up))


def test_memory_and_quota_bound_the_crew_that_was_not_asked_for(monkeypatch):
    monkeypatch.setattr(subprocesses, "threads", lambda: 8)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    monkeypatch.setattr(subprocesses, "memory", lambda: 6e9)
    monkeypatch.setattr(subprocesses, "core_limit", lambda: 5.5)
    assert make_crew("auto", 9, 1, COSTS, None, set_up) == Crew(3, 1, set_up)
    assert make_crew("auto", 9, 4, COSTS, None, set_up) == Crew(1, 5, set_up)
    assert make_crew("8", 9, 4, COSTS, None, set_up) == Crew(8, 1, set_up)
    monkeypatch.setattr(subprocesses, "memory", lambda: 64e9)
    assert make_crew("auto", 9, 1, COSTS, None, set_up) == Crew(5, 1, set_up)


@pytest.mark.parametrize(
    ("quota", "limit", "cores", "most"),
    [
        ("200000 100000\n", "1000000\n", 2.0, 1_000_000),
        ("max 100000\n", "max\n", math.inf, None),
        ("", "", math.inf, None),
    ],
)
def test_the_bounds_of_a_container_count(monkeypatch, quota, limit, cores, most):
    texts = {"cpu.max": quota, "memory.max": limit}
    machine = subprocesses.memory()
    monkeypatch.setattr(subprocesses, "_control_group", texts.get)
    assert subprocesses.core_limit() == cores
    assert most is None or subprocesses.memory() == most
    assert subprocesses.memory() <= machine or most is None


@pytest.mark.parametrize("request_", ["two", "0", "-1", ""])
def test_what_is_no_number_of_processes_is_refused(request_):
    with pytest.raises(UserError, match=r"--workers=.* is not allowed; give auto"):
        make_crew(request_, 9, 1, COSTS, None, set_up)


def test_processes_do_not_share_an_accelerator(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert make_crew("auto", 9, 1, COSTS, None, set_up) is None
    assert make_crew("1", 9, 1, COSTS, None, set_up) is None
    with pytest.raises(UserError, match=r"--workers=2.*--pack"):
        make_crew("2", 9, 1, COSTS, None, set_up)
