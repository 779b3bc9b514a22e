"""Compiled loops over many replicates of models and of their pairs; `inference.units` has their bits.

Innermost loops run over replicates, so they compile to vector instructions without changing any order. Pairs
come in tiles of few models, whose blocks of replicates stay in a core's cache.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import F8, I8, U8, helper, kernel, row_of, rows_of

BLOCK, WORD = 512, 64  # terms or replicates at a time, signs in a word
SIZES, LANES = 1024, 128  # of a pair at a time, in rows of lanes: 4 % faster than 512 and 64
TILE, AT_ONCE, NARROW = 16, 256, 128  # models; pairs that share them; replicates of pairs that share none
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


@kernel(types.void(rows_of(F8), row_of(I8), row_of(I8), row_of(I8), I8, I8, F8[::1]))
def squares(values, first, second, order, start, stop, sums):
    """Set the sums of the squared differences of the rows of the pairs `start` to `stop` of an order."""
    terms = np.empty(BLOCK)
    for begin in range(start, stop, AT_ONCE):
        some = order[begin : min(begin + AT_ONCE, stop)]
        for block in range(0, values.shape[1], BLOCK):
            size = min(BLOCK, values.shape[1] - block)
            for p in some:
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


@helper
def sizes_in(one, other, offset, factor, sizes, largest):
    """Set the sizes of the differences of a block, and raise the largest to them."""
    for i in range(one.size):
        value = abs(one[i] - other[i] + offset) * factor
        sizes[i] = value
        largest[i] = abs(max(largest[i], value))  # abs: some processors take long for stores that depend on a condition


@helper
def numbers_from(sizes, low, high):
    """Count the sizes that attain one bound, and those that attain another."""
    n_low, n_high = 0, 0
    for i in range(sizes.size):
        n_low += np.int64(sizes[i] >= low)
        n_high += np.int64(sizes[i] >= high)
    return n_low, n_high


@helper
def add_within(sizes, middle, margin, nearest, lanes, kept, n_kept):
    """Append the sizes within a margin of a middle to those that are kept; return how many these are, and lie above.

    They are few, so most lanes of a block have none and are passed over. What is found is written, and stays if it
    counts: which lanes and sizes do is random, and processors take long for branches that they cannot foresee.
    """
    n_above = 0
    for lane in range(LANES):
        distance = np.inf
        for row in range(SIZES // LANES):
            beyond = sizes[row * LANES + lane] - middle
            n_above += np.int64(beyond > margin)
            distance = min(distance, abs(beyond))
        nearest[lane] = distance
    n_lanes, n = np.uint64(0), np.uint64(n_kept)
    for lane in range(LANES):
        lanes[n_lanes] = lane
        n_lanes += np.uint64(nearest[lane] <= margin)
    for i in range(np.int64(n_lanes)):
        lane = np.uint64(lanes[i])
        for row in range(SIZES // LANES):
            size = sizes[np.uint64(row * LANES) + lane]
            kept[n] = size
            n += np.uint64(abs(size - middle) <= margin)
    return np.int64(n), n_above


@helper
def number_up_to(values, most):
    """Count the values up to `most`."""
    n = 0
    for i in range(values.size):
        n += np.int64(values[i] <= most)
    return n


@helper
def value_at(values, place, low, high):
    """Return the positive value at a place, counted from 0 and the smallest on; all lie between two bounds.

    It is enclosed by bisection: counts compile to vector instructions, and partitions do not.
    """
    n_low, n_high = 0, values.size  # up to the bounds
    while n_high - n_low > 1:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        n = number_up_to(values, middle)
        if n <= place:
            low, n_low = middle, n
        else:
            high, n_high = middle, n
    found = 0.0
    for i in range(values.size):
        found = max(found, values[i] if values[i] <= high else 0.0)
    return found


@kernel(
    types.void(
        *(rows_of(F8), row_of(F8), row_of(F8), row_of(I8), row_of(I8), row_of(I8), row_of(I8), row_of(F8), row_of(F8)),
        *(I8, F8, F8, I8, I8, F8[:, ::1], I8[:, ::1], F8[::1]),
    )
)
def tally(
    centred,
    shift,
    inverse,
    first,
    second,
    order,
    family,
    lower,
    upper,
    rank,
    typical,
    margin,
    start,
    stop,
    maxima,
    counts,
    found,
):
    """Compute the sizes of the pairs `start` to `stop` of an order: maxima of families, counts, order statistics.

    If there is room for counts, count the sizes that attain `lower`, and those that attain `upper`. If `rank` is not 0,
    find the size of this number from the top: among those within a margin of what other pairs have or, where it is not,
    among all.
    """
    n_replicates = centred.shape[1]
    most_kept = int(16 * math.sqrt(n_replicates))
    kept, sizes, nearest = np.empty((AT_ONCE, most_kept + SIZES)), np.empty(SIZES), np.empty(LANES)
    lanes = np.empty(LANES + 1, np.int64)
    n_kept, n_above = np.empty(AT_ONCE, np.int64), np.empty(AT_ONCE, np.int64)
    middle, within = typical, 3 * margin
    for begin in range(start, stop, AT_ONCE):
        some = order[begin : min(begin + AT_ONCE, stop)]
        n_kept[:] = 0
        n_above[:] = 0
        for block in range(0, n_replicates, SIZES):
            end = min(block + SIZES, n_replicates)
            of_block = sizes[: end - block]
            sizes[end - block :] = -1.0
            for q in range(some.size):
                p = some[q]
                of_pair = centred[first[p], block:end], centred[second[p], block:end], shift[p], inverse[p]
                sizes_in(*of_pair, of_block, maxima[family[p], block:end])
                if counts.size:
                    n_low, n_high = numbers_from(of_block, lower[p], upper[p])
                    counts[p, 0] += n_low
                    counts[p, 1] += n_high
                if rank and n_kept[q] < most_kept:
                    n_kept[q], n_here = add_within(sizes, middle, within, nearest, lanes, kept[q], n_kept[q])
                    n_above[q] += n_here
        if rank:
            for q in range(some.size):
                p, n, place = some[q], n_kept[q], n_kept[q] + n_above[q] - rank
                if 0 <= place < n < most_kept:
                    found[p] = value_at(kept[q, :n], place, middle - 2 * within, middle + 2 * within)
                else:
                    every = np.abs(centred[first[p]] - centred[second[p]] + shift[p]) * inverse[p]
                    found[p] = np.partition(every, n_replicates - rank)[n_replicates - rank]
            middle, within = np.median(found[some]), margin


@kernel(
    types.void(
        *(rows_of(F8), row_of(F8), row_of(F8), row_of(I8), row_of(I8), row_of(F8), row_of(F8)),
        *(I8, I8, F8[::1], I8[::1]),
    )
)
def step_up(centred, shift, inverse, first, second, lower, upper, start, stop, maximum, counts):
    """Raise the maxima of the replicates `start` to `stop` by one pair after the other, and count after each.

    Both the maxima that attain the pair's `lower` and those that attain its `upper`.
    """
    for block in range(start, stop, NARROW):
        end = min(block + NARROW, stop)
        largest = maximum[block:end].copy()
        for p in range(first.size):
            one, other = centred[first[p], block:end], centred[second[p], block:end]
            offset, factor, low, high = shift[p], inverse[p], lower[p], upper[p]
            n = 0
            for i in range(one.size):
                value = max(largest[i], abs(one[i] - other[i] + offset) * factor)
                largest[i] = abs(value)
                n += np.int64(value >= low) + np.int64(value >= high)
            counts[p] += n
        maximum[block:end] = largest


@kernel(types.void(rows_of(F8), row_of(F8), row_of(F8), I8, I8, F8[:, ::1]))
def maxima(centred, bias, inverse, start, stop, maximum):
    """Raise the maxima (M, R) of the replicates `start` to `stop` of each model to the sizes of all its pairs."""
    n_models = centred.shape[0]
    for block in range(start, stop, BLOCK):
        end = min(block + BLOCK, stop)
        for rows in range(0, n_models, TILE):
            for columns in range(rows, n_models, TILE):
                for j in range(rows, min(rows + TILE, n_models)):
                    before = j * (2 * n_models - j - 3) // 2 - 1  # the pair (j, k) is number `before` + k
                    for k in range(max(columns, j + 1), min(columns + TILE, n_models)):
                        one, other = centred[j, block:end], centred[k, block:end]
                        mine, theirs = maximum[j, block:end], maximum[k, block:end]
                        offset, factor = bias[j] - bias[k], inverse[before + k]
                        for i in range(one.size):
                            value = abs(one[i] - other[i] + offset) * factor
                            mine[i] = abs(max(mine[i], value))
                            theirs[i] = abs(max(theirs[i], value))
