"""The simulation study: its simulations agree with the public functions, its summary with plain counting."""

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest
import scipy.stats
import xarray as xr
from distributed import Client, LocalCluster

import aucpr_dask as ap
from aucpr_dask.errors import AucprError, ClusterError, InvalidInputError
from aucpr_dask.simulate import studies as module
from aucpr_dask.simulate.scenarios import bibeta, binormal
from aucpr_dask.simulate.studies import Cell, Design, simulate_batch, study, summarize_cell
from aucpr_dask.workers import connecting

METHODS = ("logit", "bootstrap", "bca", "bootstrap_t", "influence_logit_t", "cross_validation", "wilson")
SMALL: dict[str, Any] = {
    "scenarios": ("binormal", "offset_uniform"),
    "n_items": (40, 60),
    "prevalence": (0.2,),
    "estimator": ("average_precision", "interpolated_median", "interpolated_convex"),
    "interval": METHODS,
    "resampled": ("average_precision", "interpolated_median"),
    "n_resamples": 50,
    "n_folds": 3,
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """One worker: a thread of this process."""
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        yield client


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 8)


def assert_same(ours: xr.Dataset, theirs: xr.Dataset) -> None:
    xr.testing.assert_identical(ours.drop_attrs(deep=False), theirs.drop_attrs(deep=False))
    assert ours.attrs | {"seconds": 0} == theirs.attrs | {"seconds": 0}


# Simulations


def test_simulations_agree_with_the_public_functions() -> None:
    estimators = tuple(SMALL["estimator"])
    design = _design(estimators=estimators, intervals=METHODS, resampled=SMALL["resampled"])
    cell = _cell(binormal(), 60)
    found = simulate_batch(cell, 0, 10, design)
    score, label = cell.sample(0, 10)
    sample = cell.scenario.sample(60, 0.2, n_simulations=25, seed=cell.seed).compute()
    np.testing.assert_array_equal(score, sample["score"][:10])
    for e, name in enumerate(estimators):
        np.testing.assert_array_equal(found["estimate"][:, e], ap.estimate(score, label, name))
    fold = np.empty(60, int)
    for value in (0, 1):
        fold[label == value] = np.arange((label == value).sum()) % 3
    parts = np.stack([ap.estimate(score[:, fold == k], label[fold == k]) for k in range(3)])
    half = scipy.stats.norm.ppf(0.975) * scipy.stats.sem(parts, axis=0)
    expected = np.stack([parts.mean(axis=0) - half, parts.mean(axis=0) + half], axis=-1)
    place = METHODS.index("cross_validation")
    np.testing.assert_allclose(found["bounds"][:, 0, place], expected, rtol=1e-13)
    np.testing.assert_allclose(found["location"][:, 0, place], parts.mean(axis=0), rtol=1e-13)
    logit = ap.interval(found["estimate"], label.sum(), "logit")
    np.testing.assert_array_equal(found["bounds"][:, :, METHODS.index("logit")], logit)
    is_known = ~np.isnan(found["bounds"]).any(axis=(0, 3))
    formulas = {"logit", "wilson"}
    served = [set(METHODS), formulas | {"bootstrap", "cross_validation"}, formulas]
    assert [{name for name, known in zip(METHODS, row, strict=True) if known} for row in is_known] == served


def test_bootstrap_bounds_are_those_of_a_plain_bootstrap() -> None:
    """With many resamples the bounds approach those of resampling by NumPy and estimating again."""
    design = _design(intervals=("bootstrap",), resampled=("average_precision",), n_resamples=4000)
    cell = _cell(binormal(), 60)
    score, label = cell.sample(0, 2)
    batch = simulate_batch(cell, 0, 2, design)
    bounds, location = batch["bounds"][:, 0, 0], batch["location"][:, 0, 0]
    random = np.random.default_rng(5)
    classes = [np.flatnonzero(label == value) for value in (0, 1)]
    drawn = np.concatenate([random.choice(c, (4000, c.size)) for c in classes], axis=1)
    for row in range(2):
        replicates = ap.estimate(score[row][drawn], label[drawn])
        for q, bound in zip((0.025, 0.5, 0.975), (bounds[row, 0], location[row], bounds[row, 1]), strict=True):
            assert abs((replicates < bound).mean() - q) < 4 * math.sqrt(2 * q * (1 - q) / 4000)


