"""The options of kernels, and the columns of facts that they return with the numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aucpr_dask.kernels.codes import is_basic

COLUMNS = (
    "n_positive",  # what the estimates divide by
    "n_negative",
    "n_missing",  # items without a score
    "n_ranked",  # items with a score
    "n_unseen",  # positives that are not items; negative if n_positive is too small
    "tied_share",  # share of the ranked positives that share their score with a negative
    "roc_area",
    "n_distinct",  # distinct scores, counted up to 3
    "ties_matter",  # 1 if another order of tied items could change an area
)

N_COLUMNS = len(COLUMNS)


MISSING_RAISE, MISSING_DROP, MISSING_LAST, MISSING_UNRETRIEVED = 0, 1, 2, 3


REACH = 9.0  # standard deviations beyond which a normal tail is below rounding


class Options(NamedTuple):
    """What the labels, the missing scores and the ties of a call mean."""

    positive_from: int = 1
    drop_unjudged: int = 0
    missing: int = MISSING_RAISE
    expect_ties: int = 0  # 1: the expectation over a random order of tied items
    prevalence: float = np.nan  # NaN: that of the sample


class Targets(NamedTuple):
    """What to compute: estimators by code, with a parameter each (or NaN), over a range of recall."""

    codes: np.ndarray
    parameters: np.ndarray
    recall_range: np.ndarray  # lowest and highest recall, and their normal quantiles

    @property
    def are_basic(self) -> bool:
        """Whether the tie groups of positives are all that these estimators need."""
        whole = self.recall_range[0] == 0 and self.recall_range[1] == 1
        return bool(whole and is_basic(self.codes).all())
