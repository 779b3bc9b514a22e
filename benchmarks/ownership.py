"""What it costs to have a package: ``python -m benchmarks.ownership [--environments DIR] [--page FILE] ...``.

Each package is installed into an environment of its own by pip, as configured here. Measured are what came with it, how
long a new process takes to its first number, the memory it holds then, and the core-seconds of a million scores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from benchmarks.installed import R_PACKAGE, installed
from benchmarks.machine import describe_machine
from benchmarks.marked import fill_mark, text_table

ROOT = Path(__file__).parents[1]
PROCESS = Path(__file__).with_name("ownership_process.py")
MARK = "ownership"
OURS = "aucpr-dask"
OF_THIS_ENVIRONMENT = ("versions", "threads")  # facts that hold in none of the others
EXTRAS = ("parquet", "netcdf", "remote", "icechunk", "plot", "report", "polars", "sklearn")  # without those of clusters
NEEDED_IN_R = """
there <- installed.packages()
needed <- c("ROCR", tools::package_dependencies("ROCR", db = there, recursive = TRUE)$ROCR)
added <- there[rownames(there) %in% needed & is.na(there[, "Priority"]), c("Package", "Version", "LibPath")]
write.table(added, sep = "\\t", quote = FALSE, row.names = FALSE, col.names = FALSE)
"""
CACHE_VARIABLES = ("AUCPR_DASK_CACHE_DIR", "NUMBA_CACHE_DIR")
HEAVIEST = 8  # so many of our dependencies are listed by name
MEBIBYTE = 2**20
JOBS = {
    "ranking": "100 models by 10⁵ items",
    "query": "5 runs by 250 topics by 1000 documents",
    "bootstrap": "10 models by 10⁴ items, 1000 bootstrap replicates",
}
FEW = 3  # rounds of what takes long
AGREE = 1e-6  # numbers of float32 sums


@dataclass(frozen=True)
class Package:
    """What is compared.

    Parameters
    ----------
    name : str
        What the tables call it.
    function : str
        What calls it in ``ownership_process.py``.
    requirements : tuple of str
        What pip is asked for, the package first; or a package of R.
    jobs : tuple of str
        The jobs that it can do; see `JOBS`.
    exact : bool
        Whether its numbers are those of average precision.
    compiles : bool
        Whether it keeps machine code that it compiled in folders that variables name.
    """

    name: str
    function: str
    requirements: tuple[str, ...]
    jobs: tuple[str, ...] = ("ranking",)
    exact: bool = True
    compiles: bool = False

    @property
    def is_for_r(self) -> bool:
        """Whether it is a package of R; then it is not installed anew."""
        return self.requirements[0].startswith(R_PACKAGE)

    def missing(self) -> list[str]:
        """Return what of it is not installed in this environment."""
        return [name for name in self.requirements if not installed(name)]


PACKAGES = (
    Package("aucpr_dask", "aucpr_dask", (OURS,), tuple(JOBS), compiles=True),
    Package("scikit-learn", "scikit_learn", ("scikit-learn",)),
    Package("torchmetrics, torch for CPUs", "torchmetrics", ("torchmetrics", "torch")),
    Package("xgboost-cpu", "xgboost", ("xgboost-cpu",), exact=False),
    Package("keras, torch for CPUs", "keras", ("keras", "torch"), exact=False),
    Package("pytrec_eval-terrier", "pytrec_eval", ("pytrec_eval-terrier",), ("query",)),
    Package("ranx", "ranx", ("ranx",), ("query",), compiles=True),
    Package("ir-measures", "ir_measures", ("ir-measures",), ("query",)),
    Package("confidenceinterval", "confidenceinterval", ("confidenceinterval",), ("bootstrap",)),
    Package("statsmodels (no area)", "statsmodels", ("statsmodels",), (), exact=False),
    Package("ROCR", "rocr", ("R:ROCR",), exact=False),
)


@dataclass
class Inventory:
    """What an installation consists of; sizes in bytes."""

    versions: dict[str, str]
    sizes: dict[str, int]
    total: int
    without_bytecode: int

    @property
    def n_distributions(self) -> int:
        """How many distributions came, the package itself included."""
        return len(self.versions)


@dataclass
class Process:
    """What one process took: seconds, bytes, core-seconds of all of it; of its job, per million scores."""

    number: float
    first: float
    peak: float
    cores: float
    job_number: float = float("nan")
    core_seconds: float = float("nan")
    elapsed: float = float("nan")
    job_peak: float = float("nan")


@dataclass
class Ownership:
    """All that is measured of a package."""

    name: str
    requirement: str
    inventory: Inventory
    install_seconds: float | None
    first: list[Process] = field(default_factory=list)
    never_compiled: list[Process] = field(default_factory=list)
    machine_code: int = 0
    jobs: dict[str, list[Process]] = field(default_factory=dict)
    disagrees: str = ""

    @classmethod
    def of(cls, environment: Environment) -> Ownership:
        """Take the inventory of an environment."""
        package = environment.package
        return cls(package.name, package.requirements[0], environment.inventory(), environment.install_seconds)


class Environment:
    """A place where a package is installed.

    Parameters
    ----------
    package : Package
        What is installed there.
    python : str
        The interpreter; R's where the package is R's.
    scratch : Path, optional
        An empty folder for the machine code that processes keep; without it they keep it where they always do.
    install_seconds : float, optional
        How long the installation took.
    """

    def __init__(
        self, package: Package, python: str, scratch: Path | None = None, install_seconds: float | None = None
    ) -> None:
        self.package, self.python, self.scratch = package, python, scratch
        self.install_seconds = install_seconds

    def inventory(self) -> Inventory:
        """Return what is installed."""
        return inventory_for_r() if self.package.is_for_r else take_inventory(site_packages(self.python))

    def run(self, job: str = "first", *, nothing_compiled: bool = False) -> Process:
        """Start one process and read what it prints; the clock runs until its first number is there."""
        environment = dict(os.environ)
        if self.scratch is not None:
            caches = Path(tempfile.mkdtemp(dir=self.scratch)) if nothing_compiled else self.scratch / "warm"
            environment |= {name: str(caches / name.lower()) for name in CACHE_VARIABLES}
        begun = time.perf_counter()
        process = subprocess.Popen([*self._command(), job], env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        seconds = time.perf_counter() - begun
        rest = process.stdout.read().split()
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{self.package.name}: {job} ended with {process.returncode}")
        return Process(float(first), seconds, float(rest[0]), used.ru_utime + used.ru_stime, *map(float, rest[1:]))

    def machine_code(self) -> int:
        """Return the bytes of machine code that its processes have kept."""
        files = (self.scratch / "warm").rglob("*") if self.scratch is not None else ()
        return sum(path.stat().st_size for path in files if path.is_file())

    def _command(self) -> list[str]:
        if self.package.is_for_r:
            return ["Rscript", str(PROCESS.with_suffix(".R"))]
        return [self.python, "-P", str(PROCESS), self.package.function]


def site_packages(python: str) -> Path:
    """Return the folder into which an interpreter's packages are installed."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())


