"""Weighted items as numbers that sort by score: NumPy sorts numbers several times faster than it ranks items.

A key holds, from the highest bit, 32 bits that order the scores, the class of the item and its place (31 bits).
What is left out has the key 0, below all others.
"""

import numpy as np

from aucpr_dask.kernels.compiling import helper
from aucpr_dask.kernels.finishing import Ranking
from aucpr_dask.kernels.ranking import Classes, two_sum

SCORE_BITS, CLASS_BITS = np.uint64(32), np.uint64(31)  # how many bits lie below those of the score, and of the class
PLACE = np.uint64(2**31 - 1)
ONE = np.uint64(1)


@helper
def weighted_ranking(facts, positives, negatives, n_distinct):
    """Gather what is known of one ranking: the facts of its items, and the weights of both classes."""
    classes = Classes(positives, negatives, facts[3], facts[4])
    return Ranking(classes, 0.0, facts[2], facts[0] + facts[1], n_distinct)


@helper
def key_of(order, is_positive, i):
    """Join the bits of a key."""
    return (np.uint64(order) << SCORE_BITS) | (np.uint64(is_positive) << CLASS_BITS) | np.uint64(i)


@helper
def blocks_of_keys(keys, weight, all_blocks, blocks):
    """Fill `blocks` from sorted keys; with `all_blocks`, also with those that hold no positive.

    Return how many these are, how many blocks there are in all, and the weights of both classes.
    """
    n_kept = np.uint64(0)
    n_blocks = 0
    gained = gained_error = lost = lost_error = 0.0
    positives = negatives = 0.0
    i = np.uint64(keys.size)
    while i > 0 and keys[i - ONE] > 0:
        i -= ONE
        key = keys[i]
        # Both classes are added to, one of them 0: without branches, random labels cost nothing.
        mass = weight[key & PLACE]
        gain = mass if (key >> CLASS_BITS) & ONE else 0.0
        gained, gained_error = two_sum(gained, gained_error, gain)
        lost, lost_error = two_sum(lost, lost_error, mass - gain)
        if i == 0 or (keys[i - ONE] ^ key) >> SCORE_BITS > 0:
            before, positives = positives, gained + gained_error
            blocks.positives[n_kept] = positives
            blocks.above[n_kept] = negatives
            negatives = lost + lost_error
            blocks.at[n_kept] = negatives
            n_kept += np.uint64(all_blocks | (positives > before))
            n_blocks += 1
    return np.int64(n_kept), n_blocks, positives, negatives


@helper
def class_of_keys(keys, score, weight, is_positive):
    """Return the scores of one class in ascending order, and their weights."""
    scores, weights = np.empty(keys.size), np.empty(keys.size)
    n = 0
    for key in keys:
        i = key & PLACE
        scores[n], weights[n] = score[i], weight[i]
        n += key > 0 and (key >> CLASS_BITS) & ONE == is_positive
    return scores[:n], weights[:n]
