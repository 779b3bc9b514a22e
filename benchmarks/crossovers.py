"""Where one way of computing overtakes another, beside where the code changes from one to the other.

``python -m benchmarks.crossovers [--only WORDS] [--rounds N] [--small] [--json FILE] [--markdown FILE]``

Each way is forced by setting the constants that choose it. Ways are timed in turns, in processor time of the thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import aucpr_dask as ap
from aucpr_dask import kernels
from aucpr_dask.kernels.areas import rows
from aucpr_dask.kernels.chunked import rows as chunked_rows
from aucpr_dask.kernels.resampling import rows as resampling
from benchmarks.fits import crossings
from benchmarks.machine import describe_machine, use_one_thread
from benchmarks.variants import CONSTANTS, Constant, seconds_of_variants

SHORTEST_SAMPLE = 0.03
MANY_ITEMS = 2**20  # of all rankings of one call, so that what every call costs does not count
Call = Callable[[], Any]
EVERYTHING, NOTHING = float("inf"), -1.0


@dataclass
class Crossover:
    """Two ways of computing the same, and others for scale; or one way, with more and more of something.

    Parameters
    ----------
    name : str
        What is computed.
    axis : str
        What grows.
    places : sequence of float
        Where on the axis to measure.
    prepare : callable
        Takes a place and returns the calls by name: the first is for small places, the second for large ones, and only
        one of them if the best place is sought.
    used : float
        The place at which the code changes from the first to the second, or that it uses, which is then one of
        `places`; 0 if it never changes.
    constants : str
        Where that is written.
    """

    name: str
    axis: str
    places: Sequence[float]
    prepare: Callable[[Any], dict[str, Call]]
    used: float
    constants: str


@dataclass
class Measured:
    """What was measured of a crossover: seconds of each way at each place in each round."""

    name: str
    axis: str
    constants: str
    used: float
    places: list[float]
    seconds: dict[str, list[list[float]]] = field(default_factory=dict)

    @property
    def ways(self) -> list[str]:
        """The names of the ways."""
        return list(self.seconds)

    def medians(self, way: str) -> list[float]:
        """Return the median time at each place."""
        return [statistics.median(rounds) for rounds in self.seconds[way]]

    def ratios(self) -> list[float]:
        """Return the first way's time relative to the second's at each place: the median over the rounds."""
        first, second = (self.seconds[way] for way in self.ways[:2])
        return [
            statistics.median(a / b for a, b in zip(*pair, strict=True)) for pair in zip(first, second, strict=True)
        ]

    def crossing(self) -> list[float]:
        """Return where the second way overtakes the first one, or is overtaken again."""
        return crossings(self.places, self.ratios())

    def range_of_crossing(self) -> tuple[float, float] | None:
        """Return the lowest and the highest place of a crossing in any round; None if some round has none."""
        first, second = (np.array(self.seconds[way]) for way in self.ways[:2])
        found = [crossings(self.places, ratio.tolist()) for ratio in (first / second).T]
        if not all(found):
            return None
        return min(map(min, found)), max(map(max, found))

    def gains(self, other: str) -> list[float]:
        """Return how many times as long as another way the faster of the first two takes at each place."""
        first, second, candidate = (self.medians(way) for way in (*self.ways[:2], other))
        return [min(a, b) / c for a, b, c in zip(first, second, candidate, strict=True)]

    def best(self) -> float:
        """Return the place at which the only way is fastest."""
        medians = self.medians(self.ways[0])
        return self.places[medians.index(min(medians))]

    def loss(self) -> tuple[float, float]:
        """Return how many times as long as the best way the code takes at worst, and at which place."""
        if len(self.ways) == 1:
            medians = self.medians(self.ways[0])
            return medians[self.places.index(self.used)] / min(medians), self.used
        losses = [
            (max(1.0, ratio if place <= self.used else 1 / ratio), place)
            for place, ratio in zip(self.places, self.ratios(), strict=True)
        ]
        return max(losses)


def measure(crossover: Crossover, rounds: int) -> Measured:
    """Time all ways at all places, in turns."""
    places = list(crossover.places)
    measured = Measured(crossover.name, crossover.axis, crossover.constants, crossover.used, places)
    for place in places:
        calls = crossover.prepare(place)
        check_agreement(calls)
        for way, seconds in seconds_in_turns(calls, rounds).items():
            measured.seconds.setdefault(way, []).append(seconds)
    return measured


def measure_compiled(constant: Constant, rounds: int) -> Measured:
    """Time a workload under other values of a constant that is compiled into the kernels."""
    seconds = seconds_of_variants(constant, rounds)
    where = f"{constant.module}.{constant.name}"
    measured = Measured(constant.workload.replace("_", " "), "value", where, constant.used(), [*map(float, seconds)])
    measured.seconds = {"this value": list(seconds.values())}
    return measured


def check_agreement(calls: dict[str, Call]) -> None:
    """Raise if two ways come to different numbers; one that returns None draws its own."""
    numbers = {way: call() for way, call in calls.items()}
    expected = next(iter(numbers.values()))
    for way, found in numbers.items():
        if found is not None and not np.allclose(found, expected, rtol=0, atol=1e-12):
            raise RuntimeError(f"{way} differs by {np.max(np.abs(np.subtract(found, expected))):.1e}")


def seconds_in_turns(
    calls: dict[str, Call], rounds: int, clock: Callable[[], float] = time.thread_time
) -> dict[str, list[float]]:
    """Return the seconds of every call in every round, one call after another in each."""
    repeats = {way: max(1, round(SHORTEST_SAMPLE / max(_once(call, 1, clock), 1e-6))) for way, call in calls.items()}
    seconds: dict[str, list[float]] = {way: [] for way in calls}
    for _ in range(rounds):
        for way, call in calls.items():
            seconds[way].append(_once(call, repeats[way], clock))
    return seconds


def _once(call: Call, repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


@contextmanager
def constants(module: ModuleType, **values: float) -> Iterator[None]:
    """Set constants of a module for a while; one that is not there is an error."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def forced(module: ModuleType, call: Call, **values: float) -> Call:
    """Return a call that runs under other constants."""

    def run() -> Any:
        with constants(module, **values):
            return call()

    return run


