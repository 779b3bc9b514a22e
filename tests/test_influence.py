"""Influence of items on average precision and Haldane's area: against derivatives, the jackknife, scipy, simulation."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import errors_of_differences, pooled, queried
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import oracle
from scipy import stats
from scipy.stats import _resampling
from strategies import Case, cases, chunkings, weights

import aucpr_dask as ap
from aucpr_dask import kernels
from aucpr_dask.errors import InvalidInputError, MissingScoresError
from aucpr_dask.inference.covarying import covariance
from aucpr_dask.kernels import CODES
from aucpr_dask.kernels.by_numpy import PANEL, Influence, Units
from aucpr_dask.kernels.dispatch import influence_rows, sums_of_products
from aucpr_dask.kernels.options import (
    ACCELERATION,
    CUBES_FIXED,
    CUBES_RANDOM,
    ERROR_FIXED,
    ERROR_RANDOM,
    HALDANE,
    LEFT_OUT,
    NUMBERS,
    UNSEEN_LOSS,
)
from aucpr_dask.kernels.products import TILE

ERRORS = [ERROR_FIXED, ERROR_RANDOM]
CUBES = [CUBES_FIXED, CUBES_RANDOM]
HIDDEN = [*ERRORS, ACCELERATION]
MISSING = ("raise", "drop", "last", "unretrieved")


def of_area(code: int, leaves_out: bool) -> int:
    """Return the code of a number of average precision, or the one of Haldane's area."""
    return CODES[f"haldane_{NUMBERS[code].name}"] if leaves_out else code


Item = tuple[float | None, Fraction, Fraction]  # score (None: never ranked), weight as a positive and as a negative


# The definitions, in exact arithmetic


def area(items: list[Item], prevalence: Fraction | None = None, leaves_out: bool = False) -> Fraction:
    """Average precision, or Haldane's area, from its definition."""
    return area_of_copies([(item, Fraction(1)) for item in items], prevalence, leaves_out)


def area_of_copies(
    copies: list[tuple[Item, Fraction]], prevalence: Fraction | None = None, leaves_out: bool = False
) -> Fraction:
    """The same with the multiplicity of every item, of which one copy may be left out."""
    items = [(score, p * times, n * times) for (score, p, n), times in copies]
    positives = sum((p for _, p, _ in items), Fraction(0))
    negatives = sum((n for _, _, n in items), Fraction(0))
    scale = Fraction(1)
    if prevalence is not None and negatives:
        scale = positives * (1 - prevalence) / (negatives * prevalence)
    total = Fraction(0)
    for (score, p, n), times in copies:
        if score is not None and p:
            true = sum((w for x, w, _ in items if x is not None and x >= score), Fraction(0)) - p * leaves_out
            false = scale * (
                sum((w for x, _, w in items if x is not None and x >= score), Fraction(0)) - n * leaves_out
            )
            total += p * times * (true / (true + false) if false else 1)
    return total / positives


def derivatives(items: list[Item], prevalence: Fraction | None = None, leaves_out: bool = False) -> list[Fraction]:
    """Derivative with respect to how often each item is there: a central difference so small that it is exact.

    Those of Haldane's area do not add up to 0, and are moved in proportion to the items' weights as positives.
    """
    step = Fraction(1, 10**15)

    def moved(i: int, by: Fraction) -> Fraction:
        copies = [(item, 1 + by * (i == j)) for j, item in enumerate(items)]
        return area_of_copies(copies, prevalence, leaves_out)

    values = [(moved(i, step) - moved(i, -step)) / (2 * step) for i in range(len(items))]
    if not leaves_out:
        return values
    excess = sum(values) / sum(p for _, p, _ in items)
    return [value - p * excess for value, (_, p, _) in zip(values, items, strict=True)]


def sample_prevalence(items: list[Item]) -> Fraction | None:
    positives, negatives = sum(p for _, p, _ in items), sum(n for _, _, n in items)
    return Fraction(positives, positives + negatives) if positives and negatives else None


def acceleration(items: list[Item], prevalence: Fraction | None = None, leaves_out: bool = False) -> float:
    """Skewness of the leave-one-out jackknife of both classes, as of scipy's BCa interval of two samples."""
    cubes = squares = Fraction(0)
    for side in (1, 2):
        members = [i for i, item in enumerate(items) if item[side]]
        n = len(members)
        if n > 1:
            without = [area(items[:i] + items[i + 1 :], prevalence, leaves_out) for i in members]
            mean = sum(without) / n
            cubes += sum(((n - 1) * (mean - x)) ** 3 for x in without) / n**3
            squares += sum(((n - 1) * (mean - x)) ** 2 for x in without) / n**2
    return float(cubes) / float(squares) ** 1.5 / 6 if squares else 0.0


def items_of(
    score: np.ndarray, positive: np.ndarray, negative: np.ndarray, missing: str = "raise", unseen: int = 0
) -> list[Item | None]:
    """One entry for each item, None if it is left out; then the positives that are no item."""
    items: list[Item | None] = []
    for x, p, n in zip(score, positive, negative, strict=True):
        place: float | None = float(x)
        if np.isnan(x):
            if missing in ("raise", "drop"):
                items.append(None)
                continue
            place = None
            if missing == "last":
                place = LOWEST
        items.append((place, Fraction(float(p)), Fraction(float(n))))
    return items + [(None, Fraction(1), Fraction(0))] * unseen


class Below(float):
    """Below every score, minus infinity included."""

    def __ge__(self, other: Any) -> bool:
        return isinstance(other, Below)

    def __le__(self, other: Any) -> bool:
        return True


LOWEST = Below(-np.inf)


def kept(items: list[Item | None]) -> list[Item]:
    return [item for item in items if item is not None]


def hard(case: Case) -> tuple[np.ndarray, np.ndarray]:
    return (case.label == 1).astype(float), (case.label == 0).astype(float)


def options(missing: str = "raise", prevalence: Fraction | None = None, **others: int) -> kernels.Options:
    return kernels.Options(
        missing=MISSING.index(missing), prevalence=np.nan if prevalence is None else float(prevalence), **others
    )


def influence(
    score: np.ndarray,
    positive: np.ndarray,
    negative: np.ndarray,
    chosen: kernels.Options,
    unseen: np.ndarray | None = None,
    *,
    leaves_out: bool = False,
    **design: Any,
) -> Influence:
    score = np.atleast_2d(score)
    row = np.zeros(len(score), np.int64)
    unseen = np.zeros(len(score)) if unseen is None else unseen
    items = kernels.Items(score, positive[None], negative[None], row, unseen)
    return influence_rows(items, chosen, "haldane" if leaves_out else "average_precision", **design)


