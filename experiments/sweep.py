"""Run a sweep, or continue it, and write its table and report.

python -m experiments.sweep --sweep=configs/sweeps/ln_placement.py --workdir=SWEEP
    [--dry_run] [--retry_failed] [--workers=auto|N] [--pack=auto|N]
    [--config.training.steps=200 ...]
"""

import re
import sys

from absl import flags

from experiments import common, outcome
from txf import hosts
from txf.config import default_config, flatten
from txf.errors import UserError

_SWEEP = flags.DEFINE_string(
    "sweep", None, "File with get_config(), get_sweep(), get_hypotheses()."
)
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the sweep, new or to be continued.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Say what would run and what it would cost.")
_RETRY_FAILED = flags.DEFINE_bool("retry_failed", False, "Run members again that have failed.")
_PACK = flags.DEFINE_string(
    "pack", "auto", "How many members that share a compiled program train side by side."
)
_WORKERS = flags.DEFINE_string(
    "workers", "auto", "In how many processes members run at a time; they share the CPU's cores."
)
flags.mark_flag_as_required("sweep")


def main(overrides: list[str]) -> None:
    """Run the sweep that the flags describe, or say what it would cost."""
    if _WORKDIR.value is None and not _DRY_RUN.value:
        raise UserError("--workdir=FOLDER is missing; the sweep's runs and results go there")

    from txf.sweeps import estimate
    from txf.sweeps.crew import make_crew
    from txf.sweeps.definition import load_experiment, settle
    from txf.sweeps.packing import pack_size, packs
    from txf.sweeps.runner import recorded_status, run_sweep
    from txf.training.peak import matmul_rate
    from txf.training.run import threads_of

    experiment = load_experiment(_SWEEP.value, override_values(overrides))
    statuses = dict.fromkeys((member.name for member in experiment.members), "")
    if _WORKDIR.value is not None:
        experiment = settle(experiment, _WORKDIR.value)
        statuses = {m.name: recorded_status(m, _WORKDIR.value) for m in experiment.members}
    if _RETRY_FAILED.value:
        statuses = {name: "" if status == "failed" else status for name, status in statuses.items()}
    costs = estimate.sweep_costs(experiment.members)
    rate = hosts.first(matmul_rate())
    pack = pack_size(_PACK.value, experiment.members, costs, rate)
    threads = None if _WORKDIR.value is None else threads_of(_WORKDIR.value)
    jobs = len(packs(experiment.members, pack))
    crew = make_crew(_WORKERS.value, jobs, pack, costs, threads, common.set_up_worker)
    workers = crew.size if crew else 1
    if _DRY_RUN.value:
        print(estimate.describe(experiment, costs, rate, statuses, workers))
        return

    from txf.sweeps.progress import make_progress
    from txf.training.loop import train, train_pack

    seconds = estimate.sweep_seconds(experiment.members, costs, rate / workers)
    print(f"{experiment.question.splitlines()[0]}\n{estimate.varied(experiment)}", flush=True)
    finished = run_sweep(
        experiment,
        _WORKDIR.value,
        train=train,
        train_pack=train_pack,
        pack=pack,
        crew=crew,
        work=seconds,
        retry_failed=_RETRY_FAILED.value,
        progress=make_progress(sys.stdout, seconds),
        should_stop=common.should_stop,
    )
    if hosts.is_first():
        outcome.publish(_WORKDIR.value)
    finished.raise_errors(_WORKDIR.value)


def override_values(overrides: list[str]) -> dict[str, object]:
    """Return what `--config.key=value` words ask for, by key, each value of its key's type."""
    config = flatten(common.override(default_config(), overrides))
    keys = [re.sub(r"^--(no)?config\.", "", word.partition("=")[0]) for word in overrides]
    return {key: config[key] for key in keys}


if __name__ == "__main__":
    common.run(main, many=True)
