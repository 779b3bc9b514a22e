"""P-values adjusted for a family of comparisons.

Westfall and Young (1993), Resampling-Based Multiple Testing. Romano and Wolf (2005), doi:10.1198/016214504000000539,
and (2016), doi:10.1016/j.spl.2016.02.012. Holm (1979), Scandinavian Journal of Statistics 6, 65-70. Benjamini and
Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.
"""

from __future__ import annotations

import numpy as np

from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.replicates import JointReplicates, checked_pairs, panels, shares
from aucpr_dask.inference.families.statistics import PairStatistics, pair_statistics, studentise


def single_step(statistics: PairStatistics) -> Floats:
    """P-values adjusted by single-step max-T: (1 + #{max_j |t_j*| >= |t_i|}) / (1 + R)."""
    below = np.searchsorted(np.sort(statistics.maximum), statistics.reach, side="left")
    return shares(statistics.maximum.size - below, statistics.maximum[np.newaxis], statistics.complete)


def romano_wolf(
    sample: JointReplicates,
    first: Indices,
    second: Indices,
    *,
    statistics: PairStatistics | None = None,
    panel_bytes: int = PANEL_BYTES,
) -> Floats:
    """P-values adjusted by step-down max-T: each pair against the maximum over itself and the pairs with smaller |t|.

    With pairs in descending order of |t|, p_(i) = max(p_(i-1), (1 + #{max_{j >= i} |t_(j)*| >= |t_(i)|}) / (1 + R)).
    """
    from aucpr_dask.kernels.differences import tally

    first, second = checked_pairs(sample, first, second)
    reach = (statistics or pair_statistics(sample, first, second, panel_bytes=panel_bytes)).reach
    upwards = np.argsort(reach, kind="stable")
    p_value = np.empty(first.size)
    maximum = np.zeros(sample.centred.shape[1])
    for panel in panels(first.size, sample, panel_bytes):
        pairs = upwards[panel]
        j, k = first[pairs], second[pairs]
        sizes, _, _ = studentise(sample, j, k)
        attained = tally(sizes, reach[pairs], maximum, is_cumulative=True)  # the maximum over the pair and smaller ones
        p_value[pairs] = shares(attained, sizes, sample.complete)
    downwards = upwards[::-1]
    p_value[downwards] = np.maximum.accumulate(p_value[downwards])
    return p_value


def holm(p_value: Floats) -> Floats:
    """P-values adjusted by Holm's step-down procedure, which controls the familywise error rate."""
    order = np.argsort(p_value, kind="stable")
    adjusted = np.empty(p_value.size)
    adjusted[order] = np.maximum.accumulate(p_value[order] * np.arange(p_value.size, 0, -1))
    return np.minimum(adjusted, 1)


def benjamini_hochberg(p_value: Floats) -> Floats:
    """P-values adjusted by the procedure of Benjamini and Hochberg, which controls the false discovery rate."""
    from scipy import stats  # its import takes half a second, and most calls do not need it

    return np.asarray(stats.false_discovery_control(p_value, method="bh"), np.float64)
