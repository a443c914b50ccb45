"""Faults on demand: what a test asks the stand-in to do wrong, and when."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from syncd.sandbox.redshift.refusal import INTERNAL

COPY_PATTERN: Final = r"^\s*copy\b"
COMMIT_PATTERN: Final = r"^\s*(commit|end)\b"


class FaultTiming(StrEnum):
    """Before the statement is carried out, or after it was and before the client hears of it."""

    BEFORE = "before"
    AFTER = "after"


class FaultAction(StrEnum):
    DROP = "drop"
    DELAY = "delay"
    FAIL = "fail"
    HOLD = "hold"


@dataclass(slots=True, eq=False)
class StatementFault:
    """One fault for the n-th statement, from now on, whose text matches; it happens once."""

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
        """Return when the fault has happened; a held statement then stands still.

        Raises:
            TimeoutError: it did not happen in time.
        """
        if not self.reached.wait(timeout):
            raise TimeoutError(f"no statement met the fault {self.deed} on {self.statement!r} in {timeout} s")

    def release(self) -> None:
        """Let a held statement go on."""
        self.released.set()


class FaultInjector:
    """Every fault asked for and not yet met; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[StatementFault] = []
        self._thawed = threading.Event()
        self._thawed.set()
        self._open = threading.Event()
        self._open.set()
        self.closed = threading.Event()  # the server's word on its port, as is `listening`
        self.listening = threading.Event()

    def drop(
        self, statement: str = COMMIT_PATTERN, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1
    ) -> StatementFault:
        """Cut the connection; before: the statement is not carried out; after: it is, and no answer comes."""
        return self.inject(StatementFault(FaultAction.DROP, statement, when, nth))

    def delay(
        self, statement: str, seconds: float, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1
    ) -> StatementFault:
        return self.inject(StatementFault(FaultAction.DELAY, statement, when, nth, seconds=seconds))

    def hold(self, statement: str, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1) -> StatementFault:
        """Stand still at the statement until the fault is released."""
        return self.inject(StatementFault(FaultAction.HOLD, statement, when, nth))

    def fail(
        self, statement: str, message: str, *, code: str = INTERNAL, detail: str = "", nth: int = 1
    ) -> StatementFault:
        """Answer with an error instead of carrying the statement out; its transaction has failed then."""
        return self.inject(
            StatementFault(FaultAction.FAIL, statement, nth=nth, code=code, message=message, detail=detail)
        )

    def fail_copy(self, message: str, *, nth: int = 1, code: str = INTERNAL, detail: str = "") -> StatementFault:
        return self.fail(COPY_PATTERN, message, code=code, detail=detail, nth=nth)

    def fail_with_conflict(self, statement: str = COMMIT_PATTERN, *, nth: int = 1) -> StatementFault:
        """Error 1023: a serializable isolation violation."""
        detail = "Serializable isolation violation on table in Redshift"
        return self.fail(statement, "1023", detail=detail, nth=nth)

    def freeze(self) -> None:
        """Answer nobody, and read from nobody, until `thaw`; connections stay open."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def refuse_connections(self) -> None:
        """Turn new connections away; those that stand are left alone."""
        self._open.clear()

    def accept_connections(self) -> None:
        self._open.set()

    def wait_refusing(self, timeout: float = 60.0) -> None:
        """Return when the port is closed."""
        if not self.closed.wait(timeout):
            raise TimeoutError("the port did not close")

    def wait_listening(self, timeout: float = 60.0) -> None:
        """Return when the port is open."""
        if not self.listening.wait(timeout):
            raise TimeoutError("the port did not open")

    def clear(self) -> None:
        """Forget every fault; whatever was held or frozen goes on."""
        with self._lock:
            asked, self._pending = self._pending, []
        for fault in asked:
            fault.release()
        self.thaw()
        self.accept_connections()

    def inject(self, fault: StatementFault) -> StatementFault:
        re.compile(fault.statement)
        with self._lock:
            self._pending.append(fault)
        return fault

    @property
    def is_accepting(self) -> bool:
        return self._open.is_set()

    def wait_accepting(self, seconds: float) -> None:
        self._open.wait(seconds)

    def wait_thawed(self) -> None:
        self._thawed.wait()

    def take_due(self, sql: str, when: FaultTiming) -> StatementFault | None:
        """The fault that this statement meets now; it is spent by that."""
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
