"""The simulation study of Boyd, Eng & Page 2013: their estimators, intervals, scenarios and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from distributed import Client

import aucpr_dask as ap
from docs import pages

CELL = ["scenario", "n_items", "prevalence", "estimator"]
SCENARIOS = ("binormal", "bibeta", "offset_uniform")
PREVALENCE = 0.1  # where the number of items varies
ITEMS = 1000  # where the prevalence varies
BY_PREVALENCE = {"n_items": (ITEMS,), "prevalence": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)}
FOLDS = 10
SIMULATIONS = 3000
LEVEL = 0.95
RECOMMENDED = ("average_precision", "lower_trapezoid", "interpolated_median")
ESTIMATORS = (
    *RECOMMENDED,
    "upper_trapezoid",
    "interpolated_max",
    "interpolated_mean",
    "interpolated_convex",
    "binormal",
)
INTERVALS = ("binomial", "logit", "bootstrap", "cross_validation_t")
SIZES = (200, 500, 1000, 5000, 10_000)  # for which the paper shows intervals
CERTAIN = 2.0  # Monte Carlo errors within which two numbers count as equal
NOT_STORED = ["upper", "miss_balance"]  # follow from other columns


def run(folder: Path, share: float) -> None:
    """Run the two parts of the study, and choose thresholds of the convex hull on other samples."""
    n_simulations = max(20, round(share * SIMULATIONS))
    common = {"estimator": ESTIMATORS, "interval": INTERVALS, "n_simulations": n_simulations}
    parts = {"items": common, "prevalence": common | BY_PREVALENCE | {"interval": INTERVALS[:2]}}
    keep(folder, simulate(parts))
    _write_hulls(folder, max(20, n_simulations // 10))


def simulate(parts: Mapping[str, Mapping[str, Any]]) -> list[xr.Dataset]:
    """Run parts of a study on the same workers, and return their summaries."""
    found = []
    with Client(threads_per_worker=1, dashboard_address=None) as client:
        for part, options in parts.items():
            summary = ap.simulate.study(**options, workers=client)
            found.append(summary.assign_coords(n_simulations=options["n_simulations"]))
            print(f"{part}: {summary.attrs['seconds']:.0f} s", flush=True)
    return found


def keep(folder: Path, found: Sequence[xr.Dataset]) -> None:
    """Write the results of parts to the tables of estimates and of intervals."""
    areas = pd.concat(one.drop_dims("interval_method").to_dataframe() for one in found)
    write(folder, "estimates", areas.reset_index(), CELL)
    columns = [*NOT_STORED, "true_area"]
    write(folder, "intervals", pd.concat(map(interval_rows, found)).drop(columns=columns), [*CELL, "method"])


def interval_rows(part: xr.Dataset) -> pd.DataFrame:
    """Return the results for each interval of the recommended estimators."""
    names = ["true_area", *(name for name in part.data_vars if "interval_method" in part[name].dims)]
    table = part[names].to_dataframe().reset_index().rename(columns={"interval_method": "method"})
    return table[table["coverage"].notna() & table["estimator"].isin(RECOMMENDED)]


def write(folder: Path, name: str, table: pd.DataFrame, key: list[str]) -> None:
    """Write a table, with the rows of the one before that are not in it; rows stay in their places."""
    path = folder / f"{name}.csv"
    table = table.set_index(key)
    if path.exists():
        before = pd.read_csv(path).set_index(key)
        places = before.index.append(table.index).unique()
        table = pd.concat([table, before[~before.index.isin(table.index)]])
        table = table[~table.index.duplicated()].loc[places]
    table = table[~table.index.duplicated()]
    table.to_csv(path, float_format="%.6g" if name == "estimates" else "%.5g")


def _write_hulls(folder: Path, n_simulations: int) -> None:
    """Evaluate the thresholds of the convex hull on the sample that they were chosen on, and on another one."""
    rows = []
    for name in SCENARIOS:
        scenario = getattr(ap.simulate, name)()
        for n_items in (200, ITEMS):
            areas = np.empty((n_simulations, 2))
            sample = scenario.sample(n_items, PREVALENCE, n_simulations=2 * n_simulations, seed=1).compute()
            score, label = sample["score"].transpose("model", "item").values, sample["label"].values
            for simulation, (own, other) in enumerate(zip(score[::2], score[1::2], strict=True)):
                hull = ap.curve(other, label, kind="achievable")["threshold"].values
                places = np.sort(hull[np.isfinite(hull)])
                scores = np.stack([np.searchsorted(places, one, side="right") for one in (other, own)])
                areas[simulation] = ap.estimate(scores.astype(float), label, "continuous")
            ratio = areas / scenario.area(PREVALENCE)
            mean, error = ratio.mean(axis=0), ratio.std(axis=0, ddof=1) / n_simulations**0.5
            facts = {"scenario": name, "n_items": n_items, "n_simulations": n_simulations}
            facts |= {"chosen_here": mean[0], "chosen_here_error": error[0]}
            rows.append(facts | {"chosen_elsewhere": mean[1], "chosen_elsewhere_error": error[1]})
    write(folder, "hulls", pd.DataFrame(rows), ["scenario", "n_items"])


def estimates(folder: Path) -> pd.DataFrame:
    """Return the results for each estimator in each cell."""
    return pd.read_csv(folder / "estimates.csv")


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


def _figure_4(folder: Path) -> pd.DataFrame:
    """Return the bias of the paper's estimators by number of items, at a prevalence of 0.1."""
    table = estimates(folder)
    return table[(table["prevalence"] == PREVALENCE) & table["estimator"].isin(ESTIMATORS)]


