"""Small jobs, disturbed before their N-th change of the file system, for every N, and then called again.

There, a job is killed; or the power fails, so that all files that were not synced lose their contents; or the job waits
until the same call has ended in another process.

Run as a program, which reads what to disturb and writes what it found, a line each. So one process imports the package
and compiles, and every attempt is a fork of it, begun before Zarr or Dask start a thread. Tasks run in the process of
the attempt: to start a cluster would take most of the time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import aucpr_dask as ap
import aucpr_dask.runs.run
import aucpr_dask.runs.submitting
import aucpr_dask.storage.backends
import aucpr_dask.storage.claims
import aucpr_dask.workers.connecting
from aucpr_dask.errors import AucprError
from aucpr_dask.inference.comparing import save_comparison
from aucpr_dask.scores.importing import tables, trec
from aucpr_dask.scores.store import changed_rankings
from aucpr_dask.storage.verifying import damage_of

aucpr_dask.storage.claims.SECONDS_TO_STOP = 0.0  # nothing else is writing when a call comes again

Call = Callable[..., None]

IN_THE_WAY = "something at this place already"
IS_DONE = (IN_THE_WAY, "in the store already")
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
OPTIONS: dict[str, Any] = {"interval": ["bootstrap"], "n_resamples": 5, "keep_replicates": True, "progress": False}
RNG = np.random.default_rng(1)
SCORES = xr.Dataset(
    {"score": (("model", "item"), RNG.normal(size=(4, 30))), "label": ("item", (RNG.random(30) < 0.3).astype("int8"))},
    coords={"model": list("abcd")},
)


def save(folder: Path, *, overwrite: bool = False) -> None:
    ap.save_scores(SCORES, folder / "scores.zarr", overwrite=overwrite, models_per_chunk=2)


def save_again(folder: Path, *, overwrite: bool = True) -> None:
    save(folder, overwrite=True)


class Here:
    """In place of a client."""

    dashboard_link = None

    def scheduler_info(self, **_: Any) -> dict[str, dict[str, Any]]:
        """Know of no workers."""
        return {"workers": {}}


@contextlib.contextmanager
def connect_here(*arguments: Any, **options: Any) -> Iterator[Here]:
    yield Here()


def do_here(client: Here, function: Callable[..., Any], calls: list[Any], retries: int, **_: Any) -> Iterator[Any]:
    """Do tasks in this process, in turn, as Dask does them."""
    for number, arguments in enumerate(calls):
        outcome: Any = None
        for _ in range(1 + retries):
            try:
                outcome = function(*arguments)
                break
            except Exception as error:
                outcome = error
        yield number, outcome


def run_here() -> None:
    """Let runs do their tasks in this process, so that a kill hits them at any point. Only for the program itself."""
    aucpr_dask.workers.connecting.connect_for = connect_here
    aucpr_dask.runs.submitting.as_they_finish = do_here  # type: ignore[assignment]
    aucpr_dask.runs.run._memory_of_a_thread = lambda client: None


def evaluate(folder: Path, *, overwrite: bool = False, source: str = "scores.zarr", **options: Any) -> None:
    with warnings.catch_warnings(action="ignore"):  # that everything is evaluated anew
        ap.run(folder / source, folder / "result.zarr", overwrite=overwrite, **OPTIONS | options)


def evaluate_again(folder: Path, *, overwrite: bool = True) -> None:
    evaluate(folder, overwrite=True)


def add_resamples(folder: Path, *, overwrite: bool = False) -> None:
    evaluate(folder, n_resamples=8, overwrite=overwrite)


def import_trec(folder: Path, *, overwrite: bool = False) -> None:
    trec.import_trec(folder / "runs", folder / "qrels", folder / "scores.zarr", overwrite=overwrite)


def import_table(folder: Path, *, overwrite: bool = False) -> None:
    url = folder / "scores.zarr"
    tables.import_table(folder / "table.csv", url, label="label", item="item", overwrite=overwrite)


def import_more(folder: Path, *, overwrite: bool = True) -> None:
    import_table(folder, overwrite=True)
    evaluate(folder)


def compare(folder: Path, *, overwrite: bool = False) -> None:
    comparison = ap.compare(ap.open_result(folder / "result.zarr"), over="items", level=0.5)
    save_comparison(comparison, folder / "comparison.zarr", overwrite=overwrite)


def verify(folder: Path, *, overwrite: bool = False) -> None:
    for name in ("scores.zarr", "result.zarr"):
        _, damage, _ = damage_of(folder / name)
        assert not damage, damage
    assert changed_rankings(folder / "scores.zarr")[1] == []


def prepare_nothing(folder: Path) -> None:
    pass


def prepare_scores(folder: Path) -> None:
    save(folder)


def prepare_other_scores(folder: Path) -> None:
    ap.save_scores(SCORES.isel(item=slice(20)).assign_attrs(other=1), folder / "scores.zarr", models_per_chunk=1)


def prepare_result(folder: Path) -> None:
    save(folder)
    evaluate(folder)


def prepare_few(folder: Path) -> None:
    ap.save_scores(SCORES.isel(model=slice(2)), folder / "few.zarr", models_per_chunk=2)
    evaluate(folder, source="few.zarr")
    save(folder)


def prepare_other_result(folder: Path) -> None:
    save(folder)
    evaluate(folder, level=0.5)


def prepare_runs(folder: Path) -> None:
    (folder / "runs").mkdir()
    for name in "ab":
        lines = [f"q{query} Q0 d{item} 0 {RNG.random():.3f} {name}" for query in range(2) for item in range(5)]
        (folder / "runs" / name).write_text("\n".join(lines))
    (folder / "qrels").write_text("q0 0 d1 1\nq0 0 d2 0\nq1 0 d3 1\nq1 0 d4 0\n")


def prepare_run(folder: Path) -> None:
    prepare_runs(folder)
    trec.import_trec(folder / "runs" / "a", folder / "qrels", folder / "scores.zarr")


def append(folder: Path, *, overwrite: bool = False) -> None:
    trec.import_trec(folder / "runs" / "b", folder / "qrels", folder / "scores.zarr", append=True)


def prepare_table(folder: Path) -> None:
    SCORES["score"].to_pandas().T.assign(label=SCORES["label"]).to_csv(folder / "table.csv", index_label="item")


def prepare_more(folder: Path) -> None:
    prepare_table(folder)
    options = {"label": "label", "item": "item", "models": ["a", "b"]}
    tables.import_table(folder / "table.csv", folder / "scores.zarr", **options)
    evaluate(folder)


# What is there before, the job that is disturbed, and the call after that.
JOBS: dict[str, tuple[Callable[[Path], None], Call, Call]] = {
    "save": (prepare_nothing, save, save),
    "overwrite scores": (prepare_other_scores, save_again, save_again),
    "overwrite scores, then save": (prepare_other_scores, save_again, save),
    "import trec": (prepare_runs, import_trec, import_trec),
    "import table": (prepare_table, import_table, import_table),
    "import more, then extend": (prepare_more, import_more, import_more),
    "append": (prepare_run, append, append),
    "compare": (prepare_result, compare, compare),
    "verify": (prepare_result, verify, verify),
    "run": (prepare_scores, evaluate, evaluate),
    "add models": (prepare_few, evaluate, evaluate),
    "add resamples": (prepare_result, add_resamples, add_resamples),
    "overwrite a result": (prepare_other_result, evaluate_again, evaluate_again),
    "overwrite a result, then resume": (prepare_other_result, evaluate_again, evaluate),
}


def disturbed(number: int, folder: Path, disturb: Callable[[], None]) -> Callable[[], int]:
    """Count changes below a folder from now on, and do something before the given one.

    Return a function that tells the count.
    """
    left = number
    place = str(folder)

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        changes = event in CHANGES or (event == "open" and _writes(arguments))
        if changes and arguments and str(arguments[0]).startswith(place):
            left -= 1
            if left == 0:
                disturb()

    sys.addaudithook(count)
    return lambda: number - left


def kill() -> None:
    """End this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def _writes(arguments: tuple[Any, ...]) -> bool:
    return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def begun(work: Callable[[], None]) -> tuple[int, int]:
    """Do the work in another process; return its number, and where it will tell how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        outcome = "done"
        try:
            work()
        except AucprError as error:
            outcome = f"{type(error).__name__}: {error}"
        except BaseException:
            outcome = f"bare: {traceback.format_exc()}"
        os.write(writing, outcome.encode()[:4000])
        os._exit(0)
    os.close(writing)
    return child, reading


def ended(child: int, reading: int) -> str:
    """Wait for a process; return how it ended: "done", "killed" or an error in words."""
    with os.fdopen(reading, "rb") as stream:
        outcome = stream.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return "killed" if os.WIFSIGNALED(status) else outcome


def forked(work: Callable[[], None]) -> str:
    """Do the work in another process; return how it ended."""
    return ended(*begun(work))


def digest_of(folder: Path) -> dict[str, str]:
    """Return a digest of every file, random tokens apart."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def killed(number: int, place: Path, job: Call) -> str:
    """Kill a job at a point."""

    def attempt() -> None:
        disturbed(number, place, kill)
        job(place)

    return forked(attempt)


