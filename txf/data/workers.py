"""Tokenizing a large text in several processes at once, its order kept.

Threads would not do: but for the library behind bpe, a tokenizer holds the interpreter while it
works. The processes are started afresh and not forked, as JAX has threads that a fork would lose.
One reads groups of texts from its standard input and writes their ids to its standard output. It
ends with its input, so also when whoever started it was killed.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Integer

from txf.data.tokenizers import Tokenizer, check_ids, from_json
from txf.errors import RunError, UserError

# A process of its own takes as long to start as to tokenize a few megabytes ...
SHARE = 1 << 24
# ... and up to 100 MB of memory; more of them would wait for who reads the text.
MOST = 12
ROOT = Path(__file__).parents[2]

# Texts to tokenize one after the other; None is an end of text.
Group = list[str | None]


class Encoded(NamedTuple):
    """What became of a group: its ids, and how much of what they are."""

    ids: Integer[np.ndarray, "tokens"]
    text_bytes: int
    ends: int
    unknown: int


def encode_group(tokenizer: Tokenizer, group: Group) -> Encoded:
    """Tokenize each text of a group by itself.

    Raises:
        UserError: a text is no Unicode, or the tokenizer gives ids beyond its vocabulary.
    """
    texts = [text for text in group if text is not None]
    encoded = iter(tokenizer.encode_many(texts))
    end = np.full(1, tokenizer.end_of_text, tokenizer.dtype)
    stream = [end if text is None else next(encoded) for text in group]
    ids = np.concatenate([np.zeros(0, tokenizer.dtype), *stream])
    check_ids(ids, tokenizer.vocab_size, "the text")
    return Encoded(
        ids=ids,
        text_bytes=sum(len(text.encode()) for text in texts),
        ends=len(group) - len(texts),
        unknown=0 if tokenizer.unknown is None else int((ids == tokenizer.unknown).sum()),
    )


def num_workers(size: int) -> int:
    """Return how many processes should tokenize a text of `size` bytes: at most one a core."""
    # Which cores this process may use is known on Linux only.
    usable = getattr(os, "sched_getaffinity", None)
    cores = len(usable(0)) if usable else os.cpu_count() or 1
    return max(1, min(cores, MOST, size // SHARE))


def encode_in_order(
    tokenizer: Tokenizer, groups: Iterable[tuple[str, Group]], workers: int
) -> Iterator[tuple[str, Encoded]]:
    """Tokenize named groups, and yield them in their order: the same for any number of `workers`.

    Groups are asked for as they are needed, and as many as there are workers are held. One worker
    is this process itself. Close the iterator to end the processes early.

    Raises:
        UserError: as `encode_group`.
        RunError: a process ended before its work was done.
    """
    if workers == 1:
        for name, group in groups:
            yield name, encode_group(tokenizer, group)
        return
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_started(tokenizer)) for _ in range(workers)]
        busy: deque[tuple[str, subprocess.Popen[bytes]]] = deque()
        # In turn: the process that has worked the longest is read, and gets the next group. It
        # never has two, so that it never writes to one who writes to it.
        for number, (name, group) in enumerate(groups):
            if len(busy) == workers:
                first, process = busy.popleft()
                yield first, _receive(process)
            process = processes[number % workers]
            _send(process, group)
            busy.append((name, process))
        for first, process in busy:
            yield first, _receive(process)


@contextlib.contextmanager
def _started(tokenizer: Tokenizer) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that tokenizes; it is gone when this is left."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        "TOKENIZERS_PARALLELISM": "false",  # there is a process for every core already
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        process_group=0,  # Ctrl-C is for the one who started it
    )
    try:
        _send(process, tokenizer.to_json())
        yield process
    finally:
        process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        process.wait()


def _send(process: subprocess.Popen[bytes], message: Any) -> None:
    try:
        pickle.dump(message, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
    except BrokenPipeError as error:
        raise _ended(process) from error


def _receive(process: subprocess.Popen[bytes]) -> Encoded:
    try:
        result = pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError) as error:
        raise _ended(process) from error
    if isinstance(result, UserError):
        raise result
    return result


def _ended(process: subprocess.Popen[bytes]) -> RunError:
    return RunError(
        f"a process that tokenizes ended early, with status {process.wait()}; if memory ran out,"
        " free some, and start again"
    )


def main() -> None:
    """Tokenize the groups that come on standard input, until there are no more."""
    tasks = sys.stdin.buffer
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no result
    # Who started this process has gone where it reads or writes half of something.
    with contextlib.suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        tokenizer = from_json(pickle.load(tasks), "the tokenizer")
        while True:
            try:
                result = encode_group(tokenizer, pickle.load(tasks))
            except UserError as error:
                result = error
            pickle.dump(result, results, pickle.HIGHEST_PROTOCOL)
            results.flush()
