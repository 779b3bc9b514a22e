"""Plots of simulation studies: how often intervals contain the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, PercentFormatter

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.names import in_words, percent
from aucpr_dask.schema.variables import ESTIMATOR, METHOD
from aucpr_dask.view.plots.style import (
    COLOURS,
    COLUMN,
    MARKERS,
    PALE,
    SEQUENCE,
    axes_of,
    put_legend,
    put_title,
    styled,
)
from aucpr_dask.view.plots.subjects import STUDY, one_node

TWO_SIDED = 1.96  # Monte Carlo standard errors, drawn on either side


@styled
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
    chosen = (methods,) if isinstance(methods, str) else tuple(methods or known[: len(COLOURS)])
    for method in chosen:
        choose(known, method, "method")
    ax = axes_of(ax, 0.95 * COLUMN)
    _draw(ax, table, chosen, level)
    put_title(ax, f"{in_words(scenario)}, {in_words(estimator)}")
    return ax


def _table(study: xr.Dataset | pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Return a table with a row for each cell, and the nominal level."""
    if isinstance(study, pd.DataFrame):
        needed = {"scenario", "n_items", "prevalence", ESTIMATOR, METHOD, "coverage", "coverage_error"}
        if not needed <= set(study.columns):
            absent = ", ".join(sorted(needed - set(study.columns)))
            raise InvalidInputError("coverage plots a study", received=f"a table without {absent}")
        return study, 0.95
    _, node = one_node(study, STUDY, "coverage", None)
    table = node[["coverage", "coverage_error"]].to_dataframe().reset_index()
    table["scenario"] = table["scenario"].astype(str)
    return table, float(node.attrs.get("level", 0.95))


def _draw(ax: Axes, table: pd.DataFrame, methods: Sequence[str], level: float) -> None:
    positives = np.unique(np.round(table["n_items"] * table["prevalence"]).astype(int))
    ax.axhline(level, color="black", linewidth=0.8)
    ax.axhspan(level - 0.01, level + 0.01, color=PALE, linewidth=0, label=f"within 1 % of {percent(level)}")
    for line, method in enumerate(methods):
        rows = table[table["method"] == method].sort_values("n_items")
        ax.errorbar(
            rows["n_items"] * rows["prevalence"],
            rows["coverage"],
            TWO_SIDED * rows["coverage_error"],
            color=COLOURS[line % len(COLOURS)],
            linestyle=SEQUENCE[line % len(SEQUENCE)],
            marker=MARKERS[line % len(MARKERS)],
            markersize=3.2,
            elinewidth=0.8,
            label=in_words(method),
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(positives.tolist()))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_xlabel("positives")
    ax.set_ylabel("intervals that contain the true area")
    put_legend(ax)
