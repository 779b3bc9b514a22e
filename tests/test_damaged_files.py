"""Files and stores damaged at random are read as they were, or refused: never other numbers or a traceback."""

import bz2
import gzip
import lzma
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numcodecs
import numpy as np
import pandas as pd
import pytest
from conftest import pooled, queried
from faults import small_chunks

import aucpr_dask as ap
from aucpr_dask.errors import AucprError, FileFormatError
from aucpr_dask.evaluation.results import KIND
from aucpr_dask.scores.importing.arrays import import_arrays, import_xarray
from aucpr_dask.scores.importing.tables import import_table
from aucpr_dask.scores.importing.trec import import_trec
from aucpr_dask.storage.stores import create_store

RNG = np.random.default_rng(42)
TABLE = pd.DataFrame(RNG.normal(size=(40, 3)).round(3), columns=["a", "b", "c"]).assign(y=np.arange(40) % 3 == 0)
CSV = TABLE.astype({"y": int}).to_csv(index=False).encode()
RUN = "".join(f"q{n % 2} Q0 d{n} 0 {n * 7 % 20} t\n" for n in range(40))
QRELS = "".join(f"q{n % 2} 0 d{n} {n % 3 % 2}\n" for n in range(0, 40, 2))
ARRAYS = {"scores": TABLE[["a", "b", "c"]].to_numpy().T, "label": TABLE["y"].to_numpy(int), "models": ["a", "b", "c"]}


WHOLE = set[bytes]()  # streams: that some were left out, nothing tells


def packed(pack: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Write two streams, one behind another."""
    half = CSV.index(b"\n", len(CSV) // 2) + 1
    streams = [pack(CSV[:half]), pack(CSV[half:])]
    WHOLE.update(streams)
    return lambda place: place.write_bytes(b"".join(streams)) and None


def is_whole(content: bytes) -> bool:
    """Whether nothing is left of a file but some of its streams, whole ones, and zeros between and behind them."""
    while stream := next((stream for stream in WHOLE if content.startswith(stream)), None):
        content = content.removeprefix(stream).lstrip(b"\0")
    return not content.strip(b"\0")


def to_parquet(place: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pandas(TABLE), place, compression="gzip", write_page_checksum=True)


def to_netcdf(engine: Any) -> Callable[[Path], None]:
    return lambda place: pooled(3, 20).drop_vars("item").to_netcdf(place, engine=engine)


def to_trec(place: Path) -> None:
    place.mkdir()
    (place / "qrels.gz").write_bytes(gzip.compress(QRELS.encode()))
    (place / "run.gz").write_bytes(gzip.compress(RUN.encode()))


def to_scores(place: Path) -> None:
    with small_chunks():
        ap.save_scores(queried(3, 2, 20), place)


def to_result(place: Path) -> None:
    pending = create_store(place, ap.evaluate(queried(3, 2, 20)), KIND)
    with pending.writing():
        pending.commit()


def imported(read: Callable[..., Any], **options: Any) -> Callable[[Path, Path], Any]:
    def load(place: Path, out: Path) -> Any:
        read(place, out, **options)
        return ap.open_scores(out).load()

    return load


def from_trec(place: Path, out: Path) -> Any:
    import_trec(place / "run.gz", place / "qrels.gz", out)
    return ap.open_scores(out).load()


Format = tuple[Callable[[Path], Any], Callable[[Path, Path], Any], bool]  # whether checksums cover all of its numbers
BY_LABEL = imported(import_table, label="y")
FORMATS: dict[str, Format] = {
    "t.csv": (lambda place: place.write_bytes(CSV), BY_LABEL, False),
    "t.csv.gz": (packed(gzip.compress), BY_LABEL, True),
    "t.csv.bz2": (packed(bz2.compress), BY_LABEL, True),
    "t.csv.xz": (packed(lzma.compress), BY_LABEL, True),
    "t.csv.zst": (packed(lambda content: numcodecs.zstd.compress(content, 3, True)), BY_LABEL, True),
    "t.parquet": (to_parquet, BY_LABEL, False),
    "3.nc": (to_netcdf("scipy"), imported(import_xarray), False),
    "4.nc": (to_netcdf("h5netcdf"), imported(import_xarray), False),
    "a.npz": (lambda place: np.savez_compressed(place, **ARRAYS), imported(import_arrays, label="label"), True),
    "trec": (to_trec, from_trec, True),
    "scores.zarr": (to_scores, lambda place, out: ap.open_scores(place).load(), True),
    "result.zarr": (to_result, lambda place, out: ap.open_result(place).load(), True),
}


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with a flipped bit, or with some others, cut, removed, repeated, zero or exchanged."""
    if not content:
        return b"\0"
    start, other = sorted(rng.integers(len(content), size=2).tolist())
    stop = min(len(content), start + int(rng.integers(1, 2 ** rng.integers(1, 9))))
    head, part, tail = content[:start], content[start:stop], content[stop:]
    match rng.integers(8):
        case 0 | 1:
            return head + bytes([content[start] ^ 1 << int(rng.integers(8))]) + content[start + 1 :]
        case 2:
            return head
        case 3:
            return head + tail
        case 4:
            return head + part + part + tail
        case 5:
            return head + bytes(len(part)) + tail
        case 6:
            return head + rng.bytes(len(part)) + tail
        case _:
            return content[other:] + content[start:other] + head


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "n",
    [5, pytest.param(9100, marks=(pytest.mark.slow, pytest.mark.nightly))],
)
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files(name: str, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda file: None)
    monkeypatch.setattr("aucpr_dask.scores.importing.arrays.PATIENCE", 5.0)
    monkeypatch.chdir(tmp_path)
    write, read, is_sealed = FORMATS[name]
    place, out = Path(name), Path("out.zarr")
    write(place)
    expected = read(place, out)
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    rng = np.random.default_rng(n + sum(map(ord, name)))
    refusals = []
    for number in range(n if name != "4.nc" else n // 5):  # which starts a process each time
        file = files[rng.integers(len(files))]
        content = file.read_bytes()
        while is_whole(new := damaged(content, rng)) and new != content:
            pass
        file.write_bytes(new)
        shutil.rmtree(out, ignore_errors=True)
        started = time.monotonic()
        try:
            with dask.config.set(scheduler="sync"):
                found = read(place, out)
            assert not is_sealed or found.identical(expected), f"{file}, {number}: {found}"
        except AucprError as error:
            refusals.append(str(error))
        assert time.monotonic() - started < 30, f"{file}, {number}"
        file.write_bytes(content)
    assert len(refusals) > number / 3
    unnamed = [refusal for refusal in refusals if name not in refusal]
    assert not (is_sealed and unnamed), unnamed  # in others, what is read may be sound, but no data set


@pytest.mark.parametrize(
    ("walk", "said"), [("while True: pass", "took more than 1 s"), ("import os; os.abort()", "signal 6")]
)
def test_hdf5_that_never_ends_is_refused(walk: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FORMATS["4.nc"][0](tmp_path / "4.nc")
    monkeypatch.setattr("aucpr_dask.scores.importing.arrays._WALK", walk)
    monkeypatch.setattr("aucpr_dask.scores.importing.arrays.PATIENCE", 1.0)
    with pytest.raises(FileFormatError, match=rf"(?s)corrupt or truncated.*4\.nc.*{said}"):
        import_xarray(tmp_path / "4.nc", tmp_path / "scores.zarr")
