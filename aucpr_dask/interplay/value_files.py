"""Tables of values in JSON, Markdown and HTML, by the libraries that read them."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from aucpr_dask.errors import FileFormatError, few
from aucpr_dask.schema.checks import require
from aucpr_dask.scores.importing.files import bare_name, reading_text

JSON, LINES, MARKDOWN, HTML = (".json",), (".jsonl", ".ndjson"), (".md", ".markdown"), (".html", ".htm")


def parsed(path: Path) -> Any:
    """Return what a file in one of these formats holds, a data frame or a mapping; None if it is in another."""
    suffix = path.name.removeprefix(bare_name(path, (*JSON, *LINES, *MARKDOWN, *HTML))).lower()
    if not suffix.startswith((*JSON, *LINES, *MARKDOWN, *HTML)):
        return None
    with reading_text(path) as stream:
        text = stream.read()
    if suffix.startswith(MARKDOWN):
        return _only_table(_tables_in_markdown(text), path)
    if suffix.startswith(HTML):
        require("lxml", "html", path)
        try:
            return _only_table(pd.read_html(io.StringIO(text), flavor="lxml"), path)
        except ValueError as error:  # no table
            raise FileFormatError("there is no table on this page", path, error) from error
    try:
        if suffix.startswith(LINES):
            return pd.DataFrame([json.loads(line) for line in text.splitlines() if line.strip()])
        found = json.loads(text)
        if isinstance(found, dict) and all(isinstance(one, dict) for one in found.values()):
            return found
        is_split = isinstance(found, dict) and {*found} >= {"columns", "data"}  # as pandas splits a frame
        return pd.DataFrame(found["data"], columns=found["columns"]) if is_split else pd.DataFrame(found)
    except (ValueError, TypeError, RecursionError) as error:
        allowed = "rows, [{column: cell, ...}, ...], or {model: {query: value}}; one row in each line of JSONL"
        raise FileFormatError("the file is not a table in JSON", path, error, allowed) from error


def _only_table(tables: list[pd.DataFrame], path: Path) -> pd.DataFrame:
    if len(tables) != 1:
        received = few([f"one with columns {few(map(str, table.columns))}" for table in tables]) or "none"
        raise FileFormatError("there is not one table in this file", path, received, "one table", "keep one of them")
    return tables[0]


def _tables_in_markdown(text: str) -> list[pd.DataFrame]:
    """Return the tables of a page; of bold text, code and links only the words."""
    from markdown_it import MarkdownIt  # rich needs it, too

    tables: list[list[list[str]]] = []
    for token, following in pairwise(MarkdownIt().enable("table").parse(text)):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type in ("th_open", "td_open"):
            words = [one.content for one in following.children or () if one.type in ("text", "code_inline")]
            tables[-1][-1].append("".join(words).strip())
    return [pd.DataFrame(rows, columns=heads) for heads, *rows in tables]
