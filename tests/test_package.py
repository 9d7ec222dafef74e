"""The package as a whole: what it imports, what it holds, and what its documents say of it."""

import ast
import configparser
import importlib.util
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HEAVY = {"jax", "flax", "optax", "orbax", "tokenizers", "matplotlib", "pandas", "scipy"}
HEAVY |= {"numpy", "tensorflow_datasets", "etils"}

# The map of the library: modules, or packages where one file would be too long.
MAP = {
    "txf": "config generation beam_search errors files hosts",
    "txf.nn": "attention positions normalization feedforward block transformer heads baselines"
    " build",
    "txf.data": "storyworld probes sources tokenizers batches builders",
    "txf.training": "losses optimizers state step loop evaluation checkpoints parallel logging"
    " lanes diagnostics peak",
    "txf.sweeps": "grid packing runner statistics hypotheses table",
    "txf.report": "figures",
    "txf.benchmark": "shapes timing steps",
    "experiments": "train sweep evaluate reproduce generate inspect_data benchmark",
    "configs": "storyworld",
    "configs.sweeps": "quickstart",
}

# What each part may import of the project besides itself. Arrows point one way.
PARTS = {
    "txf/nn": {"nn"},
    "txf/data": {"data"},
    "txf/training": {"nn", "data", "training", "beam_search"},
    "txf/sweeps": {"nn", "data", "training", "sweeps"},
    "txf/benchmark": {"nn", "training", "generation", "benchmark"},
    "txf/report": {"sweeps", "report", "training", "data", "nn"},
}
BASICS = {"config", "errors", "files", "hosts", "subprocesses"}

COMMANDS = sorted(
    path.stem
    for path in (ROOT / "experiments").glob("*.py")
    if '__name__ == "__main__"' in path.read_text()
)


def tracked_files():
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def documents():
    """Yields the name and the text of whatever tells people what to type."""
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        yield str(path.relative_to(ROOT)), path.read_text()
    for path in ROOT.glob("configs/**/*.py"):
        yield str(path.relative_to(ROOT)), ast.get_docstring(ast.parse(path.read_text())) or ""


def commands_in(text):
    """Returns the words of each `python -m experiments...`, lines that go on with \\ joined."""
    text = re.sub(r"\\\n\s*", " ", text)
    # Until the end of the line, of the quotation, or of the command.
    found = re.findall(r"python -m (experiments\.\w+[^\n`#|;&(]*)", text)
    return [shlex.split(re.sub(r"\[([^\]]*)\]", r"\1", words)) for words in found]


@pytest.fixture(scope="module")
def help_texts(run_python):
    """What each command says to --help."""
    children = {name: run_python(["-m", f"experiments.{name}", "--help"]) for name in COMMANDS}
    failed = [name for name, child in children.items() if child.returncode or child.stderr]
    assert not failed, [children[name].stderr for name in failed]
    return {name: child.stdout for name, child in children.items()}


def test_importing_txf_loads_nothing_heavy_and_takes_no_time(run_python):
    program = (
        "import sys, time; start = time.process_time(); import txf;"
        "print(time.process_time() - start, *sys.modules)"
    )
    child = run_python(["-c", program])
    assert child.returncode == 0, child.stderr
    seconds, *modules = child.stdout.split()
    assert float(seconds) < 0.5
    assert not HEAVY & set(modules)


def test_importing_any_module_touches_no_device_and_reads_no_flag(run_python):
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(ROOT.glob("txf/**/*.py"))
        if path.stem != "torch_peer"  # it needs torch, which only the extra `oracle` installs
    ]
    program = (
        "import importlib, sys, warnings\n"
        f"for name in {names}: importlib.import_module(name)\n"
        "import jax\n"
        "from absl import flags\n"
        "assert not jax._src.xla_bridge.backends_are_initialized(), 'a device was touched'\n"
        "own = [name for name in flags.FLAGS.flags_by_module_dict() if name.startswith('txf')]\n"
        "assert not own, own\n"
    )
    child = run_python(["-c", program])
    assert child.returncode == 0, child.stderr


@pytest.mark.parametrize("parent", MAP)
def test_the_map_is_the_territory(parent):
    missing = [
        name for name in MAP[parent].split() if importlib.util.find_spec(f"{parent}.{name}") is None
    ]
    assert not missing


@pytest.mark.parametrize("part", PARTS)
def test_arrows_point_one_way(part):
    allowed = PARTS[part] | BASICS
    for path in sorted((ROOT / part).glob("**/*.py")):
        for name in imports_of(path):
            top, _, rest = name.partition(".")
            assert top not in ("experiments", "configs", "tests"), f"{path}: {name}"
            assert top != "txf" or rest.split(".")[0] in allowed, f"{path}: {name}"


def test_no_file_names_a_machine_or_a_registry_host():
    # In pieces, so that this file does not find itself.
    patterns = ["/" + "work/", "/" + "root/", r"\.pyenv" + "/versions/3", "files.python" + "hosted"]
    patterns += ["pypi" + r"\.org", "/" + r"home/\w", "/" + r"Users/\w"]
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
    wanted = config["options"]["install_requires"]
    wanted += "".join(extras[name] for name in extras if name != "oracle")
    lines = [line for line in wanted.splitlines() if line and not line.startswith("#")]
    names = {re.split(r"[<>=\[]", line)[0].replace("_", "-").lower() for line in lines}
    pins = [
        line.partition(" ;")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", pin) for pin, _, _ in pins)
    everywhere = {pin.split("==")[0] for pin, _, marker in pins if not marker}
    older = {pin.split("==")[0] for pin, _, marker in pins if '< "3.12"' in marker}
    newer = {pin.split("==")[0] for pin, _, marker in pins if '>= "3.12"' in marker}
    assert not names - everywhere - (older & newer)


def test_every_command_explains_itself(help_texts):
    for name, text in help_texts.items():
        assert f"python -m experiments.{name}" in text, name


def test_documents_name_commands_flags_keys_and_files_that_exist(help_texts):
    from txf.config import default_config, flatten

    keys = set(flatten(default_config()))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    problems = []
    for document, text in documents():
        for target in re.findall(r"^\s*make (\w+)|`make (\w+)", text, flags=re.MULTILINE):
            if not set(target) & targets:
                problems.append(f"{document}: make {target[0] or target[1]}")
        for module, *words in commands_in(text):
            command = module.removeprefix("experiments.")
            if command not in help_texts:
                problems.append(f"{document}: python -m {module}")
                continue
            for word in words:
                flag, _, value = word.partition("=")
                if key := re.match(r"--config\.([\w.]+)", flag):
                    if key[1] not in keys and not any(k.startswith(f"{key[1]}.") for k in keys):
                        problems.append(f"{document}: {command} {word}")
                elif flag.startswith("--"):
                    name = flag.removeprefix("--")
                    known = re.findall(r"--(?:\[no\])?(\w+)", help_texts[command])
                    if name not in known and name.removeprefix("no") not in known:
                        problems.append(f"{document}: {command} {flag}")
                    if value.startswith("configs/") and not (ROOT / value).is_file():
                        problems.append(f"{document}: {command} {word}")
    assert not problems, "\n".join(problems)


def test_the_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "make ablation" in text
    assert "make test" in text
