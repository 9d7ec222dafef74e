"""Whole models: what changes nothing (a cache, padding, rematerializing), and what may not leak."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.nn import tiny
from txf.errors import UserError
from txf.nn.inspection import NAMES, inspect
from txf.nn.positions import POSITIONS

TEXT = jnp.asarray([[3, 4, 5, 6, 7, 8, 9], [9, 3, 8, 4, 7, 5, 6]])
SOURCE = jnp.asarray([[11, 12, 13, 14, 15], [15, 11, 14, 12, 13]])


@functools.cache
def model_and_parameters(task="language_model", num_classes=None, **options):
    model = tiny.build(task, num_classes, **options)
    return model, tiny.parameters(model)


def inputs(options):
    return {"source": SOURCE} if options.get("structure") == "encoder_decoder" else {}


def apply(tokens, segments=None, *, call=None, **options):
    model, params = model_and_parameters(**options)
    return model.apply({"params": params}, tokens, segments, **(call or inputs(options)))


def decode(calls, first=None, **options):
    """Logits of calls (tokens, segments) that share one cache, side by side."""
    model, params = model_and_parameters(**options)
    cache, said, given = {}, [], first or inputs(options)
    for tokens, segments in calls:
        logits, cache = model.apply(
            {"params": params, **cache}, tokens, segments, decode=True, mutable=["cache"], **given
        )
        said.append(logits)
        given = {}
    return jnp.concatenate(said, axis=1)


CACHED = [
    *({"positions": kind} for kind in POSITIONS),
    {"structure": "encoder_decoder", "positions": "rope"},
    {"structure": "encoder_decoder", "positions": "learned"},
    {"positions": "rope", "num_kv_heads": 1},
    {"positions": "alibi", "attention": "raw"},
    {"positions": "learned", "attention": "qk", "depth": 2, "norm_placement": "post"},
]


@pytest.mark.parametrize("options", CACHED, ids=str)
def test_cached_equals_uncached(options):
    steps = [(TEXT[:, :4], None), *((TEXT[:, i : i + 1], None) for i in (4, 5, 6))]
    np.testing.assert_allclose(decode(steps, **options), apply(TEXT, **options), atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("options", CACHED[:6], ids=str)
def test_rows_of_the_cache_fill_up_at_their_own_pace(options, side):
    """Prompts of 4 and 2 tokens, padded to 4, and three more tokens: as each row alone."""
    short = TEXT[1, :2]
    padding = jnp.zeros(2, jnp.int32)
    parts = [short, padding] if side == "right" else [padding, short]
    prompt = jnp.stack([TEXT[0, :4], jnp.concatenate(parts)])
    segments = jnp.stack([jnp.ones(4, jnp.int32), jnp.sign(jnp.concatenate(parts))])
    steps = [
        (jnp.stack([TEXT[0, 4 + i], TEXT[1, 2 + i]])[:, None], jnp.ones((2, 1), jnp.int32))
        for i in range(3)
    ]
    got = decode([(prompt, segments), *steps], **options)
    expected = apply(TEXT, **options)
    np.testing.assert_allclose(got[0], expected[0], atol=1e-5)
    places = [0, 1, 4, 5, 6] if side == "right" else [2, 3, 4, 5, 6]
    np.testing.assert_allclose(got[1, jnp.asarray(places)], expected[1, :5], atol=1e-5)


def test_the_source_may_be_padded_when_decoding():
    options = dict(structure="encoder_decoder", positions="rope")
    padded = jnp.concatenate([jnp.zeros((2, 2), jnp.int32), SOURCE], axis=1)
    call = {"source": padded, "source_segments": jnp.sign(padded)}
    steps = [(TEXT[:, :4], None), *((TEXT[:, i : i + 1], None) for i in (4, 5, 6))]
    got = decode(steps, first=call, **options)
    np.testing.assert_allclose(got, apply(TEXT, **options), atol=1e-5)


def test_a_cache_that_overflows_says_so():
    model, params = model_and_parameters(positions="none")
    long = jnp.ones((2, tiny.CONTEXT + 1), jnp.int32)
    with pytest.raises(UserError, match="12 tokens do not fit the cache of context_length=11"):
        model.apply({"params": params}, long, decode=True, mutable=["cache"])
    said = decode([(long[:, :11], None), (long[:, :1], jnp.asarray([[1], [0]]))], positions="none")
    assert jnp.isfinite(said[:, :11]).all()
    assert jnp.isnan(said[0, 11]).all()
    assert jnp.isfinite(said[1, 11]).all()


@pytest.mark.parametrize("options", [{"causal": False}, {"structure": "encoder"}], ids=str)
def test_a_model_that_sees_the_future_cannot_decode(options):
    with pytest.raises(UserError, match="needs a causal model"):
        decode([(TEXT, None)], **options)


def test_longer_texts_than_a_learned_table_are_refused_and_others_read_them():
    long = jnp.ones((2, tiny.CONTEXT + 1), jnp.int32)
    with pytest.raises(UserError, match="context_length=11"):
        apply(long, positions="learned")
    for kind in ("none", "sinusoidal", "rope", "alibi"):
        assert jnp.isfinite(apply(long, positions=kind)).all()


def test_sources_are_refused_or_required_by_name():
    with pytest.raises(UserError, match="only structure='encoder_decoder' reads one"):
        apply(TEXT, call={"source": SOURCE})
    with pytest.raises(UserError, match="needs a source"):
        model, params = model_and_parameters(structure="encoder_decoder")
        model.apply({"params": params}, TEXT)
    with pytest.raises(UserError, match="the first call with decode=True needs the source"):
        model.apply({"params": params}, TEXT, decode=True, mutable=["cache"])


@pytest.mark.parametrize(
    ("structure", "switches"),
    [
        ("decoder", ["remat"]),
        ("decoder", ["scan_layers"]),
        ("encoder_decoder", ["remat", "scan_layers"]),
    ],
)
def test_remat_and_scan_layers_change_nothing(structure, switches):
    options = dict(structure=structure, depth=2)
    arms = [options, {**options, **dict.fromkeys(switches, True)}]
    results = []
    for arm in arms:
        model, params = model_and_parameters(**arm)

        def loss(params, model=model):
            key = jax.random.key(1)
            logits = model.apply(
                {"params": params},
                TEXT,
                dropout_rate=0.3,
                rngs={"dropout": key},
                **inputs(options),
            )
            return jnp.square(logits).mean(), logits

        # Compiled without care: the programs run once.
        quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        compiled = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=quick)
        results.append(compiled(params))
    assert jax.tree.structure(results[0]) == jax.tree.structure(results[1])
    for expected, got in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_dropout_has_its_rate_as_an_argument_and_its_key_as_its_only_chance():
    model, params = model_and_parameters(depth=2)

    def logits(rate, seed):
        rngs = {"dropout": jax.random.key(seed)}
        return model.apply({"params": params}, TEXT, dropout_rate=rate, rngs=rngs)

    compiled = jax.jit(logits)
    np.testing.assert_allclose(compiled(0.0, 0), apply(TEXT, depth=2), atol=1e-5)
    np.testing.assert_array_equal(compiled(0.5, 0), compiled(0.5, 0))
    assert jnp.abs(compiled(0.5, 0) - compiled(0.5, 1)).max() > 0.01
    assert jnp.abs(compiled(0.5, 0) - compiled(0.2, 0)).max() > 0.01
    assert compiled._cache_size() == 1


def test_every_intermediate_is_there_by_name_and_asking_changes_nothing():
    model, params = model_and_parameters(depth=2)
    logits, found = inspect(model, params, TEXT)
    np.testing.assert_array_equal(logits, apply(TEXT, depth=2))
    assert {path.rsplit("/", 1)[-1] for path in found} == {
        *(set(NAMES) - {"residual"}),
        "attention_residual",
        "feedforward_residual",
    }
    for block in (0, 1):
        weights = found[f"block_{block}/attention/weights"]
        assert weights.shape == (2, 3, 7, 7)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        for name in ("query", "key", "value"):
            assert found[f"block_{block}/attention/{name}"].shape == (2, 7, 3, 4)
        scores = jnp.einsum(
            "bqhd,bkhd->bhqk",
            found[f"block_{block}/attention/query"],
            found[f"block_{block}/attention/key"],
        )
        np.testing.assert_allclose(found[f"block_{block}/attention/scores"], scores / 2, atol=1e-5)
    np.testing.assert_array_equal(
        found["final_norm/norm_input"], found["block_1/feedforward_residual"]
    )
    np.testing.assert_array_equal(found["block_0/attention_norm/norm_input"], found["embeddings"])
    table = params["embed"]["embedding"][TEXT] + params["positions"]["table"][:7]
    np.testing.assert_allclose(found["embeddings"], table, atol=1e-6)
    _, only = inspect(model, params, TEXT, names=["weights"])
    assert set(only) == {"block_0/attention/weights", "block_1/attention/weights"}
    with pytest.raises(UserError, match=r"'wieghts'.*weights"):
        inspect(model, params, TEXT, names=["wieghts"])


def test_parameters_and_logits_are_float32_and_bfloat16_models_stay_close():
    exact = apply(TEXT, depth=2)
    model, params = model_and_parameters(depth=2, dtype="bfloat16")
    rough = apply(TEXT, depth=2, dtype="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(tiny.shapes(model))} == {jnp.dtype("float32")}
    assert rough.dtype == exact.dtype == jnp.float32
    difference = jnp.abs(rough - exact)
    assert 0 < difference.max() < 0.3 * jnp.abs(exact).max()
    _, found = inspect(model, params, TEXT)
    assert found["block_0/attention_residual"].dtype == jnp.bfloat16


def test_names_of_leaves_are_the_contract():
    model = tiny.build("translation", structure="encoder_decoder", tie_embeddings=False)
    leaves = {
        "/".join(key.key for key in path)
        for path, _ in jax.tree_util.tree_leaves_with_path(tiny.shapes(model))
    }
    linear = {"kernel", "bias"}
    norm = {"scale", "bias"}
    expected = {"embed/embedding", "head/kernel"}
    for stack in ("encoder", "decoder"):
        expected |= {f"{stack}/positions/table"} | {f"{stack}/final_norm/{leaf}" for leaf in norm}
        attentions = ["attention"] + ["cross_attention"] * (stack == "decoder")
        block = f"{stack}/block_0"
        for name in attentions:
            for projection in ("query", "key", "value", "output"):
                expected |= {f"{block}/{name}/{projection}/{leaf}" for leaf in linear}
        for projection in ("up", "down"):
            expected |= {f"{block}/feedforward/{projection}/{leaf}" for leaf in linear}
        for name in [*attentions, "feedforward"]:
            expected |= {f"{block}/{name}_norm/{leaf}" for leaf in norm}
    assert leaves == expected


def test_without_bias_no_leaf_is_one():
    for norm in ("layernorm", "rmsnorm"):
        model = tiny.build(bias=False, norm=norm, tie_embeddings=False)
        names = [
            path[-1].key for path, _ in jax.tree_util.tree_leaves_with_path(tiny.shapes(model))
        ]
        assert "bias" not in names


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("structure", ["decoder", "encoder_decoder"])
def test_rows_of_padding_alone_are_finite_and_teach_nothing(structure, dtype):
    """No query of theirs has a key; what they hold, even an id that gives NaN, has no effect."""
    model, params = model_and_parameters(structure=structure, positions="alibi", dtype=dtype)
    segments = jnp.stack([jnp.ones(7, jnp.int32), jnp.zeros(7, jnp.int32)])

    def loss(params, tokens):
        call = inputs({"structure": structure})
        if call:
            call["source_segments"] = segments[:, :5]
        logits = model.apply({"params": params}, tokens, segments, **call)
        weights = segments[:, :, None]
        return jnp.where(weights > 0, jnp.square(logits), 0).sum(), logits

    differentiate = jax.value_and_grad(loss, has_aux=True)
    (_, logits), gradients = differentiate(params, TEXT)
    assert jnp.isfinite(logits).all()
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    (_, other), same = differentiate(params, TEXT.at[1].set(TEXT[0]))
    np.testing.assert_array_equal(other[0], logits[0])
    for leaf, expected in zip(jax.tree.leaves(same), jax.tree.leaves(gradients), strict=True):
        np.testing.assert_array_equal(leaf, expected)


def test_nan_in_padding_stays_there():
    poisoned = TEXT.at[:, 5:].set(tiny.VOCAB + 1)  # no such token: its embedding is NaN
    segments = jnp.ones_like(TEXT).at[:, 5:].set(0)
    for structure in ("decoder", "encoder"):
        options = dict(structure=structure, depth=2)
        said = apply(poisoned, segments, **options)
        assert jnp.isnan(said[:, 5:]).all()
        np.testing.assert_array_equal(said[:, :5], apply(TEXT, segments, **options)[:, :5])


def test_neither_asking_for_weights_nor_dropout_changes_the_masks():
    model, params = model_and_parameters(depth=2)
    segments = jnp.asarray([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 2, 2, 2]])
    plain, found = inspect(model, params, TEXT, segments, names=["weights"])
    np.testing.assert_array_equal(plain, apply(TEXT, segments, depth=2))
    noisy, dropped = inspect(
        model,
        params,
        TEXT,
        segments,
        names=["weights"],
        dropout_rate=0.5,
        rngs={"dropout": jax.random.key(3)},
    )
    assert jnp.abs(noisy - plain).max() > 0.01
    together = (segments[:, :, None] == segments[:, None]) & (segments[:, None] > 0)
    seen = jnp.broadcast_to((together & jnp.tril(jnp.ones((7, 7), bool)))[:, None], (2, 3, 7, 7))
    for weights in (*found.values(), *dropped.values()):
        np.testing.assert_array_equal(weights > 0, seen)

    def of_one(embedding):
        """What token 3 says, with dropout, as a function of the embeddings."""
        changed = {**params, "embed": {"embedding": embedding}}
        rngs = {"dropout": jax.random.key(3)}
        said = model.apply({"params": changed}, TEXT, segments, dropout_rate=0.5, rngs=rngs)
        return said[0, 3, :3].sum()

    by_token = jax.grad(of_one)(params["embed"]["embedding"])[TEXT[0]]
    assert (by_token[4:] == 0).all()


@pytest.mark.parametrize("structure", ["decoder", "encoder", "encoder_decoder"])
def test_untying_adds_exactly_one_matrix(structure):
    tied, untied = (
        jax.tree.leaves(tiny.shapes(tiny.build(structure=structure, tie_embeddings=tie)))
        for tie in (True, False)
    )
    sizes = [sum(leaf.size for leaf in leaves) for leaves in (tied, untied)]
    assert len(untied) == len(tied) + 1
    assert sizes[1] - sizes[0] == tiny.VOCAB * tiny.SIZES["width"]
    assert sum(leaf.shape.count(tiny.VOCAB) for leaf in tied) == 1


def test_a_causal_encoder_is_a_decoder_and_the_other_way_round():
    np.testing.assert_array_equal(apply(TEXT, structure="encoder", causal=True), apply(TEXT))
    np.testing.assert_array_equal(apply(TEXT, causal=False), apply(TEXT, structure="encoder"))


def test_an_encoder_without_positions_is_equivariant_and_one_with_them_is_not():
    order = jnp.asarray([4, 0, 6, 2, 1, 5, 3])
    for kind in POSITIONS:
        options = dict(structure="encoder", positions=kind)
        error = jnp.abs(apply(TEXT[:, order], **options) - apply(TEXT, **options)[:, order]).max()
        assert (error < 1e-5) == (kind == "none"), (kind, error)
