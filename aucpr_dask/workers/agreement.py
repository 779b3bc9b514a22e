"""What workers must have in common with their client, or numbers of two versions of the code would be mixed.

A worker runs this module, and the one that finds the versions, as text that comes from the client: its own copies may
be of another version, or not be there, and code that was compiled by another Python could not be loaded.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin

FROM_TEXT = "(exec(text, here := {'__name__': 'aucpr_dask_agreement'}), here['Agreement'](wanted, topic, versions))[1]"


class Agreement(WorkerPlugin):
    """Refuse workers that differ from the client; one that joins later leaves before its first task, by an event."""

    def __init__(self, wanted: dict[str, str], topic: str, versions: str) -> None:
        self._wanted, self._topic, self._versions = wanted, topic, versions

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text of this module."""
        given = {"wanted": self._wanted, "topic": self._topic, "versions": self._versions}
        return eval, (FROM_TEXT, given | {"text": Path(__file__).read_text(encoding="utf-8")})

    async def setup(self, worker: Any) -> None:
        """Raise, and name the worker, unless it agrees."""
        here: dict[str, Any] = {"__name__": "aucpr_dask_versions"}
        exec(self._versions, here)
        found: dict[str, str] = getattr(worker, "aucpr_dask_facts", {}) or await asyncio.to_thread(here["facts"])
        worker.aucpr_dask_facts = found
        differing = [
            f"other {name}" if " of " in name else f"{name} {found.get(name)} instead of {value}"  # digests say nothing
            for name, value in self._wanted.items()
            if found.get(name) != value
        ]
        if not differing:
            return
        message = f"worker {worker.name} ({worker.address}): {', '.join(differing)}"
        if not worker.periodic_callbacks["heartbeat"].is_running():  # it is just joining
            worker.log_event(self._topic, message)
            leaving = worker.close_gracefully(restart=False, reason=message)
            self._leaving = asyncio.get_running_loop().create_task(leaving)
        raise ValueError(message)
