"""Classification of running statements by what a process list shows."""

import re
from typing import Final

REPLICATION_USER: Final = "system user"

_IDLE: Final = frozenset({"sleep", "daemon", "binlog dump", "binlog dump gtid"})
_DDL: Final = frozenset({"drop", "alter", "truncate", "rename", "optimize"})
_EVALUATES_FIRST: Final = frozenset({"set", "execute"})
"""By their text: MariaDB's SET STATEMENT and EXECUTE IMMEDIATE compute values before they open tables."""

PAST_LOCKING: Final = frozenset(
    {
        "copying to tmp table",
        "creating sort index",
        "deleting from main table",
        "deleting from reference tables",
        "executing",
        "sending data",
        "sorting result",
        "statistics",
        "update",
        "updating",
        "updating main table",
        "updating reference tables",
        "user lock",
        "user sleep",
    }
)
"""States that a statement has only after it took all metadata locks; any other state proves nothing."""

_WAITS_FOR_EVENTS: Final = frozenset({"waiting on empty queue", "waiting for next activation"})

# Comments that the server runs are statements, not comments.
_LEADING: Final = re.compile(r"(?:\s|/\*(?!M?!).*?\*/)*([a-z]+)(?:\s+([a-z]+))?", re.IGNORECASE | re.DOTALL)


def kind_from_event(name: str | None) -> str:
    """Return the kind in the name of a statement event: `statement/sql/drop_table` gives `drop_table`.

    A protocol command gives none: `statement/com/Execute` may be any statement, and computes no part of it
    beforehand, as EXECUTE does.
    """
    return name.rpartition("/")[2].lower() if name and not name.startswith("statement/com/") else ""


def kind_from_text(text: str | None) -> str:
    """Return the kind that the first words of a statement name; empty if they name none."""
    match = _LEADING.match(text or "")
    if match is None:
        return ""
    first, second = match[1].lower(), (match[2] or "").lower()
    if first == "drop":
        return f"drop_{second}"
    return "lock_tables" if first == "lock" and second in {"table", "tables"} else first


def is_ddl(kind: str) -> bool:
    """Return whether the statement changes tables and no rows: it may wait for long, and stamps nothing.

    CREATE does not count (it may SELECT), nor ANALYZE (MariaDB's `ANALYZE UPDATE` updates), nor DROP TEMPORARY: a
    function may run it while the statement around it has stamped.
    """
    if kind in {"drop_", "drop_temporary"}:
        return False
    return kind == "lock_tables" or kind.partition("_")[0] in _DDL


def is_ignored(command: str, user: str, kind: str, state: str) -> bool:
    """Return whether the thread cannot stamp rows."""
    return command.lower() in _IDLE or _is_scheduler(user, state) or is_ddl(kind)


def _is_scheduler(user: str, state: str) -> bool:
    """Return whether the thread starts events, as opposed to running one.

    The performance schema shows both with this user and as Connect; the scheduler does nothing but wait.
    """
    return user == "event_scheduler" and state.lower() in _WAITS_FOR_EVENTS


def is_replication(command: str, user: str) -> bool:
    """Return whether the connection applies another server's changes: then rows are stamped there."""
    return user == REPLICATION_USER and command.lower() not in {"sleep", "daemon"}


def is_past_locking(state: str, kind: str) -> bool:
    """Return whether the statement has taken all its locks."""
    return state.lower() in PAST_LOCKING and kind not in _EVALUATES_FIRST


def may_write(kind: str) -> bool:
    """Return whether the statement may be one that needs a table lock to work."""
    return kind.partition("_")[0] in {"", "insert", "replace", "update", "delete", "load"}


def is_xa(text: str | None) -> bool:
    """Return whether a transaction's statement is an XA statement: its work may have been another connection's."""
    return text is not None and re.search(r"\bxa\b", text, re.IGNORECASE) is not None


def is_write_lock(kind: str) -> bool:
    """Return whether a metadata lock of this kind permits changing rows; MariaDB puts `MDL_` before it."""
    return kind.upper().removeprefix("MDL_") not in {"SHARED", "SHARED_HIGH_PRIO", "SHARED_READ", "SHARED_READ_ONLY"}
