"""The cache of compiled code: what is never loaded, what is said, and what is left behind."""

import gc
import os
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import copy_kernels
from numba import types
from numba.core.codegen import CPUCodeLibrary
from numba.core.dispatcher import Dispatcher

import aucpr_dask as ap
from aucpr_dask.cli.common import Output
from aucpr_dask.cli.evaluation import compiling_ahead
from aucpr_dask.errors import CacheWarning
from aucpr_dask.kernels import compiling
from aucpr_dask.storage import code_cache

NAME = "tiny.doubled"


def doubled(value: float) -> float:
    return value * 2


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    code_cache._warned.clear()
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of every kernel is added that is compiled from now on."""
    names = []
    compile_one = compiling.Kernel._compile

    def compile_and_note(kernel: compiling.Kernel) -> Any:
        names.append(kernel.name)
        return compile_one(kernel)

    monkeypatch.setattr(compiling.Kernel, "_compile", compile_and_note)
    return names


def call() -> None:
    """Compile or load one kernel, as a new process does at its first call."""
    kernel = compiling.Kernel(doubled, types.float64(types.float64), NAME)
    assert kernel(1.5) == 3
    assert kernel.is_ready


@pytest.mark.parametrize(
    ("is_terminal", "is_command", "said"), [(True, False, 1), (False, False, 0), (False, True, 1), (True, True, 1)]
)
def test_who_waits_hears_once_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool, is_command: bool, said: int
) -> None:
    monkeypatch.setattr(compiling, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(compiling, "_seconds", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with code_cache.announcing(Output(as_json=True).announce) if is_command else nullcontext():
        for seconds in (0.01, 0.2, 0.2):
            with compiling._saying_so():
                time.sleep(seconds)
    assert capsys.readouterr().err.count(compiling.COMPILING) == said


def refused(compilations: list[str], reason: str, home: Path) -> None:
    before = sorted(home.rglob("*"))
    compilations.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CacheWarning)
        call()
        call()
    assert compilations == [NAME, NAME]
    assert len(caught) == 1  # once in a process
    message = str(caught[0].message)
    assert reason in message
    assert str(home) in message
    assert code_cache.CACHE_VARIABLE in message
    assert sorted(home.rglob("*")) == before


def test_others_may_read_and_not_write(home: Path, compilations: list[str]) -> None:
    umask = os.umask(0)
    try:
        call()
    finally:
        os.umask(umask)
    (kept,) = home.iterdir()
    assert kept == code_cache.path_of(NAME)
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    assert stat.S_IMODE(kept.stat().st_mode) == 0o644
    call()  # and loads it, without a warning
    assert compilations == [NAME]


def _kept(home: Path) -> Path:
    return next(home.iterdir())


@pytest.mark.sparse
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o722, 0o1777])
@pytest.mark.parametrize("which", [Path, _kept])
def test_what_others_may_write_to_is_not_loaded(
    home: Path, which: Callable[[Path], Path], mode: int, compilations: list[str]
) -> None:
    call()
    which(home).chmod(mode)
    refused(compilations, "others may write to", home)


@pytest.mark.parametrize("which", [Path, _kept])
def test_what_another_user_owns_is_not_loaded(
    home: Path, which: Callable[[Path], Path], compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call()
    if os.getuid() == 0:
        os.chown(which(home), 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: home.stat().st_uid + 1)
    refused(compilations, "belongs to another user", home)


def test_a_parent_that_everyone_may_change_is_refused_unless_it_is_sticky(
    home: Path, tmp_path: Path, compilations: list[str]
) -> None:
    call()
    tmp_path.chmod(0o1777)
    call()
    assert compilations == [NAME]
    tmp_path.chmod(0o777)
    try:
        refused(compilations, "others may replace", home)
    finally:
        tmp_path.chmod(0o700)


def test_links_lead_to_what_is_checked(home: Path, tmp_path: Path, compilations: list[str]) -> None:
    call()
    elsewhere = tmp_path / "elsewhere"
    home.rename(elsewhere)
    home.symlink_to(elsewhere)
    call()
    elsewhere.chmod(0o777)
    refused(compilations, "others may write to", home)
    elsewhere.chmod(0o700)
    kept = _kept(elsewhere)
    kept.rename(tmp_path / "code")
    kept.symlink_to(tmp_path / "code")
    code_cache._warned.clear()
    refused(compilations, "is not a regular file", home)


@pytest.mark.parametrize("blocked", ["a file", "a path below a file"])
def test_a_cache_that_cannot_be_written_is_said_once(
    home: Path, blocked: str, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write_text("")
    if blocked == "a path below a file":
        monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(home / "deeper"))
    refused(compilations, "is not a folder" if blocked == "a file" else "directory", home)


def test_a_filled_cache_needs_no_right_to_write(
    home: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image that runs as any user; root may write everywhere."""
    call()
    old = time.time() - 2 * code_cache.DAY
    os.utime(_kept(home), (old, old))
    home.chmod(0o500)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and access(path, mode))

    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError("read-only")

    for name in ("utime", "open", "replace", "rename", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()
        code_cache.check_once()
    assert compilations == [NAME]


def test_a_full_disk_does_not_stop_the_computation(
    home: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", write)
    with pytest.warns(CacheWarning, match="No space left"):
        call()
    assert list(home.iterdir()) == []
    assert compilations == [NAME]


@pytest.mark.parametrize("damage", ["cut", "a bit", "empty", "another numba's"])
def test_damaged_code_is_put_aside_and_compiled_again_once(home: Path, damage: str, compilations: list[str]) -> None:
    call()
    kept = _kept(home)
    content = bytearray(kept.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    elif damage == "a bit":
        content[len(content) // 2] ^= 1
    else:
        content.clear()
    kept.write_bytes(content)
    if damage == "another numba's":
        code_cache.write(NAME, b"no pickle")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()
        call()
    assert compilations == [NAME, NAME]
    assert {path.name for path in home.iterdir()} == {kept.name, f"{code_cache.HIDDEN}damaged-{kept.name}"}


@pytest.mark.parametrize("locator", ["InTreeCacheLocator", "UserWideCacheLocator"])
def test_numba_never_looks_elsewhere(home: Path, locator: str, compilations: list[str]) -> None:
    """Its own locators go from folder to folder, and may find what was compiled from older sources."""
    from numba.core import config

    previous = getattr(config, "CACHE_LOCATOR_CLASSES", "")
    config.CACHE_LOCATOR_CLASSES = locator
    try:
        call()
        call()
    finally:
        config.CACHE_LOCATOR_CLASSES = previous
    assert compilations == [NAME]
    assert not list((Path(__file__).parent / "__pycache__").glob("*.nb*"))


def test_an_interrupt_that_numba_loses_does_not_end_in_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CPUCodeLibrary._get_compiled_object
    calls = []

    def lose_the_first(library: Any) -> Any:
        calls.append(library)
        if len(calls) == 1:
            library._compiled_object = None  # ctypes drops an exception of the callback that sets it
        return whole(library)

    monkeypatch.setattr(CPUCodeLibrary, "_get_compiled_object", lose_the_first)
    call()
    assert len(calls) > 1  # it is compiled again
    assert list(home.iterdir()) == [code_cache.path_of(NAME)]


def test_an_interrupted_compilation_leaves_nothing_and_can_be_repeated(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    for module, name in ((CPUCodeLibrary, "finalize"), (os, "replace")):
        with monkeypatch.context() as context:
            context.setattr(module, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                call()
        assert list(home.iterdir()) == []
    call()
    assert len(list(home.iterdir())) == 1


def test_what_nobody_uses_is_swept(home: Path) -> None:
    """Of killed processes after a day; of other versions, sources and machines after a month; nothing else."""
    days = {
        f"{code_cache.HIDDEN}abc": 1.1,
        f"{code_cache.HIDDEN}{NAME}.lock": 1.1,
        f"{code_cache.HIDDEN}new": 0.9,
        f"tiny.old-{'0' * code_cache.DIGEST_LENGTH}": 31,
        f"tiny.other-{'0' * code_cache.DIGEST_LENGTH}": 29,
        "somebody.else": 99,
    }
    home.mkdir(mode=0o700, parents=True)
    for name, age in days.items():
        (home / name).touch()
        then = time.time() - age * code_cache.DAY
        os.utime(home / name, (then, then))
    call()
    kept = {f"{code_cache.HIDDEN}new", f"tiny.other-{'0' * code_cache.DIGEST_LENGTH}", "somebody.else"}
    assert {path.name for path in home.iterdir()} == {*kept, code_cache.path_of(NAME).name}


def test_a_home_that_is_missing_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(code_cache.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(FileNotFoundError, match="the home of this user"):
        code_cache.prepared_home()
    assert not (tmp_path / "nobody").exists()


def test_code_in_use_is_not_swept(home: Path) -> None:
    call()
    old = time.time() - 31 * code_cache.DAY
    os.utime(_kept(home), (old, old))
    call()  # loads it, which is noted
    code_cache.write("tiny.other", b"")
    assert code_cache.path_of(NAME).exists()


def test_no_two_compiled_functions_have_one_name() -> None:
    """Numba names machine code by them, so of two that different processes compiled, one would run for both."""
    functions = [kernel._function for kernel in compiling.kernels()]
    functions += [one.py_func for one in gc.get_objects() if issubclass(type(one), Dispatcher)]
    ours = {id(one): one for one in functions if one.__module__.startswith("aucpr_dask.kernels.")}
    names = Counter((one.__module__, one.__qualname__) for one in ours.values())
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_numba_is_not_imported_to_find_an_empty_cache_and_dask_not_at_all(home: Path) -> None:
    use = "import sys; from aucpr_dask.kernels import dispatch; dispatch.MOST_WITHOUT_NUMBA = 0; "
    use += "from aucpr_dask.metrics import average_precision_score as ap; print(ap([1, 0, 1], [3, 2, 1])); "
    use += "assert not {'numba', 'dask', 'scipy.special'} & {*sys.modules}"
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True)
    assert done.stdout == "0.8333333333333333\n", done.stderr


@pytest.mark.slow
def test_kernels_that_different_processes_compiled_do_not_replace_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = copy_kernels(tmp_path / "cache", without=("operating_points",))
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(cache))
    compile_one = (
        "import sys; from aucpr_dask.kernels import operating_points as all; getattr(all, sys.argv[1]).prepare()"
    )
    for name in "finish_common_rows", "finish_any_rows":
        subprocess.run([sys.executable, "-c", compile_one, name], check=True)
    use = "from aucpr_dask.kernels import dispatch; dispatch.MOST_BY_NUMPY = 0; import aucpr_dask as ap; "
    use += "print([ap.estimate([3, 2, 1], [1, 0, 1], f'{name}') for name in {names}])"
    for names in ["average_precision", "upper_trapezoid"], ["upper_trapezoid", "average_precision"]:
        done = subprocess.run(
            [sys.executable, "-c", use.replace("{names}", str(names))], capture_output=True, text=True
        )
        assert done.stdout == f"{[ap.estimate([3, 2, 1], [1, 0, 1], name) for name in names]}\n", done.stderr


def test_an_edit_changes_the_code_of_what_imports_it_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(module: str) -> set[str]:
        return {path.stem for path in code_cache.sources(module)}

    of_areas = "areas compiling interpolation interval_facts numba_private options tie_groups"
    assert names("areas") == set(of_areas.split())
    assert "interpolation" in names("operating_points") & names("weighted") & names("replicates")
    assert "interpolation" not in names("draws") | names("sorting")
    modules = {kernel.name.rpartition(".")[0] for kernel in compiling.kernels()}
    before = {module: code_cache.digest(module) for module in modules}
    text_of = code_cache._text_of
    monkeypatch.setattr(code_cache, "_text_of", lambda path: text_of(path) + "#" * (path.stem == "interpolation"))
    changed = {module for module in modules if code_cache.digest.__wrapped__(module) != before[module]}
    assert changed == {module for module in modules if "interpolation" in names(module)}


COMPILING = """
import sys, time
from aucpr_dask.storage import code_cache
name = sys.argv[1]
with code_cache.turn(name):
    print("compiling" if code_cache.read(name) is None else "loading", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_process_waits_for_another_that_compiles_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", COMPILING]
    with subprocess.Popen([*command, NAME, "60"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "compiling\n"
        monkeypatch.setattr(code_cache, "PATIENCE", 0.2)
        call()  # the other may be stopped, so nobody waits for ever
        monkeypatch.setattr(code_cache, "PATIENCE", 60.0)
        done = subprocess.run([*command, "tiny.other", "0"], capture_output=True, text=True, check=True)
        assert done.stdout == "compiling\n"
        other.kill()


def test_the_turn_of_a_killed_process_goes_to_the_next(home: Path) -> None:
    command = [sys.executable, "-c", COMPILING, NAME]
    with (
        subprocess.Popen([*command, "60"], stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen([*command, "0"], stdout=subprocess.PIPE, text=True) as second,
    ):
        assert first.stdout is not None
        assert second.stdout is not None
        said = [first.stdout.readline()]
        first.kill()
        said.append(second.stdout.readline())
        assert said == ["compiling\n"] * 2


@pytest.mark.slow
def test_compiling_ahead_fills_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "quantiles.fill_beta_logits"
    home.mkdir(mode=0o700)
    (home / f"{name}-{'0' * code_cache.DIGEST_LENGTH}").touch()  # of other sources
    with compiling_ahead((name,)):
        until = time.monotonic() + 60
        while not code_cache.path_of(name).exists() and time.monotonic() < until:
            time.sleep(0.05)
    assert code_cache.path_of(name).exists()

    def start(*args: Any, **options: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(subprocess, "Popen", start)
    with compiling_ahead((name,)):
        pass


CLUSTER = """
from distributed import Client, LocalCluster
from aucpr_dask.workers import prepare_workers
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        prepare_workers(client)
        client.submit(len, "").result()
"""


@pytest.mark.slow
def test_local_workers_leave_the_warning_to_the_client(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    (tmp_path / "script.py").write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        env=os.environ | {code_cache.CACHE_VARIABLE: str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("compiled code is neither loaded nor kept") == 1


def waits(flag: np.ndarray, space: np.ndarray) -> int:
    """Return how long it took until another thread set the flag, or -1."""
    for i in range(1_000_000_000):
        space[0] = i  # for all the compiler knows, this sets the flag, so it reads the flag again
        if flag[0]:
            return i
    return -1


def test_other_threads_run_during_a_kernel(home: Path) -> None:
    """All kernels are compiled and loaded alike; one that held the interpreter's lock would silence other threads."""
    for _ in range(2):  # the second one is loaded
        kernel = compiling.Kernel(waits, types.int64(types.int64[::1], types.int64[::1]), "tiny.waits")
        kernel.prepare()
        waited = 0
        while waited == 0:  # the flag was set before the kernel began
            flag = np.zeros(1, np.int64)
            thread = threading.Timer(0.02, flag.fill, [1])
            thread.start()
            waited = kernel(flag, np.zeros(1, np.int64))
            thread.join()
        assert waited > 0
