"""The scale of weights, and the ends of prevalence: areas do not depend on the unit in which items are counted."""

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.estimators import ESTIMATORS

AREAS = [f"{name}(0.6)" if spec.parameter else name for name, spec in ESTIMATORS.items() if not spec.is_cutoff]
WEIGHTED = [name for name in AREAS if name not in ("discrete", "binormal")]
WEIGHT = np.array([1.0, 2, 3, 1, 2, 1])
BY_WEIGHT = ([5.0, 4, 3, 2, 1, 0], [1, 0, 1, 1, 0, 0])


@pytest.mark.parametrize("share", [1e-100, 1e-30, 1 - 2**-53])
@pytest.mark.parametrize("unit", [2.0**-100, 1.0, 2.0**100])
def test_areas_at_the_ends_of_prevalence(share: float, unit: float) -> None:
    received = ap.estimate(*BY_WEIGHT, WEIGHTED, prevalence=share, weight=WEIGHT * unit)
    np.testing.assert_array_equal(received, ap.estimate(*BY_WEIGHT, WEIGHTED, prevalence=share, weight=WEIGHT))
    first = 0.2 if share < 0.5 else 1.0  # of five positives, two are below all negatives
    np.testing.assert_allclose(ap.estimate(*BY_WEIGHT, prevalence=share, weight=WEIGHT), first, rtol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [-1074, -1022, -565, -120, -99, 99, 120, 512, 1010])
def test_areas_do_not_depend_on_the_scale_of_all_weights(power: int) -> None:
    score, label = np.array(BY_WEIGHT)
    other = np.ldexp(WEIGHT, power)
    expected = ap.estimate(score, label, WEIGHTED, weight=WEIGHT)
    assert expected[WEIGHTED.index("interpolated_convex")].round(4) == 0.8198
    np.testing.assert_array_equal(ap.estimate(score, label, WEIGHTED, weight=other), expected)
    both = [label * WEIGHT, (1 - label) * WEIGHT]
    soft = {"positive_weight": np.ldexp(both[0], power), "negative_weight": np.ldexp(both[1], power)}
    np.testing.assert_array_equal(ap.estimate(score, None, WEIGHTED, **soft), expected)

    def weighted(weight: np.ndarray) -> xr.Dataset:
        return xr.Dataset({"score": (("model", "item"), score[None]), "label": ("item", label.astype(int))}).assign(
            weight=("item", weight)
        )

    columns = ["estimate", "standard_error", "interval", "prevalence"]
    options: dict[str, Any] = {"interval": ["logit", "bootstrap", "influence_logit_t"], "n_resamples": 9}
    results = [ap.evaluate(weighted(weight), "gain_area", **{**options, "interval": []}) for weight in (WEIGHT, other)]
    xr.testing.assert_identical(results[0][columns], results[1][columns])
    results = [ap.evaluate(weighted(weight), **options) for weight in (WEIGHT, other)]
    xr.testing.assert_identical(results[0][columns], results[1][columns])
    np.testing.assert_array_equal(results[1]["n_positive"], np.ldexp(results[0]["n_positive"], power))
    pairs = [ap.covariance(weighted(weight)) for weight in (WEIGHT, other)]
    np.testing.assert_array_equal(pairs[0]["covariance"], pairs[1]["covariance"])

    curves = [ap.curve(score, label, weight=weight) for weight in (WEIGHT, other)]
    np.testing.assert_array_equal(curves[0]["precision"], curves[1]["precision"])
    np.testing.assert_array_equal(np.ldexp(curves[0]["true_positives"], power), curves[1]["true_positives"])
    np.testing.assert_array_equal(np.ldexp(curves[0]["n_negative"], power), curves[1]["n_negative"])
    cells = [ap.confusion(score, label, [2.5], weight)["false_negatives"] for weight in (WEIGHT, other)]
    np.testing.assert_array_equal(np.ldexp(cells[0], power), cells[1])


