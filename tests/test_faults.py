"""Nothing is lost: faults of every kind at random times; the result is that of an undisturbed run."""

import json
import resource
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ok, pooled
from distributed import Client
from faults import Tally, Trial
from test_run import assert_does_not_open, assert_same_bits

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import OtherRunError, RunError, StoreError
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.steps import Step
from aucpr_dask.runs.submitting import as_they_finish
from aucpr_dask.storage.backends import FolderStore
from aucpr_dask.storage.claims import CLEARING, RUNNING, State

GROWTH = 20.0  # MiB of any process, after the first fifth of the tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def trial(folder: Path) -> Trial:
    return Trial(folder)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with faults.local_cluster(folder) as client:
        yield client


def assert_nothing_lost(tally: Tally, times: int) -> None:
    assert (tally.injected, tally.survived) == (times, times), tally


def several(trial: Trial, times: int) -> Trial:
    """Return a trial that injects a fault so often; the page of faults has twenty of each."""
    trial.times = times
    return trial


# Quickly


@pytest.mark.slow
def test_a_killed_worker_costs_only_the_tasks_it_had_begun(tmp_path: Path, client: Client) -> None:
    tally = faults.kill_workers(Trial(tmp_path, seed=1, times=1), client, "SIGKILL")
    assert_nothing_lost(tally, 1)
    assert tally.recomputed <= 2


def test_partial_files_and_half_written_chunks_are_not_results(tmp_path: Path, client_of_processes: Client) -> None:
    """What a machine leaves when it stops in the middle of a write, and what it would leave without renaming."""
    trial = Trial(tmp_path)
    target = trial.new_target()

    def stop(event: Any) -> None:
        if event.tasks_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trial.run(target, client_of_processes, on_progress=stop)
    faults.wait_for(client_of_processes)
    ledger = Ledger(str(target))
    assert len(ledger.done()) >= 3
    for record in (target / "ledger" / "done").iterdir():
        record.rename(record.with_suffix(".0123.partial"))
    assert ledger.done() == set()
    chunks = list((target / "estimate").glob("c.*"))
    assert len(chunks) >= 3
    for chunk in chunks:
        chunk.write_bytes(chunk.read_bytes()[:5])
        chunk.with_suffix(".4567.partial").write_bytes(b"no chunk")
    assert_does_not_open(target)
    assert_same_bits(trial.run(target, client_of_processes), trial.expected)


