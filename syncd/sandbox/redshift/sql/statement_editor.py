"""Changes to a statement's text, collected by place and made all at once."""

import re
from collections.abc import Sequence

from syncd.sandbox.redshift.objects import quoted
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.functions import BEFORE_NAMES, DATE_PARTS_FIRST, KNOWN, NO_CALL
from syncd.sandbox.redshift.sql.identifiers import LongNames, folded
from syncd.sandbox.redshift.sql.plan import LATE_MARK
from syncd.sandbox.redshift.sql.sql_types import FOREIGN, read_type
from syncd.sandbox.redshift.sql.tokens import Kind, Reader, Token

FOREIGN_MARKS = frozenset({"->", "->>", "#>", "#>>", "@>", "<@", "?", "?|", "?&", "&&", "^@"})
RENAMED = {"SYSDATE": "pg_catalog.redshift_sysdate()", "MINUS": "EXCEPT", "NVL": "COALESCE"}
SPOKEN_OTHERWISE = {"JSON_SERIALIZE": 'pg_catalog."json_serialize"'}  # else PostgreSQL's grammar takes the word
ABSENT = {
    "FILTER": "FILTER",
    "LATERAL": "LATERAL",
    "RETURNING": "RETURNING",
    "TABLESAMPLE": "TABLESAMPLE",
    "SAVEPOINT": "SAVEPOINT",
    "WINDOW": "WINDOW",
    "FETCH": "FETCH",
    "ONLY": "ONLY",
}
ABSENT_PAIRS = frozenset(
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
NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")
NOT_HERE = frozenset({"QUALIFY", "PIVOT", "UNPIVOT", "LISTAGG", "DECODE", "CONNECT", "APPROXIMATE"})
LATE = frozenset({"PG_LAST_COPY_COUNT", "PG_LAST_COPY_ID"})


def name_behind(parts: Sequence[str], names: LongNames) -> str:
    """A qualified name, quoted, as PostgreSQL knows it."""
    return ".".join(quoted(names.behind(part)) for part in parts)


class Editor:
    """Reads a statement once and writes it anew for PostgreSQL, refusing words that Redshift has not."""

    def __init__(self, reader: Reader, names: LongNames) -> None:
        self._reader = reader
        self._names = names
        self._changes: list[tuple[int, int, str]] = []
        self.late: list[tuple[int, int, str]] = []
        self._casts: list[bool] = []

    def edit(self) -> str:
        """The statement's text from the reader's place on, rewritten."""
        begin = self._reader.peek()
        start = begin.start if begin else 0
        while not self._reader.done:
            self._one()
        return self._written(start)

    def _written(self, start: int) -> str:
        sql, out, at = self._reader.sql, [], start
        for begin, end, text in sorted(self._changes):
            out += [sql[at:begin], text]
            at = end
        out.append(sql[at : self._reader.tokens[-1].end])
        return "".join(out)

    def _one(self) -> None:
        token = self._reader.next()
        if token.kind is Kind.QUOTED:
            self._quoted(token)
        elif token.kind is Kind.WORD:
            self._word(token)
        elif token.kind is Kind.MARK:
            self._mark(token)
        elif token.kind is Kind.NUMBER:
            self._number(token)
        elif (before := self._before(2)) is not None and before.is_word(*FOREIGN):
            raise not_supported(f'Column type "{before.raw.lower()}" is not supported.')

    def _quoted(self, token: Token) -> None:
        if self._is_qualified_call():
            self._known(token)
        self._change(token, quoted(self._names.behind(folded(token.text))))

    def _is_qualified_call(self) -> bool:
        """Whether the name just read, in quotes or after a schema's, is that of a function and not of a table."""
        after = self._reader.peek()
        if after is None or not after.is_mark("("):
            return False
        back = 2
        while (dot := self._before(back)) is not None and dot.is_mark("."):
            back += 2
        before = self._before(back)
        return before is None or not (before.is_word(*BEFORE_NAMES) or before.is_mark(")"))

    def _known(self, token: Token) -> None:
        name = folded(token.text if token.kind is Kind.QUOTED else token.raw)
        if name.upper() not in KNOWN:
            raise Refusal("42883", f"function {name}() does not exist")

    def _number(self, token: Token) -> None:
        """Digits, a point, an exponent: no 0x1F and no 1_000, which come as a number and a word that touch."""
        after = self._reader.peek()
        touching = after is not None and after.kind is Kind.WORD and after.start == token.end
        if touching or not NUMBER.fullmatch(token.raw):
            raise syntax_error(token.raw)

    def _change(self, token: Token, text: str) -> None:
        self._changes.append((token.start, token.end, text))

    def _mark(self, token: Token) -> None:
        if token.text in FOREIGN_MARKS:
            raise Refusal("42883", f"operator does not exist: {token.text}")
        if token.text == "$" and not ((after := self._reader.peek()) is not None and after.kind is Kind.NUMBER):
            raise not_supported("a constant in dollar quotes is not supported")
        if token.text == "(":
            before = self._before(2)
            self._casts.append(before is not None and before.is_word("CAST"))
        elif token.text == ")" and self._casts:
            self._casts.pop()
        elif token.text == "::":
            self._type()

    def _before(self, back: int) -> Token | None:
        place = self._reader.at - back
        return self._reader.tokens[place] if place >= 0 else None

    def _type(self) -> None:
        start = self._reader.at
        first = self._reader.peek()
        if first is not None and first.is_word("REGCLASS", "OID", "NAME"):
            self._reader.next()
            return
        kind = read_type(self._reader)
        begin, end = self._reader.tokens[start].start, self._reader.tokens[self._reader.at - 1].end
        self._changes.append((begin, end, str(kind)))

    def _word(self, token: Token) -> None:
        after = self._reader.peek()
        dotted = (before := self._before(2)) is not None and before.is_mark(".")
        if dotted:
            if self._is_qualified_call():
                self._known(token)
            self._name(token)
        elif token.is_word("AS") and self._casts and self._casts[-1]:
            self._type()
        elif token.text in ABSENT and not _is_alias(before):
            raise syntax_error(token.raw)
        elif after is not None and (token.text, after.text) in ABSENT_PAIRS:
            raise not_supported(f"{token.text} {after.text} is not supported")
        elif token.text in NOT_HERE and after is not None and not after.is_mark(".", ","):
            raise not_in_stand_in(token.text)
        elif token.text in RENAMED and not _is_alias(before):
            self._change(token, RENAMED[token.text])
        elif after is not None and after.is_mark("(") and self._is_call(token, before):
            self._call(token)
        elif token.is_word("SELECT") and after is not None and after.is_word("TOP"):
            raise not_in_stand_in("TOP")
        else:
            self._name(token)

    def _name(self, token: Token) -> None:
        """A word that may be a name: too long a one is shortened, a temporary one quoted."""
        name = folded(token.raw)
        short = self._names.behind(name)
        if name.startswith("#") or short != name:
            self._change(token, quoted(short))

    def _is_call(self, token: Token, before: Token | None) -> bool:
        if token.text in NO_CALL:
            return False
        if before is None:
            return True
        return not (before.is_word(*BEFORE_NAMES) or before.is_mark(")", ".")) or token.text in KNOWN

    def _call(self, token: Token) -> None:
        if token.text in LATE:
            close = self._reader.peek(1)
            if close is None or not close.is_mark(")"):
                raise Refusal("42883", f"function {token.raw.lower()}(unknown) does not exist")
            self.late.append((token.start, close.end, token.text))
        elif token.text not in KNOWN:
            if token.text.isidentifier() and not _is_type(token.text):
                raise Refusal("42883", f"function {token.raw.lower()}() does not exist")
        elif token.text in SPOKEN_OTHERWISE:
            self._change(token, SPOKEN_OTHERWISE[token.text])
        elif token.text in DATE_PARTS_FIRST:
            part = self._reader.peek(1)
            if part is not None and part.kind is Kind.WORD:
                self._reader.at += 2
                self._casts.append(False)
                self._change(part, "'" + part.raw.lower() + "'")


def edited(reader: Reader, names: LongNames) -> tuple[str, bool]:
    """A statement's text for PostgreSQL, and whether marks in it stand for what is known when it is carried out."""
    editor = Editor(reader, names)
    sql = editor.edit()
    for start, end, name in sorted(editor.late, reverse=True):
        call = reader.sql[start:end]
        if sql.count(call) != 1:
            raise not_in_stand_in(f"more than one {call}")
        sql = sql.replace(call, f"{LATE_MARK}{name}{LATE_MARK}")
    return sql, bool(editor.late)


def _is_alias(before: Token | None) -> bool:
    return before is not None and before.is_word("AS")


def _is_type(word: str) -> bool:
    return word in {"VARCHAR", "CHAR", "NUMERIC", "DECIMAL", "CHARACTER", "VARBYTE", "NVARCHAR"}


def refuse_foreign_windows(tokens: Sequence[Token]) -> None:
    """NULLS FIRST and NULLS LAST stand in no window of Redshift's (facts, section 5), and frames are of ROWS."""
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
