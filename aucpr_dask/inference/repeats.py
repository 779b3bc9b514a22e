"""Folds and repeats of a cross-validation: no sample of their own, but what they say of training.

Areas of R repeats, each pooled over out-of-fold scores of k folds, are averaged. Two parts make their variance: that of
the items, by the influence of each item on the averaged areas, and that of training on other items like these. Of the
latter the repeats show only what other folds of the same items change, so their variance v is inflated, to
``v (1 / R + k - 1)``. Without folds, repeats are fits to the same items that differ in their seeds: ``v / R``.

Nadeau & Bengio 2003, doi:10.1023/A:1024068626366 (areas of folds).
"""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference import pairs, units
from aucpr_dask.inference.covarying import OF_REPEAT, OTHER_MODEL, covariances, squares_of_differences
from aucpr_dask.inference.methods import Goal, Pairs, Student, student_pairs
from aucpr_dask.inference.samples import AVERAGED, REPLICATE, chosen, mean_of_known
from aucpr_dask.schema.terms import FOLD, MODEL, N_FOLDS, REPEAT, RESAMPLE


def inflation(n_repeats: int, n_folds: int | None) -> float:
    """Return by how much the variance between repeats is multiplied, for that of training of their mean."""
    return 1 / n_repeats + (0 if n_folds is None else n_folds - 1)


def training_variance(of_repeat: xr.DataArray, n_folds: int | None) -> xr.DataArray:
    """Return the variance (model, other_model) of differences that comes from training; 0 of a single repeat."""
    n_repeats, first = of_repeat.sizes[REPEAT], of_repeat.isel({REPEAT: 0}, drop=True)
    spread = 0.0 * (first - first.rename({MODEL: OTHER_MODEL}))
    if n_repeats > 1:
        spread = squares_of_differences(covariances(of_repeat, REPEAT))
    return spread * inflation(n_repeats, n_folds)


def mean_of_repeats(node: xr.Dataset) -> xr.Dataset:
    """Average a result over its repeats; keep the areas of each. Standard errors are as if they agreed on all items."""
    kept = node[[name for name in AVERAGED if name in node]]
    known = node["estimate"].notnull().all(REPEAT)
    means = kept.map(lambda variable: mean_of_known(variable, REPEAT).where(known), keep_attrs=True)
    others = {name: node[name] for name in ("n_positive", "n_negative") if name in node}
    others = {name: one.isel({REPEAT: 0}, drop=True) if REPEAT in one.dims else one for name, one in others.items()}
    return means.assign({OF_REPEAT: node["estimate"].drop_attrs(), **others}).assign_attrs(node.attrs)


def compared_by_replicates(path: str, node: xr.Dataset, estimator: str | None) -> xr.Dataset:
    """Return what a comparison needs of a result with repeats: the variances by the replicates of their means."""
    from aucpr_dask.kernels.intervals import degrees_of

    if REPEAT not in node["estimate"].dims:
        return node
    if REPLICATE not in node:
        what, remedy = "how items vary the means of repeats is not known", "pass the scores in place of the result"
        allowed = "scores, or a result with keep_replicates=True"
        raise InvalidInputError(what, path or None, "estimates over 'repeat' without replicates", allowed, remedy)
    mean = mean_of_repeats(node)
    variance = squares_of_differences(covariances(chosen(mean[REPLICATE], estimator), RESAMPLE))
    n = mean["n_positive"].astype(np.float64)
    found = {"difference_variance": variance, "outer_variance": variance, "n_effective": n}
    found |= {"degrees": n.copy(data=degrees_of(n.values)), OF_REPEAT: chosen(mean[OF_REPEAT], estimator)}
    return mean.drop_vars(REPLICATE).assign(found)


def areas_of_folds(node: xr.Dataset, path: str = "") -> xr.Dataset:
    """Return the areas of the folds of all repeats along one dimension, and how many folds a repeat has."""
    estimate = node["estimate"].drop_vars([FOLD, REPEAT], errors="ignore")
    n_folds = estimate.sizes[FOLD]
    if n_folds < 2:
        received, remedy = f"{n_folds} fold", "cross-validate with two folds or more"
        raise InvalidInputError("one fold says nothing about training", path or None, received, None, remedy)
    if REPEAT in estimate.dims:
        estimate = estimate.stack({"part": (REPEAT, FOLD)}, create_index=False).rename({"part": FOLD})
    return xr.Dataset({"estimate": estimate}, attrs=node.attrs | {N_FOLDS: n_folds})


class CorrectedStudent(Student):
    """Nadeau and Bengio's t test over the areas of J folds, whose training parts overlap."""

    def __init__(self, values: units.Floats, n_folds: int, goal: Goal) -> None:
        super().__init__(values, goal)
        self.stretch = math.sqrt(1 + values.shape[1] / (n_folds - 1))  # of s / sqrt(J): the test part over the rest

    def pairs(self, first: units.Indices, second: units.Indices) -> Pairs:
        """Student's t with ``s^2 (1 / J + 1 / (k - 1))``."""
        error = self.stretch * pairs.errors_from_units(self.values, first, second)
        return student_pairs(first, second, self.mean[first] - self.mean[second], error, self.degrees, self.goal)
