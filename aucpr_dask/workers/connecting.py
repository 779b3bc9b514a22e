"""Connect to workers: processes of this machine, those of a scheduler, or a cluster that a file describes."""

from __future__ import annotations

import ast
import importlib
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import dask
import distributed
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_timedelta
from distributed import Client, LocalCluster, Security, SpecCluster, Status, default_client

from aucpr_dask.errors import ClusterError, InvalidInputError
from aucpr_dask.schema.checks import whole_number
from aucpr_dask.storage.urls import StoreName
from aucpr_dask.workers.preparing import IN_PROCESS, address_of, agreeing, refusals

Workers = None | int | str | Path | Client | distributed.deploy.Cluster

SUFFIXES = (".yaml", ".yml")
SCALING = {"scale": int, "adapt": dict}
PATIENCE = 600.0  # seconds to wait for the first worker, unless the caller or a file says otherwise
# Classes that a file may name: what else could be imported and called, could do anything.
CLASSES = re.compile(r"(dask|distributed|coiled|dask_\w+)(\.\w+)*\.\w*Cluster|distributed\.Client")
HERE = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}  # nobody else can look at the dashboard

GUARD = (
    'put the call under `if __name__ == "__main__":` in a script file, because every worker imports that file; or pass '
    "a running client: workers=..."
)
# How often Dask looks at its own processes. By default, 50 and 100 times a second, which takes 4.5 % of a core for
# every worker and 6.6 % for the scheduler with its client; with these settings, 1 % and 3 %. If gilknocker is
# installed, Dask also looks at Python's lock a thousand times a second, and warns if that takes too long.
SELDOM = {
    "distributed.admin.tick.interval": "500 ms",
    "distributed.worker.profile.interval": "100 ms",
    "distributed.admin.system-monitor.gil.enabled": False,
    # Tasks of a stopped process are given to another within twice this; on a crowded machine, it may start as slowly.
    "distributed.scheduler.worker-ttl": "30 s",
    "distributed.scheduler.no-workers-timeout": "2 minutes",  # by then, processes have started or never will
}


@contextmanager
def connect(workers: Workers = None, *, patience: str | float | None = None) -> Iterator[Client]:
    """Connect to workers, or start some, and prepare them.

    Workers, including those that join later, reuse freed memory, load compiled kernels from the cache before their
    first task, and import the package in the background.

    Parameters
    ----------
    workers : None, int, str, Path, distributed.Client or a cluster of Dask
        None: the current client of Dask, if there is one, otherwise a local cluster with one single-threaded process
        per core; a number: that many processes; a path that ends in ``.yaml`` or ``.yml``: the cluster described there;
        another string: the address of a scheduler; or a client, or a cluster such as ``LocalCluster`` or that of
        dask-jobqueue or Coiled.
    patience : str or float, optional
        How long to wait for the first worker, such as ``"30 minutes"``; by default 10 minutes, or as the file says.

    Yields
    ------
    distributed.Client
        With at least one worker. A cluster that was started here is closed again.

    Raises
    ------
    ClusterError
        If workers do not start, or have other versions of the package, its sources, Python, numpy or numba, or a
        package that starts them is not installed.

    Examples
    --------
    Runs share one cluster; ``"cluster/slurm.yaml"`` in place of 1 starts it with Slurm:

    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> scores = xr.Dataset({"score": (("model", "item"), [[0.9, 0.1, 0.4]]), "label": ("item", [1, 0, 1])})
    >>> folder = tempfile.mkdtemp()
    >>> ap.save_scores(scores, f"{folder}/scores.zarr")
    >>> with ap.connect(1) as client:
    ...     areas = ap.run(f"{folder}/scores.zarr", f"{folder}/areas.zarr", workers=client)
    ...     points = ap.run(f"{folder}/scores.zarr", f"{folder}/roc.zarr", workers=client, estimator="roc_area")
    >>> float(points["estimate"][0])
    1.0
    """
    seconds = None if patience is None else read_patience(patience, "argument 'patience'")
    with ExitStack() as stack:
        client, where, usual = _connected(workers, stack)
        topic = stack.enter_context(agreeing(client))
        _wait_for_a_worker(client, usual if seconds is None else seconds, where, topic)
        yield client


def current_client() -> Client | None:
    """Return Dask's current client, which its own functions use, too; None if there is none that computes here."""
    client = _default_client()
    return client if client is not None and client.status == "running" and not client.asynchronous else None


