"""The notebooks: made from their sources, committed with what they gave, and still running."""

from __future__ import annotations

import base64
import importlib.util
import re
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

pytestmark = pytest.mark.needs("nbclient", "jupytext", "ipykernel")

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST, LARGEST_PICTURE = 600_000, 60_000  # bytes

notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_notebooks", FOLDER / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> NotebookNode:
    import nbformat  # takes seconds, which a run that leaves this file out need not wait for

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def complaints_of(notebook: NotebookNode) -> list[str]:
    """Return errors, and warnings, that is everything on the standard error stream."""
    errors = [f"{output.ename}: {output.evalue}" for output in outputs_of(notebook) if output.output_type == "error"]
    return errors + [output.text for output in outputs_of(notebook) if output.get("name") == "stderr"]


def pictures_of(notebook: NotebookNode) -> list[str]:
    """Return pictures in base64."""
    return [output.data["image/png"] for output in outputs_of(notebook) if "image/png" in output.get("data", {})]


def texts_of(notebook: NotebookNode) -> str:
    """Return all that a notebook says, its pictures left out."""
    said = [cell.source for cell in notebook.cells]
    for output in outputs_of(notebook):
        said.append(output.get("text", ""))
        said += [str(data) for kind, data in output.get("data", {}).items() if not kind.startswith("image/")]
    return "\n".join(said)


def test_every_source_has_a_notebook_that_the_readme_lists(build: ModuleType) -> None:
    names = [path.stem for path in NOTEBOOKS]
    assert names
    assert names == sorted(path.stem for path in build.SOURCES.glob("*.py"))
    listed = re.findall(r"\]\(([\w-]+)\.ipynb\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert listed == names


@notebooks
def test_notebook_is_its_source(path: Path, build: ModuleType) -> None:
    source = build.read_source(build.SOURCES / f"{path.stem}.py")
    committed = read(path)
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in source.cells
    ], f"rebuild it: python notebooks/build.py {path.stem}"


@notebooks
def test_notebook_was_executed_from_top_to_bottom(path: Path) -> None:
    notebook = read(path)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert outputs_of(notebook)
    assert complaints_of(notebook) == []


@notebooks
def test_drawings_are_visible(path: Path) -> None:
    for cell in code_cells(read(path)):
        if re.search(r"^(?!\s).*(\.plot\.\w+\(|plots\.\w+\(|plt\.subplots\(|= draw\w*\()", cell.source, re.MULTILINE):
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.source


@notebooks
def test_notebook_holds_nothing_of_the_machine_it_ran_on(path: Path) -> None:
    text = texts_of(read(path))
    assert re.findall(r"(?<![\w.:/<!-])/(?:home|root|tmp|usr|work|var|opt|Users|mnt)\b\S*", text) == []
    assert re.findall(r"\bat 0x[0-9a-f]{6,}", text) == []
    assert re.findall(r"(?:localhost|127\.0\.0\.1):[1-9]\d*", text) == []  # port 0 is any free one


@notebooks
def test_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    pictures = pictures_of(read(path))
    assert all(len(base64.b64decode(picture)) <= LARGEST_PICTURE for picture in pictures)


@pytest.mark.parametrize(
    ("code", "complaint"), [("1 / 0", "ZeroDivisionError"), ("import warnings\nwarnings.warn('beware')", "beware")]
)
def test_errors_and_warnings_are_found(code: str, complaint: str, build: ModuleType) -> None:
    import nbformat
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    with suppress(CellExecutionError):
        build.execute(notebook, "small")
    assert complaint in complaints_of(notebook)[0]


@notebooks
def test_notebook_runs(path: Path, build: ModuleType) -> None:
    notebook = build.read_source(build.SOURCES / f"{path.stem}.py")
    build.execute(notebook, "small", timeout=120)
    assert complaints_of(notebook) == []
    assert len(pictures_of(notebook)) == len(pictures_of(read(path)))
