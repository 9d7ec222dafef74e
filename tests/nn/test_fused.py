"""Attention as one kernel: the same attention, used where it can be and nowhere else."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as cudnn

from tests.nn import tiny
from txf.nn import attention as attention_module
from txf.nn import fused
from txf.nn.attention import attention, build_mask
from txf.nn.fused import fused_attention, fuses

BATCH, TOKENS, HEADS, DIM = 2, 16, 4, 8
PLACES = jnp.arange(TOKENS)[None]
ORDER = build_mask(True, None, None, PLACES, PLACES)
# A GPU's answers in bfloat16, against the formulas in float32: of the largest output.
TOLERANCE = 0.02
TEXT = jnp.asarray(np.random.default_rng(0).integers(0, tiny.VOCAB, (BATCH, 8)), jnp.int32)
SEGMENTS = jnp.asarray([[1] * 8, [1] * 5 + [0] * 3], jnp.int32)
DROPOUT = {"dropout_rate": 0.1, "rngs": {"dropout": jax.random.key(0)}}


def arrays(dtype=jnp.float32, tokens=TOKENS, dim=DIM, seed=0):
    random = np.random.default_rng(seed)
    shape = (BATCH, tokens, HEADS, dim)
    return [jnp.asarray(random.normal(size=shape), dtype) for _ in "qkv"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_what_the_kernel_is_asked_for_is_attention(causal, scale):
    # JAX's own formulas stand in for the kernel: they answer the same call.
    q, k, v = arrays()
    got = fused_attention(q, k, v, causal, scale, implementation="xla")
    expected = attention(q, k, v, ORDER if causal else None, scale=scale)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def build(**options):
    return tiny.build(**{"width": 32, "num_heads": HEADS, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"structure": "encoder"},
        {"structure": "encoder_decoder"},
        {"similarity": "cosine"},
        {"similarity": "cosine", "scale_scores": False},
        {"attention": "raw", "scale_scores": False},
        {"qk_norm": True, "positions": "rope", "output_projection": False},
    ],
    ids=str,
)
def test_a_model_with_the_kernel_is_the_model_without(options, monkeypatch):
    """Formulas stand in for the kernel, so that the two agree closely: values and gradients."""
    calls = []

    def stand_in(*args):
        calls.append(args)
        return fused_attention(*args, implementation="xla")

    monkeypatch.setattr(attention_module, "fuses", lambda *_: True)
    monkeypatch.setattr(attention_module, "fused_attention", stand_in)
    options = {"tie_embeddings": False, **options}
    arms = [build(fused_attention=use, **options) for use in (True, False)]
    params = tiny.parameters(arms[0])
    inputs = {"source": TEXT[:, ::-1]} if options.get("structure") == "encoder_decoder" else {}

    def loss(params, model):
        logits = model.apply({"params": params}, TEXT, **inputs)
        return (logits**2).sum(), logits

    results = [jax.value_and_grad(loss, has_aux=True)(params, model) for model in arms]
    assert calls
    # Some gradients are nothing but rounding, as that of the keys' bias.
    got, expected = map(jax.tree.leaves, results)
    largest = max(abs(leaf).max() for leaf in expected)
    for pair in zip(got, expected, strict=True):
        np.testing.assert_allclose(*pair, rtol=1e-3, atol=1e-5 * largest)
    # A token whose numbers are none: those that see it say so, and no others.
    params["embed"]["embedding"] = params["embed"]["embedding"].at[TEXT[0, 5]].set(jnp.nan)
    nowhere = [jnp.isnan(loss(params, model)[1]) for model in arms]
    np.testing.assert_array_equal(*nowhere)
    assert nowhere[0].any()


@pytest.fixture
def pretended_gpu(monkeypatch):
    """JAX takes the machine for one with an NVIDIA GPU, as far as tracing goes."""
    monkeypatch.setattr(fused, "compute_capability", lambda: 9.0)
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91002)
    monkeypatch.setattr(cudnn, "check_compute_capability", lambda capability: True)


@pytest.mark.usefixtures("pretended_gpu")
def test_it_is_used_where_cudnn_has_a_kernel(monkeypatch):
    q, k, v = arrays(jnp.bfloat16)
    assert fuses(q, k, v, causal=True)
    assert not fuses(*arrays(), causal=True)  # float32
    assert not fuses(*arrays(jnp.bfloat16, dim=12), causal=True)
    assert not fuses(*arrays(jnp.bfloat16, tokens=15), causal=True)  # no gradients
    assert not fuses(q, k, jnp.concatenate([v, v], -1), causal=True)
    assert not fuses(q, k[:, :, :2], v[:, :, :2], causal=True)
    monkeypatch.setattr(fused, "compute_capability", lambda: 7.5)
    assert not fuses(q, k, v, causal=True)


def test_it_is_not_used_on_a_cpu():
    assert not fuses(*arrays(jnp.bfloat16), causal=True)


def program(call=None, **options):
    """Return what a model compiles to on an NVIDIA GPU, as text."""
    call = {"source": TEXT} if options.get("structure") == "encoder_decoder" else {}, call or {}
    model = build(dtype="bfloat16", **options)
    run = partial(model.apply, **call[0], **call[1])
    traced = jax.jit(run).trace({"params": tiny.shapes(model)}, TEXT)
    return traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.usefixtures("pretended_gpu")
@pytest.mark.parametrize(
    ("options", "kernels"),
    [
        ({}, 1),
        ({"structure": "encoder"}, 1),
        ({"structure": "encoder_decoder"}, 3),
        ({"structure": "encoder_decoder", "call": {"source_segments": SEGMENTS}}, 1),
        ({"fused_attention": False}, 0),
        ({"num_kv_heads": 2}, 0),
        ({"value_dim": 16}, 0),
        ({"positions": "alibi"}, 0),
        ({"call": {"segments": SEGMENTS}}, 0),
        ({"call": {"decode": True, "mutable": ["cache"]}}, 0),
        ({"call": {"mutable": ["intermediates"]}}, 0),
        ({"call": DROPOUT}, 0),
    ],
    ids=str,
)
def test_a_model_uses_it_where_nobody_asks_for_the_weights(options, kernels):
    assert program(**options).count("custom_call @__cudnn") == kernels


@pytest.mark.skipif(fused.compute_capability() < 8, reason="needs an NVIDIA GPU")
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
