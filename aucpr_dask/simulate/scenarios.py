"""Simulate score data sets whose true precision-recall curve and area are known.

A scenario is a pair of distributions, one of the scores of positives and one of the scores of
negatives. Let a share ``t`` of the positives lie above a threshold, and a share ``f(t)`` of the
negatives: at prevalence ``p`` the true precision at recall ``t`` is ``p t / (p t + (1 - p) f(t))``, and
its integral over ``t`` from 0 to 1 is the area that estimates approach.

The three scenarios and the default parameters are those of Boyd, Eng & Page 2013,
doi:10.1007/978-3-642-40994-3_29.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import betainc, betaincc, betaincinv, betaln, expit, logit, ndtr, ndtri

from aucpr_dask.errors import ChunkError, bad_argument, clash
from aucpr_dask.evaluation.alignment import elementwise
from aucpr_dask.schema.checks import choose, fraction, real, refuse_outside, whole_number
from aucpr_dask.schema.terms import ITEM, MODEL, SCORE_VARIABLES, check_names
from aucpr_dask.storage.stores import chunk_shape

__all__ = ["Scenario", "bibeta", "binormal", "offset_uniform"]

Floats = NDArray[np.float64]

LABEL_DESIGNS = ("exact", "binomial")
DTYPES = ("float32", "float64")

_SCORES, _LABELS = 0, 1  # each simulation has a random stream for each

# The area is integrated over the log odds of recall, on which tails of every kind decay exponentially.
_END = 60.0  # recalls nearer to 0 or 1 hold less than 1e-26 of the area
_BREAKS = (-20.0, -8.0, -4.0, 0.0, 4.0, 8.0, 20.0)


class Scenario(ABC):
    """A distribution of the scores of positives and one of the scores of negatives.

    Examples
    --------
    A scenario knows its true area, and draws samples whose estimates can be compared with it:

    >>> scenario = binormal()
    >>> round(scenario.area(0.1), 4), dict(scenario.sample(1000, 0.1, n_simulations=5).sizes)
    (0.2928, {'model': 5, 'item': 1000})
    """

    @abstractmethod
    def _recall(self, false_positive_rate: Any) -> Any:
        """Return the share of positives above the threshold that this share of the negatives exceed."""

    @abstractmethod
    def _false_positive_rate(self, recall: Any) -> Any:
        """Return the share of negatives above the threshold that a share `recall` of the positives exceed."""

    @abstractmethod
    def _negatives_per_positive_at_the_top(self) -> float:
        """Return the limit of false positive rate / recall at recall 0."""

    @abstractmethod
    def _draw(self, random: np.random.Generator, is_positive: NDArray[np.bool_]) -> Floats:
        """Draw a score for each item."""

    def _kinks(self) -> tuple[float, ...]:
        """Return the recalls at which the curve is not smooth."""
        return ()

    def sample(
        self,
        n_items: int,
        prevalence: float,
        *,
        n_simulations: int = 1,
        label_design: str = "exact",
        seed: int = 0,
        chunks: str | int | tuple[int, ...] = "auto",
        dtype: str = "float64",
        name: str | None = None,
    ) -> xr.Dataset:
        """Sample score data sets, lazily: each model of the Dataset is one simulation.

        The random streams of a simulation are keyed by the seed and the number of the simulation. The numbers are
        bit-for-bit identical for any chunks and any number of simulations.

        Parameters
        ----------
        n_items : int
            Items of each simulation.
        prevalence : float
            Share of positives, between 0 and 1.
        n_simulations : int
            How many simulations.
        label_design : {"exact", "binomial"}
            Whether every simulation has ``round(n_items * prevalence)`` positives, always the same items; or every
            item is positive with probability `prevalence`.
        seed : int
            Not negative.
        chunks : "auto", int or tuple of int
            Simulations in a Dask chunk; ``"auto"`` makes chunks of about 32 MiB.
        dtype : {"float64", "float32"}
            Type of the scores; float32 scores are rounded float64 scores.
        name : str, optional
            Prefix of the labels of the simulations; by default, the name of the scenario.

        Returns
        -------
        xarray.Dataset
            ``score(model, item)``, Dask-backed, and ``label(item)`` in memory if exact, or ``label(model, item)``,
            Dask-backed, if binomial.

        Examples
        --------
        >>> import aucpr_dask as ap
        >>> scores = ap.simulate.binormal().sample(2000, 0.1, n_simulations=50)
        >>> estimates = ap.evaluate(scores)["estimate"].compute()
        >>> print(f"{float(estimates.mean()):.2f}, truly {ap.simulate.binormal().area(0.1):.2f}")
        0.29, truly 0.29
        """
        n_items = whole_number(n_items, "n_items", 1, MOST_ITEMS)
        n_simulations = whole_number(n_simulations, "n_simulations", 1, MOST_SIMULATIONS)
        seed = whole_number(seed, "seed", 0)
        prevalence = fraction(prevalence, "prevalence")
        choose(LABEL_DESIGNS, label_design, "label_design")
        kind = np.dtype(choose(DTYPES, getattr(dtype, "name", getattr(dtype, "__name__", dtype)), "dtype"))
        name = type(self).__name__ if name is None else name
        check_names([name], "argument 'name'")
        rows = _row_chunks(chunks, (n_simulations, n_items), kind)
        number = xr.DataArray(
            da.arange(n_simulations, chunks=(rows,), dtype=np.int64),
            dims=MODEL,
            coords={MODEL: np.array([f"{name}-{i:06d}" for i in range(n_simulations)], dtype=object)},
        )
        if label_design == "exact":
            label = xr.DataArray(_exact_labels(n_items, prevalence, seed), dims=ITEM)
        else:
            label = xr.apply_ufunc(
                draw_labels,
                number,
                output_core_dims=[[ITEM]],
                kwargs={"n_items": n_items, "prevalence": prevalence, "seed": seed},
                dask="parallelized",
                output_dtypes=[np.int8],
                dask_gufunc_kwargs={"output_sizes": {ITEM: n_items}},
            )
        score = xr.apply_ufunc(
            draw_scores,
            number,
            label if label.chunks else label.chunk({ITEM: n_items}),
            input_core_dims=[[], [ITEM]],
            output_core_dims=[[ITEM]],
            kwargs={"scenario": self, "seed": seed, "dtype": kind},
            dask="parallelized",
            output_dtypes=[kind],
        )
        attrs = {"simulation": repr(self), "prevalence": prevalence, "n_positive": label_design, "seed": seed}
        scores = xr.Dataset({"score": score, "label": label}, attrs=attrs)
        for variable, array in scores.data_vars.items():
            array.attrs = {"description": SCORE_VARIABLES[str(variable)].description}
        return scores

    def curve(self, recall: Any, prevalence: Any) -> Any:
        """Compute the precision of the true curve, ``p t / (p t + (1 - p) f(t))``, or its limit at recall 0.

        Parameters
        ----------
        recall : array or DataArray, shape (...)
            Between 0 and 1; NaN gives NaN.
        prevalence : float, or array or DataArray that broadcasts against `recall`
            Between 0 and 1.

        Returns
        -------
        float, array or DataArray, shape (...)
            Precision.

        Examples
        --------
        >>> binormal().curve([0.25, 0.5, 1.0], 0.1).round(4)
        array([0.3714, 0.2593, 0.1   ])
        """
        return elementwise(partial(precision_at, scenario=self), recall=recall, prevalence=prevalence)

    def roc(self, false_positive_rate: Any) -> Any:
        """Compute the recall of the true ROC curve, the highest where the curve is vertical.

        Parameters
        ----------
        false_positive_rate : array or DataArray, shape (...)
            Between 0 and 1; NaN gives NaN.

        Returns
        -------
        float, array or DataArray, shape (...)
            Recall (true positive rate).

        Examples
        --------
        >>> offset_uniform().roc([0.0, 0.25, 1.0])
        array([0.5 , 0.75, 1.  ])
        """
        return elementwise(partial(recall_at, scenario=self), false_positive_rate=false_positive_rate)

    def area(self, prevalence: float) -> float:
        """Integrate the true precision over recall, by adaptive quadrature.

        Parameters
        ----------
        prevalence : float
            Between 0 and 1.

        Returns
        -------
        float
            The area under the true precision-recall curve, with a relative error of about 1e-11.

        Examples
        --------
        >>> [round(scenario.area(0.1), 10) for scenario in (binormal(), bibeta(), offset_uniform())]
        [0.2928356435, 0.8095867743, 0.6579052873]
        """
        prevalence = fraction(prevalence, "prevalence")

        def integrand(log_odds: float) -> float:
            recall = expit(log_odds)
            return float(_precision(self, recall, prevalence) * recall * expit(-log_odds))

        kinks = (float(logit(kink)) for kink in self._kinks() if 0 < kink < 1)
        points = sorted({*_BREAKS, *(kink for kink in kinks if abs(kink) < _END)})
        value, _ = quad(integrand, -_END, _END, points=points, epsabs=1e-13, epsrel=1e-11, limit=1000)
        return min(float(value), 1.0)


@dataclass(frozen=True)
class binormal(Scenario):
    """Normal scores: positives N(mu, sigma^2), negatives N(0, 1).

    The false positive rate at recall t is ``f(t) = Phi(sigma Phi^-1(t) - mu)``.
    Unless sigma is 1 the true ROC curve is not concave: precision tends to 1 (sigma > 1) or 0 (sigma < 1)
    at recall 0.
    See Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29.

    Parameters
    ----------
    mu : float
        Mean of the positives.
    sigma : float
        Standard deviation of the positives.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.simulate.binormal()
    binormal(mu=1.0, sigma=1.0)
    >>> round(ap.simulate.binormal(mu=2.0).area(0.01), 10)
    0.2690203204
    """

    mu: float = 1.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        _check_parameters(self, positive=("sigma",))

    def _recall(self, false_positive_rate: Any) -> Any:
        return ndtr((self.mu + ndtri(false_positive_rate)) / self.sigma)

    def _false_positive_rate(self, recall: Any) -> Any:
        return ndtr(self.sigma * ndtri(recall) - self.mu)

    def _negatives_per_positive_at_the_top(self) -> float:
        if self.sigma != 1:
            return 0.0 if self.sigma > 1 else math.inf  # only the wider distribution reaches the top
        return 1.0 if self.mu == 0 else 0.0 if self.mu > 0 else math.inf

    def _draw(self, random: np.random.Generator, is_positive: NDArray[np.bool_]) -> Floats:
        standard = random.standard_normal(is_positive.size)
        return np.where(is_positive, self.mu + self.sigma * standard, standard)


@dataclass(frozen=True)
class bibeta(Scenario):
    """Beta scores: positives B(positive_a, positive_b), negatives B(negative_a, negative_b).

    With I the regularised incomplete beta function, the false positive rate at recall t is
    ``f(t) = 1 - I(s; negative_a, negative_b)`` at the score s where ``1 - I(s; positive_a, positive_b) = t``.
    With shapes far below 1, many scores round to 0 or 1, and a sample has ties that the true curve does not have.
    See Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29.

    Parameters
    ----------
    positive_a, positive_b : float
        Shape of the positives.
    negative_a, negative_b : float
        Shape of the negatives.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.simulate.bibeta()
    bibeta(positive_a=5.0, positive_b=2.0, negative_a=2.0, negative_b=5.0)
    >>> round(ap.simulate.bibeta().area(0.01), 10)
    0.4906356424
    """

    positive_a: float = 5.0
    positive_b: float = 2.0
    negative_a: float = 2.0
    negative_b: float = 5.0

    def __post_init__(self) -> None:
        _check_parameters(self, positive=("positive_a", "positive_b", "negative_a", "negative_b"))

    def _recall(self, false_positive_rate: Any) -> Any:
        positives, negatives = (self.positive_a, self.positive_b), (self.negative_a, self.negative_b)
        return _share_above(false_positive_rate, negatives, positives)

    def _false_positive_rate(self, recall: Any) -> Any:
        positives, negatives = (self.positive_a, self.positive_b), (self.negative_a, self.negative_b)
        return _share_above(recall, positives, negatives)

    def _negatives_per_positive_at_the_top(self) -> float:
        if self.positive_b != self.negative_b:
            return 0.0 if self.positive_b < self.negative_b else math.inf
        return math.exp(betaln(self.positive_a, self.positive_b) - betaln(self.negative_a, self.negative_b))

    def _draw(self, random: np.random.Generator, is_positive: NDArray[np.bool_]) -> Floats:
        a = np.where(is_positive, self.positive_a, self.negative_a)
        b = np.where(is_positive, self.positive_b, self.negative_b)
        return random.beta(a, b)


@dataclass(frozen=True)
class offset_uniform(Scenario):
    """Uniform scores, those of the positives shifted: positives U(gamma, 1 + gamma), negatives U(0, 1).

    The false positive rate at recall t is ``f(t) = min(max(t - gamma, 0), 1)``. For gamma between 0 and 1
    the area has the closed form
    ``gamma + p (1 - gamma) + p (1 - p) gamma log((1 - (1 - p) gamma) / (p gamma))``.
    See Boyd, Eng & Page 2013, doi:10.1007/978-3-642-40994-3_29.

    Parameters
    ----------
    gamma : float
        Shift of the positives; from 1 they all rank first, below -1 they all rank last.

    Examples
    --------
    >>> import aucpr_dask as ap
    >>> ap.simulate.offset_uniform()
    offset_uniform(gamma=0.5)
    >>> round(ap.simulate.offset_uniform().area(0.01), 10)
    0.5278448466
    """

    gamma: float = 0.5

    def __post_init__(self) -> None:
        _check_parameters(self)

    def _recall(self, false_positive_rate: Any) -> Any:
        return np.where(false_positive_rate == 1, 1.0, np.clip(false_positive_rate + self.gamma, 0, 1))

    def _false_positive_rate(self, recall: Any) -> Any:
        return np.clip(recall - self.gamma, 0, 1)

    def _negatives_per_positive_at_the_top(self) -> float:
        return 1.0 if self.gamma == 0 else 0.0 if self.gamma > 0 else math.inf

    def _draw(self, random: np.random.Generator, is_positive: NDArray[np.bool_]) -> Floats:
        return random.random(is_positive.size) + self.gamma * is_positive

    def _kinks(self) -> tuple[float, ...]:
        return self.gamma, 1 + self.gamma


# The only functions that enter a graph


def draw_labels(number: NDArray[np.int64], *, n_items: int, prevalence: float, seed: int) -> NDArray[np.int8]:
    """Draw independent labels for each simulation; ``() -> (item)``."""
    label = np.empty((*number.shape, n_items), dtype=np.int8)
    for index in np.ndindex(number.shape):
        label[index] = _stream(seed, int(number[index]), _LABELS).random(n_items) < prevalence
    return label


def draw_scores(
    number: NDArray[np.int64], label: NDArray[np.int8], *, scenario: Scenario, seed: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Draw the scores of each simulation, given its labels; ``(), (item) -> (item)``."""
    is_positive = np.broadcast_to(label == 1, (*number.shape, label.shape[-1]))
    score = np.empty(is_positive.shape, dtype=dtype)
    for index in np.ndindex(number.shape):
        score[index] = scenario._draw(_stream(seed, int(number[index]), _SCORES), is_positive[index])
    return score


