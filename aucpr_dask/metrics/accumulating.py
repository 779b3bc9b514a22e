"""Average precision of items that arrive in parts, in one pass and bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from threading import RLock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError, MissingScoresError, brief
from aucpr_dask.evaluation.alignment import refuse_swapped
from aucpr_dask.metrics import targets
from aucpr_dask.schema.checks import are_rounded, check_labels, choose
from aucpr_dask.schema.terms import PADDING, Sentences

BINS = ("adaptive", "fixed")
SHOWN_DIGITS = 6


@dataclass(frozen=True, repr=False)
class AreaBounds(Sentences):
    """Bounds of average precision; without positives, they are NaN.

    Attributes
    ----------
    lower, upper : float
        Average precision is one of these or between them; if they are equal, it is exact.
    n_positive, n_negative : int
        The items counted.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> bounds = ap.Accumulator().update([0.1, 0.4, 0.8], [0, 1, 1]).compute()
    >>> bounds.lower, bounds.upper, bounds.n_positive
    (1.0, 1.0, 2)
    """

    lower: float
    upper: float
    n_positive: int
    n_negative: int

    def __repr__(self) -> str:
        counted = f"{self.n_positive + self.n_negative:,} items, {self.n_positive:,} positives"
        if self.n_positive == 0:
            return f"average precision undefined ({counted})"
        if self.lower == self.upper:
            return f"average precision {self.lower:.{SHOWN_DIGITS}f}, exact ({counted})"
        unit = 10**SHOWN_DIGITS
        lower, upper = floor(self.lower * unit) / unit, ceil(self.upper * unit) / unit
        return f"average precision {lower:.{SHOWN_DIGITS}f} to {upper:.{SHOWN_DIGITS}f} ({counted})"


class Accumulator(Sentences):
    """Average precision of items that arrive in parts, with certified bounds.

    Positives and negatives are counted in bins of scores. The bounds are the lowest and the highest area for any order
    and any ties of the items within each bin. The result is the same, bit for bit, in whatever order items arrive and
    parts are merged.

    Adaptive bins hold scores that, as integers in the same order, are equal but for their lowest L bits, and L is the
    least for which the bins in use fit into memory. Thus the result is exact, ``lower == upper``, as long as all
    distinct scores fit: about a million in 64 MiB. The order leaves no trace because L and all counts depend on the set
    of items alone: more items never need a smaller L, and counting at L is the same as counting at less and joining.

    Fixed bins are the same for all data, 2**14 for each power of 2 from 2**-40 to 2**24 in 64 MiB. Their `counts` are
    one array, and arrays of different items add up, in collective sums such as ``torch.distributed.all_reduce`` too.
    Ties are known in bins of a single item, and of items on the edge of a bin: 0, 1, and numbers of few bits.

    Several threads may update one accumulator; they take turns.

    Parameters
    ----------
    bins : {"adaptive", "fixed"}
        How scores are binned.
    memory : int
        Most bytes of the counts, at least 1 MiB. Small data take less. Merging, pickling and computing take up to three
        times as much for a moment, and so does updating while the counts grow.

    See Also
    --------
    aucpr_dask.estimate : exact, for data in memory or in Dask arrays.

    Examples
    --------
    >>> import numpy as np, aucpr_dask as ap
    >>> rng = np.random.default_rng(0)
    >>> total = ap.Accumulator()
    >>> for _ in range(3):
    ...     label = rng.random(1000) < 0.1
    ...     _ = total.update(rng.normal(size=1000) + 1.5 * label, label)
    >>> total.compute()
    average precision 0.462213, exact (3,000 items, 305 positives)
    >>> other = ap.Accumulator().update([0.9, 0.1], [1, 0])
    >>> total.merge(other)
    Accumulator: average precision 0.461877, exact (3,002 items, 306 positives)
    """

    def __init__(self, bins: str = "adaptive", *items: Any, memory: int = 1 << 26) -> None:
        from aucpr_dask.kernels.binned_scores import LEAST_MEMORY, MOST_MEMORY, AdaptiveBins, FixedBins

        if items:
            what, remedy = "an accumulator starts without items", "ap.Accumulator().update(score, label)"
            raise InvalidInputError(what, "the arguments", f"{1 + len(items)} of them", "how scores are binned", remedy)
        if not isinstance(memory, int | np.integer) or not LEAST_MEMORY <= memory <= MOST_MEMORY:
            what = "memory must be a number of bytes from 1 MiB to 64 GiB"
            allowed = f"integers from {LEAST_MEMORY} to {MOST_MEMORY}"
            raise InvalidInputError(
                what, "option 'memory'", brief(memory), allowed, "give bytes, such as 2**24 for 16 MiB"
            )
        self._turn = RLock()
        self._settings = choose(BINS, bins, "bins"), int(memory)
        self._bins: AdaptiveBins | FixedBins = (AdaptiveBins if bins == "adaptive" else FixedBins)(int(memory))

    def update(self, score: Any, label: Any) -> Self:
        """Count items.

        Parameters
        ----------
        score : array-like, shape (item,)
            Larger for positives; a list, or an array or tensor of any library. Infinities are scores.
        label : array-like, shape (item,)
            1 positive, 0 negative, -1 unjudged, which counts as negative, -2 padding, which doesn't count; or bool.

        Returns
        -------
        Accumulator
            Itself.

        Raises
        ------
        InvalidInputError
            Nothing has been counted then: scores or labels that are not numbers, other labels, different lengths.
        MissingScoresError
            NaN scores of items that are not padding. Nothing has been counted.
        """
        score, label = (
            targets.column(targets.read_array(array, name), name)
            for array, name in ((score, "score"), (label, "label"))
        )
        targets.check_lengths(score=score, label=label)
        refuse_swapped(score, label)
        check_labels(label, None, "argument 'label'", if_grades="compare them, such as label >= 2")
        if label.dtype.kind != "b" and (is_padding := label == PADDING).any():
            score, label = score[~is_padding], label[~is_padding]
        kind, size = score.dtype.kind, score.dtype.itemsize
        is_large = kind in "iu" and are_rounded(score)
        # Unless float64 holds all scores, in the same order and with the same ties.
        if kind not in targets.NUMBERS or (kind == "f" and size > 8) or is_large:
            received = f"dtype {score.dtype}" + (", beyond 2**53" if is_large else "")
            allowed = "floats of up to 64 bits, integers up to 2**53, bool"
            remedy = "convert them, in a way that keeps their order"
            raise targets.misfit("scores are not numbers that float64 holds", "score", received, allowed, remedy)
        if kind == "f" and (is_missing := np.isnan(score)).any():
            received = f"{int(is_missing.sum())} NaN of {score.size} scores"
            remedy = "leave these items out, or give them a score below all others, such as -inf"
            raise MissingScoresError("scores are missing", "argument 'score'", received, "numbers", remedy)
        with self._turn:
            self._bins.count(score, label == 1)
        return self

    def merge(self, other: Accumulator) -> Self:
        """Add the counts of another accumulator, which stays as it is; return this one."""
        if not isinstance(other, Accumulator) or other._settings != self._settings:
            bins, memory = self._settings
            received = brief(other._settings if isinstance(other, Accumulator) else other)
            allowed = f"Accumulator(bins={bins!r}, memory={memory})"
            remedy = "make all accumulators with the same options"
            raise targets.misfit("these cannot be merged", "other", received, allowed, remedy)
        both: list[Accumulator] = [self, other]
        first, second = sorted(both, key=id)  # in one order, so that no two threads wait for each other
        with first._turn, second._turn:
            self._bins.add(other._bins)  # type: ignore[arg-type]
        return self

    def compute(self) -> AreaBounds:
        """Return the bounds of average precision of all items so far."""
        from aucpr_dask.kernels.binned_scores import bound_area

        with self._turn:
            positives, negatives, is_tied = self._bins.tallies()
        return AreaBounds(*bound_area(positives, negatives, is_tied), int(positives.sum()), int(negatives.sum()))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The counts in fixed bins, writable; those of parts of the items add up."""
        from aucpr_dask.kernels.binned_scores import FixedBins

        if not isinstance(self._bins, FixedBins):
            what = "counts in adaptive bins do not add up as arrays"
            raise InvalidInputError(
                what, "attribute 'counts'", "bins='adaptive'", "bins='fixed'", 'use Accumulator("fixed"), or merge()'
            )
        return self._bins.counts

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _turn=RLock())

    def __repr__(self) -> str:
        return f"Accumulator: {self.compute()!r}"
