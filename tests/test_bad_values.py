"""Values that no option allows: each ends in an error that says what is allowed, or in a right number."""

import inspect
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import pooled, queried

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError, AucprError, InvalidInputError, brief
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.scores.importing.tables import import_table

PARTS = ("\n  where: ", "\n  received: ", "\n  allowed: ", "\n  remedy: ")
SCORE = [0.9, 0.8, 0.7, 0.6, 0.5]
LABEL = [1, 0, 1, 0, 1]
GRADED = pooled()

# Every public function that reads grades.
READERS: dict[str, Callable[[Any], Any]] = {
    "estimate": lambda grade: ap.estimate(SCORE, LABEL, positive_from=grade),
    "estimate xarray": lambda grade: ap.estimate(GRADED["score"], GRADED["label"], positive_from=grade),
    "estimate Dask": lambda grade: ap.estimate(
        GRADED["score"].chunk({"item": 9}), GRADED["label"], positive_from=grade
    ),
    "evaluate": lambda grade: ap.evaluate(GRADED, positive_from=grade),
    "curve": lambda grade: ap.curve(SCORE, LABEL, positive_from=grade),
    "confusion": lambda grade: ap.confusion(SCORE, LABEL, [0.5], positive_from=grade),
    "curve_bands": lambda grade: ap.curve_bands(SCORE, LABEL, n_resamples=9, positive_from=grade),
    "area_bounds": lambda grade: ap.area_bounds(SCORE, LABEL, positive_from=grade),
    "covariance": lambda grade: ap.covariance(GRADED, positive_from=grade),
    "reference_levels": lambda grade: ap.reference_levels(LABEL, positive_from=grade),
    "compare": lambda grade: ap.compare(GRADED, n_resamples=9, positive_from=grade),
    "accessor": lambda grade: GRADED.aucpr.evaluate(positive_from=grade),
}
NO_GRADES = [0, -1, 128, 200, 255, 256, 10**12, 10**20, 1.5, 2.0, math.nan, True, "1", [1], np.array([1, 2]), 1j, b"1"]


