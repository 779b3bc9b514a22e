"""Evaluate real rankers with every estimator: how far the estimators lie apart, and whether they agree on the order.

``python docs/real_data.py [--print] [DATA]`` reads the folder of real data, by default ``../shared/data`` beside the
repository, and writes its tables into ``why-tools-disagree.md``, or prints them.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pages
import xarray as xr
from scipy.stats import kendalltau

import aucpr_dask as ap
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.scores.importing.arrays import import_arrays
from aucpr_dask.scores.importing.trec import import_trec

PAGE = pages.HERE / "why-tools-disagree.md"
AT = {"precision_at_recall": 0.8, "recall_at_precision": 0.5}
NAMES = [f"{name}({AT[name]})" if name in AT else name for name in ESTIMATORS]
# The ones that estimate the same thing, the area under the precision-recall curve; the others have other scales.
AREAS = [name for name in NAMES if name.partition("(")[0] not in (*AT, "roc_area", "gain_area")]
# Two differ by design: they count the trailing negatives, or believe in normal scores.
USUAL = [name for name in AREAS if name not in ("interpolated_mean", "interpolated_median", "binormal")]


def report(data: Path) -> str:
    """Import, evaluate, and return the tables."""
    with tempfile.TemporaryDirectory() as folder:
        stores = {name: str(Path(folder) / f"{name}.zarr") for name in ("adbench", "clef", "trec")}
        import_arrays(data / "adbench" / "features", stores["adbench"], score="X", dims="item,model")
        tar, deep = data / "clef-tar-2017", data / "trec-dl-2019-passage"
        import_trec(tar / "runs", tar / "qrel_abs_test.txt.xz", stores["clef"], duplicates="first")
        import_trec(deep / "runs", deep / "qrels.dl19-passage.txt", stores["trec"])
        ap.estimate([2.0, 1.0], [1, 0], NAMES)  # compiles, before the clock runs
        lists = {"missing": "unretrieved"}
        adbench, adbench_time = evaluated(stores["adbench"])
        clef, clef_time = evaluated(stores["clef"], **lists)
        trec, trec_time = evaluated(stores["trec"], **lists, positive_from=2)
        by_id = {
            "CLEF-TAR 2017": (clef, evaluated(stores["clef"], **lists, ties="trec_eval", names=AREAS[:1])[0]),
            "TREC DL 2019": (
                trec,
                evaluated(stores["trec"], **lists, positive_from=2, ties="trec_eval", names=AREAS[:1])[0],
            ),
        }
    tables = [adbench[path] for path in sorted(adbench.children, key=lambda name: int(name.partition("_")[0]))]
    sets = {node.name: node.to_dataset() for node in tables} | {"CLEF-TAR 2017": clef, "TREC DL 2019": trec}
    times = {"ADBench, 27 tables": adbench_time, "CLEF-TAR 2017": clef_time, "TREC DL 2019": trec_time}
    counts = {
        "ADBench, 27 tables": sum(one.sizes["model"] for one in map(sets.get, [node.name for node in tables])),
        "CLEF-TAR 2017": clef.sizes["model"] * clef.sizes["query"],
        "TREC DL 2019": trec.sizes["model"] * trec.sizes["query"],
    }
    return "\n\n".join(
        [
            f"One call of `ap.evaluate` a store, {len(NAMES)} estimators each, {os.cpu_count()} cores "
            f"({platform.machine()}), reading included:",
            pages.table(
                ["data", "rankings", "seconds"],
                [[name, f"{counts[name]:,}", f"{seconds:.1f}"] for name, seconds in times.items()],
            ),
            "Each estimator against average precision: the absolute difference over all rankings, and Kendall's tau-b "
            "between the orders in which the two put the models (of ADBench's 27 tables the median and the lowest; "
            "where one of the two is the same for every model there is no tau).",
            against_average_precision({node.name: sets[node.name] for node in tables}, clef, trec),
            f"The spread, largest minus smallest, of one ranking's areas: over all {len(AREAS)} estimators of the "
            f"area, and over the {len(USUAL)} that remain without `interpolated_mean`, `interpolated_median` and "
            "`binormal`.",
            pages.table(
                ["data set", "rankings", "prevalence", "all: median", "max", f"{len(USUAL)}: median", "max"],
                [spread_row(name, one) for name, one in sets.items()],
            ),
            'Average precision with ties in blocks against `ties="trec_eval"`, over runs and topics:',
            pages.table(
                ["data set", "rankings that differ", "largest difference", "largest difference of a run's mean", "tau"],
                [ties_row(name, *pair) for name, pair in by_id.items()],
            ),
        ]
    )


def evaluated(url: str, names: list[str] = NAMES, **options: object) -> tuple[xr.DataTree | xr.Dataset, float]:
    """Return the result of one call, and how long it took."""
    start = time.perf_counter()
    result = ap.evaluate(ap.open_scores(url), names, **options).compute()
    return result, time.perf_counter() - start


def spread_row(name: str, result: xr.Dataset) -> list[str]:
    """Return how far the estimators lie apart on one data set."""
    rankings = stacked(result)
    cells = []
    for names in (AREAS, USUAL):
        areas = rankings.sel(estimator=names)
        spread = areas.max("estimator") - areas.min("estimator")
        cells += [f"{float(spread.median()):.4f}", f"{float(spread.max()):.4f}"]
    prevalence = float(result["prevalence"].median())
    return [name, f"{rankings.sizes['ranking']:,}", f"{prevalence:.3f}", *cells]


def against_average_precision(tables: dict[str, xr.Dataset], clef: xr.Dataset, trec: xr.Dataset) -> str:
    """Return how each estimator's values and order differ from those of average precision."""
    pooled = xr.concat([stacked(one) for one in tables.values()], "ranking")
    groups = [(pooled, list(tables.values())), (stacked(clef), [clef]), (stacked(trec), [trec])]
    rows = []
    for name in NAMES[1:]:
        row = [f"`{name}`"]
        for rankings, results in groups:
            apart = abs(rankings.sel(estimator=name) - rankings.sel(estimator=NAMES[0]))
            differences = f"{float(apart.median()):.4f}, {float(apart.max()):.4f}" if name in AREAS else "-"
            taus = [tau(mean_estimate(one, NAMES[0]), mean_estimate(one, name)) for one in results]
            row += [differences, f"{np.nanmedian(taus):.3f}" + (f", {np.nanmin(taus):.3f}" if len(taus) > 1 else "")]
        rows.append(row)
    header = ["estimator"]
    for name in ("ADBench", "CLEF-TAR", "TREC DL"):
        header += [f"{name}: median, max", "tau"]
    return pages.table(header, rows)


