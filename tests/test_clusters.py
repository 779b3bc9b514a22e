"""Descriptions of clusters, each kind against the class it starts, and what every worker gets before its first task."""

import asyncio
import gc
import importlib
import inspect
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import yaml
from click.testing import CliRunner
from conftest import pooled
from distributed import Client, LocalCluster, Status, Worker, default_client
from faults import until

import aucpr_dask as ap
from aucpr_dask.cli import main
from aucpr_dask.errors import ClusterError, InvalidInputError
from aucpr_dask.storage import code_versions
from aucpr_dask.workers import connecting, preparing

FOLDER = Path(__file__).parents[1] / "cluster"
MANIFESTS = sorted((FOLDER / "kubernetes").glob("*.yaml"))
DESCRIPTIONS = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "compose.yaml")
NEEDS = {"ssh": "asyncssh", "local": "distributed"}  # packages, where they are not that of the class


def written(folder: Path, **document: Any) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def filled_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the descriptions, with the environment and the certificates that they name."""
    for path in DESCRIPTIONS:
        shutil.copy(path, tmp_path)
        for name in re.findall(r"\$\{(\w+)\}", path.read_text()):
            monkeypatch.setenv(name, "something")
    (tmp_path / "certificates").mkdir()
    for name in ("ca.pem", "node.pem", "node.key"):
        (tmp_path / "certificates" / name).touch()
    monkeypatch.chdir(tmp_path)  # jobs' logs go to the working directory
    return tmp_path


# The descriptions in the folder


def parameters_of(function: Any) -> set[str]:
    """The names that a class takes, those of its parents and of the jobs it starts included."""
    classes = [*inspect.getmro(function)] if inspect.isclass(function) else [function]
    job = Worker if function is LocalCluster else getattr(function, "job_cls", None)
    classes += [*inspect.getmro(job)] if job is not None else []
    return {
        name
        for each in classes
        if each is not object
        for name in inspect.signature(each.__init__ if inspect.isclass(each) else each).parameters
    } - {"self", "args", "kwargs", "job_kwargs", "base_class_kwargs"}


def packages_of(path: Path) -> Any:
    """Return the mark of a test that needs the packages of a description."""
    needed = NEEDS.get(path.stem) or yaml.safe_load(path.read_text())["class"].partition(".")[0]
    return () if needed == "distributed" else pytest.mark.needs(needed)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=packages_of(path), id=path.stem) for path in DESCRIPTIONS],
)
def test_a_description_names_parameters_of_the_class(path: Path, filled_in: Path) -> None:
    name, arguments, _, _ = connecting._read(str(filled_in / path.name))
    module, _, of_class = name.rpartition(".")
    if path.stem != "ssh":  # its workers' options are checked by using them
        assert set(arguments) <= parameters_of(getattr(importlib.import_module(module), of_class))


@pytest.mark.parametrize("path", DESCRIPTIONS, ids=lambda path: path.stem)
def test_a_description_gives_its_reasons(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert sum("#" in line for line in lines) >= len(lines) / 4
    if path.stem != "address":
        assert re.search(r"memory|machine_type|instance_type|vm_size", path.read_text())
        assert re.search(r"nthreads|threads_per_worker|processes", path.read_text())


@pytest.mark.needs("dask_jobqueue")
@pytest.mark.parametrize("kind", ["slurm", "pbs", "sge", "lsf", "htcondor"])
def test_the_script_of_a_job(kind: str, filled_in: Path) -> None:
    name, arguments, _, _ = connecting._read(str(filled_in / f"{kind}.yaml"))
    arguments.pop("interface", None)  # that of the site
    arguments["scheduler_options"]["host"] = "127.0.0.1"
    with connecting.started(name, arguments) as cluster:
        script = cluster.job_script()
    (command,) = [line for line in script.splitlines() if "dask_worker" in line]
    assert "--nthreads 1 --memory-limit" in command
    assert "--nworkers" not in command  # in place of a job of several, Dask asks for no other
    assert re.search(
        r"--local-directory \$(TMPDIR|{TMPDIR:-/tmp}) |--local-directory \. ", command
    )  # the job's shell replaces it
    assert "something" in script  # the account
    walltime = re.search(r"(?:-t|-W|walltime=|h_rt=) ?(\d\d):(\d\d)", script)
    assert walltime is not None or kind == "htcondor"  # which has none
    hours, minutes = map(int, walltime.groups()) if walltime else (1, 0)
    lifetime, stagger = (int(re.search(rf"--{name} (\d+)m", command)[1]) for name in ("lifetime", "lifetime-stagger"))
    assert 2 <= 60 * hours + minutes - lifetime - stagger <= 10
    memory = {"slurm": "--mem=4G", "pbs": "mem=4GB", "sge": "h_vmem=8G", "lsf": "-M 4295"}.get(kind, "4294967296")
    cores = {"slurm": "--cpus-per-task=1", "pbs": "ncpus=1", "lsf": "-n 1", "htcondor": "Cores = 1"}.get(kind, "")
    assert memory in script
    assert cores in script


# Reading a description


LOCAL = {"class": "distributed.LocalCluster"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"n_workers": 2}, r"no class of clusters[\s\S]*received: class: None"),
        ({"class": "LocalCluster"}, "no class of clusters"),
        ({"class": ["distributed.LocalCluster"]}, "no class of clusters"),
        ({"class": "os.system", "command": "true"}, r"no class of clusters[\s\S]*received: class: os.system"),
        ({"class": "subprocess.PopenCluster"}, "no class of clusters"),
        ({"class": "distributed.deploy.local.os.Cluster.system"}, "no class of clusters"),
        ({"class": "distributed.Nanny"}, "no class of clusters"),
        (LOCAL | {"scale": "many"}, "no number of workers"),
        (LOCAL | {"adapt": 3}, "no number of workers"),
        (LOCAL | {"scale": 1, "adapt": {"minimum": 1}}, "no number of workers"),
        (LOCAL | {"patience": "soon"}, r"not a length of time[\s\S]*12 hours"),
        (LOCAL | {"name": "${NO_SUCH_VARIABLE}"}, "export NO_SUCH_VARIABLE="),
    ],
    ids=str,
)
def test_invalid_descriptions(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    path = written(tmp_path, **document)
    with pytest.raises(InvalidInputError, match=message) as caught, ap.connect(path):
        pass
    assert f"where: {path}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "- a list",
        "class: [",
        "",
        "\x00",
        "1: 2",
        "!!python/object/apply:os.getcwd []",
        "class: distributed.LocalCluster\nenv: &a {x: *a}",
    ],
)
def test_files_that_are_not_descriptions(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "cluster.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInputError, match="description of workers") as caught, ap.connect(path):
        pass
    assert str(path) in str(caught.value)


def test_any_class_of_clusters_of_dask(tmp_path: Path) -> None:
    options = {"processes": False, "threads_per_worker": 1, "n_workers": 0, "scale": 2}
    path = written(tmp_path, **{"class": "distributed.deploy.local.LocalCluster"}, **options)
    with ap.connect(path) as client:
        client.wait_for_workers(2, timeout=30)
        assert client.submit(sum, [1, 2]).result() == 3
    for name in ("dask_no_such.Cluster", "distributed.NoSuchCluster"):
        with pytest.raises(ClusterError, match=f"install the package that has {name}"):
            connecting.started(name, {})


def test_variables_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "node7")
    options = {"a": "tcp://${HOST}:1", "b": ["$HOST", {"c": "${HOST}${HOST}"}], "d": 5, "e": "$${HOST} costs $5"}
    _, arguments, _, _ = connecting._read(str(written(tmp_path, **LOCAL, **options)))
    assert arguments == {
        "a": "tcp://node7:1",
        "b": ["$HOST", {"c": "node7node7"}],
        "d": 5,
        "e": "$node7 costs $5",
    }


@pytest.mark.filterwarnings("ignore:unclosed cluster", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.needs("dask_jobqueue")
def test_a_cluster_that_does_not_start(tmp_path: Path) -> None:
    path = written(tmp_path, **{"class": "dask_jobqueue.SLURMCluster"}, cores=1, memory="1GB", nonsense=2)
    with (
        pytest.raises(ClusterError, match=rf"SLURMCluster could not be started[\s\S]*{path}[\s\S]*nonsense"),
        ap.connect(path),
    ):
        pass
    gc.collect()  # a class that refuses its arguments leaves half a cluster behind, which warns when it goes


def test_the_command_line_takes_a_file(tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    path = written(tmp_path, **{"class": "os.system", "command": "true"})
    arguments = ["evaluate", str(tmp_path / "scores.zarr"), str(tmp_path / "r.zarr"), "--workers", str(path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "no class of clusters" in done.output
    assert not (tmp_path / "r.zarr").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux says who listens")
def test_nobody_else_can_reach_local_workers() -> None:
    listening = r"^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F:]+ 0A "

    def open_to_all() -> set[str]:
        text = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        found = re.findall(listening, text, re.MULTILINE)
        return {port for address, port in found if not int(address, 16) or address == "0" * 32}

    with ap.connect(1) as client:
        pages = client.run(lambda dask_worker: dask_worker.http_server.port).values()
        addresses = [client.scheduler.address, *client.nthreads(), client.dashboard_link.removesuffix("/status")]
        ports = {f"{int(port):04X}" for port in [*(address.rpartition(":")[2] for address in addresses), *pages]}
        assert len(ports) == 4
        assert not ports & open_to_all()


# Workers


@pytest.fixture
def running() -> Iterator[LocalCluster]:
    """A cluster that was not started by this package, in this process."""
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        yield cluster


def test_workers_are_prepared_once_and_those_that_join_later_too(
    running: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[int] = []
    monkeypatch.setattr(preparing, "load_kernels", lambda: prepared.append(1))
    with Client(running) as given:
        for cluster in (given, given, running.scheduler_address):
            with ap.connect(cluster) as client:
                assert client.submit(sum, [1, 2]).result() == 3
                assert prepared == [1]
        running.scale(2)
        given.wait_for_workers(2, timeout=10)
        deadline = time.monotonic() + 10
        while len(prepared) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert prepared == [1, 1]


def test_a_worker_of_other_versions_is_refused(running: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    here = code_versions.facts()
    with Client(running) as given:
        monkeypatch.setattr(preparing, "facts", lambda: here | {"numba": "0.1", "Python": "3.9"})
        message = rf"(?s)worker 0 .*: Python {here['Python']} instead of 3.9, numba {here['numba']} instead of 0.1"
        with pytest.raises(ClusterError, match=message), ap.connect(given):
            pass
        monkeypatch.undo()
        with ap.connect(given) as client:  # nothing of the refusal stays
            assert client.submit(sum, [1, 2]).result() == 3
            assert sum(name.startswith("aucpr-dask-refused") for name in running.workers[0].plugins) == 1
        assert not any(name.startswith("aucpr-dask-refused") for name in running.workers[0].plugins)


@pytest.fixture
def changed_package(tmp_path: Path) -> Path:
    """A copy of the package in which one line is another."""
    copy = tmp_path / "other" / "aucpr_dask"
    shutil.copytree(Path(ap.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "kernels" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    return copy.parent


@pytest.mark.slow
@pytest.mark.parametrize("joins_later", [False, True])
def test_a_worker_with_other_code_does_nothing(tmp_path: Path, changed_package: Path, joins_later: bool) -> None:
    command = [sys.executable, "-m", "dask", "worker", "--nthreads", "1", "--name", "odd", "--no-dashboard"]
    environment = os.environ | {"PYTHONPATH": str(changed_package)}
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster, ExitStack() as stack:
        given = stack.enter_context(Client(cluster))

        def start() -> subprocess.Popen[bytes]:
            log = stack.enter_context((tmp_path / "log").open("wb"))
            address = cluster.scheduler_address
            process = subprocess.Popen([*command, address], env=environment, cwd=tmp_path, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        if not joins_later:
            start()
            given.wait_for_workers(2, timeout=60)
            with pytest.raises(ClusterError, match=r"worker odd .* sources of aucpr-dask"), ap.connect(given):
                pass
            assert len(given.nthreads()) == 2  # someone else may need it
            return
        connection = ap.connect(given)
        connection.__enter__()
        # Before Python 3.14, threads of distributed may abort a process that has ended its work (python/cpython#87135).
        status, log = start().wait(60), (tmp_path / "log").read_text()
        assert "End worker" in log
        assert status == 0 or (status == -signal.SIGABRT and "FATAL: exception not rethrown" in log)
        assert len(given.nthreads()) == 1
        with pytest.warns(UserWarning, match=r"refused: worker odd .* sources of aucpr-dask"):
            connection.__exit__(None, None, None)


@pytest.mark.slow
def test_an_option_that_workers_do_not_know_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, **LOCAL, n_workers=1, nonsense=1)
    with pytest.raises(ClusterError, match=r"TypeError: .*'nonsense'"), ap.connect(path):
        pass


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_is_prepared_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    registered, killed = Client.register_plugin, list[Any]()

    def register(client: Client, *given: Any, **options: Any) -> Any:
        if not killed:
            killed.append([os.kill(pid, signal.SIGKILL) for pid in client.run(os.getpid).values()])
        return registered(client, *given, **options)

    monkeypatch.setattr(Client, "register_plugin", register)
    with ap.connect(2) as client:
        assert client.submit(abs, -1).result(timeout=60) == 1
    assert killed


@pytest.mark.slow
def test_a_worker_that_leaves_does_not_complain_about_its_heartbeat(running: LocalCluster) -> None:
    """What Dask's worker logs if its scheduler is gone first; while it works, that is worth knowing."""
    (worker,) = running.workers.values()
    log = logging.getLogger("distributed.worker")
    lost, other = (
        log.makeRecord(log.name, logging.ERROR, "", 0, text, (), None)
        for text in ("Failed to communicate with scheduler during heartbeat.", "Compute failed")
    )
    with ap.connect(running.scheduler_address):
        assert log.filter(lost)
        worker.status = Status.closing_gracefully
        assert not log.filter(lost)
        assert log.filter(other)
        worker.status = Status.running


