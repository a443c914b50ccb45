"""What a run would come to, counted and guessed."""

from typing import Any

import pytest

from syncd.lake.read_requests import PART_BYTES
from syncd.operations.run_forecast import ExtractForecast, LoadForecast, RowCosts

RATES = RowCosts(read_seconds=0.001, load_seconds=0.002, bytes=100.0)


def planned(rows: int | None = 1_000, windows: int = 2) -> dict[str, Any]:
    return {"kind": "increment", "already_planned": False, "windows": [()] * windows, "body": {"rows_at_most": rows}}


def test_where_nothing_is_to_be_read_nothing_is_foretold() -> None:
    reading = ExtractForecast.from_plan(None, estimated_rows=None, batch_rows=1_000, costs=RATES)

    assert (reading.kind, reading.rows, reading.batches, reading.bytes) == (None, 0, 0, None)


def test_the_guess_counts_where_there_is_one_and_else_what_the_next_batch_has_at_most() -> None:
    reading = ExtractForecast.from_plan(planned(), estimated_rows=2_500, batch_rows=1_000, costs=RATES)

    assert (reading.next_rows, reading.rows, reading.batches, reading.files) == (1_000, 2_500, 3, 6)
    assert (reading.bytes, reading.seconds) == (250_000, 2.5)
    assert ExtractForecast.from_plan(planned(), estimated_rows=1, batch_rows=1_000, costs=RATES).rows == 1
    assert ExtractForecast.from_plan(planned(), estimated_rows=None, batch_rows=1_000, costs=RATES).rows == 1_000


def test_large_windows_fill_several_files() -> None:
    reading = ExtractForecast.from_plan(planned(), estimated_rows=10 * PART_BYTES // 100, batch_rows=10**9, costs=RATES)

    assert reading.files == 10


def test_what_nobody_knows_stays_unknown() -> None:
    reading = ExtractForecast.from_plan(planned(rows=None), estimated_rows=None, batch_rows=1_000, costs=RowCosts())
    landing = LoadForecast.from_pending(
        {"batches": 1, "rows": 5, "files": 1}, reading, schemas=1, ddl=(), costs=RowCosts()
    )

    assert (reading.rows, reading.batches, reading.files, reading.seconds) == (None, None, None, None)
    assert (landing.rows, landing.batches, landing.files) == (None, None, None)


@pytest.mark.parametrize(("pending", "rows"), [(None, 1_000), ({"batches": 2, "rows": 7, "files": 3}, 1_007)])
def test_what_waits_lands_with_what_is_read(pending: dict[str, int] | None, rows: int) -> None:
    reading = ExtractForecast.from_plan(planned(), estimated_rows=None, batch_rows=1_000, costs=RATES)

    landing = LoadForecast.from_pending(pending, reading, schemas=1, ddl=("CREATE TABLE t",), costs=RATES)

    assert (landing.rows, landing.copies, landing.seconds) == (rows, 1, rows * 0.002)
