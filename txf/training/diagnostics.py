"""What goes on inside a model while it learns: norms, ratios, attention; a log step's figures.

Nothing of this is in the train step. It is a compiled function of its own, `diagnose`, called at
log steps alone, so that training takes the same time and has the same bits in between.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import xlogy
from jaxtyping import Array, Float, Int

from txf.nn.inspection import inspect
from txf.training.optimizers import Hyper
from txf.training.state import TrainState
from txf.training.step import Batch, StepSpec, gradients

# What each figure is. B is a block (`block_0`; `encoder/block_0` where there are two stacks), H a
# head's number. `attention` is `cross_attention` where a decoder looks at its source.
FIGURES = {
    "grad_norm/G": "√(Σ g²) over the parameters of group G: embed, positions, B, final_norm, head",
    "update_ratio": "‖Δ‖ / ‖θ‖ over all parameters θ, Δ being what the optimizer would add to them",
    "residual_rms/embeddings": "√(mean x²) of what enters the first block",
    "residual_rms/B": "√(mean x²) of the residual stream x after block B, over real tokens",
    "attention_score_max/B": "max s_ij over heads, real queries i and the keys j that they may see",
    "attention_entropy/B/head_H": "mean over real queries i of -Σ_j a_ij ln a_ij, in nats",
    "attention_saturated/B": "share of heads' real queries i with max_j a_ij above 0.99",
}
SATURATED = 0.99

STACKS = ("encoder", "decoder")  # whose parts are grouped by block, as those of a single stack are


def diagnose(
    model: nn.Module, spec: StepSpec, state: TrainState, batch: Batch, hyper: Hyper
) -> dict[str, Float[Array, ""]]:
    """Return the figures of FIGURES for a state and a batch: a pure function, to be compiled.

    The gradient is the one that the next step would take from `state` if it were given `batch`: of
    the mean loss per real target, before clipping, with dropout where the run has it. The update is
    that step's, from the optimizer's state as it is: clipping, decay and learning rate are in it.
    (A train line's `grad_norm` comes from the step before: the same batch, an update earlier.)

    The other figures are of a forward pass without dropout. A token of padding (segment 0) does not
    count, nor does a query that may see no key. A query that may see one key alone counts, with a
    weight of 1: under a causal mask the first token of each segment. Where the batch passes in
    parts (`training.accumulate`), so it does here: the figures are those of all of it.

    Models without attention lack the figures of attention, and a bigram those of a stream too.
    """
    grads, _, weight = gradients(model, spec, state.params, batch, hyper, state.key())
    grads = jax.tree.map(lambda g: g / jnp.maximum(weight, 1), grads)
    updates, _ = spec.optimizer_with(hyper).update(grads, state.opt_state, state.params)
    size = jnp.maximum(optax.tree.norm(state.params), jnp.finfo(jnp.float32).tiny)
    return {
        **{f"grad_norm/{name}": norm for name, norm in norms_by_group(grads).items()},
        "update_ratio": optax.tree.norm(updates) / size,
        **_forward_figures(model, spec, state.params, batch),
    }


def norms_by_group(tree: Any) -> dict[str, Float[Array, ""]]:
    """Return √(Σ x²) of each group of a parameter-like tree: its top modules, or a stack's."""
    squares: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        names = [key.key for key in path]
        group = "/".join(names[: 2 if names[0] in STACKS else 1])
        squares[group] = squares.get(group, 0.0) + jnp.square(leaf).sum()
    return {group: jnp.sqrt(square) for group, square in squares.items()}


class Sums(NamedTuple):
    """What parts of a batch add up to: by name a total and what it is a total over, and maxima."""

    totals: dict[str, Float[Array, "..."]]
    counts: dict[str, Float[Array, "..."]]
    maxima: dict[str, Float[Array, ""]]


def _forward_figures(
    model: nn.Module, spec: StepSpec, params: Any, batch: Batch
) -> dict[str, Float[Array, ""]]:
    parts = {key: batch[key] for key in _INPUTS if key in batch}
    parts = jax.tree.map(lambda x: x.reshape(spec.accumulate, -1, *x.shape[1:]), parts)
    sums = jax.lax.map(lambda part: _forward_sums(model, params, part), parts)
    means = {
        name: total.sum(0) / jnp.maximum(sums.counts[name].sum(0), 1)
        for name, total in sums.totals.items()
    }
    figures = {name: largest.max(0) for name, largest in sums.maxima.items()}
    for name, mean in means.items():
        if name.startswith("residual_rms"):
            figures[name] = jnp.sqrt(mean)
        elif mean.ndim:
            figures |= {f"{name}/head_{head}": mean[head] for head in range(len(mean))}
        else:
            figures[name] = mean
    return figures


_INPUTS = ("inputs", "segments", "source", "source_segments")


def _forward_sums(model: nn.Module, params: Any, batch: Batch) -> Sums:
    sums = Sums({}, {}, {})
    segments, source_segments = batch.get("segments"), batch.get("source_segments")
    source = {key: batch[key] for key in ("source", "source_segments") if key in batch}
    _, found = inspect(
        model,
        params,
        batch["inputs"],
        segments,
        names=("embeddings", "residual", "scores", "weights"),
        **source,
    )
    for place, x in _streams(found):
        of = source_segments if place.startswith("encoder/") else segments
        name = f"residual_rms/{place}"
        sums.totals[name], sums.counts[name] = mean_square(x, of)
    for path, weights in found.items():
        attention, _, kind = path.rpartition("/")
        if kind != "weights":
            continue
        place, _, sublayer = attention.rpartition("/")
        by_head = attention_sums(found[f"{attention}/scores"], weights)
        sums.maxima[f"{sublayer}_score_max/{place}"] = by_head.score_max
        name = f"{sublayer}_entropy/{place}"
        sums.totals[name], sums.counts[name] = by_head.entropy, by_head.queries
        name = f"{sublayer}_saturated/{place}"
        sums.totals[name], sums.counts[name] = by_head.saturated.sum(), by_head.queries.sum()
    return sums


# The sublayers there are, each after those that it may follow in a block.
_IN_TURN = ("attention", "cross_attention", "recurrent", "window", "feedforward")


def _streams(found: dict[str, Array]) -> Iterable[tuple[str, Array]]:
    """Return the residual stream by place: where it enters the blocks, and after each of them."""
    streams = {path: x for path, x in found.items() if path.endswith("embeddings")}
    for sublayer in _IN_TURN:
        for path, x in found.items():
            block, _, name = path.rpartition("/")
            if name == f"{sublayer}_residual":
                streams[block] = x  # the last sublayer's stays
    return streams.items()


def mean_square(
    x: Float[Array, "batch tokens width"], segments: Int[Array, "batch tokens"] | None
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return Σ of real tokens' mean x² over the width, and how many real tokens there are."""
    squares = jnp.square(x.astype(jnp.float32)).mean(-1)
    if segments is None:
        return squares.sum(), jnp.float32(squares.size)
    real = segments > 0
    return jnp.where(real, squares, 0.0).sum(), real.sum(dtype=jnp.float32)


class AttentionSums(NamedTuple):
    """Sums of one attention sublayer: its largest score; the others by head."""

    score_max: Float[Array, ""]
    entropy: Float[Array, " heads"]
    saturated: Float[Array, " heads"]
    queries: Float[Array, " heads"]


def attention_sums(
    scores: Float[Array, "batch heads queries keys"],
    weights: Float[Array, "batch heads queries keys"],
) -> AttentionSums:
    """Return the largest allowed score, Σ_i -Σ_j a_ij ln a_ij, saturated queries and queries.

    The weights say what is allowed. A key that a query may not see has weight 0, and so have all
    keys of a query that counts for nothing; the largest of a query's allowed scores has a weight of
    1 / keys at least. So the largest score where the weight is not 0 is the largest allowed one,
    though the weights of much smaller scores are 0 too. What is NaN shows as NaN.
    """
    largest = weights.max(-1)
    return AttentionSums(
        score_max=jnp.where(weights != 0, scores, -jnp.inf).max(),
        entropy=-xlogy(weights, weights).sum((0, 2, 3)),
        saturated=(largest > SATURATED).sum((0, 2), dtype=jnp.float32),
        queries=(largest != 0).sum((0, 2), dtype=jnp.float32),
    )
