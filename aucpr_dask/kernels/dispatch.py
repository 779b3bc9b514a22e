"""Whether NumPy or kernels do the work: importing numba, or compiling, takes longer than the first rankings."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.kernels import by_numpy
from aucpr_dask.kernels import options as o
from aucpr_dask.kernels.by_numpy import SHORT, Array, Case, Floats, Influence, Units

if TYPE_CHECKING:
    from aucpr_dask.kernels.sorting import InOrder

FINISHING = "areas.finish_common_rows"  # the kernel that every ranking here would need
MOST_WITHOUT_NUMBA = 1 << 22  # items, with which NumPy spends about as long as numba takes to be imported
MOST_BY_NUMPY = 1 << 23  # items, with which NumPy spends about as long as kernels take to compile
ITEMS_PER_RANKING = 1 << 11  # items, as many as a short ranking costs

_PACKAGE = __name__.rpartition(".")[0]
_n_done = 0  # items by NumPy in this process


def is_for_numpy(work: int, *kernels: str) -> bool:
    """Return whether NumPy should do what kernels would be compiled for, or numba imported, and count it."""
    global _n_done
    needs_numba = _n_done + work > MOST_WITHOUT_NUMBA or "numba" in sys.modules
    if _n_done + work > MOST_BY_NUMPY or (needs_numba and all(map(needs_no_compiling, kernels))):
        return False
    _n_done += work
    return True


def needs_no_compiling(kernel: str) -> bool:
    """Return whether a kernel is in this process, or was in the cache when first asked."""
    if "numba" not in sys.modules:
        from aucpr_dask.storage import code_cache

        if not code_cache.path_of(kernel).exists():  # numba would be imported to find no more
            return False
    compiling = importlib.import_module(f"{_PACKAGE}.compiling")
    importlib.import_module(f"{_PACKAGE}.{kernel.rpartition('.')[0]}")
    return bool(compiling.needs_no_compiling(kernel))


def evaluate_rows(
    score: Floats,
    label: NDArray[np.int8],
    label_row: NDArray[np.int64],
    n_given: Array,
    options: o.Options,
    codes: NDArray[np.int64],
) -> Array:
    """Evaluate rankings as `rankings.evaluate_rows` does: by NumPy until kernels are there, or worth compiling."""
    is_known = not options.expect_ties and bool(o.IS_COMMON[codes].all())
    of_type = f"classes.{'copy_positives' if score.shape[1] > SHORT else 'split_rows'}_{score.dtype}_int8"
    if not is_known or not is_for_numpy(score.size + ITEMS_PER_RANKING * len(score), FINISHING, of_type):
        from aucpr_dask.kernels import rankings

        return rankings.evaluate_rows(score, label, label_row, n_given, options, codes)
    return by_numpy.evaluate_rows(score, label, label_row, n_given, options, codes)


def influence_rows(
    items: o.Items,
    options: o.Options,
    estimator: str = "average_precision",
    recall_range: tuple[float, float] = (0.0, 1.0),
    *,
    units: Units | None = None,
    prevalence_is_fixed: bool = False,
    is_corrected: bool = False,
    in_order: InOrder | None = None,
) -> Influence:
    """Compute the influence of every item on an area of each ranking, or on a part of it, ties in tie groups.

    An item that is left out, or has no weight, has influence 0. `units` are 1 unless given, and matter to the last two
    fields only. With `prevalence_is_fixed`, so are the total weights of the classes. With `is_corrected`, products of
    two rows add up to a covariance, and all is NaN if a class has fewer than two items. All is NaN without positives.
    `in_order` holds the scores as `sorting.in_order` returns them, if they are known.
    """
    n_rows = len(items.score)
    values, facts = np.empty(items.score.shape), np.empty((n_rows, 4))
    units = Units(np.ones(n_rows), np.ones(n_rows)) if units is None else units
    design = prevalence_is_fixed or not np.isnan(options.prevalence), is_corrected
    leaves_out, target = estimator == "haldane", (o.CODES[estimator], *map(float, recall_range))
    if in_order is None and are_influences_for_numpy(items, estimator, recall_range):
        for row, score in enumerate(items.score):
            descending = -score.astype(np.float64)
            case = Case(items.unseen[row], units.positive[row], units.negative[row], *design)
            given = descending, np.argsort(descending), *items.weights(row), options, case
            with np.errstate(all="ignore"):
                by_numpy.influence(*given, values[row], facts[row])
        return Influence(values, *facts.T)
    from aucpr_dask.kernels import sorting
    from aucpr_dask.kernels.influence import fill_area_influences, fill_influences

    rows = *(in_order or sorting.in_order(items.score)), items.positive, items.negative, items.row
    cases = np.column_stack([items.unseen, *units])
    if _is_known(estimator, recall_range):
        fill_influences(*rows, options, cases, design, leaves_out, values, facts)
    else:
        fill_area_influences(*rows, options, cases, design, target, values, facts)
    return Influence(values, *facts.T)


def _is_known(estimator: str, recall_range: tuple[float, float]) -> bool:
    """Whether the derivatives of an area are known in closed form."""
    return estimator in ("average_precision", "haldane") and tuple(recall_range) == (0.0, 1.0)


def are_influences_for_numpy(items: o.Items, estimator: str, recall_range: tuple[float, float]) -> bool:
    """Return whether NumPy should find these influences, and count the work; Haldane's leave out each positive."""
    is_plain = _is_known(estimator, recall_range) and estimator != "haldane"
    is_plain = is_plain and all(np.isin(one, (0.0, 1.0)).all() for one in items[1:3])
    return is_plain and is_for_numpy(
        items.score.size + ITEMS_PER_RANKING * len(items.score), "influence.fill_influences"
    )


def sums_of_products(left: Array, right: Array) -> Array:
    """Return ``left @ right.T``; unlike a library's, a sum is bit-for-bit independent of the other rows."""
    if is_for_numpy(left.size * len(right) // 8, "products.add_products"):
        return by_numpy.products(left, right)
    from aucpr_dask.kernels.products import add_products

    out = np.zeros((len(left), len(right)))
    add_products(left, right, out)
    return out
