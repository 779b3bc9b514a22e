"""Average precision in one pass: the same bits in any order, exact or certified, in bounded memory."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import reduce
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from conftest import Exported, few
from hypothesis import given
from hypothesis import strategies as st
from strategies import Case, cases

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError, MissingScoresError
from aucpr_dask.kernels.binned_scores import LEAST_MEMORY, FixedBins, bound_area, keys_of
from aucpr_dask.metrics.accumulating import BINS, AreaBounds

SMALL = LEAST_MEMORY  # room for 20,480 bins
kinds = pytest.mark.parametrize("bins", BINS)
seeds = st.integers(0, 2**32)
Items = tuple[np.ndarray, np.ndarray]


def drawn(seed: int, n_items: int = 25_000) -> Items:
    """Draw scores of a random scale, of which some tie, and labels."""
    random = np.random.default_rng(seed)
    label = (random.random(n_items) < random.choice([0.01, 0.5])).astype(np.int8)
    score = random.normal(size=n_items) + label
    score[random.random(n_items) < 0.1] = random.choice([0.0, 0.37, 1.0])
    return (score * 10.0 ** random.integers(-15, 15)).astype(random.choice([np.float32, np.float64])), label


def counted(bins: str, items: Items, memory: int = SMALL) -> ap.Accumulator:
    return ap.Accumulator(bins, memory=memory).update(*items)


def has_no_room(total: ap.Accumulator) -> bool:
    bounds = total.compute()
    return bounds.lower < bounds.upper


# Order


@kinds
@few
@given(st.data(), seeds)
def test_the_order_of_items_and_merges_leaves_no_trace(bins: str, data: st.DataObject, seed: int) -> None:
    score, label = drawn(seed)
    random = np.random.default_rng(data.draw(seeds))
    order = random.permutation(score.size)
    edges = np.sort(random.integers(0, score.size, data.draw(st.integers(0, 6))))
    parts = [counted(bins, (score[places], label[places])) for places in np.split(order, edges)]
    while len(parts) > 1:
        first, second = (parts.pop(data.draw(st.integers(0, len(parts) - 1))) for _ in range(2))
        before = pickle.dumps(second)
        parts.append(pickle.loads(pickle.dumps(first)).merge(second))
        assert pickle.dumps(second) == before
    assert pickle.dumps(parts[0]) == pickle.dumps(counted(bins, (score, label)))
    assert parts[0].compute() == counted(bins, (score, label)).compute()


@few
@given(seeds)
def test_bins_are_as_narrow_as_the_memory_allows(seed: int) -> None:
    score, label = drawn(seed)
    adaptive = counted("adaptive", (score, label))._bins
    adaptive.tallies()
    keys = keys_of(score)
    assert np.unique(keys >> np.uint64(adaptive.level)).size <= 20_480
    assert adaptive.level == 0 or np.unique(keys >> np.uint64(adaptive.level - 1)).size > 20_480


def test_merging_with_itself_counts_twice() -> None:
    for bins in BINS:
        total = counted(bins, ([0.9, 0.8, 0.3], [1, 0, 1]))
        assert total.merge(total).compute() == counted(bins, ([0.9, 0.8, 0.3] * 2, [1, 0, 1] * 2)).compute()


# Numbers


@pytest.mark.smoke
@given(cases(labels=(-2, -1, 0, 1), max_models=1))
def test_the_area_is_exact_while_distinct_scores_fit(case: Case) -> None:
    score, label = case.score[0], case.label
    expected = float(ap.estimate(score, label))
    found = counted("adaptive", (score, label)).compute()
    np.testing.assert_array_equal([found.lower, found.upper], expected)
    assert (found.n_positive, found.n_negative) == ((label == 1).sum(), ((label == 0) | (label == -1)).sum())
    fixed = counted("fixed", (score, label)).compute()
    assert np.isnan(expected) or fixed.lower <= expected <= fixed.upper


@kinds
@few
@given(seeds)
def test_the_area_is_between_the_bounds(bins: str, seed: int) -> None:
    score, label = drawn(seed)
    found = counted(bins, (score, label)).compute()
    assert found.lower <= ap.estimate(score, label) <= found.upper


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=40), st.integers(1, 12))
def test_no_order_within_bins_leaves_the_bounds(items: list[tuple[int, bool]], width: int) -> None:
    if not any(positive for _, positive in items):
        return
    found = [score // width for score, _ in items]
    counts = np.zeros((2, 31), np.int64)
    for its_bin, (_, positive) in zip(found, items, strict=True):
        counts[int(positive), its_bin] += 1
    distinct = [len({score for score, _ in items if score // width == b}) for b in range(31)]
    lower, upper = bound_area(counts[1], counts[0], np.array(distinct) <= 1)
    area = Fraction(0)
    for score, positive in items:
        above = [other for value, other in items if value >= score]
        area += Fraction(sum(above), len(above)) if positive else 0
    area /= sum(positive for _, positive in items)
    assert Fraction(lower) <= area <= Fraction(upper) or lower == upper == pytest.approx(float(area), abs=1e-15)


def test_ties_are_known_in_bins_of_many_scores() -> None:
    """A third of the items have one score, and the others far more than there are bins."""
    random = np.random.default_rng(0)
    score, label = random.random(90_000), (random.random(90_000) < 0.5).astype(np.int8)
    score[::3] = 1.0
    found = counted("adaptive", (score, label)).compute()
    assert 0 < found.upper - found.lower < 1e-4


def test_fixed_bins_know_ties_of_numbers_with_few_bits() -> None:
    random = np.random.default_rng(0)
    score, label = random.normal(size=5000).astype(np.float16), random.random(5000) < 0.3
    found = counted("fixed", (score, label), 1 << 26).compute()
    assert found.lower == found.upper == ap.estimate(score.astype(np.float32), label)
    ends = [-np.inf, -(2.0**24), -1, -(2.0**-40), -5e-324, -0.0, 0.0, 5e-324, 2.0**-40, 1, 2.0**24, np.inf]
    bins = FixedBins(SMALL)
    bins.count(np.array(ends), np.zeros(len(ends), np.bool_))
    negatives, _, inside = bins.counts.reshape(3, -1)
    assert np.flatnonzero(negatives).size == 8
    assert negatives[bins.n_bins // 2] == 3, "0, -0 and what is barely positive"
    assert inside.sum() == 4, "infinities, and the smallest numbers"


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "memory"), [("adaptive", 1 << 25), ("fixed", 1 << 26)])
def test_bounds_of_usual_scores_are_close(bins: str, memory: int) -> None:
    random = np.random.default_rng(0)
    label = np.zeros(1_000_000, np.int8)
    label[::100] = 1
    for score in (
        random.normal(1.5 * label),
        random.beta(2 + 3 * label, 5 - 3 * label),
        random.logistic(2.0 * label),
    ):
        found = counted(bins, (score.astype(np.float32), label), memory).compute()
        assert 0 < found.upper - found.lower < 1e-4
        assert found.lower <= ap.estimate(score.astype(np.float32), label) <= found.upper


@kinds
def test_the_state_stays_within_its_memory(bins: str) -> None:
    random = np.random.default_rng(0)
    total = ap.Accumulator(bins, memory=SMALL)
    for scale in 10.0 ** np.arange(-30, 30, 10):
        total.update(scale * random.normal(size=30_000), random.random(30_000) < 0.5)
    state = total.counts if bins == "fixed" else total._bins._in_use()
    assert state.nbytes <= SMALL
    assert len(pickle.dumps(total)) < SMALL + 1000
    assert has_no_room(total)


def test_small_data_take_little_memory() -> None:
    assert len(pickle.dumps(counted("adaptive", ([0.9, 0.1], [1, 0]), 1 << 26))) < 1000


# What is given


@pytest.mark.parametrize(
    "read", [list, np.array, pd.Series, Exported, da.from_array, memoryview, lambda array: array[:, None]]
)
def test_arrays_of_every_kind(read: Any) -> None:
    score, label = np.array([3, 2, 2, 1]), np.array([1, 0, 1, 0])
    area = float(ap.estimate(score, label))
    assert counted("adaptive", (read(score), read(label))).compute() == AreaBounds(area, area, 2, 2)
    assert counted("adaptive", (read(score.astype(np.float16)), read(label == 1))).compute().lower == area


def test_parts_without_items_count_nothing() -> None:
    total = counted("adaptive", ([], [])).update(np.array([np.nan]), [-2])
    assert repr(total) == "Accumulator: average precision undefined (0 items, 0 positives)"
    assert total.merge(ap.Accumulator(memory=SMALL)).compute().n_negative == 0


def test_what_is_printed() -> None:
    assert repr(AreaBounds(0.42134, 0.42134, 10_012, 989_988)) == (
        "average precision 0.421340, exact (1,000,000 items, 10,012 positives)"
    )
    assert (
        repr(AreaBounds(0.4213456, 0.4213461, 1, 1)) == "average precision 0.421345 to 0.421347 (2 items, 1 positives)"
    )


@pytest.mark.parametrize(
    ("score", "label", "what"),
    [
        ([0.1, np.nan], [1, 0], "scores are missing"),
        ([0.1], [1, 0], "inconsistent numbers"),
        ([[0.1, 0.2]], [[1, 0]], "score is not one column"),
        (0.5, 1, "score is not one column"),
        (["a"], [1], "not numbers"),
        ([2**60], [1], "beyond 2"),
        (np.array([0.5], np.longdouble), [1], "float64 holds"),
        ([0.5], [2], "labels outside"),
        ([0.5], [np.nan], "labels outside"),
        ([0.5], ["1"], "labels are not numbers"),
        (object(), [1], "cannot be read|not one column"),
    ],
)
def test_bad_items_are_refused_and_nothing_is_counted(score: Any, label: Any, what: str) -> None:
    total = ap.Accumulator()
    with pytest.raises(InvalidInputError, match=what):
        total.update(score, label)
    assert total.compute().n_negative == 0
    with pytest.raises(MissingScoresError, match="2 NaN of 3 scores"):
        total.update([np.nan, np.nan, 1.0], [0, 1, 1])


def test_bad_options_are_refused() -> None:
    small = ap.Accumulator(memory=SMALL)
    for call, message in (
        *(
            (lambda memory=memory: ap.Accumulator(memory=memory), "memory")
            for memory in (1000, 1e8, "64 MiB", True, 2**50)
        ),
        (lambda: ap.Accumulator("adaptiv"), "did you mean 'adaptive'"),
        (lambda: ap.Accumulator().merge(small), "same options"),
        (lambda: ap.Accumulator().merge(3), "cannot be merged"),
        (lambda: small.counts, "do not add up"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            call()


# Several processes


def test_counts_in_fixed_bins_add_up() -> None:
    parts = [counted("fixed", drawn(seed)) for seed in range(3)]
    total = ap.Accumulator("fixed", memory=SMALL)
    total.counts[:] = sum(part.counts for part in parts)
    assert pickle.dumps(total) == pickle.dumps(reduce(ap.Accumulator.merge, parts))


TWO_PROCESSES = """
import datetime
import sys
import numpy as np
import torch
import torch.distributed as dist
import aucpr_dask as ap

