"""Which words name something, and what? An encoder with a tagger on top.

python -m experiments.train --config=configs/ner.py --workdir=runs/ner
    --config.data.path=FOLDER    (train.conll, valid.conll, test.conll: a word and its tag a line)

On WNUT-17 (3,394 training sentences, names in the test set that training has not seen), 90 seconds
of processor time give an entity F1 of 0.107, 0.129, 0.137 on valid and 0.097, 0.081, 0.097 on test
(seeds 0, 1, 2).  To call every word O gives 0.  A window MLP, trained as long, gives 0.087, 0.084,
0.071 on valid and 0.049, 0.046, 0.073 on test: the encoder is ahead by 0.035, with a 95 % interval
of 0.006 to 0.065 over paired seeds.

    --config.model.family=window_mlp --config.model.structure=decoder
    --config.model.positions=learned --config.model.mlp_ratio=1.0

There are 836 and 1,079 names.  45 of the 1,287 test sentences are longer than context_length and
are scored without their ends.
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
    config.model.dropout = 0.2
    config.model.positions = "rope"
    config.optimizer.learning_rate = 2e-3
    config.optimizer.warmup_steps = 100
    config.training.steps = 1600
    config.training.batch_size = 16
    config.training.eval_every = 400
    config.training.checkpoint_every = 400
    return config
