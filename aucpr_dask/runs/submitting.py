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

    Enough are in flight for all workers, few enough for the scheduler. A call that raises is tried again up to
    `retries` times; then its error is yielded in place of a result. It ends if all workers stay paused for `patience`,
    in seconds.

    Workers that die take down all calls that wait on them. A call whose workers died is therefore a suspect: it is
    tried once more when nothing else is in flight, and only if the workers die again was it to blame.
    """
    in_flight: dict[Future[Any], Call] = {}
    waiting, suspects = enumerate(calls), list[Call]()
    finished: Any = as_completed([], client.loop)
    n_threads, counted = 0, -math.inf
    patience, paused_since, paused = SECONDS_PAUSED if patience is None else patience, math.inf, ""

    async def look() -> None:
        """Cancel all calls if every worker stays paused, as nothing else would end the wait."""
        nonlocal paused_since, paused
        scheduler: Any = client.scheduler
        workers = (await scheduler.identity(n_workers=-1))["workers"].values()
        if not workers or any(worker["status"] != "paused" for worker in workers):
            paused_since = math.inf
            return
        paused_since = min(paused_since, time.monotonic())
        if time.monotonic() > paused_since + patience:
            sizes = ((one["name"], one["metrics"]["memory"] >> 20, one["memory_limit"] >> 20) for one in workers)
            paused = few(f"worker {name}: {memory:,} of {limit:,} MiB" for name, memory, limit in sizes)
            await client._cancel(list(in_flight))

    def submit(batch: list[Call]) -> None:
        arguments = zip(*(arguments for _, arguments in batch), strict=True)
        futures = client.map(function, *arguments, pure=False, retries=retries)
        in_flight.update(zip(futures, batch, strict=True))
        finished.update(futures)

    def refill() -> None:
        """Submit waiting calls as workers come and go, several at a time."""
        nonlocal n_threads, counted
        if client.status != "running":
            return  # the calls in flight tell why
        with explaining_losses(client):
            if time.monotonic() > counted + SECONDS_BETWEEN_COUNTS:
                n_threads, counted = sum(client.nthreads().values()), time.monotonic()
            most = max(LEAST_IN_FLIGHT, CALLS_PER_THREAD * n_threads)
            room = most - len(in_flight)
            if batch := list(islice(waiting, room)) if room >= LEAST_REFILL * most else []:
                submit(batch)

    def next_outcome() -> tuple[Call, Any]:
        """Wait for a call to finish, and return its result, or its error if that is not the end of all."""
        with explaining_losses(client):
            future = next(finished)
            call = in_flight.pop(future)
            try:
                return call, _result_of(future)
            except CancelledError as error:
                if not paused:
                    raise
                what = f"all workers have been paused for {patience:.3g} s, because their memory is nearly full"
                remedy = "finished tasks are kept: give workers more memory, or fewer threads, and run it again"
                raise ClusterError(what, None, paused, None, remedy) from error
            except Exception as error:
                if future.status == "error" and not isinstance(error, NoWorkerError):
                    return call, error
                raise

    looking, loop = PeriodicCallback(look, MILLISECONDS_BETWEEN_LOOKS), client.loop
    loop.add_callback(looking.start)  # type: ignore[union-attr]
    try:
        refill()
        while in_flight:
            call, outcome = next_outcome()
            refill()
            if isinstance(outcome, KilledWorker):
                suspects.append(call)
            else:
                yield call[0], outcome
        if next(waiting, None) is not None:
            raise _lost(client, "the client is no longer running")
        for suspect in suspects:
            with explaining_losses(client):
                submit([suspect])
            yield suspect[0], next_outcome()[1]
    finally:  # after a failure: the client may belong to someone else
        loop.add_callback(looking.stop)  # type: ignore[union-attr]
        if in_flight:  # an empty cancellation would still be sent to all clients, and fail for one just joining
            client.cancel(list(in_flight))


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
