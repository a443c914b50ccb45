"""Repairs: each row that is gone is buried by the bound that it was judged by, and by whom the stream was read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceIndex
from syncd.error_classes import ExitCode, exit_code_for
from syncd.errors import ServerChanged
from syncd.extract.delete_batches import find_delete_manifest
from syncd.extract.extract_pass import ExtractOutcome
from syncd.lake.read_requests import Part
from syncd.operations.repair_batches import DeletedRowGroup, RepairPlan, RepairProducer, plan_repair
from syncd.settings import Deletes, StreamSettings, TargetSettings
from syncd.verify.result import ComparisonResult, Difference, DifferenceKind
from tests.builders import NOON, ORDERS, RUN, at
from tests.unit.syncd.extract.test_delete_batches import TABLE
from tests.unit.syncd.extract.test_extract_pass import Bench
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.extraction import BatchChain

TARGET = TargetSettings(warehouse="redshift", schema="public", table="orders", deletes=Deletes.HARD)
SETTINGS = StreamSettings(source="shop", database="shop", table="orders", target=TARGET)
STAMPED = replace(
    TABLE,
    indexes=(*TABLE.indexes, SourceIndex(name="update_at", columns=("update_at", "id"), unique=False, whole=True)),
)


def ghost(key: int, upto: Cursor) -> Difference:
    return Difference(kind=DifferenceKind.GHOST, key={"id": key}, file_key={"id": key}, judged_mark=upto)


def keys_of(*ids: int) -> tuple[Mapping[str, Any], ...]:
    return tuple({"id": each} for each in ids)


class Mended(Bench):
    """A stream with one batch, and repairs of it."""

    def __init__(self) -> None:
        super().__init__(5)
        self.shop.shown = STAMPED
        self.settings = SETTINGS
        self.written: dict[BatchId, Sequence[Mapping[str, Any]]] = {}
        assert self.once().error is None

    def mend(self, repair: RepairPlan) -> ExtractOutcome:
        producer = RepairProducer(
            executor=self.producer(), source=self.shop, settings=self.settings, repair=repair, write=self.write
        )
        return self.run(producer).execute(RUN)

    def write(
        self, keys: Sequence[Mapping[str, Any]], *, batch: BatchId, mappings: Sequence[ColumnMapping]
    ) -> Sequence[Part]:
        self.written[batch] = keys
        return (
            Part(
                key=f"data/keys-{batch}",
                etag="e",
                bytes=9,
                rows=len(keys),
                sha256="s",
                low=START_CURSOR,
                high=START_CURSOR,
            ),
        )

    def upto(self, batch: BatchId) -> Cursor:
        plan = BatchChain(self.journal, ORDERS).read_plan(batch)
        buried = find_delete_manifest(plan) if plan else None
        assert buried is not None
        assert buried.tombstones is not None
        return buried.tombstones.upto


def test_ghosts_of_one_bound_share_a_grave() -> None:
    """Whatever came back since stands above the bound of its ghost, though perhaps below that of another."""
    found = (ghost(7, at(0, 3)), ghost(8, at(300, 1)), ghost(9, at(0, 3)))

    repair = plan_repair(ComparisonResult(differences=found, mark=at(0, 3)), SETTINGS, compared_at=NOON)

    assert repair.deleted_groups == (
        DeletedRowGroup(keys=keys_of(7, 9), upto=at(0)),
        DeletedRowGroup(keys=keys_of(8), upto=at(300)),
    )
    assert repair.deleted_count == 3


def test_a_table_that_is_read_by_its_key_has_no_stamps_to_bound_ghosts_by() -> None:
    by_key = replace(SETTINGS, cursor="id")
    found = (ghost(7, Cursor.from_values(9)), ghost(8, Cursor.from_values(12)))

    repair = plan_repair(ComparisonResult(differences=found, mark=Cursor.from_values(9)), by_key, compared_at=NOON)

    assert repair.deleted_groups == (DeletedRowGroup(keys=keys_of(7, 8), upto=START_CURSOR),)


def test_each_grave_becomes_a_batch_with_its_own_bound() -> None:
    stream = Mended()
    graves = (DeletedRowGroup(keys=keys_of(7, 9), upto=at(0)), DeletedRowGroup(keys=keys_of(8), upto=at(300)))

    outcome = stream.mend(RepairPlan(deleted_groups=graves, compared_at=NOON))

    assert (outcome.error, outcome.batches, outcome.rows) == (None, 2, 3)
    assert stream.written == {BatchId(1, 2): keys_of(7, 9), BatchId(1, 3): keys_of(8)}
    assert [stream.upto(batch) for batch in stream.written] == [at(0), at(300)]


REPAIRS = [
    RepairPlan(reread_keys=(Cursor.from_values(7),), compared_at=NOON),
    RepairPlan(deleted_groups=(DeletedRowGroup(keys=keys_of(7), upto=at(0)),), compared_at=NOON),
]


@pytest.mark.parametrize("repair", REPAIRS, ids=["read again", "buried"])
def test_before_the_stream_has_read_another_servers_time_again_nothing_is_mended(repair: RepairPlan) -> None:
    """The newest link is all that tells that another server answers, where nobody keeps notes of it."""
    stream = Mended()
    stream.shop.identity = "server-2"
    before = list(stream.store.list(""))

    outcome = stream.mend(repair)

    assert isinstance(outcome.error, ServerChanged)
    assert exit_code_for(outcome.error) is ExitCode.SOURCE
    assert "syncd run -t shop.orders" in outcome.error.hint
    assert list(stream.store.list("")) == before
    assert stream.state().required_extract_progress.source_identity == "server-1"


def test_a_server_that_takes_over_during_a_repair_stays_a_stranger() -> None:
    stream = Mended()

    def moved(*_: object) -> None:
        stream.shop.identity = "server-2"

    stream.reader.meanwhile = moved
    outcome = stream.mend(replace(REPAIRS[1], reread_keys=REPAIRS[0].reread_keys))

    assert isinstance(outcome.error, ServerChanged)
    assert (outcome.batches, stream.written) == (1, {})
    assert stream.state().required_extract_progress.source_identity == "server-1"
