"""``aucpr-dask info`` and ``verify``; and what writes files and pages: ``export``, ``table``, ``audit``, ``report``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

import aucpr_dask as ap
from aucpr_dask.cli import common as cli
from aucpr_dask.cli import sources
from aucpr_dask.errors import ForeignStoreError, StoreError, few
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import ComparisonOptions, EvaluationOptions, ReportOptions

if TYPE_CHECKING:
    from aucpr_dask.interplay.recognising import Recognised

SILENT_SECONDS = 2.0


@cli.command(
    "aucpr-dask info aucpr-demo/scores.zarr", short_help="Show what a store or table holds, and anything unusual."
)
@click.argument("store")
@sources.dataset_option
@cli.option_of(EvaluationOptions, "positive_from", metavar="GRADE")
def info(output: cli.Output, store: str, dataset: tuple[str, ...], positive_from: int | None) -> None:
    """Show the contents of the store STORE (scores, results or comparisons) and report anything unusual.

    Of a file (a table, a TREC run, judgments) or a Zarr store of another program, say what its columns or variables are
    taken for, and why, and which commands answer what about it.

    For scores: sizes, prevalence, missing scores, and warnings such as inverted polarity or heavy ties; every
    ranking is evaluated once to find them. For results: options, warnings, and the best models. For the output of
    compare or rank: sizes, variables, and what was resampled.
    """
    from aucpr_dask.view import stores
    from aucpr_dask.view.rankings import MOST_DATA_SETS

    summary: Any
    source = sources.Source(output, (store,), dataset)
    if source.is_table:
        from aucpr_dask.interplay.recognising import recognise

        if dataset or positive_from is not None:
            raise click.UsageError("--dataset and --positive-from are options of stores, and this is a file.")
        _show_recognised(output, recognise(store))
        return
    kind = source.kind
    if kind == terms.RESULT:
        most = None if output.as_json else MOST_DATA_SETS
        summary = stores.summarize_result(terms.select_data_sets(ap.open_result(store), dataset), store, most)
        output.show(stores.result_view(summary))
    elif kind == terms.COMPARISON:
        answers = stores.summarize_answers(terms.select_data_sets(ap.open_comparison(store), dataset))
        output.show(stores.answers_view(answers, store))
        output.data({"store": store, "kind": kind, "data_sets": answers})
        return
    else:
        try:
            scores = terms.select_data_sets(sources.open_scores(store), dataset)
        except ForeignStoreError:
            from aucpr_dask.interplay.recognising import recognise_archive

            found = recognise_archive(store)
            if dataset or not found.commands:
                raise
            _show_recognised(output, found)
            return
        with output.progress(after=SILENT_SECONDS) as report, ExitStack() as watched:
            if "dask" in sys.modules:
                from dask.callbacks import Callback

                def on_task(key: Any, result: Any, graph: Any, state: dict[str, Any], worker: Any) -> None:
                    done, left = len(state["finished"]), sum(len(state[one]) for one in ("ready", "waiting", "running"))
                    report("looking at the scores", done, done + left)

                watched.enter_context(Callback(posttask=on_task))
            summary = stores.summarize_scores(scores, store, positive_from=positive_from)
        output.show(stores.scores_view(summary))
        place, *words = source.words()
        output.suggest("evaluate", place, "result.zarr", *words)
    output.data({"store": store, **summary})


def _show_recognised(output: cli.Output, found: Recognised) -> None:
    output.show(str(found), fold=False)
    output.data(asdict(found))


@cli.command("aucpr-dask verify aucpr-demo/scores.zarr", short_help="Look for damage in a store.")
@click.argument("store")
def verify(output: cli.Output, store: str) -> None:
    """Read the store STORE (scores, results or comparisons) from end to end and list what is missing or damaged.

    Every chunk is decoded and compared with the checksum listed for its place, and every ranking of scores with its
    digest. Of results, it says which versions computed them. Chunks of a Zarr store of another program are decoded.
    Exit code 0: all is as it was written; 2: something is missing or damaged.
    """
    from aucpr_dask.runs.ledger import computed_by
    from aucpr_dask.scores.store import changed_rankings
    from aucpr_dask.storage.code_versions import in_words
    from aucpr_dask.storage.verifying import damage_of, damage_of_others

    kind = sources.kind_of(store)
    n_absent, n_rankings, changed = 0, 0, list[str]()
    with output.progress(after=SILENT_SECONDS) as report:
        if kind == sources.ARCHIVE:
            n_chunks, damage, n_absent = damage_of_others(store, partial(report, "arrays"))
            checked = False
        else:
            n_chunks, damage, checked = damage_of(store, partial(report, "arrays"))
        if kind == terms.SCORES and not damage:
            n_rankings, changed = changed_rankings(store, partial(report, "rankings"))
    by = computed_by(store) if kind == terms.RESULT else []
    found = {"has_checksums": checked, "n_chunks": n_chunks, "n_rankings": n_rankings, "computed_by": by}
    found |= {"n_absent": n_absent}
    output.data({"store": store} | found | {"damage": list(map(str, damage)), "changed_rankings": changed})
    for error in damage:
        output.show(str(error), fold=False)
    if damage or changed:
        received = f"other scores or labels than were saved: {few(changed)}"
        if damage:
            received = f"{len(damage)} of {n_chunks:,} chunks missing or damaged"
        raise StoreError("the store is damaged", store, received, remedy="fetch or write it again")
    parts = [f"{n_chunks:,} chunks " + ("match their checksums" if checked else "can be decoded")]
    parts += [f"{n_rankings:,} rankings match their digests"] if n_rankings else []
    output.show(f"{store} is undamaged: {', '.join(parts)}.")
    for one in by:
        output.show(f"{few(one['parts'])}: computed by {in_words(one['code'])}", fold=False)
    if n_absent:
        output.show(f"{n_absent:,} others are absent, and read as the value that their arrays name for that.")
    if kind == sources.ARCHIVE:
        output.show("Another program wrote it, without checksums of places: a chunk that was exchanged is not noticed.")
    elif not checked:
        old = "It has no checksums: a missing chunk may not be noticed."
        output.show(f"{old} Write it again to add them.")


# Repeated here, so that --help does not import the writers.
FORMATS = ("parquet", "csv", "json", "trec_eval", "trec_run")


@cli.command(
    "aucpr-dask export aucpr-demo/result.zarr areas.csv",
    short_help="Write a store as tables or TREC files for other programs.",
)
@click.argument("store")
@click.argument("path", type=click.Path())
@cli.option(
    "--format",
    "trec_eval: a file for each model; trec_run: runs and qrels of a score store [default: from the suffix of PATH].",
    "format",
    type=cli.Choice(FORMATS),
)
@click.option("--wide", is_flag=True, help="For tables: a column for each model [default: a row for each estimate].")
@sources.dataset_option
@cli.overwrite_option
def export(output: cli.Output, store: str, path: str, dataset: tuple[str, ...], wide: bool, **options: Any) -> None:
    """Write the store STORE to PATH: a table (.parquet, .csv or .json), or what --format names.

    A table has one row per data set, model, query and estimator, with both bounds of every interval; that of a
    comparison, or of ranks, one for each pair or model.
    """
    is_answer = sources.kind_of(store) == terms.COMPARISON
    data = terms.select_data_sets(ap.open_comparison(store), dataset) if is_answer else sources.open_any(store, dataset)
    ap.export(data, path, tidy=not wide, **options)
    output.finish({"store": store, "path": path}, f"{path}: ")


@cli.command(
    "aucpr-dask table runs/*.gz --qrels qrels.txt --measures 'AP nDCG@10'",
    short_help="Make the table of a paper, with letters of significance.",
)
@click.argument("files", nargs=-1, required=True, metavar="STORE|RUNS...")
@click.option("--qrels", metavar="FILE", help="The judgments of TREC runs.")
@click.option("--measures", metavar="NAMES", help="What to compute of runs by ir_measures, such as 'AP nDCG@10 RR'.")
@cli.option(
    "--estimator NAME",
    "Of runs, without ir_measures (repeat): 'precision_at(10)'.  [default: average_precision]",
    "estimators",
    multiple=True,
)
@cli.option_of(EvaluationOptions, "positive_from")
@sources.dataset_option
@cli.method_option("sign_flip bootstrap_t bootstrap t wilcoxon influence", "As in compare.")
@cli.options_of(ComparisonOptions, "adjust", "level", "n_resamples", "seed", "incomplete")
@click.option("--intervals", is_flag=True, help="Show the interval of each mean.")
@click.option("--output", "path", metavar="FILE", help="Also write the table: FILE.tex, .md or .csv.")
@click.option("--label", default="tab:results", show_default=True, help="Of a LaTeX table.")
@cli.columns_of_values(cli.OF_TABLE)
@cli.overwrite_option
def table(output: cli.Output, files: tuple[str, ...], qrels: str | None, measures: str | None, **options: Any) -> None:
    """Show the mean of each model by each measure, with letters for the models that are significantly worse.

    Of the result store STORE, or a table of values; or of TREC RUNS, one model each, and their judgments.
    """
    import tempfile

    columns = {name: options.pop(f"{cli.OF_TABLE}{own}") for name, own in sources.OF_VALUES.items()}
    estimators, positive_from, dataset, path = map(options.pop, ("estimators", "positive_from", "dataset", "path"))
    saving = {name: options.pop(name) for name in ("label", "overwrite")}
    is_of_runs = measures is not None or bool(estimators) or positive_from is not None or len(files) > 1
    source = sources.Source(
        output, files, dataset, {name: one for name, one in columns.items() if one not in (None, ())}
    )
    if qrels is None and (is_of_runs or (source.is_table and source.holds == "predictions")):
        raise click.UsageError("Runs need their judgments: --qrels FILE.")
    if measures is not None and (estimators or positive_from is not None):
        raise click.UsageError("--measures says all: 'AP(rel=2) P(rel=2)@10', without --estimator and --positive-from.")
    notes: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="aucpr-dask-") as folder:
        if qrels is None:
            data = source.open()
        else:
            from aucpr_dask.interplay.retrieval import import_measures
            from aucpr_dask.scores.importing.trec import import_trec

            scores, values = f"{folder}/scores.zarr", f"{folder}/values.zarr"
            imported = import_trec(list(files), qrels, scores)
            output.show(str(imported), fold=False)
            notes = imported.notes
            if measures is not None:
                import_measures(list(files), qrels, scores, values, measures)
                data = ap.open_result(values)
            else:
                of_runs = dict[str, Any](convention="trec_eval", positive_from=positive_from, interval=())
                data = ap.evaluate(ap.open_scores(scores), estimator=list(estimators) or "average_precision", **of_runs)
        nodes = list(terms.nodes_of(data))
        if len(nodes) != 1:
            raise click.UsageError(f"A table is of one data set, and there are {len(nodes)}: --dataset NAME.")
        made = ap.letters(nodes[0][1].load(), **options)
    if path is not None:
        made.save(path, **saving)
    written = f"; written to {path}" if path else ""
    output.show(made.sheet(), "", made.caption)
    rows = [
        {"letter": letter, "model": model, "means": dict(made.means.iloc[i]), "worse": dict(made.worse.iloc[i])}
        for i, (letter, model) in enumerate(made.names.items())
    ]
    found = {"source": list(files), "notes": notes, "caption": made.caption, "models": rows, "output": path}
    output.finish(found, after=written)


@cli.command(
    "aucpr-dask audit leaderboard.csv --output audit.html",
    short_help="Audit a leaderboard: a table of models and tasks.",
)
@click.argument("table")
@click.option("--output", "page", type=click.Path(path_type=Path), metavar="FILE", help="Also write the page FILE.")
@cli.columns_of_values()
@click.option("--unit-name", metavar="NOUN", help="What one column of the table is.  [default: task, or as stored]")
@sources.dataset_option
@cli.option_of(ComparisonOptions, "estimator")
@cli.option_of(ComparisonOptions, "over", type=cli.Choice(["query", "dataset"]))
@cli.method_option("sign_flip bootstrap_t bootstrap", "By default sign_flip, as compare and rank.")
@cli.options_of(ComparisonOptions, "level", "n_resamples", "seed")
@cli.option_of(
    ComparisonOptions,
    "incomplete",
    default=None,
    help="What to leave out where cells are empty; by default whichever keeps more of the table.",
)
@click.option("--title", default="Leaderboard audit", show_default=True, help="Heading of the page.")
@click.option("--top", type=click.IntRange(min=1), default=15, show_default=True, help="Models to show.")
@cli.overwrite_option
def audit(
    output: cli.Output, table: str, page: Path | None, dataset: tuple[str, ...], top: int, **options: Any
) -> None:
    """Say which places of the leaderboard TABLE are more than chance, and which tasks decide them.

    TABLE is a file (CSV, TSV, Parquet, JSON, Markdown or HTML) with a column of models and a column for each task, or a
    store of results. Means, ranks, sizes and text are not taken as tasks. Empty cells are never filled in.
    """
    from aucpr_dask.view.report.auditing import audit_view

    values = table if Path(table).is_file() else sources.open_any(table, dataset)
    made = ap.audit(values, page, **options)
    output.show(audit_view(made, top=top))
    names = ("estimate", "rank", "simultaneous_rank_interval", "p_adjusted_from_next", "new_unit_rank_interval")
    models = {str(name): made.findings[name].values for name in ("model", *names)}
    found = {"verdict": dict(made.verdict), "facts": made.findings.attrs, "models": models}
    written = "" if page is None else f"; written to {page}"
    output.finish({"table": table, "page": page and str(page)} | found, after=written)


@cli.command(
    "aucpr-dask report aucpr-demo/result.zarr report.html --overwrite",
    short_help="Write results, or scores, as one HTML page.",
)
@sources.takes_source("result")
@click.argument("page", type=click.Path(path_type=Path), required=False)
@click.option("--scores", metavar="STORE", help="The scores that were evaluated: adds curves and comparisons.")
@cli.by_option
@cli.options_of(ReportOptions, *ReportOptions.__dataclass_fields__)
@cli.overwrite_option
def report(output: cli.Output, result: sources.Source, page: Path | None, scores: str | None, **options: Any) -> None:
    """Write SOURCE as the HTML file PAGE, which opens in any browser without a network.

    SOURCE is a store of results, a table of values, or scores, which are evaluated: a store, a Zarr store of another
    program, or a table of predictions (CSV, Parquet, ...): report predictions.csv --label y. With --by and --baseline,
    the page shows in which groups models lose.

    It holds leaderboards to sort, filter and search, the comparison of any two models, an explanation of the numbers
    and their provenance, and the tables as CSV. By default PAGE is in this folder and named like the store: result.html
    for result.zarr.
    """
    page = Path(PurePosixPath(result.place).stem + ".html") if page is None else page
    of_scores = None if scores is None else ap.open_scores(scores)
    written = ap.report(result.open(), page, scores=of_scores, **options)
    size = written.stat().st_size
    found = {"result": result.place, "page": str(written), "bytes": size}
    output.finish(found, f"{written}: {size / 1e6:.1f} MB, ", "; open it in a browser")
