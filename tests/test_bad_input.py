"""Bad input: one table of calls, arguments and bad values, made from the signatures and the records of options.

Each call ends in an error of the package that says what is wrong, where, what was received, what is allowed and what to
do, or, where a value happens to be allowed, in a result without a warning.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import fractions
import functools
import inspect
import itertools
import math
import pathlib
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import pooled, queried

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import MEANT, AlignmentError, AucprError, FewPositivesWarning, InvalidInputError, brief
from aucpr_dask.schema import options
from aucpr_dask.scores.importing.tables import import_table
from aucpr_dask.simulate import bibeta, binormal, offset_uniform

SECONDS = 20  # for one call
PARTS = ("\n  where: ", "\n  received: ", "\n  allowed: ", "\n  remedy: ")

SCORE, LABEL = [0.9, 0.8, 0.7, 0.6, 0.5], [1, 0, 1, 0, 1]
DATA = pooled(3, 40)
QUERIES = queried(3, 6, 20)
FRAME = pd.DataFrame({"label": DATA["label"], "m0": DATA["score"][0], "name": DATA["item"]})


# Calls


@functools.cache
def result() -> xr.Dataset:
    return ap.evaluate(QUERIES, missing="drop", interval=["bootstrap"], n_resamples=20, keep_replicates=True)


def known(function: Callable[..., Any], **given: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    return function, given


# Every public function, with arguments with which it works quickly; several where data come in several shapes.
CALLS: dict[str, Callable[[], tuple[Callable[..., Any], dict[str, Any]]]] = {
    "estimate": lambda: known(ap.estimate, score=SCORE, label=LABEL),
    "estimate xarray": lambda: known(ap.estimate, score=DATA["score"], label=DATA["label"]),
    "estimate Dask": lambda: known(ap.estimate, score=da.from_array(SCORE, -1), label=np.array(LABEL)),
    "estimate weighted": lambda: known(ap.estimate, score=SCORE, label=LABEL, weight=[1.0, 0, 2, 3, 1], prevalence=0.5),
    "estimate soft": lambda: known(
        ap.estimate, score=SCORE, label=None, positive_weight=[0, 1, 0.5, 1, 1], negative_weight=[1, 1, 1, 0, 1]
    ),
    "evaluate": lambda: known(ap.evaluate, scores=DATA, n_resamples=5),
    "evaluate resampled": lambda: known(
        ap.evaluate, scores=QUERIES, missing="drop", interval=["bootstrap"], n_resamples=5, keep_replicates=True
    ),
    "evaluate_runs": lambda: known(
        ap.evaluate_runs, qrels={"q": {"a": 1, "b": 0}}, runs={"r": {"q": {"a": 2.0, "b": 1.0}}}
    ),
    "from_runs": lambda: known(ap.from_runs, qrels={"q": {"a": 1, "b": 0}}, runs={"r": {"q": {"a": 2.0, "b": 1.0}}}),
    "interval": lambda: known(ap.interval, estimate=0.5, n_positive=5),
    "chance": lambda: known(ap.chance, score=SCORE, label=LABEL),
    "curve": lambda: known(ap.curve, score=SCORE, label=LABEL),
    "curve on a grid": lambda: known(ap.curve, score=DATA["score"], label=DATA["label"], kind="roc", grid=[0.1, 0.5]),
    "confusion": lambda: known(ap.confusion, score=SCORE, label=LABEL, thresholds=[0.5]),
    "curve_bands": lambda: known(ap.curve_bands, score=SCORE, label=LABEL, n_resamples=5),
    "covariance": lambda: known(ap.covariance, scores=DATA),
    "reference_levels": lambda: known(ap.reference_levels, label=LABEL),
    "normalised": lambda: known(
        ap.normalised,
        area=ap.estimate(DATA["score"], DATA["label"]),
        levels=ap.reference_levels(DATA["label"]),
    ),
    "dominates": lambda: known(
        ap.dominates,
        first=ap.curve(DATA["score"], DATA["label"]),
        second=ap.curve(DATA["score"], DATA["label"]),
    ),
    "to_roc": lambda: known(ap.to_roc, recall=[0.5, 1.0], precision=[1.0, 0.5], n_positive=10, n_negative=20),
    "to_precision_recall": lambda: known(
        ap.to_precision_recall, false_positive_rate=[0.1, 0.5], recall=[0.5, 1.0], n_positive=10, n_negative=20
    ),
    "unachievable_precision": lambda: known(ap.unachievable_precision, recall=[0.1, 0.9], prevalence=0.3),
    "aggregate": lambda: known(ap.aggregate, data=result(), n_resamples=20),
    "compare": lambda: known(ap.compare, data=result(), n_resamples=20),
    "compare scores": lambda: known(ap.compare, data=DATA, baseline="m0", method="influence"),
    "contrast": lambda: known(ap.contrast, data=DATA, by=np.arange(40) % 2),
    "rank": lambda: known(ap.rank, data=result(), n_resamples=20),
    "friedman": lambda: known(ap.friedman, data=result(), over="query"),
    "letters": lambda: known(ap.letters, data=result(), n_resamples=20),
    "gate": lambda: known(ap.gate, data=result(), candidate="m1", baseline="m0", margin=0.1, n_resamples=20),
    "gate scores": lambda: known(ap.gate, data=DATA, candidate=["m1", "m2"], baseline="m0"),
    "power": lambda: known(ap.power, data=result(), n_resamples=20),
    "audit": lambda: known(ap.audit, data=result(), n_resamples=20),
    "to_long": lambda: known(ap.to_long, scores=xr.DataTree.from_dict({"a": DATA, "b": DATA})),
    "to_tree": lambda: known(ap.to_tree, scores=DATA.assign_coords(dataset=("item", list("ab") * 20))),
    "from_dataframe": lambda: known(ap.from_dataframe, frame=FRAME, models=["m0"], item="name"),
    "from_values": lambda: known(
        ap.from_values, table={"a": {"t": 0.1, "u": 0.3}, "b": {"t": 0.2, "u": 0.1}}, measure="m"
    ),
    "scorer": lambda: known(ap.scorer, pos_label=1),
    "open_scores": lambda: known(ap.open_scores, store="nowhere"),
    "open_result": lambda: known(ap.open_result, store="nowhere"),
    "open_comparison": lambda: known(ap.open_comparison, store="nowhere"),
    "Accumulator": lambda: known(ap.Accumulator),
    "Accumulator.update": lambda: known(ap.Accumulator().update, score=SCORE, label=LABEL),
    "Accumulator.merge": lambda: known(ap.Accumulator().merge, other=ap.Accumulator()),
    "binormal": lambda: known(binormal),
    "sample": lambda: known(binormal().sample, n_items=50, prevalence=0.2),
    "area": lambda: known(bibeta().area, prevalence=0.2),
    "true curve": lambda: known(offset_uniform().curve, recall=[0.1, 0.5], prevalence=0.2),
}
# Read only after other checks, which their own tests see to.
NOT_DRAWN = {(call, "auxiliary") for call in ("aggregate", "compare", "compare scores")}
NOT_FOUND = ("open_scores", "open_result", "open_comparison")  # valid calls, but for the place
# Functions that write or start something; their own tests refuse what they take beside the options of an evaluation.
ELSEWHERE = {"connect", "export", "from_sklearn", "report", "run", "save_comparison", "save_scores"}


@functools.cache
def parameters_of(call: str) -> tuple[str, ...]:
    function, given = CALLS[call]()
    kinds = inspect.Parameter
    shown = inspect.signature(function).parameters.values()
    return tuple(
        dict.fromkeys(
            [*(one.name for one in shown if one.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)), *given]
        )
    )


def test_every_public_function_is_in_the_table() -> None:
    functions = {name for name in ap.__all__ if inspect.isfunction(getattr(ap, name))}
    assert functions - ELSEWHERE == {call.split()[0] for call in CALLS} & functions


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in a call that takes longer."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(call: str, changed: dict[str, Any], seconds: int = SECONDS) -> str:
    """Return the message of a refusal, "" for a valid call, or what else came of it after an exclamation mark."""
    function, given = CALLS[call]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FewPositivesWarning)  # which a valid call over few items may give
        try:
            with at_most(seconds):
                dask.compute(function(**given | changed))
        except AucprError as error:
            text = str(error).replace(f"; {MEANT}", "\n  remedy: ")  # which stands in the first line
            lacking = [part.strip(" \n:") for part in PARTS if part not in text]
            return f"! no {', no '.join(lacking)}: {error}" if lacking else str(error)
        except Exception as error:
            places = [frame for frame in traceback.extract_tb(error.__traceback__) if "aucpr_dask/" in frame.filename]
            at = f"{places[-1].filename.rpartition('aucpr_dask/')[2]}:{places[-1].lineno}" if places else "outside"
            return f"! {type(error).__name__} in {at}: {str(error)[:160]}"
    return ""


def test_the_calls_of_the_table_are_valid() -> None:
    """This also compiles the kernels, for which the calls below have no time."""
    assert {call: outcome(call, {}, seconds=300) for call in CALLS if call not in NOT_FOUND} == dict.fromkeys(
        CALLS.keys() - {*NOT_FOUND}, ""
    )


# Bad values of each kind of option

NO_NUMBERS: list[Any] = [math.nan, math.inf, -math.inf, -1, True, "0.5", b"1", 1j, [0.5], [], {}, object()]
NO_NAMES: list[Any] = ["", "no_such", "a\x00b", "\ud800", 3, math.nan, True, b"raise", [[1], [2, 3]], object(), ...]
NO_FRACTIONS = [*NO_NUMBERS, 10**400, 0, 1, 1.5, -0.1, np.array([0.1, 0.2]), np.datetime64("2020-01-01"), np.ma.masked]
NO_SHARES = [*NO_FRACTIONS, 5e-324, 1e-310, 1e-101, np.longdouble("1e-4000"), np.complex128(0.5), np.array(0.5)]
BAD_OF_CHECK: dict[str, list[Any]] = {
    "fraction": NO_FRACTIONS,
    "confidence_level": NO_FRACTIONS,
    "share_of_positives": NO_SHARES,
    "margin": [*NO_NUMBERS, 10**400, 0],
    "recall_range": [*NO_NUMBERS, (0.5, 0.5), (0.5, 0.2), (-0.1, 1), (0, 1.1), (0, 0.5, 1), ("0", "1"), (math.nan, 1)],
    "varying": [3, math.nan, True, b"x", object(), [], [3], ["items", "items"]],
    "truth": [1, 0, "yes", math.nan, [True, False], object()],
    "text": [3, math.nan, b"x", ["x"], object(), True],
    "estimator_names": [*NO_NAMES, [], ["average_precision", ["x"]], [None], {}],
    "interval_names": [*NO_NAMES, ["logit", ["x"]], [None]],
    "groupings": [3, math.nan, 1j, [], {}, [None], object(), {3: None}, [("site", 3)], xr.Dataset(), xr.DataTree()],
}


def bad_values_of(option: dataclasses.Field[Any]) -> list[Any]:
    """Return values that no option of this kind allows."""
    allowed, least, most, check = (option.metadata.get(name) for name in ("allowed", "least", "most", "check"))
    if allowed is not None:
        return [*NO_NAMES, allowed[0].upper(), [allowed[0]]]
    if least is not None:
        return [*NO_NUMBERS, least - 1, 2.5, 2.0, "3", np.array([3]), *([] if most is None else [most + 1, 10**400])]
    return [] if check is None else BAD_OF_CHECK[check.__name__]


RECORDED: dict[str, dataclasses.Field[Any]] = {
    one.name: one
    for record in (
        options.ResamplingOptions,
        options.EvaluationOptions,
        options.ComparisonOptions,
        options.AggregationOptions,
    )
    for one in dataclasses.fields(record)
    if one.name != "resampling"
}
ODD_COUNTS: list[Any] = [3.5, "3", "abc", 3 + 0j, [True], [None], [[3], [3, 4]], np.array([3.5]), np.array(["3"])]
NO_COUNTS = [*NO_NUMBERS, *ODD_COUNTS]
NO_WEIGHTS: list[Any] = [math.nan, -1, "3", 1j, [], object()]
# Arguments that no record declares, and do not hold data.
OTHERS: dict[str, list[Any]] = {
    "n_positive": NO_COUNTS,
    "n_negative": NO_COUNTS,
    "thresholds": [[True, False], [], 0.5, ["a"], [math.nan], [1, 1], [1j], [[1], [1, 2]], None],
    "grid": [[], [2.0], [-0.1], ["a"], [math.nan], "abc", object(), [[0.1], [0.2, 0.3]]],
    "tolerance": [math.nan, -1, True, "0.5", 1j, [0.5], object()],
    "kind": NO_NAMES,
    "space": NO_NAMES,
    "convention": NO_NAMES,
    "layout": NO_NAMES,
    "duplicates": NO_NAMES,
    "dtype": [*NO_NAMES, "int8"],
    "dim": [3, object(), 1j],
    "bins": NO_NAMES,
    "memory": [*NO_NUMBERS, 2.5],
    "power": NO_FRACTIONS,
    "difference": [*NO_NUMBERS, 0],
}
# Where a name of the table has another meaning, and what is bad there.
OTHER_MEANINGS: dict[tuple[str, str], list[Any]] = {
    # Sums of weights.
    ("interval", "n_positive"): [math.inf, -1, [], "abc", 3 + 0j, [True, False], [[3], [3, 4]], None],
    ("from_dataframe", "by"): [math.nan, 1j, [None], object()],  # columns, or none
    ("interval", "method"): [],  # a name or several, tested below
    ("letters", "intervals"): ["", "logit", 1, math.nan, [True], None],  # whether to show them
    ("to_roc", "n_positive"): NO_WEIGHTS,
    ("to_roc", "n_negative"): NO_WEIGHTS,
    ("to_precision_recall", "n_positive"): NO_WEIGHTS,
    ("to_precision_recall", "n_negative"): NO_WEIGHTS,
    ("unachievable_precision", "prevalence"): [0, 1, -0.1, 1.5, math.inf, "0.5", 1j, object()],
    ("area", "prevalence"): NO_FRACTIONS,
    ("true curve", "prevalence"): [math.nan, 0, 1, -0.1, 1.5, math.inf, "0.5", 1j, object()],
    ("sample", "seed"): [*NO_NUMBERS, 2.5],
    ("audit", "unit_name"): [3, math.nan, b"x", object()],  # what a row is called
    ("from_values", "unit_name"): [3, math.nan, b"x", object()],
}


def options_of(call: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the options of a call, each with values that it does not allow."""
    for name in parameters_of(call):
        if (call, name) in OTHER_MEANINGS:
            yield name, OTHER_MEANINGS[call, name]
        elif name in OTHERS:
            yield name, OTHERS[name]
        elif name in RECORDED:
            yield name, bad_values_of(RECORDED[name])


