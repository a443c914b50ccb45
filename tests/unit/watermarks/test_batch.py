import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chain import (
    NOON,
    ORDERS,
    at,
    make_abandoned,
    make_chunk,
    make_increment,
    make_link,
    make_plan,
    make_still,
    make_world,
)
from watermarks.batch import (
    BadBatch,
    BatchDraft,
    BatchId,
    BatchKind,
    BatchLink,
    BatchOutput,
    ChainBroken,
    Plan,
    PlanBasis,
    SnapshotProgress,
)
from watermarks.codec import DamagedDocument, DocumentTooNew, ForeignDocument, encode
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.errors import DataInDoubt, Misuse
from watermarks.window import BadWindow, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from watermarks.codec import JsonObject

AT = "plans/main/shop.orders/1-1.json"
STILL = (BatchKind.AHEAD, BatchKind.REPAIR, BatchKind.REPLAY, BatchKind.ABANDONED)

ids = st.builds(BatchId, st.integers(1, 10**18 - 1), st.integers(0, 10**18 - 2))


def read_plan(body: bytes, *, id: BatchId = BatchId(1, 1)) -> Plan:  # noqa: A002, B008 - a value
    return Plan.from_bytes(body, location=AT, stream=ORDERS, batch=id)


def read_link(body: bytes, *, id: BatchId = BatchId(1, 1)) -> BatchLink:  # noqa: A002, B008 - a value
    return BatchLink.from_bytes(body, location=AT, stream=ORDERS, batch=id)


def resealed(original: bytes, changed: "JsonObject") -> bytes:
    """The document with other fields, and a digest that fits them: `...` takes a field away."""
    fields: dict[str, Any] = {**json.loads(original), **changed}
    kept = {name: value for name, value in fields.items() if value is not ... and name != "digest"}
    return encode(kept["format"], kept["format_version"], kept)


def required_of(original: bytes, *nullable: str) -> list[str]:
    """The fields that must be there; the absence of a nullable one says no more than its null."""
    return sorted(set(json.loads(original)) - {"format", "format_version", "digest", *nullable})


def laid_out(body: bytes) -> bytes:
    return json.dumps(json.loads(body), indent=4, sort_keys=False).encode()


# The numbers.


@pytest.mark.parametrize(
    ("text", "batch"), [("1-0", BatchId(1, 0)), ("1-42", BatchId(1, 42)), ("12-1", BatchId(12, 1))]
)
def test_a_number_is_written_as_generation_and_seq(text: str, batch: BatchId) -> None:
    assert str(batch) == text
    assert BatchId.from_text(text) == batch


@given(ids)
def test_any_number_comes_back_from_its_text(batch: BatchId) -> None:
    assert BatchId.from_text(str(batch)) == batch


@given(ids, ids)
def test_the_order_of_numbers_is_the_order_of_reading(one: BatchId, other: BatchId) -> None:
    assert (one < other) is ((one.generation, one.seq) < (other.generation, other.seq))
    assert one < one.next


def test_numbers_are_not_ordered_as_text() -> None:
    assert BatchId(1, 9) < BatchId(1, 10) < BatchId(2, 0) < BatchId(10, 0)


def test_the_next_number_is_of_the_same_generation() -> None:
    assert BatchId(3, 0).next == BatchId(3, 1)


@pytest.mark.parametrize(("generation", "seq"), [(0, 1), (-1, 1), (1, -1)])
def test_there_is_no_batch_before_the_first(generation: int, seq: int) -> None:
    with pytest.raises(BadBatch, match=f"{generation}-{seq} is not a valid batch number"):
        BatchId(generation, seq)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "1",
            "1-",
            "-1",
            "0-1",
            "01-1",
            "1-01",
            "1-1-1",
            "1--1",
            " 1-1",
            "1-1 ",
            "1-1\n",
            "+1-1",
            "1-+1",
            "1_0-1",
        ),
        *("a-b", "1.1", "1-1.json", "../1-1", "1" * 19 + "-1", "1-" + "1" * 19),
        *("1\u0662-3", "1-\u0663"),
    ],
    ids=ascii,
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(BadBatch, match="is not the number of a batch") as caught:
        BatchId.from_text(text)

    assert "1-42" in caught.value.hint


# Drafts.


def test_an_increment_may_be_read_in_abutting_windows() -> None:
    draft = make_increment(at(1), at(4), at(7), high=at(10))

    assert draft.windows == (Window(at(1), at(4)), Window(at(4), at(7)), Window(at(7), at(10)))