def _figure_6(folder: Path, *methods: str) -> pd.DataFrame:
    """Return the paper's intervals at the sizes that it shows them for, at a prevalence of 0.1."""
    table = intervals(folder)
    shown = (table["prevalence"] == PREVALENCE) & table["n_items"].isin(SIZES)
    return table[shown & table["method"].isin(methods or INTERVALS)]


def _range(values: pd.Series, digits: int = 3) -> str:
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"


def _off(table: pd.DataFrame, n_items: int | None = None) -> pd.DataFrame:
    """Return the distance of the bias ratio from 1: a row for each scenario and size, a column for each estimator."""
    table = table if n_items is None else table[table["n_items"] == n_items]
    off = table.assign(off=(table["bias_ratio"] - 1).abs())
    return off.pivot(index=["scenario", "n_items"], columns="estimator", values="off")


def _largest(folder: Path) -> pd.DataFrame:
    table = _figure_4(folder)
    return table[table["n_items"] == table["n_items"].max()]


def most_converge(folder: Path) -> Judgment:
    """Judge whether all estimators but two approach the true area."""
    table = _largest(folder)
    rest = table[~table["estimator"].isin(["binormal", "interpolated_convex"])]
    near = (rest["bias_ratio"] - 1).abs() < 0.01
    return near.sum(), near.size, f"at 10,000 items the other six are at {_range(rest['bias_ratio'])} of the true area"


def binormal_misleads(folder: Path) -> Judgment:
    """Judge whether the binormal estimator is right for its own scenario only."""
    table = _largest(folder)
    ratio = table[table["estimator"] == "binormal"].set_index("scenario")["bias_ratio"]
    holds = [abs(ratio["binormal"] - 1) < 0.005, *(abs(ratio[name] - 1) > 0.02 for name in SCENARIOS[1:])]
    return sum(holds), 3, "at 10,000 items: " + ", ".join(f"{name} {ratio[name]:.3f}" for name in SCENARIOS)


def binormal_recovers(folder: Path) -> Judgment:
    """Judge whether its error is smaller if classes are balanced."""
    table = estimates(folder)
    table = table[(table["estimator"] == "binormal") & (table["n_items"] == ITEMS)]
    ratio = table.set_index(["scenario", "prevalence"])["bias_ratio"]
    holds = [abs(ratio[name, 0.5] - 1) < abs(ratio[name, 0.1] - 1) for name in SCENARIOS[1:]]
    parts = (f"{name} {ratio[name, 0.1]:.3f} at 0.1, {ratio[name, 0.5]:.3f} at 0.5" for name in SCENARIOS[1:])
    return sum(holds), 2, "; ".join(parts)


