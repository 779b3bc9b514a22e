"""Metrics of plain arrays, with scikit-learn's signatures and numbers."""

from aucpr_dask.metrics.accumulating import AreaBounds
from aucpr_dask.metrics.scoring import (
    Difference,
    average_precision_difference,
    average_precision_interval,
    average_precision_score,
    precision_recall_curve,
)

__all__ = [
    "AreaBounds",
    "Difference",
    "average_precision_difference",
    "average_precision_interval",
    "average_precision_score",
    "precision_recall_curve",
]
