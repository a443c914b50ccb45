"""Whether streams have ledgers of their own in a warehouse, asked of the warehouse itself."""

from syncd.redshift.control_tables import ISOLATION_LEVEL_QUERY, LedgerTables, own_ledgers_query
from syncd.redshift.session import WarehouseSession


def discover_ledgers(session: WarehouseSession, schema: str) -> LedgerTables:
    """The ledgers in a schema; two short statements.

    Raises:
        As `Session.rows`.
    """
    [(level,)] = session.rows(ISOLATION_LEVEL_QUERY)
    names = session.rows(own_ledgers_query(schema))
    return LedgerTables.from_answers(schema, level=str(level), names=[str(name) for (name,) in names])
