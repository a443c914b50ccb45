"""Planning of statements by their first word."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from syncd.sandbox.redshift.copy import copy_text
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql import alter, create, merge
from syncd.sandbox.redshift.sql.plan import StatementContext, StatementPlan
from syncd.sandbox.redshift.sql.queries import check_query
from syncd.sandbox.redshift.sql.session_settings import plan_reset, plan_set, plan_show
from syncd.sandbox.redshift.sql.statement_editor import (
    StatementRewriter,
    postgres_name,
    refuse_unsupported_windows,
    rewrite_statement,
)
from syncd.sandbox.redshift.sql.tokens import LongNames, Token, TokenReader, tokenize

MAX_STATEMENT_BYTES: Final = 16 * 1024 * 1024
UPDATE_CLAUSES: Final = ("UPDATE", "SET", "FROM", "WHERE")


def plan_statement(sql: str, names: LongNames) -> StatementPlan:
    """Parse one statement into its plan.

    Raises:
        Refusal: Redshift would refuse it, or the stand-in does not support it.
    """
    if (size := len(sql.encode())) > MAX_STATEMENT_BYTES:
        sentence = f"Statement is too large. Statement Size: {size} bytes. Maximum Allowed: {MAX_STATEMENT_BYTES} bytes"
        raise Refusal("54001", sentence)
    reader = TokenReader(tokenize(sql), sql)
    if reader.is_done:
        return StatementPlan()
    first = reader.peek()
    word = "SELECT" if first is None or first.is_mark("(") else first.text
    plan = PLANNER_BY_WORD.get(word)
    if plan is not None:
        return plan(reader, names)
    if word in POSTGRES_ONLY_WORDS:
        raise not_supported(f'SQL command "{sql.strip()}" not supported.')
    if word in NOT_IMPLEMENTED_WORDS:
        raise not_in_stand_in(word)
    raise syntax_error(word if first is None else first.raw)


def _plan_query(reader: TokenReader, names: LongNames) -> StatementPlan:
    refuse_unsupported_windows(reader.tokens)
    sql, late = rewrite_statement(reader, names)
    touched = check_query(reader.sql, names)
    words = [t.text for t in reader.tokens]
    return StatementPlan(
        sql=sql,
        reads=touched.reads,
        writes=touched.writes,
        has_late_values=late,
        ends_with_nul=words == ["SELECT", "VERSION", "(", ")"],
    )


def _plan_update(reader: TokenReader, names: LongNames) -> StatementPlan:
    plan = _plan_query(reader, names)
    return replace(plan, strict_sql=_rewrite_as_merge(reader.sql, reader.tokens, names))


def _rewrite_as_merge(sql: str, tokens: Sequence[Token], names: LongNames) -> str:
    """Rewrite an UPDATE with FROM as a MERGE, with which PostgreSQL refuses several matches of one row.

    Returns an empty text for an UPDATE without FROM.
    """
    starts = _find_clauses(tokens)
    pieces = {
        clause: [
            rewrite_statement(TokenReader(piece, sql), names)[0]
            for piece in _split_at_commas(tokens[start + 1 : end], clause)
        ]
        for (clause, start), (_, end) in pairwise([*starts.items(), ("", len(tokens))])
    }
    if "FROM" not in pieces:
        return ""
    target, source = pieces["UPDATE"][0], " CROSS JOIN ".join(pieces["FROM"])
    condition = pieces["WHERE"][0] if "WHERE" in pieces else "true"
    return f"MERGE INTO {target} USING {source} ON ({condition}) WHEN MATCHED THEN UPDATE SET {pieces['SET'][0]}"


def _find_clauses(tokens: Sequence[Token]) -> dict[str, int]:
    """Return the positions of the clauses of the statement itself."""
    found: dict[str, int] = {}
    for at, token in _top_level_tokens(tokens):
        if token.is_word(*UPDATE_CLAUSES):
            found.setdefault(token.text, at)
    return found


def _split_at_commas(tokens: Sequence[Token], clause: str) -> list[Sequence[Token]]:
    """Split FROM into its items; any other clause is one piece."""
    commas = [at for at, token in _top_level_tokens(tokens) if token.is_mark(",")] if clause == "FROM" else []
    return [tokens[start + 1 : end] for start, end in pairwise([-1, *commas, len(tokens)])]


def _top_level_tokens(tokens: Sequence[Token]) -> list[tuple[int, Token]]:
    """Return the tokens outside parentheses, with their positions."""
    depth, found = 0, list[tuple[int, Token]]()
    for at, token in enumerate(tokens):
        depth += token.is_mark("(") - token.is_mark(")")
        if depth == 0:
            found.append((at, token))
    return found


def _plan_transaction(sql: str) -> Callable[[TokenReader, LongNames], StatementPlan]:
    def plan(reader: TokenReader, _: LongNames) -> StatementPlan:
        verb = reader.next()
        if verb.is_word("START"):
            reader.expect("TRANSACTION")
        elif not reader.accept("WORK"):
            reader.accept("TRANSACTION")
        if sql == "BEGIN":
            _skip_transaction_modes(reader)
        if sql == "ROLLBACK" and reader.is_next("TO"):
            raise not_supported(f'SQL command "{reader.sql.strip()}" not supported.')
        reader.expect_end()
        return StatementPlan(sql=sql)

    return plan


def _skip_transaction_modes(reader: TokenReader) -> None:
    """Skip isolation levels: Redshift accepts them and runs every transaction at the database's own level."""
    while not reader.is_done:
        if reader.accept("ISOLATION", "LEVEL"):
            if not (reader.accept("SERIALIZABLE") or reader.accept("REPEATABLE", "READ")):
                reader.expect("READ")
                if not reader.accept("COMMITTED"):
                    reader.expect("UNCOMMITTED")
        else:
            reader.expect("READ", "WRITE")
        reader.accept_mark(",")


