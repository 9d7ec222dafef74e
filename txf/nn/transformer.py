"""Transformers: a stack of blocks, alone as a decoder or an encoder, or two of them joined."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from txf.errors import UserError
from txf.nn.attention import build_mask
from txf.nn.block import FINAL_NORM, Block
from txf.nn.dropout import Noise, drop
from txf.nn.heads import Embed, Head
from txf.nn.inspection import record
from txf.nn.normalization import Norm
from txf.nn.positions import (
    ADDED,
    PositionTable,
    alibi_bias,
    check_length,
    positions_in_segments,
    rope_rotation,
)
from txf.nn.sight import Sight
from txf.nn.spec import StackSpec


def self_sight(
    spec: StackSpec, segments: Int[Array, "batch tokens"] | None, num_tokens: int
) -> tuple[Sight, Int[Array, "#batch tokens"]]:
    """Return what the tokens of a stack see of each other, and their positions."""
    places = jnp.arange(num_tokens, dtype=jnp.int32)[None]
    positions = places if segments is None else positions_in_segments(segments)
    mask = build_mask(spec.causal, segments, segments, places, places)
    bias = None
    if spec.positions == "alibi":
        bias = alibi_bias(positions, positions, spec.num_heads)
    in_order = spec.causal and segments is None
    return Sight(mask, bias, _rotation(spec, positions), in_order=in_order), positions


def cached_sight(
    spec: StackSpec,
    segments: Int[Array, "batch tokens"],
    lengths: Int[Array, " batch"],
    kept_segments: Int[Array, "batch capacity"],
) -> tuple[Sight, Int[Array, "batch tokens"], Int[Array, " batch"], Int[Array, "batch capacity"]]:
    """Return what new tokens see of those kept and of each other, and the cache's new state.

    `lengths` says how many tokens are kept of each row, `kept_segments` which segments they are
    of.  New tokens are kept behind them, padding is not kept; so rows fill up at their own pace.
    Returns the sight, the new tokens' positions, and lengths and kept_segments with them included.
    """
    capacity = kept_segments.shape[1]
    real = segments > 0
    places = jnp.where(real, lengths[:, None] + jnp.cumsum(real, 1) - 1, capacity)
    rows = jnp.arange(segments.shape[0])[:, None]
    kept_segments = kept_segments.at[rows, places].set(segments, mode="drop")
    key_places = jnp.arange(capacity, dtype=jnp.int32)[None]
    mask = build_mask(True, segments, kept_segments, places, key_places)
    # A token sees itself and its segment's earlier ones: as many of those as its position says.
    positions = jnp.maximum(mask[:, 0].sum(-1, dtype=jnp.int32) - 1, 0)
    bias = None
    if spec.positions == "alibi":
        bias = alibi_bias(places, key_places, spec.num_heads)
    sight = Sight(mask, bias, _rotation(spec, positions), places)
    return sight, positions, lengths + real.sum(1, dtype=jnp.int32), kept_segments


def cross_sight(
    segments: Int[Array, "batch tokens"] | None,
    memory_segments: Int[Array, "batch source_tokens"] | None,
    batch: int,
    num_tokens: int,
    memory_tokens: int,
) -> Sight:
    """Return what tokens see of another stack's: those of the segment with their own number.

    Order does not count across stacks: neither mask nor positions apply.
    """
    if segments is None and memory_segments is None:
        return Sight()
    if segments is None:
        segments = jnp.ones((batch, num_tokens), jnp.int32)
    if memory_segments is None:
        memory_segments = jnp.ones((batch, memory_tokens), jnp.int32)
    query_places, key_places = jnp.arange(num_tokens)[None], jnp.arange(memory_tokens)[None]
    mask = build_mask(False, segments, memory_segments, query_places, key_places)
    return Sight(mask)


def _rotation(spec: StackSpec, positions: Array) -> tuple[Array, Array] | None:
    return rope_rotation(positions, spec.key_dim) if spec.positions == "rope" else None


class Stack(nn.Module):
    """Positions, `depth` blocks, and the last norm where the placement has one."""

    spec: StackSpec

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch tokens width"],
        segments: Int[Array, "batch tokens"] | None,
        memory: Float[Array, "batch source_tokens width"] | None = None,
        memory_segments: Int[Array, "batch source_tokens"] | None = None,
        noise: Noise | None = None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens width"]:
        """Pass embeddings x through the stack; `memory` is what cross-attention looks at."""
        spec = self.spec
        batch, num_tokens = x.shape[:2]
        check_length(spec.positions, num_tokens, spec.context_length)
        overflow = None
        if decode:
            if segments is None:
                segments = jnp.ones((batch, num_tokens), jnp.int32)
            sight, positions, overflow = self._remembered(segments)
        else:
            sight, positions = self_sight(spec, segments, num_tokens)
        if spec.positions in ADDED:
            table = PositionTable(
                spec.positions, spec.context_length, spec.width, spec.init_scale, name="positions"
            )
            x = x + table(positions, max(spec.context_length, num_tokens)).astype(x.dtype)
        x = drop(x, noise and noise.at(spec.depth))
        record(self, "embeddings", x)
        memory_sight = None
        if spec.cross:
            if decode:
                memory_segments = self._remembered_source(memory, memory_segments)
            memory_tokens = (memory if memory is not None else memory_segments).shape[1]
            memory_sight = cross_sight(segments, memory_segments, batch, num_tokens, memory_tokens)
        x = self._blocks(x, (sight, memory, memory_sight), noise, decode)
        if spec.norm_placement in FINAL_NORM:
            x = Norm(spec.norm, spec.bias, name="final_norm")(x)
        if overflow is not None:
            x = jnp.where(overflow[:, None, None], jnp.nan, x)
        return x

    def _blocks(self, x: Array, seen: tuple, noise: Noise | None, decode: bool) -> Array:
        """Apply the blocks: one by one, or as `remat` and `scan_layers` would have it.

        Both change what the same result costs.  They do not apply where blocks have more to say
        than their output: their parameters at first, their cache, their intermediates.
        """
        spec = self.spec
        names = [f"block_{index}" for index in range(spec.depth)]
        talks = self.is_initializing() or decode or self.is_mutable_collection("intermediates")
        if talks or not (spec.remat or spec.scan_layers):
            for index, name in enumerate(names):
                x = Block(spec, name=name)(x, *seen, noise and noise.at(index), decode)
            return x

        def apply_block(x: Array, params: Any, index: Array | int) -> Array:
            block = Block(spec, parent=None)
            return block.apply({"params": params}, x, *seen, noise and noise.at(index))

        if spec.remat:
            apply_block = jax.checkpoint(apply_block)
        params = [self.variables["params"][name] for name in names]
        if not spec.scan_layers:
            for index, block_params in enumerate(params):
                x = apply_block(x, block_params, index)
            return x
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
        steps = (stacked, jnp.arange(spec.depth))
        return jax.lax.scan(lambda x, step: (apply_block(x, *step), None), x, steps)[0]

    def _remembered(self, segments: Array) -> tuple[Sight, Array, Array]:
        """Bring the cache's lengths and segments up to date; return sight, positions, overflow.

        Raises:
            UserError: the stack is not causal, or the cache could not hold these tokens were it
                empty.  A cache that overflows later makes the rows concerned NaN.
        """
        spec = self.spec
        batch, num_tokens = segments.shape
        if not spec.causal:
            raise UserError(
                "decode=True needs a causal model: without the mask, tokens already computed change"
                " with each new one; run the whole text through the model instead"
            )
        check_capacity(num_tokens, spec.context_length)
        lengths = self.variable("cache", "lengths", jnp.zeros, (batch,), jnp.int32)
        shape = (batch, spec.context_length)
        kept = self.variable("cache", "segments", jnp.zeros, shape, jnp.int32)
        sight, positions, lengths.value, kept.value = cached_sight(
            spec, segments, lengths.value, kept.value
        )
        return sight, positions, lengths.value > spec.context_length

    def _remembered_source(self, memory: Array | None, segments: Array | None) -> Array:
        """Keep the source's segments with its keys and values, or return those kept."""
        if memory is None:
            if not self.has_variable("cache", "memory_segments"):
                raise UserError("the first call with decode=True needs the source")
            return self.get_variable("cache", "memory_segments")
        if segments is None:
            segments = jnp.ones(memory.shape[:2], jnp.int32)
        self.variable(
            "cache", "memory_segments", jnp.zeros, segments.shape, jnp.int32
        ).value = segments
        return segments


