"""ALTER TABLE and DROP: one change a statement, and the conditions each has."""

from collections.abc import Callable
from typing import Final

from syncd.sandbox.redshift.backend import literal, literals
from syncd.sandbox.redshift.refusal import NOT_SUPPORTED, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.create import declare_key
from syncd.sandbox.redshift.sql.identifiers import LongNames
from syncd.sandbox.redshift.sql.plan import Plan
from syncd.sandbox.redshift.sql.sql_types import SqlType, read_type
from syncd.sandbox.redshift.sql.statement_editor import name_behind
from syncd.sandbox.redshift.sql.table_definition import Column, read_column, read_encoding, skip_reference
from syncd.sandbox.redshift.sql.tokens import Reader
from syncd.sandbox.redshift.statement_context import Desk


def plan_drop(reader: Reader, names: LongNames) -> Plan:
    reader.expect("DROP")
    kind = reader.next()
    if not kind.is_word("TABLE", "VIEW", "SCHEMA"):
        raise not_supported(f'SQL command "{reader.sql.strip()}" not supported.')
    missing = "IF EXISTS " if reader.takes("IF", "EXISTS") else ""
    listed = [reader.relation()]
    while reader.takes_mark(","):
        listed.append(reader.relation())
    how = " CASCADE" if reader.takes("CASCADE") else ""
    reader.takes("RESTRICT")
    reader.expect_end()
    return Plan(sql=f"DROP {kind.text} {missing}{', '.join(name_behind(n, names) for n in listed)}{how}")


def plan_alter(reader: Reader, names: LongNames) -> Plan:
    reader.expect("ALTER")
    if not reader.takes("TABLE"):
        raise not_in_stand_in("ALTER " + reader.next().text)
    table = reader.relation()
    for words, understand in FORMS:
        if reader.takes(*words):
            plan = understand(reader, names, name_behind(table, names))
            reader.expect_end()
            return plan
    raise reader.unexpected()


def _add_column(reader: Reader, names: LongNames, table: str) -> Plan:
    if reader.sees("IF"):
        raise syntax_error("IF")
    column = read_column(reader, names)
    if column.key or column.distkey or column.sortkey:
        raise not_supported("ADD COLUMN takes no UNIQUE, PRIMARY KEY, REFERENCES, DISTKEY or SORTKEY")
    if column.identity is not None:
        raise not_supported("ADD COLUMN with IDENTITY is not supported")
    if column.not_null and (not column.default or column.default.upper() == "NULL"):
        raise Refusal(
            NOT_SUPPORTED, "ALTER TABLE ADD COLUMN defined as NOT NULL must have a non-null default expression"
        )
    return Plan(program=lambda desk: _carry_out_add(desk, table, column))


def _carry_out_add(desk: Desk, table: str, column: Column) -> str:
    name = name_behind([column.name], desk.names)
    default = f" DEFAULT {column.default}" if column.default else ""
    null = " NOT NULL" if column.not_null else ""
    desk.run(f"ALTER TABLE {table} ADD COLUMN {name} {column.type}{default}{null}")
    _encode(desk, table, column.name, column.encoded(temporary=False))
    return "ALTER TABLE"


def _encode(desk: Desk, table: str, column: str, encoding: str) -> None:
    desk.run(
        f"SELECT pg_catalog.redshift_describe({literal(table)}, coalesce(t.diststyle, 'AUTO(EVEN)'), t.distkey,"
        f" coalesce(t.sortkeys, ARRAY[]::text[]), coalesce(t.encoded, 'auto'),"
        f" {literals([desk.names.behind(column)])}, {literals([encoding])})"
        f" FROM pg_catalog.redshift_table({literal(table)}::regclass) t"
    )


def _drop_column(reader: Reader, names: LongNames, table: str) -> Plan:
    column = names.behind(reader.name())
    how = " CASCADE" if reader.takes("CASCADE") else ""
    reader.takes("RESTRICT")

    def run(desk: Desk) -> str:
        keyed = desk.run(
            "SELECT CASE WHEN t.distkey = {0} THEN 'distkey' WHEN {0} = ANY (t.sortkeys) THEN 'sortkey' END"
            " FROM pg_catalog.redshift_table({1}::regclass) t".format(literal(column), literal(table))
        )
        if keyed and keyed[0][0]:
            raise not_supported(f'cannot drop {keyed[0][0]} column "{column}"')
        count = "SELECT count(*) FROM pg_attribute WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped"
        if desk.value(count.format(literal(table))) == "1":
            raise not_supported("cannot drop the only column of a table")
        desk.run(f"ALTER TABLE {table} DROP COLUMN {name_behind([column], names)}{how}")
        return "ALTER TABLE"

    return Plan(program=run)


