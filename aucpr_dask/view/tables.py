"""Terminal tables that fit their width. Names are data: they are cut to size and never read as markup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aucpr_dask.errors import printable
from aucpr_dask.inference.measures import measured, noun, unit_names
from aucpr_dask.schema.names import percent, plural
from aucpr_dask.schema.variables import QUERY, UNIT
from aucpr_dask.scores.importing.files import count
from aucpr_dask.view.names import distinct, shorten
from aucpr_dask.view.summary import (
    DataSetSize,
    FlagSummary,
    MissingScores,
    RankedModel,
    Ranking,
    ResultSummary,
    ScoresSummary,
)

MOST_DATA_SETS = 8
MOST_MISSING = 5
TOP_OF_ONE, TOP_OF_MANY = 10, 3
LEAST_NAME, WIDEST_NAME = 10, 30
LEAST_BAR, WIDEST_BAR = 10, 24
WIDEST_PLACE = 60
GAP = 2
AVERAGES = {
    None: "mean",
    "macro": "mean",
    "weighted": "weighted mean",
    "samples": "mean over the items, each a ranking",
}


def interval_bar(
    lower: float, estimate: float, upper: float, scale: tuple[float, float], width: int, *, ascii_only: bool = False
) -> str:
    """Draw an interval and its estimate on a scale."""
    line, dot = ("-", "o") if ascii_only else ("─", "●")

    def cell(value: float) -> int:
        low, high = scale
        share = (value - low) / (high - low) if high > low else 0.5
        return round(min(1.0, max(0.0, share)) * (width - 1))

    if not math.isfinite(estimate):
        return ""
    middle = cell(estimate)
    left, right = (cell(lower), cell(upper)) if math.isfinite(lower) and math.isfinite(upper) else (middle, middle)
    return " " * left + line * (middle - left) + dot + line * (right - middle)


@dataclass(frozen=True)
class Column:
    """A column of a table; `name` columns share the width that the others leave."""

    header: str
    cells: Sequence[str]
    right: bool = False
    name: bool = False

    @property
    def width(self) -> int:
        """Cells that the widest of them takes."""
        return max(map(cell_len, (self.header, *self.cells)))


def fitted_table(columns: Sequence[Column], width: int) -> Table:
    """Lay out a table of at most `width` cells: names are shortened together, everything else is kept whole."""
    needs = [column.width for column in columns]
    names = sorted((i for i, column in enumerate(columns) if column.name), key=needs.__getitem__)
    room = width - GAP * (len(columns) - 1) - sum(need for i, need in enumerate(needs) if i not in names)
    for left, i in zip(range(len(names), 0, -1), names, strict=True):
        needs[i] = max(min(needs[i], room // left), min(needs[i], LEAST_NAME))
        room -= needs[i]
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    for column, need in zip(columns, needs, strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(Text(column.header), justify=justify, width=need, no_wrap=True, overflow="crop")
    cells = (distinct(c.cells, need) if c.name else c.cells for c, need in zip(columns, needs, strict=True))
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))
    return table


def more(number: int, noun: str) -> list[Text]:
    """Return a line that counts the rows that a table leaves out, if any."""
    return [Text(f"and {count(number, f'more {noun}')}", style="dim")] if number > 0 else []


def titled(title: str, about: str) -> Text:
    """Return a headline: a name, or "all models" without one, and a description."""
    bold = Text(shorten(title, WIDEST_NAME) or "all models", style="bold")
    return bold.append(f"  {about}", style="not bold")


def number(value: float) -> str:
    """Return an area, or a dash where it is undefined."""
    return f"{value:.4f}" if math.isfinite(value) else "-"


def bounds(ends: Sequence[float] | None, form: str = ".3f") -> str:
    """Return an interval, or a dash where it is undefined."""
    if ends is None or not all(map(math.isfinite, ends)):
        return "-"
    return f"[{ends[0]:{form}}, {ends[1]:{form}}]"


def widths(ratios: Iterable[float | None]) -> list[str]:
    """Say what machine labels save, if there are any."""
    known = sorted(ratio for ratio in ratios if ratio is not None and math.isfinite(ratio))
    if not known:
        return []
    spread = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (known[0], known[-1])))
    return [f"with machine labels, intervals are {spread} times as wide as from people's labels alone"]


def scale_of(models: Sequence[RankedModel]) -> tuple[float, float]:
    """Return the range of the bars: all intervals shown, rounded outwards to twentieths."""
    known = [value for one in models for value in (one.lower, one.estimate, one.upper) if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = math.floor(min(known) * 20) / 20, math.ceil(max(known) * 20) / 20
    return (low, high) if high > low else (low, low + 0.05)


def interval_header(ranking: Ranking) -> str:
    """Return the title of the column of intervals."""
    return f"{percent(ranking.level)} interval" if ranking.level else "interval"


def noun_of(ranking: Ranking) -> str:
    """Return what one number of a ranking is called."""
    return noun(_attrs_of(ranking))


def _attrs_of(ranking: Ranking) -> dict[str, str]:
    """Return what a result says of its units, as the names of measures are chosen by."""
    return {} if ranking.unit is None else {UNIT: ranking.unit}


def about(ranking: Ranking) -> str:
    """Describe the areas and intervals of a ranking."""
    attrs = _attrs_of(ranking)
    parts = [measured(attrs, ranking.estimator)]
    if ranking.n_queries is not None:
        parts.append(f"mean of {count(ranking.n_queries, *unit_names(QUERY, attrs))}")
    if ranking.n_classes is not None:
        parts.append(f"{AVERAGES[ranking.average]} of {count(ranking.n_classes, 'class', 'classes')}")
    if ranking.interval is not None:
        parts.append(f"{ranking.interval.replace('_', ' ')} interval")
    return ", ".join(parts)


def ranking_view(rankings: Sequence[Ranking], width: int, *, top: int | None = None, ascii_only: bool = False) -> Group:
    """Show the best `top` models of each data set in one table, their intervals as numbers and as bars on one scale."""
    first = rankings[0]
    best = [ranking.models[:top] for ranking in rankings]
    shown = [model for models in best for model in models]
    columns = [
        Column("", [str(model.rank or "-") for model in shown], right=True),
        Column("model", [model.model for model in shown], name=True),
    ]
    title = titled(first.data_set, about(first))
    if len(rankings) > 1:
        sizes = sorted({len(ranking.models) for ranking in rankings})
        of = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        title = Text(f"{count(len(rankings), 'data set')}, best {top or ''} of {of} models", style="bold")
        title.append(f"  {about(first)}", style="not bold")
        names = [
            one.data_set if i == 0 else ""
            for one, models in zip(rankings, best, strict=True)
            for i in range(len(models))
        ]
        columns.insert(0, Column("data set", names, name=True))
    if len({model.n_queries for ranking in rankings for model in ranking.models}) > 1:
        columns.append(Column(plural(first.unit or QUERY), [f"{model.n_queries:,}" for model in shown], right=True))
    columns.append(Column(noun_of(first), [number(model.estimate) for model in shown], right=True))
    if first.interval is not None:
        columns.append(Column(interval_header(first), [bounds((model.lower, model.upper)) for model in shown]))
        bar = _bar_width(columns, width)
        if bar >= LEAST_BAR:
            scale = scale_of(shown)
            bars = [interval_bar(m.lower, m.estimate, m.upper, scale, bar, ascii_only=ascii_only) for m in shown]
            columns.append(Column(f"{scale[0]:<{bar - 4}.2f}{scale[1]:.2f}", bars))
    hidden = len(first.models) - len(shown) if len(rankings) == 1 else 0
    return Group(title, fitted_table(columns, width), *more(hidden, "model"))


def _bar_width(columns: Sequence[Column], width: int) -> int:
    """Return what is left for bars: a narrow bar rather than shortened names, no bar rather than very short ones."""
    left = width - GAP * len(columns) - sum(column.width for column in columns)
    cut = sum(max(0, column.width - WIDEST_NAME) for column in columns if column.name)
    return min(WIDEST_BAR, max(left, min(left + cut, LEAST_BAR)))


def rankings_view(
    rankings: Sequence[Ranking], width: int, *, top: int | None = None, ascii_only: bool = False
) -> Group:
    """Show the best models of the first data sets, a table for each kind, and count the other data sets."""
    kinds: dict[str, list[Ranking]] = {}
    for ranking in rankings[:MOST_DATA_SETS]:
        kinds.setdefault(about(ranking), []).append(ranking)
    top = top or (TOP_OF_ONE if len(rankings) == 1 else TOP_OF_MANY)
    parts: list[RenderableType] = []
    for alike in kinds.values():
        parts += [*([Text("")] if parts else []), ranking_view(alike, width, top=top, ascii_only=ascii_only)]
    return Group(*parts, *more(len(rankings) - MOST_DATA_SETS, "data set"))


def scores_view(summary: ScoresSummary, width: int) -> Group:
    """Show the summary of a score store."""
    parts = [_headline("score store", summary), *_sizes(summary.data_sets, width)]
    if summary.grades_up_to > 1:
        at = f"positive here: from {summary.positive_from} (--positive-from)"
        parts.append(Text(f"labels are graded up to {summary.grades_up_to}; {at}"))
    if summary.missing:
        parts += [Text(""), *_missing_scores(summary.missing, width)]
    return Group(*parts, Text(""), *_warnings(summary.flags, width))


def result_view(summary: ResultSummary, width: int, *, top: int | None = None, ascii_only: bool = False) -> Group:
    """Show the summary of a result store."""
    return Group(
        _headline("result store", summary),
        attributes_view(summary.attrs),
        Text(""),
        *_sizes(summary.data_sets, width, plural(str(summary.attrs.get(UNIT, QUERY)))),
        Text(""),
        *_warnings(summary.flags, width),
        Text(""),
        rankings_view(summary.rankings, width, top=top, ascii_only=ascii_only),
    )


def _headline(kind: str, summary: ScoresSummary | ResultSummary) -> Text:
    counts = f"{count(len(summary.data_sets), 'data set')}, {count(summary.n_rankings, 'ranking')}"
    return Text(f"{kind} {summary.url}", style="bold").append(f"\n{counts}", style="not bold")


def _sizes(data_sets: Sequence[DataSetSize], width: int, units: str = "queries") -> list[RenderableType]:
    """Return a table of the first data sets, without empty columns."""
    shown = data_sets[:MOST_DATA_SETS]
    columns = []
    if any(size.data_set for size in shown):
        columns.append(Column("data set", [size.data_set for size in shown], name=True))
    columns.append(Column("models", [f"{size.n_models:,}" for size in shown], right=True))
    if any(size.n_queries is not None for size in shown):
        columns.append(Column(units, [_count(size.n_queries) for size in shown], right=True))
    if any(size.n_classes is not None for size in shown):
        columns.append(Column("classes", [_count(size.n_classes) for size in shown], right=True))
    if any(size.n_items is not None for size in shown):
        # Queries differ in length; the dimension has the length of the longest.
        items = [
            ("" if size.n_queries is None or size.n_items is None else "≤ ") + _count(size.n_items) for size in shown
        ]
        columns.append(Column("items", items, right=True))
    if any(math.isfinite(size.n_positive) for size in shown):
        positive = [f"{size.n_positive:,{'.6g' if size.n_positive < 1e6 else '.0f'}}" for size in shown]
        columns.append(Column("positive", positive, right=True))
        columns.append(Column("prevalence", [_prevalence(size) for size in shown], right=True))
    if any(size.n_missing for size in shown):
        columns.append(Column("missing", [_count(size.n_missing or None) for size in shown], right=True))
    return [fitted_table(columns, width), *more(len(data_sets) - len(shown), "data set")]


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _prevalence(size: DataSetSize) -> str:
    if not math.isfinite(size.prevalence_median):
        return "-"
    median = _share(size.prevalence_median)
    is_one = (size.n_queries or size.n_classes or 1) == 1
    return median if is_one else f"{median} ({_share(size.prevalence_min)} to {_share(size.prevalence_max)})"


def _share(share: float) -> str:
    """Return a share with two significant digits, without an exponent."""
    digits = 0 if share >= 0.1 or share == 0 else min(4, -math.floor(math.log10(share)) - 1)
    return percent(share, f".{digits}f")


def _missing_scores(missing: Sequence[MissingScores], width: int) -> list[RenderableType]:
    shown = missing[:MOST_MISSING]
    columns = [Column("missing scores of", [one.model for one in shown], name=True)]
    if any(one.data_set for one in shown):
        columns.append(Column("data set", [one.data_set for one in shown], name=True))
    columns.append(Column("missing", [f"{one.n_missing:,}" for one in shown], right=True))
    columns.append(Column("share", ["-" if one.share is None else _share(one.share) for one in shown], right=True))
    hidden = [line.append(" with missing scores") for line in more(len(missing) - len(shown), "model")]
    return [fitted_table(columns, width), *hidden]


def _warnings(flags: Sequence[FlagSummary], width: int) -> list[RenderableType]:
    """Return each flag with its meaning, how often it was raised and the first places."""
    if not flags:
        return [Text("no warnings", style="green")]
    parts: list[RenderableType] = []
    for flag in flags:
        title = Text(flag.flag.replace("_", " "), style="yellow")
        places = "; ".join(shorten(place, min(WIDEST_PLACE, width - 2)) for place in flag.places)
        hidden = f"; and {flag.more_places:,} more" if flag.more_places else ""
        parts += [
            title.append(f": {flag.count:,} of {count(flag.of, 'ranking')}", style="default"),
            Padding(Text(flag.description, style="dim"), (0, 0, 0, 2), expand=False),
            Padding(Text(places + hidden), (0, 0, 0, 2), expand=False),
        ]
    return parts


def attributes_view(attrs: Mapping[str, object]) -> Table:
    """Show names with their values."""
    grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for name, value in attrs.items():
        grid.add_row(Text(printable(name.replace("_", " ")), style="dim"), Text(printable(_attribute(value))))
    return grid


def _attribute(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
