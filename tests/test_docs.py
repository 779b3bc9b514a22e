"""The generated tables are what their scripts print, no link is dead, and the README shows what its examples print."""

import functools
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import PAGES, ROOT, blocks_of, is_as_shown, run

from aucpr_dask import demo
from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.terms import FLAGS

DOCS = ROOT / "docs"
README = ROOT / "README.md"
RECORDS = ("estimators", "intervals", "options", "terms")
MOST_LINES = 2200
PEER_MODULES = {
    "scikit-learn": "sklearn",
    "torchmetrics": "torchmetrics",
    "pytrec_eval-terrier": "pytrec_eval",
    "ranx": "ranx",
    "xgboost": "xgboost",
}


@functools.cache
def printed(script: str) -> str:
    """Run a script in its own process, where a peer's warnings are not ours."""
    command = [sys.executable, str(DOCS / script), "--print"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def block(page: str, name: str) -> str:
    begin, end = (f"<!-- {edge} generated: {name} -->" for edge in ("begin", "end"))
    return (DOCS / page).read_text().partition(begin)[2].partition(end)[0].strip()


def test_the_reference_is_what_the_script_prints() -> None:
    page = (DOCS / "estimators.md").read_text()
    assert printed("generate_reference.py").strip() == page.strip(), "run: python docs/generate_reference.py"
    for name in (*ESTIMATORS, *INTERVALS, *(flag.name for flag in FLAGS)):
        assert f"| `{name}` |" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lists", "ours"])
def test_our_own_values_are_what_the_script_prints(name: str) -> None:
    shown = block("why-tools-disagree.md", name)
    assert json.loads(printed("conformance.py"))[name] == shown, "run: python docs/conformance.py"


@pytest.mark.slow
def test_every_installed_peer_has_the_values_on_the_page() -> None:
    rows = json.loads(printed("conformance.py"))["peers"].splitlines()[2:]
    shown = [without_version(line) for line in block("why-tools-disagree.md", "peers").splitlines()]
    installed = {peer for peer, module in PEER_MODULES.items() if importlib.util.find_spec(module)}
    assert {row.split()[1] for row in rows} == installed
    assert [row for row in rows if without_version(row) not in shown] == []


def without_version(row: str) -> str:
    return re.sub(r"^\| (\S+) [^|]+ \|", r"| \1 |", row)


def test_no_peer_differs_from_the_option_it_should_equal() -> None:
    peers = block("why-tools-disagree.md", "peers").splitlines()[2:]
    assert len(peers) == 7
    for line in peers:
        for cell in line.strip("| ").split(" | ")[3:]:
            assert re.fullmatch(r"\d\.\d{5} (=|\(=\))|-", cell), line


def test_scripts_use_public_names_and_records_alone() -> None:
    """So that no change of a kernel breaks a page."""
    scripts = [*DOCS.glob("*.py"), *(DOCS / "study").glob("*.py")]
    used = {name for file in scripts for name in re.findall(r"(?:from|import) (aucpr_dask[\w.]*)", file.read_text())}
    assert used <= {"aucpr_dask", *(f"aucpr_dask.schema.{name}" for name in RECORDS)}
    assert sum(len(file.read_text().splitlines()) for file in scripts) <= MOST_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", text) + re.findall(r"\{download\}`[^<]+<([^>]+)>`", text)
    for target in targets:
        name, _, anchor = target.partition("#")
        place = elsewhere(page.parent / name) if name else page
        assert place.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(place), f"{page.name}: {target}"


def elsewhere(page: Path) -> Path:
    """Return the page that a page of the site includes, if it includes one."""
    included = page.exists() and re.search(r"This page of the site is \[.+\]\((.+)\)", page.read_text(errors="ignore"))
    return page.parent / included[1] if included else page


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::aucpr_dask.errors.DoubtfulScoresWarning")  # of models of the demo
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
