"""``aucpr-dask report``: a result store to one page that needs no network."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import click

from aucpr_dask.cli.common import Output, output_option
from aucpr_dask.cli.options import data_sets_option, example, option_of, overwrite_option, with_options
from aucpr_dask.schema.options import ReportOptions


@click.command(
    short_help="Write a result store as one HTML page.",
    epilog=example("aucpr-dask report aucpr-demo/result.zarr report.html --overwrite"),
)
@click.argument("result")
@click.argument("page", type=click.Path(path_type=Path), required=False)
@click.option("--scores", metavar="STORE", help="The scores that were evaluated: adds curves of the best models.")
@data_sets_option
@with_options(*(option_of(ReportOptions, name) for name in ReportOptions.__dataclass_fields__))
@overwrite_option
@output_option
def report(
    output: Output, result: str, page: Path | None, scores: str | None, data_sets: tuple[str, ...], **options: Any
) -> None:
    """Write the result store RESULT as the HTML file PAGE, which opens in any browser without a network.

    By default PAGE is in this folder and named like the store: result.html for result.zarr.

    It holds leaderboards to sort, filter and search, the comparison of any two models, an explanation of the numbers
    and their provenance, and the tables as CSV. Models on data sets without queries can be compared if the result
    keeps its replicates (evaluate --keep-replicates).
    """
    from aucpr_dask.evaluation.results import open_result
    from aucpr_dask.schema.trees import select_data_sets
    from aucpr_dask.scores.store import open_scores
    from aucpr_dask.view.report import report

    page = Path(PurePosixPath(result).stem + ".html") if page is None else page
    evaluated = select_data_sets(open_result(result), data_sets)
    written = report(evaluated, page, scores=None if scores is None else open_scores(scores), **options)
    size = written.stat().st_size
    output.show(f"{written}: {size / 1e6:.1f} MB, {output.seconds:.1f} s; open it in a browser", fold=False)
    output.data({"result": result, "page": str(written), "bytes": size, "seconds": output.seconds})