@contextmanager
def connect_for(workers: Workers, *places: str, patience: str | float | None = None) -> Iterator[Client]:
    """Connect to workers that can read and write these places: threads, if one is an object of this process."""
    is_here = any(isinstance(place, StoreName) and not place.store.read_only for place in places)
    given = current_client() if workers is None and is_here else workers
    if is_here and not (isinstance(given, Client) and address_of(given).startswith(IN_PROCESS)):
        if not (workers is None or isinstance(workers, int)):
            what = "only this process can write to a store that is an object"
            remedy = "leave out the workers, or give a URL"
            raise ClusterError(what, received=str(workers), allowed="a number of threads", remedy=remedy)
        n_threads = CPU_COUNT if workers is None else whole_number(workers, "workers", 1)
        threads: dict[str, Any] = HERE | {"n_workers": 1, "threads_per_worker": n_threads, "processes": False}
        with LocalCluster(**threads) as cluster, connect(cluster) as client:
            yield client
        return
    with connect(given, patience=patience) as client:
        yield client


def _connected(workers: Workers, stack: ExitStack) -> tuple[Client, str, float]:
    """Return a client, where its workers are, and how long to wait for the first; the stack closes what starts here."""
    workers = current_client() if workers is None else workers
    workers = int(workers) if isinstance(workers, str) and workers.isdecimal() else workers
    if isinstance(workers, Client):
        if workers.asynchronous or workers.status != "running":
            received = "an asynchronous client" if workers.asynchronous else f"a client that is {workers.status}"
            allowed = "a client that is connected, and not asynchronous"
            remedy = "pass a new distributed.Client(...), or the address of the scheduler"
            raise ClusterError("the client cannot be used", None, received, allowed, remedy)
        return workers, address_of(workers), PATIENCE
    where, wait = "", PATIENCE
    if isinstance(workers, Path) or (isinstance(workers, str) and workers.endswith(SUFFIXES)):
        where = str(workers)
        name, arguments, scaling, wait = _read(where)
        cluster = started(name, arguments, scaling, where)
        if isinstance(cluster, Client):
            return stack.enter_context(cluster), where, wait
        stack.enter_context(cluster)
    elif isinstance(workers, str):
        return stack.enter_context(_client_at(workers)), workers, wait
    elif hasattr(workers, "scheduler_address"):
        cluster = workers
    else:
        n_workers = CPU_COUNT if workers is None else whole_number(workers, "workers", 1)
        cluster = stack.enter_context(started("distributed.LocalCluster", {"n_workers": n_workers}))
    client = stack.enter_context(_new_client(cluster))
    return client, where or address_of(client), wait


def _client_at(address: str, **options: Any) -> Client:
    """Return a client of a scheduler that runs elsewhere."""
    try:
        return _new_client(address, **options)
    except (OSError, TimeoutError, ValueError) as error:
        allowed = "the address of a running scheduler, such as tcp://10.0.0.5:8786"
        remedy = "check the address, that the scheduler runs, and that this machine may connect to it"
        received = f"{type(error).__name__}: {error}"
        raise ClusterError("the scheduler cannot be reached", address, received, allowed, remedy) from error


def _new_client(*arguments: Any, **options: Any) -> Client:
    """Return a client; one that fails is closed, or it stays Dask's default, and the next computation waits for it."""
    before = _default_client()
    try:
        return Client(*arguments, **options)
    except BaseException:
        if (failed := _default_client()) is not None and failed is not before:
            failed.close()
        raise


def _default_client() -> Client | None:
    try:
        client: Client = default_client()
        return client
    except ValueError:  # there is none
        return None


def _wait_for_a_worker(client: Client, seconds: float, where: str, topic: str) -> None:
    if any(worker["status"] == "running" for worker in client.scheduler_info(n_workers=-1)["workers"].values()):
        return
    waiting = client.submit(abs, 0, pure=False)  # an adaptive cluster starts workers only for tasks
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        waiting.cancel()
        if client.scheduler_info(n_workers=-1)["workers"]:  # all are paused, which a run says with their memory
            return
        what = f"no worker started within {seconds:.0f} s"
        received = "; ".join(refusals(client, topic)) or "a cluster without workers"
        remedy = "look at the logs of the workers' jobs, or scale the cluster; where queues are long, raise patience"
        raise ClusterError(what, where, received, "at least one worker", remedy) from error


# --- a cluster that starts here ---------------------------------------------------------------------------------------


def started(
    name: str, arguments: Mapping[str, Any], scaling: Mapping[str, Any] | None = None, where: str | None = None
) -> Any:
    """Return a cluster that starts, as an instance of a class; or a client of one that runs elsewhere."""
    module, _, of_class = name.rpartition(".")
    try:
        build = getattr(_imported(module), of_class)
    except (ImportError, AttributeError) as error:
        remedy = f"install the package that has {name}"
        raise ClusterError("the class that starts the workers is not there", where, error, None, remedy) from error
    if build is Client:
        return _client_at(**arguments)
    is_local = build is LocalCluster
    if is_local:
        _refuse_unguarded()
        arguments = {**HERE, "n_workers": CPU_COUNT, **arguments}
    cluster = None
    try:
        with _signals_blocked(), dask.config.set(_unless_configured(SELDOM)):
            cluster = build(**arguments)
        # Raise if the first workers are refused: Dask itself would log that, and wait for them in vain.
        scaling = scaling or {}
        adapt = scaling.get("adapt")
        first = scaling.get("scale", 0) if adapt is None else adapt.get("minimum", 0)
        if first or "scale" in scaling:
            cluster.scale(first)
        if isinstance(cluster, SpecCluster):
            cluster.sync(_submitted, cluster)
        if adapt is not None:
            cluster.adapt(**adapt)
    except Exception as error:  # other packages and systems may raise anything
        if cluster is not None:
            with suppress(Exception):  # the first error says more
                cluster.close()
        reason = error.__cause__ or error
        what, received = f"{of_class} could not be started", f"{type(reason).__name__}: {reason}"
        of_script = f"see what Dask says above; if nothing, {GUARD}"
        raise ClusterError(what, where, received, None, of_script if is_local else None) from error
    return cluster


