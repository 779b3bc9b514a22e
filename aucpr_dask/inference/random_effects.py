"""Random effects over data sets: mean differences of models whose variances within each data set are known.

Data sets count alike, unless the caller weighs them by precision, or reads a regression on their size off at the mean
size: weights that follow size estimate another number where the effect depends on size.

With d_j the difference of two models on data set j, v_j its variance and delta_j what many more items would show,
``d_j ~ N(delta_j, v_j)`` and ``delta_j ~ N(mu, tau^2)``. Results for a pair depend on that pair alone, and are
bit-for-bit identical for any other models.

Paule & Mandel 1982, doi:10.6028/jres.087.022 (tau). Hartung & Knapp 2001, doi:10.1002/sim.1009, Sidik & Jonkman 2002,
doi:10.1002/sim.1262 (intervals), and 2006, doi:10.1016/j.csda.2005.07.019 (robust errors). Higgins, Thompson &
Spiegelhalter 2009, doi:10.1111/j.1467-985X.2008.00552.x (prediction). Nagashima, Noma & Furukawa 2019,
doi:10.1177/0962280218773520 (prediction with what tau may be). Röver 2020, doi:10.18637/jss.v093.i06 (posterior
distributions on a grid).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from aucpr_dask.inference.methods import Goal, Pairs, Student, student_pairs
from aucpr_dask.inference.pairs import errors_from_units, parametric_quantile, slices
from aucpr_dask.inference.units import Floats, Indices
from aucpr_dask.schema.terms import p_value_in_words

MOST_STEPS = 200  # of Newton's method: from far too small, each doubles tau
CONVERGED = 1e-15  # relative
_NEWTON_STEPS = 12
FEW_DATA_SETS = 5  # with fewer, differences that happen to agree do not narrow an interval
LEAST_SCATTER = 0.05  # of its distribution: tau^2 is below the one that expects this little 19 times in 20
UNSEEN = 0.5  # of a positive, misranked in data sets that both models rank perfectly
DEPENDS = 0.05  # p-value from which a sentence says that a difference depends on size
LEAST_RANGE = np.log10(2)  # between the logarithms of the smallest and the largest size
LEAST_PREDICTED = 3  # data sets, to predict another
OF_CHANCE = 0.9  # of the variances within data sets surely is: coverage of predictions is then nearest to the level
PRIOR_SCALE, PRIOR_DEGREES = 0.1, 4  # of tau: half a Student distribution
_COARSE = np.log(PRIOR_SCALE) + np.arange(-40.0, 12.0, 0.5)  # of log(tau)
_FINE = np.linspace(0.0, 1.0, 201)
_NEGLIGIBLE = 30.0  # e^-30 of the largest density
LEAST_VARIANCE = 1e-24  # where models rank alike in all data sets
_LEAST_PAIRS = 8  # of a panel
_NODES, _WEIGHTS = (one / 2 for one in np.polynomial.legendre.leggauss(6))
_SHARES, _WEIGHTS = (0.5 - _NODES) ** 2, 2 * (0.5 - _NODES) * _WEIGHTS  # of scatter, closer where tau is large


@dataclass(frozen=True)
class Effects:
    """What random effects say of P pairs, by weights that follow precision."""

    mean: Floats
    error: Floats
    tau: Floats
    i_squared: Floats
    weight: Floats  # (P, D)


def random_effects(effect: Floats, variance: Floats, *, are_estimated: bool = False) -> Effects:
    """Return the mean, its error, and the heterogeneity of effects (P, D) with known variances.

    ``tau`` is Paule and Mandel's, ``i_squared`` its share ``tau^2 / (tau^2 + s^2)`` with s^2 the typical variance. The
    error is Hartung and Knapp's. With estimated variances it was too small (intervals held 0.88 to 0.95 with 5 unequal
    data sets): where effects agree by chance, tau is 0 and weights by size are too unequal, and a data set may vary
    more than its size says. There, weights take the upper 95 % limit of tau, and the error is Sidik and Jonkman's, by
    what each data set adds to the scatter (0.93 to 0.97).
    """
    degrees = effect.shape[1] - 1
    square = weighing = _paule_mandel(effect, variance, degrees)
    if are_estimated:
        weighing = _paule_mandel(effect, variance, 2 * scipy.special.gammaincinv(degrees / 2, LEAST_SCATTER))
    weight, mean, spread = _weighted(effect, variance, weighing)
    total = weight.sum(axis=1)
    if are_estimated:
        share = weight / total[:, None]
        squared = (share**2 / (1 - share) * (effect - mean[:, None]) ** 2).sum(axis=1)
    else:
        squared = np.where(square > 0, degrees, spread) / degrees / total
    if degrees + 1 < FEW_DATA_SETS:
        squared = np.maximum(squared, 1 / (1 / (variance + square[:, None])).sum(axis=1))
    fixed = 1 / variance
    total = fixed.sum(axis=1)
    typical = degrees * total / (total**2 - (fixed**2).sum(axis=1))
    return Effects(mean, np.sqrt(squared), np.sqrt(square), square / (square + typical), weight)


def on_size(effect: Floats, variance: Floats, weight: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Regress effects (P, D) on the logarithm of size, which is in proportion to 1 over the variance.

    Return what it says at the mean of the logarithms, its error, by how much the effect grows where size is ten times
    as large, and the p-value of that (Egger et al. 1997, doi:10.1136/bmj.315.7109.629). Where sizes hardly differ they
    say nothing, so the last two are NaN, and the first those of data sets that count alike.
    """
    size = -np.log10(variance)
    size = size - size.mean(axis=1, keepdims=True)
    total, first, second = (np.sum(weight * size**power, axis=1) for power in range(3))
    determinant = total * second - first**2
    is_known = np.ptp(size, axis=1) >= LEAST_RANGE
    scale = np.divide(1.0, determinant, out=np.full(total.shape, np.nan), where=is_known)
    of_effect, of_both = (weight * effect).sum(axis=1), (weight * effect * size).sum(axis=1)
    centre, slope = scale * (second * of_effect - first * of_both), scale * (total * of_both - first * of_effect)
    degrees = effect.shape[1] - 2
    residual = effect - centre[:, None] - slope[:, None] * size
    spread = (weight * residual**2).sum(axis=1) / max(degrees, 1)
    error, of_slope = np.sqrt(spread * scale * second), np.sqrt(spread * scale * total)
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * scipy.special.stdtr(degrees, -np.abs(slope / of_slope)) if degrees > 0 else slope * np.nan
    alike = effect.mean(axis=1), effect.std(axis=1, ddof=1) / np.sqrt(effect.shape[1])
    return np.where(is_known, centre, alike[0]), np.where(is_known, error, alike[1]), slope, p_value


