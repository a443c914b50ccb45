"""Repairs: each row that is gone is buried by the bound that it was judged by, and by whom the stream was read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from syncd.cli.exit_codes import Exit, exit_for
from syncd.datatypes.columns import Passage
from syncd.datatypes.source_table import Index
from syncd.errors import AnotherServer
from syncd.extract.delete_batches import burial_of
from syncd.extract.extract_pass import Outcome
from syncd.lake.window_reads import Part
from syncd.operations.repair_batches import Grave, MendingProducer, Repair, repair_of
from syncd.settings import Deletes, StreamSettings, TargetSettings
from syncd.verify.result import Difference, Kind, Verdict
from tests.builders import NOON, ORDERS, RUN, at
from tests.unit.syncd.extract.test_delete_batches import TABLE
from tests.unit.syncd.extract.test_extract_pass import Bench
from watermarks.batch import BatchId
from watermarks.cursor import START, Cursor
from watermarks.extraction import Chain

TARGET = TargetSettings(warehouse="redshift", schema="public", table="orders", deletes=Deletes.HARD)
SETTINGS = StreamSettings(source="shop", database="shop", table="orders", target=TARGET)
STAMPED = replace(
    TABLE,
    indexes=(*TABLE.indexes, Index(name="update_at", columns=("update_at", "id"), unique=False, whole=True)),
)


def ghost(key: int, upto: Cursor) -> Difference:
    return Difference(kind=Kind.GHOST, key={"id": key}, file_key={"id": key}, upto=upto)


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

    def mend(self, repair: Repair) -> Outcome:
        run = self.run()
        run._producer = MendingProducer(
            inner=run._producer, source=self.shop, settings=self.settings, repair=repair, write=self.write
        )
        return run.once(RUN)

    def write(
        self, keys: Sequence[Mapping[str, Any]], *, batch: BatchId, passages: Sequence[Passage]
    ) -> Sequence[Part]:
        self.written[batch] = keys
        return (Part(key=f"data/keys-{batch}", etag="e", bytes=9, rows=len(keys), sha256="s", low=START, high=START),)

    def upto(self, batch: BatchId) -> Cursor:
        plan = Chain(self.journal, ORDERS).plan(batch)
        buried = burial_of(plan) if plan else None
        assert buried is not None
        assert buried.tombstones is not None
        return buried.tombstones.upto


def test_ghosts_of_one_bound_share_a_grave() -> None:
    """Whatever came back since stands above the bound of its ghost, though perhaps below that of another."""
    found = (ghost(7, at(0, 3)), ghost(8, at(300, 1)), ghost(9, at(0, 3)))

    repair = repair_of(Verdict(differences=found, mark=at(0, 3)), SETTINGS, at=NOON)

    assert repair.graves == (Grave(keys=keys_of(7, 9), upto=at(0)), Grave(keys=keys_of(8), upto=at(300)))
    assert repair.gone == 3


def test_a_table_that_is_read_by_its_key_has_no_stamps_to_bound_ghosts_by() -> None:
    by_key = replace(SETTINGS, cursor="id")
    found = (ghost(7, Cursor.of(9)), ghost(8, Cursor.of(12)))

    repair = repair_of(Verdict(differences=found, mark=Cursor.of(9)), by_key, at=NOON)

    assert repair.graves == (Grave(keys=keys_of(7, 8), upto=START),)


def test_each_grave_becomes_a_batch_with_its_own_bound() -> None:
    stream = Mended()
    graves = (Grave(keys=keys_of(7, 9), upto=at(0)), Grave(keys=keys_of(8), upto=at(300)))

    outcome = stream.mend(Repair(graves=graves, at=NOON))

    assert (outcome.error, outcome.batches, outcome.rows) == (None, 2, 3)
    assert stream.written == {BatchId(1, 2): keys_of(7, 9), BatchId(1, 3): keys_of(8)}
    assert [stream.upto(batch) for batch in stream.written] == [at(0), at(300)]


REPAIRS = [
    Repair(keys=(Cursor.of(7),), at=NOON),
    Repair(graves=(Grave(keys=keys_of(7), upto=at(0)),), at=NOON),
]


@pytest.mark.parametrize("repair", REPAIRS, ids=["read again", "buried"])
def test_before_the_stream_has_read_another_servers_time_again_nothing_is_mended(repair: Repair) -> None:
    """The newest link is all that tells that another server answers, where nobody keeps notes of it."""
    stream = Mended()
    stream.shop.identity = "server-2"
    before = list(stream.store.list(""))

    outcome = stream.mend(repair)

    assert isinstance(outcome.error, AnotherServer)
    assert exit_for(outcome.error) is Exit.SOURCE
    assert "syncd run -t shop.orders" in outcome.error.hint
    assert list(stream.store.list("")) == before
    assert stream.state().chain.source_identity == "server-1"


def test_a_server_that_takes_over_during_a_repair_stays_a_stranger() -> None:
    stream = Mended()

    def moved(*_: object) -> None:
        stream.shop.identity = "server-2"

    stream.reader.meanwhile = moved
    outcome = stream.mend(replace(REPAIRS[1], keys=REPAIRS[0].keys))

    assert isinstance(outcome.error, AnotherServer)
    assert (outcome.batches, stream.written) == (1, {})
    assert stream.state().chain.source_identity == "server-1"
