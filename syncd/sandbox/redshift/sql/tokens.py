"""A statement as a row of tokens with their places, and the hand that reads along it."""

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
from syncd.sandbox.redshift.sql.identifiers import RESERVED, folded


class Kind(StrEnum):
    """What a token is."""

    WORD = auto()
    QUOTED = auto()
    STRING = auto()
    NUMBER = auto()
    MARK = auto()


KINDS: Final = {
    TokenType.IDENTIFIER: Kind.QUOTED,
    TokenType.STRING: Kind.STRING,
    TokenType.NUMBER: Kind.NUMBER,
    TokenType.BYTE_STRING: Kind.STRING,
}
FOREIGN_STRINGS: Final = frozenset(
    {
        TokenType.UNICODE_STRING,
        TokenType.RAW_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
    }
)
Listed = TypeVar("Listed")


class StandIn(Redshift):
    """sqlglot's Redshift, without what its tokenizer takes from PostgreSQL.

    It takes the rest of some commands for one string, and what stands between the `$` of two parameters,
    as in `($1,$2)`, for a string in dollar quotes.
    """

    class Tokenizer(Redshift.Tokenizer):
        """Its words and marks."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
            **Redshift.Tokenizer.SINGLE_TOKENS,
            "$": TokenType.PARAMETER,
        }


WORD: Final = re.compile(r"[^\W\d]|#", re.UNICODE)


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `text` is upper case for a word, and without its quotes for a name or a string."""

    kind: Kind
    text: str
    raw: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind is Kind.WORD and self.text in words

    def is_mark(self, *marks: str) -> bool:
        return self.kind is Kind.MARK and self.text in marks


def tokens_of(sql: str) -> list[Token]:
    """The tokens of one statement, without a semicolon at its end."""
    try:
        parsed = StandIn.Tokenizer(dialect=StandIn()).tokenize(sql)
    except TokenError as error:
        raise Refusal(SYNTAX_ERROR, f"syntax error: {error}") from error
    tokens = [token for p in parsed for token in _split(p, sql)]
    while tokens and tokens[-1].is_mark(";"):
        tokens.pop()
    if any(t.is_mark(";") for t in tokens):
        raise Refusal(SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement")
    return tokens


def _split(parsed: ParsedToken, sql: str) -> list[Token]:
    raw = sql[parsed.start : parsed.end + 1]
    if parsed.token_type in FOREIGN_STRINGS:
        raise not_supported(f"a constant such as {raw[:40]} is not supported")
    kind = KINDS.get(parsed.token_type)
    if kind is not None:
        return [Token(kind, parsed.text, raw, parsed.start, parsed.end + 1)]
    if not WORD.match(raw):
        return [Token(Kind.MARK, raw, raw, parsed.start, parsed.end + 1)]
    # `DOUBLE PRECISION` or `GROUP BY` come as one token; word by word is plainer to read along.
    return [
        Token(Kind.WORD, m.group().upper(), m.group(), parsed.start + m.start(), parsed.start + m.end())
        for m in re.finditer(r"\S+", raw)
    ]


class Reader:
    """Reads tokens from left to right; what it expects and does not find is a syntax error."""

    def __init__(self, tokens: Sequence[Token], sql: str) -> None:
        self.tokens = tokens
        self.sql = sql
        self.at = 0

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def next(self) -> Token:
        token = self.peek()
        if token is None:
            raise Refusal(SYNTAX_ERROR, "syntax error at end of input")
        self.at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether these words stand next, in this order."""
        return all((t := self.peek(i)) is not None and t.is_word(word) for i, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Whether these words stand next; they are read if so."""
        found = self.sees(*words)
        if found:
            self.at += len(words)
        return found

    def sees_mark(self, mark: str) -> bool:
        token = self.peek()
        return token is not None and token.is_mark(mark)

    def takes_mark(self, mark: str) -> bool:
        found = self.sees_mark(mark)
        self.at += found
        return found

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.takes(word):
                raise self.unexpected()

    def expect_mark(self, mark: str) -> None:
        if not self.takes_mark(mark):
            raise self.unexpected()

    def expect_end(self) -> None:
        if not self.done:
            raise self.unexpected()

    def unexpected(self) -> Refusal:
        token = self.peek()
        return Refusal(SYNTAX_ERROR, "syntax error at end of input") if token is None else syntax_error(token.raw)

    def name(self) -> str:
        """An identifier, folded; a reserved word must stand in quotes."""
        token = self.peek()
        if token is None or token.kind not in {Kind.WORD, Kind.QUOTED}:
            raise self.unexpected()
        if token.kind is Kind.WORD and token.text in RESERVED:
            raise syntax_error(token.raw)
        self.at += 1
        return folded(token.text if token.kind is Kind.QUOTED else token.raw)

    def relation(self) -> tuple[str, ...]:
        """A table's name, qualified or not, folded."""
        parts = [self.name()]
        while self.takes_mark("."):
            parts.append(self.name())
        return tuple(parts)

    def names(self) -> list[str]:
        """Names in parentheses."""
        self.expect_mark("(")
        return self.listed(self.name)

    def listed(self, one: Callable[[], Listed]) -> list[Listed]:
        """What stands between commas, up to the closing parenthesis."""
        found = [one()]
        while self.takes_mark(","):
            found.append(one())
        self.expect_mark(")")
        return found

    def string(self) -> str:
        token = self.next()
        if token.kind is not Kind.STRING:
            raise syntax_error(token.raw)
        return token.text

    def number(self) -> int:
        token = self.next()
        if token.kind is not Kind.NUMBER or not token.text.isdigit():
            raise syntax_error(token.raw)
        return int(token.text)

    def skip_balanced(self) -> Self:
        """Read over one token, or over everything up to the parenthesis that closes it."""
        depth = 0
        while True:
            token = self.next()
            depth += token.is_mark("(") - token.is_mark(")")
            if depth <= 0:
                return self

    def text_between(self, start: int, end: int) -> str:
        """The statement's text from one token up to, not with, another."""
        if end <= start:
            return ""
        return self.sql[self.tokens[start].start : self.tokens[end - 1].end]
