"""Corruption for masked language models: a pure function of (data seed, draw)."""

import numpy as np
from jax import Array
from jaxtyping import UInt32

from txf.data.batches import Batch, mix


def random_bits(
    data_seed: int, draws: UInt32[Array | np.ndarray, "batch"], tokens: int, stream: int
) -> UInt32[Array | np.ndarray, "batch {tokens}"]:
    """Return 32 bits a token that depend only on the seed, the draw, the position and `stream`."""
    key = mix(np.array([data_seed], np.uint32) + np.uint32(0x85EBCA6B)) + np.uint32(stream)
    row = mix(mix(draws) ^ mix(key))[:, None]
    return mix(row + mix(np.arange(tokens, dtype=np.uint32) + np.uint32(1)))


def mask_tokens(
    batch: Batch,
    draws: UInt32[Array | np.ndarray, "batch"],
    *,
    data_seed: int,
    fraction: float,
    mask: int,
    vocab_size: int,
) -> Batch:
    """Choose tokens to predict and hide most of them in the inputs.

    Each real token but end-of-text is chosen with probability `fraction`. Of the chosen, 80 % are
    replaced by `mask`, 10 % by a random token, 10 % stay. Weights are 1 on the chosen tokens
    only. Devlin et al. 2018, section 3.1, with an independent choice for each token.

    Args:
        batch: of `take_windows` or `take_documents` with shift 0: inputs are the targets.
        draws: the identity of each row's draw; the same draw is masked in the same way.
        data_seed: `data.seed`.
        fraction: `data.masked_fraction`.
        mask: the id of `<|mask|>`.
        vocab_size: random tokens are drawn from all ids but end-of-text and `mask`.
    """
    inputs, length = batch["inputs"], batch["inputs"].shape[1]
    chosen, manner, token = (random_bits(data_seed, draws, length, stream) for stream in range(3))
    whole = 1 << 32
    chosen = (chosen < np.uint32(min(fraction * whole, whole - 1))) & (batch["weights"] > 0)
    chosen = chosen & (inputs != 0)
    hidden = chosen & (manner < np.uint32(0.8 * whole))
    swapped = chosen & ~hidden & (manner < np.uint32(0.9 * whole))
    # The ids 1, 2, 3 ... without `mask`.
    random = 1 + (token % np.uint32(vocab_size - 2)).astype(np.int32)
    random = random + (random >= mask)
    corrupted = inputs * ~(hidden | swapped) + mask * hidden + random * swapped
    return batch | {
        "inputs": corrupted.astype(np.int32),
        "weights": chosen.astype(np.float32),
    }
