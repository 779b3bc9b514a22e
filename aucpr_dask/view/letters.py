"""Tables for papers: means of several measures, with letters for the models that are significantly worse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Unpack

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Group
from rich.text import Text

from aucpr_dask.errors import InvalidInputError, brief, few, naming, printable
from aucpr_dask.evaluation.api import evaluate
from aucpr_dask.evaluation.arrays import takes_arrays
from aucpr_dask.evaluation.results import groups_as_data_sets
from aucpr_dask.inference import aggregating, comparing, designs, questions, samples, sentences
from aucpr_dask.interplay.exporting import free_file, written_whole
from aucpr_dask.schema import choices, terms
from aucpr_dask.schema.checks import truth
from aucpr_dask.schema.options import CONVENTION, READINGS, ComparisonOptions, EvaluationOptions, option_names
from aucpr_dask.view import rankings, reprs
from aucpr_dask.view.tables import Column, Sheet, bounds, markdown_rows, number

_TEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\^{}", "\\": r"\textbackslash{}"}
)
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\|*_`<>[]"})


@dataclass(frozen=True, repr=False)
class Letters:
    """A table of means; :func:`letters` makes it.

    Attributes
    ----------
    means : pandas.DataFrame
        A row for each model, the best by the first measure first, and a column for each measure.
    worse : pandas.DataFrame
        Of the same shape: the letters of the models that are significantly worse.
    names : pandas.Series
        The model of each letter.
    caption : str
        What was averaged and how it was tested.
    bounds : pandas.DataFrame, optional
        With ``intervals=True``, a pair of columns, lower and upper, for each measure.
    lower_is_better : tuple of str
        The measures of which less is better; the best mean by each measure is bold in LaTeX and Markdown.
    """

    means: pd.DataFrame
    worse: pd.DataFrame
    names: pd.Series
    caption: str
    bounds: pd.DataFrame | None = None
    lower_is_better: tuple[str, ...] = ()

    def _rows(
        self, cell: Callable[[str, str, str], str], name: Callable[[str], str], bold: str = "{}"
    ) -> list[list[str]]:
        """Return heads, and the letter, the name and the means of each model: from a mean, letters and an interval."""
        best = self.means.max().where(~self.means.columns.isin(self.lower_is_better), self.means.min())
        rows = [["", "model", *(name(printable(str(measure))) for measure in self.means)]]
        for letter, model in self.names.items():
            row = [str(letter), name(printable(str(model)))]
            for measure, worse in self.worse.loc[model].items():
                ends = None if self.bounds is None else self.bounds[measure].loc[model]
                between = "" if ends is None else f" {bounds(ends)}"
                mean = self.means[measure][model]
                shown = number(mean) if mean != best[measure] else bold.format(number(mean))
                row.append(cell(shown, str(worse), between))
            rows.append(row)
        return rows

    def to_latex(self, label: str = "tab:results") -> str:
        r"""Return a LaTeX table with a caption and a label, which needs the package booktabs."""
        escaped = methodcaller("translate", _TEX)
        marks = lambda mean, worse, between: f"${mean}{f'^{{{worse}}}' if worse else ''}${between}"  # noqa: E731
        rows = self._rows(marks, escaped, r"\mathbf{{{}}}")
        rows[0][1] = "Model"
        head, *lines = (" & ".join(row) + r" \\" for row in rows)
        start = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(self.caption)}}}", rf"\label{{{label}}}"]
        start += [rf"\begin{{tabular}}{{ll{'l' * self.means.shape[1]}}}", r"\toprule", head, r"\midrule"]
        return "\n".join([*start, *lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])

    def to_markdown(self) -> str:
        """Return a Markdown table, with the caption below it."""
        escaped = methodcaller("translate", _MARKDOWN)
        marks = lambda *cell: cell[0] + (f" <sup>{cell[1]}</sup>" if cell[1] else "") + cell[2]  # noqa: E731
        return "\n".join([*markdown_rows(self._rows(marks, escaped, "**{}**"), "---"), "", self.caption, ""])

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for each model, with its letter, its means, and of each the letters of worse models."""
        columns: dict[Any, Any] = {"letter": self.names.index, "model": self.names.to_numpy()}
        for measure in self.means:
            columns[measure] = self.means[measure].to_numpy()
            if self.bounds is not None:
                ends = self.bounds[measure].reindex(self.means.index)
                columns |= {f"{measure} {end}": ends[end].to_numpy() for end in terms.BOUNDS}
            columns[f"{measure} better than"] = self.worse[measure].to_numpy()
        return pd.DataFrame(columns)

    def save(self, path: str | Path, *, label: str = "tab:results", overwrite: bool = False) -> Path:
        """Write the table to a file, ``.tex``, ``.md`` or ``.csv``.

        Parameters
        ----------
        path : str or Path
            The file.
        label : str
            Of a LaTeX table.
        overwrite : bool
            Whether to replace a file at `path`.

        Returns
        -------
        Path
        """
        place = free_file(path, overwrite=overwrite)
        texts: dict[str, Callable[[], str]] = {
            ".tex": lambda: self.to_latex(label),
            ".md": self.to_markdown,
            ".csv": lambda: self.to_dataframe().to_csv(index=False),
        }
        if place.suffix not in texts:
            what, remedy = "the format is not clear from the suffix", "name the file table.csv, table.tex or table.md"
            raise InvalidInputError(what, place, repr(place.suffix), ", ".join(texts), remedy)
        written_whole(lambda file: file.write_text(texts[place.suffix](), encoding="utf-8"), place)
        return place

    def sheet(self) -> Sheet:
        """Return the table for a terminal or a notebook."""
        rows = self._rows(lambda mean, worse, between: f"{mean}{between} {worse}".rstrip(), str)
        return Sheet([Column(head, cells, name=head == "model") for head, *cells in zip(*rows, strict=True)])

    def __repr__(self) -> str:
        return reprs.plain_text(Group(self.sheet(), Text(""), Text(self.caption)))

    def _repr_html_(self) -> str:
        return self.sheet().as_html(self.caption)


