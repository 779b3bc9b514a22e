"""Arrays of any library with the names of their models, and what is said where they do not fit."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import AlignmentError, InvalidInputError, MissingScoresError

rng = np.random.default_rng(0)
Y = (np.arange(60) % 3 == 0).astype(np.int8)
A, B = rng.normal(size=(2, 60)) + Y
GROUPS = np.arange(60) // 4
SCORES = xr.Dataset(
    {"score": (("model", "item"), [A, B]), "label": ("item", Y), "cluster": ("item", GROUPS)},
    coords={"model": ["a", "b"]},
)
UNKNOWN = da.from_array(A, chunks=10)[da.from_array(A, chunks=10) > 0]
TWO_COLUMNS = np.column_stack([-A, A])


@pytest.mark.parametrize(
    ("function", "behind", "expected"),
    [
        (ap.evaluate, (), lambda: ap.evaluate(SCORES)),
        (ap.evaluate, (["roc_area"], "bootstrap"), lambda: ap.evaluate(SCORES, ["roc_area"], "bootstrap")),
        (ap.compare, ("a",), lambda: ap.compare(SCORES, "a")),
        (ap.rank, (), lambda: ap.rank(SCORES)),
        (ap.power, (), lambda: ap.power(SCORES)),
    ],
)
def test_named_arrays_are_a_data_set(function: Any, behind: tuple[Any, ...], expected: Any) -> None:
    found = function({"a": A, "b": B}, Y, *behind, clusters=GROUPS)
    xr.testing.assert_equal(found, expected())


def test_named_arrays_are_gated_and_estimated() -> None:
    assert ap.gate({"a": A, "b": B}, Y, "a", "b", clusters=GROUPS) == ap.gate(SCORES, "a", "b")
    assert ap.estimate({"a": A, "b": B}, Y) == {"a": ap.estimate(A, Y), "b": ap.estimate(B, Y)}


@pytest.mark.parametrize(
    "change",
    [
        list,
        pd.Series,
        lambda x: da.from_array(x, chunks=-1),
        lambda x: x.astype(x.dtype.newbyteorder()),
        lambda x: pd.array(x, dtype="Float64" if x.dtype.kind == "f" else "Int64"),
        lambda x: xr.DataArray(x, dims="item"),
        lambda x: x if x.dtype.kind == "f" else x.astype(float),
        lambda x: x if x.dtype.kind == "f" else pd.Categorical(x),
        pytest.param(lambda x: pytest.importorskip("polars").Series(x), marks=pytest.mark.needs("polars")),
        pytest.param(lambda x: pytest.importorskip("pyarrow").array(x), marks=pytest.mark.needs("pyarrow")),
    ],
)
def test_kinds_of_arrays(change: Any) -> None:
    found = ap.evaluate({"a": change(A), "b": change(B)}, change(Y), interval=[])
    expected = ap.evaluate(SCORES.drop_vars("cluster"), interval=[])
    np.testing.assert_array_equal(found["estimate"], expected["estimate"])


def test_weights_and_queries_in_arrays() -> None:
    weight = rng.random(60)
    found = ap.evaluate({"a": A}, Y, weight=weight, interval=[])["estimate"]
    assert found.item() == ap.estimate(A, Y, weight=weight)
    of_queries = ap.evaluate({"a": A.reshape(5, 12)}, Y.reshape(5, 12), clusters=list("vvwwx"), interval=[])
    np.testing.assert_array_equal(of_queries["estimate"].squeeze(), ap.estimate(A.reshape(5, 12), Y.reshape(5, 12)))
    labelled = ap.evaluate({"a": pd.Series(A, list(map(str, GROUPS + 100 * Y)))}, Y, interval=[])
    assert "item" not in labelled.coords


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_are_read_by_what_they_hold(name: str, tmp_path: Any) -> None:
    small = A.astype(getattr(pytest.importorskip("ml_dtypes"), name))
    expected = ap.estimate(small.astype(np.float32), Y)
    assert ap.estimate(small, Y) == ap.metrics.average_precision_score(Y, small) == expected
    assert ap.Accumulator().update(small, Y).compute().lower == pytest.approx(expected)
    scores = xr.Dataset({"score": (("model", "item"), small[None]), "label": ("item", Y)}, coords={"model": ["a"]})
    ap.save_scores(scores, tmp_path / "s.zarr")
    for one in (scores, ap.open_scores(tmp_path / "s.zarr")):
        assert ap.evaluate(one, interval=[])["estimate"].values.item() == expected


def test_whole_numbers_in_a_data_set_are_scores() -> None:
    whole = np.rint(10 * A).astype(int)
    found = ap.evaluate(SCORES.assign(score=(("model", "item"), [whole, whole])), interval=[])["estimate"]
    assert found.values.ravel().tolist() == [ap.estimate(whole, Y)] * 2


def test_masks_of_dask_are_treated_as_those_of_numpy() -> None:
    masked = np.ma.masked_less(A, 0)
    for one in (masked, da.from_array(masked)):
        with pytest.raises(InvalidInputError, match=r"masked array, whose mask would be lost[\s\S]*NaN"):
            ap.estimate(one, Y)
        with pytest.raises(MissingScoresError):  # xarray itself turns masks into NaN
            ap.evaluate({"a": xr.DataArray(one, dims="item").compute()}, Y)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ap.estimate(UNKNOWN, UNKNOWN),
        lambda: ap.estimate({"a": UNKNOWN}, UNKNOWN),
        lambda: ap.estimate(*[xr.DataArray(UNKNOWN, dims="item")] * 2),
        lambda: ap.evaluate({"a": UNKNOWN}, UNKNOWN),
        lambda: ap.curve(UNKNOWN, UNKNOWN),
        lambda: ap.curve_bands(UNKNOWN, UNKNOWN),
        lambda: ap.chance(UNKNOWN, UNKNOWN),
        lambda: ap.area_bounds(UNKNOWN, UNKNOWN),
        lambda: ap.reference_levels(UNKNOWN),
        lambda: ap.interval(UNKNOWN, 5),
    ],
)
def test_unknown_sizes_of_chunks_are_named(call: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"sizes of its chunks[\s\S]*compute_chunk_sizes\(\)"):
        call()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ap.estimate(TWO_COLUMNS, Y), InvalidInputError, r"items on its first axis[\s\S]*\[:, 1\].*\.T"),
        (lambda: ap.estimate(pd.DataFrame(TWO_COLUMNS, columns=["a", "b"]), pd.Series(Y)), InvalidInputError, r"\.T"),
        (lambda: ap.evaluate({"a": TWO_COLUMNS}, Y), InvalidInputError, r"'a' has the items[\s\S]*\[:, 1\]"),
        (lambda: ap.evaluate({"a": A[1:]}, Y), InvalidInputError, "differ in shape"),
        (lambda: ap.evaluate({"a": A}, Y, clusters=GROUPS[1:]), InvalidInputError, "clusters and the labels differ"),
        (lambda: ap.estimate(Y, A), InvalidInputError, r"look like labels[\s\S]*swap"),
        (lambda: ap.evaluate({"a": Y}, A), InvalidInputError, r"look like labels[\s\S]*swap"),
        (lambda: ap.curve(Y, A), InvalidInputError, r"look like labels[\s\S]*swap"),
        (lambda: ap.metrics.average_precision_score(A, Y), InvalidInputError, r"labels first[\s\S]*swap"),
        (lambda: ap.evaluate({"a": A}), InvalidInputError, "labels are needed"),
        (lambda: ap.evaluate({}, Y), InvalidInputError, "there are no scores"),
        (lambda: ap.evaluate({1: A, "1": B}, Y), InvalidInputError, "the same name"),
        (lambda: ap.evaluate({"a": A.reshape(6, 10)}), InvalidInputError, "labels are needed"),
        (lambda: ap.compare(A, Y), InvalidInputError, "one model"),
        (lambda: ap.evaluate(pd.DataFrame({"a": A})), InvalidInputError, "labels are needed[\\s\\S]*from_dataframe"),
        (lambda: ap.evaluate(SCORES, clusters=GROUPS), InvalidInputError, "the scores have a variable 'cluster'"),
        (lambda: ap.evaluate(SCORES, Y), InvalidInputError, "a data set holds its labels"),
        (lambda: ap.compare(ap.evaluate(SCORES), dim="time"), InvalidInputError, "evaluated already"),
        (lambda: ap.evaluate({"a": pd.Series(A)}, pd.Series(Y, range(1, 61))), AlignmentError, "the same labels"),
        (lambda: ap.estimate(A, np.where(Y == 1, np.nan, 0)), InvalidInputError, r"give -2 where there is no item"),
        (lambda: ap.estimate(TWO_COLUMNS, Y, dim=0), InvalidInputError, r"last axis[\s\S]*\.T"),
        (lambda: ap.estimate(SCORES["score"], SCORES["label"], dim="i"), InvalidInputError, r"dim='item'"),
        (lambda: ap.aggregate(pd.DataFrame({"a": A})), InvalidInputError, r"from_dataframe"),
        (lambda: ap.report(SCORES, "x.html"), InvalidInputError, r"these are scores[\s\S]*ap\.evaluate"),
        *[
            (lambda name=name: ap.estimate(A, Y, name), InvalidInputError, f"did you mean '{own}'")
            for own, names in {
                "lower_trapezoid": ["trapezoid"],
                "average_precision": ["auprc", "pr_auc", "PR-AUC", "MAP"],
                "gain_area": ["auprg"],
                r"precision_at\(10\)": ["P@10", "precision_at_k(10)", "P_10", "p_at_k"],
                r"recall_at\(100\)": ["R@100", "Recall@100"],
                "roc_area": ["aucroc", "roc_auc"],
            }.items()
            for name in names
        ],
        *[
            (lambda name=name: ap.estimate(A, Y, name), InvalidInputError, f"it is elsewhere: .*{where}")
            for name, where in {"BEDROC": "rdkit", "range_based_pr": "prts", "nDCG@10": "ir_measures"}.items()
        ],
        (lambda: ap.estimate(A, Y * 0.3), InvalidInputError, r"positive_weight=p"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_infinite_scores_are_first_and_last() -> None:
    y, score = [1, 0, 1, 0, 0, 1], [np.inf, 2, 1.5, -np.inf, -np.inf, -np.inf]
    ranks = pd.Series(score).rank()
    assert ap.metrics.average_precision_score(y, score) == pytest.approx(0.7222, abs=1e-4)
    np.testing.assert_array_equal(
        ap.metrics.precision_recall_curve(y, score)[0], ap.metrics.precision_recall_curve(y, ranks)[0]
    )
