"""``aucpr-dask plan``, ``evaluate`` and ``show``; and ``demo``, which does it all with the bundled data."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import aucpr_dask as ap
from aucpr_dask.cli import common as cli
from aucpr_dask.cli import sources
from aucpr_dask.errors import bad_argument
from aucpr_dask.schema import terms
from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS, interval_names
from aucpr_dask.schema.options import EvaluationOptions, ResamplingOptions
from aucpr_dask.storage.code_cache import path_of

if TYPE_CHECKING:
    from aucpr_dask.progress import Report
    from aucpr_dask.scores.archives import Like
    from aucpr_dask.view.rankings import Document

TOP_OF_TABLES = 3
MOST_WORKERS = 2  # more would take longer to start than to do the work; one core is for this process

# What the demo needs, in the order in which its workers do: if they came first, they would compile it themselves, and
# numba takes a second of every process that compiles.
FIRST = ("classes.split_rows_float32_int8", "classes.groups_in_order_float32_float32", "areas.finish_common_rows")
COMPILE = "import gc, sys; gc.disable(); from aucpr_dask.kernels.compiling import prepare; prepare(sys.argv[1:])"


def _expand(estimators: tuple[str, ...], store: str, like: Like = None) -> str | list[str]:
    """Replace ``all`` by every estimator that takes no parameter and supports the weights of the scores in a store."""
    if "all" not in estimators:
        return _alone_or_all(estimators)
    weights = {"weight", "positive_weight", "negative_weight"}
    opened = ap.open_scores(store, like=like)
    is_weighted = any(weights & set(node.data_vars) for _, node in terms.nodes_of(opened))
    every = [spec.name for spec in ESTIMATORS.values() if spec.parameter is None and (spec.weights or not is_weighted)]
    return _alone_or_all(name for one in estimators for name in (every if one == "all" else [one]))


def _alone_or_all(names: Iterable[str]) -> str | list[str]:
    """Return names that were given one by one, each once; one alone as Python's users give it."""
    first, *others = dict.fromkeys(names)
    return [first, *others] if others else first


_estimators: dict[str, Any] = cli.NAMES | {
    "shell_complete": cli.complete_estimator_or_all,
    "help": f"What to estimate (repeat for several), or 'all': {', '.join(map(usage, ESTIMATORS.values()))}.",
}
_intervals: dict[str, Any] = cli.NAMES | {
    "default": None,
    "show_default": "influence_beta, or influence_log_t or bootstrap",
    "callback": lambda ctx, param, values: (
        interval_names(_alone_or_all(name.strip() for one in values for name in one.split(","))) if values else None
    ),
    "shell_complete": cli.complete_intervals,
    "help": f"Interval (repeat, or separate by commas): {', '.join(INTERVALS)}.",
}
_evaluation_options = cli.with_options(
    cli.option_of(EvaluationOptions, "estimator", **_estimators),
    cli.option_of(ResamplingOptions, "interval", **_intervals),
    cli.option_of(ResamplingOptions, "level"),
    cli.by_option,
    cli.option_of(EvaluationOptions, "recall_range", type=(float, float), show_default=False, metavar="LOW HIGH"),
    cli.option_of(EvaluationOptions, "prevalence", metavar="SHARE"),
    cli.reading_options,
    cli.options_of(ResamplingOptions, "n_resamples", "seed", "over", "keep_replicates", "prevalence_design", "n_folds"),
)


@cli.command(
    "aucpr-dask plan aucpr-demo/scores.zarr --memory 4GiB",
    short_help="Show the size and the duration of an evaluation before it starts.",
)
@sources.takes_source("source")
@_evaluation_options
@cli.option("--memory SIZE", "Check that a task fits a worker of one thread with this memory, such as 4GiB.")
def plan(
    output: cli.Output, source: sources.Source, memory: str | None, estimator: tuple[str, ...], **options: Any
) -> None:
    """Plan the evaluation of the score store SOURCE: number of tasks, bytes, requests and estimated time.

    Some rankings are evaluated to estimate the time; nothing is written. SOURCE may be a Zarr store of another program
    (see evaluate), also one whose chunks do not exist yet.
    """
    from aucpr_dask.runs.planning import HELD_BY_A_WORKER, describe, plan_run
    from aucpr_dask.view.tables import attributes_view

    like, place = source.layout(), source.place
    planned = plan_run(place, estimator=_expand(estimator, place, like), like=like, dataset=source.dataset, **options)
    if memory is not None:
        from dask.utils import parse_bytes

        n_bytes = 0.0
        with suppress(ValueError, OverflowError):
            n_bytes = parse_bytes(memory)
        if n_bytes <= 0:
            allowed = "a size such as 4GiB, 500MB or a number of bytes"
            raise bad_argument("this is no amount of memory", "memory", memory, allowed)
        planned.check_memory(n_bytes, HELD_BY_A_WORKER)
    facts = describe(planned)
    output.show(attributes_view(facts))
    output.data({"source": place} | facts)


