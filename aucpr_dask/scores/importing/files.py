"""Shared by all importers: finding and opening files, a spool on disk, and the summary."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import IO, Any, AnyStr, NoReturn, TypeVar

import numpy as np
import xarray as xr

from aucpr_dask import errors
from aucpr_dask.schema import terms
from aucpr_dask.scores.chunks import Region
from aucpr_dask.storage.urls import concealed, is_remote

FilePath = str | PathLike[str]
OnProgress = Callable[[str, int, int], None]
_Item = TypeVar("_Item")

COMPRESSION_SUFFIXES = {".gz": "gzip", ".xz": "xz", ".bz2": "bz2", ".zst": "zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}

LONGEST_LINE = 2**26  # characters
MOST_OF_XZ = 2**30  # bytes of memory: xz's own settings need up to 65 MiB
HELD = 2**28  # bytes of arrays that stay in memory: a file takes three times as long, and is worth it for large ones
BLOCK = 2**13  # characters read at a time, as many as TextIOWrapper decodes at once

# --- what an import says ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImportSummary(terms.Sentences):
    """The counts of an import, and notes on what was left out, repeated or missing.

    `queries` are summed over the data sets, and `items`, without padding, over data sets and queries; if models have
    their own lists, the items of all lists count.
    """

    models: int
    queries: int
    items: int
    datasets: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        sizes = {"model": self.models, "query": self.queries, "item": self.items, "data set": self.datasets}
        counts = [terms.count(size, noun) for noun, size in sizes.items() if size or noun != "query"]
        return "\n  note: ".join([", ".join(counts), *map(errors.printable, self.notes)])


def summarize(scores: terms.Scores, items: int, notes: Sequence[str] = ()) -> ImportSummary:
    """Return the summary of the data sets that `scores` describes, of `items` items in total."""
    nodes = [dataset for _, dataset in terms.nodes_of(scores)]
    models = {str(name) for dataset in nodes for name in dataset[terms.MODEL].values}
    n_queries = sum(dataset.sizes.get(terms.QUERY, 0) for dataset in nodes)
    return ImportSummary(len(models), n_queries, items, len(nodes), tuple(notes))


def count_items(dataset: xr.Dataset) -> int:
    """Return the number of items that are not padding, by the labels, or without labels by the scores' shape."""
    if "label" in dataset:
        return int((dataset["label"] != terms.PADDING).sum())
    return int(np.prod([dataset.sizes[dim] for dim in (terms.QUERY, terms.ITEM) if dim in dataset["score"].dims]))


MOST_COLUMNS = 20  # listed in a note or an error


def unknown_column(name: str, columns: Sequence[str], where: object) -> errors.InvalidInputError:
    """Return the error for a column that a table does not have."""
    otherwise = "check the name, or the separator" if len(columns) == 1 else "give one of these names"
    parts = [part.strip() for part in str(name).split(",")]
    is_list = len(parts) > 1 and {*parts} <= {*columns}
    remedy = "repeat the option for each name" if is_list else errors.did_you_mean(str(name), columns, otherwise)
    brief, known = errors.brief(name), errors.few(columns, MOST_COLUMNS)
    return errors.InvalidInputError(f"there is no column {brief}", where, brief, known, remedy)


MEND_LINE = "correct this line, or check that this is the file that you mean"


def bad_line(
    what: str, path: object, line: int, received: object, allowed: str | None = None, remedy: str = MEND_LINE
) -> errors.FileFormatError:
    """Return the error for a line of a file that is not as it should be."""
    return errors.FileFormatError(what, f"{path}, line {line}", received, allowed, remedy)


def reported(items: Collection[_Item], on_progress: OnProgress | None, what: str) -> Iterator[_Item]:
    """Yield items; call `on_progress`, if there is one, after the work on each."""
    for done, item in enumerate(items, start=1):
        yield item
        if on_progress is not None:
            on_progress(what, done, len(items))


def write_blocks(
    url: str | Path,
    template: terms.Scores,
    open_node: Callable[[str], Callable[[Region], dict[str, np.ndarray]]],
    *,
    overwrite: bool,
    on_progress: OnProgress | None,
) -> None:
    """Write a score store; ``open_node(path)`` returns a function that makes the arrays of a region."""
    from aucpr_dask.scores.store import ScoreWriter  # with Zarr, which reading tables does without

    writer = ScoreWriter(url, template, overwrite=overwrite)
    parts = [(path, region) for path, _ in terms.nodes_of(template) for region in writer.regions(path)]
    opened = None
    for path, region in reported(parts, on_progress, "writing blocks"):
        if path != opened:  # one node at a time is open
            opened, block_of = path, open_node(path)
        writer.write(path, region, **block_of(region))
    writer.commit()


# --- finding files ----------------------------------------------------------------------------------------------


def find_files(paths: FilePath | Sequence[FilePath], what: str) -> list[Path]:
    """Return the files that `paths` name: files, all files in folders, and glob patterns."""
    listed = [paths] if isinstance(paths, str | PathLike) else list(paths)
    listed = [path for path in listed if path != ""]  # which would be the folder that one is in
    found = [file for path in listed for file in _files_at(path, what)]
    if not found:
        where, allowed = "the files to read", "one or more paths"
        raise errors.InvalidInputError(f"no {what} was named", where, repr(listed), allowed, "name the files")
    return found


