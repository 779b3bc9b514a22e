"""Claims of places where something is being written: a random token, which tells calls apart, and what they write.

A call claims a place before it writes there, and compares the token with its own while it does. If it is killed, the
same call finds a claim of what it wants to write, and goes on; any other call is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from uuid import uuid4

from zarr.abc.store import Store
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync

from aucpr_dask.errors import OtherRunError
from aucpr_dask.storage.backends import clear_but, get_value, set_value

FOLDER = "ledger"
TOKEN = f"{FOLDER}/token"
SECONDS_TO_STOP = 0.5  # for the run that had a place to end a write that was under way when it was taken over
CLEARING = "clearing-"  # begins the token while what was there before is removed


class Claim:
    """The claim of a place.

    Parameters
    ----------
    backend : zarr store
        The store in this place.
    token : str, optional
        The token that a call started with.
    """

    def __init__(self, backend: Store, token: str | None = None) -> None:
        self._backend = backend
        self._token = token

    def claim(self, identity: str) -> bool:
        """Take a place for all calls that write the same; return whether one of them had it."""
        new = f"{uuid4().hex}-{identity}"
        persistently(lambda: sync(self._backend.set_if_not_exists(TOKEN, as_buffer(new.encode()))))
        token = self.token()
        if not token.endswith(f"-{identity}"):
            raise self.other_run()
        self._token = token
        return token != new

    def take_over(self, identity: str, *, clears: bool) -> None:
        """Take a place from whoever has it, perhaps to :meth:`clear` it; if that is killed, the same call goes on."""
        had_owner = clears and bool(self.token())
        self._keep_to(f"{CLEARING if clears else ''}{uuid4().hex}-{identity}")
        if had_owner:
            time.sleep(SECONDS_TO_STOP)

    def clear(self) -> None:
        """Remove everything from a place that was taken over."""
        clear_but(self._backend, TOKEN, self._check_while_clearing)
        self._keep_to(str(self._token).removeprefix(CLEARING))

    def is_claimed_for(self, identity: str) -> bool:
        """Return whether calls that write this have the place."""
        return self.token().endswith(f"-{identity}")

    def is_being_cleared_for(self, identity: str) -> bool:
        """Return whether such a call is removing what was there before, or was killed while it did."""
        return self.token().startswith(CLEARING) and self.is_claimed_for(identity)

    def token(self) -> str:
        """Return the token in the store; empty once what was written is finished."""
        try:
            document = get_value(self._backend, TOKEN)
        except FileNotFoundError:
            return ""
        return "" if document is None else document.to_bytes().decode(errors="replace")

    def check(self) -> None:
        """Raise if the place no longer has the token that the call started with."""
        if self._token is not None and self.token() != self._token:
            raise self.other_run()

    def other_run(self) -> OtherRunError:
        """Return the error that the place belongs to another run."""
        return OtherRunError(
            "this place now belongs to another run, so this one writes nothing more",
            where=str(self._backend),
            remedy="let the other run finish, or stop it; then run the same command again, with overwrite=True "
            "(--overwrite) to start over",
        )

    def release(self) -> None:
        """Give up a place where everything is written."""
        self._token = None
        sync(self._backend.delete_dir(FOLDER))

    def _check_while_clearing(self) -> None:
        """Raise as :meth:`check`, but keep the place if a run that was finishing took our token for its own."""
        token = self.token()
        if not token:
            self._keep_to(str(self._token))
        elif token != self._token:
            raise self.other_run()

    def _keep_to(self, token: str) -> None:
        persistently(partial(set_value, self._backend, TOKEN, as_buffer(token.encode())))
        self._token = token


def persistently(write: Callable[[], None]) -> None:
    """Write once more if a call that has just finished has removed the folder, or the temporary file."""
    try:
        write()
    except FileNotFoundError:
        write()


def as_buffer(content: bytes) -> Buffer:
    """Return bytes as stores take them."""
    return default_buffer_prototype().buffer.from_bytes(content)