@cli.command(
    "aucpr-dask evaluate aucpr-demo/scores.zarr result.zarr --level 0.9",
    short_help="Evaluate scores, of a store or a table, and write a result store.",
)
@sources.takes_source("source", of_values=False)
@click.argument("result", required=False)
@_evaluation_options
@cli.workers_option
@cli.option(
    "--record FILE",
    "Write versions, time and retries of every task to this JSON file.",
    type=click.Path(dir_okay=False),
)
@cli.top_option
@cli.overwrite_option
@click.option("--other-code", is_flag=True, help="Resume or extend what another version computed (verify lists both).")
def evaluate(output: cli.Output, source: sources.Source, result: str | None, top: int | None, **options: Any) -> None:
    """Evaluate every ranking of the score store SOURCE and write the store RESULT.

    If a run is interrupted, run the same command again and it resumes. SOURCE may be a table of predictions (CSV,
    Parquet, ...): evaluate predictions.csv --label y --by site. Then RESULT may be left out. A Zarr store of another
    program is read in place: evaluate archive.zarr result.zarr --score probability --label event --dim time,lat,lon.
    """
    is_table = source.is_table
    if result is None and not is_table:
        raise click.UsageError("Name the store to write: RESULT.")
    with tempfile.TemporaryDirectory(prefix="aucpr-dask-") as folder:
        place, chosen, like = source.place, source.dataset, None
        if is_table:
            place, chosen = f"{folder}/{Path(place).name}.zarr", ()
            if source.holds == "values":
                raise click.UsageError("These are values already: aggregate, compare, rank and report take them.")
            ap.save_scores(source.of_tables(), place)
        else:
            like = source.layout()
        target = result or f"{folder}/result.zarr"
        with output.progress() as report:
            names = _expand(options.pop("estimator"), place, like)
            asked: dict[str, Any] = options | {"estimator": names, "dataset": chosen or None, "like": like}
            evaluated = ap.run(place, target, progress=report, **asked)
        rankings = _show_rankings(output, evaluated, None, top)
        _show_warnings(output, evaluated, result)
        opening = f"; open it: {_opening(evaluated, result)}" if result else ""
        output.finish({"source": source.place, "result": result, "rankings": rankings}, after=opening)
        # Models are compared by their queries or resamples; without these, by their scores.
        nodes = [node for _, node in terms.nodes_of(evaluated)]
        has_sample = any("query" in node["estimate"].dims or "replicate" in node for node in nodes)
        then = "compare" if any(node.sizes.get(terms.MODEL, 1) > 1 for node in nodes) else "report"
        knows = result and (has_sample or then == "report")
        again = [result] if knows else source.words(**cli.led_on(then, options))
        output.suggest(then, *again)


@cli.command("aucpr-dask show aucpr-demo/result.zarr --dataset clef-tar")
@click.argument("result")
@cli.option(
    "--estimator NAME",
    "Rank by this estimator [default: the first of the result].",
    shell_complete=cli.complete_estimator,
)
@sources.dataset_option
@cli.top_option
def show(output: cli.Output, result: str, estimator: str | None, dataset: tuple[str, ...], top: int | None) -> None:
    """Show the ranked table of the result store RESULT.

    Where a data set has queries, a model's area is the mean over them, with the interval of aggregate.
    """
    rankings = _show_rankings(output, terms.select_data_sets(ap.open_result(result), dataset), estimator, top)
    output.data({"result": result, "rankings": rankings})