def evaluated(
    case: Case, codes: list[int], chosen: kernels.Options, unseen: float = 0.0, rows: Callable[..., Any] | None = None
) -> np.ndarray:
    """Evaluate codes by the basic kernels, or by those of every operating point."""
    n_models = len(case.score)
    given_positives = np.full(n_models, float((case.label == 1).sum() + unseen))
    arrays = case.score, case.label[None], np.zeros(n_models, np.int64), given_positives, chosen
    if rows is None:
        return kernels.evaluate_rows(*arrays, np.array(codes))[:, : len(codes)]
    with_mean = [*codes, kernels.CODES["interpolated_mean"]]  # which needs every operating point
    return rows(*arrays, kernels.targets_of(with_mean, [np.nan] * len(with_mean), (0.0, 1.0)))[:, : len(codes)]


prevalences = st.sampled_from([None, Fraction(1, 4), Fraction(3, 5)])
soft_cases = cases(missing=True, max_models=2, max_items=9).flatmap(
    lambda case: st.tuples(st.just(case), weights(case.label.size), weights(case.label.size))
)


few_items = (
    cases(missing=True, max_models=2, max_items=10),
    st.sampled_from(MISSING[1:]),
    prevalences,
    st.sampled_from([0, 2]),
    st.booleans(),
)


# Values of single items


def has_others(items: list[Item]) -> bool:
    """Whether every item of both classes has another one at or above it; otherwise one more copy makes a jump."""
    ranked = [item for item in items if item[0] is not None and (item[1] or item[2])]
    return all(sum(other[0] >= item[0] for other in ranked) > 1 for item in ranked if item[1] and item[2])


@given(soft_cases, st.sampled_from(MISSING[1:]), prevalences, st.booleans(), st.booleans())
def test_influence_is_the_derivative(
    drawn: tuple[Case, np.ndarray, np.ndarray],
    missing: str,
    prevalence: Fraction | None,
    is_fixed: bool,
    leaves_out: bool,
) -> None:
    case, positive, negative = drawn
    if leaves_out and (is_fixed or prevalence):  # of soft labels, its means are those of the classes by definition
        negative = np.where(positive > 0, 0.0, negative)
    design = {"prevalence_is_fixed": is_fixed, "leaves_out": leaves_out}
    found = influence(case.score, positive, negative, options(missing, prevalence), **design)
    for row, score in enumerate(case.score):
        items = items_of(score, positive, negative, missing)
        if not any(item[1] for item in kept(items)):
            assert np.isnan(found.values[row]).all()
            assert np.isnan(found.estimate[row])
            continue
        assert found.estimate[row] == pytest.approx(float(area(kept(items), prevalence, leaves_out)), abs=1e-14)
        if leaves_out and not has_others(kept(items)):
            continue
        held = prevalence or (sample_prevalence(kept(items)) if is_fixed else None)
        exact = iter(derivatives(kept(items), held, leaves_out))
        expected = np.array([0.0 if item is None else float(next(exact)) for item in items])
        total = sum(item[1] for item in kept(items))
        largest = max(positive.max(), negative.max())
        assert found.values[row] == pytest.approx(expected, rel=1e-12, abs=1e-14 * float(largest / total))


# Standard errors and acceleration from the blocks


def drawn_case(seed: int = 0, n_items: int = 60, n_models: int = 3, digits: int = 1, share: float = 0.4) -> Case:
    random = np.random.default_rng(seed)
    label = (random.random(n_items) < share).astype(np.int8)
    label[:4] = 1, 1, 0, 0
    return Case((random.normal(size=(n_models, n_items)) + label).round(digits), label)


def errors_of(items: list[Item], prevalence: Fraction | None, leaves_out: bool) -> tuple[float, float]:
    """Standard errors with fixed and random prevalence, from the exact derivatives."""
    values = derivatives(items, prevalence, leaves_out)
    fixed = extra = Fraction(0)
    for side in (1, 2):
        members = [i for i, item in enumerate(items) if item[side]]
        n = len(members)
        if n < 2:
            return np.nan, np.nan
        mean = sum(values[i] for i in members) / n
        fixed += Fraction(n, n - 1) * sum((values[i] - mean) ** 2 for i in members)
        extra += n * mean**2
    return float(fixed) ** 0.5, float(fixed + (extra if prevalence is None else 0)) ** 0.5


@given(*few_items)
def test_errors_and_acceleration_are_those_of_the_definitions(
    case: Case, missing: str, prevalence: Fraction | None, unseen: int, leaves_out: bool
) -> None:
    chosen = options(missing, prevalence)
    codes = [of_area(code, leaves_out) for code in HIDDEN]
    found = evaluated(case, codes, chosen, unseen)
    assert np.array_equal(found, evaluated(case, codes, chosen, unseen, kernels.evaluate_all_rows), equal_nan=True)
    for row, score in zip(found, case.score, strict=True):
        items = kept(items_of(score, *hard(case), missing, unseen))
        if not any(item[1] for item in items):
            assert np.isnan(row).all()
            continue
        assert row[:2] == pytest.approx(errors_of(items, prevalence, leaves_out), rel=1e-12, abs=1e-15, nan_ok=True)
        assert row[2] == pytest.approx(acceleration(items, prevalence, leaves_out), rel=1e-10, abs=1e-13)


@given(
    cases(missing=True, max_items=20), st.sampled_from(MISSING[1:]), prevalences, st.sampled_from([0, 3]), st.booleans()
)
def test_corrected_influences_add_up_to_the_squared_error(
    case: Case, missing: str, prevalence: Fraction | None, unseen: int, leaves_out: bool
) -> None:
    chosen = options(missing, prevalence)
    errors, cubes = (
        evaluated(case, [of_area(code, leaves_out) for code in codes], chosen, unseen) for codes in (ERRORS, CUBES)
    )
    for column, is_fixed in enumerate((True, False)):
        design = {"prevalence_is_fixed": is_fixed, "is_corrected": True, "leaves_out": leaves_out}
        found = influence(case.score, *hard(case), chosen, np.full(len(case.score), float(unseen)), **design)
        squares = (found.values**2).sum(axis=1) + unseen * found.unseen**2
        assert np.sqrt(squares) == pytest.approx(errors[:, column], rel=1e-12, abs=1e-15, nan_ok=True)
        summed = (found.values**3).sum(axis=1) + unseen * found.unseen**3
        assert summed == pytest.approx(cubes[:, column], rel=1e-9, abs=1e-14, nan_ok=True)


