"""Sampling: the filters against their definitions, and the cached loop against a plain one."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txf import generation
from txf.config import default_config
from txf.errors import UserError
from txf.generation import filter_logits, generate, next_token_distribution, row_keys
from txf.nn.build import build_model

VOCAB, CONTEXT = 11, 8
PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7], [7], [2, 7, 1, 8, 2, 8]]


@cache
def build(**changes):
    """A tiny model with large random parameters: no choice hangs on rounding."""
    config = default_config().model
    config.depth, config.width = 1, 8
    if changes.get("family", "transformer") == "transformer":
        config.num_heads = 2
    for key, value in changes.items():
        config[key] = value
    model = build_model(config, VOCAB, CONTEXT)
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 1), jnp.int32))["params"]
    random = np.random.default_rng(0)
    return model, jax.tree.map(lambda leaf: jnp.float32(random.normal(size=leaf.shape)), shapes)


GRU = {"family": "gru", "depth": 1, "width": 8}


@pytest.fixture(scope="module")
def gru():
    return build(**GRU)


def bigram(table):
    config = default_config().model
    config.family = "bigram"
    return build_model(config, len(table), CONTEXT), {"table": jnp.asarray(table, jnp.float32)}


def filtered(logits, temperature, top_k, top_p):
    """The definition, one row at a time, in float64."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    if temperature == 0:
        return {order[0]: 1.0}
    kept = order[: top_k or len(order)]
    scaled = np.array([logits[i] / temperature for i in kept], np.float64)
    share = np.exp(scaled - scaled.max())
    share /= share.sum()
    if top_p is not None and top_p < 1:
        count = int(np.searchsorted(np.cumsum(share), top_p)) + 1
        kept, share = kept[:count], share[:count] / share[:count].sum()
    return dict(zip(kept, share, strict=True))


def test_filters_keep_what_their_definitions_say():
    logits = np.random.default_rng(0).normal(size=(7, 11)).astype(np.float32)
    logits[1] = 0.0  # all equal: the lower id goes first
    logits[2, 3:6] = 2.0
    run = jax.jit(_distribution)
    for temperature in (0.0, 0.3, 1.0, 2.5):
        for top_k in (None, 1, 4, 11, 1000):
            for top_p in (None, 0.05, 0.5, 0.93, 1.0):
                found = np.asarray(run(logits, temperature, top_k, top_p))
                for row in range(len(logits)):
                    expected = np.zeros(11)
                    for token, share in filtered(logits[row], temperature, top_k, top_p).items():
                        expected[token] = share
                    np.testing.assert_allclose(found[row], expected, atol=1e-5)


def _distribution(logits, temperature, top_k, top_p):
    filters = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    filters = {name: jnp.asarray(v) for name, v in filters.items() if v is not None}
    return jax.nn.softmax(filter_logits(logits, **filters), axis=-1)


def test_plain_numbers_filter_as_traced_ones_do():
    logits = jnp.array([0.3, -1.0, 2.0, 1.9])
    for filters in ((0.0, None, None), (0.7, 2, None), (1.5, 3, 0.6), (1e-30, 99, 1.0)):
        found = next_token_distribution(logits, *filters)
        np.testing.assert_allclose(found, jax.jit(_distribution)(logits, *filters), atol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": 0},
        {"top_k": -3},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"max_new_tokens": -1},
    ],
)
def test_options_without_meaning_are_refused_by_name(wrong, gru):
    (name,) = wrong
    with pytest.raises(UserError, match=name):
        generate(*gru, [[1]], **wrong)
    if name != "max_new_tokens":
        with pytest.raises(UserError, match=name):
            filter_logits(jnp.zeros(3), **wrong)


@cache
def single_draw(model):
    def draw(params, window, length, key, number):
        real = (jnp.arange(CONTEXT) < length).astype(jnp.int32)[None]
        logits = model.apply({"params": params}, window, real)[0, length - 1]
        return jax.random.categorical(jax.random.fold_in(key, number), logits)

    return jax.jit(draw)


