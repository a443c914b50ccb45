"""Whether the daemon is alive, and whether it is ready to be relied on."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.errors import LakeDown, LakeUnfit, to_hinted_error
from syncd.events import PassEnded, StreamEvent
from watermarks.clock import Clock
from watermarks.errors import HintedError, StoreUnavailable

LOOP_TIMEOUT_SECONDS: Final = 60.0
"""Seconds: a loop that has not come round for so long hangs."""
PROBE_VALID_SECONDS: Final = 60.0
"""Seconds for which a look at the lake counts."""
FIRST_PROBE_WAIT_SECONDS: Final = 3.0
"""Seconds that whoever asks waits for the first look."""
_LAKE_ERRORS: Final = (LakeDown, LakeUnfit, StoreUnavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatus:
    """Yes or no, and why not."""

    is_healthy: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _LakeProbe:
    at: float
    error: HintedError | None


class HealthChecker:
    """Tells from a heartbeat whether the loop is alive, and from looks at the lake whether it can work.

    A reader of events: a pass that ended is a look. Where none did for a while, `look` is
    called, by a thread of its own, one at a time.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        last_iteration_at: Callable[[], float],
        probe_lake: Callable[[], None],
        loop_timeout_seconds: float = LOOP_TIMEOUT_SECONDS,
    ) -> None:
        """Prepare; `beat` tells when the loop came round last, in the clock's seconds that only rise.

        `look` asks the lake for something small, and raises what is wrong.
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
        if not isinstance(event, PassEnded) or event.cut:
            return
        if event.error is None or isinstance(event.error, _LAKE_ERRORS):
            self._record_probe(event.error)

    def seconds_since_iteration(self) -> float:
        """Since how many seconds the loop has not come round."""
        return max(self._clock.monotonic() - self._last_iteration_at(), 0.0)

    def check_alive(self) -> HealthStatus:
        """Whether the loop comes round."""
        age = self.seconds_since_iteration()
        return (
            HealthStatus(is_healthy=True)
            if age < self._loop_timeout_seconds
            else HealthStatus(is_healthy=False, reason=f"no turn of the loop for {age:.0f} s")
        )

    def check_ready(self) -> HealthStatus:
        """Whether the configuration is in force, and the lake answered when somebody looked last."""
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
        threading.Thread(target=self._run_probe, name="look-at-lake", daemon=True).start()

    def _run_probe(self) -> None:
        try:
            self._probe_lake()
        except Exception as error:  # noqa: BLE001  # a bug in a look must not look like a lake that answers
            self._record_probe(to_hinted_error(error))
        else:
            self._record_probe(None)
        finally:
            with self._guard:
                self._is_probing = False

    def _record_probe(self, error: HintedError | None) -> None:
        self._last_probe = _LakeProbe(self._clock.monotonic(), error)
        self._has_probed.set()
