"""How long training takes, and how fast it is in between."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import jax


class Clock:
    """Seconds and steps a second of one go at a run.

    A lap lasts from one logged step to the next; evaluation and saving are left out of it.
    """

    def __init__(self):
        self._begun = time.perf_counter()
        self._lap_begun = time.perf_counter()
        self._lap_steps = 0
        self._rate = 0.0
        self._under_way: Any = None

    def start_lap(self) -> None:
        """Begin a lap."""
        self._lap_begun, self._lap_steps, self._under_way = time.perf_counter(), 0, None

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

    def lap(self) -> float:
        """Return steps a second of the lap that ends here, and begin the next."""
        self._rate = self._lap_steps / self._lap_seconds()
        self.start_lap()
        return self._rate

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave what happens inside out of the lap."""
        since = time.perf_counter()
        yield
        self._lap_begun += time.perf_counter() - since

    def seconds(self) -> float:
        """Return the seconds since the clock was made, pauses included."""
        return time.perf_counter() - self._begun

    def _lap_seconds(self) -> float:
        return max(time.perf_counter() - self._lap_begun, 1e-9)
