"""Plots of designs: how often intervals contain the truth in a study, and what more or fewer data would show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.comparing import Baseline
from aucpr_dask.inference.powering import POWER, pair_reaches
from aucpr_dask.inference.questions import unit_dim
from aucpr_dask.schema.checks import choose, fraction, margin
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.terms import ESTIMATOR, METHOD, Scores, in_words, percent
from aucpr_dask.view.plots import style, subjects

TWO_SIDED = 1.96  # Monte Carlo standard errors, drawn on either side
TIMES_LEAST, TIMES_MOST = 0.25, 16.0  # as many units or positives as there are


@style.styled
def coverage(
    study: xr.Dataset | pd.DataFrame,
    *,
    scenario: str | None = None,
    estimator: str = "average_precision",
    methods: str | Sequence[str] | None = None,
    prevalence: float | None = None,
    level: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often intervals contained the true area, against the number of positives.

    Parameters
    ----------
    study : xarray.Dataset or pandas.DataFrame
        What :func:`aucpr_dask.simulate.scenarios.study` returns, or its table of intervals, with columns ``scenario``,
        ``n_items``, ``prevalence``, ``estimator``, ``method``, ``coverage`` and ``coverage_error``.
    scenario, prevalence : optional
        By default the first ones.
    estimator : str
    methods : str or sequence of str, optional
        Intervals to draw; by default the first six.
    level : float, optional
        Nominal coverage; by default that of the study, or 0.95.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        If `study` is not a study, or an option is not in it.
    """
    table, nominal = _table(study)
    level = nominal if level is None else level
    scenarios = tuple(dict.fromkeys(table["scenario"]))
    scenario = scenarios[0] if scenario is None else choose(scenarios, scenario, "scenario")
    table = table[table["scenario"] == scenario]
    choose(tuple(dict.fromkeys(table["estimator"])), estimator, "estimator")
    table = table[table["estimator"] == estimator].dropna(subset="coverage")
    shares = list(dict.fromkeys(table["prevalence"]))
    if prevalence is not None and prevalence not in shares:
        allowed = ", ".join(map(repr, shares))
        raise InvalidInputError("unknown prevalence", received=repr(prevalence), allowed=allowed)
    prevalence = shares[0] if prevalence is None else prevalence
    table = table[table["prevalence"] == prevalence]
    known = tuple(dict.fromkeys(table["method"]))
    chosen = (methods,) if isinstance(methods, str) else tuple(methods or known[: len(style.COLOURS)])
    for method in chosen:
        choose(known, method, "method")
    ax = style.axes_of(ax, 0.95 * style.COLUMN)
    _draw(ax, table, chosen, level)
    style.put_title(ax, f"{in_words(scenario)}, {in_words(estimator)}")
    return ax


def _table(study: xr.Dataset | pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Return a table with a row for each cell, and the nominal level."""
    if isinstance(study, pd.DataFrame):
        needed = {"scenario", "n_items", "prevalence", ESTIMATOR, METHOD, "coverage", "coverage_error"}
        if not needed <= set(study.columns):
            absent = ", ".join(sorted(needed - set(study.columns)))
            raise InvalidInputError("coverage plots a study", received=f"a table without {absent}")
        return study, 0.95
    _, node = subjects.one_node(study, subjects.STUDY, "coverage", None)
    table = node[["coverage", "coverage_error"]].to_dataframe().reset_index()
    table["scenario"] = table["scenario"].astype(str)
    return table, float(node.attrs.get("level", 0.95))


def _draw(ax: Axes, table: pd.DataFrame, methods: Sequence[str], level: float) -> None:
    positives = np.unique(np.round(table["n_items"] * table["prevalence"]).astype(int))
    ax.axhline(level, color="black", linewidth=0.8)
    ax.axhspan(level - 0.01, level + 0.01, color=style.PALE, linewidth=0, label=f"within 1 % of {percent(level)}")
    for line, method in enumerate(methods):
        rows = table[table["method"] == method].sort_values("n_items")
        ax.errorbar(
            rows["n_items"] * rows["prevalence"],
            rows["coverage"],
            TWO_SIDED * rows["coverage_error"],
            marker=style.MARKERS[line % len(style.MARKERS)],
            markersize=3.2,
            elinewidth=0.8,
            label=in_words(method),
            **style.look_of(line),
        )
    style.count_horizontally(ax, FixedLocator(positives.tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("positives")
    ax.set_ylabel("intervals that contain the true area")
    style.put_legend(ax)


@style.styled
def power(
    result: Scores,
    *,
    difference: float | Sequence[float] | None = None,
    baseline: Baseline | None = None,
    estimator: str | None = None,
    dataset: str | None = None,
    level: float = 0.95,
    power: float = POWER,
    ax: Axes | None = None,
) -> Axes:
    """Draw the probability to show a difference against the number of queries or, without queries, of positives.

    It is that of two models whose difference is as uncertain as that of the median pair. A line marks the present
    number.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate` returns; without queries it needs its replicates.
    difference : float or sequence of float, optional
        True differences; by default the smallest that can be shown now, its half and its quarter.
    baseline : label or sequence of labels, optional
        Models with which all others are compared; by default all pairs are.
    estimator, dataset : str, optional
        By default the first, and the only one.
    level, power : float
        See :func:`aucpr_dask.power`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidInputError
        If this is not a result, or lacks what a comparison needs.
    """
    path, node = subjects.one_node(result, subjects.RESULT, "power", dataset)
    name, _ = subjects.at_estimator(node, estimator)
    question = ComparisonOptions(estimator=estimator, baseline=baseline, level=level).checked()  # type: ignore[arg-type]
    wanted = fraction(power, "power")
    _, _, reach, _ = pair_reaches(node, unit_dim(node), question)
    order = np.argsort(reach.detectable(wanted), kind="stable")
    middle = reach.of(int(order[order.size // 2]))
    if difference is None:
        enough = middle.resized(np.maximum(middle.n, middle.least))  # with fewer, nothing could be shown
        now = float(f"{enough.detectable(wanted).item():.2g}")
        difference = [now, now / 2, now / 4]
    ax = style.axes_of(ax)
    n = np.unique(np.round(middle.n * np.geomspace(TIMES_LEAST, TIMES_MOST, 200)))
    for line, one in enumerate(np.atleast_1d(np.asarray(difference))):
        shown = middle.resized(n[n >= 2]).power(margin(one.item(), "difference"))
        ax.plot(n[n >= 2], shown, label=f"difference {one:.2g}", **style.look_of(line))
    ax.axhline(wanted, color=style.PALE, linewidth=0.8, label=percent(wanted))
    ax.axvline(middle.n, color=style.GREY, linestyle=":", linewidth=0.8, label=f"now: {middle.sampled(middle.n)}")
    style.count_horizontally(ax, LogLocator(subs=(1, 2, 5)))
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(middle.noun[1])
    ax.set_ylabel("probability to show it")
    style.put_legend(ax)
    style.put_title(ax, subjects.title_of(result, path), in_words(name))
    return ax
