"""The train step: parts equal the whole, and any way of dispatching gives the same bits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training import small
from txf.training import program as programs
from txf.training.program import prepare
from txf.training.step import StepSpec, gradients

ROOM = 5


@functools.cache
def prepared(accumulate=2):
    """Rows hold a document each, so that they differ in how much of them is padding."""
    return prepare(
        small.config(
            {
                "data.packing": "documents",
                "data.context_length": 23,
                "training.batch_size": 12,
                "training.accumulate": accumulate,
                "training.steps_per_dispatch": ROOM,
            }
        )
    )


def run(program, *counts):
    """The state after dispatches of so many steps."""
    state, step = program.init_state(), 0
    for count in counts:
        state, metrics = program.compiled.train_steps(
            state, program.data, program.draws(step, count), np.int32(count), program.hyper
        )
        step += count
    return jax.device_get((state, metrics))


def assert_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("counts", [(1, 1, 1, 1, 1), (2, 3), (4, 1)])
def test_any_split_into_dispatches_gives_the_same_bits(counts):
    assert_equal(run(prepared(), *counts), run(prepared(), 5))


def test_a_dispatch_takes_as_many_steps_as_it_is_told():
    state, _ = run(prepared(), 3)
    assert state.step == 3
    whole, _ = run(prepared(), 5)
    assert any(
        (a != b).any()
        for a, b in zip(jax.tree.leaves(state.params), jax.tree.leaves(whole.params), strict=True)
    )


@pytest.fixture(scope="module")
def batch():
    train = prepared().dataset.splits["train"]
    rows = np.arange(train.num_rows, dtype=np.int32)
    weights = train.take(train.arrays, rows, rows.astype(np.uint32))["weights"].sum(1)
    rows = np.argsort(weights)[np.r_[0:4, -8:0]].astype(np.int32)
    return jax.tree.map(jnp.asarray, train.take(train.arrays, rows, rows.astype(np.uint32)))


def test_accumulated_parts_give_the_gradient_of_the_whole(batch):
    weights = np.asarray(batch["weights"]).reshape(4, -1).sum(1)
    assert len(set(weights)) > 1  # a part with little text must weigh little
    program = prepared()
    params, key = program.init_state().params, jax.random.key(0)

    def of(accumulate):
        spec = StepSpec.from_config(
            small.config({"training.accumulate": accumulate, "model.dropout": 0.0})
        )
        function = functools.partial(gradients, program.compiled.model, spec)
        return jax.jit(function)(params, batch, program.hyper, key)

    whole, parts = of(1), of(4)
    assert whole[2] == parts[2] == weights.sum()
    np.testing.assert_allclose(whole[1], parts[1], rtol=1e-5)
    for one, other in zip(jax.tree.leaves(whole[0]), jax.tree.leaves(parts[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_dropout_differs_from_part_to_part(batch):
    program = prepared()
    params, key = program.init_state().params, jax.random.key(0)
    hyper = program.hyper._replace(dropout=jnp.float32(0.5))
    half = jax.tree.map(lambda x: x[:3], batch)
    twice = jax.tree.map(lambda x: jnp.concatenate([x, x]), half)

    def nats(batch, key, accumulate):
        spec = StepSpec.from_config(small.config({"training.accumulate": accumulate}))
        return gradients(program.compiled.model, spec, params, batch, hyper, key)[1]

    nats = jax.jit(nats, static_argnums=2)
    parts = [nats(half, jax.random.fold_in(key, number), 1) for number in range(2)]
    assert parts[0] != parts[1]
    np.testing.assert_allclose(nats(twice, key, 2), sum(parts), rtol=1e-6)


def test_one_trace_serves_log_lines_resumes_and_all_traced_keys(tmp_path, monkeypatch):
    traces = []

    def counted(*args, **options):
        traces.append(1)
        return original(*args, **options)

    original = programs.train_steps
    monkeypatch.setattr(programs, "train_steps", counted)
    programs._compile.cache_clear()
    config = small.config()
    with pytest.raises(small.Stopped):
        small.train(config, tmp_path / "a", should_stop=small.stop_after(3))
    small.train(config, tmp_path / "a")
    assert len(traces) == 1
    compiled = prepare(config).compiled
    other = {
        "seed": 5,
        "model.init_scale": 0.5,
        "model.dropout": 0.25,
        "optimizer.learning_rate": 0.003,
        "optimizer.warmup_steps": 2,
        "optimizer.final_fraction": 0.0,
        "optimizer.weight_decay": 0.3,
        "optimizer.b1": 0.5,
        "optimizer.b2": 0.9,
        "optimizer.eps": 1e-5,
        "optimizer.clip_norm": 0.1,
    }
    # Another data.seed is other data: the same program, unless that data has another size.
    assert {*other, "data.seed"} == set(programs.TRACED)
    small.train(small.config(other), tmp_path / "b")
    assert len(traces) == 1
    assert prepare(small.config(other)).compiled is compiled


def test_programs_are_not_shared_where_the_model_differs():
    compiled = prepare(small.config()).compiled
    for key, value in {
        "model.width": 12,
        "model.bias": False,
        "model.dropout": 0.0,
        "optimizer.clip_norm": 0.0,
        "optimizer.schedule": "linear",
        "training.accumulate": 1,
        "data.stride": 5,
    }.items():
        assert prepare(small.config({key: value})).compiled is not compiled, key