def local_copy(path: FilePath) -> Path:
    """Return the path of a file on this machine; a URL is fetched into a folder that lives as long as this process."""
    url = os.fspath(path)
    try:
        is_name = bool(os.fsencode(url)) and "\0" not in url
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        what, remedy = "this names no file", "check the path"
        raise errors.InvalidInputError(what, "the files to read", repr(url), "the path or URL of a file", remedy)
    if not is_remote(url):
        return Path(url)
    from aucpr_dask.storage.remote import fetch

    return fetch(concealed(url), Path(tempfile.mkdtemp(dir=_fetched_files().name)))


@cache
def _fetched_files() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="aucpr-dask-")


def _files_at(path: FilePath, what: str) -> list[Path]:
    place = local_copy(path)
    try:
        is_store = (place / "zarr.json").exists()
    except OSError as error:  # a name too long for a file
        remedy = "check the path"
        allowed = "files, folders, or patterns"
        raise errors.InvalidInputError(
            f"no {what} here", errors.brief(path), error.strerror, allowed, remedy
        ) from error
    if is_store:
        remedy = "open it: aucpr_dask.open_result or aucpr_dask.open_scores"
        raise errors.InvalidInputError("this is a store, not a file to import", path, "a Zarr store", what, remedy)
    if place.is_dir():
        found = sorted(_files_in(place))
    else:
        found = [place] if place.exists() else sorted(Path(match) for match in glob.glob(str(path), recursive=True))
    if not found:
        received = "a path or pattern that matches no file"
        allowed = "files, folders, or patterns that some files match"
        raise errors.InvalidInputError(f"no {what} here", path, received, allowed, "check the path")
    return found


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders, except hidden ones; refuse what cannot be read, or leads out."""

    def refuse(error: OSError) -> NoReturn:
        what, allowed = "this folder cannot be read as a whole", "files and folders that may be read"
        remedy = "name the files, or make all of them readable"
        raise errors.InvalidInputError(what, error.filename, error.strerror, allowed, remedy) from error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in (Path(place, name) for name in names if not name.startswith(".")):
            try:
                is_file = stat.S_ISREG(file.stat().st_mode)
            except FileNotFoundError:  # a link to nothing
                continue
            except OSError as error:
                refuse(error)
            # In a folder that somebody else packed, a link may point to any file of the user.
            if is_file and not (target := file.resolve()).is_relative_to(folder.resolve()):
                what, remedy = "a link in this folder leads out of it", "remove it, or name the files if this is meant"
                raise errors.InvalidInputError(what, file, f"a link to {target}", remedy=f"{remedy}: {folder / '*'}")
            if is_file:
                yield file


def bare_name(path: Path, suffixes: Sequence[str]) -> str:
    """Return the file's name without one compression suffix and one of `suffixes`."""
    name = path.name
    for endings in (tuple(COMPRESSION_SUFFIXES), tuple(suffixes)):
        ending = next((ending for ending in endings if name.lower().endswith(ending)), "")
        name = name[: len(name) - len(ending)] or name
    return name


def named_files(
    files: Sequence[Path], suffixes: Sequence[str], what: str, *, with_folders: bool = False
) -> dict[str, Path]:
    """Return the files by their bare names, which must differ: with as many of their folders as that takes, or none."""
    alike: dict[str, list[Path]] = {}
    for file in files:
        alike.setdefault(bare_name(file, suffixes), []).append(file)
    named: dict[str, Path] = {}
    for file in files:
        name = bare_name(file, suffixes)
        if with_folders:  # the innermost, as few as it takes to tell it from others of the same name
            own, others = file.parent.parts, [one.parent.parts for one in alike[name] if one.parent != file.parent]
            depths = range(1, len(own) + 1) if others else ()
            folders = next((own[-n:] for n in depths if all(other[-n:] != own[-n:] for other in others)), ())
            name = "/".join([*folders, name])
        if name in named:
            received, remedy = f"{named[name]} and {file}", "rename one of them, or leave it out"
            raise errors.AlignmentError(f"two files would both be the {what} {name!r}", None, received, remedy=remedy)
        named[name] = file
    return named


# --- reading files ----------------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed according to its first bytes; raise a clear error if it is broken."""
    try:
        with _opened(path) as stream:
            yield stream
    except errors.AucprError:
        raise
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            what, allowed, remedy = "the file cannot be read", "a file that may be read", "check the path"
            raise errors.InvalidInputError(what, path, error.strerror, allowed, remedy) from error
        is_truncated = isinstance(error, EOFError) or "truncated" in str(error).lower()
        what, received = ("truncated", None) if is_truncated else ("corrupt", error)
        remedy = "copy or download it again"
        raise errors.FileFormatError(f"the compressed file is {what}", path, received, remedy=remedy) from error


