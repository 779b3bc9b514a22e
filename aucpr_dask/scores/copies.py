"""Items that look like copies of others: equal scores in all models, and equal labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import RepeatedItemsWarning, few, warn
from aucpr_dask.schema.terms import ITEM, MODEL, PADDING, QUERY

COPIES = "source_repeated_items"  # the attribute of scores and results that counts them
LOOKED_AT, SAMPLE = 2_000, 1_024  # items: of more, those in a window of scores, which is read off a sample
FIRST = 8  # rankings, and all only if there are copies among these
SHARE, UNLIKE = 0.01, 30  # of items that are copies; and how many different ones tell copies from ties
MIXED, TIED = 0.1, 0.5  # shares: of ties of positives with negatives; of a model's ties that all models have
UNTIED = 0.9  # a model's share of different scores among different items
MANY, FEWER, GROUPS_OF_A_SIZE = 12, 6, 20  # expected by chance at least, and how many times fewer are found


def warn_of_copies(nodes: Mapping[str, xr.Dataset], unit: str | None, *, reads: bool = False) -> dict[str, list[int]]:
    """Warn of items that look like copies of others and count as independent, and return how many of how many."""
    # Without `reads`, those of scores that are not in memory are as they were counted when a store was written.
    found: dict[str, list[int]] = {}
    for path, node in nodes.items():
        if reads or isinstance(node.variables["score"]._data, np.ndarray):
            counts = [0 if unit else copies_among(node), node.sizes[ITEM]]
        else:
            counts = counted_copies(node, unit)
        if counts[0]:
            found[path] = counts
    if found:
        warn_of_counts(found)
    return found


def counted_copies(scores: xr.Dataset, unit: str | None) -> list[int]:
    """Return how many items look like copies and count as independent, of how many, as scores say themselves."""
    counts = list(map(int, scores.attrs.get(COPIES, (0, 0))))
    is_it = unit is None and "cluster" not in scores and counts[1] == scores.sizes[ITEM]  # not of a part of them
    return counts if is_it else [0, 0]


OF_DATA_SETS = "give a variable 'cluster' that says which belong together; if not, over='items' says so"


def warn_of_counts(found: Mapping[str, Sequence[int]], remedy: str = OF_DATA_SETS) -> None:
    """Warn of copies among the items of data sets: how many there are, of how many items."""
    counts = [
        f"{n:,} of {n_items:,} items{f' of data set {path!r}' if path else ''}" for path, (n, n_items) in found.items()
    ]
    warn(
        f"{few(counts, 3)} have the scores of another item in all models. If they are copies, intervals are too "
        f"narrow: {remedy}.",
        RepeatedItemsWarning,
    )


def copies_among(scores: xr.Dataset) -> int:
    """Return how many items look like copies of others; 0 if models or queries have their own lists of items."""
    held = scores.variables
    label = next((held[name] for name in ("label", "positive_weight") if name in held), None)
    score = held["score"]
    if label is None or "cluster" in held or QUERY in score.dims or MODEL in label.dims or score.size == 0:
        return 0
    rankings, labels = ((one.transpose(..., ITEM).data.reshape(-1, one.sizes[ITEM])) for one in (score, label))
    if labels.dtype.kind in "if" and (is_padding := np.asarray(labels == PADDING).all(axis=0)).any():
        rankings, labels = rankings[:, ~is_padding], labels[:, ~is_padding]
    return count_copies(rankings, labels)


def count_copies(rankings: Any, labels: Any) -> int:
    """Return how many items have the labels and all scores of another, where this is not by chance."""
    # Arrays are (ranking, item). Of many items, those are looked at whose first score is in a window.
    if rankings.shape[1] == 0:
        return 0
    score = np.asarray(rankings[0])
    looked_at = np.arange(score.size)
    if score.size > LOOKED_AT:  # those with a score near the median
        sample = np.sort(score[:: score.size // SAMPLE])
        sample = sample[~np.isnan(sample)]
        half, middle = max(2, LOOKED_AT * sample.size // score.size // 2), sample.size // 2
        if sample.size <= 2 * half:
            return 0
        looked_at = np.flatnonzero((score >= sample[middle - half]) & (score < sample[middle + half]))
    ordered = np.sort(score[looked_at])
    n_tied = int((ordered[1:] == ordered[:-1]).sum())
    if not 0 < looked_at.size <= 4 * LOOKED_AT or n_tied < max(2, SHARE * ordered.size):
        return 0  # most data sets: this has to be quick
    for step in (-(-len(rankings) // FIRST), 1):
        rows = np.asarray(rankings[::step][:, looked_at], dtype=np.float64)
        n = _copies(rows, np.asarray(labels[:, looked_at]))
        if n == 0 or step == 1:
            break
    if not n or looked_at.size == score.size:
        return n
    known, same = ~np.isnan(score), np.zeros(score.size, np.uint64)
    for place in range(len(rankings)):  # one by one, because they may be many
        row = np.asarray(rankings[place], dtype=np.float64)
        known &= ~np.isnan(row)
        same += _hashed(row, place)
    return int(np.count_nonzero(known) - np.unique(same[known]).size)


def _copies(score: NDArray[np.float64], label: NDArray[Any]) -> int:
    """Return how many items have the scores of another; 0 where they can have them by chance."""
    known = ~np.isnan(score).any(axis=0)
    score, label = score[:, known], label[:, known]
    same = np.zeros(score.shape[1], np.uint64)  # a hash of each item's scores
    for place, row in enumerate(score):
        same += _hashed(row, place)
    _, once, group, sizes = np.unique(same, return_index=True, return_inverse=True, return_counts=True)
    n_copies = same.size - once.size
    if n_copies < max(2, SHARE * same.size) or once.size < UNLIKE:
        return 0
    # Items that are alike only by their features have labels of their own.
    differ = np.bincount(group, (label != label[:, once[group]]).any(axis=0)) > 0
    holds = np.bincount(group, (label > 0).any(axis=0)) > 0
    repeated = sizes > 1
    if (differ & repeated).sum() > MIXED * (holds & repeated).sum():
        return 0
    return n_copies if _are_all_ties(score, once) or _more_than_chance(sizes) else 0


def _hashed(score: NDArray[np.float64], place: int) -> NDArray[np.uint64]:
    """Return a hash of the scores of one ranking, different for each place among the rankings."""
    bits = (score + 0.0).view(np.uint64)  # -0.0 is 0.0
    odd = np.uint64((2 * place + 1) * 0x9E3779B97F4A7C15 % 2**64)
    return ((bits ^ (bits >> np.uint64(29))) * odd) ^ (bits >> np.uint64(17))


def _are_all_ties(score: NDArray[np.float64], once: NDArray[np.intp]) -> bool:
    """Return whether two models of the first ones, neither a function of the other, have hardly any ties but copies."""
    n_items, n_copies = score.shape[1], score.shape[1] - once.size
    n_different = np.array([np.unique(row).size for row in score[:FIRST]])
    fine = np.flatnonzero((n_different >= UNTIED * once.size) & (n_copies >= TIED * (n_items - n_different)))
    if fine.size < 2:
        return False
    steps = np.diff(score[fine][:, np.argsort(score[fine[0]])])
    steps *= np.sign(steps[0])
    return bool(((steps > 0).any(axis=1) & (steps < 0).any(axis=1)).any())


def _more_than_chance(sizes: NDArray[np.intp]) -> bool:
    """Return whether groups of equal items have sizes that ties of independent ones do not have."""
    # With n_k groups of k items, independent ones have n_(k-1) n_(k+1) of at least k / (k + 1) n_k^2, whatever their
    # distribution, because k! n_k are moments. Items that stand twice make many pairs, and neither of the others.
    n = np.append(np.bincount(sizes, minlength=3), 0.0)
    k = 2 + int(np.argmax(n[2:-1] * np.arange(2, n.size - 1)))
    least = k / (k + 1) * n[k] ** 2
    is_rare = n[k - 1] * n[k + 1] <= least / FEWER and least >= MANY * max(n[k - 1], n[k + 1], 1.0)
    return bool(is_rare and n[k] >= GROUPS_OF_A_SIZE)
