"""What our TFDS builders share: text files from a folder or the network, documents in order."""

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any, ClassVar

import tensorflow_datasets as tfds
from etils import epath

from txf import files
from txf.errors import UserError


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a file comes from.

    Attributes:
        names: what the file may be called in `manual_dir`, the preferred name first.
        url: where it is downloaded from, or None where it is part of another file.
        sha256: its checksum, where it is known; another file is refused.
    """

    names: tuple[str, ...]
    url: str | None
    sha256: str | None = None


def sha256_of(path: epath.Path) -> str:
    """Return the checksum of a file, read some megabytes at a time."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while raw := file.read(1 << 22):
            state.update(raw)
    return state.hexdigest()


class TextBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A data set whose examples are `{"text": document}`, kept in the order of the files.

    It is written as ArrayRecord, so neither writing nor reading takes TensorFlow, and it remembers
    the checksums of the files it was made of.

    Args:
        manual_dir: the folder that has the files; without it they are downloaded.
        options: those of `tfds.core.DatasetBuilder`, as `data_dir`.
    """

    ORIGINS: ClassVar[dict[str, Origin]]
    ABOUT: ClassVar[str]
    HOMEPAGE: ClassVar[str]
    LICENSE: ClassVar[str]

    def __init__(
        self, *, manual_dir: str | None = None, file_format: Any = "array_record", **options: Any
    ):
        self.manual_dir = manual_dir
        super().__init__(file_format=file_format, **options)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.ABOUT,
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
            disable_shuffling=True,
            homepage=self.HOMEPAGE,
            license=self.LICENSE,
            metadata=tfds.core.MetadataDict(),
        )

    def manual_files(self) -> dict[str, epath.Path]:
        """Return the files in `manual_dir`, by the names of `ORIGINS`; {} without `manual_dir`.

        Raises:
            UserError: the folder or a file that is needed is missing, or a checksum is wrong.
        """
        if self.manual_dir is None:
            return {}
        folder = files.absolute(self.manual_dir)
        found = {}
        for key, origin in self.ORIGINS.items():
            there = [folder / name for name in origin.names if (folder / name).exists()]
            if there:
                self._check(there[0], origin)
                found[key] = there[0]
            elif origin.url is not None:
                raise UserError(
                    f"data.manual_dir={self.manual_dir} has no {' or '.join(origin.names)}, which"
                    f" {self.name} is made of; download {origin.url} and put it there"
                )
        return found

    def changed_files(self, manual: dict[str, epath.Path]) -> list[str]:
        """Return which of the files differ from those that the prepared data was made of."""
        made_of = self.info.metadata.get("sha256", {})
        return [
            path.name for key, path in manual.items() if sha256_of(path) != made_of.get(key)
        ] + [key for key in made_of if key not in manual]

    def _check(self, path: epath.Path, origin: Origin) -> None:
        if origin.sha256 and (found := sha256_of(path)) != origin.sha256:
            raise UserError(
                f"{path} is not the file that {self.name} is made of: its sha256 starts"
                f" {found[:16]}, not {origin.sha256[:16]}; read texts of your own with"
                " data.source='text'"
            )

    def _files(self, dl_manager: tfds.download.DownloadManager) -> dict[str, epath.Path]:
        """Return the files of `manual_dir`, or download them; note their checksums."""
        found = self.manual_files()
        if self.manual_dir is None:
            for key, origin in self.ORIGINS.items():
                if origin.url is not None:
                    found[key] = epath.Path(dl_manager.download(origin.url))
                    self._check(found[key], origin)
        self.info.metadata["sha256"] = {key: sha256_of(path) for key, path in found.items()}
        return found

    def _generate_examples(self, texts: Iterator[str]) -> Iterator[tuple[int, dict[str, str]]]:
        for number, text in enumerate(texts):
            yield number, {"text": text}
