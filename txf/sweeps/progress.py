"""What a person sees while a sweep runs: a live table on a terminal, plain lines in a log."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from io import TextIOBase
from typing import Any, Protocol, runtime_checkable

FINISHED = ("done", "diverged", "failed")
STEP_LINE_SECONDS = 30.0  # a log gets a line about a running member this often at most
SHOWN = 8  # finished members, and running ones, in the live table; a log has them all


@runtime_checkable
class SweepProgress(Protocol):
    """Told of everything that happens in a sweep; shows it or not."""

    def begin(self, members: Mapping[str, str]) -> None:
        """The sweep begins; `members` maps every name to its status ('' for one still to run)."""

    def started(self, *members: str) -> None:
        """A member begins or continues, or several side by side."""

    def event(self, member: str, event: Mapping[str, Any]) -> None:
        """A member's training loop says where it is: its step, loss or phase."""

    def finished(self, member: str, status: str, note: str) -> None:
        """A member ended with that status; `note` is its loss or its error, in a few words."""

    def end(self) -> None:
        """The sweep ends or is interrupted."""


def make_progress(stream: TextIOBase, weights: Mapping[str, float] | None = None) -> SweepProgress:
    """Return a live table if `stream` is a terminal that can show one, else plain lines.

    Args:
        stream: where to show it.
        weights: the work in each member, in any one unit, for the time that is left. None: equal.
    """
    tally = Tally(weights or {})
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveTable(stream, tally)
    return Lines(stream, tally)


@dataclasses.dataclass
class Running:
    """A member that runs: when it began, and what it last said of itself."""

    began: float
    event: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def fraction(self) -> float:
        """How far it is, 0 to 1."""
        step, steps = (self.event.get(key) for key in ("step", "steps"))
        return step / steps if step and steps else 0.0