def draw(n_rankings: int, n_items: int, share: float, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Return rankings of random items, positives shifted by 1, and one row of labels with such a share of them."""
    random = np.random.default_rng(31)
    label = np.zeros(n_items, np.int8)
    label[: max(1, round(share * n_items))] = 1
    random.shuffle(label)
    return (random.standard_normal((n_rankings, n_items), dtype=np.float32) + label).astype(dtype), label


def few_positives(n_items: int, dtype: str, *, candidates: bool = True) -> Crossover:
    """Sort the positives and count the others into gaps between them, or sort all items."""

    def prepare(share: float) -> dict[str, Call]:
        score, label = draw(max(1, MANY_ITEMS // n_items), n_items, share, dtype)
        call = partial(ap.estimate, score, label)
        calls = {
            "gaps": forced(rows, call, FEW_POSITIVES=EVERYTHING, TABLE_POSITIVES=EVERYTHING, SHORT=NOTHING),
            "all items sorted": forced(rows, call, FEW_POSITIVES=NOTHING, SHORT=NOTHING),
        }
        if candidates and dtype == "float32":
            from benchmarks.candidates import by_radix_sort, by_sorted_keys

            calls["np.sort of 64-bit keys"] = lambda: [by_sorted_keys(row, label) for row in score]
            calls["radix sort"] = lambda: [by_radix_sort(row, label) for row in score]
        return calls

    return Crossover(
        f"average precision, {dtype}, {n_items:,} items",
        "share of positives",
        (0.003, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.35, 0.5),
        prepare,
        min(rows.FEW_POSITIVES * np.dtype(dtype).itemsize / 4, rows.TABLE_POSITIVES / n_items),
        "rows.FEW_POSITIVES, rows.TABLE_POSITIVES",
    )


def few_distinct(n_items: int) -> Crossover:
    """Sort all items, which is quick if many are tied, or count them into gaps between few positives."""

    def prepare(n_scores: int) -> dict[str, Call]:
        score, label = draw(max(1, MANY_ITEMS // n_items), n_items, 0.01)
        levels = np.floor(n_scores * score.argsort(axis=1).argsort(axis=1) / n_items).astype(np.float32)
        call = partial(ap.estimate, levels, label)
        return {
            "all items sorted": forced(rows, call, FEW_POSITIVES=NOTHING, SHORT=NOTHING),
            "gaps": forced(rows, call, FEW_POSITIVES=EVERYTHING, TABLE_POSITIVES=EVERYTHING, SHORT=NOTHING),
        }

    return Crossover(
        f"average precision, {n_items:,} float32 items, 1 % positive",
        "distinct scores",
        (2, 3, 5, 10, 30, 100, 1000),
        prepare,
        1,
        "rows.FEW_POSITIVES, whatever the ties",
    )


def few_weighted(n_items: int, dtype: str) -> Crossover:
    """Sort the positives and add negatives' weights up in gaps, or sort all items."""

    def prepare(share: float) -> dict[str, Call]:
        score, label = draw(max(1, MANY_ITEMS // 4 // n_items), n_items, share, dtype)
        weight = np.random.default_rng(32).random(n_items) + 0.5
        call = partial(ap.estimate, score, label, weight=weight)
        return {
            "gaps": forced(rows, call, FEW_WEIGHTED=EVERYTHING, SHORT=NOTHING),
            "all items sorted": forced(rows, call, FEW_WEIGHTED=NOTHING, SHORT=NOTHING),
        }

    return Crossover(
        f"weighted average precision, {dtype}, {n_items:,} items",
        "share of positives",
        (0.003, 0.01, 0.03, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7),
        prepare,
        rows.FEW_WEIGHTED * np.dtype(dtype).itemsize / 4,
        "rows.FEW_WEIGHTED",
    )


def short_rankings(share: float) -> Crossover:
    """Loop over rankings in compiled code, or take one after another to sort with NumPy."""

    def prepare(n_items: int) -> dict[str, Call]:
        call = partial(ap.estimate, *draw(max(1, MANY_ITEMS // 4 // n_items), n_items, share))
        return {
            "compiled loop": forced(rows, call, SHORT=EVERYTHING, SHORT_POSITIVES=EVERYTHING),
            "one by one": forced(rows, call, SHORT=NOTHING),
        }

    return Crossover(
        f"average precision, float32, {100 * share:g} % positive",
        "items",
        tuple(2**power for power in range(7, 18)),
        prepare,
        min(rows.SHORT, rows.SHORT_POSITIVES / share),
        "rows.SHORT, rows.SHORT_POSITIVES",
    )


def shared_draws(n_items: int, n_resamples: int) -> Crossover:
    """Resample each model by draws of its own that serve no other, or all by the same multiplicities of items."""

    def prepare(n_models: int) -> dict[str, Call]:
        from benchmarks.candidates import by_chains

        score, label = draw(n_models, n_items, 0.01)
        random = np.random.default_rng(33)

        def chains() -> None:
            for row in score:
                by_chains(row, label, n_resamples, random)

        def replicates(key: np.ndarray) -> None:
            kernels.replicate_rows(
                score,
                (label == 1).astype(float)[None],
                (label == 0).astype(float)[None],
                class_row=np.zeros(n_models, np.int64),
                cluster=None,
                key=key,
                n_unseen=np.zeros(n_models),
                options=kernels.Options(),
                targets=kernels.targets_of([0], [np.nan], (0.0, 1.0)),
                n_resamples=n_resamples,
            )

        keys = np.arange(n_models, dtype=np.uint64)
        return {
            "chains of binomials, own": chains,
            "multiplicities, shared": lambda: replicates(np.zeros_like(keys)),
            "multiplicities, own": lambda: replicates(keys),
        }

    return Crossover(
        f"{n_resamples} replicates, {n_items:,} items, 1 % positive",
        "models",
        (1, 2, 3, 4, 6, 8, 16, 32),
        prepare,
        0,
        "always shared: comparisons are paired",
    )


def counted_chunks(n_items: int) -> Crossover:
    """Count the negatives of a chunk in gaps between the distinct scores of positives, or sort and merge them."""

    def prepare(n_scores: int) -> dict[str, Call]:
        random = np.random.default_rng(34)
        value = np.append(np.sort(random.standard_normal(n_scores, np.float32)), np.float32(np.inf))
        negative = random.standard_normal(n_items, np.float32)

        def call() -> Any:
            return chunked_rows.tally_items(value, negative.copy())

        return {
            "gaps": forced(chunked_rows, call, FEW_SCORES=EVERYTHING),
            "sorted and merged": forced(chunked_rows, call, FEW_SCORES=NOTHING),
        }

    return Crossover(
        f"items in chunks, {n_items:,} float32 negatives",
        "distinct scores of positives",
        tuple(2**power for power in range(8, 21, 2)),
        prepare,
        chunked_rows.FEW_SCORES,
        "chunked_rows.FEW_SCORES",
    )


def converted_at_once(n_items: int) -> Crossover:
    """Convert more and more scores of short rankings at a time."""
    score, label = draw(MANY_ITEMS // n_items, n_items, 0.1)

    def prepare(place: int) -> dict[str, Call]:
        return {"compiled loop": forced(rows, partial(ap.estimate, score, label), CACHE_ITEMS=place)}

    return Crossover(
        f"rankings of {n_items:,} float32 items",
        "scores converted at a time",
        sorted({*(2**power for power in range(10, 21, 2)), rows.CACHE_ITEMS}),
        prepare,
        rows.CACHE_ITEMS,
        "rows.CACHE_ITEMS",
    )


def laid_out_at_once(n_items: int, n_models: int) -> Crossover:
    """Lay out more and more models before multiplicities are drawn for them."""

    def prepare(place: int) -> dict[str, Call]:
        call = shared_draws(n_items, 128).prepare(n_models)["multiplicities, shared"]
        return {"multiplicities, shared": forced(resampling, call, LAYOUT_BYTES=place)}

    return Crossover(
        f"128 replicates of {n_models} models, {n_items:,} items",
        "bytes of layouts",
        sorted({*(2**power for power in range(19, 28, 2)), resampling.LAYOUT_BYTES}),
        prepare,
        resampling.LAYOUT_BYTES,
        "resampling.LAYOUT_BYTES",
    )


def points_at_once(n_items: int) -> Crossover:
    """Hold the operating points of more and more replicates at a time."""
    import xarray as xr

    score, label = draw(1, n_items, 0.2)
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})
    options: dict[str, Any] = {"estimators": "interpolated_median", "intervals": "bootstrap", "n_resamples": 128}

    def prepare(place: int) -> dict[str, Call]:
        def call() -> Any:
            return ap.evaluate(scores, **options)["interval"].values

        return {"lanes": forced(resampling, call, POINT_BYTES=place)}

    return Crossover(
        f"128 replicates of the interpolated median area, {n_items:,} items",
        "bytes of operating points",
        sorted({*(2**power for power in range(18, 28, 2)), resampling.POINT_BYTES}),
        prepare,
        resampling.POINT_BYTES,
        "resampling.POINT_BYTES",
    )


def all_crossovers() -> list[Crossover]:
    """Return every crossover that the code has a constant for, and those of ways that it does not go."""
    return [
        *(few_positives(n, "float32") for n in (10_000, 100_000, 1_000_000)),
        few_positives(10_000_000, "float32", candidates=False),
        *(few_positives(n, "float64") for n in (10_000, 100_000, 1_000_000)),
        few_distinct(100_000),
        *(few_weighted(n, dtype) for dtype in ("float32", "float64") for n in (10_000, 100_000)),
        *(short_rankings(share) for share in (0.01, 0.1, 0.5)),
        counted_chunks(1_000_000),
        converted_at_once(1000),
        *(shared_draws(n, 256) for n in (1000, 10_000, 100_000)),
        laid_out_at_once(10_000, 32),
        points_at_once(20_000),
    ]


def small_crossovers() -> list[Crossover]:
    """Return one of each kind, tiny: checks that everything runs."""
    small = [
        few_positives(5000, "float32"),
        few_distinct(5000),
        few_weighted(5000, "float64"),
        short_rankings(0.1),
        counted_chunks(5000),
        shared_draws(500, 64),
        converted_at_once(100_000),
        laid_out_at_once(500, 2),
        points_at_once(500),
    ]
    for crossover in small:
        second = crossover.used if crossover.used in crossover.places[1:] else crossover.places[1]
        crossover.places = (crossover.places[0], second)
    return small


def said(measured: Measured) -> str:
    """Return what follows, in one sentence."""
    loss, place = measured.loss() if measured.used else (1.0, 0.0)
    costs = f"; at worst {loss:.2f} times the best, at {plain(place)}" if measured.used else ""
    others = "".join(f"; faster than both: {candidate}" for candidate in candidates(measured))
    verb = "" if len(measured.ways) == 1 else f"{measured.ways[1]} faster "
    return f"{verb}{crossed(measured)}; the code: {in_use(measured)}{costs}{others}"


def crossed(measured: Measured) -> str:
    """Return where the second way is faster, or where the only way is fastest."""
    if len(measured.ways) == 1:
        return f"fastest at {plain(measured.best())}"
    found = measured.crossing()
    if not found:
        return "nowhere" if statistics.median(measured.ratios()) < 1 else "everywhere"
    spread = measured.range_of_crossing()
    between = f" ({plain(spread[0])} to {plain(spread[1])})" if spread else ""
    return ("from " if len(found) == 1 else "changing at ") + ", ".join(map(plain, found)) + between


def candidates(measured: Measured) -> Iterator[str]:
    """Yield where each way beyond the first two is faster than both."""
    for way in measured.ways[2:]:
        gains = measured.gains(way)
        passed = crossings(measured.places, gains)
        if not passed:
            where = "everywhere" if gains[0] > 1 else "nowhere"
        elif len(passed) == 1:
            where = f"{'up to' if gains[0] > 1 else 'from'} {plain(passed[0])}"
        else:
            where = (
                f"at {', '.join(plain(place) for place, gain in zip(measured.places, gains, strict=True) if gain > 1)}"
            )
        yield f"{way} {where}"


def in_use(measured: Measured) -> str:
    """Return the place that the code uses, if there is one."""
    return plain(measured.used) if measured.used else measured.constants


def plain(number: float) -> str:
    """Return a number to three digits, powers of two above a thousand as such.

    Examples
    --------
    >>> plain(0.03125), plain(4096), plain(5000)
    ('0.0312', '2^12', '5,000')
    """
    if number >= 1000:
        power = np.log2(number)
        return f"2^{power:.0f}" if power == round(power) else f"{float(f'{number:.3g}'):,.0f}"
    return f"{number:.3g}"


def as_lines(measured: Measured) -> Iterator[str]:
    """Yield a table for the terminal, and what follows."""
    yield f"\n{measured.name}"
    yield f"  {measured.axis:>28}  " + "  ".join(f"{way:>24}" for way in measured.ways)
    for i, place in enumerate(measured.places):
        times = [measured.medians(way)[i] for way in measured.ways]
        cells = [f"{1e3 * seconds:11.4g} ms ({seconds / times[0]:7.3f})" for seconds in times]
        yield f"  {plain(place):>28}  " + "  ".join(f"{cell:>24}" for cell in cells)
    yield f"  -> {said(measured)}"


def as_markdown(all_measured: Sequence[Measured]) -> str:
    """Return one line for each crossover."""
    header = ("what", "ways", "the second is faster", "the code changes at", "at a cost of", "faster than both")
    lines = [header, ["---"] * len(header)]
    for measured in all_measured:
        loss, place = measured.loss() if measured.used else (1.0, 0.0)
        costs = f"{loss:.2f} times, at {plain(place)}" if measured.used else ""
        ways = "; ".join(measured.ways[:2])
        what = f"{measured.axis}: {measured.name}"
        lines.append([what, ways, crossed(measured), in_use(measured), costs, "; ".join(candidates(measured))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def read(path: Path) -> list[Measured]:
    """Return what a file holds; nothing if there is none."""
    records = json.loads(path.read_text(encoding="utf-8"))["crossovers"] if path.exists() else []
    return [Measured(**record) for record in records]


def write(path: Path, measured: Sequence[Measured], machine: dict[str, str]) -> None:
    """Write every timing of every round; other crossovers that the file holds stay."""
    known = {(one.name, one.axis, one.constants): one for one in (*read(path), *measured)}
    records = ",\n".join(json.dumps(asdict(one), ensure_ascii=False) for one in known.values())
    machine_text = json.dumps(machine, ensure_ascii=False)
    path.write_text(f'{{"machine": {machine_text},\n"crossovers": [\n{records}\n]}}\n', encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crossovers", description=__doc__)
    parser.add_argument("--only", metavar="WORDS", default="", help="only those whose names or constants hold these")
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is timed (default 5)")
    parser.add_argument("--small", action="store_true", help="tiny sizes: checks that everything runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every timing of every round here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table of docs/cost-curves.md here")
    parser.add_argument("--compiled", action="store_true", help="also constants that are compiled: takes minutes more")
    options = parser.parse_args(arguments)
    use_one_thread()
    machine = describe_machine()
    print("\n".join(f"{what}: {value}" for what, value in machine.items()))
    all_measured = []
    for measured in _measured(options):
        all_measured.append(measured)
        print("\n".join(as_lines(measured)), flush=True)
        if options.json:  # after every one: a long run that is stopped keeps what it measured
            write(options.json, [measured], machine)
    if options.markdown:
        options.markdown.write_text(as_markdown(all_measured), encoding="utf-8")
    return 0


def _measured(options: argparse.Namespace) -> Iterator[Measured]:
    """Yield what the command line asks for, one after another."""
    for crossover in small_crossovers() if options.small else all_crossovers():
        if options.only in f"{crossover.name} {crossover.axis} {crossover.constants}":
            yield measure(crossover, options.rounds)
    for constant in CONSTANTS if options.compiled else ():
        if options.only in f"{constant.workload} {constant.module}.{constant.name}":
            yield measure_compiled(constant, options.rounds)


if __name__ == "__main__":
    sys.exit(main())
