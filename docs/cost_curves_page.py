"""Write the picture and the figures of cost-curves.md.

``python docs/cost_curves_page.py FIGURES.json CROSSOVERS.json`` writes them from what ``python -m benchmarks`` and
``python -m benchmarks.crossovers`` measured; with ``--measure``, both are run first, a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pages import HERE, table, write_block

sys.path.insert(0, str(HERE.parent))

from benchmarks import crossovers
from benchmarks.axes import AXES, MANY_AT_ONCE, ONE_BY_ONE, OURS, PEER, SORT, Types, curves
from benchmarks.crossovers import as_markdown, plain
from benchmarks.figures import Figures, read_figures
from benchmarks.fits import Fit, fit, fit_large_half
from benchmarks.pictures import TITLES, draw, save
from benchmarks.report import seconds, three_digits
from benchmarks.tables import fill

PAGE, PICTURE = HERE / "cost-curves.md", HERE / "pictures" / "cost-curves.svg"
COMPARED = (OURS, ONE_BY_ONE, MANY_AT_ONCE, PEER, SORT)
ROUNDS = 5

Suites = dict[str, Figures]


def run(figures: Path, crossed: Path) -> None:
    """Measure everything that the page shows."""
    axes = [word for axis in AXES for word in ("--suite", axis.name)]
    for module, *options in (
        ("benchmarks", *axes, "--json", figures),
        ("benchmarks.crossovers", "--compiled", "--json", crossed),
    ):
        command = [sys.executable, "-m", module, "--rounds", str(ROUNDS), *map(str, options)]
        subprocess.run(command, cwd=HERE.parent, check=True)


def exponents(suites: Suites) -> str:
    """Return the exponents of every axis as a Markdown table: of all places, and of the larger half of them."""
    rows = []
    for suite, title in TITLES.items():
        lines = curves(suites[suite].timings)
        large = [_exponent(fit_large_half(*lines[name])) if name in lines else "" for name in COMPARED]
        places = lines[OURS][0]
        rows.append([title, f"{plain(places[0])} to {plain(places[-1])}", _exponent(fit(*lines[OURS])), *large])
    return table(("axis", "places", f"{OURS}, all places", *(f"{name}, larger half" for name in COMPARED)), rows)


def _exponent(line: Fit) -> str:
    return str(line) if line.n > 1 and np.isfinite(line.exponent) else ""


def meaning(suites: Suites) -> str:
    """Return what a user may take from the curves, with the figures."""
    return "\n".join(f"* {line}" for line in _meanings(suites))


def _meanings(suites: Suites) -> Iterator[str]:
    times = {suite: _medians(figures) for suite, figures in suites.items()}
    for suite, thing in (("axis-models", "models of 10,000 items"), ("axis-queries", "queries of 100 documents")):
        ours, apart = times[suite][OURS], times[suite][ONE_BY_ONE]
        first, *_, last = ours
        each = ", ".join(f"{three_digits(apart[n] / ours[n])} at {n:,g}" for n in ours)
        yield (
            f"**Many {thing} in one call.** One alone takes {seconds(ours[first])}, one of {last:,g} "
            f"{seconds(ours[last] / last)}. A call for each takes so many times as long as one call for all: {each}."
        )
    one, many = times["axis-replicates"][OURS], times["axis-replicates"][MANY_AT_ONCE]
    each = ", ".join(f"{three_digits(one[n] / many[n])} with {n:,g} replicates" for n in one)
    yield f"**Models that share resamples.** One model alone takes so many times as long as one of 32: {each}."
    types = {timing.case: timing.median for timing in suites["axis-types"].timings if timing.name == OURS}
    others = ", ".join(f"{case} {types[case] / types['float32']:.2f}" for case in types if case != "float32")
    yield f"**Types.** float32 takes {seconds(types['float32'])}; relative to it, {others}."
    ties = times["axis-ties"][OURS]
    yield (
        f"**Ties** cost nothing: from no two scores alike down to two distinct scores, a call takes "
        f"{seconds(min(ties.values()))} to {seconds(max(ties.values()))}."
        if max(ties.values()) < 1.5 * ties[max(ties)]
        else f"**Ties.** Without any, a call takes {seconds(ties[max(ties)])}; "
        + ", ".join(f"with {n:,g} distinct scores {seconds(ties[n])}" for n in sorted(ties)[:-1])
        + "."
    )
    prevalence = times["axis-prevalence"][OURS]
    low, high = min(prevalence), max(prevalence)
    yield (
        f"**Prevalence.** {high:g} % positive takes {prevalence[high] / prevalence[low]:.1f} times as long as "
        f"{low:g} %: where positives are few, only these are sorted."
    )
    together, apart = times["axis-estimators"][OURS], times["axis-estimators"][ONE_BY_ONE]
    most = max(together)
    yield (
        f"**Estimators.** Relative to one, three in one call take {together[3] / together[1]:.2f} times as long, "
        f"{most:g} in one call {together[most] / together[1]:.1f} times, {most:g} in as many calls "
        f"{apart[most] / together[1]:.1f} times."
    )


def crossings(path: Path) -> str:
    """Return the table of the crossovers, and where its figures come from."""
    machine = json.loads(path.read_text(encoding="utf-8"))["machine"]
    origin = f"Measured on {machine['processor']}, {machine['date'][:10]}, {machine['versions']}."
    return f"{as_markdown(crossovers.read(path))}\n{origin}"


def _medians(figures: Figures) -> dict[str, dict[float, float]]:
    if figures.name == Types.name:
        return {}
    return {name: dict(zip(*line, strict=True)) for name, line in curves(figures.timings).items()}


def main() -> None:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, help="JSON of python -m benchmarks")
    parser.add_argument("crossovers", type=Path, help="JSON of python -m benchmarks.crossovers")
    parser.add_argument("--measure", action="store_true", help="measure first, into these files")
    options = parser.parse_args()
    if options.measure:
        run(options.figures.resolve(), options.crossovers.resolve())
    suites = read_figures(options.figures)
    save(draw(suites), PICTURE)
    write_block(PAGE, "exponents", exponents(suites))
    write_block(PAGE, "meaning", meaning(suites))
    write_block(PAGE, "crossovers", crossings(options.crossovers))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), suites), encoding="utf-8")
    for path in (PAGE, PICTURE):
        print(f"{path.relative_to(HERE)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
