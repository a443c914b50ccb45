"""Tables that nobody would make on purpose: names that mean something to the reader, rows longer than a packet."""

from collections.abc import Iterator

import pytest

from syncd.errors import SourceUnfit
from tests.integration.stage.conftest import Pipe
from tests.integration.stage.tables import STREAM, fill, require_unmoved, require_whole

pytestmark = pytest.mark.services

STAMP = "update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at)"
PACKET = 1 << 20


@pytest.fixture
def small_packets(pipe: Pipe) -> Iterator[Pipe]:
    """A server that takes packets of 1 MB, with a row of two values that are each shorter, and together longer."""
    pipe.sql(
        "DROP TABLE IF EXISTS orders", f"CREATE TABLE orders (id INT PRIMARY KEY, a LONGBLOB, b LONGBLOB, {STAMP})"
    )
    [(before,)] = pipe.sql("SELECT @@GLOBAL.max_allowed_packet")
    pipe.sql(f"SET GLOBAL max_allowed_packet = {PACKET}")
    try:
        half = f"REPEAT('x', {PACKET * 2 // 3})"
        pipe.sql(f"INSERT INTO orders (id, a, b) VALUES (1, {half}, {half}), (2, 'a', 'b')")
        yield pipe
    finally:
        pipe.sql(f"SET GLOBAL max_allowed_packet = {before}")


@pytest.mark.parametrize("name", ["a.b", "a`b", "*", "a.*", "{fn now()}", "?"])
def test_a_column_is_read_whatever_its_name_is(pipe: Pipe, name: str) -> None:
    column = name.replace("`", "``")
    pipe.sql(
        "DROP TABLE IF EXISTS orders",
        f"CREATE TABLE orders (id INT PRIMARY KEY, `{column}` VARCHAR(9) CHARACTER SET cp1251, {STAMP})",
        "INSERT INTO orders VALUES (1, 'why?', DEFAULT)",
    )

    outcome = pipe.run()

    assert outcome.error is None
    assert set(pipe.lake.rows(STREAM, "id", name)) == {(1, "why?")}


def test_a_row_longer_than_the_servers_packets_stops_the_stream_and_says_what_lets_it_pass(small_packets: Pipe) -> None:
    """Connector/J takes no longer packet than the server would: that is so at every attempt, and nobody is down."""
    outcome = small_packets.run()

    assert isinstance(outcome.error, SourceUnfit)
    assert "max_allowed_packet" in outcome.error.hint
    require_unmoved(small_packets)


def test_a_row_longer_than_the_servers_packets_is_read_by_the_other_driver(small_packets: Pipe) -> None:
    small_packets.spark = "driver: mariadb"

    outcome = small_packets.run()

    assert (outcome.error, outcome.rows) == (None, 2)


def test_a_query_may_end_in_a_comment(pipe: Pipe) -> None:
    fill(pipe)
    pipe.tables = "orders: {query: 'SELECT id, v, pad, update_at FROM shop.orders WHERE ${window} -- all of them'}"

    outcome = pipe.run()

    assert outcome.error is None
    require_whole(pipe)


def test_a_query_that_the_server_does_not_understand_waits_for_a_person(pipe: Pipe) -> None:
    fill(pipe)
    pipe.tables = "orders: {query: 'SELECT id, v, pad, update_at FROM shop.orders WHERE AND ${window}'}"

    outcome = pipe.run()

    assert isinstance(outcome.error, SourceUnfit)
    require_unmoved(pipe)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_table_of_an_engine_that_counts_its_rows_is_read_however_few_they_are(pipe: Pipe, rows: int) -> None:
    """The only row of a MyISAM table is read without any index, which EXPLAIN shows as none being used."""
    layout = f"CREATE TABLE orders (id INT PRIMARY KEY, {STAMP}, KEY (update_at, id)) ENGINE=MyISAM"
    pipe.sql("DROP TABLE IF EXISTS orders", layout, *(f"INSERT INTO orders (id) VALUES ({at})" for at in range(rows)))

    outcome = pipe.run()

    assert (outcome.error, outcome.rows) == (None, rows)
