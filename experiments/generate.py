"""Continue a text with the model of a run; translate it, where the run learned to translate.

python -m experiments.generate --workdir=RUN --prompt="Once upon a time" [--max_new_tokens=N]
    [--temperature=T] [--top_k=K] [--top_p=P] [--seed=S] [--num_samples=N] [--step=N]

On a terminal the text appears as it is made.  A run whose rows are whole documents has only seen
texts from their beginning, so there the prompt is read as one.
"""

import sys
from collections.abc import Callable

from absl import flags

from experiments import common
from txf.errors import Stopped, UserError

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run.")
_STEP = flags.DEFINE_integer("step", None, "Step of the checkpoint; the last one if not given.")
_PROMPT = flags.DEFINE_string("prompt", "", "The text to go on from; empty: begin a new one.")
_MAX_NEW_TOKENS = flags.DEFINE_integer("max_new_tokens", 200, "The most tokens to add.")
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "0: always the likeliest token.")
_TOP_K = flags.DEFINE_integer("top_k", None, "Choose among this many likeliest tokens.")
_TOP_P = flags.DEFINE_float("top_p", None, "Choose among the likeliest that make up this share.")
_SEED = flags.DEFINE_integer("seed", 0, "Same seed, same text.")
_NUM_SAMPLES = flags.DEFINE_integer("num_samples", 1, "How many continuations to make.")
flags.mark_flag_as_required("workdir")

SAMPLING = ("temperature", "top_k", "top_p", "seed", "num_samples")


def main(overrides: list[str]) -> None:
    """Print the prompt and what the model makes of it."""
    if overrides:
        raise UserError(f"a run generates with its own config; drop {' '.join(overrides)}")
    check_flags()

    from txf.training.reopen import open_run
    from txf.training.run import RunFolder

    config = RunFolder.at(_WORKDIR.value).config
    if config.task not in ("language_model", "translation"):
        raise UserError(f"the run at {_WORKDIR.value} is of task={config.task}; it writes no text")
    run = open_run(_WORKDIR.value, _STEP.value)
    prompt = encode_prompt(run.tokenizer, _PROMPT.value)
    if config.task == "translation":
        translate(run, prompt)
    else:
        continue_text(run, prompt)


def check_flags() -> None:
    """Refuse values without meaning before anything is loaded.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    from txf.generation import check_sampling

    check_sampling(_TEMPERATURE.value, _TOP_K.value, _TOP_P.value)
    for flag in (_MAX_NEW_TOKENS, _NUM_SAMPLES):
        if flag.value < 1:
            raise UserError(f"--{flag.name}={flag.value} is out of range; it takes 1 or more")
    if not 0 <= _SEED.value < 2**32:
        raise UserError(f"--seed={_SEED.value} is out of range; it takes 0 to {2**32 - 1}")


def encode_prompt(tokenizer, text: str) -> list[int]:
    """Return the prompt's token ids.

    Raises:
        UserError: a part of it is not in the vocabulary; the message quotes it.
    """
    ids, starts = tokenizer.encode_with_starts(text)
    stops = [*starts, len(text)][1:]
    strange = dict.fromkeys(
        text[start:stop]
        for token, start, stop in zip(ids, starts, stops, strict=True)
        if tokenizer.unknown is not None and token == tokenizer.unknown
    )
    if strange:
        named = ", ".join(map(repr, list(strange)[:5])) + (" ..." if len(strange) > 5 else "")
        raise UserError(
            f"--prompt has {named}, which the run's {tokenizer.kind} vocabulary does not know; "
            "use what its training text uses"
        )
    return [int(token) for token in ids]


def continue_text(run, prompt: list[int]) -> None:
    """Sample continuations of the prompt and print them."""
    from txf.generation import generate

    end = run.tokenizer.end_of_text
    begins = run.config.data.packing != "windows"
    samples = _NUM_SAMPLES.value
    stream = sys.stdout.isatty() and samples == 1
    printer = Printer(run.tokenizer, prompt)
    if stream:
        printer.begin(_PROMPT.value)
    rows = generate(
        run.model,
        run.params,
        [[end, *prompt] if begins else prompt] * samples,
        max_new_tokens=_MAX_NEW_TOKENS.value,
        temperature=_TEMPERATURE.value,
        top_k=_TOP_K.value,
        top_p=_TOP_P.value,
        seed=_SEED.value,
        end_of_text=end,
        on_token=printer.add if stream else None,
        notice=say_once(),
    )
    if stream:
        printer.end()
        return
    for number, row in enumerate(rows, start=1):
        if samples > 1:
            print(f"--- {number} of {samples} ---")
        printer = Printer(run.tokenizer, prompt)
        printer.begin(_PROMPT.value)
        for token in row:
            printer.add(0, int(token))
        printer.end()


def say_once() -> Callable[[str], None]:
    """Return a function that prints the first text it is given on stderr, and no other."""
    said: list[str] = []

    def say(text: str) -> None:
        if not said:
            print(f"generate: {text}", file=sys.stderr)
        said.append(text)

    return say


class Printer:
    """Prints tokens as text while they come, and a character only when it is whole."""

    def __init__(self, tokenizer, prompt: list[int]):
        self._tokenizer = tokenizer
        self._ids = list(prompt)
        self._shown = len(tokenizer.decode(prompt))

    def begin(self, prompt: str) -> None:
        """Print the prompt."""
        print(prompt, end="", flush=True)

    def add(self, row: int, token: int) -> None:
        """Print what `token` adds.

        Raises:
            Stopped: the person asked to stop.
        """
        del row
        self._ids.append(token)
        # A token may end inside a character: its first bytes read as U+FFFD until the rest comes.
        self._show(self._tokenizer.decode(self._ids).rstrip("\ufffd"))
        if common.should_stop():
            raise Stopped("stopped")

    def end(self) -> None:
        """Print what was held back, and end the line."""
        self._show(self._tokenizer.decode(self._ids))
        print(flush=True)

    def _show(self, text: str) -> None:
        if len(text) > self._shown:
            print(text[self._shown :], end="", flush=True)
            self._shown = len(text)


def translate(run, prompt: list[int]) -> None:
    """Print the prompt's translation, the best that the run's own beams find."""
    if given := [name for name in SAMPLING if flags.FLAGS[name].present]:
        raise UserError(f"a translation is searched for, not sampled; drop --{given[0]}")

    import jax.numpy as jnp

    from txf.beam_search import beam_search

    end = run.tokenizer.end_of_text
    length = run.config.data.context_length
    source = [*prompt[: length - 1], end]
    if len(prompt) >= length:
        say_once()(f"the prompt has {len(prompt)} tokens; the first {length - 1} are translated")
    (row,) = beam_search(
        run.model,
        run.params,
        jnp.asarray([source], jnp.int32),
        beams=run.config.evaluation.beams,
        max_new_tokens=_MAX_NEW_TOKENS.value,
    ).tolist()
    print(_PROMPT.value)
    print(run.tokenizer.decode(row[: row.index(end)] if end in row else row))


if __name__ == "__main__":
    common.run(main)
