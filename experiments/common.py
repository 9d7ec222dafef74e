"""What all command lines share: flags, config overrides, exit codes, and being asked to stop."""

import contextlib
import importlib.util
import logging
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from absl import flags
from ml_collections import ConfigDict, config_flags

from experiments import processes
from txf import hosts, subprocesses
from txf.config import ConfigError, flatten, key_type, set_key
from txf.errors import RunError, Stopped, UserError

OK, FAILED, WRONG_REQUEST, AGAIN, INTERRUPTED = 0, 1, 2, 75, 130

flags.DEFINE_bool("help", False, "Show what this command does, and its flags.")
_stop_signals: list[int] = []
_asked = False  # whether anybody has looked yet if it should stop


def should_stop() -> bool:
    """Tell whether this process has been asked to stop (SIGTERM or Ctrl-C) and should soon.

    Until this is first called nothing is under way that needs to be saved, and a signal stops the
    process at once.
    """
    global _asked
    _asked = True
    return bool(_stop_signals)


def run(
    main: Callable[[list[str]], None],
    *,
    many: bool = False,
    continues: flags.FlagHolder[str | None] | None = None,
) -> None:
    """Parse the command line, call `main` with its `--config.*` overrides, exit as DESIGN says.

    `many`: the command may run as one of many processes (see `experiments.processes`).
    `continues`: the flag with a folder whose runs are to be computed as they have been so far.

    0: done. 1: something failed at run time. 2: the request was wrong; one line on stderr, no
    traceback. 75 (SIGTERM) and 130 (Ctrl-C): stopped on request and saved; the same command
    continues.
    """
    set_up_logging()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _note_signal)
    agreed = True  # whether all processes, where they are many, end here
    try:
        overrides = parse_flags(sys.argv, many=many)
        use_compilation_cache()
        use_threads_of(None if continues is None else continues.value)
        processes.join() if many else processes.refuse()
        check_platform()
        with hosts.together():
            main(overrides)
        code = OK
    except UserError as error:
        code = _say(error, WRONG_REQUEST)
    except RunError as error:
        code = _say(error, FAILED)
        agreed = not isinstance(error, hosts.Lost)
    except (Stopped, KeyboardInterrupt) as error:
        text = str(error) or "stopped; the same command continues where this one was"
        code = _say(text, INTERRUPTED if signal.SIGINT in _stop_signals else AGAIN)
        agreed = isinstance(error, Stopped)
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except Exception as error:
        if isinstance(error, ImportError) and str(error).startswith("Please install"):
            # What fsspec says of a path in a store that takes a library to reach.
            code = _say(f"a path cannot be reached: {_one_line(error)}", WRONG_REQUEST)
        elif hosts.count() == 1:
            raise
        else:
            traceback.print_exc()
            code = FAILED
    if hosts.count() > 1:
        processes.leave(code, agreed)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process; after a failure at once.

    Threads and leftovers of a library that has failed would print below our line, or never end.
    """
    if code != FAILED:
        sys.exit(code)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _note_signal(number: int, _: object) -> None:
    """Ask the run to stop after what it is doing; a second Ctrl-C does not wait for that."""
    hurry = not _asked or (number == signal.SIGINT and bool(_stop_signals))
    _stop_signals.append(number)
    if hurry:
        raise KeyboardInterrupt


def _say(message: object, code: int) -> int:
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)
    return code


def parse_flags(argv: Sequence[str], *, many: bool = False) -> list[str]:
    """Parse absl flags and return the `--config.*` overrides, still as text, flag files included.

    Raises:
        UserError: a flag does not exist, lacks its value, or has one that does not fit; or words
            are left over.
    """
    try:
        arguments = flags.FLAGS.read_flags_from_files(list(argv[1:]), force_gnu=True)
    except flags.Error as error:
        raise UserError(_one_line(error)) from error
    rest, overrides = _split_overrides(arguments)
    if {"--help", "-help", "-h", "--helpfull", "--helpshort"} & set(rest):
        _print_help(many)
    try:
        left = flags.FLAGS([argv[0], *rest])
    except flags.Error as error:
        raise UserError(_one_line(error)) from error
    if left[1:]:
        raise UserError(f"unexpected {' '.join(map(repr, left[1:]))}; write flags as --name=value")
    return overrides


def _print_help(many: bool) -> None:
    main = sys.modules["__main__"]
    modules = [sys.argv[0], *([processes] if many else [])]
    print(main.__doc__.strip(), *map(flags.FLAGS.module_help, modules), sep="\n")
    sys.exit(OK)


def _split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part `--config.key=value` from other flags; a value after a space is joined to its key.

    absl would take `--config.key False` of a truth value for True and a leftover word.
    """
    rest: list[str] = []
    overrides: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            rest += [word, *waiting]
            break
        if not re.match(r"--?(no)?config\.", word):
            rest.append(word)
            continue
        word = "--" + word.lstrip("-")
        takes_value = "=" not in word and not word.startswith("--noconfig.")
        if takes_value and waiting and not re.match(r"--?[a-zA-Z]", waiting[0]):
            word = f"{word}={waiting.pop(0)}"
        overrides.append(word)
    return rest, overrides


