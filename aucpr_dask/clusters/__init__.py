"""Describe clusters, connect to them, and prepare their workers."""

import importlib
from typing import Any

_HOME = {"compile_kernels": "workers", "connect": "connecting", "prepare_workers": "workers", "read": "descriptions"}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and with it distributed: who only compiles ahead does without."""
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
