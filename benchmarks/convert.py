"""Cost of converting Spark's batches to a Parquet part: the shop's orders, on one core.

    python -m benchmarks.convert

Batches of 10,000 rows, as Spark delivers them; the file is written to memory.
"""

import io
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.lake.read_requests import OrderField
from syncd.parquet.batch_conversion import Conversion
from syncd.parquet.part_writer import PartWriter
from syncd.parquet.window_check import WindowCheck
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from watermarks.cursor import Cursor, CursorValue, ValueKind
from watermarks.window import Window

ROWS = 1_000_000
BATCH = 10_000
ROUNDS = 3


def column(name: str, column_type: str, **more: object) -> SourceColumn:
    data_type = column_type.partition("(")[0].split()[0]
    return SourceColumn(name=name, data_type=data_type, column_type=column_type, **more)  # type: ignore[arg-type]  # as given


COLUMNS = (
    column("id", "bigint unsigned"),
    column("customer_id", "bigint unsigned"),
    column("status", "enum('new','paid','packed','sent','returned')", length=8, charset="utf8mb4"),
    column("total", "decimal(18,4)", precision=18, scale=4),
    column("currency", "char(3)", length=3, charset="utf8mb4"),
    column("is_gift", "tinyint(1)"),
    column("flags", "bit(8)", precision=8),
    column("placed_at", "datetime(6)"),
    column("deliver_by", "time"),
    column("note", "text", length=65_535, charset="utf8mb4"),
    column("details", "json"),
    column("update_at", "datetime(6)"),
)
ORDERS = SourceTable(database="shop", name="orders", kind="BASE TABLE", engine="InnoDB", columns=COLUMNS, indexes=())


def as_text(values: "pa.Array", kind: pa.DataType | None = None) -> pa.Array:
    return values.cast(pa.string()).cast(kind or pa.string())


def make_rows(rows: int) -> pa.Table:
    random = np.random.default_rng(21)
    moments = np.arange(rows, dtype="int64") // 40 * 1_000_000 + 1_700_000_000_000_000
    stamps = as_text(pa.array(moments).cast(pa.timestamp("us")))
    states = np.array([b"new", b"paid", b"packed", b"sent", b"returned"])
    notes = pa.array(
        [
            None if i % 5 == 0 else f"note {i}: ring twice, leave at door {i * 7919 % 977} é".encode()
            for i in range(rows)
        ]
    )
    details = [
        b'{"lines": %d, "gift": %s, "channel": "web"}' % (i % 9, b"true" if i % 7 else b"false") for i in range(rows)
    ]
    clock = [f"{i % 24:02d}:{i % 60:02d}:00" for i in range(1440)]
    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype="int64")),
            "customer_id": pa.array(random.integers(1, rows // 10, rows)),
            "status": pa.array(states[random.integers(0, 5, rows)], pa.binary()),
            "total": pa.array(random.integers(10_000, 10_000_000, rows)),
            "currency": pa.array(np.array([b"EUR", b"USD", b"GBP"])[random.integers(0, 3, rows)], pa.binary()),
            "is_gift": pa.array(random.integers(0, 2, rows)),
            "flags": pa.array(random.integers(0, 256, rows)),
            "placed_at": as_text(pa.array(moments + random.integers(0, 1_000_000, rows)).cast(pa.timestamp("us"))),
            "deliver_by": pa.array(clock).take(pa.array(random.integers(0, 1440, rows))),
            "note": notes,
            "details": pa.array(details),
            "update_at": pad_stamps(stamps),
        }
    )


def pad_stamps(stamps: pa.Array) -> pa.Array:
    """Return stamps with six digits after the second, as MySQL prints a DATETIME(6)."""
    return pa.array([text if "." in text else f"{text}.000000" for text in stamps.to_pylist()])


def best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def main() -> None:
    pa.set_cpu_count(1)
    mappings = map_columns(ORDERS, StreamSettings(source="main", database="shop", table="orders"))
    batches = make_rows(ROWS).to_batches(max_chunksize=BATCH)
    conversion = Conversion(mappings, keys=frozenset({"id"}))
    converted = [conversion.convert(batch).batch for batch in batches]
    low = Cursor((CursorValue.from_text("wall:2020-01-01T00:00:00.000000"),))
    high = Cursor((CursorValue.from_text("wall:2030-01-01T00:00:00.000000"),))
    order = (OrderField(name="update_at", kind=ValueKind.WALL), OrderField(name="id", kind=ValueKind.INT))
    check = WindowCheck(Window(low, high), order, mappings)

    def write(codec: str) -> int:
        sink = io.BytesIO()
        writer = PartWriter(sink, mappings, batch=1_000000000042, codec=codec)
        for batch in converted:
            writer.write(batch)
        return writer.close().bytes

    seconds_by_step = {
        "window check": best(lambda: [check.check(batch) for batch in batches]),
        "conversion": best(lambda: [conversion.convert(batch) for batch in batches]),
        "parquet zstd": best(lambda: write("zstd")),
        "parquet snappy": best(lambda: write("snappy")),
    }
    print(f"{ROWS:,} orders of {len(mappings)} columns, processor seconds:")
    for name, seconds in seconds_by_step.items():
        print(f"  {name:15} {seconds:5.2f} s  {ROWS / seconds:12,.0f} rows/s")
    zstd, snappy = write("zstd"), write("snappy")
    print(f"  zstd {zstd / 1e6:.1f} MB, snappy {snappy / 1e6:.1f} MB: {snappy / zstd:.2f} times as large")


if __name__ == "__main__":
    main()
