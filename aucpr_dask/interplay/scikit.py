"""scikit-learn: estimators as scorers, and classifiers' scores as data sets."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from pickle import PicklingError
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from aucpr_dask.errors import AlignmentError, AucprError, ClassifierWarning, InvalidInputError, RunError, brief, few
from aucpr_dask.evaluation.api import estimate
from aucpr_dask.progress.showing import reporting_if
from aucpr_dask.schema.checks import choose, require
from aucpr_dask.schema.estimators import estimator_names
from aucpr_dask.schema.names import check_node_name
from aucpr_dask.schema.trees import Scores
from aucpr_dask.schema.variables import CLASS, ITEM, MODEL
from aucpr_dask.scores.chunks import Region
from aucpr_dask.scores.classes import with_label_of_each_class
from aucpr_dask.scores.importing.files import OnProgress, report, write_blocks
from aucpr_dask.scores.store import open_scores
from aucpr_dask.storage.stores import refuse_finished
from aucpr_dask.storage.urls import is_remote, revealed

RESPONSES = ("predict_proba", "decision_function")
ON_ERROR = ("raise", "nan")
_PLAIN_CLASSES = ({0, 1}, {-1, 1})


def scorer(estimator: str = "average_precision", *, positive: Any = None, **options: Any) -> Any:
    """Return a scikit-learn scorer, as `scoring` of ``cross_val_score``, ``GridSearchCV`` and others takes it.

    It calls ``decision_function`` or, if there is none, ``predict_proba``, as scikit-learn's own scorers do, and
    accepts ``sample_weight``. Larger is better for every estimator.

    Parameters
    ----------
    estimator : str
        A name from the registry.
    positive : object, optional
        The positive class; by default 1 of {0, 1}, {-1, 1} or False and True.
    **options
        Of :func:`aucpr_dask.estimate`: ``prevalence``, ``recall_range``, ``ties``.

    Returns
    -------
    callable
        ``scorer(classifier, X, y, sample_weight=None)``; it can be pickled.

    Raises
    ------
    InvalidInputError
        If there is no such estimator, or scikit-learn is not installed.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> y = np.arange(60) % 3 == 0
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + y[:, None]
    >>> cross_val_score(LogisticRegression(), X, y, scoring=scorer("continuous"), cv=3).round(2)
    array([0.81, 0.88, 0.53])
    """
    make_scorer = _sklearn("metrics").make_scorer
    (name,) = estimator_names(estimator)
    given = options if positive is None else options | {"pos_label": positive}
    return make_scorer(area, response_method=RESPONSES[::-1], estimator=name, **given)


def area(
    y_true: Any,
    y_score: Any,
    *,
    estimator: str = "average_precision",
    pos_label: Any = None,
    sample_weight: Any = None,
    **options: Any,
) -> float:
    """Return an area as functions of ``sklearn.metrics`` do; NaN if no item is positive."""
    scores = np.asarray(y_score)
    if scores.ndim != 1:
        raise InvalidInputError(
            "scores of several classes have no single precision-recall curve",
            received=f"scores of shape {scores.shape}",
            remedy="make it two classes: y == positive",
        )
    classes = np.asarray(y_true)
    label = (classes == _positive_class(np.unique(classes), pos_label, "the labels")).astype(np.int8)
    weight = None if sample_weight is None else np.asarray(sample_weight)
    return float(estimate(scores, label, estimator, weight=weight, **options))


def from_sklearn(
    classifiers: Mapping[str, Any] | Sequence[Any] | Any,
    data: Mapping[str, Sequence[Any]] | Sequence[Any] | Any,
    y: Any = None,
    *,
    cv: Any = None,
    groups: Any = None,
    positive: Any = None,
    response: str | None = None,
    n_jobs: int | None = None,
    url: str | Path | None = None,
    overwrite: bool = False,
    on_error: str = "raise",
    progress: bool | None = None,
    on_progress: OnProgress | None = None,
) -> Scores:
    """Return the scores of classifiers on data sets: as fitted, or out of fold by cross-validation.

    Parameters
    ----------
    classifiers : mapping of str to classifier, list of classifiers, or classifier
        Models by name; without names, they are called by their classes. Without `cv` they must be fitted, and `data`
        should be data they have not seen.
    data : array or tuple or mapping of str to tuple
        X, with `y` next to it; ``(X, y)`` or ``(X, y, weight)`` of one data set; or several of these by name. X may be
        dense, sparse or a data frame, whose index, if it is not the default one, names the items. Weights are used in
        the evaluation, not to fit classifiers. Labels -1 and 1 are negative and positive, as in scikit-learn.
    y : array, optional
        The classes of the items in X.
    cv : int or splitter or iterable, optional
        Cross-validate, as in scikit-learn: every item is scored by a copy of the classifier fitted to the other
        folds. All classifiers share the folds, and the data set gets the variable ``fold``.
    groups : array, shape (item), or mapping of str to array, optional
        Groups of dependent items, which a splitter such as ``GroupKFold`` keeps together; they become the variable
        ``cluster``.
    positive : object, optional
        The positive class, to which all others are negative; by default 1 of {0, 1}, {-1, 1} or False and True. With
        three or more classes and no positive one, each is scored against the rest, along the dimension ``class``.
    response : {"predict_proba", "decision_function"}, optional
        Which method to call; by default probabilities, which can be compared between folds, or decision values if
        there are none.
    n_jobs : int, optional
        Folds that are fitted at the same time.
    url : str or Path, optional
        Write to a score store, block by block: memory then holds one block of scores. If `url` is a local path, the
        scores of every classifier are kept next to it until the store is finished: if a classifier fails, or the call
        is interrupted, the same call fits only what is left.
    overwrite : bool
        Whether to replace a store at `url`.
    on_error : {"raise", "nan"}
        What to do if a classifier fails: raise an error that names it, or warn and leave its scores missing.
    progress : bool, optional
        Whether to show progress; by default in a terminal or a notebook, after two seconds.
    on_progress : callable, optional
        Called with (what, done, total).

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        In memory, or of `url` as :func:`aucpr_dask.open_scores` opens it; a tree if `data` is a mapping.

    Raises
    ------
    InvalidInputError
        If a classifier has neither method or is not fitted, if the positive class is unknown, or if folds do not
        contain every item once.
    AlignmentError
        If X, y, weights or groups differ in length, or carry different indices.
    RunError
        If a classifier fails.
    StoreError
        If the store exists or cannot be written.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> y = np.arange(60) % 3 == 0
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + y[:, None]
    >>> scores = from_sklearn({"logistic": LogisticRegression(), "bayes": GaussianNB()}, (X, y), cv=3)
    >>> scores.aucpr.evaluate()["estimate"].squeeze().values.round(2)
    array([0.76, 0.75])
    """
    if response is not None:
        choose(RESPONSES, response, "response")
    choose(ON_ERROR, on_error, "on_error")
    if url is not None:
        refuse_finished(url, overwrite=overwrite)
    if y is not None:
        if isinstance(data, Mapping):
            raise InvalidInputError(
                "y belongs to one data set",
                where="argument 'y'",
                received="y next to several data sets",
                allowed="(X, y) in each of them",
                remedy='give {"name": (X, y), ...}',
            )
        data = (data, y)
    is_one = not isinstance(data, Mapping)
    named: Mapping[str, Sequence[Any]] = {"": data} if not isinstance(data, Mapping) else data
    responses = (response,) if response else RESPONSES
    with reporting_if(False if progress is None and on_progress is not None else progress) as shown:
        asked = _Asked(_named(classifiers), positive, responses, n_jobs, on_error, _Kept.beside(url))
        _check_classifiers(asked, fitted=cv is None)
        watched = _Watched(on_progress or shown, len(asked.classifiers) * len(named))
        sources = {
            name if is_one else check_node_name(str(name), "data"): _DataSet(
                _where(name), _Table.of(part, _where(name)), _of_data_set(groups, name), cv, asked, watched
            )
            for name, part in named.items()
        }
        templates = {name: source.template() for name, source in sources.items()}
        template: Scores = templates[""] if is_one else xr.DataTree.from_dict(templates)
        if url is not None:
            write_blocks(
                url, template, lambda name: sources[name].block, overwrite=overwrite, on_progress=on_progress or shown
            )
            asked.kept.clear()
            return open_scores(url)
        scored = {name: sources[name].scored(described) for name, described in templates.items()}
        return scored[""] if is_one else xr.DataTree.from_dict(scored)


def _named(classifiers: Any) -> dict[str, Any]:
    """Return classifiers by name: by the given ones, or by those of their classes."""
    if isinstance(classifiers, Mapping):
        return {str(name): classifier for name, classifier in classifiers.items()}
    listed = list(classifiers) if isinstance(classifiers, list | tuple) else [classifiers]
    named: dict[str, Any] = {}
    for classifier in listed:
        if isinstance(classifier, type) or not hasattr(classifier, "fit"):
            raise InvalidInputError(
                "this is not a classifier",
                where="argument 'classifiers'",
                received=brief(classifier),
                allowed="a mapping of names to classifiers, a list of classifiers, or one",
                remedy="make one: LogisticRegression()",
            )
        kind = type(classifier).__name__
        number = sum(type(other).__name__ == kind for other in named.values())
        named[f"{kind} {number + 1}" if number else kind] = classifier
    return named


class _Kept:
    """Scores of classifiers on disk, so that they need not be fitted again."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @classmethod
    def beside(cls, url: str | Path | None) -> _Kept:
        """Return what is kept next to a store, if that is on this machine."""
        if url is None or is_remote(url):
            return cls(None)
        place = Path(revealed(url))
        return cls(place.with_name(f".{place.name}.classifiers"))

    def scores(
        self, classifier: Any, features: Any, classes: np.ndarray, splits: Any, response: str, n_jobs: int | None
    ) -> np.ndarray:
        """Return what a classifier responds, from disk if it is there."""
        score: Callable[..., Any] = _fit_and_score
        if self._folder is not None and _can_be_named(classifier):
            score = require("joblib", "sklearn").Memory(self._folder, verbose=0).cache(score, ignore=["n_jobs"])
        return np.asarray(score(classifier, features, classes, splits, response, n_jobs), np.float64)

    def clear(self) -> None:
        """Remove what is kept."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _can_be_named(classifier: Any) -> bool:
    """Whether a classifier has a digest: one with a lambda has none."""
    try:
        return bool(require("joblib", "sklearn").hash(classifier))
    except (AttributeError, PicklingError, TypeError):
        return False


def _fit_and_score(
    classifier: Any, features: Any, classes: np.ndarray, splits: Any, response: str, n_jobs: int | None
) -> Any:
    """Return what a fitted classifier responds to all items or, with folds, copies of it fitted to the others."""
    if splits is None:
        return getattr(classifier, response)(features)
    predict = _sklearn("model_selection").cross_val_predict
    return predict(classifier, features, classes, cv=splits, method=response, n_jobs=n_jobs)


@dataclass
class _Watched:
    """How many classifiers have scored how many data sets."""

    on_progress: OnProgress | None
    total: int
    done: int = field(default=0)

    def finished(self) -> None:
        """Count one more, and say so."""
        self.done += 1
        report(self.on_progress, "scoring classifiers", self.done, self.total)


@dataclass(frozen=True)
class _Asked:
    """The arguments that all data sets share."""

    classifiers: dict[str, Any]
    positive: Any
    responses: tuple[str, ...]
    n_jobs: int | None
    on_error: str
    kept: _Kept


@dataclass(frozen=True)
class _Table:
    """The items of one data set."""

    features: Any
    classes: np.ndarray
    weight: np.ndarray | None

    @classmethod
    def of(cls, part: Sequence[Any], where: str) -> _Table:
        if not isinstance(part, Sequence) or isinstance(part, str) or len(part) not in (2, 3):
            raise InvalidInputError(
                "this is not a data set", where=where, received=type(part).__name__, allowed="(X, y)"
            )
        features, classes, *rest = part
        for name, values in zip(("y", "weight"), (classes, *rest), strict=False):
            _refuse_other_index(features, values, name, where)
        weight = np.asarray(rest[0], np.float64) if rest and rest[0] is not None else None
        table = cls(features, np.asarray(classes), weight)
        table._check_lengths(where)
        return table

    def _check_lengths(self, where: str) -> None:
        shape = getattr(self.features, "shape", None)
        lengths = {"X": shape[0] if shape else len(self.features), "y": len(self.classes)}
        if self.weight is not None:
            lengths["weight"] = len(self.weight)
        if self.classes.ndim != 1 or len(set(lengths.values())) > 1:
            raise AlignmentError(
                "X and y have rows for different items" if self.classes.ndim == 1 else "y has several columns",
                where=where,
                received=", ".join(f"{name}: {length}" for name, length in lengths.items()),
            )


@dataclass(frozen=True)
class _DataSet:
    """One data set, its folds, and the scores of the classifiers, made when they are written."""

    where: str
    table: _Table
    groups: Any
    cv: Any
    asked: _Asked
    watched: _Watched

    def template(self) -> xr.Dataset:
        """Return the data set, its scores described but not yet computed."""
        n_items, names = len(self.table.classes), list(self.asked.classifiers)
        lead = {MODEL: len(names)} | ({} if self.classes is None else {CLASS: len(self.classes)})
        score = da.zeros((*lead.values(), n_items), dtype=np.float64, chunks=-1)
        variables: dict[str, Any] = {"score": ((*lead, ITEM), score), "label": (ITEM, self.table.classes)}
        if self.classes is None:
            variables["label"] = (ITEM, (self.table.classes == self.positive).astype(np.int8))
        if self.table.weight is not None:
            variables["weight"] = (ITEM, self.table.weight)
        if self.groups is not None:
            variables["cluster"] = (ITEM, self._checked_groups())
        if self.splits is not None:
            variables["fold"] = (ITEM, _folds(self.splits, n_items, self.where))
        index = getattr(self.table.features, "index", None)
        names_of_items = list(index) if index is not None and not callable(index) else list(range(n_items))
        is_named = names_of_items != list(range(n_items))
        coords: dict[str, Any] = {ITEM: [str(name) for name in names_of_items]} if is_named else {}
        coords |= {MODEL: [str(name) for name in names]} | ({} if self.classes is None else {CLASS: self.classes})
        return with_label_of_each_class(xr.Dataset(variables, coords=coords))  # type: ignore[return-value]

    @cached_property
    def classes(self) -> np.ndarray | None:
        """The classes, if there are more than two and none of them is named as positive."""
        classes = np.unique(self.table.classes)
        return classes if self.asked.positive is None and classes.size > 2 else None

    @cached_property
    def positive(self) -> Any:
        """The positive class."""
        return _positive_class(np.unique(self.table.classes), self.asked.positive, self.where)

    @cached_property
    def splits(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """The folds that all classifiers share, as (rows to fit to, rows to score); None without cross-validation."""
        if self.cv is None:
            return None
        splitter = _sklearn("model_selection").check_cv(self.cv, self.table.classes, classifier=True)
        return list(splitter.split(self.table.features, self.table.classes, self.groups))

    def block(self, region: Region) -> dict[str, np.ndarray]:
        """Return the scores of some models."""
        chosen = list(self.asked.classifiers.items())[region[0]]
        scores = np.stack([self._scores(name, classifier) for name, classifier in chosen])
        return {"score": scores[(slice(None), *region[1:])]}

    def scored(self, described: xr.Dataset) -> xr.Dataset:
        """Return the data set with its scores, in memory."""
        return described.assign(score=(described["score"].dims, self.block((slice(None),))["score"]))

    def _scores(self, name: str, classifier: Any) -> np.ndarray:
        where = f"classifier {name!r}, {self.where}"
        response = _response_of(classifier, name, self.asked.responses)
        with self._naming(where) as failed:
            values = self.asked.kept.scores(
                classifier, self.table.features, self.table.classes, self.splits, response, self.asked.n_jobs
            )
            classes = classifier.classes_ if self.splits is None else np.unique(self.table.classes)
            known = np.asarray(classes)
            if self.classes is None:
                scores = _of_positive(values, known, self.positive, where)
            else:
                scores = np.stack([_of_positive(values, known, one, where) for one in self.classes])
        self.watched.finished()
        n_classes = () if self.classes is None else (len(self.classes),)
        return np.full((*n_classes, len(self.table.classes)), np.nan) if failed else scores

    @contextmanager
    def _naming(self, where: str) -> Iterator[list[Exception]]:
        """Name the classifier in errors; with ``on_error="nan"``, warn and collect them."""
        failed: list[Exception] = []
        try:
            yield failed
        except AucprError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if self.asked.on_error == "nan":
                failed.append(error)
                warnings.warn(f"{where} failed, and its scores are missing: {text}", ClassifierWarning, stacklevel=2)
                return
            raise RunError(
                "a classifier failed",
                where=where,
                received=text,
                remedy="fix it, or leave it out, and call again: with a url on this machine, the scores of the others "
                "are kept; or on_error='nan' leaves its scores missing",
            ) from error

    def _checked_groups(self) -> np.ndarray:
        _refuse_other_index(self.table.features, self.groups, "groups", self.where)
        groups = np.asarray(self.groups)
        if groups.shape != self.table.classes.shape:
            raise AlignmentError(
                "groups and y have different lengths",
                where=self.where,
                received=f"shapes {groups.shape} and {self.table.classes.shape}",
            )
        return groups


def _of_positive(values: np.ndarray, classes: np.ndarray, positive: Any, where: str) -> np.ndarray:
    """Return the scores of the positive class from what a classifier responded."""
    column = np.flatnonzero(classes == positive)
    if column.size == 0:
        raise InvalidInputError(
            "the classifier does not know the positive class",
            where=where,
            received=f"positive class {positive!r}",
            allowed=few(map(repr, classes.tolist())),
        )
    if values.ndim == 1 and classes.size == 2:  # decision values: large means the second class
        return values if column[0] == 1 else 0 - values
    if values.ndim == 2 and values.shape[1] == classes.size:
        return values[:, column[0]]
    raise InvalidInputError(
        "the classifier does not give one score for each class",
        where=where,
        received=f"shape {values.shape} for {classes.size} classes",
        remedy="make it two classes: y == positive",
    )


def _positive_class(classes: np.ndarray, positive: Any, where: str) -> Any:
    """Return the positive class: the given one, or 1 if that is clear."""
    if positive is not None:
        return positive
    if classes.dtype.kind in "biuf" and any(set(classes.tolist()) <= plain for plain in _PLAIN_CLASSES):
        return 1
    raise InvalidInputError(
        "the positive class is not given",
        where=where,
        received=f"classes {few(map(repr, classes.tolist()))}",
        allowed="0 and 1, -1 and 1, or False and True",
        remedy="name it: positive=...",
    )


def _check_classifiers(asked: _Asked, *, fitted: bool) -> None:
    """Raise before anything is fitted if a classifier cannot score, or is not fitted and should be."""
    if not asked.classifiers:
        raise InvalidInputError("there is no classifier", allowed="a mapping of names to classifiers")
    validation = _sklearn("utils.validation")
    not_fitted = _sklearn("exceptions").NotFittedError
    for name, classifier in asked.classifiers.items():
        _response_of(classifier, name, asked.responses)
        try:
            if fitted:
                validation.check_is_fitted(classifier)
        except not_fitted as error:
            raise InvalidInputError(
                "the classifier is not fitted",
                where=f"classifier {name!r}",
                received=type(classifier).__name__,
                remedy="fit it to other data, or cross-validate on these: cv=5",
            ) from error


def _response_of(classifier: Any, name: str, responses: Iterable[str]) -> str:
    responses = tuple(responses)
    found = next((response for response in responses if hasattr(classifier, response)), None)
    others = [response for response in RESPONSES if hasattr(classifier, response)]
    if found is None and others:
        raise InvalidInputError(
            f"this classifier has no {responses[0]}",
            where=f"classifier {name!r}",
            received=f"response={responses[0]!r} of {type(classifier).__name__}",
            allowed=f"response={others[0]!r}",
            remedy="leave out response, which takes what each classifier has",
        )
    if found is None:
        raise InvalidInputError(
            "this classifier gives labels only, no scores to rank by",
            where=f"classifier {name!r}",
            received=type(classifier).__name__,
            allowed=f"one that has {' or '.join(responses)}",
            remedy="calibrate it: sklearn.calibration.CalibratedClassifierCV",
        )
    return found


def _folds(splits: Sequence[tuple[np.ndarray, np.ndarray]], n_items: int, where: str) -> np.ndarray:
    """Return the fold of each item, in which it is scored."""
    times = np.zeros(n_items, np.int64)
    fold = np.zeros(n_items, np.int64)
    for number, (_, scored) in enumerate(splits):
        times[scored] += 1
        fold[scored] = number
    if (times != 1).any():
        raise InvalidInputError(
            "folds must hold every item once",
            where=where,
            received=f"{int((times == 0).sum())} items in no fold, {int((times > 1).sum())} in several",
            remedy="use a splitter without repetition: StratifiedKFold, GroupKFold",
        )
    return fold


def _refuse_other_index(features: Any, values: Any, name: str, where: str) -> None:
    """Raise if X and `values` are pandas objects with different indices: their rows may be of different items."""
    first, second = (getattr(one, "index", None) for one in (features, values))
    if first is None or second is None or callable(first) or callable(second) or first.equals(second):
        return
    raise AlignmentError(
        f"X and {name} carry different labels of items",
        where=where,
        received=f"X labelled {few(map(repr, first))}; {name} labelled {few(map(repr, second))}",
        allowed="the same index, in the same order",
        remedy=f"align them: {name}.loc[X.index]; or pass {name}.to_numpy() to match by position",
    )


def _of_data_set(groups: Any, name: Hashable) -> Any:
    return groups.get(name) if isinstance(groups, Mapping) else groups


def _where(name: str) -> str:
    return f"data set {name!r}" if name else "the data set"


def _sklearn(module: str) -> Any:
    return require(f"sklearn.{module}", "sklearn")
