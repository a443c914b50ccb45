"""What may go is decided by the newest entry: a document that lags behind it hides no rows that wait."""

from collections.abc import Sequence
from datetime import timedelta

from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import stream_quarantine_prefix
from syncd.lake.read_requests import Part
from syncd.lake.removal_records import ListedObject
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.cleanup_preview import CleaningSearch
from syncd.operations.cleanup_rules import RemovalReason
from tests.builders import NOON, ORDERS, RUN, Script, at, hold, make_process, upto
from watermarks.batch import BatchId, BatchOutput, Plan
from watermarks.cursor import START_CURSOR
from watermarks.document import Watermark
from watermarks.extraction import Extraction
from watermarks.history import Journal
from watermarks.names import document_key
from watermarks.stores.memory import MemoryStore
from watermarks.testing import FaultyStore, ManualClock, StoreFault, StoreOperation

OLD = NOON - timedelta(days=8)
ASIDE = f"{stream_quarantine_prefix(ORDERS)}1-1/00000.000-a1.parquet"
REFUSED = Part(key=ASIDE, etag="e", bytes=10, rows=3, sha256="x", low=START_CURSOR, high=START_CURSOR)


class Refusing(Script):
    """A producer whose only row is refused."""

    def write_files(self, plan: Plan) -> BatchOutput:
        del plan
        return Manifest(schema="s1", columns=(), parts=(), quarantined_parts=(REFUSED,)).to_filled()


class Shelves:
    """A lake with one file in quarantine."""

    def list_objects(self, prefix: str) -> Sequence[ListedObject]:
        return [ListedObject(key=ASIDE, bytes=10, at=OLD)] if ASIDE.startswith(prefix) else []


def lagging() -> Journal[Watermark]:
    """A stream whose newest entry knows of a batch that its document does not."""
    store = MemoryStore()
    lost = FaultyStore(store, lambda call: StoreFault.DOWN if _is_document(call.operation, call.key) else None)
    hold(make_process(store), Journal(store, Watermark, clock=ManualClock()))
    journal = Journal(lost, Watermark, clock=ManualClock())
    Extraction(journal, hold(make_process(store, "p1"), journal), Refusing(drafts=[upto(at(1, 1))])).extract_next_batch(
        RUN
    )
    return Journal(store, Watermark, clock=ManualClock())


def _is_document(verb: StoreOperation, key: str) -> bool:
    return verb is StoreOperation.REPLACE and key == document_key(ORDERS.stem)


def test_rows_that_wait_stay_where_the_document_lags_behind() -> None:
    journal = lagging()
    document, newest = journal.read(ORDERS.stem), journal.read_newest(ORDERS.stem)
    assert document is not None
    assert newest is not None
    assert (document.required_extract_progress.last_batch, newest.required_extract_progress.last_batch) == (
        BatchId(1, 0),
        BatchId(1, 1),
    )

    look = CleaningSearch(stream=ORDERS, journal=journal, lake=Shelves())  # type: ignore[arg-type]  # as far as it is asked
    found = look.propose(frozenset({RemovalReason.ORPHAN}), now=NOON, before=NOON - timedelta(days=7))

    assert (found.removable, [file.reason for file in found.kept_files]) == ((), ["its rows wait in quarantine"])


def test_rows_that_wait_are_listed_where_the_document_lags_behind() -> None:
    quarantine = Quarantine(stream=ORDERS, journal=lagging(), parts=Shelves())  # type: ignore[arg-type]  # as above

    assert quarantine.list_files().waiting_batches == (BatchId(1, 1),)
