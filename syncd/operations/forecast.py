"""What a run would come to: counted where it is known, guessed from what past runs took where it is not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from syncd.lake.manifest import Manifest
from watermarks.batch import BatchKind, BatchLink
from watermarks.document import Watermark

PART_BYTES: Final = 128 << 20
"""About how large a file grows before the next one begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCosts:
    """What a row has cost in this stream's life; None where none was read, or loaded, yet."""

    read_seconds: float | None = None
    load_seconds: float | None = None
    bytes: float | None = None

    @classmethod
    def from_watermark(cls, state: Watermark | None, newest: Sequence[BatchLink]) -> Self:
        """From the counts of both halves, and from the sizes of the newest batches."""
        if state is None:
            return cls()
        read, loaded = state.required_extract_progress.counts, state.load_progress.counts
        manifests = [Manifest.from_link(link) for link in newest if link.kind is not BatchKind.ABANDONED]
        rows = sum(manifest.rows for manifest in manifests)
        return cls(
            read_seconds=read.milliseconds / 1000 / read.rows if read.rows else None,
            load_seconds=loaded.milliseconds / 1000 / loaded.rows if loaded.rows else None,
            bytes=sum(manifest.bytes for manifest in manifests) / rows if rows else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractForecast:
    """What would be read from the source."""

    kind: str | None = None
    """Of the next batch; None where there is nothing to read."""
    is_planned: bool = False
    """Whether an earlier run has planned that batch already."""
    windows: int = 0
    """Of the next batch: statements that read beside each other."""
    next_rows: int | None = 0
    """Of the next batch, at most; None where nobody knows."""
    rows: int | None = 0
    """Of all batches, about; None where nobody knows."""
    batches: int | None = 0
    bytes: int | None = None
    files: int | None = None
    seconds: float | None = None

    @classmethod
    def from_plan(
        cls, planned: Mapping[str, Any] | None, *, estimated_rows: int | None, batch_rows: int, costs: RowCosts
    ) -> Self:
        """From the next batch as it is planned, and the server's guess of how many rows wait in all."""
        if planned is None:
            return cls()
        windows = max(1, len(planned["windows"]))
        next_rows: int | None = planned["body"].get("rows_at_most")
        rows = next_rows if estimated_rows is None else estimated_rows
        batches = None if rows is None else max(1, -(-rows // batch_rows))
        size = None if rows is None or costs.bytes is None else round(rows * costs.bytes)
        return cls(
            kind=planned["kind"],
            is_planned=planned["sealed"],
            windows=windows,
            next_rows=next_rows,
            rows=rows,
            batches=batches,
            bytes=size,
            files=None if batches is None else _estimate_files(windows, batches, rows or 0, size),
            seconds=None if rows is None or costs.read_seconds is None else rows * costs.read_seconds,
        )


def _estimate_files(windows: int, batches: int, rows: int, size: int | None) -> int:
    """A file for each window that has rows at least, and one more for each time that one is full."""
    return 0 if not rows else max(windows * batches, -(-(size or 0) // PART_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadForecast:
    """What would be landed in the target."""

    batches: int | None = 0
    rows: int | None = 0
    files: int | None = 0
    copies: int = 0
    """COPY statements: one for each schema among the files of a transaction."""
    ddl: tuple[str, ...] = ()
    seconds: float | None = None

    @classmethod
    def from_pending(
        cls,
        pending: Mapping[str, Any] | None,
        extract: ExtractForecast,
        *,
        schemas: int,
        ddl: tuple[str, ...],
        costs: RowCosts,
    ) -> Self:
        """What waits, and what would be read before."""
        waits = pending or {"batches": 0, "rows": 0, "files": 0}
        rows = None if extract.rows is None else waits["rows"] + extract.rows
        return cls(
            batches=None if extract.batches is None else waits["batches"] + extract.batches,
            rows=rows,
            files=waits["files"] if extract.kind is None else _sum(waits["files"], extract.files),
            copies=schemas,
            ddl=ddl,
            seconds=None if rows is None or costs.load_seconds is None else rows * costs.load_seconds,
        )


def _sum(known: int, more: int | None) -> int | None:
    return None if more is None else known + more


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a run over one stream would do."""

    extract: ExtractForecast
    load: LoadForecast | None = None
    """None where there is no warehouse."""
    statements: tuple[str, ...] = ()
    """Those that would read the next batch."""
    notes: tuple[str, ...] = ()
    """Why nothing would be read, and what could not be asked."""
