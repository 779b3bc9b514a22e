"""``aucpr-dask aggregate``, ``compare`` and ``rank``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli import options as opt
from aucpr_dask.cli.common import Output, is_result, open_any, output_option
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.options import AggregationOptions, ComparisonOptions
from aucpr_dask.schema.terms import QUERY

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Group

    from aucpr_dask.schema.terms import Scores


@click.command(
    short_help="Average estimates over queries, data sets or classes.",
    epilog=opt.example("aucpr-dask aggregate aucpr-demo/result.zarr --data-set clef-tar"),
)
@click.argument("store")
@click.option("--estimator", metavar="NAME", shell_complete=opt.complete_estimator, help="Rank by this estimator.")
@opt.option_of(AggregationOptions, "over")
@opt.option_of(AggregationOptions, "how")
@opt.option_of(AggregationOptions, "average")
@opt.option_of(AggregationOptions, "sample")
@click.option(
    "--method",
    type=opt.Choice(["t", "bootstrap", "normal", "logit"]),
    help="Of units: t or bootstrap; of items: normal, logit (the default over classes) or bootstrap; of both: "
    "bootstrap [default: the first].",
)
@opt.level_option
@opt.option_of(AggregationOptions, "n_resamples", "--resamples", metavar="N")
@opt.option_of(AggregationOptions, "seed")
@opt.option_of(AggregationOptions, "incomplete")
@opt.machine_option
@opt.data_sets_option
@opt.with_options(*opt.reading_options(note="score stores only"))
@opt.top_option
@output_option
def aggregate(
    output: Output,
    store: str,
    estimator: str | None,
    data_sets: tuple[str, ...],
    top: int | None,
    machine: str | None,
    **options: Any,
) -> None:
    """Average the estimates of each model of the result store STORE, with an interval.

    By default over queries: mean average precision (MAP), and Student's t interval of the mean. A score store is
    evaluated first. Over classes, the items are the sample, and the mean has an interval on the scale of the logit.
    """
    from aucpr_dask.inference.aggregating import aggregate
    from aucpr_dask.schema.terms import nodes_of
    from aucpr_dask.view.comparisons import widths
    from aucpr_dask.view.rankings import best, rank_means, rank_models, rankings_view

    options["machine"] = None if machine is None else open_any(machine, data_sets)
    means = aggregate(open_any(store, data_sets), **opt.given(options)).compute()
    is_micro = "micro" in (options["how"], options["average"])
    rankings = (rank_models if is_micro else rank_means)(means, estimator)
    designs = dict.fromkeys(str(node.attrs["design"]) for _, node in nodes_of(means))
    saved = widths(ratio for ranking in rankings for ratio in ranking["models"]["width_ratio"])
    output.show(rankings_view(rankings, output.width, top=top, ascii_only=output.ascii_only), *saved, *designs)
    output.data({"store": store, "designs": list(designs), "rankings": [best(ranking, top) for ranking in rankings]})


_question_options = opt.with_options(
    click.argument("store"),
    opt.option_of(ComparisonOptions, "estimator", metavar="NAME", shell_complete=opt.complete_estimator),
    opt.option_of(ComparisonOptions, "over"),
    opt.option_of(ComparisonOptions, "sample"),
    opt.level_option,
    opt.option_of(ComparisonOptions, "n_resamples", "--resamples", metavar="N"),
    opt.option_of(ComparisonOptions, "seed"),
    opt.option_of(ComparisonOptions, "incomplete"),
    opt.data_sets_option,
    *opt.reading_options(note="score stores only"),
    click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Models to show."),
    click.option("--output", "target", metavar="STORE", help="Also write the answer to this store."),
    opt.overwrite_option,
    output_option,
)


@click.command(
    short_help="Compare models with each other or with baselines.",
    epilog=opt.example("aucpr-dask compare aucpr-demo/result.zarr --data-set clef-tar --baseline AMC"),
)
@click.option("--baseline", "baselines", multiple=True, metavar="NAME", help="Compare with this model (repeat).")
@click.option(
    "--method",
    type=opt.Choice(["sign_flip", "bootstrap_t", "bootstrap", "t", "wilcoxon", "influence"]),
    help="Of units: sign_flip, bootstrap_t, bootstrap, t or wilcoxon; of items: bootstrap or influence "
    "[default: the first].",
)
@opt.option_of(ComparisonOptions, "adjust")
@opt.option_of(ComparisonOptions, "equivalence", metavar="MARGIN")
@opt.machine_option
@_question_options
def compare(
    output: Output,
    store: str,
    baselines: tuple[str, ...],
    machine: str | None,
    top: int,
    target: str | None,
    overwrite: bool,
    data_sets: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare the models of the result store STORE, on the same queries, data sets or resampled items.

    Without a baseline all pairs are compared, and each model is shown with its difference from the next. A score
    store is evaluated first.
    """
    from aucpr_dask.inference.comparing import compare
    from aucpr_dask.view.comparisons import answer_of, summarize_comparison

    options["baseline"] = baselines or None
    options["machine"] = None if machine is None else open_any(machine, data_sets)
    answer, left_out = _answer(compare, store, target, overwrite, data_sets, options)
    comparisons = summarize_comparison(answer)
    views = [answer_of(one, output.width, top=top).as_text(output.width) for one in comparisons]
    _finish(output, views, {"store": store, "output": target, "comparisons": comparisons, "left_out": left_out})
    output.suggest("rank", store)


