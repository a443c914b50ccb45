"""Explanation of a failed COPY: file, column and full message, from the warehouse's views of load errors."""

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
"""Limit of one query; the view takes up to 12 s to answer."""
LOOKUP_SECONDS: Final = 15.0
"""Time until a new error appears in the view."""
POLL_INTERVAL_SECONDS: Final = 1.0
_TRUNCATED_AT_CHARACTERS: Final = 100
"""Characters of a message that the older view keeps; a message of this length may be truncated."""
_VIEW_QUERIES: Final = (
    (
        "SELECT query_id, file_name, column_name, error_code, error_message FROM sys_load_error_detail"
        " WHERE session_id = %s AND query_id > %s AND start_time > dateadd(day, -1, getdate())"
        " ORDER BY query_id DESC, file_name LIMIT 20"
    ),
    # Only on provisioned clusters, for privileged users, and with truncated messages.
    (
        "SELECT query, filename, colname, err_code, err_reason FROM stl_load_errors"
        " WHERE session = %s AND query > %s AND starttime > dateadd(day, -1, getdate())"
        " ORDER BY query DESC, filename LIMIT 20"
    ),
)
"""Views of load errors. Each is used only where the earlier ones are missing or not readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadErrorRow:
    """Row of a view of load errors."""

    query: int
    file: str
    column: str
    number: int
    message: str
    is_truncated: bool
    """A truncated message may have wrong sizes."""

    @classmethod
    def from_row(cls, row: tuple[Any, ...], *, from_newer_view: bool) -> "LoadErrorRow":
        query, file, column, number, message = row
        return cls(
            query=int(query),
            file=object_key(str(file or "")),
            column=str(column or "").strip(),
            number=int(number or 0),
            message=" ".join(str(message or "").split()),
            is_truncated=not from_newer_view and len(str(message or "").rstrip()) >= _TRUNCATED_AT_CHARACTERS,
        )


class LoadErrorReader:
    """Reader of the errors of failed COPYs in one session.

    A row of the view that is older than the last one returned belongs to another COPY, and
    so does one with a file that this COPY did not load.
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
        """The index of the first view that was not refused."""

    def explain(self, error: HintedError, *, table: str, keys: Collection[str] = ()) -> HintedError:
        """Return the error of the last failed COPY of this session, with all that is known of it.

        `table` is the name of the stream, `keys` are the files of the COPY. The transaction must
        be over. Where the view is empty, not readable or too slow, the error keeps its message.
        """
        if not isinstance(error, FileRefused | RowRefused):
            return error
        row = self._find_row(keys) if self._session.is_alive and not self._session.in_transaction else None
        if row is None:
            return _build_error(type(error), table, {"reason": error.message, **error.facts})
        return _from_view(row, error, table)

    def _find_row(self, keys: Collection[str]) -> LoadErrorRow | None:
        deadline = self._now() + self._lookup_seconds
        while True:
            rows = self._query_view()
            if rows is None:
                return None  # the first error is the one to report
            own = next((row for row in rows if _is_among(row.file, keys)), None)
            if rows:
                self._last_query = max(row.query for row in rows)
            if own is not None or self._now() + POLL_INTERVAL_SECONDS > deadline:
                return own
            self._wait(POLL_INTERVAL_SECONDS)

    def _query_view(self) -> list[LoadErrorRow] | None:
        """Return the rows of the first readable view; None where there is none, or no answer."""
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
    """Return whether a file is one of these; the view truncates long names, and an error of a manifest has no file."""
    return not keys or not file or any(key == file or key.startswith(file) for key in keys)


def _from_view(row: LoadErrorRow, error: HintedError, table: str) -> HintedError:
    state = str(error.facts.get("code", ""))
    error_class = classify_error(ServerError(state=state, number=row.number, message=row.message))
    if error_class not in {RowRefused, FileRefused}:
        error_class = type(error)
    message = mask_secrets(row.message)
    facts = {**error.facts, "number": row.number}
    if row.is_truncated:
        # A truncated number still looks like a number, so the message of the error comes first.
        facts["reason"] = facts.get("reason") or f"{message}…"
    else:
        facts |= {**parse_load_error(message), "reason": message}
    if row.file:
        facts["file"] = row.file
    if row.column:
        facts["column"] = row.column
    return _build_error(error_class, table, facts)


def _build_error(error_class: type[HintedError], table: str, facts: dict[str, Any]) -> HintedError:
    places = [f"{name} {facts[name]}" for name in ("file", "column") if facts.get(name)]
    where = f" {', '.join(places)}:" if places else ""
    return error_class(f"{table}:{where} {_describe_facts(facts)}", hint=_hint(table, facts), **facts)


def _describe_facts(facts: dict[str, Any]) -> str:
    if "size" in facts and "width" in facts:
        return f"value of {facts['size']:,} bytes, the column takes at most {facts['width']:,}"
    return str(facts["reason"])


def _hint(table: str, facts: dict[str, Any]) -> str:
    reason = str(facts["reason"]).lower()
    if "not found" in reason or "does not exist" in reason:
        return f"Restore the file in the bucket as it was, then: syncd run -t {table} --load-only"
    return f"Compare the file with the target: syncd plan -t {table}"
