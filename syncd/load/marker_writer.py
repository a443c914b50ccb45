"""Writing completion markers: first those of the hours, each once, then the newest one."""

from syncd.lake.completion_markers import CompletionMarker
from syncd.lake.keys import hour_marker_key, latest_marker_key
from watermarks.errors import AlreadyExists, OutcomeUnknown, Stale
from watermarks.names import StreamName
from watermarks.store import Revision, Store


class MarkerStore:
    """The markers of all streams, and what the newest of each says, as far as this process knows."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[StreamName, tuple[CompletionMarker, Revision]] = {}

    def write(self, marker: CompletionMarker) -> bool:
        """Tell how far a target is complete; whether that was news.

        Killed anywhere, the next one tells what is missing: the newest comes last, and hours follow from it.

        Raises:
            HintedError: the lake did not take it; it is to be tried again with the next pass.
        """
        known = self._known.get(marker.stream) or self._read(marker.stream)
        before = known[0] if known else None
        if not marker.is_worth_writing(before):
            return False
        for hour in marker.merge_previous(before).hourly_markers(before):
            self._create_hour_marker(hour)
        self._replace_latest_marker(marker.merge_previous(before), known[1] if known else None)
        return True

    def _read(self, stream: StreamName) -> tuple[CompletionMarker, Revision] | None:
        stored = self._store.read(latest_marker_key(stream))
        if stored is None:
            return None
        known = CompletionMarker.from_bytes(stored.body, stream=stream), stored.revision
        self._known[stream] = known
        return known

    def _create_hour_marker(self, hour: CompletionMarker) -> None:
        try:
            self._store.create(hour_marker_key(hour.stream, hour.complete_until), hour.to_bytes())
        except AlreadyExists:
            return  # it is complete since somebody else said so

    def _replace_latest_marker(self, marker: CompletionMarker, seen: Revision | None) -> None:
        key = latest_marker_key(marker.stream)
        self._known.pop(marker.stream, None)
        try:
            if seen is None:
                revision = self._store.create(key, marker.to_bytes())
            else:
                revision = self._store.replace(key, marker.to_bytes(), expected=seen)
        except (Stale, OutcomeUnknown):
            return  # another owner's, or ours after all: the next pass reads it first
        self._known[marker.stream] = marker, revision
