"""Result files of programs that evaluate models, each read as a table: lm-eval, MTEB, HELM and SWE-bench."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from aucpr_dask.errors import FileFormatError, few
from aucpr_dask.schema.terms import MEASURE, MODEL

TASK, EXAMPLE, INSTANCE, VALUE, RESOLVED = "task", "example_id", "instance_id", "value", "resolved"
LESS = " ↓"  # behind the name of a measure of which a file says that less is better
OF_SWE_BENCH = [MODEL, INSTANCE, RESOLVED]
LEFT_OUT = "left_out"  # the attribute of a table made here: what its file holds and the table does not, and why
ABOUT_MODELS = ("model_meta.json",)  # files beside those of MTEB


class Format(NamedTuple):
    """How the files of a program are known, and read."""

    program: str
    fits: Callable[[Any], bool]
    read: Callable[[Any, Path], pd.DataFrame]


def read_board(found: Any, path: Path) -> pd.DataFrame | None:
    """Return the table of what a file in JSON holds, if a known program wrote it."""
    frame = next((one.read(found, path) for one in FORMATS if one.fits(found)), None)
    if frame is not None:
        frame.attrs.setdefault(LEFT_OUT, {})
    return frame


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _name_of(*names: Any) -> str:
    """Return the first name that is known; folders write the slash of a name as two underscores."""
    return next(str(name) for name in names if name).replace("__", "/")


# --- lm-evaluation-harness, lighteval -------------------------------------------------------------------------------


def _are_results(found: Any) -> bool:
    has_config = isinstance(found, dict) and bool({"config", "configs", "config_general", "versions"} & {*found})
    return has_config and isinstance(found.get("results"), dict)


def _results(found: Mapping[str, Any], path: Path) -> pd.DataFrame:
    """Read every task but groups, whose values are means of their tasks."""
    config = found.get("config") or found.get("config_general") or {}
    pretrained = re.search(r"pretrained=([^,]+)", str(config.get("model_args", "")))
    model = _name_of(found.get("model_name"), config.get("model_name"), pretrained and pretrained[1], path.parent.name)
    groups = {*found.get("groups", {}), *(name for name, of in found.get("group_subtasks", {}).items() if of), "all"}
    higher = found.get("higher_is_better", {})
    rows = [
        (model, task, metric + ("" if higher.get(task, {}).get(key.partition(",")[0], True) else LESS), value)
        for task, values in found["results"].items()
        if task not in groups
        for key, metric, value in _metrics(values)
    ]
    counts = Counter(metric for _, _, metric, _ in rows)
    rows.sort(key=lambda row: -counts[row[2]])  # the measure of most tasks first
    frame = pd.DataFrame(rows, columns=[MODEL, TASK, MEASURE, VALUE])
    frame.attrs[LEFT_OUT] = {f"group {name}": "a mean of its tasks" for name in found["results"] if name in groups}
    return frame


def _metrics(values: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for key, value in values.items():
        metric, _, of = key.partition(",")
        if _is_number(value) and "stderr" not in metric and metric not in ("alias", "samples"):
            yield key, metric if of in ("", "none") else f"{metric} ({of})", float(value)


def _are_samples(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and {"doc_id", "target", "resps"} <= {*found[0]}


def _samples(found: list[dict[str, Any]], path: Path) -> pd.DataFrame:
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT.*$|\.jsonl.*$", "", path.name)
    rows = []
    for record in found:
        names = record.get("metrics") or [name for name, value in record.items() if isinstance(value, float)]
        rows += [(f"{task}/{record['doc_id']}", name, record[name]) for name in names if _is_number(record.get(name))]
    return pd.DataFrame(rows, columns=[EXAMPLE, MEASURE, VALUE]).assign(**{MODEL: _name_of(path.parent.name)})


# --- MTEB -----------------------------------------------------------------------------------------------------------


def _is_of_mteb(found: Any) -> bool:
    return isinstance(found, dict) and bool({"task_name", "mteb_dataset_name"} & {*found}) and bool(_splits(found))


def _splits(found: Mapping[str, Any]) -> dict[str, Any]:
    scores = found.get("scores", found)
    splits = {
        name: one if isinstance(one, list) else [one] for name, one in scores.items() if isinstance(one, list | dict)
    }
    return {name: one for name, one in splits.items() if all(isinstance(part, dict) for part in one) and one}


def _of_mteb(found: Mapping[str, Any], path: Path) -> pd.DataFrame:
    """Read the main score of a task: the mean over its subsets, of the test split if there is one."""
    splits = _splits(found)
    parts = splits.get("test") or next(iter(splits.values()))
    # The older form has a mapping for each subset of languages.
    scores = [one for part in parts for one in (part, *part.values()) if isinstance(one, dict) and "main_score" in one]
    if not scores:
        raise FileFormatError("this result of MTEB has no main score", path, few(splits), "main_score")
    mean = sum(float(one["main_score"]) for one in scores) / len(scores)
    task = found.get("task_name") or found["mteb_dataset_name"]
    row = {MODEL: _name_of(path.parent.parent.name, path.parent.name, "run"), TASK: task, "main_score": mean}
    return pd.DataFrame([row])


# --- HELM -----------------------------------------------------------------------------------------------------------


def _is_of_helm(found: Any) -> bool:
    tables = found if isinstance(found, list) else [found]
    return bool(tables) and all(isinstance(one, dict) and {"header", "rows"} <= {*one} for one in tables)


def _of_helm(found: Any, path: Path) -> pd.DataFrame:
    """Read the only table, or the one of accuracy."""
    tables = found if isinstance(found, list) else [found]
    named = [one for one in tables if str(one.get("title", "")).lower() == "accuracy"] or tables
    if len(named) != 1:
        received = few([repr(one.get("title")) for one in tables])
        raise FileFormatError("there is not one table in this file", path, received, "one table", "keep one of them")
    (table,) = named
    heads = [f"{cell['value']}{LESS if cell.get('lower_is_better') else ''}" for cell in table["header"]]
    heads[0] = "model"
    return pd.DataFrame([[cell.get("value") for cell in row] for row in table["rows"]], columns=heads)


# --- SWE-bench ------------------------------------------------------------------------------------------------------


def _is_of_swe_bench(found: Any) -> bool:
    return isinstance(found, dict) and any(isinstance(found.get(name), list) for name in ("resolved_ids", RESOLVED))


def _of_swe_bench(found: Mapping[str, Any], path: Path) -> pd.DataFrame:
    """Read which instances were resolved, and which others the file names."""
    resolved = {*found.get("resolved_ids", found.get(RESOLVED, ()))}
    named = dict.fromkeys(one for ids in found.values() if isinstance(ids, list) for one in ids)
    folder = path.parent.parent if path.parent.name == "results" else path.parent
    model = folder.name if path.stem in ("results", "report") else path.name.removesuffix(".json")
    return pd.DataFrame([(model, one, float(one in resolved)) for one in named], columns=OF_SWE_BENCH)


FORMATS = (
    Format("lm-evaluation-harness", _are_results, _results),
    Format("lm-evaluation-harness, samples", _are_samples, _samples),
    Format("MTEB", _is_of_mteb, _of_mteb),
    Format("HELM", _is_of_helm, _of_helm),
    Format("SWE-bench", _is_of_swe_bench, _of_swe_bench),
)
