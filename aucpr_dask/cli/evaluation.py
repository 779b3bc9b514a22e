"""``aucpr-dask evaluate`` and ``show``: a score store to a result store, and the result as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli.common import (
    Command,
    Output,
    cluster_option,
    example,
    level_option,
    output_option,
    overwrite_option,
)
from aucpr_dask.cli.completion import complete_estimator, complete_estimator_or_all, complete_intervals
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import MISSING, PREVALENCE_DESIGNS, TIES, UNITS, UNJUDGED, lookup

if TYPE_CHECKING:
    from aucpr_dask.storage.stores import Scores
    from aucpr_dask.view.summary import Ranking

top_option = click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many models of a data set to show [default: 10, or 3 of each of several; all with --json].",
)
positive_from_option = click.option(
    "--positive-from", type=int, metavar="GRADE", help="Lowest grade that counts as positive, for graded labels."
)


def _expand(estimators: tuple[str, ...], source: str) -> tuple[str, ...]:
    """Put every estimator that takes no parameter, and has a meaning for this store, in place of ``all``."""
    if "all" not in estimators:
        return tuple(dict.fromkeys(estimators))
    from aucpr_dask.scores import open_scores
    from aucpr_dask.storage.stores import nodes_of

    weights = {"weight", "positive_weight", "negative_weight"}
    is_weighted = any(weights & set(node.data_vars) for _, node in nodes_of(open_scores(source)))
    every = [spec.name for spec in ESTIMATORS.values() if spec.parameter is None and (spec.weights or not is_weighted)]
    named = [name for given in estimators for name in (every if given == "all" else [given])]
    return tuple(dict.fromkeys(named))


def _interval_names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the intervals, some given together."""
    names = tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",")))
    return tuple(lookup(INTERVALS, name, "interval method").name for name in names)


