"""shakespeare_char.py, its text through TFDS: the same tokens, so the same losses.

python -m experiments.train --config=configs/tiny_shakespeare_tfds.py
    --workdir=runs/tiny_shakespeare_tfds [--config.data.manual_dir=FOLDER]

Without FOLDER, which has input.txt, 1.1 MB are downloaded.
"""

from ml_collections import ConfigDict

from configs import shakespeare_char


def get_config() -> ConfigDict:
    """Return nanoGPT's recipe on nanoGPT's split."""
    config = shakespeare_char.get_config()
    config.data.source = "tfds"
    config.data.tfds_name = "tiny_shakespeare/nanogpt"
    return config
