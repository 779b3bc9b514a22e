"""Add models or data sets to finished results: only what is new is computed. With anything else, everything is."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from conftest import pooled, queried
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from test_resume import OPTIONS, Stop, ledger_of, state_of, stop_after, wait_for
from test_run import assert_does_not_open, assert_same_bits

import aucpr_dask as ap
from aucpr_dask.errors import StoreError
from aucpr_dask.storage.verifying import damage_of

WHOLE = queried(11, 5, 40)

pytestmark = pytest.mark.usefixtures("few_calls_in_flight", "small_chunks")


def run(client: Client, scores: Any, folder: Path, on_progress: Any = None, **options: Any) -> Any:
    """Replace the stored scores, and evaluate them into the same result."""
    ap.save_scores(scores, folder / "scores.zarr", overwrite=True)
    return ap.run(
        folder / "scores.zarr", folder / "result.zarr", workers=client, on_progress=on_progress, **OPTIONS | options
    )


def rankings(events: list[Any]) -> int:
    """Return how many rankings were evaluated."""
    return events[-1].rankings_done


@pytest.mark.parametrize(
    ("before", "n_new"),
    [
        pytest.param({"model": slice(7)}, 4 * 5, marks=pytest.mark.slow),
        pytest.param({"model": slice(0, 11, 2)}, 5 * 5, marks=pytest.mark.slow),
        ({"model": [3, 1], "query": [4, 0, 2, 1, 3]}, 9 * 5),
    ],
)
def test_only_new_rankings_are_computed(client: Client, tmp_path: Path, before: dict[str, Any], n_new: int) -> None:
    first = run(client, WHOLE.isel(before), tmp_path)
    events: list[Any] = []
    result = run(client, WHOLE, tmp_path, events.append)
    assert rankings(events) == n_new
    order = {dim: result.indexes[dim] for dim in ("model", "query")}
    for dim in order:
        assert list(order[dim][: first.sizes[dim]]) == list(first.indexes[dim])
    assert_same_bits(result, ap.evaluate(WHOLE, **OPTIONS).sel(order))
    plain = xr.open_zarr(tmp_path / "result.zarr", chunks=None)
    np.testing.assert_array_equal(plain["interval"].values, result["interval"].values)
    state = state_of(tmp_path / "result.zarr")
    assert run(client, WHOLE, tmp_path, stop_after(0)).identical(result)
    assert state_of(tmp_path / "result.zarr") == state
    assert not ledger_of(tmp_path / "result.zarr").done()


def test_finished_chunks_are_not_written_again(client: Client, tmp_path: Path) -> None:
    run(client, WHOLE.isel(model=slice(6)), tmp_path)
    before = state_of(tmp_path / "result.zarr")
    run(client, WHOLE, tmp_path)
    after = state_of(tmp_path / "result.zarr")
    whole = [path for path in before if path.parent.name == "estimate" and path.name.startswith("c.")]
    assert len(whole) > 2
    assert sum(after[path] == before[path] for path in whole) >= len(whole) // 2  # but for chunks at the edge


def test_a_result_keeps_its_layout(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each row of chunks has a folder, and all chunks are compressed."""
    with monkeypatch.context() as before:
        before.setattr("aucpr_dask.runs.planning.FLAT", {"name": "default", "separator": "/"})
        before.setattr("aucpr_dask.runs.planning.SMALL_CHUNK", 0)
        run(client, WHOLE.isel(model=slice(6)), tmp_path)
    result = run(client, WHOLE, tmp_path)
    assert_same_bits(result, ap.evaluate(WHOLE, **OPTIONS))
    folder = tmp_path / "result.zarr" / "estimate"
    assert len(list(folder.glob("c/*/*/0"))) > 3
    assert not list(folder.glob("c.*"))
    assert zarr.open_array(folder, mode="r").compressors


@pytest.mark.slow
def test_a_result_of_few_grows_to_many(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks keep their size, so there are more of them than in a new run."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 2**20)
    run(client, WHOLE.isel(model=slice(2)), tmp_path)
    events: list[Any] = []
    assert_same_bits(run(client, WHOLE, tmp_path, events.append), ap.evaluate(WHOLE, **OPTIONS))
    assert events[-1].tasks_total > 1
    assert events[-1].seconds_left == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels",
    [
        np.arange(11)[::-1] * 10,
        np.arange(11) / 3,
        np.datetime64("2024-01-31T12", "ns") + np.arange(11) * np.timedelta64(31, "h"),
        np.datetime64("2024-01-31T12", "s") + np.arange(11) * np.timedelta64(31, "h"),
        np.arange(11) * np.timedelta64(31, "ms"),
    ],
    ids=["whole numbers", "fractions", "dates", "dates in seconds", "spans"],
)
def test_labels_that_are_no_text(client: Client, tmp_path: Path, labels: Any) -> None:
    scores = WHOLE.assign_coords(model=labels, same=("model", labels))
    run(client, scores.isel(model=[3, 1]), tmp_path)
    result = run(client, scores, tmp_path)
    np.testing.assert_array_equal(result["same"], result["model"])
    assert result["same"].dtype == labels.dtype
    np.testing.assert_array_equal(result["model"], [*labels[[3, 1]], labels[0], labels[2], *labels[4:]])
    assert_same_bits(result, ap.evaluate(scores, **OPTIONS).sel(model=result["model"].values))


