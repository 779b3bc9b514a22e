"""What a command reads: a store or, in its place, a table, or a Zarr store of another program."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import aucpr_dask as ap
from aucpr_dask.cli import common as cli
from aucpr_dask.errors import AucprError, InvalidInputError, few
from aucpr_dask.schema import terms
from aucpr_dask.schema.options import TableOptions

if TYPE_CHECKING:
    from aucpr_dask.scores.archives import Layout

ARCHIVE = "archive"  # the kind of a store that another program wrote
COLUMNS = (
    *("label", "pos_label", "models", "clusters", "query"),  # often needed
    *("item", "model", "score", "exclude", "negate", "weight", "fold", "repeat"),
)
LISTS = ("models", "exclude", "negate")
ONLY_OF_VALUES = ("include", "lower_is_better")
# Options of tables of values, as these call them: some of those of tables of predictions, and others.
OF_VALUES = {"model": "model", "query": "query", "score": "value", "exclude": "exclude"}
OF_VALUES |= {name: name for name in ONLY_OF_VALUES}
MOST_WITHOUT_DASK = 32 * 2**20  # bytes of scores


@dataclass(frozen=True)
class Source:
    """What a command reads, and the options that say how; of a gate, there may be several tables.

    Of a table, ``--dataset`` names the column of data sets, and ``--by`` those of groups.
    """

    output: cli.Output
    places: tuple[str, ...]
    dataset: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    by: tuple[str, ...] | None = None

    @property
    def place(self) -> str:
        """The first path or URL."""
        return self.places[0]

    @property
    def is_table(self) -> bool:
        """Whether it is a file, which a store is not."""
        return Path(self.place).is_file()

    @cached_property
    def kind(self) -> str:
        """What a store holds, or that another program wrote it."""
        return kind_of(self.place)

    @cached_property
    def holds(self) -> str:
        """What a table holds, by its columns and the options: "predictions", "values", or "other", which is not clear.

        Raise for a file that is no table.
        """
        if self.dataset or not {*self.columns} <= {*OF_VALUES}:
            return "predictions"
        from aucpr_dask.interplay.recognising import recognise

        found = recognise(self.place)
        if found.holds == "other" and found.commands:
            ((question, words), *_) = found.commands
            remedy = f"{question}: aucpr-dask {shlex.join(words)}"
            raise InvalidInputError("this is no table of models", self.place, found.kind, "a table", remedy)
        return found.holds

    def open(self, *, is_quiet: bool = False) -> terms.Scores:
        """Open a store; or show in the first line what columns or variables are taken for."""
        if not self.is_table:
            if (layout := self.layout()) is None:
                return open_any(self.place, self.dataset)
            scores = ap.open_scores(self.place, like=layout)
            scores = terms.map_nodes(scores, lambda _, node: node.chunk({terms.ITEM: -1}))
            return terms.select_data_sets(scores, self.dataset)
        if self.holds != "predictions":
            from aucpr_dask.interplay.values import from_values, taken_in_words

            named = {OF_VALUES[name]: value for name, value in self.columns.items()}
            try:
                values = from_values(self.place, **named)
            except AucprError as error:
                error.add_note("  of a table of predictions: --label names the column of labels")
                raise
            said = f"{self.place}: {taken_in_words(values)}"
            self.output.show(*([] if is_quiet else [said]), fold=False)
            return values
        return self.of_tables(is_quiet=is_quiet)

    def of_tables(self, *, is_quiet: bool = False, **columns: Any) -> terms.Scores:
        """Return the scores in tables, and show what columns are taken for; `columns` come before the options."""
        from aucpr_dask.scores.importing.tables import scores_of_files

        if only := [name for name in ONLY_OF_VALUES if name in self.columns]:
            what, option = "this is an option of tables of values of models", f"--{only[0].replace('_', '-')}"
            received, remedy = "a table of predictions", f"leave out {option}"
            raise InvalidInputError(what, f"option {option!r}", received, "a table without labels", remedy)
        if "dim" in self.columns:
            what, remedy = "a table has columns, and no dimensions", "leave out --dim"
            raise InvalidInputError(what, "option '--dim'", ", ".join(self.columns["dim"]), "columns", remedy)
        if len(self.dataset) > 1:
            received = few(map(repr, self.dataset))
            raise InvalidInputError("a table has one column of data sets", "option '--dataset'", received)
        named = {"dataset": self.dataset[0] if self.dataset else None, "by": tuple(self.by or ())}
        scores, said = scores_of_files(self.places, TableOptions.among({**self.columns, **columns, **named}))
        self.output.show(*([] if is_quiet else [said]), fold=False)
        return scores

    def layout(self) -> Layout | None:
        """Return what an archive calls what is ours, by the options, and show it; None of our own store."""
        if not self.is_table and self.kind == ARCHIVE:
            from aucpr_dask.scores.archives import Layout

            layout = Layout.of(self.columns, "the options")
            self.output.show(str(layout), fold=False)
            return layout
        if self.columns:
            what = "these options are for tables and stores of other programs; this store has names of its own"
            received, remedy = ", ".join(f"--{name.replace('_', '-')}" for name in self.columns), "leave them out"
            allowed = "a table (CSV, TSV, JSON lines, Parquet, Feather), or this store alone"
            raise InvalidInputError(what, self.place, received, allowed, remedy)
        return None

    def words(self, **options: Any) -> list[str]:
        """Return the words that name it again, with these options, in the command to try next."""
        words = [self.place]
        for name, value in {**self.columns, **options, "dataset": self.dataset, "by": self.by or ()}.items():
            for one in value if isinstance(value, tuple) else (value,):
                word = {True: "all", False: "none"}[one] if isinstance(one, bool) else str(one)
                words += [f"--{name.replace('_', '-')}", word]
        return words


def kind_of(store: str) -> str:
    """Return what a store holds, or that another program wrote it."""
    from aucpr_dask.storage.stores import read_root_attrs

    return str(read_root_attrs(store).get("kind", ARCHIVE))


def open_any(store: str, dataset: tuple[str, ...] = ()) -> terms.Scores:
    """Open a store of scores or of results, or only the named data sets of it."""
    opened = open_scores(store) if kind_of(store) == terms.SCORES else ap.open_result(store)
    return terms.select_data_sets(opened, dataset)


def open_scores(store: str) -> terms.Scores:
    """Open a store of scores, without Dask if they are few, which spares its import."""
    scores = ap.open_scores(store, chunks=None)
    n_bytes = sum(node.nbytes for _, node in terms.nodes_of(scores))
    return scores if n_bytes <= MOST_WITHOUT_DASK else ap.open_scores(store)


dataset_option = cli.option(
    "--dataset NAME",
    "Only this data set, or those like '20*' (repeat); of a table: the column of data sets.",
    multiple=True,
)


def takes_source(argument: str, *, of_values: bool = True, **look: Any) -> cli.Option[Any]:
    """Add an argument and the options that say how it is read; the command gets a :class:`Source` in their place.

    `of_values` says whether it may be a table of values.
    """
    lists: dict[str, Any] = cli.several | {"note": cli.SEVERAL}
    like = "A YAML file with these options, such as score: probability; those that are given come first."
    dim = "Of a Zarr store of another program: a dimension of the items, which are all ranked together "
    options = [click.argument(argument, **{"metavar": "SOURCE", **look}), dataset_option]
    options.append(cli.option("--like FILE", like))
    options.append(cli.option("--dim NAME", f"{dim}({cli.SEVERAL}).", f"{cli.OF_TABLE}dim", **cli.several))
    for name in COLUMNS:
        how = lists if name in LISTS else {"default": None}
        how |= {"metavar": "VALUE" if name == "pos_label" else "COLUMN", "show_default": False}
        options.append(cli.option_of(TableOptions, name, dest=f"{cli.OF_TABLE}{name}", **how))
    options += cli.only_of_values(cli.OF_TABLE) if of_values else ()
    names = (*COLUMNS, *(ONLY_OF_VALUES if of_values else ()), "dim")

    def decorate(command: cli.Command) -> cli.Command:
        @functools.wraps(command)
        def wrapped(output: cli.Output, **given: Any) -> Any:
            columns = {name: given.pop(f"{cli.OF_TABLE}{name}") for name in names}
            columns = {name: value for name, value in columns.items() if value not in (None, ())}
            if (like := given.pop("like")) is not None:
                from aucpr_dask.scores.archives import words_of

                columns = words_of(like, (*COLUMNS, "dim")) | columns
            given = {name: one for name, one in given.items() if one is not None or name not in cli.OF_EVALUATION}
            places, dataset = given.pop(argument), given.pop("dataset")
            if given.get("auxiliary") is not None:  # a store of the same data sets
                given["auxiliary"] = open_any(given["auxiliary"], dataset)
            places = places if isinstance(places, tuple) else (places,)
            return command(output, Source(output, places, dataset, columns, given.get("by")), **given)

        made: cli.Command = cli.with_options(*options)(wrapped)
        return made

    return decorate