@pytest.mark.parametrize("label_design", ["exact", "binomial"])
def test_more_estimators_leave_intervals_of_others_as_they_were(label_design: str) -> None:
    cell = Cell(binormal(), 60, 0.2, 5, label_design)
    bounds = []
    for names in (("average_precision",), ("average_precision", "lower_trapezoid")):
        design = _design(estimators=names, intervals=("bca",), resampled=names, label_design=label_design)
        bounds.append(simulate_batch(cell, 0, 6, design)["bounds"])
    alone, among = bounds
    np.testing.assert_allclose(among[:, 0], alone[:, 0], rtol=1e-9)
    assert np.isnan(among[:, 1]).all()


def test_every_simulation_has_its_own_streams() -> None:
    cells = [_cell(kind, n) for kind in (binormal(), binormal(2.0), bibeta()) for n in (40, 60)]
    assert len({cell.seed for cell in cells}) == len(cells)
    assert len({cell.key(i) for cell in cells for i in range(100)}) == 100 * len(cells)
    scores = [cell.sample(0, 3)[0] for cell in cells]
    firsts = {value for score in scores for value in score[:, 0]}
    assert len(firsts) == 3 * len(cells)


def test_more_simulations_leave_earlier_ones_as_they_were(client: Client) -> None:
    events: list[Any] = []
    study(**SMALL, n_simulations=21, workers=client, on_progress=events.append)
    assert (events[-1].rankings_done, events[-1].tasks_total) == (21 * 4, 3 * 4)
    cell, design = _cell(bibeta(), 40), _design(intervals=("bootstrap",), resampled=("average_precision",))
    whole = simulate_batch(cell, 0, 9, design)
    for start, stop in ((0, 4), (4, 9)):
        for name, values in simulate_batch(cell, start, stop, design).items():
            np.testing.assert_array_equal(values, whole[name][start:stop])


def test_more_cells_change_nothing(client: Client) -> None:
    alone = study(**SMALL | {"scenarios": ("offset_uniform",), "n_items": (60,)}, n_simulations=9, workers=client)
    among = study(**SMALL, n_simulations=9, workers=client).sel(scenario=["offset_uniform"], n_items=[60])
    xr.testing.assert_identical(alone.drop_attrs(deep=False), among.drop_attrs(deep=False))


@pytest.mark.slow
def test_any_workers_give_the_same_numbers(client: Client) -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as pair:
        two = study(**SMALL, n_simulations=17, workers=pair)
    assert_same(two, study(**SMALL, n_simulations=17, workers=client))


# Summary


def test_summary_of_known_numbers() -> None:
    estimate = np.array([[0.4, 0.5], [0.6, np.nan], [0.8, 0.7], [0.6, 0.6]])
    bounds = np.array([[0.3, 0.49], [0.5, 0.7], [0.51, 0.9], [np.nan, np.nan]])
    both = np.full((4, 2, 2, 2), np.nan)
    both[:, 0, 0] = bounds
    location = np.full((4, 2, 2), np.nan)
    location[:3, 0, 0] = [0.4, 0.6, 0.65]
    found = {name: values for name, (_, values) in summarize_cell(0.5, estimate, both, location, 0.5).items()}
    assert found["mean"] == pytest.approx([0.6, 0.6])
    assert found["bias_ratio"] == pytest.approx([1.2, 1.2])
    assert found["n_estimates"].tolist() == [4, 3]
    assert found["standard_deviation"] == pytest.approx([np.std([0.4, 0.6, 0.8, 0.6], ddof=1), 0.1])
    assert found["spread"] == pytest.approx([0.1, 0.1])  # the quartiles
    first = {name: found[name][0, 0] for name in ("coverage", "miss_below", "miss_above", "undefined", "miss_balance")}
    assert first == {"coverage": 0.25, "miss_below": 0.25, "miss_above": 0.25, "undefined": 0.25, "miss_balance": 0.5}
    assert found["location_ratio"][0, 0] == pytest.approx(1.1)
    assert found["n_locations"][0, 0] == 3
    assert found["width"][0, 0] == pytest.approx((0.19 + 0.2 + 0.39) / 3)
    assert found["width_ratio"][0, 0] == pytest.approx(found["width"][0, 0] / 0.1)
    assert np.isnan(found["coverage"][0, 1])
    assert np.isnan(found["coverage"][1]).all()
    assert np.isnan([found["undefined"][0, 1], found["n_locations"][0, 1]]).all()


