"""Make the notebooks from their sources: ``python notebooks/build.py``, or one, ``python notebooks/build.py 03``.

A source (``source/*.py``, cells between ``# %%``) is what people edit and review; the notebook is that source,
executed. Needs the extras ``notebook`` and ``test-pages``.
"""

from __future__ import annotations

import base64
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "source"
SIZE = "AUCPR_NOTEBOOK_SIZE"
"""The environment variable that notebooks read: ``small`` where only their running is tried."""

READS = ("cluster", "docs/study")
"""Folders of the repository that notebooks read, by paths relative to their own."""

COLOURS = 128  # of a picture
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def read_source(path: Path) -> nbformat.NotebookNode:
    """Return the notebook of a source, not executed; its metadata and cell ids are always the same."""
    notebook = jupytext.read(path)
    notebook.metadata = nbformat.from_dict(KERNEL)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    return notebook


def execute(notebook: nbformat.NotebookNode, size: str, timeout: int = 600) -> nbformat.NotebookNode:
    """Run all cells, in order and in a fresh kernel, in a temporary folder with copies of what notebooks read."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / FOLDER.name
        folder.mkdir()
        for name in READS:
            shutil.copytree(FOLDER.parent / name, Path(scratch) / name)
        with _environment({SIZE: size, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}):
            NotebookClient(
                notebook,
                timeout=timeout,
                resources={"metadata": {"path": str(folder)}},
                coalesce_streams=True,
                extra_arguments=["--log-level=ERROR"],
            ).execute()
    return _tidied(notebook)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables that a kernel inherits."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _tidied(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Leave out when cells ran and which Python it was, which are not content, and make pictures smaller."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.metadata = {}
                output.data["image/png"] = _smaller(output.data["image/png"])
    return notebook


def _smaller(picture: str) -> str:
    """Return a PNG, as base64, with at most 128 colours: a drawing loses nothing that can be seen."""
    few = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    written = io.BytesIO()
    few.save(written, format="png", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def build(path: Path) -> Path:
    """Execute a source at full size, and write its notebook."""
    notebook = execute(read_source(path), "full")
    written = FOLDER / f"{path.stem}.ipynb"
    nbformat.write(notebook, written)
    return written


def main(names: list[str]) -> None:
    """Build the notebooks whose names begin with one of `names`, or all."""
    for path in sorted(SOURCES.glob("*.py")):
        if not names or path.stem.startswith(tuple(names)):
            written = build(path)
            print(f"{written.name}: {written.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
