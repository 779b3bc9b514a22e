"""The documentation site: it builds without a warning, and nothing public is missing from it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from code_blocks import ROOT

import aucpr_dask as ap
from aucpr_dask import errors, metrics
from aucpr_dask.cli import main
from aucpr_dask.simulate.scenarios import __all__ as simulations

DOCS = ROOT / "docs"


def names_of_commands() -> Iterator[str]:
    """Yield "aucpr-dask-import-trec" for every command."""

    def walk(name: str, command: click.Command) -> Iterator[str]:
        yield name
        if isinstance(command, click.Group):
            for child, one in command.commands.items():
                yield from walk(f"{name}-{child}", one)

    return walk("aucpr-dask", main)


def pages_of_navigation() -> list[str]:
    text = "\n".join(page.read_text() for page in DOCS.glob("*.md"))
    toctrees = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    lines = [line for toctree in toctrees for line in toctree.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r".*<(.+)>$", r"\1", entry) for entry in entries]


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "python-api.md").read_text()
    listed = re.findall(r"^   (\w[\w.]*)$", page, re.MULTILINE)
    assert len(listed) == len(set(listed))
    expected = {name for name in ap.__all__ if not name.startswith("_")} - {"metrics", "simulate"}
    assert expected <= set(listed)
    assert {f"simulate.{name}" for name in simulations} <= set(listed)
    assert {f"metrics.{name}" for name in metrics.__all__} <= set(listed)
    assert ".. automodule:: aucpr_dask.errors" in page
    assert all(getattr(errors, name).__doc__ for name in dir(errors) if name.endswith("Error"))


def test_every_page_is_in_the_navigation_once() -> None:
    named = pages_of_navigation()
    assert len(named) == len(set(named))
    assert set(named) == {page.stem for page in DOCS.glob("*.md")} - {"index"}, (
        "add it to a toctree, or remove it from one"
    )


def test_the_tree_of_folders_is_that_of_the_package_in_the_order_of_imports() -> None:
    from test_traps import LAYERS

    page = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"^  (\w+)(?:/|\.py) ", page.partition("aucpr_dask/\n")[2], re.MULTILINE)
    level = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}
    assert set(shown) == set(level) - {"_version", "__main__"}
    assert sorted(shown, key=level.__getitem__) == shown


def test_readers_see_no_notes_for_authors() -> None:
    for page in DOCS.glob("*.md"):
        assert "by hand" not in page.read_text(), page


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
    """Only links lead elsewhere; a browser loads only files of the site."""
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)|<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)'
    )
    found = {page.name: match for page in site.rglob("*.html") if (match := loaded.search(page.read_text()))}
    assert found == {}
