"""Each arm at its own best: which setting of the tuned keys an arm is judged at.

An arm is chosen on the validation split and reported on test, by one rule for verdicts, tables and
figures: of the settings with the most finished seeds, the one with the lowest mean validation loss;
of equals, the first in order.  A setting at which a seed diverged therefore loses to one at which
none did, whatever the survivors' loss.
"""

import math
from collections.abc import Hashable, Iterable

Setting = tuple[Hashable, ...]


def best_setting(runs: Iterable[tuple[Setting, str, float | None]]) -> Setting | None:
    """The setting of the tuned keys an arm is judged at.

    Args:
        runs: setting, status and final validation loss (None where there is none) of each of the
            arm's runs, all seeds and all settings, in order.

    Returns:
        The best setting; the first one where no run has finished; None for an arm without runs.
    """
    finished: dict[Setting, list[float]] = {}
    for setting, status, loss in runs:
        losses = finished.setdefault(setting, [])
        if status == "done" and loss is not None and math.isfinite(loss):
            losses.append(loss)
    if not finished:
        return None
    return min(
        finished,
        key=lambda setting: (
            -len(finished[setting]),
            sum(finished[setting]) / max(1, len(finished[setting])),
        ),
    )
