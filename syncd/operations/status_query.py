"""Status of all streams from the lake alone: one request for each document, several in parallel."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from syncd.horizon import HorizonNotes
from syncd.lake.object_keys import quarantine_stream_stem
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.stream_status import QuarantineCount, StreamCondition, StreamStatus
from syncd.ports.source import PartStore
from syncd.settings import StreamSettings
from watermarks.document import Watermark
from watermarks.errors import HintedError, StateUnreadable
from watermarks.history import Journal
from watermarks.names import StreamName, escape_name

PARALLEL_READS: Final = 32
"""Documents that are read at a time."""
QUARANTINE_PREFIX: Final = "quarantine/"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """One stream whose status is wanted."""

    name: StreamName
    settings: StreamSettings
    zone: tzinfo | None = None
    """Time zone of the writers, if it is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusResult:
    """One stream and its status."""

    request: StatusRequest
    status: StreamStatus
    error: HintedError | None = None
    """Why its watermark is not readable."""


@dataclass(kw_only=True)
class StatusReader:
    """Reads the status of streams; nothing is written.

    A document may lag behind its newest entry while a writer is between the two, so a status may be that of a
    moment ago.
    """

    journal: Journal[Watermark]
    parts: PartStore

    def read_all(self, streams: Sequence[StatusRequest], *, now: datetime) -> list[StatusResult]:
        """Return the status of every stream, the worst first.

        Raises:
            LakeDown, LakeUnfit, StoreUnavailable: the lake is not readable.
        """
        pool = ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="status")
        try:
            with_quarantine = pool.submit(self._find_streams_with_quarantine)
            notes = {source: pool.submit(self._read_notes, source) for source in _sources(streams)}
            watermarks = [(stream, pool.submit(self._read_watermark, stream.name)) for stream in streams]
            stems = with_quarantine.result()
            quarantined = {
                stream.name: pool.submit(self._count_quarantined, stream.name)
                for stream in streams
                if stream.name.chain_stem in stems
            }
            results = [
                self._build_result(
                    stream,
                    watermark.result(),
                    now=now,
                    notes=notes[stream.name.source].result(),
                    quarantined=quarantined[stream.name].result() if stream.name in quarantined else QuarantineCount(),
                )
                for stream, watermark in watermarks
            ]
        finally:
            pool.shutdown(cancel_futures=True)  # after an error the other requests are pointless
        return sorted(results, key=lambda result: (result.status.sort_key, result.request.name))

    def _build_result(
        self,
        stream: StatusRequest,
        watermark: Watermark | StateUnreadable | None,
        *,
        now: datetime,
        notes: HorizonNotes | None,
        quarantined: QuarantineCount | StateUnreadable,
    ) -> StatusResult:
        if isinstance(watermark, StateUnreadable):
            return _unreadable(stream, watermark)
        if isinstance(quarantined, StateUnreadable):
            return _unreadable(stream, quarantined)
        status = StreamStatus.from_watermark(
            watermark, stream.settings, zone=stream.zone, now=now, notes=notes, quarantined=quarantined
        )
        return StatusResult(request=stream, status=status)

    def _read_watermark(self, stream: StreamName) -> Watermark | StateUnreadable | None:
        try:
            return self.journal.read(stream.stem)
        except StateUnreadable as error:
            return error

    def _find_streams_with_quarantine(self) -> frozenset[str]:
        """Return the stems of streams with quarantined files: most lakes have none, and one request tells."""
        return frozenset(quarantine_stream_stem(found.key) for found in self.parts.list_objects(QUARANTINE_PREFIX))

    def _count_quarantined(self, stream: StreamName) -> QuarantineCount | StateUnreadable:
        try:
            listing = Quarantine(stream=stream, journal=self.journal, parts=self.parts).list_files()
        except StateUnreadable as error:
            return error
        waiting = [file for file in listing.files if file.replayed_by is None]
        return QuarantineCount(rows=sum(file.part.rows for file in waiting), files=len(waiting))

    def _read_notes(self, source: str) -> HorizonNotes | None:
        """Return the notes of the last poll of a server; None if they are not readable."""
        key = f"notes/{escape_name(source)}.json"
        stored = self.journal.store.read(key)
        try:
            return HorizonNotes.from_bytes(stored.body, at=key) if stored else None
        except StateUnreadable:
            return None  # the next poll stops there with an error


def _unreadable(stream: StatusRequest, error: StateUnreadable) -> StatusResult:
    status = StreamStatus(condition=StreamCondition.UNREADABLE, reasons=(error.message,))
    return StatusResult(request=stream, status=status, error=error)


def _sources(streams: Iterable[StatusRequest]) -> Mapping[str, None]:
    return dict.fromkeys(stream.name.source for stream in streams)
