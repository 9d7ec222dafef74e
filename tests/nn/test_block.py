"""Norm placement equals its formulas; the block strings its sublayers together in order."""

import jax.numpy as jnp
import numpy as np
import pytest

from txf.nn.block import NORMS_AROUND, add_sublayer

X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 7)), jnp.float32)


def function(x):
    return jnp.sin(3 * x)


def norm(x):
    return x / 2 + 1


def norm_out(x):
    return x / 5 - 1


FORMULAS = {
    ("none", True): lambda x: x + function(x),
    ("none", False): lambda x: function(x),
    ("post", True): lambda x: norm(x + function(x)),
    ("post", False): lambda x: norm(function(x)),
    ("pre", True): lambda x: x + function(norm(x)),
    ("pre", False): lambda x: function(norm(x)),
    ("sandwich", True): lambda x: x + norm_out(function(norm(x))),
    ("sandwich", False): lambda x: norm_out(function(norm(x))),
    ("deepnorm", True): lambda x: norm(1.7 * x + function(x)),
    ("rezero", True): lambda x: x + 0.3 * function(x),
}


@pytest.mark.parametrize(("placement", "residual"), list(FORMULAS))
def test_placement_equals_its_formula(placement, residual):
    known = {"norm": norm, "norm_out": norm_out}
    norms = {kind: known[kind] for kind in NORMS_AROUND[placement]}
    scale = 1.7 if placement == "deepnorm" else 1.0
    gate = jnp.float32(0.3) if placement == "rezero" else None
    got = add_sublayer(X, function, placement, residual, residual_scale=scale, gate=gate, **norms)
    np.testing.assert_array_equal(got, FORMULAS[placement, residual](X))


def test_an_unknown_placement_names_the_known_ones():
    with pytest.raises(ValueError, match=r"middle.*none, post, pre"):
        add_sublayer(X, function, "middle")