def take_inventory(folder: Path) -> Inventory:
    """Return what lies in a folder of installed packages, apparent sizes, without and with compiled bytecode."""
    files = [(path, path.lstat().st_size) for path in folder.rglob("*") if path.is_file()]
    versions, sizes = {}, {}
    for one in metadata.distributions(path=[str(folder)]):
        versions[one.name] = one.version
        sizes[one.name] = sum(_size(path) for path in one.files or () if path.suffix != ".pyc")
    without_bytecode = sum(size for path, size in files if path.suffix != ".pyc")
    return Inventory(versions, sizes, sum(size for _, size in files), without_bytecode)


def _size(file: metadata.PackagePath) -> int:
    path = Path(str(file.locate()))
    return path.lstat().st_size if path.is_file() else 0


def inventory_for_r() -> Inventory:
    """Return what ROCR needs beside R and what comes with R, as no interpreter is counted for the others."""
    done = subprocess.run(["Rscript", "--vanilla", "-e", NEEDED_IN_R], check=True, capture_output=True, text=True)
    versions, sizes = {}, {}
    for name, version, library in (line.split("\t") for line in done.stdout.splitlines()):
        versions[name] = version
        files = (Path(library) / name).rglob("*")
        sizes[name] = sum(path.lstat().st_size for path in files if path.is_file())
    return Inventory(versions, sizes, sum(sizes.values()), sum(sizes.values()))


