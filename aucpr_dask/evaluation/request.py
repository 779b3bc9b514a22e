"""What is asked of every ranking, and of its intervals: checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.random_streams import SCHEME
from aucpr_dask.schema.estimators import TIES, parse_estimator
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import MISSING, PREVALENCE_DESIGNS, UNITS, UNJUDGED, choose, fraction
from aucpr_dask.schema.variables import (
    BOUND,
    BOUNDS,
    ITEM,
    METHOD,
    RESAMPLE,
)

if TYPE_CHECKING:
    pass


def checked_request(
    names: tuple[str, ...],
    prevalence: float | None,
    missing: str,
    ties: str,
    unjudged: str,
    positive_from: int | None,
    given: set[str],
    recall_range: tuple[float, float] = (0.0, 1.0),
) -> Request:
    """Check the options against each other and against the variables that are given."""
    choose(MISSING, missing, "missing")
    choose(TIES, ties, "ties")
    choose(UNJUDGED, unjudged, "unjudged")
    weights = given & {"weight", "positive_weight", "negative_weight"}
    soft = weights - {"weight"}
    specs = [parse_estimator(name)[0] for name in names]
    for spec in specs:
        choose(spec.ties, ties, f"ties for {spec.name!r}")
    recall_range = _range(recall_range)
    part = recall_range != (0.0, 1.0)
    unweightable = [spec.name for spec in specs if not spec.weights]
    whole_only = [spec.name for spec in specs if not spec.partial]
    for clash, what in (
        (len(soft) == 1, "soft labels need both positive_weight and negative_weight"),
        (bool(soft) == ("label" in given), "give either a label, or positive_weight and negative_weight"),
        (bool(soft) and "weight" in given, "weight and soft labels exclude each other: multiply them"),
        (bool(weights) and ties != "block", "with weights, ties can only stand in blocks"),
        (bool(weights) and "n_positive" in given, "n_positive has no meaning with weights: unseen ones have none"),
        (bool(weights) and bool(unweightable), f"{', '.join(unweightable)}: no meaning with weights or soft labels"),
        (part and bool(whole_only), f"{', '.join(whole_only)}: no meaning over a range of recall"),
        (part and ties == "expectation", "ties in expectation have no area over a range of recall"),
        (prevalence is not None and ties == "expectation", "ties in expectation have no other prevalence"),
        (positive_from is not None and positive_from < 1, "positive_from must be at least 1"),
    ):
        if clash:
            raise InvalidInputError(
                what, received=f"{', '.join(sorted(given))}; ties={ties!r}, prevalence={prevalence!r}"
            )
    if prevalence is not None:
        prevalence = fraction(prevalence, "prevalence")
    return Request(names, missing, ties, unjudged, positive_from, prevalence, recall_range)


def _range(recall_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = map(float, recall_range)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if 0 <= low < high <= 1:
        return low, high
    raise InvalidInputError("recall_range is two recalls", received=repr(recall_range), allowed="0 <= low < high <= 1")


_RESAMPLED = ("bootstrap", "basic", "bca", "bootstrap_t")


@dataclass(frozen=True)
class IntervalPlan:
    """Which intervals, and how the data are resampled for them.

    Parameters
    ----------
    methods : tuple of str
    level : float
    n_resamples, seed : int
    unit : {"items", "clusters"}
        What is drawn.
    keep_replicates : bool
    prevalence_design : {"fixed", "random"}
        Whether other samples would have the same numbers of positives and negatives.
    n_folds : int
    has_own_folds : bool
        Whether the data set says which item is in which fold.
    first_resample : int
        The first one to evaluate; the data set brings those before it along, as ``replicate``.
    """

    methods: tuple[str, ...]
    level: float
    n_resamples: int = 1000
    seed: int = 0
    unit: str = "items"
    keep_replicates: bool = False
    prevalence_design: str = "fixed"
    n_folds: int = 10
    has_own_folds: bool = False
    first_resample: int = 0

    @property
    def resamples(self) -> bool:
        """Whether multiplicities of items or clusters are drawn."""
        return self.keep_replicates or any(method in _RESAMPLED for method in self.methods)

    @property
    def folds(self) -> bool:
        """Whether items are dealt to folds."""
        return any("folds" in INTERVALS[method].needs for method in self.methods)

    @property
    def is_stratified(self) -> bool:
        """Whether positives and negatives are drawn apart."""
        return self.prevalence_design == "fixed"

    def labels(self) -> dict[str, Any]:
        """Return the coordinates of intervals and replicates."""
        labels = {METHOD: np.array(self.methods, dtype=object), BOUND: np.array(BOUNDS, dtype=object)}
        kept = {RESAMPLE: np.arange(self.n_resamples)} if self.keep_replicates else {}
        return labels | {"level": self.level} | kept

    def attributes(self) -> dict[str, Any]:
        """Return what a result records of the resampling."""
        kept: dict[str, Any] = {"prevalence_design": self.prevalence_design}
        draws = self.resamples or "bayesian" in self.methods
        if draws:
            how = "positives and negatives apart" if self.is_stratified else "positives and negatives together"
            kept |= {"resampled": f"{self.unit}, {how}" if self.unit == "items" else self.unit}
            kept |= {"n_resamples": self.n_resamples}
        if self.folds:
            kept |= {"n_folds": self.n_folds, "folds": "of the data set" if self.has_own_folds else "stratified"}
        if draws or (self.folds and not self.has_own_folds):
            kept |= {"seed": self.seed, "random_scheme": SCHEME}
        return kept


def plan_for(dataset: xr.Dataset, inputs: Mapping[str, Any], plan: IntervalPlan) -> IntervalPlan:
    """Fit a plan to a data set: its own folds; and random numbers of positives where nothing can hold them fixed."""
    if plan.folds and "fold" in dataset and dataset["fold"].dims == (ITEM,):
        plan = replace(plan, n_folds=int(np.unique(dataset["fold"].values).size), has_own_folds=True)
    if plan.unit == "clusters" or "positive_weight" in inputs:
        plan = replace(plan, prevalence_design="random")
    return plan


def checked_plan(plan: IntervalPlan) -> IntervalPlan:
    """Raise unless every option of a plan is allowed."""
    choose(UNITS, plan.unit, "unit")
    choose(PREVALENCE_DESIGNS, plan.prevalence_design, "prevalence_design")
    for name, least in (("n_resamples", 2), ("seed", 0), ("n_folds", 2)):
        value = getattr(plan, name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise InvalidInputError(f"{name} must be a whole number from {least}", received=repr(value))
    return plan


@dataclass(frozen=True)
class Request:
    """What to compute of every ranking, and how labels, missing scores and ties are read."""

    estimators: tuple[str, ...]
    missing: str = "raise"
    ties: str = "block"
    unjudged: str = "negative"
    positive_from: int | None = None
    prevalence: float | None = None
    recall_range: tuple[float, float] = (0.0, 1.0)
    extras: tuple[str, ...] = ()  # of EXTRAS: what intervals of average precision are made from


EXTRAS = ("standard_error_fixed", "standard_error_random", "acceleration")
