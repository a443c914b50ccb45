"""Result of EXPLAIN for a probe, in the one format that both servers still print."""

from collections.abc import Sequence
from typing import Final

_KEY_POSITION: Final = {False: 6, True: 5}
"""Column of the index in a row of MySQL and of MariaDB, which has no column for partitions."""

_ROWS_POSITION: Final = {False: 9, True: 8}
"""Column of the row count."""

_ONE_ROW: Final = "system"
"""Access type with which MyISAM and Aria read the only row of a table, before they consider an index."""

_NO_READ_REMARKS: Final = ("impossible", "no matching", "const table", "no tables used")


def explain_sql(sql: str) -> str:
    return f"EXPLAIN FORMAT=TRADITIONAL {sql}"


def find_plan_problem(lines: Sequence[tuple[object, ...]], *, index: str, mariadb: bool) -> str | None:
    """Return why the statement would read more than the rows it selects; None if it would not."""
    if len(lines) != 1:
        return f"it takes {len(lines)} steps"
    line = lines[0]
    how, key, extra = line[_KEY_POSITION[mariadb] - 2], line[_KEY_POSITION[mariadb]], str(line[-1] or "").lower()
    if how == _ONE_ROW or any(word in extra for word in _NO_READ_REMARKS):
        return None
    if key != index:
        return f"it would read by index {key}" if key else "it would scan the whole table"
    return "it would sort what it reads" if "filesort" in extra else None


def estimate_rows(lines: Sequence[tuple[object, ...]], *, mariadb: bool) -> int | None:
    """Return the server's estimate of the rows that the statement reads; None if it gives none."""
    if len(lines) != 1:
        return None
    if any(word in str(lines[0][-1] or "").lower() for word in _NO_READ_REMARKS):
        return 0
    rows = lines[0][_ROWS_POSITION[mariadb]]
    if rows is None:
        return None
    # The next column of MySQL is the percentage of rows that it expects to match.
    share = 100.0 if mariadb else float(str(lines[0][_ROWS_POSITION[mariadb] + 1] or 100))
    return round(int(str(rows)) * share / 100)
