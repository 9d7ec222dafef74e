"""From the model group of a config to a module; and what is refused on the way, by name."""

from collections.abc import Iterator
from typing import Any

from flax import linen as nn
from ml_collections import ConfigDict

from txf.config import default_config
from txf.errors import UserError
from txf.nn.attention import PROJECTIONS, SIMILARITIES
from txf.nn.block import NORMS_AROUND
from txf.nn.feedforward import ACTIVATIONS, FEEDFORWARDS
from txf.nn.heads import POOLINGS, TASKS
from txf.nn.normalization import HAS_BIAS, NORMS
from txf.nn.positions import POSITIONS
from txf.nn.spec import DTYPES, stack_specs
from txf.nn.transformer import EncoderDecoder, Transformer

FAMILIES = ("transformer", "bigram", "window_mlp", "rnn", "gru", "lstm")
STRUCTURES = ("decoder", "encoder", "encoder_decoder")

# The words each key may say, from the files that give them their meaning.
WORDS = {
    "structure": STRUCTURES,
    "attention": PROJECTIONS,
    "similarity": SIMILARITIES,
    "positions": POSITIONS,
    "norm": NORMS,
    "norm_placement": NORMS_AROUND,
    "feedforward": FEEDFORWARDS,
    "activation": ACTIVATIONS,
    "pooling": POOLINGS,
    "dtype": DTYPES,
}
SIZES = ("depth", "width", "num_heads", "num_kv_heads", "key_dim", "value_dim")


def build_model(
    config_model: ConfigDict,
    vocab_size: int,
    context_length: int,
    task: str = "language_model",
    num_classes: int | None = None,
) -> nn.Module:
    """Return the module that `config_model`, the model group of a config, describes.

    Every family answers the same call; see `Transformer.__call__`.  `num_classes` is needed for
    classification and tagging.

    Raises:
        UserError: naming every reason for which the combination is refused.
    """
    config = config_model
    problems = check_model(config, vocab_size, context_length, task, num_classes)
    if task in TASKS and TASKS[task] == "classes" and num_classes is None:
        problems.append(f"task={task!r} needs num_classes")
    if problems:
        raise UserError("; ".join(problems))
    if config.family != "transformer":
        from txf.nn import baselines

        return baselines.build_baseline(config, vocab_size, context_length, task, num_classes)
    specs = stack_specs(config, context_length)
    of_vocabulary = TASKS[task] == "vocab"
    tied = of_vocabulary and config.tie_embeddings
    dtype = DTYPES[config.dtype]
    if config.structure == "encoder_decoder":
        return EncoderDecoder(specs["encoder"], specs["decoder"], vocab_size, tied, dtype)
    return Transformer(
        spec=specs[config.structure],
        vocab_size=vocab_size,
        outputs=vocab_size if of_vocabulary else num_classes,
        tied=tied,
        head_bias=config.bias and not of_vocabulary,
        pooling=config.pooling if task == "classification" else None,
        dtype=dtype,
    )


def check_model(
    config_model: ConfigDict,
    vocab_size: int | None = None,
    context_length: int | None = None,
    task: str = "language_model",
    num_classes: int | None = None,
) -> list[str]:
    """Return a line for each thing about `config_model` that is refused; none if it can be built.

    Refused are words nobody knows, sizes that do not fit together, and options that could not
    matter: whoever sets one expects it to do something.  Sizes that are not known yet are None.
    """
    config = config_model
    if task not in TASKS:
        return [_unknown("task", task, TASKS)]
    if config.family not in FAMILIES:
        return [_unknown("model.family", config.family, FAMILIES)]
    if config.family != "transformer":
        from txf.nn import baselines

        return baselines.check_baseline(config, vocab_size, context_length, task, num_classes)
    problems = [
        _unknown(f"model.{key}", config[key], words)
        for key, words in WORDS.items()
        if config[key] not in words
    ]
    problems += [
        f"model.{key}={config[key]} is out of range; it takes 1 or more"
        for key in SIZES
        if config[key] is not None and config[key] < 1
    ]
    # Rules about several keys are only asked where each is fine by itself.
    return problems or [
        line
        for rules in (_task_rules, _head_rules, _attention_rules, _block_rules, _idle_rules)
        for line in rules(config, task)
    ]


def _unknown(key: str, value: Any, words: Any) -> str:
    return f"{key}={value!r} is unknown; choose one of {', '.join(words)}"


def _task_rules(config: ConfigDict, task: str) -> Iterator[str]:
    both = config.structure == "encoder_decoder"
    if task == "translation" and not both:
        yield (
            f"model.structure={config.structure!r} reads no source; task='translation' takes "
            "encoder_decoder"
        )
    if both and task not in ("translation", "language_model"):
        yield f"model.structure='encoder_decoder' generates; task={task!r} takes encoder or decoder"


