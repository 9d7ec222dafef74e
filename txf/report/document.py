"""The HTML report: one file with everything in it, made from a sweep's folder and nothing else."""

import base64
import inspect
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import matplotlib
import pandas as pd
from etils import epath

from txf.config import flatten
from txf.files import read_json, write_text
from txf.report.content import Content, gather
from txf.report.figures import figures_of
from txf.report.style import KINDS, render, style
from txf.sweeps.grid import format_value, short_keys
from txf.sweeps.hypotheses import write_verdicts
from txf.sweeps.reading import STATUSES, SweepRecord, read_sweep
from txf.sweeps.statistics import Estimate
from txf.sweeps.table import compact, write_results
from txf.sweeps.verdicts import Verdict

REPORT, FIGURE_FOLDER = "report.html", "figures"

# Title and text of each figure.
CAPTIONS = {
    "loss_by_arm": (
        "Every arm, best first",
        "Ticks are seeds, the dot is their mean, the bar its 95\u00a0% t-interval; a hollow dot "
        "has no interval.",
    ),
    "loss_by_factor": (
        "Loss by each factor, among arms that differ in it alone",
        "Left: mean with its 95\u00a0% t-interval, ticks are seeds. Right: difference from the "
        "reference level (◇) over paired seeds, with the 95\u00a0% interval of the differences. "
        "A seed moves all arms together, so it is the right side that tells levels apart.",
    ),
    "learning_curves": (
        "Validation loss over training",
        "Each arm at its best setting: mean over seeds, the band their range. A dashed line with a "
        "cross is a run that diverged.",
    ),
    "loss_by_cost": (
        "Loss against parameters and against training FLOPs a token",
        "Mean and 95\u00a0% t-interval; FLOPs are of the forward and backward pass. The grey line "
        "joins the arms that no cheaper arm beats. Arms of (nearly) equal cost stand side by side.",
    ),
    "tuning": (
        "Validation loss by the tuned value",
        "Mean and range over the seeds that finished. The filled dot is the value each arm is "
        "judged at; a cross marks a value at which runs diverged.",
    ),
}


def write_report(sweep_dir: epath.PathLike) -> epath.Path:
    """Write the report, its figures, results.csv and verdicts.json; see `build_report`."""
    folder = epath.Path(sweep_dir)
    write_results(folder)
    write_verdicts(folder)
    content = gather(read_sweep(folder))
    figures = _write_figures(content, folder / FIGURE_FOLDER)
    path = folder / REPORT
    write_text(path, report_html(content, figures))
    return path


