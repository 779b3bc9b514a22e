"""Metrics of plain arrays against scikit-learn: its numbers, and its own tests of the two functions."""

import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import sklearn.metrics
import xarray as xr
from conftest import Exported
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse
from sklearn.metrics.tests import test_ranking

import aucpr_dask as ap
from aucpr_dask import metrics
from aucpr_dask.errors import AlignmentError, FewPositivesWarning, InvalidInputError
from aucpr_dask.schema.intervals import INTERVALS

Y = np.array([0, 0, 1, 1, 0, 1])
SCORE = np.array([0.1, 0.4, 0.35, 0.8, 0.4, 0.4])
SHAPES = st.tuples(st.integers(1, 12), st.integers(2, 4))
AVERAGES = ["macro", "micro", "weighted", "samples", None]


def both(name: str, y: Any, score: Any, read: Callable[[Any], Any] = np.asarray, **options: Any) -> tuple[Any, Any]:
    """Return what a function of ours, given `read(y)`, and scikit-learn's return, without warnings of no positives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ours = getattr(metrics, name)(read(y), score, **options)
        return ours, getattr(sklearn.metrics, name)(y, score, **options)


def scores(shape: Any) -> Any:
    """Draw scores, many of them tied."""
    return arrays.arrays(np.float64, shape, elements=st.integers(0, 6).map(lambda n: n / 7))


def weights(n: int) -> Any:
    return st.none() | arrays.arrays(np.float64, n, elements=st.sampled_from([0.5, 1.0, 2.0, 3.25]))


# Numbers


@given(st.data(), st.integers(1, 30))
def test_two_classes(data: st.DataObject, n: int) -> None:
    labels = data.draw(st.sampled_from([(0, 1, 1), (-1, 1, 1), (3, 7, 7), ("a", "b", "a"), (False, True, True)]))
    y = np.array(labels[:2])[data.draw(arrays.arrays(np.int8, n, elements=st.integers(0, 1)))]
    score, weight = data.draw(scores(n)), data.draw(weights(n))
    if (y == labels[2]).any():
        ours, theirs = both("average_precision_score", y, score, pos_label=labels[2], sample_weight=weight)
        assert ours == pytest.approx(theirs, abs=1e-12)
    drops = data.draw(st.booleans())
    options = {"pos_label": labels[2], "sample_weight": weight, "drop_intermediate": drops}
    for our, their in zip(*both("precision_recall_curve", y, score, **options), strict=True):
        np.testing.assert_allclose(our, their, atol=1e-12, rtol=0)


@given(st.data(), SHAPES, st.sampled_from(AVERAGES))
def test_many_labels(data: st.DataObject, shape: tuple[int, int], average: str | None) -> None:
    y = data.draw(arrays.arrays(np.int8, shape, elements=st.integers(0, 1)))
    score, weight = data.draw(scores(shape)), data.draw(weights(shape[0]))
    options = {"average": average, "sample_weight": weight}
    ours, theirs = both("average_precision_score", y, score, **options)
    np.testing.assert_allclose(ours, theirs, atol=1e-12, rtol=0)
    ours_of_sparse, _ = both("average_precision_score", y, score, read=sparse.csr_array, **options)
    np.testing.assert_array_equal(ours_of_sparse, ours)


@given(st.data(), st.sampled_from(AVERAGES), st.sampled_from([(0, 1, 2), (-1, 5, 8), ("x", "y", "z")]))
def test_many_classes(data: st.DataObject, average: str | None, labels: tuple[Any, ...]) -> None:
    y = np.array(labels)[[0, 1, 2, *data.draw(st.lists(st.integers(0, 2), max_size=12))]]
    score, weight = data.draw(scores((len(y), 3))), data.draw(weights(len(y)))
    options = {"average": average, "sample_weight": weight}
    np.testing.assert_allclose(*both("average_precision_score", y, score, **options), atol=1e-12, rtol=0)


def test_no_positives_have_zero_and_a_warning() -> None:
    with pytest.warns(UserWarning, match="y_true has no positives"):
        assert metrics.average_precision_score([0, 0], [0.1, 0.2]) == 0
    with pytest.warns(UserWarning, match="y_true has no positives"):
        np.testing.assert_array_equal(metrics.precision_recall_curve([0, 0], [0.1, 0.2])[1], [1, 1, 0])


# scikit-learn's tests


OF_THESE = [
    function
    for name, function in inspect.getmembers(test_ranking, inspect.isfunction)
    if name.startswith("test_")
    and ("average_precision_score(" in inspect.getsource(function) or "precision_recall_curve" in name)
    and "label_ranking" not in name
    and "lrap" not in name
]


def cases_of(function: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return the arguments of a test's cases, as its marks give them."""
    cases: list[dict[str, Any]] = [{}]
    for mark in getattr(function, "pytestmark", []):
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        rows = [getattr(row, "values", row) for row in mark.args[1]]
        rows = [row if len(names) > 1 else (row[0] if isinstance(row, tuple) else row,) for row in rows]
        cases = [case | dict(zip(names, row, strict=True)) for case in cases for row in rows]
    return cases


