"""Counts of instructions, their comparison, the roofline and the reading of machine code."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from benchmarks import assembly, regression, roofline  # noqa: E402
from benchmarks.instructions import callgrind, report  # noqa: E402
from benchmarks.instructions.callgrind import Count, CountingError, Counts  # noqa: E402
from benchmarks.instructions.workloads import IMPORT, WORKLOADS  # noqa: E402
from benchmarks.limits import Limits, measure_limits  # noqa: E402

RANKING = "ranking, 1 %, float32"
FIRST = """events: Ir
summary: 160

ob=(1) /usr/lib/libc.so
fl=(1) ???
fn=(1) main
1 10
cob=(2) ???
cfn=(2) 0x1234
calls=1 0
* 120
ob=(2)
fn=(2)
0 100
+3 20
ob=(3) /env/numpy/_core/umath.so
fn=(3) sort
- 30
totals: 160
"""
SECOND = """events: Ir
ob=(3)
fn=(3)
7 5
cob=(1)
calls=2 7
7 4
ob=(1)
* 4
totals: 9
"""


def test_the_instructions_of_a_dump_belong_to_whom_the_file_belongs_to():
    objects: dict[str, str] = {}
    assert callgrind.read_dump(FIRST.splitlines(), objects) == {"kernels": 120, "numpy": 30, "others": 10}
    # Names are written out once, and calls are counted where they are made to.
    assert callgrind.read_dump(SECOND.splitlines(), objects) == {"kernels": 0, "numpy": 5, "others": 4}


def test_a_dump_that_does_not_add_up_is_refused():
    with pytest.raises(CountingError, match="adds up to 160 instructions, and says 161"):
        callgrind.read_dump(FIRST.replace("totals: 160", "totals: 161").splitlines(), {})


def counted(**instructions: int) -> Counts:
    names = {"ranking": RANKING, "short": "short rankings", "imported": IMPORT}
    counts = {names[key]: n for key, n in instructions.items()}
    return Counts({name: Count(name, n, {"kernels": n, "numpy": 0, "others": 0}, 0.0) for name, n in counts.items()})


def test_growth_beyond_the_threshold_fails_the_check():
    base, head = (
        counted(ranking=1_000_000, short=1_000_000, imported=100),
        counted(ranking=1_031_000, short=1_029_000, imported=90),
    )
    found = {change.name: change for change in regression.changes(base, head, 0.03)}
    assert {name: change.verdict for name, change in found.items()} == {
        IMPORT: "fewer",
        RANKING: "**more**",
        "short rankings": "the same",
    }
    assert [name for name, change in found.items() if change.is_worse] == [RANKING]
    text = regression.as_markdown(list(found.values()), "old", "new")
    assert f"| {RANKING}, per item | 10 | 10.3 | 1.031 | **more** |" in text
    assert text.endswith(f"Worse: {RANKING}.\n")


def test_a_workload_that_only_one_side_can_run_is_told():
    lost = Counts({}, {RANKING: "AttributeError: no kernel"})
    assert [change.verdict for change in regression.changes(lost, counted(ranking=5), 0.03)] == ["new"]
    (failing,) = regression.changes(counted(ranking=5), lost, 0.03)
    assert (failing.verdict, failing.is_worse) == ("**fails**", True)


def test_the_exit_status_tells(monkeypatch, capsys, tmp_path):
    sides = {"good": counted(ranking=100), "bad": counted(ranking=200)}
    monkeypatch.setattr(regression, "count_at", lambda repository, commit, only: sides[commit])
    assert regression.main(["good", "good", "--json", str(tmp_path / "found.json")]) == 0
    assert regression.main(["good", "bad"]) == 1
    assert regression.main(["good", "bad", "--threshold", "150"]) == 0
    assert "Worse" in capsys.readouterr().out
    assert '"ratio": 1.0' in (tmp_path / "found.json").read_text()


def test_without_valgrind_the_reason_is_told(monkeypatch, capsys):
    monkeypatch.setattr(callgrind.shutil, "which", lambda name: None)
    assert regression.main(["HEAD", "HEAD"]) == 2
    assert "valgrind is not installed" in capsys.readouterr().err


def test_a_table_of_counts_is_per_unit():
    text = report.as_markdown(counted(ranking=4_340_000, imported=1_400_000_000))
    assert f"| {RANKING} | item | 43.4 | 43.4 | 0 | 0 | 0.00 % |" in text
    assert f"| {IMPORT} | import | 1,400 M |" in text


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_runs(name):
    call = WORKLOADS[name].prepare()
    first, again = call(), call()
    assert np.array_equal(_numbers(first), _numbers(again), equal_nan=True), "a fixed workload does the same again"


def _numbers(result):
    if hasattr(result, "data_vars"):
        return result[next(iter(result.data_vars))]
    return result


LIMITS = Limits(
    sizes={"L1": 1000, "L2": 10**6, "memory": 10**9},
    bandwidth={"L1": 100e9, "L2": 50e9, "memory": 10e9},
    latency=dict.fromkeys(("L1", "L2", "memory"), 1e-9),
    lookup={"L1": 0.2e-9, "L2": 0.5e-9, "memory": 5e-9},
    increment=dict.fromkeys(("L1", "L2", "memory"), 1e-9),
    scalar=20e9,
    vector=100e9,
    sort={"float32": 2e-9, "float64": 4e-9, "uint64": 4e-9},
)


def test_the_nearest_limit_binds():
    n = WORKLOADS[RANKING].units
    found = roofline.kernel(WORKLOADS[RANKING], 40 * n, seconds=2e-9 * n, counted_seconds=4e-9 * n, limits=LIMITS)
    # 5 bytes from L2 take 0.1 ns of 2; 3 look-ups in L2 1.5 ns; sorting 1 % 0.02 ns; 40 instructions 2 ns of 4.
    assert found.shares == pytest.approx({"reading": 0.05, "look-ups": 0.75, "sorting": 0.01, "instructions": 0.5})
    assert (found.binding, found.intensity, found.rate) == ("look-ups", 8, pytest.approx(10e9))
    row = roofline.kernels_table([found], LIMITS).splitlines()[-1]
    assert row.startswith(f"| {RANKING} | 5 | 40 | 2.00 ns | 4.00 ns | 2.5 | 5 % | 10 | 50 % | look-ups | 1.3 |")


def test_workloads_without_figures_are_left_out():
    known = {RANKING: 1e-3, IMPORT: 1.0}
    counts = counted(ranking=10**6, short=10**6, imported=10**6)
    assert [kernel.name for kernel in roofline.kernels_of(counts, known, known, LIMITS)] == [RANKING]


def test_counts_can_be_read_again(tmp_path):
    counts = counted(ranking=10**6, imported=3)
    (tmp_path / "counts.json").write_text(report.as_json(counts))
    assert report.read_counts(tmp_path / "counts.json") == counts


def test_a_page_is_filled_between_its_marks():
    page = "a\n<!-- begin generated: limits -->\nold\n<!-- end generated: limits -->\nb\n"
    filled = roofline.fill(page, "limits", r"new \1")
    assert r"new \1" in filled
    assert "old" not in filled
    assert filled.startswith("a\n")
    assert filled.endswith("b\n")
    assert roofline.fill(filled, "limits", r"new \1") == filled
    with pytest.raises(ValueError, match="no marks"):
        roofline.fill(page, "other", "")


def test_the_page_has_a_place_for_every_table():
    page = (ROOT / "docs" / "limits-of-speed.md").read_text()
    for name in ("kernels", "limits", "machine", "counts", "assembly"):
        assert roofline.fill(page, name, "x") != page


def test_numbers_in_the_picture_do_not_overlap(tmp_path):
    from benchmarks.roofline_picture import draw, save

    random = np.random.default_rng(0)
    kernels = [
        roofline.Kernel(name, 40 * random.uniform(0.9, 1.1), 5, 2e-9, 2e-9, {"reading": 1.0}) for name in WORKLOADS
    ]
    figure = draw(kernels, LIMITS)
    figure.canvas.draw()
    texts = (text for text in figure.axes[0].texts if text.get_text().isdigit())
    numbers = [Text.get_window_extent(text) for text in texts]  # without the lines to the points
    assert len(numbers) > 10
    for i, box in enumerate(numbers):
        assert not any(box.overlaps(other) for other in numbers[:i])
    for format in ("svg", "png"):
        save(figure, tmp_path / f"roofline.{format}")
        assert (tmp_path / f"roofline.{format}").stat().st_size > 1000


LOOPS = """
	xorl	%eax, %eax
