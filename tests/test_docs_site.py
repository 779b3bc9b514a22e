"""The documentation site: it builds without a warning, holds everything public, and answers questions."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import ROOT
from test_cli import COMMANDS

import aucpr_dask as ap
from aucpr_dask import errors, metrics
from aucpr_dask.simulate.scenarios import __all__ as simulations

DOCS = ROOT / "docs"


def pages_of_navigation() -> list[str]:
    text = "\n".join(page.read_text() for page in DOCS.glob("*.md"))
    toctrees = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    lines = [line for toctree in toctrees for line in toctree.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r".*<(.+)>$", r"\1", entry) for entry in entries]


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "python-api.md").read_text()
    listed = re.findall(r"^   (\w[\w.]*)$", page, re.MULTILINE)
    assert len(listed) == len(set(listed))
    expected = {name for name in ap.__all__ if not name.startswith("_")} - {"errors", "metrics", "simulate"}
    assert expected <= set(listed)
    assert {f"simulate.{name}" for name in simulations} <= set(listed)
    assert {f"metrics.{name}" for name in metrics.__all__} <= set(listed)
    assert ".. automodule:: aucpr_dask.errors" in page
    assert all(getattr(errors, name).__doc__ for name in dir(errors) if name.endswith("Error"))


def test_every_page_is_in_the_navigation_once() -> None:
    named = pages_of_navigation()
    assert len(named) == len(set(named))
    assert set(named) == {page.stem for page in DOCS.glob("*.md")} - {"index"}, (
        "add it to a toctree, or remove it from one"
    )


def test_the_contents_fit_a_screen() -> None:
    lines = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
    assert len([line for part in lines for line in part.splitlines() if line and not line.startswith(":")]) <= 20


def test_the_tree_of_folders_is_that_of_the_package_in_the_order_of_imports() -> None:
    from test_traps import LAYERS

    page = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"^  (\w+)(?:/|\.py) ", page.partition("aucpr_dask/\n")[2], re.MULTILINE)
    level = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}
    assert set(shown) == set(level) - {"_version", "__main__"}
    assert sorted(shown, key=level.__getitem__) == shown


def test_readers_see_no_notes_for_authors() -> None:
    for page in DOCS.glob("*.md"):
        assert "by hand" not in page.read_text(), page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason='pip install ".[docs]"')
    folder = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-d", folder / "trees"]
    command = [sys.executable, "-m", "sphinx", *options, DOCS, folder / "site"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert {one.name for one in folder.iterdir()} == {"site", "trees"}
    assert not (DOCS / "generated").exists()
    return folder / "site"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site: Path) -> None:
    for page in ("index", "tutorial", "clusters", "generated/aucpr_dask.evaluate", "command-line"):
        assert (site / f"{page}.html").exists()
    assert "From a laptop to a cluster" in (site / "clusters.html").read_text()
    commands = (site / "command-line.html").read_text()
    ids = ["-".join(["aucpr-dask", *name.split()]) for name in COMMANDS]
    assert [name for name in ids if f'id="{name}"' not in commands] == []
    assert "--keep-replicates" in commands
    assert_nothing_is_fetched(site)


def assert_nothing_is_fetched(site: Path) -> None:
    """Only links lead elsewhere; a browser loads only files of the site."""
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)|<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)'
    )
    found = {page.name: match for page in site.rglob("*.html") if (match := loaded.search(page.read_text()))}
    assert found == {}


# What people type, and the pages, or sections of pages, that answer
QUESTIONS = {
    "MAP": "how-do-i retrieval",
    "mean average precision": "how-do-i retrieval",
    "BEIR": "how-do-i retrieval",
    "MS MARCO": "how-do-i retrieval",
    "trec_eval": "how-do-i coming-from retrieval",
    "nDCG": "how-do-i values",
    "precision at k": "how-do-i values",
    "recall at k": "how-do-i values",
    "slices": "how-do-i groups",
    "subgroups": "how-do-i groups",
    "fairness": "how-do-i groups",
    "group by": "how-do-i groups",
    "threshold": "how-do-i",
    "best threshold": "how-do-i",
    "threshold for 90% recall": "how-do-i",
    "f1 score": "how-do-i",
    "operating point": "how-do-i",
    "error bars": "how-do-i choosing",
    "confidence interval": "how-do-i choosing",
    "standard error": "how-do-i choosing",
    "bootstrap": "how-it-works choosing estimators",
    "auc pr": "how-do-i index choosing",
    "auprc": "how-do-i index choosing",
    "pr auc": "how-do-i",
    "partial auc": "how-do-i",
    "AUPRG": "how-do-i",
    "roc auc": "how-do-i",
    "prevalence": "how-do-i choosing",
    "imbalanced": "choosing index",
    "class imbalance": "choosing",
    "baseline": "how-do-i honest-comparisons",
    "random baseline": "choosing how-do-i",
    "better than chance": "choosing",
    "nan": "how-do-i your-scores",
    "missing scores": "how-do-i choosing your-scores",
    "ties": "why-tools-disagree choosing",
    "multi-class": "how-do-i your-scores",
    "multi-label": "how-do-i your-scores",
    "macro average": "how-do-i your-scores",
    "weights": "how-do-i your-scores",
    "patients": "how-do-i",
    "compare two models": "how-do-i",
    "p-value": "how-do-i honest-comparisons",
    "significance test": "how-do-i honest-comparisons",
    "multiple testing": "how-do-i",
    "wilcoxon": "honest-comparisons learners coming-from",
    "friedman test": "how-do-i coming-from learners",
    "critical difference diagram": "how-do-i coming-from learners",
    "cross-validation": "how-do-i cross-validation",
    "many data sets": "how-do-i learners",
    "leaderboard": "leaderboards",
    "sample size": "how-do-i gate",
    "power analysis": "how-do-i gate",
    "llm judge": "how-do-i judgments",
    "out of memory": "how-do-i runs items-in-chunks",
    "larger than memory": "how-do-i items-in-chunks",
    "training loop": "how-do-i items-in-chunks interplay",
    "streaming": "how-do-i items-in-chunks",
    "pytorch": "interplay",
    "torchmetrics": "interplay coming-from",
    "huggingface": "how-do-i interplay",
    "pandas": "how-do-i interplay",
    "polars": "how-do-i interplay",
    "csv": "how-do-i interplay your-scores",
    "excel": "how-do-i interplay",
    "latex": "interplay retrieval how-do-i",
    "scikit-learn": "coming-from interplay",
    "average_precision_score": "coming-from generated/aucpr_dask.metrics.average_precision_score",
    "sklearn": "coming-from",
    "autorank": "coming-from",
    "ranx": "coming-from",
    "tfma": "coming-from",
    "prroc": "coming-from",
    "slurm": "how-do-i clusters",
    "kubernetes": "how-do-i clusters",
    "aws": "how-do-i clusters runs",
    "s3": "how-do-i runs",
    "azure": "runs clusters",
    "resume": "how-do-i runs",
    "add a model": "how-do-i runs",
    "exit codes": "how-do-i faults",
    "reproducibility": "how-it-works",
    "ci job": "gate",
    "non-inferiority": "gate",
    "install": "tutorial index python-api",
    "license": "index python-api",
    "version": "python-api changelog",
    "security": "security",
    "deprecation": "python-api",
    "precision-recall curve": "plots coming-from how-do-i generated/aucpr_dask.metrics.precision_recall_curve",
    "plot": "plots",
    "color blind": "plots",
    "percent": "how-do-i",
    "wrong class": "how-do-i",
    "effect size": "how-do-i",
    "heatmap": "plots",
    "install on Windows": "how-do-i#install-on-linux-macos-or-windows",
    "macOS": "how-do-i#install-on-linux-macos-or-windows",
    "conda": "how-do-i#install-on-linux-macos-or-windows",
    "uninstall": "how-do-i#uninstall-or-delete-the-cache-of-compiled-kernels",
    "delete cache": "how-do-i#uninstall-or-delete-the-cache-of-compiled-kernels",
    "how to cite": "how-do-i#cite-the-package",
    "citation": "how-do-i#cite-the-package",
    "bootstrap confidence interval of average precision": "how-do-i#get-error-bars-or-a-confidence-interval",
    "F1": "how-do-i#get-precision-at-k-ndcg-accuracy-or-any-other-measure",
    "sample weights": "how-do-i#weight-items",
    "multiclass": "how-do-i#evaluate-several-classes-or-several-labels-of-each-item",
    "early stopping": "how-do-i#add-up-batches-in-a-training-or-scoring-loop",
    "memory error": "how-do-i#evaluate-a-ranking-that-does-not-fit-in-memory",
    "hypothesis test": "how-do-i#tell-which-of-two-models-is-better",
    "bonferroni": "how-do-i#compare-all-models-with-a-baseline-or-rank-them",
    "prevalence shift": "how-do-i#get-a-partial-area-or-the-area-at-another-prevalence",
    "progress bar": "how-do-i#see-why-a-run-is-slow-or-stuck",
    "GPU": "how-do-i#do-what-this-package-does-not-do",
    "CUDA": "how-do-i#do-what-this-package-does-not-do",
    "R": "coming-from#prroc-precrec-and-raucpr",
    "ROC": "how-do-i#get-the-roc-area-or-the-precision-recall-gain-area-auprg",
    "TREC": "how-do-i#reproduce-trec-eval-s-map retrieval",
    "notebook": "notebooks interplay#notebook-and-terminal",
    "Jupyter": "interplay#notebook-and-terminal",
    "leaderboards": "leaderboards#from-a-table-to-a-sentence",
    "mypy": "python-api#on-datasets-and-datatrees",
    "type hints": "python-api#on-datasets-and-datatrees",
    "weather forecast": "xarray#scores-of-any-dimensions",
    "time series": "xarray#scores-of-any-dimensions",
    "fraud": "index",
    "anomaly detection": "index",
    "recommender": "retrieval",
    "object storage": "runs#object-storage",
    "docker": "how-do-i#use-slurm-kubernetes-a-cloud-s3-or-my-own-dask-client",
    "permutation test": "choosing#is-it-better-than-chance",
    "soft labels": "how-do-i#weight-items",
    "balanced accuracy": "how-do-i",
    "MCC": "how-do-i",
    "prior shift": "how-do-i#get-a-partial-area-or-the-area-at-another-prevalence",
    "DeLong test": "how-do-i#tell-which-of-two-models-is-better",
    "subgroup disparity": "how-do-i#tell-whether-a-model-is-worse-in-one-group-than-in-another",
    "save a figure": "how-do-i#draw-curves-intervals-or-ranks",
    "cluster bootstrap": "how-do-i#evaluate-items-that-depend-on-each-other",
    "ensemble member": "xarray#scores-of-any-dimensions",
    "lead time": "xarray#scores-of-any-dimensions",
    "latitude weights": "xarray#scores-of-any-dimensions",
    "different from scikit-learn": "why-tools-disagree",
    "random seed": "how-it-works",
    "corrupted store": "faults#damage-at-rest",
    "verify data": "faults#damage-at-rest",
    "checksum": "faults#damage-at-rest",
    "confidence band": "plots#confidence-bands",
    "percent scores": "how-do-i#use-scores-in-percent-or-of-the-wrong-class",
    "probabilities of the wrong class": "how-do-i#use-scores-in-percent-or-of-the-wrong-class",
    "colour blind": "plots",
    "rank models": "how-do-i#compare-all-models-with-a-baseline-or-rank-them",
    "parquet": "interplay#data-frames-and-files-out",
    "zarr v2": "how-do-i#open-a-zarr-store-that-another-program-wrote",
    "netcdf": "how-do-i#open-a-zarr-store-that-another-program-wrote",
    "memory limit": "how-do-i#see-why-a-run-is-slow-or-stuck",
    "calibration": "how-do-i#do-what-this-package-does-not-do",
    "unjudged documents": "your-scores#options-that-change-the-numbers glossary",
    "margin": "gate#the-four-verdicts",
    "groupby month": "xarray#scores-of-any-dimensions groups#evaluate-each-group",
    "chance level": "how-do-i#know-what-a-random-ranking-would-get",
    "haldane": "choosing#an-estimate-with-little-bias default-interval",
    "logit interval": "estimators#intervals",
}
SEARCH = """const fs = require("fs"), vm = require("vm"), [site, questions] = process.argv.slice(1);
const page = { getElementById: () => null, addEventListener() {} };
const names = { DOCUMENTATION_OPTIONS: { URL_ROOT: "" }, SPHINX_HIGHLIGHT_ENABLED: false, _: (text) => text };
const context = vm.createContext({ ...names, document: page, _ready() {}, _removeChildren() {} });
context.window = context;
for (const file of ["_static/language_data.js", "_static/searchtools.js", "_static/sections.js", "searchindex.js"]) {
  const text = fs.readFileSync(`${site}/${file}`, "utf8");
  vm.runInContext(text.replace("_removeChildren(document", "void (document"), context);
}
const ask = "(q) => Search._performSearch(...Search._parseQuery(q)).reverse().slice(0, 3).map((r) => r.slice(0, 3))";
const search = vm.runInContext(ask, context);
console.log(JSON.stringify(Object.fromEntries(JSON.parse(questions).map((q) => [q, search(q)]))));
"""


@pytest.mark.slow
def test_questions_find_their_answer_within_three_results(site: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node, which runs the site's search, is not installed")
    command = [node, "-e", SEARCH, str(site), json.dumps(list(QUESTIONS))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    places = {
        q: {*(page for page, _, _ in hits), *(page + anchor for page, _, anchor in hits)} for q, hits in found.items()
    }
    assert {q: found[q] for q, answers in QUESTIONS.items() if not {*answers.split()} & places[q]} == {}
    on_long_page = [title for hits in found.values() for page, title, _ in hits if page == "how-do-i"]
    assert [title for title in on_long_page if " > " not in title] == []  # the section is named
