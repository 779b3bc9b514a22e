"""How kernels are compiled: each entry point when it is first called, unless its machine code is in the cache.

The cache is not numba's own, which notices an edit only in the file of the entry point itself, compiles the same in
every process that starts at once, and tries folder after folder until it may write to one.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import pickle
import pkgutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types

from aucpr_dask.kernels.numba_private import CompileResult, dumps
from aucpr_dask.kernels.options import Options, Targets
from aucpr_dask.storage import code_cache

Function = TypeVar("Function", bound=Callable[..., Any])

_NJIT: Any = numba.njit
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_PACKAGE = __name__.rpartition(".")[0]
_ONE_AT_A_TIME = threading.Lock()  # threads that need the same kernel do not compile it twice
_KERNELS: dict[str, Kernel] = {}
SILENT_SECONDS = 2.0
COMPILING = "compiling for the first use on this machine; later calls and processes start at once"
_seconds = 0.0  # that this process has compiled

# The types of arguments.
I1, I4, I8, U1, U4, U8 = types.int8, types.int32, types.int64, types.uint8, types.uint32, types.uint64
F4, F8 = types.float32, types.float64
FLOATS = (F4, F8)


def row_of(real: Any) -> Any:
    """Return the type of a contiguous read-only row."""
    return types.Array(real, 1, "C", readonly=True)


def rows_of(real: Any) -> Any:
    """Return the type of contiguous read-only rows."""
    return types.Array(real, 2, "C", readonly=True)


OPTIONS_TYPE = types.NamedTuple((I8, I8, I8, I8, F8), Options)
TARGETS_TYPE = types.NamedTuple((row_of(I8), row_of(F8), row_of(F8)), Targets)


def helper(function: Function) -> Function:
    """Compile a function that only other kernels call."""
    compiled: Function = _NJIT(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)
    return compiled


def kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make an entry point of a function, for the given signatures, each of which is a kernel of its own."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        # Of no function that is an entry point already: numba names machine code by the qualified name of its function
        # and a counter that each process starts at zero. If different processes compiled two of one name, a process
        # that loaded both would run one of them in place of the other.
        full_name = f"{function.__module__.removeprefix(_PACKAGE + '.')}.{function.__qualname__}"
        if len(signatures) == 1:
            return _registered(Kernel(function, signatures[0], full_name))
        by_types = {}
        for signature in signatures:
            types = tuple(np.dtype(str(argument.dtype)) for argument in signature.args[:2])
            of_types = Kernel(function, signature, "_".join([full_name, *map(str, types)]))
            by_types[types] = _registered(of_types)
        return lambda *arguments: by_types[arguments[0].dtype, arguments[1].dtype](*arguments)

    return make


def _registered(kernel: Kernel) -> Kernel:
    _KERNELS[kernel.name] = kernel
    return kernel


class Kernel:
    """A compiled function on NumPy arrays."""

    def __init__(self, function: Callable[..., Any], signature: Any, name: str) -> None:
        self.name = name
        self._function, self._signature = function, signature
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code, which is made or loaded first if necessary."""
        return (self._compiled or self.prepare())(*arguments)

    @property
    def is_ready(self) -> bool:
        """Whether the machine code is in this process."""
        return self._compiled is not None

    def prepare(self) -> Callable[..., Any]:
        """Load the machine code, or compile it."""
        with _ONE_AT_A_TIME:
            if self._compiled is None:
                self._compiled = self._loaded_or_compiled()
            return self._compiled

    def load(self) -> bool:
        """Load the machine code if it is in the cache, and return whether it is in this process."""
        with _ONE_AT_A_TIME:
            try:
                self._compiled = self._compiled or self._load()
            except OSError as error:
                code_cache.warn_once(error)
            return self.is_ready

    def _loaded_or_compiled(self) -> Any:
        made: Any = None
        try:
            made = self._load()
            if made is None:
                with code_cache.turn(self.name):
                    made = self._load()  # another process may have been faster
                    if made is None:
                        made, code = self._compile()
                        code_cache.write(self.name, code)
        except OSError as error:
            code_cache.warn_once(error)
        return made or self._compile()[0]

    def _load(self) -> Any:
        """Return the machine code that is in the cache, if it works; raise OSError if it must not be used."""
        code = code_cache.read(self.name)
        if code is None:
            return None
        loaded = _NJIT(**_OPTIONS)(self._function)
        context = loaded.targetctx
        context.refresh()
        try:
            result = CompileResult._rebuild(context, *pickle.loads(code))
            context.insert_user_function(result.entry_point, result.fndesc, [result.library])
            loaded.add_overload(result)
        except Exception:  # the checksum was right, so what wrote it was another numba of the same version
            code_cache.put_aside(self.name)
            return None
        loaded.disable_compile()
        return loaded

    def _compile(self) -> tuple[Any, bytes]:
        """Return new machine code, in this process and as it is kept."""
        with _saying_so():
            try:
                return self._compile_once()
            except RuntimeError:  # numba lost what it compiled, because of an interrupt inside a callback
                return self._compile_once()

    def _compile_once(self) -> tuple[Any, bytes]:
        made = _NJIT([self._signature], **_OPTIONS)(self._function)
        (result,) = made.overloads.values()
        return made, dumps(result._reduce())


