"""``aucpr-dask`` and ``python -m aucpr_dask``: the command line."""

import atexit
import os
import sys

from aucpr_dask.cli import main
from aucpr_dask.cli.common import INTERRUPTED


def run() -> None:
    """Run the command; if it is interrupted, tidy up and leave without taking the interpreter to pieces.

    Threads that close a cluster may be under way still, in code that cannot be left in the middle: once in nine times
    the process was then ended by a signal, and who waits for the command shall get its exit code.
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


# Worker processes import this file anew; only the first process may run the command.
if __name__ == "__main__":
    run()
