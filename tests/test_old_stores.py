"""Results written by version 0.1, finished and interrupted ones, are opened, resumed and extended.

``data/version_0.1.tar.xz`` holds stores that version 0.1.0 wrote in the folder ``/data``: scores of six models in
chunks of two, those of the first three, and results whose runs or extensions were interrupted after two tasks.
"""

import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from distributed import Client
from test_resume import ledger_of
from test_run import assert_does_not_open, assert_same_bits

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import DamageWarning
from aucpr_dask.runs.planning import plan_run

pytestmark = pytest.mark.filterwarnings("ignore:.*no checksums:aucpr_dask.errors.DamageWarning")

OPTIONS: dict[str, Any] = {"intervals": ["logit", "bootstrap"], "n_resamples": 20, "keep_replicates": True}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Unpack the stores, and let them name the folder where they are now."""
    with tarfile.open(Path(__file__).parent / "data" / "version_0.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    for document in [*tmp_path.rglob("*.json"), *tmp_path.glob("*/ledger/*")]:
        if document.is_file():
            document.write_bytes(document.read_bytes().replace(b"/data/", f"{tmp_path}/".encode()))
    return tmp_path


# What a store says of its variables stays as it was written.
DESCRIBED_BY_0_1 = "Standard error: of average precision by its influence function, of others by their replicates."


def expected(folder: Path, **options: Any) -> Any:
    result = ap.evaluate(ap.open_scores(folder / "scores.zarr").load(), **OPTIONS | options)
    result["standard_error"].attrs["description"] = DESCRIBED_BY_0_1
    return result


def test_a_finished_result_opens_and_has_nothing_to_do(client: Client, old: Path) -> None:
    target = old / "finished.zarr"
    assert_same_bits(ap.open_result(target), expected(old).isel(model=slice(3)))
    events: list[Any] = []
    ap.run(old / "few.zarr", target, cluster=client, on_progress=events.append, **OPTIONS)
    assert not events


@pytest.mark.parametrize("n_resamples", [20, 30])
def test_a_finished_result_is_extended(client: Client, old: Path, n_resamples: int) -> None:
    options = OPTIONS | {"n_resamples": n_resamples}
    result = ap.run(old / "scores.zarr", old / "finished.zarr", cluster=client, **options)
    assert_same_bits(result, expected(old, n_resamples=n_resamples))


def test_an_unfinished_run_is_resumed(client: Client, old: Path) -> None:
    target = old / "unfinished.zarr"
    assert_does_not_open(target)
    assert ledger_of(target).done() == {0, 1}
    events: list[Any] = []
    result = ap.run(old / "scores.zarr", target, cluster=client, on_progress=events.append, **OPTIONS)
    assert [event.blocks_done for event in events] == [3]
    assert_same_bits(result, expected(old))


def test_an_interrupted_growth_is_completed(client: Client, old: Path) -> None:
    target = old / "growing.zarr"
    assert_same_bits(ap.open_result(target), expected(old).isel(model=slice(3)))
    assert_same_bits(ap.run(old / "scores.zarr", target, cluster=client, **OPTIONS), expected(old))


def test_interrupted_resamples_are_completed(client: Client, old: Path) -> None:
    target, options = old / "resampled.zarr", OPTIONS | {"n_resamples": 30}
    assert_does_not_open(target)
    assert_same_bits(ap.run(old / "scores.zarr", target, cluster=client, **options), expected(old, n_resamples=30))


def test_they_say_that_nothing_protects_them_against_damage(old: Path) -> None:
    with pytest.warns(DamageWarning, match="few.zarr has no checksums, like all stores of version 0.1"):
        ap.open_scores(old / "few.zarr")
    with pytest.warns(DamageWarning, match="finished.zarr has no checksums"):
        ap.open_result(old / "finished.zarr")
    with pytest.warns(DamageWarning, match="few.zarr has no checksums"):
        plan_run(old / "few.zarr")


def test_verify_compares_rankings_with_their_digests(old: Path) -> None:
    place = old / "few.zarr"
    checked = CliRunner().invoke(main, ["verify", str(place)])
    assert checked.exit_code == 0, checked.output
    assert "rankings match their digests" in checked.stdout
    assert "no checksums" in checked.stdout
    (place / "label/c/0/0").unlink()  # read as negatives
    changed = CliRunner().invoke(main, ["verify", str(place)])
    assert changed.exit_code == 2
    assert "other scores or labels than were saved: model 'm0', query" in changed.stderr
