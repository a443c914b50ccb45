"""What the rows of a poll's answers mean."""

from syncd.mysql.horizon_queries import parse_locks
from syncd.ports.source import TableName

T = TableName(database="shop", table="t")
READS = ("shop", "t", 7, "SHARED_READ")
WRITES = ("shop", "t", 8, "SHARED_WRITE")


def test_who_only_reads_holds_locks_and_no_table() -> None:
    assert parse_locks([READS, WRITES]) == {7: frozenset(), 8: frozenset({T})}


def test_a_lock_to_read_by_that_has_no_owner_is_nobodys() -> None:
    assert parse_locks([("shop", "t", None, "SHARED_READ"), WRITES]) == {8: frozenset({T})}


def test_where_a_lock_to_write_by_has_no_owner_nothing_is_known_of_anybody() -> None:
    assert parse_locks([READS, WRITES, ("shop", "u", None, "SHARED_WRITE")]) is None
