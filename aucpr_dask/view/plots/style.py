"""The style of the plots: a journal column wide, legible at that size, distinguishable without colour."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import Locator, MaxNLocator, NullFormatter, PercentFormatter
from matplotlib.transforms import ScaledTranslation

from aucpr_dask.view.tables import distinct, shorten

if TYPE_CHECKING:
    from matplotlib.text import Text

COLUMN = 85 / 25.4  # inches
POINTS = 72  # to an inch
FONT, SMALL = 8.0, 7.0  # points
WIDTH_OF_CHARACTER = 0.055  # inches, of the small font
ROW = 0.16  # inches, of a row of a leaderboard
LONGEST_NAME = 26
LONGEST_WORD = 20  # of a label that wraps below axes beside names
ROOM_OF_LABELS = 36  # points, above and below axes
OURS = "aucpr_dask"  # identifier of figures made here

# Okabe and Ito 2008: distinguishable with every colour vision. In grey, the dashes distinguish lines.
BLACK, BLUE, VERMILLION, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
SKY, ORANGE, PURPLE = "#56B4E9", "#E69F00", "#CC79A7"
GREY, PALE = "#767676", "#D9D9D9"
SEQUENCE: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.5, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 3)),
)
SEQUENCE += ((0, (2.5, 2.5)), (0, (9, 1.5, 3, 1.5)), (0, (1, 3)), (0, (5, 1, 1, 1, 1, 1, 1, 1)))  # as many as are named
COLOURS = (BLUE, VERMILLION, BLACK, ORANGE, GREEN, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
DIVERGING = "PuOr_r"  # orange is more, purple less, with every colour vision
HEAT = "cividis"  # looks the same with every colour vision, and uniform in grey

_SETTINGS: Any = {
    "font.size": FONT,
    "axes.labelsize": FONT,
    "axes.titlesize": FONT,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.4,
    "text.parse_math": False,  # names are text, even if they contain dollar signs
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "figure.dpi": 150,
    "savefig.dpi": 300,
}

_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")

# What several plots take, as their docstrings describe it.
_SHARED = {
    "estimator": ("str, optional", "Which estimator; by default the first."),
    "method": ("str, optional", "Which interval; by default the first that every estimator has."),
    "dataset": ("str, optional", "Which data set of a tree."),
    "query": (
        "label, optional",
        "Which query, if there are any; of a result, by default the means, as of :func:`aucpr_dask.aggregate`.",
    ),
    "models": ("label or sequence of labels, optional", "Models to draw, in this order; by default the best."),
    "bands": (
        '{"none", "pointwise", "simultaneous", "both"}',
        "Confidence bands of :func:`aucpr_dask.curve_bands`, of up to two models.",
    ),
    "level": ("float", "Confidence level."),
    "n_resamples": ("int", "Resamples of the bands."),
    "seed": ("int", "Seed of the bands."),
    "unit": (
        '{"items", "clusters"}, optional',
        "What the bands draw; by default clusters where the scores have the variable ``cluster``.",
    ),
    "top": ("int, optional", "How many of the best to draw at most; fewer if the given axes have no room."),
    "others": (
        '{"quantiles", "density", "none"}',
        "How to draw models that are not named, unless `model` is given: bands that contain half and 90 % of them, or "
        "how many pass through each spot.",
    ),
    "iso_f": ("bool", "Whether to draw lines along which F1, the harmonic mean of precision and recall, is equal."),
    "prevalence": ("float, optional", "See :func:`aucpr_dask.curve`."),
    "missing": ("str", "See :func:`aucpr_dask.curve`."),
    "unjudged": ("str", "See :func:`aucpr_dask.curve`."),
    "positive_from": ("int, optional", "See :func:`aucpr_dask.curve`."),
    "ax": ("matplotlib.axes.Axes, optional", "Where to draw; by default a new figure, as wide as a journal's column."),
}

_EXAMPLE = """>>> import aucpr_dask as ap
>>> scores = ap.simulate.binormal().sample(200, 0.2, n_simulations=5).compute()
>>> ax = """
_QUERIES = 'ap.evaluate(scores.assign_coords(query=("item", list("abcdefgh") * 25)), by="query")'
_OF = {  # what the example of a plot draws, if not scores
    **dict.fromkeys(("forest", "caterpillar"), "ap.evaluate(scores)"),
    "replicates": 'ap.evaluate(scores, intervals="bootstrap", keep_replicates=True)',
    "heatmap": _QUERIES,
    "power": _QUERIES,
    "critical_difference": f'ap.friedman({_QUERIES}, over="query")',
    "differences": 'ap.compare(scores, "binormal-000001")',
    "pairs": "ap.compare(scores)",
    "ranks": "ap.rank(scores)",
    "coverage": 'ap.simulate.study("binormal", [100, 200], intervals="logit", n_simulations=50)',
}


def _completed(plot: Callable[..., Any]) -> str:
    """Return the docstring of a plot, which ends with its own parameters, with those that it shares and an example."""
    own, name = inspect.getdoc(plot) or "", plot.__name__
    described = {name.strip() for names in re.findall(r"^([\w, ]+) :", own, re.M) for name in names.split(",")}
    shared = [name for name in inspect.signature(plot).parameters if name in _SHARED and name not in described]
    entries = [f"{name} : {kind}\n    {text}" for name in shared for kind, text in [_SHARED[name]]]
    raised = "InvalidInputError\n    If the data are of another kind, or an option is not allowed."
    example = f"{_EXAMPLE}{_OF.get(name, 'scores')}.aucpr.plot.{name}()"
    sections = {"Returns": "matplotlib.axes.Axes", "Raises": raised, "Examples": example}
    return "\n".join([own, *entries, *(f"\n{head}\n{'-' * len(head)}\n{text}" for head, text in sections.items()), ""])


def plot(draw: Callable[_Options, _Result]) -> Callable[_Options, _Result]:
    """Draw in the style of this module, restore that of the caller, and complete the docstring."""

    @functools.wraps(draw)
    def drawn_in_style(*args: _Options.args, **options: _Options.kwargs) -> _Result:
        with mpl.rc_context(_SETTINGS):
            drawn = draw(*args, **options)
            is_interactive = mpl.is_interactive()  # set by the backend of a notebook, which loads with the first figure
        mpl.interactive(is_interactive)
        return drawn

    drawn_in_style.__doc__ = _completed(draw)
    return drawn_in_style


def axes_of(ax: Axes | None, height: float = 0.95 * COLUMN) -> Axes:
    """Return the given axes, or new ones, a column wide."""
    if ax is None:
        figure, ax = plt.subplots(figsize=(COLUMN, height), layout="constrained")
        figure.set_gid(OURS)
    return ax


def rows_of(ax: Axes | None, n: int, top: int) -> int:
    """Return how many rows to draw: at most `top`, and no more than fit into the given axes."""
    if ax is not None:
        figure = ax.get_figure(root=True)
        height = POINTS * ax.get_position().height * (figure.get_figheight() if figure is not None else 1.0)
        if figure is not None and figure.get_layout_engine() is not None:
            height -= ROOM_OF_LABELS  # which the layout engine takes from the axes later
        top = min(top, max(1, int(height / (1.25 * SMALL))))
    return min(n, top)


def height_of(rows: int) -> float:
    """Return the height in inches of a figure with this many rows."""
    return 0.75 + ROW * max(rows, 3)


def plain(texts: Iterable[Text]) -> None:
    """Draw texts literally, even if the caller's style parses mathematics."""
    for text in texts:
        text.set_parse_math(False)
        text.set_usetex(False)


