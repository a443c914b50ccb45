"""MERGE: Redshift's exact grammar, and its two ways with duplicate keys."""

from dataclasses import dataclass

from syncd.sandbox.redshift.refusal import INTERNAL, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.identifiers import LongNames
from syncd.sandbox.redshift.sql.plan import Plan
from syncd.sandbox.redshift.sql.queries import checked
from syncd.sandbox.redshift.sql.statement_editor import Editor, name_behind
from syncd.sandbox.redshift.sql.tokens import Kind, Reader
from syncd.sandbox.redshift.statement_context import Desk

READS_TARGET = "Source view/subquery in Merge statement cannot reference target table."
TWO_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A MERGE statement, read; the pieces are texts for PostgreSQL."""

    target: tuple[str, ...]
    source: str
    alias: str
    reads: tuple[str, ...]
    on: str
    source_keys: tuple[str, ...]
    remove_duplicates: bool


def plan_merge(reader: Reader, names: LongNames) -> Plan:
    reader.expect("MERGE", "INTO")
    target = reader.relation()
    reader.expect("USING")
    source, reads = _source(reader, names, target)
    reader.takes("AS")
    alias = "" if reader.sees("ON") else reader.name()
    reader.expect("ON")
    start = reader.at
    source_keys = _conditions(reader, target)
    on = _edited(reader, names, start, reader.at)
    merge = Merge(
        target=target,
        source=source,
        alias=alias,
        reads=reads,
        on=on,
        source_keys=source_keys,
        remove_duplicates=reader.takes("REMOVE", "DUPLICATES"),
    )
    if merge.remove_duplicates:
        reader.expect_end()
        return Plan(program=lambda desk: _replace_matched(desk, merge))
    return _plan_two_clauses(reader, names, merge)


def _source(reader: Reader, names: LongNames, target: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if not reader.sees_mark("("):
        source = reader.relation()
        if source[-1] == target[-1] and (len(source) != len(target) or source == target):
            raise not_supported(READS_TARGET)
        return name_behind(source, names), (name_behind(source, names),)
    start = reader.at
    reader.skip_balanced()
    inner = reader.tokens[start + 1 : reader.at - 1]
    if any(t.is_mark("$") for t in inner):
        raise Refusal(INTERNAL, "queryVoltDecorrCSQ: a bind parameter inside the source of MERGE")
    touched = checked(reader.text_between(start + 1, reader.at - 1), names)
    if any(read.rpartition(".")[2] == name_behind(target[-1:], names) for read in touched.reads):
        raise not_supported(READS_TARGET)
    return f"({_edited(reader, names, start + 1, reader.at - 1)})", touched.reads


def _edited(reader: Reader, names: LongNames, start: int, end: int) -> str:
    return Editor(Reader(reader.tokens[start:end], reader.sql), names).edit()


def _conditions(reader: Reader, target: tuple[str, ...]) -> tuple[str, ...]:
    """Equalities between columns of both sides, joined by AND; returns the source's columns."""
    keys = []
    while True:
        depth = 0
        while reader.takes_mark("("):
            depth += 1
        left = reader.relation()
        reader.expect_mark("=")
        right = reader.relation()
        while depth and reader.takes_mark(")"):
            depth -= 1
        sides = [side for side in (left, right) if len(side) >= TWO_PARTS and side[-2] == target[-1]]
        others = [side for side in (left, right) if len(side) >= TWO_PARTS and side[-2] != target[-1]]
        if len(sides) != 1 or len(others) != 1 or depth:
            raise not_supported("the ON clause of MERGE must be equality predicates between target and source columns")
        keys.append(others[0][-1])
        if not reader.takes("AND"):
            return tuple(keys)


def _plan_two_clauses(reader: Reader, names: LongNames, merge: Merge) -> Plan:
    start = reader.at
    reader.expect("WHEN", "MATCHED", "THEN")
    if reader.takes("UPDATE"):
        reader.expect("SET")
        _skip_assignments(reader)
    else:
        reader.expect("DELETE")
    reader.expect("WHEN", "NOT", "MATCHED", "THEN", "INSERT")
    if reader.sees_mark("("):
        reader.names()
    reader.expect("VALUES")
    if not reader.sees_mark("("):
        raise reader.unexpected()
    reader.skip_balanced()
    reader.expect_end()
    clauses = _edited(reader, names, start, len(reader.tokens))
    target = name_behind(merge.target, names)
    return Plan(
        sql=f"MERGE INTO {target} USING {_source_sql(merge, names)} ON {merge.on} {clauses}",
        reads=merge.reads,
        writes=(target,),
        tag="MERGE",
    )


def _source_sql(merge: Merge, names: LongNames) -> str:
    alias = name_behind([merge.alias], names) if merge.alias else ""
    return f"{merge.source} AS {alias}" if alias else merge.source


def _skip_assignments(reader: Reader) -> None:
    while True:
        token = reader.peek()
        reader.name()
        if reader.sees_mark(".") and token is not None:
            raise syntax_error(".")
        reader.expect_mark("=")
        while not (
            reader.done or reader.sees_mark(",") or reader.sees("WHEN", "NOT") or reader.sees("WHEN", "MATCHED")
        ):
            if reader.sees("CASE"):
                _skip_case(reader)
            else:
                reader.skip_balanced()
        if not reader.takes_mark(","):
            return


def _skip_case(reader: Reader) -> None:
    depth = 0
    while True:
        token = reader.next()
        if token.kind is Kind.WORD:
            depth += token.is_word("CASE") - token.is_word("END")
        if depth == 0:
            return


def _replace_matched(desk: Desk, merge: Merge) -> str:
    target = name_behind(merge.target, desk.names)
    source = _source_sql(merge, desk.names)
    desk.enter(reads=merge.reads, writes=[target])
    keys = ", ".join(name_behind([k], desk.names) for k in merge.source_keys)
    if desk.value(
        f"SELECT 1 FROM {source} GROUP BY {keys} HAVING count(*) > 1 AND count({keys.split(',')[0]}) > 0 LIMIT 1"
    ):
        # What Redshift does with such a source is not known (facts, section 12).
        raise not_in_stand_in("MERGE REMOVE DUPLICATES from a source with duplicate keys")
    if _width(desk, source) != _width(desk, target):
        raise not_supported("MERGE REMOVE DUPLICATES needs the same number of columns in source and target")
    desk.run(f"DELETE FROM {target} USING {source} WHERE {merge.on}")
    desk.run(f"INSERT INTO {target} SELECT * FROM {source}")
    return "MERGE"


def _width(desk: Desk, relation: str) -> str:
    """The number of columns of a table or a subquery."""
    desk.run(f"CREATE TEMPORARY TABLE redshift_shape AS SELECT * FROM {relation} LIMIT 0")
    count = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'pg_temp.redshift_shape'::regclass AND attnum > 0"
    width = desk.known(count)
    desk.run("DROP TABLE pg_temp.redshift_shape")
    return width
