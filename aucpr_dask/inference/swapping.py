"""What swaps of ranks need of a data set: the ranks of its items, their classes, and which are swapped together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation import alignment, api, request
from aucpr_dask.inference.methods import POSITIVE, RANK, SWAPPED
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import CLASS, ITEM, MODEL, QUERY

SWAP_OPTIONS = ("positive_from", "unjudged", "unit")


def with_ranks(path: str, scores: xr.Dataset, estimator: str | None, options: Mapping[str, Any]) -> xr.Dataset:
    """Return the estimates of a data set, with what :class:`aucpr_dask.inference.methods.RankSwap` is made of."""
    from scipy.stats import rankdata  # its import takes half a second

    _refuse_others(path, scores, estimator, options)
    reading = {name: value for name, value in options.items() if name != "unit"}
    checked = EvaluationOptions.of(estimators=("average_precision",), intervals=(), **reading)
    result = api.evaluate_dataset(scores, path, checked)
    label = scores["label"].load()
    is_judged = (label >= 0) if checked.unjudged == "drop" else (label > -2)
    kept = scores.isel({ITEM: np.flatnonzero(is_judged)})
    by_cluster = request.drawn_unit(options.get("unit"), scores) == "clusters"
    together = alignment.clusters_of(kept, path).values if by_cluster else np.arange(kept.sizes[ITEM])
    ranks = rankdata(kept["score"].transpose(MODEL, ITEM).values, axis=1)  # average ranks, as swaps need
    is_positive = kept["label"].values >= (checked.positive_from or 1)
    of_items = {RANK: ((MODEL, ITEM), np.rint(2 * ranks).astype(np.int64)), POSITIVE: (ITEM, is_positive)}
    found = result.assign(of_items | {SWAPPED: (ITEM, together)})
    return found.assign_attrs(sampled="clusters" if by_cluster else "items")


def _refuse_others(path: str, scores: xr.Dataset, estimator: str | None, options: Mapping[str, Any]) -> None:
    """Raise unless the data are plain rankings of the same items by all models."""
    remedy = "method='influence', the default, takes them"
    where = f"data set {path!r}" if path else None
    if estimator not in (None, "average_precision"):
        what = "swaps of ranks are known for average precision"
        raise InvalidInputError(what, "option 'estimator'", repr(estimator), "'average_precision'", remedy)
    if unknown := sorted(set(options) - set(SWAP_OPTIONS)):
        what, received = "method='rank_swap' has no such option", ", ".join(map(repr, unknown))
        raise InvalidInputError(what, where, received, ", ".join(SWAP_OPTIONS), remedy)
    dims = [name for name in (QUERY, CLASS) if name in scores["score"].dims]
    weights = [name for name in ("weight", "positive_weight", "negative_weight", "n_positive") if name in scores]
    own = [name for name in ("label",) if name in scores and MODEL in scores[name].dims]
    if dims or weights or own:
        received = ", ".join([*(f"the dimension {dim!r}" for dim in dims), *weights, *own])
        what = "method='rank_swap' swaps the ranks of the items of one ranking"
        allowed = "score(model, item), label(item)"
        raise InvalidInputError(what, where, received, allowed, remedy)
