"""How long training takes, and how fast it is in between."""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax


class Lap(NamedTuple):
    """What a lap came to: its pace, compilation left out, and the seconds that compilation took."""

    steps_per_second: float
    compile_seconds: float


class Clock:
    """Seconds and steps a second of one go at a run.

    A lap lasts from one logged step to the next. Compilation and what happens in a pause
    (evaluation, saving, a log step's figures) are left out of it.
    """

    def __init__(self):
        self._begun = time.perf_counter()
        self._lap_begun = time.perf_counter()
        self._lap_steps = 0
        self._lap_compiles = 0.0
        self._rate = 0.0
        self._under_way: Any = None

    def start_lap(self) -> None:
        """Begin a lap."""
        self._lap_begun, self._lap_steps, self._under_way = time.perf_counter(), 0, None
        self._lap_compiles = 0.0

    def count(self, steps: int, output: Any) -> None:
        """Note that `steps` more were dispatched, and wait for those before them.

        So at most two dispatches are under way, and the pace is known without stopping the device.
        """
        if self._under_way is not None:
            jax.block_until_ready(self._under_way)
            self._rate = self._lap_steps / self._lap_seconds()
        self._under_way = output
        self._lap_steps += steps

    def pace(self) -> float:
        """Return steps a second as far as is known; 0 before that."""
        return self._rate

    def lap(self) -> Lap:
        """Return what the lap that ends here came to, and begin the next."""
        self._rate = self._lap_steps / self._lap_seconds()
        ended = Lap(self._rate, self._lap_compiles)
        self.start_lap()
        return ended

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave what happens inside out of the lap."""
        since = time.perf_counter()
        yield
        self._lap_begun += time.perf_counter() - since

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Leave what JAX compiles inside out of the lap, and count it."""
        spans = []

        def note(event: str, seconds: float, **_: Any) -> None:
            if event.startswith(_COMPILATION):
                end = time.perf_counter()
                spans.append((end - seconds, end))

        jax.monitoring.register_event_duration_secs_listener(note)
        try:
            yield
        finally:
            jax.monitoring.unregister_event_duration_listener(note)
        seconds = covered(spans)
        self._lap_begun += seconds
        self._lap_compiles += seconds

    def seconds(self) -> float:
        """Return the seconds since the clock was made, pauses included."""
        return time.perf_counter() - self._begun

    def _lap_seconds(self) -> float:
        return max(time.perf_counter() - self._lap_begun, 1e-9)


# What JAX tells of tracing, lowering and XLA's compilation begins so. Spans lie within each other:
# a function that is traced traces others.
_COMPILATION = "/jax/core/compile/"


def covered(spans: list[tuple[float, float]]) -> float:
    """Return how long at least one of the spans (begin, end) lasts."""
    total, reached = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total