@pytest.mark.parametrize("function", OF_THESE, ids=lambda function: function.__name__)
def test_tests_of_scikit_learn(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expect_error, expect_warning = pytest.raises, pytest.warns  # in whichever words
    monkeypatch.setattr(pytest, "raises", lambda kind, match=None: expect_error(kind))
    monkeypatch.setattr(pytest, "warns", lambda kind, match=None: expect_warning(kind))
    for name in ("average_precision_score", "precision_recall_curve"):
        monkeypatch.setattr(test_ranking, name, getattr(metrics, name))
    for case in cases_of(function):
        used = {name: value for name, value in case.items() if name in inspect.signature(function).parameters}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            function(**{name: ours_of(value) for name, value in used.items()})


def ours_of(value: Any) -> Any:
    """Return our function where a test takes scikit-learn's as an argument."""
    name = getattr(value, "__name__", "")
    return getattr(metrics, name) if name in ("average_precision_score", "precision_recall_curve") else value


def test_there_are_such_tests() -> None:
    assert len(OF_THESE) >= 8


# What is given


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        lambda array: array.reshape(-1, 1),
        lambda array: pd.DataFrame({"x": array}),
        lambda array: pd.Series(array, index=range(5, 11)),
        lambda array: pd.array(array),
        pyarrow.array,
        Exported,
        memoryview,
    ],
)
@pytest.mark.filterwarnings("ignore:method=.influence. over 3 positives")  # three positives
def test_arrays_of_other_libraries(convert: Callable[[np.ndarray], Any]) -> None:
    expected = metrics.average_precision_score(Y, SCORE)
    assert metrics.average_precision_score(convert(Y), convert(SCORE)) == expected
    assert metrics.average_precision_interval(convert(Y), convert(SCORE))[0] < expected
    assert metrics.average_precision_difference(convert(Y), convert(SCORE), convert(-SCORE)).difference < 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.average_precision_score(Y, SCORE[:3]), "inconsistent numbers of samples"),
        (lambda: metrics.average_precision_score(Y, SCORE, sample_weight=[1, 2]), "inconsistent numbers of samples"),
        (lambda: metrics.average_precision_score(Y, [np.nan, *SCORE[1:]]), "y_score must hold numbers"),
        (lambda: metrics.average_precision_score(Y, ["a"] * 6), "y_score must hold numbers"),
        (lambda: metrics.average_precision_score(Y, SCORE, pos_label=2), "pos_label=2 is not in y_true"),
        (lambda: metrics.average_precision_score(Y, SCORE, average="mean"), "unknown average"),
        (lambda: metrics.average_precision_score(Y + 0.5, SCORE), "continuous"),
        (lambda: metrics.average_precision_score([], []), "has no items"),
        (lambda: metrics.average_precision_score(np.zeros((2, 2, 2)), SCORE), "has 3 dimensions"),
        (lambda: metrics.average_precision_score([[1, 0], [1]], [[1, 0], [1, 0]]), "cannot be read as an array"),
        (lambda: metrics.precision_recall_curve(["a", "b"], [0, 1]), "do not say which of them is positive"),
        (lambda: metrics.precision_recall_curve([0, 1, 2], [0, 1, 2]), "y_true has several classes"),
        (lambda: metrics.average_precision_interval([0, 1, 2], [0, 1, 2]), "several classes"),
        (lambda: metrics.average_precision_difference(Y, SCORE, SCORE[1:]), "inconsistent numbers of samples"),
        (lambda: metrics.average_precision_difference([0, 0, 1], SCORE[:3], SCORE[:3]), "too few positives"),
        (lambda: metrics.average_precision_score(Y, SCORE, sample_weight=np.zeros(6)), "all weights are 0"),
        (lambda: metrics.precision_recall_curve(Y, SCORE, sample_weight=np.zeros(6)), "all weights are 0"),
        (lambda: metrics.average_precision_score(Y, np.ma.masked_less(SCORE, 0.2)), "mask would be lost"),
        (lambda: metrics.average_precision_score(np.array(["a", 0, 1], object), [1, 2, 3]), "text and other values"),
        (lambda: metrics.average_precision_interval(Y, SCORE, method=["logit", "wilson"]), "method must be a string"),
    ],
)
def test_refusals(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        call()
    for part in ("where", "received", "allowed", "remedy"):
        assert f"  {part}: " in str(caught.value), part
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, AlignmentError) == ("inconsistent" in message)


