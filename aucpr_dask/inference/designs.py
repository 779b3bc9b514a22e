"""What a comparison takes as its sample, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aucpr_dask.errors import InvalidInputError, explain
from aucpr_dask.inference.samples import DATASET, REPLICATE, UNIT_NAMES
from aucpr_dask.specs import choose
from aucpr_dask.variables import QUERY

OVER = (QUERY, DATASET)
UNITS, ITEMS, BOTH = SAMPLES = ("units", "items", "both")
INCOMPLETE = ("raise", "drop")
ADJUSTMENTS = ("romano_wolf", "max_t", "holm", "benjamini_hochberg", "none")
BY_P_VALUE = ("holm", "benjamini_hochberg", "none")  # adjustments that need no joint replicates

METHODS = {
    UNITS: ("sign_flip", "bootstrap", "t", "wilcoxon"),
    ITEMS: ("bootstrap", "influence"),
    BOTH: ("bootstrap",),
}
"""The methods of each kind of sample, the default first."""

UNIT_RESAMPLES = 10_000


@dataclass(frozen=True)
class Design:
    """What is averaged over, what is the sample, and by which method."""

    dim: str | None  # the units' dimension
    sample: str
    method: str
    adjust: str

    @property
    def draws_units(self) -> bool:
        """Whether units are drawn or flipped, so that the number of resamples is free."""
        return self.sample != ITEMS and self.method in ("sign_flip", "bootstrap")


def settle(
    dim: str | None,
    sample: str | None,
    method: str | None,
    adjust: str | None = None,
    methods: dict[str, tuple[str, ...]] = METHODS,
) -> Design:
    """Fill in what is not given, and refuse what does not go together."""
    sample = choose(SAMPLES, sample or (ITEMS if dim is None else UNITS), "sample")
    if dim is None and sample != ITEMS:
        raise InvalidInputError(
            explain(
                "there are no units to take as the sample: this data set has no queries",
                received=f"sample={sample!r}",
                allowed="sample='items'",
                remedy="for a DataTree, over='dataset' takes the data sets as units",
            )
        )
    method = choose(methods[sample], method or methods[sample][0], f"method for sample={sample!r}")
    by_p_value = method in ("t", "wilcoxon")
    adjust = choose(ADJUSTMENTS, adjust or ("holm" if by_p_value else ADJUSTMENTS[0]), "adjust")
    if by_p_value and adjust not in BY_P_VALUE:
        raise InvalidInputError(
            explain(
                f"adjust={adjust!r} needs joint replicates, which method={method!r} does not have",
                allowed=", ".join(map(repr, BY_P_VALUE)),
                remedy="method='sign_flip' or 'bootstrap' has them",
            )
        )
    return Design(dim, sample, method, adjust)


def describe(
    design: Design, n_models: int, n_units: int, n_resamples: int, attrs: dict[Any, Any], *, complete: bool = False
) -> str:
    """Say in a sentence what was resampled, and what is fixed."""
    models = f"the {n_models:,} models" if n_models != 1 else "the model"
    units = ""
    if design.dim is not None:
        units = f"{n_units:,} {UNIT_NAMES[design.dim][n_units != 1]}"
    each = "" if design.dim is None else f" of each {UNIT_NAMES[design.dim][0]}"
    times = f"{n_resamples:,} times"
    drawn = "clusters" if "clusters" in str(attrs.get("resampled", attrs.get("sampled", "items"))) else "items"
    items = f"the {drawn}{each}"
    if design.sample == BOTH:
        return f"resampled: {units} and {items}, {times}; fixed: {models}"
    if design.sample == ITEMS:
        by_class = drawn == "items" and attrs.get("prevalence_design", "fixed") == "fixed"
        fixed = [models, *([f"the {units}"] if units else [])]
        fixed += ["the numbers of positives and negatives"] if by_class else []
        how = f"resampled: {items}, {times}" if design.method == "bootstrap" else f"sample: {items}"
        return f"{how}; fixed: {', '.join(fixed)}"
    whole = f"{units}, each with its items"
    if design.method == "bootstrap":
        return f"resampled: {whole}, {times}; fixed: {models}"
    if design.method == "sign_flip":
        how = f"all {n_resamples:,} choices of signs" if complete else f"{n_resamples:,} choices of signs"
        return f"signs flipped: the differences on {whole}, {how}; fixed: {models}"
    return f"sample: {whole}; fixed: {models}"


def require_replicates(result: Any, what: str) -> None:
    """Raise unless a result keeps the replicates of its items."""
    if REPLICATE not in result:
        raise InvalidInputError(
            explain(
                f"{what} needs the replicates of the items",
                received="a result without the variable 'replicate'",
                remedy="evaluate(scores, ..., keep_replicates=True), or pass the scores in place of the result",
            )
        )
