"""Attention as one kernel, cuDNN's, where a GPU has it and nobody asks for what it leaves out."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def fused_attention(
    q: Float[Array, "batch queries heads head_dim"],
    k: Float[Array, "batch keys kv_heads head_dim"],
    v: Float[Array, "batch keys kv_heads head_dim"],
    causal: bool = False,
    scale: bool = True,
    implementation: str = "cudnn",
) -> Float[Array, "batch queries heads head_dim"]:
    """Return Σ_j softmax_j(q_i · k_j / √head_dim) v_j over all keys or, if `causal`, those j ≤ i.

    The kernel never writes scores or weights to memory (Dao et al. 2022). Products are taken in the
    type of the inputs, the softmax in float32.
    """
    return jax.nn.dot_product_attention(
        q,
        k,
        v,
        is_causal=causal,
        scale=None if scale else 1.0,
        implementation=implementation,
    )


def on_gpu() -> bool:
    """Tell whether JAX computes on a GPU unless told otherwise."""
    return jax.default_backend() == "gpu"


def fuses(q: Array, k: Array, v: Array, causal: bool) -> bool:
    """Tell whether cuDNN has a kernel for arrays like these: JAX knows, and is asked.

    It takes an NVIDIA GPU, two bytes a number, and heads whose keys and values have one size, a
    multiple of 8, of at most 128 (256 on newer GPUs).
    """
    if not on_gpu() or q.dtype == jnp.float32 or k.shape != v.shape:
        return False
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (q, k, v)]
    try:
        jax.eval_shape(partial(fused_attention, causal=causal), *like)
    except (NotImplementedError, RuntimeError, ValueError):
        return False
    return True
