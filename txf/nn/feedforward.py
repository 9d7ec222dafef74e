"""The position-wise feed-forward layer: what a block computes for each token by itself."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from txf.nn.initialization import kernel_init
from txf.nn.linear import Linear
from txf.nn.passes import apart


@jax.custom_vjp
def gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Weigh x by the chance that a standard normal stays below it: x · Φ(x), exactly.

    Φ(x) = (1 + erf(x / √2)) / 2, not its tanh approximation. The derivative, Φ(x) + x φ(x), is
    written out: derived, it would go through erf's own branches, which take longer than all else in
    the layer but the products. It makes Φ(x) anew from x, which costs less than to write it down
    and read it back.  Hendrycks and Gimpel 2016.
    """
    return x * _below(x)


def _below(x: Array) -> Array:
    return 0.5 * (1 + jax.lax.erf(x * math.sqrt(0.5)))


def _gelu_forward(x: Array) -> tuple[Array, Array]:
    return x * _below(x), x


def _gelu_backward(x: Array, g: Array) -> tuple[Array]:
    x = apart(x)  # else the compiler sees that Φ(x) is at hand, and keeps it
    density = jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return (g * (_below(x) + x * density),)


gelu.defvjp(_gelu_forward, _gelu_backward)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}


def mlp(
    x: Float[Array, "... width"],
    up: Callable[[Array], Array],
    down: Callable[[Array], Array],
    activation: Callable[[Array], Array],
) -> Float[Array, "... width"]:
    """Map each token through one hidden layer: down(activation(up(x))).

    `up` and `down` are linear maps, width to hidden and back.  Vaswani et al. 2017, section 3.3.
    """
    return down(activation(up(x)))


def swiglu(
    x: Float[Array, "... width"],
    up: Callable[[Array], Array],
    gate: Callable[[Array], Array],
    down: Callable[[Array], Array],
) -> Float[Array, "... width"]:
    """Map each token through one hidden layer whose entries are gated: down(silu(gate(x)) · up(x)).

    Three linear maps instead of two: an mlp_ratio of 8/3 costs what 4 costs without the gate.
    Shazeer 2020.
    """
    return down(jax.nn.silu(gate(x)) * up(x))


FEEDFORWARDS = ("mlp", "swiglu", "none")


def hidden_width(width: int, mlp_ratio: float) -> int:
    """Return the width of the hidden layer: mlp_ratio · width, rounded, at least 1."""
    return max(1, round(mlp_ratio * width))


class FeedForward(nn.Module):
    """Holds the kernels `up`, `down` and, for swiglu, `gate`."""

    kind: str
    hidden: int
    activation: str = "gelu"
    use_bias: bool = True
    gain: float = 1.0
    output_gain: float = 1.0

    @nn.compact
    def __call__(self, x: Float[Array, "batch tokens width"]) -> Float[Array, "batch tokens width"]:
        """Map each token by itself."""
        width = x.shape[-1]
        inner = kernel_init(width, self.gain)
        up = Linear((self.hidden,), inner, self.use_bias, name="up")
        outer = kernel_init(self.hidden, self.output_gain)
        down = Linear((width,), outer, self.use_bias, name="down")
        match self.kind:
            case "mlp":
                return mlp(x, up, down, ACTIVATIONS[self.activation])
            case "swiglu":
                gate = Linear((self.hidden,), inner, self.use_bias, name="gate")
                return swiglu(x, up, gate, down)
            case unknown:
                known = ", ".join(FEEDFORWARDS)
                raise ValueError(f"feedforward={unknown!r} is unknown; choose one of {known}")
