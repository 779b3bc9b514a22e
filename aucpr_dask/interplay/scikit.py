"""scikit-learn: estimators as scorers, and classifiers' scores as data sets."""

from __future__ import annotations

import itertools
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import PicklingError
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

from aucpr_dask import errors
from aucpr_dask.errors import AlignmentError, AucprError, InvalidInputError, bad_argument, few
from aucpr_dask.evaluation.api import estimate
from aucpr_dask.progress import reporting_if
from aucpr_dask.schema import checks, choices, estimators
from aucpr_dask.schema.terms import CLASS, ITEM, MODEL, REPEAT, Scores, check_node_name
from aucpr_dask.scores import chunks, validate
from aucpr_dask.scores.importing.files import OnProgress, write_blocks
from aucpr_dask.scores.store import open_scores
from aucpr_dask.storage import stores, urls

Splits: TypeAlias = list[tuple[np.ndarray, np.ndarray]]  # of one repetition: rows to fit to, rows to score
RESPONSES = ("predict_proba", "decision_function")
ON_ERROR = ("raise", "nan")
_PLAIN_CLASSES = ({0, 1}, {-1, 1})
_TWO_CLASSES = "make it two classes: y == pos_label"


def scorer(estimator: str = "average_precision", *, pos_label: Any = None, **options: Any) -> Any:
    """Return a scikit-learn scorer, for `scoring` of ``GridSearchCV`` and others.

    It calls ``decision_function`` or, if there is none, ``predict_proba``, as scikit-learn's own scorers do, and
    accepts ``sample_weight``. Larger is better for every estimator.

    Parameters
    ----------
    estimator : str
        A name from the registry.
    pos_label : object, optional
        The positive class; by default 1 of {0, 1}, {-1, 1} or False and True.
    **options
        Of :func:`aucpr_dask.estimate`: ``prevalence``, ``recall_range``, ``ties``.

    Returns
    -------
    callable
        ``scorer(classifier, X, y, sample_weight=None)``; it can be pickled.

    Examples
    --------
    >>> import numpy as np, aucpr_dask as ap
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> y = np.arange(60) % 3 == 0
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + y[:, None]
    >>> cross_val_score(LogisticRegression(), X, y, scoring=ap.scorer("continuous"), cv=3).round(2)
    array([0.81, 0.88, 0.53])
    """
    make_scorer = _sklearn("metrics").make_scorer
    (name,) = estimators.estimator_names(estimator)
    given = options if pos_label is None else options | {"pos_label": pos_label}
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
        what = "scores of several classes have no single precision-recall curve"
        raise InvalidInputError(what, received=f"scores of shape {scores.shape}", remedy=_TWO_CLASSES)
    classes = np.asarray(y_true)
    label = (classes == _positive_class(np.unique(classes), pos_label, "the labels")).astype(np.int8)
    weight = None if sample_weight is None else np.asarray(sample_weight)
    return float(estimate(scores, label, estimator, weight=weight, **options))


