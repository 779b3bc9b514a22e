"""The record of a run in its result store: one state, and a small document for every task that is done or has failed.

The worker that writes a task's results records it once the last byte is there. So anything may be killed at any time:
tasks that the ledger calls done are done, and the same call computes the others.

Runs with the same plan may share a ledger, because their results are bit-for-bit identical. Another plan, or the same
plan started over, gets another token in the same place. Every task compares it with its own before it writes results
and after it has recorded them; and the names of records contain it, so that no record counts in another ledger.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer

from aucpr_dask.errors import OtherRunError
from aucpr_dask.schema.options import EvaluationOptions
from aucpr_dask.storage import backends
from aucpr_dask.storage.backends import get_value, set_value
from aucpr_dask.storage.checksums import without_list
from aucpr_dask.storage.claims import FINISHED, FOLDER, GROWING, RUNNING, STATE, Claim, State, as_buffer, state_of
from aucpr_dask.storage.code_versions import code_among, in_words
from aucpr_dask.storage.stores import ROOT_DOCUMENT, publish
from aucpr_dask.storage.zarr_private import sync

# What every plan records:
DIGESTED = {  # entries whose values mean nothing to people
    "source_digest": "the scores or labels are others",
    "groups": "the groups of the items are others",
} | dict.fromkeys(("blocks", "blocks_digest"), "the models, queries or chunks are others")
_OF_PLANS = {"options": dict, "axes": list, "code": dict, "source": str, "source_digest": str}
DONE, FAILED = f"{FOLDER}/done", f"{FOLDER}/failed"


class Ledger(Claim):
    """The ledger of the run whose result is in a place: by default, of the run that has it now."""

    def state(self) -> State:
        """Return how far the result is: finished, too, if a run was killed after its last task, before it said so."""
        state = self.recorded()
        if state.plan is not None and not all(
            isinstance(state.plan.get(name), kind) for name, kind in _OF_PLANS.items()
        ):
            raise self.damaged("ledger/state.json")
        if state.word in (RUNNING, GROWING):
            document = get_value(backends.open_backend(self._url, read_only=True), ROOT_DOCUMENT)
            if document is not None and digest_of_root(document) == state.end:
                return replace(state, word=FINISHED)
        return state

    def join(self) -> str:
        """Return the token of this ledger for the tasks of a run, and keep to it."""
        self._token = self._token or self.recorded().token
        if not self._token:  # finished since we looked
            raise self.other_run()
        self.check()
        return self._token

    def start(self, state: State) -> None:
        """Record that a new result is laid out and its tasks run, unless a run of the same plan has finished it."""
        self.check()
        self.record(replace(state, word=RUNNING, token=str(self._token)))
        if self.state().word == FINISHED:
            self.close(state)
            raise self.other_run()

    def finish(self, state: State, root_document: Buffer, documents: Mapping[str, Buffer]) -> None:
        """Publish the result, if its chunks are the ones that the tasks and its layout wrote."""
        self.check()
        backend = backends.open_backend(self._url)
        written = {key: bytes(one.as_numpy_array()[-8:]) for key, one in documents.items()}
        records = self.records_of_done()
        for record in records.values():
            written |= {key: bytes.fromhex(ending) for key, ending in record.get("chunks", {}).items()}
        backends.persist(backend, written)  # tasks write without waiting for the disk
        publish(backend, root_document, get_value(backend, ROOT_DOCUMENT), written=written, reads_back=True)
        self.close(state, records)

    def close(self, state: State, records: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        """Record that a result is finished; only this and the digests of its rankings stay with it.

        Each of the records of its tasks is a request, so one who has read them passes them on.
        """
        found = self.recorded()
        if self._token is not None and found.word != FINISHED and found.token != self._token:
            raise self.other_run()
        by_others = {in_words(one["code"]): dict(one) for one in found.by_others}
        for record in (self.records_of_done() if records is None else records).values():
            code = code_among(record.get("versions") or {})
            if state.plan is not None and code != state.plan.get("code"):
                one = by_others.setdefault(in_words(code), {"code": code, "parts": []})
                one["parts"] = [*one["parts"], record.get("part", "")]
        self.record(State(FINISHED, plan=state.plan, by_others=list(by_others.values())))
        self._token = None
        self.drop_records()
        backends.sweep(self._notes)

    def drop_records(self) -> None:
        """Drop the records of tasks."""
        for folder in (DONE, FAILED):
            for pause in (0.0, 0.01, 0.1):  # another run that has ended may be dropping them, too
                time.sleep(pause)
                with suppress(OSError):
                    sync(self._notes.delete_dir(folder))
                    break

    def digests(self, path: str) -> NDArray[np.uint64] | None:
        """Return the digests of the rankings of a data set, in the order of the result; None if there are none."""
        document = self._read(_digests_key(path))
        try:
            return None if document is None else np.load(io.BytesIO(document.to_bytes()), allow_pickle=False)
        except (ValueError, EOFError):
            raise self.damaged(_digests_key(path)) from None

    def record_digests(self, digests: Mapping[str, NDArray[np.uint64]]) -> None:
        """Record the digests of the rankings of a result."""
        contents: dict[str, bytes] = {}
        for path, values in digests.items():
            np.save(content := io.BytesIO(), values, allow_pickle=False)
            contents[_digests_key(path)] = content.getvalue()
        recorded = zip(contents, backends.get_values(self._notes, list(contents)), strict=True)
        same = {key for key, before in recorded if before is not None and before.to_bytes() == contents[key]}
        changed = {key: as_buffer(content) for key, content in contents.items() if key not in same}
        backends.set_values(self._notes, changed)
        backends.persist(self._notes, changed)

    def record_done(self, task: int, facts: Mapping[str, Any]) -> None:
        """Record that a task is done; raises as :meth:`check`."""
        self._record(DONE, task, facts)

    def record_failure(self, task: int, error: str) -> None:
        """Record that a task has failed, and why; raises as :meth:`check`."""
        self._record(FAILED, task, {"error": error})

    def done(self) -> set[int]:
        """Return the numbers of the tasks that are done."""
        return self._tasks(DONE)

    def records_of_done(self) -> dict[int, dict[str, Any]]:
        """Return the records of the tasks that are done, those that can be read."""
        return self._records(DONE, self.done())

    def failures(self) -> dict[int, dict[str, Any]]:
        """Return the records of the tasks that have failed and were not done since."""
        return self._records(FAILED, self._tasks(FAILED) - self.done())

    def _records(self, folder: str, tasks: set[int]) -> dict[int, dict[str, Any]]:
        keys = {number: self._key(folder, number) for number in sorted(tasks)}
        records: dict[int, dict[str, Any]] = {}
        for number, one in zip(keys, backends.get_values(self._notes, list(keys.values())), strict=True):
            with suppress(ValueError):  # torn where the power failed: then the task is done again
                if one is not None:
                    records[number] = json.loads(one.to_bytes())
        return records

    def _record(self, folder: str, task: int, facts: Mapping[str, Any]) -> None:
        key, content = self._key(folder, task), as_buffer(json.dumps(facts).encode())
        self._persistently(lambda: set_value(self._notes, key, content))
        try:
            self.check()
        except OtherRunError:
            backends.delete_value(self._notes, key)  # the new owner of the place will not
            raise

    def _key(self, folder: str, task: int) -> str:
        return f"{folder}/{task}-{self._owner()}"

    def _owner(self) -> str:
        return self.recorded().token if self._token is None else self._token

    def _tasks(self, folder: str) -> set[int]:
        async def listed() -> list[str]:
            return [name.rsplit("/", 1)[-1] async for name in self._notes.list_dir(folder)]

        owner, names = self._owner(), list[str]()
        with suppress(FileNotFoundError):
            names = sync(listed())
        return {int(number) for number, _, token in (name.partition("-") for name in names) if token == owner}


def computed_by(url: Any) -> list[dict[str, Any]]:
    """Return which code computed a result, and which parts if there is more than one; nothing if it does not say."""
    try:
        state = state_of(get_value(backends.open_backend(url, read_only=True), STATE))
    except ValueError:  # damaged, which a run says
        return []
    first = {"code": (state.plan or {}).get("code"), "parts": ["everything else" if state.by_others else "everything"]}
    return [] if first["code"] is None else [first, *map(dict, state.by_others)]


def digest_of_root(document: Buffer) -> str:
    """Return the digest of a root document as it was planned, by which a state names its end."""
    return hashlib.sha256(without_list(document.to_bytes())).hexdigest()


def _digests_key(path: str) -> str:
    return f"{FOLDER}/digests/{path}.npy" if path else f"{FOLDER}/digests.npy"


def identity_of(plan: Mapping[str, Any]) -> str:
    """Return a digest that tells a plan from others."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the entries, options included, in which two plans differ, and both values in words."""
    before, now = _flat(before), _flat(now)
    names = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    return {name: DIGESTED.get(name, f"{name}: {before.get(name)!r}, now {now.get(name)!r}") for name in names}


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries and options of a plan in one dict; options that it does not know have their defaults."""
    options: dict[str, Any] = EvaluationOptions().as_parameters() | plan.get("options", {})
    return {name: value for name, value in plan.items() if name != "options"} | options
