"""What does attention buy over the models it replaced, at equal size?

A bigram table, a window MLP, an LSTM and a decoder of one block and one head with a context of 32;
MLP and LSTM have the decoder's parameters. Each at its own best learning rate, three paired seeds.
On storyworld, or on text of one's own:

python -m experiments.sweep --sweep=configs/sweeps/families.py --workdir=runs/families
    [--config.data.source=text --config.data.path=train.txt
     --config.data.valid_path=valid.txt --config.data.test_path=test.txt]
"""

from functools import partial

from ml_collections import ConfigDict

from txf.config import default_config
from txf.sweeps.grid import Sweep, apply_overrides, chain, product, tune, zipped
from txf.sweeps.hypotheses import Difference, Hypothesis
from txf.sweeps.matching import matched

DECODER = {"model.family": ["transformer"], "model.depth": [1], "model.num_heads": [1]}


def get_config() -> ConfigDict:
    """Return what all families share; what only the decoder has is said in its arm."""
    config = default_config()
    config.data.context_length = 32
    config.optimizer.warmup_steps = 30
    config.training.steps = 600
    config.training.log_every = 100
    config.training.eval_every = 300
    config.training.checkpoint_every = 600
    return config


def families(base: ConfigDict) -> Sweep:
    """Return the decoder, an LSTM and a window MLP of its parameters, and a bigram table."""
    decoder = zipped(DECODER)
    size = partial(matched, base, reference=apply_overrides(base, next(iter(decoder))))
    return chain(
        decoder,
        size({"model.family": ["lstm"], "model.depth": [1]}, by="model.width"),
        size({"model.family": ["window_mlp"], "model.depth": [1]}, by="model.mlp_ratio"),
        zipped({"model.family": ["bigram"]}),
    )


def get_sweep(base: ConfigDict) -> Sweep:
    """Return four families, three learning rates and three seeds each."""
    rates = tune("optimizer.learning_rate", [3e-3, 1e-2, 3e-2])
    return product(families(base), rates, {"seed": range(3)})


def get_hypotheses(base: ConfigDict) -> list[Hypothesis]:
    """Return the order that is expected: attention before the window, the window before pairs."""
    decoder, lstm, window, bigram = families(base)
    return [
        Difference("attention beats the window MLP", left=decoder, right=window),
        Difference("the window MLP beats the bigram table", left=window, right=bigram),
        Difference("attention beats the LSTM", left=decoder, right=lstm),
    ]
