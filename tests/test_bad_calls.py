"""Ten thousand calls with hostile arguments: each ends in one of the package's errors, with all parts, or is valid."""

from collections import Counter
from pathlib import Path

import bad_calls
import pytest


@pytest.fixture(scope="module")
def valid() -> dict[str, tuple[str, str]]:
    """Return the outcome of each function without hostile arguments, with the time to compile kernels."""
    names = bad_calls.CALLS.keys() - {"open_scores", "open_result", "open_comparison"}
    return {name: bad_calls.outcome(name, bad_calls.CALLS[name][1], seconds=300) for name in sorted(names)}


def defects(n_calls: int, seed: int) -> tuple[list[str], Counter[str]]:
    found, kinds = [], Counter()
    for name, arguments in bad_calls.draw(n_calls, seed):
        kind, text = bad_calls.outcome(name, arguments)
        kinds[kind] += 1
        if kind not in ("refused", "valid"):
            changed = {key: value for key, value in arguments.items() if value is not bad_calls.CALLS[name][1][key]}
            found.append(f"{name}, {str(changed)[:300]}: {kind}, {text}")
    return found, kinds


@pytest.mark.parametrize(("n_calls", "seed"), [(500, 0), pytest.param(10_000, 1, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("valid")
def test_bad_calls_end_in_errors_of_the_package(
    n_calls: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a valid path is written to
    found, kinds = defects(n_calls, seed)
    assert not found, "\n".join(found[:10])
    assert kinds["refused"] > 0.8 * n_calls


def test_the_calls_are_valid_without_hostile_arguments(valid: dict[str, tuple[str, str]]) -> None:
    assert set(valid.values()) == {("valid", "")}, valid
