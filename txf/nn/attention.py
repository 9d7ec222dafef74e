"""Attention: what each token gathers from the tokens it may see.

The mathematics is four pure functions, in the order in which they apply: `attention_scores`
compares queries with keys, `build_mask` says which keys are allowed, `attention_weights` turns
scores into shares, `mix` adds up values by share.  `Attention` holds the projections around them.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from txf.nn.dropout import Noise, drop
from txf.nn.fused import fused_attention, fuses
from txf.nn.initialization import kernel_init
from txf.nn.inspection import record
from txf.nn.linear import Linear
from txf.nn.normalization import Norm
from txf.nn.passes import apart
from txf.nn.positions import rotate
from txf.nn.sight import Sight

# Which projections each form of attention learns; where one is missing, the input itself, split
# over the heads, takes its place.
PROJECTIONS: dict[str, tuple[str, ...]] = {
    "raw": (),
    "qk": ("query", "key"),
    "qkv": ("query", "key", "value"),
}


def unit(x: Float[Array, "*rows key_dim"]) -> Float[Array, "*rows key_dim"]:
    """Divide each vector by its norm: x / |x|; zero stays zero, with a zero gradient."""
    square = jnp.square(x.astype(jnp.float32)).sum(-1, keepdims=True)
    return (x * jax.lax.rsqrt(jnp.maximum(square, 1e-12))).astype(x.dtype)


# What is done to queries and keys before their dot products are taken.
SIMILARITIES: dict[str, Callable[[Array], Array]] = {"dot": lambda x: x, "cosine": unit}


def attention_scores(
    q: Float[Array, "batch queries heads key_dim"],
    k: Float[Array, "batch keys kv_heads key_dim"],
    similarity: str = "dot",
    scale: bool = True,
    bias: Float[Array, "#batch heads queries keys"] | None = None,
) -> Float[Array, "batch heads queries keys"]:
    """Compare every query with every key: s_ij = q_i · k_j / √key_dim + bias_ij, in float32.

    `similarity="cosine"` divides by |q_i| |k_j| too; `scale=False` leaves √key_dim out.  With fewer
    kv_heads than heads, heads / kv_heads neighbouring heads share one head of keys (Ainslie et al.
    2023).  Vaswani et al. 2017, section 3.2.1.
    """
    prepare = SIMILARITIES[similarity]
    q, k = prepare(q), prepare(k)
    batch, queries, heads, key_dim = q.shape
    kv_heads = k.shape[2]
    if kv_heads == heads:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    else:
        grouped = q.reshape(batch, queries, kv_heads, heads // kv_heads, key_dim)
        scores = jnp.einsum("bqgrd,bkgd->bgrqk", grouped, k, preferred_element_type=jnp.float32)
        scores = scores.reshape(batch, heads, queries, k.shape[1])
    if scale:
        scores = scores / math.sqrt(key_dim)
    return scores if bias is None else scores + bias


def build_mask(
    causal: bool,
    query_segments: Int[Array, "batch queries"] | None,
    key_segments: Int[Array, "batch keys"] | None,
    query_places: Int[Array, "#batch #queries"],
    key_places: Int[Array, "#batch #keys"],
) -> Bool[Array, "#batch 1 queries keys"] | None:
    """Say which keys each query may see; None where every query may see all.

    A key is allowed if it does not stand after the query (where `causal`), and if both are in the
    same segment and that is not padding, segment 0 (where segments are given).
    """
    mask = None
    if causal:
        mask = key_places[:, None, None, :] <= query_places[:, None, :, None]
    if query_segments is not None and key_segments is not None:
        keys = key_segments[:, None, None, :]
        together = (query_segments[:, None, :, None] == keys) & (keys > 0)
        mask = together if mask is None else mask & together
    return mask


def attention_weights(
    scores: Float[Array, "batch heads queries keys"],
    mask: Bool[Array, "#batch #heads queries keys"] | None = None,
) -> Float[Array, "batch heads queries keys"]:
    """Softmax over the allowed keys, in float32: a_ij = exp(s_ij) / Σ_k exp(s_ik).

    A query with no allowed key gets weights of zero, and zero gradients, so that padding can never
    turn a loss into NaN.  What a masked score is, even NaN, matters neither forward nor backward.
    Vaswani et al. 2017, section 3.2.1.
    """
    scores = scores.astype(jnp.float32)
    if mask is None:
        return jax.nn.softmax(scores, axis=-1)
    return _masked_softmax(scores, mask)


@jax.custom_jvp
def _masked_softmax(scores: Array, mask: Array) -> Array:
    allowed = jnp.where(mask, scores, -jnp.inf)
    largest = allowed.max(-1, keepdims=True)
    # Nothing allowed: the largest is -inf, and -inf - -inf would be NaN.
    exponentials = jnp.exp(allowed - jnp.where(largest == -jnp.inf, 0.0, largest))
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / jnp.where(total == 0.0, 1.0, total)


@_masked_softmax.defjvp
def _masked_softmax_jvp(primals, tangents):
    # By hand, da = a (ds - Σ a ds): the derivative of the max above would be taken for nothing, and
    # those of `where` would multiply a NaN of a masked score by zero, which is NaN.
    scores, mask = primals
    weights = _masked_softmax(scores, mask)
    change = jnp.where(mask, tangents[0], 0.0)
    # Apart, for the way back: what is summed there is the cotangent of this difference.
    difference = apart(change - (weights * change).sum(-1, keepdims=True))
    return weights, weights * difference


def mix(
    weights: Float[Array, "batch heads queries keys"],
    v: Float[Array, "batch keys kv_heads value_dim"],
) -> Float[Array, "batch queries heads value_dim"]:
    """Add up the values by their shares: out_i = Σ_j a_ij v_j, in the values' type."""
    batch, heads, queries, keys = weights.shape
    kv_heads, value_dim = v.shape[2:]
    weights = weights.astype(v.dtype)
    if kv_heads == heads:
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    grouped = weights.reshape(batch, kv_heads, heads // kv_heads, queries, keys)
    mixed = jnp.einsum("bgrqk,bkgd->bqgrd", grouped, v)
    return mixed.reshape(batch, queries, heads, value_dim)


def quarantine(
    q: Float[Array, "batch queries heads key_dim"],
    k: Float[Array, "batch keys kv_heads key_dim"],
    v: Float[Array, "batch keys kv_heads value_dim"],
    mask: Bool[Array, "#batch 1 queries keys"],
) -> tuple[Array, Array, Array, Bool[Array, "batch queries"]]:
    """Return q, k and v with zeros for tokens that are not finite, and which queries those concern.

    A weight of 0 times NaN is NaN: a token that a query may not see would reach it all the same,
    forward and backward. So such tokens are taken out, and the queries that are or see one are
    named, whose output has to be NaN.
    """

    def clean(x: Array) -> tuple[Array, Array]:
        finite = jnp.isfinite(x).all((2, 3))
        return jnp.where(finite[:, :, None, None], x, 0), ~finite

    (q, bad_q), (k, bad_k), (v, bad_v) = clean(q), clean(k), clean(v)
    sees = (mask[:, 0] & (bad_k | bad_v)[:, None, :]).any(-1)
    return q, k, v, bad_q | sees


def attention(
    q: Float[Array, "batch queries heads key_dim"],
    k: Float[Array, "batch keys kv_heads key_dim"],
    v: Float[Array, "batch keys kv_heads value_dim"],
    mask: Bool[Array, "#batch 1 queries keys"] | None = None,
    similarity: str = "dot",
    scale: bool = True,
    bias: Float[Array, "#batch heads queries keys"] | None = None,
) -> Float[Array, "batch queries heads value_dim"]:
    """Gather for each query the values of the keys it resembles: Σ_j softmax_j(s_ij) v_j.

    The whole of attention without its projections: scores, mask, weights, mix.  What a key or value
    holds, even NaN, has no effect on a query that may not see it.
    """
    if mask is not None:
        q, k, v, bad = quarantine(q, k, v, mask)
    y = mix(attention_weights(attention_scores(q, k, similarity, scale, bias), mask), v)
    return y if mask is None else jnp.where(bad[:, :, None, None], jnp.nan, y)


def split_heads(
    x: Float[Array, "batch tokens width"], num_heads: int
) -> Float[Array, "batch tokens heads head_dim"]:
    """Cut each token's vector into num_heads equal parts, in order."""
    return x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)


