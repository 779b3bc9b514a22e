"""Random resamples: how often each unit is drawn in `LANES` consecutive resamples side by side.

Random numbers have no state: each is a function of a key and a counter. The generator is Philox4x32 with ten rounds
(Salmon et al. 2011, doi:10.1145/2063384.2063405). Its key identifies a ranking's data, its counter a resample and a
place in it, so no number depends on what was drawn before it, or where.

Given their sum, independent Poisson counts are distributed like so many draws with replacement. So each unit's count is
drawn by itself, in the order of memory, with a mean a little below 1. The few draws that a resample then lacks are made
one by one; and of the few that it may have too many, any is as likely as another to be taken back.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from aucpr_dask.kernels.compiling import I8, U1, U8, helper, kernel, row_of
from aucpr_dask.kernels.numba_private import trailing_zeros

WORDS = 1024  # random words made at a time
LANES = 64  # consecutive resamples that are drawn and evaluated side by side
NEGATIVES, POSITIVES, UNITS = 0, 1, 2  # strata: one stream each
FIRST_BITS, FURTHER_BITS, ONE_BY_ONE = 0, 8, 16  # added to a stratum: a random stream each

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)

BITS = 40  # to which the probabilities of a Poisson count are exact; its first byte usually decides
LIMIT = 16  # a Poisson count is below: the probability that it is not is below 2^-BITS
TOPS = 4  # numbers below which a Poisson count decides by its first byte
IN_A_BYTE = 16  # Poisson counts whose sum fits into a byte
LEFT = tuple(Fraction(4 - i % 2, 4 << i // 2) for i in range(50))  # shares to draw one by one: 1, 3/4, 1/2, 3/8
DEVIATIONS = 2.0  # of the sum of the Poisson counts, by which it is below the number of units at least

_BYTE, _WORD, _LANES_OF_BYTES = ir.IntType(8), ir.IntType(64), ir.VectorType(ir.IntType(8), LANES)


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


def poisson_thresholds(mean: Fraction) -> list[int]:
    """Return the probabilities that a Poisson count is below 1, 2, ... `LIMIT`, in units of 2^-BITS, the last as 1."""
    one = 1 << 100  # whole numbers, so that every machine gets the same
    terms = [one]
    while terms[-1]:
        terms.append(int(terms[-1] * mean / len(terms)))
    return [sum(terms[:k]) * (1 << BITS) // sum(terms) for k in range(1, LIMIT)] + [1 << BITS]


THRESHOLDS = np.array([poisson_thresholds(1 - left) for left in LEFT], np.uint64)
SHARE_LEFT = np.array(LEFT, np.float64)


@intrinsic
def count_by_first_bytes(typing_context, source, start, tops, count, row):
    """Write how many of `TOPS` numbers each of `LANES` bytes exceeds; return the lanes in which more bits must decide.

    These are the bits of the lanes whose byte equals one of the numbers, or 255.
    """
    signature = U8(source, U8, tops, count, U8)

    def generate(context, builder, signature, arguments):
        def data_of(place):
            return context.make_array(signature.args[place])(context, builder, arguments[place]).data

        def load_lanes(pointer):
            return builder.load(builder.bitcast(pointer, _LANES_OF_BYTES.as_pointer()), align=1)

        def in_all_lanes(byte):
            one = builder.insert_element(ir.Constant(_LANES_OF_BYTES, ir.Undefined), byte, ir.IntType(32)(0))
            return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))

        byte = load_lanes(builder.gep(data_of(0), [arguments[1]]))
        total = ir.Constant(_LANES_OF_BYTES, None)
        unsure = builder.icmp_unsigned("==", byte, in_all_lanes(_BYTE(255)))
        for i in range(TOPS):
            top = in_all_lanes(builder.load(builder.gep(data_of(2), [_WORD(i)])))
            total = builder.sub(total, builder.sext(builder.icmp_unsigned(">", byte, top), _LANES_OF_BYTES))
            unsure = builder.or_(unsure, builder.icmp_unsigned("==", byte, top))
        place = builder.gep(data_of(3), [builder.mul(arguments[4], _WORD(LANES))])
        builder.store(total, builder.bitcast(place, _LANES_OF_BYTES.as_pointer()), align=1)
        return builder.bitcast(unsure, _WORD)

    return signature, generate


@helper
def draw_poisson(key, block, stratum, threshold, words, further, count, total):
    """Draw the count of each unit (row) in each resample of a block (lanes), and add them up to `total`."""
    tops = np.empty(TOPS, np.uint8)
    for i in range(TOPS):
        tops[i] = min(threshold[i] >> np.uint64(32), np.uint64(255))
    byte = words.view(np.uint8)
    part = np.empty(LANES, np.uint8)
    n_units = count.shape[0]
    at_once = words.size // (LANES // 4)
    n_counters, used = np.uint64(0), further.size
    for start in range(0, n_units, at_once):
        stop = min(start + at_once, n_units)
        n_here = (stop - start + 3) // 4 * (LANES // 4)  # consecutive units have their bytes in the four parts of words
        fill_words(key, block, stratum, np.uint64(start // at_once * (words.size // 4)), n_here, words)
        for first in range(start, stop, IN_A_BYTE):
            part[:] = 0
            for row in range(first, min(first + IN_A_BYTE, stop)):
                i = row - start
                place = np.uint64((i % 4) * words.size + i // 4 * LANES)
                unsure = count_by_first_bytes(byte, place, tops, count, np.uint64(row))
                while unsure:
                    lane = trailing_zeros(unsure)
                    unsure &= unsure - np.uint64(1)
                    if used == further.size:
                        fill_words(
                            key, block, stratum + np.uint64(FURTHER_BITS), n_counters, further.size // 4, further
                        )
                        n_counters += np.uint64(further.size // 4)
                        used = 0
                    value = (np.uint64(byte[place + lane]) << np.uint64(32)) | np.uint64(further[used])
                    used += 1
                    n = np.uint64(0)
                    while value >= threshold[n]:
                        n += np.uint64(1)
                    count[np.uint64(row), lane] = n
                here = count[np.uint64(row)]
                for lane in range(LANES):
                    part[lane] += here[np.uint64(lane)]
            for lane in range(LANES):
                total[lane] += part[lane]


@helper
def complete(key, block, stratum, words, count, total):
    """Draw units, or take draws back, until every resample has as many draws as there are units.

    A word w becomes the unit floor(w n / 2^32); the few words that would favour a unit are skipped (Lemire 2019,
    doi:10.1145/3230636), so that every unit is equally likely. A draw of it is taken back with a probability of its
    count over `LIMIT`.
    """
    n = np.uint64(count.shape[0])
    favoured = (np.uint64(1) << HALF) % n
    n_counters, used = np.uint64(0), words.size
    is_complete = False
    while not is_complete:
        is_complete = True
        for lane in range(LANES):
            lacking = np.int64(n) - total[lane]
            if lacking == 0:
                continue
            is_complete = False
            if used + 1 >= words.size:
                fill_words(key, block, stratum, n_counters, words.size // 4, words)
                n_counters += np.uint64(words.size // 4)
                used = 0
            word = np.uint64(words[used])
            used += 1
            unit = (word * n) >> HALF
            if ((word * n) & LOW) < favoured:
                continue
            if lacking > 0:
                count[unit, np.uint64(lane)] += 1
                total[lane] += 1
            else:
                if words[used] // (2**32 // LIMIT) < count[unit, np.uint64(lane)]:
                    count[unit, np.uint64(lane)] -= 1
                    total[lane] -= 1
                used += 1


@kernel(types.void(U8, I8, row_of(I8), row_of(I8), U1[:, ::1]))
def draw_counts(key, first, size, stratum, count):
    """Fill the lanes of every unit with how often resamples `first`, `first` + 1, ... draw it; strata separately.

    `first` is a multiple of `LANES`.
    """
    words, further = np.empty(WORDS, np.uint32), np.empty(WORDS, np.uint32)
    total = np.empty(LANES, np.int64)
    block = np.uint64(first // LANES)
    start = 0
    for s in range(size.size):
        n = size[s]
        if n == 0:
            continue
        units, stream = count[start : start + n], np.uint64(stratum[s])
        total[:] = 0
        # The fewer are left to draw one by one, the faster; but taking back more than a few draws takes longer.
        i = 0
        while i + 1 < SHARE_LEFT.size and SHARE_LEFT[i + 1] * np.sqrt(n) >= DEVIATIONS:
            i += 1
        draw_poisson(key, block, stream, THRESHOLDS[i], words, further, units, total)
        complete(key, block, stream + np.uint64(ONE_BY_ONE), words, units, total)
        start += n
