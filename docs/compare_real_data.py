"""Compare real rankers honestly: how many places of a leaderboard are known, by every method and design.

``python docs/compare_real_data.py [--print] [DATA]`` reads the folder of real data, by default ``../shared/data``
beside the repository, and writes its tables into ``honest-comparisons.md``, or prints them.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pages
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from aucpr_dask.scores.importing.arrays import import_arrays
from aucpr_dask.scores.importing.trec import import_trec
from aucpr_dask.storage.stores import nodes_of

PAGE = pages.HERE / "honest-comparisons.md"
LEVEL = 0.95
UNIT_METHODS = ("sign_flip", "bootstrap", "t", "wilcoxon")
RUNS_SHOWN = 12
HEADER = ["sample", "method", "adjusted by", "pairs, alone", "all together", "neighbours, alone", "all together", "s"]


def report(data: Path) -> dict[str, str]:
    """Import, evaluate, compare, and return the tables by the names of their places in the page."""
    with tempfile.TemporaryDirectory() as folder:
        return {**trec(data / "trec-dl-2019-passage", Path(folder)), **adbench(data / "adbench", Path(folder))} | {
            "error rates": error_rates()
        }


def trec(source: Path, folder: Path) -> dict[str, str]:
    """Return the tables of the TREC 2019 Deep Learning track, passage ranking."""
    runs, qrels = source / "runs", source / "qrels.dl19-passage.txt"
    import_trec(runs, qrels, folder / "runs.zarr")
    import_trec(runs, qrels, folder / "pool.zarr", layout="pooled")
    options = {"missing": "unretrieved", "positive_from": 2}
    scores = ap.open_scores(folder / "runs.zarr")
    result, seconds = timed(lambda: ap.evaluate(scores, ties="trec_eval", **options).compute())
    pool = ap.open_scores(folder / "pool.zarr")
    rows = []
    for method in UNIT_METHODS:
        rows.append(row("topics", *timed(lambda method=method: ap.compare(result, method=method))))
    for method in ("influence", "bootstrap"):
        answer = timed(lambda method=method: ap.compare(pool, sample="items", method=method, **options))
        rows.append(row("passages, topics fixed", *answer))
    ranks, rank_seconds = timed(lambda: ap.rank(result))
    n_models, n_topics = result.sizes["model"], result.sizes["query"]
    return {
        "official": f"{official(result, source)} Evaluating {n_models * n_topics:,} rankings took {seconds:.1f} s.",
        "trec pairs": pages.table(HEADER, rows),
        "trec ranks": f"`ap.rank` ({rank_seconds:.1f} s) finds {ranks.attrs['n_groups']} groups:\n\n"
        + groups_table(ranks)
        + f"\n\nThe first {RUNS_SHOWN} runs:\n\n"
        + ranks_table(ranks, RUNS_SHOWN),
    }


def official(result: xr.Dataset, source: Path) -> str:
    """Return how the means over topics stand to those that NIST published and to trec_eval's."""
    means = result["estimate"].isel(estimator=0).mean("query").to_series()
    expected = pd.read_csv(source / "expected_map.csv").set_index("run").reindex(means.index)
    published = expected["nist_map_rel2"].dropna()
    agree = int((means[published.index].round(4) == published).sum())
    apart = float((means - expected["map_rel2"]).abs().max())
    return (
        f"{agree} of the {len(published)} published means agree to four digits; all {len(means)} are within "
        f"{apart:.0e} of trec_eval's six-digit ones."
    )


def adbench(source: Path, folder: Path) -> dict[str, str]:
    """Return the tables of the cross-validated classifiers."""
    files = sorted((source / "oof_scores").glob("*.npz"))
    import_arrays(files, folder / "tables.zarr", dims="model,repeat,item")
    scores = ap.open_scores(folder / "tables.zarr", chunks=None)
    result, seconds = timed(lambda: ap.evaluate(scores, intervals=(), keep_replicates=True))
    first = xr.DataTree.from_dict({path: one_repeat(node) for path, node in nodes_of(result)})
    comparison, compare_seconds = timed(lambda: ap.compare(first))
    ranks, rank_seconds = timed(lambda: ap.rank(first))
    rows = []
    for path, node in sorted(nodes_of(comparison), key=lambda item: int(item[0].partition("_")[0])):
        counts, known = first[path].to_dataset(), ranks[path].to_dataset()
        contenders = int((known["simultaneous_rank_interval"].sel(ci_bound="lower") == 1).sum())
        sizes = [f"{int(counts[name][0]):,}" for name in ("n_positive", "n_negative")]
        rows.append([path, *sizes, *separable(node), known.attrs["n_groups"], contenders])
    header = ["table", "positives", "negatives", *HEADER[3:7], "groups", "may be best"]
    averaged = xr.DataTree.from_dict({path: mean_of_repeats(node) for path, node in nodes_of(result)})
    over = []
    for method in UNIT_METHODS:
        answer = timed(lambda method=method: ap.compare(averaged, over="dataset", method=method))
        over.append(row("tables", *answer))
    over.append(row("rows, tables fixed", *timed(lambda: ap.compare(averaged, over="dataset", sample="items"))))
    return {
        "adbench tables": f"Evaluating 900 rankings with 1,000 shared resamples took {seconds:.1f} s, comparing "
        f"{compare_seconds:.1f} s, ranking {rank_seconds:.1f} s.\n\n" + pages.table(header, rows),
        "adbench over tables": pages.table(HEADER, over)
        + "\n\nRanks over the twelve tables:\n\n"
        + ranks_table(ap.rank(averaged, over="dataset"), RUNS_SHOWN),
    }


