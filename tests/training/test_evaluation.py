"""Evaluation: each target once, whatever the batches, and figures that follow from the sums."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training import small
from txf.training.evaluation import _parts, eval_step, evaluate
from txf.training.program import prepare


@pytest.fixture(scope="module", params=["windows", "documents", "packed"])
def program(request):
    return prepare(small.config({"data.packing": request.param}))


@pytest.fixture(scope="module")
def state_params(program):
    # A model that says something, so that kinds of targets differ in loss.
    scaled = program.hyper._replace(init_scale=np.float32(8))
    return program.compiled.initialize(scaled, np.uint32(3)).params


def measure(program, params, batch_size, split="valid"):
    return evaluate(
        program.compiled.eval_step, params, program.dataset.splits[split], batch_size=batch_size
    )


def test_figures_do_not_depend_on_the_batch_size(program, state_params):
    rows = program.dataset.splits["valid"].num_rows
    whole = measure(program, state_params, rows)
    for size in (7, rows + 5):
        again = measure(program, state_params, size)
        assert again.keys() == whole.keys()
        for name, value in whole.items():
            assert again[name] == pytest.approx(value, rel=1e-6), name
    assert measure(program, state_params, 7) == measure(program, state_params, 7)


@pytest.mark.parametrize(("at_a_time", "parts"), [(1, 6), (22, 3), (35, 2), (66, 1)])
def test_a_batch_cut_in_parts_gives_what_the_whole_gives(program, state_params, at_a_time, parts):
    batch = {key: values[:6] for key, values in rows_of(program.dataset.splits["valid"]).items()}
    assert _parts(*batch["inputs"].shape, at_a_time) == parts
    model = program.compiled.model
    whole = jax.jit(partial(eval_step, model, at_a_time=10**6))(state_params, batch)
    cut = jax.jit(partial(eval_step, model, at_a_time=at_a_time))(state_params, batch)
    np.testing.assert_allclose(cut["nats"], whole["nats"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(cut["choice"], whole["choice"])


@pytest.mark.parametrize(("rows", "tokens", "parts"), [(61, 512, 1), (3, 700, 3), (64, 64, 2)])
def test_rows_are_cut_as_far_as_they_can_be(rows, tokens, parts):
    assert _parts(rows, tokens, 2048) == parts


def rows_of(split):
    rows = np.arange(split.num_rows, dtype=np.int32)
    return split.take(split.arrays, rows, rows.astype(np.uint32))


@pytest.mark.parametrize("name", ["valid", "test"])
def test_every_target_counts_once(program, name):
    split = program.dataset.splits[name]

    def count(params, batch):
        """A model that errs by one nat on every target."""
        return {"nats": jnp.ones(batch["targets"].shape), "choice": jnp.asarray(batch["targets"])}

    for size in (1, 7, split.num_rows, split.num_rows + 3):
        seen = []
        found = evaluate(
            lambda params, batch, seen=seen: seen.append(batch) or count(params, batch),
            None,
            split,
            batch_size=size,
        )
        assert {len(batch["targets"]) for batch in seen} == {size}
        assert found["loss"] == found["accuracy"] == 1
        # One nat a target: bits a byte tell how many targets were counted.
        targets = found["bits_per_byte"] * split.text_bytes * math.log(2)
        assert targets == pytest.approx(split.tokens)
        assert found["floor"] * split.tokens == pytest.approx(split.floor_nats)
    assert rows_of(split)["weights"].sum() == split.tokens


def test_figures_follow_their_formulas(program, state_params):
    split = program.dataset.splits["valid"]
    found = measure(program, state_params, 7)
    batch = rows_of(split)
    names = [name for name in ("inputs", "segments") if name in batch]
    logits = np.asarray(
        program.compiled.model.apply(
            {"params": state_params}, *(jnp.asarray(batch[name]) for name in names)
        ),
        np.float64,
    )
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -np.take_along_axis(log_probs, batch["targets"][..., None], -1)[..., 0]
    real = batch["weights"] > 0
    assert found["loss"] == pytest.approx(nats[real].mean(), rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    bits = nats[real].sum() / math.log(2) / split.text_bytes
    assert found["bits_per_byte"] == pytest.approx(bits, rel=1e-5)
    hits = (logits.argmax(-1) == batch["targets"])[real]
    assert found["accuracy"] == pytest.approx(hits.mean())
    assert found["excess"] == pytest.approx(found["loss"] - found["floor"])
    floor = split.floor_nats / math.log(2) / split.text_bytes
    assert found["floor_bits_per_byte"] == pytest.approx(floor)
    for number, kind in enumerate(split.kinds):
        of_kind = nats[real & (batch["kinds"] == number)]
        assert found[f"loss_{kind}"] == pytest.approx(of_kind.mean(), rel=1e-5)


def test_kinds_are_a_partition(program, state_params):
    split = program.dataset.splits["valid"]
    found = measure(program, state_params, 7)
    batch = rows_of(split)
    counts = np.bincount(
        batch["kinds"].ravel(), batch["weights"].ravel(), minlength=len(split.kinds)
    )
    assert counts.sum() == split.tokens
    parts = [
        count * found[f"loss_{kind}"]
        for kind, count in zip(split.kinds, counts, strict=True)
        if count
    ]
    assert len(parts) > 2
    assert sum(parts) / split.tokens == pytest.approx(found["loss"], rel=1e-9)


def test_infinite_nats_of_padding_do_not_count():
    program = prepare(small.config({"data.packing": "documents"}))
    split = program.dataset.splits["valid"]
    assert (rows_of(split)["weights"] == 0).any()

    def step(params, batch):
        nats = jnp.where(batch["weights"] > 0, 2.0, jnp.nan)
        return {"nats": nats, "choice": jnp.zeros(nats.shape, jnp.int32)}

    assert evaluate(step, None, split, batch_size=5)["loss"] == 2
