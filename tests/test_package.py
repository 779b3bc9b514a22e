"""The package as a whole: its root, its accessor, the names that have moved, its recipe and its citation."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
import xarray as xr
import yaml

import aucpr_dask as ap
from aucpr_dask.accessor import Plots
from aucpr_dask.curves.points import KINDS
from aucpr_dask.errors import Flag, as_called, at_prompt, for_caller
from aucpr_dask.inference import designs
from aucpr_dask.inference.aggregating import METHODS as MEANS
from aucpr_dask.inference.ranking import RANKING_METHODS
from aucpr_dask.schema import choices
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import CONVENTION, CONVENTIONS, ComparisonOptions, EvaluationOptions, option_names
from aucpr_dask.view import plots

PACKAGE = Path(ap.__file__).parent
ROOT = Path(__file__).parents[1]
CONDA_NAMES = {"dask": "dask-core", "PyYAML": "pyyaml"}


def test_the_root_holds_folders_and_few_modules() -> None:
    entries = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    files = {name for name in entries if "." in name}
    of_package = {"__init__.py", "__init__.pyi", "__main__.py", "_version.py", "py.typed"}
    assert files == of_package | {"accessor.py", "errors.py"}
    assert len(entries - files) <= 16


def test_public_names_are_known_before_they_are_loaded() -> None:
    names: dict[str, Any] = {}
    exec("from aucpr_dask import *", names)
    assert names.keys() - {"__builtins__"} == {*ap.__all__} == {*dir(ap)}
    assert {"__version__", "errors", "evaluate", "metrics"} <= {*ap.__all__}
    command = [sys.executable, "-c", "import aucpr_dask; aucpr_dask.evaluatte"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "has no attribute 'evaluatte'; did you mean 'evaluate'?" in said


def test_help_shows_signatures_without_types() -> None:
    """Types of this package say nothing to readers, and make lines of a thousand characters."""
    for name in ap.__all__:
        if inspect.isfunction(function := getattr(ap, name)):
            said = str(inspect.signature(function))
            assert len(said) < 480, name
            assert not re.search(r"\bchoices\.|terms\.|Literal|object at|->", said), name
    assert str(inspect.signature(ap.contrast)).startswith("(data, by, *, label=None, dim='item'")


def test_methods_of_the_accessor_have_the_signatures_of_the_functions(scores: xr.Dataset) -> None:
    pairs = [
        (getattr(scores.aucpr, name), getattr(ap, name))
        for name in ("evaluate", "compare", "rank", "aggregate", "gate", "power")
    ]
    pairs += [(getattr(scores.aucpr.plot, name), getattr(plots, name)) for name in vars(Plots) if name in plots.__all__]
    assert len(pairs) == 20
    for method, function in pairs:
        parameters = list(inspect.signature(function).parameters.values())
        assert list(inspect.signature(method).parameters.values()) == parameters[1:]
        assert method.__doc__ == function.__doc__


def test_every_method_of_the_accessor_is_found() -> None:
    scores = xr.Dataset({"score": (("model", "item"), [[2.0, 1.0]]), "label": ("item", [1, 0])})
    for accessor in (scores.aucpr, scores.aucpr.plot):
        names = [name for name in dir(accessor) if not name.startswith("_")]
        assert {"plot", "save", "rank"} <= {*names} or "forest" in names
        assert all(getattr(accessor, name) is not None for name in names)


def test_the_choices_that_editors_show_are_those_of_the_records() -> None:
    names = {name for name, spec in ESTIMATORS.items() if spec.parameter is None}
    assert {*get_args(choices.Estimator)} == names
    assert get_args(choices.Interval) == tuple(INTERVALS)
    assert get_args(choices.Convention) == tuple(CONVENTIONS)
    assert get_args(choices.KindOfCurve) == KINDS
    assert get_args(choices.MethodOfRanks) == RANKING_METHODS
    assert {*get_args(choices.Method)} == {*chain(*designs.NAMES.values(), *designs.WITH_MACHINE.values())}
    assert {*get_args(choices.MethodOfMeans)} == {*chain(*MEANS.values(), *designs.WITH_MACHINE.values())}
    assert get_args(choices.AdjustmentOfPValues) == designs.BY_P_VALUE
    estimating = option_names(EvaluationOptions) | {CONVENTION}
    assert estimating == choices.Running.__annotations__.keys()
    assert choices.ComparingMeasures.__annotations__.keys() - choices.Inputs.__annotations__ == {
        *(estimating | option_names(ComparisonOptions))
        - {"baseline", "equivalence", "chunk", "interval", "keep_replicates"}
    }


# What only commands print, or commands that a message quotes; elsewhere, options stand for arguments: `as_called`.
OF_COMMANDS = ("cli", "interplay/recognising.py", "view/stores.py", "view/report/auditing.py", "storage/stores.py")


def test_messages_name_options_where_arguments_are_translated() -> None:
    package, found = Path(ap.__file__).parent, []
    for file in package.rglob("*.py"):
        place, source = file.relative_to(package).as_posix(), file.read_text()
        if not re.search("--[a-z]", source):
            continue
        tree = ast.parse(source)
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if name.endswith("for_caller"):
                said |= {id(part) for part in ast.walk(call)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        alone = [text.value for text in texts if id(text) not in said]
        found += [(place, text) for text in alone if re.search(r"(?<![\w`])--[a-z]", re.sub("`.*?`", "", text))]
    assert [(place, text) for place, text in found if not place.startswith(OF_COMMANDS)] == []
    assert found, "the pattern finds nothing where there is something"


def test_arguments_are_named_as_whoever_calls_gives_them() -> None:
    options = {"dim": Flag("--dim"), "by": Flag("--by", is_repeated=True), "seed": Flag("--seed")}
    text = "pass dim=('time', 'lat'), by=['a', 'b'], by=('a',) or seed=1; received: 'seed=3', other=2"
    with at_prompt(options):
        assert as_called(text) == (
            "pass --dim time,lat, --by a --by b, --by a or --seed 1; received: 'seed=3', other=2"
        )
        assert for_caller("here", "there") == "there"
    assert as_called(text) == text
    assert for_caller("here", "there") == "here"


# A call of a user, and its type; or the part of it that a checker must point to.
RIGHT = {
    "ap.evaluate(scores)": "Dataset",
    "ap.evaluate(tree, estimator='haldane', by='site')": "DataTree",
    "ap.evaluate({'a': x}, y, 'precision_at(10)', ['bca', 'logit'], clusters=y)": "Dataset",
    "ap.evaluate(pd.DataFrame({'a': x[0]}), y, dim='time', weight=y, pos_label='yes')": "Dataset",
    "ap.evaluate(ap.open_scores('scores.zarr'))": "Dataset | DataTree",
    "ap.compare(scores, 'a', over='query', missing='drop', method='sign_flip', adjust='holm')": "Dataset",
    "ap.compare(tree, over='dataset')": "Dataset | DataTree",
    "ap.compare({'a': x, 'b': x}, y, baseline='a')": "Dataset",
    "ap.rank({'a': x, 'b': x}, label=y, dim=('time', 'lat'))": "Dataset",
    "ap.aggregate(scores, estimator='haldane', how='macro')": "Dataset",
    "ap.contrast(scores, 'site', missing='drop', clusters='patient')": "Dataset",
    "ap.power(scores, 'a', difference=0.01, seed=1, by='site')": "Dataset",
    "ap.gate({'a': x, 'b': x}, y, 'a', 'b', 0.01)": "Gate | Gates",
    "ap.letters(scores, level=0.9)": "Letters",
    "ap.run('scores.zarr', 'result.zarr', workers=2, interval='bootstrap')": "Dataset | DataTree",
    "ap.save_scores(scores, 'scores.zarr')": "None",
    "ap.estimate(x, y)": "Any",
    "ap.metrics.average_precision_score(y, x[0])": "float | ndarray",
    "ap.errors.FewUnitsWarning('few')": "FewUnitsWarning",
    "result.compare('a', over='query')": "Dataset",
    "result.plot.forest()": "Axes",
    "result.to_dataframe(tidy=False)": "DataFrame",
    "DataTreeAccessor(tree).evaluate()": "DataTree",
}
WRONG = [
    "ap.evaluatte(scores)",
    "ap.evaluate('scores.zarr')",
    "ap.evaluate(scores, levell=0.9)",
    "ap.evaluate(scores, interval='bootstarp')",
    "ap.evaluate(scores, missing='dorp')",
    "ap.compare(scores, missingg='drop')",
    "ap.compare(scores, missing='dorp')",
    "ap.compare(tree, adjust='holmes')",
    "ap.compare({'a': x}, y, methd='t')",
    "ap.contrast(scores, 'site', adjust='max_t')",
    "ap.rank(scores, method='wilcoxon')",
    "ap.gate(scores, 'a', 'b', incomplete='dorp')",
    "ap.letters(scores, baseline='a')",
    "ap.run('scores.zarr')",
    "ap.run('scores.zarr', 'result.zarr', missing='dorp')",
    "ap.open_scores(3)",
    "ap.curve(x, y, 'rock')",
    "ap.curve(x, y, ties='group')",
    "result.compare(adjust='holmes')",
    "result.plot.forrest()",
]
BEGIN = """
import numpy as np
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.accessor import DatasetAccessor, DataTreeAccessor

