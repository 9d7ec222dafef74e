"""What a run logs of itself: speed, diagnostics, event files; and that looking changes nothing."""

import importlib
import itertools
import json
import statistics
import struct
import time
from collections import defaultdict

import pytest

from tests.training import small
from txf.config import ConfigError, validate
from txf.training import program as programs
from txf.training.checkpoints import Checkpoints
from txf.training.logging import MEASURED, MetricsLog, read_metrics
from txf.training.loop import train_pack
from txf.training.program import Program, prepare
from txf.training.run import RunFolder

DIAGNOSED = {
    "update_ratio",
    "residual_rms/embeddings",
    "residual_rms/block_0",
    "attention_score_max/block_0",
    "attention_saturated/block_0",
    *(f"attention_entropy/block_0/head_{head}" for head in range(2)),
    *(f"grad_norm/{part}" for part in ("embed", "positions", "block_0", "final_norm")),
}


def whole_lines(workdir, split="train"):
    return [line for line in read_metrics(RunFolder.at(workdir).metrics) if line["split"] == split]


def diagnosed(config, workdir):
    """The figures of a run's last checkpoint, worked out anew."""
    program = prepare(config)
    checkpoints = Checkpoints(RunFolder.at(workdir).checkpoints)
    step, state = checkpoints.restore(program.compiled.state_like)
    checkpoints.close()
    assert step == config.training.steps
    return {key: float(value) for key, value in program.diagnose(state).items()}


@pytest.fixture(scope="module", autouse=True)
def traces():
    """How often the function of the figures was traced."""
    found, original = [], programs.diagnose

    def counted(*args):
        found.append(1)
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "diagnose", counted)
        yield found


@pytest.fixture(scope="module")
def plain(tmp_path_factory, traces):
    workdir = tmp_path_factory.mktemp("plain") / "run"
    small.train(small.config(), workdir)
    assert not traces
    return workdir


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory, plain, traces):
    """A run with diagnostics, in two goes."""
    workdir = tmp_path_factory.mktemp("looked_at") / "run"
    config = small.config({"training.diagnostics": True})
    with pytest.raises(small.Stopped):
        small.train(config, workdir, should_stop=small.stop_after(4))
    assert len(traces) == 1
    small.train(config, workdir)
    return workdir


def test_each_train_line_says_how_fast(plain, looked_at):
    result = RunFolder.at(plain).result()
    for line in whole_lines(plain):
        assert set(MEASURED) - set(line) == {"utilization"}  # a CPU's peak is not measured unasked
        ratio = line["flops_per_second"] / line["tokens_per_second"]
        assert ratio == pytest.approx(result["flops_per_token"])
        assert line["memory_bytes"] > 1e7
    compiled = [line["compile_seconds"] for line in whole_lines(looked_at)]
    assert all(seconds < 1e-3 for seconds in compiled[2:])
    for line in whole_lines(looked_at):
        assert set(MEASURED) < set(line)
        assert 0 < line["utilization"] < 1


def test_diagnostics_change_nothing_but_what_is_logged(plain, looked_at):
    one, other = small.lines(plain), small.lines(looked_at)
    for line in whole_lines(looked_at):
        added = other[line["step"], "train"].keys() - one[line["step"], "train"].keys()
        assert added == DIAGNOSED
    for place, line in one.items():
        assert {key: other[place][key] for key in line} == line
    for path, leaf in small.params(plain).items():
        assert (small.params(looked_at)[path] == leaf).all()
    assert (
        RunFolder.at(plain).result()["fingerprint"]
        == (RunFolder.at(looked_at).result()["fingerprint"])
    )


def test_figures_are_those_of_the_state_and_the_last_batch(looked_at):
    wanted = diagnosed(small.config(), looked_at)
    assert wanted.keys() == DIAGNOSED
    line = whole_lines(looked_at)[-1]
    assert {key: line[key] for key in wanted} == wanted


def test_runs_of_a_pack_are_looked_at_one_by_one(tmp_path):
    configs = [small.config({"seed": seed, "training.diagnostics": True}) for seed in (3, 5)]
    workdirs = [tmp_path / str(config.seed) for config in configs]
    train_pack(list(zip(configs, workdirs, strict=True)))
    found = [diagnosed(*pair) for pair in zip(configs, workdirs, strict=True)]
    assert found[0] != found[1]
    for workdir, wanted in zip(workdirs, found, strict=True):
        line = whole_lines(workdir)[-1]
        assert {key: line[key] for key in wanted} == pytest.approx(wanted, rel=1e-5)


def test_one_program_serves_all_of_these_runs(looked_at, traces):
    assert len(traces) == 1


