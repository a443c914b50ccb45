"""The loop itself, over works that do nothing: what begins, what is told, and how it ends."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pytest

from syncd.app.pass_factory import PassOptions
from syncd.config.check import build_settings
from syncd.config.yaml_reader import parse_document
from syncd.daemon.daemon_loop import DaemonLoop
from syncd.errors import ConfigError, HorizonNotKnown, PassStopped, SourceDown
from syncd.events import BatchExtracted, EventListener, PassDue, PassEnded, PassHeldBack, PassStarted, StreamEvent
from syncd.extract.extract_pass import ExtractOutcome
from syncd.load.load_pass import LoadOutcome
from syncd.settings import Settings, StreamSettings
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR
from watermarks.document import Stage
from watermarks.lease import LeaseEnded, OtherOwner
from watermarks.names import StreamName

if TYPE_CHECKING:
    from watermarks.errors import HintedError

TOP = """
source: {url: "mysql://s@h/shop"}
lake: {url: "s3://b"}
daemon: {http: off, stop_timeout: 2s}
"""
WAREHOUSE = 'warehouse: {url: "redshift://w:x@h/dev"}\n'
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def settings_of(tables: str, *, top: str = TOP) -> Settings:
    return build_settings(parse_document(f"{top}tables: {{{tables}}}", path="syncd.yaml", environ={}))


@dataclass
class Scripted:
    """Works whose passes are what a test makes of them."""

    tell: EventListener
    lost: Callable[[], None]
    extracts: Callable[["Scripted", StreamName], ExtractOutcome]
    loads: Callable[["Scripted", StreamName], LoadOutcome]
    passes: list[tuple[str, str]] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    opened: list[object] = field(default_factory=list[object])
    closed: bool = False
    told_to_end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed = True

    def extract(self, settings: StreamSettings, options: PassOptions) -> ExtractOutcome:
        self.passes.append((settings.table, "extract"))
        return self.extracts(self, settings.stream_name)

    def load(self, settings: StreamSettings, options: PassOptions) -> LoadOutcome:
        self.passes.append((settings.table, "load"))
        return self.loads(self, settings.stream_name)

    def end_pass(self, stream: StreamName, stage: Stage, *, why: str, overran: bool) -> bool:
        self.ended.append((stream.table, f"{stage} overran" if overran else stage))
        self.told_to_end.set()
        return True

    def release_idle(self) -> None:
        return


@dataclass
class Play:
    """A daemon at work, its works so far, and what it told."""

    daemon: DaemonLoop
    made: list[Scripted]
    events: list[StreamEvent]
    said: list[str]
    clean: "Future[bool]"

    def until(self, asked: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not asked():
            assert time.monotonic() < deadline, (self.made, self.events, self.said)
            time.sleep(0.01)

    def told(self, kind: type[StreamEvent]) -> list[Any]:
        return [event for event in list(self.events) if isinstance(event, kind)]

    def passes(self, table: str, stage: str = "extract") -> int:
        return sum(made.passes.count((table, stage)) for made in self.made)


def idle(_works: Scripted, stream: StreamName) -> ExtractOutcome:
    return ExtractOutcome(stream=stream)


def nothing_due(_works: Scripted, stream: StreamName) -> LoadOutcome:
    return LoadOutcome(stream=stream)


@pytest.fixture
def at_work() -> Callable[..., Any]:
    @contextmanager
    def running(settings: Settings, **words: Any) -> Iterator[Play]:
        made: list[Scripted] = []
        events: list[StreamEvent] = []
        said: list[str] = []
        extracts, loads = words.get("extracts", idle), words.get("loads", nothing_due)

        def make(_settings: Settings, tell: EventListener, lost: Callable[[], None]) -> Scripted:
            made.append(Scripted(tell=tell, lost=lost, extracts=extracts, loads=loads))
            return made[-1]

        readers = [*words.get("readers", []), events.append]
        read = words.get("read", lambda: settings)
        daemon = DaemonLoop(
            settings, read_settings=read, make_runner=make, readers=readers, report=said.append, lease_ttl_seconds=1.0
        )
        clean: Future[bool] = Future()
        thread = threading.Thread(target=lambda: clean.set_result(daemon.run()))
        thread.start()
        try:
            yield Play(daemon=daemon, made=made, events=events, said=said, clean=clean)
        finally:
            daemon.stop()
            thread.join(60)
            assert not thread.is_alive()

    return running


def test_each_stream_has_its_passes_and_all_of_it_is_told(at_work: Callable[..., Any]) -> None:
    with at_work(settings_of("a: {every: 1s}, b: {every: 1s}")) as some:
        some.until(lambda: some.passes("a") > 1 and some.passes("b") > 1)

    assert some.clean.result() is True
    assert some.made[0].closed
    kinds = [type(event) for event in some.events if event.stream.table == "a"][:3]
    assert kinds == [PassStarted, PassEnded, PassDue]
    assert {event.state for event in some.told(PassEnded)} == {"nothing new"}


def test_a_batch_wakes_its_loader_and_says_how_fresh_the_target_is(at_work: Callable[..., Any]) -> None:
    def extracts(works: Scripted, stream: StreamName) -> ExtractOutcome:
        batch = BatchId(1, 1)
        works.tell(
            BatchExtracted(
                stream=stream, batch=batch, kind="increment", rows=1, files=1, bytes=1, quarantined=0,
                mark=START_CURSOR, seconds=0.1,
            )
        )  # fmt: skip
        return ExtractOutcome(
            stream=stream, batches=1, rows=1, last_batch=batch, complete_before=NOON, proven=True, pending_batches=1
        )

    def loads(works: Scripted, stream: StreamName) -> LoadOutcome:
        return LoadOutcome(stream=stream, batches=1, last_batch=BatchId(1, 1), complete_before=NOON)

    with at_work(settings_of("a: {every: 1h}", top=TOP + WAREHOUSE), extracts=extracts, loads=loads) as some:
        some.until(lambda: some.passes("a", "load") >= 2)
        some.until(lambda: len([1 for one in some.told(PassEnded) if one.stage is Stage.LOAD]) >= 2)

    last = [one for one in some.told(PassEnded) if one.stage is Stage.LOAD][-1]
    assert (last.complete_up_to, last.proven) == (NOON, True)


def test_a_failure_is_told_and_other_streams_go_on(at_work: Callable[..., Any]) -> None:
    def extracts(_works: Scripted, stream: StreamName) -> ExtractOutcome:
        if stream.table == "a":
            raise RuntimeError("nobody foresaw this")
        return ExtractOutcome(stream=stream)

    with at_work(settings_of("a: {every: 10ms}, b: {every: 10ms}"), extracts=extracts) as some:
        some.until(lambda: some.passes("b") > 20)

    assert some.passes("a") < 5, "it has longer and longer pauses"
    ended = [one for one in some.told(PassEnded) if one.stream.table == "a"]
    assert {(one.state, type(one.error.__cause__)) for one in ended} == {("failed", RuntimeError)}


def test_another_owner_is_no_failure(at_work: Callable[..., Any]) -> None:
    def extracts(_works: Scripted, stream: StreamName) -> ExtractOutcome:
        return ExtractOutcome(stream=stream, error=OtherOwner("host-2 has it", owner="host-2"))

    with at_work(settings_of("a: {every: 1h}"), extracts=extracts) as some:
        some.until(lambda: bool(some.told(PassHeldBack)))

    [ended], [held] = some.told(PassEnded), some.told(PassHeldBack)
    assert (ended.state, ended.error, ended.reason, ended.interrupted) == ("waiting", None, "host-2 has it", False)
    assert held.reason == "host-2 has it"
    assert held.until is not None


def test_a_reader_that_raises_harms_nobody(at_work: Callable[..., Any]) -> None:
    def broken(_event: StreamEvent) -> None:
        raise BrokenPipeError

    with at_work(settings_of("a: {every: 10ms}"), readers=[broken]) as some:
        some.until(lambda: some.passes("a") > 5)

    assert some.said == ["an event sink fails and misses events: BrokenPipeError"]


def test_a_file_changed_for_the_worse_changes_nothing_and_says_so(at_work: Callable[..., Any]) -> None:
    def read() -> Settings:
        raise ConfigError("syncd.yaml:3: a mistake", hint="Mend it.")

    with at_work(settings_of("a: {every: 10ms}"), read=read) as some:
        answer = some.daemon.reload().result(60)
        before = some.passes("a")
        some.until(lambda: some.passes("a") > before + 5)

    assert (answer.error, answer.changed) == ("syncd.yaml:3: a mistake", False)
    assert len(some.made) == 1
    assert any("the current one stays in force" in line for line in some.said)


def test_a_reload_that_fails_in_a_way_nobody_foresaw_is_answered_and_changes_nothing(
    at_work: Callable[..., Any],
) -> None:
    def read() -> Settings:
        raise RecursionError

    with at_work(settings_of("a: {every: 10ms}"), read=read) as some:
        answer = some.daemon.reload().result(60)
        before = some.passes("a")
        some.until(lambda: some.passes("a") > before + 5)

    assert "RecursionError" in answer.error
    assert (answer.changed, len(some.made)) == (False, 1)
    assert any("the current one stays in force" in line for line in some.said)


def test_other_settings_come_into_force_when_what_is_at_work_has_ended(at_work: Callable[..., Any]) -> None:
    go_on = threading.Event()

    def extracts(_works: Scripted, stream: StreamName) -> ExtractOutcome:
        go_on.wait(60)
        return ExtractOutcome(stream=stream)

    after = settings_of("b: {every: 10ms}")
    with at_work(settings_of("a: {every: 10ms}"), read=lambda: after, extracts=extracts) as some:
        some.until(lambda: some.passes("a") == 1)
        answer = some.daemon.reload().result(60)
        assert not some.made[0].closed
        go_on.set()
        some.until(lambda: some.passes("b") > 1)

    assert answer.changed
    assert some.made[0].closed
    assert some.made[0].ended == []
    assert some.passes("a") == 1
    assert next(one.stream.table for one in some.told(PassEnded)) == "a"


def test_a_reload_of_the_same_file_tries_again_what_a_person_had_to_mend(at_work: Callable[..., Any]) -> None:
    def extracts(_works: Scripted, stream: StreamName) -> ExtractOutcome:
        return ExtractOutcome(stream=stream, error=ConfigError("no such column"))

    with at_work(settings_of("a: {every: 10ms}"), extracts=extracts) as some:
        some.until(lambda: len(some.told(PassEnded)) == 1)
        assert not some.daemon.reload().result(60).changed
        some.until(lambda: some.passes("a") == 2)


def test_who_lost_the_lease_goes_on_under_a_new_name(at_work: Callable[..., Any]) -> None:
    errors = [LeaseEnded("too silent")]

    def extracts(_works: Scripted, stream: StreamName) -> ExtractOutcome:
        return ExtractOutcome(stream=stream, error=errors.pop() if errors else None)

    with at_work(settings_of("a: {every: 10ms}"), extracts=extracts) as some:
        some.until(lambda: len(some.made) == 2 and some.passes("a") > 3)

    assert some.made[0].closed
    assert not any(one.error for one in some.told(PassEnded))
    assert [one.interrupted for one in some.told(PassEnded)][:2] == [True, False]


def test_a_pass_that_was_ended_by_a_stop_says_so_and_neither_failed_nor_went_well(at_work: Callable[..., Any]) -> None:
    def extracts(works: Scripted, stream: StreamName) -> ExtractOutcome:
        works.told_to_end.wait(60)
        return ExtractOutcome(stream=stream, error=PassStopped("extract of a was ended: the daemon stops"))

    with at_work(settings_of("a: {every: 10ms}"), extracts=extracts) as some:
        some.until(lambda: some.passes("a") == 1)

    [ended] = some.told(PassEnded)
    assert (ended.state, ended.error, ended.interrupted) == ("waiting", None, True)


def test_a_pass_that_waits_for_somebody_elses_transaction_was_not_cut(at_work: Callable[..., Any]) -> None:
    def extracts(_works: Scripted, stream: StreamName) -> ExtractOutcome:
        return ExtractOutcome(stream=stream, error=HorizonNotKnown("held by transaction 4711"))

    with at_work(settings_of("a: {every: 1h}"), extracts=extracts) as some:
        some.until(lambda: bool(some.told(PassHeldBack)))

    assert [one.interrupted for one in some.told(PassEnded)] == [False]


def test_what_lost_its_lease_is_gone_from_memory_before_another_is_made() -> None:
    made: list[weakref.ref[Scripted]] = []
    left, again = list[int](), threading.Event()

    def extracts(works: Scripted, stream: StreamName) -> ExtractOutcome:
        if works is made[0]():
            return ExtractOutcome(stream=stream, error=LeaseEnded("too silent"))
        again.set()
        return ExtractOutcome(stream=stream)

    def make(_settings: Settings, tell: EventListener, lost: Callable[[], None]) -> Scripted:
        left.append(sum(one() is not None for one in made))
        works = Scripted(tell=tell, lost=lost, extracts=extracts, loads=nothing_due)
        works.opened.append(works)  # as clients of S3 are, it is part of a cycle
        made.append(weakref.ref(works))
        return works

    settings = settings_of("a: {every: 10ms}")
    daemon = DaemonLoop(
        settings,
        read_settings=lambda: settings,
        make_runner=make,
        readers=[],
        report=lambda _: None,
        lease_ttl_seconds=1.0,
    )
    thread = threading.Thread(target=daemon.run)
    gc.disable()
    thread.start()
    try:
        assert again.wait(60)
    finally:
        gc.enable()
        daemon.stop()
        thread.join(60)

    assert left == [0, 0]


def test_works_that_cannot_be_made_again_end_it_with_what_was_wrong() -> None:
    made: list[Scripted] = []

    def extracts(_works: Scripted, stream: StreamName) -> ExtractOutcome:
        return ExtractOutcome(stream=stream, error=LeaseEnded("too silent"))

    def make(_settings: Settings, tell: EventListener, lost: Callable[[], None]) -> Scripted:
        if made:
            raise ConfigError("the certificate is gone")
        made.append(Scripted(tell=tell, lost=lost, extracts=extracts, loads=nothing_due))
        return made[-1]

    settings = settings_of("a: {every: 10ms}")
    daemon = DaemonLoop(
        settings,
        read_settings=lambda: settings,
        make_runner=make,
        readers=[],
        report=lambda _: None,
        lease_ttl_seconds=1.0,
    )

    with pytest.raises(ConfigError, match="the certificate is gone"):
        daemon.run()

    assert made[0].closed


def test_a_pass_that_takes_too_long_is_ended_by_name(at_work: Callable[..., Any]) -> None:
    def extracts(works: Scripted, stream: StreamName) -> ExtractOutcome:
        error: HintedError | None = None
        if stream.table == "a":
            works.told_to_end.wait(60)
            error = SourceDown("the line was cut")
        return ExtractOutcome(stream=stream, error=error)

    with at_work(settings_of("a: {longest_run: 200ms}, b: {every: 10ms}"), extracts=extracts) as some:
        some.until(lambda: any(one.error for one in some.told(PassEnded)))
        some.until(lambda: some.passes("b") > 5)

    ended = next(one for one in some.told(PassEnded) if one.error)
    assert some.made[0].ended[0] == ("a", "extract overran")
    assert "longest_run is 0:00:00.200000" in ended.error.message
    assert "the line was cut" in ended.error.hint


@pytest.mark.parametrize("deaf", [False, True])
def test_a_stop_waits_for_what_is_at_work_then_ends_it_then_leaves_it(
    at_work: Callable[..., Any], *, deaf: bool
) -> None:
    left = threading.Event()

    def extracts(works: Scripted, stream: StreamName) -> ExtractOutcome:
        works.told_to_end.wait(60)
        if deaf:
            left.wait(60)
        return ExtractOutcome(stream=stream)

    with at_work(settings_of("a: {every: 10ms}"), extracts=extracts) as some:
        some.until(lambda: some.passes("a") == 1)
        some.daemon.stop()
        clean = some.clean.result(50)
        left.set()

    assert clean is not deaf
    assert some.made[0].ended == [("a", "extract")]
    assert some.made[0].closed
