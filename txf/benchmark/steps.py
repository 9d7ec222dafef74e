"""Train steps timed: beside peers, by steps a dispatch, and in packs."""

import importlib.util
import logging
import statistics
from collections.abc import Sequence
from typing import Any

import jax

from txf.benchmark import ours
from txf.benchmark.peak import make_peak
from txf.benchmark.plain_jax import make_plain_jax
from txf.benchmark.shapes import Shape
from txf.benchmark.timing import interleave, ratio

_log = logging.getLogger(__name__)
Row = dict[str, Any]
PEER_STEPS = 4  # of a peer, before it is waited for
DISPATCHES = (1, 4, 16, 64)
PACKS, LARGEST_PACK = (1, 4, 16, 64), 256  # the largest on accelerators alone
PACK_STEPS = 1
# Packs are left out from the first on with which all states and gradients would take more.
PACKS_BYTES = 1 << 33
BYTES_A_PARAMETER = 16


def step_rows(shape: Shape, seconds: float, with_torch: bool = True) -> list[Row]:
    """Time our step, a plain JAX step and, if it is installed, torch's, in turns.

    Of each: milliseconds a step (median over rounds), tokens a second, `utilization` (FLOPs of the
    step's matrix products, by `Shape.flops`, as a share of what large products reach in the same
    rounds: 1 is the matmul bound), and `times_ours`, the median over rounds of its time over ours.
    """
    contenders = {"txf": ours.make_steps(shape, [None])[0]}
    contenders["plain JAX"] = make_plain_jax(shape, PEER_STEPS)
    if with_torch and importlib.util.find_spec("torch") is not None:
        from txf.benchmark.torch_peer import make_torch

        contenders["torch eager"] = make_torch(shape, PEER_STEPS, compiled=False)
        compiled = make_torch(shape, PEER_STEPS, compiled=True)
        try:
            compiled.run()
            contenders["torch compiled"] = compiled
        except Exception as error:  # it needs a C compiler, and more
            _log.warning("torch.compile is left out, it fails here: %s", type(error).__name__)
    samples = interleave({**contenders, "peak": make_peak(shape.dtype)}, seconds)
    peak = samples.pop("peak")
    bound = [shape.flops() * second for second in peak]
    rows = []
    for name, times in samples.items():
        row = {"shape": shape.name, "step": name, **_speed(times, shape.tokens)}
        row["utilization"] = ratio(bound, times)
        row["times_ours"] = ratio(times, samples["txf"])
        row["rounds"] = len(times)
        rows.append(row)
    bound_row = {"shape": shape.name, "step": "matmul bound", **_speed(bound, shape.tokens)}
    bound_row |= {"utilization": 1.0, "times_ours": ratio(bound, samples["txf"])}
    return [*rows, {**bound_row, "rounds": len(bound)}]


def dispatch_rows(shape: Shape, seconds: float, counts: Sequence[int] = DISPATCHES) -> list[Row]:
    """Time our step with K steps a dispatch, in turns; `times_first`: speed over the first K's."""
    contenders = ours.make_steps(shape, list(counts))
    named = dict(zip(counts, contenders, strict=True))
    samples = interleave({str(count): one for count, one in named.items()}, seconds)
    return [
        {
            "shape": shape.name,
            "steps a dispatch": count,
            **_speed(samples[str(count)], shape.tokens),
            "times_first": ratio(samples[str(counts[0])], samples[str(count)]),
        }
        for count in counts
    ]


def pack_sizes(shape: Shape, platform: str) -> list[int]:
    """Return how many members the packs have that are timed; there is always a pack of one."""
    sizes = PACKS if platform == "cpu" else (*PACKS, LARGEST_PACK)
    room = PACKS_BYTES // (BYTES_A_PARAMETER * shape.parameters())
    return [size for size in sizes if size == 1 or sum(n for n in sizes if n <= size) <= room]


def pack_rows(shape: Shape, seconds: float, sizes: Sequence[int] | None = None) -> list[Row]:
    """Time packs of members, in turns: milliseconds a step of one, tokens a second of them all."""
    if sizes is None:
        sizes = pack_sizes(shape, jax.default_backend())
    packs = {str(size): ours.make_pack(shape, size, PACK_STEPS) for size in sizes}
    samples = interleave(packs, seconds)
    return [
        {
            "shape": shape.name,
            "members": size,
            **_speed(samples[str(size)], shape.tokens),
            "times_first": ratio(samples[str(sizes[0])], samples[str(size)]),
        }
        for size in sizes
    ]


def _speed(times: Sequence[float], tokens: int) -> Row:
    middle = statistics.median(times)
    return {"ms": 1e3 * middle, "tokens_per_second": tokens / middle}
