"""Certified bounds of the probability that random orders have at least some area.

Areas that differ by less than `EQUAL` count as equal; so the upper bound is one of the probability of a larger or equal
area, too, and areas that only round-off tells apart do not matter.

The distribution takes one step for each tie group, from the lowest score up. A state is the number of positives above,
and the sum of precisions below, in cells. What a tie group adds is rounded to the nearest cell, so probabilities are
exact but for round-off, and those of a sum are off by its rounding errors. These rarely add up: their moment generating
function is computed along, and bounds how likely they exceed any value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import types
from numpy.typing import NDArray

from aucpr_dask.kernels.compiling import F8, I8, helper, kernel, row_of

Floats = NDArray[np.float64]

EQUAL = 1e-12
CLOSE = 1.01  # upper bounds over lower ones, at most
LEAST = 1e-16  # probabilities below which bounds need not be close
MOST_NODES = 100_000
MOST_TABLE = 10_000_000
MOST_WORK = 3e10  # cells added for one lattice
MOST_CELLS = 2**27  # in memory
FEWEST_CELLS, MOST_EXACT = 2**12, 2**16  # of an area of 1, in the coarsest lattice; and if all areas fall on cells
FACTORS = (2, 4, 8, 16)  # of the cells of a lattice to those of the one before
RATIO = 4  # of its cells to those of the one that shows how far the mass reaches
FINER = 8  # cells of each ranking's lattice to one of the sum's
NEGLIGIBLE = 1e-36  # mass of a cell at the ends of a row that is dropped, and accounted for
SHARE = 5e-4  # of a probability, for sums of rounding errors beyond what is reckoned with
ROUND_OFF = 2.0**-53
UNDERFLOW = 1e-290
RATES = 2.0 ** np.arange(-5, 4)  # of the moment generating functions, per cell; each is twice the one before
N_RATES, LOWEST_RATE = RATES.size, RATES[0]


@dataclass(frozen=True, order=True)
class Orders:
    """All orders of the labels of one ranking, which are equally likely."""

    n_ranked: int
    sizes: bytes  # of tie groups from the highest score, as int64; none if no items are tied
    n_unranked: int  # items below all others, which add nothing to the area
    n_hits: int  # positives among all these items
    n_positive: int  # by which a sum of precisions is divided

    @property
    def groups(self) -> NDArray[np.int64]:
        """Sizes of all tie groups."""
        return np.frombuffer(self.sizes, np.int64) if self.sizes else np.ones(self.n_ranked, np.int64)

    @property
    def n_steps(self) -> int:
        """Number of roundings of any probability of a step, and of adding it up."""
        return 16 * (self.n_ranked + self.n_unranked + self.n_hits + 1)


@dataclass(frozen=True, eq=False)
class Lattice:
    """The distribution of a sum of areas, each rounded to cells."""

    cells: int  # of an area of 1
    mass: Floats
    log_moments: Floats  # (kind of rounding, forward or backward, rate)
    largest: Floats  # sum of rounding errors of each kind
    scale: Floats  # cells of the lattice in one cell of that kind
    lost: float
    n_roundings: int
    work: float
    work_to_join: float = 0.0

    def bounds(self, area: Floats, n_areas: int, n_hits: int) -> tuple[Floats, Floats]:
        """Return bounds of the probability that the sum is as large as each area, or larger."""
        tail = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)

        def from_cell(place: Floats) -> Floats:
            return np.asarray(tail[np.clip(np.ceil(place), 0, self.mass.size).astype(np.int64)])

        place = (area - n_areas * EQUAL) * self.cells
        unclear = 8 * ROUND_OFF * self.cells * n_hits
        share = SHARE * np.maximum(from_cell(place), UNDERFLOW)
        missed = self.scale.size * share
        lower = from_cell(place + self._reach(0, share) + unclear) - missed
        upper = from_cell(place - self._reach(1, share) - unclear) + missed + self.lost
        return outward(lower, upper, self.n_roundings + self.mass.size)

    def affordable(self, n_rows: int) -> int:
        """Return the largest of `FACTORS` by which a finer lattice is within work and memory; 0 if none is."""
        return max(
            (
                factor
                for factor in FACTORS
                if factor * self.work + factor**2 * self.work_to_join <= MOST_WORK
                and factor * self.mass.size * n_rows <= MOST_CELLS
            ),
            default=0,
        )

    def _reach(self, side: int, share: Floats) -> Floats:
        """Return what the sum of rounding errors exceeds with a probability of no more than `share` of each kind."""
        by_rate = (self.log_moments[:, side] + 1e-9 - np.log(share)[:, None, None]) / RATES  # Chernoff's bound
        by_rate = np.where(np.isnan(by_rate), np.inf, by_rate).min(axis=-1)
        return np.asarray(np.minimum(by_rate, self.largest) @ self.scale)


def outward(lower: Floats, upper: Floats, n_roundings: int | NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Widen bounds of probabilities by the errors of as many roundings of positive terms."""
    error = 2 * ROUND_OFF * n_roundings
    return np.maximum(lower, 0) * (1 - error), np.minimum(upper * (1 + error) + UNDERFLOW, 1.0)