@pytest.mark.parametrize(
    "windows",
    [
        (),
        (Window(START_CURSOR, at(10)),),
        (Window(at(1), at(9)),),
        (Window(at(1), at(11)),),
        (Window(at(2), at(10)),),
        (Window(at(1), at(10)), Window(at(10), at(20))),
    ],
)
def test_an_increment_covers_exactly_what_it_moves_the_mark_over(windows: tuple[Window, ...]) -> None:
    with pytest.raises(BadBatch, match="an increment must cover"):
        BatchDraft(kind=BatchKind.INCREMENT, basis=make_world(at(1)), windows=windows, high=at(10))


@pytest.mark.parametrize("second", [Window(at(5), at(10)), Window(at(3), at(10))])
def test_an_increment_leaves_no_gap_and_reads_nothing_twice(second: Window) -> None:
    with pytest.raises(BadWindow, match="does not begin where"):
        BatchDraft(
            kind=BatchKind.INCREMENT, basis=make_world(at(1)), windows=(Window(at(1), at(4)), second), high=at(10)
        )


def test_an_increment_never_moves_the_mark_back() -> None:
    with pytest.raises(BadWindow, match="a window cannot begin at"):
        BatchDraft(kind=BatchKind.INCREMENT, basis=make_world(at(5)), windows=(Window(at(1), at(2)),), high=at(2))


def test_a_chunk_leaves_the_mark_until_the_pass_is_done() -> None:
    early = make_chunk(START_CURSOR, horizon=at(100), reached=at(7))
    last = make_chunk(START_CURSOR, horizon=at(100), reached=at(9), done=True)

    assert (early.high, last.high) == (START_CURSOR, at(100))


@pytest.mark.parametrize(("done", "high"), [(False, at(100)), (False, at(7)), (True, START_CURSOR), (True, at(99))])
def test_a_chunk_that_moves_the_mark_elsewhere_is_refused(*, done: bool, high: Cursor) -> None:
    snapshot = SnapshotProgress(horizon=at(100), reached_key=at(7), done=done)

    with pytest.raises(BadBatch, match="the mark after this snapshot batch must be"):
        BatchDraft(kind=BatchKind.SNAPSHOT, basis=make_world(), high=high, snapshot=snapshot)


def test_a_chunk_says_how_far_the_pass_is() -> None:
    with pytest.raises(BadBatch, match="has no snapshot progress"):
        BatchDraft(kind=BatchKind.SNAPSHOT, basis=make_world(), high=START_CURSOR)


@pytest.mark.parametrize("kind", STILL)
def test_no_other_kind_moves_the_mark(kind: BatchKind) -> None:
    origin = BatchId(1, 1) if kind is BatchKind.REPLAY else None

    assert make_still(kind, at(5)).high == at(5)
    with pytest.raises(BadBatch, match=f"a batch of kind {kind} must not move the mark"):
        BatchDraft(kind=kind, basis=make_world(at(5)), high=at(6), origin=origin)


@pytest.mark.parametrize("kind", STILL)
def test_no_other_kind_is_part_of_a_first_pass(kind: BatchKind) -> None:
    snapshot = SnapshotProgress(horizon=at(100), reached_key=at(7), done=False)

    with pytest.raises(BadBatch, match=f"a batch of kind {kind} must not have snapshot progress"):
        replace(make_still(kind, at(5)), snapshot=snapshot)


def test_an_increment_is_no_part_of_a_first_pass() -> None:
    snapshot = SnapshotProgress(horizon=at(100), reached_key=at(7), done=False)

    with pytest.raises(BadBatch, match="must not have snapshot progress"):
        replace(make_increment(START_CURSOR, high=at(1)), snapshot=snapshot)


def test_a_replay_names_the_batch_that_first_read_its_rows() -> None:
    with pytest.raises(BadBatch, match="a replay must name"):
        BatchDraft(kind=BatchKind.REPLAY, basis=make_world(), high=START_CURSOR)


@pytest.mark.parametrize("kind", [kind for kind in BatchKind if kind is not BatchKind.REPLAY])
def test_nothing_but_a_replay_names_an_origin(kind: BatchKind) -> None:
    drafts = {
        BatchKind.INCREMENT: make_increment(START_CURSOR, high=at(1)),
        BatchKind.SNAPSHOT: make_chunk(START_CURSOR, horizon=at(9)),
    }

    with pytest.raises(BadBatch, match="a replay must name"):
        replace(drafts.get(kind) or make_still(kind, START_CURSOR), origin=BatchId(1, 1))


# Plans and links as bytes.