def _rename_column(reader: Reader, names: LongNames, table: str) -> Plan:
    before = names.behind(reader.name())
    reader.expect("TO")
    after = names.behind(reader.name())

    def run(desk: Desk) -> str:
        old, new = name_behind([before], names), name_behind([after], names)
        desk.run(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
        words = ", ".join(literal(w) for w in (table, before, after))
        desk.run(f"SELECT pg_catalog.redshift_rename_column({words})")
        return "ALTER TABLE"

    return Plan(program=run)


def _rename(reader: Reader, names: LongNames, table: str) -> Plan:
    return Plan(sql=f"ALTER TABLE {table} RENAME TO {name_behind([reader.name()], names)}")


def _owner(reader: Reader, names: LongNames, table: str) -> Plan:
    return Plan(sql=f"ALTER TABLE {table} OWNER TO {name_behind([reader.name()], names)}")


def _alter_column(reader: Reader, names: LongNames, table: str) -> Plan:
    column = names.behind(reader.name())
    if reader.takes("ENCODE"):
        encoding = read_encoding(reader)
        return _described(table, lambda desk: _encode(desk, table, column, encoding))
    reader.expect("TYPE")
    kind = read_type(reader)
    return Plan(
        program=lambda desk: _widen(desk, table, column, kind),
        outside_block="ALTER TABLE ALTER COLUMN",
    )


def _widen(desk: Desk, table: str, column: str, kind: SqlType) -> str:
    words = f"{literal(table)}, {literal(column)}, {kind.width}"
    why = desk.value(f"SELECT pg_catalog.redshift_why_not_widen({words})")
    if kind.name != "VARCHAR":
        why = "target data type is not supported"
    if why is not None:
        raise not_supported(f'cannot alter column "{column}" of relation "{table.strip(chr(34))}", {why}')
    desk.run(f"ALTER TABLE {table} ALTER COLUMN {name_behind([column], desk.names)} TYPE {kind}")
    return "ALTER TABLE"


def _described(table: str, note: Callable[[Desk], None]) -> Plan:
    def run(desk: Desk) -> str:
        desk.run(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        note(desk)
        return "ALTER TABLE"

    return Plan(program=run)


def _add_key(kind: str) -> Callable[[Reader, LongNames, str], Plan]:
    def understand(reader: Reader, names: LongNames, table: str) -> Plan:
        columns = [names.behind(n) for n in reader.names()]
        if kind == "f":
            reader.expect("REFERENCES")
            skip_reference(reader)
        return _described(table, lambda desk: _declare(desk, table, kind, columns))

    return understand


def _declare(desk: Desk, table: str, kind: str, columns: list[str]) -> None:
    nullable = desk.value(
        f"SELECT attname FROM pg_attribute WHERE attrelid = {literal(table)}::regclass"
        f" AND attname = ANY ({literals(columns)}) AND NOT attnotnull"
    )
    if kind == "p" and nullable is not None:
        raise not_supported(f'PRIMARY KEY needs NOT NULL columns, and "{nullable}" is nullable')
    declare_key(desk, table, kind, columns)


def _add_constraint(reader: Reader, names: LongNames, table: str) -> Plan:
    reader.name()
    for words, kind in ((("PRIMARY", "KEY"), "p"), (("UNIQUE",), "u"), (("FOREIGN", "KEY"), "f")):
        if reader.takes(*words):
            return _add_key(kind)(reader, names, table)
    raise reader.unexpected()


def _append(reader: Reader, _: LongNames, _table: str) -> Plan:
    reader.expect("FROM")
    reader.relation()
    for word in ("IGNOREEXTRA", "FILLTARGET"):
        reader.takes(word)

    def run(_desk: Desk) -> str:
        raise not_in_stand_in("ALTER TABLE APPEND")

    return Plan(program=run, outside_block="ALTER TABLE APPEND")


def _not_here(what: str) -> Callable[[Reader, LongNames, str], Plan]:
    def understand(_reader: Reader, _names: LongNames, _table: str) -> Plan:
        raise not_in_stand_in(what)

    return understand


FORMS: Final[tuple[tuple[tuple[str, ...], Callable[[Reader, LongNames, str], Plan]], ...]] = (
    (("ADD", "CONSTRAINT"), _add_constraint),
    (("ADD", "PRIMARY", "KEY"), _add_key("p")),
    (("ADD", "UNIQUE"), _add_key("u")),
    (("ADD", "FOREIGN", "KEY"), _add_key("f")),
    (("ADD", "COLUMN"), _add_column),
    (("ADD",), _add_column),
    (("DROP", "CONSTRAINT"), _not_here("DROP CONSTRAINT")),
    (("DROP", "COLUMN"), _drop_column),
    (("DROP",), _drop_column),
    (("RENAME", "TO"), _rename),
    (("RENAME", "COLUMN"), _rename_column),
    (("OWNER", "TO"), _owner),
    (("ALTER", "COLUMN"), _alter_column),
    (("ALTER", "DISTKEY"), _not_here("ALTER DISTKEY")),
    (("ALTER", "DISTSTYLE"), _not_here("ALTER DISTSTYLE")),
    (("ALTER", "COMPOUND"), _not_here("ALTER SORTKEY")),
    (("ALTER", "SORTKEY"), _not_here("ALTER SORTKEY")),
    (("ALTER", "ENCODE"), _not_here("ALTER ENCODE")),
    (("APPEND",), _append),
)
