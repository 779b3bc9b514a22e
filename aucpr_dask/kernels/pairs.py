"""Compiled loops over many replicates of models and of their pairs; `inference.replicates` has their bits.

Innermost loops run over replicates, so they compile to vector instructions without changing any order. A block of
replicates of thousands of models stays in a core's cache.
"""

from __future__ import annotations

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import F8, I8, U8, helper, kernel, row_of, rows_of

BLOCK, WORD = 512, 64  # terms or replicates at a time, signs in a word
WORDS = types.Array(U8, 2, "C", readonly=True)


@helper
def folded(terms, size):
    """Return the sum of the first terms of a block: its halves added, and theirs; overwrites the block."""
    half = BLOCK // 2
    while half >= size and half > 1:
        half //= 2
    terms[size : 2 * half] = 0.0
    while half:
        for i in range(half):
            terms[i] += terms[i + half]
        half //= 2
    return terms[0]


@kernel(types.void(rows_of(F8), WORDS, I8, I8, F8[:, ::1]))
def add_flipped(values, words, start, stop, sums):
    """Add to the sums (M, R) the values (M, U) with the signs of the words `start` to `stop` of each unit (U, W)."""
    part = np.empty((stop - start) * WORD)
    n = min(stop * WORD, sums.shape[1]) - start * WORD
    for model in range(values.shape[0]):
        part[:n] = sums[model, start * WORD : start * WORD + n]
        for unit in range(values.shape[1]):
            plus = values[model, unit]
            minus = -plus
            for w in range(stop - start):
                word = words[unit, start + w]
                for lane in range(WORD):
                    is_minus = (word >> np.uint64(lane)) & np.uint64(1)
                    part[w * WORD + lane] += minus if is_minus else plus
        sums[model, start * WORD : start * WORD + n] = part[:n]


@kernel(types.void(rows_of(F8), rows_of(I8), I8, I8, F8[:, ::1]))
def add_drawn(values, draws, start, stop, sums):
    """Set the sums (M, R) of the values (M, Q) of the units that the replicates `start` to `stop` draw (R, Q)."""
    n_units = values.shape[1]
    count, terms = np.empty(n_units, np.int32), np.empty(BLOCK)
    for replicate in range(start, stop):
        count[:] = 0
        for unit in draws[replicate]:
            count[unit] += 1
        for model in range(values.shape[0]):
            total = 0.0
            for first in range(0, n_units, BLOCK):
                size = min(BLOCK, n_units - first)
                row, weight = values[model, first : first + size], count[first : first + size]
                for i in range(size):
                    terms[i] = row[i] * weight[i]
                total += folded(terms, size)
            sums[model, replicate] = total


@kernel(types.void(rows_of(F8), row_of(I8), row_of(I8), I8, I8, F8[::1]))
def squares(values, first, second, start, stop, sums):
    """Set the sums of the squared differences of the rows of the pairs `start` to `stop`."""
    terms = np.empty(BLOCK)
    for block in range(0, values.shape[1], BLOCK):
        size = min(BLOCK, values.shape[1] - block)
        for p in range(start, stop):
            one, other = values[first[p], block : block + size], values[second[p], block : block + size]
            for i in range(size):
                terms[i] = (one[i] - other[i]) * (one[i] - other[i])
            total = folded(terms, size)
            sums[p] = total if block == 0 else sums[p] + total


@kernel(types.void(rows_of(F8), row_of(F8), row_of(I8), row_of(I8), I8, I8, I8[::1], F8[::1], F8[::1]))
def apart(values, resolution, first, second, start, stop, n_apart, least, most):
    """Count the units on which the models of the pairs `start` to `stop` differ; the least and largest of these."""
    for p in range(start, stop):
        j, k = first[p], second[p]
        limit = resolution[j] + resolution[k]
        n, low, high = 0, np.inf, 0.0
        for unit in range(values.shape[1]):
            size = abs(values[j, unit] - values[k, unit])
            differs = size > limit
            n += differs
            low = min(low, size if differs else np.inf)
            high = max(high, size if differs else 0.0)
        n_apart[p], least[p], most[p] = n, low, high


