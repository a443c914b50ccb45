"""A replica of several primaries: each of its channels counts."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Self, cast

import pytest

from syncd.datatypes.source_table import ServerInfo
from syncd.errors import SourceUnfit
from syncd.mysql.connection import Connection
from syncd.mysql.replica import Replication, read_channels, read_replication, require_channel_to
from syncd.mysql.source import find_overload_reason
from syncd.settings import Secret, SourceSettings

SETTINGS = SourceSettings(
    name="shop", host="db", user="sync", password=Secret(""), max_replica_lag=timedelta(seconds=60)
)
MYSQL = ServerInfo(identity="r", version=(9, 7, 0), mariadb=False)
MARIADB = ServerInfo(identity="r", version=(11, 4, 0), mariadb=True)


class Shown:
    """A connection to a replica that shows these channels, and nothing else."""

    def __init__(self, *rows: Mapping[str, Any]) -> None:
        self._rows = rows
        self.asked: list[str] = []

    def cursor(self, _kind: object = None) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing is open."""

    def execute(self, sql: str, _arguments: object) -> None:
        self.asked.append(sql)

    def fetchall(self) -> Sequence[Mapping[str, Any]]:
        return self._rows


def mysql_row(channel: str, *, lag: int | None = 0, applies: str = "Yes") -> dict[str, Any]:
    return {
        "Channel_Name": channel,
        "Source_Host": channel,
        "Source_Port": 3306,
        "Source_UUID": f"uuid of {channel}",
        "Replica_IO_Running": "Yes",
        "Replica_SQL_Running": applies,
        "Seconds_Behind_Source": lag,
        "Last_SQL_Error": "",
        "Last_IO_Error": "",
    }


def mariadb_row(channel: str, number: int, *, lag: int | None = 0) -> dict[str, Any]:
    return {
        "Connection_name": channel,
        "Master_Host": channel,
        "Master_Port": 3306,
        "Master_Server_Id": number,
        "Slave_IO_Running": "Yes",
        "Slave_SQL_Running": "Yes",
        "Seconds_Behind_Master": lag,
        "Last_SQL_Error": "",
        "Last_IO_Error": "",
        "Using_Gtid": "Slave_Pos",
    }


def as_connection(shown: Shown) -> Connection:
    return cast("Connection", shown)


def whole(*rows: Mapping[str, Any], server: ServerInfo = MYSQL) -> Replication | None:
    return read_replication(as_connection(Shown(*rows)), server, SETTINGS)


def test_the_longest_lag_counts() -> None:
    found = whole(mysql_row("east", lag=0), mysql_row("west", lag=40), mysql_row("south", lag=7))

    assert found is not None
    assert (found.lag, found.host) == (timedelta(seconds=40), "west:3306")


@pytest.mark.parametrize("still", [0, 1])
def test_a_channel_that_stands_still_is_behind_for_ever(still: int) -> None:
    rows = [mysql_row("east", lag=9_000), mysql_row("north", lag=9_000)]
    rows[still] = mysql_row("west", lag=None, applies="No")

    found = whole(*rows)

    assert found is not None
    assert (found.lag, found.running, found.host) == (None, False, "west:3306")
    reason = find_overload_reason(as_connection(Shown(*rows)), MYSQL, SETTINGS)
    assert reason == "the replica db reports no lag"


def test_it_runs_only_where_all_do() -> None:
    found = whole(mysql_row("east", lag=3, applies="No"), mysql_row("west", lag=40))

    assert found is not None
    assert (found.lag, found.running) == (timedelta(seconds=40), False)


def test_a_server_without_channels_follows_nobody() -> None:
    assert whole() is None


def test_the_primary_is_found_among_several() -> None:
    channels = read_channels(as_connection(Shown(mysql_row("east"), mysql_row("west"))), MYSQL, SETTINGS)

    assert require_channel_to(channels, primary_id="uuid of west", settings=SETTINGS).channel == "west"
    with pytest.raises(SourceUnfit, match="follows east:3306, west:3306, which is not"):
        require_channel_to(channels, primary_id="uuid of south", settings=SETTINGS)


def test_mariadb_is_asked_for_all_its_connections() -> None:
    shown = Shown(mariadb_row("", 1), mariadb_row("west", 2, lag=None))

    channels = read_channels(as_connection(shown), MARIADB, SETTINGS)

    assert shown.asked == ["SHOW ALL SLAVES STATUS"]
    assert [(each.channel, each.primary_id) for each in channels] == [("", "1"), ("west", "2")]
    assert require_channel_to(channels, primary_id="2", settings=SETTINGS).channel == "west"
