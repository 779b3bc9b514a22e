"""Arrays of any library with the names of their models, and what is said where they do not fit."""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path
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


def test_labels_come_second_also_where_a_data_set_holds_them() -> None:
    expected = ap.evaluate(SCORES, estimator="haldane", interval="logit")
    xr.testing.assert_identical(ap.evaluate(SCORES, None, "haldane", "logit"), expected)


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
        (lambda: ap.estimate(TWO_COLUMNS, Y), InvalidInputError, r"items lie on the first axis[\s\S]*\[:, 1\].*\.T"),
        (lambda: ap.curve(pd.DataFrame(TWO_COLUMNS, columns=["a", "b"]), pd.Series(Y)), InvalidInputError, r"\.T"),
        (
            lambda: ap.evaluate({"a": TWO_COLUMNS}, Y),
            InvalidInputError,
            r"items lie on the first axis of scores of 'a'[\s\S]*\[:, 1\]",
        ),
        (lambda: ap.evaluate({"a": A[1:]}, Y), InvalidInputError, "differ in shape"),
        (lambda: ap.evaluate({"a": A}, Y, clusters=GROUPS[1:]), InvalidInputError, "clusters and the labels differ"),
        (lambda: ap.estimate(Y, A), InvalidInputError, r"look like labels[\s\S]*swap"),
        (
            lambda: ap.estimate(A, np.where(Y == 1, 2.5, -2.5)),
            InvalidInputError,
            "these look like scores: give the lab",
        ),
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
        (
            lambda: ap.compare(xr.Dataset({"a": ("item", A), "b": ("item", B)}), label=Y),
            InvalidInputError,
            r"scores\[\['a', 'b'\]\].to_dataarray\('model'\), labels",
        ),
        (
            lambda: ap.contrast(
                xr.DataArray(np.stack([[A, B]] * 2), dims=("model", "lead", "item")).assign_coords(lead=[6, 24]),
                "lead",
                label=Y,
            ),
            InvalidInputError,
            r"remedy: [\s\S]*dim=\['case', 'lead'\], by='lead'",
        ),
        (
            lambda: ap.evaluate(pd.DataFrame({"a": A, "site": "x"}), Y),
            InvalidInputError,
            r"frame\[\['old', 'new'\]\], or ap.from_dataframe\(",
        ),
        (lambda: ap.compare(ap.evaluate(SCORES), dim="time"), InvalidInputError, "evaluated already"),
        (lambda: ap.evaluate({"a": pd.Series(A)}, pd.Series(Y, range(1, 61))), AlignmentError, "the same labels"),
        (lambda: ap.estimate(A, np.where(Y == 1, np.nan, 0)), InvalidInputError, r"give -2 where there is no item"),
        (lambda: ap.estimate(TWO_COLUMNS, Y, dim=0), InvalidInputError, r"last axis[\s\S]*\.T"),
        (lambda: ap.estimate(SCORES["score"], SCORES["label"], dim="i"), InvalidInputError, r"dim='item'"),
        (lambda: ap.aggregate(pd.DataFrame({"a": A})), InvalidInputError, r"from_dataframe"),
        (lambda: ap.evaluate(SCORES["score"], SCORES, pos_label=1), InvalidInputError, r"labels are one array"),
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


# Labelled arrays of any dimensions

TIME = pd.date_range("2020-01-01", periods=120)
GRID = {"lead": [1, 2], "time": TIME, "lat": [50.0, 51, 52], "lon": [0.0, 1]}
TRUTH = xr.DataArray((rng.random((120, 3, 2)) < 0.3).astype("int8"), {d: GRID[d] for d in ("time", "lat", "lon")})
OLD, NEW = (xr.DataArray(rng.normal(size=(2, 120, 3, 2)), GRID) + TRUTH for _ in "on")
FIELDS = xr.Dataset({"score": xr.concat([OLD, NEW], pd.Index(["old", "new"], name="model")), "label": TRUTH})
ITEMS = ("time", "lat", "lon")


@pytest.mark.parametrize("function", [ap.evaluate, ap.compare, ap.rank, ap.power, ap.covariance])
def test_labelled_arrays_are_matched_by_name_and_label(function: Any) -> None:
    old, new = OLD.isel(lead=0, drop=True), NEW.isel(lead=0, drop=True)
    plain = {"old": old.values.ravel(), "new": new.values.ravel()}
    expected = function(plain, TRUTH.values.ravel())
    turned = new.transpose("lon", "time", "lat")
    xr.testing.assert_equal(function({"old": old, "new": turned}, TRUTH.transpose("lat", ...), dim=ITEMS), expected)
    south = {"lat": slice(None, None, -1)}
    for scores, label in (({"old": old, "new": new.isel(south)}, TRUTH), ({"old": old, "new": new}, TRUTH.isel(south))):
        with pytest.raises(AlignmentError, match="another order"):
            function(scores, label, dim=ITEMS)
    with pytest.raises(InvalidInputError, match="other dimensions"):
        function({"old": old, "new": new.isel(lat=0)}, TRUTH, dim=ITEMS)


