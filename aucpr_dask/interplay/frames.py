"""Data frames of pandas and polars: results out, scores in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, ColumnWarning, FileFormatError, InvalidInputError, few, warn
from aucpr_dask.evaluation.results import group_dims, not_a_result
from aucpr_dask.inference import requirements
from aucpr_dask.inference.covarying import BASELINE
from aucpr_dask.inference.designs import are_values, with_estimators
from aucpr_dask.inference.grouped import with_kept_as_groups
from aucpr_dask.inference.paired_samples import DESCRIPTIONS
from aucpr_dask.schema import checks, choices, terms
from aucpr_dask.schema.options import TableOptions
from aucpr_dask.scores.validate import where_of

if TYPE_CHECKING:
    import polars as pl

FRAME = "the data frame"
ARROW_FRAMES = "pandas, polars, pyarrow, or another with the Arrow interface"
DATASET = "dataset"
KEYS = (DATASET, *terms.RANKING_DIMS, terms.ESTIMATOR, terms.MEASURE)
COUNTS = ("n_positive", "n_negative", "n_missing", "n_queries", "n_datasets", "n_classes", "n_items", "prevalence")
ANSWERS = (*requirements.ANSWERS, "covariance")  # what tables of answers are about
NUMBERS = ("estimate", "standard_error", *COUNTS, "flags")


# --- results out ------------------------------------------------------------------------------------------------


def to_dataframe(result: terms.Scores, *, tidy: bool = True) -> pd.DataFrame:
    """Return a result, or an answer about one, as a pandas data frame.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate`, :func:`aucpr_dask.aggregate` or :func:`aucpr_dask.open_result` returns; or
        a comparison, a contrast, ranks, their power or a covariance.
    tidy : bool
        One row per data set, model, query, group of items and estimator, with a column for every number: the estimate,
        its standard error, both bounds of every interval (``logit_lower``, ``logit_upper``), counts, and the names of
        the flags. An answer about pairs has one row for each pair. If False, one row per data set, query and
        estimator, as the index, and a column of estimates for each model.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> import xarray as xr, aucpr_dask
    >>> scores = xr.Dataset(
    ...     {"score": (("model", "item"), [[4.0, 3, 2, 1], [1, 2, 3, 4]]), "label": ("item", [1, 1, 0, 0])},
    ...     coords={"model": ["good", "bad"]},
    ... )
    >>> frame = to_dataframe(aucpr_dask.evaluate(scores, interval="logit"))
    >>> frame[["model", "estimate", "logit_lower", "logit_upper"]].round(3)
      model  estimate  logit_lower  logit_upper
    0  good     1.000        0.000        1.000
    1   bad     0.417        0.041        0.922
    """
    if tidy:
        return tidy_table(result)
    keys, table = wide_table(result)
    return table.set_index(keys).rename_axis(columns=terms.MODEL) if keys else table


def to_polars(result: terms.Scores, *, tidy: bool = True) -> pl.DataFrame:
    """Return a result as a polars data frame, with the columns of :func:`to_dataframe`.

    An undefined number is NaN; an absent name is null.
    """
    pl = checks.require("polars", "polars")
    table = in_arrow(tidy_table(result) if tidy else wide_table(result)[1])
    return pl.DataFrame(table)  # type: ignore[no-any-return]


def in_arrow(table: pd.DataFrame) -> Any:
    """Return a table of a result as one of Arrow: an absent name is null, and an undefined number NaN."""
    import pyarrow

    texts, columns = {*table.select_dtypes(exclude="number")}, dict[str, Any]()
    for name, values in table.items():
        is_text = name in texts
        columns[str(name)] = pyarrow.array(values, pyarrow.string() if is_text else None, from_pandas=is_text)
    return pyarrow.table(columns)


def tidy_table(result: terms.Scores) -> pd.DataFrame:
    """Return one row per data set, model, query or class, and estimator; values that one lacks are None or NaN."""
    if any({*ANSWERS} & set(node) for _, node in terms.nodes_of(result)):
        return pd.concat([_tidy_answer(path, node) for path, node in terms.nodes_of(result)], ignore_index=True)
    nodes = _nodes_of_result(result)
    names = {str(name) for _, node in nodes for name in node.data_vars}
    methods = dict.fromkeys(method for _, node in nodes for method in _methods(node))
    bounds = [f"{method}_{bound}" for method, bound in product(methods, terms.BOUNDS)]
    known = [name for name in (*COUNTS, "flags") if name in names]
    columns = [*_keys(result, nodes), "estimate", "standard_error", *bounds, *(["level"] if methods else []), *known]
    return pd.concat([_tidy(path, node) for path, node in nodes], ignore_index=True).reindex(columns=columns)


def wide_table(result: terms.Scores) -> tuple[list[str], pd.DataFrame]:
    """Return the key columns, and a table: rows by data set, query or class, and estimator; a column per model."""
    nodes = _nodes_of_result(result)
    keys = [key for key in _keys(result, nodes) if key != terms.MODEL]
    models, tables = dict[str, None](), []
    for path, node in nodes:
        tidy = _tidy(path, node[["estimate"]])
        own = list(tidy[terms.MODEL].unique()) if terms.MODEL in tidy else ["estimate"]
        models |= dict.fromkeys(own)
        by_model = tidy["estimate"].to_numpy().reshape(len(own), -1)  # whose rows are in the same order
        rows = tidy[[key for key in keys if key in tidy]].iloc[: by_model.shape[1]]
        tables.append(pd.concat([rows, pd.DataFrame(by_model.T, columns=own)], axis=1))
    if both := [name for name in models if name in keys]:
        remedy = "rename it, or use the tidy table: tidy=True"
        raise AlignmentError("a model has the name of a key column", None, few(map(repr, both)), remedy=remedy)
    return keys, pd.concat(tables, ignore_index=True).reindex(columns=[*keys, *models])


def _nodes_of_result(result: terms.Scores) -> list[tuple[str, xr.Dataset]]:
    nodes = list(terms.nodes_of(with_kept_as_groups(terms.without_levels_of(result))))
    if not nodes or not all("estimate" in node for _, node in nodes):
        raise not_a_result("no variable 'estimate'")
    if any({*ANSWERS} & set(node) for _, node in nodes):
        what = "only a result has a table with a column for each model"
        remedy = "make a tidy one: a row for each pair or model"
        raise InvalidInputError(what, None, "a comparison, ranks or another answer", "a result", remedy)
    for path, node in nodes:
        if odd := [str(dim) for dim in node["estimate"].dims if dim not in _keys_of(node)]:
            what = "only estimates by model, query, class or group, and estimator make such a table"
            received, remedy = f"the dimension {', '.join(map(repr, odd))}", "select from it first: result.sel(...)"
            raise InvalidInputError(what, where_of(path), received, remedy=remedy)
    new = {terms.ESTIMATOR: terms.MEASURE}
    return [(path, with_estimators(node).rename(new) if are_values(node) else node) for path, node in nodes]


def _keys(result: terms.Scores, nodes: Sequence[tuple[str, xr.Dataset]]) -> list[str]:
    present = {str(name) for _, node in nodes for name in (*node.dims, *node.coords)}
    keys = dict.fromkeys(key for _, node in nodes for key in _keys_of(node))
    return [key for key in keys if key in present or (key == DATASET and isinstance(result, xr.DataTree))]


def _keys_of(node: xr.Dataset) -> list[str]:
    """Return what tells the rows of a table apart: groups of items come after queries."""
    return list(dict.fromkeys((*KEYS[:-2], *group_dims(node), *KEYS[-2:])))


def _methods(node: xr.Dataset) -> list[str]:
    """Return the names of the intervals; an unnamed one, as of a mean, is called interval."""
    if "interval" not in node:
        return []
    names = np.atleast_1d(node[terms.METHOD].values) if terms.METHOD in node.coords else ["interval"]
    return [str(name) for name in names]


def _tidy(path: str, node: xr.Dataset) -> pd.DataFrame:
    groups, labels = group_dims(node), dict[str, Any]()  # of the rows as text: numbers where a dimension has none
    for dim in _keys_of(node)[1:]:
        if dim in node.coords and not (dim in groups and node[dim].dtype.kind in "iuf"):
            names = node.indexes.get(dim, np.atleast_1d(node[dim].values))
            text = np.array([str(name) for name in names], object)
            labels[dim] = (node[dim].dims, text.reshape(node[dim].shape))
        elif dim in node.sizes and dim not in (*node.coords, *groups):
            labels[dim] = ((dim,), np.array([f"{dim} {number}" for number in range(node.sizes[dim])], object))
    numbers = node[[name for name in NUMBERS if name in node]].assign_coords(labels)
    if _methods(node) and "level" in node.attrs and "level" not in node.dims:  # where it may be a pressure
        numbers = numbers.assign_coords(level=node.attrs["level"])
    for method, bound in product(_methods(node), terms.BOUNDS):
        at = {terms.BOUND: bound} | ({terms.METHOD: method} if terms.METHOD in node["interval"].dims else {})
        numbers[f"{method}_{bound}"] = node["interval"].sel(at).reset_coords(drop=True)
    numbers = numbers if DATASET in numbers.dims else numbers.expand_dims({DATASET: [path]})
    dims = [dim for dim in _keys_of(node) if dim in numbers["estimate"].dims]
    dims.sort(key=terms.MODEL.__ne__)  # first, as wide tables need it
    table = numbers.compute().to_dataframe(dims).reset_index()
    if "flags" in table:
        table["flags"] = list(map(_names_of_flags, table["flags"]))
    return table


def _tidy_answer(path: str, node: xr.Dataset) -> pd.DataFrame:
    """Return one row for each model, or each pair, of an answer, with a column for every number."""
    about = node[next(name for name in ANSWERS if name in node)]
    rows = [str(dim) for dim in about.dims]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys((*(name for name in DESCRIPTIONS if name in node), *node.data_vars)):  # not as stored
        variable = node[name]
        spread = [dim for dim in variable.dims if dim not in rows]  # bounds, or outcomes
        for labels in product(*(node[dim].values for dim in spread)):
            one = variable.sel(dict(zip(spread, labels, strict=True))).reset_coords(drop=True)
            if one.dtype.kind in "biuf":  # the others are sentences
                columns["_".join(map(str, (name, *labels)))] = one
    alone = {str(name): one.item() for name, one in node.coords.items() if not one.dims}
    table = xr.Dataset(columns).assign_coords(alone).compute().to_dataframe(rows).reset_index()
    if path:
        table.insert(0, DATASET, path)
    is_asked = np.ones(len(table), bool)
    for second in (*rows, *alone):  # a pair has one row, and what is compared with itself none
        first = terms.MODEL if second == BASELINE else second.removeprefix("other_").removeprefix("reference_")
        if first != second and first in rows:
            index = node.get_index(first)
            places, others = (index.get_indexer(pd.Index(table[name])) for name in (first, second))
            is_asked &= places < others if second.startswith("other_") else places != others
            is_asked |= (about.name == "covariance") & (places == others)
    keys = [name for name in (DATASET, *rows, *alone) if name in table]
    table = table.loc[is_asked, [*keys, *columns]].reset_index(drop=True)
    for name in node.data_vars.keys() & columns:
        attrs = node[name].attrs
        if name == "flags":
            table[name] = list(map(_names_of_flags, table[name]))
        elif "flag_values" in attrs:
            table[name] = table[name].map(dict(zip(attrs["flag_values"], attrs["flag_meanings"].split(), strict=True)))
    return table


def _names_of_flags(bits: int) -> str:
    return " ".join(flag.name for flag in terms.FLAGS if bits & flag.bit)


# --- scores in --------------------------------------------------------------------------------------------------


@choices.names_meant
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
    clusters: str | None = None,
    fold: str | None = None,
    repeat: str | None = None,
    by: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    negate: bool | str | Sequence[str] = (),
    pos_label: object = None,
    dtype: str = "float64",
) -> terms.Scores:
    """Return the score data sets of a data frame of pandas, polars or Arrow.

    A *wide* frame has a row for each item and a column of scores for each model. A *tidy* frame has a row for each
    model and item: then `model` and `item` are needed. A null or NaN is a missing score; in a tidy frame, so is an
    absent row.

    Parameters
    ----------
    frame : data frame
        pandas, polars, pyarrow, or any other with the Arrow interface (``__arrow_c_stream__``). One of Dask is
        computed.
    label : str
        The column of labels: 1 positive, 0 negative, -1 unjudged, or true and false; see `pos_label`.
    model, score : str, optional
        The columns of model names and of scores. Naming `model` says that the frame is tidy.
    models : str or sequence of str, optional
        Of a wide frame, the columns of scores, or patterns; by default all other columns of floats. Whole numbers name,
        count or measure (``user_id``, ``age``), and are scores only if they are named here. If something is left out, a
        warning lists it, and what is taken. Of a tidy frame, the models to take; by default all.
    item : str, optional
        The column of item names, unique in a data set; in a tidy frame unique in a query, if there is one, and then
        not kept. Levels of a pandas index count as columns if they have names, but never as models.
    query, dataset, weight : str, optional
        The columns of queries, of data sets (each becomes a node of a tree) and of sample weights.
    clusters, fold : str, optional
        The columns of clusters, whose items depend on each other, and of folds, in which items were held out. With
        `query`, all items of a query have the same.
    repeat : str, optional
        The column of repeats of a cross-validation, each with a row for every item, which `item` names. Only scores
        and folds may differ between them.
    by : str or sequence of str
        Columns of groups of items, such as sites, years or data sets, kept as coordinates along the items: the names to
        give to ``evaluate(..., by=)``. Not with `query`, which can be one of them.
    exclude, negate
        Columns, or models, to leave out, and those for which low scores mean positive.
    pos_label : object, optional
        The value of `label` that means positive, where labels are any two values.
    dtype : {"float64", "float32"}
        The type of the scores.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        In memory; a tree if `dataset` is named. :func:`aucpr_dask.save_scores` writes it.

    Raises
    ------
    AlignmentError
        If models of a tidy frame have different labels for the same item, or one scores an item twice.

    Examples
    --------
    >>> import pandas as pd, aucpr_dask as ap
    >>> frame = pd.DataFrame({"y": [1, 0, 1], "forest": [0.9, 0.2, 0.4], "linear": [0.3, 0.1, None]})
    >>> scores = ap.from_dataframe(frame, label="y")
    >>> scores["score"].values
    array([[0.9, 0.2, 0.4],
           [0.3, 0.1, nan]])
    >>> tidy = frame.reset_index(names="i").melt(["i", "y"], var_name="model", value_name="score")
    >>> ap.from_dataframe(tidy, label="y", model="model", item="i").equals(scores.assign_coords(item=["0", "1", "2"]))
    True
    """
    from aucpr_dask.scores.importing.table_files import ArrowTable
    from aucpr_dask.scores.importing.tables import TAKEN, scores_of_table

    given = {name: one if name in ("frame", "pos_label") else _as_text(one) for name, one in locals().items()}
    scores, notes = scores_of_table(ArrowTable.of_table(arrow_table(frame), FRAME), TableOptions.among(given))
    if left_out := [note for note in notes if not note.startswith(TAKEN)]:
        taken = [note for note in notes if note not in left_out]
        message = f"{FRAME}: {'; '.join([*taken, *left_out])}; name the columns of scores by models=[...]"
        warn(message, ColumnWarning)
    return terms.map_nodes(scores, lambda _, node: node.drop_attrs(deep=False))


def arrow_table(frame: Any, where: str = FRAME) -> Any:
    """Return a data frame of any kind as a table of Arrow; `where` is what errors call it."""
    import pyarrow  # which takes a fifth of a second

    if hasattr(frame, "npartitions") and hasattr(frame, "compute"):  # of Dask
        frame = frame.compute()
    if not isinstance(frame, pyarrow.Table) and not hasattr(frame, "__arrow_c_stream__"):
        lazy = hasattr(frame, "collect")
        what = "this data frame is lazy" if lazy else "this is not a data frame"
        remedy = "collect it first: frame.collect()" if lazy else "make one of your data: pandas.DataFrame(data)"
        remedy = "read the file first, by pandas or polars" if isinstance(frame, str) else remedy
        raise InvalidInputError(what, where, type(frame).__name__, ARROW_FRAMES, remedy)
    try:
        if isinstance(frame, pd.DataFrame):  # names of columns in words, periods and intervals as words in their order
            plain = {}
            for place, dtype in enumerate(frame.dtypes):
                of_cells = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
                if isinstance(of_cells, pd.PeriodDtype | pd.IntervalDtype):
                    column = frame.iloc[:, place].astype("category").cat.as_ordered()
                    plain[place] = column.cat.rename_categories(list(map(str, column.cat.categories)))
            if plain:
                frame = pd.concat([plain.get(place, frame.iloc[:, place]) for place in range(frame.shape[1])], axis=1)
            if frame.columns.nlevels == 1:
                frame = frame.set_axis([_as_text(name) for name in frame.columns], axis=1)
        return pyarrow.table(frame)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        received, allowed = "; ".join(map(str, error.args)), "columns of numbers, text and truth values"
        remedy = "convert the others, or leave them out"
        raise FileFormatError("the columns cannot be read", where, received, allowed, remedy) from error


def _as_text(names: Any) -> Any:
    """Return the name of a column, or several, in words: whole numbers name columns of frames, too."""
    if isinstance(names, list | tuple):
        return type(names)(map(_as_text, names))
    return str(names) if isinstance(names, int | np.integer) and not isinstance(names, bool) else names
