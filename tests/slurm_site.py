"""A Slurm site of one node: munged, slurmctld and slurmd of this machine, as child processes under one folder."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
FOLDERS_OF_DAEMONS = "/usr/local/sbin:/usr/sbin:/sbin"

# The node offers more cores and memory than there may be, so that workers do not wait for each other in the queue.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=01:00:00 State=UP
"""


class SiteError(Exception):
    """The daemons are not here, or do not start."""


def missing_programs() -> list[str]:
    """Return the programs that would have to be installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=_search_path()) is None]


@contextmanager
def slurm_site(folder: Path) -> Iterator[dict[str, str]]:
    """Start the three daemons, yield the environment in which Slurm's commands find them, and end them and all jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("state", "spool"):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    controller_port, node_port = _free_ports(2)
    host = socket.gethostname().split(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder, host=host, user=getpass.getuser(), controller_port=controller_port, node_port=node_port
        )
    )
    (folder / "cgroup.conf").write_text("")  # not those of the machine
    environment = os.environ | {"SLURM_CONF": str(configuration), "PATH": _search_path()}
    with ExitStack() as daemons:
        # Forced: the folders of a test are not as closed as those of a system.
        munged = ["munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}"]
        munged += [f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid"]
        munged += [f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munged.log"]
        daemons.enter_context(_daemon(munged, folder, environment))
        _wait_until(lambda: (folder / "munge.socket").exists(), "munged", folder)
        daemons.enter_context(_daemon(["slurmctld", "-D"], folder, environment))
        daemons.enter_context(_daemon(["slurmd", "-D"], folder, environment))
        _wait_until(lambda: _output(["sinfo", "-h", "-o", "%t"], environment) == "idle", "slurmd", folder)
        try:
            yield environment
        finally:
            _output(["scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}"], environment)
            _output(["scancel", f"--user={getpass.getuser()}"], environment)
            _wait_until(lambda: not jobs(environment), "scancel", folder)


def jobs(environment: dict[str, str]) -> dict[int, str]:
    """Return the state of every job that is waiting or running, by its number."""
    lines = _output(["squeue", "-h", "-o", "%A %T"], environment).splitlines()
    return {int(number): state for number, state in (line.split() for line in lines)}


def cancel(job: int, environment: dict[str, str]) -> None:
    """Take a job away from its owner."""
    subprocess.run(["scancel", str(job)], env=environment, check=True, timeout=30)


def version(environment: dict[str, str]) -> str:
    """Return the version of Slurm, as it names itself."""
    return _output(["sinfo", "--version"], environment)


@contextmanager
def _daemon(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with (
        (folder / f"{command[0]}.out").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until(condition: object, name: str, folder: Path, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            said = {path.name: path.read_text(errors="replace")[-1000:] for path in sorted(folder.glob("*.out"))}
            raise SiteError(f"{name} is not there after {seconds} s: {said}")
        time.sleep(0.1)


def _output(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()


def _search_path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{FOLDERS_OF_DAEMONS}"


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
