"""The shape of a baseline: what a config says, what is refused by name, and what it all counts."""

import dataclasses
from collections.abc import Iterator

from ml_collections import ConfigDict

from txf.config import default_config
from txf.errors import UserError
from txf.nn.block import FINAL_NORM, NORMS_AROUND
from txf.nn.feedforward import ACTIVATIONS, hidden_width
from txf.nn.heads import TASKS
from txf.nn.normalization import HAS_BIAS, NORMS
from txf.nn.recurrence import CELLS
from txf.nn.spec import DTYPES

# Which keys of the model group each family listens to; the others must keep their defaults.
_STREAM = (
    "depth",
    "width",
    "norm",
    "norm_placement",
    "residual",
    "dropout",
    "tie_embeddings",
    "bias",
    "init_scale",
    "dtype",
)
LISTENS_TO: dict[str, tuple[str, ...]] = {
    "bigram": ("init_scale",),
    "window_mlp": (*_STREAM, "mlp_ratio", "activation"),
    "rnn": _STREAM,
    "gru": _STREAM,
    "lstm": (*_STREAM, "forget_bias"),
}
# The words that these keys may say to the families that have blocks.
WORDS = {
    "norm": tuple(NORMS),
    "norm_placement": ("none", "post", "pre", "sandwich"),
    "activation": tuple(ACTIVATIONS),
    "dtype": tuple(DTYPES),
}


@dataclasses.dataclass(frozen=True)
class BaselineSpec:
    """The shape of a baseline; fields mean what the config keys of these names mean."""

    family: str
    depth: int
    width: int
    hidden: int
    activation: str
    norm: str
    norm_placement: str
    residual: bool
    bias: bool
    forget_bias: float
    init_scale: float
    context_length: int

    def sublayer(self, index: int) -> str:
        """Return the name of the one sublayer of block `index`."""
        if self.family == "window_mlp":
            return "feedforward" if index else "window"
        return "recurrent"


def check_baseline(
    config_model: ConfigDict,
    vocab_size: int | None = None,
    context_length: int | None = None,
    task: str = "language_model",
    num_classes: int | None = None,
) -> list[str]:
    """Return a line for each option that does not go with the family; none if it can be built.

    Options that the family has no use for are refused where they differ from the default.
    """
    config, family = config_model, config_model.family
    default = default_config().model
    listens = ("family", "causal", *LISTENS_TO[family])
    problems = [
        f"model.{key}={config[key]!r} does not apply to model.family={family!r};"
        f" leave it at {default[key]!r}"
        for key in default
        if key not in listens and config[key] != default[key]
    ]
    if config.causal is False:
        problems.append(
            f"model.causal=False does not apply to model.family={family!r}, which reads from left"
            " to right; use model.family='transformer' or leave model.causal at None"
        )
    if task == "translation":
        problems.append(
            f"model.family={family!r} reads no source; task='translation' takes a transformer"
        )
    if family == "bigram":
        return problems
    problems += [
        f"model.{key}={config[key]!r} does not apply to model.family={family!r};"
        f" choose one of {', '.join(words)}"
        for key, words in WORDS.items()
        if config[key] not in words
    ]
    problems += [
        f"model.{key}={config[key]} is out of range; it takes 1 or more"
        for key in ("depth", "width")
        if config[key] < 1
    ]
    return problems or list(_idle(config, task, default))


def _idle(config: ConfigDict, task: str, default: ConfigDict) -> Iterator[str]:
    """Options of the family that differ from their default where nothing would read them."""
    placement = config.norm_placement
    idle = {
        "norm": (
            not NORMS_AROUND[placement],
            f"model.norm_placement={placement!r} has no norms",
        ),
        "tie_embeddings": (
            TASKS[task] == "classes",
            f"task={task!r} has a head of its own in any case",
        ),
        "forget_bias": (not config.bias, "model.bias=False leaves no bias to start"),
    }
    for key, (is_idle, reason) in idle.items():
        if is_idle and config[key] != default[key]:
            yield f"model.{key}={config[key]!r} would change nothing: {reason}"


class BaselineShape:
    """The sizes that parameters and FLOPs are counted from."""

    def __init__(
        self,
        config_model: ConfigDict,
        vocab_size: int,
        context_length: int,
        task: str,
        num_classes: int | None,
    ):
        of_vocabulary = TASKS[task] == "vocab"
        if not of_vocabulary and num_classes is None:
            raise UserError(f"task={task!r} needs the number of classes")
        self.vocab_size = vocab_size
        self.outputs = vocab_size if of_vocabulary else num_classes
        self.tied = of_vocabulary and config_model.tie_embeddings
        self.head_bias = config_model.bias and not of_vocabulary
        self.spec = BaselineSpec(
            family=config_model.family,
            depth=config_model.depth,
            width=config_model.width,
            hidden=hidden_width(config_model.width, config_model.mlp_ratio),
            activation=config_model.activation,
            norm=config_model.norm,
            norm_placement=config_model.norm_placement,
            residual=config_model.residual,
            bias=config_model.bias,
            forget_bias=config_model.forget_bias,
            init_scale=config_model.init_scale,
            context_length=context_length,
        )

    def products(self) -> int:
        """Count the entries of the matrices that every token passes through, but for the head's."""
        spec = self.spec
        width, hidden = spec.width, spec.hidden
        if spec.family == "window_mlp":
            first = (spec.context_length + 1) * width * hidden
            return first + (spec.depth - 1) * 2 * width * hidden
        return spec.depth * 2 * CELLS[spec.family][1] * width**2

    def biases(self) -> int:
        """Count the biases of these matrices."""
        spec = self.spec
        if not spec.bias:
            return 0
        if spec.family == "window_mlp":
            return spec.depth * (spec.hidden + spec.width)
        rows = CELLS[spec.family][1] + (spec.family == "gru")
        return spec.depth * rows * spec.width

    def norms(self) -> int:
        """Count the parameters of all norms."""
        spec = self.spec
        number = spec.depth * len(NORMS_AROUND[spec.norm_placement])
        number += spec.norm_placement in FINAL_NORM
        return number * spec.width * (1 + (spec.bias and HAS_BIAS[spec.norm]))


def baseline_parameter_count(
    config_model: ConfigDict,
    vocab_size: int,
    context_length: int,
    task: str = "language_model",
    num_classes: int | None = None,
) -> int:
    """Return how many parameters `build_baseline` with these arguments makes, in closed form."""
    shape = BaselineShape(config_model, vocab_size, context_length, task, num_classes)
    spec = shape.spec
    if spec.family == "bigram":
        return vocab_size * shape.outputs
    head = 0 if shape.tied else (spec.width + shape.head_bias) * shape.outputs
    inside = shape.products() + shape.biases() + shape.norms()
    return vocab_size * spec.width + inside + head


def baseline_flops_per_token(
    config_model: ConfigDict,
    vocab_size: int,
    context_length: int,
    task: str = "language_model",
    num_classes: int | None = None,
) -> float:
    """Return the forward pass's floating-point operations a token, in closed form.

    Two for each entry of each matrix that a token passes through; norms, gates, look-ups and
    additions are left out.  A window counts whole, also where it begins before the first token.  A
    classifier's head is shared out over context_length tokens.
    """
    shape = BaselineShape(config_model, vocab_size, context_length, task, num_classes)
    if shape.spec.family == "bigram":
        return 0.0
    head = shape.spec.width * shape.outputs
    if task == "classification":
        head /= context_length
    return 2.0 * (shape.products() + head)
