"""Writing the page: sections from a result, text through a template, numbers as payload."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask._version import __version__
from aucpr_dask.errors import FewPositivesWarning, InvalidInputError, bad_argument, brief, closest, few, printable
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.evaluation.arrays import refuse_path
from aucpr_dask.evaluation.results import counted_positives, group_dims, groups_as_data_sets, that_know
from aucpr_dask.inference import aggregating, designs, ranking, samples
from aucpr_dask.inference.designs import are_values, better, direction, unit_names
from aucpr_dask.inference.grouped import tree_of_groups, with_kept_as_groups
from aucpr_dask.inference.powering import POWER, pair_reaches
from aucpr_dask.inference.questions import scores_behind
from aucpr_dask.inference.requirements import has_classes
from aucpr_dask.inference.sentences import may_be_first, of_reach, sentence
from aucpr_dask.interplay.exporting import free_file
from aucpr_dask.schema import choices, terms
from aucpr_dask.schema.estimators import ESTIMATORS, EstimatorSpec, parse_estimator
from aucpr_dask.schema.intervals import INTERVAL_SYMBOLS, INTERVALS, IntervalSpec
from aucpr_dask.schema.options import ALL_RECALLS, ComparisonOptions, ReportOptions
from aucpr_dask.scores.validate import with_label_of_each_class
from aucpr_dask.storage.urls import FILES, public
from aucpr_dask.view.report import by_groups, pages
from aucpr_dask.view.report.subjects import Subject, comparisons, curves_of, matched, shown_labels, subjects_of
from aucpr_dask.view.tables import distinct, number

UNKNOWN = "\N{EN DASH}"
CATEGORY = "category"  # what a page calls a class, each of which it shows as a group
MOST_RANKED = 100  # models; more take longer than the page
FEW_POSITIVES, FEW_UNITS = 20, 10
COVERAGE = {"positives": ("10 to 200", 0.949, "at least"), "clusters with positives": ("8 to 100", 0.966, "on average")}
"""How many were simulated, and how often influence_beta held the area; the page on statistics has the table."""

_CONVENTIONS = {
    "ties": {
        "group": "Items with equal scores share one threshold.",
        "trec_eval": "Items with equal scores are ordered by descending name, as in trec_eval.",
        "expectation": "Estimates are the exact means over all orders of items with equal scores.",
    },
    "missing": {
        "raise": "No score is missing.",
        "drop": "An item without a score is left out for that model, so models may be evaluated on different items.",
        "last": "An item without a score ranks below all items with one.",
        "unretrieved": "An item without a score was not retrieved; if it is positive, it counts as missed.",
    },
    "unjudged": {
        "negative": "An item without a judgment counts as a negative.",
        "drop": "An item without a judgment is left out.",
    },
}
MOST_PICTURED, NAME_WIDTH = 25, 28  # models in the picture of ranks, and characters of their names


@choices.names_meant
def report(
    result: terms.Scores,
    path: str | Path,
    *,
    by: Any = None,
    scores: terms.Scores | None = None,
    title: str = "Ranking report",
    interval_method: str | None = None,
    baseline: str | None = None,
    top: int = 10,
    seed: int = 0,
    overwrite: bool = False,
) -> Path:
    """Write a result as one HTML page that needs no network.

    The page holds a leaderboard of each data set and each query to sort, filter and search, the comparison of any two
    models, curves if the scores are given, an explanation of the numbers and their provenance, and every table as CSV.

    Parameters
    ----------
    result : xarray.Dataset or xarray.DataTree
        What :func:`aucpr_dask.evaluate`, :func:`aucpr_dask.run`, :func:`aucpr_dask.from_values` or
        :func:`aucpr_dask.open_result` returns. Models on data sets without queries can be compared if it keeps their
        replicates, or with `scores`.
    path : str or Path
        The page to write.
    by : str, array, mapping or sequence, optional
        Scores in place of a result are evaluated within these groups of items, see :func:`aucpr_dask.evaluate`; groups
        of queries, named by a coordinate along them, are those of a result, too. With
        `baseline`, a picture and a table say in which groups other models are worse, by simultaneous intervals. Another
        says between which groups models, or their differences from the baseline, differ (:func:`aucpr_dask.contrast`).
        Classes, and the labels of other dimensions, are shown as groups are.
    scores : xarray.Dataset or xarray.DataTree, optional
        The scores that were evaluated: for the curves, and to compare the best 200 models as
        :func:`aucpr_dask.compare` does with scores, by their influences in place of replicates. By default those that
        the result knows, in memory or unchanged in their store, if it keeps no replicates.
    title : str
        The page's heading.
    interval_method : str, optional
        Which interval of the result to show first; by default the first that every estimator has. The page can switch
        to the others.
    baseline : str, optional
        A model; the first sentence on each data set says how many models beat it.
    top : int
        How many models of each data set get a curve.
    seed : int
        Seed of the sign flips that compare two models, as in :func:`aucpr_dask.compare`.
    overwrite : bool
        Whether to replace a file at `path`.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    AlignmentError
        If the scores are not those of the result.

    Examples
    --------
    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> result = xr.Dataset(
    ...     {"estimate": (("model", "query", "estimator"), [[[0.2], [0.4]], [[0.3], [0.6]]])},
    ...     coords={"model": ["bm25", "neural"], "query": ["a", "b"], "estimator": ["average_precision"]},
    ... )
    >>> page = ap.report(result, tempfile.mkdtemp() + "/report.html")
    >>> "neural" in page.read_text(encoding="utf-8")
    True
    """
    refuse_path(result)
    target = free_file(path, overwrite=overwrite)
    if target.suffix.lower() in FILES - {".html"}:
        what = "a report is a page of HTML, and this is the name of another file"
        remedy = f"name it {target.with_suffix('.html').name}; export (ap.export) writes tables"
        raise bad_argument(what, "path", str(path), "a name that ends in .html", remedy)
    what = "this is not a result"
    remedy = 'make one: ap.evaluate({"model": scores}, labels), or ap.evaluate(ap.from_dataframe(frame, label=...))'
    if not isinstance(result, xr.Dataset | xr.DataTree):
        raise InvalidInputError(what, None, type(result).__name__, "a Dataset or a DataTree", remedy)
    if any({"difference", "rank"} & set(node) for _, node in terms.nodes_of(result)):
        raise InvalidInputError(what, None, "a comparison or ranks", None, "report the result they were made from")
    options = ReportOptions.among(locals())
    result, scores = terms.without_levels_of(result), None if scores is None else terms.without_levels_of(scores)
    of_queries = by_groups.names_of_queries(result, by)
    if scores is None and all("score" in node for _, node in terms.nodes_of(result)):  # to evaluate
        result, scores = evaluate(result, by=None if of_queries else by), result
    elif not (by is None or of_queries):
        listed = [by] if isinstance(by, str) else list(by)
        if any(listed != group_dims(node) for _, node in terms.nodes_of(result)):
            what, remedy = "this result is evaluated already, without these groups", "pass the scores in its place"
            raise InvalidInputError(what, "option 'by'", repr(by), "scores, or the groups of the result", remedy)
    nodes = dict(terms.nodes_of(result))
    if scores is not None:
        result = that_know(result, scores)
    elif not any(samples.REPLICATE in node for node in nodes.values()):  # by which models are compared
        scores, _ = scores_behind(result) or (None, None)
    if any(map(has_classes, nodes.values())):
        result = _with_classes_as_groups(result)
        if scores is not None:
            scores = _with_classes_as_groups(with_label_of_each_class(scores))
            result = that_know(result, scores)
    of_queries = by_groups.names_of_queries(result, by)
    groups = by_groups.groups_shown(result, scores, options, by, of_queries)
    result = with_kept_as_groups(result)
    if of_queries:
        result, scores = tree_of_groups(result, by), None if scores is None else tree_of_groups(scores, by)
    elif scores is not None:
        scores = by_groups.scores_of_groups(scores, result, by)
    return pages.write_page(_render(groups_as_data_sets(result), scores, options, groups), target)


def _with_classes_as_groups(data: terms.Scores) -> terms.Scores:
    """Return data whose classes are no more averaged over than the labels of other dimensions."""
    return terms.map_nodes(
        data, lambda _, node: node.rename({terms.CLASS: CATEGORY} if terms.CLASS in node.dims else {})
    )


def _render(
    result: terms.Scores, scores: terms.Scores | None, options: ReportOptions, groups: dict[str, Any] | None
) -> str:
    subjects = subjects_of(result, options.interval_method)
    if scores is not None:
        of_scores = dict(terms.nodes_of(scores))
        subjects = [replace(subject, scores=matched(subject, of_scores)) for subject in subjects]
    models = dict.fromkeys(name for subject in subjects for name in subject.models)
    if options.baseline is not None and options.baseline not in models:
        received, allowed = brief(options.baseline), closest(options.baseline, models)
        raise InvalidInputError("no data set has this baseline", "option 'baseline'", received, allowed)
    names: list[list[str]] = []
    of_one = [one for one in subjects if one.method is not None and "n_repeats" not in one.node]
    shown = dict.fromkeys(str(name) for one in of_one for name in (one.method, *one.others))
    intervals = [_term(_spaced(name), INTERVALS[name]) for name in shown if name in INTERVALS]
    firsts = list(dict.fromkeys(subject.measured[0] for subject in subjects))
    sections = [
        _data(place, subject, names, options) | {"curves": curves_of(subject, options.top)}
        for place, subject in enumerate(subjects)
    ]
    alone = [subject for subject in subjects if subject.dim != samples.DATASET]
    of_units = {unit_names(terms.QUERY, subject.node.attrs) for subject in alone}
    unit_words = of_units.pop() if len(of_units) == 1 else unit_names(terms.QUERY, {})  # for one and for several
    lead = [terms.count(len({name for subject in alone for name in subject.models}), "model")]
    lead.append(terms.count(len(alone), "data set" if groups is None else "group"))
    if n_queries := sum(subject.node.sizes.get(terms.QUERY, 0) for subject in alone):
        lead.append(terms.count(n_queries, *unit_words))
    measures = dict[str, None]()  # and, of values, which way is better
    for one in alone:
        ways = [f" ({better(one.node.attrs, name)})" if are_values(one.node) else "" for name in one.estimators]
        measures |= dict.fromkeys(f"{name}{way}" for name, way in zip(one.measured, ways, strict=True))
    flags = [{"name": flag.name, "bit": flag.bit} for flag in terms.FLAGS]
    data, payload = pages.packed({"flags": flags, "sections": sections, "names": names})
    return pages.rendered(
        "page.html",
        style=pages.asset("report.css") + pages.asset("uplot.css", "vendored"),
        scripts=[pages.asset("uplot.js", "vendored"), pages.asset("report.js")],
        title=printable(options.title),
        lead=f"{', '.join(lead)}; {', '.join(measures)}",
        groups=groups,
        part="data set" if groups is None else f"group by {groups['by']}",
        units=unit_words,
        kind=terms.MEASURE if all(are_values(subject.node) for subject in subjects) else terms.ESTIMATOR,
        estimator=firsts[0] if len(firsts) == 1 else f"{' or '.join(firsts)}, the first of each",
        sections=[_shown(place, subject, options) for place, subject in enumerate(subjects)],
        estimators=_estimator_terms(subjects),
        intervals=intervals,
        symbols=INTERVAL_SYMBOLS if intervals else "",
        reading=_readings(subjects),
        flags=terms.FLAGS if any("flags" in subject.node for subject in subjects) else (),
        has_positives=any("n_positive" in subject.node for subject in subjects),
        provenance=[*_provenance(result.attrs, subjects), ("report", f"aucpr-dask {__version__}")],
        library=pages.UPLOT | {"licence_text": pages.asset("uplot.LICENSE", "vendored")},
        data=data,
        payload=payload,
    )


# --- data for the script of the page ------------------------------------------------------------------------------


def _data(place: int, subject: Subject, names: list[list[str]], options: ReportOptions) -> dict[str, Any]:
    """Return the data of a section: arrays, and names of models once for all that share them."""
    models = subject.models
    if models not in names:
        names.append(models)
    return {
        "id": f"data-set-{place}",
        "name": printable(subject.name),
        "caption": "" if subject.dim == samples.DATASET else printable(subject.name),
        "models": names.index(models),
        "kind": (terms.MEASURE if are_values(subject.node) else terms.ESTIMATOR).capitalize(),
        "unit_names": None if subject.dim is None else list(unit_names(subject.dim, subject.node.attrs)),
        "units": subject.units,
        "n_units": len(subject.units),
        "intervals": _interval_names(subject),
        "method": None if subject.method is None else printable(terms.in_words(subject.method)),
        "flags": subject.table("flags").astype(np.uint16) if "flags" in subject.node else None,
        "estimators": [_estimator(subject, i, options) for i in range(len(subject.estimators))],
    }


def _estimator(subject: Subject, i: int, options: ReportOptions) -> dict[str, Any]:
    name, title = subject.estimators[i], subject.measured[i]
    means = subject.means.isel({terms.ESTIMATOR: i})
    mean = _numbers(means, (terms.MODEL,), np.float64)
    single = None
    if subject.dim is None:
        mean["others"] = _others(subject, i, np.float64)
    else:
        counts = means[aggregating.count_of(subject.dim)].transpose(terms.MODEL).values
        if np.unique(counts).size > 1:
            mean["count"] = counts.astype(np.int32)
        node = subject.node.isel({terms.ESTIMATOR: i}).isel({terms.METHOD: 0}, missing_dims="ignore")
        # Single precision is enough for the bounds of single rankings, which are most of a page.
        single = _numbers(node, (terms.MODEL, subject.dim), np.float32)
        single["others"] = _others(subject, i, np.float32)
    pairs, why = comparisons(subject, name, options.seed)
    return {
        "name": printable(name),
        "words": title,
        "direction": direction(subject.node.attrs, name),
        "title": title if are_values(subject.node) else title[:1].upper() + title[1:],
        "mean": mean,
        "single": single,
        "comparisons": pairs,
        "why": why,
    }


def _numbers(node: xr.Dataset, dims: tuple[str, ...], dtype: Any) -> dict[str, Any]:
    """Return the estimates of a table, and its bounds in the given precision, if it has any."""
    found = {"estimate": node["estimate"].transpose(*dims).values}
    return found | (_bounds(node["interval"], dtype) if "interval" in node else {})


def _others(subject: Subject, i: int, dtype: Any) -> list[dict[str, Any]]:
    """Return the bounds of the other intervals that an estimator has."""
    intervals = {name: interval.isel({terms.ESTIMATOR: i}) for name, interval in subject.others.items()}
    return [
        {"name": printable(terms.in_words(name)), "header": _interval_name(subject, name), **_bounds(one, dtype)}
        for name, one in intervals.items()
        if np.isfinite(one).any()
    ]


def _bounds(interval: xr.DataArray, dtype: Any) -> dict[str, Any]:
    ends = interval.transpose(terms.BOUND, terms.MODEL, ...).values.astype(dtype)
    return dict(zip(terms.BOUNDS, ends, strict=True))


# --- text for the template ----------------------------------------------------------------------------------------


def _shown(place: int, subject: Subject, options: ReportOptions) -> dict[str, Any]:
    """Return the text of one section."""
    node, best = subject.node, dict.fromkeys(("model", "estimate", "interval"), UNKNOWN)
    if subject.leader is not None:
        leader, estimate, of_leader = subject.leader
        interval = UNKNOWN if of_leader is None else " to ".join(map(number, of_leader))
        best = {"model": leader, "estimate": number(estimate), "interval": interval}
    ranks, (n_positive, prevalence), pictured = _ranks_of(subject), _counts(node), None
    if ranks is not None:  # that each of the first models may have, as a template draws them
        ends = ranks["simultaneous_rank_interval"].transpose(terms.MODEL, terms.BOUND).values
        places, models = ranks["rank"].values, shown_labels(ranks, terms.MODEL)
        first = np.argsort(places, kind="stable")[:MOST_PICTURED]
        named = zip(first, distinct([models[i] for i in first], NAME_WIDTH), strict=True)
        lines = [{"name": name, "low": ends[i, 0], "at": places[i], "high": ends[i, 1]} for i, name in named]
        for line, i in zip(lines, first, strict=True):
            line["title"] = f"{models[i]}: rank {places[i]:g}, from {ends[i, 0]:g} to {ends[i, 1]:g}"
        shown = f"the first {len(first)} of {len(models)} models" if len(first) < len(models) else "each model"
        confidence = terms.percent(subject.level)
        caption = f"Ranks that {shown} may have, by simultaneous {confidence} rank sets; 1 is best"
        pictured = {"lines": lines, "last": len(models), "caption": caption}
    return {
        "id": f"data-set-{place}",
        "title": printable(subject.name) or "Leaderboard",
        "n_models": f"{node.sizes[terms.MODEL]:,}",
        "n_queries": f"{node.sizes[terms.QUERY]:,}" if subject.dim == terms.QUERY else UNKNOWN,
        "positives": _range(n_positive, ",.4g"),
        "prevalence": _range(prevalence, ".3g"),
        "best": best,
        "headline": _headline(subject, ranks, options),
        "ranks": pictured,
        "about": _about(subject),
        "caveats": _caveats(subject),
        "units": _units(subject) if subject.dim == terms.QUERY else [],
    }


def _counts(node: xr.Dataset) -> tuple[Any, Any]:
    """Return the positives and the prevalence of each unit, None where they are not known."""
    n_positive = node["n_positive"].max(terms.MODEL).values if "n_positive" in node else None
    return n_positive, node["prevalence"].median(terms.MODEL).values if "prevalence" in node else None


def _units(subject: Subject) -> list[dict[str, str]]:
    """Return each query's name, and a line with its size and best model."""
    node, models = subject.node, subject.models
    table = node["estimate"].isel({terms.ESTIMATOR: 0}).transpose(terms.MODEL, terms.QUERY).values
    known, way = ~np.isnan(table), direction(node.attrs, subject.estimators[0])
    best = np.where(known, way * table, -np.inf).argmax(axis=0)
    median = np.full(table.shape[1], np.nan)
    median[known.any(axis=0)] = np.nanmedian(table[:, known.any(axis=0)], axis=0)
    n_positive, prevalence = _counts(node)
    units = []
    for place, name in enumerate(subject.units):
        facts = []
        if n_positive is not None:
            facts.append(f"{n_positive[place]:,.4g} positive{'' if n_positive[place] == 1 else 's'}")
        if prevalence is not None:
            facts.append(f"prevalence {prevalence[place]:.3g}")
        top = table[best[place], place]
        if np.isnan(top):
            facts.append("no estimate")
        else:
            n_others = int((table[:, place] == top).sum()) - 1
            which = f"{models[best[place]]}{f' and {n_others} more' if n_others else ''}"
            facts.append(f"best {which} {number(float(top))}, median {number(float(median[place]))}")
        units.append({"name": name, "facts": "; ".join(facts)})
    return units


