"""A gate for releases: whether candidates are better, or not worse, than a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import xarray as xr

from aucpr_dask.errors import InvalidInputError, bad_argument, few, for_caller, naming
from aucpr_dask.evaluation.arrays import takes_arrays
from aucpr_dask.evaluation.results import groups_as_data_sets
from aucpr_dask.inference import comparing, covarying, grouped, methods, paired_samples, pairs, requirements, sentences
from aucpr_dask.inference.designs import CORRECTED, ITEMS, RANDOM_EFFECTS, UNITS, reading_of, unit_names
from aucpr_dask.inference.powering import NEAR_ONE, POWER, reaches
from aucpr_dask.inference.questions import answer, parted_options, prepared
from aucpr_dask.inference.random_effects import OTHER_WEIGHTS, RandomEffects
from aucpr_dask.inference.samples import DATASET, labels_of
from aucpr_dask.inference.sentences import BETTER, CANNOT_TELL, NOT_WORSE, WORSE
from aucpr_dask.inference.units import Floats, mean_of_units
from aucpr_dask.schema import choices, terms
from aucpr_dask.schema.checks import fraction, tolerance
from aucpr_dask.schema.options import ComparisonOptions

WIDE_MARGIN = 0.2  # of a measure in [0, 1]
OF_NEAR_ONE = "near 1, a gate over items passes wrongly about twice as often as its level says: 4 to 6 % at level 0.95"


@dataclass(frozen=True, repr=False)
class Gate(terms.Sentences):
    """Whether a candidate may replace a baseline; its ``repr`` is a sentence, and the design on a line of its own.

    Attributes
    ----------
    verdict : {"better", "not worse", "worse", "cannot tell"}
        By the interval.
    difference : float
        Estimate of the candidate minus that of the baseline.
    interval : tuple of float
        Of the difference; of several candidates, simultaneous.
    p_value : float
        Of the two-sided test that the two do not differ; of several candidates, adjusted for all.
    detectable : float
        The smallest true difference that the interval shows with the probability `power`, by its lower bound, or if the
        candidate is worse by its upper one. So it is the smallest margin with which an equally good candidate passes
        with this probability.
    candidate, baseline : str
        Names of the models.
    estimates : tuple of float
        Of the candidate and of the baseline.
    margin, level, power : float
        As asked.
    measure : str
        What is estimated.
    limits : str
        What the design cannot show, in words.
    design : str
        What was sampled, and what is fixed.
    caveat : str
        What may be wrong with a pass, in words: losses on few units that the sample need not show (3 of n by the rule
        of three), areas near 1, a wide margin; or empty.
    lower_is_better : bool
        Whether less of the measure is better; then the difference is by how much the candidate is lower.
    group : str
        The group of items that is judged, if groups are.
    method : str
        Of the comparison, as in :func:`compare`.
    reading : str
        The grade that counts as positive, and the rule for ties, if graded or not the default.
    gaps : str
        What is left out because some models lack it, and which models lack how much, in words.
    sizes : str
        Over data sets whose variances are known, the difference by other weights, and what size does to it, in words.
    by_data_set : dict
        Over data sets, the difference on each.
    group_in_words : str
        What sentences call the group: with the name of the dimension where its label is a number.
    family : int
        How many verdicts, on several candidates or in several groups, have intervals that are simultaneous and p-values
        that are adjusted.
    """

    verdict: str
    difference: float
    interval: tuple[float, float]
    p_value: float
    detectable: float
    candidate: str
    baseline: str
    estimates: tuple[float, float]
    margin: float
    level: float
    power: float
    measure: str
    limits: str
    design: str
    caveat: str = ""
    lower_is_better: bool = False
    group: str = ""
    method: str = ""
    reading: str = ""
    gaps: str = ""
    sizes: str = ""
    by_data_set: dict[str, float] = field(default_factory=dict, hash=False)
    group_in_words: str = ""  # as sentences call it, if not by its labels alone
    family: int = 1

    @property
    def passed(self) -> bool:
        """Whether the candidate is better or not worse."""
        return self.verdict in (BETTER, NOT_WORSE)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self.sentence, self.design]))

    @property
    def sentence(self) -> str:
        """The verdict in words, with the numbers behind it."""
        return sentences.of_gate(self)


class Gates(terms.Sentences, tuple[Gate, ...]):
    """The gates of several candidates, in the order given; its ``repr`` has a sentence for each, and their design."""

    __slots__ = ()

    @property
    def passed(self) -> bool:
        """Whether every candidate is better or not worse."""
        return all(gate.passed for gate in self)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def verdict(self) -> str:
        """The worst verdict of all: worse, cannot tell, not worse or better."""
        return min((gate.verdict for gate in self), key=(WORSE, CANNOT_TELL, NOT_WORSE, BETTER).index)

    def __repr__(self) -> str:
        designs = dict.fromkeys(gate.design for gate in self)
        return "\n".join(filter(None, [*(gate.sentence for gate in self), *designs]))


@takes_arrays
def gate(
    data: terms.Scores,
    candidate: comparing.Baseline,
    baseline: str | int,
    margin: float = 0.0,
    *,
    by: Any = None,
    level: float = 0.95,
    power: float = POWER,
    **options: Unpack[choices.Comparing],
) -> Gate | Gates:
    """Tell whether a candidate is better than a baseline, or at most a margin worse.

    The verdict follows from the interval of the paired difference, candidate minus baseline: *better* if all of it is
    above 0, *not worse* if none of it is below -margin, *worse* if all of it is, and otherwise *cannot tell*. The first
    two pass. The interval is two-sided, so at level 0.95 a candidate that is worse by more than the margin passes with
    a probability of at most 0.025, and one that is not is called worse with at most 0.025; of several candidates, any
    of them. The p-value comes from another distribution, and near the level the two may disagree.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        See :func:`compare`. Only the named models count.
    candidate : label or sequence of labels
        The models to judge. The intervals of several are simultaneous.
    baseline : label
        The model that they would replace.
    margin : float
        How much worse a candidate may be and still pass, in units of the estimate: 0 or more, and below 1 for measures
        in [0, 1], of which one point of 100 is 0.01. Choose it before you look at the data.
    by : str, array, mapping or sequence, optional
        Judge every group of items or queries, as :func:`compare` names them: the intervals of all groups and candidates
        are simultaneous, so each has a higher level than `level` (Bonferroni's), and p-values are Holm's. A group that
        cannot be judged is one about which nothing can be told.
    level : float
        Of the intervals, two-sided.
    power : float
        The probability to which ``detectable`` refers.
    **options
        Options of :func:`compare`: `estimator`, `over`, `method`, `adjust`, `n_resamples`, `seed`,
        `incomplete`; and of :func:`aucpr_dask.evaluate`, if `data` are scores. If their items are the sample, the
        method is by default ``"influence"``, or ``"bootstrap"`` where the estimator or an option has no influences.
        Over data sets whose variances are known it is ``"random_effects"``, with the interval of :func:`compare`.

    Returns
    -------
    Gate or Gates
        With ``verdict``, ``passed``, ``difference``, ``interval``, ``p_value``, ``detectable``; of several candidates
        (a sequence of labels), or of groups, a tuple of these, with ``passed`` and ``verdict`` of all.

    References
    ----------
    Piaggio et al. 2012, doi:10.1001/jama.2012.87802 (non-inferiority).

    Examples
    --------
    >>> import xarray as xr, aucpr_dask as ap
    >>> areas = [[0.2, 0.4, 0.6, 0.3, 0.5, 0.4], [0.21, 0.4, 0.58, 0.31, 0.49, 0.41], [0.1, 0.2, 0.5, 0.1, 0.2, 0.2]]
    >>> result = xr.Dataset({"estimate": (("model", "query"), areas)}, coords={"model": ["old", "new", "tiny"]})
    >>> ap.gate(result, "new", "old", margin=0.08)  # doctest: +NORMALIZE_WHITESPACE
    passed: new is not worse than old by more than 0.08: estimate 0.4000 against 0.4000, difference +0.0000,
    95 % interval -0.0748 to +0.0200, p = 1 by sign flip; over 6 queries, losses on fewer than 50 % of queries may not
    show; if they average 0.01 or more, the candidate would fail; below 30 queries, do not rely on a pass alone
    signs flipped: the differences on 6 queries, each with its items, all 64 choices of signs; fixed: the 2 models;
    exact if differences are jointly symmetric; as differences are skewed, the interval reaches further to one side
    than in compare
    >>> ap.gate(result, "tiny", "old").verdict
    'worse'
    """
    question, rest = parted_options(options, level=level)
    data, question, rest, by = prepared(data, question, rest, by)
    if grouped.has_groups(data, by, question.dims):
        asked = {**options, **rest, "over": question.over, "estimator": question.estimator, "power": power}
        asked |= {"candidate": candidate, "baseline": baseline, "margin": margin}
        return _gates_of_groups(data, by, question, asked)
    allowance, wanted_power = tolerance(margin, "margin"), fraction(power, "power")
    several = isinstance(candidate, Iterable) and not isinstance(candidate, str) and getattr(candidate, "ndim", 1) > 0
    candidates = np.asarray(candidate).tolist() if hasattr(candidate, "dtype") else candidate
    given: list[Any] = [*candidates, baseline] if several else [candidate, baseline]  # type: ignore[misc]
    if question.dim == DATASET:
        data = groups_as_data_sets(data)
    if len(given) < 2:
        raise bad_argument("there is no candidate", "candidate", candidate, "labels of models", "name one or more")
    requirements.check(data, question, rest)  # before models are looked up in it
    paths = [path for path, _ in terms.nodes_of(data)]
    if len(paths) > 1 and question.dim != DATASET:
        received, allowed = f"{len(paths)} data sets: {few(map(repr, paths))}", "one data set, or several as a sample"
        remedy = f"{for_caller('select one', 'name one: --dataset NAME')}; or give over='dataset'"
        raise InvalidInputError("a gate judges one data set", "the first argument", received, allowed, remedy)

    def of_models(path: str, node: xr.Dataset) -> xr.Dataset:
        """Return the named models of a data set, in the order given."""
        index = labels_of(node["estimate" if "estimate" in node else "score"], terms.MODEL)
        with naming("data set", path and repr(path)):
            rows = comparing.positions(given, [str(label) for label in index], "arguments 'candidate' and 'baseline'")
        kept = node.isel({dim: rows for dim in (terms.MODEL, covarying.OTHER_MODEL) if dim in node.dims})
        return kept.assign_coords({terms.MODEL: index[rows]})

    found = list[Gate]()

    def judged(sample: paired_samples.PairedSample) -> xr.Dataset:
        found.extend(_gates(sample, given, allowance, wanted_power))
        return sample.node

    answer(terms.map_nodes(data, of_models), question, rest, judged)
    return Gates(found) if several else found[0]


def _gates_of_groups(data: terms.Scores, by: Any, question: ComparisonOptions, options: dict[str, Any]) -> Gates:
    """Judge each group; the intervals of all are simultaneous."""

    def asked(tree: xr.DataTree, at_level: float) -> tuple[Gate, ...]:
        data_of_group = grouped.with_data_sets(tree, question)
        found = gate(data_of_group, level=at_level, **options)
        return found if isinstance(found, Gates) else (found,)

    def judged(parts: grouped.Parts, answers: list[Any], path: str) -> list[Gate]:
        some = next(gates for gates in answers if not isinstance(gates, InvalidInputError))
        unknown: dict[str, Any] = {"verdict": CANNOT_TELL, "by_data_set": {}, "sizes": ""}
        unknown |= dict.fromkeys(("difference", "p_value", "detectable"), math.nan)
        unknown |= dict.fromkeys(("interval", "estimates"), (math.nan, math.nan))
        found = []
        for labels, name, one in zip(parts.names, parts.in_words, answers, strict=True):
            reason = str(one).split("\n", maxsplit=1)[0] if isinstance(one, InvalidInputError) else ""
            gates = [replace(each, **unknown, limits=reason) for each in some] if reason else one
            names = {"group": terms.name_of_group(labels, path), "group_in_words": terms.name_of_group([name], path)}
            found += [replace(each, **names) for each in gates]
        return found

    of_data_sets = grouped.ask_each(data, by, asked, question, judged)
    found = [gate for gates in of_data_sets.values() for gate in gates]
    known = np.array([place for place, one in enumerate(found) if not math.isnan(one.p_value)])
    adjusted = dict(zip(known.tolist(), pairs.holm(np.array([found[place].p_value for place in known])), strict=True))
    return Gates(
        replace(one, p_value=float(adjusted.get(place, math.nan)), family=known.size) for place, one in enumerate(found)
    )


def _gates(sample: paired_samples.PairedSample, given: Sequence[str | int], margin: float, power: float) -> list[Gate]:
    names, question = sample.estimates.names, sample.question
    if without := [name for name in map(str, sample.estimates.models_left_out) if name in map(str, given)]:
        what, received = "models to judge are left out, because they lack some units", few(map(repr, without))
        remedy = "incomplete='drop' leaves out units in place of models"
        raise InvalidInputError(what, None, received, "a value of each model on every unit that counts", remedy)
    *rows, baseline = comparing.positions(given, names, "arguments 'candidate' and 'baseline'")
    family, single, joint = reaches(sample, np.array(rows), np.full(len(rows), baseline))
    p_value, reach = family.p_value, single
    if len(rows) > 1:
        p_value, reach = methods.adjusted_p_values(sample.method, family, sample.sampling.adjust), joint
    skewness = _skewness(sample, family)
    lower, upper = _sides(reach.reach, skewness / (3 * math.sqrt(sample.estimates.values.shape[1])))
    errors = pairs.sides(family.difference, family.error, family.outer)
    down, up = (pairs.half_widths(family.difference, *side) for side in zip(errors, (lower, upper), strict=True))
    bounds = sample.inside(np.stack([family.difference - down, family.difference + up], axis=-1))
    design, measure = sample.sampled_in_words(), sample.estimator or "estimate"
    if (further := (lower > reach.reach) | (upper > reach.reach)).any():
        whose = "the interval reaches" if further.size == 1 else "intervals reach"
        design += f"; as differences are skewed, {whose} further to one side than in compare"
    sample.refuse_wide(margin, "margin")
    method = sample.method
    sizes = [""] * len(rows)
    if isinstance(method, RandomEffects):
        sizes = [f"{OTHER_WEIGHTS[method.weights]}: {one}" for one in method.sizes_in_words(family)]
    of_sets = dict[str, Floats]()  # the values of the models on each data set, if these vary
    if sample.sampling.dim == DATASET:
        of_sets = dict(zip(map(str, sample.estimates.units), sample.estimates.values.T, strict=True))
    found = []
    for place, row in enumerate(rows):
        low, high = map(float, bounds[place])
        shown = sample.mean[row] - sample.mean[baseline]
        if low > 0:
            verdict = BETTER
        elif low >= -margin:
            verdict = NOT_WORSE
        else:
            verdict = WORSE if high < -margin else CANNOT_TELL
        if (verdict == BETTER and shown < 0) or (verdict == WORSE and shown > 0):
            verdict = CANNOT_TELL  # weights that follow size say the opposite of the means
        side, sign = (upper, -1.0) if verdict == WORSE else (lower, 1.0)
        own = replace(reach, reach=side, skewness=sign * float(skewness[place])).of(place)
        found.append(
            Gate(
                verdict=verdict,
                difference=float(family.difference[place]),
                interval=(low, high),
                p_value=float(p_value[place]),
                detectable=own.detectable(power).item(),
                candidate=names[row],
                baseline=names[baseline],
                estimates=(float(sample.shown[row]), float(sample.shown[baseline])),
                margin=margin,
                level=question.level,
                power=power,
                measure=measure,
                limits=sentences.of_reach(own, power, question.level),
                design=design,
                caveat=_caveat(sample, row, baseline, low, margin),
                lower_is_better=sample.estimates.direction < 0,
                method=sample.sampling.method,
                reading=", ".join(reading_of(sample.node.attrs)),
                gaps="; ".join(sample.gaps),
                sizes=sizes[place],
                by_data_set={name: float(of[row] - of[baseline]) for name, of in of_sets.items()},
                family=len(rows),
            )
        )
    return found


def _caveat(sample: paired_samples.PairedSample, row: int, baseline: int, low: float, margin: float) -> str:
    """Say what may be wrong with a pass: what its sample cannot show, and what its margin allows."""
    shares, said = sample.are_shares, list[str]()
    if sample.sampling.sample != ITEMS:
        n, nouns = sample.estimates.values.shape[1], unit_names(sample.estimates.dim or "", sample.node.attrs)
        said += sentences.of_hidden_losses(n, nouns, low + margin, are_shares=shares)
    elif shares and max(sample.shown[row], sample.shown[baseline]) > NEAR_ONE:
        said.append(OF_NEAR_ONE)
    if shares and margin >= WIDE_MARGIN:
        said.append(f"the margin allows a loss of {terms.percent(margin)} of the whole range")
    return "; ".join(said)


def _skewness(sample: paired_samples.PairedSample, family: methods.Pairs) -> Floats:
    """Return the skewness of each pair's differences over the units; 0 if items are the sample, or variances known."""
    values = sample.estimates.values[family.first] - sample.estimates.values[family.second]
    n, deviations = values.shape[1], values - mean_of_units(values)[:, None]
    if sample.sampling.sample != UNITS or n < 3 or sample.sampling.method in (RANDOM_EFFECTS, CORRECTED):
        return np.zeros(len(values))
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness = mean_of_units(deviations**3) / mean_of_units(deviations**2) ** 1.5
    return np.where(family.error > 0, skewness * math.sqrt(n * (n - 1)) / (n - 2), 0.0)


def _sides(reach: Floats, a: Floats) -> tuple[Floats, Floats]:
    """Return how far the intervals reach down and up, further on the side on which skewed differences err more.

    Over units, an interval that is symmetric errs on one side only if differences are skewed. Hall's transformation
    of Student's t, ``t + a t^2 + a^2 t^3 / 3 + a / 2`` with ``a = skewness / (3 sqrt(n))``, removes most of that.
    """
    known = np.isfinite(reach) & (np.abs(a) > pairs.ROUND_OFF)
    with np.errstate(invalid="ignore", divide="ignore"):
        down, up = ((np.cbrt(1 + 3 * a * (side - a / 2)) - 1) / a * np.sign(side) for side in (reach, -reach))
    return np.maximum(reach, np.where(known, down, 0.0)), np.maximum(reach, np.where(known, up, 0.0))
