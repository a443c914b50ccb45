"""What was looked at before the first run, what was found, and what would mend it."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from syncd.errors import hinted
from watermarks.errors import HintedError

NOTICED: Final = timedelta(seconds=5)
"""Clocks that are further apart are told of: what is shown as a lag is then wrong by as much."""


class State(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105  # no password
    WARN = "warn"
    """It works, and something is worse than it could be."""
    FAIL = "fail"


class Side(StrEnum):
    """Where a check looks."""

    HOST = "host"
    SOURCE = "source"
    LAKE = "lake"
    WAREHOUSE = "warehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check and how it ended."""

    side: Side
    name: str
    """Of several sources or warehouses; of a host and a lake there is one."""
    check: str
    state: State
    told: str
    remedy: str = ""
    """A statement, policy or line of the configuration to paste."""
    error: HintedError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How far a side's clock is ahead of this host's, and how exactly that is known."""

    ahead: timedelta
    within: timedelta


@dataclass(kw_only=True)
class Sheet:
    """What is found at one side, in the order in which it was looked at; written by one thread."""

    side: Side
    name: str = ""
    findings: list[Finding] = field(default_factory=list[Finding])

    def good(self, check: str, told: str) -> None:
        self._add(check, State.PASS, told)

    def doubt(self, check: str, told: str, remedy: str = "") -> None:
        self._add(check, State.WARN, told, remedy)

    def bad(self, check: str, told: str, remedy: str = "", *, error: HintedError | None = None) -> None:
        self._add(check, State.FAIL, told, remedy, error)

    def fits(self, check: str) -> bool:
        """Whether a check has passed, or nearly."""
        return any(one.check == check and one.state is not State.FAIL for one in self.findings)

    @contextmanager
    def checking(self, check: str, *, remedy: str = "") -> Generator[None]:
        """A check: what goes wrong inside is its end, and hides no other."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # an error that nobody foresaw is told as the bug it is
            told = hinted(error)
            self.bad(check, told.message, remedy or told.hint, error=told)

    def clock(self, ask: Callable[[], datetime], *, step: timedelta, now: Callable[[], datetime]) -> None:
        """Compare the side's clock, which shows steps of that size, with this host's."""
        before = now()
        shown = ask()
        offset = offset_of(before, shown, now(), step=step)
        told = f"{told_of(offset)} this host's"
        if abs(offset.ahead) - offset.within > NOTICED:
            return self.doubt("clock", told, "timedatectl set-ntp true  # no row hangs on it, but lags are shown wrong")
        return self.good("clock", told)

    def _add(self, check: str, state: State, told: str, remedy: str = "", error: HintedError | None = None) -> None:
        found = Finding(side=self.side, name=self.name, check=check, state=state, told=told, remedy=remedy, error=error)
        self.findings.append(found)


def offset_of(before: datetime, shown: datetime, after: datetime, *, step: timedelta) -> Offset:
    """How far a clock is ahead that was asked between two readings of one's own."""
    middle = before + (after - before) / 2
    return Offset(ahead=shown + step / 2 - middle, within=(after - before) / 2 + step / 2)


def near(host: str) -> bool:
    """Whether what travels to a host never leaves this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def told_of(offset: Offset) -> str:
    seconds = offset.ahead.total_seconds()
    word = "ahead of" if seconds > 0 else "behind"
    return f"{abs(seconds):.1f} s {word} (give or take {offset.within.total_seconds():.1f} s)"


def counted(findings: Sequence[Finding]) -> dict[State, int]:
    return {state: sum(one.state is state for one in findings) for state in State}
