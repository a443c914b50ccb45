"""How all streams stand: one request for each document, several on their way at once, and nothing but the lake."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from syncd.horizon import Notes
from syncd.lake.keys import refused_stem
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.stream_status import Aside, Condition, Standing
from syncd.ports.source import Parts
from syncd.settings import StreamSettings
from watermarks.document import Watermark
from watermarks.errors import HintedError, StateUnreadable
from watermarks.history import Journal
from watermarks.names import StreamName, escape

AT_ONCE: Final = 32
"""Documents that are asked for at once."""
QUARANTINE: Final = "quarantine/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream that is asked about."""

    name: StreamName
    settings: StreamSettings
    zone: tzinfo | None = None
    """Of those who write, where it is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """One stream and how it stands."""

    stream: Stream
    standing: Standing
    error: HintedError | None = None
    """Why its watermark cannot be believed."""


@dataclass(kw_only=True)
class Standings:
    """Asks how streams stand; nothing is written anywhere.

    A document may lag behind its newest entry for as long as a writer takes from one to the other:
    what is told was true a moment ago.
    """

    journal: Journal[Watermark]
    parts: Parts

    def all(self, streams: Sequence[Stream], *, now: datetime) -> list[Stood]:
        """Every stream, the worst first.

        Raises:
            LakeDown, LakeUnfit, StoreUnavailable: the lake cannot be asked.
        """
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="status")
        try:
            lying = pool.submit(self._with_quarantine)
            notes = {source: pool.submit(self._notes_of, source) for source in _sources(streams)}
            read = [(stream, pool.submit(self._read, stream.name)) for stream in streams]
            full = lying.result()
            asides = {
                stream.name: pool.submit(self._aside, stream.name)
                for stream in streams
                if stream.name.chain_stem in full
            }
            stood = [
                self._stood(
                    stream,
                    document.result(),
                    now=now,
                    notes=notes[stream.name.source].result(),
                    aside=asides[stream.name].result() if stream.name in asides else Aside(),
                )
                for stream, document in read
            ]
        finally:
            pool.shutdown(cancel_futures=True)  # where one could not be asked, hundreds need not be
        return sorted(stood, key=lambda one: (one.standing.trouble, one.stream.name))

    def _stood(
        self,
        stream: Stream,
        found: Watermark | StateUnreadable | None,
        *,
        now: datetime,
        notes: Notes | None,
        aside: Aside | StateUnreadable,
    ) -> Stood:
        for error in (found, aside):
            if isinstance(error, StateUnreadable):
                standing = Standing(condition=Condition.UNREADABLE, reasons=(error.message,))
                return Stood(stream=stream, standing=standing, error=error)
        assert not isinstance(found, StateUnreadable)
        assert isinstance(aside, Aside)
        standing = Standing.of(found, stream.settings, zone=stream.zone, now=now, notes=notes, aside=aside)
        return Stood(stream=stream, standing=standing)

    def _read(self, stream: StreamName) -> Watermark | StateUnreadable | None:
        try:
            return self.journal.read(stream.stem)
        except StateUnreadable as error:
            return error

    def _with_quarantine(self) -> frozenset[str]:
        """The streams below whose prefix in quarantine anything lies: most lakes have none, and one request says so."""
        return frozenset(refused_stem(key) for key, _ in self.parts.stray(QUARANTINE))

    def _aside(self, stream: StreamName) -> Aside | StateUnreadable:
        try:
            lying = Quarantine(stream=stream, journal=self.journal, parts=self.parts).look()
        except StateUnreadable as error:
            return error
        waits = [aside for aside in lying.asides if aside.replayed_by is None]
        return Aside(rows=sum(aside.part.rows for aside in waits), files=len(waits))

    def _notes_of(self, source: str) -> Notes | None:
        """What the last poll of a server left; what cannot be read holds nobody up."""
        key = f"notes/{escape(source)}.json"
        stored = self.journal.store.read(key)
        try:
            return Notes.of_bytes(stored.body, at=key) if stored else None
        except StateUnreadable:
            return None  # whoever polls next stops there, and says so


def _sources(streams: Iterable[Stream]) -> Mapping[str, None]:
    return dict.fromkeys(stream.name.source for stream in streams)
