"""Run on eight simulated devices by test_parallel: trains in several ways, prints what came out.

python -m tests.training.on_eight FOLDER, where FOLDER/one holds a run stopped on a single device.
"""

import json
import sys
from pathlib import Path

import jax

from tests.training import small
from txf.errors import UserError
from txf.training import program
from txf.training.loop import train_pack
from txf.training.program import prepare
from txf.training.run import RunFolder

BASE = {
    "training.batch_size": 16,
    "training.steps": 10,
    "training.accumulate": 1,
    "model.dropout": 0.0,
    "training.log_every": 5,
    "training.eval_every": 5,
    "training.checkpoint_every": 5,
}
WAYS = {
    "data": {},
    "fsdp": {"parallel.data": 4, "parallel.fsdp": 2},
    "tensor": {"parallel.data": 2, "parallel.fsdp": 2, "parallel.tensor": 2},
    "pmap": {"parallel.mode": "pmap", "training.accumulate": 2},
    "streamed": {},
}
# What is also done in two goes, which must come to the same bits.
INTERRUPTED = ("fsdp", "pmap", "packed")
PACK = [{"seed": seed} for seed in range(4)]
REFUSED = {
    "batch": {"training.batch_size": 12},
    "micro-batch": {"training.accumulate": 4},
    "devices": {"parallel.data": 16},
    "left over": {"parallel.data": 3},
    "none": {"parallel.data": 0},
    "pmap of parts": {"parallel.mode": "pmap", "parallel.fsdp": 2},
}


def train_way(name, folder, should_stop=lambda: False):
    """Train one way, or a pack of four; the pack's first member lies in `folder`."""
    if name != "packed":
        return small.train(small.config({**BASE, **WAYS[name]}), folder, should_stop=should_stop)
    folders = [folder, *(folder.with_name(f"{folder.name}{n}") for n in range(1, len(PACK)))]
    configs = [small.config({**BASE, **member}) for member in PACK]
    return train_pack(list(zip(configs, folders, strict=True)), should_stop=should_stop)


def refusal(overrides):
    try:
        prepare(small.config({**BASE, **overrides}))
    except UserError as error:
        return str(error)


def main(folder):
    found = {"devices": jax.device_count(), "runs": {}, "refused": {}, "split": {}}
    for name, way in WAYS.items():
        config = small.config({**BASE, **way})
        # Each way by itself, so that the data that others put on the devices is not used.
        program._load.cache_clear()
        program.RESIDENT_BYTES = 0 if name == "streamed" else 1 << 28
        if name == "fsdp":  # what one device began is finished by eight, and the reverse
            small.train(config, folder / "one")
        should_stop = small.stop_after(2) if name == "tensor" else (lambda: False)
        try:
            small.train(config, folder / name, should_stop=should_stop)
            found["runs"][name] = RunFolder.at(folder / name).result()["valid"]["loss"]
        except small.Stopped:
            pass
        state = prepare(config).compiled.state_like
        leaves = jax.tree.leaves((state.params, state.opt_state))
        found["split"][name] = sum(not leaf.sharding.is_fully_replicated for leaf in leaves)
    program.RESIDENT_BYTES = 1 << 28
    train_way("packed", folder / "packed")
    for name in INTERRUPTED:
        try:
            train_way(name, folder / f"{name}_stopped", small.stop_after(2))
        except small.Stopped:
            train_way(name, folder / f"{name}_stopped")
    found["refused"] = {name: refusal(overrides) for name, overrides in REFUSED.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
