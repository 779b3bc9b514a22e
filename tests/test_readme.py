"""The README: its first example prints what it shows, its comments and links work."""

import re
from pathlib import Path

import pytest
from code_blocks import ROOT, blocks_of, is_as_shown, run

from aucpr_dask import demo

pytestmark = pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")  # of models of the demo

README = ROOT / "README.md"


@pytest.mark.slow
def test_the_first_examples_print_what_the_readme_shows_and_every_call_of_its_table_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    demo.build_scores("aucpr-demo/scores.zarr")
    before, after = README.read_text().split("| to find out | call |")
    calls = re.findall(r"^\| [^|]+ \| `(.+)` \|$", after.split("\n\n")[0], re.MULTILINE)
    assert len(calls) == 6
    names: dict[str, object] = {"__name__": "__main__"}
    examples = [block for block in blocks_of(README) if block.language == "python" and block.code in before]
    assert len([line for line in examples[0].code.splitlines() if line.strip()]) <= 10
    for example in examples:
        assert is_as_shown(run(example, names), example.output or "")
    for call in calls:
        assert "Lund" in repr(eval(call, names)), call


def test_a_comment_never_begins_a_line_of_text() -> None:
    """Markdown takes such a line for HTML, and some renderers drop it."""
    begins = [line for line in README.read_text().splitlines() if line.startswith("<!--")]
    assert [line for line in begins if not line.endswith("-->")] == []
    assert re.findall(r"^<!-- command: (\w+) -->$", README.read_text(), re.MULTILINE) == ["demo", "test"]
