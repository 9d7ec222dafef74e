"""The baselines: formulas against torch and against sums written out; padding, packing, cache."""

import importlib.util
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txf.config import default_config
from txf.errors import UserError
from txf.nn.baseline_spec import LISTENS_TO, BaselineShape
from txf.nn.baselines import (
    Recurrent,
    baseline_flops_per_token,
    baseline_parameter_count,
    build_baseline,
    check_baseline,
)
from txf.nn.initialization import scale_parameters
from txf.nn.normalization import layer_norm
from txf.nn.recurrence import CELLS, compact_places, window_sum

ORACLES = Path(__file__).parent.parent / "oracles"
FAMILIES = ("bigram", "window_mlp", "rnn", "gru", "lstm")
RECURRENT = ("rnn", "gru", "lstm")
BATCH, TOKENS, CONTEXT, WIDTH, VOCAB = 3, 13, 5, 8, 17

# Every option of each family, at some value that is not the default.
CHANGES = {
    "depth": 3,
    "width": 6,
    "norm": "rmsnorm",
    "norm_placement": "post",
    "residual": False,
    "dropout": 0.3,
    "tie_embeddings": False,
    "bias": False,
    "init_scale": 2.0,
    "dtype": "bfloat16",
    "mlp_ratio": 2.0,
    "activation": "relu",
    "forget_bias": 3.0,
}
# What other families would listen to.
FOREIGN = {
    "structure": "encoder",
    "num_heads": 2,
    "num_kv_heads": 1,
    "key_dim": 4,
    "value_dim": 4,
    "attention": "qk",
    "similarity": "cosine",
    "scale_scores": False,
    "output_projection": False,
    "qk_norm": True,
    "positions": "rope",
    "feedforward": "swiglu",
    "pooling": "first",
    "depth_scaled_init": True,
    "fused_attention": False,
    "remat": True,
    "scan_layers": True,
}


def settings(family, **changes):
    config = default_config().model
    config.family = family
    if family != "bigram":
        config.depth, config.width = 1, WIDTH
    for key, value in changes.items():
        config[key] = value
    return config


@cache
def build(family, task="language_model", num_classes=None, **changes):
    return build_baseline(settings(family, **changes), VOCAB, CONTEXT, task, num_classes)


@cache
def jitted(model):
    def logits(params, tokens, segments=None):
        return model.apply({"params": params}, tokens, segments)

    return jax.jit(logits)


@cache
def parameters(model, seed=0):
    """Random everywhere, biases and scales included, and large enough for effects to show."""
    token = jnp.zeros((1, 1), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), token)["params"]
    random = np.random.default_rng(seed)

    def draw(path, leaf):
        deviation = 0.3 if path[-1].key in ("bias", "scale") else 0.7 / leaf.shape[-1] ** 0.5
        values = deviation * random.normal(size=leaf.shape) + (path[-1].key == "scale")
        return jnp.asarray(values, leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)


@pytest.fixture(scope="module")
def tokens():
    return jnp.asarray(np.random.default_rng(0).integers(0, VOCAB, (BATCH, TOKENS)), jnp.int32)


