"""Long arrays are sorted as NumPy sorts them, whichever way is faster on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aucpr_dask as ap
from aucpr_dask.kernels import sorting

N_ITEMS = 5000
SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3e38, -3e38]


@pytest.fixture(params=[False, True], ids=["numpy", "digits"])
def by_digits(request: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(sorting, "numpy_sorts_slowly", lambda: request.param)
    return bool(request.param)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("n_bits", [1, 20, 64])
def test_keys_ascend(n_bits: int, dtype: Any, by_digits: bool) -> None:
    most = min(2**n_bits - 1, np.iinfo(dtype).max)
    keys = np.random.default_rng(1).integers(0, most, N_ITEMS, dtype, endpoint=True)
    expected = np.sort(keys)
    np.testing.assert_array_equal(sorting.sorted_keys(keys.copy()), expected)


def test_keys_that_ascend_in_their_lower_bits_keep_their_order(by_digits: bool) -> None:
    random = np.random.default_rng(2)
    keys = (random.integers(1, 50, N_ITEMS, np.uint64) << np.uint64(30)) | np.arange(N_ITEMS, dtype=np.uint64)
    keys[random.random(N_ITEMS) < 0.1] = 0
    np.testing.assert_array_equal(sorting.sorted_keys(keys.copy(), 30), np.sort(keys))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_ascend(dtype: Any, by_digits: bool) -> None:
    random = np.random.default_rng(3)
    scores = np.concatenate([random.normal(size=N_ITEMS), random.choice(SPECIAL, N_ITEMS)]).astype(dtype)
    scores = random.permutation(scores)
    expected = np.sort(scores)
    sorting.sort_scores(scores)
    np.testing.assert_array_equal(scores, expected)


def test_short_arrays_are_sorted_by_numpy() -> None:
    keys = np.array([3, 1, 2], np.uint32)
    assert sorting.sorted_keys(keys) is keys
    np.testing.assert_array_equal(keys, [1, 2, 3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.01, 0.5])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_areas_do_not_depend_on_the_way(
    is_weighted: bool, share: float, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(4)
    label = random.random(200_000) < share
    score = np.round(random.normal(size=label.size) + label, 3).astype(dtype)
    weight = random.random(label.size) if is_weighted else None
    estimators = ["average_precision", "interpolated_median"]
    areas = []
    for by_digits in (False, True):
        monkeypatch.setattr(sorting, "numpy_sorts_slowly", lambda by_digits=by_digits: by_digits)
        areas.append(ap.estimate(score, label, estimators, weight=weight))
    np.testing.assert_array_equal(areas[1], areas[0])


@pytest.mark.parametrize("n_alike", [0, 20, N_ITEMS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_places_descend_with_nan_last_and_ties_as_they_lie(dtype: str, n_alike: int, by_digits: bool) -> None:
    random = np.random.default_rng(6)
    close = 1 + random.random(n_alike) * 2.0**-40  # which differ as float64 only
    scores = np.concatenate([random.normal(size=N_ITEMS), close, random.choice(SPECIAL, N_ITEMS), np.full(9, np.nan)])
    scores = random.permutation(scores).astype(dtype)
    given, places = sorting.in_order(np.stack([scores, scores[::-1]]))
    np.testing.assert_array_equal(given[0], scores)
    np.testing.assert_array_equal(places[0], np.argsort(-scores, kind="stable"))
    np.testing.assert_array_equal(places[1], np.argsort(-scores[::-1], kind="stable"))
