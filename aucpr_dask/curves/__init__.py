"""Curves, their bands, and references to compare areas with; the way in is :mod:`~aucpr_dask.curves.api`."""
