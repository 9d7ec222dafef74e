"""Tokenizing a large text in several processes at once, its order kept.

Threads would not do: but for the library behind bpe, a tokenizer holds the interpreter while it
works. Each process (see `txf.subprocesses`) is given groups of texts and answers with their ids.
"""

import contextlib
import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer

from txf import subprocesses
from txf.data.tokenizers import Tokenizer, check_ids, from_json
from txf.errors import UserError

# A process of its own takes as long to start as to tokenize a few megabytes ...
SHARE = 1 << 24
# ... and up to 100 MB of memory; more of them would wait for who reads the text.
MOST = 12

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
    return max(1, min(subprocesses.cores(), MOST, size // SHARE))


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
        started = [stack.enter_context(_started(tokenizer)) for _ in range(workers)]
        busy: deque[tuple[str, subprocesses.Process]] = deque()
        # In turn: the process that has worked the longest is read, and gets the next group. It
        # never has two, so that it never writes to one who writes to it.
        for number, (name, group) in enumerate(groups):
            if len(busy) == workers:
                first, process = busy.popleft()
                yield first, _receive(process)
            process = started[number % workers]
            subprocesses.send(process, group)
            busy.append((name, process))
        for first, process in busy:
            yield first, _receive(process)


@contextlib.contextmanager
def _started(tokenizer: Tokenizer) -> Iterator[subprocesses.Process]:
    """Start a process that tokenizes; it is gone when this is left."""
    alone = {"TOKENIZERS_PARALLELISM": "false"}  # there is a process for every core already
    with subprocesses.started(main, alone) as process:
        subprocesses.send(process, tokenizer.to_json())
        yield process


def _receive(process: subprocesses.Process) -> Encoded:
    result = subprocesses.receive(process)
    if isinstance(result, UserError):
        raise result
    return result


def main() -> None:
    """Tokenize the groups that come as orders, until there are no more."""
    orders, answers = subprocesses.channel()
    # Who started this process has gone where it reads or writes half of something.
    with contextlib.suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        tokenizer = from_json(pickle.load(orders), "the tokenizer")
        while True:
            try:
                result = encode_group(tokenizer, pickle.load(orders))
            except UserError as error:
                result = error
            pickle.dump(result, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
