"""Tokens to rows to batches: pure functions of (data seed, step), the same in any process.

A stream is one flat array of tokens: EOT document EOT document EOT ... Every token of every
document, and the EOT after it, is predicted once an epoch. A row is one or more stretches of it.
"""

import bisect
from typing import Any

import numpy as np
from jax import Array
from jax import numpy as jnp
from jaxtyping import Int32, Integer, UInt32

Arrays = dict[str, np.ndarray] | dict[str, Array]
Batch = dict[str, np.ndarray] | dict[str, Array]


def mix(x: UInt32[Array | np.ndarray, "*shape"]) -> UInt32[Array | np.ndarray, "*shape"]:
    """Scramble 32 bits, one to one: each bit of the result depends on every bit of `x`.

    `lowbias32` of Chris Wellons' hash prospector; arithmetic modulo 2**32.
    """
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


def draw_rows(
    num_rows: int, data_seed: int, draws: Integer[np.ndarray, "*shape"]
) -> Int32[np.ndarray, "*shape"]:
    """Return the row of each global draw number.

    Draw d is number d mod num_rows of a permutation of the rows that depends on the seed and on
    the epoch, d div num_rows. The permutation is never written out: an eight-round Feistel network
    permutes the next power of two, and what falls outside the rows goes through again (Black and
    Rogaway 2002, cycle walking). So any draw costs the same, at any size, and all are vectorized.
    """
    shape, draws = draws.shape, draws.reshape(-1).astype(np.uint64)
    epoch, index = (part.astype(np.uint32) for part in np.divmod(draws, np.uint64(num_rows)))
    # The constant keeps seed 1 in epoch 2 apart from seed 2 in epoch 1.
    key = mix(mix(epoch) ^ mix(np.full(1, data_seed, np.uint32) + np.uint32(0x85EBCA6B)))
    # An odd constant a round; the key's increments make the rounds differ.
    keys = [mix(key + np.uint32(0x9E3779B9 * (number + 1) % (1 << 32))) for number in range(8)]
    bits = (num_rows - 1).bit_length()
    rows = _permuted(index, keys, bits)
    outside = np.flatnonzero(rows >= num_rows)
    while outside.size:
        rows[outside] = _permuted(rows[outside], [key[outside] for key in keys], bits)
        outside = outside[rows[outside] >= num_rows]
    return rows.astype(np.int32).reshape(shape)


def _permuted(x: np.ndarray, keys: list[np.ndarray], bits: int) -> np.ndarray:
    """Permute the integers of `bits` bits: each half in turn is changed by a hash of the other."""
    low_bits = bits // 2
    widths = (np.uint32(bits - low_bits), np.uint32(low_bits))
    halves = [x >> np.uint32(low_bits), x & np.uint32((1 << low_bits) - 1)]
    for number, key in enumerate(keys):
        side = number % 2
        change = mix(halves[1 - side] ^ key) & ((np.uint32(1) << widths[side]) - np.uint32(1))
        halves[side] = halves[side] ^ change
    return (halves[0] << np.uint32(low_bits)) | halves[1]


def epoch_rows(
    num_rows: int, data_seed: int, step: int, batch_size: int
) -> tuple[Int32[np.ndarray, "batch"], UInt32[np.ndarray, "batch"]]:
    """Return the rows of batch number `step`, and the identity of each draw.

    Batch `step` is draws step * batch_size + (0 ... batch_size - 1) of `draw_rows`: each row comes
    once an epoch, in another order each epoch, and a batch may be larger than an epoch.

    Returns:
        rows, int32 [batch]: numbers of rows.
        draws, uint32 [batch]: the draw numbers, modulo 2**32.
    """
    rows, draws = epoch_batches(num_rows, data_seed, step, 1, batch_size)
    return rows[0], draws[0]


def epoch_batches(
    num_rows: int, data_seed: int, step: int, count: int, batch_size: int
) -> tuple[Int32[np.ndarray, "{count} batch"], UInt32[np.ndarray, "{count} batch"]]:
    """Return what `epoch_rows` gives for each of `count` steps, from `step` on.

    Returns:
        rows int32 and draws uint32: [count, batch].
    """
    first = step * batch_size
    draws = np.arange(first, first + count * batch_size, dtype=np.int64)
    draws = draws.reshape(count, batch_size)
    return draw_rows(num_rows, data_seed, draws), draws.astype(np.uint32)


