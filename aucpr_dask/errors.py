"""The package's exceptions, and the format of their messages."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import shlex
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

_Error = TypeVar("_Error", bound="AucprError")
MEANT = "did you mean "


class AucprError(Exception):
    """Base class of all errors that this package raises on purpose.

    Parameters
    ----------
    what : str
        What happened.
    where : object
        The file, store, data set, model, query or variable concerned.
    received, allowed : object
        The offending value, and what is accepted instead.
    remedy : str
        How to fix it.

    Examples
    --------
    >>> print(AucprError("unknown estimator", received="'ap'", allowed="average_precision"))
    unknown estimator
      received: 'ap'
      allowed: average_precision
    """

    def __init__(
        self,
        what: str = "",
        where: object = None,
        received: object = None,
        allowed: object = None,
        remedy: str | None = None,
    ) -> None:
        if remedy and remedy.startswith(MEANT):  # the first line is then enough
            what, remedy = f"{what}; {remedy}", None
        parts = {"where": where, "received": received, "allowed": allowed, "remedy": remedy}
        lines = [what, *(f"  {name}: {value}" for name, value in parts.items() if value is not None)]
        lines = list(map(as_called, lines))
        # Escaped, so that a received value can neither steer a terminal nor imitate another part of the message.
        super().__init__("\n".join("\n    ".join(map(printable, line.split("\n"))) for line in lines))

    def with_part(self, name: str, value: object) -> Self:
        """Return the same error with one more part in its message."""
        return _restored(type(self), (f"{self}{_part(name, value)}",))

    def without_part(self, name: str, value: object) -> Self:
        """Return the same error without its last part, if it is this one."""
        return _restored(type(self), (str(self).removesuffix(_part(name, value)),))

    def with_names(self, names: Mapping[str, str]) -> Self:
        """Return the same error about things that the caller calls by other names."""
        text = str(self)
        for ours, theirs in names.items():
            text = text.replace(ours, printable(theirs))
        return _restored(type(self), (text,))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message as it is; to format it again would indent its lines twice."""
        return _restored, (type(self), self.args), self.__dict__


def _part(name: str, value: object) -> str:
    return f"\n  {name}: {printable(str(value))}"


def _restored(kind: type[_Error], args: tuple[Any, ...]) -> _Error:
    error = kind.__new__(kind)
    error.args = args
    return error


class InvalidInputError(AucprError, ValueError):
    """A value, shape, type or option that is not allowed."""


class AlignmentError(InvalidInputError):
    """Labels of models, queries or items that are duplicated or do not match."""


class MissingScoresError(InvalidInputError):
    """NaN scores under ``missing="raise"``."""


class ChunkError(InvalidInputError):
    """A chunking that would cut a ranking or a write unit in two."""


class FileFormatError(InvalidInputError):
    """A malformed input file; the message names the file and the line."""


class StoreError(AucprError, OSError):
    """A store that is absent, unfinished, of another kind, or must not be replaced."""


class ForeignStoreError(StoreError):
    """A Zarr store that another program wrote, where only one of this package can be used as it is."""


class DamagedError(StoreError):
    """A chunk that is missing, or not the one that was written."""


class UnreachableError(StoreError):
    """A store that does not answer, answers with an error, or may not be read: retrying may help."""


class OtherRunError(StoreError):
    """A result store that another run finished, or claimed, while this one was running."""


class SourceChangedError(StoreError):
    """Scores that were replaced while a run read them: nothing of it counts any more."""


class RunError(AucprError, RuntimeError):
    """Tasks of a run that failed; the results of others are kept."""


class ClusterError(AucprError, RuntimeError):
    """Worker processes that do not start, or a scheduler that is lost."""


class OptimizedPythonError(AucprError, ImportError):
    """An interpreter that drops assertions, on which Zarr depends."""


@contextmanager
def naming(part: str, value: str) -> Iterator[None]:
    """Add a part to an error, such as the name of the data set, unless it is empty."""
    try:
        yield
    except InvalidInputError as error:
        if not value:
            raise
        raise error.with_part(part, value) from error


def bad_argument(
    what: str, name: str, received: object, allowed: object = None, remedy: str | None = None
) -> InvalidInputError:
    """Return the error for the value of an argument.

    >>> print(bad_argument("level must lie between 0 and 1", "level", 95, "0 < level < 1", "95 percent is 0.95"))
    level must lie between 0 and 1
      where: argument 'level'
      received: 95
      allowed: 0 < level < 1
      remedy: 95 percent is 0.95
    """
    return InvalidInputError(what, f"argument {name!r}", brief(received), allowed, remedy)


