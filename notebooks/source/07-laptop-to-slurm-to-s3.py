# %% [markdown]
# # From a laptop to Slurm to S3
#
# One evaluation, three places. First on this machine, where it is planned, killed in the middle, and finished. Then
# what changes for a Slurm cluster: one file. Then from and to object storage, where new models come in later and only
# these are computed. The numbers have the same bits everywhere.
#
# All of it runs here, but for two stand-ins: S3 is moto's server on this machine, which speaks the same protocol; and
# no job is submitted to Slurm, the script that would be is printed.

# %%
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
import numpy as np
import xarray as xr
import yaml
from moto.server import ThreadedMotoServer

import aucpr_dask as ap
from aucpr_dask.runs.planning import plan_run

SMALL = os.environ.get("AUCPR_NOTEBOOK_SIZE") == "small"
N_MONTHS, N_MODELS, N_ITEMS, N_RESAMPLES = (4, 16, 4_000, 200) if SMALL else (12, 32, 20_000, 2000)
examples = Path("../cluster").resolve()  # the cluster files of the repository
os.chdir(tempfile.mkdtemp())  # for the stores that are written here
os.environ["TERM"] = "dumb"  # plain text from commands

# %% [markdown]
# ## The scores
#
# Simulated: 32 models of growing skill, each of which ranks the items of twelve months. One item in twenty
# is positive. Every month is a data set, all of them are a tree, and the tree is a store.


# %%
def simulate(month, skills):
    """Return the scores of a month; each model has a stream of random numbers of its own."""
    label = np.random.default_rng([month]).random(N_ITEMS) < 0.05
    noise = [np.random.default_rng([month, int(1000 * skill)]).normal(size=N_ITEMS) for skill in skills]
    score = np.float32(np.outer(skills, label) + noise)
    names = [f"skill {skill:.3f}" for skill in skills]
    return xr.Dataset({"score": (("model", "item"), score), "label": ("item", label.astype("int8"))}, {"model": names})


skills = np.linspace(0.5, 2.5, N_MODELS)
scores = xr.DataTree.from_dict({f"month-{month:02d}": simulate(month, skills) for month in range(1, N_MONTHS + 1)})
ap.save_scores(scores, "scores.zarr")

# %% [markdown]
# ## Plan
#
# From the metadata and one trial block: how many tasks, how much memory for each, about how long.

# %%
# !aucpr-dask plan scores.zarr --interval bootstrap --n-resamples {N_RESAMPLES} --memory 4GiB

# %% [markdown]
# A block that would not fit is refused before the first task, with both numbers and what would do:

# %%
try:
    plan_run("scores.zarr", interval="bootstrap", n_resamples=N_RESAMPLES).check_memory(2 * 2**20)
except ap.errors.ChunkError as error:
    print(error)

# %% [markdown]
# ## Here, and killed
#
# We start the run as a process of its own, wait until some tasks are done, and kill it and its workers with
# `SIGKILL`, which leaves no time for any last words: what a batch system does at the end of a walltime, or a power
# cut.