def plain(model, params, prompt, new, key):
    """A row by itself: the whole window anew for each token, and the rule of the sliding window."""
    window, out = list(prompt)[-CONTEXT:], []
    for number in range(new):
        padded = jnp.asarray([window + [0] * (CONTEXT - len(window))], jnp.int32)
        out.append(int(single_draw(model)(params, padded, len(window), key, number)))
        window = [*window, out[-1]]
        if len(window) > CONTEXT:
            window = window[-(CONTEXT // 2) :]
    return out


CASES = [{"positions": name} for name in ("none", "learned", "sinusoidal", "rope", "alibi")]
CASES += [GRU, {"family": "window_mlp", "depth": 1, "width": 8}]


@pytest.mark.parametrize(
    "case", CASES[1:2] + CASES[4:], ids=lambda case: "-".join(map(str, case.values()))
)
def test_cached_batch_is_a_plain_loop_over_single_rows(case):
    """Prompts of unequal length, one longer than the context, and text far past the context."""
    model, params = build(**case)
    found = generate(model, params, PROMPTS, max_new_tokens=19, seed=5, end_of_text=None)
    keys = row_keys(PROMPTS, 5)
    for row in (1, 2):  # enough for the slow way: longer than the context, and short
        assert found[row].tolist() == plain(model, params, PROMPTS[row], 19, keys[row])


@pytest.mark.parametrize("case", CASES[:5], ids=lambda case: case["positions"])
def test_cached_logits_are_uncached_logits(case):
    model, params = build(**case)
    tokens = jnp.asarray(np.random.default_rng(1).integers(0, VOCAB, (3, CONTEXT)), jnp.int32)
    lengths = np.array([1, 4, 2])
    readers = [generation._reader(model, cached) for cached in (True, False)]

    @jax.jit
    def read(kept, piece, segments):
        pairs = zip(readers, kept, strict=True)
        return [reader.read(params, before, piece, segments) for reader, before in pairs]

    kept = (None, None)
    segments = jnp.asarray(np.arange(4) < lengths[:, None], jnp.int32)
    logits, piece = None, tokens[:, :4]
    for step in range(5):
        (cached, one), (anew, other) = read(kept, piece, segments)
        np.testing.assert_allclose(cached, anew, atol=1e-5, rtol=1e-5)
        if step:
            assert jnp.abs(cached - logits).max() > 1e-3
        logits, kept = cached, (one, other)
        at = np.minimum(lengths + step, CONTEXT - 1)
        piece, segments = tokens[np.arange(3), at][:, None], jnp.ones((3, 1), jnp.int32)


def test_a_row_does_not_depend_on_its_batch(gru):
    together = generate(*gru, PROMPTS, max_new_tokens=9, end_of_text=None)
    for prompt, expected in list(zip(PROMPTS, together, strict=True))[::-2]:
        (alone,) = generate(*gru, [prompt], max_new_tokens=9, end_of_text=None)
        np.testing.assert_array_equal(alone, expected)


def test_copies_and_seeds_differ_and_repeat(gru):
    def sample(seed):
        rows = generate(*gru, [[1, 2]] * 3 + [[]], max_new_tokens=12, seed=seed, end_of_text=None)
        return [row.tolist() for row in rows]

    first = sample(0)
    assert first == sample(0)
    assert len({tuple(row) for row in first + sample(1)}) == 8


def test_an_empty_prompt_begins_the_text(gru):
    empty, zero = generate(*gru, [[], [0]], max_new_tokens=4, temperature=0.0, end_of_text=None)
    np.testing.assert_array_equal(empty, zero)


def test_a_prompt_longer_than_the_context_is_cropped_with_a_notice(gru):
    notices = []
    rows = generate(*gru, [PROMPTS[1]], max_new_tokens=3, temperature=0.0, notice=notices.append)
    again = generate(*gru, [PROMPTS[1][-CONTEXT:]], max_new_tokens=3, temperature=0.0)
    np.testing.assert_array_equal(rows[0], again[0])
    assert len(notices) == 1 and "11 tokens" in notices[0] and "last 8" in notices[0]


def test_temperature_zero_takes_the_likeliest_and_the_end_ends():
    model, params = bigram(9.0 * np.eye(6)[[1, 2, 3, 4, 0, 5]])  # 0 > 1 > 2 > 3 > 4 > 0, 5 > 5
    rows = generate(model, params, [[1], [4], [5], [3, 2]], max_new_tokens=7, temperature=0)
    assert [row.tolist() for row in rows] == [[2, 3, 4], [], [5] * 7, [3, 4]]
    rows = generate(model, params, [[3]], max_new_tokens=4, temperature=0, end_of_text=None)
    assert rows[0].tolist() == [4, 0, 1, 2]
    assert generate(model, params, [[3]], max_new_tokens=0)[0].tolist() == []
    assert generate(model, params, []) == []


def test_sampling_follows_the_distribution():
    """The first tokens of 4000 copies, against the probabilities: within 5 standard deviations."""
    table = np.log(np.array([[0.4, 0.3, 0.2, 0.1]] * 4))
    rows = generate(*bigram(table), [[1]] * 4000, max_new_tokens=1, top_p=0.85, end_of_text=None)
    share = np.bincount(np.concatenate(rows), minlength=4) / 4000
    expected = np.array([4, 3, 2, 0]) / 9
    assert share[3] == 0
    np.testing.assert_allclose(share, expected, atol=5 * np.sqrt(0.25 / 4000))


def test_streamed_is_what_is_returned(gru):
    seen = [[] for _ in PROMPTS]
    options = {"max_new_tokens": 13, "seed": 2}
    rows = generate(*gru, PROMPTS, on_token=lambda row, token: seen[row].append(token), **options)
    assert seen == [row.tolist() for row in rows]
    at_once = generate(*gru, PROMPTS, **options)
    assert seen == [row.tolist() for row in at_once]


def test_programs_are_compiled_by_length_not_by_prompt(gru):
    generate(*gru, [[1], [2]], max_new_tokens=9)
    sizes = [f._cache_size() for f in (generation._prefill, generation._decode)]
    for length in (2, 5, 8, 20):
        generate(*gru, [[3] * length, [2]], max_new_tokens=length, temperature=0.5, seed=length)
    assert [f._cache_size() for f in (generation._prefill, generation._decode)] == sizes


def test_prefills_are_padded_to_few_lengths():
    going = np.array([False])
    padded = [generation._pad_right([[1] * n], going, 100)[0].shape[1] for n in range(1, 101)]
    assert set(padded) == {16, 32, 64, 100}
    assert all(length >= n for n, length in enumerate(padded, start=1))


def test_a_model_that_peeks_reads_all_over_again():
    model, params = build(causal=False, positions="none")
    (row,) = generate(model, params, [PROMPTS[0]], max_new_tokens=9, seed=1, end_of_text=None)
    keys = row_keys([PROMPTS[0]], 1)[0]
    assert row.tolist() == plain(model, params, PROMPTS[0], 9, keys)


def test_models_without_a_next_token_are_refused():
    config = default_config().model
    tagger = build_model(config, VOCAB, CONTEXT, "tagging", 3)
    with pytest.raises(UserError, match="classes"):
        generate(tagger, {}, [[1]])
    config.structure = "encoder_decoder"
    with pytest.raises(UserError, match="beam_search"):
        generate(build_model(config, VOCAB, CONTEXT), {}, [[1]])
