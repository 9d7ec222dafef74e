"""The source `tfds`: any TFDS data set with a text in it, read without TensorFlow.

`data.tfds_name` is a name as TFDS writes it, `name[/config][:version]`. An example is a document,
its text unchanged; blank ones are left out. What `data.data_dir` has as ArrayRecord is read
(`data.data_dir` may also be the folder of one version, with its dataset_info.json); what it has not
is prepared there. The splits train, validation and test become train, valid and test; a missing
valid or test split is cut from train by `data.valid_fraction` and `data.test_fraction`, as
`data.split` says.

Two builders of our own, `tiny_shakespeare` and `tinystories` (see txf.data.builders), take their
files from `data.manual_dir` or download them. What it takes to prepare others, read in the code of
TFDS 4.9.10 (nothing was downloaded):

| name                          | to prepare it                                                   |
|-------------------------------|-----------------------------------------------------------------|
| tiny_shakespeare, tinystories | nothing: ours (TFDS's own tiny_shakespeare opens files by tf.io)|
| lm1b                          | TensorFlow, once: an archive, and files are listed by tf.io     |
| imdb_reviews                  | TensorFlow, once: an archive                                    |
| wiki40b/en and others         | TensorFlow and Apache Beam, once: tf.train.Example records      |
| conll2003                     | TensorFlow, once: an archive. Its words are lists, so there is  |
|                               | no text: data.source=conll reads CoNLL files                    |
| wmt14_translate/de-en, wmt16_ | TensorFlow, once: archives. data.text_feature says the language |
| ..., wmt_t2t_...              | to read; data.source=parallel reads pairs                       |
| huggingface:OWNER__NAME       | the package `datasets`. Tried with datasets 5.2 and a small     |
| and huggingface:NAME          | server in the place of the hub                                  |

A name of Hugging Face's hub, OWNER/NAME, is written OWNER__NAME; a configuration of the data set
follows a slash. Archives are what TFDS unpacks with tf.io. Once, on any machine that has
TensorFlow, is enough:

    tfds.builder("lm1b", data_dir="DIR", file_format="array_record").download_and_prepare()

(TFDS also writes Parquet, which lost rows when it was tried, and is not used.)
"""

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from etils import epath
from ml_collections import ConfigDict
from tensorflow_datasets.core import read_only_builder
from tensorflow_datasets.core.dataset_builders import huggingface_dataset_builder
from tensorflow_datasets.core.utils import conversion_utils

from txf import files
from txf.data.builders import BUILDERS, builder_class
from txf.data.preparing import (
    Unreachable,
    cause_of,
    check_reachable,
    is_prepared,
    one_line,
    prepare,
)
from txf.data.sources import deal_by_document, deal_by_position
from txf.errors import UserError

SPLIT_NAMES = {
    "train": ("train",),
    "valid": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}
# What a text is called, where several features are texts.
TEXT_NAMES = ("text", "story", "document", "content")
# Modules of TFDS that register builders of text when they are imported; `tfds.builder` imports them
# itself, but only where TensorFlow is installed.
REGISTERING = ("tensorflow_datasets.text", "tensorflow_datasets.translate")
# Examples that are read at a time.
BATCH = 1024


def open_builder(data: ConfigDict) -> tfds.core.DatasetBuilder:
    """Return the builder of `data.tfds_name`, its data prepared.

    Raises:
        UserError: there is no such data set, or it can neither be read nor be prepared; the
            message says what was looked for, where, and how it gets there.
    """
    name = data.tfds_name
    root = None if data.data_dir is None else files.absolute(data.data_dir)
    if root is not None and (root / "dataset_info.json").exists():
        return _checked(tfds.builder_from_directory(root), name)
    try:
        builder = _find_builder(data, root)
        own = isinstance(builder, _text_builder())
        manual = builder.manual_files() if own else {}
        if not is_prepared(builder):
            prepare(builder, None if own else data.manual_dir)
        elif manual and (changed := builder.changed_files(manual)):
            raise UserError(
                f"{builder.data_dir} was prepared from other files than data.manual_dir="
                f"{data.manual_dir} has ({', '.join(changed)} differ); remove that folder, or set"
                " another data.data_dir"
            )
        return _checked(tfds.builder_from_directory(builder.data_dir), name)
    except UserError:
        raise
    except Exception as error:  # builders are other people's code and raise what they like
        raise UserError(_explain(error, data, root)) from error


