"""The mathematics of the baselines: recurrent cells, their scan, and the sliding window.

A state is a tuple of arrays [batch, width], float32, of which the first is the layer's output:
(h,) for the Elman net and the GRU, (h, c) for the LSTM.  `x` is the part of the gates that comes
from the layer's input, `a` the part that comes from its last output; both have one row a gate.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

State = tuple[Array, ...]
Cell = Callable[[State, Array, Array], State]

# The window's sum over offsets is cut into this many matrix products: later products skip the
# positions that have no token that far back, and only one product's operand is in memory at a time.
WINDOW_PRODUCTS = 4


def elman_cell(
    state: State, x: Float[Array, "batch gates width"], a: Float[Array, "batch gates width"]
) -> State:
    """One step of the Elman net: h' = tanh(x + a).  Elman 1990; `torch.nn.RNN`."""
    return (jnp.tanh(x[:, 0] + a[:, 0]),)


def gru_cell(
    state: State, x: Float[Array, "batch gates width"], a: Float[Array, "batch gates width"]
) -> State:
    """One step of the gated recurrent unit, gates in the order r, z, n.

    r = sigmoid(x_r + a_r), z = sigmoid(x_z + a_z), n = tanh(x_n + r * a_n), h' = (1 - z) * n + z *
    h. The reset gate acts after the matrix product, as in `torch.nn.GRU`; Cho et al. 2014.
    """
    (h,) = state
    r = jax.nn.sigmoid(x[:, 0] + a[:, 0])
    z = jax.nn.sigmoid(x[:, 1] + a[:, 1])
    n = jnp.tanh(x[:, 2] + r * a[:, 2])
    return ((1 - z) * n + z * h,)


def lstm_cell(
    state: State, x: Float[Array, "batch gates width"], a: Float[Array, "batch gates width"]
) -> State:
    """One step of the long short-term memory, gates in the order i, f, g, o.

    i, f, o = sigmoid(x + a), g = tanh(x_g + a_g), c' = f * c + i * g, h' = o * tanh(c').
    Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000; `torch.nn.LSTM`.
    """
    _, c = state
    gates = x + a
    i, f, o = (jax.nn.sigmoid(gates[:, row]) for row in (0, 1, 3))
    c = f * c + i * jnp.tanh(gates[:, 2])
    return (o * jnp.tanh(c), c)


# family: (cell, gates, arrays in a state)
CELLS: dict[str, tuple[Cell, int, int]] = {
    "rnn": (elman_cell, 1, 1),
    "gru": (gru_cell, 3, 1),
    "lstm": (lstm_cell, 4, 2),
}


def recurrence(
    cell: Cell,
    inputs: Float[Array, "batch tokens gates width"],
    kernel: Float[Array, "width gates width"],
    bias: Float[Array, "gates width"] | None,
    state: State,
    segments: Int[Array, "batch tokens"] | None = None,
    last_segment: Int[Array, " batch"] | None = None,
) -> tuple[Float[Array, "batch tokens width"], State]:
    """Scan a cell over the tokens: state_t = cell(state_{t-1}, inputs_t, h_{t-1} kernel + bias).

    `inputs` holds the input's part of the gates, made for all tokens in one product outside the
    scan. Where `segments` is given, a token of another segment than the last real token
    (`last_segment` before the first) starts from a state of zeros, and padding (segment 0) leaves
    the state as it is. The products run in the dtype of `inputs`, all else in float32.

    Returns the outputs h_t in the dtype of `inputs`, and the state after the last token.  Of the
    `unroll` factors 1, 4, 8 and 16 of `lax.scan`, 1 is the fastest on a CPU and the first to
    compile.
    """
    dtype = inputs.dtype
    kernel = kernel.astype(dtype)

    def advance(state: State, x: Array) -> State:
        a = jnp.einsum(
            "bi,igj->bgj", state[0].astype(dtype), kernel, preferred_element_type=jnp.float32
        )
        return cell(state, x.astype(jnp.float32), a if bias is None else a + bias)

    def step(state: State, x: Array) -> tuple[State, Array]:
        state = advance(state, x)
        return state, state[0].astype(dtype)

    def step_in_segment(carry: tuple[State, Array], token: tuple[Array, Array]) -> Any:
        (state, last), (x, segment) = carry, token
        real = segment > 0
        fresh = (real & (segment != last))[:, None]
        state = tuple(jnp.where(fresh, 0.0, part) for part in state)
        new = advance(state, x)
        state = tuple(jnp.where(real[:, None], n, s) for n, s in zip(new, state, strict=True))
        return (state, jnp.where(real, segment, last)), state[0].astype(dtype)

    xs = jnp.moveaxis(inputs, 1, 0)
    if segments is None:
        state, outputs = lax.scan(step, state, xs)
    else:
        last = jnp.zeros_like(segments[:, 0]) if last_segment is None else last_segment
        (state, _), outputs = lax.scan(step_in_segment, (state, last), (xs, segments.T))
    return jnp.moveaxis(outputs, 0, 1), state


