"""Store to store on a real cluster of two processes."""

import asyncio
import itertools
import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried
from distributed import Client, LocalCluster

import aucpr_dask as ap
from aucpr_dask.errors import (
    ChunkError,
    ClusterError,
    InvalidInputError,
    MissingScoresError,
    OtherRunError,
    RunError,
    SourceChangedError,
    StoreError,
)
from aucpr_dask.evaluation.api import describe_scores, evaluate_scores
from aucpr_dask.progress import Progress
from aucpr_dask.runs import submitting, tasks
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.schema.terms import nodes_of
from aucpr_dask.storage.checksums import without_list

NAMES = ["average_precision", "lower_trapezoid", "upper_trapezoid"]
METHODS = ["logit", "wilson", "clopper_pearson", "binomial"]


@pytest.fixture(scope="module")
def client(client_of_processes: Client) -> Client:
    return client_of_processes


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the small stores of these tests into many tasks."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1000)


def assert_same_bits(result: Any, expected: Any) -> None:
    ours, theirs = dict(nodes_of(result)), dict(nodes_of(expected))
    assert ours.keys() == theirs.keys()
    for path, node in theirs.items():
        assert set(ours[path].data_vars) == set(node.data_vars)
        for name, variable in node.data_vars.items():
            np.testing.assert_array_equal(ours[path][name].values, variable.values, err_msg=f"{path} {name}")
            assert ours[path][name].dims == variable.dims
            assert ours[path][name].dtype == variable.dtype
            assert ours[path][name].attrs == variable.attrs
        for name, index in node.indexes.items():
            assert list(map(str, ours[path].indexes[name])) == list(map(str, index))


@pytest.mark.parametrize("fails", [0, 2])
def test_what_takes_about_a_second_runs_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    scores, notes, write = pooled(), list[str](), tasks._write
    ap.save_scores(scores, tmp_path / "s.zarr")

    class Report:
        def __call__(self, *_: object) -> None:
            pass

        def note(self, text: str) -> None:
            notes.append(text)

    failing = iter([OSError("busy")] * fails)

    def sometimes(*arguments: Any) -> dict[str, str]:
        for error in failing:
            raise error
        return write(*arguments)

    monkeypatch.setattr(tasks, "_write", sometimes)
    monkeypatch.setattr("aucpr_dask.workers.connecting.connect_for", None)
    result = ap.run(tmp_path / "s.zarr", tmp_path / "r.zarr", progress=Report(), record=tmp_path / "r.json")
    assert_same_bits(result.drop_attrs(), ap.evaluate(scores).drop_attrs())
    assert any("in this process" in note for note in notes)
    record = json.loads((tmp_path / "r.json").read_text())
    assert all(task["is_done"] for task in record["tasks"])
    assert record["workers"][0].items() >= record["client"].items()
    with pytest.raises(TypeError):  # with more to do, it asks for a cluster
        ap.run(tmp_path / "s.zarr", tmp_path / "b.zarr", interval="bootstrap", n_resamples=10**7)


def assert_holds_no_futures(client: Client) -> None:
    client.sync(asyncio.sleep, 0)  # the client's event loop releases futures after the calls that already wait there
    assert not client.futures


@pytest.mark.smoke
@pytest.mark.parametrize("make", [lambda: pooled(23, 60), lambda: queried(7, 5, 40)])
def test_a_run_gives_the_numbers_of_evaluate(client: Client, tmp_path: Path, make: Any) -> None:
    scores = make()
    ap.save_scores(scores, tmp_path / "scores.zarr")
    events: list[Progress] = []
    options: dict[str, Any] = {"estimator": NAMES, "interval": METHODS, "level": 0.9}
    result = ap.run(
        tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client, on_progress=events.append, **options
    )
    assert isinstance(result, xr.Dataset)
    assert_same_bits(result, ap.evaluate(scores, **options))
    assert_same_bits(ap.open_result(tmp_path / "result.zarr"), ap.evaluate(scores, **options))
    total = events[-1].tasks_total
    assert total > 5
    assert [event.tasks_done for event in events] == list(range(1, total + 1))
    n_rankings = int(np.prod(scores["score"].shape[:-1]))
    assert [event.rankings_total for event in events] == [n_rankings] * total
    assert events[-1].rankings_done == n_rankings
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(events))


