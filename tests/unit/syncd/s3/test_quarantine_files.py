"""Files in quarantine of every type: what comes back is what would have passed, value by value."""

import hashlib
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docs.generate.type_tables import EXAMPLES
from syncd.datatypes.columns import ColumnMapping, Policies, Policy, TransferType, ValueProblem
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.lake.batch_number import BATCH_COLUMN
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import QuarantinedFile, RestoreRequest
from syncd.lake.read_requests import Part
from syncd.parquet.batch_conversion import REASON_COLUMN, Conversion, file_schema
from syncd.parquet.column_values import SOURCE_ARROW_TYPES
from syncd.redshift.split_file import FileRefusals, RefusedFileRow, split_file
from syncd.s3.lake_client import WrittenObject
from syncd.s3.parquet_reader import ParquetPart, RangedFile, find_key
from syncd.s3.parts_writer import PartsWriter
from syncd.s3.quarantine_files import LakeQuarantineRestorer
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from syncd.tables.sort_order import RowIdentity
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR
from watermarks.document import Stage

NOTE = SourceColumn(
    name="note", data_type="longtext", column_type="longtext", length=2**32 - 1, octets=2**32 - 1, charset="utf8mb4"
)
LONG = b"x" * 70_000
TRUNCATE = Policies(oversize=Policy.TRUNCATE)


@dataclass
class HeldLake:
    """Objects in memory, read and written as those of the lake."""

    objects: dict[str, bytes] = field(default_factory=dict)
    pieces: list[int] = field(default_factory=list)

    def new_object(self, key: str) -> "HeldObject":
        return HeldObject(self, key)

    def read_range(self, key: str, first: int, end: int) -> bytes:
        self.pieces.append(end - first)
        return self.objects[key][first:end]

    def delete_objects(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)


@dataclass
class HeldObject:
    lake: HeldLake
    key: str
    written: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> int:
        self.written += data
        return len(data)

    def finish(self) -> WrittenObject:
        self.lake.objects[self.key] = bytes(self.written)
        return WrittenObject(etag="e", bytes=len(self.written))

    def abort(self) -> None:
        self.written.clear()


def ways() -> tuple[ColumnMapping, ...]:
    """A column of every type that the table knows, and a long text."""
    columns = tuple(SourceColumn(**{**_fields(column), "name": f"c{number}"}) for number, column in enumerate(EXAMPLES))
    table = SourceTable(
        database="shop", name="t", kind="BASE TABLE", engine="InnoDB", columns=(*columns, NOTE), indexes=()
    )
    return map_columns(table, StreamSettings(source="shop", database="shop", table="t", key=("c0",)))


def _fields(column: SourceColumn) -> dict[str, Any]:
    return {name: getattr(column, name) for name in SourceColumn.__slots__}


def sent(way: ColumnMapping, row: int) -> Any:
    """A value of the type, as it travels; NULL in every third row."""
    if way.name == "note":
        return LONG if row % 2 else b"n%d" % row
    return None if row % 3 == 2 else plain(way, row)


def plain(way: ColumnMapping, row: int) -> Any:
    match way.travel, way.redshift:
        case TransferType.INTEGER, _:
            found: Any = row % 2
        case TransferType.DOUBLE, _:
            found = row + 0.5
        case TransferType.BYTES, kind:
            found = b"[]" if kind == "SUPER" else b"a"
        case _, "DATE":
            found = "2026-01-02"
        case _, "TIMESTAMP":
            found = f"2026-01-02 03:04:0{row}.000007"
        case _:
            found = f"{row}" + ("." + "0" * way.parquet.scale if way.parquet.scale else "")
    return found


def travelling(rows: int = 9) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {way.name: pa.array([sent(way, row) for row in range(rows)], SOURCE_ARROW_TYPES[way.travel]) for way in ways()}
    )


def written(lake: HeldLake, key: str, batch: pa.RecordBatch, *, refused: bool) -> Part:
    def made(number: int) -> str:
        return f"{key}{number}"

    writer = PartsWriter(
        lake=lambda: lake,  # type: ignore[arg-type,return-value]  # a lake in memory
        key=made, mappings=ways(), batch=10**12 + 1, part_bytes=1 << 30, refused=refused,
    )  # fmt: skip
    writer.write(batch, None)
    [told] = writer.finish()
    return Part.from_fields(told.to_fields())


def read(lake: HeldLake, part: Part) -> pa.Table:
    body = lake.objects[part.key]
    assert (len(body), hashlib.sha256(body).hexdigest()) == (part.bytes, part.sha256)
    return pq.read_table(io.BytesIO(body))


def restoring(lake: HeldLake, *asides: QuarantinedFile) -> RestoreRequest:
    manifest = Manifest(schema="s", columns=ways(), parts=(), identity=RowIdentity(key=("c0",)))
    return RestoreRequest(
        files=asides,
        manifest=manifest,
        policies=TRUNCATE,
        part_prefix="data/",
        quarantine_prefix="q/",
        batch_number=10**12 + 1,
        nonce="n",
    )