.LBB0_1:
	movq	%rax, %rcx
.LBB0_2:
	vpaddd	(%rsi), %zmm1, %zmm1
	vmovups	%zmm1, (%rdi)
	jne	.LBB0_2
	incq	%rax
	jl	.LBB0_1
.LBB0_3:
	vaddsd	%xmm0, %xmm1, %xmm1
	vmovups	%ymm3, (%rdi)
	jb	.LBB0_3
	je	.LBB0_9
.LBB0_9:
	retq
"""


def test_loops_and_their_widths_are_found():
    inner, scalar = assembly.innermost_loops(LOOPS)
    assert (inner.packed(), inner.width()) == (["vpaddd"], 64)
    assert inner.packed("v?paddd") == ["vpaddd"]
    assert inner.width("v?divpd") == 0
    assert (scalar.packed(), scalar.width()) == ([], 0), "copies make no loop vectorised"


def test_a_hot_loop_that_is_not_vectorised_is_told():
    hot = assembly.Expected("long.row", "add", "v?paddd")
    good = assembly.read_kernel(LOOPS)
    bad = assembly.read_kernel(LOOPS.replace("vpaddd", "paddw"))
    straight = assembly.read_kernel(LOOPS.replace("jne	.LBB0_2", "nop"))
    assert assembly.finding(hot, {"long.row": {"f4": good, "f8": good}}) == "64 bytes at a time, `vpaddd`"
    assert assembly.finding(hot, {"long.row": {"f4": good, "f8": bad}}) == "**no**, in 1 of 2 signatures"
    assert assembly.finding(hot, {}) == "there is no such kernel any more"
    # .LBB0_1 is then the innermost loop: the instruction is still in one.
    assert "written out" not in assembly.finding(hot, {"long.row": {"f4": straight}})
    no_loop = assembly.read_kernel(LOOPS.replace("jne	.LBB0_2", "nop").replace("jl	.LBB0_1", "nop"))
    assert assembly.finding(hot, {"long.row": {"f4": no_loop}}).endswith("all turns written out")


@pytest.mark.slow
def test_limits_are_measured():
    limits = measure_limits(rounds=1, scale=0.05)
    assert set(limits.bandwidth) == set(limits.sizes) == set(limits.lookup)
    assert 1e8 < limits.scalar < 1e12
    assert limits.bandwidth["memory"] > 1e8
    assert limits.latency["memory"] > limits.lookup["L1"]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the marks are instructions of x86-64")
def test_the_hot_loops_are_vectorised():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.assembly"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no such kernel" not in done.stdout


SLOWER = """

_once = evaluate_rows


def evaluate_rows(*arguments):
    _once(*arguments)
    return _once(*arguments)
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(callgrind.why_not() is not None, reason=str(callgrind.why_not()))
def test_a_slower_kernel_is_found(tmp_path):
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    shutil.copytree(ROOT / "aucpr_dask", tmp_path / "aucpr_dask", ignore=shutil.ignore_patterns("__pycache__"))
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "as it is")
    with (tmp_path / "aucpr_dask" / "kernels" / "rows.py").open("a") as rows:
        rows.write(SLOWER)
    git("commit", "--quiet", "-am", "twice")
    (change,) = regression.compare(tmp_path, "HEAD~1", "HEAD", only=[RANKING])
    assert change.is_worse
    assert change.ratio == pytest.approx(2, abs=0.05)
    assert not (tmp_path / ".git" / "worktrees").exists()
