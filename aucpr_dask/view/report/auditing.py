"""Audits of leaderboards for people: at a prompt, in a notebook, as one page without scripts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from aucpr_dask.errors import ColumnWarning, InvalidInputError, as_called, few, for_caller, printable, warn
from aucpr_dask.inference import auditing, designs, samples
from aucpr_dask.inference.families import LEAST_UNITS
from aucpr_dask.inference.sentences import sentence, smallest_shown
from aucpr_dask.interplay.exporting import free_file
from aucpr_dask.interplay.recognising import predictions_in
from aucpr_dask.interplay.value_tables import MODELS, tables_of, usual
from aucpr_dask.interplay.values import from_values
from aucpr_dask.schema import checks, choices, terms
from aucpr_dask.schema.options import ComparisonOptions
from aucpr_dask.schema.terms import BOUND, MODEL, QUERY, UNIT, count, in_words, percent, rounded_percent
from aucpr_dask.scores.importing.files import unknown_column
from aucpr_dask.view.report import pages
from aucpr_dask.view.reprs import plain_text
from aucpr_dask.view.tables import Column, Sheet, more

METHODS = ("sign_flip", "bootstrap_t", "bootstrap")
TOP = 15  # models at a prompt
MOST_SHOWN = 50  # rows of a table on the page; the others are folded away
PICTURE = (640, 260)  # of all ranks
MOST_DECISIVE = 5


@dataclass(frozen=True, repr=False)
class Audit:
    """The findings of an audit; :func:`audit` makes it.

    ``findings`` is a Dataset over the models, best first, and over the tasks as ``query``. ``verdict`` has them in
    sentences, each with a heading.
    """

    findings: xr.Dataset

    @property
    def verdict(self) -> list[tuple[str, str]]:
        """Headings and sentences, the plainest first."""
        findings = self.findings
        one, many = designs.unit_names(QUERY, findings.attrs)
        said = [
            ("Neighbours", _neighbours(findings)),
            ("First place", _first_place(findings)),
            ("Resolution", _resolution(findings)),
            *([(f"A new {one}", _new_unit(findings, one, many))] if has_expected_ranks(findings) else []),
            (f"{many.capitalize()} that decide", _deciding(findings, one, many)),
            ("Stability", _stability(findings, one)),
        ]
        if twins := list(findings.attrs["twins"]):
            differ = f"{count(len(twins), 'pair')} of models {'differs' if len(twins) == 1 else 'differ'}"
            why = f"on fewer than {LEAST_UNITS} {many}, too few to tell which is better"
            said.append(("Twins", f"{differ} {why}: {few(list(map(printable, twins)))}."))
        if findings.attrs["n_empty"]:
            said.append(("Empty cells", _empty_cells(findings, many)))
        return [*said, ("Columns", _columns(findings, many))]

    def save(self, path: str | Path, *, title: str = "Leaderboard audit", overwrite: bool = False) -> Path:
        """Write the audit as one page that needs no network and no scripts.

        Parameters
        ----------
        path : str or Path
            The page to write.
        title : str
            Its heading.
        overwrite : bool
            Whether to replace a file at `path`.

        Returns
        -------
        Path
            The page.
        """
        target = free_file(path, overwrite=overwrite)
        return pages.write_page(_render(self, checks.text(title, "title")), target)

    def __repr__(self) -> str:
        return plain_text(audit_view(self))

    def _repr_html_(self) -> str:
        said = "".join(f"<li><strong>{escape(heading)}.</strong> {escape(text)}</li>" for heading, text in self.verdict)
        return f"<ul>{said}</ul>{models_sheet(self.findings, TOP).as_html(headline(self.findings))}"


@choices.names_meant
def audit(
    data: Any,
    path: str | Path | None = None,
    *,
    model: str | None = None,
    query: str | None = None,
    value: str | None = None,
    unit_name: str | None = None,
    exclude: str | Sequence[str] = (),
    include: str | Sequence[str] = (),
    lower_is_better: bool | str | Sequence[str] | None = None,
    estimator: str | None = None,
    over: str | None = None,
    method: str | None = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    incomplete: str | None = None,
    title: str = "Leaderboard audit",
    overwrite: bool = False,
) -> Audit:
    """Audit a leaderboard: which places are more than chance, which tasks decide.

    A leaderboard sorts models by their mean over tasks. The audit takes the tasks as a sample of tasks like them, and
    finds the ranks that each model may have, groups that cannot be told apart, how many neighbours differ, the
    smallest difference that this many tasks can show, the rank to expect on a new task, and how much each task affects
    the order. Empty cells are never filled in: models or tasks with gaps are left out, and named.

    Parameters
    ----------
    data : data frame, str, Path, xarray.Dataset or xarray.DataTree
        A value of any measure of each model on each task: a table or its file, as :func:`from_values` takes it,
        usually with a column ``Model`` and a column for each task; what that returns, or a result of :func:`evaluate`;
        or a tree of results with ``over="dataset"``. Means, ranks, sizes and text are not tasks; the audit lists them.
    path : str or Path, optional
        Also write the audit as a page, as :meth:`Audit.save` does.
    model, query, value, include, lower_is_better
        Of a table, see :func:`from_values`; a first column of text without a name holds its models.
    unit_name : str, optional
        What one column of a table is: a topic, an instance; by default a task, or what the values or the result say.
    exclude : str or sequence of str
        Other tasks, or columns of a table, to leave out.
    estimator : str, optional
        Which estimator of the result to audit; the first by default.
    over : {"query", "dataset"}, optional
        Whether the tasks are the queries of one data set, or the data sets of a tree; by default the queries, in
        clusters if they have some.
    method : {"sign_flip", "bootstrap_t", "bootstrap"}, optional
        As in :func:`rank`, ``"sign_flip"`` by default. From 20 tasks on, ``"bootstrap_t"`` keeps its level for skewed
        differences, too.
    level : float
        Confidence level of rank sets, and 1 minus the level of the tests.
    n_resamples : int, optional
        Resamples; by default 10,000, or fewer if models are many (from 101 on with ``"bootstrap_t"``, from 633 on with
        others), 1,000 at least.
    seed : int
        Seed of the random numbers.
    incomplete : {"drop_models", "drop", "raise"}, optional
        Leave out models that lack a task, or tasks that a model lacks, or raise an error that names them. By default
        whichever of the first two keeps more cells of the table; the audit says what the other would give.
    title : str
        The heading of the page.
    overwrite : bool
        Whether to replace a file at `path`.

    Returns
    -------
    Audit
        ``findings``, a Dataset, and ``verdict``, sentences; prints as a table.

    Raises
    ------
    InvalidInputError, AlignmentError
        If the values are not a table of models and tasks, or too little of it is left without gaps.

    References
    ----------
    Mogstad, Romano, Shaikh & Wilhelm 2024, doi:10.1093/restud/rdad006 (rank sets). Romano & Wolf 2005,
    doi:10.1198/016214504000000539 (step-down).

    Examples
    --------
    >>> import numpy as np, xarray as xr, aucpr_dask as ap
    >>> hard = np.linspace(40, 80, 12)
    >>> wave = 3 * np.sin(np.arange(12.0))
    >>> values = xr.Dataset(
    ...     {"estimate": (("model", "query"), [hard, hard + 20 + wave, hard + 20.1 - wave])},
    ...     coords={"model": ["small", "base", "large"], "query": [f"task {i}" for i in range(12)]},
    ...     attrs={"unit": "task"},
    ... )
    >>> made = ap.audit(values)
    >>> dict(made.verdict)["First place"]
    'base leads with 80.10, and 2 models may be first.'
    >>> made.findings["simultaneous_rank_interval"].values.tolist()
    [[1, 2], [1, 2], [3, 3]]
    """
    if method is not None:
        checks.choose(METHODS, method, "method")
    asked = {name: one for name, one in locals().items() if name != "incomplete" or one is not None}
    question = ComparisonOptions.among(asked)
    if over is not None:
        checks.choose((QUERY, samples.DATASET), over, "over")
    if path is not None:
        free_file(path, overwrite=overwrite)
    of_table = {"model": model, "query": query, "value": value, "include": include, "lower_is_better": lower_is_better}
    table = _values_of(data, of_table, unit_name, checks.names_of(exclude, "exclude"))
    made = Audit(auditing.audit_findings(table, question, incomplete))
    if path is not None:
        made.save(path, title=title, overwrite=overwrite)
    return made


def _values_of(data: Any, of_table: dict[str, Any], unit_name: str | None, exclude: tuple[str, ...]) -> Any:
    """Return a table as values of tasks, without what is no task."""
    if isinstance(data, xr.DataTree | xr.Dataset):
        is_tree = isinstance(data, xr.DataTree)
        for_tables = of_table | ({"unit_name": unit_name, "exclude": exclude} if is_tree else {})
        absent = {name for name, value in for_tables.items() if value is None or (type(value) is tuple and not value)}
        for name in sorted(for_tables.keys() - absent):
            what, where = f"{name} is an option for tables", f"option {name!r}"
            raise InvalidInputError(what, where, f"a {type(data).__name__}", "a table", "leave it out")
        if is_tree:
            return data
        unit = {} if unit_name is None else {UNIT: checks.text(unit_name, "unit_name")}
        return _without(data.assign_attrs(unit), exclude)
    if not any(of_table[name] for name in ("model", "query", "value", "include")) and (found := predictions_in(data)):
        what, allowed = "an audit takes values of models on tasks, and this table has scores", "a table of values"
        (label,) = next(one.columns for one in found.roles if one.role == "label")
        words = dict(found.commands).get("which ranks each may have", ("rank", found.path, "--label", label))
        in_python, at_prompt = f"ap.rank(ap.from_dataframe(frame, label={label!r}))", f"aucpr-dask {shlex.join(words)}"
        raise InvalidInputError(what, found.path, found.kind, allowed, for_caller(in_python, at_prompt))
    (first, *_) = tables = tables_of(data, None)
    column, *_ = (*first.columns, "no name")
    is_bare = (column == "" or column.startswith("Unnamed: ")) and not {*map(usual, first.columns)} & {*MODELS}
    if of_table["model"] is None and is_bare and first.is_text(column):
        of_table |= {"model": column}
        some = few([repr(str(name)) for name in first.frame.iloc[:, 0]], 3)
        remedy = "call the column 'model', or 'task' if its rows are tasks"
        text = f"the first column has no name: its cells are taken for models ({some}), the other columns for tasks"
        warn(f"{text}; {remedy}", ColumnWarning)
    columns = [name for name in exclude if name in first.columns]
    table = from_values(tables, unit_name="task" if unit_name is None else unit_name, exclude=columns, **of_table)
    if table.sizes[MODEL] == 1:
        way = for_caller("ap.audit([one, another])", "`aucpr-dask import values`, and audit its store")
        what, remedy = "there is only one model", f"read the files of all models: {way}"
        raise InvalidInputError(what, first.name, repr(str(table[MODEL].values[0])), "two or more", remedy)
    return _without(table, [name for name in exclude if name not in columns])


def _without(table: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Return a table without the tasks of these names."""
    tasks = [str(name) for name in samples.labels_of(table["estimate"], QUERY)] if names else []
    for name in names:
        if not isinstance(name, str) or name not in tasks:
            raise unknown_column(name, tasks, "the tasks of the table")
    return table.isel({QUERY: [i for i, name in enumerate(tasks) if name not in names]}) if names else table