def test_dimensions_keep_their_names() -> None:
    """A square array that is transposed has other dimensions, not other queries."""
    square = xr.DataArray(rng.normal(size=(6, 6)), dims=("station", "time"))
    label = (square + xr.DataArray(rng.normal(size=(6, 6)), dims=("station", "time")) > 0).astype("int8")
    found = ap.evaluate({"a": square.T}, label, dim="time")["estimate"]
    assert found.dims == ("model", "station")
    np.testing.assert_array_equal(found[0], ap.estimate(square.values, label.values))


@pytest.mark.parametrize("lazy", [False, True])
def test_labels_of_a_mask_are_no_items(lazy: bool) -> None:
    sea = TRUTH["lat"] > 50
    scores, label = FIELDS["score"].where(sea), TRUTH.astype(float).where(sea)
    if lazy:
        scores, label = scores.chunk(time=50, model=1), label.chunk(time=30)
    part = {"lat": slice(1, None)}
    expected = ap.estimate(FIELDS["score"].isel(part), TRUTH.isel(part), dim=ITEMS)
    for found in (ap.evaluate(scores, label, dim=ITEMS)["estimate"], ap.estimate(scores.compute(), label, dim=ITEMS)):
        np.testing.assert_array_equal(found, expected)
    for ask in (ap.evaluate, ap.estimate, ap.curve):
        with pytest.raises(InvalidInputError, match=r"NaN where there are scores[\s\S]*-2 where there is no item"):
            ask(FIELDS["score"], label.compute(), dim=ITEMS)


@pytest.mark.parametrize("name", ["estimator", "interval_method", "ci_bound", "flags", "standard_error"])
def test_names_of_ours_are_refused_in_words(name: str) -> None:
    asks: list[Any] = [
        lambda: ap.evaluate(FIELDS.rename(lead=name), dim=ITEMS),
        lambda: ap.evaluate(FIELDS.isel(lead=0).rename(lead=name), dim=ITEMS),
        lambda: ap.evaluate(FIELDS, dim=ITEMS, by={name: TRUTH["lat"]}),
    ]
    for ask in asks:
        with pytest.raises(InvalidInputError, match=f"of the name '{name}'"):
            ask()


def test_a_coordinate_called_level_is_a_pressure() -> None:
    pressure = FIELDS.rename(lead="level").assign_coords(level=("level", [500, 850], {"units": "hPa"}))
    found, expected = (ap.evaluate(one, dim=ITEMS) for one in (pressure, FIELDS))
    assert found["level"].values.tolist() == [500, 850]
    assert found["level"].attrs == {"units": "hPa"}
    np.testing.assert_array_equal(found["interval"], expected["interval"])
    assert ap.evaluate(pressure.isel(level=0), dim=ITEMS).attrs["level"] == 0.95
    assert ap.estimate(pressure["score"], TRUTH, dim=ITEMS)["level"].attrs == {"units": "hPa"}
    assert ap.interval(found["estimate"], 10)["level"].values.tolist() == [500, 850]
    by = ap.evaluate(FIELDS.rename(lat="level"), dim=("time", "level", "lon"), by="level")
    assert by["level"].values.tolist() == [50, 51, 52]


@pytest.mark.parametrize("lazy", [False, True])
def test_half_precision_is_converted_first(lazy: bool, tmp_path: Any) -> None:
    half = SCORES.assign(score=SCORES["score"].astype(np.float16))
    half = half.chunk(model=1) if lazy else half
    expected = ap.evaluate(SCORES.assign(score=half["score"].astype(np.float32)), interval="bootstrap")
    xr.testing.assert_equal(ap.evaluate(half, interval="bootstrap").compute(), expected.compute())
    ap.save_scores(half, tmp_path / "s.zarr")
    xr.testing.assert_equal(ap.evaluate(ap.open_scores(tmp_path / "s.zarr"), interval="bootstrap"), expected.compute())


