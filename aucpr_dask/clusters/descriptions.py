"""Where the work is done: local processes, a scheduler by its address, a batch system, a cloud.

A cluster is described by a small YAML file; the folder ``cluster`` of the repository has a commented one per kind.
Whatever the cluster is, its workers are prepared in the same way, those that join later, too.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_timedelta
from distributed import Client
from distributed.security import Security

from aucpr_dask.clusters.jobs import submit
from aucpr_dask.clusters.local import start_processes
from aucpr_dask.clusters.workers import _address, prepare_workers
from aucpr_dask.errors import ClusterError, InvalidInputError

SUFFIXES = (".yaml", ".yml")
PATIENCE = 600.0  # seconds to wait for the first worker, unless a file says otherwise


@dataclass(frozen=True)
class Kind:
    """A kind of cluster: the class that starts it, and what has to be installed for that."""

    module: str
    name: str
    needs: str = "distributed"  # the module that is absent where the extra is
    extra: str | None = None
    scales: bool = True  # or else its hosts say how many workers there are
    takes_tls: bool = True  # or else it brings its own


def _batch_system(name: str) -> Kind:
    return Kind("dask_jobqueue", name, "dask_jobqueue", "jobqueue")


def _cloud(provider: str, name: str) -> Kind:
    return Kind(f"dask_cloudprovider.{provider}", name, "dask_cloudprovider", provider, takes_tls=False)


KINDS: Mapping[str, Kind] = {
    "local": Kind("distributed", "LocalCluster"),
    "address": Kind("distributed", "Client", scales=False),
    "ssh": Kind("distributed", "SSHCluster", "asyncssh", "ssh", scales=False),
    "slurm": _batch_system("SLURMCluster"),
    "pbs": _batch_system("PBSCluster"),
    "sge": _batch_system("SGECluster"),
    "lsf": _batch_system("LSFCluster"),
    "htcondor": _batch_system("HTCondorCluster"),
    "kubernetes": Kind("dask_kubernetes.operator", "KubeCluster", "dask_kubernetes", "kubernetes", takes_tls=False),
    "coiled": Kind("coiled", "Cluster", "coiled", "coiled", takes_tls=False),
    "aws": _cloud("aws", "EC2Cluster"),
    "azure": _cloud("azure", "AzureVMCluster"),
    "gcp": _cloud("gcp", "GCPCluster"),
}

TLS_KEYS = ("ca_file", "cert", "key")
ADAPT_KEYS = ("minimum", "maximum", "interval", "wait_count")


@dataclass(frozen=True)
class Description:
    """What a file says about a cluster."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    adapt: Mapping[str, Any] | None = None
    tls: Mapping[str, str] | None = None
    patience: float = PATIENCE
    where: str | None = None

    @contextmanager
    def open(self) -> Iterator[Client]:
        """Yield a client of the cluster once it has a worker; what is started here is closed again."""
        with ExitStack() as stack:
            client = stack.enter_context(self._client(stack))
            prepare_workers(client)
            waiting = client.submit(abs, 0, pure=False)  # for nothing to do, a cluster that adapts starts no worker
            try:
                client.wait_for_workers(1, timeout=self.patience)
            except TimeoutError as error:
                raise ClusterError(
                    f"no worker came within {self.patience:.0f} s",
                    where=self.where or _address(client),
                    remedy="look at the logs of the workers' jobs; where queues are long, raise `patience:`",
                ) from error
            del waiting
            yield client

    def start(self) -> Any:
        """Start the cluster, as an instance of the class of its kind; close it after use.

        Examples
        --------
        >>> with read("cluster/slurm.yaml", workers=0).start() as cluster:  # doctest: +SKIP
        ...     print(cluster.job_script())
        """
        build, arguments = self.constructor(), self.arguments()
        if self.kind == "local":
            cluster = start_processes(**arguments)
        else:
            try:
                cluster = self._start_jobs(build, arguments) if self._is_batch() else build(**arguments)
            except Exception as error:  # whatever a foreign class and a foreign system may raise
                raise ClusterError(
                    f"the {self.kind} cluster could not be started",
                    where=self.where,
                    received=f"{type(error).__name__}: {error}",
                ) from error
        if self.adapt is not None and not self._is_batch():
            cluster.adapt(**self.adapt)
        return cluster

    def _is_batch(self) -> bool:
        return KINDS[self.kind].needs == "dask_jobqueue"

    def _start_jobs(self, build: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Start a scheduler here and submit jobs for its workers; a number of workers is kept, whatever jobs end."""
        n_workers = arguments.pop("n_workers", 0)
        cluster = build(**arguments)
        try:
            submit(cluster, **{"minimum": n_workers, "maximum": n_workers, **(self.adapt or {})})
        except Exception:
            cluster.close()
            raise
        return cluster

    def constructor(self) -> Callable[..., Any]:
        """Return the class that starts this kind of cluster; it may have to be installed."""
        kind = KINDS[self.kind]
        try:
            if find_spec(kind.needs) is None:
                raise ModuleNotFoundError(f"No module named {kind.needs!r}", name=kind.needs)
            constructor: Callable[..., Any] = getattr(importlib.import_module(kind.module), kind.name)
        except ImportError as error:
            raise ClusterError(
                f"a {self.kind} cluster needs a package that is not installed here",
                where=self.where,
                received=str(error),
                remedy=f'pip install "aucpr-dask[{kind.extra}]"',
            ) from error
        return constructor

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of that class."""
        arguments = dict(self.options)
        if self.kind == "local":
            arguments = {"threads_per_worker": 1, "dashboard_address": ":0", "n_workers": CPU_COUNT} | arguments
        if self.workers is not None:
            arguments["n_workers"] = self.workers
        elif self.adapt is not None:
            arguments["n_workers"] = self.adapt["minimum"]
        if self.tls is not None:
            arguments["security"] = self.security()
            if self.kind == "local":
                arguments["protocol"] = "tls://"
        return arguments

    def security(self) -> Security:
        """Return the certificates for every role: an encrypted connection is then the only one there is."""
        tls = self.tls or {}
        roles = {f"tls_{role}_{part}": tls[part] for role in ("client", "scheduler", "worker") for part in TLS_KEYS[1:]}
        return Security(tls_ca_file=tls["ca_file"], require_encryption=True, **roles)

    @contextmanager
    def _client(self, stack: ExitStack) -> Iterator[Client]:
        if self.kind == "address":
            with Client(**self.arguments()) as client:
                yield client
            return
        if self.kind == "ssh" and self.tls is not None:  # hosts inherit the settings, they are given no certificates
            stack.enter_context(dask.config.set(_tls_settings(self.tls)))
        with self.start() as cluster, Client(cluster) as client:
            yield client


def _tls_settings(tls: Mapping[str, str]) -> dict[str, Any]:
    roles = {f"{role}.{part}": tls[part] for role in ("client", "scheduler", "worker") for part in TLS_KEYS[1:]}
    settings = {f"distributed.comm.tls.{name}": value for name, value in {"ca-file": tls["ca_file"], **roles}.items()}
    return settings | {"distributed.comm.default-scheme": "tls", "distributed.comm.require-encryption": True}


# Reading a description


def read(path: str | Path, *, workers: int | None = None) -> Description:
    """Read the description of a cluster.

    ``${NAME}`` in any of its strings is replaced by the environment variable; ``$NAME`` is left to the shell of a job.
    Paths of certificates are relative to the file.

    Parameters
    ----------
    path : str or Path
        A YAML file with the keys ``kind``, ``options``, ``workers`` or ``adapt``, ``tls`` and ``patience``.
    workers : int, optional
        In place of what the file says about the number of workers.

    Returns
    -------
    Description

    Raises
    ------
    InvalidInputError
        If there is no such file, or it says what it cannot say.
    """
    where = str(path)
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInputError(
            "the description of a cluster cannot be read", where=where, received=str(error)
        ) from error
    allowed = ("kind", "options", "workers", "adapt", "tls", "patience")
    document = _expanded(_mapping(document, "the description of a cluster", where, allowed), where)
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInputError("unknown kind of cluster", where=where, received=repr(kind), allowed=", ".join(KINDS))
    if workers is not None:
        document = {key: value for key, value in document.items() if key != "adapt"} | {"workers": workers}
    _check_scaling(document, KINDS[kind], where)
    return Description(
        kind,
        _mapping(document.get("options") or {}, "options", where),
        document.get("workers"),
        _mapping(document["adapt"], "adapt", where, ADAPT_KEYS) if "adapt" in document else None,
        _read_tls(document["tls"], kind, where) if "tls" in document else None,
        _read_patience(document.get("patience", PATIENCE), where),
        where,
    )


def _mapping(value: Any, what: str, where: str, allowed: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return a mapping from names; other keys than those allowed are refused."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError(f"{what} should map names to values", where=where, received=repr(value))
    unknown = [key for key in value if allowed is not None and key not in allowed]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise InvalidInputError(
            f"unknown keys in {what}", where=where, received=names, allowed=", ".join(allowed or ())
        )
    return value


def _expanded(value: Any, where: str) -> Any:
    """Replace ``${NAME}`` by environment variables, everywhere in a document."""
    if isinstance(value, dict):
        return {key: _expanded(item, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, where) for item in value]
    if not isinstance(value, str):
        return value
    absent = [name for name in re.findall(r"\$\{(\w+)\}", value) if name not in os.environ]
    if absent:
        raise InvalidInputError(
            "an environment variable that the description of a cluster names is not set",
            where=where,
            received=value,
            remedy=f"export {absent[0]}=...; what the shell of a job shall replace is written $NAME",
        )
    return re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], value)


