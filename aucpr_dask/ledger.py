"""What a run has done so far: its plan, and one small record for every block that is done or has failed.

A record stands beside the blocks in the result store, written by whoever wrote the block once its last byte was there.
So whatever is killed, what the ledger calls done is done, and a run goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

FOLDER = "ledger"
PLAN, ROOT, DONE, FAILED = f"{FOLDER}/plan.json", f"{FOLDER}/root", f"{FOLDER}/done", f"{FOLDER}/failed"


class Ledger:
    """The ledger of the run whose result is in a store.

    Parameters
    ----------
    backend : zarr store
        The store of the result.
    """

    def __init__(self, backend: Store) -> None:
        self._backend = backend

    def open(self, plan: Mapping[str, Any], root_document: Buffer) -> None:
        """Start the ledger of a new run: its plan, last, says that all that stands beside it is complete."""
        sync(self._backend.set(ROOT, root_document))
        self._write(PLAN, plan)

    def plan(self) -> dict[str, Any] | None:
        """Return the plan of the run that wrote, or is to write, this store; None if there is none."""
        document = self._read(PLAN)
        return None if document is None else dict(json.loads(document.to_bytes()))

    def root_document(self) -> Buffer | None:
        """Return the document that makes the store open, once all blocks are done."""
        return self._read(ROOT)

    def record_done(self, block: int, facts: Mapping[str, Any]) -> None:
        """Record that a block is complete."""
        self._write(f"{DONE}/{block}", facts)

    def record_failure(self, block: int, facts: Mapping[str, Any]) -> None:
        """Record that a block could not be computed, and why."""
        self._write(f"{FAILED}/{block}", facts)

    def done(self) -> set[int]:
        """Return the numbers of the blocks that are complete."""
        return {int(name) for name in self._names(DONE) if name.isdecimal()}

    def failures(self) -> dict[int, dict[str, Any]]:
        """Return the records of the blocks that have failed and were not done since."""
        numbers = {int(name) for name in self._names(FAILED) if name.isdecimal()} - self.done()
        records = {number: self._read(f"{FAILED}/{number}") for number in sorted(numbers)}
        return {number: json.loads(record.to_bytes()) for number, record in records.items() if record is not None}

    def close(self) -> None:
        """Drop the records of single blocks: the plan stays with the finished result."""
        sync(self._backend.delete(ROOT))  # first: without it, nothing is to be done
        for folder in (DONE, FAILED):
            sync(self._backend.delete_dir(folder))

    def _write(self, key: str, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, sort_keys=True).encode()
        sync(self._backend.set(key, default_buffer_prototype().buffer.from_bytes(text)))

    def _read(self, key: str) -> Buffer | None:
        try:
            return sync(self._backend.get(key, default_buffer_prototype()))
        except FileNotFoundError:
            return None

    def _names(self, folder: str) -> list[str]:
        async def listed() -> list[str]:
            return [name.rsplit("/", 1)[-1] async for name in self._backend.list_dir(folder)]

        try:
            return sync(listed())
        except FileNotFoundError:
            return []


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say in which entries two plans differ; of their options, in which."""
    before, now = _flat(before), _flat(now)
    names = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    return [f"{name}: {before.get(name)!r}, now {now.get(name)!r}" for name in names]


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plan.items() if name != "options"} | dict(plan.get("options", {}))
