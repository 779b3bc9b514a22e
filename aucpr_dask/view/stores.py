"""What is in a store of scores, results or answers: documents for programs (``--json``), and what people see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from aucpr_dask.inference.designs import are_values
from aucpr_dask.schema import terms
from aucpr_dask.view.rankings import MOST_DATA_SETS, Document, labels_as_text, rank_models, rankings_view
from aucpr_dask.view.tables import Column, Sheet, attributes_view, first, shorten, titled, whole

MOST_MISSING = 5
NAMES_KEPT = 5
WIDEST_PLACE = 60
HOW_TO_SEE = ": --dataset NAME shows one, --json all"  # of data sets that are only counted


def summarize_scores(scores: terms.Scores, url: str, *, positive_from: int | None = None) -> Document:
    """Evaluate every ranking once without missing scores, to learn sizes and oddities before a run."""
    from aucpr_dask.evaluation.api import evaluate

    lowest = 1 if positive_from is None else positive_from
    nodes = dict(terms.nodes_of(scores))
    evaluated = evaluate(scores, interval=(), missing="drop", positive_from=lowest)
    names = ["n_positive", "n_negative", "n_missing", "flags"]
    counts = {path: dataset[names] for path, dataset in terms.nodes_of(evaluated)}
    labels = (dataset["label"] for dataset in nodes.values() if "label" in dataset)
    grades = [label.max() for label in labels if label.size]
    if any(dataset["score"].chunks is not None for dataset in nodes.values()):
        import dask.base

        counts, grades = dask.base.compute(counts, grades)  # in one pass
    sizes = []
    for path, dataset in nodes.items():
        # Of each query or class: from shared labels, else from the fullest ranking.
        sides, label = _most_positives(counts[path]), dataset.get("label")
        if not (label is None or terms.MODEL in label.dims or "weight" in dataset or "n_positive" in dataset):
            positive = label >= lowest
            negative = ~positive & (label >= terms.UNJUDGED)
            sides = positive.sum(terms.ITEM), negative.sum(terms.ITEM)
        sizes.append(_size(path, counts[path], *sides, dataset.sizes[terms.ITEM]))
    return _summary(url, counts, sizes) | {
        "missing": _missing(nodes, counts),
        "grades_up_to": max((int(grade) for grade in grades), default=1),
        "positive_from": lowest,
        "kind": "scores",
    }


def summarize_result(result: terms.Scores, url: str, most: int | None = None) -> Document:
    """Gather sizes, options, flags and rankings of a result, for up to `most` groups or data sets."""
    nodes = dict(terms.nodes_of(result))
    for path, node in nodes.items():
        if are_values(node):  # no flags, unknown numbers of items, missing values
            estimate = node["estimate"].compute()
            counts = dict.fromkeys(("n_positive", "n_negative"), xr.full_like(estimate, np.nan))
            counts |= {"n_missing": estimate.isnull(), "flags": xr.zeros_like(estimate, dtype=np.int64)}
            nodes[path] = node.assign(counts)
    sizes = [_size(path, dataset, *_most_positives(dataset), None) for path, dataset in nodes.items()]
    shared = _shared([dataset.attrs for dataset in nodes.values()])
    attrs = {str(name): value for name, value in (dict(result.attrs) | shared).items()}
    return _summary(url, nodes, sizes) | {"attrs": attrs, "rankings": rank_models(result, most=most), "kind": "result"}


def _summary(url: str, counts: dict[str, xr.Dataset], sizes: list[Document]) -> Document:
    """Return what the summaries of scores and of results both have."""
    n_rankings = sum(dataset["flags"].size for dataset in counts.values())
    tables = {"data_sets": pd.DataFrame(sizes, dtype=object), "flags": summarize_flags(counts.items())}
    return {"url": url, "n_rankings": n_rankings} | tables


def _shared(facts: Sequence[Mapping[Any, Any]]) -> Document:
    """Return what all of these say alike."""
    return {name: value for name, value in facts[0].items() if all(one.get(name) == value for one in facts[1:])}


def summarize_answers(answers: terms.Scores) -> list[Document]:
    """Describe a store of comparisons or ranks without reading its arrays."""
    return [
        {
            "data_set": path,
            "kind": "ranks" if "rank" in node else "comparison",
            "sizes": {str(dim): size for dim, size in node.sizes.items() if dim != terms.BOUND},
            "facts": dict(node.attrs),
            "variables": {str(name): str(one.attrs.get("description", "")) for name, one in node.data_vars.items()},
        }
        for path, node in terms.nodes_of(answers)
    ]


def _most_positives(counts: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    dims = [dim for dim in (terms.MODEL, terms.REPEAT) if dim in counts["n_positive"].dims]
    return counts["n_positive"].max(dims), counts["n_negative"].max(dims)


def _size(
    path: str, counts: xr.Dataset, positive: xr.DataArray, negative: xr.DataArray, n_items: int | None
) -> Document:
    """Return the sizes of one data set; positives and negatives are summed over its queries or classes."""
    with np.errstate(invalid="ignore"):
        prevalence = np.atleast_1d((positive / (positive + negative)).values)
    known = prevalence[np.isfinite(prevalence)]
    low, median, high = (float(f(known)) for f in (np.min, np.median, np.max)) if known.size else (math.nan,) * 3
    return {
        "data_set": path,
        "n_models": counts.sizes[terms.MODEL],
        "n_queries": counts.sizes.get(terms.QUERY),
        "n_items": n_items,
        "n_positive": float(positive.sum(skipna=False)),
        "n_negative": float(negative.sum(skipna=False)),
        "prevalence_min": low,
        "prevalence_median": median,
        "prevalence_max": high,
        "n_missing": int(counts["n_missing"].sum()),
        "n_classes": counts.sizes.get(terms.CLASS),
    }


def _missing(nodes: dict[str, xr.Dataset], counts: dict[str, xr.Dataset]) -> pd.DataFrame:
    """Return the models with missing scores, the worst first; the share is None if models have different items."""
    found: list[Document] = []
    for path, dataset in nodes.items():
        per_model = counts[path]["n_missing"]
        per_model = per_model.sum([dim for dim in per_model.dims if dim != terms.MODEL])
        label = dataset.get("label")
        n_items = int((label != terms.PADDING).sum()) if label is not None and terms.MODEL not in label.dims else None
        found += [
            {"data_set": path, "model": name, "n_missing": int(n), "share": int(n) / n_items if n_items else None}
            for name, n in zip(labels_as_text(dataset), per_model.values, strict=True)
            if n
        ]
    found.sort(key=lambda one: (-(one["share"] or 0.0), -one["n_missing"]))
    return pd.DataFrame(found, dtype=object)


# Flags


def summarize_flags(nodes: Iterable[tuple[str, xr.Dataset]]) -> pd.DataFrame:
    """Count each flag over all rankings and name the first places; a whole query, class or model is one place."""
    tables = []  # of flags by model, query or class, and all else, such as repeats
    for path, dataset in nodes:
        unit = terms.CLASS if terms.CLASS in dataset.sizes else terms.QUERY
        flags = dataset["flags"].transpose(terms.MODEL, unit, ..., missing_dims="ignore")
        table = flags.values.reshape(dataset.sizes[terms.MODEL], flags.sizes.get(unit, 1), -1)
        tables.append((path, table, dataset, unit))
    found: list[Document] = []
    for flag in terms.FLAGS:
        raised = [(path, (table & flag.bit) != 0, *of) for path, table, *of in tables]
        n_raised = sum(int(mask.sum()) for _, mask, *_ in raised)
        if n_raised:
            places = [place for one in raised for place in _places(*one)]
            places.sort(key=lambda place: -place[0])  # the widest first
            one = {"flag": flag.name, "description": flag.description, "count": n_raised}
            one |= {"of": sum(mask.size for _, mask, *_ in raised), "places": [name for _, name in places[:NAMES_KEPT]]}
            found.append(one | {"more_places": max(0, len(places) - NAMES_KEPT)})
    return pd.DataFrame(found, dtype=object)


def flags_in_words(result: terms.Scores) -> str:
    """Return in one line how often each flag was raised; nothing if none was."""
    flags = summarize_flags(terms.nodes_of(result)).to_dict("records")
    counts = ", ".join(f"{flag['flag'].replace('_', ' ')} {flag['count']:,}" for flag in flags)
    return f"flagged rankings: {counts}" if flags else ""


def _places(path: str, raised: np.ndarray, dataset: xr.Dataset, unit: str) -> list[tuple[int, str]]:
    """Return (rankings, name) of each place (model, query or class) where `raised` is true, in any repeat."""
    models = labels_as_text(dataset)
    units = labels_as_text(dataset, unit) if unit in dataset.sizes else None
    start = f"{path}: " if path else ""
    if raised.all() and raised.size > 1:
        return [(raised.size, f"{start}all {raised.size} rankings")]
    mask: NDArray[np.bool_] = np.any(raised, axis=-1)
    places, n = [], raised.sum(axis=-1)
    if units is not None:
        for column in np.flatnonzero(mask.all(axis=0)) if len(models) > 1 else ():
            places.append((int(n[:, column].sum()), f"{start}{unit} {units[column]}"))
            mask[:, column] = False
        for row in np.flatnonzero(mask.all(axis=1)) if len(units) > 1 else ():
            places.append((int(n[row].sum()), f"{start}{models[row]}"))
            mask[row] = False
    for row, column in np.argwhere(mask):
        of_unit = f", {unit} {units[column]}" if units is not None else ""
        places.append((int(n[row, column]), f"{start}{models[row]}{of_unit}"))
    return places


# What people see


def scores_view(summary: Document) -> Group:
    """Show the summary of a score store."""
    parts: list[RenderableType] = [_headline("score store", summary), _sizes(summary["data_sets"])]
    if summary["grades_up_to"] > 1:
        at = f"positive here: from {summary['positive_from']} (--positive-from)"
        parts.append(Text(f"labels are graded up to {summary['grades_up_to']}; {at}"))
    if len(summary["missing"]):
        shown, below = first(summary["missing"], MOST_MISSING)
        columns = [Column("missing scores of", list(shown["model"]), name=True)]
        if any(shown["data_set"]):
            columns.append(Column("data set", list(shown["data_set"]), name=True))
        columns.append(Column("missing", list(map(whole, shown["n_missing"])), right=True))
        columns.append(Column("share", ["-" if one is None else _share(one) for one in shown["share"]], right=True))
        parts += [Text(""), Sheet(columns, below=[line.append(" with missing scores") for line in below])]
    return Group(*parts, Text(""), *_warnings(summary["flags"]))


def result_view(summary: Document) -> Group:
    """Show the summary of a result store."""
    attrs, data_sets = summary["attrs"], summary["data_sets"]
    sizes = _sizes(data_sets, terms.plural(str(attrs.get(terms.UNIT, terms.QUERY))))
    parts: list[RenderableType] = [
        _headline("result store", summary),
        attributes_view(attrs),
        Text(""),
        sizes,
        Text(""),
    ]
    rankings = rankings_view(summary["rankings"], n_data_sets=len(data_sets))
    return Group(*parts, *_warnings(summary["flags"]), Text(""), rankings)


def answers_view(answers: list[Document], url: str) -> Group:
    """Show a store of comparisons or ranks: what all data sets have alike, and what the first have of their own."""
    shared, (shown, below) = _shared([one["facts"] for one in answers]), first(answers, MOST_DATA_SETS, "data set")
    parts: list[RenderableType] = [Text(f"comparison store {url}", style="bold"), attributes_view(shared)]
    described = {name: said for name, said in answers[0]["variables"].items() if said}
    parts += [Text(""), attributes_view(described)]
    for answer in shown:
        sizes = ", ".join(terms.count(size, dim.replace("_", " ")) for dim, size in answer["sizes"].items())
        title = shorten(answer["data_set"], WIDEST_PLACE) or "all models"
        own = {name: value for name, value in answer["facts"].items() if name not in shared}
        parts += [Text(""), titled(title, f"{answer['kind']}: {sizes}"), attributes_view(own)]
    return Group(*parts, *(line.append(HOW_TO_SEE) for line in below))


def _headline(kind: str, summary: Document) -> Text:
    counts = f"{terms.count(len(summary['data_sets']), 'data set')}, {terms.count(summary['n_rankings'], 'ranking')}"
    return Text(f"{kind} {summary['url']}", style="bold").append(f"\n{counts}", style="not bold")


def _sizes(data_sets: pd.DataFrame, units: str = "queries") -> Sheet:
    """Return a table of the first data sets, without empty columns."""
    shown, below = first(data_sets, MOST_DATA_SETS, "data set")
    rows = shown.to_dict("records")

    def column(header: str, sizes: pd.Series[Any]) -> list[Column]:
        return [Column(header, list(map(whole, sizes)), right=True)] if any(one is not None for one in sizes) else []

    columns = [Column("data set", list(shown["data_set"]), name=True)] if any(shown["data_set"]) else []
    columns += column("models", shown["n_models"]) + column(units, shown["n_queries"])
    columns += column("classes", shown["n_classes"])
    if any(size is not None for size in shown["n_items"]):
        # Queries differ in length; the dimension has the length of the longest.
        items = ["" if one["n_queries"] is None or one["n_items"] is None else "≤ " for one in rows]
        cells = [mark + whole(one["n_items"]) for mark, one in zip(items, rows, strict=True)]
        columns.append(Column("items", cells, right=True))
    if any(map(math.isfinite, shown["n_positive"])):
        positive = [f"{n:,{'.6g' if n < 1e6 else '.0f'}}" for n in shown["n_positive"]]
        columns.append(Column("positive", positive, right=True))
        prevalence = []
        for one in rows:
            low, median, high = (one[f"prevalence_{name}"] for name in ("min", "median", "max"))
            is_one = (one["n_queries"] or one["n_classes"] or 1) == 1
            ends = f" ({_share(low)} to {_share(high)})" if math.isfinite(low) and not is_one else ""
            prevalence.append(f"{_share(median)}{ends}" if math.isfinite(median) else "-")
        columns.append(Column("prevalence", prevalence, right=True))
    columns += column("missing", shown["n_missing"].map(lambda n: n or None))
    return Sheet(columns, below=[line.append(HOW_TO_SEE) for line in below])


def _share(share: float) -> str:
    """Return a share with two significant digits, without an exponent."""
    digits = 0 if share >= 0.1 or share == 0 else min(4, -math.floor(math.log10(share)) - 1)
    return terms.percent(share, f".{digits}f")


def _warnings(flags: pd.DataFrame) -> list[RenderableType]:
    """Return each flag with its meaning, how often it was raised and the first places."""
    if not len(flags):
        return [Text("no warnings", style="green")]
    parts: list[RenderableType] = []
    for flag in flags.to_dict("records"):
        title = Text(flag["flag"].replace("_", " "), style="yellow")
        places = "; ".join(shorten(place, WIDEST_PLACE) for place in flag["places"])
        hidden = f"; and {flag['more_places']:,} more" if flag["more_places"] else ""
        parts += [
            title.append(f": {flag['count']:,} of {terms.count(flag['of'], 'ranking')}", style="default"),
            Padding(Text(flag["description"], style="dim"), (0, 0, 0, 2), expand=False),
            Padding(Text(places + hidden), (0, 0, 0, 2), expand=False),
        ]
    return parts