def test_a_standard_error_may_exceed_1() -> None:
    """No area does; equal weights do not change the error, and go another way."""
    scores = xr.Dataset({"score": (("model", "item"), [[3.0, 2, 1, 0]]), "label": ("item", [0, 1, 0, 1])})
    weighted = scores.assign(weight=("item", np.ones(4)))
    plain, same = (ap.evaluate(data, "haldane", prevalence=0.9)["standard_error"].item() for data in (scores, weighted))
    assert plain == pytest.approx(same, rel=1e-12)
    assert plain > 4


def without_itself(items: list[Item], prevalence: Fraction | None) -> Fraction:
    """Average precision with each positive left out of its own recall."""
    n, negatives = (sum(item[side] for item in items) for side in (1, 2))
    scale = n * (1 - prevalence) / (negatives * prevalence) if prevalence is not None and negatives else 1
    total = Fraction(0)
    for score, positive, _ in items:
        if score is not None and positive:
            above = [item for item in items if item[0] is not None and item[0] >= score]
            found = (sum(item[1] for item in above) - 1) * n / (n - 1)
            false = scale * sum(item[2] for item in above)
            total += found / (found + false) if found + false else 1
    return total / n


def with_one_more(items: list[Item], prevalence: Fraction | None, leaves_out: bool) -> Fraction:
    """The area with one more negative above all items, which counts as much as the others."""
    n, negatives = (sum(item[side] for item in items) for side in (1, 2))
    scale = n * (1 - prevalence) / (negatives * prevalence) if prevalence is not None and negatives else Fraction(1)
    scaled = [(score, positive, scale * negative) for score, positive, negative in items]
    return area([(np.inf, Fraction(0), scale), *scaled], leaves_out=leaves_out)


@given(*few_items)
def test_areas_without_an_item_and_with_one_more(
    case: Case, missing: str, prevalence: Fraction | None, unseen: int, leaves_out: bool
) -> None:
    """Haldane's area is the one without an item itself."""
    chosen = options(missing, prevalence)
    codes = [0 if leaves_out else LEFT_OUT, of_area(UNSEEN_LOSS, leaves_out)]
    found = evaluated(case, codes, chosen, unseen)
    rows = influence(case.score, *hard(case), chosen, np.full(len(case.score), float(unseen)), leaves_out=leaves_out)
    for i, score in enumerate(case.score):
        items = kept(items_of(score, *hard(case), missing, unseen))
        n = sum(item[1] for item in items)
        more = with_one_more(items, prevalence, leaves_out) if n else np.nan
        loss = float(area(items, prevalence, leaves_out) - more) if n else np.nan
        left_out = found[i, 0] if leaves_out else float(without_itself(items, prevalence)) if n > 1 else np.nan
        near = {"rel": 1e-12, "abs": 1e-15, "nan_ok": True}
        assert found[i] == pytest.approx([left_out, loss], **near)
        left_out = left_out if n > 1 else np.nan
        assert not n or [rows.left_out[i], rows.unseen_loss[i]] == pytest.approx([left_out, loss], **near)


@pytest.mark.smoke
@pytest.mark.parametrize("share", [0.005, 0.2])
def test_long_rankings_have_the_same_numbers(share: float) -> None:
    """Few positives are ranked among gaps, many by merging; both against the influence of every item."""
    case = drawn_case(n_items=9000, share=share, digits=3)
    codes = [0, *HIDDEN]
    found = evaluated(case, codes, options())
    assert found == pytest.approx(evaluated(case, codes, options(), rows=kernels.evaluate_all_rows), rel=1e-13)
    for column, is_fixed in ((1, True), (2, False)):
        values = influence(case.score, *hard(case), options(), prevalence_is_fixed=is_fixed, is_corrected=True).values
        assert np.sqrt((values**2).sum(axis=1)) == pytest.approx(found[:, column], rel=1e-12)
    assert np.array_equal(found, evaluated(case, [*HIDDEN, 0], options())[:, [3, 0, 1, 2]])


def test_acceleration_is_that_of_scipy() -> None:
    case = drawn_case(seed=4, n_items=40)
    found = evaluated(case, [ACCELERATION], options())[:, 0]
    for score, ours in zip(case.score, found, strict=True):
        samples = score[case.label == 1], score[case.label == 0]
        assert ours == pytest.approx(scipy_acceleration(samples), rel=1e-11)


def scipy_acceleration(samples: tuple[np.ndarray, np.ndarray]) -> float:
    def statistic(positive: np.ndarray, negative: np.ndarray, axis: int = -1) -> Any:
        lead = np.broadcast_shapes(positive.shape[:-1], negative.shape[:-1])
        parts = [np.broadcast_to(x, (*lead, x.shape[-1])) for x in (positive, negative)]
        label = np.repeat([1, 0], [x.shape[-1] for x in parts])
        return np.asarray(ap.estimate(np.concatenate(parts, axis=-1), label))

    replicates = np.linspace(0, 1, 50)  # they matter to the bias only
    *_, found = _resampling._bca_interval(samples, statistic, -1, 0.05, replicates, None, np)
    return float(found)


def jackknife_error(label: np.ndarray, first: np.ndarray, second: np.ndarray | None = None) -> float:
    """Standard error of an area, or of the difference of two, from leaving out every item of each class."""
    squares, everything = 0.0, np.arange(label.size)
    for members in (np.flatnonzero(label == 1), np.flatnonzero(label == 0)):
        rest = np.array([np.delete(everything, i) for i in members])
        without = np.asarray(ap.estimate(first[rest], label[rest]))
        if second is not None:
            without = without - np.asarray(ap.estimate(second[rest], label[rest]))
        squares += (len(members) - 1) / len(members) * ((without - without.mean()) ** 2).sum()
    return float(np.sqrt(squares))


def test_standard_error_is_close_to_the_jackknife() -> None:
    case = drawn_case(seed=5, n_items=400, n_models=4, digits=6)
    for score, (error,) in zip(case.score, evaluated(case, [ERROR_FIXED], options()), strict=True):
        assert error == pytest.approx(jackknife_error(case.label, score), rel=0.03)


