"""Data frames of pandas and polars: results out, scores in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from aucpr_dask.errors import AlignmentError, FileFormatError, InvalidInputError, few
from aucpr_dask.interplay.columns import tidy_table, wide_table
from aucpr_dask.schema.checks import require
from aucpr_dask.schema.trees import Scores
from aucpr_dask.schema.variables import MODEL
from aucpr_dask.scores.importing.files import unknown_column

if TYPE_CHECKING:
    import polars as pl

FRAME = "the data frame"


def to_dataframe(result: Scores, *, tidy: bool = True) -> pd.DataFrame:
    """Return a result as a pandas data frame.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate`, :func:`aucpr_dask.aggregate` or :func:`aucpr_dask.open_result` returns.
    tidy : bool
        One row per data set, model, query and estimator, with a column for every number: the estimate, its standard
        error, both bounds of every interval (such as ``logit_lower``, ``logit_upper``), counts, and the names of the
        flags. If False, one row per data set, query and estimator, as the index, and a column of estimates for each
        model.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    InvalidInputError
        If this is not a result.

    Examples
    --------
    >>> import xarray as xr, aucpr_dask
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), [[4.0, 3, 2, 1], [1, 2, 3, 4]]), "label": ("item", [1, 1, 0, 0])},
    ...     coords={"model": ["good", "bad"]},
    ... )
    >>> frame = to_dataframe(aucpr_dask.evaluate(scores, intervals="logit"))
    >>> frame[["model", "estimate", "logit_lower", "logit_upper"]].round(3)
      model  estimate  logit_lower  logit_upper
    0  good     1.000        0.000        1.000
    1   bad     0.417        0.041        0.922
    """
    if tidy:
        return tidy_table(result)
    keys, table = wide_table(result)
    return table.set_index(keys).rename_axis(columns=MODEL) if keys else table


def to_polars(result: Scores, *, tidy: bool = True) -> pl.DataFrame:
    """Return a result as a polars data frame, with the columns of :func:`to_dataframe`.

    An undefined number is NaN; an absent name is null.

    Raises
    ------
    InvalidInputError
        If this is not a result, or polars is not installed.
    """
    pl = require("polars", "polars")
    table = tidy_table(result) if tidy else wide_table(result)[1]
    text = table.select_dtypes(exclude="number")
    names = {name: text[name].astype(object).where(text[name].notna(), None).tolist() for name in text}
    return pl.DataFrame(  # type: ignore[no-any-return]
        {name: pl.Series(names[name], dtype=pl.String) if name in names else table[name].to_numpy() for name in table}
    )


def from_dataframe(
    frame: Any,
    *,
    label: str = "label",
    model: str | None = None,
    score: str = "score",
    models: str | Sequence[str] | None = None,
    item: str | None = None,
    query: str | None = None,
    dataset: str | None = None,
    weight: str | None = None,
    exclude: str | Sequence[str] = (),
    negate: bool | str | Sequence[str] = (),
    positive: object = None,
    dtype: str = "float64",
) -> Scores:
    """Return the score data sets of a data frame of pandas, polars, or another with the Arrow interface.

    A *wide* frame has a row for each item and a column of scores for each model. A *tidy* frame has a row for each
    model and item: then `model` and `item` are needed. A null or NaN is a missing score; in a tidy frame, so is an
    absent row.

    Parameters
    ----------
    frame : data frame
        pandas, polars, pyarrow, or any other with the Arrow interface (``__arrow_c_stream__``).
    label : str
        The column of labels: 1 positive, 0 negative, -1 unjudged, or true and false; see `positive`.
    model, score : str, optional
        The columns of model names and of scores. Naming `model` says that the frame is tidy.
    models : str or sequence of str, optional
        Of a wide frame, the columns of scores, or patterns; by default all other numeric columns, except whole numbers
        that name or count rows (``user_id``, 1, 2, 3, ...). A warning lists what is left out. Of a tidy frame, the
        models to take; by default all.
    item : str, optional
        The column of item names, unique in a data set; in a tidy frame unique in a query, if there is one, and then
        not kept. A pandas index counts as a column if it has a name.
    query, dataset, weight : str, optional
        The columns of queries, of data sets (each becomes a node of a tree) and of sample weights.
    exclude, negate
        Columns, or models, to leave out, and those for which low scores mean positive.
    positive : object, optional
        The value of `label` that means positive, where labels are any two values.
    dtype : {"float64", "float32"}
        The type of the scores.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        In memory; a tree if `dataset` is named. :func:`aucpr_dask.save_scores` writes it.

    Raises
    ------
    InvalidInputError
        If a column is unknown, or a cell is not valid.
    AlignmentError
        If models of a tidy frame have different labels for the same item, or one scores an item twice.

    Examples
    --------
    >>> frame = pd.DataFrame({"y": [1, 0, 1], "forest": [0.9, 0.2, 0.4], "linear": [0.3, 0.1, None]})
    >>> scores = from_dataframe(frame, label="y")
    >>> scores["score"].values
    array([[0.9, 0.2, 0.4],
           [0.3, 0.1, nan]])
    >>> tidy = frame.reset_index(names="i").melt(["i", "y"], var_name="model", value_name="score")
    >>> from_dataframe(tidy, label="y", model="model", item="i").equals(scores.assign_coords(item=["0", "1", "2"]))
    True
    """
    from aucpr_dask.scores.importing.table_files import ArrowTable
    from aucpr_dask.scores.importing.tables import TableOptions, scores_of_table

    table = _arrow_table(frame)
    if model is not None:
        if item is None:
            raise InvalidInputError(
                "a tidy frame needs item names, by which models are matched",
                where="option 'item'",
                received=f"model={model!r} without item",
                allowed="the column of item names",
                remedy="name it: item=...",
            )
        keys = [column for column in (dataset, query, item) if column is not None]
        values = [column for column in (label, weight) if column is not None]
        wide = _pivoted(_chosen_columns(table, [*keys, *values, model, score]), keys, values, model, score)
        if models is None:
            models = [str(name) for name in wide if name not in {*keys, *values}]
        table = _arrow_table(wide)
        item = None if query is not None else item
    options = TableOptions(
        label=label,
        models=models,
        item=item,
        query=query,
        dataset=dataset,
        weight=weight,
        exclude=exclude,
        negate=negate,
        positive=positive,
        dtype=dtype,
    )
    return scores_of_table(ArrowTable.of_table(table, FRAME), options)


def _arrow_table(frame: Any) -> Any:
    pyarrow = require("pyarrow", "parquet", FRAME)
    if not isinstance(frame, pyarrow.Table) and not hasattr(frame, "__arrow_c_stream__"):
        lazy = hasattr(frame, "collect")
        raise InvalidInputError(
            "this is not a data frame" if not lazy else "this data frame is lazy",
            where=FRAME,
            received=type(frame).__name__,
            allowed="pandas, polars, pyarrow, or another with the Arrow interface",
            remedy="collect it first: frame.collect()" if lazy else "make one of your data: pandas.DataFrame(data)",
        )
    try:
        return pyarrow.table(frame)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise FileFormatError(
            "the columns cannot be read",
            where=FRAME,
            received="; ".join(map(str, error.args)),
            allowed="columns of numbers, text and truth values",
            remedy="convert the others, or leave them out",
        ) from error


def _chosen_columns(table: Any, columns: Sequence[str]) -> pd.DataFrame:
    for column in columns:
        if column not in table.column_names:
            raise unknown_column(column, table.column_names, FRAME)
    frame: pd.DataFrame = table.select(list(dict.fromkeys(columns))).to_pandas(ignore_metadata=True)
    return frame


def _pivoted(frame: pd.DataFrame, keys: list[str], values: list[str], model: str, score: str) -> pd.DataFrame:
    """Return a wide frame: a row for each item with its label and weight, a column for each model."""
    for column in (*keys, model):
        if frame[column].isna().any():
            raise InvalidInputError("a name is missing", where=f"{FRAME}, column {column!r}")
    frame[model] = frame[model].astype(str)
    if both := [name for name in frame[model].unique() if name in {*keys, *values}]:
        raise AlignmentError("a model is named like a column", received=few(map(repr, both)), remedy="rename it")
    if (twice := frame.duplicated([*keys, model])).any():
        raise AlignmentError(
            "a model scores an item twice",
            where=FRAME,
            received=_first_of(frame, twice, [*keys, model]),
            allowed="one row for each model and item",
            remedy="keep one of the rows",
        )
    items = frame.drop_duplicates([*keys, *values])
    if (differing := items.duplicated(keys)).any():
        raise AlignmentError(
            f"models differ in the {' or '.join(map(repr, values))} of an item",
            where=FRAME,
            received=_first_of(items, differing, [*keys, *values]),
            allowed="one value for each item, the same with every model",
        )
    items = items[[*keys, *values]].set_index(keys)
    scores = frame.pivot(index=keys, columns=model, values=score)[frame[model].unique()]
    return pd.concat([items, scores.reindex(items.index)], axis=1).reset_index()


def _first_of(frame: pd.DataFrame, mask: pd.Series[bool], columns: Sequence[str]) -> str:
    row = frame.loc[mask, list(columns)].iloc[0]
    return f"{int(mask.sum()):,} rows, first: " + ", ".join(f"{name} {row[name]!r}" for name in columns)
