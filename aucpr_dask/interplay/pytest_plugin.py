"""A plugin of pytest with the fixture ``aucpr_gate``; it imports nothing else until a test calls that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def aucpr_gate() -> Callable[..., Any]:
    """Fail the test unless ``aucpr_gate(result, candidate, baseline, margin)`` finds the candidate good enough.

    It takes the arguments of ``aucpr_dask.gate`` and returns the gate.
    """

    def check(*args: Any, **options: Any) -> Any:
        import aucpr_dask

        found = aucpr_dask.gate(*args, **options)
        if not found.passed:
            gates = found if isinstance(found, tuple) else (found,)
            pytest.fail("\n".join(repr(gate) for gate in gates if not gate.passed), pytrace=False)
        return found

    return check
