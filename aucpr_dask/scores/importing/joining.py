"""Tables with one model each, such as the predictions of two versions, as one data set: matched by item name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, few
from aucpr_dask.schema.trees import Scores
from aucpr_dask.schema.variables import ITEM, MODEL
from aucpr_dask.scores.importing.files import FilePath, find_files, named_files
from aucpr_dask.scores.importing.table_files import open_table
from aucpr_dask.scores.importing.tables import TableOptions, scores_of_table
from aucpr_dask.scores.validate import check_unique

SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".parquet")


def scores_of_files(paths: Sequence[FilePath], options: TableOptions) -> Scores:
    """Return the models of a table; of several, the model of each, named by its file."""
    files = find_files(paths, "table")
    if len(files) == 1:
        return scores_of_table(open_table(files[0], None), options)
    if options.item is None:
        raise InvalidInputError(
            "items of several tables are matched by name, never by position",
            where="option 'item'",
            received=f"{len(files)} tables without a column of item names",
            allowed="the column of item names",
            remedy="name it: --item; or give one table with a column of scores for each model",
        )
    named = named_files(files, SUFFIXES, "model", with_folders=True)
    parts = {name: _of_one_model(file, options) for name, file in named.items()}
    (first_name, first), *others = parts.items()
    aligned = [first, *(_aligned(part, first, f"{first_name} and {name}") for name, part in others)]
    score = np.concatenate([part["score"].values for part in aligned])
    return first.drop_vars(MODEL).assign(score=((MODEL, ITEM), score)).assign_coords({MODEL: list(parts)})


def _of_one_model(file: Path, options: TableOptions) -> xr.Dataset:
    scores: xr.Dataset = scores_of_table(open_table(file, None), replace(options, dataset=None))  # type: ignore[assignment]
    if scores.sizes[MODEL] != 1:
        raise InvalidInputError(
            "each of several tables has the scores of one model",
            where=file,
            received=f"columns {few(map(repr, scores[MODEL].values.tolist()))}",
            allowed="one column of scores",
            remedy="name it: --score",
        )
    check_unique(scores.indexes[ITEM], ITEM, str(file))
    return scores


def _aligned(part: xr.Dataset, first: xr.Dataset, where: str) -> xr.Dataset:
    """Return a part with its items in the order of the first, or raise unless items and labels are the same."""
    items, own = first.indexes[ITEM], part.indexes[ITEM]
    if len(different := items.symmetric_difference(own)):
        raise _disagree("items", where, f"only in one of them: {few(map(repr, different))}")
    part = part.isel({ITEM: own.get_indexer(items)})
    if (differs := (part["label"] != first["label"]).values).any():
        raise _disagree("labels", where, f"other labels of {few(map(repr, items[differs]))}")
    return part


def _disagree(what: str, where: str, received: str) -> AlignmentError:
    allowed = "the same items, each with the same label, in any order"
    return AlignmentError(
        f"two tables have different {what}", where=where, received=received, allowed=allowed, remedy="correct one"
    )
