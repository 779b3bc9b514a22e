"""Three passes of a sort by digits, from the lowest."""

import numpy as np
from numba import types

from aucpr_dask.kernels.compiling import Cache, helper
from aucpr_dask.kernels.signatures import U4, U8

CACHE = Cache(__name__)


@helper
def to_places(counts):
    """Replace the number of keys with each digit by the place of the first of them."""
    n_below = np.uint32(0)
    for digit in range(counts.size):
        n_here = counts[digit]
        counts[digit] = n_below
        n_below += n_here


@helper
def move(keys, other, shift, mask, place):
    """Move keys to their places by one digit."""
    one = np.uint32(1)
    for i in range(keys.size):
        key = keys[i]
        value = (key >> shift) & mask
        to = place[value]
        other[to] = key
        place[value] = to + one


@CACHE.kernel(*(types.void(key[::1], key[::1], key, key, U4[:, ::1]) for key in (U4, U8)))
def sort_three_digits(keys, other, first_bit, width, place):
    """Sort `keys` into `other` by three digits, in the bits from `first_bit` on; equal ones keep their order."""
    second, third = first_bit + width, first_bit + width + width
    mask = (keys.dtype.type(1) << width) - keys.dtype.type(1)
    one = np.uint32(1)
    place[:] = 0
    for i in range(keys.size):
        place[0, (keys[i] >> first_bit) & mask] += one
        place[1, (keys[i] >> second) & mask] += one
        place[2, (keys[i] >> third) & mask] += one
    for digit in range(3):
        to_places(place[digit])
    move(keys, other, first_bit, mask, place[0])
    move(other, keys, second, mask, place[1])
    move(keys, other, third, mask, place[2])


CACHE.publish()
