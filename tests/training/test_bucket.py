"""A sweep whose folder is in an object store: all access to it goes through its own file system.

A folder stands in for the store. Orbax and TensorStore reach real stores in their own ways, so the
checkpoints themselves lie on disk here.
"""

import os

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from experiments import outcome
from tests.training import small
from txf.files import absolute
from txf.sweeps.definition import load_experiment
from txf.sweeps.runner import run_sweep
from txf.training.loop import train
from txf.training.reopen import check_run
from txf.training.run import RunFolder

pytestmark = pytest.mark.slow

SWEEP = """
'''Does a higher rate help?'''
from tests.training.small import config
from tests.training.on_hosts import BASE, LIGHT
from txf.sweeps.grid import product

def get_config():
    return config({**BASE, **LIGHT})

def get_sweep():
    return product({"optimizer.learning_rate": [0.01, 0.02]})

def get_hypotheses():
    return []
"""


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """az://bucket, which is a folder; the current folder is another one, and stays empty."""
    (tmp_path / "store" / "bucket").mkdir(parents=True)
    (tmp_path / "here").mkdir()

    class Store(LocalFileSystem):
        protocol = "az"
        cachable = False

        @classmethod
        def _strip_protocol(cls, path):
            path = os.fspath(path)
            if path.startswith("az://"):
                path = str(tmp_path / "store" / path.removeprefix("az://"))
            return LocalFileSystem._strip_protocol(path)

    fsspec.register_implementation("az", Store, clobber=True)
    saved = property(lambda run: absolute(tmp_path / "saved" / run.path.name))
    monkeypatch.setattr(RunFolder, "checkpoints", saved)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "store" / "bucket"


def test_a_sweep_in_a_bucket_is_run_continued_reported_and_checked(bucket, tmp_path, capsys):
    (tmp_path / "sweep.py").write_text(SWEEP)
    experiment = load_experiment(str(tmp_path / "sweep.py"), {})
    with pytest.raises(small.Stopped):
        run_sweep(experiment, "az://bucket/sweep", train=train, should_stop=small.stop_after(4))
    finished = run_sweep(experiment, "az://bucket/sweep", train=train)
    assert set(finished.statuses.values()) == {"done"}
    outcome.publish("az://bucket/sweep")
    assert "az://bucket/sweep/report.html" in capsys.readouterr().out
    made = {path.name for path in (bucket / "sweep").iterdir()}
    assert {"sweep.json", "runs", "results.csv", "report.html", "figures"} <= made
    for member in experiment.members:
        workdir = f"az://bucket/sweep/runs/{member.name}"
        assert check_run(workdir) == []
        run = bucket / "sweep" / "runs" / member.name
        assert len((run / "metrics.jsonl").read_text().splitlines()) == len(small.lines(workdir))
        assert (run / "result.json").exists()
    assert list((tmp_path / "here").iterdir()) == []
