"""What a run took, for programs: versions of workers, time and retries of tasks, to compare two nights."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aucpr_dask.errors import StoreError
from aucpr_dask.runs.ledger import Ledger
from aucpr_dask.runs.planning import Plan
from aucpr_dask.storage.code_versions import facts
from aucpr_dask.storage.urls import public

if TYPE_CHECKING:
    from distributed import Client


class Record:
    """A JSON file that says what a run took; nothing is written if there is no path."""

    def __init__(self, path: str | Path | None, plan: Plan, target: str) -> None:
        self._path, self._started = None if path is None else Path(path), time.monotonic()
        if self._path is None:
            return
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self._content: dict[str, Any] = {"source": public(plan.source), "result": public(target), "started": started}
        self._content |= {"outcome": "running", "seconds": 0.0, "client": facts()}
        self._content |= {"options": plan.parameters["options"], "workers": [], "tasks": []}
        self._write()  # a place that cannot be written to is found before the first task

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Say at the end how the run ended, whether it finished or not."""
        outcome = "finished"
        try:
            yield
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        finally:
            if self._path is not None:
                self._content |= {"outcome": outcome, "seconds": round(time.monotonic() - self._started, 3)}
                self._write()

    @contextmanager
    def of_tasks(self, client: Client | None, plan: Plan, ledger: Ledger, topic: str) -> Iterator[None]:
        """Count how often each task begins, and keep the ledger's records of those that are done."""
        if self._path is None:
            yield
            return
        begun: Counter[int] = Counter()
        if client is not None:
            client.subscribe_topic(topic, lambda event: begun.update([event[1]]))
        try:
            yield
        finally:
            if client is not None and client.status == "running":
                client.unsubscribe_topic(topic)
            done = ledger.records_of_done()
            workers = [{"worker": one.get("worker")} | (one.get("versions") or {}) for one in done.values()]
            self._content["workers"] = [one for place, one in enumerate(workers) if one not in workers[:place]]
            self._content["tasks"] = [
                {"task": number, "data_set": task.path, "what": task.describe(), "n_rankings": task.n_rankings}
                | {"is_done": number in done, "retries": max(0, begun[number] - 1)}
                | {name: done.get(number, {}).get(name) for name in ("seconds", "cpu_seconds", "worker")}
                for number, task in enumerate(plan.tasks)
            ]

    def _write(self) -> None:
        assert self._path is not None
        try:
            self._path.write_text(json.dumps(self._content, indent=1), encoding="utf-8")
        except OSError as error:
            what, remedy = "the record of the run cannot be written", "name a file in a folder that you may write to"
            raise StoreError(what, self._path, error.strerror, remedy=remedy) from error
