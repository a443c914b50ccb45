"""Whether streams have ledgers of their own in a warehouse, asked of the warehouse itself."""

from syncd.redshift.control_tables import ISOLATION, Ledgers, own_ledgers
from syncd.redshift.session import Session


def ledgers_of(session: Session, schema: str) -> Ledgers:
    """The ledgers in a schema; two short statements.

    Raises:
        As `Session.rows`.
    """
    [(level,)] = session.rows(ISOLATION)
    names = session.rows(own_ledgers(schema))
    return Ledgers.told(schema, level=str(level), names=[str(name) for (name,) in names])