@cache
def oracle_module():
    spec = importlib.util.spec_from_file_location("oracle", ORACLES / "make_baseline_fixtures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def from_torch(family, arrays, layer):
    """Torch's parameters of one layer as ours; the two biases of a gate add up, but for GRU's n."""
    _, gates, _ = CELLS[family]
    width = arrays["x"].shape[-1]
    name = f"_l{layer}"
    kernels = {
        ours: {"kernel": arrays[f"weight_{theirs}{name}"].T.reshape(width, gates, width)}
        for ours, theirs in (("input", "ih"), ("hidden", "hh"))
    }
    bias = arrays[f"bias_ih{name}"].reshape(gates, width).copy()
    hidden = arrays[f"bias_hh{name}"].reshape(gates, width)
    if family == "gru":
        bias[:2] += hidden[:2]
        kernels["hidden"]["bias"] = hidden[2]
    else:
        bias += hidden
    kernels["input"]["bias"] = bias
    return kernels


def gradients_from_torch(family, arrays, layer):
    """The gradient of a sum of two biases is that of either."""
    grads = {name: arrays["grad_" + name] for name in arrays if "grad_" + name in arrays}
    halves = {k: v if "bias_hh" not in k or family == "gru" else 0 * v for k, v in grads.items()}
    if family == "gru":
        for key in [k for k in halves if "bias_hh" in k]:
            half = halves[key].copy()
            half[: 2 * half.size // 3] = 0
            halves[key] = half
    return from_torch(family, halves, layer)


def check_against(family, arrays):
    width = arrays["x"].shape[-1]
    config = settings(family, width=width)
    spec = BaselineShape(config, VOCAB, CONTEXT, "language_model", None).spec
    layer = Recurrent(spec)

    def objective(params, x):
        for one in params:
            x = layer.apply({"params": one}, x, None)
        return (x * arrays["weights"]).sum(), x

    params = [from_torch(family, arrays, index) for index in range(2)]
    (by_params, by_x), outputs = jax.grad(objective, argnums=(0, 1), has_aux=True)(
        params, arrays["x"]
    )
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(outputs, arrays["outputs"], **close)
    np.testing.assert_allclose(by_x, arrays["grad_x"], **close)
    for index in range(2):
        theirs = gradients_from_torch(family, arrays, index)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, **close), by_params[index], theirs
        )


@pytest.mark.parametrize("family", RECURRENT)
def test_recurrent_layers_are_torchs(family):
    with np.load(ORACLES / f"recurrent_{family}.npz") as arrays:
        check_against(family, dict(arrays))


@pytest.mark.parametrize("family", RECURRENT)
def test_recurrent_layers_are_live_torchs(family):
    pytest.importorskip("torch")
    check_against(family, oracle_module().oracle(family))


@pytest.mark.parametrize("placement", ["none", "post", "pre"])
def test_blocks_stand_around_the_residual_stream(placement, tokens):
    """Without norms and residuals they are stacked layers; with them, those of a transformer."""
    residual = placement != "none"
    options = {"residual": residual, "norm_placement": placement, "tie_embeddings": False}
    model = build("gru", depth=2, **options)
    params = parameters(model)
    layer = Recurrent(model.spec)
    x = params["embed"]["embedding"][tokens]
    for index in range(2):
        block = params[f"block_{index}"]
        y = layer_norm(x, **block["recurrent_norm"]) if placement == "pre" else x
        y = layer.apply({"params": block["recurrent"]}, y, None)
        x = x + y if residual else y
        x = layer_norm(x, **block["recurrent_norm"]) if placement == "post" else x
    x = layer_norm(x, **params["final_norm"]) if placement == "pre" else x
    expected = x @ params["head"]["kernel"]
    np.testing.assert_allclose(jitted(model)(params, tokens), expected, atol=1e-5)


def written_out(x, kernel, segments):
    y = np.zeros((*x.shape[:2], kernel.shape[2]), np.float64)
    for row, t in np.ndindex(*x.shape[:2]):
        for offset in range(min(len(kernel), t + 1)):
            here, there = segments[row, t], segments[row, t - offset]
            if here == there and here > 0:
                y[row, t] += x[row, t - offset].astype(np.float64) @ kernel[offset]
    return y


@pytest.mark.parametrize("context", [1, 3, 19])
@pytest.mark.parametrize("segmented", [False, True])
def test_window_sum_is_the_concatenation_times_a_matrix(context, segmented):
    random = np.random.default_rng(context)
    x = random.normal(size=(2, 11, 3)).astype(np.float32)
    kernel = random.normal(size=(context, 3, 5)).astype(np.float32)
    segments = np.ones((2, 11), np.int32)
    if segmented:
        segments = np.array([[0] * 2 + [1] * 4 + [2] * 5, [4] * 7 + [3] + [0] * 3], np.int32)
    given = jnp.asarray(segments) if segmented else None
    expected = written_out(x, kernel, segments)
    for first in (0, 10):
        y = jax.jit(window_sum, static_argnums=3)(jnp.asarray(x), jnp.asarray(kernel), given, first)
        np.testing.assert_allclose(y, expected[:, first:], atol=1e-4)