def one_repeat(node: xr.Dataset) -> xr.Dataset:
    """Return the models of the first repeat."""
    return node.isel(model=node["model"].str.endswith(" repeat=0").values)


def mean_of_repeats(node: xr.Dataset) -> xr.Dataset:
    """Average estimates and replicates over the repeats of a classifier."""
    names = [str(name).partition(" repeat=")[0] for name in node["model"].values]
    return node[["estimate", "replicate"]].assign_coords(model=names).groupby("model").mean()


def error_rates() -> str:
    """Return how often equal models are told apart: shares of pairs, and of families with any, in simulated results."""
    rows = []
    for n_units in (6, 12, 43):
        for method in UNIT_METHODS:
            random = np.random.default_rng(n_units)
            alone, together = [], []
            for _ in range(300):
                result = xr.Dataset(
                    {"estimate": (("model", "query"), random.standard_t(5, (6, n_units)))},
                    coords={"model": list("abcdef"), "query": [f"q{i}" for i in range(n_units)]},
                )
                comparison = ap.compare(result, method=method, n_resamples=1000)
                pairs = np.triu_indices(6, 1)
                alone.append(np.mean(comparison["p_value"].values[pairs] <= 1 - LEVEL))
                together.append(np.any(comparison["p_adjusted"].values[pairs] <= 1 - LEVEL))
            rows.append([n_units, words(method), f"{np.mean(alone):.3f}", f"{np.mean(together):.3f}"])
    return pages.table(["units", "method", "pairs told apart", "families with any"], rows)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and how long it took."""
    start = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - start


def row(sample: str, comparison: xr.Dataset, seconds: float) -> list[object]:
    """Return one line: how many pairs a method tells apart."""
    facts = comparison.attrs
    return [sample, words(facts["method"]), words(facts["adjust"]), *separable(comparison), f"{seconds:.1f}"]


def separable(comparison: xr.Dataset) -> list[str]:
    """Return how many pairs, and how many of neighbours, are told apart: each alone, and all together."""
    order = np.argsort(-comparison["estimate"].values, kind="stable")
    pairs = np.triu_indices(order.size, 1)
    neighbours = tuple(np.array(list(pairwise(order))).T)
    cells = []
    for places in (pairs, neighbours):
        for name in ("p_value", "p_adjusted"):
            found = int(np.sum(comparison[name].values[places] <= 1 - LEVEL))
            cells.append(f"{found:,} of {len(places[0]):,}")
    return cells


def ranks_table(ranks: xr.Dataset, most: int) -> str:
    """Return the first models with the ranks they may have."""
    rows = []
    for place in np.argsort(-ranks["estimate"].values, kind="stable")[:most]:
        model = ranks.isel(model=place)
        rows.append(
            [
                f"{float(model['rank']):g}",
                f"`{model['model'].item()}`",
                f"{float(model['estimate']):.4f}",
                span(model["rank_interval"].values),
                span(model["simultaneous_rank_interval"].values),
                f"{float(model['probability_best']):.1%}",
            ]
        )
    return pages.table(["", "model", "mean area", "ranks, alone", "all together", "best in resamples"], rows)


def groups_table(ranks: xr.Dataset) -> str:
    """Return the runs of models of which no two are told apart."""
    order = np.argsort(-ranks["estimate"].values, kind="stable")
    first, last, area = (ranks[name].values[order] for name in ("first_group", "last_group", "estimate"))
    rows = []
    for group in range(1, ranks.attrs["n_groups"] + 1):
        places = np.flatnonzero((first <= group) & (group <= last))
        areas = f"{area[places[0]]:.4f} to {area[places[-1]]:.4f}" if places.size > 1 else f"{area[places[0]]:.4f}"
        rows.append([group, span((places[0] + 1, places[-1] + 1)), places.size, areas])
    return pages.table(["group", "places", "runs", "mean area"], rows)


def span(ends: Any) -> str:
    """Return the two ends of a range of ranks, or the one there is."""
    return f"{int(ends[0])}" if ends[0] == ends[1] else f"{int(ends[0])} to {int(ends[1])}"


def words(name: str) -> str:
    """Return an option's name for reading."""
    return name.replace("_", " ")


def main(arguments: list[str]) -> None:
    """Write the tables, or print them."""
    folders = [argument for argument in arguments if argument != "--print"]
    tables = report(Path(folders[0]) if folders else pages.HERE.parents[1] / "shared" / "data")
    for name, text in tables.items():
        if "--print" in arguments:
            print(f"## {name}\n\n{text}\n")
        else:
            pages.write_block(PAGE, name, text)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # few positives and the like: the flags say so
    main(sys.argv[1:])
