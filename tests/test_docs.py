"""The generated pages are what their scripts print."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aucpr_dask.schema.estimators import ESTIMATORS
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.variables import FLAGS

DOCS = Path(__file__).parents[1] / "docs"
TOOLS = DOCS / "why-tools-disagree.md"
PEER_MODULES = {
    "scikit-learn": "sklearn",
    "torchmetrics": "torchmetrics",
    "pytrec_eval-terrier": "pytrec_eval",
    "ranx": "ranx",
    "xgboost": "xgboost",
}


def run(script: str, *arguments: str) -> str:
    """Run a script in its own process, where a peer's warnings are not ours."""
    command = [sys.executable, str(DOCS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def block(name: str) -> str:
    begin, end = (f"<!-- {edge} generated: {name} -->" for edge in ("begin", "end"))
    return re.search(f"{re.escape(begin)}(.*?){re.escape(end)}", TOOLS.read_text(), re.DOTALL).group(1).strip()


@pytest.fixture(scope="module")
def printed() -> dict:
    return json.loads(run("conformance.py", "--print"))


def test_reference_is_what_the_script_prints() -> None:
    page = (DOCS / "estimators.md").read_text()
    assert run("generate_reference.py", "--print").strip() == page.strip(), "run: python docs/generate_reference.py"
    for name in (*ESTIMATORS, *INTERVALS, *(flag.name for flag in FLAGS)):
        assert f"| `{name}` |" in page


@pytest.mark.parametrize("name", ["published", "errata", "dominance"])
def test_our_own_tables_are_what_the_script_prints(printed: dict, name: str) -> None:
    if name not in printed:
        pytest.skip("the reference cases are not here")
    assert printed[name] == block(name)


def test_every_installed_peer_says_what_the_page_says(printed: dict) -> None:
    rows = {row.partition(" | ")[0]: [] for row in printed["peers"]}
    for row in printed["peers"]:
        rows[row.partition(" | ")[0]].append(without_version(row))
    shown = [without_version(line) for line in block("conformance").splitlines()]
    assert rows, "not even scikit-learn"
    assert {peer.split()[1] for peer in rows} == {p for p, m in PEER_MODULES.items() if importlib.util.find_spec(m)}
    assert [row for group in rows.values() for row in group if row not in shown] == []


def without_version(row: str) -> str:
    return re.sub(r"^\| (\S+) [^|]+ \|", r"| \1 |", row)


def test_our_values_and_lists_are_what_the_page_says(printed: dict) -> None:
    both = [text.partition("What the peers say")[0] for text in (printed["conformance"], block("conformance"))]
    assert both[0] == both[1]


def test_no_peer_differs_from_the_option_it_is_said_to_equal() -> None:
    peers = [line for line in block("conformance").splitlines() if re.match(r"\| [a-z_-]+ \d+\.\d+", line)]
    assert len(peers) == 7
    for line in peers:
        for cell in line.strip("| ").split(" | ")[3:]:
            assert re.fullmatch(r"\d\.\d{5} (=|\(=\))|-", cell), line


def test_the_known_example_is_on_the_page(printed: dict) -> None:
    assert printed["dominance"].count('is `"first"`') == 2
    for row in ("| first | 0.44389 |", "| second | 0.44444 |"):
        assert row in printed["dominance"]


def test_real_data_table_has_every_estimator() -> None:
    text = block("real data")
    named = set(re.findall(r"^\| `(\w+)(?:\(.*?\))?` \|", text, re.MULTILINE))
    assert named == set(ESTIMATORS) - {"average_precision"}
    assert len(re.findall(r"^\| \d+_\w+ \|", text, re.MULTILINE)) == 27


@pytest.mark.slow
def test_real_data_are_what_the_script_prints(real_data: Path) -> None:
    """But for the wall times, and the machine."""

    def figures(text: str) -> list[str]:
        return text[text.index("Each estimator against") :].splitlines()

    assert figures(run("real_data.py", "--print", str(real_data)).strip()) == figures(block("real data"))


def test_links_lead_somewhere() -> None:
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
