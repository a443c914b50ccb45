"""How a stream stands, from its document and its settings alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.cli.views.formats import format_duration
from syncd.horizon import HorizonNotes
from syncd.operations.stream_status import QuarantineCount, StreamCondition, StreamStatus, cursor_to_instant
from syncd.settings import EpochUnit, Schedule, StreamSettings, TargetSettings
from syncd.tables.order_clock import parse_zone
from tests.builders import NOON, at, make_chain, make_watermark
from watermarks.batch import SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.progress import RunStrategy, SkippedBatches

ORDERS = StreamSettings(
    source="shop",
    database="shop",
    table="orders",
    target=TargetSettings(warehouse="redshift", schema="public", table="orders"),
)
NOW = NOON + timedelta(seconds=100)


def stands(state: Watermark | None, settings: StreamSettings = ORDERS, **more: object) -> StreamStatus:
    return StreamStatus.from_watermark(state, settings, zone=UTC, now=NOW, **more)  # type: ignore[arg-type]  # each test passes fields of its own


def test_the_target_is_complete_up_to_the_loaded_mark() -> None:
    standing = stands(make_watermark(*make_chain(3), landed=2))

    assert (standing.condition, standing.pending) == (StreamCondition.LOADING, 1)
    assert (standing.complete_until, standing.lake_complete_until) == (
        NOON + timedelta(seconds=2),
        NOON + timedelta(seconds=3),
    )
    assert (standing.extract_lag, standing.load_lag) == (timedelta(seconds=97), timedelta(seconds=1))


def test_without_a_target_the_lake_is_what_is_complete() -> None:
    standing = stands(make_watermark(*make_chain(3)), replace(ORDERS, target=None))

    assert (standing.condition, standing.complete_until) == (StreamCondition.CURRENT, NOON + timedelta(seconds=3))
    assert (standing.pending, standing.load_lag) == (0, None)


def test_what_was_left_out_is_never_called_proven() -> None:
    whole = make_watermark(*make_chain(2), landed=2)
    assert whole.extract_progress
    whole = replace(whole, extract_progress=replace(whole.extract_progress, proven=True))
    left_out = (SkippedBatches(after=whole.load_progress.base, up_to=whole.load_progress.last_batch),)

    assert stands(whole).proven
    assert not stands(replace(whole, load_progress=replace(whole.load_progress, skipped_batches=left_out))).proven


@pytest.mark.parametrize(
    ("cursor", "settings", "zone", "instant"),
    [
        (Cursor.from_values(NOON, 1), {}, None, NOON),
        (Cursor.from_values(datetime(2026, 1, 31, 13), 1), {}, "+01:00", NOON),  # noqa: DTZ001  # a wall clock has no zone
        (Cursor.from_values(datetime(2026, 1, 31, 13), 1), {}, None, None),  # noqa: DTZ001  # as above
        (Cursor.from_values(1_769_860_800, 1), {"cursor_unit": EpochUnit.SECONDS}, None, NOON),
        (Cursor.from_values(4711), {"cursor": "id"}, "UTC", None),
        (START_CURSOR, {"cursor": "none"}, "UTC", None),
    ],
    ids=["an instant", "a wall clock", "a wall clock of nobody knows where", "an epoch", "a key", "no cursor"],
)
def test_a_mark_tells_a_time_only_where_it_is_one(
    cursor: Cursor, settings: dict[str, object], zone: str | None, instant: datetime | None
) -> None:
    found = cursor_to_instant(cursor, replace(ORDERS, **settings), zone=parse_zone(zone) if zone else None)  # type: ignore[arg-type]  # each test passes fields of its own

    assert found == instant


def failing(state: Watermark) -> Watermark:
    failure = FailureRecord(message="away", attempt=3, failed_at=NOON, retry_at=NOON + timedelta(seconds=40))
    return state.with_failure(Stage.EXTRACT, failure)


def test_conditions_have_an_order_and_a_reason() -> None:
    done = make_watermark(*make_chain(2), landed=2)
    assert done.extract_progress
    chunk = SnapshotProgress(horizon=at(9), reached_key=Cursor.from_values(41), done=False)
    waiting, refused = make_watermark(*make_chain(3)), QuarantineCount(rows=2, files=1)
    beginning = replace(done, extract_progress=replace(done.extract_progress, snapshot=chunk))
    manual = replace(done, extract_progress=replace(done.extract_progress, strategy=RunStrategy.MANUAL))
    cases: list[tuple[Watermark | None, StreamSettings, dict[str, object], StreamCondition, str]] = [
        (failing(done), ORDERS, {}, StreamCondition.FAILED, "extract failed, attempt 3: away"),
        (waiting, replace(ORDERS, max_pending=3), {}, StreamCondition.BLOCKED, "no more are read"),
        (done, ORDERS, {"quarantined": refused}, StreamCondition.QUARANTINED, "2 rows wait in quarantine"),
        (None, ORDERS, {}, StreamCondition.NEW, "nothing has been read"),
        (make_watermark(), ORDERS, {}, StreamCondition.NEW, "nothing has been read"),
        (beginning, ORDERS, {}, StreamCondition.BEGINNING, "key 41"),
        (make_watermark(*make_chain(2)), ORDERS, {}, StreamCondition.LOADING, "2 batches wait"),
        (manual, ORDERS, {}, StreamCondition.CURRENT, "set by hand"),
    ]
    found = [stands(state, settings, **more) for state, settings, more, _, _ in cases]

    for standing, (_, _, _, condition, reason) in zip(found, cases, strict=True):
        assert standing.condition is condition
        assert any(reason in each for each in standing.reasons), standing.reasons
    assert sorted(found, key=lambda one: one.sort_key) == found[:4] + found[4:]
    assert stands(done).reasons == ()


def test_the_next_try_is_what_the_failure_says() -> None:
    standing = stands(failing(make_watermark(*make_chain(1))))

    assert (standing.retry_at, standing.failed_at) == (NOON + timedelta(seconds=40), NOON)


def test_a_short_hold_of_the_horizon_is_no_reason() -> None:
    notes = HorizonNotes(identity="s", t0=NOW, first_stamps={"1": NOW - timedelta(seconds=5), "2": None})

    assert stands(make_watermark(*make_chain(1), landed=1), notes=notes).reasons == ()


HOURLY = Schedule(every=timedelta(hours=1))


@pytest.mark.parametrize(
    ("schedule", "hours", "overdue"),
    [
        (HOURLY, 0.5, False),
        (HOURLY, 2.01, False),  # a pass may last
        (HOURLY, 2.02, True),
        (Schedule(every=None, cron="0 3 * * *"), 100, False),
    ],
)
def test_a_source_that_nobody_polls_is_overdue(schedule: Schedule, hours: float, *, overdue: bool) -> None:
    polled_at = NOW - timedelta(hours=hours)
    notes = HorizonNotes(identity="s", t0=NOW, local_time=polled_at)
    whole = make_watermark(*make_chain(1), landed=1)
    assert whole.extract_progress
    proven = replace(whole, extract_progress=replace(whole.extract_progress, proven=True))

    standing = stands(proven, replace(ORDERS, schedule=schedule), notes=notes)

    assert (standing.polled_at, standing.is_overdue) == (polled_at, overdue)
    assert stands(None, replace(ORDERS, schedule=schedule), notes=notes).is_overdue is overdue
    # Whoever may not see transactions polls, and leaves no notes.
    assert not stands(whole, replace(ORDERS, schedule=schedule), notes=notes).is_overdue


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (0.44, "0.4s"), (59.6, "1m"), (61, "1m 1s"), (3_600, "1h"), (90_061, "1d 1h")],
)
def test_spans_are_short(seconds: float, shown: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == shown
