"""Commands with hostile arguments: each ends in one message and an exit code, never in a traceback."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from test_bad_input import at_most

from aucpr_dask import run, save_scores
from aucpr_dask.cli import main

pytestmark = pytest.mark.filterwarnings("ignore:method='bootstrap' over")  # few positives; a command prints this
SECONDS = 60
NIGHTLY = (pytest.mark.slow, pytest.mark.nightly)
VALUES = (
    *("", " ", "-1", "0", "1", "1.5", "nan", "inf", "1e400", "9" * 30, "0x10", "1_000", "٣", "true", "none", "None"),
    *("x", "average_precision", "logit", "no_such", "a=b", "a:b", "*", "..", "/", ".", "-", "nowhere/at/all", "~"),
    *("s3://", "s3://user:pass@bucket/x", "ftp://host/x", "icechunk+", "file://", "\x1b[31mred", "[bold]", "é", "'"),
    *(
        "scores.zarr",
        "result.zarr",
        "comparison.zarr",
        "table.csv",
        "qrels.txt",
        "label",
        "folder",
        "/dev/null",
        "a," * 50,
        "{}",
        "%s",
    ),
)


def leaves(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, *names, name)
        else:
            yield (*names, name), command


COMMANDS = dict(leaves(main))
PLACES = {  # arguments with which commands work
    **{("info",): ["scores.zarr"], ("verify",): ["result.zarr"], ("plan",): ["scores.zarr"]},
    **{("evaluate",): ["scores.zarr", "new.zarr"], ("show",): ["result.zarr"], ("compare",): ["result.zarr"]},
    **{("gate",): ["result.zarr", "--candidate", "b", "--baseline", "a"]},
    **{("power",): ["result.zarr"], ("rank",): ["result.zarr"], ("report",): ["result.zarr", "new.html"]},
    **{("export",): ["result.zarr", "new.csv"], ("import", "table"): ["table.csv", "new.zarr"]},
    **{("import", "arrays"): ["scores.npz", "new.zarr"], ("import", "trec"): ["run.txt", "new.zarr"]},
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    rng = np.random.default_rng(0)
    label = np.tile([1, 0, 0], 20)
    score = label + rng.normal(size=(3, 60))
    data = xr.Dataset({"score": (("model", "item"), score), "label": ("item", label)}, coords={"model": list("abc")})
    save_scores(data, folder / "scores.zarr")
    run(folder / "scores.zarr", folder / "result.zarr", interval=["bootstrap"], n_resamples=20, keep_replicates=True)
    CliRunner().invoke(main, ["compare", str(folder / "result.zarr"), "--output", str(folder / "comparison.zarr")])
    np.savez(folder / "scores.npz", score=score, label=label)
    table = pd.DataFrame({"label": label} | dict(zip("abc", score, strict=True)))
    table.to_csv(folder / "table.csv", index=False)
    (folder / "run.txt").write_text("".join(f"q Q0 d{n} {n + 1} {x} a\n" for n, x in enumerate(score[0])))
    (folder / "qrels.txt").write_text("".join(f"q 0 d{n} {x}\n" for n, x in enumerate(label)))
    (folder / "folder").mkdir()
    return folder


def lines(n_lines: int, seed: int) -> Iterator[list[str]]:
    """Draw command lines: arguments that work or none, and one or two options or arguments with any value."""
    rng = np.random.default_rng(seed)

    def value() -> str:
        return str(rng.choice(VALUES))

    for names in itertools.islice(itertools.cycle(COMMANDS), n_lines):
        words = list(PLACES.get(names, ["new"])) if rng.random() < 0.9 else []
        options = [option for option in COMMANDS[names].params if isinstance(option, click.Option)]
        for _ in range(rng.integers(1, 3)):
            if words and rng.random() < 0.2:
                words[rng.integers(len(words))] = value()
            else:
                option = options[rng.integers(len(options))]
                words += [option.opts[-1], *([] if option.is_flag else [value() for _ in range(option.nargs)])]
        yield [*names, *words]


@pytest.mark.parametrize(
    ("n_lines", "seed"), [(15, 0), pytest.param(60, 1, marks=pytest.mark.slow), pytest.param(500, 1, marks=NIGHTLY)]
)
def test_bad_commands_end_in_a_message(
    n_lines: int, seed: int, stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "work"
    codes = set()
    for words in lines(n_lines, seed):
        shutil.copytree(stores, place)
        monkeypatch.chdir(place)
        with at_most(SECONDS):
            result = CliRunner().invoke(main, words, env={"COLUMNS": "100"})
        assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exc_info)
        is_verdict = words[0] == "gate" and result.exit_code in (1, 3)
        assert result.exit_code in (0, 1, 2) or is_verdict, (words, result.output)
        assert "Traceback" not in result.output, words
        if result.exit_code and not is_verdict:
            assert "Error: " in result.stderr, (words, result.output)
        codes.add(result.exit_code)
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)
    assert {0, 2} <= codes