def test_degenerate_rankings() -> None:
    def found(score: list[float], label: list[int]) -> np.ndarray:
        case = Case(np.array([score], np.float64), np.array(label, np.int8))
        return evaluated(case, [0, *HIDDEN], options())[0]

    assert np.array_equal(found([4, 3, 2, 1], [1, 1, 0, 0]), [1, 0, 0, 0])  # perfect: no item matters
    assert np.array_equal(found([3, 2, 1], [1, 0, 0])[1:3], [np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found([3, 2, 1], [1, 1, 0])[1:3], [np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found([3, 2], [1, 1]), [1, np.nan, np.nan, 0], equal_nan=True)
    assert np.isnan(found([3, 2], [0, 0])).all()
    tied = found([1.0] * 30, [1] * 9 + [0] * 21)
    assert tied[[0, 1, 3]] == pytest.approx([0.3, 0, 0], abs=1e-15)
    assert tied[2] == pytest.approx(np.sqrt(0.3 * 0.7 / 30))  # that of the prevalence itself
    alone = Case(np.array([[2.0, 1, 3, 0]]), np.array([1, 0, 0, 0], np.int8))
    items = kept(items_of(alone.score[0], *hard(alone)))
    assert evaluated(alone, [ACCELERATION], options())[0, 0] == pytest.approx(acceleration(items))


@pytest.mark.parametrize(("n_positive", "digits"), [(20, 6), (60, 1)])
def test_the_error_of_haldane_is_near_the_spread_of_replicates(n_positive: int, digits: int) -> None:
    scores = pooled(3, 8 * n_positive)
    random = np.random.default_rng(2)
    label = (np.arange(8 * n_positive) < n_positive).astype(np.int8)
    scores["label"][:] = label
    scores["score"][:] = (random.normal(size=scores["score"].shape) + label).round(digits)
    result = ap.evaluate(scores, "haldane", "influence_beta", n_resamples=20_000, keep_replicates=True)
    spread = result["replicate"].std("resample")
    np.testing.assert_allclose(result["standard_error"], spread, rtol=0.12)


def test_unknown_errors_are_nan() -> None:
    """Neither weights, nor ties in expectation, nor a range of recall."""
    case = drawn_case(n_items=50)
    expected = evaluated(case, [0, *HIDDEN], options(expect_ties=1))
    assert np.isfinite(expected[:, 0]).all()
    assert np.isnan(expected[:, 1:]).all()
    row = np.zeros(3, np.int64)
    weight = np.ones(case.score.shape)
    for parts in ((0.0, 1.0), (0.0, 0.5)):
        targets = kernels.targets_of([0, *HIDDEN], [np.nan] * 4, parts)
        items = kernels.Items(case.score, weight * case.label, weight * (1 - case.label), row, np.zeros(3))
        weighted = kernels.evaluate_weighted_rows(items, options(), targets)
        assert np.isfinite(weighted[:, 0]).all()
        assert np.isnan(weighted[:, 1:4]).all()
    part = kernels.evaluate_all_rows(case.score, case.label[None], row, np.full(3, np.nan), options(), targets)
    assert np.isnan(part[:, 1:4]).all()


# Sums of products


SHAPES = [(1, 1, 1), (3, 5, PANEL - 1), (2, TILE + 3, PANEL + 2), (7, 2 * TILE, 3 * PANEL)]


@pytest.mark.parametrize(("n_left", "n_right", "n_columns"), SHAPES)
def test_products_depend_on_no_other_row(n_left: int, n_right: int, n_columns: int) -> None:
    random = np.random.default_rng(n_columns)
    left, right = random.normal(size=(n_left, n_columns)), random.normal(size=(n_right, n_columns))
    whole = sums_of_products(left, right)
    assert whole == pytest.approx(left @ right.T, abs=1e-12)
    assert np.array_equal(whole, sums_of_products(right, left).T)
    for i in range(n_left):
        for j in (0, n_right // 2, n_right - 1):
            assert sums_of_products(left[i : i + 1], np.asfortranarray(right)[j : j + 1]).item() == whole[i, j]


def test_a_row_without_numbers_spoils_no_other() -> None:
    rows = np.ones((3, PANEL + 1))
    rows[1] = np.nan
    assert np.array_equal(np.isnan(sums_of_products(rows, rows)), np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool))


# The covariance of models


def with_weights(dataset: xr.Dataset) -> xr.Dataset:
    random = np.random.default_rng(7)
    return dataset.assign(
        weight=dataset["label"].copy(data=random.integers(0, 3, dataset["label"].shape)).astype(float)
    )


def with_soft_labels(dataset: xr.Dataset) -> xr.Dataset:
    random = np.random.default_rng(8)
    positive = dataset["label"].astype(float).copy(data=random.random(dataset["label"].shape))
    return dataset.drop_vars("label").assign(positive_weight=positive, negative_weight=1 - positive)


def with_clusters(dataset: xr.Dataset) -> xr.Dataset:
    random = np.random.default_rng(9)
    return dataset.assign(cluster=("item", random.integers(0, 12, dataset.sizes["item"]).astype(str)))


def with_gaps(dataset: xr.Dataset) -> xr.Dataset:
    random = np.random.default_rng(10)
    return dataset.assign(score=dataset["score"].where(random.random(dataset["score"].shape) > 0.1))


KINDS = {
    "plain": pooled(7, 300),
    "queries": queried(),
    "weights": with_weights(pooled(5, 90)),
    "soft": with_soft_labels(pooled(5, 90)),
    "clusters": with_clusters(pooled(5, 90)),
    "missing": with_gaps(pooled(5, 90)),
    "unseen": pooled(5, 90).assign(n_positive=90),
}


def unit_of(dataset: xr.Dataset) -> str:
    return "clusters" if "cluster" in dataset else "items"


def missing_of(dataset: xr.Dataset) -> str:
    return "drop" if np.isnan(dataset["score"].values).any() else "raise"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "design"), [*((kind, "fixed") for kind in KINDS), ("plain", "random"), ("clusters", "random")]
)
def test_chunks_of_models_change_nothing(kind: str, design: str) -> None:
    dataset = KINDS[kind]
    choices = {"missing": missing_of(dataset), "prevalence_design": design}
    whole = covariance(dataset, **choices)
    assert np.isfinite(whole["covariance"]).all()
    for chunk in (1, 2, dataset.sizes["model"]):
        lazy = covariance(dataset.chunk({"model": chunk}), **choices)
        assert lazy["covariance"].chunks is not None
        assert lazy.compute(scheduler="synchronous" if chunk == 2 else "threads").identical(whole)
    matrix = whole["covariance"].values
    assert np.array_equal(matrix, np.swapaxes(matrix, -1, -2))
    assert np.linalg.eigvalsh(matrix).min() > -1e-15
    estimate = ap.evaluate(dataset, missing=choices["missing"])["estimate"]
    assert whole["estimate"].values.tobytes() == np.ascontiguousarray(estimate.values).tobytes()


