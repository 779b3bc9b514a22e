"""Write ``estimators.md`` from the package's records: ``python docs/generate_reference.py [--print]``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields

import pages

from aucpr_dask.schema.estimators import ESTIMATORS, TIES, EstimatorSpec
from aucpr_dask.schema.intervals import INTERVAL_NEEDS, INTERVAL_SYMBOLS, INTERVALS, IntervalSpec
from aucpr_dask.schema.options import (
    CONVENTIONS,
    MISSING,
    NO_POSITIVES,
    NOTHING_RANKED,
    UNJUDGED,
    Options,
    ReportOptions,
)
from aucpr_dask.schema.terms import FLAGS

PAGE = pages.HERE / "estimators.md"

INTRODUCTION = """# Estimators, intervals and flags

In the formulas, $T$ and $F$ (TP and FP) count the positives and negatives at or above a threshold, and $n$ and $m$
count all of them (with weights, these are sums of weights). Precision is $T/(T+F)$, recall $T/n$. $r_i$ are the
distinct recalls, $r_0=0$; $p_i$ and $q_i$ are the lowest and the highest precision at $r_i$. Before the first item
precision is 1. $\\pi$ is the prevalence $n/(n+m)$; $\\Phi$ is the normal distribution function; $\\mu$ and $\\sigma$
are the mean and the standard deviation of the scores of a class. Without positives every estimate is NaN; without
negatives the areas under the curve are 1, and `roc_area` is NaN. Larger scores are more positive, and a threshold never
separates tied items.

[Which estimator and interval?](choosing.md) helps to choose."""
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
    "basic": r"2t-Q(1-a),\;2t-Q(a)",
    "influence": r"t\pm z\,s",
    "influence_logit": r"\mathrm{expit}\left(\mathrm{logit}\,t\pm\frac{z\,s}{t(1-t)}\right)",
}
"""Formulas of estimators and intervals as the page shows them; those of others are words."""
SYMBOLS = ["name", "formula", "use, and bias or coverage", "DOI"]


def main() -> None:
    """Write the page, or print it."""
    if "--print" in sys.argv:
        print(reference())
    else:
        PAGE.write_text(reference())


def reference() -> str:
    """Return the page."""
    ties = [f'`ties="{choice}"`' for choice in TIES]
    options = {"ties": TIES, "missing": MISSING, "unjudged": UNJUDGED}
    options |= {"nothing_ranked": NOTHING_RANKED, "no_positives": NO_POSITIVES, "convention": tuple(CONVENTIONS)}
    choices = [[f"`{name}`", ", ".join(f'`"{choice}"`' for choice in given)] for name, given in options.items()]
    parts = [
        INTRODUCTION,
        "## Estimators",
        pages.table(SYMBOLS, map(_meaning, ESTIMATORS.values())),
        "The next table lists what each supports. A parameter follows the name, as in `precision_at_recall(0.8)`; a "
        'range of recall is `recall_range=(low, high)`. Weights and soft labels require `ties="group"`.',
        pages.table(["name", "parameter", "range of recall", *ties, "weights, soft labels"], _domains()),
        "## Intervals",
        INTERVAL_SYMBOLS,
        pages.table(SYMBOLS, map(_meaning, INTERVALS.values())),
        "In addition to the estimate, each needs the following. `ap.interval` computes those that need only the number "
        "of positives, `ap.evaluate` computes all.",
        pages.table(["name", "needs", "estimators"], map(_basis, INTERVALS.values())),
        "## Options",
        pages.table(["option", "choices, the default first"], choices),
        "`ap.report` takes the following.",
        pages.table(["option", "default", "meaning"], _options(ReportOptions)),
        "## Flags",
        "Bits of the variable `flags` of a result; `result.aucpr.flagged(name)` shows where one is set.",
        pages.table(["name", "bit", "meaning"], ([f"`{f.name}`", f.bit, f.description] for f in FLAGS)),
    ]
    return "\n\n".join(parts) + "\n"


def _meaning(spec: EstimatorSpec | IntervalSpec) -> list[str]:
    if spec.name in IN_SYMBOLS:
        formula = f"${IN_SYMBOLS[spec.name]}$"
    else:
        formula = f"`{spec.formula}`" if set("_*^+") & set(spec.formula) else spec.formula
    return [f"`{spec.name}`", formula, spec.when, _doi(spec.doi)]


def _domains() -> Iterator[list[str]]:
    for spec in ESTIMATORS.values():
        parameter = f"{spec.parameter}, {spec.domain}" if spec.parameter else "-"
        supported = (spec.partial, *(choice in spec.ties for choice in TIES), spec.weights)
        yield [f"`{spec.name}`", parameter, *("yes" if has else "no" for has in supported)]


def _basis(spec: IntervalSpec) -> list[str]:
    needs = ", ".join(INTERVAL_NEEDS[need] for need in spec.needs)
    areas = [name for name in ESTIMATORS if ESTIMATORS[name].partial]
    if spec.estimators is None or set(spec.estimators) == set(areas):
        return [f"`{spec.name}`", needs, "all" if spec.estimators is None else "areas under the curve"]
    return [f"`{spec.name}`", needs, ", ".join(f"`{name}`" for name in spec.estimators)]


def _options(record: type[Options]) -> Iterator[list[str]]:
    for one in fields(record):
        yield [f"`{one.name}`", f"`{one.default!r}`", one.metadata["description"]]


def _doi(doi: str) -> str:
    # 10.5555 is the ACM's own numbering, which doi.org does not know.
    resolver = "https://dl.acm.org/doi" if doi.startswith("10.5555/") else "https://doi.org"
    return f"[{doi}]({resolver}/{doi})"


if __name__ == "__main__":
    main()