DRAFTS = {
    "increment": make_increment(START_CURSOR, at(4), at(7, 1), high=at(10, 2)),
    "chunk": make_chunk(START_CURSOR, horizon=at(100), reached=at(7)),
    "last chunk": make_chunk(START_CURSOR, horizon=at(100), reached=at(9), done=True),
    "ahead": make_still(BatchKind.AHEAD, at(5)),
    "repair": make_still(BatchKind.REPAIR, at(5)),
    "replay": make_still(BatchKind.REPLAY, at(5)),
    "opaque body": replace(
        make_still(BatchKind.REPAIR, at(5)), body={"keys": [1, 2.5, None, "\u6587"], "of": {"a": []}}
    ),
    "every kind of value": make_still(
        BatchKind.AHEAD,
        Cursor.from_values(NOON, 2**64 - 1, b"\xff", "\u00e4", CursorValue(ValueKind.TEXT, "a\nb"), 0.1),
    ),
}


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_a_plan_comes_back_from_its_bytes(draft: BatchDraft) -> None:
    plan = make_plan(draft)

    again = read_plan(plan.to_bytes())

    assert again == plan
    assert again.to_bytes() == plan.to_bytes()


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_a_link_comes_back_from_its_bytes(draft: BatchDraft) -> None:
    link = make_link(make_plan(draft), previous="sha256:before", body={"part-1": {"rows": 3}})

    again = read_link(link.to_bytes())

    assert again == link
    assert again.to_bytes() == link.to_bytes()


def test_an_abandonment_comes_back_from_its_bytes() -> None:
    link = make_abandoned(previous="sha256:before")

    assert read_link(link.to_bytes()) == link


def test_a_link_says_what_its_plan_said() -> None:
    plan = make_plan(make_still(BatchKind.REPLAY, at(5)), id=BatchId(2, 7))

    link = make_link(plan, previous="sha256:before")

    assert (link.stream, link.id, link.kind, link.high) == (ORDERS, BatchId(2, 7), BatchKind.REPLAY, at(5))
    assert (link.plan, link.previous) == (plan.digest, "sha256:before")
    assert (link.snapshot, link.origin, link.proven) == (None, BatchId(1, 1), False)
    assert link.source_identity == "server-1"


def test_a_link_carries_the_nonce_of_its_own_writer() -> None:
    """After a lost answer the nonce tells whose manifest stands at the key; the plan may be another's."""
    plan = make_plan(nonce="planner", epoch=1)

    link = BatchLink.from_completed_plan(
        plan, BatchOutput(rows=0, files=()), previous=None, nonce="finisher", epoch=2, made_at=NOON
    )

    assert (link.nonce, link.epoch) == ("finisher", 2)


def test_a_further_target_has_the_chain_of_its_table() -> None:
    plan = make_plan(stream=ORDERS.with_target("eu"))

    again = Plan.from_bytes(plan.to_bytes(), location=AT, stream=ORDERS.with_target("us"), batch=plan.id)

    assert again.stream == ORDERS
    assert again.digest == plan.digest


@pytest.mark.parametrize("found", [ORDERS, replace(ORDERS, table="orders_old"), replace(ORDERS, source="second")])
def test_a_batch_of_another_stream_or_number_is_foreign(found: Any) -> None:
    """Copied by hand from a neighbour, or from another lake: its rows are not these."""
    elsewhere = BatchId(1, 2) if found == ORDERS else BatchId(1, 1)
    plan = make_plan(id=elsewhere, stream=found)

    for read, body in ((read_plan, plan.to_bytes()), (read_link, make_link(plan).to_bytes())):
        with pytest.raises(ForeignDocument, match=f"contains batch {elsewhere} of {found.chain_stem}") as caught:
            read(body)
        assert "copied" in caught.value.hint


def test_a_plan_is_no_link_and_a_link_no_plan() -> None:
    with pytest.raises(ForeignDocument, match="has format 'watermarks/plan'"):
        read_link(make_plan().to_bytes())
    with pytest.raises(ForeignDocument, match="has format 'watermarks/batch'"):
        read_plan(make_link().to_bytes())


def test_a_plan_and_a_link_of_a_later_version_are_refused() -> None:
    with pytest.raises(DocumentTooNew):
        read_plan(resealed(make_plan().to_bytes(), {"format_version": 2}))
    with pytest.raises(DocumentTooNew):
        read_link(resealed(make_link().to_bytes(), {"format_version": 2}))


