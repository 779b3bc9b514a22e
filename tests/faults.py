"""Faults that are put into runs on purpose, at times drawn by a seed; and what became of the runs.

Every function runs evaluations, injects one fault into each, lets the same call resume, and compares the result with
that of an undisturbed run, bit by bit. The tests ask that all survive; the page of faults shows the figures.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import functools
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
from conftest import pooled, queried
from distributed import Client, Scheduler, Status, Worker, WorkerPlugin
from test_run import assert_same_bits

import aucpr_dask as ap
import aucpr_dask.runs.run
import aucpr_dask.storage.stores
from aucpr_dask.errors import AucprError, ClusterError, OtherRunError, RunError, StoreError
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import plan_run
from aucpr_dask.workers.connecting import started

CHUNK_BYTES = 1000
OPTIONS: dict[str, Any] = {"estimator": ["average_precision", "continuous"], "interval": ["logit", "bootstrap"]}
OPTIONS |= {"n_resamples": 100, "keep_replicates": True}
BLOCK_SECONDS = 0.02  # about; delays are drawn up to here
POISON = 1e30  # a score


@dataclass
class Tally:
    """What a kind of fault did: runs into which it was put, and those whose result was right in the end."""

    injected: int = 0
    survived: int = 0
    blocks: int = 0
    tasks: int = 0
    seconds: float = 0.0
    remarks: dict[str, int] = field(default_factory=dict)

    @property
    def recomputed(self) -> int:
        """Tasks that were started beyond one for each block."""
        return self.tasks - self.blocks

    def note(self, remark: str) -> None:
        self.remarks[remark] = self.remarks.get(remark, 0) + 1


@contextmanager
def small_chunks(n_bytes: int = CHUNK_BYTES) -> Iterator[None]:
    """Cut the small stores of the trials into many blocks."""
    before = aucpr_dask.storage.stores.CHUNK_BYTES
    aucpr_dask.storage.stores.CHUNK_BYTES = n_bytes
    try:
        yield
    finally:
        aucpr_dask.storage.stores.CHUNK_BYTES = before


class Trial:
    """One score store, what its evaluation gives, and results of runs into which faults are put."""

    def __init__(self, folder: Path, seed: int = 0, times: int = 20) -> None:
        self.folder = folder
        self.times = times
        self.source = folder / "scores.zarr"
        self.log = folder / "tasks"
        self.random = np.random.default_rng(seed)
        self._n_targets = 0
        self.log.touch()
        with small_chunks():
            ap.save_scores(queried(11, 5, 40), self.source)
            self.plan = plan_run(self.source, **OPTIONS)
        self.expected = ap.evaluate(queried(11, 5, 40), **OPTIONS)

    @property
    def n_blocks(self) -> int:
        return len(self.plan.tasks)

    def new_target(self) -> Path:
        self._n_targets += 1
        return self.folder / f"result-{self._n_targets}.zarr"

    def run(self, target: Path, cluster: Any, **options: Any) -> Any:
        with small_chunks():
            return ap.run(self.source, target, workers=cluster, **OPTIONS | options)

    def n_tasks(self) -> int:
        """Return how many tasks have been started by workers that are watched."""
        return self.log.stat().st_size

    def draw_block(self) -> int:
        return int(self.random.integers(0, self.n_blocks))

    def draw_delay(self) -> float:
        return float(self.random.random() * BLOCK_SECONDS)

    @contextmanager
    def tally(self) -> Iterator[Tally]:
        tally, tasks, started = Tally(), self.n_tasks(), time.monotonic()
        yield tally
        tally.tasks += self.n_tasks() - tasks
        tally.seconds = time.monotonic() - started

    def judge(self, tally: Tally, target: Path, expected: Any = None) -> None:
        """Compare a finished result with what it has to be, and look for what should not be left."""
        assert_same_bits(ap.open_result(target), self.expected if expected is None else expected)
        left = {str(path.relative_to(target / "ledger")) for path in (target / "ledger").rglob("*") if path.is_file()}
        assert "state.json" in left
        assert left <= {"state.json", "digests.npy"}, left
        tally.survived += 1
        tally.blocks += self.n_blocks


# Instructions to workers


class Watch(WorkerPlugin):
    """Note each task that a worker starts, by one byte in a file; fall ill with poisoned blocks."""

    name = "watch"

    def __init__(self, log: Path, on_poison: Callable[[], object] | None = None, lethal_rename: int = 0) -> None:
        self.log = str(log)
        self.on_poison = on_poison
        self.lethal_rename = lethal_rename

    def setup(self, worker: Any = None) -> None:
        from aucpr_dask.runs import tasks

        if not hasattr(tasks, "_watched"):
            tasks._watched = tasks.evaluate_task, tasks.evaluate_part
        task, part = tasks._watched
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND)

        @functools.wraps(task)
        def evaluate_task(*args: Any) -> Any:
            os.write(log, b".")
            return task(*args)

        @functools.wraps(part)
        def evaluate_part(scores: Any, *args: Any, **kwargs: Any) -> Any:
            if self.on_poison is not None and bool((scores["score"] >= POISON).any()):
                self.on_poison()
            return part(scores, *args, **kwargs)

        tasks.evaluate_task, tasks.evaluate_part = evaluate_task, evaluate_part
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(1))
        signal.signal(signal.SIGUSR2, lambda *_: ctypes.string_at(0))
        faulthandler.disable()
        if self.lethal_rename:
            _die_at_rename(self.lethal_rename)


def _die_at_rename(number: int) -> None:
    """Let the whole process group die when this process gives a file its name for the n-th time, half of it written."""
    rename, count = os.replace, 0

    def replace(path: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.truncate(path, os.stat(path).st_size // 2)
            os.killpg(0, signal.SIGKILL)
        rename(path, target)

    os.replace = replace


def segfault() -> None:
    faulthandler.disable()
    ctypes.string_at(0)


def eat_memory() -> None:
    """Take memory piece by piece, until someone ends this process."""
    eaten = []
    while True:
        eaten.append(np.ones(1 << 20))
        time.sleep(0.005)


def take_too_much() -> None:
    """Ask for more memory than any process may have."""
    np.ones(1 << 48)


# Processes


@functools.cache
def fork_server() -> ForkServerContext:
    """Return where processes come from: a server that has loaded everything."""
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm"])
    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), path]))
    try:
        forkserver.ensure_running()
    finally:
        os.environ["PYTHONPATH"] = path
    return context


@contextmanager
def local_cluster(folder: Path, n_workers: int = 2, **options: Any) -> Iterator[Client]:
    """Yield the client of a local cluster with nannies, whose worker processes come from the fork server."""
    fork_server()
    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.scheduler.no-workers-timeout": "30 s",
        # A killed worker that is slow to come back, while other tests run, must not be given up for good.
        "distributed.deploy.lost-worker-timeout": "5 minutes",
    }
    quietly = {"local_directory": str(folder), "silence_logs": logging.CRITICAL}
    with (
        dask.config.set(settings),
        started("distributed.LocalCluster", quietly | options | {"n_workers": n_workers}) as cluster,
        Client(cluster) as client,
    ):
        yield client


class Site:
    """A scheduler, workers and perhaps a client as single processes of one process group."""

    def __init__(self, folder: Path, watch: Watch | None = None, n_workers: int = 2) -> None:
        self.processes: dict[str, Any] = {}
        mine, other = fork_server().Pipe()
        self._start("scheduler", _serve_scheduler, other)
        self.group = self.processes["scheduler"].pid
        self.address = mine.recv()
        for number in range(n_workers):
            self._start(f"worker {number}", _serve_worker, self.address, self.group, str(folder), watch)

    def _start(self, name: str, function: Callable[..., None], *arguments: Any) -> None:
        self.processes[name] = fork_server().Process(target=function, args=arguments)
        self.processes[name].start()

    def start_client(self, source: Path, target: Path, **options: Any) -> Connection:
        """Start a run in a separate process, which sends the number of blocks done, and at the end the outcome."""
        process, events = start_run(source, target, self.address, options, self.group)
        self.processes["client"] = process
        events.send("go")
        return events

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].join()

    def signal(self, number: int) -> None:
        """Send a signal to all at once."""
        os.killpg(self.group, number)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        for process in self.processes.values():
            process.kill()
            process.join()
            process.close()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _quietly(work: Any) -> None:
    logging.disable(logging.CRITICAL)
    asyncio.run(work)


def _serve_scheduler(connection: Connection) -> None:
    async def serve() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            connection.send(scheduler.address)
            await scheduler.finished()

    os.setpgid(0, 0)
    _quietly(serve())


def _serve_worker(address: str, group: int, folder: str, watch: Watch | None) -> None:
    async def serve() -> None:
        async with Worker(address, nthreads=1, memory_limit=0, local_directory=folder) as worker:
            await worker.finished()

    os.setpgid(0, group)
    if watch is not None:
        watch.setup()
    _quietly(serve())


def start_run(
    source: Path, target: Path, address: str, options: dict[str, Any], group: int | None = None
) -> tuple[Any, Connection]:
    """Start a process that is ready for a run, and runs it once it is sent something."""
    mine, other = fork_server().Pipe()
    process = fork_server().Process(target=_run, args=(other, group, str(source), str(target), address, options))
    process.start()
    other.close()
    mine.recv()
    return process, mine


def _run(
    connection: Connection, group: int | None, source: str, target: str, address: str, options: dict[str, Any]
) -> None:
    if group is not None:
        os.setpgid(0, group)
    logging.disable(logging.CRITICAL)
    connection.send("ready")
    connection.recv()
    try:
        with small_chunks():
            ap.run(
                source,
                target,
                workers=address,
                on_progress=lambda event: connection.send(event.tasks_done),
                **options,
            )
        connection.send("finished")
    except AucprError as error:
        connection.send(f"ended with {type(error).__name__}")


# Faults


@contextmanager
def once_started(trial: Trial, tally: Tally, action: Callable[[], object]) -> Iterator[None]:
    """Act while a run is under way: a moment after the given number of its tasks has started."""
    n_tasks, delay, before = trial.draw_block() + 1, trial.draw_delay(), trial.n_tasks()
    over = threading.Event()

    def wait() -> None:
        while trial.n_tasks() < before + n_tasks:
            if over.wait(0.0005):
                return
        time.sleep(delay)
        with suppress(ProcessLookupError):
            action()
            tally.injected += 1

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


SIGNALS = {"exit": signal.SIGUSR1, "SIGKILL": signal.SIGKILL, "segfault": signal.SIGUSR2}


def kill_workers(trial: Trial, client: Client, how: str) -> Tally:
    """Kill a worker in the middle of a run."""
    client.register_plugin(Watch(trial.log))
    with trial.tally() as tally:
        for _ in range(2 * trial.times):
            target = trial.new_target()
            pid = workers(client)[int(trial.random.integers(2))]
            before = tally.injected
            with once_started(trial, tally, functools.partial(os.kill, pid, SIGNALS[how])):
                trial.run(target, client)
            if tally.injected == before:
                tally.note("a worker had been replaced before it could be killed")
                continue
            # A process takes its time to fall; the next trial must not aim at it.
            until(lambda pid=pid: not psutil.pid_exists(pid), "a killed worker is still there")
            trial.judge(tally, target)
            if tally.injected == trial.times:
                break
    return tally


def workers(client: Client) -> list[int]:
    """Return the processes of both workers; wait until a killed one is replaced, and its nanny knows."""
    while True:
        client.wait_for_workers(2, timeout=240)  # a new worker imports the package while other tests run
        pids = sorted(client.run(os.getpid, on_error="ignore").values())
        watched = [nanny.process for nanny in client.cluster.workers.values()]
        running = sorted(process.pid for process in watched if process and process.status is Status.running)
        if len(pids) == 2 and pids == running:
            return pids
        time.sleep(0.01)


def kill_scheduler(trial: Trial) -> Tally:
    """Kill the scheduler in the middle of a run; the same call resumes with another one."""
    site = Site(trial.folder, Watch(trial.log))
    try:
        with trial.tally() as tally:
            for _ in range(trial.times):
                target = trial.new_target()
                try:
                    with once_started(trial, tally, functools.partial(site.kill, "scheduler")):
                        trial.run(target, site.address)
                    tally.note("had finished")
                except ClusterError:
                    tally.note("ended with ClusterError")
                site.close()
                site = Site(trial.folder, Watch(trial.log))
                trial.run(target, site.address)
                trial.judge(tally, target)
    finally:
        site.close()
    return tally


def kill_client(trial: Trial) -> Tally:
    """Kill the client alone, in the middle of a run; the same call resumes with the same scheduler."""
    with trial.tally() as tally, Site(trial.folder, Watch(trial.log)) as site:
        for _ in range(trial.times):
            target = trial.new_target()
            events = site.start_client(trial.source, target, **OPTIONS)
            with once_started(trial, tally, functools.partial(site.kill, "client")):
                end = drain(events)
            tally.note(f"the client {'was killed in time' if end == 'killed' else 'had finished'}")
            trial.run(target, site.address)
            trial.judge(tally, target)
    return tally


def stop_machine(trial: Trial, client: Client, *, within_a_write: bool) -> Tally:
    """Kill scheduler, workers and client at once, in the middle of a run; it resumes elsewhere."""
    client.register_plugin(Watch(trial.log))
    with trial.tally() as tally:
        for _ in range(trial.times):
            target = trial.new_target()
            # Each of two workers writes about 6 files for each block of the run; one may have the smaller share.
            rename = int(trial.random.integers(1, 2 * trial.n_blocks)) if within_a_write else 0
            with Site(trial.folder, Watch(trial.log, lethal_rename=rename)) as site:
                events = site.start_client(trial.source, target, **OPTIONS)
                if within_a_write:
                    tally.injected += drain(events) == "killed"
                else:
                    with once_started(trial, tally, functools.partial(site.signal, signal.SIGKILL)):
                        drain(events)
            tally.note(f"{'some' if list(target.rglob('*.partial')) else 'no'} temporary files left")
            trial.run(target, client)
            trial.judge(tally, target)
    return tally


def drain(events: Connection) -> str:
    """Wait for the end of a client, and return what it says of it."""
    with suppress(EOFError, ConnectionResetError):
        while not isinstance(event := events.recv(), str):
            pass
        return event
    return "killed"


def pause_machine(trial: Trial) -> Tally:
    """Stop and continue all processes of a run, as a suspended machine does."""
    with trial.tally() as tally, Site(trial.folder, Watch(trial.log)) as site:

        def pause() -> None:
            site.signal(signal.SIGSTOP)
            time.sleep(0.1)
            site.signal(signal.SIGCONT)

        for _ in range(trial.times):
            target = trial.new_target()
            with once_started(trial, tally, pause):
                drain(site.start_client(trial.source, target, **OPTIONS))
            trial.judge(tally, target)
    return tally


@contextmanager
def small_disk(place: Path) -> Iterator[Callable[[int], None]]:
    """Mount a disk in memory, and yield what changes its size; only the superuser may."""
    place.mkdir()

    def mount(*options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", *options, "tmpfs", place], check=True, capture_output=True)

    mount("size=64k")
    try:
        yield lambda kibibytes: mount(f"remount,size={kibibytes}k")
    finally:
        subprocess.run(["umount", place], check=True)


def fill_disk(trial: Trial, client: Client) -> Tally:
    """Let the disk run full in the middle of a run; the same call resumes once there is room."""
    client.register_plugin(Watch(trial.log))
    with trial.tally() as tally, small_disk(trial.folder / "disk") as resize:
        target = trial.folder / "disk" / "result.zarr"
        resize(1 << 16)
        trial.run(target, client)
        needed = shutil.disk_usage(target).used >> 10
        tally.tasks -= trial.n_blocks
        for number in range(trial.times):
            target = trial.folder / "disk" / f"result-{number}.zarr"
            used = shutil.disk_usage(target.parent).used >> 10
            resize(used + int(needed * (0.05 + 0.8 * trial.random.random())))
            try:
                trial.run(target, client, overwrite=target.exists())
            except (RunError, StoreError) as error:
                tally.injected += 1
                is_clear = "disk" in str(error) and str(target) in str(error)
                tally.note(f"{type(error).__name__} {'named' if is_clear else 'did not name'} the disk and the place")
            wait_for(client)
            resize(1 << 18)
            trial.run(target, client, overwrite=target.exists() and not (target / "ledger" / "state.json").exists())
            trial.judge(tally, target)
    return tally


def wait_for(client: Client) -> None:
    """Wait for the tasks that were under way when a run stopped: they may still write their results."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    client.gather([client.submit(abs, -1, workers=[address], pure=False) for address in workers])  # one thread each


