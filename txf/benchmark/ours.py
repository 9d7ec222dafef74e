"""Our train step on random tokens that lie on the device: alone, and members side by side."""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from txf.benchmark.shapes import Shape
from txf.benchmark.timing import Contender
from txf.nn.build import build_model
from txf.training.optimizers import hyper_from_config
from txf.training.step import StepSpec, init_state, train_steps

ROWS = 1024
MOST_STEPS = 64  # the room of a dispatch, as in training
SECONDS_A_DISPATCH = 0.5  # and how long one lasts


class Task(NamedTuple):
    """What one dispatch is given, and the pure functions that use it."""

    initialize: Any
    train_steps: Any
    hyper: Any
    data: jax.Array
    draws: jax.Array


def make_task(shape: Shape) -> Task:
    """Return the functions that training compiles, and random tokens for them to read."""
    config = shape.config()
    model = build_model(config.model, shape.vocab, shape.context)
    spec = StepSpec.from_config(config)
    random = np.random.Generator(np.random.Philox(key=0))
    text = random.integers(0, shape.vocab, (ROWS, shape.context + 1), dtype=np.int32)
    rows = random.integers(0, ROWS, (MOST_STEPS, shape.batch), dtype=np.int32)
    return Task(
        initialize=partial(init_state, model, spec),
        train_steps=partial(train_steps, model, spec, _fetch),
        hyper=hyper_from_config(config),
        data=jax.device_put(text),
        draws=jax.device_put(rows),
    )


def _fetch(data: jax.Array, rows: jax.Array) -> dict[str, jax.Array]:
    window = data[rows]
    inputs, targets = window[:, :-1], window[:, 1:]
    return {"inputs": inputs, "targets": targets, "weights": jnp.ones(targets.shape)}


def make_steps(shape: Shape, counts: list[int | None]) -> list[Contender]:
    """Return our step with so many steps a dispatch; None: as many as training would take.

    All share one program and one state.
    """
    task = make_task(shape)
    run_steps = jax.jit(task.train_steps, donate_argnums=0)
    state = jax.jit(task.initialize)(task.hyper, np.uint32(0))

    def run(count: int) -> None:
        nonlocal state
        state, _ = run_steps(state, task.data, task.draws, np.int32(count), task.hyper)
        jax.block_until_ready(state)

    contenders = []
    for wanted in counts:
        count = wanted or _steps_a_dispatch(partial(run, 1))
        contenders.append(Contender(partial(run, count), count))
    return contenders


def _steps_a_dispatch(step: Any) -> int:
    step()
    start = time.perf_counter()
    step()
    return int(np.clip(SECONDS_A_DISPATCH / (time.perf_counter() - start), 1, MOST_STEPS))


def make_pack(shape: Shape, members: int, steps: int) -> Contender:
    """Return one step of each of so many members, by `vmap` over them, as packs compile it.

    Members have seeds and batches of their own and read the same data. A unit is one member's step.
    """
    task = make_task(shape)
    hyper = jax.tree.map(lambda leaf: np.repeat(leaf, members), task.hyper)
    draws = jax.vmap(lambda shift: jnp.roll(task.draws[:steps], shift))(jnp.arange(members))
    state = jax.jit(jax.vmap(task.initialize))(hyper, np.arange(members, dtype=np.uint32))
    run_steps = jax.jit(jax.vmap(task.train_steps, in_axes=(0, None, 0, None, 0)), donate_argnums=0)

    def run() -> None:
        nonlocal state
        state, _ = run_steps(state, task.data, draws, np.int32(steps), hyper)
        jax.block_until_ready(state)

    return Contender(run, steps * members)