def join_heads(
    x: Float[Array, "batch tokens heads value_dim"],
) -> Float[Array, "batch tokens joined"]:
    """Concatenate what the heads give, in order."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


class Attention(nn.Module):
    """Holds the projections `query`, `key`, `value` [width, heads, dim] and `output`.

    `form` says which of the first three there are (PROJECTIONS).  With `cross` the keys and values
    come from a memory instead of from x.  With `fused` a GPU's own kernel is used where it can be
    (`txf.nn.fused`).
    """

    form: str
    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    similarity: str = "dot"
    scale_scores: bool = True
    output_projection: bool = True
    qk_norm: bool = False
    use_bias: bool = True
    cross: bool = False
    fused: bool = True
    capacity: int = 0
    init_scale: float = 1.0
    value_gain: float = 1.0
    output_gain: float = 1.0

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch tokens width"],
        sight: Sight,
        memory: Float[Array, "batch source_tokens width"] | None = None,
        noise: Noise | None = None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens width"]:
        """Gather for each token of x from what `sight` lets it see.

        With `decode`, keys and values are kept in the collection `cache`: tokens of earlier calls
        are seen by later ones, and a memory need only be given once.
        """
        q = self._heads("query", x)
        if self.qk_norm:
            q = Norm("rmsnorm", name="query_norm")(q)
        if sight.rotation is not None:
            q = rotate(q, sight.rotation)
        if self.cross and decode and memory is None:
            k, v = self._recalled()
        else:
            origin = memory if self.cross else x
            k, v = self._heads("key", origin), self._heads("value", origin)
            if self.qk_norm:
                k = Norm("rmsnorm", name="key_norm")(k)
            if sight.rotation is not None:
                k = rotate(k, sight.rotation)
            if decode:
                k, v = self._kept(k, v) if self.cross else self._appended(k, v, sight)
        if sight.mask is not None:
            q, k, v, bad = quarantine(q, k, v, sight.mask)
        y = self._gathered(q, k, v, sight, noise)
        if sight.mask is not None:
            y = jnp.where(bad[:, :, None, None], jnp.nan, y)
        if self.output_projection:
            fan_in = self.num_heads * y.shape[-1]
            init = kernel_init(fan_in, self.output_gain * self.init_scale)
            y = Linear((x.shape[-1],), init, self.use_bias, axes=2, name="output")(y)
        else:
            y = join_heads(y)
        return drop(y, noise and noise.at(1))

    def _heads(self, name: str, x: Array) -> Array:
        """Project x to the heads of the query, key or value, or split it where there is no W."""
        if name not in PROJECTIONS[self.form]:
            return split_heads(x, self.num_heads)
        heads = self.num_heads if name == "query" else self.num_kv_heads
        dim = self.value_dim if name == "value" else self.key_dim
        gain = self.value_gain if name == "value" else 1.0
        init = kernel_init(x.shape[-1], gain * self.init_scale)
        return Linear((heads, dim), init, self.use_bias, name=name)(x)

    def _gathered(
        self, q: Array, k: Array, v: Array, sight: Sight, noise: Noise | None
    ) -> Float[Array, "batch queries heads value_dim"]:
        """Compare, weigh and mix: in one kernel where nobody asks for, adds to or drops weights."""
        plain = sight.bias is None and (sight.mask is None or sight.in_order)
        watched = noise is not None or self.is_mutable_collection("intermediates")
        if self.fused and plain and not watched and fuses(q, k, v, sight.in_order):
            prepare = SIMILARITIES[self.similarity]
            return fused_attention(prepare(q), prepare(k), v, sight.in_order, self.scale_scores)
        scores = attention_scores(q, k, self.similarity, self.scale_scores, sight.bias)
        weights = attention_weights(scores, sight.mask)
        for name, value in dict(query=q, key=k, value=v, scores=scores, weights=weights).items():
            record(self, name, value)
        return mix(drop(weights, noise and noise.at(0)), v)

    def _appended(self, k: Array, v: Array, sight: Sight) -> tuple[Array, Array]:
        """Write k and v behind what the cache holds of each row, and return all of it."""
        rows = jnp.arange(k.shape[0])[:, None]
        whole = []
        for name, new in (("keys", k), ("values", v)):
            shape = (new.shape[0], self.capacity, *new.shape[2:])
            kept = self.variable("cache", name, jnp.zeros, shape, new.dtype)
            # Padding's place lies beyond the cache, where a write has no effect.
            kept.value = kept.value.at[rows, sight.places].set(new, mode="drop")
            whole.append(kept.value)
        return whole[0], whole[1]

    def _kept(self, k: Array, v: Array) -> tuple[Array, Array]:
        """Keep a memory's keys and values for the steps to come."""
        for name, new in (("keys", k), ("values", v)):
            self.variable("cache", name, jnp.zeros, new.shape, new.dtype).value = new
        return k, v

    def _recalled(self) -> tuple[Array, Array]:
        """Return the keys and values of the memory that an earlier call was given."""
        return self.get_variable("cache", "keys"), self.get_variable("cache", "values")
