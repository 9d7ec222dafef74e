"""What parameters are before training, all of it in this file.

| leaf                           | at the start                                                |
|--------------------------------|-------------------------------------------------------------|
| `kernel`                       | N(0, 1 / fan_in): what it gives varies as what it reads     |
| `embedding`, positions `table` | N(0, 1 / width): rows of length 1, logits of variance 1     |
| bigram's `table`               | N(0, 0.02²): it holds logits, and starts near uniform       |
| `scale` (norms)                | 1                                                           |
| `bias`                         | 0                                                           |
| `*_gate` (rezero)              | 0                                                           |

`depth_scaled_init` multiplies the kernels that write to the residual stream (attention's
`output`, the feed-forward's `down`) by 1 / √(2 · depth) (Radford et al. 2019).
`norm_placement=deepnorm` multiplies `value`, `output`, `up`, `gate` and `down` by the β of
`deepnorm_constants` (Wang et al. 2022).  `init_scale` multiplies every random leaf; since all of
them are normal about zero, a model made with init_scale s equals one made with 1 and passed
through `scale_parameters(params, s)`.

Deviations follow the width instead of being GPT-2's constant 0.02 because models here are narrow.
At width 64 the constant would let every sublayer start with a small fraction of the variance it
reads, which confuses an ablation of depth or residuals with one of the initialization; and
embeddings of 0.02 drown in the sinusoidal table, whose entries are 50 times larger.
"""

import math

import jax
from flax import linen as nn
from jaxtyping import Array, Float, PyTree

RANDOM_LEAVES = ("embedding", "table", "kernel")


def logits_init(init_scale: float = 1.0) -> nn.initializers.Initializer:
    """Return the initializer N(0, (0.02 · init_scale)²) of a table that holds logits."""
    return nn.initializers.normal(0.02 * init_scale)


def kernel_init(fan_in: int, gain: float = 1.0) -> nn.initializers.Initializer:
    """Return the initializer N(0, gain² / fan_in) of a kernel that reads `fan_in` numbers."""
    return nn.initializers.normal(gain / math.sqrt(fan_in))


def depth_gain(depth: int, depth_scaled_init: bool) -> float:
    """Return the gain of kernels that write to the residual stream: 1 / √(2 · depth), or 1."""
    return 1.0 / math.sqrt(2 * depth) if depth_scaled_init else 1.0


def deepnorm_constants(structure: str, depth: int) -> dict[str, tuple[float, float]]:
    """Return (α, β) of each stack: α scales its residual stream, β its kernels.

    One stack of N blocks: α = (2N)^¼, β = (8N)^−¼.  An encoder of N and a decoder of M = N blocks:
    0.81 · (N⁴M)^(1/16) and 0.87 · (N⁴M)^(−1/16) in the encoder, (3M)^¼ and (12M)^−¼ in the decoder.
    Wang et al. 2022, table 1.
    """
    if structure != "encoder_decoder":
        return {structure: ((2 * depth) ** 0.25, (8 * depth) ** -0.25)}
    both = float(depth) ** (5 / 16)
    return {
        "encoder": (0.81 * both, 0.87 / both),
        "decoder": ((3 * depth) ** 0.25, (12 * depth) ** -0.25),
    }


def scale_parameters(
    params: PyTree[Float[Array, "..."]], init_scale: float | Float[Array, ""]
) -> PyTree[Float[Array, "..."]]:
    """Multiply every random leaf by `init_scale`, which may be traced; leave the others.

    For parameters of a model built with init_scale=1 this gives those of one built with
    `init_scale`, so that members of a pack may differ in it.
    """

    def scaled(path: tuple, leaf: Array) -> Array:
        return leaf * init_scale if path[-1].key in RANDOM_LEAVES else leaf

    return jax.tree_util.tree_map_with_path(scaled, params)
