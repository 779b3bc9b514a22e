"""``aucpr-dask export``: a store to files that other programs read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli.common import Output, example, output_option

if TYPE_CHECKING:
    from aucpr_dask.storage.stores import Scores

# Written out, so that help starts without what writes them.
FORMATS = ("parquet", "csv", "json", "mlflow", "trec_eval", "trec_run")


@click.command(
    short_help="Write a store as tables or TREC files for other programs.",
    epilog=example("aucpr-dask export aucpr-demo/result.zarr areas.csv"),
)
@click.argument("store")
@click.argument("path", type=click.Path())
@click.option(
    "--format",
    "format",
    type=click.Choice(FORMATS),
    help="mlflow: metrics and params as JSON; trec_eval: a file for each model; trec_run: runs and qrels of a score "
    "store [default: by the suffix of PATH].",
)
@click.option("--wide", is_flag=True, help="Of tables: a column for each model [default: a row for each estimate].")
@click.option("--per-query", is_flag=True, help="Of mlflow: every query [default: their means].")
@click.option("--data-set", "data_sets", multiple=True, metavar="NAME", help="Only this data set (repeat).")
@click.option("--overwrite", is_flag=True, help="Replace a file, or folder of an export, that is there already.")
@output_option
def export(output: Output, store: str, path: str, data_sets: tuple[str, ...], wide: bool, **options: Any) -> None:
    """Write the result store STORE to PATH: a table (.parquet, .csv or .json), or what --format names.

    A table has one row per data set, model, query and estimator, with both bounds of every interval.
    """
    from aucpr_dask.cli.comparison import selected
    from aucpr_dask.interplay.exporting import export as write

    data = _opened(store)
    write(selected(data, data_sets) if data_sets else data, path, tidy=not wide, **options)
    output.show(f"{path}: {output.seconds:.1f} s", fold=False)
    output.data({"store": store, "path": path, "seconds": output.seconds})


def _opened(store: str) -> Scores:
    from aucpr_dask.evaluation.results import open_result
    from aucpr_dask.scores import open_scores
    from aucpr_dask.scores.store import KIND
    from aucpr_dask.storage.stores import read_root_attrs

    return open_scores(store) if read_root_attrs(store).get("kind") == KIND else open_result(store)