def _show_rankings(output: cli.Output, result: terms.Scores, estimator: str | None, top: int | None) -> list[Document]:
    """Show the best models of each data set, and return the rankings: with ``--json`` of all data sets."""
    from aucpr_dask.view.rankings import MOST_DATA_SETS, best, rank_models, rankings_view

    rankings = rank_models(result, estimator, most=None if output.as_json else MOST_DATA_SETS)
    output.show(rankings_view(rankings, top=top, n_data_sets=sum(1 for _ in terms.nodes_of(result))))
    return [best(ranking, top) for ranking in rankings]


def _show_warnings(output: cli.Output, result: terms.Scores, url: str | None) -> None:
    """Show in one line which flags were raised."""
    from aucpr_dask.view.stores import flags_in_words

    if flags := flags_in_words(result):
        output.show(flags)
    if flags and url is not None:
        output.show(f"which ones: aucpr-dask info {url}", fold=False)


def _opening(result: terms.Scores, url: str) -> str:
    """Return the line of Python that opens a result."""
    import xarray as xr

    return f'xarray.{"open_datatree" if isinstance(result, xr.DataTree) else "open_zarr"}("{url}")'


@cli.command("aucpr-dask demo --out aucpr-demo --overwrite", short_help="Evaluate the bundled data sets.")
@cli.option(
    "--out",
    "Folder to write scores.zarr and result.zarr into.",
    type=click.Path(path_type=Path, file_okay=False),
    default="aucpr-demo",
    show_default=True,
)
@cli.overwrite_option
def demo(output: cli.Output, out: Path, overwrite: bool) -> None:
    """Import real scores, evaluate them on a local Dask cluster, and show who ranks best.

    The data are bundled with the package: 14 systems that screened citations for 14 systematic reviews (CLEF eHealth
    2017), and scores of 25 classifiers in three repeats of a five-fold cross-validation on six tables (ADBench).
    """
    source, result = out / "scores.zarr", out / "result.zarr"
    if result.exists() and not overwrite:
        from aucpr_dask.storage.stores import refuse_finished

        refuse_finished(result, overwrite=False)
    with ThreadPoolExecutor(1) as other_thread, ExitStack() as until_shown:  # closing a cluster takes a second
        until_shown.enter_context(compiling_ahead())

        from dask.system import CPU_COUNT

        def write_scores(report: Report) -> None:
            from aucpr_dask.demo import write_scores

            write_scores(source, overwrite=overwrite, on_progress=report)

        with output.progress() as report:
            # For speed, scores are read while workers start, and modules are imported when they are needed.
            reading = other_thread.submit(write_scores, report)
            client = until_shown.enter_context(ap.connect(min(MOST_WORKERS, max(1, CPU_COUNT - 1))))
            reading.result()

            evaluated = ap.run(source, result, workers=client, overwrite=overwrite, progress=report)

        import pandas as pd

        from aucpr_dask.demo import CLEF
        from aucpr_dask.view.rankings import rank_models, ranking_sheet

        rankings = sorted(rank_models(evaluated), key=lambda ranking: ranking["data_set"] != CLEF)
        output.show(ranking_sheet(rankings[:1]), "", ranking_sheet(rankings[1:], TOP_OF_TABLES))
        areas = pd.concat([one["models"].set_index("model")["estimate"] for one in rankings[1:]], axis=1)
        best = areas.mean(axis=1).idxmax()
        ahead = int((areas > areas.loc[best]).any(axis=1).sum())
        output.show(
            f"{best} has the largest mean over them; {ahead} of {len(areas) - 1} others are ahead of it on some. "
            "Which are better on average, and on a new data set? See the next command.",
            "",
        )
        _show_warnings(output, evaluated, str(result))
        found = {"source": source, "result": result, "rankings": rankings}
        output.finish(found, after=f"; open it: {_opening(evaluated, str(result))}")
        output.suggest("compare", source, "--over", "dataset", "--dataset", "*_*", "--baseline", best)


@contextmanager
def compiling_ahead(kernels: tuple[str, ...] = FIRST) -> Iterator[None]:
    """Compile kernels meanwhile, unless they have been compiled before; workers wait for them."""
    missing = [kernel for kernel in kernels if not path_of(kernel).exists()]
    if not missing:
        yield
        return
    command = [sys.executable, "-P", "-c", COMPILE, *missing]
    quiet: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with subprocess.Popen(command, **quiet) as process:
        try:
            yield
        finally:
            process.terminate()
