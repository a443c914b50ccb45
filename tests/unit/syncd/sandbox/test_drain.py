from typing import Any

from syncd.events import BatchesLoaded, BatchExtracted, PassEnded, PassStarted
from syncd.sandbox.demo.demo_daemon import DrainMonitor
from syncd.settings import Mode, StreamSettings
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR
from watermarks.document import Stage
from watermarks.names import StreamName
from watermarks.progress import RunStrategy

STREAM = StreamName(source="mysql", database="shop", table="orders")


def drain(mode: Mode = Mode.UPSERT) -> DrainMonitor:
    return DrainMonitor([StreamSettings(source="mysql", database="shop", table="orders", mode=mode)])


def passes(some: DrainMonitor, *, batch: int = 0, reason: str = "") -> None:
    """One pass of the extract stage, with a batch or none."""
    some(PassStarted(stream=STREAM, stage=Stage.EXTRACT, strategy=RunStrategy.SEQUENTIAL))
    finds(some, batch, reason=reason)


def finds(some: DrainMonitor, batch: int, *, reason: str = "") -> None:
    told: dict[str, Any] = {"stream": STREAM, "mark": START_CURSOR, "seconds": 0.1}
    if batch:
        some(
            BatchExtracted(
                **told, batch=BatchId(1, batch), kind="increment", rows=1, files=1, bytes=1, quarantined=0
            )
        )  # fmt: skip
    ended: dict[str, Any] = {
        "state": "extracted",
        "batches": int(batch > 0),
        "rows": 1,
        "complete_up_to": None,
        "proven": True,
        "pending_batches": 0,
    }
    some(PassEnded(**told, stage=Stage.EXTRACT, reason=reason, **ended))


def lands(some: DrainMonitor, batch: int) -> None:
    last = BatchId(1, batch)
    some(
        BatchesLoaded(stream=STREAM, first=last, last=last, batches=1, rows=1, files=1, mark=START_CURSOR, seconds=0.1)
    )


def test_two_passes_that_find_nothing_after_the_last_write_are_the_end() -> None:
    some = drain()
    passes(some)
    some.start()
    passes(some)
    assert not some.is_drained

    passes(some)

    assert some.is_drained


def test_a_pass_that_began_before_the_last_write_does_not_count() -> None:
    some = drain()
    some(PassStarted(stream=STREAM, stage=Stage.EXTRACT, strategy=RunStrategy.SEQUENTIAL))
    some.start()
    finds(some, 0)
    passes(some)

    assert not some.is_drained


def test_what_is_extracted_has_to_land() -> None:
    some = drain()
    some.start()
    passes(some, batch=1)
    passes(some)
    passes(some)
    assert not some.is_drained

    lands(some, 1)

    assert some.is_drained


def test_what_waits_for_something_is_not_at_its_end() -> None:
    some = drain()
    some.start()
    passes(some)
    passes(some, reason="held by a transaction")

    assert not some.is_drained


def test_a_table_that_is_read_whole_is_read_once_more() -> None:
    some = drain(Mode.REPLACE)
    some.start()
    passes(some, batch=1)
    assert not some.is_drained

    lands(some, 1)

    assert some.is_drained
