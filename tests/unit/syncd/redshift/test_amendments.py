"""What a batch brought, told by the ledger's count and by the amendments that lie beside it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from syncd.lake.amendment import Amendment, amendment_key
from syncd.lake.manifest import Manifest
from syncd.lake.read_requests import Part
from syncd.redshift.amendments import Amendments
from tests.builders import ORDERS, make_link
from watermarks.cursor import START_CURSOR
from watermarks.errors import StoreUnavailable
from watermarks.loading import BatchLoadResult
from watermarks.store import Revision, StoredObject
from watermarks.stores.memory import MemoryStore


def part(key: str, rows: int) -> Part:
    return Part(key=key, etag="e", bytes=100, rows=rows, sha256="s", low=START_CURSOR, high=START_CURSOR)


FIRST, SECOND = part("data/1-1/0.parquet", 6), part("data/1-1/1.parquet", 4)
LINK = replace(make_link(), body=Manifest(schema="s", columns=(), parts=(FIRST, SECOND)).to_filled().body)
ONCE = Amendment(
    stream=ORDERS,
    batch=LINK.id,
    nonce="a",
    replacements={FIRST.key: part("one", 5)},
    refused_parts=(part("aside-1", 1),),
)
TWICE = Amendment(
    stream=ORDERS, batch=LINK.id, nonce="b", replacements={SECOND.key: None}, refused_parts=(part("aside-2", 4),)
)


@dataclass
class Asked:
    """A store that counts what it is asked for, and may be away."""

    inner: MemoryStore = field(default_factory=MemoryStore)
    reads: int = 0
    away: bool = False

    def read(self, key: str) -> StoredObject | None:
        self.reads += 1
        if self.away:
            raise StoreUnavailable("the lake is away")
        return self.inner.read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        return self.inner.put(key, body, expected=expected)

    def list(self, prefix: str) -> Iterator[str]:
        return self.inner.list(prefix)


def amended(*amendments: Amendment) -> Asked:
    """A store in which another process has left these."""
    store = Asked()
    for number, one in enumerate(amendments, start=1):
        store.put(amendment_key(ORDERS, LINK.id, number), one.to_bytes(), expected=None)
    return store


def test_of_a_batch_that_landed_whole_nothing_is_asked() -> None:
    store = amended(ONCE)

    assert Amendments(store).result_for(LINK, 10) == BatchLoadResult(rows=10)
    assert store.reads == 0


@pytest.mark.parametrize(("rows", "refused"), [(9, 1), (5, 5)])
def test_rows_that_another_process_put_aside_are_found_beside_their_batch(rows: int, refused: int) -> None:
    """Of those amendments that had been made when it landed."""
    assert Amendments(amended(ONCE, TWICE)).result_for(LINK, rows) == BatchLoadResult(rows=rows, refused_rows=refused)


def test_rows_that_no_amendment_accounts_for_were_not_refused() -> None:
    assert Amendments(amended(ONCE)).result_for(LINK, 0) == BatchLoadResult(rows=0)


def test_what_is_put_aside_here_is_known_with_its_reason_and_not_asked_for() -> None:
    store = Asked()
    amendments = Amendments(store)
    amendments.create(LINK, ONCE, reason="doc: no document")

    assert amendments.result_for(LINK, 9) == BatchLoadResult(rows=9, refused_rows=1, reason="doc: no document")
    assert store.reads == 0


def test_an_amendment_that_came_after_the_batch_was_looked_at_is_found() -> None:
    """Another process took over, put rows aside and landed the batch, and was killed."""
    store = Asked()
    amendments = Amendments(store)
    assert not amendments.refresh([LINK])
    store.put(amendment_key(ORDERS, LINK.id, 1), ONCE.to_bytes(), expected=None)

    assert amendments.result_for(LINK, 9).refused_rows == 1


def test_a_batch_that_could_not_be_looked_at_is_looked_at_again() -> None:
    store = amended(ONCE)
    amendments = Amendments(store)
    store.away = True
    with pytest.raises(StoreUnavailable):
        amendments.refresh([LINK])
    store.away = False

    assert amendments.refresh([LINK])
