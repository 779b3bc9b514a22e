"""Track the progress of a run, and show it."""

from aucpr_dask.progress.tracking import Progress as Progress

__all__ = ["Progress"]