def _head_rules(config: ConfigDict, task: str) -> Iterator[str]:
    """Sizes of heads: they divide, they fit, they can be rotated."""
    width, heads = config.width, config.num_heads
    learned = PROJECTIONS[config.attention]
    implied = config.key_dim is None or config.value_dim is None
    if width % heads and (implied or "value" not in learned):
        advice = _divisors(width, heads)
        yield f"model.num_heads={heads} does not divide model.width={width}; {advice}"
        return
    for key, projection in (("key_dim", "key"), ("value_dim", "value")):
        if config[key] not in (None, width // heads) and projection not in learned:
            yield (
                f"model.{key}={config[key]} has no projection in model.attention="
                f"{config.attention!r}, whose heads are {width // heads} wide"
            )
            return
    kv_heads = config.num_kv_heads
    if kv_heads not in (None, heads):
        if "value" not in learned:
            yield (
                f"model.num_kv_heads={kv_heads} needs model.attention='qkv'; in "
                f"{config.attention!r} each head has its own part of the input"
            )
        elif heads % kv_heads:
            yield (
                f"model.num_kv_heads={kv_heads} does not divide model.num_heads={heads}; "
                f"{_divisors(heads, kv_heads)}"
            )
    joined = heads * (config.value_dim or width // heads)
    if not config.output_projection and joined != width:
        yield (
            f"model.output_projection=False leaves num_heads · value_dim = {joined} numbers where "
            f"model.width={width} are needed; set model.value_dim so that they agree"
        )
    key_dim = config.key_dim or width // heads
    if config.positions == "rope" and key_dim % 2:
        yield f"model.positions='rope' rotates pairs, and key_dim={key_dim} is odd"


def _divisors(whole: int, wish: int) -> str:
    below = next(n for n in range(min(wish, whole), 0, -1) if whole % n == 0)
    above = next((n for n in range(wish, whole + 1) if whole % n == 0), below)
    return f"try {below} or {above}" if above != below else f"try {below}"


def _attention_rules(config: ConfigDict, task: str) -> Iterator[str]:
    if config.qk_norm and config.attention == "raw":
        yield "model.qk_norm=True needs queries and keys, and model.attention='raw' has none"
    elif config.qk_norm and config.similarity == "cosine":
        yield "model.qk_norm=True does what model.similarity='cosine' does already; keep one"


def _block_rules(config: ConfigDict, task: str) -> Iterator[str]:
    placement = config.norm_placement
    if placement in ("deepnorm", "rezero") and not config.residual:
        yield (
            f"model.residual=False leaves model.norm_placement={placement!r} nothing to weigh the "
            "sublayers against; use none, post, pre or sandwich"
        )
    if config.pooling == "first" and task == "classification" and _causal(config):
        yield (
            "model.pooling='first' in a causal model is a token that has seen no other; use mean, "
            "or model.structure='encoder'"
        )


def _causal(config: ConfigDict) -> bool:
    return config.structure != "encoder" if config.causal is None else config.causal


def _idle_rules(config: ConfigDict, task: str) -> Iterator[str]:
    """Options that differ from their default where nothing would read them."""
    default = default_config().model
    no_feedforward = config.feedforward == "none"
    no_norm = not NORMS_AROUND[config.norm_placement]
    no_kernel = not config.output_projection and no_feedforward
    no_bias = (
        not PROJECTIONS[config.attention]
        and no_kernel
        and (no_norm or not HAS_BIAS[config.norm])
        and TASKS[task] == "vocab"
    )
    idle = {
        "mlp_ratio": (no_feedforward, "model.feedforward='none' has no hidden layer"),
        "activation": (
            no_feedforward or (config.feedforward == "swiglu" and config.activation != "silu"),
            f"model.feedforward={config.feedforward!r} does not use it",
        ),
        "norm": (no_norm, f"model.norm_placement={config.norm_placement!r} has no norms"),
        "pooling": (task != "classification", f"task={task!r} pools nothing"),
        "tie_embeddings": (
            TASKS[task] == "classes",
            f"task={task!r} has a head of its own in any case",
        ),
        "depth_scaled_init": (no_kernel, "no kernel writes to the residual stream"),
        "bias": (no_bias, "nothing in this model has a bias"),
        "forget_bias": (True, "only model.family='lstm' forgets"),
    }
    for key, (is_idle, reason) in idle.items():
        if is_idle and config[key] != default[key]:
            yield f"model.{key}={config[key]!r} would change nothing: {reason}"
