"""``aucpr-dask audit``: which places of a leaderboard are more than chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aucpr_dask.cli.common import Output, open_any, output_option
from aucpr_dask.cli.options import Choice, data_sets_option, example, level_option, option_of, overwrite_option
from aucpr_dask.schema.options import ComparisonOptions


@click.command(
    short_help="Audit a leaderboard: a table of models and tasks.",
    epilog=example("aucpr-dask audit leaderboard.csv --output audit.html"),
)
@click.argument("table")
@click.option("--output", "page", type=click.Path(path_type=Path), metavar="FILE", help="Also write the page FILE.")
@click.option("--model", metavar="COLUMN", help="Of a table: its models.")
@click.option("--unit", metavar="NOUN", help="What one column of the table is.  [default: task, or as stored]")
@click.option("--exclude", multiple=True, metavar="NAME", help="Leave out this column of the table (repeat).")
@data_sets_option
@option_of(ComparisonOptions, "estimator", metavar="NAME")
@option_of(ComparisonOptions, "over", type=Choice(["query", "dataset"]))
@click.option(
    "--method",
    type=Choice(["sign_flip", "bootstrap_t", "bootstrap"]),
    help="By default bootstrap_t; sign_flip with fewer than 20 tasks.",
)
@level_option
@option_of(ComparisonOptions, "n_resamples", "--resamples", metavar="N")
@option_of(ComparisonOptions, "seed")
@option_of(
    ComparisonOptions,
    "incomplete",
    default=None,
    help="What to leave out where cells are empty; by default whichever keeps more of the table.",
)
@click.option("--title", default="Leaderboard audit", show_default=True, help="Heading of the page.")
@click.option("--top", type=click.IntRange(min=1), default=15, show_default=True, help="Models to show.")
@overwrite_option
@output_option
def audit(output: Output, table: str, page: Path | None, data_sets: tuple[str, ...], top: int, **options: Any) -> None:
    """Say which places of the leaderboard TABLE are more than chance, and which tasks decide them.

    TABLE is a CSV, TSV or Parquet file with a column of models and a column for each task, or a store of results.
    Columns of ranks or averages are not taken as tasks. Empty cells are never filled in.
    """
    from aucpr_dask.view.report import audit
    from aucpr_dask.view.report.auditing import audit_view

    values = table if Path(table).is_file() else open_any(table, data_sets)
    made = audit(values, page, **options)
    output.show(audit_view(made, output.width, top=top))
    output.show(f"{output.seconds:.1f} s" + ("" if page is None else f"; written to {page}"), fold=False)
    names = ("estimate", "rank", "simultaneous_rank_interval", "p_adjusted_from_next", "new_unit_rank_interval")
    models = {str(name): made.findings[name].values for name in ("model", *names)}
    output.data(
        {"table": table, "page": page and str(page), "verdict": dict(made.verdict), "facts": made.findings.attrs}
        | {"models": models, "seconds": output.seconds}
    )
