"""Linear maps: their gradients, whatever the kernel's shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txf.nn.linear import product

ROWS = 5


def random(*shape):
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.float32)


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 7), (7, 3)], ids=["lying", "tall"])
def test_a_product_has_the_gradients_of_one(inputs, outputs):
    x, kernel, weights = random(ROWS, inputs), random(inputs, outputs), random(ROWS, outputs)

    def gradients(multiply):
        return jax.grad(lambda x, kernel: (multiply(x, kernel) * weights).sum(), (0, 1))(x, kernel)

    np.testing.assert_array_equal(product(x, kernel), x @ kernel)
    for ours, theirs in zip(gradients(product), gradients(jnp.matmul), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_products_of_members_side_by_side_have_the_gradients_of_each_alone():
    members, inputs, outputs = 2, 7, 3
    x, kernels = random(members, ROWS, inputs), random(members, inputs, outputs)
    gradient = jax.grad(lambda kernel, x: jnp.square(product(x, kernel)).sum())
    together = jax.vmap(gradient)(kernels, x)
    for member in range(members):
        alone = gradient(kernels[member], x[member])
        np.testing.assert_allclose(together[member], alone, rtol=1e-5)
