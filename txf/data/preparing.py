"""Preparing a TFDS data set without TensorFlow, nor waiting for a network that is not there.

TFDS tries a download ten times with growing pauses, and a name that does not resolve is such a
failure too; here a server must answer within seconds. Archives are unpacked by TensorFlow, which
TFDS notices when the download is done; here it is said before.
"""

import contextlib
import importlib.util
import io
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import downloader

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2")
# Seconds that a server may take to answer at all.
PATIENCE = 1.5


class Unreachable(Exception):
    """A URL that does not answer: there is no network, or no such server."""

    def __init__(self, url: str, reason: str):
        self.url = url
        super().__init__(f"cannot reach {url} ({reason})")


def check_reachable(url: str) -> None:
    """Ask for the head of `url`; any answer will do.

    Raises:
        Unreachable: there was none within `PATIENCE`.
    """
    outcome = ["no answer"]

    def ask() -> None:
        request = urllib.request.Request(url, method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE):
                outcome[0] = ""
        except urllib.error.HTTPError:
            outcome[0] = ""
        except (OSError, ValueError) as error:
            outcome[0] = str(getattr(error, "reason", None) or error)

    # A look-up of a name has no time limit of its own.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if outcome[0]:
        raise Unreachable(url, outcome[0])


@contextlib.contextmanager
def impatient_downloads() -> Iterator[None]:
    """Make TFDS's downloads start at once or fail, and retry but twice, while this is open.

    Raises (from the download):
        Unreachable: the server does not answer.
        ModuleNotFoundError: what is downloaded takes TensorFlow to unpack.
    """
    kept = downloader._open_url, downloader.MAX_RETRIES

    def open_url(url: str, **options: Any) -> Any:
        if url.endswith(ARCHIVES) and importlib.util.find_spec("tensorflow") is None:
            raise ModuleNotFoundError("archives are unpacked by tensorflow", name="tensorflow")
        check_reachable(url)
        return kept[0](url, **options)

    downloader._open_url, downloader.MAX_RETRIES = open_url, 2
    try:
        yield
    finally:
        downloader._open_url, downloader.MAX_RETRIES = kept


def prepare(builder: tfds.core.DatasetBuilder, manual_dir: str | None) -> None:
    """Download and write a data set as ArrayRecord, unless it is there.

    Raises:
        Exception: whatever the builder raises; `cause_of` finds what it comes from.
    """
    # Google's bucket of prepared data is of no use: it has TFRecord files.
    options = tfds.download.DownloadConfig(try_download_gcs=False, manual_dir=manual_dir)
    tfds.display_progress_bar(sys.stderr.isatty())
    try:
        # TFDS prints what it does, and a banner where it misses TensorFlow.
        with impatient_downloads(), contextlib.redirect_stdout(io.StringIO()):
            builder.download_and_prepare(download_config=options, file_format="array_record")
    except Exception:
        # Another process may have written the same in the meantime.
        if not is_prepared(builder):
            raise


def is_prepared(builder: tfds.core.DatasetBuilder) -> bool:
    """Tell whether the builder's folder is there and whole: dataset_info.json is written last."""
    return (builder.data_path / "dataset_info.json").exists()


def cause_of(error: BaseException, *kinds: type[BaseException]) -> Any | None:
    """Return the first error of these kinds that led to `error`, itself included, or None."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, kinds):
            return current
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return None


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return the error's kind and the start of its message, on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:limit]}{' ...' if len(text) > limit else ''}"
