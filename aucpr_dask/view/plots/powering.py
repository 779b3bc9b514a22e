"""Plots of the power of a design: what more, or fewer, queries or positives would show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from aucpr_dask.inference.comparing import Baseline
from aucpr_dask.inference.powering import POWER, pair_reaches
from aucpr_dask.inference.questions import unit_dim
from aucpr_dask.schema.checks import fraction, margin
from aucpr_dask.schema.names import in_words, percent
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.trees import Scores
from aucpr_dask.view.plots.style import (
    COLOURS,
    GREY,
    PALE,
    SEQUENCE,
    axes_of,
    put_legend,
    put_title,
    styled,
)
from aucpr_dask.view.plots.subjects import RESULT, at_estimator, one_node, title_of

TIMES_LEAST, TIMES_MOST = 0.25, 16.0  # as many units or positives as there are


@styled
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
    path, node = one_node(result, RESULT, "power", dataset)
    name, _ = at_estimator(node, estimator)
    question = ComparisonOptions(estimator=estimator, baseline=baseline, level=level).checked()  # type: ignore[arg-type]
    wanted = fraction(power, "power")
    _, _, reach, _ = pair_reaches(node, unit_dim(node), question)
    order = np.argsort(reach.detectable(wanted), kind="stable")
    middle = reach.of(int(order[order.size // 2]))
    if difference is None:
        enough = middle.resized(np.maximum(middle.n, middle.least))  # with fewer, nothing could be shown
        now = float(f"{enough.detectable(wanted).item():.2g}")
        difference = [now, now / 2, now / 4]
    ax = axes_of(ax)
    n = np.unique(np.round(middle.n * np.geomspace(TIMES_LEAST, TIMES_MOST, 200)))
    for line, one in enumerate(np.atleast_1d(np.asarray(difference))):
        shown = middle.resized(n[n >= 2]).power(margin(one.item(), "difference"))
        style: Any = {"color": COLOURS[line % len(COLOURS)], "linestyle": SEQUENCE[line % len(SEQUENCE)]}
        ax.plot(n[n >= 2], shown, label=f"difference {one:.2g}", **style)
    ax.axhline(wanted, color=PALE, linewidth=0.8, label=percent(wanted))
    ax.axvline(middle.n, color=GREY, linestyle=":", linewidth=0.8, label=f"now: {middle.sampled(middle.n)}")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(middle.noun[1])
    ax.set_ylabel("probability to show it")
    put_legend(ax)
    put_title(ax, title_of(result, path), in_words(name))
    return ax