@choices.names_meant
def from_sklearn(
    classifiers: Mapping[str, Any] | Sequence[Any] | Any,
    data: Mapping[str, Sequence[Any]] | Sequence[Any] | Any,
    y: Any = None,
    *,
    cv: Any = None,
    clusters: Any = None,
    pos_label: Any = None,
    response: str | None = None,
    n_jobs: int | None = None,
    store: str | Path | None = None,
    overwrite: bool = False,
    on_error: str = "raise",
    progress: bool | None = None,
    on_progress: OnProgress | None = None,
) -> Scores:
    """Return the scores of classifiers on data sets, as fitted or out of fold.

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
        folds. All classifiers share the folds, and the data set gets the variable ``fold``. Of a splitter that repeats,
        such as ``RepeatedStratifiedKFold``, the scores and folds of each repetition are along the dimension ``repeat``.
    clusters : array, shape (item), or mapping of str to array, optional
        Items that depend on each other carry the same value; the variable ``cluster`` of the scores. Folds keep them
        together: a number as `cv` is that of a ``StratifiedGroupKFold``, and a splitter that parts them is an error.
    pos_label : object, optional
        The positive class, to which all others are negative; by default 1 of {0, 1}, {-1, 1} or False and True. With
        three or more classes and no positive one, each is scored against the rest, along the dimension ``class``.
    response : {"predict_proba", "decision_function"}, optional
        Which method to call; by default probabilities, which can be compared between folds, or decision values if
        there are none.
    n_jobs : int, optional
        Folds that are fitted at the same time.
    store : str or Path, optional
        Write to a score store, block by block: memory then holds one block of scores. If `store` is a local path, the
        scores of every classifier are kept next to it until the store is finished: if a classifier fails, or the call
        is interrupted, the same call fits only what is left.
    overwrite : bool
        Whether to replace a store at `store`.
    on_error : {"raise", "nan"}
        What to do if a classifier fails: raise an error that names it, or warn and leave its scores missing.
    progress : bool, optional
        Whether to show progress; by default in a terminal or a notebook, after two seconds.
    on_progress : callable, optional
        Called with (what, done, total).

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        In memory, or of `store` as :func:`aucpr_dask.open_scores` opens it; a tree if `data` is a mapping.

    Raises
    ------
    InvalidInputError
        If a classifier has neither method or is not fitted, if the positive class is unknown, or if folds do not
        contain every item once.
    AlignmentError
        If X, y, weights or clusters differ in length, or carry different indices.
    RunError
        If a classifier fails.

    Examples
    --------
    >>> import numpy as np, aucpr_dask as ap
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> y = np.arange(60) % 3 == 0
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + y[:, None]
    >>> scores = ap.from_sklearn({"logistic": LogisticRegression(), "bayes": GaussianNB()}, (X, y), cv=3)
    >>> scores.aucpr.evaluate()["estimate"].squeeze().values.round(2)
    array([0.76, 0.75])
    """
    if response is not None:
        checks.choose(RESPONSES, response, "response")
    checks.choose(ON_ERROR, on_error, "on_error")
    if store is not None:
        stores.refuse_finished(store, overwrite=overwrite)
    if y is not None:
        if isinstance(data, Mapping):
            received, remedy = "y next to several data sets", 'give {"name": (X, y), ...}'
            what = "y belongs to one data set"
            raise InvalidInputError(what, "argument 'y'", received, "(X, y) in each of them", remedy)
        data = (data, y)
    named: Mapping[str, Sequence[Any]] = data if isinstance(data, Mapping) else {"": data}
    is_one = named is not data
    models = _named(classifiers)
    responses = _responses(models, (response,) if response else RESPONSES, fitted=cv is None)
    kept = None  # the folder in which scores are kept until the store is finished, if that is on this machine
    if store is not None and not urls.is_remote(store):
        place = Path(urls.revealed(store))
        kept = place.with_name(f".{place.name}.classifiers")
    asked = _Classifiers(models, responses, n_jobs, on_error, kept)
    with reporting_if(progress, on_progress) as shown:
        tell = on_progress or shown
        sources: dict[str, _DataSet] = {}
        for name, part in named.items():
            own = clusters.get(name) if isinstance(clusters, Mapping) else clusters
            where = f"data set {name!r}" if name else "the data set"
            path = name if is_one else check_node_name(str(name), "data")
            sources[path] = _DataSet.of(part, where, own, cv, pos_label)
        templates = {name: source.template(list(models)) for name, source in sources.items()}
        done, total = itertools.count(1), len(models) * len(named)

        def block(source: _DataSet, region: chunks.Region) -> dict[str, np.ndarray]:
            parts = []
            for name in list(models)[region[0]]:
                parts.append(asked.scores(name, source))
                if tell is not None:
                    tell("scoring classifiers", next(done), total)
            return {"score": np.stack(parts)[(slice(None), *region[1:])]}

        if store is not None:
            template: Scores = templates[""] if is_one else xr.DataTree.from_dict(templates)
            scores_of = {name: partial(block, source) for name, source in sources.items()}
            write_blocks(store, template, scores_of.__getitem__, overwrite=overwrite, on_progress=tell)
            if kept is not None:
                shutil.rmtree(kept, ignore_errors=True)
            return open_scores(store)
        scored = {
            name: one.assign(score=(one["score"].dims, block(sources[name], (slice(None),))["score"]))
            for name, one in templates.items()
        }
        return scored[""] if is_one else xr.DataTree.from_dict(scored)


# --- classifiers ------------------------------------------------------------------------------------------------


