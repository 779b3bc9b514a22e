"""Prediction-powered means: labels by people on some of the units, and labels by a machine on all of them.

Let y be the estimates by people's labels, of n units, and f those by the machine's, of N units. With b the slope of the
regression of y on f, the mean is estimated by::

    mean(y) - b (mean(f of the n) - mean(f of all N))

This is prediction-powered inference (Angelopoulos et al. 2023, doi:10.1126/science.adi6000). Its tuning parameter, here
``b (N - n) / N``, has the value of smallest variance (Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453). For a mean
it is also the regression estimator of double sampling (Cochran 1977, Sampling Techniques, chapter 12). With r the
residuals and d the difference of the two means of f, its variance is::

    sum(r^2) / (n - 2) [1 / n + d^2 / sum((f - mean(f of the n))^2)] + b^2 var(f) / N

where the second term in brackets is due to the error of the slope. Intervals use Student's t with the n - 2 degrees of
freedom of the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aucpr_dask.inference import families
from aucpr_dask.inference.families import Floats, Indices
from aucpr_dask.inference.families.pairs import PANEL_BYTES, ROUND_OFF, slices
from aucpr_dask.inference.methods import Goal, Pairs, Student
from aucpr_dask.inference.samples import mean_of_units, total_of_units

FEWEST = 3  # units that a regression with residuals needs


@dataclass(frozen=True)
class PoweredMeans:
    """Means of R rows over units, with the help of machine labels."""

    mean: Floats
    error: Floats
    degrees: Floats  # of freedom of the error
    tuning: Floats
    error_alone: Floats  # of the mean over the units that people labelled


def powered_means(people: Floats, machine: Floats, labelled: NDArray[np.bool_]) -> PoweredMeans:
    """Return the means of rows of estimates: by people (R, n) and by machine (R, N), of which n are `labelled`.

    People's labels stand alone (the tuning is 0) if they are on all units or on fewer than three, or if the machine's
    estimates do not vary.
    """
    n_people, n_machine = people.shape[1], machine.shape[1]
    here = machine[:, labelled]
    mean, mean_here, mean_everywhere = mean_of_units(people), mean_of_units(here), mean_of_units(machine)
    deviation, predictor = people - mean[:, None], here - mean_here[:, None]
    squares, squares_alone = total_of_units(predictor**2), total_of_units(deviation**2)
    resolution = n_people * (ROUND_OFF * np.abs(machine).max(axis=1, initial=0.0)) ** 2
    helps = (squares > resolution) & (n_people < n_machine) & (n_people >= FEWEST)
    slope, lever = np.zeros((2, len(people)))
    shift = mean_here - mean_everywhere
    np.divide(total_of_units(predictor * deviation), squares, out=slope, where=helps)
    np.divide(shift**2, squares, out=lever, where=helps)
    degrees = n_people - 1.0 - helps
    residual = total_of_units((deviation - slope[:, None] * predictor) ** 2)
    with np.errstate(invalid="ignore", divide="ignore"):  # a single unit
        noise = residual / degrees
        spread = total_of_units((machine - mean_everywhere[:, None]) ** 2) / (n_machine - 1)
        error = np.sqrt(noise / n_people + noise * lever + np.where(helps, slope**2 * spread / n_machine, 0.0))
        error_alone = np.sqrt(squares_alone / (n_people - 1) / n_people)
    tuning = slope * (n_machine - n_people) / n_machine
    return PoweredMeans(mean - slope * shift, error, degrees, tuning, error_alone)


class PredictionPowered(Student):
    """Paired t test over units that people labelled, each difference adjusted by the machine's on all units."""

    def __init__(self, people: Floats, machine: Floats, labelled: NDArray[np.bool_], goal: Goal) -> None:
        super().__init__(people, goal)
        self.machine, self.labelled = machine, labelled
        self.mean = powered_means(people, machine, labelled).mean
        n_people, n_machine = labelled.sum(), labelled.size
        self.degrees = int(n_people - 1 - (FEWEST <= n_people < n_machine))

    def pairs(self, first: Indices, second: Indices) -> Pairs:
        """Student's t of the adjusted differences, tuned for each pair."""
        difference, error, tuning, alone = np.empty((4, first.size))
        for panel in slices(first.size, 8 * self.labelled.size, PANEL_BYTES):
            j, k = first[panel], second[panel]
            powered = powered_means(self.values[j] - self.values[k], self.machine[j] - self.machine[k], self.labelled)
            difference[panel], error[panel] = powered.mean, powered.error
            tuning[panel], alone[panel] = powered.tuning, powered.error_alone
        reach = families.parametric_quantile(self.goal.level, self.degrees) * error
        reach_alone = families.parametric_quantile(self.goal.level, self.values.shape[1] - 1) * alone
        pairs = self.tested(first, second, difference, error)
        return replace(pairs, tuning=tuning, width_ratio=width_ratio(reach, reach_alone))


def width_ratio(reach: Floats, reach_alone: Floats) -> Floats:
    """Return the width of intervals relative to that from people's labels alone; 1 if that is 0."""
    return np.divide(reach, reach_alone, out=np.ones(reach.shape), where=reach_alone > 0)
