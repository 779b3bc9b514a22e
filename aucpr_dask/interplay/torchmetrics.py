"""Bounds of average precision as a metric of torchmetrics."""

from __future__ import annotations

from typing import Any

import torch
from torchmetrics import Metric

from aucpr_dask.errors import AlignmentError, InvalidInputError
from aucpr_dask.metrics.accumulating import Accumulator, checked_items


class AveragePrecisionBounds(Metric):
    """Certified bounds of average precision in bounded memory, as a metric of torchmetrics.

    Its state is one tensor of integers, the counts of an :class:`aucpr_dask.Accumulator` with fixed bins. Processes add
    theirs up, so the result does not depend on how items are split between them, nor on the order.

    Parameters
    ----------
    memory : int
        Most bytes of the state; see :class:`aucpr_dask.Accumulator`.
    **options
        Those of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> metric = AveragePrecisionBounds()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.3]), torch.tensor([1, 0, 1]))
    >>> metric.compute()
    {'lower': tensor(0.8333, dtype=torch.float64), 'upper': tensor(0.8333, dtype=torch.float64)}
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    counts: torch.Tensor

    def __init__(self, memory: int = 1 << 26, **options: Any) -> None:
        from aucpr_dask.kernels.chunked.bins import precision_of

        super().__init__(**options)
        counts = Accumulator("fixed", memory=memory).counts
        self.memory, self.precision = memory, precision_of(memory)
        self.add_state("counts", torch.from_numpy(counts), dist_reduce_fx="sum")

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """Count items: scores, larger for positives, and labels; see :meth:`aucpr_dask.Accumulator.update`."""
        from aucpr_dask.kernels.chunked.bins import places_in_counts

        if preds.shape != target.shape:
            raise AlignmentError(
                "scores and labels have different shapes",
                where="arguments 'preds' and 'target'",
                received=f"{tuple(preds.shape)} and {tuple(target.shape)}",
                allowed="the same shape",
                remedy="give one label for each score",
            )
        self._check_counts()
        score, is_positive = checked_items(preds.detach().cpu().double().flatten(), target.detach().cpu().flatten())
        for place in places_in_counts(score, is_positive, self.precision):
            its_place = torch.from_numpy(place).to(self.counts.device)
            self.counts.index_add_(0, its_place, torch.ones_like(its_place))

    def _check_counts(self) -> None:
        """Raise if a state of another size has been loaded."""
        size = self._defaults["counts"].numel()
        if self.counts.numel() != size:
            raise InvalidInputError(
                "the state is of a metric with another memory",
                where="state 'counts'",
                received=f"{self.counts.numel():,} counts",
                allowed=f"{size:,} counts",
                remedy="make the metric with the memory of the one whose state it is",
            )

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the bounds, as metrics of torchmetrics do."""
        return self._plot(val, ax)

    def compute(self) -> dict[str, torch.Tensor]:
        """Return ``lower`` and ``upper``; both NaN without positives."""
        self._check_counts()
        total = Accumulator("fixed", memory=self.memory)
        total.counts[:] = self.counts.cpu().numpy()
        bounds = total.compute()
        return {name: torch.tensor(getattr(bounds, name), dtype=torch.float64) for name in ("lower", "upper")}
