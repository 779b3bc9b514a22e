"""Area under the precision-recall curve for thousands of rankers at once.

Scores come in as labelled, chunked arrays (:func:`open_scores`), are evaluated exactly on NumPy or
on a Dask cluster (:func:`evaluate`, :func:`run`) and come out as an xarray Dataset of estimates and
confidence intervals. Importing the package compiles nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

import wrapt

from aucpr_dask._version import __version__
from aucpr_dask.errors import OptimizedPythonError

if not __debug__:
    raise OptimizedPythonError(
        "this package does not work when Python drops assertions, because Zarr reads stores in some of its own",
        received="python -O, -OO or PYTHONOPTIMIZE",
        remedy="run Python without -O, and unset PYTHONOPTIMIZE",
    )

_HOME = {
    name: f"{__name__}.{module}"
    for module, names in {
        "workers": "connect",
        "curves.api": "confusion curve dominates to_precision_recall to_roc",
        "curves.bands": "curve_bands",
        "curves.references": "normalised reference_levels unachievable_precision",
        "evaluation.api": "estimate evaluate interval",
        "evaluation.area_bounds": "area_bounds",
        "evaluation.arrays": "save_scores",
        "evaluation.results": "open_result",
        "inference.aggregating": "aggregate",
        "inference.chance": "chance",
        "inference.contrasting": "contrast",
        "inference.comparing": "compare open_comparison save_comparison",
        "inference.covarying": "covariance",
        "inference.gating": "gate",
        "inference.powering": "power",
        "inference.ranking": "friedman rank",
        "interplay.exporting": "export",
        "interplay.frames": "from_dataframe",
        "interplay.retrieval": "evaluate_runs from_runs",
        "interplay.scikit": "from_sklearn scorer",
        "interplay.values": "from_values",
        "metrics.accumulating": "Accumulator",
        "runs.run": "run",
        "scores.long_form": "to_long to_tree",
        "scores.store": "open_scores",
        "view.letters": "letters",
        "view.report": "audit report",
    }.items()
    for name in names.split()
}

_MODULES = ("metrics", "simulate")

__all__ = ["__version__", *sorted([*_HOME, *_MODULES])]

if TYPE_CHECKING:
    from aucpr_dask import metrics as metrics
    from aucpr_dask import simulate as simulate
    from aucpr_dask.curves.api import confusion as confusion
    from aucpr_dask.curves.api import curve as curve
    from aucpr_dask.curves.api import dominates as dominates
    from aucpr_dask.curves.api import to_precision_recall as to_precision_recall
    from aucpr_dask.curves.api import to_roc as to_roc
    from aucpr_dask.curves.bands import curve_bands as curve_bands
    from aucpr_dask.curves.references import normalised as normalised
    from aucpr_dask.curves.references import reference_levels as reference_levels
    from aucpr_dask.curves.references import unachievable_precision as unachievable_precision
    from aucpr_dask.evaluation.api import estimate as estimate
    from aucpr_dask.evaluation.api import evaluate as evaluate
    from aucpr_dask.evaluation.api import interval as interval
    from aucpr_dask.evaluation.area_bounds import area_bounds as area_bounds
    from aucpr_dask.evaluation.arrays import save_scores as save_scores
    from aucpr_dask.evaluation.results import open_result as open_result
    from aucpr_dask.inference.aggregating import aggregate as aggregate
    from aucpr_dask.inference.chance import chance as chance
    from aucpr_dask.inference.comparing import compare as compare
    from aucpr_dask.inference.comparing import open_comparison as open_comparison
    from aucpr_dask.inference.comparing import save_comparison as save_comparison
    from aucpr_dask.inference.contrasting import contrast as contrast
    from aucpr_dask.inference.covarying import covariance as covariance
    from aucpr_dask.inference.gating import gate as gate
    from aucpr_dask.inference.powering import power as power
    from aucpr_dask.inference.ranking import friedman as friedman
    from aucpr_dask.inference.ranking import rank as rank
    from aucpr_dask.interplay.exporting import export as export
    from aucpr_dask.interplay.frames import from_dataframe as from_dataframe
    from aucpr_dask.interplay.retrieval import evaluate_runs as evaluate_runs
    from aucpr_dask.interplay.retrieval import from_runs as from_runs
    from aucpr_dask.interplay.scikit import from_sklearn as from_sklearn
    from aucpr_dask.interplay.scikit import scorer as scorer
    from aucpr_dask.interplay.values import from_values as from_values
    from aucpr_dask.metrics.accumulating import Accumulator as Accumulator
    from aucpr_dask.runs.run import run as run
    from aucpr_dask.scores.long_form import to_long as to_long
    from aucpr_dask.scores.long_form import to_tree as to_tree
    from aucpr_dask.scores.store import open_scores as open_scores
    from aucpr_dask.view.letters import letters as letters
    from aucpr_dask.view.report import audit as audit
    from aucpr_dask.view.report import report as report
    from aucpr_dask.workers.connecting import connect as connect


@wrapt.when_imported("xarray")
def _register_accessor(module: ModuleType) -> None:
    """Register ``.aucpr`` when xarray is imported."""
    importlib.import_module("aucpr_dask.accessor")


# Documented modules of version 0.1, and their new names. To be removed in version 0.3.
def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
