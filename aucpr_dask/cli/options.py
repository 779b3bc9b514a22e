"""Options of commands: made from the fields of option records, or shared by several commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from aucpr_dask.errors import nearest
from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import CONVENTION, CONVENTIONS, READINGS, EvaluationOptions, Options, ResamplingOptions

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]


class Choice(click.Choice[str]):
    """One of several words; an error suggests the one that was probably meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word, if it is one of them."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = nearest(value, self.choices)
            hint = "" if near is None else f" Did you mean {near!r}?"
            raise click.BadParameter(f"{error.message}{hint}", ctx, param) from None


def option_of(record: type[Options], name: str, *flags: str, note: str = "", **settings: Any) -> Option[Any]:
    """Make the option of a field: its type, default, choices and help, unless `settings` override them."""
    (one,) = (one for one in fields(record) if one.name == name)
    allowed, least, most = (one.metadata[name] for name in ("allowed", "least", "most"))
    default = one.default
    description = one.metadata["description"]
    made: dict[str, Any] = {"help": f"{description[:-1]} ({note})." if note else description, "default": default}
    if isinstance(default, bool):
        made |= {"is_flag": True}
    elif allowed is not None:
        made |= {"type": Choice(allowed), "show_default": True}
    elif least is not None:
        made |= {"type": click.IntRange(least, most), "show_default": default is not None}
    else:
        made |= {"type": float if "float" in str(one.type) else str, "show_default": default is not None}
    return click.option(*(flags or [f"--{name.replace('_', '-')}"]), name, **(made | settings))


def with_options(*options: Option[Any]) -> Option[Any]:
    """Return one decorator for several, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


level_option = option_of(
    ResamplingOptions, "level", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Confidence level."
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace what is there already.")
data_sets_option = click.option(
    "--data-set", "data_sets", multiple=True, metavar="NAME", help="Only this data set (repeat)."
)
machine_option = click.option(
    "--machine",
    metavar="STORE",
    help="Store of the same models, evaluated with machine labels on these queries and on others that people did not "
    "label.",
)
top_option = click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Models to show of each data set [default: 10, or 3 of each of several; all with --json].",
)
cluster_option = click.option(
    "--cluster",
    metavar="N|FILE|ADDRESS",
    callback=lambda ctx, param, value: int(value) if value is not None and value.isdigit() else value,
    help="Number of local worker processes (default: one per core), a YAML file that describes a cluster, or the "
    "address of a Dask scheduler.",
)


def reading_options(note: str = "") -> list[Option[Any]]:
    """Make the options that say how labels, missing scores and ties are read, which a convention may set."""
    help = "Defaults of the options that follow: trec_eval sets --missing, --ties, --positive-from and --no-positives."
    of_convention = click.option(f"--{CONVENTION}", type=Choice(list(CONVENTIONS)), help=help)
    defaults = EvaluationOptions()
    return [
        of_convention,
        *(
            option_of(EvaluationOptions, name, default=None, show_default=getattr(defaults, name) or False, note=note)
            for name in READINGS
        ),
    ]


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return options without the readings that were not given."""
    return {name: value for name, value in options.items() if name not in (CONVENTION, *READINGS) or value is not None}


def example(*lines: str) -> str:
    """Return the epilog of a command's help: an example that works."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


# Completion in a shell


def complete_estimator(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the estimators that start with `incomplete`, those with a parameter up to its bracket."""
    names = [spec.name if spec.parameter is None else f"{spec.name}(" for spec in ESTIMATORS.values()]
    help_of = dict(zip(names, map(usage, ESTIMATORS.values()), strict=True))
    return [CompletionItem(name, help=help_of[name]) for name in _matching(names, incomplete)]


def complete_estimator_or_all(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the same, and ``all``."""
    every = CompletionItem("all", help="every estimator without a parameter")
    return [every] * "all".startswith(incomplete) + complete_estimator(ctx, param, incomplete)


def complete_intervals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the last of several names separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in _matching(INTERVALS, last) if name not in given]


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
