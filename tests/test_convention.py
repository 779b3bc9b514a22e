"""One word for a convention: trec_eval's numbers, and what an option next to it changes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import call, pooled
from distributed import Client

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError, MissingScoresError
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.schema import choices
from aucpr_dask.schema.options import CONVENTIONS, EvaluationOptions, takes
from aucpr_dask.scores.importing.trec import import_trec

# Topic q2 has no list, q3 no relevant document. Ties of q1 stand as d2, d10, d1 in descending byte order.
RUN = "q1 Q0 d2 1 0.5 a\nq1 Q0 d10 2 0.5 a\nq1 Q0 d1 3 0.5 a\nq3 Q0 w 1 1 a\nq4 Q0 x 1 1 a\n"
QRELS = "q1 0 d10 2\nq1 0 d7 1\nq2 0 z 1\nq3 0 w 0\nq4 0 x 1\n"
Q1, Q4 = (1 / 2) / 2, 1.0  # d10 is second of two relevant ones


@pytest.fixture(params=["per-run", "pooled"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "a.run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    import_trec(tmp_path / "a.run", tmp_path / "qrels", tmp_path / "scores.zarr", layout=request.param)
    return tmp_path / "scores.zarr"


@pytest.mark.sparse
@pytest.mark.parametrize(
    ("options", "areas"),
    [
        ({}, [Q1, 0, 0, Q4]),  # trec_eval -c
        ({"nothing_ranked": "drop"}, [Q1, np.nan, 0, Q4]),  # pytrec_eval, trec_eval without -c
        ({"no_positives": "drop"}, [Q1, 0, np.nan, Q4]),
        ({"positive_from": 2}, [1 / 2, 0, 0, 0]),
        ({"positive_from": 2, "no_positives": "drop"}, [1 / 2, np.nan, np.nan, np.nan]),
        ({"ties": "group"}, [1 / 3 / 2, 0, 0, Q4]),
    ],
)
def test_topics_count_as_in_trec_eval_unless_an_option_says_otherwise(
    store: Path, options: dict[str, Any], areas: list[float]
) -> None:
    scores = ap.open_scores(store).load()
    result = ap.evaluate(scores, convention="trec_eval", **options)
    np.testing.assert_allclose(result["estimate"].squeeze().values, areas, rtol=1e-15)
    mean = ap.aggregate(scores, convention="trec_eval", **options)
    np.testing.assert_allclose(mean["estimate"].item(), np.nanmean(areas), rtol=1e-15)
    assert mean["n_queries"].item() == np.isfinite(areas).sum()
    undefined = (result["n_positive"] == 0) | result["estimate"].isnull()
    assert result["interval"].where(undefined).isnull().all()


def test_replicates_count_like_estimates() -> None:
    score, label = [[[3.0, 2, 1, 0], [np.nan] * 4, [3, 2, 1, 0]]], [[1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    scores = xr.Dataset({"score": (("model", "query", "item"), score), "label": (("query", "item"), label)})
    options: dict[str, Any] = {"missing": "unretrieved", "keep_replicates": True, "n_resamples": 5}
    plain, ours = (
        ap.evaluate(scores, **options),
        ap.evaluate(scores, nothing_ranked="drop", no_positives="zero", **options),
    )
    np.testing.assert_array_equal(ours["replicate"].isel(query=0), plain["replicate"].isel(query=0))
    assert (plain["replicate"].isel(query=1) == 0).all()
    assert ours["replicate"].isel(query=1).isnull().all()
    assert plain["replicate"].isel(query=2).isnull().all()
    assert (ours["replicate"].isel(query=2) == 0).all()


def test_a_convention_is_resolved_once() -> None:
    assert EvaluationOptions.of(convention="scikit-learn") == EvaluationOptions()
    resolved = EvaluationOptions.of(convention="trec_eval", ties=None, missing="last")
    assert resolved == EvaluationOptions.of(**{**CONVENTIONS["trec_eval"], "missing": "last"})
    assert "convention" not in resolved.as_parameters()
    with pytest.raises(InvalidInputError, match=r"unknown convention[\s\S]*'scikit-learn', 'trec_eval'"):
        EvaluationOptions.of(convention="trec")


def test_arrays_follow_a_convention() -> None:
    assert ap.estimate([3.0, np.nan], [0, 2], convention="trec_eval", tie_order=[0, 1]) == 0
    assert ap.estimate([3.0, 1.0], [0, 0], convention="trec_eval", tie_order=[0, 1]) == 0
    assert np.isnan(ap.estimate([np.nan, np.nan], [0, 1], missing="unretrieved", nothing_ranked="drop"))


# Grades without a level


def test_grades_without_a_level_are_refused_before_anything_starts(store: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"grade[\s\S]*positive_from=1[\s\S]*convention='trec_eval'"):
        plan_run(store, missing="unretrieved")
    planned = call("plan", store, "--missing", "unretrieved")
    assert planned.exit_code == 2
    assert "--positive-from 1" in planned.stderr
    assert call("plan", store, "--convention", "trec_eval").exit_code == 0


@pytest.mark.parametrize("is_per_run", [False, True])
def test_grades_of_other_labels_are_refused_by_the_plan(tmp_path: Path, is_per_run: bool) -> None:
    scores = pooled(3, 20)
    label = scores["label"] * 3
    label = (label + 0 * scores["score"]).astype("int8").transpose(*scores["score"].dims) if is_per_run else label
    ap.save_scores(scores.assign(label=label), tmp_path / "scores.zarr")
    with pytest.raises(InvalidInputError, match="positive_from"):
        plan_run(tmp_path / "scores.zarr")
    assert plan_run(tmp_path / "scores.zarr", positive_from=2).n_rankings == 3


def test_a_failed_run_that_computed_nothing_does_not_block_the_corrected_one(client: Client, tmp_path: Path) -> None:
    scores, target = pooled(3, 20), tmp_path / "result.zarr"
    scores["score"][0, 0] = np.nan
    ap.save_scores(scores, tmp_path / "scores.zarr")
    with pytest.raises(MissingScoresError):  # in the tasks: counts of missing scores include unjudged items
        ap.run(tmp_path / "scores.zarr", target, workers=client, unjudged="drop")
    ledger = Ledger(str(target))
    assert ledger.state().plan is not None
    assert not ledger.done()
    result = ap.run(tmp_path / "scores.zarr", target, workers=client, unjudged="drop", missing="drop")
    xr.testing.assert_equal(result["estimate"], ap.evaluate(scores, missing="drop")["estimate"])


# A shared collection


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
def test_one_word_gives_the_official_means_of_a_track(real_data: Path, tmp_path: Path, level: int) -> None:
    folder = real_data / "trec-dl-2019-passage"
    store, result = tmp_path / "scores.zarr", tmp_path / "result.zarr"
    for words in (
        ("import", "trec", folder / "runs", store, "--qrels", folder / "qrels.dl19-passage.txt"),
        ("evaluate", store, result, "--convention", "trec_eval", "--positive-from", level, "--workers", 1),
    ):
        outcome = call(*words)
        assert outcome.exit_code == 0, outcome.output
    areas = ap.open_result(result)["estimate"].to_series()
    topics = pd.read_csv(folder / "expected_ap_by_topic.csv.gz", dtype={"topic": str}).set_index(["run", "topic"])
    expected = topics[f"ap_rel{level}"].rename_axis(["model", "query"])
    assert len(expected) == areas.size == 61 * 43
    assert (areas - expected).abs().max() < 1e-6
    means = pd.read_csv(folder / "expected_map.csv").set_index("run")
    told = call("aggregate", result, "--json")
    assert told.exit_code == 0, told.output
    received = pd.DataFrame(json.loads(told.stdout)["rankings"][0]["models"]).set_index("model")
    official = means[f"nist_map_rel{level}"].dropna()
    assert len(official) == 37
    assert (received.loc[official.index, "estimate"].round(4) == official).all()


def test_a_forgotten_store_is_noticed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "b.run").write_text(RUN)
    outcome = call("import", "trec", tmp_path / "a.run", tmp_path / "b.run", "--qrels", tmp_path / "qrels")
    assert outcome.exit_code == 2
    assert "the last argument names the store to write, and this is a file" in outcome.stderr
    assert f"{tmp_path / 'b.run'} scores.zarr" in outcome.stderr
    assert (tmp_path / "b.run").read_text() == RUN


class Some(TypedDict, total=False):
    missing: choices.Missing | None
    ties: choices.Ties | None
    convention: choices.Convention | None


@takes(Some)
def resolved(score: object, **reading: Unpack[Some]) -> EvaluationOptions:
    """Return the options that this call means."""
    return EvaluationOptions.of(**reading)


def test_a_signature_shows_the_options_that_a_function_takes() -> None:
    assert str(inspect.signature(resolved)).startswith("(score: 'object', *, missing: ")
    assert {name: one.default for name, one in inspect.signature(resolved).parameters.items() if name != "score"} == {
        "missing": None,
        "ties": None,
        "convention": None,
    }
    assert resolved(0, convention="trec_eval", missing="last").missing == "last"
    assert (resolved.__name__, resolved.__doc__) == ("resolved", "Return the options that this call means.")
    for wrong in ("positive_from", "colour"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{wrong}'"):
            resolved(0, **{wrong: 1})
