"""Rankings of plain arrays, evaluated by the functions that evaluate the blocks of labelled data: the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.evaluation.block_results import evaluate_block, variables_of
from aucpr_dask.evaluation.rankings import facts_known
from aucpr_dask.evaluation.request import (
    Sampling,
    refuse_impossible,
    refuse_more_folds_than_items,
    stream_key,
    with_own_intervals,
)
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import FLAG_BITS
from aucpr_dask.scores import copies

Array = NDArray[Any]


REMEDY = "clusters= names those that belong together; if they are others, nothing is wrong"


def evaluate_arrays(named: dict[str, Array], options: EvaluationOptions) -> dict[str, Array]:
    """Evaluate rankings in memory as :func:`aucpr_dask.evaluate` does those of a data set without a name.

    Roles are ``score`` (model, item), ``label``, ``weight`` and ``cluster`` (item).
    """
    unit = "clusters" if "cluster" in named else "items"
    options = replace(options, resampling=replace(options.resampling, over=unit))
    options = with_own_intervals(options, named)
    resampling = options.resampling
    refuse_impossible(ranked(named), {}, options)
    has_copies = warn_of_copies(named)
    is_fixed = resampling.prevalence_design == "fixed" and unit == "items"
    if resampling.uses_folds:
        refuse_more_folds_than_items(named["label"].size, resampling.n_folds)
    sampling = Sampling(is_fixed, n_folds=resampling.n_folds if resampling.uses_folds else 0)
    if resampling.draws or resampling.uses_folds:
        named = named | {"key": np.array(stream_key(resampling.seed, "", ""), np.uint64)}
    found: dict[str, Array] = evaluate_block(
        *named.values(),
        roles=tuple(named),
        finish=variables_of,
        options=options,
        facts=facts_known(options, named, is_stratified=is_fixed),
        is_fixed=is_fixed,
        sampling=sampling,
    )
    if has_copies:
        found["flags"] = found["flags"] | np.int32(FLAG_BITS["repeated_items"])
    return found


def ranked(named: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays that rankings are made of."""
    return {role: array for role, array in named.items() if role != "cluster"}


def warn_of_copies(named: dict[str, Array]) -> bool:
    """Warn of items that look like copies of others and count as independent; return whether there are some."""
    n_copies = 0 if "cluster" in named else copies.count_copies(named["score"], named["label"][np.newaxis])
    if n_copies:
        copies.warn_of_counts({"": [n_copies, named["label"].size]}, REMEDY)
    return n_copies > 0
