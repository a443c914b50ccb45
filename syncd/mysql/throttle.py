"""Whether a source is too busy to be read just now."""

from syncd.datatypes.source_table import Server
from syncd.mysql.connection import Connection, mapped
from syncd.mysql.replica import replication_of
from syncd.settings import SourceSettings


def reason_to_wait(connection: Connection, server: Server, settings: SourceSettings) -> str | None:
    """Why not to read now, in words; none where no bound is set or none is passed.

    Raises:
        SourceUnfit: the replica's lag may not be seen.
    """
    return _threads(connection, settings) or _lag(connection, server, settings)


def _threads(connection: Connection, settings: SourceSettings) -> str | None:
    most = settings.max_threads_running
    if most is None:
        return None
    with mapped(settings), connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_running'")
        running = int(cursor.fetchone()[1])
    return f"{running} threads run at {settings.host}, more than {most}" if running > most else None


def _lag(connection: Connection, server: Server, settings: SourceSettings) -> str | None:
    most = settings.max_replica_lag
    found = None if most is None else replication_of(connection, server, settings)
    if most is None or found is None:
        return None
    if found.lag is None:
        return f"the replica {settings.host} does not know how far behind it is"
    return f"the replica {settings.host} is {found.lag} behind, more than {most}" if found.lag > most else None
