"""Train one run, or continue it.

python -m experiments.train --config=configs/storyworld.py --workdir=RUN
    [--config.model.depth=4 ...]
"""

from absl import flags

from experiments import common

_CONFIG = flags.DEFINE_string("config", "configs/storyworld.py", "File with get_config().")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run, new or to be continued.")
flags.mark_flag_as_required("workdir")


def main(overrides: list[str]) -> None:
    """Train the run that the flags describe, and say what came of it."""
    config = common.load_config(_CONFIG.value, overrides)

    from txf.training.loop import train

    result = train(
        config,
        _WORKDIR.value,
        progress=common.print_progress,
        should_stop=common.should_stop,
    )
    print(
        f"{result['status']} after {result['steps']} steps; "
        f"{result['parameters']:,} parameters; results in {_WORKDIR.value}"
    )
    common.print_metrics({split: result[split] for split in ("valid", "test") if split in result})


if __name__ == "__main__":
    common.run(main, many=True, continues=_WORKDIR)
