"""Pairs of models, and panels of pairs that fit a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Bytes of one panel of pairs x replicates, by default: small enough to stay in a core's cache.
PANEL_BYTES = 2**18
# Differences and errors this small, relative to the estimates, count as rounding errors of equal numbers.
ROUND_OFF = 1e-12


def all_pairs(n_models: int) -> tuple[Indices, Indices]:
    """Index arrays of all M (M - 1) / 2 pairs, first < second, row by row."""
    first, second = np.triu_indices(n_models, 1)
    return first.astype(np.int64), second.astype(np.int64)


def against(baselines: Sequence[int], n_models: int) -> tuple[Indices, Indices]:
    """Index arrays of every model (first) against every baseline (second); a pair of two baselines appears once."""
    done: list[int] = []
    first: list[Indices] = [np.empty(0, np.int64)]
    second: list[Indices] = [np.empty(0, np.int64)]
    for baseline in baselines:
        done.append(baseline)
        others = np.setdiff1d(np.arange(n_models), done)
        first.append(others)
        second.append(np.full(others.size, baseline, np.int64))
    return np.concatenate(first), np.concatenate(second)


def slices(n_rows: int, row_bytes: int, panel_bytes: int) -> Iterator[slice]:
    """Cut rows into runs that fill a panel, at least one row each."""
    rows = max(1, panel_bytes // row_bytes)
    return (slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows))
