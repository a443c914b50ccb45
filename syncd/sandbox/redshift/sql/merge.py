"""MERGE: Redshift's exact grammar, with two clauses or with REMOVE DUPLICATES."""

from dataclasses import dataclass

from syncd.sandbox.redshift.refusal import INTERNAL, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.plan import StatementContext, StatementPlan
from syncd.sandbox.redshift.sql.queries import check_query
from syncd.sandbox.redshift.sql.statement_editor import StatementRewriter, postgres_name
from syncd.sandbox.redshift.sql.tokens import LongNames, TokenKind, TokenReader

SOURCE_READS_TARGET_MESSAGE = "Source view/subquery in Merge statement cannot reference target table."
TWO_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """A parsed MERGE statement; its pieces are texts for PostgreSQL."""

    target: tuple[str, ...]
    source: str
    alias: str
    reads: tuple[str, ...]
    on: str
    source_keys: tuple[str, ...]
    remove_duplicates: bool


def plan_merge(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("MERGE", "INTO")
    target = reader.read_relation()
    reader.expect("USING")
    source, reads = _read_source(reader, names, target)
    reader.accept("AS")
    alias = "" if reader.is_next("ON") else reader.read_name()
    reader.expect("ON")
    start = reader.position
    source_keys = _read_conditions(reader, target)
    on = _rewrite_between(reader, names, start, reader.position)
    merge = MergeStatement(
        target=target,
        source=source,
        alias=alias,
        reads=reads,
        on=on,
        source_keys=source_keys,
        remove_duplicates=reader.accept("REMOVE", "DUPLICATES"),
    )
    if merge.remove_duplicates:
        reader.expect_end()
        return StatementPlan(program=lambda context: _replace_matched(context, merge))
    return _plan_two_clauses(reader, names, merge)


def _read_source(reader: TokenReader, names: LongNames, target: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if not reader.is_mark_next("("):
        source = reader.read_relation()
        if source[-1] == target[-1] and (len(source) != len(target) or source == target):
            raise not_supported(SOURCE_READS_TARGET_MESSAGE)
        return postgres_name(source, names), (postgres_name(source, names),)
    start = reader.position
    reader.skip_balanced()
    inner = reader.tokens[start + 1 : reader.position - 1]
    if any(t.is_mark("$") for t in inner):
        raise Refusal(INTERNAL, "queryVoltDecorrCSQ: a bind parameter inside the source of MERGE")
    touched = check_query(reader.text_between(start + 1, reader.position - 1), names)
    if any(read.rpartition(".")[2] == postgres_name(target[-1:], names) for read in touched.reads):
        raise not_supported(SOURCE_READS_TARGET_MESSAGE)
    return f"({_rewrite_between(reader, names, start + 1, reader.position - 1)})", touched.reads


def _rewrite_between(reader: TokenReader, names: LongNames, start: int, end: int) -> str:
    return StatementRewriter(TokenReader(reader.tokens[start:end], reader.sql), names).rewrite()


def _read_conditions(reader: TokenReader, target: tuple[str, ...]) -> tuple[str, ...]:
    """Read equalities between columns of both sides, joined by AND; return the source's columns."""
    keys = []
    while True:
        depth = 0
        while reader.accept_mark("("):
            depth += 1
        left = reader.read_relation()
        reader.expect_mark("=")
        right = reader.read_relation()
        while depth and reader.accept_mark(")"):
            depth -= 1
        sides = [side for side in (left, right) if len(side) >= TWO_PARTS and side[-2] == target[-1]]
        others = [side for side in (left, right) if len(side) >= TWO_PARTS and side[-2] != target[-1]]
        if len(sides) != 1 or len(others) != 1 or depth:
            raise not_supported("the ON clause of MERGE must be equality predicates between target and source columns")
        keys.append(others[0][-1])
        if not reader.accept("AND"):
            return tuple(keys)


def _plan_two_clauses(reader: TokenReader, names: LongNames, merge: MergeStatement) -> StatementPlan:
    start = reader.position
    reader.expect("WHEN", "MATCHED", "THEN")
    if reader.accept("UPDATE"):
        reader.expect("SET")
        _skip_assignments(reader)
    else:
        reader.expect("DELETE")
    reader.expect("WHEN", "NOT", "MATCHED", "THEN", "INSERT")
    if reader.is_mark_next("("):
        reader.read_names()
    reader.expect("VALUES")
    if not reader.is_mark_next("("):
        raise reader.unexpected_token_error()
    reader.skip_balanced()
    reader.expect_end()
    clauses = _rewrite_between(reader, names, start, len(reader.tokens))
    target = postgres_name(merge.target, names)
    return StatementPlan(
        sql=f"MERGE INTO {target} USING {_source_sql(merge, names)} ON {merge.on} {clauses}",
        reads=merge.reads,
        writes=(target,),
        tag="MERGE",
    )


def _source_sql(merge: MergeStatement, names: LongNames) -> str:
    alias = postgres_name([merge.alias], names) if merge.alias else ""
    return f"{merge.source} AS {alias}" if alias else merge.source


def _skip_assignments(reader: TokenReader) -> None:
    while True:
        token = reader.peek()
        reader.read_name()
        if reader.is_mark_next(".") and token is not None:
            raise syntax_error(".")
        reader.expect_mark("=")
        while not (
            reader.is_done
            or reader.is_mark_next(",")
            or reader.is_next("WHEN", "NOT")
            or reader.is_next("WHEN", "MATCHED")
        ):
            if reader.is_next("CASE"):
                _skip_case(reader)
            else:
                reader.skip_balanced()
        if not reader.accept_mark(","):
            return


def _skip_case(reader: TokenReader) -> None:
    depth = 0
    while True:
        token = reader.next()
        if token.kind is TokenKind.WORD:
            depth += token.is_word("CASE") - token.is_word("END")
        if depth == 0:
            return


def _replace_matched(context: StatementContext, merge: MergeStatement) -> str:
    target = postgres_name(merge.target, context.names)
    source = _source_sql(merge, context.names)
    context.acquire_locks(reads=merge.reads, writes=[target])
    keys = ", ".join(postgres_name([k], context.names) for k in merge.source_keys)
    if context.fetch_value(
        f"SELECT 1 FROM {source} GROUP BY {keys} HAVING count(*) > 1 AND count({keys.split(',')[0]}) > 0 LIMIT 1"
    ):
        # What Redshift does with such a source is not known (facts, section 12).
        raise not_in_stand_in("MERGE REMOVE DUPLICATES from a source with duplicate keys")
    if _count_columns(context, source) != _count_columns(context, target):
        raise not_supported("MERGE REMOVE DUPLICATES needs the same number of columns in source and target")
    context.run(f"DELETE FROM {target} USING {source} WHERE {merge.on}")
    context.run(f"INSERT INTO {target} SELECT * FROM {source}")
    return "MERGE"


def _count_columns(context: StatementContext, relation: str) -> str:
    context.run(f"CREATE TEMPORARY TABLE redshift_shape AS SELECT * FROM {relation} LIMIT 0")
    count = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'pg_temp.redshift_shape'::regclass AND attnum > 0"
    width = context.require_value(count)
    context.run("DROP TABLE pg_temp.redshift_shape")
    return width