def label_rows(ax: Axes, names: Sequence[str], longest: int = LONGEST_NAME, among: Sequence[str] = ()) -> None:
    """Write names next to rows 0, 1, ... from the top down, shortened such that they differ from all others `among`."""
    short = dict(zip([*names, *among], distinct([*names, *among], longest), strict=True))
    ax.set_yticks(range(len(names)), [short[name] for name in names])
    plain(ax.get_yticklabels())
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def put_title(ax: Axes, *parts: str) -> None:
    """Write a title of several parts above the axes."""
    text = " · ".join(shorten(part, 44) for part in parts if part)
    if text:
        plain([ax.set_title(shorten(text, 56), loc="left", wrap=True)])


def put_legend(ax: Axes) -> None:
    """Add a legend of all labels below the axes, where it covers no data."""
    handles, labels = ax.get_legend_handles_labels()
    figure = ax.get_figure(root=True)
    if not handles:
        return
    if figure is None or figure.get_gid() != OURS:
        _put_legend_below(ax)
        return
    below: Any = {"loc": "outside lower center", "columnspacing": 1.2}
    _in_columns(lambda n_columns: figure.legend(handles, labels, **below, ncols=n_columns), figure.bbox.width)


def _in_columns(make: Callable[[int], Any], width: float) -> Any:
    """Return a legend in two columns if they fit, else in one."""
    legend = make(2)
    plain(legend.get_texts())
    if legend.get_window_extent().width > width:
        legend.remove()
        legend = make(1)
        plain(legend.get_texts())
    return legend


def _put_legend_below(ax: Axes) -> None:
    """Add a legend below the labels of the caller's axes, and make room for it unless a layout engine does."""
    figure = ax.figure
    below = ax.transAxes + ScaledTranslation(0, -ROOM_OF_LABELS / POINTS, figure.dpi_scale_trans)
    place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below, "borderaxespad": 0}
    root = ax.get_figure(root=True)
    width = np.inf if root is None else root.bbox.width
    legend = _in_columns(lambda n_columns: ax.legend(**place, ncols=n_columns, columnspacing=1.2), width)
    if root is not None and root.get_layout_engine() is None:
        box = ax.get_position()
        needed = legend.get_window_extent().height / root.dpi + ROOM_OF_LABELS / POINTS - box.y0 * root.get_figheight()
        height = min(max(needed / root.get_figheight(), 0) + 0.02, 0.7 * box.height)
        ax.set_position((box.x0, box.y0 + height, box.width, box.height - height))


def look_of(line: int) -> dict[str, Any]:
    """Return the colour and the dashes of a line."""
    return {"color": COLOURS[line % len(COLOURS)], "linestyle": SEQUENCE[line % len(SEQUENCE)]}


def count_horizontally(ax: Axes, ticks: Locator) -> None:
    """Make the horizontal axis one of whole numbers, on a logarithmic scale, and the vertical one of shares."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticks)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def say(ax: Axes, why: str) -> None:
    """Write into empty axes why nothing is drawn."""
    where: Any = {"transform": ax.transAxes, "ha": "center", "va": "center", "wrap": True}
    plain([ax.text(0.5, 0.5, why, color=GREY, **where)])


class PlaceLocator(MaxNLocator):
    """Ticks at whole numbers from 1, the best place."""

    def __init__(self) -> None:
        super().__init__("auto", steps=[1, 2, 2.5, 5, 10], integer=True, min_n_ticks=1)

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks, with 1 in place of what is below."""
        return np.unique(np.maximum(super().tick_values(vmin, vmax), 1))


def as_label(name: str) -> str:
    """Return a name for a legend, which would omit one that starts with an underscore."""
    name = shorten(name, LONGEST_NAME)
    return f"\u200a{name}" if name.startswith("_") else name
