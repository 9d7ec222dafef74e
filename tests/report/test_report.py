import base64
import html
import html.parser
import itertools
import json
import re
import shutil

import pytest

from tests.report import synthetic
from txf.report import build_report
from txf.report.content import gather
from txf.report.drawing import spread
from txf.report.layout import BASE_COLOUR, find_factors, lay_out
from txf.report.style import render, style
from txf.sweeps.hypotheses import Difference, Level, Trend
from txf.sweeps.reading import read_sweep

PLACE = "model.norm_placement"
CLAIMS = [
    Difference("pre <b>beats</b> post", {PLACE: "pre"}, {PLACE: "post"}),
    Difference("post beats pre", {PLACE: "post"}, {PLACE: "pre"}),
    Trend("depth helps", "model.depth", x_scale="log"),
]


class Page(html.parser.HTMLParser):
    """Collects a page's text, titles and sources, and checks that its tags close."""

    VOID = frozenset({"meta", "img", "br", "hr", "link", "input"})

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.titles, self.sources, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        attributes = dict(attrs)
        self.titles += [attributes["title"]] if attributes.get("title") else []
        self.sources += [value for key, value in attrs if key in ("src", "href", "srcset")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    folder = synthetic.full_grid(tmp_path_factory.mktemp("grid"), CLAIMS)
    build_report(folder)
    return folder


@pytest.fixture(scope="module")
def page(grid):
    parsed = Page((grid / "report.html").read_text())
    assert parsed.open == []
    return parsed


def test_the_page_holds_everything_it_shows(grid, page):
    text = (grid / "report.html").read_text()
    assert page.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert "url(" not in text
    assert "@import" not in text


def test_figures_are_also_files_and_the_same(grid, page):
    files = {path.name for path in (grid / "figures").iterdir()}
    names = {"loss_by_arm", "loss_by_factor", "learning_curves", "loss_by_cost", "tuning"}
    assert files == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    embedded = {base64.b64decode(source.split(",", 1)[1]) for source in page.sources}
    assert embedded == {(grid / "figures" / f"{name}.svg").read_bytes() for name in names}


def test_it_answers_the_question_and_says_how_to_ask_again(page):
    assert "Does pre-norm train deeper stacks better than post-norm?" in page.text
    assert "experiments.sweep '--sweep=a b.py' --workdir=sweeps/a" in page.text
    assert "experiments.reproduce" in page.text
    assert "jax 0.10.2" in page.text
    for word in ("supported", "refuted", "depth helps"):
        assert word in page.text
    for status in ("49 done", "2 diverged", "1 failed", "1 unfinished", "1 missing"):
        assert status in page.text
    assert "2026" not in page.text
    assert "2 of 54 members have no result yet" in page.text


def test_what_others_wrote_is_text_and_never_markup(grid, page):
    text = (grid / "report.html").read_text()
    assert "<b>" not in text
    assert "pre <b>beats</b> post" in page.text
    assert "learning rate <of two> & 3 seeds" in page.text
    assert "out of memory <allocating 3 GiB>" in page.text


def test_numbers_are_those_of_results_csv_rounded_with_the_full_value_beside(grid, page):
    content = gather(read_sweep(grid))
    for arm in content.chosen:
        estimate = content.estimate(arm, "test_loss")
        full = f"{estimate.value!r} [{estimate.low!r}, {estimate.high!r}]"
        assert full in page.titles
        assert f"{estimate.value:.4f}" in page.text
    for value in content.frame["test_loss"].dropna():
        assert repr(value) in page.titles
    for verdict in content.verdicts:
        assert repr(verdict.estimate.p_value) in page.titles


def test_every_member_and_every_kind_of_span_is_there(grid, page):
    for entry in json.loads((grid / "sweep.json").read_text())["members"]:
        assert entry["name"] in page.text
    for kind in synthetic.KINDS:
        assert kind in page.text


def test_the_same_results_give_the_same_bytes_anywhere(grid, tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(grid, copy)
    for path in (copy / "report.html", *(copy / "figures").iterdir()):
        path.unlink()
    (copy / "figures" / "accuracy_by_factor.svg").write_text("of an earlier build")
    build_report(copy)
    names = sorted(path.relative_to(grid) for path in grid.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(copy) for path in copy.rglob("*") if path.is_file())
    for name in names:
        assert (copy / name).read_bytes() == (grid / name).read_bytes(), name


@pytest.mark.parametrize("state", ["nothing", "one", "one_seed", "all_diverged"])
def test_sweeps_that_are_not_whole(tmp_path, state):
    points = synthetic.points({"model.depth": [1, 2], "seed": [0, 1]})
    match state:
        case "nothing":
            folder = synthetic.write_sweep(
                tmp_path, points, (), dict.fromkeys(range(4), "missing"), CLAIMS
            )
        case "one":
            folder = synthetic.write_sweep(tmp_path, [{}], question="One run")
        case "one_seed":
            folder = synthetic.write_sweep(
                tmp_path, points[::2], (), {}, CLAIMS, test=False, question="Depth?"
            )
        case "all_diverged":
            folder = synthetic.write_sweep(
                tmp_path, points, (), dict.fromkeys(range(4), "diverged"), CLAIMS
            )
    page = Page(build_report(folder).read_text())
    assert page.open == []
    assert "nan" not in re.findall(r"\w+", page.text.lower())
    expected = {
        "nothing": "4 of 4 members have no result yet",
        "one": "The sweep states no hypotheses",
        "one_seed": "no run has test.loss; judged on valid.loss",
        "all_diverged": "at step 400",
    }
    assert expected[state] in page.text
    if state != "one":
        assert "undecided" in page.text


def test_a_metric_that_a_claim_is_about_gets_a_figure(tmp_path):
    points = synthetic.points({"model.depth": [1, 2], "seed": [0, 1]})
    claim = Level("solves", {"model.depth": 2}, metric="test.accuracy", value=0.5)
    folder = synthetic.write_sweep(tmp_path, points, hypotheses=[claim])
    for path in folder.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        result["test"] = {"loss": 1.0, "accuracy": 0.75}
        path.write_text(json.dumps(result))
    page = Page(build_report(folder).read_text())
    assert "Accuracy by each factor" in page.text
    assert "0.7500" in page.text


def test_drawing_leaves_matplotlib_as_it_was():
    import matplotlib
    from matplotlib.figure import Figure

    before = dict(matplotlib.rcParams)
    with style():
        figure = Figure()
        figure.subplots().set_title("$5 and $6")
        assert render(figure, "svg") == render(figure, "svg")
    assert dict(matplotlib.rcParams) == before


def test_spread_keeps_order_and_distance():
    wishes = [1.0, 1.01, 5.0, 0.99, 5.1]
    placed = spread(wishes, 0.5)
    order = sorted(range(5), key=lambda i: wishes[i])
    gaps = [placed[b] - placed[a] for a, b in itertools.pairwise(order)]
    assert all(gap > 0.5 - 1e-9 for gap in gaps)
    assert spread([3.0, 1.0], 0.5) == [3.0, 1.0]
    assert spread([], 1.0) == []


def test_a_grid_is_coloured_by_the_factor_with_names(tmp_path):
    layout = lay_out(read_sweep(synthetic.full_grid(tmp_path)))
    assert [factor.name for factor in layout.factors] == ["depth", "norm_placement"]
    assert layout.coloured == "norm_placement"
    assert [panel.title for panel in layout.panels] == ["depth = 1", "depth = 2", "depth = 4"]
    assert len(set(layout.colours.values())) == 3


def test_a_chain_has_a_panel_a_factor_around_its_base(tmp_path):
    sweep = read_sweep(synthetic.one_at_a_time(tmp_path))
    layout = lay_out(sweep)
    assert [panel.title for panel in layout.panels] == ["depth", "num_heads", "norm_placement"]
    assert [len(panel.labels) for panel in layout.panels] == [4, 4, 4]
    base = "depth=2,num_heads=4,norm_placement=pre"
    assert [arm for arm, colour in layout.colours.items() if colour == BASE_COLOUR] == [base]
    assert len(set(layout.colours.values())) == len(sweep.arms) == 10


def test_keys_that_move_together_are_one_factor(tmp_path):
    points = [
        {"model.depth": depth, "model.width": 128 // depth, "seed": seed}
        for depth in (1, 2, 4)
        for seed in (0, 1)
    ]
    (factor,) = find_factors(read_sweep(synthetic.write_sweep(tmp_path, points)))
    assert factor.name == "depth, width"
    assert list(factor.labels.values()) == ["1, 128", "2, 64", "4, 32"]


def test_importing_the_package_loads_nothing_heavy(run_python):
    code = (
        "import sys, txf.report; print([m for m in ('matplotlib', 'pandas') if m in sys.modules])"
    )
    assert run_python(["-c", code]).stdout.strip() == "[]"


def test_an_arm_that_takes_no_products_has_a_page_too(tmp_path):
    folder = synthetic.one_at_a_time(tmp_path / "sweep")
    arm = read_sweep(folder).members[0].arm
    for run in read_sweep(folder).arms[arm]:
        result = run.folder / "result.json"
        result.write_text(json.dumps({**json.loads(result.read_text()), "flops_per_token": 0}))
    build_report(folder)
    assert (folder / "figures" / "loss_by_cost.svg").exists()
