"""Ideas for the kernels of one ranking, beside what the package does: ``python -m benchmarks.ideas.one_ranking``.

Every way of an experiment computes the same numbers, which is checked; then all run in turns, and the least thread time
of each counts. What the numbers decided is told in docs/ideas-tried.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from aucpr_dask.kernels.areas import rows
from aucpr_dask.kernels.rankings.keys import PLACE
from aucpr_dask.kernels.rankings.tie_groups import (
    SEGMENT,
    Blocks,
    GapTable,
    blocks_by_merging,
    bucket_of,
    bucket_scale,
    buckets_for,
    count_in_gaps,
    distinct,
    fill_buckets,
    new_segment,
)
from benchmarks.candidates import by_radix_sort
from benchmarks.rankings import draw_ranking

Call = Callable[[], Any]
compiled: Any = njit(nogil=True, error_model="numpy")


@dataclass(frozen=True)
class Experiment:
    """Ways of doing one thing; the first is the package's, or what it replaced."""

    name: str
    calls: dict[str, Call]
    agree: bool = True


# Negatives into gaps


@compiled
def n_buckets_for(positive: Any) -> int:
    """Return the package's number of buckets."""
    return buckets_for(positive.size)


@compiled
def new_gap_table(positive: Any, n_buckets: int) -> Any:
    """Return a filled table, and what finds a bucket."""
    value = np.empty(positive.size + 1, positive.dtype)
    n_values = distinct(positive, value)
    table = GapTable(
        value,
        np.empty(n_buckets + 1, np.uint32),
        np.zeros(2 * positive.size + 2, np.uint32),
        new_segment(),
        np.empty(SEGMENT, positive.dtype),
    )
    low, scale, last = bucket_scale(value, n_values, n_buckets)
    _, fullest = fill_buckets(table, n_values, n_buckets, low, scale, last)
    return table, n_values, low, scale, last, fullest


@compiled
def as_in_the_package(positive: Any, other: Any, n_buckets: int) -> Any:
    """Set apart the scores that share a bucket with a positive, and compare only them."""
    table, n_values, low, scale, last, fullest = new_gap_table(positive, n_buckets)
    count_in_gaps(other, table, n_values, low, scale, last, fullest)
    return table.tally[: 2 * n_values + 2]


@compiled
def wide_bucket_of(x: Any, low: Any, scale: Any, last: Any) -> Any:
    """Return the bucket by way of float64, to which a whole 0 turns a float32."""
    position = (x - low) * scale
    position = position if position > 0 else last * 0
    position = position if position < last else last
    return np.int32(position)


@compiled
def gathered_and_wide(positive: Any, other: Any, n_buckets: int) -> Any:
    """Take buckets by signed indices from a start, so that vector code gathers, and compare every score in a loop."""
    table, n_values, low, scale, last, _ = new_gap_table(positive, n_buckets)
    value, entry, tally, bucket = table.value, table.entry, table.tally, table.segment.bucket
    for start in range(0, other.size, SEGMENT):
        size = min(SEGMENT, other.size - start)
        for i in range(size):
            bucket[i] = wide_bucket_of(other[start + i], low, scale, last)
        for i in range(size):
            x = other[start + i]
            k = np.uint64(entry[np.uint32(bucket[i])] >> np.uint32(1))
            while value[k] < x:
                k += np.uint64(1)
            tally[np.uint64(2) * k + np.uint64(value[k] == x)] += np.uint32(1)
    return tally[: 2 * n_values + 2]


@compiled
def compared_in_a_loop(positive: Any, other: Any, n_buckets: int) -> Any:
    """Compare every score with the positives of its bucket, in a loop that ends at the first not below it."""
    table, n_values, low, scale, last, _ = new_gap_table(positive, n_buckets)
    value, entry, tally, bucket = table.value, table.entry, table.tally, table.segment.bucket
    for start in range(0, other.size, SEGMENT):
        scores = other[start : start + SEGMENT]
        for i in range(scores.size):
            bucket[i] = bucket_of(scores[i], low, scale, last)
        for i in range(scores.size):
            x = scores[i]
            k = np.uint64(entry[np.uint32(bucket[i])] >> np.uint32(1))
            while value[k] < x:
                k += np.uint64(1)
            tally[np.uint64(2) * k + np.uint64(value[k] == x)] += np.uint32(1)
    return tally[: 2 * n_values + 2]


