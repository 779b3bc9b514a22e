"""Connect to a cluster, or start one from its description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import distributed
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster, default_client

from aucpr_dask.clusters.descriptions import PATIENCE, SUFFIXES, TLS_KEYS, Description, read, read_patience
from aucpr_dask.clusters.workers import IN_PROCESS, address_of, agreeing, refusals
from aucpr_dask.errors import ClusterError
from aucpr_dask.schema.checks import whole_number
from aucpr_dask.storage.urls import StoreName

Cluster = None | int | str | Path | Client | distributed.deploy.Cluster


@contextmanager
def connect(cluster: Cluster = None, *, patience: str | float | None = None) -> Iterator[Client]:
    """Connect to a cluster, or start one, and prepare its workers.

    Workers, including those that join later, reuse freed memory, load compiled kernels from the cache before their
    first task, and import the package in the background.

    Parameters
    ----------
    cluster : None, int, str, Path, distributed.Client or a cluster of Dask
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
    ...     areas = ap.run(f"{folder}/scores.zarr", f"{folder}/areas.zarr", cluster=client)
    ...     points = ap.run(f"{folder}/scores.zarr", f"{folder}/roc.zarr", cluster=client, estimator="roc_area")
    >>> float(points["estimate"][0])
    1.0
    """
    seconds = None if patience is None else read_patience(patience, "argument 'patience'")
    cluster = current_client() if cluster is None else cluster
    if isinstance(cluster, Client):
        _refuse_unusable(cluster)
        with agreeing(cluster) as topic:
            _wait_for_a_worker(cluster, PATIENCE if seconds is None else seconds, address_of(cluster), topic)
            yield cluster
    elif isinstance(cluster, distributed.deploy.Cluster):
        with _new_client(cluster) as client, connect(client, patience=patience):
            yield client
    else:
        described = _described(cluster)
        with _opened(described if seconds is None else replace(described, patience=seconds)) as client:
            yield client


def current_client() -> Client | None:
    """Return Dask's current client, which its own functions use, too; None if there is none that computes here."""
    client = _default_client()
    return client if client is not None and client.status == "running" and not client.asynchronous else None


@contextmanager
def connect_for(cluster: Cluster, *places: str, patience: str | float | None = None) -> Iterator[Client]:
    """Connect to a cluster that can read and write these places: threads, if one is an object of this process."""
    if all(place.store.read_only for place in places if isinstance(place, StoreName)):
        with connect(cluster, patience=patience) as client:
            yield client
        return
    here = current_client() if cluster is None else cluster
    if isinstance(here, Client) and address_of(here).startswith(IN_PROCESS):
        with connect(here, patience=patience) as client:
            yield client
        return
    if not (cluster is None or isinstance(cluster, int)):
        what = "only this process can write to a store that is an object"
        remedy = "leave out the cluster, or give a URL"
        raise ClusterError(what, received=str(cluster), allowed="a number of threads", remedy=remedy)
    n_threads = _described(cluster).workers
    with (
        LocalCluster(n_workers=1, threads_per_worker=n_threads, processes=False, dashboard_address=":0") as threads,
        _new_client(threads) as given,
        connect(given) as client,
    ):
        yield client


def _described(cluster: int | str | Path | None) -> Description:
    if isinstance(cluster, Path) or (isinstance(cluster, str) and cluster.endswith(SUFFIXES)):
        return read(cluster)
    if isinstance(cluster, str):
        return Description("address", {"address": cluster})
    return Description("local", workers=CPU_COUNT if cluster is None else whole_number(cluster, "cluster", 1))


def _refuse_unusable(client: Client) -> None:
    if client.asynchronous or client.status != "running":
        received = "an asynchronous client" if client.asynchronous else f"a client that is {client.status}"
        allowed = "a client that is connected, and not asynchronous"
        remedy = "pass a new distributed.Client(...), or the address of the scheduler"
        raise ClusterError("the client cannot be used", None, received, allowed, remedy)


@contextmanager
def _opened(description: Description) -> Iterator[Client]:
    """Yield a client of the cluster once it has a worker; a cluster that is started here is closed again."""
    with ExitStack() as stack:
        client = stack.enter_context(_client(description, stack))
        topic = stack.enter_context(agreeing(client))
        _wait_for_a_worker(client, description.patience, description.where or address_of(client), topic)
        yield client


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


@contextmanager
def _client(description: Description, stack: ExitStack) -> Iterator[Client]:
    if description.kind == "address":
        yield stack.enter_context(_connected(description))
        return
    if description.kind == "ssh" and description.tls is not None:  # hosts take certificates from the settings only
        stack.enter_context(dask.config.set(_tls_settings(description.tls)))
    with description.start() as cluster, _new_client(cluster) as client:
        yield client


def _connected(description: Description) -> Client:
    """Return a client of a scheduler that runs elsewhere."""
    arguments = description.arguments()
    try:
        return _new_client(**arguments)
    except (OSError, TimeoutError, ValueError) as error:
        where, received = description.where or str(arguments.get("address")), f"{type(error).__name__}: {error}"
        allowed = "the address of a running scheduler, such as tcp://10.0.0.5:8786"
        remedy = "check the address, that the scheduler runs, and that this machine may connect to it"
        raise ClusterError("the scheduler cannot be reached", where, received, allowed, remedy) from error


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


def _tls_settings(tls: Mapping[str, str]) -> dict[str, Any]:
    roles = {f"{role}.{part}": tls[part] for role in ("client", "scheduler", "worker") for part in TLS_KEYS[1:]}
    settings = {f"distributed.comm.tls.{name}": value for name, value in {"ca-file": tls["ca_file"], **roles}.items()}
    return settings | {"distributed.comm.default-scheme": "tls", "distributed.comm.require-encryption": True}
