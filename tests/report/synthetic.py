"""Makes a sweep's folder as the runner leaves it, without training anything."""

import hashlib
import itertools
import json
import math
import pathlib

import numpy as np

KINDS = ("recall", "agreement", "order", "free")
FLOOR = 1.05
BASE = {
    "seed": 0,
    "task": "language_model",
    "data": {"source": "storyworld", "seed": 0, "context_length": 64},
    "model": {"depth": 2, "width": 64, "num_heads": 4, "norm_placement": "pre"},
    "optimizer": {"learning_rate": 1e-3},
    "training": {"steps": 1000},
}
QUESTION = """Does pre-norm train deeper stacks better than post-norm?

Depth and norm placement on storyworld, each arm at its own best learning rate <of two> & 3 seeds.
"""


def unit(*key):
    """A standard normal number that depends on the key alone."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return float(np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:8]))).normal())


def points(axes):
    """Every combination of the axes, as overrides."""
    return [dict(zip(axes, v, strict=True)) for v in itertools.product(*axes.values())]


def member(overrides, tuned):
    short = {key: key.rsplit(".", 1)[-1] for key in overrides}
    text = {key: f"{short[key]}={value}" for key, value in overrides.items()}
    ordered = sorted(overrides, key=lambda key: (key == "seed", key in tuned))
    arm = [text[key] for key in ordered if key != "seed" and key not in tuned]
    return {
        "name": ",".join(text[key] for key in ordered) or "base",
        "arm": ",".join(arm) or "base",
        "overrides": overrides,
        "fingerprint": hashlib.sha256(repr(overrides).encode()).hexdigest()[:16],
    }


def final_loss(overrides):
    """A plausible loss: falls with depth, best at four heads; post-norm loses with depth."""
    depth = overrides.get("model.depth", 2)
    heads = overrides.get("model.num_heads", 4)
    rate = overrides.get("optimizer.learning_rate", 1e-3)
    loss = FLOOR + 0.55 * depth**-0.45 + 0.02 * abs(math.log2(heads / 4))
    bad = {"pre": 0.0, "post": 0.03 * depth, "none": 0.2, "sandwich": 0.01}
    loss += bad[overrides.get("model.norm_placement", "pre")]
    loss += 0.05 * abs(math.log2(rate / 2e-3))
    seed = overrides.get("seed", 0)
    return loss + 0.02 * unit("seed", seed) + 0.006 * unit("run", sorted(overrides.items()))


def evaluation(loss, key, split):
    line = {
        "loss": loss,
        "perplexity": math.exp(loss),
        "bits_per_byte": loss / math.log(2) / 3.1,
        "excess": loss - FLOOR,
        "floor": FLOOR,
    }
    for i, kind in enumerate(KINDS):
        line[f"loss_{kind}"] = loss * (0.4 + 0.35 * i) + 0.01 * unit(key, kind, split)
    return line


def write_run(folder, overrides, outcome="done", test=True, steps=1000):
    """One run's folder: done, diverged, failed or unfinished."""
    folder.mkdir(parents=True)
    key = sorted(overrides.items())
    depth = overrides.get("model.depth", 2)
    final, start = final_loss(overrides), 3.4
    stop = {"done": steps, "diverged": 2 * steps // 5, "failed": 0, "unfinished": 3 * steps // 5}
    last = stop[outcome]
    lines = []
    for step in range(0, last + 1, steps // 10):
        loss = final + (start - final) * math.exp(-6 * step / steps) + 0.01 * unit(key, step)
        loss = final if step == steps else loss
        if outcome == "diverged" and step == last:
            loss = math.nan
        if step:
            lines.append({"step": step, "split": "train", "loss": loss, "learning_rate": 1e-3})
        lines.append({"step": step, "split": "valid", **evaluation(loss, key, "valid")})
    if outcome != "failed":
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(
            text + ('{"step": 7' if outcome == "unfinished" else "")
        )
    (folder / "environment.json").write_text(
        json.dumps(
            {
                "python": "3.11.9",
                "platform": "Linux",
                "computes_as": {"backend": "cpu", "device": "a processor", "device_count": 1},
                "process_count": 1,
                "versions": {"jax": "0.10.2", "flax": "0.12.8", "optax": None},
                "git_commit": "0123abc",
                "starts": [
                    {
                        "time": "2026-01-01T00:00:00Z",
                        "command": ["sweep.py", "--sweep=a b.py", "--workdir=sweeps/a"],
                        "changed": {},
                    }
                ],
            }
        )
    )
    config = json.loads(json.dumps(BASE))
    for dotted, value in overrides.items():
        group = config
        *parents, leaf = dotted.split(".")
        for parent in parents:
            group = group[parent]
        group[leaf] = value
    (folder / "config.json").write_text(json.dumps(config))
    if outcome == "unfinished":
        return
    result = {
        "status": outcome,
        "fingerprint": "f",
        "steps": last,
        "parameters": 50_000 * depth + 12_345,
        "flops_per_token": 300_000 * depth + 70_000,
        "seconds": 12.5 + abs(unit(key, "seconds")),
        "error": None,
    }
    if outcome == "done":
        result["best"] = {"step": last, "loss": final}
        result["valid"] = evaluation(final, key, "valid")
        if test:
            result["test"] = evaluation(final + 0.004, key, "test")
    if outcome == "diverged":
        result |= {"diverged_at_step": last, "error": "the loss was not finite"}
        result["valid"] = evaluation(2.5, key, "valid")
    if outcome == "failed":
        result["error"] = "RESOURCE_EXHAUSTED: out of memory <allocating 3 GiB>"
    (folder / "result.json").write_text(json.dumps(result))


def write_sweep(
    folder, overrides, tuned=(), outcomes=None, hypotheses=(), question=QUESTION, test=True
):
    """A sweep's folder.

    Args:
        folder: where it goes.
        overrides: one dict of overrides a member.
        tuned: tuned keys.
        outcomes: outcome by member number; the others are done; "missing" leaves no folder.
        hypotheses: hypotheses, or their dicts.
        question: the sweep file's docstring.
        test: whether runs have a test split.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    members = [member(point, tuned) for point in overrides]
    sweep = {
        "question": question,
        "members": members,
        "tuned": list(tuned),
        "base": BASE,
        "hypotheses": [h if isinstance(h, dict) else h.to_dict() for h in hypotheses],
    }
    (folder / "sweep.json").write_text(json.dumps(sweep))
    for i, entry in enumerate(members):
        outcome = (outcomes or {}).get(i, "done")
        if outcome != "missing":
            write_run(folder / "runs" / entry["name"], entry["overrides"], outcome, test)
    return folder


def full_grid(folder, hypotheses=()):
    """Depth x placement x two learning rates x three seeds, with one of each misfortune."""
    axes = {
        "model.depth": [1, 2, 4],
        "model.norm_placement": ["none", "post", "pre"],
        "optimizer.learning_rate": [1e-3, 4e-3],
        "seed": [0, 1, 2],
    }
    outcomes = {0: "failed", 1: "unfinished", 53: "missing", 45: "diverged", 46: "diverged"}
    return write_sweep(folder, points(axes), ["optimizer.learning_rate"], outcomes, hypotheses)


def one_at_a_time(folder, hypotheses=()):
    """Depth, heads and placement, one factor at a time around the base, three seeds."""
    keys = ["model.depth", "model.num_heads", "model.norm_placement"]
    centre = dict(zip(keys, [2, 4, "pre"], strict=True))
    moves = [("model.depth", [1, 2, 4, 8]), ("model.num_heads", [1, 2, 8])]
    moves += [("model.norm_placement", ["none", "post", "sandwich"])]
    arms = [{**centre, key: value} for key, values in moves for value in values]
    return write_sweep(
        folder, [{**arm, "seed": s} for arm in arms for s in range(3)], (), {}, hypotheses
    )
