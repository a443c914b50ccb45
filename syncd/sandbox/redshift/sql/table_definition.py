"""What CREATE TABLE says: columns with their attributes, keys, distribution, order, encoding."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.identifiers import SYSTEM_COLUMNS, LongNames
from syncd.sandbox.redshift.sql.sql_types import SqlType, read_type
from syncd.sandbox.redshift.sql.statement_editor import Editor
from syncd.sandbox.redshift.sql.tokens import Reader

ENCODINGS: Final = frozenset(
    """
    RAW AZ64 BYTEDICT DELTA DELTA32K LZO MOSTLY8 MOSTLY16 MOSTLY32 RUNLENGTH TEXT255 TEXT32K ZSTD
    """.split()
)
ATTRIBUTES: Final = frozenset(
    """
    NOT NULL ENCODE DISTKEY SORTKEY UNIQUE PRIMARY REFERENCES IDENTITY GENERATED COLLATE CHECK CONSTRAINT
    DEFAULT
    """.split()
)
MOST_SORT_COLUMNS: Final = 400
MOST_INTERLEAVED: Final = 8


@dataclass(frozen=True, slots=True)
class Identity:
    seed: int
    step: int
    by_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column as declared."""

    name: str
    type: SqlType
    not_null: bool = False
    default: str = ""
    identity: Identity | None = None
    encoding: str = ""
    distkey: bool = False
    sortkey: bool = False
    key: str = ""

    def encoded(self, *, temporary: bool, sorted_by: bool = False) -> str:
        """The encoding it gets (fact 4): the declared one, or Redshift's choice."""
        if self.encoding:
            return "none" if self.encoding == "raw" else self.encoding
        if temporary or self.sortkey or sorted_by or self.type.name in {"BOOLEAN", "REAL", "DOUBLE PRECISION"}:
            return "none"
        if self.type.name in {"CHAR", "VARCHAR", "VARBYTE"}:
            return "lzo"
        return "zstd" if self.type.name == "SUPER" else "az64"


@dataclass(slots=True)
class Layout:
    """How a table is distributed and sorted."""

    diststyle: str = ""
    distkey: str | None = None
    sortkeys: list[str] = field(default_factory=list)
    sort_auto: bool = False
    encode_auto: bool = False

    @property
    def given(self) -> bool:
        return bool(self.diststyle or self.distkey or self.sortkeys or self.sort_auto)

    @property
    def described(self) -> str:
        """The words of SVV_TABLE_INFO."""
        if self.distkey:
            return f"KEY({self.distkey})"
        return self.diststyle or "AUTO(EVEN)"


def read_column(reader: Reader, names: LongNames) -> Column:
    name = reader.name()
    if name in SYSTEM_COLUMNS:
        raise Refusal("42701", f'column name "{name}" conflicts with a system column name')
    column = Column(name=name, type=read_type(reader))
    while (token := reader.peek()) is not None and not token.is_mark(",", ")"):
        read = COLUMN_ATTRIBUTES.get(token.text)
        if read is None:
            raise syntax_error(token.raw)
        reader.next()
        column = read(column, reader, names)
    if column.type.name == "SUPER" and (column.distkey or column.sortkey):
        raise not_supported(f'SUPER column "{column.name}" cannot be a distribution or sort key')
    return column


def _not_null(column: Column, reader: Reader, _: LongNames) -> Column:
    reader.expect("NULL")
    return replace(column, not_null=True)


def _null(column: Column, _reader: Reader, _names: LongNames) -> Column:
    return column


def _default(column: Column, reader: Reader, names: LongNames) -> Column:
    start = reader.at
    reader.skip_balanced()
    while (token := reader.peek()) is not None and not (token.is_mark(",", ")") or token.is_word(*ATTRIBUTES)):
        reader.skip_balanced()
    sql = reader.text_between(start, reader.at)
    if reader.tokens[start].is_word("SELECT") or "SELECT" in (t.text for t in reader.tokens[start : reader.at]):
        raise not_supported("cannot use subquery in DEFAULT expression")
    return replace(
        column, default=Editor(Reader(reader.tokens[start : reader.at], reader.sql), names).edit() if sql else ""
    )


def _encode(column: Column, reader: Reader, _: LongNames) -> Column:
    return replace(column, encoding=read_encoding(reader))


def read_encoding(reader: Reader) -> str:
    token = reader.next()
    if token.text not in ENCODINGS:
        raise Refusal("42704", f'unknown encoding "{token.raw}"')
    return token.text.lower()


