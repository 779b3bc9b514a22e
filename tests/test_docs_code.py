"""Every block of code in README and pages runs, page by page, and prints what the page shows."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_blocks import PAGES, ROOT, RUNNING, blocks_of, is_as_shown, run, run_page

from aucpr_dask.storage.urls import StoreName
from aucpr_dask.workers.connecting import connect, connect_for

pytestmark = pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")  # of models of the demo

BLOCKS = {page.relative_to(ROOT).as_posix(): list(blocks_of(page)) for page in PAGES}
WITH_CODE = [name for name, blocks in BLOCKS.items() if any(b.language in RUNNING and not b.reason for b in blocks)]
SHOWN_ONLY = {"", "text", "toctree", "eval"}  # output, sketches, and directives of the site


@pytest.fixture(scope="module")
def one_cluster() -> Iterator[None]:
    """Let all runs that name no cluster share one: starting one for each would take longer than everything else."""
    with pytest.MonkeyPatch.context() as patch, connect(1) as client:

        def connect_once(cluster: Any, *places: Any, **options: Any) -> Any:
            is_object = any(isinstance(place, StoreName) for place in places)  # which needs threads of this process
            return connect_for(cluster, *places, **options) if is_object else connect(cluster or client, **options)

        patch.setattr("aucpr_dask.workers.connecting.connect_for", connect_once)
        yield


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unsafe cast from uint64 to int64")  # in the code that ranx compiles
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow with SQLAlchemy 2.1
@pytest.mark.parametrize("name", WITH_CODE)
def test_code_runs(name: str, one_cluster: None, tmp_path: Path) -> None:
    run_page(BLOCKS[name], tmp_path)


@pytest.mark.slow
def test_answers_of_how_do_i_need_only_its_first_block(
    one_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pasted one by one, in a folder where all of them have run before."""
    monkeypatch.chdir(tmp_path)
    first, *answers = (block for block in BLOCKS["docs/how-do-i.md"] if block.language in RUNNING and not block.reason)
    for _ in range(2):
        names: dict[str, Any] = {"__name__": "__main__"}
        run(first, names)
        for answer in answers:
            printed = run(answer, dict(names))
            assert answer.output is None or is_as_shown(printed, answer.output), answer.place


def test_code_that_does_not_run_has_a_reason() -> None:
    """In other languages, too: nobody has tried it here."""
    silent = [
        block.place
        for blocks in BLOCKS.values()
        for block in blocks
        if block.language not in {*RUNNING, *SHOWN_ONLY} and not block.reason
    ]
    assert silent == [], "write before it: <!-- not run: reason -->"


def test_readers_do_not_see_why_code_is_not_run() -> None:
    assert [page.name for page in PAGES if "run by the tests" in page.read_text()] == []


def test_code_can_be_pasted_into_an_interpreter() -> None:
    """Python 3.11 and 3.12 need an empty line behind an indented block, and none in it; classes go into files."""
    wrong = []
    for block in (one for blocks in BLOCKS.values() for one in blocks if one.language == "python"):
        lines = [*block.code.splitlines(), ""]
        for statement in ast.parse(block.code).body:
            if hasattr(statement, "body"):
                indented = lines[statement.lineno : statement.end_lineno]
                is_class = isinstance(statement, ast.ClassDef)
                if lines[statement.end_lineno or 0] or ("" in indented and not is_class):
                    wrong.append(f"{block.place}: {lines[statement.lineno - 1]}")
    assert wrong == []


def test_most_pages_have_code_that_runs() -> None:
    for name in ("README.md", "docs/tutorial.md", "docs/coming-from.md", "docs/how-do-i.md", "cluster/README.md"):
        assert name in WITH_CODE


def test_a_page_that_is_wrong_fails(tmp_path: Path) -> None:
    text = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n<!-- not run: no R here -->\n\n```r\nx <- 1\n```\n"
    (tmp_path / "page.md").write_text(text + "\n```python\nmissing\n```\n")
    shown, other, wrong = blocks_of(tmp_path / "page.md")
    assert (shown.line, shown.output, shown.reason) == (2, "2\n", None)
    assert (other.language, other.reason) == ("r", "no R here")
    assert not is_as_shown(run(shown, {}), shown.output)
    assert is_as_shown("a 3.1 s\nb\n", "a ... s\nb")
    with pytest.raises(NameError):
        run(wrong, {})
