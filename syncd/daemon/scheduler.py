"""Turns: which lane begins now, which one waits and for what, and when each is due again. It only decides."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from syncd.daemon.backoff import pause_after
from syncd.daemon.backup_strategy import strategy_of
from syncd.daemon.circuit_breaker import Breaker
from syncd.daemon.due_queue import Agenda
from syncd.daemon.failure_policy import Trouble, trouble_of
from syncd.daemon.schedule import interval_of, trigger_of
from syncd.daemon.stage_task import Lane, LaneKey, Now, Passed
from syncd.settings import Settings, StreamSettings
from watermarks.document import Stage
from watermarks.names import StreamName

LAKE: Final = "the lake"
LOOKED_EVERY: Final = 90.0
"""Seconds after which a loader looks for batches of another process, where no extraction has looked for it."""
COMPARED_EVERY: Final = 600.0
"""Seconds after which it compares with the ledger, due or not."""
SOON: Final = 5.0
"""Seconds until a stream looks again that waits for a transaction to end."""
LONG_WAIT: Final = 2.0
"""Seconds after which a lane that waits for a place says so."""
STEPPED: Final = 1.0
"""Seconds by which the clocks may drift apart until the wall's counts as set anew."""
AT_MOST: Final = 5.0
"""Seconds that nobody looks at a clock."""
_SIDE_OF: Final = {Trouble.SOURCE: Stage.EXTRACT, Trouble.WAREHOUSE: Stage.LOAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A lane that is due and does not begin, and why."""

    lane: Lane
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is to happen now."""

    begins: tuple[Lane, ...] = ()
    holds: tuple[Hold, ...] = ()
    """Those of which that was not known before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How many passes there may be at once: of each source, and into each warehouse."""

    of: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def by(cls, settings: Settings) -> "Places":
        """Planning takes two connections to a source, a landing one session."""
        sources = {source_side(one.name): max(1, one.max_connections // 2) for one in settings.sources}
        return cls(of=sources | {warehouse_side(one.name): one.max_sessions for one in settings.warehouses})

    @property
    def all(self) -> int:
        return sum(self.of.values())


def source_side(name: str) -> str:
    return f"source {name}"


def warehouse_side(name: str) -> str:
    return f"warehouse {name}"


class Turns:
    """Every lane of a configuration. One thread asks it; the clocks and chance are the caller's."""

    def __init__(self, settings: Settings, *, now: Now, chance: Callable[[], float], takeover: float) -> None:
        """Prepare; `takeover` is after how many seconds to look whether another owner still lives."""
        self._chance = chance
        self._takeover = takeover
        self._places = Places.by(settings)
        self._breakers: dict[str, Breaker] = {}
        self._agenda = Agenda()
        self._working: dict[LaneKey, Lane] = {}
        self._offset = now.wall.timestamp() - now.mono
        self.lanes: dict[LaneKey, Lane] = {
            lane.key: lane for stream in settings.streams for lane in self._lanes_of(stream, now)
        }
        self._by_name = {lane.name: lane for lane in self.lanes.values() if lane.stage is Stage.EXTRACT}

    # What happens now.

    def turn(self, now: Now) -> Turn:
        """Who begins, and who is held back since now. Whoever is named as beginning is at work from here on."""
        self._follow_the_wall(now)
        waiting = sorted(self._agenda.waiting(now.mono), key=self._order)
        at_work = Counter(lane.sides[0] for lane in self._working.values())
        rivals = at_work + Counter(lane.sides[0] for lane in waiting)
        begins: list[Lane] = []
        holds: list[Hold] = []
        for lane in waiting:
            hold = self._hold_of(lane, now.mono, at_work)
            if hold is None:
                at_work[lane.sides[0]] += 1
                self._begin(lane, now, rivals=rivals[lane.sides[0]] - 1)
                begins.append(lane)
            elif hold.reason and hold.reason != lane.said:
                lane.said = hold.reason
                holds.append(hold)
        return Turn(begins=tuple(begins), holds=tuple(holds))

    def overdue(self, now: float) -> tuple[Lane, ...]:
        """Those that are at work for longer than they may be, each once."""
        late = [
            lane
            for lane in self._working.values()
            if lane.began is not None and not lane.ending and now >= lane.began + _longest(lane)
        ]
        for lane in late:
            lane.ending = True
        return tuple(late)

    def rest(self, now: float) -> float:
        """Seconds until a clock has to be looked at again."""
        return max(0.0, min(self._next_moments(now), default=now + AT_MOST) - now)

    @property
    def at_work(self) -> tuple[Lane, ...]:
        return tuple(self._working.values())

    def _next_moments(self, now: float) -> Iterator[float]:
        yield now + AT_MOST
        for lane in self._working.values():
            if lane.began is not None and not lane.ending:
                yield lane.began + _longest(lane)
        if (following := self._agenda.next()) is not None:
            yield following
        yield from (one.until for one in self._breakers.values() if one.until is not None and one.until > now)

    def _order(self, lane: Lane) -> tuple[bool, bool, int, float]:
        """Who comes first; at a side that does not answer, whoever asked it longest ago.

        It may be one stream alone that gets no answer: its priority is not to keep the others from finding that out.
        """
        if any(side in self._breakers and self._breakers[side].is_open for side in lane.sides):
            return True, False, 0, float("-inf") if lane.passed_at is None else lane.passed_at
        return False, *lane.order

    def _hold_of(self, lane: Lane, now: float, at_work: Mapping[str, int]) -> Hold | None:
        if (silent := self._silent(lane, now)) is not None:
            side, breaker = silent
            return Hold(lane=lane, reason=f"{side} does not answer: {breaker.reason}", until=breaker.until)
        for name in lane.settings.schedule.after if lane.stage is Stage.EXTRACT else ():
            first = self._by_name.get(name)
            if first is not None and self._comes_first(first, lane, now):
                return Hold(lane=lane, reason=f"comes after {name}")
        places = self._places.of[lane.sides[0]]
        if at_work[lane.sides[0]] < places:
            return None
        if now - lane.due < LONG_WAIT:
            return Hold(lane=lane, reason="")
        return Hold(lane=lane, reason=f"waits for its turn: {lane.sides[0]} is read or written by {places} at once")

    def _silent(self, lane: Lane, now: float) -> tuple[str, Breaker] | None:
        """A side of a lane that may not be asked now, and its breaker."""
        breakers = ((side, self._breakers.get(side)) for side in lane.sides)
        return next(((side, one) for side, one in breakers if one is not None and not one.lets(now)), None)

    def _comes_first(self, first: Lane, lane: Lane, now: float) -> bool:
        """Whether a lane waits for another that it names: for one pass of it at most since it is due itself.

        So it has its turn whatever the other one does. A pass that was at work before is not waited for, nor is a lane
        that fails, that another process has, or whose side does not answer: these may take for ever.
        """
        if first.failures or first.owner or first.done >= lane.due:
            return False
        if first.began is not None:
            return first.began >= lane.due
        return first.due <= now and self._silent(first, now) is None

    def _begin(self, lane: Lane, now: Now, *, rivals: int) -> None:
        for side in lane.sides:
            if side in self._breakers:
                self._breakers[side].began(now.mono)
        lane.strategy = strategy_of(places=self._places.of[lane.sides[0]], rivals=rivals, many=lane.many)
        if lane.trigger is not None:
            # Its turn may come a little before the wall's clock shows its time.
            lane.at = lane.trigger.next(now.wall + timedelta(seconds=0.0 if lane.tries_again else STEPPED))
        lane.began = lane.passed_at = now.mono
        self._working[lane.key] = lane
        lane.again = lane.ending = False
        lane.said = ""

    # What has happened.

    def ended(self, lane: Lane, passed: Passed, now: Now) -> None:
        """A pass has ended: when is the next one?"""
        began, lane.began = lane.began, None
        assert began is not None
        lane.done = began
        del self._working[lane.key]
        trouble = lane.trouble = trouble_of(passed.error) if passed.error is not None else None
        self._tell_breakers(lane, passed, trouble, now.mono)
        self._regular(lane, now, began=began)
        self._owner_of(lane, passed, trouble, now.mono)
        match trouble:
            case None:
                self._went_well(lane, passed, now.mono)
            case Trouble.OWNER:
                lane.due = min(lane.due, self._watch(lane, now.mono))
                lane.failures = 0
            case Trouble.PATIENCE:
                lane.due = min(lane.due, now.mono + SOON)
            case Trouble.LEASE:
                lane.due = now.mono
            case _:
                self._failed(lane, trouble, now.mono)

    def woken(self, stream: StreamName, now: float) -> None:
        """A batch of a stream was extracted here: its loader has something to do."""
        lane = self.lanes.get(LaneKey(stream, Stage.LOAD))
        if lane is None:
            return
        lane.again = True
        if lane.began is None and not lane.failures and not lane.owner:
            lane.due = min(lane.due, now)

    def seen(self, stream: StreamName, pending: int, now: float) -> None:
        """An extraction has read how many batches wait for the loader: it need not look for itself."""
        if pending:
            self.woken(stream, now)
            return
        lane = self.lanes.get(LaneKey(stream, Stage.LOAD))
        if lane is not None and lane.began is None and not lane.failures and not lane.owner and lane.due > now:
            passed_at = now if lane.passed_at is None else lane.passed_at
            lane.due = min(now + LOOKED_EVERY, passed_at + COMPARED_EVERY)

    def take_over(self, before: "Turns", now: float) -> None:
        """Go on where other turns ended: what was due is due still, and what was to be tried again is so at once."""
        for key, lane in self.lanes.items():
            old = before.lanes.get(key)
            if old is not None and (old.waits(now) or old.tries_again):
                lane.due = now

    def hurry(self, now: float) -> None:
        """What waits for another try has it at once, since a person may have mended it; others keep their time."""
        for lane in self.lanes.values():
            if lane.tries_again or lane.trouble is not None or lane.owner:
                lane.due = min(lane.due, now)
            lane.failures, lane.owner, lane.said = 0, "", ""
        self._breakers.clear()

    def _went_well(self, lane: Lane, passed: Passed, now: float) -> None:
        lane.failures = 0
        lane.many = passed.more
        lane.follows = (passed.more or lane.again) and lane.regular > now
        if passed.more or lane.again:
            lane.due = now

    def _failed(self, lane: Lane, trouble: Trouble, now: float) -> None:
        lane.failures += 1
        pause = pause_after(lane.failures, chance=self._chance, for_a_person=trouble is Trouble.PERSON)
        lane.due = now + pause
        side = _side(lane, trouble)
        breaker = self._breakers.get(side) if side else None
        if breaker is not None and breaker.until is not None:
            lane.due = breaker.until

    def _tell_breakers(self, lane: Lane, passed: Passed, trouble: Trouble | None, now: float) -> None:
        side = _side(lane, trouble)
        for one in lane.sides:
            breaker = self._breakers.setdefault(one, Breaker(chance=self._chance))
            if one == side and passed.error is not None:
                breaker.failed(now, passed.error.message)
            elif side is None and _has_asked(lane, one, passed, trouble):
                if breaker.succeeded():
                    self._is_back(one, now)
            else:
                breaker.learned_nothing(now)

    def _is_back(self, side: str, now: float) -> None:
        """Everybody who had failed for its sake may go at once."""
        for lane in self.lanes.values():
            if lane.began is None and side in lane.sides and _side(lane, lane.trouble) == side:
                lane.due, lane.failures = min(lane.due, now), 0

    def _owner_of(self, lane: Lane, passed: Passed, trouble: Trouble | None, now: float) -> None:
        """Keep who has the stage; where it is free again, whoever had it may have left others too."""
        before = lane.owner
        lane.owner = _owner(passed) if trouble is Trouble.OWNER else ""
        if not before or lane.owner == before:
            return
        left = [one for one in self.lanes.values() if one.owner == before and one.began is None]
        if trouble is None and passed.batches:
            for one in left:
                one.due, one.owner = min(one.due, now), ""
        elif left:  # it may have been the one that watched for all
            left[0].due = min(left[0].due, self._watch(left[0], now))

    def _watch(self, lane: Lane, now: float) -> float:
        """When to look whether the other owner lives: one lane looks for all that it has."""
        soon = now + self._takeover
        others = (one for one in self.lanes.values() if one is not lane and one.owner == lane.owner)
        return lane.due if any(one.due <= soon or one.began is not None for one in others) else soon

    # When something is due by its schedule.

    def _lanes_of(self, stream: StreamSettings, now: Now) -> Iterator[Lane]:
        name = StreamName(source=stream.source, database=stream.database, table=stream.table)
        trigger = trigger_of(stream.schedule)
        extract = Lane(
            key=LaneKey(name, Stage.EXTRACT),
            settings=stream,
            sides=(source_side(stream.source), LAKE),
            agenda=self._agenda,
            regular=now.mono,
            trigger=trigger,
            at=None if trigger is None else trigger.next(now.wall),
        )
        if trigger is not None:
            self._by_the_wall(extract, now)
        yield extract
        if stream.target is not None:
            yield Lane(
                key=LaneKey(name, Stage.LOAD),
                settings=stream,
                sides=(warehouse_side(stream.target.warehouse), LAKE),
                agenda=self._agenda,
                regular=now.mono,
            )

    def _regular(self, lane: Lane, now: Now, *, began: float) -> None:
        """The next turn of a lane by its schedule, counted from when its pass began."""
        if lane.stage is Stage.LOAD:
            lane.due = lane.regular = now.mono + LOOKED_EVERY * (0.8 + 0.2 * self._chance())
        elif lane.trigger is not None:
            self._by_the_wall(lane, now)
        else:
            every = lane.settings.schedule.every or timedelta(0)
            lane.due = lane.regular = max(now.mono, began + interval_of(every, chance=self._chance))

    def _by_the_wall(self, lane: Lane, now: Now) -> None:
        """The turn of a cron, which is now where its time has come already."""
        wait = float("inf") if lane.at is None else (lane.at - now.wall).total_seconds()
        lane.due = lane.regular = now.mono + max(0.0, wait)

    def _follow_the_wall(self, now: Now) -> None:
        """Where somebody has set the clock, crons are counted anew; one that was leapt over is due, once."""
        offset = now.wall.timestamp() - now.mono
        if abs(offset - self._offset) < STEPPED:
            return
        self._offset = offset
        for lane in self.lanes.values():
            if lane.trigger is None:
                continue
            if lane.at is None or lane.at > now.wall:
                lane.at = lane.trigger.next(now.wall)
            if lane.began is None and not lane.waits(now.mono) and not lane.tries_again:
                self._by_the_wall(lane, now)


def _longest(lane: Lane) -> float:
    return lane.settings.schedule.longest_run.total_seconds()


def _side(lane: Lane, trouble: Trouble | None) -> str | None:
    """Which side of a lane a trouble is of; None where it is of none."""
    if trouble is Trouble.LAKE:
        return LAKE
    return lane.sides[0] if trouble is not None and _SIDE_OF.get(trouble) is lane.stage else None


def _has_asked(lane: Lane, side: str, passed: Passed, trouble: Trouble | None) -> bool:
    """Whether a pass shows that a side answers: a loader with nothing to do asks no warehouse."""
    if side == LAKE:
        return trouble is None
    return trouble is None and (lane.stage is Stage.EXTRACT or passed.batches > 0)


def _owner(passed: Passed) -> str:
    return str(passed.error.facts.get("owner", "another process")) if passed.error is not None else ""
