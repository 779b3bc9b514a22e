"""Write ``estimators.md`` from the package's records: ``python docs/generate_reference.py [--print]``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import pages

from aucpr_dask.schema.estimators import ESTIMATORS, TIES, EstimatorSpec
from aucpr_dask.schema.intervals import INTERVAL_NEEDS, INTERVAL_SYMBOLS, INTERVALS, IntervalSpec
from aucpr_dask.schema.options import CONVENTIONS, MISSING, NO_POSITIVES, NOTHING_RANKED, UNJUDGED
from aucpr_dask.schema.terms import FLAGS

PAGE = pages.HERE / "estimators.md"

INTRODUCTION = """# Estimators, intervals and flags

```{eval-rst}
.. index:: ! estimators, ! intervals, ! flags, ! options
```

[Which estimator and interval?](choosing.md) helps to choose. In the formulas, $T$ and $F$ count the positives and
negatives at or above a threshold, and $n$ and $m$ all of them; with weights, these are sums of weights. Precision is
$T/(T+F)$, recall $T/n$. $r_i$ are the distinct recalls, $r_0=0$; $p_i$ and $q_i$ are the lowest and the highest
precision at $r_i$. Before the first item precision is 1. $\\pi$ is the prevalence $n/(n+m)$; $\\Phi$ the normal
distribution function; $\\mu$ and $\\sigma$ the mean and standard deviation of the scores of a class. Without
positives every estimate is NaN; without negatives the areas under the curve are 1, and `roc_area` is NaN."""
IN_SYMBOLS = {
    "average_precision": r"\frac1n\sum_{\mathrm{positives}}\frac{T}{T+F}",
    "haldane": r"\frac1n\sum_{\mathrm{positives}}\frac{T-1}{T-1+F}\;(1\text{ if }F=0)",
    "lower_trapezoid": r"\sum_i\frac{p_i+q_{i+1}}2\,(r_{i+1}-r_i)",
    "upper_trapezoid": r"\sum_i\frac{q_i+q_{i+1}}2\,(r_{i+1}-r_i)",
    "binormal": r"\int_0^1\frac{\pi t}{\pi t+(1-\pi)\,\Phi\left(\frac{\mu_--\mu_+}{\sigma_-}+"
    r"\frac{\sigma_+}{\sigma_-}\Phi^{-1}(t)\right)}\,dt",
    "binomial": r"t\pm z\sqrt{\frac{t(1-t)}n}",
    "logit": r"\mathrm{expit}\left(\mathrm{logit}\,t\pm\frac{z}{\sqrt{n\,t(1-t)}}\right)",
    "wilson": r"\frac{t+\frac{z^2}{2n}\pm z\sqrt{\frac{t(1-t)}n+\frac{z^2}{4n^2}}}{1+\frac{z^2}n}",
    "bootstrap": r"Q(a),\;Q(1-a)",
}
"""Formulas of estimators and intervals as the page shows them; those of others are words."""
SYMBOLS = ["name", "formula", "use, and bias or coverage", ""]


def reference() -> str:
    """Return the page."""
    options = {"ties": TIES, "missing": MISSING, "unjudged": UNJUDGED}
    options |= {"nothing_ranked": NOTHING_RANKED, "no_positives": NO_POSITIVES, "convention": tuple(CONVENTIONS)}
    choices = [[f"`{name}`", ", ".join(f'`"{choice}"`' for choice in given)] for name, given in options.items()]
    parts = [
        INTRODUCTION,
        "## Estimators",
        pages.table(SYMBOLS, map(_meaning, ESTIMATORS.values())),
        pages.table(["support", "by"], _domains()),
        'Weights and soft labels require `ties="group"`.',
        "## Intervals",
        INTERVAL_SYMBOLS,
        pages.table(SYMBOLS, map(_meaning, INTERVALS.values())),
        "`ap.interval` computes those that need only the number of positives, `ap.evaluate` computes all.",
        pages.table(["intervals", "need", "of estimators"], _bases()),
        "## Options",
        pages.table(["option", "choices, the default first"], choices),
        "## Flags",
        "Bits of the variable `flags` of a result; `result.aucpr.flagged(name)` shows where one is set.",
        pages.table(["name", "bit", "meaning"], ([f"`{f.name}`", f.bit, f.description] for f in FLAGS)),
        "```{toctree}\n:hidden:\n\nglossary\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _meaning(spec: EstimatorSpec | IntervalSpec) -> list[str]:
    if spec.name in IN_SYMBOLS:
        formula = f"${IN_SYMBOLS[spec.name]}$"
    else:
        formula = f"`{spec.formula}`" if set("_*^+") & set(spec.formula) else spec.formula
    return [f"`{spec.name}`", formula, spec.when, _doi(spec.doi)]


def _domains() -> Iterator[list[str]]:
    parts = [f"`{spec.name}({spec.parameter})`: {spec.domain}" for spec in ESTIMATORS.values() if spec.parameter]
    yield ["a parameter", "; ".join(parts)]
    yield ["`recall_range=(low, high)`", _those(name for name, spec in ESTIMATORS.items() if spec.partial)]
    for choice in TIES:
        yield [f'`ties="{choice}"`', _those(name for name, spec in ESTIMATORS.items() if choice in spec.ties)]
    yield ["weights, soft labels", _those(name for name, spec in ESTIMATORS.items() if spec.weights)]


def _those(names: Iterable[str] | None) -> str:
    """Name estimators, or those that are missing where these are fewer."""
    chosen = list(ESTIMATORS if names is None else names)
    others = [name for name in ESTIMATORS if name not in chosen]
    listed = ", ".join(f"`{name}`" for name in (others if len(others) < len(chosen) else chosen))
    return "all" if not others else f"all but {listed}" if len(others) < len(chosen) else listed


def _bases() -> Iterator[list[str]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for spec in INTERVALS.values():
        needs = ", ".join(INTERVAL_NEEDS[need] for need in spec.needs)
        groups.setdefault((needs, _those(spec.estimators)), []).append(f"`{spec.name}`")
    for (needs, estimators), names in groups.items():
        yield [", ".join(names), needs, estimators]


def _doi(doi: str) -> str:
    # 10.5555 is the ACM's own numbering, which doi.org does not know.
    resolver = "https://dl.acm.org/doi" if doi.startswith("10.5555/") else "https://doi.org"
    return f"[source]({resolver}/{doi})"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(reference())
    else:
        PAGE.write_text(reference())
