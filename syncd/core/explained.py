"""What EXPLAIN says of a probe, in the one form that both servers still print."""

from collections.abc import Sequence
from typing import Final

_KEY: Final = {False: 6, True: 5}
"""Where the index stands in a line of MySQL, and of MariaDB, which has no column for partitions."""

_NOTHING: Final = ("impossible", "no matching", "const table", "no tables used")


def explain(sql: str) -> str:
    return f"EXPLAIN FORMAT=TRADITIONAL {sql}"


def judge(lines: Sequence[tuple[object, ...]], *, index: str, mariadb: bool) -> str | None:
    """Why the statement would cost more than the rows it reads; None where it does not."""
    if len(lines) != 1:
        return f"it takes {len(lines)} steps"
    line = lines[0]
    key, extra = line[_KEY[mariadb]], str(line[-1] or "").lower()
    if any(word in extra for word in _NOTHING):
        return None
    if key != index:
        return f"it would read by index {key}" if key else "it would scan the whole table"
    return "it would sort what it reads" if "filesort" in extra else None
