"""How many heads does one width want?

One, 2, 4, 8 or 16 heads share a width of 64: parameters and FLOPs stay the same, what a head can
see of a token shrinks. Vaswani et al. 2017 (table 3, A) find a shallow U. Each arm at its own best
learning rate, five paired seeds.

python -m experiments.sweep --sweep=configs/sweeps/heads.py --workdir=runs/heads

Cost: 50 runs, 3.3e13 FLOPs in all; --dry_run reckons what that is on the machine at hand.
"""

from ml_collections import ConfigDict

from txf.config import default_config
from txf.sweeps.grid import Sweep, product, tune
from txf.sweeps.hypotheses import Difference, Equivalence, Hypothesis

HEADS = (1, 2, 4, 8, 16)


def get_config() -> ConfigDict:
    """Return a decoder of 2 blocks on storyworld, character by character."""
    config = default_config()
    config.data.bytes = 500_000
    config.optimizer.warmup_steps = 40
    config.training.batch_size = 16
    config.training.steps = 800
    config.training.log_every = 100
    config.training.eval_every = 200
    config.training.checkpoint_every = 400
    return config


def get_sweep() -> Sweep:
    """Return 5 arms, 2 learning rates and 5 seeds each."""
    return product(
        {"model.num_heads": HEADS},
        tune("optimizer.learning_rate", [2e-3, 6e-3]),
        {"seed": range(5)},
    )


def get_hypotheses() -> list[Hypothesis]:
    """Return the U: several heads beat one, and beat the most there can be."""
    one, several, most = ({"model.num_heads": heads} for heads in (1, 4, 16))
    return [
        Equivalence(
            "one head costs what four cost",
            left=one,
            right=several,
            metric="flops_per_token",
            margin=0.5,
        ),
        Difference("four heads beat one", left=several, right=one),
        Difference("four heads beat sixteen", left=several, right=most),
    ]