# Decisions


@pytest.mark.sparse
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("average", AVERAGES)
def test_weights_of_any_type_count_as_float64(dtype: Any, average: str | None) -> None:
    random = np.random.default_rng(0)
    label, score = random.integers(0, 3, 500), random.random((500, 3))
    weight = random.integers(0, 2 if dtype is bool else 100, 500).astype(dtype)
    found = metrics.average_precision_score(label, score, average=average, sample_weight=weight)
    expected = sklearn.metrics.average_precision_score(
        np.eye(3)[label], score, average=average, sample_weight=weight.astype(np.float64)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "label",
    [
        ["a", None, "b"],
        ["a", float("nan"), "b"],
        np.array(["a", None, "b"], object),
        pd.Series(["a", None, "b"]),
        pd.Series(["a", None, "b"], dtype="string"),
        pd.Series(["a", None, "b"], dtype="category"),
        pd.Series([True, None, False], dtype="boolean"),
        [True, None, False],
    ],
    ids=repr,
)
def test_missing_labels_are_no_class(label: Any) -> None:
    for call in (metrics.average_precision_score, metrics.precision_recall_curve, metrics.average_precision_interval):
        with pytest.raises(InvalidInputError, match=r"y_true has missing values[\s\S]*1 of 3"):
            call(label, [0.1, 0.4, 0.3], pos_label="a")


@pytest.mark.needs("polars")
def test_missing_labels_of_polars_are_no_class() -> None:
    import polars

    test_missing_labels_are_no_class(polars.Series(["a", None, "b"]))


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "bool": lambda y: y,
    **{kind: lambda y, kind=kind: y.astype(kind) for kind in ("int64", "int8", "uint8", "float32", "float64")},
    "signs": lambda y: np.where(y, 1, -1),
    "list": lambda y: y.tolist(),
    "column": lambda y: y[:, None],
    "Series": lambda y: pd.Series(y.astype(int)),
    "nullable": lambda y: pd.Series(y).astype("boolean"),
    "Int64": lambda y: pd.Series(y.astype(int)).astype("Int64"),
    "objects": lambda y: y.astype(object),
}
NAMES: dict[str, Callable[[np.ndarray], Any]] = {
    "text": lambda names: names,
    "objects": lambda names: names.astype(object),
    "list": np.ndarray.tolist,
    "Series": pd.Series,
    "string": lambda names: pd.Series(names, dtype="string"),
    "categories": lambda names: pd.Categorical(names, ["spam", "other", "ham"]),
    "frame": lambda names: pd.DataFrame({"y": pd.Categorical(names)}),
}