def _plan_lock(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("LOCK")
    reader.accept("TABLE")
    tables = [reader.read_relation()]
    while reader.accept_mark(","):
        tables.append(reader.read_relation())
    reader.expect_end()
    listed = ", ".join(postgres_name(t, names) for t in tables)
    return StatementPlan(sql=f"LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE", tag="LOCK TABLE")


def _plan_truncate(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("TRUNCATE")
    reader.accept("TABLE")
    table = postgres_name(reader.read_relation(), names)
    reader.expect_end()

    def run(context: StatementContext) -> str:
        context.acquire_locks(writes=[table])
        context.run(f"TRUNCATE TABLE {table}")
        context.run("COMMIT")  # TRUNCATE commits its transaction (fact 11.10)
        return "TRUNCATE TABLE"

    return StatementPlan(program=run)


def _plan_vacuum(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("VACUUM")
    for form in (("FULL",), ("SORT", "ONLY"), ("DELETE", "ONLY"), ("REINDEX",), ("RECLUSTER",)):
        if reader.accept(*form):
            break
    table = "" if reader.is_done else postgres_name(reader.read_relation(), names)
    if reader.accept("TO"):
        reader.read_number()
        reader.expect("PERCENT")
    reader.accept("BOOST")
    reader.expect_end()

    def run(context: StatementContext) -> str:
        context.run(f"VACUUM {table}")
        return "VACUUM"

    return StatementPlan(program=run, no_transaction=True, outside_block="VACUUM")


def _plan_analyze(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.next()
    if reader.is_next("COMPRESSION"):
        raise not_in_stand_in("ANALYZE COMPRESSION")
    reader.accept("VERBOSE")
    table = "" if reader.is_done else postgres_name(reader.read_relation(), names)
    columns = reader.read_names() if reader.is_mark_next("(") else []
    if reader.accept("PREDICATE") or reader.accept("ALL"):
        reader.expect("COLUMNS")
    reader.expect_end()
    listed = f" ({', '.join(postgres_name([c], names) for c in columns)})" if columns else ""
    return StatementPlan(sql=f"ANALYZE {table}{listed}")


def _plan_as_written(reader: TokenReader, names: LongNames) -> StatementPlan:
    """Plan GRANT, REVOKE or COMMENT: these forms are common to Redshift and PostgreSQL."""
    return StatementPlan(sql=StatementRewriter(reader, names).rewrite())


def _plan_explain(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("EXPLAIN")
    reader.accept("VERBOSE")
    inner = plan_statement(reader.sql[reader.tokens[1].start :], names) if not reader.is_done else StatementPlan()
    if inner.program is not None or inner.has_late_values or not inner.sql:
        raise not_in_stand_in("EXPLAIN of this statement")
    return StatementPlan(sql=f"EXPLAIN {inner.sql}")


PLANNER_BY_WORD: Final[dict[str, Callable[[TokenReader, LongNames], StatementPlan]]] = {
    "SELECT": _plan_query,
    "WITH": _plan_query,
    "INSERT": _plan_query,
    "UPDATE": _plan_update,
    "DELETE": _plan_query,
    "MERGE": merge.plan_merge,
    "COPY": copy_text.plan_copy,
    "CREATE": create.plan_create,
    "DROP": alter.plan_drop,
    "ALTER": alter.plan_alter,
    "TRUNCATE": _plan_truncate,
    "LOCK": _plan_lock,
    "BEGIN": _plan_transaction("BEGIN"),
    "START": _plan_transaction("BEGIN"),
    "COMMIT": _plan_transaction("COMMIT"),
    "END": _plan_transaction("COMMIT"),
    "ROLLBACK": _plan_transaction("ROLLBACK"),
    "ABORT": _plan_transaction("ROLLBACK"),
    "SET": plan_set,
    "RESET": plan_reset,
    "SHOW": plan_show,
    "VACUUM": _plan_vacuum,
    "ANALYZE": _plan_analyze,
    "ANALYSE": _plan_analyze,
    "GRANT": _plan_as_written,
    "REVOKE": _plan_as_written,
    "COMMENT": _plan_as_written,
    "EXPLAIN": _plan_explain,
}
POSTGRES_ONLY_WORDS: Final = frozenset(
    """
    SAVEPOINT RELEASE LISTEN UNLISTEN NOTIFY DO CLUSTER REINDEX CHECKPOINT LOAD SECURITY REASSIGN IMPORT DISCARD
    """.split()
)
NOT_IMPLEMENTED_WORDS: Final = frozenset(
    """
    UNLOAD CALL PREPARE EXECUTE DEALLOCATE DECLARE FETCH CLOSE MOVE CANCEL USE
    """.split()
)
