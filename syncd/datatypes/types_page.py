"""Prints `docs/types.md` from the table of types.

python -m syncd.datatypes.types_page > docs/types.md
"""

import sys
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


def _example_column(
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
    _example_column("tinyint(4)"),
    _example_column("smallint(6)"),
    _example_column("smallint(5) unsigned"),
    _example_column("mediumint(8) unsigned"),
    _example_column("int(11)"),
    _example_column("int(10) unsigned"),
    _example_column("bigint(20)"),
    _example_column("bigint(20) unsigned"),
    _example_column("bit(1)", precision=1),
    _example_column("bit(8)", precision=8),
    _example_column("bit(64)", precision=64),
    _example_column("year(4)"),
    _example_column("decimal(9,2)", precision=9, scale=2),
    _example_column("decimal(18,4)", precision=18, scale=4),
    _example_column("decimal(38,10)", precision=38, scale=10),
    _example_column("decimal(65,30)", precision=65, scale=30),
    _example_column("float"),
    _example_column("double"),
    _example_column("date"),
    _example_column("datetime(6)"),
    _example_column("timestamp(3)"),
    _example_column("time(6)"),
    _example_column("varchar(50)", length=50, charset="utf8mb4"),
    _example_column("char(3)", length=3, charset="ascii"),
    _example_column("varchar(50)", length=50, charset="latin1"),
    _example_column("varchar(50)", length=50, charset="cp1251"),
    _example_column("tinytext", length=255, charset="utf8mb4"),
    _example_column("longtext", length=4_294_967_295, charset="utf8mb4"),
    _example_column("enum('new','paid')", length=4, charset="utf8mb4"),
    _example_column("set('a','b')", length=3, charset="utf8mb4"),
    _example_column("json"),
    _example_column("binary(16)", length=16),
    _example_column("longblob", length=4_294_967_295),
    _example_column("geometry"),
    _example_column("vector(3)"),
    _example_column("inet4"),
    _example_column("inet6"),
    _example_column("uuid"),
)
"""At least one column for every rule."""

_HEAD: Final = """# Types

Printed by `python -m syncd.datatypes.types_page`; the code reads the same table.

Every column leaves MySQL in one of four forms that mean the same to every driver, session and time zone: a signed
integer of 64 bits, a double, text of plain ASCII, or bytes. The exact type is made of it on our side. A type that is
not here stops the stream before anything is read, with its name.

A value arrives exactly, or a policy of the stream meets it, by name and counted in the manifest. Never is one changed
in silence.
"""

_PROBLEM_DESCRIPTIONS: Final[dict[ValueProblem, str]] = {
    ValueProblem.ZERO_DATE: "a date whose month or day is zero: `0000-00-00`, `2023-00-10`",
    ValueProblem.OVERSIZE: f"text of more than {MAX_VARCHAR_BYTES:,} bytes, binary of more than {MAX_VARBYTE_BYTES:,}, or a row of"
    f" more than {MAX_COPY_ROW_BYTES:,} (then its widest value)",
    ValueProblem.OUT_OF_RANGE: "a value that Redshift's type cannot hold, such as the year 0 or `2023-02-31`",
    ValueProblem.INVALID_TEXT: "bytes that are no text in the column's character set, or have no character in Unicode:"
    " a lone surrogate, an unassigned code; text with a NUL character",
}

_TAIL: Final = f"""
`null` lets the row pass without the value, `truncate` cuts it between two characters, `quarantine` keeps the row out
of the files and puts it beside them as it travelled, with the reason, `fail` stops the stream. In a column of the key
or the order nothing is made NULL or cut, and nothing is cut of JSON, WKB or printed numbers: such a row goes to
quarantine instead.

## Names

A column's name in files and in Redshift is the source's with ASCII letters in lower case, as Redshift folds it. Two
columns that become one name, a name of more than 127 bytes, a name of Redshift's own (`oid`, `ctid`, ...) and one that
begins with `_syncd_` are refused by name; a view that is read whole can rename them. Reserved words are quoted, always.

## Files

Format 1.0 with data pages of version 1, plain, dictionary and run-length encodings, zstd; all columns optional.
DECIMAL is a FIXED_LEN_BYTE_ARRAY of the shortest length for its precision, as Redshift's UNLOAD writes it; timestamps
are INT64 TIMESTAMP_MICROS adjusted to UTC; SMALLINT carries
INT_16; binary is never of fixed length; nothing is unsigned. Behind the columns of the source stands `_syncd_batch`,
the number of the batch that read the row (decision 0008).

## In doubt until a live cluster has spoken

- Text with a NUL character is met by `invalid_text`. No source shows what COPY makes of it in Parquet; the stand-in
  refuses it, and rows of files that were written before are put aside when they are loaded.
- Rows of more than {MAX_COPY_ROW_BYTES:,} bytes are met by `oversize`, though COPY may take them from Parquet.
- Subnormal doubles are met by `out_of_range`, though COPY may keep them.
"""


def render_page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_render_types(), "", "## Policies", "", *_render_policies(), _TAIL])


def _render_types() -> Iterator[str]:
    yield "| MySQL | Example | Selected as | Travels as | Parquet | Redshift | Can suffer from | Note |"
    yield "|---|---|---|---|---|---|---|---|"
    yield _render_type(BOOLEAN_RULE, _example_column("tinyint(1)"), first=True)
    for rule in TYPE_RULES:
        examples = [column for column in EXAMPLES if find_type_rule(column) is rule]
        for column in examples:
            yield _render_type(rule, column, first=column is examples[0])


def _render_type(rule: TypeRule, column: SourceColumn, *, first: bool) -> str:
    way = rule.map_type(column)
    example = column.column_type + (f" {column.charset}" if column.charset else "")
    befalls = ", ".join(f"`{trouble}`" for trouble in way.befalls)
    cells = (
        rule.title if first else "",
        f"`{example}`",
        f"`{way.select.replace('{c}', 'c')}`",
        str(way.travel),
        _format_parquet(way.parquet),
        way.redshift,
        befalls,
        rule.note if first else "",
    )
    return "| " + " | ".join(cells) + " |"


def _format_parquet(parquet: ParquetType) -> str:
    length = f"({parquet.length})" if parquet.length else ""
    numbers = f"({parquet.precision},{parquet.scale})" if parquet.precision else ""
    meaning = "" if parquet.meaning == "NONE" else f" {parquet.meaning}{numbers}"
    return f"{parquet.physical}{length}{meaning}"


def _render_policies() -> Iterator[str]:
    yield "| Policy | Meets | Can be | Default |"
    yield "|---|---|---|---|"
    for trouble, allowed in ALLOWED_POLICIES.items():
        words = ", ".join(f"`{policy}`" for policy in sorted(allowed))
        yield f"| `{trouble}` | {_PROBLEM_DESCRIPTIONS[trouble]} | {words} | `{Policies().policy_for(trouble)}` |"


if __name__ == "__main__":
    sys.stdout.write(render_page())