@settings(max_examples=10)
@given(chunkings(7), st.permutations(range(7)))
def test_other_models_change_nothing(chunks: tuple[int, ...], order: list[int]) -> None:
    dataset = KINDS["plain"]
    whole = covariance(dataset)
    moved = covariance(dataset.isel(model=order).chunk({"model": chunks})).compute()
    assert moved.identical(whole.isel(model=order, other_model=order))
    first = covariance(dataset.isel(model=order[:3]))
    assert first.identical(whole.isel(model=order[:3], other_model=order[:3]))


@pytest.mark.smoke
def test_the_diagonal_is_the_squared_standard_error() -> None:
    for kind in ("plain", "missing", "unseen"):
        dataset = KINDS[kind]
        missing, n_unseen = missing_of(dataset), 0
        if "n_positive" in dataset:
            n_unseen = int(dataset["n_positive"] - dataset["label"].sum())
        case = Case(dataset["score"].values, dataset["label"].values)
        errors = evaluated(case, ERRORS, options(missing), n_unseen)
        for column, design in enumerate(("fixed", "random")):
            found = covariance(dataset, missing=missing, prevalence_design=design)["covariance"].values
            assert np.sqrt(np.diagonal(found)) == pytest.approx(errors[:, column], rel=1e-12)


def test_each_query_is_like_a_data_set() -> None:
    dataset = KINDS["queries"]
    found = covariance(dataset, missing="drop")
    assert found["estimate"].dims == ("model", "query")
    assert found["covariance"].dims == ("query", "model", "other_model")
    for query in dataset["query"].values:
        alone = covariance(dataset.sel(query=query, drop=True), missing="drop")
        assert alone.identical(found.sel(query=query, drop=True))


def exact_covariance(dataset: xr.Dataset, units: np.ndarray, *, is_fixed: bool) -> np.ndarray:
    """Covariance of sums of exact derivatives over units, all of one stratum."""
    score, (positive, negative) = dataset["score"].values, class_weights_of(dataset)
    sums = []
    for row in score:
        items = items_of(row, positive, negative, missing_of(dataset))
        held = sample_prevalence(kept(items)) if is_fixed else None
        exact = iter(derivatives(kept(items), held))
        values = [0.0 if item is None else float(next(exact)) for item in items]
        sums.append(np.bincount(units, weights=values))
    n = np.unique(units).size
    return np.array(n / (n - 1) * np.array(sums) @ np.array(sums).T)


