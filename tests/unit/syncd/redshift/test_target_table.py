"""What a target is made by, as text."""

from collections.abc import Sequence
from typing import Any

import pytest

from syncd.datatypes.source_table import Column, Table
from syncd.errors import SchemaDrift
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import replay_fields
from syncd.redshift.casts import cast
from syncd.redshift.column_types import TargetType
from syncd.redshift.ddl_preview import ddl_for
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import Found, FoundColumn, create_statements
from syncd.settings import Mode, StreamSettings, TargetSettings
from syncd.tables.column_mapping import passages
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

    *_, statement = create_statements(TABLE, (), settings, about="")

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
    assert cast("v", TargetType.of_text(was), TargetType.of_text(to)) == said


WAS = Column(name="amount", data_type="int", column_type="int", precision=10, scale=0)
IS = Column(name="amount", data_type="varchar", column_type="varchar(9)", length=9, octets=36, charset="utf8mb4")
STREAM = StreamSettings(source="shop", database="shop", table="orders")
STANDS = Found(columns={"amount": FoundColumn(type=TargetType.of_text("varchar(36)"))})
SETTINGS = TargetSettings(warehouse="redshift", schema="public", table="orders", notes=())


def manifest(column: Column, **more: Any) -> Manifest:
    table = Table(database="shop", name="orders", kind="BASE TABLE", engine="InnoDB", columns=(column,), indexes=())
    return Manifest(schema="", passages=passages(table, STREAM), parts=(), **more)


REPLAY = manifest(WAS, plan=replay_fields(BatchId(1, 1), ()))


@pytest.mark.parametrize("files", [(manifest(WAS), manifest(IS)), (manifest(IS), REPLAY)], ids=["older", "replay"])
def test_what_a_run_would_do_to_a_target_that_has_followed_its_source_is_nothing(files: Sequence[Manifest]) -> None:
    assert ddl_for(TABLE, STANDS, files, SETTINGS, Mode.UPSERT, about="") == ()


def test_what_a_run_would_do_to_a_target_that_has_not_is_told_with_its_statements() -> None:
    stands = Found(columns={"amount": FoundColumn(type=TargetType.of_text("integer"))})

    with pytest.raises(SchemaDrift, match=r"is INTEGER, and the source's column is VARCHAR\(36\) now"):
        ddl_for(TABLE, stands, (manifest(WAS), manifest(IS)), SETTINGS, Mode.UPSERT, about="")
