"""TFDS builders of our own; they need no TensorFlow, and are preferred to TFDS's of that name."""

import importlib
from typing import Any

BUILDERS = {
    "tiny_shakespeare": ("txf.data.builders.tiny_shakespeare", "TinyShakespeare"),
    "tinystories": ("txf.data.builders.tinystories", "TinyStories"),
}


def builder_class(name: str) -> Any | None:
    """Return the builder called `name`, or None where we have none; imports TFDS."""
    if name not in BUILDERS:
        return None
    module, attribute = BUILDERS[name]
    return getattr(importlib.import_module(module), attribute)
