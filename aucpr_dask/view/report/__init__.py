"""A result as one page that needs no network: leaderboards, comparisons, curves, and what they mean in words."""

from aucpr_dask.view.report.auditing import Audit, audit
from aucpr_dask.view.report.writing import report

__all__ = ["Audit", "audit", "report"]
