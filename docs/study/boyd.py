"""The simulation study of Boyd, Eng & Page 2013: their estimators, intervals, scenarios and sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import aucpr_dask as ap
from docs import pages
from docs.study._common import write

CELL = ["scenario", "n_items", "prevalence", "estimator"]
SCENARIOS = ("binormal", "bibeta", "offset_uniform")
PREVALENCE = 0.1  # where the number of items varies
ITEMS = 1000  # where the prevalence varies
BY_PREVALENCE = {"n_items": (ITEMS,), "prevalence": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)}
FOLDS = 10
SIMULATIONS, FEWER = 3000, 1000  # of what the paper has, and of the rest
LEVEL = 0.95
RECOMMENDED = ("average_precision", "lower_trapezoid", "interpolated_median")
INTERPOLATED = ("interpolated_mean", "interpolated_median", "interpolated_convex", "interpolated_max")
ESTIMATORS = tuple(dict.fromkeys((*RECOMMENDED, "upper_trapezoid", *INTERPOLATED, "binormal")))
INTERVALS = ("binomial", "logit", "bootstrap", "cross_validation_t")
FORMULAS = ("wilson", "clopper_pearson")  # these and the next ones are not in the paper
INFLUENCES, RESAMPLED = ("influence_logit_t", "influence_beta"), ("bca", "bootstrap_t")
POSITIVES = (10, 20, 50, 100, 1000)  # that tables show
SIZES = (200, 500, 1000, 5000, 10_000)  # for which the paper shows intervals
MOST_ITEMS = SIZES[-1]
CERTAIN = 2.0  # Monte Carlo errors within which two numbers count as equal
NOT_STORED = ["upper", "miss_balance"]  # follow from other columns


def run(folder: Path, share: float) -> None:
    """Run the parts of the study, and choose thresholds of the convex hull on other samples."""
    few, some = (max(20, round(share * number)) for number in (FEWER, SIMULATIONS))
    alone = {"estimator": RECOMMENDED[:1], "n_simulations": few}  # the only estimator that tables show these of
    others = {"estimator": (*RECOMMENDED, "continuous", "discrete"), "n_simulations": few}
    parts: list[dict[str, Any]] = [
        {"estimator": ESTIMATORS, "interval": INTERVALS, "n_simulations": some},
        {"estimator": ESTIMATORS, "interval": INTERVALS[:2], "n_simulations": some} | BY_PREVALENCE,
        others | {"interval": [*FORMULAS, "cross_validation"]},
        others | {"interval": FORMULAS} | BY_PREVALENCE,
        alone | {"interval": [*RESAMPLED, *INFLUENCES]},
        alone | {"interval": INFLUENCES} | BY_PREVALENCE,
    ]
    found = [ap.simulate.study(**part).assign_coords(n_simulations=part["n_simulations"]) for part in parts]
    areas = pd.concat(one.drop_dims("interval_method").to_dataframe() for one in found)
    write(folder, "estimates", areas.reset_index(), CELL, 6)
    columns = [*NOT_STORED, "true_area"]
    write(folder, "intervals", pd.concat(map(interval_rows, found)).drop(columns=columns), [*CELL, "method"], 5)
    _write_hulls(folder, max(20, some // 10))


def interval_rows(part: xr.Dataset) -> pd.DataFrame:
    """Return the results for each interval of the recommended estimators."""
    names = ["true_area", *(name for name in part.data_vars if "interval_method" in part[name].dims)]
    table = part[names].to_dataframe().reset_index().rename(columns={"interval_method": "method"})
    return table[table["coverage"].notna() & table["estimator"].isin(RECOMMENDED)]


def _write_hulls(folder: Path, n_simulations: int) -> None:
    """Evaluate the thresholds of the convex hull on the sample that they were chosen on, and on another one."""
    rows = []
    for name, n_items in product(SCENARIOS, (200, ITEMS)):
        scenario, areas = getattr(ap.simulate, name)(), []
        sample = scenario.sample(n_items, PREVALENCE, n_simulations=2 * n_simulations, seed=1).compute()
        score, label = sample["score"].transpose("model", "item").values, sample["label"].values
        for own, other in zip(score[::2], score[1::2], strict=True):
            hull = ap.curve(other, label, kind="achievable")["threshold"].values
            places = np.sort(hull[np.isfinite(hull)])
            scores = np.stack([np.searchsorted(places, one, side="right") for one in (other, own)])
            areas.append(ap.estimate(scores.astype(float), label, "continuous") / scenario.area(PREVALENCE))
        row: dict[str, Any] = {"scenario": name, "n_items": n_items, "n_simulations": n_simulations}
        for chosen, ratio in zip(("chosen_here", "chosen_elsewhere"), np.transpose(areas), strict=True):
            row |= {chosen: ratio.mean(), f"{chosen}_error": ratio.std(ddof=1) / n_simulations**0.5}
        rows.append(row)
    write(folder, "hulls", pd.DataFrame(rows), ["scenario", "n_items"], 5)


def intervals(folder: Path) -> pd.DataFrame:
    """Return the results for each interval in each cell, and the positives of a simulation."""
    table = pd.read_csv(folder / "intervals.csv")
    return table.assign(n_positive=(table["n_items"] * table["prevalence"]).round().astype(int))


def are_below(table: pd.DataFrame) -> pd.Series:
    """Return which coverages are below the level by more than chance."""
    return table["coverage"] < LEVEL - _chance(table)


def _chance(table: pd.DataFrame) -> pd.Series:
    return CERTAIN * (LEVEL * (1 - LEVEL) / table["n_simulations"]) ** 0.5


# The conclusions of the paper: for each, in how many of how many cases it holds, and the figures

Judgment = tuple[int, int, str]


def judged(holds: Any, figures: str) -> Judgment:
    """Return in how many of how many cases a conclusion holds, and figures."""
    return int(np.sum(np.asarray(holds))), np.size(holds), figures


def _figure_4(folder: Path, column: str = "bias_ratio") -> pd.DataFrame:
    """Return a result of the paper's estimators at a prevalence of 0.1: by scenario and size, in columns."""
    table = pd.read_csv(folder / "estimates.csv")
    table = table[(table["prevalence"] == PREVALENCE) & table["estimator"].isin(ESTIMATORS)]
    return table.pivot(index=["scenario", "n_items"], columns="estimator", values=column)


