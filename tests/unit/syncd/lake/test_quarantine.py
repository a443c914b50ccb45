"""What lies in quarantine, as values: reasons taken apart, notes of replays, policies under which rows come back."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from syncd.datatypes.columns import ColumnMapping, ParquetType, PhysicalType, Policies, Policy, TransferType
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import batch_quarantine_prefix, parse_quarantine_batch
from syncd.lake.quarantine import (
    QuarantineReason,
    ReplayNote,
    batch_time_range,
    parse_quarantine_reasons,
    parse_replay_fields,
    replay_note_key,
    replay_plan_fields,
    without_fail_policy,
)
from tests.builders import ORDERS
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Stage
from watermarks.errors import StateUnreadable
from watermarks.window import Window

NOTE = ColumnMapping(
    column="Note",
    name="note",
    select="`Note`",
    travel=TransferType.BYTES,
    parquet=ParquetType(physical=PhysicalType.BYTE_ARRAY),
    redshift="VARCHAR(65535)",
)
MANIFEST = Manifest(schema="s", columns=(NOTE,), parts=())
MINE = ReplayNote(stream=ORDERS, batch=BatchId(1, 4), replay_batch=BatchId(1, 9), nonce="n")


@pytest.mark.parametrize(
    ("reason", "stage", "found"),
    [
        ("Note: oversize; the row: oversize", Stage.EXTRACT, (("note", "oversize"), (None, "oversize"))),
        ("note: a; b: c", Stage.LOAD, (("note", "a; b: c"),)),
        ("Invalid input: x", Stage.LOAD, ((None, "Invalid input: x"),)),
    ],
)
def test_a_reason_begins_with_the_column_it_is_about(
    reason: str, stage: Stage, found: tuple[tuple[str | None, str], ...]
) -> None:
    assert parse_quarantine_reasons(reason, stage, (NOTE,)) == tuple(
        QuarantineReason(column=name, reason=said) for name, said in found
    )


def test_no_policy_stops_a_replay() -> None:
    """A stream stops for a value; a row that waits already goes on waiting."""
    strict = Policies(zero_dates=Policy.FAIL, oversize=Policy.TRUNCATE, out_of_range=Policy.NULL)

    assert without_fail_policy(strict) == replace(strict, zero_dates=Policy.QUARANTINE, invalid_text=Policy.QUARANTINE)


def test_a_plan_says_what_it_brings_back() -> None:
    assert parse_replay_fields(replay_plan_fields(BatchId(1, 4), ("a", "b"))) == (BatchId(1, 4), frozenset({"a", "b"}))
    assert parse_replay_fields({}) is None


def test_a_note_is_read_as_it_was_written_and_only_beside_its_own_batch() -> None:
    key = replay_note_key(ORDERS, MINE.batch, 1)

    assert key == f"batches/{ORDERS.chain_stem}/1-4.replayed-1.json"
    assert ReplayNote.from_bytes(MINE.to_bytes(), at=key, stream=ORDERS, batch=MINE.batch) == MINE
    for body, batch in ((MINE.to_bytes(), BatchId(1, 5)), (b"{}", MINE.batch), (b"", MINE.batch)):
        with pytest.raises(StateUnreadable):
            ReplayNote.from_bytes(body, at=key, stream=ORDERS, batch=batch)


def test_the_span_of_a_batch_holds_its_last_row_too() -> None:
    low, high = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
    read = replace(MANIFEST, windows=(Window(Cursor.from_values(low, 1), Cursor.from_values(high, 2)),))

    assert batch_time_range(read) == (low, datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC))


@pytest.mark.parametrize(
    "window", [None, Window(START_CURSOR, Cursor.from_values(7)), Window(Cursor.from_values(1), Cursor.from_values(7))]
)
def test_of_other_orders_no_instant_is_told(window: Window | None) -> None:
    assert batch_time_range(replace(MANIFEST, windows=(window,) if window else ())) is None


def test_a_key_in_quarantine_lies_under_the_number_of_its_batch() -> None:
    prefix = batch_quarantine_prefix(ORDERS, BatchId(2, 30))

    assert parse_quarantine_batch(ORDERS, f"{prefix}00000.000-a.parquet") == BatchId(2, 30)
    for key in ("readme", "1-0/x", "01-1/x", "one-1/x"):
        assert parse_quarantine_batch(ORDERS, f"quarantine/{ORDERS.chain_stem}/{key}") is None