def chance_bounds(orders: tuple[Orders, ...], area: Floats) -> tuple[Floats, Floats]:
    """Return bounds of the probability that independent random orders have areas with at least each sum."""
    lower, upper = np.zeros(area.size), np.ones(area.size)
    if len(orders) == 1:
        lower, upper = _by_listing(orders[0], area)
    orders = tuple(sorted(orders))
    n_hits, most_hits = sum(one.n_hits for one in orders), max(one.n_hits for one in orders)
    cells = np.full(area.size, _first_cells(orders))
    while (pending := is_wide(lower, upper) & (cells > 0)).any():
        # Each area is bounded on the lattices that it needs itself, so that others do not change its bounds.
        fewest = int(cells[pending].min())
        here = pending & (cells == fewest)
        lattice = _lattice(orders, fewest)
        low, high = lattice.bounds(area[here], len(orders), n_hits)
        lower[here], upper[here] = np.maximum(lower[here], low), np.minimum(upper[here], high)
        cells[here] *= np.minimum(_finer_by(lower[here], upper[here]), lattice.affordable(most_hits + 1))
    return lower, upper


def _finer_by(lower: Floats, upper: Floats) -> NDArray[np.int64]:
    """Return by which of `FACTORS` a lattice has to be finer for close bounds, if their gap falls with its cells."""
    with np.errstate(divide="ignore"):
        gap = 1.05 * np.log(upper / lower) / np.log(CLOSE)
    return np.asarray(np.asarray(FACTORS)[np.searchsorted(FACTORS[:-1], gap)])


