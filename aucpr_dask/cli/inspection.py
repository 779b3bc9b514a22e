"""``aucpr-dask info`` and ``verify``: the contents of a store, and damage to it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli.common import Output, output_option
from aucpr_dask.cli.evaluation import positive_from_option
from aucpr_dask.cli.options import data_sets_option, example

if TYPE_CHECKING:
    from aucpr_dask.progress.showing import Report

SILENT_SECONDS = 2.0


@click.command(
    short_help="Show the contents of a store, and warn of oddities.",
    epilog=example("aucpr-dask info aucpr-demo/scores.zarr"),
)
@click.argument("store")
@data_sets_option
@positive_from_option
@output_option
def info(output: Output, store: str, data_sets: tuple[str, ...], positive_from: int | None) -> None:
    """Show the contents of the store STORE (scores, results or comparisons) and warn of oddities.

    For scores: sizes, prevalence, missing scores, and warnings such as inverted polarity or heavy ties; every
    ranking is evaluated once to find them. For results: options, warnings, and the best models. For the output of
    compare or rank: sizes, variables, and what was resampled.
    """
    from aucpr_dask.evaluation import results
    from aucpr_dask.inference import stored
    from aucpr_dask.schema.trees import select_data_sets
    from aucpr_dask.scores.store import open_scores
    from aucpr_dask.storage.stores import read_root_attrs
    from aucpr_dask.view import stores

    summary: Any
    kind = read_root_attrs(store).get("kind")

    if kind == results.KIND:
        summary = stores.summarize_result(select_data_sets(results.open_result(store), data_sets), store)
        output.show(stores.result_view(summary, output.width, ascii_only=output.ascii_only))
    elif kind == stored.KIND:
        answers = stores.summarize_answers(select_data_sets(stored.open_comparison(store), data_sets))
        output.show(stores.answers_view(answers, store))
        output.data({"store": store, "kind": kind, "data_sets": answers})
        return
    else:
        scores = select_data_sets(open_scores(store), data_sets)
        with output.progress(after=SILENT_SECONDS) as report, _reporting_tasks(report):
            summary = stores.summarize_scores(scores, store, positive_from=positive_from)
        output.show(stores.scores_view(summary, output.width))
    output.data({"store": store, **summary})


@click.command(
    short_help="Look for damage in a store.",
    epilog=example("aucpr-dask verify aucpr-demo/scores.zarr"),
)
@click.argument("store")
@output_option
def verify(output: Output, store: str) -> None:
    """Read the store STORE (scores, results or comparisons) from end to end and list what is missing or damaged.

    Every chunk is compared with its checksum, and every ranking of scores with its digest. Exit code 0: all is as it
    was written; 2: something is missing or damaged.
    """
    from aucpr_dask.errors import StoreError, few
    from aucpr_dask.scores.store import KIND, changed_rankings
    from aucpr_dask.storage.stores import read_root_attrs
    from aucpr_dask.storage.verifying import damage_of

    kind = read_root_attrs(store).get("kind")
    with output.progress(after=SILENT_SECONDS) as report:
        n_chunks, damage, checked = damage_of(store, partial(report, "arrays"))
        n_rankings, changed = 0, list[str]()
        if kind == KIND and not damage:
            n_rankings, changed = changed_rankings(store, partial(report, "rankings"))
    output.data(
        {
            "store": store,
            "has_checksums": checked,
            "n_chunks": n_chunks,
            "n_rankings": n_rankings,
            "damage": list(map(str, damage)),
            "changed_rankings": changed,
        }
    )
    for error in damage:
        output.show(str(error), fold=False)
    if damage or changed:
        raise StoreError(
            "the store is damaged",
            where=store,
            received=f"{len(damage)} of {n_chunks:,} chunks missing or damaged"
            if damage
            else f"other scores or labels than were saved: {few(changed)}",
            remedy="fetch or write it again",
        )
    parts = [f"{n_chunks:,} chunks " + ("match their checksums" if checked else "can be decoded")]
    parts += [f"{n_rankings:,} rankings match their digests"] if n_rankings else []
    output.show(f"{store} is undamaged: {', '.join(parts)}.")
    if not checked:
        output.show(
            "It has no checksums, like all stores of version 0.1: a missing chunk may not be noticed. Write it again "
            "to add them."
        )


def _reporting_tasks(report: Report) -> AbstractContextManager[Any]:
    """Return a context that reports every finished Dask task."""
    from dask.callbacks import Callback

    def on_task(key: Any, result: Any, graph: Any, state: dict[str, Any], worker: Any) -> None:
        done = len(state["finished"])
        report("looking at the scores", done, done + sum(len(state[left]) for left in ("ready", "waiting", "running")))

    context: AbstractContextManager[Any] = Callback(posttask=on_task)
    return context
