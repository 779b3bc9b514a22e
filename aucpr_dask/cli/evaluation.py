"""``aucpr-dask plan``, ``evaluate`` and ``show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli import options as opt
from aucpr_dask.cli.common import Output, output_option
from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS, interval_names
from aucpr_dask.schema.options import EvaluationOptions, ResamplingOptions

if TYPE_CHECKING:
    from aucpr_dask.schema.terms import Scores
    from aucpr_dask.view.rankings import Document


def _expand(estimators: tuple[str, ...], source: str) -> tuple[str, ...]:
    """Replace ``all`` by every estimator that takes no parameter and supports the weights of this store."""
    if "all" not in estimators:
        return tuple(dict.fromkeys(estimators))
    from aucpr_dask.schema.terms import nodes_of
    from aucpr_dask.scores.store import open_scores

    weights = {"weight", "positive_weight", "negative_weight"}
    is_weighted = any(weights & set(node.data_vars) for _, node in nodes_of(open_scores(source)))
    every = [spec.name for spec in ESTIMATORS.values() if spec.parameter is None and (spec.weights or not is_weighted)]
    named = [name for one in estimators for name in (every if one == "all" else [one])]
    return tuple(dict.fromkeys(named))


def _split_intervals(values: tuple[str, ...]) -> tuple[str, ...]:
    """Split names of intervals at commas."""
    return interval_names(list(dict.fromkeys(name.strip() for value in values for name in value.split(","))))


_evaluation_options = opt.with_options(
    opt.option_of(
        EvaluationOptions,
        "estimators",
        "--estimator",
        type=str,
        multiple=True,
        metavar="NAME",
        shell_complete=opt.complete_estimator_or_all,
        help=f"What to estimate (repeat for several), or 'all': {', '.join(map(usage, ESTIMATORS.values()))}.",
    ),
    opt.option_of(
        ResamplingOptions,
        "intervals",
        "--interval",
        "--intervals",
        type=str,
        multiple=True,
        metavar="NAME",
        callback=lambda ctx, param, values: _split_intervals(values),
        shell_complete=opt.complete_intervals,
        help=f"Interval (repeat, or separate by commas): {', '.join(INTERVALS)}.",
    ),
    opt.level_option,
    opt.option_of(EvaluationOptions, "recall_range", type=(float, float), show_default=False, metavar="LOW HIGH"),
    opt.option_of(EvaluationOptions, "prevalence", metavar="SHARE"),
    *opt.reading_options(),
    opt.option_of(ResamplingOptions, "n_resamples", "--resamples"),
    opt.option_of(ResamplingOptions, "seed"),
    opt.option_of(ResamplingOptions, "unit"),
    opt.option_of(ResamplingOptions, "keep_replicates"),
    opt.option_of(ResamplingOptions, "prevalence_design"),
    opt.option_of(ResamplingOptions, "n_folds", "--folds"),
)


@click.command(
    short_help="Show the size and the duration of an evaluation before it starts.",
    epilog=opt.example("aucpr-dask plan aucpr-demo/scores.zarr --memory 4GiB"),
)
@click.argument("source")
@opt.data_sets_option
@_evaluation_options
@click.option("--memory", metavar="SIZE", help="Check that a task fits the memory of a worker thread, such as 4GiB.")
@output_option
def plan(output: Output, source: str, memory: str | None, estimators: tuple[str, ...], **options: Any) -> None:
    """Plan the evaluation of the score store SOURCE: number of tasks, bytes and estimated time.

    Some rankings are evaluated to estimate the time; nothing is written.
    """
    from dask.utils import parse_bytes

    from aucpr_dask.runs.planning import describe, plan_run
    from aucpr_dask.view.tables import attributes_view

    planned = plan_run(source, estimators=_expand(estimators, source), **options)
    if memory is not None:
        planned.check_memory(parse_bytes(memory))
    facts = describe(planned)
    output.show(attributes_view(facts))
    output.data({"source": source} | facts)


@click.command(
    short_help="Evaluate a score store and write a result store.",
    epilog=opt.example("aucpr-dask evaluate aucpr-demo/scores.zarr result.zarr --level 0.9"),
)
@click.argument("source")
@click.argument("result")
@opt.data_sets_option
@_evaluation_options
@opt.cluster_option
@opt.top_option
@opt.overwrite_option
@output_option
def evaluate(
    output: Output, source: str, result: str, top: int | None, estimators: tuple[str, ...], **options: Any
) -> None:
    """Evaluate every ranking of the score store SOURCE and write the store RESULT.

    If a run is interrupted, run the same command again and it resumes.
    """
    from aucpr_dask.runs.run import run

    with output.progress() as report:
        evaluated = run(source, result, progress=report, estimators=_expand(estimators, source), **options)
    seconds = output.seconds
    rankings = _show_rankings(output, evaluated, None, top)
    show_warnings(output, evaluated, result)
    output.show(f"{seconds:.1f} s; open it: {opening(evaluated, result)}", fold=False)
    output.suggest("compare", result if _can_be_compared(evaluated) else source)
    output.data({"source": source, "result": result, "seconds": seconds, "rankings": rankings})


@click.command(epilog=opt.example("aucpr-dask show aucpr-demo/result.zarr --data-set clef-tar"))
@click.argument("result")
@click.option(
    "--estimator",
    metavar="NAME",
    shell_complete=opt.complete_estimator,
    help="Rank by this estimator [default: the first of the result].",
)
@opt.data_sets_option
@opt.top_option
@output_option
def show(output: Output, result: str, estimator: str | None, data_sets: tuple[str, ...], top: int | None) -> None:
    """Show the ranked table of the result store RESULT.

    Where a data set has queries, a model's area is the mean over them and its interval is Student's t.
    """
    from aucpr_dask.evaluation.results import open_result
    from aucpr_dask.schema.terms import select_data_sets

    evaluated = select_data_sets(open_result(result), data_sets)
    rankings = _show_rankings(output, evaluated, estimator, top)
    output.data({"result": result, "rankings": rankings})


def _can_be_compared(result: Scores) -> bool:
    """Whether some data set has queries, or resamples, to compare models by."""
    from aucpr_dask.schema.terms import nodes_of

    return any("query" in node["estimate"].dims or "replicate" in node for _, node in nodes_of(result))


def _show_rankings(output: Output, result: Scores, estimator: str | None, top: int | None) -> list[Document]:
    """Show the best models of each data set, and return the rankings for programs, whole unless `top` is given."""
    from aucpr_dask.view.rankings import best, rank_models, rankings_view

    rankings = rank_models(result, estimator)
    output.show(rankings_view(rankings, output.width, top=top, ascii_only=output.ascii_only))
    return [best(ranking, top) for ranking in rankings]


def show_warnings(output: Output, result: Scores, url: str) -> None:
    """Show in one line which flags were raised."""
    from aucpr_dask.view.stores import flags_in_words

    flags = flags_in_words(result)
    if flags:
        output.show(flags)
        output.show(f"which ones: aucpr-dask info {url}", fold=False)


def opening(result: Scores, url: str) -> str:
    """Return the line of Python that opens a result."""
    import xarray as xr

    return f'xarray.{"open_datatree" if isinstance(result, xr.DataTree) else "open_zarr"}("{url}")'
