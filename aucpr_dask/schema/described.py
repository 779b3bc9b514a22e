"""Arrays of which only the form is known: what is written later, or read where it is needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Described(np.lib.mixins.NDArrayOperatorsMixin):
    """The shape, the type and the chunks of an array without values.

    It stands for an empty Dask array, which is made when somebody asks for more. Most do not, and to import Dask's
    arrays takes half a second.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], lengths: tuple[int, ...]) -> None:
        self.shape, self.dtype, self.lengths = shape, dtype, lengths
        self.ndim, self.size = len(shape), math.prod(shape)
        self.nbytes = self.size * dtype.itemsize

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of the chunks along each dimension, as Dask has them."""
        starts = [range(0, size, length) for size, length in zip(self.shape, self.lengths, strict=True)]
        return tuple(tuple(min(one.step, one.stop - start) for start in one) for one in starts)

    @property
    def _meta(self) -> NDArray[Any]:
        return np.empty((0,) * self.ndim, self.dtype)

    def astype(self, dtype: Any, **kwargs: Any) -> Described:
        """Return an array of the same form and another type."""
        return Described(self.shape, np.dtype(dtype), self.lengths)

    def as_dask(self) -> Any:
        """Return the Dask array that this stands for."""
        import dask.array as da

        # Dask would pickle a function to find a name.
        name = f"described-{self.dtype}-{self.shape}-{self.lengths}"
        return da.empty(self.shape, dtype=self.dtype, chunks=self.lengths, name=name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.as_dask(), name)

    def __getitem__(self, key: Any) -> Any:
        slices = key[: self.ndim] if isinstance(key, tuple) else ()  # xarray puts an ellipsis behind them
        if len(slices) < self.ndim or not all(isinstance(one, slice) for one in slices):
            return self.as_dask()[key]
        shape = tuple(len(range(size)[one]) for size, one in zip(self.shape, slices, strict=True))
        lengths = tuple(max(1, min(sizes)) for sizes in zip(shape, self.lengths, strict=True))
        return Described(shape, self.dtype, lengths) if 0 not in shape else np.empty(shape, self.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        return np.asarray(self.as_dask())

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(function, method)(*_as_dask(inputs), **_as_dask(kwargs))

    def __array_function__(
        self, function: Callable[..., Any], types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return function(*_as_dask(args), **_as_dask(kwargs))


def _as_dask(values: Any) -> Any:
    """Return arguments in which Dask arrays take the place of their descriptions."""
    if isinstance(values, Described):
        return values.as_dask()
    if isinstance(values, list | tuple):
        return type(values)(map(_as_dask, values))
    return {name: _as_dask(one) for name, one in values.items()} if isinstance(values, dict) else values