@pytest.mark.parametrize("cluster", [0, -1, True, 2.5])
def test_a_number_of_processes_is_positive_and_whole(cluster: Any) -> None:
    with pytest.raises(InvalidInputError, match="whole number from 1"), ap.connect(cluster):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tcp://no-port"])
def test_an_address_without_a_scheduler(address: str) -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1 s"}),
        pytest.raises(ClusterError, match="cannot be reached") as caught,
        ap.connect(address),
    ):
        pass
    assert address.removeprefix("tcp://") in str(caught.value)
    with pytest.raises(ValueError, match="No clients found"):  # nothing waits for it
        default_client()
    assert da.ones(3).sum().compute() == 3


def test_a_closed_client(running: LocalCluster) -> None:
    client = Client(running)
    client.close()
    with pytest.raises(ClusterError, match="closed"), ap.connect(client):
        pass


@pytest.mark.slow
def test_dask_monitors_local_processes_rarely_unless_configured() -> None:
    name = "distributed.admin.tick.interval"
    before = dask.config.get(name)
    for given, found in ((before, "500 ms"), ("30 ms", "30 ms")):
        with dask.config.set({name: given}), ap.connect(1) as client:
            assert list(client.run(dask.config.get, name).values()) == [found]
            assert list(client.run(dask.config.get, "distributed.admin.system-monitor.gil.enabled").values()) == [False]
            assert dask.config.get(name) == given


