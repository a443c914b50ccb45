"""What others do to files, links, ledger, fence and target: the stream says so by name or mends it, others go on."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from syncd.errors import FileRefused, SchemaDrift, WarehouseDown, WarehouseUnfit
from syncd.events import LedgerBehind
from syncd.load.load_pass import LOAD_ATTEMPTS
from syncd.redshift.connection import connect
from syncd.redshift.ledger import ForeignChain, TargetTableChanged
from syncd.redshift.load_batches import LoadedFilesGone
from syncd.redshift.quoting import TableRef
from syncd.redshift.session_pool import ReusableSession, SessionOpener
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.sandbox.redshift.faults import COMMIT_PATTERN
from syncd.settings import Deletes, Mode, Secret
from tests.builders import RUN, make_process
from tests.integration.load.conftest import Loader, Reader
from tests.services.landed import Batches
from tests.services.prepared import Prepared, moment, row, text_column
from tests.standin.clients import Bucket
from watermarks.batch import BatchId, BatchLink, ChainBroken
from watermarks.codec import decode, encode
from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.errors import HintedError, StateUnreadable
from watermarks.history import ChangeKind, ChangeNote, Journal
from watermarks.loading import FenceAhead
from watermarks.names import link_key
from watermarks.operator import ImportedPosition, Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]


class Hand:
    """Whoever lays a hand on what is ours."""

    def __init__(self, loader: Loader, bucket: Bucket) -> None:
        self._lake = loader.lake
        self._client = bucket.client

    def get(self, key: str) -> bytes:
        body: bytes = self._client.get_object(**self._place(key))["Body"].read()
        return body

    def put(self, key: str, body: bytes) -> None:
        self._client.put_object(**self._place(key), Body=body)

    def remove(self, key: str) -> None:
        self._client.delete_object(**self._place(key))

    def _place(self, key: str) -> dict[str, str]:
        return {"Bucket": self._lake.settings.bucket, "Key": self._lake.object_name(key)}


@pytest.fixture
def hand(loader: Loader, bucket: Bucket) -> Hand:
    return Hand(loader, bucket)


@pytest.fixture
def orders(prepared: Prepare) -> Batches:
    """Three batches of one stream, extracted."""
    batches = Batches(prepared())
    batches.add(row(1, 1), row(2, 2))
    batches.add(row(1, 3, name="newer"), row(3, 4))
    batches.add(row(4, 5), row(2, 6, name="newest"))
    return batches


@pytest.fixture
def other(prepared: Prepare) -> Batches:
    batches = Batches(prepared())
    batches.add(row(1, 1))
    return batches


Lives = tuple[Batches, Batches]


@pytest.fixture
def lives(orders: Batches, other: Batches) -> Lives:
    """One stream to which something happens, and one to which nothing does."""
    return orders, other


def stops(loader: Loader, stream: Prepared, error: type[HintedError], *words: str, **how: Any) -> HintedError:
    """The stream stops with this error, and its message and hint say these words; nothing of it landed."""
    outcome = loader.run(stream).execute(RUN, **how)
    assert isinstance(outcome.error, error), repr(outcome.error)
    told = f"{outcome.error.message} {outcome.error.hint}"
    assert all(word in told for word in words), told
    return outcome.error


def whole(warehouse: Reader, batches: Batches) -> None:
    assert warehouse.rows(batches.prepared, "id, update_at, name") == batches.content
    assert [batch for batch, _, _ in warehouse.ledger(batches.prepared)] == batches.ledger


def goes_on(loader: Loader, other: Batches, warehouse: Reader) -> None:
    """Another stream goes on, on the same session."""
    loader.load(other.prepared)
    whole(warehouse, other)


def gone(hand: Hand, link: BatchLink) -> None:
    hand.remove(link.files[0])


def truncated(hand: Hand, link: BatchLink) -> None:
    hand.put(link.files[0], hand.get(link.files[0])[:-1])


def of_another_length(hand: Hand, link: BatchLink) -> None:
    hand.put(link.files[0], hand.get(link.files[0]) + b"x")


def of_noise(hand: Hand, link: BatchLink) -> None:
    """As long as it was, and no Parquet any more."""
    body = hand.get(link.files[0])
    hand.put(link.files[0], body[:-8] + b"\0" * 8)


FILE_RUINS = [gone, truncated, of_another_length, of_noise]


@pytest.mark.parametrize("ruin", FILE_RUINS)
def test_a_file_that_is_not_what_its_manifest_says_stops_its_stream_alone(
    lives: Lives, loader: Loader, warehouse: Reader, hand: Hand, ruin: Callable[[Hand, BatchLink], None]
) -> None:
    orders, other = lives
    link, _ = orders.read[1]
    before = hand.get(link.files[0])
    ruin(hand, link)

    stops(loader, orders.prepared, FileRefused)

    goes_on(loader, other, warehouse)
    assert warehouse.ledger(orders.prepared) == []
    hand.put(link.files[0], before)
    loader.load(orders.prepared)
    whole(warehouse, orders)


def test_a_file_of_as_many_bytes_and_other_rows_is_found_by_their_count(
    prepared: Prepare, loader: Loader, warehouse: Reader, hand: Hand
) -> None:
    """As many rows in as many bytes COPY cannot tell apart: only the digests of an audit can."""
    orders, twin = Batches(prepared()), Batches(prepared())
    link = orders.add(row(1, 1), row(2, 2))
    other = twin.add(row(5, 5), row(6, 6), row(7, 7))
    body = hand.get(other.files[0])
    hand.put(link.files[0], body)
    longer = {**link.body, "parts": [{**link.body["parts"][0], "bytes": len(body)}]}
    put_link(hand, link, body=longer)
    mend_chain(loader, link)

    error = stops(loader, orders.prepared, FileRefused, "contain 3 rows, but their manifests say 2", "audit")

    assert "1-1" in error.message
    assert warehouse.ledger(orders.prepared) == []


def put_link(hand: Hand, link: BatchLink, **fields: Any) -> None:
    """A link changed by somebody who knows how to seal one."""
    key = link_key(link.stream, link.id)
    found = decode(hand.get(key), "watermarks/batch", 1, location=key)
    hand.put(key, encode("watermarks/batch", 1, {**found, **fields}))


def mend_chain(loader: Loader, link: BatchLink) -> None:
    """Read the link that stands there into the document, as if it had been extracted so."""
    stored = loader.journal.store.read(link_key(link.stream, link.id))
    assert stored
    digest = BatchLink.from_bytes(stored.body, location="test", stream=link.stream, batch=link.id).digest

    def changed(state: Any) -> Any:
        return replace(state, extract_progress=replace(state.extract_progress, last_link_digest=digest))

    loader.journal.commit(link.stream.stem, changed, ChangeNote(change=ChangeKind.SET, author="ann", reason="a test"))


def test_a_link_edited_by_hand_stops_its_stream_alone(
    orders: Batches, other: Batches, loader: Loader, warehouse: Reader, hand: Hand
) -> None:
    link, _ = orders.read[1]
    key = link_key(link.stream, link.id)
    hand.put(key, hand.get(key).replace(b'"rows":2', b'"rows":3'))

    stops(loader, orders.prepared, StateUnreadable, "1-2")

    goes_on(loader, other, warehouse)
    assert warehouse.ledger(orders.prepared) == []


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_link_that_was_edited_and_sealed_anew_is_no_link_of_the_chain(
    orders: Batches, loader: Loader, warehouse: Reader, hand: Hand, place: int
) -> None:
    link, _ = orders.read[place]
    put_link(hand, link, proven=True)

    stops(loader, orders.prepared, ChainBroken, "is not the one that was extracted")

    assert warehouse.ledger(orders.prepared) == []


def test_a_stray_file_beside_the_files_is_never_read(
    orders: Batches, loader: Loader, warehouse: Reader, hand: Hand
) -> None:
    for link, _ in orders.read:
        hand.put(link.files[0].replace(".parquet", "-stray.parquet"), hand.get(link.files[0]))

    loader.load(orders.prepared)

    whole(warehouse, orders)


def forget(warehouse: Reader, stream: Prepared, *batches: str) -> None:
    """Go back to an older ledger, which lacks these."""
    for batch in batches:
        parsed = BatchId.from_text(batch)
        number = parsed.generation * 10**12 + parsed.seq
        warehouse.client.run(
            f"delete from syncd_ledger where table_name = 'public.{stream.table}' and batch = {number}"
        )


@pytest.mark.parametrize("rows", [100, 3, 1])
def test_what_a_ledger_has_lost_lands_again_with_nothing_due(
    orders: Batches, loader: Loader, warehouse: Reader, rows: int
) -> None:
    """In one transaction, or in several."""
    loader.load(orders.prepared)
    forget(warehouse, orders.prepared, "1-2", "1-3")
    warehouse.client.run(f"delete from {orders.prepared.table} where id > 2")

    outcome = loader.run(orders.prepared, max_rows=rows).execute(RUN, compare=True)

    assert (outcome.error, outcome.batches) == (None, 0)
    whole(warehouse, orders)
    behind = [event.batches for event in loader.events if isinstance(event, LedgerBehind)]
    assert sum(behind) == 2


@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY, Mode.REPLACE])
@pytest.mark.parametrize("rows", [100, 1])
def test_a_dropped_ledger_is_made_anew_and_nothing_doubles(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode, rows: int
) -> None:
    orders = Batches(prepared(mode=mode, cursor="none" if mode is Mode.REPLACE else "update_at"))
    orders.add(row(1, 1), row(2, 2))
    orders.add(row(1, 3, name="newer"), row(3, 4))
    loader.load(orders.prepared)
    warehouse.client.run("drop table syncd_ledger")
    orders.add(row(4, 5))

    outcome = loader.run(orders.prepared, max_rows=rows).execute(RUN)

    assert outcome.error is None
    columns = "id, update_at, name" + (", _syncd_valid_to" if mode is Mode.HISTORY else "")
    assert warehouse.rows(orders.prepared, columns) == orders.content
    assert [batch for batch, _, _ in warehouse.ledger(orders.prepared)] == orders.ledger


def test_no_reader_sees_older_rows_while_a_lost_ledger_is_filled_again(
    orders: Batches, loader: Loader, warehouse: Reader, server: RedshiftStandIn
) -> None:
    loader.load(orders.prepared)
    before = warehouse.rows(orders.prepared, "id, update_at, name")
    forget(warehouse, orders.prepared, "1-1", "1-2", "1-3")
    second = server.faults.hold(COMMIT_PATTERN, nth=2)
    thread = Thread(target=lambda: loader.run(orders.prepared, max_rows=1).execute(RUN, compare=True))

    thread.start()
    second.wait_reached()
    seen = warehouse.rows(orders.prepared, "id, update_at, name")
    landed = len(warehouse.ledger(orders.prepared))
    second.release()
    thread.join(120)

    assert (seen, landed) == (before, 1)
    whole(warehouse, orders)


@pytest.mark.parametrize("ruin", [gone, truncated, of_noise])
def test_lost_batches_whose_files_are_not_those_that_landed_stop_the_stream(
    lives: Lives, loader: Loader, warehouse: Reader, hand: Hand, ruin: Callable[[Hand, BatchLink], None]
) -> None:
    orders, other = lives
    loader.load(orders.prepared)
    before = warehouse.rows(orders.prepared, "id, update_at, name")
    forget(warehouse, orders.prepared, "1-2", "1-3")
    link, _ = orders.read[2]
    body = hand.get(link.files[0])
    ruin(hand, link)

    stops(loader, orders.prepared, LoadedFilesGone, "1-3", link.files[0], "reset", compare=True)

    assert warehouse.rows(orders.prepared, "id, update_at, name") == before
    assert len(warehouse.ledger(orders.prepared)) == 1
    goes_on(loader, other, warehouse)
    hand.put(link.files[0], body)
    loader.load(orders.prepared, compare=True)
    whole(warehouse, orders)


def test_a_fence_that_was_dropped_is_made_anew(orders: Batches, loader: Loader, warehouse: Reader) -> None:
    run = loader.run(orders.prepared)
    assert run.execute(RUN).error is None
    fence = loader.target(orders.prepared)._control_tables.fence.name
    warehouse.client.run(f"drop table {fence}")
    orders.add(row(5, 7))

    assert run.execute(RUN).error is None

    whole(warehouse, orders)
    assert warehouse.client.value(f"select count(*) from {fence}") == 1


def test_a_fence_of_an_owner_that_the_lake_does_not_know_stops_its_stream_alone_until_it_is_dropped(
    orders: Batches, other: Batches, loader: Loader, warehouse: Reader
) -> None:
    """As after a restore of the lake: nobody has taken the stage over, and whoever believes that waits for ever."""
    loader.load(orders.prepared)
    fence = loader.target(orders.prepared)._control_tables.fence.name
    warehouse.client.run(f"update {fence} set epoch = 99")
    orders.add(row(5, 7))

    stops(loader, orders.prepared, FenceAhead, "epoch 99", "Drop the fence table")

    goes_on(loader, other, warehouse)
    warehouse.client.run(f"drop table {fence}")
    loader.load(orders.prepared)
    whole(warehouse, orders)


TABLE_RUINS = {
    "drop table {}": "does not exist",
    "alter table {} rename to {}_old": "does not exist",
    "delete from {}": "is empty, although 6 rows were loaded into it",
    "truncate {}": "is empty, although 6 rows were loaded into it",
}


@pytest.mark.parametrize("found", ["with a batch due", "with nothing due"])
@pytest.mark.parametrize("ruin", TABLE_RUINS)
def test_a_table_that_is_not_the_one_that_was_loaded_stops_its_stream_alone(
    lives: Lives, loader: Loader, warehouse: Reader, ruin: str, found: str
) -> None:
    orders, other = lives
    compare = found == "with nothing due"
    loader.load(orders.prepared)
    table = orders.prepared.table
    warehouse.client.run(ruin.format(table, table))
    if not compare:
        orders.add(row(5, 7))

    stops(
        loader,
        orders.prepared,
        TargetTableChanged,
        TABLE_RUINS[ruin],
        "watermark reset",
        "--redshift-only",
        compare=compare,
    )

    goes_on(loader, other, warehouse)
    assert len(warehouse.ledger(orders.prepared)) == 3
    Operator(journal=loader.journal, author="ann", reason="as the hint says").reset_marks(
        orders.prepared.stream, reset_extract=False
    )
    loader.load(orders.prepared)
    assert warehouse.rows(orders.prepared, "id, update_at, name") == orders.content


def test_a_table_that_is_gone_is_missed_after_a_skip_as_well(
    orders: Batches, loader: Loader, warehouse: Reader
) -> None:
    loader.load(orders.prepared)
    skipped = orders.add(row(5, 7))
    Operator(journal=loader.journal, author="ann", reason="a test").skip_batches(orders.prepared.stream, skipped.id)
    orders.add(row(6, 8))
    warehouse.client.run(f"drop table {orders.prepared.table}")

    stops(loader, orders.prepared, TargetTableChanged, "does not exist")


def test_an_empty_table_in_which_nothing_landed_is_no_trouble(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = Batches(prepared())
    orders.prepared.increment(high=Prepared.place(orders.prepared, row(1, 1)))
    loader.load(orders.prepared)
    orders.prepared.increment(row(2, 2))

    loader.load(orders.prepared)
    loader.load(orders.prepared, compare=True)

    assert warehouse.rows(orders.prepared) == [(2, "row 2")]


ALTERED = {
    "alter table {} drop column name": (
        SchemaDrift,
        ("no longer has the column name", "with which batch 1-3 was loaded", "ADD COLUMN"),
    ),
    "alter table {} drop column id": (SchemaDrift, ("no longer has the column id", "reset")),
    "alter table {} rename column name to label": (SchemaDrift, ("no longer has the column name",)),
}


@pytest.mark.parametrize("change", ALTERED)
def test_a_column_that_was_taken_out_is_not_put_back_empty(
    orders: Batches, other: Batches, loader: Loader, warehouse: Reader, change: str
) -> None:
    loader.load(orders.prepared)
    warehouse.client.run(change.format(orders.prepared.table))
    orders.add(row(5, 7))

    error, words = ALTERED[change]
    stops(loader, orders.prepared, error, *words)

    goes_on(loader, other, warehouse)


def test_a_column_of_another_type_stops_the_stream_with_the_statements_to_run(
    orders: Batches, loader: Loader, warehouse: Reader
) -> None:
    loader.load(orders.prepared)
    table = orders.prepared.table
    for sql in ("drop column name", "add column name bigint"):
        warehouse.client.run(f"alter table {table} {sql}")
    orders.add(row(5, 7))

    stops(loader, orders.prepared, SchemaDrift, "name is BIGINT", "ALTER TABLE")


def test_rows_that_others_put_into_the_table_do_not_stand_in_the_way(
    orders: Batches, loader: Loader, warehouse: Reader
) -> None:
    """What has a key of ours gives way to our row; what has not is found by `verify`, and stays."""
    loader.load(orders.prepared)
    table = orders.prepared.table
    for key in (5, 5, 99):
        warehouse.client.run(f"insert into {table} (id, name) values ({key}, 'by hand')")
    orders.add(row(5, 7))

    loader.load(orders.prepared)

    rows = warehouse.rows(orders.prepared, "id, name")
    assert [found for found in rows if found[0] in {5, 99}] == [(5, "row 5"), (99, "by hand")]


def test_files_of_a_column_that_is_new_to_them_land(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    """Which is not the same as a column that somebody took out."""
    orders = Batches(prepared())
    orders.add(row(1, 1))
    loader.load(orders.prepared)
    orders.prepared.columns = (*orders.prepared.columns, text_column("note"))
    orders.add(row(2, 2, note="new"))

    loader.load(orders.prepared)

    assert warehouse.rows(orders.prepared, "id, note") == [(1, None), (2, "new")]


@pytest.fixture
def stranger(server: RedshiftStandIn, loader: Loader, journal: Journal[Watermark]) -> Iterator[Loader]:
    """A loader whose user owns nothing."""
    made = Loader(server, loader.lake, journal)
    made.warehouse = replace(made.warehouse, user="other", password=Secret("Other1"))
    made.sessions = ReusableSession(SessionOpener(lambda: connect(made.warehouse, session_name="stranger")))
    yield made
    made.sessions.close()


GRANTS = {
    "fence": 'GRANT SELECT, INSERT, UPDATE, DELETE ON syncd_fence_[0-9a-f]+ TO "?other"?',
    "ledger": 'GRANT SELECT, INSERT, UPDATE, DELETE ON syncd_ledger TO "?other"?',
    "table": 'GRANT SELECT, INSERT, UPDATE, DELETE ON t[0-9]+ TO "?other"?',
}


def test_each_missing_right_is_told_with_its_grant_and_what_the_hints_say_is_enough(
    orders: Batches, other: Batches, loader: Loader, stranger: Loader, warehouse: Reader
) -> None:
    """Of the schema everybody has all rights in the stand-in, as in a new Redshift."""
    loader.load(other.prepared)  # fence, ledger and table of another owner
    loader.load(orders.prepared)
    orders.add(row(5, 7))
    told = []
    try:
        while (error := stranger.run(orders.prepared).execute(RUN).error) is not None:
            assert isinstance(error, WarehouseUnfit), repr(error)
            [what] = [what for what, words in GRANTS.items() if re.search(words, error.hint)]
            assert what not in told, error
            told.append(what)
            warehouse.client.run(error.hint.rstrip("; "))
    finally:
        for table in ("syncd_ledger", orders.prepared.table):
            warehouse.client.run(f"revoke all on {table} from other")

    assert set(told) == set(GRANTS)
    whole(warehouse, orders)


def test_refused_connections_are_waited_out_and_then_told(
    orders: Batches, loader: Loader, warehouse: Reader, server: RedshiftStandIn
) -> None:
    """As of a paused cluster. Batches wait, and land when it is back."""
    server.faults.refuse_connections()
    server.faults.wait_refusing()

    stops(loader, orders.prepared, WarehouseDown, "resume-cluster")

    assert len([event for event in loader.events if type(event).__name__ == "LoadRetried"]) == LOAD_ATTEMPTS - 1
    server.faults.accept_connections()
    server.faults.wait_listening()
    loader.load(orders.prepared)
    whole(warehouse, orders)


def test_a_warehouse_that_comes_back_within_the_tries_is_not_told(
    orders: Batches, loader: Loader, warehouse: Reader, server: RedshiftStandIn
) -> None:
    server.faults.refuse_connections()
    server.faults.wait_refusing()

    def pause(_seconds: float) -> None:
        if len(loader.events) == 3:
            server.faults.accept_connections()
            server.faults.wait_listening()

    outcome = loader.run(orders.prepared, pause=pause).execute(RUN)

    assert outcome.error is None
    whole(warehouse, orders)


def emptied(loader: Loader, bucket: Bucket) -> None:
    """All that the lake held is gone."""
    settings = loader.lake.settings
    pages = bucket.client.get_paginator("list_objects_v2").paginate(Bucket=settings.bucket, Prefix=settings.prefix)
    for found in [found["Key"] for page in pages for found in page.get("Contents", [])]:
        bucket.client.delete_object(Bucket=settings.bucket, Key=found)


def test_batches_of_a_lake_that_was_begun_anew_are_not_taken_for_those_that_landed(
    loader: Loader, prepared: Prepare, orders: Batches, warehouse: Reader, bucket: Bucket
) -> None:
    """The ledger has their numbers; what landed under them was another chain."""
    loader.load(orders.prepared)
    emptied(loader, bucket)
    loader.end()
    loader.process = make_process(loader.journal.store, f"anew-{orders.prepared.table}")
    anew = Batches(prepared(table=orders.prepared.table))
    anew.add(*(row(key, key, name="anew") for key in (1, 2, 3, 4)))

    doubt = stops(loader, anew.prepared, ForeignChain, "1-1", "manifests differ", "--redshift-only")
    loader.end()
    [dropped] = re.findall(r"DROP TABLE [^;]+", doubt.hint)
    warehouse.client.run(dropped)
    Operator(journal=loader.journal, author="ann", reason="the lake was begun anew").reset_marks(
        anew.prepared.stream, reset_extract=False
    )
    loader.load(anew.prepared)

    assert warehouse.rows(anew.prepared) == [(key, "anew") for key in (1, 2, 3, 4)]


@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY])
def test_numbers_of_another_chain_are_not_taken_for_those_of_a_stream_that_is_new_to_the_table(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode
) -> None:
    """It was renamed, or has another lake: its first numbers are lower than those that stand there."""
    before = prepared(mode=mode)
    for second in range(1, 6):
        before.increment(row(1, second, name=f"version {second}"), row(2, 1))
    loader.load(before)
    table = TableRef(schema="public", name=before.table)
    after = prepared(mode=mode, layout={"deletes": Deletes.HARD})
    after.increment(row(1, 10, name="newest"))
    after.bury(2, upto=Cursor.from_values(moment(20).replace(tzinfo=None)))

    stopped = loader.run(after, table=table).execute(RUN)
    loader.end()

    assert isinstance(stopped.error, TargetTableChanged)
    assert before.stream.chain_stem in stopped.error.message
    warehouse.client.run(stopped.error.hint.rpartition(": ")[2].rstrip(";"))
    for _ in range(2):
        assert loader.run(after, table=table).execute(RUN).error is None
        loader.end()
        after.increment(row(3, 11))
    now = "_syncd_valid_to is null and" if mode is Mode.HISTORY else ""
    newest = warehouse.client.rows(f"select id, name from {before.table} where {now} update_at > '{moment(5):%F %T}'")
    assert sorted(map(tuple, newest)) == [(1, "newest"), (3, "row 3")]
    assert not warehouse.client.rows(f"select id from {before.table} where {now} id = 2")


@pytest.mark.parametrize("again", [False, True], ids=["lower numbers", "higher numbers"])
def test_of_a_table_that_was_taken_over_only_numbers_that_come_again_stand_in_the_way(
    prepared: Prepare, loader: Loader, *, again: bool
) -> None:
    before, after = prepared(), prepared()
    before.increment(row(1, 1))
    if again:
        Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(before.stream, reset_load=False)
        before.increment(row(1, 1))
    loader.load(before)
    taken = ImportedPosition(cursor=Cursor.from_values(moment(1).replace(tzinfo=None), 1))
    Operator(journal=loader.journal, author="ann", reason="a test").import_position(after.stream, taken)
    after.increment(row(1, 2, name="newer"))

    outcome = loader.run(after, table=TableRef(schema="public", name=before.table)).execute(RUN)
    loader.end()

    assert isinstance(outcome.error, TargetTableChanged) if again else outcome.error is None