@compiled
def compared_in_two_steps(positive: Any, other: Any, n_buckets: int) -> Any:
    """Compare every score without branches, whether its bucket holds a positive or not."""
    table, n_values, low, scale, last, _ = new_gap_table(positive, n_buckets)
    value, entry, tally, bucket = table.value, table.entry, table.tally, table.segment.bucket
    for start in range(0, other.size, SEGMENT):
        scores = other[start : start + SEGMENT]
        for i in range(scores.size):
            bucket[i] = bucket_of(scores[i], low, scale, last)
        for i in range(scores.size):
            x = scores[i]
            k = np.uint64(entry[np.uint32(bucket[i])] >> np.uint32(1))
            k += np.uint64(value[k] < x)
            k += np.uint64(value[k] < x)
            while value[k] < x:
                k += np.uint64(1)
            tally[np.uint64(2) * k + np.uint64(value[k] == x)] += np.uint32(1)
    return tally[: 2 * n_values + 2]


@compiled
def four_tallies(positive: Any, other: Any, n_buckets: int) -> Any:
    """Count neighbours in different tallies, so that no count waits for the one before."""
    table, n_values, low, scale, last, _ = new_gap_table(positive, n_buckets)
    value, entry, bucket = table.value, table.entry, table.segment.bucket
    tally = np.zeros((4, 2 * n_values + 2), np.uint32)
    for start in range(0, other.size, SEGMENT):
        scores = other[start : start + SEGMENT]
        for i in range(scores.size):
            bucket[i] = bucket_of(scores[i], low, scale, last)
        for i in range(scores.size):
            x = scores[i]
            k = np.uint64(entry[np.uint32(bucket[i])] >> np.uint32(1))
            k += np.uint64(value[k] < x)
            k += np.uint64(value[k] < x)
            while value[k] < x:
                k += np.uint64(1)
            tally[np.uint64(i) & np.uint64(3), np.uint64(2) * k + np.uint64(value[k] == x)] += np.uint32(1)
    return tally[0] + tally[1] + tally[2] + tally[3]


def gaps(n_items: int) -> Iterator[Experiment]:
    """Count negatives in gaps: how a bucket is found, how scores are compared, how many buckets there are."""
    ways = (gathered_and_wide, compared_in_a_loop, compared_in_two_steps, as_in_the_package)
    for share in (0.001, 0.01, 0.03):
        positive, negative = classes(n_items, share)
        n = n_buckets_for(positive)
        yield Experiment(
            f"gaps, {share:.1%} positive", {way.__name__: bound(way, positive, negative, n) for way in ways}
        )
        sizes = {f"{times} buckets per positive": times * positive.size for times in (16, 2, 4, 8, 32, 64)}
        yield Experiment(
            f"table, {share:.1%} positive",
            {name: bound(as_in_the_package, positive, negative, n) for name, n in sizes.items()},
        )
    for apart in (1, 4):
        positive, negative = classes(n_items, 0.0001, apart)
        n = n_buckets_for(positive)
        ways = (as_in_the_package, compared_in_two_steps)
        yield Experiment(
            f"below the lowest positive, {apart} standard deviations apart",
            {way.__name__: bound(way, positive, negative, n) for way in ways},
        )
    positive, negative = classes(n_items, 10 / n_items)
    n = n_buckets_for(positive)
    yield Experiment(
        "ten positives",
        {way.__name__: bound(way, positive, negative, n) for way in (as_in_the_package, four_tallies)},
    )


# Both classes sorted


@compiled
def by_a_chain(positive: Any, negative: Any, at: Any) -> int:
    """Merge without branches: each step takes from one class, which one is added to a place."""
    i, j, n = positive.size - 1, negative.size - 1, 0
    while i >= 0 and j >= 0:
        from_negative = negative[j] >= positive[i]
        at[n] = negative.size - 1 - j
        j -= from_negative
        i -= not from_negative
        n += not from_negative
    while i >= 0:
        at[n] = negative.size
        n += 1
        i -= 1
    return n


@compiled
def by_branches(positive: Any, negative: Any, at: Any) -> int:
    """Merge by loops over the items of a class between two of the other."""
    unused = np.empty(positive.size)
    blocks = Blocks(np.empty(positive.size), unused, at)
    return blocks_by_merging(positive, negative, blocks)


def sorts(n_items: int) -> Iterator[Experiment]:
    """Sort both classes and merge them, or all items as whole numbers that carry the label."""
    for share in (0.05, 0.1, 0.5):
        score, label = draw_ranking(n_items, share)
        positive, negative = (np.sort(part) for part in (score[label > 0], score[label == 0]))
        at = np.empty(positive.size)
        yield Experiment(
            f"merge alone, {share:.0%} positive",
            {way.__name__: bound(way, positive, negative, at) for way in (by_branches, by_a_chain)},
            agree=False,  # tied positives are one block, or several
        )
        yield Experiment(
            f"average precision, {share:.0%} positive",
            {
                "keys with the label": bound(average_precision, score, label, _pack=rows._pack, FEW_POSITIVES=0.0),
                "both classes, merged": bound(average_precision, score, label, _pack=never, FEW_POSITIVES=0.0),
                "gaps": bound(average_precision, score, label, FEW_POSITIVES=1.0),
                "radix sort of keys": bound(by_radix_sort, score, label),
            },
        )
    bits = score.view(np.uint32)
    yield Experiment(
        "sorting alone",
        {
            "np.sort of float32": bound(np.sort, score),
            "np.sort of uint32": bound(np.sort, bits),
            "np.sort of uint64": bound(np.sort, bits.astype(np.uint64)),
        },
        agree=False,
    )


