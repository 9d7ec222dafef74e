"""Tiny models for tests: every axis a size of its own, parameters made from their paths alone."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np

from txf.config import default_config
from txf.nn.build import build_model

VOCAB, CONTEXT, TOKENS, SOURCE = 29, 11, 7, 5
SIZES = dict(depth=1, width=12, num_heads=3)


def config(**options):
    """The model group of the default config, tiny, with `options` set."""
    model = default_config().model
    with model.unlocked():
        model.update({**SIZES, **options})
    return model


def build(task="language_model", num_classes=None, **options):
    return build_model(config(**options), VOCAB, CONTEXT, task, num_classes)


def shapes(model):
    """The tree of the model's parameters, without computing any."""
    tokens = jax.ShapeDtypeStruct((2, 3), jnp.int32)
    return jax.eval_shape(model.init, jax.random.key(0), tokens).get("params", {})


def parameters(model, deviation=0.4):
    """Random parameters; two models that share a leaf (path and shape) get it with the same values.

    No leaf is at its start, where a bias or gate of zero would hide what it does.
    """

    def leaf(path, shape):
        name = "/".join(key.key for key in path)
        random = np.random.default_rng(zlib.crc32(name.encode()))
        values = deviation * random.normal(size=shape.shape)
        return jnp.asarray(values + (name.endswith("scale")), jnp.float32)

    return jax.tree_util.tree_map_with_path(leaf, shapes(model))
