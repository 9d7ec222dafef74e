"""A long run: its memory stays flat, and its last steps are as fast as its first."""

import statistics
from pathlib import Path

import pytest

from tests.training import small
from txf.training.logging import read_metrics
from txf.training.run import RunFolder

pytestmark = pytest.mark.slow

STEPS = 10_000
LONG = {
    "training.steps": STEPS,
    "training.accumulate": 1,
    "training.log_every": 100,
    "training.eval_every": 1000,
    "training.checkpoint_every": 1000,
    "training.steps_per_dispatch": 0,
}
# A step takes a fraction of a millisecond, so that the machine's moods show: half the speed is not
# yet a fault. Memory is far steadier.
LEAST_SPEED, MOST_MEGABYTES = 0.5, 30


def megabytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_and_speed_stay_what_they_are_over_ten_thousand_steps(tmp_path):
    held = {}

    def note(event):
        if event["phase"] == "train":
            held[event["step"]] = megabytes()

    small.train(small.config(LONG), tmp_path / "run", progress=note)
    lines = list(read_metrics(RunFolder.at(tmp_path / "run").metrics))
    speeds = {line["step"]: line["tokens_per_second"] for line in lines if line["split"] == "train"}
    assert held[STEPS] - held[2000] < MOST_MEGABYTES
    first = statistics.median(speed for step, speed in speeds.items() if 100 < step <= 1000)
    last = statistics.median(speed for step, speed in speeds.items() if step > STEPS - 1000)
    assert last > LEAST_SPEED * first
