"""Evaluate all of a plan into a new result, or the rest of it into an unfinished one."""

from __future__ import annotations

from dataclasses import dataclass

from aucpr_dask.evaluation.results import KIND
from aucpr_dask.runs.ledger import Ledger, differences, identity_of
from aucpr_dask.runs.planning import Plan, Task
from aucpr_dask.scores.store import stored_digests
from aucpr_dask.storage.backends import delete_value, set_value
from aucpr_dask.storage.stores import (
    ROOT_DOCUMENT,
    explaining_writes,
    laid_out,
    make_room,
    open_backend,
    refuse_others,
    write_documents,
)


@dataclass(frozen=True)
class Beginning:
    """A whole result, which becomes visible when all its tasks are done.

    Parameters
    ----------
    plan : Plan
    overwrite : bool
        Whether to replace what is in the place.
    """

    plan: Plan
    overwrite: bool = False

    first_resample = 0

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks of the plan."""
        return self.plan.tasks

    def lay_out(self, target: str, ledger: Ledger) -> bool:
        """Write everything but the numbers, unless that was done before; return whether this run had begun.

        A run with the same plan may be doing the same, or may have been killed while it did: both write identical
        documents. A run that is being overwritten stops.

        Raises
        ------
        StoreError
            If there is something else in the place by now.
        OtherRunError
            If another run with this plan has finished there by now.
        """
        identity = identity_of(self.plan.parameters)
        clears = self.overwrite or ledger.is_being_cleared_for(identity)
        before = None if clears else ledger.plan()
        if before is not None and not differences(before, self.plan.parameters):
            if ledger.root_document() is None:
                raise ledger.other_run()
            return True
        documents, root_document = laid_out(self.plan.template, KIND, target)
        with explaining_writes(target, ledger):
            has_begun = False
            if clears:
                make_room(target, ledger, identity, overwrite=True)
            else:
                refuse_others(target, ledger, identity)
                has_begun = ledger.claim(identity)
            write_documents(open_backend(target), documents)
        ledger.record_digests(stored_digests(self.plan.unread))
        ledger.open(self.plan.parameters, root_document)
        if clears:  # the run that was stopped may have been about to finish
            delete_value(open_backend(target), ROOT_DOCUMENT)
        return has_begun

    def finish(self, target: str, ledger: Ledger) -> None:
        """Make the result visible, unless another run with this plan did."""
        root_document = ledger.root_document()
        ledger.check()
        if root_document is not None:
            set_value(open_backend(target), ROOT_DOCUMENT, root_document)
        ledger.close()