def cut_off(number: int, place: Path, job: Call) -> str:
    """Let the power fail at a point: files that were not synced since they were written are empty, torn or zeros.

    As on file systems with a journal, changes of names stay in order: what the N-th change would leave of them, if the
    last ones are lost, is what an earlier point leaves.
    """
    log = place.with_name("synced")
    log.write_text("".join(f"{file.stat().st_ino}\n" for file in place.rglob("*") if file.is_file()))

    def attempt() -> None:
        synced = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.fsync = lambda handle: os.write(synced, f"{os.fstat(handle).st_ino}\n".encode())  # type: ignore[assignment]

        def sync_file_system(folder: Path) -> bool:
            for file in folder.rglob("*") if number % 2 else ():  # otherwise one by one, as other systems do
                os.write(synced, f"{file.stat().st_ino}\n".encode())
            return number % 2 == 1

        aucpr_dask.storage.backends.sync_file_system = sync_file_system
        disturbed(number, place, kill)
        job(place)

    outcome = forked(attempt)
    kept = set(map(int, log.read_text().split()))
    for file in place.rglob("*") if outcome == "killed" else ():
        if file.is_file() and file.stat().st_ino not in kept:
            content = file.read_bytes()
            torn = content[: len(content) // 2 // 512 * 512]
            file.write_bytes((b"", torn, b"\0" * len(content))[number % 3])
    return outcome


def overtaken(number: int, place: Path, job: Call) -> tuple[str, str]:
    """Let a job wait at a point until the same call has ended elsewhere; return how the two ended."""
    (waiting, waits), (going, goes) = os.pipe(), os.pipe()

    def wait() -> None:
        os.write(waits, b".")
        os.read(going, 1)

    def attempt() -> None:
        disturbed(number, place, wait)
        job(place)

    child = begun(attempt)
    os.close(waits)
    other = forked(lambda: job(place)) if os.read(waiting, 1) else ""
    os.write(goes, b".")
    outcome = ended(*child)
    for handle in (waiting, going, goes):
        os.close(handle)
    return outcome, other


DISTURBANCES: dict[str, Callable[[int, Path, Call], str]] = {"killed": killed, "cut off": cut_off}


class Trial:
    """A job that is done again and again in one place, beginning with the same files."""

    def __init__(self, name: str, folder: Path) -> None:
        prepare, self.job, self.call_again = JOBS[name]
        self._start, self.place = folder / "start", folder / "place"
        self._start.mkdir()
        assert (outcome := forked(lambda: prepare(self._start))) == "done", outcome
        self.begin()
        names = folder / "modules"
        assert (outcome := forked(lambda: self._do_and_list_modules(names))) == "done", outcome
        self._expected = digest_of(self.place)
        before = digest_of(self._start)
        self.n_written = sum(before.get(name) != digest for name, digest in self._expected.items())
        for name in names.read_text().splitlines():  # here, so that no attempt has to import them
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

    def _do_and_list_modules(self, names: Path) -> None:
        """Do the job, and write the names of all modules that it has imported."""
        self.job(self.place)
        names.write_text("\n".join(sys.modules))

    def begin(self) -> None:
        """Bring back the files from before the job."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self._start, self.place)

    def differing(self, *, but_copies: bool = False) -> list[str]:
        """Return the names of files that are not as an undisturbed job leaves them, perhaps but for hidden copies."""
        found, expected = digest_of(self.place), self._expected
        names = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
        return [name for name in names if not (but_copies and name.startswith("."))]


def every_point(name: str, folder: Path, step: int = 1, how: str = "killed") -> dict[str, Any]:
    """Disturb a job at each point, call it again, and report what did not end as if undisturbed."""
    trial, number = Trial(name, folder), 1
    report: dict[str, Any] = {"points": 0, "written": trial.n_written, "again": 0, "finished": 0, "remedy": 0}
    report |= {"wrong": [], "unfinished": 0}
    while True:
        trial.begin()
        if (outcome := DISTURBANCES[how](number, trial.place, trial.job)) == "done":
            assert not trial.differing()
            return report
        assert outcome == "killed", outcome
        report["points"] += 1
        way, outcome = "again", forked(lambda: trial.call_again(trial.place))
        if any(words in outcome for words in IS_DONE) and not trial.differing(but_copies=name == "append"):
            way, outcome = "finished", "done"  # killed when all was done
        elif "overwrite=True" in outcome:
            report["refusal"] = outcome[:600]
            way, outcome = "remedy", forked(lambda: trial.call_again(trial.place, overwrite=True))
        if outcome == "done" and not trial.differing(but_copies=way == "finished"):
            report[way] += 1
            report["unfinished"] += way != "finished" and report["finished"] > 0  # after it was
        else:
            report["wrong"].append({"point": number, "outcome": outcome[:600], "files": trial.differing()[:6]})
        number += step


def every_meeting(name: str, folder: Path, step: int = 1) -> dict[str, Any]:
    """Let two identical calls meet at each point, and report how they ended and what differed."""
    trial, number = Trial(name, folder), 1
    report: dict[str, Any] = {"points": 0, "written": trial.n_written, "again": 0, "refused": 0, "wrong": []}
    while True:
        trial.begin()
        outcome, other = overtaken(number, trial.place, trial.job)
        if not other:
            assert outcome == "done", outcome
            return report
        report["points"] += 1
        refused = [end for end in (outcome, other) if "now belongs to another run" in end or IN_THE_WAY in end]
        if [outcome, other].count("done") + len(refused) < 2 or len(refused) == 2 or trial.differing():
            wrong = {"point": number, "outcome": outcome[-600:], "other": other[-600:]}
            report["wrong"].append(wrong | {"files": trial.differing()[:6]})
        else:
            report["refused" if refused else "again"] += 1
        number += step


def answer(folder: str, name: str, how: str, step: int) -> dict[str, Any]:
    """Disturb a job as asked, and report what was found, or why it failed."""
    try:
        place = Path(folder)
        return every_meeting(name, place, step) if how == "met" else every_point(name, place, step, how)
    except Exception:
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    run_here()
    import distributed  # noqa: F401

    # Loads kernels and finds xarray's plugins, which every fork then has.
    xr.backends.list_engines()
    lazy = ap.evaluate(SCORES.chunk(), interval=["bootstrap"], n_resamples=5, keep_replicates=True)
    lazy.compute(scheduler="synchronous")
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)
