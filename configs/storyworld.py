"""A small decoder on storyworld, the embedded corpus: the config everything else starts from.

python -m experiments.train --config=configs/storyworld.py --workdir=runs/storyworld
"""

from ml_collections import ConfigDict

from txf.config import default_config


def get_config() -> ConfigDict:
    """Return the default config."""
    return default_config()
