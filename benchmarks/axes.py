"""How the time of a call grows along every axis of its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aucpr_dask.schema.estimators import ESTIMATORS
from benchmarks.contenders import FLOAT64, Contender, Suite, contender, floor
from benchmarks.fits import fit, fit_large_half
from benchmarks.measure import Timing
from benchmarks.rankings import draw_ranking

OURS, PEER, SORT, PASS = "aucpr_dask", "scikit-learn", "np.sort", "one pass"
ONE_BY_ONE, MANY_AT_ONCE, RANDOM_NUMBERS = "aucpr_dask, a call for each", "aucpr_dask, 32 models at once", "drawing"
FLOORS = (
    "np.sort of the scores and one pass over scores and labels (their largest values) compute no estimate: they are "
    "floors for what sorts, and for what reads its inputs."
)
LONGEST = 3.0  # seconds of one call, about, from which a contender is left out


class _Axis(Suite):  # the underscore hides it from asv, which would run it
    """Cases along one axis; contenders may be inherited."""

    axis: str

    def shrink(self) -> None:
        """Call everything once a sample."""
        self.number = 1

    def describe(self, place: Any) -> str:
        """Return the place on the axis; its number comes first."""
        return f"{place:,} {self.axis}"

    def contenders(self) -> Iterator[tuple[Contender, Any]]:
        """Yield each contender and its method, inherited ones first."""
        attributes = dict.fromkeys(attribute for kind in reversed(type(self).__mro__) for attribute in vars(kind))
        for attribute in attributes:
            if attribute.startswith("time_"):
                method = getattr(self, attribute)
                yield method.contender, method

    def conclusions(self, timings: list[Timing]) -> Iterator[str]:
        """Yield the exponents of the growth of every contender."""
        for name, (places, seconds) in curves(timings).items():
            if len(places) > 1:
                everywhere, large = fit(places, seconds), fit_large_half(places, seconds)
                said = f"{name}: time grows as {self.axis} to the power {everywhere} (all {everywhere.n} places)"
                yield said + (f", {large} (the largest {large.n})" if large.n > 1 else "")


def curves(timings: list[Timing]) -> dict[str, tuple[list[float], list[float]]]:
    """Return for every contender the places on the axis at which it ran, and the median times there."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for timing in timings:
        if timing.seconds:
            places, seconds = found.setdefault(timing.name, ([], []))
            places.append(place_of(timing.case))
            seconds.append(timing.median)
    return found


def place_of(case: str) -> float:
    """Return the number that the name of a case begins with.

    Examples
    --------
    >>> place_of("10,000 items")
    10000.0
    """
    return float(case.partition(" ")[0].replace(",", ""))


