"""The terminal views: what they show, and that it fits."""

import dataclasses
import io
import json
import math
import unicodedata

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import Clock, pooled, queried
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import aucpr_dask as ap
from aucpr_dask import evaluate
from aucpr_dask.progress import console_for, reporting
from aucpr_dask.schema.terms import FLAG_BITS
from aucpr_dask.view.rankings import Document, rank_models, ranking_sheet, rankings_view
from aucpr_dask.view.stores import result_view, scores_view, summarize_flags
from aucpr_dask.view.tables import Column, distinct, fitted_table, interval_bar, number, plain, shorten

NASTY = ["[bold red]x[/]", "模型" * 40, "a\x1b[31mred", "line\nbreak", "tab\there", ":smile:", "", "e\u0301" * 60]


def render(view: object, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(view)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def ranking(names: list[str], data_set: str = "reviews", uneven: bool = False, interval: str = "t") -> Document:
    models = pd.DataFrame(
        [
            (i + 1, name, 0.9 - 0.01 * i, 0.8 - 0.01 * i, 0.95 - 0.01 * i, 14 - (uneven and i == 1))
            for i, name in enumerate(names)
        ],
        columns=["rank", "model", "estimate", "lower", "upper", "n_queries"],
        dtype=object,
    )
    facts = {"data_set": data_set, "estimator": "average_precision", "interval": interval, "level": 0.95}
    facts |= dict.fromkeys(("n_classes", "n_repeats", "average", "unit"))
    return facts | {"n_queries": 14, "models": models}


def sizes_of(*names: str) -> pd.DataFrame:
    size = {"n_models": 12_345, "n_queries": 43, "n_items": 1_000_000_000, "n_positive": 123_456_789, "n_negative": 9e8}
    size |= {"prevalence_min": 0.00012, "prevalence_median": 0.0391, "prevalence_max": 0.31, "n_missing": 1_234_567}
    return pd.DataFrame([{"data_set": name, **size, "n_classes": None} for name in names], dtype=object)


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("uneven", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, uneven: bool) -> None:
    one = ranking([*NASTY, "m" * 300], data_set="d" * 200, uneven=uneven)
    flag = {"flag": "few_positives", "description": "Fewer than 20. " * 9, "count": 3, "of": 9}
    flags = pd.DataFrame([flag | {"places": ["place " * 50, *NASTY], "more_places": 2}])
    missing = pd.DataFrame([{"data_set": "d" * 100, "model": "m" * 100, "n_missing": 1_000_000, "share": 0.1234}] * 9)
    shared = {"url": "u" * 30, "n_rankings": 10**7, "data_sets": sizes_of(*NASTY, "s" * 90, "t"), "flags": flags}
    views = [
        rankings_view([one] * 20),
        scores_view(shared | {"missing": missing, "grades_up_to": 3, "positive_from": 1}),
        result_view(shared | {"attrs": {"options": "x" * 500}, "rankings": [one]}),
    ]
    for view in views:
        lines = render(view, width)
        assert max(map(cell_len, lines)) <= width
        assert not any("\x1b" in line for line in lines)


def test_every_model_has_one_line_with_its_numbers() -> None:
    lines = render(ranking_sheet([ranking(["best", "[bold]second[/bold]"])]))
    assert lines[0].startswith("reviews  average precision, mean of 14 queries, t interval")
    assert lines[1].split()[:5] == ["model", "area", "95", "%", "interval"]
    assert lines[2].split()[:5] == ["1", "best", "0.9000", "[0.800,", "0.950]"]
    assert "[bold]second[/bold]" in lines[3]
    assert "queries" not in lines[1]
    assert "queries" in render(ranking_sheet([ranking(["a", "b"], uneven=True)]))[1]


def test_hidden_rows_are_counted() -> None:
    lines = render(ranking_sheet([ranking([f"m{i}" for i in range(10)])], 3))
    assert lines[-1] == "and 7 more models"
    assert sum(line.split()[0].isdigit() for line in lines[2:-1]) == 3
    assert "and 12 more data sets" in render(rankings_view([ranking(["a"])] * 20))[-1]
    assert "and 92 more data sets" in render(rankings_view([ranking(["a"])] * 8, n_data_sets=100))[-1]


def test_no_more_data_sets_are_ranked_than_are_shown() -> None:
    scores = xr.Dataset({"score": (("model", "item"), [[0.9, 0.1, 0.4]]), "label": ("item", [1, 0, 1])})
    result = evaluate(xr.DataTree.from_dict({f"d{place}": scores for place in range(5)}))
    whole, first = (rank_models(result, most=most) for most in (None, 2))
    assert [one["data_set"] for one in whole] == [f"d{place}" for place in range(5)]
    assert list(map(plain, first)) == list(map(plain, whole[:2]))


def test_undefined_areas_come_without_rank_and_bar() -> None:
    nothing = ranking(["broken"])
    nothing["models"][["rank", "estimate", "lower", "upper"]] = [None, math.nan, math.nan, math.nan]
    lines = render(ranking_sheet([nothing]))
    assert lines[2].split() == ["-", "broken", "-", "-"]


@pytest.mark.parametrize("width", range(1, 40))
def test_shortened_names_fill_their_width_and_no_more(width: int) -> None:
    for name in [*NASTY, "x" * 39, "x" * 40]:
        short = shorten(name, width)
        assert cell_len(short) <= width
        assert short.isprintable()
    assert cell_len(shorten("x" * 50, width)) == width


NAMES = st.lists(st.text(alphabet="ab_é0\u0301漢", max_size=30), min_size=1, max_size=12)


@given(NAMES, st.integers(8, 20))
@example(["colbert_rank_2020-judged", "colbert_rank_2019-2020-judged", "colbert_rank_2018-2020-judged"], 12)
@example(["…1", "x" * 20 + "a" + "x" * 20, "x" * 20 + "b" + "x" * 20], 8)
@example(["\u00e9", "e\u0301"], 8)
def test_different_names_of_a_table_never_print_alike(names: list[str], width: int) -> None:
    shown = distinct(names, width)
    assert len(set(zip(names, shown, strict=True))) == len(set(names)) == len(set(shown))
    assert all(cell_len(text) <= width for text in shown)
    whole = [unicodedata.normalize("NFC", name) for name in names]
    if len(set(whole)) == len(set(names)) and max(map(cell_len, whole)) <= width:
        assert shown == whole


def test_names_are_cut_where_they_agree() -> None:
    runs = [f"Padua_ims_iafapc_m{m}p20f0t{t}p2m10" for m, t in [(10, 150), (10, 300), (20, 150)]]
    assert distinct(runs, 24) == ["Padua_i…10p20f0t150p2m10", "Padua_ims_ia…f0t300p2m10", "Padua_i…20p20f0t150p2m10"]
    years = [f"{'a' * 30}_2020_{middle}_{'z' * 30}" for middle in ("first", "second")]
    assert distinct(years, 16) == ["aaaa…first…zzzz", "aaaa…second…zzzz"]
    assert distinct(["short", "x" * 20], 10) == ["short", "xxxxx…xxxx"]


def test_shortened_names_keep_both_ends() -> None:
    assert shorten("Padua_ims_iafapc_m10p20f0t300p2m10", 16) == "Padua_im…00p2m10"
    assert shorten("short", 5) == "short"


def test_bars_lie_where_their_numbers_are() -> None:
    assert interval_bar(0.0, 0.5, 1.0, (0.0, 1.0), 11) == "─────●─────"
    assert interval_bar(0.5, 0.5, 0.5, (0.0, 1.0), 11) == "     ●"
    assert interval_bar(0.4, 0.5, 0.6, (0.0, 1.0), 11, ascii_only=True) == "    -o-"
    assert interval_bar(math.nan, math.nan, math.nan, (0.0, 1.0), 11) == ""
    assert interval_bar(math.nan, 0.5, math.nan, (0.5, 0.5), 11) == "     ●"


def test_numbers_are_never_cut_for_names() -> None:
    table = fitted_table([Column("model", ["x" * 200], name=True), Column("n", ["123,456,789"], right=True)], 40)
    assert render(table, 40)[1].endswith("123,456,789")


def test_console_is_no_wider_than_people_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert console_for().width == 200
    monkeypatch.setenv("COLUMNS", "160")
    assert console_for().width == 160
    monkeypatch.setenv("COLUMNS", "80")
    assert console_for().width == 80


def flagged(bits: np.ndarray) -> xr.Dataset:
    dims = ("model", "query")[: bits.ndim]
    names = {dim: [f"{dim[0]}{i}" for i in range(n)] for dim, n in zip(dims, bits.shape, strict=True)}
    return xr.Dataset({"flags": (dims, bits)}, coords=names)


def test_flags_are_counted_and_named_by_the_widest_place() -> None:
    few, constant = FLAG_BITS["few_positives"], FLAG_BITS["constant_scores"]
    bits = np.zeros((3, 4), dtype=np.int64)
    bits[:, 2] |= few
    bits[1, :] |= constant
    bits[2, 3] |= constant
    flags = summarize_flags([("a", flagged(bits))]).set_index("flag")
    assert set(flags.index) == {"few_positives", "constant_scores"}
    assert flags.loc["few_positives", ["count", "of", "places"]].tolist() == [3, 12, ["a: query q2"]]
    assert flags.loc["constant_scores", ["count", "places"]].tolist() == [5, ["a: m1", "a: m2, query q3"]]


def test_a_model_is_named_once_for_its_flags_in_several_repeats() -> None:
    bits = np.zeros((3, 1, 4), dtype=np.int64)
    bits[1, :, :2] = bits[2, 0, 3] = FLAG_BITS["few_positives"]
    scores = flagged(bits[:, 0]).rename(query="repeat")
    assert summarize_flags([("", scores)])[["places", "count", "of"]].values.tolist() == [[["m1", "m2"], 3, 12]]
    queries = xr.Dataset({"flags": (("model", "repeat", "query"), np.repeat(bits.transpose(0, 2, 1), 2, axis=2))})
    queries["flags"][2, 3, 1] = 0
    assert summarize_flags([("", queries)])["places"].tolist() == [["model 1", "model 2, query query 0"]]


def test_flags_of_every_ranking_are_one_place() -> None:
    bits = np.full(3, FLAG_BITS["few_positives"])
    flags = summarize_flags([("", flagged(bits)), ("b", flagged(np.zeros(7, dtype=np.int64)))])
    assert flags[["places", "count", "of"]].values.tolist() == [[["all 3 rankings"], 3, 10]]


def test_only_the_first_places_are_kept() -> None:
    bits = np.zeros(30, dtype=np.int64)
    bits[:9] = FLAG_BITS["heavy_ties"]
    flags = summarize_flags([("", flagged(bits))])
    assert flags[["places", "more_places"]].values.tolist() == [[["m0", "m1", "m2", "m3", "m4"], 4]]


def test_plain_is_strict_json() -> None:
    @dataclasses.dataclass
    class Record:
        models: pd.DataFrame

    record = Record(ranking(["a"])["models"])
    document = {"x": np.float32(0.5), "n": np.int64(3), "bad": [np.nan, math.inf], "r": record, "array": np.arange(2)}
    parsed = json.loads(json.dumps(plain(document), allow_nan=False))
    assert parsed["bad"] == [None, None]
    assert parsed["r"]["models"][0]["model"] == "a"
    assert (parsed["x"], parsed["n"], parsed["array"]) == (0.5, 3, [0, 1])


def log() -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=False)


