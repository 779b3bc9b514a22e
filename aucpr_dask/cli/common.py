"""What the commands share: errors, opening stores, output for people and for programs."""

from __future__ import annotations

import functools
import io
import json
import logging
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from aucpr_dask._version import __version__
from aucpr_dask.cli.options import Command
from aucpr_dask.errors import AucprError, ClusterError, OtherRunError, RunError
from aucpr_dask.storage.urls import concealed

if TYPE_CHECKING:
    from rich.console import Console

    from aucpr_dask.progress.showing import Report
    from aucpr_dask.schema.terms import Scores

# Exit codes: tasks, the cluster or the disk failed, and the same command resumes; invalid input; interrupted.
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
CANNOT_TELL = 3  # of a gate, which fails with 1


class _Main(click.Group):
    """The top command: errors of the package become one message, an interruption one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they were added

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "study":  # a command of version 0.1
            raise click.UsageError("the command 'study' is gone; in Python, call aucpr_dask.simulate.study", ctx)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _interruptible():
                return super().invoke(ctx)
        except AucprError as error:
            click.echo("\n".join([f"Error: {error}", *getattr(error, "__notes__", [])]), err=True)
            ctx.exit(FAILED if isinstance(error, (ClusterError, OtherRunError, RunError)) else BAD_INPUT)
        except KeyboardInterrupt:
            click.echo("\ninterrupted: run the same command again; it goes on or starts over", err=True)
            ctx.exit(INTERRUPTED)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Silence logging after an interruption: messages of workers that are stopped would only confuse."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        logging.disable(logging.CRITICAL)
        signal.default_int_handler(number, frame)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show this package's warnings as a line of text, without a line of code."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if category.__module__ == AucprError.__module__:
            click.echo(f"warning: {message}", err=True)
        else:
            before(message, category, *place, **options)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


@click.group(
    cls=_Main,
    epilog="\b\nExample:\n  aucpr-dask demo",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="aucpr-dask")
def main() -> None:
    """Area under the precision-recall curve for thousands of rankers at once.

    Scores of many models go into a store (import), every ranking is evaluated on all cores or on a Dask cluster
    (evaluate), and the answer is a store of estimates and confidence intervals that opens in xarray.
    """
    click.get_current_context().with_resource(_plain_warnings())


class Output:
    """The output of a command: tables for people, or one JSON document on stdout for programs."""

    def __init__(self, *, as_json: bool) -> None:
        from aucpr_dask.progress.showing import console_for

        for stream in (sys.stdout, sys.stderr):
            # A name that the terminal cannot encode must not end a long run with an error.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        self.as_json = as_json
        self.notes: Console = console_for(stderr=True)
        self._out: Console = console_for()
        self._started = time.monotonic()

    @property
    def width(self) -> int:
        """Cells available for a table."""
        return self._out.width

    @property
    def ascii_only(self) -> bool:
        """Whether the terminal cannot show lines and dots."""
        return not self._out.encoding.lower().startswith("utf")

    @property
    def seconds(self) -> float:
        """Seconds since the command started."""
        return time.monotonic() - self._started

    def show(self, *parts: Any, fold: bool = True) -> None:
        """Print for people on stdout; with ``--json``, do nothing."""
        if not self.as_json:
            for part in parts:
                self._out.print(part, soft_wrap=not fold)

    def suggest(self, *arguments: object) -> None:
        """Print the command to try next."""
        command = " ".join(["aucpr-dask", *(shlex.quote(str(argument)) for argument in arguments)])
        self.show(f"next: {command}", fold=False)

    def data(self, document: dict[str, Any]) -> None:
        """With ``--json``, print strict JSON, undefined numbers as null; otherwise do nothing."""
        from aucpr_dask.view.tables import plain

        if self.as_json:
            click.echo(json.dumps(plain(document), allow_nan=False))

    def progress(self, *, after: float = 0.0) -> AbstractContextManager[Report]:
        """Return a context that shows progress on stderr."""
        from aucpr_dask.progress.showing import reporting

        return reporting(self.notes, after=after)


def output_option(command: Command) -> Command:
    """Add ``--json`` and hand the command an :class:`Output` as its first argument."""

    @click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document on stdout, everything else on stderr."
    )
    @functools.wraps(command)
    def wrapped(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        return command(Output(as_json=as_json), *map(_concealed, args), **{k: _concealed(v) for k, v in kwargs.items()})

    return wrapped  # type: ignore[return-value]


def _concealed(value: Any) -> Any:
    """Wrap URLs so that no output shows their secrets."""
    if isinstance(value, tuple):
        return tuple(map(_concealed, value))
    return concealed(value) if isinstance(value, str) else value


def open_any(store: str, data_sets: tuple[str, ...] = ()) -> Scores:
    """Open a store of scores or of results, or only the named data sets of it."""
    from aucpr_dask.evaluation.results import open_result
    from aucpr_dask.schema.terms import select_data_sets
    from aucpr_dask.scores.store import open_scores

    data = open_result(store) if is_result(store) else open_scores(store)
    return select_data_sets(data, data_sets)


def is_result(store: str) -> bool:
    """Whether a store holds results, not scores."""
    from aucpr_dask.scores.store import KIND
    from aucpr_dask.storage.stores import read_root_attrs

    return read_root_attrs(store).get("kind") != KIND
