"""Arrays of which only the form is known."""

import pickle
import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from aucpr_dask.schema.described import Described

FORM = (5, 7), np.dtype(np.float32), (2, 7)


def test_described_arrays_have_the_form_of_those_of_dask():
    described, made = Described(*FORM), Described(*FORM).as_dask()
    assert isinstance(made, da.Array)
    for name in ("shape", "dtype", "ndim", "size", "nbytes", "chunks"):
        assert getattr(described, name) == getattr(made, name), name
    assert len(described) == len(made)
    assert described.astype(np.int8).dtype == np.int8
    assert xr.Variable(("a", "b"), described).chunks == made.chunks
    assert pickle.loads(pickle.dumps(described)).chunks == made.chunks


def test_slices_of_described_arrays_are_described():
    part = xr.Variable(("a", "b"), Described(*FORM)).isel(a=slice(1, 4), b=slice(0, 3))
    assert isinstance(part.data, Described)
    assert part.shape == (3, 3) == tuple(map(sum, part.data.chunks))
    assert isinstance(Described(*FORM)[2:2, :], np.ndarray)


@pytest.mark.parametrize(
    "function",
    [lambda x: x[0], lambda x: x[:2], lambda x: x.T, lambda x: x > 1, lambda x: np.concatenate([x, x]), np.isnan],
)
def test_what_asks_for_more_than_the_form_gets_an_array_of_dask(function):
    found, expected = function(Described(*FORM)), function(Described(*FORM).as_dask())
    assert isinstance(found, da.Array)
    assert (found.shape, found.dtype, found.chunks) == (expected.shape, expected.dtype, expected.chunks)


@pytest.mark.slow
def test_runs_are_imported_and_evaluated_without_arrays_of_dask_or_linear_algebra(tmp_path):
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 b 0\n")
    (tmp_path / "run").write_text("q Q0 a 1 2.0 run\nq Q0 b 2 1.0 run\n")
    code = "import sys; from aucpr_dask.__main__ import _lighten; _lighten(); from aucpr_dask.cli import main; "
    for command in (
        ["import", "trec", "run", "scores.zarr", "--qrels", "qrels"],
        ["evaluate", "scores.zarr", "result.zarr", "--missing", "unretrieved"],
    ):
        code += f"main({command!r}, standalone_mode=False); "
        code += "assert not {'dask.array', 'scipy.linalg'} & {*sys.modules}; "
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