def _range(values: np.ndarray[Any, Any] | None, form: str) -> str:
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    ends = [format(float(end), form) for end in (known.min(), known.max())] if known.size else [UNKNOWN]
    return " to ".join(dict.fromkeys(ends))


# --- how the numbers were computed, and how far to trust them --------------------------------------------------------


def _estimator_terms(subjects: Sequence[Subject]) -> list[dict[str, str | None]]:
    """Define each estimator of the result."""
    names = {name: said for one in subjects for name, said in zip(one.estimators, one.measured, strict=True)}
    specs = {name: parse_estimator(name)[0] if name.partition("(")[0] in ESTIMATORS else None for name in names}
    defined = [_term(names[name], spec) for name, spec in specs.items()]
    for term in defined if any(subject.node.attrs.get("ties") == "trec_eval" for subject in subjects) else ():
        text = str(term["text"]).replace("at the positive's own tie group", "at the positive's own place")
        text = text.replace(", expected over random orders of tied items", "")
        term["text"] = text.replace("equals scikit-learn's", "equals trec_eval's")
    return defined


def _term(name: str, spec: EstimatorSpec | IntervalSpec | None) -> dict[str, str | None]:
    """Return a term and its definition; that of a measure that is no estimator of ours is not known."""
    return {"name": name, "text": f"{spec.formula}. {spec.when}" if spec else "", "doi": spec.doi if spec else None}