def no_transformation(folder: Path) -> Judgment:
    """Judge whether the others come close to the binormal estimator where no transformation is needed."""
    table = _figure_4(folder)
    table = table[(table["scenario"] == "binormal") & (table["n_positive"] >= 50)]
    error = table.assign(error=np.hypot(table["bias"], table["standard_deviation"]))
    error = error.pivot(index="n_items", columns="estimator", values="error")
    more = 100 * (error[list(RECOMMENDED)].div(error["binormal"], axis=0).stack() - 1)
    text = (
        "on normal scores, where nothing needs rescaling, the root mean squared errors of the three recommended ones "
    )
    return (more < 10).sum(), more.size, text + f"are {_range(more, 0)} % larger from 50 positives on"


def convex_overestimates(folder: Path) -> Judgment:
    """Judge whether the convex hull is above the true area at every size."""
    table = _figure_4(folder)
    table = table[table["estimator"] == "interpolated_convex"]
    above = table["bias_ratio"] - CERTAIN * table["bias_ratio_error"] > 1
    last = table[table["n_items"] == table["n_items"].max()]
    return above.sum(), above.size, f"{_range(table['bias_ratio'])}; at 10,000 items {_range(last['bias_ratio'])}"


def hull_is_chosen_on_the_test_set(folder: Path) -> Judgment:
    """Judge whether the hull overestimates no more if its thresholds come from another sample."""
    table = pd.read_csv(folder / "hulls.csv")
    holds = table["chosen_elsewhere"] - CERTAIN * table["chosen_elsewhere_error"] < 1
    text = f"{_range(table['chosen_here'])} with the thresholds of the sample itself, "
    text += f"{_range(table['chosen_elsewhere'])} with those of another sample of the same size "
    return holds.sum(), holds.size, text + f"(200 and 1,000 items, {table['n_simulations'].min():,} simulations)"


def no_clear_winner(folder: Path) -> Judgment:
    """Judge whether no estimator is the least biased one of all scenarios at 100 items."""
    best = _off(_figure_4(folder), 100).idxmin(axis=1).droplevel("n_items")
    text = "least biased: " + ", ".join(f"{name} `{best[name]}`" for name in SCENARIOS)
    return int(best.nunique() > 1), 1, text


def few_positives_overestimate(folder: Path) -> Judgment:
    """Judge whether most estimators are above the true area at 100 items."""
    table = _figure_4(folder)
    ratio = table[table["n_items"] == 100].set_index(["scenario", "estimator"])["bias_ratio"]
    below = ratio[ratio < 1]
    text = f"{(ratio > 1).sum()} of {ratio.size} cases; below are "
    text += ", ".join(f"`{estimator}` ({scenario})" for scenario, estimator in below.index)
    return int((ratio > 1).mean() > 0.5), 1, text


def nearer(folder: Path, better: Sequence[str], worse: Sequence[str]) -> Judgment:
    """Judge whether some estimators are less biased than others at 100 items."""
    off = _off(_figure_4(folder))
    all_sizes = [(off[a] < off[b]) for a in better for b in worse]
    here = [one.xs(100, level="n_items") for one in all_sizes]
    text = f"at every size {sum(map(sum, all_sizes))} of {sum(map(len, all_sizes))}; mean distance from the true area "
    text += "at 100 items "
    mean = 100 * off.xs(100, level="n_items").mean()
    text += ", ".join(f"`{name}` {mean[name]:.1f} %" for name in (*better, *worse))
    return sum(map(sum, here)), sum(map(len, here)), text


def recommended_are_nearest(folder: Path) -> Judgment:
    """Judge whether the three recommended estimators have the least bias of those that need no normal scores."""
    mean = 100 * _off(_figure_4(folder)).drop(columns="binormal").mean().sort_values()
    figures = ", ".join(f"`{name}` {value:.1f} %" for name, value in mean.items())
    return len(set(mean.index[:3]) & set(RECOMMENDED)), 3, f"mean distance from the true area: {figures}"


