"""Long rankings of weighted items, put in order or counted in gaps, against exact sums."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask import kernels
from aucpr_dask.errors import InvalidInputError, MissingScoresError
from aucpr_dask.kernels import gaps, options, rankings
from aucpr_dask.kernels import weighted as of_weights
from aucpr_dask.schema.terms import FLAG_BITS

NAMES = ["average_precision", "lower_trapezoid", "upper_trapezoid"]
TOLERANCE = 4e-15
UNIT = 8  # weights are whole multiples of 1/8, so that every sum of them is exact
PADDING, UNJUDGED = -2, -1
KINDS = ["plain", "negative", "tied", "infinite", "signed zeros", "subnormal", "huge", "outlier", "constant"]
PATHS: dict[str, dict[str, Any]] = {
    "chosen": {},
    "order": {"FEW_POSITIVES": 0.0},
    "gaps": {"FEW_POSITIVES": 1.0},
}


both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def ranking(kind: str, share: float, dtype: type, n_items: int = 4200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, labels and weights; some weights are 0, some labels are no judgement."""
    random = np.random.default_rng([KINDS.index(kind), int(1000 * share)])
    label = (random.random(n_items) < share).astype(np.int8)
    label[random.random(n_items) < 0.05] = UNJUDGED
    label[random.random(n_items) < 0.05] = PADDING
    weight = random.integers(0, 40, n_items) / UNIT
    label[:4], weight[:4] = [1, 0, 1, 0], 1.0
    score = random.normal(size=n_items) + (label == 1)
    if kind == "negative":
        score = -np.exp(score)
    elif kind == "tied":
        score = score.round(1)
    elif kind == "infinite":
        score[random.random(n_items) < 0.1] = np.inf
        score[random.random(n_items) < 0.1] = -np.inf
    elif kind == "signed zeros":
        score = np.where(random.random(n_items) < 0.5, score.round(0), random.choice([0.0, -0.0], n_items))
    elif kind == "subnormal":
        score = random.integers(-50, 50, n_items) * float(np.finfo(dtype).smallest_subnormal)
    elif kind == "huge":
        score = score / np.abs(score).max() * float(np.finfo(dtype).max)
    elif kind == "outlier":
        score[0] = 1e30
    elif kind == "constant":
        score[:] = 2.0
    return score.astype(dtype), label, weight


def with_missing(score: np.ndarray) -> np.ndarray:
    score = score.copy()
    score[4::7] = np.nan
    return score


def whole(weight: np.ndarray) -> np.ndarray:
    return (weight * UNIT).astype(np.int64)


def exact_areas(
    score: np.ndarray, positive: np.ndarray, negative: np.ndarray, missing: str, prevalence: Fraction | None = None
) -> list[float]:
    """Compute the three areas from whole weights; each term, and their sum, are rounded once."""
    kept = (positive + negative > 0) & (~np.isnan(score) if missing == "drop" else True)
    score, positive, negative = score[kept].astype(np.float64), positive[kept], negative[kept]
    total, others = int(positive.sum()), int(negative.sum())
    if missing == "unretrieved":
        ranked = ~np.isnan(score)
        score, positive, negative = score[ranked], positive[ranked], negative[ranked]
    order = np.argsort(-score, kind="stable")  # NaN last
    score, positive, negative = score[order], positive[order], negative[order]
    same = (score[1:] == score[:-1]) | (np.isnan(score[1:]) & np.isnan(score[:-1]))
    ends = np.flatnonzero(np.append(~same, score.size > 0))
    scale = Fraction(1) if prevalence is None else total * (1 - prevalence) / (others * prevalence)
    steps: list[tuple[list[float], int]] = []
    before = above = 0
    highest = Fraction(1)
    for p, n in zip(np.cumsum(positive)[ends].tolist(), np.cumsum(negative)[ends].tolist(), strict=True):
        if p > before:
            precision = p / (p + scale * n)
            lowest = Fraction(before, 1) / (before + scale * above) if before else Fraction(above == 0)
            lines = [precision, (lowest + precision) / 2, (highest + precision) / 2]
            steps.append(([float(line * (p - before)) for line in lines], p))
            highest = precision
        before, above = p, n
    return [math.fsum(terms[e] for terms, _ in steps) / total for e in range(3)]


def use(path: str, patch: pytest.MonkeyPatch) -> None:
    for name, value in PATHS[path].items():
        patch.setattr(rankings, name, value)
    patch.setattr(of_weights, "SHORT", 0)


