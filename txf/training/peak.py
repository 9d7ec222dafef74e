"""What the machine can do at most: FLOP/s in matrix products, published or measured; and memory."""

import functools
import resource
import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Dense matrix products, in 1e12 FLOP/s a device, by JAX's name of the device: (bfloat16, float32);
# None where the hardware lacks the type. float32 is what JAX's default precision makes of it: TF32
# on GPUs that have it, one pass in bfloat16 on TPUs. Figures "with sparsity" are halved.
# - NVIDIA's data sheets: V100 (2018), T4 (2018), A100 (2021), L4 (2023), H100 and H200 (2024).
# - docs.cloud.google.com/tpu/docs/v2 to /v6e, "peak compute per chip". Up to v3 a JAX device is one
#   of a chip's two cores. The names are those that JAX's `pallas.tpu.get_tpu_info` tells apart.
_HOPPER_SXM, _HOPPER_NVL, _AMPERE = (989.4, 494.7), (835.0, 417.5), (312.0, 156.0)
PUBLISHED: dict[str, tuple[float | None, float]] = {
    "NVIDIA H200": _HOPPER_SXM,
    "NVIDIA H200 NVL": _HOPPER_NVL,
    "NVIDIA H100 80GB HBM3": _HOPPER_SXM,
    "NVIDIA H100 NVL": _HOPPER_NVL,
    "NVIDIA H100 PCIe": (756.0, 378.0),
    "NVIDIA A100-SXM4-40GB": _AMPERE,
    "NVIDIA A100-SXM4-80GB": _AMPERE,
    "NVIDIA A100-PCIE-40GB": _AMPERE,
    "NVIDIA A100 80GB PCIe": _AMPERE,
    "NVIDIA L4": (121.0, 60.0),
    "Tesla T4": (None, 8.1),
    "Tesla V100-SXM2-16GB": (None, 15.7),
    "Tesla V100-SXM2-32GB": (None, 15.7),
    "Tesla V100-PCIE-16GB": (None, 14.0),
    "Tesla V100-PCIE-32GB": (None, 14.0),
    "TPU v2": (22.5, 22.5),
    "TPU v3": (61.5, 61.5),
    "TPU v4": (275.0, 275.0),
    "TPU v5 lite": (197.0, 197.0),
    "TPU v5e": (197.0, 197.0),
    "TPU v5": (459.0, 459.0),
    "TPU v5p": (459.0, 459.0),
    "TPU v6 lite": (918.0, 918.0),
    "TPU v6e": (918.0, 918.0),
}


class Peak(NamedTuple):
    """A rate that matrix products cannot exceed, or do not here, and where the figure is from."""

    flops_per_second: float
    source: str


def published_peak(device_kind: str, dtype: str) -> float | None:
    """Return the published FLOP/s of one device of that kind, or None where there is no figure."""
    if device_kind not in PUBLISHED:
        return None
    peak = dict(zip(("bfloat16", "float32"), PUBLISHED[device_kind], strict=True))[dtype]
    return None if peak is None else peak * 1e12


def device_peak(dtype: str, devices: int = 1, measures: bool = True) -> Peak | None:
    """Return the most that `devices` of this process's kind do together in matrix products.

    What is published of the device where it is in the table. Otherwise it is measured, once in a
    process and dtype (see `matmul_rate`), or, without `measures`, unknown: None. Devices that the
    CPU plays share what it has, so that their number does not matter.
    """
    kind = jax.devices()[0].device_kind
    published = published_peak(kind, dtype)
    if published is not None:
        return Peak(published * devices, f"published for {kind}")
    if not measures:
        return None
    share = 1.0 if jax.default_backend() == "cpu" else devices / jax.device_count()
    return Peak(_measured(dtype) * share, "measured in large matrix products")


def matmul_rate(dtype: str = "float32") -> float:
    """Return the FLOP/s this process's devices reach together in large matrix products.

    2n³ / seconds of a product of two n x n matrices. Takes about half a second: the best of five
    products after one to warm up.
    """
    n = 1024 if jax.default_backend() == "cpu" else 8192
    a = jnp.ones((n, n), dtype)
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        product(a).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return 2 * n**3 / best * (1 if jax.default_backend() == "cpu" else jax.device_count())


@functools.cache
def _measured(dtype: str) -> float:
    return matmul_rate(dtype)


def peak_memory() -> int:
    """Return the most bytes that were in use at a time since this process began.

    On the fullest of its devices, where the backend counts them; otherwise, on a CPU, of the
    process: its largest resident set.
    """
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    counted = [found["peak_bytes_in_use"] for found in stats if "peak_bytes_in_use" in found]
    if counted:
        return max(counted)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident if sys.platform == "darwin" else resident * 1024