def num_windows(stream_length: int, context_length: int, stride: int, shift: int = 1) -> int:
    """Return how many windows a stream has: one at each multiple of `stride`, and the last.

    `shift` is 1 where targets are the next token, 0 where they are the token itself. The stream
    must hold one whole window.
    """
    return 1 + -(-(stream_length - shift - context_length) // stride)


def _namespace(arrays: Arrays, rows: Array | np.ndarray) -> Any:
    """Return numpy for host arrays, jax.numpy for device arrays and inside jit."""
    return np if isinstance(rows, np.ndarray) and isinstance(arrays["tokens"], np.ndarray) else jnp


def take_windows(
    arrays: Arrays,
    rows: Integer[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
    *,
    context_length: int,
    stride: int,
    shift: int = 1,
) -> Batch:
    """Cut windows out of a stream: input t is stream[start + t], its target shift further on.

    Window r starts at r * stride. The last one ends with the stream: it starts earlier where it
    must, and what the window before it predicts has weight 0 in it. So there is no padding.

    Args:
        arrays: `tokens` [stream] and, where the source marks spans, `kinds` uint8 [stream].
        rows: numbers of windows.
        draws: not used: a window is the same in every epoch.
        context_length: tokens a window.
        stride: from the start of a window to the start of the next.
        shift: 1 to predict the next token, 0 to predict the token itself.

    Returns:
        inputs, targets int32, weights float32 and, with `kinds`, kinds uint8: [batch, tokens].
    """
    del draws
    xp = _namespace(arrays, rows)
    last = arrays["tokens"].shape[0] - shift - context_length
    asked = rows * stride
    start = xp.minimum(asked, last)
    index = start[:, None] + xp.arange(context_length)
    fresh = index >= (asked - stride)[:, None] + context_length
    return _batch(xp, arrays, index, shift, fresh | (asked <= last)[:, None])


def take_documents(
    arrays: Arrays,
    rows: Integer[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
    *,
    context_length: int,
    shift: int = 1,
) -> Batch:
    """Put stretches of a stream side by side in a row, each a segment of its own, and pad.

    Args:
        arrays: `tokens` [stream]; `starts` and `lengths` [rows, most stretches a row], length 0
            where there is none, of `document_rows`; `kinds` uint8 [stream] or none.
        rows: numbers of rows.
        draws: not used.
        context_length: tokens a row, padding included.
        shift: 1 to predict the next token, 0 to predict the token itself.

    Returns:
        As `take_windows`, and segments int32 [batch, tokens]: 1, 2, 3 ... and 0 for padding.
    """
    del draws
    xp = _namespace(arrays, rows)
    lengths = arrays["lengths"][rows]
    stops = xp.cumsum(lengths, axis=1)
    position = xp.arange(context_length)
    stretch = (position[:, None] >= stops[:, None, :]).sum(-1)
    real = position < stops[:, -1:]
    offsets = arrays["starts"][rows] - (stops - lengths)
    slot = xp.minimum(stretch, lengths.shape[1] - 1)
    index = xp.take_along_axis(offsets, slot, axis=1) + position
    batch = _batch(xp, arrays, xp.where(real, index, 0), shift, real)
    return batch | {
        "inputs": xp.where(real, batch["inputs"], 0),
        "targets": xp.where(real, batch["targets"], 0),
        "segments": xp.where(real, stretch + 1, 0).astype(np.int32),
    }


def _batch(xp: Any, arrays: Arrays, index: Any, shift: int, real: Any) -> Batch:
    tokens = arrays["tokens"]
    batch = {
        "inputs": tokens[index].astype(np.int32),
        "targets": tokens[index + shift].astype(np.int32),
        "weights": real.astype(np.float32),
    }
    if "kinds" in arrays:
        batch["kinds"] = arrays["kinds"][index + shift]
    return batch


def document_rows(
    boundaries: Integer[np.ndarray, "boundaries"], context_length: int, packed: bool
) -> tuple[Integer[np.ndarray, "rows stretches"], Int32[np.ndarray, "rows stretches"]]:
    """Return where the stretches of each row of `take_documents` start, and their lengths.

    A document longer than a row is cut into stretches of `context_length` and a rest. `packed`
    puts several stretches in a row: the longest first, each into the row it fills best (best-fit
    decreasing). Without it every stretch is a row.

    Args:
        boundaries: the positions of the stream's EOTs, the first and the last included.
        context_length: the most tokens a row can hold.
        packed: several stretches a row.
    """
    sizes = np.diff(boundaries)
    counts = -(-sizes // context_length)
    document = np.repeat(np.arange(sizes.size), counts)
    nth = np.arange(document.size) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = boundaries[document] + nth * context_length
    lengths = np.minimum(context_length, boundaries[document + 1] - starts).astype(np.int32)
    if not packed:
        return starts[:, None], lengths[:, None]
    rows: list[list[int]] = []
    # The rows that have a given room left, and the rooms there are, sorted.
    by_room: dict[int, list[int]] = {}
    rooms: list[int] = []
    for number in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[number])
        place = bisect.bisect_left(rooms, length)
        if place == len(rooms):
            room, row = context_length, len(rows)
            rows.append([])
        else:
            room = rooms[place]
            row = by_room[room].pop()
            if not by_room[room]:
                rooms.pop(place)
        rows[row].append(number)
        if left := room - length:
            if not by_room.setdefault(left, []):
                bisect.insort(rooms, left)
            by_room[left].append(row)
    most = max(map(len, rows))
    table = np.array([row + [-1] * (most - len(row)) for row in rows])
    return np.where(table < 0, 0, starts[table]), np.where(table < 0, 0, lengths[table])
