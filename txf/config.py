"""The whole default config, its validation, its form on disk, and what may change between runs."""

import dataclasses
import difflib
import hashlib
import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from ml_collections import ConfigDict, config_dict

from txf.errors import UserError


class ConfigError(UserError):
    """A config that cannot be run. `problems` holds one line for each thing that is wrong."""

    def __init__(self, problems: list[str]):
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


def default_config() -> ConfigDict:
    """Return the complete config, locked: every key that txf reads, with its default.

    A key whose default is None is a placeholder: it keeps a type, and None means what the comment
    beside it says.
    """
    integer, string, boolean = (partial(config_dict.placeholder, kind) for kind in (int, str, bool))
    config = ConfigDict()
    config.seed = 0
    config.task = "language_model"

    config.data = data = ConfigDict()
    data.source = "storyworld"
    data.seed = 0
    data.path = string()  # a file, a glob or a folder
    data.valid_path = string()  # None: cut from data.path
    data.test_path = string()  # None: cut from data.path
    data.documents = "auto"
    data.split = "document"
    data.valid_fraction = 0.1
    data.test_fraction = 0.1
    data.tfds_name = string()
    data.text_feature = string()  # None: found
    data.manual_dir = string()
    data.data_dir = string()  # None: the TFDS default
    data.bytes = 1_000_000  # of generated training text
    data.examples = 10_000  # of a probe's training set
    data.tokenizer = "char"
    data.tokenizer_path = string()  # None: made from the training split
    data.vocab_size = 512  # what bpe aims for
    data.context_length = 64
    data.stride = integer()  # None: context_length, windows that do not overlap
    data.packing = "windows"
    data.source_language = "en"
    data.target_language = "de"
    data.masked_fraction = 0.15
    data.bad_rows = 0.01  # share of malformed labelled rows that is put up with

    # The parameters of a probe: see txf.data.probes. None: the probe's own default.
    data.probe = probe = ConfigDict()
    probe.pairs = integer()  # things that a row binds together
    probe.vocab = integer()  # symbols
    probe.classes = integer()  # of nouns or words
    probe.attributes = integer()  # properties that nouns have
    probe.distance = integer()  # the longest
    probe.power_a = config_dict.placeholder(float)  # 1: queries are spread evenly
    probe.random_non_queries = boolean()  # False: nothing stands between queries

    config.model = model = ConfigDict()
    model.family = "transformer"
    model.structure = "decoder"
    model.depth = 2
    model.width = 64
    model.num_heads = 4
    model.num_kv_heads = integer()  # None: num_heads
    model.key_dim = integer()  # None: width / num_heads
    model.value_dim = integer()  # None: width / num_heads
    model.attention = "qkv"
    model.similarity = "dot"
    model.scale_scores = True
    model.output_projection = True
    model.causal = boolean()  # None: as the structure has it
    model.qk_norm = False
    model.positions = "learned"
    model.norm = "layernorm"
    model.norm_placement = "pre"
    model.residual = True
    model.feedforward = "mlp"
    model.mlp_ratio = 4.0
    model.activation = "gelu"
    model.dropout = 0.0
    model.tie_embeddings = True
    model.bias = True
    model.pooling = "mean"
    model.forget_bias = 1.0
    model.init_scale = 1.0
    model.depth_scaled_init = False
    model.dtype = "float32"
    model.fused_attention = True  # one kernel on an NVIDIA GPU in bfloat16: txf.nn.fused
    model.remat = False
    model.scan_layers = False

    config.optimizer = optimizer = ConfigDict()
    optimizer.name = "adamw"
    optimizer.learning_rate = 1e-3
    optimizer.warmup_steps = 0
    optimizer.schedule = "cosine"
    optimizer.final_fraction = 0.1  # of learning_rate, at the last step
    optimizer.weight_decay = 0.1
    optimizer.decay_all = False  # True: norms, biases and positions decay too
    optimizer.b1 = 0.9  # sgd: the momentum
    optimizer.b2 = 0.99
    optimizer.eps = 1e-8
    optimizer.clip_norm = 1.0  # 0: no clipping

    config.training = training = ConfigDict()
    training.steps = 1000
    training.batch_size = 32  # rows an optimizer step
    training.eval_batch_size = 64
    training.accumulate = 1  # micro-batches an optimizer step
    training.log_every = 50
    training.eval_every = 200
    training.checkpoint_every = 200
    training.steps_per_dispatch = 0  # 0: chosen
    training.diagnostics = False  # True: log norms, ratios and attention: txf.training.diagnostics
    training.tensorboard = False  # True: metrics as event files too, in RUN/tensorboard

    config.evaluation = evaluation = ConfigDict()
    evaluation.beams = 1
    evaluation.max_new_tokens = 64

    config.parallel = parallel = ConfigDict()
    parallel.mode = "jit"
    parallel.data = -1  # -1: all devices that are left
    parallel.fsdp = 1
    parallel.tensor = 1

    config.checkpoint = ConfigDict({"keep": 1})
    return config.lock()