@pytest.mark.smoke
def test_a_tree(client: Client, tmp_path: Path, forest: xr.DataTree) -> None:
    ap.save_scores(forest, tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client, estimator=NAMES)
    assert isinstance(result, xr.DataTree)
    assert_same_bits(result, ap.evaluate(forest, NAMES))
    plain = xr.open_datatree(tmp_path / "result.zarr", engine="zarr", chunks=None)
    np.testing.assert_array_equal(plain["topics/estimate"].values, result["topics/estimate"].values)


@pytest.mark.parametrize(
    "options",
    [
        {"missing": "drop", "prevalence": 0.01},
        {"missing": "last", "ties": "expectation"},
        {"missing": "unretrieved", "ties": "trec_eval", "positive_from": 1},
        {"missing": "last", "unjudged": "drop", "interval": ()},
    ],
)
def test_every_option_reaches_the_workers(client: Client, tmp_path: Path, options: dict[str, Any]) -> None:
    scores = queried(6, 4, 30).assign_coords(item=[f"d{i}" for i in range(30)])
    scores["score"][1, :, 3:9] = np.nan
    scores["score"][2, 0] = np.nan
    scores["label"][:, 4] = -1
    ap.save_scores(scores, tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client, **options)
    assert_same_bits(result, ap.evaluate(scores, **options))


def test_weights_and_per_run_lists(client: Client, tmp_path: Path) -> None:
    scores = queried(6, 4, 30)
    label = scores["label"].broadcast_like(scores["score"]).transpose("model", "query", "item")
    own = scores.assign(label=label, weight=abs(label) * 0.1)
    for name, data in (("own", own.drop_vars("weight").assign(n_positive=("query", [40] * 4))), ("weighted", own)):
        ap.save_scores(data, tmp_path / f"{name}.zarr")
        result = ap.run(tmp_path / f"{name}.zarr", tmp_path / f"{name}-result.zarr", workers=client, estimator=NAMES)
        assert_same_bits(result, ap.evaluate(data, NAMES))


def test_the_result_says_where_it_comes_from(client: Client, tmp_path: Path) -> None:
    digests = []
    for seed in (0, 1):
        source = tmp_path / f"{seed}.zarr"
        ap.save_scores(pooled(seed=seed).assign_attrs(source_files="a.csv"), source)
        result = ap.run(source, tmp_path / f"result-{seed}.zarr", workers=client, level=0.8)
        assert result.attrs["source"] == str(source)
        assert (result.attrs["source_files"], result.attrs["level"]) == ("a.csv", 0.8)
        assert result.attrs["kind"] == "aucpr_dask.result"
        digests.append(result.attrs["source_digest"])
    assert len(digests[0]) == 64


def test_a_replaced_store_is_read_again(client: Client, tmp_path: Path) -> None:
    """Workers keep stores open between the tasks of a run, not between runs."""
    source, target = tmp_path / "scores.zarr", tmp_path / "result.zarr"
    for seed in (0, 1):
        ap.save_scores(pooled(seed=seed), source, overwrite=True)
        result = ap.run(source, target, workers=client, overwrite=True)
        assert_same_bits(result, ap.evaluate(pooled(seed=seed)))


def assert_does_not_open(target: Path) -> None:
    with pytest.raises(StoreError):
        ap.open_result(target)
    with pytest.raises(FileNotFoundError):
        xr.open_zarr(target)
    with pytest.raises(FileNotFoundError):
        xr.open_datatree(target, engine="zarr")