def test_no_worker_in_time(tmp_path: Path) -> None:
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster:
        here = {"class": "distributed.Client", "address": cluster.scheduler_address}
        path = written(tmp_path, **here, patience="0.1s")
        with pytest.raises(ClusterError, match=r"no worker started within[\s\S]*patience"), ap.connect(path):
            pass


FAULTS = """
import resource, sys
import numpy as np
from aucpr_dask.workers.preparing import keep_memory
if "keep" in sys.argv and not keep_memory():
    sys.exit("mallopt")
def replicate():
    np.ones(1 << 20)  # 8 MiB
replicate(), replicate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    replicate()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    "glibc" not in os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else True, reason="glibc"
)
def test_memory_is_kept_despite_the_environment() -> None:
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}  # what Dask gives to workers
    environment["NUMPY_MADVISE_HUGEPAGE"] = "0"  # pages of 4 KiB, to be counted

    def faults(*arguments: str) -> int:
        command = [sys.executable, "-c", FAULTS, *arguments]
        return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert faults() > 2000  # every replicate asks for its pages again; 41,000 are 4 KiB each, some are larger
    assert faults("keep") < 100


@pytest.mark.slow
def test_a_worker_loads_what_was_compiled_and_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUCPR_DASK_CACHE_DIR", str(tmp_path))

    def compiled(client: Client) -> list[list[str]]:
        def ready() -> list[str]:
            compiling = sys.modules.get("aucpr_dask.kernels.compiling")
            return [kernel.name for kernel in compiling.kernels() if kernel.is_ready] if compiling else []

        return list(client.run(ready).values())

    needed = [
        "areas.finish_common_rows",
        "classes.groups_in_order_float64_float64",
        "classes.split_rows_float64_int8",
    ]

    with ap.connect(1) as client:
        assert compiled(client) == [[]]
        client.run(exec, "from aucpr_dask.kernels import dispatch; dispatch.MOST_BY_NUMPY = 0")
        client.submit(ap.estimate, [0.9, 0.8, 0.7], [1, 0, 1], pure=False).result()
        assert compiled(client) == [needed]
    assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == needed
    with ap.connect(written(tmp_path, **LOCAL, n_workers=1)) as client:
        assert compiled(client) == [needed]
        assert client.run(preparing.load_kernels) == dict.fromkeys(client.nthreads(), needed)


@pytest.mark.slow
def test_a_worker_imports_the_package_early_in_the_thread_that_unpickles_tasks() -> None:
    def watch() -> int:
        class Watch:
            def find_spec(self, name: str, *_: object) -> None:
                if name.split(".")[0] in ("xarray", "zarr", "numcodecs"):
                    threads.setdefault(threading.get_ident(), name)

        threads = sys.threads_that_import = {}  # type: ignore[attr-defined]
        sys.meta_path.insert(0, Watch())  # type: ignore[arg-type]
        return threading.get_ident()

    def threads_that_import() -> dict[int, str] | None:
        return sys.threads_that_import if "aucpr_dask.runs.tasks" in sys.modules else None  # type: ignore[attr-defined]

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        [unpickling] = client.run(watch).values()
        preparing.prepare_workers(client)
        until(lambda: None not in client.run(threads_that_import).values(), "nothing was imported")
        [threads] = client.run(threads_that_import).values()
        assert threads == {unpickling: threads[unpickling]}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks of signals here")
def test_local_workers_ignore_ctrl_c() -> None:
    """In a new process, in which no other helper of multiprocessing has started yet."""
    code = """
