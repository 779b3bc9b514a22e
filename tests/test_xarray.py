"""Scores and results are at home in xarray: what people do with any Dataset works with these, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from distributed import Client

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError, MissingScoresError


def scores() -> xr.Dataset:
    random = np.random.default_rng(0)
    return xr.Dataset(
        {
            "score": (("model", "query", "item"), random.normal(size=(4, 3, 60))),
            "label": (("query", "item"), (random.random((3, 60)) < 0.4).astype("int8")),
        },
        coords={
            "model": list("abcd"),
            "query": [3, 1, 2],
            "family": ("model", ["x", "x", "y", "y"]),
            "when": ("query", pd.date_range("2020-01-01", periods=3)),
            "took": ("query", pd.to_timedelta([1, 2, 3], "s")),
            "site": "here",
        },
    )


def test_coordinates_travel_and_xarray_goes_on(client: Client, tmp_path: Path) -> None:
    in_memory = ap.evaluate(scores())
    ap.save_scores(scores(), tmp_path / "s.zarr")
    stored = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", cluster=client)
    xr.testing.assert_equal(stored.drop_attrs(), in_memory.drop_attrs())
    for result in (in_memory, stored):
        assert {"family", "when", "took", "site"} <= set(result.coords)
        assert (result["when"].dtype.kind, result["took"].dtype.kind, result["query"].dtype.kind) == ("M", "m", "i")
        assert result["estimate"].groupby("family").mean().sizes == {"family": 2, "query": 3}
        assert result["estimate"].idxmax("model").dtype.kind in "OU"
        assert result.to_dataframe()["estimate"].notna().all()
        result.to_netcdf(tmp_path / "r.nc", engine="scipy")
        assert xr.open_dataset(tmp_path / "r.nc", engine="scipy")["model"].values.tolist() == list("abcd")
    both = xr.concat([ap.evaluate(scores(), name) for name in ("average_precision", "haldane")], "estimator")
    np.testing.assert_array_equal(both["estimate"].sel(estimator="average_precision"), in_memory["estimate"])
    assert ap.aggregate(both)["estimate"].sizes == {"model": 4, "estimator": 2}


@pytest.mark.parametrize(
    ("name", "ours"), [("sample_weight", "weight"), ("groups", "cluster"), ("folds", "fold"), ("labels", "label")]
)
def test_a_variable_that_would_be_ignored_is_refused(name: str, ours: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"'{name}'[\s\S]*rename\(\{{'{name}': '{ours}'\}}\)"):
        ap.evaluate(scores().assign({name: ("item", np.ones(60))}))


@pytest.mark.parametrize("dim", ["model", "query", "item"])
def test_labels_of_several_levels_are_refused_with_the_remedy(dim: str) -> None:
    size = scores().sizes[dim]
    levels = pd.MultiIndex.from_arrays([np.arange(size), np.arange(size)], names=["one", "two"])
    given = scores().drop_vars(dim, errors="ignore").assign_coords(xr.Coordinates.from_pandas_multiindex(levels, dim))
    with pytest.raises(InvalidInputError, match=rf"reset_index\('{dim}'\)"):
        ap.evaluate(given)
    assert {"one", "two"} <= set(ap.evaluate(given.reset_index(dim)).coords) or dim == "item"


def test_a_store_cleaned_in_xarray_is_judged_by_what_it_holds(tmp_path: Path) -> None:
    lacking = scores()
    lacking["score"][0, 0, 0] = np.nan
    ap.save_scores(lacking, tmp_path / "s.zarr")
    for chunks in (None, "auto"):
        opened = ap.open_scores(tmp_path / "s.zarr", chunks=chunks)
        cleaned = ap.evaluate(opened.assign(score=opened["score"].fillna(-9))).compute()
        np.testing.assert_array_equal(cleaned["estimate"], ap.evaluate(lacking.fillna(-9))["estimate"])
        assert ap.evaluate(opened.isel(item=slice(1, None))).compute()["estimate"].notnull().all()
        with pytest.raises(MissingScoresError):
            ap.evaluate(opened).compute()


def test_plot_picks_the_usual_picture() -> None:
    result: Any = ap.evaluate(scores())
    for data, plot in ((result, "forest"), (ap.compare(result, "a"), "differences"), (ap.rank(result), "ranks")):
        chosen, named = data.aucpr.plot(), getattr(data.aucpr.plot, plot)()
        assert (chosen.get_xlabel(), chosen.get_title("left")) == (named.get_xlabel(), named.get_title("left"))