def test_bad_input_is_refused_before_anything_is_written(client: Client, tmp_path: Path) -> None:
    scores = pooled()
    scores["score"][3, 7] = np.nan
    ap.save_scores(scores, tmp_path / "scores.zarr")
    target = tmp_path / "result.zarr"
    with pytest.raises(MissingScoresError, match=r"model 'm3': 1"):
        ap.run(tmp_path / "scores.zarr", target, workers=client)
    for options in ({"estimator": "auc"}, {"ties": "mean"}, {"level": 2}, {"prevalence": 0}):
        with pytest.raises(InvalidInputError):
            ap.run(tmp_path / "scores.zarr", target, workers=client, missing="drop", **options)
    with pytest.raises(TypeError, match="nonsense"):
        ap.run(tmp_path / "scores.zarr", target, workers=client, nonsense=1)
    assert not target.exists()


@pytest.mark.parametrize("replacing", [False, True])
def test_a_failing_task_raises_and_leaves_no_result(client: Client, tmp_path: Path, replacing: bool) -> None:
    source, target = tmp_path / "scores.zarr", tmp_path / "result.zarr"
    if replacing:
        ap.save_scores(pooled(20), tmp_path / "good.zarr")
        ap.run(tmp_path / "good.zarr", target, workers=client)
    scores = pooled(20)
    scores["score"][13, 7] = np.nan
    ap.save_scores(scores, source)
    _forget_the_counts(source)
    with pytest.raises(MissingScoresError, match=r"NaN scores in 1 ranking \(model 'm13': 1\)"):
        ap.run(source, target, workers=client, overwrite=replacing)
    assert_does_not_open(target)
    assert_holds_no_futures(client)
    result = ap.run(source, target, workers=client, overwrite=True, missing="drop")
    assert_same_bits(result, ap.evaluate(scores, missing="drop"))


def _forget_the_counts(source: Path) -> None:
    """Take the counts of missing scores out of a store, so that only the tasks find them."""
    import json

    shutil.rmtree(source / "n_missing")
    root = json.loads((source / "zarr.json").read_text())
    del root["consolidated_metadata"]["metadata"]["n_missing"]
    del root["consolidated_metadata"]["crc32c_of_document"]  # as another program would
    (source / "zarr.json").write_text(json.dumps(root))


def test_zero_models(client: Client, tmp_path: Path) -> None:
    scores = pooled().isel(model=[])
    ap.save_scores(scores, tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client)
    assert_same_bits(result, ap.evaluate(scores))


def test_a_task_of_nans_only_is_a_result(client: Client, tmp_path: Path) -> None:
    scores = pooled()
    scores["label"][:] = 0
    ap.save_scores(scores, tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client)
    assert_same_bits(result, ap.evaluate(scores))
    assert result["estimate"].isnull().all()


def test_a_scheduler_by_its_address(client: Client, tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    address = client.scheduler.address
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=address)
    assert_same_bits(result, ap.evaluate(pooled()))
    assert client.submit(sum, [1, 2]).result() == 3  # the other client still works


def test_the_client_that_is_given_stays_open(client: Client, tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client)
    assert client.status == "running"
    assert_holds_no_futures(client)


def test_a_finished_run_cancels_nothing(client: Client, tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    with Client(client.scheduler.address, set_as_default=False) as other:
        ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=other)
        actions = [event["action"] for _, event in client.get_events(other.id)]
    assert "add-client" in actions
    assert "cancel" not in actions


