"""How a model knows where a token stands: five answers, none of them included.

Positions count from the first token of each segment, so padding on either side, or another document
packed before it, changes nothing for a token.
"""

import math

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int

from txf.errors import UserError
from txf.nn.initialization import kernel_init

POSITIONS = {
    "none": "nothing is added; a causal mask still tells a token how many it sees",
    "learned": "a table of context_length rows, trained, is added to the embeddings",
    "sinusoidal": "a fixed table of sines and cosines is added to the embeddings",
    "rope": "queries and keys are rotated by angles that grow with the position",
    "alibi": "scores fall linearly with the distance, at another slope in each head",
}
ADDED = ("learned", "sinusoidal")


def positions_in_segments(
    segments: Int[Array, "batch tokens"],
) -> Int[Array, "batch tokens"]:
    """Number each token within its segment: position_i = #{j < i : segment_j = segment_i}.

    Counting instead of subtracting the segment's start lets padding stand anywhere.
    """
    same = segments[:, :, None] == segments[:, None, :]
    earlier = jnp.tril(jnp.ones((segments.shape[1],) * 2, bool), -1)
    return (same & earlier).sum(-1, dtype=jnp.int32)


def sinusoidal_table(rows: int, width: int) -> Float[np.ndarray, "tokens width"]:
    """Return sin(p / 10000^(2i/width)) in column 2i and the cosine in column 2i + 1, for row p.

    An odd width ends with a sine.  Vaswani et al. 2017, section 3.5.
    """
    column = np.arange(width)
    frequency = 10000.0 ** (-(column // 2 * 2) / width)
    angle = np.arange(rows)[:, None] * frequency
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)


def rope_rotation(
    positions: Int[Array, "#batch tokens"], key_dim: int
) -> tuple[Float[Array, "#batch tokens 1 half"], Float[Array, "#batch tokens 1 half"]]:
    """Return the cosines and sines of the angles p · 10000^(−2i/key_dim), i < key_dim / 2.

    Su et al. 2021, section 3.2.2.

    Raises:
        UserError: key_dim is odd, so that its last coordinate has no partner to rotate with.
    """
    if key_dim % 2:
        raise UserError(f"positions='rope' rotates pairs, and key_dim={key_dim} is odd")
    frequency = 10000.0 ** (-np.arange(0, key_dim, 2) / key_dim)
    angle = positions[:, :, None, None] * frequency.astype(np.float32)
    return jnp.cos(angle), jnp.sin(angle)


def rotate(
    x: Float[Array, "batch tokens heads key_dim"],
    rotation: tuple[Float[Array, "#batch tokens 1 half"], Float[Array, "#batch tokens 1 half"]],
) -> Float[Array, "batch tokens heads key_dim"]:
    """Turn each pair (x_i, x_{i + key_dim/2}) by its angle.

    The product of a rotated query and a rotated key then depends on their positions through the
    difference alone.  The pairs are the halves of the vector, not neighbours as in the paper: the
    same up to a fixed reordering of the columns of W_Q and W_K, and contiguous in memory.
    """
    cosine, sine = (table.astype(x.dtype) for table in rotation)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )


def alibi_slopes(num_heads: int) -> Float[np.ndarray, " heads"]:
    """Return the slope m_h of each head: 2^(−8h/H), h = 1 … H, for H a power of two.

    Other H take the slopes of the power of two below, then every other slope of the one above.
    Press et al. 2021, section 3.
    """
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-8.0 * np.arange(1, 2 * power + 1, 2) / (2 * power))
    return np.concatenate([slopes, between[: num_heads - power]]).astype(np.float32)


def alibi_bias(
    query_positions: Int[Array, "#batch queries"],
    key_positions: Int[Array, "#batch keys"],
    num_heads: int,
) -> Float[Array, "#batch heads queries keys"]:
    """Return what is added to the scores: −m_h · |i − j|.

    Where a causal mask leaves j ≤ i this is −m_h · (i − j).
    """
    distance = jnp.abs(query_positions[:, :, None] - key_positions[:, None, :])
    return -alibi_slopes(num_heads)[:, None, None] * distance[:, None].astype(jnp.float32)


def check_length(kind: str, tokens: int, limit: int) -> None:
    """Refuse more tokens than a learned table has rows.

    Raises:
        UserError: `kind` is learned and `tokens` exceeds `limit`.
    """
    if kind == "learned" and tokens > limit:
        raise UserError(
            f"{tokens} tokens are more than the context_length={limit} rows of positions='learned';"
            " shorten the input or build the model with a longer context"
        )


class PositionTable(nn.Module):
    """Holds the `table` [context, width] of learned positions; sinusoidal ones hold nothing."""

    kind: str
    context_length: int
    width: int
    init_scale: float = 1.0

    @nn.compact
    def __call__(
        self, positions: Int[Array, "#batch tokens"], limit: int
    ) -> Float[Array, "#batch tokens width"]:
        """Return the rows that belong to `positions`, all of which are below `limit`."""
        match self.kind:
            case "learned":
                shape = (self.context_length, self.width)
                init = kernel_init(self.width, self.init_scale)
                table = self.param("table", init, shape, jnp.float32)
            case "sinusoidal":
                table = jnp.asarray(sinusoidal_table(limit, self.width))
            case kind:
                raise ValueError(f"positions={kind!r} adds no table; {' and '.join(ADDED)} do")
        return table[positions]
