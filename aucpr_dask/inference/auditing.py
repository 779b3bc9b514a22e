"""Audits of leaderboards: what a table of models and units shows beyond chance, and which units decide it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import InvalidInputError
from aucpr_dask.inference import families, methods, paired_samples, pairs, questions, ranking, sentences
from aucpr_dask.inference.designs import NAMES, UNIT_RESAMPLES, UNITS, are_values, estimators_of, unit_names
from aucpr_dask.inference.powering import POWER, Reach, least_units
from aucpr_dask.inference.samples import DATASET, Estimates, chosen, labels_of, read_estimates
from aucpr_dask.inference.units import Floats, Indices, total_of_units
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import ComparisonOptions

FEWEST_RESAMPLES, MOST_STATISTICS, MOST_STUDENTISED = 1000, 2 * 10**9, 5 * 10**7  # of pairs and resamples, by default
EXPECTED = 0.8  # level of the ranks to expect on a new unit
TOP = 10  # places whose order is watched
MODEL_LEFT_OUT = "model_left_out"
OTHER_WAY = {"drop": "drop_models", "drop_models": "drop"}

VARIABLES: dict[str, tuple[tuple[str, ...], str]] = {
    "difference_from_next": ((terms.MODEL,), "Estimate of the model minus that of the next."),
    "p_adjusted_from_next": (
        (terms.MODEL,),
        "P-value of the test that the model equals the next, adjusted for all pairs.",
    ),
    "new_unit_rank_interval": (
        (terms.MODEL, terms.BOUND),
        f"Ranks to expect on one new unit, with probability {EXPECTED:g}; NaN if all values are 0 or 1.",
    ),
    "share_of_spread": (
        (terms.QUERY,),
        "Share of the unit in the variance of the means between models; all add up to 1.",
    ),
    "leader_without": ((terms.QUERY,), "The best model if the unit is left out."),
    "swaps_without": ((terms.QUERY,), "Pairs of the first ten models that change their order if the unit is left out."),
    "rank_of_leader": ((terms.QUERY,), "Rank on the unit of the model that leads on all others."),
    "n_units_lacked": ((MODEL_LEFT_OUT,), "Units ranked on for which the model that is left out has no value."),
    "place_on_shared": ((MODEL_LEFT_OUT,), "Place that it would take among the models ranked, on the units it has."),
}
"""The variables of an audit besides those of :func:`rank`: dimensions and description."""


def audit_findings(data: terms.Scores, question: ComparisonOptions, incomplete: str | None) -> xr.Dataset:
    """Return what a table of estimates (model, unit) shows, the best model first.

    With `incomplete` None, models or units with gaps are left out, whichever leaves more of the table.
    """
    if question.over is None and isinstance(data, xr.Dataset) and DATASET in data.dims and terms.QUERY not in data.dims:
        question = replace(question, over=DATASET)
    by_query = replace(question, incomplete=incomplete or "drop")  # of queries in clusters, before these are added up
    node, dim = _one_table(data, question if question.dim == DATASET else by_query)
    estimate = node["estimate"]
    is_known = estimate.notnull().values
    is_known = is_known[:, is_known.any(axis=0)]
    n_complete = np.count_nonzero(is_known.all(axis=1)), np.count_nonzero(is_known.all(axis=0))  # models, units
    by_models = n_complete[0] * is_known.shape[1] >= n_complete[1] * is_known.shape[0]  # keeps as many cells, or more
    way = incomplete or ("drop_models" if by_models else "drop")
    estimates, method, ranks = _ranked(node, dim, question, way)
    ranks = ranks.assign_coords({terms.QUERY: list(estimates.units), MODEL_LEFT_OUT: list(estimates.models_left_out)})
    nouns = unit_names(dim, node.attrs)
    neighbours, facts = _neighbours(method, estimates.values, ranks.attrs["quantile"], question.level, nouns)
    units, more = _units(estimates)
    found = neighbours | units | _models_left_out(estimate, estimates)
    first, second = pairs.all_pairs(len(estimates.models))
    are_twins = families.undecided(estimates.values, first, second)  # they differ on some units, but on too few to tell
    both = zip(first[are_twins], second[are_twins], strict=True)
    twins = [f"{estimates.names[i]} and {estimates.names[j]}" for i, j in both]
    facts |= more | {
        terms.UNIT: nouns[0],
        "n_cells": int(estimate.size),
        "n_empty": int(estimate.isnull().sum()),
        "n_may_be_first": sentences.may_be_first(ranks),
        "twins": twins,
        "left_out": list(estimates.left_out),
        "models_left_out": list(estimates.models_left_out),
    }
    if not is_known.all():
        facts |= {"incomplete": way, "other_incomplete": OTHER_WAY[way]}
        with contextlib.suppress(InvalidInputError):  # the other way may leave too little
            others, _, other_ranks = _ranked(node, dim, question, OTHER_WAY[way])
            n_models, n_units = others.values.shape
            facts |= {"other_n_models": n_models, "other_n_units": n_units, "other_leader": others.names[0]}
            facts["other_n_may_be_first"] = sentences.may_be_first(other_ranks)
    described = {name: (dims, found[name], {"description": text}) for name, (dims, text) in VARIABLES.items()}
    return ranks.assign(described).assign_attrs(facts)


def _one_table(data: terms.Scores, question: ComparisonOptions) -> tuple[xr.Dataset, str]:
    """Return the estimates (model, unit) of one data set or of the data sets of a tree, and the units' dimension."""
    answered = questions.results_for(data, question, {})
    nodes = [answered] if question.dim == DATASET else [node for _, node in terms.nodes_of(answered)]
    dim = DATASET if question.dim == DATASET else questions.unit_dim(nodes[0], question)
    what = "an audit is of one table: a value of each model on each of several tasks"
    if len(nodes) > 1 or dim is None:
        received = f"{len(nodes)} data sets" if len(nodes) > 1 else "estimates without queries"
        remedy = "choose one data set: data['name'].to_dataset(); or over='dataset' takes the data sets as tasks"
        allowed = "estimates over (model, query), or a tree with over='dataset'"
        raise InvalidInputError(what, "argument 'data'", received, allowed, remedy)
    estimate = chosen(nodes[0]["estimate"], question.estimator)
    if also := ", ".join(str(name) for name in estimate.dims if name not in (terms.MODEL, dim)):
        raise InvalidInputError(what, "argument 'data'", f"also {also}", f"(model, {dim})", "select one of each")
    estimate = estimate.transpose(terms.MODEL, dim).compute()
    name = terms.MEASURE if are_values(nodes[0]) else terms.ESTIMATOR
    table = estimate.to_dataset(name="estimate")
    measures = estimators_of(table) or estimators_of(nodes[0])  # of a single measure, the attributes say which
    named: dict[str, Any] = {name: measures[0]} if measures else {}
    of_data = [one for _, node in terms.nodes_of(data) if are_values(node) for one in estimators_of(node)]
    if others := [one for one in dict.fromkeys(of_data) if one not in named.values()]:
        named[terms.OTHER_MEASURES] = others
    return table.assign_attrs(nodes[0].attrs | named), dim


