import time

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txf.data import batches
from txf.data.batches import draw_rows, epoch_batches, epoch_rows


@settings(max_examples=20, deadline=None)
@given(num_rows=st.integers(1, 300), seed=st.integers(0, 2**32 - 1), batch_size=st.integers(1, 400))
def test_each_row_comes_once_an_epoch(num_rows, seed, batch_size):
    steps = -(-3 * num_rows // batch_size)
    rows = np.concatenate([epoch_rows(num_rows, seed, s, batch_size)[0] for s in range(steps)])
    for epoch in range(3):
        seen = rows[epoch * num_rows : (epoch + 1) * num_rows]
        np.testing.assert_array_equal(np.sort(seen), np.arange(num_rows))


@pytest.mark.parametrize("num_rows", [65_536, 65_537, 1_000_003])
def test_large_epochs_are_permutations_too(num_rows):
    rows = draw_rows(num_rows, 5, np.arange(num_rows, 2 * num_rows))
    np.testing.assert_array_equal(np.sort(rows), np.arange(num_rows))


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = {
        tuple(draw_rows(31, seed, np.arange(epoch * 31, (epoch + 1) * 31)))
        for seed in range(7)
        for epoch in range(11)
    }
    assert len(orders) == 7 * 11


def test_every_row_comes_everywhere_equally_often():
    num_rows, epochs = 13, 4000
    rows = draw_rows(num_rows, 0, np.arange(num_rows * epochs)).reshape(epochs, num_rows)
    counts = np.stack([np.bincount(column, minlength=num_rows) for column in rows.T])
    expected = epochs / num_rows
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    freedom = (num_rows - 1) ** 2
    assert chi_squared < freedom + 6 * np.sqrt(2 * freedom)
    # Neighbours are no more alike than chance has it.
    flat = draw_rows(10_007, 3, np.arange(10_007)).astype(float)
    assert abs(np.corrcoef(flat[1:], flat[:-1])[0, 1]) < 0.05


def test_a_batch_is_a_function_of_seed_and_step(run_python):
    rows, draws = epoch_rows(1009, 7, 123, 5)
    assert rows.dtype == np.int32 and draws.dtype == np.uint32
    np.testing.assert_array_equal(draws, np.arange(123 * 5, 124 * 5))
    code = "from txf.data.batches import epoch_rows; print(*epoch_rows(1009, 7, 123, 5)[0])"
    other = run_python(["-c", code])
    assert other.stdout.split() == [str(row) for row in rows], other.stderr
    # Written down once: a run must be continued by later versions with the batches it began with.
    assert rows.tolist() == GOLDEN


# python -c "from txf.data.batches import epoch_rows; print(epoch_rows(1009, 7, 123, 5)[0])"
GOLDEN = [487, 543, 683, 874, 485]


def test_many_steps_at_once_are_the_same_batches():
    rows, draws = epoch_batches(29, 3, 11, 7, 5)
    for i in range(7):
        one_rows, one_draws = epoch_rows(29, 3, 11 + i, 5)
        np.testing.assert_array_equal(rows[i], one_rows)
        np.testing.assert_array_equal(draws[i], one_draws)


@pytest.mark.parametrize("num_rows", [13, 1009])  # a batch goes over the end of an epoch, or not
def test_any_number_of_hosts_has_the_same_batches_between_them(num_rows):
    size, arrays = 24, {"tokens": np.arange(num_rows * 5 + 1, dtype=np.int32)}
    for step in (0, 7, 10**9):
        rows, draws = epoch_rows(num_rows, 5, step, size)
        whole = batches.take_windows(arrays, rows, draws, context_length=5, stride=5)
        for hosts in (1, 2, 4):
            parts = []
            for host in range(hosts):
                # Each host draws for itself, and takes its share only.
                own_rows, own_draws = epoch_rows(num_rows, 5, step, size)
                own = slice(host * size // hosts, (host + 1) * size // hosts)
                part = batches.take_windows(
                    arrays, own_rows[own], own_draws[own], context_length=5, stride=5
                )
                parts.append({**part, "draws": own_draws[own]})
            together = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
            assert len(set(together.pop("draws").tolist())) == size  # none is drawn twice
            assert together.keys() == whole.keys()
            for key in whole:
                np.testing.assert_array_equal(together[key], whole[key])


def test_draw_numbers_beyond_32_bits_wrap():
    rows, draws = epoch_rows(10, 0, 2**31, 4)
    assert draws.tolist() == [0, 1, 2, 3]
    assert set(rows) <= set(range(10))


def test_a_thousand_batches_take_less_than_a_second():
    start = time.process_time()
    epoch_batches(1_000_003, 0, 0, 1000, 64)
    assert time.process_time() - start < 0.1


def stream(*lengths):
    """EOT 1 1 EOT 2 2 2 EOT ..., and the positions of its EOTs."""
    parts = [np.zeros(1, np.uint16)]
    for number, length in enumerate(lengths, 1):
        parts += [np.full(length, number, np.uint16), np.zeros(1, np.uint16)]
    tokens = np.concatenate(parts)
    return tokens, np.flatnonzero(tokens == 0)


def all_rows(num_rows):
    rows = np.arange(num_rows, dtype=np.int32)
    return rows, rows.astype(np.uint32)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("length", [11, 12, 13, 22, 23, 24, 57])
def test_windows_predict_every_token_once(length, shift):
    tokens = np.arange(length, dtype=np.uint16)
    context = 11
    if length - shift < context:
        return
    num_rows = batches.num_windows(length, context, context, shift)
    options = {"context_length": context, "stride": context, "shift": shift}
    batch = batches.take_windows({"tokens": tokens}, *all_rows(num_rows), **options)
    assert batch["inputs"].shape == (num_rows, context)
    predicted = batch["targets"][batch["weights"] > 0]
    np.testing.assert_array_equal(np.sort(predicted), np.arange(shift, length))
    np.testing.assert_array_equal(batch["targets"], batch["inputs"] + shift)


def test_overlapping_windows_start_at_every_stride():
    tokens = np.arange(31, dtype=np.uint16)
    options = {"context_length": 7, "stride": 1}
    assert batches.num_windows(31, 7, 1) == 31 - 7  # nanoGPT's offsets: 0 to len - context - 1
    batch = batches.take_windows({"tokens": tokens}, *all_rows(24), **options)
    np.testing.assert_array_equal(batch["inputs"][:, 0], np.arange(24))
    assert batch["weights"].all()
    options["stride"] = 5
    batch = batches.take_windows({"tokens": tokens}, *all_rows(6), **options)
    np.testing.assert_array_equal(batch["inputs"][:, 0], [0, 5, 10, 15, 20, 23])
    assert batch["weights"][:5].all()
    np.testing.assert_array_equal(batch["weights"][5], [0, 0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shift", [0, 1])
def test_document_rows_predict_every_token_once(packed, shift):
    tokens, boundaries = stream(3, 13, 1, 2, 30, 6, 6, 0, 5)
    starts, lengths = batches.document_rows(boundaries, 7, packed)
    assert lengths.sum(1).max() <= 7
    arrays = {"tokens": tokens, "starts": starts, "lengths": lengths}
    batch = batches.take_documents(arrays, *all_rows(len(starts)), context_length=7, shift=shift)
    assert batch["weights"].sum() == tokens.size - 1
    counts = np.bincount(batch["targets"][batch["weights"] > 0])
    np.testing.assert_array_equal(counts, np.bincount(tokens[shift : tokens.size - 1 + shift]))
    np.testing.assert_array_equal(batch["segments"] > 0, batch["weights"] > 0)
    assert not batch["inputs"][batch["segments"] == 0].any()
    for inputs, targets, segments in zip(
        batch["inputs"], batch["targets"], batch["segments"], strict=True
    ):
        for number in range(1, segments.max() + 1):
            # A segment holds one document alone, and its own end.
            words = set(inputs[segments == number]) | set(targets[segments == number])
            assert len(words - {0}) <= 1
            # Within a segment the next input is the target.
            if shift:
                np.testing.assert_array_equal(
                    inputs[segments == number][1:], targets[segments == number][:-1]
                )


def test_packing_fills_rows():
    rng = np.random.default_rng(0)
    _, boundaries = stream(*rng.integers(1, 40, 300))
    context = 64
    alone = len(batches.document_rows(boundaries, context, packed=False)[0])
    packed = len(batches.document_rows(boundaries, context, packed=True)[0])
    least = -(-(boundaries[-1]) // context)
    assert alone == 300
    assert least <= packed <= 1.03 * least


@pytest.mark.parametrize("packed", [False, True])
def test_rows_are_the_same_inside_a_compiled_program(packed):
    tokens, boundaries = stream(3, 13, 1, 2, 30, 6)
    starts, lengths = batches.document_rows(boundaries, 7, packed)
    kinds = (np.arange(tokens.size) % 5).astype(np.uint8)
    arrays = {"tokens": tokens, "starts": starts, "lengths": lengths, "kinds": kinds}
    rows, draws = all_rows(3)
    for take in (
        lambda *a: batches.take_documents(*a, context_length=7),
        lambda *a: batches.take_windows(*a, context_length=7, stride=5),
    ):
        host = take(arrays, rows, draws)
        device = jax.jit(take)(jax.device_put(arrays), rows, draws)
        assert host.keys() == device.keys()
        for name in host:
            assert host[name].dtype == device[name].dtype
            np.testing.assert_array_equal(host[name], device[name])
        np.testing.assert_array_equal(host["kinds"].shape, host["targets"].shape)
