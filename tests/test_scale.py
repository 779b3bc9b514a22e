"""Plans, tasks and memory stay small, however large the store."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from test_run import assert_same_bits

import aucpr_dask as ap
from aucpr_dask.errors import MissingScoresError
from aucpr_dask.runs import planning, tasks
from aucpr_dask.runs.planning import MOST_TASKS, Task, describe, plan_run
from aucpr_dask.runs.submitting import CALLS_PER_THREAD, LEAST_IN_FLIGHT, as_they_finish
from aucpr_dask.schema.terms import nodes_of
from aucpr_dask.scores.store import ScoreWriter

OPTIONS: dict[str, Any] = {"interval": ["logit", "bootstrap"], "n_resamples": 20, "keep_replicates": True}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def described(place: Path, n_models: int, n_queries: int, n_items: int) -> Path:
    """Write a score store without chunks: only its metadata."""
    score = da.empty((n_models, n_queries, n_items), dtype="float32", chunks=-1)
    label = np.tile((np.arange(n_items) % 10 == 0).astype("int8"), (n_queries, 1))
    names = {"model": np.arange(n_models), "query": np.arange(n_queries)}
    template = xr.Dataset({"score": (("model", "query", "item"), score), "label": (("query", "item"), label)}, names)
    with pytest.MonkeyPatch.context() as patch:  # the list of checksums needs the chunks
        patch.setattr("aucpr_dask.storage.stores.with_list", lambda backend, root, *given, **options: root)
        ScoreWriter(place, template).commit()
    return place


def assert_tiles(tasks: list[Task], sizes: dict[str, int]) -> None:
    """Check that tasks are a grid that covers everything once."""
    ranges = [sorted({task.region[axis][1:] for task in tasks}) for axis in range(len(sizes))]
    for one, size in zip(ranges, sizes.values(), strict=True):
        edges = [0, *(stop for _, stop in one)]
        assert one == list(itertools.pairwise(edges))
        assert edges[-1] == size
    assert len({task.region for task in tasks}) == len(tasks) == math.prod(map(len, ranges))


# The plan


@pytest.mark.parametrize(
    ("n_models", "n_queries", "n_items"),
    [
        (20_000, 100, 1000),
        pytest.param(10**5, 10**3, 1000, marks=(pytest.mark.slow, pytest.mark.nightly)),
        pytest.param(10**5, 10**3, 100_000, marks=pytest.mark.slow),
    ],
)
def test_a_plan_of_any_size_takes_seconds_and_few_tasks(
    tmp_path: Path, n_models: int, n_queries: int, n_items: int
) -> None:
    place = described(tmp_path / "scores.zarr", n_models, n_queries, n_items)
    started = time.process_time()
    plan = plan_run(place)
    assert time.process_time() - started < 20  # 1 to 2 on an idle core; it took 20, and more than 250, before
    assert len(plan.tasks) <= MOST_TASKS < 10**5
    assert plan.n_rankings == n_models * n_queries
    assert_tiles(list(plan.tasks), {"model": n_models, "query": n_queries})
    assert plan.largest < 2**28
    smallest = min(
        math.prod(v.encoding["chunks"]) * v.dtype.itemsize for v in plan.template.data_vars.values() if v.ndim > 1
    )
    assert smallest >= 4000, "results would lie in tiny files"


def test_many_chunks_are_taken_together_along_the_queries_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 2000)
    place = described(tmp_path / "scores.zarr", 12, 17, 100)  # chunks of 1 x 5: 4 x 12 of them
    whole = plan_run(place)
    assert len(whole.tasks) == 48
    assert all(task.parts() == [task] for task in whole.tasks)
    for most, shape in [(48, (1, 5)), (30, (1, 10)), (12, (1, 17)), (5, (4, 17)), (1, (12, 17))]:
        monkeypatch.setattr("aucpr_dask.runs.planning.MOST_TASKS", most)
        plan = plan_run(place)
        assert tuple(plan.tasks[0].sizes.values()) == shape
        assert len(plan.tasks) <= most
        assert_tiles(list(plan.tasks), {"model": 12, "query": 17})
        assert_tiles([part for task in plan.tasks for part in task.parts()], {"model": 12, "query": 17})
        assert {tuple(part.sizes.values()) for task in plan.tasks for part in task.parts()} == {(1, 5), (1, 2)}
        assert plan.template["n_positive"].encoding["chunks"] == shape
        extra = plan.largest - whole.largest
        assert extra <= plan.result_bytes, "of the scores, memory holds one part at a time"


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=2),
)
def test_parts_tile_their_task(dims: list[tuple[int, int, int]]) -> None:
    region = tuple((f"dim{i}", start, start + length) for i, (start, length, _) in enumerate(dims))
    task = Task("a", region, tuple(step for _, _, step in dims))
    covered = np.zeros(tuple(task.sizes.values()), int)
    for part in task.parts():
        covered[tuple(task.place_of(part).values())] += 1
        assert all(size <= step for size, (_, _, step) in zip(part.sizes.values(), dims, strict=True))
    assert (covered == 1).all()
    assert sum(part.n_rankings for part in task.parts()) == task.n_rankings


def test_more_data_sets_than_tasks_are_still_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No task holds two data sets, so each data set takes one."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 300)
    monkeypatch.setattr("aucpr_dask.runs.planning.MOST_TASKS", 2)
    ap.save_scores(xr.DataTree.from_dict({f"set{i}": pooled(6, 40) for i in range(4)}), tmp_path / "scores.zarr")
    plan = plan_run(tmp_path / "scores.zarr")
    assert [task.path for task in plan.tasks] == [f"set{i}" for i in range(4)]


def test_counts_of_missing_scores_too_many_for_memory_are_still_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = queried(6, 4, 30)
    for name, data in (("whole", scores), ("holed", scores.assign(score=scores["score"].where(scores["score"] > -1)))):
        ap.save_scores(data, tmp_path / name)
    monkeypatch.setattr("aucpr_dask.scores.store.MOST_LOADED", 0)
    opened = ap.open_scores(tmp_path / "whole")
    assert opened["n_missing"].chunks is not None
    assert plan_run(tmp_path / "whole").n_rankings == 24
    with pytest.raises(MissingScoresError, match=r"NaN scores in .* rankings, most in"):
        plan_run(tmp_path / "holed")


# Tasks of many chunks


@pytest.mark.sparse
@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3, 7])
@pytest.mark.parametrize("make", [lambda: pooled(23, 60), lambda: queried(7, 5, 40)])
def test_tasks_of_many_chunks_give_the_same_numbers(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, most: int
) -> None:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 700)
    monkeypatch.setattr("aucpr_dask.runs.planning.MOST_TASKS", most)
    scores = make()
    ap.save_scores(scores, tmp_path / "scores.zarr")
    plan = plan_run(tmp_path / "scores.zarr", **OPTIONS)
    assert len(plan.tasks) <= most
    assert max(len(task.parts()) for task in plan.tasks) > 1
    assert "tasks" in describe(plan)
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=client, **OPTIONS)
    assert_same_bits(result, ap.evaluate(scores, **OPTIONS))
    chunks = list((tmp_path / "result.zarr" / "estimate").glob("c.*"))
    assert len(chunks) == len(plan.tasks)


@pytest.mark.sparse
@pytest.mark.parametrize("of_part", [0.0, 0.02])
@pytest.mark.parametrize(
    ("of_each", "tried"),
    [(0.01, [1, 1, 4, 11, 44, 55]), (0.1, [1, 1, 4, 11]), (0.4, [1, 1, 4]), (1.5, [1, 1]), (60.0, [1, 1])],
)
def test_a_plan_tries_as_many_rankings_as_a_moment_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_each: float, of_part: float, tried: list[int]
) -> None:
    small = queried(11, 5, 10)
    ap.save_scores(xr.DataTree.from_dict({"small": small, "large": queried(11, 5, 40)}), tmp_path / "scores.zarr")
    plan = plan_run(tmp_path / "scores.zarr")
    sizes: list[int] = []
    now = 0.0

    def evaluate_part(scores: xr.Dataset, *_: Any, **__: Any) -> None:
        nonlocal now
        n_rankings = scores.sizes["model"] * scores.sizes["query"]
        if scores.sizes["item"] == 40:
            sizes.append(n_rankings)
        now += n_rankings * of_each * scores.sizes["item"] / 40 + of_part

    monkeypatch.setattr(planning, "evaluate_part", evaluate_part)
    monkeypatch.setattr(planning, "time", SimpleNamespace(perf_counter=lambda: now, process_time=lambda: now))
    opened = dict(nodes_of(ap.open_scores(tmp_path / "scores.zarr")))
    said = planning._seconds_on_one_core(plan, opened, is_there=True)
    assert sizes == tried
    if len(tried) > 2:  # the small rankings have a quarter of the items
        assert said == pytest.approx(55 * 1.25 * of_each + 2 * of_part)
    else:
        assert said == pytest.approx(55 * 1.25 * (of_each + of_part))


# The tree, the scheduler


def test_a_process_opens_a_tree_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = xr.DataTree.from_dict({f"set{i:02d}": pooled(2, 30, seed=i) for i in range(12)})
    ap.save_scores(tree, tmp_path / "scores.zarr")
    opened: list[Any] = []
    real = tasks.reader_of
    monkeypatch.setattr(tasks, "reader_of", lambda url, layout: opened.append(url) or real(url, layout))
    for path, node in nodes_of(tree):
        reader = tasks._opened_once(str(tmp_path / "scores.zarr"), None, "this run")
        ours = tasks._data_set(reader, path, ())
        np.testing.assert_array_equal(ours["score"].values, node["score"].values)
        np.testing.assert_array_equal(ours["label"].values, node["label"].values)
    assert len(opened) == 1


def task_names(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def process_of(number: int, *arguments: Any) -> int:
    return os.getpid()


@pytest.mark.slow
def test_the_scheduler_never_knows_more_tasks_than_the_window_holds(client: Client) -> None:
    window = max(LEAST_IN_FLIGHT, CALLS_PER_THREAD * sum(client.nthreads().values()))
    calls = [(number, Task("", (("model", number, number + 1),)), "more") for number in range(5 * window)]
    seen: list[int] = []
    finished: list[int] = []
    for number, pid in as_they_finish(client, process_of, calls):
        assert pid != os.getpid()
        finished.append(number)
        if len(finished) % 10 == 0:
            seen.append(client.run_on_scheduler(task_names))
    assert sorted(finished) == list(range(len(calls)))
    # Tasks that are done may still be known for a moment.
    assert window // 2 <= max(seen) <= window + 10


SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "few large rankings": (lambda: pooled(8, 300_000), {}),
    "many small data sets": (lambda: xr.DataTree.from_dict({f"set{i}": pooled(5, 300) for i in range(30)}), {}),
    "bootstrap": (lambda: pooled(20, 20_000), {"interval": "bootstrap", "n_resamples": 3000}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_the_planned_time_is_near_the_actual_one(client: Client, tmp_path: Path, name: str) -> None:
    make, options = SHAPES[name]
    source, record = tmp_path / "scores.zarr", tmp_path / "run.json"
    ap.save_scores(make(), source)
    ap.run(source, tmp_path / "warm.zarr", workers=client, **options)  # loads kernels
    ratios = []
    for number in range(3):  # the middle one: a moment in which others compute spoils one of them
        planned = float(describe(plan_run(source, **options))["time"].split()[1])
        started = time.process_time()
        ap.run(source, tmp_path / f"result{number}.zarr", workers=client, record=record, **options)
        tasks = json.loads(record.read_text())["tasks"]
        taken = time.process_time() - started + sum(task["cpu_seconds"] for task in tasks)
        ratios.append(planned / taken)
    assert 1 / 3 < sorted(ratios)[1] < 3, ratios  # a factor of two on a machine that does nothing else