def _ranked(
    node: xr.Dataset, dim: str, question: ComparisonOptions, incomplete: str
) -> tuple[Estimates, methods.Method, xr.Dataset]:
    """Return the estimates without gaps, the best model first, the method filled with them, and the ranks."""
    estimates = read_estimates(node, dim, None, incomplete)
    paired_samples.refuse_too_few(node, estimates, dim, UNITS)
    order = np.lexsort((np.array(estimates.names), -estimates.mean))
    estimates = replace(estimates, models=estimates.models[order], values=estimates.values[order])
    n_pairs = max(1, order.size * (order.size - 1) // 2)
    method = question.method or NAMES[UNITS][0]
    affordable = (MOST_STUDENTISED if method == "bootstrap_t" else MOST_STATISTICS) // n_pairs
    n_resamples = question.n_resamples or max(FEWEST_RESAMPLES, min(UNIT_RESAMPLES, affordable))
    question = replace(question, over=terms.QUERY, estimator=None, method=method, n_resamples=n_resamples)
    coords = {terms.MODEL: estimates.names, terms.QUERY: list(estimates.units)}
    table = xr.Dataset(
        {"estimate": ((terms.MODEL, terms.QUERY), estimates.direction * estimates.values)}, coords, node.attrs
    )
    sample = paired_samples.paired_sample(table, terms.QUERY, question)
    return estimates, sample.method, ranking.ranks_of(sample)


def _neighbours(
    method: methods.Method, values: Floats, quantile: float, level: float, nouns: tuple[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compare neighbours, adjusted for all pairs, as the data choose which are neighbours."""
    sample = method.sample
    if sample is None:
        raise TypeError("this method has no replicates")
    first, second = pairs.all_pairs(len(values))
    tests = families.pair_statistics(sample, first, second)
    adjusted = np.maximum(families.romano_wolf(sample, first, second, tests), tests.p_value)
    is_next, is_shown = second - first == 1, adjusted <= 1 - level
    reach = Reach(
        error=pairs.errors_from_units(values, first, second),
        reach=np.array([quantile]),
        alpha=(1 - level) / first.size,
        degrees=values.shape[1] - 1,
        n=values.shape[1],
        noun=nouns,
        has_units=True,
        least=least_units(method, level),
    )
    of_neighbours = replace(reach, error=reach.error[is_next])
    difference = tests.difference[is_next]
    found = {"difference_from_next": difference, "p_adjusted_from_next": adjusted[is_next]}
    facts = {
        "n_pairs": first.size,
        "n_pairs_shown": int(np.count_nonzero(is_shown)),
        "n_neighbours_shown": int(np.count_nonzero(is_shown & is_next)),
        "resolution": float(np.median(reach.detectable(POWER))),
        "resolution_of_neighbours": float(np.median(of_neighbours.detectable(POWER))),
        "power_in_words": sentences.power_in_words(reach, POWER),
    }
    return {name: np.append(column, np.nan) for name, column in found.items()}, facts


def _units(estimates: Estimates) -> tuple[dict[str, Any], dict[str, Any]]:
    """Find the ranks to expect on a new unit, and what each unit does to the order."""
    from scipy.stats import rankdata

    values = estimates.values
    ranks: Floats = np.asarray(rankdata(-values, axis=0), np.float64)
    without = leave_out_each(values, ranks, EXPECTED)
    expected = np.clip(expected_ranks(ranks, EXPECTED), 1, len(values))
    are_outcomes = np.isin(np.abs(values), (0, 1)).all()  # half the models share a rank, so ranks say nothing there
    found = {
        "new_unit_rank_interval": np.where(are_outcomes, np.nan, expected),
        "share_of_spread": shares_of_spread(values),
        "leader_without": np.array(estimates.names, object)[without.leader],
        "swaps_without": without.n_swaps,
        "rank_of_leader": without.rank_of_leader,
    }
    return found, {"expected_coverage": without.coverage}


def _models_left_out(estimate: xr.DataArray, estimates: Estimates) -> dict[str, Any]:
    """Return what the models that are left out lack, and where they stand on what they share with the others."""
    models, units = (list(map(str, labels_of(estimate, str(dim)))) for dim in estimate.dims)
    frame = pd.DataFrame(estimates.direction * np.asarray(estimate.values, np.float64), models, units)
    rows = frame.loc[list(estimates.models_left_out), list(estimates.units)].to_numpy()
    places = np.full(len(rows), np.nan)
    for i, row in enumerate(rows):
        shared = ~np.isnan(row)
        if shared.any():
            places[i] = 1 + np.sum(estimates.values[:, shared].mean(axis=1) > row[shared].mean())
    return {"n_units_lacked": np.isnan(rows).sum(axis=1), "place_on_shared": places}


# --- what single units do to a leaderboard -------------------------------------------------------------------------
# Values are (M, Q), models from the best to the worst mean, units in the order of their names.


def expected_ranks(ranks: Floats, level: float) -> Floats:
    """Bounds (..., 2) of the rank on one more unit like these: the k-th lowest and the k-th highest of Q ranks.

    The rank on any of Q + 1 exchangeable units is below the k-th lowest of the others with probability k / (Q + 1) at
    most, so the bounds hold with probability ``1 - 2 k / (Q + 1)`` at least. With too few units for the level, they
    are infinite.
    """
    n_units = ranks.shape[-1]
    k = int(np.floor(round((1 - level) / 2 * (n_units + 1), 9)))
    if k == 0:
        return np.broadcast_to([-np.inf, np.inf], (*ranks.shape[:-1], 2))
    return np.sort(ranks, axis=-1)[..., [k - 1, n_units - k]]


class LeftOut(NamedTuple):
    """What happens if each unit is left out in turn."""

    leader: Indices  # (Q,): position of the model that is then the best
    n_swaps: Indices  # (Q,): pairs of the first places that change their order
    rank_of_leader: Floats  # (Q,): rank on the unit of the model that leads on the others
    coverage: float  # how often the first models on the others have a rank on the unit that the others let expect


def leave_out_each(values: Floats, ranks: Floats, level: float) -> LeftOut:
    """Leave out each unit in turn; the first models of the others show how well ranks on the unit are expected."""
    n_models, n_units = values.shape
    rest = (total_of_units(values)[:, None] - values) / (n_units - 1)
    resolution = pairs.ROUND_OFF * np.abs(values).max()
    first, second = pairs.all_pairs(min(TOP, n_models))
    n_swaps = np.count_nonzero(rest[second] - rest[first] > resolution, axis=0)
    rest[np.abs(rest - rest.max(axis=0)) <= resolution] = np.inf  # of models that tie, the first leads
    top = np.argsort(-rest, axis=0, kind="stable")[:TOP]
    held = np.empty(top.shape, bool)
    for unit in range(n_units):
        those = ranks[top[:, unit]]
        lower, upper = expected_ranks(np.delete(those, unit, axis=1), level).T
        held[:, unit] = (lower <= those[:, unit]) & (those[:, unit] <= upper)
    return LeftOut(top[0], n_swaps, ranks[top[0], np.arange(n_units)], float(held.mean()))


def shares_of_spread(values: Floats) -> Floats:
    """Share of each unit in the variance of the means between models: ``cov(v_q, mean) / (Q var(mean))``; adds up to 1.

    A unit that ranks models against the others has a negative share; all are NaN if all means are equal.
    """
    centred = values - values.mean(axis=0)
    total = total_of_units(centred)
    if np.abs(total).max(initial=0.0) <= pairs.ROUND_OFF * np.abs(values).sum(axis=1).max(initial=0.0):
        return np.full(values.shape[1], np.nan)
    return np.asarray((total @ centred) / (total @ total), np.float64)
