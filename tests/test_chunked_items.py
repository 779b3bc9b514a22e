"""Rankings whose items are in several chunks: lazy, and bit-identical to whole ones."""

import re
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from conftest import few, pooled, queried
from hypothesis import given
from hypothesis import strategies as st
from strategies import cases, chunkings

import aucpr_dask as ap
from aucpr_dask.errors import ChunkError, InvalidInputError, MissingScoresError
from aucpr_dask.evaluation import block_results, mapping
from aucpr_dask.evaluation import chunk_passes as chunked_blocks
from aucpr_dask.evaluation.mapping import WHOLE_ONLY
from aucpr_dask.schema.estimators import ESTIMATORS, usage

EVERY = [
    usage(spec).replace("RECALL", "0.4").replace("PRECISION", "0.3").replace("(K)", "(3)")
    for spec in ESTIMATORS.values()
    if spec.name not in WHOLE_ONLY
]
PARTIAL = [name for name in EVERY if ESTIMATORS[name.partition("(")[0]].partial]
INTERVALS = ["logit", "wilson", "clopper_pearson", "influence_beta", "influence_logit_t"]


@pytest.fixture(autouse=True, scope="module")
def two_passes() -> Any:
    """Evaluate small rankings as large ones, unless a test says otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapping, "WORTH_TWO_PASSES", 0)
        yield


def forbidden(*arguments: Any, **options: Any) -> None:
    raise AssertionError("computed while the graph was built")


def lazily(function: Any, *arguments: Any, **options: Any) -> Any:
    with dask.config.set(scheduler=forbidden):
        lazy = function(*arguments, **options)
    return lazy.compute(scheduler="synchronous")


def same_bits(first: Any, second: Any) -> bool:
    first, second = np.asarray(first), np.asarray(second)
    return first.shape == second.shape and first.tobytes() == second.tobytes()


@st.composite
def chunked_cases(draw: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, da.Array, da.Array]:
    """Draw rankings in memory, and the same in chunks of items and models; labels in others than scores."""
    case = draw(cases(labels=(-2, -1, 0, 1), missing=True, **options))
    n_models, n_items = case.score.shape
    models = draw(chunkings(n_models))
    score = da.from_array(case.score, chunks=(models, draw(chunkings(n_items))))
    shared = draw(st.booleans())
    label = case.label if shared else np.stack([np.roll(case.label, i) for i in range(n_models)])
    chunks = (draw(chunkings(n_items)),) if shared else (models, draw(chunkings(n_items)))
    return case.score, label, score, da.from_array(label, chunks=chunks)


options = st.fixed_dictionaries(
    {
        "missing": st.sampled_from(["drop", "last", "unretrieved"]),
        "unjudged": st.sampled_from(["negative", "drop"]),
        "prevalence": st.sampled_from([None, 0.01, 0.5]),
    }
)


def known_with(options: dict[str, Any]) -> list[str]:
    """Leave out the first k items at another prevalence, where they have no meaning."""
    return [name for name in EVERY if options.get("prevalence") is None or not name.endswith("(3)")]


@few
@given(chunked_cases(), options)
def test_every_estimator_is_bit_identical_to_whole_rankings(case: Any, options: dict[str, Any]) -> None:
    score, label, lazy_score, lazy_label = case
    names = known_with(options)
    found = lazily(ap.estimate, lazy_score, lazy_label, names, **options)
    assert same_bits(found, ap.estimate(score, label, names, **options))


@few
@given(chunked_cases(), options, st.booleans())
def test_small_rankings_have_the_same_bits(case: Any, options: dict[str, Any], expect_ties: bool) -> None:
    score, label, lazy_score, lazy_label = case
    if expect_ties:
        options |= {"ties": "expectation", "prevalence": None}
    names = "average_precision" if expect_ties else known_with(options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapping, "WORTH_TWO_PASSES", 1 << 24)
        found = lazily(ap.estimate, lazy_score, lazy_label, names, **options)
    assert same_bits(found, ap.estimate(score, label, names, **options))


@few
@given(chunked_cases(), st.sampled_from([(0.0, 0.5), (0.25, 1.0), (0.1, 0.3)]))
def test_ranges_of_recall(case: Any, recall_range: tuple[float, float]) -> None:
    score, label, lazy_score, lazy_label = case
    how = {"missing": "last", "recall_range": recall_range}
    found = ap.estimate(lazy_score, lazy_label, PARTIAL, **how)
    assert same_bits(found.compute(scheduler="synchronous"), ap.estimate(score, label, PARTIAL, **how))


@few
@given(chunked_cases(), st.integers(0, 3))
def test_ties_in_expectation_and_unseen_positives(case: Any, n_unseen: int) -> None:
    score, label, lazy_score, lazy_label = case
    n_positive = (label == 1).sum(-1) + n_unseen
    how = {"missing": "unretrieved", "ties": "expectation"}
    lazy_n = da.from_array(n_positive, chunks=lazy_label.chunks[:-1])
    found = lazily(ap.estimate, lazy_score, lazy_label, n_positive=lazy_n, **how)
    assert same_bits(found, ap.estimate(score, label, n_positive=n_positive, **how))


@few
@given(cases(labels=(0, 1, 2, 3), missing=True), st.data())
def test_grades(case: Any, data: Any) -> None:
    chunks = (-1, data.draw(chunkings(case.label.size)))
    grades = {"positive_from": data.draw(st.integers(1, 3)), "missing": "last"}
    found = ap.estimate(da.from_array(case.score, chunks=chunks), case.label, **grades)
    assert same_bits(np.asarray(found), ap.estimate(case.score, case.label, **grades))


@pytest.mark.parametrize(("share", "kind"), [(0.01, np.float32), (0.3, np.float64), (1.0, np.float32)])
def test_long_rankings(share: float, kind: type) -> None:
    random = np.random.default_rng(1)
    label = (random.random(20_000) < share).astype(np.int8)
    score = (random.standard_normal((2, label.size)) + label).astype(kind)
    score[1] = score[1].round(1)
    score[0, :4] = np.inf, -np.inf, np.inf, -0.0
    expected = ap.estimate(score, label, EVERY)
    for size in (3_000, 7_001, 19_999):
        found = ap.estimate(da.from_array(score, chunks=(1, size)), da.from_array(label, chunks=4_000), EVERY)
        assert same_bits(found.compute(), expected)


@pytest.mark.parametrize("n_chunks", [1, 7])
def test_every_variable_of_an_evaluation(n_chunks: int) -> None:
    for scores, lead in ((pooled(), {"model": 2}), (queried(), {"model": 3, "query": 2})):
        holed = scores.copy(deep=True)
        holed["score"][..., 3] = np.nan
        chunked = holed.chunk(lead | {"item": -(-holed.sizes["item"] // n_chunks)})
        how = {"interval": INTERVALS, "missing": "last", "prevalence_design": "random"}
        result = lazily(ap.evaluate, chunked, ["average_precision", "roc_area"], **how)
        xr.testing.assert_identical(result, ap.evaluate(holed, ["average_precision", "roc_area"], **how))


@pytest.mark.smoke
def test_flags_are_those_of_whole_rankings() -> None:
    label = np.array([1, 0, 0, 1, 0, 0], dtype=np.int8)
    score = np.array([[1, 0, 0, 0, 1, 0], [2, 2, 2, 2, 2, 2], [3, 1, 2, 1, 1, 2], [np.nan] * 6])
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})
    result = ap.evaluate(scores, missing="drop")
    found = lazily(ap.evaluate, scores.chunk({"item": 1}), missing="drop")
    assert result["flags"].values.tolist() == found["flags"].values.tolist()
    assert len(set(result["flags"].values.tolist())) == 4, "the models differ in what is to be flagged"


def test_labelled_scores_and_an_item_dimension_of_another_name() -> None:
    scores = queried().rename(item="document")
    how = {"dim": "document", "missing": "drop"}
    found = lazily(ap.estimate, scores["score"].chunk({"document": 4}), scores["label"], **how)
    xr.testing.assert_identical(found, ap.estimate(scores["score"], scores["label"], **how))


def test_positives_counted_in_more_than_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    score, label = np.arange(6.0), np.array([0, 1, 0, 1, 1, 0])
    lazy = da.from_array(score, chunks=2)
    n_positive = np.array([3, 5])
    found = ap.estimate(lazy, label, n_positive=n_positive).compute()
    assert same_bits(found, ap.estimate(score, label, n_positive=n_positive))
    with pytest.raises(InvalidInputError, match="n_positive is less"):
        ap.estimate(lazy, label, n_positive=2).compute()


def test_bad_data_are_refused_before_the_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_blocks, "_sum_of", forbidden)
    scores = pooled()
    scores["score"][3, 5:7] = np.nan
    with pytest.raises(MissingScoresError, match="model 'm3': 2"):
        ap.evaluate(scores.chunk({"item": 20})).compute(scheduler="synchronous")
    with pytest.raises(InvalidInputError, match="outside their domain"):
        ap.estimate(da.arange(6.0, chunks=3), da.full(6, 3, chunks=3)).compute(scheduler="synchronous")


CHUNKED = pooled().chunk({"item": 20})
FOLDS = CHUNKED.assign(fold=("item", np.arange(60) % 3))
GROUPS = CHUNKED.assign(cluster=("item", np.arange(60) // 2))
WEIGHTED = CHUNKED.assign(weight=("item", 1.0 + np.arange(60) % 3 / 7)).chunk({"item": 20})
SOFT = CHUNKED.drop_vars("label").assign(
    positive_weight=("item", np.arange(60) % 4 / 3), negative_weight=("item", 1 - np.arange(60) % 4 / 3)
)


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        (CHUNKED, {"estimator": ["interpolated_mean", "interpolated_median", "binormal", "roc_area"]}),
        (CHUNKED, {"interval": ["bootstrap", "influence_beta"]}),
        (CHUNKED, {"keep_replicates": True}),
        (CHUNKED, {"estimator": "precision_at(3)"}),  # whose default interval draws
        (CHUNKED, {"interval": "cross_validation"}),
        (FOLDS, {"interval": "cross_validation"}),
        (GROUPS, {"interval": "influence_logit_t", "over": "clusters"}),
        (GROUPS, {}),
        (CHUNKED, {"ties": "trec_eval"}),
        (WEIGHTED, {}),
        (WEIGHTED, {"interval": ["influence_beta", "bootstrap"]}),
        (WEIGHTED, {"prevalence": 0.1}),
        (SOFT, {"interval": "influence_beta"}),
    ],
)
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_what_counts_do_not_tell_is_found_from_gathered_rankings(scores: xr.Dataset, options: dict[str, Any]) -> None:
    found = lazily(ap.evaluate, scores, n_resamples=20, **options)
    xr.testing.assert_identical(found, ap.evaluate(scores.compute(), n_resamples=20, **options))


@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_large_rankings_are_gathered_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, ...]] = []
    evaluate_block = block_results.evaluate_block

    def watched(*arrays: Any, **options: Any) -> Any:
        sizes.append(arrays[0].shape)
        return evaluate_block(*arrays, **options)

    monkeypatch.setattr(block_results, "evaluate_block", watched)
    with dask.config.set({"array.chunk-size": "1kiB"}):  # two rankings of 60 float64
        found = lazily(ap.evaluate, WEIGHTED.chunk(model=-1))
    assert sorted({size for size in sizes if 0 not in size}) == [(1, 60), (2, 60)]
    xr.testing.assert_identical(found, ap.evaluate(WEIGHTED.compute()))


CLUSTERED = pooled(3, 60).assign(weight=("item", 1.0 + np.arange(60) % 3), cluster=("item", np.arange(60) // 2))
QUESTIONS: dict[str, Any] = {
    "compare": lambda scores: ap.compare(scores, "m0"),
    "rank": ap.rank,
    "covariance": ap.covariance,
    "curve": lambda scores: ap.curve(scores["score"], scores["label"], grid=[0.2, 0.5]).to_dataset(name="curve"),
    "curve_bands": lambda scores: ap.curve_bands(scores["score"], scores["label"], grid=[0.5], n_resamples=20),
    "chance": lambda scores: ap.chance(scores["score"], scores["label"]),
    "confusion": lambda scores: ap.confusion(scores["score"], scores["label"], [0.0, 0.5]),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.FewPositivesWarning")
def test_questions_about_whole_rankings_gather_them(question: str) -> None:
    ask = QUESTIONS[question]
    xr.testing.assert_equal(ask(CLUSTERED.chunk(item=7, model=2)).compute(), ask(CLUSTERED))


def test_too_many_scores_of_positives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_blocks, "MOST_SCORES", 5)
    score, label = da.arange(20.0, chunks=5), da.ones(20, dtype="i1", chunks=5)
    with pytest.raises(ChunkError, match="Accumulator"):
        ap.estimate(score, label).compute(scheduler="synchronous")
    assert ap.estimate(score // 5, label).compute(scheduler="synchronous") == 1.0, "ties are one score"


def test_the_second_pass_reads_again_instead_of_keeping_what_the_first_one_read() -> None:
    n_chunks = 12
    read: list[int] = []
    score = da.map_blocks(remember, da.arange(n_chunks, chunks=1), read, dtype=float, chunks=((10,) * n_chunks,))
    label = da.from_array(np.tile([0, 1], 5 * n_chunks), chunks=10)
    read.clear()
    ap.estimate(score, label).compute(scheduler="synchronous")
    assert sorted(read) == sorted([*range(n_chunks), *range(n_chunks)])
    assert set(read[:n_chunks]) == set(range(n_chunks))


def test_small_rankings_are_read_once() -> None:
    read: list[int] = []
    score = da.map_blocks(remember, da.arange(12, chunks=1), read, dtype=float, chunks=((10,) * 12,))
    label = np.tile([0, 1], 60)
    found = []
    for most in (960, 961):  # bytes
        read.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mapping, "WORTH_TWO_PASSES", most)
            found.append(ap.estimate(score, label).compute(scheduler="synchronous"))
        assert len(read) == (24 if most == 960 else 12)
    assert same_bits(found[0], found[1])


def remember(number: np.ndarray, read: list[int]) -> np.ndarray:
    read.extend(number.tolist())
    return np.arange(10.0) * (1 + number)


def test_counts_add_up_in_a_type_that_holds_them() -> None:
    parts = [(np.array([200, 0], np.uint8),), (np.array([100, 3], np.uint8),), (np.array([2**32 - 1, 0], np.uint32),)]
    (total,) = chunked_blocks.add_tallies(parts)
    assert total.tolist() == [2**32 + 299, 3]
    from aucpr_dask.kernels.chunked_items import merge_scores

    scores = np.array([1.0, np.inf], np.float32)
    _, times = merge_scores(scores, np.array([2**32 - 1], np.uint32), scores, np.array([5], np.uint32))
    assert times.tolist() == [2**32 + 4]


def test_data_between_tasks_report_their_size() -> None:
    from dask.sizeof import sizeof

    part = chunked_blocks.collect_positives(np.arange(1000.0), np.ones(1000, "i1"), options=OPTIONS)
    assert 8_000 < sizeof(part) < 20_000


OPTIONS = chunked_blocks.EvaluationOptions()


# Stores


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk is so small that one ranking is larger."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 200)


@pytest.mark.parametrize(("make", "chunks"), [(pooled, {"item": 17}), (queried, {"model": 2, "query": 1, "item": 13})])
def test_a_store_keeps_chunks_of_items(make: Any, chunks: dict[str, int], small_chunks: None, tmp_path: Path) -> None:
    scores = make()
    holed = scores.assign(score=scores["score"].where(scores["score"] < 1.4))
    ap.save_scores(holed.chunk(chunks), tmp_path / "scores.zarr")
    opened = ap.open_scores(tmp_path / "scores.zarr")
    assert opened["score"].chunksizes["item"] == opened["label"].chunksizes["item"]
    assert opened["score"].chunksizes["item"][0] == chunks["item"]
    missing = (holed["score"].isnull() & (holed["label"] != -2)).sum("item")
    xr.testing.assert_equal(opened["n_missing"], missing)
    xr.testing.assert_equal(opened[["score", "label"]].compute(), holed)
    how = {"interval": INTERVALS, "missing": "drop"}
    xr.testing.assert_equal(lazily(ap.evaluate, opened, **how), ap.evaluate(holed, **how))


def test_digests_distinguish_rankings_in_chunks(small_chunks: None, tmp_path: Path) -> None:
    from aucpr_dask.scores.store import open_unread, stored_digests

    def digests(scores: xr.Dataset, name: str) -> np.ndarray:
        ap.save_scores(scores.chunk({"item": 20}), tmp_path / name)
        return stored_digests(open_unread(tmp_path / name))[""]

    scores = pooled()
    swapped = scores.copy(deep=True)
    swapped["score"][1] = np.roll(scores["score"][1], 20)  # the same chunks of scores in another order
    first, again, other = digests(scores, "a"), digests(scores, "b"), digests(swapped, "c")
    assert np.array_equal(first, again)
    assert (first != other).tolist() == [False, True, False, False, False]


def test_a_ranking_that_fits_is_stored_whole(tmp_path: Path) -> None:
    ap.save_scores(pooled().chunk({"item": 7}), tmp_path / "scores.zarr")
    opened = ap.open_scores(tmp_path / "scores.zarr")
    assert opened["score"].chunksizes["item"] == (60,)
    xr.testing.assert_equal(opened[["score", "label"]].compute(), pooled())


def test_a_run_evaluates_such_a_store_chunk_after_chunk(small_chunks: None, tmp_path: Path) -> None:
    from distributed import Client

    scores = pooled()
    ap.save_scores(scores.chunk({"item": 17}), tmp_path / "scores.zarr")
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        for name, interval in (("influence", INTERVALS), ("bootstrap", "bootstrap")):
            result = ap.run(tmp_path / "scores.zarr", tmp_path / name, interval=interval, workers=client)
            xr.testing.assert_equal(result.load(), ap.evaluate(scores, interval=interval))


def test_a_run_plans_to_hold_what_it_gathers(small_chunks: None, tmp_path: Path) -> None:
    from aucpr_dask.runs.planning import plan_run

    scores = pooled(1, 1000).chunk({"item": 250})
    for name, one in {"plain": scores, "weighted": scores.assign(weight=scores["label"] + 1.0)}.items():
        ap.save_scores(one, tmp_path / name)
    plain, drawn = (max(plan_run(tmp_path / "plain", **of).task_bytes) for of in ({}, {"ties": "trec_eval"}))
    assert drawn > plain + 64 * 900
    assert max(plan_run(tmp_path / "weighted").task_bytes) > plain + 64 * 900


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[1] / "docs" / "items-in-chunks.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    exec(compile(code.replace("_000_000", "_000"), "items-in-chunks.md", "exec"), {})
    assert 0.5 < float(capsys.readouterr().out) < 1


@pytest.mark.slow
def test_workers_do_not_hold_the_ranking() -> None:
    """Positives are sent, scores are not: a worker's memory grows by less than the size of the ranking."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        ap.estimate(*drawn(2)).compute()
        before = client.run(peak_bytes)
        score, label = drawn(30)
        area = ap.estimate(score, label).compute()
        after = client.run(peak_bytes)
    assert area == ap.estimate(score.compute(), label.compute())
    assert max(after[worker] - before[worker] for worker in before) < 0.5 * (score.nbytes + label.nbytes)


def drawn(n_chunks: int) -> list[da.Array]:
    """Return a ranking of `n_chunks` million items that is drawn chunk by chunk, each time it is read."""
    numbers, chunks = da.arange(n_chunks, chunks=1), ((1_000_000,) * n_chunks,)
    kinds = {"score": np.float32, "label": np.int8}
    return [
        da.map_blocks(draw, numbers, which, dtype=kind, chunks=chunks, meta=np.empty(0, kind))
        for which, kind in kinds.items()
    ]


def draw(number: np.ndarray, which: str) -> np.ndarray:
    random = np.random.Generator(np.random.Philox(key=int(number[0])))
    label = (random.random(1_000_000, dtype=np.float32) < 0.01).astype(np.int8)
    return label if which == "label" else random.standard_normal(label.size, dtype=np.float32) + label


def peak_bytes() -> int:
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