def test_relative_paths(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers may have another working folder than the caller."""
    monkeypatch.chdir(tmp_path)
    ap.save_scores(pooled(), "scores.zarr")
    assert_same_bits(ap.run("scores.zarr", "result.zarr", workers=client), ap.evaluate(pooled()))
    assert (tmp_path / "result.zarr" / "zarr.json").exists()


@pytest.mark.slow
def test_a_cluster_started_for_the_run_gives_the_same_numbers(tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    for cluster in (1, 2):
        result = ap.run(tmp_path / "scores.zarr", tmp_path / f"result-{cluster}.zarr", workers=cluster)
        assert_same_bits(result, ap.evaluate(pooled()))


@pytest.mark.parametrize("place", ["the same", "inside", "around"])
def test_a_result_may_not_overlap_its_scores(client: Client, tmp_path: Path, place: str) -> None:
    source = tmp_path / "folder" / "scores.zarr"
    ap.save_scores(pooled(), source)
    target = {"the same": source, "inside": source / "result.zarr", "around": source.parent}[place]
    with pytest.raises(StoreError):
        ap.run(source, target, overwrite=True, workers=client)
    np.testing.assert_array_equal(ap.open_scores(source)["score"].values, pooled()["score"].values)


def test_more_workers_get_more_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a batch system come one by one, long after the first calls were submitted."""
    monkeypatch.setattr(submitting, "LEAST_IN_FLIGHT", 1)
    monkeypatch.setattr(submitting, "SECONDS_BETWEEN_COUNTS", 0)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        under_way = []
        for number, _ in submitting.as_they_finish(client, abs, [(-n,) for n in range(100)]):
            if number == 0:
                cluster.scale(3)
                client.wait_for_workers(3)
            under_way.append(len(client.futures))
    assert under_way[0] <= submitting.CALLS_PER_THREAD + 1
    assert 2 * submitting.CALLS_PER_THREAD < max(under_way) <= 3 * submitting.CALLS_PER_THREAD + 1
    assert len(under_way) == 100


def test_a_run_uses_only_the_client_it_is_given(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> Client:
        raise AssertionError("another client's loop would share a connection with this one's")

    monkeypatch.setattr("distributed.client.default_client", nobody)
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client)
    assert_same_bits(result, ap.evaluate(pooled()))


@pytest.mark.sparse
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"estimator": ["average_precision", "roc_area"], "interval": ["bootstrap", "bca"], "keep_replicates": True},
        {"interval": ["bca", "cross_validation"], "n_resamples": 20, "keep_replicates": True},
        {"missing": "drop", "over": "clusters", "interval": ["bootstrap"], "prevalence_design": "random"},
    ],
)
@pytest.mark.parametrize("layout", ["one query", "queries", "weighted", "no models"])
def test_a_described_result_has_the_variables_of_the_real_one(options, layout):
    rng = np.random.default_rng(5)
    scores = xr.Dataset(
        {
            "score": (("model", "query", "item"), rng.normal(size=(3, 4, 40))),
            "label": (("query", "item"), (rng.random((4, 40)) < 0.4).astype("i1")),
            "cluster": ("item", np.arange(40) % 8),
        },
        coords={"model": list("abc"), "query": list("wxyz")},
    )
    if layout == "one query":
        scores = scores.isel(query=0, drop=True)
    elif layout == "weighted":
        scores = scores.assign(weight=("item", rng.random(40)))
    elif layout == "no models":
        scores = scores.isel(model=slice(0))
    options = EvaluationOptions.of(**{"n_resamples": 20} | options)
    expected, described = evaluate_scores(scores, options), describe_scores(scores, options)
    assert described.attrs == expected.attrs
    assert list(described.variables) == list(expected.variables)
    for name, variable in expected.variables.items():
        assert described[name].dims == variable.dims
        assert described[name].shape == variable.shape
        assert described[name].dtype == variable.dtype
        assert described[name].attrs == variable.attrs
    assert all(described[name].identical(expected[name]) for name in expected.coords)


def _replace(place: Path, other: Path) -> None:
    ap.save_scores(ap.open_scores(other), place, overwrite=True)


def _copy_over(place: Path, other: Path) -> None:
    """Copy one file after the other, as rsync does; the root document comes last."""
    for file in sorted(path for path in other.rglob("*") if path.is_file()):
        shutil.copyfile(file, place / file.relative_to(other))


