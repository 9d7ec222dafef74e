"""Each part of the benchmark at sizes that take a moment: the figures hang together."""

import dataclasses
import importlib.util
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txf.benchmark import generating, plain_jax, steps
from txf.benchmark.document import make_document, print_table
from txf.benchmark.shapes import SHAPES, Shape, find_shapes
from txf.errors import UserError
from txf.nn.build import build_model

pytestmark = pytest.mark.slow

TINY = Shape("tiny", depth=1, heads=2, width=6, context=5, batch=3, vocab=11)
INSTANT = 1e-3


def tree_size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def test_a_step_is_measured_beside_a_plain_one_and_the_matmul_bound():
    rows = steps.step_rows(TINY, INSTANT, with_torch=False)
    by_name = {row["step"]: row for row in rows}
    assert list(by_name) == ["txf", "plain JAX", "matmul bound"]
    assert by_name["txf"]["times_ours"] == 1.0
    for row in rows:
        assert row["tokens_per_second"] == pytest.approx(TINY.tokens * 1e3 / row["ms"])
        assert row["rounds"] == rows[0]["rounds"] >= 3
    assert by_name["matmul bound"]["utilization"] == 1.0
    # Ratios of medians are near medians of ratios, on the quietest of machines only.
    assert 0 < by_name["txf"]["utilization"] < 1


def test_dispatches_and_packs_count_every_step_of_every_member():
    for row, count in zip(steps.dispatch_rows(TINY, INSTANT, (1, 2)), (1, 2), strict=True):
        assert row["steps a dispatch"] == count
        assert row["tokens_per_second"] == pytest.approx(TINY.tokens * 1e3 / row["ms"])
    [row] = steps.pack_rows(TINY, INSTANT, (3,))
    assert row["members"] == 3
    assert row["times_first"] == 1.0
    assert row["tokens_per_second"] == pytest.approx(TINY.tokens * 1e3 / row["ms"])


def test_packs_are_as_large_as_the_memory_allows():
    assert steps.pack_sizes(TINY, "cpu") == [1, 4, 16, 64]
    assert steps.pack_sizes(SHAPES["anchor_depth1"], "gpu") == [1, 4, 16, 64, 256]
    assert steps.pack_sizes(SHAPES["gpt2_small"], "gpu") == [1]


def test_generation_is_measured_with_the_cache_and_without():
    [row] = generating.generation_rows(TINY, INSTANT, (4,))
    assert row["context"] == 4
    assert row["tokens_per_second"] > 0
    assert row["without_cache"] > 0
    assert row["times_uncached"] > 0


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_peers_have_the_same_parameters_as_our_model(tied, bias):
    shape = dataclasses.replace(TINY, tied=tied, bias=bias, depth=2)
    tokens = jnp.zeros((1, shape.context), jnp.int32)
    ours = build_model(shape.config().model, shape.vocab, shape.context)
    plain = plain_jax.PlainDecoder(shape)
    counts = [
        tree_size(jax.eval_shape(model.init, jax.random.key(0), tokens)) for model in (ours, plain)
    ]
    assert counts == [shape.parameters()] * 2


def test_the_plain_model_is_causal_and_starts_at_the_unigram_loss():
    model = plain_jax.PlainDecoder(TINY)
    tokens = jnp.arange(10, dtype=jnp.int32).reshape(2, 5)
    params = model.init(jax.random.key(0), tokens)
    logits = model.apply(params, tokens)
    changed = model.apply(params, tokens.at[:, 3].set(0))
    np.testing.assert_array_equal(logits[:, :3], changed[:, :3])
    assert not np.allclose(logits[:, 3:], changed[:, 3:])


def test_flops_are_those_of_the_products():
    width, vocab = TINY.width, TINY.vocab
    a_token = 12 * width**2 + 2 * TINY.context * width + width * vocab
    assert TINY.flops() == 6 * TINY.tokens * a_token
    assert SHAPES["anchor_depth1"].flops() == pytest.approx(5.74e9, rel=1e-3)


def test_shapes_are_found_by_name_and_suit_the_platform():
    assert [shape.name for shape in find_shapes(["all"], "cpu")] == [
        "anchor_depth1",
        "anchor_depth4",
        "shakespeare_char",
    ]
    assert find_shapes(["all"], "gpu")[-1].parameters() == pytest.approx(124e6, rel=0.01)
    with pytest.raises(UserError, match="needs an accelerator"):
        find_shapes(["gpt2_small"], "cpu")
    with pytest.raises(UserError, match="anchor_depth1"):
        find_shapes(["anchor"], "cpu")


def test_a_document_says_what_was_measured_where_with_what(capsys):
    rows = [{"shape": "tiny", "ms": 0.123456, "tokens_per_second": 123456.7}]
    document = json.loads(json.dumps(make_document(["benchmark.py"], 2.0, {"step": rows})))
    assert document["parts"]["step"] == rows
    assert document["command"] == ["benchmark.py"]
    assert document["versions"]["jax"] == jax.__version__
    assert document["device"]["backend"] == "cpu"
    print_table("step", rows)
    printed = capsys.readouterr().out
    assert "0.123" in printed
    assert "123,457" in printed


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_torch_peer_learns_and_starts_at_the_unigram_loss():
    import torch

    from txf.benchmark.torch_peer import Trainer, make_torch

    torch.manual_seed(0)
    trainer = Trainer.make(TINY)
    assert sum(p.numel() for p in trainer.model.parameters()) == TINY.parameters()
    tokens = torch.arange(15).reshape(3, 5) % TINY.vocab
    losses = [trainer.step(trainer.model, tokens, tokens).item() for _ in range(20)]
    assert losses[0] == pytest.approx(math.log(TINY.vocab), rel=0.05)
    assert losses[-1] < losses[0]
    make_torch(TINY, 2, compiled=False).run()
