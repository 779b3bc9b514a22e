"""The largest areas of all orders, one by one: exact where few orders are as good as the observed one."""

import numpy as np
from numba import types

from aucpr_dask.kernels.chance.lattice import chances
from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.signatures import F8, I8, row_of

CACHE = Cache(__name__)


@helper
def best_of_rest(sizes, unranked, n, sign):
    """Return the largest multiple by `sign` of what tie groups from each on can add to the sum of j positives above."""
    best = np.full((sizes.size + 1, n + 1), -np.inf)
    for j in range(max(0, n - unranked), n + 1):
        best[sizes.size, j] = 0.0
    end = sizes.sum()
    for group in range(sizes.size - 1, -1, -1):
        for j in range(n + 1):
            for c in range(min(sizes[group], n - j) + 1):
                best[group, j] = max(best[group, j], sign * c * (j + c) / end + best[group + 1, j + c])
        end -= sizes[group]
    return best


@CACHE.kernel(F8(row_of(I8), I8, I8))
def least_sum(sizes, unranked, n):
    """Return the sum of precisions of the worst order."""
    return -best_of_rest(sizes, unranked, n, -1.0)[0, 0]


@CACHE.kernel(types.int64(row_of(I8), I8, I8, F8, I8, F8[::1], F8[::1]))
def largest_sums(sizes, unranked, n, least, most_nodes, sums, masses):
    """List the sums of precisions from `least` on, and their probabilities; return their number, -1 if too many.

    A sum is one for each way to spread positives over tie groups. A branch is followed only if some way down it
    reaches `least`, so the number of nodes of the tree is that of sums times their length, at most.
    """
    probability = np.empty(n + 1)
    best = best_of_rest(sizes, unranked, n, 1.0)
    depth = sizes.size + n + 2
    for size in sizes:
        depth += min(size, n)
    group_at, above_at, end_at = np.zeros(depth, np.int64), np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    sum_at, mass_at = np.zeros(depth), np.ones(depth)
    n_items = sizes.sum() + unranked
    found = nodes = 0
    pending = 1 if best[0, 0] >= least else 0
    while pending > 0:
        pending -= 1
        group, j, end, total, mass = (
            group_at[pending],
            above_at[pending],
            end_at[pending],
            sum_at[pending],
            mass_at[pending],
        )
        nodes += 1
        if nodes > most_nodes:
            return -1
        if group == sizes.size or j == n:
            sums[found], masses[found] = total, mass
            found += 1
            continue
        size = sizes[group]
        # Whether the group or the rest is drawn, the probabilities are the same.
        fewest, most = chances(n_items - end, n - j, size, probability)
        for c in range(fewest, most + 1):
            added = total + c * (j + c) / (end + size)
            if added + best[group + 1, j + c] >= least:
                group_at[pending], above_at[pending], end_at[pending] = group + 1, j + c, end + size
                sum_at[pending], mass_at[pending] = added, mass * probability[c]
                pending += 1
    return found


CACHE.publish()
