"""What a file holds: which of its columns are what, by their names and values, and which commands answer what."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aucpr_dask.errors import AucprError, FileFormatError, few, printable
from aucpr_dask.interplay.frames import FRAME, arrow_table
from aucpr_dask.interplay.value_columns import is_measure, is_no_value
from aucpr_dask.interplay.value_tables import HTML, MARKDOWN
from aucpr_dask.interplay.values import from_values, taken_in_words
from aucpr_dask.schema import terms
from aucpr_dask.scores.importing.files import LONGEST_LINE, reading
from aucpr_dask.scores.importing.table_files import ArrowTable, Batch, open_table
from aucpr_dask.scores.importing.tables import holds_labels, kind_of
from aucpr_dask.scores.importing.trec import column_role

NAMES = {
    "label": "label labels y y_true ytrue y_test target truth true true_label true_class gold outcome relevant "
    "relevance class actual event observed observation obs occurrence fraud is_fraud churn diagnosis",
    "model": "model system run method classifier ranker",
    "score": "score prediction prob probability y_score y_pred value logit forecast fcst predicted",
    "item": "id item item_id name document doc docid doc_id sample sample_id index instance instance_id example_id "
    "row_id",
    "query": "query qid query_id topic topic_id question",
    "dataset": "dataset data_set dataset_id task benchmark collection corpus",
    "clusters": "cluster group patient patient_id subject subject_id participant user user_id family speaker session "
    "session_id",
    "fold": "fold cv_fold split",
    "repeat": "repeat rep",
    "weight": "weight weights sample_weight",
}
ROLES = {name: role for role, names in NAMES.items() for name in names.split()}
LABEL_WORDS = {"label", "target", "truth", "actual", "gold"}  # in longer names, too
SCORE_WORDS = {"score", "prob", "proba", "probs", "probability", "pred", "prediction", "logit", "logits"}
NOT_CALLED = "not called a score, as others are"
REST = "1 \N{MINUS SIGN} "  # before the name of the column of the other class
TRUE = {"1", "1.0", "true"}
ANSWERS = ({"yes", "no"}, {"positive", "negative"}, {"pos", "neg"})
MOST_GROUPS, LEAST_OF_GROUP = 50, 5
ARRAYS = (".npz", ".npy", ".nc", ".nc4", ".cdf", ".h5", ".hdf5")
RARER = "the rarer one is taken for positive: --pos-label "
ONE_VALUE = "each model has one value of a measure: to compare them takes values of each query or task"
WITH_COMMAS = "numbers with a decimal comma: write a point, or pandas.read_csv(file, sep=';', decimal=',')"
PERCENTS = "numbers with a percent sign: write them without it"
WITH_GAPS = "decimal numbers, with gaps: --missing says what these mean"


@dataclass(frozen=True)
class Role:
    """Columns that are taken for one thing, and why."""

    role: str
    columns: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Recognised:
    """What a file holds, what its columns are taken for, and the commands that answer questions about it."""

    path: str
    kind: str
    roles: tuple[Role, ...]
    commands: tuple[tuple[str, tuple[str, ...]], ...]
    holds: str = "other"  # or "predictions", scores with labels; or "values" of a measure

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.kind}"]
        lines += [f"  {one.role}: {few(map(repr, one.columns), 12)} ({one.why})" for one in self.roles]
        lines += [f"{question}: aucpr-dask {shlex.join(words)}" for question, words in self.commands]
        return "\n".join(map(printable, lines))


class Taken(dict[str, tuple[str, str]]):
    """What each column is taken for, and why; those of one role stand in the order in which they got it."""

    def of(self, *roles: str) -> list[str]:
        """Return the columns of these roles."""
        return [name for role in roles for name, (own, _) in self.items() if own == role]

    def move(self, columns: Mapping[str, str], role: str = "metadata") -> None:
        """Take columns for something else, each for its reason."""
        for column, why in columns.items():
            del self[column]
            self[column] = role, why

    def listed(self) -> tuple[Role, ...]:
        """Return the columns by role and reason."""
        order = ("label", "model", "score", "models", "item", "query", "dataset", "clusters", "by", "fold")
        alike = dict[tuple[str, str], list[str]]()
        for name in self.of(*order, "repeat", "weight", "metadata"):
            alike.setdefault(self[name], []).append(name)
        return tuple(Role(role, tuple(names), why) for (role, why), names in alike.items())


def recognise(path: str) -> Recognised:
    """Say what a file holds, by its first rows."""
    file = Path(path)
    if file.suffix.lower() in ARRAYS:
        commands = (("keep it as a store", ("import", "arrays", path, "scores.zarr")),)
        return Recognised(path, "arrays", (), commands)
    with reading(file) as stream:
        cells = stream.readline(LONGEST_LINE).decode("utf-8", "replace").split()
    if len(cells) == 6 and cells[1].upper() == "Q0":
        return _lists(path, "a TREC run: topic, Q0, document, rank, score, tag", is_run=True)
    if len(cells) == 4 and re.fullmatch(r"-?\d+", cells[3]) and re.fullmatch(r"Q?\d+", cells[1]):
        return _lists(path, "TREC judgments: topic, iteration, document, grade", is_run=False)
    if file.suffix.lower() in (*MARKDOWN, *HTML):
        return _of_values(path, Taken())
    try:
        table = open_table(file)
        of_lists = {column_role(name): name for name in table.columns}
        if len(table.columns) == 3 and {*of_lists} == {"topic", "document", "value"}:
            is_run = ROLES.get(_plain(of_lists["value"])) == "score"
            return _lists(path, f"{'a run' if is_run else 'judgments'}: {', '.join(table.columns)}", is_run=is_run)
        batch, taken = _columns_of(table)
    except AucprError:  # perhaps JSON
        return _of_values(path, Taken())
    if batch is None:
        return Recognised(path, "a table without rows", (), ())
    if _has_predictions(batch, taken):
        return _of_predictions(path, taken)
    return _of_classes(path, batch, taken) or _of_values(path, taken)


def predictions_in(data: Any) -> Recognised | None:
    """Return what a data frame, or the file of a table, is taken for, if it holds scores with labels."""
    is_file = isinstance(data, str | Path)
    try:
        table = open_table(Path(data)) if is_file else ArrowTable.of_table(arrow_table(data), FRAME)
        batch, taken = _columns_of(table)
    except (AucprError, OSError):  # not a table that can be read: reading it reports why
        return None
    has_any = batch is not None and _has_predictions(batch, taken)
    return _of_predictions(str(data) if is_file else "TABLE", taken) if has_any else None


def _columns_of(table: Any) -> tuple[Batch | None, Taken]:
    """Return the first rows of a table, and what its columns are taken for."""
    batch = next(table.batches([name for name in table.columns if name]), None)
    return batch, Taken() if batch is None else _taken(batch, table.index)


def _has_predictions(batch: Batch, taken: Taken) -> bool:
    """Whether a table has a column that is called like labels, or one of label values together with scores."""
    labels, has_scores = taken.of("label"), bool(taken.of("models", "score"))
    models = [name for name in batch.cells if ROLES.get(_plain(name)) == "model"]
    # A board has a row for each model, or a value of each model and task that is 1 or 0.
    is_board = models and (not has_scores or any(len(batch.text(name)[1]) == batch.n_rows for name in models))
    return (any(map(_is_called_label, labels)) or (bool(labels) and has_scores)) and not is_board


def recognise_archive(url: str) -> Recognised:
    """Say which variables of a Zarr store of another program look like scores and labels, by their types and names."""
    from aucpr_dask.scores.importing.arrays import opened_by_xarray

    nodes = [node for _, node in terms.nodes_of(opened_by_xarray(url, "zarr", chunks=None))]
    variables = {str(name): one for node in nodes for name, one in node.data_vars.items()}
    floats = [name for name, one in variables.items() if one.dtype.kind == "f"]
    whole = [name for name, one in variables.items() if one.dtype.kind in "biu"]

    def best(names: Sequence[str], role: str) -> str | None:
        return next((name for name in names if ROLES.get(_plain(name)) == role), names[0] if len(names) == 1 else None)

    score, label = best(floats, "score"), best(whole, "label")
    about = {name: f"{one.dtype} over {', '.join(map(str, one.dims))}" for name, one in variables.items()}
    roles = [Role(role, (name,), about[name]) for role, name in (("score", score), ("label", label)) if name]
    roles += [Role("variable", (name,), why) for name, why in about.items() if name not in (score, label)]
    if score is None or label is None:
        return Recognised(url, "a Zarr store of another program", tuple(roles), ())
    dims = [str(dim) for dim in variables[label].dims if dim in variables[score].dims]
    options = ("--score", score, "--label", label, "--dim", ",".join(dims))
    commands = (
        ("areas, with intervals", ("evaluate", url, "result.zarr", *options)),
        ("which models differ", ("compare", url, *options)),
        ("which ranks each may have", ("rank", url, *options)),
        ("one page", ("report", url, *options)),
    )
    kind = f"a Zarr store of another program, whose items may lie along {', '.join(dims)}; what --dim lacks is kept"
    return Recognised(url, kind, tuple(roles), commands)


def _lists(path: str, kind: str, *, is_run: bool) -> Recognised:
    runs, qrels = (path, "QRELS") if is_run else ("RUNS", path)
    asked = "areas of its lists, with judgments" if is_run else "areas of runs"
    return Recognised(path, kind, (), ((asked, ("import", "trec", runs, "scores.zarr", "--qrels", qrels)),))


def _taken(batch: Batch, index: frozenset[str]) -> Taken:
    """Return what the columns of a table are taken for."""

    def n_distinct(*columns: str) -> int:
        """Return how many combinations of their cells the rows have."""
        cells = np.stack([batch.text(column)[0] for column in columns])
        return int(np.unique(cells, axis=1).shape[1])

    taken = Taken({column: _role_of(batch, column, index) for column in batch.cells})
    taken.move(_no_labels(taken))
    for role in ("label", "model", "score", "item", "query", "dataset", "clusters", "fold", "repeat", "weight"):
        named = taken.of(role)
        called = [name for name in named if ROLES.get(_plain(name)) == role]
        called += [name for name in named if role == "label" and _is_called_label(name)]
        best = next(iter([*called, *named]), None)
        taken.move({other: f"{best!r} is taken for the {role}" for other in named if other != best})
    label, model, models = taken.of("label"), taken.of("model"), taken.of("models")
    if label and model and len(batch.text(model[0])[1]) < batch.n_rows and not taken.of("score") and len(models) == 1:
        why = f"the only column of {taken[models[0]][1]}, in a table that names models"
        taken.move({models[0]: why}, "score")
    if not (model and taken.of("score")):  # a column of scores of one model, not of many
        taken.move(dict.fromkeys(taken.of("score"), "decimal numbers"), "models")
        taken.move(dict.fromkeys(model if label else (), "names models, and there is no column of scores"))
    models = taken.of("models")
    others = [name for name in models if not SCORE_WORDS & {*_plain(name).split("_")}]
    if label and len(others) < len(models):
        taken.move(dict.fromkeys(others, NOT_CALLED))
    taken.move(_no_scores(batch, taken))
    for column in taken.of("by") if label else ():
        if n_distinct(column, label[0]) == len(batch.text(column)[1]):
            taken.move({column: "each of its values has one label"})
    if label and taken.of("model") and taken.of("score") and not taken.of("item", "query"):
        own = taken.of("model", "repeat", "dataset")
        once = [column for column in taken.of("by", "metadata") if n_distinct(*own, column) == batch.n_rows]
        taken.move(dict.fromkeys(once if len(once) == 1 else (), "each once for each model"), "item")
    return taken


def _no_scores(batch: Batch, taken: Taken) -> dict[str, str]:
    """Return columns of numbers that say the same as another, or that are not of one class, and why."""
    models = {name: batch.numbers(name) for name in taken.of("models")}
    if not taken.of("label") or not models:
        return {}
    (label,) = taken.of("label")
    codes, words = batch.text(label)
    others = taken.of("metadata", "by")
    guesses = [name for name in others if len(own := batch.text(name)[1]) == 2 and {*own} == {*words}]
    sure = [name for name, values in models.items() if values.min() >= 0.5 and values.max() <= 1]
    if {word.lower() for word in words} & TRUE:  # which columns of other things hold, too
        guesses = [name for name in guesses if {"predicted", *SCORE_WORDS} & {*_plain(name).split("_")}]
    if guesses and sure:
        return dict.fromkeys(sure, f"of the class in {guesses[0]!r}, whichever it is: scores are of one class")
    if len(models) != 2 or not np.allclose(np.add(*models.values()), 1, atol=1e-5):
        return {}
    _, is_text, named = taken[label][1].partition(RARER)
    positive = codes == (words.index(named) if is_text else int(np.argmax([w.lower() in TRUE for w in words])))
    first, second = models
    rises = models[first][positive].mean() >= models[first][~positive].mean()
    kept, other = (first, second) if rises else (second, first)
    return {other: f"{REST}{kept!r}"}


def _is_called_label(name: str) -> bool:
    return ROLES.get(_plain(name)) == "label" or bool(LABEL_WORDS & {*_plain(name).split("_")})


def _no_labels(taken: Taken) -> dict[str, str]:
    """Return columns of label values that are not the labels: not called so, nor alone next to scores."""
    labels, models = taken.of("label"), taken.of("models")
    has_scores = bool(taken.of("score") or (models and not taken.of("model")))
    # Next to "rr" and other measures, "hit@1" is a measure, too.
    has_scores &= not all(is_measure(name) or is_no_value(name) for name in [*labels, *models])
    if any(map(_is_called_label, labels)) or (len(labels) == 1 and has_scores):
        return {}
    whys = {name: taken[name][1] for name in labels}
    told = {name: why.partition(f"; {RARER}")[0] for name, why in whys.items() if len(labels) > 1 or RARER not in why}
    return {name: f"{why}, but is not called like labels" for name, why in told.items()}


def _role_of(batch: Batch, column: str, index: frozenset[str]) -> tuple[str, str]:
    codes, words = batch.text(column)
    if holds_labels(batch, column):
        return "label", f"holds {few(sorted(filter(None, words)))}{' and gaps' * ('' in words)}"
    role, n_distinct, kind = ROLES.get(_plain(column)), len(words), kind_of(batch, column)
    if n_distinct == 2 and (role == "label" or {word.lower() for word in words} in ANSWERS):
        rarer = words[int(np.bincount(codes, minlength=2).argmin())]
        return "label", f"holds {few(map(repr, words))}; {RARER}{rarer}"
    if column in index or (role == "item" and n_distinct == batch.n_rows):
        return "item", "named so, and each once"
    if role in ("weight", "score") and kind == "other":
        role = None
    if role in ("query", "dataset", "clusters", "fold", "repeat", "weight", "model", "score"):
        return role, f"named so; {terms.count(n_distinct, 'value')}"
    if kind == "number":
        return "models", WITH_GAPS if np.isnan(batch.numbers(column)).any() else "decimal numbers"
    is_group = 2 <= n_distinct <= MOST_GROUPS and int(np.bincount(codes).min()) >= LEAST_OF_GROUP
    if is_group:
        return "by", f"{terms.count(n_distinct, 'value')}, each in {LEAST_OF_GROUP} rows or more"
    if kind == "other":
        known = [word.strip() for word in words if word.strip()]
        if known and all(re.fullmatch(r"[0-9.,]+\s*%", word) for word in known):
            return "metadata", PERCENTS
        return "metadata", WITH_COMMAS if batch.has_commas(column) else "text"
    return "metadata", "not scores, by its numbers or its name"


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")


def _of_predictions(path: str, taken: Taken) -> Recognised:
    def named(*roles: str) -> list[str]:
        return [word for role in roles for column in taken.of(role) for word in (f"--{role}", column)]

    (label,), models, is_tidy = taken.of("label"), taken.of("models"), bool(taken.of("model"))
    _, is_text, positive = taken[label][1].partition(RARER)
    options = ["--label", label, *(["--pos-label", positive] if is_text else [])]
    if any(taken[name][1] == NOT_CALLED or taken[name][1].startswith(REST) for name in taken.of("metadata")):
        options += named("models")
    options += named(*(("model", "score") if is_tidy else ()))
    options += named("query", "dataset", "clusters", "fold", "repeat", "weight")
    if is_tidy or taken.of("repeat"):  # items are matched by name
        options += named("item")
    by = [] if taken.of("query") else named("by")[:2]
    source = (path, *options)
    has_gaps = any(taken[name][1] == WITH_GAPS for name in models)
    asked = (*source, *(("--missing", "drop") if has_gaps else ()))
    commands = [("areas, with intervals", ("evaluate", *asked))]
    if is_tidy or len(models) > 1:
        commands.append(("which models differ", ("compare", *asked)))
        commands += [("and in which groups", ("compare", *asked, *by))] if by else []
        commands.append(("which ranks each may have", ("rank", *asked)))
    else:
        commands += [("and in each group", ("evaluate", *asked, *by))] if by else []
    commands += [] if has_gaps else [("one page for the browser", ("report", *source))]
    if len(models) > 1:
        names_of_two = ("--candidate", models[-1], "--baseline", models[0])
        over = ("--over", "dataset") if taken.of("dataset") else ()
        commands.append((f"may {models[-1]} replace {models[0]}", ("gate", *asked, *names_of_two, *over)))
    commands.append(("keep it as a store", ("import", "table", path, "scores.zarr", *options, *by)))
    shape = "a row for each model and item" if is_tidy else "a row for each item, a column for each model"
    if is_tidy and not taken.of("item", "query"):
        shape += "; which column names the items, by which models are matched, is not clear: name it with --item"
    if not models and not is_tidy:
        shape += "; which column holds scores of the positive class is not clear: name it with --models"
    commands = [] if " is not clear: " in shape else commands
    return Recognised(path, f"a table of predictions: {shape}", taken.listed(), tuple(commands), "predictions")


def _of_classes(path: str, batch: Batch, taken: Taken) -> Recognised | None:
    """Return what a table of labels of several classes is taken for: areas take one of them against the others."""
    labels = [name for name in batch.cells if _is_called_label(name) and not taken.of("label")]
    classes = sorted(batch.text(labels[0])[1]) if len(labels) == 1 else []
    if not taken.of("models") or not 2 < len(classes) <= MOST_GROUPS or batch.kind(labels[0]) == "number":
        return None
    listed = few(map(repr, classes), 6)
    if batch.kind(labels[0]) != "other":
        kind = f"a table of predictions with grades or classes, {listed} in {labels[0]!r}; to evaluate it, write 1 for "
        return Recognised(path, f"{kind}those that count as positive, and 0 for the others", taken.listed(), ())
    kind = f"a table of predictions of {len(classes)} classes, {listed} in {labels[0]!r}; to evaluate one against the "
    kind += "others, write 1 for it and 0 for the others, and name its scores by --models"
    return Recognised(path, kind, taken.listed(), ())


def _of_values(path: str, taken: Taken) -> Recognised:
    """Return what a table of values of models is taken for, or why it is not clear."""
    try:
        values = from_values(path)
    except AucprError as error:
        if isinstance(error, FileFormatError) and not taken:
            raise
        what, *parts = str(error).split("\n  ")
        remedies = [part.removeprefix("remedy: ") for part in parts if part.startswith("remedy: ")]
        kind = "as values of models it is not clear"
        kind = f"no column holds labels (1 and 0; --label names another), and {kind}" if taken else kind
        kind += f": {'; '.join([what, *remedies])}"
        return Recognised(path, kind, taken.listed(), ())
    if values.sizes[terms.MODEL] == 1:  # nothing to compare it with
        words = ("import", "values", path, f"OTHER{''.join(Path(path).suffixes[-1:])}", "values.zarr")
        together = (("with the files of other models, as a store", words),)
        return Recognised(path, taken_in_words(values), (), together, "values")
    if values.sizes[terms.QUERY] == 1:  # says nothing about others
        shown = (("means, as a table", ("table", path)), ("one page for the browser", ("report", path)))
        return Recognised(path, f"{taken_in_words(values)}; {ONE_VALUE}", (), shown, "values")
    commands = (
        ("which places are more than chance", ("audit", path)),
        ("which models differ", ("compare", path)),
        ("which ranks each may have", ("rank", path)),
        ("a table with letters of significance", ("table", path)),
        ("one page for the browser", ("report", path)),
        ("keep them as a store", ("import", "values", path, "values.zarr")),
    )
    return Recognised(path, taken_in_words(values), (), commands, "values")
