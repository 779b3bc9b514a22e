"""What an audit says in sentences, each with a heading."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr

from aucpr_dask.errors import as_called, few, printable
from aucpr_dask.inference.auditing import EXPECTED, TOP
from aucpr_dask.inference.designs import better, named_values, unit_names
from aucpr_dask.inference.families import LEAST_UNITS
from aucpr_dask.inference.sentences import sentence, smallest_shown
from aucpr_dask.schema.terms import MODEL, OTHER_MEASURES, QUERY, SCALED, count, in_words, rounded_percent

MOST_DECISIVE = 5


def names_of(findings: xr.Dataset, dim: str = MODEL) -> list[str]:
    """Return the names of the models or units."""
    return [printable(str(name)) for name in findings[dim].values]


def headline(findings: xr.Dataset) -> str:
    """Return the sizes of the table, the measure or the column of values, and which way is better."""
    said = [count(findings.sizes[MODEL], "model"), _units(findings.sizes[QUERY], findings)]
    return ", ".join(filter(None, [*said, printable(named_values(findings.attrs)), better(findings.attrs)]))


def _units(number: int, findings: xr.Dataset) -> str:
    return count(number, *unit_names(QUERY, findings.attrs))


def amount(value: float, findings: xr.Dataset) -> str:
    """Return a value of the measure, or a difference of two: four decimals up to 1, else two."""
    return f"{value:,.{4 if np.abs(findings['estimate'].values).max() <= 1 else 2}f}"


def span(ends: Iterable[float]) -> str:
    """Return the lowest and the highest rank."""
    return " to ".join(dict.fromkeys(f"{end:,g}" for end in ends))


def verdict(findings: xr.Dataset) -> list[tuple[str, str]]:
    """Return the findings as headings and sentences, the plainest first."""
    one, many = unit_names(QUERY, findings.attrs)
    said = [
        ("Neighbours", _neighbours(findings)),
        ("First place", _first_place(findings)),
        ("Resolution", _resolution(findings)),
        *([(f"A new {one}", _new_unit(findings))] if has_expected_ranks(findings) else []),
        (f"{many.capitalize()} that decide", _deciding(findings)),
        ("Stability", _stability(findings)),
    ]
    if twins := list(findings.attrs["twins"]):
        differ = f"{count(len(twins), 'pair')} of models {'differs' if len(twins) == 1 else 'differ'}"
        why = f"on fewer than {LEAST_UNITS} {many}, too few to tell which is better"
        said.append(("Twins", f"{differ} {why}: {few(list(map(printable, twins)))}."))
    if findings.attrs["n_empty"]:
        said.append(("Empty cells", _empty_cells(findings)))
    return [*said, ("Columns", _columns(findings))]


def _columns(findings: xr.Dataset) -> str:
    """Return what was taken as the tasks, and what was not."""
    many = unit_names(QUERY, findings.attrs)[1]
    said = f"Taken as {many}: {few(sorted(names_of(findings, QUERY)), 8)}."
    if others := list(findings.attrs.get(OTHER_MEASURES, ())):
        said += f" Other measures, which {as_called('estimator=')} audits: {few(list(map(printable, others)), 8)}."
    if columns := list(findings.attrs.get("columns_left_out", ())):
        said += f" Not taken: {few(list(map(printable, columns)), 8)}."
    if names := list(findings.attrs.get("negated", ())):
        said += f" Negated, because less is better: {few(list(map(printable, names)), 8)}."
    if names := list(findings.attrs.get(SCALED, ())):
        said += f" Percents, read as fractions: {few(list(map(printable, names)), 8)}."
    if repeats := findings.attrs.get("averaged_over"):
        said += f" Averaged over {printable(repeats)}."
    return said


def _neighbours(findings: xr.Dataset) -> str:
    facts, pairs = findings.attrs, count(findings.sizes[MODEL] - 1, "neighbouring pair")
    of_all = "" if facts["n_pairs"] == 1 else f"; of all {facts['n_pairs']:,} pairs, {facts['n_pairs_shown']:,}"
    differ = f"{facts['n_neighbours_shown']:,} {'differs' if facts['n_neighbours_shown'] == 1 else 'differ'}"
    tested = f"{100 * (1 - facts['level']):.3g} % level, {in_words(facts['method'])}, adjusted for all pairs"
    groups = f"Models that cannot be told apart form {count(facts['n_groups'], 'group')}."
    n_neighbours, n_groups = findings.sizes[MODEL] - 1, facts["n_groups"]
    shows_all = facts["n_neighbours_shown"] == n_neighbours
    if (facts["n_pairs_shown"] > 0) != (n_groups > 1) or shows_all != (n_groups > n_neighbours):
        groups += " Pairs go by step-down p-values, groups and ranks by simultaneous intervals: here they disagree."
    return f"Of {pairs}, {differ} beyond chance{of_all} ({tested}). {groups}"


def _first_place(findings: xr.Dataset) -> str:
    may_be_first, has_gaps = findings.attrs["n_may_be_first"], bool(findings.attrs["models_left_out"])
    of_them = " of them" if has_gaps else ""
    others = f"no other{of_them or ' model'}" if may_be_first == 1 else f"{may_be_first:,}{of_them or ' models'}"
    leaders = names_of(findings.isel({MODEL: (findings["rank"] == findings["rank"][0]).values}))
    lead = f"{leaders[0]} leads" if len(leaders) == 1 else f"{few(leaders)} lead"
    lead += f" the {count(findings.sizes[MODEL], 'model')} without gaps" if has_gaps else ""
    said = f"{lead} with {amount(float(findings['estimate'][0]), findings)}, and {others} may be first."
    places = findings["place_on_shared"].to_series()
    rivals = [f"{printable(str(name))} (place {place:g})" for name, place in places.items() if place <= may_be_first]
    return f"{said} Left out for gaps, but as high on what they share: {few(rivals)}." if rivals else said


def _resolution(findings: xr.Dataset) -> str:
    facts, units = findings.attrs, _units(findings.sizes[QUERY], findings)
    if not np.isfinite(facts["resolution"]):
        return f"With {units}, no difference can be shown, however large it is."
    if facts["resolution"] == 0:
        return f"Over {units}, the differences between typical models do not vary, so nothing is known of their errors."
    differences = [amount(facts[name], findings) for name in ("resolution", "resolution_of_neighbours")]
    by = f"(simultaneous intervals, median of {count(facts['n_pairs'], 'pair')})", "between neighbours in rank"
    return sentence(smallest_shown(units, facts["power_in_words"], zip(differences, by, strict=True)))


def has_expected_ranks(findings: xr.Dataset) -> bool:
    """Whether ranks are to be expected on a new unit: not where units are outcomes, won or lost."""
    return bool(findings["new_unit_rank_interval"].notnull().any())


def _new_unit(findings: xr.Dataset) -> str:
    one, many = unit_names(QUERY, findings.attrs)
    ranks, expected = findings["rank_of_leader"].values, span(findings["new_unit_rank_interval"].values[0])
    return (
        f"On {rounded_percent(EXPECTED)} of new {many} like these, expect {names_of(findings)[0]} at rank {expected}. "
        f"Check by leaving out each {one} in turn: the leader of the others had the median rank {np.median(ranks):g} "
        f"on it ({span((ranks.min(), ranks.max()))}), and the first {min(TOP, findings.sizes[MODEL])} had a rank as "
        f"expected in {rounded_percent(findings.attrs['expected_coverage'])} of the cases."
    )


def _deciding(findings: xr.Dataset) -> str:
    one, many = unit_names(QUERY, findings.attrs)
    shares = findings["share_of_spread"].to_series()
    largest = shares.sort_values(ascending=False, kind="stable")[:MOST_DECISIVE]
    listed = few([f"{printable(str(name))} {rounded_percent(share)}" for name, share in largest.items()])
    leaders = findings["leader_without"].to_series()
    others = leaders[leaders != findings[MODEL].values[0]]
    changes = f"Leaving out any single {one} leaves the leader first."
    if len(others):
        led = few([f"{printable(str(name))} ({number})" for name, number in others.value_counts().items()])
        left_out = f"{one} {printable(str(others.index[0]))}" if len(others) == 1 else f"one of {len(others):,} {many}"
        changes = f"Another model leads if {left_out} is left out: {led}."
    if shares.isna().all():
        return f"The means of the models do not differ, so no {one} decides."
    if len(shares) > 3 and largest.iloc[0] > 0.5:
        changes += f" One {one} decides more than all others together: check that it is one, and on their scale."
    if largest.sum() > 1:
        return f"{listed} of the spread between models; others lessen it, and all add up to 100 %. {changes}"
    return (
        f"{len(largest)} of {_units(len(shares), findings)} make up {rounded_percent(largest.sum())} of the spread "
        f"between models: {listed}. {changes}"
    )


def _stability(findings: xr.Dataset) -> str:
    one, n_top = unit_names(QUERY, findings.attrs)[0], min(TOP, findings.sizes[MODEL])
    if findings["share_of_spread"].isnull().all():
        return "The means of the models do not differ, so there is no order to change."
    return (
        f"Leaving out one {one} reverses {float(findings['swaps_without'].mean()):.1f} of the "
        f"{count(n_top * (n_top - 1) // 2, 'pair')} of the first {n_top} on average."
    )


def _empty_cells(findings: xr.Dataset) -> str:
    facts, many = findings.attrs, unit_names(QUERY, findings.attrs)[1]
    said = f"{facts['n_empty']:,} of {facts['n_cells']:,} cells are empty, and none is filled in."
    if facts["models_left_out"]:
        names = few([printable(name) for name in facts["models_left_out"]])
        said += f" {count(len(facts['models_left_out']), 'model')} with gaps can't be ranked with the others: {names}."
    if facts["left_out"]:
        left_out = facts["left_out"]
        said += f" {_units(len(left_out), findings)} with gaps {'counts' if len(left_out) == 1 else 'count'} in no mean"
        said += f": {few(list(map(printable, left_out)))}."
    if "other_incomplete" not in facts:
        return said
    what, incomplete = many if facts["other_incomplete"] == "drop" else "models", facts["other_incomplete"]
    said += f" Leaving out {what} with gaps instead ({as_called(f'incomplete={incomplete!r}')})"
    if "other_leader" not in facts:
        return f"{said} leaves too little."
    return (
        f"{said} ranks {count(facts['other_n_models'], 'model')} on {_units(facts['other_n_units'], findings)}: "
        f"{printable(facts['other_leader'])} leads, and {facts['other_n_may_be_first']:,} may be first."
    )
