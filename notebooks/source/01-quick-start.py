# %% [markdown]
# # Quick start
#
# You have scores of several models on labelled items, and want to know which model ranks best, how sure that is, and
# what the curves look like. This notebook does it on real data that travel with the package: 25 classifiers on a table
# of 768 patients, and 14 systems that screened citations for 14 systematic reviews.
#
# Everything is small here; the same lines work on thousands of models on a cluster.

# %%
import os
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from dask.distributed import Client

import aucpr_dask as ap
from aucpr_dask import demo

N_RESAMPLES = 100 if os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small" else 2000
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## Scores in
#
# `demo.build_scores` imports run files and `.npz` arrays, checks them, and writes one score store. Your own files go
# the same way: `aucpr-dask import table predictions.csv scores.zarr --label y`.

# %%
scores = demo.build_scores(folder / "scores.zarr")
list(scores.children)

# %% [markdown]
# A data set is an `xarray.Dataset`: `score` over (model, item), larger for items that look more positive, and `label`,
# 1 or
# 0. Many data sets are a tree. The arrays are lazy: nothing was read yet but the shapes.
#
# We take the table `29_Pima` (diabetes or not), and of three repetitions of its cross-validation the first.

# %%
pima = scores["29_Pima"].to_dataset().isel(repeat=0)
pima[["score", "label"]]

# %% [markdown]
# In memory, you would write `xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)})`.
#
# ## Evaluate
#
# One call gives each model's average precision, the default estimate of the area under its precision-recall curve, with
# intervals. `.aucpr` shows a result as a table, best first.

# %%
result = pima.aucpr.evaluate(
    interval=["influence_beta", "bootstrap"], n_resamples=N_RESAMPLES, keep_replicates=True
).compute()
result.aucpr

# %% [markdown]
# Below the table stand warnings. Here some models have *heavy ties*: many items share one score, so that much of their
# ranking is left open. *Hard scores* are predicted classes, or constants, where scores should be.

# %%
tied = result.aucpr.flagged("heavy_ties")["heavy_ties"]
", ".join(tied["model"].values[tied])

# %% [markdown]
# The result is an ordinary Dataset, with labels on everything and its own history in `attrs`: selection, arithmetic,
# pandas and netCDF are xarray's.

# %%
best = result.sortby("estimate", ascending=False).isel(model=slice(3))
best["interval"].to_dataframe()["interval"].unstack("ci_bound").round(3)

# %%
result.to_netcdf(folder / "result.nc")
xr.open_dataset(folder / "result.nc").attrs["resampled"]

# %% [markdown]
# ## Look
#
# Plots are methods of `.aucpr.plot`. A forest plot shows the best models with their intervals. A random ranking tends
# to the prevalence, 0.35 here, far to the left of the picture.

# %%
ax = result.aucpr.plot.forest(top=12)

# %% [markdown]
# Precision-recall curves belong to the scores. The best three are drawn by name, the others as the bands that hold half
# of them and 90 % of them. No ranking reaches the hatched region.

# %%
ax = pima.aucpr.plot.precision_recall()

# %% [markdown]
# The three curves cross and run close together. How much of that would another 768 patients show again? A band says. In
# 95 % of samples, the inner one holds the true precision at any one recall, the outer one the whole true curve.

# %%
ax = pima.aucpr.plot.precision_recall("svm_lin_C0.1", bands="both", n_resamples=N_RESAMPLES)

# %% [markdown]
# ## Which differences are real?
#
# Overlapping intervals do not answer that: the models were scored on the same patients, so their errors go together.
# `compare` looks at each *difference*, resample by resample, and adjusts for testing 24 of them. Compare the first five
# rows with the forest plot: models that are nearly alike differ much less than either of them is uncertain.

# %%
comparison = result.aucpr.compare(baseline="svm_lin_C0.1")
ax = comparison.aucpr.plot.differences(top=12)