def clash(what: str, remedy: str, allowed: object = None, **given: object) -> InvalidInputError:
    """Return the error for arguments that are allowed, but not together."""
    *first, last = map(repr, given)
    where = f"arguments {', '.join(first)} and {last} together"
    received = ", ".join(f"{name}={brief(value)}" for name, value in given.items())
    return InvalidInputError(what, where, received, allowed, remedy)


def lacks(what: str, where: object, has: Iterable[object], remedy: str) -> InvalidInputError:
    """Return the error for data without something that is needed; `has` names what they have in its place."""
    return InvalidInputError(what, where, few(has) or "nothing", None, remedy)


# Messages name arguments as Python's callers do. While a command runs, options take their places.


class Flag(NamedTuple):
    """An option of a command: its name, and whether it takes no value, or several but not with commas between them."""

    name: str
    is_alone: bool = False
    is_repeated: bool = False


_options: dict[str, Flag] = {}  # of the command that runs, by the names of the arguments
_ARGUMENT = re.compile(
    r"\w+\([^()]*\)"  # a call, which only Python's callers can make
    r"|\bargument '(?P<argument>\w+)'"
    r"|(?<![\w./?&'])(?P<name>[a-z_]+)=(?![={])"
    r"(?P<value>'[^']*'(?:(?:, | or )'[^']*')*|\[[^\]]*\]|\([^()]*\)|\.\.\.|[\w%-]+(?:\.\w+)*)?"
)


@contextmanager
def at_prompt(options: Mapping[str, Flag]) -> Iterator[None]:
    """Name arguments in messages as options."""
    before = dict(_options)
    _options.update(options)
    try:
        yield
    finally:
        _options.clear()
        _options.update(before)


def as_called(text: str) -> str:
    """Return a message in the words of who called: ``level=0.9``, or at the prompt ``--level 0.9``.

    >>> with at_prompt({"overwrite": Flag("--overwrite", is_alone=True), "dim": Flag("--dim")}):
    ...     print(as_called("pass overwrite=True, dim='a b', dim=('time', 'lat') or dim=..."))
    ...     print(as_called("pass dim='time' or 'lat'"))
    pass --overwrite, --dim 'a b', --dim time,lat or --dim ...
    pass --dim time or lat
    """
    return _ARGUMENT.sub(_as_option, text) if _options else text


def for_caller(in_python: str, at_a_prompt: str) -> str:
    """Return the words for who called, where a command is not called as a function is."""
    return at_a_prompt if _options else in_python


def _as_option(found: re.Match[str]) -> str:
    name, value = found["argument"] or found["name"], found["value"]
    if name not in _options:
        return found[0]
    option = _options[name]
    if found["argument"]:
        return f"option {option.name!r}"
    if value is None or option.is_alone:
        return option.name
    if value[0] == "'":
        return f"{option.name} " + re.sub("'([^']*)'", lambda one: shlex.quote(one[1]), value)
    if value[0] in "[(":
        parts = [part.strip(" '") for part in value[1:-1].split(",") if part]
        return " ".join(f"{option.name} {part}" for part in (parts if option.is_repeated else [",".join(parts)]))
    value = {"True": "all", "False": "none"}.get(value, value)
    return f"{option.name} {value}"


REPLACE_IT = "name another place, or pass overwrite=True to replace it"
"""The remedy where something of ours, or a file to export to, is at a place already."""


HERE = f"{Path(__file__).parent}{os.sep}"


class AucprWarning(UserWarning):
    """Base class of all warnings that this package gives."""


def warn(text: str, kind: type[Warning] = AucprWarning) -> None:
    """Warn at the line that called this package, however deep inside it the reason was found."""
    frame, depth, outermost = inspect.currentframe(), 0, 0
    while frame is not None:
        depth += 1
        outermost = depth if frame.f_code.co_filename.startswith(HERE) else outermost
        frame = frame.f_back
    warnings.warn(text, kind, stacklevel=outermost + 1)


class CacheWarning(AucprWarning):
    """Compiled code cannot be kept, or must not be loaded, so that every process compiles again."""


class ClassifierWarning(AucprWarning):
    """A classifier that failed, and whose scores are therefore missing."""


class ColumnWarning(AucprWarning):
    """Columns of a table that are not read as models: they look like names or numbers of rows, or are not numeric."""


class DoubtfulScoresWarning(AucprWarning):
    """Scores that look like predicted labels, or like those of the other class."""


class FewUnitsWarning(AucprWarning):
    """A method was used over fewer queries or data sets than it needs."""


class FewPositivesWarning(AucprWarning):
    """A method was used with fewer positives than it needs."""


class UnjudgedWarning(AucprWarning):
    """Runs of which no retrieved document is judged."""


