"""Beam search against every target there is, one by one, and against the greedy loop."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txf.beam_search import beam_search
from txf.config import default_config
from txf.errors import UserError
from txf.nn.build import build_model

VOCAB, CONTEXT, LONGEST = 4, 9, 3
SOURCE = jnp.array([[1, 2, 3, 0], [3, 3, 1, 2]], jnp.int32)


@cache
def build(family):
    config = default_config().model
    config.depth, config.width = 1, 8
    if family == "encoder_decoder":
        config.structure, config.num_heads, task = family, 2, "translation"
    else:
        config.family, task = family, "language_model"
    model = build_model(config, VOCAB, CONTEXT, task)
    source = {"source": SOURCE} if family == "encoder_decoder" else {}
    shapes = jax.eval_shape(model.init, jax.random.key(0), SOURCE, **source)["params"]
    random = np.random.default_rng(1)
    return model, jax.tree.map(lambda leaf: jnp.float32(random.normal(size=leaf.shape)), shapes)


@cache
def forward(model):
    return jax.jit(
        lambda params, tokens, **inputs: model.apply({"params": params}, tokens, **inputs)
    )


def target_log_probs(model, params, family, source):
    """[targets, steps]: log-probabilities of each token of each target of the greatest length."""
    targets = np.array(list(itertools.product(range(VOCAB), repeat=LONGEST)), np.int32)
    sources = np.repeat(source[None], len(targets), 0)
    if family == "encoder_decoder":
        inputs = np.concatenate([np.zeros_like(targets[:, :1]), targets[:, :-1]], 1)
        logits = forward(model)(params, jnp.asarray(inputs), source=jnp.asarray(sources))
    else:
        inputs = np.concatenate([sources, targets[:, :-1]], 1)
        logits = forward(model)(params, jnp.asarray(inputs))[:, source.size - 1 :]
    log_probs = np.asarray(jax.nn.log_softmax(logits))
    return targets, np.take_along_axis(log_probs, targets[..., None], 2)[..., 0]


def best_of_all(targets, log_probs, exponent):
    found = {}
    for target, steps in zip(targets, log_probs, strict=True):
        ends = np.flatnonzero(target == 0)
        length = ends[0] + 1 if ends.size else LONGEST
        padded = tuple(np.where(np.arange(LONGEST) < length, target, 0))
        found[padded] = steps[:length].sum() / length**exponent
    return max(found, key=found.get)


@pytest.mark.parametrize("family", ["encoder_decoder", "gru"])
def test_a_wide_beam_finds_the_best_of_all_targets(family):
    model, params = build(family)
    for exponent in (0.0, 1.0):
        options = {"beams": VOCAB**LONGEST, "max_new_tokens": LONGEST, "length_exponent": exponent}
        rows = np.asarray(beam_search(model, params, SOURCE, **options))
        for row, source in zip(rows, np.asarray(SOURCE), strict=True):
            expected = best_of_all(*target_log_probs(model, params, family, source), exponent)
            assert tuple(row) == expected


@pytest.mark.parametrize("family", ["encoder_decoder", "gru"])
def test_one_beam_is_greedy(family):
    model, params = build(family)
    rows = beam_search(model, params, SOURCE, beams=1, max_new_tokens=LONGEST)
    for row, source in zip(np.asarray(rows), np.asarray(SOURCE), strict=True):
        targets, log_probs = target_log_probs(model, params, family, source)
        greedy: list[int] = []
        while len(greedy) < LONGEST and 0 not in greedy:
            step = len(greedy)
            same = (targets[:, :step] == np.array(greedy, int)).all(1)
            greedy.append(int(targets[same][log_probs[same][:, step].argmax()][step]))
        assert row.tolist() == greedy + [0] * (LONGEST - len(greedy))


@pytest.mark.parametrize("family", ["encoder_decoder", "gru"])
def test_padding_and_company_change_nothing(family):
    model, params = build(family)
    short = SOURCE[:1, :2]
    options = {"beams": 3, "max_new_tokens": LONGEST}
    alone = beam_search(model, params, short, **options)
    segments = jnp.array([[1, 1, 0, 0], [1, 1, 1, 1]], jnp.int32)
    together = beam_search(model, params, SOURCE, segments, **options)
    np.testing.assert_array_equal(together[0], alone[0])


def test_a_full_context_ends_a_target():
    """Nine places: eight of the source, one more is read, and the last token need not be."""
    config = default_config().model
    config.family = "bigram"
    model = build_model(config, VOCAB, CONTEXT)
    params = {"table": 9.0 * jnp.eye(VOCAB)}  # a token is followed by itself, for ever
    source = jnp.ones((1, 8), jnp.int32)
    rows = beam_search(model, params, source, beams=2, max_new_tokens=6)
    assert rows.tolist() == [[1, 1, 0, 0, 0, 0]]


def test_impossible_sizes_are_refused_by_name():
    model, params = build("gru")
    for name in ("beams", "max_new_tokens"):
        with pytest.raises(UserError, match=name):
            beam_search(model, params, SOURCE, **{name: 0})
