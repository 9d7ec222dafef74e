"""The shape of a transformer as a frozen value: a config with its blanks filled in."""

import dataclasses

import jax.numpy as jnp
from ml_collections import ConfigDict

from txf.nn.feedforward import hidden_width
from txf.nn.initialization import deepnorm_constants, depth_gain

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


@dataclasses.dataclass(frozen=True)
class StackSpec:
    """Everything the blocks of one stack (an encoder or a decoder) need to know.

    Attributes:
        causal: whether a token is kept from seeing later ones.
        cross: whether each block has a sublayer that attends to another stack's output.
        value_gain, output_gain, inner_gain: factors on the initialization of attention's values, of
            the kernels that write to the residual stream, and of the feed-forward's first kernels.
        residual_scale: what the residual stream is multiplied by before a sublayer is added: 1, or
            deepnorm's α.

    The others mean what the config keys of these names mean.
    """

    depth: int
    width: int
    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    attention: str
    similarity: str
    scale_scores: bool
    output_projection: bool
    qk_norm: bool
    causal: bool
    cross: bool
    positions: str
    norm: str
    norm_placement: str
    residual: bool
    residual_scale: float
    feedforward: str
    hidden: int
    activation: str
    bias: bool
    context_length: int
    init_scale: float
    value_gain: float
    output_gain: float
    inner_gain: float
    fused_attention: bool
    remat: bool
    scan_layers: bool

    @property
    def sublayers(self) -> tuple[str, ...]:
        """The names of a block's sublayers, in the order in which they apply."""
        names = ["attention"]
        if self.cross:
            names.append("cross_attention")
        if self.feedforward != "none":
            names.append("feedforward")
        return tuple(names)


def stack_specs(config: ConfigDict, context_length: int) -> dict[str, StackSpec]:
    """Return the spec of each stack that `config` (the model group) has, by its role.

    The roles are `decoder`, `encoder`, or both.  Nothing is checked here: see `build.check_model`.
    """
    both = config.structure == "encoder_decoder"
    roles = ("encoder", "decoder") if both else (config.structure,)
    head_dim = config.width // config.num_heads
    deepnorm = config.norm_placement == "deepnorm"
    constants = deepnorm_constants(config.structure, config.depth)
    specs = {}
    for role in roles:
        causal = role == "decoder"
        if config.causal is not None and not (both and role == "encoder"):
            causal = config.causal
        alpha, beta = constants[role] if deepnorm else (1.0, 1.0)
        specs[role] = StackSpec(
            depth=config.depth,
            width=config.width,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads or config.num_heads,
            key_dim=config.key_dim or head_dim,
            value_dim=config.value_dim or head_dim,
            attention=config.attention,
            similarity=config.similarity,
            scale_scores=config.scale_scores,
            output_projection=config.output_projection,
            qk_norm=config.qk_norm,
            causal=causal,
            cross=both and role == "decoder",
            positions=config.positions,
            norm=config.norm,
            norm_placement=config.norm_placement,
            residual=config.residual,
            residual_scale=alpha,
            feedforward=config.feedforward,
            hidden=hidden_width(config.width, config.mlp_ratio),
            activation=config.activation,
            bias=config.bias,
            context_length=context_length,
            init_scale=config.init_scale,
            value_gain=beta,
            output_gain=beta * depth_gain(config.depth, config.depth_scaled_init),
            inner_gain=beta,
            fused_attention=config.fused_attention,
            remat=config.remat,
            scan_layers=config.scan_layers,
        )
    return specs
