"""Batches of keys whose rows are gone: links like others, that whoever comes can finish."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from syncd.datatypes.columns import Passage
from syncd.datatypes.source_table import Column, Index, Table
from syncd.extract.delete_batches import Burial, Gone, burial_of
from syncd.lake.manifest import Manifest
from syncd.lake.tombstones import Tombstones
from syncd.lake.window_reads import Part
from syncd.settings import StreamSettings
from tests.builders import NOON, ORDERS, RUN
from tests.unit.syncd.extract.test_extract_pass import Bench
from watermarks.batch import BatchId, Filled, Kind, Plan
from watermarks.cursor import START, Cursor
from watermarks.document import Stage, Watermark
from watermarks.errors import Misuse
from watermarks.extraction import Chain, Extraction
from watermarks.history import Journal

NIGHT = datetime(2026, 1, 1)  # noqa: DTZ001  # a wall clock's reading
ID = Column(name="id", data_type="bigint", column_type="bigint(20)", nullable=False, precision=19, scale=0)
STAMP = Column(name="update_at", data_type="datetime", column_type="datetime(6)", fraction=6)
TABLE = Table(
    database="shop",
    name="orders",
    kind="BASE TABLE",
    engine="InnoDB",
    columns=(ID, STAMP),
    indexes=(Index(name="PRIMARY", columns=("id",), unique=True, whole=True),),
)
TOMBSTONES = Tombstones(upto=Cursor.of(NIGHT), gone_at=NOON)


class Graves(Bench):
    """A stream whose table is described, and whoever buries rows of it."""

    def __init__(self, *ends: int) -> None:
        super().__init__(*ends)
        self.shop.shown = TABLE
        self.written: list[BatchId] = []

    def bury(self) -> Burial:
        gone = Gone(table=TABLE, source_identity="server-1", settings=self.settings, tombstones=TOMBSTONES)
        return Burial(gone=gone, write=self.write, inner=self.run()._producer)

    def write(self, batch: BatchId, passages: Sequence[Passage]) -> Sequence[Part]:
        assert [passage.name for passage in passages] == ["id"]
        self.written.append(batch)
        return (Part(key=f"data/keys-{batch}", etag="e", bytes=9, rows=2, sha256="s", low=START, high=START),)

    def turn(self, burial: Burial) -> None:
        held = self.process.acquire(ORDERS, Stage.EXTRACT, self.journal)
        try:
            Extraction(self.journal, held, burial).turn(RUN)
        finally:
            self.process.release(held)

    def manifest(self, number: BatchId) -> Manifest:
        return Manifest.of_link(Chain(self.journal, ORDERS).required(number))


def test_keys_become_a_batch_that_moves_no_mark() -> None:
    graves = Graves(5)
    graves.once()
    mark = graves.state().chain.cursor
    burial = graves.bury()

    graves.turn(burial)
    graves.turn(burial)  # once is enough

    link = Chain(graves.journal, ORDERS).required(BatchId(1, 2))
    assert (link.kind, link.rows, graves.written) == (Kind.REPAIR, 2, [BatchId(1, 2)])
    assert graves.state().chain.cursor == mark
    assert graves.state().chain.seq == 2
    assert graves.manifest(BatchId(1, 2)).tombstones == TOMBSTONES


def test_a_plan_that_stands_is_carried_out_first_by_whoever_reads() -> None:
    graves = Graves(5)
    graves.reader.failures = 1
    assert graves.once().error is not None
    burial = graves.bury()

    graves.turn(burial)
    graves.turn(burial)

    assert [graves.manifest(BatchId(1, seq)).tombstones for seq in (1, 2)] == [None, TOMBSTONES]


def test_what_was_killed_after_its_plan_the_next_pass_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    graves = Graves(5)
    graves.once()
    burial = graves.bury()

    def killed(_plan: Plan) -> Filled:
        raise KeyboardInterrupt

    monkeypatch.setattr(burial, "fill", killed)
    with pytest.raises(KeyboardInterrupt):
        graves.turn(burial)

    outcome = graves.once()

    assert (outcome.error, outcome.batches, outcome.rows) == (None, 1, 2)
    assert graves.manifest(BatchId(1, 2)).tombstones == TOMBSTONES
    assert graves.reader.prepared == [1]  # and nothing is got ready to read


def test_a_table_that_was_altered_since_makes_nothing_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    graves = Graves(5)
    graves.once()
    burial = graves.bury()
    monkeypatch.setattr(burial, "holds", lambda _plan: False)

    graves.turn(burial)

    assert Chain(graves.journal, ORDERS).required(BatchId(1, 2)).kind is Kind.ABANDONED


def test_a_plan_says_all_that_its_manifest_will() -> None:
    graves = Graves()
    gone = graves.bury().gone
    draft = gone.draft(graves_state(graves.journal), graves.write(BatchId(1, 1), gone.passages))
    plan = Plan(stream=ORDERS, id=BatchId(1, 1), draft=draft, nonce="n", epoch=1, planned_at=NOON)

    read = Plan.of_bytes(plan.to_bytes(), at="here", stream=ORDERS, id=BatchId(1, 1))

    buried = burial_of(read)
    assert buried is not None
    assert (buried.tombstones, buried.identity.key, buried.identity.cursor) == (TOMBSTONES, ("id",), "update_at")
    assert burial_of(replace(plan, draft=replace(draft, body={}))) is None


def graves_state(journal: Journal[Watermark]) -> Watermark:
    return journal.read(ORDERS.stem) or Watermark.new(ORDERS, at=NOON)


@pytest.mark.parametrize(
    ("settings", "upto", "why"),
    [
        ({"cursor": "none"}, Cursor.of(NIGHT), "read whole"),
        ({}, START, "want a bound by update_at"),
        ({}, Cursor.of("text"), "want a bound by update_at"),
    ],
)
def test_what_cannot_be_bound_is_not_buried(settings: dict[str, str], upto: Cursor, why: str) -> None:
    found = StreamSettings(source="shop", database="shop", table="orders", **settings)  # type: ignore[arg-type]  # texts

    with pytest.raises(Misuse, match=why):
        Gone(table=TABLE, source_identity="s", settings=found, tombstones=Tombstones(upto=upto, gone_at=NOON))
