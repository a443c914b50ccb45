"""Orphans: files that no link names and none ever will, found under the numbers of batches that were tried before."""

from collections.abc import Iterator

from syncd.core.layout import batch_of_part, batch_prefix, quarantine_prefix
from syncd.core.manifest import Manifest
from syncd.core.ports import Parts
from watermarks.batch import Kind, Link, Plan
from watermarks.extraction import Chain


def orphans(chain: Chain, plan: Plan, parts: Parts) -> Iterator[str]:
    """The keys of a batch's orphans, however young.

    They are such once the link at its number exists, for it is the only one that ever
    will: whoever still writes there writes in vain. A number that has none yet may
    still be somebody's work.
    """
    link = chain.link(plan.id)
    if link is None:
        return
    named = _named(link)
    for prefix in (batch_prefix(plan), quarantine_prefix(plan.stream, plan.id)):
        for key, _ in parts.stray(prefix):
            if key not in named and batch_of_part(plan.stream, key) == plan.id:
                yield key


def _named(link: Link) -> frozenset[str]:
    refused = Manifest.of_link(link).quarantined if link.kind is not Kind.ABANDONED else ()
    return frozenset((*link.files, *(part.key for part in refused)))
