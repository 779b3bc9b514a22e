"""From results to statements about models: means over queries, paired comparisons, ranks."""

from aucpr_dask.inference.aggregating import aggregate
from aucpr_dask.inference.comparing import compare
from aucpr_dask.inference.covarying import covariance
from aucpr_dask.inference.ranking import rank
from aucpr_dask.inference.stored import open_comparison, save_comparison

__all__ = ["aggregate", "compare", "covariance", "open_comparison", "rank", "save_comparison"]
