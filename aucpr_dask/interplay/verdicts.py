"""The verdicts of a gate for machines and pages of continuous integration: JUnit's XML and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml

from aucpr_dask.errors import printable
from aucpr_dask.inference.gating import Gate
from aucpr_dask.interplay.exporting import written_whole
from aucpr_dask.interplay.paper import markdown_table
from aucpr_dask.schema.names import in_words, percent

SUITE = "aucpr-dask gate"


def write_junit(gates: Sequence[Gate], place: Path) -> None:
    """Write a test case for each candidate; what cannot be told is a failure, too, of its own type."""
    failures = sum(not gate.passed for gate in gates)
    suite = Xml.Element("testsuite", name=SUITE, tests=str(len(gates)), failures=str(failures), errors="0", skipped="0")
    for gate in gates:
        name = printable(f"{gate.candidate} against {gate.baseline}")
        case = Xml.SubElement(suite, "testcase", classname=SUITE, name=name)
        if not gate.passed:
            Xml.SubElement(case, "failure", type=gate.verdict, message=repr(gate)).text = gate.design
        Xml.SubElement(case, "system-out").text = f"{gate!r}\n{gate.design}"
    tree = Xml.ElementTree(suite)
    Xml.indent(tree)
    written_whole(lambda file: tree.write(file, encoding="utf-8", xml_declaration=True), place)


def as_markdown(gates: Sequence[Gate]) -> str:
    """Return a table with a row for each candidate, as summaries of jobs and comments show it."""
    first = gates[0]
    level = f"{percent(first.level)} interval"
    header = ["candidate", "verdict", in_words(first.measure), first.baseline, "difference", level, "detectable"]
    rows = [
        [
            gate.candidate,
            gate.verdict,
            *(f"{estimate:.4f}" for estimate in gate.estimates),
            f"{gate.difference:+.4f}",
            f"{gate.interval[0]:+.4f} to {gate.interval[1]:+.4f}",
            f"{gate.detectable:.2g}",
        ]
        for gate in gates
    ]
    return markdown_table("", header, rows, f"Margin {first.margin:g}. Design: {first.design}.")