def _distkey(column: Column, _reader: Reader, _names: LongNames) -> Column:
    return replace(column, distkey=True)


def _sortkey(column: Column, _reader: Reader, _names: LongNames) -> Column:
    return replace(column, sortkey=True)


def _unique(column: Column, _reader: Reader, _names: LongNames) -> Column:
    return replace(column, key="u")


def _primary(column: Column, reader: Reader, _: LongNames) -> Column:
    reader.expect("KEY")
    return replace(column, key="p", not_null=True)


def _references(column: Column, reader: Reader, _: LongNames) -> Column:
    skip_reference(reader)
    return replace(column, key=column.key or "f")


def skip_reference(reader: Reader) -> None:
    reader.relation()
    if reader.sees_mark("("):
        reader.names()


def _identity(column: Column, reader: Reader, _: LongNames) -> Column:
    return _with_identity(column, reader, by_default=False)


def _generated(column: Column, reader: Reader, _: LongNames) -> Column:
    reader.expect("BY", "DEFAULT", "AS", "IDENTITY")
    return _with_identity(column, reader, by_default=True)


def _with_identity(column: Column, reader: Reader, *, by_default: bool) -> Column:
    if column.type.name not in {"INTEGER", "BIGINT"}:
        raise not_supported("identity column type must be INT or BIGINT")
    reader.expect_mark("(")
    seed = reader.number()
    reader.expect_mark(",")
    step = reader.number()
    reader.expect_mark(")")
    return replace(column, identity=Identity(seed, step, by_default), not_null=True)


def _collate(column: Column, reader: Reader, _: LongNames) -> Column:
    if not reader.takes("CASE_SENSITIVE"):
        raise not_in_stand_in("COLLATE other than CASE_SENSITIVE")
    return column


def _check(_column: Column, _reader: Reader, _names: LongNames) -> Column:
    raise not_supported("CHECK constraints are not supported")


COLUMN_ATTRIBUTES: Final[dict[str, Callable[[Column, Reader, LongNames], Column]]] = {
    "NOT": _not_null,
    "NULL": _null,
    "DEFAULT": _default,
    "ENCODE": _encode,
    "DISTKEY": _distkey,
    "SORTKEY": _sortkey,
    "UNIQUE": _unique,
    "PRIMARY": _primary,
    "REFERENCES": _references,
    "IDENTITY": _identity,
    "GENERATED": _generated,
    "COLLATE": _collate,
    "CHECK": _check,
}


def read_layout(reader: Reader) -> Layout:
    """The words after the columns, up to the end or to AS."""
    layout = Layout()
    while not reader.done and not reader.sees("AS"):
        if reader.takes("BACKUP"):
            if not reader.takes("YES"):
                reader.expect("NO")
        elif reader.takes("DISTSTYLE"):
            layout.diststyle = _style(reader)
        elif reader.takes("DISTKEY"):
            layout.distkey = _one_name(reader)
        elif reader.takes("ENCODE"):
            reader.expect("AUTO")
            layout.encode_auto = True
        else:
            _sort_order(reader, layout)
    if layout.diststyle == "KEY" and layout.distkey is None:
        raise Refusal("42601", "DISTKEY column must be specified for DISTSTYLE KEY")
    if layout.distkey and layout.diststyle not in {"", "KEY"}:
        raise Refusal("42601", f"Cannot specify DISTKEY column for DISTSTYLE {layout.diststyle}")
    return layout


def _style(reader: Reader) -> str:
    token = reader.next()
    if not token.is_word("AUTO", "EVEN", "KEY", "ALL"):
        raise syntax_error(token.raw)
    return token.text


def _one_name(reader: Reader) -> str:
    listed = reader.names()
    if len(listed) != 1:
        raise syntax_error(listed[1])
    return listed[0]


def _sort_order(reader: Reader, layout: Layout) -> None:
    interleaved = reader.takes("INTERLEAVED")
    if not interleaved:
        reader.takes("COMPOUND")
    reader.expect("SORTKEY")
    if reader.takes("AUTO"):
        layout.sort_auto = True
        return
    layout.sortkeys = reader.names()
    most = MOST_INTERLEAVED if interleaved else MOST_SORT_COLUMNS
    if len(layout.sortkeys) > most:
        raise Refusal("54011", f"a sort key can have at most {most} columns")