class RepeatedItemsWarning(AucprWarning):
    """Items that look like copies of others, and count as items of their own."""


class WideBoundsWarning(AucprWarning):
    """Bounds that hold, but are further apart than they should be, because closer ones would take too long."""


class DamageWarning(AucprWarning):
    """Stored numbers that are damaged and computed again, or that nothing protects against damage."""


def printable(text: str) -> str:
    """Return text on one line, with every character escaped that a terminal does not print."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


MOST_SHOWN = 5
QUOTED = 200  # characters of a value


def few(values: Iterable[object], most: int = MOST_SHOWN) -> str:
    """List the first few values, and say how many more there are."""
    listed = [str(value) for value in values]
    shown = ", ".join(listed[:most])
    return shown + (f" and {len(listed) - most:,} more" if len(listed) > most else "")


def brief(value: object) -> str:
    """Return how an error quotes a value of any type: on one line that is not too long."""
    try:
        shown = repr(value)
    except Exception:
        shown = f"a value of type {type(value).__name__}"
    shown = " ".join(shown.split()) if "\n" in shown else shown
    return shown if len(shown) <= QUOTED else f"{shown[:QUOTED]}... ({type(value).__name__})"


# Names of other packages; scikit-learn's trapezoid, auc(recall, precision), joins the points by straight lines.
OTHER_NAMES = {
    own: others.split()
    for own, others in {
        "average_precision": "map auprc aucpr auc_pr pr_auc prauc average_precision_score",
        "lower_trapezoid": "trapezoid trapezoidal auc_trapezoid",
        "roc_area": "auc auroc aucroc roc_auc auc_roc roc_auc_score",
        "gain_area": "auprg auc_prg prg prg_auc",
        "seed": "random_state rng",
        "level": "alpha confidence confidence_level conf_level",
        "n_resamples": "n_bootstrap n_bootstraps n_boot n_permutations",
        "label": "y y_true target targets truth",
        "score": "y_score y_pred y_prob proba probabilities",
        "pos_label": "positive positive_class positive_label",
        "baseline": "reference ref control",
        "estimator": "metric metrics measure scoring",
        "by": "group groups groupby group_by slices",
        "clusters": "group groups cluster_ids",
        "weight": "sample_weight sample_weights",
        "sample_weight": "weight weights",
        "adjust": "correction",
        "influence": "delong",
        "bootstrap": "percentile percentile_bootstrap quantile",
        "bootstrap_t": "studentized studentised",
        "bca": "bias_corrected",
        "clopper_pearson": "exact beta",
        "wilson": "score",
        "holm": "bonferroni",
        "benjamini_hochberg": "fdr fdr_bh",
        "method": "test",
        "table": "csv tsv parquet",
        "sign_flip": "permutation randomization randomisation",
        "t": "ttest t_test",
        "difference": "effect effect_size delta",
        "models": "model_names names columns",
        "workers": "n_jobs n_workers client",
        "from_dataframe": "from_pandas from_polars from_frame read_csv",
        "open_scores": "open load open_store open_zarr read",
    }.items()
}


def nearest(value: object, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant: known from elsewhere, spelled alike, or abbreviated to its initials."""
    if not isinstance(value, str):
        return None
    plain = {name.lower().replace("-", "_").replace(" ", "_"): name for name in names}
    given = value.lower().replace("-", "_").replace(" ", "_")
    initials = ["".join(word[:1] for word in name.split("_")) for name in plain]
    if len(given) > 1 and given in initials:
        return list(plain.values())[initials.index(given)]
    known = [own for own, others in OTHER_NAMES.items() if given in others or given.replace("_", "") in others]
    if of_these := [plain[own] for own in known if own in plain]:
        return of_these[0]
    close = difflib.get_close_matches(given, plain, n=1, cutoff=0.65)
    return plain[close[0]] if close else None


def closest(name: str, names: Iterable[str]) -> str:
    """Return the names most similar to `name`, or the first few if none is similar."""
    listed = list(names)
    return few(difflib.get_close_matches(name, listed, n=3, cutoff=0.5) or listed)


def did_you_mean(value: object, names: Iterable[str], otherwise: str) -> str:
    """Return a remedy that names what was probably meant."""
    near = nearest(value, names)
    return otherwise if near is None else f"{MEANT}{near!r}?"


def refuse_unexpected(function: Callable[..., Any], given: Iterable[str], known: Collection[str]) -> None:
    """Raise, as Python does, for the first argument that a function does not take, with the name probably meant."""
    for name in given:
        if name not in known:
            what = f"{function.__name__}() got an unexpected keyword argument {name!r}"
            near = nearest(name, known)
            raise TypeError(what if near is None else f"{what}; {MEANT}{near!r}?")
