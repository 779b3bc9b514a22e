# %% [markdown]
# # A TREC leaderboard: from run files to ranks
#
# An evaluation campaign ends in a table: systems sorted by a mean over topics. Which of its places would other topics
# give again? This notebook takes run files and judgments as TREC defines them, computes the numbers of trec_eval, and
# then says which systems differ significantly, and which share their places in an honest table.
#
# The data travel with the package: 14 runs on 14 systematic reviews of the CLEF eHealth 2017 task on technologically
# assisted reviews (MIT licence). At the end the same lines go over the 61 runs of the TREC 2019 Deep Learning track,
# whose files may not travel; you need a copy of your own to run that part.

# %%
import itertools
import lzma
import os
import tempfile

import numpy as np
import pandas as pd

import aucpr_dask as ap
from aucpr_dask import demo
from aucpr_dask.scores.importing.trec import import_trec

with demo.data_folder() as data:
    clef = data / "clef-tar-2017-mini"
os.chdir(tempfile.mkdtemp())  # for the stores that are written here
os.environ["TERM"] = "dumb"  # plain text from commands
runs = sorted((clef / "runs").glob("*.xz"))
len(runs), [run.name for run in runs[:3]]

# %% [markdown]
# ## What is in the files
#
# A line of a run is topic, a word nobody reads, document, rank, score, name of the run. A line of the judgments is
# topic, a word nobody reads, document, grade. The score decides, not the rank.

# %%
for file in (runs[0], clef / "qrels.txt.xz"):
    with lzma.open(file, "rt") as lines:
        print(file.name, *(next(lines).rstrip() for _ in range(3)), sep="\n  ")

# %% [markdown]
# ## Import, and look before evaluating
#
# The command line imports many runs at once. `info` then shows what is odd, before it becomes a number.

# %%
# !aucpr-dask import trec {clef}/runs/*.xz clef.zarr --qrels {clef}/qrels.txt.xz

# %%
# !aucpr-dask info clef.zarr

# %% [markdown]
# Reviews with few relevant citations, runs with many tied scores, one list that seems upside down, one that is
# missing. None of that stops an evaluation; all of it is in the result's flags.
#
# ## The numbers of trec_eval
#
# Two conventions matter. A relevant document that was not retrieved counts as missed (`missing="unretrieved"`), and
# tied documents stand in descending order of their names (`ties="trec_eval"`). Both are odd for classifiers, and
# right here: they make the number that everybody else's table has.

# %%
scores = ap.open_scores("clef.zarr")
result = ap.evaluate(scores, missing="unretrieved", ties="trec_eval", interval=[]).compute()
result["estimate"].to_pandas().T.round(2).iloc[:6, :5]

# %% [markdown]
# Rows are reviews here, columns some of the systems. A heat map shows all: reviews differ more than systems do.

# %%
ax = result.aucpr.plot.heatmap()

# %%
spread = result["estimate"]
print(
    f"standard deviation between reviews {spread.mean('model').std().item():.3f}, between systems "
    f"{spread.mean('query').std().item():.3f}"
)

# %% [markdown]
# ## The table everybody prints

# %%
mean = ap.aggregate(result)
print(mean.attrs["design"])
ax = mean.aucpr.plot.forest()

# %% [markdown]
# The intervals are those of the mean over *other reviews like these*. Most overlap, but that is not the question: the
# systems ran on the same reviews, so what counts is the difference *within* each review.
#
# ## Which pairs differ?
#
# `compare` flips the signs of a pair's differences, review by review: if the two systems were equal, each sign would
# be as likely as the other. Romano and Wolf's procedure then adjusts for looking at all 91 pairs.

# %%
comparison = ap.compare(result)
comparison.attrs["design"]


# %%
def significant(comparison):
    """Return how many pairs, and how many neighbours on the leaderboard, differ at 5 %."""
    order = np.argsort(-comparison["estimate"].values)
    pairs = {"all pairs": list(itertools.combinations(order, 2)), "neighbours": list(itertools.pairwise(order))}
    counts = {}
    for name, places in pairs.items():
        rows, columns = np.array(places).T
        p = {kind: comparison[kind].values[rows, columns] for kind in ("p_value", "p_adjusted")}
        counts[name] = {"pairs": len(places), **{kind: int((values <= 0.05).sum()) for kind, values in p.items()}}
    return pd.DataFrame(counts).T


significant(comparison)

