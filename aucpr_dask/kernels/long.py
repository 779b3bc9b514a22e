"""One long ranking: its classes, apart; then its areas, from sorted positives or two sorted classes."""

from numba import types

from aucpr_dask.kernels.compiling import Cache
from aucpr_dask.kernels.finishing import finish, ranking_of, split
from aucpr_dask.kernels.ranking import Classes, blocks_by_gaps, blocks_by_merging, new_blocks, new_table
from aucpr_dask.kernels.signatures import F8, FLOATS, I1, I8, OPTIONS_TYPE, row_of

CACHE = Cache("long")


@CACHE.kernel(*(types.void(row_of(x), row_of(I1), OPTIONS_TYPE, x[::1], x[::1], F8[::1]) for x in FLOATS))
def split_row(score, label, options, positive, negative, counts):
    """Copy the scores of the two classes of one long ranking, and write their counts."""
    classes = split(score, label, options, positive, negative)
    counts[0], counts[1] = classes.positives, classes.negatives
    counts[2], counts[3] = classes.missing_positives, classes.missing_negatives


@CACHE.kernel(
    *(
        types.boolean(
            x[::1],
            x[::1],
            types.boolean,
            F8[::1],
            F8,
            OPTIONS_TYPE,
            row_of(I8),
            F8[::1],
        )
        for x in FLOATS
    )
)
def long_row(positive, negative, is_sorted, counts, n_given, options, codes, out):
    """Evaluate one long ranking; return False if its negatives have to be sorted first."""
    blocks = new_blocks(positive.size)
    classes = Classes(counts[0], counts[1], counts[2], counts[3])
    if is_sorted:
        n_blocks = blocks_by_merging(positive, negative, blocks)
    else:
        table = new_table(positive.size, positive)
        n_blocks = blocks_by_gaps(positive, negative, table, blocks, True)
        if n_blocks < 0:
            return False
    ranking = ranking_of(positive, negative, classes, n_given)
    finish(ranking, blocks, n_blocks, options, codes, out)
    return True


CACHE.publish()