def _named(classifiers: Any) -> dict[str, Any]:
    """Return classifiers by name: by the given ones, or by those of their classes."""
    if isinstance(classifiers, Mapping):
        named = {str(name): classifier for name, classifier in classifiers.items()}
    else:
        named = {}
        for classifier in list(classifiers) if isinstance(classifiers, list | tuple) else [classifiers]:
            if isinstance(classifier, type) or not hasattr(classifier, "fit"):
                allowed = "a mapping of names to classifiers, a list of classifiers, or one"
                remedy = "make one: LogisticRegression()"
                raise bad_argument("this is not a classifier", "classifiers", classifier, allowed, remedy)
            kind = type(classifier).__name__
            number = sum(type(other).__name__ == kind for other in named.values())
            named[f"{kind} {number + 1}" if number else kind] = classifier
    if not named:
        raise InvalidInputError("there is no classifier", allowed="a mapping of names to classifiers")
    return named


def _responses(models: Mapping[str, Any], responses: Sequence[str], *, fitted: bool) -> dict[str, str]:
    """Return the method to call of each classifier; raise before anything is fitted if one cannot score."""
    check_is_fitted, not_fitted = _sklearn("utils.validation").check_is_fitted, _sklearn("exceptions").NotFittedError
    found = {}
    for name, classifier in models.items():
        where, kind = f"classifier {name!r}", type(classifier).__name__
        has = [one for one in RESPONSES if hasattr(classifier, one)]
        if not has:
            what = "this classifier gives labels only, no scores to rank by"
            remedy = "calibrate it: sklearn.calibration.CalibratedClassifierCV"
            raise InvalidInputError(what, where, kind, f"one that has {' or '.join(responses)}", remedy)
        if not set(has) & set(responses):
            received, allowed = f"response={responses[0]!r} of {kind}", f"response={has[0]!r}"
            remedy = "leave out response, which takes what each classifier has"
            raise InvalidInputError(f"this classifier has no {responses[0]}", where, received, allowed, remedy)
        found[name] = next(one for one in responses if one in has)
        try:
            if fitted:
                check_is_fitted(classifier)
        except not_fitted as error:
            remedy = "fit it to other data, or cross-validate on these: cv=5"
            raise InvalidInputError("the classifier is not fitted", where, kind, remedy=remedy) from error
    return found


@dataclass(frozen=True)
class _Classifiers:
    """Classifiers by name, the methods that score, and the folder in which their scores are kept, if any."""

    named: dict[str, Any]
    responses: dict[str, str]
    n_jobs: int | None
    on_error: str
    kept: Path | None

    def scores(self, name: str, data: _DataSet) -> np.ndarray:
        """Return the scores of one classifier: of the items, or of each class and item."""
        classifier, where = self.named[name], f"classifier {name!r}, {data.where}"
        given, how = (classifier, data.features, data.classes), (self.responses[name], self.n_jobs)
        try:
            with warnings.catch_warnings():
                # Joblib says so where writing the few arguments took long, as on a busy disk: no classifier failed.
                warnings.filterwarnings("ignore", "Persisting input arguments took", UserWarning)
                fit_and_score: Callable[..., Any] = _fit_and_score
                if self.kept is not None:  # it reads what it returned before for an equal classifier
                    joblib = checks.require("joblib", "sklearn")
                    with suppress(AttributeError, PicklingError, TypeError):  # one with a lambda has no digest
                        joblib.hash(classifier)
                        fit_and_score = joblib.Memory(self.kept, verbose=0).cache(_fit_and_score, ignore=["n_jobs"])
                parts: list[Splits | None] = [*data.repeats] if data.repeats else [None]
                found = [np.asarray(fit_and_score(*given, splits, *how), np.float64) for splits in parts]
            known = np.asarray(classifier.classes_ if data.repeats is None else np.unique(data.classes))
            of_repeats = [[_of_class(values, known, one, where) for one in data.wanted] for values in found]
        except AucprError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if self.on_error != "nan":
                remedy = "fix it, or leave it out, and call again: with a url on this machine, the scores of the "
                remedy += "others are kept; or on_error='nan' leaves its scores missing"
                raise errors.RunError("a classifier failed", where, text, remedy=remedy) from error
            errors.warn(f"{where} failed, and its scores are missing: {text}", errors.ClassifierWarning)
            of_repeats = [[np.full(len(data.classes), np.nan) for _ in data.wanted] for _ in data.repeats or "1"]
        if data.pos_label is None:
            return np.stack(of_repeats[0])
        return of_repeats[0][0] if len(of_repeats) == 1 else np.stack([scores[0] for scores in of_repeats])


