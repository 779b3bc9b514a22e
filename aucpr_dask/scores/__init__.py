"""Score data sets: validated, read from and written to stores, and imported from other formats."""

from aucpr_dask.scores.store import open_scores, save_scores
from aucpr_dask.scores.validate import validate_scores

__all__ = ["open_scores", "save_scores", "validate_scores"]
