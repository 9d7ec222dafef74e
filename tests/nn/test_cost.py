"""Closed forms of parameters and FLOPs agree with the model's own tree, program and XLA."""

import math

import jax
import jax.numpy as jnp
import pytest

from tests.nn import tiny
from txf.config import default_config
from txf.nn.build import build_model
from txf.nn.cost import forward_flops_per_token, parameter_count, training_flops_per_token

CASES = [
    {},
    {"attention": "qk", "key_dim": 5, "tie_embeddings": False},
    {"attention": "raw", "output_projection": False, "feedforward": "none"},
    {"key_dim": 5, "value_dim": 7, "num_kv_heads": 1, "qk_norm": True, "bias": False},
    {"norm": "rmsnorm", "norm_placement": "sandwich", "feedforward": "swiglu"},
    {"norm_placement": "rezero", "positions": "rope", "depth": 3},
    {"structure": "encoder_decoder", "depth": 2, "norm_placement": "post"},
    {"structure": "encoder_decoder", "feedforward": "none", "bias": False, "mlp_ratio": 4.0},
]
TASKS = [("classification", 3), ("tagging", 5)]


def product_flops(program):
    """The floating-point operations of the matrix products in a traced program without loops."""
    total = 0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            inner = math.prod(shape[axis] for axis in contracted)
            total += 2 * inner * math.prod(equation.outvars[0].aval.shape)
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            total += product_flops(inner) if hasattr(inner, "eqns") else 0
    return total


def size(model):
    return sum(leaf.size for leaf in jax.tree.leaves(tiny.shapes(model)))


def forward(model, structure, length, rows=1):
    """The forward pass as a function of parameters, and the shapes of its arguments."""
    tokens = jax.ShapeDtypeStruct((rows, length), jnp.int32)

    def run(params, tokens):
        source = {"source": tokens} if structure == "encoder_decoder" else {}
        return model.apply({"params": params}, tokens, **source)

    return run, (tiny.shapes(model), tokens)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_parameters_and_products_are_counted_exactly(options):
    config = tiny.config(**options)
    model = build_model(config, tiny.VOCAB, tiny.CONTEXT)
    assert parameter_count(config, tiny.VOCAB, tiny.CONTEXT) == size(model)
    run, arguments = forward(model, config.structure, tiny.CONTEXT)
    traced = product_flops(jax.make_jaxpr(run)(*arguments).jaxpr)
    counted = forward_flops_per_token(config, tiny.VOCAB, tiny.CONTEXT)
    assert counted * tiny.CONTEXT == traced


@pytest.mark.parametrize(("task", "classes"), TASKS)
def test_heads_of_other_tasks_are_counted_exactly(task, classes):
    config = tiny.config(structure="encoder")
    sizes = (tiny.VOCAB, tiny.CONTEXT, task, classes)
    model = build_model(config, *sizes)
    assert parameter_count(config, *sizes) == size(model)
    run, arguments = forward(model, config.structure, tiny.CONTEXT)
    traced = product_flops(jax.make_jaxpr(run)(*arguments).jaxpr)
    assert math.isclose(forward_flops_per_token(config, *sizes) * tiny.CONTEXT, traced)


def test_training_costs_what_xla_says_within_a_tenth():
    """XLA counts norms, softmax and activations too; products dominate at this width."""
    config = tiny.config(width=192, num_heads=3, depth=1)
    vocab, length, rows = 512, 32, 2
    model = build_model(config, vocab, length)
    run, (params, tokens) = forward(model, config.structure, length, rows)
    loss = jax.value_and_grad(lambda params, tokens: run(params, tokens).sum())
    for function, count in ((run, forward_flops_per_token), (loss, training_flops_per_token)):
        measured = jax.jit(function).lower(params, tokens).compile().cost_analysis()["flops"]
        counted = count(config, vocab, length) * rows * length
        assert 0.9 < counted / measured < 1.0, (counted, measured)


def test_flops_do_not_depend_on_the_number_of_heads():
    counts = {
        forward_flops_per_token(tiny.config(width=16, num_heads=heads), tiny.VOCAB, tiny.CONTEXT)
        for heads in (1, 2, 4, 8, 16)
    }
    assert len(counts) == 1


@pytest.mark.parametrize("family", ["bigram", "window_mlp", "rnn", "gru", "lstm"])
def test_other_families_are_counted_too(family):
    config = default_config().model
    config.family = family
    model = build_model(config, tiny.VOCAB, tiny.CONTEXT)
    assert parameter_count(config, tiny.VOCAB, tiny.CONTEXT) == size(model)
    assert (forward_flops_per_token(config, tiny.VOCAB, tiny.CONTEXT) > 0) == (family != "bigram")
