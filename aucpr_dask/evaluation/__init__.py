"""From scores to estimates and intervals, labelled and lazy; the way in is :mod:`~aucpr_dask.evaluation.api`."""
