"""Time the train step beside peers, packs, dispatches, generation and a whole sweep.

python -m experiments.benchmark [--shapes=all] [--parts=step,dispatch,packs,generation]
    [--seconds=2] [--json=benchmark.json]
"""

import sys
from pathlib import Path

from absl import flags

from experiments import common
from txf.errors import UserError

PARTS = ("step", "dispatch", "packs", "generation", "sweep")

_SHAPES = flags.DEFINE_list(
    "shapes",
    ["all"],
    "Names of shapes, or all that suit the device; `step` times each, the first"
    " is taken for all other parts.",
)
_PARTS = flags.DEFINE_list(
    "parts", list(PARTS[:-1]), f"What to time: {', '.join(PARTS)}; a sweep takes minutes."
)
_SECONDS = flags.DEFINE_float("seconds", 2.0, "How long each contender is timed at least.")
_JSON = flags.DEFINE_string("json", None, "File for the figures, with device and versions.")


def main(overrides: list[str]) -> None:
    """Time what the flags name; print a table a part, and write the document."""
    if overrides:
        raise UserError(f"{overrides[0]} is no flag of this command; its models are --shapes")
    for part in _PARTS.value:
        if part not in PARTS:
            raise UserError(f"--parts={part} is unknown; choose from {', '.join(PARTS)}")
    if not 0 < _SECONDS.value < float("inf"):
        raise UserError(f"--seconds={_SECONDS.value} is not a number above 0")
    if _JSON.value is not None and not Path(_JSON.value).parent.is_dir():
        raise UserError(f"--json={_JSON.value} is in a folder that does not exist")

    import jax

    from txf.benchmark.shapes import find_shapes

    shapes = find_shapes(_SHAPES.value, jax.default_backend())

    from txf import files
    from txf.benchmark import generating, steps, sweeping
    from txf.benchmark.document import make_document, print_table

    first, seconds = shapes[0], _SECONDS.value
    measure = {
        "step": lambda: [row for shape in shapes for row in steps.step_rows(shape, seconds)],
        "dispatch": lambda: steps.dispatch_rows(first, seconds),
        "packs": lambda: steps.pack_rows(first, seconds),
        "generation": lambda: generating.generation_rows(first, seconds),
        "sweep": sweeping.sweep_rows,
    }
    found = {}
    for part in dict.fromkeys(_PARTS.value):
        found[part] = measure[part]()
        print_table(part, found[part])
    if _JSON.value is not None:
        command = [Path(sys.argv[0]).name, *sys.argv[1:]]
        files.write_json(_JSON.value, make_document(command, seconds, found))


if __name__ == "__main__":
    common.run(main)