def _text_builder() -> Any:
    from txf.data.builders.text_builder import TextBuilder

    return TextBuilder


def _find_builder(data: ConfigDict, root: epath.Path | None) -> tfds.core.DatasetBuilder:
    name, _, config = data.tfds_name.partition("/")
    if own := builder_class(name):
        known = list(own.builder_configs)
        if config and config not in known:
            choices = " or ".join(f"{name}/{choice}" for choice in known) or name
            raise UserError(f"data.tfds_name={data.tfds_name} is unknown; choose {choices}")
        return own(data_dir=root, manual_dir=data.manual_dir, config=config or None)
    if name.startswith("huggingface:"):
        return _find_at_hub(data, root)
    for module in REGISTERING:
        importlib.import_module(module)
    return tfds.builder(data.tfds_name, data_dir=root, file_format="array_record")


def _find_at_hub(data: ConfigDict, root: epath.Path | None) -> tfds.core.DatasetBuilder:
    """Return the builder of a data set of Hugging Face: what is prepared, or what the hub has."""
    name, _, config = data.tfds_name.partition(":")[2].partition("/")
    local = "/".join(conversion_utils.to_tfds_name(part) for part in (name, config) if part)
    with contextlib.suppress(tfds.core.registered.DatasetNotFoundError):
        return read_only_builder.builder_from_files(local, data_dir=root)
    if importlib.util.find_spec("datasets") is None:
        raise UserError(
            f"data.tfds_name={data.tfds_name} needs the package `datasets`; install it: pip"
            " install datasets"
        )
    check_reachable(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    options = {"data_dir": root, "file_format": "array_record"}
    # TFDS lists all there is, for minutes, to find the data set that it calls so.
    hub = importlib.import_module("huggingface_hub")
    repository = name.replace("__", "/", 1)
    if hub.repo_exists(repository, repo_type="dataset"):
        return huggingface_dataset_builder.HuggingfaceDatasetBuilder(
            hf_repo_id=repository, hf_config=config or None, **options
        )
    return tfds.builder(data.tfds_name, **options)


def _explain(error: Exception, data: ConfigDict, root: epath.Path | None) -> str:
    """Return the line that says why a data set could not be opened, and what to do."""
    name = data.tfds_name
    where = root or tfds.core.constants.DATA_DIR
    if cause := cause_of(error, UserError):
        return str(cause)
    if cause := cause_of(error, Unreachable):
        base = name.partition("/")[0]
        by_hand = (
            f"download it elsewhere, put it in a folder as {cause.url.rpartition('/')[2]} and set"
            " data.manual_dir to that folder"
            if base in BUILDERS
            else "prepare it where there is a network, with tfds.builder(..., file_format="
            "'array_record').download_and_prepare(), and set data.data_dir to its data_dir"
        )
        return f"data.tfds_name={name} is not prepared in {where}, and {cause}; {by_hand}"
    if isinstance(error, tfds.core.registered.DatasetNotFoundError):
        return (
            f"data.tfds_name={name} is no data set of TFDS {tfds.__version__} nor prepared in"
            f" {where}; ours are {', '.join(BUILDERS)}"
        )
    missing = cause_of(error, ImportError)
    if missing and str(missing.name).partition(".")[0] in ("tensorflow", "apache_beam"):
        return (
            f"data.tfds_name={name} is not prepared in {where}, and TFDS's builder needs"
            f" {missing.name} for that; prepare it once where it is installed, with tfds.builder("
            f"'{name}', data_dir='DIR', file_format='array_record').download_and_prepare(), and"
            " set data.data_dir=DIR"
        )
    return f"data.tfds_name={name} cannot be opened or prepared in {where}: {one_line(error)}"


def _checked(builder: tfds.core.DatasetBuilder, name: str) -> tfds.core.DatasetBuilder:
    """Refuse data that is not ArrayRecord."""
    formats = {form.value for form in builder.info.available_file_formats()}
    if "array_record" not in formats:
        raise UserError(
            f"data.tfds_name={name}: {builder.data_dir} is prepared as"
            f" {', '.join(sorted(formats))}, which takes TensorFlow to read; prepare it again with"
            " file_format='array_record' in another data.data_dir"
        )
    return builder


def find_text_feature(features: tfds.features.FeaturesDict, wanted: str | None) -> str:
    """Return the name of the feature that is the text of an example.

    `wanted`, or the only feature that is a text, or the first of `TEXT_NAMES`.

    Raises:
        UserError: there is no such feature, or no way to tell; the message names those there are.
    """
    texts = [name for name, feature in features.items() if _is_text(feature)]
    there = f"its texts are {', '.join(texts)}" if texts else "it has no text"
    others = [name for name in features if name not in texts]
    there += f" (other features: {', '.join(others)})" if others else ""
    if wanted is not None:
        if wanted not in texts:
            raise UserError(f"data.text_feature={wanted} is no text of the data set; {there}")
        return wanted
    likely = texts if len(texts) == 1 else [name for name in TEXT_NAMES if name in texts]
    if not likely:
        raise UserError(
            f"which feature of the data set is the text? Set data.text_feature; {there}"
        )
    return likely[0]


def _is_text(feature: Any) -> bool:
    # A Text, or a scalar string as data sets of Hugging Face have it.
    if isinstance(feature, tfds.features.Text):
        return feature.encoder is None
    return feature.shape == () and feature.np_dtype in (np.object_, np.str_)


class Examples:
    """The documents of one split, in order; each iteration reads them again."""

    def __init__(self, builder: tfds.core.DatasetBuilder, split: str, feature: str):
        self._source = builder.as_data_source(split=split)
        self._where = f"{builder.info.full_name}, split {split}"
        self._folder = builder.data_dir
        self._feature = feature
        self._expected = builder.info.splits[split].num_examples
        self.documents = self.blank = 0

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        self.documents = self.blank = 0
        for start in range(0, self._expected, BATCH):
            numbers = range(start, min(start + BATCH, self._expected))
            for number, example in zip(numbers, self._read(numbers), strict=True):
                text = self._decoded(example[self._feature], number)
                if text.strip():
                    self.documents += 1
                    yield text, True
                else:
                    self.blank += 1

    def _read(self, numbers: range) -> Any:
        try:
            return self._source.__getitems__(numbers)
        except Exception as error:  # the reader is C++ and raises RuntimeError for anything
            raise UserError(
                f"{self._where}: cannot read all of the {self._expected} examples that"
                f" dataset_info.json counts ({one_line(error, 100)}); remove {self._folder} and"
                " prepare it again"
            ) from error

    def _decoded(self, text: bytes | str, number: int) -> str:
        if isinstance(text, str):
            return text
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self._where}: example {number} is not UTF-8 at byte {error.start}; set"
                " data.text_feature to another feature, or mend the data"
            ) from error


