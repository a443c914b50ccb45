"""Which changes of a declaration may have changed values, in the words of either server, and how long that is said."""

from dataclasses import replace
from typing import Any

import pytest

from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.lake.manifest import Manifest
from syncd.settings import StreamSettings
from syncd.tables.column_changes import (
    RedeclaredColumn,
    describe_column,
    describe_columns,
    may_change_values,
    merge_redeclared,
)
from syncd.tables.column_mapping import map_columns
from watermarks.batch import BatchId

FIRST, SECOND, THIRD = (BatchId(1, number) for number in (1, 2, 3))
UTF8, UTF8_3, LATIN, ASCII = (f" character set {name}" for name in ("utf8mb4", "utf8mb3", "latin1", "ascii"))


def column(kind: str, **more: Any) -> SourceColumn:
    return SourceColumn(name="C", data_type=kind.partition("(")[0], column_type=kind, **more)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("int(11)", "int"),
        ("int", "int(11)"),
        ("tinyint(1)", "tinyint(4)"),
        ("int(10) unsigned zerofill", "int unsigned"),
        ("mediumint", "int"),
        ("smallint unsigned", "mediumint"),
        ("int unsigned", "bigint"),
        ("bit(3)", "bit(63)"),
        ("year(4)", "year"),
        ("decimal(20,0)", "decimal(21,0)"),
        ("decimal(9,2) unsigned", "decimal(9,2)"),
        ("float unsigned", "double"),
        ("double(9,2)", "double"),
        ("datetime", "datetime(6)"),
        ("timestamp(3)", "timestamp(6)"),
        (f"varchar(9){UTF8}", f"varchar(10){UTF8}"),
        (f"char(9){UTF8}", f"varchar(9){UTF8}"),
        (f"varchar(16383){UTF8}", f"text{UTF8}"),
        (f"varchar(65535){LATIN}", f"text{LATIN}"),
        (f"tinytext{UTF8}", f"varchar(255){UTF8}"),
        (f"text{UTF8}", f"mediumtext{UTF8}"),
        (f"text{ASCII}", f"text{UTF8}"),
        (f"text{UTF8_3}", f"text{UTF8}"),
        (f"text{LATIN}", f"mediumtext{UTF8}"),
        (f"varchar(9){LATIN}", f"varchar(9){UTF8}"),
        ("varchar(9) character set utf8", f"varchar(9){UTF8_3}"),
        (f"varchar(9) /*M!100301 COMPRESSED*/{UTF8}", f"varchar(9){UTF8}"),
        ("datetime /* mariadb-5.3 */", "datetime"),
        ("varbinary(9)", "varbinary(10)"),
        ("varbinary(255)", "tinyblob"),
        ("blob", "longblob"),
        (f"enum('a','b'){UTF8}", f"enum('a','b','c'){UTF8}"),
        (f"enum('a','c'){UTF8_3}", f"enum('a','b','c'){UTF8}"),
        (f"set('it''s','(b)'){UTF8}", f"set('it''s','(b)','c'){UTF8}"),
        ("int not null", "int"),
        ("int generated", "int"),
        ("json", "json"),
        ("point", "point"),
    ],
)
def test_a_change_that_can_change_no_value(was: str, now: str) -> None:
    assert not may_change_values(was, now)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("bigint(20)", "int(11)"),
        ("int", "mediumint"),
        ("smallint", "tinyint unsigned"),
        ("int(11)", "smallint(5) unsigned"),
        ("int unsigned", "int"),
        ("bigint unsigned", "bit(64)"),
        ("bigint unsigned", "decimal(20,0)"),
        ("smallint", "year"),
        ("year(2)", "year"),
        ("bit(9)", "bit(8)"),
        ("decimal(20,0)", "decimal(19,0)"),
        ("decimal(9,2)", "decimal(9,2) unsigned"),
        ("decimal(40,2)", "decimal(41,3)"),
        ("double", "float"),
        ("float", "float(7,2)"),
        ("double(9,2)", "double(9,3)"),
        ("double", "double unsigned"),
        ("datetime(6)", "datetime"),
        ("datetime(6)", "datetime(3)"),
        ("datetime", "timestamp"),
        ("time", "time(3)"),
        ("time(6)", "time"),
        (f"varchar(18){UTF8}", "time"),
        (f"varchar(9){UTF8}", f"varchar(8){UTF8}"),
        (f"varchar(9){UTF8}", f"char(9){UTF8}"),
        (f"varchar(16384){UTF8}", f"text{UTF8}"),
        (f"text{UTF8}", f"varchar(9){UTF8}"),
        (f"mediumtext{UTF8}", f"text{UTF8}"),
        (f"text{LATIN}", f"text{UTF8}"),
        (f"varchar(9){UTF8}", f"varchar(9){UTF8_3}"),
        (f"varchar(9){UTF8}", f"varchar(9){LATIN}"),
        (f"varchar(9){LATIN}", f"varchar(9){ASCII}"),
        (f"varchar(9){LATIN}", "varchar(9) character set koi8r"),
        (f"varchar(9){UTF8}", f"enum('a'){UTF8}"),
        (f"enum('a'){UTF8}", f"varchar(9){UTF8}"),
        ("binary(3)", "binary(5)"),
        ("varbinary(9)", "binary(9)"),
        ("varbinary(9)", "varbinary(8)"),
        ("varbinary(256)", "tinyblob"),
        ("longblob", "blob"),
        (f"enum('a','b'){UTF8}", f"enum('a'){UTF8}"),
        (f"enum('a','b'){UTF8}", f"enum('a','B'){UTF8}"),
        (f"enum('a','b'){UTF8}", f"enum('b','a'){UTF8}"),
        (f"enum('a'){UTF8}", f"enum('a''b'){UTF8}"),
        (f"enum('a'){UTF8}", f"enum('a'){LATIN}"),
        (f"set('a','b'){UTF8}", f"set('a'){UTF8}"),
        (f"set('a'){UTF8}", f"enum('a'){UTF8}"),
        ("int", "int not null"),
        ("int", "int generated"),
        ("int", "a type of the future(1)(2)"),
        ("a type of the future(1)(2)", "int"),
        ("vector(3)", "vector(4)"),
        ("point", "geometry"),
    ],
)
def test_a_change_that_may_have_changed_values(was: str, now: str) -> None:
    assert may_change_values(was, now)


