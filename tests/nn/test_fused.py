"""Attention as one kernel: the same attention, used where it can be and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as cudnn

from tests.nn import tiny
from txf.nn import fused
from txf.nn.attention import attention, build_mask
from txf.nn.fused import fused_attention, fuses

BATCH, TOKENS, HEADS, DIM = 2, 16, 4, 8
PLACES = jnp.arange(TOKENS)[None]
ORDER = build_mask(True, None, None, PLACES, PLACES)
# A GPU's answers in bfloat16, against the formulas in float32: of the largest output.
TOLERANCE = 0.02


def arrays(dtype=jnp.float32, kv_heads=HEADS, dim=DIM, seed=0):
    random = np.random.default_rng(seed)
    shapes = [(BATCH, TOKENS, heads, dim) for heads in (HEADS, kv_heads, kv_heads)]
    return [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("kv_heads", [HEADS, 2])
def test_what_the_kernel_is_asked_for_is_attention(causal, scale, kv_heads):
    # JAX's own formulas stand in for the kernel: they answer the same call.
    q, k, v = arrays(kv_heads=kv_heads)
    got = fused_attention(q, k, v, causal, scale, implementation="xla")
    expected = attention(q, k, v, ORDER if causal else None, scale=scale)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.fixture
def pretended_gpu(monkeypatch):
    """JAX takes the machine for one with an NVIDIA GPU, as far as tracing goes."""
    monkeypatch.setattr(fused, "on_gpu", lambda: True)
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91002)
    monkeypatch.setattr(cudnn, "check_compute_capability", lambda capability: True)


@pytest.mark.usefixtures("pretended_gpu")
def test_it_is_used_where_cudnn_has_a_kernel():
    bfloat16 = arrays(jnp.bfloat16)
    assert fuses(*bfloat16, causal=True)
    assert not fuses(*arrays(), causal=True)  # float32
    assert not fuses(*arrays(jnp.bfloat16, dim=12), causal=True)
    q, k, v = bfloat16
    assert not fuses(q, k, jnp.concatenate([v, v], -1), causal=True)


def test_it_is_not_used_on_a_cpu():
    assert not fuses(*arrays(jnp.bfloat16), causal=True)


def program(segments=None, call=(), **options):
    """Return what a model compiles to on an NVIDIA GPU, as text."""
    options = {"dtype": "bfloat16", "width": 32, "num_heads": 4, **options}
    model = tiny.build(**options)
    params = jax.eval_shape(
        lambda: tiny.build(**{**options, "fused_attention": False}).init(
            jax.random.key(0), jnp.zeros((1, 1), jnp.int32)
        )
    )
    tokens = jax.ShapeDtypeStruct((2, 8), jnp.int32)

    def run(params, tokens):
        return model.apply(params, tokens, segments, **dict(call))

    traced = jax.jit(run).trace(params, tokens)
    return traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.usefixtures("pretended_gpu")
@pytest.mark.parametrize(
    ("options", "uses"),
    [
        ({}, True),
        ({"structure": "encoder"}, True),
        ({"similarity": "cosine"}, True),
        ({"num_kv_heads": 2}, True),
        ({"fused_attention": False}, False),
        ({"dtype": "float32"}, False),
        ({"positions": "alibi"}, False),
        ({"segments": jnp.ones((2, 8), jnp.int32)}, False),
        ({"call": [("mutable", ["intermediates"])]}, False),
        ({"call": [("dropout_rate", 0.1), ("rngs", {"dropout": jax.random.key(0)})]}, False),
    ],
    ids=str,
)
def test_a_model_uses_it_where_nobody_asks_for_the_weights(options, uses):
    assert ("cudnn" in program(**options)) == uses


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_agrees_with_the_formulas(causal):
    q, k, v = arrays(jnp.bfloat16)
    weights = arrays(seed=1)[0]

    def gradients(attend):
        def total(*qkv):
            y = attend(*qkv).astype(jnp.float32)
            return (y * weights).sum(), y

        return jax.grad(total, (0, 1, 2), has_aux=True)(q, k, v)

    mask = ORDER if causal else None
    ours = gradients(lambda q, k, v: fused_attention(q, k, v, causal))
    theirs = gradients(lambda q, k, v: attention(q, k, v, mask))
    for got, expected in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        got, expected = np.asarray(got, np.float32), np.asarray(expected, np.float32)
        np.testing.assert_allclose(got, expected, atol=TOLERANCE * abs(expected).max())