def until(is_so: Callable[[], bool], otherwise: str) -> None:
    """Wait for something that is bound to come."""
    late = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < late, otherwise
        time.sleep(0.02)


@contextmanager
def poisoned(trial: Trial, number: int) -> Iterator[None]:
    """Put a value on disk that makes workers ill, into the scores of one block, while this lasts."""
    task = trial.plan.tasks[number]
    scores = queried(11, 5, 40)
    scores["score"][task.slices] = POISON
    ill = trial.folder / "poisoned.zarr"
    with small_chunks():
        ap.save_scores(scores, ill, overwrite=True)
    chunks = [path.relative_to(ill) for path in (ill / "score").rglob("*") if path.is_file()]
    good = {chunk: (trial.source / chunk).read_bytes() for chunk in chunks}
    changed = [chunk for chunk in chunks if (ill / chunk).read_bytes() != good[chunk]]
    assert len(changed) == 1
    (trial.source / changed[0]).write_bytes((ill / changed[0]).read_bytes())
    try:
        yield
    finally:
        (trial.source / changed[0]).write_bytes(good[changed[0]])


def poison_block(trial: Trial, client: Client, illness: Callable[[], object]) -> Tally:
    """Let one task of a run fail at every try; the others are kept, and only it is left once it is fixed."""
    client.register_plugin(Watch(trial.log, on_poison=illness))
    with trial.tally() as tally:
        for _ in range(trial.times):
            target, number = trial.new_target(), trial.draw_block()
            with poisoned(trial, number):
                try:
                    trial.run(target, client)
                except RunError as error:
                    tally.injected += f"1 of {trial.n_blocks} tasks failed" in str(error)
                    tally.note(f"ended with RunError, of a {type(error.__cause__).__name__}")
            failures = Ledger(str(target)).failures()
            assert list(failures) == [number]
            assert failures[number]["error"]
            workers(client)
            events: list[Any] = []
            trial.run(target, client, on_progress=events.append)
            assert len(events) == 1
            trial.judge(tally, target)
    return tally


