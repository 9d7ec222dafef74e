"""The package as a whole: importing it is free, and what is committed holds nowhere but here."""

import configparser
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HEAVY = {
    "jax",
    "flax",
    "optax",
    "orbax",
    "grain",
    "tokenizers",
    "matplotlib",
    "pandas",
    "scipy",
    "numpy",
}
HEAVY |= {"tensorflow_datasets", "etils"}


def tracked_files():
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_importing_txf_loads_nothing_heavy_and_takes_no_time(run_python):
    program = (
        "import sys, time; start = time.perf_counter(); import txf;"
        "print(time.perf_counter() - start, *sys.modules)"
    )
    child = run_python(["-c", program])
    assert child.returncode == 0, child.stderr
    seconds, *modules = child.stdout.split()
    assert float(seconds) < 0.5
    assert not HEAVY & set(modules)


def test_no_file_names_a_machine_or_a_registry_host():
    # Pieces, so that this file does not find itself.
    patterns = ["/" + "work/", "/" + "root/", r"\.pyenv" + "/versions", "files.python" + "hosted"]
    patterns += ["pypi" + r"\.org", "/" + r"home/\w", "/" + r"Users/\w", "/" + r"tmp/\w"]
    pattern = re.compile("|".join(patterns).encode())
    found = []
    for path in tracked_files():
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line[:80]!r}")
    assert not found, "\n".join(found)


def test_every_requirement_is_pinned_for_every_python():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    wanted = (
        config["options"]["install_requires"] + extras["test"] + extras["tensorboard"]
    ).split()
    normal = [re.split(r"[<>=\[]", name)[0].replace("_", "-").lower() for name in wanted]
    pins = [
        line.partition(" ;")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", pin) for pin, _, _ in pins)
    everywhere = {pin.split("==")[0] for pin, _, marker in pins if not marker}
    older = {pin.split("==")[0] for pin, _, marker in pins if '< "3.12"' in marker}
    newer = {pin.split("==")[0] for pin, _, marker in pins if '>= "3.12"' in marker}
    assert not set(normal) - everywhere - (older & newer)
