"""The daemon's loop: one thread that hears everything and decides about turns; the work is done by others."""

import gc
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from syncd.app import TTL
from syncd.daemon.config_reload import Reloaded, read_again
from syncd.daemon.event_dispatcher import Told
from syncd.daemon.failure_policy import PassTooLong, Trouble, is_cut
from syncd.daemon.pass_runner import Make
from syncd.daemon.schedule import HostClock
from syncd.daemon.scheduler import Hold, Places, Turns
from syncd.daemon.shutdown import Stopping
from syncd.daemon.stage_task import Lane, LaneKey, Now, Passed
from syncd.daemon.worker_pool import Crew
from syncd.events import BatchExtracted, Event, PassBegan, PassDue, PassEnded, PassHeldBack, Tell
from syncd.settings import Settings
from watermarks.clock import Clock
from watermarks.document import Stage
from watermarks.names import StreamName

GIVEN_BACK_WITHIN: Final = 60.0
"""Seconds, before others begin; what is not given back by then falls free by itself."""


@dataclass(frozen=True, slots=True)
class _Ended:
    key: LaneKey
    passed: Passed
    crew: int


@dataclass(frozen=True, slots=True)
class _Woken:
    stream: StreamName


@dataclass(frozen=True, slots=True)
class _Reload:
    answer: Future[Reloaded]


@dataclass(frozen=True, slots=True)
class _Lost:
    crew: int


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Heard: TypeAlias = _Ended | _Woken | _Reload | _Lost | _Stop


