"""Beam search: the likeliest continuation that a search of bounded width finds."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from txf.errors import UserError
from txf.nn.transformer import EncoderDecoder


def beam_search(
    model: nn.Module,
    params: Any,
    source: Int[Array, "batch source_tokens"],
    source_segments: Int[Array, "batch source_tokens"] | None = None,
    *,
    beams: int = 1,
    max_new_tokens: int = 64,
    begin_of_text: int = 0,
    end_of_text: int = 0,
    length_exponent: float = 1.0,
) -> Int[Array, "batch max_new_tokens"]:
    """Return each row's best target: token ids, `end_of_text` behind the last one.

    A target t_1 ... t_n, its end of text counted, is worth log p(t_1 ... t_n | source) divided by
    n^length_exponent: with 1 the mean log-probability a token, with 0 the log-probability, which
    favours short targets.  At each step every beam is extended by every token, a finished beam
    stays as it is, and the `beams` best of all are kept; one beam is greedy decoding, the
    likeliest token at each step, whatever the exponent.  Sutskever et al. 2014; Wu et al. 2016,
    section 7.

    An encoder-decoder reads `source` in its encoder, once, and its decoder begins from
    `begin_of_text`; any other model reads `source` as the beginning of its text, right-padded where
    rows differ in length.  Rows end early where the context is full.

    Args:
        model: a language or translation model that can decode with a cache.
        params: its parameters.
        source: what to translate.
        source_segments: 1 for tokens, 0 for padding; None where there is no padding.
        beams: how many candidates are kept.
        max_new_tokens: the longest target, its end counted.
        begin_of_text: what an encoder-decoder's target begins with.
        end_of_text: what ends a target.
        length_exponent: the power of the length that scores are divided by.

    Raises:
        UserError: beams or max_new_tokens is below 1.
    """
    for name, value in (("beams", beams), ("max_new_tokens", max_new_tokens)):
        if value < 1:
            raise UserError(f"{name}={value} is not possible; give a number >= 1")
    if source_segments is None:
        source_segments = jnp.ones_like(source)
    sizes = (beams, max_new_tokens, begin_of_text, end_of_text)
    return _search(model, sizes, params, source, source_segments, jnp.float32(length_exponent))


class _Beams(NamedTuple):
    """The beams of all rows; those of one row stand together in the cache's rows."""

    cache: Any
    log_probs: Float[Array, "batch beams vocab"]  # of the next token
    tokens: Int[Array, "batch beams max_new_tokens"]
    total: Float[Array, "batch beams"]  # log-probability; -inf where there is no beam yet
    length: Int[Array, "batch beams"]
    done: Bool[Array, "batch beams"]
    step: Int[Array, ""]


def _worth(total: Array, length: Array, exponent: Array) -> Array:
    return total / jnp.maximum(length, 1).astype(jnp.float32) ** exponent


@functools.partial(jax.jit, static_argnums=(0, 1))
def _search(
    model: nn.Module,
    sizes: tuple[int, int, int, int],
    params: Any,
    source: Array,
    source_segments: Array,
    exponent: Array,
) -> Array:
    beams, longest, begin, end = sizes
    batch = source.shape[0]
    apply = functools.partial(model.apply, decode=True, mutable=["cache"])
    if isinstance(model, EncoderDecoder):
        first = jnp.full((batch, 1), begin, source.dtype)
        logits, variables = apply(
            {"params": params}, first, source=source, source_segments=source_segments
        )
        read = jnp.ones(batch, jnp.int32)
        logits = logits[:, 0]
    else:
        logits, variables = apply({"params": params}, source, source_segments)
        read = (source_segments > 0).sum(1)
        last = jnp.maximum(read - 1, 0)[:, None, None]
        logits = jnp.take_along_axis(logits, last, axis=1)[:, 0]
    spec = model.decoder_spec if isinstance(model, EncoderDecoder) else model.spec
    room = spec.context_length - read + 1  # the last new token need not be read
    vocab = logits.shape[-1]

    def split(x: Array) -> Array:
        return x.reshape(batch, beams, *x.shape[1:])

    def next_log_probs(logits: Array) -> Array:
        return split(jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1))

    # A finished beam has one continuation, itself: the end again, at no cost.
    ended = jnp.where(jnp.arange(vocab) == end, 0.0, -jnp.inf)

    def goes_on(state: _Beams) -> Array:
        return (state.step < longest) & ~state.done.all()

    def extend(state: _Beams) -> _Beams:
        log_probs = jnp.where(state.done[..., None], ended, state.log_probs)
        total = state.total[..., None] + log_probs
        length = state.length + ~state.done
        worth = _worth(total, length[..., None], exponent)
        _, best = lax.top_k(worth.reshape(batch, beams * vocab), beams)
        parent, token = best // vocab, (best % vocab).astype(jnp.int32)

        def of_parent(x: Array) -> Array:
            return jnp.take_along_axis(
                x, parent.reshape(parent.shape + (1,) * (x.ndim - 2)), axis=1
            )

        total = jnp.take_along_axis(total.reshape(batch, -1), best, axis=1)
        tokens = of_parent(state.tokens).at[:, :, state.step].set(token)
        full = (state.step + 1 >= room)[:, None]
        done = of_parent(state.done) | (token == end) | full | (total == -jnp.inf)
        cache = jax.tree.map(lambda x: of_parent(split(x)).reshape(x.shape), state.cache)
        logits, variables = apply(
            {"params": params, "cache": cache},
            token.reshape(-1, 1),
            (~done).astype(jnp.int32).reshape(-1, 1),
        )
        return _Beams(
            cache=variables.get("cache", {}),
            log_probs=next_log_probs(logits[:, 0]),
            tokens=tokens,
            total=total,
            length=of_parent(length),
            done=done,
            step=state.step + 1,
        )

    every = functools.partial(jnp.repeat, repeats=beams, axis=0)
    only_first = jnp.where(jnp.arange(beams) == 0, 0.0, -jnp.inf)
    state = _Beams(
        cache=jax.tree.map(every, variables.get("cache", {})),
        log_probs=next_log_probs(every(logits)),
        tokens=jnp.full((batch, beams, longest), end, jnp.int32),
        total=jnp.broadcast_to(only_first, (batch, beams)),
        length=jnp.zeros((batch, beams), jnp.int32),
        done=jnp.zeros((batch, beams), bool),
        step=jnp.int32(0),
    )
    state = lax.while_loop(goes_on, extend, state)
    best = _worth(state.total, state.length, exponent).argmax(axis=1)
    return jnp.take_along_axis(state.tokens, best[:, None, None], axis=1)[:, 0]