@takes_arrays
def letters(data: xr.Dataset, *, intervals: bool = False, **options: Unpack[choices.ComparingMeasures]) -> Letters:
    """Make the table of a paper: means, with letters for models that are worse.

    Each model has a letter. Behind a mean stand the letters of the models that are significantly worse by this
    measure, over all pairs of models together; each measure is a family of its own.

    Parameters
    ----------
    data : xarray.Dataset, or arrays of scores with their labels
        Scores as :func:`compare` takes them, or a result of :func:`evaluate`, :func:`evaluate_runs` or
        :func:`from_values`, of one or several estimators or measures.
    intervals : bool
        Whether to show the interval of each mean, as :func:`aggregate` gives it.
    **options
        Of :func:`compare`: `over`, `method`, `adjust`, `level`, `n_resamples`, `seed`, `incomplete`; and with scores
        those of :func:`evaluate`: `estimator`, `by`, `missing` and so on.

    Returns
    -------
    Letters
        Prints as a table; ``save("table.tex")`` and ``save("table.md")`` write it.

    Examples
    --------
    >>> import numpy as np, pandas as pd, aucpr_dask as ap
    >>> easy = np.linspace(0.2, 0.6, 12)
    >>> wave = 0.02 * np.sin(np.arange(12.0))
    >>> rows = {"topic": [f"q{i}" for i in range(12)], "bm25": easy, "dense": easy + 0.2 + wave, "hybrid": easy + 0.21}
    >>> table = ap.letters(ap.from_values(pd.DataFrame(rows), measure="nDCG@10"))
    >>> table.worse["nDCG@10"].to_dict()
    {'hybrid': 'c', 'dense': 'c', 'bm25': ''}
    """
    asked: dict[str, Any] = {**options}
    common: Any = data  # a result knows its scores while somebody keeps them
    if isinstance(data, xr.Dataset) and "score" in data:
        of_scores = (option_names(EvaluationOptions) - option_names(ComparisonOptions)) | {"estimator", CONVENTION}
        own = {name: asked.pop(name) for name in of_scores & {*asked}}
        reading = {name: own[name] for name in READINGS if name in own}
        asks = ComparisonOptions.among(asked), EvaluationOptions.of(**reading)
        common = questions.on_common_items(data, *asks)
        data = evaluate(common, **({} if intervals else {"interval": ()}) | own)
        data = data.assign_attrs(questions.counts_of_items(common))
    if not isinstance(data, xr.Dataset) or "estimate" not in data or terms.MODEL not in data["estimate"].dims:
        what = "this is not a result of several models"
        remedy = "pass one data set that evaluate or from_values returns"
        raise InvalidInputError(what, "argument 'data'", type(data).__name__, "a Dataset with 'estimate'", remedy)
    if "estimator" in asked:
        what = "a table compares all models by all measures of a result"
        raise InvalidInputError(what, "option 'estimator'", brief(asked["estimator"]), remedy="leave it out")
    names: list[Any] = [*designs.estimators_of(data)] or [None]
    columns = _columns(data, names, asked)
    first = next(iter(columns.values()))
    means = pd.DataFrame({key: one["estimate"].to_series() for key, one in columns.items()})
    means.index = means.index.map(str)
    means = means.iloc[np.argsort(-designs.direction(first.attrs) * means.iloc[:, 0].to_numpy(), kind="stable")]
    has_letters = len(means) <= len(ascii_lowercase)
    signs = list(ascii_lowercase[: len(means)]) if has_letters else [str(i + 1) for i in range(len(means))]
    between, worse = "" if has_letters else ",", dict[str, list[str]]()
    for key, one in columns.items():
        worse[key] = [""] * len(means)
        if "difference" in one:
            is_worse = (one["difference"] > 0) & (one["p_adjusted"] <= 1 - one.attrs["level"])
            rows = is_worse.transpose(terms.MODEL, ...).to_pandas()
            rows = rows.reindex(index=means.index, columns=means.index, fill_value=False)
            worse[key] = [between.join(itertools.compress(signs, row)) for _, row in rows.iterrows()]
    caption, bounds = sentences.of_letters(data, columns, questions.unit_dim(data), len(means)), None
    if truth(intervals, "intervals"):
        if len(columns) > len(names):
            what, remedy = "a table of groups shows no intervals", "leave out intervals, or select a group"
            raise InvalidInputError(what, "option 'intervals'", repr(intervals), "a result without groups", remedy)
        bounds, method = _bounds(data, names, asked)
        caption += f" Brackets: {terms.percent(asked.get('level', 0.95))} intervals ({method})."
    lower = tuple(key for key, one in columns.items() if designs.direction(one.attrs) < 0)
    return Letters(means, pd.DataFrame(worse, means.index), pd.Series(means.index, signs), caption, bounds, lower)


