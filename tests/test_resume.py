"""Runs that are stopped, killed or refused, and resumed: the final store is that of an undisturbed run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import pooled, queried
from distributed import Client, LocalCluster
from faults import until, wait_for
from test_run import assert_does_not_open, assert_same_bits

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.cli.common import AGAIN
from aucpr_dask.errors import (
    AucprError,
    ChunkError,
    DamageWarning,
    OtherRunError,
    RunError,
    StoreError,
    UnreachableError,
)
from aucpr_dask.runs import tasks
from aucpr_dask.runs.ledger import Ledger, computed_by
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.storage import code_versions

OPTIONS: dict[str, Any] = {"estimator": ["average_precision", "continuous"], "interval": ["logit", "bootstrap"]}
OPTIONS |= {"n_resamples": 100, "keep_replicates": True}

pytestmark = pytest.mark.usefixtures("few_calls_in_flight", "small_chunks")


@pytest.fixture(scope="module")
def client(client_of_processes: Client) -> Client:
    return client_of_processes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    ap.save_scores(queried(11, 5, 40), tmp_path / "scores.zarr")
    return tmp_path / "scores.zarr"


class Stop(Exception):
    pass


def stop_after(n: int) -> Any:
    def on_progress(event: Any) -> None:
        if event.tasks_done >= n:
            raise Stop

    return on_progress


def state_of(target: Path) -> dict[Path, tuple[int, int]]:
    files = [path for path in target.rglob("*") if path.is_file() and "ledger" not in path.parts]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def ledger_of(target: Path) -> Ledger:
    return Ledger(str(target))


@pytest.mark.parametrize("n_done", [1, 5])
def test_a_stopped_run_resumes_where_it_stopped(client: Client, source: Path, tmp_path: Path, n_done: int) -> None:
    target = tmp_path / "result.zarr"
    with pytest.raises(Stop):
        ap.run(source, target, workers=client, on_progress=stop_after(n_done), **OPTIONS)
    assert_does_not_open(target)
    wait_for(client)
    done, before = ledger_of(target).done(), state_of(target)
    plan = plan_run(source, **OPTIONS)
    assert n_done <= len(done) < len(plan.tasks)
    events: list[Any] = []
    result = ap.run(source, target, workers=client, on_progress=events.append, **OPTIONS)
    assert_same_bits(result, ap.evaluate(queried(11, 5, 40), **OPTIONS))
    assert [event.tasks_done for event in events] == list(range(len(done) + 1, len(plan.tasks) + 1))
    assert events[-1].rankings_done == plan.n_rankings == 55
    after = state_of(target)
    untouched = [path for path, state in before.items() if after[path] == state]
    assert len(untouched) >= len(done)  # at least one file of each


@pytest.fixture
def unfinished(client: Client, source: Path, tmp_path: Path) -> Path:
    target = tmp_path / "unfinished.zarr"
    with pytest.raises(Stop):
        ap.run(source, target, workers=client, on_progress=stop_after(3), **OPTIONS)
    wait_for(client)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b'{"a"', b"null", None])
def test_a_damaged_record_is_named_and_its_remedy_works(
    client: Client, source: Path, unfinished: Path, content: bytes | None
) -> None:
    document = unfinished / "ledger" / "state.json"
    document.unlink() if content is None else document.write_bytes(content)
    with pytest.raises(StoreError, match=r"(?s)(ledger/state.json|something at this place).*overwrite=True"):
        ap.run(source, unfinished, workers=client, **OPTIONS)
    result = ap.run(source, unfinished, workers=client, overwrite=True, **OPTIONS)
    assert_same_bits(result, ap.evaluate(queried(11, 5, 40), **OPTIONS))


def test_a_finished_result_with_a_damaged_plan_still_opens(client: Client, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "result.zarr"
    expected = ap.run(source, target, workers=client, **OPTIONS).load()
    (target / "ledger" / "state.json").write_bytes(b'{"word": "finished", "plan": {"options": 3}}')
    with pytest.raises(StoreError, match="open_result"):
        ap.run(source, target, workers=client, **OPTIONS)
    assert_same_bits(ap.open_result(target), expected)


def test_an_unfinished_run_resumes_after_its_source_was_moved(client: Client, source: Path, unfinished: Path) -> None:
    done, moved = ledger_of(unfinished).done(), source.with_name("moved.zarr")
    source.rename(moved)
    events: list[Any] = []
    result = ap.run(moved, unfinished, workers=client, on_progress=events.append, **OPTIONS)
    assert events[0].tasks_done >= len(done)
    assert_same_bits(result, ap.evaluate(queried(11, 5, 40), **OPTIONS))
    assert ap.run(moved, unfinished, workers=client, **OPTIONS).identical(result)  # nothing left to do


def test_chunks_that_were_exchanged_before_the_end_are_computed_again(
    client: Client, unfinished: Path, source: Path
) -> None:
    first, second = sorted((unfinished / "estimate").glob("c.*"))[:2]
    contents = first.read_bytes(), second.read_bytes()
    assert contents[0] != contents[1]
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    with pytest.warns(DamageWarning, match=r"results of 2 of \d+ finished tasks are missing or damaged"):
        result = ap.run(source, unfinished, workers=client, **OPTIONS)
    assert_same_bits(result, ap.evaluate(queried(11, 5, 40), **OPTIONS))


@pytest.mark.slow
def test_tasks_of_a_stopped_process_are_given_to_another(source: Path, tmp_path: Path) -> None:
    with dask.config.set({"distributed.scheduler.worker-ttl": "8 s"}), ap.connect(2) as client:
        pids = list(client.run(os.getpid).values())
        try:
            result = ap.run(
                source,
                tmp_path / "result.zarr",
                workers=client,
                on_progress=lambda event: os.kill(pids[0], signal.SIGSTOP) if event.tasks_done == 2 else None,
                **OPTIONS,
            )
            # Nothing but its replacement ends a run that waits for it.
            assert pids[0] not in client.run(os.getpid).values()
        finally:
            with suppress(ProcessLookupError):  # it was replaced
                os.kill(pids[0], signal.SIGKILL)
    assert_same_bits(result, ap.evaluate(queried(11, 5, 40), **OPTIONS))


def test_a_finished_run_has_nothing_to_do(client: Client, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "result.zarr"
    first = ap.run(source, target, workers=client, **OPTIONS)
    before = state_of(target)
    again = ap.run(source, target, workers=client, on_progress=stop_after(0), **OPTIONS)
    assert again.identical(first)
    assert state_of(target) == before
    assert not (target / "ledger" / "done").exists()


@pytest.mark.parametrize("is_finished", [True, False])
def test_other_options_are_refused_by_name(client: Client, source: Path, tmp_path: Path, is_finished: bool) -> None:
    target = tmp_path / "result.zarr"
    try:
        ap.run(source, target, workers=client, on_progress=None if is_finished else stop_after(2), **OPTIONS)
    except Stop:
        assert not is_finished
    wait_for(client)
    before = state_of(target)
    with pytest.raises(StoreError, match=r"n_resamples: 100, now 200; seed: 0, now 3\n.*overwrite=True"):
        ap.run(source, target, workers=client, **OPTIONS | {"n_resamples": 200, "seed": 3})
    scores = queried(11, 5, 40)
    scores["score"][0, 0, 0] += 1
    ap.save_scores(scores.assign_attrs(changed=1), source, overwrite=True)
    with pytest.raises(StoreError, match=r"received: (?!.*[0-9a-f]{12})[^\n]*scores or labels (are others|changed)"):
        ap.run(source, target, workers=client, **OPTIONS)
    assert state_of(target) == before
    assert_same_bits(ap.run(source, target, workers=client, overwrite=True, **OPTIONS), ap.evaluate(scores, **OPTIONS))


def test_a_task_that_fails_for_good_is_recorded_and_the_others_are_kept(
    client: Client, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "result.zarr"
    plan = plan_run(source, **OPTIONS)
    chunk = sorted(path for path in (source / "score").rglob("*") if path.is_file() and path.name != "zarr.json")[3]
    content = chunk.read_bytes()
    chunk.write_bytes(b"no chunk at all")
    with pytest.raises(RunError, match=rf"(?s)tasks could not be computed.*model \d.*1 of {len(plan.tasks)} tasks"):
        ap.run(source, target, workers=client, **OPTIONS)
    assert_does_not_open(target)
    failures = ledger_of(target).failures()
    assert len(failures) == 1
    assert next(iter(failures.values()))["error"]
    chunk.write_bytes(content)
    events: list[Any] = []
    result = ap.run(source, target, workers=client, on_progress=events.append, **OPTIONS)
    assert len(events) == 1
    assert_same_bits(result, ap.evaluate(queried(11, 5, 40), **OPTIONS))


def test_a_run_that_does_not_fit_is_refused_before_its_first_task(tmp_path: Path) -> None:
    ap.save_scores(pooled(4, 3000).chunk(model=4), tmp_path / "scores.zarr")
    target = tmp_path / "result.zarr"
    with (
        LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit="4GB") as cluster,
        Client(cluster) as client,
        pytest.raises(ChunkError, match=r"(?s)would not fit.*iB for a task, 3.73 GiB of memory"),
    ):
        ap.run(tmp_path / "scores.zarr", target, workers=client, n_resamples=300_000_000, interval="bootstrap")
    assert not target.exists()


def test_the_chunks_that_a_refusal_names_would_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 2**25)
    source = tmp_path / "scores.zarr"
    ap.save_scores(pooled(60, 3000), source)
    options = {"n_resamples": 1_000_000, "interval": "bootstrap"}
    limit = plan_run(source, **options).largest
    with pytest.raises(ChunkError, match=r"models_per_chunk=(\d+)") as refusal:
        plan_run(source, **options).check_memory(limit)
    named = re.search(r"models_per_chunk=(\d+)", str(refusal.value))
    assert named
    ap.save_scores(pooled(60, 3000), source, overwrite=True, models_per_chunk=int(named[1]))
    plan_run(source, **options).check_memory(limit)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_that_was_stopped_while_it_laid_out_resumes(
    client: Client, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    target = tmp_path / "result.zarr"
    if overwrite:
        ap.run(source, target, workers=client, estimator="lower_trapezoid")

    def stop(*arguments: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "start", stop)
        with pytest.raises(Stop):
            ap.run(source, target, workers=client, overwrite=overwrite, **OPTIONS)
    assert_does_not_open(target)
    token = ledger_of(target).recorded().token
    assert token
    before = state_of(target)
    with pytest.raises(StoreError, match="something at this place already"):
        ap.run(source, target, workers=client, **OPTIONS | {"seed": 8})
    assert state_of(target) == before
    with pytest.raises(Stop):
        ap.run(source, target, workers=client, on_progress=stop_after(1), **OPTIONS)
    assert ledger_of(target).recorded().token == token
    wait_for(client)
    result = ap.run(source, target, workers=client, **OPTIONS)
    assert_same_bits(result, ap.evaluate(queried(11, 5, 40), **OPTIONS))


def test_the_result_is_laid_out_before_the_first_task(
    client: Client, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "result.zarr"

    def stop(*arguments: Any, **options: Any) -> None:
        raise Stop

    monkeypatch.setattr("aucpr_dask.runs.submitting.as_they_finish", stop)
    with pytest.raises(Stop):
        ap.run(source, target, workers=client, **OPTIONS)
    plan = plan_run(source, **OPTIONS)
    assert ledger_of(target).state().plan == plan.parameters
    assert {path.parent.name for path in target.glob("*/zarr.json")} == set(plan.template.variables)
    assert not (target / "zarr.json").exists()


def test_a_finished_store_of_another_kind_stays(client: Client, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "other.zarr"
    ap.save_scores(pooled(), target)
    (target / "ledger").mkdir()
    (target / "ledger" / "state.json").write_text('{"word": "running", "token": "0123"}')
    with pytest.raises(StoreError, match="something at this place already"):
        ap.run(source, target, workers=client, **OPTIONS)
    assert ap.open_scores(target).sizes["model"] == 5


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aucpr_dask.workers.connecting.current_client", lambda: None)


OF_ANOTHER = {"numpy": "9.9", "computing code of aucpr-dask": "0123456789ab"}


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("begins", ["running", "growing"])
def test_another_code_neither_resumes_nor_extends_a_result_without_a_word(
    begins: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, here = tmp_path / "r.zarr", code_versions.code()
    other, known, scores = here | OF_ANOTHER, code_versions.facts(), queried(11, 5, 40)
    if begins == "running":
        with pytest.raises(Stop):
            ap.run(source, target, on_progress=stop_after(3))
    else:
        ap.save_scores(scores.isel(model=slice(6)), source, overwrite=True)
        ap.run(source, target)
        ap.save_scores(scores, source, overwrite=True)
    before = state_of(target)
    monkeypatch.setattr("aucpr_dask.runs.planning.code", lambda: other)
    monkeypatch.setattr("aucpr_dask.runs.tasks.facts", lambda: known | other)
    said = rf"received: other computing code of aucpr-dask; numpy {np.__version__}, now 9\.9\n"
    with pytest.raises(StoreError, match=rf"{said}[\s\S]*overwrite=True.*other_code=True"):
        ap.run(source, target)
    assert state_of(target) == before
    mixed = ap.run(source, target, other_code=True).load()
    assert f"numpy {np.__version__}" in mixed.attrs["versions"]
    first, second = computed_by(target)
    assert (first, second["code"]) == ({"code": here, "parts": ["everything else"]}, other)
    assert 0 < len(second["parts"]) < len(plan_run(source).tasks)
    assert "numpy 9.9" in CliRunner().invoke(main, ["verify", str(target)]).stdout
    with pytest.warns(UserWarning, match="is finished, and its numbers are of another version"):
        assert_same_bits(ap.run(source, target), mixed)
    xr.testing.assert_equal(ap.run(source, target, overwrite=True), mixed)
    assert computed_by(target) == [{"code": other, "parts": ["everything"]}]


# What may become of a file of a result while a run goes on, after it was written.
DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:]),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "empty": lambda file: file.write_bytes(b""),
    "gone": lambda file: file.unlink(),
    "of another": lambda file: file.write_bytes(max(file.parent.iterdir()).read_bytes()),
}


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "damage", [name if name in ("flipped", "gone") else pytest.param(name, marks=pytest.mark.slow) for name in DAMAGES]
)
def test_what_is_damaged_during_a_run_is_mended_by_the_same_call(damage: str, source: Path, tmp_path: Path) -> None:
    target, undisturbed, events = tmp_path / "r.zarr", tmp_path / "undisturbed.zarr", list[Any]()

    def on_progress(event: Any) -> None:
        events.append(event)
        if len(events) == 6:
            for file in [one for one in target.rglob("*") if one.is_file() and "ledger" not in one.parts]:
                DAMAGES[damage](file)

    with pytest.warns(DamageWarning, match="computed again"):
        ap.run(source, target, on_progress=on_progress)
    ap.run(source, undisturbed)
    contents = [
        {one.relative_to(place): one.read_bytes() for one in place.rglob("*") if one.is_file()}
        for place in (target, undisturbed)
    ]
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_long_tasks_prints_one_line_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal sends it to all processes of the command."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 2**25)
    random = np.random.default_rng(0)
    label = (random.random(10_000) < 0.1).astype(np.int8)
    score = random.normal(size=(2000, label.size)).astype(np.float32)
    ap.save_scores(xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}), tmp_path / "s.zarr")
    command = [sys.executable, "-m", "aucpr_dask", "evaluate", "s.zarr", "r.zarr"]
    command += ["--workers", "2", "--interval", "bootstrap", "--n-resamples", "100000"]
    with subprocess.Popen(
        command, cwd=tmp_path, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: (tmp_path / "r.zarr" / "ledger" / "state.json").exists(), "the run did not start")
        time.sleep(2)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    # Each killed worker leaves a semaphore, which Python reports when it removes it; and one that is killed while a
    # kernel returns may be ended by the C library, with a message. A slow start is told as progress.
    silent = "^dashboard|^evaluating: |resource_tracker|warn|FATAL: exception not rethrown"
    told = [line for line in errors.splitlines() if line and not re.search(silent, line)]
    assert told == ["interrupted: run the same command again; it goes on or starts over"]
    until(lambda: not has_members(process.pid), "processes are left")
    assert ledger_of(tmp_path / "r.zarr").state().word == "running"


def has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def read_only(mounted: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)


def full(mounted: Path) -> None:
    with suppress(OSError), (mounted / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def forbidden(mounted: Path) -> None:
    os.seteuid(65534)


def removed(mounted: Path) -> None:
    shutil.rmtree(mounted / "r.zarr")


FAILING: dict[Callable[[Path], None], tuple[type[AucprError], str]] = {
    read_only: (RunError, r"cannot be written[\s\S]*Read-only file system[\s\S]*writable for the workers"),
    full: (RunError, r"disk is full[\s\S]*No space left[\s\S]*make room"),
    forbidden: (UnreachableError, r"cannot be read[\s\S]*Permission denied[\s\S]*let this user"),
    removed: (OtherRunError, r"has been removed[\s\S]*run the same command again to start over"),
}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("fail", FAILING, ids=lambda fail: fail.__name__)
def test_storage_that_fails_ends_the_run_at_the_first_task(
    fail: Callable[[Path], None], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted, seen, kind = tmp_path / "mounted", set[int](), FAILING[fail]
    mounted.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", mounted], check=False).returncode:
        pytest.skip("this machine mounts nothing")

    def evaluate_task(number: int, *given: Any) -> Any:
        seen.add(number)
        if len(seen) == 3:
            fail(mounted)
        return tasks.evaluate_task(number, *given)

    monkeypatch.setattr("aucpr_dask.workers.connecting.current_client", lambda: None)
    monkeypatch.setattr("aucpr_dask.runs.run.evaluate_task", evaluate_task)
    try:
        with pytest.raises(kind[0], match=kind[1]) as caught:
            ap.run(source, mounted / "r.zarr", **OPTIONS)
        os.seteuid(0)
        assert isinstance(caught.value, AGAIN)  # so that the command ends with 1
        assert len(seen) == 3 < len(plan_run(source, **OPTIONS).tasks)
        (mounted / "filler").unlink() if fail is full else None
        subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)
        monkeypatch.undo()
        expected = ap.evaluate(queried(11, 5, 40), **OPTIONS)
        assert_same_bits(ap.run(source, mounted / "r.zarr", **OPTIONS), expected)
    finally:
        os.seteuid(0)
        subprocess.run(["umount", "-l", mounted], check=True)
