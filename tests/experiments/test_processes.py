"""One process of many from the command line: what is asked wrongly ends in one line."""

import importlib.util
import json

import pytest

AT = "--coordinator_address=127.0.0.1:1"
# Each: the words after `train`, and words that the one line on stderr must have.
REFUSED = {
    "only the address": ([AT], ["--num_processes and --process_id must be given too"]),
    "only the count": (["--num_processes=2"], ["--coordinator_address and --process_id must"]),
    "one too many": (
        [AT, "--num_processes=2", "--process_id=2"],
        ["process_id=2 is not one of num_processes=2: 0 to 1"],
    ),
    "no port": (
        ["--coordinator_address=here", "--num_processes=2", "--process_id=0"],
        ["--coordinator_address=here is not host:port"],
    ),
    "no number": ([AT, "--num_processes=two", "--process_id=0"], ["num_processes"]),
    "nobody tells": (["--distributed"], ["cannot meet", "coordinator_address"]),
    "nobody comes": (
        [AT, "--num_processes=2", "--process_id=1", "--meeting_seconds=1"],
        ["did not all meet at 127.0.0.1:1 within 1 seconds"],
    ),
}


@pytest.fixture(scope="module")
def outcomes(run_python, tmp_path_factory):
    """What each command line came to, by its name."""
    workdir = tmp_path_factory.mktemp("processes") / "run"
    commands = [["train", f"--workdir={workdir}", *words] for words, _ in REFUSED.values()]
    done = run_python(["-m", "tests.experiments.commands"], input=json.dumps(commands))
    assert done.returncode == 0, done.stderr
    return dict(zip(REFUSED, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_requests_end_in_one_line(outcomes, name):
    code, _, err = outcomes[name]
    assert code == 2, err
    assert err.count("\n") == 1, err
    assert [word for word in REFUSED[name][1] if word not in err] == [], err


def test_a_command_of_one_process_knows_no_others(run_python):
    done = run_python(
        ["-m", "experiments.generate", "--workdir=x", "--prompt=x", "--num_processes=2"]
    )
    assert done.returncode == 2
    assert "num_processes" in done.stderr


@pytest.mark.parametrize(
    ("workdir", "words"), [("gs://bucket/run", "gcsfs"), ("xyz://bucket/run", "xyz://bucket/run")]
)
def test_a_store_that_cannot_be_reached_is_refused(run_python, workdir, words):
    if workdir.startswith("gs:") and importlib.util.find_spec("gcsfs"):
        pytest.skip("gcsfs is installed")
    done = run_python(["-m", "experiments.evaluate", f"--workdir={workdir}"])
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("platform", ["cuda", "tpu", "cuda,cpu", "gpo"])
def test_a_platform_that_is_not_there_is_no_reason_for_another(run_python, tmp_path, platform):
    done = run_python(
        ["-m", "experiments.train", f"--workdir={tmp_path}/run"], env={"JAX_PLATFORMS": platform}
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"train: JAX_PLATFORMS={platform}: JAX finds no ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
