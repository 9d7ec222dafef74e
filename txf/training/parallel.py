"""Devices: a mesh of data x fsdp x tensor, and one table that says how parameters lie on it.

`jit` lets the compiler place the work: batches are split over data and fsdp, parameters over fsdp
and tensor. `pmap` is plain data parallelism: every device holds all parameters and its share of
the batch, and gradients are summed over devices by name. Both run the same pure train step.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
from ml_collections import ConfigDict

from txf import hosts
from txf.errors import UserError

AXES = ("data", "fsdp", "tensor")
BATCH = PartitionSpec(("data", "fsdp"))

# The first pattern found in a leaf's path decides how its dimensions are split. Optimizer state
# ends in the same paths as the parameters it belongs to. A dimension that its devices do not
# divide stays whole.
RULES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (r"embed/embedding$", ("tensor", "fsdp")),
    (r"(query|key|value)/kernel$", ("fsdp", "tensor", None)),
    (r"(query|key|value)/bias$", ("tensor", None)),
    (r"output/kernel$", ("tensor", None, "fsdp")),
    (r"(up|gate)/kernel$", ("fsdp", "tensor")),
    (r"(up|gate)/bias$", ("tensor",)),
    (r"down/kernel$", ("tensor", "fsdp")),
    (r"head/kernel$", ("fsdp", "tensor")),
    (r"kernel$", ("fsdp",)),
)


def mesh_shape(parallel: ConfigDict, num_devices: int) -> tuple[int, int, int]:
    """Return the sizes of the mesh's axes; parallel.data=-1 takes all devices that are left.

    Raises:
        UserError: the sizes ask for more devices than there are, or leave some over.
    """
    data, fsdp, tensor = parallel.data, parallel.fsdp, parallel.tensor
    if data == -1:
        data = max(num_devices // (fsdp * tensor), 1)
    if data == 0:
        raise UserError("parallel.data=0 is not allowed; give -1 (all that are left) or 1 or more")
    if data * fsdp * tensor > num_devices or num_devices % (data * fsdp * tensor):
        raise UserError(
            f"parallel.data={data} x parallel.fsdp={fsdp} x parallel.tensor={tensor} are "
            f"{data * fsdp * tensor} devices; there are {num_devices}"
        )
    if parallel.mode == "pmap" and fsdp * tensor > 1:
        raise UserError(
            f"parallel.mode=pmap is data parallel only; parallel.fsdp={fsdp} and "
            f"parallel.tensor={tensor} need parallel.mode=jit"
        )
    if hosts.count() > 1 and parallel.mode == "pmap":
        raise UserError("parallel.mode=pmap runs in one process; several need parallel.mode=jit")
    if hosts.count() > 1 and data * fsdp * tensor < num_devices:
        raise UserError(
            f"parallel.data={data} x parallel.fsdp={fsdp} x parallel.tensor={tensor} leaves "
            f"{num_devices - data * fsdp * tensor} of {num_devices} devices out; with "
            f"{hosts.count()} processes all must take part: try parallel.data=-1"
        )
    return data, fsdp, tensor


def make_mesh(shape: tuple[int, int, int]) -> Mesh:
    """Return the mesh of that shape over the first devices there are.

    Raises:
        UserError: there are more processes than this one knows of.
    """
    hosts.check_devices()
    count = int(np.prod(shape))
    return Mesh(np.asarray(jax.devices()[:count]).reshape(shape), AXES)


def check_batch(config: ConfigDict, mesh: Mesh) -> None:
    """Refuse a batch that the devices do not divide.

    Raises:
        UserError: with the numbers.
    """
    training, parts = config.training, mesh.shape["data"] * mesh.shape["fsdp"]
    rows = training.batch_size // training.accumulate
    if rows % parts:
        micro = f" / training.accumulate={training.accumulate}" if training.accumulate > 1 else ""
        raise UserError(
            f"training.batch_size={training.batch_size}{micro} is {rows} rows, which "
            f"{parts} devices do not divide; try {-(-rows // parts) * parts * training.accumulate}"
        )


def fitted(config: ConfigDict) -> ConfigDict:
    """Return the config of a run as it can be evaluated here: on one device if not as it was made.

    Checkpoints open on any devices; where a run's own mesh fits, its figures come out to the bit.
    """
    try:
        check_batch(config, make_mesh(mesh_shape(config.parallel, jax.device_count())))
    except UserError:
        config = config.copy_and_resolve_references()
        config.parallel.update(mode="jit", data=1, fsdp=1, tensor=1)
    return config


def replicated(mesh: Mesh) -> NamedSharding:
    """Return the sharding of what every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def draws_sharding(mesh: Mesh) -> NamedSharding:
    """Return the sharding of draws [K, batch]: the batch is split over data and fsdp."""
    return NamedSharding(mesh, PartitionSpec(None, *BATCH))


