"""Rewriting of a statement's text for PostgreSQL; the changes are collected by place and applied at once."""

import re
from collections.abc import Sequence
from typing import Final

from syncd.sandbox.redshift.backend import quote_name
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.plan import LATE_MARK
from syncd.sandbox.redshift.sql.sql_types import UNSUPPORTED_TYPES, read_type
from syncd.sandbox.redshift.sql.tokens import LongNames, Token, TokenKind, TokenReader, fold_name

KNOWN_FUNCTIONS: Final = frozenset(
    """
    ANY_VALUE AVG BOOL_AND BOOL_OR COUNT MAX MIN STDDEV STDDEV_POP STDDEV_SAMP SUM VARIANCE VAR_POP VAR_SAMP
    BIT_AND BIT_OR
    ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD FIRST_VALUE LAST_VALUE NTH_VALUE
    COALESCE NVL GREATEST LEAST NULLIF
    ASCII BTRIM CHAR_LENGTH CHARACTER_LENGTH CHR CONCAT INITCAP LEFT LEN LENGTH LOWER LPAD LTRIM OCTET_LENGTH
    POSITION QUOTE_IDENT QUOTE_LITERAL REGEXP_REPLACE REGEXP_SUBSTR REPEAT REPLACE REVERSE RIGHT RPAD RTRIM
    SPLIT_PART STRPOS SUBSTR SUBSTRING TRANSLATE TRIM UPPER MD5 SHA2 STRTOL TO_HEX FROM_HEX
    ABS CEIL CEILING FLOOR ROUND TRUNC MOD POWER POW SQRT EXP LN LOG SIGN RANDOM PI DEGREES RADIANS SIN COS TAN
    GETDATE DATEADD DATEDIFF DATE_PART DATE_TRUNC EXTRACT CONVERT_TIMEZONE TO_CHAR TO_DATE TO_TIMESTAMP TO_NUMBER
    CURRENT_DATE
    JSON_PARSE JSON_SERIALIZE JSON_TYPEOF IS_VALID_JSON IS_VALID_JSON_ARRAY
    VERSION PG_BACKEND_PID PG_TERMINATE_BACKEND PG_CANCEL_BACKEND PG_LAST_COPY_COUNT PG_LAST_COPY_ID
    CURRENT_SCHEMA CURRENT_SCHEMAS CURRENT_DATABASE CURRENT_SETTING HAS_TABLE_PRIVILEGE HAS_SCHEMA_PRIVILEGE
    HAS_DATABASE_PRIVILEGE FORMAT_TYPE PG_GET_EXPR PG_TABLE_IS_VISIBLE IS_LARGE_STRING_ENABLED
    CAST EXISTS
    """.split()
)
# Words of the grammar that make no call when a parenthesis follows them.
WORDS_NOT_CALLED: Final = frozenset(
    """
    INSERT UPDATE DELETE TABLE KEY IN VALUES OVER USING AND OR NOT ON WHERE
    AS ANY ALL SOME SELECT FROM BY THEN ELSE WHEN CASE HAVING LIMIT
    UNION EXCEPT INTERSECT MINUS DISTINCT BETWEEN LIKE ILIKE SET WITH RECURSIVE JOIN IS END INTO OFFSET TO GROUP
    INTERVAL
    """.split()
)
WORDS_BEFORE_NAMES: Final = frozenset({"INTO", "UPDATE", "TABLE", "AS", "WITH", "RECURSIVE"})
DATE_PART_FUNCTIONS: Final = frozenset(["DATEADD", "DATEDIFF", "DATE_PART", "DATE_TRUNC"])


UNSUPPORTED_OPERATORS = frozenset({"->", "->>", "#>", "#>>", "@>", "<@", "?", "?|", "?&", "&&", "^@"})
REPLACED_WORDS = {"SYSDATE": "pg_catalog.redshift_sysdate()", "MINUS": "EXCEPT", "NVL": "COALESCE"}
REPLACED_FUNCTIONS = {"JSON_SERIALIZE": 'pg_catalog."json_serialize"'}  # the bare word belongs to PostgreSQL's grammar
UNSUPPORTED_WORDS = frozenset({"FILTER", "LATERAL", "RETURNING", "TABLESAMPLE", "SAVEPOINT", "WINDOW", "FETCH", "ONLY"})
UNSUPPORTED_WORD_PAIRS = frozenset(
    {
        ("EXCEPT", "ALL"),
        ("INTERSECT", "ALL"),
        ("MINUS", "ALL"),
        ("SET", "("),
        ("BY", "DISTINCT"),
        ("DISTINCT", "("),
        ("BETWEEN", "SYMMETRIC"),
        ("AS", "MATERIALIZED"),
        ("NOT", "MATERIALIZED"),
        ("IS", "NORMALIZED"),
        ("NOT", "NORMALIZED"),
        ("IS", "JSON"),
        ("NOT", "JSON"),
    }
)
NUMBER_PATTERN = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")
NOT_IMPLEMENTED_WORDS = frozenset({"QUALIFY", "PIVOT", "UNPIVOT", "LISTAGG", "DECODE", "CONNECT", "APPROXIMATE"})
LATE_FUNCTIONS = frozenset({"PG_LAST_COPY_COUNT", "PG_LAST_COPY_ID"})


