"""The documentation site: it builds without a warning, and nothing public is missing from it."""

import functools
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from code_blocks import ROOT

import aucpr_dask as ap
from aucpr_dask import errors
from aucpr_dask.cli import main
from aucpr_dask.simulate.scenarios import __all__ as simulations

DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@functools.cache
def printed(script: str) -> str:
    command = [sys.executable, str(DOCS / script), "--print"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_of_commands() -> Iterator[str]:
    """Yield "aucpr-dask-import-trec" for every command."""

    def walk(name: str, command: click.Command) -> Iterator[str]:
        yield name
        if isinstance(command, click.Group):
            for child, one in command.commands.items():
                yield from walk(f"{name}-{child}", one)

    return walk("aucpr-dask", main)


def pages_of_navigation() -> list[str]:
    toctrees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
    lines = [line for toctree in toctrees for line in toctree.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r".*<(.+)>$", r"\1", entry) for entry in entries]


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "python-api.md").read_text()
    listed = set(re.findall(r"^   (\w[\w.]*)$", page, re.MULTILINE))
    expected = {name for name in ap.__all__ if not name.startswith("_") and name != "simulate"}
    assert expected <= listed
    assert {f"simulate.{name}" for name in simulations} <= listed
    assert ".. automodule:: aucpr_dask.errors" in page
    assert all(getattr(errors, name).__doc__ for name in dir(errors) if name.endswith("Error"))


def test_every_page_is_in_the_navigation_once() -> None:
    named = pages_of_navigation()
    assert len(named) == len(set(named))
    assert set(named) == {page.stem for page in DOCS.glob("*.md")} - {"index"}, "add it to, or drop it from, index.md"


def test_the_house_is_drawn_from_the_imports() -> None:
    drawn = printed("house_picture.py")
    assert drawn == (DOCS / "house.svg").read_text(), "run: python docs/house_picture.py"


def test_the_house_has_every_module_and_no_line_upwards() -> None:
    from test_traps import LAYERS

    root = ElementTree.fromstring((DOCS / "house.svg").read_text())
    words = {text.text for text in root.iter(f"{SVG}text")}
    assert {part for parts in LAYERS for part in parts} <= words
    paths = [path.attrib["d"] for path in root.iter(f"{SVG}path")]
    assert len(paths) > 20
    for path in paths:
        numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", path)]
        assert numbers[1] > numbers[-1], f"an import of what stands below: {path}"


@pytest.mark.parametrize("name", ["bias", "coverage"])
def test_the_decision_page_shows_what_the_study_says(name: str) -> None:
    parts = dict(part.split("\n\n", 1) for part in printed("choosing_page.py").split("## ")[1:])
    page = (DOCS / "choosing.md").read_text()
    shown = page.split(f"<!-- begin generated: {name} -->")[1].split("<!-- end generated")[0]
    assert parts[name].strip() == shown.strip(), "run: python docs/choosing_page.py"


def test_the_recommended_intervals_hold_in_the_study() -> None:
    page = (DOCS / "choosing.md").read_text()
    for name in ("logit", "wilson", "clopper_pearson"):
        assert re.search(rf"^\| `{name}` \| always \|", page, re.MULTILINE)
    assert re.search(r"^\| `influence_logit_t` \| from 200 on \|", page, re.MULTILINE)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason='pip install ".[docs]"')
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "site",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    for page in ("index", "tutorial", "clusters", "generated/aucpr_dask.evaluate", "command-line"):
        assert (site / f"{page}.html").exists()
    assert "From a laptop to a cluster" in (site / "clusters.html").read_text()
    commands = (site / "command-line.html").read_text()
    assert [name for name in names_of_commands() if f'id="{name}"' not in commands] == []
    assert "--keep-replicates" in commands
    assert_nothing_is_fetched(site)


def assert_nothing_is_fetched(site: Path) -> None:
    """Links lead anywhere; what a browser loads by itself comes from the site."""
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)|<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)'
    )
    found = {page.name: match for page in site.rglob("*.html") if (match := loaded.search(page.read_text()))}
    assert found == {}
