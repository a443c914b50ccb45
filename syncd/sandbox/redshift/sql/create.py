"""CREATE TABLE, CREATE TABLE AS, CREATE SCHEMA, CREATE VIEW."""

from dataclasses import dataclass, field

from syncd.sandbox.redshift.backend import quote_array, quote_literal
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported
from syncd.sandbox.redshift.sql.plan import StatementContext, StatementPlan
from syncd.sandbox.redshift.sql.queries import check_query
from syncd.sandbox.redshift.sql.statement_editor import StatementRewriter, postgres_name
from syncd.sandbox.redshift.sql.table_definition import (
    ColumnDefinition,
    TableLayout,
    read_column,
    read_layout,
    skip_reference,
)
from syncd.sandbox.redshift.sql.tokens import LongNames, TokenReader

MAX_COLUMNS = 1600


@dataclass(slots=True)
class TableDefinition:
    """A parsed CREATE TABLE statement."""

    name: tuple[str, ...]
    temporary: bool
    if_not_exists: bool
    columns: list[ColumnDefinition] = field(default_factory=list)
    parent: tuple[str, ...] = ()
    with_defaults: bool = False
    keys: list[tuple[str, list[str]]] = field(default_factory=list)
    layout: TableLayout = field(default_factory=TableLayout)

    def distkey(self) -> str | None:
        return self.layout.distkey or next((c.name for c in self.columns if c.distkey), None)

    def sortkeys(self) -> list[str]:
        return self.layout.sortkeys or [c.name for c in self.columns if c.sortkey]

    def all_keys(self) -> list[tuple[str, list[str]]]:
        return [(c.key, [c.name]) for c in self.columns if c.key] + self.keys


