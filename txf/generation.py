"""Text from a trained model: sampling with a cache, row by row independent of the batch.

A row's *window* is what the model has read of it, at most `context_length` tokens.  When a window
is full, the row goes on from the last half of it: the half is read anew, in one prefill, and the
cache fills again.  So a model never sees more than `context_length` tokens, nor a position beyond
them, whatever its positions are; and a token costs one step of the cache, plus one prefill every
`context_length / 2` tokens.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from txf.errors import UserError

Tokens = Sequence[int] | np.ndarray

# A prefill is compiled for a few lengths only: powers of two from this one, up to the context.
SHORTEST_PREFILL = 16


def check_sampling(
    temperature: float | int = 1.0, top_k: int | None = None, top_p: float | int | None = None
) -> None:
    """Raise a UserError that names the first sampling option that has no meaning."""
    if not (temperature >= 0 and np.isfinite(temperature)):
        raise UserError(
            f"temperature={temperature} is not a finite number >= 0; 0 takes the likeliest token, "
            "1 samples from the model as it is"
        )
    if top_k is not None and top_k < 1:
        raise UserError(f"top_k={top_k} keeps no token; give a number >= 1, or none for no limit")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserError(f"top_p={top_p} is outside (0, 1]; 1, or none, keeps every token")


def filter_logits(
    logits: Float[Array, "*batch vocab"],
    temperature: float | int | Float[Array, ""] = 1.0,
    top_k: int | Int[Array, ""] | None = None,
    top_p: float | int | Float[Array, ""] | None = None,
) -> Float[Array, "*batch vocab"]:
    """Return logits whose softmax is the distribution to sample from; left-out tokens get -inf.

    In this order: logits / temperature (0 keeps the likeliest token alone); the `top_k` likeliest
    (more than the vocabulary has: all); of those, renormalized, the smallest set of likeliest
    tokens whose probability reaches `top_p`, never empty (Holtzman et al. 2020).  Of equally
    likely tokens the lower id goes first.  Plain numbers are checked: see `check_sampling` for the
    errors.
    """
    plain = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    check_sampling(**{k: v for k, v in plain.items() if isinstance(v, int | float)})
    vocab = logits.shape[-1]
    logits = logits.astype(jnp.float32)
    greedy = jnp.asarray(temperature) == 0
    likeliest = jnp.arange(vocab) == jnp.argmax(logits, axis=-1, keepdims=True)
    # Any smaller temperature is as good as 0, and would take logits out of float32's range.
    logits = logits / jnp.where(greedy, 1.0, jnp.maximum(temperature, 1e-6))
    logits = jnp.where(greedy & ~likeliest, -jnp.inf, logits)
    if top_k is None and top_p is None:
        return logits
    order = jnp.argsort(-logits, axis=-1, stable=True)
    best, place = jnp.take_along_axis(logits, order, axis=-1), jnp.arange(vocab)
    if top_k is not None:
        best = jnp.where(place < top_k, best, -jnp.inf)
    if top_p is not None:
        share = jax.nn.softmax(best, axis=-1)
        before = jnp.cumsum(share, axis=-1) - share
        # Rounding must neither empty the set nor drop a tail that top_p = 1 asks to keep.
        keep = (before < top_p) | (place < 1) | (jnp.asarray(top_p) >= 1)
        best = jnp.where(keep, best, -jnp.inf)
    return jnp.take_along_axis(best, jnp.argsort(order, axis=-1), axis=-1)


def next_token_distribution(
    logits: Float[Array, "*batch vocab"],
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | int | None = None,
) -> Float[Array, "*batch vocab"]:
    """Return the probabilities that a next token is drawn from: softmax of `filter_logits`."""
    return jax.nn.softmax(filter_logits(logits, temperature, top_k, top_p), axis=-1)


def row_keys(prompts: Sequence[Tokens], seed: int) -> Key[Array, " batch"]:
    """Return a random key a prompt, made of the seed, the prompt, and how often it came before.

    So what a prompt draws does not depend on the other prompts of the batch, and copies of one
    prompt draw different continuations.
    """
    copies: dict[bytes, int] = {}
    places = np.zeros((2, len(prompts)), np.uint32)
    for row, prompt in enumerate(prompts):
        name = np.asarray(prompt, np.int32).tobytes()
        copies[name] = copies.get(name, -1) + 1
        places[:, row] = zlib.crc32(name), copies[name]
    fold = jax.vmap(jax.random.fold_in, (None, 0)), jax.vmap(jax.random.fold_in)
    return fold[1](fold[0](jax.random.key(seed), places[0]), places[1])


def generate(
    model: nn.Module,
    params: Mapping[str, Any],
    prompts: Sequence[Tokens],
    *,
    max_new_tokens: int = 200,
    temperature: float | int = 1.0,
    top_k: int | None = None,
    top_p: float | int | None = None,
    seed: int = 0,
    end_of_text: int | None = 0,
    begin_of_text: int = 0,
    on_token: Callable[[int, int], None] | None = None,
    notice: Callable[[str], None] | None = None,
    cached: bool | None = None,
) -> list[np.ndarray]:
    """Continue prompts, of any lengths, and return each one's new token ids.

    A row ends with `end_of_text`, which is not returned (None: nothing ends it), or after
    `max_new_tokens`.  An empty prompt begins from `begin_of_text`.  Of a prompt longer than the
    model's context the last context_length tokens are read, and `notice` is told so.
    `on_token(row, token)` is called as tokens come, in order within a row; while the caller handles
    one step's tokens the next step already runs.

    Token i of a row is drawn with a key made of the seed, the prompt and i alone (see `row_keys`),
    so a prompt's continuation does not depend on the batch it is in.

    `cached=False` computes the whole window anew for each token.  The result is the same, slower; a
    model that is not causal can do no other, and does so by itself.

    Raises:
        UserError: a sampling option has no meaning, or the model reads a source or gives no logits
            for a next token.
    """
    check_sampling(temperature, top_k, top_p)
    if max_new_tokens < 0:
        raise UserError(f"max_new_tokens={max_new_tokens} is negative; give a number >= 0")
    if not prompts or max_new_tokens == 0:
        return [np.zeros(0, np.int32) for _ in prompts]
    reader = _reader(model, cached)
    context, rows = reader.context, len(prompts)
    windows = [_window(p, row, context, begin_of_text, notice) for row, p in enumerate(prompts)]
    sampler = Sampler(
        keys=row_keys(prompts, seed),
        temperature=jnp.float32(temperature),
        top_k=None if top_k is None else jnp.int32(min(top_k, np.iinfo(np.int32).max)),
        top_p=None if top_p is None else jnp.float32(top_p),
        end=jnp.int32(-1 if end_of_text is None else end_of_text),
        most=jnp.int32(max_new_tokens),
    )
    new: list[list[int]] = [[] for _ in prompts]
    done = np.zeros(rows, bool)

    def take(tokens: np.ndarray) -> None:
        for row, token in zip(*np.nonzero(tokens >= 0), strict=True):
            value = int(tokens[row, token])
            if value == end_of_text:
                done[row] = True
                continue
            new[row].append(value)
            windows[row].append(value)
            done[row] = len(new[row]) == max_new_tokens
            if on_token is not None:
                on_token(int(row), value)

    made = 0
    limit = jnp.int32(1 if on_token is not None else context)
    while not done.all():
        for row in np.flatnonzero(~done):
            if len(windows[row]) > context:
                windows[row] = windows[row][-max(1, context // 2) :]
        tokens, segments = _pad_right(windows, done, context)
        carry, fresh = _prefill(reader, params, sampler, tokens, segments, jnp.int32(made))
        made += 1
        while True:
            carry, coming, steps = _decode(reader, params, sampler, carry, limit)
            take(np.asarray(fresh))
            if int(steps) == 0:  # all rows have ended, or a window is full
                break
            fresh, made = coming[:, : int(steps)], made + int(steps)
    return [np.asarray(tokens, np.int32) for tokens in new]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sampler:
    """What picks the next tokens, on the device: a key a row, the filters, and what ends a row."""

    keys: Key[Array, " batch"]
    temperature: Float[Array, ""]
    top_k: Int[Array, ""] | None
    top_p: Float[Array, ""] | None
    end: Int[Array, ""]
    most: Int[Array, ""]

    def draw(
        self, logits: Float[Array, "batch vocab"], number: Int[Array, ""]
    ) -> Int[Array, " batch"]:
        """Draw each row's new token of this number, with randomness of its own."""
        logits = filter_logits(logits, self.temperature, self.top_k, self.top_p)
        keys = jax.vmap(jax.random.fold_in, (0, None))(self.keys, number)
        return jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Carry:
    """A batch in the middle: `token` is drawn and not yet read, `length` tokens are read."""

    kept: Any
    token: Int[Array, " batch"]
    length: Int[Array, " batch"]
    done: Bool[Array, " batch"]
    number: Int[Array, ""]  # new tokens a row so far

    def drawn(self, sampler: Sampler, logits: Array) -> "tuple[_Carry, Array]":
        """Draw the next token of each row, -1 in rows that are done."""
        token = jnp.where(self.done, -1, sampler.draw(logits, self.number))
        number = self.number + 1
        done = self.done | (token == sampler.end) | (number >= sampler.most)
        return dataclasses.replace(self, token=token, number=number, done=done), token


