"""A whole sweep timed, from the command to the report."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from txf.errors import RunError

SWEEP = "configs/sweeps/quickstart.py"
OVERRIDES = ("--config.training.steps=20", "--config.data.bytes=50000")


def sweep_rows(sweep: str = SWEEP, overrides: tuple[str, ...] = OVERRIDES) -> list[dict[str, Any]]:
    """Run a sweep twice in folders of its own: with no program compiled before, and with all.

    The seconds are those of the whole command: start, data, compilation, training, checkpoints,
    evaluation, table and report.

    Raises:
        RunError: the sweep fails; with what it said last.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(Path(folder) / "programs")}
        for name in ("cold", "warm"):
            workdir = f"--workdir={Path(folder) / name}"
            command = [sys.executable, "-m", "experiments.sweep", f"--sweep={sweep}", workdir]
            start = time.perf_counter()
            done = subprocess.run(
                [*command, *overrides], env=variables, capture_output=True, text=True, check=False
            )
            seconds = time.perf_counter() - start
            if done.returncode:
                last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
                raise RunError(f"the sweep {sweep} failed: {last}")
            rows.append({"sweep": " ".join([sweep, *overrides]), "programs": name, "s": seconds})
    return rows
