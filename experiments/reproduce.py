"""Re-evaluate every checkpoint of a sweep, compare with what was recorded, rebuild the report.

python -m experiments.reproduce --workdir=SWEEP [--tolerance=0.001]
"""

from absl import flags

from experiments import common, outcome
from txf import hosts
from txf.errors import RunError, UserError

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the sweep.")
_TOLERANCE = flags.DEFINE_float(
    "tolerance",
    None,
    "Relative difference that still counts as equal; by default none on the platform that trained "
    "a run, and 0.001 on another.",
    lower_bound=0.0,
)
flags.mark_flag_as_required("workdir")


def main(overrides: list[str]) -> None:
    """Check all runs, rebuild table and report, and fail if anything differs or is missing."""
    if overrides:
        raise UserError(f"a sweep is reproduced with its own configs; drop {' '.join(overrides)}")
    workdir = _WORKDIR.value

    from txf.files import absolute
    from txf.sweeps.reading import read_sweep
    from txf.training.reopen import check_run

    members = read_sweep(workdir).members
    problems = []
    for number, member in enumerate(members, 1):
        found = check_run(member.folder, _TOLERANCE.value)
        verdict = "differs" if found else "equal"
        print(f"{number}/{len(members)} {member.name}: {verdict}", flush=True)
        problems += [f"{member.name}: {line}" for line in found]
    table = absolute(workdir) / "results.csv"
    before = table.read_text() if table.exists() else None
    if hosts.is_first():
        outcome.publish(workdir)
        if table.read_text() != before:
            problems.append("results.csv was not what the runs left; it has been written anew")
    problems = hosts.first(problems)
    if problems:
        head = f"{len(problems)} differences from what was recorded:"
        raise RunError("\n".join([head, *problems]))
    print(f"all {len(members)} members reproduce what was recorded")


if __name__ == "__main__":
    common.run(main, many=True, continues=_WORKDIR)
