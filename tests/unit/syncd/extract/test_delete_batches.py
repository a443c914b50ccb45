"""Batches of keys whose rows are gone: links like others, that whoever comes can finish."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceColumn, SourceIndex, SourceTable
from syncd.extract.delete_batches import DeletedKeys, find_delete_manifest
from syncd.lake.manifest import Manifest, Tombstones
from syncd.lake.read_requests import Part
from syncd.settings import StreamSettings
from tests.builders import NOON, ORDERS, RUN
from tests.unit.syncd.extract.test_extract_pass import Bench
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchOutput, Plan
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Stage, Watermark
from watermarks.errors import Misuse
from watermarks.extraction import BatchChain, BatchProducer, Extraction
from watermarks.history import Journal

NIGHT = datetime(2026, 1, 1)  # noqa: DTZ001  # a wall clock's reading
ID = SourceColumn(name="id", data_type="bigint", column_type="bigint(20)", nullable=False, precision=19, scale=0)
STAMP = SourceColumn(name="update_at", data_type="datetime", column_type="datetime(6)", fraction=6)
TABLE = SourceTable(
    database="shop",
    name="orders",
    kind="BASE TABLE",
    engine="InnoDB",
    columns=(ID, STAMP),
    indexes=(SourceIndex(name="PRIMARY", columns=("id",), unique=True, whole=True),),
)
TOMBSTONES = Tombstones(upto=Cursor.from_values(NIGHT), checked_at=NOON)


@dataclass
class OneDelete:
    """A producer of one batch of deleted keys; the plans of the stream are carried out by another producer."""

    deleted_keys: DeletedKeys
    write_keys: Callable[[BatchId, Sequence[ColumnMapping]], Sequence[Part]]
    executor: BatchProducer
    has_proposed: bool = field(default=False, init=False)

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        if self.has_proposed:
            return None
        self.has_proposed = True
        number = watermark.required_extract_progress.next_batch
        return self.deleted_keys.draft(watermark, self.write_keys(number, self.deleted_keys.key_columns))

    def is_plan_current(self, plan: Plan) -> bool:
        return self.executor.is_plan_current(plan)

    def write_files(self, plan: Plan) -> BatchOutput:
        return self.executor.write_files(plan)

    def delete_files(self, files: Sequence[str]) -> None:
        self.executor.delete_files(files)


class Graves(Bench):
    """A stream whose table is described, and whoever buries rows of it."""

    def __init__(self, *ends: int) -> None:
        super().__init__(*ends)
        self.shop.shown = TABLE
        self.written: list[BatchId] = []

    def bury(self) -> OneDelete:
        gone = DeletedKeys(table=TABLE, source_identity="server-1", settings=self.settings, tombstones=TOMBSTONES)
        return OneDelete(deleted_keys=gone, write_keys=self.write, executor=self.producer())

    def write(self, batch: BatchId, passages: Sequence[ColumnMapping]) -> Sequence[Part]:
        assert [passage.name for passage in passages] == ["id"]
        self.written.append(batch)
        return (
            Part(key=f"data/keys-{batch}", etag="e", bytes=9, rows=2, sha256="s", low=START_CURSOR, high=START_CURSOR),
        )

    def turn(self, burial: OneDelete) -> None:
        held = self.process.acquire(ORDERS, Stage.EXTRACT, self.journal)
        try:
            Extraction(self.journal, held, burial).extract_next_batch(RUN)
        finally:
            self.process.release(held)

    def manifest(self, number: BatchId) -> Manifest:
        return Manifest.from_link(BatchChain(self.journal, ORDERS).require_link(number))


def test_keys_become_a_batch_that_moves_no_mark() -> None:
    graves = Graves(5)
    graves.once()
    mark = graves.state().required_extract_progress.cursor
    burial = graves.bury()

    graves.turn(burial)
    graves.turn(burial)  # once is enough

    link = BatchChain(graves.journal, ORDERS).require_link(BatchId(1, 2))
    assert (link.kind, link.rows, graves.written) == (BatchKind.REPAIR, 2, [BatchId(1, 2)])
    assert graves.state().required_extract_progress.cursor == mark
    assert graves.state().required_extract_progress.seq == 2
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

    def killed(_plan: Plan) -> BatchOutput:
        raise KeyboardInterrupt

    monkeypatch.setattr(burial, "write_files", killed)
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
    monkeypatch.setattr(burial, "is_plan_current", lambda _plan: False)

    graves.turn(burial)

    assert BatchChain(graves.journal, ORDERS).require_link(BatchId(1, 2)).kind is BatchKind.ABANDONED


def test_a_plan_says_all_that_its_manifest_will() -> None:
    graves = Graves()
    gone = graves.bury().deleted_keys
    draft = gone.draft(graves_state(graves.journal), graves.write(BatchId(1, 1), gone.key_columns))
    plan = Plan(stream=ORDERS, id=BatchId(1, 1), draft=draft, nonce="n", epoch=1, planned_at=NOON)

    read = Plan.from_bytes(plan.to_bytes(), location="here", stream=ORDERS, batch=BatchId(1, 1))

    buried = find_delete_manifest(read)
    assert buried is not None
    assert (buried.tombstones, buried.identity.key, buried.identity.cursor) == (TOMBSTONES, ("id",), "update_at")
    assert find_delete_manifest(replace(plan, draft=replace(draft, body={}))) is None


def graves_state(journal: Journal[Watermark]) -> Watermark:
    return journal.read(ORDERS.stem) or Watermark.new(ORDERS, created_at=NOON)


@pytest.mark.parametrize(
    ("settings", "upto", "why"),
    [
        ({"cursor": "none"}, Cursor.from_values(NIGHT), "read whole"),
        ({}, START_CURSOR, "need an upper bound of update_at"),
        ({}, Cursor.from_values("text"), "need an upper bound of update_at"),
    ],
)
def test_what_cannot_be_bound_is_not_buried(settings: dict[str, str], upto: Cursor, why: str) -> None:
    found = StreamSettings(source="shop", database="shop", table="orders", **settings)  # type: ignore[arg-type]  # texts

    with pytest.raises(Misuse, match=why):
        DeletedKeys(table=TABLE, source_identity="s", settings=found, tombstones=Tombstones(upto=upto, checked_at=NOON))