# What a model's keys may say, and its sizes, stand where they have their meaning: txf.nn.build.
CHOICES: dict[str, tuple[str, ...]] = {
    "task": ("language_model", "masked_language_model", "classification", "tagging", "translation"),
    "data.documents": ("auto", "endoftext", "blank_line", "one"),
    "data.split": ("document", "position"),
    "data.tokenizer": ("char", "byte", "bpe", "word"),
    "data.packing": ("windows", "documents", "packed"),
    "optimizer.name": ("adamw", "adam", "sgd"),
    "optimizer.schedule": ("constant", "linear", "cosine"),
    "parallel.mode": ("jit", "pmap"),
}


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers a key may take: low to high, ends included unless `open_*` says otherwise."""

    low: float | int = -math.inf
    high: float | int = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float | int) -> bool:
        """Tell whether `value` is a finite number of the range."""
        if not math.isfinite(value):
            return False
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        """Say the range as a person would: `1 or more`, `0 to 1`, `more than 0`."""
        low, high = f"{self.low:g}", f"{self.high:g}"
        if math.isinf(self.high):
            return f"more than {low}" if self.open_low else f"{low} or more"
        low = f"more than {low}" if self.open_low else low
        return f"{low} or more, less than {high}" if self.open_high else f"{low} to {high}"


AT_LEAST_ONE = Range(1)
AT_LEAST_ZERO = Range(0)
POSITIVE = Range(0, open_low=True)
FRACTION = Range(0, 1)
SEED = Range(0, 2**32 - 1)
DECAY = Range(0, 1, open_high=True)

RANGES: dict[str, Range] = {
    "seed": SEED,
    "data.seed": SEED,
    "data.valid_fraction": DECAY,
    "data.test_fraction": DECAY,
    "data.bytes": AT_LEAST_ONE,
    "data.examples": AT_LEAST_ONE,
    "data.vocab_size": AT_LEAST_ONE,
    "data.context_length": AT_LEAST_ONE,
    "data.stride": AT_LEAST_ONE,
    "data.masked_fraction": Range(0, 1, open_low=True),
    "data.bad_rows": FRACTION,
    "data.probe.pairs": AT_LEAST_ONE,
    "data.probe.vocab": AT_LEAST_ONE,
    "data.probe.classes": AT_LEAST_ONE,
    "data.probe.attributes": AT_LEAST_ONE,
    "data.probe.distance": AT_LEAST_ONE,
    "data.probe.power_a": POSITIVE,
    "model.mlp_ratio": POSITIVE,
    "model.dropout": DECAY,
    "model.forget_bias": Range(),
    "model.init_scale": POSITIVE,
    "optimizer.learning_rate": AT_LEAST_ZERO,
    "optimizer.warmup_steps": AT_LEAST_ZERO,
    "optimizer.final_fraction": FRACTION,
    "optimizer.weight_decay": AT_LEAST_ZERO,
    "optimizer.b1": DECAY,
    "optimizer.b2": DECAY,
    "optimizer.eps": POSITIVE,
    "optimizer.clip_norm": AT_LEAST_ZERO,
    "training.steps": AT_LEAST_ZERO,
    "training.batch_size": AT_LEAST_ONE,
    "training.eval_batch_size": AT_LEAST_ONE,
    "training.accumulate": AT_LEAST_ONE,
    "training.log_every": AT_LEAST_ONE,
    "training.eval_every": AT_LEAST_ONE,
    "training.checkpoint_every": AT_LEAST_ONE,
    "training.steps_per_dispatch": AT_LEAST_ZERO,
    "evaluation.beams": AT_LEAST_ONE,
    "evaluation.max_new_tokens": AT_LEAST_ONE,
    "parallel.data": Range(-1),
    "parallel.fsdp": AT_LEAST_ONE,
    "parallel.tensor": AT_LEAST_ONE,
    "checkpoint.keep": AT_LEAST_ONE,
}

# What a finished or interrupted run may be continued with: these change how a run is watched,
# kept or spread over devices, not what is computed, so they are no part of its fingerprint.
HARMLESS = frozenset(
    {
        "training.log_every",
        "training.eval_every",
        "training.checkpoint_every",
        "training.steps_per_dispatch",
        "training.diagnostics",
        "training.tensorboard",
        "training.eval_batch_size",
        "model.fused_attention",
        "model.remat",
        "model.scan_layers",
        "parallel.mode",
        "parallel.data",
        "parallel.fsdp",
        "parallel.tensor",
        "checkpoint.keep",
    }
)


def flatten(config: ConfigDict | Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the config as one dict from dotted key to value, keys in order."""
    flat: dict[str, Any] = {}
    for key in config:
        value = config[key]
        if isinstance(value, (ConfigDict, Mapping)):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


