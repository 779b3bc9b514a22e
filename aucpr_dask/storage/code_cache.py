"""The folder of compiled code, which is executed: a file for each kernel, unless others could have put it there.

A file is written under another name and renamed, so it is complete, or not there. Its name ends with a digest of
everything the code depends on, so it is never rewritten. It begins with a checksum: damaged code could do anything.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import locket
from platformdirs import user_cache_path

from aucpr_dask.errors import AucprError, CacheWarning, warn

CACHE_VARIABLE = "AUCPR_DASK_CACHE_DIR"
DIGEST_LENGTH = 24
OURS = re.compile(rf"[a-z0-9_.]+-[0-9a-f]{{{DIGEST_LENGTH}}}")  # names of compiled code, of this version and of others
IMPORT = re.compile(r"^from aucpr_dask\.kernels(?:\.([\w.]+))? import (\([^)]*\)|[^\n(]+)", re.MULTILINE)
HIDDEN = ".aucpr-"  # begins the names of everything else: what is being written, locks, and what was damaged
DAY = 24 * 3600.0  # seconds
UNUSED_AFTER = 30 * DAY
PATIENCE = 60.0  # seconds to wait for another process that compiles the same, which may be stopped

_KERNELS = Path(__file__).parents[1] / "kernels"
_warned = threading.Event()


def cache_home() -> Path:
    """Return the folder of compiled code, whether it exists or not."""
    return Path(os.environ.get(CACHE_VARIABLE) or user_cache_path("aucpr_dask")).absolute()


def path_of(kernel: str) -> Path:
    """Return where the compiled code of a kernel is, or would be, for these sources, versions and processor."""
    return cache_home() / f"{kernel}-{digest(kernel.rpartition('.')[0])}"


@cache
def digest(module: str) -> str:
    """Return in short what the compiled code of a module of kernels depends on; numba itself is not imported."""
    facts = [
        sys.version,
        *(version(package) for package in ("numpy", "numba", "llvmlite")),
        *_processor(),
        *(f"{path.relative_to(_KERNELS)}:{_text_of(path)}" for path in sources(module)),
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")),
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:DIGEST_LENGTH]


def sources(module: str) -> list[Path]:
    """Return the files of a module of kernels, and of those that it imports."""
    found: set[Path] = set()
    pending = {module}
    while pending:
        path = _KERNELS.joinpath(*pending.pop().split(".")).with_suffix(".py")
        if path in found or not path.is_file():
            continue
        found.add(path)
        for imported, names in IMPORT.findall(_text_of(path)):
            modules = [name.split()[0] for name in names.strip("()").split(",") if name.strip()]
            pending |= {imported} if imported else set(modules)
    return sorted(found)


@cache
def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _processor() -> tuple[str, ...]:
    """Return what the code is compiled for: this processor, or another that numba is configured for."""
    if "NUMBA_CPU_NAME" in os.environ and "NUMBA_CPU_FEATURES" in os.environ:
        return ()  # both are among the variables
    from llvmlite import binding

    return binding.get_host_cpu_name(), str(sorted(binding.get_host_cpu_features().items()))


def read(kernel: str) -> bytes | None:
    """Return the compiled code of a kernel; None if there is none. Raise OSError if it must not be used.

    Nothing is written but the time of its use: a filled cache may be read-only. A damaged file is put aside.
    """
    path = path_of(kernel)
    if not os.path.lexists(path):
        return None
    check_private(path)
    content = path.read_bytes()
    checksum, code = content[:32], content[32:]
    if hashlib.sha256(code).digest() != checksum:
        put_aside(kernel)
        return None
    with suppress(OSError):
        if path.stat().st_mtime < time.time() - DAY:
            os.utime(path)
    return code


def write(kernel: str, code: bytes) -> None:
    """Publish the compiled code of a kernel, all at once; raise OSError if that is impossible."""
    home = prepared_home()
    _sweep(home)
    handle, temporary = tempfile.mkstemp(prefix=HIDDEN, dir=home)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.chmod(temporary, 0o644)  # for who may read it, as in an image that root has filled
        os.replace(temporary, path_of(kernel))
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def put_aside(kernel: str) -> None:
    """Rename damaged code, so that it is compiled again, once."""
    path = path_of(kernel)
    with suppress(FileNotFoundError):  # another process was first
        path.rename(path.with_name(f"{HIDDEN}damaged-{path.name}"))


def prepared_home() -> Path:
    """Return the folder of compiled code, made if necessary; raise OSError if nothing may or can be written to it."""
    home = cache_home()
    if home.is_relative_to(Path.home()) and not Path.home().exists():
        raise FileNotFoundError(f"{Path.home()}, the home of this user, does not exist")
    for folder in (*reversed(home.parents), home):
        if not folder.exists():
            folder.mkdir(mode=0o755 if folder == home else 0o700, exist_ok=True)
    check_private(home)
    if not os.access(home, os.W_OK):
        raise PermissionError("this user cannot write to the folder")
    return home


def check_private(path: Path) -> None:
    """Raise OSError unless this user or root owns the folder, and a file in it, and nobody else may change them."""
    if os.name != "posix":  # on Windows, the folders of a profile are private
        return
    home = cache_home()
    if not home.is_dir():
        raise NotADirectoryError(f"{home} is not a folder")
    place = home.resolve(strict=True)
    _check_owner(place)
    for parent in place.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise PermissionError(f"others may replace what is in {parent}")
    if path != home:
        _check_owner(place / path.name)
        if not stat.S_ISREG((place / path.name).lstat().st_mode):
            raise PermissionError(f"{path} is not a regular file")


def _check_owner(path: Path) -> None:
    facts = path.lstat()
    if facts.st_uid not in (0, os.getuid()):
        raise PermissionError(f"{path} belongs to another user")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(facts.st_mode):
        raise PermissionError(f"others may write to {path}")


def _sweep(home: Path) -> None:
    """Remove what killed processes left, and the code of versions, machines and sources that are used no more."""
    now = time.time()
    with suppress(OSError):
        for path in home.iterdir():
            is_hidden = path.name.startswith(HIDDEN)
            if not is_hidden and not OURS.fullmatch(path.name):
                continue
            if path.lstat().st_mtime < now - (DAY if is_hidden else UNUSED_AFTER):
                path.unlink(missing_ok=True)


@contextmanager
def turn(kernel: str) -> Iterator[None]:
    """Have the right to compile one kernel, which one process of a machine has at a time."""
    # It ends with the process. Who has waited too long, or cannot lock files there, goes on without it.
    path = prepared_home() / f"{HIDDEN}{kernel}.lock"
    lock = locket.lock_file(str(path), timeout=PATIENCE)
    try:
        lock.acquire()
    except (locket.LockError, OSError):
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


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
    warn(str(problem), CacheWarning)


def check_once() -> None:
    """Warn if compiled code cannot be kept on this machine, nor was kept before."""
    try:
        if any(OURS.fullmatch(path.name) for path in cache_home().glob("*")):
            check_private(cache_home())
        else:
            prepared_home()
    except OSError as error:
        warn_once(error)


_commands: list[Callable[[str], None]] = []  # how the command that runs shows a line


@contextmanager
def announcing(show: Callable[[str], None]) -> Iterator[None]:
    """Let a command show what is announced while it runs, in a log as well."""
    _commands.append(show)
    try:
        yield
    finally:
        _commands.remove(show)


def announce(text: str) -> None:
    """Show a line of the command that runs, or to somebody who watches: the log of a program is its own."""
    if _commands:
        _commands[-1](text)
    elif sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        print(text, file=sys.stderr, flush=True)


def stay_silent() -> None:
    """Leave the warning to another process."""
    _warned.set()