def audit_view(made: Audit, *, top: int | None = TOP) -> Group:
    """Show the verdict, and the first models with the ranks that they may have."""
    said = [Padding(Text.assemble((f"{heading}. ", "bold"), text), (0, 0, 0, 2)) for heading, text in made.verdict]
    title = Text(f"audit: {headline(made.findings)}", style="bold")
    return Group(title, *said, Text(""), models_sheet(made.findings, top))


def models_sheet(findings: xr.Dataset, top: int | None = None) -> Sheet:
    """Return the models with the ranks that they may have, best first."""
    shown = findings.isel({MODEL: slice(top)})
    of = {str(name): one.transpose(MODEL, ...).values for name, one in shown.data_vars.items() if MODEL in one.dims}
    alpha = 1 - findings.attrs["level"]
    p_values = ["" if np.isnan(p) else f"{p:.4f}{' *' if p <= alpha else ''}" for p in of["p_adjusted_from_next"]]
    one, _ = designs.unit_names(QUERY, findings.attrs)
    columns = [
        Column("", [f"{rank:g}" for rank in of["rank"]], right=True),
        Column("model", names_of(shown), name=True),
        Column("mean", [amount(value, findings) for value in of["estimate"]], right=True),
        Column("may be", list(map(span, of["simultaneous_rank_interval"]))),
        Column("p (next)", p_values),
        Column("groups", [span(ends) for ends in zip(of["first_group"], of["last_group"], strict=True)]),
    ]
    if has_expected_ranks(findings):
        columns.append(Column(f"new {one}", list(map(span, of["new_unit_rank_interval"]))))
    ends = of["simultaneous_rank_interval"].astype(float)
    bars = [(low, float(rank), high) for (low, high), rank in zip(ends, of["rank"], strict=True)]
    n_models = findings.sizes[MODEL]
    return Sheet(columns, bars, (1.0, float(n_models)), more(n_models - shown.sizes[MODEL], "model"))