def _readings(subjects: Iterable[Subject]) -> list[str]:
    """Describe how labels, ties and missing scores were treated, and which part of the curve was used, of which."""
    alone = [subject for subject in subjects if subject.dim != samples.DATASET]
    holds: dict[str, list[str]] = {}
    for subject in alone:
        attrs = dict(subject.node.attrs)
        said = [texts[attrs[name]] for name, texts in _CONVENTIONS.items() if attrs.get(name) in texts]
        if attrs.get("positive_from") is not None:
            said.append(f"Grades of {attrs['positive_from']} or more count as positive.")
        if attrs.get("prevalence") is not None:
            said.append(f"Precision is computed at the prevalence {attrs['prevalence']:g}, not at that of the sample.")
        low, high = attrs.get("recall_range") or ALL_RECALLS
        if (low, high) != ALL_RECALLS:
            said.append(f"Areas are over recalls from {low:g} to {high:g}.")
        for text in said:
            holds.setdefault(text, []).append(printable(subject.name))
    return [text if len(of) == len(alone) else f"{text} (Only: {few(of)})" for text, of in holds.items()]


def _interval_names(subject: Subject) -> dict[str, str]:
    """Name the intervals of the leaderboard, and of the rankings of one query, as headers of their columns."""
    single = _interval_name(subject, subject.method)
    return {"mean": single if subject.dim is None else _interval_name(subject, _of_mean(subject)), "single": single}