def ties_row(name: str, blocks: xr.Dataset, by_id: xr.Dataset) -> list[str]:
    """Return what the order among tied documents does to average precision."""
    first, second = (one["estimate"].sel(estimator=NAMES[0]) for one in (blocks, by_id))
    apart = abs(first - second)
    means = abs(first.mean("query") - second.mean("query"))
    return [
        name,
        f"{int((apart > 1e-9).sum()):,} of {apart.size:,}",
        f"{float(apart.max()):.4f}",
        f"{float(means.max()):.4f}",
        f"{tau(first.mean('query').values, second.mean('query').values):.3f}",
    ]


def mean_estimate(result: xr.Dataset, name: str) -> np.ndarray:
    """Return one value a model: its mean over the queries (where it has a value), where there are any."""
    values = result["estimate"].sel(estimator=name)
    return (values.mean("query") if "query" in values.dims else values).values


def stacked(result: xr.Dataset) -> xr.DataArray:
    """Return the estimates as (ranking, estimator)."""
    values = result["estimate"].transpose(..., "estimator")
    return xr.DataArray(
        values.values.reshape(-1, values.sizes["estimator"]),
        dims=("ranking", "estimator"),
        coords={"estimator": values["estimator"].values},
    )


def tau(first: np.ndarray, second: np.ndarray) -> float:
    """Return Kendall's tau-b over the models that both have a value for, in ten digits."""
    known = ~(np.isnan(first) | np.isnan(second))
    return float(kendalltau(first[known].round(10), second[known].round(10)).statistic)


def main(arguments: list[str]) -> None:
    """Write the tables, or print them."""
    folders = [argument for argument in arguments if argument != "--print"]
    text = report(Path(folders[0]) if folders else pages.HERE.parents[1] / "shared" / "data")
    if "--print" in arguments:
        print(text)
    else:
        pages.write_block(PAGE, "real data", text)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # few positives and the like: the flags say so
    main(sys.argv[1:])