def class_weights_of(dataset: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    if "label" not in dataset:
        return dataset["positive_weight"].values, dataset["negative_weight"].values
    weight = dataset["weight"].values if "weight" in dataset else np.ones(dataset.sizes["item"])
    return weight * (dataset["label"].values == 1), weight * (dataset["label"].values == 0)


BY_CLUSTER = [with_clusters, lambda d: with_clusters(with_weights(d)), lambda d: with_gaps(with_clusters(d))]


@pytest.mark.parametrize("design", ["fixed", "random"])
def test_soft_labels(design: str) -> None:
    """Where every item carries both weights, it is corrected as one of all items."""
    dataset, is_fixed = with_soft_labels(pooled(2, 36)), design == "fixed"
    found = covariance(dataset, prevalence_design=design)
    assert found.attrs["sampled"] == "items"
    expected = exact_covariance(dataset, np.arange(36), is_fixed=is_fixed)
    assert found["covariance"].values == pytest.approx(expected, rel=1e-11 if is_fixed else 0.05)


@pytest.mark.parametrize("estimator", ["average_precision", "roc_area"])
@pytest.mark.parametrize("change", BY_CLUSTER)
def test_few_clusters_are_left_out_in_turn(change: Callable[[xr.Dataset], xr.Dataset], estimator: str) -> None:
    dataset = change(pooled(2, 36))
    dataset["score"] = dataset["score"].round(1)
    units = np.unique(dataset["cluster"].values, return_inverse=True)[1]
    missing = missing_of(dataset)
    found = covariance(dataset, estimator, missing=missing)
    assert found.attrs["sampled"] == "clusters"
    whole, n = dataset.drop_vars("cluster"), units.max() + 1
    without = (whole.isel(item=units != c) for c in range(n))
    areas = np.array([ap.evaluate(one, estimator, (), missing=missing)["estimate"].values.ravel() for one in without])
    deviations = areas - areas.mean(axis=0)
    np.testing.assert_allclose(found["covariance"], (n - 1) / n * deviations.T @ deviations, rtol=1e-10)


@pytest.mark.parametrize("change", BY_CLUSTER)
def test_influences_of_many_clusters_are_added_up(
    change: Callable[[xr.Dataset], xr.Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more clusters than are worth leaving out."""
    dataset = change(pooled(2, 36))
    units = np.unique(dataset["cluster"].values, return_inverse=True)[1]
    monkeypatch.setattr("aucpr_dask.evaluation.influences.MOST_LEFT_OUT", 2)
    expected = exact_covariance(dataset, units, is_fixed=False)
    found = covariance(dataset, missing=missing_of(dataset))["covariance"]
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize(("correlation", "seed"), [(0.0, 16), (0.8, 1)])
def test_the_default_interval_of_clusters_by_hand(correlation: float, seed: int) -> None:
    """As the page on the default interval says, and never narrower than that of items."""
    n_clusters, random = 8, np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), [10, 20, 30, 60] * 2)
    positive = random.random(cluster.size) < 0.4
    shared, own = random.normal(size=n_clusters)[cluster], random.normal(size=cluster.size)
    score = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own + 1.5 * positive

    items = {"score": (("model", "item"), score[None]), "label": ("item", positive.astype(np.int8))}
    dataset = xr.Dataset(items | {"cluster": ("item", cluster)})
    lower, upper = ap.evaluate(dataset)["interval"].values[0]
    of_items = ap.evaluate(dataset, over="items")
    area, error, n = of_items["estimate"].item(), of_items["standard_error"].item(), positive.sum()

    found = np.array([np.sum(positive & (score >= x)) for x in score[positive]])
    above = np.array([np.sum(~positive & (score >= x)) for x in score[positive]])
    others = (found - 1) * n / (n - 1)
    itself = area - np.mean(np.where(others + above > 0, others / np.maximum(others + above, 1), 1.0))
    without = [ap.estimate(score[cluster != c], positive[cluster != c]) for c in range(n_clusters)]
    bias = (n_clusters - 1) * (np.mean(without) - area)
    centre = area - itself / 2 - max(bias - itself, 0)
    ratio = (n_clusters - 1) / n_clusters * np.sum((without - np.mean(without)) ** 2) / error**2
    effect = ((n_clusters - 1) * ratio + 2) / (n_clusters + 1)
    effect = 1 + (effect - 1) * (1 + 12 / (n_clusters - 1)) if effect > 1 else effect
    sizes = np.bincount(cluster)
    worth = sizes.sum() ** 2 / np.sum(sizes**2)  # 5.76 clusters of one size
    factor = effect * (stats.t.ppf(0.975, worth - 1) / stats.norm.ppf(0.975)) ** 2
    assert (factor < 1) == (correlation == 0.0)
    moderated = ((n - 1) * error**2 + 10 * centre * (1 - centre) / n) / (n + 9)
    effective = min(centre * (1 - centre) / (moderated * max(factor, 1)), 5 * n)
    expected = stats.beta.ppf(0.975, effective * centre + 2 / 3, effective * (1 - centre) + 1 / 3)
    assert upper == pytest.approx(expected, rel=1e-10)
    if factor < 1:  # and the jackknife shows no bias beyond that of items
        np.testing.assert_array_equal([lower, upper], of_items["interval"].values[0])


def test_clusters_multiply_the_variance_of_a_difference_by_its_design_effect() -> None:
    dataset = with_clusters(pooled(6, 90))
    of_clusters, of_items = covariance(dataset), covariance(dataset, over="items")
    within, between = (
        np.add.outer(np.diagonal(each), np.diagonal(each)) - 2 * each
        for each in (of_items["covariance"].values, of_clusters["covariance"].values)
    )
    ratio = np.divide(between, within, out=np.ones_like(within), where=~np.eye(6, dtype=bool))
    assert (ratio < 1).any()
    assert (ratio > 1).any()
    for name in ("difference_variance", "outer_variance"):
        np.testing.assert_allclose(of_clusters[name], of_items[name] * np.maximum(ratio, 1), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:method='influence' over")
@pytest.mark.parametrize("sizes", [[5] * 12, [1, 2, 3, 6] * 3, [1, 2, 4, 8, 16, 32] * 2])
def test_unequal_clusters_have_the_degrees_of_freedom_of_fewer(sizes: list[int]) -> None:
    cluster = np.repeat(np.arange(12), 2 * np.array(sizes))
    label = np.arange(cluster.size) % 2
    score = np.random.default_rng(0).normal(size=(2, cluster.size)) + label
    dataset = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label), "cluster": ("item", cluster)})
    positives = np.array(sizes)
    worth, of_squares = (np.sum(one) ** 2 / np.sum(one**2) for one in (positives, positives**2))
    expected = min(worth - 1, of_squares + 2)
    assert (expected == 11) == (len(set(sizes)) == 1)
    np.testing.assert_allclose(covariance(dataset)["degrees"], expected, rtol=1e-12)
    found = ap.metrics.average_precision_difference(label, *score, clusters=cluster)
    assert found.interval == pytest.approx(ap.compare(dataset)["interval"].values[1, 0], rel=1e-12)


def test_labels_as_soft_labels() -> None:
    dataset = pooled(4, 50)
    positive = dataset["label"].astype(float)
    soft = dataset.drop_vars("label").assign(positive_weight=positive, negative_weight=1 - positive)
    for design in ("fixed", "random"):
        found = covariance(soft, prevalence_design=design)["covariance"]
        assert found.values == pytest.approx(
            covariance(dataset, prevalence_design=design)["covariance"].values, rel=1e-13
        )


def test_positives_that_are_no_item_are_like_missed_ones() -> None:
    """Positives that no model scored, given by their number or as items without a score."""
    dataset = pooled(3, 40)
    extra = dataset.isel(item=slice(5)).assign_coords(item=[f"x{i}" for i in range(5)])
    extra = extra.assign(score=np.nan * extra["score"], label=1 + 0 * extra["label"])
    longer = xr.concat([dataset, extra], dim="item", data_vars="minimal")
    found = covariance(dataset.assign(n_positive=int(dataset["label"].sum()) + 5))
    expected = covariance(longer, missing="unretrieved")
    assert found["covariance"].values == pytest.approx(expected["covariance"].values, rel=1e-13)


def test_errors_of_differences() -> None:
    dataset = pooled(3, 300)
    twin = dataset.isel(model=[0]).assign_coords(model=["twin"])
    twin["score"] = 2 * twin["score"] + 1
    dataset = xr.concat([dataset, twin], dim="model", data_vars="minimal")
    found = covariance(dataset)
    errors = errors_of_differences(found["covariance"])
    assert errors.dims == ("model", "other_model")
    assert errors.sel(model="m0", other_model="twin") == 0
    assert np.array_equal(np.diagonal(errors), np.zeros(4))
    lazy = errors_of_differences(covariance(dataset.chunk({"model": 2}))["covariance"])
    assert lazy.chunks is not None
    assert lazy.compute().identical(errors)
    of_jackknife = jackknife_error(dataset["label"].values, *dataset["score"].values[1:3])
    assert errors.sel(model="m1", other_model="m2").item() == pytest.approx(of_jackknife, rel=0.03)


def test_a_class_of_one_item_or_in_one_cluster_shows_no_spread() -> None:
    dataset = pooled(2, 20)
    dataset["label"][:] = 0
    dataset["label"][3] = 1
    found = covariance(dataset)
    assert np.isfinite(found["estimate"]).all()
    assert np.isnan(found["covariance"]).all()
    dataset["label"][4] = 1
    assert np.isfinite(covariance(dataset)["covariance"]).all()
    clusters = np.arange(20)
    clusters[4] = 3
    assert np.isnan(covariance(dataset.assign(cluster=("item", clusters)), over="clusters")["covariance"]).all()


def test_trees_and_grades() -> None:
    graded = pooled(3, 50)
    graded["label"] = graded["label"] * 2
    tree = xr.DataTree.from_dict({"a": graded, "b/c": graded.isel(model=[0, 2])})
    found = covariance(tree, positive_from=2)
    assert found["a"].to_dataset().identical(covariance(pooled(3, 50)).assign_attrs(positive_from=2))
    assert found["b/c"].sizes["other_model"] == 2


def test_unjudged_items() -> None:
    dataset = pooled(3, 50)
    dataset["label"][10:20] = -1
    negative = dataset.assign(label=dataset["label"].where(dataset["label"] >= 0, 0).astype(np.int8))
    dropped = dataset.isel(item=np.flatnonzero(dataset["label"] >= 0))
    assert covariance(dataset)["covariance"].identical(covariance(negative)["covariance"])
    found = covariance(dataset, unjudged="drop")["covariance"].values
    assert found == pytest.approx(covariance(dropped)["covariance"].values, rel=1e-13)


def test_covariances_and_comparisons_of_haldane() -> None:
    scores = pooled(3, 120)
    scores["score"][:] = scores["score"] + scores["label"]
    found = covariance(scores, "haldane")
    result = ap.evaluate(scores, ["lower_trapezoid", "haldane", "average_precision"])
    errors = np.sqrt(np.diagonal(found["covariance"]))
    expected = result.sel(estimator="haldane")
    np.testing.assert_allclose(errors, expected["standard_error"], rtol=1e-12)
    np.testing.assert_array_equal(found["estimate"], expected["estimate"])
    compared = ap.compare(scores, over="items", method="influence", estimator="haldane")
    np.testing.assert_allclose(compared["standard_error"] ** 2, found["difference_variance"], rtol=1e-12)
    assert result["interval"].coords["interval_method"].item() == "influence_beta"
    alone = ap.evaluate(scores, "haldane")
    assert alone["interval"].coords["interval_method"].item() == "influence_beta"
    lazy = ap.evaluate(scores.chunk({"model": 1}), ["average_precision", "haldane"]).compute()
    in_chunks = ap.evaluate(scores.chunk({"item": 50}), ["average_precision", "haldane"]).compute()
    for part in (alone, lazy, in_chunks):
        for name in ("estimate", "standard_error", "interval"):
            known = {"estimator": "haldane"} if "estimator" in part[name].dims else {}
            np.testing.assert_array_equal(part[name].sel(known), result[name].sel(estimator="haldane"))


@pytest.mark.parametrize("kind", ["weights", "soft", "clusters"])
def test_haldane_of_weights_and_clusters_has_intervals(kind: str) -> None:
    scores = KINDS[kind]
    design = {"over": unit_of(scores)}
    result = ap.evaluate(scores, ["haldane", "average_precision"], ["influence_logit_t", "influence_beta"], **design)
    haldane = result.sel(estimator="haldane")
    found = covariance(scores, "haldane", over=design["over"])
    np.testing.assert_allclose(np.sqrt(np.diagonal(found["covariance"])), haldane["standard_error"], rtol=1e-12)
    lower, upper = haldane["interval"].sel({"interval_method": "influence_beta"}).transpose("ci_bound", ...).values
    assert ((lower < haldane["estimate"].values) & (haldane["estimate"].values < upper)).all()
    for method in ("bootstrap", "bca") if kind == "weights" else ():
        with pytest.raises(InvalidInputError, match="haldane: replicates are known for unweighted"):
            ap.evaluate(scores, "haldane", method)


ITEMS = pooled(3, 30)
LISTS = ITEMS.assign(label=(("model", "item"), [np.roll(ITEMS["label"], i) for i in range(ITEMS.sizes["model"])]))
HOLE = ITEMS.assign(score=ITEMS["score"].where((ITEMS["model"] != "m1") | (ITEMS["item"] != "d0003")))


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (ITEMS, {"estimator": "discrete"}, "no influence function"),
        (HOLE, {}, "'m1': 1"),
        (LISTS, {}, "share no items"),
        (with_clusters(ITEMS).assign(n_positive=30), {"over": "clusters"}, "belong to no cluster"),
        (ITEMS, {"over": "clusters"}, "cluster of every item"),
        (ITEMS.assign(n_positive=1), {}, "n_positive is less"),
    ],
)
def test_refusals(dataset: xr.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MissingScoresError if dataset is HOLE else InvalidInputError, match=message):
        covariance(dataset, **options)


# Simulation


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [ap.simulate.binormal(), ap.simulate.bibeta(), ap.simulate.offset_uniform()])
@pytest.mark.parametrize("design", ["exact", "binomial"])
def test_standard_errors_are_near_the_true_ones(scenario: Any, design: str) -> None:
    sample = scenario.sample(1000, 0.1, n_simulations=4000, label_design=design, seed=1).compute()
    labels = np.atleast_2d(sample["label"].values)
    row = np.arange(4000) if len(labels) > 1 else np.zeros(4000, np.int64)
    codes = [0, *ERRORS, HALDANE, *(of_area(code, True) for code in ERRORS)]
    found = kernels.evaluate_rows(
        sample["score"].values, labels, row, np.full(4000, np.nan), options(), np.array(codes)
    )
    for area, *errors in (found[:, :3].T, found[:, 3:6].T):  # of average precision, and of Haldane's area
        error = errors[0 if design == "exact" else 1]
        assert np.sqrt((error**2).mean()) == pytest.approx(area.std(), rel=0.08)
        covered = np.abs(area - scenario.area(0.1)) < 1.96 * error
        assert 0.9 < covered.mean() < 0.97


@pytest.mark.slow
def test_equal_models_differ_at_the_level() -> None:
    """Two models whose scores share the items' own noise: the paired error of their difference covers 0."""
    random = np.random.default_rng(3)
    label = (np.arange(500) < 50).astype(np.int8)
    shared, own = random.normal(size=(600, 1, 500)), random.normal(size=(600, 2, 500))
    rejected = 0
    for score in label + shared + own:
        dataset = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})
        found = covariance(dataset)
        error = errors_of_differences(found["covariance"]).values[0, 1]
        rejected += abs(float(found["estimate"].diff("model").item())) > 1.96 * error
    assert 0.03 < rejected / 600 < 0.09


# Other areas, and parts of areas

OTHER_AREAS = ["lower_trapezoid", "upper_trapezoid", "continuous", "interpolated_max", "roc_area", "gain_area"]


def line(start: Any, stop: Any, left: Any, right: Any, low: Any, high: Any) -> Any:
    """Area under a straight line, cut at two recalls."""
    first, last = max(start, low), min(stop, high)
    at = [left + (right - left) * (x - start) / (stop - start) for x in (first, last)]
    return sum(at) / 2 * (last - first) if last > first else 0


def hyperbola(start: Any, above: Any, stop: Any, at: Any, low: Any, high: Any) -> Any:
    """Area under the interpolated curve between two points, cut at two recalls: section 3 of Boyd and others."""
    first, last, slope = max(start, low), min(stop, high), (at - above) / (stop - start)
    if last <= first:
        return 0
    a, b = 1 + slope, above - slope * start
    size = first + above + slope * (first - start)
    if size == 0:
        return (last - first) / a
    return (last - first - b / a * math.log1p(float(a * (last - first) / size))) / a


def area_by_groups(name: str, items: list[Item], prevalence: Any = None, recalls: tuple[Any, Any] = (0, 1)) -> Any:
    """Return an area from its definition, tie group by tie group; rational unless it takes a logarithm."""
    n, m = sum(p for _, p, _ in items), sum(q for _, _, q in items)
    scale = 1 if prevalence is None else n * (1 - prevalence) / (m * prevalence)
    low, high = recalls[0] * n, recalls[1] * n
    area = tp = fp = previous = Fraction(0)
    for score in sorted({x for x, _, _ in items}, reverse=True):
        gained = sum(p for x, p, _ in items if x == score)
        above, fp = fp, fp + scale * sum(q for x, _, q in items if x == score)
        if not gained:
            continue
        before, tp = tp, tp + gained
        right, fallen = tp / (tp + fp), above if name == "lower_trapezoid" else previous
        if name == "average_precision":
            area += line(before, tp, right, right, low, high)
        elif name.endswith("trapezoid"):
            left = before / (before + fallen) if before else int(not fallen)
            area += line(before, tp, left, right, low, high)
        elif name == "roc_area":
            area += gained * (1 - (above + fp) / (2 * scale * m))
        elif name == "gain_area":
            odds = n / (scale * m)
            first = max(before, n * odds / (1 + odds))
            here = above + (fp - above) * (first - before) / gained
            gains = [1 - odds * x / y for x, y in ((here, first), (fp, tp))]
            area += n * sum(gains) / 2 * odds * n * (1 / first - 1 / tp) if tp > first else 0
        else:
            area += hyperbola(before, above if name == "continuous" else previous, tp, fp, low, high)
        previous = fp
    return area / n


@pytest.mark.sparse
@pytest.mark.parametrize("prevalence", [None, Fraction(1, 50)])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "recalls"),
    [
        *((name, (Fraction(0), Fraction(1))) for name in OTHER_AREAS),
        *((name, (Fraction(1, 5), Fraction(5, 7))) for name in ["average_precision", *OTHER_AREAS[:4]]),
    ],
)
def test_influences_on_other_areas_are_derivatives(
    name: str, recalls: tuple[Fraction, Fraction], is_weighted: bool, prevalence: Fraction | None
) -> None:
    rng = np.random.default_rng(5)
    score, positive = rng.integers(0, 12, 24).astype(float), (rng.random(24) < 0.4).astype(float)
    negative = 1 - positive
    if is_weighted:  # one item in both classes
        positive, negative = positive * rng.integers(1, 4, 24) / 2, negative * rng.integers(1, 4, 24) / 2
        positive[3], negative[3] = 0.5, 1.5
    items = [(x, Fraction(p), Fraction(q)) for x, p, q in zip(score, positive, negative, strict=True)]
    takes_logarithm = name in ("continuous", "interpolated_max")
    step = Fraction(1, 10**5) if takes_logarithm else Fraction(1, 10**12)

    def moved(i: int, by: Fraction) -> Any:
        copies = [(x, p * (1 + by * (i == j)), q * (1 + by * (i == j))) for j, (x, p, q) in enumerate(items)]
        return area_by_groups(name, copies, prevalence, recalls)

    expected = np.array([float((moved(i, step) - moved(i, -step)) / (2 * step)) for i in range(24)])
    n, m = positive.sum(), negative.sum()
    reading = kernels.Options(prevalence=np.nan if prevalence is None else float(prevalence))
    units = Units(np.ones(1), np.ones(1))
    of_items = kernels.Items(score[None], positive[None], negative[None], np.zeros(1, np.int64), np.zeros(1))
    asked = of_items, reading, name, recalls
    design: dict[str, Any] = {"units": units, "is_corrected": False}
    is_fixed = prevalence is not None
    found = influence_rows(*asked, **design, prevalence_is_fixed=is_fixed)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.estimate[0], float(area_by_groups(name, items, prevalence, recalls)), rtol=1e-12)
    np.testing.assert_allclose(found.values[0], expected, rtol=1e-6, atol=1e-8)
    if not is_weighted:
        fixed = influence_rows(*asked, **design, prevalence_is_fixed=True)  # type: ignore[arg-type]
        centred = expected - positive * expected[positive > 0].sum() / n - negative * expected[negative > 0].sum() / m
        np.testing.assert_allclose(fixed.values[0], centred, rtol=1e-6, atol=1e-8)