def _of_mean(subject: Subject) -> str:
    """Name the interval of a mean over units."""
    method = subject.means.attrs["method"]
    return "Student's t" if method == "t" else str(method)


def _interval_name(subject: Subject, method: str | None) -> str:
    """Name an interval as the header of its column."""
    return f"{terms.percent(subject.level)} interval" + ("" if method is None else f" ({_spaced(method)})")


def _headline(subject: Subject, ranks: xr.Dataset | None, options: ReportOptions) -> str:
    """Return a sentence that people can quote: which model leads, how many beat the baseline, and may be the best."""
    if subject.leader is None:
        return ""
    (name, estimate, ends), models, means = subject.leader, subject.models, subject.means
    interval = "" if ends is None else f", {terms.percent(subject.level)} interval {ends[0]:.2f} to {ends[1]:.2f}"
    of_fewer, counted = "", aggregating.count_of(subject.dim)
    if counted in means:  # of fewer units than others have, with which it then does not compare
        counts = means[counted].isel({terms.ESTIMATOR: 0}, missing_dims="ignore")
        own, most = int(counts.isel({terms.MODEL: models.index(name)}, missing_dims="ignore")), int(counts.max())
        _, units = designs.unit_names(str(subject.dim), means.attrs)
        of_fewer = f", over {own:,} of {most:,} {units}: means over others do not compare" if own < most else ""
    said = f"{name} leads ({subject.measured[0]} {estimate:.2f}{interval}{of_fewer})"
    baseline = None  # as the result has it
    if options.baseline in models:
        baseline = subject.node.get_index(terms.MODEL)[models.index(str(options.baseline))]
        said += _against_baseline(subject, options, baseline)
    if ranks is not None:
        said += f"; {may_be_first(ranks):,} of {len(models):,} models may be the best"
    elif subject.dim == terms.QUERY and len(models) > MOST_RANKED:
        said += f"; how many of the {len(models):,} models may be the best was not examined"
    return f"{said}.{_limits(subject, options, baseline)}"


