"""Rows that come back from quarantine: each once, never over a newer version, whatever the mode."""

from collections.abc import Callable
from typing import Any

import pytest

from syncd.datatypes.columns import Policies, Policy
from syncd.errors import ConfigError
from syncd.load.quarantine_replay import QuarantinedRowsMissing
from syncd.settings import MetadataColumn, Mode
from tests.integration.load.conftest import Loader, Reader
from tests.integration.load.replays import Replayer
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, json_column, moment, position, row, text_column
from tests.services.travelling import Travelling
from watermarks.batch import BatchKind
from watermarks.document import Stage
from watermarks.operator import Operator
from watermarks.store import StoredObject
from watermarks.stores.s3 import S3Store
from watermarks.window import Window

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Travel = Callable[..., Travelling]
WITH_NOTE = (ID, NAME, UPDATE_AT, text_column("note"))
WITH_DOC = (ID, NAME, UPDATE_AT, json_column("doc"))
TRUNCATE = Policies(oversize=Policy.TRUNCATE)
LONG = "é" * 35_000


@pytest.fixture
def travelling(lake: Any, journal: Any) -> Travel:
    def make(**words: Any) -> Travelling:
        return Travelling(lake, journal, **{"columns": WITH_NOTE, **words})

    return make


@pytest.fixture
def replayer(loader: Loader) -> Replayer:
    return Replayer(loader)


