"""What a model costs: its parameters and its matrix products, counted from the config alone."""

from ml_collections import ConfigDict

from txf.nn.attention import PROJECTIONS
from txf.nn.baseline_spec import baseline_flops_per_token, baseline_parameter_count
from txf.nn.block import FINAL_NORM, NORMS_AROUND
from txf.nn.heads import TASKS
from txf.nn.normalization import HAS_BIAS
from txf.nn.spec import StackSpec, stack_specs


def parameter_count(
    config_model: ConfigDict,
    vocab_size: int,
    context_length: int,
    task: str = "language_model",
    num_classes: int | None = None,
) -> int:
    """Return the number of parameters: the sizes of all leaves of the model's tree, added up.

    In closed form: nothing is built.  The config must be one that `check_model` has no complaint
    about.
    """
    config = config_model
    if config.family != "transformer":
        return baseline_parameter_count(config, vocab_size, context_length, task, num_classes)
    stacks = stack_specs(config, context_length).values()
    outputs = vocab_size if TASKS[task] == "vocab" else num_classes
    of_vocabulary = TASKS[task] == "vocab"
    head = outputs * (config.width + (config.bias and not of_vocabulary))
    if of_vocabulary and config.tie_embeddings:
        head = 0
    return vocab_size * config.width + sum(map(_stack_parameters, stacks)) + head


def _stack_parameters(spec: StackSpec) -> int:
    table = spec.context_length * spec.width if spec.positions == "learned" else 0
    norm = spec.width * (1 + (spec.bias and HAS_BIAS[spec.norm]))
    around = len(NORMS_AROUND[spec.norm_placement]) * norm + (spec.norm_placement == "rezero")
    sublayers = sum(
        around + (_feedforward(spec) if name == "feedforward" else _attention(spec))
        for name in spec.sublayers
    )
    return table + spec.depth * sublayers + (norm if spec.norm_placement in FINAL_NORM else 0)


def _feedforward(spec: StackSpec) -> int:
    inner = 2 if spec.feedforward == "swiglu" else 1
    weights = (inner + 1) * spec.width * spec.hidden
    return weights + spec.bias * (inner * spec.hidden + spec.width)


def _attention(spec: StackSpec) -> int:
    count = 2 * spec.key_dim if spec.qk_norm else 0
    for outputs in _projected(spec).values():
        count += outputs * (spec.width + spec.bias)
    if spec.output_projection:
        count += spec.width * (spec.num_heads * spec.value_dim + spec.bias)
    return count


def _projected(spec: StackSpec) -> dict[str, int]:
    """Return how many numbers each projection of an attention sublayer gives, heads together."""
    sizes = {
        "query": spec.num_heads * spec.key_dim,
        "key": spec.num_kv_heads * spec.key_dim,
        "value": spec.num_kv_heads * spec.value_dim,
    }
    return {name: sizes[name] for name in PROJECTIONS[spec.attention]}


def forward_flops_per_token(
    config_model: ConfigDict,
    vocab_size: int,
    context_length: int,
    task: str = "language_model",
    num_classes: int | None = None,
) -> float:
    """Return the floating-point operations of all matrix products of a forward pass, for a token.

    A product of [m, k] with [k, n] counts 2mkn.  A text of context_length tokens is assumed, and
    masked scores are counted: they are computed.  An encoder_decoder is counted for a token of the
    target, with a source of the same length.  Everything else (norms, softmax, activations, the
    look-up of embeddings) is left out: a few per cent at the widths trained here.
    """
    config = config_model
    if config.family != "transformer":
        return baseline_flops_per_token(config, vocab_size, context_length, task, num_classes)
    stacks = stack_specs(config, context_length).values()
    outputs = vocab_size if TASKS[task] == "vocab" else num_classes
    head = 2 * config.width * outputs
    if task == "classification":
        head /= context_length
    return float(sum(map(_stack_flops, stacks)) + head)


def training_flops_per_token(
    config_model: ConfigDict,
    vocab_size: int,
    context_length: int,
    task: str = "language_model",
    num_classes: int | None = None,
) -> float:
    """Return what a token costs in training: three times its forward pass.

    The gradient of a product takes two products of the same size, one for each factor.
    """
    return 3 * forward_flops_per_token(config_model, vocab_size, context_length, task, num_classes)


def _stack_flops(spec: StackSpec) -> int:
    attention = spec.width * sum(_projected(spec).values())
    attention += spec.context_length * spec.num_heads * (spec.key_dim + spec.value_dim)
    if spec.output_projection:
        attention += spec.num_heads * spec.value_dim * spec.width
    inner = 2 if spec.feedforward == "swiglu" else 1
    feedforward = (inner + 1) * spec.width * spec.hidden
    products = sum(feedforward if name == "feedforward" else attention for name in spec.sublayers)
    return 2 * spec.depth * products
