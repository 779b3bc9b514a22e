"""What workers must have in common with their client, or numbers of two versions of the code would be mixed.

A worker runs this module as text that comes from the client: its own copy may be of another version, or not be there,
and code that was compiled by another Python could not be loaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin

FROM_TEXT = "(exec(text, space := {'__name__': 'aucpr_dask_agreement'}), space['Agreement'](wanted, topic))[1]"


@cache  # a process keeps the code that it has loaded
def facts() -> dict[str, str]:
    """Return the versions on which numbers depend here, and a digest of the sources of this package."""
    import aucpr_dask
    from aucpr_dask._version import __version__

    folder, code, kernels = Path(str(aucpr_dask.__file__)).parent, hashlib.sha256(), hashlib.sha256()
    for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).parts):
        content, name = path.read_bytes().replace(b"\r\n", b"\n"), path.relative_to(folder).as_posix()
        for digest in (code, kernels) if name.startswith("kernels/") else (code,):
            digest.update(f"{name} {len(content)};".encode() + content)
    return {
        "Python": "{}.{}".format(*sys.version_info),
        "aucpr-dask": __version__,
        "sources of aucpr-dask": code.hexdigest()[:12],
        "kernels of aucpr-dask": kernels.hexdigest()[:12],
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


class Agreement(WorkerPlugin):
    """Refuse workers that differ from the client; one that joins later leaves before its first task, by an event."""

    def __init__(self, wanted: dict[str, str], topic: str) -> None:
        self._wanted, self._topic = wanted, topic

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text of this module."""
        text = Path(__file__).read_text(encoding="utf-8")
        return eval, (FROM_TEXT, {"text": text, "wanted": self._wanted, "topic": self._topic})

    async def setup(self, worker: Any) -> None:
        """Raise, and name the worker, unless it agrees."""
        found: dict[str, str] = getattr(worker, "aucpr_dask_facts", {}) or await asyncio.to_thread(facts)
        worker.aucpr_dask_facts = found
        differing = [
            f"{name} {found.get(name)} instead of {value}"
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
