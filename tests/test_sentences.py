"""What answers say in words, read back and compared with their numbers."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.errors import MOST_SHOWN
from aucpr_dask.inference.contrasting import contrast_rows
from aucpr_dask.schema.terms import in_words

Said = dict[str, dict[tuple[str, str, str], str]]
SITE = {"site": ("item", np.resize(["Bern", "Graz", "Lund"], 300))}


def items() -> xr.Dataset:
    random, label = np.random.default_rng(3), np.arange(300) % 4 == 0
    score = random.normal(size=(4, 300)) + label * np.array([[0.0], [0.5], [1.5], [1.6]])
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, {"model": list("abcd")} | SITE)


def errors() -> xr.Dataset:
    values = np.random.default_rng(4).normal(size=(3, 14)) + np.array([[5.0], [7.0], [7.1]])
    long = pd.DataFrame(values, list("abc")).rename_axis("model").reset_index().melt("model", var_name="task")
    return ap.from_values(long.rename(columns={"value": "WER"}))


def data_sets() -> xr.DataTree:
    return xr.DataTree.from_dict({name: items().isel(item=slice(at, None)) for at, name in enumerate("pqrst")})


ASKED: list[tuple[Any, dict[str, str]]] = [(items, {}), (items, {"by": "site"}), (errors, {})]
ASKED += [(data_sets, {"over": "dataset"})]


# --- comparisons ---------------------------------------------------------------------------------------------------


def read(summary: str) -> tuple[int, Said]:
    """Return how many questions a sentence counts, and who is said to be worse or better, and by which difference."""
    n = int(re.match(r"([\d,]+) (?:comparisons?|contrasts?)\b", summary)[1].replace(",", ""))
    said: Said = {}
    found = re.findall(r"(\S+) is (worse|better) than (\S+)(?: in ([^(]*?))? \(([^)]*)\)", summary)
    for model, word, other, place, by in found:
        said.setdefault(word, {})[model, other, place] = by
    return n, said


def facts(answer: xr.Dataset, by: str | None) -> tuple[int, dict[str, dict[tuple[str, str, str], float]]]:
    """Return the same from the numbers, one pair of models after the other."""
    n, known = 0, {"worse": {}, "better": {}}
    against = "baseline" if "baseline" in answer.coords else "other_model"
    places = [""] if by is None else list(answer[by].values)
    for place in places:
        at = answer if by is None else answer.sel({by: place})
        others = list(np.atleast_1d(at[against].values))
        pairs = [(model, other) for other in others for model in at["model"].values if model != other]
        pairs = list(itertools.combinations(at["model"].values, 2)) if against == "other_model" else pairs
        for place_of_pair, (model, other) in enumerate(pairs):
            cell = at.sel({"model": model} | ({against: other} if against in at.dims else {}))
            if (other, model) in pairs[:place_of_pair] or np.isnan(cell["p_value"].item()):
                continue
            n += 1
            if cell["p_adjusted"].item() <= 1 - answer.attrs["level"]:
                by_which = cell["difference"].item()
                if against == "other_model" and by_which < 0:
                    model, other, by_which = other, model, -by_which
                word = "better" if by_which > 0 else "worse"
                known[word][str(model), str(other), str(place)] = by_which
    return n, known


@pytest.mark.parametrize("baseline", [None, "b", ["b", "c"]])
@pytest.mark.parametrize(("make", "asked"), ASKED)
def test_who_is_shown_to_differ(make: Any, asked: dict[str, str], baseline: Any) -> None:
    by, answer = asked.get("by"), ap.compare(make(), baseline, **asked)
    (n, said), (n_pairs, known) = read(answer.attrs["summary"]), facts(answer, by)
    assert n == n_pairs
    assert f"at 5 %, adjusted by {in_words(answer.attrs['adjust'])} for all {n}" in answer.attrs["summary"]
    assert sum(map(len, known.values())), "a test in which nothing differs reads nothing back"
    for word, differences in known.items():
        listed = said.get(word, {})
        assert len(listed) == min(len(differences), MOST_SHOWN)
        assert listed.keys() <= differences.keys()
        for pair, by_which in listed.items():
            assert float(by_which) == pytest.approx(differences[pair], abs=0.00051)
    if by is not None:  # the sentence of each group is about that group, and of the family of all
        for place in answer[by].values:
            one = answer.sel({by: place})
            (n_here, said_here), (n_there, known_there) = read(one["summary"].item()), facts(one, None)
            assert n_here == n_there
            assert f"for all {n}" in one["summary"].item()
            assert sum(map(len, said_here.values())) == min(sum(map(len, known_there.values())), MOST_SHOWN)


def test_models_that_do_not_differ_are_not_said_to_be_equal() -> None:
    answer = ap.compare(items().sel(model=["c", "d"]))
    assert answer["p_value"].values[0, 1] > 0.05
    assert read(answer.attrs["summary"]) == (1, {})
    assert "no difference is shown, which does not show that there is none" in answer.attrs["summary"]


def test_equal_models_are_said_to_be_equal() -> None:
    scores = items()
    scores["score"][1] = scores["score"][0]
    for answer in (ap.compare(scores), ap.compare(scores, "a"), ap.compare(scores, ["a", "c"])):
        assert re.search("equal: (a and b|b and a)(;|$)", answer.attrs["summary"])
    assert "equal" not in ap.compare(items()).attrs["summary"]
    assert "passed: b equals a" in ap.gate(scores, "b", "a").sentence


def test_what_a_pair_lost_stands_in_its_sentence() -> None:
    scores = items()
    scores["score"][0, :5] = np.nan
    answer = ap.compare(scores, "b", missing="drop")
    assert "'a' lacks 5" in answer.attrs["gaps"]
    assert answer.attrs["summary"].endswith(answer.attrs["gaps"])
    assert " ".join(repr(answer.aucpr).split()).count("lacks 5") == 1  # said once


@pytest.mark.parametrize("reference", [None, "Bern"])
def test_where_models_are_shown_to_be_worse(reference: str | None) -> None:
    scores = items()
    weaker = ((scores["site"] == "Lund") & (scores["label"] == 1)).values
    scores["score"].values[1:, weaker] -= 2.0
    answer = ap.contrast(scores, "site", reference=reference)
    rows, summary = contrast_rows(answer), answer.attrs["summary"]
    assert read(summary)[0] == len(rows) == answer.attrs["family_size"]
    assert f"at 5 %, adjusted by Holm for all {len(rows)}" in summary
    shown = rows[rows["p_adjusted"] <= 0.05]
    for word, side in (("worse", shown[shown["difference"] < 0]), ("better", shown[shown["difference"] > 0])):
        assert summary.count(f" is {word} in ") == min(len(side), MOST_SHOWN)
        assert bool(re.search(f"none is shown to be [a-z ]*{word}", summary)) == (not len(side))
        for row in side.head(MOST_SHOWN).itertuples():
            assert f"{row.model} is {word} in {row.group} than in {row.other} ({row.difference:+.3f})" in summary


# --- verdicts, ranks, power, means ---------------------------------------------------------------------------------

NUMBER = r"([+-]?[\d.]+)"
GATE = re.compile(
    rf"(?:(?P<group>\w+): )?(?P<verdict>passed|failed|cannot tell)\b.*?: .* {NUMBER} against {NUMBER}, "
    rf"(?:difference|better by) {NUMBER}, {NUMBER} % interval {NUMBER} to {NUMBER}, p (?:=|<) {NUMBER} by"
)
VERDICTS = {"passed": ("better", "not worse"), "failed": ("worse",), "cannot tell": ("cannot tell",)}


@pytest.mark.parametrize("candidate", ["a", "c"])
@pytest.mark.parametrize(("make", "asked"), ASKED)
def test_verdicts_of_gates(make: Any, asked: dict[str, str], candidate: str) -> None:
    found = ap.gate(make(), candidate, "b", margin=0.01, **asked)
    for gate in found if isinstance(found, tuple) else [found]:
        said = GATE.match(gate.sentence)
        assert (said["group"] or "") == gate.group
        assert gate.verdict in VERDICTS[said["verdict"]]
        numbers = [*gate.estimates, gate.difference, 100 * gate.level, *gate.interval, max(gate.p_value, 0.0001)]
        np.testing.assert_allclose([float(one) for one in said.groups()[2:]], numbers, atol=0.00006, rtol=0.05)
        lower, upper = gate.interval
        assert (gate.verdict == "better") == (lower > 0)
        assert (gate.verdict == "worse") == (upper < -gate.margin)


@pytest.mark.parametrize(("make", "asked"), ASKED)
def test_who_may_be_first(make: Any, asked: dict[str, str]) -> None:
    answer = ap.rank(make(), **asked)
    sites = answer["site"].values if "by" in asked else [None]
    for ranks in (answer if site is None else answer.sel(site=site) for site in sites):
        summary = ranks["summary"].item() if "by" in asked else ranks.attrs["summary"]
        pattern = (
            r"(.*?) ranks? first(?: by WER \(less is better\))?; (\d+) of (\d+) models may \(95 % .*; (\d+) groups?"
        )
        said = re.match(pattern, summary)
        assert said[1].split(", ") == list(ranks["model"].values[ranks["rank"] == ranks["rank"].min()])
        may_be_first = int((ranks["simultaneous_rank_interval"].sel(ci_bound="lower") == 1).sum())
        n_groups = int(ranks["last_group"].max())
        assert [int(one) for one in said.groups()[1:]] == [may_be_first, ranks.sizes["model"], n_groups]


@pytest.mark.parametrize("make", [items, errors, data_sets])
def test_what_would_be_missed(make: Any) -> None:
    found = ap.power(make(), **({"over": "dataset"} if make is data_sets else {}))
    pattern = r"With (\d+) ([\w ]+), the smallest .* power at 5 % is (\S+) .*?, (\S+) by simultaneous intervals"
    said = re.match(pattern, found.attrs["summary"])
    upper = np.triu_indices(found.sizes["model"], 1)
    for number, name in ((said[3], "detectable"), (said[4], "detectable_family")):
        assert float(number) == pytest.approx(np.median(found[name].values[upper]), rel=0.06)
    assert (
        said.groups()[:2] == {items: ("75", "positives"), errors: ("14", "tasks"), data_sets: ("5", "data sets")}[make]
    )


def test_a_mean_says_how_many_units_it_is_of() -> None:
    values = errors()
    values["estimate"][0, :3] = np.nan
    means = ap.aggregate(values)
    assert means["n_queries"].values.tolist() == [11, 14, 14]
    assert "with a value (up to 14)" in means.attrs["design"]


@pytest.mark.parametrize("named", ["patient", None])
def test_clusters_are_called_as_their_variable_or_column(tmp_path: Path, named: str | None) -> None:
    scores = items().isel(model=[0, 3])
    patient = xr.DataArray(np.arange(300) // 3, dims="item", name=named)
    ours = "the clusters (patient)" if named else "the clusters"
    ap.save_scores(scores, tmp_path / "scores.zarr", clusters=patient)
    frame = scores["score"].T.to_pandas().assign(y=scores["label"], who=patient.values)
    for answer in (
        ap.evaluate(scores, clusters=patient),
        ap.compare(scores, clusters=patient),
        ap.compare(ap.open_scores(tmp_path / "scores.zarr")),
        ap.contrast(scores, "site", clusters=patient),
        *(
            []
            if named is None
            else [ap.compare(ap.from_dataframe(frame.rename(columns={"who": named}), label="y", clusters=named))]
        ),
    ):
        assert f"sample: {ours}" in answer.attrs["design"]
    found = ap.power(scores, clusters=patient).attrs["summary"]
    assert f"effective {ours.removeprefix('the ')} with positives" in found


def test_captions_of_tables_with_letters() -> None:
    made, answer = ap.letters(errors()), ap.compare(errors())
    shown = np.triu(answer["p_adjusted"].values <= 0.05, 1)
    assert sum(len(one) for one in made.worse.to_numpy().ravel()) == shown.sum() > 0
    tested = f"5 % level, sign flip, {in_words(answer.attrs['adjust'])} adjusted for the 3 pairs"
    assert tested in made.caption
    assert made.caption.startswith(f"Means over {int(answer['n_units'])} ")


@pytest.mark.parametrize("gaps", [[], [3, 20, 21, 50]])
def test_findings_of_audits(gaps: list[int]) -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=(6, 14)) * 0.5 + np.linspace(5, 8, 6)[:, None]
    long = pd.DataFrame(values, list("abcdef")).rename_axis("model").reset_index().melt("model", var_name="task")
    table = ap.from_values(long.rename(columns={"value": "WER"}).drop(gaps))
    said = dict(ap.audit(table).verdict)
    kept = table["estimate"].dropna("query")
    means = kept.mean("query").to_series().sort_values()  # of errors, the least is best
    answer = ap.compare(table.sel(query=kept["query"], model=list(means.index)))
    shown = np.triu(answer["p_adjusted"].values <= 0.05, 1)
    ranks = ap.rank(table, incomplete="drop")
    n_groups = int(ranks["last_group"].max())
    neighbours = f"Of 5 neighbouring pairs, {np.diagonal(shown, 1).sum()} differ beyond chance; of all 15 pairs"
    assert said["Neighbours"].startswith(f"{neighbours}, {shown.sum()} (5 % level")
    assert said["Neighbours"].endswith(f"form {n_groups} groups.")
    n_first = int((ranks["simultaneous_rank_interval"].sel(ci_bound="lower") == 1).sum())
    assert said["First place"] == f"{means.index[0]} leads with {means.iloc[0]:.2f}, and {n_first} models may be first."
    missed = ap.power(table, incomplete="drop")["detectable_family"].values[np.triu_indices(6, 1)]
    number = re.search(r"With (\d+) tasks, .*? power is (\S+) \(simultaneous", said["Resolution"])
    assert int(number[1]) == kept.sizes["query"]
    assert float(number[2]) == pytest.approx(np.median(missed), rel=0.05)
    apart = kept - kept.mean("model")
    mean = apart.mean("query")
    share = apart.dot(mean, "model") / (mean**2).sum() / kept.sizes["query"]
    decisive = share.to_series().sort_values(ascending=False, kind="stable")[:5]
    listed = re.search(r"(\d+) of (\d+) tasks make up (\d+) % .*?: (.*?)\. Leaving", said["Tasks that decide"])
    assert [int(one) for one in listed.groups()[:3]] == [5, kept.sizes["query"], round(100 * decisive.sum())]
    assert listed[4] == ", ".join(f"{name} {round(100 * one)} %" for name, one in decisive.items())
    assert ("Empty cells" in said) == bool(gaps)
    if gaps:
        complete = table["estimate"].dropna("model")
        leader = complete.mean("query").to_series().idxmin()
        assert said["Empty cells"].startswith("4 of 84 cells are empty")
        assert "3 tasks with gaps count in no mean: 0, 3, 8." in said["Empty cells"]
        assert f"ranks {complete.sizes['model']} models on 14 tasks: {leader} leads" in said["Empty cells"]


# --- facts that every sentence states: family, level, direction, column, and what is left out ------------------------


def clustered() -> xr.Dataset:
    return items().assign_coords(cluster=("item", np.arange(300) // 3))


def by_site_with_one_that_has_no_positive() -> xr.Dataset:
    site = np.where(np.arange(300) < 8, "Tiny", SITE["site"][1])
    scores = items().assign_coords(site=("item", site))
    return scores.assign(label=scores["label"] & (scores["site"] != "Tiny"))


def with_gaps() -> xr.Dataset:
    values = errors()
    values["estimate"][0, :3] = np.nan
    return values


def named_by_its_column() -> xr.Dataset:
    long = errors()["estimate"].to_series().rename("x").reset_index()
    return ap.from_values(long[["model", "query", "x"]].rename(columns={"query": "task"}), value="x")


def repeated() -> xr.Dataset:
    random, label = np.random.default_rng(3), np.arange(200) % 4 == 0
    score = random.normal(size=(3, 5, 200)) + label * np.array([1.0, 1.5, 3.0])[:, None, None]
    fold = np.array([random.permutation(200) % 5 for _ in range(5)])
    variables = {"score": (("model", "repeat", "item"), score), "label": ("item", label)}
    return xr.Dataset(variables | {"fold": (("repeat", "item"), fold)}, {"model": list("abc")})


def of_classes() -> xr.Dataset:
    random, kind = np.random.default_rng(3), np.arange(300) % 3
    score = random.normal(size=(3, 3, 300)) + (kind == np.arange(3)[:, None]) * np.array([1.0, 1.5, 3.0])[:, None, None]
    variables = {"score": (("model", "class", "item"), score), "label": ("item", kind)}
    return xr.Dataset(variables, {"model": list("abc"), "class": [0, 1, 2]})


STRUCTURES: list[tuple[Any, dict[str, str]]] = [
    *[(make, {}) for make in (items, clustered, errors, named_by_its_column, repeated, of_classes)],
    *[(make, {"by": "site"}) for make in (items, clustered, by_site_with_one_that_has_no_positive)],
    *[(with_gaps, {"incomplete": way}) for way in ("drop", "drop_models")],
    (data_sets, {"over": "dataset"}),
]
OF_GAPS = {
    "drop": "left out: 3 of 14 tasks ('0', '1', '2'), of which 'a' lacks 3",
    "drop_models": "left out: 'a', which lacks 3 of 14 tasks",
}
NO_ANSWER = re.compile("(?:no|without an) answer(?: for|:) '?Tiny", re.IGNORECASE)
ids = [" ".join([make.__name__, *asked.values()]) for make, asked in STRUCTURES]


def check_left_out(said: str, make: Any, asked: dict[str, str]) -> None:
    """What is left out of an answer stands in its sentence, and nothing else does."""
    assert said.lower().count("left out") == ("incomplete" in asked)
    assert OF_GAPS.get(asked.get("incomplete", ""), "") in f"{said[:1].lower()}{said[1:]}".replace("Left", "left")
    assert bool(NO_ANSWER.search(said)) == (make is by_site_with_one_that_has_no_positive)


def check_measure(said: str, make: Any) -> None:
    """Of values, the measure or the column is named, and that less is better where it is."""
    of = {named_by_its_column: "x"}.get(make, "WER (less is better)" if make in (errors, with_gaps) else None)
    assert ("less is better" in said) == (make in (errors, with_gaps))
    assert of is None or f" {of}" in said


@pytest.mark.sparse
@pytest.mark.parametrize(
    ("baseline", "adjust", "level"), [(None, None, 0.95), ("b", "none", 0.8), ("b", "benjamini_hochberg", 0.9)]
)
@pytest.mark.parametrize(("make", "asked"), STRUCTURES, ids=ids)
def test_comparisons_state_their_facts(
    make: Any, asked: dict[str, str], baseline: str | None, adjust: Any, level: float
) -> None:
    answer = ap.compare(make(), baseline, level=level, adjust=adjust, **asked)
    said, (n, known) = answer.attrs["summary"], facts(answer, asked.get("by"))
    check_left_out(said, make, asked)
    check_measure(said, make)
    assert n == answer.attrs["family_size"] == read(said)[0]
    assert re.search(rf" at {100 * (1 - level):.3g} %(,|;|$)", said)
    used = answer.attrs["adjust"]
    way = "not adjusted" if used == "none" else f"adjusted by {in_words(used)} for all {n}"
    assert (f", {way}" in said) == (n > 1)
    assert ("shown: " in said) == bool(sum(map(len, known.values())))
    groups = re.search(r" in (\d+)(?: of (\d+))? groups by site", said)
    assert bool(groups) == ("by" in asked)
    if groups:
        has_answer = answer["p_value"].notnull().any([dim for dim in answer["p_value"].dims if dim != "site"])
        assert int(groups[1]) == int(has_answer.sum())
        assert int(groups[2] or groups[1]) == answer.sizes["site"]


@pytest.mark.parametrize(("make", "asked"), STRUCTURES, ids=ids)
def test_ranks_state_their_facts(make: Any, asked: dict[str, str]) -> None:
    answer = ap.rank(make(), level=0.9, **asked)
    sites = answer["site"].values if "by" in asked else [None]
    for ranks in (answer if site is None else answer.sel(site=site) for site in sites):
        said = ranks["summary"].item() if "by" in asked else ranks.attrs["summary"]
        if bool(ranks["rank"].isnull().all()):  # no answer: the reason is that of the others' design
            assert "no answer for 'Tiny'" in answer.attrs["design"]
            continue
        assert "(90 % simultaneous rank sets)" in said
        check_measure(said, make)
        check_left_out(said, items, asked)


@pytest.mark.parametrize(("make", "asked"), STRUCTURES, ids=ids)
def test_power_states_its_level(make: Any, asked: dict[str, str]) -> None:
    answer = ap.power(make(), level=0.8, power=0.7, **asked)
    sites = answer["site"].values if "by" in asked else [None]
    for found in (answer if site is None else answer.sel(site=site) for site in sites):
        said = found["summary"].item() if "by" in asked else found.attrs["summary"]
        if bool(found["detectable"].isnull().all()):
            continue
        assert "70 % power at 20 % is " in said
        check_left_out(said, items, asked)


@pytest.mark.parametrize("candidate", ["c", ["a", "c"]], ids=["one", "two"])
@pytest.mark.parametrize(("make", "asked"), STRUCTURES, ids=ids)
def test_gates_state_their_family_and_direction(make: Any, asked: dict[str, str], candidate: Any) -> None:
    if asked.get("incomplete") == "drop_models" and candidate != "c":
        with pytest.raises(ap.errors.InvalidInputError, match="models to judge are left out"):
            ap.gate(make(), candidate, "b", **asked)
        return
    found = ap.gate(make(), candidate, "b", level=0.9, **asked)
    gates = list(found) if isinstance(found, tuple) else [found]
    known = [gate for gate in gates if not np.isnan(gate.p_value)]
    assert len(gates) - len(known) == (
        0 if make is not by_site_with_one_that_has_no_positive else len(np.atleast_1d(candidate))
    )
    for gate in known:
        family = re.search(r"; interval and p hold for all (\d+);", f"{gate.sentence};")
        assert int(family[1] if family else 1) == len(known) == gate.family
        assert ("better by" in gate.sentence) == (make in (errors, with_gaps))
        measure = {named_by_its_column: "x", errors: "WER", with_gaps: "WER"}.get(make, "average precision")
        assert f": {measure} " in gate.sentence
        check_left_out(gate.sentence, items, asked if "a" in candidate else {})  # a pair depends on that pair alone


@pytest.mark.parametrize(("make", "asked"), [pair for pair in STRUCTURES if pair[0] is not data_sets])
def test_captions_state_level_family_and_what_is_left_out(make: Any, asked: dict[str, str]) -> None:
    caption = ap.letters(make(), level=0.9, **asked).caption
    answer = ap.compare(make(), level=0.9, **asked)
    n = answer.attrs["family_size"]
    of = "all groups" if "by" in asked else "each measure"
    adjusted = f", {in_words(answer.attrs['adjust'])} adjusted for the {n} pairs of {of}" if n > 1 else ""
    assert f"(10 % level, {in_words(answer.attrs['method'])}{adjusted})" in caption
    check_left_out(caption, make, asked)


def test_contrasts_count_the_groups_that_have_an_answer() -> None:
    said = ap.contrast(by_site_with_one_that_has_no_positive(), "site", level=0.9).attrs["summary"]
    assert said.startswith(
        "12 contrasts of 3 of 4 groups by site between all pairs at 10 %, adjusted by Holm for all 12"
    )
    assert said.endswith("without an answer: Tiny")  # whose prevalence of 0 does not count


def test_captions_state_repeats_and_clusters_and_gates_effective_positives() -> None:
    random, label = np.random.default_rng(3), (np.arange(200) % 4 == 0).astype("int8")
    score = random.normal(size=(2, 3, 200)) + np.reshape([0.5, 1.0, 1.5], (3, 1)) * label
    scores = xr.Dataset(
        {"score": (("repeat", "model", "item"), score), "label": ("item", label)}, coords={"model": list("abc")}
    )
    assert ap.letters(scores).caption.startswith("Means of 2 repeats, whose training varies, too, ties share")
    one = scores.isel(repeat=0)
    clusters = one.assign(cluster=("item", np.arange(200) // 4))
    assert "Models are compared by clusters." in ap.letters(clusters).caption
    assert "compared by" not in ap.letters(one).caption
    said = str(ap.gate(one, "a", "c", margin=0.3))
    assert "with 50 positives" in said
    weighted = one.assign(weight=("item", random.uniform(0.5, 3, 200)))
    n = float(ap.covariance(weighted)["n_effective"].min())
    assert f"with {np.ceil(n):.0f} effective positives" in str(ap.gate(weighted, "a", "c", margin=0.3))
    assert "effective positives" in ap.power(weighted).attrs["summary"]


def test_too_few_units_are_named_and_counted_with_their_adjustment() -> None:
    random = np.random.default_rng(3)
    values = xr.Dataset(
        {"estimate": (("model", "query"), random.random((3, 12)))},
        {"model": list("abc"), "query": [f"t{i}" for i in range(12)], "lang": ("query", ["de", "en"] * 6)},
        {"measure": "F1", "unit": "task"},
    )
    said = ap.compare(values.isel(query=slice(4))).attrs["summary"]
    assert said.endswith("no difference can be shown with 4 tasks: the smallest p-value that they can have is 0.125")
    said = ap.compare(values, by="lang").attrs["summary"]
    assert said.endswith(
        "no difference can be shown with up to 6 tasks in a group: "
        "the smallest p-value that they can have is 0.0312, 0.19 after adjustment"
    )
    least = ap.compare(values.assign(estimate=values["estimate"] / 9 + [[1.0], [2], [3]]), by="lang")["p_adjusted"]
    assert float(least.min()) == 6 * 2.0**-5  # all differences have one sign
    clusters = values.assign(cluster=("query", np.arange(12) // 3))
    assert "no difference can be shown with 4 clusters of queries" in ap.compare(clusters).attrs["summary"]


def test_groups_of_models_of_each_group_of_items_go_by_the_sets_of_all() -> None:
    random = np.random.default_rng(0)
    label = (np.arange(600) % 5 == 0).astype("int8")
    score = random.normal(size=(3, 600)) + np.reshape([0.3, 0.9, 1.6], (3, 1)) * label
    coords = {"model": list("abc"), "site": ("item", np.resize(list("uvw"), 600))}
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords)
    found, differ = ap.rank(scores, by="site"), 0
    for site in "uvw":
        one = found.sel(site=site)
        alone = ap.rank(scores.isel(item=scores["site"].values == site).drop_vars("site"))
        joint = ap.rank(scores.isel(item=scores["site"].values == site).drop_vars("site"), level=1 - 0.05 / 3)
        for name in ("first_group", "last_group", "simultaneous_rank_interval"):
            np.testing.assert_array_equal(one[name], joint[name])
        assert one.get("n_groups", found.attrs.get("n_groups")) == joint.attrs["n_groups"] == one["last_group"].max()
        np.testing.assert_array_equal(one["rank_interval"], alone["rank_interval"])
        said = str(one["summary"].values)
        if "all are told apart" in said:
            assert "1 of 3 models may" in said
        differ += alone.attrs["n_groups"] != joint.attrs["n_groups"]
    assert differ


def test_equal_rankings_do_not_lower_what_is_shown() -> None:
    random, label = np.random.default_rng(3), (np.arange(200) % 4 == 0).astype("int8")
    score = random.normal(size=(2, 200)) + np.reshape([0.5, 1.0], (2, 1)) * label
    names = {"model": ["a", "b", "c", "d"]}
    scores = xr.Dataset({"score": (("model", "item"), score[[0, 1, 0, 1]]), "label": ("item", label)}, names)
    pair = re.search(r"at 5 % is (\S+)", ap.power(scores.isel(model=[0, 1])).attrs["summary"])
    assert pair
    said = ap.power(scores).attrs["summary"]
    assert f"at 5 % is {pair[1]} (median of 4 pairs)" in said
    assert ", 0 between" not in said


def test_values_without_a_name_of_which_less_is_better_are_called_values() -> None:
    table = pd.DataFrame({"task": [f"t{i}" for i in range(8)], "a": np.arange(8.0), "b": np.arange(8.0) - 1})
    said = ap.compare(ap.from_values(table, lower_is_better=True), "a").attrs["summary"]
    assert said.startswith("1 comparison of values (less is better) at 5 %")