import signal
import aucpr_dask as ap

def blocked():
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())

if __name__ == "__main__":
    with ap.connect(2) as client:
        print(*client.run(blocked).values(), blocked())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True", "False"], done.stderr


DOOM = """
import os
from pathlib import Path

deaths = Path("{folder}") / "deaths"
if left := deaths.read_text():
    deaths.write_text(left[1:])
    {end}
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(7)"])
def test_processes_that_end_before_they_have_registered_are_named(tmp_path: Path, end: str) -> None:
    (tmp_path / "doom.py").write_text(DOOM.format(end=end, folder=tmp_path))
    (tmp_path / "deaths").write_text(".....")
    with (
        dask.config.set({"distributed.worker.preload": [str(tmp_path / "doom.py")]}),
        pytest.raises(ClusterError, match=r"(?s)LocalCluster could not be started.*__main__"),
        ap.connect(1),
    ):
        pass


def test_code_for_a_given_processor_is_found_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite import binding

    from aucpr_dask.storage import code_cache

    def digest_on(processor: str) -> str:
        monkeypatch.setattr(binding, "get_host_cpu_name", lambda: processor)
        return code_cache.digest.__wrapped__("areas")  # not the one found before

    assert digest_on("znver3") != digest_on("skylake")
    monkeypatch.setenv("NUMBA_CPU_NAME", "x86-64-v3")
    assert digest_on("znver3") != digest_on("skylake")  # its features still count
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "")
    assert digest_on("znver3") == digest_on("skylake")


# Clusters that are really used


def assert_runs(source: xr.Dataset, folder: Path, cluster: Any) -> None:
    ap.save_scores(source, folder / "scores.zarr")
    result = ap.run(folder / "scores.zarr", folder / "result.zarr", workers=cluster)
    np.testing.assert_array_equal(result["estimate"].values, ap.evaluate(source)["estimate"].values)


@pytest.mark.slow
def test_local_processes_described(tmp_path: Path) -> None:
    path = written(tmp_path, **LOCAL, n_workers=1, memory_limit="700MB")
    with ap.connect(str(path)) as client:
        (worker,) = client.scheduler_info(n_workers=-1)["workers"].values()
        assert (worker["nthreads"], worker["memory_limit"]) == (1, 700_000_000)
        assert_runs(pooled(), tmp_path, client)
    assert client.status == "closed"


def test_an_address_described(running: LocalCluster, tmp_path: Path) -> None:
    path = written(tmp_path, **{"class": "distributed.Client"}, address=running.scheduler_address)
    assert_runs(pooled(), tmp_path, path)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def ssh_server(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """An SSH server of the operating system for this one test; yields how to connect to it."""
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if server is None or not shutil.which("ssh-keygen") or os.getuid() != 0:
        pytest.skip("needs an SSH server, and the right to start it")
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    port = free_port()
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {(tmp_path / 'host.pub').read_text()}")
    options = {"Port": port, "ListenAddress": "127.0.0.1", "HostKey": tmp_path / "host", "PidFile": "none"}
    options |= {"AuthorizedKeysFile": tmp_path / "authorized", "StrictModes": "no"}
    options |= {"PermitRootLogin": "prohibit-password", "PasswordAuthentication": "no"}
    (tmp_path / "sshd_config").touch()
    command = [server, "-D", "-e", "-f", tmp_path / "sshd_config"]
    command += [f"-o{name}={value}" for name, value in options.items()]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        keys = {"client_keys": [str(tmp_path / "user")], "known_hosts": str(tmp_path / "known_hosts")}
        yield {"port": port, "username": "root", **keys}
    finally:
        process.terminate()
        process.wait()


@pytest.mark.needs("asyncssh")
def test_ssh(ssh_server: dict[str, Any], tmp_path: Path) -> None:
    options = {
        "hosts": ["127.0.0.1", "127.0.0.1"],
        "connect_options": ssh_server,
        "worker_options": {"n_workers": 2, "nthreads": 1, "memory_limit": "1GB"},
        "scheduler_options": {"dashboard_address": "127.0.0.1:0"},
        "remote_python": sys.executable,
    }
    with ap.connect(written(tmp_path, **{"class": "distributed.SSHCluster"}, **options)) as client:
        client.wait_for_workers(2, timeout=60)
        assert list(client.nthreads().values()) == [1, 1]
        assert_runs(pooled(), tmp_path, client)


# Containers


@pytest.mark.needs("kubernetes_validate", "dask_kubernetes", "jsonschema")
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_keeps_its_schema(path: Path) -> None:
    import kubernetes_validate

    for document in yaml.safe_load_all(path.read_text()):
        if "kind" not in document:
            assert path.stem.endswith("-values")
        elif document["apiVersion"].startswith("kubernetes.dask.org"):
            check_custom_resource(document)
        else:
            kubernetes_validate.validate(document, "1.31", strict=True)


def check_custom_resource(document: dict[str, Any]) -> None:
    import jsonschema

    folder = (
        resources.files("dask_kubernetes") / "operator" / "deployment" / "helm" / "dask-kubernetes-operator" / "crds"
    )
    definition = yaml.safe_load((folder / f"{document['kind'].lower()}.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    jsonschema.validate(document, schema)
    jsonschema.validate(document["spec"], closed(schema["properties"]["spec"]))


def closed(schema: Any) -> Any:
    """Refuse properties that a schema of Kubernetes does not name: the server would drop them without a word."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    is_object = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    if is_object and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    return schema


