"""The code in README and pages: its place and its output.

Every block of ```python and ```bash runs. A block that cannot run in a test follows a comment that readers do not see:
``<!-- not run: reason -->``, or ``<!-- run where MODULE is installed -->``. Code in other languages always needs one.
README's marked commands are run by ``.ci/run``, which also runs ``python tests/code_blocks.py README.md`` where nothing
but the package is installed.
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
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from click.testing import CliRunner

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


def run_page(blocks: Iterable[Block], folder: Path) -> None:
    """Run the blocks of a page in a folder, in order and from nothing, and compare what they print with the page.

    The folder has links to ``docs`` and ``cluster``, as where readers have cloned the repository.
    """
    for name in ("docs", "cluster"):
        (folder / name).symlink_to(ROOT / name)
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for block in blocks:
            if block.language in RUNNING and not block.reason:
                printed = run(block, names)
                as_shown = block.output is None or is_as_shown(printed, block.output)
                assert as_shown, f"{block.place} printed:\n{printed}"


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


if __name__ == "__main__":
    for given in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            run_page(blocks_of(ROOT / given), Path(scratch))
