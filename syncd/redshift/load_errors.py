"""Why a COPY failed: file, column and the whole sentence, from where the warehouse keeps them."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from syncd.errors import FileRefused, RowRefused, WarehouseUnfit
from syncd.redshift.error_table import Refusal, key_of, masked, meaning_of, told_of
from syncd.redshift.session import Session
from watermarks.errors import HintedError

WITHIN: Final = timedelta(seconds=30)
"""For one question: the view takes up to 12 s to answer."""
ASKED_FOR: Final = 15.0
"""Seconds in which an error of a moment ago may come up in the view."""
EVERY: Final = 1.0
_CUT_AT: Final = 100
"""Characters of a sentence that the older view keeps; what is that long may have gone on."""
_VIEWS: Final = (
    (
        "SELECT query_id, file_name, column_name, error_code, error_message, column_length FROM sys_load_error_detail"
        " WHERE session_id = %s AND query_id > %s AND start_time > dateadd(day, -1, getdate())"
        " ORDER BY query_id DESC, file_name LIMIT 20"
    ),
    # Of provisioned clusters alone, and for those who may read it; it cuts what it keeps.
    (
        "SELECT query, filename, colname, err_code, err_reason, col_length FROM stl_load_errors"
        " WHERE session = %s AND query > %s AND starttime > dateadd(day, -1, getdate())"
        " ORDER BY query DESC, filename LIMIT 20"
    ),
)
"""Where load errors are kept. Each is asked only where the ones before are closed to us, or not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A row of the view."""

    query: int
    file: str
    column: str
    number: int
    sentence: str
    width: str
    cut: bool
    """Whether the sentence may have gone on: what it says of sizes is not to be believed."""

    @classmethod
    def of(cls, row: tuple[Any, ...], *, newer: bool) -> "Found":
        query, file, column, number, sentence, width = row
        return cls(
            query=int(query),
            file=key_of(str(file or "")),
            column=str(column or "").strip(),
            number=int(number or 0),
            sentence=" ".join(str(sentence or "").split()),
            width=str(width or "").strip(),
            cut=not newer and len(str(sentence or "").rstrip()) >= _CUT_AT,
        )


class LoadErrors:
    """Tells the failed COPYs of one session, one after another.

    A row of the view that is older than the last one told here belongs to another COPY,
    and so does one whose file this one did not load: no file is blamed for another.
    """

    def __init__(
        self,
        session: Session,
        *,
        wait: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        patience: float = ASKED_FOR,
    ) -> None:
        self._session = session
        self._wait = wait
        self._now = now
        self._patience = patience
        self._last = -1
        self._view = 0
        """Which of the views is open to us, as far as that has been tried."""

    def explained(self, error: HintedError, *, table: str, keys: Collection[str] = ()) -> HintedError:
        """The error of a COPY that failed last on this session, with all that is known of it.

        `table` is what the stream is called, `keys` are the files that were to be loaded.
        The transaction must be over. Where the view is empty, closed to us, or silent for
        too long, the error says what it said before.
        """
        if not isinstance(error, FileRefused | RowRefused):
            return error
        found = self._found(keys) if self._session.alive and not self._session.in_transaction else None
        return _from_view(found, error, table) if found is not None else _from_error(error, table)

    def _found(self, keys: Collection[str]) -> Found | None:
        deadline = self._now() + self._patience
        while True:
            found = self._asked()
            if found is None:
                return None  # what failed first is what has to be told
            mine = next((one for one in found if _is_among(one.file, keys)), None)
            if found:
                self._last = max(one.query for one in found)
            if mine is not None or self._now() + EVERY > deadline:
                return mine
            self._wait(EVERY)

    def _asked(self) -> list[Found] | None:
        """The rows of the first view that is open to us; None where none is, or no answer came."""
        while self._view < len(_VIEWS):
            try:
                rows = self._session.rows(_VIEWS[self._view], (self._session.pid, self._last), within=WITHIN)
            except WarehouseUnfit:
                self._view += 1
            except HintedError:
                return None
            else:
                return [Found.of(row, newer=not self._view) for row in rows]
        return None


def _is_among(file: str, keys: Collection[str]) -> bool:
    """Whether a file is one of those; a long name may be cut in the view, and a manifest's trouble names none."""
    return not keys or not file or any(key == file or key.startswith(file) for key in keys)


def _from_view(found: Found, error: HintedError, table: str) -> HintedError:
    refusal = Refusal(state=str(error.facts.get("code", "")), number=found.number, sentence=found.sentence)
    means = meaning_of(refusal)
    if means not in {RowRefused, FileRefused}:
        means = type(error)
    sentence = masked(found.sentence)
    facts = {**error.facts, "number": found.number}
    # A number that was cut off in the middle looks like a number: what the error itself said goes before it.
    facts |= (
        {"reason": facts.get("reason") or f"{sentence}…"} if found.cut else {**told_of(sentence), "reason": sentence}
    )
    if found.file:
        facts["file"] = found.file
    if found.column:
        facts["column"] = found.column
    return _told(means, table, facts)


def _from_error(error: HintedError, table: str) -> HintedError:
    return _told(type(error), table, {"reason": error.message, **error.facts})


def _told(means: type[HintedError], table: str, facts: dict[str, Any]) -> HintedError:
    places = [f"{word} {facts[word]}" for word in ("file", "column") if facts.get(word)]
    where = f" {', '.join(places)}:" if places else ""
    return means(f"{table}:{where} {_short(facts)}", hint=_hint(table, facts), **facts)


def _short(facts: dict[str, Any]) -> str:
    if "size" in facts and "width" in facts:
        return f"value of {facts['size']:,} bytes, the column holds {facts['width']:,}"
    return str(facts["reason"])


def _hint(table: str, facts: dict[str, Any]) -> str:
    reason = str(facts["reason"]).lower()
    if "not found" in reason or "does not exist" in reason:
        return f"Restore the file in the bucket as it was, then: syncd run -t {table} --load-only"
    return f"Compare the file with the target: syncd plan -t {table}"
