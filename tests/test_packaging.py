"""The recipe, the citation and the changelog agree with the package."""

import re
import tomllib
from datetime import date
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


def test_the_citation_names_the_latest_release() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    releases = re.findall(r"^## \[([\d.]+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version, day = releases[0]
    assert (citation["version"], citation["date-released"]) == (version, date.fromisoformat(day))
