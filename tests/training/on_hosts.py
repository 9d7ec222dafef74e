"""Run as each of several processes by test_hosts: trains in several ways, prints what came out.

python -m tests.training.on_hosts FOLDER COUNT INDEX PORT WAY..., where COUNT=1 is one process that
has all the devices.
"""

import json
import logging
import os
import sys
import traceback
from pathlib import Path

import jax
import numpy as np

from tests.training import small
from txf import hosts
from txf.training import program
from txf.training.loop import train_pack
from txf.training.run import RunFolder

BASE = {
    "training.batch_size": 8,
    "training.steps": 10,
    "training.log_every": 5,
    "training.eval_every": 5,
    "training.checkpoint_every": 5,
}
# Quickly compiled, for what has little to do with the model.
LIGHT = {
    "model.family": "bigram",
    "model.depth": 2,
    "model.width": 64,
    "model.num_heads": 4,
    "model.dropout": 0.0,
    "training.accumulate": 1,
}
WAYS = {
    "data": {},
    "fsdp": {"parallel.data": 1, "parallel.fsdp": 2},
    "light": LIGHT,
    "streamed": LIGHT,
    "stopped": LIGHT,
    "long": {
        **LIGHT,
        "training.steps": 320,
        "training.log_every": 40,
        "training.eval_every": 40,
        "training.checkpoint_every": 40,
    },
}
REFUSED = {
    "pmap": {"parallel.mode": "pmap"},
    "left out": {"parallel.data": 1},
    "batch": {"training.batch_size": 6, "training.accumulate": 2},
}


def refusal(act):
    """What each process says to what is refused; all must have something to say."""
    try:
        with hosts.together():
            act()
        mine = None
    except Exception as error:
        mine = f"{type(error).__name__}: {error}"
    return hosts.gather(mine)


def train_way(folder, name):
    """Train one way, and say which rows of the data this process has made batches of."""
    config = small.config({**BASE, **WAYS[name]})
    program._load.cache_clear()  # each way by itself
    program.RESIDENT_BYTES = 0 if name == "streamed" else 1 << 28
    if name == "stopped":  # the last process is asked to stop, and none of the others
        never, soon = (lambda: False), small.stop_after(2)
        last = hosts.index() == hosts.count() - 1
        try:
            small.train(config, folder / name, should_stop=soon if last else never)
            raise AssertionError("it has not stopped")
        except small.Stopped:
            pass
    small.train(config, folder / name)


def pack(folder):
    """Three members side by side: no number that two or four processes divide."""
    rates = 0.02, 0.01, 0.005
    configs = [small.config({**BASE, **LIGHT, "optimizer.learning_rate": rate}) for rate in rates]
    train_pack([(config, folder / f"pack{n}") for n, config in enumerate(configs)])


def rows_made():
    """The columns of a dispatch's batches that each process makes: what its own devices take."""
    prepared = program.prepare(small.config(BASE))
    parts = []
    whole = prepared.draws(0, 1)["draws"]

    def make(part):
        parts.append([part.start, part.stop])
        return {"draws": whole[:, part]}

    compiled = prepared.compiled
    placed = program.parallel.place_columns(make, compiled.draws_place, *whole.shape)
    mine = [np.asarray(shard.data)[0].tolist() for shard in placed["draws"].addressable_shards]
    assert mine == [whole[0, start:stop].tolist() for start, stop in parts]
    return hosts.gather(parts)


def refusals(folder):
    """What is refused, in one of the processes or in all, ends in an error in every one."""

    def run(overrides, workdir="refused"):
        return lambda: small.train(small.config({**BASE, **overrides}), folder / workdir)

    found = {name: refusal(run(overrides)) for name, overrides in REFUSED.items()}
    found["config"] = refusal(run({"seed": hosts.index()}))
    found["not shared"] = refusal(run({}, f"own{hosts.index()}"))
    home = folder / f"home{hosts.index()}"
    home.mkdir(exist_ok=True)
    lines = [f"This is text {number} of {hosts.index()}." for number in range(300)]
    (home / "text").write_text("\n\n".join(lines))
    os.environ["HOME"] = str(home)
    found["data"] = refusal(run({"data.source": "text", "data.path": "~/text"}, "of_text"))
    program._load.cache_clear()
    if hosts.index() == 1:
        (home / "text").unlink()
    found["file"] = refusal(run({"data.source": "text", "data.path": "~/text"}, "of_text"))

    def fail():
        if hosts.index() == 1:
            raise OSError("no space left")

    found["one fails"] = refusal(fail)
    return found


def main(folder, count, index, port, *ways):
    if count > 1:
        hosts.initialize(f"127.0.0.1:{port}", count, index, timeout=120)
    logging.disable(logging.WARNING)
    for name in ways:
        if name in WAYS:
            train_way(folder, name)
    found = {"devices": jax.device_count(), "processes": jax.process_count()}
    if "pack" in ways:
        pack(folder)
    if "refusals" in ways:
        found["refused"] = refusals(folder)
        found["rows"] = rows_made()
    found["lines"] = {
        name: [[*place, line["loss"]] for place, line in small.lines(folder / name).items()]
        for name in [*ways, *(f"pack{n}" for n in range(3))]
        if RunFolder.at(folder / name).exists()
    }
    hosts.gather()
    print(json.dumps(found), flush=True)
    jax.distributed.shutdown()  # does nothing in one process


if __name__ == "__main__":
    path, *numbers = sys.argv[1:5]
    code = 1
    try:
        main(Path(path), *map(int, numbers), *sys.argv[5:])
        code = 0
    except Exception:
        traceback.print_exc()
    os._exit(code)  # a process that waited for others that have failed would never end
