"""The clock: a lap holds steps alone, not pauses, not compilation."""

import jax
import pytest

from txf.training import clock as clocks
from txf.training.clock import Clock, covered


@pytest.fixture
def passed(monkeypatch):
    """A function that lets so many seconds pass."""
    now = [100.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])

    def passed(seconds):
        now[0] += seconds

    return passed


def compile_for(seconds, within=0.0):
    """Say what JAX says when it compiles something, and something else within that."""
    jax.monitoring.record_event_duration_secs("/jax/core/compile/inner_duration", within)
    jax.monitoring.record_event_duration_secs("/jax/core/compile/outer_duration", seconds)
    jax.monitoring.record_event_duration_secs("/jax/other/duration", 1000.0)


def test_a_lap_is_its_steps_alone(passed):
    clock = Clock()
    passed(17)  # before training begins
    clock.start_lap()
    clock.count(6, ())
    passed(2)
    with clock.paused():
        passed(50)
    passed(1)
    with clock.compiling():
        passed(13)
        compile_for(11.0, within=5.0)
    clock.count(5, ())
    lap = clock.lap()
    assert lap.steps_per_second == pytest.approx(11 / (2 + 1 + 13 - 11))
    assert lap.compile_seconds == pytest.approx(11)
    with clock.paused():  # between a log line and the next step
        passed(7)
    clock.count(3, ())
    passed(2)
    lap = clock.lap()
    assert lap == (pytest.approx(3 / 2), 0)
    assert clock.seconds() == pytest.approx(17 + 2 + 50 + 1 + 13 + 7 + 2)


def test_pace_is_known_as_soon_as_a_dispatch_is_done_compilation_aside(passed):
    clock = Clock()
    with clock.compiling():
        passed(20)
        compile_for(19.0)
    clock.count(2, ())
    assert clock.pace() == 0
    passed(3)
    clock.count(7, ())
    assert clock.pace() == pytest.approx(2 / (1 + 3))


def test_an_exception_is_no_pause_and_leaves_no_listener(passed):
    clock = Clock()
    with pytest.raises(ZeroDivisionError), clock.compiling():
        raise ZeroDivisionError
    compile_for(11.0)
    clock.count(3, ())
    passed(1)
    assert clock.lap().compile_seconds == 0


def test_what_jax_compiles_is_seen():
    clock = Clock()
    with clock.compiling():
        jax.jit(lambda x: x * 3.25 + 1)(5.0)
    assert 0 < clock.lap().compile_seconds < 60
    assert clock.lap().compile_seconds == 0


def test_spans_within_each_other_count_once():
    assert covered([]) == 0
    assert covered([(1.0, 3.0), (2.0, 5.0), (2.5, 2.75), (7.0, 11.0)]) == 8