def test_tables_and_arrays_of_models() -> None:
    frame = pd.DataFrame({"a": A, "b": B, "y": Y}, index=rng.permutation(60))
    expected = ap.evaluate({"a": A, "b": B}, Y)
    xr.testing.assert_equal(ap.evaluate(frame[["a", "b"]], frame["y"]), expected)
    xr.testing.assert_equal(ap.compare(frame[["a", "b"]], frame["y"], "a"), ap.compare({"a": A, "b": B}, Y, "a"))
    xr.testing.assert_equal(ap.evaluate(np.stack([A, B]), Y), expected.drop_vars("model"))
    xr.testing.assert_equal(ap.evaluate(A, Y), expected.isel(model=0).drop_vars("model"))
    with pytest.raises(AlignmentError):
        ap.evaluate(frame[["a", "b"]], frame["y"].sort_index())


@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("function", [ap.evaluate, ap.compare, ap.rank])
@pytest.mark.parametrize("name", ["by", "clusters", "weight"])
def test_series_in_another_order_are_refused(function: Any, name: str) -> None:
    beside, options = pd.Series(GROUPS % 2 + 1), {} if name == "by" else {"n_resamples": 50}
    scores = {"a": pd.Series(A), "b": pd.Series(B)}
    in_order = function(scores, pd.Series(Y), **{name: beside}, **options)
    xr.testing.assert_equal(in_order, function(scores, pd.Series(Y), **{name: beside.to_numpy()}, **options))
    plain = SCORES.drop_vars("cluster")
    named = plain.assign_coords(item=[f"d{i}" for i in range(60)])
    of_names = beside.set_axis(named["item"].values)
    for given in ((scores, pd.Series(Y)), (plain,)):
        with pytest.raises(AlignmentError):
            function(*given, **{name: beside[::-1]}, **options)
    function(named, **{name: of_names}, **options)
    with pytest.raises(AlignmentError):
        function(named, **{name: of_names[::-1]}, **options)


def test_series_of_groups_of_plain_estimates_are_in_order() -> None:
    with pytest.raises(AlignmentError):
        ap.estimate(pd.Series(A), pd.Series(Y), by=pd.Series(GROUPS % 2)[::-1])


@pytest.mark.parametrize("function", [ap.evaluate, ap.compare])
def test_clusters_are_complete(function: Any) -> None:
    scores = {"a": A, "b": B}
    whole = function(scores, Y, clusters=GROUPS)
    for complete in (GROUPS.astype(float), GROUPS + 0.5, list(map(str, GROUPS)), TIME[GROUPS], pd.Categorical(GROUPS)):
        xr.testing.assert_allclose(function(scores, Y, clusters=complete), whole)
    for lacking in (np.where(GROUPS > 3, GROUPS, np.nan), [None, *GROUPS[1:]], [pd.NaT, *TIME[GROUPS[1:]]]):
        with pytest.raises(InvalidInputError, match="some items have no cluster"):
            function(scores, Y, clusters=lacking)
        with pytest.raises(InvalidInputError, match="some items have no cluster"):
            function(SCORES.assign(cluster=("item", pd.Series(lacking).to_numpy())))


def test_dimensions_of_items_are_named_as_they_are() -> None:
    for ask in (ap.evaluate, ap.save_scores):
        with pytest.raises(InvalidInputError, match="did you mean 'lon'"):
            ap.evaluate(FIELDS, dim=("time", "lat", "long"))
        with pytest.raises(InvalidInputError, match=r"dim="):
            ask(FIELDS, *(["nowhere.zarr"] if ask is ap.save_scores else []))


# Crossings: every cell of a result is that of a plain call

SIZES = {"model": 2, "lead": 2, "query": 2, "class": 2, "repeat": 2, "time": 40, "lat": 2}
LABELS = {"model": ["a", "b"], "lead": [6, 12], "query": ["p", "q"], "class": ["u", "v"], "repeat": [0, 1]}
LABELS |= {"time": pd.date_range("2020-01-01", periods=40, freq="3D").values, "lat": [50.0, 51.0]}


def crossed(layout: str | None, dims: tuple[str, ...], *, own_label: bool, missing: str | None) -> xr.Dataset:
    random = np.random.default_rng(0)
    lead = ["model", "lead", *([layout] if layout else [])]
    of_label = [*(["lead"] if own_label else []), *([layout] if layout and layout != "repeat" else []), *dims]

    def drawn(names: list[str]) -> xr.DataArray:
        return xr.DataArray(random.normal(size=[SIZES[d] for d in names]), {d: LABELS[d] for d in names}, names)

    label = (drawn(of_label) > 0.5).astype("int8")
    score = (drawn([*lead, *dims]) + label).round(1)
    score = score.where(drawn([*lead, *dims]) < 1.5) if missing else score
    return xr.Dataset({"score": score.transpose(*lead, *dims), "label": label})


