"""Where should LayerNorm stand, and does it matter more in a deeper model?

No LayerNorm, after the residual sum (post), before the sublayer (pre) or both before and after it
(sandwich), at depths 2 and 6, over a grid of learning rates: each arm is judged at its own best,
and by how much its loss depends on having found it. Three paired seeds, no warm-up, which post-LN
is said to need (Xiong et al. 2020).

python -m experiments.sweep --sweep=configs/sweeps/ln_placement.py --workdir=runs/ln_placement

Cost: 72 runs, 6.4e13 FLOPs in all; --dry_run reckons what that is on the machine at hand.
"""

from ml_collections import ConfigDict

from txf.config import default_config
from txf.sweeps.grid import Sweep, product, tune
from txf.sweeps.hypotheses import Difference, Hypothesis


def get_config() -> ConfigDict:
    """Return a decoder on storyworld, character by character."""
    config = default_config()
    config.data.bytes = 500_000
    config.training.batch_size = 16
    config.training.steps = 500
    config.training.log_every = 50
    config.training.eval_every = 100
    config.training.checkpoint_every = 500
    return config


def get_sweep() -> Sweep:
    """Return 8 arms, 3 learning rates and 3 seeds each."""
    return product(
        {
            "model.depth": [2, 6],
            "model.norm_placement": ["none", "post", "pre", "sandwich"],
        },
        tune("optimizer.learning_rate", [1e-3, 4e-3, 1.6e-2]),
        {"seed": range(3)},
    )


def get_hypotheses() -> list[Hypothesis]:
    """Return what is said of pre-LN and post-LN, at each depth."""
    hypotheses: list[Hypothesis] = []
    for depth in (2, 6):
        none, post, pre = (
            {"model.depth": depth, "model.norm_placement": placement}
            for placement in ("none", "post", "pre")
        )
        hypotheses += [
            Difference(f"pre-LN beats post-LN at depth {depth}", left=pre, right=post),
            Difference(f"pre-LN beats none at depth {depth}", left=pre, right=none),
            Difference(
                f"pre-LN is less sensitive to the learning rate than post-LN at depth {depth}",
                left=pre,
                right=post,
                metric="valid.loss",
                reduce="sensitivity",
            ),
        ]
    return hypotheses