def test_shares_add_up(client: Client) -> None:
    found = study(**SMALL, n_simulations=40, workers=client)
    total = found["coverage"] + found["miss_below"] + found["miss_above"] + found["undefined"]
    np.testing.assert_allclose(total.values[~np.isnan(total.values)], 1)
    applies = found["coverage"].notnull().any(["scenario", "n_items", "prevalence"])
    assert applies.sel(estimator="average_precision").all()
    formulas = applies.sel(estimator="interpolated_convex").to_series().loc[lambda s: s].index
    assert formulas.tolist() == ["logit", "wilson"]
    assert found["n_positive"].values.tolist() == [[8], [12]]
    np.testing.assert_array_equal(found["true_area"].sel(scenario="binormal"), binormal().area(0.2))
    assert all("description" in variable.attrs for variable in found.data_vars.values())


@pytest.mark.slow
def test_coverage_agrees_with_another_simulation(client: Client) -> None:
    """Scores by NumPy's generator, average precision by its definition, the interval by its formula."""
    options: dict[str, Any] = {"estimator": ["average_precision"], "interval": ["logit", "binomial"]}
    found = study(["binormal"], [100], [0.1], **options, n_simulations=1500, workers=client).squeeze()
    random = np.random.default_rng(3)
    area, z = binormal().area(0.1), scipy.stats.norm.ppf(0.975)
    estimates, covered = [], []
    for _ in range(1500):
        positive, negative = random.normal(1, 1, 10), random.normal(0, 1, 90)
        t = np.mean([(positive >= y).sum() / ((positive >= y).sum() + (negative >= y).sum()) for y in positive])
        half, centre = z / math.sqrt(10 * t * (1 - t)), math.log(t / (1 - t))
        truth = math.log(area / (1 - area))
        estimates.append(t)
        covered.append((abs(truth - centre) <= half, abs(area - t) <= z * math.sqrt(t * (1 - t) / 10)))
    assert float(found["mean"]) == pytest.approx(np.mean(estimates), abs=4 * math.sqrt(2) * float(found["mean_error"]))
    for method, share in zip(("logit", "binomial"), np.mean(covered, axis=0), strict=True):
        one = found.sel({"interval_method": method})
        assert float(one["coverage"]) == pytest.approx(share, abs=4 * math.sqrt(2) * float(one["coverage_error"]))


@pytest.mark.slow
def test_conclusions_at_fifty_positives(client: Client) -> None:
    """Logit covers, bootstrap and cross-validation do not; the convex hull overestimates."""
    found = study(["binormal"], [500], n_simulations=800, n_resamples=300, workers=client).squeeze()
    coverage = found["coverage"].sel(estimator="average_precision")
    assert float(coverage.sel({"interval_method": "logit"})) > 0.95
    assert float(coverage.sel({"interval_method": "cross_validation_t"})) < 0.9
    location = found["location_ratio"].sel(estimator="average_precision")
    assert location.sortby(location)["interval_method"].values.tolist()[2:] == ["bootstrap", "cross_validation_t"]
    assert float(coverage.sel({"interval_method": "bootstrap"})) < 0.95
    assert found["bias_ratio"].idxmax("estimator").item() == "interpolated_convex"


# Random numbers of positives


