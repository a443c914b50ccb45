"""Orphans: files that no link names and none ever will, found under the numbers of batches that were tried before."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from syncd.errors import LakeUnfit
from syncd.events import OrphansSwept, Tell
from syncd.lake.keys import batch_of_part, batch_prefix, quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.ports.source import Parts
from watermarks.batch import BatchId, Kind, Link, Plan
from watermarks.extraction import Chain
from watermarks.names import StreamName


class Leftovers:
    """What earlier attempts left under the numbers of batches that were tried more than once."""

    def __init__(self, chain: Chain, parts: Parts, tell: Tell) -> None:
        self._chain = chain
        self._parts = parts
        self._tell = tell
        self._tried: dict[BatchId, Plan] = {}

    def begin(self, last: BatchId, sealed: Plan | None) -> None:
        """A pass begins: the next number may have a plan already, and who made the last link may not have swept."""
        self._tried.clear()
        self.note(sealed)
        link = self._chain.link(last) if last.seq else None
        plan = self._chain.plan(last) if link else None
        # Another owner than the one who planned it carried it out: so it was tried twice.
        if link and plan and (link.kind is Kind.ABANDONED or link.epoch != plan.epoch):
            self.note(plan)

    def note(self, plan: Plan | None) -> None:
        """A plan that was tried, and may have to be tried again."""
        if plan is not None:
            self._tried[plan.id] = plan

    def note_next(self, batch: BatchId) -> None:
        """The same, for whatever plan stands at a number."""
        if batch not in self._tried:
            self.note(self._chain.plan(batch))

    def remove(self) -> None:
        """Remove what lies under numbers that are links by now; what has none yet may still be somebody's work.

        Raises:
            LakeDown, LakeUnfit: something is still there. It stays noted.
        """
        for plan in tuple(self._tried.values()):
            link = self._chain.link(plan.id)
            if link is not None:
                self._remove(plan, link)
                del self._tried[plan.id]

    def _remove(self, plan: Plan, link: Link) -> None:
        left = list(_orphans(plan, link, self._parts))
        if left:
            self._parts.drop(left)
            self._tell(OrphansSwept(stream=plan.stream, files=len(left)))
        for prefix in _prefixes(plan):
            # Who has not the right to see uploads, or a server that lists none, leaves them to the bucket's own rule.
            with suppress(LakeUnfit):
                self._parts.abandon(prefix, mine=partial(_is_of, plan.stream, plan.id))


def _prefixes(plan: Plan) -> tuple[str, str]:
    return batch_prefix(plan), quarantine_prefix(plan.stream, plan.id)


def _is_of(stream: StreamName, batch: BatchId, key: str) -> bool:
    """Whether a key is a part's of this stage: the loader writes beside them, under names of its own."""
    return batch_of_part(stream, key) == batch


def _orphans(plan: Plan, link: Link, parts: Parts) -> Iterator[str]:
    """The keys of a batch's orphans, however young: its link is the only one there ever will be at its number."""
    named = _named(link)
    for prefix in _prefixes(plan):
        for key, _ in parts.stray(prefix):
            if key not in named and _is_of(plan.stream, plan.id, key):
                yield key


def _named(link: Link) -> frozenset[str]:
    refused = Manifest.of_link(link).quarantined if link.kind is not Kind.ABANDONED else ()
    return frozenset((*link.files, *(part.key for part in refused)))
