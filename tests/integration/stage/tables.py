"""A table of orders as the tests of the stage make it, and what must stand in the lake when all of it was read."""

from tests.integration.stage.conftest import Pipe

STREAM = "mysql/shop.orders"
ROWS = 4000
LAYOUT = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, v INT NOT NULL DEFAULT 1, pad TEXT, update_at DATETIME(6) NOT NULL"
    " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id)) CHARACTER SET utf8mb4"
)


def fill(pipe: Pipe, *, layout: str = LAYOUT, copies: int = 4, pad: int = 1) -> int:
    """Make the table anew with so many thousand rows, each `pad` times 64 bytes wide; how many there are."""
    pipe.sql("DROP VIEW IF EXISTS orders", "DROP TABLE IF EXISTS orders", layout, *inserts(copies, pad))
    return copies * 1000


def inserts(copies: int, pad: int = 1) -> list[str]:
    first = (
        "INSERT INTO orders (id, pad, update_at) WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < 1000) SELECT i, REPEAT(SHA2(i, 256), {pad}), '2026-01-01' + INTERVAL i SECOND FROM n"
    )
    return [
        first,
        *(
            f"INSERT INTO orders (id, pad, update_at) SELECT id + {at * 1000}, pad, update_at FROM orders"
            " WHERE id <= 1000"
            for at in range(1, copies)
        ),
    ]


def require_whole(pipe: Pipe, count: int = ROWS) -> None:
    """Every row stands in the lake, once, and nothing else does; the mark says so."""
    found = pipe.lake.rows(STREAM, "id")
    assert set(found) == {(number,) for number in range(1, count + 1)}
    assert set(found.values()) == {1}
    assert not pipe.lake.orphans(STREAM)
    document = pipe.lake.document(f"watermarks/{STREAM}.json")
    assert document["extracted_seq"] == len(pipe.lake.links(STREAM))
    assert document["mysql_rows_extracted"] == count
    assert document["last_mysql_data_timestamp"]


def require_unmoved(pipe: Pipe) -> None:
    """Nothing of the stream was read, as far as anybody can tell."""
    assert not pipe.lake.rows(STREAM, "id")
    if keys := pipe.lake.keys(f"watermarks/{STREAM}"):
        document = pipe.lake.document(keys[0])
        assert document["last_mysql_data_timestamp"] is None
        assert document["mysql_rows_extracted"] == 0
