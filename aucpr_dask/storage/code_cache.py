"""The folder of compiled code, which is executed: where it is, and whether somebody else could have put code there."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

from aucpr_dask.errors import AucprError, CacheWarning

try:
    import fcntl
except ImportError:  # on Windows
    CAN_LOCK = False
else:
    CAN_LOCK = True

CACHE_VARIABLE = "AUCPR_DASK_CACHE_DIR"
LOCK = ".lock"
FILLING = ".filling-"  # begins the names of folders that are not complete, before the number of their process
ABANDONED_AFTER = 24 * 3600.0  # seconds
PATIENCE = 60.0  # seconds to wait for another process that compiles the same, which may be stopped

_warned = threading.Event()


def cache_home() -> Path:
    """Return the folder of compiled code, whether it exists or not."""
    return Path(os.environ.get(CACHE_VARIABLE) or user_cache_path("aucpr_dask")).absolute()


def prepared_home() -> Path:
    """Return the folder of compiled code, made if necessary; raise OSError if it must not or cannot be used."""
    home = cache_home()
    for folder in (*reversed(home.parents), home):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    home = home.resolve()
    check_private(home, below=False)
    if not os.access(home, os.W_OK):
        raise PermissionError("this user cannot write to the folder")
    return home


def check_private(folder: Path, *, below: bool = True) -> None:
    """Raise OSError unless this user or root owns a folder, and nobody else may change or replace what is in it."""
    if os.name != "posix":  # on Windows, the folders of a profile are private
        return
    place = folder.resolve(strict=True)
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is not a folder")
    for path in (place, *(place.rglob("*") if below else ())):
        facts = path.lstat()
        if facts.st_uid not in (0, os.getuid()):
            raise PermissionError(f"{path} belongs to another user")
        if not stat.S_ISDIR(facts.st_mode) and not stat.S_ISREG(facts.st_mode):
            raise PermissionError(f"{path} is neither a file nor a folder")
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"others may write to {path}")
    for parent in place.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise PermissionError(f"others may replace what is in {parent}")


def make_private(folder: Path) -> None:
    """Withdraw the right to write from others, which a umask may have left them."""
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))


def remove_abandoned(home: Path) -> None:
    """Remove the folders of processes that were killed while they filled them."""
    with suppress(OSError):
        for folder in home.glob(f"{FILLING}*"):
            is_old = folder.lstat().st_mtime < time.time() - ABANDONED_AFTER
            if is_old and folder.suffix == LOCK:
                folder.unlink(missing_ok=True)
            elif is_old and not _is_running(folder.name.removeprefix(FILLING).partition("-")[0]):
                shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: str) -> bool:
    if os.name != "posix" or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


class Turn:
    """The right to compile one group, which one process of a machine has at a time.

    It ends with the process. Who has waited too long, or cannot lock files there, goes on without it.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._path = home / f"{FILLING}{name}{LOCK}"
        self._file: int | None = None
        if not CAN_LOCK:
            return
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                break
            else:
                self._file = file
                return
        os.close(file)

    def end(self) -> None:
        """Let the next process have its turn."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def warn_once(error: Exception) -> None:
    """Say, once in a process, that compiled code is not kept."""
    if _warned.is_set():
        return
    _warned.set()
    problem = AucprError(
        "compiled code is neither loaded nor kept, so every process compiles again, which can take a minute",
        where=cache_home(),
        received=str(error) or type(error).__name__,
        allowed="a folder that you or root own, and that nobody else may write to",
        remedy=f"withdraw the rights of others (chmod -R go-w), or name another folder in {CACHE_VARIABLE}",
    )
    warnings.warn(str(problem), CacheWarning, stacklevel=2)


def check_once() -> None:
    """Warn if compiled code cannot be kept on this machine."""
    try:
        prepared_home()
    except OSError as error:
        warn_once(error)


def stay_silent() -> None:
    """Leave the warning to another process."""
    _warned.set()