def _limits(subject: Subject, options: ReportOptions, baseline: Any) -> str:
    """Say which differences the sample would often miss: with the baseline, or else between any two models."""
    if len(subject.models) > MOST_RANKED:
        return ""
    asked = {"level": subject.level, "baseline": baseline, "seed": options.seed, "incomplete": "drop"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewPositivesWarning)  # the page says how many there are, and the condition
            estimator, places = subject.estimators[0], np.arange(len(subject.models))
            data, over = subject.to_compare(places, estimator, of_items=subject.dim is None)
            _, reach = pair_reaches(data, ComparisonOptions.among(asked | {"estimator": estimator, "over": over}))
    except InvalidInputError:  # too few models or units, or no replicates
        return ""
    return " " + sentence(of_reach(reach, POWER, subject.level, by="simultaneous intervals"))


def _against_baseline(subject: Subject, options: ReportOptions, baseline: Any) -> str:
    """Say how many models beat the baseline, if the data set can be compared."""
    places = np.arange(len(subject.models))
    try:
        asked: Any = {"estimator": subject.estimators[0], "of_items": subject.dim is None}
        found = subject.compared(places, **asked, baseline=baseline, seed=options.seed)
    except InvalidInputError:  # also of one model
        return ""
    is_different = found["p_adjusted"].values <= 1 - subject.level
    difference = found["difference"].values
    better, worse = (int((is_different & side).sum()) for side in (difference > 0, difference < 0))
    family = terms.count(found.attrs["family_size"], "comparison")
    adjusted = f"{terms.in_words(str(found.attrs['adjust']))} adjusted for {family}"
    adjusted += " of this group alone; above, for those of all groups" if "by" in subject.node.attrs else ""
    return (
        f"; {better} of {len(places) - 1} other models beat {options.baseline}, and {worse} "
        f"{'does' if worse == 1 else 'do'} worse ({terms.percent(1 - subject.level)} level, {adjusted})"
    )


