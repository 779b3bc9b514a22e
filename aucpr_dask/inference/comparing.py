"""Paired comparisons of models: against baselines or all pairs, adjusted for multiple comparisons; and their stores."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, brief, clash, did_you_mean, few
from aucpr_dask.evaluation.arrays import takes_arrays
from aucpr_dask.inference import covarying, grouped, methods, paired_samples, pairs, samples, sentences
from aucpr_dask.inference.paired_samples import DECISIONS, QUANTITIES, PairedSample, annotated
from aucpr_dask.inference.questions import answer, prepared
from aucpr_dask.inference.random_effects import OTHER_WEIGHTS, RandomEffects
from aucpr_dask.schema import checks, choices, terms
from aucpr_dask.schema.options import ComparisonOptions

Baseline = str | int | Sequence[str | int]
KIND = terms.COMPARISON
BETWEEN = ("interval", "simultaneous_interval", "prediction_interval")  # bounds of differences
MOST_SIZES = 3  # pairs of which the answer says what the size of data sets does
LAZY_FROM, LAZY_CHUNK = 500, 250  # models: from how many on the pairs are a chunked array, and in which chunks


@takes_arrays
def compare(
    data: terms.Scores,
    baseline: Baseline | None = None,
    *,
    by: Any = None,
    estimator: choices.SomeEstimator | None = None,
    over: choices.Dims | None = None,
    method: choices.Method | None = None,
    adjust: choices.Adjustment | None = None,
    level: float = 0.95,
    equivalence: float | None = None,
    weights: choices.Weights = "equal",
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: choices.Incomplete = "raise",
    chunk: int | None = None,
    auxiliary: terms.Scores | None = None,
    **options: Unpack[choices.Evaluating],
) -> terms.Scores:
    """Compare models with each other or with baselines, on the same items or units.

    Every comparison is paired: it uses the differences of two models on the same queries, data sets or resampled
    items. Under ``missing="drop"``, models are compared on the items that all of them scored. The requested
    differences are one *family*: adjusted p-values and simultaneous intervals hold for all of it.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        A result of :func:`aucpr_dask.evaluate` or :func:`aucpr_dask.from_values`, or score data sets, which are
        evaluated first. Or a mapping of names to arrays of scores, with their labels behind it:
        ``compare({"forest": a, "linear": b}, y, clusters=g)``; `clusters` and `weight` are those of
        :func:`aucpr_dask.evaluate`.
    baseline : label or sequence of labels, optional
        Models to compare all others with (their numbers if models have no labels); by default, all pairs of models
        are compared. One label is a scalar coordinate of the answer, a sequence is a dimension, as in indexing.
    by : str, array, mapping or sequence, optional
        Compare within groups of items, named as for :func:`aucpr_dask.evaluate`, or those of a result by groups; or
        within groups of queries, named by coordinates along them. Each group is compared as if it stood alone;
        ``p_adjusted`` (Holm's by default) and ``simultaneous_interval`` (Bonferroni's over groups) hold for all groups
        together.
        Areas of groups of different prevalence are comparable with ``prevalence=``.
    estimator : str, optional
        Compare by this estimator or measure; the first of the result by default.
    over : str or sequence of str, optional
        What the answer varies over; it is about others like these, and all else is fixed. By default what the data
        say: queries where there are any, in clusters if they have some, or else items, in clusters if they have some.
        ``"items"`` or ``"clusters"`` (items, with queries fixed; items are then drawn one by one); ``"query"``
        (each alone) or the name of any other dimension of a result, of several together; ``"dataset"``, the data sets
        of a tree, in which models are matched by label (queries or classes are averaged first); ``"class"``, the mean
        over classes, which are fixed: their items vary. The spread of units already includes the noise of their items;
        ``("query", "items")`` resamples both, which counts it twice, so it is conservative. Folds and repeats never
        vary on their own.
    method : str, optional
        For units ``"sign_flip"`` (default: exact if differences are jointly symmetric, with intervals that flip the
        residuals), ``"bootstrap_t"`` (each resample divided by its own error: for skewed differences), ``"bootstrap"``
        (one error for all resamples: for many units), ``"t"``, ``"wilcoxon"`` (p-values only) or ``"random_effects"``
        (default over data sets whose variances are known, see Notes); for folds ``"corrected_t"``; for items
        ``"influence"`` (default for scores: Student's t with a moderated variance of the difference; needs about ten
        positives), ``"bootstrap"`` (default for results, which need their `replicate`, and for estimators and
        options without influences) or ``"rank_swap"`` (swaps the two ranks of each item, or of all items of a cluster:
        exact if the models are exchangeable; average precision only); for both ``"bootstrap"``.
        :class:`FewUnitsWarning` and :class:`FewPositivesWarning` say where ``"bootstrap"`` finds too many differences.
    adjust : {"romano_wolf", "max_t", "holm", "benjamini_hochberg", "none"}, optional
        Romano and Wolf's step-down is the default with joint replicates, Holm's with ``"t"``, ``"wilcoxon"`` and
        ``"random_effects"``.
        All but the last two control the probability of any false claim in the family.
    level : float
        Confidence level of the intervals.
    equivalence : float, optional
        A margin: differences up to it do not matter. Adds the two one-sided tests of equivalence and a decision for
        each pair; neither is adjusted for the number of pairs.
    weights : {"equal", "precision", "regression"}
        How data sets whose variances are known count in differences: with equal weights; weighted by precision, so
        larger ones carry more weight (another question, if the effect depends on size); or by a regression of the
        effect on the logarithm of size, read off at the mean, with the weights of precision.
    n_resamples : int, optional
        Resamples, draws or swaps; by default 10,000 of units or draws, 1,000 of items, or as many as the result keeps.
    seed : int
        Seed of the random numbers: those of a query or data set depend on its name, never on the models.
    incomplete : {"raise", "drop", "drop_models"}
        What to do if some models lack the estimate of a unit: raise an error that names them, leave out the unit for
        all models, or leave out these models (without units, ``"drop"`` leaves out models, too). The attributes
        ``left_out`` and ``models_left_out`` name them. A unit without an estimate of any model is left out.
    chunk : int, optional
        Lay out all pairs as Dask arrays in chunks of this many models; by default from 500 models on. The numbers
        are bit-for-bit identical.
    auxiliary : xarray.Dataset or xarray.DataTree, optional
        The same models evaluated with labels of a machine, on these units and on others that people did not label.
        Every difference is then corrected by the machine's, see :func:`aggregate`: method ``"prediction_powered"``,
        Holm's adjustment, Bonferroni's simultaneous intervals.
    **options
        Options of :func:`aucpr_dask.evaluate`, if `data` are scores.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Over (model, other_model), (model, baseline) or, with one baseline, (model): ``difference``, ``standard_error``,
        ``interval`` and ``simultaneous_interval`` (with ci_bound), ``p_value``, ``p_adjusted``; with a margin
        ``p_equivalence``, ``share_inside`` and ``decision``; with machine labels ``tuning``, ``width_ratio`` and
        ``n_machine_units``; with repeats ``training_share``; with random effects ``prediction_interval``, ``tau``,
        ``i_squared``, ``equal_difference``, ``precision_difference``, ``size_slope``, ``size_p`` and, with a margin,
        ``probability`` (of better, equivalent and worse, for the mean and for a new
        data set); also ``estimate(model)`` and ``n_units``. The attribute ``summary`` says which models are shown
        to differ (not of lazy pairs), ``design`` what was resampled and what is fixed.

    Raises
    ------
    AlignmentError
        If some models lack units, or labels appear twice.

    Notes
    -----
    Of repeats of a cross-validation, ``score(model, repeat, item)`` with ``fold(repeat, item)``, the means over the
    repeats are compared. Their variance is that of the items, by influence, and that between R repeats of k folds
    times ``1 / R + k - 1``, as all learn from one sample (without folds, divided by R); ``training_share`` is the share
    of the latter. ``"corrected_t"`` compares areas of single folds by Nadeau and Bengio's test.

    Random effects take the difference on a data set as a draw around what many more items would show there, and that as
    a draw around the mean, with the standard deviation ``tau`` (Paule and Mandel's, which is sometimes 0 where REML is
    not, or the other way round). ``difference`` is the mean of data sets with equal weights, with Student's t. With
    ``weights="precision"`` larger ones carry more weight, so it is not that of the mean estimates, and another number
    where the effect depends on size. Of given variances, its error then is Hartung and Knapp's; else weights take the
    upper 95 % limit of ``tau``, and the error is Sidik and Jonkman's robust one. With fewer than five data sets, it is
    at least that of a mean with the weights that ``tau`` gives. ``prediction_interval`` is for a new data set with many
    items: quantiles over all that `tau` may be or, where variances are given, Student's with two degrees of freedom
    less than data sets, too narrow where `tau` is small. ``i_squared`` is the share of ``tau**2`` in the variance of a
    typical estimate (metafor's, not Higgins's from Q).

    Variances within data sets are those by influence (scores), between queries, or of the replicates that a result
    keeps, averaged in proportion to 1 / n, n the effective positives or the queries: used one by one, they pull the
    mean to 0 where areas are near 1. ``probability`` follows from a flat prior of the mean and half a Student
    distribution (4 degrees of freedom, scale 0.1) for ``tau``; it needs no adjustment.

    References
    ----------
    Romano & Wolf 2005, doi:10.1198/016214504000000539 (step-down, simultaneous). Smucker, Allan & Carterette 2007,
    doi:10.1145/1321440.1321528 (randomisation, bootstrap and t tests over queries). Schuirmann 1987,
    doi:10.1007/BF01068419 (equivalence). Hall 1992, doi:10.1007/978-1-4612-4384-7 (bootstrap-t). Hartung & Knapp
    2001, doi:10.1002/sim.1009, Sidik & Jonkman 2006, doi:10.1016/j.csda.2005.07.019 (random effects).

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> areas = {
    ...     "bm25": [0.2, 0.4, 0.6, 0.3, 0.5, 0.4, 0.3, 0.5],
    ...     "tfidf": [0.1, 0.2, 0.5, 0.1, 0.2, 0.3, 0.2, 0.3],
    ...     "neural": [0.2, 0.5, 0.5, 0.3, 0.6, 0.5, 0.3, 0.5],
    ... }
    >>> estimate = xr.DataArray(list(areas.values()), {"model": list(areas), "query": list("abcdefgh")})
    >>> comparison = ap.compare(estimate.to_dataset(name="estimate"), "bm25")
    >>> comparison["difference"].values.round(3), comparison["p_adjusted"].values.round(3)
    (array([ 0.   , -0.162,  0.025]), array([1.   , 0.008, 1.   ]))
    >>> comparison["simultaneous_interval"].sel(model="tfidf").values.round(3)
    array([-0.226, -0.099])
    >>> comparison.attrs["design"]  # doctest: +NORMALIZE_WHITESPACE
    'signs flipped: the differences on 8 queries, each with its items, all 256 choices of signs; fixed: the 3 models;
    exact if differences are jointly symmetric'
    """
    question = ComparisonOptions.among(locals())
    data, question, reading, by = prepared(data, question, options, by)
    if grouped.has_groups(data, by, question.dims):
        if chunk is not None or (auxiliary is not None and question.dim == samples.DATASET):
            others = {"auxiliary": auxiliary and type(auxiliary).__name__, "chunk": chunk}
            raise clash("groups are compared without these", "leave them out, or select a group", None, **others)
        machine_of, alone = grouped.parts_of_machine(auxiliary, by), replace(question, adjust=None)

        def asked(tree: xr.DataTree, joint: float) -> terms.Scores:
            return answer(tree, alone, reading, _comparison, joint=joint, auxiliary=machine_of(tree))

        return grouped.answered_by_groups(data, by, asked, question)
    return answer(data, question, reading, _comparison, auxiliary=auxiliary)


def _comparison(sample: PairedSample) -> xr.Dataset:
    """Return what :func:`compare` says of one sample."""
    method, question, adjust = sample.method, sample.question, sample.sampling.adjust
    baseline, chunk, n_models = question.baseline, question.chunk, len(sample.estimates.models)
    has_margin = question.equivalence is not None
    sample.refuse_wide(question.equivalence or 0.0, "equivalence")
    columns = None if baseline is None else positions(baseline, sample.estimates.names)
    if has_margin and isinstance(method, methods.Wilcoxon):
        what = "method='wilcoxon' does not test equivalence"
        remedy = "give one of these methods, or leave out equivalence"
        allowed = "any other method, such as 'sign_flip', 't' or 'bootstrap'"
        raise clash(what, remedy, allowed, equivalence=question.equivalence, method="wilcoxon")
    asked = {"difference", "standard_error", "p_value", "p_adjusted", *getattr(method, "more", ())}
    asked |= set() if isinstance(method, methods.Wilcoxon) else {"interval", "simultaneous_interval"}
    asked |= {"p_equivalence", "share_inside", "decision"} if has_margin else set()
    names = [name for name in QUANTITIES if name in asked]
    arrays: Mapping[str, Any]
    sizes: str | None = None
    is_lazy = columns is None and (chunk is not None or n_models > LAZY_FROM)
    if is_lazy:
        arrays = paired_samples.lazy_all_pairs(method, n_models, adjust, names, chunk or LAZY_CHUNK)
        family_size = n_models * (n_models - 1) // 2
        first, second = pairs.all_pairs(min(n_models, MOST_SIZES + 1))  # the first pairs are the same ones
    else:
        everyone = np.arange(n_models)
        first, second = pairs.all_pairs(n_models) if columns is None else pairs.against(columns, n_models)
        across = everyone if columns is None else np.array(columns)
        family_size, where = first.size, (first, second, everyone, across)
        values = paired_samples.quantities(method, first, second, adjust, names)
        arrays = {name: paired_samples.placed(of, QUANTITIES[name], *where) for name, of in values.items()}
    if isinstance(method, RandomEffects):
        names_of, first, second = sample.estimates.names, first[:MOST_SIZES], second[:MOST_SIZES]
        said = zip(first, second, method.sizes_in_words(method.pairs(first, second)), strict=True)
        sizes = ", ".join(f"{names_of[j]} - {names_of[k]} {words}" for j, k, words in said)
        sizes = f"{OTHER_WEIGHTS[method.weights]}: {sizes}"
        sizes += f" and {family_size - MOST_SIZES:,} more" if family_size > MOST_SIZES else ""
    other = covarying.OTHER_MODEL if columns is None else covarying.BASELINE
    arrays = {name: sample.inside(array) if name in BETWEEN else array for name, array in arrays.items()}
    both = {name: ((terms.MODEL, other, *QUANTITIES[name].dims), array) for name, array in arrays.items()}
    models = sample.labels
    labels = {terms.MODEL: models, other: models if columns is None else models[columns]}
    known = {**both, "estimate": (terms.MODEL, sample.shown)}
    comparison = annotated(known, labels, sample, family_size=family_size, sizes=sizes)
    if has_margin:
        flags = {"flag_values": list(range(len(DECISIONS))), "flag_meanings": " ".join(DECISIONS)}
        comparison["decision"].attrs |= flags
    if not is_lazy:
        comparison.attrs[sentences.SUMMARY] = sentences.of_comparison(comparison)
    return with_one_baseline(comparison, baseline)


def with_one_baseline(answer: xr.Dataset, baseline: Baseline | None) -> xr.Dataset:
    """Return an answer with one baseline, unless it was asked for as a list, as a scalar coordinate."""
    return answer if baseline is None or checks.is_list(baseline) else answer.isel({covarying.BASELINE: 0})


def positions(labels: Baseline, names: Sequence[str], where: str = "argument 'baseline'") -> list[int]:
    """Return the positions of the named models, each once."""
    try:
        given = [str(label) for label in np.atleast_1d(np.asarray(labels, dtype=object))]
    except (TypeError, ValueError):  # a Dataset, or an integer of thousands of digits
        given = [brief(labels)]
    if unknown := [name for name in given if name not in names]:
        close = [near for name in unknown for near in difflib.get_close_matches(name, names, n=3)]
        remedy = did_you_mean(unknown[0], names, "give labels of models, or numbers if they have none")
        received, allowed = few(map(repr, unknown)), few(map(repr, close or names))
        raise InvalidInputError(f"there is no model {brief(unknown[0])}", where, received, allowed, remedy)
    if not given or len(set(given)) < len(given):
        received, allowed = few(map(repr, given)) or "no model", few(map(repr, names))
        raise InvalidInputError("name one or more models, each once", where, received, allowed, "give each model once")
    return [names.index(name) for name in given]


def save_comparison(comparison: terms.Scores, store: str | Path, *, overwrite: bool = False) -> None:
    """Write the result of :func:`compare` or :func:`rank` to a Zarr store.

    Parameters
    ----------
    comparison : xarray.Dataset or xarray.DataTree
        What to write; lazy arrays are written chunk by chunk.
    store : str or Path
        Where to write.
    overwrite : bool
        Whether to replace a store at `store`.

    Examples
    --------
    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> result = xr.Dataset({"estimate": (("model", "query"), [[0.2, 0.4, 0.6], [0.3, 0.4, 0.7]])})
    >>> place = tempfile.mkdtemp() + "/comparison.zarr"
    >>> ap.save_comparison(ap.compare(result), place)
    >>> ap.open_comparison(place)["difference"].dims
    ('model', 'other_model')
    """
    from aucpr_dask.storage.stores import create_store  # with Zarr, which comparisons in memory do without

    def with_chunks(path: str, node: Any) -> Any:
        node = terms.with_stored_names(node.drop_encoding(), is_result=True)
        for name in node.data_vars:
            if node[name].chunks is not None:
                node[name].encoding["chunks"] = tuple(sizes[0] for sizes in node[name].chunks)
        return node

    pending = create_store(store, terms.map_nodes(comparison, with_chunks), KIND, overwrite=overwrite)
    lazy = {
        (path, str(name)): array.data
        for path, node in terms.nodes_of(comparison)
        for name, array in node.data_vars.items()
        if array.chunks is not None
    }
    with pending.writing():
        if lazy:
            import dask.array as da

            targets: list[Any] = [pending.array(*place) for place in lazy]
            da.store(list(lazy.values()), targets, lock=False)
        pending.commit()


def open_comparison(store: str | Path, *, chunks: Any = None) -> terms.Scores:
    """Open a finished store of :func:`save_comparison`.

    Parameters
    ----------
    store : str or Path
        Where to read.
    chunks : None, "auto" or mapping
        Dask chunks; None opens without Dask.

    Returns
    -------
    xarray.Dataset or xarray.DataTree

    Examples
    --------
    >>> import tempfile, xarray as xr, aucpr_dask as ap
    >>> result = xr.Dataset({"estimate": (("model", "query"), [[0.2, 0.4, 0.6], [0.3, 0.4, 0.7]])})
    >>> place = tempfile.mkdtemp() + "/comparison.zarr"
    >>> ap.save_comparison(ap.compare(result), place)
    >>> float(ap.open_comparison(place)["difference"][1, 0].round(3))
    0.067
    """
    from aucpr_dask.storage.stores import open_store

    opened = open_store(store, KIND, chunks=chunks)
    return terms.as_scores(terms.map_nodes(opened, lambda _, node: terms.with_levels(terms.with_plain_names(node))))
