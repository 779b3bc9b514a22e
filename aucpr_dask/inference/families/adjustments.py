"""P-values adjusted for a family of comparisons."""

from __future__ import annotations

import numpy as np

from aucpr_dask.inference.families.pairs import PANEL_BYTES, Floats, Indices
from aucpr_dask.inference.families.replicates import JointReplicates, checked_pairs, count, panels, shares
from aucpr_dask.inference.families.statistics import PairStatistics, pair_statistics, studentise


def single_step(statistics: PairStatistics) -> Floats:
    r"""P-values adjusted by the single-step max-T procedure (Westfall and Young).

    .. math:: p_i = \frac{1 + \#\{\max_j |t_j^*| \ge |t_i|\}}{1 + R}

    Holds the probability of any false claim in the family, and answers to the simultaneous intervals of
    :func:`max_t_quantile`.

    References
    ----------
    Westfall and Young (1993), Resampling-Based Multiple Testing. Dudoit, Shaffer and Boldrick (2003),
    doi:10.1214/ss/1056397487.

    Examples
    --------
    >>> from aucpr_dask.inference.families import all_pairs, joint_replicates
    >>> replicates = [[0.5, 0.5, 0.25], [0.75, 0.75, 0.5], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]
    >>> single_step(pair_statistics(joint_replicates([0.5, 0.5, 0.25], replicates), *all_pairs(3)))
    array([1. , 0.6, 0.6])
    """
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
    r"""P-values adjusted by the step-down max-T procedure of Romano and Wolf.

    With pairs ordered by falling size of the statistic,

    .. math:: p_{(i)} = \max\left(p_{(i-1)}, \frac{1 + \#\{\max_{j \ge i} |t_{(j)}^*| \ge |t_{(i)}|\}}{1 + R}\right):

    each pair is held against the maximum over itself and the pairs below it. Never larger than :func:`single_step`,
    with the same hold on the probability of any false claim in the family.

    References
    ----------
    Romano and Wolf (2005), doi:10.1198/016214504000000539; Romano and Wolf (2016), doi:10.1016/j.spl.2016.02.012.

    Examples
    --------
    >>> from aucpr_dask.inference.families import all_pairs, joint_replicates
    >>> replicates = [[0.5, 0.5, 0.25], [0.75, 0.75, 0.5], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]
    >>> romano_wolf(joint_replicates([0.5, 0.5, 0.25], replicates), *all_pairs(3))
    array([1. , 0.6, 0.6])
    """
    first, second = checked_pairs(sample, first, second)
    reach = (statistics or pair_statistics(sample, first, second, panel_bytes=panel_bytes)).reach
    upwards = np.argsort(reach, kind="stable")
    p_value = np.empty(first.size)
    maximum = np.zeros(sample.centred.shape[1])
    for panel in panels(first.size, sample, panel_bytes):
        pairs = upwards[panel]
        j, k = first[pairs], second[pairs]
        sizes, _, _ = studentise(sample, sample.centred[j] - sample.centred[k], j, k)
        for row in sizes:  # from below: the maximum over this pair and all smaller ones
            maximum = np.maximum(row, maximum, out=row)
        p_value[pairs] = shares(count(sizes >= reach[pairs, np.newaxis]), sizes, sample.complete)
    downwards = upwards[::-1]
    p_value[downwards] = np.maximum.accumulate(p_value[downwards])
    return p_value


def holm(p_value: Floats) -> Floats:
    """P-values adjusted by Holm's step-down procedure: holds the probability of any false claim in the family.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> holm(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.04])
    """
    order = np.argsort(p_value, kind="stable")
    adjusted = np.empty(p_value.size)
    adjusted[order] = np.maximum.accumulate(p_value[order] * np.arange(p_value.size, 0, -1))
    return np.minimum(adjusted, 1)


def benjamini_hochberg(p_value: Floats) -> Floats:
    """P-values adjusted by the procedure of Benjamini and Hochberg: holds the expected share of false claims.

    References
    ----------
    Benjamini and Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.03])
    """
    from scipy import stats  # its import takes half a second, which most calls can spare

    return np.asarray(stats.false_discovery_control(p_value, method="bh"), np.float64)
