"""How kernels are compiled, and where their machine code is kept.

Numba's own cache breaks when several processes fill one folder at once. Here a folder is filled in private and
published by one atomic rename. Its name is a digest of everything the code depends on, so a published folder is
complete, and only read.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import llvmlite.binding
import numba
import numpy as np

from aucpr_dask.storage import code_cache

Function = TypeVar("Function", bound=Callable[..., Any])

_NUMBA: Any = numba.config
_NJIT: Any = numba.njit
_ONE_AT_A_TIME = threading.Lock()
_LOADED: set[str] = set()  # groups

_PACKAGE = __name__.rpartition(".")[0]
_FOLDER = Path(__file__).parent
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def helper(function: Function) -> Function:
    """Compile a function that only other kernels call."""
    compiled: Function = _NJIT(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)
    return compiled


class Cache:
    """The machine code of one group of entry points, a module: published, being filled in private, or unavailable."""

    def __init__(self, module: str) -> None:
        self._group = group = module.removeprefix(f"{_PACKAGE}.")
        self._private: Path | None = None
        self._enabled = True
        self._turn: code_cache.Turn | None = None
        try:
            home = code_cache.prepared_home()
            self._published = home / f"{group}-{_digest()}"
            if not self._published.exists():
                self._turn = code_cache.Turn(home, self._published.name)  # another process may publish it meanwhile
            if self._published.exists():
                self._end_turn()
                code_cache.check_private(self._published)
                self._enabled = os.access(self._published, os.W_OK)  # numba writes there even to load
            else:
                code_cache.remove_abandoned(home)
                self._private = Path(tempfile.mkdtemp(prefix=f"{code_cache.FILLING}{os.getpid()}-", dir=home))
        except OSError as error:
            self._give_up(error)

    def kernel(self, *signatures: Any) -> Callable[[Function], Function]:
        """Compile an entry point for the given signatures, or load it."""

        def compile_now(function: Function) -> Function:
            compiled: Function
            try:
                with self._folder_in_use():
                    try:
                        compiled = _NJIT(list(signatures), cache=self._enabled, **_OPTIONS)(function)
                    except RuntimeError:  # numba lost what it compiled, because of an interrupt inside a callback
                        compiled = _NJIT(list(signatures), cache=self._enabled, **_OPTIONS)(function)
                return compiled
            except Exception as error:
                if not self._enabled:
                    raise
                self._give_up(error)  # a full disk, or a damaged file
            except BaseException:
                self._remove_private()
                raise
            return compile_now(function)

        return compile_now

    @contextmanager
    def _folder_in_use(self) -> Iterator[None]:
        """Point numba to the folder; its setting is global, and threads may compile two groups at once."""
        with _ONE_AT_A_TIME:
            previous = _NUMBA.CACHE_DIR
            if self._enabled:
                _NUMBA.CACHE_DIR = str(self._private or self._published)
            try:
                yield
            finally:
                _NUMBA.CACHE_DIR = previous

    def publish(self) -> None:
        """Make compiled code visible to other processes, all at once."""
        _LOADED.add(self._group)
        if self._private is None:
            return
        try:
            code_cache.make_private(self._private)
            self._private.rename(self._published)
        except OSError:  # another process was first, with an equivalent folder
            self._remove_private()
        self._end_turn()

    def _give_up(self, error: Exception) -> None:
        """Go on without a cache."""
        self._enabled = False
        self._remove_private()
        code_cache.warn_once(error)

    def _remove_private(self) -> None:
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
            self._private = None
        self._end_turn()

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.end()


def is_ready(group: str) -> bool:
    """Return whether a group is loaded or in the cache, so that nothing would be compiled."""
    return group in _LOADED or (code_cache.cache_home() / f"{group}-{_digest()}").exists()


def load_published() -> list[str]:
    """Load the cached machine code without compiling; return the names of its groups."""
    groups = _published()
    for group in groups:
        importlib.import_module(f"{_PACKAGE}.{group}")
    return groups


def compile_all() -> list[str]:
    """Compile every kernel into the cache; return the names of the groups."""
    for module in pkgutil.walk_packages([str(_FOLDER)], f"{_PACKAGE}."):
        importlib.import_module(module.name)
    return _published()


def _published() -> list[str]:
    """Return the names of the groups that are in the cache and may be loaded."""
    try:
        folders = sorted(code_cache.prepared_home().glob(f"*-{_digest()}"))
        for folder in folders:
            code_cache.check_private(folder)
    except OSError as error:
        code_cache.warn_once(error)
        return []
    return [folder.name.rsplit("-", 1)[0] for folder in folders]


@cache
def _digest() -> str:
    sources = sorted(_FOLDER.rglob("*.py"))
    facts = [
        sys.version,
        np.__version__,
        numba.__version__,
        llvmlite.__version__,
        *_processor(),
        *(f"{path.relative_to(_FOLDER)}:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sources),
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")),
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:24]


def _processor() -> list[str]:
    """Return what the code is compiled for: this processor, or another that numba is configured for."""
    if "NUMBA_CPU_NAME" in os.environ and "NUMBA_CPU_FEATURES" in os.environ:
        return []  # both are among the variables
    return [
        llvmlite.binding.get_host_cpu_name(),
        str(sorted(llvmlite.binding.get_host_cpu_features().items())),
    ]
