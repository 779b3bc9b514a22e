"""``aucpr-dask export``: a store to files that other programs read."""

from __future__ import annotations

from typing import Any

import click

from aucpr_dask.cli.common import Output, open_any, output_option
from aucpr_dask.cli.options import Choice, data_sets_option, example, overwrite_option

# Repeated here, so that --help does not import the writers.
FORMATS = ("parquet", "csv", "json", "latex", "markdown", "mlflow", "trec_eval", "trec_run")


@click.command(
    short_help="Write a store as tables or TREC files for other programs.",
    epilog=example("aucpr-dask export aucpr-demo/result.zarr areas.csv"),
)
@click.argument("store")
@click.argument("path", type=click.Path())
@click.option(
    "--format",
    "format",
    type=Choice(FORMATS),
    help="latex, markdown: tables for a paper; mlflow: metrics and params as JSON; trec_eval: a file for each model; "
    "trec_run: runs and qrels of a score store [default: from the suffix of PATH].",
)
@click.option("--wide", is_flag=True, help="For tables: a column for each model [default: a row for each estimate].")
@click.option("--baseline", metavar="NAME", help="For latex and markdown: mark models that differ from this one.")
@click.option("--per-query", is_flag=True, help="For mlflow: every query [default: their means].")
@data_sets_option
@overwrite_option
@output_option
def export(output: Output, store: str, path: str, data_sets: tuple[str, ...], wide: bool, **options: Any) -> None:
    """Write the store STORE to PATH: a table (.parquet, .csv or .json), or what --format names.

    A table for a paper (.tex or .md) shows the means of all models, with intervals. Any other
    table has one row per data set, model, query and estimator, with both bounds of every interval.
    """
    from aucpr_dask.interplay.exporting import export as write

    write(open_any(store, data_sets), path, tidy=not wide, **options)
    output.show(f"{path}: {output.seconds:.1f} s", fold=False)
    output.data({"store": store, "path": path, "seconds": output.seconds})
