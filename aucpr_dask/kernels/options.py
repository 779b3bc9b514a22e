"""What a call of kernels asks for: numbers by their codes, and what labels, missing scores and ties mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_PLACES = 2**32  # items of one ranking that are put in order
REACH = 9.0  # standard deviations beyond which a normal tail is below rounding


class Number(NamedTuple):
    """What kernels know about a number that they compute: an estimator's, or one that its interval needs."""

    name: str
    by_groups: bool = True  # whether it needs no more than the tie groups that hold a positive, over all recalls
    every_point: bool = False  # whether it needs each operating point, or score, between them
    counts_only: bool = False  # whether it has a meaning for hard rankings over all recalls only
    is_common: bool = False  # whether most calls need it: what does is compiled apart, in half the time
    leaves_out: bool = False  # whether it is that of Haldane's area, which leaves out the positive itself


_HIDDEN = {"counts_only": True}
_COMMON = _HIDDEN | {"is_common": True}
_HALDANE = {"leaves_out": True}

# Areas that are sums over tie groups: their influences follow from what each tie group adds.
BY_PIECES = (
    "average_precision",
    "lower_trapezoid",
    "upper_trapezoid",
    "interpolated_max",
    "continuous",
    "roc_area",
    "gain_area",
)
FACTS = ("standard_error_fixed", "standard_error_random", "cubes_fixed", "cubes_random", "left_out", "unseen_loss")

NUMBERS = (
    Number("average_precision", is_common=True),
    Number("lower_trapezoid"),
    Number("upper_trapezoid"),
    Number("interpolated_max", by_groups=False),
    Number("interpolated_mean", by_groups=False, every_point=True),
    Number("interpolated_median", by_groups=False, every_point=True),
    Number("interpolated_convex", by_groups=False),
    Number("continuous", by_groups=False),
    Number("discrete", by_groups=False),
    Number("binormal", by_groups=False, every_point=True),
    Number("roc_area", by_groups=False),
    Number("gain_area", by_groups=False),
    Number("precision_at_recall", by_groups=False),
    Number("recall_at_precision", by_groups=False),
    Number("precision_at", by_groups=False, counts_only=True),
    Number("recall_at", by_groups=False, counts_only=True),
    Number("haldane", is_common=True, leaves_out=True),
    # What the intervals of average precision need, then those of Haldane's area.
    Number("standard_error_fixed", **_COMMON),
    Number("standard_error_random", **_COMMON),
    Number("acceleration", **_HIDDEN),
    Number("cubes_fixed", **_COMMON),
    Number("cubes_random", **_COMMON),
    Number("left_out", **_COMMON),
    Number("unseen_loss", **_COMMON),
    Number("haldane_standard_error_fixed", **_COMMON, **_HALDANE),
    Number("haldane_standard_error_random", **_COMMON, **_HALDANE),
    Number("haldane_acceleration", **_HIDDEN, **_HALDANE),
    Number("haldane_cubes_fixed", **_COMMON, **_HALDANE),
    Number("haldane_cubes_random", **_COMMON, **_HALDANE),
    Number("haldane_unseen_loss", **_COMMON, **_HALDANE),
    # What the intervals of other areas need, and of parts of average precision.
    *(Number(f"{area}_{fact}", by_groups="trapezoid" in area) for area in BY_PIECES for fact in FACTS),
)

CODES = {number.name: code for code, number in enumerate(NUMBERS)}  # numbers, which compiled code compares

AVERAGE_PRECISION, HALDANE = CODES["average_precision"], CODES["haldane"]
LOWER_TRAPEZOID, UPPER_TRAPEZOID = CODES["lower_trapezoid"], CODES["upper_trapezoid"]
INTERPOLATED_MAX, INTERPOLATED_CONVEX = CODES["interpolated_max"], CODES["interpolated_convex"]
INTERPOLATED_MEAN, INTERPOLATED_MEDIAN = CODES["interpolated_mean"], CODES["interpolated_median"]
CONTINUOUS, DISCRETE, BINORMAL = CODES["continuous"], CODES["discrete"], CODES["binormal"]
ROC_AREA, GAIN_AREA = CODES["roc_area"], CODES["gain_area"]
PRECISION_AT_RECALL, RECALL_AT_PRECISION = CODES["precision_at_recall"], CODES["recall_at_precision"]
PRECISION_AT, RECALL_AT = CODES["precision_at"], CODES["recall_at"]
ERROR_FIXED, ERROR_RANDOM = CODES["standard_error_fixed"], CODES["standard_error_random"]
CUBES_FIXED, CUBES_RANDOM = CODES["cubes_fixed"], CODES["cubes_random"]
ACCELERATION, LEFT_OUT, UNSEEN_LOSS = CODES["acceleration"], CODES["left_out"], CODES["unseen_loss"]

