"""A probe to a dataset: rows as arrays, the words as a tokenizer, the scores to compare with."""

from functools import partial

import numpy as np
from jax import Array
from jaxtyping import Integer, UInt32
from ml_collections import ConfigDict

from txf.data.batches import Arrays, Batch
from txf.data.labelled import take_pairs
from txf.data.probes.base import Pairs, Probe, Rows
from txf.data.probes.draws import BLOCK, Draws
from txf.data.probes.table import chosen_probe
from txf.data.splits import Dataset, Split
from txf.data.tokenizers import Tokenizer, WordTokenizer
from txf.errors import UserError


def load_probe(config: ConfigDict, tokenizer: Tokenizer | None = None) -> Dataset:
    """Make the rows of the probe that `config` chooses.

    `data.examples` rows of training, and `data.valid_fraction` and `data.test_fraction` as many of
    valid and test. Row r of a split is a function of (`data.seed`, split, r) and the parameters.

    Splits are drawn independently of each other. Where rows of training come again in another
    split, as the shortest sentences of `translation_by_rule` do, a note says how many: a reader
    that knows the training rows by heart and nothing else gets these right, and no others.

    Raises:
        UserError: `tokenizer`, that of a run, is not the probe's.
    """
    probe, data = chosen_probe(config), config.data
    own = WordTokenizer(probe.words(), mask=config.task == "masked_language_model")
    if tokenizer is not None and tokenizer.to_json() != own.to_json():
        raise UserError(
            f"the run's tokenizer is not that of data.source={data.source!r} with these parameters;"
            " it was made by another probe"
        )
    sizes = {
        "train": data.examples,
        "valid": max(1, round(data.examples * data.valid_fraction)),
        "test": round(data.examples * data.test_fraction),
    }
    chance = probe.chance(data.context_length)
    made = {name: make_rows(probe, config, name, rows) for name, rows in sizes.items() if rows}
    splits = {name: _split(probe, config, name, arrays) for name, arrays in made.items()}
    notes = [
        f"{data.source}: {probe.summary}; {probe.origin}",
        f"chance {chance:.4g}: a reader that {probe.guess}; ceiling {probe.ceiling:g}",
        *_repeats(made, sizes),
    ]
    labels = probe.labels
    classes = None if labels is None else len(labels)
    return Dataset(own, own.vocab_size, splits, classes, labels, notes)


def make_rows(probe: Probe, config: ConfigDict, split: str, rows: int) -> Arrays:
    """Return `rows` rows of a split as compact arrays, block by block."""
    length = config.data.context_length
    blocks = []
    for block in range(-(-rows // BLOCK)):
        draws = Draws(config.data.seed, split, block, min(BLOCK, rows - block * BLOCK))
        blocks.append(_arrays(probe.make(draws, length, config.task), length))
    return {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}


def _arrays(rows: Rows | Pairs, length: int) -> Arrays:
    arrays = {key: value for key, value in vars(rows).items() if value is not None}
    if isinstance(rows, Rows) and rows.lengths is None and rows.inputs.shape[1] < length:
        arrays["lengths"] = np.full(len(rows.inputs), rows.inputs.shape[1])
    return {key: _compact(key, value, length) for key, value in arrays.items()}


def _compact(key: str, value: np.ndarray, length: int) -> np.ndarray:
    if value.ndim == 2:
        value = np.pad(value, ((0, 0), (0, length - value.shape[1])))
    if key == "marks":
        return value.astype(np.uint8)
    return value.astype(np.int32 if key.endswith("lengths") else np.uint16)


def _split(probe: Probe, config: ConfigDict, name: str, arrays: Arrays) -> Split:
    if config.task == "translation":
        take, tokens = partial(take_pairs), int(arrays["target_lengths"].sum())
    else:
        take, tokens = partial(take_asked), int(np.count_nonzero(arrays["marks"]))
        if probe.kinds:
            take = partial(take_asked, kinds=True)
    rows = len(next(iter(arrays.values())))
    return Split(
        name,
        arrays,
        rows,
        take,
        tokens,
        text_bytes=0,
        documents=rows,
        kinds=probe.kinds,
        chance=probe.chance(config.data.context_length),
        ceiling=probe.ceiling,
    )


def take_asked(
    arrays: Arrays,
    rows: Integer[Array | np.ndarray, "batch"],
    draws: UInt32[Array | np.ndarray, "batch"],
    *,
    kinds: bool = False,
) -> Batch:
    """Take rows with some answers to give: weights are 1 on these and 0 on all else.

    Returns:
        inputs int32 [batch, tokens]; targets int32 and weights float32, [batch, tokens] or, one a
        row, [batch]; segments int32 [batch, tokens] where some rows are padded; with `kinds`,
        kinds uint8 like the targets.
    """
    del draws
    inputs = arrays["inputs"][rows].astype(np.int32)
    marks = arrays["marks"][rows]
    asked = marks > 0
    batch = {
        "inputs": inputs,
        "targets": arrays["targets"][rows].astype(np.int32),
        "weights": asked.astype(np.float32),
    }
    if "lengths" in arrays:
        place = np.arange(inputs.shape[1], dtype=np.int32)
        batch["segments"] = (place < arrays["lengths"][rows][:, None]).astype(np.int32)
    if kinds:
        batch["kinds"] = marks - asked.astype(np.uint8)
    return batch


def _repeats(made: dict[str, Arrays], sizes: dict[str, int]) -> list[str]:
    """Return a line for each split some of whose rows are rows of training."""
    known = set(_contents(made["train"]))
    counts = {
        name: sum(row in known for row in _contents(arrays))
        for name, arrays in made.items()
        if name != "train"
    }
    return [
        f"{name}: {count} of {sizes[name]} rows are rows of training too"
        for name, count in counts.items()
        if count
    ]


def _contents(arrays: Arrays) -> list[bytes]:
    """Return what a model reads of each row."""
    return [row.tobytes() for row in arrays["source" if "source" in arrays else "inputs"]]
