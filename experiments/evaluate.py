"""Evaluate a checkpoint of one run on its validation and test data.

python -m experiments.evaluate --workdir=RUN [--step=N]
"""

from absl import flags

from experiments import common
from txf.errors import UserError

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run.")
_STEP = flags.DEFINE_integer("step", None, "Step of the checkpoint; the last one if not given.")
flags.mark_flag_as_required("workdir")


def main(overrides: list[str]) -> None:
    """Print the metrics of the checkpoint, and whether they are those on record."""
    if overrides:
        raise UserError(f"a run is evaluated with its own config; drop {' '.join(overrides)}")

    from txf.training.reopen import compare, evaluate_run
    from txf.training.run import RunFolder

    step, metrics = evaluate_run(_WORKDIR.value, _STEP.value)
    print(f"step {step}")
    common.print_metrics(metrics)
    result = RunFolder.at(_WORKDIR.value).result()
    if result is not None and result["steps"] == step:
        differing = [figure for figure in compare(result, metrics) if not figure.agrees(0.0)]
        for figure in differing:
            print(f"{figure.split} {figure.name} was recorded as {figure.recorded}")
        if not differing:
            print("equal to what was recorded, to the bit")


if __name__ == "__main__":
    common.run(main, many=True, continues=_WORKDIR)