_EVALUATION_OPTIONS = (
    click.option(
        "--estimator",
        "estimators",
        metavar="NAME",
        multiple=True,
        default=["average_precision"],
        show_default=True,
        shell_complete=complete_estimator_or_all,
        help=f"What to estimate (repeat for several), or 'all': {', '.join(map(usage, ESTIMATORS.values()))}.",
    ),
    click.option(
        "--interval",
        "--intervals",
        "intervals",
        multiple=True,
        default=["logit"],
        show_default=True,
        metavar="NAME",
        callback=lambda ctx, param, values: _interval_names(values),
        shell_complete=complete_intervals,
        help=f"Interval (repeat, or separate by commas): {', '.join(INTERVALS)}.",
    ),
    level_option,
    click.option(
        "--recall-range",
        type=(float, float),
        default=(0.0, 1.0),
        metavar="LOW HIGH",
        help="Take the area between two recalls only.",
    ),
    click.option("--prevalence", type=float, metavar="SHARE", help="Reweight to this share of positives."),
    click.option(
        "--missing", type=click.Choice(MISSING), default="raise", show_default=True, help="What a missing score means."
    ),
    click.option("--ties", type=click.Choice(TIES), default="block", show_default=True, help="What equal scores mean."),
    click.option(
        "--unjudged",
        type=click.Choice(UNJUDGED),
        default="negative",
        show_default=True,
        help="What an unjudged item counts as.",
    ),
    positive_from_option,
    click.option(
        "--resamples",
        "n_resamples",
        type=int,
        default=1000,
        show_default=True,
        help="Resamples of bootstrap intervals.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="What resamples and folds are drawn by."),
    click.option("--unit", type=click.Choice(UNITS), default="items", show_default=True, help="What resamples draw."),
    click.option("--keep-replicates", is_flag=True, help="Write the estimate of every resample: compare needs them."),
    click.option(
        "--prevalence-design",
        type=click.Choice(PREVALENCE_DESIGNS),
        default="fixed",
        show_default=True,
        help="Whether standard errors hold the numbers of positives and negatives fixed.",
    ),
    click.option("--folds", "n_folds", type=int, default=10, show_default=True, help="Folds of cross-validation."),
)


def _evaluation_options(command: Command) -> Command:
    """Add what an evaluation can be told."""
    for option in reversed(_EVALUATION_OPTIONS):
        command = option(command)
    return command


@click.command(
    short_help="Say what an evaluation will do, before it does it.",
    epilog=example("aucpr-dask plan aucpr-demo/scores.zarr --memory 4GiB"),
)
@click.argument("source")
@_evaluation_options
@click.option("--memory", metavar="SIZE", help="Memory of a worker thread, such as 4GiB: does every block fit?")
@output_option
def plan(output: Output, source: str, memory: str | None, estimators: tuple[str, ...], **options: Any) -> None:
    """Plan the evaluation of the score store SOURCE: blocks, bytes, and about how long it takes.

    One block is evaluated to see how long that takes; nothing is written.
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
    epilog=example("aucpr-dask evaluate aucpr-demo/scores.zarr result.zarr --level 0.9"),
)
@click.argument("source")
@click.argument("result")
@_evaluation_options
@cluster_option
@top_option
@overwrite_option
@output_option
def evaluate(
    output: Output, source: str, result: str, top: int | None, estimators: tuple[str, ...], **options: Any
) -> None:
    """Evaluate every ranking of the score store SOURCE and write the store RESULT.

    If that was begun before and stopped, by whatever, it goes on from there.
    """
    from aucpr_dask.runs.run import run

    with output.progress() as report:
        evaluated = run(source, result, progress=report, estimators=_expand(estimators, source), **options)
    seconds = output.seconds
    rankings = show_rankings(output, evaluated, top=top)
    show_warnings(output, evaluated, result)
    output.show(f"{seconds:.1f} s; open it: {opening(evaluated, result)}", fold=False)
    output.data({"source": source, "result": result, "seconds": seconds, "rankings": rankings})


@click.command(epilog=example("aucpr-dask show aucpr-demo/result.zarr --data-set clef-tar"))
@click.argument("result")
@click.option(
    "--estimator",
    metavar="NAME",
    shell_complete=complete_estimator,
    help="Rank by this estimator [default: the first of the result].",
)
@click.option("--data-set", "data_sets", multiple=True, metavar="NAME", help="Show only this data set (repeat).")
@top_option
@output_option
def show(output: Output, result: str, estimator: str | None, data_sets: tuple[str, ...], top: int | None) -> None:
    """Show the ranked table of the result store RESULT.

    Where a data set has queries, a model's area is the mean over them and its interval is Student's t.
    """
    from aucpr_dask.evaluation.results import open_result

    evaluated = open_result(result)
    rankings = show_rankings(output, evaluated, estimator=estimator, data_sets=data_sets, top=top)
    output.data({"result": result, "rankings": rankings})


def show_rankings(
    output: Output,
    result: Scores,
    *,
    estimator: str | None = None,
    data_sets: Sequence[str] = (),
    top: int | None = None,
) -> list[Ranking]:
    """Show the best models of each data set, and return what a program gets: all of them unless `top` is given."""
    from aucpr_dask.view.summary import rank_models
    from aucpr_dask.view.tables import rankings_view

    rankings = rank_models(result, estimator)
    unknown = sorted(set(data_sets) - {ranking.data_set for ranking in rankings})
    if unknown:
        raise InvalidInputError(
            "there is no such data set in this result",
            received=", ".join(map(repr, unknown)),
            allowed=", ".join(repr(ranking.data_set) for ranking in rankings),
        )
    if data_sets:
        rankings = [ranking for ranking in rankings if ranking.data_set in data_sets]
    output.show(rankings_view(rankings, output.width, top=top, ascii_only=output.ascii_only))
    return [ranking.best(top) for ranking in rankings]


def show_warnings(output: Output, result: Scores, url: str) -> None:
    """Name the flags that were raised, in one line."""
    from aucpr_dask.storage.stores import nodes_of
    from aucpr_dask.view.summary import summarize_flags

    flags = summarize_flags(nodes_of(result))
    if flags:
        counts = ", ".join(f"{flag.flag.replace('_', ' ')} {flag.count:,}" for flag in flags)
        output.show(f"flagged rankings: {counts}")
        output.show(f"which ones: aucpr-dask info {url}", fold=False)


def opening(result: Scores, url: str) -> str:
    """Return the line of Python that opens a result in plain xarray."""
    import xarray as xr

    from aucpr_dask.storage.urls import is_versioned

    if is_versioned(url):
        return f'aucpr_dask.open_result("{url}")'
    return f'xarray.{"open_datatree" if isinstance(result, xr.DataTree) else "open_zarr"}("{url}")'
