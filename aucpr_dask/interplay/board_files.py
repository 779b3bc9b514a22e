"""Result files of programs that evaluate models, each read as a table: lm-eval, MTEB, HELM and SWE-bench."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from aucpr_dask.errors import FileFormatError, few
from aucpr_dask.schema.terms import MEASURE, MODEL

TASK, EXAMPLE, INSTANCE, VALUE, RESOLVED = "task", "example_id", "instance_id", "value", "resolved"
LESS = " ↓"  # behind the name of a measure of which a file says that less is better
OF_SWE_BENCH = [MODEL, INSTANCE, RESOLVED]
LEFT_OUT = "left_out"  # the attribute of a table made here: what its file holds and the table does not, and why
ABOUT_MODELS = ("model_meta.json",)  # files beside those of MTEB


def read_board(found: Any, path: Path) -> pd.DataFrame | None:
    """Return the table of what a file in JSON holds, if a known program wrote it."""
    for read in (_results, _samples, _of_mteb, _of_helm, _of_swe_bench):
        if (frame := read(found, path)) is not None:
            frame.attrs.setdefault(LEFT_OUT, {})
            return frame
    return None


def _name_of(*names: Any) -> str:
    """Return the first name that is known; folders write the slash of a name as two underscores."""
    return next(str(name) for name in names if name).replace("__", "/")


def _results(found: Any, path: Path) -> pd.DataFrame | None:
    """Read every task of lm-evaluation-harness or lighteval but groups, whose values are means of their tasks."""
    configs = {"config", "configs", "config_general", "versions"}
    if not (isinstance(found, dict) and configs & {*found} and isinstance(found.get("results"), dict)):
        return None
    config = found.get("config") or found.get("config_general") or {}
    pretrained = re.search(r"pretrained=([^,]+)", str(config.get("model_args", "")))
    model = _name_of(found.get("model_name"), config.get("model_name"), pretrained and pretrained[1], path.parent.name)
    groups = {*found.get("groups", {}), *(name for name, of in found.get("group_subtasks", {}).items() if of), "all"}
    higher = found.get("higher_is_better", {})
    rows = []
    for task, values in found["results"].items():
        for key, value in values.items() if task not in groups else ():
            metric, _, of = key.partition(",")
            if isinstance(value, int | float) and "stderr" not in metric and metric not in ("alias", "samples"):
                name = metric if of in ("", "none") else f"{metric} ({of})"
                name += "" if higher.get(task, {}).get(metric, True) else LESS
                rows.append((model, task, name, float(value)))
    counts = Counter(metric for _, _, metric, _ in rows)
    rows.sort(key=lambda row: -counts[row[2]])  # the measure of most tasks first
    frame = pd.DataFrame(rows, columns=[MODEL, TASK, MEASURE, VALUE])
    frame.attrs[LEFT_OUT] = {f"group {name}": "a mean of its tasks" for name in found["results"] if name in groups}
    return frame


def _samples(found: Any, path: Path) -> pd.DataFrame | None:
    """Read the samples of lm-evaluation-harness."""
    if not (isinstance(found, list) and found and {"doc_id", "target", "resps"} <= {*found[0]}):
        return None
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT.*$|\.jsonl.*$", "", path.name)
    rows = []
    for record in found:
        names = record.get("metrics") or [name for name, value in record.items() if isinstance(value, float)]
        known = {name: record[name] for name in names if isinstance(record.get(name), int | float)}
        rows += [(f"{task}/{record['doc_id']}", name, value) for name, value in known.items()]
    return pd.DataFrame(rows, columns=[EXAMPLE, MEASURE, VALUE]).assign(**{MODEL: _name_of(path.parent.name)})


def _of_mteb(found: Any, path: Path) -> pd.DataFrame | None:
    """Read the main score of a task of MTEB: the mean over its subsets, of the test split if there is one."""
    if not (isinstance(found, dict) and {"task_name", "mteb_dataset_name"} & {*found}):
        return None
    splits = {}
    for name, split in found.get("scores", found).items():
        parts = split if isinstance(split, list) else [split]
        if parts and all(isinstance(part, dict) for part in parts):
            splits[name] = parts
    if not splits:
        return None
    parts = splits.get("test") or next(iter(splits.values()))
    # The older form has a mapping for each subset of languages.
    scores = [one for part in parts for one in (part, *part.values()) if isinstance(one, dict) and "main_score" in one]
    if not scores:
        raise FileFormatError("this result of MTEB has no main score", path, few(splits), "main_score")
    mean = sum(float(one["main_score"]) for one in scores) / len(scores)
    task = found.get("task_name") or found["mteb_dataset_name"]
    row = {MODEL: _name_of(path.parent.parent.name, path.parent.name, "run"), TASK: task, "main_score": mean}
    return pd.DataFrame([row])


def _of_helm(found: Any, path: Path) -> pd.DataFrame | None:
    """Read the only table of HELM, or the one of accuracy."""
    tables = found if isinstance(found, list) else [found]
    if not tables or not all(isinstance(one, dict) and {"header", "rows"} <= {*one} for one in tables):
        return None
    named = [one for one in tables if str(one.get("title", "")).lower() == "accuracy"] or tables
    if len(named) != 1:
        received = few([repr(one.get("title")) for one in tables])
        raise FileFormatError("there is not one table in this file", path, received, "one table", "keep one of them")
    (table,) = named
    heads = [f"{cell['value']}{LESS if cell.get('lower_is_better') else ''}" for cell in table["header"]]
    heads[0] = "model"
    return pd.DataFrame([[cell.get("value") for cell in row] for row in table["rows"]], columns=heads)


def _of_swe_bench(found: Any, path: Path) -> pd.DataFrame | None:
    """Read which instances of SWE-bench were resolved, and which others the file names."""
    if not isinstance(found, dict) or not any(isinstance(found.get(name), list) for name in ("resolved_ids", RESOLVED)):
        return None
    ids: Any = found.get("resolved_ids", found.get(RESOLVED, ()))
    resolved = {*ids}
    named = dict.fromkeys(one for ids in found.values() if isinstance(ids, list) for one in ids)
    folder = path.parent.parent if path.parent.name == "results" else path.parent
    model = folder.name if path.stem in ("results", "report") else path.name.removesuffix(".json")
    return pd.DataFrame([(model, one, float(one in resolved)) for one in named], columns=OF_SWE_BENCH)
