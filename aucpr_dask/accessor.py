"""The accessor ``.aucpr`` on Datasets and DataTrees; registered when the package is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import xarray as xr

import aucpr_dask as ap

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Asked = ParamSpec("_Asked")
_OfOne = TypeVar("_OfOne")
_OfMany = TypeVar("_OfMany")


class _Module:
    """A module that is imported when something in it is looked up."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


if TYPE_CHECKING:
    from aucpr_dask.evaluation.arrays import TakesArrays
    from aucpr_dask.interplay import frames
    from aucpr_dask.schema.terms import Scores
    from aucpr_dask.view import plots
else:
    frames, plots = _Module("aucpr_dask.interplay.frames"), _Module("aucpr_dask.view.plots")


class _Public(Generic[_Function]):
    """A public function as a method of an accessor, imported when it is looked up, with its signature and docstring."""

    def __init__(self, find: Callable[[], _Function]) -> None:
        self._find = find

    @overload
    def __get__(self, accessor: None, owner: type) -> _Function: ...
    @overload
    def __get__(
        self: _Public[TakesArrays[_Asked, _OfOne, _OfMany]], accessor: DatasetAccessor, owner: type
    ) -> Callable[_Asked, _OfOne]: ...
    @overload
    def __get__(
        self: _Public[TakesArrays[_Asked, _OfOne, _OfMany]], accessor: DataTreeAccessor, owner: type
    ) -> Callable[_Asked, _OfMany]: ...
    @overload
    def __get__(
        self: _Public[Callable[Concatenate[Any, _Asked], _OfOne]], accessor: _Accessor | Plots, owner: type
    ) -> Callable[_Asked, _OfOne]: ...
    def __get__(self, accessor: Any, owner: type) -> Any:
        function = self._find()
        return function if accessor is None else MethodType(function, accessor._data)


# By a variable that shows the kind of data, in this order: ranks and comparisons have estimates, too.
USUAL_PLOTS = {"rank": "ranks", "difference": "differences", "coverage": "coverage"}
USUAL_PLOTS |= {"estimate": "forest", "score": "precision_recall"}


class Plots:
    """``data.aucpr.plot``: each method draws on `ax`, or on a new figure, and returns the matplotlib axes."""

    def __init__(self, data: Scores) -> None:
        self._data = data

    def __call__(self, **options: Any) -> Any:
        """Draw the usual picture of these data: curves, a forest, differences, ranks or coverage."""
        from aucpr_dask.schema.terms import nodes_of

        names = set.intersection(*(set(map(str, node.data_vars)) for _, node in nodes_of(self._data)))
        for name, plot in USUAL_PLOTS.items():
            if name in names:
                dims = {str(dim) for _, node in nodes_of(self._data) for dim in node.dims}
                is_of_pairs = plot == "differences" and dims & {"other_model", "baseline"} and "baseline" not in options
                return getattr(self, "pairs" if is_of_pairs else plot)(**options)
        from aucpr_dask.errors import InvalidInputError

        allowed = "scores, results, comparisons, ranks and studies"
        raise InvalidInputError("there is no usual plot of these data", None, ", ".join(sorted(names)), allowed)

    if not TYPE_CHECKING:  # where names that there are not are errors already

        def __getattr__(self, name: str) -> Any:
            """Raise for a picture that there is not, with the names of those that there are."""
            from aucpr_dask.errors import did_you_mean, few

            known = [one for one in vars(Plots) if not one.startswith("_")]
            raise AttributeError(f"there is no plot {name!r}; {did_you_mean(name, known, few(known, len(known)))}")

    # Of scores.
    precision_recall = _Public(lambda: plots.precision_recall)
    roc = _Public(lambda: plots.roc)
    achievable = _Public(lambda: plots.achievable)
    # Of results.
    forest = _Public(lambda: plots.forest)
    caterpillar = _Public(lambda: plots.caterpillar)
    heatmap = _Public(lambda: plots.heatmap)
    maps = _Public(lambda: plots.maps)
    power = _Public(lambda: plots.power)
    replicates = _Public(lambda: plots.replicates)
    # Of comparisons, ranks and studies.
    differences = _Public(lambda: plots.differences)
    pairs = _Public(lambda: plots.pairs)
    ranks = _Public(lambda: plots.ranks)
    critical_difference = _Public(lambda: plots.critical_difference)
    coverage = _Public(lambda: plots.coverage)


class _Accessor:
    """Methods of score data sets and results."""

    def __init__(self, data: Scores) -> None:
        self._data = data

    # Of scores.
    evaluate = _Public(lambda: ap.evaluate)
    save = _Public(lambda: ap.save_scores)
    to_long = _Public(lambda: ap.to_long)
    to_tree = _Public(lambda: ap.to_tree)
    # Of results, or of scores, which are evaluated first.
    aggregate = _Public(lambda: ap.aggregate)
    compare = _Public(lambda: ap.compare)
    contrast = _Public(lambda: ap.contrast)
    friedman = _Public(lambda: ap.friedman)
    gate = _Public(lambda: ap.gate)
    power = _Public(lambda: ap.power)
    rank = _Public(lambda: ap.rank)
    # Of results.
    report = _Public(lambda: ap.report)
    to_dataframe = _Public(lambda: frames.to_dataframe)
    to_polars = _Public(lambda: frames.to_polars)
    export = _Public(lambda: ap.export)

    def __repr__(self) -> str:
        """Return a summary; for a result, the ranked table."""
        from aucpr_dask.view.reprs import as_text

        return as_text(self._data)

    def _repr_html_(self) -> str:
        from aucpr_dask.view.reprs import as_html

        return as_html(self._data)

    @property
    def plot(self) -> Plots:
        """Plots of scores, results, comparisons, ranks and studies, by name: ``result.aucpr.plot.forest()``."""
        from aucpr_dask.schema.terms import without_levels_of

        return Plots(without_levels_of(self._data))

    def flagged(self, flag: str) -> Scores:
        """Return where a result raises the warning called `flag`, as a boolean variable of that name."""
        from aucpr_dask.evaluation.results import flagged
        from aucpr_dask.schema.terms import map_nodes

        return map_nodes(self._data, lambda path, node: flagged(node, flag))


@xr.register_dataset_accessor("aucpr")
class DatasetAccessor(_Accessor):
    """``dataset.aucpr``: one data set."""


@xr.register_datatree_accessor("aucpr")
class DataTreeAccessor(_Accessor):
    """``tree.aucpr``: many data sets."""
