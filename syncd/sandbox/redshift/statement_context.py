"""What a statement that the stand-in carries out itself has at hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from syncd.sandbox.redshift.backend import Backend, literal
from syncd.sandbox.redshift.copy.load_log import LoadLog
from syncd.sandbox.redshift.copy.s3_files import Lake
from syncd.sandbox.redshift.refusal import Refusal
from syncd.sandbox.redshift.sql.identifiers import LongNames


@dataclass(slots=True)
class LastCopy:
    """What pg_last_copy_count() and pg_last_copy_id() tell this session."""

    count: int = 0
    id: int = 0


@dataclass(slots=True, kw_only=True)
class Desk:
    """One client's session, as a program sees it."""

    backend: Backend
    names: LongNames
    user: str
    database: str
    pid: int
    lake: Lake
    log: LoadLog
    last_copy: LastCopy = field(default_factory=LastCopy)
    notices: list[str] = field(default_factory=list)
    in_block: bool = False

    def run(self, sql: str) -> list[list[str | None]]:
        return self.backend.run(sql)

    def value(self, sql: str) -> str | None:
        return self.backend.value(sql)

    def known(self, sql: str) -> str:
        """A value that is there."""
        value = self.backend.value(sql)
        if value is None:
            raise Refusal("XX000", f"the stand-in found nothing where there must be something: {sql}")
        return value

    def enter(self, *, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> None:
        """Take the snapshot if there is none, then the write locks, in this order."""
        self.backend.run(enter_sql(reads, writes))


def enter_sql(reads: Sequence[str], writes: Sequence[str]) -> str:
    return f"SELECT pg_catalog.redshift_enter({_relations(reads)}, {_relations(writes)})"


def _relations(names: Sequence[str]) -> str:
    return "ARRAY[" + ", ".join(f"to_regclass({literal(name)})" for name in names) + "]::regclass[]"
