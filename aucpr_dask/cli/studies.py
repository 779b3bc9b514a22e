"""``aucpr-dask study``: estimators and intervals on simulations of known area."""

from __future__ import annotations

from itertools import product
from math import isnan
from typing import TYPE_CHECKING, Any

import click

from aucpr_dask.cli.common import Output, output_option
from aucpr_dask.cli.options import Choice, cluster_option, example, level_option, option_of
from aucpr_dask.errors import StoreError
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import ResamplingOptions

if TYPE_CHECKING:
    import xarray as xr

SCENARIOS = ("binormal", "bibeta", "offset_uniform")
PLAIN_ESTIMATORS = [spec.name for spec in ESTIMATORS.values() if spec.parameter is None]


@click.command(
    short_help="Try estimators and intervals on simulations of known area.",
    epilog=example("aucpr-dask study study.zarr --items 100 --simulations 50 --resamples 200"),
)
@click.argument("out", required=False)
@click.option(
    "--scenario",
    "scenarios",
    type=Choice(SCENARIOS),
    multiple=True,
    default=SCENARIOS,
    help="Distribution of the scores (repeat for several) [default: all three].",
)
@click.option(
    "--items",
    "n_items",
    type=click.IntRange(min=2),
    multiple=True,
    default=(100, 1000),
    show_default=True,
    help="Items of a simulation (repeat).",
)
@click.option(
    "--prevalence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    default=(0.1,),
    show_default=True,
    help="Share of positives (repeat).",
)
@click.option(
    "--estimator",
    "estimators",
    type=Choice(PLAIN_ESTIMATORS),
    metavar="NAME",
    multiple=True,
    default=("average_precision",),
    show_default=True,
    help=f"What to estimate (repeat): {', '.join(PLAIN_ESTIMATORS)}.",
)
@click.option(
    "--interval",
    "intervals",
    type=Choice(list(INTERVALS)),
    metavar="NAME",
    multiple=True,
    default=("binomial", "logit", "bootstrap", "cross_validation_t"),
    show_default=True,
    help=f"Interval (repeat): {', '.join(INTERVALS)}.",
)
@level_option
@click.option(
    "--simulations",
    "n_simulations",
    type=click.IntRange(min=2),
    default=1000,
    show_default=True,
    help="Simulations of each cell.",
)
@option_of(ResamplingOptions, "n_resamples", "--resamples", help="Resamples of each simulation.")
@option_of(ResamplingOptions, "seed", help="Seed of the simulations and resamples.")
@click.option("--table", type=click.Path(dir_okay=False, writable=True), help="Write the whole summary to a CSV file.")
@cluster_option
@output_option
def study(output: Output, out: str | None, table: str | None, estimators: tuple[str, ...], **options: Any) -> None:
    """Simulate data sets of known area and count how often intervals contain it.

    If a store OUT is given, it records every simulation: an interrupted study resumes from there, and a larger number
    of simulations extends it. Other cells or estimators need another store.
    """
    from aucpr_dask.interplay.exporting import local_place, refuse_folder, written_whole
    from aucpr_dask.progress.showing import RunWatcher
    from aucpr_dask.simulate.studies import study as run_study

    place = None if table is None else local_place(table)
    if place is not None:
        if not place.parent.is_dir():
            raise StoreError("there is no such folder", where=place.parent, remedy="create it, or name another place")
        refuse_folder(place)
    with output.progress() as report:
        progress = RunWatcher(report)
        found = run_study(estimators=estimators, resampled=estimators, url=out, on_progress=progress, **options)
    if place is not None:
        written_whole(found.to_dataframe().to_csv, place)
    for estimator in estimators:
        _show(output, found.sel(estimator=estimator), estimator)
    output.show(f"{output.seconds:.1f} s")
    output.data({"study": out, "seconds": output.seconds, "cells": _cells(found)})


def _show(output: Output, found: xr.Dataset, estimator: str) -> None:
    """Show bias and coverage of one estimator, a line for each cell."""
    from aucpr_dask.schema.names import percent
    from aucpr_dask.view.tables import Column, fitted_table

    cells = _cells(found)
    columns = [
        Column("scenario", [str(cell["scenario"]) for cell in cells], name=True),
        Column("items", [f"{cell['n_items']:,}" for cell in cells], right=True),
        Column("share", [f"{cell['prevalence']:g}" for cell in cells], right=True),
        Column("bias", [percent(cell["bias_ratio"] - 1, "+.1f") for cell in cells], right=True),
    ]
    for method in map(str, found["method"].values):
        shares = [cell["coverage"][method] for cell in cells]
        columns.append(Column(method, ["" if isnan(share) else f"{share:.3f}" for share in shares], True, True))
    n, level = found.attrs["n_simulations"], found.attrs["level"]
    output.show(f"{estimator}: bias, and coverage of {percent(level)} intervals, over {n:,} simulations")
    output.show(fitted_table(columns, output.width), "")


def _cells(found: xr.Dataset) -> list[dict[str, Any]]:
    """Return the summary as one record for each cell (and estimator): numbers, or numbers by method."""
    dims = list(found["bias"].dims)
    places = product(*(range(found.sizes[dim]) for dim in dims))
    cells = [found.isel(dict(zip(dims, place, strict=True))) for place in places]
    return [
        {str(dim): one[dim].item() for dim in dims}
        | {str(name): one[name].to_series().to_dict() if one[name].dims else one[name].item() for name in one.data_vars}
        for one in cells
    ]