@cache
def _known() -> Mapping[str, Any]:
    return MappingProxyType(flatten(default_config()))


@cache
def key_type(key: str) -> type:
    """Return the type of `key`'s values (a placeholder keeps its type while its value is None)."""
    group = default_config()
    *parents, leaf = key.split(".")
    for parent in parents:
        group = group[parent]
    return group.get_type(leaf)


def unknown_key(key: str, known: Mapping[str, Any] | None = None) -> str:
    """Return the line that says `key` does not exist, and which key was probably meant."""
    known = known or _known()
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    if not near:
        leaves = {name.rsplit(".", 1)[-1]: name for name in known}
        near = [leaves[n] for n in difflib.get_close_matches(key.rsplit(".", 1)[-1], leaves, n=1)]
    advice = f"did you mean {near[0]}?" if near else f"the groups are {', '.join(default_config())}"
    return f"there is no config key {key}; {advice}"


def set_key(config: ConfigDict, key: str, value: Any) -> None:
    """Set the dotted `key` of `config` to `value`, in place.

    Raises:
        ConfigError: the key does not exist, names a group, or takes values of another type.
    """
    known = _known()
    if key not in known:
        group = [name for name in known if name.startswith(key + ".")]
        problem = f"{key} is a group; set one of {', '.join(group)}" if group else unknown_key(key)
        raise ConfigError([problem])
    if problem := _type_problem(key, value):
        raise ConfigError([problem])
    *parents, leaf = key.split(".")
    for parent in parents:
        config = config[parent]
    config[leaf] = float(value) if key_type(key) is float and value is not None else value


def _type_problem(key: str, value: Any) -> str | None:
    """Return the line that says `value` has the wrong type for `key`, or None."""
    wanted = key_type(key)
    optional = _known()[key] is None
    if value is None and optional:
        return None
    fits = {
        bool: isinstance(value, bool),
        int: isinstance(value, int) and not isinstance(value, bool),
        float: isinstance(value, (int, float)) and not isinstance(value, bool),
    }.get(wanted, isinstance(value, wanted))
    if fits:
        return None
    names = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    or_none = " or None" if optional else ""
    return f"{key}={value!r} is not allowed; it takes {names.get(wanted, wanted)}{or_none}"


def validate(config: ConfigDict) -> None:
    """Check everything about `config` that can be known before data or devices are touched.

    Raises:
        ConfigError: with every problem at once, a line each, naming the key, its value and what
            is allowed.
    """
    known = _known()
    flat = flatten(config)
    problems = [unknown_key(key) for key in flat if key not in known]
    problems += [f"config key {key} is missing" for key in known if key not in flat]
    typed = set()
    for key in known.keys() & flat.keys():
        if problem := _type_problem(key, flat[key]):
            problems.append(problem)
        else:
            typed.add(key)
    fine = set(typed)
    for key, choices in CHOICES.items():
        if key in typed and flat[key] not in choices:
            problems.append(f"{key}={flat[key]!r} is unknown; choose {_one_of(choices)}")
            fine.remove(key)
    for key, allowed in RANGES.items():
        if key in typed and flat[key] is not None and not allowed.holds(flat[key]):
            problems.append(f"{key}={flat[key]} is out of range; it takes {allowed}")
            fine.remove(key)
    # What ties several keys together is asked where each of them is fine by itself; a model's own
    # rules see to that themselves.
    for groups, rule in _RULES:
        if all(key in fine for key in known if key.startswith(groups)):
            problems += rule(config)
    if all(key in typed for key in known if key.startswith("model.")) and "task" in fine:
        problems += _model_rules(config)
    if problems:
        raise ConfigError(sorted(problems, key=_position(known)))