def _write_figures(content: Content, folder: epath.Path) -> list[dict[str, str]]:
    """Draw every figure that has something to show; leave none of an earlier build behind."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn, written = [], set()
    for name, draw in figures_of(content).items():
        with style():
            figure = draw(content)
            files = {} if figure is None else {kind: render(figure, kind) for kind in KINDS}
        if not files:
            continue
        for kind, data in files.items():
            (folder / f"{name}.{kind}").write_bytes(data)
            written.add(f"{name}.{kind}")
        title, caption = _caption(name)
        svg = base64.b64encode(files["svg"]).decode()
        drawn.append({"name": name, "data": svg, "title": title, "caption": caption})
    for path in folder.iterdir():
        if path.suffix.removeprefix(".") in KINDS and path.name not in written:
            path.unlink()
    return drawn


def _caption(name: str) -> tuple[str, str]:
    """Title and text of a figure."""
    if name in CAPTIONS:
        return CAPTIONS[name]
    metric = name.removesuffix("_by_factor").replace("_", " ")
    return f"{metric.capitalize()} by each factor", "Drawn as the loss above."


def _split_question(question: str) -> tuple[str, list[dict[str, Any]]]:
    """The first paragraph is the title; of the others, those that are commands keep their lines."""
    title, *rest = [part for part in question.strip().split("\n\n") if part.strip()] or ["A sweep"]
    paragraphs = []
    for part in rest:
        command = part.lstrip().startswith(("python ", "make "))
        text = inspect.cleandoc(part) if command else " ".join(part.split())
        paragraphs.append({"command": command, "text": text})
    return " ".join(title.split()), paragraphs


def number(value: Any, digits: int = 4) -> dict[str, str]:
    """A number for reading, rounded, with the full value beside it."""
    if value is None or pd.isna(value):
        return {"text": "—", "full": ""}
    if isinstance(value, int):
        return {
            "text": f"{value:,}" if abs(value) < 100_000 else compact(value),
            "full": str(value),
        }
    value = float(value)
    if value != 0 and math.isfinite(value) and not 1e-3 <= abs(value) < 1e5:
        return {"text": f"{value:.3g}", "full": repr(value)}
    return {"text": f"{value:.{digits}f}", "full": repr(value)}


def interval(estimate: Estimate, digits: int = 4) -> dict[str, str]:
    """A mean with its interval for reading: `1.2345` and `[1.2300, 1.2390]`, in full beside it."""
    shown = number(estimate.value, digits)
    if estimate.low is None or estimate.high is None:
        return shown | {"range": ""}
    low, high = number(estimate.low, digits), number(estimate.high, digits)
    full = f"{shown['full']} [{low['full']}, {high['full']}]"
    return {"text": shown["text"], "range": f"[{low['text']}, {high['text']}]", "full": full}


def _p_text(value: float | None) -> dict[str, str]:
    if value is None:
        return {"text": "—", "full": ""}
    text = "< 0.001" if value < 0.001 else f"{value:.3f}"
    return {"text": text, "full": repr(value)}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "claim": verdict.claim,
        "verdict": verdict.verdict,
        "estimate": interval(verdict.estimate),
        "confidence": f"{100 * verdict.confidence:.0f} %",
        "effect": number(verdict.estimate.effect, 2),
        "n": verdict.estimate.n,
        "p": _p_text(verdict.estimate.p_value),
        "adjusted": _p_text(verdict.adjusted_p),
        "notes": verdict.notes,
    }


def _arm_columns(content: Content) -> list[tuple[str, str]]:
    """(column, heading) of the metrics in the table of arms."""
    wanted = {
        "loss": "loss",
        "bits_per_byte": "bits/byte",
        "excess": "above floor",
        "accuracy": "accuracy",
    }
    columns = [(f"{content.split}_{metric}", text) for metric, text in wanted.items()]
    return [(column, text) for column, text in columns if content.has(column)]


def _arms(content: Content) -> dict[str, Any]:
    """The table of arms, best first."""
    keys, tuned = content.sweep.factors, content.sweep.tuned
    short = short_keys([*keys, *tuned])
    records = {row["arm"]: row for row in content.arms.to_dict("records")}
    columns = _arm_columns(content)
    rows = []
    for arm in content.ranking:
        row = records[arm]
        config = content.sweep.arms[arm][0].config
        left_out = [f"{row[s]} {s}" for s in ("diverged", "failed", "unfinished") if row[s]]
        elsewhere = int(row["diverged_anywhere"]) - int(row["diverged"])
        left_out += [f"{elsewhere} diverged at other settings"] if elsewhere else []
        rows.append(
            {
                "colour": content.layout.colours[arm],
                "arm": arm,
                "levels": [format_value(config[key]) for key in keys],
                "n": int(row["n"]),
                "metrics": [interval(content.estimate(arm, column)) for column, _ in columns],
                "tuned": [format_value(row[key]) for key in tuned],
                "parameters": number(_plain(row["parameters"])),
                "flops": number(_plain(row["flops_per_token"])),
                "left_out": ", ".join(left_out),
            }
        )
    return {
        "keys": [short[key] for key in keys],
        "metrics": [text for _, text in columns],
        "tuned": [short[key] for key in tuned],
        "rows": rows,
        "left_out": any(row["left_out"] for row in rows),
    }


def _plain(value: Any) -> Any:
    """A count as an int where it is one; pandas gives floats where others are missing."""
    if value is None or pd.isna(value):
        return None
    return int(value) if float(value).is_integer() else float(value)


def _kinds(content: Content) -> dict[str, Any] | None:
    """Loss by kind of span: a table whose cells are shaded within each column."""
    arms = [arm for arm in content.ranking if content.values(arm, content.loss)]
    if not content.kinds or not arms:
        return None
    columns = []
    for kind in content.kinds:
        estimates = [content.estimate(arm, f"{content.split}_loss_{kind}") for arm in arms]
        known = [e.value for e in estimates if e.value is not None]
        low, reach = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
        columns.append(
            [
                interval(e)
                | {"shade": 0.0 if e.value is None or not reach else (e.value - low) / reach}
                for e in estimates
            ]
        )
    rows = [
        {
            "arm": arm,
            "colour": content.layout.colours[arm],
            "cells": [column[i] for column in columns],
        }
        for i, arm in enumerate(arms)
    ]
    return {"kinds": content.kinds, "rows": rows}


def _members(content: Content) -> dict[str, Any]:
    """Every member, in order, with its headline numbers."""
    wanted = ["steps", "valid_loss", "valid_bits_per_byte", "test_loss", "test_bits_per_byte"]
    columns = [c for c in wanted if c in content.frame.columns]
    rows = [
        {
            "member": row["member"],
            "status": row["status"],
            "cells": [number(_plain(row[c]) if c == "steps" else row[c]) for c in columns],
        }
        for row in content.frame.to_dict("records")
    ]
    return {"columns": [c.replace("_", " ") for c in columns], "rows": rows}


def _troubles(content: Content) -> list[dict[str, str]]:
    """Members that are in no mean, and why."""
    texts = {"unfinished": "begun, not finished", "missing": "not begun"}
    troubles = []
    for run in content.sweep.members:
        if run.status == "done":
            continue
        why = texts.get(run.status, "")
        if run.status in ("failed", "diverged"):
            result = dict(run.result)
            why = str(result.get("error") or "")
            if (step := result.get("diverged_at_step")) is not None:
                why = f"at step {step}" + (f": {why}" if why else "")
        troubles.append({"member": run.name, "status": run.status, "why": why})
    return troubles


def _environment(sweep: SweepRecord) -> tuple[str, dict[str, str]]:
    """The command line and the versions, from the first run that recorded them.

    Times are left out: a report says what was found, and the same findings are the same page.
    """
    for run in sweep.members:
        path = run.folder / "environment.json"
        if path.exists():
            recorded = read_json(path)
            starts = recorded.pop("starts", [])
            facts = {key.rsplit(".", 1)[-1]: value for key, value in flatten(recorded).items()}
            command = _command(starts[0]["command"]) if starts else ""
            return command, {key: _say(value) for key, value in facts.items() if value is not None}
    return "", {}


def _command(words: Sequence[str]) -> str:
    """A recorded command line as a person types it: sweep.py is `python -m experiments.sweep`."""
    program, *flags = words
    if program.endswith(".py"):
        program = f"python -m experiments.{program.removesuffix('.py')}"
    return " ".join([program, *map(shlex.quote, flags)])


def _say(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _seconds(sweep: SweepRecord) -> str:
    """Training time of all runs together."""
    total = math.fsum(float(dict(run.result).get("seconds") or 0.0) for run in sweep.members)
    if total < 120:
        return f"{total:.0f} seconds"
    return f"{total / 60:.0f} minutes" if total < 7200 else f"{total / 3600:.1f} hours"


def _counts(content: Content) -> Mapping[str, int]:
    return {status: content.count(status) for status in STATUSES if content.count(status)}


def report_html(content: Content, figures: list[dict[str, str]]) -> str:
    """The report as one self-contained HTML page.

    Args:
        content: what `txf.report.content.gather` returns.
        figures: name, title, caption and base64 SVG of each figure.
    """
    title, rest = _split_question(content.sweep.question)
    command, environment = _environment(content.sweep)
    seeds = {content.sweep.seed(run) for run in content.sweep.members}
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("txf.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("report.html").render(
        title=title,
        question=rest,
        members=len(content.sweep.members),
        arms=len(content.sweep.arms),
        seeds=len(seeds),
        counts=_counts(content),
        waiting=content.count("unfinished") + content.count("missing"),
        split=content.split,
        floor=None if content.floor is None else number(content.floor),
        tuned=[short_keys(content.sweep.tuned)[key] for key in content.sweep.tuned],
        verdicts=[_verdict(verdict) for verdict in content.verdicts],
        table=_arms(content),
        figures=figures,
        kinds=_kinds(content),
        troubles=_troubles(content),
        appendix=_members(content),
        command=command,
        environment=environment,
        seconds=_seconds(content.sweep),
        drawn_with=f"matplotlib {matplotlib.__version__}",
    )