# %%
p = comparison["p_adjusted"].drop_sel(model="svm_lin_C0.1")
print(f"{int((p > 0.05).sum())} of {p.size} models do not differ significantly from the best at 5 %:")
", ".join(str(name) for name in p["model"].values[p.values > 0.05])

# %% [markdown]
# That baseline was picked because it came first on these very patients, which the 24 tests do not know. `rank` looks at
# all pairs and needs no baseline: "rank 1 of 25" becomes the set of ranks that the data allow. Models next to one
# line at the right are statistically indistinguishable.

# %%
ranking = result.aucpr.rank()
ax = ranking.aucpr.plot.ranks(top=12)

# %% [markdown]
# ## Many queries
#
# A search engine is judged on many queries. Then `score` has a dimension `query`, each query gets its own area, and the
# queries are the sample: another 14 reviews would give other means. A review that a system did not return counts as
# missed, which is `missing="unretrieved"`.

# %%
reviews = scores["clef-tar"].to_dataset().aucpr.evaluate(missing="unretrieved").compute()
reviews.aucpr

# %%
mean = reviews.aucpr.aggregate()
print(mean.attrs["design"])
ax = mean.aucpr.plot.forest()

# %%
ranking = reviews.aucpr.rank()
ax = ranking.aucpr.plot.ranks()

# %% [markdown]
# 14 reviews say little. The first system may truly rank anywhere from 1 to 8, or, if the sets of all systems are to
# hold together, from 1 to 12.
#
# ## Arrays of any dimensions
#
# A forecast has a value for every day and every cell of a map. `dim=` names what is ranked together; every other
# dimension is kept. Two simulated models forecast storms one, three and ten days ahead. Ranked over the days, each cell
# of the map has an area of its own.

# %%
random = np.random.default_rng(1)
days, cells = np.arange("2024-01", "2024-07", dtype="datetime64[D]"), {"lat": [40, 50, 60], "lon": [0, 5, 10, 15]}
storm = xr.DataArray(random.random((days.size, 3, 4)) < 0.15, {"time": days, **cells})
skill = xr.DataArray([[1.6, 1.0, 0.4], [1.6, 1.5, 1.2]], {"model": ["persistence", "network"], "lead_time": [1, 3, 10]})
forecast = skill * storm + random.normal(size=(2, 3, days.size, 3, 4))

maps = ap.evaluate(forecast, storm, dim="time")
grid = maps["estimate"].sel(lead_time=3).plot(col="model", vmin=0, vmax=1)

# %% [markdown]
# Ranked over days and cells together, there is one area for each lead time. Cells of one day depend on each other, so
# days are clusters; cells in the north are smaller, so they weigh less. The three comparisons are one family.

# %%
comparison = ap.compare(
    forecast,
    storm,
    baseline="persistence",
    dim=("time", "lat", "lon"),
    clusters=storm["time"].dt.dayofyear,
    weight=np.cos(np.deg2rad(storm["lat"])),
)
print(comparison.attrs["summary"])

# %% [markdown]
# ## At scale
#
# `evaluate` above worked in this process. `run` goes from store to store on a cluster: a few processes on this machine
# by default, or Slurm, Kubernetes, a cloud. It plans its memory before the first task, and if it is interrupted, the
# same call resumes it: `ap.run("scores.zarr", "result.zarr")`. Here, so that nothing has to start, its worker is a
# thread of this notebook. The numbers are bit-for-bit identical.

# %%
with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    stored = ap.run(folder / "scores.zarr", folder / "run.zarr", workers=client, progress=False)
again = stored["29_Pima"]["estimate"].isel(repeat=0)
print("the same to the last bit:", (again.values == result["estimate"].values).all())

# %% [markdown]
# ## Where next
#
# * `aucpr-dask report run.zarr report.html`: the whole result as one page to search and sort.
# * How much do curves and areas vary, and which estimator, which interval? [02](02-bias-coverage-width.ipynb).
# * Why do ROC and precision-recall areas disagree? [03](03-davis-goadrich.ipynb).