def _weighted(effect: Floats, variance: Floats, square: Floats) -> tuple[Floats, Floats, Floats]:
    weight = 1 / (variance + square[:, None])
    mean: Floats = (weight * effect).sum(axis=1) / weight.sum(axis=1)
    spread: Floats = (weight * (effect - mean[:, None]) ** 2).sum(axis=1)
    return weight, mean, spread


def _paule_mandel(effect: Floats, variance: Floats, expected: float, least: Floats | float = 0.0) -> Floats:
    """Return the tau^2, no less than `least`, at which effects scatter as much as expected; 0 if they scatter less."""
    square, rows = np.zeros(len(effect)) + least, np.arange(len(effect))
    for _ in range(MOST_STEPS):  # the excess falls and is convex, so steps from below never go too far
        weight, mean, spread = _weighted(effect[rows], variance[rows], square[rows])
        slope = (weight**2 * (effect[rows] - mean[:, None]) ** 2).sum(axis=1)
        step = np.divide(spread - expected, slope, out=np.zeros(rows.size), where=slope > 0)
        moves = step > CONVERGED * square[rows]
        rows, step = rows[moves], step[moves]
        if not rows.size:
            break
        square[rows] += step
    return square


def predicted(effect: Floats, variance: Floats, level: float, *, alike: bool = False) -> Floats:
    """Return half the width of an interval for a new data set: a quantile over all that tau may be.

    The scatter of effects at the true tau follows a chi-square distribution. So the tau^2 at which they scatter as much
    as its quantiles are quantiles of what tau^2 may be, and given one of them a new effect is normal. Paule and
    Mandel's tau alone is often 0 by chance: with it, intervals held 0.73 to 0.98. Scatter is put down to chance only as
    far as it surely is: if all of the variances is, intervals held 0.93 where tau is half of a standard error. The mean
    around which it lies is that of data sets that count `alike`, or by precision.
    """
    variance = OF_CHANCE * variance
    square, spreads = np.zeros(len(effect)), []
    for expected in 2 * scipy.special.gammaincinv((effect.shape[1] - 1) / 2, _SHARES):
        square = _paule_mandel(effect, variance, expected, square)
        spreads.append(np.sqrt(square + _of_mean(variance + square[:, None], alike=alike)))
    spread = np.stack(spreads, axis=1)
    half: Floats = scipy.special.ndtri(0.5 + level / 2) * spread.min(axis=1)
    for _ in range(_NEWTON_STEPS):  # the share beyond is convex, so steps from below never go too far
        z = half[:, None] / spread
        excess = (_WEIGHTS * 2 * scipy.special.ndtr(-z)).sum(axis=1) - (1 - level)
        half = half + excess / (_WEIGHTS * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) / spread).sum(axis=1)
    return half


