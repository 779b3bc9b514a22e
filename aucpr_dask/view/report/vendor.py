"""The libraries inside a report: files of published packages, bundled so that nobody fetches anything.

``python -m aucpr_dask.view.report.vendor`` fetches the packages with npm and copies the files here; ``--check`` only
compares the bundled files with their digests.
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
    """A package published with npm, and the files of it that a report holds: path there, name here, SHA-256."""

    name: str
    version: str
    licence: str  # SPDX identifier
    address: str
    files: tuple[tuple[str, str, str], ...]

    @property
    def licence_text(self) -> str:
        """The text of the licence."""
        return vendored(next(name for _, name, _ in self.files if name.endswith("LICENSE")))


LIBRARIES = (
    Library(
        "@tanstack/table-core",
        "8.21.3",  # the newest line that is published as one file for a page
        "MIT",
        "https://tanstack.com/table",
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
    """Return the names of vendored files that differ from those of their packages."""
    listed = [(name, digest) for library in LIBRARIES for _, name, digest in library.files]
    folder = files("aucpr_dask.view.report") / "vendored"
    return [name for name, digest in listed if _sha256((folder / name).read_bytes()) != digest]


def fetch(folder: Path) -> None:
    """Download each package with npm, check its files, and copy them to `folder`."""
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory() as scratch:
            pinned = f"{library.name}@{library.version}"
            subprocess.run(["npm", "pack", "--silent", pinned], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
            (archive,) = Path(scratch).glob("*.tgz")
            with tarfile.open(archive) as members:
                for path, name, digest in library.files:
                    member = members.extractfile(f"package/{path}")
                    content = b"" if member is None else member.read()
                    if _sha256(content) != digest:
                        raise SystemExit(f"{pinned}/{path} has SHA-256 {_sha256(content)}, expected {digest}")
                    (folder / name).write_bytes(content)


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
