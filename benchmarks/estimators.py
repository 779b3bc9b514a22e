"""Each estimator of one long ranking alone, and all in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from aucpr_dask.schema.estimators import ESTIMATORS
from benchmarks.contenders import FLOAT64, contender, floor
from benchmarks.rankings import OneRanking

TEN = list(ESTIMATORS)[:10]
DEAREST = "binormal"


def alone(name: str) -> Any:
    """Return the ``time_...`` method of one estimator."""

    @contender(name, f'ap.estimate(score, label, "{name}")', "aucpr-dask")
    def time_alone(self: Any, prevalence: float) -> Any:
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label, name)

    return time_alone


class Estimators(OneRanking):
    """What the estimators share is done once: all of them cost little more than one."""

    name = "estimators"
    title = "Ten estimators of one ranking of {n_items:,} float32 items, one thread"
    explanation = (
        "Each alone, and all ten in one call; the ranking is that of the first suite. The first line is the estimator "
        "that was dearest when this was written: if another is dearer on this machine, its factor is above 1."
    )
    params = (0.01, 0.1, 0.5)

    def shrink(self) -> None:
        """Take 5000 items, once."""
        super().shrink()
        self.params = self.params[:1]

    time_binormal = alone(DEAREST)

    @contender(
        "all ten",
        "ap.estimate(score, label, ten_names)",
        "aucpr-dask",
        tolerance=FLOAT64,
        numbers=lambda areas: areas[TEN.index(DEAREST)],
    )
    def time_all_ten(self, prevalence: float) -> Any:
        """Ask for all in one call."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label, TEN)

    time_average_precision = alone("average_precision")
    time_lower_trapezoid = alone("lower_trapezoid")
    time_upper_trapezoid = alone("upper_trapezoid")
    time_interpolated_max = alone("interpolated_max")
    time_interpolated_mean = alone("interpolated_mean")
    time_interpolated_median = alone("interpolated_median")
    time_interpolated_convex = alone("interpolated_convex")
    time_continuous = alone("continuous")
    time_discrete = alone("discrete")

    @floor("np.sort", "np.sort(score)", "numpy")
    def time_sort(self, prevalence: float) -> Any:
        """Sort alone, without an estimate."""
        return np.sort(self.score)
