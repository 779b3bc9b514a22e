"""What comparisons and contrasts have shown, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from aucpr_dask.errors import few
from aucpr_dask.inference.designs import beside_intervals
from aucpr_dask.inference.units import Indices
from aucpr_dask.schema.terms import amount, count, in_words

MOST = 5  # differences that a sentence names


def shown_to_be(differences: Iterable[tuple[str, float]], nothing: str = "", direction: float = 1.0) -> list[str]:
    """Say who is shown to be worse and who better, by which difference; with a direction of -1, less is better.

    Nothing is said of a word without differences, unless there are words for that.

    >>> shown_to_be([("a than b in Bern", -0.05), ("a than b in Graz", 0.00002)])
    ['shown to be worse: a than b in Bern (-0.050)', 'shown to be better: a than b in Graz (+0.000020)']
    """
    listed, words = list(differences), []
    for word, sign in (("worse", -1), ("better", 1)):
        found = [f"{who} ({amount(value, 3, '+')})" for who, value in listed if sign * direction * value > 0]
        if found or nothing:
            words.append(f"shown to be {word}: {few(found, MOST) if found else nothing}")
    return words


def adjusted_for(number: int, adjust: str) -> str:
    """Say how the p-values of a family were adjusted; nothing if they were not.

    >>> adjusted_for(3, "romano_wolf"), adjusted_for(3, "none")
    (', adjusted by Romano-Wolf for all 3', '')
    """
    return "" if adjust == "none" or number < 2 else f", adjusted by {in_words(adjust)} for all {number:,}"


def of_comparison(
    answer: xr.Dataset, names: Sequence[str], pairs: tuple[Indices, Indices], columns: Indices, gaps: Sequence[str]
) -> str:
    """Say which models of one sample are shown to differ; each pair of models has a column of the answer."""
    first, second = pairs
    difference, adjusted = (answer[name].values[first, columns] for name in ("difference", "p_adjusted"))
    is_shown = adjusted <= 1 - float(answer.attrs["level"])
    shown = list(zip(first[is_shown], second[is_shown], difference[is_shown].tolist(), strict=True))
    n = int(np.count_nonzero(~np.isnan(adjusted)))
    words = [count(n, "comparison") + adjusted_for(n, answer.attrs["adjust"])]
    if not shown:
        words.append("no difference is shown, which does not show that there is none")
    elif "baseline" in answer.coords:
        words += shown_to_be((f"{names[i]} than {names[j]}", by) for i, j, by in shown)
    else:  # of any two, the better is named first
        turned = [(i, j, by) if by > 0 else (j, i, -by) for i, j, by in shown]
        words += shown_to_be((f"{names[i]} than {names[j]}", by) for i, j, by in turned)
    if "simultaneous_interval" in answer:
        lower, upper = answer["simultaneous_interval"].values[first, columns].T
        words += beside_intervals(int(np.count_nonzero(is_shown & (lower <= 0) & (upper >= 0))))
    return "; ".join([*words, *gaps])
