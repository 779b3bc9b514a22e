"""``python -m aucpr_dask``: the command line."""

from aucpr_dask.cli import main

# Worker processes import this file anew; only the first process may run the command.
if __name__ == "__main__":
    main(prog_name="aucpr-dask")
