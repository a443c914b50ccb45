"""What the declaration of an added column says of older rows, as either server writes it."""

from typing import Any

import pytest

from syncd.datatypes.columns import Policies, Policy
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.settings import StreamSettings
from syncd.tables.column_defaults import (
    AddedColumn,
    KnownDefault,
    ServerDefault,
    TransferredValue,
    UnknownDefault,
    classify_default,
    make_added_column,
)
from syncd.tables.column_mapping import map_columns
from watermarks.batch import BatchId

SINCE = BatchId(1, 7)


def column(kind: str = "varchar", **more: Any) -> SourceColumn:
    return SourceColumn(name="c", **{"data_type": kind.partition("(")[0], "column_type": kind, "length": 9, **more})


@pytest.mark.parametrize(
    ("default", "mariadb", "extra"),
    [
        ("abc", False, ""),
        ("uuid()", False, ""),
        ("NULL", False, ""),
        ("'it''s'", True, ""),
        (r"'a\'b'", True, ""),
        ("-1.50", True, ""),
        ("b'101'", True, ""),
        ("'two\nlines'", True, ""),
        ("_utf8mb4'x'", True, ""),
    ],
)
def test_a_constant_is_asked_of_the_server(default: str, mariadb: bool, extra: str) -> None:  # noqa: FBT001  # a case
    assert classify_default(column(default=default, extra=extra), mariadb=mariadb) == ServerDefault()


@pytest.mark.parametrize(
    ("of", "mariadb"),
    [
        ({"default": "uuid()", "extra": "default_generated"}, False),
        ({"default": "_utf8mb4\\'x\\'", "extra": "default_generated"}, False),
        ({"kind": "datetime(6)", "default": "CURRENT_TIMESTAMP(6)", "extra": "on update current_timestamp(6)"}, False),
        ({"default": "uuid()"}, True),
        ({"default": "1 + 1"}, True),
        ({"default": "concat('a','b')"}, True),
        ({"default": "'a' 'b'"}, True),
        ({"kind": "datetime", "default": "current_timestamp()"}, True),
        ({"kind": "int", "extra": "auto_increment", "nullable": False}, True),
        ({"extra": "stored generated"}, False),
        ({"kind": "point", "nullable": False}, False),
    ],
)
def test_what_is_computed_is_not_known(of: dict[str, Any], mariadb: bool) -> None:  # noqa: FBT001  # a case
    assert isinstance(classify_default(column(**of), mariadb=mariadb), UnknownDefault)


def test_null_is_written_in_two_ways() -> None:
    assert classify_default(column(default=None), mariadb=False) == KnownDefault(None)
    assert classify_default(column(default="NULL"), mariadb=True) == KnownDefault(None)
    assert classify_default(column(default="'NULL'"), mariadb=True) == ServerDefault()


@pytest.mark.parametrize(
    ("kind", "more", "begins"),
    [
        ("int", {}, 0),
        ("double", {}, 0.0),
        ("decimal(9,2)", {"scale": 2}, "0.00"),
        ("time(3)", {"fraction": 3}, "00:00:00.000"),
        ("text", {}, b""),
        ("binary(3)", {"length": 3}, b"\0\0\0"),
        ("enum('it''s','b')", {}, b"it's"),
        ("date", {}, "0000-00-00"),
    ],
)
def test_a_column_that_is_not_null_begins_as_its_type_does(
    kind: str, more: dict[str, Any], begins: TransferredValue
) -> None:
    assert classify_default(column(kind, nullable=False, **more), mariadb=False) == KnownDefault(begins)


@pytest.mark.parametrize(
    ("kind", "travelled", "policies", "found"),
    [
        ("bigint(20) unsigned", -1, {}, AddedColumn(since=SINCE, value=str(2**64 - 1))),
        ("bigint(20)", -1, {}, AddedColumn(since=SINCE, value="-1")),
        ("date", "0000-00-00", {}, AddedColumn(since=SINCE)),
        ("date", "0000-00-00", {"zero_dates": Policy.FAIL}, "zero_dates"),
        ("datetime", "2023-02-31 10:00:00", {}, "out_of_range"),
        ("double", 5e-324, {}, "out_of_range"),
        ("varchar(9)", b"\xff", {}, "invalid_text"),
        ("varchar(9)", b"a\0", {}, "invalid_text"),
        ("varchar(9)", b"", {}, AddedColumn(since=SINCE, value="")),
    ],
)
def test_a_default_meets_the_policies_that_a_value_meets(
    kind: str, travelled: object, policies: dict[str, Policy], found: AddedColumn | str
) -> None:
    one = column(kind, charset="utf8mb4")
    table = SourceTable(database="d", name="t", kind="BASE TABLE", engine="InnoDB", columns=(one,), indexes=())
    [passage] = map_columns(table, StreamSettings(source="s", database="d", table="t"))

    told = make_added_column(passage, travelled, Policies(**policies), since=SINCE)

    assert told == found if isinstance(found, AddedColumn) else found in told.unknown_reason
    assert AddedColumn.from_fields(told.to_fields()) == told
