"""Connect to workers, and prepare them."""

import importlib
from typing import Any

_HOME = {"compile_kernels": "preparing", "connect": "connecting", "prepare_workers": "preparing"}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and with it distributed: who only compiles ahead does without."""
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
