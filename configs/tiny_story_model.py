"""The smallest model that writes stories: one block, one head, a context of 32, 0.7 M parameters.

python -m experiments.train --config=configs/tiny_story_model.py --workdir=runs/tiny_story_model
    [--config.data.source=text --config.data.path=stories.txt]
"""

from ml_collections import ConfigDict

from txf.config import default_config


def get_config() -> ConfigDict:
    """Return one block over byte pairs; stories of one's own come in as data.source=text."""
    config = default_config()
    config.data.tokenizer = "bpe"
    config.data.vocab_size = 2048
    config.data.context_length = 32
    config.model.depth = 1
    config.model.num_heads = 1
    config.model.width = 128
    config.model.tie_embeddings = False
    config.training.batch_size = 64
    config.training.steps = 2000
    config.optimizer.learning_rate = 3e-3
    config.optimizer.warmup_steps = 100
    return config