def test_rows_of_the_extraction_come_back_under_another_policy(
    travelling: Travel, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    orders = travelling()
    orders.increment(row(1, 1, note="a"), row(2, 2, note=LONG), row(3, 3, note=None))
    loader.load(orders)
    assert warehouse.rows(orders, "id", order="1") == [(1,), (3,)]

    outcome = replayer.replay(orders, policies=TRUNCATE)
    loader.load(orders)

    assert (outcome.batches, outcome.rows, outcome.quarantined) == (1, 1, 0)
    assert warehouse.rows(orders, "id, octet_length(note), _syncd_batch", order="1") == [
        (1, 1, 10**12 + 1), (2, 65_534, 10**12 + 1), (3, None, 10**12 + 1),
    ]  # fmt: skip
    assert warehouse.ledger(orders) == [(10**12 + 1, 2, "increment"), (10**12 + 2, 1, "replay")]
    [aside] = replayer.look(orders).files
    assert (str(aside.batch), str(aside.replayed_by)) == ("1-1", "1-2")


def test_a_replay_takes_each_row_once(travelling: Travel, loader: Loader, replayer: Replayer) -> None:
    orders = travelling()
    orders.increment(row(1, 1, note=LONG), row(2, 2, note=LONG))
    first = replayer.replay(orders, policies=TRUNCATE)

    again = replayer.replay(orders)

    assert (first.rows, again.rows, again.batches) == (2, 0, 0)
    state = loader.journal.read_newest(orders.stream.stem)
    assert state
    assert state.required_extract_progress.seq == 2


def test_without_anything_mended_a_replay_makes_no_batch_and_says_why(
    travelling: Travel, loader: Loader, replayer: Replayer
) -> None:
    orders = travelling()
    orders.increment(row(1, 1, note=LONG))
    before = loader.journal.read(orders.stream.stem)

    outcome = replayer.replay(orders)

    assert (outcome.batches, outcome.wait_reason) == (0, "1 row in quarantine still cannot be loaded")
    after = loader.journal.read(orders.stream.stem)
    assert before
    assert after
    assert after.required_extract_progress == before.required_extract_progress


def test_what_passes_comes_back_and_what_does_not_is_put_aside_anew(
    travelling: Travel, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    """A document is never cut, and under another policy it comes back in its turn, ranked by who read it first."""
    orders = travelling(columns=(*WITH_NOTE, json_column("doc")), policies=Policies(oversize=Policy.QUARANTINE))
    huge = b'"' + b"x" * 16_777_216 + b'"'
    orders.increment(row(1, 1, note=LONG, doc=None), row(2, 2, note="b", doc=huge))

    outcome = replayer.replay(orders, policies=TRUNCATE)

    assert (outcome.rows, outcome.quarantined) == (1, 1)
    assert [(str(one.batch), str(one.replayed_by), one.part.rows) for one in replayer.look(orders).files] == [
        ("1-1", "1-2", 2), ("1-2", "None", 1),
    ]  # fmt: skip
    replayer.replay(orders, policies=Policies(oversize=Policy.NULL))
    loader.load(orders)
    assert warehouse.rows(orders, "id, _syncd_batch", order="1") == [(1, 10**12 + 1), (2, 10**12 + 1)]
    assert replayer.waiting(orders) == 0


def test_a_policy_that_would_stop_the_stream_leaves_a_row_where_it_is(travelling: Travel, replayer: Replayer) -> None:
    orders = travelling()
    orders.increment(row(1, 1, note=LONG))

    outcome = replayer.replay(orders, policies=Policies(oversize=Policy.FAIL))

    assert (outcome.batches, outcome.error) == (0, None)
    assert replayer.waiting(orders) == 1


def test_rows_that_the_warehouse_refused_come_back_once_its_table_takes_them(
    prepared: Prepare, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    orders = prepared()
    table = f'"{orders.table}"'
    warehouse.client.run(
        f"create table {table}"
        ' ("id" bigint, "name" varchar(200) not null, "update_at" timestamp, "_syncd_batch" bigint)'
    )
    orders.increment(*(row(key, key, **({"name": None} if key in {3, 7} else {})) for key in range(1, 11)))
    loader.load(orders)
    assert replayer.waiting(orders) == 2
    for sql in (
        f'alter table {table} add column "n" varchar(200)',
        f'update {table} set "n" = "name"',
        f'alter table {table} drop column "name"',
        f'alter table {table} rename column "n" to "name"',
    ):
        warehouse.client.run(sql)

    outcome = replayer.replay(orders)
    landed = loader.load(orders)

    assert (outcome.rows, landed.rows) == (2, 2)
    assert [key for (key,) in warehouse.rows(orders, "id", order="1")] == list(range(1, 11))
    assert replayer.waiting(orders) == 0


def test_rows_that_are_refused_again_lie_in_quarantine_as_before(
    prepared: Prepare, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    orders = prepared(columns=WITH_DOC)
    orders.increment(row(1, 1, doc=b"{"), row(2, 2, doc=b"{}"))
    loader.load(orders)

    for turn in range(2):
        replayer.replay(orders)
        assert loader.load(orders).rows == 0
        assert replayer.waiting(orders) == 1, turn

    assert warehouse.rows(orders, "id", order="1") == [(2,)]
    assert [(str(one.batch), str(one.replayed_by)) for one in replayer.look(orders).files] == [
        ("1-1", "1-2"), ("1-2", "1-3"), ("1-3", "None"),
    ]  # fmt: skip


def test_a_replay_lands_never_over_a_newer_version(
    travelling: Travel, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    """Whether the newer one has landed, or lands with it."""
    orders = travelling()
    orders.increment(row(1, 1, note=LONG), row(2, 2, note=LONG), row(3, 3, note=LONG))
    orders.increment(row(1, 11, name="newer", note="n"))
    loader.load(orders)
    orders.increment(row(2, 12, name="newer", note="n"))

    replayer.replay(orders, policies=TRUNCATE)
    loader.load(orders)

    assert warehouse.rows(orders, "id, name, _syncd_batch") == [
        (1, "newer", 10**12 + 2), (2, "newer", 10**12 + 3), (3, "row 3", 10**12 + 1),
    ]  # fmt: skip


def test_in_history_a_row_comes_back_between_the_versions_around_it(
    travelling: Travel, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    orders = travelling(mode=Mode.HISTORY)
    orders.increment(row(1, 1, name="first", note=None))
    orders.increment(row(1, 2, name="second", note=LONG))
    orders.increment(row(1, 3, name="third", note=None))
    loader.load(orders)

    replayer.replay(orders, policies=TRUNCATE)
    loader.load(orders)

    assert warehouse.rows(orders, "name, _syncd_valid_to", order="update_at") == [
        ("first", moment(2).replace(tzinfo=None)), ("second", moment(3).replace(tzinfo=None)), ("third", None),
    ]  # fmt: skip


def test_in_append_a_row_comes_back_beside_the_others_of_its_range(
    travelling: Travel, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    """Also after the range was read again, which brought one of the two rows itself."""
    orders = travelling(mode=Mode.APPEND)
    orders.increment(row(1, 1, note=None), row(2, 2, note=LONG), row(3, 3, note=LONG), row(4, 4, note=None))
    loader.load(orders)
    again = row(2, 2, note="short")
    orders.beside(BatchKind.REPAIR, again, window=Window(position(row(1, 1)), position(again)))
    loader.load(orders)

    replayer.replay(orders, policies=TRUNCATE)
    loader.load(orders)

    assert warehouse.rows(orders, "id, octet_length(note)", order="1") == [(1, None), (2, 5), (3, 65_534), (4, None)]


def test_a_replay_comes_back_again_when_everything_is_landed_anew(
    travelling: Travel, loader: Loader, replayer: Replayer, warehouse: Reader
) -> None:
    orders = travelling()
    orders.increment(row(1, 1, note=LONG), row(2, 2, note="b"))
    orders.increment(row(2, 3, name="newer", note=LONG))
    replayer.replay(orders, policies=TRUNCATE)
    loader.load(orders)
    before = warehouse.rows(orders)
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(orders.stream, reset_extract=False)

    loader.load(orders)

    assert before == warehouse.rows(orders) == [(1, "row 1"), (2, "newer")]


def test_a_table_that_is_replaced_whole_is_read_again_instead(travelling: Travel, replayer: Replayer) -> None:
    countries = travelling(mode=Mode.REPLACE, cursor="none")
    countries.chunk(row(1, 1, note=LONG), done=True)

    with pytest.raises(ConfigError, match="replaces the whole table") as caught:
        replayer.replay(countries, policies=TRUNCATE)

    assert caught.value.hint.endswith(f"syncd run -t shop.{countries.table}")
    countries.mode, countries.cursor = Mode.UPSERT, "update_at"
    countries.take_up()
    assert replayer.replay(countries).batches == 0


def test_a_target_without_the_number_of_batches_is_refused_with_what_to_do(
    travelling: Travel, replayer: Replayer
) -> None:
    orders = travelling(notes=(MetadataColumn.LOADED_AT,))
    orders.increment(row(1, 1, note=LONG))

    with pytest.raises(ConfigError, match="has no column _syncd_batch") as caught:
        replayer.replay(orders, policies=TRUNCATE)

    assert "--from INSTANT --until INSTANT" in caught.value.hint


def test_the_extraction_gives_up_a_replay_that_was_planned_and_goes_on(
    travelling: Travel, loader: Loader, replayer: Replayer
) -> None:
    """Its rows wait for the next replay."""
    orders = travelling()
    orders.increment(row(1, 1, note=LONG))
    producer = replayer.producer(orders, policies=TRUNCATE)
    state = loader.journal.read_newest(orders.stream.stem)
    assert state
    draft = producer.propose_batch(state)
    assert draft
    plan = orders.sealed(draft)
    orders.refuses_plans = True
    orders.increment(row(2, 2, note="b"))
    orders.refuses_plans = False

    outcome = replayer.replay(orders)

    link = replayer.quarantine(orders).chain.require_link(plan.id)
    assert link.kind is BatchKind.ABANDONED
    assert (outcome.batches, outcome.rows, replayer.waiting(orders)) == (1, 1, 0)


def test_a_file_that_nothing_names_is_told_as_a_stray_and_never_brought_back(
    travelling: Travel, loader: Loader, replayer: Replayer
) -> None:
    orders = travelling()
    link = orders.increment(row(1, 1, note=LONG))
    stem = orders.stream.chain_stem
    [aside] = replayer.look(orders).files
    body = loader.lake.read(aside.part.key)
    strays = [
        f"quarantine/{stem}/1-1/00009.000-x.parquet", f"quarantine/{stem}/1-9/00000.000-x.parquet",
        f"quarantine/{stem}/readme.txt",
    ]  # fmt: skip
    for key in strays:
        loader.lake.put(key, body)

    outcome = replayer.replay(orders, policies=TRUNCATE)

    assert outcome.rows == 1
    lying = replayer.look(orders)
    assert [stray.key for stray in lying.strays] == strays
    assert [one.part.key for one in lying.files] == [aside.part.key]
    assert link.id == lying.files[0].batch


def test_a_file_that_is_gone_is_told_so(travelling: Travel, loader: Loader, replayer: Replayer) -> None:
    orders = travelling()
    link = orders.increment(row(1, 1, note=LONG))
    [aside] = replayer.look(orders).files
    loader.lake.delete_objects([aside.part.key])

    [found] = replayer.look(orders, link.id).files
    with pytest.raises(QuarantinedRowsMissing, match="is missing, although batch 1-1 names it"):
        replayer.replay(orders, policies=TRUNCATE, batch=link.id)

    assert (found.is_missing, found.stage) == (True, Stage.EXTRACT)


def test_a_stream_with_nothing_in_quarantine_is_asked_nothing(prepared: Prepare, replayer: Replayer) -> None:
    """Not even whether a replay would be possible: it is one of all tables."""
    orders = prepared(mode=Mode.REPLACE, cursor="none")
    orders.chunk(row(1, 1), done=True)

    assert replayer.replay(orders).batches == 0


def test_what_the_next_reading_wants_to_know_is_handed_on(
    travelling: Travel, loader: Loader, replayer: Replayer
) -> None:
    orders = travelling(identity="server-2")
    orders.plan_body = {"horizon": {"breaks": ["b1"]}, "witness": ["w"]}
    orders.increment(row(1, 1, note=LONG))

    replayer.replay(orders, policies=TRUNCATE)

    state = loader.journal.read_newest(orders.stream.stem)
    assert state
    plan = replayer.quarantine(orders).chain.read_plan(state.required_extract_progress.last_batch)
    assert plan
    assert (plan.draft.body["horizon"], plan.draft.body["witness"]) == ({"breaks": ["b1"]}, ["w"])
    assert state.required_extract_progress.source_identity == "server-2"


def test_a_look_costs_what_lies_there_and_not_what_the_chain_is_long(
    travelling: Travel, loader: Loader, replayer: Replayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document; and of each batch with rows aside its link, and whether it was amended or replayed."""
    orders = travelling()
    for number in range(1, 31):
        orders.increment(row(number, number, note=LONG if number in {7, 21} else "a"))
    asked: list[str] = []
    read = S3Store.read

    def counted(store: S3Store, key: str) -> StoredObject | None:
        asked.append(key.partition("/")[0])
        return read(store, key)

    monkeypatch.setattr(S3Store, "read", counted)
    lying = replayer.look(orders)

    assert [str(batch) for batch in lying.waiting_batches] == ["1-7", "1-21"]
    assert asked.count("batches") == 6
    assert len(asked) <= 6 + 3
