"""Plots of precision-recall, ROC and achievable curves: a few models by name, thousands by quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.ticker import MultipleLocator, PercentFormatter
from numpy.typing import NDArray

from aucpr_dask.curves import api, references
from aucpr_dask.curves.bands import curve_bands
from aucpr_dask.curves.points import ACHIEVABLE, PRECISION_RECALL, ROC
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation import alignment, request
from aucpr_dask.evaluation.api import estimate
from aucpr_dask.schema import choices
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import UNITS, takes
from aucpr_dask.schema.terms import BOUND, ITEM, MODEL, REPEAT, Scores, percent
from aucpr_dask.view import selecting
from aucpr_dask.view.plots import style
from aucpr_dask.view.plots.leaderboards import MOST_COMPARED
from aucpr_dask.view.tables import distinct, shorten

NOTHING = "A model has no curve:\nit needs both positive and negative items."
BANDS = ("none", "pointwise", "simultaneous", "both")
OTHERS = ("quantiles", "density", "none")
MOST_NAMED, MOST_BANDS = 10, 2
TOP = 3  # of more models than can be named
STEPS = 400  # places along a curve, about one per pixel
FINE = 500  # up to this many positives, every drop of a curve is drawn exactly
F_LEVELS = (0.2, 0.4, 0.6, 0.8)
QUANTILES = ((0.05, 0.95, "90 % of models"), (0.25, 0.75, "half of models"))

Floats = NDArray[np.float64]


class _Subject(NamedTuple):
    """One data set, at one query, the options of its curves, and the models to draw by name."""

    path: str
    title: str
    node: xr.Dataset
    query: Any
    reading: Mapping[str, Any]
    named: list[int]
    is_chosen: bool  # named by the caller, not because they are the best

    def of(self, models: Sequence[int] | None = None) -> dict[str, Any]:
        """Return the arguments of `curve` for all models, lazy if the scores are, or in memory for some."""
        positive_from = self.reading.get("positive_from")
        return api.arguments_of(self.node, models, path=self.path, positive_from=positive_from) | dict(self.reading)

    def axes(self, ax: Axes | None) -> Axes:
        """Return the axes, with room for the legend."""
        return style.axes_of(ax, 0.95 * style.COLUMN + style.ROW * len(self.named))

    def drawn(self, by: str, short: str) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the arguments of each drawn model, and its name for the legend, with its area."""
        if not self.named:
            return
        names = selecting.names_of(self.node)
        areas = np.ravel(estimate(**self.of(self.named), estimator=by))
        shortened = distinct([*(names[i] for i in self.named), *names[:MOST_COMPARED]], style.LONGEST_NAME)
        for position, name, area in zip(self.named, shortened, areas, strict=False):
            shown = f" ({short} = {area:.2f})" if np.isfinite(area) else ""
            name = shorten(name, style.LONGEST_NAME)  # a legend would omit one that starts with an underscore
            yield self.of([position]), ("\u200a" if name.startswith("_") else "") + name + shown


@style.plot
@takes(choices.CurveReading)
def precision_recall(
    scores: Scores,
    model: selecting.Models | None = None,
    *,
    dataset: str | None = None,
    query: Any = None,
    bands: str = "none",
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
    over: str | None = None,
    top: int | None = None,
    others: str = "quantiles",
    iso_f: bool = True,
    ax: Axes | None = None,
    **reading: Unpack[choices.CurveReading],
) -> Axes:
    """Draw precision-recall curves, with the prevalence, the unachievable region and lines of equal F1.

    Parameters
    ----------
    scores : xarray.Dataset or xarray.DataTree
        Score data sets.
    model : label or sequence of labels, optional
        Up to ten models to draw by name; by default all, or the best of more by average precision.
    top : int, optional
        How many of the best to draw if no model is named; by default all up to ten, and three of more.
    """
    subject = _subject(scores, "precision_recall", dataset, query, model, top, reading, others=others)
    ax = subject.axes(ax)
    _draw_precision_recall_ground(ax, subject, iso_f=iso_f)
    _draw_others(ax, subject, PRECISION_RECALL, others)
    _draw_bands(ax, subject, PRECISION_RECALL, bands, over=over, level=level, n_resamples=n_resamples, seed=seed)
    for line, (arguments, label) in enumerate(subject.drawn("average_precision", "AP")):
        _draw_line(ax, *_precisions(arguments, PRECISION_RECALL), line, label)
    return _finished(ax, "recall", "precision", subject)


