"""Functions on chunks of items, and the records that pass between them; graphs hold them by name.

No chunk holds a whole ranking. Chunks yield counts, which add up to the same numbers in any order, so areas are
bit-for-bit identical to those of whole rankings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import ChunkError
from aucpr_dask.evaluation.rankings import Array, Evaluated, Rows, check_rows, finished, reading_of, targets_of
from aucpr_dask.schema.checks import check_labels, whole_labels
from aucpr_dask.schema.options import EvaluationOptions

Counts = NDArray[Any]  # whole numbers from 0, of the narrowest type that holds the largest

MOST_SCORES = 2**25  # distinct scores of positives in one ranking: they and their counts pass through each worker


@dataclass(frozen=True)
class Positives:
    """Facts about some rankings after the first pass, by row."""

    lead: tuple[int, ...]  # the shape of the rows
    scores: tuple[Array, ...]  # the distinct scores of the positives, ascending, then +inf
    times: tuple[Counts, ...]  # how many positives have each of these scores
    classes: NDArray[np.float64]  # (rows, 4): positives and negatives with a score, positives and negatives without
    distinct: NDArray[np.float64]  # (rows, 3): up to three distinct scores of any items, then NaN

    def __sizeof__(self) -> int:
        """Return the bytes of the arrays, from which a scheduler estimates the cost of moving them."""
        return sum(array.nbytes for array in (*self.scores, *self.times, self.classes, self.distinct))

    @property
    def index(self) -> NDArray[np.int64]:
        """The number of each row, in the shape of the rows."""
        return np.arange(len(self.classes)).reshape(self.lead)


def _split_rows(
    score: Array, label: Array, rows: Rows, options: EvaluationOptions
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the scores of positives, those of negatives, and the counts of items of one ranking after another."""
    from aucpr_dask.kernels.chunked_items import split_items

    score, (label, label_row) = rows.full(score), rows.distinct(label.astype(np.int8, copy=False))
    reading = reading_of(options)
    for row in range(len(score)):
        yield split_items(score[row], label[label_row[row]], reading)


def collect_positives(score: Array, label: Array, *, options: EvaluationOptions) -> Positives:
    """First pass: return the scores of the positives of a chunk of items, and counts."""
    from aucpr_dask.kernels.chunked_items import counted_scores, three_scores

    label = whole_labels(label, score)
    check_labels(label, options.positive_from, "label")
    rows = Rows({"score": score, "label": label})
    counted, classes, distinct = [], [], []
    for positive, negative, of_row in _split_rows(score, label, rows, options):
        distinct.append(three_scores(positive, negative))
        counted.append(counted_scores(positive))
        classes.append(of_row)
    scores, times = tuple(value for value, _ in counted), tuple(times for _, times in counted)
    return Positives(rows.lead, scores, times, np.reshape(classes, (-1, 4)), np.reshape(distinct, (-1, 3)))


def merge_positives(parts: Any, axis: Any = None, keepdims: Any = None) -> Positives:
    """Merge several chunks; `axis` and `keepdims`, which a reduction passes, are ignored."""
    together: Positives = reduce(_merge_two, _listed(parts))
    return together


def _merge_two(first: Positives, second: Positives) -> Positives:
    from aucpr_dask.kernels.chunked_items import merge_scores

    both = zip(first.scores, first.times, second.scores, second.times, strict=True)
    merged = [merge_scores(*pair) for pair in both]
    most = max((times.size for _, times in merged), default=0)
    if most > MOST_SCORES:
        what = "one ranking has more distinct scores of positives than a worker can hold"
        received = f"{most} or more of them, in a ranking whose items are in several chunks"
        remedy = "ap.Accumulator counts items in bounded memory, and returns bounds of the area"
        raise ChunkError(what, received=received, allowed=f"up to {MOST_SCORES}", remedy=remedy)
    distinct = np.full_like(first.distinct, np.nan)
    for row, found in enumerate(np.hstack([first.distinct, second.distinct])):
        values = np.unique(found[~np.isnan(found)])[:3]
        distinct[row, : values.size] = values
    scores, times = tuple(value for value, _ in merged), tuple(times for _, times in merged)
    return Positives(first.lead, scores, times, first.classes + second.classes, distinct)


def _listed(parts: Any) -> list[Any]:
    return parts if isinstance(parts, list) else [parts]


def check_positives(*arrays: Any, roles: tuple[str, ...], options: EvaluationOptions) -> Positives:
    """Raise if the first pass found an error, before the second pass starts."""
    positives, rows, which, n_given = _unfolded(dict(zip(roles, arrays, strict=True)))
    counted = positives.classes[which]
    labelled, missing = counted[:, 0] + counted[:, 2], counted[:, 2] + counted[:, 3]
    unseen = np.where(np.isnan(n_given), 0.0, n_given - labelled)
    check_rows({"n_missing": missing, "n_unseen": unseen}, rows, options)
    return positives


def _unfolded(named: dict[str, Any]) -> tuple[Positives, Rows, NDArray[np.int64], NDArray[np.float64]]:
    """Return the rankings of a block by row: the row of the first pass that each has, and its number of positives."""
    positives: Positives = named["positives"]
    others = {name: array for name, array in named.items() if name not in ("positives", "tally")}
    rows = Rows(others | {"positives": positives.index})
    n_given = rows.scalar(named.get("n_positive", np.array(np.nan)))
    return positives, rows, rows.broadcast(positives.index), n_given


def tally_negatives(
    score: Array, label: Array, positives: Positives, *, options: EvaluationOptions
) -> tuple[Counts, ...]:
    """Second pass: count the negatives of a chunk of items between the positives of all chunks."""
    from aucpr_dask.kernels.chunked_items import tally_items

    rows = Rows({"score": score, "label": label})
    which = rows.broadcast(positives.index)
    split = zip(which, _split_rows(score, label, rows, options), strict=True)
    return tuple(tally_items(positives.scores[row], negative) for row, (_, negative, _) in split)


def add_tallies(parts: Any, axis: Any = None, keepdims: Any = None) -> tuple[Counts, ...]:
    """Add up the counts of several chunks; for the other arguments, see :func:`merge_positives`."""
    return tuple(_sum_of(counts) for counts in zip(*_listed(parts), strict=True))


def _sum_of(counts: Sequence[Counts]) -> Counts:
    """Add up counts in the narrowest type that cannot overflow."""
    total = np.zeros(counts[0].shape, np.min_scalar_type(sum(int(part.max(initial=0)) for part in counts)))
    for part in counts:
        total += part
    return total


def finish_rankings(
    named: dict[str, Any], options: EvaluationOptions, facts: tuple[str, ...], *, is_fixed: bool
) -> Evaluated:
    """Return from the counts of both passes what `evaluate_rankings` returns for whole rankings."""
    from aucpr_dask.kernels.chunked_items import finish_tally
    from aucpr_dask.kernels.options import N_COLUMNS

    positives, rows, which, n_given = _unfolded(named)
    targets, reading = targets_of(options, facts, is_fixed=is_fixed), reading_of(options)
    out = np.empty((which.size, targets.codes.size + N_COLUMNS))
    n_distinct = np.count_nonzero(~np.isnan(positives.distinct), axis=1)
    for row, source in enumerate(which):
        counts = positives.times[source], named["tally"][source], positives.classes[source]
        out[row] = finish_tally(*counts, n_given[row], int(n_distinct[source]), reading, targets)
    return finished(out, rows, options, facts)
