"""From one language to another: an encoder-decoder over byte pairs.

python -m experiments.train --config=configs/translation.py --workdir=runs/translation
    --config.data.path=FOLDER    (train.tsv, valid.tsv, test.tsv with a column a language)
"""

from ml_collections import ConfigDict

from txf.config import default_config


def get_config() -> ConfigDict:
    """Return English to German; `data.path` has to be given."""
    config = default_config()
    config.task = "translation"
    config.data.source = "parallel"
    config.data.tokenizer = "bpe"
    config.data.vocab_size = 2048
    config.data.context_length = 32
    config.data.source_language = "en"
    config.data.target_language = "de"
    config.model.structure = "encoder_decoder"
    config.model.depth = 2
    config.model.width = 128
    config.model.dropout = 0.1
    config.optimizer.learning_rate = 2e-3
    config.optimizer.warmup_steps = 100
    config.training.steps = 1500
    config.training.batch_size = 64
    config.training.eval_every = 500
    config.training.checkpoint_every = 500
    config.evaluation.max_new_tokens = 32
    return config
