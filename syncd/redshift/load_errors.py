"""Why a COPY failed: file, column and the whole sentence, from where the warehouse keeps them."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from syncd.errors import FileRefused, RowRefused, WarehouseUnfit
from syncd.redshift.error_table import ServerError, classify_error, mask_secrets, object_key, parse_load_error
from syncd.redshift.session import WarehouseSession
from watermarks.errors import HintedError

QUERY_TIMEOUT: Final = timedelta(seconds=30)
"""For one question: the view takes up to 12 s to answer."""
LOOKUP_SECONDS: Final = 15.0
"""Seconds in which an error of a moment ago may come up in the view."""
POLL_INTERVAL_SECONDS: Final = 1.0
_TRUNCATED_AT_CHARACTERS: Final = 100
"""Characters of a sentence that the older view keeps; what is that long may have gone on."""
_VIEW_QUERIES: Final = (
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
class LoadErrorRow:
    """A row of the view."""

    query: int
    file: str
    column: str
    number: int
    message: str
    width: str
    is_truncated: bool
    """Whether the sentence may have gone on: what it says of sizes is not to be believed."""

    @classmethod
    def from_row(cls, row: tuple[Any, ...], *, from_newer_view: bool) -> "LoadErrorRow":
        query, file, column, number, sentence, width = row
        return cls(
            query=int(query),
            file=object_key(str(file or "")),
            column=str(column or "").strip(),
            number=int(number or 0),
            message=" ".join(str(sentence or "").split()),
            width=str(width or "").strip(),
            is_truncated=not from_newer_view and len(str(sentence or "").rstrip()) >= _TRUNCATED_AT_CHARACTERS,
        )


class LoadErrorReader:
    """Tells the failed COPYs of one session, one after another.

    A row of the view that is older than the last one told here belongs to another COPY,
    and so does one whose file this one did not load: no file is blamed for another.
    """

    def __init__(
        self,
        session: WarehouseSession,
        *,
        wait: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        lookup_seconds: float = LOOKUP_SECONDS,
    ) -> None:
        self._session = session
        self._wait = wait
        self._now = now
        self._lookup_seconds = lookup_seconds
        self._last_query = -1
        self._view = 0
        """Which of the views is open to us, as far as that has been tried."""

    def explain(self, error: HintedError, *, table: str, keys: Collection[str] = ()) -> HintedError:
        """The error of a COPY that failed last on this session, with all that is known of it.

        `table` is what the stream is called, `keys` are the files that were to be loaded.
        The transaction must be over. Where the view is empty, closed to us, or silent for
        too long, the error says what it said before.
        """
        if not isinstance(error, FileRefused | RowRefused):
            return error
        found = self._find_row(keys) if self._session.is_alive and not self._session.in_transaction else None
        return _from_view(found, error, table) if found is not None else _from_error(error, table)

    def _find_row(self, keys: Collection[str]) -> LoadErrorRow | None:
        deadline = self._now() + self._lookup_seconds
        while True:
            found = self._query_view()
            if found is None:
                return None  # what failed first is what has to be told
            mine = next((one for one in found if _is_among(one.file, keys)), None)
            if found:
                self._last_query = max(one.query for one in found)
            if mine is not None or self._now() + POLL_INTERVAL_SECONDS > deadline:
                return mine
            self._wait(POLL_INTERVAL_SECONDS)

    def _query_view(self) -> list[LoadErrorRow] | None:
        """The rows of the first view that is open to us; None where none is, or no answer came."""
        while self._view < len(_VIEW_QUERIES):
            try:
                rows = self._session.rows(
                    _VIEW_QUERIES[self._view], (self._session.pid, self._last_query), within=QUERY_TIMEOUT
                )
            except WarehouseUnfit:
                self._view += 1
            except HintedError:
                return None
            else:
                return [LoadErrorRow.from_row(row, from_newer_view=not self._view) for row in rows]
        return None


def _is_among(file: str, keys: Collection[str]) -> bool:
    """Whether a file is one of those; a long name may be cut in the view, and a manifest's trouble names none."""
    return not keys or not file or any(key == file or key.startswith(file) for key in keys)


def _from_view(existing: LoadErrorRow, error: HintedError, table: str) -> HintedError:
    refusal = ServerError(state=str(error.facts.get("code", "")), number=existing.number, message=existing.message)
    means = classify_error(refusal)
    if means not in {RowRefused, FileRefused}:
        means = type(error)
    sentence = mask_secrets(existing.message)
    facts = {**error.facts, "number": existing.number}
    # A number that was cut off in the middle looks like a number: what the error itself said goes before it.
    facts |= (
        {"reason": facts.get("reason") or f"{sentence}…"}
        if existing.is_truncated
        else {**parse_load_error(sentence), "reason": sentence}
    )
    if existing.file:
        facts["file"] = existing.file
    if existing.column:
        facts["column"] = existing.column
    return _build_error(means, table, facts)


def _from_error(error: HintedError, table: str) -> HintedError:
    return _build_error(type(error), table, {"reason": error.message, **error.facts})


def _build_error(error_class: type[HintedError], table: str, facts: dict[str, Any]) -> HintedError:
    places = [f"{word} {facts[word]}" for word in ("file", "column") if facts.get(word)]
    where = f" {', '.join(places)}:" if places else ""
    return error_class(f"{table}:{where} {_describe_facts(facts)}", hint=_hint(table, facts), **facts)


def _describe_facts(facts: dict[str, Any]) -> str:
    if "size" in facts and "width" in facts:
        return f"value of {facts['size']:,} bytes, the column holds {facts['width']:,}"
    return str(facts["reason"])


def _hint(table: str, facts: dict[str, Any]) -> str:
    reason = str(facts["reason"]).lower()
    if "not found" in reason or "does not exist" in reason:
        return f"Restore the file in the bucket as it was, then: syncd run -t {table} --load-only"
    return f"Compare the file with the target: syncd plan -t {table}"
