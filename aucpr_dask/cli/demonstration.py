"""``aucpr-dask demo``: import, evaluate and rank the bundled data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aucpr_dask.cli import options as opt
from aucpr_dask.cli.common import Output, output_option
from aucpr_dask.cli.evaluation import opening, show_warnings
from aucpr_dask.clusters.compiling_ahead import compiling_ahead

if TYPE_CHECKING:
    from aucpr_dask.progress.showing import Report

TOP_OF_TABLES = 3
MOST_WORKERS = 2  # more would take longer to start than to do the work; one core is for this process


@click.command(
    short_help="Evaluate the bundled data sets.",
    epilog=opt.example("aucpr-dask demo --out aucpr-demo --overwrite"),
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="aucpr-demo",
    show_default=True,
    help="Folder to write scores.zarr and result.zarr into.",
)
@opt.overwrite_option
@output_option
def demo(output: Output, out: Path, overwrite: bool) -> None:
    """Import real scores, evaluate them on a local Dask cluster, and show who ranks best.

    The data are bundled with the package: 14 systems that screened citations for 14 systematic reviews (CLEF eHealth
    2017), and cross-validated scores of 25 classifiers, three times each, on six tables (ADBench).
    """
    source, result = out / "scores.zarr", out / "result.zarr"
    if result.exists() and not overwrite:
        from aucpr_dask.storage.stores import refuse_finished

        refuse_finished(result, overwrite=False)
    with ThreadPoolExecutor(1) as other_thread, ExitStack() as until_shown:  # closing a cluster takes a second
        until_shown.enter_context(compiling_ahead())

        from dask.system import CPU_COUNT

        from aucpr_dask.clusters.connecting import connect

        with output.progress() as report:
            # For speed, scores are read while workers start, and modules are imported when they are needed.
            reading = other_thread.submit(_write_scores, source, overwrite, report)
            client = until_shown.enter_context(connect(min(MOST_WORKERS, max(1, CPU_COUNT - 1))))
            reading.result()

            from aucpr_dask.runs.run import run

            evaluated = run(source, result, cluster=client, overwrite=overwrite, progress=report)

        from aucpr_dask.demo import CLEF
        from aucpr_dask.view.rankings import rank_models, ranking_view

        rankings = sorted(rank_models(evaluated), key=lambda ranking: ranking["data_set"] != CLEF)
        output.show(
            ranking_view(rankings[:1], output.width, ascii_only=output.ascii_only),
            "",
            ranking_view(rankings[1:], output.width, top=TOP_OF_TABLES, ascii_only=output.ascii_only),
            "",
        )
        show_warnings(output, evaluated, str(result))
        output.show(f"{output.seconds:.1f} s; open it: {opening(evaluated, str(result))}", fold=False)
        output.suggest("compare", result)
    output.data({"source": source, "result": result, "seconds": output.seconds, "rankings": rankings})


def _write_scores(source: Path, overwrite: bool, report: Report) -> None:
    """Import the readers and read the scores, in another thread."""
    from aucpr_dask.demo import write_scores

    write_scores(source, overwrite=overwrite, on_progress=report)