def test_variances_of_roc_areas_are_those_of_delong() -> None:
    for case in oracle("delong"):
        data = {"score": (("model", "item"), [case["a"], case["b"]]), "label": ("item", case["y"])}
        found, known = covariance(xr.Dataset(data, {"model": ["a", "b"]}), "roc_area"), case["pROC"]
        (a, both), (_, b) = found["covariance"].squeeze().values
        expected = [known["var_a"], known["cov_ab"], known["var_b"]]
        np.testing.assert_allclose([a, both, b], expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_covariances_take_the_clusters_of_each_label_in_any_layout(is_weighted: bool) -> None:
    random = np.random.default_rng(4)
    label = np.arange(60) % 4 == 0
    score = random.normal(size=(2, 2, 60)) + label
    clusters = np.stack([random.integers(0, 12, 60), random.integers(0, 8, 60)])
    scores = xr.Dataset({"score": (("model", "lead", "item"), score), "label": ("item", label)})
    scores["cluster"] = ("lead", "item"), clusters
    if is_weighted:
        scores["weight"] = ("lead", "item"), random.uniform(1, 2, (2, 60))
    for layout in (scores, scores.chunk(lead=1), scores.transpose("item", "lead", "model")):
        found = ap.covariance(layout).compute()
        for lead in (0, 1):
            alone = ap.covariance(scores.isel(lead=lead))
            for name in ("estimate", "covariance", "difference_variance", "degrees", "flags"):
                np.testing.assert_array_equal(found[name].isel(lead=lead).transpose(*alone[name].dims), alone[name])


def test_covariances_need_models() -> None:
    with pytest.raises(ap.errors.InvalidInputError, match="scores of one model"):
        ap.covariance(xr.Dataset({"score": ("item", [0.1, 0.2, 0.3]), "label": ("item", [0, 1, 1])}))