def _fit_and_score(
    classifier: Any, features: Any, classes: np.ndarray, splits: Any, response: str, n_jobs: int | None
) -> Any:
    """Return what a fitted classifier responds to all items or, with folds, copies of it fitted to the others."""
    if splits is None:
        return getattr(classifier, response)(features)
    predict = _sklearn("model_selection").cross_val_predict
    return predict(classifier, features, classes, cv=splits, method=response, n_jobs=n_jobs)


def _of_class(values: np.ndarray, classes: np.ndarray, pos_label: Any, where: str) -> np.ndarray:
    """Return the scores of one class from what a classifier responded."""
    column = np.flatnonzero(classes == pos_label)
    if column.size == 0:
        what, received = "the classifier does not know the positive class", f"positive class {pos_label!r}"
        raise InvalidInputError(what, where, received, few(map(repr, classes.tolist())))
    if values.ndim == 1 and classes.size == 2:  # decision values: large means the second class
        return values if column[0] == 1 else 0 - values  # a difference has no negative zeros
    if values.ndim == 2 and values.shape[1] == classes.size:
        return values[:, column[0]]
    what = "the classifier does not give one score for each class"
    raise InvalidInputError(what, where, f"shape {values.shape} for {classes.size} classes", remedy=_TWO_CLASSES)