def run_twice(trial: Trial, client: Client, **options: Any) -> Tally:
    """Start a second run at the same result while the first is under way.

    With the same options both may continue. With `overwrite` the second takes the place, and the first stops.
    """
    client.register_plugin(Watch(trial.log))
    plan = OPTIONS | {name: value for name, value in options.items() if name != "overwrite"}
    expected = ap.evaluate(queried(11, 5, 40), **plan)
    with trial.tally() as tally:
        for _ in range(trial.times):
            target = trial.new_target()
            process, events = start_run(trial.source, target, client.scheduler.address, OPTIONS | options)
            with once_started(trial, tally, functools.partial(events.send, "go")):
                try:
                    trial.run(target, client)
                    first = "finished"
                except OtherRunError as error:
                    first = f"ended with {type(error).__name__}"
            tally.note(f"first {first}, second {drain(events)}")
            process.join()
            wait_for(client)
            trial.judge(tally, target, expected if options.get("overwrite") else None)
    return tally


# Endurance


@dataclass
class Sample:
    """Where a long run was, and what its processes took of the memory."""

    blocks: int
    seconds: float
    mebibytes: dict[str, float]
    cpu_seconds: dict[str, float]


def endure(folder: Path, n_blocks: int = 20_000, every: int = 1000) -> list[Sample]:
    """Evaluate a store of `n_blocks` blocks, and sample the processes' memory and processor time on the way."""
    scores = pooled(n_blocks, 30)
    with small_chunks(240):
        ap.save_scores(scores, folder / "many.zarr")
    samples: list[Sample] = []
    with Site(folder) as site:
        started, events = time.monotonic(), site.start_client(folder / "many.zarr", folder / "many-result.zarr")
        processes = {name: psutil.Process(process.pid) for name, process in site.processes.items()}
        while not isinstance(n_done := events.recv(), str):
            if n_done in (1, n_blocks) or n_done % every == 0:
                memory = {name: process.memory_info().rss / 2**20 for name, process in processes.items()}
                times = {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}
                samples.append(Sample(n_done, time.monotonic() - started, memory, times))
    assert_same_bits(ap.open_result(folder / "many-result.zarr"), ap.evaluate(scores))
    return samples


def memory_of_a_worker() -> int:
    """Return the bytes that a worker from the fork server takes before it has worked."""
    mine, other = fork_server().Pipe()
    process = fork_server().Process(target=_tell_memory, args=(other,))
    process.start()
    n_bytes = int(mine.recv())
    process.join()
    return n_bytes


def _tell_memory(connection: Connection) -> None:
    connection.send(psutil.Process().memory_info().rss)