def _copy_chunks(place: Path, other: Path) -> None:
    shutil.copytree(other / "score" / "c", place / "score" / "c", dirs_exist_ok=True)


@pytest.mark.sparse
@pytest.mark.parametrize("is_listed", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("after", [1, pytest.param(-1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "replace", [_replace, *(pytest.param(copy, marks=pytest.mark.slow) for copy in (_copy_over, _copy_chunks))]
)
def test_scores_that_are_replaced_during_a_run_are_never_mixed(
    client: Client, tmp_path: Path, replace: Any, after: int, is_listed: bool
) -> None:
    place, other, target = tmp_path / "scores.zarr", tmp_path / "other.zarr", tmp_path / "result.zarr"
    for seed, store in enumerate((place, other)):
        ap.save_scores(pooled(16, 60, seed=seed), store, models_per_chunk=1)
        if not is_listed:  # as copies by other programs
            root = store / "zarr.json"
            root.write_bytes(without_list(root.read_bytes()))

    def meanwhile(event: Progress) -> None:
        if event.tasks_done == after % (event.tasks_total + 1):
            replace(place, other)

    if replace is _copy_chunks and after < 0:  # all had been read, and the store is damaged only since
        ap.run(place, target, workers=client, on_progress=meanwhile)
        assert_same_bits(ap.open_result(target), ap.evaluate(pooled(16, 60, seed=0)))
        return
    with pytest.raises((SourceChangedError, RunError), match="replaced") as caught:
        ap.run(place, target, workers=client, on_progress=meanwhile)
    assert replace is not _replace or "overwrite=True" in str(caught.value)
    assert_does_not_open(target)
    if replace is not _copy_chunks:
        with pytest.raises(StoreError, match="scores or labels are others"):
            ap.run(place, target, workers=client)
        result = ap.run(place, target, workers=client, overwrite=True)
        assert_same_bits(result, ap.evaluate(pooled(16, 60, seed=1)))


@pytest.mark.parametrize("from_the_start", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_ends_if_its_workers_stay_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_the_start: bool
) -> None:
    monkeypatch.setattr(submitting, "MILLISECONDS_BETWEEN_LOOKS", 100)
    ap.save_scores(pooled(50), tmp_path / "scores.zarr", models_per_chunk=1)
    with LocalCluster(n_workers=1, processes=False, memory_limit="2GiB", dashboard_address=":0") as cluster:
        (worker,) = cluster.workers.values()

        def fill(event: Progress | None = None) -> None:
            worker.memory_manager.memory_pause_fraction = 1e-6

        if from_the_start:
            fill()
        call = {"workers": cluster, "on_progress": fill, "patience": "1 s"}
        with pytest.raises(ClusterError, match=r"(?s)paused for 1 s.*worker 0: [\d,]+ of 2,048 MiB"):
            ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", **call)


def test_threads_without_work_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ap.save_scores(pooled(6), tmp_path / "scores.zarr", models_per_chunk=2)
    with LocalCluster(n_workers=1, threads_per_worker=5, processes=False, dashboard_address=":0") as cluster:
        ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=cluster, progress=True)
    assert "only 3 of 5 threads have work" in capsys.readouterr().err


@pytest.mark.parametrize(("held", "fits"), [(0, True), (300 << 20, False)])
def test_what_a_worker_holds_before_any_task_counts(tmp_path: Path, held: int, fits: bool) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    plan = plan_run(tmp_path / "scores.zarr")
    with nullcontext() if fits else pytest.raises(ChunkError, match=r"286 MiB .* holds 300 MiB before any task"):
        plan.check_memory(3e8, held)


def test_a_result_that_is_removed_during_a_run_is_not_said_to_be_another_runs(client: Client, tmp_path: Path) -> None:
    source, target = tmp_path / "scores.zarr", tmp_path / "result.zarr"
    ap.save_scores(pooled(40), source, models_per_chunk=1)
    with pytest.raises(OtherRunError, match="has been removed"):
        ap.run(source, target, workers=client, on_progress=lambda _: shutil.rmtree(target, ignore_errors=True))


@pytest.mark.parametrize("where", ["cluster", "here"])
def test_short_tasks_go_together_and_a_damaged_data_set_is_named(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr("aucpr_dask.runs.planning.BATCHES_OF_A_THREAD", 2)
    if where == "here":
        monkeypatch.setattr("aucpr_dask.workers.connecting.current_client", lambda: None)
        monkeypatch.setattr("aucpr_dask.runs.planning.Plan.is_small", True)
    tree = xr.DataTree.from_dict({f"d{i:02d}": pooled(2, 20, seed=i) for i in range(12)})
    source, result = tmp_path / "s.zarr", tmp_path / "r.zarr"
    ap.save_scores(tree, source)
    plan = plan_run(source)
    assert plan.batches(range(12), 2) == [list(range(at, at + 3)) for at in range(0, 12, 3)]
    chunk = next(path for path in (source / "d07" / "score" / "c").rglob("*") if path.is_file())
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    options: dict[str, Any] = {"workers": client if where == "cluster" else None}
    with pytest.raises(RunError, match="d07") as caught:
        ap.run(source, result, **options)
    assert "1 of 12 tasks failed" in str(caught.value)
    chunk.write_bytes(whole)
    seen: list[Progress] = []
    assert_same_bits(ap.run(source, result, on_progress=seen.append, **options), ap.evaluate(tree))
    assert len(seen) == 1  # the others were kept


def fail_once() -> None:
    """Let a worker lose its storage in the middle of its next task."""
    from aucpr_dask.runs import tasks

    evaluated = tasks._evaluated

    def lost(*arguments: Any) -> Any:
        tasks._evaluated = evaluated
        raise OSError("lost")

    tasks._evaluated = lost


def test_a_record_says_what_each_task_took(client: Client, tmp_path: Path) -> None:
    source, result, record = (tmp_path / name for name in ("scores.zarr", "result.zarr", "run.json"))
    ap.save_scores(pooled(n_models=8), source, models_per_chunk=2)
    client.run(fail_once)
    ap.run(source, result, workers=client, record=record)
    found = json.loads(record.read_text())
    assert found["outcome"] == "finished"
    assert found["client"]["numpy"] == np.__version__
    assert {frozenset(one) for one in found["workers"]} == {frozenset({"worker", *found["client"]})}
    tasks = found["tasks"]
    assert [task["what"] for task in tasks] == [f"model {i} to {i + 1}" for i in range(0, 8, 2)]
    assert 1 <= sum(task["retries"] for task in tasks) <= 2  # of two workers
    assert all(task["is_done"] and 0 < task["seconds"] < found["seconds"] for task in tasks)
    assert {task["worker"] for task in tasks} <= {worker["worker"] for worker in found["workers"]}

    ap.run(source, result, workers=client, record=record)  # nothing was left to do
    assert json.loads(record.read_text())["tasks"] == []
    with pytest.raises(StoreError, match="record of the run cannot be written"):
        ap.run(source, result, workers=client, record=tmp_path / "no such folder" / "run.json")


def test_a_record_says_why_a_run_ended(client: Client, tmp_path: Path) -> None:
    source = tmp_path / "scores.zarr"
    ap.save_scores(pooled(n_models=4), source, models_per_chunk=1)
    (source / "score" / "c" / "3" / "0").write_bytes(b"damaged")
    with pytest.raises(RunError, match="model 3 to 3"):
        ap.run(source, tmp_path / "result.zarr", workers=client, record=tmp_path / "run.json")
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["outcome"].startswith("RunError: ")
    assert [task["is_done"] for task in found["tasks"]] == [True, True, True, False]
