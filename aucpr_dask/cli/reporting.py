"""``aucpr-dask report``: a result store to one page that needs no network."""

from __future__ import annotations

from pathlib import Path

import click

from aucpr_dask.cli.common import Output, example, output_option


@click.command(
    short_help="Write a result store as one HTML page.",
    epilog=example("aucpr-dask report aucpr-demo/result.zarr report.html --overwrite"),
)
@click.argument("result")
@click.argument("page", type=click.Path(path_type=Path))
@click.option("--scores", metavar="STORE", help="The scores that were evaluated: adds curves of the best models.")
@click.option("--title", metavar="TEXT", default="Ranking report", show_default=True, help="The page's heading.")
@click.option(
    "--interval", metavar="NAME", help="Which interval to show [default: the first that every estimator has]."
)
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, help="Curves of each data set.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the sign flips.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there already.")
@output_option
def report(
    output: Output,
    result: str,
    page: Path,
    scores: str | None,
    title: str,
    interval: str | None,
    top: int,
    seed: int,
    overwrite: bool,
) -> None:
    """Write the result store RESULT as the HTML file PAGE, which opens in any browser without a network.

    It holds leaderboards to sort, filter and search, the comparison of any two models, what the numbers rest on in
    words, where they come from, and the tables as CSV. Models on data sets without queries can be compared if the
    result keeps its replicates (evaluate --keep-replicates).
    """
    from aucpr_dask.evaluation.results import open_result
    from aucpr_dask.scores import open_scores
    from aucpr_dask.view.report import report

    opened = None if scores is None else open_scores(scores)
    written = report(
        open_result(result),
        page,
        scores=opened,
        title=title,
        interval=interval,
        top=top,
        seed=seed,
        overwrite=overwrite,
    )
    size = written.stat().st_size
    output.show(f"{written}: {size / 1e6:.1f} MB, {output.seconds:.1f} s; open it in a browser", fold=False)
    output.data({"result": result, "page": str(written), "bytes": size, "seconds": output.seconds})
