"""Which words name something, and what? An encoder with a tagger on top.

python -m experiments.train --config=configs/ner.py --workdir=runs/ner
    --config.data.path=FOLDER    (train.conll, valid.conll, test.conll: a word and its tag a line)
"""

from ml_collections import ConfigDict

from txf.config import default_config


def get_config() -> ConfigDict:
    """Return a small encoder over byte pairs; `data.path` has to be given."""
    config = default_config()
    config.task = "tagging"
    config.data.source = "conll"
    config.data.tokenizer = "bpe"  # a word's pieces tell of its capitals and endings
    config.data.vocab_size = 1000
    config.data.context_length = 96
    config.model.structure = "encoder"
    config.model.depth = 2
    config.model.width = 64
    config.model.positions = "rope"
    config.optimizer.learning_rate = 3e-3
    config.training.steps = 500
    config.training.batch_size = 32
    config.training.eval_every = 250
    config.training.checkpoint_every = 250
    return config