def test_a_log_gets_a_line_every_few_seconds(clock: Clock) -> None:
    console = log()
    with reporting(console) as report:
        for step in range(1, 1001):
            clock.now = step * 0.01
            report("reading runs", step, 1000, "3 rankings/s")
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 4
    assert lines[0] == "reading runs: 300 of 1,000 (30%), 3 rankings/s, 3 s"
    assert lines[-1] == "reading runs: 1,000 of 1,000 (100%), 3 rankings/s, 10 s"


def test_a_log_gets_nothing_of_quick_work(clock: Clock) -> None:
    console = log()
    with reporting(console) as report:
        report("reading runs", 1, 1)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_a_terminal_gets_one_bar_for_each_kind_of_work_while_it_lasts() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with reporting(console) as report:
        report("evaluating", 0, 0, "starting the workers")
        for step in range(3):
            report("reading [bold]runs", step + 1, 3)
            report("evaluating", step, 3, "5 rankings/s")
    written = console.file.getvalue()  # type: ignore[attr-defined]
    evaluating, reading = written.split("\r")[-2].splitlines()[:2]
    assert "reading [bold]runs" in reading
    assert "3/3" in reading
    assert "2/3 5 rankings/s" in evaluating
    assert written.endswith("\x1b[1A\x1b[2K" * 2)


