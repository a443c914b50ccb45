"""Claim of one stage of one stream, kept from pass to pass; waits for an owner that may be gone."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final, Self

from syncd.errors import to_hinted_error
from watermarks.clock import Clock
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError, NotOwner, StateUnreadable
from watermarks.history import Journal
from watermarks.lease import HeldClaim, OtherOwner, ProcessLease
from watermarks.names import StreamName
from watermarks.store import StoredObject

CLAIM_POLL_SECONDS: Final = 0.5
PARALLEL_RELEASES: Final = 16


class ClaimKeeper:
    """Claims one stage of one stream, and keeps the claim until it is lost or released: further passes cost nothing.

    While another owner shows no sign of life, it waits: only a process that watches the owner can tell that it is gone.
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
        """Create a keeper that waits up to `max_wait` until an owner is certainly gone; `on_wait` gets the reason."""
        self._stream = stream
        self._stage = stage
        self._journal = journal
        self._clock = clock
        self._max_wait = max_wait
        self._pause = pause
        self._on_wait = on_wait
        self._kept: tuple[ProcessLease, HeldClaim] | None = None
        self.is_owned_by_other = False
        """True if another process had the claim at the last attempt."""

    @contextmanager
    def hold(self, process: ProcessLease) -> Iterator[HeldClaim]:
        """Work under the claim; if it turns out to be lost, the next pass claims again.

        A kept claim costs nothing, and the next entry in the history shows whether it still holds.

        Raises:
            OtherOwner: another process has it, and seems to be alive.
        """
        deadline = self._clock.monotonic() + self._max_wait.total_seconds()
        signs: list[StoredObject | None] = []
        try:
            while self._kept is None or self._kept[0] is not process:
                try:
                    self._kept = process, process.acquire(self._stream, self._stage, self._journal)
                    self.is_owned_by_other = False
                except OtherOwner as error:
                    if not self._should_wait(error, process, signs, deadline=deadline):
                        self.is_owned_by_other = True
                        raise
                    self._pause(CLAIM_POLL_SECONDS)
            yield self._kept[1]
        except NotOwner:
            self.release()
            raise

    def release(self) -> None:
        """Release the claim, if it is held."""
        kept, self._kept = self._kept, None
        if kept is not None:
            process, held = kept
            process.release(held)

    def _should_wait(
        self, error: OtherOwner, process: ProcessLease, signs: list[StoredObject | None], *, deadline: float
    ) -> bool:
        """Return True while the other owner may be gone; `signs` are its objects as they were read so far."""
        owner = error.facts.get("owner")
        if not isinstance(owner, str):
            return False
        signs.append(process.read_owner(owner))
        is_alive = len(signs) > 1 and signs[-2] is not None and signs[-1] != signs[-2]
        if is_alive or self._clock.monotonic() >= deadline:
            return False
        if len(signs) == 1:
            most = self._max_wait.total_seconds()
            self._on_wait(f"{error.message}: waiting up to {most:g} s for a sign that its process is alive")
        return True


def release_claims(claims: Iterable[ClaimKeeper]) -> None:
    """Release claims in parallel: a process has two for each of its streams, and little time to end.

    If the store does not answer, other processes can take a claim over as soon as the lease of this one expires.
    """

    def release(claim: ClaimKeeper) -> None:
        with suppress(HintedError):
            claim.release()

    with ThreadPoolExecutor(PARALLEL_RELEASES, thread_name_prefix="release") as pool:
        for _ in pool.map(release, claims):
            pass


RENEWALS_PER_TTL: Final = 4
"""Renewals within the lease's time to live: the lease survives a lost request or two.

It also survives requests that hang, if each times out within a sixth of the time to live; the maker of the store sets
that timeout.
"""


class Heartbeat:
    """Renews the lease from its own thread; when the lease is lost, it calls `on_lost` once, and all work has to stop.

    `on_lost` gets the reason why the lease was not renewed in time; an empty one if unknown, such as a paused process.
    """

    def __init__(self, process: ProcessLease, *, ttl_seconds: float, on_lost: Callable[[str], None]) -> None:
        self._process = process
        self._interval_seconds = ttl_seconds / RENEWALS_PER_TTL
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._process.renew()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _renew_until_stopped(self) -> None:
        due, reason = time.monotonic(), ""
        while True:
            due = next_beat_at(due, now=time.monotonic(), pause=self._interval_seconds)
            if self._stopped.wait(due - time.monotonic()):
                return
            try:
                self._process.renew()
                reason = ""
            except (NotOwner, StateUnreadable):
                self._on_lost(reason)
                return
            except Exception as error:  # noqa: BLE001  # if the thread ended, the process would lose all its claims
                # Only the next beat shows whether the lease still holds.
                reason = f"its lease could not be renewed: {to_hinted_error(error).message}"


def next_beat_at(last: float, *, now: float, pause: float) -> float:
    """Return when to renew again: at a fixed rhythm; at once if the last renewal took longer than that."""
    return max(last + pause, now)
