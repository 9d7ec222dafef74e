"""Runs many command lines in forks of one process, so that libraries are imported once.

python -m tests.experiments.commands reads a JSON list of [module, word, ...] and prints a list of
[exit code, stdout, stderr]. The module `config` prints the config that `train` would train.
"""

import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
import warnings


def show_config():
    """Print the config that a training command line asks for, and exit."""
    from experiments import common, train
    from txf.config import to_json

    overrides = common.parse_flags(sys.argv)
    print(to_json(common.load_config(train._CONFIG.value, overrides)))
    sys.exit(0)


def in_fork(module, *words):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = [f"{module}.py", *words]
            code = 1
            try:
                if module == "config":
                    show_config()
                runpy.run_module(f"experiments.{module}", run_name="__main__", alter_sys=True)
            except SystemExit as end:
                code = end.code or 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return code, *texts


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # JAX's about forks: nothing has started threads yet
    commands = json.load(sys.stdin)
    libraries = ["txf.training.loop", "txf.training.reopen"]
    if any(module == "reproduce" for module, *_ in commands):
        libraries += ["txf.report", "txf.report.figures", "txf.sweeps.table"]
    for library in libraries:
        importlib.import_module(library)
    print(json.dumps([in_fork(*command) for command in commands]))
