"""What the commands share: errors, output for people and for programs, options."""

from __future__ import annotations

import functools
import io
import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aucpr_dask._version import __version__
from aucpr_dask.errors import AucprError, ClusterError, OtherRunError, RunError
from aucpr_dask.storage.urls import concealed

if TYPE_CHECKING:
    from rich.console import Console

    from aucpr_dask.progress.showing import Report

# Exit codes: blocks failed, or the cluster or the disk did, and the same command goes on; what was given is wrong.
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

Command = TypeVar("Command", bound=Callable[..., Any])


class _Main(click.Group):
    """The top command: errors of the package become one message, an interruption one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _interruptible():
                return super().invoke(ctx)
        except AucprError as error:
            click.echo("\n".join([f"error: {error}", *getattr(error, "__notes__", [])]), err=True)
            ctx.exit(FAILED if isinstance(error, (ClusterError, OtherRunError, RunError)) else BAD_INPUT)
        except KeyboardInterrupt:
            click.echo(
                "\ninterrupted: the same command finishes what was being written; evaluate goes on where it stopped",
                err=True,
            )
            ctx.exit(INTERRUPTED)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make an interruption quiet: that workers are stopped in the middle of their work is no news then."""

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


class Output:
    """Where a command speaks: people read tables, a program reads one JSON document on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        from aucpr_dask.progress.console import console_for

        for stream in (sys.stdout, sys.stderr):
            # A name that the terminal's encoding lacks must not end a long run with an error.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        self.as_json = as_json
        self.notes: Console = console_for(stderr=True)
        self._out: Console = console_for()
        self._started = time.monotonic()

    @property
    def width(self) -> int:
        """The cells there are for a table."""
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
        """Print for people, on stdout; with ``--json``, nothing."""
        if not self.as_json:
            for part in parts:
                self._out.print(part, soft_wrap=not fold)

    def data(self, document: dict[str, Any]) -> None:
        """Print for programs: strict JSON, undefined numbers as null; without ``--json``, nothing."""
        from aucpr_dask.view.summary import plain

        if self.as_json:
            click.echo(json.dumps(plain(document), allow_nan=False))

    def progress(self, *, after: float = 0.0) -> AbstractContextManager[Report]:
        """Return a context that shows progress on stderr."""
        from aucpr_dask.progress.showing import reporting

        return reporting(self.notes, after=after)


def output_option(command: Command) -> Command:
    """Add ``--json`` and hand the command an :class:`Output` as its first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, all else on stderr.")
    @functools.wraps(command)
    def wrapped(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        return command(Output(as_json=as_json), *map(_concealed, args), **{k: _concealed(v) for k, v in kwargs.items()})

    return wrapped  # type: ignore[return-value]


def _concealed(value: Any) -> Any:
    """Return what was given on the command line so that no output shows the secrets of a URL."""
    if isinstance(value, tuple):
        return tuple(map(_concealed, value))
    return concealed(value) if isinstance(value, str) else value


level_option = click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Confidence level.",
)

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace a store that is there already.")

cluster_option = click.option(
    "--cluster",
    metavar="N|FILE|ADDRESS",
    callback=lambda ctx, param, value: int(value) if value is not None and value.isdigit() else value,
    help="Number of local worker processes (default: one per core), a YAML file that describes a cluster, or the "
    "address of a Dask scheduler.",
)


def example(*lines: str) -> str:
    """Return the epilog of a command's help: an example that works."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])
