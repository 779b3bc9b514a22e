"""Many small groups of items in one table, in memory and from store to store, against the whole as one ranking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import aucpr_dask as ap
from benchmarks.suite import FLOAT32, contender, floor
from benchmarks.suites.rankings import draw_models
from benchmarks.suites.runs import _Runs, read_and_estimate

SAMPLE = 10  # groups, for a loop in Python


class Groups(_Runs):
    """Estimates and the default interval within each group; times are per group, so that equal times are linear."""

    name = "groups"
    title = "Groups of about {n_items} items, each with {n_models} models; time per group"
    explanation = "Estimates and the default interval; items in any order. Floors are of the whole as one array."
    options: Mapping[str, Any] = {"by": "group"}
    params = (100, 1000, 10_000)
    unit = "group"
    n_models, n_items = 50, 300
    small: Mapping[str, Any] = {"params": (12,), "n_models": 3, "n_items": 40}
    case, counted = "{:,} groups", "n_groups"

    def setup(self, n_groups: int) -> None:
        """Draw the scores, and the group of each item."""
        super().setup(n_groups)
        self.n_groups = n_groups
        group = np.random.default_rng(27).permutation(np.arange(n_groups * self.n_items) % n_groups)
        scores = draw_models(self.n_models, group.size, seed=28).assign_coords(group=("item", group))
        self.scores = scores.assign(label=("item", np.random.default_rng(29).binomial(1, 0.2, group.size).astype("i1")))

    def source(self, n_groups: int) -> Path:
        """Return the store of the scores."""
        url = self.folder / "scores.zarr"
        if not url.exists():
            ap.save_scores(self.scores, url)
        return url

    @contender(
        "aucpr_dask",
        'ap.evaluate(scores, by="group")',
        "aucpr-dask",
        numbers=lambda result: result["estimate"].values[:, :SAMPLE],
    )
    def time_ours(self, n_groups: int) -> Any:
        return ap.evaluate(self.scores, by="group")

    @contender("store to store", 'ap.run(scores_url, result_url, by="group", workers=client)', "aucpr-dask")
    def time_run(self, n_groups: int) -> Any:
        return self.run(n_groups, 1)

    @contender(
        f"scikit-learn, loop over {SAMPLE} groups",
        "average_precision_score(label, score) for each group and model, estimates alone",
        "scikit-learn",
        tolerance=FLOAT32,
        share=SAMPLE,
    )
    def time_sklearn(self, n_groups: int) -> Any:
        from sklearn.metrics import average_precision_score

        score, label, group = (self.scores[name].values for name in ("score", "label", "group"))
        items = [np.flatnonzero(group == number) for number in range(SAMPLE)]
        return [[average_precision_score(label[own], scores[own]) for own in items] for scores in score]

    @floor("the whole", "ap.evaluate(scores)", "aucpr-dask")
    def time_whole(self, n_groups: int) -> Any:
        return ap.evaluate(self.scores)

    @floor("the whole, store to store", "ap.run(scores_url, result_url, workers=client)", "aucpr-dask")
    def time_whole_run(self, n_groups: int) -> Any:
        return ap.run(self.source(n_groups), next(self.results), workers=self.client(1))

    @floor("read + bare kernels", "client.map(read_and_estimate, chunks)", "aucpr-dask")
    def time_read_and_kernels(self, n_groups: int) -> Any:
        return self.on_every_chunk(read_and_estimate, n_groups, 1)
