"""Functions on chunks of items, and what passes between them; like those of `blocks`, they enter graphs by name.

No chunk holds a whole ranking. What chunks say of it are counts, which add up to the same numbers in whatever order,
so the areas have the same bits as those of whole rankings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import ChunkError
from aucpr_dask.evaluation.rankings import Array, Rows, check_rows, finished, options_of, targets_of
from aucpr_dask.evaluation.request import Request
from aucpr_dask.schema.labels import check_labels

Counts = NDArray[Any]  # whole numbers from 0, of the narrowest type that holds the largest of them
Ranges = tuple[list[Array], list[Array]]
Steps = tuple[float, ...]  # sum of steps, what rounding lost of it, positives and negatives above

MOST_SCORES = 2**25  # distinct scores of positives in one ranking: they and their counts pass through each worker


@dataclass(frozen=True)
class Positives:
    """What the first pass learns of some rankings, by row.

    Parameters
    ----------
    lead : tuple of int
        The shape of the rows.
    scores : tuple of ndarray
        The distinct scores of the positives, ascending, then +inf.
    times : tuple of ndarray
        How many positives have each of these scores.
    classes : ndarray of float64, shape (rows, 4)
        Positives and negatives with a score, positives and negatives without.
    distinct : ndarray of float64, shape (rows, 3)
        Up to three distinct scores of any items, then NaN.
    """

    lead: tuple[int, ...]
    scores: tuple[Array, ...]
    times: tuple[Counts, ...]
    classes: NDArray[np.float64]
    distinct: NDArray[np.float64]

    def __sizeof__(self) -> int:
        """Return the bytes of the arrays, by which a scheduler knows what moving them costs."""
        return sum(array.nbytes for array in (*self.scores, *self.times, self.classes, self.distinct))

    @property
    def index(self) -> NDArray[np.int64]:
        """The number of each row, in the shape of the rows."""
        return np.arange(len(self.classes)).reshape(self.lead)


def _split_rows(score: Array, label: Array, rows: Rows, request: Request) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the scores of the positives and of the negatives of each ranking in a chunk, and the counts of its items.

    Copies of one row are held at a time.
    """
    from aucpr_dask.kernels.chunked.rows import split_items

    score, (label, label_row) = rows.full(score), rows.distinct(label.astype(np.int8, copy=False))
    options = options_of(request)
    for row in range(len(score)):
        yield split_items(score[row], label[label_row[row]], options)


def collect_positives(score: Array, label: Array, *, request: Request) -> Positives:
    """Return what one chunk of items says in the first pass: the scores of its positives, and counts."""
    from aucpr_dask.kernels.chunked.rows import distinct_scores, three_scores

    check_labels(label, request.positive_from, "label")
    rows = Rows({"score": score, "label": label})
    counted, classes, distinct = [], [], []
    for positive, negative, of_row in _split_rows(score, label, rows, request):
        distinct.append(three_scores(positive, negative))
        counted.append(distinct_scores(positive))
        classes.append(of_row)
    scores, times = tuple(value for value, _ in counted), tuple(times for _, times in counted)
    return Positives(rows.lead, scores, times, np.reshape(classes, (-1, 4)), np.reshape(distinct, (-1, 3)))


def merge_positives(parts: Any, axis: Any = None, keepdims: Any = None) -> Positives:
    """Return what several chunks say together; the two arguments that a reduction passes beside mean nothing here."""
    together: Positives = reduce(_merge_two, _listed(parts))
    return together


def _merge_two(first: Positives, second: Positives) -> Positives:
    from aucpr_dask.kernels.chunked.rows import merge_scores

    both = zip(first.scores, first.times, second.scores, second.times, strict=True)
    merged = [merge_scores(*pair) for pair in both]
    most = max((times.size for _, times in merged), default=0)
    if most > MOST_SCORES:
        raise ChunkError(
            "one ranking has more distinct scores of positives than a worker is asked to hold",
            received=f"{most} or more of them, in a ranking whose items are in several chunks",
            allowed=f"up to {MOST_SCORES}",
            remedy="area_bounds(score, label, tolerance=...) needs little memory; with 0, it gives the exact area",
        )
    distinct = np.full_like(first.distinct, np.nan)
    for row, found in enumerate(np.hstack([first.distinct, second.distinct])):
        values = np.unique(found[~np.isnan(found)])[:3]
        distinct[row, : values.size] = values
    scores, times = tuple(value for value, _ in merged), tuple(times for _, times in merged)
    return Positives(first.lead, scores, times, first.classes + second.classes, distinct)


def _listed(parts: Any) -> list[Any]:
    return parts if isinstance(parts, list) else [parts]


def check_positives(*arrays: Any, roles: tuple[str, ...], request: Request) -> Positives:
    """Return what is known after the first pass; raise if it tells that the second one would be in vain."""
    positives, rows, which, n_given = _unfolded(dict(zip(roles, arrays, strict=True)))
    counted = positives.classes[which]
    labelled, missing = counted[:, 0] + counted[:, 2], counted[:, 2] + counted[:, 3]
    unseen = np.where(np.isnan(n_given), 0.0, n_given - labelled)
    check_rows({"n_missing": missing, "n_unseen": unseen}, rows, request)
    return positives