@style.plot
@takes(choices.CurveReading)
def achievable(
    scores: Scores,
    model: selecting.Models | None = None,
    *,
    dataset: str | None = None,
    query: Any = None,
    iso_f: bool = True,
    ax: Axes | None = None,
    **reading: Unpack[choices.CurveReading],
) -> Axes:
    """Draw the achievable curve, the convex hull in ROC space moved to precision-recall space, over the curve itself.

    See Davis & Goadrich 2006, doi:10.1145/1143844.1143874.

    Parameters
    ----------
    scores : xarray.Dataset or xarray.DataTree
        Score data sets.
    model : label or sequence of labels, optional
        Up to ten models to draw by name; by default the best by average precision.
    """
    subject = _subject(scores, "achievable", dataset, query, model, 1, reading)
    ax = subject.axes(ax)
    _draw_precision_recall_ground(ax, subject, iso_f=iso_f)
    for line, (arguments, label) in enumerate(subject.drawn("average_precision", "AP")):
        dotted: Any = {"color": style.BLACK, "linestyle": ":", "linewidth": 0.9}
        ax.plot(*_precisions(arguments, PRECISION_RECALL), label=None if line else "curves as they are", **dotted)
        _draw_line(ax, *_precisions(arguments, ACHIEVABLE), line, label)
        vertices = api.curve(**arguments, kind=ACHIEVABLE).isel({MODEL: 0})
        vertices = vertices.where(vertices["true_positives"] > 0)
        ax.plot(vertices["recall"], vertices["precision"], ".", color=style.look_of(line)["color"], markersize=3.5)
    return _finished(ax, "recall", "precision", subject, has_others=False)


@style.plot
@takes(choices.LabelReading)
def roc(
    scores: Scores,
    model: selecting.Models | None = None,
    *,
    dataset: str | None = None,
    query: Any = None,
    bands: str = "none",
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
    over: str | None = None,
    top: int | None = None,
    others: str = "quantiles",
    ax: Axes | None = None,
    **reading: Unpack[choices.LabelReading],
) -> Axes:
    """Draw ROC curves, with the line of a random ranking.

    Parameters
    ----------
    scores : xarray.Dataset or xarray.DataTree
        Score data sets.
    model : label or sequence of labels, optional
        Up to ten models to draw by name; by default all, or the best of more by the ROC area.
    top : int, optional
        As of :func:`precision_recall`.
    """
    subject = _subject(scores, "roc", dataset, query, model, top, reading, "roc_area", others=others)
    ax = subject.axes(ax)
    ax.plot([0, 1], [0, 1], color=style.GREY, linestyle=":", linewidth=0.9, label="random ranking")
    _draw_others(ax, subject, ROC, others)
    _draw_bands(ax, subject, ROC, bands, over=over, level=level, n_resamples=n_resamples, seed=seed)
    for line, (arguments, label) in enumerate(subject.drawn("roc_area", "AUC")):
        points = api.curve(**arguments, kind=ROC).isel({MODEL: 0})
        _draw_line(ax, points["false_positive_rate"].values, points["recall"].values, line, label)
    return _finished(ax, "false positive rate", "recall (true positive rate)", subject)


