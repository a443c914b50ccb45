"""Streams whose batches are made of rows at hand: real Parquet in a real lake, real links, and no JVM."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping, Policies
from syncd.datatypes.source_table import ServerInfo, SourceColumn, SourceIndex, SourceTable
from syncd.extract.column_additions import find_added_columns, find_redeclared_columns
from syncd.extract.delete_batches import DeletedKeys, find_delete_manifest
from syncd.lake.batch_number import batch_to_number
from syncd.lake.column_history import EarlierBatches
from syncd.lake.manifest import Manifest, Tombstones
from syncd.lake.object_keys import batch_prefix, part_key
from syncd.lake.read_requests import Part, ReadResult
from syncd.parquet.batch_conversion import file_schema
from syncd.parquet.part_writer import ROW_GROUP_ROWS, PartWriter
from syncd.s3.lake_client import S3Lake
from syncd.s3.parts_writer import write_deleted_keys
from syncd.settings import MetadataColumn, Mode, StreamSettings, TargetSettings
from syncd.tables.column_changes import describe_columns
from syncd.tables.column_defaults import AddedColumn
from syncd.tables.column_mapping import fold_name, map_columns
from syncd.tables.sort_order import resolve_identity
from tests.builders import RUN, make_process
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan, PlanBasis, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Stage, Watermark
from watermarks.extraction import BatchChain, Extraction
from watermarks.history import Journal
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress
from watermarks.window import Window

Row = Mapping[str, Any]
numbers = itertools.count(1)
HELD_FOR = 3_600.0
"""Seconds: no daemon of a test takes the stage from who extracts here, and says no more that it lives."""

ID = SourceColumn(name="id", data_type="bigint", column_type="bigint(20)", nullable=False, precision=19, scale=0)
NAME = SourceColumn(
    name="name", data_type="varchar", column_type="varchar(50)", length=50, octets=200, charset="utf8mb4",
    collation="utf8mb4_0900_ai_ci",
)  # fmt: skip
UPDATE_AT = SourceColumn(name="update_at", data_type="datetime", column_type="datetime(6)", fraction=6, nullable=False)


def text_column(name: str) -> SourceColumn:
    return SourceColumn(
        name=name, data_type="longtext", column_type="longtext", length=2**32 - 1, octets=2**32 - 1, charset="utf8mb4",
        collation="utf8mb4_0900_ai_ci",
    )  # fmt: skip


def json_column(name: str) -> SourceColumn:
    return SourceColumn(name=name, data_type="json", column_type="json")


def moment(second: float) -> datetime:
    """So many seconds into a day; as files hold it, and as a cursor does."""
    return datetime.fromtimestamp(1_790_000_000 + second, UTC)


def row(key: int, second: float, **more: Any) -> Row:
    return {"id": key, "name": f"row {key}", "update_at": moment(second), **more}


def position(found: Row) -> Cursor:
    return Cursor.from_values(found["update_at"].replace(tzinfo=None), found["id"])


@dataclass
class Prepared:
    """One stream, and whoever extracts it."""

    lake: S3Lake
    journal: Journal[Watermark]
    columns: tuple[SourceColumn, ...] = (ID, NAME, UPDATE_AT)
    mode: Mode = Mode.UPSERT
    notes: tuple[MetadataColumn, ...] = (MetadataColumn.BATCH,)
    cursor: str = "update_at"
    key: tuple[str, ...] = ()
    table: str = field(default_factory=lambda: f"t{next(numbers)}")
    layout: Mapping[str, Any] = field(default_factory=dict)
    identity: str = "server-1"
    group_rows: int = ROW_GROUP_ROWS
    """Of each row group of its files."""
    policies: Policies = field(default_factory=Policies)
    plan_body: Mapping[str, Any] = field(default_factory=dict)
    """What plans say of themselves."""
    refuses_plans: bool = False
    """Whether replays that somebody planned are given up, as an extraction does."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What the server says the default of a column is, in the form in which its values travel."""

    def __post_init__(self) -> None:
        self.stream = StreamName(source="shop", database="shop", table=self.table)
        self._process = make_process(self.journal.store, f"extract-{self.table}", ttl=HELD_FOR)
        self.take_up()

    def take_up(self) -> None:
        """Claim the stage, as whoever extracts does."""
        self._held = self._process.acquire(self.stream, Stage.EXTRACT, self.journal)

    def let_go(self) -> None:
        """Give it back."""
        self._process.release(self._held)

    @property
    def settings(self) -> StreamSettings:
        target = TargetSettings(
            warehouse="redshift", schema="public", table=fold_name(self.table), notes=self.notes, **self.layout
        )
        return StreamSettings(
            source="shop",
            database="shop",
            table=self.table,
            cursor=self.cursor,
            key=self.key,
            mode=self.mode,
            policies=self.policies,
            target=target,
        )

    @property
    def described(self) -> SourceTable:
        primary = (
            () if self.cursor == "none" else (SourceIndex(name="PRIMARY", columns=("id",), unique=True, whole=True),)
        )
        return SourceTable(
            database="shop", name=self.table, kind="BASE TABLE", engine="InnoDB", columns=self.columns, indexes=primary
        )

    def passages(self) -> tuple[ColumnMapping, ...]:
        return map_columns(self.described, self.settings)

    def increment(self, *rows: Row, high: Cursor | None = None, parts: int = 1) -> BatchLink:
        """The rows after the mark; up to the highest of them."""

        def draft(state: Watermark) -> BatchDraft:
            low = state.required_extract_progress.cursor
            end = high or max(map(self.place, rows))
            return BatchDraft(
                kind=BatchKind.INCREMENT,
                basis=self._world(low),
                windows=(Window(low, end),),
                high=end,
                body=self.plan_body,
            )

        return self._made(draft, rows, parts)

    def chunk(self, *rows: Row, horizon: Cursor = START_CURSOR, done: bool = False, parts: int = 1) -> BatchLink:
        """A chunk of the first pass, or the whole table of a stream without a cursor."""

        def draft(state: Watermark) -> BatchDraft:
            reached = max((Cursor.from_values(found["id"]) for found in rows), default=START_CURSOR)
            snapshot = SnapshotProgress(horizon=horizon, reached_key=reached, done=done)
            mark = state.required_extract_progress.cursor
            return BatchDraft(
                kind=BatchKind.SNAPSHOT, basis=self._world(mark), high=horizon if done else mark, snapshot=snapshot
            )

        return self._made(draft, rows, parts)

    def beside(
        self,
        kind: BatchKind,
        *rows: Row,
        window: Window | None = None,
        origin: BatchId | None = None,
        asked: bool = True,
    ) -> BatchLink:
        """A batch that moves no mark; `asked` for by a person."""

        def draft(state: Watermark) -> BatchDraft:
            mark = state.required_extract_progress.cursor
            windows = (window,) if window else ()
            body: dict[str, Any] = {} if asked else {"again": {}}
            return BatchDraft(kind=kind, basis=self._world(mark), windows=windows, high=mark, origin=origin, body=body)

        return self._made(draft, rows, 1)

    def bury(
        self, *keys: Any, upto: Cursor, seen: BatchId = BEFORE_FIRST_BATCH, gone_at: datetime | None = None
    ) -> BatchLink:
        """A batch that says of keys that their rows are gone; made by the product itself."""
        gone = DeletedKeys(
            table=self.described,
            source_identity=self.identity,
            settings=self.settings,
            tombstones=Tombstones(upto=upto, last_read=seen, checked_at=gone_at or moment(99)),
        )
        [name] = gone.identity.key
        rows = [{name: key} for key in keys]

        def draft(state: Watermark) -> BatchDraft:
            written = write_deleted_keys(
                self.lake,
                self.stream,
                rows,
                at=moment(99),
                nonce=f"a{next(numbers)}",
                batch=state.required_extract_progress.next_batch,
                mappings=gone.key_columns,
            )
            return gone.draft(state, written)

        turn = Extraction(self.journal, self._held, _DeleteProducer(draft)).extract_next_batch(RUN)
        assert turn.link is not None
        return turn.link

    def place(self, found: Row) -> Cursor:
        return Cursor.from_values(found["id"]) if self.cursor == "id" else position(found)

    def _world(self, mark: Cursor) -> PlanBasis:
        return PlanBasis(mark=mark, source_identity=self.identity, schema=self.described.fingerprint)

    def _made(self, draft: Callable[[Watermark], BatchDraft], rows: Sequence[Row], parts: int) -> BatchLink:
        turn = Extraction(self.journal, self._held, _Producer(self, draft, rows, parts)).extract_next_batch(RUN)
        assert turn.link is not None
        return turn.link

    def read(self, plan: Plan, rows: Sequence[Row], parts: int) -> ReadResult:
        """What a reader would tell of them."""
        return ReadResult(parts=tuple(self.write(plan, rows, parts)))

    def sealed(self, draft: BatchDraft) -> Plan:
        """A plan that nobody has carried out."""
        state = self.journal.read_newest(self.stream.stem)
        assert state
        plan = Plan(
            stream=self.stream,
            id=state.required_extract_progress.next_batch,
            draft=draft,
            nonce=f"p{next(numbers)}",
            epoch=1,
            planned_at=moment(0),
        )
        return BatchChain(self.journal, self.stream).create_plan(plan)

    def write(self, plan: Plan, rows: Sequence[Row], parts: int) -> Iterator[Part]:
        """The rows as so many files."""
        ways = self.passages()
        each = -(-len(rows) // parts)
        for number, first in enumerate(range(0, len(rows), each) if rows else ()):
            key = part_key(batch_prefix(plan), window=0, number=number, attempt=f"a{next(numbers)}")
            made = self.lake.new_object(key)
            writer = PartWriter(
                made, ways, batch=batch_to_number(plan.draft.origin or plan.id), group_rows=self.group_rows
            )
            some = [dict(found) for found in rows[first : first + each]]
            for batch in pa.Table.from_pylist(some, schema=file_schema(ways)).to_batches(self.group_rows):
                writer.write(batch)
            written, stood = writer.close(), made.finish()
            yield Part(
                key=key,
                etag=stood.etag,
                bytes=written.bytes,
                rows=written.rows,
                sha256=written.sha256,
                low=START_CURSOR,
                high=START_CURSOR,
                widths=written.widths,
            )


@dataclass
class _Defaults:
    """A server, as far as it is asked for defaults."""

    known: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)

    def get_server_info(self) -> ServerInfo:
        return ServerInfo(identity="server-1", version=(9, 7, 0), mariadb=False)

    def fetch_rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        asked = dict.fromkeys(re.findall(r"DEFAULT\(`(\w+)`\)", sql))  # a long text is named twice
        return [tuple(self.known[name] for name in asked)]


