import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from syncd.datatypes.columns import ColumnMapping, Policies, Policy
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import ValueRefused
from syncd.parquet.batch_conversion import REASON_COLUMN, Conversion, Converted, file_schema
from syncd.parquet.column_values import SOURCE_ARROW_TYPES, make_typed_column
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns


def column(name: str, column_type: str, *, boolean: bool = False, **more: Any) -> ColumnMapping:
    data_type = column_type.partition("(")[0].split()[0]
    only = SourceColumn(name=name, data_type=data_type, column_type=column_type, **more)
    table = SourceTable(database="shop", name="t", kind="BASE TABLE", engine="InnoDB", columns=(only,), indexes=())
    settings = StreamSettings(source="main", database="shop", table="t", boolean=(name,) if boolean else ())
    return map_columns(table, settings)[0]


def text(name: str = "c", length: int = 40_000) -> ColumnMapping:
    return column(name, "varchar", length=length, charset="utf8mb4")


ID = column("id", "bigint(20)")


def batch(**columns: tuple[ColumnMapping, Sequence[Any]]) -> pa.RecordBatch:
    arrays = [pa.array(values, SOURCE_ARROW_TYPES[way.travel]) for way, values in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def converted(
    way: ColumnMapping, values: Sequence[Any], *, keys: frozenset[str] = frozenset(), **given: Policy
) -> Converted:
    """One column beside an id that counts from 1."""
    travelled = batch(id=(ID, range(1, len(values) + 1)), **{way.name: (way, values)})
    return Conversion((ID, way), Policies(**given), keys).convert(travelled)


def reasons(done: Converted) -> dict[int, str]:
    assert done.refused is not None
    return dict(zip(done.refused["id"].to_pylist(), done.refused[REASON_COLUMN].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("way", "given", "made"),
    [
        (column("c", "tinyint(4)"), [-128, 255, None], [-128, 255, None]),
        (column("c", "int(11)"), [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
        (column("c", "bigint(20)"), [-(2**63), 2**63 - 1, None], [-(2**63), 2**63 - 1, None]),
        (column("c", "bigint(20) unsigned"), [-1, -(2**63), 0, None], [Decimal(2**64 - 1), Decimal(2**63), 0, None]),
        (column("c", "bit(1)", precision=1), [0, 1, None], [False, True, None]),
        (column("c", "bit(64)", precision=64), [-1, None], [Decimal(2**64 - 1), None]),
        (
            column("c", "decimal(18,0)", precision=18, scale=0),
            [-1, 999_999_999_999_999_999, None],
            [Decimal(-1), Decimal(999_999_999_999_999_999), None],
        ),
        (
            column("c", "decimal(18,4)", precision=18, scale=4),
            ["-0.0001", "99999999999999.9999", None],
            [Decimal("-0.0001"), Decimal("99999999999999.9999"), None],
        ),
        (column("c", "decimal(38,2)", precision=38, scale=2), ["-0.01", None], [Decimal("-0.01"), None]),
        (column("c", "double"), [-0.0, 1.7976931348623157e308, None], [-0.0, 1.7976931348623157e308, None]),
        (column("c", "date"), ["0001-01-01", "9999-12-31", None], [date(1, 1, 1), date(9999, 12, 31), None]),
        (
            column("c", "datetime"),
            ["1969-12-31 23:59:59", None],
            [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), None],
        ),
        (column("c", "timestamp(2)"), ["2024-01-01 00:00:00.25"], [datetime(2024, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)]),
        (column("c", "time(6)"), ["-838:59:59.000000", None], ["-838:59:59.000000", None]),
        (text(), [b"", b"null", None, "aé😀".encode()], ["", "null", None, "aé😀"]),
        (column("c", "json"), [b'{"a": 1}', None], [b'{"a": 1}', None]),
        (column("c", "blob", octets=65_535), [b"\xff\x00", b"", None], [b"\xff\x00", b"", None]),
    ],
    ids=str,
)
def test_value_becomes_exactly_what_it_was(way: ColumnMapping, given: list[Any], made: list[Any]) -> None:
    done = converted(way, given)

    assert done.batch["c"].to_pylist() == made
    assert (done.troubles, done.refused) == ({}, None)


def test_minus_zero_keeps_its_sign() -> None:
    assert [v.hex() for v in converted(column("c", "float"), [-0.0]).batch["c"].to_pylist()] == ["-0x0.0p+0"]


@pytest.mark.parametrize("offset", [1, 3, 9])
def test_slice_of_a_larger_batch_is_its_own_rows(offset: int) -> None:
    whole = [None if i % 3 == 0 else -i for i in range(30)]
    way = column("c", "bigint(20) unsigned")
    part = batch(c=(way, whole)).slice(offset, 11)

    made = Conversion((way,)).convert(part).batch["c"]

    assert made.to_pylist() == [None if v is None else Decimal(v % 2**64) for v in whole[offset : offset + 11]]
    assert made.nbytes < 11 * 16 + 64


def test_wide_offsets_of_a_reader_make_no_difference() -> None:
    way = text()
    given = pa.RecordBatch.from_arrays([pa.array([b"x"], pa.large_binary())], names=["c"])

    assert Conversion((way,)).convert(given).batch.schema == file_schema([way])


def test_empty_batch_stays_empty_and_typed() -> None:
    done = converted(column("c", "datetime(6)"), [])

    assert (done.batch.num_rows, done.batch.schema.field("c").type) == (0, pa.timestamp("us", "UTC"))


DATES = ["0000-00-00 00:00:00", "2023-00-10 01:02:03", "2023-10-00 00:00:00", None, "2023-10-10 00:00:00"]


def test_zero_dates_are_null_and_counted() -> None:
    done = converted(column("c", "datetime"), DATES)

    assert [v is None for v in done.batch["c"].to_pylist()] == [True, True, True, True, False]
    assert done.troubles == {"zero_dates.null": 3}


def test_zero_dates_in_quarantine_keep_what_they_were() -> None:
    done = converted(column("c", "datetime"), DATES, zero_dates=Policy.QUARANTINE)

    assert done.batch["id"].to_pylist() == done.source_batch["id"].to_pylist() == [4, 5]
    assert done.refused is not None
    assert done.refused["c"].to_pylist() == DATES[:3]
    assert reasons(done) == dict.fromkeys((1, 2, 3), "c: zero_dates")
    assert done.troubles == {"zero_dates.quarantine": 3}


def test_policy_fail_names_column_trouble_and_row() -> None:
    with pytest.raises(ValueRefused, match=r"c: 3 dates whose month or day is zero, the first at id=1") as refused:
        converted(column("c", "datetime"), DATES, keys=frozenset({"id"}), zero_dates=Policy.FAIL)

    assert "zero_dates" in refused.value.hint


@pytest.mark.parametrize(
    ("way", "values"),
    [
        (column("c", "date"), ["2023-02-31", "2023-02-28", "0000-01-01"]),
        (column("c", "datetime"), ["0000-12-31 23:59:59", "2023-01-01 00:00:00", "2023-04-31 00:00:00"]),
        (column("c", "double"), [5e-324, 1.0, -2e-310]),
        (column("c", "tinyint(1)", boolean=True), [2, 1, -1]),
        (column("c", "int(11)"), [2**31, 1, -(2**31) - 1]),
        (column("c", "decimal(4,2)", precision=4, scale=2), ["100.00", "0.01", "-100.00"]),
        (column("c", "decimal(4,0)", precision=4, scale=0), [10_000, 1, -10_000]),
        (column("c", "decimal(20,0)", precision=20, scale=0), ["1" * 21, "1", "x"]),
    ],
    ids=str,
)
def test_value_beyond_its_target_is_refused_and_its_row_alone(way: ColumnMapping, values: list[Any]) -> None:
    done = converted(way, values)

    assert done.batch["id"].to_pylist() == [2]
    assert reasons(done) == dict.fromkeys((1, 3), "c: out_of_range")
    assert done.troubles == {"out_of_range.quarantine": 2}


BROKEN = [b"\xed\xa0\x80", b"fine", b"a\xff", b"\xc3", None, b"\xffraw"]


def test_invalid_text_stops_the_stream_unless_told_otherwise() -> None:
    with pytest.raises(ValueRefused, match="4 texts"):
        converted(text(), BROKEN)


def test_invalid_text_goes_to_quarantine_byte_for_byte() -> None:
    done = converted(text(), BROKEN, invalid_text=Policy.QUARANTINE)

    assert done.batch["c"].to_pylist() == ["fine", None]
    assert done.refused is not None
    assert done.refused["c"].to_pylist() == [BROKEN[i] for i in (0, 2, 3, 5)]


@pytest.mark.parametrize("policy", [Policy.QUARANTINE, Policy.NULL])
def test_text_with_a_nul_character_meets_the_policy_of_invalid_text(policy: Policy) -> None:
    """No source says what COPY makes of it: the loader refuses it too."""
    given = [b"fine", b"a\0b", None, b"\0", b"", b"a\0\xff"]

    done = converted(text(), given, invalid_text=policy)

    passed = [None if b"\0" in (value or b"") else value for value in given]
    kept = [value for value in given if b"\0" not in (value or b"")] if policy is Policy.QUARANTINE else passed
    assert done.batch["c"].to_pylist() == [None if value is None else value.decode() for value in kept]
    assert done.troubles == {f"invalid_text.{policy}": 3}


def test_a_nul_character_stops_the_stream_unless_told_otherwise() -> None:
    with pytest.raises(
        ValueRefused, match="1 texts that are not valid in their character set or contain a NUL character"
    ):
        converted(text(), [b"a\0b", b"b"])


def test_a_slice_is_searched_for_nul_characters_within_its_own_rows() -> None:
    whole = pa.array([b"a\0", b"b", b"c", b"\0d"], pa.binary())

    made = make_typed_column(text(), whole.slice(1, 2))

    assert (made.array.to_pylist(), made.troubles) == (["b", "c"], ())
    assert make_typed_column(text(), whole.slice(2, 2)).array.to_pylist() == ["c", None]


def test_text_is_measured_in_bytes() -> None:
    done = converted(text(length=2), ["é".encode() * 4, "é".encode() * 5])

    assert reasons(done) == {2: "c: oversize"}


def test_text_is_cut_between_characters() -> None:
    done = converted(text(), ["é".encode() * 32_767 + b"x", "é".encode() * 32_768, None], oversize=Policy.TRUNCATE)

    assert done.batch["c"].to_pylist() == ["é" * 32_767 + "x", "é" * 32_767, None]
    assert done.troubles == {"oversize.truncate": 1}


@pytest.mark.parametrize("policy", [Policy.TRUNCATE, Policy.NULL])
def test_key_is_neither_cut_nor_emptied(policy: Policy) -> None:
    done = converted(text(), [b"x" * 65_536, b"y"], keys=frozenset({"c"}), oversize=policy)

    assert done.batch["c"].to_pylist() == ["y"]
    assert done.troubles == {"oversize.quarantine": 1}


def test_document_is_never_cut() -> None:
    done = converted(column("c", "json"), [b'"' + b"x" * (4 << 20) + b'"'], oversize=Policy.TRUNCATE)

    assert done.batch.num_rows == 0
    assert done.troubles == {"oversize.quarantine": 1}


@pytest.mark.parametrize(
    ("policy", "lengths"),
    [(Policy.QUARANTINE, []), (Policy.NULL, [(1_000_000, None)]), (Policy.TRUNCATE, [(1_000_000, 3_194_288)])],
)
def test_row_beyond_four_megabytes_meets_oversize(policy: Policy, lengths: list[tuple[int | None, ...]]) -> None:
    small, large = (column(name, "longblob", octets=4_294_967_295) for name in ("small", "large"))
    travelled = batch(id=(ID, [1]), small=(small, [b"s" * 1_000_000]), large=(large, [b"l" * 4_000_000]))

    done = Conversion((ID, small, large), Policies(oversize=policy)).convert(travelled)

    found = zip(done.batch["small"].to_pylist(), done.batch["large"].to_pylist(), strict=True)
    assert [tuple(None if v is None else len(v) for v in row) for row in found] == lengths
    assert done.troubles == {f"oversize.{policy}": 1}


def test_row_of_several_troubles_names_each_once() -> None:
    day, name = column("day", "date"), text("name", 1)
    travelled = batch(id=(ID, [1, 2]), day=(day, ["2023-02-30", "2023-02-28"]), name=(name, [b"too long", b"ok"]))

    done = Conversion((ID, day, name)).convert(travelled)

    assert reasons(done) == {1: "day: out_of_range; name: oversize"}


def test_fields_without_a_passage_are_kept_for_the_check_and_not_written() -> None:
    travelled = batch(id=(ID, [1]), order_1=(ID, [7]))

    done = Conversion((ID,)).convert(travelled)

    assert (done.batch.schema.names, done.source_batch.schema.names) == (["id"], ["id", "order_1"])


def test_conversion_reaches_a_task() -> None:
    conversion = Conversion((ID, text()), Policies(), frozenset({"id"}))

    assert pickle.loads(pickle.dumps(conversion)) == conversion