def test_compact_places_moves_padding_before_tokens():
    segments = jnp.array([[2, 0, 3, 0, 0, 3], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]])
    places = np.asarray(compact_places(segments))
    np.testing.assert_array_equal(np.sort(places), np.broadcast_to(np.arange(6), (3, 6)))
    moved = np.zeros((3, 6), int)
    np.put_along_axis(moved, places, np.asarray(segments), axis=1)
    np.testing.assert_array_equal(moved, [[0, 0, 0, 2, 3, 3], [0] * 6, [1] * 6])


@pytest.mark.parametrize("family", FAMILIES)
def test_reach(family, tokens):
    """Output t depends on token s exactly where the family says it can."""
    model = build(family, **({"depth": 2} if family == "window_mlp" else {}))
    params = parameters(model)
    same = jnp.broadcast_to(tokens[:1], (TOKENS, TOKENS))
    changed = (same + jnp.eye(TOKENS, dtype=jnp.int32)) % VOCAB
    before, after = jitted(model)(params, same), jitted(model)(params, changed)
    depends = np.asarray(jnp.abs(after - before).max(-1) > 0)  # [changed token, output]
    s, t = np.mgrid[:TOKENS, :TOKENS]
    reach = {"bigram": 1, "window_mlp": CONTEXT}.get(family, TOKENS)
    np.testing.assert_array_equal(depends[(s > t) | (s <= t - reach)], False)
    # A state may forget what is far; one step back it must remember.
    nearest = min(reach, 2) if family in RECURRENT else reach
    np.testing.assert_array_equal(depends[(s <= t) & (s > t - nearest)], True)


def test_a_window_has_weights_for_each_place():
    """The same token in another place of the window means something else."""
    model = build("window_mlp")
    params = parameters(model)
    one = jnp.array([[3, 4, 4, 4, 5]])
    other = jnp.array([[4, 3, 4, 4, 5]])
    first, second = (jitted(model)(params, x)[0, -1] for x in (one, other))
    assert jnp.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_and_packing_change_nothing(family, tokens):
    model = build(family)
    params, run = parameters(model), jitted(model)
    text = tokens[:1, :7]
    alone = run(params, text)
    junk = np.full((1, 6), 9, np.int32)
    zeros, ones = np.zeros((1, 6), np.int32), np.ones((1, 7), np.int32)
    rows = np.concatenate(
        [np.concatenate(pair, 1) for pair in ([text, junk], [junk, text], [junk, text])]
    )
    segments = np.concatenate(
        [
            np.concatenate(pair, 1)
            for pair in ([ones, zeros], [zeros, ones], [zeros + 2, ones])  # right, left, packed
        ]
    )
    logits = run(params, rows, segments)
    for row, start in enumerate((0, 6, 6)):
        np.testing.assert_allclose(logits[row, start : start + 7], alone[0], atol=1e-5)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_cached_is_uncached(family, tokens):
    """Prompts of unequal length, padded left or right or in two pieces, then token by token."""
    model = build(family)
    params = parameters(model)
    whole = jitted(model)(params, tokens)

    @jax.jit
    def feed(cache, tokens, segments):
        variables = {"params": params, "cache": cache or {}}
        return model.apply(variables, tokens, segments, decode=True, mutable=["cache"])

    lengths = np.array([2, 6, 4])
    left = np.arange(6) >= 6 - lengths[:, None]
    right = np.arange(6) < lengths[:, None]
    for real in (left, right):
        index = np.where(real, np.cumsum(real, 1) - 1, 0)
        prompt = np.take_along_axis(tokens, index, 1)
        logits, variables = feed(None, prompt, real.astype(np.int32))
        for row, t in zip(*np.nonzero(real), strict=True):
            np.testing.assert_allclose(logits[row, t], whole[row, index[row, t]], atol=1e-5)
        at = lengths.copy()
        for step in range(6):
            active = np.array([True, step != 2, step < 3])  # a row may pause, or end
            new = tokens[np.arange(BATCH), np.minimum(at, TOKENS - 1)][:, None]
            logits, variables = feed(variables.get("cache"), new, active.astype(np.int32)[:, None])
            for row in np.flatnonzero(active):
                np.testing.assert_allclose(logits[row, 0], whole[row, at[row]], atol=1e-5)
            at += active
    pieces = None
    for start, stop in ((0, 6), (6, 7), (7, 13)):
        ones = jnp.ones((BATCH, stop - start), jnp.int32)
        logits, variables = feed(pieces, tokens[:, start:stop], ones)
        pieces = variables.get("cache")
        np.testing.assert_allclose(logits, whole[:, start:stop], atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES[1:])
