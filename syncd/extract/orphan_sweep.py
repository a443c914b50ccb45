"""Orphans: files that no link names and none ever will, found under the numbers of batches that were tried before."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from syncd.errors import LakeUnfit
from syncd.events import EventListener, OrphansSwept
from syncd.lake.keys import batch_prefix, batch_quarantine_prefix, parse_part_batch
from syncd.lake.manifest import Manifest
from syncd.ports.source import PartStore
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.extraction import BatchChain
from watermarks.names import StreamName


class OrphanSweeper:
    """What earlier attempts left under the numbers of batches that were tried more than once."""

    def __init__(self, chain: BatchChain, parts: PartStore, emit: EventListener) -> None:
        self._chain = chain
        self._parts = parts
        self._emit = emit
        self._tried_plans: dict[BatchId, Plan] = {}

    def begin(self, last: BatchId, sealed: Plan | None) -> None:
        """A pass begins: the next number may have a plan already, and who made the last link may not have swept."""
        self._tried_plans.clear()
        self.remember(sealed)
        link = self._chain.read_link(last) if last.seq else None
        plan = self._chain.read_plan(last) if link else None
        # Another owner than the one who planned it carried it out: so it was tried twice.
        if link and plan and (link.kind is BatchKind.ABANDONED or link.epoch != plan.epoch):
            self.remember(plan)

    def remember(self, plan: Plan | None) -> None:
        """A plan that was tried, and may have to be tried again."""
        if plan is not None:
            self._tried_plans[plan.id] = plan

    def remember_plan_of(self, batch: BatchId) -> None:
        """The same, for whatever plan stands at a number."""
        if batch not in self._tried_plans:
            self.remember(self._chain.read_plan(batch))

    def sweep(self) -> None:
        """Remove what lies under numbers that are links by now; what has none yet may still be somebody's work.

        Raises:
            LakeDown, LakeUnfit: something is still there. It stays noted.
        """
        for plan in tuple(self._tried_plans.values()):
            link = self._chain.read_link(plan.id)
            if link is not None:
                self._sweep_plan(plan, link)
                del self._tried_plans[plan.id]

    def _sweep_plan(self, plan: Plan, link: BatchLink) -> None:
        left = list(_find_orphans(plan, link, self._parts))
        if left:
            self._parts.delete_objects(left)
            self._emit(OrphansSwept(stream=plan.stream, files=len(left)))
        for prefix in _prefixes(plan):
            # Who has not the right to see uploads, or a server that lists none, leaves them to the bucket's own rule.
            with suppress(LakeUnfit):
                self._parts.abort_uploads(prefix, mine=partial(_is_part_of, plan.stream, plan.id))


def _prefixes(plan: Plan) -> tuple[str, str]:
    return batch_prefix(plan), batch_quarantine_prefix(plan.stream, plan.id)


def _is_part_of(stream: StreamName, batch: BatchId, key: str) -> bool:
    """Whether a key is a part's of this stage: the loader writes beside them, under names of its own."""
    return parse_part_batch(stream, key) == batch


def _find_orphans(plan: Plan, link: BatchLink, parts: PartStore) -> Iterator[str]:
    """The keys of a batch's orphans, however young: its link is the only one there ever will be at its number."""
    named = _named_files(link)
    for prefix in _prefixes(plan):
        for key in (found.key for found in parts.list_objects(prefix)):
            if key not in named and _is_part_of(plan.stream, plan.id, key):
                yield key


def _named_files(link: BatchLink) -> frozenset[str]:
    refused = Manifest.from_link(link).quarantined_parts if link.kind is not BatchKind.ABANDONED else ()
    return frozenset((*link.files, *(part.key for part in refused)))
