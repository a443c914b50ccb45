"""Which files may go: decided from the chain, the marks, and what the key says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest

from syncd.lake.object_keys import is_amended, parse_data_batch
from syncd.lake.removal_records import ListedObject, RemovalRecord
from syncd.operations.cleanup_rules import (
    CleaningBasis,
    KeptFile,
    RemovableFile,
    RemovalReason,
    decide_copy_lists,
    decide_data_files,
)
from tests.builders import NOON, ORDERS, make_chain, make_plan, make_watermark
from watermarks.batch import BatchId, BatchLink
from watermarks.errors import StateUnreadable
from watermarks.names import StreamName
from watermarks.progress import ExtractProgress

OLD = NOON - timedelta(days=8)
PART = "00000.000-a1.parquet"


def key(batch: str, name: str = PART, stream: StreamName = ORDERS) -> str:
    return f"data/{stream.chain_stem}/2026/01/23/{batch}/{name}"


def lying(*keys: str, at: datetime = OLD) -> list[ListedObject]:
    return [ListedObject(key=each, bytes=10, at=at) for each in keys]


def link(batch: str, *files: str) -> BatchLink:
    [made] = make_chain(1)

    return replace(made, id=BatchId.from_text(batch), rows=1 if files else 0, files=files)


def ground(
    *links: BatchLink, half: ExtractProgress | None = None, planned: bool = True, waits: str | None = None
) -> CleaningBasis:
    """A chain of two batches, or another; what has landed says `waits`."""
    known = {one.id: one for one in links}
    return CleaningBasis(
        stream=ORDERS,
        extracted=half or make_watermark(*make_chain(2)).required_extract_progress,
        not_loaded_reason=lambda _batch: waits,
        read_link=known.get,
        read_plan=lambda batch: make_plan(str(batch)) if planned else None,
        written_before=NOON - timedelta(days=7),
    )


def closed_at(seq: int) -> ExtractProgress:
    return ExtractProgress(generation=2, seq=0, closed_generations=MappingProxyType({1: seq}))


def decided(found: CleaningBasis, *files: ListedObject) -> list[str]:
    return [one.reason for one in decide_data_files(found, files)]


def test_what_has_landed_everywhere_may_go() -> None:
    found = ground(link("1-1", key("1-1")))

    assert decided(found, *lying(key("1-1"), key("1-1", "amended-1-x.parquet"))) == [
        RemovalReason.LOADED,
        RemovalReason.LOADED,
    ]


def test_what_has_not_landed_everywhere_stays() -> None:
    found = ground(link("1-1", key("1-1")), waits="it waits to be loaded")

    assert decided(found, *lying(key("1-1"))) == ["it waits to be loaded"]


def test_what_the_link_of_its_number_does_not_name_is_an_orphan_whatever_has_landed() -> None:
    found = ground(link("1-1", key("1-1")), waits="it waits")
    other = key("1-1", "00000.000-b2.parquet")

    assert decided(found, *lying(other)) == [RemovalReason.ORPHAN]


def test_what_the_loader_may_still_need_is_no_orphan() -> None:
    found = ground(link("1-1", key("1-1")), waits="it waits")

    assert decided(found, *lying(key("1-1", "amended-1-x.parquet"))) == ["it waits"]


def test_parts_of_the_next_number_are_never_touched() -> None:
    assert decided(ground(), *lying(key("1-3"))) == ["it belongs to the next batch, which a writer may be working on"]


def test_parts_of_a_number_that_nobody_knows_stay() -> None:
    assert decided(ground(), *lying(key("1-4"), key("3-1"))) == [
        "batch 1-4 does not exist",
        "batch 3-1 does not exist",
    ]


def test_parts_without_a_link_are_orphans_once_their_generation_is_closed() -> None:
    found = ground(half=closed_at(2))

    assert decided(found, *lying(key("1-3"))) == [RemovalReason.ORPHAN]
    assert found.is_closed(BatchId(1, 3))
    assert not found.is_closed(BatchId(1, 4))


def test_what_a_link_names_that_came_too_late_to_count_stays() -> None:
    found = ground(link("1-3", key("1-3")), half=closed_at(2))

    assert decided(found, *lying(key("1-3"))) == [
        "batch 1-3 names it, although its generation was closed before that batch ended"
    ]


def test_parts_that_nobody_planned_stay() -> None:
    assert decided(ground(half=closed_at(2), planned=False), *lying(key("1-3"))) == ["batch 1-3 was never planned"]


def test_a_link_that_is_gone_keeps_its_files() -> None:
    assert decided(ground(), *lying(key("1-1"))) == ["the manifest of batch 1-1 is missing"]


def test_only_old_files_go() -> None:
    found = ground(link("1-1", key("1-1")))

    assert decided(found, *lying(key("1-1"), at=NOON - timedelta(days=6))) == ["it is too young"]


@pytest.mark.parametrize(
    "name",
    [
        f"data/{ORDERS.chain_stem}_old/2026/01/23/1-1/{PART}",
        f"data/{ORDERS.chain_stem}/2026/01/23/1-0/{PART}",
        f"data/{ORDERS.chain_stem}/1-1/{PART}",
        f"data/{ORDERS.chain_stem}/2026/01/23/1-1/deeper/{PART}",
    ],
)
def test_a_key_that_is_none_of_a_batch_stays(name: str) -> None:
    assert decided(ground(link("1-1", name)), *lying(name)) == ["its key names no batch"]
    assert parse_data_batch(ORDERS, name) is None


def test_a_stranger_beside_the_parts_stays() -> None:
    found = ground(link("1-1", key("1-1")))

    assert decided(found, *lying(key("1-1", "notes.txt"))) == ["its name is not that of a part"]
    assert not is_amended(key("1-1", "notes.txt"))


def test_a_list_for_copy_goes_when_no_transaction_can_use_it_any_more() -> None:
    young = ListedObject(key="copy/a.manifest", bytes=1, at=NOON - timedelta(hours=23))
    old = ListedObject(key="copy/b.manifest", bytes=1, at=NOON - timedelta(hours=25))

    found = list(decide_copy_lists([young, old], now=NOON, before=NOON))

    assert [type(one) for one in found] == [KeptFile, RemovableFile]


def test_a_record_is_read_as_it_was_written_and_only_for_its_stream() -> None:
    record = RemovalRecord(
        stream=ORDERS, at=datetime(2026, 1, 31, 12, 0, 0, 5, UTC), who="ann", why="old", nonce="n", files={"a": 3}
    )

    assert RemovalRecord.from_bytes(record.to_bytes(), at=record.key, stream=ORDERS) == record
    assert record.key == f"cleaned/{ORDERS.stem}/20260131T120000000005Z.json"
    with pytest.raises(StateUnreadable):
        RemovalRecord.from_bytes(
            record.to_bytes(), at=record.key, stream=StreamName(source="a", database="b", table="c")
        )