@pytest.mark.parametrize("call", CALLS)
def test_values_that_an_option_does_not_allow_are_refused(call: str) -> None:
    wrong = []
    for option, values in options_of(call):
        for value in values:
            message = outcome(call, {option: value})
            if not message or message.startswith("!") or option.removesuffix("s") not in message:
                wrong.append(f"{option}={brief(value)}: {message or 'accepted'}")
    assert not wrong, "\n".join(wrong)


# Anything, anywhere


class Odd:
    """An object that is nothing in particular."""

    def __repr__(self) -> str:
        return "Odd()"


def anything() -> list[Any]:
    """Return values of all kinds, allowed in one place or none."""
    numbers = (math.nan, math.inf, -math.inf, -0.0, 0, 1, -1, 2, 0.5, 1.5, 1e308, 10**20, -(10**20), 10**400, 1j)
    texts = ("", "x", "average_precision", "logit", "item", "drop", "...", "0.5", "a" * 500)
    texts += ("nul\0", "\ud800", "\x1b[31m")
    scalars = (True, np.True_, np.float16(0.5), np.longdouble(0.5), np.int8(1), np.uint64(2**64 - 1), np.complex64(1))
    missing = (None, pd.NaT, pd.NA, np.datetime64("NaT", "s"))
    others = (decimal.Decimal("0.5"), fractions.Fraction(1, 2), datetime.date(2020, 1, 1), np.timedelta64(1, "D"))
    objects = (Odd(), Odd, lambda x: x, b"bytes", bytearray(b"x"), slice(2), pathlib.Path("nowhere"), pd.Timestamp(0))
    groups = ({1, 2}, {}, {"a": 1}, frozenset(), (), [], [[1], [2, 3]], range(3), iter([1, 2]), pd.DataFrame())
    shapes = tuple(np.ones(shape) for shape in [(), (0, 3), (3, 0), 40, (3, 40), (4, 40), (2, 2, 2)])
    kinds = tuple(np.ones(40, kind) for kind in ("f2", "longdouble", ">f8", complex, bool, "U1", "S1", "M8[D]", "i8"))
    masked, records = np.ma.masked_array([1.0, 2], [True, False]), np.zeros(3, [("a", "f8")])
    arrays = (np.full(40, np.nan), np.array([None, 1], object), masked, records)
    lazy = (da.ones(40), da.ones((3, 40), chunks=(1, 7)), da.from_array(np.array(["x"] * 40)))
    labelled = (pd.Series(np.ones(40)), pd.Series(np.ones(40), range(1, 41)), FRAME, pd.Index(["a"]), xr.DataArray(1.0))
    trees = (xr.DataTree(), xr.DataTree.from_dict({"a": DATA}))
    ours = (DATA, DATA["score"], DATA["label"], xr.Dataset(), *trees, QUERIES, result())
    scalars += (*missing, *others, *objects, *groups)
    return [*numbers, *texts, *scalars, *shapes, *kinds, *arrays, *lazy, *labelled, *ours]


