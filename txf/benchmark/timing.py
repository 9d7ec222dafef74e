"""Timing several ways to do one thing side by side, so that a machine's moods concern all alike."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

# One sample takes this long at least, so that a clock's and a scheduler's grain do not count.
SLOT_SECONDS = 0.15
LEAST_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to do it.

    Attributes:
        run: does it `units` times over and returns when all is done.
        units: how many steps, tokens or products a call of `run` counts for.
    """

    run: Callable[[], None]
    units: int = 1


def interleave(
    contenders: Mapping[str, Contender],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return each contender's seconds a unit, a sample a round; all have samples of all rounds.

    In each round every contender has one slot of at least SLOT_SECONDS, in an order that turns from
    round to round; the first of a slot's short calls warms up and is not timed. Rounds go on until
    `seconds` a contender have passed, and there are at least LEAST_ROUNDS. Whatever slows the
    machine down for a while slows all contenders of that round, which is why ratios are taken round
    by round.
    """
    calls = {name: _calls_a_slot(contender, clock) for name, contender in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    start = clock()
    for turn in itertools.count():
        done = clock() - start > seconds * len(names)
        if done and turn >= LEAST_ROUNDS:
            return samples
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            contender = contenders[name]
            if calls[name] > 1:
                contender.run()
            before = clock()
            for _ in range(calls[name]):
                contender.run()
            samples[name].append((clock() - before) / (calls[name] * contender.units))
    raise AssertionError("itertools.count never ends")


def _calls_a_slot(contender: Contender, clock: Callable[[], float]) -> int:
    """Return how many calls fill a slot, after one that compiles whatever there is to compile."""
    contender.run()
    before = clock()
    contender.run()
    took = max(clock() - before, 1e-9)
    return max(1, round(SLOT_SECONDS / took))


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """Return the median over rounds of numerator_i / denominator_i."""
    return statistics.median(n / d for n, d in zip(numerator, denominator, strict=True))
