"""Models that lack the scores of different items are compared on the items that all of them scored."""

from __future__ import annotations

import dask
import numpy as np
import xarray as xr

from aucpr_dask.errors import AlignmentError, few
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import MISSING
from aucpr_dask.schema.trees import Scores, map_nodes, nodes_of
from aucpr_dask.schema.variables import ITEM, MODEL

COMPARED, SCORED = "items_compared", "items_scored"  # attributes of a result


def on_common_items(scores: Scores, missing: str) -> Scores:
    """Under ``missing="drop"``, hide from all models the items that some model lacks, and count both.

    An area depends on the prevalence, so areas over different items differ even between equally good models. A model
    without any score of a ranking does not count: it has no estimate there.
    """
    if choose(MISSING, missing, "missing") != "drop":
        return scores

    def hide(_: str, node: xr.Dataset) -> xr.Dataset:
        if MODEL not in node["score"].dims or ("label" in node and MODEL in node["label"].dims):
            return node  # one model, or each has its own list
        is_scored = node["score"].notnull()
        is_common = (is_scored | ~is_scored.any(ITEM)).all(MODEL)
        by_any = is_scored.any(MODEL)
        counts = dask.compute((is_common & by_any).sum().data, by_any.sum().data)
        hidden = node.assign(score=node["score"].where(is_common)).drop_vars("n_missing", errors="ignore")
        return hidden.assign_attrs(dict(zip((COMPARED, SCORED), map(int, counts), strict=True)))

    return map_nodes(scores, hide)


def counts_of_items(data: Scores) -> dict[str, int]:
    """Return how many items of all data sets together were compared and scored, if they were counted."""
    nodes = [node for _, node in nodes_of(data)]
    return {name: sum(node.attrs[name] for node in nodes) for name in (COMPARED, SCORED) if name in nodes[0].attrs}


def refuse_different_items(result: xr.Dataset, path: str) -> None:
    """Raise if the models of a result were evaluated on the items that each of them scored."""
    if result.attrs.get("missing") != "drop" or COMPARED in result.attrs:
        return
    if "n_missing" not in result or MODEL not in result["n_missing"].dims:
        return
    lacking = result["n_missing"].where(result["n_positive"] + result["n_negative"] > 0, 0)
    number = lacking.sum([dim for dim in lacking.dims if dim != MODEL])
    if not number.any():
        return
    labels = result[MODEL].values if MODEL in result.coords else range(result.sizes[MODEL])
    counts = [f"{str(label)!r} lacks {n:,.0f}" for label, n in zip(labels, np.asarray(number), strict=True) if n]
    raise AlignmentError(
        "models that lack different items cannot be compared: their areas depend on which items are left",
        where=f"data set {path!r}" if path else None,
        received=f"a result with missing='drop', where {few(counts)} items",
        allowed="models evaluated on the same items",
        remedy="pass the scores in place of the result, with missing='drop': models are then compared on the items "
        "that all of them scored; or evaluate with missing='last' or 'unretrieved'; or leave these models out",
    )