def override(config: ConfigDict, overrides: Sequence[str]) -> ConfigDict:
    """Set in `config` what `--config.key=value` words ask for; None is written None.

    Raises:
        ConfigError: with a line for each key that does not exist and each value that does not fit.
    """
    problems = []
    known = flatten(config)
    for word in overrides:
        key, text = _key_of(word), word.partition("=")[2]
        try:
            if key not in known:
                set_key(config, key, None)  # says which key was meant
            if text == "None":
                set_key(config, key, None)
            else:
                _parse_into(config, key, word)
        except ConfigError as error:
            problems += error.problems
        except (flags.Error, ValueError, TypeError):
            kind = {bool: "True or False", int: "a whole number", float: "a number"}
            wanted = kind.get(key_type(key), "a text")
            problems.append(f"{key}={text!r} is not allowed; it takes {wanted}")
    if problems:
        raise ConfigError(problems)
    return config


def _parse_into(config: ConfigDict, key: str, word: str) -> None:
    """Let ml_collections read one override by the type of its key."""
    values = flags.FlagValues()
    argv = ["override", word]
    config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=argv)
    values(argv)
    set_key(config, key, flatten(values["config"].value)[key])


def load_file(path: str, flag: str) -> ModuleType:
    """Return the Python file at `path` as a module.

    Raises:
        UserError: there is no such file, or it cannot be executed.
    """
    if not os.path.isfile(path):
        raise UserError(f"--{flag}={path} is not a file")
    spec = importlib.util.spec_from_file_location(f"_{flag}_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"--{flag}={path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except Exception as error:  # whatever a person's own file may raise
        raise UserError(f"--{flag}={path} cannot be loaded: {_error(error)}") from error
    return module


def load_config(path: str, overrides: Sequence[str]) -> ConfigDict:
    """Return what `get_config()` of the file at `path` gives, with the overrides set.

    Where the file has a `complete(config, given)`, it is told which keys were overridden, and sets
    what follows from them.

    Raises:
        UserError: the file cannot be used, or an override does not fit.
    """
    module = load_file(path, "config")
    if not hasattr(module, "get_config"):
        raise UserError(f"--config={path} defines no get_config()")
    try:
        config = module.get_config()
    except UserError:
        raise
    except Exception as error:  # whatever a person's own file may raise
        raise UserError(f"--config={path}: get_config() fails: {_error(error)}") from error
    if not isinstance(config, ConfigDict):
        raise UserError(f"--config={path}: get_config() returns no ConfigDict")
    config = override(config, overrides)
    if hasattr(module, "complete"):
        module.complete(config, {_key_of(word) for word in overrides})
    return config.lock()


def _key_of(word: str) -> str:
    return re.sub(r"^--(no)?config\.", "", word.partition("=")[0])


def set_up_worker() -> None:
    """Prepare a process that works for a command as the command itself is prepared."""
    set_up_logging()
    use_compilation_cache()


def set_up_logging() -> None:
    """Let txf say what it has to say, and libraries warn, on stderr."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("txf").setLevel(logging.INFO)
    # What Orbax leaves of a save that failed; a line of ours says that it failed.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)


def use_threads_of(workdir: str | None) -> None:
    """Let JAX, before it starts, compute with as many threads as the runs in `workdir` so far.

    Rounding hangs on their number.
    """
    if workdir is None:
        return
    from txf.training.run import threads_of

    count = threads_of(workdir)
    if count is not None and count != subprocesses.threads():
        os.environ[subprocesses.THREADS_VARIABLES[0]] = str(count)


def use_compilation_cache() -> None:
    """Keep compiled programs between commands, in the user's cache folder.

    JAX_COMPILATION_CACHE_DIR names another; set to an empty string it switches the cache off.
    """
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        jax.config.update("jax_compilation_cache_dir", os.path.join(home, "txf", "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def check_platform() -> None:
    """Refuse to go on where the platform that JAX_PLATFORMS asks for is not there.

    Raises:
        UserError: it is not.
    """
    import jax

    names = [name for name in (jax.config.jax_platforms or "").split(",") if name]
    for name in names:
        try:
            jax.devices(name)
        except (RuntimeError, AssertionError) as error:  # the latter where no plugin is installed
            said = f" ({_one_line(error).split(' (set JAX_PLATFORMS')[0]})" if str(error) else ""
            raise UserError(
                f"JAX_PLATFORMS={','.join(names)}: JAX finds no {name} device here{said}; unset "
                "it to use what there is, or install txf with the extra for the device: cuda or tpu"
            ) from error


def _error(error: Exception) -> str:
    where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
    return f"{type(error).__name__}: {_one_line(error)}{where}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def print_progress(event: Mapping[str, Any]) -> None:
    """Print what a training loop says of itself, a line an event."""
    if event["phase"] == "train":
        left = (event["steps"] - event["step"]) / max(event["steps_per_second"], 1e-9)
        print(
            f"step {event['step']:>6}/{event['steps']}  loss {event['loss']:.4f}  "
            f"{event['steps_per_second']:.1f} steps/s  {left:.0f} s left",
            flush=True,
        )
    elif event["phase"] == "note":
        print(event["text"], flush=True)


def print_metrics(metrics: Mapping[str, Mapping[str, float | None]]) -> None:
    """Print the metrics of each split, a line each."""
    for split, values in metrics.items():
        known = {name: value for name, value in values.items() if value is not None}
        print(f"{split}: " + "  ".join(f"{name} {value:.4f}" for name, value in known.items()))
