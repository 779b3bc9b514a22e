"""What is left to do at the place of a result: all of a plan, or what a finished result lacks of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer

from aucpr_dask.evaluation.results import KIND
from aucpr_dask.runs.ledger import Ledger, digest_of_root, identity_of
from aucpr_dask.runs.planning import Plan
from aucpr_dask.scores.store import stored_digests
from aucpr_dask.storage import stores
from aucpr_dask.storage.backends import delete_value, get_values, open_backend
from aucpr_dask.storage.claims import CLEARING, FINISHED, GROWING, LAYING_OUT, RUNNING, State

Label = tuple[str, str, tuple[slice, ...], NDArray[Any]]  # data set, variable, where in it, values


@dataclass(frozen=True)
class Step:
    """Tasks and everything else that is written, which becomes visible at once, at the end.

    Parameters
    ----------
    plan : Plan
        With the tasks of the step.
    state : State
        Which the step begins with.
    documents : mapping
        Metadata and small variables, by key.
    root_document : Buffer
        It makes the step visible.
    digests : mapping
        Of the rankings that the result has then.
    labels : tuple
        The names of what is new in a result that grows.
    clears : bool
        Whether what is in the place is removed first.
    """

    plan: Plan
    state: State
    documents: Mapping[str, Buffer]
    root_document: Buffer
    digests: Mapping[str, NDArray[np.uint64]]
    labels: tuple[Label, ...] = ()
    clears: bool = False

    @classmethod
    def whole(cls, plan: Plan, target: str, *, clears: bool = False) -> Step:
        """Return the step that evaluates all of a plan, or the rest of it."""
        documents, root = stores.laid_out(plan.template, KIND, target)
        state = State(LAYING_OUT, "", identity_of(plan.parameters), digest_of_root(root), plan.parameters)
        return cls(plan, state, documents, root, stored_digests(plan.unread), clears=clears)

    @classmethod
    def growing(
        cls,
        plan: Plan,
        documents: Mapping[str, Buffer],
        root: Buffer,
        digests: Mapping[str, NDArray[np.uint64]],
        labels: tuple[Label, ...],
    ) -> Step:
        """Return the step that extends a finished result."""
        end = digest_of_root(root)
        identity = identity_of({**plan.parameters, "end": end})
        # Named after what it writes, so that two calls that begin at once share their tasks.
        return cls(plan, State(GROWING, identity, identity, end, plan.parameters), documents, root, digests, labels)

    def begin(self, target: str, ledger: Ledger) -> bool:
        """Write everything but the numbers, unless that was done before; return whether this step had begun.

        A run of the same plan may be doing the same, or may have been killed while it did: both write identical
        documents. A run that is being replaced stops.

        Raises
        ------
        StoreError
            If there is something else in the place by now.
        OtherRunError
            If another run of this plan has finished there by now.
        """
        with stores.explaining_writes(target, ledger):
            found = State() if self.clears else ledger.recorded()
            is_ours = found.identity == self.state.identity
            clears = self.clears or (is_ours and found.word == CLEARING)
            if is_ours and found.word == RUNNING and not clears:
                ledger.join()
                return True
            has_begun = self._claim(target, ledger, found, clears=clears)
            backend = open_backend(target)
            stores.write_documents(backend, self.documents)
            for path, name, where, values in self.labels:
                stores.open_array(backend, path, name)[where] = values
            ledger.record_digests(self.digests)
            if self.state.word != GROWING:
                if clears:  # the run that was stopped may have been about to finish
                    delete_value(backend, stores.ROOT_DOCUMENT)
                ledger.start(self.state)
        return has_begun

    def _claim(self, target: str, ledger: Ledger, found: State, *, clears: bool) -> bool:
        """Take the place for this step; return whether a run of the same plan had it."""
        if self.state.word == GROWING:
            if found.word == GROWING and found.identity == self.state.identity:
                ledger.join()
                return True
            if found.word == FINISHED and found.plan == self.state.plan:
                raise ledger.other_run()
            ledger.take_over(replace(self.state, by_others=found.by_others))
            ledger.drop_records()
        elif clears:
            stores.make_room(target, ledger, self.state, overwrite=True)
        else:
            stores.refuse_others(target, ledger, self.state.identity)
            return ledger.claim(self.state)
        return False

    def finish(self, target: str, ledger: Ledger) -> None:
        """Make the step visible; a document that is no longer as it was written is written again."""
        backend, keys = open_backend(target), list(self.documents)
        found = zip(keys, get_values(backend, keys), strict=True)
        lost = [key for key, one in found if one is None or one.to_bytes() != self.documents[key].to_bytes()]
        stores.write_documents(backend, {key: self.documents[key] for key in lost})
        ledger.record_digests(self.digests)
        ledger.finish(replace(self.state, plan=self.plan.parameters), self.root_document, self.documents)
