"""Tokens to rows to batches: pure functions of (data seed, step), the same in any process.

A stream is one flat array of tokens: EOT document EOT document EOT ... Every token of every
document, and the EOT after it, is predicted once an epoch. A row is a stretch of the stream.
"""

import numpy as np
from jax import Array
from jax import numpy as jnp
from jaxtyping import Int, Int32, UInt32

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
    num_rows: int, data_seed: int, draws: Int[np.ndarray, "*shape"]
) -> Int32[np.ndarray, "*shape"]:
    """Return the row of each global draw number.

    Draw d is number d mod num_rows of a permutation of the rows that depends on the seed and on
    the epoch, d div num_rows. The permutation is never written out: an eight-round Feistel network
    permutes the next power of two, and what falls outside the rows goes through again (Black and
    Rogaway 2002, cycle walking). So any draw costs the same, at any size, and all are vectorized.
    """
    shape, draws = draws.shape, draws.reshape(-1).astype(np.uint64)
    epoch, index = (part.astype(np.uint32) for part in np.divmod(draws, np.uint64(num_rows)))
    key = mix(mix(epoch) ^ mix(np.full(1, data_seed, np.uint32)))
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
    draws = np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.int64)
    return draw_rows(num_rows, data_seed, draws), draws.astype(np.uint32)


def num_windows(stream_length: int, context_length: int, stride: int, shift: int = 1) -> int:
    """Return how many windows a stream has: one at each multiple of `stride`, and the last.

    `shift` is 1 where targets are the next token, 0 where they are the token itself. The stream
    must hold one whole window.
    """
    return 1 + -(-(stream_length - shift - context_length) // stride)


def _namespace(arrays: Arrays, rows: Array | np.ndarray):
    """Return numpy for host arrays, jax.numpy for device arrays and inside jit."""
    return np if isinstance(rows, np.ndarray) and isinstance(arrays["tokens"], np.ndarray) else jnp


def take_windows(
    arrays: Arrays,
    rows: Int[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
    *,
    context_length: int,
    stride: int,
    shift: int = 1,
) -> Batch:
    """Cut windows out of a stream: inputs[t] = stream[start + t], targets[t] = stream[start + t + shift].

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
    if xp is np:
        rows = rows.astype(np.int64)  # a memory-mapped stream may be longer than 2**31
    last = arrays["tokens"].shape[0] - shift - context_length
    asked = rows * stride
    start = xp.minimum(asked, last)
    index = start[:, None] + xp.arange(context_length)
    fresh = index >= (asked - stride)[:, None] + context_length
    return _batch(xp, arrays, index, shift, fresh | (asked <= last)[:, None])


def take_documents(
    arrays: Arrays,
    rows: Int[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
    *,
    context_length: int,
    shift: int = 1,
) -> Batch:
    """Cut rows of whole documents out of a stream, padded to `context_length`.

    Row r is stream[starts[r] : starts[r] + lengths[r]]. It may hold several documents: each EOT
    among the inputs starts another segment, and no segment sees another.

    Args:
        arrays: `tokens` [stream], `starts` and `lengths` [rows], `kinds` uint8 [stream] or none.
        rows: numbers of rows.
        draws: not used.
        context_length: tokens a row, padding included.
        shift: 1 to predict the next token, 0 to predict the token itself.

    Returns:
        As `take_windows`, and segments int32 [batch, tokens], 0 where the row is padded.
    """
    del draws
    xp = _namespace(arrays, rows)
    position = xp.arange(context_length)
    real = position < arrays["lengths"][rows][:, None]
    last = arrays["tokens"].shape[0] - shift - 1
    index = xp.minimum(arrays["starts"][rows][:, None] + position, last)
    batch = _batch(xp, arrays, index, shift, real)
    segments = 1 + xp.cumsum(batch["inputs"] == 0, axis=1)
    return batch | {
        "inputs": xp.where(real, batch["inputs"], 0),
        "targets": xp.where(real, batch["targets"], 0),
        "segments": xp.where(real, segments, 0).astype(np.int32),
    }


def _batch(xp, arrays: Arrays, index, shift: int, real) -> Batch:
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
    boundaries: Int[np.ndarray, "boundaries"], context_length: int, packed: bool
) -> tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "rows"]]:
    """Return where the rows of `take_documents` start and how long they are.

    A document longer than a row goes on in the next ones. `packed` lets a row take the following
    documents as long as they fit.

    Args:
        boundaries: the positions of the stream's EOTs, the first and the last included.
        context_length: the most tokens a row can hold.
        packed: several documents a row.
    """
    starts, lengths = [], []
    for begin, end in zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True):
        for start in range(begin, end, context_length):
            length = min(context_length, end - start)
            if packed and lengths and start == begin and lengths[-1] + length <= context_length:
                lengths[-1] += length
            else:
                starts.append(start)
                lengths.append(length)
    return np.array(starts, np.int64), np.array(lengths, np.int32)