def window_sum(
    x: Float[Array, "batch tokens width"],
    kernel: Float[Array, "context width hidden"],
    segments: Int[Array, "batch tokens"] | None = None,
    first: int = 0,
) -> Float[Array, "batch outputs hidden"]:
    """Concatenate the last `context` rows of x and apply one matrix: y_t = sum_o x_{t-o} kernel_o.

    Offset o counts back from the token itself (o = 0), so every place in the window has weights of
    its own.  Rows before the first token, and rows of another segment, are zeros.  Only outputs
    t >= `first` are made.  This equals a causal convolution, and is one matrix product for each of
    `WINDOW_PRODUCTS` groups of offsets: as fast alone, and several times faster where `vmap` gives
    each member its own kernel.  Bengio et al. 2003.
    """
    context, tokens = kernel.shape[0], x.shape[1]
    size = -(-context // WINDOW_PRODUCTS)
    total = jnp.zeros((x.shape[0], tokens - first, kernel.shape[2]), jnp.float32)
    for start in range(0, min(context, tokens), size):
        part = _offset_product(x, kernel[start : start + size], segments, start, first)
        total = total.at[:, tokens - first - part.shape[1] :].add(part)
    return total.astype(x.dtype)


@functools.partial(jax.checkpoint, static_argnums=(3, 4))
def _offset_product(
    x: Array, kernel: Array, segments: Array | None, start: int, first: int
) -> Array:
    """Sum over the offsets start, start + 1, ... of one group, at the positions it can reach."""
    tokens, group = x.shape[1], kernel.shape[0]
    begin = max(first, start)  # position `begin` is the first that has a token `start` back

    def shifted(values: Array, offset: int) -> Array:
        low = begin - offset
        piece = values[:, max(low, 0) : tokens - offset]
        return jnp.pad(piece, ((0, 0), (max(-low, 0), 0)) + ((0, 0),) * (values.ndim - 2))

    offsets = [min(offset, tokens) for offset in range(start, start + group)]
    windows = jnp.stack([shifted(x, offset) for offset in offsets], axis=2)
    if segments is not None:
        there = jnp.stack([shifted(segments, offset) for offset in offsets], axis=2)
        here = segments[:, begin:, None]
        windows = jnp.where(((there == here) & (here > 0))[..., None], windows, 0)
    kernel = kernel.astype(x.dtype)
    return jnp.einsum("btow,owh->bth", windows, kernel, preferred_element_type=jnp.float32)


def compact_places(segments: Int[Array, "batch tokens"]) -> Int[Array, "batch tokens"]:
    """Say where each token goes when a row's padding is moved before its tokens, orders kept."""
    real = segments > 0
    padding = (~real).sum(1, keepdims=True)
    return jnp.where(real, padding + jnp.cumsum(real, 1), jnp.cumsum(~real, 1)) - 1
