"""Rows that the warehouse refuses: put aside with the reason, while all others land."""

import io
import random
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from syncd.errors import RowRefused
from syncd.lake.manifest import Manifest
from syncd.s3.lake_client import S3Lake
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.sandbox.redshift.faults import COMMIT_PATTERN, FaultTiming
from syncd.settings import DEFAULT_MAX_REFUSED_ROWS
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, json_column, row
from watermarks.batch import BatchLink
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
WITH_DOC = (ID, NAME, UPDATE_AT, json_column("doc"))


def aside(loader: Loader, link: BatchLink) -> list[dict[str, Any]]:
    """Every row that was put aside of a batch, its reason with it."""
    stray = loader.lake.list_objects(f"quarantine/{link.stream.chain_stem}/{link.id}/")
    tables = [pq.read_table(io.BytesIO(loader.lake.read(found.key))) for found in stray]
    return sorted((found for table in tables for found in table.to_pylist()), key=lambda found: found["id"])


def test_rows_that_cannot_land_are_put_aside_and_all_others_land(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=WITH_DOC)
    bad = {7: b"{", 350: b'"' + b"x" * 65_536 + b'"', 351: b"no document"}
    rows = [row(key, key, doc=bad.get(key, b'{"a": 1}')) for key in range(1, 501)]
    first = orders.increment(*rows, parts=3)
    orders.increment(row(900, 900, doc=b"[]"))

    outcome = loader.load(orders)

    assert (outcome.rows, outcome.quarantined) == (498, 3)
    assert [found for (found,) in warehouse.rows(orders, "id", order="1")] == [
        *(key for key in range(1, 501) if key not in bad),
        900,
    ]
    assert warehouse.ledger(orders) == [(1_000000000001, 497, "increment"), (1_000000000002, 1, "increment")]
    found = aside(loader, first)
    assert [(each["id"], each["doc"], each["_syncd_batch"]) for each in found] == [
        (key, doc, 1_000000000001) for key, doc in bad.items()
    ]
    assert all(each["_syncd_reason"].startswith("doc: ") for each in found)
    [(batch, count, reason)] = loader.put_aside
    assert (batch, count, reason) == ("1-1", 3, found[0]["_syncd_reason"])