class Daemon:
    """Keeps every stream of a configuration up to date until it is told to stop.

    `run` is its one thread. Everything else comes to it as a word in a queue, from any thread or a signal's handler.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        read: Callable[[], Settings],
        make: Make,
        readers: Sequence[Tell],
        say: Callable[[str], None],
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        ttl: float = TTL,
    ) -> None:
        """Prepare; `read` reads the configuration again, `say` tells what is about the daemon and not a stream."""
        self._settings = settings
        self._read = read
        self._make = make
        self._say = say
        self._clock = clock or HostClock()
        self._chance = chance
        self._takeover = ttl / 3
        self._again_after = ttl / 6
        """Seconds between two starts under a new name: whoever ends owners again and again is not to be raced."""
        self._tell = Told(readers, say=say)
        self._heard = SimpleQueue[_Heard]()
        self._proven: dict[StreamName, bool] = {}
        """What the last extractions said of their streams."""
        self._stopping = Stopping()
        self._hired: Crew | None = None
        """None while one crew is followed by another."""
        self._turns: Turns
        self._next: Settings | None = None
        """The settings that come into force as soon as nothing is at work."""
        self._made = 0
        self._made_at = self._clock.monotonic()
        self._not_before = 0.0
        """When a new start may begin."""
        self.turned_at = self._clock.monotonic()
        """When the loop was last seen alive, on its clock that only rises."""

    # What others ask of it.

    def stop(self) -> None:
        """End at a safe point; returns at once."""
        self._heard.put(_Stop())

    def reload(self) -> "Future[Reloaded]":
        """Read the configuration again; what is at work is brought to its end first."""
        answer: Future[Reloaded] = Future()
        self._heard.put(_Reload(answer))
        return answer

    @property
    def ending(self) -> bool:
        """Whether it was told to stop, and only brings its work to an end."""
        return self._stopping.began

    # The loop.

    def run(self) -> bool:
        """Work until somebody stops it; whether everything came to its end, and was given back, in time."""
        self._renewed(self._settings, before=None)
        try:
            while not self._is_over():
                now = self._now()
                self.turned_at = now.mono
                self._take_care(now)
                self._hear(self._rest(now))
        finally:
            left = self._stopping.left(self._clock.monotonic())
            clean = self._dismiss(within=GIVEN_BACK_WITHIN if left is None else left)
        return clean and not self._turns.at_work

    def _is_over(self) -> bool:
        stopping = self._stopping
        return stopping.began and (not self._turns.at_work or stopping.is_late(self._clock.monotonic()))

    def _take_care(self, now: Now) -> None:
        """Whatever the clock demands."""
        for lane in self._turns.overdue(now.mono):
            self._crew.end(lane.key, why=f"longest_run is {lane.settings.schedule.longest_run}", overran=True)
        if self._stopping.began:
            if self._stopping.is_impatient(now.mono):
                for lane in self._turns.at_work:
                    self._crew.end(lane.key, why="the daemon stops")
            return
        if self._next is None:
            self._begin(now)
        elif not self._turns.at_work and now.mono >= self._not_before:
            self._renewed(self._next, before=self._turns)
            self._begin(now)

    def _begin(self, now: Now) -> None:
        turn = self._turns.turn(now)
        for hold in turn.holds:
            self._tell_hold(hold, now)
        for lane in turn.begins:
            self._tell(PassBegan(stream=lane.key.stream, stage=lane.stage, strategy=lane.strategy))
            self._crew.begin(lane)

    def _rest(self, now: Now) -> float:
        if self._stopping.began:
            return self._stopping.rest(now.mono)
        if self._next is not None:
            return 1.0
        return self._turns.rest(now.mono)

    def _hear(self, within: float) -> None:
        """Everything that has been said by now; the first word is waited for."""
        try:
            heard = self._heard.get(timeout=within)
            while True:
                self._act_on(heard)
                heard = self._heard.get_nowait()
        except Empty:
            return

    def _act_on(self, heard: _Heard) -> None:
        now = self._now()
        match heard:
            case _Ended():
                self._ended(heard, now)
            case _Woken():
                self._turns.woken(heard.stream, now.mono)
            case _Reload():
                self._reload(heard.answer, now)
            case _Lost():
                self._lost(heard.crew)
            case _Stop():
                self._stopping.begin(now.mono, within=self._settings.daemon.stop_timeout.total_seconds())

    # A pass has ended.

    def _ended(self, heard: _Ended, now: Now) -> None:
        lane = self._turns.lanes.get(heard.key)
        if lane is None or heard.crew != self._made:
            return
        passed = self._judged(lane, heard.passed, now)
        self._turns.ended(lane, passed, now)
        if lane.trouble is Trouble.LEASE:
            self._lost(heard.crew)
        if lane.stage is Stage.EXTRACT:
            self._proven[lane.key.stream] = passed.proven
            if passed.error is None or passed.pending:  # the document was read before whatever failed
                self._turns.seen(lane.key.stream, passed.pending, now.mono)
        self._tell_end(lane, passed, now)

    def _judged(self, lane: Lane, passed: Passed, now: Now) -> Passed:
        """What a pass came to; where it was ended for its length, that is the error."""
        if passed.error is None or not lane.ending or self._stopping.began:
            return passed
        longest = lane.settings.schedule.longest_run
        assert lane.began is not None
        error = PassTooLong(
            f"the pass took {timedelta(seconds=round(now.mono - lane.began))} and was ended: longest_run is {longest}",
            hint=f"See what it waited for ({passed.error.message}); give it more time with longest_run, or less to"
            " do at once with batch_rows.",
        )
        return Passed(state="failed", seconds=passed.seconds, mark=passed.mark, last=passed.last, error=error)

    def _tell_end(self, lane: Lane, passed: Passed, now: Now) -> None:
        stream, stage = lane.key
        no_failure = lane.trouble in {Trouble.OWNER, Trouble.PATIENCE, Trouble.LEASE}
        reason = passed.error.message if no_failure and passed.error else passed.reason
        self._tell(
            PassEnded(
                stream=stream,
                stage=stage,
                state="waiting" if no_failure else str(passed.state),
                batches=passed.batches,
                rows=passed.rows,
                seconds=passed.seconds,
                mark=passed.mark,
                complete=passed.complete,
                proven=self._proven.get(stream, False),
                pending=passed.pending,
                reason=reason,
                cut=passed.error is not None and is_cut(passed.error),
                error=None if no_failure else passed.error,
            )
        )
        if no_failure:
            self._tell_hold(Hold(lane=lane, reason=reason, until=lane.due), now)
        elif lane.due > now.mono and (at := _instant(now, lane.due)) is not None:
            self._tell(PassDue(stream=stream, stage=stage, at=at))

    def _tell_hold(self, hold: Hold, now: Now) -> None:
        stream, stage = hold.lane.key
        until = None if hold.until is None else _instant(now, hold.until)
        self._tell(PassHeldBack(stream=stream, stage=stage, reason=hold.reason, until=until))

    # Other settings, another name.

    def _reload(self, answer: Future[Reloaded], now: Now) -> None:
        before = self._next or self._settings
        told, after = read_again(self._read, before)
        if told.error:
            self._say(f"the configuration is refused, the one of before stays in force: {told.error}")
        elif told.changed:
            self._next = after
            self._say("the configuration is read again; what is at work comes to its end, then it is in force")
        else:
            self._turns.hurry(now.mono)
            self._say("the configuration is read again: nothing has changed in it")
        if told.later:
            self._say("what is said under `daemon:` but for stop_timeout comes into force with the next start")
        answer.set_result(told)

    def _lost(self, crew: int) -> None:
        """Our lease was ended: what we held is another's, or nobody's; we go on under another name."""
        if crew == self._made and self._next is None and not self._stopping.began:
            self._next = self._settings
            self._not_before = self._made_at + self._again_after
            self._say("this process was silent for too long and lost its lease: it goes on under a new name")

    def _renewed(self, settings: Settings, *, before: Turns | None) -> None:
        if before is not None:
            self._dismiss(within=GIVEN_BACK_WITHIN)
            # Clients of S3 are cycles of some hundred thousand objects: two generations of them at once would leave
            # memory in pieces that nothing gets back.
            gc.collect()
        self._settings, self._next = settings, None
        self._made += 1
        crew, now = self._made, self._now()
        self._made_at = now.mono
        works = self._make(settings, self._watched, lambda: self._heard.put(_Lost(crew)))
        self._turns = Turns(settings, now=now, chance=self._chance, takeover=self._takeover)
        if before is not None:
            self._turns.take_over(before, now.mono)
        self._hired = Crew(
            works,
            threads=Places.by(settings).all,
            ended=lambda key, passed: self._heard.put(_Ended(key, passed, crew)),
        )

    def _dismiss(self, *, within: float) -> bool:
        """Let the crew go, where there is one; whether everything was given back in time."""
        crew, self._hired = self._hired, None
        return crew is None or crew.close(within=within)

    @property
    def _crew(self) -> Crew:
        assert self._hired is not None
        return self._hired

    def _watched(self, event: Event) -> None:
        """An event of the work, on its way to the readers; a new batch wakes its loader."""
        self._tell(event)
        if isinstance(event, BatchExtracted):
            self._heard.put(_Woken(event.stream))

    def _now(self) -> Now:
        return Now(self._clock.monotonic(), self._clock.now())


def _instant(now: Now, due: float) -> datetime | None:
    """When that is, by the wall; None where it is never."""
    return now.wall + timedelta(seconds=due - now.mono) if due != float("inf") else None