def plan_create(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("CREATE")
    if reader.accept("SCHEMA"):
        return _plan_schema(reader, names)
    if reader.is_next("VIEW") or reader.is_next("OR", "REPLACE", "VIEW"):
        return _plan_view(reader, names)
    reader.accept("LOCAL")
    temporary = reader.accept("TEMP") or reader.accept("TEMPORARY")
    if not reader.accept("TABLE"):
        if any(reader.is_next(kind) for kind in ("EXTERNAL", "MATERIALIZED", "DATABASE", "USER")):
            raise not_in_stand_in("CREATE " + reader.next().text)
        raise not_supported(f'SQL command "{reader.sql.strip()}" not supported.')
    return _plan_table(reader, names, temporary=temporary)


def _plan_schema(reader: TokenReader, names: LongNames) -> StatementPlan:
    missing = "IF NOT EXISTS " if reader.accept("IF", "NOT", "EXISTS") else ""
    schema = postgres_name([reader.read_name()], names)
    reader.expect_end()
    return StatementPlan(sql=f"CREATE SCHEMA {missing}{schema}")


def _plan_view(reader: TokenReader, names: LongNames) -> StatementPlan:
    replace = "OR REPLACE " if reader.accept("OR", "REPLACE") else ""
    reader.expect("VIEW")
    view = postgres_name(reader.read_relation(), names)
    columns = (
        f" ({', '.join(postgres_name([c], names) for c in reader.read_names())})" if reader.is_mark_next("(") else ""
    )
    reader.expect("AS")
    if [t.text for t in reader.tokens[-4:]] == ["WITH", "NO", "SCHEMA", "BINDING"]:
        raise not_in_stand_in("WITH NO SCHEMA BINDING")
    return StatementPlan(sql=f"CREATE {replace}VIEW {view}{columns} AS {_rewrite_query(reader, names)[0]}")


def _rewrite_query(reader: TokenReader, names: LongNames) -> tuple[str, tuple[str, ...]]:
    """Rewrite the query that the rest of the statement is; return it with the tables that it reads."""
    touched = check_query(reader.sql[reader.tokens[reader.position].start :] if not reader.is_done else "", names)
    if touched.writes:
        raise reader.unexpected_token_error()
    return StatementRewriter(reader, names).rewrite(), touched.reads


def _plan_table(reader: TokenReader, names: LongNames, *, temporary: bool) -> StatementPlan:
    missing = reader.accept("IF", "NOT", "EXISTS")
    name = reader.read_relation()
    table = TableDefinition(name, temporary or name[-1].startswith("#"), missing)
    if table.temporary and len(name) > 1:
        raise Refusal("42P16", "temporary tables may not specify a schema name")
    if reader.is_next("AS") or not reader.is_mark_next("("):
        table.layout = read_layout(reader)
        return _plan_from_query(reader, names, table)
    reader.expect_mark("(")
    reader.read_list(lambda: _read_element(reader, names, table))
    table.layout = read_layout(reader)
    reader.expect_end()
    _check_definition(table)
    return StatementPlan(program=lambda context: _create_table(context, table))


def _read_element(reader: TokenReader, names: LongNames, table: TableDefinition) -> None:
    if reader.accept("CONSTRAINT"):
        reader.read_name()
    if reader.accept("LIKE"):
        table.parent = reader.read_relation()
        if reader.accept("INCLUDING"):
            table.with_defaults = True
            reader.expect("DEFAULTS")
        elif reader.accept("EXCLUDING"):
            reader.expect("DEFAULTS")
    elif reader.accept("PRIMARY", "KEY"):
        table.keys.append(("p", reader.read_names()))
    elif reader.is_next("UNIQUE"):
        reader.next()
        table.keys.append(("u", reader.read_names()))
    elif reader.accept("FOREIGN", "KEY"):
        table.keys.append(("f", reader.read_names()))
        reader.expect("REFERENCES")
        skip_reference(reader)
    elif reader.is_next("CHECK") or reader.is_next("EXCLUDE"):
        raise not_supported(f"{reader.next().text} constraints are not supported")
    else:
        table.columns.append(read_column(reader, names))


def _check_definition(table: TableDefinition) -> None:
    if len(table.columns) > MAX_COLUMNS:
        raise Refusal("54011", f"tables can have at most {MAX_COLUMNS} columns")
    if table.parent and table.layout.is_given:
        raise not_supported("LIKE and DISTSTYLE, DISTKEY or SORTKEY cannot stand in one statement")
    if table.parent and table.columns:
        raise not_in_stand_in("LIKE beside other columns")
    known = {c.name for c in table.columns}
    for name in [*table.sortkeys(), *filter(None, [table.distkey()]), *(n for _, key in table.keys for n in key)]:
        if not table.parent and name not in known:
            raise Refusal("42703", f'column "{name}" named in key does not exist')
    if sum(kind == "p" for kind, _ in table.all_keys()) > 1:
        name = table.name[-1]
        raise Refusal("42P16", f'multiple primary keys for table "{name}" are not allowed')


def _create_table(context: StatementContext, table: TableDefinition) -> str:
    name = postgres_name(table.name, context.names)
    if table.if_not_exists and context.fetch_value(f"SELECT to_regclass({quote_literal(name)})") is not None:
        context.notices.append(f'Relation "{table.name[-1]}" already exists and will be skipped')
        return "CREATE TABLE"
    head = f"CREATE {'TEMPORARY ' if table.temporary else ''}TABLE {name}"
    if table.parent:
        parent = postgres_name(table.parent, context.names)
        defaults = " INCLUDING DEFAULTS" if table.with_defaults else ""
        context.run(f"{head} (LIKE {parent}{defaults})")
        temporary = str(table.temporary).lower()
        context.run(
            f"SELECT pg_catalog.redshift_describe_like({quote_literal(name)}, {quote_literal(parent)}, {temporary})"
        )
    else:
        primary = {n for kind, key in table.all_keys() if kind == "p" for n in key}
        columns = [_column_sql(c, context.names, not_null=c.not_null or c.name in primary) for c in table.columns]
        context.run(f"{head} ({', '.join(columns)})")
        _record_layout(context, name, table)
    return "CREATE TABLE"


def _column_sql(column: ColumnDefinition, names: LongNames, *, not_null: bool) -> str:
    words = [postgres_name([column.name], names), str(column.type)]
    if column.identity is not None:
        how = "BY DEFAULT" if column.identity.by_default else "ALWAYS"
        numbers = f"START WITH {column.identity.seed} INCREMENT BY {column.identity.step}"
        words.append(f"GENERATED {how} AS IDENTITY ({numbers})")
    elif not_null:
        words.append("NOT NULL")
    if column.default:
        words.append(f"DEFAULT {column.default}")
    return " ".join(words)


def _record_layout(context: StatementContext, name: str, table: TableDefinition) -> None:
    def shorts(listed: list[str]) -> list[str]:
        return [context.names.to_postgres(n) for n in listed]

    distkey = table.distkey()
    encoded = "auto" if table.layout.encode_auto or not any(c.encoding for c in table.columns) else "manual"
    arguments = [
        quote_literal(name),
        quote_literal(f"KEY({distkey})" if distkey else table.layout.distribution_text),
        "NULL" if distkey is None else quote_literal(context.names.to_postgres(distkey)),
        quote_array(shorts(table.sortkeys())),
        quote_literal(encoded),
        quote_array(shorts([c.name for c in table.columns])),
        quote_array(
            [
                c.effective_encoding(temporary=table.temporary, sorted_by=c.name in table.sortkeys())
                for c in table.columns
            ]
        ),
    ]
    context.run(f"SELECT pg_catalog.redshift_describe({', '.join(arguments)})")
    for kind, key in table.all_keys():
        declare_key(context, name, kind, shorts(key))


def declare_key(context: StatementContext, table: str, kind: str, columns: list[str]) -> None:
    """Record a key; nothing enforces it (fact 11.8)."""
    context.run(
        f"SELECT pg_catalog.redshift_declare_key({quote_literal(table)}, {quote_literal(kind)}, {quote_array(columns)})"
    )


def _plan_from_query(reader: TokenReader, names: LongNames, table: TableDefinition) -> StatementPlan:
    reader.expect("AS")
    if reader.is_mark_next("("):
        raise not_in_stand_in("CREATE TABLE AS with its query in parentheses")
    sql, reads = _rewrite_query(reader, names)
    name = postgres_name(table.name, names)

    def run(context: StatementContext) -> str:
        context.acquire_locks(reads=reads)
        context.run(f"CREATE {'TEMPORARY ' if table.temporary else ''}TABLE {name} AS {sql}")
        _refuse_unsized(context, name)
        table.columns = []
        _record_layout(context, name, table)
        return "SELECT"

    return StatementPlan(program=run)


def _refuse_unsized(context: StatementContext, table: str) -> None:
    """Refuse columns whose width Redshift derives from the expression: the stand-in does not guess it."""
    unsized = context.fetch_value(
        f"SELECT attname FROM pg_attribute WHERE attrelid = {quote_literal(table)}::regclass AND attnum > 0 AND"
        " (atttypid = 'text'::regtype OR (atttypmod < 0 AND atttypid IN ('varchar'::regtype, 'numeric'::regtype)))"
    )
    if unsized is not None:
        raise not_in_stand_in(f'the width of column "{unsized}" in CREATE TABLE AS: give it a CAST; else it')
