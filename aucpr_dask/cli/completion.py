"""What the shell offers for the names of estimators and intervals; all else click completes by itself."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS


def complete_estimator(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the estimators that begin like `incomplete`; one with a number is given up to its bracket."""
    names = [spec.name if spec.parameter is None else f"{spec.name}(" for spec in ESTIMATORS.values()]
    help_of = dict(zip(names, map(usage, ESTIMATORS.values()), strict=True))
    return [CompletionItem(name, help=help_of[name]) for name in _matching(names, incomplete)]


def complete_estimator_or_all(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the same, and ``all``."""
    every = [
        CompletionItem(name, help="every estimator without a parameter") for name in _matching(["all"], incomplete)
    ]
    return every + complete_estimator(ctx, param, incomplete)


def complete_intervals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the intervals that begin like the last of several names with commas between."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in _matching(INTERVALS, last) if name not in given]


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
