"""Attention as one kernel, cuDNN's, where a GPU has it and nobody asks for what it leaves out."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def fused_attention(
    q: Float[Array, "batch queries heads head_dim"],
    k: Float[Array, "batch keys heads head_dim"],
    v: Float[Array, "batch keys heads head_dim"],
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


def compute_capability() -> float:
    """Return the NVIDIA compute capability of the device that JAX computes on; 0: it has none."""
    device = jax.devices()[0]
    capability = getattr(device, "compute_capability", "") if device.platform == "gpu" else ""
    return float(capability) if capability[:1].isdigit() else 0.0


def fuses(q: Array, k: Array, v: Array, causal: bool) -> bool:
    """Tell whether cuDNN has a kernel for arrays like these, and for their gradients.

    It takes an NVIDIA GPU (compute capability 8.0 on), two bytes a number, as many heads of keys as
    of queries, and values as wide as keys. The rest (sizes of heads, numbers of tokens, versions)
    JAX knows, and is asked.
    """
    alike = k.shape == v.shape and q.shape[2:] == k.shape[2:]
    if compute_capability() < 8 or q.dtype == jnp.float32 or not alike:
        return False

    def total(q, k, v):
        return fused_attention(q, k, v, causal).sum()

    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (q, k, v)]
    try:
        jax.eval_shape(jax.grad(total, (0, 1, 2)), *like)
    except (NotImplementedError, RuntimeError):
        return False
    return True
