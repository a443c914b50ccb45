import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from syncd.error_classes import IncidentCause, classify_error
from syncd.errors import SchemaDrift, SourceDown, SourceUnfit, TransactionConflict, WarehouseDown
from syncd.events import LoadRetried, PassEnded, PassHeldBack, PassStarted, StreamEvent, WaitKind, WaitReason
from syncd.observe.board import Board
from syncd.observe.causes import CAUSE_SENTENCES, affected_component, classify_reason
from syncd.observe.incident_notifier import UNDELIVERED_RETRY_SECONDS, ReminderSchedule, encode_notice, notice_document
from syncd.observe.incidents import (
    Incident,
    IncidentDetector,
    IncidentKey,
    IncidentKind,
    IncidentState,
    IncidentUpdate,
)
from syncd.observe.stream_state import ConfiguredStream
from syncd.settings import Channel
from tests.builders import NOON, at
from watermarks.document import Stage
from watermarks.errors import HintedError, NotOwner
from watermarks.names import StreamName
from watermarks.progress import RunStrategy
from watermarks.testing import ManualClock

ORDERS, EVENTS, OTHER = (StreamName(source="shop", database="shop", table=name) for name in ("orders", "events", "x"))
DOWN = SourceDown("db does not answer", hint="Is it up?")
DRIFTED = SchemaDrift("shop.orders was made anew", hint="Reset it.")


def ended(
    stream: StreamName = ORDERS,
    stage: Stage = Stage.EXTRACT,
    *,
    error: HintedError | None = None,
    complete_up_to: float | None = None,
    **more: Any,
) -> PassEnded:
    """The end of a pass; `complete_up_to` in seconds after noon."""
    fields: dict[str, Any] = {
        "batches": 0,
        "rows": 0,
        "seconds": 0.1,
        "mark": at(0),
        "proven": True,
        "pending_batches": 0,
    }
    upto = None if complete_up_to is None else NOON + timedelta(seconds=complete_up_to)
    state = "failed" if error else "nothing new"
    return PassEnded(stream=stream, stage=stage, error=error, complete_up_to=upto, **({"state": state} | fields | more))


class Room:
    """A watch, a clock that is moved by hand, and whatever it said."""

    def __init__(self, *streams: StreamName, within: float | None = None, warehouse: str = "dwh") -> None:
        self.clock = ManualClock(NOON)
        promise = None if within is None else timedelta(seconds=within)
        target = "public.t" if warehouse else ""
        listed = [
            ConfiguredStream(stream=one, target=target, warehouse=warehouse, promised_lag=promise) for one in streams
        ]
        self.board = Board(listed, clock=self.clock)
        self.watch = IncidentDetector(self.board)

    def after(self, seconds: float, *events: StreamEvent) -> list[tuple[str, str]]:
        self.clock.advance(seconds)
        for event in events:
            self.board(event)
        return [(change.state.value, str(change.incident.key)) for change in self.watch.detect_changes()]

    def open(self) -> Incident:
        (one,) = self.watch.open_incidents
        return one


def test_what_needs_a_person_is_an_incident_at_once_and_over_with_the_next_good_pass() -> None:
    room = Room(ORDERS)
    key = "failing/schema_drift/shop/shop.orders"

    assert room.after(1, ended(error=DRIFTED)) == [("opened", key)]
    assert room.after(10, ended(error=DRIFTED)) == []
    assert room.open().hint == "Reset it."
    assert room.after(10, ended()) == [("closed", key)]
    assert room.watch.open_incidents == ()


def test_what_may_pass_by_itself_is_no_incident_for_a_minute() -> None:
    room = Room(ORDERS)

    assert room.after(0, ended(error=DOWN)) == []
    assert room.after(59, ended(error=DOWN)) == []
    assert room.after(1) == [("opened", "failing/source_down/source shop")]
    assert room.open().since == NOON


def test_a_pass_that_was_cut_leaves_what_fails_as_it_was() -> None:
    """In the middle of an outage a stop, or a lost lease, ends no incident, and begins no new minute of patience."""
    room = Room(ORDERS, EVENTS)
    room.after(0, ended(error=DRIFTED), ended(EVENTS, error=DOWN))

    cut = ended(interrupted=True, state="waiting", reason="extract of orders was ended: the daemon stops")
    assert room.after(30, cut, ended(EVENTS, interrupted=True, state="waiting")) == []
    assert room.after(30) == [("opened", "failing/source_down/source shop")]
    assert len(room.watch.open_incidents) == 2


def test_a_pass_that_was_cut_mends_no_promise() -> None:
    room = Room(ORDERS, within=60)
    held = WaitReason("nothing above 12:00:00: held by transaction 4711", WaitKind.HELD_TRANSACTION)
    room.after(0, ended(complete_up_to=0, reason=held, pending_batches=0))

    assert room.after(30, ended(interrupted=True, state="waiting", reason="extract of orders was ended")) == []
    assert room.after(31) == [("opened", "stale/held_transaction/source shop")]


