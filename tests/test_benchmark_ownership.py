"""What it costs to have a package, and how scores are best stored: the measurements run, tiny, and count right."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from benchmarks import codecs, ownership, ownership_process  # noqa: E402
from benchmarks.marked import fill_mark, text_table  # noqa: E402
from benchmarks.ownership import Environment, Inventory, Ownership, Package, Process  # noqa: E402


@pytest.fixture(autouse=True)
def importable_everywhere(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)


def package(function: str) -> Package:
    return next(one for one in ownership.PACKAGES if one.function == function)


def here(function: str) -> Environment:
    environment = Environment(package(function), sys.executable)
    if environment.package.missing():
        pytest.skip(f"not installed: {environment.package.missing()}")
    return environment


def measured(name: str, first: float, core_seconds: float, number: float = 0.5) -> Ownership:
    inventory = Inventory({name: "1.0", "numpy": "2.0"}, {name: 2**20, "numpy": 3 * 2**20}, 5 * 2**20, 4 * 2**20)
    process = Process(number, first, 100 * 2**20, first, number, core_seconds, core_seconds / 2, 200 * 2**20)
    return Ownership(name, name, inventory, 7.0, [process], jobs={"ranking": [process]})


# One process


@pytest.mark.slow
def test_a_process_prints_its_first_number_and_the_cost_of_a_job():
    done = here("aucpr_dask").run("query:small")
    assert done.number == pytest.approx((1 + 2 / 3) / 2)
    assert 0.1 < done.first < 100
    assert done.cores > 0.1
    assert 20 * 2**20 < done.peak <= done.job_peak < 2**31
    assert done.core_seconds > 0


@pytest.mark.parametrize("function", ["scikit_learn", "pytrec_eval", "rocr"])
@pytest.mark.slow
def test_peers_run(function):
    environment = here(function)
    job = next(iter(environment.package.jobs), None)
    done = environment.run(f"{job}:small" if job else "first")
    if environment.package.exact:
        assert done.number == pytest.approx((1 + 2 / 3) / 2)
    assert (done.core_seconds > 0) == (job is not None)


def test_peak_memory_is_that_of_the_process_and_not_of_the_one_that_starts_it():
    filled = np.ones(2**29 // 8)
    assert here("pytrec_eval").run().peak < filled.nbytes / 2


def test_a_process_that_fails_is_no_figure(monkeypatch):
    monkeypatch.setattr(ownership, "PROCESS", ROOT / "benchmarks" / "no_such_file.py")
    with pytest.raises(RuntimeError, match="scikit-learn: first ended with 2"):
        Environment(package("scikit_learn"), sys.executable).run()


def test_core_seconds_are_per_million_scores():
    spent = []

    def work() -> None:
        begun = ownership_process._core_seconds()
        while ownership_process._core_seconds() < begun + 0.02:
            pass
        spent.append(ownership_process._core_seconds() - begun)

    core_seconds, elapsed = ownership_process._cost([work], millions=0.5, shortest=0.05)
    assert len(spent) >= 3, "repeated until it is long enough to be told"
    assert core_seconds == pytest.approx(np.mean(spent) / 0.5, rel=0.2)
    assert elapsed > 0.8 * core_seconds


def test_the_scores_of_a_topic_are_distinct():
    score, label = ownership_process.draw("query", small=True)
    assert all(len(np.unique(topic)) == topic.size for topic in score.reshape(-1, score.shape[-1]))
    assert (label.sum(axis=-1) >= 10).all()


# What is installed


def test_inventory_counts_files_and_tells_bytecode_apart(tmp_path):
    for name, size in {"one/a.py": 100, "one/__pycache__/a.pyc": 40, "one-1.0.dist-info/METADATA": 0}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    information = tmp_path / "one-1.0.dist-info"
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
    (information / "RECORD").write_text("one/a.py,,\none/__pycache__/a.pyc,,\none/gone.py,,\n")
    inventory = ownership.take_inventory(tmp_path)
    beside = sum(path.stat().st_size for path in information.iterdir())
    assert (inventory.versions, inventory.sizes) == ({"one": "1.0"}, {"one": 100})
    assert (inventory.without_bytecode, inventory.total) == (100 + beside, 140 + beside)


def test_extras_are_what_they_add_to_the_package(tmp_path):
    def add(name: str, *needs: str) -> None:
        information = tmp_path / f"{name}-1.0.dist-info"
        information.mkdir()
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            "Version: 1.0",
            *(f"Requires-Dist: {need}" for need in needs),
        ]
        (information / "METADATA").write_text("\n".join(lines) + "\n")

    add("aucpr-dask", "base", 'drawing>=1; extra == "plot"', 'never; sys_platform == "abacus"')
    add("base", "shared")
    add("drawing", "shared", "fonts[all]")
    add("fonts", 'glyphs; extra == "all"')
    for name in ("shared", "never", "glyphs"):
        add(name)
    assert ownership._closure(tmp_path, "aucpr-dask", "") == {"aucpr-dask", "base", "shared"}
    added = ownership._closure(tmp_path, "aucpr-dask", "plot") - ownership._closure(tmp_path, "aucpr-dask", "")
    assert added == {"drawing", "fonts", "glyphs"}


# The tables


def test_the_table_compares_with_ours():
    text = ownership.as_markdown([measured("aucpr-dask", 1.5, 0.002), measured("peer", 0.5, 0.05)], {}, {}, ["absent"])
    assert "| aucpr-dask | 0.002 |  |" in text
    assert "| peer | 0.05 | 25 x |" in text
    assert "| peer 1.0 | 2 | 4 | 5 |" in text
    assert "not installed: absent" in text


def test_another_number_is_not_hidden():
    ours, same, other = (measured(name, 1.0, 1.0, number) for name, number in (("a", 0.5), ("b", 0.5), ("c", 0.6)))
    assert ownership._disagreement(same, ours) == ""
    assert f"{ownership.JOBS['ranking']} 0.6, ours 0.5" in ownership._disagreement(other, ours)
    other.disagrees = "first number 0.6, ours 0.5"
    assert "**c disagrees**" in ownership.as_markdown([ours, other], {}, {}, [])


def test_a_mark_is_filled_and_its_page_kept(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- one -->\nold\n<!-- end -->\n\nafter <!-- two -->\n")
    for _ in range(2):
        fill_mark(page, "one", text_table(["a", "b"], [["x", "1"]]))
    assert page.read_text() == (
        "before\n\n<!-- one -->\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n\n<!-- end -->\n\nafter <!-- two -->\n"
    )
    with pytest.raises(ValueError, match="0 places called 'three'"):
        fill_mark(page, "three", "")


def test_the_pages_have_their_marks(tmp_path):
    for name, mark in (("cost-of-ownership.md", ownership.MARK), ("chunks-and-codecs.md", codecs.MARK)):
        copy = tmp_path / name
        copy.write_text((ROOT / "docs" / name).read_text())
        fill_mark(copy, mark, "filled")
        assert "filled" in copy.read_text()


@pytest.mark.slow
def test_the_command_measures_what_is_installed_here(tmp_path):
    files = [str(part) for name in ("json", "markdown") for part in (f"--{name}", tmp_path / name)]
    command = [sys.executable, "-m", "benchmarks.ownership", "--small", "--rounds", "1", "--package", "scikit_learn"]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "json").read_text())
    assert [one["name"] for one in figures["packages"]] == ["aucpr_dask", "scikit-learn"]
    assert set(figures["packages"][0]["jobs"]) == set(ownership.JOBS)
    assert (tmp_path / "markdown").read_text().startswith("|  | distributions |")


@pytest.mark.slow
@pytest.mark.nightly
def test_nothing_compiled_takes_longer(tmp_path):
    environment = Environment(package("aucpr_dask"), sys.executable, tmp_path)
    environment.run()
    assert environment.machine_code() > 0
    warm, cold = environment.run(), environment.run(nothing_compiled=True)
    assert warm.number == cold.number
    assert warm.cores + 0.5 < cold.cores


# Codecs and chunks


def test_every_codec_and_shape_gives_back_what_was_written(tmp_path):
    score = codecs.drawn(6, 300)["votes of 500"]
    score[0, 0] = np.nan
    written = codecs.try_codecs("votes", score, 1, tmp_path)
    assert [one.way for one in written] == list(codecs.codecs())
    plain, *others = written
    assert plain.n_bytes > score.nbytes
    assert min(one.n_bytes for one in others) < 0.75 * score.nbytes
    shapes = {one.way: one.n_files - 1 for one in codecs.try_shapes(score, 1, tmp_path)}
    assert shapes["1 model"] == 6
    assert shapes["6 models"] == shapes["1 model, in shards of 6"] == 1
    assert codecs.report({"votes": written}, codecs.try_shapes(score, 1, tmp_path / "again"), {}, 1).count("**") >= 4


def test_a_wrong_read_is_no_figure(tmp_path):
    score = codecs.drawn(4, 50)["normal"]
    codecs._write("a", "b", score, {"chunks": (2, 50)}, tmp_path)
    with pytest.raises(RuntimeError, match="not what was written"):
        codecs._read(tmp_path / "a-b", score + 1, 2, check=True)


def test_break_even_is_where_both_take_as_long():
    plain = codecs.Written("", "none", 10**9, n_bytes=4 * 10**9, reads=[1.0])
    small = replace(plain, way="small", n_bytes=2 * 10**9, reads=[5.0])
    assert codecs._break_even(small, plain) == "500 MB/s"
    assert small.through(5e8) == pytest.approx(plain.through(5e8))
    assert codecs._best([plain, small], 1e8) is small
    assert codecs._best([plain, small], 1e9) is plain
    assert codecs._break_even(replace(plain, reads=[2.0]), plain) == "never"


def test_scores_are_saved_with_the_codec_that_the_page_recommends(tmp_path):
    import xarray as xr
    import zarr

    import aucpr_dask as ap

    score = np.random.default_rng(0).standard_normal((3, 40))
    scores = xr.Dataset({"score": (("model", "item"), score), "label": ("item", np.arange(40) % 4 == 0)})
    ap.save_scores(scores.assign_coords(model=list("abc")), tmp_path / "scores.zarr")
    compressor = zarr.open_array(tmp_path / "scores.zarr", path="score").compressors[0].to_dict()["configuration"]
    recommended = codecs.codecs()[codecs.OURS].to_dict()["configuration"]
    expected = recommended | {"typesize": 8}
    assert {key: str(value) for key, value in compressor.items()} == {
        key: str(value) for key, value in expected.items()
    }
    np.testing.assert_array_equal(ap.open_scores(tmp_path / "scores.zarr")["score"].values, score)