@contextmanager
def _saying_so() -> Iterator[None]:
    """Say once, if anyone is watching, that this process has spent two seconds compiling."""
    global _seconds
    started, left = time.monotonic(), SILENT_SECONDS - _seconds
    timer = threading.Timer(left, code_cache.announce, [COMPILING])
    timer.daemon = True
    if left > 0 and multiprocessing.parent_process() is None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _seconds += time.monotonic() - started


def kernels() -> list[Kernel]:
    """Return all kernels by name."""
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], f"{_PACKAGE}."):
        importlib.import_module(module.name)
    return [_KERNELS[name] for name in sorted(_KERNELS)]


def needs_no_compiling(name: str) -> bool:
    """Return whether a kernel of an imported module is in this process, or was in the cache when first asked."""
    return _KERNELS[name].is_ready or _was_kept(name)


@functools.cache  # to look for the file takes as long as to rank a hundred items
def _was_kept(name: str) -> bool:
    return _KERNELS[name].load()


def prepare(names: Iterable[str]) -> None:
    """Load or compile kernels by their names."""
    for name in names:
        importlib.import_module(f"{_PACKAGE}.{name.rpartition('.')[0]}")
        _KERNELS[name].prepare()


def load_kept() -> list[str]:
    """Load the cached machine code without compiling; return the names of its kernels."""
    return [kernel.name for kernel in kernels() if kernel.load()]


def compile_all() -> list[str]:
    """Compile every kernel into the cache; return their names."""
    for each in kernels():
        each.prepare()
    return load_kept()


# Work divided over the cores of this process

Result = TypeVar("Result")

_lock = threading.Lock()
_n_busy = 0  # cores at work on what is divided here


def on_all_cores(function: Callable[..., Result], *tasks: Iterable[Any]) -> list[Result]:
    """Return the results of a function that calls kernels for each task, in order.

    Threads of Dask that do so at the same time share the cores. A process that another one started has one core: it is
    one of several workers.
    """
    with _idle_cores() as n_cores:
        if n_cores == 1:
            return list(map(function, *tasks))
        with ThreadPoolExecutor(n_cores) as pool:
            return list(pool.map(function, *tasks))


@contextmanager
def _idle_cores() -> Iterator[int]:
    """Reserve the cores that no other thread has reserved: one at least."""
    global _n_busy
    n_cores: int = 1 if multiprocessing.parent_process() else getattr(numba.config, "NUMBA_NUM_THREADS", 1)
    with _lock:
        n_idle = max(1, n_cores - _n_busy)
        _n_busy += n_idle
    try:
        yield n_idle
    finally:
        with _lock:
            _n_busy -= n_idle
