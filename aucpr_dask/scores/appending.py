"""Add models and data sets to a score store: write the whole next to it, then put that in its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import locket
import numpy as np
import xarray as xr

from aucpr_dask.errors import AlignmentError, AucprError, InvalidInputError, StoreError, few
from aucpr_dask.schema.terms import ITEM, MODEL, PADDING, Scores, nodes_of
from aucpr_dask.scores.chunks import DERIVED
from aucpr_dask.scores.store import open_scores, write_scores
from aucpr_dask.storage import stores, urls

FILL = {"score": np.nan, "label": PADDING, "tie_order": -1}  # behind the end of a shorter ranking
PATIENCE = 600.0  # seconds that a call waits for another that adds to the same store


@contextmanager
def place_for(url: str | Path, *, overwrite: bool, append: bool) -> Iterator[str | Path]:
    """Give the place for a new store: `url`; or, to append to a store there, one next to it, which then joins it."""
    # The store at `url` changes as a whole, or not at all.
    if append and overwrite:
        what = "a store is either replaced or appended to"
        received = "overwrite=True and append=True"
        raise InvalidInputError(what, None, received, "one of the two")
    place = Path(url).resolve() if append and not urls.is_remote(url) else None
    if place is not None and not place.name:
        raise StoreError("the root folder cannot be a store", place, remedy="name a folder to write")
    if append and place is None and _is_finished(url):
        remedy = "import all files again, to another place"
        raise StoreError("only a store on this machine can be appended to", urls.public(url), remedy=remedy)
    if place is None or not (_is_finished(place) or _workplace_of(place).exists()):
        stores.refuse_finished(url, overwrite=overwrite)
        yield url
        return
    with _workplace(place) as folder:
        added, before, whole = folder / "added", folder / "before", folder / "whole"
        if before.exists() and not place.exists():  # the exchange below was interrupted in the middle
            whole.rename(place)
        for rest in (added, before, whole):
            shutil.rmtree(rest, ignore_errors=True)
        if _is_finished(place):
            yield added
            write_scores(joined(open_scores(place), open_scores(added)), whole)
            # No system exchanges two folders in one step: the next call mends what a crash between these leaves.
            place.rename(before)
            whole.rename(place)
        else:
            stores.refuse_finished(url, overwrite=False)
            yield url


def _is_finished(url: str | Path) -> bool:
    try:
        stores.read_root_document(urls.concealed(url))
    except StoreError:
        return False
    return True


def _workplace_of(store: Path) -> Path:
    return store.with_name(f".{store.name}.append")


@contextmanager
def _workplace(store: Path) -> Iterator[Path]:
    """Lock a folder next to the store; remove it after use."""
    place = _workplace_of(store)
    lock = locket.lock_file(str(place / "lock"), timeout=PATIENCE)
    try:
        while True:  # other calls remove the folder after use
            place.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                lock.acquire()
                if (place / "lock").exists():
                    break
                lock.release()
        try:
            yield place
        finally:
            if store.exists():  # else the folder holds what belongs in its place
                shutil.rmtree(place)
            lock.release()
    except locket.LockError:
        remedy = "repeat the command when it has finished"
        raise StoreError("another command is appending to this store", store, remedy=remedy) from None
    except OSError as error:
        if isinstance(error, AucprError):
            raise
        raise StoreError("the store cannot be written", store, error) from error


def joined(before: Scores, added: Scores) -> Scores:
    """Return scores with the models and the data sets of others."""
    if isinstance(before, xr.Dataset) and isinstance(added, xr.Dataset):
        return _joined("", before, added)
    old, new = dict(nodes_of(before)), dict(nodes_of(added))
    if "" in old or "" in new:
        allowed = "data sets with names in both, or one data set without a name in both"
        remedy = "name the data set of the files: dataset=..., or import to a new store"
        what = "data sets without a name cannot be added to named ones"
        ours, theirs = ("one data set without a name" if "" in one else few(map(repr, one)) for one in (old, new))
        raise _differ(what, ours, theirs, allowed, remedy)
    both = {path: _joined(path, node, new[path]) if path in new else node for path, node in old.items()}
    return xr.DataTree.from_dict(both | {path: node for path, node in new.items() if path not in old})


def _joined(path: str, before: xr.Dataset, added: xr.Dataset) -> xr.Dataset:
    """Return a data set with the models of another."""
    where = f"data set {path!r}" if path else "the scores"
    before, added = before.drop_vars(DERIVED, errors="ignore"), added.drop_vars(DERIVED, errors="ignore")
    for scores, whose in ((before, "the store"), (added, "the files")):
        if MODEL not in scores.coords:
            what = "the models have no names, so none can be added"
            raise AlignmentError(what, f"{where} of {whose}", remedy="name the models")
    if again := [name for name in added[MODEL].values.tolist() if name in set(before[MODEL].values.tolist())]:
        what, remedy = "models of these names are in the store already", "leave these out, or give them other names"
        raise AlignmentError(what, where, few(map(repr, again)), remedy=remedy)
    _check_same(where, "variables", sorted(map(str, before.data_vars)), sorted(map(str, added.data_vars)))
    if MODEL in before["label"].dims and MODEL in added["label"].dims:  # each model has its own list
        longest = max(before.sizes[ITEM], added.sizes[ITEM])
        before, added = (_padded(scores, longest) for scores in (before, added))
    for name, variable in before.variables.items():
        other = added.variables.get(name)
        if other is None or (MODEL not in variable.dims and not variable.equals(other)):
            what = f"{name!r} differs between the store and the files"
            theirs = "none" if other is None else _shape(other)
            allowed = "the same items and queries in the same order, with the same labels and weights"
            raise _differ(what, _shape(variable), theirs, allowed, "import the files to a new store", where)
        _check_same(where, f"dimensions of {name!r}", variable.dims, other.dims)
        if variable.dtype.kind not in "OUT":
            _check_same(where, f"type of {name!r}", variable.dtype, other.dtype)
    # All that models share is known to be equal, so nothing is compared or aligned again.
    how: Any = {"compat": "override", "join": "override", "combine_attrs": "override"}
    return xr.concat([before, added], MODEL, data_vars="minimal", coords="minimal", **how)


def _check_same(where: str, what: str, before: object, added: object) -> None:
    if before != added:
        remedy = "import the files with the options of the first import, or to a new store"
        what = f"the {what} differ between the store and the files"
        raise _differ(what, before, added, "the same in both", remedy, where)


def _differ(
    what: str, before: object, added: object, allowed: str, remedy: str, where: str | None = None
) -> AlignmentError:
    return AlignmentError(what, where, f"{before} in the store, {added} in the files", allowed, remedy)


def _shape(variable: xr.Variable) -> str:
    return " x ".join(f"{size:,} {dim}" for dim, size in variable.sizes.items())


def _padded(scores: xr.Dataset, length: int) -> xr.Dataset:
    lacking = length - scores.sizes[ITEM]
    if not lacking:
        return scores
    unknown = [str(name) for name, variable in scores.variables.items() if ITEM in variable.dims and name not in FILL]
    if unknown:
        what = "lists of other lengths cannot be added where these variables are along the items"
        raise AlignmentError(what, None, few(map(repr, unknown)), remedy="import all files again, to a new store")
    fill = {name: FILL[str(name)] for name in scores.data_vars if ITEM in scores[name].dims}
    return scores.pad({ITEM: (0, lacking)}, constant_values=fill)