# %%
command = ["aucpr-dask", "evaluate", "scores.zarr", "result.zarr", "--workers", "1"]
options = ["--interval", "bootstrap", "--n-resamples", str(N_RESAMPLES)]
run = subprocess.Popen(command + options, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
while run.poll() is None and len(list(Path("result.zarr/ledger").glob("done/*"))) < N_MONTHS // 4:
    time.sleep(0.01)
os.killpg(run.pid, signal.SIGKILL)
run.communicate()
run.returncode

# %%
print(len(list(Path("result.zarr/ledger").glob("done/*"))), "tasks are recorded as done")
try:
    ap.open_result("result.zarr")
except ap.errors.StoreError as error:
    print(error)

# %% [markdown]
# Half a result is no result: it opens neither here nor in plain xarray.
#
# ## Resumed, on another cluster
#
# The same call resumes the run, also elsewhere. A cluster is a file; this one comes with the repository.

# %%
print((examples / "local.yaml").read_text())

# %% [markdown]
# Copy it, fill it in (two workers do for us), and connect. One connection serves several runs. Workers inherit the
# environment in which they start, so the address and the credentials of the object store, needed further below, are
# set before. Nothing else ever carries them.

# %%
for talkative in ("werkzeug", "distributed"):  # a line for every request; workers that close slowly
    logging.getLogger(talkative).setLevel("ERROR")
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
host, port = server.get_host_and_port()
os.environ |= {
    "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}
here = yaml.safe_load((examples / "local.yaml").read_text()) | {"n_workers": 2}
Path("here.yaml").write_text(yaml.safe_dump(here))
connection = contextlib.ExitStack()  # for a notebook; in a script: with ap.connect("here.yaml") as client: ...
client = connection.enter_context(ap.connect("here.yaml"))

# %%
question = {"interval": "bootstrap", "n_resamples": N_RESAMPLES}
tasks = []
result = ap.run("scores.zarr", "result.zarr", workers=client, on_progress=tasks.append, **question)
print(f"{len(tasks)} of {tasks[-1].tasks_total} tasks were computed now")

# %% [markdown]
# Killed, resumed, by two clusters: is it the result of an undisturbed evaluation, in this process, without any
# cluster?


# %%
def same_bits(first, second):
    """Return whether two results hold the same numbers to the last bit."""
    pairs = [
        (first[month][name], second[month][name]) for month in second.children for name in ("estimate", "interval")
    ]
    return all(one.values.tobytes() == other.values.tobytes() for one, other in pairs)


reference = ap.evaluate(scores, **question)
same_bits(result, reference)

# %% [markdown]
# ## On Slurm
#
# The command stays; the file is another. `cluster/slurm.yaml` explains each choice:

# %%
print((examples / "slurm.yaml").read_text())

# %% [markdown]
# Copy it, name your partition and network, set the account in your environment, and give the file to the same
# command, on storage that all nodes see:
#
# ```bash
# pip install "aucpr-dask[jobqueue]"
# export SLURM_ACCOUNT=ranking
# aucpr-dask evaluate /shared/scores.zarr /shared/result.zarr --workers my-slurm.yaml
# ```
#
# This is the script of a job that it would submit. (The network interface `ib0` is left out, since this machine has
# none.)

# %%
os.environ["SLURM_ACCOUNT"] = "ranking"
slurm = yaml.safe_load((examples / "slurm.yaml").read_text())
own = {"account": "ranking", "scheduler_options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}}
left_out = ("class", "adapt", "patience", "interface")
arguments = {name: value for name, value in (slurm | own).items() if name not in left_out}
try:
    from dask_jobqueue import SLURMCluster

    with SLURMCluster(**arguments) as cluster:
        script = cluster.job_script().replace(cluster.scheduler_address, "tcp://login-node:8786")
except ImportError as error:
    script = str(error)
print(script.replace(sys.executable, "python"))

# %% [markdown]
# Each job is killed at its walltime. Its workers leave some minutes before (`--lifetime`), others take over, a new
# job follows; and if all is lost, the same command resumes the run, as above. `tests/test_slurm.py` tries that
# on a real Slurm of one node.
#
# ## From and to S3
#
# A path may be a URL. The bucket is empty; the scores go there, chunk by chunk.

# %%
boto3.client("s3").create_bucket(Bucket="bucket")
ap.save_scores(ap.open_scores("scores.zarr"), "s3://bucket/scores.zarr")
places = "s3://bucket/scores.zarr", "s3://bucket/result.zarr"
in_bucket = ap.run(*places, workers=client, progress=False, **question)
same_bits(in_bucket, reference)

# %%
objects = boto3.client("s3").list_objects_v2(Bucket="bucket", Prefix="result.zarr/")["Contents"]
print(len(objects), "objects,", sum(item["Size"] for item in objects), "bytes, for example", objects[-1]["Key"])

# %% [markdown]
# ## A month later: two more models, one more month
#
# The same call computes what is new and touches nothing else: no number depends on what else is evaluated, because
# resamples are drawn by the names of data, never by positions.

# %%
more = np.append(skills, [2.55, 2.6])
grown = xr.DataTree.from_dict({f"month-{month:02d}": simulate(month, more) for month in range(1, N_MONTHS + 2)})
ap.save_scores(grown, "s3://bucket/scores.zarr", overwrite=True)
tasks = []
extended = ap.run(*places, workers=client, on_progress=tasks.append, **question)
print(f"{len(tasks)} tasks were computed")
before = xr.DataTree.from_dict(
    {month: extended[month].to_dataset().isel(model=slice(N_MODELS)) for month in scores.children}
)
same_bits(before, reference)

# %% [markdown]
# A block for the two new models of each of the twelve old months, and one for the new month. The numbers that were
# there have not moved. And who leads, over all months?

# %%
ax = extended.aucpr.aggregate(over="dataset").aucpr.plot.forest(top=12)

# %% [markdown]
# Called once more, there is nothing to do, and the result is opened at once. What may change between two calls, and
# what is refused, is in [Runs](../docs/runs.md).

# %%
tasks = []
ap.run(*places, workers=client, on_progress=tasks.append, **question)
len(tasks)

# %%
connection.close()
server.stop()

# %% [markdown]
# ## Where next
#
# * [Clusters](../cluster/README.md): Kubernetes, SSH, clouds, TLS, and costs.
# * [Object storage](../docs/runs.md#object-storage): credentials, servers that fail, and Icechunk, where each
#   finished run is one commit and readers never see a part of one.