# %% [markdown]
# Each pair on its own (`p_value`), more than half seem to differ. All together (`p_adjusted`), which is how people
# read a table, 11 of 91 do, and no system differs from the one below it.
#
# ## Ranks with honest groups
#
# `rank` turns the pairs into a set of ranks for each system, and into groups: systems next to one line at the
# right are neighbours, no two of which differ significantly. Groups overlap, because "no significant difference" is
# not "equal".

# %%
ranking = ap.rank(result)
ax = ranking.aucpr.plot.ranks()

# %%
table = ranking[["rank", "estimate", "probability_best", "first_group", "last_group"]].to_pandas()
sets = ranking["simultaneous_rank_interval"].to_pandas()
table["ranks"] = sets["lower"].astype(str) + " to " + sets["upper"].astype(str)
table.drop(columns="level").sort_values("rank").round(3)

# %%
best = ranking["simultaneous_rank_interval"].sel(ci_bound="lower") == 1
print(f"{int(best.sum())} of {best.size} systems may be the best; groups: {ranking.attrs['n_groups']}")

# %% [markdown]
# This is the table to publish. A low place does not exclude the first: `QUT_pico_es` is last by its mean, but its
# differences from the others vary so much between reviews that none is shown.
#
# `probability_best` is the share of resampled sets of reviews in which the system comes first. Systems that are
# nearly the same, as the two versions of `Waterloo_B`, divide it between them, so it says less than the sets of ranks
# do.
#
# ## What was the sample?
#
# Everything above asks for *other reviews*. With the reviews fixed, and other citations in them, more is known. That
# question needs the pool of citations in common, so the runs are imported in the layout `pooled`. (The influence
# function takes ties as blocks.)

# %%
import_trec(runs, clef / "qrels.txt.xz", "pool.zarr", layout="pooled")
pool = ap.open_scores("pool.zarr").load()
significant(ap.compare(pool, over="items", method="influence", missing="unretrieved"))

# %% [markdown]
# More pairs differ, but it is a claim about these 14 reviews and no others. `attrs["design"]` distinguishes the
# two: print it with the table.
#
# ## Who moves when ties are broken otherwise?
#
# The name of a document should not decide a rank. What if ties are one block?

# %%
block = ap.evaluate(scores, missing="unretrieved", interval=[]).compute()
both = pd.DataFrame(
    {name: of["estimate"].mean("query").to_pandas() for name, of in (("trec_eval", result), ("block", block))}
)
both["difference"] = both["block"] - both["trec_eval"]
both.sort_values("difference", key=abs, ascending=False).head(4).round(4)

# %% [markdown]
# Here it does not: means move by 0.002 at most, and no two systems change places.
#
# ## 61 runs of the TREC 2019 Deep Learning track
#
# The passage ranking task: 37 submitted runs and 24 rerankers that came later, 43 topics, relevant is grade 2 and
# above. The cell reads a folder with `runs/` (one file each) and the judgments `qrels.dl19-passage.txt`, named by
# `AUCPR_TREC_DL_2019`; without it, the cells below show the reviews once more.

# %%
place = os.environ.get("AUCPR_TREC_DL_2019")
if place:
    import_trec(f"{place}/runs", f"{place}/qrels.dl19-passage.txt", "deep.zarr")
    rules = {"missing": "unretrieved", "ties": "trec_eval", "positive_from": 2, "interval": []}
    deep = ap.evaluate(ap.open_scores("deep.zarr"), **rules).compute()
else:
    print("AUCPR_TREC_DL_2019 is not set: these are the reviews again")
    deep = result
print(f"{deep.sizes['model']} runs, {deep.sizes['query']} topics")

# %%
ax = ap.rank(deep).aucpr.plot.ranks(top=30)

# %%
significant(ap.compare(deep))

# %% [markdown]
# With 43 topics, 558 of 1,830 differences are significant, but of 60 between neighbours only the last: that of the run
# at the bottom and the one before it. The leading group holds 25 runs, and the first run's set of ranks reaches from 1
# to 35. [Honest comparisons](../docs/honest-comparisons.md) has the groups in full, and shows how often each method
# errs.
#
# ## How to write it
#
# > Mean average precision over 14 reviews (trec_eval's conventions). Of 91 pairs of systems, 11 differ at a
# > family-wise level of 5 % (sign flips of the differences within reviews, Romano and Wolf's procedure); no two
# > neighbours do. Eleven of the 14 systems may be the best.