def _ranks_of(subject: Subject) -> xr.Dataset | None:
    """Return the ranks of the models, if they are quick to compute."""
    if subject.dim != terms.QUERY or not 2 <= len(subject.models) <= MOST_RANKED:
        return None
    try:
        return ranking.rank(subject.node, estimator=subject.estimators[0], level=subject.level, incomplete="drop")
    except InvalidInputError:  # too few queries that all models share
        return None


def _about(subject: Subject) -> list[str]:
    """Describe the estimates, the intervals and the sample of a section."""
    singles = "" if subject.method is None else f"{terms.percent(subject.level)} {_spaced(subject.method)}"
    if subject.dim is None:
        units = designs.drawn_in_words(subject.node.attrs)
        meaning = f"Intervals are {singles}: what to expect of other {units}." if singles else "There are no intervals."
        said = ["Each model has one ranking.", meaning]
        if "n_repeats" in subject.node:
            repeats = terms.count(int(subject.node["n_repeats"]), "repeat")
            said = [f"The estimate of a model is the mean over {repeats} of a cross-validation."]
            how = f"by the standard error of this mean: {subject.node.attrs['design']}"
            said += [f"Intervals are {singles}, {how}."] if singles else ["There are no intervals."]
    else:
        singular, several = designs.unit_names(subject.dim, subject.node.attrs)
        said = [
            f"The estimate of a model is the mean over the {several} that have one; its {terms.percent(subject.level)} "
            f"interval ({_of_mean(subject)}) says what to expect of other {several} like these. "
            f"{sentence(subject.means.attrs['design'])}"
        ]
        if singles:
            said.append(f"Intervals within one {singular} are {singles}: what to expect of its other items.")
    attrs = subject.node.attrs
    if "resampled" in attrs:
        times = f"{attrs['n_resamples']:,} times" + (f", seed {attrs['seed']}" if "seed" in attrs else "")
        of = "all models of a data set share the resamples"
        said.append(f"Resampled: {printable(str(attrs['resampled']))}, {times}; {of}.")
    if "n_folds" in attrs:
        said.append(f"Folds: {attrs['n_folds']}, {printable(str(attrs.get('folds', '')))}.")
    return said