def test_what_passed_in_time_is_never_told() -> None:
    room = Room(ORDERS)

    assert room.after(0, ended(error=DOWN)) == []
    assert room.after(30, ended()) == []
    assert room.after(3600) == []


def test_many_streams_whose_source_is_down_are_one_incident_until_the_last_is_well() -> None:
    room = Room(ORDERS, EVENTS)
    key = "failing/source_down/source shop"

    room.after(0, ended(error=DOWN), ended(EVENTS, error=SourceDown("the connection was lost")))
    assert room.after(60) == [("opened", key)]
    assert room.open().streams == (ORDERS, EVENTS)
    assert room.after(1, ended()) == []
    assert room.open().streams == (EVENTS,)
    assert room.after(1, ended(EVENTS)) == [("closed", key)]


def test_streams_that_say_the_same_are_one_incident() -> None:
    room = Room(ORDERS, EVENTS)
    refused = SourceUnfit("access denied for user sync", hint="Mend its password.")

    assert room.after(0, ended(error=refused), ended(EVENTS, error=refused)) == [
        ("opened", "failing/source_unfit/shop/shop.orders")
    ]
    assert room.open().streams == (ORDERS, EVENTS)


def test_another_cause_is_another_incident() -> None:
    room = Room(ORDERS)
    room.after(0, ended(error=DRIFTED))

    assert room.after(1, ended(error=SourceUnfit("there is no index"))) == [
        ("opened", "failing/source_unfit/shop/shop.orders"),
        ("closed", "failing/schema_drift/shop/shop.orders"),
    ]


def test_each_stage_fails_for_itself() -> None:
    room = Room(ORDERS)
    room.after(0, ended(error=DRIFTED), ended(stage=Stage.LOAD, error=WarehouseDown("away")))

    assert room.after(60) == [("opened", "failing/warehouse_down/warehouse dwh")]
    assert room.after(1, ended()) == [("closed", "failing/schema_drift/shop/shop.orders")]


def test_a_stream_that_another_process_works_on_does_not_fail() -> None:
    room = Room(ORDERS, within=60)

    assert room.after(0, ended(error=NotOwner("it is that one's"))) == []
    assert room.after(3600) == []


def test_a_stage_that_waits_for_another_owner_promises_nothing_until_it_is_ours_again() -> None:
    room = Room(ORDERS, within=60)
    theirs = WaitReason("host-7 holds extract of shop/shop.orders", WaitKind.OTHER_OWNER)

    assert room.after(0, ended(reason=theirs, state="waiting")) == []
    assert room.after(3600) == []
    assert room.after(1, ended(complete_up_to=3601)) == []
    assert room.after(61) == [("opened", "stale/unknown/shop/shop.orders")]


def test_of_a_stream_that_is_configured_no_more_nothing_is_open() -> None:
    room = Room(ORDERS)
    room.after(0, ended(error=DRIFTED))

    room.board.set_streams([ConfiguredStream(stream=EVENTS)])

    assert room.after(1) == [("closed", "failing/schema_drift/shop/shop.orders")]
    assert room.after(1, ended(error=DRIFTED)) == []


def test_a_promise_is_broken_when_it_is_due_and_kept_again_by_a_pass() -> None:
    room = Room(ORDERS, within=600)
    key = "stale/unknown/shop/shop.orders"

    assert room.after(10, ended(stage=Stage.LOAD, complete_up_to=0)) == []
    assert room.after(590) == []
    assert room.after(1) == [("opened", key)]
    assert (room.open().complete_upto, room.open().since) == (NOON, NOON + timedelta(seconds=600))
    assert room.after(1, ended(stage=Stage.LOAD, complete_up_to=595)) == [("closed", key)]


def test_an_extraction_that_leaves_nothing_to_load_keeps_the_promise_of_its_target() -> None:
    room = Room(ORDERS, within=60)

    for second in range(0, 600, 30):
        assert room.after(30, ended(complete_up_to=second)) == []
    assert room.after(30, ended(complete_up_to=600, pending_batches=1)) == []
    assert room.after(61, ended(complete_up_to=660, pending_batches=1)) == [
        ("opened", "stale/load_queue/warehouse dwh")
    ]


def test_where_there_is_no_warehouse_the_lake_is_what_is_promised() -> None:
    room = Room(ORDERS, within=60, warehouse="")

    assert room.after(50, ended(complete_up_to=40, pending_batches=9)) == []
    assert room.after(50) == []


def test_a_stream_that_never_gets_complete_breaks_its_promise_too() -> None:
    room = Room(ORDERS, within=60)

    assert room.after(61) == [("opened", "stale/unknown/shop/shop.orders")]
    assert "is not known to be complete" in room.open().message