@pytest.mark.sparse
@pytest.mark.parametrize("where", ["memory", "dask", "store"])
@pytest.mark.parametrize(
    ("layout", "dims", "by", "beside", "missing", "own_label"),
    [
        (None, ("time",), None, (), None, False),
        (None, ("time", "lat"), "time.month", ("weight",), None, True),
        (None, ("time", "lat"), None, ("clusters",), "drop", False),
        (None, ("time",), "time.month", ("weight", "clusters"), "last", True),
        ("query", ("time",), None, ("weight",), "unretrieved", False),
        ("query", ("time", "lat"), "time.month", (), "drop", True),
        ("class", ("time",), None, ("clusters",), None, True),
        ("class", ("time", "lat"), "time.month", ("weight",), None, False),
        ("repeat", ("time",), None, ("clusters",), "drop", False),
        ("repeat", ("time", "lat"), "time.month", ("weight",), None, True),
    ],
)
def test_each_cell_is_that_of_a_plain_call(
    where: str,
    layout: str | None,
    dims: tuple[str, ...],
    by: str | None,
    beside: tuple[str, ...],
    missing: str | None,
    own_label: bool,
    tmp_path: Any,
) -> None:
    data = crossed(layout, dims, own_label=own_label, missing=missing)
    data = data.assign_coords(month=("time", pd.DatetimeIndex(LABELS["time"]).month))
    of_time = xr.DataArray(np.arange(40) // 4, {"time": LABELS["time"]}, "time")
    given: dict[str, Any] = {"weight": of_time % 3 + 1.0, "clusters": of_time}
    given = {name: given[name] for name in beside}
    options: dict[str, Any] = {"interval": ["influence_beta", "bootstrap"], "n_resamples": 10}
    options |= {"missing": missing} if missing else {}
    if where == "store":
        ap.save_scores(data, tmp_path / "s.zarr", dim=dims, **given)
        found = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", by=by and "month", **options)
    else:
        chunked = data.chunk(model=1, lead=1, time=25) if where == "dask" else data
        found = ap.evaluate(chunked, dim=dims, by=by, **given, **options).compute()
    assert found["estimate"].sizes["lead"] == 2
    months = [None] if by is None else np.unique(data["month"])
    for lead, month in itertools.product(LABELS["lead"], months):
        part = data.sel(lead=lead)
        part = part if month is None else part.isel(time=np.flatnonzero(part["month"] == month))
        item = part["time"].broadcast_like(part[list(dims)]).transpose(*dims)  # the time of each item
        roles = {name: ("item", one.sel(time=item.values.ravel()).values) for name, one in given.items()}
        plain = part.stack(item=dims, create_index=False).drop_vars(["time", "lat", "month"], errors="ignore")
        plain = plain.assign({{"clusters": "cluster"}.get(name, name): one for name, one in roles.items()})
        tree = xr.DataTree.from_dict({"all" if month is None else str(month): plain})  # resampled by its name
        expected = ap.evaluate(plain if month is None else tree, **options)
        expected = expected if month is None else expected[str(month)].to_dataset()
        one = found.sel(lead=lead) if month is None else found.sel(lead=lead, month=month)
        for name in ("estimate", "standard_error", "interval", "n_positive", "n_missing", "flags"):
            np.testing.assert_array_equal(one[name].transpose(*expected[name].dims), expected[name], name)


def test_labels_may_be_names_of_classes() -> None:
    random = np.random.default_rng(0)
    is_ill = random.random(90) < 0.4
    scores, named = random.normal(size=(2, 90)) + is_ill, np.where(is_ill, "ill", "well")
    expected = ap.evaluate(scores, is_ill)
    for label in (named, named.tolist(), pd.Series(named), pd.Series(named, dtype="category"), is_ill + 1):
        positive = 2 if label is not named and np.asarray(label).dtype.kind == "i" else "ill"
        xr.testing.assert_identical(ap.evaluate(scores, label, pos_label=positive), expected)
    dataset = xr.Dataset({"score": (("model", "item"), scores), "label": ("item", named)}, {"model": ["a", "b"]})
    numbers = dataset.assign(label=("item", is_ill))
    xr.testing.assert_identical(ap.compare(dataset, "a", pos_label="ill"), ap.compare(numbers, "a"))
    columns = pd.DataFrame(scores.T, columns=["a", "b"]).set_index(np.arange(90)[::-1])
    series = pd.Series(named, index=columns.index)
    xr.testing.assert_equal(ap.rank(columns, series, pos_label="ill"), ap.rank(numbers))
    with pytest.raises(InvalidInputError, match="no label is 'sick', the positive class") as caught:
        ap.evaluate(scores, named, pos_label="sick")
    assert "allowed: 'well', 'ill'" in str(caught.value)
    with pytest.raises(InvalidInputError, match="name the positive class"):
        ap.evaluate(dataset)
    with pytest.raises(InvalidInputError, match="some labels are missing"):
        ap.evaluate(scores, [None, *named[1:]], pos_label="ill")


def test_dimensions_have_any_name_that_answers_do_not() -> None:
    random = np.random.default_rng(0)
    label = (random.random((2, 120)) < 0.4).astype("int8")
    score = random.normal(size=(3, 2, 120)) + label
    plain = xr.Dataset({"score": (("model", "lead", "item"), score), "label": (("lead", "item"), label)})
    plain = plain.assign_coords(model=list("abc"), lead=[500, 850])
    expected = ap.compare(plain, "a")["difference"]
    for name in ("level", "method", "group", "unit", "dataset_of"):
        found = ap.compare(plain.rename(lead=name), "a")
        np.testing.assert_array_equal(found["difference"].transpose("model", name), expected.transpose("model", "lead"))
        assert found[name].values.tolist() == [500, 850]
    for name in ("other_model", "baseline"):
        with pytest.raises(InvalidInputError, match=f"rename.{name}='another'"):
            ap.compare(plain.rename(lead=name), "a")


FUNCTIONS = [
    one for module in (ap, ap.metrics) for name in module.__all__ if inspect.isfunction(one := getattr(module, name))
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_help_describes_every_argument(function: Any) -> None:
    described = re.findall(r"^(?: {4})?((?:\*|\w)[\w*, ]*)(?: :.*)?$", function.__doc__, flags=re.MULTILINE)
    listed = {one.strip("* ") for line in described for one in line.split(",")}
    assert set(inspect.signature(function).parameters) <= listed


@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
@pytest.mark.parametrize("ask", [ap.evaluate, ap.compare, ap.rank, ap.aggregate, ap.contrast, ap.letters, ap.power])
@pytest.mark.parametrize("as_given", [lambda scores: scores, lambda scores: scores["score"]], ids=["data set", "array"])
def test_coordinates_of_pandas_text_name_groups(ask: Any, as_given: Any) -> None:
    """The text of pandas 3, which xarray takes as it is, and cannot select of."""
    of_text = np.where(GROUPS % 2, "Bern", "Oslo")
    plain = xr.Dataset({"score": (("model", "item"), np.stack([A, B])), "label": ("item", Y)}, {"model": ["a", "b"]})
    found = []
    for site in (of_text.astype(object), pd.Series(of_text, dtype="string")):
        given = as_given(plain.assign_coords(site=("item", site)))
        labels = () if isinstance(given, xr.Dataset) else (plain["label"],)
        found.append(ask(given, *labels, by="site"))
    assert str(found[0]) == str(found[1])


def test_items_of_a_stored_grid_are_named_by_its_dimensions(tmp_path: Path) -> None:
    ap.save_scores(FIELDS, tmp_path / "scores.zarr", dim=ITEMS)
    stored = ap.open_scores(tmp_path / "scores.zarr")
    expected = ap.compare(FIELDS, "old", dim=ITEMS)
    xr.testing.assert_equal(ap.compare(stored, "old", dim=ITEMS).compute(), expected)
    xr.testing.assert_equal(ap.compare(stored, "old").compute(), expected)
    with pytest.raises(InvalidInputError, match=r"no dimension 'time'[\s\S]*dim='item'"):
        ap.compare(stored, "old", dim="time")  # which would keep the places apart


def test_rankings_of_two_kinds_are_refused_with_a_remedy_that_works() -> None:
    score = rng.normal(size=(2, 5, 3, 40))
    label = (rng.random((5, 3, 40)) < 0.4).astype("int8")
    scores = xr.Dataset({"score": (("model", "query", "class", "item"), score)}, {"model": ["a", "b"]})
    scores["label"] = (("query", "class", "item"), label)
    with pytest.raises(InvalidInputError, match=r"all but one of query and class[\s\S]*rename\(\{'class': \.\.\.\}\)"):
        ap.compare(scores, "a")
    kept = ap.compare(scores.rename({"class": "kind"}), "a")
    expected = ap.compare(scores.isel({"class": 1}, drop=True), "a")
    np.testing.assert_array_equal(kept["p_value"].isel(kind=1), expected["p_value"])