def _caveats(subject: Subject) -> list[str]:
    """List caveats: few positives, few units, the coverage of the interval, many pairs, flags."""
    said, node, n_models = _of_positives(subject), subject.node, len(subject.models)
    if subject.dim is not None:
        said += _of_units(subject)
    if n_models > 2:
        said.append(
            f"The {n_models:,} models make {n_models * (n_models - 1) // 2:,} pairs, and the best of many is partly "
            "lucky. Do not judge two models by whether their intervals overlap: use a paired comparison, whose "
            "unadjusted p-value is valid for a pair chosen in advance."
        )
    flags = node["flags"].values if "flags" in node else np.zeros(0, np.int64)
    rankings = "models, in some repeat" if "n_repeats" in node else "rankings"
    for flag in terms.FLAGS:
        number = np.count_nonzero(flags & flag.bit)
        if number and flag.name != "few_positives":  # said above
            text = f"{number:,} of {flags.size:,} {rankings}: {flag.description}"
            said.append(f"{_spaced(flag.name).capitalize()}, {text}")
    return said


def _of_positives(subject: Subject) -> list[str]:
    if "n_positive" not in subject.node:
        return []
    is_by_cluster = "n_positive_clusters" in subject.node
    sizes = subject.node[counted_positives(subject.node)].values
    what = "clusters with positives" if is_by_cluster else "positives"
    counts = np.unique(sizes[sizes > 0])
    if not counts.size:
        return ["No ranking has a positive, so no area is defined."]
    low, high = float(counts[0]), float(counts[-1])
    said = []
    have = f"{low:,.4g}" if low == high else f"{low:,.4g} to {high:,.4g}"
    if low < FEW_POSITIVES:
        share = float(np.mean(sizes < FEW_POSITIVES))
        said.append(
            f"Few {what}: rankings have {have}, and {terms.rounded_percent(share)} of them fewer than {FEW_POSITIVES}. "
            f"The width of an interval depends on the number of {what} far more than on that of the others."
        )
    if "n_repeats" in subject.node:
        return said  # no study of single rankings tells of their means
    if subject.method == "influence_beta":
        numbers, share, how = COVERAGE[what]
        text = (
            f"Validity: in simulations with {numbers} {what}, 95 % {_spaced(subject.method)} intervals of average "
            f"precision contained the true area in {terms.percent(share, '.1f')} of the samples {how}."
        )
        said.append(text if "average_precision" in subject.estimators else f"{text} Other areas were tried less.")
    elif subject.method in INTERVALS and subject.method != "extrapolated":
        said.append(
            f"Validity: {_spaced(subject.method)} intervals fall short of their level in some simulations; influence "
            "beta ones, the default for average precision, do not."
        )
    return said