def is_wide(lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Return which bounds are not close, though the probability may be large enough."""
    return np.asarray((upper > CLOSE * lower) & (upper > LEAST))


def _by_listing(orders: Orders, area: Floats) -> tuple[Floats, Floats]:
    """Bound the probabilities of areas that few orders have, or all; others are from 0 to 1."""
    lower, upper = np.zeros(area.size), np.ones(area.size)
    case = orders.groups, orders.n_unranked, orders.n_hits
    if orders.groups.size * (orders.n_hits + 1) > MOST_TABLE:
        return lower, upper
    wanted = (area - EQUAL) * orders.n_positive
    lower[wanted <= least_sum(*case)] = 1.0
    sums, masses = np.empty((2, MOST_NODES))
    least = np.unique(wanted[lower < 1])
    first, end = 0, least.size
    while first < end:  # find the smallest sum for which they are few
        middle = (first + end) // 2
        is_long = largest_sums(*case, least[middle], MOST_NODES, sums, masses) < 0
        first, end = (middle + 1, end) if is_long else (first, middle)
    if first < least.size:
        n_listed = largest_sums(*case, least[first], MOST_NODES, sums, masses)
        order = np.argsort(-sums[:n_listed], kind="stable")
        total = np.append(0.0, np.cumsum(masses[order]))
        is_listed = (wanted >= least[first]) & (lower < 1)
        n_above = np.searchsorted(-sums[order], -wanted[is_listed], side="right")  # what others list changes no bound
        lower[is_listed], upper[is_listed] = outward(total[n_above], total[n_above], orders.n_steps + n_above)
    return lower, upper


def _first_cells(orders: tuple[Orders, ...]) -> int:
    """Return the cells of the coarsest lattice: if a small one holds all areas exactly, those of that."""
    exact = 1
    for one in set(orders):
        for end in np.cumsum(one.groups).tolist():
            exact = math.lcm(exact, end * max(one.n_positive, 1))
            if exact > MOST_EXACT:
                return FEWEST_CELLS
    return exact * -(-FEWEST_CELLS // exact)


def _lattice(orders: tuple[Orders, ...], cells: int) -> Lattice:
    if len(orders) == 1:
        return _spread(orders[0], cells)
    total = _coarser(_spread(orders[0], cells * FINER))
    for one in orders[1:]:
        total = _joined(total, _coarser(_spread(one, cells * FINER)))
    return total


@lru_cache(maxsize=64)
def _spread(orders: Orders, cells: int) -> Lattice:
    """Return the distribution of one area."""
    n_cells = cells + 1 + orders.n_hits
    if cells >= RATIO * FEWEST_CELLS:  # what a coarser lattice has no mass in, this one has none in either
        coarser = _spread(orders, cells // RATIO)
        n_cells = min(n_cells, RATIO * (coarser.mass.size + int(coarser.largest[0]) + 2) + orders.n_hits)
    mass, moments = np.zeros((orders.n_hits + 1, n_cells)), np.zeros((orders.n_hits + 1, 2, N_RATES))
    unit = cells / max(orders.n_positive, 1)
    groups = orders.groups
    lost, largest, work = spread(groups, orders.n_unranked, unit, NEGLIGIBLE, mass, moments)
    with np.errstate(divide="ignore"):
        log_moments = np.log(moments[0])
    largest *= min(orders.n_hits, groups.size)
    n_used = int(np.flatnonzero(mass[0])[-1]) + 1
    return Lattice(
        cells, mass[0, :n_used].copy(), log_moments[None], np.array([largest]), np.ones(1), lost, orders.n_steps, work
    )


def _coarser(fine: Lattice) -> Lattice:
    """Round the cells of one ranking's lattice to those of the sum's."""
    exact = np.arange(fine.mass.size) / FINER
    cell = np.rint(exact)
    mass = np.bincount(cell.astype(np.int64), fine.mass).astype(np.float64)
    error = (cell - exact)[fine.mass > 0]
    by_rate = np.exp(error[:, None] * np.concatenate([RATES, -RATES]))
    moments = np.einsum("i,ij->j", fine.mass[fine.mass > 0], by_rate)  # unlike @, in one order whatever the machine
    return Lattice(
        fine.cells // FINER,
        mass,
        np.stack([fine.log_moments[0], np.log(moments).reshape(2, N_RATES)]),
        np.append(fine.largest, np.abs(error).max()),
        np.array([1 / FINER, 1.0]),
        fine.lost,
        fine.n_roundings + FINER + 1,
        fine.work,
    )


def _joined(first: Lattice, second: Lattice) -> Lattice:
    """Return the distribution of the sum of two independent sums of areas."""
    mass = np.zeros(first.mass.size + second.mass.size - 1)
    convolve(second.mass, first.mass, mass)
    used = np.flatnonzero(mass > NEGLIGIBLE)
    lost = float(mass[used[-1] + 1 :].sum())
    return Lattice(
        first.cells,
        mass[: used[-1] + 1],
        first.log_moments + second.log_moments,
        first.largest + second.largest,
        first.scale,
        first.lost + second.lost + lost,
        first.n_roundings + second.n_roundings + second.mass.size,
        first.work + second.work,
        first.work_to_join + second.work_to_join + float(first.mass.size) * second.mass.size,
    )


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
