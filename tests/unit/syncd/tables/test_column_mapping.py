import pytest

from docs.generate.type_tables import EXAMPLES
from syncd.datatypes.columns import LogicalType, Policies, Policy, TransferType
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.datatypes.type_table import TYPE_RULES, find_type_rule
from syncd.errors import ConfigError, SourceUnfit
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns


def column(
    name: str, column_type: str = "int(11)", *, length: int | None = None, charset: str | None = None
) -> SourceColumn:
    data_type = column_type.partition("(")[0].split()[0]
    return SourceColumn(name=name, data_type=data_type, column_type=column_type, length=length, charset=charset)


def table(*columns: SourceColumn) -> SourceTable:
    return SourceTable(database="shop", name="t", kind="BASE TABLE", engine="InnoDB", columns=columns, indexes=())


def settings(*boolean: str) -> StreamSettings:
    return StreamSettings(source="main", database="shop", table="t", boolean=boolean)


def test_every_rule_has_an_example() -> None:
    assert {find_type_rule(example) for example in EXAMPLES} == set(TYPE_RULES)


def test_names_are_folded_as_redshift_folds_them() -> None:
    found = map_columns(table(column("Order"), column("SELECT"), column("ÉTÉ"), column("a`b c.d")), settings())

    assert [one.name for one in found] == ["order", "select", "ÉtÉ", "a`b c.d"]
    assert found[3].select == "CAST(`a``b c.d` AS SIGNED)"


@pytest.mark.parametrize(
    "names",
    [
        ("Total", "tOTAL"),
        ("été", "ÉTÉ"),
        ("ctid",),
        ("OID",),
        ("_syncd_batch",),
        ("_SYNCD_x",),
        ("ü" * 64,),
    ],
)
def test_name_that_cannot_be_a_column_is_refused_by_name(names: tuple[str, ...]) -> None:
    with pytest.raises(SourceUnfit) as refused:
        map_columns(table(*map(column, names)), settings())

    assert names[-1] in str(refused.value)
    assert "in a view of" in refused.value.hint


def test_longest_name_that_fits_is_kept() -> None:
    name = "ü" * 63

    assert map_columns(table(column(name)), settings())[0].name == name


def test_hundreds_of_columns_keep_their_order() -> None:
    found = map_columns(table(*(column(f"c{i}") for i in range(300))), settings())

    assert [one.name for one in found] == [f"c{i}" for i in range(300)]


def test_more_columns_than_redshift_has_are_refused() -> None:
    with pytest.raises(SourceUnfit, match="1601 columns"):
        map_columns(table(*(column(f"c{i}") for i in range(1601))), settings())


def test_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(SourceUnfit, match=r"shop\.t\.doc has the unsupported type xmltype"):
        map_columns(table(column("doc", "xmltype")), settings())


def test_boolean_is_asked_for_by_name_whatever_its_case() -> None:
    (found,) = map_columns(table(column("Paid", "tinyint(1)")), settings("PAID"))

    assert found.redshift == "BOOLEAN"


@pytest.mark.parametrize("name", ["absent", "wide"])
def test_column_that_cannot_be_boolean_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        map_columns(table(column("wide", "tinyint(4)")), settings(name))


@pytest.mark.parametrize(
    ("column_type", "length", "charset", "redshift"),
    [
        ("varchar(10)", 10, "utf8mb4", "VARCHAR(40)"),
        ("varchar(10)", 10, "utf8mb3", "VARCHAR(30)"),
        ("varchar(10)", 10, "latin1", "VARCHAR(30)"),
        ("varchar(10)", 10, "ascii", "VARCHAR(10)"),
        ("varchar(10)", 10, "a_charset_of_tomorrow", "VARCHAR(40)"),
        ("varchar(16383)", 16_383, "utf8mb4", "VARCHAR(65532)"),
        ("varchar(21844)", 21_844, "utf8mb4", "VARCHAR(65535)"),
        ("varchar(0)", 0, "utf8mb4", "VARCHAR(1)"),
        ("varbinary(0)", 0, None, "VARBYTE(1)"),
        ("varbinary(65532)", 65_532, None, "VARBYTE(65532)"),
        ("longblob", 4_294_967_295, None, "VARBYTE(16777216)"),
        ("vector(2048)", None, None, "VARBYTE(8192)"),
    ],
)
def test_width_is_in_bytes(column_type: str, length: int | None, charset: str | None, redshift: str) -> None:
    (found,) = map_columns(table(column("c", column_type, length=length, charset=charset)), settings())

    assert found.redshift == redshift
    assert f"({found.limit})" in redshift


def test_text_travels_as_bytes_so_that_no_driver_decodes_it() -> None:
    (found,) = map_columns(table(column("c", "varchar(9)", length=9, charset="utf8mb4")), settings())

    assert (found.travel, found.parquet.meaning) == (TransferType.BYTES, LogicalType.UTF8)


@pytest.mark.parametrize(
    "given",
    [{"zero_dates": Policy.TRUNCATE}, {"out_of_range": Policy.TRUNCATE}, {"invalid_text": Policy.TRUNCATE}],
)
def test_policy_that_makes_no_sense_is_refused(given: dict[str, Policy]) -> None:
    with pytest.raises(ConfigError, match="cannot be truncate"):
        Policies(**given)
