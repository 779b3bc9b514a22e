"""``aucpr-dask gate``: whether a candidate may replace a baseline, as an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli.common import CANNOT_TELL, FAILED, Output, open_any, output_option
from aucpr_dask.cli.completion import complete_estimator
from aucpr_dask.cli.options import (
    Choice,
    data_sets_option,
    example,
    given,
    level_option,
    option_of,
    reading_options,
    with_options,
)
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.options import ComparisonOptions

if TYPE_CHECKING:
    from aucpr_dask.schema.trees import Scores

_table_options = with_options(
    click.option("--label", default="label", show_default=True, metavar="COLUMN", help="Of a table: its labels."),
    click.option("--positive", metavar="VALUE", help="The label that means positive, if labels are not 1 and 0."),
    click.option("--item", metavar="COLUMN", help="Of a table: the names of the items, by which several are matched."),
    click.option("--query", metavar="COLUMN", help="Of one table: the queries, which are ranked separately."),
    click.option(
        "--score", default="score", show_default=True, metavar="COLUMN", help="Of several tables: the scores."
    ),
)


@click.command(
    short_help="Exit with 0 only if a candidate is not worse than a baseline.",
    epilog=example("aucpr-dask gate new.csv main.csv --item id --margin 0.01 --junit gate.xml"),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--candidate", "candidates", multiple=True, metavar="NAME", help="Judge this model (repeat).")
@click.option("--baseline", metavar="NAME", help="The model that it would replace.")
@click.option(
    "--margin", type=float, default=0.0, show_default=True, help="How much worse a candidate may be and still pass."
)
@level_option
@option_of(ComparisonOptions, "estimator", metavar="NAME", shell_complete=complete_estimator)
@option_of(ComparisonOptions, "over")
@option_of(ComparisonOptions, "sample")
@click.option(
    "--method",
    type=Choice(["sign_flip", "bootstrap_t", "bootstrap", "t", "influence"]),
    help="Of units: sign_flip, bootstrap_t, bootstrap or t; of items: bootstrap or influence [default: the first; "
    "influence for scores, or bootstrap where the estimator or an option has no influences].",
)
@option_of(ComparisonOptions, "n_resamples", "--resamples", metavar="N")
@option_of(ComparisonOptions, "seed")
@option_of(ComparisonOptions, "incomplete")
@data_sets_option
@_table_options
@with_options(*reading_options(note="scores only"))
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Also write the verdicts as JUnit XML.")
@click.option("--markdown", is_flag=True, help="Print a table in Markdown, for the summary of a job.")
@output_option
def gate(
    output: Output,
    sources: tuple[str, ...],
    candidates: tuple[str, ...],
    baseline: str | None,
    margin: float,
    data_sets: tuple[str, ...],
    junit: Path | None,
    markdown: bool,
    **options: Any,
) -> None:
    """Judge whether candidates are better, or not worse by more than a margin, than a baseline.

    SOURCE is a store of results or of scores, or a table (CSV, TSV, Parquet) with a column of scores for each model.
    Or give a table for each model, matched by --item: the last is the baseline, and models are named after their
    files.

    Exit codes: 0 all candidates passed, 1 some are worse, 2 the input is wrong, 3 there are too few data to tell.
    """
    from aucpr_dask.inference.gating import WORSE, Gates
    from aucpr_dask.inference.gating import gate as judge
    from aucpr_dask.interplay.exporting import refuse_folder
    from aucpr_dask.interplay.verdicts import as_markdown, write_junit

    if junit is not None:
        refuse_folder(junit)
    of_table = {name: options.pop(name) for name in ("label", "positive", "item", "query", "score")}
    data, candidates, baseline = _models(sources, candidates, baseline, data_sets, of_table)
    gates = judge(data, candidates, baseline, margin, **given(options))
    if not isinstance(gates, Gates):
        raise TypeError("a list of candidates has a list of gates")
    if junit is not None:
        write_junit(gates, junit)
    output.show(*([as_markdown(gates).rstrip()] if markdown else [*map(repr, gates), gates[0].design]), fold=False)
    output.data({"sources": sources, "passed": gates.passed, "verdict": gates.verdict, "gates": list(gates)})
    if not gates.passed:
        click.get_current_context().exit(FAILED if gates.verdict == WORSE else CANNOT_TELL)


def _models(
    sources: tuple[str, ...],
    candidates: tuple[str, ...],
    baseline: str | None,
    data_sets: tuple[str, ...],
    of_table: dict[str, str | None],
) -> tuple[Scores, tuple[str, ...], str]:
    """Return the data, and the names of the candidates and of the baseline."""
    from aucpr_dask.schema.trees import nodes_of
    from aucpr_dask.scores.importing.joining import scores_of_files
    from aucpr_dask.scores.importing.tables import TableOptions

    if len(sources) == 1 and not (candidates and baseline):
        raise InvalidInputError(
            "name the models to compare",
            where="options '--candidate' and '--baseline'",
            received=f"{sources[0]} alone",
            allowed="names of models",
            remedy="add --candidate NAME and --baseline NAME",
        )
    if len(sources) == 1 and not Path(sources[0]).is_file():
        return open_any(sources[0], data_sets), candidates, str(baseline)
    score = of_table.pop("score")
    models = [*candidates, str(baseline)] if len(sources) == 1 else score
    data = scores_of_files(sources, TableOptions(models=models, **of_table))  # type: ignore[arg-type]
    if len(sources) > 1:
        ((_, node),) = nodes_of(data)
        names = [str(name) for name in node["model"].values]
        baseline = baseline or names[-1]
        candidates = candidates or tuple(name for name in names if name != baseline)
    return data, candidates, str(baseline)
