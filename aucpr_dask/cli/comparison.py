"""``aucpr-dask aggregate``, ``compare``, ``rank``, ``power`` and ``gate``: means, and questions about them."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import aucpr_dask as ap
from aucpr_dask.cli import common as cli
from aucpr_dask.cli import sources
from aucpr_dask.errors import InvalidInputError, few
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import AggregationOptions, ComparisonOptions, EvaluationOptions, ResamplingOptions

if TYPE_CHECKING:
    import xarray as xr

    from aucpr_dask.inference.gating import Gates


_auxiliary_option = cli.option(
    "--auxiliary STORE",
    "Store of the same models, evaluated with machine labels on these queries and on others that people did not label.",
)


@cli.command(
    "aucpr-dask aggregate aucpr-demo/result.zarr --dataset clef-tar",
    short_help="Average estimates over queries, data sets or classes.",
)
@click.option("--estimator", metavar="NAME", shell_complete=cli.complete_estimator, help="Rank by this estimator.")
@cli.options_of(AggregationOptions, "over", "how", "average")
@cli.method_option(
    "t bootstrap normal logit",
    "Of units: t or bootstrap; of items: normal, logit (the default over classes) or bootstrap; of both: bootstrap "
    "[default: the first].",
)
@cli.options_of(AggregationOptions, "level", "n_resamples", "seed", "incomplete")
@_auxiliary_option
@sources.takes_source("store")
@cli.evaluation_options
@cli.top_option
def aggregate(
    output: cli.Output, store: sources.Source, estimator: str | None, top: int | None, **options: Any
) -> None:
    """Average the estimates of each model of SOURCE, a store of results or scores or a table, with an interval.

    By default over queries: mean average precision (MAP), with the score interval of the mean, or Student's t of
    values that are not between 0 and 1. A score store, or a table of predictions, is evaluated first. Over classes,
    the items are the sample, and the mean has an interval on the scale of the logit.
    """
    from aucpr_dask.view.comparisons import widths
    from aucpr_dask.view.rankings import best, rank_means, rank_models, rankings_view

    means = ap.aggregate(store.open(), **options).compute()
    is_micro = "micro" in (options["how"], options["average"])
    rankings = (rank_models if is_micro else rank_means)(means, estimator)
    designs = dict.fromkeys(str(node.attrs["design"]) for _, node in terms.nodes_of(means))
    saved = widths(ratio for ranking in rankings for ratio in ranking["models"]["width_ratio"])
    output.show(rankings_view(rankings, top=top), *saved, *designs)
    shown = [best(ranking, top) for ranking in rankings]
    output.data({"store": store.place, "designs": list(designs), "rankings": shown})


_asking_options = cli.with_options(
    cli.options_of(ComparisonOptions, "estimator", "over", "level", "n_resamples", "seed", "incomplete"),
    sources.takes_source("store"),
    cli.evaluation_options,
    click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Models to show."),
)
_question_options = cli.with_options(
    _asking_options,
    click.option("--output", "target", metavar="STORE", help="Also write the answer to this store."),
    cli.overwrite_option,
)
_baseline_option = cli.option(
    "--baseline NAME",
    "Compare with this model (repeat).",
    multiple=True,
    callback=lambda _, __, names: (names[0] if len(names) == 1 else names) or None,
)


@cli.command(
    "aucpr-dask compare aucpr-demo/result.zarr --dataset clef-tar --baseline AMC",
    short_help="Compare models with each other or with baselines.",
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
@cli.option_of(ComparisonOptions, "weights")
@_auxiliary_option
@_question_options
def compare(output: cli.Output, store: sources.Source, **options: Any) -> None:
    """Compare the models of SOURCE, on the same queries, data sets or resampled items.

    SOURCE is a store of results or scores, or a table of predictions (CSV, Parquet, ...), with a column of scores for
    each model: compare predictions.csv --label y --clusters patient --by site. Without a baseline all pairs are
    compared, and each model is shown with its difference from the next.
    """
    if options["method"] != "friedman":
        _ask(output, "comparisons", ap.compare, store, **options)
        output.suggest("rank", *store.words(**cli.led_on("rank", options)))
        return
    names = {"baseline", "by", "adjust", "auxiliary", "n_resamples", "weights", "target"}
    others = {name: options.pop(name) for name in sorted(names)}
    unused = [name for name, value in others.items() if value is not None and (name != "weights" or value != "equal")]
    if unused:
        received, allowed = (
            few(unused).replace("target", "output"),
            "--over, --estimator, --level, --equivalence, --seed",
        )
        raise InvalidInputError("mean ranks have no such option", None, received, allowed, "leave them out")
    del options["method"]
    _ask(output, "comparisons", ap.friedman, store, **options | {"over": options["over"] or terms.QUERY})


@cli.command(
    "aucpr-dask contrast predictions.csv --label y --by site --reference Bern",
    short_help="Show whether a model is worse in one group of items than in another.",
)
@cli.by_option
@cli.option("--reference LABEL", "The group that all others are contrasted with [default: all pairs].")
@click.option("--baseline", metavar="NAME", help="Contrast the difference from this model, in place of the area.")
@cli.options_of(ComparisonOptions, "estimator", "level")
@cli.option_of(EvaluationOptions, "prevalence", metavar="SHARE")
@cli.option_of(EvaluationOptions, "missing", default=None, show_default="raise")
@cli.option_of(EvaluationOptions, "positive_from")
@cli.option_of(ResamplingOptions, "over", help="What is sampled [default: clusters, if there are some].")
@click.option("--adjust", type=cli.Choice(["holm", "benjamini_hochberg", "none"]), default="holm", show_default=True)
@cli.option_of(ResamplingOptions, "prevalence_design")
@sources.takes_source("store")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Contrasts to show.")
def contrast(output: cli.Output, store: sources.Source, by: tuple[str, ...] | None, top: int, **options: Any) -> None:
    """Contrast the groups of SOURCE: say whether a model is worse in one group than in another.

    SOURCE holds scores, or values per query, or is a table of predictions. With a baseline, the question is about the
    difference from it. All contrasts of all models are one family.
    """
    from aucpr_dask.inference.contrasting import contrast_rows
    from aucpr_dask.view.comparisons import contrasts_of

    if by is None:
        raise click.UsageError("Name the groups: --by COORDINATE.")
    answer = ap.contrast(store.open(), by[0] if len(by) == 1 else list(by), **options)
    documents = []
    for path, node in terms.nodes_of(answer):
        output.show(contrasts_of(path, node, top))
        documents.append({"data_set": path, "facts": node.attrs, "contrasts": contrast_rows(node)})
    output.finish({"store": store.place, "contrasts": documents})


@cli.command(
    "aucpr-dask rank aucpr-demo/result.zarr --dataset clef-tar",
    short_help="Show how well the rank of each model is known.",
)
@cli.method_option(
    "sign_flip bootstrap_t bootstrap influence",
    "Of units: sign_flip (default), bootstrap_t or bootstrap; of items: influence (default, where the estimator or an "
    "option has influences) or bootstrap.",
)
@cli.by_option
@_question_options
def rank(output: cli.Output, store: sources.Source, **options: Any) -> None:
    """Rank the models of SOURCE, a store or a table, and show which ranks each of them may have.

    A rank set holds for one model, a simultaneous one for all models; models of one group are statistically
    indistinguishable. A score store, or a table of predictions, is evaluated first.
    """
    _ask(output, "ranks", ap.rank, store, **options)
    is_read = bool({*cli.OF_EVALUATION} & {*cli.led_on("evaluate", options)})  # of which a page has no options
    command = "evaluate" if is_read else "report"
    place, *words = store.words(**cli.led_on(command, options))
    output.suggest(command, place, *(["result.zarr"] if is_read else []), *words)


@cli.command(
    "aucpr-dask power aucpr-demo/result.zarr --dataset clef-tar --baseline AMC",
    short_help="Show which differences the data can show, and how much data smaller ones need.",
)
@_baseline_option
@cli.option("--difference D", "A difference that matters: how many data does it need?", type=cli.NUMBER)
@cli.by_option
@cli.option("--power", "Probability with which it is to be shown.", type=cli.NUMBER, default=0.8, show_default=True)
@cli.method_option(
    "sign_flip bootstrap_t bootstrap t influence",
    "Of units: sign_flip (default), bootstrap_t, bootstrap or t; of items: influence (default, where the estimator or "
    "an option has influences) or bootstrap.",
)
@_asking_options
def power(output: cli.Output, store: sources.Source, **options: Any) -> None:
    """Say which differences the queries, data sets or items of SOURCE, a store or a table, can show.

    Read it before "not significant" is taken for "equal". Without a baseline, each model is shown with the next. A
    score store, or a table of predictions, is evaluated first.
    """
    _ask(output, "power", ap.power, store, **options)


# --- one question to a store ------------------------------------------------------------------------------------------


def _ask(
    output: cli.Output,
    key: str,
    question: Callable[..., terms.Scores],
    store: sources.Source,
    *,
    top: int,
    target: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Show the answers about the models of a store, write them to `target` if given, and say what was left out."""
    from aucpr_dask.view.comparisons import answers_of, of_all_groups, summarize

    ask = functools.partial(question, **options)
    answer, left_out = _ask_each(ask, store.open(), together="dataset" in str(options["over"]).split(","))
    if target is not None:
        ap.save_comparison(answer, target, overwrite=overwrite)
        answer = ap.open_comparison(target)
    documents = summarize(answer)
    output.show(*(part for said in of_all_groups(answer) for part in (said, "")))
    for place, one in enumerate(answers_of(documents, top=top)):
        output.show(*([""] if place else []), one)
    reasons: dict[str, list[str]] = {}
    for path, message in left_out.items():
        what, *parts = message.split("\n  ")
        remedies = [part.removeprefix("remedy: ") for part in parts if part.startswith("remedy: ")]
        reasons.setdefault("; ".join([what, *remedies]), []).append(path)
    for reason, paths in reasons.items():
        output.show(f"\nleft out: {', '.join(paths)}: {reason}")
    written = f"; written to {target}" if target else ""
    output.finish({"store": store.place, "output": target, key: documents, "left_out": left_out}, after=written)


