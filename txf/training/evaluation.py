"""Evaluation: every token of a split once, whatever the batch size."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from txf import hosts
from txf.data.batches import Batch
from txf.data.dataset import Split
from txf.training import parallel
from txf.training.losses import cross_entropy
from txf.training.optimizers import Params
from txf.training.scores import Judge
from txf.training.step import apply_model

CPU_TOKENS_AT_A_TIME = 2048


def eval_step(
    model: nn.Module, params: Params, batch: Batch, at_a_time: int | None = None
) -> dict[str, jax.Array]:
    """Return for each target its nats, and what the model would have chosen.

    The batch passes through the model in equal parts of about `at_a_time` tokens (None: what is
    good for the platform), as far as its rows can be cut so. The choice is the first of the classes
    with the largest logit.
    """
    parts = _parts(*batch["inputs"].shape[:2], at_a_time or _tokens_at_a_time(batch))
    if parts == 1:
        return _eval_part(model, params, batch)
    cut = jax.tree.map(lambda x: x.reshape(parts, -1, *x.shape[1:]), dict(batch))
    found = jax.lax.map(partial(_eval_part, model, params), cut)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found)


def _tokens_at_a_time(batch: Batch) -> int:
    """Return how many tokens should pass through the model at a time, by the platform.

    On a CPU what lies between the model's layers should fit the caches; elsewhere, and on devices
    that a CPU simulates, a batch is as large as it is.
    """
    if jax.default_backend() == "cpu" and jax.device_count() == 1:
        return CPU_TOKENS_AT_A_TIME
    return batch["inputs"].size


def _parts(rows: int, tokens: int, at_a_time: int) -> int:
    """Return in how many equal parts to cut rows: as few as hold at most `at_a_time` tokens each.

    At most twice as many; where none of the divisors is so large, the next smaller.
    """
    wanted = min(rows, -(-rows * tokens // at_a_time))
    divisors = [n for n in range(1, min(2 * wanted, rows) + 1) if rows % n == 0]
    return next((n for n in divisors if n >= wanted), divisors[-1])


def _eval_part(model: nn.Module, params: Params, batch: Batch) -> dict[str, jax.Array]:
    logits = apply_model(model, params, batch)
    # A single pass of argmax, which carries an index along, is not vectorized on a CPU.
    is_largest = logits == logits.max(axis=-1, keepdims=True)
    classes = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
    last = logits.shape[-1] - 1  # where a logit is not a number none is the largest
    return {
        "nats": cross_entropy(logits, batch["targets"]),
        "choice": jnp.where(is_largest, classes, last).min(axis=-1),
    }


def evaluate(
    compiled_step: Callable[[Params, Batch], Mapping[str, jax.Array]],
    params: Params,
    split: Split,
    *,
    batch_size: int,
    judge: Judge | None = None,
) -> dict[str, float]:
    """Return the metrics of `params` on the whole of `split`, those of `judge` among them.

    Every row passes once; the last batch is filled up with copies of a row that are not counted.
    Sums are taken on the host in float64 and in row order, so that nothing depends on how rows fall
    into batches but the rounding inside a matrix product.
    """
    whole = params if judge is None or hosts.count() == 1 else parallel.fetch(params)
    totals: dict[str, float] = {"nats": 0.0, "weight": 0.0, "correct": 0.0}
    by_kind = np.zeros((len(split.kinds), 3))
    pending: list[tuple[Batch, int, Mapping[str, jax.Array]]] = []

    def collect(batch: Batch, count: int, result: Mapping[str, jax.Array]) -> None:
        nats = np.asarray(result["nats"], np.float64)[:count]
        weights = np.asarray(batch["weights"], np.float64)[:count]
        choice = np.asarray(result["choice"])
        hits = choice[:count] == np.asarray(batch["targets"])[:count]
        if judge is not None:
            judge.see(whole, batch, choice, count)
        nats = np.where(weights > 0, nats, 0.0)
        totals["nats"] += float((nats * weights).sum())
        totals["weight"] += float(weights.sum())
        totals["correct"] += float((hits * weights).sum())
        if split.kinds:
            kinds = np.asarray(batch["kinds"])[:count].ravel()
            for column, values in enumerate((nats * weights, hits * weights, weights)):
                by_kind[:, column] += np.bincount(
                    kinds, weights=values.ravel(), minlength=len(split.kinds)
                )[: len(split.kinds)]

    for start in range(0, split.num_rows, batch_size):
        rows = np.arange(start, start + batch_size)
        count = min(batch_size, split.num_rows - start)
        rows = np.minimum(rows, split.num_rows - 1).astype(np.int32)
        batch = split.take(split.arrays, rows, rows.astype(np.uint32))
        pending.append((batch, count, compiled_step(params, batch)))
        if len(pending) > 2:  # the device computes these while the host adds up the older ones
            collect(*pending.pop(0))
    for item in pending:
        collect(*item)
    return _metrics(split, totals, by_kind) | ({} if judge is None else judge.scores())


def _metrics(split: Split, totals: Mapping[str, float], by_kind: np.ndarray) -> dict[str, float]:
    """Turn sums into the metrics of a line.

    loss: nats per target. perplexity = exp(loss). bits_per_byte = nats / ln 2 / bytes of text.
    floor and excess: the corpus' exact surprise per target, and how far the loss lies above it.
    chance and ceiling: what the accuracy on a probe is to be compared with.
    """
    loss = totals["nats"] / totals["weight"]
    metrics = {"loss": loss, "accuracy": totals["correct"] / totals["weight"]}
    if split.text_bytes:
        metrics["perplexity"] = math.exp(min(loss, 700.0))
        metrics["bits_per_byte"] = totals["nats"] / math.log(2) / split.text_bytes
    if split.floor_nats is not None:
        metrics["floor"] = split.floor_nats / totals["weight"]
        metrics["excess"] = loss - metrics["floor"]
        metrics["floor_bits_per_byte"] = split.floor_nats / math.log(2) / split.text_bytes
    for kind, (nats, correct, weight) in zip(split.kinds, by_kind, strict=True):
        if weight:
            metrics[f"loss_{kind}"] = nats / weight
            metrics[f"accuracy_{kind}"] = correct / weight
    bounds = {"chance": split.chance, "ceiling": split.ceiling}
    metrics |= {name: value for name, value in bounds.items() if value is not None}
    return metrics