def test_every_option_does_something(family, tokens):
    """An option changes the parameters or, those being equal, the logits."""
    base, token = build(family), jnp.zeros((1, 1), jnp.int32)
    options = set(LISTENS_TO[family]) - {"dropout", "forget_bias", "init_scale"}  # below
    for option in options:
        model = build(family, **{option: CHANGES[option]})
        theirs = jax.eval_shape(model.init, jax.random.key(0), token)["params"]
        if jax.tree.map(jnp.shape, theirs) == jax.tree.map(jnp.shape, parameters(base)):
            expected = jitted(base)(parameters(base), tokens)
            logits = jitted(model)(parameters(base), tokens)
            assert logits.dtype == jnp.float32
            assert jnp.abs(logits - expected).max() > 1e-3, option


@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_apply_is_refused_by_name(family):
    config = settings(family)
    assert check_baseline(config) == []
    wrong = FOREIGN | {k: v for k, v in CHANGES.items() if k not in LISTENS_TO[family]}
    for option, value in (wrong | {"causal": False}).items():
        problems = check_baseline(settings(family, **{option: value}))
        assert len(problems) == 1
        assert f"model.{option}={value!r}" in problems[0]
        assert family in problems[0]
    assert len(check_baseline(settings(family, positions="rope", num_heads=2))) == 2
    assert "source" in check_baseline(config, task="translation")[0]
    with pytest.raises(UserError, match=r"model\.positions='none'"):
        build_baseline(settings(family, positions="none"), VOCAB, CONTEXT)
    model = build(family)
    for extra in (
        {"source": jnp.ones((1, 1), jnp.int32)},
        {"source_segments": jnp.ones((1, 1), int)},
    ):
        with pytest.raises(UserError, match="source"):
            model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32), **extra)


def test_options_of_a_family_are_refused_where_they_are_idle():
    for changes, task, words in (
        ({"norm_placement": "deepnorm"}, "language_model", "choose one of none, post, pre"),
        ({"norm_placement": "none", "norm": "rmsnorm"}, "language_model", "no norms"),
        ({"tie_embeddings": False}, "tagging", "head of its own"),
        ({"bias": False, "forget_bias": 2.0}, "language_model", "no bias"),
        ({"activation": "relu"}, "language_model", "does not apply"),
        ({"depth": 0}, "language_model", "1 or more"),
    ):
        (problem,) = check_baseline(settings("lstm", **changes), task=task)
        assert words in problem


@pytest.mark.parametrize(
    ("task", "num_classes"), [("language_model", None), ("classification", 4), ("tagging", 7)]
)
def test_heads_and_closed_forms(task, num_classes, tokens):
    shape = {"language_model": (BATCH, TOKENS, VOCAB), "classification": (BATCH, 4)}
    for family in FAMILIES:
        changes = [{}]
        if family != "bigram":
            changes += [
                {"norm_placement": "sandwich", "depth": 2},
                {"norm": "rmsnorm", "bias": False},
                {"norm_placement": "none"},
            ]
        if family != "bigram" and task == "language_model":
            changes += [{"tie_embeddings": False}]
        for change in changes:
            model = build(family, task, num_classes, **change)
            outputs, params = jax.eval_shape(
                lambda t, model=model: model.init_with_output(jax.random.key(0), t), tokens
            )
            assert outputs.shape == shape.get(task, (BATCH, TOKENS, 7))
            size = sum(leaf.size for leaf in jax.tree.leaves(params))
            sizes = (settings(family, **change), VOCAB, CONTEXT, task, num_classes)
            assert size == baseline_parameter_count(*sizes)
            kernels = sum(
                leaf.size
                * (1 if task != "classification" or "head" not in str(path) else 1 / CONTEXT)
                for path, leaf in jax.tree_util.tree_leaves_with_path(params)
                if path[-1].key == "kernel"
            )
            if task == "language_model" and family != "bigram" and model.tied:
                kernels += VOCAB * WIDTH
            assert baseline_flops_per_token(*sizes) == pytest.approx(2 * kernels)