@contextmanager
def reading_text(path: Path) -> Iterator[IO[str]]:
    """Open a text file in UTF-8; bytes that are not stay in names, which stores then refuse."""
    with reading(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape") as text:
        yield text


def lines_of(stream: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """Return the lines of a file, some read at a time; refuse a line so long that it would fill the memory."""
    return chain.from_iterable(_lines_at_once(stream, path))


def _lines_at_once(stream: IO[AnyStr], path: Path) -> Iterator[list[AnyStr]]:
    rest, n_lines = stream.read(0), 0
    split: Any = io.BytesIO if isinstance(rest, bytes) else partial(io.StringIO, newline="")
    while block := stream.read(max(BLOCK, len(rest))):  # doubled for a long line, so that its cost stays linear
        *lines, rest = split(rest + block)  # the last line may go on in the next block
        yield lines
        n_lines += len(lines)
        if len(rest) > LONGEST_LINE:
            raise line_too_long(f"{path}, line {n_lines + 1}")
    if rest:
        yield [rest]


def blocks_of(stream: IO[bytes], path: Path, size: int) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole lines, of this many bytes or more; refuse a line that is too long."""
    while block := stream.read(size):
        if not block.endswith(b"\n"):
            block += (rest := stream.readline(LONGEST_LINE))
            if len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                raise line_too_long(str(path))
        yield block


def line_too_long(where: str) -> errors.FileFormatError:
    """Return the error for a line that is too long: compressed, it may be a small file."""
    received = f"more than {LONGEST_LINE:,} characters without an end of line"
    remedy = "check that this is a text file of lines"
    return errors.FileFormatError("the line is too long", where, received, remedy=remedy)


class _Streams(io.RawIOBase):
    """The streams of a compressed file, one behind another, each to its end.

    Python's own readers take whatever follows the first stream, and does not begin like another, for nothing.
    """

    def __init__(self, new: Callable[[], Any], path: Path) -> None:
        self._file, self._new, self._stream = path.open("rb"), new, new()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, room: Any) -> int:
        found = b""
        while not found:
            if self._stream.eof:
                rest: bytes = self._stream.unused_data.lstrip(b"\0")  # padding
                while not rest:
                    if not (block := self._file.read(BLOCK)):
                        return 0
                    rest = block.lstrip(b"\0")
                self._stream = self._new()
            else:
                rest = self._file.read(BLOCK) if self._stream.needs_input else b""
                if self._stream.needs_input and not rest:
                    raise EOFError("the file ends within a stream")
            found = self._stream.decompress(rest, len(room))
        room[: len(found)] = found
        return len(found)


def _opened(path: Path) -> Any:
    compression = compression_of(path)
    if compression is None:
        return path.open("rb")
    if compression == "gzip":
        return gzip.open(path)
    if compression == "zstd":
        import pyarrow as arrow

        return io.BufferedReader(arrow.CompressedInputStream(arrow.OSFile(str(path)), "zstd"))
    xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=MOST_OF_XZ)
    return io.BufferedReader(_Streams(xz if compression == "xz" else bz2.BZ2Decompressor, path), 2**17)


def compression_of(path: Path) -> str | None:
    """Return how a file is compressed, by its first bytes; refuse a suffix that promises a compression it lacks."""
    if path.exists() and not path.is_file():  # reading it may never end, and a pipe can be read only once
        received = "a folder" if path.is_dir() else "a pipe or device"
        remedy = "name one file in it" if path.is_dir() else "write it to a file first"
        raise errors.InvalidInputError("this is not a file", path, received, "one file", remedy)
    with path.open("rb") as stream:
        head = stream.read(8)
    found = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    if found == "bz2" and not head[3:4].isdigit():  # text may begin with these three letters
        found = None
    promised = COMPRESSION_SUFFIXES.get(path.suffix.lower())
    if promised and not found:
        received = f"first bytes {head!r}" if head else "an empty file"
        remedy = "copy it again, or drop the suffix if it is plain text"
        what = f"the file is named {path.suffix} but is not {promised}"
        raise errors.FileFormatError(what, path, received, remedy=remedy)
    return found


class Spool(ExitStack):
    """Arrays on their way to a store: the first few, and objects, in memory, and others mapped to temporary files."""

    def __init__(self) -> None:
        super().__init__()
        self._held = self._end = 0
        self._mapped: np.ndarray = np.empty(0, np.uint8)

    def kept(self, array: np.ndarray) -> np.ndarray:
        """Return an array that must not change, perhaps as one of which only what is read takes memory."""
        if array.dtype.hasobject or self._held + array.nbytes <= HELD:
            self._held += array.nbytes
            return array
        start = -(-self._end // 8) * 8
        self._end = start + array.nbytes
        if self._end > self._mapped.size:  # every map holds a file open, so arrays share maps
            self._file = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            self._file.truncate(max(HELD, array.nbytes))
            self._mapped, start, self._end = np.memmap(self._file, mode="r"), 0, array.nbytes
        self._file.seek(start)
        self._file.write(np.ascontiguousarray(array).data.cast("B"))  # a full disk is an error here, not in the map
        self._file.flush()
        found: np.ndarray = self._mapped[start : self._end].view(array.dtype).reshape(array.shape)
        return found