@pytest.mark.needs("dask_kubernetes")
def test_the_values_of_the_operator_are_some_of_its_chart() -> None:
    chart = resources.files("dask_kubernetes") / "operator" / "deployment" / "helm" / "dask-kubernetes-operator"
    allowed = yaml.safe_load((chart / "values.yaml").read_text())
    given = yaml.safe_load((FOLDER / "kubernetes" / "operator-values.yaml").read_text())
    assert set(given) <= set(allowed)
    assert set(given["rbac"]) <= set(allowed["rbac"])
    assert type(given["kopfArgs"]) is type(allowed["kopfArgs"])


@pytest.mark.needs("check_jsonschema", "jsonschema")
def test_the_compose_file_keeps_its_schema() -> None:
    import jsonschema

    schemas = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    document = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    schema = json.loads((schemas / "compose-spec.json").read_text())
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"services": {"worker": {"comand": []}}}, schema)


def test_containers_agree_with_each_other() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert re.search(r"^USER 1000$", dockerfile, re.MULTILINE)
    assert dockerfile.index("USER 1000") < dockerfile.index("compile_kernels()") < dockerfile.index("CMD")
    for source in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE):
        assert all((FOLDER.parent / name).exists() for name in source.split())
    kept = (FOLDER / "Dockerfile.dockerignore").read_text()
    copied = {name for line in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE) for name in line.split()}
    assert copied == set(re.findall(r"^!(.+)$", kept, re.MULTILINE))
    images = {
        match
        for path in [*MANIFESTS, *DESCRIPTIONS, FOLDER / "compose.yaml"]
        for match in re.findall(
            r"(?:image:|docker_image:|tag:) .*?(\d+\.[\w.]+)(?: #.*)?$", path.read_text(), re.MULTILINE
        )
    }
    assert images == {ap.__version__}