@dataclasses.dataclass(frozen=True)
class _Reader:
    """A model that reads on from where it was: with a cache, or, without one, all over again."""

    model: nn.Module
    context: int
    cached: bool

    def read(
        self,
        params: Any,
        kept: Any,
        tokens: Int[Array, "batch tokens"],
        segments: Int[Array, "batch tokens"],
    ) -> tuple[Float[Array, "batch vocab"], Any]:
        """Return the logits after each row's last token, and what to read on with.

        `kept` is None at first.  Padding, on the right, has segment 0; a row of padding gives
        logits of no meaning.
        """
        rows = jnp.arange(tokens.shape[0])
        if self.cached:
            variables = {"params": params} | ({} if kept is None else {"cache": kept})
            logits, kept = self.model.apply(
                variables, tokens, segments, decode=True, mutable=["cache"]
            )
            return logits[rows, jnp.maximum(segments.sum(1) - 1, 0)], kept.get("cache", {})
        if kept is None:
            kept = jnp.zeros((rows.size, self.context), jnp.int32), jnp.zeros_like(rows)
        window, length = kept
        places = length[:, None] + jnp.cumsum(segments, 1) - 1
        places = jnp.where(segments > 0, places, self.context)
        window = window.at[rows[:, None], places].set(tokens, mode="drop")
        length = length + segments.sum(1)
        real = jnp.arange(self.context) < length[:, None]
        logits = self.model.apply({"params": params}, window, real.astype(jnp.int32))
        return logits[rows, jnp.maximum(length - 1, 0)], (window, length)