def _one_of(choices: tuple[str, ...]) -> str:
    return " or ".join([", ".join(choices[:-1]), choices[-1]]) if len(choices) > 1 else choices[0]


def _position(known: Mapping[str, Any]) -> Callable[[str], int]:
    """Sort problem lines as the config is ordered, so that the same config always reads alike."""
    order = {key: number for number, key in enumerate(known)}
    return lambda line: order.get(line.split("=")[0].split(" ")[0], len(order))


def _optimizer_rules(config: ConfigDict) -> list[str]:
    steps, warmup = config.training.steps, config.optimizer.warmup_steps
    if steps and warmup >= steps:
        return [
            f"optimizer.warmup_steps={warmup} is not less than training.steps={steps}; the learning"
            f" rate would never reach its peak; try {steps // 10}"
        ]
    return []


def _training_rules(config: ConfigDict) -> list[str]:
    rows, parts = config.training.batch_size, config.training.accumulate
    problems = []
    if rows % parts:
        problems.append(
            f"training.accumulate={parts} does not divide training.batch_size={rows}; "
            f"try {_divisor_near(rows, parts)}"
        )
    if config.training.tensorboard and importlib.util.find_spec("tensorboardX") is None:
        problems.append(
            "training.tensorboard=True needs tensorboardX, which is not installed: "
            "pip install tensorboardX (metrics.jsonl has the same numbers without it)"
        )
    return problems


def _divisor_near(whole: int, wish: int) -> int:
    return min((n for n in range(1, whole + 1) if whole % n == 0), key=lambda n: abs(n - wish))


def _data_rules(config: ConfigDict) -> list[str]:
    from txf.data.dataset import check_data  # what data can be read is said where it is read

    return check_data(config)


def _model_rules(config: ConfigDict) -> list[str]:
    from txf.nn.build import check_model  # what a model refuses is said where it is built

    return check_model(config.model, context_length=config.data.context_length, task=config.task)


def _peeking_rules(config: ConfigDict) -> list[str]:
    if config.task != "language_model" or config.model.structure != "encoder":
        return []
    if config.model.family != "transformer" or config.model.causal is not None:
        return []
    return [
        "model.structure='encoder' sees the very tokens that task='language_model' predicts; take "
        "decoder, or set model.causal=False to let it peek, model.causal=True to mask it"
    ]


_RULES = (
    (("model.", "task"), _peeking_rules),
    (("optimizer.", "training."), _optimizer_rules),
    (("training.",), _training_rules),
    (("data.", "task"), _data_rules),
)


def to_json(config: ConfigDict) -> str:
    """Return the config as indented JSON; `from_json` gives an equal config back."""
    return json.dumps(config.to_dict(), indent=2) + "\n"


def from_json(text: str) -> ConfigDict:
    """Return the locked config that `to_json` wrote.

    Keys that the text lacks, because it was written before they existed, take their defaults.

    Raises:
        ConfigError: the text has keys that do not exist, or values of the wrong type.
    """
    config = default_config()
    problems = []
    for key, value in flatten(json.loads(text)).items():
        try:
            is_tuple = isinstance(value, list) and key_type(key) is tuple
            set_key(config, key, tuple(value) if is_tuple else value)
        except (ConfigError, KeyError) as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(problems)
    return config


def diff(config: ConfigDict, base: ConfigDict) -> dict[str, tuple[Any, Any]]:
    """Return the keys in which `config` differs from `base`: key -> (base's value, config's)."""
    ours, theirs = flatten(config), flatten(base)
    keys = list(theirs) + [key for key in ours if key not in theirs]
    pairs = {key: (theirs.get(key), ours.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def fingerprint(config: ConfigDict) -> str:
    """Return 16 hexadecimal digits that are the same for configs that compute the same thing.

    SHA-256 over the sorted keys and values, the `HARMLESS` ones left out.
    """
    flat = {key: value for key, value in flatten(config).items() if key not in HARMLESS}
    return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()[:16]