def test_a_step_of_the_clock_breaks_no_promise() -> None:
    room = Room(ORDERS, within=600)
    room.after(10, ended(stage=Stage.LOAD, complete_up_to=5))
    stepped = ManualClock(NOON + timedelta(days=1, seconds=10))
    room.board._clock = type("Stepped", (), {"now": stepped.now, "monotonic": room.clock.monotonic})()

    assert room.after(60) == []


HELD = WaitReason("held by transaction 4711, user app, 40 s", WaitKind.HELD_TRANSACTION)
BUSY = WaitReason("99 threads run at db, more than 64", WaitKind.THROTTLED)
BACKLOG = WaitReason("1,000 batches or more wait to be loaded", WaitKind.LOAD_BACKLOG)
CAUSES: list[tuple[str, list[StreamEvent], str]] = [
    ("held transaction", [ended(complete_up_to=0, reason=HELD, state="waiting")], "held_transaction/source shop"),
    ("throttled", [ended(reason=BUSY)], "throttled/source shop"),
    (
        "extract queue",
        [PassHeldBack(stream=ORDERS, stage=Stage.EXTRACT, reason="no place is free")],
        "extract_queue/source shop",
    ),
    (
        "reading does not keep up",
        [ended(complete_up_to=0), PassStarted(stream=ORDERS, stage=Stage.EXTRACT, strategy=RunStrategy.SEQUENTIAL)],
        "extract_queue/source shop",
    ),
    ("load queue", [ended(complete_up_to=595, pending_batches=3)], "load_queue/warehouse dwh"),
    (
        "too many wait",
        [ended(complete_up_to=0, pending_batches=1000, reason=BACKLOG)],
        "load_queue/warehouse dwh",
    ),
    (
        "warehouse locked",
        [
            ended(complete_up_to=595, pending_batches=3),
            LoadRetried(stream=ORDERS, error=TransactionConflict("deadlock detected"), seconds=1),
        ],
        "warehouse_locked/warehouse dwh",
    ),
    (
        "lost to another",
        [ended(stage=Stage.LOAD, error=TransactionConflict("could not lock"))],
        "warehouse_locked/warehouse dwh",
    ),
    ("source down", [ended(error=DOWN)], "source_down/source shop"),
    ("drift", [ended(error=DRIFTED)], "schema_drift/shop/shop.orders"),
    ("unknown", [ended(complete_up_to=0)], "unknown/shop/shop.orders"),
]


@pytest.mark.parametrize(("events", "key"), [each[1:] for each in CAUSES], ids=[each[0] for each in CAUSES])
def test_a_broken_promise_names_what_keeps_it_from_being_kept(events: list[StreamEvent], key: str) -> None:
    room = Room(ORDERS, within=600)
    room.after(599, *events)

    told = room.after(2)

    assert ("opened", f"stale/{key}") in told


def test_the_message_of_a_broken_promise_says_who_holds_it() -> None:
    room = Room(ORDERS, within=600)
    room.after(0, ended(complete_up_to=0, reason=HELD))
    room.after(601)

    assert room.open().message == (
        f"shop.orders is complete up to 2026-01-31 12:00:00Z, but its fresh_within is 10 min: {HELD}"
    )


def test_a_promise_that_another_process_has_to_keep_is_named_so_once_it_was_broken_here() -> None:
    room = Room(ORDERS, within=600)

    assert room.after(601, ended(error=DOWN)) == [("opened", "stale/source_down/source shop")]
    assert room.after(1, ended(error=NotOwner("that one's"))) == []
    assert CAUSE_SENTENCES[IncidentCause.OTHER_OWNER] in room.open().message


def test_a_broken_promise_stays_one_incident_whatever_comes_in_the_way_next() -> None:
    room = Room(ORDERS, EVENTS, within=600)

    assert room.after(601, ended(error=DOWN), ended(EVENTS, error=DOWN)) == [
        ("opened", "stale/source_down/source shop")
    ]
    assert room.after(10, ended(reason=HELD), ended(EVENTS, reason=HELD)) == []
    assert room.after(1, ended(complete_up_to=610), ended(EVENTS, complete_up_to=610)) == [
        ("closed", "stale/source_down/source shop")
    ]


def test_every_cause_has_a_sentence_and_a_party() -> None:
    assert set(CAUSE_SENTENCES) == set(IncidentCause)
    assert {affected_component(cause, source="a", warehouse="b", stream="c") for cause in IncidentCause} == {
        "source a",
        "warehouse b",
        "lake",
        "spark",
        "c",
    }


def test_an_error_without_a_group_is_a_bug() -> None:
    assert classify_error(HintedError("what?")) is IncidentCause.BUG
    assert (
        classify_reason("another server answers now: its last rows will be read again once they are complete") is None
    )


