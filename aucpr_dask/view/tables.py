"""Terminal tables that fit their width. Names are data: they are cut to size and never read as markup."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aucpr_dask.errors import printable
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


def shorten(name: str, width: int) -> str:
    """Cut the middle out of a name that is wider than `width` cells; characters that do not print are escaped.

    Examples
    --------
    >>> shorten("Padua_ims_iafapc_m10p5f0t0p2m10", 20)
    'Padua_ims_…f0t0p2m10'
    """
    name = printable(unicodedata.normalize("NFC", name))
    if cell_len(name) <= width:
        return name
    if width <= 1:
        return "…"[:width]
    head, tail = name, name
    room_head, room_tail = width // 2, width - width // 2 - 1
    while cell_len(head) > room_head:
        head = head[:-1]
    while cell_len(tail) > room_tail:
        tail = tail[1:]
    return f"{head}…{tail}"


def interval_bar(
    lower: float, estimate: float, upper: float, scale: tuple[float, float], width: int, *, ascii_only: bool = False
) -> str:
    """Draw an interval and its estimate on a scale.

    Examples
    --------
    >>> interval_bar(0.25, 0.5, 0.75, (0.0, 1.0), 9)
    '  ──●──'
    """
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
    """A column of a table: `name` columns share the room that the others leave."""

    header: str
    right: bool = False
    name: bool = False


def fitted_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Lay out a table of at most `width` cells: names are shortened, everything else is kept whole."""
    needs = [max([cell_len(column.header), *(cell_len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    flexible = sorted((i for i, column in enumerate(columns) if column.name), key=lambda i: needs[i])
    room = width - GAP * (len(columns) - 1) - sum(need for i, need in enumerate(needs) if i not in flexible)
    for left, i in zip(range(len(flexible), 0, -1), flexible, strict=True):
        needs[i] = max(min(needs[i], room // left), min(needs[i], LEAST_NAME))
        room -= needs[i]
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    for column, need in zip(columns, needs, strict=True):
        table.add_column(
            Text(column.header), justify="right" if column.right else "left", width=need, no_wrap=True, overflow="crop"
        )
    for row in rows:
        cells = (shorten(cell, needs[i]) if columns[i].name else cell for i, cell in enumerate(row))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def ranking_view(ranking: Ranking, width: int, *, top: int | None = None, ascii_only: bool = False) -> Group:
    """Show the best `top` models of a data set with their intervals, as numbers and as bars."""
    shown = ranking.models[:top]
    columns = [Column("", right=True), Column("model", name=True)]
    rows = [[str(model.rank or "-"), model.model] for model in shown]
    if len({model.n_queries for model in ranking.models}) > 1:
        columns.append(Column("queries", right=True))
        rows = [[*row, f"{model.n_queries:,}"] for row, model in zip(rows, shown, strict=True)]
    title = Text(shorten(ranking.data_set, WIDEST_NAME) or "all models", style="bold")
    more = len(ranking.models) - len(shown)
    return Group(
        title.append(f"  {_about(ranking)}", style="not bold"),
        _table_of_areas(columns, rows, shown, ranking, width, ascii_only),
        *([Text(f"and {counted(more, 'more model')}", style="dim")] if more else []),
    )


def leaders_view(rankings: Sequence[Ranking], width: int, *, top: int, ascii_only: bool = False) -> Group:
    """Show the best `top` models of several data sets of one kind in one table, on one scale."""
    first, n_models = rankings[0], {len(ranking.models) for ranking in rankings}
    shown = [model for ranking in rankings for model in ranking.models[:top]]
    rows = [
        [ranking.data_set if i == 0 else "", str(model.rank or "-"), model.model]
        for ranking in rankings
        for i, model in enumerate(ranking.models[:top])
    ]
    of = f"{min(n_models):,}" if len(n_models) == 1 else f"{min(n_models):,} to {max(n_models):,}"
    title = Text(f"{counted(len(rankings), 'data set')}, best {top} of {of} models", style="bold")
    columns = [Column("data set", name=True), Column("", right=True), Column("model", name=True)]
    return Group(
        title.append(f"  {_about(first)}", style="not bold"),
        _table_of_areas(columns, rows, shown, first, width, ascii_only),
    )


def rankings_view(
    rankings: Sequence[Ranking], width: int, *, top: int | None = None, ascii_only: bool = False
) -> Group:
    """Show one data set with its best models, or the best few of the first data sets and count the others."""
    if len(rankings) == 1:
        return ranking_view(rankings[0], width, top=top or TOP_OF_ONE, ascii_only=ascii_only)
    kinds: dict[str, list[Ranking]] = {}
    for ranking in rankings[:MOST_DATA_SETS]:
        kinds.setdefault(_about(ranking), []).append(ranking)
    parts: list[RenderableType] = []
    for alike in kinds.values():
        view = (
            ranking_view(alike[0], width, top=top or TOP_OF_MANY, ascii_only=ascii_only)
            if len(alike) == 1
            else leaders_view(alike, width, top=top or TOP_OF_MANY, ascii_only=ascii_only)
        )
        parts += [*([Text("")] if parts else []), view]
    if len(rankings) > MOST_DATA_SETS:
        parts.append(Text(f"and {counted(len(rankings) - MOST_DATA_SETS, 'more data set')}", style="dim"))
    return Group(*parts)


def _table_of_areas(
    columns: list[Column],
    rows: list[list[str]],
    models: Sequence[RankedModel],
    kind: Ranking,
    width: int,
    ascii_only: bool,
) -> Table:
    """Add area, interval and, where there is room, a bar to the `rows` of the `models`."""

    def add(column: Column, cells: Sequence[str]) -> None:
        columns.append(column)
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)

    add(Column("area", right=True), [_area(model.estimate) for model in models])
    if kind.interval is not None:
        add(Column(f"{100 * kind.level:.4g}% interval" if kind.level else "interval"), [_bounds(m) for m in models])
        needs = [
            max(cell_len(cell) for cell in (column.header, *(row[i] for row in rows)))
            for i, column in enumerate(columns)
        ]
        names = [min(need, WIDEST_NAME) if column.name else need for column, need in zip(columns, needs, strict=True)]
        bar = min(WIDEST_BAR, width - sum(names) - GAP * len(columns))
        if bar >= LEAST_BAR:
            scale = _scale(models)
            bars = [interval_bar(m.lower, m.estimate, m.upper, scale, bar, ascii_only=ascii_only) for m in models]
            add(Column(f"{scale[0]:<{bar - 4}.2f}{scale[1]:.2f}"), bars)
    return fitted_table(columns, rows, width)


def _about(ranking: Ranking) -> str:
    about = [ranking.estimator.replace("_", " ")]
    if ranking.n_queries is not None:
        about.append(f"mean of {ranking.n_queries:,} queries")
    if ranking.interval is not None:
        about.append(f"{ranking.interval.replace('_', ' ')} interval")
    return ", ".join(about)


def _scale(models: Sequence[RankedModel]) -> tuple[float, float]:
    """Return the range of the bars: all intervals shown, rounded outwards to twentieths."""
    bounds = [value for model in models for value in (model.lower, model.estimate, model.upper) if math.isfinite(value)]
    if not bounds:
        return 0.0, 1.0
    return math.floor(min(bounds) * 20) / 20, math.ceil(max(bounds) * 20) / 20


def _area(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "-"


def _bounds(model: RankedModel) -> str:
    if not (math.isfinite(model.lower) and math.isfinite(model.upper)):
        return "-"
    return f"[{model.lower:.3f}, {model.upper:.3f}]"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "model"), counted(2000, "model")
    ('1 model', '2,000 models')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def scores_view(summary: ScoresSummary, width: int) -> Group:
    """Show the summary of a score store."""
    parts: list[RenderableType] = [
        _headline("score store", summary.url, len(summary.data_sets), summary.n_rankings),
        *_sizes(summary.data_sets, width),
    ]
    if summary.grades_up_to > 1:
        parts.append(
            Text(
                f"labels are graded up to {summary.grades_up_to}; "
                f"positive here: from {summary.positive_from} (--positive-from)"
            )
        )
    if summary.missing:
        parts += [Text(""), *_missing_scores(summary.missing, width)]
    return Group(*parts, Text(""), *_warnings(summary.flags, width))


def result_view(summary: ResultSummary, width: int, *, top: int | None = None, ascii_only: bool = False) -> Group:
    """Show the summary of a result store."""
    return Group(
        _headline("result store", summary.url, len(summary.data_sets), summary.n_rankings),
        attributes_view(summary.attrs),
        Text(""),
        *_sizes(summary.data_sets, width),
        Text(""),
        *_warnings(summary.flags, width),
        Text(""),
        rankings_view(summary.rankings, width, top=top, ascii_only=ascii_only),
    )


def _headline(kind: str, url: str, n_data_sets: int, n_rankings: int) -> Text:
    counts = f"{counted(n_data_sets, 'data set')}, {counted(n_rankings, 'ranking')}"
    return Text(f"{kind} {url}", style="bold").append(f"\n{counts}", style="not bold")


def _sizes(data_sets: Sequence[DataSetSize], width: int) -> list[RenderableType]:
    """Return a table of the first data sets; columns that say nothing are left out."""
    shown = data_sets[:MOST_DATA_SETS]
    columns = [Column("data set", name=True)] if any(size.data_set for size in shown) else []
    rows = [[size.data_set] if columns else [] for size in shown]

    def add(header: str, values: Sequence[str]) -> None:
        columns.append(Column(header, right=True))
        for row, value in zip(rows, values, strict=True):
            row.append(value)

    add("models", [f"{size.n_models:,}" for size in shown])
    if any(size.n_queries is not None for size in shown):
        add("queries", ["-" if size.n_queries is None else f"{size.n_queries:,}" for size in shown])
    if any(size.n_items is not None for size in shown):
        # Queries differ in length: the dimension is as long as the longest.
        most = [("" if size.n_queries is None else "≤ ") for size in shown]
        add("items", ["-" if s.n_items is None else f"{at}{s.n_items:,}" for at, s in zip(most, shown, strict=True)])
    add(
        "positive",
        [f"{size.n_positive:,.6g}" if size.n_positive < 1e6 else f"{size.n_positive:,.0f}" for size in shown],
    )
    add("prevalence", [_prevalence(size) for size in shown])
    if any(size.n_missing for size in shown):
        add("missing", [f"{size.n_missing:,}" if size.n_missing else "-" for size in shown])
    parts: list[RenderableType] = [fitted_table(columns, rows, width)]
    if len(data_sets) > len(shown):
        parts.append(Text(f"and {counted(len(data_sets) - len(shown), 'more data set')}", style="dim"))
    return parts


def _prevalence(size: DataSetSize) -> str:
    if not math.isfinite(size.prevalence_median):
        return "-"
    if size.n_queries is None or size.n_queries == 1:
        return _percent(size.prevalence_median)
    return f"{_percent(size.prevalence_median)} ({_percent(size.prevalence_min)}-{_percent(size.prevalence_max)})"


def _percent(share: float) -> str:
    """Return a share with two significant digits, without an exponent."""
    digits = 0 if share >= 0.1 or share == 0 else min(4, -math.floor(math.log10(share)) - 1)
    return f"{share:.{digits}%}"


def _missing_scores(missing: Sequence[MissingScores], width: int) -> list[RenderableType]:
    shown = missing[:MOST_MISSING]
    named = any(one.data_set for one in shown)
    columns = [
        Column("missing scores of", name=True),
        *([Column("data set", name=True)] if named else []),
        Column("missing", right=True),
        Column("share", right=True),
    ]
    rows = [
        [
            one.model,
            *([one.data_set] if named else []),
            f"{one.n_missing:,}",
            "-" if one.share is None else _percent(one.share),
        ]
        for one in shown
    ]
    parts: list[RenderableType] = [fitted_table(columns, rows, width)]
    if len(missing) > len(shown):
        parts.append(Text(f"and {len(missing) - len(shown):,} more models with missing scores", style="dim"))
    return parts


def _warnings(flags: Sequence[FlagSummary], width: int) -> list[RenderableType]:
    """Return each flag with what it means, how often it was raised and where first."""
    if not flags:
        return [Text("no warnings", style="green")]
    parts: list[RenderableType] = []
    for flag in flags:
        title = Text(flag.flag.replace("_", " "), style="yellow")
        parts.append(title.append(f": {flag.count:,} of {counted(flag.of, 'ranking')}", style="default"))
        places = "; ".join(shorten(place, min(WIDEST_PLACE, width - 2)) for place in flag.places)
        more = f"; and {flag.more_places:,} more" if flag.more_places else ""
        parts.append(Padding(Text(flag.description, style="dim"), (0, 0, 0, 2), expand=False))
        parts.append(Padding(Text(places + more), (0, 0, 0, 2), expand=False))
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