def postgres_name(parts: Sequence[str], names: LongNames) -> str:
    """Return a qualified name, quoted, as PostgreSQL knows it."""
    return ".".join(quote_name(names.to_postgres(part)) for part in parts)


class StatementRewriter:
    """Rewriter of one statement, which refuses words that Redshift lacks."""

    def __init__(self, reader: TokenReader, names: LongNames) -> None:
        self._reader = reader
        self._names = names
        self._changes: list[tuple[int, int, str]] = []
        self.late_calls: list[tuple[int, int, str]] = []
        self._open_casts: list[bool] = []

    def rewrite(self) -> str:
        """Return the statement's text from the reader's position on, rewritten."""
        begin = self._reader.peek()
        start = begin.start if begin else 0
        while not self._reader.is_done:
            self._rewrite_token()
        return self._apply_changes(start)

    def _apply_changes(self, start: int) -> str:
        sql, out, at = self._reader.sql, [], start
        for begin, end, text in sorted(self._changes):
            out += [sql[at:begin], text]
            at = end
        out.append(sql[at : self._reader.tokens[-1].end])
        return "".join(out)

    def _rewrite_token(self) -> None:
        token = self._reader.next()
        if token.kind is TokenKind.QUOTED:
            self._rewrite_quoted(token)
        elif token.kind is TokenKind.WORD:
            self._rewrite_word(token)
        elif token.kind is TokenKind.MARK:
            self._rewrite_mark(token)
        elif token.kind is TokenKind.NUMBER:
            self._check_number(token)
        elif (before := self._token_before(2)) is not None and before.is_word(*UNSUPPORTED_TYPES):
            raise not_supported(f'Column type "{before.raw.lower()}" is not supported.')

    def _rewrite_quoted(self, token: Token) -> None:
        if self._is_qualified_call():
            self._require_known_function(token)
        self._replace_token(token, quote_name(self._names.to_postgres(fold_name(token.text))))

    def _is_qualified_call(self) -> bool:
        """Return True if the name just read, quoted or after a schema, is that of a function and not of a table."""
        after = self._reader.peek()
        if after is None or not after.is_mark("("):
            return False
        back = 2
        while (dot := self._token_before(back)) is not None and dot.is_mark("."):
            back += 2
        before = self._token_before(back)
        return before is None or not (before.is_word(*WORDS_BEFORE_NAMES) or before.is_mark(")"))

    def _require_known_function(self, token: Token) -> None:
        name = fold_name(token.text if token.kind is TokenKind.QUOTED else token.raw)
        if name.upper() not in KNOWN_FUNCTIONS:
            raise Refusal("42883", f"function {name}() does not exist")

    def _check_number(self, token: Token) -> None:
        """Refuse 0x1F and 1_000, which arrive as a number and a word that touch."""
        after = self._reader.peek()
        touching = after is not None and after.kind is TokenKind.WORD and after.start == token.end
        if touching or not NUMBER_PATTERN.fullmatch(token.raw):
            raise syntax_error(token.raw)

    def _replace_token(self, token: Token, text: str) -> None:
        self._changes.append((token.start, token.end, text))

    def _rewrite_mark(self, token: Token) -> None:
        if token.text in UNSUPPORTED_OPERATORS:
            raise Refusal("42883", f"operator does not exist: {token.text}")
        if token.text == "$" and not ((after := self._reader.peek()) is not None and after.kind is TokenKind.NUMBER):
            raise not_supported("a constant in dollar quotes is not supported")
        if token.text == "(":
            before = self._token_before(2)
            self._open_casts.append(before is not None and before.is_word("CAST"))
        elif token.text == ")" and self._open_casts:
            self._open_casts.pop()
        elif token.text == "::":
            self._rewrite_type()

    def _token_before(self, back: int) -> Token | None:
        place = self._reader.position - back
        return self._reader.tokens[place] if place >= 0 else None

    def _rewrite_type(self) -> None:
        start = self._reader.position
        first = self._reader.peek()
        if first is not None and first.is_word("REGCLASS", "OID", "NAME"):
            self._reader.next()
            return
        kind = read_type(self._reader)
        begin, end = self._reader.tokens[start].start, self._reader.tokens[self._reader.position - 1].end
        self._changes.append((begin, end, str(kind)))

    def _rewrite_word(self, token: Token) -> None:
        after = self._reader.peek()
        dotted = (before := self._token_before(2)) is not None and before.is_mark(".")
        if dotted:
            if self._is_qualified_call():
                self._require_known_function(token)
            self._rewrite_name(token)
        elif token.is_word("AS") and self._open_casts and self._open_casts[-1]:
            self._rewrite_type()
        elif token.text in UNSUPPORTED_WORDS and not _is_alias(before):
            raise syntax_error(token.raw)
        elif after is not None and (token.text, after.text) in UNSUPPORTED_WORD_PAIRS:
            raise not_supported(f"{token.text} {after.text} is not supported")
        elif token.text in NOT_IMPLEMENTED_WORDS and after is not None and not after.is_mark(".", ","):
            raise not_in_stand_in(token.text)
        elif token.text in REPLACED_WORDS and not _is_alias(before):
            self._replace_token(token, REPLACED_WORDS[token.text])
        elif after is not None and after.is_mark("(") and self._is_call(token, before):
            self._rewrite_call(token)
        elif token.is_word("SELECT") and after is not None and after.is_word("TOP"):
            raise not_in_stand_in("TOP")
        else:
            self._rewrite_name(token)

    def _rewrite_name(self, token: Token) -> None:
        """Shorten a name that is too long, and quote a temporary one."""
        name = fold_name(token.raw)
        short = self._names.to_postgres(name)
        if name.startswith("#") or short != name:
            self._replace_token(token, quote_name(short))

    def _is_call(self, token: Token, before: Token | None) -> bool:
        if token.text in WORDS_NOT_CALLED:
            return False
        if before is None:
            return True
        return not (before.is_word(*WORDS_BEFORE_NAMES) or before.is_mark(")", ".")) or token.text in KNOWN_FUNCTIONS

    def _rewrite_call(self, token: Token) -> None:
        if token.text in LATE_FUNCTIONS:
            close = self._reader.peek(1)
            if close is None or not close.is_mark(")"):
                raise Refusal("42883", f"function {token.raw.lower()}(unknown) does not exist")
            self.late_calls.append((token.start, close.end, token.text))
        elif token.text not in KNOWN_FUNCTIONS:
            if token.text.isidentifier() and not _is_type_name(token.text):
                raise Refusal("42883", f"function {token.raw.lower()}() does not exist")
        elif token.text in REPLACED_FUNCTIONS:
            self._replace_token(token, REPLACED_FUNCTIONS[token.text])
        elif token.text in DATE_PART_FUNCTIONS:
            part = self._reader.peek(1)
            if part is not None and part.kind is TokenKind.WORD:
                self._reader.position += 2
                self._open_casts.append(False)
                self._replace_token(part, "'" + part.raw.lower() + "'")


