"""What answers have shown, in words: sentences are made here from the facts of an answer, and nowhere else.

A terminal, a notebook and a page print the attribute or variable ``summary`` of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from aucpr_dask.errors import as_called, few, printable
from aucpr_dask.inference import designs
from aucpr_dask.inference.covarying import BASELINE, OTHER_MODEL
from aucpr_dask.schema import terms
from aucpr_dask.schema.terms import BOUND, MODEL, Scores, count, in_words, percent

if TYPE_CHECKING:
    from aucpr_dask.inference.gating import Gate
    from aucpr_dask.inference.powering import Reach

MOST = 5  # differences that a sentence names
SUMMARY = "summary"


def summary_of(answer: xr.Dataset) -> str:
    """Say what an answer has shown; nothing if it has no sentence of its own.

    Of a comparison, who differs; of ranks, who may be first; of power, what :func:`power` said.
    """
    if "rank" in answer:
        return of_ranks(answer)
    return of_comparison(answer) if "p_value" in answer and "difference" in answer else fact(answer, SUMMARY)


def sentence(text: str) -> str:
    """Return a text with a capital first letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def fact(answer: xr.Dataset, name: str) -> str:
    """Return a fact in words: an attribute, or where groups have several, the variable of one group."""
    return str(answer[name].item() if name in answer else answer.attrs.get(name, ""))


# --- differences ---------------------------------------------------------------------------------------------------


def asked_pairs(answer: xr.Dataset) -> tuple[list[Any], NDArray[np.bool_]]:
    """Return the dimensions of an answer, those of pairs first, and which cells ask about a pair, each pair once."""
    p_value = answer.variables["p_value"]
    of_pairs = [dim for dim in (MODEL, OTHER_MODEL, BASELINE) if dim in p_value.dims]
    other = OTHER_MODEL if OTHER_MODEL in of_pairs else BASELINE
    dims = [*of_pairs, *(dim for dim in p_value.dims if dim not in of_pairs)]
    values = p_value.transpose(*dims).values
    others = np.atleast_1d(answer.variables[other].values).tolist()
    places = [others.index(name) if name in others else len(others) for name in answer.variables[MODEL].values.tolist()]
    is_pair = np.greater.outer(places, np.arange(len(others)))  # two of these are asked about once
    is_pair = is_pair.T if other == OTHER_MODEL else is_pair
    shape = *values.shape[: len(of_pairs)], *(1,) * (len(dims) - len(of_pairs))
    return dims, is_pair.reshape(shape) & ~np.isnan(values)