def _figure_6(folder: Path, *methods: str) -> pd.DataFrame:
    """Return the paper's intervals at the sizes that it shows them for, at a prevalence of 0.1."""
    table = intervals(folder)
    shown = (table["prevalence"] == PREVALENCE) & table["n_items"].isin(SIZES)
    return table[shown & table["method"].isin(methods or INTERVALS)]


def _by_method(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a result of intervals by scenario, estimator and size: a column for each interval."""
    return table.pivot(index=["scenario", "estimator", "n_items"], columns="method", values=column)


def _range(values: Any, digits: int = 3) -> str:
    return f"{np.min(values):.{digits}f} to {np.max(values):.{digits}f}"


def _named(values: pd.Series, shown: str) -> str:
    return ", ".join(f"`{name}` {value:{shown}} %" for name, value in values.items())


def most_converge(folder: Path) -> Judgment:
    """Judge whether all estimators but two approach the true area."""
    rest = _figure_4(folder).xs(MOST_ITEMS, level="n_items").drop(columns=["binormal", "interpolated_convex"])
    return judged((rest - 1).abs() < 0.01, f"the other six are at {_range(rest)} of the true area")


def binormal_misleads(folder: Path) -> Judgment:
    """Judge whether the binormal estimator is right for its own scenario only."""
    off = (_figure_4(folder)["binormal"].xs(MOST_ITEMS, level="n_items") - 1).abs()
    others = off.drop("binormal")
    return judged([off["binormal"] < 0.005, *(others > 0.02)], f"{_range(others)} from the true area in the others")


def binormal_recovers(folder: Path) -> Judgment:
    """Judge whether its error is smaller if classes are balanced."""
    table = pd.read_csv(folder / "estimates.csv").query("estimator == 'binormal' != scenario and n_items == @ITEMS")
    off = (table.pivot(index="scenario", columns="prevalence", values="bias_ratio") - 1).abs()
    return judged(off[0.5] < off[0.1], f"{_range(off[0.1])} from the true area at 0.1, {_range(off[0.5])} at 0.5")


def no_transformation(folder: Path) -> Judgment:
    """Judge whether the others come close to the binormal estimator where no transformation is needed."""
    error = np.hypot(_figure_4(folder, "bias"), _figure_4(folder, "standard_deviation")).loc["binormal"]
    error = error[error.index * PREVALENCE >= 50]
    more = 100 * (error[list(RECOMMENDED)].div(error["binormal"], axis=0) - 1)
    return judged(more < 10, f"on normal scores, errors are {_range(more, 0)} % larger from 50 positives on")


def convex_overestimates(folder: Path) -> Judgment:
    """Judge whether the convex hull is above the true area at every size."""
    ratio, error = (_figure_4(folder, name)["interpolated_convex"] for name in ("bias_ratio", "bias_ratio_error"))
    return judged(ratio - CERTAIN * error > 1, _range(ratio))


def hull_is_chosen_on_the_test_set(folder: Path) -> Judgment:
    """Judge whether the hull overestimates no more if its thresholds come from another sample."""
    table = pd.read_csv(folder / "hulls.csv")
    holds = table["chosen_elsewhere"] - CERTAIN * table["chosen_elsewhere_error"] < 1
    text = f"{_range(table['chosen_here'])} with the thresholds of the sample itself"
    return judged(holds, f"{text}, {_range(table['chosen_elsewhere'])} with those of another sample")


def no_clear_winner(folder: Path) -> Judgment:
    """Judge whether no estimator is the least biased one of all scenarios at 100 items."""
    best = (_figure_4(folder).xs(100, level="n_items") - 1).abs().idxmin(axis=1)
    return judged(best.nunique() > 1, ", ".join(f"`{one}` ({name})" for name, one in best.items()))


def few_positives_overestimate(folder: Path) -> Judgment:
    """Judge whether most estimators are above the true area at 100 items."""
    above = _figure_4(folder).xs(100, level="n_items").stack() > 1
    return judged(above.mean() > 0.5, f"{above.sum()} of {above.size} cases")


def nearer(folder: Path, better: Sequence[str], worse: Sequence[str]) -> Judgment:
    """Judge whether some estimators are less biased than others at 100 items."""
    off = (_figure_4(folder) - 1).abs()
    all_sizes = pd.concat([off[a] < off[b] for a in better for b in worse], axis=1)
    mean = 100 * off.xs(100, level="n_items").mean()[[*better, *worse]]
    text = f"at every size {all_sizes.sum().sum()} of {all_sizes.size}; mean distance from the true area at 100 items "
    return judged(all_sizes.xs(100, level="n_items"), text + _named(mean, ".1f"))


def recommended_are_nearest(folder: Path) -> Judgment:
    """Judge whether the three recommended estimators have the least bias of those that need no normal scores."""
    mean = 100 * (_figure_4(folder).drop(columns="binormal") - 1).abs().mean().sort_values()
    return judged(mean.index[:3].isin(RECOMMENDED), f"mean distance from the true area: {_named(mean, '.1f')}")


def is_valid(folder: Path, method: str) -> Judgment:
    """Return in how many cells an interval covers at least as often as it says."""
    table = _figure_6(folder, method)
    return judged(~are_below(table), f"coverage {_range(table['coverage'])}")


def approaches_from_below(folder: Path, method: str) -> Judgment:
    """Return in how many cases coverage is too low at the smallest size, rises, and does not pass the level."""
    table = _figure_6(folder, method)
    table = table.assign(above=table["coverage"] > LEVEL + _chance(table))
    coverage = table.pivot(index=["scenario", "estimator"], columns="n_items", values="coverage")
    never_above = ~table.groupby(["scenario", "estimator"])["above"].any()
    holds = (coverage[SIZES[0]] < coverage[SIZES[-1]]) & never_above.reindex(coverage.index)
    text = f"below the level in {are_below(table).sum()} of {len(table)} cells; mean coverage "
    return judged(holds, text + ", ".join(f"{coverage[n].mean():.3f} at {n:,} items" for n in SIZES))


def not_proper_at_last(folder: Path) -> Judgment:
    """Judge whether some cross-validation is below the level even at 10,000 items."""
    table = _figure_6(folder, "cross_validation_t")
    below = are_below(table[table["n_items"] == MOST_ITEMS])
    return judged(below.any(), f"{below.sum()} of {below.size}")


def wider_covers_more(folder: Path) -> Judgment:
    """Judge whether coverage and width are positively correlated over the cells of Figure 7, and so their ranks."""
    table = _figure_6(folder)[["coverage", "width_ratio"]]
    both = [table.corr(kind).iloc[0, 1] for kind in ("pearson", "spearman")]
    return judged(np.array(both) > 0, f"correlation {both[0]:.2f}, of ranks {both[1]:.2f}")


def formulas_are_nearly_ideal(folder: Path) -> Judgment:
    """Return how wide the formulas are."""
    width = _figure_6(folder, "binomial", "logit")["width_ratio"]
    return judged(width < 1.25, f"{_range(width, 2)} of the ideal width")


def cross_validation_width(folder: Path) -> Judgment:
    """Judge whether cross-validation is narrower than the formulas, and wider than ideal."""
    width = _by_method(_figure_6(folder), "width_ratio")
    own = width["cross_validation_t"]
    usual = own[own.index.get_level_values("n_items") >= 500]
    text = f"{_range(own, 2)} of the ideal width, {_range(usual, 2)} from 500 items on; with the normal quantile, "
    text += _range(_figure_6(folder, "cross_validation")["width_ratio"], 2)
    return judged((own > 1) & (own < width[["binomial", "logit"]].min(axis=1)), text)


def bootstrap_is_ideal_or_narrow(folder: Path) -> Judgment:
    """Judge whether the bootstrap is at the ideal width or below, within the error of that width."""
    width = _figure_6(folder, "bootstrap")["width_ratio"]
    return judged(width < 1.02, f"{_range(width, 2)} of the ideal width")


def located(folder: Path) -> pd.DataFrame:
    """Return the distance of the mean location from the true area in percent: a column for each interval."""
    return 100 * (_by_method(_figure_6(folder), "location_ratio") - 1).abs()


def cross_validation_is_misplaced(folder: Path) -> Judgment:
    """Judge whether cross-validation lies farthest from the true area, where bootstrap and formulas lie."""
    off = located(folder)[["binomial", "bootstrap", "cross_validation_t"]]
    holds = off["cross_validation_t"] > off[["binomial", "bootstrap"]].max(axis=1)
    return judged(holds, f"mean distance from the true area: {_named(off.mean(), '.1f')}")


def bootstrap_is_slightly_misplaced(folder: Path) -> Judgment:
    """Judge whether bootstrap lies a bit farther from the true area than the estimate."""
    more = located(folder)["bootstrap"] - located(folder)["binomial"]
    return judged(more > 0, f"farther than the estimate by at most {more.max():.1f} % of the true area")


def bias_not_width(folder: Path) -> Judgment:
    """Judge whether cross-validation that covers too little is wide enough."""
    table = _figure_6(folder, "cross_validation_t")
    low = table[are_below(table)]
    expected = low["miss_above"].where(low["location_ratio"] > 1, low["miss_below"]).sum()
    share = 100 * expected / (low["miss_above"] + low["miss_below"]).sum()
    text = f"where it covers too little, {_range(low['width_ratio'], 2)} of the ideal width, and {share:.0f} % "
    return judged(low["width_ratio"] >= 1, text + "of its misses lie on the side to which it is misplaced")


def divides_the_sample(folder: Path) -> Judgment:
    """Judge whether cross-validation lies where an estimate from a tenth of the items does."""
    table = intervals(folder).query("method == 'cross_validation_t' and prevalence == @PREVALENCE")
    at = table.assign(n_items=table["n_items"] // FOLDS).set_index(["scenario", "estimator", "n_items"])
    bias = _figure_4(folder).stack().reorder_levels(["scenario", "estimator", "n_items"])
    distance = (100 * (at["location_ratio"] - bias)).dropna().abs()
    return judged(distance < 1, f"location at 10 N items and bias at N differ by at most {distance.max():.1f} %")


def acts_like_fewer(folder: Path) -> Judgment:
    """Judge whether the bias of bootstrap is that of a sample 1.5 times smaller, or 1.5 times the estimate's."""
    located_at = _by_method(_figure_6(folder), "location_ratio").loc["binormal", RECOMMENDED[0]]["bootstrap"]
    bias = _figure_4(folder).loc["binormal"][RECOMMENDED[0]]
    times = ((located_at - 1) / (bias[located_at.index] - 1))[:3]
    return judged((times > 1.25) & (times < 1.75), f"its bias is {_range(times, 1)} times the estimate's")


CLAIMS: dict[str, Callable[[Path], Judgment]] = {
    "Most estimators converge to the true area.": most_converge,
    "`binormal` is excellent on normal scores and converges to a wrong value on others.": binormal_misleads,
    "Its error shrinks as classes are balanced.": binormal_recovers,
    "Rescaling scores to be normal (Box-Cox) is unnecessary.": no_transformation,
    "`interpolated_convex` overestimates, even at 10,000 items.": convex_overestimates,
    "It may do so because the hull chooses its thresholds on the test set.": hull_is_chosen_on_the_test_set,
    "With 10 positives among 100 items, no estimator wins in all scenarios.": no_clear_winner,
    "There, estimators tend to overestimate, with a few exceptions.": few_positives_overestimate,
    "There, `lower_trapezoid` is more accurate than `upper_trapezoid`.": partial(
        nearer, better=["lower_trapezoid"], worse=["upper_trapezoid"]
    ),
    "There, mean and median interpolation beat convex and max.": partial(
        nearer, better=INTERPOLATED[:2], worse=INTERPOLATED[2:]
    ),
    "Recommended: `average_precision`, `lower_trapezoid`, `interpolated_median`.": recommended_are_nearest,
    "`binomial` intervals are valid.": partial(is_valid, method="binomial"),
    "`logit` intervals are valid.": partial(is_valid, method="logit"),
    "Both are nearly as narrow as can be (here: at most a quarter wider).": formulas_are_nearly_ideal,
    "The coverage of `bootstrap` approaches the level from below.": partial(approaches_from_below, method="bootstrap"),
    "That of cross-validation, too.": partial(approaches_from_below, method="cross_validation_t"),
    "Some cross-validation intervals are not proper even at 10,000 items.": not_proper_at_last,
    "Wider intervals cover more.": wider_covers_more,
    "Cross-validation is slightly narrower than `logit` and `binomial`, but wider than ideal.": cross_validation_width,
    "`bootstrap` is as wide as ideal, or narrower.": bootstrap_is_ideal_or_narrow,
    "Cross-validation lies farther from the true area than `bootstrap` and `binomial`.": cross_validation_is_misplaced,
    "`bootstrap` lies slightly farther from it than `binomial`.": bootstrap_is_slightly_misplaced,
    "Place, not width, is why cross-validation fails.": bias_not_width,
    "The reason is bias: k folds divide the data by k.": divides_the_sample,
    "Resamples act like a sample 1.5 times smaller.": acts_like_fewer,
}


def conclusions(folder: Path) -> str:
    """Return each conclusion of the paper with what the study says of it, and figures if it is not always so."""
    rows = []
    for claim, judge in CLAIMS.items():
        holds, of, figures = judge(folder)
        verdict = "yes" if holds == of else "no" if holds == 0 else f"in {holds} of {of}"
        rows.append([claim, verdict, "" if verdict == "yes" else figures])
    return pages.table(["the paper", "confirmed", "figures, where not everywhere"], rows)


def bias(folder: Path) -> str:
    """Return the range of the bias over the scenarios, for each estimator and number of positives."""
    table = pd.read_csv(folder / "estimates.csv")
    table = table[(table["prevalence"] == PREVALENCE) & table["n_positive"].isin(POSITIVES)]
    percent = (100 * (table["bias_ratio"] - 1)).groupby([table["estimator"], table["n_positive"]])
    low, high = percent.min(), percent.max()
    names = dict.fromkeys(table["estimator"])
    rows = [[f"`{name}`", *(f"{low[name, n]:+.1f} to {high[name, n]:+.1f}" for n in POSITIVES)] for name in names]
    return pages.table(["bias in %: n =", *map("{:,}".format, POSITIVES)], rows)


def coverage(folder: Path) -> str:
    """Return the lowest coverage over the scenarios and the mean width of every interval."""
    table = intervals(folder)
    table = table[(table["prevalence"] == PREVALENCE) & (table["estimator"] == RECOMMENDED[0])]
    rows = []
    for name in dict.fromkeys(table["method"]):
        cells = table[table["method"] == name]
        failing = cells["n_positive"][are_below(cells)]
        enough = sorted(n for n in cells["n_positive"].unique() if failing.empty or n > failing.max())
        valid = "always" if failing.empty else f"from {enough[0]:,} on" if enough else "never quite"
        by_n = cells.groupby("n_positive")
        worst, width = by_n["coverage"].min(), by_n["width_ratio"].mean()
        rows.append([f"`{name}`", valid, *(f"{worst[n]:.3f} ({width[n]:.2f})" for n in POSITIVES)])
    return pages.table(["interval: n =", "valid", *map("{:,}".format, POSITIVES)], rows)


TABLES = {"simulation-study.md": (conclusions,), "tables.md": (bias, coverage)}