def _of_units(subject: Subject) -> list[str]:
    singular, several = designs.unit_names(str(subject.dim), subject.node.attrs)
    estimate = subject.node["estimate"]
    known = estimate.notnull().any([dim for dim in estimate.dims if dim != subject.dim]).values
    n_units, n_known = known.size, int(known.sum())
    said = []
    if n_known < n_units:
        without = [name for name, is_known in zip(subject.units, known, strict=True) if not is_known]
        lack = f"{n_units - n_known} of {n_units} {several} have no estimate and count in no mean"
        said.append(f"{lack}: {few(without)}.")
    if n_known < FEW_UNITS:
        said.append(
            f"Few {several}: {n_known}. The interval assumes normally distributed means, which is doubtful for so "
            f"few {terms.plural(designs.noun(subject.node.attrs))}, one for each {singular}."
        )
    return said


def _provenance(result_attrs: Mapping[Any, Any], subjects: Iterable[Subject]) -> list[tuple[str, str]]:
    """Return the recorded attributes of a result: those of all data sets, then those that differ."""
    attrs = [dict(subject.node.attrs) for subject in subjects if subject.dim != samples.DATASET]
    records = dict(result_attrs)
    for name in dict.fromkeys(key for one in attrs for key in one):
        values = list(dict.fromkeys(_text(one[name]) for one in attrs if name in one))
        records[name] = values[0] if len(values) == 1 else f"{len(values)} values: {', '.join(values[:5])}"
    return [(printable(str(name)).replace("_", " "), _text(value)) for name, value in records.items()]


def _text(value: Any) -> str:
    """Return an attribute as text, without the secrets of URLs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(str(name))} {_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(_text(one) for one in value)
    text = str(value)
    return printable(str(public(text)) if "://" in text else text)


def _spaced(name: str) -> str:
    return printable(terms.in_words(name))
