"""A run over several hosts, each with its own network address, one of which is cut off in the middle."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import pooled
from hosts import Host, NotPermitted, joined_hosts
from test_run import assert_same_bits

import aucpr_dask as ap

pytestmark = pytest.mark.slow

N_MODELS, N_BLOCKS = 120, 60
OPTIONS: dict[str, Any] = {"interval": ["logit", "bootstrap"], "n_resamples": 10_000, "seed": 3}

# Dask gives a silent host half a minute until it counts as lost; here the least that it accepts.
QUICK = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s"}

# Prints each number of finished blocks; at the end, which worker computed how many, and which are still there.
CLIENT = """
import collections, json, sys
from distributed import Client, get_task_stream
import aucpr_dask as ap
address, source, target, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
with Client(address) as client:
    client.wait_for_workers(2, timeout=60)
    with get_task_stream(client) as stream:
        ap.run(source, target, workers=client, on_progress=lambda now: print(now.tasks_done, flush=True), **options)
    blocks = collections.Counter(task["worker"] for task in stream.data if task["key"].startswith("evaluate_task"))
    print(json.dumps({"blocks": blocks, "workers": list(client.nthreads())}))
"""


@pytest.fixture
def hosts() -> Iterator[Sequence[Host]]:
    """Four of them: a scheduler's, a client's, and two of workers."""
    with ExitStack() as stack:
        try:
            hosts = stack.enter_context(joined_hosts(4))
        except NotPermitted as error:
            pytest.skip(f"no network namespaces on this machine: {error}")
        yield hosts


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 1000)
    ap.save_scores(pooled(N_MODELS), tmp_path / "scores.zarr")
    return tmp_path / "scores.zarr"


def start_cluster(hosts: Sequence[Host], folder: Path, stack: ExitStack) -> str:
    """Start a scheduler on the first host and a worker on each of the last two; return the scheduler's address."""
    scheduler, _, *workers = hosts
    options: dict[str, Any] = {"env": os.environ | QUICK, "log": folder / "cluster.log", "cwd": folder}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    stack.enter_context(scheduler.running(*command, "--host", scheduler.address, "--port", "8786", **options))
    address = f"tcp://{scheduler.address}:8786"
    for worker in workers:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", "--nthreads", "1"]
        command += ["--host", worker.address, "--local-directory", str(folder / worker.namespace)]
        stack.enter_context(worker.running(*command, **options))
    return address


def test_a_run_over_hosts_of_which_one_is_cut_off(hosts: Sequence[Host], source: Path, tmp_path: Path) -> None:
    _, client, first, second = hosts
    expected = ap.evaluate(pooled(N_MODELS), **OPTIONS)
    with ExitStack() as stack:
        address = start_cluster(hosts, tmp_path, stack)

        quiet = run_on(client, address, source, tmp_path / "quiet.zarr")
        assert quiet["events"] == list(range(1, N_BLOCKS + 1))
        assert_same_bits(ap.open_result(tmp_path / "quiet.zarr"), expected)
        assert len(quiet["workers"]) == 2
        assert min(blocks_of(first, quiet), blocks_of(second, quiet)) > 0

        cut = run_on(client, address, source, tmp_path / "cut.zarr", {N_BLOCKS // 4: first.pull_the_cable})
        assert cut["events"] == quiet["events"]
        assert_same_bits(ap.open_result(tmp_path / "cut.zarr"), expected)
        assert [second.address in worker for worker in cut["workers"]] == [True]
        assert 0 < blocks_of(first, cut) < N_BLOCKS // 2
        assert blocks_of(first, cut) + blocks_of(second, cut) == N_BLOCKS


def run_on(
    client: Host, address: str, source: Path, target: Path, actions: Mapping[int, Callable[[], None]] | None = None
) -> dict[str, Any]:
    """Run on a host, act when the given number of blocks is done, and return the output."""
    program = [sys.executable, "-c", CLIENT, address, str(source), str(target), json.dumps(OPTIONS)]
    events: list[int] = []
    with subprocess.Popen(client.command(*program), stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout or ():
                if not line.strip().isdecimal():
                    return {"events": events, **json.loads(line)}
                events.append(int(line))
                (actions or {}).get(events[-1], lambda: None)()
        finally:
            client.kill_everything()
    raise AssertionError(f"the client ended after {len(events)} blocks")


def blocks_of(host: Host, report: dict[str, Any]) -> int:
    return sum(n for worker, n in report["blocks"].items() if host.address in worker)
