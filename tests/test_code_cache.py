"""The cache of compiled code: what is never loaded, what is said, and what is left behind."""

import os
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from numba import types
from numba.core.codegen import CPUCodeLibrary

from aucpr_dask.clusters.compiling_ahead import compiling_ahead
from aucpr_dask.errors import CacheWarning
from aucpr_dask.kernels import compiling
from aucpr_dask.storage import code_cache

GROUP = "tiny"


def doubled(value: float) -> float:
    return value * 2


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    code_cache._warned.clear()
    return tmp_path / "cache"


def compiled() -> compiling.Cache:
    """Compile or load one kernel, as a module of kernels does."""
    cache = compiling.Cache(GROUP)
    kernel = cache.kernel(types.float64(types.float64))(doubled)
    cache.publish()
    assert kernel(1.5) == 3
    return cache


@contextmanager
def no_loading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if numba reads an index of compiled code."""
    from numba.core.caching import IndexDataCacheFile

    def load(*args: Any) -> None:
        raise AssertionError("compiled code was loaded")

    with monkeypatch.context() as context:
        context.setattr(IndexDataCacheFile, "load", load)
        yield


def refused(monkeypatch: pytest.MonkeyPatch, reason: str, home: Path) -> None:
    before = sorted(home.rglob("*"))
    with no_loading(monkeypatch), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CacheWarning)
        compiled()
        compiled()
        assert compiling.load_published() == []
    assert len(caught) == 1  # once in a process
    message = str(caught[0].message)
    assert reason in message
    assert str(home) in message
    assert code_cache.CACHE_VARIABLE in message
    assert sorted(home.rglob("*")) == before


def test_folders_are_made_for_this_user_only(home: Path) -> None:
    umask = os.umask(0)
    try:
        compiled()
    finally:
        os.umask(umask)
    (published,) = home.iterdir()
    for path in (home, published, *home.rglob("*")):
        assert not path.stat().st_mode & 0o022, path
    assert stat.S_IMODE(home.stat().st_mode) == stat.S_IMODE(published.stat().st_mode) == 0o700
    compiled()  # and loads it, without a warning


def _published(home: Path) -> Path:
    return next(home.iterdir())


def _inside(home: Path) -> Path:
    return next(home.rglob("*.nbi"))


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o722, 0o1777])
@pytest.mark.parametrize("which", [Path, _published, _inside, lambda home: _inside(home).parent])
def test_what_others_may_write_to_is_not_loaded(
    home: Path, which: Callable[[Path], Path], mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    which(home).chmod(mode)
    refused(monkeypatch, "others may write to", home)


@pytest.mark.parametrize("which", [Path, _published, _inside])
def test_what_another_user_owns_is_not_loaded(
    home: Path, which: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    if os.getuid() == 0:
        os.chown(which(home), 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: home.stat().st_uid + 1)
    refused(monkeypatch, "belongs to another user", home)


def test_a_parent_that_everyone_may_change_is_refused_unless_it_is_sticky(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    tmp_path.chmod(0o1777)
    compiled()
    tmp_path.chmod(0o777)
    try:
        refused(monkeypatch, "others may replace", home)
    finally:
        tmp_path.chmod(0o700)


def test_links_lead_to_what_is_checked(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    elsewhere = tmp_path / "open"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    published = _published(home)
    published.rename(elsewhere / published.name)
    published.symlink_to(elsewhere / published.name)
    refused(monkeypatch, "others may replace", home)
    elsewhere.chmod(0o700)
    compiled()
    inside = _inside(elsewhere)
    inside.rename(tmp_path / inside.name)
    inside.symlink_to(tmp_path / inside.name)
    code_cache._warned.clear()
    refused(monkeypatch, "neither a file nor a folder", home)


@pytest.mark.parametrize("blocked", ["a file", "a path below a file"])
def test_a_cache_that_cannot_be_written_is_said_once(home: Path, blocked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write_text("")
    if blocked == "a path below a file":
        monkeypatch.setenv(code_cache.CACHE_VARIABLE, str(home / "deeper"))
    refused(monkeypatch, "is not a folder" if blocked == "a file" else "directory", home)


def test_a_full_disk_does_not_stop_the_computation(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.caching import IndexDataCacheFile

    def save(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", save)
    with pytest.warns(CacheWarning, match="No space left"):
        compiled()
    assert list(home.iterdir()) == []


def test_damaged_code_is_compiled_again(home: Path) -> None:
    compiled()
    _inside(home).write_bytes(b"cut")
    with pytest.warns(CacheWarning):
        compiled()


def test_an_interrupt_that_numba_loses_does_not_end_in_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CPUCodeLibrary._get_compiled_object
    calls = []

    def lose_the_first(library: Any) -> Any:
        calls.append(library)
        if len(calls) == 1:
            library._compiled_object = None  # ctypes drops an exception of the callback that sets it
        return whole(library)

    monkeypatch.setattr(CPUCodeLibrary, "_get_compiled_object", lose_the_first)
    compiled()
    assert len(calls) == 2
    assert [path.name.split("-")[0] for path in home.iterdir()] == [GROUP]


def test_an_interrupted_compilation_leaves_nothing_and_can_be_repeated(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(CPUCodeLibrary, "finalize", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compiled()
    assert list(home.iterdir()) == []
    compiled()
    assert len(list(home.iterdir())) == 1


def test_what_killed_processes_left_is_removed_after_a_day(home: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    yesterday = time.time() - 1.1 * code_cache.ABANDONED_AFTER
    names = {".filling-abc": True, f".filling-{ended.pid}-x": True, f".filling-{os.getpid()}-x": False}
    home.mkdir(mode=0o700)
    for name in (*names, f".filling-{ended.pid}-new"):
        (home / name).mkdir()
        (home / name / "file").touch()
        if name in names:
            os.utime(home / name, (yesterday, yesterday))
    compiled()
    left = {path.name for path in home.iterdir()}
    assert left & set(names) == {name for name, is_removed in names.items() if not is_removed}
    assert f".filling-{ended.pid}-new" in left


COMPILING = """
import sys, time
from aucpr_dask.kernels import compiling
cache = compiling.Cache("tiny")
print("compiling" if cache._private else "loading", flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.skipif(not code_cache.CAN_LOCK, reason="files cannot be locked here")
def test_a_process_waits_for_another_that_compiles_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", COMPILING, "60"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "compiling\n"
        monkeypatch.setattr(code_cache, "PATIENCE", 0.2)
        compiled()  # the other may be stopped, so nobody waits for ever
        monkeypatch.setattr(code_cache, "PATIENCE", 60.0)
        third = [sys.executable, "-c", COMPILING.replace('"tiny"', '"other"'), "0"]
        assert subprocess.run(third, capture_output=True, text=True, check=True).stdout == "compiling\n"
        other.kill()
    assert compiled()._private is None  # loaded


@pytest.mark.skipif(not code_cache.CAN_LOCK, reason="files cannot be locked here")
def test_the_turn_of_a_killed_process_goes_to_the_next(home: Path) -> None:
    command = [sys.executable, "-c", COMPILING]
    with (
        subprocess.Popen([*command, "60"], stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen([*command, "0"], stdout=subprocess.PIPE, text=True) as second,
    ):
        assert first.stdout is not None
        assert second.stdout is not None
        assert first.stdout.readline() == "compiling\n"
        first.kill()
        assert second.stdout.readline() == "compiling\n"


def test_compiling_ahead_fills_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with compiling_ahead("rankings.packed"):
        until = time.monotonic() + 60
        while not list(home.glob("rankings.packed-*")) and time.monotonic() < until:
            time.sleep(0.05)
    assert len(list(home.glob("rankings.packed-*"))) == 1

    def start(*args: Any, **options: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(subprocess, "Popen", start)
    with compiling_ahead("rankings.packed"):
        pass


CLUSTER = """
from distributed import Client, LocalCluster
from aucpr_dask.clusters import prepare_workers
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        prepare_workers(client)
        client.submit(len, "").result()
"""


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
