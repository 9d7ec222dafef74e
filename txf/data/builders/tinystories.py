"""TinyStories V2 (GPT-4), a document a story, in the order of the files.

In `data.manual_dir` the files are called as on the web or train.txt, valid.txt and test.txt, with
`<|endoftext|>` between stories. The published files have no test split: where there is no test
file, the first half of the validation stories is the validation split and the second half the test
split.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import tensorflow_datasets as tfds
from etils import epath

from txf.data.builders.text_builder import Origin, TextBuilder
from txf.data.reading import read_chunks
from txf.data.sources import split_documents

WEB = "https://huggingface.co/datasets/roneneldan/TinyStories/resolve/main/TinyStoriesV2-GPT4"


def stories(path: epath.Path) -> Iterator[str]:
    """Yield the stories of a file, never holding more than a few megabytes of it."""
    documents, _ = split_documents(partial(read_chunks, path, "data.manual_dir", []), "endoftext")
    return (story for story, _ in documents)


class TinyStories(TextBuilder, skip_registration=True):
    """Short stories in the words of small children, written by GPT-4."""

    name = "tinystories"
    VERSION = tfds.core.Version("2.0.0")
    ORIGINS = {  # noqa: RUF012
        "train": Origin(("TinyStoriesV2-GPT4-train.txt", "train.txt"), f"{WEB}-train.txt"),
        "valid": Origin(("TinyStoriesV2-GPT4-valid.txt", "valid.txt"), f"{WEB}-valid.txt"),
        "test": Origin(("test.txt",), None),
    }
    ABOUT = "Short stories in the words of small children (Eldan and Li 2023), version 2, by GPT-4."
    HOMEPAGE = "https://huggingface.co/datasets/roneneldan/TinyStories"
    LICENSE = "CDLA-Sharing-1.0"

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        paths = self._files(dl_manager)
        train, valid = stories(paths["train"]), stories(paths["valid"])
        if "test" in paths:
            test = stories(paths["test"])
        else:
            half = (1 + sum(1 for _ in stories(paths["valid"]))) // 2
            valid = itertools.islice(valid, half)
            test = itertools.islice(stories(paths["valid"]), half, None)
        splits = {"train": train, "validation": valid, "test": test}
        return {name: self._generate_examples(texts) for name, texts in splits.items()}