class _OneRanking(_Axis):
    """One ranking, its scores and labels drawn by `draw`."""

    n_items = 1_000_000
    prevalence = 0.01

    def shrink(self) -> None:
        """Take 5000 items."""
        super().shrink()
        self.n_items = 5000

    def setup(self, place: Any) -> None:
        """Draw one ranking."""
        self.score, self.label = self.draw(place)

    def draw(self, place: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and labels."""
        raise NotImplementedError

    @contender(OURS, "ap.estimate(score, label)", "aucpr-dask")
    def time_ours(self, place: Any) -> Any:
        """Make the default call."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label)

    @contender(PEER, "average_precision_score(label, score)", "scikit-learn", tolerance=FLOAT64)
    def time_scikit_learn(self, place: Any) -> Any:
        """Call it as its documentation does."""
        from sklearn.metrics import average_precision_score

        return average_precision_score(self.label, self.score)

    @floor(SORT, "np.sort(score)", "numpy")
    def time_sort(self, place: Any) -> Any:
        """Sort alone."""
        return np.sort(self.score)

    @floor(PASS, "score.max(), label.max()", "numpy")
    def time_pass(self, place: Any) -> Any:
        """Read the inputs once."""
        return self.score.max(), self.label.max()


class _Items(_OneRanking):
    """Longer and longer rankings."""

    axis = "items"
    explanation = f"The rankings of the suite single-ranking, float32. {FLOORS}"
    params = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
    param_names = ("items",)

    def shrink(self) -> None:
        """Take 1000 and 3000 items."""
        super().shrink()
        self.params = self.params[:2]

    def draw(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return so many items, at least one of them positive."""
        score, label = draw_ranking(place, self.prevalence)
        label[0] = 1
        return score, label


class FewPositives(_Items):
    """One positive of a thousand items."""

    name = "axis-items-0.1"
    title = "Cost curve: items, 0.1 % positive"
    prevalence = 0.001


class SomePositives(_Items):
    """One positive of a hundred items."""

    name = "axis-items-1"
    title = "Cost curve: items, 1 % positive"
    prevalence = 0.01


class HalfPositives(_Items):
    """As many positives as negatives."""

    name = "axis-items-50"
    title = "Cost curve: items, 50 % positive"
    prevalence = 0.5


class Prevalence(_OneRanking):
    """More and more positives."""

    name = "axis-prevalence"
    title = "Cost curve: prevalence, {n_items:,} float32 items"
    axis = "% positive"
    explanation = f"The rankings of the suite single-ranking. {FLOORS}"
    params = (0.1, 0.3, 1, 2, 3, 5, 10, 20, 50)
    param_names = ("per cent positive",)

    def draw(self, place: float) -> tuple[np.ndarray, np.ndarray]:
        """Return a ranking of this prevalence in per cent."""
        return draw_ranking(self.n_items, place / 100)


class DistinctScores(_OneRanking):
    """From two scores to none twice."""

    name = "axis-ties"
    title = "Cost curve: distinct scores among {n_items:,} float32 items, 1 % positive"
    axis = "distinct scores"
    explanation = (
        f"Equally many items have each score, so few distinct scores are heavy ties; the last place has none. {FLOORS}"
    )
    params = (2, 10, 100, 1000, 10_000, 100_000, 1_000_000)
    param_names = ("distinct scores",)

    def shrink(self) -> None:
        """Take two, ten and 5000 distinct scores."""
        super().shrink()
        self.params = (2, 10, self.n_items)

    def draw(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a ranking whose scores are levels."""
        score, label = draw_ranking(self.n_items, self.prevalence)
        rank = np.empty(self.n_items, np.int64)
        rank[np.argsort(score)] = np.arange(self.n_items)
        level = rank * place // self.n_items
        return (level / place).astype(np.float32), label


class Types(_OneRanking):
    """The types of scores."""

    name = "axis-types"
    title = "Types of scores: {n_items:,} items, 1 % positive"
    axis = "type"
    explanation = (
        "The same ranking in every type; whole numbers are the scores times 30,000, rounded, so that many are tied. "
        f"{FLOORS}"
    )
    params = ("float32", "float64", "float16", "int16", "int32", "int64")
    param_names = ("type",)

    def describe(self, place: str) -> str:
        """Return the type."""
        return place

    def draw(self, place: str) -> tuple[np.ndarray, np.ndarray]:
        """Return a ranking in this type."""
        score, label = draw_ranking(self.n_items, self.prevalence)
        return (score if place.startswith("float") else (30_000 * score).round()).astype(place), label

    def conclusions(self, timings: list[Timing]) -> Iterator[str]:
        """Yield how many times as long each type takes as the first one."""
        ours = {timing.case: timing.median for timing in timings if timing.name == OURS}
        first = next(iter(ours))
        for case, seconds in ours.items():
            if case != first:
                yield f"{case} takes {seconds / ours[first]:.2f} times as long as {first}"


class _Many(_Axis):
    """Many rankings of one call, and one call for each of them."""

    n_items: int
    prevalence: float
    params = (1, 10, 100, 1000, 10_000)
    seconds_of_peer: float  # about, for one ranking

    def shrink(self) -> None:
        """Take one and ten rankings."""
        super().shrink()
        self.params = self.params[:2]

    def setup(self, place: int) -> None:
        """Draw rankings."""
        random = np.random.default_rng(26)
        self.label = self.draw_labels(place)
        self.score = random.standard_normal((place, self.n_items), np.float32) + self.label

    def draw_labels(self, n: int) -> np.ndarray:
        """Return labels that broadcast against the scores of so many rankings."""
        raise NotImplementedError

    def pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield each ranking's scores and labels."""
        return zip(self.score, np.broadcast_to(self.label, self.score.shape), strict=True)

    @contender(OURS, "ap.estimate(scores, labels)", "aucpr-dask")
    def time_ours(self, place: int) -> Any:
        """Evaluate all in one call."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label)

    @contender(
        ONE_BY_ONE,
        "[ap.estimate(score, label) for score, label in zip(scores, labels)]",
        "aucpr-dask",
        tolerance=0.0,
    )
    def time_one_by_one(self, place: int) -> Any:
        """Make a call for every ranking."""
        import aucpr_dask as ap

        return [ap.estimate(score, label) for score, label in self.pairs()]

    @contender(
        PEER,
        "[average_precision_score(label, score) for score, label in zip(scores, labels)]",
        "scikit-learn",
        tolerance=FLOAT64,
    )
    def time_scikit_learn(self, place: int) -> Any:
        """Make a call for every ranking: it takes one at a time."""
        from sklearn.metrics import average_precision_score

        _refuse_long(place * self.seconds_of_peer)
        return [average_precision_score(label, score) for score, label in self.pairs()]

    @floor(SORT, "np.sort(scores, axis=-1)", "numpy")
    def time_sort(self, place: int) -> Any:
        """Sort alone."""
        return np.sort(self.score, axis=-1)

    @floor(PASS, "scores.max(), labels.max()", "numpy")
    def time_pass(self, place: int) -> Any:
        """Read the inputs once."""
        return self.score.max(), self.label.max()


class Models(_Many):
    """More and more models of one data set."""

    name = "axis-models"
    title = "Cost curve: models of {n_items:,} float32 items each, 1 % positive"
    axis = "models"
    explanation = f"Labels are shared by the models. {FLOORS}"
    param_names = ("models",)
    n_items = 10_000
    seconds_of_peer = 1e-3

    def draw_labels(self, n: int) -> np.ndarray:
        """Return one row for all."""
        label = np.zeros(self.n_items, np.int8)
        label[::100] = 1
        return label


class Queries(_Many):
    """More and more queries, each a short ranking."""

    name = "axis-queries"
    title = "Cost curve: queries of {n_items} documents each, 10 % relevant"
    axis = "queries"
    explanation = f"Each query has labels of its own. {FLOORS}"
    param_names = ("queries",)
    n_items = 100
    seconds_of_peer = 6e-4

    def draw_labels(self, n: int) -> np.ndarray:
        """Return one row for each."""
        label = np.zeros((n, self.n_items), np.int8)
        label[:, ::10] = 1
        return np.random.default_rng(27).permuted(label, axis=1)


class Replicates(_Axis):
    """More and more resamples."""

    name = "axis-replicates"
    title = "Cost curve: stratified bootstrap replicates, {n_items:,} float32 items, 1 % positive, per model"
    axis = "replicates"
    explanation = (
        "Of one model, and of 32 models that share the resamples, per model; estimates and intervals included. "
        "scikit-learn gets the counts of a resample as sample weights. 'drawing' computes no estimate: the fastest "
        "generator of NumPy makes 32 random bits for each item and resample."
    )
    params = (10, 100, 1000, 10_000)
    param_names = ("replicates",)
    unit = "model"
    n_items = 10_000
    n_models = 32
    seconds_of_peer = 1.5e-3

    def shrink(self) -> None:
        """Take ten and a hundred replicates of 500 items."""
        super().shrink()
        self.params, self.n_items = self.params[:2], 500

    def setup(self, place: int) -> None:
        """Draw models on one set of labels."""
        import xarray as xr

        random = np.random.default_rng(28)
        self.label = np.zeros(self.n_items, np.int8)
        self.label[::100] = 1
        self.score = random.standard_normal((self.n_models, self.n_items), np.float32) + self.label
        self.many = xr.Dataset({"score": (("model", "item"), self.score), "label": ("item", self.label)})
        self.one = self.many.isel(model=[0])
        self.strata = np.flatnonzero(self.label == 1), np.flatnonzero(self.label == 0)

    @contender(OURS, 'ap.evaluate(scores_of_one_model, intervals="bootstrap", n_resamples=n)', "aucpr-dask")
    def time_ours(self, place: int) -> Any:
        """Evaluate one model."""
        import aucpr_dask as ap

        return ap.evaluate(self.one, intervals="bootstrap", n_resamples=place)["interval"].values

    @contender(
        MANY_AT_ONCE,
        'ap.evaluate(scores, intervals="bootstrap", n_resamples=n)',
        "aucpr-dask",
        tolerance=0.0,
        numbers=lambda intervals: intervals[:1],
        share=n_models,
    )
    def time_many(self, place: int) -> Any:
        """Evaluate all models, on the same resamples."""
        import aucpr_dask as ap

        return ap.evaluate(self.many, intervals="bootstrap", n_resamples=place)["interval"].values

    @contender(PEER, "average_precision_score(label, score, sample_weight=counts) for each resample", "scikit-learn")
    def time_scikit_learn(self, place: int) -> Any:
        """Give it how often each item was drawn."""
        from sklearn.metrics import average_precision_score

        _refuse_long(place * self.seconds_of_peer)
        random, score = np.random.default_rng(29), self.score[0]
        counts = np.empty(self.n_items, np.int64)
        areas = np.empty(place)
        for resample in range(place):
            for stratum in self.strata:
                counts[stratum] = np.bincount(random.integers(stratum.size, size=stratum.size), minlength=stratum.size)
            areas[resample] = average_precision_score(self.label, score, sample_weight=counts)
        return np.quantile(areas, (0.025, 0.975))

    @floor(RANDOM_NUMBERS, "np.random.SFC64().random_raw(n_items // 2) for each resample", "numpy")
    def time_drawing(self, place: int) -> Any:
        """Draw alone."""
        generator = np.random.SFC64(29)
        for _ in range(place):
            generator.random_raw(self.n_items // 2)


class NumberOfEstimators(_OneRanking):
    """More and more estimators of one ranking."""

    name = "axis-estimators"
    title = "Cost curve: estimators of one ranking of {n_items:,} float32 items, 1 % positive, in one call"
    axis = "estimators"
    explanation = (
        "The first so many of " + ", ".join(list(ESTIMATORS)[:10]) + ". The first three need the blocks of positives "
        f"only, the others all operating points. scikit-learn computes the first one. {FLOORS}"
    )
    params = (1, 2, 3, 4, 6, 8, 10)
    param_names = ("estimators",)

    def shrink(self) -> None:
        """Take 5000 items, and one and ten estimators."""
        super().shrink()
        self.params = (1, 10)

    def draw(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the same ranking everywhere."""
        self.names = list(ESTIMATORS)[:place]
        return draw_ranking(self.n_items, self.prevalence)

    @contender(OURS, "ap.estimate(score, label, names)", "aucpr-dask", numbers=lambda areas: areas[0])
    def time_ours(self, place: int) -> Any:
        """Ask for all in one call."""
        import aucpr_dask as ap

        return ap.estimate(self.score, self.label, self.names)

    @contender(ONE_BY_ONE, "[ap.estimate(score, label, name) for name in names]", "aucpr-dask")
    def time_one_by_one(self, place: int) -> Any:
        """Make a call for every estimator."""
        import aucpr_dask as ap

        return [ap.estimate(self.score, self.label, name) for name in self.names]

    @contender(PEER, "average_precision_score(label, score)", "scikit-learn", tolerance=FLOAT64)
    def time_scikit_learn(self, place: int) -> Any:
        """Compute the one of them that it has."""
        if place > 1:
            raise NotImplementedError("left out: it computes the first one only")
        return super().time_scikit_learn(place)


def _refuse_long(seconds: float) -> None:
    """Leave a contender out of a case: nothing is extrapolated."""
    if seconds > LONGEST:
        raise NotImplementedError(f"left out: one call would take some {seconds:.0f} s")


AXES = (
    FewPositives,
    SomePositives,
    HalfPositives,
    Prevalence,
    DistinctScores,
    Types,
    Models,
    Queries,
    Replicates,
    NumberOfEstimators,
)
