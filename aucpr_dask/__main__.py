"""``aucpr-dask`` and ``python -m aucpr_dask``: the command line."""

import atexit
import errno
import gc
import os
import sys
import tempfile
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import wrapt

from aucpr_dask.cli import main
from aucpr_dask.cli.common import FAILED, INTERRUPTED
from aucpr_dask.schema.checks import is_dask

UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EPIPE)  # of an output that is no longer there, or full


class _DaskArrays(type):
    """The type of a class whose instances are Dask arrays."""

    def __instancecheck__(cls, instance: object) -> bool:
        return is_dask(instance)


def _lighten() -> None:
    """Keep xarray from importing Dask, which takes as long as xarray, only to ask whether an array is of Dask."""

    @wrapt.when_imported("xarray.namedarray.pycompat")
    def ask_without_dask(pycompat: Any) -> None:
        pycompat._cached_duck_array_modules["dask"] = SimpleNamespace(type=(_DaskArrays("DaskArray", (), {}),))

    @wrapt.when_imported("xarray.namedarray.utils")
    def ask_without_import(utils: Any) -> None:
        ask = utils.is_dask_collection
        utils.is_dask_collection = lambda instance: "dask" in sys.modules and ask(instance)

    @wrapt.when_imported("numba.np.linalg")
    def do_without_blas(linalg: Any) -> None:
        linalg.ensure_blas = lambda: None  # numba would import SciPy only to see that it is there; no kernel uses it

    @wrapt.when_imported("dask.utils")
    def leave_docstrings(utils: Any) -> None:
        utils.derived_from = lambda *_, **__: lambda method: method  # NumPy's, which take a third of Dask's import

    @wrapt.when_imported("dask")
    def compute_in_threads(dask: Any) -> None:
        dask.config.set(scheduler=dask.config.get("scheduler", "threads"))  # else Dask looks for distributed ones


def run() -> None:
    """Run the command; if it is interrupted, clean up and exit without finalizing the interpreter.

    Threads that close a cluster may still be running code that cannot be interrupted. Finalizing the interpreter then
    sometimes ended the process by a signal, instead of with its exit code.
    """
    _lighten()
    gc.set_threshold(20_000, 20, 100)  # imports make few cycles, and looking for them takes a sixth of their time
    atexit.register(gc.freeze)  # otherwise Python looks for cycles in all modules before it ends, for half a second
    # A daemon may close them; what is printed then goes where nobody reads it.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    try:
        try:
            main(prog_name="aucpr-dask")
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        if isinstance(end.code, int) and end.code in INTERRUPTED.values():
            atexit._run_exitfuncs()
            with suppress(OSError):  # of a terminal that has gone
                sys.stderr.flush()
            os._exit(end.code)
        raise
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        text = (
            f"Error: the output, or a temporary file, cannot be written: {error.strerror}; results that were finished "
        )
        sys.stderr.write(f"{text}are stored; if a disk is full, make room there, or in {tempfile.gettempdir()}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more
        sys.exit(FAILED)


# Worker processes import this file again; only the first process may run the command.
if __name__ == "__main__":
    run()
