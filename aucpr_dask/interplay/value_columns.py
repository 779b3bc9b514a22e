"""Which columns of a table are values: not means of others, ranks, counts, sizes, costs or text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

MEAN, RANK, ABOUT, SPREAD = "a mean or total", "a rank", "about the model", "a spread or an error"
MEANS = {"average", "averaged", "avg", "mean", "means", "overall", "total", "sum", "aggregate", "aggregated"}
RANKS = {"rank", "ranks", "position", "place"}
SPREADS = {"std", "stdev", "stddev", "stderr", "sem", "ci", "variance", "±"}
COUNTED = {"num", "number", "n", "nr", "no", "#"}  # before what is counted
# The last word of a name: what a size, a cost or an identifier is given in or called.
ABOUT_THE_MODEL = {
    *("size", "params", "parameters", "parameter", "tokens", "memory", "count"),
    *("dimension", "dimensions", "dim", "dims"),
    *("mb", "gb", "ram", "flops", "layers", "likes", "downloads", "votes", "followers"),
    *("cost", "costs", "price", "usd", "latency", "runtime", "seconds", "throughput", "rtfx", "speed"),
    *("id", "ids", "identifier", "uuid", "hash", "sha", "revision", "commit", "version", "url", "link", "license"),
    *("date", "year", "timestamp"),
}
LOWER_IS_BETTER = {"wer", "cer", "ter", "loss", "perplexity", "ppl", "rmse", "mse", "mae", "latency", "fid", "eer"}
"""Words in the names of measures of which less is better."""

FAR = 20  # times: another scale
FEWEST_ROWS = 3  # by whose numbers a mean is recognised


def is_no_value(name: str) -> str | None:
    """Return what a column is by its name, if it is not one of values.

    >>> is_no_value("Macro Avg"), is_no_value("Embedding Dimensions"), is_no_value("Memory Usage (MB)")
    ('a mean or total', 'about the model', 'about the model')
    >>> is_no_value("Rank (Borda)"), is_no_value("n_tokens"), is_no_value("date_understanding")
    ('a rank', 'about the model', None)
    >>> is_no_value("95 % CI"), is_no_value("MMLU ±"), is_no_value("n"), is_no_value("MNLI")
    ('a spread or an error', 'a spread or an error', 'about the model', None)
    """
    bare = re.sub(r"\(.*?\)|\[.*?\]", " ", name)
    # Of "MaxTokens" the last word tells; in the middle of one word, as in "NoMeanFeat", nothing does.
    parts, words = _words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", bare)), _words(name)
    if not words:
        return None
    ends = {*parts[:1], *parts[-1:]}
    if MEANS & {*words, *ends}:
        return MEAN
    if RANKS & ends or words == ["#"]:
        return RANK
    if SPREADS & {*parts[-1:], words[-1]}:
        return SPREAD
    is_count = (len(parts) > 1 and parts[0] in COUNTED) or words == ["n"]
    tells = {*parts[-1:], words[-1], *({"cost", "price"} & ends)}
    return ABOUT if is_count or tells & ABOUT_THE_MODEL else None


def asks_for_direction(name: str) -> bool:
    """Return whether of a measure with this name less is better.

    >>> asks_for_direction("WER"), asks_for_direction("validation loss"), asks_for_direction("Flower")
    (True, True, False)
    """
    return bool(LOWER_IS_BETTER & {*_words(name)})


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+|[#±]", text.lower())


def no_values_by_number(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, str]:
    """Return the columns that are the mean or the sum of the others, or on another scale; and which it is."""
    found: dict[str, str] = {}
    rest = dict(columns)
    for name in columns:
        others = [values for other, values in rest.items() if other != name]
        if len(others) > 1 and (what := _made_of(columns[name], np.stack(others))):
            found[name] = what
            del rest[name]
    sizes = {name: float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) for name, values in rest.items()}
    for name, size in sizes.items():
        largest = sorted((other for at, other in sizes.items() if at != name), reverse=True)
        if len(largest) > 1 and size > FAR * float(np.median(largest)) > 0:
            found[name] = f"values up to {size:,.6g}, beside {np.median(largest):,.4g} of the others"
    return found


def _made_of(values: NDArray[np.float64], others: NDArray[np.float64]) -> str | None:
    """Return whether a column is the mean or the sum of others, as far as rounding shows."""
    whole = np.isfinite(values) & np.isfinite(others).all(axis=0)
    values, others = values[whole], others[:, whole]
    if len(values) < FEWEST_ROWS:
        return None
    unit = max(_rounded_to(values), _rounded_to(others))
    for what, made in (("the mean of the others", others.mean(axis=0)), ("the sum of the others", others.sum(axis=0))):
        reach = unit * (1 if what.startswith("the mean") else len(others))
        is_told = np.ptp(values) > 10 * reach  # columns that hardly vary agree with anything
        if is_told and bool((np.abs(values - made) <= reach).all()):
            return what
    return None


def _rounded_to(values: NDArray[np.float64]) -> float:
    """Return the last digit that these numbers have."""
    digits: Sequence[int] = range(7)
    return 10.0 ** -next((d for d in digits if np.array_equal(np.round(values, d), values)), 6)