def test_a_text_that_no_copy_takes_is_put_aside_with_what_the_warehouse_says(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    link = orders.increment(row(1, 1), row(2, 2, name="a\0b"), row(3, 3))

    loader.load(orders)

    assert warehouse.rows(orders) == [(1, "row 1"), (3, "row 3")]
    [found] = aside(loader, link)
    assert "NUL byte" in found["_syncd_reason"]


def test_what_was_put_aside_stays_aside_when_the_batch_lands_again(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """By another process too, which learns of it from the lake, and tells it: the row is not in the target by this."""
    orders = prepared(columns=WITH_DOC)
    link = orders.increment(row(1, 1, doc=b"{"), row(2, 2, doc=b"{}"))
    loader.load(orders)
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(orders.stream, reset_extract=False)

    outcome = loader.load(orders)

    assert (outcome.rows, outcome.quarantined) == (1, 1)
    assert warehouse.rows(orders, "id", order="1") == [(2,)]
    assert len(aside(loader, link)) == 1
    first, again = loader.put_aside
    assert again[:2] == first[:2] == ("1-1", 1)
    assert f"(syncd quarantine show -t shop.{orders.table} --batch 1-1)" in again[2]


def test_a_batch_that_lands_whole_once_the_table_takes_its_rows_tells_of_none(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """Its amendment stands, and whoever does not need it does not look for it."""
    orders = prepared()
    warehouse.client.run(
        f'create table "{orders.table}" ("id" bigint, "name" varchar(200) not null, "update_at" timestamp)'
    )
    orders.increment(row(1, 1), row(2, 2, name=None), row(3, 3))
    loader.load(orders)
    warehouse.client.run(f'drop table "{orders.table}"')
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(orders.stream, reset_extract=False)

    outcome = loader.load(orders)

    assert (outcome.rows, outcome.quarantined, len(loader.put_aside)) == (3, 0, 1)


@pytest.mark.parametrize("when", FaultTiming)
def test_rows_put_aside_are_told_once_where_the_answer_to_commit_is_lost(
    prepared: Prepare, loader: Loader, warehouse: Reader, server: RedshiftStandIn, when: FaultTiming
) -> None:
    orders = prepared(columns=WITH_DOC)
    orders.increment(row(1, 1, doc=b"{"), row(2, 2, doc=b"{}"))
    fault = server.faults.drop(COMMIT_PATTERN, when=when)

    outcome = loader.load(orders)

    assert fault.reached.is_set()
    assert (outcome.rows, outcome.quarantined, len(loader.put_aside)) == (1, 1, 1)
    assert warehouse.rows(orders, "id", order="1") == [(2,)]


def test_a_file_of_which_no_row_lands_is_left_out(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    orders = prepared(columns=WITH_DOC)
    orders.increment(row(1, 1, doc=b"{"), row(2, 2, doc=b"}"))

    outcome = loader.load(orders)

    assert (outcome.batches, outcome.rows, outcome.quarantined) == (1, 0, 2)
    assert warehouse.rows(orders, "id", order="1") == []


def test_where_all_rows_are_refused_it_is_the_table_that_is_wrong(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=WITH_DOC)
    orders.increment(*(row(key, key, doc=b"{") for key in range(1, 1_200)))

    with pytest.raises(RowRefused):
        loader.load(orders)

    assert warehouse.ledger(orders) == []
    assert not loader.put_aside


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "said"), [(1_200, "none of 5 rows"), (DEFAULT_MAX_REFUSED_ROWS + 1, "more than 200 rows")]
)
def test_where_too_many_rows_are_refused_the_hint_says_what_can_be_done_and_names_no_quarantine(
    prepared: Prepare, loader: Loader, bad: int, said: str
) -> None:
    """Nothing is put aside then, so that there is nothing to look at; and all is done at the target."""
    orders = prepared()
    orders.increment(*(row(key, key, name="a\0" if key > 1_200 - bad else "a") for key in range(1, 1_201)))

    with pytest.raises(RowRefused, match=f"{said} .*, and nothing was quarantined") as caught:
        loader.load(orders)

    table = f"shop.{orders.table}"
    assert f"(syncd plan -t {table})" in caught.value.hint
    assert caught.value.hint.endswith(f"syncd run -t {table} --load-only")
    assert not loader.put_aside
    assert not loader.lake.list_objects(f"quarantine/{orders.stream.chain_stem}/")


def test_as_many_rows_of_a_file_are_put_aside_as_the_configuration_allows(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """The way on where they are all really wrong; a row more stops the stream, and the hint names the setting."""
    orders = prepared(layout={"max_refused": 2})
    orders.increment(*(row(key, key, name="a\0" if key > 47 else "a") for key in range(1, 51)))

    with pytest.raises(RowRefused, match="more than 2 rows") as caught:
        loader.load(orders)
    orders.layout = {"max_refused": 3}
    outcome = loader.load(orders)

    assert "`max_refused`" in caught.value.hint
    assert outcome.rows == len(warehouse.rows(orders)) == 47
    assert [(batch, rows) for batch, rows, _ in loader.put_aside] == [("1-1", 3)]


@pytest.mark.slow
def test_however_many_files_hold_a_row_that_no_copy_takes_all_others_land_in_one_pass(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """COPY names one file at a time; the lake has a prefix, which the warehouse's names of files have too."""
    orders = prepared()
    for number in range(12):
        orders.increment(row(2 * number + 1, number), row(2 * number + 2, number, name="a\0b"))

    outcome = loader.load(orders)

    assert (outcome.batches, outcome.rows) == (12, 12)
    assert [key for (key,) in warehouse.rows(orders, "id", order="1")] == list(range(1, 25, 2))
    assert sum(rows for _, rows, _ in loader.put_aside) == 12


def test_a_null_where_somebodys_table_takes_none_is_put_aside(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    warehouse.client.run(
        f'create table "{orders.table}" ("id" bigint, "name" varchar(200) not null, "update_at" timestamp)'
    )
    link = orders.increment(*(row(key, key, **({"name": None} if key == 7 else {})) for key in range(1, 21)))

    outcome = loader.load(orders)

    assert outcome.rows == 19
    assert [found["id"] for found in aside(loader, link)] == [7]


def test_of_several_documents_the_one_that_is_refused_is_found(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """The warehouse says of a document neither row nor column."""
    orders = prepared(columns=(ID, NAME, UPDATE_AT, json_column("one"), json_column("two"), json_column("three")))
    good = {"one": b"{}", "two": b"[]", "three": None}
    link = orders.increment(row(1, 1, **good), row(2, 2, **{**good, "two": b"{"}), row(3, 3, **good))

    loader.load(orders)

    [found] = aside(loader, link)
    assert found["_syncd_reason"].startswith("two: ")


@pytest.mark.slow
def test_a_file_is_sifted_and_divided_row_group_by_row_group(
    prepared: Prepare, loader: Loader, warehouse: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large it is, no more of it is held than one of them."""
    orders = prepared(columns=WITH_DOC, group_rows=1_000)
    noise = random.Random(7)
    rows = [row(key, key, doc=b'"%s"' % noise.randbytes(100).hex().encode()) for key in range(1, 8_001)]
    rows[2_500] = {**rows[2_500], "doc": b"{"}
    rows[7_999] = {**rows[7_999], "doc": b"["}
    link = orders.increment(*rows)
    [part] = Manifest.from_link(link).parts
    asked: list[int] = []
    piece = S3Lake.read_range

    def counted(lake: S3Lake, key: str, first: int, end: int) -> bytes:
        asked.append(end - first)
        return piece(lake, key, first, end)

    def never(_lake: S3Lake, key: str) -> bytes:
        raise AssertionError(f"{key} was read whole")

    monkeypatch.setattr(S3Lake, "read_range", counted)
    monkeypatch.setattr(S3Lake, "read", never)
    outcome = loader.load(orders)
    monkeypatch.undo()

    assert outcome.rows == 7_998
    assert max(asked) < part.bytes / 6
    assert sum(asked) < 4 * part.bytes
    assert [found["id"] for found in aside(loader, link)] == [2_501, 8_000]
    assert warehouse.rows(orders, "count(*), sum(id)", order="1") == [(7_998, 8_000 * 8_001 // 2 - 10_501)]


def test_one_row_among_many_costs_few_trials(prepared: Prepare, loader: Loader) -> None:
    """Two a halving at most, and fewer where the first half lands."""
    orders = prepared(columns=WITH_DOC)
    orders.increment(*(row(key, key, doc=b"{" if key == 1_024 else b"{}") for key in range(1, 1_025)))

    loader.load(orders)

    [sieve] = loader.sieves
    samples, halvings, column = 5, 10, 1
    assert sieve.trial_count <= samples + 1 + halvings + 1 + column
