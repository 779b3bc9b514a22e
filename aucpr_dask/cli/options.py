"""Options of commands, made from the fields of option records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from aucpr_dask.cli.common import Command
from aucpr_dask.schema.options import Options


def option_of(record: type[Options], name: str, *flags: str, **settings: Any) -> Callable[[Command], Command]:
    """Make the option of a field: its type, default, choices and help, unless `settings` say otherwise."""
    (one,) = (one for one in fields(record) if one.name == name)
    allowed, default = one.metadata["allowed"], one.default
    made: dict[str, Any] = {"help": one.metadata["description"], "default": default}
    if isinstance(default, bool):
        made |= {"is_flag": True}
    elif allowed is not None:
        made |= {"type": click.Choice(allowed), "show_default": True}
    else:
        is_whole = one.metadata["least"] is not None
        made |= {"type": int if is_whole else float, "show_default": default is not None}
    return click.option(*(flags or [f"--{name.replace('_', '-')}"]), name, **(made | settings))
