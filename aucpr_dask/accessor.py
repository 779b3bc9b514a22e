"""The accessor ``.aucpr`` on Datasets and DataTrees; registered when the package is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    from aucpr_dask.schema.terms import Scores


class _Public:
    """A public function as a method of an accessor, imported when it is looked up, with its signature and docstring."""

    def __init__(self, module: str, name: str | None = None) -> None:
        self._module, self._name = f"{__package__}.{module}", name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, accessor: _Accessor | Plots | None, owner: type) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(importlib.import_module(self._module), str(self._name))
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

    # Of scores.
    precision_recall = _Public("view.plots")
    roc = _Public("view.plots")
    achievable = _Public("view.plots")
    # Of results.
    forest = _Public("view.plots")
    caterpillar = _Public("view.plots")
    heatmap = _Public("view.plots")
    power = _Public("view.plots")
    replicates = _Public("view.plots")
    # Of comparisons, ranks and studies.
    differences = _Public("view.plots")
    pairs = _Public("view.plots")
    ranks = _Public("view.plots")
    critical_difference = _Public("view.plots")
    coverage = _Public("view.plots")


class _Accessor:
    """Methods of score data sets and results."""

    def __init__(self, data: Scores) -> None:
        self._data = data

    # Of scores.
    evaluate = _Public("evaluation.api")
    save = _Public("evaluation.arrays", "save_scores")
    to_long = _Public("scores.long_form")
    to_tree = _Public("scores.long_form")
    # Of results, or of scores, which are evaluated first.
    aggregate = _Public("inference.aggregating")
    compare = _Public("inference.comparing")
    contrast = _Public("inference.contrasting")
    friedman = _Public("inference.ranking")
    gate = _Public("inference.gating")
    power = _Public("inference.powering")
    rank = _Public("inference.ranking")
    # Of results.
    report = _Public("view.report")
    to_dataframe = _Public("interplay.frames")
    to_polars = _Public("interplay.frames")
    export = _Public("interplay.exporting")

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
        return Plots(self._data)

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
