"""The models that attention is compared with: bigram, fixed-window MLP, Elman net, GRU, LSTM.

They answer the same call as a transformer.  Blocks stand around a residual stream as a
transformer's do (`add_sublayer`), with one sublayer F each:

| family     | block i                                                                             |
|------------|-------------------------------------------------------------------------------------|
| rnn        | F = Elman net, tanh                                                                 |
| gru, lstm  | F = the gated cell                                                                  |
| window_mlp | i = 0: F = down(activation(up · the last context_length vectors, concatenated));    |
|            | i > 0: F = the position-wise MLP of a transformer                                   |
| bigram     | no blocks: the logits are a row of a table [vocab, vocab], picked by the last token |

With `residual=False` and `norm_placement=none` the recurrent families are plain stacked layers, as
torch's.  window_mlp has `depth` hidden layers of mlp_ratio · width; the first reads the window,
with zeros before the first token, and so learns weights of its own for each place in it.

Packed documents do not see each other: a state starts from zeros, a window ends, where the segment
changes.  Tokens of one segment must stand together; padding between them is passed over by a state
and by a cache.  What the lstm starts from is in `initialization`, but for the bias of its forget
gate, which starts at `forget_bias` (Jozefowicz et al. 2015).

For classification a bigram's row is averaged over the tokens: a bag of words.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int
from ml_collections import ConfigDict

from txf.errors import UserError
from txf.nn.baseline_spec import (
    BaselineShape,
    BaselineSpec,
    baseline_flops_per_token,
    baseline_parameter_count,
    check_baseline,
)
from txf.nn.block import FINAL_NORM, NORMS_AROUND, add_sublayer
from txf.nn.dropout import Noise, drop
from txf.nn.feedforward import ACTIVATIONS, FeedForward
from txf.nn.heads import Embed, Head, mean_pool
from txf.nn.initialization import kernel_init, logits_init
from txf.nn.inspection import record
from txf.nn.linear import Linear, linear
from txf.nn.normalization import Norm
from txf.nn.recurrence import CELLS, compact_places, recurrence, window_sum
from txf.nn.spec import DTYPES

__all__ = [
    "Baseline",
    "Bigram",
    "baseline_flops_per_token",
    "baseline_parameter_count",
    "build_baseline",
    "check_baseline",
]


class Weights(nn.Module):
    """Holds a `kernel` of a given shape and, where `bias_shape` is given, a `bias`."""

    shape: tuple[int, ...]
    kernel_init: nn.initializers.Initializer
    bias_shape: tuple[int, ...] | None = None
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self) -> tuple[Float[Array, "..."], Float[Array, "..."] | None]:
        """Return both."""
        kernel = self.param("kernel", self.kernel_init, self.shape, jnp.float32)
        if self.bias_shape is None:
            return kernel, None
        return kernel, self.param("bias", self.bias_init, self.bias_shape, jnp.float32)


class Recurrent(nn.Module):
    """Holds a recurrent layer: `input` and `hidden`, each a kernel [width, gates, width].

    The biases of torch's two sides add up, so `input` alone has one, [gates, width]; the GRU's
    `hidden` has a bias [width] too, which its reset gate multiplies.
    """

    spec: BaselineSpec

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch tokens width"],
        segments: Int[Array, "batch tokens"] | None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens width"]:
        """Return the output after each token; with `decode`, go on from the state in the cache."""
        spec, (batch, _, width) = self.spec, x.shape
        cell, gates, parts = CELLS[spec.family]
        shape, init = (width, gates, width), kernel_init(width, spec.init_scale)
        biases, bias_init = (gates, width) if spec.bias else None, nn.initializers.zeros
        if spec.family == "lstm":
            bias_init = _forget_bias_init(spec.forget_bias)
        kernel, bias = Weights(shape, init, biases, bias_init, name="input")()
        inner = (width,) if spec.bias and spec.family == "gru" else None
        hidden_kernel, hidden_bias = Weights(shape, init, inner, name="hidden")()
        if hidden_bias is not None:
            hidden_bias = jnp.zeros((gates, width)).at[2].set(hidden_bias)
        inputs = linear(x, kernel, bias, axes=1)
        state = tuple(jnp.zeros((batch, width), jnp.float32) for _ in range(parts))
        if not decode:
            return recurrence(cell, inputs, hidden_kernel, hidden_bias, state, segments)[0]
        if segments is None:
            segments = jnp.ones(x.shape[:2], jnp.int32)
        kept = [
            self.variable("cache", name, lambda value=value: value)
            for name, value in zip(("output", "cell"), state, strict=False)
        ]
        last = self.variable("cache", "segment", jnp.zeros, (batch,), jnp.int32)
        state = tuple(part.value for part in kept)
        y, state = recurrence(cell, inputs, hidden_kernel, hidden_bias, state, segments, last.value)
        for part, value in zip(kept, state, strict=True):
            part.value = value
        place = compact_places(segments).argmax(1)  # of the last token, or of padding in its lack
        newest = jnp.take_along_axis(segments, place[:, None], axis=1)[:, 0]
        last.value = jnp.where(newest > 0, newest, last.value)
        return y


def _forget_bias_init(forget_bias: float) -> nn.initializers.Initializer:
    """Return the initializer of the LSTM's biases: zeros, but for the forget gate, the second."""

    def init(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        return jnp.zeros(shape, dtype).at[1].set(forget_bias)

    return init


class Window(nn.Module):
    """Holds `up` [context, width, hidden] and `down` [hidden, width]: an MLP over the window."""

    spec: BaselineSpec

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch tokens width"],
        segments: Int[Array, "batch tokens"] | None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens width"]:
        """Map the window that ends at each token; with `decode`, windows reach into the cache."""
        spec, width = self.spec, x.shape[-1]
        shape = (spec.context_length, width, spec.hidden)
        init = kernel_init(spec.context_length * width, spec.init_scale)
        bias_shape = (spec.hidden,) if spec.bias else None
        kernel, bias = Weights(shape, init, bias_shape, name="up")()
        y = self._continued(x, kernel, segments) if decode else window_sum(x, kernel, segments)
        y = y if bias is None else y + bias.astype(y.dtype)
        y = ACTIVATIONS[spec.activation](y)
        return Linear((width,), kernel_init(spec.hidden, spec.init_scale), spec.bias, name="down")(
            y
        )

    def _continued(self, x: Array, kernel: Array, segments: Array | None) -> Array:
        """Sum over windows that begin in the cache, which holds the last context_length - 1 rows.

        Padding is moved before what is kept, so that it takes no place in a window.
        """
        batch, tokens, width = x.shape
        reach = self.spec.context_length - 1
        if segments is None:
            segments = jnp.ones((batch, tokens), jnp.int32)
        kept = self.variable("cache", "window", jnp.zeros, (batch, reach, width), x.dtype)
        kept_segments = self.variable("cache", "segments", jnp.zeros, (batch, reach), jnp.int32)
        x = jnp.concatenate([kept.value, x], axis=1)
        segments = jnp.concatenate([kept_segments.value, segments], axis=1)
        rows, places = jnp.arange(batch)[:, None], compact_places(segments)
        x = jnp.zeros_like(x).at[rows, places].set(x)
        segments = jnp.zeros_like(segments).at[rows, places].set(segments)
        kept.value, kept_segments.value = x[:, tokens:], segments[:, tokens:]
        y = window_sum(x, kernel, segments, first=reach)
        return y[rows, jnp.maximum(places[:, reach:] - reach, 0)]


class BaselineBlock(nn.Module):
    """One sublayer around the residual stream, with its norms."""

    spec: BaselineSpec
    sublayer: str

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch tokens width"],
        segments: Int[Array, "batch tokens"] | None,
        noise: Noise | None,
        decode: bool,
    ) -> Float[Array, "batch tokens width"]:
        """Pass the residual stream x through the block."""
        spec, name = self.spec, self.sublayer
        norms = {
            kind: Norm(spec.norm, spec.bias, name=f"{name}_{kind}")
            for kind in NORMS_AROUND[spec.norm_placement]
        }
        function = self._function(name, segments, decode)
        x = add_sublayer(
            x, lambda x: drop(function(x), noise), spec.norm_placement, spec.residual, **norms
        )
        record(self, f"{name}_residual", x)
        return x

    def _function(
        self, name: str, segments: Array | None, decode: bool
    ) -> Callable[[Array], Array]:
        spec = self.spec
        if name == "feedforward":
            gain = spec.init_scale
            return FeedForward(
                "mlp", spec.hidden, spec.activation, spec.bias, gain, gain, name=name
            )
        layer = (Window if name == "window" else Recurrent)(spec, name=name)
        return lambda x: layer(x, segments, decode)


