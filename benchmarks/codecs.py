"""How scores are best stored: ``python -m benchmarks.codecs [--store URL] [--page FILE] [--json FILE] [--small]``.

The same scores are written with every codec, and in chunks of several shapes, and read as a run reads them: one block
after another through zarr. Reading is told as processor time, which does not depend on who else uses the machine; the
files are in the operating system's cache. What a disk or a network adds is their bytes over its bandwidth.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.marked import fill_mark, text_table

MARK = "codecs"
ZARRS_DEFAULT = "zstd, Zarr's default level"
OURS = "blosc: lz4, bits shuffled"  # what `ap.save_scores` writes
LINES = {"cache": float("inf"), "1000 MB/s": 1e9, "100 MB/s": 1e8}  # bytes per second
Shape = tuple[int, ...]


@dataclass
class Written:
    """Scores on disk, in one way: bytes; and of each round, seconds of processor time."""

    data: str
    way: str
    n_scores: int
    n_bytes: int = 0
    n_files: int = 0
    write: float = 0.0
    reads: list[float] = field(default_factory=list)
    reads_one: list[float] = field(default_factory=list)

    @property
    def bytes_per_score(self) -> float:
        """The bytes on disk."""
        return self.n_bytes / self.n_scores

    @property
    def read(self) -> float:
        """The least processor time of reading one score, in nanoseconds."""
        return min(self.reads) / self.n_scores * 1e9

    def through(self, bytes_per_second: float) -> float:
        """Return nanoseconds for each score, its bytes fetched before they are decoded."""
        return self.read + self.bytes_per_score / bytes_per_second * 1e9


def codecs() -> dict[str, Any]:
    """Return what the specification of Zarr v3 and its registered extensions offer for numbers, by name."""
    from zarr.codecs import BloscCodec, ZstdCodec

    def blosc(cname: str, clevel: int, shuffle: str) -> Any:
        return BloscCodec(cname=cname, clevel=clevel, shuffle=shuffle)  # zarr fills in the size of a number

    return {
        "none": None,
        ZARRS_DEFAULT: ZstdCodec(level=0),
        "zstd 1": ZstdCodec(level=1),
        "blosc: lz4": blosc("lz4", 5, "noshuffle"),
        "blosc: lz4, bytes shuffled": blosc("lz4", 5, "shuffle"),
        OURS: blosc("lz4", 5, "bitshuffle"),
        "blosc: zstd 1": blosc("zstd", 1, "noshuffle"),
        "blosc: zstd 1, bytes shuffled": blosc("zstd", 1, "shuffle"),
        "blosc: zstd 1, bits shuffled": blosc("zstd", 1, "bitshuffle"),
        "blosc: zstd 3, bytes shuffled": blosc("zstd", 3, "shuffle"),
        "blosc: zstd 5, bytes shuffled": blosc("zstd", 5, "shuffle"),
    }


def drawn(n_models: int, n_items: int) -> dict[str, np.ndarray]:
    """Return scores of several kinds, (model, item), float32 unless they say otherwise."""
    random = np.random.default_rng(27)
    normal = random.standard_normal((n_models, n_items), dtype=np.float32)
    return {
        "normal": normal,
        "probabilities": (1 / (1 + np.exp(4 - 3 * normal))).astype(np.float32),
        "votes of 500": (random.binomial(500, random.beta(0.3, 3, normal.shape)) / 500).astype(np.float32),
        "sorted": np.sort(normal, axis=1)[:, ::-1].copy(),
        "float64": random.standard_normal(normal.shape),
        "float32 as float64": normal.astype(np.float64),
    }


def stored(url: str) -> dict[str, np.ndarray]:
    """Return the scores of a score store, data sets named by their paths; models are the first axis."""
    import aucpr_dask as ap
    from aucpr_dask.storage.stores import nodes_of

    return {path or Path(url).stem: dataset["score"].values for path, dataset in nodes_of(ap.open_scores(url))}


def try_codecs(name: str, score: np.ndarray, rounds: int, folder: Path) -> list[Written]:
    """Write scores with every codec, in chunks as `ap.save_scores` makes them, and read them in turns."""
    from aucpr_dask.storage.stores import chunk_shape

    chunks = chunk_shape(score.shape, score.itemsize, whole=1)
    score = score[: len(score) // chunks[0] * chunks[0]]  # whole chunks: what the last lacks would be stored, too
    ways = {codec: {"chunks": chunks, "compressors": made} for codec, made in codecs().items()}
    return _try(name, score, ways, rounds, folder)


def try_shapes(score: np.ndarray, rounds: int, folder: Path) -> list[Written]:
    """Write scores in chunks of several shapes, all with the same codec, and read them in turns."""
    n_models, n_items = score.shape
    codec = codecs()[OURS]
    most = min(83, n_models)
    shapes: dict[str, dict[str, Any]] = {
        f"{n} model{'s' * (n > 1)}": {"chunks": (n, n_items)}
        for n in sorted({1, min(10, n_models), most, min(500, n_models)})
    }
    for n in sorted({1, min(10, n_models)}):
        whole = most // n * n
        shapes[f"{n} model{'s' * (n > 1)}, in shards of {whole}"] = {"chunks": (n, n_items), "shards": (whole, n_items)}
    shapes["all models, part of the items"] = {"chunks": (n_models, max(1, n_items * most // n_models))}
    ways = {way: {"compressors": codec, **shape} for way, shape in shapes.items()}
    return _try("normal", score, ways, rounds, folder, step=most)


def _try(
    name: str, score: np.ndarray, ways: dict[str, dict[str, Any]], rounds: int, folder: Path, step: int | None = None
) -> list[Written]:
    written = [_write(name, way, score, options, folder) for way, options in ways.items()]
    places = [folder / f"{name}-{way}".replace("/", "-") for way in ways]
    step = step or next(iter(ways.values()))["chunks"][0]
    for turn in range(rounds + 1):
        for one, place in zip(written, places, strict=True):
            seconds, seconds_of_one = _read(place, score, step, check=turn == 0)
            if turn:  # the first brings files into the cache, and compares
                one.reads.append(seconds)
                one.reads_one.append(seconds_of_one)
    return written


def _write(name: str, way: str, score: np.ndarray, options: dict[str, Any], folder: Path) -> Written:
    import zarr

    place = folder / f"{name}-{way}".replace("/", "-")
    array = zarr.create_array(place, shape=score.shape, dtype=score.dtype, fill_value=np.nan, **options)
    begun = time.process_time()
    step = (options.get("shards") or options["chunks"])[0]
    for start in range(0, len(score), step):
        array[start : start + step] = score[start : start + step]
    seconds = time.process_time() - begun
    files = [path for path in place.rglob("*") if path.is_file()]
    return Written(name, way, score.size, sum(path.stat().st_size for path in files), len(files), seconds)


def _read(place: Path, score: np.ndarray, step: int, *, check: bool) -> tuple[float, float]:
    """Return the processor time of reading all, block by block as a run does, and that of reading one model."""
    import zarr

    array: Any = zarr.open_array(place, mode="r")
    begun = time.process_time()
    for start in range(0, len(score), step):
        block = array[start : start + step]
        if check and not np.array_equal(block, score[start : start + step], equal_nan=True):
            raise RuntimeError(f"{place}: what was read is not what was written")
    between = time.process_time()
    array[len(score) // 2]
    return between - begun, time.process_time() - between


# Reporting


def codec_table(written: list[Written]) -> str:
    """Return a table of all codecs, the best through each line in bold."""
    header = [
        "",
        "bytes per score",
        "write, ns",
        "read, ns",
        *(f"{line}, ns" for line in list(LINES)[1:]),
        "pays below",
    ]
    rows = []
    for one in written:
        rows.append(
            [
                one.way,
                f"{one.bytes_per_score:.2f}",
                f"{one.write / one.n_scores * 1e9:.2f}",
                *(_bold(f"{one.through(line):.2f}", one is _best(written, line)) for line in LINES.values()),
                _break_even(one, written[0]),
            ]
        )
    return text_table(header, rows)


def shape_table(written: list[Written]) -> str:
    """Return a table of all chunk shapes."""
    header = ["one chunk", "files", "MiB of a file", "read all, ns per score", "read one model, ms"]
    rows = [
        [
            one.way,
            str(one.n_files - 1),
            f"{one.n_bytes / max(1, one.n_files - 1) / 2**20:.2f}",
            f"{one.read:.2f}",
            f"{min(one.reads_one) * 1e3:.2f}",
        ]
        for one in written
    ]
    return text_table(header, rows)


def _best(written: list[Written], bytes_per_second: float) -> Written:
    return min(written, key=lambda one: one.through(bytes_per_second))


def _break_even(one: Written, plain: Written) -> str:
    """Return the bandwidth below which a codec is faster than none."""
    saved, spent = plain.bytes_per_score - one.bytes_per_score, one.read - plain.read
    if one is plain:
        return ""
    if saved <= 0:
        return "never" if spent >= 0 else "any"
    return "any" if spent <= 0 else f"{saved / spent * 1e3:,.0f} MB/s"


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def report(by_data: dict[str, list[Written]], shapes: list[Written], machine: dict[str, str], rounds: int) -> str:
    """Return all tables."""
    parts = [f"**{name}**, {ways[0].n_scores:,} scores\n\n{codec_table(ways)}" for name, ways in by_data.items()]
    parts.append(f"**Chunks of several shapes**, {shapes[0].n_scores:,} normal scores, {OURS}\n\n{shape_table(shapes)}")
    spread = statistics.median(max(one.reads) / min(one.reads) for ways in (*by_data.values(), shapes) for one in ways)
    facts = {"rounds": f"{rounds}, least of each; slowest / fastest {spread:.2f} in the median"} | machine
    return "\n\n".join([*parts, "\n".join(f"* {what}: {value}" for what, value in facts.items())])


def main() -> int:
    """Measure and report."""
    options = _parse()
    machine = describe_machine()
    n_models, n_items = (6, 300) if options.small else (166, 100_000)
    by_data: dict[str, list[Written]] = {}
    for name, score in _data(options.store, n_models, n_items):
        with tempfile.TemporaryDirectory(prefix="codecs-") as folder:
            by_data[name] = try_codecs(name.replace("/", " "), score, options.rounds, Path(folder))
    with tempfile.TemporaryDirectory(prefix="codecs-") as folder:
        normal = drawn(6 if options.small else 500, n_items)["normal"]
        shapes = try_shapes(normal, options.rounds, Path(folder))
    text = report(by_data, shapes, machine, options.rounds)
    print(text)
    if options.json:
        figures = {name: [dataclasses.asdict(one) for one in ways] for name, ways in by_data.items()}
        figures["chunk shapes"] = [dataclasses.asdict(one) for one in shapes]
        Path(options.json).write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")
    if options.page:
        fill_mark(Path(options.page), MARK, text)
    return 0


def _data(store: list[str], n_models: int, n_items: int) -> Iterator[tuple[str, np.ndarray]]:
    yield from drawn(n_models, n_items).items()
    for url in store:
        yield from stored(url).items()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codecs", description="How scores are best stored.")
    parser.add_argument(
        "--store", metavar="URL", action="append", default=[], help="also the scores of this score store"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is read (default 5)")
    parser.add_argument("--small", action="store_true", help="tiny arrays: checks that everything runs")
    parser.add_argument("--json", metavar="FILE", help="write every figure here")
    parser.add_argument("--page", metavar="FILE", help="put the tables between the marks of this page")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
