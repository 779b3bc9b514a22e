"""Replicates: the random numbers, every replicate against its resampled data, and bits that no plan changes."""

import itertools
import math
import tracemalloc
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from conftest import pooled, queried, raise_if_dask_computes
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference_cases import data, oracle
from scipy import stats
from strategies import chunkings, score_values, vectors
from test_estimators import FOLDS

import aucpr_dask as ap
from aucpr_dask.errors import InvalidInputError, MissingScoresError
from aucpr_dask.evaluation.rankings import items_of
from aucpr_dask.evaluation.request import Sampling, stream_key
from aucpr_dask.evaluation.resampled_rankings import replicate_rankings, stratified_folds
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import EvaluationOptions, ResamplingOptions
from aucpr_dask.schema.terms import nodes_of

NEGATIVES, POSITIVES, UNITS = 0, 1, 2
LANES = 64
KEY = 0x0123456789ABCDEF
METHODS = tuple(INTERVALS)

PARAMETRIZED = {name: f"{name}({3 if spec.is_cutoff else 0.5})" for name, spec in ESTIMATORS.items() if spec.parameter}
NAMES = [PARAMETRIZED.get(name, name) for name in ESTIMATORS]
EVERY_POINT = {"interpolated_mean", "interpolated_median", "binormal"}  # the others are laid out at positives only
WEIGHED = [name for name, spec in ESTIMATORS.items() if spec.weights and not spec.needs_items and name != "binormal"]
WEIGHTABLE = [PARAMETRIZED.get(name, name) for name in WEIGHED]
PARTIAL = [name for name in WEIGHED if ESTIMATORS[name].partial]


# Random numbers, by an independent implementation


def philox(counter: Any, key: tuple[int, int]) -> np.ndarray:
    """Philox4x32-10 of counters, shape (4, ...)."""
    x0, x1, x2, x3 = (np.asarray(word, dtype=np.uint64) for word in counter)
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    for turn in range(10):
        k0, k1 = ((word + turn * weyl) % 2**32 for word, weyl in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True))
        a, b = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1, x2, x3 = (b >> half) ^ x1 ^ np.uint64(k0), b & low, (a >> half) ^ x3 ^ np.uint64(k1), a & low
    return np.stack([x0, x1, x2, x3])


def words(key: int, resample: int, stratum: int, first: int) -> np.ndarray:
    """1024 words of 256 counters: their first words, then their second ones, and so on."""
    counter = first + np.arange(256)
    rest = np.full(256, resample), np.full(256, stratum)
    return philox((counter % 2**32, counter >> 32, *rest), (key % 2**32, key >> 32)).ravel()


@cache
def poisson_thresholds(left: Fraction) -> list[int]:
    """Probabilities of a Poisson count below 1, 2, ..., 15, in 2^-40, then 2^40; the mean is 1 - left."""
    mean = 1 - left
    total = sum(mean**k / math.factorial(k) for k in range(60))
    below = [sum(mean**k / math.factorial(k) for k in range(n)) / total for n in range(1, 16)]
    return [math.floor(2**40 * share) for share in below] + [2**40]


