"""Random numbers without state: each is a function of a key and a counter.

The generator is Philox4x32 with ten rounds (Salmon et al. 2011, doi:10.1145/2063384.2063405). Its key identifies a
ranking's data, its counter a resample and a place in it, so no number depends on what was drawn before it, or where.
"""

from __future__ import annotations

import math

import numpy as np

from aucpr_dask.kernels.compiling import helper

WORDS = 1024  # random words made at a time
LANES = 64  # consecutive resamples that are drawn and evaluated side by side
NEGATIVES, POSITIVES, UNITS = 0, 1, 2  # strata: one stream each

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@helper
def fill_words(key, resample, stratum, first, n_counters, words):
    """Fill the quarters of `words`, each up to `n_counters`, with the four random words of counters from `first` on."""
    quarter = np.uint64(words.size // 4)
    key_0, key_1 = key & LOW, key >> HALF
    for counter in range(n_counters):
        i = np.uint64(counter)
        x0 = first + i
        x1, x2, x3 = x0 >> HALF, resample, stratum
        x0 &= LOW
        k0, k1 = key_0, key_1
        for _ in range(10):
            product_0, product_1 = x0 * _MULTIPLIERS[0], x2 * _MULTIPLIERS[1]
            x0 = (product_1 >> HALF) ^ x1 ^ k0
            x1 = product_1 & LOW
            x2 = (product_0 >> HALF) ^ x3 ^ k1
            x3 = product_0 & LOW
            k0 = (k0 + _WEYL[0]) & LOW
            k1 = (k1 + _WEYL[1]) & LOW
        words[i] = x0
        words[quarter + i] = x1
        words[np.uint64(2) * quarter + i] = x2
        words[np.uint64(3) * quarter + i] = x3


@helper
def draw_dirichlet(key, resample, stratum, words, weight):
    """Write exponential weights, scaled so that they add up to their number: n times a flat Dirichlet draw."""
    n = weight.size
    half = words.size // 2
    total = 0.0
    first = np.uint64(0)
    for start in range(0, n, half):
        fill_words(key, resample, stratum, first, words.size // 4, words)
        first += np.uint64(words.size // 4)
        for i in range(min(half, n - start)):
            bits = (np.uint64(words[i]) << np.uint64(20)) | (np.uint64(words[half + i]) >> np.uint64(12))
            weight[start + i] = -math.log((bits + 0.5) * 2.0**-52)
            total += weight[start + i]
    for i in range(n):
        weight[i] *= n / total
