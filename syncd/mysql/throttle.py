"""Whether a source is too busy to be read just now."""

from syncd.datatypes.source_table import ServerInfo
from syncd.mysql.connection import Connection, map_driver_errors
from syncd.mysql.replica import read_replication
from syncd.settings import SourceSettings


def find_throttle_reason(connection: Connection, server: ServerInfo, settings: SourceSettings) -> str | None:
    """Why not to read now, in words; none where no bound is set or none is passed.

    Raises:
        SourceUnfit: the replica's lag may not be seen.
    """
    return _running_threads_reason(connection, settings) or _replica_lag_reason(connection, server, settings)


def _running_threads_reason(connection: Connection, settings: SourceSettings) -> str | None:
    most = settings.max_threads_running
    if most is None:
        return None
    with map_driver_errors(settings), connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_running'")
        running = int(cursor.fetchone()[1])
    return f"{running} threads run at {settings.host}, more than {most}" if running > most else None


def _replica_lag_reason(connection: Connection, server: ServerInfo, settings: SourceSettings) -> str | None:
    most = settings.max_replica_lag
    found = None if most is None else read_replication(connection, server, settings)
    if most is None or found is None:
        return None
    if found.lag is None:
        return f"the replica {settings.host} does not know how far behind it is"
    return f"the replica {settings.host} is {found.lag} behind, more than {most}" if found.lag > most else None
