import textwrap

import pytest

from txf.errors import UserError
from txf.sweeps.definition import load_experiment

GOOD = '''
    """Is one deeper block worth it?

    A second paragraph.
    """
    from txf.config import default_config
    from txf.sweeps.grid import product, tune
    from txf.sweeps.hypotheses import Difference

    def get_config():
        return default_config()

    def get_sweep():
        return product({"model.depth": [1, 2], "seed": [0, 1]})

    def get_hypotheses():
        return [Difference("deeper", left={"model.depth": 2}, right={"model.depth": 1})]
'''


@pytest.fixture
def write(tmp_path):
    """A function that writes a sweep file, GOOD with one text replaced by another."""

    def written(old="", new=""):
        assert old in GOOD
        path = tmp_path / "mine.py"
        path.write_text(textwrap.dedent(GOOD.replace(old, new) if old else GOOD))
        return path

    return written


def test_a_sweep_file_is_a_question_members_and_hypotheses(write):
    experiment = load_experiment(write(), {"training.steps": 7})
    assert experiment.question == "Is one deeper block worth it?\n\nA second paragraph."
    assert len(experiment.members) == 4
    assert experiment.keys == ("model.depth", "seed")
    assert experiment.hypotheses[0].name == "deeper"
    assert "def get_sweep" in experiment.source
    assert {member.config.training.steps for member in experiment.members} == {7}


def test_a_sweep_that_asks_for_the_base_sees_the_overrides(write):
    path = write(
        'def get_sweep():\n        return product({"model.depth": [1, 2]',
        'def get_sweep(base):\n        return product({"model.depth": [1, 2 * base.model.width]',
    )
    path.write_text(path.read_text().replace('left={"model.depth": 2}', 'left={"model.depth": 16}'))
    experiment = load_experiment(path, {"model.width": 8, "model.num_heads": 2})
    assert {member.config.model.depth for member in experiment.members} == {1, 16}


def test_an_override_of_what_the_sweep_varies_is_refused_by_name(write):
    with pytest.raises(UserError, match=r"--config.model.depth: the sweep itself sets model.depth"):
        load_experiment(write(), {"model.depth": 4, "training.steps": 7})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("def get_sweep", "def get_sweeps", "has no function get_sweep"),
        ("def get_hypotheses", "def hypotheses", "has no function get_hypotheses"),
        ("def get_config():", "def get_config(", r"mine\.py:\d+: "),
        ("import product, tune", "import produce", r"mine\.py:7: ImportError"),
        ("return default_config()", "return {}", "get_config returns dict"),
        ("return default_config()", "return 1 / 0", r"mine\.py:11: ZeroDivisionError"),
        ('return product({"model.depth": [1, 2], "seed": [0, 1]})', "return 3", "returns int"),
        ('"seed": [0, 1]', '"seed": [0, 0]', r"mine\.py:14: product: seed lists 0 twice"),
        ('"model.depth": [1, 2]', '"model.dept": [1, 2]', "did you mean model.depth"),
        ('"model.depth": [1, 2]', '"model.depth": [0, 2]', r"depth=0,seed=0 and depth=0,seed=1: "),
        ('left={"model.depth": 2}', 'left={"model.depth": 3}', "no arm has depth=3"),
        ('left={"model.depth": 2}', 'lefty={"model.depth": 2}', r"mine\.py:17: TypeError"),
        ("return [Difference", "return ['x'] or [Difference", "get_hypotheses returns a list"),
    ],
)
def test_a_broken_sweep_file_is_refused_with_its_place(write, old, new, says):
    with pytest.raises(UserError, match=says) as caught:
        load_experiment(write(old, new))
    assert "mine.py" in str(caught.value)


@pytest.mark.parametrize("path", ["nowhere.py", ".", "README.md"])
def test_what_is_no_sweep_file_is_refused(path):
    with pytest.raises(UserError, match="there is no such Python file"):
        load_experiment(path)