class Baseline(nn.Module):
    """Embedding, blocks, head: window_mlp and the recurrent families."""

    spec: BaselineSpec
    vocab_size: int
    outputs: int
    tied: bool
    head_bias: bool
    pooling: str | None
    dtype: Any

    def setup(self):
        """Make the parts, named as a transformer's."""
        spec = self.spec
        self.embed = Embed(self.vocab_size, spec.width, spec.init_scale)
        self.block = [BaselineBlock(spec, spec.sublayer(i)) for i in range(spec.depth)]
        if spec.norm_placement in FINAL_NORM:
            self.final_norm = Norm(spec.norm, spec.bias)
        if not self.tied:
            self.head = Head(self.outputs, self.pooling, self.head_bias, spec.init_scale)

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
        """Return float32 logits; the arguments are `Transformer`'s.

        Raises:
            UserError: there is a source.
        """
        _refuse(self.spec.family, source, source_segments, decode and self.pooling is not None)
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
        spec = self.spec
        noise = None if dropout_rate is None else Noise(dropout_rate, self.make_rng("dropout"))
        x = self.embed(tokens).astype(self.dtype)
        x = drop(x, noise and noise.at(spec.depth))
        record(self, "embeddings", x)
        for index, block in enumerate(self.block):
            x = block(x, segments, noise and noise.at(index), decode)
        return self.final_norm(x) if spec.norm_placement in FINAL_NORM else x


