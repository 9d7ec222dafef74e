"""tiny-shakespeare: one document a split, cut by characters.

| `data.tfds_name`           | train      | validation | test     | by data.source=text     |
|----------------------------|------------|------------|----------|-------------------------|
| `tiny_shakespeare`         | first 90 % | next 5 %   | last 5 % | fractions 0.05 and 0.05 |
| `tiny_shakespeare/nanogpt` | first 90 % | last 10 %  | none     | fractions 0.1 and 0     |

With data.split=position and data.documents=one the last column gives the same splits. The first is
TFDS's own split, the second nanoGPT's, `data[:int(n * 0.9)]` and `data[int(n * 0.9):]`; it has no
test split, so set data.test_fraction=0.
"""

from typing import Any

import tensorflow_datasets as tfds

from txf.data.builders.text_builder import Origin, TextBuilder
from txf.data.reading import read_text

NANOGPT = "nanogpt"


class TinyShakespeare(TextBuilder, skip_registration=True):
    """40,000 lines of Shakespeare's plays, as char-rnn and nanoGPT use them."""

    name = "tiny_shakespeare"
    # TFDS has 1.0.0, in another layout.
    VERSION = tfds.core.Version("2.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012 - TFDS wants a list
        tfds.core.BuilderConfig(name="tfds", description="90 %, 5 % and 5 % of the characters."),
        tfds.core.BuilderConfig(name=NANOGPT, description="90 % and 10 %, as nanoGPT has it."),
    ]
    ORIGINS = {  # noqa: RUF012
        "input": Origin(
            ("input.txt",),
            "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        )
    }
    ABOUT = "40,000 lines of Shakespeare's plays, a document a split."
    HOMEPAGE = "https://github.com/karpathy/char-rnn"
    LICENSE = "Public-domain text."

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        text, _ = read_text(self._files(dl_manager)["input"], "data.manual_dir")
        border = int(len(text) * 0.9)
        train, rest = text[:border], text[border:]
        if self.builder_config.name == NANOGPT:
            parts = {"train": train, "validation": rest}
        else:
            half = int(len(rest) * 0.5)
            parts = {"train": train, "validation": rest[:half], "test": rest[half:]}
        return {name: self._generate_examples(iter([part])) for name, part in parts.items()}
