"""Every valid combination of attention, positions, norm placement, residual and structure.

Each is evaluated once, operation by operation (all combinations then share their compiled
operations), on six rows that hold the same text among different padding and neighbours.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.nn import tiny
from txf.nn.cost import parameter_count

SWITCHES = {
    "structure": ("decoder", "encoder", "encoder_decoder"),
    "attention": ("qkv", "qk", "raw"),
    "positions": ("none", "learned", "sinusoidal", "rope", "alibi"),
    "norm_placement": ("none", "post", "pre", "sandwich", "deepnorm", "rezero"),
    "residual": (True, False),
}
TEXT = [3, 4, 5, 6, 7, 8, 9]
OTHER = [20, 21]
QUERY = 2  # the token whose gradients are looked at
CUT = 5  # tokens that stay where the text is shortened


def is_valid(combination):
    return combination["residual"] or combination["norm_placement"] not in ("deepnorm", "rezero")


def combinations(**fixed):
    axes = [(fixed[key],) if key in fixed else values for key, values in SWITCHES.items()]
    found = (dict(zip(SWITCHES, values, strict=True)) for values in itertools.product(*axes))
    return [combination for combination in found if is_valid(combination)]


def rows():
    """The whole text; its end changed; cut and padded in three ways; packed behind another."""
    start = TEXT[:CUT]
    tokens = [TEXT, start + OTHER, [*start, 0, 0], start + OTHER, [0, 0, *start], OTHER + start]
    ones, twos = [1] * CUT, [2] * CUT
    segments = [[1] * 7, [1] * 7, [*ones, 0, 0], [*ones, 0, 0], [0, 0, *ones], [1, 1, *twos]]
    return jnp.asarray(tokens), jnp.asarray(segments)


def sources():
    """One source, padded in the same ways; the last row's is packed too."""
    text, right, left = [11, 12, 13], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]
    tokens = [[*text, 0, 0]] * 3 + [[*text, *OTHER], [*OTHER, *text], [*OTHER, *text]]
    return jnp.asarray(tokens), jnp.asarray([right] * 4 + [left, [1, 1, 2, 2, 2]])


@functools.cache
def evaluate(**combination):
    """Logits, the gradients of one token's logits by the embedding of each token, and the rest."""
    model = tiny.build(tie_embeddings=False, **combination)
    params = tiny.parameters(model)
    tokens, segments = rows()
    inputs = {}
    if combination["structure"] == "encoder_decoder":
        inputs = dict(zip(("source", "source_segments"), sources(), strict=True))
    logits, pull = jax.vjp(
        lambda params: model.apply({"params": params}, tokens, segments, **inputs), params
    )
    direction = np.random.default_rng(0).normal(size=logits.shape).astype(np.float32)
    (everything,) = pull(jnp.asarray(direction))
    direction[1:] = 0
    direction[:, :QUERY] = direction[:, QUERY + 1 :] = 0
    (of_one,) = pull(jnp.asarray(direction))
    return (
        np.asarray(logits),
        np.asarray(of_one["embed"]["embedding"])[TEXT],
        jax.tree.map(np.asarray, everything),
    )


def check(combination):
    logits, by_token, gradients = evaluate(**combination)
    causal = combination["structure"] != "encoder"

    assert np.isfinite(logits).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))

    later, sooner = by_token[QUERY + 1 :], by_token[: QUERY + 1]
    assert (np.abs(sooner).max(-1) > 0).all()
    assert (later == 0).all() if causal else (np.abs(later).max(-1) > 0).all()

    whole, changed, *padded = logits
    same = np.abs(whole[:CUT] - changed[:CUT]).max() < 1e-5
    assert same == causal
    starts = [padded[0][:CUT], padded[1][:CUT], padded[2][2:], padded[3][2:]]
    if causal:
        starts.append(whole[:CUT])
    for start in starts[1:]:
        np.testing.assert_allclose(start, starts[0], atol=2e-5)

    leaves = jax.tree.leaves(gradients)
    config = tiny.config(tie_embeddings=False, **combination)
    counted = parameter_count(config, tiny.VOCAB, tiny.CONTEXT)
    assert counted == sum(leaf.size for leaf in leaves)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradients):
        # A bias of all keys adds the same to all scores of a query, which softmax does not see.
        assert leaf.any() or jax.tree_util.keystr(path).endswith("['key']['bias']"), path


def check_differs(one, other):
    """The switches of which `one` and `other` differ in one change what the model says."""
    difference = np.abs(evaluate(**one)[0][0] - evaluate(**other)[0][0]).max()
    assert difference > 1e-4, (one, other)


@pytest.mark.parametrize("attention", SWITCHES["attention"])
@pytest.mark.parametrize("structure", SWITCHES["structure"])
def test_every_combination_keeps_the_contract(structure, attention):
    grid = combinations(structure=structure, attention=attention)
    assert len(grid) == 50
    for combination in grid:
        try:
            check(combination)
        except AssertionError as error:
            raise AssertionError(f"{combination}: {error}") from error
    for one, other in itertools.combinations(grid, 2):
        if sum(one[key] != other[key] for key in SWITCHES) == 1:
            check_differs(one, other)


@pytest.mark.parametrize("key", ["structure", "attention"])
def test_structure_and_attention_change_what_the_model_says(key):
    for placement in SWITCHES["norm_placement"]:
        base = dict(structure="decoder", attention="qkv", positions="learned", residual=True)
        arms = [{**base, "norm_placement": placement, key: value} for value in SWITCHES[key]]
        for one, other in itertools.combinations(arms, 2):
            check_differs(one, other)