def precision_at(recall: Floats, prevalence: Floats, *, scenario: Scenario) -> Floats:
    """Compute the true precision; the arguments broadcast."""
    _check_shares(recall, "recall")
    _check_shares(prevalence, "prevalence", open_ends=True)
    precision: Floats = _precision(scenario, recall, prevalence)
    return precision


def recall_at(false_positive_rate: Floats, *, scenario: Scenario) -> Floats:
    """Compute the true recall."""
    _check_shares(false_positive_rate, "false_positive_rate")
    recall: Floats = scenario._recall(false_positive_rate)
    return recall


def _precision(scenario: Scenario, recall: Any, prevalence: Any) -> Any:
    limit = scenario._negatives_per_positive_at_the_top()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(recall == 0, limit, scenario._false_positive_rate(recall) / recall)
        # The odds of a tiny prevalence are infinite, but without negatives above, all items above are positives.
        return np.where(ratio == 0, 1.0, 1 / (1 + (1 - prevalence) / prevalence * ratio))


def _share_above(share: Any, source: tuple[float, float], target: tuple[float, float]) -> Any:
    """Return the share of a beta distribution above the score that `share` of another one exceed."""
    (a, b), (target_a, target_b) = source, target  # near 1, the distance from 1 is more accurate than the score
    score, distance = betaincinv(a, b, 1 - share), betaincinv(b, a, share)
    return np.where(distance < 0.5, betainc(target_b, target_a, distance), betaincc(target_a, target_b, score))