@pytest.mark.parametrize("field", required_of(make_plan().to_bytes(), "snapshot", "origin"))
def test_a_plan_that_lacks_a_field_is_damaged(field: str) -> None:
    with pytest.raises(DamagedDocument, match=f"{AT} lacks {field}"):
        read_plan(resealed(make_plan().to_bytes(), {field: ...}))


@pytest.mark.parametrize("field", required_of(make_link().to_bytes(), "snapshot", "origin", "previous"))
def test_a_link_that_lacks_a_field_is_damaged(field: str) -> None:
    with pytest.raises(DamagedDocument, match=f"{AT} lacks {field}"):
        read_link(resealed(make_link().to_bytes(), {field: ...}))


def test_a_field_that_is_not_known_is_refused_by_name() -> None:
    for read, body in ((read_plan, make_plan().to_bytes()), (read_link, make_link().to_bytes())):
        with pytest.raises(DamagedDocument, match="unknown fields: zone"):
            read(resealed(body, {"zone": "UTC"}))


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "truncate"},
        {"kind": "replay"},
        {"origin": "0-1"},
        {"epoch": -1},
        {"epoch": "1"},
        {"planned_at": "2024-05-17T12:00:00Z"},
        {"planned_at": "2024-02-30T12:00:00.000000Z"},
        {"windows": [[["int:1"]]]},
        {"windows": []},
        {"windows": [[["int:20", "int:1"], ["int:10", "int:1"]]]},
        {"high": ["int:11"]},
        {"high": "int:10"},
        {"high": [10, 1]},
        {"world": {"mark": [], "source_identity": "server-1"}},
        {"world": {"mark": [], "source_identity": "server-1", "schema": "x", "zone": "UTC"}},
        {"snapshot": {"horizon": [], "reached": [], "done": "no"}},
        {"snapshot": {"horizon": [], "reached": [], "done": False, "at": 1}},
        {"snapshot": {"horizon": [], "reached": [], "done": False}},
        {"body": []},
        {"proven": 1},
    ],
    ids=str,
)
def test_a_plan_with_a_value_that_cannot_be_is_damaged(changed: "JsonObject") -> None:
    with pytest.raises(DamagedDocument, match=AT):
        read_plan(resealed(make_plan().to_bytes(), changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "done"},
        {"kind": "abandoned"},
        {"rows": -1},
        {"rows": 3.0},
        {"files": []},
        {"files": ["part-1", "part-1"]},
        {"files": ["part-1", 2]},
        {"previous": 1},
        {"origin": "1"},
        {"made_at": "yesterday"},
        {"high": [["int:1"]]},
        {"body": None},
    ],
    ids=str,
)
def test_a_link_with_a_value_that_cannot_be_is_damaged(changed: "JsonObject") -> None:
    with pytest.raises(DamagedDocument, match=AT):
        read_link(resealed(make_link().to_bytes(), changed))


@pytest.mark.parametrize("read", [read_plan, read_link])
@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\x00"])
def test_what_is_no_document_is_unreadable(read: "Callable[[bytes], object]", body: bytes) -> None:
    with pytest.raises((DamagedDocument, ForeignDocument), match=AT):
        read(body)


# Digests.


def test_a_digest_does_not_hang_on_layout() -> None:
    """A link is named by digest in the next one: a pretty-printed copy is still that link."""
    plan, link = make_plan(), make_link()

    assert read_plan(laid_out(plan.to_bytes())).digest == plan.digest
    assert read_link(laid_out(link.to_bytes())).digest == link.digest


def test_a_digest_does_not_hang_on_the_order_of_an_opaque_body() -> None:
    one = make_link(body={"a": 1, "b": {"c": 2, "d": 3}})
    other = make_link(body={"b": {"d": 3, "c": 2}, "a": 1})

    assert one.digest == other.digest


OTHER_PLANS = {
    "stream": make_plan(stream=replace(ORDERS, table="orders_old")),
    "number": make_plan(id=BatchId(1, 2)),
    "generation": make_plan(id=BatchId(2, 1)),
    "nonce": make_plan(nonce="nonce-9"),
    "epoch": make_plan(epoch=9),
    "moment": make_plan(planned_at=NOON.replace(microsecond=1)),
    "end": make_plan(make_increment(START_CURSOR, high=at(10, 2))),
    "cut": make_plan(make_increment(START_CURSOR, at(4), high=at(10, 1))),
    "proof": make_plan(make_increment(START_CURSOR, high=at(10, 1), proven=False)),
    "body": make_plan(replace(make_increment(START_CURSOR, high=at(10, 1)), body={"keys": [1]})),
    "world": make_plan(
        replace(
            make_increment(START_CURSOR, high=at(10, 1)),
            basis=PlanBasis(mark=START_CURSOR, source_identity="server-2", schema="x"),
        )
    ),
}


