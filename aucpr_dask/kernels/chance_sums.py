"""The sums of precisions of all orders of the labels of one ranking: on a lattice, or the largest one by one.

The distribution takes one step for each tie group, from the lowest score up. A state is the number of positives above,
and the sum of precisions below, in cells. What a tie group adds is rounded to the nearest cell, so probabilities are
exact but for round-off, and those of a sum are off by its rounding errors. These rarely add up: their moment generating
function is computed along, and bounds how likely they exceed any value.
"""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import helper, kernel
from aucpr_dask.kernels.options import F8, I8, row_of

RATES = 2.0 ** np.arange(-5, 4)  # of the moment generating functions, per cell; each is twice the one before
N_RATES, LOWEST_RATE = RATES.size, RATES[0]


@helper
def chances(within, positives, size, out):
    """Fill `out` with the probabilities that c of the last `size` of `within` items are positive; return their range.

    They are hypergeometric. From the most likely number, each follows from the one next to it: nothing cancels.
    """
    others = within - size
    fewest, most = max(0, positives - others), min(positives, size)
    likely = min(max((positives + 1) * (size + 1) // (within + 2), fewest), most)
    out[likely] = total = 1.0
    for c in range(likely, most):
        out[c + 1] = out[c] * ((size - c) * (positives - c)) / ((c + 1) * (others - positives + c + 1))
        total += out[c + 1]
    for c in range(likely, fewest, -1):
        out[c - 1] = out[c] * (c * (others - positives + c)) / ((size - c + 1) * (positives - c + 1))
        total += out[c - 1]
    for c in range(fewest, most + 1):
        out[c] /= total
    return fewest, most


@helper
def add_shifted(source, target, low, high, shift, factor):
    """Add multiples of cells to others further up."""
    for i in range(low, high):
        target[i + shift] += factor * source[i]


@helper
def trimmed(row, low, high, least):
    """Clear cells at both ends that hold less than `least`; return the rest's ends, and the mass that is lost."""
    lost = 0.0
    while low < high and row[low] < least:
        lost += row[low]
        row[low] = 0.0
        low += 1
    while low < high and row[high - 1] < least:
        high -= 1
        lost += row[high]
        row[high] = 0.0
    return low, high, lost


@helper
def add_moments(moments, source, target, probability, error):
    """Multiply moment generating functions by that of one rounding error, forward and backward."""
    forward, backward = np.exp(LOWEST_RATE * error), np.exp(-LOWEST_RATE * error)
    for rate in range(N_RATES):
        moments[target, 0, rate] += probability * forward * moments[source, 0, rate]
        moments[target, 1, rate] += probability * backward * moments[source, 1, rate]
        forward *= forward
        backward *= backward


@kernel(types.UniTuple(F8, 3)(row_of(I8), I8, F8, F8, F8[:, ::1], F8[:, :, ::1]))
def spread(sizes, unranked, unit, least, mass, moments):
    """Fill row 0 of `mass` with the probability of each cell, and of `moments` with the functions of rounding errors.

    `sizes` are those of tie groups from the highest score, `unit` the cells that a precision of 1 adds. All rows but
    the last of both arrays start at 0. Return the mass that is lost, the largest error of a rounding, and the number of
    cells that were added.
    """
    n_cells = mass.shape[1]
    n = mass.shape[0] - 1
    probability = np.empty(n + 1)
    low, high = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    mass[n, 0], high[n] = 1.0, 1
    moments[n] = 1.0
    lost = largest = work = 0.0
    within = unranked + sizes.sum()
    for group in range(sizes.size, -1, -1):
        size, worth = unranked, 0.0
        if group < sizes.size:
            size, worth = sizes[group], unit / within
        for k in range(1, n + 1 if size > 0 else 0):
            if moments[k, 0, 0] == 0.0:
                continue
            fewest, most = chances(within, k, size, probability)
            low[k], high[k], dropped = trimmed(mass[k], low[k], high[k], least)
            lost += dropped
            for c in range(max(fewest, 1), most + 1):
                exact = worth * (c * k)
                shift = np.int64(np.rint(exact))
                largest = max(largest, abs(shift - exact))
                add_moments(moments, k, k - c, probability[c], shift - exact)
                if low[k] == high[k]:
                    continue
                end = max(low[k], min(high[k], n_cells - shift))
                for i in range(end, high[k]):
                    lost += probability[c] * mass[k, i]
                if low[k] < end:
                    add_shifted(mass[k], mass[k - c], low[k], end, shift, probability[c])
                    is_empty = low[k - c] == high[k - c]
                    low[k - c] = low[k] + shift if is_empty else min(low[k - c], low[k] + shift)
                    high[k - c] = max(high[k - c], end + shift)
                work += end - low[k]
            stays = probability[0] if fewest == 0 else 0.0
            moments[k] *= stays
            for i in range(low[k], high[k]):
                mass[k, i] *= stays
            if stays == 0.0:
                low[k] = high[k] = 0
        within -= size
    return lost, largest, work


@kernel(types.void(row_of(F8), row_of(F8), F8[::1]))
def convolve(first, second, out):
    """Fill `out`, which starts at 0, with the distribution of a sum; every term is positive, so nothing cancels."""
    for i in range(first.size):
        if first[i] > 0.0:
            add_shifted(second, out, 0, second.size, i, first[i])


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


@kernel(F8(row_of(I8), I8, I8))
def least_sum(sizes, unranked, n):
    """Return the sum of precisions of the worst order."""
    return -best_of_rest(sizes, unranked, n, -1.0)[0, 0]


@kernel(types.int64(row_of(I8), I8, I8, F8, I8, F8[::1], F8[::1]))
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
        group, j, end = group_at[pending], above_at[pending], end_at[pending]
        total, mass = sum_at[pending], mass_at[pending]
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
