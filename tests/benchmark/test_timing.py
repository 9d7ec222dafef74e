"""Timing in turns, with a clock that tests can see through."""

import pytest

from txf.benchmark.timing import LEAST_ROUNDS, SLOT_SECONDS, Contender, interleave, ratio


class Clock:
    """Time passes when somebody works, and not otherwise."""

    def __init__(self):
        self.now = 0.0
        self.worked = []

    def work(self, name, seconds):
        def run():
            self.worked.append(name)
            self.now += seconds()

        return run


def test_samples_are_seconds_a_unit_in_as_many_rounds_for_all():
    clock = Clock()
    contenders = {
        "quick": Contender(clock.work("quick", lambda: 0.01), units=5),
        "slow": Contender(clock.work("slow", lambda: 0.4), units=2),
    }
    samples = interleave(contenders, seconds=2.0, clock=lambda: clock.now)
    assert samples["quick"] == pytest.approx([0.002] * len(samples["quick"]))
    assert samples["slow"] == pytest.approx([0.2] * len(samples["slow"]))
    assert len(samples["quick"]) == len(samples["slow"]) >= LEAST_ROUNDS
    # A slot is long enough for the clock: a warm-up and 15 calls of the quick one, one of the slow.
    assert round(SLOT_SECONDS / 0.01) == 15
    turn = clock.worked[4:]
    assert turn[:17] == ["quick"] * 16 + ["slow"]
    assert turn[17:34] == ["slow"] + ["quick"] * 16


def test_ratios_are_taken_round_by_round():
    clock = Clock()
    mood = iter(range(10_000))

    def seconds(work):
        return lambda: work * (1 + (next(mood) // 2) % 3)  # the machine slows down now and then

    contenders = {
        "one": Contender(clock.work("one", seconds(1.0))),
        "three": Contender(clock.work("three", seconds(3.0))),
    }
    samples = interleave(contenders, seconds=100.0, clock=lambda: clock.now)
    assert ratio(samples["three"], samples["one"]) == pytest.approx(3.0)
    assert len(set(samples["one"])) > 1


def test_a_ratio_is_the_median_over_rounds():
    assert ratio([2.0, 9.0, 3.0], [1.0, 1.0, 1.0]) == 3.0
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0], [1.0, 2.0])
