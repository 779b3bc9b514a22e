"""The codes of estimators in kernels, named as in the registry."""

AVERAGE_PRECISION, LOWER_TRAPEZOID, UPPER_TRAPEZOID = 0, 1, 2
INTERPOLATED_MAX, INTERPOLATED_MEAN, INTERPOLATED_MEDIAN, INTERPOLATED_CONVEX = 3, 4, 5, 6
CONTINUOUS, DISCRETE, BINORMAL = 7, 8, 9
ROC_AREA, GAIN_AREA, PRECISION_AT_RECALL, RECALL_AT_PRECISION = 10, 11, 12, 13
HALDANE = 14
# Of average precision: standard errors, BCa's acceleration, and what the interval influence_beta needs besides.
ERROR_FIXED, ERROR_RANDOM, ACCELERATION = 20, 21, 22
CUBES_FIXED, CUBES_RANDOM, LEFT_OUT, UNSEEN_LOSS = 23, 24, 25, 26
OF_HALDANE = 30  # added to these codes: the same of Haldane's area, which has no LEFT_OUT

OF_MOMENTS = (ERROR_FIXED, ERROR_RANDOM, CUBES_FIXED, CUBES_RANDOM)
COMMON = frozenset(
    (
        *(AVERAGE_PRECISION, HALDANE, *OF_MOMENTS, LEFT_OUT, UNSEEN_LOSS),
        *(OF_HALDANE + code for code in (*OF_MOMENTS, UNSEEN_LOSS)),
    )
)  # what most calls need: average precision and its default interval


def is_basic(code):  # type: ignore[no-untyped-def] # of numbers, and compiled
    """Return whether the tie groups of positives are all that this code needs over all recalls."""
    return (code <= UPPER_TRAPEZOID) | (code >= HALDANE)