@pytest.mark.parametrize("kind", [*KINDS, *(f"names as {kind}" for kind in NAMES)])
def test_labels_of_every_kind_have_the_same_numbers(kind: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.2
    a, b = rng.normal(size=(2, 300)) + y
    label, options = (KINDS[kind](y), {}) if kind in KINDS else (None, {"pos_label": "spam"})
    if label is None:
        label = NAMES[kind.removeprefix("names as ")](np.where(y, "spam", "ham"))
    for call in (metrics.average_precision_score, metrics.average_precision_interval):
        assert call(label, a, **options) == call(y.astype(np.int8), a)
    curves = metrics.precision_recall_curve(label, a, **options), metrics.precision_recall_curve(y, a)
    for ours, expected in zip(*curves, strict=True):
        np.testing.assert_array_equal(ours, expected)
    found = metrics.average_precision_difference(label, a, b, **options)
    assert found == metrics.average_precision_difference(y, a, b)


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        ([0.5, 1.0, 0.5], {}, "continuous"),
        ([0.5, 1.0, 0.5], {"pos_label": 0.5}, "continuous"),
        ([np.nan, 1.0, 0.0], {}, "continuous"),
        (["a", "b", "c"], {"pos_label": "a"}, "pos_label is for two classes"),
        ([True, False, True], {"pos_label": 2}, "pos_label=2 is not in y_true"),
        ([3, 7, 3], {}, "pos_label=1 is not in y_true"),
    ],
)
def test_labels_that_are_not_of_two_classes(label: Any, options: dict[str, Any], message: str) -> None:
    for read in (list, np.array, pd.Series):
        with pytest.raises(InvalidInputError, match=message):
            metrics.average_precision_score(read(label), [0.1, 0.4, 0.3], **options)


def other_orders(y: np.ndarray, score: np.ndarray) -> list[tuple[Any, Any]]:
    """Return labels, and scores that have their labels of samples in another order."""
    names = [f"patient {n}" for n in range(len(y))]
    turned = np.arange(len(y))[::-1]
    series = pd.Series(y, names), pd.Series(score, names).iloc[turned]
    arrays = xr.DataArray(y, {"item": names}, "item"), xr.DataArray(score, {"item": names}, "item")[turned]
    return [series, (series[0].to_frame(), series[1]), arrays, (arrays[0], series[1])]


@pytest.mark.parametrize("number", range(4))
def test_samples_in_another_order_are_refused(number: int) -> None:
    y, score = np.array([1, 0, 1, 0, 0, 1]), np.array([0.9, 0.3, 0.8, 0.7, 0.2, 0.4])
    label, turned = other_orders(y, score)[number]
    calls: list[Callable[[], Any]] = [
        lambda: metrics.average_precision_score(label, turned),
        lambda: metrics.precision_recall_curve(label, turned),
        lambda: metrics.average_precision_interval(label, turned),
        lambda: metrics.average_precision_difference(label, score, turned),
        lambda: metrics.average_precision_score(label, score, sample_weight=turned),
    ]
    for call in calls:
        with pytest.raises(AlignmentError, match="in another order"):
            call()
    other_names = pd.Series(score, [f"row {n}" for n in range(6)])  # other labels, which nobody can match
    assert metrics.average_precision_score(label, other_names) == metrics.average_precision_score(y, score)


def test_samples_of_which_only_some_are_the_same_are_refused() -> None:
    y, score = np.array([1, 0, 1, 0, 0, 1]), np.array([0.9, 0.3, 0.8, 0.7, 0.2, 0.4])
    for labels in (list("abcdef"), [11, 3, 7, 20, 5, 2]):
        label, shifted = pd.Series(y, labels), pd.Series(score, [*labels[2:], "g", "h"])
        with pytest.raises(AlignmentError, match=r"only 4 of the same labels[\s\S]*reindex"):
            metrics.average_precision_score(label, shifted)
        with pytest.raises(AlignmentError, match="only 4 of the same labels"):
            metrics.average_precision_difference(label, label, shifted)
    expected = metrics.average_precision_score(y, score)
    held_out = pd.Series(y, [4, 0, 9, 2, 7, 5])  # part of a table, and a new column
    assert metrics.average_precision_score(held_out, pd.Series(score)) == expected


