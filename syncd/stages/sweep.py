"""Orphans: files that no link names and none ever will, found by their names and removed once they are old."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from syncd.core.layout import Found, found_at, written_prefixes
from syncd.core.manifest import Manifest
from syncd.core.ports import Parts
from watermarks.batch import BatchId, Kind
from watermarks.document import Watermark
from watermarks.extraction import Chain

OLD: Final = timedelta(days=1)
"""Far longer than any attempt can still be at work."""


def orphans(chain: Chain, watermark: Watermark, parts: Parts, *, now: datetime, age: timedelta = OLD) -> Iterator[str]:
    """The keys of a stream's orphans that have not changed for `age`.

    A part is one only if the link at its number exists and does not name it:
    a number that has none yet may still be somebody's work.
    """
    links: dict[BatchId, frozenset[str] | None] = {}
    for found in _written(chain, parts):
        if now - found.changed_at < age:
            continue
        if found.batch not in links:
            links[found.batch] = _named(chain, watermark, found.batch)
        named = links[found.batch]
        if named is not None and found.key not in named:
            yield found.key


def _written(chain: Chain, parts: Parts) -> Iterator[Found]:
    for prefix in written_prefixes(chain.stream):
        for key, changed_at in parts.stray(prefix):
            if found := found_at(chain.stream, key, changed_at):
                yield found


def _named(chain: Chain, watermark: Watermark, batch: BatchId) -> frozenset[str] | None:
    """The files that the batch's link names; None while there is no link, or the document does not know of it yet."""
    if not watermark.chain.holds(batch):
        return None
    link = chain.link(batch)
    if link is None:
        return None
    refused = Manifest.of_link(link).quarantined if link.kind is not Kind.ABANDONED else ()
    return frozenset((*link.files, *(part.key for part in refused)))
