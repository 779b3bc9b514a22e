"""Draw the pictures of plots.md by the code above them."""

from __future__ import annotations

import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from pages import HERE

PAGE = HERE / "plots.md"
BLOCK = re.compile(r"```python\n(.*?)```\s*(?:!\[[^\]]*\]\((\S+)\))?", re.DOTALL)
DPI = 200


def draw(folder: Path) -> list[Path]:
    """Run the page's code in its order, and save what each block leaves in `ax`."""
    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "plots"}
    drawn = []
    with chdir(HERE.parent):
        for code, picture in BLOCK.findall(PAGE.read_text()):
            exec(compile(code, str(PAGE), "exec"), names)
            if picture:
                drawn.append(save(names["ax"], folder / picture))
    return drawn


def save(ax: Axes, path: Path) -> Path:
    """Write a picture; the same drawing gives the same bytes."""
    path.parent.mkdir(exist_ok=True)
    ax.figure.savefig(path, dpi=DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close("all")
    return path


if __name__ == "__main__":
    for path in draw(HERE):
        print(f"{path.relative_to(HERE)}  {path.stat().st_size / 1000:.0f} kB")
