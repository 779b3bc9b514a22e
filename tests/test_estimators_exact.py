"""Every estimator against its definition, whatever weights, ties and missing scores; properties; extremes; errors."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from operator import itemgetter
from typing import Any

import dask.array as da
import mpmath
import numpy as np
import pytest
from conftest import few
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from strategies import Case, cases, chunkings, weights

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.evaluation.mapping import WHOLE_ONLY
from aucpr_dask.kernels import CODES
from aucpr_dask.schema.estimators import ESTIMATORS

TOLERANCE = 2e-15
PADDING, UNJUDGED = -2, -1
NAN = float("nan")

AT = {"recall": 0.7320508, "precision": 0.4142136, "k": 3}  # numbers that no precision or recall of a few items equals
BY_SCORES = ("binormal",)  # the others know of the scores only the order, and are tested from their records
SPECS = {
    spec.name if spec.parameter is None else f"{spec.name}({AT[spec.parameter]})": spec
    for spec in ESTIMATORS.values()
    if spec.name not in BY_SCORES
}
ORDINAL = list(SPECS)
ALL = [*ORDINAL, *BY_SCORES]
AREAS = [name for name, spec in SPECS.items() if spec.partial]
WITHOUT_PARTS = [name for name, spec in SPECS.items() if not spec.partial]
WEIGHTED = [name for name, spec in SPECS.items() if spec.weights]
AT_PREVALENCE = [name for name in ALL if not ESTIMATORS[name.partition("(")[0]].is_cutoff]
REPEATED = [name for name in WEIGHTED if not SPECS[name].needs_items]  # two copies of an item are one of weight 2
IN_TREC_ORDER = [name for name, spec in SPECS.items() if "trec_eval" in spec.ties]
EXPECTED = [name for name, spec in SPECS.items() if "expectation" in spec.ties]

Point = tuple[Fraction, Fraction]  # true and false positives
Item = tuple[Any, Fraction, Fraction]  # key that orders it (None: never ranked), weights as positive and as negative
KEY = itemgetter(0)


class Reference:
    """Every estimator from its definition, in exact fractions but for the logarithms, which have 40 digits.

    A method named as the estimator returns its area in units of positives, between the recalls `low` and `high`; or,
    if it has no parts, its value, from its parameter if it takes one. All weights are in `points` and `groups`.
    """

    def __init__(self, items: list[Item], *, prevalence: Fraction | None = None, total: Fraction | None = None) -> None:
        self.n = sum((p for _, p, _ in items), Fraction(0)) if total is None else total
        self.m = sum((n for _, _, n in items), Fraction(0))
        self.is_complete = self.n == sum((p for key, p, _ in items if key is not None), Fraction(0))
        self.all_ranked = self.is_complete and not any(key is None and p + n for key, p, n in items)
        if self.n + self.m:
            self.prevalence = self.n / (self.n + self.m)
        scale = Fraction(1)
        if prevalence is not None and self.n and self.m:
            self.prevalence = prevalence
            scale = self.n * (1 - prevalence) / (self.m * prevalence)
        self.points: list[Point] = []
        self.groups: list[list[Point]] = []  # weights of the tied items of each point
        right = wrong = Fraction(0)
        ranked = sorted((item for item in items if item[0] is not None), key=KEY, reverse=True)
        for _, tied in itertools.groupby(ranked, key=KEY):
            group = [(p, scale * n) for _, p, n in tied]
            if any(p + n for p, n in group):
                right, wrong = right + sum(p for p, _ in group), wrong + sum(n for _, n in group)
                self.points.append((right, wrong))
                self.groups.append(group)
        self.wrong = self.m * scale

    def of(self, name: str, low: float = 0.0, high: float = 1.0) -> Any:
        if not self.n:
            return NAN
        name, _, parameter = name.partition("(")
        if not ESTIMATORS[name].partial:
            return getattr(self, name)(*([float(parameter.removesuffix(")"))] if parameter else []))
        self.low, self.high = Fraction(low) * self.n, Fraction(high) * self.n
        area = getattr(self, name)()
        return Fraction(area) / self.n if isinstance(area, int | Fraction) else area / as_mp(self.n)

    def by_recall(self) -> list[tuple[Fraction, list[Fraction]]]:
        """Return the distinct recalls, in positives, and the precisions of all points at each."""
        precisions: dict[Fraction, list[Fraction]] = {Fraction(0): [Fraction(1)]}
        for right, wrong in self.points:
            precisions.setdefault(right, []).append(right / (right + wrong))
        return sorted(precisions.items())

    def line(self, start: Fraction, stop: Fraction, left: Fraction, right: Fraction) -> Any:
        first, last = max(start, self.low), min(stop, self.high)
        if first >= last:
            return 0
        heights = [left + (right - left) * (x - start) / (stop - start) for x in (first, last)]
        return sum(heights) / 2 * (last - first)

    def curve(self, a: Point, b: Point) -> Any:
        """Integrate r / (r + FP(r)) over the true positives r; FP is linear."""
        first, last = max(a[0], self.low), min(b[0], self.high)
        if first >= last:
            return 0
        slope = (b[1] - a[1]) / (b[0] - a[0])
        up, offset = 1 + slope, a[1] - slope * a[0]  # r / (up r + offset)
        area = as_mp((last - first) / up)
        if offset:
            area -= as_mp(offset / up**2) * log((up * last + offset) / (up * first + offset))
        return area

    def joined(self, points: list[Point]) -> Any:
        return sum((self.curve(a, b) for a, b in itertools.pairwise([(Fraction(0), Fraction(0)), *points])), 0)

    def interpolated(self, aggregate: Any) -> Any:
        heights = [(recall, aggregate(precisions)) for recall, precisions in self.by_recall()[1:]]
        return self.joined([(recall, recall / height - recall) for recall, height in heights])

    def average_precision(self) -> Any:
        steps = itertools.pairwise([(Fraction(0), Fraction(0)), *self.points])
        return sum((self.line(a[0], b[0], b[0] / sum(b), b[0] / sum(b)) for a, b in steps if b[0] > a[0]), 0)

    def haldane(self) -> Any:
        """Average the precision of the other items at or above each positive."""
        area = 0
        steps = itertools.pairwise([(Fraction(0), Fraction(0)), *self.points])
        for (a, b), group in zip(steps, self.groups, strict=True):
            if b[0] > a[0]:
                heights = [p * ((b[0] - p) / (b[0] - p + b[1] - n) if b[1] > n else 1) for p, n in group]
                precision = sum(heights, Fraction(0)) / (b[0] - a[0])
                area += self.line(a[0], b[0], precision, precision)
        return area

    def lower_trapezoid(self) -> Any:
        strips = itertools.pairwise(self.by_recall())
        return sum((self.line(a[0], b[0], min(a[1]), max(b[1])) for a, b in strips), 0)

    def upper_trapezoid(self) -> Any:
        strips = itertools.pairwise(self.by_recall())
        return sum((self.line(a[0], b[0], max(a[1]), max(b[1])) for a, b in strips), 0)

    def interpolated_max(self) -> Any:
        return self.interpolated(max)

    def interpolated_mean(self) -> Any:
        return self.interpolated(lambda precisions: sum(precisions) / len(precisions))

    def interpolated_median(self) -> Any:
        def median(precisions: list[Fraction]) -> Fraction:
            ordered = sorted(precisions)
            return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2

        return self.interpolated(median)

    def interpolated_convex(self) -> Any:
        """Wrap the ROC points: from each vertex to the one seen at the fewest negatives per positive."""
        vertices = [(Fraction(0), Fraction(0))]
        while further := [point for point in self.points if point[0] > vertices[-1][0]]:
            right, wrong = vertices[-1]
            vertices.append(min(further, key=lambda p: ((p[1] - wrong) / (p[0] - right), -p[0])))
        return self.joined(vertices[1:])

    def continuous(self) -> Any:
        steps = itertools.pairwise([(Fraction(0), Fraction(0)), *self.points])
        return sum((self.curve(a, b) for a, b in steps if b[0] > a[0]), 0)

    def discrete(self) -> Any:
        def precision(right: Fraction, wrong: Fraction, following: Fraction) -> Fraction:
            return following if right + wrong == 0 else right / (right + wrong)

        area = 0
        for a, b in itertools.pairwise([(Fraction(0), Fraction(0)), *self.points]):
            gained = int(b[0] - a[0])
            between = [(a[0] + i, a[1] + (b[1] - a[1]) * i / gained) for i in range(gained + 1 if gained else 0)]
            for p, q in itertools.pairwise(between):
                right = q[0] / sum(q)
                area += self.line(p[0], q[0], precision(*p, right), right)
        return area

    def roc_area(self) -> Any:
        if not self.m or not self.all_ranked:
            return NAN
        strips = itertools.pairwise([(Fraction(0), Fraction(0)), *self.points])
        area = sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in strips)  # over the false positive rate
        return as_mp(area / (self.n * self.wrong))

    def gain_area(self) -> Any:
        """Trapezoids between the points' precision gain and recall gain, from recall gain 0."""
        if not self.m:
            return NAN
        p = self.prevalence

        def gains(point: Point) -> Point:
            recall, precision = point[0] / self.n, point[0] / sum(point)
            return (recall - p) / ((1 - p) * recall), (precision - p) / ((1 - p) * precision)

        area = Fraction(0)
        for a, b in itertools.pairwise([(Fraction(0), Fraction(0)), *self.points]):
            start = max(a[0], p * self.n)
            if b[0] > start:
                left = gains((start, a[1] + (b[1] - a[1]) * (start - a[0]) / (b[0] - a[0])))
                right = gains(b)
                area += (right[0] - left[0]) * (left[1] + right[1]) / 2
        return as_mp(area)

    def precision_at_recall(self, recall: float) -> Any:
        return float(max((p / (p + n) for p, n in self.points if float(p / self.n) >= recall), default=0))

    def recall_at_precision(self, precision: float) -> Any:
        return float(max((p / self.n for p, n in self.points if float(p / (p + n)) >= precision), default=0))

    def precision_at(self, k: float) -> Any:
        return self.positives_at(k) / Fraction(k)

    def recall_at(self, k: float) -> Any:
        return self.positives_at(k) / self.n

    def positives_at(self, k: float) -> Fraction:
        """Average the positives of the first k places: each item of a tie group is equally likely at each of its."""
        places: list[Fraction] = []
        for a, b in itertools.pairwise([(Fraction(0), Fraction(0)), *self.points]):
            n_items = int(sum(b) - sum(a))
            places += [(b[0] - a[0]) / n_items] * n_items
        return sum(places[: int(k)], Fraction(0))


