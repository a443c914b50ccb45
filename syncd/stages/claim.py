"""Getting hold of a stage, with patience for an owner that may be gone."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from watermarks.clock import Clock
from watermarks.document import Stage, Watermark
from watermarks.history import Journal
from watermarks.lease import Held, OtherOwner, Process
from watermarks.names import StreamName, owner_key

LOOKED_AGAIN: Final = 0.5
"""Seconds."""


class Claiming:
    """Claims one stage of one stream; while its owner shows no sign of life it waits: only who watches can tell."""

    def __init__(
        self,
        stream: StreamName,
        stage: Stage,
        journal: Journal[Watermark],
        *,
        clock: Clock,
        patience: timedelta,
        pause: Callable[[float], None],
    ) -> None:
        self._stream = stream
        self._stage = stage
        self._journal = journal
        self._clock = clock
        self._patience = patience
        self._pause = pause

    def held(self, process: Process) -> Held:
        """The claim.

        Raises:
            OtherOwner: somebody else has it, and lives as far as one can tell.
        """
        deadline = self._clock.monotonic() + self._patience.total_seconds()
        seen = None
        while True:
            try:
                return process.acquire(self._stream, self._stage, self._journal)
            except OtherOwner as error:
                owner = error.facts.get("owner")
                sign = self._journal.store.read(owner_key(owner)) if isinstance(owner, str) else None
                alive = owner is None or (seen is not None and sign != seen)
                if alive or self._clock.monotonic() >= deadline:
                    raise
                seen = sign
                self._pause(LOOKED_AGAIN)
