# %% [markdown]
# # Audit a leaderboard
#
# A leaderboard sorts models by their mean over tasks. Which of its places would another set of tasks give again, how
# large must a difference be before it can be seen at all, and which tasks decide who leads? `ap.audit` answers from
# the table alone.
#
# The first table here is made up, in the shape in which MTEB publishes its own, so that the answers can be compared
# with the truth. Then come one in the shape of SWE-bench, and the real ones that travel with the package.

# %%
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import aucpr_dask as ap
from aucpr_dask import demo

os.chdir(tempfile.mkdtemp())  # for the files that are written here
os.environ["TERM"] = "dumb"  # plain text from commands
small = os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small"

# %% [markdown]
# ## A table of models and tasks
#
# 60 models on 40 tasks, from 0 to 100. Models differ in skill; tasks in how hard they are; and each model suits some
# tasks more than others, which is what makes its place a matter of luck. As in the published tables, there are
# columns that are not tasks: a rank and a mean.

# %%
random = np.random.default_rng(9)
n_models, n_tasks = (30, 20) if small else (60, 40)
skill = random.normal(60, 4, n_models)
hardness = random.normal(0, 12, 2000)  # of all tasks that there could be


def results_on(tasks):
    """Return the values of all models on numbered tasks, always the same."""
    suits = np.stack([np.random.default_rng([9, task]).normal(0, 5, n_models) for task in tasks], axis=1)
    return np.clip(skill[:, None] + hardness[tasks] + suits, 0, 100).round(2)


board = pd.DataFrame(results_on(range(n_tasks)), columns=[f"Task{i:02d}" for i in range(n_tasks)])
board.insert(0, "Rank (Borda)", board.rank(ascending=False).mean(axis=1).rank())
board.insert(1, "Model", [f"org/model-{i:02d}" for i in range(n_models)])
board.insert(2, "Mean (Task)", board.filter(like="Task").mean(axis=1))
board.sort_values("Mean (Task)", ascending=False).iloc[:4, :6].round(1)

# %% [markdown]
# ## The audit

# %%
audit = ap.audit(board)
print(audit)

# %% [markdown]
# The columns `Rank (Borda)` and `Mean (Task)` were not taken for tasks, and the audit says so. Here are the ranks that
# each model may have, all models together with 95 % confidence:

# %%
ax = audit.findings.aucpr.plot.ranks(top=30)

# %% [markdown]
# The world is made up, so the truth is known. Is the true rank of every model in its set?

# %%
true_rank = pd.Series(skill, board["Model"]).rank(ascending=False)
sets = audit.findings["simultaneous_rank_interval"].to_pandas()
inside = (sets["lower"] <= true_rank[sets.index]) & (true_rank[sets.index] <= sets["upper"])
leader = sets.index[0]
print(f"{inside.sum()} of {inside.size} true ranks are in their sets")
print(f"the leader, {leader}, has the true rank {true_rank[leader]:.0f}; the best model is {true_rank.idxmin()}")

# %% [markdown]
# ## The rank on a new task
#
# Who takes the leader for a task of their own wants to know its rank *there*. The audit expects it between two order
# statistics of its ranks on these tasks, for 80 % of new tasks. Here are 500 others:

# %%
new = results_on(range(n_tasks, n_tasks + 500))
ranks_there = pd.DataFrame(new, index=board["Model"]).rank(ascending=False)
expected = audit.findings["new_unit_rank_interval"].to_pandas()
held = ranks_there.ge(expected["lower"], axis=0) & ranks_there.le(expected["upper"], axis=0)
print(f"expected of the leader: rank {expected['lower'].iloc[0]:.0f} to {expected['upper'].iloc[0]:.0f}")
of_leader = ranks_there.loc[leader]
print(f"its ranks on new tasks: median {of_leader.median():.0f}, as expected in {100 * held.loc[leader].mean():.0f} %")
print(f"all models: as expected in {100 * held.mean(axis=None):.0f} %")

# %% [markdown]
# A leader owes its place to these tasks in part, so it may do worse on others than on them; the check in the audit,
# which leaves out each task in turn, shows that without new tasks.
#
# ## Which tasks decide?
#
# Every task counts the same in a mean, but not every task moves it. Let one have a scale on which models differ more,
# ten times as much:

# %%
loud = board.copy()
loud["Task07"] = (10 * (loud["Task07"] - loud["Task07"].mean()) + 500).clip(lower=0)
loud_audit = ap.audit(loud)
shares = loud_audit.findings["share_of_spread"].to_series().sort_values(ascending=False)
print(shares.head(3).map("{:.1%}".format).to_string(header=False))
dict(loud_audit.verdict)["Tasks that decide"]

# %% [markdown]
# ## Empty cells
#
# Some models were never run on some tasks. A mean over the others is a mean over other tasks, and filling in a cell
# makes up a result. So models *or* tasks with gaps are left out: by default what keeps more of the table; and the
# audit says what the other way would give. A model that is left out still has a place on the tasks that it shares
# with the others.

# %%
gaps = board.copy()
for row in random.choice(n_models, 6, replace=False):
    gaps.loc[row, random.choice(gaps.columns[3:], 3, replace=False)] = np.nan
with_gaps = ap.audit(gaps)
print(dict(with_gaps.verdict)["Empty cells"])
with_gaps.findings[["n_units_lacked", "place_on_shared"]].to_pandas()

# %% [markdown]
# ## Resolved or not
#
# In a table as SWE-bench publishes it, a task is an instance, and a value is 1 or 0. There are many of them, which
# helps; ranks on a single one are all ties, which is no help at all.

# %%
instances = 100 if small else 500
chance = random.beta(0.7, 0.9, instances) + np.linspace(0.15, -0.15, 30)[:, None]
resolved = pd.DataFrame((random.random(chance.shape) < chance).astype(int)).add_prefix("repo__")
resolved.insert(0, "model", [f"agent-{i:02d}" for i in range(30)])
swe = ap.audit(resolved, unit_name="instance")
for heading, text in swe.verdict[:4]:
    print(f"{heading}. {text}")

# %% [markdown]
# ## Real ones
#
# 14 systems that screen citations, on 14 systematic reviews (CLEF eHealth 2017): areas that were evaluated here, so
# the result itself is the table.

# %%
demo.build_scores("scores.zarr")
scores = ap.open_scores("scores.zarr")
reviews = ap.evaluate(scores["clef-tar"].to_dataset(), convention="trec_eval", interval=[]).compute()
ap.audit(reviews)

# %% [markdown]
# And 25 classifiers, each fitted three times, on six data sets of ADBench. A model's area is the mean of its
# three. Six are too few: typical models would have to differ by a third of what an area can be at all. A benchmark
# needs tasks before it needs models.

# %%
data_sets = {name: node for name, node in scores.children.items() if name != "clef-tar"}
adbench = ap.evaluate(type(scores).from_dict(data_sets), interval=[]).compute()
for heading, text in ap.audit(adbench, over="dataset").verdict[:4]:
    print(f"{heading}. {text}")

# %% [markdown]
# ## One page
#
# `save` writes all of it as one page without scripts, which can lie next to the leaderboard; `aucpr-dask audit
# leaderboard.csv --output audit.html` does the same.

# %%
board.to_csv("leaderboard.csv", index=False)
# !aucpr-dask audit leaderboard.csv --output audit.html --top 3

# %%
page = Path("audit.html").read_text(encoding="utf-8")
print(f"{len(page) / 1000:.0f} kB, {page.count('<script')} scripts, {page.count('<table')} tables")
re.findall(r"<strong>(.*?)</strong>", page)