# Installing


def install(package: Package, folder: Path, torch: str) -> float:
    """Install a package into a new environment, and return the seconds that it took once all was downloaded.

    What is there already stays as it is, and so does the time that it took.
    """
    finished = folder / "finished"
    if finished.exists():
        return float(finished.read_text())
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False)
    requirements = [torch if name == "torch" else name for name in package.requirements]
    if requirements[0].startswith(OURS):
        requirements[0] = f"{OURS}{requirements[0].removeprefix(OURS)} @ {_wheel(folder).as_uri()}"
    _pip("--python", _python_in(folder), "install", "--dry-run", *requirements)
    begun = time.perf_counter()
    _pip("--python", _python_in(folder), "install", *requirements)
    seconds = time.perf_counter() - begun
    finished.write_text(str(seconds))
    return seconds


def _wheel(folder: Path) -> Path:
    _pip("wheel", "--no-deps", "--wheel-dir", str(folder / "wheel"), str(ROOT))
    return next((folder / "wheel").glob("*.whl"))


def _pip(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip {' '.join(arguments)}\n{done.stderr[-2000:]}")


def _python_in(folder: Path) -> str:
    return str(folder / "bin" / "python")


# Measuring


def measure(environments: list[Environment], rounds: int, *, small: bool) -> Iterator[Ownership]:
    """Take the inventories, then start processes: in each round one of every package, ours first."""
    found = [Ownership.of(one) for one in environments]
    pairs = list(zip(environments, found, strict=True))
    for environment in environments:
        environment.run()  # not counted: it compiles, and brings files into the operating system's cache
    for done in range(rounds):
        for environment, ownership in pairs:
            ownership.first.append(environment.run())
            if environment.package.compiles and not small and done < FEW:
                ownership.never_compiled.append(environment.run(nothing_compiled=True))
    for job in JOBS:
        for _ in range(min(rounds, FEW)):
            for environment, ownership in pairs:
                if job in environment.package.jobs:
                    done = environment.run(f"{job}:small" if small else job)
                    ownership.jobs.setdefault(job, []).append(done)
    ours = found[0]
    for environment, ownership in pairs:
        ownership.machine_code = environment.machine_code()
        if environment.package.exact:
            ownership.disagrees = _disagreement(ownership, ours)
        yield ownership


def _disagreement(ownership: Ownership, ours: Ownership) -> str:
    """Say which numbers are not ours, if any."""
    pairs = [("first number", ownership.first[0].number, ours.first[0].number)]
    for job, processes in ownership.jobs.items():
        if job in ours.jobs:
            pairs.append((JOBS[job], processes[0].job_number, ours.jobs[job][0].job_number))
    return "; ".join(f"{what} {number}, ours {our}" for what, number, our in pairs if not abs(number - our) <= AGREE)


def extras(python: str) -> dict[str, Inventory]:
    """Return what each extra of ours adds, from an environment that has all of them."""
    folder = site_packages(python)
    everything = take_inventory(folder)
    base = _closure(folder, OURS, "")
    added = {}
    for extra in EXTRAS:
        more = sorted(_closure(folder, OURS, extra) - base)
        sizes = {name: everything.sizes[name] for name in more}
        versions = {name: everything.versions[name] for name in more}
        added[extra] = Inventory(versions, sizes, sum(sizes.values()), sum(sizes.values()))
    return added


def _closure(folder: Path, name: str, extra: str) -> set[str]:
    """Return the distributions in a folder that one of them needs, itself included."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    there = {canonicalize_name(one.name): one for one in metadata.distributions(path=[str(folder)])}
    found: set[tuple[str, str]] = set()
    ahead = [(canonicalize_name(name), ""), (canonicalize_name(name), extra)]
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) in found or name not in there:
            continue
        found.add((name, extra))
        for needed in map(Requirement, there[canonicalize_name(name)].requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                ahead += [(canonicalize_name(needed.name), one) for one in ("", *needed.extras)]
    return {there[canonicalize_name(name)].name for name, _ in found}


# Reporting


def as_markdown(
    found: list[Ownership], of_extras: dict[str, Inventory], machine: dict[str, str], skipped: list[str]
) -> str:
    """Return all tables."""
    ours = found[0]
    jobs = [_job_table(job, found) for job in JOBS if job in ours.jobs]
    parts = [_main_table(found), *jobs, _dependencies(ours.inventory)]
    if of_extras:
        parts.append(_extras_table(of_extras))
    notes = [f"not installed: {', '.join(skipped)}"] if skipped else []
    notes += [f"**{one.name} disagrees**: {one.disagrees}" for one in found if one.disagrees]
    notes.append(f"rounds: {len(ours.first)}")
    notes += [f"{what}: {value}" for what, value in machine.items() if what not in OF_THIS_ENVIRONMENT]
    return "\n\n".join([*parts, "\n".join(f"* {note}" for note in notes)])


def _main_table(found: list[Ownership]) -> str:
    header = [
        "",
        "distributions",
        "installed, MiB",
        "with bytecode",
        "machine code",
        "installation",
        "first number (range)",
        "nothing compiled",
        "core-seconds to it",
        "peak memory, MiB",
    ]
    return text_table(header, map(_row, found))


def _row(one: Ownership) -> list[str]:
    return [
        _with_version(one),
        str(one.inventory.n_distributions),
        _mebibytes(one.inventory.without_bytecode),
        _mebibytes(one.inventory.total),
        _mebibytes(one.machine_code) if one.machine_code else "",
        f"{one.install_seconds:.0f} s" if one.install_seconds is not None else "",
        _spread([process.first for process in one.first]),
        _spread([process.first for process in one.never_compiled]),
        f"{_median(one.first, lambda process: process.cores):.2f}",
        _mebibytes(_median(one.first, lambda process: process.peak)),
    ]


def _with_version(one: Ownership) -> str:
    """Return the name of a package and the version that was measured."""
    versions = {_normalized(name): version for name, version in one.inventory.versions.items()}
    return f"{one.name} {versions.get(_normalized(one.requirement.removeprefix(R_PACKAGE)), '')}".strip()


def _normalized(name: str) -> str:
    return name.replace("_", "-").lower()


def _job_table(job: str, found: list[Ownership]) -> str:
    header = [
        JOBS[job],
        "core-seconds per million scores",
        "relative to ours",
        "elapsed per million scores",
        "peak memory, MiB",
    ]
    having = [(one.name, one.jobs[job]) for one in found if job in one.jobs]
    ours = _median(having[0][1], lambda process: process.core_seconds)
    rows = []
    for name, processes in having:
        cores = _median(processes, lambda process: process.core_seconds)
        rows.append(
            [
                name,
                _digits(cores),
                f"{_digits(cores / ours)} x" if rows else "",
                f"{_digits(_median(processes, lambda process: process.elapsed))} s",
                _mebibytes(_median(processes, lambda process: process.job_peak)),
            ]
        )
    return text_table(header, rows)


def _digits(figure: float) -> str:
    """Return three digits, never as a power of ten."""
    return f"{figure:.3g}" if figure < 999.5 else f"{float(f'{figure:.3g}'):,.0f}"


def _dependencies(inventory: Inventory) -> str:
    by_size = sorted(inventory.sizes.items(), key=lambda pair: -pair[1])
    rows: list[list[str]] = [[name, _mebibytes(size)] for name, size in by_size[:HEAVIEST]]
    rows.append([f"{len(by_size) - HEAVIEST} others", _mebibytes(sum(size for _, size in by_size[HEAVIEST:]))])
    own = next((size for name, size in by_size if name == OURS), 0)
    rows.append(["aucpr_dask itself, of these", _mebibytes(own)])
    return text_table(["what ours brings", "MiB"], rows)


def _extras_table(of_extras: dict[str, Inventory]) -> str:
    rows = [[f"`[{name}]`", str(one.n_distributions), _mebibytes(one.total)] for name, one in of_extras.items()]
    return text_table(["extra", "more distributions", "more MiB"], rows)


def _median(processes: list[Process], figure: Callable[[Process], float]) -> float:
    return statistics.median(map(figure, processes))


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return ""
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


def _mebibytes(size: float) -> str:
    return f"{size / MEBIBYTE:.3g}" if size < 1000 * MEBIBYTE else f"{size / MEBIBYTE:.0f}"


def as_json(found: list[Ownership], of_extras: dict[str, Inventory], machine: dict[str, str], rounds: int) -> str:
    """Return everything, every process of every round included."""
    figures = {
        "machine": machine,
        "rounds": rounds,
        "packages": [dataclasses.asdict(one) for one in found],
        "extras": {name: dataclasses.asdict(one) for name, one in of_extras.items()},
    }
    return json.dumps(figures, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Install, measure, report; the exit status says whether all numbers agreed."""
    options = _parse()
    machine = describe_machine()
    chosen = [one for one in PACKAGES if not options.package or one.function in ("aucpr_dask", *options.package)]
    skipped = [one.name for one in chosen if (options.small or one.is_for_r) and one.missing()]
    chosen = [one for one in chosen if one.name not in skipped]
    with ExitStack() as until_the_end:
        scratch = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="ownership-")))
        environments = [_environment(one, options, scratch) for one in chosen]
        of_extras = _measure_extras(options, scratch) if not options.small and not options.package else {}
        found = list(measure(environments, options.rounds, small=options.small))
    text = as_markdown(found, of_extras, machine, skipped)
    print(text)
    if options.json:
        Path(options.json).write_text(as_json(found, of_extras, machine, options.rounds), encoding="utf-8")
    if options.markdown:
        Path(options.markdown).write_text(text + "\n", encoding="utf-8")
    if options.page:
        fill_mark(Path(options.page), MARK, text)
    return 1 if any(one.disagrees for one in found) else 0


