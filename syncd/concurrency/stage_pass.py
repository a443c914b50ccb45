"""Common frame of a pass of either stage: claim, timing, failures and the time of the next attempt."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from syncd.concurrency.running_pass import is_interrupted
from syncd.concurrency.stage_claim import ClaimKeeper
from syncd.errors import to_hinted_error
from syncd.events import EventListener, StreamFailed
from watermarks.clock import Clock
from watermarks.document import FailureRecord
from watermarks.errors import HintedError, NotOwner
from watermarks.lease import ProcessLease
from watermarks.names import StreamName

FIRST_RETRY_DELAY: Final = timedelta(seconds=10)
MAX_RETRY_DELAY: Final = timedelta(minutes=15)


@dataclass(slots=True)
class PassEnd:
    """End of a pass; complete once the pass is over."""

    error: HintedError | None = None
    """The error that ended the pass, if any."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePass:
    """The parts that a pass of one stage over one stream needs in both stages.

    The claim stays in `claim_keeper` from pass to pass; its maker releases it.
    """

    stream: StreamName
    get_process: Callable[[], ProcessLease]
    """Returns the process under whose lease the pass works; called only when there is something to do."""
    claim_keeper: ClaimKeeper
    clock: Clock
    emit: EventListener
    explain_interruption: Callable[[HintedError], HintedError] = lambda error: error
    """Returns the error of a pass that was ended from outside, given the error that the end caused."""

    @contextmanager
    def time_and_catch(self) -> Generator[PassEnd]:
        """Time a pass, and catch and report the error that ends it.

        A bug of ours is an error like any other: one stream must not stop the others.
        """
        end, began = PassEnd(), self.clock.monotonic()
        try:
            yield end
        except Exception as error:  # noqa: BLE001  # see above
            end.error = failure = to_hinted_error(error)
            if not isinstance(failure, NotOwner):  # the process that has the stage goes on with it
                self.emit(StreamFailed(stream=self.stream, error=failure.message, hint=failure.hint))
        end.seconds = self.clock.monotonic() - began

    def record_failure(
        self, error: Exception, record: Callable[[str, Callable[[int], FailureRecord]], None]
    ) -> HintedError:
        """Record the error that ended a pass in history, and return it; an end from outside is not recorded."""
        failure = self.explain_interruption(to_hinted_error(error))
        if not is_interrupted(failure):
            record(failure.message, partial(self._make_failure, failure.message))
        return failure

    def _make_failure(self, message: str, attempt: int) -> FailureRecord:
        now = self.clock.now()
        delay = min(FIRST_RETRY_DELAY * 2 ** min(attempt - 1, 10), MAX_RETRY_DELAY)
        return FailureRecord(message=message, attempt=attempt, failed_at=now, retry_at=now + delay)
