"""Connect to a cluster, or start one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dask.system import CPU_COUNT
from distributed import Client

from aucpr_dask.clusters.descriptions import SUFFIXES, Description, read
from aucpr_dask.clusters.workers import prepare_workers

Cluster = None | int | str | Path | Client


@contextmanager
def connect(cluster: Cluster = None) -> Iterator[Client]:
    """Connect to a cluster, or start one, and prepare its workers.

    Workers keep freed memory for the next replicate, load the machine code of the kernels, if there is any in the
    cache, before their first task, and import the rest meanwhile. That holds for workers that join later, too.

    Parameters
    ----------
    cluster : None, int, str, Path or distributed.Client
        None: a local cluster with one single-threaded process per core; a number: that many processes;
        a path that ends in ``.yaml`` or ``.yml``: a cluster as it is described there; another string: the address of a
        scheduler; or a client.

    Yields
    ------
    distributed.Client
        With at least one worker. What was started here is closed again.

    Raises
    ------
    ClusterError
        If workers do not start, or a package that starts them is not installed.
    InvalidInputError
        If the file is absent, or says what it cannot say.

    Examples
    --------
    >>> with ap.connect("cluster/slurm.yaml") as client:  # doctest: +SKIP
    ...     ap.run("scores.zarr", "result.zarr", cluster=client)
    ...     ap.run("scores.zarr", "bootstrap.zarr", cluster=client, intervals=("bootstrap",))
    """
    if isinstance(cluster, Client):
        prepare_workers(cluster)
        yield cluster
        return
    with _described(cluster).open() as client:
        yield client


def _described(cluster: int | str | Path | None) -> Description:
    if isinstance(cluster, Path) or (isinstance(cluster, str) and cluster.endswith(SUFFIXES)):
        return read(cluster)
    if isinstance(cluster, str):
        return Description("address", {"address": cluster})
    return Description("local", workers=cluster or CPU_COUNT)
