"""What all tests share: a CPU, caches of their own, child processes and the shared data sets."""

import os
import subprocess
import sys
from pathlib import Path

# Before anything imports JAX. One device: simulating more slows every other test, so tests of
# several devices run in child processes, which `run_python` starts.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["MPLBACKEND"] = "agg"

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory):
    """One temporary folder for the whole session, also where several workers share it."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session", autouse=True)
def own_caches(session_folder):
    """Keeps the tests out of the user's caches, and the user's caches out of the tests.

    What one test or child process has compiled, all others of the session find there.
    """
    from experiments.common import use_compilation_cache

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(session_folder / "cache"))
        patch.setenv("TFDS_DATA_DIR", str(session_folder / "tfds"))
        patch.setenv("MPLCONFIGDIR", str(session_folder / "matplotlib"))
        use_compilation_cache()
        yield


@pytest.fixture(scope="session")
def run_python(session_folder, own_caches):
    """A function that runs `python ARGS` in a child process, from the root of the repository.

    Give `devices=8` to simulate that many, with code that is compiled quickly rather than well,
    `env={...}` for further variables. Returns the CompletedProcess, text captured; a failure is
    the test's to judge.
    """

    def run(args, devices=1, timeout=300, env=None, **options):
        variables = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "default",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"
            + (" --xla_backend_optimization_level=0" if devices > 1 else ""),
            **(env or {}),
        }
        options = {"cwd": ROOT, "capture_output": True, "text": True, **options}
        return subprocess.run(
            [sys.executable, *map(str, args)], env=variables, timeout=timeout, **options
        )

    return run


@pytest.fixture(scope="session")
def shared_data():
    """A function from a name to the folder of that shared data set; skips where it is not there."""

    def folder(name):
        path = SHARED / name
        if not path.is_dir():
            pytest.skip(f"no folder ../shared/data/{name} beside the repository")
        return path

    return folder


@pytest.fixture
def tiny_config():
    """A complete config of a run that takes seconds: one block, ten steps, a few kilobytes."""
    from txf.config import default_config

    config = default_config()
    config.data.bytes = 20_000
    config.data.context_length = 16
    config.model.depth = 1
    config.model.width = 16
    config.model.num_heads = 2
    config.training.steps = 10
    config.training.batch_size = 4
    config.training.eval_batch_size = 8
    config.training.log_every = 5
    config.training.eval_every = 10
    config.training.checkpoint_every = 10
    return config
