import io

import pytest

from txf.sweeps.progress import Lines, LiveTable, Tally, describe, duration, make_progress

MEMBERS = {"depth=1,seed=0": "done", "depth=1,seed=1": "", "depth=2,seed=0": "", "d[0]": ""}


class Clock:
    """Time that passes when told to."""

    now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def play(progress, clock):
    """One member done, one failed, one running, told as a sweep tells it."""
    progress.begin(MEMBERS)
    progress.started("depth=1,seed=1")
    progress.event("depth=1,seed=1", {"phase": "note", "text": "read [a] file"})
    for step in range(1, 9):
        clock.now += 10
        progress.event("depth=1,seed=1", {"phase": "train", "step": step, "steps": 8, "loss": 2.0})
    progress.finished("depth=1,seed=1", "done", "valid loss 1.2500")
    progress.started("depth=2,seed=0")
    progress.event("depth=2,seed=0", {"phase": "note", "text": "read [a] file"})
    clock.now += 5
    progress.finished("depth=2,seed=0", "failed", "ValueError: [bold]no[/bold]")
    progress.started("d[0]")
    progress.event("d[0]", {"phase": "compile"})
    progress.end()


def test_a_log_gets_a_line_a_finished_member_and_few_about_steps():
    stream, clock = io.StringIO(), Clock()
    play(Lines(stream, Tally(clock=clock)), clock)
    lines = stream.getvalue().splitlines()
    assert lines == [
        "4 members, 1 of them run already",
        "read [a] file",
        "[1/4] depth=1,seed=1: step 3 of 8, loss 2.0000",
        "[1/4] depth=1,seed=1: step 6 of 8, loss 2.0000",
        "[2/4] depth=1,seed=1: done, valid loss 1.2500, 80 s (about 2.7 min left)",
        "[3/4] depth=2,seed=0: failed, ValueError: [bold]no[/bold], 5.0 s (about 42 s left)",
    ]


def test_what_is_no_terminal_gets_no_escape_codes(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    play(make_progress(stream), Clock())
    assert "\x1b" not in stream.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_progress(Terminal()), Lines)


def test_a_terminal_gets_a_table(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    progress = make_progress(stream)
    assert isinstance(progress, LiveTable)
    play(progress, Clock())
    shown = stream.getvalue()
    assert "\x1b" in shown
    for text in (
        "3 of 4 members: 2 done, 1 failed",
        "valid loss 1.2500",
        "[bold]no",
        "d[0]",
        "compile",
    ):
        assert text in shown
    assert shown.count("read [a] file") == 1


def test_time_left_follows_the_work_not_the_number_of_members():
    clock = Clock()
    tally = Tally({"small": 1.0, "large": 9.0}, clock)
    tally.begin({"small": "", "large": ""})
    assert tally.seconds_left is None
    tally.started("small")
    clock.now += 2
    tally.finished("small", "done", "")
    assert tally.seconds_left == pytest.approx(18)
    tally.started("large")
    clock.now += 6
    tally.event("large", {"step": 1, "steps": 3})
    assert tally.seconds_left == pytest.approx(8 / 4 * 6)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4.21, "4.2 s"),
        (42.0, "42 s"),
        (126.0, "2.1 min"),
        (3000.0, "50 min"),
        (9000.0, "2.5 h"),
        (3e5, "3.5 days"),
    ],
)
def test_durations_are_said_as_a_person_would(seconds, text):
    assert duration(seconds) == text


def test_events_are_described_in_a_few_words():
    assert describe({}) == "starting"
    assert describe({"phase": "compile"}) == "compile"
    assert describe({"phase": "train", "step": 0, "steps": 5}) == "step 0 of 5"
    assert (
        describe({"phase": "evaluate", "step": 2, "loss": 1.5}) == "evaluate, step 2, loss 1.5000"
    )