@kernel(
    types.void(
        *(rows_of(F8), row_of(F8), row_of(F8), row_of(I8), row_of(I8), row_of(F8), row_of(F8)),
        *(types.boolean, I8, I8, F8[::1], I8[::1]),
    )
)
def tally(centred, shift, inverse, first, second, lower, upper, is_cumulative, start, stop, maximum, counts):
    """Raise the maxima of the replicates `start` to `stop` to the sizes of all pairs, and count what attains each.

    Both the sizes that attain `lower` and those that attain `upper`; or, if cumulative, the maxima so far.
    """
    for block in range(start, stop, BLOCK):
        size = min(BLOCK, stop - block)
        largest = maximum[block : block + size].copy()
        for p in range(first.size):
            one, other = centred[first[p], block : block + size], centred[second[p], block : block + size]
            offset, factor, low, high = shift[p], inverse[p], lower[p], upper[p]
            n = 0
            if is_cumulative:
                for i in range(size):
                    value = abs(one[i] - other[i] + offset) * factor
                    value = value if value > largest[i] else largest[i]
                    largest[i] = value
                    n += np.int64(value >= low) + np.int64(value >= high)
            else:
                for i in range(size):
                    value = abs(one[i] - other[i] + offset) * factor
                    largest[i] = value if value > largest[i] else largest[i]
                    n += np.int64(value >= low) + np.int64(value >= high)
            counts[p] += n
        maximum[block : block + size] = largest


@kernel(types.void(rows_of(F8), row_of(F8), row_of(F8), I8, I8, F8[:, ::1]))
def maxima(centred, bias, inverse, start, stop, maximum):
    """Raise the maxima (M, R) of the replicates `start` to `stop` of each model to the sizes of all its pairs."""
    n_models = centred.shape[0]
    for block in range(start, stop, BLOCK):
        size = min(BLOCK, stop - block)
        p = 0
        for j in range(n_models):
            one, mine = centred[j, block : block + size], maximum[j, block : block + size]
            for k in range(j + 1, n_models):
                other, theirs = centred[k, block : block + size], maximum[k, block : block + size]
                offset, factor = bias[j] - bias[k], inverse[p]
                for i in range(size):
                    value = abs(one[i] - other[i] + offset) * factor
                    mine[i] = value if value > mine[i] else mine[i]
                    theirs[i] = value if value > theirs[i] else theirs[i]
                p += 1


@kernel(types.void(rows_of(F8), row_of(F8), row_of(F8), row_of(I8), row_of(I8), F8, I8, I8, I8, F8[::1]))
def largest(centred, shift, inverse, first, second, least, rank, start, stop, found):
    """Find the size of each pair from `start` to `stop` that is the number `rank` from the top; NaN where it is not.

    Only sizes from `least` on are looked at, and about twice as many as there should be.
    """
    room = 2 * rank + 2 * BLOCK
    kept, n_kept, sizes = np.empty((stop - start, room)), np.zeros(stop - start, np.int64), np.empty(BLOCK)
    for block in range(0, centred.shape[1], BLOCK):
        size = min(BLOCK, centred.shape[1] - block)
        for p in range(start, stop):
            one, other = centred[first[p], block : block + size], centred[second[p], block : block + size]
            offset, factor = shift[p], inverse[p]
            for i in range(size):
                sizes[i] = abs(one[i] - other[i] + offset) * factor
            n, row = n_kept[p - start], kept[p - start]
            if n + size <= room:
                for i in range(size):
                    row[n] = sizes[i]
                    n += np.int64(sizes[i] >= least)
                n_kept[p - start] = n
            else:
                n_kept[p - start] = room + 1
    for p in range(start, stop):
        n = n_kept[p - start]
        found[p] = np.partition(kept[p - start, :n], n - rank)[n - rank] if rank <= n <= room else np.nan