def of_comparison(answer: xr.Dataset, about: str = "") -> str:
    """Say how many pairs were compared, by which family and level, and which models are shown to differ.

    `about` names the groups in which each pair is compared, if there are several.
    """
    dims, asked = asked_pairs(answer)
    of_pairs = [dim for dim in dims if dim in (MODEL, OTHER_MODEL, BASELINE)]
    tested = (answer.variables[name] for name in ("difference", "p_adjusted"))
    differences, adjusted = (one.transpose(*dims, ...).values for one in tested)
    shown = asked & (adjusted <= 1 - float(answer.attrs["level"]))
    others = np.atleast_1d(answer.variables[OTHER_MODEL if OTHER_MODEL in dims else BASELINE].values)

    def named(at: tuple[int, ...]) -> tuple[str, str, str]:
        labels = {str(dim): answer[dim].values[i] for dim, i in zip(dims, at, strict=True) if dim not in of_pairs}
        where = " in " * bool(labels) + terms.group_in_words(labels)
        return str(answer.variables[MODEL].values[at[0]]), str(others[at[1] if len(of_pairs) > 1 else 0]), where

    found = []
    for at in map(tuple, np.argwhere(shown).tolist()):
        difference, (one, other, where) = float(differences[at]), named(at)
        if OTHER_MODEL in dims and difference < 0:  # of any two, the better is named first
            one, other, difference = other, one, -difference
        found.append((one, f"than {other}{where}", difference))
    words = [_asked(answer, int(asked.sum()), "comparison", about)]
    if found:
        words += shown_to_be(
            found, "no model is shown to be {} in any group" if about and OTHER_MODEL not in dims else ""
        )
    else:
        n = int(answer["n_units"].max()) if answer.attrs.get("method") == "sign_flip" and "n_units" in answer else None
        least = 0.0 if n is None else 2.0 ** (1 - n)  # the smallest p-value that so few units can have
        adjusted_least = least * (int(answer.attrs["family_size"]) if answer.attrs["adjust"] == "holm" else 1)
        if n is None or adjusted_least <= 1 - float(answer.attrs["level"]):
            words.append("no difference is shown, which does not show that there is none")
        else:
            over = str(answer.attrs["over"])
            of = {designs.IN_CLUSTERS: True} if over == "clusters" else {}
            units = count(n, *designs.unit_names(terms.QUERY if of else over, answer.attrs | of))
            units = f"up to {units} in a group" if about else units
            why = f"the smallest p-value that they can have is {least:.3g}"
            why += f", {min(adjusted_least, 1.0):.2g} after adjustment" if adjusted_least > least else ""
            words.append(f"no difference can be shown with {units}: {why}")
    if "standard_error" in answer:
        are_equal = asked & (differences == 0) & (answer.variables["standard_error"].transpose(*dims).values == 0)
        equal = [named(at) for at in map(tuple, np.argwhere(are_equal).tolist())]
        words += [f"equal: {few([f'{one} and {other}{where}' for one, other, where in equal], MOST)}"] if equal else []
    if "simultaneous_interval" in answer:
        lower, upper = np.moveaxis(answer.variables["simultaneous_interval"].transpose(*dims, BOUND).values, -1, 0)
        words.append(of_disagreement(answer, int(np.count_nonzero(shown & (lower <= 0) & (upper >= 0)))))
    return "; ".join(filter(None, [*words, fact(answer, "gaps")]))


def of_disagreement(answer: xr.Dataset, number: int) -> str:
    """Say of how many of the differences that are shown the simultaneous interval contains 0, and why."""
    why = "p-values are adjusted step by step, which shows more"
    if str(answer.attrs["adjust"]) == "none":
        why = "p-values are not adjusted"
    return f"the simultaneous intervals of {number:,} that are shown contain 0: {why}" if number else ""


def of_groups(said: Mapping[str, str], what: str) -> str:
    """Say what holds in which groups; `what` names it for those that are not shown.

    >>> of_groups({"u": "left out: 'a'", "v": "", "w": "without 1 item", "x": "left out: 'a'"}, "gaps")
    "in u, x: left out: 'a'; in w: without 1 item"
    """
    alike: dict[str, list[str]] = {}
    for name, text in said.items():
        alike.setdefault(text, []).append(name)
    alike.pop("", None)
    shown = [f"in {few(names)}: {text}" for text, names in list(alike.items())[:MOST]]
    n_more = sum(map(len, list(alike.values())[MOST:]))
    return "; ".join([*shown, *([f"{what} in {count(n_more, 'more group')}"] if n_more else [])])


def with_families(answers: Scores) -> Scores:
    """Say of each of several data sets whose p-values are adjusted that it is a family of its own."""
    n = len(dict(terms.nodes_of(answers)))

    def told(path: str, node: xr.Dataset) -> xr.Dataset:
        if n < 2 or "p_adjusted" not in node or SUMMARY not in node.attrs:
            return node
        apart = f"each of the {n:,} data sets is a family of its own"
        return node.assign_attrs({SUMMARY: f"{node.attrs[SUMMARY]}; {apart}"})

    return terms.map_nodes(answers, told)


