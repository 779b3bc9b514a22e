"""Plots of scores, results, comparisons, ranks and studies, with matplotlib: an Axes in, the same Axes out.

Call them through the accessor (``result.aucpr.plot.forest()``) or here (``plots.forest(result)``).
"""

from aucpr_dask.errors import InvalidInputError

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    what = "plots need matplotlib, which is not installed"
    raise InvalidInputError(what, remedy='pip install "aucpr-dask[plot]"') from error

from aucpr_dask.view.plots.curves import achievable, precision_recall, roc
from aucpr_dask.view.plots.leaderboards import (
    caterpillar,
    critical_difference,
    differences,
    forest,
    pairs,
    ranks,
    replicates,
)
from aucpr_dask.view.plots.overviews import coverage, heatmap, maps, power

__all__ = [
    "achievable",
    "caterpillar",
    "coverage",
    "critical_difference",
    "differences",
    "forest",
    "heatmap",
    "maps",
    "pairs",
    "power",
    "precision_recall",
    "ranks",
    "replicates",
    "roc",
]
