"""A config's data group to a dataset, whatever its source and task; and what is refused."""

import itertools
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ml_collections import ConfigDict

from txf.data import cache, labelled, probes, sources, streams
from txf.data.bpe import pieces
from txf.data.splits import Dataset, Split
from txf.data.tokenizers import Tokenizer, load_tokenizer, train_tokenizer
from txf.errors import UserError

__all__ = ["Dataset", "Split", "check_data", "load_dataset"]

# The sources a task can read. Probes, which say themselves what task they are, come on top.
TASK_SOURCES = {
    "language_model": ("storyworld", "text", "tfds"),
    "masked_language_model": ("storyworld", "text", "tfds"),
    "classification": ("sentiment",),
    "tagging": ("conll",),
    "translation": ("parallel",),
}


def check_data(config: ConfigDict) -> list[str]:
    """Return what is wrong with the data group of `config`, a line each, without reading data."""
    data = config.data
    if data.source in probes.PROBES:
        return probes.check_probe(config) + _split_problems(data, generated=True)
    problems = probes.idle_parameters(config)
    known = dict.fromkeys(source for names in TASK_SOURCES.values() for source in names)
    known |= dict.fromkeys(probes.PROBES)
    allowed = TASK_SOURCES[config.task]
    if data.source not in known:
        problems.append(f"data.source={data.source!r} is unknown; choose {', '.join(known)}")
    elif data.source not in allowed:
        problems.append(
            f"data.source={data.source!r} cannot serve task={config.task!r};"
            f" choose {' or '.join(allowed)}"
        )
    generated = data.source == "storyworld"
    if data.source == "tfds":
        problems += _tfds_problems(data)
    elif not generated and data.path is None:
        problems.append(f"data.path=None is missing; data.source={data.source!r} reads a file")
    if data.source != "tfds":  # which splits it has is not known before it is opened
        problems += _split_problems(data, generated)
    if config.task in streams.TASKS:
        problems += _stream_problems(data)
    else:
        if data.packing != "windows":
            problems.append(
                f"data.packing={data.packing!r} is for language models; task={config.task!r} takes"
                " a row a text: leave it 'windows'"
            )
    if data.tokenizer == "bpe" and not data.tokenizer_path and data.vocab_size < 257:
        problems.append(
            f"data.vocab_size={data.vocab_size} is too small for bpe; it takes 257 or more: 256"
            " bytes and <|endoftext|>"
        )
    return problems


def _tfds_problems(data: ConfigDict) -> list[str]:
    problems = [
        f"data.{key}={data[key]} is for files; data.source='tfds' has splits of its own"
        for key in ("path", "valid_path", "test_path")
        if data[key]
    ]
    if not data.tfds_name:
        problems.append(
            "data.tfds_name=None is missing; name a TFDS data set, like tinystories or lm1b"
        )
    return problems


def _split_problems(data: ConfigDict, generated: bool) -> list[str]:
    problems = []
    if not data.valid_fraction and (generated or not data.valid_path):
        problems.append(
            f"data.valid_fraction={data.valid_fraction} leaves nothing to validate on; set more"
            " than 0, or data.valid_path"
        )
    if data.valid_fraction + data.test_fraction >= 1 and not generated:
        problems.append(
            f"data.test_fraction={data.test_fraction} and data.valid_fraction="
            f"{data.valid_fraction} leave nothing to train on; lower them"
        )
    return problems


def _stream_problems(data: ConfigDict) -> list[str]:
    problems = []
    if data.tokenizer == "word" and not data.tokenizer_path:
        problems.append(
            "data.tokenizer='word' loses white space and rare words, so a language model's loss"
            " would not be comparable; choose char, byte or bpe"
        )
    if data.stride is not None and data.packing != "windows":
        problems.append(
            f"data.stride={data.stride} is for data.packing='windows'; leave it None for"
            f" {data.packing!r}"
        )
    elif data.stride is not None and data.stride > data.context_length:
        problems.append(
            f"data.stride={data.stride} would skip tokens; it takes 1 to"
            f" data.context_length={data.context_length}"
        )
    return problems