@pytest.mark.parametrize("other", OTHER_PLANS.values(), ids=OTHER_PLANS)
def test_the_digest_of_a_plan_covers_all_of_it(other: Plan) -> None:
    assert other.digest != make_plan().digest
    assert make_link(other).digest != make_link().digest


OTHER_LINKS = {
    "rows": make_link(rows=4),
    "files": make_link(files=("part-1",)),
    "order of files": make_link(files=("part-2", "part-1")),
    "previous": make_link(previous="sha256:before"),
    "body": make_link(body={"part-1": {"rows": 2}}),
    "kind": make_abandoned(),
}


@pytest.mark.parametrize("other", OTHER_LINKS.values(), ids=OTHER_LINKS)
def test_the_digest_of_a_link_covers_all_of_it(other: BatchLink) -> None:
    assert other.digest != make_link().digest


def test_the_digest_of_a_plan_is_pinned() -> None:
    """Links written today name it for years."""
    assert make_plan().digest == "sha256:b0d7c171ba9cec321504a0dbac7c29cce5d91023eedb384d1edace5e61365209"
    assert make_link().digest == "sha256:f07634bf6de1ffd59c51e5a7c3650e2c55ecaa11cbac20f1fb3315c1cfbd7a17"


def test_the_digest_by_which_others_name_a_plan_or_link_stands_in_it() -> None:
    """So an outsider follows the chain by reading, and computes nothing."""
    for made in (make_plan(), make_link()):
        assert json.loads(made.to_bytes())["digest"] == made.digest


# What a link cannot be.


@pytest.mark.parametrize(("rows", "files"), [(1, ()), (-1, ()), (-1, ("part-1",))])
def test_rows_stand_in_files(rows: int, files: tuple[str, ...]) -> None:
    with pytest.raises(BadBatch, match=f"has {rows} rows in {len(files)} files"):
        make_link(rows=rows, files=files)


def test_a_batch_whose_rows_have_all_moved_on_has_no_files() -> None:
    link = make_link(rows=0, files=())

    assert link.high == at(10, 1)
    assert read_link(link.to_bytes()) == link


def test_a_link_names_each_file_once() -> None:
    """Named twice, its rows would be copied twice."""
    with pytest.raises(BadBatch, match="names a file twice"):
        make_link(files=("part-1", "part-1"))


def test_an_abandoned_batch_holds_nothing_and_leaves_the_mark() -> None:
    link = make_abandoned(make_plan(make_increment(at(5), high=at(10))), mark=at(5), previous="sha256:before")

    assert (link.kind, link.rows, link.files) == (BatchKind.ABANDONED, 0, ())
    assert (link.high, link.snapshot, link.origin) == (at(5), None, None)
    assert (link.body, link.previous) == ({"why": "the schema changed"}, "sha256:before")


def test_an_abandoned_batch_names_no_files() -> None:
    with pytest.raises(BadBatch, match="is abandoned and names files"):
        replace(make_abandoned(), files=("part-1",))


def test_an_abandoned_chunk_leaves_the_first_pass_where_it_was() -> None:
    link = make_abandoned(make_plan(make_chunk(START_CURSOR, horizon=at(100), reached=at(7))))

    assert link.snapshot is None


# Rank.


def test_rows_rank_by_the_batch_that_read_them() -> None:
    assert make_link(make_plan(id=BatchId(2, 3))).rank == BatchId(2, 3)


def test_replayed_rows_rank_by_the_batch_that_first_read_them() -> None:
    """Else a replay of an old file would overwrite every newer version of its rows."""
    draft = replace(make_still(BatchKind.REPLAY, at(5)), origin=BatchId(1, 4))
    replayed = make_link(make_plan(draft, id=BatchId(2, 9)))
    between = make_link(make_plan(make_increment(at(1), high=at(5)), id=BatchId(2, 1)))

    assert replayed.rank == BatchId(1, 4)
    assert replayed.rank < between.rank
    assert replayed.id > between.id


def test_a_repair_ranks_by_its_own_number_for_it_reads_again() -> None:
    assert make_link(make_plan(make_still(BatchKind.REPAIR, at(5)), id=BatchId(1, 8))).rank == BatchId(1, 8)


def test_a_contradiction_is_the_callers_and_a_broken_chain_stops_the_stream() -> None:
    assert issubclass(BadBatch, Misuse)
    assert issubclass(ChainBroken, DataInDoubt)
