"""Members of a sweep side by side, each in one of several processes with its share of the cores.

A small model's step has too little to do for all cores of a machine: one member a core trains more
members an hour than all cores a member. The processes take jobs one by one, those of a program they
have compiled first, and tell of what happens.
"""

import dataclasses
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from typing import Any, BinaryIO, NamedTuple

import jax

from txf import hosts, subprocesses
from txf.errors import RunError, Stopped, UserError
from txf.sweeps.estimate import Cost
from txf.sweeps.grid import Member
from txf.sweeps.packing import MEMORY_SHARE, requested
from txf.sweeps.progress import Silent, SweepProgress

# What a process takes of the machine's memory beyond its model.
BYTES_A_PROCESS = 6e8
SECONDS_TO_LOOK_UP = 0.1

Ending = tuple[str, str, str]  # a member's name, its status, and a few words about it


class Job(NamedTuple):
    """What one process does at a time: members to run, one after another or as a pack.

    Attributes:
        group: all members of the pack.
        members: those of the group that are left to run.
        program: jobs with the same share a compiled program.
        work: how much there is to do, in any one unit.
    """

    group: tuple[Member, ...]
    members: tuple[Member, ...]
    program: str
    work: float

    def without(self, name: str) -> "Job":
        """Return the job with that member no longer to be run."""
        return self._replace(members=tuple(m for m in self.members if m.name != name))


# Runs a job, telling a SweepProgress, until a function says to stop; yields how its members ended.
Run = Callable[[Job, SweepProgress, Callable[[], bool]], Iterator[Ending]]


@dataclasses.dataclass(frozen=True)
class Crew:
    """So many processes, each of which computes with so many threads.

    `setup` is what each calls first: a function of a module.
    """

    size: int
    threads: int
    setup: Callable[[], None]

    def run(
        self,
        jobs: Sequence[Job],
        run: Run,
        abandon: Callable[[Job, RunError], Iterable[Ending]],
        progress: SweepProgress,
        should_stop: Callable[[], bool],
    ) -> Iterator[Ending]:
        """Run all jobs, and yield how each member ended, when it has.

        Args:
            jobs: what is to be done, what is listed first sooner where nothing else decides.
            run: what each process runs a job with; it is pickled.
            abandon: called with a job whose process has ended, and an error that says so;
                returns how those of its members end that may not have.
            progress: told of what happens in all processes.
            should_stop: asked again and again; once it says so every running member saves itself.

        Raises:
            Stopped: `should_stop` said so.
        """
        waiting, idle, busy = list(jobs), [], {}
        asked = stopped = False
        answers: queue.SimpleQueue[tuple[_Worker, Any]] = queue.SimpleQueue()
        with ExitStack() as stack:
            while busy or (waiting and not asked):
                if not asked and (stopped or should_stop()):
                    asked = True
                    for worker in busy:
                        worker.stop()
                while waiting and len(busy) < self.size and not asked:
                    worker = idle.pop(0) if idle else _Worker(stack, self, run, answers)
                    busy[worker] = worker.take_one_of(
                        waiting, {job.program for job in busy.values()}
                    )
                try:
                    worker, answer = answers.get(timeout=SECONDS_TO_LOOK_UP)
                except queue.Empty:
                    continue
                match answer:
                    case "started", *names:
                        progress.started(*names)
                    case "event", name, event:
                        progress.event(name, event)
                    case "ended", name, status, note:
                        busy[worker] = busy[worker].without(name)
                        yield name, status, note
                    case "free" | "stopped":
                        del busy[worker]
                        idle.append(worker)
                        stopped |= answer == "stopped"
                    case RunError() if worker in busy:
                        job = busy.pop(worker)
                        # What ends all at once is a stop, if not yet a known one: no failure.
                        if asked or should_stop():
                            stopped = True
                        else:
                            yield from abandon(job, answer)
                    case RunError():
                        idle.remove(worker)
        if waiting or stopped:
            raise Stopped("stopped, and what was running is saved; the same command continues")


def next_job(waiting: Sequence[Job], own: Set[str], others: Set[str]) -> Job:
    """Return which job a process should do next, so that few programs are compiled twice.

    One whose program is among its `own`, which it has compiled; else one of a program that is not
    with `others`; of those the one of the program with the most work left, as what begins last
    should be short.
    """
    left: Counter[str] = Counter()
    for job in waiting:
        left[job.program] += job.work
    return max(
        waiting,
        key=lambda job: (job.program in own, job.program not in others, left[job.program]),
    )