def as_mp(x: Fraction) -> Any:
    with mpmath.workdps(40):
        return mpmath.mpf(x.numerator) / x.denominator


@cache
def log(x: Fraction) -> Any:
    with mpmath.workdps(40):
        return mpmath.log(as_mp(x))


@pytest.fixture(autouse=True)
def forty_digits() -> Iterator[None]:
    with mpmath.workdps(40):
        yield


def items_of(
    score: Any,
    label: Any = None,
    *,
    weight: Any = None,
    positive_weight: Any = None,
    negative_weight: Any = None,
    missing: str = "raise",
    unjudged: str = "negative",
    positive_from: int = 1,
    tie_order: Any = None,
) -> list[Item]:
    """Apply the meaning of labels, weights, missing scores and the order of tied items."""
    items: list[Item] = []
    for i, s in enumerate(np.asarray(score, float).tolist()):
        if label is None:
            p, n = Fraction(float(positive_weight[i])), Fraction(float(negative_weight[i]))
        elif label[i] == PADDING or (label[i] == UNJUDGED and unjudged == "drop"):
            continue
        else:
            w = Fraction(1) if weight is None else Fraction(float(weight[i]))
            p, n = (w, Fraction(0)) if label[i] >= positive_from else (Fraction(0), w)
        key: Any = (1, s)
        if math.isnan(s):
            if missing == "drop":
                continue
            key = (0, 0.0) if missing == "last" else None
        items.append((key if key is None or tie_order is None else (*key, -int(tie_order[i])), p, n))
    return items


