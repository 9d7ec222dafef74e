"""What a sweep will cost before it runs: parameters, FLOPs, time and memory of every member."""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from txf.config import default_config, flatten, from_json, to_json
from txf.data.dataset import load_dataset
from txf.errors import UserError
from txf.nn.cost import parameter_count, training_flops_per_token
from txf.sweeps.definition import Experiment
from txf.sweeps.grid import Member, apply_overrides, format_value, refuse_members, short_keys
from txf.sweeps.progress import duration
from txf.training.program import program_key

# The model of time: matrix products at this share of the rate measured for large ones, so many
# seconds to start and end a run, and so many to compile what members of an arm share: a model, and
# each of its blocks.
EFFICIENCY = 0.4
SECONDS_A_RUN = 2.0
SECONDS_A_PROGRAM = 4.0
SECONDS_A_BLOCK = 1.5


@dataclasses.dataclass(frozen=True)
class DataSize:
    """What the size of a model and of its training depends on: see `data_size`."""

    vocab_size: int
    num_classes: int | None
    tokens: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one run costs.

    Attributes:
        parameters: trained numbers.
        flops_per_token: floating-point operations, forward and backward, per token of training.
        flops: of the whole run, evaluations included.
        memory: bytes on the device: parameters, gradients, optimizer state, activations.
    """

    parameters: int
    flops_per_token: float
    flops: float
    memory: float


def data_size(config: ConfigDict) -> DataSize:
    """Return the vocabulary, classes and tokens of a config's data, read once per kind of data.

    Raises:
        UserError: the data cannot be read.
    """
    relevant = {
        k: v
        for k, v in flatten(config).items()
        if k in ("task", "model.structure") or k.startswith("data.")
    }
    return _data_size(to_json(apply_overrides(default_config(), relevant)))


def run_cost(config: ConfigDict) -> Cost:
    """Return what a run of `config` costs.

    FLOPs are those of the model's matrix products (see `txf.nn.cost`); an evaluation costs a third
    of training per token. Memory is a model, not a measurement: float32 parameters, gradients and
    optimizer state, and what a backward pass keeps of each block.

    Raises:
        UserError: the data cannot be read, or the model cannot be built on it.
    """
    size = data_size(config)
    shape = (config.model, size.vocab_size, config.data.context_length)
    kind = {"task": config.task, "num_classes": size.num_classes}
    parameters = int(parameter_count(*shape, **kind))
    per_token = float(training_flops_per_token(*shape, **kind))
    training = config.training
    trained = training.steps * training.batch_size * config.data.context_length
    evaluations = training.steps // min(training.eval_every, training.checkpoint_every) + 1
    evaluated = sum(
        tokens * (evaluations if split == "valid" else 1)
        for split, tokens in size.tokens.items()
        if split != "train"
    )
    flops = per_token * (trained + evaluated / 3)
    return Cost(parameters, per_token, flops, _memory(config, parameters, size.vocab_size))


def sweep_costs(members: Sequence[Member]) -> dict[str, Cost]:
    """Return each member's cost by its name.

    Raises:
        UserError: with every problem that the data or the models have, and whose it is.
    """
    costs: dict[str, Cost] = {}
    problems: dict[str, list[str]] = {}
    known: dict[str, Cost | UserError] = {}
    for member in members:
        key = _cost_key(member.config)
        if key not in known:
            try:
                known[key] = run_cost(member.config)
            except UserError as error:
                known[key] = error
        if isinstance(found := known[key], UserError):
            problems.setdefault(str(found), []).append(member.name)
        else:
            costs[member.name] = found
    refuse_members(problems)
    return costs


def sweep_seconds(
    members: Sequence[Member], costs: Mapping[str, Cost], rate: float
) -> dict[str, float]:
    """Estimate the seconds each member takes, by its name.

    The first of those that share a compiled program also takes the time to compile it.

    Args:
        members: what is to run.
        costs: by member's name, see `sweep_costs`.
        rate: FLOP/s in large matrix products of what a member has for itself: the devices, see
            `txf.training.peak.matmul_rate`, or a worker's share of them.
    """
    compiled: set[str] = set()
    seconds = {}
    for member in members:
        took = costs[member.name].flops / (EFFICIENCY * rate) + SECONDS_A_RUN
        program = program_key(member.config)
        if program not in compiled:
            compiled.add(program)
            blocks = 1 if member.config.model.scan_layers else member.config.model.depth
            took += SECONDS_A_PROGRAM + SECONDS_A_BLOCK * blocks
        seconds[member.name] = took
    return seconds


def describe(
    experiment: Experiment,
    costs: Mapping[str, Cost],
    rate: float,
    statuses: Mapping[str, str],
    workers: int = 1,
) -> str:
    """Return what `--dry_run` prints: members, what varies, and what they cost.

    Args:
        experiment: the sweep.
        costs: by member's name, see `sweep_costs`.
        rate: see `txf.training.peak.matmul_rate`.
        statuses: by member's name, how it stands in the folder already ('' for not run).
        workers: how many members run side by side, each with its share of the device.
    """
    lines = [experiment.question.splitlines()[0], ""]
    arms = len({member.arm for member in experiment.members})
    lines.append(f"{len(experiment.members)} members in {arms} arms; what varies:")
    for key in experiment.keys:
        values = _values(experiment, key)
        tuned = " (each arm at its own best)" if key in experiment.tuned else ""
        lines.append(f"  {key}: {', '.join(values)}{tuned}")
    to_run = [member for member in experiment.members if not statuses[member.name]]
    seconds = sweep_seconds(to_run, costs, rate / workers)
    header = ["member", "parameters", "FLOPs/token", "FLOPs", "time", "memory"]
    rows = [header]
    for member in experiment.members:
        cost = costs[member.name]
        time_or_status = statuses[member.name] or duration(seconds[member.name])
        rows.append(
            [
                member.name,
                f"{cost.parameters:,}",
                f"{cost.flops_per_token:.3g}",
                f"{cost.flops:.3g}",
                time_or_status,
                _bytes(cost.memory),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines.append("")
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells))
    total = sum(costs[member.name].flops for member in to_run)
    workers = max(1, min(workers, len(to_run)))
    took = max([sum(seconds.values()) / workers, *seconds.values()])
    most = sorted((cost.memory for cost in costs.values()), reverse=True)[:workers]
    lines += [
        "",
        f"{len(to_run)} to run{f', {workers} side by side' if workers > 1 else ''}: "
        f"{total:.3g} FLOPs, about {duration(float(took))}, "
        f"at most {_bytes(sum(most))} at a time",
        f"(time: {EFFICIENCY:.0%} of the {rate / 1e9:.3g} GFLOP/s measured here for large matrix "
        f"products, {SECONDS_A_RUN:g} s more a run, {SECONDS_A_PROGRAM:g} s and "
        f"{SECONDS_A_BLOCK:g} s a block to compile each model; "
        "memory: parameters, gradients, optimizer state and activations, reckoned)",
    ]
    return "\n".join(lines)


def varied(experiment: Experiment) -> str:
    """Return what varies in one line: `depth (1, 2), norm_placement (pre, post), seed (0, 1)`."""
    short = short_keys(experiment.keys)
    return ", ".join(
        f"{short[key]} ({', '.join(_values(experiment, key))})" for key in experiment.keys
    )


def _values(experiment: Experiment, key: str) -> list[str]:
    """Return the values the key takes: numbers by size, others as they come."""
    values = list(dict.fromkeys(member.overrides[key] for member in experiment.members))
    if all(isinstance(value, (int, float)) for value in values):
        values.sort()
    return [format_value(value) for value in values]


@functools.lru_cache(maxsize=64)
def _data_size(config_json: str) -> DataSize:
    dataset = load_dataset(from_json(config_json))
    tokens = {name: int(split.tokens) for name, split in dataset.splits.items()}
    return DataSize(int(dataset.vocab_size), dataset.num_classes, tokens)


def _cost_key(config: ConfigDict) -> str:
    """Return a text equal for configs of equal cost: seeds and learning rates change nothing."""
    parts = {"task": config.task}
    parts |= {part: config[part].to_dict() for part in ("data", "model", "training")}
    return json.dumps(parts | {"optimizer": config.optimizer.name}, sort_keys=True)


def _memory(config: ConfigDict, parameters: int, vocab_size: int) -> float:
    model, training, length = config.model, config.training, config.data.context_length
    moments = 1 if config.optimizer.name == "sgd" else 2
    state = 4 * parameters * (2 + moments)
    itemsize = 2 if model.dtype == "bfloat16" else 4
    hidden = 0 if model.feedforward == "none" else model.mlp_ratio * model.width
    a_block = 8 * model.width + 3 * hidden + 3 * model.num_heads * length
    blocks = model.width * model.depth + a_block if model.remat else a_block * model.depth
    rows = training.batch_size // training.accumulate
    outputs = 1 if config.task == "classification" else 3 * 4 * vocab_size
    activations = rows * length * (itemsize * blocks + outputs)
    evaluation = training.eval_batch_size * length * (itemsize * a_block + outputs)
    return float(state + max(activations, evaluation))


def _bytes(count: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"
