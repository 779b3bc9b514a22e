"""The text of a report, made from the result: how the numbers were computed, and how far to trust them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import FewPositivesWarning, InvalidInputError, few, printable
from aucpr_dask.evaluation.results import counted_positives
from aucpr_dask.inference import aggregating, designs, ranking
from aucpr_dask.inference.powering import POWER, pair_reaches
from aucpr_dask.inference.samples import DATASET
from aucpr_dask.inference.sentences import may_be_first, of_reach, sentence
from aucpr_dask.schema.estimators import ESTIMATORS, EstimatorSpec, parse_estimator
from aucpr_dask.schema.intervals import INTERVALS, IntervalSpec
from aucpr_dask.schema.options import ALL_RECALLS, ComparisonOptions, ReportOptions
from aucpr_dask.schema.terms import ESTIMATOR, FLAGS, MODEL, QUERY, count, in_words, percent, plural, rounded_percent
from aucpr_dask.storage.urls import public
from aucpr_dask.view.report.subjects import Subject

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


def estimator_terms(subjects: Sequence[Subject]) -> list[dict[str, str | None]]:
    """Define each estimator of the result."""
    names = {name: said for one in subjects for name, said in zip(one.estimators, one.measured, strict=True)}
    specs = {name: parse_estimator(name)[0] if name.partition("(")[0] in ESTIMATORS else None for name in names}
    terms = [_term(names[name], spec) for name, spec in specs.items()]
    for term in terms if any(subject.node.attrs.get("ties") == "trec_eval" for subject in subjects) else ():
        text = str(term["text"]).replace("at the positive's own tie group", "at the positive's own place")
        text = text.replace(", expected over random orders of tied items", "")
        term["text"] = text.replace("equals scikit-learn's", "equals trec_eval's")
    return terms


def _term(name: str, spec: EstimatorSpec | IntervalSpec | None) -> dict[str, str | None]:
    """Return a term and its definition; that of a measure that is no estimator of ours is not known."""
    return {"name": name, "text": f"{spec.formula}. {spec.when}" if spec else "", "doi": spec.doi if spec else None}


def interval_terms(subjects: Iterable[Subject]) -> list[dict[str, str | None]]:
    """Define each interval that is shown."""
    shown = [(one.method, *one.others) for one in subjects if one.method is not None and "n_repeats" not in one.node]
    names = dict.fromkeys(name for names in shown for name in names)
    return [_term(_spaced(name), INTERVALS[name]) for name in names if name in INTERVALS]


def readings(subjects: Iterable[Subject]) -> list[str]:
    """Describe how labels, ties and missing scores were treated, and which part of the curve was used, of which."""
    alone = [subject for subject in subjects if subject.dim != DATASET]
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


def interval_names(subject: Subject) -> dict[str, str]:
    """Name the intervals of the leaderboard, and of the rankings of one query, as headers of their columns."""
    single = interval_name(subject, subject.method)
    return {"mean": single if subject.dim is None else interval_name(subject, _of_mean(subject)), "single": single}


def _of_mean(subject: Subject) -> str:
    """Name the interval of a mean over units."""
    method = subject.means.attrs["method"]
    return "Student's t" if method == "t" else str(method)


def interval_name(subject: Subject, method: str | None) -> str:
    """Name an interval as the header of its column."""
    return f"{percent(subject.level)} interval" + ("" if method is None else f" ({_spaced(method)})")


def headline(subject: Subject, ranks: xr.Dataset | None, options: ReportOptions) -> str:
    """Return a sentence that people can quote: which model leads, how many beat the baseline, and may be the best."""
    if subject.leader is None:
        return ""
    (name, estimate, ends), models, means = subject.leader, subject.models, subject.means
    interval = "" if ends is None else f", {percent(subject.level)} interval {ends[0]:.2f} to {ends[1]:.2f}"
    of_fewer, counted = "", aggregating.count_of(subject.dim)
    if counted in means:  # of fewer units than others have, with which it then does not compare
        counts = means[counted].isel({ESTIMATOR: 0}, missing_dims="ignore")
        own, most = int(counts.isel({MODEL: models.index(name)}, missing_dims="ignore")), int(counts.max())
        _, units = designs.unit_names(str(subject.dim), means.attrs)
        of_fewer = f", over {own:,} of {most:,} {units}: means over others do not compare" if own < most else ""
    said = f"{name} leads ({subject.measured[0]} {estimate:.2f}{interval}{of_fewer})"
    baseline = None  # as the result has it
    if options.baseline in models:
        baseline = subject.node.get_index(MODEL)[models.index(str(options.baseline))]
        said += _against_baseline(subject, options, baseline)
    if ranks is not None:
        said += f"; {may_be_first(ranks):,} of {len(models):,} models may be the best"
    elif subject.dim == QUERY and len(models) > MOST_RANKED:
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
    adjusted = f"{in_words(str(found.attrs['adjust']))} adjusted for {count(found.attrs['family_size'], 'comparison')}"
    adjusted += " of this group alone; above, for those of all groups" if "by" in subject.node.attrs else ""
    return (
        f"; {better} of {len(places) - 1} other models beat {options.baseline}, and {worse} "
        f"{'does' if worse == 1 else 'do'} worse ({percent(1 - subject.level)} level, {adjusted})"
    )


def ranks_of(subject: Subject) -> xr.Dataset | None:
    """Return the ranks of the models, if they are quick to compute."""
    if subject.dim != QUERY or not 2 <= len(subject.models) <= MOST_RANKED:
        return None
    try:
        return ranking.rank(subject.node, estimator=subject.estimators[0], level=subject.level, incomplete="drop")
    except InvalidInputError:  # too few queries that all models share
        return None


def about(subject: Subject) -> list[str]:
    """Describe the estimates, the intervals and the sample of a section."""
    singles = "" if subject.method is None else f"{percent(subject.level)} {_spaced(subject.method)}"
    if subject.dim is None:
        units = designs.drawn_in_words(subject.node.attrs)
        meaning = f"Intervals are {singles}: what to expect of other {units}." if singles else "There are no intervals."
        said = ["Each model has one ranking.", meaning]
        if "n_repeats" in subject.node:
            repeats = count(int(subject.node["n_repeats"]), "repeat")
            said = [f"The estimate of a model is the mean over {repeats} of a cross-validation."]
            how = f"by the standard error of this mean: {subject.node.attrs['design']}"
            said += [f"Intervals are {singles}, {how}."] if singles else ["There are no intervals."]
    else:
        singular, several = designs.unit_names(subject.dim, subject.node.attrs)
        said = [
            f"The estimate of a model is the mean over the {several} that have one; its {percent(subject.level)} "
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


def caveats(subject: Subject) -> list[str]:
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
    for flag in FLAGS:
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
            f"Few {what}: rankings have {have}, and {rounded_percent(share)} of them fewer than {FEW_POSITIVES}. "
            f"The width of an interval depends on the number of {what} far more than on that of the others."
        )
    if "n_repeats" in subject.node:
        return said  # no study of single rankings tells of their means
    if subject.method == "influence_beta":
        numbers, share, how = COVERAGE[what]
        text = (
            f"Validity: in simulations with {numbers} {what}, 95 % {_spaced(subject.method)} intervals of average "
            f"precision contained the true area in {percent(share, '.1f')} of the samples {how}."
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
            f"few {plural(designs.noun(subject.node.attrs))}, one for each {singular}."
        )
    return said


def provenance(result_attrs: Mapping[Any, Any], subjects: Iterable[Subject]) -> list[tuple[str, str]]:
    """Return the recorded attributes of a result: those of all data sets, then those that differ."""
    attrs = [dict(subject.node.attrs) for subject in subjects if subject.dim != DATASET]
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
    return printable(in_words(name))