def _ask_each(
    ask: Callable[[terms.Scores], terms.Scores], data: terms.Scores, *, together: bool
) -> tuple[terms.Scores, dict[str, str]]:
    """Ask about each data set on its own; return the answers, and the errors of the data sets that have none."""
    import xarray as xr

    from aucpr_dask.inference.sentences import with_families

    if together or isinstance(data, xr.Dataset):
        return ask(data), {}
    answers: dict[str, xr.Dataset] = {}
    errors: dict[str, InvalidInputError] = {}
    told: dict[tuple[str, type[Warning]], list[str]] = {}
    for path, node in terms.nodes_of(data):
        with warnings.catch_warnings(record=True) as caught:
            try:
                answers |= terms.nodes_of(ask(xr.DataTree.from_dict({path: node})))
            except InvalidInputError as error:
                errors[path] = error
        for one in caught:
            told.setdefault((str(one.message), one.category), []).append(path)
    for (text, kind), paths in told.items():
        warnings.warn(f"{few(paths)}: {text}", kind, stacklevel=2)
    if not answers:
        raise next(iter(errors.values()))
    return with_families(xr.DataTree.from_dict(answers)), {path: str(error) for path, error in errors.items()}


# --- gate -------------------------------------------------------------------------------------------------------------


@cli.command(
    "aucpr-dask gate new.csv main.csv --item id --margin 0.01",
    short_help="Exit with 0 only if a candidate is not worse than a baseline.",
)
@click.option("--candidate", "candidates", multiple=True, metavar="NAME", help="Judge this model (repeat).")
@click.option("--baseline", metavar="NAME", help="The model that it would replace.")
@cli.option(
    "--margin FLOAT",
    "How much worse a candidate may be and still pass.",
    type=cli.Share(min=0),
    default=0.0,
    show_default=True,
)
@cli.options_of(ComparisonOptions, "level", "estimator", "over")
@cli.method_option(
    "sign_flip bootstrap_t bootstrap t random_effects influence rank_swap",
    "Of units: sign_flip (default), bootstrap_t, bootstrap, t or random_effects (default over data sets whose "
    "variances are known); of items: influence (default, where the estimator or an option has influences), "
    "bootstrap or rank_swap.",
)
@cli.options_of(ComparisonOptions, "weights", "n_resamples", "seed", "incomplete")
@cli.by_option
@sources.takes_source("sources", nargs=-1, required=True, metavar="SOURCE...")
@cli.evaluation_options
@click.option("--markdown", is_flag=True, help="Print a table in Markdown, for the summary of a job.")
def gate(output: cli.Output, source: sources.Source, markdown: bool, **options: Any) -> None:
    """Judge whether candidates are better, or not worse by more than a margin, than a baseline.

    SOURCE is a store of results or of scores, or a table (CSV, TSV, Parquet) with a column of scores for each model, or
    with values of models. Or give a table for each model, matched by --item: the last is the baseline, and models are
    named after their files.

    Exit codes: 0 all candidates passed, 1 some are worse, 2 the input is wrong, 3 there are too few data to tell.
    """
    from aucpr_dask.inference.gating import Gates
    from aucpr_dask.inference.sentences import WORSE

    names = options.pop("candidates"), options.pop("baseline")
    data, candidates, baseline = _models(source, *names, is_quiet=markdown)
    gates = ap.gate(data, candidates, baseline, **options)
    if not isinstance(gates, Gates):
        raise TypeError("a list of candidates has a list of gates")
    output.show(*([_markdown(gates)] if markdown else str(gates).splitlines()), fold=False)
    output.data({"sources": source.places, "passed": gates.passed, "verdict": gates.verdict, "gates": list(gates)})
    if not gates.passed:
        click.get_current_context().exit(cli.FAILED if gates.verdict == WORSE else cli.CANNOT_TELL)