def refused(call: Callable[[], Any]) -> str:
    """Return the message of the error in which a call ends, which must have all parts; warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInputError) as caught:
            call()
    message = str(caught.value)
    assert all(part in message for part in PARTS), message
    return message


@pytest.mark.parametrize("reader", READERS)
def test_grades_are_whole_numbers_up_to_127(reader: str) -> None:
    for grade in NO_GRADES:
        message = refused(lambda grade=grade: READERS[reader](grade))
        assert "positive_from must be a whole number from 1 to 127" in message
        assert f"received: {brief(grade)}" in message


def test_the_highest_grade() -> None:
    graded = [127, 126, 0, 127, 1]
    assert ap.estimate(SCORE, graded, positive_from=127) == ap.estimate(SCORE, [1, 0, 0, 1, 0])
    assert ap.estimate(SCORE, graded, positive_from=np.int8(127)) == 0.75


@pytest.mark.parametrize("command", ["evaluate", "plan", "info"])
@pytest.mark.parametrize("grade", ["128", "0", "1.5", "nan", "yes"])
def test_grades_on_the_command_line(command: str, grade: str, tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    to = [] if command == "info" else [str(tmp_path / "result.zarr")]
    done = CliRunner().invoke(main, [command, str(tmp_path / "scores.zarr"), *to, "--positive-from", grade])
    assert done.exit_code == 2
    assert "positive-from" in done.stderr
    assert grade in done.stderr


NO_COUNTS: list[Any] = [
    *(math.inf, -math.inf, math.nan, 3.5, -1, [], [[]], 3 + 0j, "abc", "3", b"3", True, [True], [None], [[3], [3, 4]]),
    *(np.array([3.5]), np.array(["3"]), np.array([math.inf]), object(), 10**400),
]
COUNTED: dict[str, Callable[[Any], Any]] = {
    "estimate": lambda count: ap.estimate(SCORE, LABEL, n_positive=count),
    "estimate Dask": lambda count: ap.estimate(da.from_array(SCORE, 2), np.array(LABEL), n_positive=count).compute(),
    "estimate xarray": lambda count: ap.estimate(GRADED["score"], GRADED["label"], n_positive=count),
    "curve": lambda count: ap.curve(SCORE, LABEL, n_positive=count),
    "confusion": lambda count: ap.confusion(SCORE, LABEL, [0.5], n_positive=count),
    "curve_bands": lambda count: ap.curve_bands(SCORE, LABEL, n_resamples=9, n_positive=count),
    "area_bounds": lambda count: ap.area_bounds(SCORE, LABEL, n_positive=count),
}


@pytest.mark.parametrize("function", COUNTED)
def test_numbers_of_positives_are_whole(function: str) -> None:
    for count in NO_COUNTS:
        assert "n_positive" in refused(lambda count=count: COUNTED[function](count))
    for kind in (int, float, np.uint8):
        COUNTED[function](kind(60))


@pytest.mark.parametrize("count", [math.inf, math.nan, 3.5, -1.0])
def test_numbers_of_positives_in_dask_arrays(count: float) -> None:
    lazy = da.from_array(np.array([3.0, count]), chunks=1)
    both = np.array([SCORE, SCORE])
    assert "n_positive" in refused(lambda: ap.estimate(da.from_array(both, (1, 5)), LABEL, n_positive=lazy).compute())
    labelled = xr.DataArray(both, dims=("model", "item")).chunk({"model": 1}), xr.DataArray(LABEL, dims="item")
    total = xr.DataArray(lazy, dims="model")
    assert "n_positive" in refused(lambda: ap.estimate(*labelled, n_positive=total).compute())


@pytest.mark.parametrize("bad", [math.inf, -1, [], "abc", 3 + 0j, [True, False], [[3], [3, 4]], None])
def test_numbers_of_positives_of_intervals(bad: Any) -> None:
    assert "n_positive" in refused(lambda: ap.interval([0.5, 0.6], bad))
    assert ap.interval(0.5, 3.5).shape == (2,)  # a sum of weights


@pytest.mark.parametrize("bad", [[True, False], [], 0.5, ["a"], [math.nan], [1, 1], [1j], [[1], [1, 2]], None])
def test_thresholds_are_numbers(bad: Any) -> None:
    assert "thresholds" in refused(lambda: ap.confusion(SCORE, LABEL, bad))


TIED = [0.5, 0.5, 0.5, 0.2, 0.1]


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize(
    "order",
    [
        *([0, 1, math.nan, 3, 4], list("abcde"), [0, 1, 2j, 3, 4], [0, 0, 0, 0, 0], [0, 1, 1, 2, 3], [None] * 5),
        *([True] * 5, [math.inf, 0, 1, 2, 3]),
    ],
)
def test_an_order_of_tied_items_is_one(order: list[Any], is_lazy: bool) -> None:
    score, places = np.array(TIED), np.array(order)
    given = (da.from_array(score, -1), da.from_array(places, -1)) if is_lazy else (score, places)
    call = lambda: np.asarray(ap.estimate(given[0], LABEL, ties="trec_eval", tie_order=given[1]))  # noqa: E731
    assert "tie_order" in refused(call)


def test_an_order_of_tied_items_starts_again_in_each_tie_group() -> None:
    received = ap.estimate([0.5, 0.5, 0.2, 0.2], [0, 1, 0, 1], ties="trec_eval", tie_order=[1, 0, 0, 1])
    assert received == ap.estimate([3, 4, 2, 1], [0, 1, 0, 1])
    with pytest.raises(InvalidInputError, match="tie_order"):
        ap.estimate([math.nan] * 3, [0, 1, 0], missing="last", ties="trec_eval", tie_order=[0, 1, 1])
    padded = [0.5, 0.5, math.nan, math.nan]
    assert ap.estimate([0.5] * 3, [1, 0, 0], ties="trec_eval", tie_order=[0, 1, 1]) == 1  # of one class
    assert ap.estimate(padded, [0, 1, -2, -2], missing="last", ties="trec_eval", tie_order=[1, 0, -1, -1]) == 1


# Prevalences, and the scale of weights

AREAS = [name if spec.parameter is None else f"{name}(0.6)" for name, spec in ESTIMATORS.items()]
WEIGHTED = [name for name in AREAS if name not in ("discrete", "binormal")]
WEIGHT = np.array([1.0, 2, 3, 1, 2, 1])
BY_WEIGHT = ([5.0, 4, 3, 2, 1, 0], [1, 0, 1, 1, 0, 0])
NO_SHARES: list[Any] = [
    *(0, 1, 0.0, 1.0, -0.1, 5e-324, 1e-310, 1e-300, 1e-101, math.nan, math.inf, True, "0.1", 0.5j, [0.5]),
    *(np.longdouble("1e-4000"), np.complex128(0.5), np.array(0.5), np.array([0.1, 0.2]), 10**400),
]


@pytest.mark.parametrize("bad", NO_SHARES)
def test_prevalences_lie_between_0_and_1(bad: Any) -> None:
    assert "prevalence" in refused(lambda: ap.estimate(*BY_WEIGHT, prevalence=bad))
    assert "prevalence" in refused(lambda: ap.evaluate(pooled(), prevalence=bad))
    assert "prevalence" in refused(lambda: ap.curve(*BY_WEIGHT, prevalence=bad))
    assert "prevalence" in refused(lambda: ap.area_bounds(*BY_WEIGHT, prevalence=bad))


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
    options: dict[str, Any] = {"intervals": ["logit", "bootstrap", "bayesian", "influence"], "n_resamples": 9}
    results = [ap.evaluate(weighted(weight), "gain_area", **{**options, "intervals": []}) for weight in (WEIGHT, other)]
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
        assert "too far apart" in refused(lambda given=given: ap.estimate(score, label, **given))
        assert "too far apart" in refused(lambda given=given: ap.curve(score, label, **given))


def test_binormal_counts_items_by_their_weights() -> None:
    score, label = np.array(BY_WEIGHT)
    twice = ap.estimate(np.tile(score, 2), np.tile(label, 2), "binormal")
    assert math.isclose(ap.estimate(score, label, "binormal", weight=np.full(6, 2.0)), twice, rel_tol=1e-12)
    huge = [ap.estimate(score, label, "binormal", weight=WEIGHT * 2.0**power) for power in (90, 110, 1000)]
    assert huge[0] == huge[1] == huge[2]
    for unit in (1 / 6, 0.1, 1e-170):  # less than one item in a class
        assert math.isnan(ap.estimate(score, label, "binormal", weight=np.full(6, unit)))
    assert math.isnan(ap.estimate([2.0, 1, 0], [1, 0, 0], "binormal", weight=[0.5, 2, 2]))  # no spread


# Scores that float64 cannot tell apart

CLOSE = np.array([2**53, 2**53 + 1, 3])


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.longdouble])
@pytest.mark.parametrize("read", [ap.estimate, ap.curve, ap.area_bounds], ids=lambda function: function.__name__)
def test_scores_that_would_tie(read: Callable[..., Any], kind: type) -> None:
    if kind is np.longdouble and np.finfo(kind).nmant < 63:
        pytest.skip("long double has no more digits than double here")
    label, score = np.array([0, 1, 1]), CLOSE.astype(kind)
    labelled = xr.DataArray(score, dims="item"), xr.DataArray(label, dims="item")
    grid = {"grid": [0.5]} if read is ap.curve else {}
    calls: list[Callable[[], Any]] = [
        lambda: read(score, label),
        lambda: read(*labelled),
        lambda: np.asarray(read(da.from_array(score, 3), da.from_array(label, 3), **grid)),
        lambda: np.asarray(read(labelled[0].chunk(), labelled[1], **grid)),
        *([] if grid else [lambda: np.asarray(read(da.from_array(score, 1), da.from_array(label, 1)))]),
    ]
    for call in calls:
        message = refused(call)
        assert "variable 'score'" in message
        assert str(np.dtype(kind)) in message
    fine = np.array([2**53, 2**53 - 1, 3]).astype(kind)
    expected = np.asarray(read([3.0, 2.0, 1.0], label, **grid))
    np.testing.assert_array_equal(read(da.from_array(fine, 3), da.from_array(label, 3), **grid), expected)


def test_data_sets_hold_floats_of_up_to_64_bits() -> None:
    wide = pooled().assign(score=pooled()["score"].astype(np.longdouble))
    if wide["score"].dtype.itemsize > 8:
        assert "variable 'score'" in refused(lambda: ap.evaluate(wide))


@pytest.mark.parametrize("cell", ["9007199254740993", "-9007199254740993", "+18446744073709551617"])
def test_integers_of_a_table_are_not_rounded(cell: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(f"y,a,b\n1,9007199254740992,1e300\n0,{cell},9007199254740994\n")
    message = refused(lambda: import_table(tmp_path / "s.csv", tmp_path / "s.zarr", label="y"))
    assert "line 3, column 'a'" in message
    assert f"received: {cell}" in message
    import_table(tmp_path / "s.csv", tmp_path / "s.zarr", label="y", models="b")


# Labels of items


@pytest.mark.parametrize("role", ["label", "weight", "positive_weight", "tie_order", "n_positive"])
def test_arrays_with_other_labels_are_refused(role: str) -> None:
    labels = [f"d{i}" for i in range(5)]
    pairs: list[tuple[Any, Any]] = [
        (xr.DataArray(LABEL, {"item": labels}, "item"), score)
        for score in (SCORE, np.array(SCORE), da.from_array(SCORE, -1), pd.Series(SCORE, labels))
    ]
    if role != "n_positive":
        pairs += [
            (pd.Series(LABEL, labels), pd.Series(SCORE, labels[::-1])),
            (pd.Series(LABEL)[::-1], pd.Series(SCORE)),
        ]
    for labelled, score in pairs:
        given = {"label": LABEL, role: labelled}
        message = refused(lambda given=given, score=score: ap.estimate(score, **given))
        assert "argument" in message or role == "positive_weight"
        if role in ("label", "n_positive"):
            refused(lambda given=given, score=score: ap.curve(score, **given))
            refused(lambda given=given, score=score: ap.area_bounds(score, **given))


def test_pandas_objects_of_one_index() -> None:
    frame = pd.DataFrame({"score": SCORE, "label": LABEL, "weight": 1.0}, index=list("edcba"))
    expected = ap.estimate(SCORE, LABEL)
    assert ap.estimate(frame["score"], frame["label"], weight=frame["weight"]) == expected
    assert ap.estimate(frame[["score"]].T, frame["label"])[0] == expected
    with pytest.raises(AlignmentError, match="'label' labelled 'e', 'd'"):
        ap.estimate(pd.Series(SCORE), frame["label"])


def test_plain_arrays_are_matched_with_pandas_objects_by_position() -> None:
    label = pd.Series(LABEL, index=[7, 3, 9, 1, 4])  # as from a random split
    assert ap.estimate(np.array(SCORE), label) == ap.estimate(SCORE, LABEL)
    assert ap.estimate(pd.Series(SCORE, label.index), LABEL) == ap.estimate(SCORE, LABEL)


def test_intervals_of_labelled_estimates() -> None:
    estimate = xr.DataArray([0.5, 0.6], {"model": ["a", "b"]}, "model")
    refused(lambda: ap.interval(estimate, np.array([3, 4])))
    refused(lambda: ap.interval([0.5, 0.6], estimate * 10))
    assert ap.interval(estimate, 3).dims == ap.interval(estimate, np.array(3)).dims == ("model", "ci_bound")


# Every option of every public function

ODD: list[Any] = [
    *(-1, 2.5, math.inf, -math.inf, math.nan, 10**5000, True, 1j, b"x", "", "abc", "0.5", "a\x00b", "\ud800", Ellipsis),
    *(
        [],
        (),
        {},
        set(),
        [1],
        ["abc"],
        [None],
        [[1, 2], [3]],
        [True, False],
        ["average_precision", ["x"]],
        object(),
        type,
    ),
    *(np.array([0.1, 0.2]), np.array(["a", "b"]), np.zeros((2, 2)), np.datetime64("2020-01-01"), np.ma.masked),
    *(xr.DataArray([1, 2]), pd.Series([1, 2], ["p", "q"]), da.ones(3), range(0), 5e-324),
]
QUERIES = queried()
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "estimate": (ap.estimate, {"score": SCORE, "label": LABEL}),
    "estimate xarray": (ap.estimate, {"score": GRADED["score"], "label": GRADED["label"]}),
    "estimate Dask": (ap.estimate, {"score": da.from_array(SCORE, -1), "label": np.array(LABEL)}),
    "interval": (ap.interval, {"estimate": 0.5, "n_positive": 5}),
    "evaluate": (ap.evaluate, {"scores": GRADED, "n_resamples": 5}),
    "curve": (ap.curve, {"score": SCORE, "label": LABEL}),
    "confusion": (ap.confusion, {"score": SCORE, "label": LABEL, "thresholds": [0.5]}),
    "curve_bands": (ap.curve_bands, {"score": SCORE, "label": LABEL, "n_resamples": 5}),
    "area_bounds": (ap.area_bounds, {"score": SCORE, "label": LABEL}),
    "covariance": (ap.covariance, {"scores": GRADED}),
    "reference_levels": (ap.reference_levels, {"label": LABEL}),
    **{
        function.__name__: (function, {"data": QUERIES, "n_resamples": 9, "missing": "drop"})
        for function in (ap.compare, ap.rank, ap.aggregate)
    },
}
# Options of which some of these values are allowed: their results must have been the right ones elsewhere.
TAKES_SOME = {
    "recall_range",
    "grid",
    "thresholds",
    "dim",
    "dataset",
    "tolerance",
    "estimate",
    "n_positive",
    "seed",
    "chunk",
}
TAKES_SOME |= {"intervals", "method", "keep_replicates", "level", "equivalence", "label"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CALLS)
def test_odd_values_of_any_option(name: str) -> None:
    function, given = CALLS[name]
    options = [option for option in inspect.signature(function).parameters if option != "options"]
    for option in options:
        for value in ODD:
            try:
                dask.compute(function(**(given | {option: value})))
            except AucprError as error:
                assert all(part in str(error) for part in PARTS[1:]), (option, brief(value), str(error))  # noqa: PT017
            except Exception as error:
                raise AssertionError(f"{option}={brief(value)}") from error
            else:
                assert option in TAKES_SOME, f"{option}={brief(value)} is accepted"


def test_nothing_in_place_of_scores_or_names() -> None:
    assert "there are no scores" in refused(lambda: ap.estimate(None, LABEL))
    assert "there are no scores" in refused(lambda: ap.curve(None, LABEL))
    for bad in (3, None, [3], [["average_precision"]], b"average_precision"):
        assert "estimator" in refused(lambda bad=bad: ap.estimate(SCORE, LABEL, bad))
        if bad is not None:  # the default
            assert "interval" in refused(lambda bad=bad: ap.evaluate(GRADED, intervals=bad))
    for option in (
        "level",
        "seed",
        "n_resamples",
        "n_folds",
        "estimators",
        "recall_range",
        "missing",
        "keep_replicates",
    ):
        assert option.removesuffix("s") in refused(lambda option=option: ap.evaluate(GRADED, **{option: object()}))
