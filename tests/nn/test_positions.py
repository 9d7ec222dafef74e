"""Positions equal their formulas, and count from the first token of each segment."""

import jax.numpy as jnp
import numpy as np
import pytest

from txf.errors import UserError
from txf.nn.positions import (
    PositionTable,
    alibi_bias,
    alibi_slopes,
    check_length,
    positions_in_segments,
    rope_rotation,
    rotate,
    sinusoidal_table,
)


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoidal_table_equals_the_formula(width):
    table = sinusoidal_table(11, width)
    for position in range(11):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            expected = np.sin(angle) if column % 2 == 0 else np.cos(angle)
            assert abs(table[position, column] - expected) < 1e-6


def test_rope_equals_rotation_matrices():
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 5, 3, 6)).astype(np.float32)
    positions = np.asarray([[0, 1, 2, 3, 4], [0, 0, 1, 2, 9]], np.int32)
    got = rotate(jnp.asarray(x), rope_rotation(jnp.asarray(positions), 6))
    for b in range(2):
        for t in range(5):
            for i in range(3):
                angle = positions[b, t] * 10000 ** (-2 * i / 6)
                matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                pair = x[b, t][:, [i, i + 3]]
                np.testing.assert_allclose(
                    got[b, t][:, jnp.array([i, i + 3])], pair @ matrix.T, atol=1e-5
                )


def test_rope_products_depend_on_the_difference_of_positions_alone():
    random = np.random.default_rng(0)
    q, k = (jnp.asarray(random.normal(size=(1, 5, 3, 6)), jnp.float32) for _ in range(2))

    def products(start):
        rotation = rope_rotation(jnp.arange(5)[None] + start, 6)
        return np.einsum("bqhd,bkhd->bhqk", rotate(q, rotation), rotate(k, rotation))

    np.testing.assert_allclose(products(0), products(17), atol=1e-4)
    assert np.abs(products(0) - np.einsum("bqhd,bkhd->bhqk", q, k)).max() > 0.1


def test_rope_refuses_an_odd_key_dim():
    with pytest.raises(UserError, match="key_dim=7 is odd"):
        rope_rotation(jnp.arange(5)[None], 7)


@pytest.mark.parametrize(
    ("num_heads", "expected"),
    [
        (8, [2.0**-h for h in range(1, 9)]),
        (4, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]),
        # The paper's code: those of 2 heads, then every other one of those of 4.
        (3, [2.0**-4, 2.0**-8, 2.0**-2]),
        (6, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]),
        (1, [2.0**-8]),
    ],
)
def test_alibi_slopes_are_those_of_the_paper(num_heads, expected):
    np.testing.assert_allclose(alibi_slopes(num_heads), expected, rtol=1e-6)


def test_alibi_bias_falls_with_the_distance():
    bias = alibi_bias(jnp.arange(5)[None], jnp.arange(7)[None], 3)
    for h, slope in enumerate(alibi_slopes(3)):
        for i in range(5):
            for j in range(7):
                assert abs(bias[0, h, i, j] + slope * abs(i - j)) < 1e-6


def test_positions_count_within_segments_wherever_padding_stands():
    segments = jnp.asarray([[1, 1, 2, 2, 2], [0, 0, 1, 1, 1], [1, 1, 0, 0, 1]])
    got = np.asarray(positions_in_segments(segments))
    np.testing.assert_array_equal(got[0], [0, 1, 0, 1, 2])
    np.testing.assert_array_equal(got[1, 2:], [0, 1, 2])
    np.testing.assert_array_equal(got[2, [0, 1, 4]], [0, 1, 2])


def test_a_learned_table_refuses_longer_texts_and_the_others_take_them():
    with pytest.raises(UserError, match="12 tokens are more than the context_length=11"):
        check_length("learned", 12, 11)
    for kind in ("none", "sinusoidal", "rope", "alibi"):
        check_length(kind, 12, 11)
    check_length("learned", 11, 11)


def test_a_learned_table_is_looked_up_by_position():
    table = jnp.arange(12.0).reshape(4, 3)
    module = PositionTable("learned", 4, 3)
    got = module.apply({"params": {"table": table}}, jnp.asarray([[0, 2], [3, 3]]), 4)
    np.testing.assert_array_equal(got, table[jnp.asarray([[0, 2], [3, 3]])])
