"""Whether other processes are still there."""

from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc"
)


def is_alive(pid: int | str) -> bool:
    """Tell whether a process has not ended."""
    stat = Path(f"/proc/{pid}/stat")
    # One that has ended waits there, as Z, for whoever takes note of it.
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
