"""One block: sublayers in turn around a residual stream.  Norm placement lives here, once."""

from collections.abc import Callable

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from txf.nn.attention import Attention
from txf.nn.dropout import Noise, drop
from txf.nn.feedforward import FeedForward
from txf.nn.inspection import record
from txf.nn.normalization import Norm
from txf.nn.sight import Sight
from txf.nn.spec import StackSpec

Map = Callable[[Array], Array]

# Which norms each placement has around a sublayer, and whether one more follows the last block.
NORMS_AROUND: dict[str, tuple[str, ...]] = {
    "none": (),
    "post": ("norm",),
    "pre": ("norm",),
    "sandwich": ("norm", "norm_out"),
    "deepnorm": ("norm",),
    "rezero": (),
}
FINAL_NORM = ("pre", "sandwich")


def add_sublayer(
    x: Float[Array, "batch tokens width"],
    function: Map,
    placement: str,
    residual: bool = True,
    norm: Map | None = None,
    norm_out: Map | None = None,
    residual_scale: float = 1.0,
    gate: Float[Array, ""] | None = None,
) -> Float[Array, "batch tokens width"]:
    """Apply a sublayer F to the residual stream x, with its norms where `placement` puts them.

    none      x + F(x)
    post      LN(x + F(x))               Vaswani et al. 2017
    pre       x + F(LN(x))               Xiong et al. 2020
    sandwich  x + LN'(F(LN(x)))          Ding et al. 2021
    deepnorm  LN(αx + F(x))              Wang et al. 2022; α is `residual_scale`
    rezero    x + gF(x), g = 0 at first  Bachlechner et al. 2020; g is `gate`

    Without `residual` the `x +` falls away.
    """

    def onto(y: Array) -> Array:
        return x + y if residual else y

    match placement:
        case "none":
            return onto(function(x))
        case "post":
            return norm(onto(function(x)))
        case "pre":
            return onto(function(norm(x)))
        case "sandwich":
            return onto(norm_out(function(norm(x))))
        case "deepnorm":
            return norm(residual_scale * x + function(x))
        case "rezero":
            return x + gate.astype(x.dtype) * function(x)
        case unknown:
            known = ", ".join(NORMS_AROUND)
            raise ValueError(f"norm_placement={unknown!r} is unknown; choose one of {known}")


class Block(nn.Module):
    """Attention, cross-attention where the spec has it, feed-forward where the spec has it."""

    spec: StackSpec

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch tokens width"],
        sight: Sight,
        memory: Float[Array, "batch source_tokens width"] | None = None,
        memory_sight: Sight | None = None,
        noise: Noise | None = None,
        decode: bool = False,
    ) -> Float[Array, "batch tokens width"]:
        """Pass the residual stream x through the block's sublayers."""
        spec = self.spec
        for place, name in enumerate(spec.sublayers):
            here = noise and noise.at(place)
            match name:
                case "attention":
                    function = self._attention(name, sight, None, here, decode)
                case "cross_attention":
                    function = self._attention(name, memory_sight, memory, here, decode)
                case "feedforward":
                    function = self._feedforward(name, here)
            norms = {
                kind: Norm(spec.norm, spec.bias, name=f"{name}_{kind}")
                for kind in NORMS_AROUND[spec.norm_placement]
            }
            gate = None
            if spec.norm_placement == "rezero":
                gate = self.param(f"{name}_gate", nn.initializers.zeros, (), jnp.float32)
            x = add_sublayer(
                x,
                function,
                spec.norm_placement,
                spec.residual,
                residual_scale=spec.residual_scale,
                gate=gate,
                **norms,
            )
            record(self, f"{name}_residual", x)
        return x

    def _attention(
        self, name: str, sight: Sight, memory: Array | None, noise: Noise | None, decode: bool
    ) -> Map:
        spec = self.spec
        attend = Attention(
            form=spec.attention,
            num_heads=spec.num_heads,
            num_kv_heads=spec.num_kv_heads,
            key_dim=spec.key_dim,
            value_dim=spec.value_dim,
            similarity=spec.similarity,
            scale_scores=spec.scale_scores,
            output_projection=spec.output_projection,
            qk_norm=spec.qk_norm,
            use_bias=spec.bias,
            cross=name == "cross_attention",
            fused=spec.fused_attention,
            capacity=spec.context_length,
            init_scale=spec.init_scale,
            value_gain=spec.value_gain,
            output_gain=spec.output_gain,
            name=name,
        )
        return lambda x: attend(x, sight, memory, noise, decode)

    def _feedforward(self, name: str, noise: Noise | None) -> Map:
        spec = self.spec
        layer = FeedForward(
            kind=spec.feedforward,
            hidden=spec.hidden,
            activation=spec.activation,
            use_bias=spec.bias,
            gain=spec.inner_gain * spec.init_scale,
            output_gain=spec.output_gain * spec.init_scale,
            name=name,
        )
        return lambda x: drop(layer(x), noise)
