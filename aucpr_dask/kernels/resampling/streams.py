"""Random numbers without state: each is a function of a key and a counter.

The generator is Philox4x32 with ten rounds (Salmon et al. 2011, doi:10.1145/2063384.2063405). Its key identifies a
ranking's data, its counter a resample and a place in it, so no number depends on what was drawn before it, or where.
"""

from __future__ import annotations

import math

import numpy as np

from aucpr_dask.kernels.compiling import helper

WORDS = 1024  # random words made at a time
NEGATIVES, POSITIVES, UNITS = 0, 1, 2  # strata: one stream each

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@helper
def fill_words(key, resample, stratum, first, n_counters, words):
    """Fill the quarters of `words`, each up to `n_counters`, with the four random words of counters from `first` on."""
    quarter = np.uint64(words.size // 4)
    key_0, key_1 = key & _LOW, key >> _HALF
    for counter in range(n_counters):
        i = np.uint64(counter)
        x0 = first + i
        x1, x2, x3 = x0 >> _HALF, resample, stratum
        x0 &= _LOW
        k0, k1 = key_0, key_1
        for _ in range(10):
            product_0, product_1 = x0 * _MULTIPLIERS[0], x2 * _MULTIPLIERS[1]
            x0 = (product_1 >> _HALF) ^ x1 ^ k0
            x1 = product_1 & _LOW
            x2 = (product_0 >> _HALF) ^ x3 ^ k1
            x3 = product_0 & _LOW
            k0 = (k0 + _WEYL[0]) & _LOW
            k1 = (k1 + _WEYL[1]) & _LOW
        words[i] = x0
        words[quarter + i] = x1
        words[np.uint64(2) * quarter + i] = x2
        words[np.uint64(3) * quarter + i] = x3


@helper
def draw_with_replacement(key, resample, stratum, words, count):
    """Draw as many units as `count` has, with replacement, and add 1 to the count of each.

    A word w becomes the unit floor(w n / 2^32); the few words that would favour a unit are skipped (Lemire 2019,
    doi:10.1145/3230636), so that every unit is equally likely.
    """
    n = np.uint64(count.size)
    if n == 0:
        return
    favoured = (np.uint64(1) << _HALF) % n
    quarter = words.size // 4
    left = count.size
    first = np.uint64(0)
    while left > 0:
        wanted = min(left, words.size)
        fill_words(key, resample, stratum, first, min(wanted, quarter), words)
        if not _favours(words, wanted, n, favoured):
            for i in range(wanted):
                count[(np.uint64(words[i]) * n) >> _HALF] += 1
            left -= wanted
        else:
            fill_words(key, resample, stratum, first, quarter, words)
            left -= _draw_fairly(words, n, favoured, left, count)
        first += np.uint64(quarter)


@helper
def _favours(words, n_words, n, favoured):
    """Return whether one of the words must be skipped; a separate loop, which compiles to vector instructions."""
    passed_over = 0
    for i in range(n_words):
        passed_over += ((np.uint64(words[i]) * n) & _LOW) < favoured
    return passed_over > 0


@helper
def _draw_fairly(words, n, favoured, left, count):
    """Draw up to `left` units, word by word, and return how many were drawn."""
    drawn = 0
    for i in range(words.size):
        product = np.uint64(words[i]) * n
        if (product & _LOW) >= favoured:
            count[product >> _HALF] += 1
            drawn += 1
            if drawn == left:
                break
    return drawn


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
