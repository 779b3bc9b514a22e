"""Hypothesis profiles, and the small data sets that several test files share."""

import importlib
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings

# The same examples in every run, so that nobody's first run fails by bad luck; at night others, drawn at random.
# A first call compiles or loads the kernels, so no example has a deadline.
settings.register_profile(
    "default", derandomize=True, max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "nightly", settings.get_profile("default"), derandomize=False, max_examples=1000, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
few = settings(max_examples=max(5, settings().max_examples // 2))  # where one example takes long


# Where it is set, each of hundreds of processes would compile the sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

memory = Path("/dev/shm")  # tests write thousands of small files, which a disk takes a millisecond each to create
if memory.is_dir() and shutil.disk_usage(memory).free > 2**32:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))

if "AUCPR_DASK_TEST_ALL" in os.environ:  # where all packages are installed, none may be the reason to skip a test,
    or_skip = pytest.importorskip  # but torch, which takes gigabytes
    pytest.importorskip = lambda name, **options: (or_skip if name == "torch" else importlib.import_module)(name)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave a test that needs more than the extra `test` installs, or a night, out of the quick suite."""
    if item.get_closest_marker("needs") or item.get_closest_marker("nightly"):
        item.add_marker("slow")


def values_of(item: pytest.Item) -> set[tuple[str, ...]]:
    """The values of each parametrisation of a test, by identity: some cannot be compared."""
    values = set()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        values.add(tuple(f"{name}={id(item.callspec.params[name.strip()])}" for name in names))  # type: ignore[attr-defined]
    return values


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a sparse crossing, run as few tests as meet each value of each parameter, and the others at night.

    Examples in docstrings, where they are asked for, run with the slow tests.
    """
    for item in items:
        if item.nodeid.startswith("aucpr_dask/"):
            item.add_marker("slow")
    crossings = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sparse") and not item.get_closest_marker("nightly"):
            crossings[item.nodeid.partition("[")[0], item.get_closest_marker("slow") is None].append(item)
    for crossed in crossings.values():
        unmet, by_day = set[tuple[str, ...]]().union(*map(values_of, crossed)), []
        while unmet:
            by_day.append(max(crossed, key=lambda item: len(values_of(item) & unmet)))
            unmet -= values_of(by_day[-1])
        for item in crossed:
            if item not in by_day:
                item.add_marker("slow")
                item.add_marker("nightly")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a package that is not here."""
    for mark in item.iter_markers("needs"):
        for package in mark.args:
            pytest.importorskip(package)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run all tests of a file in one process, because they share clusters and stores; pages and notebooks do not.

    So do the files whose tests share two worker processes.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            if file.endswith(("test_faults.py", "test_resume.py", "test_run.py", "test_store_objects.py")):
                return "two processes"
            return nodeid if file.endswith(("test_docs_code.py", "test_notebooks.py")) else file

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data that are too large, or not free, to be part of this repository."""
    folder = os.environ.get("AUCPR_DASK_TEST_DATA")
    if not folder:
        pytest.skip("AUCPR_DASK_TEST_DATA does not name the folder of real data")
    return Path(folder)


@pytest.fixture(scope="session", autouse=True)
def kernels_from_the_first_call() -> None:
    """Let tests see kernels also where nothing is compiled yet, and the first calls would take NumPy."""
    from aucpr_dask.kernels import dispatch

    dispatch.MOST_BY_NUMPY = 0


@pytest.fixture(autouse=True)
def no_scheduler_of_a_client_that_is_gone() -> None:
    """Let a client that was killed, or cut off while it closed, not decide where later tests compute."""
    if dask.config.get("scheduler", None) == "dask.distributed":
        try:
            Client.current()
        except ValueError:
            dask.config.set(scheduler=None)


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    """Leave no figure to the next test: matplotlib warns of more than 20."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers in this process, which cost half of what two processes do."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def two_processes() -> Iterator[LocalCluster]:
    """Two worker processes. To start them takes longer than most tests, so that files share them."""
    from aucpr_dask.workers.connecting import started  # they look for work less often, and cost less in between

    # A killed worker that is slow to come back, while other tests run, must not be given up for good.
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "5 minutes"})
    with patient, started("distributed.LocalCluster", {"n_workers": 2}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client_of_processes(two_processes: LocalCluster) -> Iterator[Client]:
    """A client of two worker processes, where that matters."""
    with Client(two_processes) as client:
        yield client


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the small stores of tests into many tasks."""
    monkeypatch.setattr("aucpr_dask.storage.stores.CHUNK_BYTES", 2000)


@pytest.fixture
def few_calls_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run that is stopped leave something to do, however late this process hears of the tasks that finished."""
    from aucpr_dask.runs import submitting

    monkeypatch.setattr(submitting, "LEAST_IN_FLIGHT", 1)
    monkeypatch.setattr(submitting, "CALLS_PER_THREAD", 1)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser that keeps what pages write to its console."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no browser here: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for word in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1200,1000"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield session
    finally:
        session.quit()


class Clock:
    """A clock that stands still unless it is put forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of reports of progress."""
    from aucpr_dask import progress

    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    return clock


def copy_kernels(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """Make a cache of the kernels that are compiled, so that a test in it compiles only what it is about."""
    from aucpr_dask.storage import code_cache

    folder.mkdir(mode=0o700)
    for path in code_cache.cache_home().glob("*.*-*"):
        if not path.name.startswith(without):
            shutil.copy(path, folder)
    return folder


def call(*words: object, width: int = 80) -> Result:
    """Run a command of the package, as wide as a terminal."""
    from aucpr_dask.cli import main

    return CliRunner().invoke(main, [*map(str, words)], env={"COLUMNS": str(width)}, catch_exceptions=False)


def ok(*words: object, width: int = 80) -> Result:
    """Run a command of the package that succeeds."""
    done = call(*words, width=width)
    assert done.exit_code == 0, done.output
    return done


@contextmanager
def raise_if_dask_computes() -> Iterator[None]:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("Dask computed")

    with dask.config.set(scheduler=refuse):
        yield


class Exported:
    """An array that only the DLPack protocol can read."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def without_its_scores(result: Any) -> Any:
    """Return a result whose scores are gone, as they are where another process reads it."""
    if isinstance(result, xr.DataTree):
        return result.map_over_datasets(without_its_scores)
    kept = result.copy()
    kept.attrs = {name: value for name, value in result.attrs.items() if name != "scores"}
    return kept


def errors_of_differences(covariance: xr.DataArray) -> xr.DataArray:
    """Return the standard error of the difference of every pair of models."""
    from aucpr_dask.inference.covarying import squares_of_differences

    return (squares_of_differences(covariance) ** 0.5).transpose(*covariance.dims)


def pooled(n_models: int = 5, n_items: int = 60, seed: int = 0, share: float = 0.4) -> xr.Dataset:
    """One data set without queries: rounded scores, so that some tie."""
    random = np.random.default_rng(seed)
    label = (random.random(n_items) < share).astype(np.int8)
    label[:2] = 1, 0
    return xr.Dataset(
        {
            "score": (("model", "item"), (random.normal(size=(n_models, n_items)) + label).round(1)),
            "label": ("item", label),
        },
        coords={"model": [f"m{i}" for i in range(n_models)], "item": [f"d{i:04d}" for i in range(n_items)]},
    )


def queried(n_models: int = 4, n_queries: int = 3, n_items: int = 30, seed: int = 1) -> xr.Dataset:
    """One data set of queries in the pooled layout, the later queries padded."""
    random = np.random.default_rng(seed)
    label = (random.random((n_queries, n_items)) < 0.4).astype(np.int8)
    label[:, :2] = 1, 0
    for query in range(n_queries):
        label[query, n_items - 2 * query :] = -2
    score = (random.normal(size=(n_models, n_queries, n_items)) + (label == 1)).round(1)
    score[:, label == -2] = np.nan
    return xr.Dataset(
        {"score": (("model", "query", "item"), score), "label": (("query", "item"), label)},
        coords={"model": [f"m{i}" for i in range(n_models)], "query": [f"q{i}" for i in range(n_queries)]},
    )


@pytest.fixture
def scores() -> xr.Dataset:
    """Five models on one data set."""
    return pooled()


@pytest.fixture
def query_scores() -> xr.Dataset:
    """Four models on three queries of different length."""
    return queried()


@pytest.fixture
def forest() -> xr.DataTree:
    """Data sets of different sizes, with and without queries, with different models."""
    return xr.DataTree.from_dict({"small": pooled(3, 20, seed=2), "large": pooled(5, 80, seed=3), "topics": queried()})