# --- the verdict in sentences ------------------------------------------------------------------------------------


def names_of(findings: xr.Dataset, dim: str = MODEL) -> list[str]:
    """Return the names of the models or units."""
    return [printable(str(name)) for name in findings[dim].values]


def headline(findings: xr.Dataset) -> str:
    """Return the sizes of the table, the measure or the column of values, and which way is better."""
    said = [count(findings.sizes[MODEL], "model"), _units(findings.sizes[QUERY], findings)]
    return ", ".join(
        filter(None, [*said, printable(designs.named_values(findings.attrs)), designs.better(findings.attrs)])
    )


def _units(number: int, findings: xr.Dataset) -> str:
    return count(number, *designs.unit_names(QUERY, findings.attrs))


def amount(value: float, findings: xr.Dataset) -> str:
    """Return a value of the measure, or a difference of two: four decimals up to 1, else two."""
    return f"{value:,.{4 if np.abs(findings['estimate'].values).max() <= 1 else 2}f}"


def span(ends: Iterable[float]) -> str:
    """Return the lowest and the highest rank."""
    return " to ".join(dict.fromkeys(f"{end:,g}" for end in ends))


def _columns(findings: xr.Dataset, many: str) -> str:
    """Return what was taken as the tasks, and what was not."""
    said = f"Taken as {many}: {few(sorted(names_of(findings, QUERY)), 8)}."
    for attribute, what in {
        terms.OTHER_MEASURES: f"Other measures, which {as_called('estimator=')} audits",
        "columns_left_out": "Not taken",
        "negated": "Negated, because less is better",
        terms.SCALED: "Percents, read as fractions",
    }.items():
        if names := list(findings.attrs.get(attribute, ())):
            said += f" {what}: {few(list(map(printable, names)), 8)}."
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


