"""Sweep of orphans: files of earlier attempts at a batch, which no link names and none ever will."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from syncd.errors import LakeUnfit
from syncd.events import EventListener, OrphansRemoved
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import batch_prefix, batch_quarantine_prefix, parse_part_batch
from syncd.ports.source import PartStore
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.extraction import BatchChain
from watermarks.names import StreamName


class OrphanSweeper:
    """Deletes the files that earlier attempts left under the numbers of batches that were tried more than once."""

    def __init__(self, chain: BatchChain, parts: PartStore, emit: EventListener) -> None:
        self._chain = chain
        self._parts = parts
        self._emit = emit
        self._tried_plans: dict[BatchId, Plan] = {}

    def begin(self, last: BatchId, sealed: Plan | None) -> None:
        """Begin a pass: the next number may have a plan already, and the maker of the last link may not have swept."""
        self._tried_plans.clear()
        self.remember(sealed)
        link = self._chain.read_link(last) if last.seq else None
        plan = self._chain.read_plan(last) if link else None
        # An owner carried it out that did not plan it: so it was tried twice.
        if link and plan and (link.kind is BatchKind.ABANDONED or link.epoch != plan.epoch):
            self.remember(plan)

    def remember(self, plan: Plan | None) -> None:
        """Remember a plan that was tried, and may be tried again."""
        if plan is not None:
            self._tried_plans[plan.id] = plan

    def remember_plan_of(self, batch: BatchId) -> None:
        """Remember the plan of a number, if there is one."""
        if batch not in self._tried_plans:
            self.remember(self._chain.read_plan(batch))

    def sweep(self) -> None:
        """Delete the orphans of numbers that have a link; another process may still work on a number without one.

        Raises:
            LakeDown, LakeUnfit: an orphan could not be deleted. Its plan stays remembered.
        """
        for plan in tuple(self._tried_plans.values()):
            link = self._chain.read_link(plan.id)
            if link is not None:
                self._sweep_plan(plan, link)
                del self._tried_plans[plan.id]

    def _sweep_plan(self, plan: Plan, link: BatchLink) -> None:
        orphans = list(_find_orphans(plan, link, self._parts))
        if orphans:
            self._parts.delete_objects(orphans)
            self._emit(OrphansRemoved(stream=plan.stream, files=len(orphans)))
        for prefix in _prefixes(plan):
            # Without the right to see uploads, or where the server lists none, the bucket's own rule ends them.
            with suppress(LakeUnfit):
                self._parts.abort_uploads(prefix, mine=partial(_is_part_of, plan.stream, plan.id))


def _prefixes(plan: Plan) -> tuple[str, str]:
    return batch_prefix(plan), batch_quarantine_prefix(plan.stream, plan.id)


def _is_part_of(stream: StreamName, batch: BatchId, key: str) -> bool:
    """Return whether a key is a part of this stage: the loader writes beside them, under names of its own."""
    return parse_part_batch(stream, key) == batch


def _find_orphans(plan: Plan, link: BatchLink, parts: PartStore) -> Iterator[str]:
    """Return the keys of a batch's orphans, however young: its number never gets another link."""
    named = _named_files(link)
    for prefix in _prefixes(plan):
        for key in (found.key for found in parts.list_objects(prefix)):
            if key not in named and _is_part_of(plan.stream, plan.id, key):
                yield key


def _named_files(link: BatchLink) -> frozenset[str]:
    refused = Manifest.from_link(link).quarantined_parts if link.kind is not BatchKind.ABANDONED else ()
    return frozenset((*link.files, *(part.key for part in refused)))
