"""Optimizers whose numbers are arguments, so that one compiled step serves every setting.

The structure of an optimizer (its name, whether it clips, what it decays) is static. Learning
rate, warm-up, betas, decay and the like are traced scalars, gathered in `Hyper`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

Params = Any


class Hyper(NamedTuple):
    """The numbers of a run that a compiled train step takes as arguments."""

    learning_rate: Float[Array, ""]
    warmup_steps: Float[Array, ""]
    total_steps: Float[Array, ""]
    final_fraction: Float[Array, ""]
    weight_decay: Float[Array, ""]
    b1: Float[Array, ""]
    b2: Float[Array, ""]
    eps: Float[Array, ""]
    clip_norm: Float[Array, ""]
    dropout: Float[Array, ""]
    init_scale: Float[Array, ""]


def hyper_from_config(config: ConfigDict) -> Hyper:
    """Return the config's numbers as float32 scalars."""
    optimizer = config.optimizer
    values = {
        "total_steps": config.training.steps,
        "dropout": config.model.dropout,
        "init_scale": config.model.init_scale,
        **{name: optimizer[name] for name in Hyper._fields if name in optimizer},
    }
    return Hyper(**{name: np.float32(value) for name, value in values.items()})


def learning_rate_at(step: Int[Array, ""], hyper: Hyper, schedule: str) -> Float[Array, ""]:
    """Return the learning rate of optimizer step number `step`, counted from 0.

    Warm-up: peak * (step + 1) / (warmup_steps + 1) while step < warmup_steps, so that the first
    step already learns. Then, with t from 0 at the end of warm-up to 1 at the last step and f the
    final fraction: constant peak; linear peak * (1 - (1 - f) t); cosine
    peak * (f + (1 - f) (1 + cos(pi t)) / 2).
    """
    step = step.astype(jnp.float32)
    decay_steps = jnp.maximum(hyper.total_steps - 1 - hyper.warmup_steps, 1)
    t = jnp.clip((step - hyper.warmup_steps) / decay_steps, 0, 1)
    shapes = {
        "constant": jnp.ones_like(t),
        "linear": 1 - (1 - hyper.final_fraction) * t,
        "cosine": hyper.final_fraction
        + (1 - hyper.final_fraction) * 0.5 * (1 + jnp.cos(jnp.pi * t)),
    }
    warmup = (step + 1) / (hyper.warmup_steps + 1)
    return hyper.learning_rate * jnp.where(step < hyper.warmup_steps, warmup, shapes[schedule])


def decay_mask(params: Params, decay_all: bool) -> Params:
    """Tell, leaf by leaf, what weight decay pulls towards zero: matrices and token embeddings.

    Norm scales, biases, gates and learned positions are left alone unless `decay_all`.
    """

    def decays(path, leaf):
        names = [key.key for key in path]
        return decay_all or (leaf.ndim >= 2 and names[-1] != "bias" and "positions" not in names)

    return jax.tree_util.tree_map_with_path(decays, params)


def make_optimizer(
    name: str, schedule: str, hyper: Hyper, *, clips: bool, decay_all: bool
) -> optax.GradientTransformation:
    """Return the optax optimizer of that name with the traced numbers of `hyper`.

    adamw: Loshchilov & Hutter 2019, decay decoupled and scaled by the learning rate. adam: the same
    without decay. sgd: momentum b1, decay as in adamw. `clips` scales gradients down to a global
    norm of `hyper.clip_norm` beforehand.
    """
    adam = optax.scale_by_adam(b1=hyper.b1, b2=hyper.b2, eps=hyper.eps)
    decay = optax.add_decayed_weights(
        hyper.weight_decay, mask=lambda params: decay_mask(params, decay_all)
    )
    parts = {
        "adamw": [adam, decay],
        "adam": [adam],
        "sgd": [optax.trace(decay=hyper.b1), decay],
    }[name]
    clipping = [optax.clip_by_global_norm(hyper.clip_norm)] if clips else []
    rate = optax.scale_by_schedule(lambda step: -learning_rate_at(step, hyper, schedule))
    return optax.chain(*clipping, *parts, rate)
