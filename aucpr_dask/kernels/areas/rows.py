"""Choose a compiled entry point for each ranking.

Short rankings go through one compiled loop. Long ones come one by one, to use NumPy's vectorised sort: if positives are
few, only they are sorted, otherwise both classes separately. Each entry point is compiled, or loaded from the cache,
when a ranking first needs it. Until those are in the cache, the first rankings of a process go through a smaller loop,
slower but compiled in half the time. All of them give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from aucpr_dask.kernels.codes import COMMON, ERROR_FIXED, HALDANE
from aucpr_dask.kernels.compiling import is_ready
from aucpr_dask.kernels.options import N_COLUMNS, REACH, Options, Targets
from aucpr_dask.kernels.rankings.sorting import ascending_places, sort_scores, sorted_keys

Floats = NDArray[np.float32] | NDArray[np.float64]

SHORT = 8192  # items up to which a ranking goes through the compiled loop,
SHORT_POSITIVES = 128  # if it has no more positives than this on average: NumPy sorts many several times faster
FIRST = 1 << 17  # items up to which a ranking may go through the loop that compiles fast,
WORTH_COMPILING = 1 << 26  # until there have been this many in a process: it takes 10 to 100 ns longer for each
SHORT_WEIGHTED = 4096  # items up to which a weighted ranking is sorted whole
CACHE_ITEMS = 1 << 16  # scores converted to float64 at a time, so that they stay in a core's cache
FEW_POSITIVES = 1 / 16  # share of positives up to which a long ranking of float32 sorts only them; float64: twice
FEW_WEIGHTED = 0.19  # the same with weights, for both types
WORTH_BUCKETS = 1 << 16  # weighted items from which they are put into buckets
MOST_WEIGHTED = 2**30  # items with weights in one ranking: places must fit into 30 bits
TABLE_POSITIVES = 1 << 18  # positives from which the table of gaps is too large for the caches

_n_counted = 0


def evaluate_rows(
    score: Floats,
    label: NDArray[np.int8],
    label_row: NDArray[np.int64],
    n_given: NDArray[np.float64],
    options: Options,
    codes: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Evaluate rankings with hard labels; the result has the shape (rows, estimators + len(COLUMNS)).

    `score` (rows, items) is float32 or float64, and row i has the labels ``label[label_row[i]]``, int8. `n_given`
    (rows,) is the number of all positives, or NaN for those among the items.
    """
    out = np.full((len(score), codes.size + N_COLUMNS), np.nan)
    group = _group_for(score, label, options, codes)
    if group != "long":
        loop = _loop_of(group)
        step = max(1, CACHE_ITEMS // max(1, score.shape[1]))
        for start in range(0, len(score), step):
            part = slice(start, start + step)
            loop(score[part].astype(np.float64), label, label_row[part], n_given[part], options, codes, out[part])
        return out
    from aucpr_dask.kernels.areas.long import finish_row

    counts = np.empty(5)
    for row in range(len(score)):
        space, n_groups = _groups_of_long(score[row], label[label_row[row]], options, counts)
        finish_row(space, n_groups, counts, n_given[row], options, codes, out[row])
    return out


def _group_for(
    score: Floats, label: NDArray[np.int8], options: Options, codes: NDArray[np.int64]
) -> Literal["first", "short", "long"]:
    """Return the group of entry points for these rankings: the fastest, unless its compilation would take longer."""
    n_items = score.shape[1]
    is_short = n_items <= SHORT
    has_few = is_short and np.count_nonzero(label >= options.positive_from) <= SHORT_POSITIVES * len(label)
    fastest: Literal["short", "long"] = "short" if has_few else "long"
    if is_ready(f"areas.{fastest}") or not _is_early(score.size):
        return fastest
    is_common = not options.expect_ties and COMMON.issuperset(codes.tolist())
    if is_short and (is_ready("areas.short") or not is_common):
        return "short"
    return "first" if n_items <= FIRST and is_common else fastest


def _is_early(n_items: int) -> bool:
    """Count items, and return whether this process has had too few to compile for all of them."""
    global _n_counted
    _n_counted += n_items
    return _n_counted < WORTH_COMPILING


def _loop_of(group: str) -> Callable[..., None]:
    """Import a compiled loop."""
    if group == "first":
        from aucpr_dask.kernels.areas.first import first_rows

        loop: Callable[..., None] = first_rows
    else:
        from aucpr_dask.kernels.areas.short import short_rows

        loop = short_rows
    return loop


def _groups_of_long(
    score: Floats, label: NDArray[np.int8], options: Options, counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """Return the tie groups of a long ranking and their number, with its classes and distinct scores in `counts`."""
    from aucpr_dask.kernels.areas.long import long_row, split_row, survey_row

    few = min(TABLE_POSITIVES, _few(FEW_POSITIVES, score))
    positive = np.empty(score.size + 1, score.dtype)
    if survey_row(score, label, options, few, positive, counts):
        n_positive = int(counts[0])
        space = np.empty((3, n_positive + 1))
        if n_positive <= few:
            positives = positive[:n_positive]
            sort_scores(positives)
            n_groups = long_row(positives, score, False, space, counts)
            if n_groups >= 0:
                return space, n_groups
        n_groups = _pack(score, label, options, space, counts)
        if n_groups >= 0:
            return space, n_groups
    negative = np.empty(score.size + 1, score.dtype)
    split_row(score, label, options, positive, negative, counts)
    positives, negatives = positive[: int(counts[0])], negative[: int(counts[1])]
    space = np.empty((3, positives.size + 1))
    sort_scores(positives)
    n_groups = long_row(positives, negatives, False, space, counts) if positives.size <= few else -1
    if n_groups < 0:
        sort_scores(negatives)
        n_groups = long_row(positives, negatives, True, space, counts)
    return space, n_groups


def _few(share: float, score: Floats) -> float:
    """Return the largest number of positives to sort alone: sorting takes longer for wider scores."""
    return share * score.nbytes / 4


def _pack(
    score: Floats,
    label: NDArray[np.int8],
    options: Options,
    space: NDArray[np.float64],
    counts: NDArray[np.float64],
) -> int:
    """Fill the tie groups of a long ranking without missing scores by one sort; return -1 if its scores do not fit."""
    if score.dtype != np.float32:
        return -1
    from aucpr_dask.kernels.rankings.packed import pack, packed_groups

    keys = np.empty(score.size, np.uint32)
    if not pack(score, label, options, keys):
        return -1
    return int(packed_groups(sorted_keys(keys), space, counts))


def targets_of(codes: Sequence[int], parameters: Sequence[float], recall_range: tuple[float, float]) -> Targets:
    """Return what to compute; recalls come with their normal quantiles."""
    quantiles = np.clip(ndtri(recall_range), -REACH, REACH)
    arrays = np.array(codes, np.int64), np.array(parameters, np.float64), np.array([*recall_range, *quantiles])
    for array in arrays:
        array.setflags(write=False)  # the type that kernels are compiled for
    return Targets(*arrays)


def evaluate_all_rows(
    score: Floats,
    label: NDArray[np.int8],
    label_row: NDArray[np.int64],
    n_given: NDArray[np.float64],
    options: Options,
    targets: Targets,
) -> NDArray[np.float64]:
    """Evaluate rankings as :func:`evaluate_rows` does, by any estimator, over any range of recall."""
    from aucpr_dask.kernels.areas.full import full_row, split_classes

    out = np.full((len(score), targets.codes.size + N_COLUMNS), np.nan)
    positive, negative = np.empty((2, score.shape[1] + 1), score.dtype)
    space = np.empty((7, score.shape[1] + 2))
    counts = np.empty(4)
    for row in range(len(score)):
        split_classes(score[row], label[label_row[row]], options, positive, negative, counts)
        positives, negatives = positive[: int(counts[0])], negative[: int(counts[1])]
        sort_scores(positives)
        sort_scores(negatives)
        classes = positives.astype(np.float64), negatives.astype(np.float64)
        full_row(*classes, space, counts, n_given[row], options, targets, out[row])
    return out


def evaluate_weighted_rows(
    score: Floats,
    classes: NDArray[np.int8],
    class_row: NDArray[np.int64],
    positive_weight: NDArray[np.float64],
    negative_weight: NDArray[np.float64],
    weight_row: NDArray[np.int64],
    options: Options,
    targets: Targets,
) -> NDArray[np.float64]:
    """Evaluate rankings whose items have weights, ties in tie groups; the result is that of :func:`evaluate_rows`.

    Rows have up to `MOST_WEIGHTED` items. Row i of the scores has the classes ``classes[class_row[i]]`` (1 negative, 2
    positive, 3 both, 0 left out) and the class weights in row ``weight_row[i]``; items of weight 0 are left out.
    """
    from aucpr_dask.kernels.rankings.ordering import count_items

    out = np.full((len(score), targets.codes.size + N_COLUMNS), np.nan)
    facts = np.empty(6)
    for row in range(len(score)):
        weights = positive_weight[weight_row[row]], negative_weight[weight_row[row]]
        items = Items(score[row], classes[class_row[row]], *weights)
        count_items(*items, facts)
        if not _weigh_gaps(items, facts, options, targets, out[row]):
            _weigh_keys(items, facts, options, targets, out[row])
        if HALDANE in targets.codes:
            out[row, : targets.codes.size][targets.codes == HALDANE] = _haldane(items, options, targets)
    out[:, : targets.codes.size][:, targets.codes >= ERROR_FIXED] = np.nan  # tie groups hold only sums of weights
    return out


class Items(NamedTuple):
    """The items of one weighted ranking."""

    score: Floats
    classes: NDArray[np.int8]
    positive_weight: NDArray[np.float64]
    negative_weight: NDArray[np.float64]


def _haldane(items: Items, options: Options, targets: Targets) -> float:
    """Evaluate one weighted ranking by Haldane's area, which needs the weights of single items."""
    from aucpr_dask.kernels.areas.influence import weighted_haldane

    positive = np.where(items.classes & 2, items.positive_weight, 0.0)
    negative = np.where(items.classes & 1, items.negative_weight, 0.0)
    return weighted_haldane(items.score, positive, negative, options, targets.recall_range)


def _weigh_gaps(
    items: Items, facts: NDArray[np.float64], options: Options, targets: Targets, out: NDArray[np.float64]
) -> bool:
    """Evaluate one long weighted ranking by sorting only its positives, if these are few; return whether it did."""
    n_positive = int(facts[0])
    if items.score.size <= SHORT_WEIGHTED or n_positive > FEW_WEIGHTED * items.score.size or not targets.are_basic:
        return False
    from aucpr_dask.kernels.areas.weighted import copy_positives, finish_weighted, gaps_row

    positive, gain = np.empty(n_positive + 1, items.score.dtype), np.empty(n_positive + 1)
    copy_positives(*items, positive, gain)
    order = np.argsort(positive[:-1])
    space, sums = np.empty((3, n_positive + 1)), np.empty(3)
    n_groups = gaps_row(positive[order], gain[order], *items, space, sums)
    if n_groups >= 0:
        finish_weighted(space, n_groups, sums, facts, options, targets.codes, out)
    return bool(n_groups >= 0)


def _weigh_keys(
    items: Items, facts: NDArray[np.float64], options: Options, targets: Targets, out: NDArray[np.float64]
) -> None:
    """Evaluate one weighted ranking by sorting all of it."""
    score, weights = items.score, (items.positive_weight, items.negative_weight)
    if targets.are_basic:
        from aucpr_dask.kernels.areas.weighted import finish_weighted, keys_row

        groups, sums = np.empty((3, int(facts[0]) + 1)), np.empty(3)
        n_groups = _groups_by_buckets(items, facts, groups, sums)
        if n_groups < 0:
            n_groups = keys_row(_sorted_item_keys(items), *weights, groups, sums)
        finish_weighted(groups, n_groups, sums, facts, options, targets.codes, out)
    else:
        from aucpr_dask.kernels.areas.full import full_keys_row

        keys = _sorted_item_keys(items)
        space = np.empty((7, keys.size + 2))
        full_keys_row(keys, score.astype(np.float64), *weights, space, facts, options, targets, out)


def _groups_by_buckets(
    items: Items, facts: NDArray[np.float64], groups: NDArray[np.float64], sums: NDArray[np.float64]
) -> int:
    """Fill the tie groups of a long ranking of float32 whose items all count, each in one class; or return -1."""
    n_items = items.score.size
    is_hard = items.positive_weight.ctypes.data == items.negative_weight.ctypes.data
    if n_items < WORTH_BUCKETS or items.score.dtype != np.float32 or not is_hard or facts[2] < n_items:
        return -1
    from aucpr_dask.kernels.rankings.bucketed import bucketed_groups

    signed, halves = np.empty((2, n_items))  # one piece of memory, which the system leaves to the next ranking
    order, bucketed = halves.view(np.uint32).reshape(2, n_items)
    return int(bucketed_groups(*items[:3], order, bucketed, signed, groups, sums))


def _sorted_item_keys(items: Items) -> NDArray[np.uint64]:
    """Return the items as sorted keys; float64 scores by those rounded to float32, and again where these tie."""
    from aucpr_dask.kernels.rankings.keys import CLASS_BITS
    from aucpr_dask.kernels.rankings.ordering import keys_of_ranks, keys_of_scores, refine_keys

    keys = np.empty(items.score.size, np.uint64)
    with np.errstate(over="ignore"):
        rounded = items.score.astype(np.float32, copy=False)
    keys_of_scores(rounded, *items[1:], keys)
    keys = sorted_keys(keys, int(CLASS_BITS))
    if items.score.dtype == np.float64 and not refine_keys(items.score, keys):
        keys_of_ranks(items.score, ascending_places(items.score), *items[1:], keys)
    return keys
