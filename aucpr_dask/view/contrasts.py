"""The table of contrasts between groups: a row for each model and pair of groups."""

from __future__ import annotations

import pandas as pd
import xarray as xr

from aucpr_dask.inference.contrasting import contrast_rows
from aucpr_dask.inference.designs import measured
from aucpr_dask.view.comparisons import Answer
from aucpr_dask.view.tables import Column, Sheet, bounds, first, number, signed


def contrasts_view(path: str, answer: xr.Dataset, top: int | None = 10) -> Answer:
    """Return the table of the contrasts of one data set, and what is said of them."""
    title = (path or "all groups", f"{measured(answer.attrs)}, by {answer.attrs['by']}")
    return Answer(title, [_sheet(contrast_rows(answer), top)], [answer.attrs["summary"], answer.attrs["design"]])


def _sheet(rows: pd.DataFrame, top: int | None) -> Sheet:
    """Return contrasts with intervals that hold for all of them together."""
    shown, below = first(rows, top, "contrast")
    columns = [
        Column("model", list(shown["model"]), name=True),
        Column("in", list(shown["group"]), name=True),
        Column("than in", list(shown["other"]), name=True),
        Column("area", list(map(number, shown["estimate"])), right=True),
        Column("difference", list(map(signed, shown["difference"])), right=True),
        Column("simultaneous", [bounds(ends, "+") for ends in shown["simultaneous_interval"]]),
        Column("adjusted", [f"{p:.4f}" if p >= 0.00005 else "<0.0001" for p in shown["p_adjusted"]], right=True),
    ]
    ends = zip(shown["difference"], shown["simultaneous_interval"], strict=True)
    bars = [(float(lower), float(value), float(upper)) for value, (lower, upper) in ends]
    most = max((abs(end) for bar in bars for end in bar), default=1.0) or 1.0
    return Sheet(columns, bars, (-most, most), below)
