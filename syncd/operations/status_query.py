"""How all streams stand: one request for each document, several on their way at once, and nothing but the lake."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from syncd.horizon import HorizonNotes
from syncd.lake.keys import quarantine_stream_stem
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.stream_status import QuarantineCount, StreamCondition, StreamStatus
from syncd.ports.source import PartStore
from syncd.settings import StreamSettings
from watermarks.document import Watermark
from watermarks.errors import HintedError, StateUnreadable
from watermarks.history import Journal
from watermarks.names import StreamName, escape_name

PARALLEL_READS: Final = 32
"""Documents that are asked for at once."""
QUARANTINE_PREFIX: Final = "quarantine/"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """One stream that is asked about."""

    name: StreamName
    settings: StreamSettings
    zone: tzinfo | None = None
    """Of those who write, where it is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusResult:
    """One stream and how it stands."""

    request: StatusRequest
    status: StreamStatus
    error: HintedError | None = None
    """Why its watermark cannot be believed."""


@dataclass(kw_only=True)
class StatusReader:
    """Asks how streams stand; nothing is written anywhere.

    A document may lag behind its newest entry for as long as a writer takes from one to the other:
    what is told was true a moment ago.
    """

    journal: Journal[Watermark]
    parts: PartStore

    def read_all(self, streams: Sequence[StatusRequest], *, now: datetime) -> list[StatusResult]:
        """Every stream, the worst first.

        Raises:
            LakeDown, LakeUnfit, StoreUnavailable: the lake cannot be asked.
        """
        pool = ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="status")
        try:
            lying = pool.submit(self._find_streams_with_quarantine)
            notes = {source: pool.submit(self._read_notes, source) for source in _sources(streams)}
            read = [(stream, pool.submit(self._read_watermark, stream.name)) for stream in streams]
            full = lying.result()
            asides = {
                stream.name: pool.submit(self._count_quarantined, stream.name)
                for stream in streams
                if stream.name.chain_stem in full
            }
            stood = [
                self._build_result(
                    stream,
                    document.result(),
                    now=now,
                    notes=notes[stream.name.source].result(),
                    aside=asides[stream.name].result() if stream.name in asides else QuarantineCount(),
                )
                for stream, document in read
            ]
        finally:
            pool.shutdown(cancel_futures=True)  # where one could not be asked, hundreds need not be
        return sorted(stood, key=lambda one: (one.status.sort_key, one.request.name))

    def _build_result(
        self,
        stream: StatusRequest,
        found: Watermark | StateUnreadable | None,
        *,
        now: datetime,
        notes: HorizonNotes | None,
        aside: QuarantineCount | StateUnreadable,
    ) -> StatusResult:
        for error in (found, aside):
            if isinstance(error, StateUnreadable):
                standing = StreamStatus(condition=StreamCondition.UNREADABLE, reasons=(error.message,))
                return StatusResult(request=stream, status=standing, error=error)
        assert not isinstance(found, StateUnreadable)
        assert isinstance(aside, QuarantineCount)
        standing = StreamStatus.from_watermark(
            found, stream.settings, zone=stream.zone, now=now, notes=notes, quarantined=aside
        )
        return StatusResult(request=stream, status=standing)

    def _read_watermark(self, stream: StreamName) -> Watermark | StateUnreadable | None:
        try:
            return self.journal.read(stream.stem)
        except StateUnreadable as error:
            return error

    def _find_streams_with_quarantine(self) -> frozenset[str]:
        """The streams below whose prefix in quarantine anything lies: most lakes have none, and one request says so."""
        return frozenset(quarantine_stream_stem(found.key) for found in self.parts.list_objects(QUARANTINE_PREFIX))

    def _count_quarantined(self, stream: StreamName) -> QuarantineCount | StateUnreadable:
        try:
            lying = Quarantine(stream=stream, journal=self.journal, parts=self.parts).list_files()
        except StateUnreadable as error:
            return error
        waits = [aside for aside in lying.files if aside.replayed_by is None]
        return QuarantineCount(rows=sum(aside.part.rows for aside in waits), files=len(waits))

    def _read_notes(self, source: str) -> HorizonNotes | None:
        """What the last poll of a server left; what cannot be read holds nobody up."""
        key = f"notes/{escape_name(source)}.json"
        stored = self.journal.store.read(key)
        try:
            return HorizonNotes.from_bytes(stored.body, at=key) if stored else None
        except StateUnreadable:
            return None  # whoever polls next stops there, and says so


def _sources(streams: Iterable[StatusRequest]) -> Mapping[str, None]:
    return dict.fromkeys(stream.name.source for stream in streams)