class Bigram(nn.Module):
    """Holds the `table` [vocab, outputs]; what stood before the last token does not matter."""

    spec: BaselineSpec
    vocab_size: int
    outputs: int
    pooling: str | None

    @nn.compact
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
        """Return float32 logits; the arguments are `Transformer`'s, and nothing needs a cache.

        Raises:
            UserError: there is a source.
        """
        _refuse("bigram", source, source_segments, decode and self.pooling is not None)
        shape, init = (self.vocab_size, self.outputs), logits_init(self.spec.init_scale)
        table = self.param("table", init, shape, jnp.float32)
        logits = jnp.take(table, tokens, axis=0, mode="fill", fill_value=jnp.nan)
        return logits if self.pooling is None else mean_pool(logits, segments)


def _refuse(family: str, source: Any, source_segments: Any, decodes_text: bool) -> None:
    if source is not None or source_segments is not None:
        raise UserError(
            f"source is given, and family={family!r} reads none; only a transformer with"
            " structure='encoder_decoder' does"
        )
    if decodes_text:
        raise UserError("decode=True makes no sense for classification; it needs whole texts")


def build_baseline(
    config_model: ConfigDict,
    vocab_size: int,
    context_length: int,
    task: str = "language_model",
    num_classes: int | None = None,
) -> nn.Module:
    """Return the baseline that `config_model` (the model group) describes.

    Raises:
        UserError: an option does not go with the family; see `check_baseline`.
    """
    if problems := check_baseline(config_model, vocab_size, context_length, task, num_classes):
        raise UserError("; ".join(problems))
    shape = BaselineShape(config_model, vocab_size, context_length, task, num_classes)
    spec = shape.spec
    pooling = "mean" if task == "classification" else None
    if spec.family == "bigram":
        return Bigram(spec, vocab_size, shape.outputs, pooling)
    dtype = DTYPES[config_model.dtype]
    return Baseline(spec, vocab_size, shape.outputs, shape.tied, shape.head_bias, pooling, dtype)
