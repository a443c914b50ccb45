"""Results of the checks before the first run, each with a remedy."""

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
"""Larger differences of clocks are reported: lags are shown wrong by as much."""


class CheckStatus(StrEnum):
    """Result of a check."""

    PASS = "pass"  # noqa: S105  # no password
    WARN = "warn"
    """It works, but not as well as it could."""
    FAIL = "fail"


class CheckedSide(StrEnum):
    """Side that a check is about."""

    HOST = "host"
    SOURCE = "source"
    LAKE = "lake"
    WAREHOUSE = "warehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check and its result."""

    side: CheckedSide
    name: str
    """Name of the source or warehouse; empty for the host and the lake."""
    check: str
    status: CheckStatus
    message: str
    remedy: str = ""
    """Statement, policy or configuration line to paste."""
    error: HintedError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """Lead of a side's clock over this host's, and its uncertainty."""

    ahead: timedelta
    uncertainty: timedelta


@dataclass(kw_only=True)
class CheckSheet:
    """Results of one side, in the order of its checks; written by one thread."""

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
        """Return whether a check ended with a pass or a warning."""
        return any(result.check == check and result.status is not CheckStatus.FAIL for result in self.results)

    @contextmanager
    def record_errors(self, check: str, *, remedy: str = "") -> Generator[None]:
        """Record an error of the block as the failure of the check, so that the next checks still run."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # an unexpected error is reported as a bug
            failure = to_hinted_error(error)
            self.add_failure(check, failure.message, remedy or failure.hint, error=failure)

    def check_clock(self, ask: Callable[[], datetime], *, step: timedelta, now: Callable[[], datetime]) -> None:
        """Compare the side's clock, which has steps of this size, with this host's."""
        before = now()
        side_time = ask()
        offset = compute_clock_offset(before, side_time, now(), step=step)
        message = f"{format_clock_offset(offset)} this host's"
        if abs(offset.ahead) - offset.uncertainty > MAX_CLOCK_SKEW:
            return self.add_warning(
                "clock", message, "timedatectl set-ntp true  # no row depends on it, but lags are shown wrong"
            )
        return self.add_pass("clock", message)

    def _add(
        self, check: str, status: CheckStatus, message: str, remedy: str = "", error: HintedError | None = None
    ) -> None:
        result = CheckResult(
            side=self.side, name=self.name, check=check, status=status, message=message, remedy=remedy, error=error
        )
        self.results.append(result)


def compute_clock_offset(before: datetime, shown: datetime, after: datetime, *, step: timedelta) -> ClockOffset:
    """Return the lead of a clock that was read between two readings of this host's."""
    middle = before + (after - before) / 2
    return ClockOffset(ahead=shown + step / 2 - middle, uncertainty=(after - before) / 2 + step / 2)


def is_loopback_host(host: str) -> bool:
    """Return whether traffic to a host never leaves this machine."""
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
