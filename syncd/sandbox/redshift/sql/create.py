"""CREATE TABLE, CREATE TABLE AS, CREATE SCHEMA, CREATE VIEW."""

from dataclasses import dataclass, field

from syncd.sandbox.redshift.backend import literal, literals
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported
from syncd.sandbox.redshift.sql.identifiers import LongNames
from syncd.sandbox.redshift.sql.plan import Plan
from syncd.sandbox.redshift.sql.queries import checked
from syncd.sandbox.redshift.sql.statement_editor import Editor, name_behind
from syncd.sandbox.redshift.sql.table_definition import Column, Layout, read_column, read_layout, skip_reference
from syncd.sandbox.redshift.sql.tokens import Reader
from syncd.sandbox.redshift.statement_context import Desk

MOST_COLUMNS = 1600


@dataclass(slots=True)
class TableDefinition:
    """A CREATE TABLE statement, read."""

    name: tuple[str, ...]
    temporary: bool
    if_not_exists: bool
    columns: list[Column] = field(default_factory=list)
    parent: tuple[str, ...] = ()
    with_defaults: bool = False
    keys: list[tuple[str, list[str]]] = field(default_factory=list)
    layout: Layout = field(default_factory=Layout)

    def distkey(self) -> str | None:
        named = [c.name for c in self.columns if c.distkey]
        return self.layout.distkey or (named[0] if named else None)

    def sortkeys(self) -> list[str]:
        return self.layout.sortkeys or [c.name for c in self.columns if c.sortkey]

    def all_keys(self) -> list[tuple[str, list[str]]]:
        return [(c.key, [c.name]) for c in self.columns if c.key] + self.keys


def plan_create(reader: Reader, names: LongNames) -> Plan:
    reader.expect("CREATE")
    if reader.takes("SCHEMA"):
        return _plan_schema(reader, names)
    if reader.sees("VIEW") or reader.sees("OR", "REPLACE", "VIEW"):
        return _plan_view(reader, names)
    reader.takes("LOCAL")
    temporary = reader.takes("TEMP") or reader.takes("TEMPORARY")
    if not reader.takes("TABLE"):
        if reader.sees("EXTERNAL") or reader.sees("MATERIALIZED") or reader.sees("DATABASE") or reader.sees("USER"):
            raise not_in_stand_in("CREATE " + reader.next().text)
        raise not_supported(f'SQL command "{reader.sql.strip()}" not supported.')
    return _plan_table(reader, names, temporary=temporary)


def _plan_schema(reader: Reader, names: LongNames) -> Plan:
    missing = "IF NOT EXISTS " if reader.takes("IF", "NOT", "EXISTS") else ""
    schema = name_behind([reader.name()], names)
    reader.expect_end()
    return Plan(sql=f"CREATE SCHEMA {missing}{schema}")


def _plan_view(reader: Reader, names: LongNames) -> Plan:
    replace = "OR REPLACE " if reader.takes("OR", "REPLACE") else ""
    reader.expect("VIEW")
    view = name_behind(reader.relation(), names)
    columns = f" ({', '.join(name_behind([c], names) for c in reader.names())})" if reader.sees_mark("(") else ""
    reader.expect("AS")
    if [t.text for t in reader.tokens[-4:]] == ["WITH", "NO", "SCHEMA", "BINDING"]:
        raise not_in_stand_in("WITH NO SCHEMA BINDING")
    return Plan(sql=f"CREATE {replace}VIEW {view}{columns} AS {_select(reader, names)[0]}")


def _select(reader: Reader, names: LongNames) -> tuple[str, tuple[str, ...]]:
    """The query that the rest of the statement is, rewritten, and the tables it reads."""
    touched = checked(reader.sql[reader.tokens[reader.at].start :] if not reader.done else "", names)
    if touched.writes:
        raise reader.unexpected()
    return Editor(reader, names).edit(), touched.reads


def _plan_table(reader: Reader, names: LongNames, *, temporary: bool) -> Plan:
    missing = reader.takes("IF", "NOT", "EXISTS")
    name = reader.relation()
    table = TableDefinition(name, temporary or name[-1].startswith("#"), missing)
    if table.temporary and len(name) > 1:
        raise Refusal("42P16", "temporary tables may not specify a schema name")
    if reader.sees("AS") or not reader.sees_mark("("):
        table.layout = read_layout(reader)
        return _plan_from_query(reader, names, table)
    reader.expect_mark("(")
    reader.listed(lambda: _element(reader, names, table))
    table.layout = read_layout(reader)
    reader.expect_end()
    _check(table)
    return Plan(program=lambda desk: _make(desk, table))