def _markdown(gates: Gates) -> str:
    """Return a table with a row for each candidate, as summaries of jobs show it; no text in it is read as markup."""
    from aucpr_dask.inference.sentences import sentence
    from aucpr_dask.view.tables import markdown_rows, number, signed

    first = gates[0]
    level = f"{terms.level_in_words(first.level)} interval"
    rows = [["candidate", "verdict", terms.in_words(first.measure), first.baseline, "difference", level, "detectable"]]
    for gate in gates:
        name = ": ".join(filter(None, [gate.group, gate.candidate]))
        row = [name, gate.verdict, *map(number, gate.estimates)]
        row += [signed(gate.difference), " to ".join(map(signed, gate.interval)), f"{gate.detectable:.2g}"]
        rows.append(row)

    def escaped(text: str) -> str:
        return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))

    table = [[escaped(cell) for cell in row] for row in rows]
    passed = next((gate.caveat for gate in gates if gate.passed and gate.caveat), "")
    notes = [f"Margin {first.margin:g}. Design: {first.design}."]
    notes += [sentence(gaps) for gaps in dict.fromkeys(gate.gaps for gate in gates) if gaps]
    notes += [f"What a pass may miss: {passed}."] if passed else []
    return "\n".join([*markdown_rows(table, "---:"), "", escaped(" ".join(notes))])


