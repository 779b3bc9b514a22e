"""What the commands share: their options, errors, opening stores, output for people and for programs."""

from __future__ import annotations

import functools
import io
import json
import logging
import re
import shlex
import signal
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

import aucpr_dask as ap
from aucpr_dask import errors
from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import CONVENTION, CONVENTIONS, READINGS, EvaluationOptions, Options, ResamplingOptions
from aucpr_dask.storage.code_cache import announcing
from aucpr_dask.storage.urls import concealed

if TYPE_CHECKING:
    from rich.console import Console

    from aucpr_dask.progress import Report

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

# Exit codes: tasks, the cluster or the disk failed, and the same command resumes; invalid input; interrupted.
FAILED, BAD_INPUT = 1, 2
# The same command may succeed after these.
AGAIN = errors.ClusterError, errors.OtherRunError, errors.RunError, errors.SourceChangedError, errors.UnreachableError
INTERRUPTED = {name: 128 + getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
PACKAGE = Path(errors.__file__).parent
CANNOT_TELL = 3  # of a gate, which fails with 1


class Group(click.Group):
    """A command with others below it, which names the one that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; a file in the place of one is what a command would be about."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:  # of completion
            near = errors.nearest(name, [*self.commands, "--help", "--version"])
            of_file = f"{'info' if 'info' in self.commands else 'table'} {name}" if Path(name).exists() else None
            meant = of_file or near
            ctx.fail(f"No such command {name!r}." + ("" if meant is None else f" Did you mean {meant!r}?"))
        return super().resolve_command(ctx, args)


class _Main(Group):
    """The top command: errors of the package become one message, an interruption one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they were added

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _interruptible():
                return super().invoke(ctx)
        except errors.AucprError as error:
            click.echo("\n".join([f"Error: {error}", *getattr(error, "__notes__", [])]), err=True)
            ctx.exit(FAILED if isinstance(error, AGAIN) else BAD_INPUT)
        except KeyboardInterrupt as end:
            name = str(end) if str(end) in INTERRUPTED else "SIGINT"
            by = "" if name == "SIGINT" else f" by {name}"
            with suppress(OSError):  # the terminal may be gone
                click.echo(f"\ninterrupted{by}: run the same command again; it goes on or starts over", err=True)
            ctx.exit(INTERRUPTED[name])


@contextmanager
def _interruptible() -> Iterator[None]:
    """Silence logging after an interruption: messages of workers that are stopped would only confuse."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        logging.disable(logging.CRITICAL)
        sys.unraisablehook = lambda raised: None  # of errors that nobody catches
        threading.excepthook = lambda raised: None
        raise KeyboardInterrupt(signal.Signals(number).name)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in INTERRUPTED]
    before = {n: signal.signal(n, interrupt) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}  # nohup
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show this package's warnings as a line of text, without a line of code."""
    before, shown = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], filename: str, *place: Any, **options: Any) -> None:
        if str(message) in shown:
            return
        if issubclass(category, errors.AucprWarning) or Path(filename).is_relative_to(PACKAGE):
            shown.add(str(message))
            click.echo(f"warning: {errors.as_called(str(message))}", err=True)
        else:
            before(message, category, filename, *place, **options)

    with warnings.catch_warnings():  # it restores this, too
        warnings.showwarning = show
        yield