def test_every_answer_shows_what_it_found_at_a_prompt_and_in_a_notebook() -> None:
    queries, items = queried(3, 12), pooled(3, 400)
    repeats = items.expand_dims(repeat=2).transpose("model", ..., "item")
    result = ap.evaluate(queries, missing="drop")
    answers = {
        "mean of 12 queries": (ap.aggregate(result), "estimate"),
        "3 models": (ap.aggregate(ap.evaluate(items)), "estimate"),
        "95 % interval": (ap.aggregate(ap.evaluate(items)), "estimate"),
        "2 repeats": (ap.aggregate(ap.evaluate(repeats.assign(label=items["label"]))), "estimate"),
        "detectable": (ap.power(result, "m0").sel(model=["m1", "m2"]), "detectable"),
        "rank set": (ap.rank(result, n_resamples=200), "estimate"),
        "adjusted": (ap.compare(result, n_resamples=200), "estimate"),
        "p_adjusted": (ap.chance(items["score"], items["label"]), "p_adjusted"),
    }
    for words, (answer, name) in answers.items():
        assert words in repr(answer.aucpr), words
        for shown in (repr(answer.aucpr), answer.aucpr._repr_html_()):
            for value in np.ravel(answer[name].values)[:3]:
                assert (f"{value:.2g}" if name == "detectable" else number(value)) in shown, (words, shown)
    design = str(ap.aggregate(result).attrs["design"])
    assert design in " ".join(repr(ap.aggregate(result).aucpr).split())