ERROR, CUBES, LEFT, LOSS = 0, 1, 2, 3  # kinds of facts
_AREA_AND_FACT = {f"{area}_{fact}": (area, fact) for area in BY_PIECES for fact in FACTS}
_PARTS = [_AREA_AND_FACT.get(number.name, (number.name, "")) for number in NUMBERS]
AREA_OF = np.array([CODES[area] for area, _ in _PARTS])
FACT_OF = np.array([(-1, 0, 0, 1, 1, 2, 3)[("", *FACTS).index(fact)] for _, fact in _PARTS])
IS_FIXED = np.array([fact.endswith("fixed") for _, fact in _PARTS])
BY_GROUPS = np.array([number.by_groups for number in NUMBERS])
EVERY_POINT = np.array([number.every_point for number in NUMBERS])
COUNTS_ONLY = np.array([number.counts_only for number in NUMBERS])
IS_COMMON = np.array([number.is_common for number in NUMBERS])
LEAVES_OUT = np.array([number.leaves_out for number in NUMBERS])
# The code of the same number of average precision, for those of Haldane's area but the area itself.
OF_AVERAGE_PRECISION = np.array([CODES[number.name.removeprefix("haldane_")] for number in NUMBERS])

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


class Options(NamedTuple):
    """What the labels, the missing scores and the ties of a call mean."""

    positive_from: int = 1
    drop_unjudged: int = 0
    missing: int = MISSING_RAISE
    expect_ties: int = 0  # 1: the expectation over a random order of tied items
    prevalence: float = np.nan  # NaN: that of the sample


class Clusters(NamedTuple):
    """Clusters of the items of rankings: those of row i of the scores are in row ``row[i]``."""

    number: Indices  # (cluster rows, items): from 0
    row: Indices  # (rows,)


class Items(NamedTuple):
    """The items of rankings: row i of the scores has the class weights in row ``row[i]``."""

    score: NDArray[Any]  # (rows, items), float32 or float64
    positive: Array  # (weight rows, items): the weight of each item as a positive; 0 if it is none
    negative: Array
    row: Indices  # (rows,)
    unseen: Array  # (rows,): positives that are not items, of weight 1
    clusters: Clusters | None = None  # that are drawn in place of items

    def part(self, rows: slice | NDArray[np.bool_]) -> Items:
        """Return some of the rankings."""
        clusters = None if self.clusters is None else self.clusters._replace(row=self.clusters.row[rows])
        return self._replace(score=self.score[rows], row=self.row[rows], unseen=self.unseen[rows], clusters=clusters)

    def weights(self, ranking: int) -> tuple[Array, Array]:
        """Return the weights of a ranking's items as positives, and as negatives."""
        return self.positive[self.row[ranking]], self.negative[self.row[ranking]]

    def clusters_of(self, ranking: int) -> Indices | None:
        """Return the clusters of a ranking's items, unless these are drawn themselves."""
        return None if self.clusters is None else np.asarray(self.clusters.number[self.clusters.row[ranking]])


class Targets(NamedTuple):
    """What to compute: numbers by code, with a parameter each (or NaN), over a range of recall."""

    codes: Indices
    parameters: Array
    recall_range: Array  # lowest and highest recall, and their normal quantiles

    @property
    def are_by_groups(self) -> bool:
        """Whether the tie groups that hold a positive are all that these numbers need."""
        whole = self.recall_range[0] == 0 and self.recall_range[1] == 1
        return bool(whole and BY_GROUPS[self.codes].all())

    @property
    def need_every_point(self) -> bool:
        """Whether a number needs the operating points, or the scores, between the tie groups that hold a positive."""
        return bool(EVERY_POINT[self.codes].any())


def code_of_extra(name: str, estimator: str, *, in_one_pass: bool = True) -> int:
    """Return the code of what the intervals of an estimator need besides."""
    if not in_one_pass:
        return CODES[f"{estimator}_{name}"]
    if estimator != "haldane":
        return CODES[name]
    # The interval of Haldane's area, itself with each positive left out, is centred between it and average precision.
    return AVERAGE_PRECISION if name == "left_out" else CODES[f"haldane_{name}"]


def targets_of(codes: Sequence[int], parameters: Sequence[float], recall_range: tuple[float, float]) -> Targets:
    """Return what to compute; recalls come with their normal quantiles."""
    quantiles = np.array([-REACH, REACH])
    if tuple(recall_range) != (0, 1):
        from scipy.special import ndtri  # its import takes a fifth of a second

        quantiles = np.clip(ndtri(recall_range), -REACH, REACH)
    arrays = np.array(codes, np.int64), np.array(parameters, np.float64), np.array([*recall_range, *quantiles])
    for array in arrays:
        array.setflags(write=False)  # the type that kernels are compiled for
    return Targets(*arrays)
