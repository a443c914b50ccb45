"""Ports of the operator commands, implemented by `syncd.app`: access to both sides, and previews of passes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from typing import TYPE_CHECKING, Protocol

from syncd.extract.extract_pass import ExtractOutcome
from syncd.lake.manifest import Manifest
from syncd.load.load_pass import LoadOutcome
from syncd.operations.row_status import TargetRow
from syncd.ports.source import LedgerReader, SourceBound
from syncd.settings import SourceSettings, StreamSettings
from syncd.tables.sort_order import StreamOrder
from syncd.verify.compared_columns import ComparisonBounds, ComparisonSubject
from syncd.verify.result import ComparisonResult
from watermarks.clock import Clock
from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.history import Journal

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from syncd.datatypes.source_table import SourceTable
    from syncd.mysql.connection import Connection
    from syncd.redshift.quoting import TableRef
    from syncd.redshift.session import WarehouseSession
    from syncd.redshift.target_table import ExistingTable
    from syncd.s3.lake_client import S3Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """Answer of MySQL about one stream; empty where MySQL is not reachable."""

    order: StreamOrder | None = None
    problem: str = ""
    """Why there is no order."""
    rows_behind: int | None = None
    """The server's estimate of the rows behind the cursor that was asked about."""


class OperatorAccess(Protocol):
    """Lake, warehouse and MySQL, each opened with the first call that needs it.

    Raises:
        SourceDown, SourceUnfit, WarehouseDown, WarehouseUnfit: the server of that side gave no answer.
    """

    @property
    def journal(self) -> Journal[Watermark]: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def lake(self) -> "S3Lake": ...

    def ledger_reader(self, settings: StreamSettings) -> LedgerReader | None:
        """Return the reader of the stream's ledger; None without a warehouse."""
        ...

    def preview_ddl(self, settings: StreamSettings, manifests: Sequence[Manifest]) -> tuple[str, ...]:
        """Return the statements that would make the target fit for these files."""
        ...

    def query_source(self, settings: StreamSettings, *, after: Cursor | None = None) -> SourceAnswer:
        """Ask MySQL for the stream's order, and for an estimate of the rows behind a cursor."""
        ...

    def read_source_table(self, settings: StreamSettings) -> "SourceTable": ...

    def estimate_rows(self, settings: StreamSettings) -> int | None:
        """Return the server's estimate of the rows of the table; None without statistics."""
        ...

    def find_source_row(self, settings: StreamSettings, key: Mapping[str, str]) -> Cursor | None:
        """Return the position of the row with this key; None if there is no such row."""
        ...

    def find_target_row(self, settings: StreamSettings, key: Mapping[str, str]) -> TargetRow: ...

    def writer_time_zone(self, settings: StreamSettings) -> tzinfo | None:
        """Return the configured time zone of the writers; None without one."""
        ...


class PassPreviewer(Protocol):
    """Dry runs of both stages; whatever they write is discarded."""

    def preview_extract(
        self, settings: StreamSettings, *, horizon_wait: timedelta, limit: int | None = None
    ) -> ExtractOutcome: ...

    def preview_load(self, settings: StreamSettings, *, limit: int | None = None) -> LoadOutcome: ...

    def find_closed_position(self, settings: StreamSettings, *, horizon_wait: timedelta) -> SourceBound:
        """Return the position below which the table is complete at its source now.

        Raises:
            HorizonNotKnown: the horizon is not known within the wait.
        """
        ...


class TableComparer(Protocol):
    """Comparison of one source table with its target, and access to both."""

    def comparison_subject(self, settings: StreamSettings, existing: "ExistingTable") -> ComparisonSubject: ...
    def compare(self, subject: ComparisonSubject, bounds: ComparisonBounds) -> ComparisonResult: ...
    def find_target_columns(self, settings: StreamSettings) -> "ExistingTable | None": ...
    def target_table(self, settings: StreamSettings) -> "TableRef": ...
    def warehouse_session(self, settings: StreamSettings) -> "WarehouseSession": ...
    def source_connection(self, settings: StreamSettings) -> "AbstractContextManager[Connection]": ...
    def source_settings(self, settings: StreamSettings) -> SourceSettings: ...