def test_pauses_are_no_part_of_the_pace(tmp_path, monkeypatch):
    pause, slept = 0.15, []

    def slowly(function):
        def slow(*args, **options):
            time.sleep(pause)
            slept.append(function.__name__)
            return function(*args, **options)

        return slow

    for owner, name in ((Program, "evaluate"), (Program, "diagnose"), (Checkpoints, "save")):
        monkeypatch.setattr(owner, name, slowly(getattr(owner, name)))
    config = small.config({"training.diagnostics": True})
    small.train(config, tmp_path / "run")
    assert slept.count("diagnose") == 5
    assert min(slept.count("evaluate"), slept.count("save")) > 5
    tokens = config.training.batch_size * config.data.context_length
    lines = whole_lines(tmp_path / "run")
    # Each of these laps lies around pauses of every kind; its steps take milliseconds.
    laps = [
        (line["step"] - before["step"]) * tokens / line["tokens_per_second"]
        for before, line in itertools.pairwise(lines)
    ]
    assert len(laps) == 4
    assert statistics.median(laps) < pause


EIGHT = """
import json
from tests.training import small
from txf.training.lanes import Solo
from txf.training.program import prepare

ways = {
    "one": {"parallel.data": 1},
    "split": {"parallel.data": 2, "parallel.fsdp": 2, "parallel.tensor": 2},
    "pmap": {"parallel.mode": "pmap"},
}
for way in ways.values():
    base = {"training.batch_size": 16, "training.accumulate": 1, "model.dropout": 0.0}
    program = prepare(small.config({**base, **way}))
    lane = Solo(program, program.init_state())
    lane.advance([0], 2, [True])
    figures = program.diagnose(lane.state(0))
    print(json.dumps({key: float(value) for key, value in figures.items()}))
"""


@pytest.mark.slow
def test_figures_on_eight_devices_are_those_on_one(run_python):
    done = run_python(["-c", EIGHT], devices=8)
    assert done.returncode == 0, done.stderr
    one, *others = map(json.loads, done.stdout.splitlines())
    assert one.keys() == DIAGNOSED
    for other in others:
        assert other == pytest.approx(one, rel=2e-3, abs=1e-5)
    assert len(others) == 2


def events(folder):
    """The event files' numbers as a reader sees them: {tag: {step: [values]}}."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    seen = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            if event.session_log.status == SessionLog.START:
                for steps in seen.values():
                    for step in [step for step in steps if step >= event.step]:
                        del steps[step]
            for value in event.summary.value:
                seen[value.tag][event.step].append(value.simple_value)
    return seen


def assert_events_are_the_lines(workdir):
    seen = events(workdir / "tensorboard")
    count = 0
    for line in read_metrics(RunFolder.at(workdir).metrics):
        for key, value in line.items():
            if key in ("step", "split") or value is None:
                continue
            assert seen[f"{line['split']}/{key}"][line["step"]] == [pytest.approx(value, rel=1e-6)]
            count += 1
    assert count == sum(len(steps) for steps in seen.values())


@pytest.fixture
def tensorboard():
    return pytest.importorskip("tensorboardX")


def test_event_files_hold_each_number_once_whatever_happened(tmp_path, tensorboard, monkeypatch):
    monkeypatch.setattr(Checkpoints, "save", dies_at(8, Checkpoints.save))
    config = small.config({"training.tensorboard": True})
    with pytest.raises(KeyboardInterrupt):
        small.train(config, tmp_path / "run")
    monkeypatch.undo()
    # Steps 6 to 8 were logged and are logged again.
    assert len(events(tmp_path / "run" / "tensorboard")["train/loss"]) == 2
    small.train(config, tmp_path / "run")
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 2
    assert_events_are_the_lines(tmp_path / "run")


def dies_at(step, save):
    def save_or_die(checkpoints, at, *args):
        if at == step:
            raise KeyboardInterrupt
        return save(checkpoints, at, *args)

    return save_or_die


def test_event_files_asked_for_later_have_what_was_before(tmp_path, tensorboard):
    with pytest.raises(small.Stopped):
        small.train(small.config(), tmp_path / "run", should_stop=small.stop_after(4))
    small.train(small.config({"training.tensorboard": True}), tmp_path / "run")
    assert_events_are_the_lines(tmp_path / "run")


def test_event_files_without_the_library_are_refused_in_a_line(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tensorboardX" else find(name)
    )
    validate(small.config())
    with pytest.raises(ConfigError) as caught:
        validate(small.config({"training.tensorboard": True}))
    [problem] = caught.value.problems
    assert "training.tensorboard=True" in problem and "pip install tensorboardX" in problem


def test_what_is_not_finite_is_null(tmp_path):
    log = MetricsLog(RunFolder.at(tmp_path).metrics)
    log.write(3, "train", {"loss": float("nan"), "memory_bytes": 7, "seconds": 0.5})
    [line] = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "step": 3,
        "split": "train",
        "loss": None,
        "memory_bytes": 7,
        "seconds": 0.5,
    }
