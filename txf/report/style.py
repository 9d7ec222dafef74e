"""The look of every figure, and writing it so that the same figure is the same bytes."""

import contextlib
import io
from collections.abc import Iterator, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT, RULE = "#222222", "#777777", "#dddddd"
WIDTH = 7.4  # inches; the report's text column

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": 8.5,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "path",
    "svg.hashsalt": "txf",  # ids in the file do not change from one build to the next
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "xtick.major.size": 3,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8,
    "ytick.major.size": 0,
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the report's style inside this context, and leave matplotlib's settings as they were."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def render(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of an `svg` or `png` file, without a date."""
    buffer = io.BytesIO()
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}[kind]
    figure.savefig(
        buffer, format=kind, metadata=metadata, dpi=160, bbox_inches="tight", pad_inches=0.06
    )
    return buffer.getvalue()


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions apart to at least `gap`, each as little as possible; keeps their order.

    Labels at the ends of lines use it.  Runs of labels that touch are centred on the mean of where
    they want to be (isotonic regression on positions less their rank times gap).
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    blocks: list[list[float]] = []  # mean of wish, number of members
    for rank, index in enumerate(order):
        blocks.append([positions[index] - rank * gap, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            wish, count = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + wish * count) / (last[1] + count)
            last[1] += count
    placed = [wish for wish, count in blocks for _ in range(int(count))]
    result = [0.0] * len(positions)
    for rank, index in enumerate(order):
        result[index] = placed[rank] + rank * gap
    return result


def end_labels(
    axes: Axes, ends: Sequence[tuple[float, float]], labels: Sequence[str], colours: Sequence[str]
) -> None:
    """Name lines at their right ends, in their colours, moved apart where they would touch.

    Call after the axes' limits are final.

    Args:
        axes: linear in y.
        ends: x and y of each line's end.
        labels: one a line.
        colours: one a line.
    """
    if not ends:
        return
    low, high = axes.get_ylim()
    height = axes.get_position().height * axes.figure.get_figheight() * 72
    gap = (high - low) * 9.5 / max(height, 1.0)
    tall = [min(max(y, low), high) for _, y in ends]
    for (x, _), want, y, label, colour in zip(
        ends, tall, spread(tall, gap), labels, colours, strict=True
    ):
        axes.annotate(
            label,
            (x, want),
            xytext=(1.015, (y - low) / (high - low)),
            textcoords="axes fraction",
            color=colour,
            fontsize=8,
            va="center",
            annotation_clip=False,
        )
