"""ALTER TABLE and DROP, with the conditions of each form."""

from collections.abc import Callable
from typing import Final

from syncd.sandbox.redshift.backend import quote_array, quote_literal
from syncd.sandbox.redshift.refusal import NOT_SUPPORTED, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.create import declare_key
from syncd.sandbox.redshift.sql.plan import StatementContext, StatementPlan
from syncd.sandbox.redshift.sql.sql_types import SqlType, read_type
from syncd.sandbox.redshift.sql.statement_editor import postgres_name
from syncd.sandbox.redshift.sql.table_definition import ColumnDefinition, read_column, read_encoding, skip_reference
from syncd.sandbox.redshift.sql.tokens import LongNames, TokenReader


def plan_drop(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("DROP")
    kind = reader.next()
    if not kind.is_word("TABLE", "VIEW", "SCHEMA"):
        raise not_supported(f'SQL command "{reader.sql.strip()}" not supported.')
    missing = "IF EXISTS " if reader.accept("IF", "EXISTS") else ""
    listed = [reader.read_relation()]
    while reader.accept_mark(","):
        listed.append(reader.read_relation())
    how = " CASCADE" if reader.accept("CASCADE") else ""
    reader.accept("RESTRICT")
    reader.expect_end()
    return StatementPlan(sql=f"DROP {kind.text} {missing}{', '.join(postgres_name(n, names) for n in listed)}{how}")


def plan_alter(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("ALTER")
    if not reader.accept("TABLE"):
        raise not_in_stand_in("ALTER " + reader.next().text)
    table = reader.read_relation()
    for words, plan_form in ALTER_FORMS:
        if reader.accept(*words):
            plan = plan_form(reader, names, postgres_name(table, names))
            reader.expect_end()
            return plan
    raise reader.unexpected_token_error()


def _add_column(reader: TokenReader, names: LongNames, table: str) -> StatementPlan:
    if reader.is_next("IF"):
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
    return StatementPlan(program=lambda context: _run_add_column(context, table, column))


def _run_add_column(context: StatementContext, table: str, column: ColumnDefinition) -> str:
    name = postgres_name([column.name], context.names)
    default = f" DEFAULT {column.default}" if column.default else ""
    null = " NOT NULL" if column.not_null else ""
    context.run(f"ALTER TABLE {table} ADD COLUMN {name} {column.type}{default}{null}")
    _set_encoding(context, table, column.name, column.effective_encoding(temporary=False))
    return "ALTER TABLE"


def _set_encoding(context: StatementContext, table: str, column: str, encoding: str) -> None:
    context.run(
        f"SELECT pg_catalog.redshift_describe({quote_literal(table)}, coalesce(t.diststyle, 'AUTO(EVEN)'), t.distkey,"
        f" coalesce(t.sortkeys, ARRAY[]::text[]), coalesce(t.encoded, 'auto'),"
        f" {quote_array([context.names.to_postgres(column)])}, {quote_array([encoding])})"
        f" FROM pg_catalog.redshift_table({quote_literal(table)}::regclass) t"
    )


def _drop_column(reader: TokenReader, names: LongNames, table: str) -> StatementPlan:
    column = names.to_postgres(reader.read_name())
    how = " CASCADE" if reader.accept("CASCADE") else ""
    reader.accept("RESTRICT")

    def run(context: StatementContext) -> str:
        keyed = context.run(
            "SELECT CASE WHEN t.distkey = {0} THEN 'distkey' WHEN {0} = ANY (t.sortkeys) THEN 'sortkey' END"
            " FROM pg_catalog.redshift_table({1}::regclass) t".format(quote_literal(column), quote_literal(table))
        )
        if keyed and keyed[0][0]:
            raise not_supported(f'cannot drop {keyed[0][0]} column "{column}"')
        count = "SELECT count(*) FROM pg_attribute WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped"
        if context.fetch_value(count.format(quote_literal(table))) == "1":
            raise not_supported("cannot drop the only column of a table")
        context.run(f"ALTER TABLE {table} DROP COLUMN {postgres_name([column], names)}{how}")
        return "ALTER TABLE"

    return StatementPlan(program=run)


def _rename_column(reader: TokenReader, names: LongNames, table: str) -> StatementPlan:
    before = names.to_postgres(reader.read_name())
    reader.expect("TO")
    after = names.to_postgres(reader.read_name())

    def run(context: StatementContext) -> str:
        old, new = postgres_name([before], names), postgres_name([after], names)
        context.run(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
        arguments = ", ".join(quote_literal(text) for text in (table, before, after))
        context.run(f"SELECT pg_catalog.redshift_rename_column({arguments})")
        return "ALTER TABLE"

    return StatementPlan(program=run)


def _plan_renaming(clause: str) -> Callable[[TokenReader, LongNames, str], StatementPlan]:
    return lambda reader, names, table: StatementPlan(
        sql=f"ALTER TABLE {table} {clause} {postgres_name([reader.read_name()], names)}"
    )


def _alter_column(reader: TokenReader, names: LongNames, table: str) -> StatementPlan:
    column = names.to_postgres(reader.read_name())
    if reader.accept("ENCODE"):
        encoding = read_encoding(reader)
        return _plan_catalog_change(table, lambda context: _set_encoding(context, table, column, encoding))
    reader.expect("TYPE")
    kind = read_type(reader)
    return StatementPlan(
        program=lambda context: _widen_column(context, table, column, kind),
        outside_block="ALTER TABLE ALTER COLUMN",
    )


def _widen_column(context: StatementContext, table: str, column: str, kind: SqlType) -> str:
    arguments = f"{quote_literal(table)}, {quote_literal(column)}, {kind.width}"
    reason = context.fetch_value(f"SELECT pg_catalog.redshift_why_not_widen({arguments})")
    if kind.name != "VARCHAR":
        reason = "target data type is not supported"
    if reason is not None:
        raise not_supported(f'cannot alter column "{column}" of relation "{table.strip(chr(34))}", {reason}')
    context.run(f"ALTER TABLE {table} ALTER COLUMN {postgres_name([column], context.names)} TYPE {kind}")
    return "ALTER TABLE"


def _plan_catalog_change(table: str, change: Callable[[StatementContext], None]) -> StatementPlan:
    def run(context: StatementContext) -> str:
        context.run(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        change(context)
        return "ALTER TABLE"

    return StatementPlan(program=run)


def _add_key(kind: str) -> Callable[[TokenReader, LongNames, str], StatementPlan]:
    def plan_form(reader: TokenReader, names: LongNames, table: str) -> StatementPlan:
        columns = [names.to_postgres(n) for n in reader.read_names()]
        if kind == "f":
            reader.expect("REFERENCES")
            skip_reference(reader)
        return _plan_catalog_change(table, lambda context: _check_and_declare_key(context, table, kind, columns))

    return plan_form


def _check_and_declare_key(context: StatementContext, table: str, kind: str, columns: list[str]) -> None:
    nullable = context.fetch_value(
        f"SELECT attname FROM pg_attribute WHERE attrelid = {quote_literal(table)}::regclass"
        f" AND attname = ANY ({quote_array(columns)}) AND NOT attnotnull"
    )
    if kind == "p" and nullable is not None:
        raise not_supported(f'PRIMARY KEY needs NOT NULL columns, and "{nullable}" is nullable')
    declare_key(context, table, kind, columns)


def _add_constraint(reader: TokenReader, names: LongNames, table: str) -> StatementPlan:
    reader.read_name()
    for words, kind in ((("PRIMARY", "KEY"), "p"), (("UNIQUE",), "u"), (("FOREIGN", "KEY"), "f")):
        if reader.accept(*words):
            return _add_key(kind)(reader, names, table)
    raise reader.unexpected_token_error()


def _refuse_append(reader: TokenReader, _: LongNames, _table: str) -> StatementPlan:
    reader.expect("FROM")
    reader.read_relation()
    for word in ("IGNOREEXTRA", "FILLTARGET"):
        reader.accept(word)

    def run(_context: StatementContext) -> str:
        raise not_in_stand_in("ALTER TABLE APPEND")

    return StatementPlan(program=run, outside_block="ALTER TABLE APPEND")


def _refuse_form(form: str) -> Callable[[TokenReader, LongNames, str], StatementPlan]:
    def plan_form(_reader: TokenReader, _names: LongNames, _table: str) -> StatementPlan:
        raise not_in_stand_in(form)

    return plan_form


ALTER_FORMS: Final[tuple[tuple[tuple[str, ...], Callable[[TokenReader, LongNames, str], StatementPlan]], ...]] = (
    (("ADD", "CONSTRAINT"), _add_constraint),
    (("ADD", "PRIMARY", "KEY"), _add_key("p")),
    (("ADD", "UNIQUE"), _add_key("u")),
    (("ADD", "FOREIGN", "KEY"), _add_key("f")),
    (("ADD", "COLUMN"), _add_column),
    (("ADD",), _add_column),
    (("DROP", "CONSTRAINT"), _refuse_form("DROP CONSTRAINT")),
    (("DROP", "COLUMN"), _drop_column),
    (("DROP",), _drop_column),
    (("RENAME", "TO"), _plan_renaming("RENAME TO")),
    (("RENAME", "COLUMN"), _rename_column),
    (("OWNER", "TO"), _plan_renaming("OWNER TO")),
    (("ALTER", "COLUMN"), _alter_column),
    (("ALTER", "DISTKEY"), _refuse_form("ALTER DISTKEY")),
    (("ALTER", "DISTSTYLE"), _refuse_form("ALTER DISTSTYLE")),
    (("ALTER", "COMPOUND"), _refuse_form("ALTER SORTKEY")),
    (("ALTER", "SORTKEY"), _refuse_form("ALTER SORTKEY")),
    (("ALTER", "ENCODE"), _refuse_form("ALTER ENCODE")),
    (("APPEND",), _refuse_append),
)
