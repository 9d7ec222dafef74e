"""The tables of a sweep: results.csv, one row a member, and one row an arm with its intervals.

results.csv holds what a sweep found and nothing that depends on when or where it ran: seconds and
throughput stay in each run's result.json, so that a sweep that was killed and resumed leaves the
same bytes as one that was not.  Numbers are written in the shortest form that reads back to the
same float64 (or int) as in result.json; nothing is rounded.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from etils import epath

from txf.files import write_text
from txf.sweeps.grid import format_value, short_keys
from txf.sweeps.reading import Run, SweepRecord, flatten, hashable, read_sweep
from txf.sweeps.selection import best_setting
from txf.sweeps.statistics import Estimate, mean_interval

RESULTS = "results.csv"
_FACTS = ("steps", "parameters", "flops_per_token", "diverged_at_step")
_FIRST_METRICS = ("loss", "perplexity", "bits_per_byte", "excess", "floor", "accuracy")
_NOT_MEASURED = ("tokenizer", "best")  # groups of result.json that hold no measured metrics


def timed(key: str) -> bool:
    """Whether a metric depends on the clock, and so has no place in results.csv."""
    leaf = key.rsplit(".", 1)[-1]
    return leaf.endswith("seconds") or "_per_second" in leaf


def _metrics(run: Run) -> dict[str, float | int]:
    """Every measured number of a run's result, as group_metric: valid_loss, test_bits_per_byte."""
    found = {}
    for group, content in run.result.items():
        if not isinstance(content, Mapping) or group in _NOT_MEASURED:
            continue
        for key, value in flatten(content).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and not timed(key):
                found[f"{group}_{key.replace('.', '_')}"] = value
    return found


def _metric_order(name: str) -> tuple[Any, ...]:
    """Valid before test before the rest; in each the well-known metrics first."""
    group, _, metric = name.partition("_")
    groups, first = ("valid", "test"), _FIRST_METRICS
    return (
        groups.index(group) if group in groups else len(groups),
        group,
        first.index(metric) if metric in first else len(first),
        metric,
    )


