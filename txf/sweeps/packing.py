"""Which members of a sweep train as one program, and how many of them pay on the device at hand."""

import math
from collections.abc import Sequence

import jax

from txf.errors import UserError
from txf.sweeps.estimate import Cost
from txf.sweeps.grid import Member
from txf.training.program import program_key

AUTO = "auto"
# The model of what pays on an accelerator. A small model's step is over before the next kernels
# are launched; members are added until a step's products alone would keep the device busy so long.
BUSY_SECONDS = 2e-3
# Share of the device's memory that a pack may take by the estimate, and the most members in one.
MEMORY_SHARE = 0.5
MOST_MEMBERS = 256


def packs(members: Sequence[Member], size: int) -> list[list[Member]]:
    """Return the members in packs of at most `size` that share a compiled program, in arm order.

    A function of the sweep alone, not of what has run already: a sweep that is interrupted and
    continued has the same packs. Members whose config asks for more than a data-parallel `jit`
    program are by themselves.
    """
    first: dict[str, int] = {}
    for member in members:
        first.setdefault(member.arm, len(first))
    groups: dict[str, list[Member]] = {}
    for member in sorted(members, key=lambda member: first[member.arm]):
        parallel = member.config.parallel
        alone = parallel.mode != "jit" or parallel.fsdp * parallel.tensor > 1
        groups.setdefault(member.name if alone else program_key(member.config), []).append(member)
    return [
        group[start : start + size]
        for group in groups.values()
        for start in range(0, len(group), size)
    ]


def requested(flag: str, request: str) -> int | None:
    """Return how many a flag asks for; None where it leaves that open, with `auto`.

    Raises:
        UserError: it is neither `auto` nor a positive whole number.
    """
    if request == AUTO:
        return None
    if not request.isdecimal() or int(request) == 0:
        raise UserError(f"--{flag}={request} is not allowed; give auto, or how many: 1 or more")
    return int(request)


def pack_size(request: str, members: Sequence[Member], costs: dict[str, Cost], rate: float) -> int:
    """Return how many members go in a pack: what `request` says, or with `auto` what should pay.

    On a CPU that is one: a step of a single small model keeps the cores busy, and a batch of
    matrix products runs slower there than the products one by one (`experiments.benchmark` measures
    it). Elsewhere members are added until a step takes `BUSY_SECONDS` at `rate` FLOP/s, as far as
    memory goes; a multiple of the number of devices.

    Raises:
        UserError: the request is neither `auto` nor a positive whole number.
    """
    asked = requested("pack", request)
    if asked is not None:
        return asked
    if jax.default_backend() == "cpu":
        return 1
    config = max(members, key=lambda member: costs[member.name].flops_per_token).config
    cost = max(costs.values(), key=lambda cost: cost.flops_per_token)
    step = cost.flops_per_token * config.training.batch_size * config.data.context_length
    wanted = math.ceil(BUSY_SECONDS * rate / step)
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", math.inf)
    memory = max(cost.memory for cost in costs.values())
    devices = jax.device_count()
    room = min(MEMORY_SHARE * limit / memory, MOST_MEMBERS / devices)
    return max(1, int(min(math.ceil(wanted / devices), room))) * devices