def _environment(package: Package, options: argparse.Namespace, scratch: Path) -> Environment:
    if options.small or package.is_for_r:
        return Environment(package, sys.executable)
    own = scratch / "machine-code" / package.function
    own.mkdir(parents=True)
    folder = _kept(options, scratch) / package.function
    print(f"{package.name}: installing into {folder}", file=sys.stderr, flush=True)
    seconds = install(package, folder, options.torch)
    return Environment(package, _python_in(folder), own, seconds)


def _measure_extras(options: argparse.Namespace, scratch: Path) -> dict[str, Inventory]:
    folder = _kept(options, scratch) / "aucpr_dask_with_extras"
    install(Package("", "", (f"{OURS}[{','.join(EXTRAS)}]",)), folder, options.torch)
    return extras(_python_in(folder))


def _kept(options: argparse.Namespace, scratch: Path) -> Path:
    return Path(options.environments).absolute() if options.environments else scratch / "environments"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ownership", description="What a package costs to have.")
    names = [one.function for one in PACKAGES]
    parser.add_argument("--package", action="append", choices=names, help="a package beside ours; again for more")
    parser.add_argument("--rounds", type=int, default=5, help="first numbers of each package (default 5)")
    parser.add_argument("--small", action="store_true", help="tiny jobs in this environment: nothing is installed")
    parser.add_argument("--environments", metavar="DIR", help="keep the environments here, and use those that are here")
    parser.add_argument("--torch", default="torch", help="what pip is asked for, e.g. torch==2.13.0+cpu")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every process here")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables here")
    parser.add_argument("--page", metavar="FILE", help="put the tables between the markers of this page")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
