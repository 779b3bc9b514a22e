"""Weighted items as numbers that sort by score: NumPy sorts numbers several times faster than it ranks items.

A key holds, from the highest bit, 32 bits that order the scores, one for each class (positive, negative) of the item,
and its place. What is left out has the key 0, below all others.
"""

import numpy as np

from aucpr_dask.kernels.compiling import helper
from aucpr_dask.kernels.rankings.tie_groups import Classes, Ranking, two_sum

SCORE_BITS, CLASS_BITS = np.uint64(32), np.uint64(30)  # how many bits lie below those of the score, and the classes
PLACE = np.uint64(2**30 - 1)
SEGMENT = 1024
SIGN, ALL_BITS = np.uint32(2**31), np.uint32(2**32 - 1)
NEGATIVE, POSITIVE = 1, 2  # a soft label belongs to both classes
NEGATIVE_KEY, POSITIVE_KEY = np.uint64(NEGATIVE << 30), np.uint64(POSITIVE << 30)


@helper
def weighted_ranking(facts, positives, negatives, n_distinct):
    """Gather the facts of one ranking, and the weights of both classes."""
    return Ranking(Classes(positives, negatives, facts[4], facts[5]), 0.0, facts[3], facts[2], n_distinct)


@helper
def classes_of(classes, positive_weight, negative_weight):
    """Return those of its classes in which an item has a weight."""
    positive = classes & POSITIVE if positive_weight > 0.0 else 0
    negative = classes & NEGATIVE if negative_weight > 0.0 else 0
    return positive | negative


@helper
def sign_and_all_bits(keys):
    """Return the highest bit of the whole numbers in an array, and all their bits."""
    one = keys.dtype.type(1)
    sign = one << keys.dtype.type(8 * keys.itemsize - 1)
    return sign, sign | (sign - one)


@helper
def ascending_bits(bits, score, sign, all_bits):
    """Return a whole number that ascends as the scores do, from the bits of a float, of which `sign` is the highest."""
    pattern = bits if score != 0 else bits ^ bits  # -0 ties with 0
    # As whole numbers, the patterns of positive scores ascend; those of negative ones descend, above them.
    return pattern ^ (all_bits if pattern >= sign else sign)


@helper
def key_of(order, classes, i):
    """Join the bits of a key."""
    return (np.uint64(order) << SCORE_BITS) | (np.uint64(classes) << CLASS_BITS) | np.uint64(i)


@helper
def place_of(key):
    """Return the place of the item of a key."""
    return key & PLACE


@helper
def first_kept(keys):
    """Return the place of the first key that is not 0."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) // 2
        if keys[middle] == 0:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def groups_of_keys(keys, positive_weight, negative_weight, all_groups, groups):
    """Fill `groups` from sorted keys; with `all_groups`, also with those that hold no positive.

    Return their number, that of all tie groups, and the weights of both classes.
    """
    gain, loss, is_lowest = np.empty(SEGMENT), np.empty(SEGMENT), np.empty(SEGMENT, np.bool_)
    state = np.zeros(6)
    n_kept = n_groups = 0
    first = first_kept(keys)
    end = keys.size
    while end > first:
        start = max(first, end - SEGMENT)
        for j in range(end - start):  # weights are far apart in memory: fetched together, their latencies overlap
            i = start + j
            key = keys[i]
            # Both are loaded, and one is set to 0: without branches, random labels cost nothing.
            positive, negative = positive_weight[place_of(key)], negative_weight[place_of(key)]
            gain[j] = positive if key & POSITIVE_KEY else 0.0
            loss[j] = negative if key & NEGATIVE_KEY else 0.0
            is_lowest[j] = i == 0 or (keys[i - 1] ^ key) >> SCORE_BITS > 0
        n_kept, n_groups = add_items(gain, loss, is_lowest, end - start, all_groups, groups, state, n_kept, n_groups)
        end = start
    return n_kept, n_groups, state[4], state[5]


@helper
def add_items(gain, loss, is_lowest, n_items, all_groups, groups, state, n_kept, n_groups):
    """Add the weights of items in ascending order, from the last, and fill the tie groups that end at the lowest ones.

    `state` has the weights of positives and negatives so far, each with its error, and those of whole tie groups.
    """
    gained, gained_error, lost, lost_error = state[0], state[1], state[2], state[3]
    positives, negatives = state[4], state[5]
    kept = np.uint64(n_kept)
    for j in range(n_items - 1, -1, -1):
        gained, gained_error = two_sum(gained, gained_error, gain[j])
        lost, lost_error = two_sum(lost, lost_error, loss[j])
        if is_lowest[j]:
            before, positives = positives, gained + gained_error
            groups.positives[kept] = positives
            groups.above[kept] = negatives
            negatives = lost + lost_error
            groups.at[kept] = negatives
            kept += np.uint64(all_groups | (positives > before))
            n_groups += 1
    state[0], state[1], state[2], state[3] = gained, gained_error, lost, lost_error
    state[4], state[5] = positives, negatives
    return np.int64(kept), n_groups


@helper
def class_of_keys(keys, class_key, score, weight):
    """Return the scores of one class in ascending order, and their weights."""
    scores, weights = np.empty(keys.size + 1), np.empty(keys.size + 1)
    n = 0
    for key in keys:
        scores[n], weights[n] = score[place_of(key)], weight[place_of(key)]
        n += (key & class_key) > 0
    return scores[:n], weights[:n]
