"""Parts of CREATE TABLE: columns with their attributes, keys, distribution, order, encoding."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.sql_types import SqlType, read_type
from syncd.sandbox.redshift.sql.statement_editor import StatementRewriter
from syncd.sandbox.redshift.sql.tokens import SYSTEM_COLUMNS, LongNames, TokenReader

ENCODINGS: Final = frozenset(
    """
    RAW AZ64 BYTEDICT DELTA DELTA32K LZO MOSTLY8 MOSTLY16 MOSTLY32 RUNLENGTH TEXT255 TEXT32K ZSTD
    """.split()
)
ATTRIBUTE_WORDS: Final = frozenset(
    """
    NOT NULL ENCODE DISTKEY SORTKEY UNIQUE PRIMARY REFERENCES IDENTITY GENERATED COLLATE CHECK CONSTRAINT
    DEFAULT
    """.split()
)
MAX_SORT_COLUMNS: Final = 400
MAX_INTERLEAVED_COLUMNS: Final = 8


@dataclass(frozen=True, slots=True)
class Identity:
    seed: int
    step: int
    by_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    name: str
    type: SqlType
    not_null: bool = False
    default: str = ""
    identity: Identity | None = None
    encoding: str = ""
    distkey: bool = False
    sortkey: bool = False
    key: str = ""

    def effective_encoding(self, *, temporary: bool, sorted_by: bool = False) -> str:
        """Return the declared encoding, or Redshift's choice (fact 4)."""
        if self.encoding:
            return "none" if self.encoding == "raw" else self.encoding
        if temporary or self.sortkey or sorted_by or self.type.name in {"BOOLEAN", "REAL", "DOUBLE PRECISION"}:
            return "none"
        if self.type.name in {"CHAR", "VARCHAR", "VARBYTE"}:
            return "lzo"
        return "zstd" if self.type.name == "SUPER" else "az64"


@dataclass(slots=True)
class TableLayout:
    """Distribution and sort order of a table."""

    diststyle: str = ""
    distkey: str | None = None
    sortkeys: list[str] = field(default_factory=list)
    sort_auto: bool = False
    encode_auto: bool = False

    @property
    def is_given(self) -> bool:
        return bool(self.diststyle or self.distkey or self.sortkeys or self.sort_auto)

    @property
    def distribution_text(self) -> str:
        """The diststyle as SVV_TABLE_INFO shows it."""
        if self.distkey:
            return f"KEY({self.distkey})"
        return self.diststyle or "AUTO(EVEN)"


def read_column(reader: TokenReader, names: LongNames) -> ColumnDefinition:
    name = reader.read_name()
    if name in SYSTEM_COLUMNS:
        raise Refusal("42701", f'column name "{name}" conflicts with a system column name')
    column = ColumnDefinition(name=name, type=read_type(reader))
    while (token := reader.peek()) is not None and not token.is_mark(",", ")"):
        read = COLUMN_ATTRIBUTES.get(token.text)
        if read is None:
            raise syntax_error(token.raw)
        reader.next()
        column = read(column, reader, names)
    if column.type.name == "SUPER" and (column.distkey or column.sortkey):
        raise not_supported(f'SUPER column "{column.name}" cannot be a distribution or sort key')
    return column


def _read_not_null(column: ColumnDefinition, reader: TokenReader, _: LongNames) -> ColumnDefinition:
    reader.expect("NULL")
    return replace(column, not_null=True)


def _read_default(column: ColumnDefinition, reader: TokenReader, names: LongNames) -> ColumnDefinition:
    start = reader.position
    reader.skip_balanced()
    while (token := reader.peek()) is not None and not (token.is_mark(",", ")") or token.is_word(*ATTRIBUTE_WORDS)):
        reader.skip_balanced()
    sql = reader.text_between(start, reader.position)
    if reader.tokens[start].is_word("SELECT") or "SELECT" in (t.text for t in reader.tokens[start : reader.position]):
        raise not_supported("cannot use subquery in DEFAULT expression")
    rewriter = StatementRewriter(TokenReader(reader.tokens[start : reader.position], reader.sql), names)
    return replace(column, default=rewriter.rewrite() if sql else "")


def read_encoding(reader: TokenReader) -> str:
    token = reader.next()
    if token.text not in ENCODINGS:
        raise Refusal("42704", f'unknown encoding "{token.raw}"')
    return token.text.lower()


def _read_primary(column: ColumnDefinition, reader: TokenReader, _: LongNames) -> ColumnDefinition:
    reader.expect("KEY")
    return replace(column, key="p", not_null=True)


