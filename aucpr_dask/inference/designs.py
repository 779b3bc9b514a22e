"""What a comparison samples, and how it describes that."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference.common_items import COMPARED, SCORED
from aucpr_dask.inference.measures import unit_names
from aucpr_dask.inference.samples import REPLICATE
from aucpr_dask.schema.checks import choose
from aucpr_dask.schema.options import ADJUSTMENTS, CONVENTION, SAMPLES, EvaluationOptions, Options, option_names
from aucpr_dask.schema.variables import MODEL, QUERY, UNIT

UNITS, ITEMS, BOTH = SAMPLES
BY_P_VALUE = ("holm", "benjamini_hochberg", "none")  # adjustments without joint replicates
POWERED = "prediction_powered"

METHODS = {
    UNITS: ("sign_flip", "bootstrap_t", "bootstrap", "t", "wilcoxon"),
    ITEMS: ("bootstrap", "influence"),
    BOTH: ("bootstrap",),
}
"""The methods of each kind of sample, the default first."""

WITH_MACHINE: dict[str, tuple[str, ...]] = {UNITS: (POWERED,)}
"""The methods where people labelled a part of the units, and a machine all."""

CONDITIONS = {
    (UNITS, "sign_flip"): "exact if differences are symmetric",
    (UNITS, "bootstrap_t"): "approximate, also if differences are skewed",
    (UNITS, "bootstrap"): "approximate, with many units",
    (UNITS, "t"): "exact if differences are normal",
    (UNITS, "wilcoxon"): "exact if differences are symmetric",
    (UNITS, POWERED): "approximate, with a random sample of units labelled by people",
    (ITEMS, "bootstrap"): "approximate, with many positives",
    (ITEMS, "influence"): "approximate, from 10 positives on",
    (BOTH, "bootstrap"): "conservative",
}
"""When each method keeps its level."""

UNIT_RESAMPLES, ITEM_RESAMPLES = 10_000, 1000
ROUND_OFF = 1e-9  # of sums of weights


@dataclass(frozen=True)
class Design:
    """What is averaged over, what is sampled, and by which method."""

    dim: str | None  # the units' dimension
    sample: str
    method: str
    adjust: str


def settle(
    dim: str | None,
    sample: str | None,
    method: str | None,
    adjust: str | None = None,
    methods: dict[str, tuple[str, ...]] = METHODS,
) -> Design:
    """Fill in defaults, and refuse options that contradict each other."""
    sample = choose(SAMPLES, sample or (ITEMS if dim is None else UNITS), "sample")
    if dim is None and sample != ITEMS:
        raise InvalidInputError(
            "there are no units to sample: this data set has no queries",
            where="argument 'sample'",
            received=f"sample={sample!r}",
            allowed="sample='items'",
            remedy="for a DataTree, over='dataset' takes the data sets as units",
        )
    method = choose(methods[sample], methods[sample][0] if method is None else method, f"method for sample={sample!r}")
    by_p_value = method in ("t", "wilcoxon", POWERED)
    adjust = choose(ADJUSTMENTS, adjust or ("holm" if by_p_value else ADJUSTMENTS[0]), "adjust")
    if by_p_value and adjust not in BY_P_VALUE:
        raise InvalidInputError(
            f"adjust={adjust!r} needs joint replicates, which method={method!r} does not have",
            allowed=", ".join(map(repr, BY_P_VALUE)),
            remedy="leave adjust out, or machine"
            if method == POWERED
            else "method='sign_flip', 'bootstrap_t' or 'bootstrap' has them",
        )
    return Design(dim, sample, method, adjust)


def describe(
    design: Design,
    n_models: int,
    n_units: int,
    n_resamples: int,
    attrs: dict[Any, Any],
    *,
    complete: bool = False,
    has_gaps: bool = False,
    n_machine: int = 0,
    condition: str | None = None,
) -> str:
    """Describe what was resampled, what is fixed, on what condition and, with missing scores, which items count."""
    sentence = _resampled_and_fixed(
        design, n_models, n_units, n_resamples, attrs, complete=complete, has_gaps=has_gaps, n_machine=n_machine
    )
    sentence += f"; {condition}" if condition else ""
    compared, scored = attrs.get(COMPARED, 0), attrs.get(SCORED, 0)
    return sentence if compared == scored else f"{sentence}; on the {compared:,} of {scored:,} items that all scored"


def _resampled_and_fixed(
    design: Design,
    n_models: int,
    n_units: int,
    n_resamples: int,
    attrs: dict[Any, Any],
    *,
    complete: bool,
    has_gaps: bool,
    n_machine: int,
) -> str:
    """Describe what was resampled and what is fixed; models with gaps lack some of the units."""
    models = f"the {n_models:,} models" if n_models != 1 else "the model"
    if "n_classes" in attrs:
        models += f", the {attrs['n_classes']:,} classes"
        models += " and their weights" if attrs.get("average") == "weighted" else ""
    units = ""
    of_values = UNIT in attrs
    unit, several = unit_names(design.dim or "", attrs)
    if design.dim is not None:
        units = f"{n_units:,} {several if n_units != 1 else unit}"
        if has_gaps:
            units = f"{several} with {'a value' if of_values else 'an estimate'} (up to {n_units:,})"
        if n_machine:
            units += f" labelled by people, of {n_machine:,} labelled by machine"
    each = "" if design.dim is None else f" of each {unit}"
    times = f"{n_resamples:,} times"
    drawn = "clusters" if "clusters" in str(attrs.get("resampled", attrs.get("sampled", "items"))) else "items"
    items = f"the {drawn}{each}"
    if design.sample == BOTH:
        return f"resampled: {units} and {items}, {times}; fixed: {models}"
    if design.sample == ITEMS:
        by_class = drawn == "items" and attrs.get("prevalence_design", "fixed") == "fixed"
        fixed = [models, *([f"the {units}"] if units else [])]
        fixed += ["the numbers of positives and negatives"] if by_class else []
        how = f"resampled: {items}, {times}" if design.method == "bootstrap" else f"sample: {items}"
        return f"{how}; fixed: {', '.join(fixed)}"
    whole = units if of_values else f"{units}, each with its items"
    if design.method in ("bootstrap", "bootstrap_t"):
        return f"resampled: {whole}, {times}; fixed: {models}"
    if design.method == "sign_flip":
        how = f"all {n_resamples:,} choices of signs" if complete else f"{n_resamples:,} choices of signs"
        return f"signs flipped: the differences on {whole}, {how}; fixed: {models}"
    return f"sample: {whole}; fixed: {models}"


def refuse_unknown_options(options: Iterable[str], record: type[Options], without: Collection[str] = ()) -> None:
    """Raise, naming close matches, if an option is neither of the record nor of an evaluation, or is in `without`."""
    known = (option_names(record, EvaluationOptions) | {CONVENTION}) - set(without)
    unknown = [name for name in options if name not in known]
    if unknown:
        close = [near for name in unknown for near in difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.8)]
        raise InvalidInputError(
            "unknown option" + ("s" if len(unknown) > 1 else ""),
            where="the arguments given by name",
            received=", ".join(map(repr, unknown)),
            allowed=", ".join(map(repr, close or sorted(known))),
            remedy="choose one of these, or leave it out",
        )


def refuse_dependent_queries(node: Any, path: str) -> None:
    """Raise if queries that are to be sampled come in clusters."""
    if "cluster" in node and QUERY in node["cluster"].dims:
        raise InvalidInputError(
            "queries in clusters are not independent, but each would count as one unit here",
            where=f"data set {path!r}" if path else None,
            received="'cluster' over the dimension 'query'",
            remedy="evaluate the scores, average the queries of each cluster to one unit and pass that; "
            "or scores.drop_vars('cluster') if the queries are independent",
        )


def require_replicates(result: Any, what: str) -> None:
    """Raise unless a result has the replicates of its items."""
    if REPLICATE not in result and _has_own_lists(result):
        raise InvalidInputError(
            f"{what} resamples items, which cannot be done here: each model has its own list of them",
            received="a result of a per-run layout: the models' rankings of a query differ in length",
            remedy="sample the queries: sample='units'; or import a pooled layout",
        )
    if REPLICATE not in result:
        raise InvalidInputError(
            "this needs resamples of the items, which the result does not keep",
            where=what,
            received="a result without the variable 'replicate'",
            allowed="a result with replicates, or scores",
            remedy="pass the scores in place of the result; or evaluate with keep_replicates=True "
            "(--keep-replicates); models with their own ranked lists (per-run layout) are compared over queries",
        )


def _has_own_lists(result: Any) -> bool:
    """Return whether the rankings of a query differ in length, so that each model has its own ranked list.

    Lists of the same length look like a pooled layout, and under other conventions lengths say nothing.
    """
    counts = [result[name] for name in ("n_positive", "n_negative") if name in result]
    if len(counts) < 2 or result.attrs.get("missing") != "raise" or any(MODEL not in count.dims for count in counts):
        return False
    length = counts[0] + counts[1]
    return bool((length.max(MODEL) > (1 + ROUND_OFF) * length.min(MODEL)).any())
