"""Chance for probes: every number is a function of (seed, split, row, what it is for)."""

import zlib

import numpy as np
from jaxtyping import Float64, Int64

# Rows are made in blocks of this many, so that memory does not grow with the number of rows.
BLOCK = 4096


class Draws:
    """Random numbers for `rows` rows of a block; a row's do not depend on how many rows there are.

    Each purpose has a Philox stream of its own (Salmon et al. 2011), keyed by the seed, the split,
    the block and the purpose's name. A stream fills its table row by row.

    Attributes:
        split: train, valid or test.
        rows: the number of rows, at most `BLOCK`.
    """

    def __init__(self, seed: int, split: str, block: int, rows: int):
        self._first = (zlib.crc32(split.encode()) << 32) | seed
        self._block = block
        self.split = split
        self.rows = rows

    def uniform(self, purpose: str, columns: int) -> Float64[np.ndarray, "rows {columns}"]:
        """Return numbers in [0, 1)."""
        key = np.array([self._first, (zlib.crc32(purpose.encode()) << 32) | self._block], np.uint64)
        return np.random.Generator(np.random.Philox(key=key)).random((self.rows, columns))

    def integers(
        self, purpose: str, columns: int, below: int
    ) -> Int64[np.ndarray, "rows {columns}"]:
        """Return whole numbers from 0 to `below` - 1, each independent of the others."""
        return (self.uniform(purpose, columns) * below).astype(np.int64)

    def distinct(
        self, purpose: str, columns: int, below: int
    ) -> Int64[np.ndarray, "rows {columns}"]:
        """Return whole numbers from 0 to `below` - 1, no two of a row alike, in random order.

        Floyd's algorithm (Bentley and Floyd 1987), for all rows at once: the work grows with
        `columns`, not with `below`.
        """
        chances = self.uniform(purpose, columns)
        chosen = np.empty((self.rows, columns), np.int64)
        for column in range(columns):
            last = below - columns + column
            number = (chances[:, column] * (last + 1)).astype(np.int64)
            taken = (chosen[:, :column] == number[:, None]).any(axis=1)
            chosen[:, column] = np.where(taken, last, number)
        # Floyd gives every set the same chance, but large numbers tend to come late in it.
        return np.take_along_axis(chosen, self.orders(f"{purpose} order", columns), axis=1)

    def orders(self, purpose: str, columns: int) -> Int64[np.ndarray, "rows {columns}"]:
        """Return a random order of 0 to `columns` - 1 for each row."""
        return np.argsort(self.uniform(purpose, columns), axis=1)

    def weighted(
        self, purpose: str, columns: int, weights: Float64[np.ndarray, "choices"]
    ) -> Int64[np.ndarray, "rows {columns}"]:
        """Return distinct choices drawn one after the other, each by the weights of those left.

        The order statistics of log(u) / weight (Efraimidis and Spirakis 2006).
        """
        u = 1 - self.uniform(purpose, len(weights))
        return np.argsort(-np.log(u) / weights, axis=1)[:, :columns]