def find_splits(names: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return which of the data set's splits are our train, valid and test.

    Raises:
        UserError: there is no train split.
    """
    found = {}
    for ours, theirs in SPLIT_NAMES.items():
        if there := [name for name in theirs if name in names]:
            found[ours] = there[0]
    if "train" not in found:
        raise UserError(f"{where} has no split called train; its splits are {', '.join(names)}")
    return found


def tfds_parts(data: ConfigDict, notes: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Read the data set, cutting missing splits from train.

    Yields:
        (split, a document, True), as `sources.text_parts` does.

    Raises:
        UserError: the data set cannot be had, or lacks a train split or a text.
    """
    builder = open_builder(data)
    feature = find_text_feature(builder.info.features, data.text_feature)
    names = find_splits(builder.info.splits, f"data.tfds_name={data.tfds_name}")
    examples = {split: Examples(builder, name, feature) for split, name in names.items()}
    fractions = (
        0.0 if "valid" in names else data.valid_fraction,
        0.0 if "test" in names else data.test_fraction,
    )
    train = examples.pop("train")
    if not any(fractions):
        yield from (("train", text, ends) for text, ends in train)
    elif data.split == "position":
        yield from deal_by_position(train, data, fractions)
    else:
        yield from deal_by_document(train, data, fractions)
    for split, documents in examples.items():
        yield from ((split, text, ends) for text, ends in documents)
    for split, documents in {"train": train, **examples}.items():
        blank = f", {documents.blank} blank ones left out" if documents.blank else ""
        count = f"{documents.documents} document(s){blank}"
        notes.append(f"{builder.info.full_name}: {names[split]} has {count} (feature {feature})")


def prepared_files(data: ConfigDict) -> list[epath.Path]:
    """Return the files that hold the prepared data set; prepare it first where it is not there."""
    folder = epath.Path(open_builder(data).data_dir)
    return sorted(path for path in folder.iterdir() if not path.is_dir())
