"""A small decoder on TinyStories, through TFDS: real stories where storyworld has made ones.

python -m experiments.train --config=configs/tinystories.py --workdir=runs/tinystories
    [--config.data.manual_dir=FOLDER]

Without FOLDER, which has the published files or train.txt, valid.txt and test.txt, 2.2 GB are
downloaded.
"""

from ml_collections import ConfigDict

from txf.config import default_config


def get_config() -> ConfigDict:
    """Return four blocks over byte pairs; a row is about a story long."""
    config = default_config()
    config.data.source = "tfds"
    config.data.tfds_name = "tinystories"
    config.data.tokenizer = "bpe"
    config.data.vocab_size = 2048
    config.data.context_length = 256
    config.model.depth = 4
    config.model.width = 128
    config.optimizer.learning_rate = 2e-3
    config.optimizer.warmup_steps = 100
    config.training.steps = 2000
    return config
