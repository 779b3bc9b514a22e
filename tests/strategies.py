"""Hypothesis strategies: rankings with every kind of score, weights, missing scores, irregular chunkings."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

SUBNORMAL = {np.float32: 1e-45, np.float64: 5e-324}
HUGE = {np.float32: 3e38, np.float64: 1.7e308}

float_types = st.sampled_from([np.float32, np.float64])


def score_values(kind: type) -> st.SearchStrategy[float]:
    """Draw a score: mostly from few values, so that ties are common, at times from the edges or anywhere."""
    odd = [-0.0, 0.0, np.inf, -np.inf, SUBNORMAL[kind], -SUBNORMAL[kind], HUGE[kind], -HUGE[kind]]
    return st.one_of(
        st.integers(-3, 3).map(float),
        st.sampled_from([float(kind(x)) for x in odd]),
        st.floats(allow_nan=False, width=np.finfo(kind).bits),
    )


def vectors(size: int, elements: Any, dtype: Any) -> st.SearchStrategy[np.ndarray]:
    return st.lists(elements, min_size=size, max_size=size).map(lambda values: np.array(values, dtype=dtype))


@dataclass(frozen=True)
class Case:
    """Several models on the same items."""

    score: np.ndarray  # (model, item)
    label: np.ndarray  # (item)

    @property
    def dataset(self) -> xr.Dataset:
        """The same with names."""
        n_models, n_items = self.score.shape
        return xr.Dataset(
            {"score": (("model", "item"), self.score), "label": ("item", self.label)},
            coords={"model": [f"m{i}" for i in range(n_models)], "item": [f"d{i}" for i in range(n_items)]},
        )


@st.composite
def cases(
    draw: Any, labels: tuple[int, ...] = (0, 1), missing: bool = False, max_models: int = 5, max_items: int = 24
) -> Case:
    kind = draw(float_types)
    n_items = draw(st.integers(1, max_items))
    n_models = draw(st.integers(1, max_models))
    values = score_values(kind)
    if missing:
        values = st.one_of(values, st.just(float("nan")))
    score = draw(hnp.arrays(kind, (n_models, n_items), elements=values, fill=st.nothing()))
    return Case(score, draw(vectors(n_items, st.sampled_from(labels), np.int8)))


def weights(size: int) -> st.SearchStrategy[np.ndarray]:
    element = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(1e-3, 1e3))
    return vectors(size, element, np.float64)


@st.composite
def chunkings(draw: Any, size: int) -> tuple[int, ...]:
    """Draw an irregular chunking of an axis."""
    chunks: list[int] = []
    while sum(chunks) < size:
        chunks.append(draw(st.integers(1, size - sum(chunks))))
    return tuple(chunks)
