"""Joint draws of the deviations of models, from the variances of their differences.

A library's eigenvalues, factors and products of matrices depend on the processor and on the number of threads. Here
every sum has an order of its own, so the draws are the same bits on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aucpr_dask.inference import replicates, units
from aucpr_dask.inference.units import Floats, Indices

PANEL = 64  # columns of a factor that are found before they are subtracted from the remaining covariance
ALIKE = 1 - 1e-9  # of the largest variance: round-off decides nothing, the order of the names does
ROWS = 128  # of a factor, whose draws one thread makes


def student_draws(variance: Floats, degrees: float, names: Sequence[str], n_resamples: int, seed: int) -> Floats:
    """Draw (R, M) from a multivariate t distribution whose differences have these variances (M, M)."""
    from aucpr_dask.kernels.dispatch import sums_of_products

    by_name = np.array(sorted(range(len(names)), key=names.__getitem__))  # the order of the models changes no bit
    variance = variance[np.ix_(by_name, by_name)]
    of_model = variance.mean(axis=1)  # the covariance of deviations from the models' mean with these differences:
    order, factor = pivoted_factor((of_model[:, None] + of_model - variance - of_model.mean()) / 2)
    normals = units.generator(seed, "normal draws").standard_normal((n_resamples, len(names)))
    chi_square = units.generator(seed, "chi-square draws").chisquare(degrees, (n_resamples, 1))
    draws = np.empty((n_resamples, len(names)))

    def fill(start: int, stop: int) -> None:
        some, width = by_name[order[start:stop]], min(stop, factor.shape[1])  # the columns that are not 0
        draws[:, some] = sums_of_products(normals[:, :width], factor[start:stop, :width])

    replicates.in_parts(fill, len(names), ROWS, on_one_core=len(names) <= ROWS)
    draws /= np.sqrt(chi_square / degrees)
    return draws


def pivoted_factor(covariance: Floats) -> tuple[Indices, Floats]:
    """Return an order of the M models and Cholesky's factor F (M, rank) in that order, the largest variance first.

    ``F @ F.T`` is the covariance in that order. The factor exists where models agree, too; those that agree in every
    bit have equal rows. Its columns end where nothing is left but round-off.
    """
    from aucpr_dask.kernels.dispatch import sums_of_products

    n_models = len(covariance)
    factor, order = np.zeros_like(covariance), np.empty(0, np.int64)
    rows, rest = np.arange(n_models), covariance  # of models that no column is for yet
    round_off = n_models * np.finfo(np.float64).eps * np.diagonal(covariance).max(initial=0.0)
    while (varies := np.diagonal(rest) > round_off).any():
        variance, columns = np.where(varies, np.diagonal(rest), 0.0), np.zeros((PANEL, rows.size))
        chosen: list[int] = []
        while len(chosen) < PANEL and variance.any():
            largest = int(np.argmax(variance >= ALIKE * variance.max()))
            left = rest[largest].copy()
            for known in columns[: len(chosen)]:
                left -= known * known[largest]
            most = np.sqrt(variance * variance[largest])  # of a covariance, which round-off may exceed
            columns[len(chosen)] = np.clip(left, -most, most) / np.sqrt(variance[largest])
            variance -= columns[len(chosen)] ** 2
            chosen.append(largest)
            variance[chosen], variance[variance <= round_off] = 0.0, 0.0
        factor[rows, order.size : order.size + len(chosen)] = columns[: len(chosen)].T
        order = np.append(order, rows[chosen])
        is_open = np.ones(rows.size, bool)
        is_open[chosen] = False
        found = columns[: len(chosen), is_open].T
        rows, rest = rows[is_open], rest[np.ix_(is_open, is_open)] - sums_of_products(found, found)
    n_columns = order.size
    order = np.append(order, rows)
    return order, factor[order, :n_columns]
