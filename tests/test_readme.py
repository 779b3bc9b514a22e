"""The README's Python example prints what the README says it prints."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import xarray as xr

import aucpr_dask as ap

README = Path(__file__).parents[1] / "README.md"


def test_example_prints_what_the_readme_shows():
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text(), re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == [line.rstrip() for line in shown.splitlines()]


def test_example_is_short():
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_comparison_of_models_runs():
    code = re.search(r"### Which differences are real\n\n```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    label = np.arange(200) < 25
    noise = np.random.default_rng(0).standard_normal((3, label.size))
    score = noise + np.array([[0.5], [1.0], [2.0]]) * label
    variables = {"score": (("model", "item"), score), "label": ("item", label.astype("int8"))}
    scores = xr.Dataset(variables, coords={"model": ["weak", "fair", "strong"]})
    names = {"ap": ap, "scores": scores}
    exec(compile(code, "README.md", "exec"), names)
    assert names["result"].sizes["resample"] == 1000
