"""Paired comparisons of models: against baselines or all pairs, adjusted for multiple comparisons."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, brief, few
from aucpr_dask.inference import families
from aucpr_dask.inference.covarying import OTHER_MODEL
from aucpr_dask.inference.describing import annotate
from aucpr_dask.inference.families import Indices
from aucpr_dask.inference.grids import compare_family, lay_out, lazy_all_pairs, quantities_of
from aucpr_dask.inference.machine_labels import machine_nodes, of_machine, refuse_other_samples
from aucpr_dask.inference.methods import Wilcoxon
from aucpr_dask.inference.questions import ask, naming, prepare, unit_dim
from aucpr_dask.inference.samples import DATASET
from aucpr_dask.schema.checks import did_you_mean
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.trees import Scores, map_nodes
from aucpr_dask.schema.variables import BOUND, MODEL, QUERY

BASELINE = "baseline"
Baseline = str | int | Sequence[str | int]
LAZY_FROM, LAZY_CHUNK = 500, 250  # models: from how many on the pairs are a chunked array, and in which chunks


def compare(
    data: Scores,
    baseline: Baseline | None = None,
    *,
    estimator: str | None = None,
    over: str = QUERY,
    sample: str | None = None,
    method: str | None = None,
    adjust: str | None = None,
    level: float = 0.95,
    equivalence: float | None = None,
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: str = "raise",
    chunk: int | None = None,
    machine: Scores | None = None,
    **options: Any,
) -> Scores:
    """Compare models with each other or with baselines, on the same units or items.

    Every comparison is paired: it uses the differences of two models on the same queries, data sets or resampled
    items. Under ``missing="drop"``, models are compared on the items that all of them scored. The requested
    differences are one *family*: adjusted p-values and simultaneous intervals hold for all of them together.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        A result of :func:`aucpr_dask.evaluate` or :func:`aucpr_dask.from_values`, or score data sets, which are
        evaluated first.
    baseline : label or sequence of labels, optional
        Models to compare all others with (their numbers if models have no labels); by default, all pairs of models
        are compared.
    estimator : str, optional
        Compare by this estimator or measure; the first of the result by default.
    over : {"query", "dataset", "class"}
        What estimates are averaged over: the queries or classes of each data set, if it has any; or the data sets of a
        tree, in which models are matched by label (queries or classes are averaged first). Classes are never sampled.
    sample : {"units", "items", "both"}, optional
        What is considered sampled. ``"units"`` (the default if there are units): queries or data sets, each with
        its items; the results are about other units like these. The spread of units already includes the noise of
        their items. ``"items"`` (the default without units): items, with the units fixed; the results are about
        these units with other items. ``"both"`` resamples units and the items of each, which counts the noise of
        items twice, so it is conservative.
    method : str, optional
        For units ``"sign_flip"`` (default: tests that are exact if differences are symmetric, intervals that flip the
        residuals), ``"bootstrap_t"`` (each resample divided by its own error: for skewed differences), ``"bootstrap"``
        (one error for all resamples: for many units), ``"t"`` or ``"wilcoxon"`` (p-values only); for items
        ``"bootstrap"`` (default; a result needs its `replicate`) or ``"influence"`` (Student's t with a moderated
        variance, from about ten positives on; needs the scores); for both ``"bootstrap"``. :class:`FewUnitsWarning` and
        :class:`FewPositivesWarning` say where ``"bootstrap"`` finds too many differences.
    adjust : {"romano_wolf", "max_t", "holm", "benjamini_hochberg", "none"}, optional
        Romano and Wolf's step-down is the default with joint replicates, Holm's with ``"t"`` and ``"wilcoxon"``.
        All but the last two control the probability of any false claim in the family.
    level : float
        Confidence level of the intervals.
    equivalence : float, optional
        A margin: differences up to it do not matter. Adds the two one-sided tests of equivalence and a decision for
        each pair; neither is adjusted for the number of pairs.
    n_resamples : int, optional
        Resamples; by default 10,000 of units, 1,000 of items, or as many as the result keeps.
    seed : int
        Seed of the random numbers: those of a query or data set depend on its name, never on the models.
    incomplete : {"raise", "drop", "drop_models"}
        What to do if some models lack the estimate of a unit: raise an error that names them, leave out the unit for
        all models, or leave out these models (without units, ``"drop"`` leaves out models, too). The attributes
        ``left_out`` and ``models_left_out`` name them. A unit without an estimate of any model is left out.
    chunk : int, optional
        Lay out all pairs as Dask arrays in chunks of this many models; by default from 500 models on. The numbers
        are bit-for-bit identical.
    machine : xarray.Dataset or xarray.DataTree, optional
        The same models evaluated with labels of a machine, such as a language model, on more units: all those of
        `data`, which people labelled, and others. Every difference is then prediction-powered: corrected
        by the machine's as far as they agree, see :func:`aggregate`. The method is ``"prediction_powered"``, its
        default adjustment Holm's, its simultaneous intervals Bonferroni's.
    **options
        Options of :func:`aucpr_dask.evaluate`, if `data` are scores.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Over (model, other_model) or (model, baseline): ``difference``, ``standard_error``, ``interval`` and
        ``simultaneous_interval`` (with ci_bound), ``p_value``, ``p_adjusted``; with a margin ``p_equivalence``,
        ``share_inside`` and ``decision``; with machine labels ``tuning``, ``width_ratio`` and ``n_machine_units``; also
        ``estimate(model)`` and ``n_units``. The attribute ``design`` describes what was resampled and what is fixed.

    Raises
    ------
    InvalidInputError
        If an option is not allowed, or the data lack what the method needs.
    AlignmentError
        If some models lack units, or labels appear twice.

    References
    ----------
    Romano & Wolf 2005, doi:10.1198/016214504000000539 (step-down, simultaneous). Smucker, Allan & Carterette 2007,
    doi:10.1145/1321440.1321528 (randomisation, bootstrap and t tests over queries). Schuirmann 1987,
    doi:10.1007/BF01068419 (equivalence). Hall 1992, doi:10.1007/978-1-4612-4384-7 (bootstrap-t).

    Examples
    --------
    >>> areas = [[0.2, 0.4, 0.6, 0.3, 0.5], [0.1, 0.2, 0.5, 0.1, 0.2], [0.2, 0.5, 0.5, 0.3, 0.6]]
    >>> result = xr.Dataset(
    ...     {"estimate": (("model", "query"), areas)},
    ...     coords={"model": ["bm25", "tfidf", "neural"], "query": list("abcde")},
    ... )
    >>> comparison = compare(result, "bm25")
    >>> comparison["difference"].sel(baseline="bm25").values.round(3)
    array([ 0.  , -0.18,  0.02])
    >>> comparison["p_value"].sel(baseline="bm25").values
    array([1.    , 0.0625, 1.    ])
    >>> comparison.attrs["design"]  # doctest: +NORMALIZE_WHITESPACE
    'signs flipped: the differences on 5 queries, each with its items, all 32 choices of signs; fixed: the 3 models;
    exact if differences are symmetric'
    """
    question = ComparisonOptions(
        estimator=estimator,
        over=over,
        sample=sample,
        method=method,
        adjust=adjust,
        level=level,
        equivalence=equivalence,
        n_resamples=n_resamples,
        seed=seed,
        incomplete=incomplete,
        baseline=baseline,  # type: ignore[arg-type]
        chunk=chunk,
    ).checked()
    if machine is not None:
        refuse_other_samples(question)
    answered = ask(data, question, options)
    machines = {}
    if machine is not None:
        with of_machine():
            machines = machine_nodes(answered, ask(machine, question, options), over)
    if over == DATASET:
        return _compare(answered, DATASET, question, machines.get(""))

    def compare_node(path: str, node: xr.Dataset) -> xr.Dataset:
        with naming(path):
            return _compare(node, unit_dim(node), question, machines.get(path))

    return map_nodes(answered, compare_node)


def _compare(node: xr.Dataset, dim: str | None, question: ComparisonOptions, machine: xr.Dataset | None) -> xr.Dataset:
    baseline, chunk = question.baseline, question.chunk
    prepared = prepare(node, dim, question, machine)
    columns = None if baseline is None else positions(baseline, prepared.estimates.names)
    n_models = len(prepared.estimates.models)
    names = quantities_of(
        has_intervals=not isinstance(prepared.method, Wilcoxon),
        has_margin=question.equivalence is not None and not isinstance(prepared.method, Wilcoxon),
        has_machine=machine is not None,
    )
    if question.equivalence is not None and isinstance(prepared.method, Wilcoxon):
        raise InvalidInputError(
            "method='wilcoxon' does not test equivalence",
            where="option 'equivalence'",
            received=f"equivalence={question.equivalence!r}, method='wilcoxon'",
            allowed="any other method, such as 'sign_flip', 't' or 'bootstrap'",
            remedy="give one of these methods, or leave out equivalence",
        )
    adjust = prepared.design.adjust
    arrays: Mapping[str, Any]
    if columns is None and (chunk is not None or n_models > LAZY_FROM):
        arrays = lazy_all_pairs(prepared.method, n_models, adjust, names, chunk or LAZY_CHUNK)
        family_size = n_models * (n_models - 1) // 2
    else:
        everyone = np.arange(n_models)
        first, second = families.all_pairs(n_models) if columns is None else families.against(columns, n_models)
        family, adjusted, quantile = compare_family(prepared.method, first, second, adjust)
        across: Indices = everyone if columns is None else np.array(columns)
        arrays = lay_out(names, family, adjusted, quantile, everyone, across)
        family_size = first.size
    other = OTHER_MODEL if columns is None else BASELINE
    labels = prepared.plain_labels
    comparison = xr.Dataset(
        {name: ((MODEL, other, BOUND)[: np.ndim(array)], array) for name, array in arrays.items()},
        coords={MODEL: labels, other: labels if columns is None else labels[columns]},
    )
    comparison["estimate"] = (MODEL, prepared.mean)
    return annotate(comparison, node, prepared, question, {"family_size": family_size})


def positions(labels: Baseline, names: Sequence[str], where: str = "argument 'baseline'") -> list[int]:
    """Return the positions of the named models, each once."""
    try:
        given = [str(label) for label in np.atleast_1d(np.asarray(labels, dtype=object))]
    except (TypeError, ValueError):  # a Dataset, or an integer of thousands of digits
        given = [brief(labels)]
    unknown = [name for name in given if name not in names]
    if unknown or not given or len(set(given)) < len(given):
        close = [near for name in unknown for near in difflib.get_close_matches(name, names, n=3)]
        raise InvalidInputError(
            "there is no such model" if unknown else "name one or more models, each once",
            where=where,
            received=few(map(repr, unknown or given)) or "no model",
            allowed=few(map(repr, close or names)),
            remedy=did_you_mean((unknown or given)[0], names, "give labels of models, or numbers if they have none")
            if unknown
            else "give each model once",
        )
    return [names.index(name) for name in given]
