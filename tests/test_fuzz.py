"""Small rankings, at night 100,000, each against exact fractions, through every path of the kernels."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
from test_estimators_exact import Reference, assert_matches, items_of
from test_exact import NAMES, PATHS, use

import aucpr_dask as ap

BATCH = 500
DTYPES: list[Any] = ["f2", "f4", "f8", "i1", "i8", "?"]
VALUES: dict[str, Any] = {
    "few": [0.0, 0.25, 0.5, 1.0],
    "signs": [-1.0, -0.0, 0.0, 1.0],
    "extreme": [-np.inf, -1e300, -5e-324, 5e-324, 1e-38, 1.0, 1 + 2**-52, 1e300, np.inf],
}


def drawn_scores(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    dtype = np.dtype(rng.choice(DTYPES))
    if dtype.kind in "i?":
        return rng.integers(0, 2 if dtype.kind == "?" else rng.integers(2, 100), size).astype(dtype)
    kind = rng.choice(["normal", *VALUES])
    values = rng.normal(size=size) if kind == "normal" else rng.choice(VALUES[str(kind)], size)
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("n_batches", [6, pytest.param(200 // len(PATHS) + 1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("path", PATHS)
def test_small_rankings_against_fractions(path: str, n_batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(path, monkeypatch)
    rng = np.random.default_rng(sum(map(ord, path)))
    n_compared = 0
    for batch in range(n_batches):
        n_items = int(rng.integers(1, 13))
        scores = drawn_scores(rng, (BATCH, n_items))
        labels = (rng.random((BATCH, n_items)) < rng.choice([0.1, 0.5, 0.9])).astype("i1")
        missing = "raise"
        if scores.dtype.kind == "f" and rng.random() < 0.5:
            missing = str(rng.choice(["last", "drop", "unretrieved"]))
            scores[rng.random(scores.shape) < 0.2] = np.nan
        options: dict[str, Any] = {"missing": missing}
        weights = None
        if rng.random() < 0.4:
            scale = float(2.0 ** rng.integers(-60, 60))
            weights = rng.choice([0.0, 0.5, 1.0, 3.0], labels.shape) * scale
            options["weight"] = weights
        as_given: Any = scores
        if rng.random() < 0.3:
            as_given = da.from_array(scores, chunks=(int(rng.integers(1, BATCH + 1)), -1))
        received = np.asarray(ap.estimate(as_given, labels, NAMES, **options))
        for row in range(BATCH):
            weight = None if weights is None else weights[row]
            reference = Reference(items_of(scores[row], labels[row], weight=weight, missing=missing))
            told = f"{path}, batch {batch}, row {row}", scores[row], labels[row], options
            assert_matches(received[row], reference, NAMES, told=told)
            n_compared += 1
    assert n_compared == n_batches * BATCH