def _stream(seed: int, simulation: int, purpose: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(simulation, purpose))))


def refuse_one_class(n_items: int, prevalence: float) -> None:
    """Raise unless an exact sample has both positives and negatives."""
    n_positive = round(n_items * prevalence)
    if not 0 < n_positive < n_items:
        what = f"an exact sample would have no {'negatives' if n_positive else 'positives'}"
        remedy = "more items, another prevalence, or label_design='binomial'"
        allowed = f"1 to {n_items - 1} positives: round(n_items * prevalence)"
        raise clash(what, remedy, allowed, n_items=n_items, prevalence=prevalence)


def _exact_labels(n_items: int, prevalence: float, seed: int) -> NDArray[np.int8]:
    """Return ``round(n_items * prevalence)`` positives in random places, so that every fold has some."""
    refuse_one_class(n_items, prevalence)
    n_positive = round(n_items * prevalence)
    label = (np.arange(n_items) < n_positive).astype(np.int8)
    np.random.Generator(np.random.Philox(np.random.SeedSequence(seed))).shuffle(label)
    return label


MOST_ITEMS, MOST_SIMULATIONS = 10**11, 10**7  # whose labels and names are in memory


# Checks of arguments


def _check_parameters(scenario: Any, positive: tuple[str, ...] = ()) -> None:
    """Convert every parameter of a scenario to float; raise unless it is finite and, where required, positive."""
    for field in dataclasses.fields(scenario):
        value, least = getattr(scenario, field.name), 0.0 if field.name in positive else -math.inf
        number = real(value)
        if not least < number < math.inf:
            what = f"{field.name} of {type(scenario).__name__} is not allowed"
            allowed = "a finite number" + (" above 0" if field.name in positive else "")
            raise bad_argument(what, field.name, value, allowed, "give one such number")
        object.__setattr__(scenario, field.name, number)


def _check_shares(values: Floats, name: str, *, open_ends: bool = False) -> None:
    outside = ~((values > 0) & (values < 1)) if open_ends else (values < 0) | (values > 1)
    refuse_outside(name, values, outside, "above 0 and below 1" if open_ends else "from 0 to 1")


def _row_chunks(chunks: str | int | tuple[int, ...], shape: tuple[int, int], kind: np.dtype[Any]) -> tuple[int, ...]:
    """Return the chunks of the simulations."""
    given = chunk_shape(shape, kind.itemsize, whole=1)[0] if isinstance(chunks, str) and chunks == "auto" else chunks
    try:
        (rows,) = da.core.normalize_chunks((given,), shape=shape[:1])
    except (TypeError, ValueError, ZeroDivisionError) as error:
        received = f"chunks={chunks!r}, n_simulations={shape[0]}"
        allowed, remedy = '"auto", simulations in a chunk, or a tuple of them that adds up', "use 'auto'"
        what = "chunks do not fit the simulations"
        raise ChunkError(what, "argument 'chunks'", received, allowed, remedy) from error
    return tuple(map(int, rows))