def rewrite_statement(reader: TokenReader, names: LongNames) -> tuple[str, bool]:
    """Return the text for PostgreSQL, and whether it holds marks for values known only at execution."""
    editor = StatementRewriter(reader, names)
    sql = editor.rewrite()
    for start, end, name in sorted(editor.late_calls, reverse=True):
        call = reader.sql[start:end]
        if sql.count(call) != 1:
            raise not_in_stand_in(f"more than one {call}")
        sql = sql.replace(call, f"{LATE_MARK}{name}{LATE_MARK}")
    return sql, bool(editor.late_calls)


def _is_alias(before: Token | None) -> bool:
    return before is not None and before.is_word("AS")


def _is_type_name(word: str) -> bool:
    return word in {"VARCHAR", "CHAR", "NUMERIC", "DECIMAL", "CHARACTER", "VARBYTE", "NVARCHAR"}


def refuse_unsupported_windows(tokens: Sequence[Token]) -> None:
    """Refuse NULLS FIRST and NULLS LAST in windows (facts, section 5), and frames other than ROWS."""
    depth, windows = 0, []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.is_mark("("):
            depth += 1
            if before is not None and before.is_word("OVER"):
                windows.append(depth)
        elif token.is_mark(")"):
            if windows and windows[-1] == depth:
                windows.pop()
            depth -= 1
        elif windows and token.is_word("NULLS"):
            raise not_supported("NULLS FIRST and NULLS LAST are not supported in a window function")
        elif windows and token.is_word("RANGE", "GROUPS", "EXCLUDE"):
            raise not_supported(f"{token.text} is not supported in the frame of a window function")
