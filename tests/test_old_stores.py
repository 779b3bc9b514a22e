"""Results written by version 0.1 are opened, and extended once they are finished.

``data/version_0.1.tar.xz`` holds stores that version 0.1.0 wrote in the folder ``/data``: scores of six models in
chunks of two, those of the first three, and results whose runs or extensions were interrupted after two tasks. Those
named ``_logit`` have nothing drawn; the others have 20 resamples, or 30.
"""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client
from test_resume import state_of
from test_run import assert_does_not_open, assert_same_bits

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import DamageWarning, StoreError
from aucpr_dask.runs.planning import plan_run

pytestmark = pytest.mark.filterwarnings("ignore:.*no checksums:aucpr_dask.errors.DamageWarning")

LOGIT: dict[str, Any] = {"interval": ["logit"], "prevalence_design": "fixed"}
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on
BOOTSTRAP: dict[str, Any] = LOGIT | {"interval": ["logit", "bootstrap"], "n_resamples": 20, "keep_replicates": True}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Unpack the stores, and let them name the folder where they are now."""
    with tarfile.open(Path(__file__).parent / "data" / "version_0.1.tar.xz") as archive:
        archive.extractall(tmp_path, **SAFELY)
    for document in [*tmp_path.rglob("*.json"), *tmp_path.glob("*/ledger/*")]:
        if document.is_file():
            document.write_bytes(document.read_bytes().replace(b"/data/", f"{tmp_path}/".encode()))
    return tmp_path


# What a store says of its variables stays as it was written.
FLAGS_OF_0_1 = 10
DESCRIBED_BY_0_1 = "Standard error: of average precision by its influence function, of others by their replicates."


def expected(folder: Path, **options: Any) -> Any:
    scores = ap.open_scores(folder / "scores.zarr").load()
    result = ap.evaluate(scores, **{"estimators": ["average_precision"]} | LOGIT | options)
    result["standard_error"].attrs["description"] = DESCRIBED_BY_0_1
    flags = result["flags"].attrs
    flags["flag_masks"] = flags["flag_masks"][:FLAGS_OF_0_1]
    flags["flag_meanings"] = " ".join(flags["flag_meanings"].split()[:FLAGS_OF_0_1])
    return result


def test_a_finished_result_opens_and_has_nothing_to_do(client: Client, old: Path) -> None:
    target = old / "finished_logit.zarr"
    assert_same_bits(ap.open_result(target), expected(old).isel(model=slice(3)))
    events: list[Any] = []
    ap.run(old / "few.zarr", target, cluster=client, on_progress=events.append, **LOGIT)
    assert not events


@pytest.mark.slow
def test_a_finished_result_gets_more_models(client: Client, old: Path) -> None:
    result = anew(client, old, "finished_logit.zarr")
    assert_same_bits(result, ap.evaluate(ap.open_scores(old / "scores.zarr").load(), **LOGIT))


def test_an_unfinished_run_is_started_again(client: Client, old: Path) -> None:
    target = old / "unfinished_logit.zarr"
    assert_does_not_open(target)
    before = state_of(target)
    with pytest.raises(StoreError, match=r"(?s)begun by an earlier version.*--overwrite"):
        ap.run(old / "scores.zarr", target, cluster=client, **LOGIT)
    assert state_of(target) == before
    fresh = ap.run(
        old / "scores.zarr", target, estimator=["average_precision"], cluster=client, overwrite=True, **LOGIT
    )
    np.testing.assert_array_equal(fresh["interval"], expected(old)["interval"])


def test_an_interrupted_growth_is_completed(client: Client, old: Path) -> None:
    target = old / "growing_logit.zarr"
    assert_same_bits(ap.open_result(target), expected(old).isel(model=slice(3)))
    result = anew(client, old, "growing_logit.zarr")
    assert_same_bits(result, ap.evaluate(ap.open_scores(old / "scores.zarr").load(), **LOGIT))


def anew(client: Client, old: Path, name: str) -> Any:
    """Evaluate into a result without checksums, which does not grow."""
    with pytest.warns(UserWarning, match="everything is evaluated anew"):
        return ap.run(old / "scores.zarr", old / name, cluster=client, **LOGIT)


def test_what_was_drawn_by_version_0_1_opens(old: Path) -> None:
    result = ap.open_result(old / "finished.zarr")
    now = expected(old, **BOOTSTRAP).isel(model=slice(3))
    assert result.attrs["random_scheme"] == "philox4x32-10 1" != now.attrs["random_scheme"]
    same = {"interval_method": ["logit"]}
    assert_same_bits(result.drop_vars("replicate").sel(same), now.drop_vars("replicate").sel(same))
    ends = result["replicate"].quantile([0.025, 0.975], "resample").transpose(..., "quantile")
    np.testing.assert_allclose(result["interval"].sel({"interval_method": "bootstrap"}), ends)


@pytest.mark.parametrize("name", ["finished", "unfinished", "growing", "resampled"])
def test_what_was_drawn_by_version_0_1_is_not_mixed_with_other_draws(client: Client, old: Path, name: str) -> None:
    target = old / f"{name}.zarr"
    before = state_of(target)
    options = BOOTSTRAP | ({"n_resamples": 30} if name == "resampled" else {})
    refusal = r"drawn by another version\s*(?s:.*)random_scheme: 'philox4x32-10 1', now 'philox4x32-10 2'"
    with pytest.raises(StoreError, match=f"begun by an earlier version|{refusal}"):
        ap.run(old / "scores.zarr", target, cluster=client, **options)
    assert state_of(target) == before
    result = ap.run(old / "scores.zarr", target, cluster=client, overwrite=True, **options)
    assert result.identical(ap.run(old / "scores.zarr", old / "new.zarr", cluster=client, **options))


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
