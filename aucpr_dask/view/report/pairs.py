"""The numbers with which a page compares any two models as :func:`aucpr_dask.compare` does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, printable
from aucpr_dask.inference import designs, families, units
from aucpr_dask.inference.designs import ITEMS, UNIT_RESAMPLES, UNITS, Sampling, settle
from aucpr_dask.inference.measures import unit_names
from aucpr_dask.inference.samples import REPLICATE, Estimates, labels_of, read_estimates, read_replicates
from aucpr_dask.schema.terms import ESTIMATOR, MODEL, RESAMPLE
from aucpr_dask.view.report.pages import Payload
from aucpr_dask.view.report.subjects import Subject

MOST_ADJUSTED = 100  # models whose p-values are adjusted for all pairs
MOST_REPLICATE_BYTES = 24 * 2**20  # of a page; beyond that, only those of the best models are kept

NO_REPLICATES = (
    "Models cannot be compared here: there are no queries, and the result keeps no replicates of its items. Evaluate "
    "with keep_replicates=True (on the command line: --keep-replicates)."
)
NO_OTHER_UNIT = "Models cannot be compared here: there is only one {}."


def comparisons(
    subject: Subject, estimator: str, payload: Payload, seed: int, share: float = 1.0
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the ways to compare pairs of models, the default first; or none, and the reason."""
    try:
        estimates = read_estimates(subject.node, subject.dim, estimator, "drop")
        if len(estimates.models) < 2:
            return [], "Models cannot be compared here: fewer than two have an estimate."
        found = []
        if len(estimates.units) > 1:
            found.append(_by_units(subject, estimates, estimator, payload, seed))
        if REPLICATE in subject.node:
            found.append(_by_items(subject, estimates, estimator, payload, share))
    except InvalidInputError as error:
        return [], f"Models cannot be compared here: {str(error).splitlines()[0]}."
    if found:
        return found, None
    return [], NO_REPLICATES if subject.dim is None else NO_OTHER_UNIT.format(
        unit_names(subject.dim, subject.node.attrs)[0]
    )


def _by_units(subject: Subject, estimates: Estimates, estimator: str, payload: Payload, seed: int) -> dict[str, Any]:
    design = settle(subject.dim, UNITS, None)
    n_units = len(estimates.units)
    signs, complete = units.sign_flips(n_units, UNIT_RESAMPLES, seed=seed, keys=units.keys_of(estimates.units))
    values = subject.node["estimate"].sel({ESTIMATOR: estimator}).transpose(MODEL, subject.dim)
    names = [str(label) for label in labels_of(values, str(subject.dim))]
    return _record(subject, estimates, design, len(signs), complete) | {
        "values": payload.add(values),
        "signs": None if complete else payload.add(np.packbits(signs > 0, axis=1, bitorder="little"), np.uint8),
        "possible": 2.0 ** (1 - n_units) <= 1 - subject.level,  # with fewer units no difference can be significant
        "adjusted": _adjusted(subject, estimates, payload, estimator=estimator, design=design, seed=seed),
        "units": [names.index(name) for name in estimates.units],
        "seed": seed,
    }


def _by_items(subject: Subject, estimates: Estimates, estimator: str, payload: Payload, share: float) -> dict[str, Any]:
    design = settle(subject.dim, ITEMS, None)
    n_resamples = subject.node.sizes[RESAMPLE]
    n_models = len(estimates.models)
    most = max(2, int(share * MOST_REPLICATE_BYTES) // (8 * n_resamples))
    places = np.sort(np.argsort(-estimates.mean, kind="stable")[:most])
    kept = replace(estimates, models=estimates.models[places], values=estimates.values[places])
    replicates = read_replicates(subject.node[[REPLICATE]], kept, estimator)
    if not np.isfinite(replicates).all():
        raise InvalidInputError("some resamples have no estimate")
    return _record(subject, kept, design, n_resamples, False) | {
        "n_without": n_models - len(places),
        "estimate": payload.add(kept.mean),
        "values": payload.add(replicates),
        "possible": True,
        "adjusted": _adjusted(subject, kept, payload, estimator=estimator, design=design),
        "seed": subject.node.attrs.get("seed"),
    }


def _places(subject: Subject, estimates: Estimates) -> NDArray[np.intp]:
    return labels_of(subject.node["estimate"], MODEL).get_indexer(estimates.models)


def _record(
    subject: Subject, estimates: Estimates, design: Sampling, n_resamples: int, complete: bool
) -> dict[str, Any]:
    """Return what every comparison needs."""
    n_models, attrs = len(estimates.models), dict(subject.node.attrs)
    return {
        "sample": design.sample,
        "method": design.method,
        "kind": designs.INTERVAL_KINDS[design.method],
        "design": designs.describe(
            design,
            n_models,
            len(estimates.units),
            n_resamples,
            attrs,
            complete=complete,
            condition=designs.CONDITIONS[design.sample, design.method],
        ),
        "models": _places(subject, estimates).tolist(),
        "n_resamples": n_resamples,
        "complete": complete,
        "place": families.order_statistic(n_resamples, subject.level, complete),
        "level": subject.level,
        "left_out": [printable(name) for name in estimates.left_out],
        "n_pairs": n_models * (n_models - 1) // 2,
        "n_without": 0,
    }


def _adjusted(
    subject: Subject, estimates: Estimates, payload: Payload, *, design: Sampling, **options: Any
) -> dict[str, Any] | None:
    """Return the p-values adjusted for all pairs, if there are not too many."""
    if len(estimates.models) > MOST_ADJUSTED:
        return None
    options |= {"sample": design.sample, "method": design.method}
    return payload.add(subject.compared(_places(subject, estimates), **options)["p_adjusted"].values)
