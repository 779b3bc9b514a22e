"""Write ``estimators.md`` from the package's own records: ``python docs/generate_reference.py [--print]``."""

from __future__ import annotations

import sys

import pages

from aucpr_dask.schema.estimators import ESTIMATORS, EstimatorSpec
from aucpr_dask.schema.intervals import INTERVAL_NEEDS, INTERVAL_SYMBOLS, INTERVALS, IntervalSpec
from aucpr_dask.schema.options import MISSING, TIES, UNJUDGED
from aucpr_dask.schema.variables import FLAGS

PAGE = pages.HERE / "estimators.md"

INTRODUCTION = """# Estimators, intervals and flags

Made by `python docs/generate_reference.py` from the records that the package itself reads
(`aucpr_dask/specs.py`, `aucpr_dask/variables.py`). Do not edit by hand.

Larger scores are more positive. A *block* is a maximal set of tied items; a threshold stands between blocks.
TP and FP count the positives and negatives at or above a threshold, n and m all of them (sums of weights, if weighted);
precision is TP/(TP+FP), recall TP/n. r_i are the distinct recalls from r_0 = 0, pmin and pmax the lowest and highest
precision at one recall; before the first item precision is 1. pi is the prevalence n/(n+m), Phi the normal
distribution function. Without positives every estimate is NaN; without negatives the areas under the curve are 1."""


def main() -> None:
    """Write the page, or print it."""
    if "--print" in sys.argv:
        print(reference())
    else:
        PAGE.write_text(reference())


def reference() -> str:
    """Return the page."""
    return "\n\n".join(
        [
            INTRODUCTION,
            "## Estimators",
            pages.table(["name", "formula", "when to use it, and its bias", "DOI"], map(_meaning, ESTIMATORS.values())),
            "What each accepts. A parameter is written behind the name, as in `precision_at_recall(0.8)`; a range of "
            "recall is `recall_range=(low, high)`. With weights or soft labels, ties stand in blocks.",
            pages.table(
                [
                    "name",
                    "parameter",
                    "range of recall",
                    *(f'`ties="{ties}"`' for ties in TIES),
                    "weights, soft labels",
                ],
                map(_domain, ESTIMATORS.values()),
            ),
            "## Intervals",
            INTERVAL_SYMBOLS,
            pages.table(
                ["name", "formula", "when to use it, and its coverage", "DOI"],
                ([f"`{s.name}`", f"`{s.formula}`", s.when, _doi(s.doi)] for s in INTERVALS.values()),
            ),
            "What each is made from, beside the estimate. `interval` computes those that need the number of positives "
            "alone, `evaluate` all.",
            pages.table(["name", "made from", "estimators"], map(_basis, INTERVALS.values())),
            "## Options",
            pages.table(
                ["option", "choices, the default first"],
                (
                    [f"`{option}`", ", ".join(f'`"{choice}"`' for choice in choices)]
                    for option, choices in (("ties", TIES), ("missing", MISSING), ("unjudged", UNJUDGED))
                ),
            ),
            "## Flags",
            "Bits of the variable `flags` of a result; `result.aucpr.flagged(name)` selects where one is set.",
            pages.table(["name", "bit", "meaning"], ([f"`{f.name}`", f.bit, f.description] for f in FLAGS)),
            "",
        ]
    )


def _meaning(spec: EstimatorSpec) -> list[str]:
    return [f"`{spec.name}`", f"`{spec.formula}`", spec.when, _doi(spec.doi)]


def _domain(spec: EstimatorSpec) -> list[str]:
    parameter = f"{spec.parameter}, above 0, up to 1" if spec.parameter else "-"
    ties = [_yes(choice in spec.ties) for choice in TIES]
    return [f"`{spec.name}`", parameter, _yes(spec.partial), *ties, _yes(spec.weights)]


def _basis(spec: IntervalSpec) -> list[str]:
    needs = ", ".join(INTERVAL_NEEDS[need] for need in spec.needs)
    estimators = "all" if spec.estimators is None else ", ".join(f"`{name}`" for name in spec.estimators)
    return [f"`{spec.name}`", needs, estimators]


def _yes(has: bool) -> str:
    return "yes" if has else "no"


def _doi(doi: str) -> str:
    # 10.5555 is the ACM's own numbering, which doi.org does not know.
    resolver = "https://dl.acm.org/doi" if doi.startswith("10.5555/") else "https://doi.org"
    return f"[{doi}]({resolver}/{doi})"


if __name__ == "__main__":
    main()
