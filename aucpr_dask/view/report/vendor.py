"""The libraries inside a report: which files of which published packages, and a check that they are those.

``python -m aucpr_dask.view.report.vendor`` fetches the packages with npm and copies the files here; ``--check`` only
compares what is here. The files travel with this package, so neither its user nor a report's reader fetches anything.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True)
class Library:
    """A published package and the files of it that a report holds.

    Parameters
    ----------
    name, version : str
        As npm knows the package.
    licence : str
        Its SPDX identifier.
    address : str
        Where people read about it.
    archive : str
        SHA-256 of the published archive.
    files : tuple of tuple of str
        Path in the archive, name here, SHA-256.
    """

    name: str
    version: str
    licence: str
    address: str
    archive: str
    files: tuple[tuple[str, str, str], ...]


LIBRARIES = (
    Library(
        "@tanstack/table-core",
        "8.21.3",  # the newest line that is published as one file for a page
        "MIT",
        "https://tanstack.com/table",
        "1e5b2f4f04c8c31100ebd0b966fae5eadbb1d11bd45517edb9fc15fbd6a8f2a0",
        (
            (
                "build/umd/index.production.js",
                "table-core.js",
                "a0d1d4531c0c4ae7cdaec01f217c724aa969cacaff7f7d8971c334ac97500379",
            ),
            ("LICENSE", "table-core.LICENSE", "9db3f8ddd7031ab264b99bec49c221155d0c8649b53dd4aa007f2041d36cdf5f"),
        ),
    ),
    Library(
        "uplot",
        "1.6.32",
        "MIT",
        "https://github.com/leeoniya/uPlot",
        "4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d",
        (
            ("dist/uPlot.iife.min.js", "uplot.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
            ("dist/uPlot.min.css", "uplot.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
            ("LICENSE", "uplot.LICENSE", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
        ),
    ),
)


def vendored(name: str) -> str:
    """Return the text of a vendored file."""
    return (files("aucpr_dask.view.report") / "vendored" / name).read_text(encoding="utf-8")


def changed_files() -> list[str]:
    """Return the names of vendored files that are not what their packages hold."""
    listed = [(name, digest) for library in LIBRARIES for _, name, digest in library.files]
    folder = files("aucpr_dask.view.report") / "vendored"
    return [name for name, digest in listed if _sha256((folder / name).read_bytes()) != digest]


def fetch(folder: Path) -> None:
    """Download each package with npm, check its archive and its files, and copy them to `folder`."""
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory() as scratch:
            pinned = f"{library.name}@{library.version}"
            subprocess.run(["npm", "pack", "--silent", pinned], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
            (archive,) = Path(scratch).glob("*.tgz")
            _require(_sha256(archive.read_bytes()), library.archive, pinned)
            with tarfile.open(archive) as members:
                for path, name, digest in library.files:
                    member = members.extractfile(f"package/{path}")
                    content = b"" if member is None else member.read()
                    _require(_sha256(content), digest, f"{pinned}/{path}")
                    (folder / name).write_bytes(content)


def _require(digest: str, expected: str, what: str) -> None:
    if digest != expected:
        raise SystemExit(f"{what} has SHA-256 {digest}, expected {expected}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(words: list[str]) -> int:
    """Fetch the files, or with ``--check`` compare them; return the exit code."""
    if "--check" not in words:
        fetch(Path(__file__).parent / "vendored")
    changed = changed_files()
    print("changed: " + ", ".join(changed) if changed else "all files are those of their packages")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
