"""Eight simulated devices equal one, whatever is split over them; checkpoints go either way."""

import json

import pytest

from tests.training import small
from tests.training.on_eight import BASE, INTERRUPTED, WAYS
from txf.files import read_json

TOLERANCE = 2e-5  # relative, after ten steps: sums are taken in another order


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parallel")


@pytest.fixture(scope="module")
def alone(folder):
    """Ten steps on one device."""
    small.train(small.config(BASE), folder / "alone")
    return small.lines(folder / "alone")


@pytest.fixture(scope="module")
def eight(folder, alone, run_python):
    with pytest.raises(small.Stopped):
        small.train(small.config(BASE), folder / "one", should_stop=small.stop_after(2))
    done = run_python(["-m", "tests.training.on_eight", folder], devices=8, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_close(lines, expected):
    assert lines.keys() == expected.keys()
    for place, line in expected.items():
        assert lines[place]["loss"] == pytest.approx(line["loss"], rel=TOLERANCE), place


@pytest.mark.parametrize("way", [*(way for way in WAYS if way != "tensor"), "packed"])
def test_eight_devices_equal_one(eight, folder, alone, way):
    assert eight["devices"] == 8
    assert_close(small.lines(folder / way), alone)


@pytest.mark.parametrize("way", INTERRUPTED)
def test_two_goes_on_eight_devices_are_the_straight_run_to_the_bit(eight, folder, way):
    small.assert_same_run(folder / f"{way}_stopped", folder / way)


def test_parameters_are_split_where_they_should_be(eight):
    assert eight["split"]["data"] == eight["split"]["pmap"] == 0
    assert 0 < eight["split"]["fsdp"] < eight["split"]["tensor"]


def test_a_run_of_one_device_is_finished_by_eight(eight, folder, alone):
    assert_close(small.lines(folder / "one"), alone)
    changed = read_json(folder / "one" / "environment.json")["starts"][-1]["changed"]
    assert changed == {"parallel.data": [-1, 4], "parallel.fsdp": [1, 2]}


def test_a_run_of_eight_devices_is_finished_by_one(eight, folder, alone):
    small.train(small.config(BASE), folder / "tensor")
    assert_close(small.lines(folder / "tensor"), alone)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("batch", "training.batch_size=12 is 12 rows, which 8 devices do not divide; try 16"),
        ("micro-batch", "training.batch_size=16 / training.accumulate=4 is 4 rows, which 8"),
        ("devices", "are 16 devices; there are 8"),
        ("left over", "are 3 devices; there are 8"),
        ("none", "parallel.data=0"),
        ("pmap of parts", "parallel.mode=pmap is data parallel only"),
    ],
)
def test_what_devices_cannot_do_is_refused_with_numbers(eight, name, words):
    assert words in eight["refused"][name]
