"""The package's exceptions, and the one shape of their messages."""

from __future__ import annotations

from collections.abc import Iterable


class AucprError(Exception):
    """Base of every error this package raises on purpose."""


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
    """A store that is absent, unfinished, of another kind, or in the way."""


class UnreachableError(StoreError):
    """A store elsewhere that does not answer, or answers with an error: trying again may help."""


class OtherRunError(StoreError):
    """A result store that another run has finished, or taken for itself, while this one was under way."""


class RunError(AucprError, RuntimeError):
    """Blocks of a run that could not be computed; the others are kept."""


class ClusterError(AucprError, RuntimeError):
    """Worker processes that do not start, or a scheduler that is lost."""


def explain(
    what: str,
    *,
    where: object = None,
    received: object = None,
    allowed: object = None,
    remedy: str | None = None,
) -> str:
    """Compose an error message: what happened, where, what was received and allowed, how to mend it.

    Examples
    --------
    >>> print(explain("unknown estimator", received="'ap'", allowed="average_precision"))
    unknown estimator
      received: 'ap'
      allowed: average_precision
    """
    parts = {"where": where, "received": received, "allowed": allowed, "remedy": remedy}
    lines = [what, *(f"  {name}: {value}" for name, value in parts.items() if value is not None)]
    # What was received may say anything: it must not steer a terminal, nor look like another part of the message.
    return "\n".join("\n    ".join(map(printable, line.split("\n"))) for line in lines)


def printable(text: str) -> str:
    r"""Return text as a terminal may show it, on one line: any character that does not print is escaped.

    Examples
    --------
    >>> print(printable("naïve\x1b[31m\n"))
    naïve\x1b[31m\n
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


MOST_SHOWN = 5


def few(values: Iterable[object]) -> str:
    """List the first few values, and say how many more there are."""
    listed = [str(value) for value in values]
    shown = ", ".join(listed[:MOST_SHOWN])
    return shown + (f" and {len(listed) - MOST_SHOWN:,} more" if len(listed) > MOST_SHOWN else "")
