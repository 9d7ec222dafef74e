"""Which words name something, and what? An encoder with a tagger on top.

python -m experiments.train --config=configs/ner.py --workdir=runs/ner
    --config.data.path=FOLDER    (train.conll, valid.conll, test.conll: a word and its tag a line)
"""

from ml_collections import ConfigDict

from txf.config import default_config


def get_config() -> ConfigDict:
    """Return a small encoder over words; `data.path` has to be given."""
    config = default_config()
    config.task = "tagging"
    config.data.source = "conll"
    config.data.tokenizer = "word"
    config.data.context_length = 64
    config.model.structure = "encoder"
    config.model.depth = 2
    config.model.width = 64
    config.model.dropout = 0.3
    config.training.steps = 1000
    config.training.batch_size = 32
    return config