def _subject(
    scores: Scores,
    plot: str,
    dataset: str | None,
    query: Any,
    model: selecting.Models | None,
    top: int | None,
    reading: Mapping[str, Any],
    by: str = "average_precision",
    others: str = OTHERS[0],
) -> _Subject:
    """Return what to draw; the named models are the requested ones, or the best."""
    if choose(OTHERS, others, "others") != OTHERS[0] and top is None:
        top = TOP  # few by default, too, if the others are to be drawn in a chosen way
    path, node = selecting.one_node(scores, selecting.SCORES, plot, dataset)
    n_repeats = node.sizes.get(REPEAT)
    node = selecting.at_query(node, query, plot)
    if MODEL not in node["score"].dims:
        node = node.assign(score=node["score"].expand_dims(MODEL))
    title = selecting.title_of(scores, path)
    if n_repeats:
        title = " · ".join(filter(None, [title, f"first of {n_repeats} repeats"]))
    subject = _Subject(path, title, node, query, reading, [0], model is not None)
    if model is not None:
        named = selecting.positions_of(node, model)
        if len(named) > MOST_NAMED:
            received, remedy = f"{len(named)} models", "draw them on several axes: ax=..."
            raise InvalidInputError("too many curves to distinguish", None, received, f"up to {MOST_NAMED}", remedy)
        return subject._replace(named=named)
    usual = node.sizes[MODEL] if node.sizes[MODEL] <= MOST_NAMED else TOP
    top = usual if top is None else selecting.checked_top(top, 0, MOST_NAMED)
    if node.sizes[MODEL] == 1:
        return subject
    areas = estimate(**(subject.of() | {"prevalence": None}), estimator=by)
    return subject._replace(named=selecting.best_first(areas.compute())[:top].tolist())


def _precisions(arguments: dict[str, Any], kind: choices.Kind) -> tuple[Floats, Floats]:
    """Return recalls and the precision of one model there; with few positives, also at both ends of each drop."""
    grid, label = np.linspace(0, 1, STEPS + 1), arguments.get("label")
    if label is not None and "weight" not in arguments:
        n = float((label >= (arguments["positive_from"] or 1)).sum(ITEM).max())
        n = max(n, float(arguments.get("n_positive", n)))
        reached = np.arange(n + 1) / n if 0 < n <= FINE else grid[:0]
        grid = np.unique(np.clip(np.concatenate([grid, reached, reached + 1e-9]), 0, 1))
    return grid, np.ravel(np.asarray(api.curve(**arguments, kind=kind, grid=grid), dtype=np.float64))


def _draw_precision_recall_ground(ax: Axes, subject: _Subject, *, iso_f: bool) -> None:
    """Draw the background of the curves, with the prevalence behind precision if it is the same for all models."""
    given = subject.of()
    label, prevalence = given["label"], subject.reading.get("prevalence")
    if not (prevalence is not None or label is None or MODEL in label.dims or "weight" in given):
        positives = float((label >= (given["positive_from"] or 1)).sum())
        items = float((label >= (0 if given.get("unjudged") == "drop" else -1)).sum())
        unseen = float(given["n_positive"]) - positives if "n_positive" in given else 0.0
        share = (positives + unseen) / (items + unseen) if items + unseen > 0 else 0.0
        prevalence = share if 0 < share < 1 else None
    if prevalence is not None:
        recall = np.linspace(0, 1, 101)
        least = np.asarray(references.unachievable_precision(recall, prevalence))
        hatched: Any = {"facecolor": "white", "edgecolor": style.GREY, "hatch": "//////", "linewidth": 0.0}
        ax.fill_between(recall, 0, least, **hatched, zorder=0.5, label="unachievable")
        ax.axhline(prevalence, color=style.GREY, linestyle=":", linewidth=0.9, label="prevalence", zorder=1)
    if iso_f:
        for f in F_LEVELS:
            end = f / (2 - f)
            recall = np.linspace(end, 1, 101)
            ax.plot(recall, f * recall / (2 * recall - f), color=style.PALE, linewidth=0.7, zorder=0.6)
            offset: Any = {"xytext": (2, 0), "textcoords": "offset points", "va": "center"}
            ax.annotate(f"F {f:g}", (1.0, end), fontsize=style.SMALL - 1, **offset)


def _draw_line(ax: Axes, x: Floats, y: Floats, line: int, label: str) -> None:
    if np.isfinite(x + y).any():
        ax.plot(x, y, **style.look_of(line), zorder=3 + 0.1 * line, label=label)
    elif not ax.texts or ax.texts[-1].get_text() != NOTHING:
        style.say(ax, NOTHING)