def test_adjusted_p_values_out_of_order_are_explained() -> None:
    """A pair with a smaller p-value has the larger adjusted one if its differences are skewed."""
    random = np.random.default_rng(5)
    values = [random.beta(2, 3, 10)]
    for side in (-1, 1, -1, 1):
        skewed = (random.exponential(1, 10) ** 2 - 0.5) * 0.03 * side
        values.append(values[0] + skewed + 0.05 * (side < 0))
    result = xr.Dataset({"estimate": (("model", "query"), values)}, {"model": list("abcde")})
    for adjust in ("romano_wolf", "holm"):
        found = ap.compare(result, "a", adjust=adjust)
        in_order = found["p_adjusted"].values[np.argsort(found["p_value"].values)]
        is_odd = bool((np.diff(in_order[~np.isnan(in_order)]) < -0.00005).any())
        assert is_odd == (adjust == "romano_wolf")
        assert ("adjusted p-values go by" in " ".join(repr(found.aucpr).split())) == is_odd


def test_ranks_of_groups_are_whole_and_a_group_without_an_answer_is_named() -> None:
    random = np.random.default_rng(0)
    label = (random.random((3, 300)) < 0.2).astype("int8")
    label[1] = 0
    score = random.normal(size=(2, 3, 300)) + label * np.array([1, 1.4])[:, None, None]
    variables = {"score": (("model", "lead", "item"), score), "label": (("lead", "item"), label)}
    said = str(ap.rank(xr.Dataset(variables, {"model": ["a", "b"], "lead": [6, 24, 72]})).aucpr)
    assert "  1-2  " in said
    assert "1.0" not in said
    assert "no answer for lead 24" in said