def results_rows(sweep: SweepRecord) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of results.csv, one row a member in the order of sweep.json.

    Columns: member, arm, every key that the sweep sets (dotted, as in the config), status, steps,
    parameters, flops_per_token, diverged_at_step, best_step, best_loss, then all valid_ and test_
    metrics.  A value that a run does not have is None; a diverged run has the valid_ metrics of its
    last good checkpoint.
    """
    metrics = [_metrics(run) for run in sweep.members]
    names = sorted(set().union(*metrics), key=_metric_order)
    columns = [
        "member",
        "arm",
        *sweep.overridden,
        "status",
        *_FACTS,
        "best_step",
        "best_loss",
        *names,
    ]
    rows = []
    for run, measured in zip(sweep.members, metrics, strict=True):
        row = dict.fromkeys(columns)
        row |= {"member": run.name, "arm": run.arm, "status": run.status}
        row |= {key: hashable(run.config[key]) for key in sweep.overridden}
        row |= {key: run.result[key] for key in _FACTS if key in run.result}
        if isinstance(best := run.result.get("best"), Mapping):
            row |= {f"best_{key}": value for key, value in best.items() if key in ("step", "loss")}
        rows.append(row | measured)
    return columns, rows


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _column(values: list[Any], setting: bool = False) -> pd.Series:
    """A column that keeps whole numbers whole where others are missing.

    In a column of settings None is a value like any other, and stays None.
    """
    present = [value for value in values if value is not None]
    if setting and len(present) < len(values):
        return pd.Series(values, dtype="object")
    kinds = {type(value) for value in present}
    if present and kinds <= {int}:
        return pd.Series(values, dtype="Int64")
    if present and kinds <= {int, float}:
        return pd.Series([math.nan if v is None else v for v in values], dtype="float64")
    return pd.Series(values, dtype="object")


def results_frame(sweep: SweepRecord) -> pd.DataFrame:
    """The content of results.csv as a table."""
    columns, rows = results_rows(sweep)
    return pd.DataFrame(
        {name: _column([row[name] for row in rows], name in sweep.overridden) for name in columns}
    )


def write_results(sweep_dir: epath.PathLike) -> pd.DataFrame:
    """Write SWEEP/results.csv from what the runs have left, and return it as a table.

    Members that failed, diverged, are unfinished or were never started are rows with that status.
    The same results give the same bytes.

    Raises:
        UserError: the folder holds no readable sweep.json.
    """
    sweep = read_sweep(sweep_dir)
    columns, rows = results_rows(sweep)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    write_text(epath.Path(sweep_dir) / RESULTS, text.getvalue())
    return results_frame(sweep)


def reported_split(frame: pd.DataFrame) -> str:
    """`test` where any member has a test loss, else `valid`."""
    return "test" if "test_loss" in frame and frame["test_loss"].notna().any() else "valid"


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _known(values: Iterable[Any]) -> list[float]:
    return [float(v) for v in values if not _missing(v) and math.isfinite(v)]


def _shared(values: Iterable[Any]) -> Any:
    """Return the first known value: parameters and FLOPs are the same for all seeds of an arm."""
    return next((value for value in values if not _missing(value)), None)


def best_rows(frame: pd.DataFrame, tuned: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """The rows of each arm's members at its own best setting (see `txf.sweeps.selection`).

    Args:
        frame: what `write_results` returns.
        tuned: the tuned keys.

    Returns:
        Rows by arm, in the order of the table, whatever their status.
    """
    arms: dict[str, list[dict[str, Any]]] = {}
    for row in frame.to_dict("records"):
        arms.setdefault(row["arm"], []).append(row)
    chosen = {}
    for arm, rows in arms.items():
        settings = [tuple(row[key] for key in tuned) for row in rows]
        losses = [_known([row.get("valid_loss")]) for row in rows]
        best = best_setting(
            (setting, row["status"], loss[0] if loss else None)
            for setting, row, loss in zip(settings, rows, losses, strict=True)
        )
        chosen[arm] = [row for row, setting in zip(rows, settings, strict=True) if setting == best]
    return chosen


def arms_table(frame: pd.DataFrame, tuned: Sequence[str] = ()) -> pd.DataFrame:
    """One row an arm, at its own best setting of the tuned keys (see `txf.sweeps.selection`).

    Columns: arm; best value of each tuned key; n (finished seeds, which the means are over);
    diverged, failed, unfinished (members at the best setting that are in no mean);
    diverged_anywhere and members (over all settings); parameters; flops_per_token; then for every
    metric of the reported split (test, or valid where there is no test) metric, metric_low,
    metric_high: mean and 95 % t-interval, missing where n = 0 or n = 1.

    Args:
        frame: what `write_results` returns.
        tuned: the tuned keys.
    """
    split = reported_split(frame)
    metrics = [name for name in frame.columns if name.startswith(f"{split}_")]
    records: dict[str, list[dict[str, Any]]] = {}
    for row in frame.to_dict("records"):
        records.setdefault(row["arm"], []).append(row)
    rows = []
    for arm, chosen in best_rows(frame, tuned).items():
        everyone = records[arm]
        best = [chosen[0][key] for key in tuned]
        status = [row["status"] for row in chosen]
        done = [row for row in chosen if row["status"] == "done"]
        row: dict[str, Any] = {"arm": arm}
        row |= dict(zip(tuned, best, strict=True))
        row |= {
            "n": len(done),
            "diverged": status.count("diverged"),
            "failed": status.count("failed"),
            "unfinished": status.count("unfinished") + status.count("missing"),
            "diverged_anywhere": sum(row["status"] == "diverged" for row in everyone),
            "members": len(everyone),
            "parameters": _shared(row["parameters"] for row in everyone),
            "flops_per_token": _shared(row["flops_per_token"] for row in everyone),
        }
        for name in metrics:
            estimate = mean_interval(_known(row[name] for row in done))
            row |= {
                name: estimate.value,
                f"{name}_low": estimate.low,
                f"{name}_high": estimate.high,
            }
        rows.append(row)
    columns = list(rows[0]) if rows else ["arm"]
    return pd.DataFrame({name: _column([row[name] for row in rows]) for name in columns})


def estimate_of(row: Mapping[str, Any], name: str) -> Estimate:
    """Mean and interval of one metric of a row of the arms table."""
    value, low, high = (
        None if _missing(row[key]) else float(row[key])
        for key in (name, f"{name}_low", f"{name}_high")
    )
    return Estimate(value, low, high, int(row["n"]))


def compact(value: float | int | None) -> str:
    """A count for reading: 950, 12.3k, 4.56M, 7.89G."""
    if _missing(value):
        return "—"
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.4g}"


def rounded(estimate: Estimate, digits: int = 4) -> str:
    """A mean with the half-width of its interval, `1.2345 ± 0.0067`, or `1.2345 (n = 1)`."""
    if estimate.value is None:
        return "—"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f} (n = {estimate.n})"
    return f"{estimate.value:.{digits}f} ± {(estimate.high - estimate.low) / 2:.{digits}f}"


def format_terminal(arms: pd.DataFrame, tuned: Sequence[str] = ()) -> str:
    """The arms as a text table for the terminal, best first, with what was left out of the means.

    Args:
        arms: what `arms_table` returns.
        tuned: the tuned keys.
    """
    split = "test" if "test_loss" in arms else "valid"
    loss, bits = f"{split}_loss", f"{split}_bits_per_byte"
    short = short_keys(tuned)
    header = ["arm", "n", f"{split} loss (95 %)"]
    header += ["bits/byte"] * (bits in arms)
    header += [short[key] for key in tuned] + ["parameters", "FLOPs/token", "not in the mean"]
    lines = []
    records = arms.to_dict("records")
    unknown = [loss not in row or _missing(row[loss]) for row in records]
    order = sorted(
        range(len(records)), key=lambda i: (unknown[i], 0.0 if unknown[i] else records[i][loss], i)
    )
    for row in (records[i] for i in order):
        left_out = ", ".join(
            f"{row[status]} {status}"
            for status in ("diverged", "failed", "unfinished")
            if row[status]
        )
        line = [row["arm"], str(row["n"]), rounded(estimate_of(row, loss)) if loss in row else "—"]
        line += [rounded(estimate_of(row, bits)).split(" ")[0]] if bits in arms else []
        line += [format_value(row[key]) for key in tuned]
        line += [compact(row["parameters"]), compact(row["flops_per_token"]), left_out]
        lines.append(line)
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in (0, len(header) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [header, rule, *lines]
    )
