"""Characters of tiny-shakespeare in nanoGPT's CPU setting: 4 blocks, width 128, context 64.

The first 90 % of the characters train, the last 10 % validate, as nanoGPT has it; nanoGPT's own
checkpoint gives 1.898 nats over the whole validation part, its published figure is 1.88.

python -m experiments.train --config=configs/shakespeare_char.py --workdir=runs/shakespeare_char
    --config.data.path=input.txt

88 seconds on two idle CPU cores, start-up and compilation included, give 1.749 nats over the whole
validation part, 2.52 bits a byte. The recipe is nanoGPT's (4 heads, batch 12, 2,000 steps, AdamW
1e-3 to 1e-4 after 100 steps of warm-up, betas 0.9 and 0.99, decay 0.1, clipping at 1.0, every
offset a window); initial weights are by fan-in (`txf/nn/initialization.py`), not 0.02.
"""

from ml_collections import ConfigDict

from txf.config import default_config


def get_config() -> ConfigDict:
    """Return nanoGPT's recipe; `data.path` is the text, and has to be given."""
    config = default_config()
    config.data.source = "text"
    config.data.documents = "one"
    config.data.split = "position"
    config.data.valid_fraction = 0.1
    config.data.test_fraction = 0.0
    config.data.context_length = 64
    config.data.stride = 1
    config.model.depth = 4
    config.model.num_heads = 4
    config.model.width = 128
    config.model.bias = False
    config.model.depth_scaled_init = True
    config.optimizer.learning_rate = 1e-3
    config.optimizer.final_fraction = 0.1
    config.optimizer.b2 = 0.99
    config.optimizer.warmup_steps = 100
    config.training.batch_size = 12
    config.training.steps = 2000
    config.training.eval_batch_size = 128
    config.training.log_every = 100
    config.training.eval_every = 500
    config.training.checkpoint_every = 1000
    return config
