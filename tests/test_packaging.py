"""The recipe, the citation and the changelog agree with the package."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import yaml

import aucpr_dask as ap

ROOT = Path(__file__).parents[1]
CONDA_NAMES = {"dask": "dask-core", "PyYAML": "pyyaml"}


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
