"""Runs on a real Slurm whose jobs reach their lifetime, or are taken away, in the middle."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml
from conftest import pooled
from distributed import Client, get_task_stream
from slurm_site import SiteError, cancel, jobs, missing_programs, slurm_site
from test_run import assert_same_bits

import aucpr_dask as ap
from aucpr_dask.errors import ClusterError

pytestmark = pytest.mark.slow
pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")

N_MODELS, N_BLOCKS = 300, 150
OPTIONS: dict[str, Any] = {"interval": ["logit", "bootstrap"], "n_resamples": 500, "seed": 3}
SHIPPED = Path(__file__).parents[1] / "cluster" / "slurm.yaml"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which this site's commands work."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"Slurm is not installed (Debian: slurm-wlm, munge): no {', '.join(missing)}")
    try:
        with slurm_site(tmp_path_factory.mktemp("slurm")) as environment:
            yield environment
    except SiteError as error:
        pytest.skip(f"Slurm does not start on this machine: {error}")


@pytest.fixture(autouse=True)
def quick_site(site: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Talk to this site, submit many blocks one by one, and wait a second only for a worker that is lost."""
    monkeypatch.setenv("SLURM_CONF", site["SLURM_CONF"])
    monkeypatch.setenv("PATH", site["PATH"])
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1000)
    monkeypatch.setattr("aucpr_dask.runs.planning.MOST_TOGETHER", 1)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}):
        yield


@pytest.fixture
def source(tmp_path: Path) -> Path:
    ap.save_scores(pooled(N_MODELS), tmp_path / "scores.zarr")
    return tmp_path / "scores.zarr"


def configuration(folder: Path, scaling: dict[str, Any], **options: Any) -> Path:
    """Write the shipped configuration with what is this site's own."""
    document = yaml.safe_load(SHIPPED.read_text())
    document = {name: value for name, value in document.items() if name != "adapt"}
    own = {"queue": "all", "account": None, "interface": "lo", "memory": "1GB", "walltime": "00:10:00"}
    own |= {"log_directory": str(folder / "logs"), "scheduler_options": {"dashboard_address": ":0", "interface": "lo"}}
    document |= own | options
    path = folder / "slurm.yaml"
    path.write_text(yaml.safe_dump(document | scaling))
    return path


class Jobs:
    """Which job each worker belongs to, for workers that come and go."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._job_of_worker: dict[str, int] = {}

    def look(self) -> set[int]:
        """Return the jobs that have a worker now, one that takes tasks: it is prepared before."""
        now = self._client.run(os.getenv, "SLURM_JOB_ID", on_error="ignore")
        self._job_of_worker |= {address: int(job) for address, job in now.items()}
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        running = {address for address, worker in workers.items() if worker["status"] == "running"}
        return {self._job_of_worker[address] for address in now.keys() & running}

    def wait(self, condition: Callable[[set[int]], bool], seconds: float = 90) -> set[int]:
        """Return the jobs that have a worker, as soon as they satisfy the condition."""
        deadline = time.monotonic() + seconds
        while not condition(now := self.look()):
            assert time.monotonic() < deadline, f"jobs so far: {set(self._job_of_worker.values())}"
            time.sleep(0.2)
        return now

    def seen(self) -> list[int]:
        """Return all jobs that were ever there, in their order."""
        return sorted(set(self._job_of_worker.values()))

    def count(self, tasks: list[dict[str, Any]]) -> Counter[int]:
        """Return how many blocks each job computed."""
        workers = [task["worker"] for task in tasks if task["key"].startswith("evaluate_task")]
        return Counter(self._job_of_worker[worker] for worker in workers if worker in self._job_of_worker)


# In both tests a client that waits at a third of the blocks leaves enough of them to the jobs that come then: fewer
# than two thirds are under way at any time.


def test_workers_reach_their_lifetime_and_are_replaced(source: Path, tmp_path: Path) -> None:
    lifetime = ["--lifetime", "20s", "--lifetime-stagger", "4s"]  # more than a start takes on a slow machine
    scaling = {"adapt": {"minimum": 2, "maximum": 2, "interval": "1s"}}
    path = configuration(tmp_path, scaling, worker_extra_args=lifetime)
    with ap.connect(path) as client, get_task_stream(client) as stream:
        known = Jobs(client)

        def on_progress(event: Any) -> None:
            if event.tasks_done in (1, N_BLOCKS // 6):
                known.look()
            if event.tasks_done == N_BLOCKS // 3:
                known.wait(lambda now: bool(now - set(known.seen()[:2])))

        result = ap.run(source, tmp_path / "result.zarr", workers=client, on_progress=on_progress, **OPTIONS)
        known.look()
    blocks = known.count(stream.data)
    assert sum(blocks[job] for job in known.seen()[:2]) > 0
    assert sum(blocks[job] for job in known.seen()[2:]) > 0  # there are never more than two at a time
    assert_same_bits(result, ap.evaluate(pooled(N_MODELS), **OPTIONS))


def test_a_job_is_cancelled_in_the_middle(site: dict[str, str], source: Path, tmp_path: Path) -> None:
    """The last to come replaces the one that was taken away."""
    path = configuration(tmp_path, {"adapt": {"minimum": 2, "maximum": 2, "interval": "1s"}})
    with ap.connect(path) as client, get_task_stream(client) as stream:
        known = Jobs(client)
        taken, kept = sorted(known.wait(lambda now: len(now) == 2))

        def on_progress(event: Any) -> None:
            if event.tasks_done == 5:
                cancel(taken, site)
            if event.tasks_done == N_BLOCKS // 3:
                known.wait(lambda now: len(now) == 2 and taken not in now)

        result = ap.run(source, tmp_path / "result.zarr", workers=client, on_progress=on_progress, **OPTIONS)
    blocks = known.count(stream.data)
    assert blocks[taken] < blocks[kept]
    assert blocks[known.seen()[-1]] > 0
    assert known.seen()[-1] not in (taken, kept)
    assert_same_bits(result, ap.evaluate(pooled(N_MODELS), **OPTIONS))
    assert not running(site)


def test_the_command_line(site: dict[str, str], source: Path, tmp_path: Path) -> None:
    scaling = {"adapt": {"minimum": 0, "maximum": 2, "interval": "1s"}}  # no worker until there is something to do
    path = configuration(tmp_path, scaling)
    target = tmp_path / "result.zarr"
    command = [sys.executable, "-m", "aucpr_dask", "evaluate", str(source), str(target), "--workers", str(path)]
    done = subprocess.run(command, env=site, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert_same_bits(ap.open_result(target), ap.evaluate(pooled(N_MODELS)))
    assert list((tmp_path / "logs").glob("*.err"))
    assert not running(site)


def running(site: dict[str, str], seconds: float = 10) -> dict[int, str]:
    """Return the jobs that are still there after some seconds."""
    deadline = time.monotonic() + seconds
    while jobs(site) and time.monotonic() < deadline:
        time.sleep(0.2)
    return jobs(site)


@pytest.mark.parametrize("scaling", [{"n_workers": 1}, {"scale": 1}, {"adapt": {"minimum": 1, "maximum": 2}}])
def test_refusals_by_slurm_are_reported_at_once(tmp_path: Path, scaling: dict[str, Any]) -> None:
    path = configuration(tmp_path, scaling, queue="nowhere")
    before = signal.getsignal(signal.SIGINT)
    with (
        pytest.raises(ClusterError, match=r"(?s)SLURMCluster could not be started.*invalid partition"),
        ap.connect(path),
    ):
        pass
    assert signal.getsignal(signal.SIGINT) is before