@pytest.mark.sparse
@both_types
@pytest.mark.parametrize("share", [0.005, 0.2, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_long_rankings_against_exact_sums(
    kind: str, share: float, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    score, label, weight = ranking(kind, share, dtype)
    positive, negative = whole(weight) * (label == 1), whole(weight) * ((label == 0) | (label == UNJUDGED))
    cases = [(score, "drop"), *itertools.product([with_missing(score)], ["drop", "last", "unretrieved"])]
    for given, missing in cases:
        expected = exact_areas(given, positive, negative, missing)
        for path in PATHS:
            with monkeypatch.context() as patch:
                use(path, patch)
                received = ap.estimate(given, label, NAMES, weight=weight, missing=missing)
            np.testing.assert_allclose(received, expected, rtol=0, atol=TOLERANCE, err_msg=f"{path} {missing}")


def answers_of(module: Any, kernel: str, patch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every answer of a kernel is added from now on."""
    answers: list[int] = []
    call = getattr(module, kernel)

    def recorded(*arguments: Any) -> int:
        answers.append(int(call(*arguments)))
        return answers[-1]

    patch.setattr(module, kernel, recorded)
    return answers


@both_types
def test_few_positives_go_through_gaps_unless_they_crowd(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = answers_of(gaps, "tally_weights", monkeypatch)
    monkeypatch.setattr(of_weights, "SHORT", 0)
    for kind, share, expected in [("plain", 0.02, [True]), ("outlier", 0.02, [False]), ("plain", 0.6, [])]:
        score, label, weight = ranking(kind, share, dtype)
        ap.estimate(score, label, weight=weight)
        assert answers == expected, (kind, share)
        answers.clear()


@both_types
def test_options(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    score, label, weight = ranking("tied", 0.3, dtype)
    label[label == 1] = np.arange((label == 1).sum()) % 4
    counted = whole(weight)
    for path in PATHS:
        use(path, monkeypatch)
        received = ap.estimate(score, label, NAMES, weight=weight, positive_from=2, unjudged="drop")
        expected = exact_areas(score, counted * (label >= 2), counted * ((label == 0) | (label == 1)), "drop")
        np.testing.assert_allclose(received, expected, rtol=0, atol=TOLERANCE, err_msg=path)
        received = ap.estimate(score, label, NAMES, weight=weight, positive_from=3, prevalence=0.125)
        halves = counted * (label >= 3), counted * ((label < 3) & (label > PADDING))
        expected = exact_areas(score, *halves, "drop", Fraction(1, 8))
        np.testing.assert_allclose(received, expected, rtol=0, atol=TOLERANCE, err_msg=path)


def facts_of(
    score: np.ndarray, label: np.ndarray, weight: np.ndarray, missing: int, names: tuple[int, ...] = (0,)
) -> dict[str, float]:
    options = kernels.Options(missing=missing)
    targets = kernels.targets_of(names, [np.nan] * len(names), (0.0, 1.0))
    positive, negative = weight * (label == 1), weight * ((label >= UNJUDGED) & (label < 1))
    items = kernels.Items(score[None], positive[None], negative[None], np.zeros(1, np.int64), np.zeros(1))
    out = kernels.evaluate_weighted_rows(items, options, targets)
    return dict(zip(kernels.COLUMNS, out[0, len(names) :].tolist(), strict=True))


def facts_by_definition(
    score: np.ndarray, label: np.ndarray, weight: np.ndarray, counts_missing: bool
) -> dict[str, float]:
    items = (label >= UNJUDGED) & (weight > 0)
    ranked = items & ~np.isnan(score)
    totals = items if counts_missing else ranked
    kinds = np.unique(score[ranked])
    p = np.array([weight[ranked & (score == x) & (label == 1)].sum() for x in kinds])
    n = np.array([weight[ranked & (score == x) & (label < 1)].sum() for x in kinds])
    below = np.cumsum(n) - n
    return {
        "n_positive": weight[totals & (label == 1)].sum(),
        "n_negative": weight[totals & (label < 1)].sum(),
        "n_missing": float((items & np.isnan(score)).sum()),
        "n_ranked": float(ranked.sum()),
        "n_unseen": 0.0,
        "tied_share": p[n > 0].sum() / p.sum(),
        "roc_area": (p * (below + n / 2)).sum() / (p.sum() * n.sum()),
        "n_distinct": float(min(kinds.size, 3)),
    }


@pytest.mark.sparse
@both_types
@pytest.mark.parametrize("kind", KINDS)
def test_facts_on_every_path(kind: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    score, label, weight = ranking(kind, 0.2, dtype)
    expected = facts_by_definition(with_missing(score), label, weight, counts_missing=True)
    for path, codes in itertools.product(PATHS, [(0,), (0, 3)]):
        use(path, monkeypatch)
        received = facts_of(with_missing(score), label, weight, missing=3, names=codes)
        assert {name: received[name] for name in expected} == pytest.approx(expected, rel=1e-14), (path, codes)
    expected = facts_by_definition(with_missing(score), label, weight, counts_missing=False)
    received = facts_of(with_missing(score), label, weight, missing=1)
    assert {name: received[name] for name in expected} == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("size", [4, 5000])
def test_distinct_scores_are_counted_up_to_three(size: int) -> None:
    label = (np.arange(size) % 2).astype(np.int8)
    weight = np.ones(size)
    for dtype, distinct in itertools.product([np.float32, np.float64], [1, 2, 3, 4]):
        score = (np.arange(size) // 2 % distinct).astype(dtype) if size > 4 else np.arange(size).clip(0, distinct - 1)
        received = facts_of(score.astype(dtype), label, weight, missing=0)["n_distinct"]
        assert received == min(distinct, 3)
        score = np.append(score, 77).astype(dtype)  # of no weight
        args = np.append(label, 1).astype(np.int8), np.append(weight, 0.0)
        assert facts_of(score, *args, missing=0)["n_distinct"] == min(distinct, 3)


@pytest.mark.sparse
@pytest.mark.parametrize("n_items", [6, 5000])
@both_types
def test_a_soft_label_is_an_item_of_each_class(dtype: type, n_items: int) -> None:
    random = np.random.default_rng(n_items)
    for kind, missing in itertools.product(["plain", "tied"], ["drop", "last", "unretrieved"]):
        score = with_missing(ranking(kind, 0.3, dtype, n_items)[0])
        positive, negative = random.integers(0, 9, (2, n_items)) / UNIT
        positive[random.random(n_items) < 0.5] = 0
        received = ap.estimate(score, None, NAMES, positive_weight=positive, negative_weight=negative, missing=missing)
        expected = exact_areas(score, whole(positive), whole(negative), missing)
        np.testing.assert_allclose(received, expected, rtol=0, atol=TOLERANCE)


def test_a_soft_label_counts_as_one_item() -> None:
    scores = xr.Dataset(
        {
            "score": (("model", "item"), [[3.0, 2.0, 1.0, np.nan, np.nan], [np.nan, 1.0, np.nan, np.nan, np.nan]]),
            "positive_weight": ("item", [0.5, 0.5, 0.0, 0.25, 1.0]),
            "negative_weight": ("item", [0.5, 0.0, 1.0, 0.75, 0.0]),
        },
        coords={"model": ["a", "b"]},
    )
    result = ap.evaluate(scores, missing="unretrieved")
    assert result["n_missing"].values.tolist() == [2, 4]
    assert result["n_positive"].values.tolist() == [2.25, 2.25]
    assert result["n_negative"].values.tolist() == [2.25, 2.25]
    with pytest.raises(MissingScoresError, match=r"model 'a': 2; model 'b': 4"):
        ap.evaluate(scores)
    ranked = scores.assign(score=(("model", "item"), np.ones((2, 5))))
    alone, tied = ap.evaluate(ranked.isel(item=[0])), ap.evaluate(ranked.isel(item=[0, 1]))
    assert not (alone["flags"].values & FLAG_BITS["constant_scores"]).any()  # one item is no tie
    assert (tied["flags"].values & FLAG_BITS["constant_scores"]).all()


@both_types
@pytest.mark.parametrize("n_items", [7, 5000])
def test_labels_and_weights_broadcast(dtype: type, n_items: int) -> None:
    random = np.random.default_rng(3)
    score = random.normal(size=(2, 3, n_items)).astype(dtype)
    label = (random.random((3, n_items)) < 0.4).astype(np.int8)
    weight = random.random((2, 1, n_items))
    received = ap.estimate(score, label, NAMES, weight=weight)
    assert received.shape == (2, 3, 3)
    for a, b in np.ndindex(2, 3):
        np.testing.assert_array_equal(received[a, b], ap.estimate(score[a, b], label[b], NAMES, weight=weight[a, 0]))
    soft = {"positive_weight": label * 0.5, "negative_weight": weight}
    received = ap.estimate(score, None, NAMES, **soft)
    for a, b in np.ndindex(2, 3):
        alone = {"positive_weight": label[b] * 0.5, "negative_weight": weight[a, 0]}
        np.testing.assert_array_equal(received[a, b], ap.estimate(score[a, b], None, NAMES, **alone))


@both_types
def test_sums_of_weights_of_all_sizes_keep_every_digit(dtype: type) -> None:
    random = np.random.default_rng(5)
    score, label = random.permutation(20_000).astype(dtype), (random.random(20_000) < 0.5).astype(np.int8)
    weight = 10.0 ** random.uniform(-12, 12, 20_000)
    order = np.argsort(-score)
    mass, is_positive = [Fraction(w) for w in weight[order].tolist()], label[order].astype(bool).tolist()
    positives = negatives = Fraction(0)
    terms = []
    for w, hit in zip(mass, is_positive, strict=True):
        positives, negatives = (positives + w, negatives) if hit else (positives, negatives + w)
        terms += [float(w) * (float(positives) / float(positives + negatives))] if hit else []
    expected = math.fsum(terms) / float(positives)
    np.testing.assert_allclose(ap.estimate(score, label, weight=weight), expected, rtol=1e-14)


@both_types
def test_small_weights_after_a_large_one_are_not_lost(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    n_items, large = 10_002, 2.0**53  # to which 1 cannot be added
    score, label = -np.arange(n_items).astype(dtype), (np.arange(n_items) % 2).astype(np.int8)
    weight = np.append([large, large], np.ones(n_items - 2))
    exact = int(large) + n_items // 2 - 1
    for path, codes in itertools.product(PATHS, [(0,), (0, 3)]):
        use(path, monkeypatch)
        facts = facts_of(score, label, weight, missing=0, names=codes)
        assert (facts["n_positive"], facts["n_negative"]) == (exact, exact), (path, codes)
        assert ap.estimate(score, label, weight=weight) == pytest.approx(0.5, rel=1e-15)


@both_types
def test_neighbouring_scores_are_distinguished(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = np.finfo(dtype).max
    edges = [-np.inf, -largest, -1.0, 0.0, 1.0, largest, np.inf]
    with np.errstate(over="ignore", under="ignore"):
        ladder = [np.nextafter(dtype(x), dtype(to)) for x in edges for to in (-np.inf, x, np.inf)]
    score = np.unique(np.array(ladder, dtype))
    label = (np.arange(score.size) % 2).astype(np.int8)
    monkeypatch.setattr(rankings, "SHORT", 0)
    for order in (slice(None), slice(None, None, -1)):
        received = ap.estimate(score[order], label[order], NAMES, weight=np.ones(score.size))
        np.testing.assert_allclose(received, ap.estimate(np.arange(score.size), label, NAMES), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("n_alike", [1, 3, 40, 3000])
def test_scores_that_are_alike_as_float32_are_distinguished(n_alike: int) -> None:
    random = np.random.default_rng(n_alike)
    place = random.permutation(6000)
    score = 1.0 + (place // n_alike) * 2.0**-20 + (place % n_alike) * 2.0**-50
    assert np.unique(score.astype(np.float32)).size <= max(2, 6000 // n_alike)
    label, weight = (random.random(score.size) < 0.7).astype(np.int8), random.integers(1, 9, score.size) / 8
    received = ap.estimate(score, label, NAMES, weight=weight)
    of_places = ap.estimate(place.astype(np.float32), label, NAMES, weight=weight)
    np.testing.assert_array_equal(received, of_places)


def test_nothing_to_rank() -> None:
    for dtype, size in itertools.product([np.float32, np.float64], [0, 3, 5000]):
        score, label = np.arange(size).astype(dtype), np.ones(size, np.int8)
        assert np.isnan(ap.estimate(score, label, weight=np.zeros(size)))
        assert np.isnan(ap.estimate(score, label, "interpolated_max", weight=np.zeros(size)))
        assert np.isnan(ap.estimate(score, 0 * label, weight=np.ones(size)))
        absent = np.full(size, np.nan, dtype)
        area = ap.estimate(absent, label, weight=np.ones(size), missing="unretrieved")
        assert area == 0 if size else np.isnan(area)


def test_more_items_than_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "MOST_PLACES", 5)
    assert ap.estimate([3.0, 2, 1], [1, 0, 0], weight=[1, 1, 1]) == 1
    with pytest.raises(InvalidInputError, match="too many items to put in order"):
        ap.estimate(np.arange(6.0), [0, 1, 0, 0, 1, 0], weight=np.ones(6))