rank, place = int(sys.argv[1]), sys.argv[2]
dist.init_process_group(
    "gloo", init_method=f"file://{place}", rank=rank, world_size=2, timeout=datetime.timedelta(minutes=2)
)
random = np.random.default_rng(0)
label = torch.from_numpy((random.random(50_000) < 0.1).astype(np.int8))
score = torch.from_numpy(random.normal(size=50_000)) + label
mine = slice(0, 10_000) if rank == 0 else slice(10_000, None)

fixed = ap.Accumulator("fixed", memory=2**20).update(score[mine], label[mine])
dist.all_reduce(torch.from_numpy(fixed.counts))
assert np.array_equal(fixed.counts, ap.Accumulator("fixed", memory=2**20).update(score, label).counts)

parts = [None, None]
dist.all_gather_object(parts, ap.Accumulator().update(score[mine], label[mine]))
together = parts[0].merge(parts[1]).compute()
assert together.lower == together.upper == float(ap.estimate(score.numpy(), label.numpy()))

dist.destroy_process_group()
"""


def test_threads_take_turns() -> None:
    parts = [drawn(seed, 1000) for seed in range(400)]
    shared = ap.Accumulator(memory=SMALL)  # so small that bins are joined again and again
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: shared.update(*part), parts))
        others = [counted("adaptive", part) for part in parts[:8]]
        list(pool.map(shared.merge, others))
        list(pool.map(others[0].merge, [others[1], others[0]]))
    alone = ap.Accumulator(memory=SMALL)
    for part in (*parts, *parts[:8]):
        alone.update(*part)
    assert shared.compute() == alone.compute()


@pytest.mark.needs("torch")
def test_two_processes_of_torch(tmp_path: Any) -> None:
    command = [sys.executable, "-W", "ignore", "-c", TWO_PROCESSES]
    with (
        subprocess.Popen([*command, "0", tmp_path / "meeting"], stderr=subprocess.PIPE) as first,
        subprocess.Popen([*command, "1", tmp_path / "meeting"], stderr=subprocess.PIPE) as second,
    ):
        errors = [process.communicate()[1].decode() for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], "\n".join(errors)