def _unfolded(named: dict[str, Any]) -> tuple[Positives, Rows, NDArray[np.int64], NDArray[np.float64]]:
    """Return the rankings of a block, by row; which row of the first pass each is, and the positives given for it."""
    positives: Positives = named["positives"]
    others = {name: array for name, array in named.items() if name not in ("positives", "tally")}
    rows = Rows(others | {"positives": positives.index})
    n_given = rows.scalar(named.get("n_positive", np.array(np.nan)))
    return positives, rows, rows.broadcast(positives.index), n_given


def tally_negatives(score: Array, label: Array, positives: Positives, *, request: Request) -> tuple[Counts, ...]:
    """Return what one chunk of items says in the second pass: how many negatives lie between which positives."""
    from aucpr_dask.kernels.chunked.rows import tally_items

    rows = Rows({"score": score, "label": label})
    which = rows.broadcast(positives.index)
    split = zip(which, _split_rows(score, label, rows, request), strict=True)
    return tuple(tally_items(positives.scores[row], negative) for row, (_, negative, _) in split)


def add_tallies(parts: Any, axis: Any = None, keepdims: Any = None) -> tuple[Counts, ...]:
    """Return the sums of the counts of several chunks; of the two other arguments, see :func:`merge_positives`."""
    return tuple(_sum_of(counts) for counts in zip(*_listed(parts), strict=True))


def _sum_of(counts: Sequence[Counts]) -> Counts:
    """Add counts up in the narrowest type that the sum cannot overflow."""
    total = np.zeros(counts[0].shape, np.min_scalar_type(sum(int(part.max(initial=0)) for part in counts)))
    for part in counts:
        total += part
    return total


def finish_rankings(*arrays: Any, roles: tuple[str, ...], request: Request) -> NDArray[np.float64]:
    """Return what `blocks.evaluate_rankings` returns, from what both passes have counted."""
    from aucpr_dask.kernels.chunked.rows import finish_tally
    from aucpr_dask.kernels.options import N_COLUMNS

    named = dict(zip(roles, arrays, strict=True))
    positives, rows, which, n_given = _unfolded(named)
    targets, options = targets_of(request), options_of(request)
    out = np.empty((which.size, targets.codes.size + N_COLUMNS))
    n_distinct = np.count_nonzero(~np.isnan(positives.distinct), axis=1)
    for row, source in enumerate(which):
        counts = positives.times[source], named["tally"][source], positives.classes[source]
        out[row] = finish_tally(*counts, n_given[row], int(n_distinct[source]), options, targets)
    return finished(out, targets.codes.size, rows, request)


# Passes that bound the area of one ranking, or add it up range by range


def _keys_of(score: Array, label: Array, request: Request) -> tuple[Array, Array, Array]:
    """Return the keys of the positives and of the negatives of a chunk, each ascending, and the counts of its items."""
    from aucpr_dask.kernels.chunked.rows import sorted_keys

    check_labels(label, request.positive_from, "label")
    rows = Rows({"score": score, "label": label})
    ((positive, negative, classes),) = _split_rows(score, label, rows, request)
    return sorted_keys(positive), sorted_keys(negative), classes


def count_keys(score: Array, label: Array, start: Array, *, request: Request) -> tuple[Counts, ...]:
    """Return how many positives and negatives of a chunk lie in each bin of keys, and the counts of all its items."""
    from aucpr_dask.kernels.chunked.rows import count_bins

    positive, negative, classes = _keys_of(score, label, request)
    return count_bins(positive, start), count_bins(negative, start), classes.astype(np.uint64)


def items_between(score: Array, label: Array, ends: Array, *, request: Request) -> Ranges:
    """Return the keys of the positives and of the negatives of a chunk from the first of two keys to the second."""
    both = _keys_of(score, label, request)[:2]
    places = [(np.searchsorted(keys, ends[0], "left"), np.searchsorted(keys, ends[1], "right")) for keys in both]
    positive, negative = ([keys[first:end].copy()] for keys, (first, end) in zip(both, places, strict=True))
    return positive, negative


def join_items(parts: Any, axis: Any = None, keepdims: Any = None) -> Ranges:
    """List the keys of several chunks; of the two other arguments, see :func:`merge_positives`."""
    listed = _listed(parts)
    return [keys for part in listed for keys in part[0]], [keys for part in listed for keys in part[1]]


def add_items(parts: Ranges, steps: Steps, scale: float) -> Steps:
    """Go on adding up the steps of average precision, through all items of a range of keys."""
    from aucpr_dask.kernels.chunked.rows import add_range

    positive, negative = (np.concatenate(keys) for keys in parts)
    positive.sort()
    negative.sort()
    return add_range(positive, negative, scale, steps)
