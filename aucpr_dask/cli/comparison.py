"""``aucpr-dask compare`` and ``rank``: a store of results or scores to statements about models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli.common import Command, Output, example, level_option, output_option, overwrite_option
from aucpr_dask.cli.completion import complete_estimator
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.estimators import TIES
from aucpr_dask.schema.options import MISSING, UNJUDGED

if TYPE_CHECKING:
    from aucpr_dask.storage.stores import Scores

_EVALUATION = ("missing", "ties", "unjudged", "positive_from")


def _question_options(command: Command) -> Command:
    """Add the options that comparisons and ranks share."""
    options = (
        click.argument("store"),
        click.option(
            "--estimator",
            metavar="NAME",
            shell_complete=complete_estimator,
            help="Compare by this estimator [default: the first].",
        ),
        click.option(
            "--over",
            type=click.Choice(["query", "dataset"]),
            default="query",
            show_default=True,
            help="Average over the queries of each data set, or over data sets.",
        ),
        click.option(
            "--sample",
            type=click.Choice(["units", "items", "both"]),
            help="What the sample is: queries or data sets, their items, or both [default: units where there are any].",
        ),
        level_option,
        click.option(
            "--resamples",
            "n_resamples",
            type=click.IntRange(min=2),
            metavar="N",
            help="Resamples [default: 10,000 of units, 1,000 of items, or what the result keeps].",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of random numbers."),
        click.option(
            "--incomplete",
            type=click.Choice(["raise", "drop"]),
            default="raise",
            show_default=True,
            help="What to do with a unit that only some models lack.",
        ),
        click.option("--data-set", "data_sets", multiple=True, metavar="NAME", help="Only this data set (repeat)."),
        click.option("--missing", type=click.Choice(MISSING), help="For a score store: what a missing score means."),
        click.option("--ties", type=click.Choice(TIES), help="For a score store: what equal scores mean."),
        click.option(
            "--unjudged", type=click.Choice(UNJUDGED), help="For a score store: what unjudged items count as."
        ),
        click.option("--positive-from", type=int, metavar="GRADE", help="For a score store: lowest positive grade."),
        click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Models to show."),
        click.option("--output", "target", metavar="STORE", help="Write the answer to this store, too."),
        overwrite_option,
        output_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(
    short_help="Compare models with each other or with baselines.",
    epilog=example("aucpr-dask compare aucpr-demo/result.zarr --data-set clef-tar --baseline AMC"),
)
@click.option("--baseline", "baselines", multiple=True, metavar="NAME", help="Compare with this model (repeat).")
@click.option(
    "--method",
    type=click.Choice(["sign_flip", "bootstrap", "t", "wilcoxon", "influence"]),
    help="Of units: sign_flip, bootstrap, t or wilcoxon; of items: bootstrap or influence [default: the first].",
)
@click.option(
    "--adjust",
    type=click.Choice(["romano_wolf", "max_t", "holm", "benjamini_hochberg", "none"]),
    help="How p-values are adjusted for all comparisons [default: romano_wolf; holm with t and wilcoxon].",
)
@click.option(
    "--equivalence",
    type=float,
    metavar="MARGIN",
    help="Differences up to this do not matter; decided of each pair on its own.",
)
@_question_options
def compare(
    output: Output,
    store: str,
    baselines: tuple[str, ...],
    top: int,
    target: str | None,
    overwrite: bool,
    data_sets: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare the models of the result store STORE, on the same queries, data sets or resampled items.

    Without a baseline all pairs are compared, and neighbours in the order of the models are shown. A score store is
    evaluated first.
    """
    from aucpr_dask.inference import compare
    from aucpr_dask.view.comparisons import comparison_view, summarize_comparison

    data, options = _open(store, data_sets, options)
    answer = _kept(compare(data, baselines or None, **options), target, overwrite=overwrite)
    comparisons = summarize_comparison(answer)
    for place, one in enumerate(comparisons):
        output.show(*([""] if place else []), comparison_view(one, output.width, top=top))
    _finish(output, store, target, {"comparisons": comparisons})


@click.command(
    short_help="Show how well the rank of each model is known.",
    epilog=example("aucpr-dask rank aucpr-demo/result.zarr --data-set clef-tar"),
)
@click.option(
    "--method",
    type=click.Choice(["sign_flip", "bootstrap", "influence"]),
    help="Of units: sign_flip or bootstrap; of items: bootstrap or influence [default: the first].",
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

    The rank set holds for a model on its own, "all at once" for all models together; models of one group are not told
    apart from each other. A score store is evaluated first.
    """
    from aucpr_dask.inference import rank
    from aucpr_dask.view.comparisons import ranks_view, summarize_ranks

    data, options = _open(store, data_sets, options)
    ranks = summarize_ranks(_kept(rank(data, **options), target, overwrite=overwrite))
    for place, one in enumerate(ranks):
        output.show(*([""] if place else []), ranks_view(one, output.width, top=top))
    _finish(output, store, target, {"ranks": ranks})


def _open(store: str, data_sets: tuple[str, ...], options: dict[str, Any]) -> tuple[Scores, dict[str, Any]]:
    """Open a store of results or scores, and drop the options of an evaluation that are not given."""
    from aucpr_dask.evaluation.results import KIND, open_result
    from aucpr_dask.scores import open_scores
    from aucpr_dask.storage.stores import read_root_attrs

    is_result = read_root_attrs(store).get("kind") == KIND
    data = open_result(store) if is_result else open_scores(store)
    given = {name: value for name, value in options.items() if name not in _EVALUATION or value is not None}
    return (selected(data, data_sets) if data_sets else data), given


def selected(data: Scores, names: tuple[str, ...]) -> Scores:
    """Return the named data sets: one as a Dataset, several as a tree."""
    import xarray as xr

    from aucpr_dask.storage.stores import nodes_of

    nodes = dict(nodes_of(data))
    unknown = [name for name in names if name not in nodes]
    if unknown:
        raise InvalidInputError(
            "there is no such data set in this store",
            received=", ".join(map(repr, unknown)),
            allowed=", ".join(map(repr, nodes)),
        )
    return xr.DataTree.from_dict({name: nodes[name] for name in names})


def _kept(answer: Scores, target: str | None, *, overwrite: bool) -> Scores:
    """Write the answer to a store, if there is to be one, and return it."""
    from aucpr_dask.inference import open_comparison, save_comparison

    if target is None:
        return answer
    save_comparison(answer, target, overwrite=overwrite)
    return open_comparison(target)


def _finish(output: Output, store: str, target: str | None, records: dict[str, Any]) -> None:
    output.show(f"{output.seconds:.1f} s" + (f"; written to {target}" if target else ""), fold=False)
    output.data({"store": store, "output": target, "seconds": output.seconds, **records})