def incident(**more: Any) -> Incident:
    key = IncidentKey(kind=IncidentKind.FAILING, cause=IncidentCause.SOURCE_DOWN, component="source shop")
    fields: dict[str, Any] = {
        "key": key,
        "since": NOON,
        "streams": (ORDERS, EVENTS),
        "message": "db <!channel>",
        "hint": "",
    }
    return Incident(**(fields | more))


def change(turn: IncidentState, **more: Any) -> IncidentUpdate:
    return IncidentUpdate(state=turn, incident=incident(**more), at=NOON)


def test_each_incident_is_told_once_and_again_only_after_a_while() -> None:
    reminders = ReminderSchedule(timedelta(hours=4))
    open_ = [incident()]

    assert [
        each.state for each in reminders.take_due([change(IncidentState.OPENED)], open_, at=NOON, monotonic_now=0)
    ] == [IncidentState.OPENED]
    assert reminders.take_due([], open_, at=NOON, monotonic_now=4 * 3600 - 1) == []
    assert [each.state for each in reminders.take_due([], open_, at=NOON, monotonic_now=4 * 3600)] == [
        IncidentState.STILL_OPEN
    ]
    assert reminders.take_due([], open_, at=NOON, monotonic_now=4 * 3600 + 1) == []
    assert [
        each.state for each in reminders.take_due([change(IncidentState.CLOSED)], [], at=NOON, monotonic_now=5 * 3600)
    ] == [IncidentState.CLOSED]
    assert reminders.take_due([change(IncidentState.CLOSED)], [], at=NOON, monotonic_now=5 * 3600) == []


def test_what_did_not_arrive_is_due_before_long_and_only_while_it_is_open() -> None:
    reminders = ReminderSchedule(timedelta(hours=4))
    open_ = [incident()]
    reminders.take_due([change(IncidentState.OPENED)], open_, at=NOON, monotonic_now=0)

    reminders.on_undelivered(change(IncidentState.OPENED), monotonic_now=120)

    assert reminders.take_due([], open_, at=NOON, monotonic_now=120 + UNDELIVERED_RETRY_SECONDS - 1) == []
    assert [
        each.state for each in reminders.take_due([], open_, at=NOON, monotonic_now=120 + UNDELIVERED_RETRY_SECONDS)
    ] == [IncidentState.OPENED]
    reminders.on_undelivered(change(IncidentState.STILL_OPEN), monotonic_now=300)
    assert [
        each.state for each in reminders.take_due([], open_, at=NOON, monotonic_now=300 + UNDELIVERED_RETRY_SECONDS)
    ] == [IncidentState.STILL_OPEN]
    reminders.take_due([change(IncidentState.CLOSED)], [], at=NOON, monotonic_now=400)
    reminders.on_undelivered(change(IncidentState.STILL_OPEN), monotonic_now=400)
    assert reminders.take_due([], [], at=NOON, monotonic_now=500) == []


def test_the_document_of_a_webhook_says_everything() -> None:
    sent = json.loads(encode_notice(change(IncidentState.OPENED), Channel.WEBHOOK))

    assert sent == {
        "format": "syncd-incident",
        "format_version": 1,
        "incident": "failing/source_down/source shop",
        "state": "opened",
        "kind": "failing",
        "cause": "source_down",
        "cause_text": "the source does not answer",
        "component": "source shop",
        "streams": ["shop/shop.orders", "shop/shop.events"],
        "since": "2026-01-31T12:00:00.000000Z",
        "at": "2026-01-31T12:00:00.000000Z",
        "message": "db <!channel>",
        "hint": None,
        "complete_up_to": None,
    }


def test_a_text_for_slack_names_tables_and_calls_nobody() -> None:
    sent = json.loads(encode_notice(change(IncidentState.OPENED, streams=(ORDERS, *[OTHER] * 21)), Channel.SLACK))

    assert set(sent) == {"text"}
    head, tables, since, message = sent["text"].split("\n")
    assert head == "syncd: source shop: failing, the source does not answer (opened)"
    assert tables.startswith("22 tables: shop.orders, shop.x,")
    assert tables.endswith(" and 2 more")
    assert since == "since 2026-01-31 12:00:00Z"
    assert message == "db &lt;!channel&gt;"


PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "incidents.md").read_text()


def test_the_page_lists_every_field_of_the_document_and_every_cause() -> None:
    fields, causes = (set(re.findall(r"`(\w+)`", " ".join(firsts(title)))) for title in ("The document", "Causes"))

    assert fields == set(notice_document(change(IncidentState.OPENED)))
    assert causes == set(IncidentCause)


def firsts(title: str) -> list[str]:
    """The first column of the tables in a section."""
    section = PAGE.split(f"## {title}")[1].split("\n## ")[0]
    return re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
