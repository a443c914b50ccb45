"""Literals and values of each kind."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from syncd.datatypes.columns import TransferType
from syncd.datatypes.mysql_quoting import quote_name
from syncd.datatypes.source_table import SourceColumn
from syncd.errors import SourceUnfit, ValueRefused
from syncd.tables.order_column import OrderColumn, make_order_column
from tests.cursors import plain_of
from watermarks.cursor import CursorValue, ValueKind


def column(kind: str, **more: Any) -> OrderColumn:
    return make_order_column(SourceColumn(name="k", data_type=kind, column_type=more.pop("whole", kind), **more))


@pytest.mark.parametrize(
    ("of", "plain", "literal"),
    [
        (column("int"), -5, "-5"),
        (column("bigint", whole="bigint unsigned"), 2**64 - 1, "18446744073709551615"),
        (column("decimal"), Decimal("1E+3"), "1000"),
        (column("decimal"), Decimal("-0.10"), "-0.10"),
        (column("double"), 0.1, "0.1e0"),
        (column("double"), 1e22, "1e+22"),
        (column("date"), datetime(987, 1, 2, tzinfo=UTC).date(), "DATE'0987-01-02'"),
        (column("datetime"), datetime(2026, 1, 31, 23, 59, 59), "TIMESTAMP'2026-01-31 23:59:59'"),  # noqa: DTZ001  # wall times of a server have no zone
        (column("datetime", fraction=3), datetime(2026, 1, 31), "TIMESTAMP'2026-01-31 00:00:00.000'"),  # noqa: DTZ001  # wall times of a server have no zone
        (
            column("timestamp", fraction=6),
            datetime(2026, 1, 31, 0, 0, 0, 1, UTC),
            "TIMESTAMP'2026-01-31 00:00:00.000001'",
        ),
        (column("time"), -timedelta(hours=838, minutes=59, seconds=59), "TIME'-838:59:59'"),
        (column("time", fraction=6), timedelta(microseconds=-1), "TIME'-00:00:00.000001'"),
        (column("varbinary"), b"\0'\xff", "X'0027FF'"),
        (column("varbinary"), b"", "X''"),
        (
            column("varchar", charset="latin1", collation="latin1_bin"),
            "ü'",
            "CONVERT(_utf8mb4 X'C3BC27' USING latin1) COLLATE latin1_bin",
        ),
        (column("varchar", charset="utf8mb4", collation="utf8mb4_bin"), "", "_utf8mb4 X'' COLLATE utf8mb4_bin"),
    ],
)
def test_a_literal_is_of_its_columns_type(of: OrderColumn, plain: Any, literal: str) -> None:
    assert of.literal(CursorValue(of.kind, plain)) == literal


@pytest.mark.parametrize(
    ("of", "raw", "plain"),
    [
        (column("int"), 7, 7),
        (column("int"), "0000000007", 7),
        (column("decimal"), "1.50", Decimal("1.50")),
        (column("datetime", fraction=2), "2026-01-31 01:02:03.45", datetime(2026, 1, 31, 1, 2, 3, 450_000)),  # noqa: DTZ001  # wall times of a server have no zone
        (column("timestamp"), "2026-01-31 01:02:03", datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC)),
        (column("time", fraction=3), "-12:00:00.250", -timedelta(hours=12, milliseconds=250)),
        (column("time", fraction=3), b"-12:00:00.250", -timedelta(hours=12, milliseconds=250)),
        (column("timestamp"), b"2026-01-31 01:02:03", datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC)),
        (column("date"), b"2026-01-31", date(2026, 1, 31)),
        (column("decimal"), b"-1.50", Decimal("-1.50")),
        (column("binary"), b"a\0\0", b"a\0\0"),
    ],
)
def test_a_value_is_what_travelled(of: OrderColumn, raw: object, plain: Any) -> None:
    assert of.parse_value(raw) == CursorValue(of.kind, plain)


@pytest.mark.parametrize(
    ("of", "raw"),
    [
        (column("datetime"), "0000-00-00 00:00:00"),
        (column("datetime"), b"0000-00-00 00:00:00"),
        (column("date"), b"\xff"),
        (column("datetime"), None),
        (column("date"), "2026-00-31"),
        (column("int"), None),
        (column("time"), "noon"),
        (column("varchar"), b"bytes"),
        (column("binary"), "text"),
    ],
)
def test_what_is_no_position_is_refused_by_its_column(of: OrderColumn, raw: object) -> None:
    with pytest.raises(ValueRefused, match="column k contains"):
        of.parse_value(raw)


SJIS = column("varchar", charset="sjis", collation="sjis_bin")


def test_a_text_that_no_literal_can_name_is_no_position() -> None:
    assert SJIS.parse_value("表".encode()) == SJIS.parse_value("表") == CursorValue(ValueKind.COLLATED, "表")
    assert SJIS.parse_value(b"\xc3\xbf").raw == "\xff"

    with pytest.raises(ValueRefused, match="whose k has the bytes F040 in sjis") as refused:
        SJIS.parse_value(b"\xff\xf0\x40")
    assert "Change k of that row" in refused.value.hint


def test_a_probe_asks_whether_the_literal_stands_where_the_row_does() -> None:
    assert "`k` = CONVERT(CONVERT(`k` USING utf8mb4) USING sjis) COLLATE sjis_bin" in SJIS.probe_sql
    assert SJIS.select == "CONVERT(`k` USING utf8mb4)", "what is read row by row is not asked"


@pytest.mark.parametrize("charset", ["utf8mb4", "utf8mb3", "ascii", "latin1"])
def test_where_a_conversion_loses_nothing_a_probe_asks_nothing_more(charset: str) -> None:
    of = column("varchar", charset=charset, collation=f"{charset}_bin")

    assert of.probe_sql == of.select


@pytest.mark.parametrize("kind", ["json", "geometry", "blob", "longtext"])
def test_a_type_without_an_order_is_refused(kind: str) -> None:
    with pytest.raises(SourceUnfit, match=f"column k of type {kind}"):
        column(kind)


@pytest.mark.parametrize(
    ("kind", "collation", "expected"),
    [
        ("varchar", "utf8mb4_0900_bin", ValueKind.TEXT),
        ("varchar", "utf8mb4_nopad_bin", ValueKind.TEXT),
        ("char", "utf8mb4_0900_bin", ValueKind.COLLATED),
        ("varchar", "utf8mb4_bin", ValueKind.COLLATED),
        ("varchar", "latin1_nopad_bin", ValueKind.COLLATED),
        ("varchar", "utf8mb4_0900_ai_ci", ValueKind.COLLATED),
    ],
)
def test_only_what_neither_pads_nor_folds_is_ordered_by_code_points(
    kind: str, collation: str, expected: ValueKind
) -> None:
    assert column(kind, collation=collation, charset=collation.split("_", maxsplit=1)[0]).kind is expected


def test_a_column_comes_back_from_a_plan() -> None:
    of = column("varchar", charset="latin1", collation="latin1_bin")

    assert OrderColumn.from_fields(of.to_fields()) == of
    assert of.travel is TransferType.TEXT


def test_a_name_may_hold_anything() -> None:
    assert quote_name("a`b` OR 1") == "`a``b`` OR 1`"


def test_every_kind_has_a_literal() -> None:
    assert set(plain_of) == set(ValueKind)
