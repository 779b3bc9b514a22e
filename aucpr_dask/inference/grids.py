"""Results for pairs of models, laid out as (model, other model): eagerly, or lazily in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.inference.methods import Method, Pairs, adjusted_p_values, join
from aucpr_dask.inference.pairs import intervals
from aucpr_dask.inference.units import Floats, Indices
from aucpr_dask.schema.terms import BOUND, BOUNDS

if TYPE_CHECKING:
    import dask.array as da

DECISIONS = ("undecided", "different", "equivalent")
EQUIVALENT = DECISIONS.index("equivalent")
TARGET, OUTCOME = "target", "outcome"  # of posterior probabilities
COORDINATES = {BOUND: BOUNDS, TARGET: ("mean", "new"), OUTCOME: ("better", "equivalent", "worse")}


@dataclass(frozen=True)
class Quantity:
    """One variable of a comparison: its value for a model and itself, and how to reverse its direction."""

    itself: float | tuple[float, ...]
    dtype: type = np.float64
    turned: bool = False  # the other direction has the other sign
    dims: tuple[str, ...] = ()  # after those of the models; the last one is reversed in the other direction

    def shape(self, rows: Indices, columns: Indices) -> tuple[int, ...]:
        """Return the shape over these models."""
        return (rows.size, columns.size, *(len(COORDINATES[dim]) for dim in self.dims))


QUANTITIES = {
    "difference": Quantity(0.0, turned=True),
    "standard_error": Quantity(0.0),
    "interval": Quantity(0.0, turned=True, dims=(BOUND,)),
    "simultaneous_interval": Quantity(0.0, turned=True, dims=(BOUND,)),
    "prediction_interval": Quantity(0.0, turned=True, dims=(BOUND,)),
    "p_value": Quantity(1.0),
    "p_adjusted": Quantity(1.0),
    "p_equivalence": Quantity(0.0),
    "share_inside": Quantity(1.0),
    "decision": Quantity(EQUIVALENT, dtype=np.int8),
    "tau": Quantity(0.0),
    "i_squared": Quantity(0.0),
    "equal_difference": Quantity(0.0, turned=True),
    "precision_difference": Quantity(0.0, turned=True),
    "size_slope": Quantity(0.0, turned=True),
    "size_p": Quantity(1.0),
    "probability": Quantity((0.0, 1.0, 0.0), dims=(TARGET, OUTCOME)),
    "training_share": Quantity(0.0),
    "tuning": Quantity(0.0),
    "width_ratio": Quantity(1.0),
}


def lay_out(
    names: list[str], family: Pairs, adjusted: Floats, quantile: float, rows: Indices, columns: Indices
) -> dict[str, NDArray[Any]]:
    """Return quantities over (rows, columns), positions of models, from pairs that serve both directions."""
    values: dict[str, Any] = {
        "difference": family.difference,
        "standard_error": family.error,
        "interval": family.bounds,
        "simultaneous_interval": intervals(family.difference, family.error, quantile, family.outer),
        "p_value": family.p_value,
        "p_adjusted": adjusted,
        **family.more,
    }
    if (verdict := family.equivalence) is not None:
        decision = np.select([verdict.decision == decision for decision in DECISIONS], range(len(DECISIONS)))
        values |= {"p_equivalence": verdict.p_value, "share_inside": verdict.share_inside, "decision": decision}
    return {name: placed(np.asarray(values[name]), QUANTITIES[name], family, rows, columns) for name in names}


def placed(values: NDArray[Any], quantity: Quantity, family: Pairs, rows: Indices, columns: Indices) -> NDArray[Any]:
    """Return values of pairs over (rows, columns), positions of models, in both directions."""
    grid: NDArray[Any] = np.full(quantity.shape(rows, columns), quantity.itself, dtype=quantity.dtype)
    n_models = 1 + max(int(index.max(initial=-1)) for index in (family.first, family.second, rows, columns))
    row_of, column_of = np.full((2, n_models), -1)
    row_of[rows], column_of[columns] = np.arange(rows.size), np.arange(columns.size)
    back = -values if quantity.turned else values
    back = back[..., ::-1] if quantity.dims else back
    for one, other, directed in ((family.first, family.second, values), (family.second, family.first, back)):
        i, j = row_of[one], column_of[other]
        here = (i >= 0) & (j >= 0)
        grid[i[here], j[here]] = directed[here]
    return grid + 0 if quantity.turned else grid  # no negative zeros


def lazy_all_pairs(method: Method, n_models: int, adjust: str, names: list[str], chunk: int) -> dict[str, da.Array]:
    """Return the quantities over (model, other model) as Dask arrays in square chunks, bit-for-bit as without chunks.

    Adjusted p-values and the quantile of the simultaneous intervals, which concern the whole family, wait for all
    chunks.
    """
    import dask.array as da
    from dask import delayed

    blocks = [np.arange(start, min(start + chunk, n_models)) for start in range(0, n_models, chunk)]
    held = delayed(method, pure=True)  # one key in the graph, not a copy of the replicates in every task
    upper = {
        (i, j): delayed(_pairs_of_block)(held, rows, columns)
        for i, rows in enumerate(blocks)
        for j, columns in enumerate(blocks)
        if i <= j
    }
    family = delayed(join)(list(upper.values()))
    adjusted = delayed(adjusted_p_values)(held, family, adjust)
    quantile = held.simultaneous_quantile(family)

    def block_of(i: int, j: int) -> dict[str, da.Array]:
        rows, columns = blocks[i], blocks[j]
        part = upper[min(i, j), max(i, j)]  # serves both directions
        block = delayed(_lay_out_block)(names, part, adjusted, quantile, rows, columns, n_models)
        return {
            name: da.from_delayed(block[name], QUANTITIES[name].shape(rows, columns), dtype=QUANTITIES[name].dtype)
            for name in names
        }

    grid = [[block_of(i, j) for j in range(len(blocks))] for i in range(len(blocks))]
    return {
        name: da.concatenate([da.concatenate([block[name] for block in row], axis=1) for row in grid]) for name in names
    }


def _pairs_of_block(method: Method, rows: Indices, columns: Indices) -> Pairs:
    """Return the pairs of a block of the upper triangle."""
    first, second = np.repeat(rows, columns.size), np.tile(columns, rows.size)
    above = first < second
    return method.pairs(first[above], second[above])


def _lay_out_block(
    names: list[str], part: Pairs, adjusted: Floats, quantile: float, rows: Indices, columns: Indices, n_models: int
) -> dict[str, NDArray[Any]]:
    """Lay out a block from its part of the family; adjusted p-values are in the order of all pairs."""
    before = part.first * (2 * n_models - part.first - 1) // 2
    place = before + part.second - part.first - 1
    return lay_out(names, part, adjusted[place], quantile, rows, columns)
