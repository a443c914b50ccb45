"""What a run would come to, counted and guessed."""

from typing import Any

import pytest

from syncd.operations.forecast import PART_BYTES, Landing, Rates, Reading

RATES = Rates(read_seconds=0.001, load_seconds=0.002, bytes=100.0)


def planned(rows: int | None = 1_000, windows: int = 2) -> dict[str, Any]:
    return {"kind": "increment", "sealed": False, "windows": [()] * windows, "body": {"rows_at_most": rows}}


def test_where_nothing_is_to_be_read_nothing_is_foretold() -> None:
    reading = Reading.of(None, guess=None, most=1_000, rates=RATES)

    assert (reading.kind, reading.rows, reading.batches, reading.bytes) == (None, 0, 0, None)


def test_the_guess_counts_where_there_is_one_and_else_what_the_next_batch_has_at_most() -> None:
    reading = Reading.of(planned(), guess=2_500, most=1_000, rates=RATES)

    assert (reading.next_rows, reading.rows, reading.batches, reading.files) == (1_000, 2_500, 3, 6)
    assert (reading.bytes, reading.seconds) == (250_000, 2.5)
    assert Reading.of(planned(), guess=1, most=1_000, rates=RATES).rows == 1
    assert Reading.of(planned(), guess=None, most=1_000, rates=RATES).rows == 1_000


def test_large_windows_fill_several_files() -> None:
    reading = Reading.of(planned(), guess=10 * PART_BYTES // 100, most=10**9, rates=RATES)

    assert reading.files == 10


def test_what_nobody_knows_stays_unknown() -> None:
    reading = Reading.of(planned(rows=None), guess=None, most=1_000, rates=Rates())
    landing = Landing.of({"batches": 1, "rows": 5, "files": 1}, reading, schemas=1, ddl=(), rates=Rates())

    assert (reading.rows, reading.batches, reading.files, reading.seconds) == (None, None, None, None)
    assert (landing.rows, landing.batches, landing.files) == (None, None, None)


@pytest.mark.parametrize(("pending", "rows"), [(None, 1_000), ({"batches": 2, "rows": 7, "files": 3}, 1_007)])
def test_what_waits_lands_with_what_is_read(pending: dict[str, int] | None, rows: int) -> None:
    reading = Reading.of(planned(), guess=None, most=1_000, rates=RATES)

    landing = Landing.of(pending, reading, schemas=1, ddl=("CREATE TABLE t",), rates=RATES)

    assert (landing.rows, landing.copies, landing.seconds) == (rows, 1, rows * 0.002)