def member_shardings(size: int) -> tuple[NamedSharding, NamedSharding]:
    """Return the shardings of what has a leading axis of `size` members, and of what they share.

    Members are spread over as many devices as divide their number; where that is not all of them,
    the others compute copies.
    """
    count = math.gcd(size, jax.device_count())
    mesh = Mesh(np.asarray(jax.devices()).reshape(count, -1), ("members", "copies"))
    return NamedSharding(mesh, PartitionSpec("members")), replicated(mesh)


def place(tree: Any, sharding: Sharding) -> Any:
    """Return arrays that every host has, laid out as `sharding` says.

    Each host hands over what its own devices hold, and nothing goes between hosts.
    """
    if hosts.count() == 1:
        return jax.device_put(tree, sharding)

    def put(leaf):
        leaf = np.asarray(leaf)
        return jax.make_array_from_callback(leaf.shape, sharding, lambda index: leaf[index])

    return jax.tree.map(put, tree)


def place_columns(
    make: Callable[[slice], Mapping[str, np.ndarray]], sharding: Sharding, rows: int, columns: int
) -> dict[str, jax.Array]:
    """Return arrays [rows, columns, ...] of which each host makes its own devices' columns alone.

    `make(part)` gives the columns of `part`, of every array by its name.
    """
    places = {
        device: slice(*index[1].indices(columns)[:2])
        for device, index in sharding.addressable_devices_indices_map((rows, columns)).items()
    }
    made = {(part.start, part.stop): make(part) for part in places.values()}
    arrays = {}
    for name, example in next(iter(made.values())).items():
        shards = [
            jax.device_put(made[part.start, part.stop][name], device)
            for device, part in places.items()
        ]
        shape = (rows, columns, *example.shape[2:])
        arrays[name] = jax.make_array_from_single_device_arrays(shape, sharding, shards)
    return arrays


def fetch(tree: Any) -> Any:
    """Return arrays on the host, each whole, whichever hosts hold its parts."""
    if hosts.count() == 1:
        return jax.device_get(tree)
    return jax.tree.map(lambda leaf: multihost_utils.process_allgather(leaf, tiled=True), tree)


def split_batch(mesh: Mesh, batch: Any) -> Any:
    """Hold the compiler to batches [batch, ...] that are split over data and fsdp."""
    return jax.lax.with_sharding_constraint(batch, NamedSharding(mesh, BATCH))


def state_shardings(mesh: Mesh, shapes: Any) -> Any:
    """Return the sharding of each leaf of a train state, by `RULES`."""

    def sharding(path, leaf):
        name = "/".join(str(getattr(key, "key", getattr(key, "name", key))) for key in path)
        for pattern, axes in RULES:
            if re.search(pattern, name):
                spec = [
                    axis if axis and size % mesh.shape[axis] == 0 else None
                    for axis, size in zip(axes, leaf.shape, strict=False)
                ]
                return NamedSharding(mesh, PartitionSpec(*spec))
        return replicated(mesh)

    return jax.tree_util.tree_map_with_path(sharding, shapes)