def test_rows_that_travelled_of_every_type_come_back_as_they_would_have_passed() -> None:
    lake = HeldLake()
    batch = travelling()
    first = Conversion(ways()).convert(batch)
    assert first.refused is not None
    part = written(lake, "aside", first.refused, refused=True)
    aside = QuarantinedFile(batch=BatchId(1, 1), stage=Stage.EXTRACT, part=part)
    restorer = LakeQuarantineRestorer(lake)  # type: ignore[arg-type]  # a lake in memory

    restored = restorer.restore(restoring(lake, aside))

    [made] = restored.parts
    rows = np.arange(batch.num_rows) % 2 == 1
    expected = Conversion(ways(), TRUNCATE).convert(batch).batch.filter(pa.array(rows))
    found = read(lake, made)
    assert found.column(BATCH_COLUMN).to_pylist() == [10**12 + 1] * int(rows.sum())
    assert found.drop_columns([BATCH_COLUMN]).to_pylist() == expected.to_pylist()
    assert file_schema(ways()).equals(found.drop_columns([BATCH_COLUMN]).schema)
    assert (restored.quarantined_parts, restored.problem_counts) == (
        (),
        {f"{ValueProblem.OVERSIZE}.truncate": int(rows.sum())},
    )


def test_rows_that_the_warehouse_refused_of_every_type_come_back_as_they_are() -> None:
    lake = HeldLake()
    typed = Conversion(ways(), TRUNCATE).convert(travelling()).batch
    part = written(lake, "part", typed, refused=False)
    sifted = FileRefusals(
        part, (RefusedFileRow(1, "note: bad"), RefusedFileRow(4, "note: worse"), RefusedFileRow(5, "c3: bad"))
    )
    divided = split_file(lake, sifted, ways(), accepted_key="kept", refused_key="refused")  # type: ignore[arg-type]  # as above
    aside = QuarantinedFile(batch=BatchId(1, 1), stage=Stage.LOAD, part=divided.refused)
    restorer = LakeQuarantineRestorer(lake)  # type: ignore[arg-type]  # as above

    restored = restorer.restore(restoring(lake, aside))

    assert divided.accepted
    whole = typed.to_pylist()
    assert read(lake, divided.accepted).drop_columns([BATCH_COLUMN]).to_pylist() == [
        row for place, row in enumerate(whole) if place not in {1, 4, 5}
    ]
    assert read(lake, divided.refused).column(REASON_COLUMN).to_pylist() == ["note: bad", "note: worse", "c3: bad"]
    assert read(lake, restored.parts[0]).drop_columns([BATCH_COLUMN]).to_pylist() == [
        whole[place] for place in (1, 4, 5)
    ]
    shown = list(restorer.read_refused_rows(aside, restoring(lake).manifest))
    assert [(row.row_number, row.reasons[0].column, row.reasons[0].size) for row in shown] == [
        (0, "note", 65_535), (1, "note", 2), (2, "c3", None),
    ]  # fmt: skip


def test_after_an_error_nothing_of_a_restoration_stands() -> None:
    lake = HeldLake()
    first = Conversion(ways()).convert(travelling())
    assert first.refused is not None
    part = written(lake, "aside", first.refused, refused=True)
    asides = [
        QuarantinedFile(batch=BatchId(1, 1), stage=Stage.EXTRACT, part=one)
        for one in (part, Part(key="gone", etag="", bytes=99, rows=1, sha256="", low=START_CURSOR, high=START_CURSOR))
    ]
    before = set(lake.objects)

    with pytest.raises(KeyError):
        LakeQuarantineRestorer(lake).restore(restoring(lake, *asides))  # type: ignore[arg-type]  # as above

    assert set(lake.objects) == before


def test_a_file_is_read_by_what_is_asked_for() -> None:
    """A footer and one of ten row groups are not the whole of it."""
    lake = HeldLake()
    table = pa.table({"a": np.random.default_rng(1).integers(0, 2**62, 400_000)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=40_000)
    lake.objects["k"] = sink.getvalue()
    part = Part(
        key="k", etag="", bytes=len(sink.getvalue()), rows=400_000, sha256="", low=START_CURSOR, high=START_CURSOR
    )

    file = ParquetPart(lake, part)  # type: ignore[arg-type]  # as above
    group = file.read_row_group(7)

    assert group.equals(table.slice(280_000, 40_000))
    assert sum(lake.pieces) < part.bytes / 4


class ReleasedBytes(bytes):
    """Bytes that note the thread in which they are released."""

    threads: ClassVar[set[int]] = set()

    def __del__(self) -> None:
        self.threads.add(threading.get_ident())


def test_bytes_of_a_file_are_released_by_the_reading_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of Arrow that releases bytes while the interpreter ends aborts the process."""
    lake, read = HeldLake(), RangedFile.read
    monkeypatch.setattr(RangedFile, "read", lambda self, size=-1: ReleasedBytes(read(self, size)))
    names = [f"c{number}" for number in range(12)]
    sink = io.BytesIO()
    pq.write_table(pa.table({name: [str(row) for row in range(50)] for name in names}), sink)
    lake.objects["k"] = sink.getvalue()
    part = Part(key="k", etag="", bytes=len(sink.getvalue()), rows=50, sha256="", low=START_CURSOR, high=START_CURSOR)

    for _ in range(20):
        assert [rows.num_rows for rows in ParquetPart(lake, part).read_row_groups()] == [50]  # type: ignore[arg-type]  # as above
        assert [hit.row_number for hit in find_key(lake, part, {"c1": "7"})] == [7]  # type: ignore[arg-type]  # as above

    assert ReleasedBytes.threads == {threading.get_ident()}
