"""Descriptions and provenance of comparisons and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import few
from aucpr_dask.evaluation.results import provenance
from aucpr_dask.inference.designs import CONDITIONS, ITEMS, POWERED, Design, describe
from aucpr_dask.inference.grids import DECISIONS
from aucpr_dask.inference.measures import are_values, estimators_of
from aucpr_dask.inference.questions import Prepared
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.variables import BOUND, BOUNDS, MEASURE

DESCRIPTIONS = {
    "estimate": "Estimate of the model, the mean over units where there are any.",
    "difference": "Estimate of the model minus that of the other.",
    "standard_error": "Standard error of the difference.",
    "interval": "Confidence interval of the difference, each at the level on its own.",
    "simultaneous_interval": "Confidence intervals of the differences, all of the family at the level together.",
    "p_value": "Two-sided p-value of the test that the difference is 0, each on its own.",
    "p_adjusted": "P-value adjusted for all comparisons of the family.",
    "p_equivalence": "P-value of the two one-sided tests that the difference is beyond the margin, of each pair on "
    "its own: not adjusted for the family.",
    "share_inside": "Probability that the difference is within the margin.",
    "decision": "Whether the two are equivalent, different by more than the margin, or neither is shown, of each pair "
    "on its own: not adjusted for the family.",
    "rank": "Rank of the estimate: 1 is best, equal estimates share their mean rank.",
    "rank_interval": "Lowest and highest rank the model may have, each model at the level on its own.",
    "simultaneous_rank_interval": "Lowest and highest rank, all models at the level together.",
    "probability_best": "Share of the resamples in which the model is the best.",
    "expected_rank": "Mean rank over the resamples.",
    "first_group": "First group of indistinguishable models that the model belongs to; groups count from the best.",
    "last_group": "Last group of indistinguishable models that the model belongs to.",
    "n_units": "Units that the estimates are means over.",
    "n_machine_units": "Units with machine labels; people labelled n_units of them.",
    "tuning": "How much the machine's estimates count: 0 is not at all, 1 fully.",
    "detectable": "Smallest true difference that its own interval shows with the power wanted.",
    "detectable_family": "Smallest true difference that its simultaneous interval shows with the power wanted.",
    "detectable_rank": "Difference from the next model with which simultaneous rank sets tell the two apart, with the "
    "power wanted.",
    "power": "Probability to show the difference that matters, by the interval of each pair on its own.",
    "power_family": "Probability to show the difference that matters, by the simultaneous interval.",
    "n_needed": "Units, or positives if items are the sample, that show the difference that matters.",
    "n_needed_family": "The same by the simultaneous interval.",
    "width_ratio": "Width of the interval relative to that from people's labels alone.",
}


def annotate(
    dataset: xr.Dataset, node: xr.Dataset, prepared: Prepared, question: ComparisonOptions, more: Mapping[str, Any]
) -> xr.Dataset:
    """Add coordinates, counts, descriptions, and attributes that record how the numbers were computed."""
    design, estimates = prepared.design, prepared.estimates
    if BOUND in dataset.dims:
        dataset = dataset.assign_coords({BOUND: np.array(BOUNDS, dtype=object), "level": question.level})
    if design.dim is not None:
        dataset["n_units"] = ((), np.int64(len(estimates.units)))
    if prepared.n_machine:
        dataset["n_machine_units"] = ((), np.int64(prepared.n_machine))
    for name, variable in dataset.data_vars.items():
        variable.attrs["description"] = DESCRIPTIONS[str(name)]
        variable.attrs["units"] = "1"
        if "interval" in str(name):
            variable.attrs |= {"ci_kind": interval_kind(design), "ci_prob": question.level}
    if "decision" in dataset:
        flags = {"flag_values": list(range(len(DECISIONS))), "flag_meanings": " ".join(DECISIONS)}
        dataset["decision"].attrs |= flags
    facts = {
        MEASURE if are_values(node) else "estimator": estimator_name(node, question.estimator),
        "over": design.dim or node.attrs.get("over"),
        "sample": design.sample,
        "method": design.method,
        "adjust": None if "rank" in dataset else design.adjust,
        "level": question.level,
        "equivalence": question.equivalence,
        "n_resamples": prepared.n_resamples or None,
        "seed": _seed_of(node, design, question) if prepared.n_resamples else None,
        "left_out": list(estimates.left_out) or None,
        "models_left_out": list(estimates.models_left_out) or None,
    }
    return dataset.assign_attrs({"design": design_in_words(node, prepared)} | provenance(node, facts, more))


def design_in_words(node: xr.Dataset, prepared: Prepared) -> str:
    """Describe what was resampled, what is fixed, and what was left out."""
    design, estimates = prepared.design, prepared.estimates
    sentence = describe(
        design,
        len(estimates.models),
        len(estimates.units),
        prepared.n_resamples,
        node.attrs,
        complete=prepared.complete,
        n_machine=prepared.n_machine,
        condition=CONDITIONS[design.sample, design.method],
    )
    if estimates.models_left_out:
        sentence += f"; left out, without an estimate: {few(map(repr, estimates.models_left_out))}"
    return sentence


def _seed_of(node: xr.Dataset, design: Design, question: ComparisonOptions) -> Any:
    """Return the seed of the random numbers; for items, that of their evaluation."""
    drawn_before = design.sample == ITEMS and design.method == "bootstrap"
    return node.attrs.get("seed") if drawn_before else question.seed


def interval_kind(design: Design) -> str:
    """Name the intervals of a method."""
    return {
        "sign_flip": "Student statistic, quantile of flipped residuals",
        "bootstrap_t": "symmetric bootstrap-t",
        "bootstrap": "symmetric bootstrap with a common error",
        "t": "Student t (simultaneous: Bonferroni)",
        POWERED: "Student t, prediction-powered (simultaneous: Bonferroni)",
        "influence": "Student t, moderated variance (simultaneous: largest of Student draws)",
    }[design.method]


def estimator_name(node: xr.Dataset, estimator: str | None) -> str | None:
    """Return the name of the estimator that models are compared by."""
    return estimator if estimator is not None else next(iter(estimators_of(node)), None)
