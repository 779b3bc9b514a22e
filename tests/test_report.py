"""The report: its text, and its behaviour in a browser."""

import csv
import dataclasses
import hashlib
import inspect
import io
import json
import re
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from conftest import ok, pooled, queried, without_its_scores

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import AlignmentError
from aucpr_dask.evaluation.results import SCORES
from aucpr_dask.schema.options import ReportOptions
from aucpr_dask.view.rankings import rank_models
from aucpr_dask.view.report import subjects, writing
from aucpr_dask.view.report.pages import UPLOT_FILES
from aucpr_dask.view.report.subjects import subjects_of

NASTY = [
    "</script><script>hacked=1</script>",
    "<img src=x onerror=hacked=1>",
    '&lt;b&gt; & "quotes" \'n all',
    "a\x1b[31mred\u202e",
    "=HYPERLINK(A1)",
    "+1",
    '@x, "y"',
    "-2\nnew line",
    "{{ 7 * 7 }} {% raw %}",
    " =2+2",
    "＝3+3",  # noqa: RUF001 (full width is meant)
    "模型",
    "",
]
AXE = ("axe-core@4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745")


class Page(HTMLParser):
    """The parts of a page that tests look at."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.words: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] += data
        elif self._in == "style":
            self.styles.append(data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])


def of_queries(n_models: int, n_queries: int, seed: int = 0, names: list[str] | None = None) -> xr.Dataset:
    """A result over queries whose models differ a little, with intervals."""
    random = np.random.default_rng(seed)
    estimate = np.clip(
        random.normal(0.4, 0.1, (n_models, 1)) + random.normal(0, 0.12, (n_models, n_queries)), 0.01, 0.99
    )
    n_positive = np.broadcast_to(random.integers(5, 90, n_queries), estimate.shape).astype(float)
    interval = np.asarray(ap.interval(estimate, n_positive))
    labels = np.array(names or [f"m{i:04d}" for i in range(n_models)], dtype=object)
    return xr.Dataset(
        {
            "estimate": (("model", "query", "estimator"), estimate[..., None]),
            "interval": (("model", "query", "estimator", "interval_method", "ci_bound"), interval[:, :, None, None]),
            "n_positive": (("model", "query"), n_positive),
            "prevalence": (("model", "query"), n_positive / 1000),
            "flags": (("model", "query"), np.where(n_positive < 20, 4, 0).astype(np.int32)),
        },
        coords={
            "model": labels,
            "query": [f"q{i}" for i in range(n_queries)],
            "estimator": ["average_precision"],
            "interval_method": ["logit"],
            "level": 0.95,
        },
        attrs={"ties": "group", "missing": "unretrieved", "unjudged": "negative"},
    )


def written(result: Any, folder: Path, **options: Any) -> Page:
    return Page(ap.report(result, folder / "report.html", **options).read_text(encoding="utf-8"))


# --- the page as text --------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_page_loads_nothing_from_outside(tmp_path: Path) -> None:
    page = written(ap.evaluate(queried()), tmp_path, scores=queried())
    addresses = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href")]
    assert addresses
    assert all(str(value).startswith(("#", "data:")) for value in addresses)
    assert "sourceMappingURL" not in "".join(page.scripts)
    assert "url(" not in "".join(page.styles)
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    run = [body for body, (_, attrs) in zip(page.scripts, filter(_is_script, page.tags), strict=True) if not attrs]
    assert len(run) == len(re.findall("sha256-", policy)) - 1 == 2  # and the style


def _is_script(tag: tuple[str, Any]) -> bool:
    return tag[0] == "script"


def test_vendored_files_are_those_of_their_packages() -> None:
    folder = resources.files("aucpr_dask.view.report") / "vendored"
    assert {file.name for file in folder.iterdir()} == set(UPLOT_FILES)
    for name, digest in UPLOT_FILES.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert "MIT" in (folder / "uplot.LICENSE").read_text(encoding="utf-8")


def test_names_are_inert_in_the_source(tmp_path: Path) -> None:
    result = of_queries(len(NASTY), 3, names=NASTY)
    page = written(result.assign_coords(query=NASTY[:3]), tmp_path, title=NASTY[0])
    assert not [attrs for tag, attrs in page.tags if tag == "img" or "onerror" in attrs]
    assert len(page.scripts) == 3 + len([1 for tag, attrs in page.tags if str(attrs.get("id")).startswith("payload-")])
    shown = page.data["names"][0]
    assert shown[:2] == NASTY[:2]
    assert shown[3] == r"a\x1b[31mred\u202e"
    assert shown[-1] == "(model without a name)"
    assert "{{ 7 * 7 }}" in page.data["names"][0][8]
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "\x1b" not in source
    assert "\u202e" not in source


def test_names_that_look_alike_are_distinguished(tmp_path: Path) -> None:
    result = of_queries(3, 4, names=["a\x1b", "a\\x1b", "a"])
    assert written(result, tmp_path).data["names"] == [[r"a\x1b", r"a\x1b (number 1)", "a"]]


def test_names_fit_the_picture_of_ranks_and_units_have_one_name(tmp_path: Path) -> None:
    names = [f"colbert_rankgpt4o_msmarco_{'W' * i}_{i}" for i in range(12)]
    rows = pd.DataFrame(np.random.default_rng(0).random((12, 9)), names, [f"t{i}" for i in range(9)])
    values = ap.from_values(rows.rename_axis("model").reset_index(), measure="P@10", unit_name="topic")
    ap.report(values, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    texts = re.findall(r'<text x="190"[^>]*?(?:textLength="([\d.]+)"[^>]*)?>([^<]*)<', page)
    assert len(texts) == 12
    assert all(float(room) <= 190 if room else len(name) <= 15 for room, name in texts)
    assert not re.search(r"\bquer(y|ies)\b", re.sub(r"<(script|style).*?</\1>|<[^>]*>", "", page, flags=re.DOTALL))


@pytest.mark.smoke
def test_same_result_gives_the_same_page(tmp_path: Path) -> None:
    result = of_queries(5, 6)
    first = ap.report(result, tmp_path / "a.html").read_bytes()
    assert ap.report(result.copy(), tmp_path / "b.html").read_bytes() == first
    assert ap.report(of_queries(5, 6, seed=1), tmp_path / "c.html").read_bytes() != first


def test_words_follow_the_result(tmp_path: Path) -> None:
    text = written(of_queries(4, 6), tmp_path).text
    assert "mean over the queries" in text
    assert "95 % logit" in text
    assert "queries with an estimate (up to 6)" in text
    assert "Few queries: 6" in text
    assert "4 models make 6 pairs" in text
    assert "was not retrieved" in text
    bootstrapped = ap.evaluate(pooled(3, 60), interval=["bootstrap"], n_resamples=200, seed=7, level=0.9)
    bootstrapped.attrs.pop(SCORES)
    page = written(bootstrapped, tmp_path, overwrite=True)
    text = page.text
    assert "Resampled: items, positives and negatives together, 200 times, seed 7" in text
    assert "fall short of their level" in text
    assert "keeps no replicates" in page.data["sections"][0]["estimators"][0]["why"]
    plenty = of_queries(2, 40)
    plenty["n_positive"] = plenty["n_positive"] * 0 + 500
    text = written(plenty.assign(flags=plenty["flags"] * 0), tmp_path, overwrite=True).text
    assert "Few positives" not in text
    assert "Few queries" not in text
    assert "pairs" not in text.partition("Method")[0]


def test_one_sentence_says_who_leads_and_how_many_may(tmp_path: Path) -> None:
    result = of_queries(4, 30)
    means = ap.aggregate(result).squeeze()
    best = means["estimate"].idxmax().item()
    lower, upper = means["interval"].sel(model=best).values
    may = int((ap.rank(result)["simultaneous_rank_interval"].sel(ci_bound="lower") == 1).sum())
    said = (
        f"{best} leads (average precision {float(means['estimate'].max()):.2f}, 95 % interval {lower:.2f} to "
        f"{upper:.2f}); {may} of 4 models may be the best."
    )
    assert said in written(result, tmp_path).text
    baseline = str(result["model"].values[0])
    pairs = ap.compare(result, baseline=baseline)
    differs = pairs["p_adjusted"] <= 0.05
    better, worse = (int((differs & side).sum()) for side in (pairs["difference"] > 0, pairs["difference"] < 0))
    text = written(result, tmp_path, overwrite=True, baseline=baseline).text
    assert f"; {better} of 3 other models beat {baseline}, and {worse} do{'es' * (worse == 1)} worse (5 % level" in text
    with pytest.raises(ap.errors.InvalidInputError, match="no data set has this baseline"):
        ap.report(result, tmp_path / "other.html", baseline="nobody")
    undefined = result.assign(estimate=result["estimate"] * np.nan)
    assert " leads (" not in written(undefined, tmp_path, overwrite=True).text


def test_coverage_in_words_is_that_of_the_study() -> None:
    table = pd.read_csv(Path(__file__).parents[1] / "docs" / "study" / "defaults.csv").set_index("question")["coverage"]
    assert table["average precision"].min() == pytest.approx(writing.COVERAGE["positives"][1], abs=5e-4)
    of_clusters = table["`average_precision` of clusters"].mean()
    assert of_clusters == pytest.approx(writing.COVERAGE["clusters with positives"][1], abs=5e-3)


def test_words_distinguish_data_sets_that_were_read_differently(tmp_path: Path) -> None:
    tree = {
        "plain": ap.evaluate(pooled(3, 60), "roc_area"),
        "rare": ap.evaluate(pooled(3, 60), prevalence=0.01),
    }
    text = written(xr.DataTree.from_dict(tree), tmp_path).text
    assert "at the prevalence 0.01, not at that of the sample. (Only: rare)" in text
    assert "share one threshold. (Only" not in text
    assert "best model by roc area or average precision, the first of each" in text


def test_a_comparison_is_not_a_result(tmp_path: Path) -> None:
    with pytest.raises(ap.errors.InvalidInputError, match="this is not a result"):
        ap.report(ap.compare(ap.evaluate(queried())), tmp_path / "report.html")


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            "influence_beta",
            "in simulations with 10 to 200 positives, 95 % influence beta intervals of average precision",
        ),
        ("logit", "logit intervals fall short of their level in some simulations"),
        ("extrapolated", ""),
    ],
)
def test_words_of_validity_depend_on_the_method(tmp_path: Path, method: str, said: str) -> None:
    result = of_queries(2, 12).assign_coords(interval_method=[method])
    text = written(result, tmp_path).text
    assert said in text
    assert ("Validity:" in text) == bool(said)
    other = written(result.assign_coords(estimator=["roc_area"]), tmp_path, overwrite=True)
    assert ("Other areas were tried less." in other.text) == (method == "influence_beta")


def test_words_tell_clusters_from_items(tmp_path: Path) -> None:
    scores = pooled(3, 120)
    text = written(ap.evaluate(scores), tmp_path).text
    assert "what to expect of other items." in text
    in_clusters = ap.evaluate(scores.assign(cluster=("item", np.arange(120) // 5)))
    text = written(in_clusters, tmp_path, overwrite=True).text
    assert "what to expect of other clusters." in text
    named = ap.evaluate(scores, clusters=xr.DataArray(np.arange(120) // 5, dims="item", name="patient"))
    assert "what to expect of other clusters (patient)." in written(named, tmp_path, overwrite=True).text
    assert "in simulations with 8 to 100 clusters with positives" in text


def test_provenance_shows_no_secret(tmp_path: Path) -> None:
    result = of_queries(2, 3).assign_attrs(source="https://ann:swordfish@example.org/s.zarr?sig=abc", seed=5)
    ap.report(result, tmp_path / "report.html")
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "https://example.org/s.zarr" in source
    assert "swordfish" not in source
    assert "sig=abc" not in source


def test_queries_without_estimates(tmp_path: Path) -> None:
    result = of_queries(3, 6)
    result["estimate"][:, 2] = np.nan
    result["estimate"][0, 4] = np.nan
    page = written(result, tmp_path)
    assert "1 of 6 queries have no estimate and count in no mean: q2" in page.text
    (plan,) = page.data["sections"][0]["estimators"][0]["comparisons"]
    assert plan["left_out"] == ["q2", "q4"]
    assert plan["units"] == [0, 1, 3, 5]


def test_nothing_defined(tmp_path: Path) -> None:
    result = of_queries(3, 4)
    result["estimate"][:] = np.nan
    assert "Models cannot be compared here" in json.dumps(written(result, tmp_path).data)


def test_the_best_are_compared_if_models_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ap.evaluate(pooled(6, 60), keep_replicates=True, n_resamples=100)
    (plan,) = written(result, tmp_path).data["sections"][0]["estimators"][0]["comparisons"]
    assert (plan["models"], plan["n_without"]) == ([0, 1, 2, 3, 4, 5], 0)
    monkeypatch.setattr(subjects, "MOST_COMPARED", 3)
    (plan,) = written(result, tmp_path, overwrite=True).data["sections"][0]["estimators"][0]["comparisons"]
    best = np.argsort(-result["estimate"].values)[:3]
    assert (plan["models"], plan["n_without"]) == (sorted(best.tolist()), 3)


@pytest.mark.slow
def test_pages_compare_by_known_scores_as_compare_does(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({name: pooled(3, 90, seed) for seed, name in enumerate("abcde")})
    baseline = str(tree["a"]["model"].values[0])
    result = ap.evaluate(tree)
    known = ap.compare(result, baseline, over="dataset")
    power = ap.power(result, baseline, over="dataset")
    assert known.attrs["method"] == "random_effects"
    for given, more in ((result, {}), (result.map_over_datasets(lambda one: one.drop_attrs()), {"scores": tree})):
        page = written(given, tmp_path, overwrite=True, baseline=baseline, **more)
        plan, *others = (one["estimators"][0]["comparisons"][0] for one in page.data["sections"])
        assert (plan["method"], plan["design"]) == ("random_effects", known.attrs["design"])
        assert {one["method"] for one in others} == {"influence"}
        shown = known["p_adjusted"].values <= 0.05
        beat, worse = (int((shown & (sign * known["difference"].values > 0)).sum()) for sign in (1, -1))
        assert f"{beat} of 2 other models beat {baseline}, and {worse} do worse" in page.text.replace("does", "do")
        assert f"power at 5 % is {np.median(power['detectable_family'].values[1:]):.2g} (simultaneous" in page.text


@pytest.mark.slow
def test_groups_may_be_bins_or_arrays(tmp_path: Path) -> None:
    from xarray.groupers import BinGrouper

    scores = pooled(3, 400).assign_coords(age=("item", np.linspace(0, 80, 400)))
    for place, by in enumerate(({"age": BinGrouper([-1, 40, 80])}, {"half": np.repeat(["first", "second"], 200)})):
        baseline = str(scores["model"].values[0])
        page = ap.report(scores, tmp_path / f"{place}.html", by=by, baseline=baseline).read_text()
        assert page.count("<circle") == 4 + 2  # two models in two groups, and between these
        compared = ap.compare(scores, baseline, by=by)
        assert len(compared.aucpr.plot.differences().get_yticks()) == 4


def test_labels_of_kept_dimensions_are_shown_like_groups(tmp_path: Path) -> None:
    random, label = np.random.default_rng(2), xr.DataArray(np.arange(200) % 4 == 0, dims="time")
    skill = xr.DataArray([[0.5, 2.0], [1.0, 1.0]], {"model": ["old", "new"], "lead": [6, 24]})
    score = skill * label + random.normal(size=(2, 2, 200))
    result = ap.evaluate(score, label, dim="time")
    for lead in (6, 24):
        estimate = result["estimate"].sel(lead=lead)
        ranked = list(estimate["model"].values[np.argsort(-estimate.values)])
        shown = next(one for one in rank_models(result) if one["data_set"] == str(lead))
        assert list(shown["models"]["model"]) == ranked
    assert "2 groups, 2 models" in repr(result.aucpr)
    page = ap.report(result, tmp_path / "r.html", baseline="old").read_text()
    assert "group by lead" in page
    assert page.count("<circle") == 2
    rows = [label.get_text() for label in result.aucpr.plot().get_yticklabels()]
    assert sorted(rows) == ["24, new", "24, old", "6, new", "6, old"]
    with pytest.raises(ap.errors.InvalidInputError, match=r"one group[\s\S]*allowed: '6', '24'"):
        result.aucpr.plot.caterpillar()


def on_grid(**more: Any) -> xr.Dataset:
    """Errors of two models at each place: in the east the new one is better, elsewhere worse; one place has none."""
    random = np.random.default_rng(3)
    error = random.normal(5, 0.1, (2, 12, 2, 3))
    error[1] += [0.5, 0.5, -1]
    error[:, :, 0, 1] = np.nan
    coords: dict[str, Any] = {"model": ["old", "new"], "query": [f"q{i}" for i in range(12)]}
    coords |= {"lat": [40.0, 50.0], "lon": [0.0, 5.0, 10.0]} | more
    attrs: dict[str, Any] = {"measure": "error", "unit": "query", "lower_is_better": ["error"]}
    return xr.Dataset({"estimate": (("model", "query", "lat", "lon"), error)}, coords, attrs)


@pytest.mark.slow
def test_areas_over_two_dimensions_have_a_map(tmp_path: Path) -> None:
    page = written(on_grid(), tmp_path, baseline="old")
    mean = on_grid()["estimate"].mean("query")
    assert "Error over lon and lat; a dash stands for a cell without an estimate" in page.text
    for model in ("old", "new"):
        for lat, lon in ((40, 5), (50, 0), (40, 10)):
            value = float(mean.sel(model=model, lat=lat, lon=lon))
            assert f"lat {lat}, lon {lon}: {'-' if np.isnan(value) else f'{value:.4f}'}" in page.text
    compared = ap.compare(on_grid(), "old", incomplete="drop")
    assert "Difference in error from old over lon and lat" in page.text
    differs = compared["difference"].where(compared["p_adjusted"] <= 0.05).sel(model="new")
    for (lat, lon), value in differs.to_series().dropna().items():
        assert f"lat {lat:g}, lon {lon:g}: {value:+.4f}, {'better' if lon == 10 else 'worse'}" in page.text
    drawn = [attrs for tag, attrs in page.tags if tag == "rect"]
    assert len([one for one in drawn if one["class"] == "none"]) == 3  # of two models, and of their difference
    cells = [one for one in drawn if one["width"] == "100.0"]
    assert len(cells) == 3 * 6
    assert {(one["x"], one["y"]) for one in cells} == {(f"{x}.0", y) for x in (0, 100, 200) for y in ("0.0", "150.0")}
    opacity = {float(one["fill-opacity"]): one for one in cells[:12] if one["class"] == "more"}
    assert (min(opacity), max(opacity)) == (0.08, 1.0)
    marks = [attrs for tag, attrs in page.tags if tag == "path" and "transform" in attrs]
    assert len(marks) == differs.notnull().sum()
    assert sum("-6" in attrs["transform"] for attrs in marks) == (differs < 0).sum() == 3


@pytest.mark.slow
def test_errors_that_shrink_are_better_in_a_report_of_groups(tmp_path: Path) -> None:
    page = written(on_grid(), tmp_path, baseline="old")
    summary = ap.compare(on_grid(), "old", incomplete="drop").attrs["summary"]
    assert "new is better than old in lat 50.0/lon 10.0" in summary
    rows = re.findall(r"lat (\S+)/lon (\S+) new ([+-]\S+) \S+ \S+ (?:< )?\S+ (better|worse)", page.text)
    assert len(rows) == 5
    assert all((lon == "10.0") == (said == "better") == difference.startswith("+") for _, lon, difference, said in rows)


@pytest.mark.parametrize("more", [{"lat": ["south", "north"]}, {"lon": list("abc")}])
def test_names_have_no_map(tmp_path: Path, more: dict[str, Any]) -> None:
    assert not [attrs for tag, attrs in written(on_grid(**more), tmp_path).tags if attrs.get("class") == "maps"]


@pytest.mark.parametrize("given", ["scores", "a result and scores", "replicates", "estimates", "estimates alone"])
def test_groups_have_a_table_and_a_picture_of_where_models_lose(tmp_path: Path, given: str) -> None:
    scores = pooled(3, 400).assign_coords(site=("item", np.repeat(["north", "south"], 200)))
    keeps: dict[str, Any] = {"keep_replicates": True, "n_resamples": 50} if given == "replicates" else {}
    result = scores if given == "scores" else ap.evaluate(scores, by="site", **keeps)
    if given == "estimates alone":  # which do not know their scores
        result.attrs.pop(SCORES)
    more: dict[str, Any] = {"by": "site"} if given == "scores" else {}
    more |= {"scores": scores} if given == "a result and scores" else {}
    baseline = str(scores["model"].values[0])
    page = ap.report(result, tmp_path / "r.html", baseline=baseline, **more).read_text()
    assert "3 models, 2 groups; average precision" in page
    assert "data set" not in page[page.index("<main") : page.index("What these numbers are")]
    section = page[page.index('<section id="groups"') : page.index("</section>", page.index('<section id="groups"'))]
    if given == "estimates alone":
        assert "Models cannot be compared here" in section
        return
    contrasts = 0 if given == "replicates" else 2  # of the groups, for two models
    assert section.count("<circle") == section.count('<th scope="row"') == 4 + contrasts
    assert "4 comparisons in 2 groups by site at 5 %, adjusted by Holm for all 4" in section
    if given != "replicates":
        compared = ap.compare(scores, baseline, by="site")
        for difference in compared["difference"].values[1:].ravel():
            assert f"{difference:+.4f}" in section
        between = ap.contrast(scores, "site", baseline=baseline)
        assert between.attrs["summary"] in section
        assert f"{between['difference'].values[1, 0, 1]:+.4f}" in section


def test_groups_are_those_of_the_result_or_of_scores(tmp_path: Path) -> None:
    scores = pooled(3, 40).assign_coords(site=("item", np.repeat(["north", "south"], 20)))
    with pytest.raises(ap.errors.InvalidInputError, match="evaluated already, without these groups"):
        ap.report(ap.evaluate(scores), tmp_path / "r.html", by="site")
    assert "Name a baseline" in ap.report(scores, tmp_path / "r.html", by="site").read_text()


def test_repeats_are_averaged(tmp_path: Path) -> None:
    scores = xr.concat([pooled(3, 60), pooled(3, 60)], "repeat", data_vars=["score"])
    result = ap.evaluate(scores)
    page = ap.report(result, tmp_path / "r.html").read_text()
    assert f"{float(ap.aggregate(result)['estimate'].max()):.4f}" in page
    (by_scores,) = written(result, tmp_path, scores=scores).data["sections"][0]["estimators"][0]["comparisons"]
    assert by_scores["method"] == "influence"


def test_signature_and_command_have_the_options_of_the_record() -> None:
    options = {one.name: one.default for one in dataclasses.fields(ReportOptions)}
    given = {name: one.default for name, one in inspect.signature(ap.report).parameters.items()}
    assert given == {"result": inspect.Parameter.empty, "path": inspect.Parameter.empty, "by": None, "scores": None} | (
        options | {"overwrite": False}
    )
    made = {one.name: one.default for one in main.commands["report"].params}
    assert options.items() <= made.items()
    assert set(made) - set(options) == {
        "result",
        "page",
        "by",
        "scores",
        "dataset",
        "overwrite",
        "as_json",
        "help_all",
        "like",
        *(f"table_{name}" for name in ("clusters", "exclude", "fold", "item", "label", "model", "models", "negate")),
        *(f"table_{name}" for name in ("dim", "pos_label", "query", "repeat", "score", "weight")),
        *(f"table_{name}" for name in ("include", "lower_is_better")),
    }
    with pytest.raises(ap.errors.InvalidInputError, match="top"):
        ReportOptions(top=-1).checked()


def test_refusals(tmp_path: Path) -> None:
    result = of_queries(3, 4)
    with pytest.raises(ap.errors.InvalidInputError, match="estimate"):
        ap.report(pooled()[["label"]], tmp_path / "page.html")
    with pytest.raises(ap.errors.InvalidInputError, match="interval"):
        ap.report(result, tmp_path / "page.html", interval_method="bca")
    with pytest.raises(ap.errors.AlignmentError, match="model"):
        ap.report(ap.evaluate(pooled(5)), tmp_path / "page.html", scores=pooled(3))
    with pytest.raises(ap.errors.StoreError, match="no such folder"):
        ap.report(result, tmp_path / "none" / "page.html")
    assert list(tmp_path.iterdir()) == []
    ap.report(result, tmp_path / "page.html")
    with pytest.raises(ap.errors.StoreError, match="already"):
        ap.report(result, tmp_path / "page.html")
    result.aucpr.report(tmp_path / "page.html", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.slow
def test_command(tmp_path: Path) -> None:
    ap.save_scores(queried(3, 4), tmp_path / "scores.zarr")
    ap.run(str(tmp_path / "scores.zarr"), str(tmp_path / "result.zarr"), missing="drop", workers=1)
    call = ["report", str(tmp_path / "result.zarr"), str(tmp_path / "page.html"), "--scores"]
    call += [str(tmp_path / "scores.zarr"), "--title", "My <title>"]
    done = ok(*call, "--json")
    assert json.loads(done.stdout)["bytes"] == (tmp_path / "page.html").stat().st_size
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "My <title>" in page.text
    assert page.data["sections"][0]["curves"]["models"]
    again = CliRunner().invoke(main, call)
    assert again.exit_code == 2
    assert "--overwrite" in again.output


# --- the page in a browser ---------------------------------------------------------------------------------------


class Reader:
    """A browser on a page: every page has to be ready in time and to leave its console empty."""

    def __init__(self, driver: Any, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def open(self, path: Path) -> float:
        """Open a page and return the seconds until it was ready."""
        self.driver.get(path.as_uri())
        self.wait(lambda: self("return document.documentElement.dataset.ready"))
        return float(self("return document.documentElement.dataset.ready")) / 1000

    def __call__(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    @contextmanager
    def on_phone(self, width: int) -> Iterator[None]:
        """Show the page as on a phone of this width in pixels."""
        size = {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        return self("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def wait(self, condition: Callable[[], Any], seconds: float = 30) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(StaleElementReferenceException):  # drawn anew between finding and reading
                if found := condition():
                    return found
            time.sleep(0.02)
        raise AssertionError("the page did not get there")

    def enter(self, element: Any, text: str) -> None:
        """Put text in a field, and choose an option of a list."""
        self("arguments[0].value = arguments[1]; for (const kind of ['input', 'change'])"
             " arguments[0].dispatchEvent(new Event(kind, {bubbles: true}))", element, text)  # fmt: skip

    def compare(self, section: str, first: str, second: str, how: int = 0) -> dict[str, float]:
        """Compare two models and return the numbers behind the answer."""
        form = f"#{section} .comparison form"
        self("document.querySelector(arguments[0]).replaceChildren()", f"#{section} .answer")
        for field, name in zip(self.all(f"{form} input"), (first, second), strict=True):
            self.enter(field, name)
        if how:
            self.enter(self.find(f"{form} select"), str(how))
        else:
            self("arguments[0].requestSubmit()", self.find(form))
        table = self.wait(lambda: self.all(f"#{section} .answer table"))[0]
        numbers = self("return {...arguments[0].dataset}", table)
        return {name: float(text) for name, text in numbers.items() if text != "undefined"}

    def saved(self, button: Any) -> list[list[str]]:
        """Press a button and return the table that it downloads."""
        before = set(self.downloads.glob("*.csv"))
        self("arguments[0].click()", button)
        (path,) = self.wait(lambda: set(self.downloads.glob("*.csv")) - before)
        return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


@pytest.fixture(scope="module")
def browser(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    downloads = tmp_path_factory.mktemp("downloads")
    chromium.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    return Reader(chromium, downloads)


@pytest.fixture
def reader(browser: Reader) -> Iterator[Reader]:
    yield browser
    assert browser.driver.get_log("browser") == []
    assert browser("return performance.getEntriesByType('resource').length") == 0


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    ap.report(of_queries(60, 20), folder / "queries.html")
    ap.report(of_queries(len(NASTY), 4, names=NASTY).assign_coords(query=NASTY[:4]), folder / "nasty.html")
    scores = xr.DataTree.from_dict(
        {"first": pooled(8, 120, seed=1), "second": pooled(8, 90, seed=2), "topics": queried(12, 6)}
    )
    result = ap.evaluate(
        scores,
        ["average_precision", "roc_area"],
        missing="drop",
        keep_replicates=True,
        n_resamples=200,
        prevalence_design="fixed",  # queries of few positives have resamples without any otherwise
    )
    ap.report(result, folder / "tree.html", scores=scores)
    return folder


@pytest.mark.slow
def test_sort_filter_search_and_turn_pages(reader: Reader, pages: Path) -> None:
    reader.open(pages / "queries.html")
    means = of_queries(60, 20)["estimate"].mean("query").values[:, 0]
    best = [f"m{i:04d}" for i in np.argsort(-means)]
    names = ".leaderboard tbody th"
    assert reader.texts(names) == best[:25]
    head = dict(zip(reader.texts(".leaderboard .sort"), reader.all(".leaderboard .sort"), strict=True))
    assert reader.find(".leaderboard [aria-sort]").get_attribute("data-column") == "rank"
    reader("arguments[0].click()", head["Model"])
    assert reader.texts(names) == sorted(best)[:25]
    reader("arguments[0].click()", head["Model"])
    assert reader.texts(names) == sorted(best, reverse=True)[:25]
    assert reader.find(".leaderboard [aria-sort]").get_attribute("aria-sort") == "descending"
    reader("arguments[0].click()", head["Estimate"])
    reader("arguments[0].click()", reader.all(".leaderboard .pager button")[1])
    assert reader.texts(names) == best[25:50]
    assert reader.find(".leaderboard .pager [role=status]").text == "Models 26 to 50 of 60"
    search, least = reader.all(".leaderboard .tools input")
    reader.enter(search, "M005")
    assert reader.texts(names) == [name for name in best if "m005" in name]
    reader.enter(search, "")
    reader.enter(least, "0.45")
    assert len(reader.texts(names)) == min(25, int((means >= 0.45).sum()))
    reader.enter(least, "2")
    assert reader.find(".leaderboard .pager [role=status]").text == "No model (of 60)"
    reader.enter(least, "")
    reader.enter(reader.all(".leaderboard .tools select")[0], "0")
    assert reader.texts(names) == []  # every model has queries of few positives


@pytest.mark.slow
def test_the_interval_can_be_switched(reader: Reader, tmp_path: Path) -> None:
    result = ap.evaluate(pooled(4, 80), interval=["logit", "clopper_pearson"])
    ap.report(result, tmp_path / "page.html")
    reader.open(tmp_path / "page.html")
    for place, method in enumerate(["logit", "clopper_pearson"]):
        select = next(one for one in reader.all(".leaderboard select") if "logit" in one.text)
        reader.enter(select, str(place))
        name = {"logit": "logit", "clopper_pearson": "Clopper-Pearson"}[method]
        reader.wait(lambda name=name: f"95 % interval ({name})" in reader.find(".leaderboard thead").text)
        best = result.sortby("estimate", ascending=False).isel(model=0, interval_method=place)
        row = reader.find(".leaderboard tbody tr").text
        assert all(f"{bound:.4f}" in row for bound in best["interval"].values)


@pytest.mark.slow
def test_ranks_are_drawn_next_to_the_sentence(reader: Reader, tmp_path: Path) -> None:
    result = of_queries(30, 20)
    ap.report(result, tmp_path / "page.html")
    reader.open(tmp_path / "page.html")
    drawn = [one.get_attribute("textContent").strip() for one in reader.all(".ranks title")]
    ranks = ap.rank(result).sortby("rank")
    bounds = ranks["simultaneous_rank_interval"].values.astype(int)
    expected = [
        f"{name}: rank {rank:g}, from {low} to {high}"
        for name, rank, (low, high) in zip(ranks["model"].values, ranks["rank"].values, bounds, strict=True)
    ]
    assert len(drawn) == 25
    assert set(drawn) <= set(expected)


@pytest.mark.slow
def test_a_query_has_its_own_leaderboard(reader: Reader, pages: Path) -> None:
    reader.open(pages / "queries.html")
    column = of_queries(60, 20)["estimate"].values[:, 3, 0]
    reader("document.querySelector('[data-unit=\"3\"]').open = true")
    reader.wait(lambda: reader.all("[data-unit='3'] tbody tr"))
    assert reader.texts("[data-unit='3'] tbody th") == [f"m{i:04d}" for i in np.argsort(-column)[:25]]
    assert reader.texts("[data-unit='3'] tbody td:nth-child(3)") == [f"{x:.4f}" for x in np.sort(column)[::-1][:25]]
    reader.enter(reader.find(".unit-search"), "q1")
    assert sum(unit.is_displayed() for unit in reader.all(".unit")) == 11


def same_numbers(found: dict[str, float], comparison: xr.Dataset, first: str, second: str) -> None:
    pair = comparison.sel(model=first, other_model=second)
    lower, upper = pair["interval"].values
    expected = {
        "difference": pair["difference"],
        "error": pair["standard_error"],
        "lower": lower,
        "upper": upper,
        "p": pair["p_value"],
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(float(value), rel=1e-9, abs=1e-12), name
    if "adjusted" in found:
        assert found["adjusted"] == float(pair["p_adjusted"])


@pytest.mark.slow
@pytest.mark.parametrize("n_queries", [2, 5, 9, 20])
def test_pairs_on_queries_are_those_of_compare(reader: Reader, tmp_path: Path, n_queries: int) -> None:
    result = of_queries(6, n_queries, seed=n_queries)
    result["estimate"][5] = result["estimate"][4]  # the same model twice
    result["estimate"][3] = result["estimate"][4] + 0.01  # better by the same amount everywhere
    reader.open(ap.report(result, tmp_path / "page.html", seed=3))
    expected = ap.compare(result, seed=3)
    for first, second in (("m0000", "m0001"), ("m0002", "m0001"), ("m0004", "m0005"), ("m0003", "m0004")):
        same_numbers(reader.compare("data-set-0", first, second), expected, first, second)


@pytest.mark.slow
def test_pairs_leave_out_what_some_model_lacks(reader: Reader, tmp_path: Path) -> None:
    result = of_queries(6, 16, seed=5)
    result["estimate"][2, 7] = result["estimate"][:, 11] = np.nan
    reader.open(ap.report(result, tmp_path / "page.html"))
    same_numbers(
        reader.compare("data-set-0", "m0002", "m0005"), ap.compare(result, incomplete="drop"), "m0002", "m0005"
    )
    assert "Left out, because a model has no estimate there: q11, q7" in reader.find(".answer").text
    assert reader.find(".board [data-model='2'] td:nth-child(7)").text == "14"  # queries with an estimate


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:method=.* over")  # few positives
@pytest.mark.parametrize("has_scores", [True, False])
def test_pairs_on_items_and_queries_of_a_tree(reader: Reader, pages: Path, tmp_path: Path, has_scores: bool) -> None:
    """With scores by their influences, as `compare` does with scores; otherwise by the replicates of the result."""
    scores = xr.DataTree.from_dict({"first": pooled(8, 120, seed=1), "topics": queried(12, 6)})
    how: dict[str, Any] = {"missing": "drop", "prevalence_design": "fixed"}
    result = ap.evaluate(scores, ["average_precision", "roc_area"], keep_replicates=True, n_resamples=200, **how)
    page = pages / "tree.html" if has_scores else ap.report(result, tmp_path / "page.html")
    first, topics = (node.to_dataset() for node in ((scores if has_scores else result)[name] for name in result))
    how = how if has_scores else {}
    reader.open(page)
    place = "data-set-2" if has_scores else "data-set-1"
    same_numbers(reader.compare("data-set-0", "m1", "m4"), ap.compare(first, **how), "m1", "m4")
    same_numbers(reader.compare(place, "m7", "m2"), ap.compare(result["topics"].to_dataset()), "m7", "m2")
    expected = ap.compare(topics, over="items", **how)
    same_numbers(reader.compare(place, "m7", "m2", how=1), expected, "m7", "m2")
    assert f"{expected.attrs['design'][1:]}." in reader.find(f"#{place} .answer").text
    reader.enter(reader.find("#data-set-0 .leaderboard > .tools select"), "1")
    reader.wait(lambda: "Roc area" in reader.find("#data-set-0 caption").text)
    expected = ap.compare(first, estimator="roc_area", **how)
    same_numbers(reader.compare("data-set-0", "m1", "m4"), expected, "m1", "m4")


@pytest.mark.slow
def test_pairs_over_data_sets(reader: Reader, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    tree = {f"set{i}": pooled(5, 60, seed=i).isel(model=random.permutation(5)) for i in range(8)}
    result = ap.evaluate(xr.DataTree.from_dict(tree))
    for given in (result, without_its_scores(result)):
        reader.open(ap.report(given, tmp_path / "page.html", overwrite=True))
        assert reader.find("#data-set-0 h2").text == "All data sets"
        same_numbers(reader.compare("data-set-0", "m1", "m3"), ap.compare(given, over="dataset"), "m1", "m3")


@pytest.mark.slow
def test_a_pair_that_cannot_be(reader: Reader, pages: Path) -> None:
    reader.open(pages / "queries.html")
    first, second = reader.all(".comparison input")
    reader.enter(first, "m0001")
    reader.enter(second, "nobody")
    reader("arguments[0].requestSubmit()", reader.find(".comparison form"))
    assert "no model “nobody”" in reader.find(".comparison [role=status]").text
    assert not reader.all(".answer table")
    buttons = reader.all(".row-button")
    reader("arguments[0].click()", buttons[0])
    assert "choose a second model" in reader.find(".comparison [role=status]").text
    reader("arguments[0].click()", buttons[1])
    reader.wait(lambda: reader.all(".answer table"))


@pytest.mark.slow
def test_a_link_opens_a_comparison(reader: Reader, pages: Path) -> None:
    reader.open(pages / "queries.html")
    reader("location.hash = '#compare=m0003,m0001'")
    reader.wait(lambda: reader.all(".answer table"))
    assert reader.find(".answer caption").text == "m0003 minus m0001"
    with reader.on_phone(390):
        left = reader("return [...document.querySelectorAll('.pair-chart text')].map(e => e.getBoundingClientRect().x)")
        chart = reader("return document.querySelector('.pair-chart').getBoundingClientRect().x")
        assert reader("return getComputedStyle(document.querySelector('.pair-chart')).overflow") == "visible"
    assert min(left) >= chart
    reader("location.hash = '#compare=m0003,%E0%A4%A'")  # malformed
    reader("location.hash = '#compare=m0003,nobody'")
    assert reader.find(".answer caption").text == "m0003 minus m0001"


@pytest.mark.slow
def test_contents_stay_in_view_and_names_break_between_words(reader: Reader, tmp_path: Path) -> None:
    names = ["a_long_name_of_a_run_of_a_team-with.parts", "b"]
    reader.open(ap.report(of_queries(2, 12, names=names), tmp_path / "page.html"))
    reader("scrollTo({top: document.body.scrollHeight, behavior: 'instant'})")
    assert reader("return document.querySelector('nav').getBoundingClientRect().top") == 0
    assert reader("return document.querySelectorAll('.leaderboard .name wbr').length") == 10
    assert set(
        reader("return [...document.querySelectorAll('.leaderboard .name')].map(one => one.textContent)")
    ) == set(names)
    assert "95 % interval (score)" in reader.find(".leaderboard thead").text


@pytest.mark.slow
def test_tables_download(reader: Reader, pages: Path) -> None:
    reader.open(pages / "nasty.html")
    result = of_queries(len(NASTY), 4)
    whole, units = reader.all(".leaderboard .tools button")
    head, *rows = reader.saved(whole)
    assert head == ["rank", "model", "estimate", "lower", "upper", "warnings"]
    assert [int(row[0]) for row in rows] == list(range(1, len(NASTY) + 1))
    estimates = sorted(result["estimate"].mean("query").values.ravel(), reverse=True)
    np.testing.assert_allclose([float(row[2]) for row in rows], estimates, rtol=1e-15)
    cells = {row[1] for row in rows}
    assert {"' =2+2", "'＝3+3"} <= cells  # noqa: RUF001 (full width is meant)
    assert {"'=HYPERLINK(A1)", "'+1", '\'@x, "y"', "'-2\\nnew line", NASTY[0]} <= cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    head, *rows = reader.saved(units)
    assert len(head) == 5
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], dtype=float), result["estimate"].values[..., 0])


@pytest.mark.slow
def test_names_stay_text(reader: Reader, pages: Path) -> None:
    reader.open(pages / "nasty.html")
    for unit in range(4):
        reader("document.querySelectorAll('.unit')[arguments[0]].open = true", unit)
    reader.wait(lambda: len(reader.all(".unit-board table")) == 4)
    reader.compare("data-set-0", NASTY[0], NASTY[1])
    reader("document.querySelector('.comparison input').dispatchEvent(new Event('focus'))")
    assert reader("return window.hacked") is None
    assert reader.all("img") == []
    shown = set(reader.texts(".leaderboard tbody th"))
    assert {*NASTY[:3], r"a\x1b[31mred\u202e", r"-2\nnew line", "模型"} <= shown
    assert set(reader.texts(".unit h4")) == {NASTY[0], NASTY[1], NASTY[2], r"a\x1b[31mred\u202e"}


@pytest.mark.slow
def test_curves_and_rows_point_at_each_other(reader: Reader, pages: Path) -> None:
    reader.open(pages / "tree.html")
    row = reader.all("#data-set-2 .leaderboard tbody tr")[2]
    reader("arguments[0].dispatchEvent(new Event('mouseenter'))", row)
    name = row.find_element("css selector", "th").text
    marked = reader.find("#data-set-2 .legend .marked")
    assert name in marked.text
    reader("arguments[0].dispatchEvent(new Event('mouseleave'))", row)
    assert reader.all("#data-set-2 .legend .marked") == []
    reader("arguments[0].focus()", reader.all("#data-set-2 .legend button")[1])
    assert reader.find("#data-set-2 tr.marked th").text == reader.texts("#data-set-2 .leaderboard tbody th")[1]
    canvas = "return document.querySelector('#data-set-2 canvas').toDataURL()"
    before = reader(canvas)
    reader.enter(reader.find("#data-set-2 .curves select"), "roc")
    reader.wait(lambda: reader(canvas) != before)


@pytest.mark.slow
def test_keyboard_alone(reader: Reader, pages: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    reader.open(pages / "queries.html")

    def press(*keys: str) -> Any:
        ActionChains(reader.driver).send_keys(*keys).perform()
        return reader.driver.switch_to.active_element

    skip = press(Keys.TAB)
    assert skip.text == "Skip to the content"
    press(Keys.ENTER)
    assert reader("return document.activeElement.id") == "main"
    visited = []
    while "Model" not in visited:
        assert len(visited) < 60
        visited.append(press(Keys.TAB).text)
    press(Keys.ENTER)
    assert reader.find("[data-column=model]").get_attribute("aria-sort") == "ascending"
    assert reader("return document.activeElement.textContent") == "Model"
    assert reader("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    while reader("return document.activeElement.className") != "row-button":
        press(Keys.TAB)
    press(Keys.ENTER, Keys.TAB, Keys.ENTER)
    reader.wait(lambda: reader.all(".answer table"))


@pytest.mark.slow
def test_colours_follow_the_system_and_the_button(reader: Reader, pages: Path) -> None:
    reader.open(pages / "tree.html")
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = reader(ground)
    canvas = reader("return document.querySelector('canvas').toDataURL()")
    reader("document.getElementById('theme').click()")
    assert reader(ground) != light
    assert reader.find("#theme").text == "Light colours"
    reader.wait(lambda: reader("return document.querySelector('canvas').toDataURL()") != canvas)
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    reader.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    reader.open(pages / "tree.html")
    assert reader(ground) != light
    reader.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    package, digest = AXE
    try:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"axe-core cannot be had here: {error}")
    (archive,) = folder.glob("*.tgz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == digest
    with tarfile.open(archive) as members:
        member = members.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_accessible(reader: Reader, pages: Path, axe: str, dark: bool) -> None:
    reader.open(pages / "tree.html")
    if dark:
        reader("document.getElementById('theme').click()")
    reader.compare("data-set-0", "m1", "m4")
    reader.compare("data-set-2", "m7", "m2")
    reader("for (const words of document.querySelectorAll('details')) words.open = true")
    reader(axe)
    found = reader.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run({resultTypes: ['violations']}).then(answer => done(answer.violations.map("
        "one => [one.id, one.help, one.nodes.slice(0, 3).map(node => node.html)])))"
    )
    assert found == []


@pytest.mark.slow
def test_paper_has_every_row_and_the_screen_its_page_again(reader: Reader, pages: Path) -> None:
    reader.open(pages / "queries.html")
    names, turn = ".leaderboard tbody th", ".leaderboard .pager button"
    reader("arguments[0].click()", reader.all(turn)[1])
    before = reader.texts(names)
    reader("dispatchEvent(new Event('beforeprint'))")
    assert len(reader.texts(names)) == 60
    reader("dispatchEvent(new Event('afterprint'))")
    assert reader.texts(names) == before
    assert len(before) == 25


@pytest.mark.slow
def test_fits_a_phone_and_prints(reader: Reader, pages: Path) -> None:
    reader.open(pages / "tree.html")
    with reader.on_phone(360):
        assert reader("return document.documentElement.scrollWidth <= innerWidth")
    reader("document.getElementById('theme').click()")
    assert len(reader.driver.print_page()) > 50_000
    assert all(reader("return [...document.querySelectorAll('.words')].map(words => words.open)"))
    assert reader("return document.documentElement.dataset.theme") == "dark"


@pytest.mark.slow
def test_maps_follow_colours_fit_a_phone_and_print(reader: Reader, tmp_path: Path, axe: str) -> None:
    reader.open(ap.report(on_grid(), tmp_path / "maps.html", baseline="old"))
    look = "const one = document.querySelector('.maps .more'); return [getComputedStyle(one).fill, one.getBBox().width]"
    light, width = reader(look)
    assert width == 100
    reader("document.getElementById('theme').click()")
    assert reader(look)[0] not in (light, "rgb(0, 0, 0)")
    reader(axe)
    with reader.on_phone(390):
        assert reader("return document.documentElement.scrollWidth <= innerWidth")
    reader.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert reader(look)[0] == light  # paper is light, and colours tell better from worse
    finally:
        reader.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    found = reader.driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run({resultTypes: ['violations']})"
        ".then(answer => done(answer.violations.map(one => [one.id, one.help])))"
    )
    assert found == []


@pytest.mark.slow
def test_thousands_of_models_open_in_time(reader: Reader, tmp_path: Path) -> None:
    result = of_queries(5000, 50)
    page = ap.report(result, tmp_path / "page.html")
    seconds = min(reader.open(page) for _ in range(2))
    assert seconds < 3
    started = time.monotonic()
    best = result["estimate"].mean("query").squeeze().to_series().nlargest(200).index  # those whose pairs it holds
    reader.compare("data-set-0", best[0], best[-1])
    reader.enter(reader.find(".leaderboard .tools input"), "m43")
    assert len(reader.texts(".leaderboard tbody th")) == 25
    assert time.monotonic() - started < 3


def test_the_interval_shown_is_one_that_every_estimator_has() -> None:
    options = {"n_resamples": 50, "interval": ["logit", "bootstrap"]}
    both = ap.evaluate(pooled(), ["average_precision", "roc_area"], **options)
    assert [subject.method for subject in subjects_of(both, None)] == ["bootstrap"]
    assert [subject.method for subject in subjects_of(both, "logit")] == ["logit"]
    assert [subject.method for subject in subjects_of(ap.evaluate(pooled(), **options), None)] == ["logit"]


def test_a_page_of_groups_says_to_which_family_each_statement_belongs(tmp_path: Path) -> None:
    scores = pooled(3, 240).assign_coords(site=("item", np.resize(["Bern", "Graz"], 240)))
    page = Page(ap.report(scores, tmp_path / "page.html", by="site", baseline="m0").read_text(encoding="utf-8"))
    assert "4 comparisons in 2 groups by site at 5 %, adjusted by Holm for all 4" in page.text
    of_group = "Romano-Wolf adjusted for 2 comparisons of this group alone; above, for those of all groups"
    assert page.text.count(of_group) == 2


def test_a_leader_of_fewer_queries_is_said_to_be_one(tmp_path: Path) -> None:
    frame = pd.DataFrame({"model": ["a", "z"], "t1": [90.0, 95.0], "t2": [40.0, np.nan], "t3": [50.0, np.nan]})
    page = ap.report(ap.from_values(frame), tmp_path / "page.html").read_text()
    assert "z leads (value 95.00, over 1 of 3 queries: means over others do not compare)" in page


def test_scores_of_other_items_are_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    label = (random.random(80) < 0.4).astype("int8")
    variables = {"score": (("model", "item"), random.normal(size=(2, 80)) + label), "label": ("item", label)}
    scores = xr.Dataset(variables, {"model": ["a", "b"]})
    result = ap.evaluate(scores, "roc_area")
    ap.report(result, tmp_path / "same.html", scores=scores)
    for others in (scores.isel(item=slice(60)), scores.assign(score=scores["score"].round(0))):
        with pytest.raises(
            AlignmentError, match=r"do not give the estimates of the result[\s\S]*area of 'a' 0\.\d+, and"
        ):
            ap.report(result, tmp_path / "other.html", scores=others)
    assert not (tmp_path / "other.html").exists()
