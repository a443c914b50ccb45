"""What a target is made by, as text."""

import pytest

from syncd.core.redshift.casting import cast
from syncd.core.redshift.quoting import TableRef
from syncd.core.redshift.target import create_statements
from syncd.core.redshift.types import TargetType
from syncd.core.settings import TargetSettings

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