def is_valid(folder: Path, method: str) -> Judgment:
    """Return in how many cells an interval covers at least as often as it says."""
    table = _figure_6(folder, method)
    holds = ~are_below(table)
    everywhere = intervals(folder)
    everywhere = everywhere[everywhere["method"] == method]
    below = everywhere[are_below(everywhere)]
    text = f"coverage {_range(table['coverage'])}"
    if len(below):
        worst = below.loc[below["coverage"].idxmin()]
        text += f"; elsewhere, at 10 positives or another share of positives, below the level in {len(below)} of "
        text += f"{len(everywhere) - len(table)} cells, worst {worst['coverage']:.3f} ({worst['scenario']}, "
        text += f"`{worst['estimator']}`, n = {worst['n_positive']} of {worst['n_items']:,})"
    return holds.sum(), holds.size, text


def approaches_from_below(folder: Path, method: str) -> Judgment:
    """Return in how many cases coverage is too low at the smallest size, rises, and does not pass the level."""
    table = _figure_6(folder, method)
    table = table.assign(above=table["coverage"] > LEVEL + _chance(table), below=are_below(table))
    coverage = table.pivot(index=["scenario", "estimator"], columns="n_items", values="coverage")
    never_above = ~table.groupby(["scenario", "estimator"])["above"].any()
    holds = (coverage[SIZES[0]] < coverage[SIZES[-1]]) & never_above.reindex(coverage.index)
    by_size = table.groupby("n_items")["coverage"].mean()
    text = f"below the level in {table['below'].sum()} of {len(table)} cells; mean coverage "
    return holds.sum(), holds.size, text + ", ".join(f"{by_size[n]:.3f} at {n:,} items" for n in SIZES)


def not_proper_at_last(folder: Path) -> Judgment:
    """Judge whether some cross-validation is below the level even at 10,000 items."""
    table = _figure_6(folder, "cross_validation_t")
    table = table[table["n_items"] == SIZES[-1]]
    below = table[are_below(table)]
    text = f"{len(below)} of {len(table)}: "
    text += ", ".join(f"`{row.estimator}` ({row.scenario}) {row.coverage:.3f}" for row in below.itertuples())
    return int(len(below) > 0), 1, text


def wider_covers_more(folder: Path) -> Judgment:
    """Judge whether coverage and width are positively correlated over the cells of Figure 7."""
    table = _figure_6(folder)
    both = ["coverage", "width_ratio"]
    linear, ranks = (table[both].corr(kind).iloc[0, 1] for kind in ("pearson", "spearman"))
    rest = table[table["method"] != "cross_validation_t"][both].corr().iloc[0, 1]
    text = f"correlation {linear:.2f}, of ranks {ranks:.2f}; without cross-validation {rest:.2f}"
    return int(linear > 0) + int(ranks > 0), 2, text


def formulas_are_nearly_ideal(folder: Path) -> Judgment:
    """Return how wide the formulas are."""
    table = _figure_6(folder, "binomial", "logit")
    near = table["width_ratio"] < 1.25
    return near.sum(), near.size, f"{_range(table['width_ratio'], 2)} of the ideal width"


def cross_validation_width(folder: Path) -> Judgment:
    """Judge whether cross-validation is narrower than the formulas, and wider than ideal."""
    table = _figure_6(folder)
    width = table.pivot(index=["scenario", "estimator", "n_items"], columns="method", values="width_ratio")
    own = width["cross_validation_t"]
    holds = (own > 1) & (own < width[["binomial", "logit"]].min(axis=1))
    usual = own[width.index.get_level_values("n_items") >= 500]
    text = f"{_range(own, 2)} of the ideal width, {_range(usual, 2)} from 500 items on; with the normal quantile, "
    z = _figure_6(folder, "cross_validation")
    text += f"{_range(z['width_ratio'], 2)}" if len(z) else "narrower"
    return holds.sum(), holds.size, text


