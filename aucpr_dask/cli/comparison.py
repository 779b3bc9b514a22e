"""``aucpr-dask aggregate``, ``compare`` and ``rank``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import aucpr_dask as ap
from aucpr_dask.cli import common as cli
from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import AggregationOptions, ComparisonOptions, EvaluationOptions

if TYPE_CHECKING:
    import xarray as xr


@cli.command(
    "aucpr-dask aggregate aucpr-demo/result.zarr --data-set clef-tar",
    short_help="Average estimates over queries, data sets or classes.",
    context_settings=cli.old_flags(machine="auxiliary"),
)
@click.argument("store")
@click.option("--estimator", metavar="NAME", shell_complete=cli.complete_estimator, help="Rank by this estimator.")
@cli.options_of(AggregationOptions, "over", "how", "average", "sample")
@cli.method_option(
    "t bootstrap normal logit",
    "Of units: t or bootstrap; of items: normal, logit (the default over classes) or bootstrap; of both: bootstrap "
    "[default: the first].",
)
@cli.options_of(AggregationOptions, "level", "n_resamples", "seed", "incomplete")
@cli.auxiliary_option
@cli.data_sets_option
@cli.with_options(*cli.reading_options(), *cli.design_options())
@cli.top_option
@cli.output_option
def aggregate(
    output: cli.Output,
    store: str,
    estimator: str | None,
    data_sets: tuple[str, ...],
    top: int | None,
    auxiliary: str | None,
    **options: Any,
) -> None:
    """Average the estimates of each model of the result store STORE, with an interval.

    By default over queries: mean average precision (MAP), and Student's t interval of the mean. A score store is
    evaluated first. Over classes, the items are the sample, and the mean has an interval on the scale of the logit.
    """
    from aucpr_dask.view.comparisons import widths
    from aucpr_dask.view.rankings import best, rank_means, rank_models, rankings_view

    options["auxiliary"] = None if auxiliary is None else cli.open_any(auxiliary, data_sets)
    means = ap.aggregate(cli.open_any(store, data_sets), **cli.given(options)).compute()
    is_micro = "micro" in (options["how"], options["average"])
    rankings = (rank_models if is_micro else rank_means)(means, estimator)
    designs = dict.fromkeys(str(node.attrs["design"]) for _, node in terms.nodes_of(means))
    saved = widths(ratio for ranking in rankings for ratio in ranking["models"]["width_ratio"])
    output.show(rankings_view(rankings, output.width, top=top, ascii_only=output.ascii_only), *saved, *designs)
    output.data({"store": store, "designs": list(designs), "rankings": [best(ranking, top) for ranking in rankings]})


_asking_options = cli.with_options(
    click.argument("store"),
    cli.options_of(ComparisonOptions, "estimator", "over", "sample", "level", "n_resamples", "seed", "incomplete"),
    cli.data_sets_option,
    *cli.reading_options(),
    *cli.design_options(),
    click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Models to show."),
)
_question_options = cli.with_options(
    _asking_options,
    click.option("--output", "target", metavar="STORE", help="Also write the answer to this store."),
    cli.overwrite_option,
    cli.output_option,
)
_baseline_option = click.option(
    "--baseline",
    multiple=True,
    metavar="NAME",
    callback=lambda _, __, names: (names[0] if len(names) == 1 else names) or None,
    help="Compare with this model (repeat).",
)


@cli.command(
    "aucpr-dask compare aucpr-demo/result.zarr --data-set clef-tar --baseline AMC",
    short_help="Compare models with each other or with baselines.",
    context_settings=cli.old_flags(machine="auxiliary"),
)
@_baseline_option
@cli.method_option(
    "sign_flip bootstrap_t bootstrap t wilcoxon random_effects friedman influence rank_swap",
    "Of units: sign_flip (default), bootstrap_t, bootstrap, t or wilcoxon; random_effects (default over data sets "
    "whose variances are known: scores, replicates, or ten queries each); of items: influence (default, where the "
    "estimator or an option has influences), bootstrap or rank_swap. friedman tests mean ranks of all models.",
)
@cli.option_of(ComparisonOptions, "adjust")
@cli.by_option
@cli.option_of(ComparisonOptions, "equivalence", metavar="MARGIN")
@cli.auxiliary_option
@_question_options
def compare(output: cli.Output, store: str, auxiliary: str | None, data_sets: tuple[str, ...], **options: Any) -> None:
    """Compare the models of the result store STORE, on the same queries, data sets or resampled items.

    Without a baseline all pairs are compared, and each model is shown with its difference from the next. A score
    store is evaluated first.
    """
    options["auxiliary"] = None if auxiliary is None else cli.open_any(auxiliary, data_sets)
    if options["method"] == "friedman":
        asked = {name: value for name, value in cli.given(options).items() if name != "method" and value is not None}
        if "target" in asked:
            asked["output"] = asked.pop("target")
        others = ("baseline", "by", "adjust", "sample", "auxiliary", "n_resamples", "output")
        if unused := [name for name in others if name in asked]:
            allowed, remedy = "--over, --estimator, --level, --equivalence, --seed", "leave them out"
            raise InvalidInputError("mean ranks have no such option", None, few(unused), allowed, remedy)
        _ask(output, "comparisons", ap.friedman, store, data_sets, **asked)
        return
    answer = _ask(output, "comparisons", ap.compare, store, data_sets, **options)
    for _, node in terms.nodes_of(answer):
        output.show(*([node.attrs["summary"]] if "summary" in node.attrs else []))
    output.suggest("rank", store)


@cli.command(
    "aucpr-dask rank aucpr-demo/result.zarr --data-set clef-tar",
    short_help="Show how well the rank of each model is known.",
)
@cli.method_option(
    "sign_flip bootstrap_t bootstrap influence",
    "Of units: sign_flip (default), bootstrap_t or bootstrap; of items: influence (default, where the estimator or an "
    "option has influences) or bootstrap.",
)
@cli.by_option
@_question_options
def rank(output: cli.Output, store: str, data_sets: tuple[str, ...], **options: Any) -> None:
    """Rank the models of the result store STORE and show which ranks each of them may have.

    A rank set holds for one model, "all at once" for all models together; models of one group are statistically
    indistinguishable. A score store is evaluated first.
    """
    _ask(output, "ranks", ap.rank, store, data_sets, **options)
    output.suggest(*(["report", store] if cli.is_result(store) else ["evaluate", store, "result.zarr"]))


@cli.command(
    "aucpr-dask power aucpr-demo/result.zarr --data-set clef-tar --baseline AMC",
    short_help="Show which differences the data can show, and how much data smaller ones need.",
)
@_baseline_option
@click.option("--difference", type=float, metavar="D", help="A difference that matters: how many data does it need?")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability with which it is to be shown.")
@cli.method_option(
    "sign_flip bootstrap_t bootstrap t influence",
    "Of units: sign_flip (default), bootstrap_t, bootstrap or t; of items: influence (default, where the estimator or "
    "an option has influences) or bootstrap.",
)
@_asking_options
@cli.output_option
def power(output: cli.Output, store: str, data_sets: tuple[str, ...], **options: Any) -> None:
    """Say which differences the queries, data sets or items of STORE can show.

    Read it before "not significant" is taken for "equal". Without a baseline, each model is shown with the next. A
    score store is evaluated first.
    """
    _ask(output, "power", ap.power, store, data_sets, **options)


@cli.command(
    "aucpr-dask table runs/*.gz --qrels qrels.txt --measures 'AP nDCG@10'",
    short_help="Make the table of a paper, with letters of significance.",
)
@click.argument("sources", nargs=-1, required=True, metavar="STORE|RUNS...")
@click.option("--qrels", metavar="FILE", help="The judgments of TREC runs.")
@click.option("--measures", metavar="NAMES", help="What to compute of runs by ir_measures, such as 'AP nDCG@10 RR'.")
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    metavar="NAME",
    help="Of runs, without ir_measures (repeat): 'precision_at(10)'.  [default: average_precision]",
)
@cli.option_of(EvaluationOptions, "positive_from")
@cli.data_sets_option
@cli.method_option("sign_flip bootstrap_t bootstrap t wilcoxon influence", "As in compare.")
@cli.options_of(ComparisonOptions, "adjust", "level", "n_resamples", "seed", "incomplete")
@click.option("--intervals", is_flag=True, help="Show the interval of each mean.")
@click.option("--output", "path", metavar="FILE", help="Also write the table: FILE.tex or FILE.md.")
@click.option("--label", default="tab:results", show_default=True, help="Of a LaTeX table.")
@cli.overwrite_option
@cli.output_option
def table(
    output: cli.Output,
    sources: tuple[str, ...],
    qrels: str | None,
    measures: str | None,
    estimators: tuple[str, ...],
    positive_from: int | None,
    data_sets: tuple[str, ...],
    path: str | None,
    label: str,
    overwrite: bool,
    **options: Any,
) -> None:
    """Show the mean of each model by each measure, with letters for the models that are significantly worse.

    Of the result store STORE; or of TREC RUNS, one model each, and their judgments.
    """
    import tempfile

    from rich.text import Text

    is_of_runs = measures is not None or bool(estimators) or positive_from is not None
    if qrels is None and (is_of_runs or len(sources) > 1):
        raise click.UsageError("Runs need their judgments: --qrels FILE.")
    if measures is not None and (estimators or positive_from is not None):
        raise click.UsageError("--measures says all: 'AP(rel=2) P(rel=2)@10', without --estimator and --positive-from.")
    with tempfile.TemporaryDirectory(prefix="aucpr-dask-") as folder:
        if qrels is None:
            data = cli.open_any(sources[0], data_sets)
        else:
            from aucpr_dask.interplay.retrieval import import_measures
            from aucpr_dask.scores.importing.trec import import_trec

            scores, values = f"{folder}/scores.zarr", f"{folder}/values.zarr"
            import_trec(list(sources), qrels, scores)
            if measures is not None:
                import_measures(list(sources), qrels, scores, values, measures)
                data = ap.open_result(values)
            else:
                of_runs = dict[str, Any](convention="trec_eval", positive_from=positive_from, intervals=())
                data = ap.evaluate(ap.open_scores(scores), list(estimators) or "average_precision", **of_runs)
        nodes = list(terms.nodes_of(data))
        if len(nodes) != 1:
            raise click.UsageError(f"A table is of one data set, and there are {len(nodes)}: --data-set NAME.")
        made = ap.letters(nodes[0][1].load(), **cli.given(options))
    if path is not None:
        made.save(path, label=label, overwrite=overwrite)
    written = f"; written to {path}" if path else ""
    output.show(*made.sheet().as_text(output.width), Text(""), made.caption, f"{output.seconds:.1f} s{written}")
    rows = [
        {"letter": letter, "model": model, "means": dict(made.means.iloc[i]), "worse": dict(made.worse.iloc[i])}
        for i, (letter, model) in enumerate(made.names.items())
    ]
    output.data({"source": list(sources), "caption": made.caption, "models": rows, "output": path})


def _ask(
    output: cli.Output,
    key: str,
    question: Callable[..., terms.Scores],
    store: str,
    data_sets: tuple[str, ...],
    *,
    top: int,
    target: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> terms.Scores:
    """Show the answers about the models of a store, write them to `target` if given, and say what was left out."""
    from aucpr_dask.view.comparisons import answer_of, summarize

    data, asked = cli.open_any(store, data_sets), cli.given(options)
    answer, left_out = _ask_each(lambda part: question(part, **asked), data, together=options["over"] != terms.QUERY)
    if target is not None:
        ap.save_comparison(answer, target, overwrite=overwrite)
        answer = ap.open_comparison(target)
    documents = summarize(answer)
    for place, one in enumerate(documents):
        output.show(*([""] if place else []), answer_of(one, output.width, top=top).as_text(output.width))
    reasons: dict[str, list[str]] = {}
    for path, message in left_out.items():
        what, *parts = message.split("\n  ")
        remedies = [part.removeprefix("remedy: ") for part in parts if part.startswith("remedy: ")]
        reasons.setdefault("; ".join([what, *remedies]), []).append(path)
    for reason, paths in reasons.items():
        output.show(f"\nleft out: {', '.join(paths)}: {reason}")
    written = f"; written to {target}" if target else ""
    output.show(f"{output.seconds:.1f} s{written}", fold=False)
    output.data({"store": store, "output": target, key: documents, "left_out": left_out, "seconds": output.seconds})
    return answer


def _ask_each(
    ask: Callable[[terms.Scores], terms.Scores], data: terms.Scores, *, together: bool
) -> tuple[terms.Scores, dict[str, str]]:
    """Ask about each data set on its own; return the answers, and the errors of the data sets that have none."""
    import xarray as xr

    if together or isinstance(data, xr.Dataset):
        return ask(data), {}
    answers: dict[str, xr.Dataset] = {}
    errors: dict[str, InvalidInputError] = {}
    for path, node in terms.nodes_of(data):
        try:
            answers |= terms.nodes_of(ask(xr.DataTree.from_dict({path: node})))
        except InvalidInputError as error:
            errors[path] = error
    if not answers:
        raise next(iter(errors.values()))
    return xr.DataTree.from_dict(answers), {path: str(error) for path, error in errors.items()}