def _new_unit(findings: xr.Dataset, one: str, many: str) -> str:
    ranks, expected = findings["rank_of_leader"].values, span(findings["new_unit_rank_interval"].values[0])
    leader, n_top = names_of(findings)[0], min(auditing.TOP, findings.sizes[MODEL])
    return (
        f"On {rounded_percent(auditing.EXPECTED)} of new {many} like these, expect {leader} at rank {expected}. "
        f"Check by leaving out each {one} in turn: the leader of the others had the median rank {np.median(ranks):g} "
        f"on it ({span((ranks.min(), ranks.max()))}), and the first {n_top} had a rank as "
        f"expected in {rounded_percent(findings.attrs['expected_coverage'])} of the cases."
    )


def _deciding(findings: xr.Dataset, one: str, many: str) -> str:
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


def _stability(findings: xr.Dataset, one: str) -> str:
    if findings["share_of_spread"].isnull().all():
        return "The means of the models do not differ, so there is no order to change."
    n_top = min(auditing.TOP, findings.sizes[MODEL])
    return (
        f"Leaving out one {one} reverses {float(findings['swaps_without'].mean()):.1f} of the "
        f"{count(n_top * (n_top - 1) // 2, 'pair')} of the first {n_top} on average."
    )


def _empty_cells(findings: xr.Dataset, many: str) -> str:
    facts = findings.attrs
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


