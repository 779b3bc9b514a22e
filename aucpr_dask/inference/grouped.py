"""Comparisons and ranks within groups of items: every group is asked as if it stood alone, and all are one family."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from aucpr_dask.errors import AlignmentError, InvalidInputError, bad_argument, did_you_mean, few, warn
from aucpr_dask.evaluation import groups
from aucpr_dask.evaluation.results import group_dims, groups_as_data_sets
from aucpr_dask.inference import covarying, designs, paired_samples, requirements, samples, sentences
from aucpr_dask.inference.pairs import benjamini_hochberg, holm
from aucpr_dask.progress import reporting_if
from aucpr_dask.schema import checks, options, terms
from aucpr_dask.scores.long_form import to_tree
from aucpr_dask.scores.validate import validated_scores

ADJUSTED: dict[str, Callable[[Any], Any]] = {"holm": holm, "benjamini_hochberg": benjamini_hochberg, "none": np.copy}
WITH_ROLES = (terms.MODEL, terms.QUERY, terms.CLASS, terms.REPEAT, terms.FOLD, terms.ITEM, *requirements.KINDS)
OF_ANSWERS = ("other_model", "baseline")
OF_ALL_GROUPS = ("level", "versions", "adjust", "family_size", "summary")  # facts that concern them together
Ask = Callable[[xr.DataTree, float], Any]  # about one group; the level at which intervals of all hold together
Reply = Callable[["Parts", list[Any], str], Any]  # to the answers about all groups of the data set of a path


@dataclass(frozen=True)
class Parts:
    """The data of every group, in the order of their labels."""

    indexes: Mapping[str, pd.Index]
    names: Sequence[tuple[str, ...]]
    data: Sequence[xr.Dataset | xr.DataTree | None]  # a tree of data sets, if these vary; None: no items
    n_kept: int = 0  # of these names, labels of other dimensions of the scores come first: they share all resamples

    @property
    def in_words(self) -> list[str]:
        """What sentences call the groups."""
        return [
            terms.group_in_words(dict(zip(self.indexes, one, strict=True))) for one in product(*self.indexes.values())
        ]

    def tree(self, place: int, path: str) -> xr.DataTree | None:
        """Return one group as a tree of that name, whose path is that by which it is resampled."""
        part = self.data[place]
        if isinstance(part, xr.DataTree):
            return part
        name, drawn_by = self.name(place, path).replace("/", "|"), self._drawn_by(place, path) or "/"
        return None if part is None else xr.DataTree.from_dict({drawn_by: part}, name=name)

    def named(self, error: InvalidInputError, place: int, path: str) -> InvalidInputError:
        """Return an error that names the group, and its data set."""
        error = error.without_part("data set", repr(self._drawn_by(place, path)))
        error = error.with_part("data set", repr(path)) if path else error
        of_group = (f"{dim} {name!r}" for dim, name in zip(self.indexes, self.names[place], strict=True))
        return error.with_part("group", ", ".join(of_group))

    def name(self, place: int, path: str) -> str:
        """Return the name of one group of a data set, a part of a path."""
        return terms.name_of_group(self.names[place], path, as_node=True)

    def _drawn_by(self, place: int, path: str) -> str:
        return terms.name_of_group(self.names[place][self.n_kept :], path, as_node=True)


def has_groups(data: Any, by: Any, varying: Sequence[str] = ()) -> bool:
    """Whether a question is about each group: it says so, or its data have groups, or dimensions that do not vary."""
    is_known = isinstance(data, xr.Dataset | xr.DataTree)
    return by is not None or (is_known and any(dims_of_family(node, varying) for _, node in terms.nodes_of(data)))


def dims_of_family(node: xr.Dataset, varying: Sequence[str]) -> list[str]:
    """Return the dimensions each of whose labels has an answer of its own: groups, and those without another role."""
    found = next((node[name] for name in ("estimate", "score") if name in node), None)
    if found is None:
        return []
    first = group_dims(node) if "estimate" in node else []
    others = [str(dim) for dim in found.dims if dim not in (*WITH_ROLES, *first)]
    return [dim for dim in (*others, *first) if dim not in (terms.FOLD, *varying)]


def with_kept_as_groups(result: terms.Scores) -> terms.Scores:
    """Return a result whose dimensions without another role are named as its groups, which is how they are shown."""
    nodes = dict(terms.nodes_of(result))
    families = {path: dims_of_family(node, ()) for path, node in nodes.items()}
    named = {path: dims for path, dims in families.items() if len(dims) > len(group_dims(nodes[path]))}
    if not named:  # to make a tree of thousands takes seconds
        return result
    nodes |= {path: nodes[path].assign_attrs(by=", ".join(dims)) for path, dims in named.items()}
    return terms.gathered(result, nodes)


def parts_of(node: xr.Dataset, by: Any, path: str, varying: Sequence[str] = ()) -> Parts:
    """Return the data of every group of scores, or of a result by groups, and for each label of other dimensions."""
    dims = dims_of_family(node, varying)
    is_result, (of_queries, rest) = "estimate" in node, groups.along_queries(node, by)
    if is_result and by is not None:
        groups.refuse_no_groups(by)
        if rest is not None and (not dims or list(np.atleast_1d(np.array(rest, object))) != dims):
            what = "this result is evaluated already, and has no such groups"
            known = dims + groups.named_along_queries(node)
            remedy = did_you_mean(str(rest), known, "pass the scores, or leave out by")
            raise bad_argument(what, "by", by, few(map(repr, known)) or "none: it has no groups", remedy)
    indexes: dict[str, pd.Index] = {dim: node.get_index(dim) for dim in dims}
    cuts: list[tuple[str, Iterable[Any]]] = [(dim, range(len(index))) for dim, index in indexes.items()]
    if of_queries:
        found = groups.groups_of_queries(node, of_queries, path)
        cuts, indexes = [*cuts, (terms.QUERY, found.places)], indexes | dict(found.indexes)
    if rest is not None and not is_result:
        labelled, named = groups.with_labels(node, rest)
        found = groups.groups_of(labelled.to_dataset() if isinstance(labelled, xr.DataTree) else labelled, named, path)
        cuts, indexes = [*cuts, (terms.ITEM, found.places)], indexes | dict(found.indexes)
    data: list[xr.Dataset | None] = [node]
    for dim, places in cuts:
        parts = ((one, at if np.size(at) else None) for one in data for at in places)
        data = [None if one is None or at is None else one.isel({dim: at}, drop=True) for one, at in parts]
    if is_result:
        data = [part if part is None or has_items(part) else None for part in data]
    names = [tuple(map(str, labels)) for labels in product(*indexes.values())]
    return Parts(indexes, names, data, len(dims) - len(group_dims(node) if is_result else []))


def has_items(result: xr.Dataset) -> bool:
    """Return whether the counts of a result, where they are known, show an item: bins may be empty."""
    known = result.variables
    counts = [known[name] for name in ("n_positive", "n_negative", "n_missing") if name in known]
    return not counts or any(one.chunks is not None or bool((one.values > 0).any()) for one in counts)


def tree_of_groups(data: terms.Scores, by: Any, path: str = "") -> xr.DataTree:
    """Return a tree of the data of each group."""
    nodes: dict[str, xr.Dataset] = {}
    for own, node in terms.nodes_of(data):
        where = own or path
        parts = parts_of(node, by, where)
        names = (parts.name(place, where) for place in range(len(parts.names)))
        nodes |= {name: part for name, part in zip(names, parts.data, strict=True) if isinstance(part, xr.Dataset)}
    return xr.DataTree.from_dict(nodes)


def parts_of_machine(data: terms.Scores | None, by: Any) -> Callable[[xr.DataTree], xr.DataTree | None]:
    """Return what finds for a group the part of it that a machine labelled; None if no machine did."""
    known: dict[str | None, xr.DataTree] = {}
    for path, node in () if data is None else terms.nodes_of(data):
        parts = parts_of(node, by, path)
        trees = (parts.tree(place, path) for place in range(len(parts.names)))
        known |= {tree.name: tree for tree in trees if tree is not None}

    def part_of(tree: xr.DataTree) -> xr.DataTree | None:
        if data is None:
            return None
        if tree.name not in known:
            what, where = "the machine labelled nothing of this group", "argument 'auxiliary'"
            raise InvalidInputError(what, where, few(map(repr, known)), "every group", "label them, or select groups")
        return known[tree.name]

    return part_of


def parts_of_tree(tree: xr.DataTree, by: Any, varying: Sequence[str]) -> Parts:
    """Return every group of any data set as a tree of the data sets that have it."""
    parts = {path: parts_of(node, by, path, varying) for path, node in terms.nodes_of(tree)}
    indexes: dict[str, pd.Index] = {}
    for one in parts.values():
        for dim, index in one.indexes.items():
            known = indexes.get(dim, index)
            indexes[dim] = known if known.equals(index) else known.append(index).unique()
    if any({*one.indexes} != {*indexes} for one in parts.values()):
        what, remedy = "these data sets have different dimensions", "select data sets that have the same ones"
        received = few([f"{', '.join(one.indexes) or 'none'} in {path!r}" for path, one in parts.items()])
        raise AlignmentError(what, "argument 'data'", received, "the same dimensions in all", remedy)
    found: dict[tuple[str, ...], dict[str, xr.Dataset]] = {
        tuple(map(str, names)): {} for names in product(*indexes.values())
    }
    for path, one in parts.items():
        for name, part in zip(one.names, one.data, strict=True):
            if isinstance(part, xr.Dataset):
                found[name][path] = part
    return Parts(indexes, list(found), [xr.DataTree.from_dict(nodes) if nodes else None for nodes in found.values()])


def refuse_names_of_answers(names: Iterable[str], path: str) -> None:
    """Raise if groups have a name that answers give to something of their own."""
    taken = [name for name in names if name in (*OF_ANSWERS, *paired_samples.DESCRIPTIONS)]
    if taken:  # `level`, maybe a pressure, gives way
        what = f"the answer has something else of the name {taken[0]!r}"
        where, received = f"data set {path!r}" if path else "the data set", f"a dimension or groups {taken[0]!r}"
        remedy = f"rename({taken[0]}='another')"
        raise InvalidInputError(what, where, received, "a name that no variable of answers has", remedy)


def ask_each(data: terms.Scores, by: Any, ask: Ask, question: options.SampleOptions, reply: Reply) -> dict[str, Any]:
    """Ask about each group of each data set, and return what `reply` makes of the answers, by data set.

    Intervals of all groups hold together. An answer may be the error of a group that cannot be asked about.
    """
    if requirements.are_scores(data, {}):
        data = validated_scores(data, positive_from=0)
    if samples.DATASET in question.dims and isinstance(data, xr.DataTree):
        each = {"": parts_of_tree(data, by, question.dims)}
    else:
        each = {path: parts_of(node, by, path, question.dims) for path, node in terms.nodes_of(data)}
    found = {}
    for path, parts in each.items():
        refuse_names_of_answers(parts.indexes, path)
        answers: list[Any] = []
        with warnings.catch_warnings(record=True) as caught, reporting_if(None) as report:
            warnings.simplefilter("always")
            joint = 1 - (1 - question.level) / max(1, sum(part is not None for part in parts.data))
            for place in range(len(parts.names)):
                if report is not None:
                    report("groups", place, len(parts.names))
                tree = parts.tree(place, path)
                try:
                    answers.append(InvalidInputError("no items") if tree is None else ask(tree, joint))
                except InvalidInputError as error:
                    answers.append(parts.named(error, place, path))
                    if type(error) is not InvalidInputError:  # missing scores concern the whole question
                        raise answers[-1] from error
        kinds: dict[type[Warning], set[str]] = {}
        for warning in caught:
            kinds.setdefault(warning.category, set()).add(str(warning.message))
        for kind, messages in kinds.items():  # each once
            n_more = len(messages) - 1
            others = "1 other warning" if n_more == 1 else f"{n_more} other warnings"
            more = f" (and {others} like this, of {len(answers)} groups)" if n_more else ""
            warn(f"{min(messages)}{more}", kind)
        errors = [one for one in answers if isinstance(one, InvalidInputError)]
        if len(errors) == len(answers):
            raise errors[0]
        found[path] = reply(parts, answers, path)
    return found


def with_data_sets(tree: xr.DataTree, question: options.SampleOptions) -> Any:
    """Return a group as a tree of its data sets, if these are to vary."""
    nodes = list(terms.nodes_of(tree))
    if question.dim != samples.DATASET or len(nodes) != 1:
        return tree
    ((_, node),) = nodes
    return to_tree(node) if samples.along_items(node, question.dims) else groups_as_data_sets(node)


def answered_by_groups(data: terms.Scores, by: Any, ask: Ask, question: options.SampleOptions) -> terms.Scores:
    """Ask about each group of each data set, and lay out the answers, data sets of one node, over the groups.

    Adjusted p-values and joint intervals of comparisons hold for all groups.
    """
    adjust = "none"
    if isinstance(question, options.ComparisonOptions):
        asked_for = "holm" if question.adjust is None else question.adjust
        adjust = checks.choose(designs.BY_P_VALUE, asked_for, "adjust, of groups")

    def asked(tree: xr.DataTree, joint: float) -> xr.Dataset:
        ((_, found),) = terms.nodes_of(ask(with_data_sets(tree, question), joint))
        return found

    def combined(parts: Parts, answers: list[Any], path: str) -> xr.Dataset:
        return _combined(parts, answers, adjust, question.level)

    found = ask_each(data, by, asked, question, combined)
    is_one = samples.DATASET in question.dims and set(found) == {""}
    return found[""] if is_one else sentences.with_families(terms.gathered(data, found))


def _combined(parts: Parts, answers: list[Any], adjust: str, level: float) -> xr.Dataset:
    """Lay out the answers of all groups, with NaN for those that have none."""
    sizes = {name: len(index) for name, index in parts.indexes.items()}
    known = [one for one in answers if not isinstance(one, InvalidInputError)]
    models = pd.Index(dict.fromkeys(model for one in known for model in one.get_index(terms.MODEL)))
    first, unknown = known[0], known[0].where(False)
    alike = {dim: models for dim in (terms.MODEL, covarying.OTHER_MODEL) if dim in first.dims}
    laid = [unknown if isinstance(one, InvalidInputError) else one for one in answers]
    aligned = [one.reindex(alike).drop_vars([name for name in sizes if name in one.coords]) for one in laid]
    listed = xr.concat(
        aligned, terms.GROUPS, data_vars="all", coords="minimal", compat="override", combine_attrs="override"
    )
    places = xr.DataArray(np.arange(len(answers)).reshape(*sizes.values()), dims=list(sizes))
    result = listed.isel({terms.GROUPS: places}).transpose(
        ..., *sizes, *(dim for dim in (terms.BOUND,) if dim in listed.dims)
    )
    result = result.map(lambda one: one.astype(np.int64 if one.dtype.kind == "i" else np.float64), keep_attrs=True)
    result = result.assign_coords(xr.Coordinates({name: (name, index) for name, index in parts.indexes.items()}))
    result = terms.with_plain_names(result.assign(_facts_of_groups(answers, sizes)))
    own = {*result.data_vars, "design", sentences.SUMMARY}
    result.attrs = {name: value for name, value in first.attrs.items() if name not in own}
    result.attrs |= {"by": ", ".join(sizes), "level": level}
    if "family_size" in result.attrs:
        result.attrs["family_size"] = sum(int(one.attrs["family_size"]) for one in known)
    without = {
        name: str(one).splitlines()[0]
        for name, one in zip(parts.in_words, answers, strict=True)
        if isinstance(one, InvalidInputError)
    }
    n_groups = f"{len(known):,} groups" if not without else f"{len(known):,} of {len(answers):,} groups"
    about = f"{n_groups} by {', '.join(sizes)}"
    if without:
        result.attrs["groups_left_out"] = "; ".join(without)
        reasons = few([f"{name!r} ({reason})" for name, reason in without.items()])
        about += f" (no answer for {reasons})"
    designs = dict.fromkeys(str(one.attrs["design"]).removesuffix(f"; {one.attrs.get('gaps')}") for one in known)
    shared = next(iter(designs)) if len(designs) == 1 else "each by its own design"
    result.attrs["design"] = f"{shared}; each of {about} alone"
    if "p_value" in result and "difference" in result:
        result = _adjusted(result, adjust)
        of_all = result
        if "gaps" in result:  # which differ between groups
            gaps = zip(parts.in_words, result["gaps"].values.flat, strict=True)
            of_all = result.drop_vars("gaps").assign_attrs(gaps=sentences.of_groups(dict(gaps), "gaps"))
        result.attrs[sentences.SUMMARY] = sentences.of_comparison(of_all, f" in {about}")
    said = ["" if isinstance(one, InvalidInputError) else str(one.attrs.get(sentences.SUMMARY, "")) for one in answers]
    for place, at in enumerate(np.ndindex(*sizes.values())):
        if said[place]:
            said[place] = sentences.summary_of(result.isel(dict(zip(sizes, at, strict=True)))) or said[place]
    if sentences.SUMMARY not in result.attrs and any(said):
        of_each = dict(zip(parts.in_words, said, strict=True))
        result.attrs[sentences.SUMMARY] = sentences.of_groups(of_each, "another answer")
    return result.assign({sentences.SUMMARY: (tuple(sizes), np.array(said, object).reshape(*sizes.values()))})


def _facts_of_groups(answers: list[Any], sizes: Mapping[str, int]) -> dict[str, xr.Variable]:
    """Return the attributes of the answers that differ between groups, and their designs, as variables over these."""
    attrs = [{} if isinstance(one, InvalidInputError) else one.attrs for one in answers]
    known = [one for one in attrs if one]
    names = dict.fromkeys(name for one in known for name in one if name not in OF_ALL_GROUPS)
    found = {}
    for name in names:
        values = [one.get(name) for one in attrs]
        if name != "design" and all(_as_text(one.get(name)) == _as_text(known[0].get(name)) for one in known):
            continue
        are_numbers = all(isinstance(value, int | float | np.number) for value in values if value is not None)
        shown = [np.nan if value is None else value for value in values] if are_numbers else map(_as_text, values)
        flat = np.array(list(shown), None if are_numbers else object)
        found[str(name)] = xr.Variable(tuple(sizes), flat.reshape(*sizes.values()))
    return found


def _as_text(value: Any) -> str:
    """Return an attribute as text; of a list, its parts."""
    if value is None:
        return ""
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _adjusted(result: xr.Dataset, adjust: str) -> xr.Dataset:
    """Adjust the p-values of all pairs of all groups together."""
    dims, asked = sentences.asked_pairs(result)
    adjusted = result["p_value"].transpose(*dims).values.copy()
    adjusted[asked] = ADJUSTED[adjust](adjusted[asked])
    other = dims[1] if dims[1:2] and dims[1] in OF_ANSWERS else None
    if other is not None:  # two models that are both among the others are asked about once
        rows = result.get_index(terms.MODEL).get_indexer(result[other].values)
        adjusted[rows] = np.where(asked[rows], adjusted[rows], np.swapaxes(adjusted[rows], 0, 1))
    laid = xr.Variable(dims, adjusted, result["p_adjusted"].attrs)
    result = result.assign(p_adjusted=laid.transpose(*result["p_value"].dims))
    result.attrs |= {"adjust": adjust, "family_size": int(asked.sum())}
    return result