def test_a_run_without_room_says_so_and_resumes_later(tmp_path: Path, client_of_processes: Client) -> None:
    trial = Trial(tmp_path)
    target = trial.new_target()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(n_bytes: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    try:
        client_of_processes.run(limit, 20)
        with pytest.raises(RunError, match=rf"(?s)the disk is full.*{target}.*make room"):
            trial.run(target, client_of_processes)
    finally:
        client_of_processes.run(limit, before[0])
    faults.wait_for(client_of_processes)
    assert_does_not_open(target)
    assert_same_bits(trial.run(target, client_of_processes), trial.expected)


@pytest.mark.slow
def test_a_place_that_another_run_takes_first_is_left_to_it(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find the place empty: only the tasks of one may be written."""
    trial = Trial(tmp_path)
    target = trial.new_target()
    begin = Step.begin

    def begin_second(*arguments: Any) -> None:
        monkeypatch.setattr(Step, "begin", begin)
        ap.run(trial.source, target, estimator="lower_trapezoid", workers=client)
        begin(*arguments)

    monkeypatch.setattr(Step, "begin", begin_second)
    with pytest.raises(StoreError, match="something at this place"):
        trial.run(target, client)
    expected = ap.evaluate(ap.open_scores(trial.source), estimator="lower_trapezoid")
    np.testing.assert_array_equal(ap.open_result(target)["estimate"], expected["estimate"])


@pytest.mark.sparse
@pytest.mark.slow
@pytest.mark.parametrize(("stage", "is_finished"), [("begin", False), ("begin", True), ("finish", True)])
@pytest.mark.parametrize("is_resumed", [False, True])
def test_runs_of_one_plan_that_lay_out_or_finish_at_once_agree(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch, stage: str, is_finished: bool, is_resumed: bool
) -> None:
    trial = Trial(tmp_path)
    target = trial.new_target()
    if is_resumed:
        with pytest.raises(KeyboardInterrupt):
            trial.run(target, client, on_progress=interrupt)
        faults.wait_for(client)
    original = getattr(Step, stage)

    def after_another(*arguments: Any) -> Any:
        """Let another run be interrupted while it lays out, or finish, first."""
        monkeypatch.setattr(Step, stage, original)
        if is_finished:
            trial.run(target, client)
        elif not is_resumed:
            with monkeypatch.context() as patch:
                patch.setattr(Ledger, "start", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    trial.run(target, client)
        return original(*arguments)

    monkeypatch.setattr(Step, stage, after_another)
    assert_same_bits(trial.run(target, client), trial.expected)
    assert not Ledger(str(target)).recorded().token


class Notes(list[str]):
    """A report that keeps its notes."""

    def __call__(self, what: str, done: int, total: int, detail: str = "") -> None:
        pass

    note = list.append


def test_runs_say_that_they_share_their_tasks(
    tmp_path: Path, client_of_processes: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(tmp_path)
    target = trial.new_target()
    with pytest.raises(KeyboardInterrupt):
        trial.run(target, client_of_processes, on_progress=interrupt)
    faults.wait_for(client_of_processes)
    finish = Step.finish

    def finish_second(*arguments: Any) -> None:
        monkeypatch.setattr(Step, "finish", finish)
        trial.run(target, client_of_processes)
        finish(*arguments)

    monkeypatch.setattr(Step, "finish", finish_second)
    notes = Notes()
    trial.run(target, client_of_processes, progress=notes)
    begun, finished = (note for note in notes if "dashboard" not in note)
    assert "has begun here" in begun
    assert "another run of the same call has finished" in finished


def test_a_run_that_finishes_while_another_looks_is_found(
    tmp_path: Path, client_of_processes: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(tmp_path)
    target = trial.new_target()
    state = Ledger.state

    def state_before(self: Ledger) -> Any:
        monkeypatch.setattr(Ledger, "state", state)
        found = state(self)
        trial.run(target, client_of_processes)
        return found

    monkeypatch.setattr(Ledger, "state", state_before)
    assert_same_bits(trial.run(target, client_of_processes), trial.expected)


def interrupt(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_exit_codes_say_what_to_do(tmp_path: Path, client_of_processes: Client) -> None:
    with faults.small_chunks():
        ap.save_scores(pooled(12), tmp_path / "scores.zarr")
    chunk = min(path for path in (tmp_path / "scores.zarr" / "score" / "c").rglob("*") if path.is_file())
    content = chunk.read_bytes()
    chunk.write_bytes(b"no chunk at all")
    words = ["evaluate", str(tmp_path / "scores.zarr"), str(tmp_path / "result.zarr"), "--json"]
    words += ["--workers", client_of_processes.scheduler.address]
    failed = CliRunner().invoke(main, words)
    assert failed.exit_code == 1, failed.output
    assert "tasks could not be computed" in failed.stderr
    assert "the same call resumes from there" in failed.stderr
    assert list(Ledger(str(tmp_path / "result.zarr")).failures()) == [0]
    refused = CliRunner().invoke(main, [*words, "--level", "0.5"])
    assert refused.exit_code == 2, refused.output
    chunk.write_bytes(content)
    fixed = ok(*words)
    assert json.loads(fixed.stdout)["rankings"]


def fall(number: int) -> int:
    """Kill every worker that tries the third call."""
    if number == 3:
        faults.segfault()
    return number


@pytest.mark.slow
def test_calls_next_to_a_poisoned_one_are_not_blamed(client: Client) -> None:
    found = dict(as_they_finish(client, fall, [(number,) for number in range(8)]))
    assert type(found.pop(3)).__name__ == "KilledWorker"
    assert found == {number: number for number in range(8) if number != 3}


def test_records_count_only_in_their_own_ledger(tmp_path: Path) -> None:
    first, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    first.claim(State(RUNNING, identity="one plan"))
    with pytest.raises(OtherRunError, match="now belongs to another run"):
        other.claim(State(RUNNING, identity="another plan"))
    first.record_done(1, {})
    late = Ledger(str(tmp_path), first.join())
    second = Ledger(str(tmp_path))
    second.take_over(State(RUNNING, identity="one plan"))
    assert second.done() == set()
    for record, facts in ((late.record_done, {}), (late.record_failure, "why")):
        with pytest.raises(OtherRunError):
            record(2, facts)
    with pytest.raises(OtherRunError):
        late.check()
    second.record_done(0, {})
    assert second.done() == {0}
    assert not any(path.name.startswith("2-") for path in tmp_path.rglob("*"))


def test_no_call_joins_a_run_that_clears_or_has_finished(tmp_path: Path) -> None:
    """Both began after the call had looked: what it wrote would be removed, or nobody would stop it."""
    place = str(tmp_path)
    Ledger(place).record(State(CLEARING, token="0123", identity="one plan"))
    with pytest.raises(OtherRunError):
        Ledger(place).claim(State(RUNNING, identity="one plan"))
    Ledger(place).close(State(plan={}))
    with pytest.raises(OtherRunError):
        Ledger(place).join()


def test_of_plans_that_claim_a_place_at_once_one_gets_it(tmp_path: Path) -> None:
    start, won = threading.Barrier(8), []

    def claim(plan: str) -> None:
        ledger = Ledger(str(tmp_path))
        start.wait()
        try:
            ledger.claim(State(RUNNING, identity=plan))
        except OtherRunError:
            return
        won.append((plan, ledger.join()))

    threads = [threading.Thread(target=claim, args=(f"plan {number // 2}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 2, "both runs of one plan"
    assert won[0] == won[1]


def test_a_place_is_claimed_although_another_call_gives_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_value = FolderStore.set_sync

    def set_second(*arguments: Any) -> None:
        monkeypatch.setattr(FolderStore, "set_sync", set_value)
        raise FileNotFoundError

    monkeypatch.setattr(FolderStore, "set_sync", set_second)
    ledger = Ledger(str(tmp_path))
    ledger.take_over(State(RUNNING, identity="one plan"))
    assert ledger.recorded().identity == "one plan"


# At random times


TWICE = "first finished, second finished"
REFUSED = "first finished, second ended with StoreError"
# What puts a fault into runs, and with which remarks, and how many, these must then end besides that nothing is lost.
FAULTS: dict[str, tuple[Callable[[Trial, Client], Tally], Callable[[dict[str, int], int], bool]]] = {
    **{f"worker: {how}": (partial(faults.kill_workers, how=how), lambda *_: True) for how in faults.SIGNALS},
    "scheduler": (lambda trial, _: faults.kill_scheduler(trial), lambda said, _: "ended with ClusterError" in said),
    "client": (lambda trial, _: faults.kill_client(trial), lambda said, _: bool(said)),
    "machine": (partial(faults.stop_machine, within_a_write=False), lambda said, _: bool(said)),
    "machine within a write": (
        partial(faults.stop_machine, within_a_write=True),
        lambda said, times: said == {"some temporary files left": times},
    ),
    "pause": (lambda trial, _: faults.pause_machine(trial), lambda *_: True),
    "the same call": (faults.run_twice, lambda said, times: said == {TWICE: times}),
    "other options": (partial(faults.run_twice, seed=5), lambda said, times: said == {REFUSED: times}),
    "overwrite": (
        partial(faults.run_twice, overwrite=True, seed=5),
        lambda said, _: all(remark.endswith("d finished") for remark in said),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost(trial: Trial, client: Client, name: str, times: int) -> None:
    inject, is_right = FAULTS[name]
    tally = inject(several(trial, times), client)
    assert_nothing_lost(tally, times)
    assert is_right(tally.remarks, times), tally


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.nightly)])
def test_full_disks(trial: Trial, client: Client, times: int) -> None:
    try:
        with faults.small_disk(trial.folder / "trial-disk"):
            pass
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only the superuser can mount a small disk")
    tally = faults.fill_disk(several(trial, times), client)
    assert_nothing_lost(tally, times)
    assert sum(n for remark, n in tally.remarks.items() if "did not name" in remark) == 0


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.nightly)])
def test_poisoned_tasks(folder: Path, client: Client, times: int) -> None:
    place = folder / f"poison{times}"
    place.mkdir()
    trial = Trial(place, times=times)
    assert_nothing_lost(faults.poison_block(trial, client, faults.take_too_much), times)
    # Each kills eight workers.
    assert_nothing_lost(faults.poison_block(several(trial, 1), client, faults.segfault), 1)


@pytest.mark.slow
def test_tasks_that_outgrow_their_worker(folder: Path) -> None:
    (folder / "greedy").mkdir()
    trial = Trial(folder / "greedy", times=1)
    with faults.local_cluster(folder, memory_limit=faults.memory_of_a_worker() + (1 << 28)) as client:
        assert_nothing_lost(faults.poison_block(trial, client, faults.eat_memory), 1)


@pytest.mark.slow
@pytest.mark.parametrize("n_tasks", [500, pytest.param(2500, marks=pytest.mark.nightly)])
def test_memory_is_flat_over_many_tasks(tmp_path: Path, n_tasks: int) -> None:
    """The page of faults has ten thousand."""
    samples = faults.endure(tmp_path, n_tasks, every=n_tasks // 10)
    assert samples[-1].blocks == n_tasks
    early = next(sample for sample in samples if sample.blocks >= n_tasks // 5)
    for name, before in early.mebibytes.items():
        assert max(sample.mebibytes[name] for sample in samples) - before < GROWTH, name
