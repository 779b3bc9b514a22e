"""Claims of places where something is being written: one document that says in one word how far it is, and whose it is.

A call claims a place before it writes there, by a token that it compares with the recorded one while it writes. If it
is killed, the same call finds a claim of what it wants to write, and goes on; any other call is refused.

No storage that we write to can compare and replace a document in one step. So the order of writes has to do: whoever
may be late looks once more after writing, and two calls that write the same agree on every byte.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import uuid4

from zarr.abc.buffer import Buffer
from zarr.buffer import default_buffer_prototype

from aucpr_dask.errors import OtherRunError, StoreError
from aucpr_dask.storage.backends import clear_but, get_value, notes_of, open_backend, set_value
from aucpr_dask.storage.zarr_private import sync

FOLDER = "ledger"
STATE = f"{FOLDER}/state.json"
SECONDS_TO_STOP = 0.5  # for the run that had a place to end a write that was under way when it was taken over

FREE, CLEARING, LAYING_OUT, RUNNING, GROWING, FINISHED = (
    "free", "clearing", "laying out", "running", "growing", "finished"
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """How far the work at a place is.

    Nobody has claimed a ``free`` place. While it is ``clearing``, what was there before is removed. A new store is
    ``laying out``, then ``running``; a finished result that is ``growing`` stays open, and gets models or data sets.
    """

    word: str = FREE
    token: str = ""  # of the calls that may write
    identity: str = ""  # a digest of what they write
    end: str = ""  # the digest of the root document that makes it visible
    plan: Mapping[str, Any] | None = None  # of a run
    by_others: Sequence[Mapping[str, Any]] = ()  # what was not computed by the code of the plan: code, and its parts


class Claim:
    """The claim of a place, by the token that a call started with."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url, self._token = url, token
        self._notes = notes_of(url)

    def recorded(self) -> State:
        """Return the recorded state."""
        try:
            return state_of(self._read(STATE))
        except ValueError:
            raise self.damaged(STATE) from None

    def claim(self, state: State) -> bool:
        """Take an empty place for all calls that write the same; return whether one of them had it."""
        new = replace(state, token=uuid4().hex)
        self._persistently(lambda: sync(self._notes.set_if_not_exists(STATE, _as_buffer(new))))
        found = self.recorded()
        if found.identity != state.identity or found.word in (CLEARING, FINISHED):
            raise self.other_run()
        self._token = found.token
        return found.token != new.token  # not the whole: JSON makes lists of tuples

    def take_over(self, state: State) -> None:
        """Take a place from whoever has it."""
        try:
            had_owner = self.recorded().word not in (FREE, FINISHED)
        except StoreError:  # damaged
            had_owner = True
        self.record(replace(state, token=state.token or uuid4().hex))
        if had_owner:
            time.sleep(SECONDS_TO_STOP)

    def clear(self, state: State) -> None:
        """Take a place over and remove everything there; if that is killed, the same call goes on."""
        clearing = replace(state, word=CLEARING)
        self.take_over(clearing)
        clearing = replace(clearing, token=str(self._token))

        def check() -> None:
            found = self.recorded()
            if found.word in (FREE, FINISHED):  # a run that was finishing had looked before we came
                self.record(clearing)
            elif found.token != self._token:
                raise self.other_run()

        clear_but(open_backend(self._url), STATE, check)
        self.record(replace(state, token=clearing.token))

    def record(self, state: State) -> None:
        """Record a state, and keep to its token."""
        self._persistently(lambda: set_value(self._notes, STATE, _as_buffer(state)))
        self._token = state.token

    def check(self) -> None:
        """Raise if the place no longer has the token that the call started with."""
        if self._token is not None and self.recorded().token != self._token:
            raise self.other_run()

    def release(self) -> None:
        """Give up a place where everything is written."""
        self._token = None
        sync(self._notes.delete_dir(FOLDER))

    def other_run(self) -> OtherRunError:
        """Return the error that the place belongs to another run, or was removed."""
        if self.recorded() == State() and get_value(open_backend(self._url), "zarr.json") is None:
            what, remedy = "what this run was writing has been removed", "run the same command again to start over"
            return OtherRunError(what, where=self._url, remedy=remedy)
        remedy = "let the other run finish, or stop it; then run it again, with overwrite=True to start over"
        what = "this place now belongs to another run, so this one writes nothing more"
        return OtherRunError(what, where=self._url, remedy=remedy)

    def damaged(self, key: str) -> StoreError:
        """Return the error that a record cannot be used."""
        what = "the record of the run is damaged, or another run is replacing it"
        remedy = "pass overwrite=True to start over; a finished result still opens with open_result"
        return StoreError(what, f"{self._url}, {key}", None, "the record that a run wrote", remedy)

    def _read(self, key: str) -> Buffer | None:
        try:
            return get_value(self._notes, key)
        except FileNotFoundError:
            return None

    def _persistently(self, write: Callable[[], None]) -> None:
        """Write once more if a call that has just finished has removed the folder, or the temporary file."""
        try:
            write()
        except FileNotFoundError:
            write()


def state_of(document: Buffer | None) -> State:
    """Return the state that a document records; raise ValueError if it is damaged."""
    found = {} if document is None else json.loads(document.to_bytes())
    fields = State.__dataclass_fields__.keys()
    if not isinstance(found, dict) or not found.keys() <= fields:
        raise ValueError("not the record of a state")
    state, others = State(**found), found.get("by_others", [])
    words = (state.word, state.token, state.identity, state.end)
    is_sound = all(isinstance(word, str) for word in words) and isinstance(state.plan, dict | None)
    is_sound &= isinstance(others, list) and all(
        isinstance(one, dict) and isinstance(one.get("code"), dict) and isinstance(one.get("parts"), list)
        for one in others
    )
    if not is_sound:
        raise ValueError("not the record of a state")
    return state


def has_word(document: Buffer | None, word: str) -> bool:
    """Whether a recorded state has this word."""
    try:
        return state_of(document).word == word
    except ValueError:  # damaged
        return False


def as_buffer(content: bytes) -> Buffer:
    """Return bytes as stores take them."""
    return default_buffer_prototype().buffer.from_bytes(content)


def _as_buffer(state: State) -> Buffer:
    return as_buffer(json.dumps(asdict(state), sort_keys=True).encode())
