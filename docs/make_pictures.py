"""Draw the pictures of plots.md by the code above them, and write its table of the coverage of bands.

The table is made from study/bands.csv. ``--study`` simulates again first, which takes about ten minutes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from pages import HERE, table, write_block

import aucpr_dask as ap
from aucpr_dask.view.plots.style import BLACK, COLOURS, PALE, SEQUENCE, axes_of, put_legend, styled

PAGE, STUDY = HERE / "plots.md", HERE / "study" / "bands.csv"
BLOCK = re.compile(r"```python\n(.*?)```\s*(?:!\[[^\]]*\]\((\S+)\))?", re.DOTALL)
DPI = 200
CELLS = ((500, 0.05), (1000, 0.1), (5000, 0.1))
KINDS = {"precision_recall": "recall", "roc": "false_positive_rate"}
LEVEL, N_SIMULATIONS, N_RESAMPLES = 0.95, 1000, 500
GRID = np.linspace(0, 1, 101)
INNER = slice(0.0499, 0.9501)


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


def try_bands() -> pd.DataFrame:
    """Return how often bands contain the true curve of the binormal scenario, at each place and everywhere."""
    scenario = ap.simulate.binormal(mu=1.0)
    rows = []
    for n_items, prevalence in CELLS:
        sample = scenario.sample(n_items, prevalence, n_simulations=N_SIMULATIONS, seed=1).compute()
        # Queries have their own resamples; models would share them.
        score = sample["score"].rename(model="query").expand_dims("model")
        for kind, over in KINDS.items():
            bands = ap.curve_bands(score, sample["label"], kind, grid=GRID, level=LEVEL, n_resamples=N_RESAMPLES)
            truth = scenario.roc(GRID) if kind == "roc" else scenario.curve(GRID, prevalence)
            truth = xr.DataArray(truth, dims=over)
            cell = {"n_items": n_items, "prevalence": prevalence, "kind": kind}
            for band in ("pointwise", "simultaneous"):
                lower, upper = (bands[f"{band}_band"].sel(ci_bound=end).squeeze() for end in ("lower", "upper"))
                holds = (lower <= truth) & (truth <= upper)
                width = (upper - lower).mean("query")
                rows += [
                    cell | {"band": band, "place": place, "coverage": float(share), "width": float(wide)}
                    for place, share, wide in zip(GRID.round(2), holds.mean("query"), width, strict=True)
                ]
                whole = {"place": "everywhere", "coverage": float(holds.all(over).mean()), "width": float(width.mean())}
                rows.append(cell | {"band": band} | whole)
    return pd.DataFrame(rows)


def coverage_table(study: pd.DataFrame) -> str:
    """Return the coverage of every cell as a Markdown table, in percent."""
    rows = []
    for (n_items, prevalence, kind), cell in study.groupby(["n_items", "prevalence", "kind"], sort=False):
        whole = cell[cell["place"] == "everywhere"].set_index("band")
        at = cell[(cell["place"] != "everywhere") & (cell["band"] == "pointwise")]
        inner = at[at["place"].astype(float).between(INNER.start, INNER.stop)]["coverage"]
        shares = (*whole.loc[["simultaneous", "pointwise"], "coverage"], inner.mean(), inner.min())
        cells = [*(f"{100 * share:.1f}" for share in shares), *(f"{w:.2f}" for w in whole["width"])]
        rows.append([f"{n_items:,}", round(n_items * prevalence), kind.replace("_", "-"), *cells])
    coverages = ("simultaneous, everywhere", "pointwise, everywhere", "pointwise, mean of places", "lowest place")
    widths = ("mean width, pointwise", "simultaneous")
    return table(("items", "positives", "curve", *coverages, *widths), rows)


@styled
def draw_coverage(study: pd.DataFrame) -> Axes:
    """Draw the coverage of pointwise bands of precision-recall curves at each recall."""
    ax = axes_of(None)
    ax.axhspan(100 * LEVEL - 1.4, 100 * LEVEL + 1.4, color=PALE, linewidth=0)
    ax.axhline(100 * LEVEL, color=BLACK, linewidth=0.8)
    study = study[(study["kind"] == "precision_recall") & (study["band"] == "pointwise")]
    cells = study[study["place"] != "everywhere"].groupby(["n_items", "prevalence"], sort=False)
    for line, ((n_items, prevalence), cell) in enumerate(cells):
        label = f"{round(n_items * prevalence):,} positives of {n_items:,}"
        style = {"color": COLOURS[line], "linestyle": SEQUENCE[line], "label": label}
        ax.plot(cell["place"].astype(float), 100 * cell["coverage"], **style)
    ax.set_xlabel("recall")
    ax.set_ylabel("bands that hold the true precision, %")
    ax.set_xlim(0, 1)
    put_legend(ax)
    return ax


def main() -> None:
    """Write table and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", action="store_true", help="simulate again")
    if parser.parse_args().study:
        try_bands().to_csv(STUDY, index=False, float_format="%.4g")
    study = pd.read_csv(STUDY)
    write_block(PAGE, "bands", coverage_table(study))
    drawn = [*draw(HERE), save(draw_coverage(study), HERE / "pictures" / "band-coverage.png")]
    for path in drawn:
        print(f"{path.relative_to(HERE)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
