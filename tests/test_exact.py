"""Brute force from the definitions, in exact fractions; and long rankings through every path of the kernels."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_estimators_exact import Reference, assert_matches, items_of

import aucpr_dask as ap
from aucpr_dask.kernels import Options, dispatch, evaluate_all_rows, evaluate_rows, rankings
from aucpr_dask.kernels import areas as areas_of_groups
from aucpr_dask.kernels import options as of_kernels
from aucpr_dask.kernels.dispatch import influence_rows, sums_of_products
from aucpr_dask.schema.estimators import ESTIMATORS

NAMES = ["average_precision", "lower_trapezoid", "upper_trapezoid"]
PADDING, UNJUDGED = -2, -1
NAN = float("nan")


def test_a_missing_score_of_an_item_without_weight_is_nothing() -> None:
    assert ap.estimate([NAN, 2.0, 1.0], [1, 0, 1], weight=[0, 1, 1]) == 0.5


# Long rankings


def long_ranking(kind: str, share: float, dtype: type, n_items: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([int(share * 1000), len(kind)])
    label = (random.random(n_items) < share).astype(np.int8)
    label[:2] = 1, 0
    score = random.normal(size=n_items) + label
    if kind == "tied":
        score = score.round(1)
    elif kind == "crowded":  # one far outlier, so that all other positives share a bucket
        score[0] = 1e30
    elif kind == "infinite":
        score[random.random(n_items) < 0.1] = np.inf
        score[random.random(n_items) < 0.1] = -np.inf
    elif kind == "signed zeros":
        score = np.where(random.random(n_items) < 0.5, 0.0, -0.0)
    elif kind == "tiny":
        score = score * 1e-310
    elif kind == "huge":
        score = score * 3e307
    elif kind == "constant":
        score[:] = 2.0
    elif kind == "missing":
        score[random.random(n_items) < 0.2] = np.nan
        label[random.random(n_items) < 0.1] = UNJUDGED
        label[random.random(n_items) < 0.1] = PADDING
    with np.errstate(over="ignore", under="ignore"):
        return score.astype(dtype), label


KINDS = ["plain", "tied", "crowded", "infinite", "signed zeros", "tiny", "huge", "constant", "missing"]
PATHS: dict[str, dict[str, Any]] = {
    "short ones in order": {"SHORT": 10**9},
    "in order": {"SHORT": 0, "FEW_POSITIVES": 0.0},
    "gaps": {"SHORT": 0, "FEW_POSITIVES": 1.0, "TABLE_POSITIVES": 10**9},
    "chosen": {},
}


def use(path: str, patch: pytest.MonkeyPatch) -> None:
    for name, value in PATHS[path].items():
        patch.setattr(rankings, name, value)


class Spy:
    """Records which ways a long ranking went, and whether they led to its tie groups."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, bool]] = []
        for way in ("_groups_in_gaps", "_groups_in_order"):
            patch.setattr(rankings, way, self.recorded(way, getattr(rankings, way)))

    def recorded(self, way: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            found = function(*arguments)
            self.calls.append((way, found is not None))
            return found

        return call


@pytest.mark.parametrize(("share", "dtype"), [(0.005, np.float32), (0.3, np.float64), (0.97, np.float32)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_path_is_bit_identical(kind: str, share: float, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    score, label = long_ranking(kind, share, dtype)
    results = {}
    for path in PATHS:
        with monkeypatch.context() as patch:
            use(path, patch)
            spy = Spy(patch)
            results[path] = [
                ap.estimate(score, label, NAMES, missing="last", n_positive=10_000),
                ap.estimate(score, label, missing="drop", ties="expectation"),
                ap.estimate(score, label, NAMES, missing="unretrieved", prevalence=0.01),
            ]
        refused = [("_groups_in_gaps", False), ("_groups_in_order", True)]
        if "in order" in path:
            assert spy.calls == (refused if path == "in order" else refused[1:]) * 3
        elif path == "gaps" and kind in ("plain", "tied", "missing", "crowded", "constant"):
            assert spy.calls == (refused if kind == "crowded" else [("_groups_in_gaps", True)]) * 3
    for path, result in results.items():
        for ours, first in zip(result, results["in order"], strict=True):
            np.testing.assert_array_equal(ours, first, err_msg=path)
    weighted = ap.estimate(score, label, NAMES, weight=np.ones(label.size), missing="unretrieved", prevalence=0.01)
    np.testing.assert_allclose(weighted, results["in order"][2], rtol=1e-13)


@pytest.mark.parametrize("kind", ["plain", "tied", "missing"])
def test_what_knows_all_numbers_has_the_bits_of_what_knows_the_common_ones(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    score, label = long_ranking(kind, 0.3, np.float64, 500)
    codes = np.flatnonzero(of_kernels.IS_COMMON)
    arguments = score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64)
    options = [Options(missing=missing, prevalence=p) for missing in (1, 2, 3) for p in (np.nan, 0.01)]

    def numbers() -> list[np.ndarray]:
        return [evaluate_rows(*arguments, np.array([given]), o, codes) for given in (np.nan, 10_000.0) for o in options]

    common = numbers()
    monkeypatch.setattr(of_kernels, "IS_COMMON", np.zeros_like(of_kernels.IS_COMMON))
    np.testing.assert_array_equal(common, numbers())
    assert np.isfinite(common).all(axis=(1, 2)).any()


@given(st.data())
def test_the_first_calls_by_numpy_have_the_bits_of_the_kernels(data: st.DataObject) -> None:
    n = data.draw(st.integers(0, 60))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    score = random.choice([random.normal(size=n), random.integers(0, 5, n) / 3, np.full(n, np.inf)], axis=0)
    score = np.where(random.random(n) < 0.1, random.choice([np.nan, -np.inf, -0.0]), score)
    score = score.astype(data.draw(st.sampled_from([np.float32, np.float64])))
    label = random.integers(-2, data.draw(st.integers(0, 3)), n, dtype=np.int8)
    label_row, total = np.zeros(1, np.int64), random.choice([np.nan, n, n + 7.0], 1)
    for missing, drop_unjudged, positive_from in itertools.product(range(4), range(2), (1, 2)):
        options = Options(positive_from, drop_unjudged, missing, prevalence=random.choice([np.nan, 0.2]))
        arguments = (
            score[np.newaxis],
            label[np.newaxis],
            label_row,
            total,
            options,
            np.flatnonzero(of_kernels.IS_COMMON),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dispatch, "MOST_BY_NUMPY", 1 << 62)
            patch.setattr(dispatch, "needs_no_compiling", lambda name: False)
            patch.setattr(rankings, "finish_rows", None)
            ours = evaluate_rows(*arguments)
            none = evaluate_rows(score[np.newaxis][:0], label[np.newaxis], label_row[:0], total[:0], *arguments[4:])
        np.testing.assert_array_equal(ours, evaluate_rows(*arguments))
        assert none.shape == (0, ours.shape[1])


@given(st.data())
def test_the_first_influences_by_numpy_have_the_bits_of_the_kernels(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 60))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    score = random.choice([random.normal(size=(2, n)), random.integers(0, 5, (2, n)) / 3], axis=0)
    score[random.random((2, n)) < random.choice([0.0, 0.2])] = np.nan
    label, row, unseen = random.integers(-1, 2, n), np.zeros(2, np.int64), np.full(2, random.integers(0, 3) * 1.0)
    weights = ((label == 1)[np.newaxis] * 1.0, (label == 0)[np.newaxis] * 1.0)
    for missing, is_fixed, is_corrected in itertools.product(range(4), (False, True), (False, True)):
        options = Options(missing=missing, prevalence=random.choice([np.nan, 0.2]))
        design = {"prevalence_is_fixed": is_fixed, "is_corrected": is_corrected}
        found = []
        for most in (0, 1 << 62):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(dispatch, "MOST_BY_NUMPY", most)
                patch.setattr(dispatch, "needs_no_compiling", lambda name: False)
                influence = influence_rows(
                    of_kernels.Items(score.astype(np.float32), *weights, row, unseen), options, **design
                )
                found.append([*influence, sums_of_products(influence.values, np.tile(influence.values, 9)[:, :n])])
        for by_kernel, by_numpy in zip(*found, strict=True):
            np.testing.assert_array_equal(by_kernel, by_numpy)


@pytest.mark.parametrize("missing", ["drop", "last", "unretrieved"])
@pytest.mark.parametrize("recall_range", [(0.0, 1.0), (0.1, 0.6)])
def test_tie_groups_alone_have_the_bits_of_every_operating_point(
    missing: Any, recall_range: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number is made from tie groups, in gaps or in order, unless another that is asked for needs all points."""
    score, label = long_ranking("missing", 0.05, np.float64, 800)
    is_whole = recall_range == (0.0, 1.0)
    names = [name for name, record in ESTIMATORS.items() if not record.parameter and (is_whole or record.partial)]
    asked: dict[str, Any] = {"missing": missing, "recall_range": recall_range}
    together = ap.estimate(score, label, names, **asked)
    for shortest in (0, 1000):
        monkeypatch.setattr(rankings, "SHORT", shortest)
        alone = [ap.estimate(score, label, name, **asked) for name in names]
        np.testing.assert_array_equal(np.ravel(alone), together)


def test_calls_beyond_the_first_are_for_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_n_done", 0)
    monkeypatch.setattr(dispatch, "MOST_BY_NUMPY", 3 * (dispatch.ITEMS_PER_RANKING + 5))
    monkeypatch.setattr(dispatch, "needs_no_compiling", lambda name: False)
    score, label, row = np.arange(5.0)[np.newaxis], np.ones((1, 5), np.int8), np.zeros(1, np.int64)
    code = np.array([of_kernels.AVERAGE_PRECISION])
    monkeypatch.setattr(rankings, "evaluate_rows", lambda *given: None)
    found = [dispatch.evaluate_rows(score, label, row, np.array([np.nan]), Options(), code) for _ in range(4)]
    assert [one is None for one in found] == [False, False, False, True]


@pytest.mark.parametrize(("kept", "by_numpy"), [((), True), (("areas",), True), (("areas", "float32"), False)])
@pytest.mark.parametrize("n_items", [5, 9000])
def test_kernels_of_one_type_of_scores_are_not_those_of_another(monkeypatch, n_items, kept, by_numpy) -> None:
    monkeypatch.setattr(dispatch, "_n_done", 0)
    monkeypatch.setattr(dispatch, "MOST_BY_NUMPY", 1 << 62)
    monkeypatch.setattr(dispatch, "needs_no_compiling", lambda name: any(part in name for part in kept))
    monkeypatch.setattr(rankings, "evaluate_rows", lambda *given: None)
    score, label, row = np.arange(n_items)[np.newaxis], np.ones((1, n_items), np.int8), np.zeros(1, np.int64)
    given = label, row, np.array([np.nan]), Options(), np.array([of_kernels.AVERAGE_PRECISION])
    assert (dispatch.evaluate_rows(score.astype(np.float32), *given) is not None) == by_numpy
    assert dispatch.evaluate_rows(score.astype(np.float64), *given) is not None


def test_every_number_is_computed_and_any_other_is_an_error() -> None:
    """It would be NaN, as that of a ranking without positives."""
    (score, label), options, given = long_ranking("plain", 0.3, np.float64, 500), Options(), np.full(1, np.nan)
    codes = list(of_kernels.CODES.values())
    targets = of_kernels.targets_of(codes, [0.5] * len(codes), (0.0, 1.0))
    found = evaluate_all_rows(score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), given, options, targets)
    assert np.isfinite(found).all()
    groups = rankings._groups_in_order(score[np.newaxis], label[np.newaxis], np.zeros(1, np.int64), options)
    out = np.empty((1, 1))
    with pytest.raises(NotImplementedError, match="no kernel computes"):
        areas_of_groups.finish_common_rows(*groups, given, options, np.array([of_kernels.LOWER_TRAPEZOID]), out)


def test_a_long_ranking_against_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "SHORT", 0)
    for kind, share in itertools.product(["plain", "tied", "infinite"], [0.1, 0.9]):
        score, label = long_ranking(kind, share, np.float64, n_items=80)
        reference = Reference(items_of(score, label))
        assert_matches(ap.estimate(score, label, NAMES), reference, NAMES, told=(kind, share))


@pytest.mark.sparse
@pytest.mark.parametrize("share", [0.01, 0.5])
@pytest.mark.parametrize("decimals", [2, 12])
def test_a_million_items_against_an_exact_sum(share: float, decimals: int) -> None:
    random = np.random.default_rng(11)
    label = (random.random(10**6) < share).astype(np.int8)
    score = (random.normal(size=10**6) + label).round(decimals)
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), label.size - 1)  # the last item of each block
    positives = np.cumsum(label[order], dtype=np.int64)[ends]
    gained = np.diff(positives, prepend=0)
    expected = math.fsum(gained * positives / (ends + 1)) / positives[-1]  # each term is rounded once
    np.testing.assert_allclose(ap.estimate(score, label), expected, rtol=1e-13, atol=0)
    np.testing.assert_allclose(ap.estimate(score, label, weight=np.ones(label.size)), expected, rtol=1e-13, atol=0)
