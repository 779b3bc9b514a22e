"""What a run has done so far: its plan, and one small record for every block that is done or has failed.

A record stands beside the blocks in the result store, written by whoever wrote the block once its last byte was there.
So whatever is killed, what the ledger calls done is done, and a run goes on from there.

Runs with the same plan may share a ledger: their blocks are the same, bit by bit. Another plan, or the same one from
the beginning, is another ledger in the same place. So each has a random token. Every task compares it with its own
before it writes a block and after it has recorded it; and records carry it in their names, so that none counts in
another ledger.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from aucpr_dask.errors import OtherRunError
from aucpr_dask.storage.backends import delete_value, get_value, set_value

FOLDER = "ledger"
PLAN, ROOT, DONE, FAILED = f"{FOLDER}/plan.json", f"{FOLDER}/root", f"{FOLDER}/done", f"{FOLDER}/failed"
TOKEN, EXTENSION, BEFORE = f"{FOLDER}/token", f"{FOLDER}/extension", f"{FOLDER}/before"


class Ledger:
    """The ledger of the run whose result is in a store.

    Parameters
    ----------
    backend : zarr store
        The store of the result.
    token : str, optional
        Of the ledger that a run started with; none: of the one that is there.
    """

    def __init__(self, backend: Store, token: str | None = None) -> None:
        self._backend = backend
        self._token = token

    def open(self, plan: Mapping[str, Any], root_document: Buffer) -> None:
        """Start the ledger of a new run: its plan, last, says that all that stands beside it is complete."""
        if self._token is None:
            self.claim()
        self.check()
        set_value(self._backend, ROOT, root_document)
        self._write(PLAN, plan)

    def reserve(self) -> str:
        """Return the token by which :meth:`claim` will take a place, for tasks that start before."""
        self._token = uuid4().hex
        return self._token

    def claim(self) -> None:
        """Take an empty place, before anything is laid out there: of runs that start at once, one.

        Raises
        ------
        OtherRunError
            If another run was first.
        """
        self._token = self._token or uuid4().hex
        sync(self._backend.set_if_not_exists(TOKEN, _buffer(self._token.encode())))
        self.check()

    def join(self) -> str:
        """Return the token of this ledger, for the tasks of a run; what is read and recorded from now on is its own.

        Raises
        ------
        OtherRunError
            If a run has finished it.
        """
        self._token = self._token or self.token() or "none"
        self.check()
        return self._token

    def token(self) -> str:
        """Return what tells this ledger from every other in the same place; empty once all is done."""
        document = self._read(TOKEN)
        return "" if document is None else document.to_bytes().decode()

    def check(self) -> None:
        """Raise if this is no longer the ledger that the run started with.

        Raises
        ------
        OtherRunError
            If another run has finished it, or has started anew in its place.
        """
        if self._token is not None and self.token() != self._token:
            raise OtherRunError(
                "this place belongs to another run by now, so this one writes nothing more",
                where=str(self._backend),
                remedy="let the other one finish, or stop it; then give the command again, with overwrite=True "
                "(--overwrite) to start from the beginning",
            )

    def is_open(self) -> bool:
        """Whether all that stands beside a reserved ledger is complete.

        Raises
        ------
        OtherRunError
            If another run has taken the place, or has finished there.
        """
        is_complete = self.plan() is not None
        if is_complete or self.token():
            self.check()
        return is_complete

    def plan(self) -> dict[str, Any] | None:
        """Return the plan of the run that wrote, or is to write, this store; None if there is none."""
        document = self._read(PLAN)
        return None if document is None else dict(json.loads(document.to_bytes()))

    def root_document(self) -> Buffer | None:
        """Return the document that makes the store open, once all blocks are done."""
        return self._read(ROOT)

    def change_plan(self, plan: Mapping[str, Any]) -> None:
        """Record by which plan the finished result would be what it has become."""
        self._write(PLAN, plan)

    def extension(self) -> str | None:
        """Return what tells which extension of a finished result is under way; None if none is."""
        document = self._read(EXTENSION)
        return None if document is None else document.to_bytes().decode()

    def open_extension(self, identity: str) -> None:
        """Start to extend a finished result: all that an extension needs is in its place."""
        set_value(self._backend, EXTENSION, _buffer(identity.encode()))

    def keep_root(self, root_document: Buffer) -> None:
        """Keep the root document of a finished result while it does not open."""
        set_value(self._backend, BEFORE, root_document)

    def kept_root(self) -> Buffer | None:
        """Return the root document that was kept, if any."""
        return self._read(BEFORE)

    def digests(self, path: str) -> NDArray[np.uint64] | None:
        """Return the digests of the rankings of a data set, in the order of the result; None if there are none."""
        document = self._read(_digests_key(path))
        return None if document is None else np.load(io.BytesIO(document.to_bytes()), allow_pickle=False)

    def record_digests(self, digests: Mapping[str, NDArray[np.uint64]]) -> None:
        """Record the digests of the rankings that the result is made, or to be made, of."""
        for path, values in digests.items():
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            set_value(self._backend, _digests_key(path), _buffer(content.getvalue()))

    def record_done(self, block: int, facts: Mapping[str, Any]) -> None:
        """Record that a block is complete; raises as :meth:`check`."""
        self._record(DONE, block, facts)

    def record_failure(self, block: int, facts: Mapping[str, Any]) -> None:
        """Record that a block could not be computed, and why; raises as :meth:`check`."""
        self._record(FAILED, block, facts)

    def done(self) -> set[int]:
        """Return the numbers of the blocks that are complete."""
        return self._blocks(DONE)

    def failures(self) -> dict[int, dict[str, Any]]:
        """Return the records of the blocks that have failed and were not done since."""
        records = {n: self._read(self._key(FAILED, n)) for n in sorted(self._blocks(FAILED) - self.done())}
        return {number: json.loads(record.to_bytes()) for number, record in records.items() if record is not None}

    def retire(self) -> None:
        """Stop the runs of this ledger: nothing that they write from now on counts."""
        delete_value(self._backend, TOKEN)
        self._token = None

    def close(self, *, still_between: bool = False) -> None:
        """Drop the records of single blocks: the plan stays with the finished result.

        So does the root document that is kept of a result that is still to be given more resamples.
        """
        for key in (ROOT, EXTENSION) if still_between else (ROOT, EXTENSION, BEFORE):  # first: then all is done
            delete_value(self._backend, key)
        self.retire()
        self.drop_records()

    def drop_records(self) -> None:
        """Drop the records of single blocks, unless others keep writing there: they count in no other ledger."""
        for folder in (DONE, FAILED):
            for pause in (0.0, 0.01, 0.1):  # another run that has ended may be dropping them, too
                time.sleep(pause)
                with suppress(OSError):
                    sync(self._backend.delete_dir(folder))
                    break

    def _record(self, folder: str, block: int, facts: Mapping[str, Any]) -> None:
        self._write(self._key(folder, block), facts)
        try:
            self.check()
        except OtherRunError:
            delete_value(self._backend, self._key(folder, block))  # whose ledger this is now will not
            raise

    def _key(self, folder: str, block: int) -> str:
        return f"{folder}/{block}-{self.token() if self._token is None else self._token}"

    def _blocks(self, folder: str) -> set[int]:
        owner = self.token() if self._token is None else self._token
        records = (name.partition("-") for name in self._names(folder))
        return {int(number) for number, _, token in records if token == owner}

    def _write(self, key: str, document: Mapping[str, Any]) -> None:
        set_value(self._backend, key, _buffer(json.dumps(document, sort_keys=True).encode()))

    def _read(self, key: str) -> Buffer | None:
        try:
            return get_value(self._backend, key)
        except FileNotFoundError:
            return None

    def _names(self, folder: str) -> list[str]:
        async def listed() -> list[str]:
            return [name.rsplit("/", 1)[-1] async for name in self._backend.list_dir(folder)]

        try:
            return sync(listed())
        except FileNotFoundError:
            return []


def _digests_key(path: str) -> str:
    return f"{FOLDER}/digests/{path}.npy" if path else f"{FOLDER}/digests.npy"


def _buffer(content: bytes) -> Buffer:
    return default_buffer_prototype().buffer.from_bytes(content)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say in which entries two plans differ; of their options, in which."""
    names = differing(before, now)
    before, now = _flat(before), _flat(now)
    return [f"{name}: {before.get(name)!r}, now {now.get(name)!r}" for name in names]


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of the entries, options among them, in which two plans differ."""
    before, now = _flat(before), _flat(now)
    return [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plan.items() if name != "options"} | dict(plan.get("options", {}))
