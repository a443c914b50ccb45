"""What EXPLAIN says of a probe, in the one form that both servers still print."""

from collections.abc import Sequence
from typing import Final

_KEY_POSITION: Final = {False: 6, True: 5}
"""Where the index stands in a line of MySQL, and of MariaDB, which has no column for partitions."""

_ROWS_POSITION: Final = {False: 9, True: 8}
"""Where the number of rows stands."""

_ONE_ROW: Final = "system"
"""How MyISAM and Aria reach the only row of a table: it is read before any index is thought of."""

_NO_READ_REMARKS: Final = ("impossible", "no matching", "const table", "no tables used")


def explain_sql(sql: str) -> str:
    return f"EXPLAIN FORMAT=TRADITIONAL {sql}"


def find_plan_problem(lines: Sequence[tuple[object, ...]], *, index: str, mariadb: bool) -> str | None:
    """Why the statement would cost more than the rows it reads; None where it does not."""
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
    """About how many rows the statement would read, as the server guesses; None where it tells no number."""
    if len(lines) != 1:
        return None
    if any(word in str(lines[0][-1] or "").lower() for word in _NO_READ_REMARKS):
        return 0
    told = lines[0][_ROWS_POSITION[mariadb]]
    if told is None:
        return None
    # Behind it MySQL says how many of a hundred it expects to fit.
    share = 100.0 if mariadb else float(str(lines[0][_ROWS_POSITION[mariadb] + 1] or 100))
    return round(int(str(told)) * share / 100)
