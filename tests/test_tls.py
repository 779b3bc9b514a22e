"""An encrypted connection to the scheduler, with certificates made for the test."""

import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import pooled
from distributed import rpc
from distributed.security import Security

import aucpr_dask as ap

pytestmark = pytest.mark.needs("trustme")

PARTS = {"ca_file": "ca.pem", "cert": "node.pem", "key": "node.key"}


def certify(folder: Path) -> None:
    """Write the certificate and key of a node, and of who vouches for it."""
    import trustme

    folder.mkdir()
    authority = trustme.CA()
    node = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    node.private_key_pem.write_to_path(folder / "node.key")
    for part in node.cert_chain_pems:
        part.write_to_path(folder / "node.pem", append=True)


def certificates(folder: Path) -> dict[str, str]:
    """Return the arguments of Dask's `Security` for every role."""
    roles = ("client", "scheduler", "worker")
    own = {f"tls_{role}_{part}": str(folder / PARTS[part]) for role in roles for part in ("cert", "key")}
    return {"tls_ca_file": str(folder / PARTS["ca_file"])} | own


def described(folder: Path, tls: dict[str, str] | None, **document: Any) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(document | ({"security": tls} if tls else {})))
    return path


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "house"
    certify(folder)
    return folder


@pytest.fixture(scope="module")
def scheduler(house: Path) -> Iterator[str]:
    """The address of a scheduler with one worker, both started from the command line."""
    file = house / "scheduler.json"
    tls = [f"--tls-{name}={house / part}" for name, part in (("ca-file", "ca.pem"), ("cert", "node.pem"))]
    tls += [f"--tls-key={house / 'node.key'}", f"--scheduler-file={file}", "--host=127.0.0.1", "--protocol=tls"]
    commands = {
        "dask_scheduler": ["--port=0", "--dashboard-address=:0"],
        "dask_worker": ["--nthreads=1", "--no-nanny", "--no-dashboard", f"--local-directory={house}"],
    }
    processes = []
    try:
        for name, options in commands.items():
            command = [sys.executable, "-m", f"distributed.cli.{name}", *options, *tls]
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 60
        while (not file.exists() or not file.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield str(yaml.safe_load(file.read_text())["address"])
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def test_a_run_over_tls_is_bit_identical(scheduler: str, house: Path, tmp_path: Path) -> None:
    assert scheduler.startswith("tls://")
    path = described(house, certificates(house), **{"class": "distributed.Client"}, address=scheduler)
    ap.save_scores(pooled(), tmp_path / "scores.zarr")
    result = ap.run(tmp_path / "scores.zarr", tmp_path / "result.zarr", workers=path)
    expected = ap.evaluate(pooled())
    np.testing.assert_array_equal(result["estimate"].values, expected["estimate"].values)
    np.testing.assert_array_equal(result["interval"].values, expected["interval"].values)


def stranger(name: str, folder: Path) -> Security:
    certify(folder)
    ca_file = str(folder / "ca.pem")
    own = {f"tls_client_{part}": str(folder / name) for part, name in (("cert", "node.pem"), ("key", "node.key"))}
    return {
        "nothing": Security(),
        "an authority, no certificate": Security(tls_ca_file=ca_file, require_encryption=True),
        "a certificate of another authority": Security(tls_ca_file=ca_file, require_encryption=True, **own),
    }[name]


@pytest.mark.sparse
@pytest.mark.parametrize("name", ["nothing", "an authority, no certificate", "a certificate of another authority"])
@pytest.mark.parametrize("protocol", ["tls", "tcp"])
def test_a_stranger_is_refused(scheduler: str, tmp_path: Path, house: Path, name: str, protocol: str) -> None:
    async def call(address: str, security: Security) -> Any:
        async with rpc(address, connection_args=security.get_connection_args("client"), timeout=3) as remote:
            return await remote.identity()

    address = scheduler.replace("tls://", f"{protocol}://")
    with pytest.raises((OSError, TypeError, RuntimeError)):
        asyncio.run(call(address, stranger(name, tmp_path / "stranger")))
    member = Security(require_encryption=True, **certificates(house))
    assert asyncio.run(call(scheduler, member))["type"] == "Scheduler"  # it serves on, those whom it knows


def test_a_client_that_knows_the_authority_but_has_no_certificate_is_refused(scheduler: str, house: Path) -> None:
    context = ssl.create_default_context(cafile=house / "ca.pem")
    context.check_hostname = False

    async def call() -> Any:
        async with rpc(scheduler, connection_args={"ssl_context": context}, timeout=3) as remote:
            return await remote.identity()

    with pytest.raises(OSError, match="before comm was established") as caught:
        asyncio.run(call())
    assert "SSL" in str(caught.value.__cause__)


def test_connecting_without_certificates_is_refused(scheduler: str) -> None:
    with pytest.raises(TypeError, match="ssl_context"), ap.connect(scheduler):
        pass


def test_local_processes_over_tls(house: Path) -> None:
    path = described(
        house, certificates(house), **{"class": "distributed.LocalCluster"}, n_workers=1, protocol="tls://"
    )
    with ap.connect(path) as client:
        assert client.scheduler_info(n_workers=0)["address"].startswith("tls://")
        assert all(address.startswith("tls://") for address in client.nthreads())
        assert client.submit(sum, [1, 2]).result() == 3
