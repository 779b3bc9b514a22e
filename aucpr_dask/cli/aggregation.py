"""``aucpr-dask aggregate``: means over queries, data sets or classes."""

from __future__ import annotations

from typing import Any

import click

from aucpr_dask.cli.common import Output, open_any, output_option
from aucpr_dask.cli.completion import complete_estimator
from aucpr_dask.cli.evaluation import top_option
from aucpr_dask.cli.options import (
    Choice,
    data_sets_option,
    example,
    given,
    level_option,
    machine_option,
    option_of,
    reading_options,
    with_options,
)
from aucpr_dask.schema.options import AggregationOptions


@click.command(
    short_help="Average estimates over queries, data sets or classes.",
    epilog=example("aucpr-dask aggregate aucpr-demo/result.zarr --data-set clef-tar"),
)
@click.argument("store")
@click.option("--estimator", metavar="NAME", shell_complete=complete_estimator, help="Rank by this estimator.")
@option_of(AggregationOptions, "over")
@option_of(AggregationOptions, "how")
@option_of(AggregationOptions, "average")
@option_of(AggregationOptions, "sample")
@click.option(
    "--method",
    type=Choice(["t", "bootstrap", "normal", "logit"]),
    help="Of units: t or bootstrap; of items: normal, logit (the default over classes) or bootstrap; of both: "
    "bootstrap [default: the first].",
)
@level_option
@option_of(AggregationOptions, "n_resamples", "--resamples", metavar="N")
@option_of(AggregationOptions, "seed")
@option_of(AggregationOptions, "incomplete")
@machine_option
@data_sets_option
@with_options(*reading_options(note="score stores only"))
@top_option
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
    from aucpr_dask.schema.trees import nodes_of
    from aucpr_dask.view.comparisons import widths
    from aucpr_dask.view.rankings import best, rank_means, rank_models, rankings_view

    options["machine"] = None if machine is None else open_any(machine, data_sets)
    means = aggregate(open_any(store, data_sets), **given(options)).compute()
    is_micro = "micro" in (options["how"], options["average"])
    rankings = (rank_models if is_micro else rank_means)(means, estimator)
    designs = dict.fromkeys(str(node.attrs["design"]) for _, node in nodes_of(means))
    saved = widths(ratio for ranking in rankings for ratio in ranking["models"]["width_ratio"])
    output.show(rankings_view(rankings, output.width, top=top, ascii_only=output.ascii_only), *saved, *designs)
    output.data({"store": store, "designs": list(designs), "rankings": [best(ranking, top) for ranking in rankings]})
