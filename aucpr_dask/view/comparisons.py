"""Comparisons and ranks: documents for programs (``--json``), and the tables and sentences that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text

from aucpr_dask.errors import as_called, few, printable
from aucpr_dask.evaluation.results import group_dims, groups_as_data_sets
from aucpr_dask.inference.contrasting import contrast_rows
from aucpr_dask.inference.covarying import BASELINE, OTHER_MODEL
from aucpr_dask.inference.designs import better, direction, measured, noun, unit_names
from aucpr_dask.inference.sentences import SUMMARY, summary_of
from aucpr_dask.schema import terms
from aucpr_dask.view.rankings import Document, labels_as_text
from aucpr_dask.view.tables import WIDEST_NAME, Column, Sheet, bounds, first, more, number, shorten, signed, titled

MOST_PAIRS = 20_000  # in a document; a store holds all
TOP = 10
_OF_PAIRS = ("difference", "standard_error", "interval", "simultaneous_interval", "p_value", "p_adjusted")
_OF_SOME_PAIRS = (
    *("p_equivalence", "decision", "tuning", "width_ratio"),
    *("prediction_interval", "tau", "i_squared", "probability"),
)
_OF_POWER = ("detectable", "detectable_family", "power", "power_family", "n_needed", "n_needed_family")
_OF_MEAN_RANKS = ("p_adjusted", "mean_difference", "wins", "ties", "losses")
_OF_RANKS = ("estimate", "rank", "rank_interval", "simultaneous_rank_interval", "probability_best", "expected_rank")


def summarize(answers: terms.Scores) -> list[Document]:
    """Return the answers of each data set or group of items that has one, best first; None where a method has none."""
    documents = []
    for path, node in terms.nodes_of(groups_as_data_sets(answers)):
        node = node.load()
        if "by" not in node.attrs or node["estimate"].notnull().any():
            own = {str(name): one.item() for name, one in node.data_vars.items() if not one.ndim}  # of this group alone
            facts = node.attrs | own
            facts.setdefault(SUMMARY, summary_of(node))  # of lazy pairs, now that they are computed
            n_units: Document = {"n_units": int(node["n_units"]) if "n_units" in node else None}
            if "mean_rank" in node:  # the models by mean rank, each with its difference from the first
                node = node.isel({terms.MODEL: np.argsort(node["mean_rank"].values, kind="stable")})
                of_first = node.sel({OTHER_MODEL: node[terms.MODEL].values[0]})
                columns: Document = {name: node[name].values for name in ("mean_rank", "first_group", "last_group")}
                columns |= {name: of_first[name].values for name in _OF_MEAN_RANKS}
                tests = {name: float(node[name]) for name in ("statistic", "p_value", "critical_distance")}
                models = pd.DataFrame({"model": labels_as_text(node)} | columns)
                found: Document = {"facts": dict(node.attrs) | tests, "models": models}
            elif "detectable" in node:  # what can be shown of each model and its next, or of each and the baselines
                node, _, cells = _compared(node)
                models = _pairs(node, cells, [name for name in _OF_POWER if name in node])
                models.insert(2, "estimate", node["estimate"].values[[i for i, _ in cells]])
                found = {"models": models}
            elif "rank" in node:  # which have differences, too
                columns = {name: list(node[name].transpose(terms.MODEL, ...).values) for name in _OF_RANKS}
                columns["groups"] = list(zip(node["first_group"].values, node["last_group"].values, strict=True))
                models = pd.DataFrame({"model": labels_as_text(node)} | columns)
                found = n_units | {"models": models.iloc[_best_first(node["estimate"].values, node)]}
            else:
                found = n_units | _summarize_pairs(node)
            documents.append({"data_set": path, "facts": facts} | found)
    return documents


def of_all_groups(answers: terms.Scores) -> list[str]:
    """Return what comparisons within several groups have shown in all of them together."""
    nodes = {path: node for path, node in terms.nodes_of(answers) if "by" in node.attrs and "p_adjusted" in node}
    return [f"{f'{path}: ' if len(nodes) > 1 else ''}{node.attrs[SUMMARY]}" for path, node in nodes.items()]


def _summarize_pairs(node: xr.Dataset) -> Document:
    """Return pairs of a better and a worse model: with baselines, or neighbours first and then all others."""
    node, order, cells = _compared(node)
    names, estimate = labels_as_text(node), node["estimate"].values
    is_separable = node["p_adjusted"].values <= 1 - float(node.attrs["level"])
    is_tested = node["p_value"].notnull().values
    baselines, n_neighbours, n_hidden = None, None, 0
    if BASELINE in node.dims:
        baselines = labels_as_text(node, BASELINE)
        # Two baselines are compared with each other twice.
        of_pairs = {frozenset((names[i], baselines[j])): (is_separable[i, j], is_tested[i, j]) for i, j in cells}
        n_separable, n_pairs = (sum(int(one[place]) for one in of_pairs.values()) for place in (0, 1))
    else:
        n_separable, n_pairs = (int(np.count_nonzero(np.triu(one, 1))) for one in (is_separable, is_tested))
        n_neighbours = int(sum(is_separable[pair] for pair in cells))
        if len(names) * (len(names) - 1) // 2 <= MOST_PAIRS:
            cells += [(i, j) for at, i in enumerate(order) for j in order[at + 2 :]]
        n_hidden = max(0, n_pairs - len(cells))
    pairs = _pairs(node, cells, (*_OF_PAIRS, *_OF_SOME_PAIRS))
    if "decision" in node:
        pairs["decision"] = pairs["decision"].map(dict(enumerate(node["decision"].attrs["flag_meanings"].split())))
    return {
        "baselines": baselines,
        "models": [(names[i], float(estimate[i])) for i in order],
        "n_separable": int(n_separable),
        "n_pairs": int(n_pairs),
        "n_separable_neighbours": n_neighbours,
        "pairs": pairs,
        "more_pairs": n_hidden,
    }


def _compared(node: xr.Dataset) -> tuple[xr.Dataset, NDArray[np.intp], list[tuple[int, int]]]:
    """Return a node whose baselines, if any, are a dimension; its models, best first; and the places of its pairs."""
    if BASELINE in node.coords and BASELINE not in node.dims:
        of_pairs = [name for name in (*_OF_PAIRS, *_OF_SOME_PAIRS, *_OF_POWER) if name in node]
        node = node.drop_vars(BASELINE).assign({name: node[name].expand_dims(BASELINE, 1) for name in of_pairs})
    order = _best_first(node["estimate"].values, node)
    if BASELINE not in node.dims:
        return node, order, list(pairwise(order))
    names, baselines = labels_as_text(node), labels_as_text(node, BASELINE)
    return node, order, [(i, j) for j, name in enumerate(baselines) for i in order if names[i] != name]


def _pairs(node: xr.Dataset, cells: Sequence[tuple[int, int]], variables: Sequence[str]) -> pd.DataFrame:
    """Return a row for each pair; intervals are arrays (lower, upper)."""
    of_models, of_others = np.array(cells, dtype=np.intp).reshape(-1, 2).T
    others = labels_as_text(node, BASELINE if BASELINE in node.dims else OTHER_MODEL)
    columns = {name: list(node[name].values[of_models, of_others]) if name in node else None for name in variables}
    names = np.array(labels_as_text(node), object)[of_models], np.array(others, object)[of_others]
    return pd.DataFrame(dict(zip(("model", "other"), names, strict=True)) | columns)


def _best_first(estimate: NDArray[np.float64], node: xr.Dataset) -> NDArray[np.intp]:
    return np.argsort(-direction(node.attrs) * estimate, kind="stable")


class Answer(NamedTuple):
    """What people see of one comparison, or of the ranks of one data set."""

    title: tuple[str, str]  # the data set; the estimator and the method
    sheets: list[Sheet]
    notes: list[str]  # what was found first, empty where it is said of all groups

    def __rich__(self) -> Group:
        """Return the tables and notes for a terminal."""
        sheets: list[RenderableType] = []
        for sheet in self.sheets:
            sheets += [Text(""), sheet] if sheet.title[0] else [sheet]
        found, *notes = self.notes
        said = [Text(""), *([Text(found, style="bold")] if found else []), *(Text(note, style="dim") for note in notes)]
        return Group(titled(*self.title), *sheets, *said)

    def as_html(self) -> str:
        """Return the same for a notebook, with bars."""
        tables = [sheet.as_html("  ".join(self.title)) for sheet in self.sheets]
        return "".join([*tables, *(f"<p>{escape(printable(note))}</p>" for note in filter(None, self.notes))])


def answers_of(documents: Sequence[Document], *, top: int | None = TOP) -> list[Answer]:
    """Return what people see of documents; those of groups share a table."""
    shared: dict[tuple[Any, ...], list[Document]] = {}
    for place, document in enumerate(documents):
        baselines = document.get("baselines", ())
        key = (_about(document["facts"]), *(baselines or ())) if "by" in document["facts"] else (place,)
        shared.setdefault(key, []).append(document)
    return [_answer_of(group, top) for group in shared.values()]


def _answer_of(documents: list[Document], top: int | None) -> Answer:
    """Return what people see of one document, or of those of several groups, of which what is alike is said once."""
    (first, *others), facts = documents, documents[0]["facts"]
    if "pairs" in first:
        against = [_against(documents, baseline, top) for baseline in first["baselines"] or ()]
        sheets = against or [_neighbours(documents, top)]
    elif "mean_rank" in first["models"]:
        sheets = [_mean_ranks(first["models"], top)]
    else:
        sheets = [(_detectable if "detectable" in first["models"] else _ranks)(documents, top)]
    if not others:
        title = (shorten(first["data_set"], WIDEST_NAME) or "all models", _about(facts))
        return Answer(title, sheets, _notes(first))
    where: dict[tuple[int, str], list[str]] = {}
    for document in documents:
        found, *more_notes = _notes(document)
        # What comparisons have found, and what they left out, is said of all groups together.
        said = more_notes if "pairs" in document else [found, *more_notes]
        for placed in enumerate(said):
            where.setdefault(placed, []).append(document["data_set"])
    in_order = sorted(where.items(), key=lambda found: found[0][0])
    notes = [note if len(names) == len(documents) else f"{few(names)}: {note}" for (_, note), names in in_order]
    if "pairs" not in first and facts.get("groups_left_out"):  # a comparison names them where it says what it found
        notes.append(f"no answer for {facts['groups_left_out']}")
    return Answer(("all groups", f"{_about(facts)}, by {facts['by']}"), sheets, ["", *notes])


def _about(facts: Document) -> str:
    """Return the measure, the method, and for values which way is better."""
    about = [measured(facts)] if {"estimator", terms.MEASURE} & set(facts) else []
    about += [terms.in_words(str(facts["method"]))] if "method" in facts else []
    about += [better(facts)] if terms.UNIT in facts else []
    return ", ".join(about)


# Comparisons


def _neighbours(comparisons: Sequence[Document], top: int | None) -> Sheet:
    """Return each model with its difference from the next."""
    parts = dict[str, pd.DataFrame]()
    for one in comparisons:
        models = pd.DataFrame(one["models"], columns=["model", "area"], index=range(1, len(one["models"]) + 1))
        pairs = one["pairs"][: len(models) - 1].drop(columns="model").set_axis(models.index[:-1])
        parts[one["data_set"]] = models.assign(place=models.index.astype(str)).join(pairs)
    shown, below, groups = _first_of_groups(parts, top)
    columns = [
        *groups,
        Column("", list(shown["place"]), right=True),
        Column("model", list(shown["model"]), name=True),
        Column(noun(comparisons[0]["facts"]), list(map(number, shown["area"])), right=True),
        *_columns(shown, "to next", has_room=not groups),
    ]
    return Sheet(columns, *_bars(shown), below)


def _against(comparisons: Sequence[Document], baseline: str, top: int | None) -> Sheet:
    """Return the models with their difference from a baseline, which has a column where there are several groups."""
    parts, facts, has_groups = dict[str, pd.DataFrame](), comparisons[0]["facts"], len(comparisons) > 1
    for one in comparisons:
        areas, pairs = dict(one["models"]), one["pairs"]
        of_baseline = pairs[pairs["other"] == baseline]
        parts[one["data_set"]] = of_baseline.assign(area=of_baseline["model"].map(areas), rival=areas[baseline])
    shown, below, groups = _first_of_groups(parts, top)
    rivals = list(map(number, shown["rival"]))
    columns = [
        *groups,
        Column("model", list(shown["model"]), name=True),
        Column(noun(facts), list(map(number, shown["area"])), right=True),
        *([Column("baseline", rivals, right=True)] if has_groups else []),
        *_columns(shown, "difference" if direction(facts) > 0 else "better by", has_room=not has_groups),
    ]
    title = (f"baseline {baseline}", "" if has_groups else number(dict(comparisons[0]["models"])[baseline]))
    return Sheet(columns, *_bars(shown), below, title=title)


def _first_of_groups(parts: Mapping[str, pd.DataFrame], top: int | None) -> tuple[pd.DataFrame, list[Text], list[Any]]:
    """Return the first models of each group, the line that counts the others, and a column of several groups."""
    shown = pd.concat([part[:top].assign(group=name) for name, part in parts.items()], ignore_index=True)
    groups = [Column("group", list(shown["group"]), name=True)] if len(parts) > 1 else []
    return shown, more(sum(map(len, parts.values())) - len(shown), "model"), groups


def _detectable(documents: Sequence[Document], top: int | None) -> Sheet:
    """Return the differences that can be shown, from the next model or from a baseline."""
    shown, below, groups = _first_of_groups({one["data_set"]: one["models"] for one in documents}, top)
    columns = [
        *groups,
        Column("model", list(shown["model"]), name=True),
        Column("with", list(shown["other"]), name=True),
    ]
    looks = {"detectable": ("detectable", "{:.2g}"), "detectable_family": ("simultaneous", "{:.2g}")}
    looks |= {"power": ("power", "{:.0%}"), "n_needed": ("needed", "{:,.0f}")}
    for name, (header, look) in looks.items():
        if name in shown:
            columns.append(Column(header, [look.format(one).replace("%", " %") for one in shown[name]], right=True))
    return Sheet(columns, below=below)


def _bars(pairs: pd.DataFrame) -> tuple[list[tuple[float, float, float]], tuple[float, float]]:
    """Return differences with their intervals, and a scale with zero in the middle."""
    intervals = pairs["simultaneous_interval" if _has(pairs, "simultaneous_interval") else "interval"]
    ends = [one if np.ndim(one) else (np.nan, np.nan) for one in intervals]
    bars = [(float(e[0]), float(d), float(e[1])) for d, e in zip(pairs["difference"], ends, strict=True)]
    most = max((abs(value) for bar in bars for value in bar if np.isfinite(value)), default=0.0) or 1.0
    return bars, (-most, most)


def _has(pairs: pd.DataFrame, name: str) -> bool:
    return len(pairs) > 0 and name in pairs and pairs[name].iloc[0] is not None


def _columns(pairs: pd.DataFrame, header: str, *, has_room: bool = True) -> list[Column]:
    """Return the columns of pairs, with empty cells in the rows without a pair."""
    is_pair = pairs["other"].notna()

    def column(header: str, name: str, show: Callable[[Any], str], *, right: bool = True) -> Column:
        cells = [show(one) if is_one else "" for one, is_one in zip(pairs[name], is_pair, strict=True)]
        return Column(header, cells, right)

    columns = [column(header, "difference", signed)]
    if _has(pairs, "simultaneous_interval"):
        columns.append(column("simultaneous", "simultaneous_interval", lambda ends: bounds(ends, "+"), right=False))
    is_predicted = _has(pairs, "prediction_interval")  # a wide column: the p-value of each alone makes room
    columns += [column("p", "p_value", _p_value)] if has_room and not is_predicted else []
    columns.append(column("adjusted", "p_adjusted", _p_value))
    if _has(pairs, "probability"):
        in_percent = lambda of: "/".join(f"{100 * one:.0f}" for one in of[0])  # noqa: E731
        columns.append(column("better/same/worse", "probability", in_percent))
    elif is_predicted:
        columns.append(column("new data set", "prediction_interval", lambda ends: bounds(ends, "+"), right=False))
    elif _has(pairs, "decision"):
        columns.append(column("decision", "decision", str, right=False))
    return columns


def _p_value(value: float) -> str:
    if math.isnan(value):  # of a comparison that there is not
        return "-"
    return f"{value:.4f}" if value >= 0.00005 else "<0.0001"


def _notes(document: Document) -> list[str]:
    """Return what was found first, what else the columns say, and what was sampled; what was left out is said once."""
    facts = document["facts"]
    if "pairs" not in document and "mean_rank" in document["models"]:
        by = f"critical distance {facts['critical_distance']:.2f} (Nemenyi)"
        by = by if facts["posthoc"] == "nemenyi" else "Wilcoxon's test of each pair, Holm"
        without = (
            "ranks ignore how much models differ, and two of them depend on the others: see compare without method="
        )
        said = f"equal mean ranks: {terms.p_value_in_words(facts['p_value'])} (Friedman)"  # nothing of how they differ
        return [said, f"models of one group are not told apart: {by}", str(facts["design"]), as_called(without)]
    notes = [str(facts[SUMMARY])]
    if "pairs" in document:
        pairs, p_values = document["pairs"], ["p_value", "p_adjusted"]
        in_order = pairs[p_values].astype(float).round(4).sort_values(p_values)  # in the digits that are shown
        if (in_order["p_adjusted"].dropna().diff() < 0).any():
            why = "adjusted p-values go by differences in standard errors, p by the skewness of each pair, too"
            notes.append(f"{why}: orders differ")
        if "equivalence" in facts:
            margin = f"within {float(facts['equivalence']):g}"
            said = f"equivalence ({margin}): each pair alone, not adjusted for the number of pairs"
            if _has(pairs, "probability"):
                said = f"better, same, worse: chances (%) that the mean difference is above, {margin}, below"
            notes.append(said)
        elif _has(pairs, "prediction_interval"):
            where = "where the difference may lie on one more data set; not simultaneous: each holds alone"
            notes.append(f"new data set: {where}")
        if machine := widths(pairs["width_ratio"]):
            own = "each difference weighs the machine labels in its own way, so it is not that of the two means"
            notes += [*machine, own]
        notes += [str(facts["sizes"])] if "sizes" in facts else []
    notes.append(str(facts["design"]).removesuffix(f"; {facts.get('gaps')}"))
    if "rank" in document["models"]:
        drawn = "bootstrap resamples" if facts["method"] != "influence" else "draws of the areas"
        if document["n_units"] is not None and not {"items", "clusters"} & {*facts["over"].split(", ")}:
            drawn += f" of the {unit_names(facts['over'], facts)[1]}"
        notes.append(f"best: estimated probability of ranking first, from {drawn}")
    return notes


def widths(ratios: Iterable[float | None]) -> list[str]:
    """Say what machine labels save, if there are any."""
    known = sorted(ratio for ratio in ratios if ratio is not None and np.isfinite(ratio))
    if not known:
        return []
    spread = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (known[0], known[-1])))
    return [f"with machine labels, intervals are {spread} times as wide as from people's labels alone"]


# Groups of items


def contrasts_of(path: str, answer: xr.Dataset, top: int | None = TOP) -> Answer:
    """Return what people see of the contrasts of one data set: a row for each model and pair of groups."""
    shown, below = first(contrast_rows(answer), top, "contrast")
    areas = Column(noun(answer.attrs), list(map(number, shown["estimate"])), right=True)
    columns = [
        *(Column(name, list(shown[name]), name=True) for name in ("model", "group")),
        *([] if BASELINE in answer.attrs else [areas]),  # of which the difference of a difference is none
        Column("other group", list(shown["other"]), name=True),
        *_columns(shown, "difference", has_room=False),
    ]
    title = (path or "all groups", f"{measured(answer.attrs)}, by {answer.attrs['by']}")
    return Answer(title, [Sheet(columns, *_bars(shown), below)], [answer.attrs[SUMMARY], answer.attrs["design"]])


def rows_of_groups(answer: xr.Dataset) -> pd.DataFrame:
    """Return a row for each contrast, or for each model in each group that is compared with one baseline.

    The column `where` has the name of the group, or of both.
    """
    if "contrasted" in answer.attrs:
        rows = contrast_rows(answer)
        return rows.assign(where=rows["group"] + " \u2212 " + rows["other"])
    dims = group_dims(answer)
    flat = answer.stack(place=(terms.MODEL, *dims), create_index=False)
    labels = zip(*(flat[dim].values for dim in dims), strict=True)
    where = [terms.group_in_words(dict(zip(dims, one, strict=True))) for one in labels]
    values = {name: list(flat[name].transpose("place", ...).values) for name in _OF_PAIRS if name in flat}
    return pd.DataFrame({"model": list(map(str, flat[terms.MODEL].values)), "group": where, "where": where} | values)


# Ranks


def _mean_ranks(models: pd.DataFrame, top: int | None) -> Sheet:
    """Return the models with their mean ranks, and their differences from the first."""
    shown, below = first(models, top)
    columns = [
        Column("mean rank", [f"{rank:.2f}" for rank in shown["mean_rank"]], right=True),
        Column("model", list(shown["model"]), name=True),
        Column("groups", list(map(_span, zip(shown["first_group"], shown["last_group"], strict=True)))),
        Column("from the first", ["", *map(signed, shown["mean_difference"][1:])], right=True),
        Column("adjusted", ["", *map(_p_value, shown["p_adjusted"][1:])], right=True),
    ]
    counts = ["/".join(map(str, one)) for one in shown[["wins", "ties", "losses"]].values]
    columns.append(Column("win/tie/loss", ["", *counts[1:]], right=True))
    return Sheet(columns, below=below)


def _ranks(documents: Sequence[Document], top: int | None) -> Sheet:
    """Return the models with the ranks that they may have, best first."""
    shown, below, groups = _first_of_groups({one["data_set"]: one["models"] for one in documents}, top)
    columns = [
        *groups,
        Column("", [f"{rank:g}" for rank in shown["rank"]], right=True),
        Column("model", list(shown["model"]), name=True),
        Column(noun(documents[0]["facts"]), list(map(number, shown["estimate"])), right=True),
        Column("rank set", list(map(_span, shown["rank_interval"]))),
        Column("simultaneous", list(map(_span, shown["simultaneous_rank_interval"]))),
        Column("best", [terms.percent(share, ".1f") for share in shown["probability_best"]], right=True),
        *([] if groups else [Column("groups", list(map(_span, shown["groups"])))]),
    ]
    ends = shown["simultaneous_rank_interval"]
    bars = [(float(e[0]), float(r), float(e[1])) for r, e in zip(shown["rank"], ends, strict=True)]
    return Sheet(columns, bars, (1.0, float(max(len(one["models"]) for one in documents))), below)


def _span(ends: Sequence[int]) -> str:
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g}-{ends[1]:g}"
