"""``aucpr-dask import``: files of scores to a score store."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import aucpr_dask as ap
from aucpr_dask.cli import common as cli
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.schema.options import RunOptions, TableOptions
from aucpr_dask.schema.terms import count, nodes_of


@click.group("import", cls=cli.Group, epilog=cli.epilog("aucpr-dask import table table.csv scores.zarr --label y"))
def import_group() -> None:
    """Turn files of scores into a score store.

    FILES are files (plain or compressed), folders or quoted patterns; STORE is the folder to write.
    """


files_and_store = cli.with_options(click.argument("files", nargs=-1, required=True), click.argument("store"))
place_options = cli.with_options(
    cli.overwrite_option,
    click.option("--append", is_flag=True, help="Add the models and data sets to the store that is there."),
)
dataset_option = click.option("--dataset", metavar="NAME", help="Name the data set.")

_of_table = functools.partial(cli.option_of, TableOptions, metavar="COLUMN", show_default=False)
table_options = cli.with_options(
    _of_table("label", required=True),
    _of_table("pos_label", metavar="VALUE"),
    _of_table("model"),
    _of_table("score", show_default=True),
    _of_table("models", note=f"{cli.SEVERAL}; default: all numbers with a fraction that have no role", **cli.several),
    *(_of_table(name, note=cli.SEVERAL, **cli.several) for name in ("exclude", "negate")),
    *map(_of_table, ("item", "query", "dataset", "weight", "clusters", "fold", "repeat")),
    _of_table("by", note=cli.SEVERAL, **cli.several),
    cli.option_of(TableOptions, "dtype"),
)


@cli.command("aucpr-dask import trec runs/*.txt.gz scores.zarr --qrels qrels.txt", of=import_group)
@files_and_store
@click.option("--qrels", required=True, metavar="FILE", help="The judgments: topic, iteration, document, grade.")
@cli.options_of(RunOptions, "layout", "named_by", "duplicates")
@cli.option("--measures NAMES", "Also compute these measures with ir_measures, such as 'AP nDCG@10 P@10 RR Judged@10'.")
@click.option("--values", metavar="STORE", help="Where to write the values of --measures per topic: a result store.")
@dataset_option
@cli.option_of(RunOptions, "dtype")
@place_options
def trec(output: cli.Output, files: tuple[str, ...], store: str, qrels: str, **options: Any) -> None:
    """Import TREC runs (one model each) and their judgments.

    A line of a run is: topic Q0 document rank score tag. The rank is ignored, as trec_eval does. The formats of BEIR
    (TSV, JSON or JSONL) and MS MARCO (topic document rank) are recognised. Average precision by
    ir_measures must equal ours on every topic. The commands aggregate, compare, rank, report and export take the
    store of --values.
    """
    from aucpr_dask.scores.importing.trec import import_trec

    measures, values = options.pop("measures"), options.pop("values")
    if (measures is None) != (values is None):
        raise click.UsageError("--measures says what to compute, and --values where to write it: give both or neither.")
    read = functools.partial(import_trec, files, qrels, store, **options)
    if measures is None or values is None:
        output.data(_imported(output, store, read, append=options["append"]))
        return
    from aucpr_dask.interplay.retrieval import evaluator_of, import_measures

    evaluator_of(measures, qrels)  # refused before anything is written
    document = _imported(output, store, read, append=options["append"])
    kept = {name: options[name] for name in ("named_by", "dataset", "overwrite")}
    compute = functools.partial(import_measures, files, qrels, store, values, measures, **kept)
    output.data(document | {"values": _imported(output, values, compute, then="aggregate")})


@cli.command("aucpr-dask import table table.csv scores.zarr --label y --query group", of=import_group)
@files_and_store
@table_options
@click.option("--separator", metavar="CHAR", help="What separates cells of text [default: tab in .tsv, else guessed].")
@place_options
def table(output: cli.Output, files: tuple[str, ...], store: str, **options: Any) -> None:
    """Import tables: rows are items, columns are models.

    FILES are CSV, TSV, JSON lines, Parquet or Feather, told by their first bytes; several have the same columns. With
    --model, there is a row for each model and item. An empty cell, NA or NaN is a missing score.
    """
    from aucpr_dask.scores.importing.tables import import_table

    options["models"] = options["models"] or None
    read = functools.partial(import_table, files, store, **options)
    output.data(_imported(output, store, read, append=options["append"]))


NUMPY = (".npz", ".npy")


@cli.command("aucpr-dask import arrays scores.npz scores.zarr --score scores --label y", of=import_group)
@files_and_store
@click.option("--score", metavar="ARRAY", help="The array of scores [default: score; scores of NumPy files].")
@cli.option("--label ARRAY|FILE", "The array of labels [default: label; y of .npz]; for .npy another .npy.")
@cli.option(
    "--models ARRAY|NAMES",
    "Of NumPy files: the array of model names, or the names separated by commas [default: models, else numbers].",
    callback=lambda ctx, param, value: value.split(",") if value and "," in value else value,
)
@cli.option(
    "--dims NAMES",
    "The axes of the scores, separated by commas, where they have no names; in NumPy files, axes other than "
    "model, query, repeat and item are stacked into the models [default: model,item or model,query,item].",
)
@click.option("--clusters", metavar="ARRAY|FILE", help="The array of each item's or query's cluster.")
@click.option("--fold", metavar="ARRAY|FILE", help="The array of each item's or query's fold.")
@click.option("--negate", is_flag=True, help="Of NumPy files: low scores mean positive.")
@cli.option(
    "--rename THEIRS=OURS",
    "Rename another variable or a dimension to our name (repeat); not of NumPy files.",
    multiple=True,
    callback=lambda ctx, param, value: _pairs(value),
)
@click.option("--engine", metavar="NAME", help="How xarray opens the file [default: detected from the file].")
@place_options
def arrays(output: cli.Output, files: tuple[str, ...], store: str, **options: Any) -> None:
    """Import arrays: NumPy files (.npz, .npy), or what xarray opens (netCDF, HDF5, Zarr).

    Each NumPy file is a data set, named after its file if there are several. Of others there is one, whose groups
    become data sets; our names are variables score and label, dimensions model, query and item.
    """
    from aucpr_dask.scores.importing.arrays import import_arrays, import_xarray

    of_zarr = "zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"
    folders = [path for path in map(Path, files) if path.is_dir()]  # or patterns, or folders of files of NumPy
    is_numpy = any(not any((folder / name).exists() for name in of_zarr) for folder in folders)
    is_numpy |= any(Path(file).suffix.lower() in NUMPY for file in files)
    others = [name for name in (("rename", "engine") if is_numpy else ("models", "negate")) if options.pop(name)]
    if others:
        kind = "what xarray opens" if is_numpy else "NumPy files"
        raise click.UsageError(f"--{others[0]} is an option of {kind}, and {files[0]} is none.")
    named = {ours: options.pop(option) for option, ours in _ROLES.items()}
    if is_numpy:
        named = {option: named[ours] for option, ours in _ROLES.items() if named[ours] is not None}
        read = functools.partial(import_arrays, files, store, **options, **named)
    elif len(files) == 1:
        rename = (options.pop("rename") or {}) | {theirs: ours for ours, theirs in named.items() if theirs}
        read = functools.partial(import_xarray, files[0], store, **options, rename=rename)
    else:
        raise click.UsageError(f"One file at a time: {len(files)} are given; add others by --append.")
    output.data(_imported(output, store, read, append=options["append"]))


_ROLES = {"score": "score", "label": "label", "clusters": "cluster", "fold": "fold"}


@cli.command("aucpr-dask import values ndcg.csv values.zarr --measure nDCG@10", of=import_group)
@files_and_store
@cli.columns_of_values()
@click.option("--measure", metavar="COLUMN|NAME", help="The column of measures, or the name of the one measure.")
@click.option("--unit-name", metavar="NOUN", help="What one query is called [default: as its column].")
@click.option("--separator", metavar="CHAR", help="What separates cells [default: tab in .tsv, else guessed].")
@cli.overwrite_option
def values(output: cli.Output, files: tuple[str, ...], store: str, **options: Any) -> None:
    """Import values of any measure per model and query to a result store.

    FILES are CSV, TSV, Parquet, JSON, Markdown or HTML. A tidy table has columns of models, queries and values; in a
    wide one, models or queries head the columns. Or the output of trec_eval -q or ir_measures -q, a file for each
    model. The commands aggregate, compare, rank, report and export take the store.
    """
    from aucpr_dask.interplay.values import from_values, save_values

    overwrite = options.pop("overwrite")

    def read(on_progress: Any) -> object:  # in one piece
        return save_values(from_values(list(files), **options), store, overwrite=overwrite)

    output.data(_imported(output, store, read, then="aggregate"))


def _pairs(words: tuple[str, ...]) -> dict[str, str] | None:
    for word in words:
        if not all(word.partition("=")):
            raise click.BadParameter(f"{word!r} is not of the form THEIRS=OURS")
    return dict(word.split("=", 1) for word in words) or None


def _imported(
    output: cli.Output, store: str, read: Callable[..., object], then: str = "info", *, append: bool = False
) -> dict[str, Any]:
    """Import with progress, and return what a program should know about it."""
    if Path(store).is_file():
        what = "the last argument names the store to write, and this is a file"
        remedy = f"add the store after the files: ... {store} scores.zarr"
        raise InvalidInputError(what, "argument STORE", store, "a new folder, or a URL", remedy)
    with output.progress() as report:
        summary = read(on_progress=report)
    nodes = nodes_of(ap.open_scores(store)) if append else ()
    models = {str(name) for _, node in nodes for name in node["model"].values}
    added, now = ("added ", f"now {count(len(models), 'model')}; ") if append else ("", "")
    after = f"{now}{output.seconds:.1f} s; next: aucpr-dask {then} {store}"
    output.show(f"{store}: {added}{summary}", after, fold=False)
    return {"store": store, "seconds": output.seconds, "summary": summary}
