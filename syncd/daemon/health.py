"""Health of the daemon: whether its loop is alive, and whether it is ready for work."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.errors import LakeDown, LakeUnfit, to_hinted_error
from syncd.events import PassEnded, StreamEvent
from watermarks.clock import Clock
from watermarks.errors import HintedError, StoreUnavailable

LOOP_TIMEOUT_SECONDS: Final = 60.0
"""Time without an iteration after which the loop counts as hanging."""
PROBE_VALID_SECONDS: Final = 60.0
"""Time for which a probe of the lake is valid."""
FIRST_PROBE_WAIT_SECONDS: Final = 3.0
"""Time that a request waits for the first probe."""
_LAKE_ERRORS: Final = (LakeDown, LakeUnfit, StoreUnavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatus:
    """Result of a check, with the reason for a failed one."""

    is_healthy: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _LakeProbe:
    at: float
    error: HintedError | None


class HealthChecker:
    """Judges the loop by its last iteration, and the lake by the last pass or probe.

    A reader of events: the end of a pass shows whether the lake answers. Without one for a while a thread calls
    `probe_lake`, one call at a time.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        last_iteration_at: Callable[[], float],
        probe_lake: Callable[[], None],
        loop_timeout_seconds: float = LOOP_TIMEOUT_SECONDS,
    ) -> None:
        """Make the checker.

        `last_iteration_at` returns the monotonic time of the loop's last iteration; `probe_lake` makes a small request
        and raises its error.
        """
        self._clock = clock
        self._last_iteration_at = last_iteration_at
        self._probe_lake = probe_lake
        self._loop_timeout_seconds = loop_timeout_seconds
        self._guard = threading.Lock()
        self._is_probing = False
        self._has_probed = threading.Event()
        self._last_probe: _LakeProbe | None = None

    def __call__(self, event: StreamEvent) -> None:
        if not isinstance(event, PassEnded) or event.interrupted:
            return
        if event.error is None or isinstance(event.error, _LAKE_ERRORS):
            self._record_probe(event.error)

    def seconds_since_iteration(self) -> float:
        return max(self._clock.monotonic() - self._last_iteration_at(), 0.0)

    def check_alive(self) -> HealthStatus:
        age = self.seconds_since_iteration()
        if age < self._loop_timeout_seconds:
            return HealthStatus(is_healthy=True)
        return HealthStatus(is_healthy=False, reason=f"the loop has not run for {age:.0f} s")

    def check_ready(self) -> HealthStatus:
        """Return whether the loop runs and the lake answered last time."""
        alive = self.check_alive()
        if not alive.is_healthy:
            return alive
        last = self._last_probe
        if last is None or self._clock.monotonic() - last.at >= PROBE_VALID_SECONDS:
            self._start_probe()
            if last is None:
                self._has_probed.wait(FIRST_PROBE_WAIT_SECONDS)
        last = self._last_probe
        if last is None:
            return HealthStatus(is_healthy=False, reason="the lake has not answered yet")
        if last.error is not None:
            return HealthStatus(is_healthy=False, reason=f"the lake did not answer: {last.error.message}")
        return HealthStatus(is_healthy=True)

    def _start_probe(self) -> None:
        with self._guard:
            if self._is_probing:
                return
            self._is_probing = True
        threading.Thread(target=self._run_probe, name="probe-lake", daemon=True).start()

    def _run_probe(self) -> None:
        try:
            self._probe_lake()
        except Exception as error:  # noqa: BLE001  # a bug in the probe must not pass for an answer
            self._record_probe(to_hinted_error(error))
        else:
            self._record_probe(None)
        finally:
            with self._guard:
                self._is_probing = False

    def _record_probe(self, error: HintedError | None) -> None:
        self._last_probe = _LakeProbe(self._clock.monotonic(), error)
        self._has_probed.set()
