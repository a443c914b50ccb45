"""Tokens of a statement, and the reader that parses along them."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import ClassVar, Final, Self, TypeVar

from sqlglot.dialects.redshift import Redshift
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as ParsedToken
from sqlglot.tokenizer_core import TokenType

from syncd.sandbox.redshift.refusal import SYNTAX_ERROR, Refusal, not_supported, syntax_error

MAX_NAME_BYTES: Final = 127
MAX_POSTGRES_NAME_BYTES: Final = 63

RESERVED_WORDS: Final = frozenset(
    """
    AES128 AES256 ALL ALLOWOVERWRITE ANALYSE ANALYZE AND ANY ARRAY AS ASC AUTHORIZATION AZ64 BACKUP BETWEEN
    BINARY BLANKSASNULL BOTH BYTEDICT BZIP2 CASE CAST CHECK COLLATE COLUMN CONNECT CONSTRAINT CREATE CREDENTIALS
    CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURRENT_USER_ID DEFAULT DEFERRABLE DEFLATE
    DEFRAG DELTA DELTA32K DESC DISABLE DISTINCT DO ELSE EMPTYASNULL ENABLE ENCODE ENCRYPT ENCRYPTION END EXCEPT
    EXPLICIT FALSE FOR FOREIGN FREEZE FROM FULL GLOBALDICT256 GLOBALDICT64K GRANT GROUP GZIP HAVING IDENTITY
    IGNORE ILIKE IN INITIALLY INNER INTERSECT INTERVAL INTO IS ISNULL JOIN LANGUAGE LEADING LEFT LIKE LIMIT
    LOCALTIME LOCALTIMESTAMP LUN LUNS LZO LZOP MINUS MOSTLY16 MOSTLY32 MOSTLY8 NATURAL NEW NOT NOTNULL NULL
    NULLS OFF OFFLINE OFFSET OID OLD ON ONLY OPEN OR ORDER OUTER OVERLAPS PARALLEL PARTITION PERCENT PERMISSIONS
    PIVOT PLACING PRIMARY RAW READRATIO RECOVER REFERENCES REJECTLOG RESORT RESPECT RESTORE RIGHT SELECT
    SESSION_USER SIMILAR SNAPSHOT SOME START SYSDATE SYSTEM TABLE TAG TDES TEXT255 TEXT32K THEN TIMESTAMP TO TOP
    TRAILING TRUE TRUNCATECOLUMNS UNION UNIQUE UNNEST UNPIVOT USER USING VERBOSE WALLET WHEN WHERE WITH WITHOUT
    """.split()
)
SYSTEM_COLUMNS: Final = frozenset({"oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})


def fold_name(name: str) -> str:
    """Return the name as the warehouse stores it: ASCII in lower case, quoted or not, and at most 127 bytes."""
    lowered = "".join(c.lower() if c.isascii() else c for c in name)
    return lowered.encode()[:MAX_NAME_BYTES].decode(errors="ignore")


class LongNames:
    """Names longer than PostgreSQL's limit, with the short names that PostgreSQL knows them by.

    The table `redshift_names` keeps them; `unwritten` holds those that it does not have yet.
    """

    def __init__(self) -> None:
        self._long: dict[bytes, bytes] = {}
        self.unwritten: list[tuple[str, str]] = []

    def remember(self, short: str, long: str) -> None:
        self._long[short.encode()] = long.encode()

    def to_postgres(self, name: str) -> str:
        """Return the name that PostgreSQL knows a folded name by."""
        encoded = name.encode()
        if len(encoded) <= MAX_POSTGRES_NAME_BYTES:
            return name
        digest = hashlib.sha256(encoded).hexdigest()[:12]
        short = encoded[: MAX_POSTGRES_NAME_BYTES - 13].decode(errors="ignore") + "~" + digest
        if short.encode() not in self._long:
            self.remember(short, name)
            self.unwritten.append((short, name))
        return short

    def to_redshift(self, name: bytes) -> bytes:
        """Return the name that clients know, from PostgreSQL's."""
        return self._long.get(name, name)


class TokenKind(StrEnum):
    WORD = auto()
    QUOTED = auto()
    STRING = auto()
    NUMBER = auto()
    MARK = auto()


KIND_BY_TOKEN_TYPE: Final = {
    TokenType.IDENTIFIER: TokenKind.QUOTED,
    TokenType.STRING: TokenKind.STRING,
    TokenType.NUMBER: TokenKind.NUMBER,
    TokenType.BYTE_STRING: TokenKind.STRING,
}
UNSUPPORTED_STRINGS: Final = frozenset(
    {
        TokenType.UNICODE_STRING,
        TokenType.RAW_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
    }
)
Listed = TypeVar("Listed")


class StandInDialect(Redshift):
    """sqlglot's Redshift, without two habits that its tokenizer takes from PostgreSQL.

    The tokenizer reads the rest of some commands as one string, and the text between the `$` of two parameters,
    as in `($1,$2)`, as a string in dollar quotes.
    """

    class Tokenizer(Redshift.Tokenizer):
        """Words and marks of the dialect."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
            **Redshift.Tokenizer.SINGLE_TOKENS,
            "$": TokenType.PARAMETER,
        }


WORD_PATTERN: Final = re.compile(r"[^\W\d]|#", re.UNICODE)


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `text` is upper case for a word, and without its quotes for a name or a string."""

    kind: TokenKind
    text: str
    raw: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind is TokenKind.WORD and self.text in words

    def is_mark(self, *marks: str) -> bool:
        return self.kind is TokenKind.MARK and self.text in marks


