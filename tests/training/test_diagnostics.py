"""A log step's figures equal their formulas, worked out by hand from what the model computes."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.nn import tiny
from txf.config import default_config
from txf.nn.build import build_model
from txf.nn.inspection import inspect
from txf.training.diagnostics import FIGURES, attention_sums, diagnose, norms_by_group
from txf.training.optimizers import hyper_from_config
from txf.training.state import Tally, TrainState
from txf.training.step import StepSpec, apply_model, train_step

ROWS, HEADS = 6, 3
# Compiled in less time than it takes to optimize.
quick = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
KINDS = {figure.split("/")[0] for figure in FIGURES}

PADDED = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 2, 2, 2, 3, 0],
        [0, 0, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 0, 0],
        [1, 2, 2, 2, 2, 2, 2],
    ]
)
SOURCES = np.array([[1, 1, 1, 0, 0], [1] * 5, [1, 2, 3, 3, 0], [1, 1, 0, 0, 0], [0] * 5, [1] * 5])

CASES = {
    "decoder": {"depth": 2},
    "packed decoder": {"num_kv_heads": 1, "positions": "rope"},
    "padded encoder": {"structure": "encoder", "norm_placement": "post"},
    "padded encoder_decoder": {"structure": "encoder_decoder", "tie_embeddings": False},
    "attention alone": {
        "feedforward": "none",
        "norm_placement": "sandwich",
        "dtype": "bfloat16",
    },
    "lstm": {"family": "lstm"},
    "padded window_mlp": {"family": "window_mlp", "depth": 2},
    "bigram": {"family": "bigram"},
}


def config(family="transformer", **options):
    whole = default_config()
    sizes = {} if family == "bigram" else {"width": 12, "num_heads": HEADS, "depth": 1}
    if family != "transformer":
        sizes.pop("num_heads", None)
    for key, value in {**sizes, "family": family, **options}.items():
        whole.model[key] = value
    whole.optimizer.learning_rate = 0.03
    whole.optimizer.warmup_steps = 5
    return whole


def make_batch(name):
    random = np.random.default_rng(3)

    def tokens(length):
        return jnp.asarray(random.integers(0, tiny.VOCAB, (ROWS, length)), jnp.int32)

    batch = {"inputs": tokens(tiny.TOKENS), "targets": tokens(tiny.TOKENS)}
    weights = np.ones((ROWS, tiny.TOKENS), np.float32)
    if "padded" in name or "packed" in name:
        batch["segments"] = jnp.asarray(PADDED, jnp.int32)
        weights = (PADDED > 0).astype(np.float32)
    if "encoder_decoder" in name:
        batch["source"] = tokens(tiny.SOURCE)
        if "padded" in name:
            batch["source_segments"] = jnp.asarray(SOURCES, jnp.int32)
    return {**batch, "weights": jnp.asarray(weights)}


def make_state(model, spec, hyper):
    """A state in the middle of training: the optimizer remembers gradients."""
    params = tiny.parameters(model)
    opt_state = spec.optimizer_with(hyper).init(params)
    random = np.random.default_rng(7)

    def remembered(leaf):
        return leaf + 1e-4 * random.uniform(size=leaf.shape).astype(leaf.dtype)

    return TrainState(
        step=jnp.int32(2),
        params=params,
        opt_state=jax.tree.map(lambda x: x + 2 if x.ndim == 0 else remembered(x), opt_state),
        rng=jax.random.key_data(jax.random.key(1)),
        tally=jax.tree.map(jnp.asarray, Tally.empty()),
    )


class Case(NamedTuple):
    """The figures of a case, and what they are figures of."""

    figures: dict
    found: dict
    model: Any
    spec: StepSpec
    hyper: Any
    state: TrainState
    batch: dict
    diagnose: Any


@functools.cache
def diagnosed(name, accumulate=1, **options):
    whole = config(**{**CASES[name], **options})
    whole.training.accumulate = accumulate
    model = build_model(whole.model, tiny.VOCAB, tiny.CONTEXT)
    spec, hyper, batch = StepSpec.from_config(whole), hyper_from_config(whole), make_batch(name)
    state = make_state(model, spec, hyper)

    @quick
    def compiled(state, batch, hyper):
        given = {key: batch[key] for key in ("source", "source_segments") if key in batch}
        found = inspect(model, state.params, batch["inputs"], batch.get("segments"), **given)[1]
        return diagnose(model, spec, state, batch, hyper), found

    figures, found = jax.device_get(compiled(state, batch, hyper))
    figures = {key: float(value) for key, value in figures.items()}
    return Case(figures, found, model, spec, hyper, state, batch, compiled)


def by_hand_attention(q, k, allowed):
    """Each query's weights by head and its largest score, in float64, one at a time."""
    heads_a_key = q.shape[2] // k.shape[2]
    largest, entropies, saturated = [], {h: [] for h in range(q.shape[2])}, []
    for row in range(q.shape[0]):
        for h in range(q.shape[2]):
            for i in range(q.shape[1]):
                seen = [j for j in range(k.shape[1]) if allowed(row, i, j)]
                if not seen:
                    continue
                s = np.array([q[row, i, h] @ k[row, j, h // heads_a_key] for j in seen])
                s = s / np.sqrt(q.shape[-1])
                a = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
                largest.append(s.max())
                entropies[h].append(-sum(x * np.log(x) for x in a if x > 0))
                saturated.append(a.max() > 0.99)
    return max(largest), {h: np.mean(x) for h, x in entropies.items()}, np.mean(saturated)


def by_hand(case, causal):
    """The figures of the forward pass."""
    batch = case.batch
    found = {path: np.asarray(x, np.float64) for path, x in case.found.items()}

    def segments_of(key, length):
        return np.asarray(batch[key]) if key in batch else np.ones((ROWS, length), int)

    target = segments_of("segments", tiny.TOKENS)
    source = segments_of("source_segments", tiny.SOURCE)
    figures = {}
    for path, x in found.items():
        place, _, name = path.rpartition("/")
        of = source if path.startswith("encoder/") else target
        if name == "embeddings":
            figures[f"residual_rms/{path}"] = np.sqrt(np.square(x[of > 0]).mean())
        if name.endswith("_residual"):  # the last one there stays
            figures[f"residual_rms/{place}"] = np.sqrt(np.square(x[of > 0]).mean())
        if name != "query":
            continue
        block, _, sublayer = place.rpartition("/")
        keys_of = source if sublayer == "cross_attention" else of
        ordered = causal and sublayer == "attention" and not path.startswith("encoder/")

        def allowed(row, i, j, of=of, keys_of=keys_of, ordered=ordered):
            together = of[row, i] == keys_of[row, j] and keys_of[row, j] > 0
            return together and (j <= i or not ordered)

        most, entropies, share = by_hand_attention(x, found[f"{place}/key"], allowed)
        figures[f"{sublayer}_score_max/{block}"] = most
        figures[f"{sublayer}_saturated/{block}"] = share
        for head, entropy in entropies.items():
            figures[f"{sublayer}_entropy/{block}/head_{head}"] = entropy
    return figures


@pytest.mark.parametrize("name", CASES)
def test_figures_of_the_forward_pass_equal_their_formulas(name):
    case = diagnosed(name)
    figures, wanted = case.figures, by_hand(case, causal=name != "padded encoder")
    of_forward = {k: v for k, v in figures.items() if not k.startswith(("grad_norm", "update"))}
    assert of_forward.keys() == wanted.keys()
    for key, value in wanted.items():
        # In bfloat16 a compiled sum may be of what was there before it was rounded.
        tolerance = 1e-3 if "dtype" in CASES[name] else 2e-5
        assert figures[key] == pytest.approx(value, rel=tolerance, abs=1e-6), key


@pytest.mark.parametrize("name", ["packed decoder", "padded encoder_decoder"])
def test_gradients_by_group_and_the_next_steps_update(name):
    case = diagnosed(name)
    figures, state, batch = case.figures, case.state, case.batch

    def mean_loss(params):
        logits = apply_model(case.model, params, batch)
        nats = -jax.nn.log_softmax(logits)[
            jnp.arange(ROWS)[:, None], jnp.arange(tiny.TOKENS), batch["targets"]
        ]
        return (nats * batch["weights"]).sum() / batch["weights"].sum()

    @quick
    def step(state, batch, hyper):
        stepped, _ = train_step(case.model, case.spec, state, batch, hyper)
        return jax.grad(mean_loss)(state.params), stepped.params

    grads, params = step(state, batch, case.hyper)
    flat = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads):
        names = [key.key for key in path]
        group = "/".join(names[:2]) if names[0] in ("encoder", "decoder") else names[0]
        flat.setdefault(group, []).append(np.asarray(leaf, np.float64).ravel())
    norms = {f"grad_norm/{group}": np.linalg.norm(np.concatenate(x)) for group, x in flat.items()}
    assert norms.keys() == {key for key in figures if key.startswith("grad_norm/")}
    for key, norm in norms.items():
        assert figures[key] == pytest.approx(norm, rel=1e-4), key

    before, after = (
        np.concatenate([np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(params)])
        for params in (state.params, params)
    )
    ratio = np.linalg.norm(after - before) / np.linalg.norm(before)
    assert figures["update_ratio"] == pytest.approx(ratio, rel=1e-3)


def test_what_there_is_depends_on_the_model():
    decoder = set(diagnosed("decoder").figures)
    both = set(diagnosed("padded encoder_decoder").figures)
    assert {"grad_norm/embed", "grad_norm/positions", "grad_norm/final_norm"} < decoder
    for block in range(2):
        assert {f"grad_norm/block_{block}", f"attention_saturated/block_{block}"} < decoder
        assert {f"attention_entropy/block_{block}/head_{head}" for head in range(HEADS)} < decoder
    assert {
        "grad_norm/encoder/block_0",
        "residual_rms/encoder/block_0",
        "attention_score_max/encoder/block_0",
        "cross_attention_score_max/decoder/block_0",
        "cross_attention_entropy/decoder/block_0/head_2",
    } < both
    assert "grad_norm/head" in diagnosed("padded encoder_decoder").figures
    assert set(diagnosed("bigram").figures) == {"grad_norm/table", "update_ratio"}
    lstm = {key.split("/")[0] for key in diagnosed("lstm").figures}
    assert lstm == {"grad_norm", "update_ratio", "residual_rms"}
    for name in CASES:
        kinds = {key.split("/")[0].removeprefix("cross_") for key in diagnosed(name).figures}
        assert kinds <= KINDS


def test_how_blocks_are_run_changes_no_figure():
    figures = diagnosed("decoder", remat=True, scan_layers=True).figures
    assert_close(figures, diagnosed("decoder").figures, 1e-5)


def test_parts_of_a_batch_add_up_to_its_figures():
    # The parts hold unlike amounts of real tokens.
    one, other = (
        diagnosed("packed decoder", accumulate=3).figures,
        diagnosed("packed decoder").figures,
    )
    assert_close(one, other, 2e-3)


def test_dropout_is_in_the_gradients_alone():
    whole = config(**CASES["decoder"], dropout=0.5)
    case, spec = diagnosed("decoder"), StepSpec.from_config(whole)
    compiled = quick(functools.partial(diagnose, case.model, spec))
    figures = compiled(case.state, case.batch, hyper_from_config(whole))
    for key, value in case.figures.items():
        dropped = key.startswith(("grad_norm", "update_ratio"))
        assert (float(figures[key]) != value) == dropped, key


def test_padding_counts_for_nothing():
    case = diagnosed("packed decoder")
    inputs = jnp.where(case.batch["segments"] > 0, case.batch["inputs"], 11)
    assert (inputs != case.batch["inputs"]).any()
    figures, _ = case.diagnose(case.state, {**case.batch, "inputs": inputs}, case.hyper)
    assert {key: float(value) for key, value in figures.items()} == case.figures


def test_attention_sums_at_the_edges():
    scores = np.full((1, HEADS, 2, 5), -300.0, np.float32)
    scores[0, 0, 0, 1] = 7.0  # one key has it all: the others' weights are 0 in float32
    scores[0, 1] = 11.0  # all keys alike
    scores[0, 2] = np.log([0.995, 0.005 / 4, 0.005 / 4, 0.005 / 4, 0.005 / 4])
    weights = np.array(jax.nn.softmax(scores))
    weights[0, :, 1] = 0  # the second query may see nothing
    scores[0, :, 1] = 99.0
    sums = attention_sums(jnp.asarray(scores), jnp.asarray(weights))
    assert sums.score_max == 11.0
    assert sums.queries.tolist() == [1, 1, 1]
    assert sums.saturated.tolist() == [1, 0, 1]
    a = np.array([0.995, *[0.005 / 4] * 4])
    np.testing.assert_allclose(sums.entropy, [0, np.log(5), -(a * np.log(a)).sum()], rtol=1e-5)
    nothing = attention_sums(jnp.asarray(scores), jnp.zeros_like(scores))
    assert nothing.queries.tolist() == [0, 0, 0] and nothing.entropy.tolist() == [0, 0, 0]
    bad = attention_sums(jnp.asarray(scores), jnp.asarray(weights).at[0, 1, 0, 2].set(jnp.nan))
    assert np.isnan(bad.entropy[1]) and not np.isnan(bad.entropy[0])


def test_norms_group_the_parts_of_two_stacks_by_block():
    leaf = jnp.full((7,), 2.0)
    tree = {
        "embed": {"embedding": leaf},
        "encoder": {"block_0": {"a": leaf, "b": leaf}, "final_norm": {"scale": leaf}},
    }
    norms = norms_by_group(tree)
    assert {key: float(norm) ** 2 for key, norm in norms.items()} == pytest.approx(
        {"embed": 28, "encoder/block_0": 56, "encoder/final_norm": 28}
    )


def assert_close(one, other, tolerance):
    assert one.keys() == other.keys()
    for key, value in other.items():
        assert one[key] == pytest.approx(value, rel=tolerance, abs=tolerance), key
