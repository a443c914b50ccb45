"""The extract stage killed at each of its points: the next run is complete, nothing is doubled, no orphan stays."""

import signal

import pytest

from syncd.extract.extract_pass import ExtractState
from tests.integration.stage.conftest import Pipe
from tests.services.victim import REACHED, READING

pytestmark = pytest.mark.services

COPIES, MANY = 3, 61
"""How often a thousand rows stand in the table; of many, a batch has two windows."""
STREAM = "mysql/shop.orders"
POINTS = (
    *(f"{when} create {place}" for when in ("before", "after") for place in ("owners", "claims", "plans", "batches")),
    *(f"{when} create history {entry}" for when in ("before", "after") for entry in (1, 2)),
    *(f"{when} {verb} watermarks" for when in ("before", "after") for verb in ("create", "replace")),
    *(f"{when} replace claims" for when in ("before", "after")),
    *READING,
)
FEW = ("after create plans", "a part stands", "after create history 2")
"""What every change is held to; `make test-long` plays them all."""


def fill(pipe: Pipe, copies: int = COPIES) -> int:
    """The table; how many rows it has."""
    # One window after the other, on any machine: two are planned (the third connection is for questions), and Spark is
    # told to do one at a time.
    pipe.options, pipe.spark = "max_connections: 3", "master: 'local[2]', conf: {spark.default.parallelism: '1'}"
    pipe.tables = "orders: {batch_rows: 100000}"
    pipe.sql(
        "DROP TABLE IF EXISTS orders",
        "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, v INT NOT NULL DEFAULT 1, note VARCHAR(40),"
        " update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
        " KEY (update_at, id)) CHARACTER SET utf8mb4",
        "INSERT INTO orders (id, note, update_at) WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 999) SELECT i, 'a', '2026-01-01' + INTERVAL i DIV 7 SECOND FROM n",
        *(
            f"INSERT INTO orders SELECT id + {at * 999}, v, note, update_at FROM orders WHERE id < 1000"
            for at in range(1, copies)
        ),
        "INSERT INTO orders VALUES (500000, 1, NULL, '2026-02-01'), (500001, 2, '', '2026-02-01'),"
        " (18446744073709551615, 3, 'last', '2026-02-01')",
    )
    return copies * 999 + 3


def whole(pipe: Pipe, count: int) -> None:
    """Every row of the table stands in the lake, once, and nothing else does."""
    rows = pipe.sql("SELECT id, v FROM orders")
    assert len(rows) == count
    found = pipe.lake.rows(STREAM, "id", "v")
    assert set(found.values()) == {1}
    assert {(int(key), v) for key, v in found} == set(rows)
    assert not pipe.lake.orphans(STREAM)
    links = pipe.lake.links(STREAM)
    document = pipe.lake.document(f"watermarks/{STREAM}.json")
    assert document["extracted_seq"] == len(links)
    assert document["mysql_rows_extracted"] == count


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in FEW else pytest.mark.long) for point in POINTS]
)
def test_the_next_run_finishes_what_a_kill_left(pipe: Pipe, point: str) -> None:
    count = fill(pipe, MANY if point == "between windows" else COPIES)
    victim = pipe.victim(point, signal.SIGKILL)
    told = victim.communicate(timeout=600)[1]
    assert victim.returncode == -signal.SIGKILL, told
    assert REACHED in told

    outcome = pipe.run()

    assert outcome.error is None
    whole(pipe, count)
    again = pipe.run()
    assert (again.state, again.rows) == (ExtractState.NOTHING, 0)
    whole(pipe, count)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("before create plans", marks=pytest.mark.long),
        "before create batches",
        pytest.param("before create history 2", marks=pytest.mark.long),
    ],
)
def test_a_paused_run_that_wakes_after_a_takeover_changes_nothing(pipe: Pipe, point: str) -> None:
    count = fill(pipe)
    victim = pipe.victim(point, signal.SIGSTOP, ttl=2.0)
    try:
        assert victim.stderr is not None
        assert any(REACHED in line for line in victim.stderr)

        outcome = pipe.run(ttl=2.0)
        assert outcome.error is None
        whole(pipe, count)
        before = pipe.lake.keys("")

        victim.send_signal(signal.SIGCONT)
        told = victim.communicate(timeout=600)[1]
    finally:
        victim.kill()
        victim.wait()

    assert victim.returncode == 1
    assert "Fenced" in told or "Ended" in told
    assert sorted(pipe.lake.keys("")) == sorted(before)
    whole(pipe, count)
