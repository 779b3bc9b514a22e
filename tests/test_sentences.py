"""What answers say in words, read back and compared with their numbers."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import MOST_SHOWN


def read(summary: str) -> tuple[int, dict[str, dict[tuple[str, str, str], str]]]:
    """Return how many questions a sentence counts, and who is said to be worse or better, and by which difference."""
    n = int(re.match(r"([\d,]+) (?:comparisons?|contrasts?)\b", summary)[1].replace(",", ""))
    said: dict[str, dict[tuple[str, str, str], str]] = {}
    for word, listed in re.findall(r"shown to be (worse|better): ((?:[^;(]* \([^)]*\)(?:, )?)*)", summary):
        found = re.findall(r"(\S+) than (\S+)(?: in ([^(]*?))? \(([^)]*)\)", listed)
        said[word] = {(model, other, place): by for model, other, place, by in found}
    return n, said


def facts(answer: xr.Dataset, by: str | None) -> tuple[int, dict[str, dict[tuple[str, str, str], float]]]:
    """Return the same from the numbers, one pair of models after the other."""
    n, known = 0, {"worse": {}, "better": {}}
    against = "baseline" if "baseline" in answer.coords else "other_model"
    places = [""] if by is None else list(answer[by].values)
    for place in places:
        at = answer if by is None else answer.sel({by: place})
        others = np.atleast_1d(at[against].values)
        pairs = list(itertools.product(at["model"].values, others))
        pairs = list(itertools.combinations(at["model"].values, 2)) if against == "other_model" else pairs
        for model, other in pairs:
            cell = at.sel({"model": model} | ({against: other} if against in at.dims else {}))
            if model == other or np.isnan(cell["p_value"].item()):
                continue
            n += 1
            if cell["p_adjusted"].item() <= 1 - answer.attrs["level"]:
                by_which = cell["difference"].item()
                if against == "other_model" and by is None and by_which < 0:
                    model, other, by_which = other, model, -by_which
                word = "better" if by_which > 0 else "worse"
                known[word][str(model), str(other), str(place)] = by_which
    return n, known


SITE = {"site": ("item", np.resize(["Bern", "Graz", "Lund"], 300))}


def items() -> xr.Dataset:
    random, label = np.random.default_rng(3), np.arange(300) % 4 == 0
    score = random.normal(size=(4, 300)) + label * np.array([[0.0], [0.5], [1.5], [1.6]])
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, {"model": list("abcd")} | SITE)


def errors() -> xr.Dataset:
    values = np.random.default_rng(4).normal(size=(3, 14)) + np.array([[5.0], [7.0], [7.1]])
    long = pd.DataFrame(values, list("abc")).rename_axis("model").reset_index().melt("model", var_name="task")
    return ap.from_values(long.rename(columns={"value": "WER"}))


@pytest.mark.parametrize("baseline", [None, "b"])
@pytest.mark.parametrize(("make", "by"), [(items, None), (items, "site"), (errors, None)])
def test_who_is_shown_to_differ(make: Any, by: str | None, baseline: str | None) -> None:
    answer = ap.compare(make(), baseline, by=by)
    (n, said), (n_pairs, known) = read(answer.attrs["summary"]), facts(answer, by)
    assert n == n_pairs
    assert sum(map(len, known.values())), "a test in which nothing differs reads nothing back"
    for word, differences in known.items():
        listed = said.get(word, {})
        assert len(listed) == min(len(differences), MOST_SHOWN)
        assert listed.keys() <= differences.keys()
        for pair, by_which in listed.items():
            assert float(by_which) == pytest.approx(differences[pair], abs=0.00051)


def test_models_that_do_not_differ_are_not_said_to_be_equal() -> None:
    answer = ap.compare(items().sel(model=["c", "d"]))
    assert answer["p_value"].values[0, 1] > 0.05
    assert read(answer.attrs["summary"]) == (1, {})
    assert "no difference is shown, which does not show that there is none" in answer.attrs["summary"]


def test_what_a_pair_lost_stands_in_its_sentence() -> None:
    scores = items()
    scores["score"][0, :5] = np.nan
    answer = ap.compare(scores, "b", missing="drop")
    assert "'a' lacks 5" in answer.attrs["gaps"]
    assert answer.attrs["summary"].endswith(answer.attrs["gaps"])