def _asked(answer: xr.Dataset, number: int, noun: str, about: str) -> str:
    """Say how many questions an answer replies to, at which level, and by which adjustment for how many.

    >>> facts = {"level": 0.95, "adjust": "romano_wolf", "family_size": 3}
    >>> _asked(xr.Dataset(attrs=facts), 3, "comparison", " in 2 groups")
    '3 comparisons in 2 groups at 5 %, adjusted by Romano-Wolf for all 3'
    """
    family, adjust = int(answer.attrs["family_size"]), str(answer.attrs["adjust"])
    of = f" of {named}" if (named := _values_of(answer)) else ""
    asked = f"{count(number, noun)}{of}{about} at {percent(1 - float(answer.attrs['level']))}"
    if family < 2:
        return asked
    way = "not adjusted" if adjust == "none" else f"adjusted by {in_words(adjust)} for all {family:,}"
    return f"{asked}, {way}"


def _values_of(answer: xr.Dataset) -> str:
    """Name the measure of values, or their column, and say so if less is better; nothing of areas of rankings."""
    named = printable(designs.named_values(answer.attrs))
    return named if designs.direction(answer.attrs) > 0 else f"{named or 'values'} (less is better)"


def shown_to_be(
    differences: Iterable[tuple[str, str, float]],
    nothing: str = "",
    direction: float = 1.0,
    words: tuple[str, str] = ("worse", "better"),
) -> list[str]:
    """Say who is shown to be worse and who better than whom, by which difference.

    With a direction of -1, less is better. The largest differences are named, if there are too many to name all.
    Nothing is said of a word without differences, unless there is a sentence for that.

    >>> shown_to_be([("a", "than b in Bern", -0.05), ("a", "than b in Graz", 0.00002)])
    ['shown: a is worse than b in Bern (-0.050); a is better than b in Graz (+0.000020)']
    >>> shown_to_be([(name, "than z", place / 10) for place, name in enumerate("abcdefg")])[0].split(", ")[-2:]
    ['d is better than z (+0.300)', 'c is better than z (+0.200) and 1 more']
    >>> shown_to_be([], "no model is shown to be {}")
    ['no model is shown to be worse or better']
    """
    listed, shown, missing = list(differences), list[str](), list[str]()
    for word, sign in zip(words, (-1, 1), strict=True):
        of_word = [one for one in listed if sign * direction * one[2] > 0]
        if len(of_word) > MOST:
            of_word.sort(key=lambda one: -abs(one[2]))
        found = [f"{who} is {word} {than} ({terms.amount(value, 3, '+')})" for who, than, value in of_word]
        shown += [few(found, MOST)] if found else []
        missing += [] if found else [word]
    said = [f"shown: {'; '.join(shown)}"] if shown else []
    return said + ([nothing.format(" or ".join(missing))] if nothing and missing else [])


# --- contrasts -----------------------------------------------------------------------------------------------------

UNALIKE = 1.25  # ratio of prevalences from which a contrast says that they differ


def of_contrasts(answer: xr.Dataset, rows: pd.DataFrame, direction: float) -> str:
    """Say in which groups models are shown to be better or worse, of how many contrasts, and what would explain it."""
    facts = answer.attrs
    dims = [str(dim) for dim in answer["estimate"].dims if dim != MODEL]
    n_groups = int(np.prod([answer.sizes[dim] for dim in dims]))
    against = f"with {facts['reference']}" if "reference" in facts else "between all pairs"
    of_two = f"'s gain over {facts['baseline']}" if "baseline" in facts else ""
    shown = rows[rows["p_adjusted"] <= 1 - float(facts["level"])]
    differences = zip(
        [f"{row.model}{of_two}" for row in shown.itertuples()],
        [f"in {row.group} than in {row.other}" for row in shown.itertuples()],
        map(float, shown["difference"]),
        strict=True,
    )
    left_out = facts["groups_left_out"].split("; ") if "groups_left_out" in facts else []
    groups = f"{n_groups - len(left_out)} of {n_groups} groups" if left_out else f"{n_groups} groups"
    words = [_asked(answer, len(rows), "contrast", f" of {groups} by {', '.join(dims)} {against}")]
    ways = ("smaller", "larger") if of_two else ("worse", "better")
    words += shown_to_be(differences, "none is shown to be {}", direction, ways)
    n_containing_0 = sum(lower <= 0 <= upper for lower, upper in shown["simultaneous_interval"])
    words.append(of_disagreement(answer, n_containing_0))
    words += [f"without an answer: {few(left_out)}"] if left_out else []
    if "prevalence" in answer and "prevalence" not in facts:
        known = answer["prevalence"].where(answer["estimate"].notnull().any(MODEL))  # of groups with an answer
        least, most = float(known.min()), float(known.max())
        if most > UNALIKE * least:
            remedy = f"pass {as_called('prevalence=')} to contrast all groups at the same one"
            why = f"and with it the level of chance: {remedy}"
            words.append(f"prevalence differs ({least:.2g} to {most:.2g}), {why}")
    return "; ".join(filter(None, words))