@dataclass
class _DeleteProducer:
    """Makes one batch of deleted keys."""

    draft: Callable[[Watermark], BatchDraft]

    def propose_batch(self, watermark: Watermark) -> BatchDraft:
        return self.draft(watermark)

    def is_plan_current(self, plan: Plan) -> bool:
        return True

    def write_files(self, plan: Plan) -> BatchOutput:
        buried = find_delete_manifest(plan)
        assert buried
        return buried.to_filled()

    def delete_files(self, files: Sequence[str]) -> None:
        raise NotImplementedError


@dataclass
class _Producer:
    prepared: Prepared
    draft: Callable[[Watermark], BatchDraft]
    rows: Sequence[Row]
    parts: int

    def propose_batch(self, watermark: Watermark) -> BatchDraft:
        return self.draft(watermark)

    def is_plan_current(self, plan: Plan) -> bool:
        return not self.prepared.refuses_plans or plan.draft.kind is not BatchKind.REPLAY

    def write_files(self, plan: Plan) -> BatchOutput:
        mine = self.prepared
        ways = mine.passages()
        read = mine.read(plan, self.rows, self.parts)
        before, declared = self._before(plan), describe_columns(mine.described, ways)
        manifest = Manifest.from_read(
            read,
            schema=plan.draft.basis.schema,
            columns=ways,
            identity=resolve_identity(mine.described, mine.settings, ways),
            windows=() if plan.draft.kind is BatchKind.SNAPSHOT else plan.draft.windows,
            plan=plan.draft.body,
            added_columns=self._added(plan, ways, before),
            declarations=declared,
            redeclared_columns=find_redeclared_columns(plan, declared, before),
        )
        return manifest.to_filled()

    def _before(self, plan: Plan) -> Manifest | None:
        if plan.draft.kind is BatchKind.REPLAY:
            return None  # it reads nothing of the table
        mine = self.prepared
        chain = BatchChain(mine.journal, mine.stream)

        def half() -> ExtractProgress | None:
            state = mine.journal.read(mine.stream.stem)
            return state.extract_progress if state else None

        return EarlierBatches(read_link=chain.read_link, get_progress=half).manifest_before(plan.id)

    def _added(self, plan: Plan, ways: Sequence[ColumnMapping], before: Manifest | None) -> Mapping[str, AddedColumn]:
        """What the extract stage would say of columns that came; of constants the server tells it."""
        mine = self.prepared
        source = _Defaults(mine.defaults)
        return find_added_columns(source, mine.described, ways, mine.settings.policies, before=before, batch=plan.id)

    def delete_files(self, files: Sequence[str]) -> None:
        raise NotImplementedError
