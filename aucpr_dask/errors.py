"""The package's exceptions, and the one shape of their messages."""

from __future__ import annotations


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


class RunError(AucprError, RuntimeError):
    """Blocks of a run that could not be computed; the others are kept."""


class ClusterError(AucprError, RuntimeError):
    """Worker processes that do not start."""


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
    return "\n".join([what, *(f"  {name}: {value}" for name, value in parts.items() if value is not None)])
