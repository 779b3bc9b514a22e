"""Known traps of compiled code, graphs and threads: each has a test."""

import ast
import graphlib
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import aucpr_dask as ap

PACKAGE = Path(ap.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


def python(code: str, *, environment: dict[str, str] | None = None, **options: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Imports


@pytest.mark.smoke
def test_nothing_is_imported_before_it_is_needed() -> None:
    steps = {  # of one process, and what it must not have imported by then
        "from click.testing import CliRunner; from aucpr_dask.cli import main": "",
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0": "dask distributed numba zarr scipy rich",
        "import aucpr_dask as ap": "numba distributed dask.array aucpr_dask.simulate.scenarios",
        "ap.scorer, ap.from_sklearn, ap.from_dataframe, ap.export": "sklearn polars mlflow matplotlib",
        "import xarray; xarray.Dataset().aucpr.plot": "matplotlib",
        "assert str(ap.simulate.binormal()) == 'binormal(mu=1.0, sigma=1.0)'; assert 'simulate' in dir(ap)": "numba",
        "ap.metrics.average_precision_interval([1, 0, 1], [3, 2, 1])": "numba distributed",
    }
    check = "assert not (early := {} & set(sys.modules)), early\n"
    python("import sys\n" + "".join(f"{step}\n{check.format(set(no.split()))}" for step, no in steps.items()))


@pytest.mark.slow
def test_commands_on_a_small_store_are_light(small_stores: Path) -> None:
    commands = [  # of one process, the last of which needs Dask
        "verify scores",
        "info scores",
        "info result",
        "show result",
        "compare scores",
        "gate scores --baseline m0 --candidate m1",
        "evaluate scores result --overwrite",
    ]
    code = "import sys; from aucpr_dask.__main__ import run\n"
    for command in commands:
        words = [f"{small_stores / word}.zarr" if word in ("scores", "result") else word for word in command.split()]
        code += f"sys.argv = ['aucpr-dask', *{words}]\n"
        code += "try:\n    run()\nexcept SystemExit as end:\n    assert end.code in (0, 3), (sys.argv, end.code)\n"
        heavy = {"distributed", "matplotlib", "numba"} | ({"dask"} if words[0] != "evaluate" else set())
        heavy |= {"scipy.special"} if words[0] in ("verify", "info", "show") else set()
        code += f"assert not (early := {heavy} & set(sys.modules)), (sys.argv, early)\n"
    python(code)


@pytest.fixture(scope="module")
def small_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    score = np.random.default_rng(0).normal(size=(3, 60))
    arrays = {"score": (("model", "item"), score), "label": ("item", np.arange(60) % 3 == 0)}
    scores = xr.Dataset(arrays, coords={"model": ["m0", "m1", "m2"]})
    ap.save_scores(scores, folder / "scores.zarr")
    ap.run(folder / "scores.zarr", folder / "result.zarr")
    return folder


@cache
def every_import_of(path: Path) -> list[tuple[str, bool]]:
    """Return the modules that a file imports, but for type checkers only, and whether inside a function."""
    names = []
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while todo:
        node, inside = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            names += [(alias.name, inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            names += [(f"{node.module}.{alias.name}", inside) for alias in node.names]
        elif isinstance(node, ast.stmt | ast.Module | ast.ExceptHandler | ast.match_case):  # no expression imports
            inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            todo.extend((child, inside) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
    return names


def imports_of(path: Path, *, nested: bool) -> list[str]:
    """Return the modules that a file imports, at its top or anywhere."""
    return [name for name, inside in every_import_of(path) if nested or not inside]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def outside(names: Iterable[str]) -> set[str]:
    roots = {name.split(".")[0] for name in names}
    return {root for root in roots if root not in sys.stdlib_module_names} - {"aucpr_dask"}


@pytest.mark.smoke
def test_kernels_know_only_numbers() -> None:
    for path in (PACKAGE / "kernels").rglob("*.py"):
        names = set(imports_of(path, nested=True))
        assert outside(names) <= {"numpy", "numba", "scipy", "llvmlite", "platformdirs"}, path
        ours = {name for name in names if name.startswith("aucpr_dask")}
        # Clusters check the cache, too, and must not import numba for it.
        if path.name in ("compiling.py", "dispatch.py"):
            ours.remove("aucpr_dask.storage.code_cache")
        assert all(name.startswith("aucpr_dask.kernels") for name in ours), path


PRIVATE = re.compile(
    r"(zarr|xarray|numba)\.core\.|xarray\.(backends\.\w+|coding|computation|namedarray|structure)\."
    r"|numba\.(cpython|np|parfors)\.|(zarr|xarray|dask|distributed|numba|rich|click)\.(.*\.)?_"
)


@pytest.mark.smoke
def test_private_modules_of_other_packages_are_named_in_one_place_each() -> None:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for name in filter(PRIVATE.match, imports_of(path, nested=True)):
            found.setdefault(path.relative_to(PACKAGE).as_posix(), set()).add(name.split(".")[0])
    assert found == {
        "kernels/numba_private.py": {"numba"},
        "storage/xarray_private.py": {"xarray"},
        "storage/zarr_private.py": {"zarr"},
    }


@pytest.mark.smoke
def test_blocks_know_no_labels() -> None:
    assert outside(imports_of(PACKAGE / "evaluation" / "rankings.py", nested=True)) == {"numpy"}


@pytest.mark.smoke
def test_only_workers_and_execution_know_distributed() -> None:
    for path in MODULES:
        if "distributed" in outside(imports_of(path, nested=False)):
            assert path.parent.name in ("workers", "runs"), path
        if "distributed" in outside(imports_of(path, nested=True)):
            assert path.parent.name in ("workers", "runs", "cli", "view", "demo"), path


LAYERS = [
    ("errors", "_version"),
    ("schema",),
    ("storage",),
    ("scores", "kernels"),
    ("evaluation",),
    ("curves",),
    ("progress",),
    ("inference",),
    ("metrics",),
    ("workers",),
    ("runs",),
    ("simulate",),
    ("interplay",),
    ("view",),
    ("demo",),
    ("cli",),
    ("accessor", "__main__"),
]


@pytest.mark.smoke
def test_imports_go_one_way() -> None:
    """At their top, modules import only from their own folder and from layers above; others where they are called."""
    level = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}
    for path in MODULES:
        part = module_name(path).split(".")[1:2]
        if not part:
            continue  # the package itself names everything
        assert part[0] in level, f"{path} belongs to no layer"
        for name in imports_of(path, nested=False):
            pieces = name.split(".")
            if pieces[0] != "aucpr_dask" or part[0] in pieces[1:2]:
                continue
            if len(pieces) == 1:  # the public names, each of which imports what it needs when it is called
                assert part[0] in ("cli", "accessor"), f"{path} imports the package that it is a part of"
                continue
            assert level[pieces[1]] < level[part[0]], f"{path} imports {name}"


FOLDERS = sorted({path.parent for path in MODULES} - {PACKAGE})


@pytest.mark.smoke
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_modules_of_a_folder_import_one_way(folder: Path) -> None:
    """No two modules need each other, not even where one is imported when it is called."""
    own = [path for path in MODULES if path.parent == folder and path.name != "__init__.py"]
    prefix = ".".join(folder.relative_to(PACKAGE.parent).parts) + "."
    imported = {}
    for path in own:
        names = {name.removeprefix(prefix).split(".")[0] for name in imports_of(path, nested=True) if prefix in name}
        imported[path.stem] = names & {other.stem for other in own} - {path.stem}
    assert set(graphlib.TopologicalSorter(imported).static_order()) == set(imported)  # a circle is an error


@pytest.mark.smoke
def test_numba_is_imported_by_the_kernels_only() -> None:
    for path in MODULES:
        if "kernels" not in path.parts:
            allowed = {"llvmlite"} if path.name == "code_cache.py" else set()  # it asks for the processor's name
            assert outside(imports_of(path, nested=True)) & {"numba", "llvmlite"} <= allowed, path
            tops = set(imports_of(path, nested=False))
            assert not any(name.startswith("aucpr_dask.kernels") for name in tops), f"{path} would compile at import"


# Graphs


@pytest.mark.parametrize(
    "name",
    [
        "evaluation.block_results.evaluate_block",
        "evaluation.block_results.results_of",
        "evaluation.rankings.estimates_of",
        "evaluation.rankings.evaluate_intervals",
        "evaluation.chunk_passes.collect_positives",
        "evaluation.chunk_passes.merge_positives",
        "evaluation.chunk_passes.check_positives",
        "evaluation.chunk_passes.tally_negatives",
        "evaluation.chunk_passes.add_tallies",
        "evaluation.mapping.unchanged",
        "evaluation.influences.influence_columns",
        "runs.tasks.evaluate_task",
        "simulate.studies.simulate_batch",
        *(f"simulate.scenarios.{name}" for name in ("draw_labels", "draw_scores", "precision_at")),
        *(f"curves.points.{name}" for name in ("curve_on_grid", "confusion_counts")),
    ],
)
def test_functions_in_a_graph_are_pickled_by_name(name: str) -> None:
    import importlib

    module, _, function_name = name.rpartition(".")
    function = getattr(importlib.import_module(f"aucpr_dask.{module}"), function_name)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(function, protocol)
        assert pickle.loads(pickled) is function
        assert len(pickled) < 200


@pytest.mark.smoke
def test_no_compiled_object_is_in_a_graph() -> None:
    from conftest import pooled

    lazy = ap.evaluate(pooled().chunk({"model": 2}))
    assert b"numba" not in pickle.dumps(dict(lazy.__dask_graph__()))


# Compiled code


@pytest.mark.smoke
def test_no_dangerous_options() -> None:
    """Everywhere: no threads inside kernels, no reordered arithmetic; the cache in one place only."""
    danger = re.compile(r"\bparallel\s*=\s*True|\bprange\b|\bfastmath\b|target\s*=\s*['\"]parallel|\bguvectorize\b")
    caching = re.compile(r"\bcache\s*=")
    for path in MODULES:
        source = path.read_text()
        assert not danger.search(source), path
        if path != PACKAGE / "kernels" / "compiling.py":
            assert not caching.search(source), path
            assert "njit" not in source, path


@pytest.mark.parametrize("level", ["1", "2"])
def test_python_without_assertions_is_refused_at_once(level: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import aucpr_dask"],
        env=os.environ | {"PYTHONOPTIMIZE": level},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "OptimizedPythonError: this package does not work when Python drops assertions" in done.stderr
    assert "remedy: run Python without -O" in done.stderr


# The cache of machine code

CALL = """
import numpy as np, aucpr_dask as ap
from aucpr_dask.kernels import dispatch; dispatch.MOST_BY_NUMPY = 0
print(ap.estimate([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0]))
"""
CALL_ALL = """
import threading, numpy as np, aucpr_dask as ap
from aucpr_dask.kernels import dispatch; dispatch.MOST_BY_NUMPY = 0
long = np.arange(140_000.0)
few = [0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0]
calls = [
    lambda: ap.estimate(*few),
    lambda: ap.estimate(*few, "upper_trapezoid"),
    lambda: ap.estimate(long, long > 139_998),
    lambda: ap.estimate(*few, weight=[1, 1, 1, 1]),
    lambda: ap.estimate(long, long > 139_998, weight=long),
    lambda: ap.estimate(*few, "roc_area"),
]
results = [None] * 6
def call(i):
    barrier.wait()
    results[i] = calls[i]()
barrier = threading.Barrier(6)
threads = [threading.Thread(target=call, args=(i,)) for i in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
print(results)
"""


def cache_files(home: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in home.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("call", ["average_precision_score", "average_precision_interval"])
def test_a_first_number_compiles_nothing(tmp_path: Path, call: str) -> None:
    code = f"from aucpr_dask.metrics import {call}\nprint({call}([1, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.1]))"
    assert python(code, environment={"AUCPR_DASK_CACHE_DIR": str(tmp_path / "cache")})
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.slow
def test_two_processes_that_start_at_once_share_one_cache(tmp_path: Path) -> None:
    environment = os.environ | {"AUCPR_DASK_CACHE_DIR": str(tmp_path / "cache")}
    both = [
        subprocess.Popen([sys.executable, "-c", CALL], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in both] == ["0.8333333333333333"] * 2
    files = cache_files(tmp_path / "cache")
    of_order = {"classes.split_rows_float64_int8", "classes.groups_in_order_float64_float64"}
    assert {name.split("-")[0] for name in files} == {*of_order, "areas.finish_common_rows"}
    # A third one only reads.
    assert python(CALL, environment=environment) == "0.8333333333333333"
    assert cache_files(tmp_path / "cache") == files


@pytest.mark.slow
@pytest.mark.nightly
def test_threads_that_compile_different_kernels_at_once_keep_their_code_apart(tmp_path: Path) -> None:
    environment = {"AUCPR_DASK_CACHE_DIR": str(tmp_path / "cache")}
    expected = python(CALL_ALL, environment=environment)
    assert expected == "[0.8333333333333333, 0.9166666666666666, 1.0, 0.8333333333333333, 1.0, 0.75]"
    files = cache_files(tmp_path / "cache")
    modules = {"areas", "classes", "weighted"}
    assert {name.split(".")[0] for name in files} >= modules
    assert not list(PACKAGE.rglob("*.nb*"))
    assert python(CALL_ALL, environment=environment) == expected
    assert cache_files(tmp_path / "cache") == files


BOUNDS = """
import numpy as np, aucpr_dask as ap
from aucpr_dask.kernels import rankings, weighted
from aucpr_dask.kernels import dispatch; dispatch.MOST_BY_NUMPY = 0
import numba; assert numba.config.BOUNDSCHECK == 1
random = np.random.default_rng(0)
for short in (10**9, 0):
    rankings.SHORT = weighted.SHORT = short
    for few in (0.0, 1.0):
        rankings.FEW_POSITIVES = few
        for n in (0, 1, 2, 5, 64, 1023, 1024, 1025, 3000):
            for kind in (np.float32, np.float64):
                for levels in (1, 3, 10**6):
                    score = random.integers(0, levels, (2, n)).astype(kind)
                    if n > 10:
                        score[:, :2] = [np.inf, -np.inf]
                        score[0, 3] = np.nan
                    for labels in ([0], [1], [0, 1], [-2, -1, 0, 1]):
                        label = random.choice(labels, n)
                        for missing in ("drop", "last", "unretrieved"):
                            names = ["average_precision", "lower_trapezoid", "upper_trapezoid"]
                            ap.estimate(score, label, names, missing=missing)
                            ap.estimate(score, label, missing=missing)
                        ap.estimate(score, label, ties="expectation", missing="last")
                        ap.estimate(score, label, weight=random.integers(0, 3, n), missing="last")
                        ap.estimate(np.nan_to_num(score), np.maximum(label, 0), weight=random.random(n) + 1)
print("fine")
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_no_kernel_reads_or_writes_outside_its_arrays(tmp_path: Path) -> None:
    environment = {"NUMBA_BOUNDSCHECK": "1", "AUCPR_DASK_CACHE_DIR": str(tmp_path / "cache")}
    assert python(BOUNDS, environment=environment) == "fine"
