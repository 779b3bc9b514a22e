"""Hand out calls to workers, few at a time, and collect what they return."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from distributed import Client, Future, KilledWorker, as_completed
from distributed.scheduler import NoWorkerError

from aucpr_dask.errors import ClusterError

if TYPE_CHECKING:
    pass

BLOCKS_AHEAD = 4  # tasks in flight per worker thread

LEAST_AHEAD = 64  # tasks in flight, however few the workers: by what waits, a cluster that adapts asks for more

SENT_AT_ONCE = 1 / 4  # of the tasks in flight, at least

SECONDS_BETWEEN_COUNTS = 1.0  # of the threads there are


class _Threads:
    """How many threads the workers have: asked again now and then, because workers come and go."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._count = 0
        self._asked = -math.inf

    def count(self) -> int:
        """Return their number."""
        if time.monotonic() > self._asked + SECONDS_BETWEEN_COUNTS:
            self._count = sum(self._client.nthreads().values())
            self._asked = time.monotonic()
        return self._count


def as_they_finish(
    client: Client,
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    *,
    retries: int = 0,
    keep_going: bool = False,
    meanwhile: Callable[[], None] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Run calls of a function on the workers, few at a time, and yield the number of each call and its result.

    A call that raises is tried again so often; then its error is raised, or yielded in place of a result if the others
    are to go on. Workers that die take all that waits on them along, so a call whose workers died, however often, is
    tried once more when nothing else is under way: only if they die then, too, was it the call. What is to be done
    meanwhile is done here, once the first calls are on their way.
    """
    threads = _Threads(client)
    waiting = enumerate(calls)
    unfinished: dict[Future[Any], tuple[int, tuple[Any, ...]]] = {}
    suspects: list[tuple[int, tuple[Any, ...]]] = []

    def submit(batch: list[tuple[int, tuple[Any, ...]]]) -> list[Future[Any]]:
        arguments = zip(*(call[1] for call in batch), strict=True)
        futures = client.map(function, *arguments, pure=False, retries=retries) if batch else []
        unfinished.update(zip(futures, batch, strict=True))
        return futures

    def fill() -> list[Future[Any]]:
        """Fill up what is in flight, as workers come and go: several at a time, which costs the scheduler less."""
        if client.status != "running":
            return []  # what is in flight will tell
        ahead = max(LEAST_AHEAD, BLOCKS_AHEAD * threads.count())
        room = ahead - len(unfinished)
        return submit(list(islice(waiting, room))) if room >= SENT_AT_ONCE * ahead else []

    try:
        with explaining_losses(client):
            running = as_completed(fill(), client.loop)
        if meanwhile is not None:
            meanwhile()
        alone = False
        while unfinished or suspects:
            with explaining_losses(client):
                if not unfinished:
                    alone = True
                    running.update(submit([suspects.pop(0)]))
                future = next(running)
                call = unfinished.pop(future)
                try:
                    result = _result_of(future)
                except Exception as error:
                    if future.status != "error" or isinstance(error, NoWorkerError):
                        raise
                    if isinstance(error, KilledWorker) and not alone:
                        suspects.append(call)
                        running.update(fill())
                        continue
                    if not keep_going:
                        raise
                    result = error
                running.update(fill())
            yield call[0], result
    finally:
        if unfinished:  # after a failure: someone else's client lives on
            client.cancel(list(unfinished))  # of nothing, the scheduler would tell all, and trip over who just joins


def _result_of(future: Future[Any]) -> Any:
    """Return what a call returned, or raise its error; nothing need come from the worker to know that it is None."""
    return None if future.status == "finished" and future.type is type(None) else future.result()


@contextmanager
def explaining_losses(client: Client) -> Iterator[None]:
    """Say what it means that the scheduler or the last worker is lost."""
    try:
        yield
    except (CancelledError, NoWorkerError, OSError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise
        raise ClusterError(
            "no worker is left" if isinstance(error, NoWorkerError) else "the connection to the scheduler was lost",
            where=getattr(client.scheduler, "address", None),
            received=str(error),
            remedy="what is done is kept: when there is a cluster again, give the same command",
        ) from error
