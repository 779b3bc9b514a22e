"""What a contender needs, and which version of it there is: distributions, and R with its packages."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from importlib import metadata

R_PACKAGE = "R:"


def version(package: str) -> str | None:
    """Return the version of a distribution, of ``"R"``, or of an R package such as ``"R:ROCR"``; None without it."""
    if package == "R":
        return _r_versions().get("base")
    if package.startswith(R_PACKAGE):
        return _r_versions().get(package.removeprefix(R_PACKAGE))
    try:
        return metadata.version(package)  # nothing is imported
    except metadata.PackageNotFoundError:
        return None


def installed(package: str) -> bool:
    """Whether there is any version of it."""
    return version(package) is not None


@cache
def _r_versions() -> dict[str, str]:
    """Return the version of every installed R package; nothing without R."""
    if shutil.which("Rscript") is None:
        return {}
    print_versions = 'write.table(installed.packages()[, "Version"], quote = FALSE, col.names = FALSE)'
    done = subprocess.run(["Rscript", "--vanilla", "-e", print_versions], capture_output=True, text=True, check=True)
    return dict(line.split()[:2] for line in done.stdout.splitlines())