def _columns(data: xr.Dataset, names: Sequence[Any], asked: Mapping[str, Any]) -> dict[str, xr.Dataset]:
    """Return the comparison of all models by each measure, in each group; of one model or query, the means alone."""
    dim = questions.unit_dim(data)
    is_plain = {*data["estimate"].dims} <= {terms.MODEL, dim, terms.ESTIMATOR, terms.MEASURE}
    columns = {}
    for name in names:
        measure = designs.measured(data.attrs, name)
        if is_plain and (data.sizes[terms.MODEL] < 2 or (dim is not None and data.sizes[dim] < 2)):
            mean = designs.with_estimators(data)["estimate"].sel({terms.ESTIMATOR: name})
            mean = mean.mean(dim) if dim is not None else mean
            columns[measure] = mean.drop_vars(mean.coords.keys() - {terms.MODEL}).to_dataset(name="estimate")
            columns[measure].attrs = data.attrs | {terms.MEASURE: name}
            continue
        part, gaps = data, list[str]()
        if len(names) > 1:  # models that lack all of a measure have no place in its column
            part = samples.of_models_here(data, name)
            lacking = data.get_index(terms.MODEL).difference(part.get_index(terms.MODEL), sort=False)
            gaps = [f"without {few(list(map(repr, map(str, lacking))))}"] if lacking.size else []
        with naming("measure", repr(measure) if len(names) > 1 else ""):
            found = groups_as_data_sets(comparing.compare(part, estimator=name, **asked))
        for path, one in terms.nodes_of(found):
            if "by" not in one.attrs or one["estimate"].notnull().any():
                said = "; ".join(filter(None, [*gaps, sentences.fact(one, samples.GAPS)]))
                columns[", ".join(filter(None, [measure, path]))] = one.assign_attrs({samples.GAPS: said})
    return columns


def _bounds(data: xr.Dataset, names: Sequence[str], options: Mapping[str, Any]) -> tuple[pd.DataFrame, str]:
    """Return the intervals of all means, and how they are made."""
    kept = {name: options[name] for name in ("level", "incomplete") if options.get(name) is not None}
    has_units = questions.unit_dim(data) == terms.QUERY
    bounds, methods = {}, dict[str, None]()
    for name in names:
        part = samples.of_models_here(data, name) if len(names) > 1 else data
        given = designs.with_estimators(aggregating.aggregate(part, **kept) if has_units else part)
        if others := [str(dim) for dim in given["estimate"].dims if dim not in (terms.MODEL, terms.ESTIMATOR)]:
            what, remedy = "a table of means over these shows no intervals", "leave out intervals"
            allowed = "means over queries, or areas"
            raise InvalidInputError(what, "option 'intervals'", ", ".join(others), allowed, remedy)
        one = rankings.with_interval_of(given.sel({terms.ESTIMATOR: [name]}), name)
        one = one.isel({terms.METHOD: 0}, missing_dims="ignore")
        ends = one["interval"].squeeze(terms.ESTIMATOR).transpose(terms.MODEL, terms.BOUND)
        methods[terms.in_words(str(given.attrs["method"] if has_units else one[terms.METHOD].item()))] = None
        for place, end in enumerate(terms.BOUNDS):
            bounds[designs.measured(data.attrs, name), end] = ends.isel({terms.BOUND: place}).to_series()
    return pd.DataFrame(bounds), ", ".join(methods)