def check_capacity(num_tokens: int, context_length: int) -> None:
    """Refuse to decode more tokens in all, prompt included, than the cache has room for.

    Raises:
        UserError: `num_tokens` exceeds `context_length`.
    """
    if num_tokens > context_length:
        raise UserError(
            f"{num_tokens} tokens do not fit the cache of context_length={context_length};"
            " shorten the prompt or ask for fewer new tokens"
        )


class Transformer(nn.Module):
    """A decoder or an encoder: embedding, one stack, head."""

    spec: StackSpec
    vocab_size: int
    outputs: int
    tied: bool
    head_bias: bool
    pooling: str | None
    dtype: Any

    def setup(self):
        """Make the parts; the stack's parameters stand beside the embedding's."""
        self.embed = Embed(self.vocab_size, self.spec.width, self.spec.init_scale)
        self.stack = Stack(self.spec)
        nn.share_scope(self, self.stack)
        if not self.tied:
            self.head = Head(self.outputs, self.pooling, self.head_bias, self.spec.init_scale)

    def __call__(
        self,
        tokens: Int[Array, "batch tokens"],
        segments: Int[Array, "batch tokens"] | None = None,
        *,
        source: Int[Array, "batch source_tokens"] | None = None,
        source_segments: Int[Array, "batch source_tokens"] | None = None,
        dropout_rate: float | Float[Array, ""] | None = None,
        decode: bool = False,
    ) -> Float[Array, "batch *tokens outputs"]:
        """Return float32 logits.

        Args:
            tokens: what is read.
            segments: 0 is padding, equal positive numbers see each other; None is one segment.
            source: refused; only an encoder_decoder reads one.
            source_segments: refused, as `source`.
            dropout_rate: None switches dropout off; a rate needs rngs={"dropout": key}.
            decode: keep keys and values in the collection `cache`, and see those kept there.

        Raises:
            UserError: there is a source, or more tokens than the model can place.
        """
        if source is not None or source_segments is not None:
            raise UserError("source is given, and only structure='encoder_decoder' reads one")
        if decode and self.pooling is not None:
            raise UserError("decode=True makes no sense for classification; it needs whole texts")
        x = self.features(tokens, segments, dropout_rate=dropout_rate, decode=decode)
        return self.embed.logits(x) if self.tied else self.head(x, segments)

    def features(
        self,
        tokens: Int[Array, "batch tokens"],
        segments: Int[Array, "batch tokens"] | None = None,
        *,
        dropout_rate: float | Float[Array, ""] | None = None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens width"]:
        """Return what the head makes logits of; the arguments are `__call__`'s."""
        noise = None if dropout_rate is None else Noise(dropout_rate, self.make_rng("dropout"))
        x = self.embed(tokens).astype(self.dtype)
        return self.stack(x, segments, noise=noise, decode=decode)


class EncoderDecoder(nn.Module):
    """An encoder that reads the source, and a decoder that looks at what it made of it."""

    encoder_spec: StackSpec
    decoder_spec: StackSpec
    vocab_size: int
    tied: bool
    dtype: Any

    def setup(self):
        """Make the parts; source and target share one embedding."""
        spec = self.decoder_spec
        self.embed = Embed(self.vocab_size, spec.width, spec.init_scale)
        self.encoder = Stack(self.encoder_spec)
        self.decoder = Stack(spec)
        if not self.tied:
            self.head = Head(self.vocab_size, None, False, spec.init_scale)

    def __call__(
        self,
        tokens: Int[Array, "batch tokens"],
        segments: Int[Array, "batch tokens"] | None = None,
        *,
        source: Int[Array, "batch source_tokens"] | None = None,
        source_segments: Int[Array, "batch source_tokens"] | None = None,
        dropout_rate: float | Float[Array, ""] | None = None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens vocab"]:
        """Return float32 logits of the token after each of `tokens`, given the source.

        Args:
            tokens: what the decoder reads.
            segments: 0 is padding, equal positive numbers see each other; None is one segment.
            source: what the encoder reads; with `decode` only the first call needs it.
            source_segments: as `segments`; tokens look at the source's segment of their number.
            dropout_rate: None switches dropout off; a rate needs rngs={"dropout": key}.
            decode: keep keys and values in the collection `cache`, and see those kept there.

        Raises:
            UserError: the source is missing, or there are more tokens than the model can place.
        """
        given = {"source": source, "source_segments": source_segments}
        x = self.features(tokens, segments, **given, dropout_rate=dropout_rate, decode=decode)
        return self.embed.logits(x) if self.tied else self.head(x, segments)

    def features(
        self,
        tokens: Int[Array, "batch tokens"],
        segments: Int[Array, "batch tokens"] | None = None,
        *,
        source: Int[Array, "batch source_tokens"] | None = None,
        source_segments: Int[Array, "batch source_tokens"] | None = None,
        dropout_rate: float | Float[Array, ""] | None = None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens width"]:
        """Return what the head makes logits of; arguments and errors are `__call__`'s."""
        if source is None and self.is_initializing():
            source = tokens
        noise = None if dropout_rate is None else Noise(dropout_rate, self.make_rng("dropout"))
        memory = None
        if source is not None:
            x = self.embed(source).astype(self.dtype)
            memory = self.encoder(x, source_segments, noise=noise and noise.at(0))
        elif not decode:
            raise UserError("structure='encoder_decoder' needs a source")
        x = self.embed(tokens).astype(self.dtype)
        return self.decoder(x, segments, memory, source_segments, noise and noise.at(1), decode)