@pytest.mark.slow
def test_the_dockerfile_is_clean() -> None:
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)
    if hadolint is None:
        pytest.skip("needs hadolint")
    done = subprocess.run([hadolint, "--no-color", FOLDER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# Clusters that are open already


def test_the_current_client_and_clusters_of_dask_are_used(tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "s.zarr")
    notes: list[str] = []

    class Report:
        def __call__(self, *_: object) -> None:
            pass

        def note(self, text: str) -> None:
            notes.append(text)

    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        of_cluster = ap.run(tmp_path / "s.zarr", tmp_path / "a.zarr", workers=cluster)
        assert cluster.status == Status.running
        with Client(cluster) as client:
            of_client = ap.run(tmp_path / "s.zarr", tmp_path / "b.zarr", progress=Report())
            assert "evaluate_tasks" in client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
            assert client.status == "running"
    assert any("on the current Dask client, inproc://" in note for note in notes)
    xr.testing.assert_equal(of_cluster, of_client)


def test_a_client_without_workers_is_given_up(tmp_path: Path) -> None:
    ap.save_scores(pooled(), tmp_path / "s.zarr")
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster, Client(cluster):
        with pytest.raises(ClusterError, match=r"no worker started within 1 s[\s\S]*patience"):
            ap.run(tmp_path / "s.zarr", tmp_path / "a.zarr", patience=1)
        with pytest.raises(InvalidInputError, match="not a length of time"):
            ap.run(tmp_path / "s.zarr", tmp_path / "a.zarr", patience="soon")


@pytest.mark.parametrize(
    ("key", "exception", "is_logged"),
    [
        ("evaluate_task-1", "OSError(28, 'No space left on device')", False),
        ("evaluate_task-1", "UnreachableError('the server')", False),
        ("evaluate_task-1", "TypeError('a mistake')", True),
        ("theirs-1", "OSError(28, 'No space left on device')", True),
    ],
)
def test_a_storage_that_fails_is_reported_once(key: str, exception: str, is_logged: bool) -> None:
    message = f'Compute Failed\nKey: {key}\nException: "{exception}"\n'
    record = logging.LogRecord("distributed.worker", logging.ERROR, __file__, 1, message, None, None)
    assert preparing._is_of_interest(record) == is_logged


@pytest.mark.parametrize(("error", "is_logged"), [(asyncio.CancelledError(), False), (TypeError("a mistake"), True)])
def test_an_interrupt_while_workers_load_kernels_is_not_reported(error: BaseException, is_logged: bool) -> None:
    of_error = (type(error), error, None)
    record = logging.LogRecord("distributed.worker", logging.ERROR, __file__, 1, "", None, of_error)
    assert preparing._is_of_interest(record) == is_logged