def load_dataset(config: ConfigDict, tokenizer: Tokenizer | None = None) -> Dataset:
    """Read or make the data that `config` asks for.

    Args:
        config: the complete config.
        tokenizer: the one a run was trained with; without it `data.tokenizer_path` is loaded, or
            `data.tokenizer` is made from the training split.

    Raises:
        UserError: the data is missing or unusable; the message says what, where and what to do.
    """
    if config.data.source in probes.PROBES:
        return probes.load_probe(config, tokenizer)
    get_tokenizer = partial(_get_tokenizer, config, tokenizer)
    if make := labelled.DATASETS.get(config.data.source):
        return make(config, get_tokenizer)
    if config.data.source in ("text", "tfds") and cache.is_large(config.data):
        return _cached_dataset(config, tokenizer)
    source = sources.TEXT_SOURCES[config.data.source](config.data)
    _check_splits(source.splits)
    cut = (piece for text in source.splits["train"].texts for piece in pieces(text))
    chosen = get_tokenizer(itertools.islice(cut, 0, None, cache.sample_step(config.data)))
    splits, notes = {}, [*source.notes, *_lossless_note(config, chosen, source.splits["valid"])]
    if tokenizer is None and not config.data.tokenizer_path:
        notes += cache.sample_note(config.data)
    for name, corpus in source.splits.items():
        splits[name], more = streams.stream_split(config, name, corpus, source.kinds, chosen)
        notes += more
    return Dataset(chosen, chosen.vocab_size, splits, notes=notes)


def _lossless_note(config: ConfigDict, tokenizer: Tokenizer, corpus: sources.Corpus) -> list[str]:
    """Return a line where a tokenizer from elsewhere changes text, as by dropping capitals."""
    sample = corpus.texts[0][:1000]
    known = not config.data.tokenizer_path or tokenizer.kind == "char"
    if known or tokenizer.decode(tokenizer.encode(sample)) == sample:
        return []
    return [
        f"data.tokenizer_path={config.data.tokenizer_path} does not give text back unchanged; bits"
        " per byte count the bytes of the unchanged text"
    ]


def _check_splits(splits: Mapping[str, Any]) -> None:
    for name in ("train", "valid"):
        if name not in splits:
            raise UserError(
                f"the {name} split is empty; give more text, or other fractions in"
                " data.valid_fraction and data.test_fraction"
            )


def _cached_dataset(config: ConfigDict, given: Tokenizer | None) -> Dataset:
    """Read a large text through the cache of tokens."""
    data = config.data
    get_tokenizer = partial(_get_tokenizer, config, given)
    notes = []
    if given is not None or data.tokenizer_path or data.tokenizer == "byte":
        tokenizer = get_tokenizer([])
    else:  # what is learned from a large text is worth keeping
        spec = (data.tokenizer, data.vocab_size, config.task)
        tokenizer = cache.cached_tokenizer(data, spec, get_tokenizer)
        notes += cache.sample_note(data)
    prepared = cache.prepare(data, tokenizer)
    _check_splits(prepared.streams)
    splits, notes = {}, [*notes, *prepared.notes]
    for name, stream in prepared.streams.items():
        counts = prepared.counts[name]
        notes += streams.unknown_note(name, counts.unknown, counts.tokens)
        splits[name], more = streams.array_split(
            config, name, {"tokens": stream}, tokenizer, counts.text_bytes, counts.documents
        )
        notes += more
    return Dataset(tokenizer, tokenizer.vocab_size, splits, notes=notes)


def _get_tokenizer(config: ConfigDict, given: Tokenizer | None, texts: Iterable[str]) -> Tokenizer:
    """Return the given tokenizer, the one at `data.tokenizer_path`, or one made from `texts`."""
    data, mask = config.data, config.task == "masked_language_model"
    if given is not None:
        return given
    if data.tokenizer_path:
        return load_tokenizer(data.tokenizer_path, mask)
    return train_tokenizer(data.tokenizer, texts, data.vocab_size, mask)
