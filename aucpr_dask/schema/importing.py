"""Options of importers: which parts of a file are scores, labels and names.

Checks, the command line and data frames take them from the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields
from typing import Any, Self

from aucpr_dask.errors import bad_argument
from aucpr_dask.schema.options import Options, option

DTYPES = ("float32", "float64")
LAYOUTS = ("per-run", "pooled")
NAMED_BY = ("file", "tag")
DUPLICATES = ("error", "first")
PRECISION = "Precision of the scores; scores that are equal at this precision are tied."


def column(value: Any, name: str) -> str:
    """Return the name of a column."""
    if isinstance(value, str):
        return value
    raise bad_argument(f"{name} must name columns", name, value, "the name of a column", "give names as text")


def columns(value: Any, name: str) -> tuple[str, ...]:
    """Return names or patterns of columns: one of them, or several in an order."""
    if isinstance(value, str):
        return (value,)
    listed = tuple(value) if isinstance(value, Iterable) and not isinstance(value, Mapping | Set | bytes) else (None,)
    if all(isinstance(one, str) for one in listed):
        return listed
    allowed = "the name of a column or a pattern, or a list of them"
    raise bad_argument(f"{name} must name columns", name, value, allowed, "give names as text")


def columns_or_truth(value: Any, name: str) -> bool | tuple[str, ...]:
    """Return names or patterns of columns, or whether all are meant."""
    return value if isinstance(value, bool) else columns(value, name)


@dataclass(frozen=True, kw_only=True)
class ImportOptions(Options):
    """A record of options that a function takes next to other arguments."""

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Self:
        """Check the options among the arguments of a function, as `locals()` gives them."""
        return cls(**{one.name: arguments[one.name] for one in fields(cls) if one.name in arguments}).checked()


@dataclass(frozen=True, kw_only=True)
class TableOptions(ImportOptions):
    """Which columns of a table are what."""

    label: str = option("label", "The column of labels: 1 positive, 0 negative.", check=column)
    positive: object = option(None, "The label that means positive, if labels are not 1 and 0.")
    models: tuple[str, ...] | None = option(None, "A column of scores, or a pattern.", check=columns)
    exclude: tuple[str, ...] = option((), "A column that is not a model, or a pattern.", check=columns)
    negate: bool | tuple[str, ...] = option(
        (), "A model whose low scores mean positive, or a pattern.", check=columns_or_truth
    )
    item: str | None = option(None, "The column of item names.", check=column)
    query: str | None = option(None, "The column of queries, which are ranked separately.", check=column)
    dataset: str | None = option(None, "The column of data sets: each becomes a node.", check=column)
    weight: str | None = option(None, "The column of sample weights.", check=column)
    dtype: str = option("float64", PRECISION, allowed=DTYPES)

    @property
    def roles(self) -> list[str]:
        """The columns that are not models."""
        named = (self.label, self.item, self.query, self.dataset, self.weight)
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, kw_only=True)
class RunOptions(ImportOptions):
    """How TREC runs and judgments are read."""

    layout: str = option(
        "per-run",
        "per-run: each run keeps its own lists; pooled: all runs share the pool of documents.",
        allowed=LAYOUTS,
    )
    named_by: str = option("file", "Name models by their file, or by the tag in its last column.", allowed=NAMED_BY)
    duplicates: str = option("error", "What to do when a document appears twice in a list.", allowed=DUPLICATES)
    dtype: str = option("float32", PRECISION, allowed=DTYPES)
