"""From a client's text to a plan: the first word decides who reads the rest."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from syncd.sandbox.redshift.copy import copy_text
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql import alter, create, merge
from syncd.sandbox.redshift.sql.identifiers import LongNames
from syncd.sandbox.redshift.sql.plan import Plan
from syncd.sandbox.redshift.sql.queries import checked
from syncd.sandbox.redshift.sql.session_settings import plan_reset, plan_set, plan_show
from syncd.sandbox.redshift.sql.statement_editor import Editor, edited, name_behind, refuse_foreign_windows
from syncd.sandbox.redshift.sql.tokens import Reader, tokens_of
from syncd.sandbox.redshift.sql.updates import as_merge
from syncd.sandbox.redshift.statement_context import Desk

LONGEST_STATEMENT: Final = 16 * 1024 * 1024
MOST_PARAMETERS: Final = 32767


def plan_of(sql: str, names: LongNames) -> Plan:
    """Understand one statement.

    Raises:
        Refusal: Redshift would not carry it out, or the stand-in does not.
    """
    if (size := len(sql.encode())) > LONGEST_STATEMENT:
        sentence = f"Statement is too large. Statement Size: {size} bytes. Maximum Allowed: {LONGEST_STATEMENT} bytes"
        raise Refusal("54001", sentence)
    reader = Reader(tokens_of(sql), sql)
    if reader.done:
        return Plan()
    first = reader.peek()
    word = "SELECT" if first is None or first.is_mark("(") else first.text
    understand = STATEMENTS.get(word)
    if understand is not None:
        return understand(reader, names)
    if word in OF_POSTGRESQL:
        raise not_supported(f'SQL command "{sql.strip()}" not supported.')
    if word in NOT_HERE:
        raise not_in_stand_in(word)
    raise syntax_error(word if first is None else first.raw)


def _query(reader: Reader, names: LongNames) -> Plan:
    refuse_foreign_windows(reader.tokens)
    sql, late = edited(reader, names)
    touched = checked(reader.sql, names)
    words = [t.text for t in reader.tokens]
    return Plan(
        sql=sql,
        reads=touched.reads,
        writes=touched.writes,
        late=late,
        ends_with_nul=words == ["SELECT", "VERSION", "(", ")"],
    )


def _update(reader: Reader, names: LongNames) -> Plan:
    plan = _query(reader, names)
    return replace(plan, of_one_match=as_merge(reader.sql, reader.tokens, names))


def _transaction(sql: str) -> Callable[[Reader, LongNames], Plan]:
    def understand(reader: Reader, _: LongNames) -> Plan:
        verb = reader.next()
        if verb.is_word("START"):
            reader.expect("TRANSACTION")
        elif not reader.takes("WORK"):
            reader.takes("TRANSACTION")
        if sql == "BEGIN":
            _modes(reader)
        if sql == "ROLLBACK" and reader.sees("TO"):
            raise not_supported(f'SQL command "{reader.sql.strip()}" not supported.')
        reader.expect_end()
        return Plan(sql=sql)

    return understand


def _modes(reader: Reader) -> None:
    """Redshift reads the isolation levels of SQL and runs every transaction at the database's own."""
    while not reader.done:
        if reader.takes("ISOLATION", "LEVEL"):
            if not (reader.takes("SERIALIZABLE") or reader.takes("REPEATABLE", "READ")):
                reader.expect("READ")
                if not reader.takes("COMMITTED"):
                    reader.expect("UNCOMMITTED")
        else:
            reader.expect("READ", "WRITE")
        reader.takes_mark(",")


def _lock(reader: Reader, names: LongNames) -> Plan:
    reader.expect("LOCK")
    reader.takes("TABLE")
    tables = [reader.relation()]
    while reader.takes_mark(","):
        tables.append(reader.relation())
    reader.expect_end()
    listed = ", ".join(name_behind(t, names) for t in tables)
    return Plan(sql=f"LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE", tag="LOCK TABLE")