def _element(reader: Reader, names: LongNames, table: TableDefinition) -> None:
    if reader.takes("CONSTRAINT"):
        reader.name()
    if reader.takes("LIKE"):
        table.parent = reader.relation()
        if reader.takes("INCLUDING"):
            table.with_defaults = True
            reader.expect("DEFAULTS")
        elif reader.takes("EXCLUDING"):
            reader.expect("DEFAULTS")
    elif reader.takes("PRIMARY", "KEY"):
        table.keys.append(("p", reader.names()))
    elif reader.sees("UNIQUE"):
        reader.next()
        table.keys.append(("u", reader.names()))
    elif reader.takes("FOREIGN", "KEY"):
        table.keys.append(("f", reader.names()))
        reader.expect("REFERENCES")
        skip_reference(reader)
    elif reader.sees("CHECK") or reader.sees("EXCLUDE"):
        raise not_supported(f"{reader.next().text} constraints are not supported")
    else:
        table.columns.append(read_column(reader, names))


def _check(table: TableDefinition) -> None:
    if len(table.columns) > MOST_COLUMNS:
        raise Refusal("54011", f"tables can have at most {MOST_COLUMNS} columns")
    if table.parent and table.layout.given:
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


def _make(desk: Desk, table: TableDefinition) -> str:
    name = name_behind(table.name, desk.names)
    if table.if_not_exists and desk.value(f"SELECT to_regclass({literal(name)})") is not None:
        desk.notices.append(f'Relation "{table.name[-1]}" already exists and will be skipped')
        return "CREATE TABLE"
    head = f"CREATE {'TEMPORARY ' if table.temporary else ''}TABLE {name}"
    if table.parent:
        parent = name_behind(table.parent, desk.names)
        defaults = " INCLUDING DEFAULTS" if table.with_defaults else ""
        desk.run(f"{head} (LIKE {parent}{defaults})")
        temporary = str(table.temporary).lower()
        desk.run(f"SELECT pg_catalog.redshift_describe_like({literal(name)}, {literal(parent)}, {temporary})")
    else:
        primary = {n for kind, key in table.all_keys() if kind == "p" for n in key}
        columns = [_column_sql(c, desk.names, not_null=c.not_null or c.name in primary) for c in table.columns]
        desk.run(f"{head} ({', '.join(columns)})")
        _describe(desk, name, table)
    return "CREATE TABLE"


def _column_sql(column: Column, names: LongNames, *, not_null: bool) -> str:
    words = [name_behind([column.name], names), str(column.type)]
    if column.identity is not None:
        how = "BY DEFAULT" if column.identity.by_default else "ALWAYS"
        numbers = f"START WITH {column.identity.seed} INCREMENT BY {column.identity.step}"
        words.append(f"GENERATED {how} AS IDENTITY ({numbers})")
    elif not_null:
        words.append("NOT NULL")
    if column.default:
        words.append(f"DEFAULT {column.default}")
    return " ".join(words)


def _describe(desk: Desk, name: str, table: TableDefinition) -> None:
    def shorts(listed: list[str]) -> list[str]:
        return [desk.names.behind(n) for n in listed]

    distkey = table.distkey()
    encoded = "auto" if table.layout.encode_auto or not any(c.encoding for c in table.columns) else "manual"
    words = [
        literal(name),
        literal(f"KEY({distkey})" if distkey else table.layout.described),
        "NULL" if distkey is None else literal(desk.names.behind(distkey)),
        literals(shorts(table.sortkeys())),
        literal(encoded),
        literals(shorts([c.name for c in table.columns])),
        literals([c.encoded(temporary=table.temporary, sorted_by=c.name in table.sortkeys()) for c in table.columns]),
    ]
    desk.run(f"SELECT pg_catalog.redshift_describe({', '.join(words)})")
    for kind, key in table.all_keys():
        declare_key(desk, name, kind, shorts(key))


def declare_key(desk: Desk, table: str, kind: str, columns: list[str]) -> None:
    """Note a key; nothing will enforce it (fact 11.8)."""
    desk.run(f"SELECT pg_catalog.redshift_declare_key({literal(table)}, {literal(kind)}, {literals(columns)})")


def _plan_from_query(reader: Reader, names: LongNames, table: TableDefinition) -> Plan:
    reader.expect("AS")
    within = reader.sees_mark("(")
    if within:
        raise not_in_stand_in("CREATE TABLE AS with its query in parentheses")
    sql, reads = _select(reader, names)
    name = name_behind(table.name, names)

    def run(desk: Desk) -> str:
        desk.enter(reads=reads)
        desk.run(f"CREATE {'TEMPORARY ' if table.temporary else ''}TABLE {name} AS {sql}")
        _refuse_unsized(desk, name)
        table.columns = []
        _describe(desk, name, table)
        return "SELECT"

    return Plan(program=run)


def _refuse_unsized(desk: Desk, table: str) -> None:
    """A width that Redshift works out from the expression is not guessed here."""
    unsized = desk.value(
        f"SELECT attname FROM pg_attribute WHERE attrelid = {literal(table)}::regclass AND attnum > 0 AND"
        " (atttypid = 'text'::regtype OR (atttypmod < 0 AND atttypid IN ('varchar'::regtype, 'numeric'::regtype)))"
    )
    if unsized is not None:
        raise not_in_stand_in(f'the width of column "{unsized}" in CREATE TABLE AS: give it a CAST; else it')
