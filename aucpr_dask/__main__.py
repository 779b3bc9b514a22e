"""``aucpr-dask`` and ``python -m aucpr_dask``: the command line."""

import atexit
import os
import sys

from aucpr_dask.cli import main
from aucpr_dask.cli.common import INTERRUPTED


def run() -> None:
    """Run the command; if it is interrupted, clean up and exit without finalizing the interpreter.

    Threads that close a cluster may still be running code that cannot be interrupted. Finalizing the interpreter then
    sometimes ended the process by a signal, instead of with its exit code.
    """
    try:
        main(prog_name="aucpr-dask")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


# Worker processes import this file again; only the first process may run the command.
if __name__ == "__main__":
    run()