@pytest.mark.parametrize(
    ("n_calls", "seed"),
    [
        (500, 0),
        pytest.param(3000, 1, marks=pytest.mark.slow),
        pytest.param(10_000, 1, marks=(pytest.mark.slow, pytest.mark.nightly)),
    ],
)
def test_any_value_of_any_argument_is_refused_or_valid(
    n_calls: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a valid path is written to
    rng, values = np.random.default_rng(seed), anything()
    wrong, counts = [], Counter()
    for call in itertools.islice(itertools.cycle(CALLS), n_calls):
        drawn = [name for name in parameters_of(call) if (call, name) not in NOT_DRAWN]
        names = rng.choice(drawn, rng.choice([1, 1, 2]))
        changed = {str(name): values[rng.integers(len(values))] for name in names}
        message = outcome(call, changed)
        counts["wrong" if message.startswith("!") else "refused" if message else "valid"] += 1
        if message.startswith("!"):
            wrong.append(f"{call}, {str(changed)[:300]}: {message}")
    assert not wrong, "\n".join(wrong[:10])
    assert counts["refused"] > 0.7 * n_calls


def refused(call: Callable[[], Any]) -> str:
    """Return the message of the error in which a call ends, which must have all parts; warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInputError) as caught:
            call()
    message = str(caught.value)
    assert all(part in message for part in PARTS), message
    return message


# Grades, counts, and orders of tied items


def test_the_highest_grade() -> None:
    graded = [127, 126, 0, 127, 1]
    assert ap.estimate(SCORE, graded, positive_from=127) == ap.estimate(SCORE, [1, 0, 0, 1, 0])
    assert ap.estimate(SCORE, graded, positive_from=np.int8(127)) == 0.75


@pytest.mark.parametrize("command", ["evaluate", "plan", "info"])
@pytest.mark.parametrize("grade", ["128", "0", "1.5", "nan", "yes"])
def test_grades_on_the_command_line(command: str, grade: str, tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    to = [] if command == "info" else [str(tmp_path / "result.zarr")]
    done = CliRunner().invoke(main, [command, str(tmp_path / "scores.zarr"), *to, "--positive-from", grade])
    assert done.exit_code == 2
    assert "positive-from" in done.stderr
    assert grade in done.stderr


@pytest.mark.parametrize("size", ["abc", "1e999", "-5", "0", "nan", "4 parsecs"])
def test_amounts_of_memory_on_the_command_line(size: str, tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    done = CliRunner().invoke(main, ["plan", str(tmp_path / "scores.zarr"), "--memory", size])
    assert done.exit_code == 2
    assert f"'--memory'\n  received: '{size}'" in done.stderr


@pytest.mark.parametrize("n", [31, 33, 64])
def test_more_dimensions_than_results_can_have(n: int) -> None:
    with pytest.raises(InvalidInputError, match=rf"too many dimensions\s+where: argument 'score'\s+received: {n}"):
        ap.estimate(np.zeros((1,) * (n - 1) + (5,)), LABEL)
    assert ap.estimate(np.zeros((1,) * 29 + (5,)), LABEL).ndim >= 29


def test_a_number_of_positives_is_one_of_any_type() -> None:
    assert len({ap.estimate(SCORE, LABEL, n_positive=kind(60)) for kind in (int, float, np.uint8, np.float32)}) == 1
    assert ap.interval(0.5, 3.5).shape == (2,)  # a sum of weights


@pytest.mark.parametrize("count", [math.inf, math.nan, 3.5, -1.0])
def test_numbers_of_positives_in_dask_arrays(count: float) -> None:
    lazy = da.from_array(np.array([3.0, count]), chunks=1)
    both = np.array([SCORE, SCORE])
    assert "n_positive" in refused(lambda: ap.estimate(da.from_array(both, (1, 5)), LABEL, n_positive=lazy).compute())
    labelled = xr.DataArray(both, dims=("model", "item")).chunk({"model": 1}), xr.DataArray(LABEL, dims="item")
    total = xr.DataArray(lazy, dims="model")
    assert "n_positive" in refused(lambda: ap.estimate(*labelled, n_positive=total).compute())


TIED = [0.5, 0.5, 0.5, 0.2, 0.1]


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize(
    "order",
    [
        *([0, 1, math.nan, 3, 4], list("abcde"), [0, 1, 2j, 3, 4], [0, 0, 0, 0, 0], [0, 1, 1, 2, 3], [None] * 5),
        *([True] * 5, [math.inf, 0, 1, 2, 3]),
    ],
)
def test_an_order_of_tied_items_is_one(order: list[Any], is_lazy: bool) -> None:
    score, places = np.array(TIED), np.array(order)
    given = (da.from_array(score, -1), da.from_array(places, -1)) if is_lazy else (score, places)
    call = lambda: np.asarray(ap.estimate(given[0], LABEL, ties="trec_eval", tie_order=given[1]))  # noqa: E731
    assert "tie_order" in refused(call)


def test_an_order_of_tied_items_starts_again_in_each_tie_group() -> None:
    received = ap.estimate([0.5, 0.5, 0.2, 0.2], [0, 1, 0, 1], ties="trec_eval", tie_order=[1, 0, 0, 1])
    assert received == ap.estimate([3, 4, 2, 1], [0, 1, 0, 1])
    with pytest.raises(InvalidInputError, match="tie_order"):
        ap.estimate([math.nan] * 3, [0, 1, 0], missing="last", ties="trec_eval", tie_order=[0, 1, 1])
    padded = [0.5, 0.5, math.nan, math.nan]
    assert ap.estimate([0.5] * 3, [1, 0, 0], ties="trec_eval", tie_order=[0, 1, 1]) == 1  # of one class
    assert ap.estimate(padded, [0, 1, -2, -2], missing="last", ties="trec_eval", tie_order=[1, 0, -1, -1]) == 1


# Scores that float64 cannot tell apart

CLOSE = np.array([2**53, 2**53 + 1, 3])


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.longdouble])
@pytest.mark.parametrize("read", [ap.estimate, ap.curve], ids=lambda function: function.__name__)
def test_scores_that_would_tie(read: Callable[..., Any], kind: type) -> None:
    if kind is np.longdouble and np.finfo(kind).nmant < 63:
        pytest.skip("long double has no more digits than double here")
    label, score = np.array([0, 1, 1]), CLOSE.astype(kind)
    labelled = xr.DataArray(score, dims="item"), xr.DataArray(label, dims="item")
    grid = {"grid": [0.5]} if read is ap.curve else {}
    calls: list[Callable[[], Any]] = [
        lambda: read(score, label),
        lambda: read(*labelled),
        lambda: np.asarray(read(da.from_array(score, 3), da.from_array(label, 3), **grid)),
        lambda: np.asarray(read(labelled[0].chunk(), labelled[1], **grid)),
        *([] if grid else [lambda: np.asarray(read(da.from_array(score, 1), da.from_array(label, 1)))]),
    ]
    for call in calls:
        message = refused(call)
        assert "variable 'score'" in message
        assert str(np.dtype(kind)) in message
    fine = np.array([2**53, 2**53 - 1, 3]).astype(kind)
    expected = np.asarray(read([3.0, 2.0, 1.0], label, **grid))
    np.testing.assert_array_equal(read(da.from_array(fine, 3), da.from_array(label, 3), **grid), expected)


def test_data_sets_hold_floats_of_up_to_64_bits() -> None:
    wide = pooled().assign(score=pooled()["score"].astype(np.longdouble))
    if wide["score"].dtype.itemsize > 8:
        assert "variable 'score'" in refused(lambda: ap.evaluate(wide))


@pytest.mark.parametrize("cell", ["9007199254740993", "-9007199254740993", "+18446744073709551617"])
def test_integers_of_a_table_are_not_rounded(cell: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(f"y,a,b\n1,9007199254740992,1e300\n0,{cell},9007199254740994\n")
    message = refused(lambda: import_table(tmp_path / "s.csv", tmp_path / "s.zarr", label="y", models=["a", "b"]))
    assert "line 3, column 'a'" in message
    assert f"received: {cell}" in message
    import_table(tmp_path / "s.csv", tmp_path / "s.zarr", label="y", models="b")


# Labels of items


@pytest.mark.parametrize("role", ["label", "weight", "positive_weight", "tie_order", "n_positive"])
def test_arrays_with_other_labels_are_refused(role: str) -> None:
    labels = [f"d{i}" for i in range(5)]
    pairs: list[tuple[Any, Any]] = [
        (xr.DataArray(LABEL, {"item": labels}, "item"), score)
        for score in (SCORE, np.array(SCORE), da.from_array(SCORE, -1), pd.Series(SCORE, labels))
    ]
    if role != "n_positive":
        pairs += [
            (pd.Series(LABEL, labels), pd.Series(SCORE, labels[::-1])),
            (pd.Series(LABEL)[::-1], pd.Series(SCORE)),
        ]
    for labelled, score in pairs:
        given = {"label": LABEL, role: labelled}
        message = refused(lambda given=given, score=score: ap.estimate(score, **given))
        assert "argument" in message or role == "positive_weight"
        if role in ("label", "n_positive"):
            refused(lambda given=given, score=score: ap.curve(score, **given))


def test_pandas_objects_of_one_index() -> None:
    frame = pd.DataFrame({"score": SCORE, "label": LABEL, "weight": 1.0}, index=list("edcba"))
    expected = ap.estimate(SCORE, LABEL)
    assert ap.estimate(frame["score"], frame["label"], weight=frame["weight"]) == expected
    assert ap.estimate(frame[["score"]].T, frame["label"])[0] == expected
    with pytest.raises(AlignmentError, match="'label' labelled 'e', 'd'"):
        ap.estimate(pd.Series(SCORE), frame["label"])


def test_plain_arrays_are_matched_with_pandas_objects_by_position() -> None:
    label = pd.Series(LABEL, index=[7, 3, 9, 1, 4])  # as from a random split
    assert ap.estimate(np.array(SCORE), label) == ap.estimate(SCORE, LABEL)
    assert ap.estimate(pd.Series(SCORE, label.index), LABEL) == ap.estimate(SCORE, LABEL)


def test_intervals_of_labelled_estimates() -> None:
    estimate = xr.DataArray([0.5, 0.6], {"model": ["a", "b"]}, "model")
    refused(lambda: ap.interval(estimate, np.array([3, 4])))
    refused(lambda: ap.interval([0.5, 0.6], estimate * 10))
    assert ap.interval(estimate, 3).dims == ap.interval(estimate, np.array(3)).dims == ("model", "ci_bound")


def test_nothing_in_place_of_scores() -> None:
    for function in (ap.estimate, ap.curve):
        assert "there are no scores" in refused(lambda function=function: function(None, LABEL))
