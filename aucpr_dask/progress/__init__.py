"""How far a run is: tracked where it is computed, shown where people look."""

from aucpr_dask.progress.tracking import Progress as Progress

__all__ = ["Progress"]