def _reader(model: nn.Module, cached: bool | None) -> _Reader:
    """Return what reads for `model`.

    Raises:
        UserError: it reads a source, or its outputs are no tokens.
    """
    if not hasattr(model, "spec"):
        raise UserError("this model translates a source: use beam_search, not generate")
    if model.outputs != model.vocab_size:
        raise UserError("this model tells classes apart: it has no next token to generate")
    if cached is None:
        cached = getattr(model.spec, "causal", True)  # the baselines are, and have no switch
    return _Reader(model, model.spec.context_length, cached)


@functools.partial(jax.jit, static_argnames="reader")
def _prefill(
    reader: _Reader, params: Any, sampler: Sampler, tokens: Array, segments: Array, number: Array
) -> tuple[_Carry, Array]:
    """Read whole windows with nothing before them, and draw the token after each."""
    logits, kept = reader.read(params, None, tokens, segments)
    length = segments.sum(1)
    carry = _Carry(kept, jnp.zeros_like(length), length, length == 0, number)
    carry, token = carry.drawn(sampler, logits)
    return carry, token[:, None]


@functools.partial(jax.jit, static_argnames="reader", donate_argnames="carry")
def _decode(
    reader: _Reader, params: Any, sampler: Sampler, carry: _Carry, limit: Array
) -> tuple[_Carry, Array, Array]:
    """Read and draw one token after another: at most `limit`, and while each row has room.

    Returns also the tokens, [batch, context_length], and how many of its columns count.
    """

    def goes_on(loop: tuple[_Carry, Array, Array]) -> Array:
        carry, _, steps = loop
        room = (carry.done | (carry.length < reader.context)).all()
        return (steps < limit) & room & ~carry.done.all()

    def step(loop: tuple[_Carry, Array, Array]) -> tuple[_Carry, Array, Array]:
        carry, tokens, steps = loop
        active = (~carry.done).astype(jnp.int32)
        token = jnp.maximum(carry.token, 0)
        logits, kept = reader.read(params, carry.kept, token[:, None], active[:, None])
        carry = dataclasses.replace(carry, kept=kept, length=carry.length + active)
        carry, token = carry.drawn(sampler, logits)
        return carry, tokens.at[:, steps].set(token), steps + 1

    tokens = jnp.full((carry.token.shape[0], reader.context), -1, jnp.int32)
    return lax.while_loop(goes_on, step, (carry, tokens, jnp.int32(0)))


def _window(
    prompt: Tokens,
    row: int,
    context: int,
    begin_of_text: int,
    notice: Callable[[str], None] | None,
) -> list[int]:
    """Return what is read of a prompt at first."""
    ids = [int(token) for token in prompt] or [begin_of_text]
    if len(ids) > context and notice is not None:
        notice(
            f"prompt {row} has {len(ids)} tokens, more than the context of {context}; "
            f"the last {context} are read"
        )
    return ids[-context:]


def _pad_right(
    windows: list[list[int]], done: np.ndarray, context: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and segments [batch, length] of the rows that go on; others are all padding.

    The length is one of few, so that few programs are compiled.
    """
    lengths = [0 if ended else len(window) for window, ended in zip(windows, done, strict=True)]
    longest = max(SHORTEST_PREFILL, 1 << (max(lengths) - 1).bit_length())
    tokens = np.zeros((len(windows), min(longest, context)), np.int32)
    segments = np.zeros_like(tokens)
    for row, length in enumerate(lengths):
        tokens[row, :length] = windows[row][:length]
        segments[row, :length] = 1
    return tokens, segments