ALL_ANEW = {
    "queries": (WHOLE.isel(query=slice(2)), WHOLE, OPTIONS),
    "models and queries": (WHOLE.isel(model=[3, 1], query=[4, 0, 2]), WHOLE, OPTIONS),
    "resamples": (WHOLE, WHOLE, OPTIONS | {"n_resamples": 230}),
    "everything": (WHOLE.isel(model=slice(4), query=slice(3)), WHOLE, OPTIONS | {"n_resamples": 130}),
    "leads": (WHOLE.isel(query=slice(2)).rename(query="lead"), WHOLE.rename(query="lead"), OPTIONS),
    "labels of another type": (
        WHOLE.isel(model=slice(2)).assign_coords(model=[1, 2]),
        WHOLE.isel(model=slice(3)).assign_coords(model=[1, 2, 2.5]),
        OPTIONS,
    ),
    "times of another unit": (
        WHOLE.isel(model=slice(2)).assign_coords(when=("model", np.arange(2).astype("M8[s]"))),
        WHOLE.isel(model=slice(3)).assign_coords(when=("model", np.arange(3).astype("M8[us]"))),
        OPTIONS,
    ),
    "data sets within others": (
        xr.DataTree.from_dict({"a/b": pooled(3, 20, seed=2)}),
        xr.DataTree.from_dict({"a": pooled(3, 20, seed=3), "a/b": pooled(3, 20, seed=2)}),
        OPTIONS,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_ANEW)
def test_with_anything_else_everything_is_evaluated_anew(client: Client, tmp_path: Path, name: str) -> None:
    before, after, options = ALL_ANEW[name]
    run(client, before, tmp_path)
    with pytest.warns(UserWarning, match="everything is evaluated again at .*result.zarr"), pytest.raises(Stop):
        run(client, after, tmp_path, stop_after(1), **options)
    wait_for(client)
    assert_does_not_open(tmp_path / "result.zarr")
    result = run(client, after, tmp_path, **options)
    assert_same_bits(result, ap.evaluate(after, **options))
    assert run(client, after, tmp_path, stop_after(0), **options).identical(result)


@pytest.mark.slow
def test_per_run_lists_may_get_longer(client: Client, tmp_path: Path) -> None:
    options = OPTIONS | {"interval": ["logit"], "keep_replicates": False}
    places, dims = range(WHOLE.sizes["model"]), ("model", "query", "item")
    label = np.stack([np.roll(WHOLE["label"].values, place, axis=-1) for place in places])
    score = np.stack([np.roll(WHOLE["score"].transpose(*dims).values[place], place, axis=-1) for place in places])
    runs = WHOLE.assign(score=(dims, score), label=(dims, label), n_positive=("query", np.arange(30, 35)))
    run(client, runs.isel(model=slice(4), item=slice(30)), tmp_path, **options)
    shorter = runs.copy(deep=True)
    shorter["score"][:4, :, 30:], shorter["label"][:4, :, 30:] = np.nan, -2
    events: list[Any] = []
    assert_same_bits(run(client, shorter, tmp_path, events.append, **options), ap.evaluate(shorter, **options))
    assert rankings(events) == 7 * 5


def test_new_data_sets(client: Client, tmp_path: Path, forest: xr.DataTree) -> None:
    both = xr.DataTree.from_dict({"small": forest["small"].to_dataset(), "topics": forest["topics"].to_dataset()})
    run(client, both, tmp_path)
    events: list[Any] = []
    result = run(client, forest, tmp_path, events.append)
    assert rankings(events) == forest["large"].sizes["model"]
    assert_same_bits(result, ap.evaluate(forest, **OPTIONS))
    for path in both.children:
        alone = xr.open_zarr(tmp_path / "result.zarr", group=path, chunks=None)
        assert_same_bits(alone, result[path].to_dataset())


def test_resamples_of_a_result_without_replicates_are_refused(client: Client, tmp_path: Path) -> None:
    run(client, WHOLE, tmp_path, keep_replicates=False)
    with pytest.raises(StoreError, match="n_resamples: 100, now 200"):
        run(client, WHOLE, tmp_path, keep_replicates=False, n_resamples=200)


@pytest.mark.slow
def test_an_interrupted_extension_leaves_the_result_unchanged(client: Client, tmp_path: Path) -> None:
    target = tmp_path / "result.zarr"
    first = run(client, WHOLE.isel(model=slice(4)), tmp_path).load()
    with pytest.raises(Stop):
        run(client, WHOLE, tmp_path, stop_after(3))
    wait_for(client)
    assert ap.open_result(target).load().identical(first)
    assert damage_of(str(target))[1:] == ([], True)
    np.testing.assert_array_equal(xr.open_zarr(target, chunks=None)["interval"].values, first["interval"].values)
    done = len(ledger_of(target).done())
    assert done >= 3
    events: list[Any] = []
    result = run(client, WHOLE, tmp_path, events.append)
    assert events[0].tasks_done == done + 1
    assert_same_bits(result, ap.evaluate(WHOLE, **OPTIONS))


@pytest.mark.slow
def test_another_extension_takes_the_place_of_an_interrupted_one(client: Client, tmp_path: Path) -> None:
    run(client, WHOLE.isel(model=slice(4)), tmp_path)
    with pytest.raises(Stop):
        run(client, WHOLE, tmp_path, stop_after(3))
    wait_for(client)
    fewer = WHOLE.isel(model=[0, 1, 2, 3, 9, 8])
    assert_same_bits(run(client, fewer, tmp_path), ap.evaluate(fewer, **OPTIONS))
    assert_same_bits(run(client, fewer, tmp_path), ap.evaluate(fewer, **OPTIONS))


@pytest.mark.parametrize("options", [OPTIONS, OPTIONS | {"ties": "trec_eval", "estimator": ["average_precision"]}])
def test_swapped_names_are_noticed(client: Client, tmp_path: Path, options: dict[str, Any]) -> None:
    """The bytes of the scores are the same, but their models differ, or the names that break ties."""
    scores = pooled(4, 40)
    run(client, scores, tmp_path, **options)
    for dim in ("model", "item"):
        names = scores[dim].values.copy()
        names[[0, 1]] = names[[1, 0]]
        with pytest.raises(StoreError, match="scores or labels changed of model 'm0'"):
            run(client, scores.assign_coords({dim: names}), tmp_path, **options)


@pytest.mark.slow
def test_changes_are_named(client: Client, tmp_path: Path) -> None:
    run(client, WHOLE, tmp_path)
    before = state_of(tmp_path / "result.zarr")
    changed = WHOLE.copy(deep=True)
    changed["score"][2, 1, 3] += 1
    with pytest.raises(StoreError, match=r"(?s)scores or labels changed of model 'm2', query 'q1'.*overwrite=True"):
        run(client, changed, tmp_path)
    relabelled = WHOLE.copy(deep=True)
    relabelled["label"][4, 0] = 0
    with pytest.raises(StoreError, match=r"changed of model 'm0', query 'q4', .* and 6 more"):
        run(client, relabelled, tmp_path)
    with pytest.raises(StoreError, match=r"model gone: 'm0', 'm1'\n"):
        run(client, WHOLE.isel(model=slice(2, None)), tmp_path)
    with pytest.raises(StoreError, match="is gone, or has other dimensions"):
        run(client, pooled(11, 40), tmp_path)
    assert state_of(tmp_path / "result.zarr") == before


@pytest.mark.slow
def test_scores_that_were_moved_and_reordered_are_the_same(client: Client, tmp_path: Path) -> None:
    first = run(client, WHOLE, tmp_path)
    ap.save_scores(WHOLE.isel(model=slice(None, None, -1)), tmp_path / "moved.zarr")
    result = ap.run(
        tmp_path / "moved.zarr", tmp_path / "result.zarr", workers=client, on_progress=stop_after(0), **OPTIONS
    )
    assert result.identical(first)


@pytest.mark.filterwarnings("ignore:.*no checksums:aucpr_dask.errors.DamageWarning")
def test_scores_without_digests_are_evaluated_but_not_extended(client: Client, tmp_path: Path) -> None:
    source = tmp_path / "scores.zarr"
    for scores in (WHOLE.isel(model=slice(3)), WHOLE):
        ap.save_scores(scores, source, overwrite=True)
        bare = xr.open_zarr(source, chunks=None).drop_vars("digest").load().drop_encoding()
        shutil.rmtree(source)
        with warnings.catch_warnings(action="ignore"):  # consolidated metadata are an extension of the format
            bare.to_zarr(source, zarr_format=3, consolidated=True)
        if scores.sizes["model"] == 3:
            ap.run(source, tmp_path / "result.zarr", workers=client, **OPTIONS)
    with pytest.raises(StoreError, match="without digests of its rankings"):
        ap.run(source, tmp_path / "result.zarr", workers=client, **OPTIONS)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.data())
def test_any_order_of_additions_ends_alike(client: Client, tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    models: list[int] = data.draw(st.lists(st.integers(0, 10), min_size=1, unique=True))
    seen: set[int] = set()
    while True:
        part = WHOLE.isel(model=models, query=data.draw(st.permutations(range(5))))
        events: list[Any] = []
        result = run(client, part, folder, events.append, keep_replicates=False, interval=["bootstrap"])
        assert (rankings(events) if events else 0) == 5 * len(set(models) - seen)
        seen = set(models)
        if len(models) == 11:
            break
        others = sorted(set(range(11)) - seen)
        models = data.draw(st.permutations([*models, *others[: data.draw(st.integers(1, 5))]]))
    expected = ap.evaluate(WHOLE, **OPTIONS | {"keep_replicates": False, "interval": ["bootstrap"]})
    assert_same_bits(result, expected.sel(model=result["model"].values, query=result["query"].values))