class Tally:
    """Counts members and work, and tells how much time is left at the pace so far."""

    def __init__(
        self,
        weights: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._weights = dict(weights or {})
        self._clock = clock
        self.statuses: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.began = clock()
        self._work_done = 0.0  # since this process began
        self._said: set[str] = set()
        self.running: dict[str, Running] = {}

    def begin(self, members: Mapping[str, str]) -> None:
        """Start counting."""
        self.statuses = dict(members)
        self.began = self._clock()

    def started(self, *members: str) -> None:
        """Note that members run."""
        now = self._clock()
        self.running |= {name: Running(now) for name in members}

    def event(self, member: str, event: Mapping[str, Any]) -> None:
        """Note what a running member says; a phase without a loss does not hide the last one."""
        self.running[member].event |= event

    def news(self, event: Mapping[str, Any]) -> str | None:
        """Return what the event says in words, if it does and no member has said so before."""
        text = event["text"] if event.get("phase") == "note" else None
        if text is None or text in self._said:
            return None
        self._said.add(text)
        return text

    def finished(self, member: str, status: str, note: str) -> None:
        """Note how a member ended."""
        self.statuses[member], self.notes[member] = status, note
        self._work_done += self.weight(member)
        self.running.pop(member, None)

    def weight(self, member: str) -> float:
        """The work in a member, where members without a given weight count 1."""
        return self._weights.get(member, 1.0)

    def count(self, status: str) -> int:
        """The number of members with that status; '' counts those still to run."""
        return sum(1 for s in self.statuses.values() if s == status)

    @property
    def ended(self) -> int:
        """The number of members that ran to an end, now or earlier."""
        return sum(self.count(status) for status in FINISHED)

    def seconds_of(self, member: str) -> float:
        """How long a member has been running."""
        running = self.running.get(member)
        return self._clock() - running.began if running else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Time left if work goes on at the pace so far; None before there is one."""
        running = dict(self.running)  # a live table asks from a thread of its own
        doing = sum(self.weight(name) * run.fraction for name, run in running.items())
        done = self._work_done + doing
        left = sum(self.weight(m) for m, status in self.statuses.items() if not status) - doing
        elapsed = self._clock() - self.began
        return elapsed / done * left if done > 0 and elapsed > 0 else None


class Lines:
    """One line for every member that ends, and now and then one about each that runs."""

    def __init__(self, stream: TextIOBase, tally: Tally):
        self._stream, self._tally = stream, tally
        self._said: dict[float, float] = {}  # when of members that began then one was last told of

    def begin(self, members: Mapping[str, str]) -> None:
        """Say how many members there are, and how many have been run already."""
        self._tally.begin(members)
        total, ended = len(members), self._tally.ended
        already = f", {ended} of them run already" if ended else ""
        self._print(f"{total} members{already}")

    def started(self, *members: str) -> None:
        """Say nothing: the line comes when a member ends, or after a while."""
        self._tally.started(*members)

    def event(self, member: str, event: Mapping[str, Any]) -> None:
        """Say where the member is, if it has been silent for a while."""
        if event.get("phase") == "note":
            if text := self._tally.news(event):
                self._print(text)
            return
        self._tally.event(member, event)
        running, seconds = self._tally.running[member], self._tally.seconds_of(member)
        if seconds - self._said.setdefault(running.began, 0.0) >= STEP_LINE_SECONDS:
            self._said[running.began] = seconds
            self._print(f"{self._position()} {member}: {describe(running.event)}")

    def finished(self, member: str, status: str, note: str) -> None:
        """Say how the member ended."""
        seconds = self._tally.seconds_of(member)
        self._tally.finished(member, status, note)
        left = self._tally.seconds_left if self._tally.count("") else None
        about = f" (about {duration(left)} left)" if left is not None else ""
        self._print(f"{self._position()} {member}: {status}, {note}, {duration(seconds)}{about}")

    def end(self) -> None:
        """Say nothing more."""

    def _position(self) -> str:
        total = len(self._tally.statuses)
        return f"[{self._tally.ended:>{len(str(total))}}/{total}]"

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class LiveTable:
    """The last members that ended, those that run, and what is left, redrawn in place."""

    def __init__(self, stream: TextIOBase, tally: Tally):
        from rich.console import Console
        from rich.live import Live

        self._tally = tally
        self._live = Live(
            console=Console(file=stream, highlight=False),
            get_renderable=self._draw,
            refresh_per_second=4,
        )

    def begin(self, members: Mapping[str, str]) -> None:
        """Show the table."""
        self._tally.begin(members)
        self._live.start()

    def started(self, *members: str) -> None:
        """Show which members run."""
        self._tally.started(*members)

    def event(self, member: str, event: Mapping[str, Any]) -> None:
        """Show where it is; notes go above the table."""
        if event.get("phase") == "note":
            if text := self._tally.news(event):
                self._live.console.print(text, markup=False)
            return
        self._tally.event(member, event)

    def finished(self, member: str, status: str, note: str) -> None:
        """Show how it ended."""
        self._tally.finished(member, status, note)

    def end(self) -> None:
        """Leave the table as it is."""
        self._live.stop()

    def _draw(self) -> Any:
        from rich.table import Table

        tally = self._tally
        counts = [f"{tally.count(s)} {s}" for s in FINISHED if tally.count(s) or s == "done"]
        left = tally.seconds_left
        footer = f", about {duration(left)} left" if left is not None and tally.count("") else ""
        table = Table(
            title=f"{tally.ended} of {len(tally.statuses)} members: {', '.join(counts)}{footer}",
            title_justify="left",
        )
        for column in ("member", "status", ""):
            table.add_column(column, overflow="fold")
        # Failures stay in sight; of the others the last few do.
        ended = list(tally.notes)
        shown = [m for m in ended[:-SHOWN] if tally.statuses[m] == "failed"] + ended[-SHOWN:]
        colours = {"done": "green", "diverged": "yellow", "failed": "red"}
        for member in shown:
            status = tally.statuses[member]
            colour = colours.get(status, "red")
            table.add_row(_plain(member), f"[{colour}]{status}[/]", _plain(tally.notes[member]))
        running = dict(tally.running)  # members begin and end while this draws
        for name, run in list(running.items())[:SHOWN]:
            what = f"{describe(run.event)}, {duration(tally.seconds_of(name))}"
            table.add_row(_plain(name), "running", _plain(what))
        if len(running) > SHOWN:
            table.add_row(_plain(f"and {len(running) - SHOWN} more"), "running", "")
        return table


class Silent:
    """Shows nothing."""

    def begin(self, members: Mapping[str, str]) -> None:
        """Do nothing."""

    def started(self, *members: str) -> None:
        """Do nothing."""

    def event(self, member: str, event: Mapping[str, Any]) -> None:
        """Do nothing."""

    def finished(self, member: str, status: str, note: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


def describe(event: Mapping[str, Any]) -> str:
    """Say in a few words where a training loop is: `step 200 of 600, loss 1.5312`."""
    parts = []
    if event.get("phase") not in (None, "train"):
        parts.append(str(event["phase"]))
    if event.get("step") is not None:
        steps = f" of {event['steps']}" if event.get("steps") is not None else ""
        parts.append(f"step {event['step']}{steps}")
    if event.get("loss") is not None:
        parts.append(f"loss {float(event['loss']):.4f}")
    return ", ".join(parts) or "starting"


def duration(seconds: float) -> str:
    """Say a time as a person would: `4.2 s`, `38 s`, `12 min`, `3.1 h`, `2.5 days`."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.1f} min" if seconds < 600 else f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _plain(text: str) -> Any:
    """Return text that rich shows as it is, without reading markup into its brackets."""
    from rich.text import Text

    return Text(text)
