"""A warehouse as one who only looks at it: what its ledger says of a stream, and whether the target is there."""

from collections.abc import Callable, Mapping, Sequence

from syncd.adapters.redshift.landing import ControlsMissing, expected
from syncd.adapters.redshift.session import Session
from syncd.core.batch_number import batch_of
from syncd.core.books import Evidence
from syncd.core.redshift.control import Controls
from syncd.core.redshift.quoting import TableRef
from syncd.core.redshift.target import found_statement
from watermarks.landing import LedgerKey


class LedgerBooks:
    """Reads committed rows; no lock is taken, and nothing is written."""

    def __init__(self, session: Callable[[], Session], controls: Controls, table: TableRef) -> None:
        self._session = session
        self._controls = controls
        self._table = table

    @property
    def table(self) -> str:
        return str(self._table)

    def entries(self) -> Mapping[LedgerKey, Evidence]:
        try:
            with expected():
                rows = self._session().rows(self._controls.evidence)
        except ControlsMissing:
            return {}
        return {
            LedgerKey(
                stream=self._controls.stream, load_generation=int(generation), batch=batch_of(int(batch))
            ): Evidence(rows=int(count), table=str(table), manifest=str(manifest))
            for generation, batch, count, table, manifest in rows
        }

    def others(self) -> Sequence[str]:
        """Other streams that have landed in the target, each with its lake."""
        try:
            with expected():
                rows = self._session().rows(self._controls.others_in(self._table))
        except ControlsMissing:
            return ()
        return [f"{stream} of {lake}" for lake, stream in rows]

    def there(self) -> bool:
        return bool(self._session().rows(found_statement(self._table)))
