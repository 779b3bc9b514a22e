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
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

import aucpr_dask as ap
from aucpr_dask import errors
from aucpr_dask.schema import terms
from aucpr_dask.schema.estimators import ESTIMATORS, usage
from aucpr_dask.schema.intervals import INTERVALS
from aucpr_dask.schema.options import (
    CONVENTION,
    CONVENTIONS,
    READINGS,
    EvaluationOptions,
    Options,
    ResamplingOptions,
    TableOptions,
)
from aucpr_dask.storage.urls import concealed

if TYPE_CHECKING:
    from rich.console import Console

    from aucpr_dask.progress import Report
    from aucpr_dask.scores.archives import Layout

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

# Exit codes: tasks, the cluster or the disk failed, and the same command resumes; invalid input; interrupted.
FAILED, BAD_INPUT = 1, 2
# The same command may succeed after these.
AGAIN = errors.ClusterError, errors.OtherRunError, errors.RunError, errors.SourceChangedError, errors.UnreachableError
INTERRUPTED = {name: 128 + getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
PACKAGE = Path(errors.__file__).parent
CANNOT_TELL = 3  # of a gate, which fails with 1
MOST_WITHOUT_DASK = 32 * 2**20  # bytes of scores


class _Main(click.Group):
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


def _say_nothing(raised: object) -> None:
    """Take the place of Python's hooks for errors that nobody catches."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Silence logging after an interruption: messages of workers that are stopped would only confuse."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        logging.disable(logging.CRITICAL)
        sys.unraisablehook = threading.excepthook = _say_nothing
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
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], filename: str, *place: Any, **options: Any) -> None:
        if category.__module__ == errors.AucprError.__module__ or Path(filename).is_relative_to(PACKAGE):
            click.echo(f"warning: {message}", err=True)
        else:
            before(message, category, filename, *place, **options)

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
@click.version_option(ap.__version__, prog_name="aucpr-dask")
def main() -> None:
    """Area under the precision-recall curve (AUC PR, average precision) for thousands of rankers at once.

    Scores of many models go into a store (import), every ranking is evaluated on all cores or on a Dask cluster
    (evaluate), and the answer is a store of estimates and confidence intervals that opens in xarray. Paths may be
    URLs, such as s3://bucket/scores.zarr.

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
    click.get_current_context().with_resource(_plain_warnings())


class _Brief(click.Command):
    """A command whose help describes the options that most calls need, and names the others."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if any(option.name in _RARE for option in self.params):
            help = "Show all options and exit."
            show: Any = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": self._show_all}
            self.params.append(click.Option(["--help-all"], help=help, **show))

    def _show_all(self, ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta["all"] = True
            click.echo(self.get_help(ctx), color=ctx.color)
            ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Describe the options; these in the order in which they were made, and rare ones by name."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        rare = [] if "all" in ctx.meta else [option for option in options if option.name in _RARE]
        with formatter.section("Options"):
            formatter.write_dl([r for option in options if option not in rare and (r := option.get_help_record(ctx))])
        if rare:
            with formatter.section("More, which --help-all describes"):
                look: Any = {"width": formatter.width - 2, "break_on_hyphens": False}
                formatter.write(textwrap.indent(textwrap.fill(", ".join(o.opts[0] for o in rare), **look), "  ") + "\n")


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

    @property
    def seconds(self) -> float:
        """Seconds since the command started."""
        return time.monotonic() - self._started

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

    def progress(self, *, after: float = 0.0) -> AbstractContextManager[Report]:
        """Return a context that shows progress on stderr, with ``--json`` as JSON objects on lines of their own."""
        from aucpr_dask.progress import reporting

        return reporting(self.notes, after=after, as_json=self.as_json)


def _continued(command: str, width: int) -> str:
    """Return a command on several lines if one is too narrow for its options."""
    whole = re.sub(" (?!--)", "\0", command)
    look: Any = {"subsequent_indent": "  ", "break_on_hyphens": False, "break_long_words": False}
    return " \\\n".join(textwrap.wrap(whole, width - 2, **look)).replace("\0", " ")


def output_option(command: Command) -> Command:
    """Add ``--json`` and hand the command an :class:`Output` as its first argument."""
    help = "Print one JSON document on stdout, and progress as lines of JSON on stderr."

    @click.option("--json", "as_json", is_flag=True, help=help)
    @functools.wraps(command)
    def wrapped(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        return command(Output(as_json=as_json), *map(_concealed, args), **{k: _concealed(v) for k, v in kwargs.items()})

    return wrapped  # type: ignore[return-value]


def _concealed(value: Any) -> Any:
    """Wrap URLs so that no output shows their secrets."""
    if isinstance(value, tuple):
        return tuple(map(_concealed, value))
    return concealed(value) if isinstance(value, str) else value


def open_any(store: str, dataset: tuple[str, ...] = ()) -> terms.Scores:
    """Open a store of scores or of results, or only the named data sets of it."""
    return _opened(store, _kind_of(store), dataset)


def _opened(store: str, kind: str | None, dataset: tuple[str, ...]) -> terms.Scores:
    return terms.select_data_sets(open_scores(store) if kind == terms.SCORES else ap.open_result(store), dataset)


def _kind_of(store: str) -> str | None:
    """Return what a store holds; None if another program wrote it."""
    from aucpr_dask.storage.stores import read_root_attrs

    return read_root_attrs(store).get("kind")


# A table in place of a store

_OFTEN = ("label", "pos_label", "models", "clusters", "query")
_SELDOM = ("item", "model", "score", "exclude", "negate", "weight", "fold", "repeat")
COLUMNS = (*_OFTEN, *_SELDOM)


def takes_tables(command: Command) -> Command:
    """Add the options that say what the columns of a table are; the command gets those that are given as `columns`."""
    lists: dict[str, Any] = several | {"note": SEVERAL}

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(f"table_{name}") for name in (*COLUMNS, "dim")}
        columns = {name: value for name, value in given.items() if value not in (None, ())}
        if (like := kwargs.pop("like")) is not None:
            from aucpr_dask.scores.archives import words_of

            columns = words_of(like, (*COLUMNS, "dim")) | columns
        return command(*args, columns=columns, **kwargs)

    for name in reversed(COLUMNS):
        look = lists if name in ("models", "exclude", "negate") else {"default": None}
        look |= {"metavar": "VALUE" if name == "pos_label" else "COLUMN", "show_default": False}
        wrapped = option_of(TableOptions, name, dest=f"table_{name}", **look)(wrapped)
    help = f"Of a Zarr store of another program: a dimension of the items, which are all ranked together ({SEVERAL})."
    wrapped = click.option("--dim", "table_dim", metavar="NAME", help=help, **several)(wrapped)
    help = "A YAML file with these options, such as score: probability; those that are given come first."
    wrapped = click.option("--like", metavar="FILE", help=help)(wrapped)
    return wrapped  # type: ignore[return-value]


def is_archive(source: str) -> bool:
    """Whether this is a Zarr store that another program wrote."""
    return not is_table(source) and _kind_of(source) is None


def is_table(source: str) -> bool:
    """Whether this is a file, which a store is not."""
    return Path(source).is_file()


def as_table(columns: dict[str, Any], dataset: tuple[str, ...] = (), by: Iterable[str] | None = None) -> TableOptions:
    """Return how to read a table; of it, ``--dataset`` names the column of data sets, and ``--by`` those of groups."""
    if "dim" in columns:
        what, remedy = "a table has columns, and no dimensions", "leave out --dim"
        raise errors.InvalidInputError(what, "option '--dim'", ", ".join(columns["dim"]), "columns", remedy)
    if len(dataset) > 1:
        received = errors.few(map(repr, dataset))
        raise errors.InvalidInputError("a table has one column of data sets", "option '--dataset'", received)
    named = {"dataset": dataset[0] if dataset else None, "by": tuple(by or ())}
    return TableOptions.among(columns | named)


def open_source(
    output: Output,
    source: str,
    dataset: tuple[str, ...],
    columns: dict[str, Any],
    by: Iterable[str] | None = None,
) -> terms.Scores:
    """Open a store; or show in the first line what the columns of a table, or an archive's variables, are taken for.

    A table without labels may hold values of any measure.
    """
    if not is_table(source):
        kind = _kind_of(source)
        if kind is not None:
            refuse_columns(source, columns)
            return _opened(source, kind, dataset)
        scores = ap.open_scores(source, like=shown_layout(output, columns))
        scores = terms.map_nodes(scores, lambda _, node: node.chunk({terms.ITEM: -1}))
        return terms.select_data_sets(scores, dataset)
    if not dataset and not by and {*columns} <= {*OF_VALUES}:
        from aucpr_dask.interplay.recognising import recognise
        from aucpr_dask.interplay.values import from_values, taken_in_words

        if recognise(source).holds in ("values", *(["other"] if columns else [])):
            values = from_values(source, **{OF_VALUES[name]: value for name, value in columns.items()})
            output.show(f"{source}: {taken_in_words(values)}", fold=False)
            return values
    from aucpr_dask.scores.importing.tables import scores_of_files

    scores, said = scores_of_files([source], as_table(columns, dataset, by))
    output.show(said, fold=False)
    return scores


OF_VALUES = {"model": "model", "query": "query", "score": "value", "exclude": "exclude"}
"""Options of tables that values have, too, as they call them."""


def shown_layout(output: Output, columns: dict[str, Any]) -> Layout:
    """Return what an archive calls what is ours, by the options of a command, and show it."""
    from aucpr_dask.scores.archives import Layout

    layout = Layout.of(columns, "the options")
    output.show(str(layout), fold=False)
    return layout


def refuse_columns(source: str, columns: dict[str, Any]) -> None:
    """Raise if options of a table are given for a store."""
    if columns:
        what, received = "these options say what the columns of a table are, and this is none", ", ".join(columns)
        allowed, remedy = "a table (CSV, TSV, JSON lines, Parquet, Feather), or a store alone", "leave them out"
        raise errors.InvalidInputError(what, source, received, allowed, remedy)


def arguments_of(source: str, columns: dict[str, Any], dataset: tuple[str, ...] = (), by: Any = None) -> list[str]:
    """Return the words that name a source again in the command to try next."""
    named = columns | ({"dataset": dataset} if dataset else {}) | ({"by": tuple(by)} if by else {})
    words = [source]
    for name, value in named.items():
        values = value if isinstance(value, tuple) else (value,)
        words += [word for one in values for word in (f"--{name.replace('_', '-')}", str(one))]
    return words


def open_scores(store: str) -> terms.Scores:
    """Open a store of scores, without Dask if they are few, which spares its import."""
    scores = ap.open_scores(store, chunks=None)
    n_bytes = sum(node.nbytes for _, node in terms.nodes_of(scores))
    return scores if n_bytes <= MOST_WITHOUT_DASK else ap.open_scores(store)


def is_result(store: str) -> bool:
    """Whether a store holds results, not scores."""
    return _kind_of(store) != terms.SCORES


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


# Options that few calls need
_RARE = {CONVENTION, *READINGS, "prevalence_design", "n_resamples", "seed", "n_folds", "incomplete"}
_RARE |= {
    "auxiliary",
    "equivalence",
    "record",
    "other_code",
    "weights",
    "like",
    *(f"table_{name}" for name in (*COLUMNS, "dim")),
}
_RARE |= {"recall_range", "prevalence", "keep_replicates"}
_FLAGS = {"named_by": "--name"}  # where they differ from the field


def option_of(
    record: type[Options], name: str, *flags: str, note: str = "", dest: str | None = None, **settings: Any
) -> Option[Any]:
    """Make the option of a field: its type, default, choices and help, unless `settings` override them."""
    (one,) = (one for one in fields(record) if one.name == name)
    allowed, least, most = (one.metadata[key] for key in ("allowed", "least", "most"))
    default = one.default
    description = one.metadata["description"]
    made: dict[str, Any] = {"help": f"{description[:-1]} ({note})." if note else description, "default": default}
    if isinstance(default, bool):
        made |= {"is_flag": True}
    elif allowed is not None:
        made |= {"type": Choice(allowed), "show_default": True}
    elif least is not None:
        shown = None if most is not None and most >= 2**31 - 1 else most  # a limit that nobody meets
        made |= {"type": click.IntRange(least, shown), "show_default": default is not None}
    else:
        made |= {"type": float if "float" in str(one.type) else str, "show_default": default is not None}
    flags = flags or (_FLAGS.get(name, f"--{name.replace('_', '-')}"),)
    made |= _LOOKS.get(name, {}) | settings
    if made.get("required"):
        del made["default"]  # click takes even None for a value
    return click.option(*flags, dest or name, **made)


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
dataset_option = click.option(
    "--dataset",
    multiple=True,
    metavar="NAME",
    help="Only this data set, or those like '20*' (repeat); of a table: the column of data sets.",
)
auxiliary_option = click.option(
    "--auxiliary",
    metavar="STORE",
    help="Store of the same models, evaluated with machine labels on these queries and on others that people did not "
    "label.",
)
columns_of_values = with_options(
    click.option("--model", metavar="COLUMN", help="The column of models [default: model, run, system, ...]."),
    click.option(
        "--query",
        metavar="COLUMN",
        help="The column of queries, topics, tasks or data sets [default: query_id, topic, task, dataset, ...].",
    ),
    click.option("--value", metavar="COLUMN", help="The column of values of a tidy table [default: value, score]."),
    click.option("--exclude", multiple=True, metavar="NAME", help="A column that does not hold values (repeat)."),
    click.option("--include", multiple=True, metavar="NAME", help="Take in a column that would be left out (repeat)."),
    click.option(
        "--lower-is-better",
        multiple=True,
        is_flag=False,
        flag_value="all",
        metavar="all|none|NAME",
        callback=lambda ctx, param, names: {(): None, ("all",): True, ("none",): False}.get(names, names),
        help="Of which measures or columns less is better (repeat).",
    ),
)
top_option = click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Models to show of each data set [default: 10, or 3 of each of several; all with --json].",
)
workers_option = click.option(
    "--workers",
    metavar="N|FILE|ADDRESS",
    callback=lambda ctx, param, value: int(value) if value is not None and value.isdigit() else value,
    help="Number of worker processes (default: the cores, or none for what takes about a second), a YAML file that "
    "describes a cluster, or the address of a Dask scheduler.",
)


def reading_options() -> list[Option[Any]]:
    """Make the options that say how labels, missing scores and ties are read, which a convention may set."""
    help = "Defaults of the options that follow: trec_eval sets --missing, --ties, --positive-from and --no-positives."
    of_convention = click.option(f"--{CONVENTION}", type=Choice(list(CONVENTIONS)), help=help)
    defaults = EvaluationOptions()
    shown = {name: getattr(defaults, name) or False for name in READINGS}
    options = [option_of(EvaluationOptions, name, default=None, show_default=one) for name, one in shown.items()]
    return [of_convention, *options]


def design_option() -> Option[Any]:
    """Make the option that says whether another sample has other numbers of positives and negatives."""
    shown = ResamplingOptions().prevalence_design
    return option_of(ResamplingOptions, "prevalence_design", default=None, show_default=shown)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return options without those of an evaluation that were not given."""
    of_evaluation = (CONVENTION, *READINGS, "prevalence_design")
    return {name: value for name, value in options.items() if name not in of_evaluation or value is not None}


def command(example: str, *name: str, of: click.Group | None = None, **settings: Any) -> Option[Any]:
    """Make a command, of a group or of none, whose help ends with an example that works."""
    settings |= {"cls": _Brief, "epilog": epilog(example)}
    made: Option[Any] = (click if of is None else of).command(*name, **settings)
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
    names = [spec.name if spec.parameter is None else f"{spec.name}(" for spec in ESTIMATORS.values()]
    help_of = dict(zip(names, map(usage, ESTIMATORS.values()), strict=True))
    return [CompletionItem(name, help=help_of[name]) for name in _matching(names, incomplete)]


def complete_estimator_or_all(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the same, and ``all``."""
    every = CompletionItem("all", help="every estimator without a parameter")
    return [every] * "all".startswith(incomplete) + complete_estimator(ctx, param, incomplete)


def complete_intervals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the last of several names separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in _matching(INTERVALS, last) if name not in given]


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


# How the options of some fields look in every command.
_LOOKS: dict[str, dict[str, Any]] = {
    "n_resamples": {"metavar": "N"},
    "estimator": {"metavar": "NAME", "shell_complete": complete_estimator},
    "level": {"type": click.FloatRange(0, 1, min_open=True, max_open=True), "help": "Confidence level."},
}

by_option = option_of(
    EvaluationOptions,
    "by",
    "--by",
    type=str,
    multiple=True,
    metavar="NAME",
    callback=lambda _, __, names: names or None,
)
