import csv
import io
import json
import shutil

import pandas as pd
import pytest

from tests.report import synthetic
from txf.errors import UserError
from txf.sweeps.reading import read_sweep
from txf.sweeps.selection import best_setting
from txf.sweeps.statistics import mean_interval
from txf.sweeps.table import arms_table, format_terminal, rounded, write_results

RATE = "optimizer.learning_rate"


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    return synthetic.full_grid(tmp_path_factory.mktemp("grid"))


def rows_of(folder):
    return list(csv.DictReader(io.StringIO((folder / "results.csv").read_text())))


def test_one_row_a_member_in_order_with_what_varied_and_its_status(grid):
    frame = write_results(grid)
    rows = rows_of(grid)
    members = json.loads((grid / "sweep.json").read_text())["members"]
    assert [row["member"] for row in rows] == [m["name"] for m in members] == list(frame["member"])
    for row, entry in zip(rows, members, strict=True):
        assert row["arm"] == entry["arm"]
        assert {k: row[k] for k in entry["overrides"]} == {
            k: str(v) for k, v in entry["overrides"].items()
        }
    assert [rows[i]["status"] for i in (0, 1, 2, 45, 53)] == [
        "failed",
        "unfinished",
        "done",
        "diverged",
        "missing",
    ]


def test_numbers_are_those_of_result_json_to_the_bit(grid):
    frame = write_results(grid)
    for row, (_, record) in zip(rows_of(grid), frame.iterrows(), strict=True):
        path = grid / "runs" / row["member"] / "result.json"
        result = json.loads(path.read_text()) if path.exists() else {}
        for split in ("valid", "test"):
            for key, value in result.get(split, {}).items():
                assert float(row[f"{split}_{key}"]) == value == record[f"{split}_{key}"]
        for key in ("steps", "parameters", "flops_per_token"):
            assert row[key] == (str(result[key]) if key in result else "")


def test_nothing_in_results_depends_on_the_clock_or_the_place(grid, tmp_path):
    write_results(grid)
    copy = tmp_path / "elsewhere"
    shutil.copytree(grid, copy)
    for path in copy.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        result["seconds"] = 99.0 + result["seconds"]
        if "valid" in result:
            result["valid"] |= {"seconds": 3.0, "tokens_per_second": 5.0}
        path.write_text(json.dumps(dict(reversed(result.items()))))
    write_results(copy)
    assert (copy / "results.csv").read_bytes() == (grid / "results.csv").read_bytes()
    assert "seconds" not in (grid / "results.csv").read_text()


def test_results_are_readable_by_pandas_with_whole_numbers_kept(grid):
    frame = write_results(grid)
    again = pd.read_csv(grid / "results.csv")
    assert list(again.columns) == list(frame.columns)
    assert frame["parameters"].dtype == "Int64"
    assert "62345," in (grid / "results.csv").read_text()


def test_best_setting_prefers_finished_seeds_then_loss_then_order():
    assert best_setting([]) is None
    assert best_setting([((1,), "missing", None), ((2,), "missing", None)]) == (1,)
    runs = [((1,), "done", 2.0), ((1,), "done", 2.2), ((2,), "done", 0.1), ((2,), "diverged", 0.1)]
    assert best_setting(runs) == (1,)
    assert best_setting([*runs, ((3,), "done", 1.9), ((3,), "done", 1.8)]) == (3,)
    assert best_setting([((5,), "done", 1.0), ((4,), "done", 1.0)]) == (5,)
    assert best_setting([((1,), "done", float("nan")), ((2,), "done", 7.0)]) == (2,)