# --- the page ----------------------------------------------------------------------------------------------------


def _render(made: Audit, title: str) -> str:
    """Return the page; its style has dark colours where the system asks for them, as nothing here could switch."""
    findings = made.findings
    style = pages.asset("report.css")
    (dark,) = re.findall(r'^:root\[data-theme="dark"\] \{(.*?)\}', style, re.DOTALL | re.MULTILINE)
    (width, height), n_models = PICTURE, findings.sizes[MODEL]
    places, outlines = np.repeat(np.arange(n_models + 1), 2)[1:-1], []
    x = np.concatenate([places, places[::-1]]) * width / n_models
    for name in ("simultaneous_rank_interval", "new_unit_rank_interval"):  # of all models: steps over their places
        best, worst = np.repeat(findings[name].transpose(BOUND, MODEL).values, 2, axis=1)
        y = np.concatenate([best - 1, worst[::-1]]) * height / n_models
        outlines.append(" ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b)))
    sets, expected = outlines
    one, many = designs.unit_names(QUERY, findings.attrs)
    tables = [("ranks", "Ranks", models_sheet(findings)), ("units", many.capitalize(), _units_sheet(findings))]
    if findings.sizes[auditing.MODEL_LEFT_OUT]:
        places = findings["place_on_shared"].values
        columns = [
            Column("model", names_of(findings, auditing.MODEL_LEFT_OUT), name=True),
            Column("lacks", [str(n) for n in findings["n_units_lacked"].values], right=True),
            Column("place", [f"{place:g}" for place in places], right=True),
        ]
        bars, scale = [(place, place, place) for place in places], (1.0, findings.sizes[MODEL] + 1.0)
        tables.append(("left-out", "Left out", Sheet(columns, bars, scale)))
    return pages.rendered(
        "audit.html",
        f"{style}@media screen and (prefers-color-scheme: dark) {{ :root {{{dark}}} }}\n{pages.asset('audit.css')}",
        title=printable(title),
        lead=headline(findings),
        one=one,
        many=many,
        verdict=made.verdict,
        facts=findings.attrs,
        picture={"width": width, "height": height, "sets": sets, "expected": expected, "last": n_models},
        tables=tables,
        most=MOST_SHOWN,
    )


def _units_sheet(findings: xr.Dataset) -> Sheet:
    """Return the units, those with the largest shares of the spread first."""
    shares = findings["share_of_spread"].values
    shown = findings.isel({QUERY: np.argsort(-shares, kind="stable")})
    shares = shown["share_of_spread"].values
    leader, *_ = names_of(findings)
    without = names_of(shown, "leader_without")
    columns = [
        Column(designs.unit_names(QUERY, findings.attrs)[0], names_of(shown, QUERY), name=True),
        Column("share", ["-" if np.isnan(share) else percent(share, ".1f") for share in shares], right=True),
        Column("leader without", ["" if name == leader else name for name in without]),
        Column("swaps", [str(n) for n in shown["swaps_without"].values], right=True),
        Column("leader's rank", [f"{rank:g}" for rank in shown["rank_of_leader"].values], right=True),
    ]
    bars = [(min(share, 0.0), share, max(share, 0.0)) for share in 100 * shares]
    scale = (100 * np.nanmin(shares, initial=0.0), 100 * np.nanmax(shares, initial=0.0))
    return Sheet(columns, bars, scale)
