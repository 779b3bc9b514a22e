"""What comes in: score data sets, validated, from stores and from other people's files."""

from aucpr_dask.scores.store import open_scores, save_scores
from aucpr_dask.scores.validate import validate_scores

__all__ = ["open_scores", "save_scores", "validate_scores"]
