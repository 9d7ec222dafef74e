"""What do several heads, more blocks and LayerNorm each buy a small language model?

One factor at a time around a decoder of 2 blocks, 4 heads, width 64 and pre-LN, reading storyworld
character by character, over three paired seeds.

python -m experiments.sweep --sweep=configs/sweeps/quickstart.py --workdir=runs/quickstart

Cost: 21 runs, 1.3e13 FLOPs in all; --dry_run reckons what that is on the machine at hand.
"""

from ml_collections import ConfigDict

from txf.config import default_config
from txf.sweeps.grid import Sweep, chain, product
from txf.sweeps.hypotheses import Difference, Hypothesis, Trend


def get_config() -> ConfigDict:
    """Return the arm in the middle: the one that all others change one thing of."""
    config = default_config()
    config.data.bytes = 500_000
    config.optimizer.learning_rate = 4e-3
    config.optimizer.warmup_steps = 40
    config.training.batch_size = 16
    config.training.steps = 700
    config.training.log_every = 100
    config.training.eval_every = 100
    config.training.checkpoint_every = 350
    return config


def get_sweep() -> Sweep:
    """Return 7 arms, 3 seeds each."""
    one_at_a_time = chain(
        {"model.num_heads": [1, 4]},
        {"model.depth": [1, 2, 4]},
        {"model.norm_placement": ["none", "post", "pre", "sandwich"]},
    )
    return product(one_at_a_time, {"seed": range(3)})


def get_hypotheses() -> list[Hypothesis]:
    """Return what the arms are said to differ in."""
    middle = {"model.num_heads": 4, "model.depth": 2, "model.norm_placement": "pre"}
    return [
        Difference("four heads beat one", left=middle, right={**middle, "model.num_heads": 1}),
        Trend(
            "loss falls with depth",
            factor="model.depth",
            where={"model.num_heads": 4, "model.norm_placement": "pre"},
            x_scale="log",
        ),
        Difference(
            "pre-LN beats no LayerNorm",
            left=middle,
            right={**middle, "model.norm_placement": "none"},
        ),
        Difference(
            "pre-LN beats post-LN", left=middle, right={**middle, "model.norm_placement": "post"}
        ),
    ]
