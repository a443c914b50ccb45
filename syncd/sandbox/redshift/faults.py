"""Faults that a test injects into the stand-in, and the statement or moment that they apply to."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from syncd.sandbox.redshift.refusal import INTERNAL

COPY_PATTERN: Final = r"^\s*copy\b"
COMMIT_PATTERN: Final = r"^\s*(commit|end)\b"
Injected_co = TypeVar("Injected_co", covariant=True)


class FaultTiming(StrEnum):
    """Before the statement runs, or after it ran and before the client gets its answer."""

    BEFORE = "before"
    AFTER = "after"


class FaultAction(StrEnum):
    DROP = "drop"
    DELAY = "delay"
    FAIL = "fail"
    HOLD = "hold"


@dataclass(slots=True, eq=False)
class StatementFault:
    """One fault for the n-th statement, counted from now, whose text matches; it happens once."""

    deed: FaultAction
    statement: str
    when: FaultTiming = FaultTiming.BEFORE
    nth: int = 1
    seconds: float = 0.0
    code: str = INTERNAL
    message: str = ""
    detail: str = ""
    seen: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def wait_reached(self, timeout: float = 60.0) -> None:
        """Return when the fault has happened; a held statement then waits for `release`.

        Raises:
            TimeoutError: it did not happen in time.
        """
        if not self.reached.wait(timeout):
            raise TimeoutError(f"no statement triggered the fault {self.deed} on {self.statement!r} in {timeout} s")

    def release(self) -> None:
        """Let a held statement go on."""
        self.released.set()


class FaultControl(Protocol[Injected_co]):
    """Faults that a test can ask for, of a stand-in in this process or of one in another process."""

    def inject(self, fault: StatementFault) -> Injected_co: ...

    def freeze(self) -> None:
        """Answer no client and read from none until `thaw`; connections stay open."""
        ...

    def thaw(self) -> None: ...

    def refuse_connections(self) -> None:
        """Refuse new connections; established ones stay."""
        ...

    def accept_connections(self) -> None: ...

    def clear(self) -> None:
        """Remove every fault; held statements and frozen sessions go on."""
        ...

    def drop(
        self, statement: str = COMMIT_PATTERN, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1
    ) -> Injected_co:
        """Cut the connection; before: the statement does not run; after: it runs, and no answer comes."""
        return self.inject(StatementFault(FaultAction.DROP, statement, when, nth))

    def delay(
        self, statement: str, seconds: float, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1
    ) -> Injected_co:
        return self.inject(StatementFault(FaultAction.DELAY, statement, when, nth, seconds=seconds))

    def hold(self, statement: str, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1) -> Injected_co:
        """Stop at the statement until the fault is released."""
        return self.inject(StatementFault(FaultAction.HOLD, statement, when, nth))

    def fail(
        self, statement: str, message: str, *, code: str = INTERNAL, detail: str = "", nth: int = 1
    ) -> Injected_co:
        """Answer with an error instead of running the statement; its transaction has failed then."""
        return self.inject(
            StatementFault(FaultAction.FAIL, statement, nth=nth, code=code, message=message, detail=detail)
        )

    def fail_copy(self, message: str, *, nth: int = 1, code: str = INTERNAL, detail: str = "") -> Injected_co:
        return self.fail(COPY_PATTERN, message, code=code, detail=detail, nth=nth)

    def fail_with_conflict(self, statement: str = COMMIT_PATTERN, *, nth: int = 1) -> Injected_co:
        """Answer with error 1023, a serializable isolation violation."""
        detail = "Serializable isolation violation on table in Redshift"
        return self.fail(statement, "1023", detail=detail, nth=nth)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()


class FaultInjector(FaultControl[StatementFault]):
    """Faults of one server that have not happened yet; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[StatementFault] = []
        self._thawed = threading.Event()
        self._thawed.set()
        self._accepting = threading.Event()
        self._accepting.set()
        self.closed = threading.Event()  # set by the server for its port, as is `listening`
        self.listening = threading.Event()

    def inject(self, fault: StatementFault) -> StatementFault:
        re.compile(fault.statement)
        with self._lock:
            self._pending.append(fault)
        return fault

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def refuse_connections(self) -> None:
        self._accepting.clear()

    def accept_connections(self) -> None:
        self._accepting.set()

    def clear(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
        for fault in pending:
            fault.release()
        self.thaw()
        self.accept_connections()

    def wait_refusing(self, timeout: float = 60.0) -> None:
        """Return when the port is closed."""
        if not self.closed.wait(timeout):
            raise TimeoutError("the port did not close")

    def wait_listening(self, timeout: float = 60.0) -> None:
        """Return when the port is open."""
        if not self.listening.wait(timeout):
            raise TimeoutError("the port did not open")

    @property
    def is_accepting(self) -> bool:
        return self._accepting.is_set()

    def wait_accepting(self, seconds: float) -> None:
        self._accepting.wait(seconds)

    def wait_thawed(self) -> None:
        self._thawed.wait()

    def take_due(self, sql: str, when: FaultTiming) -> StatementFault | None:
        """Return the fault that applies to this statement now, and remove it."""
        with self._lock:
            for fault in self._pending:
                if fault.when is when and re.search(fault.statement, sql, re.IGNORECASE):
                    fault.seen += 1
                    if fault.seen == fault.nth:
                        if fault.deed is not FaultAction.HOLD:
                            self._pending.remove(fault)
                        fault.reached.set()
                        return fault
        return None
