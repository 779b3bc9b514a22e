"""The style of the plots: a journal column wide, legible at that size, distinguishable without colour."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import Locator, MaxNLocator, NullFormatter, PercentFormatter
from matplotlib.transforms import ScaledTranslation

from aucpr_dask.view.tables import distinct, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure
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
_DASHES: tuple[Any, ...] = ((5, 1.5), (1.5, 1), (6, 1.5, 1, 1.5), (3, 1, 1, 1, 1, 1), (8, 3))
_DASHES += ((2.5, 2.5), (9, 1.5, 3, 1.5), (1, 3), (5, 1, 1, 1, 1, 1, 1, 1))  # as many as are named
SEQUENCE = ("-", *((0, dashes) for dashes in _DASHES))
COLOURS = (BLUE, VERMILLION, BLACK, ORANGE, GREEN, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")
DIVERGING = "PuOr_r"  # orange is more, purple less, with every colour vision
HEAT = "cividis"  # looks the same with every colour vision, and uniform in grey

_SETTINGS: Any = {
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), FONT),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.4,
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    # Names are text, even if they contain dollar signs.
    **dict.fromkeys(("text.parse_math", "text.usetex", "axes.formatter.use_mathtext"), False),
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
    "over": (
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
    **dict.fromkeys(("missing", "unjudged"), ("str", "See :func:`aucpr_dask.curve`.")),
    "positive_from": ("int, optional", "See :func:`aucpr_dask.curve`."),
    "ax": ("matplotlib.axes.Axes, optional", "Where to draw; by default a new figure, as wide as a journal's column."),
}

_EXAMPLE = """>>> import aucpr_dask as ap
>>> scores = ap.simulate.binormal().sample(200, 0.2, n_simulations=5).compute()
>>> ax = """
_QUERIES = 'ap.evaluate(scores.assign_coords(query=("item", list("abcdefgh") * 25)), by="query")'
_OF = {  # what the example of a plot draws, if not scores
    **dict.fromkeys(("forest", "caterpillar"), "ap.evaluate(scores)"),
    "replicates": 'ap.evaluate(scores, interval="bootstrap", keep_replicates=True)',
    "heatmap": _QUERIES,
    "power": _QUERIES,
    "critical_difference": f'ap.friedman({_QUERIES}, over="query")',
    "maps": "ap.evaluate(scores.expand_dims(lat=[45.0, 50.0], lon=[0.0, 5.0]))",
    "differences": 'ap.compare(scores, "binormal-000001")',
    "pairs": "ap.compare(scores)",
    "ranks": "ap.rank(scores)",
    "coverage": 'ap.simulate.study("binormal", [100, 200], interval="logit", n_simulations=50)',
}


def plot(draw: Callable[_Options, _Result]) -> Callable[_Options, _Result]:
    """Draw in the style of this module, restore that of the caller, and complete the docstring."""

    @functools.wraps(draw)
    def drawn_in_style(*args: _Options.args, **options: _Options.kwargs) -> _Result:
        with mpl.rc_context(_SETTINGS):
            drawn = draw(*args, **options)
            is_interactive = mpl.is_interactive()  # set by the backend of a notebook, which loads with the first figure
        mpl.interactive(is_interactive)
        return drawn

    # The docstring ends with the plot's own parameters; those that it shares and an example follow.
    own, name = inspect.getdoc(draw) or "", draw.__name__
    described = {name.strip() for names in re.findall(r"^([\w, ]+) :", own, re.M) for name in names.split(",")}
    shared = [name for name in inspect.signature(draw).parameters if name in _SHARED and name not in described]
    entries = [f"{name} : {kind}\n    {text}" for name in shared for kind, text in [_SHARED[name]]]
    raised = "InvalidInputError\n    If the data are of another kind, or an option is not allowed."
    example = f"{_EXAMPLE}{_OF.get(name, 'scores')}.aucpr.plot.{name}()"
    sections = {"Returns": "matplotlib.axes.Axes", "Raises": raised, "Examples": example}
    said = [f"\n{head}\n{'-' * len(head)}\n{text}" for head, text in sections.items()]
    drawn_in_style.__doc__ = "\n".join([own, *entries, *said, ""])
    return drawn_in_style


def axes_of(ax: Axes | None, height: float = 0.95 * COLUMN) -> Axes:
    """Return the given axes, or new ones, a column wide."""
    if ax is None:
        figure, ax = plt.subplots(figsize=(COLUMN, height), layout="constrained")
        figure.set_gid(OURS)
    return ax


def figure_of(ax: Axes) -> Figure:
    """Return the figure around axes, whole if they lie in a part of it."""
    return cast("Figure", ax.get_figure(root=True))


def rows_of(ax: Axes | None, n: int, top: int) -> int:
    """Return how many rows to draw: at most `top`, and no more than fit into the given axes."""
    if ax is not None:
        figure = figure_of(ax)
        height = POINTS * ax.get_position().height * figure.get_figheight()
        if figure.get_layout_engine() is not None:
            height -= ROOM_OF_LABELS  # which the layout engine takes from the axes later
        top = min(top, max(1, int(height / (1.25 * SMALL))))
    return min(n, top)


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


def label_columns(ax: Axes, names: Sequence[str]) -> None:
    """Write names vertically above columns 0, 1, ... of a matrix."""
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.tick_params(axis="x", length=0, labeltop=True, labelbottom=False, top=False, bottom=False)
    plain(ax.get_xticklabels())


def put_colours(
    ax: Axes | Sequence[Axes], image: Any, label: str, *, look: dict[str, Any] | None = None, **place: Any
) -> None:
    """Add a bar of what the colours of an image mean, to one of axes or to all that share it."""
    bar = figure_of(np.ravel(np.array(ax))[0]).colorbar(image, ax=ax, **place)
    bar.outline.set_visible(False)
    bar.set_label(label, **look or {})


def put_title(ax: Axes, *parts: object) -> None:
    """Write a title of several parts above the axes, without those that are None or empty."""
    text = " · ".join(shorten(str(part), 44) for part in parts if part is not None and part != "")
    if text:
        plain([ax.set_title(shorten(text, 56), loc="left", wrap=True)])


def put_legend(ax: Axes) -> None:
    """Add a legend of all labels below the axes, where it covers no data."""
    handles, labels = ax.get_legend_handles_labels()
    figure = figure_of(ax)
    if not handles:
        return
    is_ours = figure.get_gid() == OURS
    below = ax.transAxes + ScaledTranslation(0, -ROOM_OF_LABELS / POINTS, ax.figure.dpi_scale_trans)
    place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below, "borderaxespad": 0}
    place = {"loc": "outside lower center"} if is_ours else place  # or below the labels of the caller's axes
    for n_columns in (2, 1):  # in one if two do not fit
        legend: Any = (figure if is_ours else ax).legend(handles, labels, **place, ncols=n_columns, columnspacing=1.2)
        plain(legend.get_texts())
        if n_columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    if not is_ours and figure.get_layout_engine() is None:  # which would make room for it
        box, whole = ax.get_position(), figure.get_figheight()
        needed = legend.get_window_extent().height / figure.dpi + ROOM_OF_LABELS / POINTS - box.y0 * whole
        height = min(max(needed / whole, 0) + 0.02, 0.7 * box.height)
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