def _draw_others(ax: Axes, subject: _Subject, kind: choices.Kind, others: str) -> None:
    """Draw the models that are too many to name."""
    if others == "none" or subject.is_chosen or subject.node.sizes[MODEL] <= len(subject.named) + 1:
        return
    grid = np.linspace(0, 1, 101)
    curves = api.curve(**subject.of(), kind=kind, grid=grid)
    values = np.asarray(curves.compute().transpose(MODEL, ...).values, dtype=np.float64)
    if others == "density":  # each spot shaded by the share of models whose curve passes through it
        n_rows = 50  # more would show the grid of precisions that few positives allow
        row = np.clip((np.nan_to_num(values) * n_rows).astype(int), 0, n_rows - 1)
        counts = np.zeros((n_rows, grid.size))
        column = np.broadcast_to(np.arange(grid.size), row.shape)
        np.add.at(counts, (row[~np.isnan(values)], column[~np.isnan(values)]), 1)
        half = (grid[1] - grid[0]) / 2
        look: Any = {"cmap": "Greys", "norm": PowerNorm(0.5, 0, 1), "interpolation": "bilinear", "zorder": 0.4}
        look |= {"extent": (-half, 1 + half, 0.0, 1.0), "origin": "lower", "aspect": "auto"}
        image, shares = ax.imshow(counts / len(values), **look), PercentFormatter(1.0, 0, " %")
        style.put_colours(ax, image, "models through here", fraction=0.05, pad=0.1, format=shares)
        return
    reached = ~np.isnan(values).all(axis=0)
    for (low, high, label), shade in zip(QUANTILES, (0.88, 0.74), strict=True):
        bounds = np.full((2, grid.size), np.nan)
        bounds[:, reached] = np.nanquantile(values[:, reached], [low, high], axis=0)
        ax.fill_between(grid, *bounds, color=str(shade), linewidth=0, zorder=0.8, label=label)


def _draw_bands(
    ax: Axes, subject: _Subject, kind: choices.Kind, bands: str, *, over: str | None, level: float, **draws: Any
) -> None:
    if choose(BANDS, bands, "bands") == "none":
        return
    if len(subject.named) > MOST_BANDS:
        received, allowed = f"{len(subject.named)} models", f"up to {MOST_BANDS}"
        raise InvalidInputError("bands of many models hide each other", None, received, allowed, "name them: model=...")
    arguments = subject.of(subject.named)
    if {"weight", "positive_weight"} & set(arguments):
        raise InvalidInputError("bands need items without weights", remedy="bands='none'")
    if subject.query is not None:  # the resamples depend on its name
        arguments["score"] = arguments["score"].expand_dims(query=np.array([str(subject.query)], dtype=object))
    if request.drawn_unit(None if over is None else choose(UNITS, over, "over"), subject.node) == "clusters":
        draws["clusters"] = alignment.clusters_of(subject.node, subject.path).values
    of_clusters = " (clusters)" if "clusters" in draws else ""
    drawn = curve_bands(**arguments, kind=kind, level=level, dataset=subject.path, **draws)
    over = "false_positive_rate" if kind == ROC else "recall"
    drawn = drawn.squeeze("query", drop=True) if "query" in drawn.dims else drawn
    for line in range(len(subject.named)):
        for band, alpha in (("simultaneous", 0.18), ("pointwise", 0.32)):
            if bands in (band, "both"):
                ends = drawn[f"{band}_band"].isel({MODEL: line})
                lower, upper = ends.sel({BOUND: "lower"}), ends.sel({BOUND: "upper"})
                described = f"{percent(level)} {band} band{of_clusters}" if line == 0 else None
                look: Any = {"color": style.COLOURS[line], "alpha": alpha, "linewidth": 0, "zorder": 2}
                ax.fill_between(drawn[over], lower, upper, label=described, **look)


def _finished(ax: Axes, x: str, y: str, subject: _Subject, *, has_others: bool = True) -> Axes:
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MultipleLocator(0.2))
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel=x, ylabel=y)
    n_models = subject.node.sizes[MODEL]
    how_many = "" if subject.is_chosen or n_models == 1 else f"{'' if has_others else 'best of '}{n_models:,} models"
    style.put_title(ax, subject.title, subject.query, how_many)
    style.put_legend(ax)
    style.plain(ax.texts)
    return ax
