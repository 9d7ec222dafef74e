"""The look of every figure, and writing it so that the same figure is the same bytes."""

import contextlib
import io
from collections.abc import Iterator

import matplotlib
from matplotlib.figure import Figure

KINDS = ("svg", "png")  # what each figure is written as
INK, FAINT, RULE = "#222222", "#777777", "#dddddd"
WIDTH = 8.6  # inches; the report's text column
NARROW = 5.6  # of a figure with one panel

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
    """Draw in the report's style inside this context; matplotlib's settings are restored after."""
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