def _truncate(reader: Reader, names: LongNames) -> Plan:
    reader.expect("TRUNCATE")
    reader.takes("TABLE")
    table = name_behind(reader.relation(), names)
    reader.expect_end()

    def run(desk: Desk) -> str:
        desk.enter(writes=[table])
        desk.run(f"TRUNCATE TABLE {table}")
        desk.run("COMMIT")  # TRUNCATE commits the transaction it stands in (fact 11.10)
        return "TRUNCATE TABLE"

    return Plan(program=run)


def _vacuum(reader: Reader, names: LongNames) -> Plan:
    reader.expect("VACUUM")
    for form in (("FULL",), ("SORT", "ONLY"), ("DELETE", "ONLY"), ("REINDEX",), ("RECLUSTER",)):
        if reader.takes(*form):
            break
    table = "" if reader.done else name_behind(reader.relation(), names)
    if reader.takes("TO"):
        reader.number()
        reader.expect("PERCENT")
    reader.takes("BOOST")
    reader.expect_end()

    def run(desk: Desk) -> str:
        desk.run(f"VACUUM {table}")
        return "VACUUM"

    return Plan(program=run, alone=True, outside_block="VACUUM")


def _analyze(reader: Reader, names: LongNames) -> Plan:
    reader.next()
    if reader.sees("COMPRESSION"):
        raise not_in_stand_in("ANALYZE COMPRESSION")
    reader.takes("VERBOSE")
    table = "" if reader.done else name_behind(reader.relation(), names)
    columns = reader.names() if reader.sees_mark("(") else []
    if reader.takes("PREDICATE") or reader.takes("ALL"):
        reader.expect("COLUMNS")
    reader.expect_end()
    listed = f" ({', '.join(name_behind([c], names) for c in columns)})" if columns else ""
    return Plan(sql=f"ANALYZE {table}{listed}")


def _as_written(reader: Reader, names: LongNames) -> Plan:
    """GRANT, REVOKE, COMMENT: PostgreSQL's grammar is wider, their words here are common to both."""
    return Plan(sql=Editor(reader, names).edit())


def _explain(reader: Reader, names: LongNames) -> Plan:
    reader.expect("EXPLAIN")
    reader.takes("VERBOSE")
    inner = plan_of(reader.sql[reader.tokens[1].start :], names) if not reader.done else Plan()
    if inner.program is not None or inner.late or not inner.sql:
        raise not_in_stand_in("EXPLAIN of this statement")
    return Plan(sql=f"EXPLAIN {inner.sql}")


STATEMENTS: Final[dict[str, Callable[[Reader, LongNames], Plan]]] = {
    "SELECT": _query,
    "WITH": _query,
    "INSERT": _query,
    "UPDATE": _update,
    "DELETE": _query,
    "MERGE": merge.plan_merge,
    "COPY": copy_text.plan_copy,
    "CREATE": create.plan_create,
    "DROP": alter.plan_drop,
    "ALTER": alter.plan_alter,
    "TRUNCATE": _truncate,
    "LOCK": _lock,
    "BEGIN": _transaction("BEGIN"),
    "START": _transaction("BEGIN"),
    "COMMIT": _transaction("COMMIT"),
    "END": _transaction("COMMIT"),
    "ROLLBACK": _transaction("ROLLBACK"),
    "ABORT": _transaction("ROLLBACK"),
    "SET": plan_set,
    "RESET": plan_reset,
    "SHOW": plan_show,
    "VACUUM": _vacuum,
    "ANALYZE": _analyze,
    "ANALYSE": _analyze,
    "GRANT": _as_written,
    "REVOKE": _as_written,
    "COMMENT": _as_written,
    "EXPLAIN": _explain,
}
OF_POSTGRESQL: Final = frozenset(
    """
    SAVEPOINT RELEASE LISTEN UNLISTEN NOTIFY DO CLUSTER REINDEX CHECKPOINT LOAD SECURITY REASSIGN IMPORT DISCARD
    """.split()
)
NOT_HERE: Final = frozenset(
    """
    UNLOAD CALL PREPARE EXECUTE DEALLOCATE DECLARE FETCH CLOSE MOVE CANCEL USE
    """.split()
)
