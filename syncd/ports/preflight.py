"""What was looked at before the first run, what was found, and what would mend it."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from syncd.errors import to_hinted_error
from watermarks.errors import HintedError

MAX_CLOCK_SKEW: Final = timedelta(seconds=5)
"""Clocks that are further apart are told of: what is shown as a lag is then wrong by as much."""


class CheckStatus(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105  # no password
    WARN = "warn"
    """It works, and something is worse than it could be."""
    FAIL = "fail"


class CheckedSide(StrEnum):
    """Where a check looks."""

    HOST = "host"
    SOURCE = "source"
    LAKE = "lake"
    WAREHOUSE = "warehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check and how it ended."""

    side: CheckedSide
    name: str
    """Of several sources or warehouses; of a host and a lake there is one."""
    check: str
    status: CheckStatus
    message: str
    remedy: str = ""
    """A statement, policy or line of the configuration to paste."""
    error: HintedError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """How far a side's clock is ahead of this host's, and how exactly that is known."""

    ahead: timedelta
    uncertainty: timedelta


@dataclass(kw_only=True)
class CheckSheet:
    """What is found at one side, in the order in which it was looked at; written by one thread."""

    side: CheckedSide
    name: str = ""
    results: list[CheckResult] = field(default_factory=list[CheckResult])

    def add_pass(self, check: str, message: str) -> None:
        self._add(check, CheckStatus.PASS, message)

    def add_warning(self, check: str, message: str, remedy: str = "") -> None:
        self._add(check, CheckStatus.WARN, message, remedy)

    def add_failure(self, check: str, message: str, remedy: str = "", *, error: HintedError | None = None) -> None:
        self._add(check, CheckStatus.FAIL, message, remedy, error)

    def has_passed(self, check: str) -> bool:
        """Whether a check has passed, or nearly."""
        return any(one.check == check and one.status is not CheckStatus.FAIL for one in self.results)

    @contextmanager
    def record_errors(self, check: str, *, remedy: str = "") -> Generator[None]:
        """A check: what goes wrong inside is its end, and hides no other."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # an error that nobody foresaw is told as the bug it is
            told = to_hinted_error(error)
            self.add_failure(check, told.message, remedy or told.hint, error=told)

    def check_clock(self, ask: Callable[[], datetime], *, step: timedelta, now: Callable[[], datetime]) -> None:
        """Compare the side's clock, which shows steps of that size, with this host's."""
        before = now()
        shown = ask()
        offset = compute_clock_offset(before, shown, now(), step=step)
        told = f"{format_clock_offset(offset)} this host's"
        if abs(offset.ahead) - offset.uncertainty > MAX_CLOCK_SKEW:
            return self.add_warning(
                "clock", told, "timedatectl set-ntp true  # no row hangs on it, but lags are shown wrong"
            )
        return self.add_pass("clock", told)

    def _add(
        self, check: str, status: CheckStatus, message: str, remedy: str = "", error: HintedError | None = None
    ) -> None:
        found = CheckResult(
            side=self.side, name=self.name, check=check, status=status, message=message, remedy=remedy, error=error
        )
        self.results.append(found)


def compute_clock_offset(before: datetime, shown: datetime, after: datetime, *, step: timedelta) -> ClockOffset:
    """How far a clock is ahead that was asked between two readings of one's own."""
    middle = before + (after - before) / 2
    return ClockOffset(ahead=shown + step / 2 - middle, uncertainty=(after - before) / 2 + step / 2)


def is_loopback_host(host: str) -> bool:
    """Whether what travels to a host never leaves this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def format_clock_offset(offset: ClockOffset) -> str:
    seconds = offset.ahead.total_seconds()
    word = "ahead of" if seconds > 0 else "behind"
    return f"{abs(seconds):.1f} s {word} (give or take {offset.uncertainty.total_seconds():.1f} s)"


def count_by_status(results: Sequence[CheckResult]) -> dict[CheckStatus, int]:
    return {state: sum(one.status is state for one in results) for state in CheckStatus}