def assert_near(received: Any, expected: Any, told: Any = (), *, rtol: float = 0, atol: float = TOLERANCE) -> None:
    try:
        np.testing.assert_allclose(received, expected, rtol=rtol, atol=atol)
    except AssertionError as error:
        error.add_note(f"{told}")  # which takes longer to write than the areas to compute
        raise


def assert_matches(
    received: Any, reference: Reference, names: list[str], part: tuple[float, float] = (0.0, 1.0), told: Any = ()
) -> None:
    assert_near(received, [float(reference.of(name, *part)) for name in names], (names, told))


# Brute force


def rankings(n_items: int) -> Iterator[list[tuple[int, int]]]:
    """Draw every ranking, up to the order within ties: the positives and negatives of each block."""
    if n_items == 0:
        yield []
    for size in range(1, n_items + 1):
        for rest in rankings(n_items - size):
            for positives in range(size + 1):
                yield [(positives, size - positives), *rest]


def arrays_of(n_items: int) -> tuple[np.ndarray, np.ndarray]:
    score, label = [], []
    for blocks in rankings(n_items):
        score.append([-float(k) for k, block in enumerate(blocks) for _ in range(sum(block))])
        label.append([y for p, n in blocks for y in [1] * p + [0] * n])
    return np.array(score), np.array(label, dtype=np.int8)


@pytest.mark.smoke
def test_every_estimator_has_a_kernel_and_an_oracle() -> None:
    for spec in SPECS.values():
        assert hasattr(Reference, spec.name), f"define {spec.name} in {__file__}, as a method of Reference"
        assert spec.name in CODES, f"give {spec.name} a row in NUMBERS, in aucpr_dask/kernels/options.py"


def test_the_reference_itself() -> None:
    score, _ = arrays_of(4)
    assert len(score) == 82
    # The strip of Boyd, Eng & Page between (recall 0.25, precision 0.5) and (0.5, 0.25).
    strip = Reference(items_of([3, 3, 2, 2, 2, 2, 2, 2, 1, 1], [1, 0, 1, 0, 0, 0, 0, 0, 1, 1]))
    np.testing.assert_allclose(float(strip.of("interpolated_max", 0.25, 0.5)), 0.08017, atol=5e-6)
    tied = Reference(items_of([1] * 10, [1] + [0] * 9))
    assert {name: round(float(tied.of(name)), 12) for name in AREAS} == {
        name: {"lower_trapezoid": 0.55, "upper_trapezoid": 0.55, "haldane": 0.0}.get(name, 0.1) for name in AREAS
    }


@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 7))])
def test_every_ranking_with_ties(n_items: int) -> None:
    score, label = arrays_of(n_items)
    received = ap.estimate(score, label, ORDINAL)
    for s, y, row in zip(score, label, received, strict=True):
        assert_matches(row, Reference(items_of(s, y)), ORDINAL, told=(s, y))


# The matrix: what weights, ties and missing scores mean, for every estimator, in any chunks


def all_orders(items: list[Item]) -> Iterator[list[Item]]:
    """Yield the items in every order of tied ones, which then are tied no longer."""
    ranked, unseen = [x for x in items if x[0] is not None], [x for x in items if x[0] is None]
    for order in itertools.permutations(ranked):
        if all(a[0] >= b[0] for a, b in itertools.pairwise(order)):
            yield [*((-place, p, n) for place, (_, p, n) in enumerate(order)), *unseen]


