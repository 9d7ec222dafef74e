"""What a model says at its top: the next token, a class for the text, a label for each token."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from txf.nn.initialization import kernel_init

TASKS = {
    "language_model": "vocab",
    "masked_language_model": "vocab",
    "translation": "vocab",
    "classification": "classes",
    "tagging": "classes",
}


def vocabulary_logits(
    x: Float[Array, "batch tokens width"], embedding: Float[Array, "vocab width"]
) -> Float[Array, "batch tokens vocab"]:
    """Compare each token's vector with each row of the embedding: logits = x Eᵀ, in float32.

    The head that is tied to the embedding (Press and Wolf 2017).
    """
    flat, rows = x.reshape(-1, x.shape[-1]), embedding.astype(x.dtype)
    logits = jnp.einsum("nw,vw->nv", flat, rows, preferred_element_type=jnp.float32)
    return logits.reshape(*x.shape[:-1], -1)


def vocabulary_kernel(params: Mapping[str, Any]) -> Float[Array, "width vocab"]:
    """Return the matrix that a model with these parameters maps its features to logits with.

    That of its head, or, where it has none, the embedding's, transposed.
    """
    if "head" in params:
        return params["head"]["kernel"]
    return params["embed"]["embedding"].T


def mean_pool(
    x: Float[Array, "batch tokens width"], segments: Int[Array, "batch tokens"] | None
) -> Float[Array, "batch width"]:
    """Average over the real tokens of each row, in float32; a row of padding gives zeros."""
    x = x.astype(jnp.float32)
    if segments is None:
        return x.mean(1)
    real = (segments > 0)[:, :, None]
    return jnp.where(real, x, 0.0).sum(1) / jnp.maximum(real.sum(1), 1)


def first_pool(
    x: Float[Array, "batch tokens width"], segments: Int[Array, "batch tokens"] | None
) -> Float[Array, "batch width"]:
    """Take the first real token of each row, in float32."""
    first = 0 if segments is None else (segments > 0).argmax(1)
    return x[jnp.arange(x.shape[0]), first].astype(jnp.float32)


POOLINGS: dict[str, Callable[[Array, Array | None], Array]] = {
    "mean": mean_pool,
    "first": first_pool,
}


class Embed(nn.Module):
    """Holds the `embedding` [vocab, width], which a tied head shares."""

    vocab_size: int
    width: int
    init_scale: float = 1.0

    def setup(self):
        """Make the one leaf."""
        shape = (self.vocab_size, self.width)
        init = kernel_init(self.width, self.init_scale)
        self.embedding = self.param("embedding", init, shape, jnp.float32)

    def __call__(self, tokens: Int[Array, "batch tokens"]) -> Float[Array, "batch tokens width"]:
        """Look up each token's row; a token that is not in the vocabulary gives NaN."""
        return jnp.take(self.embedding, tokens, axis=0, mode="fill", fill_value=jnp.nan)

    def logits(self, x: Float[Array, "batch tokens width"]) -> Float[Array, "batch tokens vocab"]:
        """Return `vocabulary_logits` against the embedding itself."""
        return vocabulary_logits(x, self.embedding)


class Head(nn.Module):
    """Holds the `kernel` [width, outputs] of a head of its own and, over classes, its `bias`.

    One set of weights serves a language model, a tagger (every token is mapped) and a classifier
    (`pooling` says how the row's one vector is made).  A head over the vocabulary has no bias: tied
    or not, it is a product with one matrix, and untying adds exactly vocab · width parameters.
    """

    outputs: int
    pooling: str | None = None
    use_bias: bool = True
    init_scale: float = 1.0

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch tokens width"],
        segments: Int[Array, "batch tokens"] | None,
    ) -> Float[Array, "batch *tokens outputs"]:
        """Map each token, or each row, to float32 logits."""
        shape = (x.shape[-1], self.outputs)
        init = kernel_init(x.shape[-1], self.init_scale)
        kernel = self.param("kernel", init, shape, jnp.float32)
        if self.pooling is None:
            kernel = kernel.astype(x.dtype)
        else:
            x = POOLINGS[self.pooling](x, segments)
        flat = x.reshape(-1, x.shape[-1])
        logits = jnp.einsum("nw,wo->no", flat, kernel, preferred_element_type=jnp.float32)
        logits = logits.reshape(*x.shape[:-1], self.outputs)
        if self.use_bias:
            logits = logits + self.param(
                "bias", nn.initializers.zeros, (self.outputs,), jnp.float32
            )
        return logits