def test_classes_are_needed():
    with pytest.raises(UserError, match="number of classes"):
        build_baseline(settings("gru"), VOCAB, CONTEXT, "tagging")


@pytest.mark.parametrize("family", FAMILIES)
def test_classification_counts_real_tokens_only(family, tokens):
    model = build(family, "classification", 4)
    params = parameters(model)
    segments = (np.arange(TOKENS) < 6).astype(np.int32)[None].repeat(BATCH, 0)
    padded = jitted(model)(params, tokens, segments)
    np.testing.assert_allclose(padded, jitted(model)(params, tokens[:, :6]), atol=1e-5)
    with pytest.raises(UserError, match="classification"):
        model.apply({"params": params}, tokens, decode=True, mutable=["cache"])


def test_forget_bias_is_where_the_forget_gate_starts():
    config = settings("lstm", forget_bias=2.5)
    params = jax.jit(build_baseline(config, VOCAB, CONTEXT).init)(
        jax.random.key(0), jnp.zeros((1, 1), jnp.int32)
    )
    bias = params["params"]["block_0"]["recurrent"]["input"]["bias"]
    expected = np.zeros((4, WIDTH))
    expected[1] = 2.5
    np.testing.assert_array_equal(bias, expected)


@pytest.mark.parametrize("family", ["window_mlp", "rnn"])
def test_dropout_drops_at_its_rate_alone(family, tokens):
    model = build(family)
    params = parameters(model)

    @jax.jit
    def run(rate, key):
        return model.apply({"params": params}, tokens, dropout_rate=rate, rngs={"dropout": key})

    keys = jax.random.split(jax.random.key(0), 2)
    np.testing.assert_allclose(run(0.0, keys[0]), jitted(model)(params, tokens), atol=1e-6)
    one, again, other = run(0.5, keys[0]), run(0.5, keys[0]), run(0.5, keys[1])
    np.testing.assert_array_equal(one, again)
    assert jnp.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_init_scale_multiplies_every_random_leaf(family):
    token = jnp.zeros((1, 1), jnp.int32)
    one, two = (
        jax.jit(build(family, init_scale=scale).init)(jax.random.key(0), token)
        for scale in (1.0, 2.0)
    )
    jax.tree.map(np.testing.assert_allclose, two["params"], scale_parameters(one["params"], 2.0))


@pytest.mark.parametrize("family", ["window_mlp", "lstm"])
def test_members_of_a_pack_compute_what_they_compute_alone(family, tokens):
    """Gradients too: `vmap` over parameters takes other paths than a single model does."""
    model, tokens = build(family), tokens[:, :6]
    members = [parameters(model, seed) for seed in (0, 5)]
    packed = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)

    def gradient(params):
        return jax.grad(lambda p: (model.apply({"params": p}, tokens) ** 2).mean())(params)

    together, alone = jax.jit(jax.vmap(gradient))(packed), jax.jit(gradient)
    for index, member in enumerate(members):
        jax.tree.map(
            lambda a, b, index=index: np.testing.assert_allclose(a[index], b, rtol=1e-3, atol=1e-5),
            together,
            alone(member),
        )


@pytest.mark.parametrize("family", ["window_mlp", "gru"])
def test_bfloat16_is_near_float32(family, tokens):
    params = jax.tree.map(lambda leaf: 0.5 * leaf, parameters(build(family)))
    exact = jitted(build(family))(params, tokens)
    rough = jitted(build(family, dtype="bfloat16"))(params, tokens)
    assert rough.dtype == jnp.float32
    assert 0 < jnp.abs(rough - exact).max() < 0.1 * jnp.abs(exact).max()