def drawn(random: np.random.Generator, missing: str, weights: str, ties: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Draw scores of a few rankings of one length, many of them tied, with the arguments that give them a meaning."""
    shape = 12, int(random.integers(1, 5 if ties == "expectation" else 8))
    levels = [0.0, 1.0, 2.0] if missing == "raise" else [0.0, 1.0, 2.0, NAN]
    score = random.choice(levels, shape)
    given: dict[str, Any] = {"missing": missing, "ties": ties}
    if weights == "soft":
        given |= {name: random.choice([0.0, 0.0, 0.1, 0.5, 3.0, 100.0], shape) for name in SOFT}
    else:
        given |= {"unjudged": str(random.choice(["negative", "drop"])), "positive_from": int(random.integers(1, 3))}
        given["label"] = random.choice([0, 0, 1, 2, 3, UNJUDGED, PADDING], shape)
    if weights in ("whole", "real"):
        given["weight"] = random.choice([0, 1, 2, 3] if weights == "whole" else [0.0, 0.25, 0.1, 70.0], shape)
    if ties == "trec_eval":
        given["tie_order"] = random.permuted(np.broadcast_to(np.arange(shape[1]), shape), axis=1)
    return score, given


SOFT = ("positive_weight", "negative_weight")
OF_ITEMS = ("label", "weight", "tie_order", *SOFT)


@pytest.mark.parametrize(
    "n_batches",
    [3, pytest.param(15, marks=pytest.mark.slow), pytest.param(60, marks=(pytest.mark.slow, pytest.mark.nightly))],
)
@pytest.mark.parametrize(
    ("weights", "ties"),
    [
        *(("none", ties) for ties in ("group", "trec_eval", "expectation")),
        *((weights, "group") for weights in ("whole", "real", "soft")),  # others are refused
    ],
)
@pytest.mark.parametrize("missing", ["raise", "drop", "last", "unretrieved"])
def test_every_estimator_is_its_definition(missing: str, weights: str, ties: str, n_batches: int) -> None:
    random = np.random.default_rng([len(missing), len(weights), len(ties)])
    known = [name for name in ORDINAL if ties in SPECS[name].ties and (weights == "none" or SPECS[name].weights)]
    for _ in range(n_batches):
        score, given = drawn(random, missing, weights, ties)
        options: dict[str, Any] = {}
        if ties != "expectation":
            options["prevalence"] = random.choice([None, None, 0.25, 0.02])
            options["recall_range"] = [(0.0, 1.0), (0.0, 1.0), (0.25, 0.75)][random.integers(3)]
        part = options.get("recall_range", (0.0, 1.0))
        names = [name for name in known if SPECS[name].partial or part == (0.0, 1.0)]
        if options.get("prevalence") is not None:
            names = [name for name in names if name in AT_PREVALENCE]
        label = given.pop("label", None)
        received = ap.estimate(score, label, names, **given, **options)
        rows = [{name: given[name][i] for name in OF_ITEMS if name in given} for i in range(len(score))]
        rest = {name: value for name, value in given.items() if name not in (*OF_ITEMS, "ties")}
        for i, row in enumerate(rows):
            items = items_of(score[i], None if label is None else label[i], **row, **rest)
            at = options.get("prevalence") and Fraction(options["prevalence"])
            orders = [items] if ties != "expectation" else list(all_orders(items))
            references = [Reference(order, prevalence=at) for order in orders]
            expected = [float(sum(one.of(name, *part) for one in references) / len(references)) for name in names]
            told = names, score[i], label if label is None else label[i], row, rest, options
            rtol, atol = (1e-14, TOLERANCE) if weights in ("none", "whole") else (1e-13, 5e-15)
            # It multiplies rounding by the odds, which are 1,000 with weights of 0.1 and 100.
            of_gain, expected = np.array(names) == "gain_area", np.array(expected)
            wider = rtol if weights in ("none", "whole") else 1e-12
            assert_near(received[i][~of_gain], expected[~of_gain], told, rtol=rtol, atol=atol)
            assert_near(received[i][of_gain], expected[of_gain], told, rtol=wider, atol=atol)
        assert_chunks_change_nothing(received, score, label, names, given | options, random)


def assert_chunks_change_nothing(
    received: Any, score: Any, label: Any, names: list[str], options: dict[str, Any], random: np.random.Generator
) -> None:
    """Compare the bits with those of chunks of rankings and, where that is possible, of items."""
    size = int(random.integers(1, len(score) + 1))
    lazy = ap.estimate(da.from_array(score, chunks=(size, -1)), label, names, **options)
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), received)
    chosen = [name for name in names if name not in WHOLE_ONLY]
    if options["ties"] == "trec_eval" or {"weight", *SOFT} & options.keys() or score.shape[1] == 1 or not chosen:
        return
    size = int(random.integers(1, score.shape[1]))
    in_chunks = ap.estimate(da.from_array(score, chunks=(-1, size)), label, chosen, **options)
    columns = [names.index(name) for name in chosen]
    np.testing.assert_array_equal(in_chunks.compute(scheduler="sync"), received[:, columns])


def test_positives_that_were_never_scored() -> None:
    score, label = arrays_of(4)
    unseen = np.arange(len(score)) % 3
    received = ap.estimate(score, label, ALL, n_positive=label.sum(axis=1) + unseen)
    for s, y, extra, row in zip(score, label, unseen.tolist(), received, strict=True):
        reference = Reference(items_of(s, y), total=Fraction(int(y.sum()) + extra))
        reference.all_ranked = extra == 0
        expected = [float(reference.of(name)) for name in ORDINAL]
        assert_near(row[: len(ORDINAL)], expected, (s, y, extra))
        if extra and not y.all():
            assert np.isnan(row[-1])


SCORES_OF_ALL_SIZES = [0.0, -0.0, 1.0, 1.0 + 2**-23, -1.0, 3e38, -3e38, 1e-45, -1e-45, math.inf, -math.inf, math.nan]


@pytest.mark.sparse
@pytest.mark.parametrize("missing", ["drop", "last", "unretrieved"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "places",
    [
        *(np.arange(-128, -119, dtype=np.int8), np.arange(9) * 2**26, np.arange(9) * 2**27 + 5),
        *(np.arange(9, dtype=np.uint64) + np.uint64(2**63 - 4), np.arange(9) / 8, np.full(9, -1)),
    ],
    ids=["int8", "close", "apart", "uint64", "float", "left out"],
)
def test_trec_order_of_scores_and_places_of_all_sizes(places: Any, dtype: str, missing: str) -> None:
    random = np.random.default_rng(15)
    with np.errstate(over="ignore"):
        score = random.choice(SCORES_OF_ALL_SIZES, (80, 9)).astype(dtype)
    label = random.integers(0, 2, score.shape)
    place = random.permuted(np.broadcast_to(places, score.shape), axis=1)
    if (places == -1).all():  # all but two items are left out, and the places of the two are distinct
        label[:, :-2], place[:, -1] = -2, 7
    received = ap.estimate(score, label, IN_TREC_ORDER, tie_order=place, ties="trec_eval", missing=missing)
    order = np.lexsort((place, -score))  # from the first
    rank = np.empty(score.shape)
    np.put_along_axis(rank, order, -np.arange(9.0)[None], axis=1)
    if missing != "last":
        rank[np.isnan(score)] = np.nan
    np.testing.assert_array_equal(received, ap.estimate(rank, label, IN_TREC_ORDER, missing=missing))


@pytest.mark.parametrize(("part", "prevalence"), [((0.0, 1.0), None), ((0.1, 0.6), 0.03)])
def test_binormal_from_its_definition(part: tuple[float, float], prevalence: float | None) -> None:
    random = np.random.default_rng(8)
    for shift, spread, n in [
        (1.0, 1.0, 5),
        (3.0, 0.2, 20),
        (-1.0, 4.0, 9),
        (0.0, 1.0, 2),
        (6.0, 2.0, 30),
    ]:
        label = (np.arange(3 * n) < n).astype(np.int8)
        score = random.normal(label * shift, 1 + (spread - 1) * label)
        ours, theirs = score[label == 1], score[label == 0]
        p = n / label.size if prevalence is None else prevalence

        def precision(t: float, ours: Any = ours, theirs: Any = theirs, p: float = p) -> float:
            z = (theirs.mean() - ours.mean() + ours.std(ddof=1) * stats.norm.ppf(t)) / theirs.std(ddof=1)
            return p * t / (p * t + (1 - p) * stats.norm.cdf(z)) if t > 0 else 1.0

        expected, _ = integrate.quad(precision, *part, epsabs=1e-12, limit=500, points=[1e-6, 1e-3, 0.5, 0.999])
        received = ap.estimate(score, label, "binormal", recall_range=part, prevalence=prevalence)
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-9)
        doubled = ap.estimate(score, label, "binormal", weight=np.ones(label.size), recall_range=part)
        np.testing.assert_array_equal(doubled, ap.estimate(score, label, "binormal", recall_range=part))


@pytest.mark.parametrize(
    ("score", "label", "expected"),
    [
        ([3.0, 2.0, 1.0], [1, 0, 0], NAN),  # one positive
        ([3.0, 2.0, 1.0], [1, 1, 0], NAN),  # one negative
        ([1.0, 1.0, 2.0, 0.0], [1, 1, 0, 0], NAN),  # no spread
        ([1.0, 2.0, np.inf, 0.0], [1, 1, 0, 0], NAN),
        ([1.0, 2.0], [1, 1], 1.0),
        ([1.0, 2.0], [0, 0], NAN),
    ],
)
def test_no_binormal_area_without_two_spreads(score: list[float], label: list[int], expected: float) -> None:
    np.testing.assert_equal(ap.estimate(score, label, "binormal"), expected)
    np.testing.assert_equal(ap.estimate(score, label, "binormal", weight=np.ones(len(label))), expected)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.sampled_from([1e-300, 1e-3, 1.0, 1e250]))
def test_binormal_does_not_know_the_unit_of_the_score(seed: int, shift: float, unit: float) -> None:
    random = np.random.default_rng(seed)
    label = np.repeat([1, 0], [6, 11])
    score = random.normal(size=17) + shift * label
    weight = random.integers(0, 4, 17)
    weight[[0, 1, 6, 7]] = 1
    area = ap.estimate(score, label, "binormal", weight=weight)
    np.testing.assert_allclose(ap.estimate(score * unit, label, "binormal", weight=weight), area, rtol=0, atol=1e-12)
    repeated = ap.estimate(np.repeat(score, weight), np.repeat(label, weight), "binormal")
    np.testing.assert_allclose(area, repeated, rtol=0, atol=1e-12)


# Properties


@given(cases(), st.data())
def test_duplicates_are_weights(case: Case, data: Any) -> None:
    weight = np.array(data.draw(st.lists(st.integers(0, 3), min_size=case.label.size, max_size=case.label.size)))
    received = ap.estimate(case.score, case.label, REPEATED, weight=weight)
    expected = ap.estimate(np.repeat(case.score, weight, axis=1), np.repeat(case.label, weight), REPEATED)
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-13)


@given(cases(max_models=1), st.data())
def test_items_without_weight_are_nothing(case: Case, data: Any) -> None:
    names = [*WEIGHTED, "binormal"]
    weight = data.draw(weights(case.label.size))
    kept = weight > 0
    received = ap.estimate(case.score, case.label, names, weight=weight)
    expected = ap.estimate(case.score[:, kept], case.label[kept], names, weight=weight[kept])
    np.testing.assert_array_equal(received, expected)


@given(cases(), st.one_of(st.none(), st.floats(0.01, 0.99)))
def test_soft_labels_of_zero_and_one_are_hard_labels(case: Case, prevalence: float | None) -> None:
    names = [*WEIGHTED, "binormal"]
    hard_areas = ap.estimate(case.score, case.label, names, prevalence=prevalence)
    pairs = {"positive_weight": case.label, "negative_weight": 1 - case.label}
    np.testing.assert_array_equal(ap.estimate(case.score, None, names, prevalence=prevalence, **pairs), hard_areas)
    ones = ap.estimate(case.score, case.label, names, weight=np.ones(case.label.size), prevalence=prevalence)
    np.testing.assert_array_equal(ones, hard_areas)


@given(cases(labels=(0, 1, -1, -2), missing=True), st.sampled_from(["drop", "last", "unretrieved"]), st.data())
def test_together_is_one_by_one(case: Case, missing: str, data: Any) -> None:
    options: dict[str, Any] = {"missing": missing}
    options["weight"] = data.draw(st.one_of(st.none(), weights(case.label.size)))
    options["prevalence"] = data.draw(st.sampled_from([None, 0.2]))
    known = ALL if options["prevalence"] is None else AT_PREVALENCE
    names = data.draw(st.permutations(known if options["weight"] is None else [*WEIGHTED, "binormal"]))
    together = ap.estimate(case.score, case.label, names, **options)
    for column, name in enumerate(names):
        alone = ap.estimate(case.score, case.label, name, **options)
        np.testing.assert_array_equal(alone, together[:, column], err_msg=name)


@pytest.mark.slow
@few
@given(cases(labels=(0, 1, -1, -2), missing=True), st.sampled_from(["drop", "last", "unretrieved"]), st.data())
def test_labelled_is_array_is_chunked(case: Case, missing: str, data: Any) -> None:
    part = data.draw(st.sampled_from([(0.0, 1.0), (0.2, 0.7)]))
    names = ALL if part == (0.0, 1.0) else [*AREAS, "binormal"]
    options: dict[str, Any] = {"missing": missing, "recall_range": part}
    array = ap.estimate(case.score, case.label, names, **options)
    scores = case.dataset
    labelled = ap.estimate(scores["score"], scores["label"], names, **options)
    assert list(labelled["estimator"].values) == names
    chunks = data.draw(chunkings(len(case.score)))
    chunked = ap.evaluate(scores.chunk({"model": chunks, "item": -1}), names, **options)["estimate"]
    assert chunked.chunks is not None
    lazy = ap.estimate(da.from_array(case.score, chunks=(chunks, -1)), case.label, names, **options)
    for result in (labelled, ap.evaluate(scores, names, **options)["estimate"], chunked.compute(scheduler="sync")):
        np.testing.assert_array_equal(result.values, array)
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), array)


@given(cases(labels=(0, 1, -1, -2)))
def test_an_increasing_transform_changes_nothing(case: Case) -> None:
    expected = ap.estimate(case.score, case.label, ORDINAL)
    ranks = np.array([np.unique(row, return_inverse=True)[1] for row in case.score], dtype=float)
    np.testing.assert_array_equal(ap.estimate(ranks * 3 - 40, case.label, ORDINAL), expected)


@pytest.mark.parametrize(("decimals", "dtype"), [(1, np.float64), (1, np.float32), (12, np.float64), (12, np.float32)])
@pytest.mark.parametrize("share", [0.003, 0.05, 0.5])
def test_long_weighted_rankings_are_long_rankings(share: float, decimals: int, dtype: type) -> None:
    random = np.random.default_rng(9)
    label = (random.random(20_000) < share).astype(np.int8)
    score = (random.normal(size=label.size) + label).round(decimals).astype(dtype)
    names = [*WEIGHTED, "binormal"]
    for part, some in (((0.0, 1.0), names), ((0.2, 0.7), [*(name for name in AREAS if name in WEIGHTED), "binormal"])):
        expected = ap.estimate(score, label, some, recall_range=part)
        ones = ap.estimate(score, label, some, weight=np.ones(label.size), recall_range=part)
        np.testing.assert_allclose(ones, expected, rtol=1e-13, atol=0)
    weight = random.integers(0, 3, label.size)
    names = [name for name in names if name != "haldane"]
    received = ap.estimate(score, label, names, weight=weight)
    expected = ap.estimate(np.repeat(score, weight), np.repeat(label, weight), names)
    np.testing.assert_allclose(received, expected, rtol=1e-12, atol=1e-13)


# Extreme inputs


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("score", "label"),
    [
        ([5.0], [1]),
        ([5.0], [0]),
        ([3.0, 2.0, 1.0], [1, 1, 1]),
        ([3.0, 2.0, 1.0], [0, 0, 0]),
        ([], []),
        ([-0.0, 0.0], [1, 0]),  # tied, in either order
        ([0.0, -0.0], [1, 0]),
        ([1.0] * 3, [1] * 3),
        ([7.0] * 6, [1, 0, 0, 1, 0, 0]),
        ([9.0, 8.0, 7.0, 6.0, 5.0, 4.0], [0, 0, 0, 1, 0, 0]),  # one positive
        ([9.0, 8.0, 7.0, 6.0, 5.0, 4.0], [1, 1, 0, 1, 1, 1]),  # one negative
        ([-0.0, 0.0, -1e-300, 1e-300, 1e300, -1e300], [1, 0, 1, 0, 0, 1]),
        ([5e-324, 0.0, -5e-324, 1e-310, -1e-310], [0, 1, 1, 1, 0]),
        ([np.inf, np.inf, -np.inf, 0.0, -np.inf, 1.7e308], [1, 0, 1, 0, 0, 1]),
        ([0.1, 0.1000000001, 0.2, 0.3], [1, 0, 1, 0]),  # a tie in float32 only
    ],
)
def test_extreme_scores(score: list[float], label: list[int], kind: type) -> None:
    with np.errstate(over="ignore", under="ignore"):
        values = np.array(score, dtype=kind)
    reference = Reference(items_of(values.astype(float), label))
    assert_matches(ap.estimate(values, label, ORDINAL), reference, ORDINAL)
    weighted = ap.estimate(values, label, WEIGHTED, weight=np.ones(len(label)))
    assert_matches(weighted, reference, WEIGHTED)
    part = ap.estimate(values, label, AREAS, recall_range=(0.1, 0.55))
    assert_matches(part, reference, AREAS, (0.1, 0.55))


@pytest.mark.parametrize("n_above", [1, 10, 1000, 10**6])
def test_one_positive_below_negatives_in_closed_form(n_above: int) -> None:
    label = np.zeros(n_above + 3, dtype=np.int8)
    label[n_above] = 1
    score = -np.arange(label.size, dtype=float)
    names = ["continuous", "interpolated_max", "interpolated_convex", "discrete", "average_precision"]
    height = mpmath.mpf(1) / (n_above + 1)
    expected = [1 - n_above * mpmath.log1p(mpmath.mpf(1) / n_above), height, height, height / 2, height]
    np.testing.assert_allclose(ap.estimate(score, label, names), [float(x) for x in expected], rtol=1e-13)
    roc, gain = ap.estimate(score, label, ["roc_area", "gain_area"])
    np.testing.assert_allclose(roc, 2 / (n_above + 2), rtol=1e-14)
    assert np.isfinite(gain)


SMALL = ["continuous", "interpolated_max", "interpolated_mean", "interpolated_median", "interpolated_convex"]


@pytest.mark.parametrize("part", [(0.0, 1.0), (0.35, 0.8)])
@pytest.mark.parametrize("odds", [1e3, 1e6, 1e9])
def test_tiny_precision_keeps_its_digits(odds: float, part: tuple[float, float]) -> None:
    random = np.random.default_rng(4)
    for _ in range(10):
        score = random.integers(0, 9, 12).astype(float)
        label = np.repeat([1, 0], [5, 7])
        weight = np.where(label == 1, random.random(12), odds * random.random(12))
        score[-1] = 9.0  # so that no precision is large
        weight[-1] = odds
        received = ap.estimate(score, label, SMALL, weight=weight, recall_range=part)
        reference = Reference(
            items_of(score, None, positive_weight=weight * label, negative_weight=weight * (1 - label))
        )
        expected = [float(reference.of(name, *part)) for name in SMALL]
        assert max(expected) < 10 / odds
        np.testing.assert_allclose(received, expected, rtol=1e-13, atol=0)
        at = ap.estimate(score, label, SMALL, prevalence=1 / odds, recall_range=part)
        reference = Reference(items_of(score, label), prevalence=Fraction(1 / odds))
        expected = [float(reference.of(name, *part)) for name in SMALL]
        np.testing.assert_allclose(at, expected, rtol=1e-12, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.001, 0.3])
def test_ten_million_items_against_another_formula(share: float) -> None:
    random = np.random.default_rng(11)
    label = (random.random(10**7) < share).astype(np.int8)
    score = (random.normal(size=label.size) + label).round(4)
    values, place = np.unique(score, return_inverse=True)
    right = np.cumsum(np.bincount(place, label)[::-1]).astype(np.longdouble)
    wrong = np.cumsum(np.bincount(place, 1 - label)[::-1]).astype(np.longdouble)
    n = right[-1]

    def strips(a: Any, b: Any, c: Any, d: Any) -> float:
        """From (a, b) to (c, d), by the trapezoidal rule in many steps, extrapolated to none."""
        steps = np.linspace(0, 1, 65, dtype=np.longdouble)[:, None]
        t = a + (c - a) * steps
        height = t / np.maximum(t + b + (d - b) * steps, 1)
        simpson = np.ones(65)
        simpson[1:-1:2], simpson[2:-1:2] = 4, 2
        return float((simpson @ height / 192 * (c - a)).sum() / n)

    points = np.array([np.append(0, right), np.append(0, wrong)])
    gains = np.flatnonzero(np.diff(points[0]) > 0)
    rectangle = gains[0]
    expected = strips(*points[:, gains[1:]], *points[:, gains[1:] + 1])
    first = points[:, rectangle + 1]
    # From no positive the height is 0/0 at first, so the first gain has its antiderivative instead.
    level = points[1, rectangle]
    up = 1 + (first[1] - level) / first[0]
    area = first[0] - (level / up * np.log1p(up * first[0] / level) if level else 0)
    expected += float(area / up / n)
    assert values.size > 50_000
    ours = ap.estimate(score, label, ["continuous", "roc_area"])
    np.testing.assert_allclose(ours[0], expected, rtol=1e-12)
    pairs = (np.diff(points[1]) * (points[0, 1:] + points[0, :-1]) / 2).sum() / (n * wrong[-1])
    np.testing.assert_allclose(ours[1], float(pairs), rtol=1e-14)
    weighted = ap.estimate(score, label, ["continuous", "roc_area"], weight=np.ones(label.size))
    np.testing.assert_allclose(weighted, ours, rtol=1e-13)


# Errors

RANKING: tuple[Any, Any] = ([3.0, 2.0, 1.0], [1, 0, 1])


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        ("nonsense", "unknown estimator"),
        ("nonsense(0.5)", "unknown estimator"),
        (3, "unknown estimator"),
        ("continuous(0.5)", "parameter is wrong"),
        ("continuous()", "parameter is wrong"),
        ("precision_at_recall", "precision_at_recall\\(recall\\)"),
        ("precision_at_recall()", "parameter is wrong"),
        ("precision_at_recall(0)", "above 0 and up to 1"),
        ("precision_at_recall(1.01)", "above 0 and up to 1"),
        ("precision_at_recall(nan)", "above 0 and up to 1"),
        ("precision_at_recall(0.5", "parameter is wrong"),
        ("precision_at_recall(0.5))", "parameter is wrong"),
        ("recall_at_precision(-0.1)", "recall_at_precision\\(precision\\)"),
        ("recall_at_precision(half)", "parameter is wrong"),
        ("precision_at(2.5)", "a whole number from 1"),
        ("recall_at(0)", "a whole number from 1"),
        (["continuous", "continuous"], "each once"),
        ([], "one or more"),
    ],
)
def test_wrong_names_and_parameters(estimator: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ap.estimate(*RANKING, [estimator] if isinstance(estimator, int) else estimator)


@pytest.mark.parametrize("name", WITHOUT_PARTS)
def test_no_range_where_it_has_no_meaning(name: str) -> None:
    with pytest.raises(InvalidInputError, match="no meaning over a range of recall"):
        ap.estimate(*RANKING, ["continuous", name], recall_range=(0.2, 0.5))


def test_no_weights_where_they_have_no_meaning() -> None:
    for given_weights in ({"weight": [1, 2, 1]}, {"positive_weight": [1, 0, 1], "negative_weight": [0, 1, 0]}):
        label = RANKING[1] if "weight" in given_weights else None
        with pytest.raises(InvalidInputError, match="discrete: no meaning with weights or soft labels"):
            ap.estimate(RANKING[0], label, ["continuous", "discrete"], **given_weights)


def test_ties_where_they_have_no_meaning() -> None:
    for name in set(ORDINAL) - set(EXPECTED):
        with pytest.raises(InvalidInputError, match="ties for"):
            ap.estimate(*RANKING, name, ties="expectation")
    with pytest.raises(InvalidInputError, match="ties for 'binormal'"):
        ap.estimate(*RANKING, "binormal", ties="trec_eval", tie_order=[0, 1, 2])
    with pytest.raises(InvalidInputError, match="no area over a range"):
        ap.estimate(*RANKING, ties="expectation", recall_range=(0, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize(("n_positive", "largest"), [(10, 0.03), (20, 0.015), (50, 0.012)])
def test_haldane_has_less_than_a_fifth_of_the_bias_of_average_precision(n_positive: int, largest: float) -> None:
    scenario = ap.simulate.binormal()
    scores = scenario.sample(10 * n_positive, 0.1, n_simulations=4000, seed=3)
    areas = ap.estimate(scores["score"], scores["label"], ["average_precision", "haldane"])
    precision, haldane = (areas.mean("model") / scenario.area(0.1) - 1).values
    assert abs(haldane) < min(largest, precision / 5)
