"""Getting hold of a stage, with patience for an owner that may be gone, and keeping it from pass to pass."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from watermarks.clock import Clock
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError, NotOwner
from watermarks.history import Journal
from watermarks.lease import Held, OtherOwner, Process
from watermarks.names import StreamName, owner_key

LOOKED_AGAIN: Final = 0.5
"""Seconds."""
GIVEN_BACK_AT_ONCE: Final = 16


class Claiming:
    """Claims one stage of one stream, and keeps the claim until it is lost or given back: so a pass costs none anew.

    While its owner shows no sign of life it waits: only who watches can tell.
    """

    def __init__(
        self,
        stream: StreamName,
        stage: Stage,
        journal: Journal[Watermark],
        *,
        clock: Clock,
        patience: timedelta = timedelta(0),
        pause: Callable[[float], None] = time.sleep,
        tell: Callable[[str], None] = lambda _why: None,
    ) -> None:
        """Prepare; `patience` is how long it waits for the silence of another to become certain; `tell` hears it."""
        self._stream = stream
        self._stage = stage
        self._journal = journal
        self._clock = clock
        self._patience = patience
        self._pause = pause
        self._tell = tell
        self._kept: tuple[Process, Held] | None = None
        self.is_anothers = False
        """Whether somebody else had it when it was asked for last."""

    def held(self, process: Process) -> Held:
        """The claim; one that is kept costs nothing, and history tells with the next entry whether it still holds.

        Raises:
            OtherOwner: somebody else has it, and lives as far as one can tell.
        """
        if self._kept is None or self._kept[0] is not process:
            self._kept = process, self._acquired(process)
            self.is_anothers = False
        return self._kept[1]

    @contextmanager
    def under(self, process: Process) -> Iterator[Held]:
        """Work under the claim; where it turns out to be another's by now, the next pass asks anew."""
        try:
            yield self.held(process)
        except NotOwner:
            self.release()
            raise

    def release(self) -> None:
        """Give it back, if it is held; what is another's is left alone."""
        kept, self._kept = self._kept, None
        if kept is not None:
            process, held = kept
            process.release(held)

    def _acquired(self, process: Process) -> Held:
        deadline = self._clock.monotonic() + self._patience.total_seconds()
        seen, waits = None, False
        while True:
            try:
                return process.acquire(self._stream, self._stage, self._journal)
            except OtherOwner as error:
                owner = error.facts.get("owner")
                sign = self._journal.store.read(owner_key(owner)) if isinstance(owner, str) else None
                alive = owner is None or (seen is not None and sign != seen)
                if alive or self._clock.monotonic() >= deadline:
                    self.is_anothers = True
                    raise
                if not waits:
                    waits = True
                    most = self._patience.total_seconds()
                    self._tell(f"{error.message}: waits for up to {most:g} s for it to show a sign, or to be gone")
                seen = sign
                self._pause(LOOKED_AGAIN)


def give_back(claims: Iterable[Claiming]) -> None:
    """Give claims back, many at once: a process has two for each of its streams, and little time for its end.

    What stays with us, because the store does not answer, falls to others as soon as we are silent.
    """

    def release(claiming: Claiming) -> None:
        with suppress(HintedError):
            claiming.release()

    with ThreadPoolExecutor(GIVEN_BACK_AT_ONCE, thread_name_prefix="give-back") as pool:
        for _ in pool.map(release, claims):
            pass