# --- verdicts ------------------------------------------------------------------------------------------------------

BETTER, NOT_WORSE, WORSE, CANNOT_TELL = "better", "not worse", "worse", "cannot tell"
UNSEEN = 3.0  # units of which as many as these expects are in none of 95 % of samples


def of_gate(gate: Gate) -> str:
    """Say whether a candidate may replace a baseline, the numbers behind it, and what would overturn it."""
    more = f" by more than {gate.margin:g}" if gate.margin else ""
    new, old = printable(gate.candidate), printable(gate.baseline)
    are_equal = not any((gate.difference, *gate.interval))
    claim = {
        BETTER: f"passed: {new} is better than {old}",
        NOT_WORSE: f"passed: {new} equals {old}" if are_equal else f"passed: {new} is not worse than {old}{more}",
        WORSE: f"failed: {new} is worse than {old}{more}",
        CANNOT_TELL: f"cannot tell whether {new} is worse than {old}{more}",
    }[gate.verdict]
    claim = f"{printable(gate.group_in_words or gate.group)}: {claim}" if gate.group else claim
    if np.isnan(gate.difference):
        return f"{claim}: {gate.limits}"
    measure = in_words(gate.measure) + (f" ({gate.reading})" if gate.reading else "")
    by_method = f" by {in_words(gate.method)}" if gate.method else ""
    by = "better by" if gate.lower_is_better else "difference"
    numbers = terms.difference_in_words(gate.estimates, gate.difference, gate.interval, gate.level, what=by)
    family = f"; interval and p hold for all {gate.family}" if gate.family > 1 else ""
    said = [f"{claim}: {measure} {numbers}, {terms.p_value_in_words(gate.p_value)}{by_method}{family}"]
    said += [of_data_sets(gate.by_data_set), gate.sizes, gate.gaps, gate.caveat if gate.passed else gate.limits]
    return "; ".join(filter(None, said))


def of_data_sets(differences: Mapping[str, float]) -> str:
    """Say on how many data sets a candidate is ahead, and on which it is behind, the largest losses first.

    >>> of_data_sets({"a": 0.1, "b": -0.02, "c": 0.0, "d": -0.3})
    'ahead on 1 of 4 data sets, behind on d (-0.300), b (-0.020)'
    """
    behind = sorted((by, name) for name, by in differences.items() if by < 0)
    named = few([f"{name} ({terms.amount(by, 3, '+')})" for by, name in behind], MOST)
    ahead = f"ahead on {sum(by > 0 for by in differences.values()):,} of {count(len(differences), 'data set')}"
    return ahead * bool(differences) + f", behind on {named}" * bool(behind)


def of_hidden_losses(n: int, nouns: tuple[str, str], reserve: float, *, are_shares: bool) -> list[str]:
    """Say which losses may be hidden from a pass over `n` units whose lower bound is so far above what fails.

    >>> said = of_hidden_losses(12, ("query", "queries"), 0.05, are_shares=True)[0].split("; ")
    >>> said[0]
    'over 12 queries, losses on fewer than 25 % of queries may not show'
    >>> said[1]
    'if they average 0.2 or more, the candidate would fail'
    >>> of_hidden_losses(3, ("data set", "data sets"), 0.05, are_shares=True)[0].split("; ")[0]
    'over 3 data sets, losses on fewer than 100 % of data sets may not show'
    """
    share, said = min(1.0, UNSEEN / n), list[str]()
    if not (are_shares and reserve > share):  # else not even losses of 1 on all that are unseen would fail it
        few_of = percent(share, ".0f" if share >= 0.1 else ".2g")
        over = f"over {count(n, *nouns)}, losses on fewer than {few_of} of {nouns[1]} may not show"
        enough = f"if they average {reserve / share:.2g} or more" if reserve > 0 else "however small they are"
        said.append(f"{over}; {enough}, the candidate would fail")
    return said + [f"below {designs.ENOUGH_UNITS} {nouns[1]}, do not rely on a pass alone"] * (n < designs.ENOUGH_UNITS)


