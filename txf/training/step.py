"""The train step: a pure function, and many of them in one compiled dispatch."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, UInt32
from ml_collections import ConfigDict

from txf.nn.heads import TASKS, vocabulary_kernel
from txf.nn.initialization import scale_parameters
from txf.training.losses import vocabulary_nats, weighted_nats
from txf.training.optimizers import Hyper, Params, learning_rate_at, make_optimizer
from txf.training.state import Tally, TrainState

Batch = Mapping[str, Array]
Metrics = dict[str, Array]


class StepSpec(NamedTuple):
    """What of a config is compiled into its train step; equal specs share one program."""

    optimizer: str
    schedule: str
    clips: bool
    decay_all: bool
    accumulate: int
    drops: bool
    reads_source: bool
    maps_features: bool  # the logits are a product of features and a matrix over the vocabulary

    @classmethod
    def from_config(cls, config: ConfigDict) -> "StepSpec":
        """Return the static part of the config's optimizer and training groups."""
        return cls(
            optimizer=config.optimizer.name,
            schedule=config.optimizer.schedule,
            clips=config.optimizer.clip_norm > 0,
            decay_all=config.optimizer.decay_all,
            accumulate=config.training.accumulate,
            drops=config.model.dropout > 0,
            reads_source=config.model.structure == "encoder_decoder",
            maps_features=TASKS[config.task] == "vocab" and config.model.family != "bigram",
        )

    def optimizer_with(self, hyper: Hyper) -> optax.GradientTransformation:
        """Return the optimizer that this spec and these numbers make."""
        return make_optimizer(
            self.optimizer, self.schedule, hyper, clips=self.clips, decay_all=self.decay_all
        )


def apply_model(
    model: nn.Module,
    params: Params,
    batch: Batch,
    dropout_rate: Float[Array, ""] | None = None,
    key: jax.Array | None = None,
    method: str = "__call__",
) -> Float[Array, "..."]:
    """Return the model's logits for a batch, or what another of its methods gives.

    Dropout is on when a rate (and its key) is given.
    """
    inputs = {name: batch[name] for name in ("source", "source_segments") if name in batch}
    return model.apply(
        {"params": params},
        batch["inputs"],
        batch.get("segments"),
        **inputs,
        dropout_rate=dropout_rate,
        rngs=None if dropout_rate is None else {"dropout": key},
        method=method,
    )


def init_state(
    model: nn.Module, spec: StepSpec, hyper: Hyper, seed: UInt32[Array, ""]
) -> TrainState:
    """Return the state before the first step: a pure function of the seed and of the init scale.

    The model is one built with init_scale=1.
    """
    init_key, train_key = jax.random.split(jax.random.key(seed))
    token = jnp.zeros((1, 1), jnp.int32)
    source = {"source": token} if spec.reads_source else {}
    params = model.init(init_key, token, **source)["params"]
    params = scale_parameters(params, hyper.init_scale)
    return TrainState(
        step=jnp.int32(0),
        params=params,
        opt_state=spec.optimizer_with(hyper).init(params),
        rng=jax.random.key_data(train_key),
        tally=jax.tree.map(jnp.asarray, Tally.empty()),
    )


def gradients(
    model: nn.Module,
    spec: StepSpec,
    params: Params,
    batch: Batch,
    hyper: Hyper,
    key: jax.Array,
) -> tuple[Params, Float[Array, ""], Float[Array, ""]]:
    """Return d(summed nats)/d(params), the summed nats and the weight they are summed over.

    With `accumulate` = A the batch passes in A parts whose sums add up, so that a part with
    little real text weighs little: the same gradient as that of the whole batch at once.
    """

    def summed_nats(params, part, key):
        rate = hyper.dropout if spec.drops else None
        if spec.maps_features:
            x = apply_model(model, params, part, rate, key, method="features")
            return vocabulary_nats(x, vocabulary_kernel(params), part)
        return weighted_nats(apply_model(model, params, part, rate, key), part)

    of_sum = jax.value_and_grad(summed_nats, has_aux=True)
    if spec.accumulate == 1:
        (nats, weight), grads = of_sum(params, batch, key)
    else:
        parts = jax.tree.map(lambda x: x.reshape(spec.accumulate, -1, *x.shape[1:]), batch)

        def add_part(total, numbered_part):
            number, part = numbered_part
            (nats, weight), grads = of_sum(params, part, jax.random.fold_in(key, number))
            return jax.tree.map(jnp.add, total, (grads, nats, weight)), None

        zero = (jax.tree.map(jnp.zeros_like, params), jnp.float32(0), jnp.float32(0))
        numbers = jnp.arange(spec.accumulate)
        (grads, nats, weight), _ = jax.lax.scan(add_part, zero, (numbers, parts))
    return grads, nats, weight


def train_step(
    model: nn.Module,
    spec: StepSpec,
    state: TrainState,
    batch: Batch,
    hyper: Hyper,
    axis_name: str | None = None,
) -> tuple[TrainState, Metrics]:
    """Take one optimizer step on one batch: a pure function of its arguments.

    With `axis_name`, `batch` is one device's share, and sums are taken over that axis.
    """
    key = state.key()
    if axis_name is not None:
        key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
    grads, nats, weight = gradients(model, spec, state.params, batch, hyper, key)
    if axis_name is not None:
        grads, nats, weight = jax.lax.psum((grads, nats, weight), axis_name)
    # A product is taken on the way to whoever reads it; a quotient would be a pass of its own.
    share = 1 / jnp.maximum(weight, 1)
    grads = jax.tree.map(lambda g: g * share, grads)
    updates, opt_state = spec.optimizer_with(hyper).update(grads, state.opt_state, state.params)
    failed = ~jnp.isfinite(nats) & (state.tally.bad_step < 0)
    metrics = {
        "learning_rate": learning_rate_at(state.step, hyper, spec.schedule),
        "grad_norm": optax.tree.norm(grads),
    }
    state = state.replace(
        step=state.step + 1,
        params=optax.apply_updates(state.params, updates),
        opt_state=opt_state,
        tally=Tally(
            nats=state.tally.nats + nats,
            weight=state.tally.weight + weight,
            bad_step=jnp.where(failed, state.step + 1, state.tally.bad_step),
        ),
    )
    return state, metrics


def train_steps(
    model: nn.Module,
    spec: StepSpec,
    fetch: Callable[[Any, Any], Batch],
    state: TrainState,
    data: Any,
    draws: Any,
    count: Int[Array, ""],
    hyper: Hyper,
    axis_name: str | None = None,
) -> tuple[TrainState, Metrics]:
    """Take the first `count` of the K steps whose batches `draws` describes (leaves [K, ...]).

    `fetch(data, draw)` makes a batch of one draw. `count` is an argument, not a shape: one compiled
    program, and so the same bits, serves any number of steps up to K, whatever a log line, a
    checkpoint or a resume leaves of it. (A `lax.scan` would need one program for each number.) The
    metrics are those of the last step taken.
    """

    def one(index: Array, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
        draw = jax.tree.map(lambda leaf: leaf[index], draws)
        return train_step(model, spec, carry[0], fetch(data, draw), hyper, axis_name)

    nothing = {"learning_rate": jnp.float32(0), "grad_norm": jnp.float32(0)}
    return jax.lax.fori_loop(0, count, one, (state, nothing))
