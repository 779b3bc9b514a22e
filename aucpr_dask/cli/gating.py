"""``aucpr-dask gate`` and ``audit``: whether a candidate may replace a baseline, and which places are chance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import aucpr_dask as ap
from aucpr_dask.cli import common as cli
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import ComparisonOptions, TableOptions

if TYPE_CHECKING:
    from aucpr_dask.inference.gating import Gates

_table_options = cli.with_options(
    click.option("--label", default="label", show_default=True, metavar="COLUMN", help="Of a table: its labels."),
    click.option("--positive", metavar="VALUE", help="The label that means positive, if labels are not 1 and 0."),
    click.option("--item", metavar="COLUMN", help="Of a table: the names of the items, by which several are matched."),
    click.option("--query", metavar="COLUMN", help="Of one table: the queries, which are ranked separately."),
    click.option(
        "--score", default="score", show_default=True, metavar="COLUMN", help="Of several tables: the scores."
    ),
)


@cli.command(
    "aucpr-dask gate new.csv main.csv --item id --margin 0.01",
    short_help="Exit with 0 only if a candidate is not worse than a baseline.",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--candidate", "candidates", multiple=True, metavar="NAME", help="Judge this model (repeat).")
@click.option("--baseline", metavar="NAME", help="The model that it would replace.")
@click.option(
    "--margin", type=float, default=0.0, show_default=True, help="How much worse a candidate may be and still pass."
)
@cli.options_of(ComparisonOptions, "level", "estimator", "over", "sample")
@cli.method_option(
    "sign_flip bootstrap_t bootstrap t random_effects influence rank_swap",
    "Of units: sign_flip (default), bootstrap_t, bootstrap, t or random_effects (default over data sets whose "
    "variances are known); of items: influence (default, where the estimator or an option has influences), "
    "bootstrap or rank_swap.",
)
@cli.options_of(ComparisonOptions, "n_resamples", "seed", "incomplete")
@cli.by_option
@cli.data_sets_option
@_table_options
@cli.with_options(*cli.reading_options(), *cli.design_options())
@click.option("--markdown", is_flag=True, help="Print a table in Markdown, for the summary of a job.")
@cli.output_option
def gate(
    output: cli.Output,
    sources: tuple[str, ...],
    candidates: tuple[str, ...],
    baseline: str | None,
    data_sets: tuple[str, ...],
    markdown: bool,
    **options: Any,
) -> None:
    """Judge whether candidates are better, or not worse by more than a margin, than a baseline.

    SOURCE is a store of results or of scores, or a table (CSV, TSV, Parquet) with a column of scores for each model.
    Or give a table for each model, matched by --item: the last is the baseline, and models are named after their
    files.

    Exit codes: 0 all candidates passed, 1 some are worse, 2 the input is wrong, 3 there are too few data to tell.
    """
    from aucpr_dask.inference.gating import WORSE, Gates

    of_table = {name: options.pop(name) for name in ("label", "positive", "item", "query", "score")}
    of_table["by"] = options["by"] or ()
    data, candidates, baseline = _models(sources, candidates, baseline, data_sets, of_table)
    gates = ap.gate(data, candidates, baseline, **cli.given(options))
    if not isinstance(gates, Gates):
        raise TypeError("a list of candidates has a list of gates")
    output.show(*([_markdown(gates)] if markdown else str(gates).splitlines()), fold=False)
    output.data({"sources": sources, "passed": gates.passed, "verdict": gates.verdict, "gates": list(gates)})
    if not gates.passed:
        click.get_current_context().exit(cli.FAILED if gates.verdict == WORSE else cli.CANNOT_TELL)


def _markdown(gates: Gates) -> str:
    """Return a table with a row for each candidate, as summaries of jobs show it; no text in it is read as markup."""
    from aucpr_dask.view.tables import markdown_rows

    first = gates[0]
    level = f"{terms.percent(first.level)} interval"
    header = ["candidate", "verdict", terms.in_words(first.measure), first.baseline, "difference", level, "detectable"]
    rows = []
    for gate in gates:
        name = ": ".join(filter(None, [gate.group, gate.candidate]))
        row = [name, gate.verdict, *map("{:.4f}".format, gate.estimates)]
        row += [f"{gate.difference:+.4f}", "{:+.4f} to {:+.4f}".format(*gate.interval), f"{gate.detectable:.2g}"]
        rows.append(row)

    def escaped(text: str) -> str:
        return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))

    head, *lines = ([escaped(cell) for cell in row] for row in (header, *rows))
    passed = next((gate.caveat for gate in gates if gate.passed and gate.caveat), "")
    notes = f"Margin {first.margin:g}. Design: {first.design}." + f" A pass {passed}." * bool(passed)
    return "\n".join([*markdown_rows([head, ["---", *["---:"] * (len(head) - 1)], *lines]), "", escaped(notes)])


def _models(
    sources: tuple[str, ...],
    candidates: tuple[str, ...],
    baseline: str | None,
    data_sets: tuple[str, ...],
    of_table: dict[str, Any],
) -> tuple[terms.Scores, tuple[str, ...], str]:
    """Return the data, and the names of the candidates and of the baseline."""
    from aucpr_dask.scores.importing.tables import scores_of_files

    if len(sources) == 1 and not (candidates and baseline):
        where, remedy = "options '--candidate' and '--baseline'", "add --candidate NAME and --baseline NAME"
        raise InvalidInputError("name the models to compare", where, f"{sources[0]} alone", "names of models", remedy)
    if len(sources) == 1 and not Path(sources[0]).is_file():
        return cli.open_any(sources[0], data_sets), candidates, str(baseline)
    score = of_table.pop("score")
    models = [*candidates, str(baseline)] if len(sources) == 1 else score
    data = scores_of_files(sources, TableOptions.among({"models": models} | of_table))
    if len(sources) > 1:
        ((_, node),) = terms.nodes_of(data)
        names = [str(name) for name in node["model"].values]
        baseline = baseline or names[-1]
        candidates = candidates or tuple(name for name in names if name != baseline)
    return data, candidates, str(baseline)


@cli.command(
    "aucpr-dask audit leaderboard.csv --output audit.html",
    short_help="Audit a leaderboard: a table of models and tasks.",
    context_settings=cli.old_flags(unit="unit-name"),
)
@click.argument("table")
@click.option("--output", "page", type=click.Path(path_type=Path), metavar="FILE", help="Also write the page FILE.")
@cli.columns_of_values
@click.option("--unit-name", metavar="NOUN", help="What one column of the table is.  [default: task, or as stored]")
@cli.data_sets_option
@cli.option_of(ComparisonOptions, "estimator")
@cli.option_of(ComparisonOptions, "over", type=cli.Choice(["query", "dataset"]))
@cli.method_option("sign_flip bootstrap_t bootstrap", "By default sign_flip, as compare and rank.")
@cli.options_of(ComparisonOptions, "level", "n_resamples", "seed")
@cli.option_of(
    ComparisonOptions,
    "incomplete",
    default=None,
    help="What to leave out where cells are empty; by default whichever keeps more of the table.",
)
@click.option("--title", default="Leaderboard audit", show_default=True, help="Heading of the page.")
@click.option("--top", type=click.IntRange(min=1), default=15, show_default=True, help="Models to show.")
@cli.overwrite_option
@cli.output_option
def audit(
    output: cli.Output, table: str, page: Path | None, data_sets: tuple[str, ...], top: int, **options: Any
) -> None:
    """Say which places of the leaderboard TABLE are more than chance, and which tasks decide them.

    TABLE is a file (CSV, TSV, Parquet, JSON, Markdown or HTML) with a column of models and a column for each task, or a
    store of results. Means, ranks, sizes and text are not taken as tasks. Empty cells are never filled in.
    """
    from aucpr_dask.view.report.auditing import audit_view

    values = table if Path(table).is_file() else cli.open_any(table, data_sets)
    made = ap.audit(values, page, **options)
    output.show(audit_view(made, output.width, top=top))
    output.show(f"{output.seconds:.1f} s" + ("" if page is None else f"; written to {page}"), fold=False)
    names = ("estimate", "rank", "simultaneous_rank_interval", "p_adjusted_from_next", "new_unit_rank_interval")
    models = {str(name): made.findings[name].values for name in ("model", *names)}
    found = {"verdict": dict(made.verdict), "facts": made.findings.attrs, "models": models}
    output.data({"table": table, "page": page and str(page)} | found | {"seconds": output.seconds})