def test_the_scale_of_weights_is_that_of_a_ranking() -> None:
    """Other rankings, and items that are left out, change nothing."""
    score, label = np.array(BY_WEIGHT)
    many = np.stack([WEIGHT, WEIGHT * 1e-170, WEIGHT * 1e170])
    expected = ap.estimate(score, label, WEIGHTED, weight=WEIGHT)
    np.testing.assert_allclose(ap.estimate(score, label, WEIGHTED, weight=many), [expected] * 3, rtol=1e-14)
    for kind in (np.int8, np.uint64, np.float32, np.longdouble):
        np.testing.assert_array_equal(ap.estimate(score, label, WEIGHTED, weight=WEIGHT.astype(kind)), expected)
    assert ap.estimate(score, label, weight=score > 1) == ap.estimate(score[:4], label[:4])
    padded = np.append(score, 9.0), np.append(label, -2), np.append(WEIGHT, 1e300)
    np.testing.assert_array_equal(ap.estimate(*padded[:2], WEIGHTED, weight=padded[2]), expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weights", [(1e-99, 1), (1, 1e-99), (1e-270, 1e-180), (1e300, 1e205)])
def test_classes_whose_weights_are_far_apart(weights: tuple[float, float]) -> None:
    score, label = np.array(BY_WEIGHT)
    names = [name for name in WEIGHTED if name != "gain_area"]
    weight = np.where(label == 1, *weights)
    received = ap.estimate(score, label, names, weight=weight, prevalence=0.1)
    np.testing.assert_allclose(received, ap.estimate(score, label, names, prevalence=0.1), rtol=1e-12)
    for far in ((1e-102, 1), (1, 1e-170), (5e-324, 1), (1e308, 1e-308)):
        given = {"weight": np.where(label == 1, *far)}
        for function in (ap.estimate, ap.curve):
            with pytest.raises(InvalidInputError, match="too far apart"):
                function(score, label, **given)


@pytest.mark.filterwarnings("error")
def test_weights_whose_sum_is_no_float() -> None:
    score, label = np.array(BY_WEIGHT)
    for function in (ap.estimate, ap.curve, lambda s, y, **w: ap.evaluate({"a": s}, y, **w)["estimate"]):
        found = [function(score, label, weight=np.full(label.size, weight)) for weight in (1e308, 1.0)]
        np.testing.assert_array_equal(
            *(np.asarray(one if function is not ap.curve else one["recall"]) for one in found)
        )


FAR = ([127.0, 1, 0, 0, -128], [1, 1, 1, 0, 1])  # two recalls differ by the third item only
FIRM = ("average_precision", "lower_trapezoid", "interpolated_convex", "continuous", "roc_area")


@pytest.mark.parametrize("name", [name for name in WEIGHTED if name != "gain_area"])
def test_weights_of_a_class_that_are_far_apart_are_kept_or_refused(name: str) -> None:
    def area(small: float) -> Any:
        weight = np.array([small, 1e8, small, 4, 1e8])
        soft = {"positive_weight": weight * FAR[1], "negative_weight": weight * (1 - np.array(FAR[1]))}
        assert ap.estimate(FAR[0], None, name, **soft, prevalence=0.5) == ap.estimate(
            *FAR, name, weight=weight, prevalence=0.5
        )
        return ap.estimate(*FAR, name, weight=weight, prevalence=0.5)

    if name in FIRM:
        np.testing.assert_allclose(area(1e-8), area(1e-4), rtol=0, atol=1e-11)
    else:
        with pytest.raises(InvalidInputError, match=r"(?s)weights of positives are too far apart.*1e-08 among.*2e\+08"):
            area(1e-8)
    np.testing.assert_allclose(area(1e-6), area(1e-4), rtol=0, atol=1e-11)
    ap.estimate(*FAR, name, weight=[0, 1e8, 0, 4, 1e8])


def test_the_roc_area_needs_pairs() -> None:
    names = ["average_precision", "roc_area"]
    received = [
        ap.estimate([3.0, 2], [1, 1], names),
        ap.estimate([3.0, 2, 1], [1, 0, 1], names, n_positive=5),
        ap.estimate([3.0, 2, np.nan], [1, 0, 0], names, missing="unretrieved"),
        ap.estimate([3.0, 2, np.nan], [1, 0, 1], names, n_positive=5, missing="drop"),
        ap.estimate([3.0, 2, np.nan], [1, 0, 1], names, n_positive=2, missing="drop"),
    ]
    expected = [[1, math.nan], [1 / 3, math.nan], [1, math.nan], [1 / 4, math.nan], [1, 1]]
    np.testing.assert_allclose(received, expected, rtol=1e-15)


def test_binormal_counts_items_by_their_weights() -> None:
    score, label = np.array(BY_WEIGHT)
    twice = ap.estimate(np.tile(score, 2), np.tile(label, 2), "binormal")
    assert math.isclose(ap.estimate(score, label, "binormal", weight=np.full(6, 2.0)), twice, rel_tol=1e-12)
    huge = [ap.estimate(score, label, "binormal", weight=WEIGHT * 2.0**power) for power in (90, 110, 1000)]
    assert huge[0] == huge[1] == huge[2]
    for unit in (1 / 6, 0.1, 1e-170):  # less than one item in a class
        assert math.isnan(ap.estimate(score, label, "binormal", weight=np.full(6, unit)))
    assert math.isnan(ap.estimate([2.0, 1, 0], [1, 0, 0], "binormal", weight=[0.5, 2, 2]))  # no spread