scores, tree, x, y = xr.Dataset(), xr.DataTree(), np.zeros((2, 3)), np.array([0, 1, 1])
result: DatasetAccessor = scores.aucpr
"""


@pytest.mark.parametrize("checker", [pytest.param(one, marks=pytest.mark.needs(one)) for one in ("mypy", "pyright")])
def test_static_types_that_users_see(tmp_path: Path, checker: str) -> None:
    program = tmp_path / "user.py"
    lines = [*BEGIN.splitlines(), *(f"reveal_type({call})" for call in RIGHT), *WRONG]
    program.write_text("\n".join(lines) + "\n")
    options = {"mypy": ["--strict", "--cache-dir", str(PACKAGE.parent / ".mypy_cache")], "pyright": []}[checker]
    command = [sys.executable, "-m", checker, *options, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PACKAGE.parent)
    wrong = {int(line) for line in re.findall(r"user\.py:(\d+)[\d:]*:? -? ?error", done.stdout)}
    assert [lines[line - 1] for line in sorted(wrong)] == WRONG, done.stdout + done.stderr
    said = re.findall(r'Revealed type is "(.*)"|Type of "(?:.*)" is "(.*)"', done.stdout)
    short = [re.sub(r"\[.*\]", "", re.sub(r"[\w.]+\.(\w+)", r"\1", one or other)) for one, other in said]
    assert dict(zip(RIGHT, short, strict=True)) == RIGHT


def test_the_recipe_requires_what_the_package_requires() -> None:
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {f"python {project['requires-python']}"}
    for requirement in project["dependencies"]:
        name, version = re.fullmatch(r"([\w-]+)(>=[\d.]+)", requirement).groups()
        declared.add(f"{CONDA_NAMES.get(name, name)} {version}")
    context = recipe["context"]
    assert {
        line.replace("${{ python_min }}", context["python_min"]) for line in recipe["requirements"]["run"]
    } == declared
    assert recipe["build"]["python"]["entry_points"] == [f"{n} = {place}" for n, place in project["scripts"].items()]
    assert recipe["about"]["summary"] == project["description"]
    assert context["version"] == ap.__version__


def test_one_version_and_one_date_stand_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    page = (ROOT / "CHANGELOG.md").read_text()
    assert len(page.split()) <= 1500
    heading = next(line for line in page.splitlines() if line.startswith("## "))
    released, _, _ = ap.__version__.partition(".dev")
    assert citation["version"] == version("aucpr-dask") == ap.__version__
    if ap.__version__ == released:
        assert heading == f"## [{released}] - {citation['date-released']}"
    else:
        assert "date-released" not in citation
        assert heading == "## [Unreleased]"
        assert f"To become {released}" in page
