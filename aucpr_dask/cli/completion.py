"""Shell completion of the names of estimators and intervals."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS


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