def test_scores_that_look_like_labels_or_like_those_of_the_other_class() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.3
    score = rng.normal(size=400) + 2 * y
    calls: list[Callable[[Any], Any]] = [
        lambda score: metrics.average_precision_score(y, score),
        lambda score: metrics.average_precision_score(y, score, sample_weight=np.full(400, 2.0)),
        lambda score: metrics.precision_recall_curve(y, score),
        lambda score: metrics.average_precision_interval(y, score),
        lambda score: metrics.average_precision_difference(y, score, rng.normal(size=400)),
    ]
    for call in calls:
        for doubtful, message in ((score > 1, "Only two distinct scores"), (-score, "ROC area below one half")):
            with pytest.warns(UserWarning, match=f"^y_score(_a)?: {message}") as caught:
                call(doubtful)
            assert [warning.filename for warning in caught] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(score)
    with pytest.warns(UserWarning, match="y_score, in 1 of 2 classes: Only two"):
        metrics.average_precision_score(np.stack([y, ~y], 1), np.stack([score > 1, -score], 1))


@pytest.mark.filterwarnings("ignore:y_score_b. Only two distinct scores")
def test_whole_numbers_and_truth_values_are_scores() -> None:
    label, a, b = [0, 1, 0, 1] * 10, [1, 2, 3, 4] * 10, [True, True, False, True] * 10
    as_floats = [np.array(score, np.float64) for score in (a, b)]
    assert metrics.average_precision_interval(label, a) == metrics.average_precision_interval(label, as_floats[0])
    assert metrics.average_precision_difference(label, a, b) == metrics.average_precision_difference(label, *as_floats)
    large = [2**53, 2**53 + 1] * 20
    for call in (metrics.average_precision_score, metrics.average_precision_interval):
        with pytest.raises(InvalidInputError, match=r"beyond 2\*\*53[\s\S]*'y_score'"):
            call(label, large)
    with pytest.raises(InvalidInputError, match="'y_score_b'"):
        metrics.average_precision_difference(label, as_floats[0], large)


def test_a_warning_counts_and_points_at_the_caller() -> None:
    score = np.random.default_rng(0).random((2, 3))
    with pytest.warns(UserWarning, match="in 1 of 3 classes or samples") as caught:
        metrics.average_precision_score(np.eye(3)[:2], score)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.filterwarnings("ignore:there is no interval")