def never(*arguments: Any) -> int:
    """Refuse every ranking."""
    return -1


def average_precision(score: Any, label: Any, **constants: Any) -> float:
    """Call the package, some constants of its choice between ways set."""
    import aucpr_dask as ap

    before = {name: getattr(rows, name) for name in constants}
    try:
        for name, value in constants.items():
            setattr(rows, name, value)
        return float(ap.estimate(score, label))
    finally:
        for name, value in before.items():
            setattr(rows, name, value)


# Weights


@compiled
def gathered(keys: Any, weight: Any, out: Any) -> None:
    """Fetch weights by the places that sorted keys hold."""
    for i in range(keys.size):
        out[i] = weight[keys[i] & PLACE]


def by_keys(score: Any, weight: Any) -> Any:
    """Sort numbers of score and place, then fetch the weights."""
    keys = (score.view(np.uint32).astype(np.uint64) << np.uint64(32)) | np.arange(score.size, dtype=np.uint64)
    keys.sort()
    out = np.empty(weight.size)
    gathered(keys, weight, out)
    return out


@compiled
def digits_with_weights(keys: Any, weight: Any, other_keys: Any, other_weight: Any) -> Any:
    """Sort by three digits of 11 bits, the lowest first; the weights travel along."""
    for shift in (0, 11, 22):
        n = np.zeros(2049, np.int64)
        for i in range(keys.size):
            n[((keys[i] >> np.uint32(shift)) & np.uint32(2047)) + 1] += 1
        n = np.cumsum(n)
        for i in range(keys.size):
            digit = (keys[i] >> np.uint32(shift)) & np.uint32(2047)
            other_keys[n[digit]] = keys[i]
            other_weight[n[digit]] = weight[i]
            n[digit] += 1
        keys, other_keys = other_keys, keys
        weight, other_weight = other_weight, weight
    return weight


def by_digits(score: Any, weight: Any) -> Any:
    """Sort scores and weights together by radix."""
    keys = score.view(np.uint32).copy()
    return digits_with_weights(keys, weight.copy(), np.empty_like(keys), np.empty_like(weight))


def by_places(score: Any, weight: Any) -> Any:
    """Find the order of the scores, then fetch the weights."""
    return weight[np.argsort(score, kind="stable")]


def weights(n_items: int) -> Iterator[Experiment]:
    """Bring weights into the order of scores."""
    score, _ = draw_ranking(n_items, 0.5)
    weight = np.random.default_rng(23).standard_exponential(n_items)
    yield Experiment(
        "weights in order of scores",
        {way.__name__: bound(way, score, weight) for way in (by_keys, by_digits, by_places)},
    )


# Running


def classes(n_items: int, share: float, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of positives, sorted, and of negatives."""
    random = np.random.default_rng(20)
    n_positive = max(1, round(share * n_items))
    positive = np.sort(random.standard_normal(n_positive, np.float32) + np.float32(apart))
    return positive, random.standard_normal(n_items - n_positive, np.float32)


def bound(way: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    """Return a call without arguments."""
    return lambda: way(*arguments, **options)


def least_times(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Return the least thread time of each call, all called in turns."""
    least = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            least[name] = min(least[name], time.thread_time() - start)
    return least


def run(experiment: Experiment, rounds: int) -> list[str]:
    """Check that the ways agree, time them, and return what to print."""
    results = [call() for call in experiment.calls.values()]
    if experiment.agree and not all(np.allclose(result, results[0], rtol=1e-12, atol=0) for result in results):
        raise ValueError(f"{experiment.name}: the ways differ")
    times = least_times(experiment.calls, rounds)
    first = next(iter(times.values()))
    return [experiment.name] + [f"  {1e3 * t:9.3f} ms  {t / first:6.2f}  {name}" for name, t in times.items()]


def experiments(n_items: int) -> Iterator[Experiment]:
    """Yield all experiments, each with its inputs drawn."""
    yield from gaps(n_items)
    yield from sorts(n_items)
    yield from weights(n_items)


def main() -> None:
    """Run all experiments."""
    parser = argparse.ArgumentParser(description="Time ideas for one ranking.")
    parser.add_argument("--items", type=int, default=1_000_000, help="items of a ranking (default 1,000,000)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each way is timed (default 9)")
    options = parser.parse_args()
    for experiment in experiments(options.items):
        print("\n".join(run(experiment, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