@click.group(
    cls=_Main,
    epilog="\b\nExample:\n  aucpr-dask demo",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(ap.__version__, prog_name="aucpr-dask")
def main() -> None:
    """Area under the precision-recall curve (AUC PR, average precision) for thousands of models at once.

    Scores of many models go into a store (import), every ranking is evaluated on all cores or on a Dask cluster
    (evaluate), and the answer is a store of estimates and confidence intervals that opens in xarray. Paths may be
    URLs, such as s3://bucket/scores.zarr.

    A table is enough for a question: info FILE says which commands answer what about it.

    \b
    TREC runs, BEIR, CSV, pandas in:    import trec, import table
    error bars, confidence intervals:   evaluate, then show
    MAP, nDCG, precision at k:          import trec --measures, aggregate
    slices, group by; multi-class:      evaluate --by; aggregate --over class
    two models compared, a p-value:     compare
    a run that is out of memory:        plan
    Slurm, Kubernetes, a cloud:         evaluate --workers FILE
    a table in LaTeX; for polars:       table; export
    thresholds, curves, LLM judges:     Python: docs/how-do-i.md
    """  # noqa: D301
    context = click.get_current_context()
    context.with_resource(errors.at_prompt(_options_of(context.command)))
    context.with_resource(_plain_warnings())


def _options_of(command: click.Command) -> dict[str, errors.Flag]:
    """Return all options of a command and those below it, by the names of the arguments that they stand for."""
    found: dict[str, errors.Flag] = {}
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        found |= _options_of(below)
    for one in command.params:
        if isinstance(one, click.Option):
            flag = errors.Flag(one.opts[0], one.is_flag, one.multiple and one.callback is not several["callback"])
            found |= dict.fromkeys((str(one.name), flag.name[2:].replace("-", "_")), flag)
    return found


class _Brief(click.Command):
    """A command that gets an :class:`Output`; its help describes the options of most calls, and names the others."""

    def __init__(self, name: str | None, callback: Callable[..., Any], **settings: Any) -> None:
        @functools.wraps(callback)
        def with_output(*args: Any, as_json: bool, **kwargs: Any) -> Any:
            output = Output(as_json=as_json)
            with announcing(output.announce):
                return callback(output, *args, **{name: _concealed(value) for name, value in kwargs.items()})

        super().__init__(name, callback=with_output, **settings)
        help = "Print one JSON document on stdout, and progress as lines of JSON on stderr."
        self.params.append(click.Option(["--json", "as_json"], is_flag=True, help=help))
        if any(map(_is_rare, self.params)):
            help = "Show all options and exit."
            show: Any = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": self._show_all}
            self.params.append(click.Option(["--help-all"], help=help, **show))

    def _show_all(self, ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta["all"] = True
            click.echo(self.get_help(ctx), color=ctx.color)
            ctx.exit()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; an option of another name is told the one that was probably meant."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            flags = [flag for param in self.params for flag in param.opts if flag.startswith("--")]
            near = errors.nearest(error.option_name.lstrip("-"), [flag.lstrip("-") for flag in flags])
            if near is None:
                raise
            raise click.NoSuchOption(error.option_name, f"{error.message} Did you mean '--{near}'?", ctx=ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Describe the options; these in the order in which they were made, and rare ones by name."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        rare = [] if "all" in ctx.meta else list(filter(_is_rare, options))
        with formatter.section("Options"):
            formatter.write_dl([r for option in options if option not in rare and (r := option.get_help_record(ctx))])
        if rare:
            rare.sort(key=lambda option: not str(option.name).startswith(OF_TABLE))  # those of tables first
            with formatter.section("More, which --help-all describes"):
                look: Any = {"width": formatter.width - 2, "break_on_hyphens": False}
                formatter.write(textwrap.indent(textwrap.fill(", ".join(o.opts[0] for o in rare), **look), "  ") + "\n")


def _is_rare(option: click.Parameter) -> bool:
    return option.name in _RARE or str(option.name).startswith(OF_TABLE)


class Output:
    """The output of a command: tables for people, or one JSON document on stdout for programs."""

    def __init__(self, *, as_json: bool) -> None:
        from aucpr_dask.progress import console_for

        for stream in (sys.stdout, sys.stderr):
            # A name that the terminal cannot encode must not end a long run with an error.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        self.as_json = as_json
        self.notes: Console = console_for(stderr=True)
        self._out: Console = console_for()
        self._started = time.monotonic()

    def show(self, *parts: Any, fold: bool = True) -> None:
        """Print for people on stdout; with ``--json``, do nothing.

        Text that isn't folded keeps its lines in a file. At a terminal they end between words, and those of a command
        so that it can be copied.
        """
        if self.as_json:
            return
        if fold:
            for part in parts:
                self._out.print(part)
            return
        from aucpr_dask.progress import print_whole_words

        for line in [line for part in parts for line in str(part).splitlines()]:
            if " aucpr-dask " in line and self._out.is_terminal:
                self._out.print(_continued(line, self._out.width), soft_wrap=True)
            else:
                print_whole_words(self._out, line)

    def suggest(self, *arguments: object) -> None:
        """Print the command to try next."""
        command = " ".join(["next: aucpr-dask", *(shlex.quote(str(argument)) for argument in arguments)])
        if not self.as_json:
            self._out.print(_continued(command, self._out.width), soft_wrap=True)

    def data(self, document: dict[str, Any]) -> None:
        """With ``--json``, print strict JSON, undefined numbers as null; otherwise do nothing."""
        from aucpr_dask.view.tables import plain

        if self.as_json:
            click.echo(json.dumps(plain(document), allow_nan=False))

    @property
    def seconds(self) -> float:
        """Seconds since the command started."""
        return time.monotonic() - self._started

    def finish(self, document: dict[str, Any], before: str = "", after: str = "") -> None:
        """Say how long the command took, between two texts; or with ``--json``, print all that it found."""
        self.show(f"{before}{self.seconds:.1f} s{after}", fold=False)
        self.data(document | {"seconds": self.seconds})

    def announce(self, text: str) -> None:
        """Show a line on stderr, with ``--json`` as an object."""
        click.echo(json.dumps({"note": text}) if self.as_json else text, err=True)

    def progress(self, *, after: float = 0.0) -> AbstractContextManager[Report]:
        """Return a context that shows progress on stderr, with ``--json`` as JSON objects on lines of their own."""
        from aucpr_dask.progress import reporting

        return reporting(self.notes, after=after, as_json=self.as_json)


def _continued(command: str, width: int) -> str:
    """Return a command on several lines if one is too narrow for its options."""
    whole = re.sub(" (?!--)", "\0", command)
    look: Any = {"subsequent_indent": "  ", "break_on_hyphens": False, "break_long_words": False}
    return " \\\n".join(textwrap.wrap(whole, width - 2, **look)).replace("\0", " ")


def _concealed(value: Any) -> Any:
    """Wrap URLs so that no output shows their secrets."""
    if isinstance(value, tuple):
        return tuple(map(_concealed, value))
    return concealed(value) if isinstance(value, str) else value


# Options: made from the fields of option records, or shared by several commands


class Choice(click.Choice[str]):
    """One of several words; an error suggests the one that was probably meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word, if it is one of them."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = errors.nearest(value, self.choices)
            hint = "" if near is None else f" Did you mean {near!r}?"
            raise click.BadParameter(f"{error.message}{hint}", ctx, param) from None


class Number(click.types.FloatParamType):
    """A number of which people may give percents; its error says what these are."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or fail."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            message = error.message.replace(f"a valid {self.name}", "a number")
            text = str(value).rstrip("% ")
            if re.fullmatch(r"\d+(\.\d+)?", text):
                message += f" {text} percent is {float(text) / 100:g}."
            raise click.BadParameter(message, ctx, param) from None


class Share(Number, click.FloatRange):
    """A number from a range."""


NUMBER = Number()


OF_EVALUATION = (CONVENTION, *READINGS, "prevalence_design")
"""Options that say how labels, missing scores, ties and designs are read; a command gets those that are given."""


OF_QUESTIONS = ("estimator", "over", "method", "level", "n_resamples", "seed", "incomplete")


def led_on(command: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options given, of how data are read and of the question, that the command to try next has, too."""
    given = click.get_current_context().get_parameter_source
    is_given = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)
    takes = {param.name: getattr(param.type, "choices", None) for param in main.commands[command].params}
    kept = {name: options[name] for name in (*OF_EVALUATION, *OF_QUESTIONS) if name in options and name in takes}
    return {n: one for n, one in kept.items() if given(n) in is_given and one in (takes[n] or (one,))}


# Options that few calls need; those of tables, too
_RARE = {*OF_EVALUATION, "n_resamples", "seed", "n_folds", "incomplete", "auxiliary"}
_RARE |= {"equivalence", "record", "other_code", "weights", "like", "recall_range", "prevalence", "keep_replicates"}
OF_TABLE = "table_"
"""What the names of options start with that say what the columns of a table are."""
_FLAGS = {"named_by": "--name"}  # where they differ from the field


def option_of(record: type[Options], name: str, note: str = "", dest: str = "", **settings: Any) -> Option[Any]:
    """Make the option of a field: its type, default, choices and help, unless `settings` override them."""
    (one,) = (one for one in fields(record) if one.name == name)
    allowed, least, most, description = (one.metadata[key] for key in ("allowed", "least", "most", "description"))
    default = one.default
    made: dict[str, Any] = {"help": f"{description[:-1]} ({note})." if note else description, "default": default}
    if isinstance(default, bool):
        made |= {"is_flag": True}
    elif allowed is not None:
        made |= {"type": Choice(allowed), "show_default": True}
    elif least is not None:
        shown = None if most is not None and most >= 2**31 - 1 else most  # a limit that nobody meets
        made |= {"type": click.IntRange(least, shown), "show_default": default is not None}
    else:
        made |= {"type": NUMBER if "float" in str(one.type) else str, "show_default": default is not None}
    made |= _LOOKS.get(name, {}) | settings
    if made.get("required"):
        del made["default"]  # click takes even None for a value
    return click.option(_FLAGS.get(name, f"--{name.replace('_', '-')}"), dest or name, **made)


def option(name: str, help: str, *dest: str, **look: Any) -> Option[Any]:
    """Make an option of a command's own, named with the word that stands for its value: ``--memory SIZE``."""
    flag, _, metavar = name.partition(" ")
    return click.option(flag, *dest, metavar=metavar or None, help=help, **look)


def options_of(record: type[Options], *names: str) -> Option[Any]:
    """Make the options of several fields."""
    return with_options(*(option_of(record, name) for name in names))


def with_options(*options: Option[Any]) -> Option[Any]:
    """Return one decorator for several, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


SEVERAL = "repeat, or separate by commas"
several: dict[str, Any] = {
    "multiple": True,
    "default": (),
    "callback": lambda ctx, param, values: tuple(name for value in values for name in value.split(",")),
}
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace what is there already.")


def only_of_values(before: str = "") -> tuple[Option[Any], ...]:
    """Make the options that tables of predictions lack; their names start with `before`."""
    include = "Take in a column of values that would be left out (repeat)."
    lower = "Of which measures or columns of values less is better (repeat)."
    known: dict[tuple[str, ...], bool | None] = {(): None, ("all",): True, ("none",): False}
    look: dict[str, Any] = {"multiple": True, "is_flag": False, "flag_value": "all"}
    look |= {"callback": lambda ctx, param, names: known.get(names, names)}
    return (
        option("--include NAME", include, f"{before}include", multiple=True),
        option("--lower-is-better all|none|NAME", lower, f"{before}lower_is_better", **look),
    )


def columns_of_values(before: str = "") -> Option[Any]:
    """Make all options of tables of values; their names start with `before`."""
    named = {
        "model": "The column of models [default: model, run, system, ...].",
        "query": "The column of queries, topics, tasks or data sets [default: query_id, topic, task, dataset, ...].",
        "exclude": "A column that does not hold values (repeat).",
        "value": "The column of values of a tidy table [default: value, score].",
    }
    options = []
    for name, help in named.items():
        word = "NAME" if name == "exclude" else "COLUMN"
        options.append(option(f"--{name} {word}", help, f"{before}{name}", multiple=name == "exclude"))
    return with_options(*options, *only_of_values(before))


top_option = option(
    "--top N",
    "Models to show of each data set [default: 10, or 3 of each of several; all with --json].",
    type=click.IntRange(min=1),
)
workers_option = option(
    "--workers N|FILE|ADDRESS",
    "Number of worker processes (default: the cores, or none if they would save no time), a YAML file that "
    "describes a cluster, or the address of a Dask scheduler.",
)


def command(example: str, of: click.Group | None = None, **settings: Any) -> Option[Any]:
    """Make a command, of a group or of none, whose help ends with an example that works."""
    settings |= {"cls": _Brief, "epilog": epilog(example)}
    made: Option[Any] = (click if of is None else of).command(**settings)
    return made


def epilog(example: str) -> str:
    """Return what a help ends with."""
    return f"\b\nExample:\n  {example}"


def method_option(methods: str, help: str) -> Option[Any]:
    """Make the option that chooses one of these methods, separated by spaces."""
    names = methods.split()
    # Seven names are too long a line, and the help says them anyway.
    return click.option("--method", type=Choice(names), metavar="METHOD" if len(names) > 6 else None, help=help)


# Completion in a shell


def complete_estimator(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the estimators that start with `incomplete`, those with a parameter up to its bracket."""
    found = {spec.name if spec.parameter is None else f"{spec.name}(": usage(spec) for spec in ESTIMATORS.values()}
    return [CompletionItem(name, help=help) for name, help in found.items() if name.startswith(incomplete)]


def complete_estimator_or_all(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the same, and ``all``."""
    every = CompletionItem("all", help="every estimator without a parameter")
    return [every] * "all".startswith(incomplete) + complete_estimator(ctx, param, incomplete)


def complete_intervals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the last of several names separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    others = [name for name in INTERVALS if name.startswith(last) and name not in before.split(",")]
    return [CompletionItem(f"{before}{comma}{name}") for name in others]


# How the options of some fields look in every command.
_LOOKS: dict[str, dict[str, Any]] = {
    "n_resamples": {"metavar": "N"},
    "estimator": {"metavar": "NAME", "shell_complete": complete_estimator},
    "level": {"type": Share(0, 1, min_open=True, max_open=True), "help": "Confidence level."},
}

NAMES: dict[str, Any] = {"type": str, "multiple": True, "metavar": "NAME"}
by_option = option_of(EvaluationOptions, "by", callback=lambda _, __, names: names or None, **NAMES)


def _open_option(record: type[Options], name: str) -> Option[Any]:
    """Make an option of an evaluation, which a convention may set, or else has its default."""
    return option_of(record, name, default=None, show_default=getattr(record(), name) or False)


reading_options = with_options(
    click.option(
        f"--{CONVENTION}",
        type=Choice(list(CONVENTIONS)),
        help="Defaults of the options that follow: trec_eval sets --missing, --ties, --positive-from and "
        "--no-positives.",
    ),
    *(_open_option(EvaluationOptions, name) for name in READINGS),
)
evaluation_options = with_options(reading_options, _open_option(ResamplingOptions, "prevalence_design"))
