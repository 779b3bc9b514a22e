"""Plots: their content, readable at a column's width, in grey, and with any names."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import queried
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.transforms import Bbox

import aucpr_dask as ap
from aucpr_dask import demo
from aucpr_dask.errors import InvalidInputError
from aucpr_dask.view import plots
from aucpr_dask.view.plots import style

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).parent.parent / "docs"
STUDY = DOCS / "study" / "intervals.csv"
NASTY = [r"$x_1$", "two_under_scores", "<b>bold</b>", "new\nline", "long " * 60, "_hidden", r"$\frac{", "100 % {x}"]
N_MANY = 5000


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    scores = demo.build_scores(tmp_path_factory.mktemp("plots") / "demo.zarr")
    assert isinstance(scores, xr.DataTree)
    return scores


@pytest.fixture(scope="module")
def pima(shipped: xr.DataTree) -> xr.Dataset:
    return shipped["29_Pima"].to_dataset().isel(repeat=0).compute()


@pytest.fixture(scope="module")
def pima_result(pima: xr.Dataset) -> xr.Dataset:
    return ap.evaluate(pima, interval=["logit", "bootstrap"], n_resamples=200, keep_replicates=True)


@pytest.fixture(scope="module")
def clef_result(shipped: xr.DataTree) -> xr.Dataset:
    return ap.evaluate(shipped["clef-tar"].to_dataset(), missing="unretrieved").compute()


@pytest.fixture(scope="module")
def many() -> xr.Dataset:
    random = np.random.default_rng(0)
    estimate = random.beta(4, 6, N_MANY)
    half = 0.03 + 0.05 * random.random(N_MANY)
    interval = np.stack([estimate - half, estimate + half], axis=-1)
    return xr.Dataset(
        {
            "estimate": (("model", "estimator"), estimate[:, None]),
            "interval": (("model", "estimator", "interval_method", "ci_bound"), interval[:, None, None, :]),
            "prevalence": ("model", np.full(N_MANY, 0.1)),
        },
        coords={
            "model": [f"run_{i:04d}" for i in range(N_MANY)],
            "estimator": ["average_precision"],
            "interval_method": ["logit"],
            "ci_bound": ["lower", "upper"],
            "level": 0.95,
        },
    )


def named(names: list[str]) -> xr.Dataset:
    random = np.random.default_rng(1)
    label = np.arange(200) < 60
    score = random.standard_normal((len(names), 200)) + np.linspace(2, 0.5, len(names))[:, None] * label
    return xr.Dataset(
        {"score": (("model", "item"), score), "label": ("item", label.astype("int8"))}, coords={"model": names}
    )


def texts_of(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.figure.findobj(mpl.text.Text) if text.get_text()]


def legend_of(ax: Axes) -> list[str]:
    legends = [*ax.figure.legends, *filter(None, [ax.get_legend()])]
    return [text.get_text().strip("\u200a") for legend in legends for text in legend.get_texts()]


def model_of(label: str) -> str:
    """Return the model in a label of a curve, which also has its area."""
    return re.sub(r" \((AP|AUC) = \d\.\d\d\)$", "", label)


def rows_of(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def boxes_of(ax: Axes) -> dict[str, Bbox]:
    """Return where each text that can be seen lies, in pixels."""
    figure = ax.figure
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    low, high = sorted(ax.get_xlim())
    bottom, top = sorted(ax.get_ylim())
    labels = [(ax.get_xticks(), ax.get_xticklabels(), low, high), (ax.get_yticks(), ax.get_yticklabels(), bottom, top)]
    ticks = [  # of panels inside a figure, no tick has a label
        label
        for places, shown, least, most in labels
        for at, label in zip(places if shown else (), shown, strict=True)
        if least <= at <= most
    ]
    legends = [*figure.legends, *filter(None, [ax.get_legend()])]
    others = [ax.xaxis.label, ax.yaxis.label, ax.title, ax._left_title, *ax.texts]
    others += [text for legend in legends for text in legend.get_texts()]
    visible = [text for text in (*ticks, *others) if text.get_text() and text.get_visible()]
    return {f"{i}: {text.get_text()}": text.get_window_extent(renderer) for i, text in enumerate(visible)}


def check_legible(ax: Axes) -> None:
    """Nothing overlaps, nothing is cut off, no text is too small, at the width that it is made for."""
    boxes = boxes_of(ax)
    names, (left, bottom, right, top) = list(boxes), np.array([box.extents for box in boxes.values()]).T
    width = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    height = np.minimum.outer(top, top) - np.maximum.outer(bottom, bottom)
    overlapping = np.argwhere(np.triu((width >= 1) & (height >= 1), 1))
    assert not overlapping.size, [f"{names[a]!r} overlaps {names[b]!r}" for a, b in overlapping]
    width, height = ax.figure.get_size_inches() * ax.figure.dpi
    for name, box in boxes.items():
        assert box.x0 > -1, f"{name!r} is cut off"
        assert box.y0 > -1, f"{name!r} is cut off"
        assert box.x1 < width + 1, f"{name!r} is cut off"
        assert box.y1 < height + 1, f"{name!r} is cut off"
    sizes = [text.get_fontsize() for text in ax.figure.findobj(mpl.text.Text) if text.get_text()]
    assert min(sizes) >= 6


def test_the_overlap_check_can_fail() -> None:
    _, ax = plt.subplots(figsize=(2, 2))
    ax.set_yticks([0.5, 0.51], ["one", "two"])
    with pytest.raises(AssertionError, match="overlaps"):
        check_legible(ax)


# Curves


def test_precision_recall_curves_of_the_best(shipped: xr.DataTree, pima: xr.Dataset) -> None:
    ax = shipped.aucpr.plot.precision_recall(dataset="29_Pima")
    check_legible(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("recall", "precision")
    assert ax.get_title("left") == "29_Pima · first of 3 repeats · 25 models"
    areas = ap.estimate(pima["score"], pima["label"])
    best = pima["model"].values[np.argsort(-areas.values, kind="stable")[:3]].tolist()
    legend = legend_of(ax)
    labels = [f"{name} (AP = {float(areas.sel(model=name)):.2f})" for name in best]
    assert legend == ["unachievable", "prevalence", "90 % of models", "half of models", *labels]
    drawn = {model_of(line.get_label()): line for line in ax.lines}
    assert set(best) <= set(drawn)
    np.testing.assert_allclose(drawn["prevalence"].get_ydata()[0], pima["label"].mean())


def test_a_curve_is_drawn_where_it_is(pima: xr.Dataset) -> None:
    name = str(pima["model"].values[3])
    ax = pima.aucpr.plot.precision_recall(name)
    (line,) = [line for line in ax.lines if model_of(line.get_label()) == name]
    points = ap.curve(pima["score"].sel(model=name), pima["label"])
    on = np.interp(points["recall"][1:], *line.get_data())
    reached = points["true_positives"].diff("point") > 0
    np.testing.assert_allclose(on[reached.values], points["precision"][1:][reached.values], atol=0.02)
    assert "90 % of models" not in legend_of(ax)


def test_the_unachievable_region_and_lines_of_equal_f(pima: xr.Dataset) -> None:
    ax = pima.aucpr.plot.precision_recall(others="none", top=1)
    region = next(c for c in ax.collections if c.get_label() == "unachievable")
    prevalence = float(pima["label"].mean())
    assert region.get_paths()[0].vertices[:, 1].max() == pytest.approx(prevalence)
    assert region.get_hatch()
    assert [text.get_text() for text in ax.texts] == ["F 0.2", "F 0.4", "F 0.6", "F 0.8"]
    for line in ax.lines:
        if line.get_color() == style.PALE:
            recall, precision = line.get_data()
            f = 2 * recall * precision / (recall + precision)
            assert f == pytest.approx(np.full(f.size, f[0]))
    assert not pima.aucpr.plot.precision_recall(others="none", top=1, iso_f=False).texts


@pytest.mark.parametrize("plot", ["precision_recall", "roc"])
def test_bands_around_a_curve(shipped: xr.DataTree, plot: str) -> None:
    name = str(shipped["29_Pima"]["model"].values[3])
    draw = getattr(shipped.aucpr.plot, plot)
    ax = draw(name, dataset="29_Pima", bands="both", n_resamples=100, level=0.9, seed=3)
    check_legible(ax)
    assert {"90 % pointwise band", "90 % simultaneous band"} <= set(legend_of(ax))
    node = shipped["29_Pima"].to_dataset().sel(model=[name]).isel(repeat=0).compute()
    bands = ap.curve_bands(node["score"], node["label"], plot, n_resamples=100, level=0.9, seed=3, dataset="29_Pima")
    (band,) = [c for c in ax.collections if c.get_label() == "90 % simultaneous band"]
    drawn = np.unique(band.get_paths()[0].vertices[:, 1])
    assert np.isin(bands["simultaneous_band"].values.ravel().round(9), drawn.round(9)).all()
    only = draw(name, dataset="29_Pima", bands="pointwise", n_resamples=100)
    assert "95 % simultaneous band" not in legend_of(only)


def test_roc_curves(pima: xr.Dataset) -> None:
    ax = pima.aucpr.plot.roc()
    check_legible(ax)
    assert ax.get_xlabel() == "false positive rate"
    assert legend_of(ax)[0] == "random ranking"
    drawn = ax.lines[-1]
    points = ap.curve(pima["score"].sel(model=model_of(drawn.get_label())), pima["label"], kind="roc")
    np.testing.assert_array_equal(drawn.get_ydata(), points["recall"])


def test_the_achievable_curve_is_nowhere_below(shipped: xr.DataTree) -> None:
    ax = shipped.aucpr.plot.achievable(dataset="37_Stamps")
    check_legible(ax)
    assert ax.get_title("left").endswith("best of 25 models")
    curve, achievable = (line.get_ydata() for line in ax.lines if re.search("curves as|AP =", line.get_label()))
    assert (achievable >= curve - 1e-12).all()
    assert (achievable > curve).any()


def test_a_legend_leaves_room_for_many_achievable_curves(pima: xr.Dataset) -> None:
    ax = pima.aucpr.plot.achievable(pima["model"].values[:6].tolist())
    check_legible(ax)
    assert len(legend_of(ax)) == 9
    assert ax.get_window_extent().height > 0.4 * ax.figure.bbox.height


def test_the_area_in_the_legend_is_at_the_prevalence_of_the_curve() -> None:
    scores = named(["a", "b"])
    area = float(ap.estimate(scores["score"], scores["label"], prevalence=0.01).sel(model="a"))
    assert f"a (AP = {area:.2f})" in legend_of(scores.aucpr.plot.precision_recall("a", prevalence=0.01))


def test_a_legend_on_given_axes_covers_no_data(pima: xr.Dataset) -> None:
    figure, ax = plt.subplots(figsize=(5, 4))
    pima.aucpr.plot.precision_recall(ax=ax)
    figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert box.y1 < ax.get_window_extent().y0
    assert box.y0 >= 0


def test_empty_axes_say_why() -> None:
    empty = named(["a", "b"])
    empty["label"] = empty["label"] * 0
    result = ap.evaluate(empty)
    for ax in (
        empty.aucpr.plot.precision_recall(),
        empty.aucpr.plot.roc(),
        empty.aucpr.plot.achievable(),
        result.aucpr.plot.forest(),
        result.aucpr.plot.caterpillar(),
        xr.Dataset({"estimate": (("model", "query"), np.full((2, 2), np.nan))}).aucpr.plot.heatmap(),
    ):
        assert any("Nothing to draw" in text or "no curve" in text for text in texts_of(ax))
        assert not {"interval", "estimate", "prevalence"} & set(legend_of(ax))


def test_density_has_a_scale() -> None:
    ax = named(list("abcdefgh")).aucpr.plot.precision_recall(others="density")
    assert "models through here" in texts_of(ax)


def test_a_query_of_real_runs(shipped: xr.DataTree) -> None:
    options = {"dataset": "clef-tar", "missing": "unretrieved"}
    ax = shipped.aucpr.plot.precision_recall(query="CD010860", **options)
    check_legible(ax)
    assert "CD010860" in ax.get_title("left")
    with pytest.raises(InvalidInputError, match=r"(?s)plots one ranking.*2 labels of 'lead'.*\.sel\(lead="):
        queried().expand_dims(lead=[24, 48]).aucpr.plot.roc()
    with pytest.raises(InvalidInputError, match="plots one query"):
        shipped.aucpr.plot.precision_recall(**options)
    with pytest.raises(InvalidInputError, match="no such query"):
        shipped.aucpr.plot.roc(query="CD0", **options)


@pytest.mark.parametrize(("n_models", "n_curves"), [(1, 1), (10, 10), (11, 3)])
def test_up_to_ten_curves_are_drawn_unasked(n_models: int, n_curves: int) -> None:
    for plot in ("precision_recall", "roc"):
        ax = getattr(named([f"m{i}" for i in range(n_models)]).aucpr.plot, plot)()
        check_legible(ax)
        lines = [line for line in ax.lines if str(line.get_label()).startswith("m")]
        looks = {str((line.get_color(), line._unscaled_dash_pattern)) for line in lines}  # type: ignore[attr-defined]
        assert len(lines) == len(looks) == n_curves


LONG = [
    f"experiment_{i:04d}/model=bert-large-uncased/lr={rate}/seed={i % 3}" for i, rate in enumerate(["1e-3", "5e-5"] * 6)
]


@pytest.mark.filterwarnings("ignore:method='bootstrap' over")
def test_names_keep_what_tells_them_apart_and_nothing_is_cut() -> None:
    scores = named(LONG)
    result = ap.evaluate(scores)
    drawn = [scores.aucpr.plot(), result.aucpr.plot(), result.aucpr.plot.caterpillar(), ap.rank(scores).aucpr.plot()]
    drawn += [ap.compare(scores, LONG[3]).aucpr.plot(), ap.compare(scores).aucpr.plot()]
    for ax in drawn:
        check_legible(ax)
        assert all(re.search(r"00\d\d.*(1e-3|5e-5)", text) for text in texts_of(ax) if "exper" in text)
        whole = ax.figure.bbox
        of_legend = [text for legend in ax.figure.legends for text in legend.get_texts()]
        rows = [text for text in ax.get_yticklabels() if "exper" in text.get_text()]
        for text in (one for one in (ax.xaxis.label, ax.yaxis.label, *of_legend, *rows) if one.get_text()):
            box = text.get_window_extent()
            assert whole.x0 - 1 <= box.x0 <= box.x1 <= whole.x1 + 1, text
            assert whole.y0 - 1 <= box.y0 <= box.y1 <= whole.y1 + 1, text


def test_all_pairs_have_a_picture() -> None:
    scores = named(["a", "b", "c"])
    comparison = ap.compare(scores)
    ax = comparison.aucpr.plot()
    check_legible(ax)
    (image,) = ax.images
    assert rows_of(ax) == [text.get_text() for text in ax.get_xticklabels()] == ["a", "b", "c"]
    expected = comparison["difference"].values
    assert np.ma.is_masked(image.get_array()[1, 1])
    np.testing.assert_allclose(image.get_array()[0, 2], expected[0, 2])
    for line, sign in zip(ax.lines, (1, -1), strict=True):
        differs = (comparison["p_adjusted"].values <= 0.05) & (sign * expected > 0)
        assert {*zip(*line.get_data(), strict=True)} == {*zip(*np.nonzero(differs.T), strict=True)}
    several = ap.compare(scores, ["a", "b"]).aucpr.plot()
    assert several.images[0].get_array().shape == (3, 2)
    assert "from a" in ap.compare(scores, ["a", "b"]).aucpr.plot(baseline="a").get_xlabel()
    with pytest.raises(InvalidInputError, match=r"plot\.pairs"):
        comparison.aucpr.plot.differences()


@pytest.mark.slow
@pytest.mark.parametrize("others", ["quantiles", pytest.param("density", marks=pytest.mark.slow)])
def test_thousands_of_curves_are_few_artists(others: str) -> None:
    scores = ap.simulate.binormal(1.0).sample(200, 0.2, n_simulations=N_MANY).compute()
    ax = scores.aucpr.plot.precision_recall(others=others)
    check_legible(ax)
    assert len(ax.lines) + len(ax.collections) + len(ax.images) < 15
    assert "5,000 models" in ax.get_title("left")
    if others == "quantiles":
        half = next(c for c in ax.collections if c.get_label() == "half of models")
        curves = ap.curve(scores["score"], scores["label"], grid=[0.5])
        at = half.get_paths()[0].vertices
        drawn = at[np.isclose(at[:, 0], 0.5), 1]
        expected = curves.quantile([0.25, 0.75], "model").values.ravel()
        assert [drawn.min(), drawn.max()] == pytest.approx(expected)
    else:
        assert len(ax.images) == 1


@pytest.mark.sparse
@pytest.mark.parametrize("by", ["site", ["site", "sex"]])
@pytest.mark.parametrize("models", [None, "1"])
def test_differences_by_group(by: str | list[str], models: str | None) -> None:
    random = np.random.default_rng(1)
    label = random.integers(0, 2, 240)
    score = random.normal(size=(3, 240)) + label * np.array([[1.0], [1.5], [0.5]])
    groups = {"site": ("item", np.tile(["north", "south"], 120)), "sex": ("item", np.repeat(["f", "m"], 120))}
    variables = {"score": (("model", "item"), score), "label": ("item", label)}
    compared = ap.compare(xr.Dataset(variables, {"model": list("012")} | groups), "0", by=by)
    ax = compared.aucpr.plot.differences(models=models)
    check_legible(ax)
    rows = rows_of(ax)
    assert len(rows) == (2 if by == "site" else 4) * (1 if models else 2)
    assert ax.get_title("left") == (models or "")
    assert "simultaneous, all groups" in legend_of(ax)
    for row in rows:
        group, _, model = row.partition(", ")
        labels, model = group.split("/"), models or model
        one = compared["difference"].sel(model=model, **dict(zip([by] if by == "site" else by, labels, strict=True)))
        drawn = {round(float(x), 12) for line in ax.lines for x in np.atleast_1d(line.get_xdata())}
        assert round(float(one), 12) in drawn


# Leaderboards


def test_forest_of_the_best(pima_result: xr.Dataset) -> None:
    ax = pima_result.aucpr.plot.forest(method="bootstrap")
    check_legible(ax)
    best = pima_result.sortby("estimate", ascending=False)
    assert ax.get_xlabel() == "average precision, 95 % bootstrap interval"
    assert ax.get_title("left") == "20 best of 25 models"
    dots = ax.lines[0].get_xdata()
    np.testing.assert_array_equal(dots, best["estimate"][:20])
    (intervals,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    ends = np.array([segment[:, 0] for segment in intervals.get_segments()])
    np.testing.assert_array_equal(
        np.sort(ends[:, 0]), np.sort(best["interval"].sel({"interval_method": "bootstrap", "ci_bound": "lower"})[:20])
    )


def test_forest_of_means_over_queries(clef_result: xr.Dataset) -> None:
    ax = clef_result.aucpr.plot.forest()
    check_legible(ax)
    assert ax.get_xlabel().startswith("mean average precision over 14 queries")
    mean = ap.aggregate(clef_result)["estimate"].squeeze()
    np.testing.assert_allclose(ax.lines[0].get_xdata(), np.sort(mean)[::-1])
    interval = ap.aggregate(clef_result)["interval"].squeeze().sel(ci_bound="lower")
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert sorted(segment[0, 0] for segment in lines.get_segments()) == pytest.approx(np.sort(interval))
    one = clef_result.aucpr.plot.forest(query="CD010860")
    assert one.get_title("left") == "CD010860"


@pytest.mark.slow
def test_five_thousand_models_in_a_forest_and_in_a_caterpillar(many: xr.Dataset) -> None:
    forest = many.aucpr.plot.forest()
    check_legible(forest)
    assert len(rows_of(forest)) == 20
    caterpillar = many.aucpr.plot.caterpillar()
    check_legible(caterpillar)
    assert len(caterpillar.lines[0].get_xdata()) == N_MANY
    assert (np.diff(caterpillar.lines[0].get_ydata()) <= 0).all()
    assert len(caterpillar.collections) == 1
    assert isinstance(caterpillar.collections[0], PolyCollection)
    marked = many.aucpr.plot.caterpillar(highlight=["run_0007"])
    assert any("run_0007" in text for text in legend_of(marked))


def test_no_more_rows_than_fit_into_given_axes(many: xr.Dataset) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2), layout="constrained")
    assert many.aucpr.plot.forest(ax=left) is left
    assert many.aucpr.plot.forest(ax=right, models=["run_0003", "run_0001"]) is right
    assert 3 < len(rows_of(left)) < 20
    assert rows_of(right) == ["run_0003", "run_0001"]
    check_legible(left)
    assert figure.legends == []


def test_differences_from_a_baseline(clef_result: xr.Dataset) -> None:
    comparison = ap.compare(clef_result, baseline="AMC")
    ax = comparison.aucpr.plot.differences()
    check_legible(ax)
    assert ax.get_xlabel().endswith("from AMC (better →)")
    assert sum(ax.get_xlim()[0] <= tick <= ax.get_xlim()[1] for tick in ax.get_xticks()) >= 4
    squeezed = comparison.squeeze().aucpr.plot.differences()
    assert (rows_of(squeezed), squeezed.get_xlabel()) == (rows_of(ax), ax.get_xlabel())
    assert "AMC" not in rows_of(ax)
    assert legend_of(ax) == ["simultaneous, all of the family", "each on its own", "differs", "not shown to differ"]
    dots = {line.get_label(): len(line.get_xdata()) for line in ax.lines}
    shown = int((comparison["p_adjusted"].drop_sel(model="AMC") <= 0.05).sum())
    assert (dots["differs"], dots["not shown to differ"]) == (shown, 13 - shown)
    pairs = ap.compare(clef_result)
    with pytest.raises(InvalidInputError, match="one baseline"):
        pairs.aucpr.plot.differences()
    of_pairs = pairs.aucpr.plot.differences("AMC")
    assert sorted(rows_of(of_pairs)) == sorted(rows_of(ax))


@pytest.mark.slow
def test_differences_among_more_pairs_than_are_held_in_memory() -> None:
    random = np.random.default_rng(0)
    areas = 0.5 + 0.001 * np.arange(510)[:, None] + 0.1 * random.standard_normal((510, 12))
    comparison = ap.compare(xr.Dataset({"estimate": (("model", "query"), areas)}), n_resamples=200)
    assert comparison["difference"].chunks is not None
    ax = comparison.aucpr.plot.differences(7)
    check_legible(ax)
    assert ax.get_title("left") == "20 largest of 509 models"


def test_few_differences_are_the_largest_in_size() -> None:
    areas = 0.5 + np.array([0.0, 0.1, 0.01, -0.3])[:, None] + 0.01 * np.random.default_rng(0).random((4, 12))
    result = xr.Dataset({"estimate": (("model", "query"), areas)}, coords={"model": list("wxyz")})
    assert rows_of(ap.compare(result, baseline="w").aucpr.plot.differences(top=2)) == ["x", "z"]


def test_a_selected_estimator_and_data_set_are_named(pima_result: xr.Dataset) -> None:
    selected = pima_result.aucpr.plot.forest(method="logit")
    assert selected.get_xlabel() == "average precision, 95 % logit interval"
    tree = xr.DataTree.from_dict({"pima": pima_result})
    assert tree["pima"].aucpr.plot.forest().get_title("left").startswith("pima")


def test_means_name_the_queries_that_count() -> None:
    areas = np.array([[0.4, 0.6, np.nan], [0.5, 0.7, np.nan]])
    ax = xr.Dataset({"estimate": (("model", "query"), areas)}).aucpr.plot.forest()
    assert "over 2 queries" in ax.get_xlabel()


def test_ranks_and_groups(clef_result: xr.Dataset) -> None:
    ranks = ap.rank(clef_result)
    ax = ranks.aucpr.plot.ranks()
    check_legible(ax)
    assert ax.get_xlabel() == "rank of 14 (1 is best)"
    order = np.argsort(ranks["rank"].values, kind="stable")
    sets, alone = (c for c in ax.collections if isinstance(c, LineCollection))
    for lines, name in ((sets, "simultaneous_rank_interval"), (alone, "rank_interval")):
        ends = np.array([segment[:, 0] for segment in lines.get_segments()])
        np.testing.assert_allclose(ends, ranks[name].values[order] + [-0.3, 0.3])
    assert min(ax.get_xticks()) == 1
    groups = [line for line in ax.lines if not line.get_clip_on()]
    first, last = ranks["first_group"].values[order], ranks["last_group"].values[order]
    members = [np.flatnonzero((first <= g) & (g <= last)) for g in range(1, int(last.max()) + 1)]
    expected = [[m[0] - 0.3, m[-1] + 0.3] for m in members if m.size > 1]
    assert [list(line.get_ydata()) for line in groups] == expected


def test_replicates(pima_result: xr.Dataset, clef_result: xr.Dataset) -> None:
    ax = pima_result.aucpr.plot.replicates()
    check_legible(ax)
    assert len(rows_of(ax)) == 8
    assert ax.get_xlabel() == "average precision, 95 % bootstrap interval"
    assert "200 replicates" in legend_of(ax)
    ridges = [patch for patch in ax.patches if hasattr(patch, "get_data")]
    assert len(ridges) == 8
    assert all((patch.get_data().values <= patch.get_data().baseline).all() for patch in ridges)
    with pytest.raises(InvalidInputError, match="keeps no replicates"):
        clef_result.aucpr.plot.replicates(query="CD010860")


# Matrices and studies


@pytest.mark.slow
def test_heat_map_of_data_sets(shipped: xr.DataTree) -> None:
    tables = xr.DataTree.from_dict({name: node.to_dataset() for name, node in shipped.children.items()})
    tables = tables.filter(lambda node: "query" not in node.dims)
    result = ap.evaluate(tables)
    ax = result.aucpr.plot.heatmap()
    check_legible(ax)
    image = ax.images[0].get_array()
    assert image.shape == (25, 6)
    columns = [label.get_text() for label in ax.get_xticklabels()]
    assert columns[0] == "4_breastw"
    estimates = result["4_breastw"]["estimate"].mean("repeat").sel(model=rows_of(ax))
    np.testing.assert_allclose(image[:, 0], estimates)
    assert len(ax.texts) == image.size


def test_heat_map_of_queries_and_of_too_many(clef_result: xr.Dataset) -> None:
    ax = clef_result.aucpr.plot.heatmap()
    check_legible(ax)
    assert ax.images[0].get_array().shape == (14, 14)
    random = np.random.default_rng(0)
    wide = xr.Dataset({"estimate": (("model", "query", "estimator"), random.random((N_MANY, 200, 1)))})
    crowded = wide.aucpr.plot.heatmap()
    check_legible(crowded)
    assert crowded.images[0].get_array().shape == (25, 60)
    assert crowded.get_xlabel() == "60 queries where models differ most, the easiest first"
    assert crowded.get_title("left") == "25 best of 5,000 models · 60 of 200 queries"


def test_heat_map_of_models_that_lack_data_sets() -> None:
    def part(names: list[str], values: list[float]) -> xr.Dataset:
        return xr.Dataset({"estimate": ("model", values)}, coords={"model": names})

    tree = xr.DataTree.from_dict({"easy": part(["a", "b"], [0.9, 0.8]), "hard": part(["b", "c"], [0.2, 0.1])})
    ax = tree.aucpr.plot.heatmap()
    assert int(ax.images[0].get_array().mask.sum()) == 2
    assert rows_of(ax) == ["a", "b", "c"]
    with pytest.raises(InvalidInputError, match="several data sets or queries"):
        tree["easy"].to_dataset().aucpr.plot.heatmap()


def test_coverage_of_the_stored_study() -> None:
    table = pd.read_csv(STUDY).rename(columns={"method": "interval_method"})
    ax = plots.coverage(table, methods=["logit", "bootstrap"])
    check_legible(ax)
    assert legend_of(ax) == ["within 1 % of 95 %", "logit", "bootstrap"]
    cell = table.query("scenario == 'binormal' and estimator == 'average_precision' and interval_method == 'logit'")
    cell = cell[cell["prevalence"] == cell["prevalence"].iloc[0]].sort_values("n_items")
    line = next(line for line in ax.lines if len(line.get_xdata()) == len(cell))
    np.testing.assert_allclose(np.asarray(line.get_ydata(), float), cell["coverage"])
    with pytest.raises(InvalidInputError, match="unknown scenario"):
        plots.coverage(table, scenario="trinormal")
    with pytest.raises(InvalidInputError, match="a table without"):
        plots.coverage(table.drop(columns="coverage"))


def test_coverage_of_a_study_of_ones_own() -> None:
    from distributed import Client

    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        study = ap.simulate.study(
            "binormal", (60, 120), 0.2, "average_precision", level=0.9, n_simulations=30, workers=client
        )
    ax = study.aucpr.plot.coverage(methods="logit")
    check_legible(ax)
    assert legend_of(ax) == ["within 1 % of 90 %", "logit"]
    drawn = next(line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_marker() == "o")
    covered = study["coverage"].sel({"interval_method": "logit"}).squeeze()
    np.testing.assert_allclose(np.asarray(drawn.get_ydata(), float), covered)


# Maps


def on_grid(models: str = "ab", lat: str = "lat", lon: str = "lon") -> xr.Dataset:
    """Return scores over time at each place; in the north all models but the first fail."""
    random = np.random.default_rng(4)
    times, places = np.arange(150), {lat: [40.0, 50.0, 60.0], lon: [0.0, 5.0, 10.0, 15.0]}
    label = xr.DataArray(random.random((150, 3, 4)) < 0.3, {"time": times, **places})
    noise = xr.DataArray(random.normal(size=(len(models), 150, 3, 4)), {"model": list(models), **label.coords})
    skill = xr.where(noise["model"] == "a", 1.5, xr.where(label[lat] > 55, 0.2, 3.0))
    return xr.Dataset({"score": noise + skill * label, "label": label.astype("int8")})


def field_of(ax: Axes) -> np.ndarray:
    (mesh,) = [one for one in ax.collections if isinstance(one, QuadMesh)]
    return np.ma.filled(mesh.get_array(), np.nan)


@pytest.mark.parametrize(
    ("lat", "turn"),
    [
        ("latitude", lambda result: result),
        ("lat", lambda result: result.transpose(..., "lat")),
        ("lat", lambda result: result.isel(lat=[2, 0, 1])),
    ],
)
def test_maps_of_estimates(lat: str, turn: Any) -> None:
    scores = on_grid("abc", lat)
    scores["score"][:, :, 0, 0] = np.nan
    result = ap.evaluate(scores, dim="time", missing="drop")
    ax = turn(result).aucpr.plot.maps()
    check_legible(ax)
    panels = ax.figure.axes[:3]
    best = result["estimate"].mean(["lon", lat]).to_series().sort_values(ascending=False)
    assert [panel.get_title("left") for panel in panels] == list(best.index)
    for panel, model in zip(panels, best.index, strict=True):
        np.testing.assert_array_equal(field_of(panel), result["estimate"].sel(model=model).transpose(lat, "lon"))
    assert (panels[1].get_xlabel(), panels[0].get_ylabel()) == ("lon", lat)
    drawn = result["estimate"].values
    assert {panel.collections[0].get_clim() for panel in panels} == {(np.nanmin(drawn), np.nanmax(drawn))}
    assert ax.figure.axes[3].get_xlabel() == "average precision"


@pytest.mark.slow
def test_maps_of_many_models_show_the_best() -> None:
    crowded = ap.evaluate(on_grid("abcdefghij"), dim="time").aucpr.plot.maps()
    check_legible(crowded)
    assert len(crowded.figure.axes) == 7
    assert "6 best of 10 models" in texts_of(crowded)


@pytest.mark.slow
@pytest.mark.parametrize("adjust", [None, "benjamini_hochberg", "none"])
def test_maps_of_differences(adjust: str | None) -> None:
    scores = on_grid()
    found = ap.compare(scores, "a", dim="time", adjust=adjust)
    ax = found.aucpr.plot.maps()
    check_legible(ax)
    only = found.sel(model="b").transpose("lat", "lon", ...)
    np.testing.assert_array_equal(field_of(ax), only["difference"])
    (low, high), largest = ax.collections[0].get_clim(), float(abs(only["difference"]).max())
    assert (low, high) == (-largest, largest)
    marked = {line.get_label(): set(zip(*line.get_data(), strict=True)) for line in ax.lines}
    for word, sign in (("better", 1), ("worse", -1)):
        is_shown = only.where((only["p_adjusted"] <= 0.05) & (sign * only["difference"] > 0))["difference"]
        places = is_shown.to_series().dropna().index
        assert marked[f"differs, {word}"] == {(lon, lat) for lat, lon in places}
        assert len(places)
    assert ax.figure.axes[1].get_xlabel().replace("\n", " ") == "difference in average precision from a (better →)"
    if adjust is None:
        pairs = ap.compare(scores, dim="time").aucpr.plot.maps(baseline="b")
        np.testing.assert_allclose(field_of(pairs), -only["difference"])


def test_maps_fit_given_axes_and_other_coordinates() -> None:
    result = ap.evaluate(on_grid(), dim="time")
    result = result.assign_coords(row=("lat", [1, 2, 3]), east=(("lat", "lon"), np.arange(12.0).reshape(3, 4)))
    _, ax = plt.subplots(figsize=(2.5, 2.5), layout="constrained")
    assert result.aucpr.plot.maps("east", "row", models="b", ax=ax) is ax
    check_legible(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("east", "row")
    assert result.aucpr.plot.maps(y="lon").get_xlabel() == "lat"
    steps = ap.evaluate(on_grid(lat="lead", lon="height"), dim="time").aucpr.plot.maps(models="a")
    assert (steps.get_xlabel(), steps.get_ylabel()) == ("height", "lead")
    with pytest.raises(InvalidInputError, match="room for one model"):
        result.aucpr.plot.maps(ax=ax)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda one: one.isel(lon=0), {}, "(?s)two numeric dimensions.*received: lat"),
        (lambda one: one.expand_dims(lead=[6, 12]), {}, r"(?s)received: lead, lat, lon.*\.sel\(lead=\.\.\.\)"),
        (lambda one: one.expand_dims(query=["q"]), {}, r"ap\.aggregate\(result, over='query'\)"),
        (lambda one: one.assign_coords(lat=list("xyz")), {}, "'lat', which holds"),
        (lambda one: one, {"x": "lonn"}, "(?s)no such coordinate; did you mean 'lon'.*allowed: lat, lon$"),
        (lambda one: one, {"x": "lat", "y": "lat"}, "name a coordinate of each"),
        (lambda one: on_grid(), {}, "maps plots a result"),
    ],
)
def test_maps_refuse_what_is_no_field(change: Any, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        change(ap.evaluate(on_grid(), dim="time")).aucpr.plot.maps(**options)


# What holds for all of them


@pytest.mark.parametrize(
    ("kind", "plot", "words"),
    [
        ("scores", "forest", "forest plots a result.*evaluate scores first"),
        ("scores", "differences", "differences plots a comparison"),
        ("result", "precision_recall", "precision_recall plots scores"),
        ("result", "ranks", "ranks plots ranks.*rank first"),
        ("comparison", "heatmap", "heatmap plots a result"),
        ("ranks", "roc", "roc plots scores"),
        ("ranks", "coverage", "coverage plots a study"),
        ("nothing", "caterpillar", "neither scores nor a result"),
    ],
)
def test_the_wrong_kind_is_named(clef_result: xr.Dataset, kind: str, plot: str, words: str) -> None:
    data = {
        "scores": lambda: named(["a", "b"]),
        "result": lambda: clef_result,
        "comparison": lambda: ap.compare(clef_result, baseline="AMC"),
        "ranks": lambda: ap.rank(clef_result),
        "nothing": lambda: xr.Dataset({"other": 1}),
    }[kind]()
    with pytest.raises(InvalidInputError, match=f"(?s){words}"):
        getattr(data.aucpr.plot, plot)()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "absent"}, "no such model"),
        ({"model": [f"m{i}" for i in range(11)]}, "too many curves"),
        ({"top": 11}, "top must be"),
        ({"bands": "wide"}, "unknown bands"),
        ({"bands": "both"}, "hide each other"),
        ({"others": "spaghetti"}, "unknown others"),
        ({"dataset": "absent"}, "unknown dataset"),
    ],
)
def test_options_of_curves_are_checked(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        named([f"m{i}" for i in range(11)]).aucpr.plot.precision_recall(**options)


def test_many_data_sets_need_a_choice(shipped: xr.DataTree) -> None:
    with pytest.raises(InvalidInputError, match=r"(?s)plots one data set.*choose one: dataset="):
        shipped.aucpr.plot.roc()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:method='bootstrap' over")  # few positives
def test_names_stay_text() -> None:
    scores = named(NASTY)
    result = ap.evaluate(scores, interval=["logit", "bootstrap"], n_resamples=50, keep_replicates=True)
    comparison = ap.compare(result, baseline=NASTY[6])
    tree = xr.DataTree.from_dict({NASTY[6]: result})
    drawn = [
        scores.aucpr.plot.precision_recall(NASTY[:6]),
        scores.aucpr.plot.achievable(NASTY[6]),
        result.aucpr.plot.forest(),
        tree.aucpr.plot.replicates(),
        result.aucpr.plot.caterpillar(highlight=NASTY[3:8]),
        comparison.aucpr.plot.differences(),
        ap.rank(result).aucpr.plot.ranks(),
        xr.DataTree.from_dict({NASTY[0]: result, NASTY[6]: result}).aucpr.plot.heatmap(),
    ]
    for ax in drawn:
        ax.figure.canvas.draw()
        assert not any("\n" in text and "new" in text for text in texts_of(ax))
        for text in ax.figure.findobj(mpl.text.Text):
            assert not (text.get_parse_math() and "$" in text.get_text())
    assert set(rows_of(drawn[2])) >= {r"$x_1$", "<b>bold</b>", r"new\nline", "_hidden", r"$\frac{", "100 % {x}"}
    assert {r"$x_1$", "_hidden"} <= set(map(model_of, legend_of(drawn[0])))
    check_legible(drawn[2])


def test_a_single_model_and_estimates_that_are_undefined() -> None:
    one = ap.evaluate(named(["only"]))
    check_legible(one.aucpr.plot.forest())
    check_legible(one.aucpr.plot.caterpillar())
    two = xr.Dataset({"estimate": ("model", [np.nan, np.nan])})
    two.aucpr.plot.forest().figure.canvas.draw()
    two.aucpr.plot.caterpillar().figure.canvas.draw()
    check_legible(named(["only"]).aucpr.plot.precision_recall(bands="both", n_resamples=20))


def test_the_interval_of_a_single_model_is_seen_in_a_caterpillar() -> None:
    ax = ap.evaluate(named(["only"])).aucpr.plot.caterpillar()
    (band,) = ax.findobj(PolyCollection)
    np.testing.assert_allclose(band.get_paths()[0].get_extents().intervalx, [0.5, 1.5])
    ax.figure.canvas.draw()
    assert [tick for tick in ax.get_xticks() if 0.5 <= tick <= 1.5] == [1]
    assert ax.get_xlabel() == "place among 1 model"


def test_the_prevalence_is_drawn_where_a_random_ranking_tends_to_it() -> None:
    scores = named(["a", "b"])
    scores["score"] = scores["score"] * 0 + np.random.default_rng(3).normal(size=scores["score"].shape)
    for options, drawn in (({}, [0.3]), ({"prevalence": 0.1}, [0.1]), ({"estimator": "roc_area"}, [])):
        ax = ap.evaluate(scores, **options).aucpr.plot.forest()
        lines = [line.get_xdata()[0] for line in ax.get_lines() if line.get_label() == "prevalence"]
        assert lines == pytest.approx(drawn)


@pytest.mark.parametrize(
    ("plot", "options", "words"),
    [
        ("forest", {"query": "none"}, "there is no such query"),
        ("forest", {"top": 2.5}, "top must be a whole number from 1"),
        ("forest", {"top": "3"}, "top must be a whole number from 1"),
        ("precision_recall", {"query": "q1"}, "there is no such query"),
        ("precision_recall", {"top": 2.5}, "top must be a whole number from 0 to 10"),
    ],
)
def test_queries_and_numbers_of_models_are_checked(plot: str, options: dict[str, object], words: str) -> None:
    scores = named(["a", "b"])
    with pytest.raises(InvalidInputError, match=words):
        getattr((ap.evaluate(scores) if plot == "forest" else scores).aucpr.plot, plot)(**options)


def test_means_over_queries_have_one_interval(clef_result: xr.Dataset) -> None:
    with pytest.raises(InvalidInputError, match="interval of aggregate"):
        clef_result.aucpr.plot.forest(method="influence_beta")
    query = str(clef_result["query"].values[0])
    selected = clef_result.isel(query=0)
    assert rows_of(selected.aucpr.plot.forest(query=query, method="influence_beta")) == rows_of(
        selected.aucpr.plot.forest()
    )


def test_lazy_scores_are_drawn_alike() -> None:
    scores = named(["a", "b", "c"])
    eager = scores.aucpr.plot.precision_recall().lines[-1].get_ydata()
    lazy = scores.chunk(model=1).aucpr.plot.precision_recall().lines[-1].get_ydata()
    np.testing.assert_array_equal(eager, lazy)


def test_weights_and_soft_labels_have_curves_but_no_bands() -> None:
    scores = named(["a", "b", "c", "d"])
    weight = xr.DataArray(np.linspace(0.5, 2, 200), dims="item")
    soft = scores.drop_vars("label").assign(
        positive_weight=weight * scores["label"] + 0.1, negative_weight=weight * (1 - scores["label"]) + 0.1
    )
    for data in (scores.assign(weight=weight), soft):
        for plot in ("precision_recall", "roc", "achievable"):
            check_legible(getattr(data.aucpr.plot, plot)())
        with pytest.raises(InvalidInputError, match="without weights"):
            data.aucpr.plot.precision_recall("a", bands="both")


def test_bands_of_a_query_are_those_of_its_resamples() -> None:
    node = named(["a", "b"])
    scores = xr.concat([node, node], xr.IndexVariable("query", ["x", "y"]), data_vars="all")
    scores = scores.transpose("model", "query", "item")
    ax = scores.aucpr.plot.precision_recall("a", query="y", bands="simultaneous", n_resamples=50)
    (band,) = [c for c in ax.collections if c.get_label() == "95 % simultaneous band"]
    bands = ap.curve_bands(scores["score"], scores["label"], n_resamples=50).sel(model="a", query="y")
    drawn = np.unique(band.get_paths()[0].vertices[:, 1].round(9))
    assert np.isin(bands["simultaneous_band"].values.ravel().round(9), drawn).all()


def luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_lines_are_distinguishable_in_grey() -> None:
    scores = named([f"model {i}" for i in range(6)])
    ax = scores.aucpr.plot.precision_recall([f"model {i}" for i in range(6)])
    drawn = [line for line in ax.lines if str(line.get_label()).startswith("model")]
    dashes = [str(line._dash_pattern) for line in drawn]
    assert len(set(dashes)) == len(drawn) == 6
    assert all(contrast(line.get_color(), "white") > 2 for line in drawn)
    table = plots.coverage(pd.read_csv(STUDY).rename(columns={"method": "interval_method"}))
    markers = [line.get_marker() for line in table.lines if line.get_marker() not in ("None", "")]
    assert len(set(markers)) == 6


def test_intervals_and_text_have_contrast_in_grey() -> None:
    assert contrast(style.BLUE, style.SKY) > 2  # one upon the other
    assert contrast(style.BLACK, style.BLUE) > 3
    assert contrast(style.BLUE, "white") > 4.5
    assert contrast(style.GREY, "white") > 4.5
    shades = [luminance(mpl.colors.to_hex(mpl.colormaps[style.HEAT](x))) for x in np.linspace(0, 1, 20)]
    assert (np.diff(shades) > 0).all()


def test_the_callers_style_is_left_alone(many: xr.Dataset) -> None:
    before = dict(mpl.rcParams)
    ax = many.aucpr.plot.forest()
    assert dict(mpl.rcParams) == before
    assert ax.figure.get_figwidth() * 25.4 == pytest.approx(85)


@pytest.mark.slow
def test_without_matplotlib_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import xarray as xr, aucpr_dask\n"
    code += "try: xr.Dataset({'estimate': ('model', [0.5])}).aucpr.plot.forest()\n"
    code += "except ValueError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert 'pip install "aucpr-dask[plot]"' in done.stdout


# The page


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("make_pictures")


def test_the_page_shows_the_pictures_there_are(page: ModuleType) -> None:
    shown = set(re.findall(r"\((pictures/\S+)\)", page.PAGE.read_text()))
    assert shown == {f"pictures/{path.name}" for path in (DOCS / "pictures").glob("*.png")}
    assert sum(path.stat().st_size for path in (DOCS / "pictures").glob("*.png")) < 1.5e6


@pytest.mark.slow
@pytest.mark.nightly  # by day, the code of the page runs among that of all pages
def test_the_code_of_the_page_draws_its_pictures(page: ModuleType, tmp_path: Path) -> None:
    drawn = {path.name for path in page.draw(tmp_path)}
    assert drawn == {path.name for path in (DOCS / "pictures").glob("*.png")}


def test_one_query_needs_no_choice() -> None:
    scores = queried(3, 4).isel(query=[2])
    assert scores.aucpr.plot.precision_recall() is not None
    result = ap.evaluate(scores, interval=["bootstrap"], keep_replicates=True, n_resamples=50)
    assert result.aucpr.plot.replicates() is not None
