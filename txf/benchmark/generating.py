"""Generation timed: with the cache and without, by context."""

import dataclasses
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from txf.benchmark.shapes import Shape
from txf.benchmark.timing import Contender, interleave, ratio
from txf.generation import generate
from txf.nn.build import build_model

CONTEXTS = (32, 128, 256)
BATCH = 8


def generation_rows(
    shape: Shape, seconds: float, contexts: Sequence[int] = CONTEXTS
) -> list[dict[str, Any]]:
    """Time the second half of a context's tokens, for BATCH prompts of the first half, in turns.

    `times_uncached` is the median over rounds of the time without the cache over that with it.
    """
    contenders = {}
    for context in contexts:
        for cached in (True, False):
            contenders[f"{context} {cached}"] = _make(shape, context, cached)
    samples = interleave(contenders, seconds)
    rows = []
    for context in contexts:
        with_cache, without = samples[f"{context} True"], samples[f"{context} False"]
        rows.append(
            {
                "shape": shape.name,
                "context": context,
                "tokens_per_second": 1 / statistics.median(with_cache),
                "without_cache": 1 / statistics.median(without),
                "times_uncached": ratio(without, with_cache),
            }
        )
    return rows


def _make(shape: Shape, context: int, cached: bool) -> Contender:
    shape = dataclasses.replace(shape, context=context)
    model = build_model(shape.config().model, shape.vocab, context)
    params = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    prompts = [[1] * (context // 2)] * BATCH
    new = context - context // 2
    run = partial(
        generate, model, params, prompts, max_new_tokens=new, end_of_text=None, cached=cached
    )
    return Contender(run, new * BATCH)
