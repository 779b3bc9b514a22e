"""Descriptions of clusters: local processes, the address of a scheduler, a batch system, a cloud.

A small YAML file describes a cluster; the folder ``cluster`` of the repository has a commented one for each kind.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_timedelta
from distributed.security import Security

from aucpr_dask.clusters import starting
from aucpr_dask.errors import ClusterError, InvalidInputError

SUFFIXES = (".yaml", ".yml")
PATIENCE = 600.0  # seconds to wait for the first worker, unless a file says otherwise


@dataclass(frozen=True)
class Kind:
    """A kind of cluster: the class that starts it, and the package to install for that."""

    module: str
    name: str
    needs: str = "distributed"  # a module of the extra
    extra: str | None = None
    scales: bool = True  # to a number of workers; otherwise its hosts determine it
    takes_tls: bool = True  # otherwise it brings its own certificates
    takes_number: bool = True  # of workers as an argument; otherwise it is scaled once it is there

    @property
    def is_batch_system(self) -> bool:
        """Whether workers are jobs of a batch system."""
        return self.needs == "dask_jobqueue"


def _batch_system(name: str) -> Kind:
    return Kind("dask_jobqueue", name, "dask_jobqueue", "jobqueue", takes_number=False)


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
    "ecs": _cloud("aws", "ECSCluster"),
    "fargate": _cloud("aws", "FargateCluster"),
    "gateway": Kind("dask_gateway", "GatewayCluster", "dask_gateway", "gateway", takes_tls=False, takes_number=False),
}


def kind_of(name: str) -> Kind:
    """Return a kind by its name, or that of a class by its full name."""
    module, _, of_class = name.rpartition(".")
    if not module:
        return KINDS[name]
    return Kind(module, of_class, module.partition(".")[0], takes_tls=False, takes_number=False)


TLS_KEYS = ("ca_file", "cert", "key")
ADAPT_KEYS = ("minimum", "maximum", "interval", "wait_count")


@dataclass(frozen=True)
class Description:
    """A cluster as a file describes it."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    adapt: Mapping[str, Any] | None = None
    tls: Mapping[str, str] | None = None
    patience: float = PATIENCE
    where: str | None = None

    def start(self) -> Any:
        """Start the cluster, as an instance of the class of its kind; close it after use.

        Examples
        --------
        >>> with read("cluster/slurm.yaml", workers=0).start() as cluster:  # doctest: +SKIP
        ...     print(cluster.job_script())
        """
        kind = kind_of(self.kind)
        build, arguments = self.class_of_kind(), self.arguments()
        if self.kind == "local":
            return self._scaled(starting.start_processes(**arguments), None)
        try:
            n_workers = None if kind.takes_number else arguments.pop("n_workers", None)
            return self._scaled(build(**arguments), n_workers)
        except Exception as error:  # other packages and systems may raise anything
            what, received = f"the {self.kind} cluster could not be started", f"{type(error).__name__}: {error}"
            raise ClusterError(what, self.where, received) from error

    def _scaled(self, cluster: Any, n_workers: int | None) -> Any:
        """Return a cluster once it is asked for its workers; jobs of a batch system that end are replaced."""
        try:
            if kind_of(self.kind).is_batch_system:
                starting.submit_jobs(
                    cluster, **{"minimum": n_workers or 0, "maximum": n_workers or 0, **(self.adapt or {})}
                )
            elif self.adapt is not None:
                cluster.adapt(**self.adapt)
            elif n_workers is not None:
                cluster.scale(n_workers)
        except Exception:
            cluster.close()
            raise
        return cluster

    def class_of_kind(self) -> Callable[..., Any]:
        """Return the class that starts this kind of cluster."""
        kind = kind_of(self.kind)
        try:
            if find_spec(kind.needs) is None:
                raise ModuleNotFoundError(f"No module named {kind.needs!r}", name=kind.needs)
            found: Callable[..., Any] = getattr(importlib.import_module(kind.module), kind.name)
        except ImportError as error:
            what = f"a {self.kind} cluster needs a package that is not installed here"
            remedy = f'pip install "aucpr-dask[{kind.extra}]"' if kind.extra else f"install what has {kind.needs!r}"
            raise ClusterError(what, self.where, error, None, remedy) from error
        except AttributeError as error:
            raise ClusterError("there is no such class", self.where, error, "class: module.Name") from error
        return found

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for the class of its kind."""
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
        """Return the certificates for every role; connections without encryption are refused."""
        tls = self.tls or {}
        roles = {f"tls_{role}_{part}": tls[part] for role in ("client", "scheduler", "worker") for part in TLS_KEYS[1:]}
        return Security(tls_ca_file=tls["ca_file"], require_encryption=True, **roles)


# Reading a description


def read(path: str | Path, *, workers: int | None = None) -> Description:
    """Read the description of a cluster.

    ``${NAME}`` in a string is replaced by the environment variable; ``$NAME`` is left to the shell of a job.
    Paths of certificates are relative to the file.

    Parameters
    ----------
    path : str or Path
        A YAML file with the keys ``kind`` or ``class``, ``options``, ``workers`` or ``adapt``, ``tls``, ``patience``.
    workers : int, optional
        Replaces the number of workers in the file.

    Returns
    -------
    Description
    """
    where = str(path)
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        allowed = ("kind", "class", "options", "workers", "adapt", "tls", "patience")
        document = _expanded(_mapping(document, "the description of a cluster", where, allowed), where)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInputError("the description of a cluster cannot be read", where, error) from error
    except RecursionError as error:
        what, received = "the description of a cluster cannot be read", "a value that contains itself, by an alias"
        raise InvalidInputError(what, where, received, remedy="write the values out") from error
    kind = document.get("class", document.get("kind"))
    is_class = "class" in document and isinstance(kind, str) and re.fullmatch(r"\w+(\.\w+)+", kind)
    if ("kind" in document and "class" in document) or not (is_class or (isinstance(kind, str) and kind in KINDS)):
        known = f"{', '.join(KINDS)}; or any other class of clusters, class: module.Name"
        raise InvalidInputError("unknown kind of cluster", where=where, received=repr(kind), allowed=known)
    if workers is not None:
        document = {key: value for key, value in document.items() if key != "adapt"} | {"workers": workers}
    _check_scaling(document, kind_of(kind), where)
    return Description(
        kind,
        _mapping(document.get("options") or {}, "options", where),
        document.get("workers"),
        _mapping(document["adapt"], "adapt", where, ADAPT_KEYS) if "adapt" in document else None,
        _read_tls(document["tls"], kind, where) if "tls" in document else None,
        read_patience(document.get("patience", PATIENCE), where),
        where,
    )


def _mapping(value: Any, what: str, where: str, allowed: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return a mapping from names; raise if a key is not allowed."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError(f"{what} should map names to values", where=where, received=repr(value))
    unknown = [key for key in value if allowed is not None and key not in allowed]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise InvalidInputError(f"unknown keys in {what}", where, names, ", ".join(allowed or ()))
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
        what = "the description of a cluster uses an environment variable that is not set"
        remedy = f"export {absent[0]}=...; write $NAME for variables that the shell of a job replaces"
        raise InvalidInputError(what, where, value, remedy=remedy)
    return re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], value)


def _check_scaling(document: Mapping[str, Any], kind: Kind, where: str) -> None:
    """Raise if the number of workers is not a number, is given twice, or does not apply to the kind."""
    keys = [key for key in ("workers", "adapt") if key in document]
    adapt = document.get("adapt")
    adapt = adapt if isinstance(adapt, dict) else {"minimum": adapt}
    counts = [document["workers"]] if "workers" in document else []
    counts += [adapt.get("minimum"), adapt.get("maximum")] if "adapt" in document else []
    if any(type(count) is not int or count < 0 for count in counts) or counts != sorted(counts):
        what, allowed = "the number of workers is not a number", "workers: N, or adapt: {minimum: N, maximum: N}"
    elif len(keys) == 2:
        what, allowed = "the number of workers is given twice", "workers or adapt"
    elif keys and not kind.scales:
        what, allowed = "this kind of cluster does not take a number of workers", "kind, options, tls, patience"
    else:
        return
    received = ", ".join(f"{key}: {document[key]}" for key in keys)
    raise InvalidInputError(what, where=where, received=received, allowed=allowed)


def _read_tls(value: Any, kind: str, where: str) -> dict[str, str]:
    """Return the paths of the certificates; raise if one is missing."""
    if not kind_of(kind).takes_tls:
        able = ", ".join(name for name, other in KINDS.items() if other.takes_tls)
        raise InvalidInputError("this kind of cluster brings its own certificates", where, "tls", able)
    given = _mapping(value, "tls", where, TLS_KEYS)
    paths = {key: Path(where).parent.absolute() / Path(str(name)).expanduser() for key, name in given.items()}
    lacking = [key for key in TLS_KEYS if key not in given or not paths[key].is_file()]
    if lacking:
        received = ", ".join(f"{key}: {paths.get(key)}" for key in lacking)
        raise InvalidInputError("certificates are missing", where, received, "tls: {ca_file, cert, key}")
    return {key: str(path) for key, path in paths.items()}


def read_patience(value: Any, where: str) -> float:
    """Return a length of time in seconds."""
    try:
        return float(parse_timedelta(value))
    except (TypeError, ValueError, KeyError) as error:
        allowed = "12 hours, 30 minutes, 90"
        raise InvalidInputError("not a length of time", where, f"patience: {value}", allowed) from error