def test_the_interval_is_that_of_evaluate() -> None:
    data = ap.simulate.binormal().sample(500, 0.1, seed=1)
    arrays = data["label"].values, data["score"].values.ravel()
    of_items = {"weight": 1 + np.arange(500) % 3, "clusters": np.arange(500) // 4}
    for method in INTERVALS:
        for more in ({}, *({name: value} for name, value in of_items.items()), of_items):
            named = {{"weight": "sample_weight"}.get(name, name): array for name, array in more.items()}
            try:
                found = ap.evaluate({"a": arrays[1]}, arrays[0], interval=method, level=0.9, **more)
            except InvalidInputError as error:
                with pytest.raises(InvalidInputError, match=re.escape(str(error).splitlines()[0])):
                    metrics.average_precision_interval(*arrays, method=method, level=0.9, **named)
                continue
            ours = metrics.average_precision_interval(*arrays, method=method, level=0.9, **named)
            np.testing.assert_array_equal(ours, np.ravel(found["interval"]))
    default = metrics.average_precision_interval(*arrays, method="influence_beta")
    assert metrics.average_precision_interval(*arrays) == default


def test_an_area_without_an_interval_has_a_reason() -> None:
    with pytest.warns(UserWarning, match="there is no interval. No positive"):
        assert np.isnan(metrics.average_precision_interval([0, 0, 0], [0.1, 0.4, 0.3])).all()


@pytest.mark.filterwarnings("ignore:method=.influence. over 3 positives")
def test_a_difference_of_areas_lies_within_one() -> None:
    y, random = np.repeat([1, 0], [3, 3000]), np.random.default_rng(0)
    best = np.where(y == 1, 9.0, random.normal(size=y.size))
    assert metrics.average_precision_difference(y, random.normal(size=y.size), best).interval[1] == 1


@pytest.mark.filterwarnings("ignore:method=.influence. over .* clusters")
def test_the_difference_is_that_of_compare() -> None:
    rng = np.random.default_rng(3)
    y = np.repeat([1, 0], [40, 360])
    a, b = rng.normal(size=(2, 400)) + np.array([[0.5], [2.0]]) * y
    found = metrics.average_precision_difference(y, a, b, level=0.9)
    assert found.difference == pytest.approx(
        metrics.average_precision_score(y, b) - metrics.average_precision_score(y, a), abs=1e-12
    )
    lower, upper = found.interval
    assert 0 < lower < found.difference < upper
    assert found.p_value < 0.01
    assert repr(found).startswith("b is better: average precision ")
    assert "90 % interval" in repr(found)
    assert repr(found).endswith(f"\n{found.design}")
    with pytest.warns(FewPositivesWarning, match="It needs 100 or more"):
        resampled = metrics.average_precision_difference(y, a, b, level=0.9, n_resamples=200, seed=5)
    assert resampled.difference == found.difference
    np.testing.assert_allclose(resampled.interval, found.interval, atol=0.05)
    of_items = {"weight": 1 + np.arange(400) % 3, "clusters": np.arange(400) // 4}
    for more in ({}, *({name: value} for name, value in of_items.items()), of_items):
        for design in ("random",) if "clusters" in more else ("random", "fixed"):
            options: dict[str, Any] = {"level": 0.9, "prevalence_design": design}
            expected = ap.compare({"a": a, "b": b}, y, "a", **options, **more).sel(model="b")
            arrays = {{"weight": "sample_weight"}.get(name, name): array for name, array in more.items()}
            other = metrics.average_precision_difference(y, a, b, **options, **arrays)
            assert (other.p_value, list(other.interval)) == (expected["p_value"], expected["interval"].values.tolist())
            assert other.design == expected.attrs["design"]
    assert repr(metrics.average_precision_difference(y, b, a)).startswith("a is better: ")
    same = metrics.average_precision_difference(y, a, a)
    assert (same.difference, same.interval, same.p_value) == (0, (0, 0), 1)
    assert repr(same).startswith("a and b are equal here: ")
    assert metrics.average_precision_difference(y, a, b, sample_weight=np.full(400, 2.0)).difference == found.difference


def test_groups_are_the_sample_where_they_are_given() -> None:
    """Ten near copies of each of 200 items say no more than the 200."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(200), 10)
    label = (rng.random(200) < 0.2)[group]
    a, b = (1.5 * label + rng.normal(size=200)[group] + 0.05 * rng.normal(size=2000) for _ in range(2))
    once = slice(None, None, 10)
    alone = metrics.average_precision_interval(label[once], a[once])
    grouped = metrics.average_precision_interval(label, a, clusters=[f"patient {name}" for name in group])
    np.testing.assert_allclose(grouped, alone, atol=0.05)
    assert np.diff(metrics.average_precision_interval(label, a)) < 0.5 * np.diff(alone)
    width = np.diff(metrics.average_precision_difference(label, a, b).interval)
    assert np.diff(metrics.average_precision_difference(label, a, b, clusters=group).interval) > 2 * width
    numbers = group + 0.5
    assert metrics.average_precision_interval(label, a, clusters=numbers) == grouped
    with pytest.raises(InvalidInputError, match=r"clusters has missing values[\s\S]*1 of 2000"):
        metrics.average_precision_interval(label, a, clusters=np.where(np.arange(2000) == 7, np.nan, numbers))
    with pytest.raises(AlignmentError, match="clusters 3"):
        metrics.average_precision_interval(label, a, clusters=[1, 2, 3])