def tokenize(sql: str) -> list[Token]:
    """Return the tokens of one statement, without a semicolon at its end."""
    try:
        parsed = StandInDialect.Tokenizer(dialect=StandInDialect()).tokenize(sql)
    except TokenError as error:
        raise Refusal(SYNTAX_ERROR, f"syntax error: {error}") from error
    tokens = [token for p in parsed for token in _split_token(p, sql)]
    while tokens and tokens[-1].is_mark(";"):
        tokens.pop()
    if any(t.is_mark(";") for t in tokens):
        raise Refusal(SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement")
    return tokens


def _split_token(parsed: ParsedToken, sql: str) -> list[Token]:
    raw = sql[parsed.start : parsed.end + 1]
    if parsed.token_type in UNSUPPORTED_STRINGS:
        raise not_supported(f"a constant such as {raw[:40]} is not supported")
    kind = KIND_BY_TOKEN_TYPE.get(parsed.token_type)
    if kind is not None:
        return [Token(kind, parsed.text, raw, parsed.start, parsed.end + 1)]
    if not WORD_PATTERN.match(raw):
        return [Token(TokenKind.MARK, raw, raw, parsed.start, parsed.end + 1)]
    # sqlglot gives `DOUBLE PRECISION` or `GROUP BY` as one token; the reader wants single words.
    return [
        Token(TokenKind.WORD, m.group().upper(), m.group(), parsed.start + m.start(), parsed.start + m.end())
        for m in re.finditer(r"\S+", raw)
    ]


class TokenReader:
    """Reader of tokens from left to right; a missing expected token is a syntax error."""

    def __init__(self, tokens: Sequence[Token], sql: str) -> None:
        self.tokens = tokens
        self.sql = sql
        self.position = 0

    @property
    def is_done(self) -> bool:
        return self.position >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        place = self.position + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def next(self) -> Token:
        token = self.peek()
        if token is None:
            raise Refusal(SYNTAX_ERROR, "syntax error at end of input")
        self.position += 1
        return token

    def is_next(self, *words: str) -> bool:
        """Return True if these words come next, in this order."""
        return all((t := self.peek(i)) is not None and t.is_word(word) for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Read these words if they come next, and return whether they did."""
        found = self.is_next(*words)
        if found:
            self.position += len(words)
        return found

    def is_mark_next(self, mark: str) -> bool:
        token = self.peek()
        return token is not None and token.is_mark(mark)

    def accept_mark(self, mark: str) -> bool:
        found = self.is_mark_next(mark)
        self.position += found
        return found

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.unexpected_token_error()

    def expect_mark(self, mark: str) -> None:
        if not self.accept_mark(mark):
            raise self.unexpected_token_error()

    def expect_end(self) -> None:
        if not self.is_done:
            raise self.unexpected_token_error()

    def unexpected_token_error(self) -> Refusal:
        token = self.peek()
        return Refusal(SYNTAX_ERROR, "syntax error at end of input") if token is None else syntax_error(token.raw)

    def read_name(self) -> str:
        """Read an identifier, folded; a reserved word must be quoted."""
        token = self.peek()
        if token is None or token.kind not in {TokenKind.WORD, TokenKind.QUOTED}:
            raise self.unexpected_token_error()
        if token.kind is TokenKind.WORD and token.text in RESERVED_WORDS:
            raise syntax_error(token.raw)
        self.position += 1
        return fold_name(token.text if token.kind is TokenKind.QUOTED else token.raw)

    def read_relation(self) -> tuple[str, ...]:
        """Read a table's name, qualified or not, folded."""
        parts = [self.read_name()]
        while self.accept_mark("."):
            parts.append(self.read_name())
        return tuple(parts)

    def read_names(self) -> list[str]:
        """Read names in parentheses."""
        self.expect_mark("(")
        return self.read_list(self.read_name)

    def read_list(self, read_item: Callable[[], Listed]) -> list[Listed]:
        """Read items between commas, up to the closing parenthesis."""
        found = [read_item()]
        while self.accept_mark(","):
            found.append(read_item())
        self.expect_mark(")")
        return found

    def read_string(self) -> str:
        token = self.next()
        if token.kind is not TokenKind.STRING:
            raise syntax_error(token.raw)
        return token.text

    def read_number(self) -> int:
        token = self.next()
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit():
            raise syntax_error(token.raw)
        return int(token.text)

    def skip_balanced(self) -> Self:
        """Skip one token, or everything up to the parenthesis that closes it."""
        depth = 0
        while True:
            token = self.next()
            depth += token.is_mark("(") - token.is_mark(")")
            if depth <= 0:
                return self

    def text_between(self, start: int, end: int) -> str:
        """Return the statement's text from one token up to, not including, another."""
        if end <= start:
            return ""
        return self.sql[self.tokens[start].start : self.tokens[end - 1].end]