def _of_mean(variance: Floats, *, alike: bool) -> Floats:
    """Return the variance of the mean of independent effects (..., D), which count alike or by precision."""
    found: Floats = variance.mean(axis=-1) / variance.shape[-1] if alike else 1 / (1 / variance).sum(axis=-1)
    return found


def posterior(effect: Floats, variance: Floats, margin: float, *, alike: bool = False) -> Floats:
    """Return P(better), P(equivalent), P(worse) for the mean and for a new data set: (P, 2, 3).

    The prior of mu is flat, that of tau half a Student distribution. Given tau, mu is normal; tau is on a grid. The
    mean is that of data sets that count `alike`, or by precision.
    """
    density, *_ = _given_tau(effect, variance, np.broadcast_to(_COARSE, (len(effect), _COARSE.size)))
    likely = density > density.max(axis=1, keepdims=True) - _NEGLIGIBLE
    last = _COARSE.size - 1
    lowest = _COARSE[np.maximum(likely.argmax(axis=1) - 1, 0)][:, None]
    highest = _COARSE[np.minimum(last - likely[:, ::-1].argmax(axis=1) + 1, last)][:, None]
    log_tau = lowest + (highest - lowest) * _FINE
    density, mean, square = _given_tau(effect, variance, log_tau)
    if alike:
        mean = np.broadcast_to(effect.mean(axis=1, keepdims=True), mean.shape)
        square = _of_mean(variance[:, None, :] + np.exp(2 * log_tau)[:, :, None], alike=True)
    weight = np.exp(density - density.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    shares = np.empty((len(effect), 2, 3))
    for place, spread in enumerate((np.sqrt(square), np.sqrt(square + np.exp(2 * log_tau)))):
        better = (weight * scipy.special.ndtr((mean - margin) / spread)).sum(axis=1)
        worse = (weight * scipy.special.ndtr((-mean - margin) / spread)).sum(axis=1)
        shares[:, place] = np.stack([better, np.maximum(1 - (better + worse), 0.0), worse], axis=-1)
    return shares


def _given_tau(effect: Floats, variance: Floats, log_tau: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the log density of log(tau) (P, G), up to a constant, and the mean and variance of mu given tau."""
    tau = np.exp(log_tau)
    weight = 1 / (variance[:, None, :] + tau[:, :, None] ** 2)
    total = weight.sum(axis=2)
    mean = (weight * effect[:, None, :]).sum(axis=2) / total
    spread = (weight * (effect[:, None, :] - mean[:, :, None]) ** 2).sum(axis=2)
    log_prior = -(PRIOR_DEGREES + 1) / 2 * np.log1p((tau / PRIOR_SCALE) ** 2 / PRIOR_DEGREES)
    density = log_prior + log_tau + (np.log(weight).sum(axis=2) - np.log(total) - spread) / 2
    return density, mean, 1 / total


OF_SIZES = ("equal_difference", "precision_difference", "size_slope", "size_p")
OF_SETS = ("prediction_interval", "tau", "i_squared", *OF_SIZES)


def of_sizes(weights: str, equal: float, precise: float, slope: float, p_value: float) -> str:
    """Say what the mean is by `OTHER_WEIGHTS`, and whether the difference depends on the size of data sets.

    >>> of_sizes("equal", -0.004, 0.0214, 0.15, 0.003)
    '+0.0214 (it grows by +0.150 where a data set is ten times as large, p = 0.003)'
    """
    said = f"{precise if weights == 'equal' else equal:+.4f}"
    if p_value <= DEPENDS:
        said += f" (it grows by {slope:+.3f} where a data set is ten times as large, {p_value_in_words(p_value)})"
    return said


OTHER_WEIGHTS = {"equal": "weighted by precision"} | dict.fromkeys(("precision", "regression"), "with equal weights")


class RandomEffects(Student):
    """The mean difference over data sets like these, which count alike, by precision, or by a regression on size."""

    def __init__(
        self, values: Floats, variance: Floats, sizes: Floats | None, goal: Goal, weights: str = "equal"
    ) -> None:
        super().__init__(values, goal)
        self.variance, self.sizes, self.weights = variance, sizes, weights  # (D, M, M), of differences; (M, D)
        self.degrees -= weights == "regression"
        self.more = (*OF_SETS, *(["probability"] if goal.margin is not None else []))

    def sizes_in_words(self, family: Pairs) -> list[str]:
        """Say for each pair what other weights give, and whether the difference depends on size."""
        found = (family.more[name] for name in OF_SIZES)
        return [of_sizes(self.weights, *map(float, one)) for one in zip(*found, strict=True)]

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """Return tests and intervals by random effects, and with a margin the posterior probabilities."""
        margin, n_sets, alike = self.goal.margin, self.values.shape[1], self.weights == "equal"
        mean, error, tau, i_squared, half, equal, precise, slope, p_size = np.zeros((9, first.size))
        probability = np.empty((first.size, 2, 3))
        for panel in slices(first.size, 8 * n_sets * (1 if margin is None else _FINE.size), _LEAST_PAIRS):
            j, k = first[panel], second[panel]
            effect = self.values[j] - self.values[k]
            own = np.ascontiguousarray(self.variance[:, j, k].T)
            sizes = None if self.sizes is None else np.minimum(self.sizes[j], self.sizes[k])
            variance = known_variances(own, sizes)
            found = random_effects(effect, variance, are_estimated=sizes is not None)
            regressed = on_size(effect, variance, found.weight)
            equal[panel], precise[panel], tau[panel] = effect.mean(axis=1), found.mean, found.tau
            slope[panel], p_size[panel] = regressed[2:]
            mean[panel], error[panel] = {
                "equal": (equal[panel], errors_from_units(self.values, j, k)),
                "precision": (found.mean, found.error),
                "regression": regressed[:2],
            }[self.weights]
            if sizes is not None:  # agreement of two perfect rankings is not known from none of their positives
                is_blind = (own <= 0) & (np.minimum(self.values[j], self.values[k]) >= 1)
                error[panel] = np.maximum(error[panel], UNSEEN * is_blind.mean(axis=1) / sizes.sum(axis=1))
                least = parametric_quantile(self.goal.level, n_sets - 1) * error[panel]  # as for the mean
                surely = surely_of_chance(own, variance, sizes)
                half[panel] = np.maximum(least, predicted(effect, surely, self.goal.level, alike=alike))
            i_squared[panel] = found.i_squared
            if margin is not None:
                probability[panel] = posterior(effect, variance, margin, alike=alike)
        if n_sets < LEAST_PREDICTED:
            half[:] = np.nan
        elif self.sizes is None:
            half = parametric_quantile(self.goal.level, n_sets - 2) * np.sqrt(tau**2 + error**2)
        more = {"prediction_interval": np.stack([mean - half, mean + half], -1), "tau": tau, "i_squared": i_squared}
        more |= {"equal_difference": equal, "precision_difference": precise, "size_slope": slope, "size_p": p_size}
        result = student_pairs(first, second, mean, error, self.degrees, self.goal)
        if result.equivalence is not None:
            inside = replace(result.equivalence, share_inside=probability[:, 0, 1])
            return replace(result, more=more | {"probability": probability}, equivalence=inside)
        return replace(result, more=more)


def known_variances(variance: Floats, sizes: Floats | None) -> Floats:
    """Return the variances (P, D) by which data sets weigh.

    With the sizes n_j (P, D) of the pairs they are c / n_j, c the mean of n_j v_j. An estimated v_j is small where
    chance, or an easy data set, brings both areas near 1 and so the difference near 0: as weights, these would pull the
    mean to 0. Without sizes they are taken as given, but a variance of 0, which would outweigh all others, is the
    median of the rest.
    """
    variance = np.where((variance > 0).any(axis=1, keepdims=True), variance, LEAST_VARIANCE)
    if sizes is not None:
        pooled: Floats = (variance * sizes).mean(axis=1, keepdims=True) / sizes
        return pooled
    typical = np.nanmedian(np.where(variance > 0, variance, np.nan), axis=1, keepdims=True)
    return np.where(variance > 0, variance, typical)


def surely_of_chance(own: Floats, pooled: Floats, sizes: Floats) -> Floats:
    """Return pooled variances less their standard error, which is large where areas are near 1."""
    error = (own * sizes).std(axis=1, ddof=1, keepdims=True) / np.sqrt(sizes.shape[-1])
    surely: Floats = np.maximum(pooled - error / sizes, LEAST_VARIANCE)
    return surely