def _check_scaling(document: Mapping[str, Any], kind: Kind, where: str) -> None:
    """Refuse a number of workers that is none, that is said twice, or that the kind cannot be told."""
    keys = [key for key in ("workers", "adapt") if key in document]
    adapt = document.get("adapt")
    adapt = adapt if isinstance(adapt, dict) else {"minimum": adapt}
    counts = [document["workers"]] if "workers" in document else []
    counts += [adapt.get("minimum"), adapt.get("maximum")] if "adapt" in document else []
    if any(type(count) is not int or count < 0 for count in counts) or counts != sorted(counts):
        what, allowed = "the number of workers is no number", "workers: N, or adapt: {minimum: N, maximum: N}"
    elif len(keys) == 2:
        what, allowed = "the number of workers is said twice", "workers or adapt"
    elif keys and not kind.scales:
        what, allowed = "the number of workers cannot be said for this kind of cluster", "kind, options, tls, patience"
    else:
        return
    received = ", ".join(f"{key}: {document[key]}" for key in keys)
    raise InvalidInputError(what, where=where, received=received, allowed=allowed)


def _read_tls(value: Any, kind: str, where: str) -> dict[str, str]:
    """Return the paths of the certificates; each of them is there."""
    if not KINDS[kind].takes_tls:
        able = ", ".join(name for name, other in KINDS.items() if other.takes_tls)
        raise InvalidInputError(
            "this kind of cluster brings its own certificates", where=where, received="tls", allowed=able
        )
    given = _mapping(value, "tls", where, TLS_KEYS)
    paths = {key: Path(where).parent.absolute() / Path(str(name)).expanduser() for key, name in given.items()}
    lacking = [key for key in TLS_KEYS if key not in given or not paths[key].is_file()]
    if lacking:
        received = ", ".join(f"{key}: {paths.get(key)}" for key in lacking)
        raise InvalidInputError(
            "certificates are missing", where=where, received=received, allowed="tls: {ca_file, cert, key}"
        )
    return {key: str(path) for key, path in paths.items()}


def _read_patience(value: Any, where: str) -> float:
    try:
        return float(parse_timedelta(value))
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidInputError(
            "no length of time", where=where, received=f"patience: {value}", allowed="12 hours, 30 minutes, 90"
        ) from error


# Starting processes, and what every worker gets