def _read_references(column: ColumnDefinition, reader: TokenReader, _: LongNames) -> ColumnDefinition:
    skip_reference(reader)
    return replace(column, key=column.key or "f")


def skip_reference(reader: TokenReader) -> None:
    reader.read_relation()
    if reader.is_mark_next("("):
        reader.read_names()


def _read_generated(column: ColumnDefinition, reader: TokenReader, _: LongNames) -> ColumnDefinition:
    reader.expect("BY", "DEFAULT", "AS", "IDENTITY")
    return _add_identity(column, reader, by_default=True)


def _add_identity(column: ColumnDefinition, reader: TokenReader, *, by_default: bool) -> ColumnDefinition:
    if column.type.name not in {"INTEGER", "BIGINT"}:
        raise not_supported("identity column type must be INT or BIGINT")
    reader.expect_mark("(")
    seed = reader.read_number()
    reader.expect_mark(",")
    step = reader.read_number()
    reader.expect_mark(")")
    return replace(column, identity=Identity(seed, step, by_default), not_null=True)


def _read_collate(column: ColumnDefinition, reader: TokenReader, _: LongNames) -> ColumnDefinition:
    if not reader.accept("CASE_SENSITIVE"):
        raise not_in_stand_in("COLLATE other than CASE_SENSITIVE")
    return column


def _refuse_check(_column: ColumnDefinition, _reader: TokenReader, _names: LongNames) -> ColumnDefinition:
    raise not_supported("CHECK constraints are not supported")


COLUMN_ATTRIBUTES: Final[dict[str, Callable[[ColumnDefinition, TokenReader, LongNames], ColumnDefinition]]] = {
    "NOT": _read_not_null,
    "NULL": lambda column, _reader, _names: column,
    "DEFAULT": _read_default,
    "ENCODE": lambda column, reader, _names: replace(column, encoding=read_encoding(reader)),
    "DISTKEY": lambda column, _reader, _names: replace(column, distkey=True),
    "SORTKEY": lambda column, _reader, _names: replace(column, sortkey=True),
    "UNIQUE": lambda column, _reader, _names: replace(column, key="u"),
    "PRIMARY": _read_primary,
    "REFERENCES": _read_references,
    "IDENTITY": lambda column, reader, _names: _add_identity(column, reader, by_default=False),
    "GENERATED": _read_generated,
    "COLLATE": _read_collate,
    "CHECK": _refuse_check,
}


def read_layout(reader: TokenReader) -> TableLayout:
    """Read the words after the columns, up to the end or to AS."""
    layout = TableLayout()
    while not reader.is_done and not reader.is_next("AS"):
        if reader.accept("BACKUP"):
            if not reader.accept("YES"):
                reader.expect("NO")
        elif reader.accept("DISTSTYLE"):
            layout.diststyle = _read_diststyle(reader)
        elif reader.accept("DISTKEY"):
            layout.distkey = _read_single_name(reader)
        elif reader.accept("ENCODE"):
            reader.expect("AUTO")
            layout.encode_auto = True
        else:
            _read_sort_order(reader, layout)
    if layout.diststyle == "KEY" and layout.distkey is None:
        raise Refusal("42601", "DISTKEY column must be specified for DISTSTYLE KEY")
    if layout.distkey and layout.diststyle not in {"", "KEY"}:
        raise Refusal("42601", f"Cannot specify DISTKEY column for DISTSTYLE {layout.diststyle}")
    return layout


def _read_diststyle(reader: TokenReader) -> str:
    token = reader.next()
    if not token.is_word("AUTO", "EVEN", "KEY", "ALL"):
        raise syntax_error(token.raw)
    return token.text


def _read_single_name(reader: TokenReader) -> str:
    listed = reader.read_names()
    if len(listed) != 1:
        raise syntax_error(listed[1])
    return listed[0]


def _read_sort_order(reader: TokenReader, layout: TableLayout) -> None:
    interleaved = reader.accept("INTERLEAVED")
    if not interleaved:
        reader.accept("COMPOUND")
    reader.expect("SORTKEY")
    if reader.accept("AUTO"):
        layout.sort_auto = True
        return
    layout.sortkeys = reader.read_names()
    most = MAX_INTERLEAVED_COLUMNS if interleaved else MAX_SORT_COLUMNS
    if len(layout.sortkeys) > most:
        raise Refusal("54011", f"a sort key can have at most {most} columns")