@cache
def drawn_together(key: int, block: int, stratum: int, n: int) -> np.ndarray:
    """How often each of n units is drawn in the 64 resamples of a block: Poisson counts, then units one by one."""
    lefts = [Fraction(4 - i % 2, 4 << i // 2) for i in range(50)]
    left = [one for one in lefts if one == 1 or float(one) * math.sqrt(n) >= 2][-1]
    thresholds = np.array(poisson_thresholds(left), np.uint64)
    tiles = [words(key, block, stratum, 256 * tile).astype("<u4") for tile in range(math.ceil(n / 64))]
    first = np.concatenate([tile.view(np.uint8).reshape(4, 16, 64).swapaxes(0, 1).reshape(64, 64) for tile in tiles])[
        :n
    ]
    unsure = np.isin(first, [*np.minimum(thresholds[:4] >> np.uint64(32), 255), 255])
    value = first.astype(np.uint64) << np.uint64(32)
    n_more = math.ceil(unsure.sum() / 1024)
    further = [words(key, block, stratum + 8, 256 * part) for part in range(n_more)]
    value[unsure] += np.concatenate([*further, np.empty(0, np.uint64)])[: unsure.sum()].astype(np.uint64)
    count = np.searchsorted(thresholds, value, side="right")
    lacking, part, used = n - count.sum(axis=0), 0, 1024
    while lacking.any():
        for lane in np.flatnonzero(lacking):
            if used >= 1023:
                rest, part, used = words(key, block, stratum + 16, 256 * part).tolist(), part + 1, 0
            unit, low = divmod(rest[used] * n, 2**32)
            used += 1
            if low < 2**32 % n:
                continue
            if lacking[lane] > 0:
                count[unit, lane] += 1
                lacking[lane] -= 1
            else:
                if rest[used] >> 28 < count[unit, lane]:
                    count[unit, lane] -= 1
                    lacking[lane] += 1
                used += 1
    return count


def drawn(key: int, resample: int, stratum: int, n: int) -> np.ndarray:
    """How often each of n units is drawn in a resample."""
    return drawn_together(key, resample // LANES, stratum, n)[:, resample % LANES]


def multiplicities(
    positive: np.ndarray,
    negative: np.ndarray,
    n_resamples: int,
    key: int = KEY,
    cluster: np.ndarray | None = None,
    n_unseen: int = 0,
) -> np.ndarray:
    """How often each item counts, shape (resamples, items): drawn by class, unless in both classes or in clusters.

    Positives that are no item are drawn with the positives, behind them. From a single cluster nothing is drawn.
    """
    is_item = (positive > 0) | (negative > 0)
    out = np.zeros((n_resamples, positive.size))
    if cluster is not None:
        groups = [(UNITS, is_item, np.unique(cluster[is_item], return_inverse=True)[1])]
        if groups[0][2].max(initial=-1) < 1:
            return np.full(out.shape, np.nan)
    elif ((positive > 0) & (negative > 0)).any():
        groups = [(UNITS, is_item, np.arange(is_item.sum()))]
    else:
        groups = [(s, w > 0, np.arange((w > 0).sum())) for s, w in ((POSITIVES, positive), (NEGATIVES, negative))]
    for stratum, chosen, unit in groups:
        for r in range(n_resamples if unit.size else 0):
            more = n_unseen if stratum == POSITIVES else 0
            out[r, chosen] = drawn(key, r, stratum, int(unit.max()) + 1 + more)[unit]
    return out


@pytest.mark.smoke
def test_known_answers() -> None:
    """The vectors that Random123 publishes for Philox4x32-10."""
    import numba

    from aucpr_dask.kernels.draws import fill_words

    compiled = numba.njit(lambda key, x, y, first, out: fill_words(key, x, y, first, out.size // 4, out))
    digits_of_pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    for counter, key, expected in (
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (*digits_of_pi, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):
        assert " ".join(f"{int(word):08x}" for word in philox(counter, key)) == expected
        out = np.empty(4, np.uint32)
        numbers = key[0] | key[1] << 32, counter[2], counter[3], counter[0] | counter[1] << 32
        compiled(*map(np.uint64, numbers), out)
        assert " ".join(f"{word:08x}" for word in out) == expected


def counts_of(sizes: list[int], strata: list[int], first: int = 0, key: int = KEY) -> np.ndarray:
    from aucpr_dask.kernels.draws import draw_counts

    count = np.full((sum(sizes), LANES), 99, np.uint8)
    draw_counts(np.uint64(key), first, np.array(sizes), np.array(strata), count)
    return count


@pytest.mark.parametrize("first", [0, 64, 6400])
@pytest.mark.parametrize("sizes", [[1, 1], [3, 0], [0, 70], [300, 1025], [1024, 5]])
def test_draws_are_those_of_the_reference(sizes: list[int], first: int) -> None:
    count = counts_of(sizes, [POSITIVES, NEGATIVES], first)
    n = sizes[0]
    assert (count[:n].sum(axis=0) == n).all()
    assert (count[n:].sum(axis=0) == sizes[1]).all()
    for lane in (0, 7, 8, 63):
        for stratum, part in ((POSITIVES, count[:n]), (NEGATIVES, count[n:])):
            if part.size:
                np.testing.assert_array_equal(part[:, lane], drawn(KEY, first + lane, stratum, len(part)))


@pytest.mark.slow
def test_words_that_would_favour_a_unit_are_passed_over() -> None:
    n = 2**32 // 14_000 + 1  # of as many words as possible, one in 14,000 is passed over
    assert 2**32 % n > 0.9 * n
    count = counts_of([n], [UNITS])
    for lane in (1, 62):
        np.testing.assert_array_equal(count[:, lane], drawn(KEY, lane, UNITS, n))


def test_poisson_probabilities_are_those_of_fractions() -> None:
    from aucpr_dask.kernels.draws import LEFT, THRESHOLDS

    for left, thresholds in zip(LEFT, THRESHOLDS.tolist(), strict=True):
        assert thresholds == poisson_thresholds(left)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_every_way_to_draw_is_as_likely_as_it_should_be(n: int) -> None:
    """Of a draw with replacement: n! / (c_1! ... c_n! n^n) for the counts c_i."""
    count = np.concatenate([counts_of([n], [UNITS], first) for first in range(0, 64_000, LANES)], axis=1)
    seen = Counter(map(tuple, count.T.tolist()))
    expected = {
        ways: count.shape[1] * math.factorial(n) / (math.prod(map(math.factorial, ways)) * n**n)
        for drawn_units in itertools.combinations_with_replacement(range(n), n)
        for ways in [tuple(np.bincount(drawn_units, minlength=n).tolist())]
    }
    assert sum(expected.values()) == pytest.approx(count.shape[1])
    assert set(seen) <= set(expected)
    often = [ways for ways in expected if expected[ways] >= 5]
    observed, likely = [seen[ways] for ways in often], [expected[ways] for ways in often]
    rest = count.shape[1] - sum(likely)
    if rest > 1:
        observed, likely = [*observed, count.shape[1] - sum(observed)], [*likely, rest]
    assert 1e-3 < stats.chisquare(observed, np.array(likely) * (sum(observed) / sum(likely))).pvalue < 1 - 1e-3


def test_units_are_equally_likely_and_resamples_independent() -> None:
    n = 50
    count = np.concatenate([counts_of([n], [UNITS], first) for first in range(0, 6400, LANES)], axis=1).astype(float)
    times = count.sum(axis=1)
    assert 1e-3 < stats.chi2.sf((((times - 6400) ** 2) / 6400).sum() * n / (n - 1), n - 1) < 1 - 1e-3
    seen = np.bincount(count.astype(int).ravel(), minlength=6)
    expected = stats.binom.pmf(np.arange(6), n, 1 / n) * count.size
    np.testing.assert_allclose(seen[:6], expected, rtol=0.05, atol=4 * np.sqrt(expected.max()) / 10)
    correlation = np.corrcoef(count)[np.triu_indices(n, 1)]
    np.testing.assert_allclose(correlation.mean(), -1 / (n - 1), atol=5e-3)
    assert abs(correlation).max() < 0.1
    other = counts_of([n, n], [POSITIVES, NEGATIVES])
    assert (other[:n] != other[n:]).any()


# Every replicate is the estimate of its resample

SAMPLING = Sampling()


def replicates(score: np.ndarray, n_resamples: int, estimators: list[str], key: Any = KEY, **given: Any) -> np.ndarray:
    """Call the block function: (..., estimator, resample)."""
    roles = ("label", "weight", "positive_weight", "negative_weight", "tie_order", "n_positive", "cluster")
    arrays = {"score": score} | {name: np.asarray(given.pop(name)) for name in roles if given.get(name) is not None}
    given = {name: value for name, value in given.items() if name not in roles}
    arrays["key"] = np.asarray(key, np.uint64)
    resampling = ResamplingOptions(n_resamples=n_resamples)
    options = EvaluationOptions(estimator=tuple(estimators), resampling=resampling, **given)
    return replicate_rankings(*items_of(arrays, options), arrays, options, SAMPLING)[0]


def assert_close(ours: np.ndarray, theirs: np.ndarray, estimators: list[str], tolerance: float = 1e-12) -> None:
    for column, name in enumerate(estimators):
        np.testing.assert_allclose(
            ours[..., column, :], theirs[..., column, :], rtol=tolerance, atol=tolerance, err_msg=name
        )


@st.composite
def rankings(draw: Any, values: Any = None, missing: bool = True) -> dict[str, Any]:
    """Draw models on shared items and what may come with them."""
    n_items = draw(st.one_of(st.integers(1, 12), st.sampled_from([63, 64, 65, 130])))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    values = score_values(kind) if values is None else values
    if missing:
        values = st.one_of(values, values, st.just(float("nan")))
    score = draw(hnp.arrays(kind, (draw(st.integers(1, 3)), n_items), elements=values))
    label = draw(vectors(n_items, st.sampled_from(draw(st.sampled_from(LABELS))), np.int8))
    return {
        "score": score,
        "label": label,
        "missing": draw(st.sampled_from(["drop", "last", "unretrieved"])),
        "unjudged": draw(st.sampled_from(["negative", "drop"])),
        "n_resamples": draw(st.sampled_from([1, 5, 66])) if n_items < 20 else 3,
    }


LABELS = [(0, 1), (0, 1), (-2, -1, 0, 1), (0,), (1,), (0, 0, 0, 0, 0, 0, 0, 1), (0, 1, 1, 1, 1, 1, 1, 1)]
DYADIC = st.sampled_from([0.0, 0.25, 1.0, 1.0, 3.5])  # so that sums are exact in any order


def classes_of(label: np.ndarray, unjudged: str) -> tuple[np.ndarray, np.ndarray]:
    is_negative = (label == 0) | ((label == -1) & (unjudged == "negative"))
    return (label == 1).astype(float), is_negative.astype(float)


def of_weights(case: dict[str, Any], counts: np.ndarray, estimators: list[str], **given: Any) -> np.ndarray:
    """Estimates with multiplicities as weights, shaped as replicates are."""
    options = {name: case[name] for name in ("missing", "unjudged")} | given
    options["weight"] = (options.get("weight", 1.0) * counts)[:, None]
    return np.moveaxis(ap.estimate(case["score"], case["label"], estimators, **options), 0, -1)


def repeated(case: dict[str, Any], counts: np.ndarray, estimators: list[str], **given: Any) -> np.ndarray:
    """Estimates of the resampled data themselves, each item as often as it was drawn."""
    options = {name: case[name] for name in ("missing", "unjudged")} | given
    size = int(counts.sum(axis=1).max(initial=0))
    score = np.full((len(counts), len(case["score"]), size), 0.0, case["score"].dtype)
    label = np.full((len(counts), 1, size), -2, np.int8)
    for r, count in enumerate(counts.astype(int)):
        item = np.repeat(np.arange(count.size), count)
        score[r, :, : item.size], label[r, 0, : item.size] = case["score"][:, item], case["label"][item]
    return np.moveaxis(ap.estimate(score, label, estimators, **options), 0, -1)


@given(rankings(), st.data())
def test_replicates_are_estimates_with_multiplicities_as_weights(case: dict[str, Any], data: Any) -> None:
    estimators = WEIGHTABLE
    n_items = case["label"].size
    given: dict[str, Any] = {}
    if data.draw(st.booleans()):
        given["prevalence"] = data.draw(st.sampled_from([0.01, 0.5, 0.9]))
    if data.draw(st.booleans()):
        estimators, given["recall_range"] = PARTIAL, data.draw(st.sampled_from([(0.0, 0.5), (0.25, 1.0), (0.3, 0.6)]))
    if data.draw(st.booleans()):
        estimators = [name for name in estimators if name not in EVERY_POINT]
    if data.draw(st.booleans()):
        given["weight"] = data.draw(vectors(n_items, DYADIC, np.float64))
    cluster = data.draw(st.none() | vectors(n_items, st.integers(0, 5), np.int64))
    positive, negative = (given.get("weight", 1.0) * part for part in classes_of(case["label"], case["unjudged"]))
    counts = multiplicities(positive, negative, case["n_resamples"], cluster=cluster)
    ours = replicates(estimators=estimators, cluster=cluster, **case, **given)
    if np.isnan(counts).any():
        assert np.isnan(ours).all()
    else:
        assert_close(ours, of_weights(case, counts, estimators, **given), estimators)


@given(rankings(), st.integers(0, 3), st.none() | st.sampled_from([0.01, 0.5]), st.booleans(), st.booleans())
def test_replicates_are_estimates_of_the_resampled_data(
    case: dict[str, Any], n_unseen: int, prevalence: float | None, in_clusters: bool, every_point: bool
) -> None:
    left_out = EVERY_POINT if not every_point else {"binormal"}
    left_out = left_out | (set() if prevalence is None else {"precision_at(3)", "recall_at(3)"})
    estimators = [name for name in NAMES if name not in left_out]
    given: dict[str, Any] = {"prevalence": prevalence}
    positive, negative = classes_of(case["label"], case["unjudged"])
    cluster = np.arange(positive.size) // 3 if in_clusters else None
    n_unseen = 0 if in_clusters else n_unseen
    counts = multiplicities(positive, negative, case["n_resamples"], cluster=cluster, n_unseen=n_unseen)
    given["n_positive"] = int(positive.sum()) + n_unseen
    ours = replicates(estimators=estimators, cluster=cluster, **case, **given)
    if np.isnan(counts).any():
        assert np.isnan(ours).all()
        return
    if in_clusters:
        given["n_positive"] = (counts * positive).sum(axis=1)[:, None]
    assert_close(ours, repeated(case, counts, estimators, **given), estimators)


def test_positives_that_are_no_item_are_drawn_like_missed_ones() -> None:
    """Given by their number, or as items without a score: the same standard deviation, and that of the influence."""
    random = np.random.default_rng(8)
    label = (np.arange(150) < 30).astype(np.int8)
    score = random.standard_normal((2, 150)) + label
    kind = {"label": ("item", label)}
    missed = xr.Dataset({"score": (("model", "item"), np.where(np.arange(150) < 8, np.nan, score))} | kind)
    unseen = missed.isel(item=slice(8, None)).assign(n_positive=30)
    options: dict[str, Any] = {"interval": "bootstrap", "n_resamples": 4000, "keep_replicates": True}
    first, second = ap.evaluate(missed, missing="unretrieved", **options), ap.evaluate(unseen, **options)
    np.testing.assert_allclose(first["estimate"], second["estimate"], rtol=1e-14)
    np.testing.assert_allclose(first["standard_error"], second["standard_error"], rtol=1e-12)
    deviations = [one["replicate"].std("resample", ddof=1) for one in (first, second)]
    np.testing.assert_allclose(*deviations, rtol=0.05)
    np.testing.assert_allclose(deviations[1], second["standard_error"], rtol=0.1)


@given(rankings(values=st.sampled_from([-1.5, 0.0, 0.1, 0.3, 2.0, 7.0, np.inf])))
def test_binormal_replicates(case: dict[str, Any]) -> None:
    """Items that a resample leaves out do not matter to it, and a class without spread has no binormal area."""
    counts = multiplicities(*classes_of(case["label"], case["unjudged"]), case["n_resamples"])
    ours = replicates(estimators=["binormal"], **case)
    assert_close(ours, of_weights(case, counts, ["binormal"]), ["binormal"], 1e-9)


def test_binormal_replicates_at_any_scale() -> None:
    label = np.array([1, 1, 1, 0, 0, 0, 0], np.int8)
    score = np.array([[0.1, 0.1, 0.7, 0.3, 0.3, 0.2, -0.4]]) * [[1.0], [1e-160], [1e160], [1e300]]
    score[0, 5] = np.inf
    score[3, 3:] *= 1e-290
    case = {"score": score, "label": label, "missing": "raise", "unjudged": "negative"}
    ours = replicates(n_resamples=100, estimators=["binormal"], **case)
    counts = multiplicities(*classes_of(label, "negative"), 100)
    expected = of_weights(case, counts, ["binormal"])
    assert 0.05 < np.isnan(expected).mean() < 0.6
    assert_close(ours, expected, ["binormal"], 1e-9)


@given(rankings(), st.data())
def test_replicates_of_soft_labels(case: dict[str, Any], data: Any) -> None:
    """Items that belong to both classes are drawn from one stratum."""
    n_items = case.pop("label").size
    positive, negative = (data.draw(vectors(n_items, DYADIC, np.float64)) for _ in range(2))
    soft = {"positive_weight": positive, "negative_weight": negative}
    ours = replicates(estimators=WEIGHTABLE, **case, **soft)
    counts = multiplicities(positive, negative, case["n_resamples"])[:, None]
    soft = {name: weight * counts for name, weight in soft.items()}
    theirs = ap.estimate(case["score"], None, WEIGHTABLE, missing=case["missing"], **soft)
    assert_close(ours, np.moveaxis(theirs, 0, -1), WEIGHTABLE)


@given(rankings(), st.integers(0, 2))
def test_the_fast_path_of_average_precision_is_bit_identical(case: dict[str, Any], n_unseen: int) -> None:
    given = case | {"n_positive": int((case["label"] == 1).sum()) + n_unseen}
    short = replicates(estimators=["average_precision"], **given)
    for other in ("continuous", "interpolated_mean", "binormal"):
        np.testing.assert_array_equal(replicates(estimators=["average_precision", other], **given)[:, :1], short)
    ones = np.ones(case["label"].size)
    if n_unseen == 0:
        np.testing.assert_array_equal(replicates(estimators=["average_precision"], weight=ones, **case), short[:, :1])


def test_replicates_under_a_strict_order_of_ties() -> None:
    """Ties are ordered once, before resampling; an item drawn twice ties with itself."""
    random = np.random.default_rng(1)
    score = random.integers(0, 3, (2, 20)).astype(float)
    label = (random.random(20) < 0.4).astype(np.int8)
    order = random.permutation(20)
    strict = np.array([np.argsort(np.argsort(row * 100 - order)) for row in score], float)
    ours = replicates(score, 30, WEIGHTABLE, label=label, tie_order=order, ties="trec_eval")
    np.testing.assert_array_equal(ours, replicates(strict, 30, WEIGHTABLE, label=label))
    assert (ours != replicates(score, 30, WEIGHTABLE, label=label)).any()


def test_graded_labels_and_labels_of_queries() -> None:
    random = np.random.default_rng(2)
    score = random.integers(0, 6, (3, 2, 40)).astype(float)
    label = random.integers(-2, 4, (2, 40)).astype(np.int8)
    key = np.array([KEY, 77], np.uint64)
    ours = replicates(score, 10, ["average_precision", "continuous"], label=label, key=key, positive_from=2)
    for query in range(2):
        hard = np.where(label[query] < 0, label[query], label[query] >= 2).astype(np.int8)
        case = {"score": score[:, query], "label": hard, "missing": "raise", "unjudged": "negative"}
        counts = multiplicities(*classes_of(hard, "negative"), 10, int(key[query]))
        expected = repeated(case, counts, ["average_precision", "continuous"])
        assert_close(ours[:, query], expected, ["average_precision", "continuous"])


# Bits that no plan changes

EVERY: dict[str, Any] = {
    "estimator": ["average_precision", "continuous", "interpolated_median"],
    "interval": METHODS,
    "n_resamples": 70,
    "n_folds": 3,
    "keep_replicates": True,
}


def assert_same(ours: Any, theirs: Any) -> None:
    expected = dict(nodes_of(theirs))
    for path, node in nodes_of(ours):
        assert set(node.data_vars) == set(expected[path].data_vars)
        for name, variable in node.data_vars.items():
            np.testing.assert_array_equal(variable.values, expected[path][name].values, err_msg=f"{path} {name}")
            assert variable.dims == expected[path][name].dims


@settings(max_examples=3)
@given(chunkings(4), chunkings(3), st.booleans())
def test_chunks_change_nothing(models: tuple[int, ...], queries: tuple[int, ...], is_weighted: bool) -> None:
    scores, options = queried(4, 3, 30), EVERY
    if is_weighted:
        weight = np.random.default_rng(0).random((3, 30))
        scores = scores.assign(weight=(("query", "item"), weight))
        options = EVERY | {"interval": [method for method in METHODS if method not in ("bca", "bootstrap_t")]}
    lazy = ap.evaluate(scores.chunk({"model": models, "query": queries}), **options)
    with dask.config.set(scheduler="synchronous"):
        assert_same(lazy, ap.evaluate(scores, **options))


def test_other_models_and_queries_and_more_resamples_change_nothing() -> None:
    scores = queried(5, 4, 30)
    whole = ap.evaluate(scores, **EVERY)
    models, queries = [{"model": [3, 0]}, {"model": [4, 3, 2, 1, 0]}], [{"query": [2]}, {"query": [3, 0, 1]}]
    for part in (*models, *queries, {"model": [1], "query": [2, 1]}):
        assert_same(ap.evaluate(scores.isel(part), **EVERY), whole.isel(part))
    more = ap.evaluate(scores, **EVERY | {"n_resamples": 200})
    np.testing.assert_array_equal(more["replicate"].values[..., :70], whole["replicate"].values)
    assert len(np.unique(more["replicate"].values[0, 0, 0])) > 100
    fewer = ap.evaluate(scores, ["continuous"], (), n_resamples=3, keep_replicates=True)
    np.testing.assert_array_equal(fewer["replicate"].values[..., 0, :], whole["replicate"].values[..., 1, :3])


def test_one_float_type_as_the_other() -> None:
    scores = pooled(3, 70)
    scores["score"] = scores["score"].astype(np.float32)
    ours = ap.evaluate(scores, **EVERY)
    assert_same(ours, ap.evaluate(scores.assign(score=scores["score"].astype(np.float64)), **EVERY))


def test_models_share_resamples() -> None:
    scores = pooled(2, 80)
    twin = xr.concat([scores["score"][:1]] * 2, "model").assign_coords(model=["a", "b"])
    result = ap.evaluate(scores.drop_vars("model").assign(score=twin), **EVERY)
    np.testing.assert_array_equal(result["replicate"].values[0], result["replicate"].values[1])


def test_seed_data_set_and_query_name_the_resamples() -> None:
    scores = queried(1, 2, 30).isel(query=[0, 0]).assign_coords(query=["one", "two"])
    scores = xr.concat([scores, scores.assign_coords(model=["twin"])], "model", data_vars=["score"])

    def numbers(scores: xr.Dataset, path: str = "", **options: Any) -> np.ndarray:
        options = {"estimator": "average_precision", "interval": (), "keep_replicates": True} | options
        result = ap.evaluate(xr.DataTree.from_dict({path: scores}) if path else scores, n_resamples=20, **options)
        return (result[path] if path else result)["replicate"].values

    base = numbers(scores)
    assert (base[:, 0] != base[:, 1]).any()
    for other in (numbers(scores, seed=1), numbers(scores, "a"), numbers(scores, "b"), numbers(scores, "a", seed=1)):
        assert (base != other).mean() > 0.5
    assert (numbers(scores, "a") != numbers(scores, "b")).mean() > 0.5
    np.testing.assert_array_equal(numbers(scores, seed=np.int64(0)), base)
    renamed = numbers(scores.assign_coords(query=["one", "three"]))
    np.testing.assert_array_equal(renamed[:, 0], base[:, 0])
    assert (renamed[:, 1] != base[:, 1]).any()
    # Item labels are not what items are drawn by.
    np.testing.assert_array_equal(numbers(scores.assign_coords(item=[f"x{i}" for i in range(30)])), base)


GOLDEN_KEYS = {(5, "data", "q"): 9924657225428701226, (5, "data", "ü"): 2542494774389656906}
GOLDEN = {
    "q": [5 / 6, 11 / 12, 13 / 15, 1, 11 / 18, 1],
    "ü": [1, 13 / 15, 1, 1, 13 / 15, 5 / 6],
    "cross_validation": [0.5066726692433243, 1.1599939974233424],
}


@pytest.mark.smoke
def test_the_scheme_is_this_one() -> None:
    """Literals: a change of any random number is a change of every published interval, and of the scheme's name."""
    scores = xr.Dataset(
        {
            "score": (("model", "query", "item"), [[[5.0, 4, 3, 2, 2, 1], [6, 1, 5, 2, 4, 3]]]),
            "label": ("item", [1, 0, 1, 1, 0, 0]),
        },
        coords={"model": ["m"], "query": ["q", "ü"]},
    )
    methods = ["bootstrap", "cross_validation"]
    design: dict[str, Any] = {"n_resamples": 6, "seed": 5, "n_folds": 3, "keep_replicates": True}
    design["prevalence_design"] = "fixed"
    result = ap.evaluate(xr.DataTree.from_dict({"data": scores}), interval=methods, **design)["data"]
    assert result.attrs["random_scheme"] == "philox4x32-10 2"
    for (seed, dataset, query), key in GOLDEN_KEYS.items():
        assert stream_key(seed, dataset, query) == key
    np.testing.assert_allclose(result["replicate"].values[0, 0], GOLDEN["q"], rtol=1e-14)
    np.testing.assert_allclose(result["replicate"].values[0, 1], GOLDEN["ü"], rtol=1e-14)
    interval = result["interval"].values[0, 0]
    np.testing.assert_allclose(interval[1], GOLDEN["cross_validation"], rtol=1e-14)


TWO_THREADS = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
TWO_PROCESSES = pytest.param({"n_workers": 2, "threads_per_worker": 1, "processes": True}, marks=pytest.mark.slow)


@pytest.mark.parametrize("cluster", [TWO_THREADS, TWO_PROCESSES])
def test_a_run_is_bit_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any]) -> None:
    from distributed import Client, LocalCluster

    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 2000)
    scores = xr.DataTree.from_dict(
        {
            "small": pooled(5, 60),
            "topics": queried(4, 3, 30),
            "numbered": queried(2, 12, 40).drop_vars("query"),
            "clustered": pooled(3, 40).assign(cluster=("item", np.arange(40) // 2), fold=("item", np.arange(40) % 3)),
        }
    )
    ap.save_scores(scores, tmp_path / "scores.zarr")
    with LocalCluster(dashboard_address=":0", **cluster) as local, Client(local) as client:
        for unit, options in (("items", EVERY), ("clusters", EVERY | {"interval": ("bootstrap", "bca")})):
            options = options | {"over": unit, "seed": 3}
            source = tmp_path / "scores.zarr"
            if unit == "clusters":
                scores = xr.DataTree.from_dict({"clustered": scores["clustered"].to_dataset()})
                source = tmp_path / "clustered.zarr"
                ap.save_scores(scores, source)
            ours = ap.run(source, tmp_path / f"{unit}.zarr", workers=client, **options)
            assert_same(ours, ap.evaluate(scores, **options))


# What others computed

BOOTSTRAP = sorted({case["dataset"] for case in oracle("raucpr_bootstrap")})
EXACT = sorted({case["dataset"] for case in oracle("raucpr_bootstrap_exact")})
THEIRS = {"ap": "average_precision", "lowertrap": "lower_trapezoid", "interpolate_median": "interpolated_median"}


@cache
def resampled(name: str, n_resamples: int) -> xr.Dataset:
    score, label = data(name)
    scores = xr.Dataset({"score": (("model", "item"), score[None]), "label": ("item", label)}, {"model": ["m"]})
    options: dict[str, Any] = {"n_resamples": n_resamples, "keep_replicates": True, "seed": 1}
    options["prevalence_design"] = "fixed"
    return ap.evaluate(scores, list(THEIRS.values()), "bootstrap", **options).isel(model=0)


@pytest.mark.parametrize("n_resamples", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BOOTSTRAP)
def test_raucpr_bootstrap(name: str, n_resamples: int) -> None:
    result = resampled(name, n_resamples)
    cases = [case for case in oracle("raucpr_bootstrap") if case["dataset"] == name]
    assert len(cases) == len(THEIRS)
    for case in cases:
        areas = np.sort(result["replicate"].sel(estimator=THEIRS[case["estimator"]]).values)
        error = np.hypot(case["mean_mc_se"], areas.std() / np.sqrt(n_resamples))
        assert abs(areas.mean() - case["mean"]) <= 4 * error + 1e-12
        tail_weight = np.nan_to_num(stats.kurtosis(areas)) + 2 if np.ptp(areas) > 1e-9 else 2.0
        error = case["sd"] * np.sqrt(tail_weight / 4 * (1 / n_resamples + 1 / case["replicates"]))
        np.testing.assert_allclose(areas.std(ddof=1), case["sd"], rtol=0, atol=4 * error + 1e-12)
        for level in (0.95, 0.9):
            expected = case[f"ci_{level}"]
            for side, tail in (("lower", (1 - level) / 2), ("upper", (1 + level) / 2)):
                # The order statistics that enclose the quantile of infinitely many replicates with probability 0.999.
                first, last = stats.binom.ppf([0.0005, 0.9995], n_resamples, tail).astype(int)
                low, high = areas[max(first - 1, 0)], areas[min(last, n_resamples - 1)]
                theirs = [float(bound) for bound in expected[f"mc_bracket_{side}"]]
                assert low <= theirs[1] + 1e-12
                assert theirs[0] <= high + 1e-12
        bounds, expected = (
            result["interval"].sel(estimator=THEIRS[case["estimator"]]),
            np.quantile(areas, [0.025, 0.975]),
        )
        if result["estimate"].sel(estimator=THEIRS[case["estimator"]]) == 1:  # at least Wilson's interval
            n = int(result["n_positive"])
            expected[0] = min(expected[0], stats.binomtest(n, n).proportion_ci(0.95, "wilson").low)
        np.testing.assert_allclose(bounds, expected, rtol=1e-14)


@pytest.mark.smoke
@pytest.mark.parametrize("name", EXACT)
def test_exact_bootstrap_distributions(name: str) -> None:
    """Every area that resamples can have, as often as enumeration says."""
    n_resamples = 4000
    result = resampled(name, n_resamples)
    for case in (case for case in oracle("raucpr_bootstrap_exact") if case["dataset"] == name):
        areas = result["replicate"].sel(estimator=THEIRS[case["estimator"]]).values
        known = np.array(case["area"])
        nearest = np.abs(areas[:, None] - known).argmin(axis=1)
        np.testing.assert_allclose(areas, known[nearest], rtol=0, atol=1e-12)
        seen = np.bincount(nearest, minlength=known.size)
        expected = n_resamples * np.array(case["probability"])
        often = expected >= 5
        seen, expected = (np.append(x[often], x[~often].sum()) for x in (seen, expected))
        seen, expected = seen[expected > 0], expected[expected > 0]
        assert stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), max(seen.size - 1, 1)) > 1e-3


def test_every_case_is_here() -> None:
    assert (len(BOOTSTRAP), len(EXACT), len(FOLDS)) == (18, 4, 42)


@pytest.mark.smoke
@pytest.mark.parametrize("case", FOLDS)
def test_raucpr_cross_validation(case: Any) -> None:
    score, label = data(case["dataset"])
    fold = 10 + 3 * np.array(case["fold_of_item"])
    variables = {"score": (("model", "item"), score[None]), "label": ("item", label), "fold": ("item", fold)}
    names = list(case["estimators"])
    for level in (0.95, 0.9):
        methods = ["cross_validation", "cross_validation_t"]
        result = ap.evaluate(xr.Dataset(variables), [THEIRS[name] for name in names], methods, level=level)
        for ours, name in zip(result["interval"].values[0], names, strict=True):
            expected = case["estimators"][name]
            for bounds, theirs in zip(ours, ("normal_ci", "t_ci"), strict=True):
                np.testing.assert_allclose(bounds, np.array(expected[f"{theirs}_{level}"], float), rtol=0, atol=1e-12)


# Intervals by hand


def normal_scores(n_positive: int, n_negative: int, n_models: int = 1, seed: int = 0) -> xr.Dataset:
    random = np.random.default_rng(seed)
    label = np.repeat([1, 0], [n_positive, n_negative]).astype(np.int8)
    score = random.normal(size=(n_models, label.size)) + label
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})


def test_the_spread_of_replicates_is_the_influence_standard_error() -> None:
    result = ap.evaluate(normal_scores(200, 800, 3), n_resamples=1000, keep_replicates=True)
    error = result["standard_error"].values
    np.testing.assert_allclose(result["replicate"].values.std(axis=-1, ddof=1), error, rtol=0.1)
    names = ["average_precision", "discrete"]
    others = ap.evaluate(normal_scores(200, 800, 3), names, "bootstrap", keep_replicates=True)
    np.testing.assert_array_equal(others["standard_error"].values[:, 0], error)
    spread = others["replicate"].values[:, 1].std(axis=-1, ddof=1)
    np.testing.assert_allclose(others["standard_error"].values[:, 1], spread, rtol=1e-13)


def test_the_standard_error_of_part_of_the_area_is_near_that_of_its_replicates() -> None:
    options: dict[str, Any] = {"recall_range": (0.0, 0.5), "n_resamples": 50, "keep_replicates": True}
    for names, tolerance in (("haldane", 1e-13), (["average_precision", "continuous"], 0.3)):
        result = ap.evaluate(normal_scores(30, 50, 2), names, **options)
        spread = result["replicate"].std("resample", ddof=1)
        np.testing.assert_allclose(result["standard_error"], spread, rtol=tolerance)


@pytest.mark.smoke
def test_intervals_by_hand() -> None:
    scores = normal_scores(15, 40)
    score, label = scores["score"].values, scores["label"].values
    methods = ["bootstrap", "bca", "bootstrap_t"]
    n_resamples, level = 60, 0.9
    options: dict[str, Any] = {"n_resamples": n_resamples, "keep_replicates": True, "prevalence_design": "fixed"}
    result = ap.evaluate(scores, interval=methods, level=level, **options)
    areas, area = result["replicate"].values[0], result["estimate"].item()
    bounds = dict(zip(methods, result["interval"].values[0], strict=True))
    low, high = np.quantile(areas, [0.05, 0.95])
    np.testing.assert_allclose(bounds["bootstrap"], [low, high], rtol=1e-14)

    bias = stats.norm.ppf((np.sum(areas < area) + np.sum(areas <= area)) / (2 * n_resamples))
    (acceleration,) = accelerations_by_refitting(score[0], label, ["average_precision"], np.arange(label.size))
    z = bias + stats.norm.ppf([0.05, 0.95])
    share = stats.norm.cdf(bias + z / (1 - acceleration * z))
    np.testing.assert_allclose(bounds["bca"], np.quantile(areas, share), rtol=1e-10)

    counts = multiplicities(*classes_of(label, "negative"), n_resamples, stream_key(0, "", "")).astype(int)
    item = np.array([np.repeat(np.arange(label.size), count) for count in counts])
    per_run = xr.Dataset({"score": (("model", "item"), score[0][item]), "label": (("model", "item"), label[item])})
    each = ap.evaluate(per_run, prevalence_design="fixed")
    np.testing.assert_array_equal(each["estimate"].values, areas)
    studentised = np.quantile((areas - area) / each["standard_error"].values, [0.95, 0.05])
    expected = area - result["standard_error"].item() * studentised
    np.testing.assert_allclose(bounds["bootstrap_t"], expected, rtol=1e-12)


def test_nothing_to_resample_and_nothing_uncertain() -> None:
    scores = queried(2, 3, 30)
    scores["label"][1] = scores["label"][1].where(scores["label"][1] != 1, 0)
    result = ap.evaluate(scores, **EVERY)
    for name in ("replicate", "interval", "standard_error"):
        assert np.isnan(result[name].values[:, 1]).all()
    assert np.isfinite(result["replicate"].values[:, [0, 2]]).all()

    scores = pooled(3, 20)
    assert ap.evaluate(scores.isel(model=[]), **EVERY)["replicate"].shape == (0, 3, 70)
    empty = ap.evaluate(scores.isel(item=[]), **EVERY)
    assert empty["replicate"].isnull().all()
    assert empty["interval"].isnull().all()

    scores = scores.isel(model=[0])
    perfect = ap.evaluate(scores.assign(score=scores["label"].astype(float).expand_dims(model=1)), **EVERY)
    assert (perfect["replicate"].values[:, :2] == 1).all()
    n = int(scores["label"].sum())
    lower, upper = perfect["interval"].sel({"interval_method": "bootstrap"}).values[0, :2].T
    np.testing.assert_allclose(lower, stats.binomtest(n, n).proportion_ci(0.95, "wilson").low)
    assert (upper == 1).all()
    only = ap.evaluate(scores.isel(item=scores["label"].values == 1), **EVERY)
    assert (only["replicate"].values == 1).all()


# Folds


def test_stratified_folds_are_balanced_and_shuffled() -> None:
    random = np.random.default_rng(0)
    label = random.choice([-2, -1, 0, 1], (3, 200)).astype(np.int8)
    key = np.array([1, 2, 2], np.uint64)
    for unjudged in ("negative", "drop"):
        options = EvaluationOptions(unjudged=unjudged)
        fold = stratified_folds({"label": label}, key, options, 7)
        for row in range(3):
            for part in classes_of(label[row], unjudged):
                sizes = np.bincount(fold[row][part > 0], minlength=7)
                assert sizes.size == 7
                assert np.ptp(sizes) <= 1
        np.testing.assert_array_equal(stratified_folds({"label": label[:1]}, key[:1], options, 7)[0], fold[0])
        items = np.flatnonzero(label[0] == 1)
        assert (fold[0][items] != np.arange(items.size) % 7).any()
    same = stratified_folds({"label": label[0]}, key, options, 7)
    assert (same[0] != same[1]).any()
    np.testing.assert_array_equal(same[1], same[2])


def areas_of_folds(scores: xr.Dataset, fold: np.ndarray, n_folds: int, weight: np.ndarray | None = None) -> np.ndarray:
    """Areas of the models of a data set in each fold, evaluated alone."""
    parts = [(fold == f, None if weight is None else weight[fold == f]) for f in range(n_folds)]
    score, label = scores["score"].values, scores["label"].values
    return np.stack([ap.estimate(score[:, chosen], label[chosen], weight=part) for chosen, part in parts])


def test_folds_are_dealt_by_name() -> None:
    scores = queried(2, 3, 40)
    methods = ["cross_validation", "cross_validation_t"]
    result = ap.evaluate(scores, interval=methods, n_folds=4, seed=9)
    for query in scores["query"].values:
        part, key = scores.sel(query=query), np.uint64(stream_key(9, "", query))
        fold = stratified_folds({"label": part["label"].values}, key, EvaluationOptions(), 4)
        areas = areas_of_folds(part, fold, 4)
        mean, error = areas.mean(axis=0), stats.sem(areas)
        normal, student = np.moveaxis(result["interval"].sel(query=query).values, 1, 0)
        np.testing.assert_allclose(normal.T, stats.norm.interval(0.95, mean, error), rtol=1e-12)
        np.testing.assert_allclose(student.T, stats.t.interval(0.95, 3, mean, error), rtol=1e-12)
    other = ap.evaluate(scores, interval=methods, n_folds=4, seed=8)
    assert (other["interval"] != result["interval"]).any()


def test_a_fold_without_positives_has_no_interval() -> None:
    scores = normal_scores(3, 30)
    assert np.isnan(ap.evaluate(scores, interval="cross_validation", n_folds=4)["interval"].values).all()
    assert np.isfinite(ap.evaluate(scores, interval="cross_validation", n_folds=3)["interval"].values).all()


def test_positives_that_are_no_item_are_shared_out_to_folds() -> None:
    """Known to be none, they change nothing; else every fold misses as many."""
    scores = queried(2, 3, 40)
    options: dict[str, Any] = {"interval": ("cross_validation",), "n_folds": 4}
    bare = ap.evaluate(scores, **options)["interval"]
    n_positive = (scores["label"] == 1).sum("item")
    xr.testing.assert_identical(ap.evaluate(scores.assign(n_positive=n_positive), **options)["interval"], bare)
    more = ap.evaluate(scores.assign(n_positive=2 * n_positive), **options | {"n_folds": 2})["interval"]
    sizes = ap.evaluate(scores, **options | {"n_folds": 2})["interval"]
    assert (more < sizes).all()


def test_weights_in_folds() -> None:
    scores, fold, weight = pooled(2, 60), np.arange(60) % 3, np.random.default_rng(0).random(60)
    is_positive = scores["label"].values
    soft = {"positive_weight": ("item", weight * is_positive), "negative_weight": ("item", weight * (1 - is_positive))}
    areas = areas_of_folds(scores, fold, 3, weight)
    expected = stats.norm.interval(0.95, areas.mean(axis=0), stats.sem(areas))
    for weighted in (scores.assign(weight=("item", weight)), scores.drop_vars("label").assign(soft)):
        bounds = ap.evaluate(weighted.assign(fold=("item", fold)), interval="cross_validation")["interval"]
        np.testing.assert_allclose(bounds.values.T, expected, rtol=1e-12)


# Memory


@pytest.mark.parametrize("kind", ["plain", "weighted", "missing"])
def test_memory_stays_within_the_plan(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from aucpr_dask import kernels
    from aucpr_dask.kernels import resampling

    monkeypatch.setattr(resampling, "LAYOUT_BYTES", 1 << 19)
    monkeypatch.setattr(resampling, "POINT_BYTES", 1 << 19)
    random = np.random.default_rng(0)
    n_rows, n_items, n_resamples = 12, 6000, 70
    score = random.normal(size=(n_rows, n_items))
    positive = (random.random((1, n_items)) < 0.3).astype(float)
    weight = random.random((1, n_items)) if kind == "weighted" else np.ones((1, n_items))
    if kind == "missing":
        score[:, 1000:] = np.nan
    estimators = [0] if kind == "plain" else [0, 9, 5]
    targets = kernels.targets_of(estimators, [np.nan] * len(estimators), (0.0, 1.0))
    shared = np.zeros(n_rows, np.int64), np.zeros(n_rows)
    options = kernels.Options(missing=2 if kind == "missing" else 0)
    items = kernels.Items(score, positive * weight, (1 - positive) * weight, *shared)
    arguments = items, np.zeros(n_rows, np.uint64), options, targets, n_resamples
    kernels.replicate_rows(*arguments)  # compiled before it is measured
    tracemalloc.start()
    try:
        kernels.replicate_rows(*arguments)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    planned = kernels.planned_bytes(n_rows, n_items, len(estimators), n_resamples)
    assert 0.1 * planned < peak <= planned
    monkeypatch.undo()
    for items, resamples in ((10**6, 1000), (10**5, 10_000)):
        assert 30 * kernels.planned_bytes(100, items, 2, resamples) < 100 * items * resamples


def test_crowded_positives_change_nothing() -> None:
    """Scores that are nearly all in one bucket of a table have the replicates of their logarithms."""
    random = np.random.default_rng(1)
    score = random.normal(size=(3, 700)).round(2)
    score[0, :30] = np.nan
    call: dict[str, Any] = {"label": (random.random(700) < 0.4).astype(np.int8), "missing": "drop", "n_resamples": 70}
    call |= {"estimators": ["average_precision"]}
    expected = replicates(score=score, **call)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(replicates(score=np.exp(60 * score), **call), expected)


def test_little_space_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rankings, lanes and missing items are held at a time."""
    from aucpr_dask.kernels import resampling

    random = np.random.default_rng(0)
    score = random.normal(size=(5, 150)).astype(np.float32)
    score[random.random((5, 150)) < 0.3] = np.nan
    label = (random.random(150) < 0.4).astype(np.int8)
    weight = random.choice([0.0, 0.5, 1.0, 2.0], 150)
    unseen = {"n_positive": label.sum() + np.arange(5)}
    cases = [(unseen, ["average_precision"]), (unseen, NAMES), ({"weight": weight}, [*WEIGHTABLE, "binormal"])]
    calls = [
        {"score": score, "n_resamples": 70, "estimators": names, "label": label, "missing": missing} | given
        for given, names in cases
        for missing in ("drop", "last", "unretrieved")
    ]
    expected = [replicates(**call) for call in calls]
    monkeypatch.setattr(resampling, "LAYOUT_BYTES", 7000)
    monkeypatch.setattr(resampling, "POINT_BYTES", 20_000)
    monkeypatch.setattr(resampling, "MISSING_AT_ONCE", 7)
    for call, numbers in zip(calls, expected, strict=True):
        np.testing.assert_array_equal(replicates(**call), numbers)


# What is refused


def per_run() -> xr.Dataset:
    """Each model with a list of its own: the same items in another order."""
    scores = pooled()
    score, label = scores["score"].values, scores["label"].values
    lists = [(np.roll(one, place), np.roll(label, place)) for place, one in enumerate(score)]
    arrays = dict(zip(("score", "label"), map(np.stack, zip(*lists, strict=True)), strict=True))
    return xr.Dataset({name: (("model", "item"), array) for name, array in arrays.items()}, {"model": scores["model"]})


ONES = ("item", np.ones(60))
REPLICATED = [name for name, spec in INTERVALS.items() if "replicates" in spec.needs]
LAYOUT = r"items cannot be resampled: each model has its own list of them[\s\S]*a per-run layout"
CLUSTERS = r"over='clusters' needs to know the cluster of every item[\s\S]*"
KNOWN_FOR = "known for average_precision, lower_trapezoid, "
INFLUENCE = rf"these intervals need the influence function, {KNOWN_FOR}[\s\S]*"
UNWEIGHTED = r"known for unweighted items drawn one by one[\s\S]*"


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        *((per_run(), {"interval": name}, LAYOUT) for name in (*REPLICATED, "cross_validation")),
        (per_run(), {"keep_replicates": True}, LAYOUT),
        (pooled(), {"over": "clusters", "interval": "bootstrap"}, CLUSTERS + "no variable 'cluster'"),
        (pooled(), {"over": "clusters", "interval": "influence_beta"}, CLUSTERS + "no variable 'cluster'"),
        (
            queried().assign(cluster=("query", [0, 0, 1])),
            {"over": "clusters", "interval": "bca"},
            CLUSTERS + r"'cluster' over \(query\)",
        ),
        (
            pooled().assign(weight=ONES),
            {"interval": "bootstrap_t"},
            "the standard error of a replicate is " + UNWEIGHTED + "weights",
        ),
        (
            pooled(),
            {"interval": "bootstrap", "ties": "expectation"},
            r"unknown for replicates[\s\S]*ties='expectation'[\s\S]*ties='group'",
        ),
        (pooled(), {"interval": "influence_beta", "ties": "expectation"}, INFLUENCE + "ties='expectation'"),
        (pooled(), {"interval": "bootstrap_t", "estimator": "discrete"}, INFLUENCE + "bootstrap_t with discrete"),
        (
            pooled(),
            {"interval": "influence_beta", "estimator": "haldane", "recall_range": (0.0, 0.5)},
            INFLUENCE + "influence_beta with",
        ),
        (pooled(2, 9), {"interval": "cross_validation"}, r"fewer items than folds\n.*\n.*10 folds of 9 items"),
        (
            queried().assign(fold=("query", [0, 1, 1])),
            {"interval": "cross_validation"},
            r"cross-validation needs the fold of every item[\s\S]*'fold' over \(query\)",
        ),
    ],
)
def test_refusals(scores: xr.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ap.evaluate(scores, **options)
    with pytest.raises(InvalidInputError, match=message), raise_if_dask_computes():
        ap.evaluate(scores.chunk({"model": 2}), **options)
    with pytest.raises(InvalidInputError, match="data set 'odd'"):
        ap.evaluate(xr.DataTree.from_dict({"odd": scores}), **options)


def test_per_run_layouts_have_intervals_that_do_not_resample() -> None:
    methods = ["logit", "influence_beta", "influence_logit_t"]
    ours = ap.evaluate(per_run(), interval=methods)
    xr.testing.assert_identical(ours["interval"], ap.evaluate(pooled(), interval=methods)["interval"])


def test_estimators_without_influence_have_no_interval_of_it() -> None:
    methods = ["bootstrap", "bca", "bootstrap_t", "influence_logit_t"]
    result = ap.evaluate(pooled(), ["discrete", "average_precision"], methods, n_resamples=50)
    assert result["interval"].sel(estimator="average_precision").notnull().all()
    assert result["interval"].sel({"estimator": "discrete", "interval_method": methods[:2]}).notnull().all()
    assert np.isnan(result["interval"].sel({"estimator": "discrete", "interval_method": methods[2:]}).values).all()
    assert not result.aucpr.flagged("no_interval")["no_interval"].any()


def test_default_intervals_that_these_data_do_not_have_are_flagged() -> None:
    """Lists of each model have none that draws items; items in chunks have all that whole rankings have."""
    for names, is_flagged in ((["continuous", "roc_area"], False), (["continuous", "discrete"], True)):
        result, whole = ap.evaluate(per_run(), names), ap.evaluate(pooled(), names)
        assert (result.aucpr.flagged("no_interval")["no_interval"] == is_flagged).all()
        along = [dim for dim in ("interval_method", "ci_bound") if dim in result["interval"].dims]
        assert result["interval"].isnull().all(along).any() == is_flagged
        np.testing.assert_array_equal(result["estimate"], whole["estimate"])
        in_chunks = ap.evaluate(pooled().chunk({"item": 20}), names).compute()
        xr.testing.assert_equal(in_chunks[["estimate", "interval", "flags"]], whole[["estimate", "interval", "flags"]])


def accelerations_by_refitting(score: np.ndarray, label: np.ndarray, names: list[str], unit: np.ndarray) -> np.ndarray:
    """The definition: every unit left out, one at a time; units are items of a class, or clusters of both."""
    strata = [np.unique(unit[label == 1]), np.unique(unit[label == 0])]
    strata = [np.unique(unit)] if np.intersect1d(*strata).size else strata
    squares = cubes = np.zeros(len(names))
    for members in strata:
        parts = [ap.estimate(score[unit != one], label[unit != one], names) for one in members]
        deviation = (members.size - 1) * (np.mean(parts, axis=0) - np.array(parts))
        squares = squares + (deviation**2).sum(axis=0) / members.size**2
        cubes = cubes + (deviation**3).sum(axis=0) / members.size**3
    return cubes / (6 * squares**1.5)


TRAPEZOIDS = ["average_precision", "haldane", "lower_trapezoid"]
JACKKNIFED = [*TRAPEZOIDS, "interpolated_mean", "interpolated_median", "continuous", "discrete"]


@pytest.mark.parametrize("kind", ["ties", "distinct", "clusters"])
def test_the_acceleration_of_every_estimator_is_that_of_the_jackknife(kind: str) -> None:
    from aucpr_dask.evaluation.resampled_rankings import estimate_accelerations

    random = np.random.default_rng(3)
    label = (np.arange(70) < 15).astype(np.int8)
    score = random.standard_normal(70) + label
    score = np.round(score, 1 if kind == "ties" else 9)
    unit = np.arange(70) % 20 if kind == "clusters" else np.arange(70)
    given = {"score": score[None], "label": label} | ({"cluster": unit} if kind == "clusters" else {})
    options = EvaluationOptions(estimator=tuple(JACKKNIFED))
    ours = estimate_accelerations(*items_of(given, options), options, is_stratified=kind != "clusters")
    np.testing.assert_allclose(ours[0], accelerations_by_refitting(score, label, JACKKNIFED, unit), rtol=1e-8)


def test_formulas_are_for_areas_over_all_recalls() -> None:
    names = ["average_precision", "roc_area", "gain_area", "precision_at_recall(0.5)"]
    interval = ap.evaluate(pooled(), names, ["logit", "binomial"])["interval"]
    assert interval.sel(estimator="average_precision").notnull().all()
    assert interval.sel(estimator=names[1:]).isnull().all()
    part = ap.evaluate(pooled(), interval="logit", recall_range=(0, 0.2))
    assert part["interval"].isnull().all()
    assert part.aucpr.flagged("no_interval")["no_interval"].all()


PAIRS = np.random.default_rng(3).random((2, 150))
SOFT = {"positive_weight": ("item", PAIRS[0]), "negative_weight": ("item", PAIRS[1])}


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        (pooled(2, 400), {"prevalence_design": "random"}),
        (pooled(2, 150).drop_vars("label").assign(SOFT), {}),
        (pooled(2, 400).assign(cluster=("item", np.arange(400) // 2)), {"over": "clusters"}),
    ],
)
def test_random_prevalence_draws_both_classes_together(scores: xr.Dataset, options: dict[str, Any]) -> None:
    options |= {"n_resamples": 3000, "keep_replicates": True, "interval": "influence_beta"}
    found = ap.evaluate(scores, **options)
    deviation = found["replicate"].std("resample", ddof=1)
    np.testing.assert_allclose(deviation, found["standard_error"], rtol=0.1)
    assert found.attrs["prevalence_design"] == "random"
    if "prevalence_design" in options:
        assert found.attrs["resampled"] == "items, positives and negatives together"
        fixed = ap.evaluate(scores, **options | {"prevalence_design": "fixed"})
        assert (deviation > fixed["replicate"].std("resample", ddof=1)).all()


def test_resamples_without_an_estimate_are_flagged_and_one_cluster_has_no_interval() -> None:
    scores = pooled(2, 40)
    scores["label"][:] = 0
    scores["label"][[3, 9]] = 1
    fixed: dict[str, Any] = {"n_resamples": 100, "prevalence_design": "fixed"}
    found = ap.evaluate(scores, "binormal", "bootstrap", **fixed)
    assert found.aucpr.flagged("undefined_resamples")["undefined_resamples"].all()
    assert not ap.evaluate(scores, interval="bootstrap", **fixed).aucpr.flagged("undefined_resamples").to_array().any()
    one = pooled(2, 40).assign(cluster=("item", np.zeros(40, int)))
    assert ap.evaluate(one, interval="bootstrap", over="clusters")["interval"].isnull().all()


def test_replicates_of_missing_scores_are_refused_too() -> None:
    scores = pooled(4, 30)
    scores["score"][2, 5] = np.nan
    lazy = ap.evaluate(scores.chunk({"model": 1}), interval=(), keep_replicates=True, n_resamples=5)
    with pytest.raises(MissingScoresError, match="model 'm2': 1"):
        lazy["replicate"].compute()


# Laziness and attributes


def test_nothing_is_computed_early(forest: xr.DataTree) -> None:
    with raise_if_dask_computes():
        lazy = ap.evaluate(forest.chunk({"model": 2}), **EVERY)
    for path, node in nodes_of(lazy):
        for name, variable in node.data_vars.items():
            assert variable.chunks is not None, f"{path} {name}"
    with pytest.raises(AssertionError, match="Dask computed"), raise_if_dask_computes():
        lazy.compute()
    with dask.config.set(scheduler="threads"):
        assert_same(lazy, ap.evaluate(forest, **EVERY))


def test_replicates_are_drawn_once_for_all_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    from aucpr_dask import kernels

    calls = []
    kernel = kernels.replicate_rows
    monkeypatch.setattr(kernels, "replicate_rows", lambda *given, **named: calls.append(1) or kernel(*given, **named))
    ap.evaluate(pooled().chunk({"model": 2}), **EVERY).compute(scheduler="sync")
    assert len(calls) == 3  # blocks


def test_the_attributes_say_how_the_data_were_resampled() -> None:
    attrs = ap.evaluate(pooled(), **EVERY | {"seed": 4}).attrs
    assert attrs["resampled"] == "items, positives and negatives together"
    assert (attrs["n_resamples"], attrs["seed"], attrs["n_folds"]) == (70, 4, 3)
    assert attrs["prevalence_design"] == "random"
    assert attrs["design"] == "sample: the items with their labels; fixed: the models"
    fixed = ap.evaluate(pooled(), interval="bootstrap", prevalence_design="fixed").attrs
    assert fixed["resampled"] == "items, positives and negatives apart"
    assert fixed["design"] == "sample: the items; fixed: the models, the numbers of positives and negatives"
    plain = ap.evaluate(pooled(), seed=4).attrs
    assert {"seed", "n_resamples", "resampled", "random_scheme", "n_folds"}.isdisjoint(plain)
    own = ap.evaluate(pooled(2, 60).assign(fold=("item", np.arange(60) % 5)), interval="cross_validation").attrs
    assert (own["n_folds"], own["folds"], "seed" in own) == (5, "of the data set", False)
    clustered = pooled().assign(cluster=("item", np.arange(60) // 4))
    found = ap.evaluate(clustered, interval="bootstrap")
    assert found.attrs["resampled"] == "clusters"
    assert found.attrs["design"] == "sample: the clusters, each with its items; fixed: the models"
    xr.testing.assert_identical(found, ap.evaluate(clustered, interval="bootstrap", over="clusters"))
    items = ap.evaluate(clustered, interval="bootstrap", over="items")
    xr.testing.assert_identical(items, ap.evaluate(pooled(), interval="bootstrap"))


def test_clusters_of_any_name_are_drawn_whole() -> None:
    """Clusters of identical items: every cluster counts as one item would, its items that many times."""
    scores = pooled(2, 30)
    twice = scores.isel(item=np.repeat(np.arange(30), 2)).drop_vars("item")
    names = np.array([f"patient {i}" for i in range(30)])
    options: dict[str, Any] = {"interval": "bootstrap", "over": "clusters", "n_resamples": 70, "keep_replicates": True}
    estimators = ["average_precision", "continuous"]
    single = ap.evaluate(scores.assign(cluster=("item", names)), estimators, **options)
    double = ap.evaluate(twice.assign(cluster=("item", np.repeat(names, 2))), estimators, **options)
    np.testing.assert_allclose(double["replicate"].values, single["replicate"].values, rtol=1e-13)
    renamed = ap.evaluate(scores.assign(cluster=("item", np.arange(30) + 10**12)), estimators, **options)
    assert renamed["replicate"].shape == single["replicate"].shape


def count_by_first_bytes_in_a_loop(source: Any, start: int, tops: Any, count: Any, row: int) -> int:
    """Do what `draws.count_by_first_bytes` does, lane by lane."""
    unsure = 0
    for lane in range(LANES):
        byte = source[start + lane]
        count[row, lane] = sum(byte > top for top in tops.tolist())
        if byte == 255 or byte in tops:
            unsure |= 1 << lane
    return unsure


def add_counts_in_a_loop(count: Any, unit: Any, first: int, last: int, total: Any) -> None:
    """Do what `replicates.add_counts` does, one count after the other."""
    for entry in range(first, last):
        for lane in range(LANES):
            total[lane] += count[unit[entry], lane]


def test_instructions_written_by_hand_do_what_the_loops_beside_them_do() -> None:
    import numba

    from aucpr_dask.kernels import draws, replicates

    random = np.random.default_rng(0)
    count_bytes = numba.njit(lambda *arguments: draws.count_by_first_bytes(*arguments))
    for tops in ([91, 231, 255, 255], [94, 187, 234, 251], [0, 1, 2, 255]):
        source, numbers = random.integers(0, 256, 3 * LANES, np.uint8), np.array(tops, np.uint8)
        source[LANES : LANES + 4] = tops
        counts = np.zeros((2, 2, LANES), np.uint8)
        by_hand = count_bytes(source, np.uint64(LANES), numbers, counts[0], np.uint64(1))
        assert by_hand == count_by_first_bytes_in_a_loop(source, LANES, numbers, counts[1], 1)
        np.testing.assert_array_equal(*counts)
    add = numba.njit(lambda *arguments: replicates.add_counts(*arguments))
    count, unit = random.integers(0, 32, (20, LANES), np.uint8), random.integers(0, 20, 50, np.int32)
    for first, last in [(0, 0), (3, 4), (0, 8), (1, 10), (0, 50)]:
        totals = np.tile(random.integers(0, 1000, LANES, np.int32), (2, 1))
        add(count, unit, first, last, totals[0])
        add_counts_in_a_loop(count, unit, first, last, totals[1])
        np.testing.assert_array_equal(*totals)