def test_arms_are_at_their_best_setting_with_diverged_runs_counted_not_averaged(grid):
    frame = write_results(grid)
    arms = arms_table(frame, [RATE]).set_index("arm")
    assert len(arms) == 9
    arm = "depth=4,norm_placement=post"  # diverges at 0.004 for two of three seeds
    assert arms.loc[arm, RATE] == 0.001
    assert arms.loc[arm, ["n", "diverged", "diverged_anywhere", "members"]].tolist() == [3, 0, 2, 6]
    chosen = frame[(frame["arm"] == arm) & (frame[RATE] == 0.001)]
    estimate = mean_interval(chosen["test_loss"])
    assert arms.loc[arm, "test_loss"] == estimate.value
    assert arms.loc[arm, "test_loss_low"] == estimate.low
    assert arms.loc[arm, "test_loss_high"] == estimate.high
    valid = frame[frame["status"] == "done"].groupby(["arm", RATE])["valid_loss"].mean()
    for name in arms.index.drop([arm, "depth=1,norm_placement=none", "depth=4,norm_placement=pre"]):
        assert arms.loc[name, RATE] == valid[name].idxmin()


def test_without_tuning_a_diverged_seed_lowers_n_and_is_counted(tmp_path):
    points = synthetic.points({"model.depth": [1, 2], "seed": [0, 1, 2]})
    folder = synthetic.write_sweep(tmp_path, points, (), {1: "diverged", 4: "failed", 5: "missing"})
    arms = arms_table(write_results(folder)).set_index("arm")
    counts = arms[["n", "diverged", "failed", "unfinished"]]
    assert counts.loc["depth=1"].tolist() == [2, 1, 0, 0]
    assert counts.loc["depth=2"].tolist() == [1, 0, 1, 1]
    assert arms.loc["depth=2", "test_loss"] > 0
    assert pd.isna(arms.loc["depth=2", "test_loss_low"])


def test_terminal_table_is_best_first_and_says_what_is_missing(grid):
    text = format_terminal(arms_table(write_results(grid), [RATE]), [RATE])
    lines = text.splitlines()
    assert len(lines) == 2 + 9
    assert lines[0].split()[:2] == ["arm", "n"]
    assert lines[2].startswith("depth=4,norm_placement=pre")
    assert "±" in lines[2]
    assert "test loss" in lines[0]
    assert len({len(line.rstrip()) for line in lines[:1]}) == 1


def test_tables_of_nothing_and_of_one_seed(tmp_path):
    points = synthetic.points({"model.depth": [1, 2], "seed": [0]})
    nothing = synthetic.write_sweep(tmp_path / "a", points, (), {0: "missing", 1: "unfinished"})
    frame = write_results(nothing)
    assert list(frame["status"]) == ["missing", "unfinished"]
    assert "—" in format_terminal(arms_table(frame))
    one = synthetic.write_sweep(tmp_path / "b", points, test=False)
    arms = arms_table(write_results(one))
    assert "valid loss" in format_terminal(arms)
    assert rounded(mean_interval([1.0])) == "1.0000 (n = 1)"
    assert "(n = 1)" in format_terminal(arms)


def test_a_setting_of_none_is_a_setting(tmp_path):
    points = [{"data.stride": stride, "seed": s} for stride in (None, 1) for s in (0, 1)]
    folder = synthetic.write_sweep(tmp_path, points, ["data.stride"])
    frame = write_results(folder)
    assert len(arms_table(frame, ["data.stride"])) == 1
    assert rows_of(folder)[0]["data.stride"] == ""


def test_unusable_folders_are_refused_by_name(tmp_path):
    with pytest.raises(UserError, match=r"sweep\.json does not exist"):
        write_results(tmp_path)
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(UserError, match="lacks"):
        write_results(tmp_path)
    folder = synthetic.write_sweep(tmp_path / "a", [{"seed": 0}])
    (folder / "runs" / "seed=0" / "result.json").write_text('{"status": "splendid"}')
    with pytest.raises(UserError, match="splendid"):
        write_results(folder)


def test_a_line_cut_short_by_a_kill_is_not_read(grid):
    sweep = read_sweep(grid)
    unfinished = sweep.members[1]
    assert unfinished.status == "unfinished"
    assert unfinished.curve("valid", "loss")[0] == [0, 100, 200, 300, 400, 500, 600]
    diverged = sweep.members[45]
    assert diverged.curve("valid", "loss")[0] == [0, 100, 200, 300]
