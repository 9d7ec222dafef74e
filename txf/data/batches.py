"""Tokens to rows to batches: pure functions of (data seed, step), the same in any process.

A stream is one flat array of tokens: EOT document EOT document EOT ... Every token of every
document, and the EOT after it, is predicted once an epoch. A row is a stretch of the stream.
"""

import numpy as np
from grain.experimental import index_shuffle
from jax import Array
from jax import numpy as jnp
from jaxtyping import Int, Int32, UInt32

Arrays = dict[str, np.ndarray] | dict[str, Array]
Batch = dict[str, np.ndarray] | dict[str, Array]


def epoch_rows(
    num_rows: int, data_seed: int, step: int, batch_size: int
) -> tuple[Int32[np.ndarray, "batch"], UInt32[np.ndarray, "batch"]]:
    """Return the rows of batch number `step`, and the identity of each draw.

    Draw d = step * batch_size + i is row `permutation(epoch)[d mod num_rows]`, epoch = d div
    num_rows: what `grain.MapDataset.range(num_rows).seed(data_seed).shuffle().repeat()[d]` gives,
    computed with the same primitive, a hundred times faster than through the pipeline. Each row
    comes once an epoch, in another order each epoch, and a batch may be larger than an epoch.

    Returns:
        rows, int32 [batch]: numbers of rows.
        draws, uint32 [batch]: d, modulo 2**32.
    """
    # As MapDataset.seed derives the seed of the transformation that follows it.
    seed = int(np.random.SeedSequence([data_seed, 1]).generate_state(1, np.uint32)[0])
    first = step * batch_size
    rows = np.empty(batch_size, np.int32)
    for i in range(batch_size):
        epoch, index = divmod(first + i, num_rows)
        rows[i] = index_shuffle(
            index, max_index=num_rows - 1, seed=(seed + epoch) % (1 << 32), rounds=4
        )
    draws = (np.arange(first, first + batch_size, dtype=np.int64) % (1 << 32)).astype(np.uint32)
    return rows, draws


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
