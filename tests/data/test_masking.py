import jax
import numpy as np
import pytest

from txf.data.masking import mask_tokens, random_bits

OPTIONS = {"data_seed": 3, "fraction": 0.15, "mask": 50, "vocab_size": 51}


def batch(rows, tokens):
    inputs = np.random.default_rng(0).integers(0, 50, (rows, tokens)).astype(np.int32)
    return {"inputs": inputs, "targets": inputs, "weights": np.ones((rows, tokens), np.float32)}


def test_shares_are_berts():
    draws = np.arange(2003, dtype=np.uint32)
    clean = batch(2003, 67)
    corrupt = mask_tokens(clean, draws, **OPTIONS)
    real = clean["inputs"] != 0
    chosen = corrupt["weights"] > 0
    assert not chosen[~real].any()  # the end of a text is never hidden
    assert chosen[real].mean() == pytest.approx(0.15, abs=0.004)
    hidden = corrupt["inputs"] == 50
    kept = corrupt["inputs"] == clean["inputs"]
    assert hidden[chosen].mean() == pytest.approx(0.8, abs=0.01)
    # A random token is the old one by chance, too.
    assert kept[chosen].mean() == pytest.approx(0.1 + 0.1 / 49, abs=0.01)
    assert kept[~chosen].all()
    np.testing.assert_array_equal(corrupt["targets"], clean["targets"])
    random = corrupt["inputs"][chosen & ~hidden & ~kept]
    assert set(random) == set(range(1, 50))
    # Every position is chosen as often as any other, and so is every draw.
    share = (chosen & real).sum(0) / real.sum(0)
    assert np.abs(share - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / real.sum(0).min())


def test_what_is_not_predicted_is_not_hidden():
    clean = batch(5, 7)
    clean["weights"][2:] = 0
    corrupt = mask_tokens(clean, np.arange(5, dtype=np.uint32), **OPTIONS | {"fraction": 1.0})
    assert not corrupt["weights"][2:].any()
    np.testing.assert_array_equal(corrupt["inputs"][2:], clean["inputs"][2:])
    np.testing.assert_array_equal(corrupt["weights"][:2] > 0, clean["inputs"][:2] > 0)


def test_corruption_depends_on_the_draw_and_the_seed_alone():
    clean = batch(7, 61)
    draws = np.arange(7, dtype=np.uint32)
    whole = mask_tokens(clean, draws, **OPTIONS)
    part = {name: value[[4, 2]] for name, value in clean.items()}
    again = mask_tokens(part, draws[[4, 2]], **OPTIONS)
    np.testing.assert_array_equal(again["inputs"], whole["inputs"][[4, 2]])
    for other in (
        mask_tokens(clean, draws + np.uint32(7), **OPTIONS),
        mask_tokens(clean, draws, **OPTIONS | {"data_seed": 4}),
    ):
        assert (other["weights"] != whole["weights"]).any(axis=1).all()


def test_random_bits_are_independent():
    draws = np.arange(1009, dtype=np.uint32)
    one, two = (random_bits(1, draws, 31, stream) for stream in (0, 1))
    other = random_bits(2, draws, 31, 0)
    for x, y in ((one, two), (two, other), (one[1:], one[:-1]), (one[:, 1:], one[:, :-1])):
        x, y = x.ravel().astype(float), y.ravel().astype(float)
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.03


def test_a_compiled_program_masks_alike():
    clean, draws = batch(5, 7), np.arange(5, dtype=np.uint32)
    options = OPTIONS | {"fraction": 0.5}
    host = mask_tokens(clean, draws, **options)
    device = jax.jit(lambda b, d: mask_tokens(b, d, **options))(clean, draws)
    for name in host:
        assert host[name].dtype == device[name].dtype
        np.testing.assert_array_equal(host[name], device[name])
