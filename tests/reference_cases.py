"""The reference cases in `oracles/`: inputs, and the numbers that independent implementations return for them."""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "oracles"


@cache
def oracle(name: str) -> Any:
    """Return the cases of one file, or its data sets by name."""
    content = json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))
    return content.get("cases", content.get("datasets"))


def oracle_cases(name: str, keep: Any = lambda case: True) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in oracle(name) if keep(case)]


def fact(name: str) -> Any:
    """Return one entry of `facts`: numbers printed in papers and test suites."""
    return next(case for case in oracle("facts") if case["id"] == f"facts/{name}")


def numbers(values: Any) -> np.ndarray:
    """Return float64 values; those that are not finite are stored as text."""
    return np.array([float(value) for value in values])


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels of one of the hard-label data sets."""
    dataset = oracle("datasets")[name]
    return numbers(dataset["scores"]), np.array(dataset["labels"], dtype=np.int8)


def of_blocks(groups: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and labels of tie groups, given as pairs of numbers of positives and negatives from the top."""
    label = np.concatenate([np.repeat([1, 0], group) for group in groups])
    return -np.repeat(np.arange(len(groups)), [sum(group) for group in groups]).astype(float), label