def _imported(module: str) -> ModuleType:
    """Import a module, and keep what Ctrl-C does: dask_jobqueue lets it end the process, as if all were done."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module(module)
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


async def _submitted(cluster: Any) -> None:
    """Wait until the jobs of a cluster are in the queue; other workers of such clusters have started."""
    try:
        await cluster
        for job in cluster.workers.values():
            await job
    except Exception:
        for job in cluster.workers.values():
            if job.status == Status.created:
                job.status = Status.failed  # or Dask would not close the cluster
        raise


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Let processes that start ignore Ctrl-C, because this process ends them in order."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # otherwise it starts with the first worker, and unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _refuse_unguarded() -> None:
    """Raise if this call is at the top of a script: every worker would run it all again, and fail in the same way."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not (frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] == "__main__"):
        frame = frame.f_back
    script = None if frame is None else frame.f_globals.get("__file__")
    if frame is None or script is None or frame.f_globals.get("__spec__") is not None:
        return
    with suppress(OSError, SyntaxError, UnicodeDecodeError):
        statements = ast.parse(Path(script).read_bytes()).body
        here = [one for one in statements if one.lineno <= frame.f_lineno <= (one.end_lineno or 0)]
        if here and not (isinstance(here[0], ast.If) and "__main__" in ast.unparse(here[0].test)):
            where, what = f"{script}, line {frame.f_lineno}", "worker processes could not be started"
            raise ClusterError(what, where, "a call that each of them would repeat", None, GUARD)


def _unless_configured(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings of Dask that are still its defaults."""
    defaults = dask.config.merge(*dask.config.defaults)
    return {
        name: value
        for name, value in settings.items()
        if dask.config.get(name) == dask.config.get(name, config=defaults)
    }


# --- the file that describes one --------------------------------------------------------------------------------------


def _read(where: str) -> tuple[str, dict[str, Any], dict[str, Any], float]:
    """Return the class of a file, its arguments, how to scale it, and how long to wait for the first worker."""
    try:
        document = _expanded(yaml.safe_load(Path(where).read_text(encoding="utf-8")), where)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InvalidInputError("the description of workers cannot be read", where, error) from error
    allowed = "class: dask_jobqueue.SLURMCluster, then its arguments; and scale or adapt, patience"
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise InvalidInputError("a description of workers is a mapping of names", where, repr(document), allowed)
    name = document.pop("class", None)
    if not (isinstance(name, str) and CLASSES.fullmatch(name)):
        what = "this is no class of clusters of Dask"
        raise InvalidInputError(what, where, f"class: {name}", f"{allowed}; of dask, distributed, dask_* or coiled")
    scaling = {method: document.pop(method) for method in SCALING if method in document}
    if len(scaling) > 1 or any(type(value) is not SCALING[method] for method, value in scaling.items()):
        received = ", ".join(f"{key}: {value}" for key, value in scaling.items())
        raise InvalidInputError("this is no number of workers", where, received, "scale: 16, or adapt: {maximum: 16}")
    wait = read_patience(document.pop("patience", PATIENCE), where)
    if isinstance(document.get("security"), dict):
        document["security"] = Security(**{"require_encryption": True} | document["security"])
    return name, document, scaling, wait


def _expanded(value: Any, where: str) -> Any:
    """Replace ``${NAME}`` by environment variables, everywhere in a document."""
    if isinstance(value, dict):
        return {key: _expanded(item, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, where) for item in value]
    if not isinstance(value, str):
        return value
    absent = [name for name in re.findall(r"\$\{(\w+)\}", value) if name not in os.environ]
    if absent:
        remedy = f"export {absent[0]}=...; write $NAME for variables that the shell of a job replaces"
        raise InvalidInputError("an environment variable is not set", where, value, remedy=remedy)
    return re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], value)


def read_patience(value: Any, where: str) -> float:
    """Return a length of time in seconds."""
    try:
        return float(parse_timedelta(value))
    except (TypeError, ValueError, KeyError) as error:
        allowed = "12 hours, 30 minutes, 90"
        raise InvalidInputError("not a length of time", where, f"patience: {value}", allowed) from error
