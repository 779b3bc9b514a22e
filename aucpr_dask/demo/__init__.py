"""The demonstration: real scores, whose folders under ``data`` name the source and the licence of each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import xarray as xr

from aucpr_dask.errors import StoreError
from aucpr_dask.schema.terms import Scores, nodes_of
from aucpr_dask.scores.importing import arrays, trec
from aucpr_dask.scores.store import open_scores, open_unread, stored_digests
from aucpr_dask.scores.store import write_scores as write_to

CLEF = "clef-tar"


@contextmanager
def data_folder() -> Iterator[Path]:
    """Yield the folder of the bundled data."""
    with as_file(files("aucpr_dask.demo") / "data") as folder:
        yield folder


def build_scores(
    url: str | Path, *, overwrite: bool = False, on_progress: Callable[[str, int, int], None] | None = None
) -> Scores:
    """Import the bundled data into one score store, a tree with a node for each data set, unless it is there."""
    write_scores(url, overwrite=overwrite, on_progress=on_progress)
    return open_scores(url)


def write_scores(
    url: str | Path, *, overwrite: bool = False, on_progress: Callable[[str, int, int], None] | None = None
) -> None:
    """Write what :func:`build_scores` opens."""
    with data_folder() as data, tempfile.TemporaryDirectory() as scratch:
        clef = data / "clef-tar-2017-mini"
        runs, tables = Path(scratch) / "runs.zarr", Path(scratch) / "tables.zarr"
        trec.import_trec(clef / "runs", clef / "qrels.txt.xz", runs, dataset=CLEF, on_progress=on_progress)
        arrays.import_arrays(
            sorted((data / "adbench").glob("*.npz")),
            tables,
            score="scores",
            label="y",
            models="models",
            dims="model,repeat,item",
            fold="fold",
            on_progress=on_progress,
        )
        if overwrite or _digests(url) != _digests(runs) | _digests(tables):  # else another demo was interrupted later
            nodes = {name: node for store in (runs, tables) for name, node in nodes_of(open_scores(store, chunks=None))}
            write_to(xr.DataTree.from_dict(nodes), url, overwrite=overwrite)


def _digests(url: str | Path) -> dict[str, list[int]]:
    """Return the digests of the rankings in a score store, by data set; nothing if it does not open."""
    try:
        return {path: digests.ravel().tolist() for path, digests in stored_digests(open_unread(url)).items()}
    except StoreError:
        return {}