# --- power -----------------------------------------------------------------------------------------------------------

SIMULTANEOUS = "by simultaneous intervals"


def smallest_shown(size: str, power: str, differences: Iterable[tuple[str, str]]) -> str:
    """Say how small a difference is shown with a power, by one kind of interval after the other.

    >>> smallest_shown("9 tasks", "80 % power", [("0.13", "(median of 6 pairs)"), ("0.2", "by the others")])
    'with 9 tasks, the smallest true difference shown with 80 % power is 0.13 (median of 6 pairs), 0.2 by the others'
    """
    listed = ", ".join(f"{difference} {by}".strip() for difference, by in differences)
    return f"with {size}, the smallest true difference shown with {power} is {listed}"


def of_reach(reach: Reach, power: float, level: float, *, by: str = "", others: Mapping[str, Any] | None = None) -> str:
    """Say which true difference, of the median pair, intervals of a level show with a power; and which `by` others."""
    detectable = _of_pairs_that_vary(reach.detectable(power))
    size, middle, n = sample_in_words(reach, reach.n), _middle(detectable), detectable.size
    if np.isinf(middle):
        return f"with {size}, no difference can be shown"
    if middle == 0:
        return f"over {size}, the differences do not vary"
    of = ", ".join(filter(None, [by, f"median of {n:,} pairs" if n > 1 else ""]))
    shown = {f"({of})" if of else "": middle} | {
        by: _middle(_of_pairs_that_vary(values)) for by, values in (others or {}).items()
    }
    said = [("none" if np.isinf(one) else f"{one:.2g}", by) for by, one in shown.items()]
    return smallest_shown(size, f"{power_in_words(reach, power)} at {percent(1 - level, '.3g')}", said)


def power_in_words(reach: Reach, power: float, form: str = "g") -> str:
    """Return a power, and say if it is rough."""
    return f"{'roughly ' * reach.is_rough}{percent(power, form)} power"


def sample_in_words(reach: Reach, n: float) -> str:
    """Return a size of the sample."""
    if np.isnan(n):
        return "these items"
    return f"billions of {reach.noun[1]}" if np.isinf(n) else count(int(np.ceil(n)), *reach.noun)


def of_power(single: Reach, values: Mapping[str, Any], power: float, difference: float | None) -> str:
    """Say what is shown with a power, and how large a sample the difference that matters needs: of the median pair."""
    others = {SIMULTANEOUS: values["detectable_family"], "between neighbours in rank": values["detectable_rank"]}
    others = {by: one for by, one in others.items() if one is not None and single.error.size > 1}
    said = sentence(of_reach(single, power, 1 - single.alpha, others=others)).removesuffix(".")
    if difference is None or _middle(values["detectable"]) == 0:
        return said
    needed, now = _middle(values["n_needed"]), power_in_words(single, _middle(values["power"]), ".0f")
    takes = "" if np.isnan(needed) else f", and with {percent(power)} power by {sample_in_words(single, needed)}"
    return f"{said}; a difference of {difference:g} is shown with {now}{takes}"


def _of_pairs_that_vary(detectable: Any) -> NDArray[np.float64]:
    """Return the differences that are shown without those of equal rankings, which are 0, unless all are equal."""
    values = np.ravel(np.asarray(detectable, np.float64))
    return values[values != 0] if values.any() else values


def _middle(values: Any) -> float:
    """Return the median of those that are known; NaN if none is."""
    known = np.asarray(values)[~np.isnan(values)]
    return float(np.median(known)) if known.size else np.nan


