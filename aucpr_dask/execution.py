"""Store to store on a Dask cluster: one task reads, evaluates and writes one whole block."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster, as_completed

from aucpr_dask.errors import ClusterError, StoreError, explain
from aucpr_dask.evaluation import evaluate, evaluate_dataset
from aucpr_dask.results import KIND, open_result
from aucpr_dask.scores import open_scores
from aucpr_dask.stores import Scores, create_store, map_nodes, nodes_of, open_array, open_backend, read_root_document
from aucpr_dask.variables import MODEL, QUERY

BLOCKS_AHEAD = 4  # tasks in flight per worker thread

Cluster = None | int | str | Client


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    blocks_done: int
    blocks_total: int
    rankings_done: int
    rankings_total: int
    seconds: float
    dashboard: str | None


@dataclass(frozen=True)
class Block:
    """One aligned part of one data set: what a task evaluates and writes."""

    path: str
    region: tuple[tuple[str, int, int], ...]  # dimension, start, stop

    @property
    def slices(self) -> dict[str, slice]:
        """The region as keyword indexers."""
        return {dim: slice(start, stop) for dim, start, stop in self.region}

    @property
    def n_rankings(self) -> int:
        """How many rankings the block holds."""
        return int(np.prod([stop - start for _, start, stop in self.region], dtype=np.int64))


def run(
    source_url: str | Path,
    result_url: str | Path,
    *,
    overwrite: bool = False,
    cluster: Cluster = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Scores:
    """Evaluate a score store into a result store, block by block, on a cluster.

    The numbers are those of :func:`aucpr_dask.evaluate`, bit by bit: each task calls it on one block.
    The result opens only once every block is written.

    Parameters
    ----------
    source_url, result_url : str or Path
        A score store, and where to write the result.
    overwrite : bool
        Whether to replace a store at `result_url`.
    cluster : None, int, str or distributed.Client
        None: a local cluster with one single-threaded process per core; a number: that many processes;
        a string: the address of a scheduler; or a client. Only a cluster started here is closed again.
    on_progress : callable, optional
        Called with a :class:`Progress` after each block.
    **options
        The options of :func:`aucpr_dask.evaluate`: estimators, intervals, level, missing, ties, ...

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The finished result, opened.

    Raises
    ------
    StoreError
        If the source does not open or the result is in the way.
    ClusterError
        If worker processes do not start, as in a script without ``if __name__ == "__main__":``.
    InvalidInputError, MissingScoresError
        See :func:`aucpr_dask.evaluate`; before the first task wherever the metadata tell.
    """
    source, target = _absolute(source_url), _absolute(result_url)
    _refuse_overlap(source, target)
    digest = hashlib.sha256(read_root_document(source)).hexdigest()
    lazy = evaluate(open_scores(source), **options)
    template = map_nodes(lazy, lambda path, result: _template(result, source, digest))
    blocks = [Block(path, region) for path, result in nodes_of(lazy) for region in _regions(result)]
    pending = create_store(target, template, KIND, overwrite=overwrite)
    with connect(cluster) as client:
        _run_blocks(client, blocks, (source, target, uuid4().hex, options), on_progress)
    pending.commit()
    return open_result(target)


def evaluate_block(block: Block, source: str, target: str, run_id: str, options: dict[str, Any]) -> int:
    """Evaluate one block of a score store into its region of a result store: the task of a run."""
    dataset = _source_node(source, block.path, run_id)
    result = evaluate_dataset(dataset.isel(block.slices).load(), block.path, **options)
    for name, variable in result.data_vars.items():
        region = tuple(block.slices.get(str(dim), slice(None)) for dim in variable.dims)
        _target_array(target, block.path, str(name), run_id)[region] = variable.values
    return block.n_rankings


@lru_cache(maxsize=8)
def _source_node(source: str, path: str, run_id: str) -> xr.Dataset:
    """Open one data set of the source once per process and run: between runs a store may be replaced."""
    scores = open_scores(source, chunks=None)
    dataset = scores if isinstance(scores, xr.Dataset) else scores[path].to_dataset()
    if QUERY in dataset.dims and QUERY not in dataset.indexes:  # their numbers are names, by which they are resampled
        dataset = dataset.assign_coords({QUERY: np.arange(dataset.sizes[QUERY])})
    return dataset


@lru_cache(maxsize=64)
def _target_array(target: str, path: str, name: str, run_id: str) -> Any:
    """Open one array of the result once per process and run."""
    return open_array(open_backend(target), path, name)


def _run_blocks(
    client: Client,
    blocks: list[Block],
    arguments: tuple[str, str, str, dict[str, Any]],
    on_progress: Callable[[Progress], None] | None,
) -> None:
    started = time.monotonic()
    rankings = 0
    total = sum(block.n_rankings for block in blocks)
    calls = [(block, *arguments) for block in blocks]
    for done, (_, n_rankings) in enumerate(as_they_finish(client, evaluate_block, calls), start=1):
        rankings += n_rankings
        if on_progress is not None:
            seconds = time.monotonic() - started
            on_progress(Progress(done, len(blocks), rankings, total, seconds, client.dashboard_link))


def as_they_finish(
    client: Client, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    """Run calls of a function on the workers, few at a time, and yield the number of each call and its result."""
    threads = sum(client.nthreads().values()) or 1
    waiting = enumerate(calls)
    unfinished: dict[Any, int] = {}

    def submit(n: int) -> list[Any]:
        futures = {client.submit(function, *arguments, pure=False): number for number, arguments in islice(waiting, n)}
        unfinished.update(futures)
        return list(futures)

    running = as_completed(submit(BLOCKS_AHEAD * threads))
    try:
        for future in running:
            result = future.result()
            number = unfinished.pop(future)
            running.update(submit(1))
            yield number, result
    finally:
        client.cancel(list(unfinished))  # after a failure: someone else's client lives on


@contextmanager
def connect(cluster: Cluster) -> Iterator[Client]:
    """Yield a client; a cluster that is started here is closed again."""
    if isinstance(cluster, Client):
        yield cluster
    elif isinstance(cluster, str):
        with Client(cluster) as client:
            yield client
    else:
        with _start_workers(cluster or CPU_COUNT) as local, Client(local) as client:
            yield client


def _start_workers(n_workers: int) -> LocalCluster:
    """Start single-threaded worker processes that leave Ctrl-C to this process, which ends them in order."""
    block_signals = getattr(signal, "pthread_sigmask", None)  # absent on Windows; the mask is inherited
    before = block_signals(signal.SIG_BLOCK, {signal.SIGINT}) if block_signals else None
    try:
        return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
    except (RuntimeError, TimeoutError) as error:
        raise ClusterError(
            explain(
                "worker processes could not be started",
                received=str(error),
                remedy='put the call under `if __name__ == "__main__":` in a script file, because every worker imports '
                "that file anew; or pass a running client: cluster=...",
            )
        ) from error
    finally:
        if block_signals:
            block_signals(signal.SIG_SETMASK, before)


def _template(result: xr.Dataset, source: str, digest: str) -> xr.Dataset:
    template = result.drop_encoding()
    for name, variable in template.data_vars.items():
        template[name].encoding = {"chunks": tuple(chunks[0] for chunks in variable.chunks or ())}
    template.attrs |= {"source": source, "source_digest": digest}
    return template


def _regions(result: xr.Dataset) -> Iterator[tuple[tuple[str, int, int], ...]]:
    """Yield the aligned regions of a lazy result: the chunks of its leading dimensions."""
    chunks = result["n_positive"].chunksizes
    dims = [dim for dim in (MODEL, QUERY) if dim in chunks]
    ends = [np.cumsum(chunks[dim]) for dim in dims]
    for index in np.ndindex(*map(len, ends)):
        yield tuple(
            (dim, int(end[i] - chunks[dim][i]), int(end[i])) for dim, end, i in zip(dims, ends, index, strict=True)
        )


def _refuse_overlap(source: str, target: str) -> None:
    inner, outer = f"{source}/", f"{target}/"
    if inner.startswith(outer) or outer.startswith(inner):
        raise StoreError(
            explain(
                "the result would stand in the place of the scores, or one inside the other",
                where=target,
                received=f"scores at {source}",
                remedy="name another place for the result",
            )
        )


def _absolute(url: str | Path) -> str:
    return str(url) if "://" in str(url) else str(Path(url).absolute())