@click.command(
    short_help="Show how well the rank of each model is known.",
    epilog=opt.example("aucpr-dask rank aucpr-demo/result.zarr --data-set clef-tar"),
)
@click.option(
    "--method",
    type=opt.Choice(["sign_flip", "bootstrap_t", "bootstrap", "influence"]),
    help="Of units: sign_flip, bootstrap_t or bootstrap; of items: bootstrap or influence [default: the first].",
)
@_question_options
def rank(
    output: Output,
    store: str,
    top: int,
    target: str | None,
    overwrite: bool,
    data_sets: tuple[str, ...],
    **options: Any,
) -> None:
    """Rank the models of the result store STORE and show which ranks each of them may have.

    A rank set holds for one model, "all at once" for all models together; models of one group are statistically
    indistinguishable. A score store is evaluated first.
    """
    from aucpr_dask.inference.ranking import rank
    from aucpr_dask.view.comparisons import answer_of, summarize_ranks

    answer, left_out = _answer(rank, store, target, overwrite, data_sets, options)
    ranks = summarize_ranks(answer)
    views = [answer_of(one, output.width, top=top).as_text(output.width) for one in ranks]
    _finish(output, views, {"store": store, "output": target, "ranks": ranks, "left_out": left_out})
    if is_result(store):
        output.suggest("report", store)
    else:
        output.suggest("evaluate", store, "result.zarr")


def _answer(
    ask: Any, store: str, target: str | None, overwrite: bool, data_sets: tuple[str, ...], options: dict[str, Any]
) -> tuple[Scores, dict[str, str]]:
    """Compare or rank the models of a store, and write the answer to `target` if given.

    Data sets that cannot be compared are left out, unless all are; returns why, too.
    """
    from aucpr_dask.inference.comparing import open_comparison, save_comparison

    data = open_any(store, data_sets)
    answer, left_out = _ask_each(lambda part: ask(part, **opt.given(options)), data, together=options["over"] != QUERY)
    if target is None:
        return answer, left_out
    save_comparison(answer, target, overwrite=overwrite)
    return open_comparison(target), left_out


def _ask_each(ask: Callable[[Scores], Scores], data: Scores, *, together: bool) -> tuple[Scores, dict[str, str]]:
    """Ask about each data set on its own; return the answers, and the errors of the data sets that have none."""
    import xarray as xr

    from aucpr_dask.schema.terms import nodes_of

    if together or isinstance(data, xr.Dataset):
        return ask(data), {}
    answers: dict[str, xr.Dataset] = {}
    errors: dict[str, InvalidInputError] = {}
    for path, node in nodes_of(data):
        try:
            answers |= nodes_of(ask(xr.DataTree.from_dict({path: node})))
        except InvalidInputError as error:
            errors[path] = error
    if not answers:
        raise next(iter(errors.values()))
    return xr.DataTree.from_dict(answers), {path: str(error) for path, error in errors.items()}


def _finish(output: Output, views: Sequence[Group], document: dict[str, Any]) -> None:
    for place, view in enumerate(views):
        output.show(*([""] if place else []), view)
    reasons: dict[str, list[str]] = {}
    for path, message in document["left_out"].items():
        reasons.setdefault(_reason_of(message), []).append(path)
    for reason, paths in reasons.items():
        output.show(f"\nleft out: {', '.join(paths)}: {reason}")
    written = f"; written to {document['output']}" if document["output"] else ""
    output.show(f"{output.seconds:.1f} s{written}", fold=False)
    output.data(document | {"seconds": output.seconds})


def _reason_of(message: str) -> str:
    """Return what happened, and the remedy, on one line."""
    what, *parts = message.split("\n  ")
    remedies = [part.removeprefix("remedy: ") for part in parts if part.startswith("remedy: ")]
    return "; ".join([what, *remedies])
