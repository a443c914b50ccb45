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
from watermarks.lease import HeldClaim, OtherOwner, ProcessLease
from watermarks.names import StreamName, owner_key

CLAIM_POLL_SECONDS: Final = 0.5
"""Seconds."""
PARALLEL_RELEASES: Final = 16


class ClaimKeeper:
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
        max_wait: timedelta = timedelta(0),
        pause: Callable[[float], None] = time.sleep,
        on_wait: Callable[[str], None] = lambda _why: None,
    ) -> None:
        """Prepare; `patience` is how long it waits for the silence of another to become certain; `tell` hears it."""
        self._stream = stream
        self._stage = stage
        self._journal = journal
        self._clock = clock
        self._max_wait = max_wait
        self._pause = pause
        self._on_wait = on_wait
        self._kept: tuple[ProcessLease, HeldClaim] | None = None
        self.is_owned_by_other = False
        """Whether somebody else had it when it was asked for last."""

    def acquire(self, process: ProcessLease) -> HeldClaim:
        """The claim; one that is kept costs nothing, and history tells with the next entry whether it still holds.

        Raises:
            OtherOwner: somebody else has it, and lives as far as one can tell.
        """
        if self._kept is None or self._kept[0] is not process:
            self._kept = process, self._wait_and_acquire(process)
            self.is_owned_by_other = False
        return self._kept[1]

    @contextmanager
    def hold(self, process: ProcessLease) -> Iterator[HeldClaim]:
        """Work under the claim; where it turns out to be another's by now, the next pass asks anew."""
        try:
            yield self.acquire(process)
        except NotOwner:
            self.release()
            raise

    def release(self) -> None:
        """Give it back, if it is held; what is another's is left alone."""
        kept, self._kept = self._kept, None
        if kept is not None:
            process, held = kept
            process.release(held)

    def _wait_and_acquire(self, process: ProcessLease) -> HeldClaim:
        deadline = self._clock.monotonic() + self._max_wait.total_seconds()
        seen, waits = None, False
        while True:
            try:
                return process.acquire(self._stream, self._stage, self._journal)
            except OtherOwner as error:
                owner = error.facts.get("owner")
                sign = self._journal.store.read(owner_key(owner)) if isinstance(owner, str) else None
                alive = owner is None or (seen is not None and sign != seen)
                if alive or self._clock.monotonic() >= deadline:
                    self.is_owned_by_other = True
                    raise
                if not waits:
                    waits = True
                    most = self._max_wait.total_seconds()
                    self._on_wait(f"{error.message}: waits for up to {most:g} s for it to show a sign, or to be gone")
                seen = sign
                self._pause(CLAIM_POLL_SECONDS)


def release_claims(claims: Iterable[ClaimKeeper]) -> None:
    """Give claims back, many at once: a process has two for each of its streams, and little time for its end.

    What stays with us, because the store does not answer, falls to others as soon as we are silent.
    """

    def release(claiming: ClaimKeeper) -> None:
        with suppress(HintedError):
            claiming.release()

    with ThreadPoolExecutor(PARALLEL_RELEASES, thread_name_prefix="give-back") as pool:
        for _ in pool.map(release, claims):
            pass
