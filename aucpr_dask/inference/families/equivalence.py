"""Whether two models are equivalent up to a margin.

Schuirmann (1987), doi:10.1007/BF01068419. Benavoli, Corani, Demšar and Zaffalon (2017), JMLR 18(77).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.parametric import upper_tail
from aucpr_dask.inference.families.replicates import (
    JointReplicates,
    checked_pairs,
    count,
    panels,
    require_bootstrap,
    shares,
)
from aucpr_dask.inference.families.statistics import deviations_from_centre, stretch


@dataclass(frozen=True)
class Equivalence:
    """Whether the models of P pairs are equivalent up to a margin."""

    p_value: Floats  # the larger of the two one-sided tests: small where the difference is within the margin
    share_inside: Floats  # of the replicates, or of the parametric distribution
    decision: NDArray[np.str_]  # where the interval of level 1 - 2 alpha lies: "equivalent", "different", "undecided"


def equivalence(
    sample: JointReplicates,
    first: Indices,
    second: Indices,
    margin: float,
    *,
    alpha: float = 0.05,
    panel_bytes: int = PANEL_BYTES,
) -> Equivalence:
    """Test whether differences lie within [-margin, margin], from bootstrap replicates.

    With e* = d* - d, the p-values (1 + #{e* >= d + margin}) / (1 + R) and (1 + #{e* <= d - margin}) / (1 + R) are both
    at most alpha exactly where the basic bootstrap interval of level 1 - 2 alpha lies inside the region. If the sample
    has its units, e* is stretched as by :func:`stretch`, and the interval is that of the bootstrap-t.
    """
    _check_equivalence(margin, alpha)
    require_bootstrap(sample, "equivalence")
    first, second = checked_pairs(sample, first, second)
    tails = np.empty((4, first.size))
    share_inside = np.empty(first.size)
    for panel in panels(first.size, sample, panel_bytes):
        j, k = first[panel], second[panel]
        replicates = deviations_from_centre(sample, j, k)
        deviations = replicates
        if sample.units is not None:
            deviations = replicates.copy()
            stretch(deviations, sample, sample.units, j, k)
        difference = (sample.estimate[j] - sample.estimate[k])[:, np.newaxis]
        slack = (sample.resolution[j] + sample.resolution[k])[:, np.newaxis]
        reached = (
            deviations >= difference + margin - slack,
            deviations <= difference - margin + slack,
            deviations >= difference - margin - slack,
            deviations <= difference + margin + slack,
        )
        tails[:, panel] = [shares(count(mask), deviations, sample.complete) for mask in reached]
        replicates += difference
        share_inside[panel] = count(np.abs(replicates, out=replicates) <= margin + slack) / replicates.shape[1]
    return _equivalence(tails, share_inside, alpha)


def parametric_equivalence(
    difference: Floats, error: Floats, margin: float, *, alpha: float = 0.05, degrees: float | None = None
) -> Equivalence:
    """Test whether differences lie within [-margin, margin], under the normal distribution or Student's t."""
    _check_equivalence(margin, alpha)
    tails = [
        upper_tail(value, error, degrees)
        for value in (difference + margin, margin - difference, difference - margin, -difference - margin)
    ]
    return _equivalence(np.stack(tails), 1 - tails[0] - tails[1], alpha)


def _equivalence(tails: Floats, share_inside: Floats, alpha: float) -> Equivalence:
    """Decide from p-values (4, P): for lying above -margin, below margin, above margin, below -margin."""
    above_lower, below_upper, above_upper, below_lower = tails
    p_value = np.maximum(above_lower, below_upper)
    different = np.minimum(above_upper, below_lower) <= alpha
    decision = np.select([p_value <= alpha, different], ["equivalent", "different"], "undecided")
    return Equivalence(p_value, share_inside, decision)


def _check_equivalence(margin: float, alpha: float) -> None:
    if not (margin > 0 and np.isfinite(margin)):
        raise InvalidInputError("the margin of equivalence must be positive", received=repr(margin))
    if not 0 < alpha < 0.5:
        raise InvalidInputError("alpha must lie between 0 and 0.5", received=repr(alpha))
