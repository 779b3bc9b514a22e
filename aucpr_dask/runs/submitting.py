"""Submit calls to workers, a few at a time, and collect what they return."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import islice
from typing import Any

from distributed import Client, Future, KilledWorker, as_completed
from distributed.scheduler import NoWorkerError
from tornado.ioloop import PeriodicCallback

from aucpr_dask.errors import ClusterError, few

CALLS_PER_THREAD = 4  # in flight
LEAST_IN_FLIGHT = 64  # even for few workers: adaptive clusters ask for more workers when calls wait
LEAST_REFILL = 1 / 4  # of the calls in flight: the scheduler takes several at once more cheaply
SECONDS_BETWEEN_COUNTS = 1.0  # of the workers' threads
SECONDS_PAUSED = 60.0  # after which a run ends, if for so long all workers lack the memory to start another task
MILLISECONDS_BETWEEN_LOOKS = 2000

Call = tuple[int, tuple[Any, ...]]  # number and arguments


def as_they_finish(
    client: Client,
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    retries: int = 0,
    patience: float | None = None,
) -> Iterator[tuple[int, Any]]:
    """Run calls of a function on the workers, and yield the number of each call and its result as it finishes.

    A call that raises is tried again up to `retries` times; then its error is yielded in place of a result. It ends if
    all workers stay paused for `patience`, in seconds.
    """
    window = _Window(client, function, calls, retries, SECONDS_PAUSED if patience is None else patience)
    try:
        yield from window.outcomes()
    finally:
        window.cancel()


class _Window:
    """The calls in flight: enough for all workers, few enough for the scheduler.

    Workers that die take down all calls that wait on them. A call whose workers died is therefore a suspect: it is
    tried once more when nothing else is in flight, and only if the workers die again was it to blame.
    """

    def __init__(
        self,
        client: Client,
        function: Callable[..., Any],
        calls: Iterable[tuple[Any, ...]],
        retries: int,
        patience: float,
    ) -> None:
        self._client, self._function, self._retries = client, function, retries
        self._waiting: Iterator[Call] = enumerate(calls)
        self._in_flight: dict[Future[Any], Call] = {}
        self._suspects: list[Call] = []
        self._finished = as_completed([], client.loop)
        self._n_threads, self._counted = 0, -math.inf
        self._patience, self._paused_since, self._paused = patience, math.inf, ""
        self._looking = PeriodicCallback(self._look, MILLISECONDS_BETWEEN_LOOKS)
        self._loop = client.loop
        self._loop.add_callback(self._looking.start)  # type: ignore[union-attr]

    async def _look(self) -> None:
        """Cancel all calls if every worker stays paused, as nothing else would end the wait."""
        scheduler: Any = self._client.scheduler
        workers = (await scheduler.identity(n_workers=-1))["workers"].values()
        if not workers or any(worker["status"] != "paused" for worker in workers):
            self._paused_since = math.inf
            return
        self._paused_since = min(self._paused_since, time.monotonic())
        if time.monotonic() > self._paused_since + self._patience:
            sizes = ((one["name"], one["metrics"]["memory"] >> 20, one["memory_limit"] >> 20) for one in workers)
            self._paused = few(f"worker {name}: {memory:,} of {limit:,} MiB" for name, memory, limit in sizes)
            await self._client._cancel(list(self._in_flight))

    def outcomes(self) -> Iterator[tuple[int, Any]]:
        """Yield the number and the result or error of each call."""
        self._refill()
        while self._in_flight:
            call, outcome = self._next()
            self._refill()
            if isinstance(outcome, KilledWorker):
                self._suspects.append(call)
            else:
                yield call[0], outcome
        if next(self._waiting, None) is not None:
            raise _lost(self._client, "the client is no longer running")
        for suspect in self._suspects:
            with explaining_losses(self._client):
                self._submit([suspect])
            yield suspect[0], self._next()[1]

    def cancel(self) -> None:
        """Cancel the calls in flight, after a failure: the client may belong to someone else."""
        self._loop.add_callback(self._looking.stop)  # type: ignore[union-attr]
        if self._in_flight:  # an empty cancellation would still be sent to all clients, and fail for one just joining
            self._client.cancel(list(self._in_flight))

    def _refill(self) -> None:
        """Submit waiting calls as workers come and go, several at a time."""
        if self._client.status != "running":
            return  # the calls in flight tell why
        with explaining_losses(self._client):
            most = max(LEAST_IN_FLIGHT, CALLS_PER_THREAD * self._threads())
            room = most - len(self._in_flight)
            batch = list(islice(self._waiting, room)) if room >= LEAST_REFILL * most else []
            if batch:
                self._submit(batch)

    def _submit(self, batch: list[Call]) -> None:
        arguments = zip(*(arguments for _, arguments in batch), strict=True)
        futures = self._client.map(self._function, *arguments, pure=False, retries=self._retries)
        self._in_flight.update(zip(futures, batch, strict=True))
        self._finished.update(futures)

    def _next(self) -> tuple[Call, Any]:
        """Wait for a call to finish, and return its result, or its error if that is not the end of all."""
        with explaining_losses(self._client):
            future = next(self._finished)
            call = self._in_flight.pop(future)
            try:
                return call, _result_of(future)
            except CancelledError as error:
                if not self._paused:
                    raise
                what = f"all workers have been paused for {self._patience:.3g} s, because their memory is nearly full"
                remedy = "finished tasks are kept: give workers more memory, or fewer threads, and run it again"
                raise ClusterError(what, None, self._paused, None, remedy) from error
            except Exception as error:
                if future.status == "error" and not isinstance(error, NoWorkerError):
                    return call, error
                raise

    def _threads(self) -> int:
        """Count the workers' threads, now and then."""
        if time.monotonic() > self._counted + SECONDS_BETWEEN_COUNTS:
            self._n_threads, self._counted = sum(self._client.nthreads().values()), time.monotonic()
        return self._n_threads


def _result_of(future: Future[Any]) -> Any:
    """Return the result of a call, or raise its error; a result of None is known without asking the worker."""
    return None if future.status == "finished" and future.type is type(None) else future.result()


@contextmanager
def explaining_losses(client: Client) -> Iterator[None]:
    """Explain errors that mean the loss of the scheduler or of the last worker."""
    try:
        yield
    except (CancelledError, NoWorkerError, OSError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise
        raise _lost(client, str(error), is_scheduler=not isinstance(error, NoWorkerError)) from error


def _lost(client: Client, received: str, *, is_scheduler: bool = True) -> ClusterError:
    what = "the connection to the scheduler was lost" if is_scheduler else "no worker is left"
    where, remedy = getattr(client.scheduler, "address", None), "start a cluster and run the same command again"
    return ClusterError(what, where, received, None, f"finished tasks are kept: {remedy}")
