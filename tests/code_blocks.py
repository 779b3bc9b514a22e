"""The code in README and pages: its place, its output, and small data for it to work on.

Every block of ```python and ```bash runs. A block that cannot run in a test follows a comment that readers do not see:
``<!-- not run: reason -->``, or ``<!-- run where MODULE is installed -->``. Code in other languages always needs one.
README's marked commands are run by ``.ci/run``.
"""

from __future__ import annotations

import contextlib
import doctest
import glob
import io
import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from click.testing import CliRunner

import aucpr_dask as ap
from aucpr_dask.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(page for name in ("docs", "cluster", "notebooks") for page in sorted((ROOT / name).glob("*.md"))),
]
RUNNING = ("python", "bash")
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```$"
    r"(?:\n\s*(?P=indent)```text\n(?P<output>.*?)^(?P=indent)```$)?",
    re.DOTALL | re.MULTILINE,
)
REASON = re.compile(r"<!-- not run: (?P<reason>[^>]+) -->\s*\Z")
WHERE = re.compile(r"<!-- run where (?P<module>\w+) is installed -->\s*\Z")
COMMAND = re.compile(r"<!-- command: \w+ -->\s*\Z")
MODELS = ["weak", "fair", "strong", "bm25", "bert"]


@dataclass(frozen=True)
class Block:
    """A fenced block of code, the output that the page shows below it, and why the block is not run, if it is not."""

    page: Path
    line: int
    language: str
    code: str
    output: str | None
    reason: str | None

    @property
    def place(self) -> str:
        """Return page and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page, in its order."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        before, output = text[: found.start()], found["output"]
        code = textwrap.dedent(found["code"])
        shown = None if output is None else textwrap.dedent(output)
        yield Block(page, before.count("\n") + 2, found["language"], code, shown, _reason(before))


def _reason(before: str) -> str | None:
    """Return why the code behind this text is not run, if it is not."""
    if said := REASON.search(before):
        return said["reason"]
    where = WHERE.search(before)
    if where and find_spec(where["module"]) is None:
        return f"{where['module']} is not installed"
    return "run by .ci/run" if COMMAND.search(before) else None


def prepare(folder: Path) -> dict[str, Any]:
    """Write the files that pages use to `folder`, and return the names that their Python code finds.

    Five models on a pool of 40 items for each of 8 queries: ``scores.zarr``; the same as TREC runs and judgments in
    ``runs/*.gz`` and ``qrels.txt``; one query as a table, ``predictions.csv``, and with a row for each model and
    item, ``tidy.csv``. ``docs`` and ``cluster`` are those of the repository.
    """
    random = np.random.default_rng(0)
    label = (random.random((8, 40)) < 0.3).astype("int8")
    label[:, 0] = 1
    skill = np.array([0.5, 1.0, 2.0, 1.0, 1.5])[:, None, None]
    score = (random.standard_normal((len(MODELS), *label.shape)) + skill * label).astype("float32")
    scores = xr.Dataset(
        {"score": (("model", "query", "item"), score), "label": (("query", "item"), label)},
        coords={
            "model": MODELS,
            "query": [f"q{i}" for i in range(len(label))],
            "item": [f"d{i:02d}" for i in range(label.shape[1])],
        },
    )
    _write_trec(folder, scores)
    table = pd.DataFrame(score[:, 0].T, columns=MODELS)
    table = table.assign(y=label[0])
    table.to_csv(folder / "predictions.csv", index=False)
    tidy = table.reset_index(names="id").melt(["id", "y"], var_name="model", value_name="score")
    tidy.to_csv(folder / "tidy.csv", index=False)
    ap.save_scores(scores, folder / "scores.zarr")
    for name in ("docs", "cluster"):
        (folder / name).symlink_to(ROOT / name)
    tree = xr.DataTree.from_dict({name: scores.isel(query=[i], drop=False) for i, name in enumerate(["one", "two"])})
    return {
        "ap": ap,
        "np": np,
        "xr": xr,
        "scores": scores,
        "tree": tree,
        "score": score[:, 0],
        "label": label[0],
        "__name__": "__main__",
    }


def _write_trec(folder: Path, scores: xr.Dataset) -> None:
    (folder / "runs").mkdir()
    table = scores.to_dataframe().reset_index()
    for model, run in table.groupby("model"):
        run = run.assign(q0="Q0", rank=0)[["query", "q0", "item", "rank", "score", "model"]]
        run.to_csv(folder / "runs" / f"{model}.gz", sep=" ", header=False, index=False)
    judged = table[table["model"] == MODELS[0]].assign(iteration=0)[["query", "iteration", "item", "label"]]
    judged.to_csv(folder / "qrels.txt", sep=" ", header=False, index=False)


def run(block: Block, names: dict[str, Any]) -> str:
    """Run a block in the current folder and return what it prints."""
    if block.language == "python":
        return _run_python(block, names)
    lines = [shlex.split(line, comments=True) for line in block.code.replace("\\\n", " ").splitlines()]
    lines = [words for words in lines if words]
    if all(words[0] == "aucpr-dask" and not set(words) & {"|", "&&", ">"} for words in lines):
        return "".join(_call(words[1:], block) for words in lines)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block.place}: {done.stderr}"
    return done.stdout


def _run_python(block: Block, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        # Errors name the page and its line.
        exec(compile("\n" * (block.line - 1) + block.code, str(block.page), "exec"), names)
    return printed.getvalue()


def _call(words: list[str], block: Block) -> str:
    """Call the command line in this process, with patterns expanded as a shell does."""
    words = [path for word in words for path in (sorted(glob.glob(word)) or [word])]
    result = CliRunner().invoke(main, words, env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.exit_code == 0, f"{block.place}: aucpr-dask {' '.join(words)}: {result.output}"
    return result.stdout


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether a block printed what its page shows; ``...`` matches anything."""

    def plain(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines()) + os.linesep

    return doctest.OutputChecker().check_output(plain(shown), plain(printed), doctest.ELLIPSIS)