def bootstrap_is_ideal_or_narrow(folder: Path) -> Judgment:
    """Judge whether the bootstrap is at the ideal width or below, within the error of that width."""
    width = _figure_6(folder, "bootstrap")["width_ratio"]
    return (width < 1.02).sum(), width.size, f"{_range(width, 2)} of the ideal width"


def located(folder: Path) -> pd.DataFrame:
    """Return the distance of the mean location from the true area: a column for each of the paper's intervals."""
    table = _figure_6(folder)
    off = table.assign(off=(table["location_ratio"] - 1).abs())
    return off.pivot(index=["scenario", "estimator", "n_items"], columns="method", values="off")


def cross_validation_is_misplaced(folder: Path) -> Judgment:
    """Judge whether cross-validation lies farthest from the true area, where bootstrap and formulas lie."""
    off = 100 * located(folder)
    holds = off["cross_validation_t"] > off[["binomial", "bootstrap"]].max(axis=1)
    mean = off.mean()
    parts = (f"`{name}` {mean[name]:.1f} %" for name in ("binomial", "bootstrap", "cross_validation_t"))
    return holds.sum(), holds.size, "mean distance from the true area: " + ", ".join(parts)


def bootstrap_is_slightly_misplaced(folder: Path) -> Judgment:
    """Judge whether bootstrap lies a bit farther from the true area than the estimate."""
    off = 100 * located(folder)
    holds, largest = off["bootstrap"] > off["binomial"], (off["bootstrap"] - off["binomial"]).max()
    return holds.sum(), holds.size, f"farther than the estimate by at most {largest:.1f} % of the true area"


def bias_not_width(folder: Path) -> Judgment:
    """Judge whether cross-validation that covers too little is wide enough."""
    table = _figure_6(folder, "cross_validation_t")
    low = table[are_below(table)]
    wide = low["width_ratio"] >= 1
    expected = low["miss_above"].where(low["location_ratio"] > 1, low["miss_below"]).sum()
    share = expected / (low["miss_above"] + low["miss_below"]).sum()
    text = f"where it covers too little, {_range(low['width_ratio'], 2)} of the ideal width, and "
    return wide.sum(), wide.size, text + f"{100 * share:.0f} % of its misses lie on the side to which it is misplaced"


def divides_the_sample(folder: Path) -> Judgment:
    """Judge whether cross-validation lies where an estimate from a tenth of the items does."""
    bias = _figure_4(folder).set_index(["scenario", "estimator", "n_items"])
    table = intervals(folder)
    table = table[(table["method"] == "cross_validation_t") & (table["prevalence"] == PREVALENCE)]
    distances = []
    for row in table.itertuples():
        smaller = row.scenario, row.estimator, row.n_items // FOLDS
        if smaller in bias.index:
            distances.append(100 * abs(row.location_ratio - bias.loc[smaller, "bias_ratio"]))
    near = np.array(distances) < 1
    text = f"location at 10 N items and bias at N differ by at most {max(distances, default=np.nan):.1f} %, N from 100"
    return near.sum(), near.size, text


def acts_like_fewer(folder: Path) -> Judgment:
    """Judge whether the bias of bootstrap is that of a sample 1.5 times smaller, or 1.5 times the estimate's."""
    table = _figure_6(folder, "bootstrap")
    here = table[(table["scenario"] == "binormal") & (table["estimator"] == RECOMMENDED[0])]
    bias = _figure_4(folder).set_index(["scenario", "estimator", "n_items"])["bias_ratio"]
    own = np.array([bias["binormal", RECOMMENDED[0], n] for n in here["n_items"]])
    times = (here["location_ratio"].to_numpy() - 1)[:3] / (own - 1)[:3]
    holds = (times > 1.25) & (times < 1.75)
    figures = [f"{one:.1f} times the estimate's at {n:,} items" for one, n in zip(times, here["n_items"], strict=False)]
    return holds.sum(), holds.size, f"on binormal scores, its bias with `average_precision` is {', '.join(figures)}"


INTERPOLATED = ["interpolated_mean", "interpolated_median", "interpolated_convex", "interpolated_max"]
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


TABLES = {"simulation-study.md": (conclusions,)}