def test_formulas_use_the_positives_of_each_simulation(client: Client) -> None:
    options = SMALL | {"label_design": "binomial", "scenarios": ("binormal",), "n_items": (60,)}
    found = study(**options, n_simulations=20, workers=client).squeeze()
    cell = next(module._cells([binormal()], [60], [0.2], 0, "binomial"))
    score, label = cell.sample(0, 20)
    assert len(set(label.sum(axis=1))) > 3
    bounds = ap.interval(ap.estimate(score, label), label.sum(axis=1), "logit")
    area = binormal().area(0.2)
    logit = found.sel({"estimator": "average_precision", "interval_method": "logit"})
    assert float(logit["coverage"]) == ((bounds[:, 0] <= area) & (area <= bounds[:, 1])).mean()
    assert float(logit["location_ratio"]) == pytest.approx(float(found["bias_ratio"][0]))
    assert float(found["n_positive"]) == 12
    fold = module.fold_of(label, 3)
    parts = np.stack([ap.estimate(np.where(fold == k, score, np.nan), label, missing="drop") for k in range(3)])
    folds = found.sel({"estimator": "average_precision", "interval_method": "cross_validation"})
    assert float(folds["location_ratio"]) == pytest.approx(parts.mean(axis=0).mean() / area)


def test_a_simulation_of_one_class_is_undefined(client: Client) -> None:
    options: dict[str, Any] = {"label_design": "binomial", "n_simulations": 40, "n_resamples": 20, "n_folds": 2}
    methods = ["logit", "bootstrap", "influence_beta"]
    found = study(binormal(), 8, [0.1, 0.9], "average_precision", methods, **options, workers=client).squeeze()
    cells = module._cells([binormal()], [8], [0.1, 0.9], 0, "binomial")
    lacking = [np.isin(cell.sample(0, 40)[1].sum(axis=1), (0, 8)).sum() for cell in cells]
    assert min(lacking) > 0
    np.testing.assert_array_equal(found["n_estimates"], 40 - np.array(lacking))
    for method in methods:
        assert found["undefined"].sel({"interval_method": method}).values == pytest.approx(np.array(lacking) / 40)


# Arguments


WRONG: dict[str, list[Any]] = {
    "scenarios": [("trinormal",), ("binormal", binormal(1.0, 1.0))],
    "n_items": [(1,), (), (40, 40), None],
    "prevalence": [(1.0,), (0.01,), (0.2, "much")],
    "estimator": [("median",), ()],
    "interval": [("exact",), 3],
    "resampled": [("median",)],
    "level": [1.0],
    "n_simulations": [1],
    "n_resamples": [0],
    "n_folds": [1],
    "label_design": ["random"],
    "seed": [-1, 0.5],
}


