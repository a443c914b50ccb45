"""Tables of the page about types, generated from the type table."""

from collections.abc import Iterator
from typing import Final

from syncd.datatypes.columns import (
    ALLOWED_POLICIES,
    MAX_COPY_ROW_BYTES,
    MAX_VARBYTE_BYTES,
    MAX_VARCHAR_BYTES,
    ParquetType,
    Policies,
    ValueProblem,
)
from syncd.datatypes.source_table import SourceColumn
from syncd.datatypes.type_table import BOOLEAN_RULE, TYPE_RULES, TypeRule, find_type_rule


def _column(
    column_type: str,
    *,
    length: int | None = None,
    precision: int | None = None,
    scale: int | None = None,
    charset: str | None = None,
) -> SourceColumn:
    return SourceColumn(
        name="c",
        data_type=column_type.partition("(")[0].split()[0],
        column_type=column_type,
        length=length,
        octets=length,
        precision=precision,
        scale=scale,
        charset=charset,
    )


EXAMPLES: Final = (
    _column("tinyint(4)"),
    _column("smallint(6)"),
    _column("smallint(5) unsigned"),
    _column("mediumint(8) unsigned"),
    _column("int(11)"),
    _column("int(10) unsigned"),
    _column("bigint(20)"),
    _column("bigint(20) unsigned"),
    _column("bit(1)", precision=1),
    _column("bit(8)", precision=8),
    _column("bit(64)", precision=64),
    _column("year(4)"),
    _column("decimal(9,2)", precision=9, scale=2),
    _column("decimal(38,10)", precision=38, scale=10),
    _column("decimal(65,30)", precision=65, scale=30),
    _column("float"),
    _column("date"),
    _column("datetime(6)"),
    _column("time(6)"),
    _column("varchar(50)", length=50, charset="utf8mb4"),
    _column("char(3)", length=3, charset="ascii"),
    _column("varchar(50)", length=50, charset="latin1"),
    _column("tinytext", length=255, charset="utf8mb4"),
    _column("longtext", length=4_294_967_295, charset="utf8mb4"),
    _column("enum('new','paid')", length=4, charset="utf8mb4"),
    _column("set('a','b')", length=3, charset="utf8mb4"),
    _column("json"),
    _column("binary(16)", length=16),
    _column("longblob", length=4_294_967_295),
    _column("geometry"),
    _column("vector(3)"),
    _column("inet4"),
    _column("inet6"),
    _column("uuid"),
)
"""At least one column for every rule."""

_SAYS: Final[dict[ValueProblem, str]] = {
    ValueProblem.ZERO_DATE: "a date whose month or day is zero: `0000-00-00`, `2023-00-10`",
    ValueProblem.OVERSIZE: f"text longer than {MAX_VARCHAR_BYTES:,} bytes,"
    f" binary longer than {MAX_VARBYTE_BYTES:,} bytes, or a row longer than {MAX_COPY_ROW_BYTES:,} bytes"
    " (then the policy applies to its widest value)",
    ValueProblem.OUT_OF_RANGE: "a value that the Redshift type cannot hold, such as the year 0 or `2023-02-31`",
    ValueProblem.INVALID_TEXT: "bytes that are not valid in the column's character set or have no Unicode character"
    " (a lone surrogate, an unassigned code); text with a NUL character",
}


def type_rows() -> Iterator[str]:
    yield "| MySQL | Example | Transferred as | Parquet | Redshift | Policies | Note |"
    yield "|---|---|---|---|---|---|---|"
    yield _row(BOOLEAN_RULE, _column("tinyint(1)"), first=True)
    for rule in TYPE_RULES:
        examples = [column for column in EXAMPLES if find_type_rule(column) is rule]
        for column in examples:
            yield _row(rule, column, first=column is examples[0])


def _row(rule: TypeRule, column: SourceColumn, *, first: bool) -> str:
    way = rule.map_type(column)
    example = column.column_type + (f" {column.charset}" if column.charset else "")
    policies = ", ".join(f"`{trouble}`" for trouble in way.befalls)
    cells = (
        rule.title if first else "",
        f"`{example}`",
        str(way.travel),
        _parquet(way.parquet),
        way.redshift,
        policies,
        rule.note if first else "",
    )
    return "| " + " | ".join(cells) + " |"


def _parquet(parquet: ParquetType) -> str:
    length = f"({parquet.length})" if parquet.length else ""
    numbers = f"({parquet.precision},{parquet.scale})" if parquet.precision else ""
    meaning = "" if parquet.meaning == "NONE" else f" {parquet.meaning}{numbers}"
    return f"{parquet.physical}{length}{meaning}"


def policy_rows() -> Iterator[str]:
    yield "| Policy | Applies to | Values | Default |"
    yield "|---|---|---|---|"
    for trouble, allowed in ALLOWED_POLICIES.items():
        words = ", ".join(f"`{policy}`" for policy in sorted(allowed))
        yield f"| `{trouble}` | {_SAYS[trouble]} | {words} | `{Policies().policy_for(trouble)}` |"
