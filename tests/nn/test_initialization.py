"""Parameters start as the table in the module says."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.nn import tiny
from txf.nn.initialization import deepnorm_constants, scale_parameters

TOKENS = jnp.zeros((1, 3), jnp.int32)
WIDE = dict(width=96, num_heads=3, tie_embeddings=False)


def start(**options):
    model = tiny.build(**{**WIDE, **options})
    params = jax.jit(model.init)(jax.random.key(0), TOKENS)["params"]
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {"/".join(key.key for key in path): np.asarray(leaf) for path, leaf in leaves}, params


def test_random_leaves_have_the_stated_deviation_and_the_others_their_constant():
    leaves, _ = start()
    fan_in = {"feedforward/down": 384}
    for name, leaf in leaves.items():
        kind = name.rsplit("/", 1)[-1]
        if kind in ("kernel", "embedding", "table"):
            inputs = next((n for part, n in fan_in.items() if part in name), 96)
            assert abs(leaf.std() * np.sqrt(inputs) - 1) < 0.07, name
        else:
            assert (leaf == {"scale": 1, "bias": 0}[kind]).all(), name


def test_depth_scaled_init_divides_what_writes_to_the_residual_stream():
    plain, _ = start(depth=2)
    scaled, _ = start(depth=2, depth_scaled_init=True)
    for name in plain:
        writes = name.endswith(("output/kernel", "down/kernel"))
        factor = 1 / np.sqrt(2 * 2) if writes else 1
        np.testing.assert_allclose(scaled[name], plain[name] * factor, rtol=1e-5)


def test_init_scale_equals_scaling_afterwards():
    _, plain = start()
    _, scaled = start(init_scale=1.7)
    again = jax.jit(scale_parameters)(plain, 1.7)
    for expected, got in zip(jax.tree.leaves(scaled), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert plain["embed"]["embedding"].std() * 1.6 < scaled["embed"]["embedding"].std()


def test_deepnorm_starts_with_the_constants_of_the_paper():
    plain, _ = start(depth=2, norm_placement="post")
    deep, _ = start(depth=2, norm_placement="deepnorm")
    ((alpha, beta),) = deepnorm_constants("decoder", 2).values()
    assert np.isclose(alpha, 4**0.25)
    assert np.isclose(beta, 16**-0.25)
    for name in plain:
        scaled = any(f"/{part}/kernel" in name for part in ("value", "output", "up", "down"))
        np.testing.assert_allclose(deep[name], plain[name] * (beta if scaled else 1), rtol=1e-5)
    both = deepnorm_constants("encoder_decoder", 6)
    assert np.isclose(both["decoder"][0], 18**0.25)
    assert np.isclose(both["encoder"][0], 0.81 * (6**4 * 6) ** (1 / 16))


def test_rezero_starts_as_the_identity():
    leaves, _ = start(norm_placement="rezero", depth=2)
    gates = [leaf for name, leaf in leaves.items() if name.endswith("_gate")]
    assert len(gates) == 4
    assert all(gate == 0 and gate.shape == () for gate in gates)