def make_crew(
    request: str,
    jobs: int,
    pack: int,
    costs: Mapping[str, Cost],
    threads: int | None,
    setup: Callable[[], None],
) -> Crew | None:
    """Return who should run a sweep's jobs; None for this process alone.

    On a CPU there are as many processes as cores, or jobs if those are fewer, as far as memory
    goes, and they share the cores evenly. Accelerators are for one process.

    Args:
        request: `auto`, or how many processes there should be.
        jobs: how many the whole sweep has, finished ones included.
        pack: how many members a job has at most.
        costs: of its members.
        threads: those that its members are computed with already, which rounding hangs on.
        setup: see `Crew`.

    Raises:
        UserError: the request is neither `auto` nor a positive whole number, or for several
            processes where members cannot have one each.
    """
    wanted = requested("workers", request)
    if jax.default_backend() != "cpu" or jax.device_count() > 1 or hosts.count() > 1:
        if (wanted or 1) > 1:
            raise UserError(
                f"--workers={wanted}: processes side by side are for a CPU that is one device to "
                "one process; leave it out here, and see --pack"
            )
        return None
    own = subprocesses.threads()
    available = max(1, int(min(own, subprocesses.core_limit())))
    a_job = pack * max(cost.memory for cost in costs.values())
    room = min(int(MEMORY_SHARE * subprocesses.memory() / (BYTES_A_PROCESS + a_job)), jobs)
    size = wanted or max(1, min(available // (threads or 1), room))
    threads = threads or max(1, available // size)
    return None if size == 1 and threads == own else Crew(size, threads, setup)


class _Worker:
    """A process of the crew, from the side of the one who started it."""

    def __init__(self, stack: ExitStack, crew: Crew, run: Run, answers: queue.SimpleQueue):
        self._programs: set[str] = set()
        variables = {subprocesses.THREADS_VARIABLES[0]: str(crew.threads)}
        self._process = stack.enter_context(subprocesses.started(main, variables))
        self._give((crew.setup, sys.argv, run))
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def take_one_of(self, waiting: list[Job], others: Set[str]) -> Job:
        """Take the job that suits best from those `waiting`, and return it."""
        job = next_job(waiting, self._programs, others)
        waiting.remove(job)
        self._programs.add(job.program)
        self._give(job)
        return job

    def stop(self) -> None:
        """Ask it to save the members it runs, and to run no more of its job."""
        self._give("stop")

    def _give(self, order: Any) -> None:
        with suppress(RunError):  # which its listener tells
            subprocesses.send(self._process, order)

    def _listen(self, answers: queue.SimpleQueue) -> None:
        with suppress(ValueError):  # nobody listens any more
            while True:
                try:
                    answers.put((self, subprocesses.receive(self._process)))
                except RunError as error:
                    answers.put((self, error))
                    return


class _Reporter(Silent):
    """Tells the one who started this process what happens."""

    def __init__(self, answer: Callable[[Any], None]):
        self._answer = answer

    def started(self, *members: str) -> None:
        """Tell that members begin."""
        self._answer(("started", *members))

    def event(self, member: str, event: Mapping[str, Any]) -> None:
        """Tell where a member is."""
        self._answer(("event", member, dict(event)))


def main() -> None:
    """Run jobs as they come, until whoever started this process stops it, or is no more."""
    orders, answers = subprocesses.channel()

    def answer(message: Any) -> None:
        pickle.dump(message, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()

    try:
        with suppress(EOFError, BrokenPipeError):  # nobody is there any more
            _work(orders, answer)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # the thread that listens would not let the interpreter end


def _work(orders: BinaryIO, answer: Callable[[Any], None]) -> None:
    setup, sys.argv, run = pickle.load(orders)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=_hear, args=(orders, jobs, stop), daemon=True).start()
    setup()
    while True:
        job = jobs.get()
        if stop.is_set():
            answer("stopped")
            continue
        try:
            for ending in run(job, _Reporter(answer), stop.is_set):
                answer(("ended", *ending))
        except Stopped:
            answer("stopped")
        else:
            answer("free")


def _hear(orders: BinaryIO, jobs: queue.SimpleQueue, stop: threading.Event) -> None:
    """Take orders while the process works; end it where there will be no more."""
    try:
        with suppress(EOFError, pickle.UnpicklingError):
            while True:
                order = pickle.load(orders)
                stop.set() if order == "stop" else jobs.put(order)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
