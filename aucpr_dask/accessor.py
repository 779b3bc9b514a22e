"""The accessor ``.aucpr`` on Datasets and DataTrees; registered when the package is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from aucpr_dask.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes

    from aucpr_dask.storage.stores import Scores


class Plots:
    """``data.aucpr.plot``: each method draws on `ax`, or on a new figure, and returns the matplotlib axes."""

    def __init__(self, data: Scores) -> None:
        self._data = data

    def precision_recall(self, model: Any = None, **options: Any) -> Axes:
        """Draw precision-recall curves of scores: :func:`aucpr_dask.view.plots.precision_recall`."""
        return self._draw("precision_recall", model, **options)

    def roc(self, model: Any = None, **options: Any) -> Axes:
        """Draw ROC curves of scores: :func:`aucpr_dask.view.plots.roc`."""
        return self._draw("roc", model, **options)

    def achievable(self, model: Any = None, **options: Any) -> Axes:
        """Draw achievable curves of scores: :func:`aucpr_dask.view.plots.achievable`."""
        return self._draw("achievable", model, **options)

    def forest(self, **options: Any) -> Axes:
        """Draw estimates and intervals of a result, a model in each row: :func:`aucpr_dask.view.plots.forest`."""
        return self._draw("forest", **options)

    def caterpillar(self, **options: Any) -> Axes:
        """Draw all models of a result in order, as one curve: :func:`aucpr_dask.view.plots.caterpillar`."""
        return self._draw("caterpillar", **options)

    def heatmap(self, **options: Any) -> Axes:
        """Draw estimates of a result, models by data sets: :func:`aucpr_dask.view.plots.heatmap`."""
        return self._draw("heatmap", **options)

    def differences(self, baseline: Any = None, **options: Any) -> Axes:
        """Draw differences of a comparison from a baseline: :func:`aucpr_dask.view.plots.differences`."""
        return self._draw("differences", baseline, **options)

    def ranks(self, **options: Any) -> Axes:
        """Draw confidence sets of ranks: :func:`aucpr_dask.view.plots.ranks`."""
        return self._draw("ranks", **options)

    def replicates(self, **options: Any) -> Axes:
        """Draw the distributions of the replicates of a result: :func:`aucpr_dask.view.plots.replicates`."""
        return self._draw("replicates", **options)

    def coverage(self, **options: Any) -> Axes:
        """Draw how often the intervals of a study held the truth: :func:`aucpr_dask.view.plots.coverage`."""
        return self._draw("coverage", **options)

    def _draw(self, name: str, *args: Any, **options: Any) -> Axes:
        from aucpr_dask.view import plots

        drawn: Axes = getattr(plots, name)(self._data, *args, **options)
        return drawn


class _Accessor:
    """What can be done with score data sets, and with results."""

    def __init__(self, data: Scores) -> None:
        self._data = data

    def evaluate(self, *args: Any, **options: Any) -> Scores:
        """Evaluate score data sets: :func:`aucpr_dask.evaluate` of this object."""
        from aucpr_dask.evaluation.api import evaluate

        return evaluate(self._data, *args, **options)

    def save(self, url: str | Path, **options: Any) -> None:
        """Write score data sets to a store: :func:`aucpr_dask.save_scores` of this object."""
        from aucpr_dask.scores import save_scores

        save_scores(self._data, url, **options)

    def aggregate(self, **options: Any) -> Scores:
        """Average a result, or scores, over queries or data sets: :func:`aucpr_dask.aggregate` of this object."""
        from aucpr_dask.inference import aggregate

        return aggregate(self._data, **options)

    def compare(self, *args: Any, **options: Any) -> Scores:
        """Compare models, of a result or of scores: :func:`aucpr_dask.compare` of this object."""
        from aucpr_dask.inference import compare

        return compare(self._data, *args, **options)

    def rank(self, **options: Any) -> Scores:
        """Rank models, of a result or of scores: :func:`aucpr_dask.rank` of this object."""
        from aucpr_dask.inference import rank

        return rank(self._data, **options)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write a result as one HTML page: :func:`aucpr_dask.report` of this object."""
        from aucpr_dask.view.report import report

        return report(self._data, path, **options)

    def to_dataframe(self, *, tidy: bool = True) -> pd.DataFrame:
        """Return a result as a pandas data frame: :func:`aucpr_dask.interplay.frames.to_dataframe` of this object."""
        from aucpr_dask.interplay.frames import to_dataframe

        return to_dataframe(self._data, tidy=tidy)

    def to_polars(self, *, tidy: bool = True) -> pl.DataFrame:
        """Return a result as a polars data frame: :func:`aucpr_dask.interplay.frames.to_polars` of this object."""
        from aucpr_dask.interplay.frames import to_polars

        return to_polars(self._data, tidy=tidy)

    def to_metrics(self, *, per_query: bool = False) -> dict[str, float]:
        """Return a result as flat metrics: :func:`aucpr_dask.interplay.tracking.to_metrics` of this object."""
        from aucpr_dask.interplay.tracking import to_metrics

        return to_metrics(self._data, per_query=per_query)

    def to_params(self) -> dict[str, str]:
        """Return how a result came about: :func:`aucpr_dask.interplay.tracking.to_params` of this object."""
        from aucpr_dask.interplay.tracking import to_params

        return to_params(self._data)

    def export(self, path: str | Path, **options: Any) -> None:
        """Write a result, or scores, for other programs: :func:`aucpr_dask.export` of this object."""
        from aucpr_dask.interplay.exporting import export

        export(self._data, path, **options)

    def __repr__(self) -> str:
        """Return what there is, and of a result the ranked table."""
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
        from aucpr_dask.storage.stores import map_nodes

        self._require_result()
        return map_nodes(self._data, lambda path, node: flagged(node, flag))

    def _require_result(self) -> None:
        from aucpr_dask.storage.stores import nodes_of

        if not all("estimate" in node for _, node in nodes_of(self._data)):
            raise InvalidInputError(
                "this is not a result",
                received="no variable 'estimate'",
                remedy="evaluate the scores first: scores.aucpr.evaluate()",
            )


@xr.register_dataset_accessor("aucpr")
class DatasetAccessor(_Accessor):
    """``dataset.aucpr``: one data set."""


@xr.register_datatree_accessor("aucpr")
class DataTreeAccessor(_Accessor):
    """``tree.aucpr``: many data sets."""