def _models(
    source: sources.Source, candidates: tuple[str, ...], baseline: str | None, *, is_quiet: bool
) -> tuple[terms.Scores, tuple[str, ...], str]:
    """Return the data, and the names of the candidates and of the baseline."""
    first, *others = source.places
    if not others and not (candidates and baseline):
        where, remedy = "options '--candidate' and '--baseline'", "add --candidate NAME and --baseline NAME"
        raise InvalidInputError("name the models to compare", where, f"{first} alone", "names of models", remedy)
    if not source.is_table:
        if others:
            what, received = "a store stands alone: its models are named by options", " ".join(source.places)
            allowed, remedy = "one store, or a table for each model", "add --candidate NAME and --baseline NAME"
            raise InvalidInputError(what, first, received, allowed, remedy)
        return source.open(), candidates, str(baseline)
    if not others and source.holds != "predictions":
        return source.open(is_quiet=is_quiet), candidates, str(baseline)
    if not others:
        named = {} if "model" in source.columns else {"models": [*candidates, str(baseline)]}
        scores = source.of_tables(is_quiet=is_quiet, **named)  # a summary of a job has the table alone
        return scores, candidates, str(baseline)
    data = source.of_tables(is_quiet=True, models=source.columns.get("score", "score"))
    ((_, node),) = terms.nodes_of(data)
    names = [str(name) for name in node["model"].values]
    baseline = baseline or names[-1]
    return data, candidates or tuple(name for name in names if name != baseline), baseline