# --- ranks ---------------------------------------------------------------------------------------------------------


def may_be_first(ranks: xr.Dataset) -> int:
    """Return how many models may be first, by the simultaneous rank sets."""
    return int((ranks["simultaneous_rank_interval"].sel({BOUND: terms.BOUNDS[0]}) <= 1).sum())


def of_ranks(ranks: xr.Dataset) -> str:
    """Say who is first, how many may be, and how many groups of models are not told apart."""
    rank, n = ranks["rank"].values, ranks.sizes[MODEL]
    leaders = [str(name) for name in ranks[MODEL].values[rank == np.nanmin(rank)]]
    sets = f"{percent(float(ranks.attrs['level']))} simultaneous rank sets"
    by = f" by {named}" if (named := _values_of(ranks)) else ""
    words = [f"{few(leaders)} {'ranks' if len(leaders) == 1 else 'rank'} first{by}"]
    words.append(f"{may_be_first(ranks):,} of {n:,} models may ({sets})")
    n_groups = int(ranks["last_group"].max())
    are_apart = 1 < n == n_groups
    words.append("all are told apart" if are_apart else f"{count(n_groups, 'group')} of models not told apart")
    return "; ".join(filter(None, [*words, fact(ranks, "gaps")]))


# --- tables with letters ---------------------------------------------------------------------------------------------


def of_letters(data: xr.Dataset, columns: Mapping[str, xr.Dataset], dim: str | None, n_models: int) -> str:
    """Say what was averaged over `dim`, how grades and ties counted, and how models were compared in each column."""
    first = next(iter(columns.values()))
    facts, is_compared = first.attrs, "difference" in first
    what, rules = "Estimates", designs.reading_of(data.attrs)
    if (n_repeats := data.sizes.get(terms.REPEAT)) is not None:
        what = sentence(designs.repeats_in_words(n_repeats, data.attrs.get(terms.N_FOLDS))).removesuffix(".")
    elif dim is not None:
        sizes = sorted({int(one["n_units"]) if is_compared else data.sizes[dim] for one in columns.values()})
        least = f"{sizes[0]:,} to " if len(sizes) > 1 else ""
        what = f"Means over {least}{count(sizes[-1], *designs.unit_names(dim, data.attrs))}"
    if not designs.are_values(data):
        if data.attrs.get("ties") == "trec_eval" and data.attrs.get("positive_from") is None:
            rules = ["positive from grade 1", *rules]
        rules += ["ties share a threshold"] if data.attrs.get("ties", "group") == "group" else []
    said = ", ".join([what, *rules])
    if not is_compared:
        alone = "one model" if n_models == 1 else f"one {designs.unit_names(str(dim), data.attrs)[0]}"
        return f"{said}. Nothing is compared: there is {alone}."
    n_pairs = {one.attrs.get("family_size", n_models * (n_models - 1) // 2) for one in columns.values()}
    is_alone, family = n_pairs == {1}, count(n_pairs.pop(), "pair") if len(n_pairs) == 1 else "pairs"
    of = f"the {family} of {'all groups' if 'by' in facts else 'each measure'}"
    is_adjusted = facts["adjust"] not in (None, "none") and not is_alone
    adjusted = f", {in_words(facts['adjust'])} adjusted for {of}" if is_adjusted else ""
    tested = f"{percent(1 - facts['level'])} level, {in_words(facts['method'])}{adjusted}"
    apart = {name: str(one.attrs.get("gaps", "")) for name, one in columns.items()}
    gaps = of_groups(apart, "gaps") if len({*apart.values()}) > 1 else apart.popitem()[1]
    gaps = gaps or "; ".join(designs.missing_items(data.attrs))
    without = f"no answer for {few(str(facts['groups_left_out']).split('; '))}" if "groups_left_out" in facts else ""
    drawn = f"models are compared by {designs.drawn_in_words(data.attrs)}" * (facts["over"] == "clusters")
    told = "".join(f" {sentence(one)}" for one in (drawn, gaps, without) if one)
    return f"{said}. Letters name the models that are significantly worse ({tested}).{told}"
