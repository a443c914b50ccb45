"""UPDATE with FROM: one of several matches is taken, or they are refused, as the session wants it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from syncd.sandbox.redshift.sql.identifiers import LongNames
from syncd.sandbox.redshift.sql.statement_editor import rewrite_statement
from syncd.sandbox.redshift.sql.tokens import Token, TokenReader

CLAUSES: Final = ("UPDATE", "SET", "FROM", "WHERE")


def rewrite_as_merge(sql: str, tokens: Sequence[Token], names: LongNames) -> str:
    """An UPDATE as a MERGE, by which PostgreSQL refuses what matches one row several times; none without FROM."""
    places = _find_clauses(tokens)
    pieces = {
        clause: [
            rewrite_statement(TokenReader(piece, sql), names)[0]
            for piece in _split_at_commas(tokens[start + 1 : end], clause)
        ]
        for (clause, start), (_, end) in pairwise([*places.items(), ("", len(tokens))])
    }
    if "FROM" not in pieces:
        return ""
    target, source = pieces["UPDATE"][0], " CROSS JOIN ".join(pieces["FROM"])
    condition = pieces["WHERE"][0] if "WHERE" in pieces else "true"
    return f"MERGE INTO {target} USING {source} ON ({condition}) WHEN MATCHED THEN UPDATE SET {pieces['SET'][0]}"


def _find_clauses(tokens: Sequence[Token]) -> dict[str, int]:
    """Where the clauses of the statement itself begin."""
    found: dict[str, int] = {}
    for at, token in _top_level_tokens(tokens):
        if token.is_word(*CLAUSES):
            found.setdefault(token.text, at)
    return found


def _split_at_commas(tokens: Sequence[Token], clause: str) -> list[Sequence[Token]]:
    """The items of FROM; any other clause is one piece."""
    commas = [at for at, token in _top_level_tokens(tokens) if token.is_mark(",")] if clause == "FROM" else []
    return [tokens[start + 1 : end] for start, end in pairwise([-1, *commas, len(tokens)])]


def _top_level_tokens(tokens: Sequence[Token]) -> list[tuple[int, Token]]:
    """The tokens that stand in no parentheses, with their places."""
    depth, found = 0, list[tuple[int, Token]]()
    for at, token in enumerate(tokens):
        depth += token.is_mark("(") - token.is_mark(")")
        if depth == 0:
            found.append((at, token))
    return found