# --- data sets --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DataSet:
    """The items of one data set."""

    where: str
    features: Any
    classes: np.ndarray
    weight: np.ndarray | None
    clusters: Any
    repeats: list[Splits] | None  # the folds of each repetition, which all classifiers share; None if they are fitted
    pos_label: Any  # None if each class is scored against the rest

    @classmethod
    def of(cls, part: Sequence[Any], where: str, clusters: Any, cv: Any, pos_label: Any) -> _DataSet:
        if not isinstance(part, Sequence) or isinstance(part, str) or len(part) not in (2, 3):
            raise InvalidInputError("this is not a data set", where, type(part).__name__, "(X, y)")
        features, y, weight = (*part, None)[:3]
        index = getattr(features, "index", None)
        for name, values in (("y", y), ("weight", weight), ("clusters", clusters)):
            other = getattr(values, "index", None)
            # Rows of pandas objects with different indices may be of different items; methods of lists are none.
            if not (index is None or other is None or callable(index) or callable(other) or index.equals(other)):
                what, allowed = f"X and {name} carry different labels of items", "the same index, in the same order"
                received = f"X labelled {few(map(repr, index))}; {name} labelled {few(map(repr, other))}"
                remedy = f"align them: {name}.loc[X.index]; or pass {name}.to_numpy() to match by position"
                raise AlignmentError(what, where, received, allowed, remedy)
        classes = np.asarray(y)
        given = {"y": classes, "weight": weight, "clusters": clusters}
        arrays = {name: np.asarray(one) for name, one in given.items() if one is not None}
        shape = getattr(features, "shape", None)
        lengths = {"X": shape[0] if shape else len(features)} | {name: len(one) for name, one in arrays.items()}
        if any(one.ndim != 1 for one in arrays.values()) or len(set(lengths.values())) > 1:
            what = "X and y have rows for different items" if classes.ndim == 1 else "y has several columns"
            raise AlignmentError(what, where, ", ".join(f"{name}: {length}" for name, length in lengths.items()))
        several = np.unique(classes)
        if pos_label is not None or several.size <= 2:
            pos_label = _positive_class(several, pos_label, where)
        repeats = None
        if cv is not None:
            selection = _sklearn("model_selection")
            if clusters is not None and isinstance(cv, int):
                cv = selection.StratifiedGroupKFold(cv)
            splitter = selection.check_cv(cv, classes, classifier=True)
            # Made once: a splitter that shuffles without a seed would give every classifier other folds.
            splits = list(splitter.split(features, classes, clusters))
            if clusters is not None:
                named = np.asarray(clusters)
                common = (np.intersect1d(named[fitted], named[scored]).tolist() for fitted, scored in splits)
                if parted := {cluster for clusters_of_split in common for cluster in clusters_of_split}:
                    what = "this splitter parts clusters: some of their items are fitted to, others scored"
                    received = f"{len(parted)} of {np.unique(named).size} clusters: {few(map(repr, sorted(parted)))}"
                    remedy = "use cv=StratifiedGroupKFold(5), GroupKFold(5), or a number; or leave out clusters"
                    raise InvalidInputError(what, where, received, "whole clusters", remedy)
            repeats = _repeats(splits, len(classes), where)
            if pos_label is None and len(repeats) > 1:
                what, allowed = "repetitions are for two classes", "one fold for each item, or pos_label=..."
                received = f"{len(repeats)} repetitions, {several.size} classes"
                remedy = "name the positive class, or use a splitter without repetition: StratifiedKFold"
                raise InvalidInputError(what, where, received, allowed, remedy)
        weight = None if weight is None else np.asarray(weight, np.float64)
        return cls(where, features, classes, weight, clusters, repeats, pos_label)

    @property
    def wanted(self) -> Any:
        """The classes that are scored."""
        return np.unique(self.classes) if self.pos_label is None else [self.pos_label]

    def template(self, models: list[str]) -> xr.Dataset:
        """Return the data set, its scores described but not yet computed."""
        n_items = len(self.classes)
        lead: dict[str, Any] = {MODEL: models} | ({} if self.pos_label is not None else {CLASS: self.wanted})
        lead |= {REPEAT: range(len(self.repeats))} if self.repeats and len(self.repeats) > 1 else {}
        label = self.classes if self.pos_label is None else (self.classes == self.pos_label).astype(np.int8)
        fold = None if self.repeats is None else np.zeros((len(self.repeats), n_items), np.int64)
        for repeat, splits in enumerate(self.repeats or ()):
            for number, (_, scored) in enumerate(splits):
                fold[repeat, scored] = number  # type: ignore[index]
        fold = fold[0] if fold is not None and len(fold) == 1 else fold
        clusters = None if self.clusters is None else np.asarray(self.clusters)
        sizes = {dim: len(names) for dim, names in lead.items()} | {ITEM: n_items}
        variables: dict[str, Any] = {"score": chunks.empty_variable(sizes, np.float64)}
        for name, values in {"label": label, "weight": self.weight, "cluster": clusters, "fold": fold}.items():
            if values is not None:
                variables[name] = ((REPEAT, ITEM)[2 - np.ndim(values) :], values)
        index = getattr(self.features, "index", None)
        names = list(index) if index is not None and not callable(index) else list(range(n_items))
        items = {} if names == list(range(n_items)) else {ITEM: [str(name) for name in names]}
        return validate.with_label_of_each_class(xr.Dataset(variables, coords=items | lead))  # type: ignore[return-value]


def _positive_class(classes: np.ndarray, pos_label: Any, where: str) -> Any:
    """Return the positive class: the given one, or 1 if that is clear."""
    if pos_label is not None:
        return pos_label
    if classes.dtype.kind in "biuf" and any(set(classes.tolist()) <= plain for plain in _PLAIN_CLASSES):
        return 1
    received, allowed = f"classes {few(map(repr, classes.tolist()))}", "0 and 1, -1 and 1, or False and True"
    raise InvalidInputError("the positive class is not given", where, received, allowed, "name it: pos_label=...")


def _repeats(splits: Splits, n_items: int, where: str) -> list[Splits]:
    """Part folds into repetitions, each of which scores every item once."""
    repeats: list[Splits] = [[]]
    times = np.zeros(n_items, np.int64)
    for split in splits:
        if (times == len(repeats)).all():  # the next repetition begins
            repeats.append([])
        times[split[1]] += 1
        repeats[-1].append(split)
        if (times > len(repeats)).any():
            break
    if (times != len(repeats)).any():
        received = f"{int((times == 0).sum())} items in no fold, {int((times > 1).sum())} in several"
        remedy = "use a splitter that parts the items: StratifiedKFold, GroupKFold, RepeatedStratifiedKFold"
        raise InvalidInputError("folds must hold every item once, in each repetition", where, received, remedy=remedy)
    return repeats


def _sklearn(module: str) -> Any:
    return checks.require(f"sklearn.{module}", "sklearn")
