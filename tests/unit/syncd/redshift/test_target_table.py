"""What a target is made by, as text."""

from collections.abc import Sequence
from typing import Any

import pytest

from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import SchemaDrift
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import replay_plan_fields
from syncd.redshift.column_types import TargetType, cast_sql
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_resolver import preview_ddl
from syncd.redshift.target_table import ExistingColumn, ExistingTable, create_table_statements
from syncd.settings import Mode, StreamSettings, TargetSettings
from syncd.tables.column_mapping import map_columns
from watermarks.batch import BatchId

TABLE = TableRef(schema="public", name="orders")


@pytest.mark.parametrize(
    ("whom", "said"),
    [
        ("role analysts", 'role "analysts"'),
        ("group bi-team", 'group "bi-team"'),
        ("IAMR:analysts", '"IAMR:analysts"'),
        ('"quoted"', '"quoted"'),
        ("public", "public"),
        ("role public", 'role "public"'),
    ],
)
def test_whoever_may_read_is_named_whatever_the_name(whom: str, said: str) -> None:
    settings = TargetSettings(warehouse="redshift", schema="public", table="orders", grants=(whom,))

    *_, statement = create_table_statements(TABLE, (), settings, comment="")

    assert statement == f'GRANT SELECT ON "public"."orders" TO {said}'


@pytest.mark.parametrize(
    ("was", "to", "said"),
    [
        ("integer", "varchar(20)", "CAST(v AS VARCHAR(65535))"),
        ("varchar(20)", "integer", "CAST(v AS INTEGER)"),
        ("boolean", "varchar(4)", "CAST(CASE WHEN v THEN '1' WHEN NOT v THEN '0' END AS VARCHAR(65535))"),
        ("varchar(20)", "super", "JSON_PARSE(CAST(v AS VARCHAR(65535)))"),
        ("super", "varchar(20)", "CAST(JSON_SERIALIZE(v) AS VARCHAR(65535))"),
        ("integer", "varbyte(9)", "CAST(CAST(v AS VARCHAR(65535)) AS VARBYTE(16777216))"),
    ],
)
def test_a_value_of_another_type_is_converted_and_never_cut(was: str, to: str, said: str) -> None:
    assert cast_sql("v", TargetType.from_text(was), TargetType.from_text(to)) == said


WAS = SourceColumn(name="amount", data_type="int", column_type="int", precision=10, scale=0)
IS = SourceColumn(name="amount", data_type="varchar", column_type="varchar(9)", length=9, octets=36, charset="utf8mb4")
STREAM = StreamSettings(source="shop", database="shop", table="orders")
STANDS = ExistingTable(columns={"amount": ExistingColumn(type=TargetType.from_text("varchar(36)"))})
SETTINGS = TargetSettings(warehouse="redshift", schema="public", table="orders", notes=())


def manifest(column: SourceColumn, **more: Any) -> Manifest:
    table = SourceTable(
        database="shop", name="orders", kind="BASE TABLE", engine="InnoDB", columns=(column,), indexes=()
    )
    return Manifest(schema="", columns=map_columns(table, STREAM), parts=(), **more)


REPLAY = manifest(WAS, plan=replay_plan_fields(BatchId(1, 1), ()))


@pytest.mark.parametrize("files", [(manifest(WAS), manifest(IS)), (manifest(IS), REPLAY)], ids=["older", "replay"])
def test_what_a_run_would_do_to_a_target_that_has_followed_its_source_is_nothing(files: Sequence[Manifest]) -> None:
    assert preview_ddl(TABLE, STANDS, files, SETTINGS, Mode.UPSERT, comment="") == ()


def test_what_a_run_would_do_to_a_target_that_has_not_is_told_with_its_statements() -> None:
    stands = ExistingTable(columns={"amount": ExistingColumn(type=TargetType.from_text("integer"))})

    with pytest.raises(SchemaDrift, match=r"is INTEGER, but the source's column is now VARCHAR\(36\)"):
        preview_ddl(TABLE, stands, (manifest(WAS), manifest(IS)), SETTINGS, Mode.UPSERT, comment="")
