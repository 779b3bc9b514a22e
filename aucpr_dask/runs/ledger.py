"""The record of a run in its result store: its plan, and a small document for every task that is done or has failed.

The worker that writes a task's results records it once the last byte is there. So anything may be killed at any time:
tasks that the ledger calls done are done, and the same call computes the others.

Runs with the same plan may share a ledger, because their results are bit-for-bit identical. Another plan, or the same
plan started over, gets another ledger in the same place. So each ledger has a random token. Every task compares it
with its own before it writes results and after it has recorded them; and the names of records contain it, so that no
record counts in another ledger.

The token also names the plan. A run claims an empty place by it before it lays out the result there, and if it is
killed meanwhile, a run with the same plan lays out the same result again. The plan itself is written last.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.core.buffer import Buffer
from zarr.core.sync import sync

from aucpr_dask.errors import OtherRunError, StoreError
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.storage.backends import delete_value, get_value, set_value, sweep
from aucpr_dask.storage.claims import FOLDER, TOKEN, Claim, as_buffer, persistently
from aucpr_dask.storage.stores import ROOT_DOCUMENT

PLAN, ROOT, DONE, FAILED = f"{FOLDER}/plan.json", f"{FOLDER}/root", f"{FOLDER}/done", f"{FOLDER}/failed"
EXTENSION, BEFORE = f"{FOLDER}/extension", f"{FOLDER}/before"
SECONDS_TO_OPEN = 1.0  # within which a run that has claimed a finished result opens its extension


class Ledger(Claim):
    """The ledger of the run whose result is in a store.

    Parameters
    ----------
    backend : zarr store
        The store of the result.
    token : str, optional
        The token that a run started with; by default, the ledger is the one in the store.
    """

    def open(self, plan: Mapping[str, Any], root_document: Buffer) -> None:
        """Start the ledger of a result that is laid out."""
        self.check()
        set_value(self._backend, ROOT, root_document)
        self.change_plan(plan)
        if not self.token():  # another run has finished meanwhile
            delete_value(self._backend, ROOT)

    def join(self) -> str:
        """Return the token of this ledger for the tasks of a run, and keep to it."""
        self._token = self._token or self.token() or "none"
        self.check()
        return self._token

    def plan(self) -> dict[str, Any] | None:
        """Return the plan of the run that has written or is writing this store; None if there is none."""
        document = self._read(PLAN)
        plan = None if document is None else _decoded(document)
        if plan is not None and not isinstance(plan.get("options"), dict):
            raise self.damaged(PLAN)
        return plan

    def root_document(self) -> Buffer | None:
        """Return the document that makes the store open once all tasks are done; None if they are."""
        document = self._read(ROOT)
        if document is not None and "attributes" not in _decoded(document):
            raise self.damaged(ROOT)
        return document

    def has_result(self) -> bool:
        """Return whether a result opens here, or did before it was extended."""
        return get_value(self._backend, ROOT_DOCUMENT) is not None or self.kept_root() is not None

    def damaged(self, key: str) -> StoreError:
        """Return the error that a record cannot be used."""
        return StoreError(
            "the record of the run is damaged, or another run is replacing it",
            where=f"{self._backend}, {key}",
            allowed="the record that a run wrote",
            remedy="pass overwrite=True (--overwrite) to start over; a finished result still opens with open_result",
        )

    def change_plan(self, plan: Mapping[str, Any]) -> None:
        """Record the plan that a result has, or will have, when it is finished."""
        self._write(PLAN, plan)

    def extension(self) -> str | None:
        """Return the identity of the extension that is under way; None if none is."""
        document = self._read(EXTENSION)
        return None if document is None else document.to_bytes().decode()

    def open_extension(self, identity: str) -> None:
        """Start to extend a finished result, once the extension is laid out."""
        set_value(self._backend, EXTENSION, as_buffer(identity.encode()))

    def keep_root(self, root_document: Buffer) -> None:
        """Keep the root document of a finished result while it does not open."""
        set_value(self._backend, BEFORE, root_document)

    def kept_root(self) -> Buffer | None:
        """Return the root document that was kept, if any."""
        return self._read(BEFORE)

    def digests(self, path: str) -> NDArray[np.uint64] | None:
        """Return the digests of the rankings of a data set, in the order of the result; None if there are none."""
        document = self._read(_digests_key(path))
        try:
            return None if document is None else np.load(io.BytesIO(document.to_bytes()), allow_pickle=False)
        except (ValueError, EOFError):
            raise self.damaged(_digests_key(path)) from None

    def record_digests(self, digests: Mapping[str, NDArray[np.uint64]]) -> None:
        """Record the digests of the rankings of a result."""
        for path, values in digests.items():
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            set_value(self._backend, _digests_key(path), as_buffer(content.getvalue()))

    def record_done(self, task: int, facts: Mapping[str, Any]) -> None:
        """Record that a task is done; raises as :meth:`check`."""
        self._record(DONE, task, facts)

    def record_failure(self, task: int, facts: Mapping[str, Any]) -> None:
        """Record that a task has failed, and why; raises as :meth:`check`."""
        self._record(FAILED, task, facts)

    def done(self) -> set[int]:
        """Return the numbers of the tasks that are done."""
        return self._tasks(DONE)

    def failures(self) -> dict[int, dict[str, Any]]:
        """Return the records of the tasks that have failed and were not done since."""
        records = {n: self._read(self._key(FAILED, n)) for n in sorted(self._tasks(FAILED) - self.done())}
        return {number: json.loads(record.to_bytes()) for number, record in records.items() if record is not None}

    def retire(self) -> None:
        """Stop the runs of this ledger: anything that they write from now on does not count."""
        delete_value(self._backend, TOKEN)
        self._token = None

    def close(self) -> None:
        """Drop everything but the plan and the digests, which stay with the finished result."""
        for key in (ROOT, EXTENSION, BEFORE, TOKEN):  # without the first three, the result counts as finished
            self._check_not_taken()
            delete_value(self._backend, key)
        self._token = None
        self.drop_records()
        self.sweep()

    def _check_not_taken(self) -> None:
        """Raise if another run has this place, whose records are not ours to drop; none has a finished one."""
        if self.token():
            self.check()

    def close_if_killed(self, token: str) -> None:
        """Close the ledger of a finished result if the run with this token was killed before it had done so.

        Another run may have claimed the result to extend it, and be about to say so.
        """
        extension = self.extension()
        if extension is None and token:
            time.sleep(SECONDS_TO_OPEN)
            if self.token() != token or self.extension() is not None:
                return
        elif extension is None or not extension.endswith(digest_of_root(get_value(self._backend, ROOT_DOCUMENT))):
            return
        self.close()

    def sweep(self) -> None:
        """Remove what writes that were killed have left."""
        sweep(self._backend)

    def drop_records(self) -> None:
        """Drop the records of tasks, unless another run has the place by now."""
        if self.token():
            return
        for folder in (DONE, FAILED):
            for pause in (0.0, 0.01, 0.1):  # another run that has ended may be dropping them, too
                time.sleep(pause)
                with suppress(OSError):
                    sync(self._backend.delete_dir(folder))
                    break

    def _record(self, folder: str, task: int, facts: Mapping[str, Any]) -> None:
        self._write(self._key(folder, task), facts)
        try:
            self.check()
        except OtherRunError:
            delete_value(self._backend, self._key(folder, task))  # the new owner of the place will not
            raise

    def _key(self, folder: str, task: int) -> str:
        return f"{folder}/{task}-{self._owner()}"

    def _tasks(self, folder: str) -> set[int]:
        owner = self._owner()
        records = (name.partition("-") for name in self._names(folder))
        return {int(number) for number, _, token in records if token == owner}

    def _owner(self) -> str:
        return self.token() if self._token is None else self._token

    def _write(self, key: str, document: Mapping[str, Any]) -> None:
        persistently(lambda: set_value(self._backend, key, as_buffer(_encoded(document))))

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


def digest_of_root(document: Buffer | None) -> str:
    """Return the digest of a root document by which an extension names its end."""
    return hashlib.sha256(b"" if document is None else document.to_bytes()).hexdigest()


def _digests_key(path: str) -> str:
    return f"{FOLDER}/digests/{path}.npy" if path else f"{FOLDER}/digests.npy"


def identity_of(plan: Mapping[str, Any]) -> str:
    """Return a digest that tells a plan from others."""
    return hashlib.sha256(_encoded(plan)).hexdigest()


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _decoded(document: Buffer) -> dict[str, Any]:
    """Return a JSON object; an empty one if it is damaged."""
    try:
        content = json.loads(document.to_bytes())
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe each difference between two plans and their options."""
    names = differing(before, now)
    before, now = _flat(before), _flat(now)
    return [f"{name}: {before.get(name)!r}, now {now.get(name)!r}" for name in names]


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of the entries, options included, in which two plans differ."""
    before, now = _flat(before), _flat(now)
    return [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries and options of a plan in one dict; options that it is too old to know have their defaults."""
    options = EvaluationOptions().as_parameters() | dict(plan.get("options", {}))
    return {name: value for name, value in plan.items() if name != "options"} | options
