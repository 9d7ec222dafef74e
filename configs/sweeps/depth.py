"""Do more blocks model more, or do they only add parameters?

Depth 1, 2, 4 and 8 at one width, where parameters grow with depth, and again at the width that
gives each depth the parameters of two blocks. Each arm at its own best learning rate, three paired
seeds.

python -m experiments.sweep --sweep=configs/sweeps/depth.py --workdir=runs/depth

Cost: 42 runs, 3.8e13 FLOPs in all; --dry_run reckons what that is on the machine at hand.
"""

from ml_collections import ConfigDict

from txf.config import default_config
from txf.sweeps.grid import Sweep, chain, product, tune
from txf.sweeps.hypotheses import Difference, Hypothesis, Trend
from txf.sweeps.matching import matched

DEPTHS = (1, 2, 4, 8)


def get_config() -> ConfigDict:
    """Return a decoder of 2 blocks on storyworld, character by character."""
    config = default_config()
    config.data.bytes = 500_000
    config.model.width = 72  # the widths that match it are near: within 3 % of its parameters
    config.optimizer.warmup_steps = 40
    config.training.batch_size = 16
    config.training.steps = 600
    config.training.log_every = 100
    config.training.eval_every = 300
    config.training.checkpoint_every = 300
    return config


def matched_depths(base: ConfigDict) -> Sweep:
    """Return every depth with the width that has the parameters of `base`."""
    return matched(
        base, {"model.depth": DEPTHS}, quantity="parameters", by="model.width", tolerance=0.03
    )


def get_sweep(base: ConfigDict) -> Sweep:
    """Return 4 arms of one width and 3 more of equal parameters, 2 learning rates, 3 seeds each."""
    return product(
        chain({"model.depth": DEPTHS}, matched_depths(base)),
        tune("optimizer.learning_rate", [2e-3, 6e-3]),
        {"seed": range(3)},
    )


def get_hypotheses(base: ConfigDict) -> list[Hypothesis]:
    """Return the trend at free size, and the comparison at equal size."""
    equal = {point["model.depth"]: point for point in matched_depths(base)}
    return [
        Trend(
            "loss falls with depth at one width",
            factor="model.depth",
            where={"model.width": base.model.width},
            x_scale="log",
        ),
        Difference("four blocks beat one of equal size", left=equal[4], right=equal[1]),
        Difference("eight blocks beat two of equal size", left=equal[8], right=equal[2]),
    ]
