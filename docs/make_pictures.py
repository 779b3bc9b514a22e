"""Draw the pictures of plots.md by the code above them, and that of the coverage of bands from study/bands.csv."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from pages import HERE

from aucpr_dask.view.plots.style import BLACK, COLOURS, PALE, axes_of, put_legend, styled

PAGE, STUDY = HERE / "plots.md", HERE / "study" / "bands.csv"
BLOCK = re.compile(r"```python\n(.*?)```\s*(?:!\[[^\]]*\]\((\S+)\))?", re.DOTALL)
DPI = 200
LEVEL = 95


def blocks() -> Iterator[tuple[str, str | None]]:
    """Yield each block of code of the page, and the picture below it, if any."""
    for code, picture in BLOCK.findall(PAGE.read_text()):
        yield code, picture or None


def draw(folder: Path) -> list[Path]:
    """Run the page's code in its order, and save what each block leaves in `ax`."""
    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "plots"}
    drawn = []
    with chdir(HERE.parent):
        for code, picture in blocks():
            exec(compile(code, str(PAGE), "exec"), names)
            if picture is not None:
                drawn.append(save(names["ax"], folder / picture))
    return drawn


def save(ax: Axes, path: Path) -> Path:
    """Write a picture; the same drawing gives the same bytes."""
    path.parent.mkdir(exist_ok=True)
    ax.figure.savefig(path, dpi=DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close("all")
    return path


@styled
def draw_coverage(study: pd.DataFrame) -> Axes:
    """Draw the coverage of pointwise bands of precision-recall curves at each recall, dashed with ties."""
    ax = axes_of(None)
    error = 100 * (LEVEL / 100 * (1 - LEVEL / 100) / study["n_simulations"].iloc[0]) ** 0.5
    ax.axhspan(LEVEL - 2 * error, LEVEL + 2 * error, color=PALE, linewidth=0)
    ax.axhline(LEVEL, color=BLACK, linewidth=0.8)
    shown = study[(study["kind"] == "precision_recall") & (study["band"] == "pointwise")]
    places = [column for column in study if column[0].isdigit()]
    colours = dict(zip(shown["n_positive"].unique(), COLOURS, strict=False))
    for _, cell in shown.iterrows():
        label = f"{cell['n_positive']:,} positives" + (", ties" if cell["ties"] else "")
        style = {"color": colours[cell["n_positive"]], "linestyle": "--" if cell["ties"] else "-", "label": label}
        ax.plot([float(place) for place in places], 100 * cell[places].astype(float), **style)
    ax.set_xlabel("recall")
    ax.set_ylabel("bands that hold the true precision, %")
    ax.set_xlim(0, 1)
    put_legend(ax)
    return ax


def main() -> None:
    """Draw all pictures."""
    study = pd.read_csv(STUDY)
    drawn = [*draw(HERE), save(draw_coverage(study), HERE / "pictures" / "band-coverage.png")]
    for path in drawn:
        print(f"{path.relative_to(HERE)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