def test_a_declaration_says_what_values_depend_on() -> None:
    text = column("varchar(50)", charset="utf8mb4", collation="utf8mb4_bin", default="x", nullable=False)

    assert describe_column(text) == f"varchar(50){UTF8} not null"
    assert describe_column(replace(text, collation="utf8mb4_general_ci", default=None)) == describe_column(text)
    assert describe_column(column("int", extra="default_generated")) == "int"
    assert describe_column(column("int", extra="stored generated")) == "int generated"


def test_a_declaration_goes_by_the_name_in_files() -> None:
    table = SourceTable(
        database="shop", name="t", kind="BASE TABLE", engine=None, columns=(column("int(11)"),), indexes=()
    )
    ways = map_columns(table, StreamSettings(source="shop", database="shop", table="t"))

    assert describe_columns(table, ways) == {"c": "int(11)"}


def test_what_a_batch_says_every_later_one_says_again() -> None:
    said = merge_redeclared({"c": "datetime(6)"}, {"c": "datetime"}, {}, batch=SECOND)

    assert said == {"c": RedeclaredColumn(since=SECOND, before="datetime(6)", after="datetime")}
    assert merge_redeclared({"c": "datetime"}, {"c": "datetime(3)"}, said, batch=THIRD) == said


def test_a_later_change_takes_the_place_of_an_earlier_one() -> None:
    said = {"c": RedeclaredColumn(since=SECOND, before="datetime(6)", after="datetime(3)")}

    found = merge_redeclared({"c": "datetime(3)"}, {"c": "datetime"}, said, batch=THIRD)

    assert found == {"c": RedeclaredColumn(since=THIRD, before="datetime(3)", after="datetime")}


def test_a_column_that_went_or_came_is_no_changed_one() -> None:
    said = {"c": RedeclaredColumn(since=SECOND, before="int", after="year")}

    assert merge_redeclared({"c": "year"}, {}, said, batch=THIRD) == {}
    assert merge_redeclared({}, {"c": "int"}, said, batch=THIRD) == {}


def test_of_a_long_list_of_members_the_beginning_is_said() -> None:
    long = "enum(" + ",".join(f"'{number:05}'" for number in range(9000)) + ")"

    [one] = merge_redeclared({"c": long}, {"c": "enum('a')"}, {}, batch=SECOND).values()

    assert one.reason.startswith("it was declared enum('00000',")
    assert one.reason.endswith("..., and is enum('a')")
    assert len(one.reason) < 200


def test_a_manifest_keeps_it_and_one_of_before_knows_nothing() -> None:
    said = {"c": RedeclaredColumn(since=SECOND, before="datetime(6)", after="datetime")}
    manifest = Manifest(schema="s", columns=(), parts=(), declarations={"c": "datetime"}, redeclared_columns=said)
    fields = manifest.to_fields()

    assert Manifest.from_fields(fields) == manifest
    del fields["declared"], fields["redeclared"]
    old = Manifest.from_fields(fields)
    assert merge_redeclared(old.declarations, manifest.declarations, old.redeclared_columns, batch=SECOND) == {}