@pytest.mark.parametrize("change", [{name: value} for name, values in WRONG.items() for value in values], ids=str)
def test_wrong_arguments(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        study(**{"n_simulations": 2} | SMALL | change, workers=0)
    assert isinstance(caught.value, AucprError)


TINY: dict[str, Any] = {"n_simulations": 3, "n_resamples": 20}


@pytest.mark.parametrize(
    ("estimators", "expected"),
    [
        ("continuous", ["continuous"]),
        (("continuous", "binormal"), ["continuous", "binormal"]),
        (("continuous", "lower_trapezoid", "average_precision"), ["lower_trapezoid", "average_precision"]),
    ],
)
def test_by_default_some_estimator_is_resampled(client: Client, estimators: Any, expected: list[str]) -> None:
    found = study("binormal", 50, 0.2, estimators, "bootstrap", **TINY, workers=client)
    assert found.attrs["resampled"] == expected
    covered = found["coverage"].sel({"estimator": expected, "interval_method": "bootstrap"})
    assert covered.notnull().all()


def test_only_estimators_of_the_study_are_resampled() -> None:
    with pytest.raises(InvalidInputError, match="'continuous', 'discrete'") as caught:
        study(estimator=("binormal",), resampled=("continuous", "binormal", "discrete"))
    assert "allowed: binormal\n" in str(caught.value)


@pytest.mark.parametrize("scenario", ["binormal", binormal(2.0)], ids=str)
def test_single_values_need_no_sequence(client: Client, scenario: Any) -> None:
    options = TINY | {"workers": client}
    bare = study(scenario, 50, 0.2, "average_precision", "bootstrap", resampled="average_precision", **options)
    lists = [[scenario], [50], [0.2], ["average_precision"], ["bootstrap"]]
    assert_same(bare, study(*lists, resampled=["average_precision"], **options))
    assert_same(bare, study(*map(iter, lists), resampled=iter(["average_precision"]), **options))
    assert_same(bare, study(np.array([scenario]), np.int64(50), np.float64(0.2), *lists[3:], **options))


@pytest.mark.parametrize(
    ("n_items", "prevalence", "lacking"),
    [(5, 0.1, "no positives"), (5, 0.95, "no negatives"), (2, 0.2, "no positives")],
)
def test_a_cell_of_one_class_is_refused_first(
    monkeypatch: pytest.MonkeyPatch, n_items: int, prevalence: float, lacking: str
) -> None:
    monkeypatch.setattr(module, "connect", lambda cluster: pytest.fail("a cluster was asked for"))
    with pytest.raises(InvalidInputError, match=lacking) as caught:
        study("bibeta", (100, n_items), (0.5, prevalence))
    assert f"n_items={n_items}, prevalence={prevalence}" in str(caught.value)
    assert f"allowed: 1 to {n_items - 1} positives" in str(caught.value)


def test_few_positives_have_fewer_intervals_but_no_error(client: Client) -> None:
    """Ten folds of four positives have no estimates, so there is no interval, and its summary is NaN."""
    methods = ("logit", "bootstrap", "cross_validation")
    found = study("binormal", 40, 0.1, "average_precision", methods, **TINY, workers=client).squeeze()
    assert found["coverage"].isnull().values.tolist() == [False, False, True]


# Worker processes


SCRIPT = """
import aucpr_dask as ap
{guard}
    found = ap.simulate.study("binormal", 50, 0.2, "average_precision", "logit", n_simulations=2, workers=1)
    print(found.sizes["estimator"], "estimator")
"""


@pytest.mark.slow
@pytest.mark.parametrize("guard", ["if True:", 'if __name__ == "__main__":'])
def test_a_script_runs_or_an_explanation_is_given(tmp_path: Path, guard: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(guard=guard))
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    if "__main__" in guard:
        assert (done.returncode, done.stdout) == (0, "1 estimator\n")
        return
    last = done.stderr[done.stderr.rindex("aucpr_dask.errors.ClusterError") :]
    assert done.stderr.count("Traceback") == 1
    assert done.returncode != 0  # 1, unless a thread of Dask aborts the interpreter while it ends (Python 3.11)
    for words in ("worker processes could not be started", 'if __name__ == "__main__":', "workers=..."):
        assert words in last


@pytest.mark.parametrize("error", [RuntimeError("Nanny failed to start."), TimeoutError("60 s")], ids=str)
def test_workers_that_do_not_start_raise_the_package_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(**options: Any) -> None:
        raise error

    for place in (distributed, connecting):
        monkeypatch.setattr(place, "LocalCluster", fail)
    with pytest.raises(ClusterError, match=re.escape(str(error))) as caught, ap.connect(2):
        pass
    assert isinstance(caught.value, AucprError)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.__cause__ is error


def test_the_example_of_the_page_is_guarded_and_runs(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[1] / "docs" / "simulation-study.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    short = code.replace("n_simulations=50", "n_simulations=2, n_resamples=20, workers=client")
    assert short != code
    monkeypatch.chdir(tmp_path)
    exec(compile(short, "page", "exec"), {"__name__": "__mp_main__", "client": client})
    assert not list(tmp_path.iterdir())
    exec(compile(short, "page", "exec"), {"__name__": "__main__", "client": client})
    assert "binormal(mu=2.0, sigma=1.0)" in capsys.readouterr().out


def test_study_is_found_in_simulate() -> None:
    assert ap.simulate.study is study
    with pytest.raises(AttributeError, match="no_such_name"):
        ap.simulate.no_such_name  # noqa: B018


def _cell(kind: ap.simulate.Scenario, n_items: int) -> Cell:
    return next(module._cells([kind], [n_items], [0.2], 0, "exact"))


def _design(**changes: Any) -> Design:
    options: dict[str, Any] = {"estimators": ("average_precision",), "intervals": (), "resampled": (), "level": 0.95}
    return Design(**options | {"n_resamples": 50, "n_folds": 3, "label_design": "exact"} | changes)
